"""The quick way of a call: one builtin function of the C library that reads PyTorch's tensors by
DLPack's C exchange interface (`torch.Tensor.__dlpack_c_exchange_api__`, PyTorch 2.10 and newer),
makes the outputs by PyTorch, and runs. It takes calls with nothing unusual about them, and answers
None to all others, which then go the way of _torch.py.

Mirrors runtime/exchange/exchange.h, which is private to this package. What it calls of CPython is
part of the stable ABI, so that one library serves every version.

Switched off by ATTNPRESS_EXCHANGE_OFF=1, and where PyTorch, Python or the library do not have it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
)
from typing import Any, NamedTuple

import torch

from . import _library as c
from ._plan import handle_table
from ._ragged import FIXED_SPLITS
from ._scores import Groups

Call = Callable[..., Any]

_CAPSULE = b"attnpress_exchange"
_METH_FASTCALL = 0x80
_MAJOR = 1  # of DLPack
_FUNCTIONS = (
    "PyObject_Type",
    "PyObject_CallFunctionObjArgs",
    "PyTuple_Pack",
    "Py_IncRef",
    "Py_DecRef",
    "PyLong_AsVoidPtr",
    "PyErr_Clear",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)


class _Tensor(Structure):
    """ap_dl_tensor"""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_index", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _Interface(Structure):
    """ap_dl_exchange"""

    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("older", c_void_p),
        ("allocate", c_void_p),
        ("managed_from_object", c_void_p),
        ("object_from_managed", c_void_p),
        ("look", c_void_p),
        ("current_stream", c_void_p),
    ]


class _Exchange(Structure):
    """attnpress_exchange"""

    _fields_ = [
        ("tensors", c_void_p),
        ("handles", c_void_p),
        ("run", c_void_p * 3),
        ("forward", c_void_p),
        ("append_forward", c_void_p),
        ("tensor_type", c_void_p),
        ("parameter_type", c_void_p),
        ("make", c_void_p),
        ("none", c_void_p),
        *((name, c_void_p) for name in _FUNCTIONS),
    ]


_REPLAY_TENSORS, _REPLAY_DIMENSIONS, _REPLAY_BUCKETS = 20, 4, 64
_REPLAY_WORDS = 1 + _REPLAY_TENSORS * (1 + 2 * _REPLAY_DIMENSIONS)


class ReplayWord(Structure):
    """attnpress_replay_word"""

    _fields_ = [("word", c_int32), ("source", c_int32)]


class Replay(Structure):
    """attnpress_replay"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("image", c_char_p),
        ("addresses", POINTER(ReplayWord)),
        ("inner", POINTER(ReplayWord)),
        ("address_count", c_int32),
        ("inner_count", c_int32),
        ("image_bytes", c_int32),
        ("forward", c_int32),
        ("append", c_int32),
        ("makes_out", c_int32),
        ("workspace_bytes", c_int64),
        ("rotated_bytes", c_int64),
        ("hash", c_uint64),
        ("count", c_int64),
        ("words", c_int64 * _REPLAY_WORDS),
        ("next", c_void_p),
    ]


class Replays(Structure):
    """attnpress_replays"""

    _fields_ = [("first", c_void_p * _REPLAY_BUCKETS)]


_ROWS_TENSORS, _ROWS_OUTPUTS, _ROWS_DIMENSIONS = 8, 4, 6
_ROWS_WORDS = 1 + (_ROWS_TENSORS + _ROWS_OUTPUTS) * (1 + 2 * _ROWS_DIMENSIONS)
ROWS_OUTPUT, ROWS_WORKSPACE = _ROWS_TENSORS, _ROWS_TENSORS + _ROWS_OUTPUTS
"""Sources of addresses: the first output, and the workspace."""


class RowsOutput(Structure):
    """attnpress_rows_output"""

    _fields_ = [("make", c_void_p), ("like", c_int32), ("is_given", c_int32)]


class RowsCall(Structure):
    """attnpress_rows_call"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("run", c_void_p),
        ("image", c_char_p),
        ("addresses", POINTER(ReplayWord)),
        ("image_bytes", c_int32),
        ("address_count", c_int32),
        ("outputs", c_int32),
        ("reserved", c_int32),
        ("output", RowsOutput * _ROWS_OUTPUTS),
        ("workspace_bytes", c_int64),
        ("hash", c_uint64),
        ("count", c_int64),
        ("all", c_int64),
        ("words", c_int64 * _ROWS_WORDS),
        ("next", c_void_p),
    ]


class RowsCalls(Structure):
    """attnpress_rows_calls"""

    _fields_ = [("first", c_void_p * _REPLAY_BUCKETS)]


class _MethodDef(Structure):
    """PyMethodDef"""

    _fields_ = [
        ("ml_name", c_char_p),
        ("ml_meth", c_void_p),
        ("ml_flags", c_int),
        ("ml_doc", c_char_p),
    ]


class Functions(NamedTuple):
    """forward(template, q, k, v, lse) -> out, backward(template, dout, q, k, v, out, lse, dlse) ->
    (dq, dk, dv), cache(template, q, k_cache, v_cache, cache_seqlens, block_table) -> out; None
    where the call is not for this way. lse of the forward pass, dlse and block_table: a tensor or
    None. template: an address in Templates.

    keep(replays, replay, *tensors) -> None, replay(replays, current device, *tensors) -> out or
    None: calls of sequences that ran before (_replay.py). tensors: 20, each may be None.

    keep_rows(calls, call, count, *tensors, *outputs) -> None, rows(calls, current device, *tensors)
    -> output, tuple of outputs, or None: calls of other families that ran before
    (_quick_rows.py)."""

    forward: Call
    backward: Call
    cache: Call
    keep: Call
    replay: Call
    keep_rows: Call
    rows: Call


_python = ctypes.PyDLL(None)  # not ctypes.pythonapi, whose functions others give types to
_exchange = _Exchange()


def _address(function: Any) -> int:
    return ctypes.cast(function, c_void_p).value or 0


def _keep(value: Any) -> Any:
    """The value, which outlives this module: it is pointed to as long as the process runs."""
    _python.Py_IncRef(py_object(value))
    return value


def _interface() -> _Interface | None:
    """PyTorch's table of the major version that is known here."""
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    get_pointer = _python.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = c_void_p, [py_object, c_char_p]
    address = get_pointer(capsule, b"dlpack_exchange_api")
    while address:
        table = _Interface.from_address(address)
        if table.major == _MAJOR:
            return table if table.look and table.allocate and table.current_stream else None
        address = table.older
    return None


def _tells_the_truth(table: _Interface) -> bool:
    """Whether what the table says of a tensor is so: a wrong layout must not get further."""
    look = ctypes.PYFUNCTYPE(c_int, py_object, POINTER(_Tensor))(table.look)
    base = torch.zeros((3, 4, 8), dtype=torch.bfloat16, device="cpu")
    tensor = base[1:, :, 2:].transpose(0, 1)
    seen = _Tensor()
    try:
        answer = look(tensor, seen)
    except Exception:  # which it has set
        return False
    return (
        answer == 0
        and (seen.data or 0) + seen.byte_offset == tensor.data_ptr()
        and (seen.device_type, seen.device_index, seen.ndim) == (1, 0, 3)
        and (seen.code, seen.bits, seen.lanes) == (4, 16, 1)
        and bool(seen.shape and seen.strides)
        and tuple(seen.shape[:3]) == tuple(tensor.shape)
        and tuple(seen.strides[:3]) == tensor.stride()
    )


def _builtin(name: str, capsule: object) -> Call:
    """A builtin function of an entry of the library."""
    entry = getattr(c.library, name)
    method = _keep(_MethodDef(_keep(name.encode()), _address(entry), _METH_FASTCALL, None))
    new = _python.PyCFunction_NewEx
    new.restype, new.argtypes = py_object, [c_void_p, py_object, c_void_p]
    made: Call = new(ctypes.addressof(method), capsule, None)
    return made


def _has_lock() -> bool:
    """Whether this Python has its lock: without, a tensor could change while it is read."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def _open() -> Functions | None:
    if os.environ.get("ATTNPRESS_EXCHANGE_OFF", "") not in ("", "0"):
        return None
    if sys.implementation.name != "cpython" or not _has_lock():
        return None
    if not hasattr(c.library, "attnpress_exchange_open"):
        return None
    if not all(hasattr(_python, name) for name in (*_FUNCTIONS, "PyCFunction_NewEx")):
        return None
    table = _interface()
    if table is None or not _tells_the_truth(table):
        return None
    _exchange.tensors = ctypes.addressof(table)
    _exchange.handles = ctypes.addressof(_keep(handle_table))
    objects = {
        "tensor_type": torch.Tensor,
        "parameter_type": torch.nn.Parameter,
        "make": torch.empty_like,
        "none": None,
    }
    for name, value in objects.items():
        setattr(_exchange, name, id(_keep(value)))
    for name in _FUNCTIONS:
        setattr(_exchange, name, _address(getattr(_python, name)))
    open_ = c.library.attnpress_exchange_open
    open_.restype, open_.argtypes = c_int, [c_void_p, c_size_t]
    if not open_(_address(_python.PyCapsule_GetPointer), ctypes.sizeof(_Exchange)):
        return None
    new_capsule = _python.PyCapsule_New
    new_capsule.restype, new_capsule.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
    capsule = new_capsule(ctypes.addressof(_keep(_exchange)), _keep(_CAPSULE), None)
    return Functions(
        _builtin("attnpress_exchange_forward", capsule),
        _builtin("attnpress_exchange_backward", capsule),
        _builtin("attnpress_exchange_cache", capsule),
        _builtin("attnpress_exchange_keep", capsule),
        _builtin("attnpress_exchange_replay", capsule),
        _builtin("attnpress_exchange_keep_rows", capsule),
        _builtin("attnpress_exchange_rows", capsule),
    )


functions = _open()


# ---- Templates -----------------------------------------------------------------------------------

_MAX_TEMPLATES = 1024  # calls with yet other scales go the other way


class Templates(dict[tuple[Any, ...], int]):
    """Addresses of structs of arguments without tensors, by what a call says besides tensors and
    groups. The structs stay as long as this does: another thread may be reading one."""

    def __init__(self) -> None:
        super().__init__()
        self._structs: list[Structure] = []

    def add(self, key: tuple[Any, ...], struct: Structure) -> None:
        if key not in self and len(self._structs) < _MAX_TEMPLATES:
            self._structs.append(struct)
            self[key] = ctypes.addressof(struct)


forward_templates = Templates()  # of calls without groups, by softmax_scale and causal
backward_templates = Templates()  # by these and deterministic
cache_templates = Templates()  # of calls over a cache, by softmax_scale, causal and num_splits


def is_plain(groups: Groups | None) -> bool:
    """Whether calls of the same groups differ in nothing but their tensors."""
    return groups is None or (
        not groups.kept and groups.seed is None and groups.structs.keys() <= {"window"}
    )


def _fill(
    args: c.ForwardArgs | c.BackwardArgs, scale: float | None, causal: bool, groups: Groups | None
) -> None:
    args.struct_size = ctypes.sizeof(args)
    args.scale = scale or 0.0
    args.mask = c.CAUSAL if causal else c.FULL
    if groups is not None:
        groups.put_into(args)


def add_forward(softmax_scale: float | None, causal: bool, groups: Groups | None) -> None:
    """Lets forward calls with these arguments, which were checked, go the quick way."""
    if functions is None or not is_plain(groups):
        return
    args = c.ForwardArgs()
    _fill(args, softmax_scale, causal, groups)
    if groups is None:
        templates = forward_templates
    else:
        templates = groups.forward_templates = groups.forward_templates or Templates()
    templates.add((softmax_scale, causal), args)


def add_cache(softmax_scale: float | None, causal: bool, num_splits: int) -> None:
    """The same of calls over a cache, without new keys and features."""
    if functions is None:
        return
    fixed = num_splits == FIXED_SPLITS
    args = c.ForwardArgs(num_splits=0 if fixed else num_splits, batch_invariant=int(fixed))
    _fill(args, softmax_scale, causal, None)
    cache_templates.add((softmax_scale, causal, num_splits), args)


def add_backward(
    softmax_scale: float | None, causal: bool, deterministic: bool, groups: Groups | None
) -> None:
    """The same of the backward pass."""
    if functions is None or not is_plain(groups):
        return
    args = c.BackwardArgs(deterministic=int(deterministic))
    _fill(args, softmax_scale, causal, groups)
    if groups is None:
        templates = backward_templates
    else:
        templates = groups.backward_templates = groups.backward_templates or Templates()
    templates.add((softmax_scale, causal, deterministic), args)
