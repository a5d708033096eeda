"""PyTorch tensors and NumPy arrays for the modules of families that work on rows: what they are
checked for, how they lie in memory, and how a function of the library is called with them.

Neither PyTorch nor NumPy is imported unless the caller has it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import POINTER, Structure, byref, c_int32, c_size_t, c_void_p, sizeof
from operator import attrgetter
from typing import Any, Union

from . import _library as c
from ._plan import handle_of, recover

PLAN_ARGUMENTS = (POINTER(c.PlanOptions), POINTER(c_void_p))
"""Of functions that make a plan, behind the handle and the struct of the call."""


def declared(name: str, extra: Sequence[object] = ()) -> Callable[..., int]:
    """A function of the library that takes (handle, args, stream), or (handle, args, *extra)."""
    try:
        function: Any = getattr(c.library, name)
    except AttributeError:
        raise ImportError(f"{c.library_path} has no {name}: it is older than this module") from None
    function.restype = c_int32
    function.argtypes = [c_void_p, c_void_p, *(extra or [c_void_p])]
    typed: Callable[..., int] = function
    return typed


def row_stride(shape: Sequence[int], stride: Sequence[int]) -> int | None:
    """Elements between rows, where all leading dimensions amount to one; else None."""
    if stride[-1] != 1 and (shape[-1] > 1 or stride[-1] == 0):
        return None
    found = None  # of the innermost dimension that has several entries
    count = 1  # of rows so far
    for extent, step in zip(reversed(shape[:-1]), reversed(stride[:-1])):
        if extent == 1:
            continue
        if found is None:
            found = step
        elif step != found * count:
            return None
        count *= extent
    if found == 0 and count > 1:
        return None  # rows that repeat: 0 would mean contiguous rows
    return shape[-1] if found is None else found


def readable(library: Library, value: Any) -> Any:
    if row_stride(value.shape, library.strides(value)) is None:
        return library.contiguous(value)
    return value


def call(backend: int, function: Callable[..., int], args: Structure, stream: int | None) -> None:
    """function(handle, args, stream) of the library. Raises what failed."""
    handle = handle_of(backend)
    status = function(handle, byref(args), stream)
    if status != c.OK:
        recover(status, backend, handle, function, byref(args), stream)


_workspaces: dict[tuple[Any, ...], int] = {}  # bytes, by what they depend on
_WORKSPACES_MAX = 1024


def workspace_bytes(plan_function: Any, args: Structure, device: int, key: tuple[Any, ...]) -> int:
    """What a call on the current GPU, number `device`, needs. key: all of `args` that it depends
    on."""
    handle = handle_of(c.CUDA)
    key = (plan_function.__name__, handle, device, *key)
    size = _workspaces.get(key)
    if size is None:
        plan, found = c_void_p(), c_size_t()
        options = c.PlanOptions(struct_size=sizeof(c.PlanOptions))
        c.check(plan_function(handle, byref(args), byref(options), byref(plan)))
        status = c.library.attnpress_plan_workspace_bytes(plan, byref(found))
        c.library.attnpress_plan_destroy(plan)
        c.check(status)
        if len(_workspaces) >= _WORKSPACES_MAX:
            _workspaces.clear()
        size = _workspaces[key] = found.value
    return size


def run_with_workspace(
    library: Library,
    function: Callable[..., int],
    plan_function: Any,
    args: Structure,
    value: Any,
    key: tuple[Any, ...] | None,
) -> int:
    """library.run() with the workspace that the call needs on a GPU; its bytes. key: as in
    workspace_bytes(); None: the call needs no workspace."""
    with library.on_device(value) as backend:
        size = 0
        if backend == c.CUDA and key is not None:
            size = workspace_bytes(plan_function, args, value.get_device(), key)
        workspace = library.workspace(value, size)
        if workspace is not None:
            args.workspace, args.workspace_bytes = library.address(workspace), size
        library.run(function, args, value)
    return size


class Signatures:
    """Calls that were made before, of PyTorch tensors without gaps: of each signature the bytes of
    the call's struct, whose pointers are another call's, and those of the workspace that it
    needs."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], tuple[bytes, int]] = {}

    def key(self, options: tuple[Any, ...], *values: Any) -> tuple[Any, ...] | None:
        """Of a call with these tensors; None: it has to go the whole way. All that the struct and
        the workspace depend on is in it or in `options`."""
        torch = sys.modules.get("torch")
        if torch is None:
            return None
        for value in values:
            kind = value.__class__
            if kind is not torch.Tensor and kind is not torch.nn.Parameter:
                return None
            if not value.is_contiguous():
                return None
        return (*options, *((x.shape, x.dtype, x.device) for x in values))

    def find(self, key: tuple[Any, ...] | None) -> tuple[bytes, int] | None:
        return None if key is None else self._known.get(key)

    def keep(self, key: tuple[Any, ...] | None, args: Structure, workspace_bytes: int) -> None:
        """What find() gives from now on."""
        if key is None:
            return
        if len(self._known) >= _WORKSPACES_MAX:
            self._known.clear()
        self._known[key] = bytes(args), workspace_bytes


# ---- The two libraries --------------------------------------------------------------------------

_libraries: dict[str, Library] = {}  # by name, made when first asked for


def library_of(name: str, value: Any) -> Library:
    """What handles such a value. Neither library is imported unless the caller has it."""
    torch = sys.modules.get("torch")
    numpy = sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _libraries.get("torch") or _libraries.setdefault("torch", Torch(torch))
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _libraries.get("numpy") or _libraries.setdefault("numpy", NumPy(numpy))
    raise TypeError(
        f"{name} is {type(value).__name__}; PyTorch tensors and NumPy arrays are supported"
    )


FP64 = 4
"""As the headers of those families that have it on the CPU say."""


def dtype_or_fp64(library: Library, name: str, value: Any) -> int:
    """As library.dtype(), and fp64."""
    dtype = str(value.dtype).rpartition(".")[2]
    return FP64 if dtype == "float64" else library.dtype(name, value)


def check_same(
    names: Sequence[str], inputs: Any, out: Any, what: str, of: Callable[[Any], object]
) -> None:
    for name, value in (*zip(names[1:], inputs[1:]), ("out", out)):
        if value is not None and of(value) != of(inputs[0]):
            raise ValueError(
                f"{name} has {what} {of(value)} and {names[0]} {of(inputs[0])}; they must be equal"
            )


def check_writable(name: str, value: Any) -> None:
    """ValueError for an array that is read-only; PyTorch's tensors never are."""
    if not getattr(getattr(value, "flags", None), "writeable", True):
        raise ValueError(f"{name} is read-only")


# Of a value on the CPU, or on the current device: nothing is to be entered.
_ON_CPU, _ON_GPU = contextlib.nullcontext(c.CPU), contextlib.nullcontext(c.CUDA)


class Torch:
    def __init__(self, torch: Any) -> None:
        from . import _quick_rows, _torch

        self.torch = torch
        self.quick: Any = _quick_rows if _quick_rows.IS_OPEN else None  # for calls that come again
        self.has_context = _torch._has_context
        self.current_device = _torch._get_device
        self.raw_stream = _torch._raw_stream
        self.kind = torch.Tensor
        self.dtypes = {torch.float16: c.FP16, torch.bfloat16: c.BF16, torch.float32: c.FP32}

    def check(self, names: Sequence[str], inputs: Any, out: Any) -> None:
        for what in ("shape", "dtype", "device"):
            check_same(names, inputs, out, what, attrgetter(what))
        if inputs[0].device.type not in ("cuda", "cpu"):
            raise ValueError(
                f"{names[0]} is on {inputs[0].device}; CUDA and CPU tensors are supported"
            )

    def check_place(self, name: str, value: Any, x: Any) -> None:
        if value.device != x.device:
            raise ValueError(f"{name} is on {value.device} and x on {x.device}")

    def records(self, *values: Any) -> bool:
        """Whether a gradient by one of them is to be recorded."""
        return self.torch.is_grad_enabled() and any(
            value is not None and value.requires_grad for value in values
        )

    def dtype(self, name: str, value: Any) -> int:
        if value.dtype not in self.dtypes:
            raise ValueError(
                f"{name} is {value.dtype}; torch.float16, torch.bfloat16 and torch.float32 are "
                "supported"
            )
        return self.dtypes[value.dtype]

    def strides(self, value: Any) -> Sequence[int]:
        found: Sequence[int] = value.stride()
        return found

    def address(self, value: Any) -> int:
        address: int = value.data_ptr()
        return address

    def empty_like(self, value: Any) -> Any:
        return self.torch.empty(value.shape, dtype=value.dtype, device=value.device)

    def copy(self, value: Any) -> Any:
        """Without gaps."""
        return value.clone(memory_format=self.torch.contiguous_format)

    def empty(self, shape: Sequence[int], dtype: Any, like: Any) -> Any:
        """dtype: the library's own, or a name."""
        if isinstance(dtype, str):
            dtype = getattr(self.torch, dtype)
        return self.torch.empty(shape, dtype=dtype, device=like.device)

    def workspace(self, like: Any, size: int) -> Any:
        """Memory of this many bytes; None for none. Freed when its last name goes: the allocator
        gives it to later work of this stream."""
        if size == 0:
            return None
        return self.torch.empty(size, dtype=self.torch.uint8, device=like.device)

    def contiguous(self, value: Any) -> Any:
        return value.contiguous()

    def contiguous_if_not(self, value: Any) -> Any:
        return value.contiguous()

    def written(self, value: Any) -> None:
        """Tells PyTorch that a tensor of the caller's has changed: what was saved of it for another
        gradient is not that any longer."""
        increment = getattr(self.torch.autograd.graph, "increment_version", None)  # newer versions
        if increment is not None and not value.is_inference():
            increment(value)

    def on_device(self, value: Any) -> contextlib.AbstractContextManager[int]:
        """The backend of a tensor, whose device is the current one meanwhile."""
        if not value.is_cuda:
            return _ON_CPU
        known = self.has_context()
        if known and value.get_device() == self.current_device():
            return _ON_GPU
        return self._entered(value, known)

    @contextlib.contextmanager
    def _entered(self, value: Any, known: bool) -> Iterator[int]:
        with self.torch.cuda.device(value.device):
            if not known:
                self.torch.cuda.mem_get_info(value.device)  # binds the context to this thread
            yield c.CUDA

    def run(self, function: Callable[..., int], args: Structure, value: Any) -> None:
        with self.on_device(value) as backend:
            stream = self.raw_stream(value.get_device()) if backend == c.CUDA else None
            call(backend, function, args, stream)


class NumPy:
    def __init__(self, numpy: Any) -> None:
        self.numpy = numpy
        self.quick: Any = None
        self.kind = numpy.ndarray
        self.dtypes = {"float16": c.FP16, "bfloat16": c.BF16, "float32": c.FP32}

    def check(self, names: Sequence[str], inputs: Any, out: Any) -> None:
        for what in ("shape", "dtype"):
            check_same(names, inputs, out, what, attrgetter(what))
        for name, value in (*zip(names, inputs), ("out", out)):
            if isinstance(value, self.numpy.ma.MaskedArray):
                raise TypeError(f"{name} is a masked array, whose mask would be lost")
        check_writable("out", out)

    def check_place(self, name: str, value: Any, x: Any) -> None:
        if isinstance(value, self.numpy.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array, whose mask would be lost")

    def records(self, *values: Any) -> bool:
        return False

    def dtype(self, name: str, value: Any) -> int:
        if value.dtype.name not in self.dtypes or not value.dtype.isnative:
            raise ValueError(
                f"{name} is {value.dtype}; float16, float32 and ml_dtypes.bfloat16 are supported, "
                "in this machine's byte order"
            )
        return self.dtypes[value.dtype.name]

    def strides(self, value: Any) -> Sequence[int]:
        """In elements; 0, which only a copy or an error follows, where they are no whole number."""
        size = value.itemsize
        aligned = value.ctypes.data % size == 0
        return [step // size if aligned and step % size == 0 else 0 for step in value.strides]

    def address(self, value: Any) -> int:
        address: int = value.ctypes.data
        return address

    def empty_like(self, value: Any) -> Any:
        return self.numpy.empty(value.shape, dtype=value.dtype)

    def copy(self, value: Any) -> Any:
        return self.numpy.array(value, order="C", copy=True)

    def empty(self, shape: Sequence[int], dtype: Any, like: Any) -> Any:
        return self.numpy.empty(shape, dtype=dtype)

    def workspace(self, like: Any, size: int) -> Any:
        return None if size == 0 else self.numpy.empty(size, dtype=self.numpy.uint8)

    def contiguous(self, value: Any) -> Any:
        return self.numpy.array(value, order="C", copy=True)

    def contiguous_if_not(self, value: Any) -> Any:
        flags = value.flags
        return value if flags.c_contiguous and flags.aligned else self.contiguous(value)

    def written(self, value: Any) -> None:
        pass

    def on_device(self, value: Any) -> contextlib.AbstractContextManager[int]:
        return _ON_CPU

    def run(self, function: Callable[..., int], args: Structure, value: Any) -> None:
        call(c.CPU, function, args, None)


Library = Union[Torch, NumPy]
