"""What tests of the Python package share: packages that may be missing, dtypes and their bounds,
arrays, and mirrors of C structs that are held to the header."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
DEVICES = ["cpu"] + (["cuda"] if torch is not None and torch.cuda.is_available() else [])
HALF_DTYPES = [np.float16] + ([ml_dtypes.bfloat16] if ml_dtypes else [])
DTYPES = [*HALF_DTYPES, np.float32]
EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-20, "float64": 2.0**-50}


def normal(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(out, ref, dtype):
    """Whether `out` is off `ref`, in float64, by no more than rounding its largest element."""
    assert out.dtype == dtype and out.shape == ref.shape
    worst = np.abs(out.astype(np.float64) - ref).max(initial=0.0)
    assert worst <= EPSILON[np.dtype(dtype).name] * 1.1 * np.abs(ref).max(initial=0.0)


def assert_mirrored(
    header: str,
    structs: Mapping[str, type[ctypes.Structure]],
    constants: Mapping[str, int],
    root: Path,
    folder: Path,
) -> None:
    """Sizes and offsets of the structs, and constants, as the C compiler has them."""
    lines = [f'#include "{header}"', "#include <stdio.h>", "int main(void) {"]
    expected = []
    for name, mirror in structs.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append(ctypes.sizeof(mirror))
        for field, _ in mirror._fields_:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
            expected.append(getattr(mirror, field).offset)
    for name, value in constants.items():
        lines.append(f'printf("%d\\n", (int){name});')
        expected.append(value)
    source, program = folder / "offsets.c", folder / "offsets"
    source.write_text("\n".join([*lines, "return 0; }"]))
    subprocess.run(["cc", "-I", str(root / "include"), "-o", str(program), str(source)], check=True)
    assert [int(x) for x in subprocess.check_output([program], text=True).split()] == expected
