"""The time of a training step of a GPT-2 as nanoGPT has it (12 layers, 12 heads of 64, 1024 tokens,
batch 12, bf16 under autocast, fused AdamW), with attention by attnpress and by PyTorch's
scaled_dot_product_attention: its flash backend, FlashAttention-2, and cuDNN's.

    python bench/training_step.py [--compile] [--ways attnpress flash cudnn] [--batch 12]
                                  [--rounds 5] [--steps 4]

The ways take turns, `--steps` steps each, `--rounds` times; a step is forward, backward, and the
optimizer's, from one synchronization with the device to the next. Prints each way's median, its
tokens a second and its part of the first way's time, and the losses of the first step and of the
last one timed; the ways begin with the same weights. Compiled, each model must be one graph. On
the CPU a tiny model runs instead, in fp32, so that the script can be tried.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import attnpress

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LAYERS, HEADS, WIDTH, SEQLEN, VOCABULARY = (
    (12, 12, 768, 1024, 50304) if DEVICE == "cuda" else (2, 2, 64, 64, 128)
)
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def by_attnpress(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return attnpress.flash_attn_func(q, k, v, causal=True)


def by_sdpa(backend: SDPBackend) -> Attention:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            out = scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True
            )
        return out.transpose(1, 2)

    return attend


WAYS: dict[str, tuple[str, Attention]] = {
    "attnpress": ("attnpress", by_attnpress),
    "flash": ("SDPA, flash (FA2)", by_sdpa(SDPBackend.FLASH_ATTENTION)),
    "cudnn": ("SDPA, cuDNN", by_sdpa(SDPBackend.CUDNN_ATTENTION)),
}


class Block(nn.Module):
    def __init__(self, attend: Attention) -> None:
        super().__init__()
        self.attend = attend
        self.norm_1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm_2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        qkv = self.qkv(self.norm_1(x)).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
        x = x + self.out(self.attend(*qkv.unbind(2)).reshape(x.shape))
        return x + self.down(gelu(self.up(self.norm_2(x))))


class Model(nn.Module):
    def __init__(self, attend: Attention) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(SEQLEN, WIDTH)
        self.blocks = nn.ModuleList(Block(attend) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def trainer(attend: Attention, ids: torch.Tensor, compiled: bool) -> Callable[[], torch.Tensor]:
    """A step that returns its loss; weights are the same for every way."""
    torch.manual_seed(0)
    model = Model(attend).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=DEVICE == "cuda")
    run = torch.compile(model, fullgraph=True) if compiled else model

    def step() -> torch.Tensor:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            loss = run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def timed(step: Callable[[], torch.Tensor], steps: int) -> list[float]:
    """Milliseconds of each."""
    synchronize = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None
    found = []
    for _ in range(steps):
        synchronize()
        begin = time.perf_counter()
        step()
        synchronize()
        found.append((time.perf_counter() - begin) * 1e3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    torch.manual_seed(1)
    ids = torch.randint(VOCABULARY, (options.batch, SEQLEN + 1), device=DEVICE)
    steps = {}
    for name, attend in (WAYS[way] for way in options.ways):
        try:
            steps[name] = trainer(attend, ids, options.compile)
            begin = time.perf_counter()
            loss = steps[name]().item()
            took = time.perf_counter() - begin
            print(f"{name}: loss {loss:.6f}, first step {took:.1f} s", flush=True)
        except RuntimeError as error:
            steps.pop(name, None)
            print(f"{name}: {str(error).splitlines()[0]}", flush=True)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        timed(step, 3)
    for _ in range(options.rounds):
        for name, step in steps.items():
            times[name] += timed(step, options.steps)
    tokens = options.batch * SEQLEN
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, found in times.items():
        print(
            f"{name:20} {medians[name]:8.2f} ms a step [{min(found):.2f}, {max(found):.2f}], "
            f"{tokens / medians[name] * 1e3:,.0f} tokens a second, "
            f"{medians[name] / next(iter(medians.values())):.3f} of the first, "
            f"loss {steps[name]().item():.6f} at last",
            flush=True,
        )


if __name__ == "__main__":
    main()
