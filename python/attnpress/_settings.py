"""The options of the handles that the package makes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Sequence
from ctypes import POINTER, c_char_p, c_int, c_void_p, cast
from typing import Any

from . import _library as c
from . import _plan

Log = Callable[[int, str], None]
_LOG_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)


def _log_function(log: Log) -> Any:
    def call(user: int, level: int, message: bytes) -> None:
        log(level, message.decode("utf-8", "replace"))

    return _LOG_FUNCTION(call)


def _path(name: str, value: Any) -> bytes:
    try:
        return os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; it must be a path, a str or os.PathLike") from None


def _number(name: str, value: Any, least: int, end: int) -> int:
    """One that a field of the struct can hold: others it would cut without a word."""
    number = c.whole_number(name, value)
    if not least <= number < end:
        raise ValueError(f"{name} is {number}; it must be {max(least, 0)} to {end - 1}")
    return number


def configure(
    *,
    log: Log | None = None,
    num_threads: int = 0,
    jit_off: bool = False,
    cache_off: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    cache_layers: Sequence[str | os.PathLike[str]] = (),
    cache_max_bytes: int = 0,
    nvrtc_path: str | os.PathLike[str] | None = None,
    arch_max: int = 0,
    check: bool = False,
) -> None:
    """Sets the options of the library's handles, all at once. For what is left out the environment
    counts (attnpress.h has the variables). To be called before the first attention or softmax:
    handles that were made stay as they are.

    log: called as log(level, message) for each line, level 0 for information and 1 for a warning;
        from any thread that is in a call.
    num_threads: of a call on the CPU; 0: all cores.
    jit_off: kernels that are neither linked in nor cached raise an Error that names them.
    cache_off: the user's cache is neither read nor written.
    cache_layers: folders that are only read, such as `attnpress cache export` makes.
    arch_max: 80, 86 or 90: no kernels that were written for newer architectures.
    check: calls with lengths, page tables and other indices look at what these hold, and the first
        that does not fit raises InvalidArgumentError, with sequence and value. Each call then waits
        for its stream.

    Raises RuntimeError where a handle was already made, TypeError, ValueError and
    InvalidArgumentError for values that are not allowed."""
    if log is not None and not callable(log):
        raise TypeError(f"log is {type(log).__name__}; it must be callable as log(level, message)")
    if isinstance(cache_layers, (str, bytes, os.PathLike)):
        raise TypeError("cache_layers is one path; it must be a sequence of them")
    if not isinstance(cache_layers, Iterable):
        raise TypeError(f"cache_layers is {cache_layers!r}; it must be a sequence of paths")
    layers = [_path("cache_layers", path) for path in cache_layers]
    array = (c_char_p * (len(layers) + 1))(*layers, None)
    function = _log_function(log) if log is not None else None
    options = c.Options(
        struct_size=ctypes.sizeof(c.Options),
        jit_off=int(bool(jit_off)),
        cache_off=int(bool(cache_off)),
        num_threads=_number("num_threads", num_threads, -(1 << 31), 1 << 31),
        nvrtc_path=_path("nvrtc_path", nvrtc_path) if nvrtc_path is not None else None,
        cache_dir=_path("cache_dir", cache_dir) if cache_dir is not None else None,
        read_only_dirs=cast(array, POINTER(c_char_p)) if layers else None,
        cache_max_bytes=_number("cache_max_bytes", cache_max_bytes, 0, 1 << 64),
        log=cast(function, c_void_p) if function is not None else None,
        arch_max=_number("arch_max", arch_max, -(1 << 31), 1 << 31),
        check=int(bool(check)),
    )
    _plan.set_options(options, (array, function))
