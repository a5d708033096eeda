"""What the generator's tests share: C programs of the repository's sources, random legal tiles."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from generator.attention.rules import KEY_PASSES, make_tile, make_variant, producer_tile
from generator.family import Family, families
from generator.registry import generated_files
from generator.tiles import Tile, problems, sized, tile_of
from generator.variant import Variant, VariantError, every_variant, with_class

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
(ATTENTION,) = (family for family in families() if family.name == "attention")
EVERY = list(every_variant(ATTENTION))
"""Without features, of which featured() gives a sample: they are many."""
GRAMMAR_SOURCES = (
    TESTS / "grammar_cli.c",
    *(
        ROOT / "runtime" / name
        for name in (
            "press/variant.c",
            "press/registry.c",
            "press/target.c",
            "press/arch.c",
            "press/prebuilt_none.c",
            "attention/tile.c",
            "core/text.c",
            "core/error.c",
        )
    ),
)
"""tests/grammar_cli.c and what it needs of the runtime; the generated tables come on top."""
C_FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wcast-qual", "-Werror")


def any_legal(features: dict[str, object]) -> bool:
    """Whether these go together: a snippet goes with neither bias nor ALiBi."""
    snippet = features["mod_score"] or features["mod_mask"]
    return not snippet or (not features["alibi"] and features["bias"] == "none")


def featured(count: int) -> list[Variant]:
    """`count` variants with features, at random, forward and of the kernels of dK and dV, and the
    few that append."""
    axes = [ATTENTION.axis(name) for name in ATTENTION.features]
    choices = [
        choice
        for values in itertools.product(*(axis.domain for axis in axes))
        if (choice := dict(zip(ATTENTION.features, values, strict=True))) and any_legal(choice)
    ][1:]
    plain = [variant for variant in EVERY if variant["pass"] in ("fwd", "bwd", "bwd_dkv")]
    rng = random.Random(20265)
    found: dict[Variant, None] = {}
    while len(found) < count:
        try:
            found[rng.choice(plain).replace(**rng.choice(choices))] = None
        except VariantError:  # some features do not go together, or with an architecture
            continue
    for variant, place in itertools.product(plain, ("ragged", "paged")):
        if variant.runs:
            try:
                found[variant.replace(sequences=place, append=True)] = None
            except VariantError:
                continue
    return list(found)


def variants_of_pair(hdim: int, hdim_v: int) -> list[Variant]:
    """A third of the passes of a pair of head dims, split and not, decode and not, on each
    architecture, which take turns; dtype, mask and features by the hash of their name."""
    found = []
    splits = ((False, False), (False, True), (True, False), (True, True))
    kinds = [
        ("fwd", *split, arch)
        for split in splits
        for arch in ((80, 86) if split[1] else (80, 86, 90))
    ]
    kinds += [
        (pass_, False, False, arch)
        for pass_ in ("bwd", "bwd_dkv", "bwd_dq", "bwd_dbias")
        for arch in (80, 86, 90)
    ]
    for pass_, split, decode, arch in kinds[(hdim + 2 * hdim_v) // 8 % 3 :: 3]:
        name = f"{pass_} {split} {decode} {arch} {hdim} {hdim_v}"
        hash_ = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
        dtype = ("fp16", "bf16")[hash_ % 2]
        mask = ("full", "causal", "window")[hash_ // 2 % 3]
        tile_class = hash_ // 6 % 12  # half of them have no features
        try:
            plain = make_variant(pass_, hdim, hdim_v, dtype, mask, split, decode, arch)
        except VariantError:
            continue
        found.append(with_class(plain, tile_class if tile_class < 6 else 0) or plain)
    return found


def sample_of_pairs(variants: Iterable[Variant]) -> list[Variant]:
    """Of these variants few in which every two values of two axes still meet that meet in any of
    them: taken in the order of a hash, where a pair is new."""
    met: set[tuple] = set()
    sample = []
    for variant in sorted(variants, key=lambda v: hashlib.sha256(v.stem.encode()).digest()):
        values = list(enumerate(variant.codes))
        pairs = {(*a, *b) for a, b in itertools.combinations(values, 2)}
        if not pairs <= met:
            met |= pairs
            sample.append(variant)
    return sample


def compile_c(program: Path, sources: Iterable[Path], *flags: str) -> Path:
    """Builds a C program of the repository's sources with $CC, without a warning."""
    command = [
        os.environ.get("CC", "cc"),
        *C_FLAGS,
        *flags,
        f"-I{ROOT / 'include'}",
        f"-I{ROOT / 'runtime'}",
        # Generated files include "../runtime/press/registry.h", wherever a test has put them.
        f"-I{ROOT / 'generated'}",
        "-o",
        str(program),
        *map(str, sources),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return program


fresh_files = cache(generated_files)
"""Of generated/: made once for all tests of a file."""


def compile_grammar_cli(folder: Path, **changed: str) -> Path:
    """tests/grammar_cli.c with the runtime's grammar and registry, and fresh generated tables
    (test_generator.py compares those with the committed ones). changed: tiles_attention="..." for
    another tiles_attention.c."""
    sources = [*GRAMMAR_SOURCES]
    for name, text in fresh_files().items():
        if name.endswith((".c", ".h")):
            content = changed.get(name.removesuffix(".c"), text)
            (folder / name).write_text(content, encoding="utf-8")
        if name.endswith(".c"):
            sources.append(folder / name)
    return compile_c(folder / "grammar_cli", sources)


def run_lines(program: Path, lines: Iterable[str]) -> bytes:
    """What a program answers to these lines on stdin."""
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run([program], input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def take_line(answer: bytes, at: int) -> tuple[str, int]:
    """The line at an offset, and the offset after it."""
    end = answer.index(b"\n", at)
    return answer[at:end].decode(), end + 1


def tabs(*words: object) -> str:
    return "\t".join(map(str, words))


def tile_fields(tile: Tile) -> str:
    """Threads, shared memory and the fields of a tile, parted by tabs, as ap_tile has them."""
    return tabs(tile.threads, tile.smem_bytes, *tile.values)


def number_of(family: Family) -> int:
    """AP_FAMILY_..."""
    return families().index(family)


def random_tile(rng: random.Random, variant: Variant) -> Tile:
    """A legal tile; after some luckless tries, the variant's own."""
    if variant["pass"] == "fwd_combine":
        return tile_of(variant).replace(block_m=rng.randint(1, 64))
    if variant["pass"] in KEY_PASSES and variant.arch == 90:
        for _ in range(8):
            present = tile_of(variant)
            shape = (present.block_m, present.block_n, rng.randint(2, 4), present.dq_warps)
            tile = producer_tile(variant, *shape, *(rng.randint(0, 1) for _ in range(3)))
            if not problems(variant, tile):
                return tile
        return tile_of(variant)
    if variant["pass"] != "fwd":  # too few of those that could be drawn would be legal
        if variant["pass"] == "bwd" and variant.arch == 90:  # consumers that share columns
            tile = producer_tile(variant, 64, rng.choice((80, 96)), 3)
            if not problems(variant, tile):
                return tile
        return tile_of(variant)
    for _ in range(50):
        if variant.arch == 90:
            block_m, block_n = rng.choice((64, 128, 192, 256)), 16 * rng.randint(1, 16)
            tile = producer_tile(variant, block_m, block_n, rng.randint(2, 4))
            tile = tile.replace(q_in_regs=rng.randint(0, 1))
            if not problems(variant, tile):
                return tile
            continue
        warps_m = rng.choice((1, 2, 3, 4, 8))
        warps_n = rng.choice((1, 1, 2, 4))
        warps_k = rng.choice((1, 1, 1, 2, 4))
        if warps_k > 1:
            warps_m = warps_n = 1
        ring_keys = 16 * warps_n * rng.randint(1, 8)
        k_slab = rng.choice((variant.hdim, 16 * rng.randint(1, 32)))
        tile = make_tile(
            block_m=16 * warps_m * rng.randint(1, 4),
            block_n=ring_keys * warps_k,
            warps_m=warps_m,
            warps_n=warps_n,
            stages=rng.randint(2, 6),
            k_slab=k_slab,
            v_slab=16 * rng.choice([n for n in range(1, 33) if ring_keys % (16 * n) == 0]),
            q_in_regs=rng.randint(0, 1),
            min_blocks=rng.randint(1, 3),
            k_unroll=rng.choice((0, 0, 1, 2, 4)),
            spread=rng.choice((0, 0, 1)),
            warps_k=warps_k,
        )
        tile = sized(variant, tile)
        if not problems(variant, tile):
            return tile
    return tile_of(variant)
