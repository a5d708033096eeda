"""What a Python user sets and sees: attnpress.configure, `python -m attnpress`, types."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import attnpress

USER = """
import numpy as np
import attnpress
from attnpress.softmax import softmax, softmax_backward

def log(level: int, message: str) -> None:
    print(level, message)

attnpress.configure(log=log, num_threads=2, cache_layers=["/opt/layer"], jit_off=True)
q = np.ones((1, 2, 2, 8), dtype=np.float32)
out = attnpress.flash_attn_func(q, q, q, causal=True)
print(out.shape)
both = attnpress.flash_attn_func(q, q, q, return_attn_probs=True)
print(len(both), both[1].shape)
description: attnpress.Description = attnpress.describe(q, q, q)
stem: str = description.launches[0].stem
half = q.astype(np.float16)
explanation = attnpress.explain(half, half, half, causal=True, target="sm_90")
bound: float | None = explanation.bound_us
split: int = explanation.alternatives[0].launch.num_splits
print(explanation.launches[0].stem, split, bound is not None)
print(stem, softmax_backward(softmax(q, scale=0.5), q).shape)
"""


def python(root: Path, program: str, status: int = 0, **environment: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(root / "python"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def test_a_program_with_settings(root):
    out, _ = python(root, USER)
    assert out.splitlines() == [
        "(1, 2, 2, 8)",
        "3 (1, 2, 2)",
        "flash_fwd_hdim8_fp16_causal_decode_sm80 2 True",
        "cpu_fwd_hdim8_fp32 (1, 2, 2, 8)",
    ]


def test_types_of_the_package(mypy, root):
    """mypy --strict, as pyproject.toml says."""
    assert mypy(cwd=root).startswith("Success: no issues found in ")


def test_types_of_a_program(mypy, root, tmp_path):
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(USER + "softmax(q, scale='x')\nout.nothing()\n")
    found = mypy(
        "--config-file", root / "pyproject.toml", "user.py", "wrong.py",
        env={**os.environ, "MYPYPATH": str(root / "python")}, cwd=tmp_path,
    )  # fmt: skip
    assert found.count("error:") == found.count("wrong.py:") == 2, found


@pytest.mark.parametrize(
    ("call", "exception", "says"),
    [
        ("num_threads=5000", "InvalidArgumentError", "options.num_threads is 5000"),
        ("arch_max=75", "InvalidArgumentError", "options.arch_max is 75"),
        ("cache_dir=''", "InvalidArgumentError", "options.cache_dir is an empty text"),
        ("log='x'", "TypeError", "it must be callable"),
        ("cache_layers='/opt/x'", "TypeError", "must be a sequence"),
        ("num_threads='2'", "TypeError", "num_threads is '2'; it must be a whole number"),
        ("num_threads=1 << 32", "ValueError", "num_threads is 4294967296; it must be 0 to 214"),
        ("cache_max_bytes=-1", "ValueError", "cache_max_bytes is -1; it must be 0 to 184"),
        ("cache_dir=3", "TypeError", "cache_dir is 3; it must be a path"),
        ("nvrtc_path=[]", "TypeError", "nvrtc_path is []; it must be a path"),
        ("cache_layers=3", "TypeError", "cache_layers is 3; it must be a sequence of paths"),
        ("cache_layers=[3]", "TypeError", "cache_layers is 3; it must be a path"),
    ],
)
def test_settings_that_are_not_allowed(root, call: str, exception: str, says: str):
    program = f"""
import attnpress
try:
    attnpress.configure({call})
except Exception as error:
    print(type(error).__name__, error)
"""
    out, _ = python(root, program)
    assert out.startswith(exception) and says in out


def test_settings_come_before_calls(root):
    program = """
import numpy as np, attnpress
attnpress.configure(num_threads=1)
attnpress.configure(num_threads=2)
q = np.ones((1, 2, 2, 8), dtype=np.float32)
attnpress.flash_attn_func(q, q, q)
attnpress.configure(num_threads=1)
"""
    _, err = python(root, program, status=1)
    assert "RuntimeError: attnpress.configure comes too late" in err


CHECKED = """
import numpy as np, attnpress
{configure}
x = np.ones((2, 1, 2, 8), dtype=np.float32)
cache, table = np.zeros((2, 6, 4, 2, 8), dtype=np.float32), np.array([[0, 1], [2, 9]], np.int32)

def call(lengths, **more):
    used = np.array(lengths, np.int32)
    try:
        attnpress.flash_attn_with_kvcache(x, *cache, cache_seqlens=used, block_table=table, **more)
        print("done")
    except attnpress.InvalidArgumentError as error:
        print(error)

call([8, 4])
call([8, 9])
call([5, 5])
call([8, 0], k=x, v=x)
call([3, 3], k=x, v=x)
"""


@pytest.mark.parametrize("how", ["option", "variable", "neither"])
def test_the_checking_mode_names_sequence_and_value(root, how):
    options = {"ATTNPRESS_CHECK": "1"} if how == "variable" else {}
    configure = "attnpress.configure(check=True)" if how == "option" else ""
    out, _ = python(root, CHECKED.format(configure=configure), **options)
    says = ["done", "seqused_k is 9", "page 1 of ragged.page_table is 9", "token 0 stands at 8"]
    wanted = ["done"] * 5 if how == "neither" else [*says, "done"]
    for line, want in zip(out.splitlines(), wanted):
        assert want in line
        assert want == "done" or line.startswith("sequence ")
    assert len(out.splitlines()) == 5


def test_a_wrong_variable_is_named(root):
    program = """
import numpy as np, attnpress
q = np.ones((1, 2, 2, 8), dtype=np.float32)
attnpress.flash_attn_func(q, q, q)
"""
    _, err = python(root, program, status=1, ATTNPRESS_NUM_THREADS="many")
    assert 'InvalidArgumentError: ATTNPRESS_NUM_THREADS is "many"; it must be 0 to 1024' in err


def test_the_log_hears_a_compile(build_dir, tmp_path, monkeypatch):
    """Through a compile-only handle and the stand-in for NVRTC."""
    from attnpress import _library as c
    from attnpress import _settings

    for name in ("libnvrtc.so.13", "libnvrtc-builtins.so.13.0"):
        shutil.copy(build_dir / "libfake_nvrtc.so", tmp_path / name)
    heard: list[tuple[int, str]] = []
    function = _settings._log_function(lambda level, message: heard.append((level, message)))
    options = c.Options(
        struct_size=ctypes.sizeof(c.Options),
        cache_dir=os.fsencode(tmp_path / "cache"),
        log=ctypes.cast(function, ctypes.c_void_p),
    )
    handle = c.create(c.COMPILE_ONLY, options, str(tmp_path / "libnvrtc.so.13"))
    compile_ = c.library.attnpress_compile
    compile_.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
    stem = b"flash_fwd_hdim72_bf16_sm80"
    c.check(compile_(handle, stem, b"sm_80", None))
    c.library.attnpress_destroy(handle)
    assert any(level == 0 and ": compiling (" in message for level, message in heard)


def test_window_size_must_be_a_pair():
    q = np.ones((1, 2, 2, 8), dtype=np.float32)
    with pytest.raises(TypeError, match=r"window_size is 4; it must be a pair \(left, right\)"):
        attnpress.flash_attn_func(q, q, q, window_size=4)


def test_the_tool(root, build_dir):
    """From beside the library."""
    done = subprocess.run(
        [sys.executable, "-m", "attnpress", "--version"],
        env={**os.environ, "PYTHONPATH": str(root / "python")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"attnpress {attnpress.__version__}\n"


def test_without_the_tool(root, build_dir, tmp_path):
    shutil.copy(build_dir / "libattnpress.so", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "attnpress", "--version"],
        env={
            **os.environ,
            "PYTHONPATH": str(root / "python"),
            "ATTNPRESS_LIBRARY": str(tmp_path / "libattnpress.so"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "the tool is neither beside the package nor beside" in done.stderr
