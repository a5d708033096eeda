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
from collections.abc import Callable, Iterable, Sequence
from ctypes import addressof, c_size_t, c_void_p, sizeof
from typing import Any, NamedTuple

import torch

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
_plans = new_plans()  # of the way without a builtin function
_kept: dict[bytes, tuple[int, list[object]]] = {}
"""By options, the address of their Replays, and what these point to. Whoever calls the builtin
function holds the pair: another thread may drop it here at any time."""
_kept_count = 0


class Asked(NamedTuple):
    """A call that is not known yet, and may be kept when it has run."""

    options: tuple[Any, ...]
    name: bytes  # tells numbers and their types, as 1 and 1.0 may not be the same to a call
    tensors: tuple[Any, ...]


def known(
    options: tuple[Any, ...],
    tensors: tuple[Any, ...],
    current_device: Callable[[], int],
    stream_of: Callable[[int], int],
) -> tuple[Asked | None, tuple[Any, ...] | None]:
    """(what keep() takes, or None of a call that is not kept; the tensors that a call made which
    was kept). options: numbers, words and sequences of these: all that the call depends on but the
    tensors, each of which may be None. stream_of: of a device's index. For calls of which no
    gradient is recorded here."""
    try:
        name = _dumps(options, 2)  # later versions have references, by counts of them
    except ValueError:  # what is no number
        return None, None
    functions = _exchange.functions
    asked = Asked(options, name, tensors)
    if functions is None:
        return asked, _run(asked, current_device, stream_of)
    found = _kept.get(name)
    if found is None:
        return asked, None
    index = 0
    for x in tensors:
        if x is not None:
            if getattr(x, "is_cuda", False):
                index = current_device()
            break
    return asked, functions.replay(found[0], index, *tensors)


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
    makers: tuple[tuple[Callable[..., Any], int], ...]  # as attnpress_replay_output
    lent_bytes: int


def _maker_of(made: Any, tensors: tuple[Any, ...]) -> tuple[Callable[..., Any], int]:
    """What makes such a tensor, and of which it is called; -1: of none."""
    for i, x in enumerate(tensors):
        if x is not None and x.shape == made.shape and x.dtype == made.dtype:
            if _empty_like(x).stride() == made.stride():
                return _empty_like, i
    options = {"dtype": made.dtype, "device": made.device}
    return functools.partial(_empty_strided, tuple(made.shape), made.stride(), **options), -1


def _plan_of(
    tensors: tuple[Any, ...], function: Any, taken: Sequence[Any], made: Sequence[Any],
    pointed: Iterable[Any], lent: Iterable[Any],
) -> _Plan | None:  # fmt: skip
    sources: dict[int | None, tuple[int, int]] = {}
    for i, x in enumerate((*tensors, *made)):
        if x is not None:
            sources.setdefault(x.data_ptr(), (i, 0))
    size = 0
    for x in lent:
        if x is not None:
            sources[x.data_ptr()] = (len(tensors) + len(made), size)
            size += -(-x.numel() * x.element_size() // _ALIGNMENT) * _ALIGNMENT
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
    pointed: Iterable[Any] = (), lent: Iterable[Any] = (),
) -> None:  # fmt: skip
    """Keeps a call that has run, function(handle, *taken, stream) of the library.

    taken: one struct or two; pointed: those that they point to. made: the tensors that known() is
    to give, as a caller sees them; lent: those that were made for the call alone, as a
    workspace."""
    if asked is None or not _is_plain(asked.options):
        return
    tensors = asked.tensors
    if any(x is not None and x.__class__ not in (_Tensor, _Parameter) for x in tensors):
        return
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
    outputs = [_exchange.ReplayOutput(id(maker), like) for maker, like in plan.makers]
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


def _run(
    asked: Asked, current_device: Callable[[], int], stream_of: Callable[[int], int]
) -> tuple[Any, ...] | None:
    """The tensors that a call made which was kept; None of others."""
    key = _key_of(asked)
    plan = None if key is None else _plans.by_key.get(key)
    if plan is None or key is None:
        return None
    device = key[0]
    on_gpu = device.type == "cuda"
    if on_gpu and current_device() != device.index:
        return None
    tensors = asked.tensors
    made = tuple(maker() if like < 0 else maker(tensors[like]) for maker, like in plan.makers)
    # Freed when this function returns; the allocator gives it to later work of this stream.
    lent = _empty(plan.lent_bytes, dtype=torch.uint8, device=device)
    sources = [0 if x is None else x.data_ptr() for x in (*tensors, *made, lent)]
    words = (c_size_t * (len(plan.image) // _WORD)).from_buffer_copy(plan.image)
    sources.append(addressof(words))  # of _IMAGE
    for word, source, beyond in plan.addresses:
        words[word] = sources[source] + beyond
    structs = [sources[_IMAGE] + at for at in plan.taken]
    stream = stream_of(device.index) if on_gpu else None
    backend = c.CUDA if on_gpu else c.CPU
    handle = handle_of(backend)
    status = plan.function(handle, *structs, stream)
    if status != c.OK:
        recover(status, backend, handle, plan.function, *structs, stream)
    return made
