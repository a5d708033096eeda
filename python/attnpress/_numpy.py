"""The way from NumPy arrays to the library's CPU backend. Imported when the first array is seen."""

from __future__ import annotations

from ctypes import addressof

import numpy as np

from . import _library as c
from ._backward import Call, Layout, Request, check_shapes
from ._plan import (
    Plan,
    check_request,
    dense_stride,
    handle_of,
    is_allowed,
    new_plans,
    strides_read,
)
from ._ragged import Call as RaggedCall
from ._ragged import Ragged, check_in_place, struct_of
from ._scores import Groups, View, mask_args
from ._scores import Request as ScoreRequest

_DTYPES = {
    "float16": c.FP16,
    "bfloat16": c.BF16,
    "float32": c.FP32,
}  # bfloat16: the dtype of ml_dtypes
_plans = new_plans()
IS_TRACED = False


def _strides(array: np.ndarray) -> tuple[int, ...]:
    """In elements; where they are no whole number of elements, something that no tensor may
    have."""
    size = array.itemsize
    return tuple(s // size if s % size == 0 else -1 for s in array.strides)


def _is_aligned(array: np.ndarray) -> bool:
    return array.ctypes.data % 16 == 0


def _empty(shape: tuple[int, ...], stride: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array without gaps whose strides, in elements, are `stride`; its data is 16-byte
    aligned."""
    count = int(np.prod(shape, dtype=np.int64))
    memory = np.empty(count * dtype.itemsize + 15, dtype=np.uint8)
    begin = -memory.ctypes.data % 16
    flat = memory[begin : begin + count * dtype.itemsize].view(dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, [s * dtype.itemsize for s in stride])


def _readable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy in the same order of dimensions where the library cannot read it as it
    lies."""
    if is_allowed(array.shape, _strides(array)) and _is_aligned(array):
        return array
    copy = _empty(array.shape, dense_stride(array.shape, array.strides), array.dtype)
    copy[...] = array
    return copy


def _key(q, k, v, softmax_scale: float | None, causal: bool, groups: Groups | None) -> tuple:
    """Everything that a plan depends on."""
    for value in (q, k, v):
        if type(value) is not np.ndarray:
            _check_type(q, k, v)
    return (
        q.dtype, k.dtype, v.dtype, q.shape, k.shape, v.shape, q.strides, k.strides, v.strides,
        softmax_scale, causal, None if groups is None else groups.key,
    )  # fmt: skip


def _check_type(q, k, v) -> None:
    """TypeError for what is no array, or more than its elements."""
    if not all(isinstance(value, np.ndarray) for value in (q, k, v)):
        types = ", ".join(type(value).__name__ for value in (q, k, v))
        raise TypeError(f"q, k and v are {types}; all three must be NumPy arrays")
    for name, value in zip("qkv", (q, k, v)):
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(
                f"{name} is a masked array, whose mask attention would not see: pass "
                f"{name}.filled(...) or {name}.data"
            )


def _dtype_of(q, k, v) -> int:
    """The attnpress_dtype of the three."""
    for name, value in zip("qkv", (q, k, v)):
        if not value.dtype.isnative:
            raise TypeError(
                f"{name} is {value.dtype.str}, whose byte order is not this machine's: pass "
                f"{name}.astype({name}.dtype.newbyteorder('='))"
            )
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q is {q.dtype}, k {k.dtype}, v {v.dtype}; one dtype is needed")
    if q.dtype.name not in _DTYPES:
        raise ValueError(
            f"dtype {q.dtype} is not supported; float16, float32 and ml_dtypes.bfloat16 are"
        )
    return _DTYPES[q.dtype.name]


def checked(q, k, v, softmax_scale: float | None) -> tuple[int, tuple]:
    """The attnpress_dtype and the shapes; raises for what is not allowed."""
    _check_type(q, k, v)
    dtype = _dtype_of(q, k, v)
    shapes = (q.shape, k.shape, v.shape)
    check_request(shapes, softmax_scale)
    return dtype, shapes


def _new_plan(
    key: tuple, q, k, v, softmax_scale: float | None, causal: bool, groups: Groups | None
) -> Plan | None:
    """The plan of a signature, or None where an array has to be copied first."""
    dtype, shapes = checked(q, k, v, softmax_scale)
    strides = (_strides(q), _strides(k), _strides(v))
    if not all(is_allowed(*one) for one in zip(shapes, strides)):
        return None
    plan = Plan(c.CPU, dtype, shapes, strides, softmax_scale, causal, groups)
    _plans.add(key, plan)
    return plan


def _layout(array: np.ndarray) -> Layout:
    return Layout(array.ctypes.data, array.shape, _strides(array))


def backward(
    dout, q, k, v, out, lse, softmax_scale: float | None, causal: bool, deterministic: bool, dlse,
    groups: Groups | None = None, sequences: Ragged | None = None, given: object = None,
):  # fmt: skip
    """dq, dk and dv, and with sinks dsinks. With `sequences` arrays are those of ragged(), and lse
    is (heads_q, total_q); gradients of rows that belong to no sequence are 0."""
    if given is not None:
        raise TypeError("gradients are for PyTorch tensors; with NumPy arrays it must be None")
    dtype, _ = checked(q, k, v, softmax_scale)
    for name, array in (
        ("dout", dout), ("out", out), ("softmax_lse", lse),
        ("dsoftmax_lse", lse if dlse is None else dlse),
    ):  # fmt: skip
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{name} is {type(array).__name__}; with q it must be a NumPy array")
    for name, array, wanted in (("dout", dout, q.dtype), ("out", out, q.dtype)):
        if array.dtype != wanted:
            raise ValueError(f"{name} is {array.dtype}; it must be {wanted}")
    check_shapes(
        q.shape, v.shape, out.shape, dout.shape, lse.shape, None if dlse is None else dlse.shape,
        sequences is not None,
    )  # fmt: skip
    q, k, v, out, dout = (_readable(array) for array in (q, k, v, out, dout))
    lse = np.ascontiguousarray(lse, dtype=np.float32)
    dlse = None if dlse is None else np.ascontiguousarray(dlse, dtype=np.float32)
    group = None
    if sequences is not None:
        group = struct_of(sequences, sequences.layouts(_layout))
    request = Request(
        c.CPU, dtype, _layout(q), _layout(k), _layout(v), _layout(out), _layout(dout),
        lse.ctypes.data, 0 if dlse is None else dlse.ctypes.data, softmax_scale, causal,
        deterministic, groups, group,
    )  # fmt: skip
    call = Call(request)
    dq, dk, dv = (
        _empty(x.shape, stride, q.dtype) for x, stride in zip((q, k, v), request.gradient_strides())
    )
    if sequences is not None:
        for gradient in (dq, dk, dv):
            gradient[...] = 0
    if groups is None or groups.sinks is None:
        call.run(dq.ctypes.data, dk.ctypes.data, dv.ctypes.data, 0, 0, None)
        return dq, dk, dv
    dsinks = np.empty(q.shape[2], dtype=np.float32)
    call.run(dq.ctypes.data, dk.ctypes.data, dv.ctypes.data, dsinks.ctypes.data, 0, None)
    return dq, dk, dv, dsinks.astype(groups.sinks.dtype)


def forward(
    q,
    k,
    v,
    softmax_scale: float | None,
    causal: bool,
    with_lse: bool,
    groups: Groups | None = None,
    deterministic: bool = False,  # it always is
):
    """out, or (out, lse, an empty array) where with_lse."""
    key = _key(q, k, v, softmax_scale, causal, groups)
    plan = _plans.by_key.get(key) or _new_plan(key, q, k, v, softmax_scale, causal, groups)
    if plan is None or not (_is_aligned(q) and _is_aligned(k) and _is_aligned(v)):
        copies = (_readable(q), _readable(k), _readable(v))
        return forward(*copies, softmax_scale, causal, with_lse, groups)
    out = _empty(plan.out_shape, plan.out_stride, q.dtype)
    lse = np.empty(plan.lse_shape, dtype=np.float32) if with_lse else None
    args = plan.args(
        q.ctypes.data,
        k.ctypes.data,
        v.ctypes.data,
        out.ctypes.data,
        0 if lse is None else lse.ctypes.data,
    )
    if groups is not None:
        args = groups.point_from(args)
    plan.run(c.CPU, args, c.library.attnpress_forward, None)
    return out if lse is None else (out, lse, np.empty(0, dtype=q.dtype))


def with_plan(
    q,
    k,
    v,
    softmax_scale: float | None,
    causal: bool,
    groups: Groups | None,
    function,
    *rest: object,
) -> None:
    """function(handle, args, *rest) of the library for these arrays, which are neither read nor
    copied."""
    dtype, shapes = checked(q, k, v, softmax_scale)
    strides = tuple(
        strides_read(x.shape, _strides(x), x.strides, _is_aligned(x)) for x in (q, k, v)
    )
    plan = Plan(c.CPU, dtype, shapes, strides, softmax_scale, causal, groups)
    args = plan.args() if groups is None else groups.point_from(plan.args())
    plan.run(c.CPU, args, function, *rest)


# ---- Sequences of their own lengths --------------------------------------------------------------


def int32_array(name: str, value, like: np.ndarray) -> np.ndarray:
    """An array of lengths or indices, checked."""
    if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is {type(value).__name__}; with q it must be a NumPy array")
    if value.dtype != np.int32 or not value.dtype.isnative:
        raise ValueError(f"{name} is {value.dtype}; int32 is needed: {name}.astype(np.int32)")
    return value if value.ndim < 1 or value.strides[-1] == 4 else np.ascontiguousarray(value)


def int32_full(count: int, value: int, like: np.ndarray) -> np.ndarray:
    return np.full(count, value, dtype=np.int32)


def refuse_grad(names: tuple[str, ...], *values) -> None:
    """Arrays never require a gradient."""


def needs_grad(*values) -> bool:
    """Arrays never require a gradient."""
    return False


def ragged(
    q, k, v, out, request: Ragged, softmax_scale, causal, groups, num_splits, lse_shape
):  # fmt: skip
    """(out, lse); of q, k, v (batch, seqlen, heads, head_dim); lse where lse_shape is not None."""
    dtype, _ = checked(q, k, v, softmax_scale)
    out_shape = (*q.shape[:3], v.shape[3])
    cache = k, v
    q, k, v = (_readable(x) for x in (q, k, v))
    if request.before is not None:
        check_in_place(("k_cache", cache[0], k), ("v_cache", cache[1], v))
    if out is None:
        out = _empty(out_shape, dense_stride(out_shape, _strides(q)), q.dtype)
    elif not isinstance(out, np.ndarray) or out.shape != out_shape or out.dtype != q.dtype:
        raise ValueError(
            f"out is {getattr(out, 'dtype', type(out).__name__)} of shape "
            f"{getattr(out, 'shape', None)}; it must be {q.dtype} of shape {out_shape}"
        )
    elif not (is_allowed(out_shape, _strides(out)) and _is_aligned(out)):
        raise ValueError(
            f"out has strides {_strides(out)}; the last dimension must be contiguous, the others "
            "multiples of 8 elements, and the data aligned to 16 bytes"
        )
    elif not out.flags.writeable:
        raise ValueError("out is read-only")
    lse = None if lse_shape is None else np.empty(lse_shape, dtype=np.float32)
    call = RaggedCall(
        handle_of(c.CPU), dtype, [_layout(x) for x in (q, k, v, out)],
        0 if lse is None else lse.ctypes.data, request, request.layouts(_layout), softmax_scale,
        causal, groups, num_splits,
    )  # fmt: skip
    if request.before is not None:
        call.workspace_bytes()
        request.before()
    c.check(call.run(0, 0, None))
    return out, lse


def empty_like(q: np.ndarray) -> np.ndarray:
    """An array without elements."""
    return np.empty(0, dtype=q.dtype)


# ---- What is done to scores ----------------------------------------------------------------------


def check_no_grad(request: ScoreRequest) -> None:
    """Arrays never require a gradient."""


def view(name: str, value, like: np.ndarray, whole: bool = False) -> View:
    """An array of a feature's, copied where the library cannot read it as it lies; whole: of int32
    as well."""
    if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is {type(value).__name__}; with q it must be a NumPy array")
    if whole and value.dtype == np.int32:
        copy = np.ascontiguousarray(value)
        return View(copy, copy.ctypes.data, copy.shape, _strides(copy), c.INT32)
    if value.dtype.name not in _DTYPES or not value.dtype.isnative:
        raise ValueError(
            f"{name} is {value.dtype.str if not value.dtype.isnative else value.dtype}; float16, "
            "float32 and ml_dtypes.bfloat16 are supported, in this machine's byte order"
            f"{', and int32' if whole else ''}"
        )
    stride = _strides(value)
    if any(s < 0 for s in stride) or value.ctypes.data % value.itemsize:
        return contiguous_view(value)
    return View(value, value.ctypes.data, value.shape, stride, _DTYPES[value.dtype.name])


def contiguous_view(value: np.ndarray) -> View:
    """Of a copy."""
    copy = np.array(value, order="C", copy=True)
    return View(copy, copy.ctypes.data, copy.shape, _strides(copy), _DTYPES[copy.dtype.name])


def draw_seed(like: np.ndarray) -> tuple[int, int]:
    """By NumPy's global generator, which np.random.seed() sets."""
    low, high = np.random.randint(0, 1 << 32, 2, dtype=np.uint64)
    return (int(low) | int(high) << 32, 0)


def seed_address(seed, like: np.ndarray) -> int:
    """Of an array that holds seed and offset."""
    if (
        not isinstance(seed, np.ndarray)
        or seed.shape != (2,)
        or seed.dtype not in (np.int64, np.uint64)
        or not seed.flags.c_contiguous
        or seed.ctypes.data % 8
    ):
        raise ValueError(
            f"seed is {seed!r}; it must be an int, two ints (seed, offset), or a contiguous array "
            "of these two, int64 or uint64"
        )
    return seed.ctypes.data


def dropout_mask(q: np.ndarray, seqlen_k: int, groups: Groups) -> np.ndarray:
    """(batch, heads, seqlen_q, seqlen_k): True where a probability is kept."""
    keep = np.empty((q.shape[0], q.shape[2], q.shape[1], seqlen_k), dtype=np.uint8)
    args = mask_args(keep.shape, keep.ctypes.data, groups)
    c.check(c.library.attnpress_dropout_mask(handle_of(c.CPU), addressof(args), None))
    return keep.view(np.bool_)


# What probabilities() is computed with.
library = np


def floats(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float32)


def zeros(shape: tuple[int, ...], like: np.ndarray) -> np.ndarray:
    return np.zeros(shape, np.float32)


def positions(count: int, like: np.ndarray) -> np.ndarray:
    return np.arange(count)


def signed(p: np.ndarray, keep: np.ndarray, q: np.ndarray) -> np.ndarray:
    """p in q's dtype, negative where it was dropped."""
    return np.where(keep, p, -p).astype(q.dtype)
