"""The C ABI: finds libattnpress, mirrors include/attnpress/attnpress.h in ctypes, and turns
statuses into exceptions.

Nothing here knows NumPy or PyTorch.
"""

from __future__ import annotations

import contextlib
import ctypes
import operator
import os
import sys
from collections.abc import Callable, Sequence
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import Any

VERSION = (0, 3)  # major and minor of the header that this file mirrors

OK = 0
INVALID_ARGUMENT = 1
NOT_SUPPORTED = 2
NO_NVRTC = 6

CUDA = 0
CPU = 1
COMPILE_ONLY = 2

FP16 = 1
BF16 = 2
FP32 = 3
INT32 = 4  # of a snippet's numbers and buffers

FULL = 0
CAUSAL = 1
WINDOW = 2

ONE_CALL = 0
UP_TO = 1


class Options(Structure):
    """attnpress_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("backend", c_int32),
        ("jit_off", c_int32),
        ("cache_off", c_int32),
        ("num_threads", c_int32),
        ("nvrtc_path", c_char_p),
        ("cache_dir", c_char_p),
        ("read_only_dirs", POINTER(c_char_p)),
        ("cache_max_bytes", c_uint64),
        ("log", c_void_p),
        ("log_user", c_void_p),
        ("arch_max", c_int32),
        ("check", c_int32),
    ]


class Tensor(Structure):
    """attnpress_tensor"""

    _fields_ = [
        ("data", c_void_p),
        ("shape", c_int64 * 4),
        ("stride", c_int64 * 4),
        ("dtype", c_int32),
        ("reserved", c_int32),
    ]


class Window(Structure):
    """attnpress_window"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("left", c_int64),
        ("right", c_int64),
        ("chunk", c_int64),
        ("top_left", c_int32),
        ("reserved", c_int32),
    ]


class Alibi(Structure):
    """attnpress_alibi"""

    _fields_ = [("struct_size", c_size_t), ("slopes", c_void_p), ("stride", c_int64 * 2)]


class Bias(Structure):
    """attnpress_bias"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("shape", c_int64 * 4),
        ("stride", c_int64 * 4),
        ("dtype", c_int32),
        ("reserved", c_int32),
    ]


class Sinks(Structure):
    """attnpress_sinks"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("stride", c_int64),
        ("dtype", c_int32),
        ("reserved", c_int32),
    ]


class Dropout(Structure):
    """attnpress_dropout"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("probability", c_float),
        ("reserved", c_int32),
        ("seed", c_uint64),
        ("offset", c_uint64),
        ("seed_and_offset", c_void_p),
    ]


class ScoreScalar(Structure):
    """attnpress_score_scalar"""

    _fields_ = [
        ("name", c_void_p),
        ("dtype", c_int32),
        ("value", c_float),
        ("int_value", c_int32),
        ("reserved", c_int32),
    ]


class ScoreBuffer(Structure):
    """attnpress_score_buffer"""

    _fields_ = [
        ("name", c_void_p),
        ("data", c_void_p),
        ("shape", c_int64 * 4),
        ("stride", c_int64 * 4),
        ("dtype", c_int32),
        ("rank", c_int32),
    ]


class ScoreMod(Structure):
    """attnpress_score_mod"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_void_p),
        ("score", c_void_p),
        ("mask", c_void_p),
        ("scalars", c_void_p),
        ("buffers", c_void_p),
        ("scalar_count", c_int32),
        ("buffer_count", c_int32),
        ("score_grad", c_void_p),
    ]


class DropoutMaskArgs(Structure):
    """attnpress_dropout_mask_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("dropout", c_void_p),
        ("shape", c_int64 * 4),
        ("stride", c_int64 * 4),
        ("keep", c_void_p),
    ]


class ForwardArgs(Structure):
    """attnpress_forward_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("out", Tensor),
        ("lse", c_void_p),
        ("lse_stride", c_int64 * 2),
        ("scale", c_float),
        ("mask", c_int32),
        ("num_splits", c_int32),
        ("batch_invariant", c_int32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("window", c_void_p),
        ("alibi", c_void_p),
        ("bias", c_void_p),
        ("sinks", c_void_p),
        ("dropout", c_void_p),
        ("softcap", c_float),
        ("reserved_2", c_int32),
        ("score_mod", c_void_p),
        ("ragged", c_void_p),
    ]


class Ragged(Structure):
    """attnpress_ragged"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("batch", c_int64),
        ("max_seqlen_q", c_int64),
        ("max_seqlen_k", c_int64),
        ("cu_seqlens_q", c_void_p),
        ("cu_seqlens_k", c_void_p),
        ("seqused_q", c_void_p),
        ("seqused_k", c_void_p),
        ("leftpad_k", c_void_p),
        ("kv_batch_idx", c_void_p),
        ("page_table", c_void_p),
        ("page_table_rows", c_int64),
        ("page_table_pages", c_int64),
        ("page_table_stride", c_int64),
        ("lse_row_stride", c_int64),
        ("lse_log2", c_int32),
        ("lse_empty_pos_inf", c_int32),
        ("seqlen_k_new", c_int64),
        ("cu_seqlens_k_new", c_void_p),
        ("page_table_v", c_void_p),
        ("page_indptr", c_void_p),
        ("schedule", c_void_p),
        ("schedule_bytes", c_size_t),
    ]


class DBias(Structure):
    """attnpress_dbias"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("data", c_void_p),
        ("shape", c_int64 * 4),
        ("stride", c_int64 * 4),
        ("dtype", c_int32),
        ("reserved", c_int32),
    ]


class DBuffer(Structure):
    """attnpress_dbuffer"""

    _fields_ = [("data", c_void_p), ("stride", c_int64 * 4)]


class BackwardArgs(Structure):
    """attnpress_backward_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("q", Tensor),
        ("k", Tensor),
        ("v", Tensor),
        ("out", Tensor),
        ("dout", Tensor),
        ("dq", Tensor),
        ("dk", Tensor),
        ("dv", Tensor),
        ("lse", c_void_p),
        ("lse_stride", c_int64 * 2),
        ("dlse", c_void_p),
        ("dlse_stride", c_int64 * 2),
        ("scale", c_float),
        ("mask", c_int32),
        ("deterministic", c_int32),
        ("accumulate", c_int32),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("window", c_void_p),
        ("alibi", c_void_p),
        ("bias", c_void_p),
        ("sinks", c_void_p),
        ("dropout", c_void_p),
        ("softcap", c_float),
        ("reserved", c_int32),
        ("dsinks", c_void_p),
        ("ragged", c_void_p),
        ("dlse_row_stride", c_int64),
        ("score_mod", c_void_p),
        ("dbias", c_void_p),
        ("dbuffers", c_void_p),
    ]


class PlanOptions(Structure):
    """attnpress_plan_options"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("stream", c_void_p),
        ("target", c_char_p),
        ("range", c_int32),
        ("num_sms", c_int32),
    ]


class Info(Structure):
    """attnpress_info"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("stem", c_char * 128),
        ("tile", c_char * 64),
        ("target", c_char * 16),
        ("origin", c_int32),
        ("grid", c_int32),
        ("threads", c_int32),
        ("registers", c_int32),
        ("spill_bytes", c_int32),
        ("smem_bytes", c_int32),
        ("num_splits", c_int32),
        ("reserved", c_int32),
        ("compile_ms", c_double),
        ("cubin_bytes", c_size_t),
    ]


class Error(RuntimeError):
    """A call of the library failed. `status` is its attnpress_status, `message` its sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    def __reduce__(self) -> tuple[type[Error], tuple[int, str]]:
        return type(self), (self.status, self.message)


class InvalidArgumentError(Error, ValueError):
    """ATTNPRESS_INVALID_ARGUMENT"""


class NotSupportedError(Error, NotImplementedError):
    """ATTNPRESS_NOT_SUPPORTED"""


_ERRORS = {INVALID_ARGUMENT: InvalidArgumentError, NOT_SUPPORTED: NotSupportedError}


def candidates() -> list[str]:
    """Where the library is looked for, in order: ATTNPRESS_LIBRARY alone if it is set; else beside
    this package (in a wheel), in the build folder of a checkout, and on the loader's path."""
    named = os.environ.get("ATTNPRESS_LIBRARY")
    if named:
        return [named]
    package = Path(__file__).resolve().parent
    files = [
        package / "libattnpress.so.0",
        package / "libattnpress.so",
        package.parent.parent / "build" / "libattnpress.so",
    ]
    return [*(str(path) for path in files if path.exists()), "libattnpress.so.0"]


def get_include() -> str:
    """The folder of the C headers, for `cc -I`: the wheel's or the checkout's. A program that links
    `library_path` by that path runs with it, given its folder as an rpath."""
    package = Path(__file__).resolve().parent
    folders = [package / "include", package.parent.parent / "include"]
    for folder in folders:
        if (folder / "attnpress" / "attnpress.h").exists():
            return str(folder)
    raise FileNotFoundError(f"attnpress: no C headers in {' or '.join(map(str, folders))}")


_SIGNATURES = {  # result and argument types of every function that is used
    "attnpress_last_error": (c_char_p, []),
    "attnpress_create": (c_int32, [POINTER(c_void_p), POINTER(Options)]),
    "attnpress_destroy": (None, [c_void_p]),
    # Argument structs go by address, as an int or as bytes.
    "attnpress_forward": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "attnpress_dropout_mask": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "attnpress_plan_forward": (
        c_int32,
        [c_void_p, c_void_p, POINTER(PlanOptions), POINTER(c_void_p)],
    ),
    "attnpress_backward": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "attnpress_plan_backward": (
        c_int32,
        [c_void_p, c_void_p, POINTER(PlanOptions), POINTER(c_void_p)],
    ),
    "attnpress_plan_destroy": (None, [c_void_p]),
    "attnpress_plan_workspace_bytes": (c_int32, [c_void_p, POINTER(c_size_t)]),
    "attnpress_plan_prepare": (c_int32, [c_void_p, c_void_p]),
    "attnpress_plan_launch_count": (c_int, [c_void_p]),
    "attnpress_plan_launch": (c_int32, [c_void_p, c_int, POINTER(Info)]),
}


def _declare(library: ctypes.CDLL) -> str | None:
    """Types the functions of `library`. What is wrong with it, or None."""
    needed = f"{VERSION[0]}.{VERSION[1]}"
    try:
        library.attnpress_version.restype = c_int
        version = library.attnpress_version()
    except AttributeError:
        return f"has no attnpress_version: it is not attnpress, of which {needed} is needed"
    found = (version // 10000, version // 100 % 100)
    if found != VERSION:
        return f"is version {found[0]}.{found[1]}, and {needed} is needed"
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            full = f"{found[0]}.{found[1]}.{version % 100}"
            return f"is version {full} and has no {name}, which this package, {needed}, calls"
        function.restype = result
        function.argtypes = arguments
    return None


def _open() -> tuple[ctypes.CDLL, str]:
    tried = []
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{path} ({error})")
            continue
        fault = _declare(library)
        if fault is None:
            return library, path
        tried.append(f"{path} ({fault})")
    raise ImportError(
        "attnpress: no libattnpress.so that fits was found. Build it with `make build`, or set "
        "ATTNPRESS_LIBRARY to its path. Tried: " + "; ".join(tried)
    )


library, library_path = _open()


def error_of(status: int) -> Error:
    """The exception of the calling thread's last failed call, which returned `status`."""
    message = library.attnpress_last_error().decode("utf-8", "replace")
    return _ERRORS.get(status, Error)(status, message)


def real_number(name: str, value: Any) -> float:
    """An argument as a float; TypeError with its name where it is no number."""
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError):
        pass
    raise TypeError(f"{name} is {value!r}; it must be a number")


def whole_number(name: str, value: Any) -> int:
    """An argument as an int; TypeError with its name where it is no whole number."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a whole number") from None


def shape_text(shape: Sequence[int | None]) -> str:
    """A shape as Python writes it; None: any extent."""
    text = ", ".join("any" if extent is None else str(extent) for extent in shape)
    return f"({text},)" if len(shape) == 1 else f"({text})"


def check(status: int) -> None:
    if status != OK:
        raise error_of(status)


def create(backend: int, given: Options | None = None, nvrtc_path: str | None = None) -> int:
    """A new handle with the given options, as an integer. It lives as long as the process: kernels
    that are in flight use it."""
    options = Options(struct_size=ctypes.sizeof(Options))
    if given is not None:
        ctypes.pointer(options)[0] = given
    options.backend = backend
    if nvrtc_path is not None:
        options.nvrtc_path = os.fsencode(nvrtc_path)
    handle = c_void_p()
    check(library.attnpress_create(byref(handle), byref(options)))
    assert handle.value is not None
    return handle.value


# ---- Questions to plans of the forward pass: each makes a plan, asks, and frees it. They return a
# status, as the library's own functions do. ----


def _ask(handle: int, args: bytes | int, range_: int, question: Callable[[c_void_p], int]) -> int:
    """question(plan) of a plan of the arguments, as bytes or at an address."""
    plan = c_void_p()
    options = PlanOptions(struct_size=ctypes.sizeof(PlanOptions), range=range_)
    status: int = library.attnpress_plan_forward(handle, args, byref(options), byref(plan))
    if status == OK:
        status = question(plan)
        library.attnpress_plan_destroy(plan)
    return status


def workspace_bytes(handle: int, args: bytes, size: c_size_t) -> int:
    """Writes the bytes of workspace that the call needs to `size`."""
    return _ask(
        handle,
        args,
        ONE_CALL,
        lambda plan: library.attnpress_plan_workspace_bytes(plan, byref(size)),
    )


def backward_workspace_bytes(handle: int, args: BackwardArgs, size: c_size_t) -> int:
    """The same of a backward call."""
    plan = c_void_p()
    status: int = library.attnpress_plan_backward(handle, byref(args), None, byref(plan))
    if status == OK:
        status = library.attnpress_plan_workspace_bytes(plan, byref(size))
        library.attnpress_plan_destroy(plan)
    return status


def prepare_any(handle: int, args: bytes) -> int:
    """Loads all that calls with these strides, any batch and any lengths may run."""
    any_length = ForwardArgs.from_buffer_copy(args)
    for tensor in (any_length.q, any_length.k, any_length.v, any_length.out):
        tensor.shape[0] = tensor.shape[1] = 0
    if any_length.bias:
        bias = Bias.from_buffer_copy(ctypes.string_at(any_length.bias, ctypes.sizeof(Bias)))
        bias.shape[0] = 0
        bias.shape[2] = bias.shape[3] = 0
        any_length.bias = ctypes.addressof(bias)
    return _ask(
        handle,
        ctypes.addressof(any_length),
        UP_TO,
        lambda plan: library.attnpress_plan_prepare(plan, None),
    )


def describe_launches(handle: int, args: bytes, records: list[Info]) -> int:
    """Appends the record of each launch of the call to `records`."""

    def question(plan: c_void_p) -> int:
        for index in range(library.attnpress_plan_launch_count(plan)):
            info = Info(struct_size=ctypes.sizeof(Info))
            status: int = library.attnpress_plan_launch(plan, index, byref(info))
            if status != OK:
                return status
            records.append(info)
        return OK

    return _ask(handle, args, ONE_CALL, question)


def nvrtc_of_pip() -> list[str]:
    """NVRTC libraries among the installed Python packages (nvidia-cuda-nvrtc), newest first. The
    library itself does not look there."""
    found: list[Path] = []
    for entry in sys.path:
        with contextlib.suppress(OSError):  # a folder that may not be read
            found += Path(entry or ".").glob("nvidia/*/lib/libnvrtc.so.1[23]")
    return [str(path.resolve()) for path in sorted(found, key=lambda path: path.name, reverse=True)]
