"""Layer norm and RMS norm over the last dimension, and their gradients: PyTorch tensors on a GPU or
the CPU, with autograd, and NumPy arrays.

    y = attnpress.layernorm.layer_norm(x, weight, bias)
    y, x = attnpress.layernorm.rms_norm(x, weight, residual=residual)  # of x + residual, and that

Mirrors include/attnpress/layernorm.h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import (
    Structure,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    sizeof,
)
from typing import Any, TypeVar, overload

from . import _library as c
from ._rows import (
    PLAN_ARGUMENTS,
    Library,
    Signatures,
    declared,
    library_of,
    readable,
    row_stride,
    run_with_workspace,
)

Array = TypeVar("Array")
"""torch.Tensor or numpy.ndarray."""

COLUMNS_MAX = 1 << 20
"""Of the last dimension."""


class LayernormArgs(Structure):
    """attnpress_layernorm_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("x", c_void_p),
        ("residual", c_void_p),
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("y", c_void_p),
        ("sum", c_void_p),
        ("mean", c_void_p),
        ("rstd", c_void_p),
        ("rows", c_int64),
        ("columns", c_int64),
        ("x_row_stride", c_int64),
        ("residual_row_stride", c_int64),
        ("y_row_stride", c_int64),
        ("sum_row_stride", c_int64),
        ("dtype", c_int32),
        ("param_dtype", c_int32),
        ("rms", c_int32),
        ("eps", c_float),
    ]


class LayernormBackwardArgs(Structure):
    """attnpress_layernorm_backward_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("x", c_void_p),
        ("dy", c_void_p),
        ("weight", c_void_p),
        ("dsum", c_void_p),
        ("mean", c_void_p),
        ("rstd", c_void_p),
        ("dx", c_void_p),
        ("dweight", c_void_p),
        ("dbias", c_void_p),
        ("rows", c_int64),
        ("columns", c_int64),
        ("x_row_stride", c_int64),
        ("dy_row_stride", c_int64),
        ("dsum_row_stride", c_int64),
        ("dx_row_stride", c_int64),
        ("dtype", c_int32),
        ("param_dtype", c_int32),
        ("rms", c_int32),
        ("reserved", c_int32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
    ]


_forward = declared("attnpress_layernorm")
_backward = declared("attnpress_layernorm_backward")
_plan_backward = declared("attnpress_plan_layernorm_backward", PLAN_ARGUMENTS)


@overload
def layer_norm(
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    eps: float = ...,
    residual: None = ...,
    out: Array | None = ...,
) -> Array: ...


@overload
def layer_norm(
    x: Array,
    weight: Array | None = ...,
    bias: Array | None = ...,
    eps: float = ...,
    *,
    residual: Array,
    out: Array | None = ...,
) -> tuple[Array, Array]: ...


def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    residual: Any = None,
    out: Any = None,
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimension.

    x: a PyTorch tensor (fp16, bf16, fp32; on a CUDA device or the CPU) or a NumPy array (float16,
    float32, bfloat16 of ml_dtypes), of one dimension or more, the last at most COLUMNS_MAX. Any
    strides: one whose last dimension is not contiguous, or whose other dimensions are not all one
    stride apart, is copied first.
    weight, bias: of x's last dimension, both of one dtype, which need not be x's; None: 1 and 0.
    eps: positive.
    residual: of x's shape and dtype: x + residual is normalised.
    out: where the result goes, of x's shape and dtype, and x itself for in place; a new one where
    None. Its rows have to lie one stride apart. Not where a gradient is recorded.

    Returns y; with a residual (y, x + residual). On a GPU the work is queued on the current stream
    of x's device. Gradients of PyTorch tensors are recorded. Raises ValueError or TypeError for
    arguments that are not allowed, attnpress.Error for a call that failed.
    """
    return _norm(x, weight, bias, eps, residual, out, rms=False)


@overload
def rms_norm(
    x: Array,
    weight: Array | None = ...,
    eps: float = ...,
    residual: None = ...,
    out: Array | None = ...,
) -> Array: ...


@overload
def rms_norm(
    x: Array,
    weight: Array | None = ...,
    eps: float = ...,
    *,
    residual: Array,
    out: Array | None = ...,
) -> tuple[Array, Array]: ...


def rms_norm(
    x: Any, weight: Any = None, eps: float = 1e-5, residual: Any = None, out: Any = None
) -> Any:
    """x / sqrt(mean of squares + eps) * weight over the last dimension. All as in layer_norm()."""
    return _norm(x, weight, None, eps, residual, out, rms=True)


def forward(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    residual: Any = None,
    out: Any = None,
    rms: bool = False,
    moments: bool = True,
) -> tuple[Any, Any, Any, Any]:
    """What the norms above are made of, without autograd: (y, sum, mean, rstd). sum is x + residual
    or, where there is none, x itself; mean, None with rms, and rstd are fp32, of x's leading
    dimensions, and both None without moments."""
    signature = None
    is_number = type(eps) is float  # others are looked at each time: some are none, some change
    if is_number and _quick is not None:
        found = _quick.forward(x, weight, bias, eps, residual, out, rms, moments)
        if found is not None:
            return found  # type: ignore[no-any-return]
    elif is_number:
        given = [value for value in (x, weight, bias, residual, out) if value is not None]
        absent = weight is None, bias is None, residual is None, out is None
        signature = _signatures.key((eps, rms, moments, *absent), *given)
    known = _signatures.find(signature)
    if known is not None:
        return _forward_again(known[0], x, weight, bias, residual, out, rms, moments)
    library = library_of("x", x)
    _check_parameters(library, x, weight, bias)
    _check_kinds(library, residual=residual, out=out)
    library.check(("x", "residual"), (x, x if residual is None else residual), out)
    eps = c.real_number("eps", eps)
    if not (math.isfinite(eps) and c_float(eps).value > 0.0):
        raise ValueError(f"eps is {eps}; it must be positive and finite in single precision")
    rows, columns = _extents(x)
    y = library.empty_like(x) if out is None else out
    total = x if residual is None else library.empty_like(x)
    mean, rstd = _moments(library, x, rms, moments)
    if rows == 0 or columns == 0:
        return y, total, mean, rstd
    args = LayernormArgs(struct_size=sizeof(LayernormArgs), rows=rows, columns=columns, eps=eps)
    args.dtype, args.rms = library.dtype("x", x), int(rms)
    kept = [  # until the call is made
        _give_rows(library, args, "x", x),
        _give_rows(library, args, "residual", residual),
        _give_output(library, args, "y", y),
        _give_parameters(library, args, weight=weight, bias=bias),
    ]
    if residual is not None:
        _give_output(library, args, "sum", total)
    args.mean = None if mean is None else library.address(mean)
    args.rstd = None if rstd is None else library.address(rstd)
    library.run(_forward, args, x)
    del kept
    if out is not None:
        library.written(out)
    _signatures.keep(signature, args, 0)
    if is_number and library.quick is not None:
        tensors = {"x": x, "weight": weight, "bias": bias, "residual": residual, "y": out}
        made = (("sum", None if total is x else total), ("mean", mean), ("rstd", rstd))
        outputs = [("y", y, out is not None), *((n, v, False) for n, v in made if v is not None)]
        _quickly(library.quick).forward_calls.keep(
            (eps, bool(rms), bool(moments)), args, tensors, outputs, 0
        )
    return y, total, mean, rstd


def _moments(library: Library, x: Any, rms: bool, moments: bool) -> tuple[Any, Any]:
    """Memory for mean and rstd."""
    if not moments:
        return None, None
    mean = None if rms else library.empty(x.shape[:-1], "float32", x)
    return mean, library.empty(x.shape[:-1], "float32", x)


_signatures = Signatures()


def _forward_again(
    known: bytes, x: Any, weight: Any, bias: Any, residual: Any, out: Any, rms: bool, moments: bool
) -> tuple[Any, Any, Any, Any]:
    """forward() of a signature that was seen before."""
    library = library_of("x", x)
    args = LayernormArgs.from_buffer_copy(known)
    y = library.empty_like(x) if out is None else out
    args.x, args.y = x.data_ptr(), y.data_ptr()
    if weight is not None:
        args.weight = weight.data_ptr()
    if bias is not None:
        args.bias = bias.data_ptr()
    total = x
    if residual is not None:
        total = library.empty_like(x)
        args.residual, args.sum = residual.data_ptr(), total.data_ptr()
    mean, rstd = _moments(library, x, rms, moments)
    if mean is not None:
        args.mean = mean.data_ptr()
    if rstd is not None:
        args.rstd = rstd.data_ptr()
    library.run(_forward, args, x)
    if out is not None:
        library.written(out)
    return y, total, mean, rstd


def backward(
    dy: Any,
    x: Any,
    rstd: Any,
    mean: Any = None,
    weight: Any = None,
    dsum: Any = None,
    needs: Sequence[bool] = (True, True, True),
    rms: bool = False,
    param_dtype: Any = None,
) -> tuple[Any, Any, Any]:
    """The gradients (dx, dweight, dbias) of forward(), whose sum is x here; None for those that
    `needs` says are not wanted, except dx. dy: the gradient by y; dsum: that by the sum, which is
    added to dx, the gradient by both x and the residual. dweight and dbias have the weight's dtype;
    where there is none, param_dtype, such as the bias has, or x's."""
    if _quick is not None:
        found = _quick.backward(dy, x, rstd, mean, weight, dsum, needs, rms, param_dtype)
        if found is not None:
            return found  # type: ignore[no-any-return]
    library = library_of("dy", dy)
    _check_parameters(library, x, weight, None)
    _check_kinds(library, x=x, dsum=dsum, mean=mean, rstd=rstd)
    library.check(("dy", "x", "dsum"), (dy, x, dy if dsum is None else dsum), None)
    if mean is None and not rms:
        raise ValueError("mean is None; the gradient of layer norm needs what forward() returned")
    rows, columns = _extents(x)
    given_dtype = param_dtype
    if weight is not None:
        param_dtype = weight.dtype
    elif param_dtype is None:
        param_dtype = x.dtype
    dx = library.empty_like(x)
    dweight = library.empty(x.shape[-1:], param_dtype, x) if needs[1] else None
    dbias = library.empty(x.shape[-1:], param_dtype, x) if needs[2] else None
    if columns == 0 or (rows == 0 and dweight is None and dbias is None):
        return dx, dweight, dbias
    args = LayernormBackwardArgs(
        struct_size=sizeof(LayernormBackwardArgs), rows=rows, columns=columns
    )
    args.dtype, args.rms = library.dtype("x", x), int(rms)
    kept = [  # until the call is made
        _give_rows(library, args, "x", x),
        _give_rows(library, args, "dy", dy),
        _give_rows(library, args, "dsum", dsum),
        _give_output(library, args, "dx", dx),
        _give_parameters(library, args, weight=weight),
        _give_moments(library, args, mean=None if rms else mean, rstd=rstd),
    ]
    if weight is None and (dweight is not None or dbias is not None):
        args.param_dtype = library.dtype("param_dtype", dbias if dweight is None else dweight)
    args.dweight = None if dweight is None else library.address(dweight)
    args.dbias = None if dbias is None else library.address(dbias)
    key = None
    if args.dweight or args.dbias:
        key = (
            args.rows, args.columns, args.dtype, args.param_dtype, args.rms, bool(args.dweight),
            bool(args.dbias),
        )  # fmt: skip
    size = run_with_workspace(library, _backward, _plan_backward, args, x, key)
    del kept
    if library.quick is not None:
        tensors = {"dy": dy, "x": x, "rstd": rstd, "mean": mean, "weight": weight, "dsum": dsum}
        made = (("dx", dx), ("dweight", dweight), ("dbias", dbias))
        outputs = [(name, value, False) for name, value in made if value is not None]
        _quickly(library.quick).backward_calls.keep(
            (bool(needs[1]), bool(needs[2]), bool(rms), given_dtype), args, tensors, outputs, size
        )
    return dx, dweight, dbias


# ---- Arguments -----------------------------------------------------------------------------------


def _check_kinds(library: Library, **values: Any) -> None:
    for name, value in values.items():
        if value is not None and not isinstance(value, library.kind):
            raise TypeError(
                f"{name} is {type(value).__name__}; with x it must be {library.kind.__name__}"
            )


def _check_parameters(library: Library, x: Any, weight: Any, bias: Any) -> None:
    _check_kinds(library, x=x, weight=weight, bias=bias)
    given = [(n, v) for n, v in (("weight", weight), ("bias", bias)) if v is not None]
    for name, value in given:
        if tuple(value.shape) != tuple(x.shape[-1:]):
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}; it must be {tuple(x.shape[-1:])}, x's "
                "last dimension"
            )
        if value.dtype != given[0][1].dtype:
            raise ValueError(
                f"weight has dtype {weight.dtype} and bias {bias.dtype}; they must be equal"
            )
        library.check_place(name, value, x)


def _extents(x: Any) -> tuple[int, int]:
    """Rows and columns."""
    if not x.shape:
        raise ValueError("x has no dimensions; one or more are needed")
    return math.prod(x.shape[:-1]), x.shape[-1]


def _give_rows(library: Library, args: Structure, name: str, value: Any) -> Any:
    """Puts an input into the struct; what has to live until the call is made."""
    if value is None or args.rows == 0:
        return None
    value = readable(library, value)
    setattr(args, name, library.address(value))
    setattr(args, f"{name}_row_stride", row_stride(value.shape, library.strides(value)))
    return value


def _give_output(library: Library, args: Structure, name: str, value: Any) -> Any:
    if args.rows == 0:
        return None
    stride = row_stride(value.shape, library.strides(value))
    if stride is None:
        raise ValueError(
            f"out has strides {library.strides(value)}; its last dimension must be contiguous and "
            "its rows one stride apart"
        )
    setattr(args, name, library.address(value))
    setattr(args, f"{name}_row_stride", stride)
    return value


def _give_parameters(library: Library, args: Structure, **values: Any) -> list[Any]:
    kept = []
    for name, value in values.items():
        if value is not None:
            kept.append(library.contiguous_if_not(value))
            setattr(args, name, library.address(kept[-1]))
            args.param_dtype = library.dtype(name, value)
    return kept


def _give_moments(library: Library, args: Structure, **values: Any) -> list[Any]:
    kept = []
    for name, value in values.items():
        if value is None:
            continue
        if library.dtype(name, value) != c.FP32 or math.prod(value.shape) != args.rows:
            raise ValueError(
                f"{name} has dtype {value.dtype} and shape {tuple(value.shape)}; it must be fp32, "
                f"one of each of the {args.rows} rows"
            )
        kept.append(library.contiguous_if_not(value))
        setattr(args, name, library.address(kept[-1]))
    return kept


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
        self.forward_calls = quick.Calls("attnpress_layernorm")
        self.backward_calls = quick.Calls("attnpress_layernorm_backward")

    def forward(
        self, x: Any, weight: Any, bias: Any, eps: float, residual: Any, out: Any, rms: bool,
        moments: bool,
    ) -> Any:  # fmt: skip
        made = self.forward_calls.run((eps, rms, moments), x, weight, bias, residual, out)
        if made is None:
            return None
        if out is not None:
            library_of("out", out).written(out)
        if residual is None and not moments:
            return made, x, None, None
        y, *rest = made
        total = x if residual is None else rest.pop(0)
        rstd = rest.pop() if moments else None
        return y, total, rest[0] if rest else None, rstd

    def norm(
        self, x: Any, weight: Any, bias: Any, eps: float, residual: Any, out: Any, rms: bool
    ) -> Any:
        quick = self.quick
        if not quick.records(x, weight, bias, residual, out):
            if residual is None and out is None:
                return self.forward_calls.run((eps, rms, False), x, weight, bias, None, None)
            found = self.forward(x, weight, bias, eps, residual, out, rms, False)
            return found if found is None else found[0] if residual is None else found[:2]
        if out is not None or not quick.may_record():
            return None
        found = self.forward(x, weight, bias, eps, residual, None, rms, True)
        if found is None:
            return None
        y, total, mean, rstd = found
        result = y if residual is None else (y, total)
        options = rms, residual is not None, None if bias is None else bias.dtype
        return quick.record(
            (x, weight, bias, residual), result, (total, weight, mean, rstd), options, _gradients
        )

    def backward(
        self, dy: Any, x: Any, rstd: Any, mean: Any, weight: Any, dsum: Any, needs: Sequence[bool],
        rms: bool, param_dtype: Any,
    ) -> Any:  # fmt: skip
        _, with_weight, with_bias = needs
        options = with_weight, with_bias, rms, param_dtype
        made = self.backward_calls.run(options, dy, x, rstd, mean, weight, dsum)
        if made is None or (with_weight and with_bias):
            return made
        if not with_weight and not with_bias:
            return made, None, None
        return (*made, None) if with_weight else (made[0], None, made[1])


# ---- Autograd ------------------------------------------------------------------------------------

_functions: dict[str, Any] = {}


def _gradients(ctx: Any, dy: Any, dsum: Any = None) -> tuple[Any, Any, Any, Any]:
    """By x, weight, bias and the residual."""
    total, weight, mean, rstd = ctx.saved_tensors
    rms, has_residual, param_dtype = ctx.options
    if dy is None:  # only the sum was used
        return dsum, None, None, dsum if has_residual else None
    needs = (True, ctx.needs_input_grad[1], ctx.needs_input_grad[2])
    dx, dweight, dbias = backward(dy, total, rstd, mean, weight, dsum, needs, rms, param_dtype)
    return dx, dweight, dbias, dx if has_residual else None


def _norm(x: Any, weight: Any, bias: Any, eps: float, residual: Any, out: Any, rms: bool) -> Any:
    if _quick is not None and type(eps) is float:
        found = _quick.norm(x, weight, bias, eps, residual, out, rms)
        if found is not None:
            return found
    library = library_of("x", x)
    _check_kinds(library, weight=weight, bias=bias, residual=residual, out=out)
    if not library.records(x, weight, bias, residual, out):
        y, total, _, _ = forward(x, weight, bias, eps, residual, out, rms, moments=False)
        return y if residual is None else (y, total)
    if out is not None:
        raise ValueError("out is given and a gradient is to be recorded; out must be None then")
    y, total = _function().apply(x, weight, bias, eps, residual, rms)
    return y if residual is None else (y, total)


def _function() -> Any:
    """The torch.autograd.Function, made when the first gradient is recorded."""
    if "norm" in _functions:
        return _functions["norm"]
    import torch

    class Norm(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(
            ctx: Any, x: Any, weight: Any, bias: Any, eps: float, residual: Any, rms: bool
        ) -> Any:
            y, total, mean, rstd = forward(x, weight, bias, eps, residual, None, rms)
            ctx.options = rms, residual is not None, None if bias is None else bias.dtype
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(total, weight, mean, rstd)
            return y, (None if residual is None else total)

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, dy: Any, dsum: Any) -> Any:
            dx, dweight, dbias, dresidual = _gradients(ctx, dy, dsum)
            return dx, dweight, dbias, None, dresidual, None

    return _functions.setdefault("norm", Norm)
