"""The way from NumPy arrays to the library's CPU backend. Imported when the first array is seen."""

from __future__ import annotations

import numpy as np

from . import _library as c
from ._plan import Plan, check_request, dense_stride, is_allowed, new_plans, strides_read

_DTYPES = {
    "float16": c.FP16,
    "bfloat16": c.BF16,
    "float32": c.FP32,
}  # bfloat16: the dtype of ml_dtypes
_plans = new_plans()


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


def _key(q, k, v, softmax_scale: float | None, causal: bool) -> tuple:
    """Everything that a plan depends on."""
    for value in (q, k, v):
        if type(value) is not np.ndarray:
            _check_type(q, k, v)
    return (
        q.dtype, k.dtype, v.dtype, q.shape, k.shape, v.shape, q.strides, k.strides, v.strides,
        softmax_scale, causal,
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


def _checked(q, k, v, softmax_scale: float | None) -> tuple[int, tuple]:
    """The attnpress_dtype and the shapes; raises for what is not allowed."""
    dtype = _dtype_of(q, k, v)
    shapes = (q.shape, k.shape, v.shape)
    check_request(shapes, softmax_scale)
    return dtype, shapes


def _new_plan(key: tuple, q, k, v, softmax_scale: float | None, causal: bool) -> Plan | None:
    """The plan of a signature, or None where an array has to be copied first."""
    dtype, shapes = _checked(q, k, v, softmax_scale)
    strides = (_strides(q), _strides(k), _strides(v))
    if not all(is_allowed(*one) for one in zip(shapes, strides)):
        return None
    plan = Plan(c.CPU, dtype, shapes, strides, softmax_scale, causal)
    _plans.add(key, plan)
    return plan


def forward(q, k, v, softmax_scale: float | None, causal: bool, with_lse: bool):
    """out, or (out, lse, an empty array) where with_lse."""
    key = _key(q, k, v, softmax_scale, causal)
    plan = _plans.by_key.get(key) or _new_plan(key, q, k, v, softmax_scale, causal)
    if plan is None or not (_is_aligned(q) and _is_aligned(k) and _is_aligned(v)):
        return forward(_readable(q), _readable(k), _readable(v), softmax_scale, causal, with_lse)
    out = _empty(plan.out_shape, plan.out_stride, q.dtype)
    lse = np.empty(plan.lse_shape, dtype=np.float32) if with_lse else None
    args = plan.args(
        q.ctypes.data,
        k.ctypes.data,
        v.ctypes.data,
        out.ctypes.data,
        0 if lse is None else lse.ctypes.data,
    )
    plan.run(c.CPU, args, c.library.attnpress_forward, None)
    return out if lse is None else (out, lse, np.empty(0, dtype=q.dtype))


def with_plan(q, k, v, softmax_scale: float | None, causal: bool, function, *rest: object) -> None:
    """function(handle, args, *rest) of the library for these arrays, which are neither read nor
    copied."""
    _check_type(q, k, v)
    dtype, shapes = _checked(q, k, v, softmax_scale)
    strides = tuple(
        strides_read(x.shape, _strides(x), x.strides, _is_aligned(x)) for x in (q, k, v)
    )
    plan = Plan(c.CPU, dtype, shapes, strides, softmax_scale, causal)
    plan.run(c.CPU, plan.args(), function, *rest)
