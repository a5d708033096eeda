"""The options of the handles that the package makes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
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

    Raises RuntimeError where a handle was already made, TypeError and InvalidArgumentError for
    values that are not allowed."""
    if log is not None and not callable(log):
        raise TypeError(f"log is {type(log).__name__}; it must be callable as log(level, message)")
    if isinstance(cache_layers, (str, bytes, os.PathLike)):
        raise TypeError("cache_layers is one path; it must be a sequence of them")
    layers = [os.fsencode(path) for path in cache_layers]
    array = (c_char_p * (len(layers) + 1))(*layers, None)
    function = _log_function(log) if log is not None else None
    options = c.Options(
        struct_size=ctypes.sizeof(c.Options),
        jit_off=int(jit_off),
        cache_off=int(cache_off),
        num_threads=c.whole_number("num_threads", num_threads),
        nvrtc_path=os.fsencode(nvrtc_path) if nvrtc_path is not None else None,
        cache_dir=os.fsencode(cache_dir) if cache_dir is not None else None,
        read_only_dirs=cast(array, POINTER(c_char_p)) if layers else None,
        cache_max_bytes=c.whole_number("cache_max_bytes", cache_max_bytes),
        log=cast(function, c_void_p) if function is not None else None,
        arch_max=c.whole_number("arch_max", arch_max),
        check=int(bool(check)),
    )
    _plan.set_options(options, (array, function))
