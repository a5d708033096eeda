"""A plan: the C struct of one signature (shapes, strides, dtype, mask, scale), filled once and read
by every call that has it. A call makes a struct of its own: the plan's bytes with its pointers
between them. So a signal handler, a callback or another thread may call the same signature in the
middle of a call.

After fork the child starts with no handles and no plans: what a parent's CUDA handle knows of the
driver is of no use there.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Sequence
from ctypes import Structure, c_size_t, c_void_p, sizeof
from typing import Any

from . import _library as c
from ._scores import Groups

_MAX_PLANS = 1024  # per thread; all are dropped when there are more

_lock = threading.RLock()  # a signal handler may ask for a handle while one is made
_handles: dict[int, int] = {}  # backend -> handle
handle_table = (c_void_p * 2)()  # the same for _exchange, whose calls read it
_options: c.Options | None = None  # of handles that are made
_kept: list[object] = []  # what options point to, and handles made with them
_pip_tried: set[int] = set()  # backends whose handle was made again with NVRTC from pip


def set_options(options: c.Options, kept: object) -> None:
    """Options of all handles, and what they point to. RuntimeError where one was made already."""
    global _options  # noqa: PLW0603
    with _lock:
        if _handles:
            raise RuntimeError(
                "attnpress.configure comes too late: a call was made before it, and its handle "
                "keeps the options that it was made with"
            )
        probe = c.create(c.COMPILE_ONLY, options)  # says what is not allowed
        c.library.attnpress_destroy(probe)
        _kept.append(kept)
        _options = options


def handle_of(backend: int) -> int:
    """The process's handle of a backend, made on first use."""
    with _lock:
        handle = _handles.get(backend)
        if handle is None:
            handle = _handles.setdefault(backend, c.create(backend, _options))
            handle_table[backend] = handle
        return handle


def handle_with_nvrtc(backend: int, failed: int, error: c.Error) -> int:
    """After `failed`, a handle, could not find NVRTC: the handle to go on with, which looks in
    pip's packages. Raises `error` where those have none either."""
    with _lock:
        if _handles.get(backend) == failed:
            paths = c.nvrtc_of_pip()
            if backend in _pip_tried or not paths:
                raise error
            _pip_tried.add(backend)
            _handles[backend] = c.create(backend, _options, paths[0])
            handle_table[backend] = _handles[backend]
        return handle_of(backend)


def recover(
    status: int, backend: int, handle: int, function: Callable[..., int], *rest: object
) -> int:
    """After function(handle, *rest) returned `status`: calls it again with pip's NVRTC where none
    was found. The handle to go on with. Raises what failed."""
    if status == c.NO_NVRTC:
        handle = handle_with_nvrtc(backend, handle, c.error_of(status))
        status = function(handle, *rest)
    c.check(status)
    return handle


def is_allowed(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether the library reads such a tensor as it lies; strides in elements. One whose head dim
    is not a multiple of 8 is left to the library's error, since no copy would help."""
    if shape[3] % 8 != 0:
        return True
    return (stride[3] == 1 or shape[3] == 1) and all(
        s >= 0 and s % 8 == 0 for s, extent in zip(stride[:3], shape[:3]) if extent > 1
    )


def dense_stride(shape: Sequence[int], stride: Sequence[int]) -> tuple[int, int, int, int]:
    """Strides, in elements, of a new tensor without gaps whose dimensions lie in the order of an
    existing tensor's; the last dimension is contiguous, and a dimension that repeats (stride 0)
    goes outermost."""
    result = [0, 0, 0, 1]
    step = shape[3]
    for dim in sorted(range(3), key=lambda i: (abs(stride[i]) or float("inf"), -i)):
        result[dim] = step
        step *= max(shape[dim], 1)
    return (result[0], result[1], result[2], result[3])


def check_request(
    shapes: tuple[Sequence[int], Sequence[int], Sequence[int]], softmax_scale: float | None
) -> None:
    """What the C structs cannot say."""
    for name, shape in zip("qkv", shapes):
        if len(shape) != 4:
            raise ValueError(
                f"{name} has {len(shape)} dimensions; (batch, seqlen, heads, head_dim) is needed"
            )
    allowed = "it must be positive, or None for 1 / sqrt(head_dim)"
    try:
        fits = softmax_scale is None or softmax_scale > 0
    except TypeError:
        raise TypeError(f"softmax_scale is {softmax_scale!r}; {allowed}") from None
    if not fits:
        raise ValueError(f"softmax_scale is {softmax_scale}; {allowed}")


def strides_read(
    shape: Sequence[int], stride: Sequence[int], order: Sequence[int], aligned: bool
) -> tuple[int, ...]:
    """The strides, in elements, that the library sees of a tensor: its own, or those of the copy
    where it cannot be read as it lies. order: its strides in any unit."""
    return tuple(stride) if aligned and is_allowed(shape, stride) else dense_stride(shape, order)


def packer(
    kind: type[Structure], *pointers: str
) -> tuple[Callable[[bytes], tuple[bytes, ...]], Callable[..., bytes]]:
    """(split, pack) for a struct's bytes: split takes out the pointers of these names, in their
    order in the struct, and pack(part, pointer, part, ..., pointer, part) puts others in."""
    offsets = [getattr(kind, name).offset for name in pointers]
    size = struct.calcsize("P")
    parts = [slice(0, offsets[0])]
    parts += [slice(a + size, b) for a, b in zip(offsets, [*offsets[1:], sizeof(kind)])]
    letter = {4: "I", 8: "Q"}[size]
    form = f"={offsets[0]}s" + "".join(f"{letter}{x.stop - x.start}s" for x in parts[1:])

    def split(whole: bytes) -> tuple[bytes, ...]:
        return tuple(whole[part] for part in parts)

    return split, struct.Struct(form).pack


_split, _pack = packer(c.ForwardArgs, "q", "k", "v", "out", "lse", "workspace")


class Plan:
    """One signature. Nothing of it changes but `handle`, which any call may replace by a better
    one."""

    __slots__ = (
        "handle",
        "lse_shape",
        "lse_stride",
        "out_as_q",
        "out_shape",
        "out_stride",
        "parts",
        "workspace_bytes",
    )

    def __init__(
        self,
        backend: int,
        dtype: int,
        shapes: tuple[Sequence[int], Sequence[int], Sequence[int]],
        strides: Sequence[Sequence[int]],  # of the same three
        softmax_scale: float | None,
        causal: bool,
        groups: Groups | None = None,
    ) -> None:
        args = c.ForwardArgs()
        args.struct_size = sizeof(c.ForwardArgs)
        args.scale = softmax_scale or 0.0
        if softmax_scale is not None and args.scale == 0.0:  # which would mean the default
            raise ValueError(f"softmax_scale is {softmax_scale}; it is 0 in single precision")
        args.mask = c.CAUSAL if causal else c.FULL
        if groups is not None:
            groups.put_into(args)
        self.out_shape = (*shapes[0][:3], shapes[2][3])
        self.out_stride = dense_stride(self.out_shape, strides[0])
        self.out_as_q = (self.out_shape, self.out_stride) == (tuple(shapes[0]), tuple(strides[0]))
        self.lse_shape = (shapes[0][0], shapes[0][2], shapes[0][1])
        self.lse_stride = (shapes[0][2] * shapes[0][1], shapes[0][1], 1)
        for tensor, shape, stride in zip(
            (args.q, args.k, args.v, args.out),
            (*shapes, self.out_shape),
            (*strides, self.out_stride),
        ):
            tensor.dtype = dtype
            tensor.shape[:] = shape
            tensor.stride[:] = stride
        self.handle = handle_of(backend)
        size = c_size_t()
        c.check(c.workspace_bytes(self.handle, bytes(args), size))
        self.workspace_bytes = args.workspace_bytes = size.value
        args.window = args.alibi = args.bias = args.sinks = args.dropout = None
        args.score_mod = None
        self.parts = _split(bytes(args))

    def args(self, q=0, k=0, v=0, out=0, lse=0, workspace=0) -> bytes:
        """The call's own attnpress_forward_args, with these addresses and no groups."""
        head, of_q, of_k, of_v, of_out, of_lse, tail = self.parts
        return _pack(
            head, q, of_q, k, of_k, v, of_v, out, of_out, lse, of_lse, workspace, tail
        )  # fmt: skip

    def run(self, backend: int, args: bytes, function, *rest: object) -> None:
        """function(handle, args, *rest) of the library. Raises what failed."""
        handle = self.handle
        status = function(handle, args, *rest)
        if status != c.OK:
            self.handle = recover(status, backend, handle, function, args, *rest)


class Plans(threading.local):
    """The calling thread's plans, by signature."""

    def __init__(self) -> None:
        self.by_key: dict[tuple, Any] = {}

    def add(self, key: tuple, plan: Any) -> None:
        if len(self.by_key) >= _MAX_PLANS:
            self.by_key.clear()
        self.by_key[key] = plan


_all_plans: list[Plans] = []  # of the adapters


def new_plans() -> Plans:
    """Plans that a fork empties."""
    plans = Plans()
    _all_plans.append(plans)
    return plans


def _forget() -> None:
    """In a child after fork. The lock may have been another thread's."""
    global _lock  # noqa: PLW0603
    _lock = threading.RLock()
    _handles.clear()
    handle_table[:] = [None, None]
    _pip_tried.clear()
    for plans in _all_plans:
        plans.by_key.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
