"""tests/data/compiled.csv: every legal kernel was compiled as it is now, and none spills."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from compile_table import Row, compile_kernels, every_kernel, kernel_of, read_table

HINT = "run python tests/compile_table.py"
SAMPLE = 16
# What a thread block may ask for, and a thread may have: CUDA C++ Programming Guide, "Technical
# Specifications per Compute Capability".
SMEM_BYTES = {"sm_80": 163 * 1024, "sm_86": 99 * 1024, "sm_90": 163 * 1024}
REGISTERS = 255


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return read_table()


def test_table_is_complete_and_current(rows: list[Row]) -> None:
    recorded = {kernel_of(row) for row in rows}
    expected = set(every_kernel())
    differing = sorted(kernel.stem for kernel in expected ^ recorded)
    assert not differing, f"{len(differing)} rows differ, {differing[0]} among them: {HINT}"
    assert len(recorded) == len(rows)


def test_no_kernel_spills(rows: list[Row]) -> None:
    assert [row.stem for row in rows if row.spill_bytes] == []


def test_every_kernel_fits_its_target(rows: list[Row]) -> None:
    for row in rows:
        assert 0 < row.registers <= REGISTERS, row
        assert row.smem_bytes <= SMEM_BYTES[row.target], row


def test_a_sample_compiles_as_recorded(rows: list[Row], build_dir: Path) -> None:
    """Another sample each time the kernels change; the compiler may be another release, so that
    only what must hold is compared."""
    chosen = random.Random(rows[0].digest).sample(rows, SAMPLE)
    kernels = [kernel_of(row) for row in chosen]
    for row in compile_kernels(build_dir / "attnpress-press", kernels, jobs=2):
        assert row.spill_bytes == 0, row
        assert 0 < row.registers <= REGISTERS, row
        assert row.cubin_bytes > 0, row
