"""The matrix product in place: x becomes x W or x W^T, for a square W, without a second x in
memory. PyTorch tensors on a GPU or the CPU, and NumPy arrays.

    attnpress.matmul.matmul_(x, w)                   # x = x W
    attnpress.matmul.matmul_(x, w, transposed=True)  # x = x W^T, as torch.nn.functional.linear
    y = attnpress.matmul.matmul(x, w)                # a copy of x, with gradients

Mirrors include/attnpress/matmul.h.
"""

from __future__ import annotations

import math
from ctypes import Structure, c_int32, c_int64, c_size_t, c_void_p, sizeof
from typing import Any, TypeVar

from . import _library as c
from ._rows import Library, check_writable, declared, library_of, row_stride

Array = TypeVar("Array")
"""torch.Tensor or numpy.ndarray."""

N_MAX = 4096
"""The most columns of x and W."""


class MatmulArgs(Structure):
    """attnpress_matmul_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("x", c_void_p),
        ("w", c_void_p),
        ("rows", c_int64),
        ("n", c_int64),
        ("x_stride", c_int64),
        ("w_stride", c_int64),
        ("dtype", c_int32),
        ("w_dtype", c_int32),
        ("transposed", c_int32),
        ("reserved", c_int32),
    ]


_function_in_place = declared("attnpress_matmul")


def matmul_(x: Array, w: Any, transposed: bool = False) -> Array:
    """x = x W over the last dimension, in place; with `transposed` x = x W^T.

    x: a PyTorch tensor (fp16, bf16; on a CUDA device or the CPU) or a NumPy array (float16,
    bfloat16 of ml_dtypes), (..., n), n a multiple of 8 up to N_MAX. Its last dimension is
    contiguous, the others are all one stride apart, a multiple of 8 elements and n or more.
    w: (n, n), of x's dtype or fp32, which is rounded to x's dtype where it is read. One of its
    dimensions is contiguous, so that w.t() will do; the other's stride is a multiple of 16 bytes.
    Both begin at a multiple of 16 bytes, and do not overlap.

    Nothing is copied or allocated: what does not lie so is refused. Returns x. On a GPU the work is
    queued on the current stream of x's device. Raises ValueError or TypeError for arguments that
    are not allowed, NotImplementedError for a tensor that requires grad (what a gradient needs is
    overwritten: matmul() records), attnpress.Error for a call that failed.
    """
    if _quick is not None and transposed.__class__ is bool and not _quick.quick.records(x, w):
        found: Any = _quick.calls.run(transposed, x, w)
        if found is not None:
            library_of("x", x).written(x)
            return x
    library = _checked(x, w)
    if library.records(x, w):
        raise NotImplementedError(
            "a tensor requires grad, and the product in place overwrites what its gradient needs: "
            "call matmul(), which copies x first, or detach the tensor, or call under "
            "torch.no_grad()"
        )
    result: Any = _run(library, x, w, transposed)
    library.written(result)
    written: Array = result
    return written


def matmul(x: Array, w: Any, transposed: bool = False) -> Array:
    """x W, or x W^T, in a new tensor: matmul_() of a copy of x. Gradients of PyTorch tensors are
    recorded: that by x is such a product as well, that by w is torch.matmul's. x may have any
    strides; w as in matmul_()."""
    if _quick is not None and transposed.__class__ is bool:
        found: Any = _quick.matmul(x, w, transposed)
        if found is not None:
            return found  # type: ignore[no-any-return]
    library = _checked(x, w)
    if library.records(x, w):
        recorded: Array = _function().apply(x, w, bool(transposed))
        return recorded
    result: Array = _out_of_place(library, x, w, transposed)
    return result


# ---- What both are -------------------------------------------------------------------------------


def _checked(x: Any, w: Any) -> Library:
    library = library_of("x", x)
    if not isinstance(w, library.kind):
        raise TypeError(f"w is {type(w).__name__}; with x it must be {library.kind.__name__}")
    if not x.shape:
        raise ValueError("x has no dimensions; one or more are needed")
    n = x.shape[-1]
    if tuple(w.shape) != (n, n):
        raise ValueError(
            f"w has shape {tuple(w.shape)}; with x's {n} columns it must be ({n}, {n})"
        )
    library.check_place("x", x, x)
    library.check_place("w", w, x)
    return library


def _out_of_place(library: Library, x: Any, w: Any, transposed: bool) -> Any:
    return _run(library, library.copy(x), w, transposed)


def _run(library: Library, x: Any, w: Any, transposed: bool) -> Any:
    rows, n = math.prod(x.shape[:-1]), x.shape[-1]
    args = MatmulArgs(struct_size=sizeof(MatmulArgs), rows=rows, n=n)
    args.dtype, args.w_dtype = library.dtype("x", x), library.dtype("w", w)
    if args.dtype not in (c.FP16, c.BF16):
        raise ValueError(f"x is {x.dtype}; float16 and bfloat16 are supported")
    if rows == 0 or n == 0:
        return x
    check_writable("x", x)
    stride = row_stride(x.shape, library.strides(x))
    if stride is None:
        raise ValueError(
            f"x has strides {tuple(library.strides(x))}; in place its last dimension must be "
            "contiguous and its rows one stride apart"
        )
    w_stride, flipped = _lie_of(library.strides(w))
    args.x, args.x_stride = library.address(x), stride
    args.w, args.w_stride = library.address(w), w_stride
    args.transposed = int(bool(transposed) != flipped)
    library.run(_function_in_place, args, x)
    if library.quick is not None and transposed.__class__ is bool:
        outputs = (("x", x, True),)
        _quickly(library.quick).calls.keep(transposed, args, {"x": x, "w": w}, outputs, 0)
    return x


def _lie_of(strides: Any) -> tuple[int, bool]:
    """The stride of w's rows, and whether w is the transpose of what lies in memory."""
    if strides[1] == 1:
        return strides[0], False
    if strides[0] == 1:
        return strides[1], True
    raise ValueError(f"w has strides {tuple(strides)}; one of its dimensions must be contiguous")


# ---- Calls that ran before -----------------------------------------------------------------------

_quick: _Quick | None = None  # since the first call with PyTorch's tensors


def _quickly(quick: Any) -> _Quick:
    global _quick  # noqa: PLW0603
    _quick = _quick or _Quick(quick)
    return _quick


class _Quick:
    """Calls that ran before; None of all else. quick: the module _quick_rows."""

    def __init__(self, quick: Any) -> None:
        self.quick = quick
        self.calls = quick.Calls("attnpress_matmul")

    def product(self, x: Any, w: Any, transposed: bool) -> Any:
        """In a new tensor, without its gradients."""
        if x.__class__ not in self.quick.KINDS:
            return None
        return self.calls.run(transposed, x.clone(memory_format=self.quick.CONTIGUOUS), w)

    def matmul(self, x: Any, w: Any, transposed: bool) -> Any:
        quick = self.quick
        if not quick.records(x, w):
            return self.product(x, w, transposed)
        if not quick.may_record():
            return None
        with quick.no_grad():
            result = self.product(x, w, transposed)
        if result is None:
            return None
        return quick.record((x, w), result, (x, w), transposed, _gradients)


# ---- Autograd ------------------------------------------------------------------------------------

_functions: dict[str, Any] = {}


def _gradients(ctx: Any, dy: Any) -> tuple[Any, Any]:
    (x, w), transposed = ctx.saved_tensors, ctx.options
    dx = dw = None
    if ctx.needs_input_grad[0]:
        dx = matmul(dy, w, not transposed)
    if ctx.needs_input_grad[1]:
        rows_x, rows_dy = (t.reshape(-1, t.shape[-1]) for t in (x, dy))
        dw = rows_dy.t() @ rows_x if transposed else rows_x.t() @ rows_dy
        dw = dw.to(w.dtype)
    return dx, dw


def _function() -> Any:
    """The torch.autograd.Function, made when the first gradient is recorded."""
    if "matmul" in _functions:
        return _functions["matmul"]
    import torch

    class Matmul(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any, transposed: bool) -> Any:
            ctx.options = transposed
            ctx.save_for_backward(x, w)
            return _out_of_place(library_of("x", x), x, w, transposed)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, dy: Any) -> Any:
            return (*_gradients(ctx, dy), None)

    return _functions.setdefault("matmul", Matmul)
