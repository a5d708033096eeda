"""tests/data/compiled.csv: every legal kernel was compiled as it is now, none spills, and the
compiler has no remark on any."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from compile_table import (
    Row,
    check_tool,
    compile_kernels,
    every_kernel,
    kernel_of,
    read_table,
    remarks_of,
)

HINT = "run python tests/compile_table.py"
SAMPLE = 16
# What a thread block may ask for, and a thread may have: CUDA C++ Programming Guide, "Technical
# Specifications per Compute Capability".
SMEM_BYTES = {
    "sm_80": 163 * 1024,
    "sm_86": 99 * 1024,
    "sm_90": 227 * 1024,
    "sm_90a": 227 * 1024,
}
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


def test_the_compiler_has_no_remarks(rows: list[Row]) -> None:
    """Such as C7508, C7510, C7511 and C7512: products of a warpgroup wait for each other."""
    assert [(row.stem, row.remarks) for row in rows if row.remarks] == []


def test_remarks_are_seen() -> None:
    """The words of NVRTC 13.0, and of the tool around them."""
    stderr = """\
attnpress compile: NVRTC 13.0 on flash_fwd_hdim128_bf16_sm90 for sm_90a:
k.cu(384): warning #177-D: variable "heads" was declared but never referenced

ptxas info    : (C7519) warpgroup.arrive is injected in around line 1537 by compiler to allow use \
of registers in GMMA in function 'flash_fwd_hdim128_bf16_sm90'
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized \
due to wgmma pipeline crossing function boundary at a function call in the function 'f'
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
attnpress compile: NVRTC 13.0 on flash_fwd_hdim8_bf16_sm90 for sm_90a:
words of a compiler that is not known yet
attnpress compile: something else
"""
    assert remarks_of(stderr) == {
        "flash_fwd_hdim128_bf16_sm90": "#177 C7510 C7519",
        "flash_fwd_hdim8_bf16_sm90": "other",
    }
    assert remarks_of("") == {}


def test_every_kernel_fits_its_target(rows: list[Row]) -> None:
    for row in rows:
        assert 0 < row.registers <= REGISTERS, row
        assert row.smem_bytes <= SMEM_BYTES[row.target], row


def test_a_sample_compiles_as_recorded(rows: list[Row], build_dir: Path) -> None:
    """Another sample each time the kernels change; the compiler may be another release, so that
    only what must hold is compared."""
    chosen = random.Random(rows[0].digest).sample(rows, SAMPLE)
    kernels = [kernel_of(row) for row in chosen]
    check_tool(build_dir / "attnpress-press", kernels)
    for row in compile_kernels(build_dir / "attnpress-press", kernels, jobs=2):
        assert row.spill_bytes == 0, row
        assert row.remarks == "", row
        assert 0 < row.registers <= REGISTERS, row
        assert row.cubin_bytes > 0, row
