"""softmax over the last dimension, and its gradient, in place or not: PyTorch tensors on a GPU or
the CPU, and NumPy arrays.

    y = attnpress.softmax.softmax(x, scale=0.5)
    dx = attnpress.softmax.softmax_backward(y, dy, scale=0.5, out=dy)  # over dy

Mirrors include/attnpress/softmax.h.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from ctypes import Structure, byref, c_float, c_int32, c_int64, c_size_t, c_void_p, sizeof
from operator import attrgetter

from . import _library as c
from ._plan import handle_of, handle_with_nvrtc

COLUMNS_MAX = 1 << 20
"""Of the last dimension."""


class SoftmaxArgs(Structure):
    """attnpress_softmax_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("x", c_void_p),
        ("y", c_void_p),
        ("rows", c_int64),
        ("columns", c_int64),
        ("x_row_stride", c_int64),
        ("y_row_stride", c_int64),
        ("dtype", c_int32),
        ("scale", c_float),
    ]


class SoftmaxBackwardArgs(Structure):
    """attnpress_softmax_backward_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("y", c_void_p),
        ("dy", c_void_p),
        ("dx", c_void_p),
        ("rows", c_int64),
        ("columns", c_int64),
        ("y_row_stride", c_int64),
        ("dy_row_stride", c_int64),
        ("dx_row_stride", c_int64),
        ("dtype", c_int32),
        ("scale", c_float),
    ]


def _declared(name: str):
    """A function of the library that takes (handle, args, stream)."""
    try:
        function = getattr(c.library, name)
    except AttributeError:
        raise ImportError(f"{c.library_path} has no {name}: it is older than this module") from None
    function.restype = c_int32
    function.argtypes = [c_void_p, c_void_p, c_void_p]
    return function


_forward = _declared("attnpress_softmax")
_backward = _declared("attnpress_softmax_backward")


def softmax(x, scale: float = 1.0, out=None):
    """softmax(scale * x) over the last dimension.

    x: a PyTorch tensor (fp16, bf16, fp32; on a CUDA device or the CPU) or a NumPy array (float16,
    float32, bfloat16 of ml_dtypes), of one dimension or more, the last at most COLUMNS_MAX. Any
    strides: one whose last dimension is not contiguous, or whose other dimensions are not all one
    stride apart, is copied first.
    scale: finite and not 0.
    out: where the result goes, of x's shape and dtype, and x itself for in place; a new one where
    None. Its rows have to lie one stride apart, at least a row's length.

    Returns out. On a GPU the work is queued on the current stream of x's device. Raises ValueError
    or TypeError for arguments that are not allowed, NotImplementedError for a tensor that requires
    grad, attnpress.Error for a call that failed.
    """
    return _call(_forward, SoftmaxArgs, ("x",), "y", (x,), scale, out)


def softmax_backward(y, dy, scale: float = 1.0, out=None):
    """The gradient of softmax() by x: scale * y * (dy - sum(dy * y)), where y is what softmax()
    returned and dy the gradient by y. Everything else as in softmax(); out may be dy or y."""
    return _call(_backward, SoftmaxBackwardArgs, ("y", "dy"), "dx", (y, dy), scale, out)


# ---- What both are ------------------------------------------------------------------------------


def _call(function, struct: type[Structure], names, out_name: str, inputs, scale: float, out):
    library = _library_of(names[0], inputs[0])
    for name, value in (*zip(names, inputs), ("out", out)):
        if not isinstance(value, library.kind) and (name != "out" or value is not None):
            raise TypeError(
                f"{name} is {type(value).__name__}; with {names[0]} it must be "
                f"{library.kind.__name__}"
            )
    scale = float(scale)
    if not math.isfinite(scale) or c_float(scale).value == 0.0:
        raise ValueError(f"scale is {scale}; it must be finite and not 0 in single precision")
    library.check(names, inputs, out)
    rows, columns = _shape(names[0], inputs[0].shape)
    result = library.empty_like(inputs[0]) if out is None else out
    if rows == 0 or columns == 0:
        return result
    args = struct(struct_size=sizeof(struct), rows=rows, columns=columns, scale=scale)
    args.dtype = library.dtype(inputs[0])
    inputs = tuple(_readable(library, value) for value in inputs)  # kept until the call is made
    for name, value in (*zip(names, inputs), (out_name, result)):
        stride = _row_stride(value.shape, library.strides(value))
        if stride is None:
            raise ValueError(
                f"out has strides {library.strides(value)}; its last dimension must be contiguous "
                "and its rows one stride apart"
            )
        setattr(args, name, library.address(value))
        setattr(args, f"{name}_row_stride", stride)
    library.run(function, args, inputs[0])
    return result


def _shape(name: str, shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns."""
    if not shape:
        raise ValueError(f"{name} has no dimensions; one or more are needed")
    return math.prod(shape[:-1]), shape[-1]


def _row_stride(shape: Sequence[int], stride: Sequence[int]) -> int | None:
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


def _readable(library, value):
    if _row_stride(value.shape, library.strides(value)) is None:
        return library.contiguous(value)
    return value


def _run(backend: int, function, args: Structure, stream: int | None) -> None:
    handle = handle_of(backend)
    status = function(handle, byref(args), stream)
    if status == c.NO_NVRTC:
        handle = handle_with_nvrtc(backend, handle, c.error_of(status))
        status = function(handle, byref(args), stream)
    c.check(status)


# ---- The two libraries --------------------------------------------------------------------------


def _library_of(name: str, value):
    """What handles such a value. Neither library is imported unless the caller has it."""
    torch = sys.modules.get("torch")
    numpy = sys.modules.get("numpy")
    if torch is not None and isinstance(value, torch.Tensor):
        return _Torch(torch)
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _NumPy(numpy)
    raise TypeError(
        f"{name} is {type(value).__name__}; PyTorch tensors and NumPy arrays are supported"
    )


def _check_same(names, inputs, out, what: str, of) -> None:
    for name, value in (*zip(names[1:], inputs[1:]), ("out", out)):
        if value is not None and of(value) != of(inputs[0]):
            raise ValueError(
                f"{name} has {what} {of(value)} and {names[0]} {of(inputs[0])}; they must be equal"
            )


class _Torch:
    def __init__(self, torch) -> None:
        self.torch = torch
        self.kind = torch.Tensor
        self.dtypes = {torch.float16: c.FP16, torch.bfloat16: c.BF16, torch.float32: c.FP32}

    def check(self, names, inputs, out) -> None:
        for what in ("shape", "dtype", "device"):
            _check_same(names, inputs, out, what, attrgetter(what))
        if inputs[0].device.type not in ("cuda", "cpu"):
            raise ValueError(
                f"{names[0]} is on {inputs[0].device}; CUDA and CPU tensors are supported"
            )
        if self.torch.is_grad_enabled() and any(
            value is not None and value.requires_grad for value in (*inputs, out)
        ):
            raise NotImplementedError(
                "a tensor requires grad, which this function does not record: detach it, or call "
                "under torch.no_grad()"
            )

    def dtype(self, value) -> int:
        if value.dtype not in self.dtypes:
            raise ValueError(
                f"dtype {value.dtype} is not supported; torch.float16, torch.bfloat16 and "
                "torch.float32 are"
            )
        return self.dtypes[value.dtype]

    def strides(self, value) -> Sequence[int]:
        return value.stride()

    def address(self, value) -> int:
        return value.data_ptr()

    def empty_like(self, value):
        return self.torch.empty(value.shape, dtype=value.dtype, device=value.device)

    def contiguous(self, value):
        return value.contiguous()

    def run(self, function, args: Structure, value) -> None:
        if not value.is_cuda:
            _run(c.CPU, function, args, None)
            return
        from ._torch import _has_context

        with self.torch.cuda.device(value.device):
            if not _has_context():
                self.torch.cuda.mem_get_info(value.device)  # binds the context to this thread
            _run(c.CUDA, function, args, self.torch.cuda.current_stream().cuda_stream)


class _NumPy:
    def __init__(self, numpy) -> None:
        self.numpy = numpy
        self.kind = numpy.ndarray
        self.dtypes = {"float16": c.FP16, "bfloat16": c.BF16, "float32": c.FP32}

    def check(self, names, inputs, out) -> None:
        for what in ("shape", "dtype"):
            _check_same(names, inputs, out, what, attrgetter(what))
        for name, value in (*zip(names, inputs), ("out", out)):
            if isinstance(value, self.numpy.ma.MaskedArray):
                raise TypeError(f"{name} is a masked array, whose mask would be lost")
        if out is not None and not out.flags.writeable:
            raise ValueError("out is read-only")

    def dtype(self, value) -> int:
        if value.dtype.name not in self.dtypes or not value.dtype.isnative:
            raise ValueError(
                f"dtype {value.dtype} is not supported; float16, float32 and ml_dtypes.bfloat16 "
                "are, in native byte order"
            )
        return self.dtypes[value.dtype.name]

    def strides(self, value) -> Sequence[int]:
        """In elements; 0, which only a copy or an error follows, where they are no whole number."""
        size = value.itemsize
        aligned = value.ctypes.data % size == 0
        return [step // size if aligned and step % size == 0 else 0 for step in value.strides]

    def address(self, value) -> int:
        return value.ctypes.data

    def empty_like(self, value):
        return self.numpy.empty(value.shape, dtype=value.dtype)

    def contiguous(self, value):
        return self.numpy.array(value, order="C", copy=True)

    def run(self, function, args: Structure, value) -> None:
        _run(c.CPU, function, args, None)
