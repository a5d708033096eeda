"""The compiler's report of every legal kernel: registers, spills, shared memory, time, size.

    python tests/compile_table.py [--tool build/attnpress-press] [--jobs N]

compiles every legal stem for each target that its architecture is pressed for, and writes
tests/data/compiled.csv; half an hour of two cores. Rows that are current are kept, unless --all is
given. tests/test_compiled.py holds the table to be complete, current and free of spills, and
compiles a sample of it again.

A row's digest is that of the rendered source and the device headers, so that the row of an older
kernel cannot pass for a current one. Milliseconds are NVRTC's, with all jobs at work at once.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
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

from generator.registry import device_headers, headers_digest, load_catalog, source  # noqa: E402
from generator.render import environment  # noqa: E402
from generator.tiles import tile_of  # noqa: E402
from generator.variant import every_variant  # noqa: E402

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
    cubin_bytes: int
    milliseconds: float


def every_kernel() -> list[Kernel]:
    """All legal stems with all targets that they are pressed for, sorted."""
    env = environment()
    headers = headers_digest(device_headers())
    targets = load_catalog().targets
    kernels = []
    for variant in every_variant():
        text = headers + source(env, variant)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        tile = tile_of(variant)
        for target in targets[variant.pass_, variant.arch]:
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
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = []
    for line in output.splitlines()[1:]:
        stem, _, _, milliseconds, cubin_bytes, registers, spill_bytes = line.split()
        report = (int(registers), int(spill_bytes), int(cubin_bytes), float(milliseconds))
        rows.append(Row(*asdict(by_stem[stem]).values(), *report))
    if len(rows) != len(kernels):
        raise RuntimeError(f"{len(rows)} of {len(kernels)} kernels are in the answer:\n{output}")
    return rows


def kernel_of(row: Row) -> Kernel:
    return Kernel(*(getattr(row, field.name) for field in fields(Kernel)))


def read_table(path: Path = TABLE) -> list[Row]:
    types = {"str": str, "int": int, "float": float}
    with path.open(newline="") as file:
        return [
            Row(**{field.name: types[field.type](row[field.name]) for field in fields(Row)})
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
    options = parser.parse_args()
    if not options.tool.exists():
        parser.error(f"{options.tool} does not exist: build it, or name it with --tool")
    kernels = every_kernel()
    old = [] if options.all or not options.table.exists() else read_table(options.table)
    current = {kernel_of(row): row for row in old}
    rows = [current[kernel] for kernel in kernels if kernel in current]
    missing = [kernel for kernel in kernels if kernel not in current]
    for row in compile_kernels(options.tool, missing, options.jobs):
        rows.append(row)
        if row.spill_bytes:
            print(f"{row.stem} for {row.target} spills {row.spill_bytes} bytes")
        if len(rows) % 100 == 0:
            print(f"{len(rows)} of {len(kernels)} kernels", flush=True)
    write_table(rows, options.table)
    print(f"{options.table}: {len(rows)} kernels, {sum(row.spill_bytes > 0 for row in rows)} spill")
    return 0


if __name__ == "__main__":
    sys.exit(main())
