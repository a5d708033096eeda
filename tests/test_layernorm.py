"""attnpress.layernorm: NumPy arrays against float64, PyTorch tensors and their gradients against
PyTorch, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from python_support import DTYPES, EPSILON, needs_torch, torch

from attnpress import layernorm as ln
from attnpress._rows import library_of

EPS = 1e-3


def reference(x, weight, bias, rms):
    """y, mean, rstd in float64."""
    x = x.astype(np.float64)
    mean = 0.0 * x[..., :1] if rms else x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + EPS)
    y = (x - mean) * rstd
    y = y if weight is None else y * weight.astype(np.float64)
    return (y if bias is None else y + bias.astype(np.float64)), mean, rstd


def reference_backward(dy, x, weight, dsum, rms):
    """dx, dweight, dbias in float64."""
    _, mean, rstd = reference(x, None, None, rms)
    dy, normal = dy.astype(np.float64), (x.astype(np.float64) - mean) * rstd
    g = dy if weight is None else dy * weight.astype(np.float64)
    of_g = 0.0 if rms else g.mean(axis=-1, keepdims=True)
    dx = rstd * (g - of_g - normal * (g * normal).mean(axis=-1, keepdims=True))
    dx = dx if dsum is None else dx + dsum.astype(np.float64)
    rows = tuple(range(x.ndim - 1))
    return dx, (dy * normal).sum(axis=rows), dy.sum(axis=rows)


def check(out, ref, dtype):
    bound = EPSILON[np.dtype(dtype).name] * 1.1
    assert out.dtype == dtype and out.shape == ref.shape
    assert np.abs(out.astype(np.float64) - ref).max() <= bound * np.abs(ref).max() + 1e-6


def normal(shape, dtype, seed=0, mean=0.0):
    return (np.random.default_rng(seed).standard_normal(shape) + mean).astype(dtype)


LAYOUTS = {
    "packed": lambda a: a,
    "rows apart": lambda a: np.concatenate([a, a], axis=-1)[..., : a.shape[-1]],
    "odd rows": lambda a: np.concatenate([a, a[..., :1]], axis=-1)[..., 1:],
    "last dimension apart": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "upside down": lambda a: a[::-1],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(7,), (3, 5), (4, 6, 333), (2, 3000)])
def test_numpy(dtype, rms, layout, shape):
    lay = LAYOUTS[layout]
    param_dtype = np.float32 if layout == "rows apart" else dtype
    x, residual = lay(normal(shape, dtype, 0, 1.5)), lay(normal(shape, dtype, 1))
    weight, bias = normal(shape[-1:], param_dtype, 2), normal(shape[-1:], param_dtype, 3)
    if layout == "packed":
        residual = None
    if rms:
        bias = None
    before = x.copy()
    y, total, mean, rstd = ln.forward(x, weight, bias, EPS, residual, rms=rms)
    if residual is not None:
        added = (x.astype(np.float64) + residual.astype(np.float64)).astype(np.float32)
        check(total, added, dtype)
    assert (x == before).all()
    ref, ref_mean, ref_rstd = reference(total, weight, bias, rms)
    check(y, ref, dtype)
    assert rms == (mean is None)
    if mean is not None:
        check(mean, ref_mean[..., 0], np.float32)
    check(rstd, ref_rstd[..., 0], np.float32)

    dy, dsum = lay(normal(shape, dtype, 4)), None if residual is None else normal(shape, dtype, 5)
    got = ln.backward(dy, total, rstd, mean, weight, dsum, (True, True, not rms), rms)
    want = reference_backward(dy, total, weight, dsum, rms)
    check(got[0], want[0], dtype)
    check(got[1], want[1], param_dtype)
    if rms:
        assert got[2] is None
    else:
        check(got[2], want[2], param_dtype)


def test_in_place():
    x = normal((40, 700), np.float32, mean=3)
    ref = reference(x, None, None, False)[0]
    assert ln.layer_norm(x, eps=EPS, out=x) is x
    check(x, ref, np.float32)


def test_out_between_others():
    """What lies beside the rows of `out` stays."""
    whole = np.full((5, 20), 7.0, np.float32)
    x = normal((5, 11), np.float32)
    ln.rms_norm(x, eps=EPS, out=whole[:, 3:14])
    check(whole[:, 3:14], reference(x, None, None, True)[0], np.float32)
    assert (whole[:, :3] == 7).all() and (whole[:, 14:] == 7).all()


def test_far_from_zero():
    """A variance that is small beside the mean's square."""
    x = (normal((3, 5000), np.float64) * 1e-2 + 100).astype(np.float32)
    y = ln.layer_norm(x, eps=1e-12)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(-1, keepdims=True)) / exact.std(-1, keepdims=True)
    assert np.abs(y - exact).max() < 5e-3


def test_default_eps():
    x = np.array([[1e-3, -1e-3]], np.float32)
    exact = x / np.sqrt(1e-6 + 1e-5)
    assert np.abs(ln.layer_norm(x) - exact).max() < 1e-6
    assert np.abs(ln.rms_norm(x) - exact).max() < 1e-6


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (2, 0, 4)])
def test_empty(shape):
    x = np.zeros(shape, np.float32)
    y, _, mean, rstd = ln.forward(x)
    assert y.shape == shape and mean.shape == rstd.shape == shape[:-1]
    dx, dweight, dbias = ln.backward(x, x, rstd, mean, param_dtype=np.float16)
    assert dx.shape == shape and (dweight == 0).all() and (dbias == 0).all()
    assert dweight.dtype == dbias.dtype == np.float16


def test_special_values():
    x = np.zeros((3, 4), np.float32)
    x[0, 1], x[1, 2] = np.nan, np.inf
    y = ln.layer_norm(x)
    assert np.isnan(y[:2]).all() and (y[2] == 0).all()


X, W = np.zeros((2, 3), np.float32), np.zeros(3, np.float32)


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        (([1.0],), TypeError, "x is list"),
        ((X.astype(np.float64),), ValueError, "x is float64"),
        ((X, W.astype(np.float64)), ValueError, "weight is float64"),
        ((X.astype(">f4"),), ValueError, "byte order"),
        ((np.zeros((), np.float32),), ValueError, "no dimensions"),
        ((X, W[:2]), ValueError, "weight has shape"),
        ((X, W, W.astype(np.float16)), ValueError, "weight has dtype float32 and bias float16"),
        ((X, [1, 1, 1]), TypeError, "weight is list"),
        ((X, W, W, "x"), TypeError, "eps is 'x'; it must be a number"),
        ((X, W, W, 0.0), ValueError, "eps is 0"),
        ((X, W, W, -1.0), ValueError, "eps is -1"),
        ((X, W, W, float("nan")), ValueError, "eps is nan"),
        ((X, W, W, 1e-60), ValueError, "eps is 1e-60"),
        ((X, W, W, EPS, X[:1]), ValueError, "residual has shape"),
        ((X, W, W, EPS, None, np.zeros((3, 2), np.float32)), ValueError, "out has shape"),
        ((X, W, W, EPS, None, np.zeros((3, 2), np.float32).T), ValueError, "out has strides"),
        ((np.ma.masked_array(X),), TypeError, "masked"),
        ((np.zeros((1, (1 << 20) + 1), np.float32),), ValueError, "columns is 1048577"),
    ],
)
def test_errors(arguments, error, says):
    with pytest.raises(error, match=says):
        ln.layer_norm(*arguments)


def test_backward_errors():
    rstd = np.ones(2, np.float32)
    with pytest.raises(ValueError, match="mean is None"):
        ln.backward(X, X, rstd)
    with pytest.raises(ValueError, match="rstd has dtype"):
        ln.backward(X, X, rstd.astype(np.float16), rstd)
    with pytest.raises(ValueError, match="rstd has dtype float32 and shape"):
        ln.backward(X, X, rstd[:1], rstd)
    with pytest.raises(TypeError, match="rstd is list"):
        ln.backward(X, X, [1.0], rstd)


# ---- PyTorch -------------------------------------------------------------------------------------

DEVICES = ["cpu"] + (["cuda"] if torch is not None and torch.cuda.is_available() else [])


def torch_norm(x, weight, bias, rms):
    if rms:
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, EPS)
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, EPS)


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(3, 5), (4, 6, 333), (700, 3000), (2, 70001), (300, 12288)])
def test_autograd(device, rms, dtype, shape):
    dtype = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(1)

    def randn(shape, dtype=dtype):
        return torch.randn(shape, generator=generator).to(dtype).to(device)

    param_dtype = torch.float32 if shape[-1] == 333 else dtype
    leaves = {"x": randn(shape) + 1, "weight": randn(shape[-1:], param_dtype)}
    leaves["bias"] = None if rms else randn(shape[-1:], param_dtype)
    leaves["residual"] = randn(shape) if shape[-1] % 2 else None
    dy, dsum = randn(shape), randn(shape)
    ours = {name: v if v is None else v.clone().requires_grad_() for name, v in leaves.items()}
    ref = {
        name: v if v is None else v.to(torch.float64).requires_grad_() for name, v in leaves.items()
    }
    if rms:
        y = ln.rms_norm(ours["x"], ours["weight"], EPS, ours["residual"])
    else:
        y = ln.layer_norm(ours["x"], ours["weight"], ours["bias"], EPS, ours["residual"])
    outputs, gradients = [y], [dy]
    total = ref["x"]
    if ref["residual"] is not None:
        outputs, gradients = list(y), [dy, dsum]
        # What is normalised is rounded, and its gradient goes on as if it were not.
        total = ref["x"] + ref["residual"]
        rounded = outputs[1].detach().to(torch.float64)
        total = total + (rounded - total).detach()
    ref_y = torch_norm(
        total, ref["weight"].to(torch.float64), None if rms else ref["bias"].to(torch.float64), rms
    )
    ref_outputs = [ref_y, total][: len(outputs)]
    torch.autograd.backward(outputs, gradients)
    torch.autograd.backward(ref_outputs, [g.to(torch.float64) for g in gradients])
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 2e-5}[dtype]
    for got, want in zip(outputs, ref_outputs):
        torch.testing.assert_close(got.double(), want, atol=tolerance, rtol=tolerance)
    for name, got in ours.items():
        if got is None:
            continue
        want = ref[name].grad
        assert got.grad.dtype == got.dtype
        error = (got.grad.double() - want).abs().max() / want.abs().max()
        assert error < tolerance, f"{name}: {error}"


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("columns", [7, 33, 100, 250, 333, 463, 1500])
@pytest.mark.parametrize("begin, end", [(0, 3), (0, 4), (1, 0), (5, 40)])
def test_slices(device, rms, dtype, columns, begin, end):
    """Of a wider matrix: rows have gaps that y has not."""
    dtype = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(2)
    wide = torch.randn((301, begin + columns + end), generator=generator).to(dtype).to(device)
    weight, bias = torch.randn((2, columns), generator=generator).to(dtype).to(device)
    x = wide[:, begin : begin + columns]
    y = ln.rms_norm(x, weight, EPS) if rms else ln.layer_norm(x, weight, bias, EPS)
    want = torch_norm(x.double(), weight.double(), bias.double(), rms)
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 2e-5}[dtype]
    assert y.is_contiguous()
    torch.testing.assert_close(y.double(), want, atol=tolerance, rtol=tolerance)


@needs_torch
def test_gradients_of_some():
    x = torch.randn(4, 6)
    weight = torch.randn(6, requires_grad=True)
    y, total = ln.layer_norm(x, weight, residual=x)
    assert y.requires_grad
    y.sum().backward()
    assert weight.grad is not None and x.grad is None
    x.requires_grad_()
    y, total = ln.layer_norm(x, weight.detach(), residual=x.detach())
    total.sum().backward()
    assert (x.grad == 1).all()
    with torch.no_grad():
        assert not ln.rms_norm(x).requires_grad
    with pytest.raises(ValueError, match="out is given"):
        ln.rms_norm(x, out=torch.empty_like(x))


@needs_torch
def test_gradient_of_a_bias_alone():
    """It has the bias's dtype, and not the roundings of x's."""
    x, dy = torch.randn(3000, 8).bfloat16(), torch.rand(3000, 8).bfloat16()
    bias = torch.zeros(8, requires_grad=True)
    ln.layer_norm(x, None, bias).backward(dy)
    torch.testing.assert_close(bias.grad, dy.float().sum(0), rtol=1e-5, atol=0)


@needs_torch
def test_in_place_of_what_was_saved():
    """PyTorch knows that `out` has changed, where another gradient needs what it was."""
    x, factor = torch.randn(4, 6), torch.randn(4, 6, requires_grad=True)
    y = factor * x  # saves x
    ln.layer_norm(x, out=x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@needs_torch
@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_repeats():
    """Gradients are the same bits, whatever runs beside them."""
    x, dy = torch.randn(2, 5000, 1000, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(1000, device="cuda", dtype=torch.bfloat16)
    _, total, mean, rstd = ln.forward(x, weight)
    first = ln.backward(dy, total, rstd, mean, weight)
    for _ in range(50):
        again = ln.backward(dy, total, rstd, mean, weight)
        assert all(torch.equal(a, b) for a, b in zip(first, again))


@needs_torch
@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("given", ["", "w", "wb", "r", "wr", "wbr", "wo", "wbro", "m"])
def test_known_again(given: str, rms: bool, monkeypatch) -> None:
    """A call whose signature was seen has its own tensors, and what the first one would give."""
    monkeypatch.setattr(library_of("x", torch.empty(0)), "quick", None)  # an older PyTorch
    monkeypatch.setattr(ln, "_quick", None)
    known = ln._signatures._known
    known.clear()

    def tensors(seed: int) -> dict[str, object]:
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape: int) -> object:
            return torch.randn(*shape, generator=generator)

        return {
            "x": drawn(3, 5, 40),
            "weight": drawn(40).half() if "w" in given else None,
            "bias": drawn(40).half() if "b" in given and not rms else None,
            "residual": drawn(3, 5, 40) if "r" in given else None,
            "out": torch.empty(3, 5, 40) if "o" in given else None,
            "moments": "m" in given,
        }

    ln.forward(**tensors(1), rms=rms)
    assert len(known) == 1
    for seed in (2, 3):
        with_known = ln.forward(**tensors(seed), rms=rms)
        assert len(known) == 1
        kept = dict(known)
        known.clear()
        expected = ln.forward(**tensors(seed), rms=rms)
        known.clear()
        known.update(kept)
        for one, other in zip(with_known, expected):
            assert (one is None) == (other is None)
            assert one is None or torch.equal(one, other)
    ln.forward(**tensors(4), rms=rms, eps=0.5)
    assert len(known) == 2
    for wrong in ("0.5", [0.5]):
        with pytest.raises(TypeError, match="eps is"):
            ln.forward(**tensors(4), rms=rms, eps=wrong)
