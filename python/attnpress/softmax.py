"""softmax over the last dimension, and its gradient, in place or not: PyTorch tensors on a GPU or
the CPU, and NumPy arrays.

    y = attnpress.softmax.softmax(x, scale=0.5)
    dx = attnpress.softmax.softmax_backward(y, dy, scale=0.5, out=dy)  # over dy

Mirrors include/attnpress/softmax.h.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from ctypes import Structure, c_float, c_int32, c_int64, c_size_t, c_void_p, sizeof
from typing import Any, TypeVar

from . import _library as c
from ._rows import declared, library_of, readable, row_stride

Array = TypeVar("Array")
"""torch.Tensor or numpy.ndarray."""

COLUMNS_MAX = 1 << 20
"""Of the last dimension."""


class SoftmaxArgs(Structure):
    """attnpress_softmax_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("x", c_void_p),
        ("y", c_void_p),
        ("rows", c_int64),
        ("columns", c_int64),
        ("x_row_stride", c_int64),
        ("y_row_stride", c_int64),
        ("dtype", c_int32),
        ("scale", c_float),
    ]


class SoftmaxBackwardArgs(Structure):
    """attnpress_softmax_backward_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("y", c_void_p),
        ("dy", c_void_p),
        ("dx", c_void_p),
        ("rows", c_int64),
        ("columns", c_int64),
        ("y_row_stride", c_int64),
        ("dy_row_stride", c_int64),
        ("dx_row_stride", c_int64),
        ("dtype", c_int32),
        ("scale", c_float),
    ]


_forward = declared("attnpress_softmax")
_backward = declared("attnpress_softmax_backward")


def softmax(x: Array, scale: float = 1.0, out: Array | None = None) -> Array:
    """softmax(scale * x) over the last dimension.

    x: a PyTorch tensor (fp16, bf16, fp32; on a CUDA device or the CPU) or a NumPy array (float16,
    float32, bfloat16 of ml_dtypes), of one dimension or more, the last at most COLUMNS_MAX. Any
    strides: one whose last dimension is not contiguous, or whose other dimensions are not all one
    stride apart, is copied first.
    scale: finite and not 0.
    out: where the result goes, of x's shape and dtype, and x itself for in place; a new one where
    None. Its rows have to lie one stride apart, at least a row's length.

    Returns out. On a GPU the work is queued on the current stream of x's device. Raises ValueError
    or TypeError for arguments that are not allowed, NotImplementedError for a tensor that requires
    grad, attnpress.Error for a call that failed.
    """
    y: Array = _call(_forward, SoftmaxArgs, ("x",), "y", (x,), scale, out)
    return y


def softmax_backward(y: Array, dy: Array, scale: float = 1.0, out: Array | None = None) -> Array:
    """The gradient of softmax() by x: scale * y * (dy - sum(dy * y)), where y is what softmax()
    returned and dy the gradient by y. Everything else as in softmax(); out may be dy or y."""
    dx: Array = _call(_backward, SoftmaxBackwardArgs, ("y", "dy"), "dx", (y, dy), scale, out)
    return dx


# ---- What both are ------------------------------------------------------------------------------


def _call(
    function: Callable[..., int],
    struct: type[Structure],
    names: Sequence[str],
    out_name: str,
    inputs: Any,
    scale: float,
    out: Any,
) -> Any:
    is_number = scale.__class__ is float or scale.__class__ is int  # others may change
    if is_number:
        found = _run_again(struct, scale, inputs, out)
        if found is not None:
            return found
    library = library_of(names[0], inputs[0])
    for name, value in (*zip(names, inputs), ("out", out)):
        if not isinstance(value, library.kind) and (name != "out" or value is not None):
            raise TypeError(
                f"{name} is {type(value).__name__}; with {names[0]} it must be "
                f"{library.kind.__name__}"
            )
    scale = c.real_number("scale", scale)
    if not math.isfinite(scale) or c_float(scale).value == 0.0:
        raise ValueError(f"scale is {scale}; it must be finite and not 0 in single precision")
    library.check(names, inputs, out)
    if library.records(*inputs, out):
        raise NotImplementedError(
            "a tensor requires grad, which this function does not record: detach it, or call under "
            "torch.no_grad()"
        )
    rows, columns = _shape(names[0], inputs[0].shape)
    result = library.empty_like(inputs[0]) if out is None else out
    if rows == 0 or columns == 0:
        return result
    args = struct(struct_size=sizeof(struct), rows=rows, columns=columns, scale=scale)
    args.dtype = library.dtype(names[0], inputs[0])
    given, inputs = (
        inputs,
        tuple(readable(library, value) for value in inputs),
    )  # kept until the call
    for name, value in (*zip(names, inputs), (out_name, result)):
        stride = row_stride(value.shape, library.strides(value))
        if stride is None:
            raise ValueError(
                f"out has strides {library.strides(value)}; its last dimension must be contiguous "
                "and its rows one stride apart"
            )
        setattr(args, name, library.address(value))
        setattr(args, f"{name}_row_stride", stride)
    library.run(function, args, inputs[0])
    if out is not None:
        library.written(out)
    if is_number and library.quick is not None:
        tensors = {**dict(zip(names, given)), out_name: out}
        calls = _calls_of(struct, library.quick)
        calls.keep(scale, args, tensors, ((out_name, result, out is not None),), 0)
    return result


_quick: dict[Any, tuple[Any, Any]] = {}
"""By struct, the calls that ran before and the module _quick_rows; since the first call with
PyTorch's tensors."""


def _calls_of(struct: type[Structure], quick: Any) -> Any:
    name = "attnpress_softmax" if struct is SoftmaxArgs else "attnpress_softmax_backward"
    return _quick.setdefault(struct, (quick.Calls(name), quick))[0]


def _run_again(struct: type[Structure], scale: float, inputs: tuple[Any, ...], out: Any) -> Any:
    """The result of a call that ran before; None of all else."""
    calls, quick = _quick.get(struct, (None, None))
    if calls is None or quick.records(*inputs, out):
        return None
    result = calls.run(scale, *inputs, out)
    if result is not None and out is not None:
        library_of("out", out).written(out)
    return result


def _shape(name: str, shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns."""
    if not shape:
        raise ValueError(f"{name} has no dimensions; one or more are needed")
    return math.prod(shape[:-1]), shape[-1]
