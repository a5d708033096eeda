"""tests/data/compiled.csv: the sampled kernels were compiled as they are now, few spill, and the
compiler has no remark that matters."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest
from compile_table import (
    Kernel,
    Row,
    check_tool,
    compile_kernels,
    kernel_of,
    listed_kernels,
    read_table,
    remarks_of,
)

from generator.sets import whole_set
from generator.variant import parse_stem

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
    differing = sorted({(k.stem, k.target) for k in set(listed_kernels()) ^ recorded})
    assert not differing, f"{len(differing)} rows differ, {differing[0][0]} among them: {HINT}"
    assert len(recorded) == len(rows)


def is_plain_forward(row: Row) -> bool:
    """Of the forward pass, without a window or what else is done to scores."""
    variant = parse_stem(row.stem)
    if variant.family.name != "attention" or not variant["pass"].startswith("fwd"):
        return False
    plain = all(variant[name] == variant.family.axis(name).default for name in FEATURES)
    return plain and variant.mask != "window"


FEATURES = (
    *("softcap", "alibi", "bias", "dropout", "mod_score", "mod_mask", "mod_grad"),
    *("sequences", "ready"),
)
SPILL_BYTES, SPILLING_SHARE = 48, 0.02
GATHER_SPILL_BYTES = 96  # of producers on 9.0 that gather what no box brings, with few registers
# Of layer norm's rings with weights of fp32: more threads a row spill less, and are slower.
RINGED_SPILL_BYTES = 56
WIDE_SPILL_BYTES = 32  # of layer norm's wide rows, whose parameters fill the registers


def most_spills(row: Row) -> int:
    variant = parse_stem(row.stem)
    if variant.family.name == "attention":
        gathers = variant["sequences"] == "paged" and variant.arch == 90
        return GATHER_SPILL_BYTES if gathers else SPILL_BYTES
    is_ring = variant.family.name == "layernorm" and variant["rows"] == "ringed"
    return RINGED_SPILL_BYTES if is_ring and variant["params"] == "fp32" else SPILL_BYTES


def test_few_kernels_spill_little(rows: list[Row], root: Path) -> None:
    """None of the plain forward pass, and of the others few, a register or some."""
    spilling = [row for row in rows if row.spill_bytes]
    assert [row.stem for row in spilling if is_plain_forward(row)] == []
    assert [row.stem for row in spilling if row.spill_bytes > most_spills(row)] == []
    assert len(spilling) <= SPILLING_SHARE * len(rows)
    said = (
        f"{SPILL_BYTES} bytes at the most",
        f"rings with weights of fp32 {RINGED_SPILL_BYTES}",
        f"that gather pages {GATHER_SPILL_BYTES})",
    )
    text = (root / "README.md").read_text(encoding="utf-8")
    assert all(words in text for words in said)


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


def test_listed_kernels_fits_its_target(rows: list[Row]) -> None:
    for row in rows:
        assert 0 < row.registers <= REGISTERS, row
        assert row.smem_bytes <= SMEM_BYTES[row.target], row


def tool_of(build_dir: Path) -> Path:
    """One that has no kernels linked in."""
    cache = (build_dir / "CMakeCache.txt").read_text(encoding="utf-8")
    linked = "ATTNPRESS_PREBUILT:BOOL=ON" in cache
    return build_dir / ("attnpress-press" if linked else "attnpress")


def check_compiled(tool: Path, kernels: list[Kernel]) -> None:
    check_tool(tool, kernels)
    for row in compile_kernels(tool, kernels, jobs=2):
        assert row.spill_bytes <= most_spills(row), row
        assert row.remarks == "", row
        assert 0 < row.registers <= REGISTERS, row
        assert row.cubin_bytes > 0, row


def has_nvrtc(tool: Path) -> bool:
    done = subprocess.run([tool, "doctor", "--json"], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["NVRTC"] != ["none"]


def test_a_sample_compiles_as_recorded(rows: list[Row], build_dir: Path) -> None:
    """Another sample each time the kernels change; the compiler may be another release, so that
    only what must hold is compared."""
    tool = tool_of(build_dir)
    if not has_nvrtc(tool):
        pytest.skip("no NVRTC")
    chosen = random.Random(rows[0].digest).sample(rows, SAMPLE)
    check_compiled(tool, [kernel_of(row) for row in chosen])


def test_linked_kernels_do_not_spill(build_dir: Path) -> None:
    """All that the build has compiled, but wide rows, by its own account; a line ends with
    registers, bytes of local memory, stem and target."""
    manifest = build_dir / "prebuilt" / "prebuilt_manifest.txt"
    if not manifest.exists():
        pytest.skip("a build without linked kernels")
    lines = [line.split() for line in manifest.read_text(encoding="utf-8").splitlines()]
    linked = [line for line in lines if line and not line[0].startswith("#")]
    assert {line[5] for line in linked} == {v.stem for v in whole_set("default").variants}
    assert [line[5:] for line in linked if int(line[3]) > REGISTERS] == []
    spilling = [line for line in linked if int(line[4]) > 0]
    assert [line[5:] for line in spilling if "_wide_" not in line[5]] == []
    assert [line[5:] for line in spilling if int(line[4]) > WIDE_SPILL_BYTES] == []
