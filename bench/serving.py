"""What servers call, in one process: `python bench/serving.py`, on a GPU, from the root of the
repository.

chunked: new rows over keys in pages, beside the same keys in one piece and a dense call, which
share what they compute. append: one token with rotary embeddings appended and decoded, beside
decoding alone, from CUDA graphs. mixed: a step that decodes for some sequences and takes a chunk of
another's rows, as one call beside two. invariant: batch_invariant beside the default. Medians of
device events; outputs are compared with the dense call's, the two calls', or the default's."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

import attnpress
from bench.timing import device_name, medians

PAGES = (1, 8, 16, 24, 64, 256)
# sequences, rows of each, keys of each, query heads, key heads, head dim
CHUNKS = (
    (1, 2048, 32768, 32, 8, 128),
    (1, 2048, 32768, 64, 8, 64),
    (1, 2048, 16384, 16, 4, 256),
    (8, 512, 4096, 32, 8, 128),
    (4, 1000, 5000, 16, 16, 128),
)
# sequences, keys of each, page size (0: a cache in one piece)
STEPS = ((64, 4000, 0), (8, 16000, 0), (64, 4000, 16), (8, 16000, 16), (1, 1000, 16), (1, 8000, 16))
HEADS, KV_HEADS, HDIM = 32, 8, 128  # of a step
# sequences that decode, keys of each, rows of the chunk, keys before it, page size
MIXED = (128, 8192, 4096, 8192, 16)
PREFILLS = ((16, 1024), (4, 4096), (1, 16384))  # sequences, tokens of each


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def int32(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, device="cuda", dtype=torch.int32)


def in_pages(x: torch.Tensor, size: int, order: torch.Tensor) -> torch.Tensor:
    """(batch, keys, heads, head dim) as pages in that order."""
    batch, keys = x.shape[:2]
    missing = len(order) // batch * size - keys
    pages = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, missing)).reshape(-1, size, *x.shape[2:])
    placed = torch.empty_like(pages)
    placed[order] = pages
    return placed


def difference(got: torch.Tensor, want: torch.Tensor) -> str:
    if torch.equal(got, want):
        return "same bits"
    return f"{(got.float() - want.float()).abs().max().item():.1e}"


def chunk(batch: int, rows: int, keys: int, heads: int, kv_heads: int, hdim: int) -> None:
    q, k, v = normal(batch, rows, heads, hdim), *(normal(batch, keys, kv_heads, hdim) for _ in "kv")
    flat, used = q.flatten(0, 1), int32([keys] * batch)
    sums_q, sums_k = (int32([n * b for b in range(batch + 1)]) for n in (rows, keys))
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "dense": lambda: attnpress.flash_attn_func(q, k, v, causal=True),
        "ragged": lambda: attnpress.flash_attn_varlen_func(
            flat, k.flatten(0, 1), v.flatten(0, 1), sums_q, sums_k, rows, keys, causal=True
        ),
    }
    for size in PAGES:
        order = torch.randperm(batch * -(-keys // size), device="cuda")
        table = order.view(batch, -1).int()
        pages = [in_pages(x, size, order) for x in (k, v)]
        calls[f"page {size}"] = lambda pages=pages, table=table: attnpress.flash_attn_varlen_func(
            flat, *pages, sums_q, None, rows, keys, causal=True, block_table=table, seqused_k=used
        )
    want = calls["dense"]()
    print(f"{batch} x {rows} rows over {keys} keys, {heads}/{kv_heads} heads, D {hdim}", flush=True)
    times = medians({name: [call] for name, call in calls.items()}, 4, 7)
    for name, call in calls.items():
        said = difference(call().reshape(want.shape), want)
        print(f"  {name:9}{times[name]:9.0f} us  {times['dense'] / times[name]:.2f}  {said}")


def recorded(call: Callable[[], object], calls: int) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph


def step(batch: int, keys: int, size: int) -> None:
    calls = 8
    room = -(-(keys + 64) // 256) * 256
    q, k, v = (normal(batch, 1, heads, HDIM) for heads in (HEADS, KV_HEADS, KV_HEADS))
    cos, sin = (normal(room, HDIM // 2) for _ in "cs")
    entries = (batch * room // size, size) if size else (batch, room)
    caches = [normal(*entries, KV_HEADS, HDIM) for _ in "kv"]
    table = torch.randperm(entries[0], device="cuda").int().view(batch, -1) if size else None
    options = {"cache_seqlens": int32([keys] * batch), "block_table": table}
    graphs = {
        "decode": recorded(lambda: attnpress.flash_attn_with_kvcache(q, *caches, **options), calls),
        "append": recorded(
            lambda: attnpress.flash_attn_with_kvcache(
                q, *caches, k, v, rotary_cos=cos, rotary_sin=sin, **options
            ),
            calls,
        ),
        "invariant": recorded(
            lambda: attnpress.flash_attn_with_kvcache(q, *caches, **options, batch_invariant=True),
            calls,
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(9):
        for name, graph in graphs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times[name].append(begin.elapsed_time(end) / calls * 1e3)
    alone, more, invariant = (statistics.median(times[name]) for name in graphs)
    print(
        f"{batch} x {keys} keys, {f'pages of {size}' if size else 'in one piece'}: decode "
        f"{alone:.1f} us, with append {more - alone:+.1f}, batch-invariant {alone / invariant:.2f}",
        flush=True,
    )


def mixed(decodes: int, keys: int, rows: int, before: int, size: int) -> None:
    """Queries lie one after the other: one of each sequence that decodes, then the chunk's."""
    used, rows_of = [keys] * decodes + [before + rows], [1] * decodes + [rows]
    room = -(-max(used) // size)
    q = normal(sum(rows_of), HEADS, HDIM)
    caches = [normal((decodes + 1) * room, size, KV_HEADS, HDIM) for _ in "kv"]
    table = torch.randperm(len(caches[0]), device="cuda").int().view(decodes + 1, room)

    def call(first: int, last: int) -> Callable[[], torch.Tensor]:
        begin, some = sum(rows_of[:first]), rows_of[first:last]
        sums = int32([sum(some[:b]) for b in range(len(some) + 1)])
        lengths, part = int32(used[first:last]), q[begin : begin + sum(some)]
        return lambda: attnpress.flash_attn_varlen_func(
            part, *caches, sums, None, max(some), max(used[first:last]), causal=True,
            block_table=table[first:last], seqused_k=lengths,
        )  # fmt: skip

    one, of_decodes, of_chunk = call(0, decodes + 1), call(0, decodes), call(decodes, decodes + 1)
    said = difference(one(), torch.cat([of_decodes(), of_chunk()]))
    calls = {"one": [one], "two": [lambda: (of_decodes(), of_chunk())]}
    times = medians(calls, 4, 9)
    print(
        f"{decodes} x 1 rows over {keys} keys and {rows} over {used[-1]}, pages of {size}: "
        f"one call {times['one']:.0f} us, two {times['two']:.0f}, "
        f"{times['two'] / times['one']:.3f}  {said}",
        flush=True,
    )


def prefill(batch: int, length: int, heads: int, kv_heads: int, hdim: int) -> None:
    q, k, v = (normal(batch * length, count, hdim) for count in (heads, kv_heads, kv_heads))
    sums = int32([length * b for b in range(batch + 1)])
    calls = {
        name: [
            lambda fixed=fixed: attnpress.flash_attn_varlen_func(
                q, k, v, sums, sums, length, length, causal=True, batch_invariant=fixed
            )
        ]
        for name, fixed in (("default", False), ("invariant", True))
    }
    said = difference(calls["invariant"][0](), calls["default"][0]())
    times = medians(calls, 4, 7)
    print(
        f"{batch} x {length}, {heads}/{kv_heads} heads, D {hdim}, causal: "
        f"{times['default']:.0f} us, batch-invariant "
        f"{times['default'] / times['invariant']:.3f}  {said}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    kinds = ("chunked", "append", "mixed", "invariant")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(kinds)}; all")
    options = parser.parse_args()
    unknown = set(options.kinds) - set(kinds)
    if unknown:
        parser.error(f"{sorted(unknown)[0]} is none of {', '.join(kinds)}")
    print(device_name())
    wanted = options.kinds or kinds
    if "chunked" in wanted:
        for shape in CHUNKS:
            chunk(*shape)
    if "append" in wanted:
        for shape in STEPS:
            step(*shape)
    if "mixed" in wanted:
        mixed(*MIXED)
    if "invariant" in wanted:
        for heads in ((HEADS, KV_HEADS, HDIM), (64, 8, 64)):
            for batch, length in PREFILLS:
                prefill(batch, length, *heads)


if __name__ == "__main__":
    main()
