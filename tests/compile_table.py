"""The compiler's report of a sample of the legal kernels: registers, spills, remarks, shared
memory, time, size.

    python tests/compile_table.py [--tool build/attnpress-press] [--jobs N]
    python tests/compile_table.py --only '*_sm90' --table /tmp/some.csv

compiles one stem in 24 by the hash of its name, some with features, some of ragged sequences and
some of pairs of head dims, for each target that its architecture is pressed for, and writes
tests/data/compiled.csv; ten minutes of two cores. Rows that are current are kept, unless --all is
given; with --only, so are those of other stems, current or not. What the build links it compiles,
and reports, itself. tests/test_compiled.py holds the table to be complete, current, nearly free of
spills and free of remarks, and compiles a sample of it again.

Remarks are the codes of what the compiler says in its log, such as C7510: products of a warpgroup
that wait for each other, at a third of the speed and without an error.

A row's digest is that of the rendered source and the device headers that it includes, so that the
row of an older kernel cannot pass for a current one. Milliseconds are NVRTC's, with all jobs at
work at once.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from generator.family import families  # noqa: E402
from generator.registry import device_headers, headers_digest  # noqa: E402
from generator.render import environment, source  # noqa: E402
from generator.sets import link_targets  # noqa: E402
from generator.tiles import tile_of  # noqa: E402
from generator.variant import (  # noqa: E402
    Variant,
    VariantError,
    every_variant,
    parse_stem,
    stand_in,
)

TABLE = ROOT / "tests" / "data" / "compiled.csv"
STEMS_A_RUN = 16


@dataclass(frozen=True)
class Kernel:
    """What is compiled: a stem with its tile, for a target."""

    stem: str
    target: str
    tile: str
    digest: str
    smem_bytes: int  # dynamic shared memory of a block


@dataclass(frozen=True)
class Row(Kernel):
    """What the compiler made of it."""

    registers: int  # of a thread
    spill_bytes: int  # local memory of a thread
    remarks: str  # in the compiler's log: their codes, sorted, parted by blanks
    cubin_bytes: int
    milliseconds: float


def included(text: str, headers: dict[str, str]) -> dict[str, str]:
    """The headers that a source includes, directly or through others."""
    found: dict[str, str] = {}
    texts = [text]
    while texts:
        for name in re.findall(r'^#include "(.*)"', texts.pop(), flags=re.MULTILINE):
            if name not in found:
                found[name] = headers[name]
                texts.append(headers[name])
    return found


def hash_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def with_features(variant: Variant) -> Variant | None:
    """The variant with one, two or all of its family's features, by the hash of its name; None for
    most variants, and where it cannot have them."""
    hash_ = hash_of(f"features of {variant.stem}")
    # Kernels with a snippet have no source without one; those of sequences have a sample of their
    # own.
    of_snippets = {name for where in variant.family.snippets for name, _ in where}
    features = tuple(
        name
        for name in variant.family.features
        if name not in of_snippets and name not in ("sequences", "ready")
    )
    if not features or hash_ % 48:
        return None
    first, second = hash_ // 48 % len(features), hash_ // 64 % len(features)
    chosen = features if hash_ // 512 % 8 == 0 else {features[first], features[second]}
    values = {}
    for name in chosen:
        axis = variant.family.axis(name)
        others = [value for value in axis.domain if value != axis.default]
        values[name] = others[hash_ // 4096 % len(others)]
    try:
        return variant.replace(**values)
    except VariantError:
        return None


def with_sequences(variant: Variant) -> Variant | None:
    """The variant of sequences of their own lengths, by the hash of its name; None for most
    variants, and where it cannot have them."""
    hash_ = hash_of(f"sequences of {variant.stem}")
    if "sequences" not in variant.family.features or hash_ % 144:
        return None
    try:
        return variant.replace(sequences=("ragged", "paged")[hash_ // 144 % 2])
    except VariantError:
        return None


def with_ready_schedule(variant: Variant) -> Variant | None:
    """The variant of sequences in the order of a ready schedule, likewise."""
    hash_ = hash_of(f"ready of {variant.stem}")
    if "ready" not in variant.family.features or hash_ % 48:
        return None
    try:
        return variant.replace(sequences=("ragged", "paged")[hash_ // 48 % 2], ready=True)
    except VariantError:
        return None


def as_pair(variant: Variant) -> Variant | None:
    """The variant with another value of an axis that equals another, and has the tile of a
    stand-in then, by the hash of its name; None for most variants, and where it cannot have it."""
    hash_ = hash_of(f"pair of {variant.stem}")
    axis = next((axis for axis in variant.family.axes if axis.pairs), None)
    if axis is None or hash_ % 96 or variant[axis.name] != variant[axis.same_as]:
        return None
    # Half of them near by, where most are.
    values = axis.domain[: 32 if hash_ // 96 % 2 else len(axis.domain)]
    try:
        other = variant.replace(**{axis.name: values[hash_ // 192 % len(values)]})
    except VariantError:
        return None
    return other if stand_in(other) is not None else None


def sampled_variants() -> Iterator[Variant]:
    """One in 24 of all, and some of those that have features or unequal head dims: whatever the
    default set is."""
    for family in families():
        for variant in every_variant(family):
            if variant.takes_snippet:
                continue
            if hash_of(variant.stem) % 24 == 0:
                yield variant
            for other in (with_features, with_sequences, with_ready_schedule, as_pair):
                found = other(variant)
                if found is not None:
                    yield found


def listed_kernels() -> list[Kernel]:
    """The sampled stems with all targets that they are pressed for, sorted."""
    variants = {variant.stem: variant for variant in sampled_variants()}
    return kernels_of(variants.values())


def kernels_of(variants: Iterable[Variant]) -> list[Kernel]:
    env = environment()
    headers = device_headers()
    kernels = []
    for variant in variants:
        for target in link_targets(variant):
            tile = tile_of(variant, target=target)
            text = source(env, variant, tile)
            text += headers_digest(included(text, headers))
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            kernels.append(Kernel(variant.stem, target, tile.name, digest, tile.smem_bytes))
    return sorted(kernels, key=lambda kernel: (kernel.stem, kernel.target))


def compile_kernels(tool: Path, kernels: Iterable[Kernel], jobs: int) -> Iterator[Row]:
    """Compiles with a tool that has no cubins linked in; CalledProcessError where it fails."""
    by_target: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        by_target.setdefault(kernel.target, []).append(kernel)
    runs = [
        group[i : i + STEMS_A_RUN]
        for group in by_target.values()
        for i in range(0, len(group), STEMS_A_RUN)
    ]
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(jobs) as pool:
        for rows in pool.map(lambda run: _compile(tool, run, Path(cache)), runs):
            yield from rows


def _compile(tool: Path, kernels: list[Kernel], cache: Path) -> list[Row]:
    by_stem = {kernel.stem: kernel for kernel in kernels}
    command = [tool, "compile", *by_stem, "--target", kernels[0].target, "--cache-dir", cache]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    remarks = remarks_of(done.stderr)
    rows = []
    for line in done.stdout.splitlines()[1:]:
        stem, _, _, milliseconds, cubin_bytes, registers, spill_bytes = line.split()
        report = (int(registers), int(spill_bytes), remarks.get(stem, ""))
        report += (int(cubin_bytes), float(milliseconds))
        rows.append(Row(*asdict(by_stem[stem]).values(), *report))
    if len(rows) != len(kernels):
        raise RuntimeError(f"{len(rows)} of {len(kernels)} kernels are in:\n{done.stdout}")
    return rows


def check_tool(tool: Path, kernels: Iterable[Kernel]) -> None:
    """RuntimeError where the tool renders other sources than the generator, from an older build:
    its report would be that of other kernels."""
    env = environment()
    for stem in {kernel.stem.rpartition("_")[2]: kernel.stem for kernel in kernels}.values():
        done = subprocess.run([tool, "source", stem], check=True, capture_output=True, text=True)
        if done.stdout != source(env, parse_stem(stem)):
            raise RuntimeError(f"{tool} has another {stem} than the generator: build it again")


_LOG = re.compile(r"^attnpress compile: NVRTC \S+ on (\S+) for \S+:$", flags=re.MULTILINE)
_REMARK = re.compile(r"\((C\d+)\)|\b(?:warning|error) (#\d+)")


def remarks_of(stderr: str) -> dict[str, str]:
    """The codes in each kernel's log, from what `attnpress compile` wrote to stderr. A log without
    any is "other": a compiler that is content has none."""
    _, *parts = _LOG.split(stderr)
    return {
        stem: " ".join(sorted({a or b for a, b in _REMARK.findall(log)})) or "other"
        for stem, log in zip(parts[::2], parts[1::2], strict=True)
    }


def kernel_of(row: Row) -> Kernel:
    return Kernel(*(getattr(row, field.name) for field in fields(Kernel)))


def read_table(path: Path = TABLE) -> list[Row]:
    types = {"str": str, "int": int, "float": float}
    with path.open(newline="") as file:
        return [
            # A column that the table does not have yet is that of rows that are not current.
            Row(**{field.name: types[field.type](row.get(field.name, "")) for field in fields(Row)})
            for row in csv.DictReader(file)
        ]


def write_table(rows: Iterable[Row], path: Path = TABLE) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(Row))
        ordered = sorted(rows, key=lambda row: (row.stem, row.target))
        writer.writerows(asdict(row).values() for row in ordered)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tool", type=Path, default=ROOT / "build" / "attnpress-press")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--all", action="store_true", help="also what is current")
    parser.add_argument("--only", metavar="GLOB", default="*", help="compile only these stems")
    options = parser.parse_args()
    if not options.tool.exists():
        parser.error(f"{options.tool} does not exist: build it, or name it with --tool")
    kernels = listed_kernels()
    wanted = [kernel for kernel in kernels if fnmatch.fnmatchcase(kernel.stem, options.only)]
    others = {(k.stem, k.target) for k in kernels} - {(k.stem, k.target) for k in wanted}
    old = read_table(options.table) if options.table.exists() else []
    current = {} if options.all else {kernel_of(row): row for row in old}
    rows = [row for row in old if (row.stem, row.target) in others]
    rows += [current[kernel] for kernel in wanted if kernel in current]
    missing = [kernel for kernel in wanted if kernel not in current]
    try:
        check_tool(options.tool, missing)
    except RuntimeError as error:
        parser.error(str(error))
    for count, row in enumerate(compile_kernels(options.tool, missing, options.jobs), start=1):
        rows.append(row)
        if row.spill_bytes or row.remarks:
            print(f"{row.stem} for {row.target}: {row.spill_bytes} bytes spilled, {row.remarks}")
        if count % 100 == 0:
            print(f"{count} of {len(missing)} kernels", flush=True)
    write_table(rows, options.table)
    spill = sum(row.spill_bytes > 0 for row in rows)
    remarked = sum(row.remarks != "" for row in rows)
    print(f"{options.table}: {len(rows)} kernels, {spill} spill, {remarked} have remarks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
