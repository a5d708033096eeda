"""Decoding from ragged caches: `python bench/decode.py`, on a GPU, from the root of the repository.

One query a sequence, lengths drawn log-normal. Each line is a batch, with the cache in one piece or
in pages: microseconds, TB/s of K and V that the lengths name and what that is of a copy's, the time
of the better peer over ours, and the default's over the batch-invariant mode's. Calls are replayed
from CUDA graphs over sets of caches that are together larger than the L2 cache several times, since
a step finds nothing there. Sampled sequences are held to float64 first; a line says WRONG
otherwise."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from pathlib import Path

import torch

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

import attnpress
from bench.ragged import lognormal
from bench.serving import in_pages, int32, normal, recorded
from bench.timing import copy_rate, device_name, medians

PAGES = (0, 1, 16, 64, 256)  # 0: one piece
SETS_BYTES = 256 << 20  # of K and V that a graph goes through, at least
LEAST_CALLS = 8  # of a graph
SAMPLED = 4  # sequences that are checked

# By batch and mean: all keys of the batch that the peers' figures are of.
TOKENS = dict(
    zip([(1, 1024), (1, 8192), (8, 4096), (64, 4096), (256, 1024)],
        [1024, 8192, 18800, 258300, 217300])
)  # fmt: skip
# Microseconds of FlashAttention-3 on one H200 (bf16, 2026-11-21), by pages as above, and of
# FlashInfer 0.7.2 (pages of 1, 16 and 64; its plan is not in them).
NONE = math.inf
PEERS = {
    (32, 8, 128): {
        (1, 1024): ((13.1, 13.7, 13.5, 13.2, 13.1), (NONE, 10.4, 9.3, 10.1, NONE)),
        (1, 8192): ((20.4, 20.7, 20.6, 19.9, 19.8), (NONE, 19.9, 19.6, 18.9, NONE)),
        (8, 4096): ((31.7, 33.2, 31.4, 30.7, 30.7), (NONE, 32.3, 30.9, 29.5, NONE)),
        (64, 4096): ((260.6, 298.6, 270.5, 267.7, 265.3), (NONE, 372.4, 353.0, 336.7, NONE)),
        (256, 1024): ((261.1, 281.5, 261.9, 259.0, 257.6), (NONE, 260.6, 250.1, 241.9, NONE)),
    },
    (64, 8, 64): {
        (1, 1024): ((12.8, 13.3, 13.2, 13.0, 13.1), (NONE, 10.5, 9.1, 9.3, NONE)),
        (1, 8192): ((19.0, 19.4, 19.4, 19.3, 19.2), (NONE, 15.8, 14.9, 14.7, NONE)),
        (8, 4096): ((32.7, 29.6, 29.5, 29.3, 29.2), (NONE, 23.8, 22.4, 21.3, NONE)),
        (64, 4096): ((219.1, 238.8, 236.3, 233.9, 234.5), (NONE, 232.9, 212.0, 195.1, NONE)),
        (256, 1024): ((240.3, 253.2, 245.7, 243.8, 242.1), (NONE, 163.9, 150.9, 142.7, NONE)),
    },
    (16, 4, 256): {(64, 4096): ((), ()), (256, 1024): ((), ())},
}


def lengths_of(batch: int, keys: int) -> list[int]:
    """Lengths drawn log-normal, as long together as those of the peers' figures."""
    drawn = lognormal(batch, keys, 1, 4 * keys, 0)
    tokens = TOKENS[batch, keys]
    lengths = [max(1, length * tokens // sum(drawn)) for length in drawn]
    lengths[-1] = max(1, lengths[-1] + tokens - sum(lengths))
    return lengths


class Caches:
    """Queries, and sets of K and V of one batch, in pages of `size` tokens in a random order."""

    def __init__(self, heads: tuple[int, int, int], lengths: list[int], size: int) -> None:
        heads_q, heads_kv, hdim = heads
        batch, room = len(lengths), -(-max(lengths) // 256) * 256
        self.bytes = sum(lengths) * heads_kv * hdim * 2 * 2
        self.lengths = lengths
        self.q = normal(batch, 1, heads_q, hdim)
        self.options = {"cache_seqlens": int32(lengths)}
        count = max(1, -(-SETS_BYTES // self.bytes))
        self.whole = [normal(batch, room, heads_kv, hdim) for _ in "kv"]
        if size == 0:
            self.sets = [self.whole, *([x.clone() for x in self.whole] for _ in range(count - 1))]
            return
        pages = batch * room // size
        order = torch.randperm(pages, device="cuda")
        self.options["block_table"] = order.view(batch, -1).int()
        first = [in_pages(x, size, order) for x in self.whole]
        self.sets = [first, *([x.clone() for x in first] for _ in range(count - 1))]

    def run(self, which: int, invariant: bool) -> torch.Tensor:
        return attnpress.flash_attn_with_kvcache(
            self.q, *self.sets[which], **self.options, batch_invariant=invariant
        )

    def time(self, rounds: int) -> tuple[float, float]:
        """Microseconds of a call, and of a batch-invariant one."""
        calls = max(LEAST_CALLS, len(self.sets))
        calls -= calls % len(self.sets)
        graphs = {}
        for invariant in (False, True):
            turn = iter(range(calls + 1))  # one call before the graph
            graph = recorded(
                lambda turn=turn, invariant=invariant: self.run(
                    next(turn) % len(self.sets), invariant
                ),
                calls,
            )
            graphs[invariant] = [graph.replay]
        times = medians(graphs, 1, rounds)
        return times[False] / calls, times[True] / calls

    def error(self, invariant: bool) -> float:
        """The largest error of sampled sequences against float64, over what rounding leaves."""
        out = self.run(0, invariant)
        worst = 0.0 if torch.isfinite(out).all() else math.inf
        group = self.q.shape[2] // self.whole[0].shape[2]
        for b in range(0, len(self.lengths), -(-len(self.lengths) // SAMPLED)):
            k, v = (x[b, : self.lengths[b]].double() for x in self.whole)
            k, v = (x.repeat_interleave(group, 1) for x in (k, v))
            scores = torch.einsum("hd,nhd->hn", self.q[b, 0].double(), k) * k.shape[2] ** -0.5
            expected = torch.einsum("hn,nhd->hd", scores.softmax(1), v)
            error = (out[b, 0].double() - expected).abs().max()
            worst = max(worst, error.item() / (expected.abs().max().item() * 2**-7 + 1e-5))
        return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--pages", nargs="+", type=int, choices=PAGES, default=list(PAGES),
        help="tokens of a page; 0: the cache in one piece",
    )  # fmt: skip
    parser.add_argument("--dims", nargs="+", type=int, choices=(64, 128, 256))
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(device_name())
    copy = copy_rate()
    print(f"a copy: {copy:.2f} TB/s")
    print(f"{'heads':>8}{'D':>5}{'batch x keys':>14}{'page':>6}{'us':>9}{'TB/s':>7}", end="")
    print(f"{'of copy':>9}{'of peer':>9}{'invariant':>11}")
    over_peer, kept = [], []
    for heads, rows in PEERS.items():
        if options.dims and heads[2] not in options.dims:
            continue
        for (batch, keys), peers in rows.items():
            lengths = lengths_of(batch, keys)
            for column, size in enumerate(PAGES):
                if size not in options.pages:
                    continue
                caches = Caches(heads, lengths, size)
                error = max(caches.error(False), caches.error(True))
                default, invariant = caches.time(options.rounds)
                rate = caches.bytes / default * 1e-6
                peer = min((times[column] for times in peers if times), default=NONE)
                cells = f"{default:9.2f}{rate:7.2f}{rate / copy:9.3f}"
                if peer < NONE:
                    over_peer.append(peer / default)
                    cells += f"{peer / default:9.2f}"
                else:
                    cells += f"{'-':>9}"
                kept.append(default / invariant)
                cells += f"{kept[-1]:11.3f}{'' if error <= 1 else f'  WRONG {error:.1f}'}"
                shape = f"{heads[0]}/{heads[1]}"
                print(
                    f"{shape:>8}{heads[2]:5}{f'{batch} x {keys}':>14}{size or '-':>6}{cells}",
                    flush=True,
                )
                del caches
    if over_peer:
        mean = statistics.geometric_mean(over_peer)
        print(f"over the better peer: geometric mean {mean:.3f}, least {min(over_peer):.2f}")
    print(f"batch-invariant of the default: least {min(kept):.3f}")


if __name__ == "__main__":
    main()
