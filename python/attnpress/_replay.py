"""Calls of the library that ran before are known again by all that they depend on but addresses.
Their argument structs are kept, and a call fills in its own addresses and makes its outputs: that
takes a tenth of the time of checking the tensors and filling the structs.

What is kept nobody writes down: the words of the structs that are addresses are those of their
types that are pointers, and whose address one is, is found by comparing. A call is kept where each
is a tensor's of the caller's, one's that was made for it, or another struct's: not where a tensor
was copied, nor where a struct points to a text.

One builtin function knows a call again and runs it (runtime/exchange/replay.c); where PyTorch or
Python do not have what that needs, `_run()` does the same."""

from __future__ import annotations

import ctypes
import functools
import marshal
from collections.abc import Callable, Hashable, Iterable, Sequence
from ctypes import addressof, c_size_t, c_void_p, sizeof
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad as _forward_mode

from . import _exchange
from . import _library as c
from ._plan import handle_of, new_plans, recover

_PLAIN = frozenset({int, float, bool, str, type(None)})
_MAX_KEPT = 1024  # by the builtin function: all are dropped when there are more
_ALIGNMENT = 256  # of each piece of the memory that is lent to a call
_WORD = sizeof(c_void_p)
_IMAGE = -1  # as a source of addresses

_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_empty, _empty_like, _empty_strided = torch.empty, torch.empty_like, torch.empty_strided
_dumps = marshal.dumps
_transformed = torch._C._are_functorch_transforms_active
_current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
_plans = new_plans()  # of the way without a builtin function
_kept: dict[Any, tuple[int, list[object]]] = {}
"""By names, the address of their Replays, and what these point to. Whoever calls the builtin
function holds the pair: another thread may drop it here at any time."""
_kept_count = 0


class Asked(NamedTuple):
    """A call that is not known yet, and may be kept when it has run."""

    name: Hashable  # of all that the call depends on but its tensors
    tensors: tuple[Any, ...]  # each may be None
    options: tuple[Any, ...] = ()  # that the name was made of


def are_gradients_ordinary() -> bool:
    """Whether gradients are neither torch.func's nor of forward mode."""
    return _forward_mode._current_level < 0 and not _transformed()


def known(
    options: tuple[Any, ...], tensors: tuple[Any, ...]
) -> tuple[Asked | None, tuple[Any, ...] | None]:
    """(what keep() takes, or None of a call that is not kept; what again() gives). options:
    numbers, words and sequences of these: all that the call depends on but the tensors."""
    try:  # bytes tell numbers and their types, as 1 and 1.0 may not be the same to a call
        name = _dumps(options, 2)  # later versions have references, by counts of them
    except ValueError:  # what is no number
        return None, None
    return Asked(name, tensors, options), again(name, tensors)


def again(name: Hashable, tensors: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The outputs of a call that was kept, which is run; None of others. No gradient is recorded
    here."""
    if not are_gradients_ordinary():  # the whole way refuses what is lost
        return None
    functions = _exchange.functions
    if functions is None:
        return _run(Asked(name, tensors))
    found = _kept.get(name)
    if found is None:
        return None
    index = 0
    for x in tensors:
        if x is not None:
            if getattr(x, "is_cuda", False):
                index = _current_device()
            break
    made: tuple[Any, ...] | None = functions.replay(found[0], index, *tensors)
    return made


# ---- Keeping -------------------------------------------------------------------------------------


@functools.cache
def _pointers_of(kind: Any) -> tuple[int, ...]:
    """The bytes of a struct or an array at which pointers stand."""
    if hasattr(kind, "_fields_"):
        parts = [(getattr(kind, name).offset, of) for name, of, *_ in kind._fields_]
    elif hasattr(kind, "_length_"):
        parts = [(i * sizeof(kind._type_), kind._type_) for i in range(kind._length_)]
    else:
        is_pointer = kind is c_void_p or hasattr(kind, "contents")
        return (0,) if is_pointer else ()
    return tuple(begin + at for begin, of in parts for at in _pointers_of(of))


def _is_plain(option: Any) -> bool:
    kind = option.__class__
    return kind in _PLAIN or (kind in (tuple, list) and all(map(_is_plain, option)))


class _Plan(NamedTuple):
    """A call without its addresses."""

    function: Any
    taken: tuple[int, ...]  # the bytes of the image at which those begin that the function takes
    image: bytes  # the structs, one behind the other
    addresses: tuple[tuple[int, int, int], ...]  # as attnpress_replay_word
    makers: tuple[tuple[Callable[..., Any] | None, int], ...]  # as attnpress_replay_output
    lent_bytes: int


def _maker_of(made: Any, tensors: tuple[Any, ...]) -> tuple[Callable[..., Any] | None, int]:
    """What makes such a tensor, None of one that was given; of which it is called, or -1."""
    for i, x in enumerate(tensors):
        if x is made:
            return None, i
    for i, x in enumerate(tensors):
        if x is not None and x.shape == made.shape and x.dtype == made.dtype:
            if _empty_like(x).stride() == made.stride():
                return _empty_like, i
    options = {"dtype": made.dtype, "device": made.device}
    spread = _empty((), **options).expand(made.shape)
    if _empty_like(spread).stride() == made.stride():  # quicker than by shape and strides
        return functools.partial(_empty_like, spread), -1
    return functools.partial(_empty_strided, tuple(made.shape), made.stride(), **options), -1


def _plan_of(
    tensors: tuple[Any, ...], function: Any, taken: Sequence[Any], made: Sequence[Any],
    pointed: Iterable[Any], lent: Iterable[tuple[int, int]],
) -> _Plan | None:  # fmt: skip
    sources: dict[int | None, tuple[int, int]] = {}
    for i, x in enumerate((*tensors, *made)):
        if x is not None:
            sources.setdefault(x.data_ptr(), (i, 0))
    size = 0
    for address, count in lent:
        sources[address] = (len(tensors) + len(made), size)
        size += -(-count // _ALIGNMENT) * _ALIGNMENT
    image = bytearray()
    begins = []
    for struct in (structs := (*taken, *pointed)):
        sources[addressof(struct)] = (_IMAGE, len(image))
        begins.append(len(image))
        image += bytes(struct)
    addresses = []
    for begin, struct in zip(begins, structs):
        kind: Any = type(struct)
        for at in _pointers_of(kind):
            value = c_size_t.from_buffer(image, begin + at).value
            if value:
                if value not in sources:
                    return None
                addresses.append(((begin + at) // _WORD, *sources[value]))
    makers = tuple(_maker_of(x, tensors) for x in made)
    return _Plan(
        function, tuple(begins[: len(taken)]), bytes(image), tuple(addresses), makers, size
    )


def keep(
    asked: Asked | None, function: Any, taken: Sequence[Any], made: Sequence[Any] = (),
    pointed: Iterable[Any] = (), lent: Iterable[tuple[int, int]] = (),
) -> None:  # fmt: skip
    """Keeps a call that has run, function(handle, *taken, stream) of the library.

    taken: one struct or two; pointed: those that they point to. made: the outputs that again() is
    to give, as a caller sees them; others than the caller's are made anew. lent: address and bytes
    of the memory that the call alone needs, as a workspace."""
    if asked is None or not _is_plain(asked.options):
        return
    tensors = asked.tensors
    given = [x for x in tensors if x is not None]
    if any(x.__class__ is not _Tensor and x.__class__ is not _Parameter for x in given):
        return
    if any(x.is_cuda for x in given) and torch.cuda.is_current_stream_capturing():
        return  # what is made while a graph is captured is the graph's
    plan = _plan_of(tensors, function, taken, made, pointed, lent)
    if plan is None:
        return
    if _exchange.functions is None:
        key = _key_of(asked)
        if key is not None:
            _plans.add(key, plan)
    else:
        _keep_quickly(_exchange.functions, asked, plan, made)


def _keep_quickly(
    functions: _exchange.Functions, asked: Asked, plan: _Plan, made: Sequence[Any]
) -> None:
    global _kept_count  # noqa: PLW0603
    words = (_exchange.ReplayWord * len(plan.addresses))(
        *(_exchange.ReplayWord(*each) for each in plan.addresses)
    )
    outputs = [
        _exchange.ReplayOutput(None if maker is None else id(maker), like)
        for maker, like in plan.makers
    ]
    if len(outputs) > _exchange.REPLAY_OUTPUTS:
        return
    replay = _exchange.Replay(
        struct_size=sizeof(_exchange.Replay),
        function=ctypes.cast(plan.function, c_void_p),
        image=plan.image,
        addresses=words,
        output=(_exchange.ReplayOutput * _exchange.REPLAY_OUTPUTS)(*outputs),
        tensors=len(asked.tensors),
        outputs=len(outputs),
        address_count=len(words),
        image_bytes=len(plan.image),
        first=plan.taken[0],
        second=plan.taken[1] if len(plan.taken) > 1 else -1,
        lent_bytes=plan.lent_bytes,
    )
    if _kept_count >= _MAX_KEPT:
        _kept.clear()
        _kept_count = 0
    table = _exchange.Replays()
    address, kept = _kept.setdefault(asked.name, (addressof(table), [table]))
    if functions.keep(address, addressof(replay), *asked.tensors, *made) is not None:
        kept += [replay, plan]
        _kept_count += 1


# ---- Without the builtin function ----------------------------------------------------------------


def _key_of(asked: Asked) -> tuple[Any, ...] | None:
    """What the builtin function compares; None where the tensors are not all ordinary."""
    device = None
    parts: list[Any] = []
    addresses: list[int] = []
    for x in asked.tensors:
        if x is None:
            parts.append(None)
            addresses.append(0)
            continue
        if x.__class__ is not _Tensor and x.__class__ is not _Parameter:
            return None
        if device is None:
            device = x.device
        elif x.device != device:
            return None
        address = x.data_ptr()
        same = addresses.index(address) if address in addresses else len(addresses)
        addresses.append(address)
        parts.append((x.shape, x.stride(), x.dtype, address % 16, address != 0, same))
    return None if device is None else (device, asked.name, *parts)


def _run(asked: Asked) -> tuple[Any, ...] | None:
    """again()"""
    key = _key_of(asked)
    plan = None if key is None else _plans.by_key.get(key)
    if plan is None or key is None:
        return None
    device = key[0]
    on_gpu = device.type == "cuda"
    if on_gpu and _current_device() != device.index:
        return None
    tensors = asked.tensors
    made = tuple(
        tensors[like] if maker is None else maker() if like < 0 else maker(tensors[like])
        for maker, like in plan.makers
    )
    # Freed when this function returns; the allocator gives it to later work of this stream.
    lent = _empty(plan.lent_bytes, dtype=torch.uint8, device=device)
    sources = [0 if x is None else x.data_ptr() for x in (*tensors, *made, lent)]
    words = (c_size_t * (len(plan.image) // _WORD)).from_buffer_copy(plan.image)
    sources.append(addressof(words))  # of _IMAGE
    for word, source, beyond in plan.addresses:
        words[word] = sources[source] + beyond
    structs = [sources[_IMAGE] + at for at in plan.taken]
    stream = torch.cuda.current_stream().cuda_stream if on_gpu else None
    backend = c.CUDA if on_gpu else c.CPU
    handle = handle_of(backend)
    status = plan.function(handle, *structs, stream)
    if status != c.OK:
        recover(status, backend, handle, plan.function, *structs, stream)
    return made
