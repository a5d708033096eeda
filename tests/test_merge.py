"""attnpress.merge: NumPy arrays and PyTorch tensors against float64 and against attention over all
keys, in place, and errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from python_support import DEVICES, DTYPES, EPSILON, assert_mirrored, needs_torch, torch

import attnpress
from attnpress import _merge


def parts_of(shape, count, seed=0):
    """Parts in float64, (batch, seqlen, heads, head_dim), and their lses; some without keys."""
    rng = np.random.default_rng(seed)
    batch, seqlen, heads, _ = shape
    outs = rng.standard_normal((count, *shape))
    lses = 3.0 * rng.standard_normal((count, batch, heads, seqlen))
    none = rng.random(lses.shape) < 0.2
    none[:, 0, 0, 0] = True
    lses[none] = -np.inf
    outs[none.swapaxes(2, 3)] = np.nan
    return outs, lses.astype(np.float32)


def merged(outs, lses, base=np.e):
    """In float64."""
    lses = lses.astype(np.float64) * np.log(base)
    with np.errstate(divide="ignore", invalid="ignore"):
        lse = np.log(np.exp(lses).sum(axis=0))
        weight = np.where(np.isinf(lses), 0, np.exp(lses - lse)).swapaxes(2, 3)[..., None]
    return (weight * np.nan_to_num(outs)).sum(axis=0), lse / np.log(base)


def check(out, lse, ref, ref_lse, dtype):
    assert out.dtype == dtype and lse.dtype == np.float32
    finite = np.isfinite(ref_lse)
    assert (lse[~finite] == -np.inf).all()
    assert np.allclose(lse[finite], ref_lse[finite], rtol=1e-5, atol=1e-5)
    error = np.abs(out.astype(np.float64) - ref).max()
    assert error <= 1.1 * EPSILON[np.dtype(dtype).name] * np.abs(ref).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count, log2", [(1, False), (2, True), (16, False)])
def test_numpy(dtype, count, log2):
    outs, lses = parts_of((2, 5, 3, 40), count)
    outs = outs.astype(dtype)
    ref, ref_lse = merged(outs.astype(np.float64), lses, 2 if log2 else np.e)
    out, lse = attnpress.merge(list(outs), list(lses), log2=log2)
    check(out, lse, ref, ref_lse, dtype)
    assert (out[0, 0, 0] == 0).all() and lse[0, 0, 0] == -np.inf
    out, lse = attnpress.merge(outs, lses, log2=log2, dtype=np.float32)
    check(
        out, lse, merged(outs.astype(np.float64), lses, 2 if log2 else np.e)[0], ref_lse, np.float32
    )


def test_layouts():
    """Heads outside, last dimension apart, lses of all heads side by side, ragged."""
    outs, lses = parts_of((2, 5, 3, 8), 3)
    outs = outs.astype(np.float32)
    ref, ref_lse = merged(outs, lses)
    outside = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in outs]
    apart = [np.repeat(x, 2, axis=-1)[..., ::2] for x in outs]
    upside_down = [np.ascontiguousarray(x[:, ::-1])[:, ::-1] for x in outs]
    side_by_side = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in lses]
    for parts in (outside, apart, upside_down):
        check(*attnpress.merge(parts, side_by_side), ref, ref_lse, np.float32)
    out, lse = attnpress.merge(list(outs[:, 1]), list(lses[:, 1]))
    check(out[None], lse[None], ref[1:], ref_lse[1:], np.float32)


def test_in_place():
    outs, lses = parts_of((2, 5, 3, 8), 3)
    outs = outs.astype(np.float16)
    ref, ref_lse = merged(outs.astype(np.float64), lses)
    out, lse = attnpress.merge(list(outs), list(lses), out=outs[1], lse=lses[1])
    assert np.shares_memory(out, outs) and np.shares_memory(lse, lses)
    check(out, lse, ref, ref_lse, np.float16)


@pytest.mark.parametrize("splits", [[7], [3, 3, 20], list(range(1, 33, 3))])
def test_of_attention(splits):
    """Attention over parts of the keys is attention over all."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, n, 4, 32)).astype(np.float32) for n in (6, 33, 33))
    ref, ref_lse, _ = attnpress.flash_attn_func(q, k, v, return_attn_probs=True)
    ends = sorted({0, *splits, 33})
    parts = [
        attnpress.flash_attn_func(q, k[:, a:b], v[:, a:b], return_attn_probs=True)[:2]
        for a, b in itertools.pairwise(ends)
    ]
    out, lse = attnpress.merge(*zip(*parts))
    assert np.allclose(out, ref, atol=2e-6) and np.allclose(lse, ref_lse, atol=2e-6)


X, L = np.zeros((2, 3, 4, 8), np.float32), np.zeros((2, 4, 3), np.float32)


@pytest.mark.parametrize(
    "arguments, options, error, says",
    [
        (([], []), {}, ValueError, "outs has 0 parts; 1 to 16"),
        (([X] * 17, [L] * 17), {}, ValueError, "outs has 17 parts"),
        (([X, X], [L]), {}, ValueError, "lses has 1 parts"),
        (([[1.0]], [L]), {}, TypeError, r"outs\[0\] is list"),
        (([X, 1.0], [L, L]), {}, TypeError, r"outs\[1\] is float"),
        (([X.astype(int)], [L]), {}, ValueError, "int64"),
        (([X[0, 0]], [L]), {}, ValueError, r"outs\[0\] has shape \(4, 8\)"),
        (([X, X[:1]], [L, L]), {}, ValueError, r"parts\[1\].out.shape\[0\] \(batch\) is 1"),
        (([X], [L.astype(np.float16)]), {}, ValueError, r"lses\[0\] has .* dtype float16"),
        (([X], [L[:, :3]]), {}, ValueError, r"lses\[0\] has shape \(2, 3, 3\)"),
        (([X], [L]), {"out": X[:, ::-1]}, ValueError, "no negative strides"),
        (([X], [L]), {"out": X, "dtype": np.float16}, ValueError, "out and dtype"),
        (([X], [L]), {"dtype": "f7"}, TypeError, "dtype is 'f7'; it must be a dtype of"),
        (([X], [L]), {"lse": L[..., ::-1]}, ValueError, "must not be negative"),
        (([np.ma.masked_array(X)], [L]), {}, TypeError, "masked"),
    ],
)
def test_errors(arguments, options, error, says):
    with pytest.raises(error, match=says):
        attnpress.merge(*arguments, **options)


def test_a_dtype_that_torch_does_not_know():
    torch = pytest.importorskip("torch")
    x, lse = torch.from_numpy(X), torch.from_numpy(L)
    with pytest.raises(TypeError, match="dtype is 'fp16'; it must be a dtype of"):
        attnpress.merge([x], [lse], dtype="fp16")


def test_read_only():
    out = X.copy()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        attnpress.merge([X], [L], out=out)


def test_structs_match_the_header(root, tmp_path):
    structs = {"attnpress_merge_part": _merge.MergePart, "attnpress_merge_args": _merge.MergeArgs}
    assert_mirrored(
        "attnpress/merge.h",
        structs,
        {"ATTNPRESS_MERGE_PARTS_MAX": _merge.PARTS_MAX},
        root,
        tmp_path,
    )


# ---- PyTorch -------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_torch(device, dtype):
    outs, lses = parts_of((2, 50, 3, 128), 4)
    outs = torch.from_numpy(outs).to(getattr(torch, dtype)).to(device)
    ref, ref_lse = merged(outs.double().cpu().numpy(), lses)
    out, lse = attnpress.merge(list(outs), list(torch.from_numpy(lses).to(device)))
    assert out.dtype == outs.dtype and out.device == outs.device
    assert np.allclose(lse.cpu().numpy(), ref_lse, rtol=1e-5, atol=1e-5)
    error = np.abs(out.double().cpu().numpy() - ref).max()
    assert error <= 1.1 * EPSILON[dtype] * np.abs(ref).max()


@needs_torch
def test_no_gradients():
    out, lse = torch.zeros(1, 2, 3, 8, requires_grad=True), torch.zeros(1, 3, 2)
    with pytest.raises(NotImplementedError, match="requires grad"):
        attnpress.merge([out], [lse])
    with torch.no_grad():
        attnpress.merge([out], [lse])
