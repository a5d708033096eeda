"""A small GPT trained with several attentions from the same seed, and how far their loss curves lie
from that of float32 math: `python bench/train_gpt.py`, from the root of the repository, on a GPU;
with --cpu on the CPU, where attnpress computes in float32 too and the distances only show that the
script runs.

The model has two layers of width 384, 6 heads of dimension 64 or 4 of 96, learned positions, and
predicts bytes of the repository's own texts. Weights and all but attention are float32. Attention
takes its q, k and v rounded to bf16, by attnpress and by PyTorch's FlashAttention-2 backend, or as
they are, by PyTorch's math backend. Each is started from the same weights and sees the same batches
in the same order, so that only attention differs.

Printed for each head dim: losses along the way; then of attnpress and FA2 the distance from
float32's curve, for each of --seeds and their geometric mean: mean and largest over all steps, mean
of the first tenth, where little has been amplified yet, and that of the last tenth's means. One
seed says little: a step that goes another way by chance is in all that follow. Last, what attention
alone adds: the relative errors of out, dq, dk and dv, against float64, at the tensors of the first
layer as float32 has trained it, rounded to bf16. A bf16 attention without fault lies about as far
from float32 as another does."""

from __future__ import annotations

import argparse
import math
import sys
import time
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
DISTANCES = ("mean", "largest", "first tenth", "last tenth")
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


class Watched:
    """An attention whose last call in the first layer is kept: q, k, v and the gradient of out."""

    def __init__(self, attend: Attention) -> None:
        self.attend, self.calls = attend, 0
        self.tensors: tuple[torch.Tensor, ...] = ()

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = self.attend(q, k, v)
        if self.calls % LAYERS == 0:
            out.retain_grad()
            self.tensors = (q, k, v, out)
        self.calls += 1
        return out

    def seen(self) -> tuple[torch.Tensor, ...]:
        q, k, v, out = self.tensors
        return q.detach(), k.detach(), v.detach(), out.grad


def train(head_dim: int, attend: Attention, o: argparse.Namespace, seed: int) -> torch.Tensor:
    """The loss of each step."""
    device = "cpu" if o.cpu else "cuda"
    torch.manual_seed(seed)
    model = Gpt(o.seqlen, WIDTH // head_dim).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=o.rate)
    text = read_text().long()
    draw = torch.Generator().manual_seed(seed)
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


def distances(curve: torch.Tensor, other: torch.Tensor) -> tuple[float, ...]:
    """As DISTANCES names them."""
    apart, tenth = (curve - other).double().abs(), max(1, len(curve) // 10)
    end = (curve[-tenth:].double().mean() - other[-tenth:].double().mean()).abs()
    return tuple(x.item() for x in (apart.mean(), apart.max(), apart[:tenth].mean(), end))


def gradients(attend: Attention, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """out, dq, dk, dv"""
    *inputs, dout = tensors
    inputs = [x.clone().requires_grad_() for x in inputs]
    out = attend(*inputs)
    return [out.detach(), *torch.autograd.grad(out, inputs, dout.to(out.dtype))]


def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """In float64."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    seen = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).tril()
    return (scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v).transpose(1, 2)


def print_errors(attentions: dict[str, Attention], tensors: Sequence[torch.Tensor]) -> None:
    """tensors: (batch, seqlen, heads, head dim), of which 4 batches are enough."""
    rounded = [x[:4].bfloat16().float() for x in tensors]
    wanted = gradients(exact, rounded)
    print(f"{'relative error of':>18}", *(f"{x:>9}" for x in ("out", "dq", "dk", "dv")))
    for name, attend in attentions.items():
        found = gradients(attend, rounded)
        errors = ((a.double() - b).norm() / b.norm() for a, b in zip(found, wanted, strict=True))
        print(f"{name:>18}", *(f"{x.item():9.2e}" for x in errors), flush=True)


def print_curves(curves: dict[str, torch.Tensor], steps: int) -> None:
    print(f"{'step':>8}", *(f"{name:>12}" for name in curves))
    for step in sorted({*range(0, steps, max(1, steps // 5)), steps - 1}):
        print(f"{step:8}", *(f"{curve[step].item():12.5f}" for curve in curves.values()))


def compare(head_dim: int, attentions: dict[str, Attention], o: argparse.Namespace) -> bool:
    """Trains and prints; whether every loss was finite."""
    begin, finite = time.perf_counter(), True
    found: dict[str, list[tuple[float, ...]]] = {}
    watched = Watched(attentions["float32"])
    print(f"head dim {head_dim}, {o.steps} steps of {o.batch} x {o.seqlen} bytes")
    for seed in o.seeds:
        ways = {**attentions, "float32": watched}
        curves = {name: train(head_dim, attend, o, seed) for name, attend in ways.items()}
        if seed == o.seeds[0]:
            print_curves(curves, o.steps)
            print(f"{'from float32':>18} {'seed':>5}", *(f"{name:>12}" for name in DISTANCES))
        for name, curve in curves.items():
            finite = finite and bool(curve.isfinite().all())
            if name == "float32":
                continue
            apart = distances(curve, curves["float32"])
            found.setdefault(name, []).append(apart)
            print(f"{name:>18} {seed:5}", *(f"{x:12.2e}" for x in apart), flush=True)
    for name, rows in found.items():
        means = (math.exp(sum(map(math.log, x)) / len(x)) if all(x) else 0.0 for x in zip(*rows))
        print(f"{name:>18}  mean", *(f"{x:12.2e}" for x in means))
    others = {name: attend for name, attend in attentions.items() if name != "float32"}
    print_errors(others, watched.seen())
    print(f"{time.perf_counter() - begin:.1f} s", flush=True)
    return finite


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seqlen", type=int, default=512)
    parser.add_argument("--rate", type=float, default=3e-4, help="of AdamW")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--dims", type=int, nargs="+", choices=HEAD_DIMS, default=HEAD_DIMS)
    parser.add_argument("--cpu", action="store_true")
    o = parser.parse_args(argv)
    attentions = {"float32": by_torch(SDPBackend.MATH, torch.float32)}
    attentions["attnpress"] = by_attnpress(torch.float32 if o.cpu else torch.bfloat16)
    if not o.cpu:
        attentions["FA2"] = by_torch(SDPBackend.FLASH_ATTENTION, torch.bfloat16)
    finite = [compare(head_dim, attentions, o) for head_dim in o.dims]
    return 0 if all(finite) else 1


if __name__ == "__main__":
    sys.exit(main())
