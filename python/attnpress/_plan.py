"""A plan: the C structs of one signature (shapes, strides, dtype, mask, scale), filled once and
used by every call that has it. A call then writes pointers only.

A plan belongs to one thread, so that a call needs no lock; `Plans` keeps a thread's own.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from ctypes import c_size_t, sizeof

from . import _library as c

_MAX_PLANS = 1024  # per thread; all are dropped when there are more

_lock = threading.Lock()
_handles: dict[int, int] = {}  # backend -> handle
_pip_tried: set[int] = set()  # backends whose handle was made again with NVRTC from pip


def handle_of(backend: int) -> int:
    """The process's handle of a backend, made on first use."""
    with _lock:
        handle = _handles.get(backend)
        if handle is None:
            handle = _handles[backend] = c.create(backend)
        return handle


def handle_with_nvrtc(backend: int, failed: int, error: c.Error) -> int:
    """After `failed`, a handle, could not find NVRTC: the handle to go on with, which looks in
    pip's packages. Raises `error` where those have none either."""
    with _lock:
        if _handles[backend] == failed:
            paths = c.nvrtc_of_pip()
            if backend in _pip_tried or not paths:
                raise error
            _pip_tried.add(backend)
            _handles[backend] = c.create(backend, paths[0])
        return _handles[backend]


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
    if softmax_scale is not None and not softmax_scale > 0:
        raise ValueError(
            f"softmax_scale is {softmax_scale}; it must be positive, or None for 1 / sqrt(head_dim)"
        )


class Plan:
    """One signature's structs. `args` keeps the memory behind `address` and the four tensors."""

    __slots__ = (
        "handle", "args", "address", "q", "k", "v", "out",
        "out_shape", "out_stride", "lse_shape", "workspace_bytes",
    )  # fmt: skip

    def __init__(
        self,
        backend: int,
        dtype: int,
        shapes: tuple[Sequence[int], Sequence[int], Sequence[int]],
        strides: tuple[Sequence[int], Sequence[int], Sequence[int]],
        softmax_scale: float | None,
        causal: bool,
    ) -> None:
        args = c.ForwardArgs()
        args.struct_size = sizeof(c.ForwardArgs)
        args.scale = softmax_scale or 0.0
        if softmax_scale is not None and args.scale == 0.0:  # which would mean the default
            raise ValueError(f"softmax_scale is {softmax_scale}; it is 0 in single precision")
        args.mask = c.CAUSAL if causal else c.FULL
        self.out_shape = (*shapes[0][:3], shapes[2][3])
        self.out_stride = dense_stride(self.out_shape, strides[0])
        self.lse_shape = (shapes[0][0], shapes[0][2], shapes[0][1])
        self.q, self.k, self.v, self.out = args.q, args.k, args.v, args.out
        for tensor, shape, stride in zip(
            (self.q, self.k, self.v, self.out),
            (*shapes, self.out_shape),
            (*strides, self.out_stride),
        ):
            tensor.dtype = dtype
            tensor.shape[:] = shape
            tensor.stride[:] = stride
        self.args = args
        self.address = ctypes.addressof(args)
        self.handle = handle_of(backend)
        size = c_size_t()
        c.check(c.workspace_bytes(self.handle, self.address, size))
        self.workspace_bytes = args.workspace_bytes = size.value

    def run(self, backend: int, function, *rest: object) -> None:
        """function(handle, args, *rest) of the library. Raises what failed."""
        status = function(self.handle, self.address, *rest)
        if status != c.OK:
            self.recover(status, backend, function, *rest)

    def recover(self, status: int, backend: int, function, *rest: object) -> None:
        """After `function` returned `status`: calls it again with pip's NVRTC where none was found,
        else raises."""
        if status == c.NO_NVRTC:
            self.handle = handle_with_nvrtc(backend, self.handle, c.error_of(status))
            status = function(self.handle, self.address, *rest)
        c.check(status)


class Plans(threading.local):
    """The calling thread's plans, by signature."""

    def __init__(self) -> None:
        self.by_key: dict[tuple, Plan] = {}

    def add(self, key: tuple, plan: Plan) -> None:
        if len(self.by_key) >= _MAX_PLANS:
            self.by_key.clear()
        self.by_key[key] = plan
