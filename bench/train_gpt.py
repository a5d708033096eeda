"""A small GPT trained with several attentions from the same seed, and how far their loss curves lie
from that of float32 math: `python bench/train_gpt.py`, from the root of the repository, on a GPU;
with --cpu on the CPU, where attnpress computes in float32 too and the distances only show that the
script runs.

The model has two layers of width 384, 6 heads of dimension 64 or 4 of 96, learned positions, and
predicts bytes of the repository's own texts. Weights and all but attention are float32. Attention
takes its q, k and v rounded to bf16, by attnpress and by PyTorch's FlashAttention-2 backend, or as
they are, by PyTorch's math backend. Each is started from the same weights and sees the same batches
in the same order, so that only attention differs.

Printed for each head dim: losses along the way; then of attnpress and FA2 the mean and the largest
distance from float32's curve over all steps, and that of the last tenth's means. A bf16 attention
without fault lies about as far from float32 as another does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

import attnpress

ROOT = Path(__file__).resolve().parents[1]
LAYERS, WIDTH, BYTES = 2, 384, 256
HEAD_DIMS = (64, 96)
Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def by_attnpress(dtype: torch.dtype) -> Attention:
    """q, k, v and the output: (batch, seqlen, heads, head dim)."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.to(dtype) for x in (q, k, v))
        return attnpress.flash_attn_func(q, k, v, causal=True).float()

    return attend


def by_torch(backend: SDPBackend, dtype: torch.dtype) -> Attention:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k, v = (x.to(dtype).transpose(1, 2) for x in (q, k, v))
        with sdpa_kernel(backend):
            out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).float()

    return attend


class Layer(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor, attend: Attention) -> torch.Tensor:
        """x: (batch, seqlen, WIDTH)"""
        qkv = self.qkv(self.norm_attention(x)).unflatten(2, (3, self.heads, -1))
        out = attend(*(part.contiguous() for part in qkv.unbind(2)))
        x = x + self.project(out.flatten(2))
        return x + self.mlp(self.norm_mlp(x))


class Gpt(nn.Module):
    def __init__(self, seqlen: int, heads: int) -> None:
        super().__init__()
        self.bytes, self.positions = nn.Embedding(BYTES, WIDTH), nn.Embedding(seqlen, WIDTH)
        self.layers = nn.ModuleList(Layer(heads) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, BYTES)

    def forward(self, tokens: torch.Tensor, attend: Attention) -> torch.Tensor:
        """tokens: (batch, seqlen); scores of the next byte: (batch, seqlen, BYTES)"""
        x = self.bytes(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, attend)
        return self.head(self.norm(x))


def read_text() -> torch.Tensor:
    """The repository's Markdown, in the order of its names: bytes."""
    paths = sorted(
        path for folder in (".", "docs", "bench") for path in (ROOT / folder).glob("*.md")
    )
    return torch.frombuffer(bytearray(b"".join(p.read_bytes() for p in paths)), dtype=torch.uint8)


def train(head_dim: int, attend: Attention, o: argparse.Namespace, device: str) -> torch.Tensor:
    """The loss of each step."""
    torch.manual_seed(o.seed)
    model = Gpt(o.seqlen, WIDTH // head_dim).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.rate)
    text = read_text().long()
    draw = torch.Generator().manual_seed(o.seed)
    rows = torch.arange(o.seqlen + 1)
    losses = []
    for _ in range(o.steps):
        first = torch.randint(len(text) - o.seqlen, (o.batch, 1), generator=draw)
        batch = text[first + rows].to(device)
        scores = model(batch[:, :-1], attend)
        loss = functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seqlen", type=int, default=512)
    parser.add_argument("--rate", type=float, default=3e-4, help="of AdamW")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cpu", action="store_true")
    o = parser.parse_args(argv)
    device, math = "cpu" if o.cpu else "cuda", by_torch(SDPBackend.MATH, torch.float32)
    attentions = {"float32": math, "attnpress": by_attnpress(torch.float32)}
    if not o.cpu:
        attentions["attnpress"] = by_attnpress(torch.bfloat16)
        attentions["FA2"] = by_torch(SDPBackend.FLASH_ATTENTION, torch.bfloat16)
    finite = True
    for head_dim in HEAD_DIMS:
        curves = {name: train(head_dim, attend, o, device) for name, attend in attentions.items()}
        print(f"head dim {head_dim}, {o.steps} steps of {o.batch} x {o.seqlen} bytes")
        print(f"{'step':>8}", *(f"{name:>12}" for name in curves))
        for step in sorted({*range(0, o.steps, max(1, o.steps // 5)), o.steps - 1}):
            print(f"{step:8}", *(f"{curve[step].item():12.5f}" for curve in curves.values()))
        tail = max(1, o.steps // 10)
        for name, curve in curves.items():
            if name == "float32":
                continue
            apart = (curve - curves["float32"]).abs()
            end = (curve[-tail:].mean() - curves["float32"][-tail:].mean()).abs().item()
            print(
                f"{name:>12} from float32: mean {apart.mean().item():.2e}, largest"
                f" {apart.max().item():.2e}, last tenth {end:.2e}",
                flush=True,
            )
            finite = finite and bool(curve.isfinite().all())
    return 0 if finite else 1


if __name__ == "__main__":
    sys.exit(main())
