"""What the generator's tests share: C programs of the repository's sources, random legal tiles."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterable
from dataclasses import astuple, replace
from pathlib import Path

from generator.registry import generated_files
from generator.tiles import Tile, problems, producer_tile, smem_bytes, tile_of
from generator.variant import DTYPES, MASKS, PASSES, Variant

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
C_FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


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


def compile_grammar_cli(folder: Path, **changed: str) -> Path:
    """tests/grammar_cli.c with the runtime's grammar and registry, and fresh generated tables
    (test_generator.py compares those with the committed ones). changed: tiles="..." for another
    tiles.c."""
    runtime = (
        "press/variant.c",
        "press/registry.c",
        "press/prebuilt_none.c",
        "core/text.c",
        "core/error.c",
    )
    sources = [TESTS / "grammar_cli.c", *(ROOT / "runtime" / name for name in runtime)]
    for name, text in generated_files().items():
        if name.endswith(".c"):
            sources.append(folder / name)
            sources[-1].write_text(changed.get(name.removesuffix(".c"), text), encoding="utf-8")
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


def c_fields(variant: Variant) -> list[int]:
    """The fields of ap_variant, in its order."""
    return [
        PASSES.index(variant.pass_),
        int(variant.split),
        variant.hdim,
        variant.hdim_v,
        1 + DTYPES.index(variant.dtype),
        MASKS.index(variant.mask),
        int(variant.decode),
        variant.arch,
    ]


def tabs(*words: object) -> str:
    return "\t".join(map(str, words))


def tile_fields(tile: Tile) -> str:
    """The fields of ap_tile, in its order, parted by tabs."""
    return tabs(*astuple(tile))


def random_tile(rng: random.Random, variant: Variant) -> Tile:
    """A legal tile; after some luckless tries, the variant's own."""
    if variant.pass_ == "fwd_combine":
        return replace(tile_of(variant), block_m=rng.randint(1, 64))
    for _ in range(50):
        if variant.arch == 90:
            block_m, block_n = rng.choice((64, 128, 192)), 16 * rng.randint(1, 16)
            tile = producer_tile(variant, block_m, block_n, rng.randint(2, 4))
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
        tile = Tile(
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
        tile = replace(tile, smem_bytes=smem_bytes(variant, tile))
        if not problems(variant, tile):
            return tile
    return tile_of(variant)
