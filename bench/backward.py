"""The backward pass beside its peers, in one process: `python bench/backward.py`, or `python
bench/compare.py --backward`, on a GPU, from the root of the repository.

Each line is a shape: TFLOP/s of attnpress, of attnpress deterministic, of PyTorch's
FlashAttention-2 and cuDNN backends and, where flash_attn_interface can be imported, of
FlashAttention-3, deterministic too where it has such a kernel. Operations are 2.5 times those of
the forward pass, half if causal; kernels before and after the main one are in the time. The
libraries take turns, in a new random order each round; the median of device events counts. The
gradients of every line are checked once: on the first batch and key head against float64, at twice
the error of the plain algorithm in the dtype.

With --build PATH another build of attnpress takes part, as "build".

With --memory the MB beyond inputs and gradients that a call has at once stand below each line, as
PyTorch's allocator sees them.

With --random N the shapes are drawn by --seed, as compare.py draws them. With --window LEFT queries
see so many keys before theirs, and no later one.

With --lengths each line is a ragged batch instead, one of bench/ragged.py's six sets or
COUNTxLENGTH. Operations are those of the lengths themselves."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

import attnpress
from bench import libraries
from bench.cases import Case, random_cases
from bench.ragged import HEADS, SETS, lengths_of
from bench.timing import device_name

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:
    varlen_attn = None
try:
    import flash_attn_interface
except ImportError:
    flash_attn_interface = None

DIMS = ("64", "96", "128", "192", "256")
SEQLENS = (512, 1024, 4096, 16384)
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
TOKENS, WIDTH = 16384, 2048  # of a batch; heads * head dim
FLASH3_DETERMINISTIC = 192  # the largest head dim at which FlashAttention-3 can be
SHAPE_WIDTH = 64
CHECKED_SEQLEN = 4096  # float64 scores of one head are at most so many squared
SLEEP_CYCLES = 1_000_000  # of the GPU, for each call before a round: some 0.6 ms
Call = Callable[[], Sequence[torch.Tensor]]


class Shape:
    """Tensors of one case: (batch, seqlen, heads, head dim), and what the forward pass gave.
    `seqlen_k`: keys, if they are not as many; `window`: of a causal mask, keys before a query's own
    that it sees, -1: all."""

    def __init__(
        self, batch: int, seqlen: int, heads: int, kv_heads: int, dims: tuple[int, int], dtype,
        causal: bool, seqlen_k: int = 0, window: int = -1,
    ) -> None:  # fmt: skip
        seqlen_k = seqlen_k or seqlen
        make = lambda n, h, d: torch.randn(batch, n, h, d, device="cuda").to(dtype)  # noqa: E731
        self.mask = {"causal": causal, "window_size": (window, 0 if window >= 0 else -1)}
        self.causal, self.window = causal, window
        self.q, self.k = make(seqlen, heads, dims[0]), make(seqlen_k, kv_heads, dims[0])
        self.v, self.dout = make(seqlen_k, kv_heads, dims[1]), make(seqlen, heads, dims[1])
        self.out, self.lse, _ = attnpress.flash_attn_func(
            self.q, self.k, self.v, **self.mask, return_attn_probs=True
        )
        pairs = float(seqlen * seqlen_k)
        if window >= 0:
            pairs = float(sum(min(i + 1, window + 1) for i in range(seqlen)))
        elif causal:  # half, where there are as many queries as keys
            pairs -= seqlen**2 / 2
        self.flops = 2.5 * 2 * batch * heads * pairs * sum(dims)


def ours(s: Shape, deterministic: bool, package=attnpress) -> Call:
    return lambda: package.flash_attn_backward(
        s.dout, s.q, s.k, s.v, s.out, s.lse, **s.mask, deterministic=deterministic
    )


def sdpa(s: Shape, backend) -> Call:
    """PyTorch's, through autograd, on views in its order of dimensions."""
    if s.window >= 0 or (s.causal and s.q.shape[1] != s.k.shape[1]):
        raise RuntimeError("PyTorch's causal mask has other corners, and no window")
    q, k, v = (x.transpose(1, 2).detach().requires_grad_() for x in (s.q, s.k, s.v))
    with sdpa_kernel(backend):
        out = scaled_dot_product_attention(
            q, k, v, is_causal=s.causal, enable_gqa=q.shape[1] != k.shape[1]
        )
    dout = s.dout.transpose(1, 2)
    return lambda: [
        x.transpose(1, 2) for x in torch.autograd.grad(out, (q, k, v), dout, retain_graph=True)
    ]


def flash3(s: Shape, deterministic: bool = False) -> Call:
    q, k, v = (x.detach().requires_grad_() for x in (s.q, s.k, s.v))
    out = flash_attn_interface.flash_attn_func(q, k, v, **s.mask, deterministic=deterministic)
    out = out[0] if isinstance(out, tuple) else out
    return lambda: torch.autograd.grad(out, (q, k, v), s.dout, retain_graph=True)


class Batch:
    """Tensors of sequences of their own lengths: (total, heads, head dim)."""

    def __init__(self, lengths: list[int], heads: int, kv_heads: int, dim: int, dtype, causal):
        ends = torch.tensor([0, *lengths]).cumsum(0)
        self.lengths, self.causal = lengths, causal
        self.cu, self.longest = ends.int().cuda(), max(lengths)
        make = lambda h: torch.randn(sum(lengths), h, dim, device="cuda").to(dtype)  # noqa: E731
        self.q, self.k, self.v, self.dout = make(heads), make(kv_heads), make(kv_heads), make(heads)
        self.arguments = (self.cu, self.cu, self.longest, self.longest)
        self.out, self.lse, _ = attnpress.flash_attn_varlen_func(
            self.q, self.k, self.v, *self.arguments, causal=causal, return_attn_probs=True
        )
        pairs = sum(n * n for n in lengths) * heads / (2 if causal else 1)
        self.flops = 2.5 * 4 * pairs * dim

    def first(self) -> Shape:
        """The first sequence as a batch of one, which plain() looks at."""
        s = Shape.__new__(Shape)
        n = self.lengths[0]
        s.causal, s.window = self.causal, -1
        s.q, s.k, s.v, s.dout = (x[None, :n] for x in (self.q, self.k, self.v, self.dout))
        return s


def ours_ragged(s: Batch, deterministic: bool) -> Call:
    gradients = tuple(torch.empty_like(x) for x in (s.q, s.k, s.v))  # nothing lies beside sequences
    return lambda: attnpress.flash_attn_varlen_backward(
        s.dout, s.q, s.k, s.v, s.out, s.lse, *s.arguments, causal=s.causal,
        deterministic=deterministic, gradients=gradients,
    )  # fmt: skip


def recorded(s: Batch, function: Callable[..., torch.Tensor]) -> Call:
    """Another library's, through autograd."""
    leaves = [x.detach().requires_grad_() for x in (s.q, s.k, s.v)]
    out = function(*leaves)
    out = out[0] if isinstance(out, tuple) else out
    return lambda: torch.autograd.grad(out, leaves, s.dout, retain_graph=True)


def first_of(call: Call, rows: int) -> Call:
    """The gradients of the first sequence, as those of a batch of one."""
    return lambda: [x[None, :rows] for x in call()]


def contenders_of_batch(s: Batch) -> dict[str, Call]:
    makers: dict[str, Callable[[], Call]] = {
        "attnpress": lambda: ours_ragged(s, False),
        "deterministic": lambda: ours_ragged(s, True),
    }
    if varlen_attn is not None and s.q.shape[1] == s.k.shape[1]:
        window = (-1, 0) if s.causal else (-1, -1)
        makers["FA2"] = lambda: recorded(
            s, lambda *x: varlen_attn(*x, *s.arguments, window_size=window)
        )
    if flash_attn_interface is not None:
        makers["FA3"] = lambda: recorded(
            s,
            lambda *x: flash_attn_interface.flash_attn_varlen_func(
                *x, *s.arguments, causal=s.causal
            ),
        )
    found = {}
    for name, make in makers.items():
        try:
            call = make()
            call()
            torch.cuda.synchronize()
            found[name] = call
        except (RuntimeError, TypeError):  # refused, or of another version's signature
            if name in ("attnpress", "deterministic"):
                raise
    return found


def say_ratios(cells: list[dict[str, float]], names: Sequence[str], first: str) -> None:
    """How the times of the others lie over those of `first`, where a cell has both."""
    for name in names:
        if ratios := [ms[name] / ms[first] for ms in cells if {name, first} <= ms.keys()]:
            mean = statistics.geometric_mean(ratios)
            whose = "" if first == "attnpress" else f"{first} "
            print(f"{whose}of {name}: geometric mean {mean:.3f}, lowest {min(ratios):.3f}")


def measure_lengths(o: argparse.Namespace, sets: dict[str, list[int]]) -> bool:
    """The table of ragged batches; whether a gradient was wrong."""
    names = ["attnpress", "deterministic", "FA2", "FA3"]
    cells = []
    print(f"{'heads':>8}{'D':>5}{'mask':>8}{'lengths':>16}", *(f"{n:>14}" for n in names))
    wrong = False
    for heads, kv_heads, dim in o.heads or HEADS:
        for text, lengths in sets.items():
            for mask in o.masks:
                s = Batch(lengths, heads, kv_heads, dim, DTYPES[o.dtypes[0]], mask == "causal")
                calls = contenders_of_batch(s)
                times = medians(calls, o.rounds)
                cells.append(times)
                rates = {n: s.flops / ms * 1e-9 for n, ms in times.items()}
                said = ""
                if s.lengths[0] <= CHECKED_SEQLEN:
                    n = s.lengths[0]
                    calls_of_first = [first_of(calls[name], n) for name in names[:2]]
                    ratio = max(worst_ratio(s.first(), call) for call in calls_of_first)
                    wrong = wrong or not ratio <= 1.0
                    said = f"{ratio:8.2f}{'' if ratio <= 1 else ' WRONG'}"
                shown = (f"{rates[n]:14.0f}" if n in rates else f"{'-':>14}" for n in names)
                print(
                    f"{heads:>5}/{kv_heads:<2}{dim:5}{mask:>8}{text:>16}", *shown, said, flush=True
                )
                del s, calls
    say_ratios(cells, names[2:], "attnpress")
    return wrong


def contenders(s: Shape) -> dict[str, Call]:
    """Those that take the case, after a first call."""
    makers: dict[str, Callable[[], Call]] = {
        "attnpress": lambda: ours(s, False),
        "deterministic": lambda: ours(s, True),
        "FA2": lambda: sdpa(s, SDPBackend.FLASH_ATTENTION),
        "cuDNN": lambda: sdpa(s, SDPBackend.CUDNN_ATTENTION),
    }
    if flash_attn_interface is not None:
        makers["FA3"] = lambda: flash3(s)
        if s.q.shape[3] <= FLASH3_DETERMINISTIC:
            makers["FA3 determ."] = lambda: flash3(s, True)
    if libraries.has_build():
        makers["build"] = lambda: ours(s, False, libraries.build_package())
    found = {}
    for name, make in makers.items():
        try:
            call = make()
            call()
            torch.cuda.synchronize()
            found[name] = call
        except RuntimeError:  # refused, as head dims above 256 are by FA2
            if name in ("attnpress", "deterministic"):
                raise
    return found


def plain(s: Shape, dtype) -> list[torch.Tensor]:
    """Gradients of the first batch and key head by PyTorch, in a dtype."""
    group = s.q.shape[2] // s.k.shape[2]
    q, dout = s.q[0, :, :group].to(dtype), s.dout[0, :, :group].to(dtype)
    k, v = s.k[0, :, :1].to(dtype), s.v[0, :, :1].to(dtype)
    leaves = [x.transpose(0, 1).detach().requires_grad_() for x in (q, k, v)]
    scores = leaves[0] @ leaves[1].transpose(1, 2) / q.shape[2] ** 0.5
    if s.causal:
        rows, keys = scores.shape[1:]
        seen = torch.ones(rows, keys, dtype=torch.bool, device="cuda").tril(keys - rows)
        if s.window >= 0:
            seen = seen.triu(keys - rows - s.window)
        scores = scores.masked_fill(~seen, float("-inf"))
    out = torch.softmax(scores, 2).to(dtype) @ leaves[2]
    return [x.transpose(0, 1) for x in torch.autograd.grad(out, leaves, dout.transpose(0, 1))]


def worst_ratio(s: Shape, call: Call) -> float:
    """The largest error, as a part of what is allowed."""
    exact, low = plain(s, torch.float64), plain(s, s.q.dtype)
    group = s.q.shape[2] // s.k.shape[2]
    worst = 0.0
    for gradient, heads, x, y in zip(call(), (group, 1, 1), exact, low):
        error = (gradient[0, :, :heads].double() - x).abs().max().item()
        bound = 2 * (y.double() - x).abs().max().item() + 1e-5
        worst = max(worst, error / bound)
    return worst


def medians(calls: dict[str, Call], rounds: int) -> dict[str, float]:
    """Milliseconds of a call of each."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for call in calls.values():
        call()
    for _ in range(rounds):
        random.shuffle(order)
        events = []
        torch.cuda._sleep(SLEEP_CYCLES * len(order))  # the host is ahead: its time is not counted
        for name in order:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            calls[name]()
            end.record()
            events.append((name, begin, end))
        torch.cuda.synchronize()
        for name, begin, end in events:
            times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(values) for name, values in times.items()}


def megabytes_of(call: Call) -> float:
    """What a call allocates at once, gradients left out."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gradients = sum(x.numel() * x.element_size() for x in call())
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before - gradients) * 1e-6


def grid(o: argparse.Namespace) -> Iterator[Case]:
    """As many tokens everywhere, and as much width unless --heads says otherwise."""
    some = [(h, h_kv, (dim, dim)) for h, h_kv, dim in o.heads or ()]
    if not some:
        for dims in o.dims:
            heads = max(o.group, WIDTH // dims[0] // o.group * o.group)
            some.append((heads, heads // o.group, dims))
    for heads, kv_heads, dims in some:
        for dtype in o.dtypes:
            for mask in o.masks:
                for seqlen in o.seqlens:
                    yield Case(
                        max(1, TOKENS // seqlen), heads, kv_heads, seqlen, seqlen, *dims, dtype,
                        mask == "causal",
                    )  # fmt: skip


def random_shapes(o: argparse.Namespace) -> list[Case]:
    return list(random_cases(o.random, o.seed, o.dims, o.masks, o.dtypes[:1], decode=False))


def _dims(text: str) -> tuple[int, int]:
    first, _, second = text.partition("/")
    return int(first), int(second or first)


def _heads(text: str) -> tuple[int, int, int]:
    heads, kv_heads, dim = (int(part) for part in text.split("/"))
    return heads, kv_heads, dim


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dims", nargs="+", type=_dims, default=[_dims(d) for d in DIMS])
    parser.add_argument("--seqlens", nargs="+", type=int, default=SEQLENS)
    parser.add_argument(
        "--masks", nargs="+", choices=("full", "causal"), default=["full", "causal"]
    )
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["bf16"])
    parser.add_argument("--group", type=int, default=1, help="query heads of a key head")
    parser.add_argument("--random", type=int, metavar="N", help="N random shapes, by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--window", type=int, default=-1, metavar="LEFT",
        help="keys before a query's own that it sees; with --masks causal",
    )  # fmt: skip
    parser.add_argument("--memory", action="store_true", help="and the memory of a call")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE", help="a list of what was measured")
    parser.add_argument(
        "--lengths", nargs="*", metavar="SET",
        help="ragged batches, as --sets of bench/ragged.py; none named: the six sets",
    )  # fmt: skip
    parser.add_argument(
        "--heads", nargs="+", type=_heads,
        help="in place of --dims: 32/8/128, query heads, key heads and head dim",
    )  # fmt: skip
    parser.add_argument(
        "--build", type=Path, metavar="PATH",
        help="another build's libattnpress.so, or its checkout, beside this one; not for --lengths",
    )  # fmt: skip
    o = parser.parse_args(argv)
    if o.build is not None:
        libraries.use_build(o.build)
    if o.window >= 0 and (o.random or o.masks != ["causal"]):
        parser.error("--window is for --masks causal, and not for --random")
    if o.lengths is not None:
        try:
            sets = {name: lengths_of(name) for name in o.lengths or SETS}
        except ValueError as error:
            parser.error(str(error))
        print(f"{device_name()}, backward, TFLOP/s")
        return int(measure_lengths(o, sets))
    names = ["attnpress", "deterministic", "FA2", "cuDNN"]
    names += ["FA3", "FA3 determ."] if flash_attn_interface is not None else []
    names += ["build"] if libraries.has_build() else []
    print(f"{device_name()}, backward, TFLOP/s")
    heading = f"{'shape':>{SHAPE_WIDTH}}" if o.random else f"{'dims':>8}{'mask':>8}{'S':>7}"
    print(heading, *(f"{n:>14}" for n in names), "  error/bound")
    lines, wrong = [], False
    for case in random_shapes(o) if o.random else grid(o):
        s = Shape(
            case.batch, case.seqlen_q, case.heads_q, case.heads_kv, (case.hdim, case.hdim_v),
            DTYPES[case.dtype], case.causal, case.seqlen_k, o.window,
        )  # fmt: skip
        calls = contenders(s)
        times = medians(calls, o.rounds)
        ratio = None
        if case.seqlen_k <= CHECKED_SEQLEN:
            ratio = max(worst_ratio(s, calls[n]) for n in names[:2])
            wrong = wrong or not ratio <= 1.0
        rates = {n: s.flops / ms * 1e-9 for n, ms in times.items()}
        shown = (f"{rates[n]:14.0f}" if n in rates else f"{'-':>14}" for n in names)
        said = (
            f"{case.title:>{SHAPE_WIDTH}}" if o.random
            else f"{case.hdim:>4}/{case.hdim_v:<3}{case.mask:>8}{case.seqlen_q:7}"
        )  # fmt: skip
        print(
            said, *shown,
            "" if ratio is None else f"{ratio:13.2f}{'' if ratio <= 1 else ' WRONG'}", flush=True,
        )  # fmt: skip
        if o.memory:
            said = (f"{name} {megabytes_of(call):.1f}" for name, call in calls.items())
            print("  MB beyond inputs and gradients: " + ", ".join(said), flush=True)
        lines.append(
            {"hdim": case.hdim, "hdim_v": case.hdim_v, "dtype": case.dtype, "mask": case.mask,
             "seqlen": case.seqlen_q, "seqlen_k": case.seqlen_k, "batch": case.batch,
             "heads": case.heads_q, "group": case.heads_q // case.heads_kv, "window": o.window,
             "ms": times, "tflop_s": rates, "error_of_bound": ratio}
        )  # fmt: skip
        del s, calls
    cells = [line["ms"] for line in lines]
    say_ratios(cells, names[2:], "attnpress")
    say_ratios(cells, ["FA3 determ."], "deterministic")
    for hdim in sorted({line["hdim"] for line in lines}):
        some = [line["ms"] for line in lines if line["hdim"] == hdim]
        kept = statistics.geometric_mean(ms["attnpress"] / ms["deterministic"] for ms in some)
        print(f"deterministic of attnpress, head dim {hdim}: geometric mean {kept:.3f}")
    if o.json is not None:
        document = {"machine": device_name(), "torch": torch.__version__}
        o.json.write_text(json.dumps({**document, "cells": lines}, indent=1) + "\n")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
