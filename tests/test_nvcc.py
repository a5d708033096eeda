"""The sources in generated/ compile under nvcc too, for those who vendor them.

A sample: set ATTNPRESS_NVCC=all for every file (five minutes of two cores). The library itself
never uses nvcc."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "generated").glob("flash_*.cu"))
SAMPLE = 6
ALL = os.environ.get("ATTNPRESS_NVCC") == "all"


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize(
    "source",
    SOURCES if ALL else random.Random(90).sample(SOURCES, SAMPLE),
    ids=lambda source: source.stem,
)
def test_generated_source_compiles_under_nvcc(source: Path, tmp_path: Path) -> None:
    arch = {"sm86": "sm_86", "sm90": "sm_90a"}.get(source.stem.rpartition("_")[2], "sm_80")
    cubin = tmp_path / "kernel.cubin"
    command = ["nvcc", "-std=c++17", f"-arch={arch}", "-cubin", "-Werror", "all-warnings"]
    command += [f"-I{ROOT / 'include'}", "-o", str(cubin), str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert source.stem.encode() in cubin.read_bytes()
