#!/usr/bin/env python3
"""Tries legal tiles on the present GPU and writes the winners to generator/attention/tiles.toml.

    python bench/tune.py --dims 64 72                   whole sequences, full and causal
    python bench/tune.py --dims 128 --decode            one query token, split and not
    python bench/tune.py flash_fwd_split_hdim128_bf16_causal_sm80
    python bench/tune.py --dims 72 --list               the candidates that compile; needs no GPU
    python bench/tune.py --backward --dims 64           tiles of the backward kernel of sm90

then

    python -m generator                                 makes the library use them

Every tile that the generator finds legal is a candidate, as far as time allows: a coarse grid
first, then what lies around the best. Tiles that spill a register, or on which the compiler remarks
that products wait for each other, are skipped. A winner computes what the reference does, beats
the present tile by more than noise, and has no such flaw on any of the targets that are prebuilt,
in either dtype. Where the GPU's target may have rows of its own, the rows are for it alone, and its
own limits hold.

What follows --backward goes to bench/backward_tiles.py, which writes no rows.
"""

from __future__ import annotations

import argparse
import datetime
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench import BenchError
from bench.cases import MASKS, Case, forward_cases
from bench.kernels import Attention, Compiled, CompileError, Driver, Nvrtc
from generator import GeneratorError
from generator.attention.rules import (
    CUTS,
    SMEM_RESERVED_BYTES,
    limits,
    make_tile,
    make_variant,
    producer_tile,
)
from generator.family import family_of
from generator.registry import device_headers
from generator.render import environment, source
from generator.sets import load_sets
from generator.tiles import Tile, load_tuned, problems, sized, tile_of
from generator.variant import Variant, VariantError, parse_stem, stand_in

ATTENTION = family_of("attention")
TILES_TOML = ATTENTION.folder / "tiles.toml"
ARCHS, DTYPES = (ATTENTION.axis(name).domain for name in ("arch", "dtype"))
WORTH = 1.01  # times as fast as the present tile, below which it stays
FINALISTS = 5
SEEDS = 6  # tiles around which the search goes on
# What a device runs, best first.
CAPABILITY_ARCHS = {
    80: (80,), 86: (86,), 87: (80,), 88: (86,), 89: (86,), 90: (90, 80), 100: (80,), 103: (80,),
    110: (80,),
}  # fmt: skip


# ---- What is tuned ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """The variants that one row of tiles.toml serves: all dtypes, and for decoding both masks of a
    case; windows are not tuned.
    `target`: the only one that it serves; None: all of the architecture."""

    hdim: int
    hdim_v: int
    masks: tuple[str, ...]
    split: bool
    decode: bool
    arch: int
    target: str | None = None

    def variant(self, dtype: str, mask: str | None = None) -> Variant:
        return make_variant(
            "fwd", self.hdim, self.hdim_v, dtype, mask or self.masks[0], self.split, self.decode,
            self.arch,
        )  # fmt: skip

    def variants(self) -> list[Variant]:
        return [self.variant(dtype, mask) for dtype in DTYPES for mask in self.masks]

    @property
    def title(self) -> str:
        return self.variant("bf16").stem.replace("_bf16", "")

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of its row, as many as any other row may have but dtype."""
        keys: dict[str, Any] = {"pass": "fwd", "arch": self.arch, "hdim": self.hdim}
        if self.hdim_v != self.hdim:
            keys["hdim_v"] = self.hdim_v
        keys["mask"] = self.masks[0] if len(self.masks) == 1 else list(self.masks)
        keys["decode"] = self.decode
        if self.split and not self.decode and self.arch != 90:
            keys["few"] = False  # whose tiles follow from this one
        keys["split"] = self.split
        if self.target is not None:
            keys["target"] = self.target
        return keys


def group_of(variant: Variant) -> Group:
    masks = MASKS if variant.decode else (variant.mask,)
    return Group(variant.hdim, variant.hdim_v, masks, variant.split, variant.decode, variant.arch)


def timed_cases(group: Group, dtype: str, seqlens: Sequence[int]) -> list[Case]:
    """What a tile is judged by. The first is the one that a quick look takes."""
    dims = (group.hdim, group.hdim_v, dtype)
    causal = group.masks[0] == "causal"
    if group.decode and group.split:
        shapes = [(1, 32, 8, 1, 32768), (1, 32, 8, 1, 8192), (16, 32, 8, 1, 8192)]
    elif group.decode:
        shapes = [(64, 32, 8, 1, 4096), (32, 32, 32, 1, 4096)]
    elif group.split:
        shapes = [(1, 4, 4, 1024, 16384), (1, 8, 8, 256, 8192)]
    else:
        return list(forward_cases([dims[:2]], seqlens, [group.masks[0]], [dtype]))
    return [
        Case(*shape, *dims, causal=causal and not group.decode, decode=group.decode)
        for shape in shapes
    ]


def checked_cases(group: Group, dtype: str) -> list[Case]:
    """Ragged shapes, group sizes of 1 and more."""
    shapes = [(2, 6, 2, 113, 203), (1, 4, 4, 256, 512), (3, 2, 1, 200, 1000)]
    if group.decode:
        shapes = [(8, 12, 3, 1, 203), (2, 32, 4, 2, 515), (8, 6, 6, 1, 1000)]
    return [
        Case(*shape, group.hdim, group.hdim_v, dtype, causal=mask == "causal")
        for shape in shapes
        for mask in group.masks
    ]


# ---- Candidates ---------------------------------------------------------------------------------

ROWS_PER_WARP = (16, 32, 48)
WARPS_M = (1, 2, 3, 4, 6, 8)
WARPS_N = (1, 2, 4)
DECODE_WARPS = ((1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (1, 4), (1, 8))  # warps_n, warps_k
KEYS = (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256)
STAGES = (2, 3, 4)
MORE_STAGES = (2, 3, 4, 5, 6, 8)
UNROLLS = (0, 1, 2, 4, 8)
THREADS = (64, 512)  # of a thread block of the prefill kernels, fewest and most
PRODUCER_ROWS = (64, 128, 192, 256)
PRODUCER_KEYS = tuple(range(32, 257, 16))
PRODUCER_STAGES = (1, 2, 3, 4, 8)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def cut(
    variant: Variant, tile: Tile, cuts: tuple[int, int], target: str | None = None
) -> Tile | None:
    """The tile with K in cuts[0] column slabs and V in cuts[1] row slabs; None where they are not
    even, or the tile is not legal."""
    k_cuts, v_cuts = cuts
    ring_keys = tile.block_n // tile.warps_k
    k_slab = variant.hdim if k_cuts == 1 else _ceil_div(variant.hdim, 16 * k_cuts) * 16
    if _ceil_div(variant.hdim, k_slab) != k_cuts or ring_keys % (16 * v_cuts):
        return None
    tile = tile.replace(k_slab=k_slab, v_slab=ring_keys // v_cuts)
    return legal(variant, tile, target)


def legal(variant: Variant, tile: Tile, target: str | None = None) -> Tile | None:
    """The tile with its shared memory filled in; None where it is not legal, or asks for more
    blocks an SM than there is shared memory for."""
    tile = sized(variant, tile)
    shared_bytes = tile.min_blocks * (tile.smem_bytes + SMEM_RESERVED_BYTES)
    if tile.min_blocks > 1 and shared_bytes > limits(variant, target).sm_smem_bytes:
        return None
    return None if problems(variant, tile, target) else tile


def _most_blocks(variant: Variant, tile: Tile, target: str | None) -> Iterator[Tile]:
    """The tile for as many blocks an SM as are legal, up to four: the most, and one fewer."""
    found = [
        shared
        for count in (4, 3, 2, 1)
        if (shared := legal(variant, tile.replace(min_blocks=count), target)) is not None
    ]
    yield from found[:2]


def coarse_grid(variant: Variant, present: Tile, target: str | None = None) -> list[Tile]:
    """Shapes, keys and stages, each with as few slabs as fit; nearest to the present tile first."""
    tiles: dict[str, Tile] = {}
    if variant.arch == 90:
        return sorted(_producer_grid(variant), key=lambda tile: _distance(tile, present))
    decode = variant.decode
    for warps_n, warps_k in DECODE_WARPS if decode else ((warps_n, 1) for warps_n in WARPS_N):
        for warps_m in (1,) if decode else WARPS_M:
            for rows in (16,) if decode else ROWS_PER_WARP:
                for block_n in KEYS:
                    for stages in MORE_STAGES if decode else STAGES:
                        shape = make_tile(
                            rows * warps_m, block_n, warps_m, warps_n, stages, 0, 0,
                            k_unroll=present.k_unroll, warps_k=warps_k,
                        )  # fmt: skip
                        if not decode and not THREADS[0] <= shape.threads <= THREADS[1]:
                            continue
                        found = (cut(variant, shape, cuts, target) for cuts in CUTS)
                        whole = next((tile for tile in found if tile is not None), None)
                        if whole is not None:
                            tiles.update((t.name, t) for t in _most_blocks(variant, whole, target))
    return sorted(tiles.values(), key=lambda tile: _distance(tile, present))


def _producer_grid(variant: Variant) -> Iterator[Tile]:
    """All tiles of sm90 that are legal: rows, keys, stages and where Q is are their choices."""
    for block_m in PRODUCER_ROWS:
        for block_n in PRODUCER_KEYS:
            for stages in PRODUCER_STAGES:
                tile = producer_tile(variant, block_m, block_n, stages)
                for found in (tile, tile.replace(q_in_regs=1)):
                    if not problems(variant, found):
                        yield found


def _distance(tile: Tile, present: Tile) -> tuple:
    """Sorts candidates: those that differ least from the present tile come first."""

    def apart(name: str) -> float:
        a, b = tile[name], present[name]
        return max(a, b, 1) / max(min(a, b), 1)

    names = ("block_m", "block_n", "warps_m", "warps_n", "warps_k", "stages", "min_blocks")
    return (sum(apart(name) for name in names), tile.name)


def neighbours(variant: Variant, tile: Tile, target: str | None = None) -> Iterator[Tile]:
    """Tiles that differ from a good one in one respect."""
    if variant.arch == 90:
        # coarse_grid() has them all; these are the first to look at where time is short.
        for m, n, s in ((0, 16, 0), (0, -16, 0), (0, 0, 1), (0, 0, -1), (64, 0, 0), (-64, 0, 0)):
            near = producer_tile(variant, tile.block_m + m, tile.block_n + n, tile.stages + s)
            near = near.replace(q_in_regs=tile.q_in_regs)
            if not problems(variant, near):
                yield near
        other = tile.replace(q_in_regs=1 - tile.q_in_regs)
        if not problems(variant, other):
            yield other
        return
    changed = [
        tile.replace(k_unroll=n, q_in_regs=0, spread=0) for n in UNROLLS if n != tile.k_unroll
    ]
    changed.append(tile.replace(q_in_regs=1 - tile.q_in_regs, k_unroll=0))
    changed.append(tile.replace(spread=1 - tile.spread, k_unroll=0))
    changed += [tile.replace(min_blocks=n) for n in (1, 2, 3, 4) if n != tile.min_blocks]
    changed += [tile.replace(stages=tile.stages + n) for n in (-1, 1) if tile.stages + n >= 2]
    yield from (found for other in changed if (found := legal(variant, other, target)) is not None)
    step = 16 * tile.warps_n * tile.warps_k
    for block_n in (tile.block_n - step, tile.block_n + step):
        if block_n > 0:
            for cuts in CUTS:
                if found := cut(variant, tile.replace(block_n=block_n), cuts, target):
                    yield found
                    break
    for cuts in CUTS:
        found = cut(variant, tile, cuts, target)
        if found is not None and found != tile:
            yield found


# ---- Compiling ----------------------------------------------------------------------------------


class Press:
    """Renders and compiles, on all cores, each (variant, tile, target) once."""

    def __init__(self, threads: int | None = None) -> None:
        self.nvrtc = Nvrtc()
        self.headers = device_headers()
        self.environment = environment()
        self.threads = threads or os.cpu_count() or 1
        self.done: dict[tuple[str, str, str], Compiled | str] = {}

    def compile(self, variant: Variant, tile: Tile, target: str) -> Compiled | str:
        """The cubin, or why there is none."""
        key = (variant.stem, tile.name, target)
        if key not in self.done:
            try:
                text = source(self.environment, variant, tile)
                self.done[key] = self.nvrtc.compile(variant.stem, text, target, self.headers)
            except (CompileError, GeneratorError) as error:
                self.done[key] = str(error)
        return self.done[key]

    def clean(
        self,
        variant: Variant,
        tiles: Iterable[Tile],
        target: str,
        deadline: float,
        heard: Callable[[int], None] = lambda count: None,
        tried: list[Tile] | None = None,
    ) -> dict[Tile, Compiled]:
        """The tiles that compile without a flaw, of those that the time allows, which are appended
        to `tried`."""

        def one(tile: Tile) -> Compiled | str | None:
            return None if time.monotonic() > deadline else self.compile(variant, tile, target)

        found: dict[Tile, Compiled] = {}
        tiles = list(tiles)
        with ThreadPoolExecutor(self.threads) as pool:
            for count, (tile, compiled) in enumerate(zip(tiles, pool.map(one, tiles)), start=1):
                if isinstance(compiled, Compiled) and compiled.flaw is None:
                    found[tile] = compiled
                if compiled is not None and tried is not None:
                    tried.append(tile)
                heard(count)
        return found


def prebuilt_targets(group: Group) -> tuple[str, ...]:
    """The targets that the default set is compiled for on this architecture."""
    default = load_sets(ATTENTION)["default"]
    targets = {
        target
        for stem, target in default.cubins
        if (variant := parse_stem(stem))["pass"] == "fwd" and variant.arch == group.arch
    }
    return tuple(sorted(targets)) or (own_target(group.arch),)


def own_target(arch: int) -> str:
    """What an arch's kernels are compiled for on the device that it is named after."""
    return "sm_90a" if arch == 90 else f"sm_{arch}"


def spilling(press: Press, group: Group, tile: Tile, targets: Iterable[str]) -> str | None:
    """The first variant and target of the group that spills or does not compile; None: none."""
    jobs = [(variant, target) for variant in group.variants() for target in targets]
    with ThreadPoolExecutor(press.threads) as pool:
        compiled = pool.map(lambda job: press.compile(job[0], tile, job[1]), jobs)
    for (variant, target), result in zip(jobs, compiled):
        if isinstance(result, str):
            return result
        if result.flaw is not None:
            return f"{variant.stem} {result.flaw} on {target}"
    return None


# ---- Measuring ----------------------------------------------------------------------------------


@dataclass
class Score:
    """A tile's rates, one for each timed case: TFLOP/s, or GB/s when decoding."""

    tile: Tile
    rates: list[float]

    @property
    def mean(self) -> float:
        return statistics.geometric_mean(self.rates)


class Bench:
    """Launches candidates of one group on the GPU."""

    def __init__(self, group: Group, dtype: str, press: Press, gpu: Any, target: str) -> None:
        self.group, self.press, self.gpu, self.target = group, press, gpu, target
        self.variant = group.variant(dtype)
        self.driver = Driver()
        self.loaded: dict[Tile, Attention] = {}
        self.dtype = dtype
        self.combine = None
        if group.split:
            variant = make_variant("fwd_combine", group.hdim_v, group.hdim_v, dtype)
            tile = tile_of(variant)
            self.combine = (self._load(variant, tile), tile)

    def _load(self, variant: Variant, tile: Tile) -> Any:
        compiled = self.press.compile(variant, tile, self.target)
        if isinstance(compiled, str):
            raise BenchError(compiled)
        return self.driver.load(variant.stem, compiled.cubin, tile.smem_bytes)

    def attention(self, tile: Tile, mask: str | None = None) -> Attention:
        if mask is not None and mask != self.variant.mask:
            variant = self.group.variant(self.dtype, mask)
            return Attention(variant, tile, self._load(variant, tile), self.combine)
        if tile not in self.loaded:
            kernel = self._load(self.variant, tile)
            self.loaded[tile] = Attention(self.variant, tile, kernel, self.combine)
        return self.loaded[tile]

    def split_counts(self, attention: Attention, case: Case) -> list[int]:
        """Counts of splits that fill one to four waves; [1] where the kernel does not split."""
        if not self.group.split:
            return [1]
        tile = attention.tile
        group = case.heads_q // case.heads_kv
        blocks = attention.tile_rows(case.seqlen_q, group) * case.heads_kv * case.batch
        slots = self.gpu.properties.multi_processor_count
        slots *= max(1, attention.kernel.blocks_per_sm(tile.threads))
        most = min(128, _ceil_div(case.seqlen_k, tile.block_n))
        return sorted({max(1, min(most, waves * slots // blocks)) for waves in (1, 2, 3, 4)})

    def runs(self, tile: Tile, case: Case) -> bool:
        """Whether the device takes a launch of the tile."""
        tensors = self.gpu.inputs(case)[0]
        try:
            attention = self.attention(tile)
            splits = self.split_counts(attention, case)[-1]
            self.gpu.run_once(lambda q, k, v: attention.call(q, k, v, splits), tensors, case)
        except RuntimeError as error:
            _say(f"  {tile.name} does not run: {error}")
            self.gpu.recover()
            return False
        return True

    def wrong(self, tile: Tile) -> str | None:
        """Why a tile's output is not right; None where it is."""
        for case in checked_cases(self.group, self.dtype):
            attention = self.attention(tile, case.mask)
            sets = self.gpu.inputs(case, self.gpu.sets_to_check(case))
            splits = 3 if self.group.split else 1

            def call(q: Any, k: Any, v: Any, attention=attention, splits=splits) -> Any:
                return attention.call(q, k, v, splits)

            outs = {"tile": [self.gpu.run_once(call, tensors, case) for tensors in sets]}
            error, bound = self.gpu.check(case, sets, outs)["tile"]
            if not error <= bound:
                return f"{case.title}: error {error:.2e}, allowed {bound:.2e}"
        return None

    def time(self, tiles: Sequence[Tile], case: Case, rounds: int) -> dict[Tile, float]:
        """The rate of each tile, interleaved; of the best count of splits, where it splits."""
        sets = self.gpu.inputs(case, self.gpu.sets_past_cache(case) if case.decode else 1)
        calls: dict[str, Any] = {}
        names: dict[str, Tile] = {}
        per_call = len(sets) * _ceil_div(8, len(sets)) if case.decode else 1
        for tile in tiles:
            attention = self.attention(tile)
            for splits in self.split_counts(attention, case):
                name = f"{tile.name} {splits}"
                names[name] = tile

                def call(q: Any, k: Any, v: Any, attention=attention, splits=splits) -> Any:
                    return attention.call(q, k, v, splits)

                if case.decode:
                    calls[name] = self.gpu.graph(call, sets, per_call)
                else:
                    calls[name] = lambda call=call: call(*sets[0])
        times = self.gpu.time(calls, rounds, dict.fromkeys(calls, per_call))
        work = case.kv_bytes / 1e6 if case.decode else case.flops / 1e9
        rates: dict[Tile, float] = {}
        for name, times_ms in times.items():
            tile = names[name]
            rates[tile] = max(rates.get(tile, 0.0), work / statistics.median(times_ms))
        return rates


# ---- The search ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Winner:
    """What the search found for a group."""

    group: Group
    tile: Tile
    note: str


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Heard:
    """Says now and then how far a long step is."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.last = what, total, time.monotonic()

    def __call__(self, count: int) -> None:
        if time.monotonic() - self.last > 10:
            self.last = time.monotonic()
            _say(f"  {self.what}: {count} of {self.total}")


def search(
    group: Group, cases: Sequence[Case], bench: Bench, deadline: float, present: Tile
) -> list[Score]:
    """Scores of the finalists and the present tile, best first."""
    press, variant, target = bench.press, bench.variant, bench.target
    screened: dict[Tile, float] = {}
    small = checked_cases(group, bench.dtype)[0]

    def screen(tiles: Sequence[Tile], until: float) -> None:
        fresh = [tile for tile in dict.fromkeys(tiles) if tile not in screened]
        heard = Heard("compiled", len(fresh))
        clean = press.clean(variant, fresh, target, until, heard)
        clean = [tile for tile in clean if bench.runs(tile, small)]
        for begin in range(0, len(clean), 40):
            if time.monotonic() > deadline and screened:
                break
            screened.update(bench.time(clean[begin : begin + 40], cases[0], 5))
        best = max(screened.values(), default=0.0)
        _say(f"  {len(fresh)} candidates, {len(clean)} without spills; best so far {best:.0f}")

    begin = time.monotonic()
    if not (press.clean(variant, [present], target, deadline)):
        _say(f"  the present tile {present.name} spills or does not compile")
    grid = coarse_grid(variant, present, group.target)
    screen([present, *grid], begin + 0.5 * (deadline - begin))
    seen: set[Tile] = set()
    while time.monotonic() < begin + 0.8 * (deadline - begin):
        best = sorted(screened, key=lambda tile: -screened[tile])[:SEEDS]
        fresh = [tile for tile in best if tile not in seen]
        around = [n for tile in fresh for n in neighbours(variant, tile, group.target)]
        seen.update(best)
        if not any(tile not in screened for tile in around):
            break
        screen(around, begin + 0.85 * (deadline - begin))
    return _final(bench, cases, screened, present)


def _final(
    bench: Bench, cases: Sequence[Case], screened: dict[Tile, float], present: Tile
) -> list[Score]:
    """The best of the screened that compute what they should, on every case, side by side."""
    finalists: list[Tile] = []
    for tile in sorted(screened, key=lambda tile: -screened[tile]):
        if len(finalists) == FINALISTS:
            break
        if reason := bench.wrong(tile):
            _say(f"  {tile.name} is WRONG: {reason}")
        else:
            finalists.append(tile)
    if present in screened and present not in finalists:
        finalists.append(present)
    if not finalists:
        return []
    by_case = [bench.time(finalists, case, 20) for case in cases]
    scores = [Score(tile, [rates[tile] for rates in by_case]) for tile in finalists]
    return sorted(scores, key=lambda score: -score.mean)


def choose(
    group: Group,
    scores: Sequence[Score],
    present: Tile,
    spills: Callable[[Tile], str | None],
) -> Score | None:
    """The best score whose tile spills nowhere, if it is worth a row; None: the present stays."""
    before = next((score for score in scores if score.tile == present), None)
    for score in scores:
        if score.tile == present:
            return None
        if before is not None and score.mean < WORTH * before.mean:
            return None
        if reason := spills(score.tile):
            _say(f"  {score.tile.name}: {reason}")
            continue
        return score
    return None


def note_of(
    scores: Sequence[Score], won: Score, present: Tile, cases: Sequence[Case], device: str
) -> str:
    """What the row says: the device, the figures, and those of the tile before."""
    decode = cases[0].decode

    def figures(score: Score) -> str:
        return ", ".join(
            (f"{c.batch}x{c.heads} S {c.seqlens} " if decode else f"S {c.seqlens} ") + f"{r:.0f}"
            for c, r in sorted(zip(cases, score.rates), key=lambda pair: pair[0].seqlen_k)
        )

    month = datetime.date.today().strftime("%Y-%m")
    text = f"{device}, {month}, {'GB/s' if decode else 'TFLOP/s'}: {figures(won)}"
    before = next((score for score in scores if score.tile == present), None)
    return text + (f"; {present.name}: {figures(before)}" if before is not None else "")


# ---- tiles.toml ---------------------------------------------------------------------------------

MARKER = "# ---- Written by bench/tune.py, which replaces its own rows below; others go above ----"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if isinstance(value, int) else '"' + value.replace('"', "'") + '"'


def _row_text(row: dict[str, Any]) -> str:
    return "[[tile]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in row.items())


def _row_key(row: dict[str, Any]) -> str:
    return repr(sorted((key, row[key]) for key in row if key not in ("tile", "note")))


def edited(text: str, winners: Sequence[Winner]) -> str:
    """The text of tiles.toml with the winners' rows: all that stands above the marker as it is,
    below it the rows of earlier runs, replaced where a winner is for the same variants, sorted."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib

    above, marker, below = text.partition(MARKER)
    rows = {_row_key(row): row for row in tomllib.loads(below).get("tile", ())} if marker else {}
    for winner in winners:
        row = {**winner.group.keys, "tile": winner.tile.name, "note": winner.note}
        rows[_row_key(row)] = row

    def order(row: dict[str, Any]) -> tuple:
        return (
            row["arch"], row.get("decode", False), row.get("split", False), row["hdim"],
            row.get("hdim_v", row["hdim"]), str(row.get("mask")),
        )  # fmt: skip

    parts = [_row_text(row) for row in sorted(rows.values(), key=order)]
    return "\n".join([above.rstrip("\n"), "", MARKER, "", "\n".join(parts)])


def write_winners(path: Path, winners: Sequence[Winner]) -> None:
    """Edits tiles.toml; GeneratorError, and the file as it was, where the generator would not take
    the rows or would not give the variants their tiles."""
    text = edited(path.read_text(encoding="utf-8"), winners)
    trial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        trial.write_text(text, encoding="utf-8")
        tuned = load_tuned.__wrapped__(ATTENTION, trial)  # the file as it is, not a cached one
        for winner in winners:
            for variant in winner.group.variants():
                found = tile_of(variant, tuned, winner.group.target)
                if found.name != winner.tile.name:
                    raise GeneratorError(
                        f"{path.name}: another row with more keys gives {variant.stem} "
                        f"{found.name}: take it out first"
                    )
        os.replace(trial, path)
    finally:
        trial.unlink(missing_ok=True)


# ---- Command line -------------------------------------------------------------------------------


def _dims(text: str) -> tuple[int, int]:
    from bench.compare import _dims as parse

    return parse(text)


def _positive(text: str) -> int:
    from bench.compare import _positive as parse

    return parse(text)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python bench/tune.py", description=__doc__.split("\n\n", maxsplit=1)[0]
    )
    p.add_argument("stems", nargs="*", metavar="STEM", help="kernels by name, of any dtype")
    p.add_argument("--dims", nargs="+", type=_dims, default=[], metavar="D", help="or D/DV")
    p.add_argument("--causal", action="store_true", help="of --dims: only the causal mask")
    p.add_argument("--full", action="store_true", help="of --dims: only without a mask")
    p.add_argument("--split", action="store_true", help="of --dims: the split kernels instead")
    p.add_argument("--decode", action="store_true", help="of --dims: the decode kernels instead")
    p.add_argument("--arch", type=int, choices=ARCHS, help="of --dims; default: the GPU's best")
    p.add_argument("--dtype", choices=DTYPES, default="bf16", help="that is timed; rows serve both")
    p.add_argument("--seqlens", nargs="+", type=_positive, default=[4096, 1024, 16384], metavar="S")
    p.add_argument("--seconds", type=_positive, default=300, help="for all of it; default 300")
    p.add_argument("--threads", type=_positive, help="that compile; default: all cores")
    p.add_argument("--tiles", type=Path, default=TILES_TOML, metavar="FILE", help="to edit")
    p.add_argument("--dry-run", action="store_true", help="measure, and write nothing")
    p.add_argument("--list", action="store_true", help="compile the candidates and show them")
    p.add_argument("--backward", action="store_true", help="all else goes to backward_tiles.py")
    p.add_argument("--target", help="of --list, such as sm_90; default: the stem's own")
    return p


def chosen_groups(options: argparse.Namespace, arch: int) -> list[Group]:
    """What the options ask for, without repetition."""
    groups = [group_of(parse_stem(stem)) for stem in options.stems]
    if any(parse_stem(stem)["pass"] != "fwd" for stem in options.stems):
        raise BenchError(
            "only forward kernels are tuned; a combine tile is not a choice, and backward kernels' "
            "tiles are timed by --backward --dims D"
        )
    masks = [
        mask
        for mask, asked in (("full", options.full), ("causal", options.causal))
        if asked or options.full == options.causal
    ]
    for hdim, hdim_v in options.dims:
        splits = (False, True) if options.decode and not options.split else (options.split,)
        for split in splits:
            for mask in masks[:1] if options.decode else masks:
                variant = make_variant(
                    "fwd", hdim, hdim_v, "bf16", mask, split, options.decode, arch
                )
                groups.append(group_of(variant))
    if not groups:
        raise BenchError("nothing to tune: name kernels, or head dims with --dims")
    for group in groups:
        if group.arch != arch:
            raise BenchError(f"{group.title} is not for this GPU, which runs sm{arch} kernels")
        other = stand_in(group.variant("bf16"))
        if other is not None:
            raise BenchError(f"{group.title} has the tile of {other.stem}: tune that")
    return list(dict.fromkeys(groups))


def exists(hdim: int, hdim_v: int, decode: bool, arch: int) -> bool:
    """Whether an arch has such forward kernels."""
    try:
        make_variant("fwd", hdim, hdim_v, "bf16", decode=decode, arch=arch)
    except VariantError:
        return False
    return True


def device_arch(capability: int, options: argparse.Namespace) -> int:
    """The arch that is tuned on a device: the one that is asked for by --arch or by the kernels'
    names, else the best that has such kernels."""
    archs = CAPABILITY_ARCHS.get(capability, (86,) if capability >= 120 else ())
    names = " and ".join(f"sm{arch}" for arch in archs) or "none of these"
    asked = {parse_stem(stem).arch for stem in options.stems}
    asked |= {options.arch} if options.arch else set()
    if len(asked) > 1:
        raise BenchError("kernels of one arch at a time are tuned")
    if not asked <= set(archs):
        raise BenchError(f"a device of capability {capability / 10} runs {names} kernels")
    if asked:
        return asked.pop()
    fitting = [
        arch
        for arch in archs
        if all(exists(*dims, options.decode, arch) for dims in options.dims or [(64, 64)])
    ]
    if not fitting:
        raise BenchError(f"a device of capability {capability / 10} runs {names} kernels")
    return fitting[0]


def list_candidates(groups: Sequence[Group], options: argparse.Namespace) -> None:
    """Prints what compiles without spilling, with the compiler's figures."""
    press = Press(options.threads)
    for group in groups:
        variant = group.variant(options.dtype)
        target = options.target or own_target(group.arch)
        present = tile_of(variant, load_tuned(ATTENTION, options.tiles))
        tiles = list(dict.fromkeys([present, *coarse_grid(variant, present)]))
        deadline = time.monotonic() + options.seconds
        tried: list[Tile] = []
        heard = Heard("compiled", len(tiles))
        clean = press.clean(variant, tiles, target, deadline, heard, tried)
        left = f"; no time for {len(tiles) - len(tried)} more" if len(tried) < len(tiles) else ""
        print(
            f"{variant.stem} on {target}: {len(clean)} of {len(tried)} compile without spills{left}"
        )
        for tile, compiled in clean.items():
            blocks = f"{tile.smem_bytes:6} bytes of shared memory"
            present_mark = "  (present)" if tile == present else ""
            print(f"  {tile.name:34} {compiled.registers:3} registers, {blocks}{present_mark}")


def tune(groups: Sequence[Group], options: argparse.Namespace, gpu: Any) -> list[Winner]:
    """Searches each group, with its share of the time, and writes each winner as it is found."""
    p = gpu.properties
    press = Press(options.threads)
    end = time.monotonic() + options.seconds
    winners = []
    for index, of_all in enumerate(groups):
        target = "sm_90a" if of_all.arch == 90 else f"sm_{p.major}{p.minor}"
        group = replace(of_all, target=target if target in ATTENTION.tile_targets else None)
        share = (end - time.monotonic()) / (len(groups) - index)
        deadline = time.monotonic() + max(share, 5.0)
        tuned = load_tuned(ATTENTION, options.tiles)
        present = tile_of(group.variant(options.dtype), tuned, group.target)
        _say(f"[{index + 1}/{len(groups)}] {group.title}: {present.name} now, {share:.0f} s")
        cases = timed_cases(group, options.dtype, options.seqlens)
        bench = Bench(group, options.dtype, press, gpu, target)
        scores = search(group, cases, bench, deadline, present)
        for score in scores:
            rates = "  ".join(f"{rate:8.1f}" for rate in score.rates)
            mark = "  (present)" if score.tile == present else ""
            print(f"{group.title:42} {score.tile.name:34} {rates}{mark}", flush=True)
        targets = [target] if group.target else sorted({target, *prebuilt_targets(group)})
        won = choose(
            group,
            scores,
            present,
            lambda tile, group=group, targets=targets: spilling(press, group, tile, targets),
        )
        if won is None:
            _say(f"  {present.name} stays")
            continue
        winners.append(Winner(group, won.tile, note_of(scores, won, present, cases, p.name)))
        _say(f"  {won.tile.name} instead of {present.name}")
        if not options.dry_run:
            write_winners(options.tiles, winners[-1:])
            load_tuned.cache_clear()
    return winners


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if "--backward" in words:
        from bench import backward_tiles

        return backward_tiles.main([word for word in words if word != "--backward"])
    options = parser().parse_args(words)
    try:
        if options.list:
            archs = {parse_stem(stem).arch for stem in options.stems} or {options.arch or 80}
            list_candidates(
                [group for arch in sorted(archs) for group in chosen_groups(options, arch)], options
            )
            return 0
        try:
            from bench.gpu import Gpu
        except ImportError as error:
            raise BenchError(f"PyTorch with CUDA is needed to measure: {error}") from None
        gpu = Gpu()
        capability = 10 * gpu.properties.major + gpu.properties.minor
        arch = device_arch(capability, options)
        winners = tune(chosen_groups(options, arch), options, gpu)
        if winners and not options.dry_run:
            print(f"{options.tiles}: {len(winners)} rows. Now: python -m generator")
    except (BenchError, GeneratorError) as error:
        print(f"tune.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    random.seed(0)
    sys.exit(main())
