"""The outer product over the last dimensions, summed over the leading ones or not, and its
gradients: PyTorch tensors on a GPU or the CPU, with autograd, and NumPy arrays.

    c = attnpress.outer.outer(x, y)  # c[..., i, j] = x[..., i] * y[..., j]
    c = attnpress.outer.outer(x, y, summed=True)  # c[i, j]
    c = attnpress.outer.outer(x, y, f="tanhf(a * x + y)", scalars={"a": 0.5})  # on a GPU

Mirrors include/attnpress/outer.h.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from ctypes import (
    Structure,
    addressof,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    cast,
    sizeof,
)
from typing import Any, TypeVar, Union

from . import _library as c
from ._rows import (
    PLAN_ARGUMENTS,
    Library,
    Signatures,
    declared,
    dtype_or_fp64,
    library_of,
    readable,
    row_stride,
    run_with_workspace,
)
from ._score_mod import check_value, is_number, scalar_of

Array = TypeVar("Array")
"""torch.Tensor or numpy.ndarray."""


class OuterMod(Structure):
    """attnpress_outer_mod"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_void_p),
        ("value", c_void_p),
        ("scalars", c_void_p),
        ("scalar_count", c_int32),
        ("reserved", c_int32),
    ]


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
        ("mod", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
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
        ("mod", c_void_p),
    ]


_forward = declared("attnpress_outer")
_backward = declared("attnpress_outer_backward")
_plan_forward = declared("attnpress_plan_outer", PLAN_ARGUMENTS)
_plan_backward = declared("attnpress_plan_outer_backward", PLAN_ARGUMENTS)
_signatures = Signatures()
_WORKSPACE_MOST = 2**62
"""Bytes, of a sum over the batch: as many as its plan asks for."""


Scalars = Mapping[str, Union[int, float]]
"""Numbers that an `f` names: ints of 32 bits, and floats. Another value compiles nothing."""


def outer(
    x: Array,
    y: Array,
    summed: bool = False,
    *,
    f: str | None = None,
    scalars: Scalars | None = None,
) -> Array:
    """c[..., i, j] = x[..., i] * y[..., j], or with `summed` c[i, j], summed over all others.

    f: one C expression of x and y in place of the product, on a GPU, such as "fmaxf(x - y, 0.0f)".
    It may name `scalars`, clampi(x, low, high), INFINITY and C's math functions. NVRTC compiles it
    on first use, with its derivatives where a gradient is asked for: where f has a kink, they are
    those of one of its sides.

    x, y: PyTorch tensors (fp16, bf16, fp32, and fp64 on the CPU) or NumPy arrays (float16, float32,
    float64, bfloat16 of ml_dtypes), of one dimension or more, all but the last equal. Any strides:
    one whose last dimension is not contiguous, or whose other dimensions are not all one stride
    apart, is copied first.

    Returns c, without gaps. On a GPU the work is queued on the current stream of x's device.
    Gradients of PyTorch tensors are recorded. Raises ValueError or TypeError for arguments that are
    not allowed, attnpress.NotSupportedError for an `f` on the CPU, attnpress.Error for a call that
    failed, which names the line of an `f` that does not compile.
    """
    if _quick is not None and f is None and scalars is None and summed.__class__ is bool:
        found: Any = _quick.outer(x, y, summed)
        if found is not None:
            return found  # type: ignore[no-any-return]
    library = library_of("x", x)
    if not isinstance(y, library.kind):
        raise TypeError(f"y is {type(y).__name__}; with x it must be {library.kind.__name__}")
    if library.records(x, y):
        recorded: Array = _function().apply(x, y, bool(summed), f, scalars)
        return recorded
    result: Array = forward(x, y, summed, f=f, scalars=scalars)
    return result


def forward(
    x: Any,
    y: Any,
    summed: bool = False,
    *,
    f: str | None = None,
    scalars: Scalars | None = None,
) -> Any:
    """outer() without autograd."""
    is_plain = f is None and not scalars and summed.__class__ is bool
    if is_plain and _quick is not None:
        found = _quick.forward_calls.run(summed, x, y)
        if found is not None:
            return found
    mod = _Mod(f, scalars)
    library, batch = _checked(x, y)
    rows, columns = x.shape[-1], y.shape[-1]
    lead = () if summed else tuple(x.shape[:-1])
    result = library.empty((*lead, rows, columns), x.dtype, x)
    args = OuterArgs(struct_size=sizeof(OuterArgs), batch=batch, rows=rows, columns=columns)
    args.dtype, args.summed = dtype_or_fp64(library, "x", x), int(summed)
    kept = [_give(library, args, "x", x), _give(library, args, "y", y)]
    args.c = library.address(result)
    args.mod = mod.address
    key = None
    if summed:
        args.workspace_bytes = _WORKSPACE_MOST
        key = (batch, rows, columns, args.dtype, f is not None)
    size = run_with_workspace(library, _forward, _plan_forward, args, x, key)
    del kept
    if is_plain and library.quick is not None:
        outputs = (("c", result, False),)
        _quickly(library.quick).forward_calls.keep(summed, args, {"x": x, "y": y}, outputs, size)
    return result


def backward(
    dc: Any,
    x: Any,
    y: Any,
    summed: bool = False,
    needs: Sequence[bool] = (True, True),
    *,
    f: str | None = None,
    scalars: Scalars | None = None,
) -> tuple[Any, Any]:
    """The gradients (dx, dy) by x and y, of dc, that by c; None for those that `needs` says are not
    wanted. f and scalars: as in outer()."""
    signature = None
    is_plain = f is None and not scalars and summed.__class__ is bool
    if is_plain and _quick is not None:
        gradients = _quick.backward(dc, x, y, summed, needs)
        if gradients is not None:
            return gradients  # type: ignore[no-any-return]
    elif f is None and not scalars:
        signature = _signatures.key((summed, *needs), dc, x, y)
        known = _signatures.find(signature)
        if known is not None:
            return _backward_again(known, dc, x, y, needs)
    mod = _Mod(f, scalars)
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
    args.dtype, args.summed = dtype_or_fp64(library, "x", x), int(summed)
    given, dc = dc, library.contiguous_if_not(dc)
    kept = [_give(library, args, "x", x), _give(library, args, "y", y), dc]
    args.dc = library.address(dc)
    args.mod = mod.address
    args.dx = None if dx is None or dx.shape[-1] == 0 else library.address(dx)
    args.dy = None if dy is None or dy.shape[-1] == 0 else library.address(dy)
    key = None
    if args.dy:
        key = (batch, rows, columns, args.dtype, args.summed, f is not None, bool(args.dx))
    size = run_with_workspace(library, _backward, _plan_backward, args, x, key)
    del kept
    if args.x and args.y and args.dc:  # an empty tensor's address may change
        _signatures.keep(signature, args, size)
    if is_plain and library.quick is not None:
        outputs = [(n, d, False) for n, d in (("dx", dx), ("dy", dy)) if d is not None]
        _quickly(library.quick).backward_calls.keep(
            (summed, *needs), args, {"dc": given, "x": x, "y": y}, outputs,
            size,
        )  # fmt: skip
    return dx, dy


def _backward_again(
    known: tuple[bytes, int], dc: Any, x: Any, y: Any, needs: Sequence[bool]
) -> tuple[Any, Any]:
    """backward() of a signature that was seen before."""
    library = library_of("x", x)
    args = OuterBackwardArgs.from_buffer_copy(known[0])
    empty_like = sys.modules["torch"].empty_like
    dx = empty_like(x) if needs[0] else None
    dy = empty_like(y) if needs[1] else None
    args.x, args.y, args.dc = x.data_ptr(), y.data_ptr(), dc.data_ptr()
    args.dx = None if dx is None else dx.data_ptr()
    args.dy = None if dy is None else dy.data_ptr()
    with library.on_device(x):
        workspace = library.workspace(x, known[1])
        args.workspace = None if workspace is None else workspace.data_ptr()
        library.run(_backward, args, x)
    return dx, dy


# ---- A function ----------------------------------------------------------------------------------


class _Mod:
    """An attnpress_outer_mod and what it points to. address: 0 without a function."""

    def __init__(self, f: str | None, scalars: Scalars | None) -> None:
        self.address = None
        if f is None:
            if scalars:
                raise ValueError("scalars are given without an f that could name them")
            return
        if not isinstance(f, str):
            raise TypeError(f"f is {type(f).__name__}; it must be a C expression of x and y, a str")
        if not f.strip():
            raise ValueError("f is blank; it must be a C expression of x and y")
        self._kept: list[Any] = []
        entries = []
        for name, value in (scalars or {}).items():
            check_value(name, value)
            if not is_number(value):
                raise TypeError(f"{name} is a tensor; the outer product's f takes ints and floats")
            entries.append(scalar_of(self._text(name), value))
        self._scalars = (c.ScoreScalar * len(entries))(*entries)
        self._struct = OuterMod(
            struct_size=sizeof(OuterMod), value=self._text(f), scalar_count=len(entries)
        )
        self._struct.scalars = addressof(self._scalars) if entries else None
        self.address = addressof(self._struct)

    def _text(self, value: str) -> c_void_p:
        self._kept.append(c_char_p(value.encode()))
        return cast(self._kept[-1], c_void_p)


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
            "the dtypes and all but the last dimension must be equal"
        )
    library.check_place("y", y, x)
    return library, math.prod(x.shape[:-1])


def _give(library: Library, args: Structure, name: str, value: Any) -> Any:
    """Puts an input into the struct; what has to live until the call is made."""
    if math.prod(value.shape) == 0:
        return None
    value = readable(library, value)
    setattr(args, name, library.address(value))
    setattr(args, f"{name}_stride", row_stride(value.shape, library.strides(value)))
    return value


# ---- Calls that ran before -----------------------------------------------------------------------

_quick: _Quick | None = None  # since the first call with PyTorch's tensors


def _quickly(quick: Any) -> _Quick:
    global _quick  # noqa: PLW0603
    _quick = _quick or _Quick(quick)
    return _quick


class _Quick:
    """Calls without a function that ran before; None of all else. quick: the module _quick_rows."""

    def __init__(self, quick: Any) -> None:
        self.quick = quick
        self.forward_calls = quick.Calls("attnpress_outer")
        self.backward_calls = quick.Calls("attnpress_outer_backward")

    def outer(self, x: Any, y: Any, summed: bool) -> Any:
        quick = self.quick
        if not quick.records(x, y):
            return self.forward_calls.run(summed, x, y)
        result = self.forward_calls.run(summed, x, y) if quick.may_record() else None
        if result is None:
            return None
        return quick.record((x, y), result, (x, y), summed, self._gradients)

    @staticmethod
    def _gradients(ctx: Any, dc: Any) -> tuple[Any, Any]:
        x, y = ctx.saved_tensors
        return backward(dc, x, y, ctx.options, ctx.needs_input_grad[:2])

    def backward(self, dc: Any, x: Any, y: Any, summed: bool, needs: Sequence[bool]) -> Any:
        first, second = needs
        found = self.backward_calls.run((summed, first, second), dc, x, y)
        if found is None or (first and second):
            return found
        return (found, None) if first else (None, found)


# ---- Autograd ------------------------------------------------------------------------------------

_functions: dict[str, Any] = {}


def _function() -> Any:
    """The torch.autograd.Function, made when the first gradient is recorded."""
    if "outer" in _functions:
        return _functions["outer"]
    import torch

    class Outer(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(
            ctx: Any, x: Any, y: Any, summed: bool, f: str | None, scalars: Scalars | None
        ) -> Any:
            ctx.summed, ctx.f, ctx.scalars = summed, f, dict(scalars or {})
            ctx.save_for_backward(x, y)
            return forward(x, y, summed, f=f, scalars=scalars)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, dc: Any) -> Any:
            x, y = ctx.saved_tensors
            needs = ctx.needs_input_grad[:2]
            gradients = backward(dc, x, y, ctx.summed, needs, f=ctx.f, scalars=ctx.scalars)
            return (*gradients, None, None, None)

    return _functions.setdefault("outer", Outer)
