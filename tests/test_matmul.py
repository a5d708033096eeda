"""attnpress.matmul: NumPy arrays against float64, PyTorch tensors and their gradients against
PyTorch, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from python_support import DEVICES, check, needs_torch, normal, torch
from python_support import HALF_DTYPES as DTYPES

from attnpress import matmul as m


def product(x, w, transposed, dtype):
    """In float64, of W as it is taken: rounded to x's dtype."""
    w = w.astype(dtype).astype(np.float64)
    return x.astype(np.float64) @ (w.T if transposed else w)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("layout", ["packed", "rows apart"])
@pytest.mark.parametrize("lead, n", [((), 8), ((7,), 40), ((2, 3), 264)])
def test_numpy(dtype, wide, transposed, layout, lead, n):
    room = normal((*lead, 2 * n) if layout == "rows apart" else (*lead, n), dtype, n)
    x = room[..., :n]
    before = room.copy()
    w = normal((n, n), np.float32 if wide else dtype, 1)
    ref = product(x, w, transposed, dtype)
    assert m.matmul_(x, w, transposed) is x
    check(x, ref, dtype)
    assert (room[..., n:] == before[..., n:]).all()
    y = m.matmul(before[..., :n], w, transposed)
    assert (y == x).all() and (before[..., :n] != x).any()


@pytest.mark.parametrize("transposed", [False, True])
def test_w_lies_transposed(transposed):
    """W's other dimension is contiguous: no copy is made, nor needed."""
    x, w = normal((5, 48), np.float16), normal((48, 48), np.float16, 1)
    ref = product(x, w.T, transposed, np.float16)
    check(m.matmul_(x.copy(), w.T, transposed), ref, np.float16)


def test_empty():
    x = np.zeros((0, 16), np.float16)
    assert m.matmul_(x, np.zeros((16, 16), np.float16)) is x
    x = np.zeros((3, 0), np.float16)
    assert m.matmul_(x, np.zeros((0, 0), np.float16)) is x


def read_only(a):
    a.flags.writeable = False
    return a


X, W = np.zeros((2, 16), np.float16), np.zeros((16, 16), np.float16)


@pytest.mark.parametrize(
    "x, w, error, says",
    [
        ([1.0], W, TypeError, "x is list"),
        (X, [1.0], TypeError, "w is list"),
        (np.zeros((), np.float16), W, ValueError, "no dimensions"),
        (X, W[:8], ValueError, r"w has shape \(8, 16\)"),
        (X, W[:8, :8], ValueError, "w has shape"),
        (X.astype(np.float32), W, ValueError, "x is float32; float16 and bfloat16 are"),
        (X, W.astype(np.float64), ValueError, "float64"),
        (X[:, :12], W[:12, :12], ValueError, "n is 12"),
        (np.zeros((2, 32), np.float16)[:, ::2], W, ValueError, "x has strides"),
        (np.zeros((2, 3, 32, 16), np.float16)[:, :, ::2].swapaxes(0, 1), W, ValueError, "strides"),
        (np.zeros((2, 20), np.float16)[:, :16], W, ValueError, "x_stride is 20"),
        (X, np.zeros((16, 32), np.float16)[:, ::2], ValueError, "w has strides"),
        (read_only(X.copy()), W, ValueError, "read-only"),
    ],
)
def test_errors(x, w, error, says):
    with pytest.raises(error, match=says):
        m.matmul_(x, w)


# ---- PyTorch -------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rows, n", [(1, 8), (300, 264), (129, 520)])
def test_torch(device, dtype, wide, transposed, rows, n):
    dtype = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn((rows, n), generator=generator).to(device, dtype)
    w = torch.randn((n, n), generator=generator).to(device, torch.float32 if wide else dtype)
    dy = torch.randn((rows, n), generator=generator).to(device, dtype)
    ours = [x.clone().requires_grad_(), w.clone().requires_grad_()]
    exact = [x.double().requires_grad_(), w.to(dtype).double().requires_grad_()]
    out = m.matmul(*ours, transposed)
    ref = exact[0] @ (exact[1].t() if transposed else exact[1])
    out.backward(dy)
    ref.backward(dy.double())
    tolerance = {torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    for got, want in ((out, ref), (ours[0].grad, exact[0].grad), (ours[1].grad, exact[1].grad)):
        assert (got.double() - want).abs().max() <= tolerance * want.abs().max()
    assert ours[1].grad.dtype == w.dtype
    assert torch.equal(m.matmul_(x, w, transposed), out)


@needs_torch
def test_gradients_in_place():
    """What a gradient needs is not overwritten unseen."""
    x, w = torch.randn(4, 16).half(), torch.randn(16, 16).half()
    with pytest.raises(NotImplementedError, match=r"matmul\(\), which copies x first"):
        m.matmul_(x.requires_grad_(), w)
    with torch.no_grad():
        m.matmul_(x, w)
    factor = torch.randn(4, 16).half().requires_grad_()
    y = factor * (x := x.detach())  # saves x
    m.matmul_(x, w)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@needs_torch
@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_no_memory():
    """Neither PyTorch's allocator nor the driver hands out device memory."""
    x = torch.randn(4096, 1024, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16) / 32
    m.matmul_(x, w)
    torch.cuda.synchronize()
    free, allocated = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(10):
        m.matmul_(x, w)
    torch.cuda.synchronize()
    assert torch.cuda.max_memory_allocated() == allocated
    assert torch.cuda.mem_get_info()[0] == free
