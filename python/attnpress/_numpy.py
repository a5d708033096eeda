"""The way from NumPy arrays to the library's CPU backend. Imported when the first array is seen."""

from __future__ import annotations

import numpy as np

from . import _library as c
from ._plan import Plan, Plans, check_request, dense_stride, is_allowed

_DTYPES = {
    "float16": c.FP16,
    "bfloat16": c.BF16,
    "float32": c.FP32,
}  # bfloat16: the dtype of ml_dtypes
_plans = Plans()


def _strides(array: np.ndarray) -> tuple[int, ...]:
    """In elements; where they are no whole number of elements, something that no tensor may
    have."""
    size = array.itemsize
    return tuple(s // size if s % size == 0 else -1 for s in array.strides)


def _is_readable(array: np.ndarray) -> bool:
    return is_allowed(array.shape, _strides(array)) and array.ctypes.data % 16 == 0


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
    if array.ndim != 4 or _is_readable(array):
        return array
    copy = _empty(array.shape, dense_stride(array.shape, _strides(array)), array.dtype)
    copy[...] = array
    return copy


def _plan(q, k, v, softmax_scale: float | None, causal: bool) -> Plan:
    strides = (_strides(q), _strides(k), _strides(v))
    key = (q.dtype, k.dtype, v.dtype, q.shape, k.shape, v.shape, strides, softmax_scale, causal)
    plan = _plans.by_key.get(key)
    if plan is None:
        if not q.dtype == k.dtype == v.dtype:
            raise ValueError(f"q is {q.dtype}, k {k.dtype}, v {v.dtype}; one dtype is needed")
        if q.dtype.name not in _DTYPES:
            raise ValueError(
                f"dtype {q.dtype} is not supported; float16, float32 and ml_dtypes.bfloat16 are"
            )
        shapes = (q.shape, k.shape, v.shape)
        check_request(shapes, softmax_scale)
        plan = Plan(c.CPU, _DTYPES[q.dtype.name], shapes, strides, softmax_scale, causal)
        _plans.add(key, plan)
    return plan


def _arrays(q, k, v) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    for value in (q, k, v):
        if not isinstance(value, np.ndarray):
            types = ", ".join(type(value).__name__ for value in (q, k, v))
            raise TypeError(f"q, k and v are {types}; all three must be NumPy arrays")
    return _readable(q), _readable(k), _readable(v)


def forward(q, k, v, softmax_scale: float | None, causal: bool, with_lse: bool):
    """out, or (out, lse, an empty array) where with_lse."""
    q, k, v = _arrays(q, k, v)
    plan = _plan(q, k, v, softmax_scale, causal)
    out = _empty(plan.out_shape, plan.out_stride, q.dtype)
    lse = np.empty(plan.lse_shape, dtype=np.float32) if with_lse else None
    plan.q.data = q.ctypes.data
    plan.k.data = k.ctypes.data
    plan.v.data = v.ctypes.data
    plan.out.data = out.ctypes.data
    plan.args.lse = None if lse is None else lse.ctypes.data
    plan.run(c.CPU, c.library.attnpress_forward, None)
    return out if lse is None else (out, lse, np.empty(0, dtype=q.dtype))


def with_plan(q, k, v, softmax_scale: float | None, causal: bool, function, *rest: object) -> None:
    """function(handle, args, *rest) of the library for these arrays, which are not read."""
    _plan(*_arrays(q, k, v), softmax_scale, causal).run(c.CPU, function, *rest)
