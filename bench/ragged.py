"""Ragged batches in one call: `python bench/ragged.py`, on a GPU, from the root of the repository.

Each line is a set of lengths and a mask, with a column for each shape of heads: TFLOP/s, and what
they are of FlashAttention-3's in this process where flash_attn_interface can be imported ("x"), or
else of those in the table below ("t"). Operations are those of the lengths themselves, 4 H D sum
S^2, half if causal. Of short sequences "c" is the share of a copy's bandwidth that the call's own
bytes have, q, k, v and out once, and "b" what a call would be of FlashAttention-3's in this process
whose bytes had BYTES_BAR of it. Device events time rounds of calls, medians count, and sampled rows
are held to float64 first."""

from __future__ import annotations

import argparse
import math
import random
import re
import statistics
import sys
from pathlib import Path

import torch

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

import attnpress
from bench.timing import copy_rate, device_name, medians

try:
    import flash_attn_interface
except ImportError:
    flash_attn_interface = None

HEADS = ((32, 8, 128), (16, 16, 128), (64, 8, 64))  # query heads, key heads, head dim


def lognormal(count: int, mean: float, least: int, most: int, seed: int) -> list[int]:
    """Lengths whose logarithms are normal, with a deviation of 0.8, clipped."""
    draw = random.Random(seed)
    center = math.log(mean) - 0.32
    return [min(max(round(draw.lognormvariate(center, 0.8)), least), most) for _ in range(count)]


SETS = {
    "64x64..4096": lognormal(64, 1000, 64, 4096, 0),
    "512x128": [128] * 512,
    "16x4096": [4096] * 16,
    "1x32768": [32768],
    "256xmean200": lognormal(256, 200, 1, 4096, 1),
    "packed docs 2K": lognormal(16, 2000, 64, 16384, 2),
}
SHORT = ("512x128", "256xmean200")  # sets whose bytes may take as long as their products
BYTES_BAR = 0.85  # of a copy's bandwidth: what is asked of a call that nothing else bounds
EQUAL = re.compile(r"(\d+)x(\d+)")  # any other set: so many sequences of that length
# flash_attn_varlen_func of FlashAttention-3 on one H200 (bf16, 2026-11-21, lengths of the same
# kind): TFLOP/s by heads, full and causal.
FLASH_ATTENTION_3 = {
    "64x64..4096": ((575, 599, 428), (558, 509, 371)),
    "512x128": ((180, 206, 124), (98, 107, 73)),
    "16x4096": ((542, 603, 462), (595, 616, 462)),
    "1x32768": ((627, 664, 504), (653, 644, 517)),
    "256xmean200": ((293, 275, 218), (174, 155, 137)),
    "packed docs 2K": ((563, 642, 460), (606, 586, 445)),
}


# Batches of which a schedule's share is timed, and the heads: few, so that the calls are short.
SCHEDULED = {
    "256 x 1024": [1024] * 256,
    "8192 x 34": [34] * 8192,
    "8192 x 4 to 64": [4 + i * 7919 % 61 for i in range(8192)],
    "65536 x 4": [4] * 65536,
}
SCHEDULED_HEADS = (2, 1, 64)


class Batch:
    """q, k, v of sequences one after the other, and out."""

    def __init__(self, lengths: list[int], heads: tuple[int, int, int]) -> None:
        heads_q, heads_kv, hdim = heads
        sums = [0]
        for length in lengths:
            sums.append(sums[-1] + length)
        self.sums, self.longest = sums, max(lengths)
        self.cu_seqlens = torch.tensor(sums, dtype=torch.int32, device="cuda")
        self.q, self.k, self.v = (
            torch.randn(sums[-1], n, hdim, device="cuda", dtype=torch.bfloat16)
            for n in (heads_q, heads_kv, heads_kv)
        )
        self.out = torch.full_like(self.q, math.nan)

    def moved_bytes(self) -> int:
        return sum(x.numel() * x.element_size() for x in (self.q, self.k, self.v, self.out))

    def run(self, causal: bool, schedule: torch.Tensor | None = None) -> None:
        attnpress.flash_attn_varlen_func(
            self.q, self.k, self.v, self.cu_seqlens, self.cu_seqlens, self.longest, self.longest,
            causal=causal, out=self.out, schedule=schedule,
        )  # fmt: skip

    def run_flash3(self, causal: bool) -> None:
        flash_attn_interface.flash_attn_varlen_func(
            self.q, self.k, self.v, self.cu_seqlens, self.cu_seqlens, self.longest, self.longest,
            causal=causal,
        )  # fmt: skip

    def run_dense(self, causal: bool) -> None:
        shape = (len(self.sums) - 1, self.longest)
        q, k, v = (x.unflatten(0, shape) for x in (self.q, self.k, self.v))
        attnpress.flash_attn_func(q, k, v, causal=causal)

    def schedule(self) -> torch.Tensor:
        return attnpress.forward_schedule(
            self.longest, self.longest, cu_seqlens_q=self.cu_seqlens, cu_seqlens_k=self.cu_seqlens
        )

    def graph(self, schedule: torch.Tensor | None) -> torch.cuda.CUDAGraph:
        """Twenty causal calls, which the host then costs nothing."""
        self.run(True, schedule)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(20):
                self.run(True, schedule)
        return graph

    def check(self, causal: bool) -> float:
        """The largest error of sampled rows against float64, over what rounding leaves."""
        self.run(causal)
        if not torch.isfinite(self.out).all():
            return math.inf
        worst = 0.0
        group = self.q.shape[1] // self.k.shape[1]
        last = len(self.sums) - 2
        for b in sorted({0, last // 2, last}):
            begin, end = self.sums[b], self.sums[b + 1]
            head = (7 * b + 3) % self.q.shape[1]
            rows = sorted({0, (end - begin) // 3, end - begin - 1})
            k, v = (x[begin:end, head // group].double() for x in (self.k, self.v))
            for row in rows:
                keys = row + 1 if causal else end - begin
                scores = k[:keys] @ self.q[begin + row, head].double() * k.shape[1] ** -0.5
                expected = torch.softmax(scores, 0) @ v[:keys]
                error = (self.out[begin + row, head].double() - expected).abs().max()
                worst = max(worst, error.item() / (expected.abs().max().item() * 2**-7 + 1e-5))
        return worst


def time_schedules(rounds: int) -> None:
    """What a call takes, and one that finds its schedule ready, in microseconds."""
    print(f"{'batch':16}{'call':>12}{'ready':>12}{'less':>10}   us")
    for name, lengths in SCHEDULED.items():
        batch = Batch(lengths, SCHEDULED_HEADS)
        schedule = batch.schedule()
        batch.run(True)
        expected = batch.out.clone()
        graphs = {"call": batch.graph(None), "ready": batch.graph(schedule)}
        batch.out.fill_(math.nan)
        graphs["ready"].replay()
        same = "" if torch.equal(batch.out, expected) else "   WRONG"
        times = medians({key: [graph.replay] for key, graph in graphs.items()}, 10, rounds)
        call, ready = times["call"] / 20, times["ready"] / 20
        print(f"{name:16}{call:12.1f}{ready:12.1f}{call - ready:10.1f}{same}", flush=True)


def lengths_of(name: str) -> list[int]:
    """Those of a word of --sets."""
    if name in SETS:
        return SETS[name]
    found = EQUAL.fullmatch(name)
    if found is None or "0" in found.groups():
        raise ValueError(f"{name} is none of {', '.join(SETS)}, nor COUNTxLENGTH")
    return [int(found[2])] * int(found[1])


def operations_of(batch: Batch, causal: bool) -> float:
    heads, hdim = batch.q.shape[1:]
    squares = sum((end - begin) ** 2 for begin, end in zip(batch.sums, batch.sums[1:]))
    return 4 * heads * hdim * squares / (2 if causal else 1)


def measure(batch: Batch, causal: bool, dense: bool, rounds: int) -> dict[str, float]:
    """TFLOP/s of the ragged call and of those that it stands beside."""
    lengths = [end - begin for begin, end in zip(batch.sums, batch.sums[1:])]
    operations = operations_of(batch, causal)
    calls = {"ragged": [lambda: batch.run(causal)]}
    if dense and len(set(lengths)) == 1:
        calls["dense"] = [lambda: batch.run_dense(causal)]
    if flash_attn_interface is not None:
        calls["flash3"] = [lambda: batch.run_flash3(causal)]
    times = medians(calls, max(3, min(20, int(2e13 / operations))), rounds)
    return {name: operations / microseconds * 1e-6 for name, microseconds in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--sets", nargs="+", default=list(SETS), metavar="SET",
        help="of the six, or COUNTxLENGTH: equal lengths",
    )  # fmt: skip
    parser.add_argument(
        "--masks", nargs="+", choices=("full", "causal"), default=["full", "causal"]
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dense", action="store_true", help="equal lengths also as a dense call")
    parser.add_argument("--schedules", action="store_true", help="what a ready schedule saves")
    options = parser.parse_args()
    try:
        sets = {name: lengths_of(name) for name in options.sets}
    except ValueError as error:
        parser.error(str(error))
    print(device_name())
    if options.schedules:
        time_schedules(options.rounds)
        return
    copy = copy_rate() if set(sets) & set(SHORT) else math.nan
    print(f"{'set':16}{'mask':8}" + "".join(f"{f'{q}/{kv} D {d}':>30}" for q, kv, d in HEADS))
    ratios, of_dense = [], []
    for name, lengths in sets.items():
        for mask in options.masks:
            causal, cells = mask == "causal", ""
            for column, heads in enumerate(HEADS):
                batch = Batch(lengths, heads)
                error = batch.check(causal)
                rates = measure(batch, causal, options.dense, options.rounds)
                cell = f"{rates['ragged']:.0f}"
                if "flash3" in rates:
                    ratios.append(rates["ragged"] / rates["flash3"])
                    cell += f" {ratios[-1]:.2f}x"
                elif name in FLASH_ATTENTION_3:
                    ratios.append(rates["ragged"] / FLASH_ATTENTION_3[name][causal][column])
                    cell += f" {ratios[-1]:.2f}t"
                if "dense" in rates:
                    of_dense.append(rates["ragged"] / rates["dense"])
                    cell += f" {of_dense[-1]:.3f}d"
                if name in SHORT:
                    bytes_per_operation = batch.moved_bytes() / operations_of(batch, causal)
                    cell += f" {rates['ragged'] * bytes_per_operation / copy:.2f}c"
                    if "flash3" in rates:
                        of_copy = rates["flash3"] * bytes_per_operation / copy
                        cell += f" {BYTES_BAR / of_copy:.2f}b"
                cells += f"{cell if error <= 1 else f'WRONG {error:.1f}':>30}"
            print(f"{name:16}{mask:8}{cells}", flush=True)
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"over FlashAttention-3: geometric mean {mean:.3f}, least {min(ratios):.2f}")
    if of_dense:
        print(f"of the dense call: least {min(of_dense):.3f}")


if __name__ == "__main__":
    main()
