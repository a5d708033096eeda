"""attnpress.softmax: NumPy arrays against float64, PyTorch tensors against PyTorch, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from python_support import DEVICES, DTYPES, EPSILON, needs_torch, normal, torch

from attnpress import softmax as s


def reference(x, scale):
    t = scale * x.astype(np.float64)
    e = np.exp(t - t.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def reference_backward(y, dy, scale):
    y, dy = y.astype(np.float64), dy.astype(np.float64)
    return scale * y * (dy - (y * dy).sum(axis=-1, keepdims=True))


def check(out, ref, dtype):
    bound = EPSILON[np.dtype(dtype).name] * 1.1
    assert out.dtype == dtype and out.shape == ref.shape
    assert np.abs(out.astype(np.float64) - ref).max() <= bound * np.abs(ref).max() + 1e-7


LAYOUTS = {
    "packed": lambda a: a,
    "rows apart": lambda a: np.concatenate([a, a], axis=-1)[..., : a.shape[-1]],
    "odd rows": lambda a: np.concatenate([a, a[..., :1]], axis=-1)[..., 1:],
    "last dimension apart": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "upside down": lambda a: a[::-1],
    "transposed": lambda a: np.ascontiguousarray(np.swapaxes(a, -1, -2)).swapaxes(-1, -2),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(7,), (3, 5), (4, 6, 333), (2, 3000)])
def test_numpy(dtype, layout, shape):
    if layout in ("transposed",) and len(shape) < 2:
        pytest.skip("one dimension cannot be transposed")
    x = LAYOUTS[layout](normal(shape, dtype))
    before = x.copy()
    y = s.softmax(x, scale=0.5)
    check(y, reference(before, 0.5), dtype)
    assert (x == before).all()
    dy = LAYOUTS[layout](normal(shape, dtype, 1))
    check(s.softmax_backward(y, dy, scale=0.5), reference_backward(y, dy, 0.5), dtype)


def test_in_place():
    x = normal((40, 700), np.float32)
    ref = reference(x, 1.0)
    assert s.softmax(x, out=x) is x
    check(x, ref, np.float32)
    dy = normal((40, 700), np.float32, 1)
    ref = reference_backward(x, dy, 2.0)
    assert s.softmax_backward(x, dy, 2.0, out=dy) is dy
    check(dy, ref, np.float32)


def test_out_between_others():
    """What lies beside the rows of `out` stays."""
    whole = np.full((5, 20), 7.0, np.float32)
    x = normal((5, 11), np.float32)
    s.softmax(x, out=whole[:, 3:14])
    check(whole[:, 3:14], reference(x, 1.0), np.float32)
    assert (whole[:, :3] == 7).all() and (whole[:, 14:] == 7).all()


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 0, 4)])
def test_empty(shape):
    assert s.softmax(np.zeros(shape, np.float32)).shape == shape


def test_special_values():
    x = np.zeros((3, 4), np.float32)
    x[0, 1], x[1], x[2, 0] = -np.inf, -np.inf, np.nan
    y = s.softmax(x)
    assert y[0, 1] == 0 and np.isnan(y[1]).all() and np.isnan(y[2]).all()


X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        (([1.0],), TypeError, "x is list"),
        ((X.astype(np.float64),), ValueError, "float64"),
        ((X.astype(">f4"),), ValueError, "byte order"),
        ((np.zeros((), np.float32),), ValueError, "no dimensions"),
        ((X, "x"), TypeError, "scale is 'x'; it must be a number"),
        ((X, 0.0), ValueError, "scale is 0"),
        ((X, 1e-60), ValueError, "scale is 1e-60"),
        ((X, float("nan")), ValueError, "scale is nan"),
        ((X, 1.0, np.zeros((3, 2), np.float32)), ValueError, "shape"),
        ((X, 1.0, X.astype(np.float16)), ValueError, "dtype"),
        ((X, 1.0, [0]), TypeError, "out is list"),
        ((X, 1.0, np.zeros((3, 2), np.float32).T), ValueError, "out has strides"),
        ((X, 1.0, np.broadcast_to(np.float32(0), (2, 3))), ValueError, "read-only"),
        ((np.ma.masked_array(X),), TypeError, "masked"),
        ((np.zeros((1, (1 << 20) + 1), np.float32),), ValueError, "columns is 1048577"),
    ],
)
def test_errors(arguments, error, says):
    with pytest.raises(error, match=says):
        s.softmax(*arguments)


def test_backward_errors():
    with pytest.raises(ValueError, match="dy has shape"):
        s.softmax_backward(X, X[:1])
    with pytest.raises(TypeError, match="dy is NoneType"):
        s.softmax_backward(X, None)


# ---- PyTorch -------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(3, 5), (4, 6, 333), (700, 3000), (2, 70001)])
def test_torch(device, dtype, shape):
    dtype = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(1)
    x, dy = (torch.randn(shape, generator=generator).to(dtype).to(device) for _ in range(2))
    y = s.softmax(x, 0.5)
    ref = torch.softmax(0.5 * x.float(), -1).to(dtype)
    torch.testing.assert_close(y, ref, atol=1e-6, rtol=0.01)
    p, g = y.double(), dy.double()
    ref = 0.5 * p * (g - (p * g).sum(-1, keepdim=True))
    dx = s.softmax_backward(y, dy, 0.5, out=dy)
    assert dx is dy
    torch.testing.assert_close(dx.double(), ref, atol=1e-6, rtol=0.01)


@needs_torch
def test_torch_grad():
    with pytest.raises(NotImplementedError, match="requires grad"):
        s.softmax(torch.zeros(2, 3, requires_grad=True))
    with torch.no_grad():
        s.softmax(torch.zeros(2, 3, requires_grad=True))


@needs_torch
def test_in_place_of_what_was_saved():
    """PyTorch knows that `out` has changed, where another gradient needs what it was."""
    x, factor = torch.randn(4, 6), torch.randn(4, 6, requires_grad=True)
    y = factor * x  # saves x
    s.softmax(x, out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
