"""Convolutions of two dimensions, channels last in memory, and their gradients: PyTorch tensors on
a GPU or the CPU, with autograd, and NumPy arrays.

    out = attnpress.conv2d.conv2d(x, weight, bias, stride=2, padding=1, relu=True)

Shapes are those of torch.nn.functional.conv2d: x (N, C, H, W), weight (K, C, R, S), out
(N, K, P, Q). In memory the channels come last (torch.channels_last): results always are so laid
out, and inputs that are not, such as contiguous ones, are copied first.

Mirrors include/attnpress/conv2d.h.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from ctypes import Structure, c_int32, c_int64, c_size_t, c_void_p, sizeof
from typing import Any, NamedTuple, TypeVar, Union

from ._rows import PLAN_ARGUMENTS, Library, declared, dtype_or_fp64, library_of, run_with_workspace

Array = TypeVar("Array")
"""torch.Tensor or numpy.ndarray."""
Pair = Union[int, Sequence[int]]
"""Of the height and the width; one number is both."""

_VECTOR = 8  # elements that strides between pixels are multiples of


class Conv2dShape(Structure):
    """attnpress_conv2d_shape"""

    _fields_ = [
        ("batch", c_int64),
        ("height", c_int64),
        ("width", c_int64),
        ("channels", c_int64),
        ("filters", c_int64),
        ("filter_height", c_int64),
        ("filter_width", c_int64),
        ("stride", c_int32 * 2),
        ("padding", c_int32 * 2),
        ("dilation", c_int32 * 2),
        ("dtype", c_int32),
        ("relu", c_int32),
    ]


class Conv2dChoice(Structure):
    """attnpress_conv2d_choice"""

    _fields_ = [
        ("copies", c_int32),
        ("block_rows", c_int32),
        ("block_columns", c_int32),
        ("splits", c_int32),
    ]


class Choice(NamedTuple):
    """Which kernels run, to measure them beside each other; what is left out the library chooses.
    Results are right whatever is chosen."""

    copies: str = ""
    """gather: by threads; im2col: by the copy engine of compute capability 9.0, where it can."""
    block: tuple[int, int] = (0, 0)
    """Rows and columns of a thread block's product: 128, 64, say."""
    splits: int = 0
    """Of the pixels that dweight sums over; thread blocks that share a tile of out or dx."""


_COPIES = ("", "gather", "im2col")


class Conv2dArgs(Structure):
    """attnpress_conv2d_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("shape", Conv2dShape),
        ("x", c_void_p),
        ("weight", c_void_p),
        ("bias", c_void_p),
        ("out", c_void_p),
        ("x_stride", c_int64 * 3),
        ("out_stride", c_int64 * 3),
        ("choice", Conv2dChoice),
    ]


class Conv2dBackwardArgs(Structure):
    """attnpress_conv2d_backward_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("shape", Conv2dShape),
        ("x", c_void_p),
        ("weight", c_void_p),
        ("out", c_void_p),
        ("dout", c_void_p),
        ("dx", c_void_p),
        ("dweight", c_void_p),
        ("dbias", c_void_p),
        ("x_stride", c_int64 * 3),
        ("out_stride", c_int64 * 3),
        ("dout_stride", c_int64 * 3),
        ("dx_stride", c_int64 * 3),
        ("workspace", c_void_p),
        ("workspace_bytes", c_size_t),
        ("choice", Conv2dChoice),
    ]


_forward = declared("attnpress_conv2d")
_backward = declared("attnpress_conv2d_backward")
_plan_backward = declared("attnpress_plan_conv2d_backward", PLAN_ARGUMENTS)


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    relu: bool = False,
) -> Array:
    """torch.nn.functional.conv2d(x, weight, bias, stride, padding, dilation), then ReLU if `relu`.

    x: (N, C, H, W); weight: (K, C, R, S); bias: (K) or None. PyTorch tensors (fp16, bf16; on the
    CPU fp32 and fp64 too) or NumPy arrays (float16, float32, float64, bfloat16 of ml_dtypes), of
    one dtype. C and K are multiples of 8. stride, padding, dilation: a number, or one for the
    height and one for the width. Groups, and padding given as a word, are not supported.

    Any strides: what has its channels last and contiguous in memory, with strides between pixels,
    lines and images that are positive multiples of 8 elements, is read where it lies; other inputs,
    contiguous (N, C, H, W) among them, are copied to channels_last first.

    Returns (N, K, P, Q), channels last in memory: out.is_contiguous(memory_format=channels_last).
    On a GPU the work is queued on the current stream of x's device. Gradients of PyTorch tensors
    are recorded. Raises ValueError or TypeError for arguments that are not allowed, attnpress.Error
    for a call that failed.
    """
    if _quick is not None:
        found: Any = _quick.conv2d(x, weight, bias, stride, padding, dilation, relu)
        if found is not None:
            return found  # type: ignore[no-any-return]
    library = library_of("x", x)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and not isinstance(value, library.kind):
            raise TypeError(
                f"{name} is {type(value).__name__}; with x it must be {library.kind.__name__}"
            )
    steps = _pair("stride", stride), _pair("padding", padding), _pair("dilation", dilation)
    if library.records(x, weight, bias):
        recorded: Array = _function().apply(x, weight, bias, *steps, bool(relu))
        return recorded
    result: Array = forward(x, weight, bias, *steps, relu)
    return result


def forward(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    relu: bool = False,
    choice: Choice | None = None,
) -> Any:
    """conv2d() without autograd, by kernels of the caller's choice."""
    options = _options_of(stride, padding, dilation, relu) if choice is None else None
    if options is not None and _quick is not None:
        found = _quick.forward_calls.run(options, x, weight, bias)
        if found is not None:
            return found
    library, shape, output = _checked(x, weight, stride, padding, dilation, relu)
    _check_bias(library, bias, x, weight)
    result = _empty(library, output, x)
    args = Conv2dArgs(struct_size=sizeof(Conv2dArgs), shape=shape, choice=_choice(choice))
    kept = [_give_image(library, args, "x", x), _give_weight(library, args, weight)]
    if bias is not None:
        kept.append(_aligned(library, bias))
        args.bias = library.address(kept[-1])
    args.out = library.address(result)
    library.run(_forward, args, x)
    del kept
    if options is not None and library.quick is not None:
        tensors = {"x": x, "weight": weight, "bias": bias}
        _quickly(library.quick).forward_calls.keep(
            options, args, tensors, (("out", result, False),), 0
        )
    return result


def backward(
    dout: Any,
    x: Any,
    weight: Any,
    out: Any = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    relu: bool = False,
    needs: Sequence[bool] = (True, True, True),
    choice: Choice | None = None,
) -> tuple[Any, Any, Any]:
    """The gradients (dx, dweight, dbias) by x, weight and bias, of dout, that by the result; None
    for those that `needs` says are not wanted. out: the result, needed with relu alone. dx and
    dweight have their channels last in memory."""
    options = _options_of(stride, padding, dilation, relu) if choice is None else None
    if options is not None and _quick is not None:
        found = _quick.backward(dout, x, weight, out if relu else None, options, needs)
        if found is not None:
            return found  # type: ignore[no-any-return]
    library, shape, output = _checked(x, weight, stride, padding, dilation, relu)
    for name, value in (("dout", dout), ("out", out if relu else dout)):
        if not isinstance(value, library.kind):
            raise TypeError(
                f"{name} is {type(value).__name__}; with x it must be {library.kind.__name__}"
            )
        if tuple(value.shape) != output or value.dtype != x.dtype:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)} and dtype {value.dtype}; it must be "
                f"{output}, {x.dtype}"
            )
        library.check_place(name, value, x)
    dx = _empty(library, x.shape, x) if needs[0] else None
    dweight = _empty(library, weight.shape, x) if needs[1] else None
    dbias = library.empty((weight.shape[0],), x.dtype, x) if needs[2] else None
    args = Conv2dBackwardArgs(
        struct_size=sizeof(Conv2dBackwardArgs), shape=shape, choice=_choice(choice)
    )
    kept = [_give_image(library, args, "x", x), _give_weight(library, args, weight)]
    kept.append(_give_image(library, args, "dout", dout))
    if relu:
        kept.append(_give_image(library, args, "out", out))
    for name, value in (("dx", dx), ("dweight", dweight), ("dbias", dbias)):
        if value is not None and math.prod(value.shape) > 0:
            setattr(args, name, library.address(value))
    key = (bytes(shape), needs[0], needs[1], needs[2], choice)
    size = run_with_workspace(library, _backward, _plan_backward, args, x, key)
    del kept
    if options is not None and library.quick is not None:
        tensors = {"dout": dout, "x": x, "weight": weight, "out": out if relu else None}
        made = (("dx", dx), ("dweight", dweight), ("dbias", dbias))
        outputs = [(name, value, False) for name, value in made if value is not None]
        _quickly(library.quick).backward_calls.keep(
            (*options, *needs), args, tensors, outputs, size
        )
    return dx, dweight, dbias


def _choice(choice: Choice | None) -> Conv2dChoice:
    if choice is None:
        return Conv2dChoice()
    if choice.copies not in _COPIES:
        raise ValueError(f'copies is {choice.copies!r}; it must be "gather" or "im2col"')
    return Conv2dChoice(_COPIES.index(choice.copies), *choice.block, choice.splits)


# ---- Arguments -----------------------------------------------------------------------------------


def _whole(value: Any) -> tuple[int, ...]:
    """A whole number, of any library, or several; TypeError for what is none."""
    try:
        return (operator.index(value),)
    except TypeError:
        return tuple(operator.index(number) for number in value)


def _numbers(name: str, value: Any) -> tuple[int, int]:
    if isinstance(value, str):
        raise ValueError(
            f'{name} is "{value}"; it must be a whole number or two: words are not supported'
        )
    try:
        pair = _whole(value)
    except TypeError:
        pair = ()
    if len(pair) == 1:
        pair = pair * 2
    if len(pair) != 2:
        raise ValueError(f"{name} is {value!r}; it must be a whole number, or two")
    least = 0 if name == "padding" else 1
    if min(pair) < least or max(pair) > 65535:
        raise ValueError(f"{name} is {value!r}; numbers must be {least} to 65535")
    return pair[0], pair[1]


def _pair(name: str, value: Pair) -> tuple[int, int]:
    """The numbers of the height and the width."""
    kinds = map(type, value if value.__class__ is tuple else (value,))
    return (_known_numbers if {int}.issuperset(kinds) else _numbers)(name, value)


_known_numbers = functools.lru_cache(maxsize=256)(_numbers)  # of ints: 2.0 has the same hash as 2


_Known = tuple[Conv2dShape, tuple[int, int, int, int]]
_known: dict[tuple[Any, ...], _Known] = {}  # the shape and the output's, by what they follow from
_KNOWN_MAX = 1024


def _checked(
    x: Any, weight: Any, stride: Pair, padding: Pair, dilation: Pair, relu: bool
) -> tuple[Library, Conv2dShape, tuple[int, int, int, int]]:
    """The library of both, the call's shape, and the shape of the result."""
    library = library_of("x", x)
    for name, value in (("x", x), ("weight", weight)):
        if not isinstance(value, library.kind):
            raise TypeError(
                f"{name} is {type(value).__name__}; both must be {library.kind.__name__}"
            )
    library.check_place("weight", weight, x)
    steps = _pair("stride", stride), _pair("padding", padding), _pair("dilation", dilation)
    key = (tuple(x.shape), x.dtype, tuple(weight.shape), weight.dtype, steps, bool(relu))
    found = _known.get(key)
    if found is None:
        found = _shape_of(library, x, weight, steps, relu)
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        _known[key] = found
    return (library, *found)


def _shape_of(
    library: Library, x: Any, weight: Any, steps: tuple[tuple[int, int], ...], relu: bool
) -> _Known:
    for name, value in (("x", x), ("weight", weight)):
        if len(value.shape) != 4:
            raise ValueError(f"{name} has {len(value.shape)} dimensions; it must have 4")
    if weight.shape[1] != x.shape[1] or weight.dtype != x.dtype:
        raise ValueError(
            f"x has {x.shape[1]} channels and dtype {x.dtype}, weight {weight.shape[1]} and "
            f"{weight.dtype}; they must be equal, and groups are not supported"
        )
    for name, count in (("channels", x.shape[1]), ("filters", weight.shape[0])):
        if count < 1 or count % _VECTOR:
            raise ValueError(
                f"{name} are {count}; they must be a multiple of {_VECTOR}: zeros may fill "
                "what is missing"
            )
    shape = Conv2dShape(
        batch=x.shape[0],
        height=x.shape[2],
        width=x.shape[3],
        channels=x.shape[1],
        filters=weight.shape[0],
        filter_height=weight.shape[2],
        filter_width=weight.shape[3],
        relu=int(relu),
        dtype=dtype_or_fp64(library, "x", x),
    )
    output = []
    for i in range(2):
        shape.stride[i], shape.padding[i], shape.dilation[i] = (pair[i] for pair in steps)
        reach = shape.dilation[i] * (weight.shape[2 + i] - 1) + 1
        room = x.shape[2 + i] + 2 * shape.padding[i] - reach
        if weight.shape[2 + i] < 1 or x.shape[2 + i] < 1 or room < 0:
            raise ValueError(
                f"a filter of {weight.shape[2 + i]} with dilation {shape.dilation[i]} does not fit "
                f"into {x.shape[2 + i]} with {shape.padding[i]} of padding on either side: there "
                "is no output"
            )
        output.append(room // shape.stride[i] + 1)
    return shape, (x.shape[0], weight.shape[0], output[0], output[1])


def _check_bias(library: Library, bias: Any, x: Any, weight: Any) -> None:
    if bias is None:
        return
    if not isinstance(bias, library.kind):
        raise TypeError(f"bias is {type(bias).__name__}; it must be {library.kind.__name__}")
    if tuple(bias.shape) != (weight.shape[0],) or bias.dtype != x.dtype:
        raise ValueError(
            f"bias has shape {tuple(bias.shape)} and dtype {bias.dtype}; it must be "
            f"{(weight.shape[0],)}, {x.dtype}"
        )
    library.check_place("bias", bias, x)


def _channels_last(value: Any, back: bool = False) -> Any:
    """A view of (N, C, H, W) as (N, H, W, C), or back."""
    axes = (0, 3, 1, 2) if back else (0, 2, 3, 1)
    return value.permute(axes) if hasattr(value, "permute") else value.transpose(axes)


def _empty(library: Library, shape: Sequence[int], like: Any) -> Any:
    """A new (N, C, H, W), channels last in memory."""
    batch, channels, height, width = shape
    return _channels_last(library.empty((batch, height, width, channels), like.dtype, like), True)


def _strides(library: Library, image: Any) -> list[int] | None:
    """Of images, lines and pixels of an (N, H, W, C), as the library reads them, or None."""
    strides = list(library.strides(image))
    if strides[3] != 1 or library.address(image) % 16:
        return None
    for i in range(2, -1, -1):
        if image.shape[i] == 1:  # it may be said to be anything
            strides[i] = image.shape[i + 1] * strides[i + 1]
        if strides[i] <= 0 or strides[i] % _VECTOR:
            return None
    return strides[:3]


def _give_image(library: Library, args: Structure, name: str, value: Any) -> Any:
    """Puts an (N, C, H, W) into the struct; what has to live until the call is made."""
    if math.prod(value.shape) == 0:
        return None
    image = _channels_last(value)
    strides = _strides(library, image)
    if strides is None:  # what lies without gaps may begin at any element
        image = _aligned(library, image)
        strides = _strides(library, image)
        assert strides is not None
    setattr(args, name, library.address(image))
    setattr(args, f"{name}_stride", (c_int64 * 3)(*strides))
    return image


def _give_weight(library: Library, args: Structure, weight: Any) -> Any:
    """Puts (K, C, R, S) into the struct, likewise."""
    lines = _aligned(library, _channels_last(weight))
    args.weight = library.address(lines)
    return lines


def _aligned(library: Library, value: Any) -> Any:
    """The value without gaps, from an address that is a multiple of 16 bytes on."""
    value = library.contiguous_if_not(value)
    if library.address(value) % 16 == 0:
        return value
    copy = library.empty(value.shape, value.dtype, value)
    copy[...] = value
    return copy


# ---- Calls that ran before -----------------------------------------------------------------------

_quick: _Quick | None = None  # since the first call with PyTorch's tensors


def _quickly(quick: Any) -> _Quick:
    global _quick  # noqa: PLW0603
    _quick = _quick or _Quick(quick)
    return _quick


def _options_of(stride: Any, padding: Any, dilation: Any, relu: Any) -> tuple[Any, ...] | None:
    """What a call without a choice depends on but its tensors, each pair as two numbers; None where
    that is no plain number: 1.0 is refused, and hashes as 1."""
    for value in (stride, padding, dilation):
        if value.__class__ is not int and (
            value.__class__ is not tuple or not _INT.issuperset(map(type, value))
        ):
            return None
    return _doubled(stride, padding, dilation, relu) if relu.__class__ is bool else None


_INT = frozenset({int})


@functools.lru_cache(maxsize=256)
def _doubled(*options: Any) -> tuple[Any, ...]:
    return (
        *(value if value.__class__ is tuple else (value,) * 2 for value in options[:3]),
        options[3],
    )


class _Quick:
    """Calls that ran before; None of all else. quick: the module _quick_rows."""

    def __init__(self, quick: Any) -> None:
        self.quick = quick
        self.forward_calls = quick.Calls("attnpress_conv2d")
        self.backward_calls = quick.Calls("attnpress_conv2d_backward")

    def conv2d(
        self, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, relu: bool
    ) -> Any:
        quick = self.quick
        options = _options_of(stride, padding, dilation, relu)
        if options is None:
            return None
        if not quick.records(x, weight, bias):
            return self.forward_calls.run(options, x, weight, bias)
        if not quick.may_record():
            return None
        out = self.forward_calls.run(options, x, weight, bias)
        if out is None:
            return None
        saved = x, weight, out if relu else None
        return quick.record((x, weight, bias), out, saved, options, _gradients)

    def backward(
        self, dout: Any, x: Any, weight: Any, out: Any, options: tuple[Any, ...],
        needs: Sequence[bool],
    ) -> Any:  # fmt: skip
        made = self.backward_calls.run((*options, *needs), dout, x, weight, out)
        if made is None or all(needs):
            return made
        rest = iter(made if made.__class__ is tuple else (made,))
        return tuple(next(rest) if need else None for need in needs)


# ---- Autograd ------------------------------------------------------------------------------------

_functions: dict[str, Any] = {}


def _gradients(ctx: Any, dout: Any) -> tuple[Any, Any, Any]:
    x, weight, out = ctx.saved_tensors
    stride, padding, dilation, relu = ctx.options
    needs = ctx.needs_input_grad[:3]
    return backward(dout, x, weight, out, stride, padding, dilation, relu, needs)


def _function() -> Any:
    """The torch.autograd.Function, made when the first gradient is recorded."""
    if "conv2d" in _functions:
        return _functions["conv2d"]
    import torch

    class Conv2d(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(
            ctx: Any,
            x: Any,
            weight: Any,
            bias: Any,
            stride: Any,
            padding: Any,
            dilation: Any,
            relu: bool,
        ) -> Any:
            out = forward(x, weight, bias, stride, padding, dilation, relu)
            ctx.options = (stride, padding, dilation, relu)
            ctx.save_for_backward(x, weight, out if relu else None)
            return out

        @staticmethod
        @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
        def backward(ctx: Any, dout: Any) -> Any:
            return (*_gradients(ctx, dout), None, None, None, None)

    return _functions.setdefault("conv2d", Conv2d)
