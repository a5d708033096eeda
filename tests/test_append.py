"""attnpress.append: NumPy arrays and PyTorch tensors against loops over tokens, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from python_support import DEVICES, DTYPES, assert_mirrored, needs_torch, torch

import attnpress
from attnpress import _append

EPSILON = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-22}
BATCH, NEW, HEADS, DIM, ROWS, POSITIONS = 3, 4, 2, 24, 12, 40


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def tables(rotary_dim, dtype=np.float32):
    angle = np.arange(POSITIONS)[:, None] * 100.0 ** -np.linspace(0, 1, rotary_dim // 2)
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def rotated(x, position, cos, sin, interleaved):
    """x: (..., head_dim) of one token, in float64."""
    x, half = x.astype(np.float64), cos.shape[1]
    first = np.s_[..., 0 : 2 * half : 2] if interleaved else np.s_[..., :half]
    second = np.s_[..., 1 : 2 * half : 2] if interleaved else np.s_[..., half : 2 * half]
    c, s, out = cos[position].astype(np.float64), sin[position].astype(np.float64), x.copy()
    out[first], out[second] = x[first] * c - x[second] * s, x[second] * c + x[first] * s
    return out


def close(got, ref, dtype):
    assert got.dtype == dtype
    return (
        np.abs(got.astype(np.float64) - ref).max()
        <= 1.1 * EPSILON[np.dtype(dtype).name] * np.abs(ref).max()
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotary_dim", [0, 6, DIM])
def test_dense(dtype, interleaved, rotary_dim):
    k, v, q = (normal(BATCH, NEW, n, DIM, dtype=dtype, seed=n) for n in (HEADS, HEADS, 4))
    cache = normal(2, BATCH + 2, ROWS, HEADS, DIM, dtype=dtype)
    used, index = np.array([0, 5, 10], np.int32), np.array([4, 0, 2], np.int32)
    before, options = cache.copy(), {}
    if rotary_dim:
        options = dict(zip(("cos", "sin"), tables(rotary_dim)), interleaved=interleaved)
        out = np.zeros_like(q)
        options |= {"q": q, "q_out": out}
    result = attnpress.append(k, v, *cache, seqused_k=used, kv_batch_idx=index, **options)
    assert (result is None) if not rotary_dim else (result is out)
    for b in range(BATCH):
        for i in range(NEW):
            n = used[b] + i
            ref_k, ref_q = k[b, i], q[b, i]
            if rotary_dim:
                ref_k, ref_q = (
                    rotated(x, n, options["cos"], options["sin"], interleaved)
                    for x in (ref_k, ref_q)
                )
                assert close(out[b, i], ref_q, dtype)
            if n < ROWS:
                before[1, index[b], n] = v[b, i]
                assert close(cache[0, index[b], n], ref_k.astype(np.float64), dtype)
                before[0, index[b], n] = cache[0, index[b], n]
    np.testing.assert_array_equal(cache, before)


@pytest.mark.parametrize("page_size", [1, 5])
def test_pages(page_size):
    """Ragged tokens, one sequence without any; q in place; a page that is not there."""
    lengths, used = [3, 0, 6], np.array([4, 1, 2], np.int32)
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    k, v, q = (normal(9, HEADS, DIM, seed=n) for n in range(3))
    table = np.random.default_rng(0).permutation(60).astype(np.int32).reshape(3, 20)
    table[2, 3 // page_size] = 60
    cache = normal(2, 60, page_size, HEADS, DIM)
    before, (cos, sin), q_before = cache.copy(), tables(16), q.copy()
    result = attnpress.append(
        k, v, *cache, q=q, cu_seqlens=starts, seqused_k=used, page_table=table, cos=cos, sin=sin
    )
    assert result is q
    for b, length in enumerate(lengths):
        for i in range(length):
            n, t = used[b] + i, starts[b] + i
            assert close(q[t], rotated(q_before[t], n, cos, sin, False), np.float32)
            page = table[b, n // page_size]
            if page == 60:
                continue
            assert close(
                cache[0, page, n % page_size], rotated(k[t], n, cos, sin, False), np.float32
            )
            before[0, page, n % page_size] = cache[0, page, n % page_size]
            before[1, page, n % page_size] = v[t]
    np.testing.assert_array_equal(cache, before)


def test_slots():
    """Tokens without sequences: slots and positions; negative ones are left out."""
    k, v = normal(7, HEADS, DIM), normal(7, HEADS, 16)
    slots = np.array([3, -1, 17, 0, 400, 8, 9])
    positions = np.array([5, 6, -2, 0, 1, POSITIONS, 39], np.int32)
    k_cache, v_cache = normal(4, 5, HEADS, DIM), normal(4, 5, HEADS, 16)
    before, (cos, sin) = (k_cache.copy(), v_cache.copy()), tables(DIM)
    attnpress.append(
        k, v, k_cache, v_cache, slot_mapping=slots, positions=positions, cos=cos, sin=sin
    )
    for t in (0, 3, 6):
        at = (slots[t] // 5, slots[t] % 5)
        assert close(k_cache[at], rotated(k[t], positions[t], cos, sin, False), np.float32)
        before[0][at] = k_cache[at]
        before[1][at] = v[t]
    np.testing.assert_array_equal(k_cache, before[0])
    np.testing.assert_array_equal(v_cache, before[1])


def test_layouts():
    """Heads outside of rows, K and V side by side, new tokens whose last dimension is apart."""
    k, v = (normal(BATCH, NEW, HEADS, DIM, seed=n) for n in range(2))
    expected = np.zeros((2, BATCH, ROWS, HEADS, DIM), np.float32)
    expected[:, :, :NEW] = k, v
    outside = np.zeros((2, BATCH, HEADS, ROWS, DIM), np.float32).swapaxes(2, 3)
    attnpress.append(k, v, *outside)
    np.testing.assert_array_equal(outside, expected)
    packed = np.zeros((BATCH, ROWS, HEADS, 2 * DIM), np.float32)
    attnpress.append(
        np.repeat(k, 2, axis=-1)[..., ::2],
        v[::-1].copy()[::-1],
        packed[..., :DIM],
        packed[..., DIM:],
    )
    np.testing.assert_array_equal(packed[..., :DIM], expected[0])
    np.testing.assert_array_equal(packed[..., DIM:], expected[1])


def test_one_table_of_both():
    """cos and sin side by side, of the tensors' dtype, as a view each."""
    k, cache = (
        normal(1, NEW, HEADS, DIM, dtype=np.float16),
        np.zeros((1, 9, HEADS, DIM), np.float16),
    )
    both = np.concatenate(tables(DIM, np.float16), axis=1)
    cos, sin = both[:, : DIM // 2], both[:, DIM // 2 :]
    attnpress.append(k, None, cache, None, cos=cos, sin=sin)
    for i in range(NEW):
        assert close(cache[0, i], rotated(k[0, i], i, cos, sin, False), np.float16)


def test_empty():
    cache = np.ones((BATCH, ROWS, HEADS, DIM), np.float32)
    new = np.zeros((BATCH, 0, HEADS, DIM), np.float32)
    assert attnpress.append(new, new, cache, cache.copy()) is None
    assert (cache == 1).all()


K = np.zeros((2, 3, 2, 8), np.float32)
CACHE = np.zeros((2, 5, 2, 8), np.float32)
COS = np.zeros((9, 4), np.float32)
INT = np.zeros(2, np.int32)


@pytest.mark.parametrize(
    "arguments, options, error, says",
    [
        ((None, None, None, None), {}, ValueError, "nothing to do"),
        (([1.0], None, CACHE, None), {}, TypeError, "k is list"),
        ((K, 1.0, CACHE, CACHE), {}, TypeError, "v is float"),
        ((K[0, 0], None, CACHE, None), {}, ValueError, r"k has shape \(2, 8\)"),
        ((K, None, CACHE[0], None), {}, ValueError, "k_cache has shape"),
        ((K, None, None, None), {}, ValueError, "k_new is given and k_cache is not"),
        ((K.astype(int), None, CACHE, None), {}, ValueError, "int64"),
        ((K, None, CACHE.astype(np.float16), None), {}, ValueError, "k_cache.dtype is 1"),
        ((K, None, CACHE[:, ::-1], None), {}, ValueError, "no negative strides"),
        ((K, None, CACHE, None), {"q": K}, ValueError, "rotary is NULL"),
        ((K, None, CACHE, None), {"seqused_k": INT[:1]}, ValueError, r"seqused_k has shape \(1,\)"),
        (
            (K, None, CACHE, None),
            {"seqused_k": INT.astype(np.int64)},
            ValueError,
            r"dtype int64; it must be \(2,\) and int32",
        ),
        ((K, None, CACHE, None), {"slot_mapping": INT}, ValueError, r"must be \(2, 3\) and int64"),
        ((K, None, CACHE, None), {"cu_seqlens": INT}, ValueError, "ragged tensors are"),
        ((K, None, CACHE, None), {"page_table": INT}, ValueError, r"must be \(2, any\)"),
        ((K, None, CACHE, None), {"cos": COS}, ValueError, "cos is given alone"),
        ((K, None, CACHE, None), {"positions": INT}, ValueError, "cos and sin are not"),
        ((K, None, CACHE, None), {"cos": COS, "sin": COS[:5]}, ValueError, "sin has shape"),
        (
            (K, None, CACHE, None),
            {"cos": np.zeros((9, 5), np.float32), "sin": np.zeros((9, 5), np.float32)},
            ValueError,
            "rotary_dim is 10 and k_new's head_dim 8",
        ),
    ],
)
def test_errors(arguments, options, error, says):
    with pytest.raises(error, match=says):
        attnpress.append(*arguments, **options)


def test_structs_match_the_header(root, tmp_path):
    structs = {"attnpress_rotary": _append.Rotary, "attnpress_append_args": _append.AppendArgs}
    assert_mirrored("attnpress/append.h", structs, {}, root, tmp_path)


# ---- PyTorch -------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("interleaved", [False, True])
def test_torch(device, dtype, interleaved):
    dtype = getattr(torch, dtype)
    k, v, q = (
        torch.from_numpy(normal(BATCH, NEW, n, 64, seed=n)).to(dtype).to(device) for n in (2, 2, 8)
    )
    k_cache, v_cache = (torch.zeros(BATCH, ROWS, 2, 64, dtype=dtype, device=device) for _ in "kv")
    used = torch.tensor([0, 5, 8], dtype=torch.int32, device=device)
    cos, sin = (torch.from_numpy(x).to(device) for x in tables(32))
    before = q.clone()
    result = attnpress.append(
        *(k, v, k_cache, v_cache), q=q, seqused_k=used, cos=cos, sin=sin, interleaved=interleaved
    )
    assert result is q
    bound = 1.1 * EPSILON[str(dtype)[6:]]
    for b in range(BATCH):
        for i in range(NEW):
            n = int(used[b]) + i
            for got, given in ((q[b, i], before[b, i]), (k_cache[b, n], k[b, i])):
                ref = rotated(
                    given.double().cpu().numpy(),
                    n,
                    cos.cpu().numpy(),
                    sin.cpu().numpy(),
                    interleaved,
                )
                assert np.abs(got.double().cpu().numpy() - ref).max() <= bound * np.abs(ref).max()
            assert torch.equal(v_cache[b, n], v[b, i])


@needs_torch
def test_no_gradients():
    k, cache = torch.zeros(1, 2, 3, 8, requires_grad=True), torch.zeros(1, 4, 3, 8)
    with pytest.raises(NotImplementedError, match="requires grad"):
        attnpress.append(k, None, cache, None)
    attnpress.append(k.detach(), None, cache, None)
