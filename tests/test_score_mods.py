"""attnpress.ScoreMod: what it refuses, the C structs that it becomes, and the shipped snippets,
which the library compiles (with the stand-in for NVRTC) and the emulator holds to float64."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import subprocess

import numpy as np
import pytest

import attnpress
from attnpress import _library as c
from attnpress import _numpy, _score_mod, _scores

try:
    import torch
except ImportError:
    torch = None

SHIPPED = ("alibi", "document", "prefix_lm", "softcap", "t5_bias", "window")


def inputs(heads=4, kv_heads=2, length=40, dtype=np.float16):
    q = np.ones((2, length, heads, 64), dtype)
    return q, np.ones((2, length, kv_heads, 64), dtype)


def shipped(name: str, heads: int = 4, length: int = 40) -> attnpress.ScoreMod:
    values = {
        "alibi": {"slopes": np.ones(heads, np.float32)},
        "document": {"doc": np.zeros((2, length), np.int32)},
        "prefix_lm": {"prefix": np.zeros(2, np.int32)},
        "t5_bias": {"bias": np.zeros((heads, 32), np.float32)},
    }
    return attnpress.ScoreMod.shipped(name, **values.get(name, {}))


# ---- What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({}, ValueError, "neither score nor mask"),
        ({"score": "  ", "mask": ""}, ValueError, "neither score nor mask"),
        ({"score": lambda s: s}, TypeError, "score is function; it must be C text"),
        ({"mask": "k <= q", "x": True}, TypeError, "x is a bool"),
        ({"mask": "k <= q", "x": 1 << 31}, ValueError, "x is 2147483648; an int"),
        ({"mask": "k <= q", "x": 1e39}, ValueError, "single precision"),
        ({"mask": "k <= q", "x": "5"}, TypeError, "x is str; a snippet takes"),
    ],
)
def test_what_is_no_snippet(values, error, words):
    with pytest.raises(error, match=words):
        attnpress.ScoreMod(**values)


@pytest.mark.parametrize(
    ("name", "values", "error", "words"),
    [
        ("alibis", {}, ValueError, "'alibis'; there are alibi, document, prefix_lm, softcap"),
        ("alibi", {}, TypeError, "alibi needs slopes, a tensor"),
        ("window", {"width": 3}, TypeError, "window has no width; it has left, right"),
    ],
)
def test_what_is_not_shipped(name, values, error, words):
    with pytest.raises(error, match=words):
        attnpress.ScoreMod.shipped(name, **values)


def test_calls_that_are_refused():
    q, k = inputs()
    mod = attnpress.ScoreMod(score="score *= x;", x=2.0)
    with pytest.raises(attnpress.NotSupportedError, match='score_mod "mod" is a text that is comp'):
        attnpress.flash_attn_func(q, k, k, score_mod=mod)
    with pytest.raises(NotImplementedError, match="the CPU backend cannot run it"):
        attnpress.describe(q, k, k, score_mod=mod)
    with pytest.raises(TypeError, match="score_mod is str; it must be an"):
        attnpress.flash_attn_func(q, k, k, score_mod="score = 0;")
    for value, words in (
        (np.ones((1, 1, 1, 1, 1), np.float32), "x has 5 dimensions"),
        (np.float32(3), "x is float32; with q it must be a NumPy array"),
        (np.ones(3, np.int64), "x is int64; float16, float32"),
    ):
        mod = attnpress.ScoreMod(score="score *= x(0);", x=value)
        with pytest.raises((TypeError, ValueError), match=words):
            attnpress.flash_attn_func(q, k, k, score_mod=mod)
    with pytest.raises(NotImplementedError, match="which runs no snippet"):
        attnpress.flash_attn_func(
            q, k, k, 0.5, return_attn_probs=True, score_mod=shipped("softcap")
        )
    with pytest.raises(ValueError, match="q_len"):
        attnpress.flash_attn_func(q, k, k, score_mod=attnpress.ScoreMod(mask="1", q_len=1))
    slopes = np.ones(4, np.float32)
    with pytest.raises(attnpress.NotSupportedError, match="together with alibi"):
        attnpress.flash_attn_func(q, k, k, alibi_slopes=slopes, score_mod=shipped("softcap"))


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
def test_gradients_are_refused_by_name():
    q = torch.ones(1, 8, 2, 64, dtype=torch.float16, requires_grad=True)
    with pytest.raises(NotImplementedError, match="no backward pass yet of calls with score_mod"):
        attnpress.flash_attn_func(q, q, q, score_mod=shipped("softcap"))
    slopes = torch.ones(2, requires_grad=True)
    mod = attnpress.ScoreMod.shipped("alibi", slopes=slopes)
    q = q.detach()
    with pytest.raises(NotImplementedError, match="no backward pass yet of calls with score_mod"):
        attnpress.flash_attn_func(q, q, q, score_mod=mod)


# ---- The structs ---------------------------------------------------------------------------------


def groups(mod: attnpress.ScoreMod, q, k) -> _scores.Groups:
    return _scores.groups_of(_numpy, _scores.Request(score_mod=mod), q, k)


def test_the_struct():
    q, k = inputs()
    table = np.arange(24, dtype=np.float16).reshape(2, 3, 4)[:, ::2]
    given = groups(
        attnpress.ScoreMod(
            "score += t(b, h, k) * f;", "k < n", name="own", t=table, f=1.5, n=-3,
            d=np.zeros(5, np.int32),
        ), q, k,
    )  # fmt: skip
    gc.collect()  # what it points to is alive
    args = c.ForwardArgs.from_buffer_copy(given.point_from(bytes(c.ForwardArgs())))
    mod = c.ScoreMod.from_address(args.score_mod)
    assert ctypes.string_at(mod.name) == b"own"
    assert ctypes.string_at(mod.score) == b"score += t(b, h, k) * f;"
    assert ctypes.string_at(mod.mask) == b"k < n"
    assert (mod.scalar_count, mod.buffer_count) == (2, 2)
    scalars = (c.ScoreScalar * 2).from_address(mod.scalars)
    assert [(ctypes.string_at(s.name), s.dtype) for s in scalars] == [(b"f", 3), (b"n", 4)]
    assert (scalars[0].value, scalars[1].int_value) == (1.5, -3)
    buffer, other = (c.ScoreBuffer * 2).from_address(mod.buffers)
    assert (list(buffer.shape), list(buffer.stride)) == ([2, 2, 4, 0], [12, 8, 1, 0])
    assert (buffer.dtype, buffer.rank, buffer.data) == (c.FP16, 3, table.ctypes.data)
    assert (other.dtype, other.rank, ctypes.string_at(other.name)) == (c.INT32, 1, b"d")
    assert not (args.window or args.alibi or args.bias or args.sinks or args.dropout)


def test_what_a_plan_depends_on():
    """Texts, names and kinds; neither numbers nor extents."""
    q, k = inputs()

    def key(mask="k < n", **values):
        return groups(attnpress.ScoreMod(mask=mask, **values), q, k).key

    table = np.zeros((2, 3), np.float32)
    assert key(n=1) == key(n=2)
    assert key(n=1) != key(n=1.0)
    assert key(n=1) != key("k <= n", n=1)
    assert key(n=1, t=table) == key(n=1, t=np.zeros((5, 7), np.float32))
    assert key(n=1, t=table) != key(n=1, t=table[0])
    assert key(n=1, t=table) != key(n=1, t=table.astype(np.float16))


@pytest.fixture(scope="module")
def handle(build_dir, tmp_path_factory):
    """A compile-only one with the stand-in for NVRTC."""
    folder = tmp_path_factory.mktemp("nvrtc")
    for name in ("libnvrtc.so.13", "libnvrtc-builtins.so.13.0"):
        shutil.copy(build_dir / "libfake_nvrtc.so", folder / name)
    options = c.Options(
        struct_size=ctypes.sizeof(c.Options), cache_dir=os.fsencode(folder / "cache")
    )
    handle = c.create(c.COMPILE_ONLY, options, str(folder / "libnvrtc.so.13"))
    yield handle
    c.library.attnpress_destroy(handle)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_snippets_are_compiled(handle, name):
    q, k = inputs()
    given = groups(shipped(name), q, k)
    args = c.ForwardArgs(struct_size=ctypes.sizeof(c.ForwardArgs))
    given.put_into(args)
    for tensor, array in zip((args.q, args.k, args.v, args.out), (q, k, k, q)):
        tensor.dtype = c.FP16
        tensor.shape[:] = array.shape
        tensor.stride[:] = [size // 2 for size in array.strides]
    options = c.PlanOptions(struct_size=ctypes.sizeof(c.PlanOptions), target=b"sm_90")
    plan = ctypes.c_void_p()
    library = c.library
    c.check(library.attnpress_plan_forward(handle, bytes(args), ctypes.byref(options), plan))
    c.check(library.attnpress_plan_prepare(plan, None))
    stems = []
    for index in range(library.attnpress_plan_launch_count(plan)):
        info = c.Info(struct_size=ctypes.sizeof(c.Info))
        c.check(library.attnpress_plan_launch(plan, index, ctypes.byref(info)))
        stems.append(info.stem.decode())
    library.attnpress_plan_destroy(plan)
    if name in ("alibi", "softcap", "t5_bias"):
        assert stems == ["flash_fwd_hdim64_fp16_modscore_sm90"]
    else:
        assert stems == ["flash_fwd_map_hdim8_bf16_sm80", "flash_fwd_hdim64_fp16_modmask_sm90"]


def test_every_file_is_shipped():
    assert tuple(sorted(path.stem for path in _score_mod._MODS.glob("*.mod"))) == SHIPPED


# ---- The emulator --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_snippets_in_the_emulator(build_dir, name):
    """The file against float64, which test_score_mod holds to what is built in."""
    tool = build_dir / "attnpress"
    if not (build_dir / "attnpress-emulate").exists():
        pytest.skip("the emulator is not built")
    arch = "sm90" if name == "document" else "sm80"
    done = subprocess.run(
        [
            tool, "run", "--device", "emulated", "--arch", arch, "--hdim", "40", "--batch", "2",
            "--seqlen-q", "70", "--seqlen-k", "150", "--heads", "4", "--kv-heads", "2",
            "--mod", _score_mod._MODS / f"{name}.mod",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "check     held" in done.stdout and "_mod" in done.stdout
