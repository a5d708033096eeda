"""attnpress.outer: NumPy arrays against float64, PyTorch tensors and their gradients against
PyTorch and torch's gradcheck, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from python_support import DEVICES, HALF_DTYPES, check, needs_torch, normal, torch

import attnpress
from attnpress import _rows
from attnpress import outer as o

DTYPES = [*HALF_DTYPES, np.float32, np.float64]


LAYOUTS = {
    "packed": lambda a: a,
    "rows apart": lambda a: np.concatenate([a, a], axis=-1)[..., : a.shape[-1]],
    "last dimension apart": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "upside down": lambda a: a[::-1],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lead, rows, columns", [((), 3, 5), ((7,), 40, 1), ((2, 3), 33, 130)])
def test_numpy(dtype, summed, layout, lead, rows, columns):
    x, y = (LAYOUTS[layout](normal((*lead, n), dtype, n)) for n in (rows, columns))
    exact_x, exact_y = x.astype(np.float64), y.astype(np.float64)
    ref = np.einsum("...i,...j->...ij", exact_x, exact_y)
    ref = ref.reshape(-1, rows, columns).sum(axis=0) if summed else ref
    check(o.outer(x, y, summed), ref, dtype)
    dc = normal(ref.shape, dtype, 9)
    exact = np.broadcast_to(dc.astype(np.float64), (*lead, rows, columns))
    dx, dy = o.backward(dc, x, y, summed)
    check(dx, np.einsum("...ij,...j->...i", exact, exact_y), dtype)
    check(dy, np.einsum("...ij,...i->...j", exact, exact_x), dtype)
    assert o.backward(dc, x, y, summed, (False, True))[0] is None


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_empty(shape):
    """Sums of nothing are 0."""
    batch, rows, columns = shape
    x, y = np.ones((batch, rows), np.float32), np.ones((batch, columns), np.float32)
    assert o.outer(x, y).shape == shape
    c = o.outer(x, y, summed=True)
    assert c.shape == (rows, columns) and (c == 0).all() | (batch > 0)
    dx, dy = o.backward(np.ones(shape, np.float32), x, y)
    assert dx.shape == x.shape and (dx == 0).all() | (columns > 0)
    assert dy.shape == y.shape and (dy == 0).all() | (rows > 0)


X = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        (([1.0], X), TypeError, "x is list"),
        ((X, [1.0]), TypeError, "y is list"),
        ((X, X[:1]), ValueError, "all but the last"),
        ((X, X.astype(np.float64)), ValueError, "the dtypes and all but"),
        ((X.astype(int), X.astype(int)), ValueError, "int64"),
        ((np.zeros((), np.float32), X), ValueError, "no dimensions"),
    ],
)
def test_errors(arguments, error, says):
    with pytest.raises(error, match=says):
        o.outer(*arguments)


def test_backward_errors():
    with pytest.raises(ValueError, match="dc has shape"):
        o.backward(X, X, X)
    with pytest.raises(TypeError, match="dc is NoneType"):
        o.backward(None, X, X)
    with pytest.raises(ValueError, match=r"needs is .*; it must say of each, x, y"):
        o.backward(o.outer(X, X), X, X, needs=(True,))


@pytest.mark.parametrize(
    "values, error, says",
    [
        ({"f": 3}, TypeError, "f is int"),
        ({"f": " "}, ValueError, "f is blank"),
        ({"scalars": {"a": 1.0}}, ValueError, "without an f"),
        ({"f": "a * x", "scalars": {"a": True}}, TypeError, "a is a bool"),
        ({"f": "a * x", "scalars": {"a": 1 << 31}}, ValueError, "32 bits"),
        ({"f": "a * x", "scalars": {"a": X}}, TypeError, "a is a tensor"),
        ({"f": "a * x", "scalars": {"x": 1.0}}, ValueError, r"scalars\[0\].name is \"x\""),
        (
            {"f": "x * y"},
            attnpress.NotSupportedError,
            'mod "f" is a text that is compiled for a GPU',
        ),
    ],
)
def test_function_errors(values, error, says):
    with pytest.raises(error, match=says):
        o.outer(X, X, **values)
    with pytest.raises(error, match=says):
        o.backward(np.zeros((2, 3, 3), np.float32), X, X, **values)


# ---- PyTorch -------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("summed", [False, True])
def test_gradcheck(summed):
    x = torch.randn(3, 2, 5, dtype=torch.float64, requires_grad=True)
    y = torch.randn(3, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: o.outer(a, b, summed), (x, y))


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "shape", [(1, 3, 5), (4, 100, 64), (3, 65, 1001), (20, 513, 300), (3000, 65, 40)]
)
def test_autograd(device, summed, dtype, shape):
    dtype = getattr(torch, dtype)
    generator = torch.Generator().manual_seed(1)
    batch, rows, columns = shape
    x, y, dc = (
        torch.randn(size, generator=generator).to(dtype).to(device)
        for size in ((batch, rows), (batch, columns), (rows, columns) if summed else shape)
    )
    ours = [x.clone().requires_grad_(), y.clone().requires_grad_()]
    exact = [x.double().requires_grad_(), y.double().requires_grad_()]
    out = o.outer(*ours, summed)
    ref = torch.einsum("ni,nj->ij" if summed else "ni,nj->nij", *exact)
    out.backward(dc)
    ref.backward(dc.double())
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 2e-6}[dtype]
    pairs = [(out, ref), (ours[0].grad, exact[0].grad), (ours[1].grad, exact[1].grad)]
    for got, want in pairs:
        error = (got.double() - want).abs().max() / want.abs().max()
        assert error < tolerance


@needs_torch
@pytest.mark.parametrize("device", DEVICES)
def test_signatures_that_were_seen(device):
    """A call like one before takes a shorter way, with its own tensors; another does not."""
    shape, square = (3, 4, 6), (3, 5, 5)
    for rows, columns in (shape[1:], shape[1:], square[1:], square[1:]):
        x, y, c = (
            torch.randn(3, *n, device=device) for n in ((rows,), (columns,), (rows, columns))
        )
        layouts = {
            "as before": (x, y, c),
            "parameters": (torch.nn.Parameter(x), y, c),
            "x apart": (torch.stack([x, x], -1)[..., 0], y, c),
            "dc across": (x, y, c.mT.contiguous().mT),
            "a part": (x[1:], y[1:], c[1:]),
        }
        for name, (a, b, dc) in layouts.items():
            for needs in ((True, True), (False, True), (True, False)):
                with torch.no_grad():
                    dx, dy = o.backward(dc, a, b, False, needs)
                    wanted = torch.einsum("nij,nj->ni", dc, b), torch.einsum("nij,ni->nj", dc, a)
                for got, exact, is_there in zip((dx, dy), wanted, needs):
                    assert (got is not None) == is_there, name
                    assert got is None or torch.allclose(got, exact, atol=1e-5), name
    with pytest.raises(ValueError, match="dc has shape"):
        o.backward(c, x, y, True)


@needs_torch
@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_long_sums_are_split(monkeypatch):
    """A sum over much gets the workspace that splits it, and so does one that is known again."""
    given = []
    real = _rows.Torch.workspace

    def workspace(library, value, size):
        given.append(size)
        return real(library, value, size)

    monkeypatch.setattr(_rows.Torch, "workspace", workspace)
    x, y = (torch.randn(3000, n, device="cuda") for n in (65, 40))
    c = [o.outer(x, y, summed=True) for _ in range(2)]
    assert given[0] > 2 * 65 * 40 * 4 - 1  # the second is known again, and asks elsewhere
    assert torch.equal(*c)
    exact = torch.einsum("ni,nj->ij", x.double(), y.double())
    assert torch.allclose(c[1].double(), exact, atol=1e-3)
    o.outer(x, y)
    assert given[-1] == 0


@needs_torch
@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_one_gradient_and_then_both():
    """What one gradient of a sum needs of a workspace is not what both need."""
    x, y, dc = (torch.randn(*size, device="cuda") for size in ((64, 160), (64, 4000), (160, 4000)))
    for needs in ((False, True), (True, False), (True, True)):
        dx, dy = o.backward(dc, x, y, True, needs)
        for got, exact in ((dx, y.double() @ dc.double().T), (dy, x.double() @ dc.double())):
            assert got is None or (got - exact).abs().max() < 2e-6 * exact.abs().max()


@needs_torch
@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_fp64_is_the_cpu_s():
    x = torch.zeros(2, 3, device="cuda", dtype=torch.float64)
    with pytest.raises(NotImplementedError, match="OUTER_FP64"):
        o.outer(x, x)


FUNCTIONS = {
    "x * y": (lambda x, y, a, n: x * y),
    "tanhf(a * x + y)": (lambda x, y, a, n: torch.tanh(a * x + y)),
    "x > y ? a * x * x : expf(-y) / n": (
        lambda x, y, a, n: torch.where(x > y, a * x * x, torch.exp(-y) / n)
    ),
    "fmaxf(x, y) * sinf(x) - sqrtf(1 + x * x) + fabsf(y)": (
        lambda x, y, a, n: (
            # of two that are equal the gradient is the first one's
            torch.where(x >= y, x, y) * torch.sin(x) - torch.sqrt(1 + x * x) + torch.abs(y)
        )
    ),
}


@needs_torch
@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_function_autograd(f, summed, dtype):
    dtype = getattr(torch, dtype)
    batch, rows, columns = 5, 65, 300
    scalars = {"a": 0.5, "n": 3}
    x, y = (torch.randn(batch, n, device="cuda").to(dtype) for n in (rows, columns))
    exact = [x.double().requires_grad_(), y.double().requires_grad_()]
    ours = [x.clone().requires_grad_(), y.clone().requires_grad_()]
    out = o.outer(*ours, summed, f=f, scalars=scalars)
    ref = FUNCTIONS[f](exact[0][:, :, None], exact[1][:, None, :], 0.5, 3)
    ref = ref.sum(0) if summed else ref
    dc = torch.randn(out.shape, device="cuda").to(dtype)
    out.backward(dc)
    ref.backward(dc.double())
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 5e-6}[dtype]
    for got, want in [(out, ref), (ours[0].grad, exact[0].grad), (ours[1].grad, exact[1].grad)]:
        assert (got.double() - want).abs().max() / want.abs().max() < tolerance


@needs_torch
@pytest.mark.skipif("cuda" not in DEVICES, reason="no GPU")
def test_function_says_what_does_not_compile():
    x = torch.zeros(2, 3, device="cuda")
    with pytest.raises(attnpress.Error, match=r'f\(2\): error: identifier "foo" is undefined'):
        o.outer(x, x, f="x +\nfoo")
