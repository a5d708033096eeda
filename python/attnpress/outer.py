"""The outer product over the last dimensions, summed over the leading ones or not, and its
gradients: PyTorch tensors on a GPU or the CPU, with autograd, and NumPy arrays.

    c = attnpress.outer.outer(x, y)  # c[..., i, j] = x[..., i] * y[..., j]
    c = attnpress.outer.outer(x, y, summed=True)  # c[i, j]

Mirrors include/attnpress/outer.h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import Structure, c_int32, c_int64, c_size_t, c_void_p, sizeof
from typing import Any, TypeVar

from . import _library as c
from ._rows import (
    PLAN_ARGUMENTS,
    Library,
    declared,
    library_of,
    readable,
    row_stride,
    workspace_bytes,
)

Array = TypeVar("Array")
"""torch.Tensor or numpy.ndarray."""

FP64 = 4
"""ATTNPRESS_OUTER_FP64"""
_DTYPES = {"float16": c.FP16, "bfloat16": c.BF16, "float32": c.FP32, "float64": FP64}


class OuterArgs(Structure):
    """attnpress_outer_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("x", c_void_p),
        ("y", c_void_p),
        ("c", c_void_p),
        ("batch", c_int64),
        ("rows", c_int64),
        ("columns", c_int64),
        ("x_stride", c_int64),
        ("y_stride", c_int64),
        ("c_batch_stride", c_int64),
        ("c_row_stride", c_int64),
        ("dtype", c_int32),
        ("summed", c_int32),
    ]


class OuterBackwardArgs(Structure):
    """attnpress_outer_backward_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("x", c_void_p),
        ("y", c_void_p),
        ("dc", c_void_p),
        ("dx", c_void_p),
        ("dy", c_void_p),
        ("batch", c_int64),
        ("rows", c_int64),
        ("columns", c_int64),
        ("x_stride", c_int64),
        ("y_stride", c_int64),
        ("dc_batch_stride", c_int64),
        ("dc_row_stride", c_int64),
        ("dx_stride", c_int64),
        ("dy_stride", c_int64),
        ("dtype", c_int32),
        ("summed", c_int32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
    ]


_forward = declared("attnpress_outer")
_backward = declared("attnpress_outer_backward")
_plan_backward = declared("attnpress_plan_outer_backward", PLAN_ARGUMENTS)


def outer(x: Array, y: Array, summed: bool = False) -> Array:
    """c[..., i, j] = x[..., i] * y[..., j], or with `summed` c[i, j], summed over all others.

    x, y: PyTorch tensors (fp16, bf16, fp32, and fp64 on the CPU) or NumPy arrays (float16, float32,
    float64, bfloat16 of ml_dtypes), of one dimension or more, all but the last equal. Any strides:
    one whose last dimension is not contiguous, or whose other dimensions are not all one stride
    apart, is copied first.

    Returns c, without gaps. On a GPU the work is queued on the current stream of x's device.
    Gradients of PyTorch tensors are recorded. Raises ValueError or TypeError for arguments that are
    not allowed, attnpress.Error for a call that failed.
    """
    library = library_of("x", x)
    if not isinstance(y, library.kind):
        raise TypeError(f"y is {type(y).__name__}; with x it must be {library.kind.__name__}")
    if library.records(x, y):
        recorded: Array = _function().apply(x, y, bool(summed))
        return recorded
    result: Array = forward(x, y, summed)
    return result


def forward(x: Any, y: Any, summed: bool = False) -> Any:
    """outer() without autograd."""
    library, batch = _checked(x, y)
    rows, columns = x.shape[-1], y.shape[-1]
    lead = () if summed else tuple(x.shape[:-1])
    result = library.empty((*lead, rows, columns), x.dtype, x)
    args = OuterArgs(struct_size=sizeof(OuterArgs), batch=batch, rows=rows, columns=columns)
    args.dtype, args.summed = _dtype(library, x), int(summed)
    kept = [_give(library, args, "x", x), _give(library, args, "y", y)]
    args.c = library.address(result)
    library.run(_forward, args, x)
    del kept
    return result


def backward(
    dc: Any, x: Any, y: Any, summed: bool = False, needs: Sequence[bool] = (True, True)
) -> tuple[Any, Any]:
    """The gradients (dx, dy) by x and y, of dc, that by c; None for those that `needs` says are not
    wanted."""
    library, batch = _checked(x, y)
    rows, columns = x.shape[-1], y.shape[-1]
    shape = (rows, columns) if summed else (*x.shape[:-1], rows, columns)
    if not isinstance(dc, library.kind):
        raise TypeError(f"dc is {type(dc).__name__}; with x it must be {library.kind.__name__}")
    if tuple(dc.shape) != tuple(shape) or dc.dtype != x.dtype:
        raise ValueError(
            f"dc has shape {tuple(dc.shape)} and dtype {dc.dtype}; it must be {tuple(shape)}, "
            f"{x.dtype}"
        )
    library.check_place("dc", dc, x)
    dx = library.empty(x.shape, x.dtype, x) if needs[0] else None
    dy = library.empty(y.shape, y.dtype, y) if needs[1] else None
    args = OuterBackwardArgs(
        struct_size=sizeof(OuterBackwardArgs), batch=batch, rows=rows, columns=columns
    )
    args.dtype, args.summed = _dtype(library, x), int(summed)
    dc = library.contiguous_if_not(dc)
    kept = [_give(library, args, "x", x), _give(library, args, "y", y), dc]
    args.dc = library.address(dc)
    args.dx = None if dx is None or dx.shape[-1] == 0 else library.address(dx)
    args.dy = None if dy is None or dy.shape[-1] == 0 else library.address(dy)
    with library.on_device(x) as backend:
        size = 0
        if backend == c.CUDA and args.dy:
            key = (batch, rows, columns, args.dtype, args.summed)
            size = workspace_bytes(_plan_backward, args, key)
        workspace = library.workspace(x, size)
        if workspace is not None:
            args.workspace, args.workspace_bytes = library.address(workspace), size
        library.run(_backward, args, x)
    del kept
    return dx, dy


# ---- Arguments -----------------------------------------------------------------------------------


def _checked(x: Any, y: Any) -> tuple[Library, int]:
    """The library of both, and the entries of the batch."""
    library = library_of("x", x)
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, library.kind):
            raise TypeError(
                f"{name} is {type(value).__name__}; both must be {library.kind.__name__}"
            )
        if not value.shape:
            raise ValueError(f"{name} has no dimensions; one or more are needed")
    if tuple(x.shape[:-1]) != tuple(y.shape[:-1]) or x.dtype != y.dtype:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and dtype {x.dtype}, y {tuple(y.shape)} and {y.dtype}; "
            "all but the last dimension must be equal"
        )
    library.check_place("y", y, x)
    return library, math.prod(x.shape[:-1])


def _dtype(library: Library, value: Any) -> int:
    """As library.dtype(), and fp64."""
    name = str(value.dtype).rpartition(".")[2]
    return FP64 if name == "float64" else library.dtype(value)


def _give(library: Library, args: Structure, name: str, value: Any) -> Any:
    """Puts an input into the struct; what has to live until the call is made."""
    if math.prod(value.shape) == 0:
        return None
    value = readable(library, value)
    setattr(args, name, library.address(value))
    setattr(args, f"{name}_stride", row_stride(value.shape, library.strides(value)))
    return value


# ---- Autograd ------------------------------------------------------------------------------------

_functions: dict[str, Any] = {}


def _function() -> Any:
    """The torch.autograd.Function, made when the first gradient is recorded."""
    if "outer" in _functions:
        return _functions["outer"]
    import torch

    class Outer(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, summed: bool) -> Any:
            ctx.summed = summed
            ctx.save_for_backward(x, y)
            return forward(x, y, summed)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, dc: Any) -> Any:
            x, y = ctx.saved_tensors
            return (*backward(dc, x, y, ctx.summed, ctx.needs_input_grad[:2]), None)

    return _functions.setdefault("outer", Outer)
