"""attnpress.ScoreMod: what it refuses, the C structs that it becomes, and the shipped snippets,
which the library compiles (with the stand-in for NVRTC) and the emulator holds to float64."""

from __future__ import annotations

import ctypes
import gc
import math
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
        ({"score": "score = 0;", "score_grad": 1}, TypeError, "score_grad is int; it must be C"),
        ({"mask": "k <= q", "score_grad": "1"}, ValueError, "score_grad is given without a score"),
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
def test_which_gradients_by_a_tensor_of_its_own_are_refused():
    q = torch.ones(1, 8, 2, 64, dtype=torch.float16, requires_grad=True)
    slopes = torch.ones(2, requires_grad=True)
    mod = attnpress.ScoreMod.shipped("alibi", slopes=slopes)
    mask = attnpress.ScoreMod(mask="near(q) > 0", near=slopes)
    cu = torch.tensor([0, 8], dtype=torch.int32)
    for one in (q, q.detach()):
        with pytest.raises(
            NotImplementedError, match="no gradient by near, a tensor of a score_mo"
        ):
            attnpress.flash_attn_func(one, one, one, score_mod=mask)
        with pytest.raises(NotImplementedError, match="deterministic is True, and a tensor of"):
            attnpress.flash_attn_func(one, one, one, deterministic=True, score_mod=mod)
        with pytest.raises(NotImplementedError, match="deterministic is True, and a tensor of"):
            attnpress.flash_attn_varlen_func(
                one[0], one[0], one[0], cu, cu, 8, 8, deterministic=True, score_mod=mod
            )
        with pytest.raises(attnpress.NotSupportedError, match="the CPU backend"):
            attnpress.flash_attn_func(one, one, one, score_mod=mod)
    with torch.no_grad(), pytest.raises(attnpress.NotSupportedError, match="the CPU backend"):
        attnpress.flash_attn_func(q, q, q, score_mod=mod)
    with pytest.raises(attnpress.NotSupportedError, match="the CPU backend"):
        attnpress.flash_attn_func(q, q, q, score_mod=shipped("softcap"))


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("ragged", [False, True])
def test_gradients_by_tensors_of_its_own_come_from_the_call(monkeypatch, ragged):
    """What a call is asked for, in place of a GPU: zeros of fp32 of each tensor that requires grad,
    whose sums go to autograd in the tensor's dtype; through a view of one, too."""
    from attnpress import _torch

    class Call:
        workspace_bytes = 0

        def __init__(self, request):
            self.request = request

        def run(self, dq, dk, dv, dsinks, workspace, stream, dbias, dbuffers):
            assert self.request.dbuffers == ((3, 4), None, None, (2,))
            assert dbuffers[1] == dbuffers[2] == 0
            for data, count in ((dbuffers[0], 12), (dbuffers[3], 2)):
                sums = (ctypes.c_float * count).from_address(data)
                assert not any(sums)
                sums[:] = range(1, count + 1)

    def launched(*args):
        return torch.zeros_like(args[0 if ragged else 1]), torch.zeros(2, 8)

    monkeypatch.setattr(_torch, "Call", Call)
    monkeypatch.setattr(_torch, "ragged" if ragged else "_launched", launched)
    table = torch.ones(4, dtype=torch.bfloat16, requires_grad=True)
    slopes = torch.ones(2, requires_grad=True)
    mod = attnpress.ScoreMod(
        score="score += table(b, k) * slopes(h) + fixed(h) * doc(k);",
        table=table.expand(3, 4), fixed=torch.ones(2), doc=torch.ones(8, dtype=torch.int32),
        slopes=slopes,
    )  # fmt: skip
    q = torch.ones(1, 8, 2, 64, dtype=torch.float16)
    if ragged:
        cu = torch.tensor([0, 8], dtype=torch.int32)
        out = attnpress.flash_attn_varlen_func(q[0], q[0], q[0], cu, cu, 8, 8, score_mod=mod)
    else:
        monkeypatch.setattr(_torch, "check_shapes", lambda *_: None)
        out = attnpress.flash_attn_func(q, q, q, score_mod=mod)
    out.sum().backward()
    assert torch.equal(slopes.grad, torch.tensor([1.0, 2.0]))
    assert table.grad.dtype == torch.bfloat16
    assert table.grad.tolist() == [15.0, 18.0, 21.0, 24.0]


def test_backward_on_the_cpu_is_refused():
    q = np.ones((1, 8, 4, 64), np.float16)
    lse = np.zeros((1, 4, 8), np.float32)
    with pytest.raises(attnpress.NotSupportedError, match="the CPU backend cannot run it"):
        attnpress.flash_attn_backward(q, q, q, q, q, lse, score_mod=shipped("softcap"))


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
    """A compile-only one with the stand-in for NVRTC, which comes with the tests."""
    if not (build_dir / "libfake_nvrtc.so").exists():
        pytest.skip("the stand-in for NVRTC is not built")
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
    if not (tool.exists() and (build_dir / "attnpress-emulate").exists()):
        pytest.skip("the tool, or the emulator, is not built")
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


# ---- Gradients on a GPU --------------------------------------------------------------------------


def in_float64(q, k, v, score, seen):
    """Attention in float64 with PyTorch's own gradients; score: of (batch, heads, q, k)."""
    groups = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(groups, dim=2) for x in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[3] ** 0.5
    scores = score(scores).masked_fill(~seen, -math.inf)
    return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v)


def slope_of(scores):
    """h + 0.5"""
    return torch.arange(scores.shape[1], device=scores.device)[:, None, None] + 0.5


GRADIENTS = {
    "cap": (
        {"score": "score = cap * tanhf((score + 0.25f * (q % 3)) / cap);", "cap": 2.0},
        lambda s, q, k: 2 * torch.tanh((s + 0.25 * (q % 3)) / 2),
        None,
    ),
    "float of its own": (
        {"score": "float a = score > 0 ? score * score : expf(score);\nscore = 0.5f * a - h;"},
        lambda s, q, k: 0.5 * torch.where(s > 0, s * s, s.exp()),  # h takes the same off each key
        None,
    ),
    "mask": (
        {"score": "score *= 2;", "mask": "k % 5 != 2 && k <= q + k_len - q_len"},
        lambda s, q, k: 2 * s,
        lambda q, k, shift: (k % 5 != 2) & (k <= q + shift),
    ),
    "mask alone": (
        {"mask": "(q + k) % 3 != 0"},
        lambda s, q, k: s,
        lambda q, k, shift: (q + k) % 3 != 0,
    ),
    "derivative of its own": (
        {"score": "score = 2 * score;", "score_grad": "h + 0.5f"},
        lambda s, q, k: (slope_of(s) * s) + (2 * s - slope_of(s) * s).detach(),
        None,
    ),
}


@pytest.mark.skipif(torch is None or not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("hdim", [40, 64, 128, 256])
def test_gradients(name, deterministic, hdim):
    values, score, mask = GRADIENTS[name]
    torch.manual_seed(1)
    shapes = [(2, 150, 4, hdim), (2, 170, 2, hdim), (2, 170, 2, hdim)]
    exact = [torch.randn(s, device="cuda", dtype=torch.float64, requires_grad=True) for s in shapes]
    ours = [x.detach().half().requires_grad_() for x in exact]
    for x, y in zip(exact, ours):
        x.data.copy_(y.data)
    q = torch.arange(150, device="cuda")[:, None]
    k = torch.arange(170, device="cuda")[None, :]
    seen = torch.ones(150, 170, dtype=torch.bool, device="cuda") if mask is None else mask(q, k, 20)
    want = in_float64(*exact, lambda s: score(s, q, k), seen)
    mod = attnpress.ScoreMod(**values)
    got = attnpress.flash_attn_func(*ours, score_mod=mod, deterministic=deterministic)
    dout = torch.randn_like(got)
    got.backward(dout)
    want.backward(dout.double())
    assert (got.double() - want).abs().max() < 4e-3 * max(1.0, want.abs().max().item())
    for x, y in zip(ours, exact):
        assert (x.grad.double() - y.grad).abs().max() < 1e-2 * max(1.0, y.grad.abs().max().item())


BUFFERS = {
    "a table of distances": (
        "score += table(h, q - k + 20);",
        {"table": (4, 41)},
        lambda s, q, k, table: s + table[:, (q - k + 20).clamp(0, 40)],
    ),
    "slopes, read twice": (
        "score = (1 + gate(h)) * score - 0.1f * gate(h) * gate(h) * abs(q - k);",
        {"gate": (4,)},
        lambda s, q, k, gate: (
            (1 + gate[:, None, None]) * s - 0.1 * gate[:, None, None] ** 2 * (q - k).abs()
        ),
    ),
    "two, under a cap": (
        "score = 3 * tanhf((score + near(k)) / 3) * far(h, q);",
        {"near": (170,), "far": (4, 150)},
        lambda s, q, k, near, far: 3 * torch.tanh((s + near) / 3) * far[..., None],
    ),
}


@pytest.mark.skipif(torch is None or not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("name", BUFFERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("hdim", [40, 64, 128, 256])
def test_gradients_of_buffers(name, dtype, hdim):
    """And that those by q, k and v are as without."""
    text, extents, score = BUFFERS[name]
    torch.manual_seed(2)
    shapes = [(2, 150, 4, hdim), (2, 170, 2, hdim), (2, 170, 2, hdim)]
    ours = [torch.randn(s, device="cuda").half().requires_grad_() for s in shapes]
    exact = [x.detach().double().requires_grad_() for x in ours]
    own = {
        key: torch.randn(s, device="cuda").to(getattr(torch, dtype)).requires_grad_()
        for key, s in extents.items()
    }
    own_exact = {key: x.detach().double().requires_grad_() for key, x in own.items()}
    q = torch.arange(150, device="cuda")[:, None]
    k = torch.arange(170, device="cuda")[None, :]
    seen = torch.ones(150, 170, dtype=torch.bool, device="cuda")
    want = in_float64(*exact, lambda s: score(s, q, k, **own_exact), seen)
    got = attnpress.flash_attn_func(*ours, score_mod=attnpress.ScoreMod(text, **own))
    dout = torch.randn_like(got)
    got.backward(dout)
    want.backward(dout.double())
    pairs = list(zip(ours, exact)) + [(own[key], own_exact[key]) for key in own]
    for x, y in pairs:
        assert (x.grad.double() - y.grad).abs().max() < 1e-2 * max(1.0, y.grad.abs().max().item())
