"""Calls of sequences that ran before are known again by all that they depend on but addresses.
Their argument structs are kept, and a call fills in its own addresses and makes its outputs: that
takes a tenth of the time of checking the tensors and filling the structs.

Kept are calls of ordinary tensors that the library read where they lie, that record no gradients,
and whose features are numbers. Those whose output alone is asked for, and lies as q, one builtin
function knows again (`run_quickly()`): such plans are the process's, the others the thread's."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from ctypes import Structure, addressof, c_size_t, c_void_p, sizeof
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from . import _exchange
from . import _library as c
from ._append import AppendArgs
from ._plan import new_plans, recover

if TYPE_CHECKING:
    from ._ragged import Call, Ragged
    from ._scores import Groups

PLACES = (
    "q", "k", "v", "out", "k_new", "v_new", "cos", "sin", "first_positions", "cu_seqlens_q",
    "cu_seqlens_k", "cu_seqlens_k_new", "seqused_q", "seqused_k", "leftpad_k", "kv_batch_idx",
    "page_table", "page_table_v", "page_indptr", "schedule",
)  # fmt: skip
"""The tensors of a call, in the order of key_of()'s `tensors`."""
# What a call makes; out, too, where none is given. The first two have these numbers in
# runtime/exchange/replay.c, too.
_MADE = ("workspace", "q_rotated", "lse")
_NUMBERS = {name: i for i, name in enumerate((*PLACES, *_MADE))}
_PLAIN = frozenset({int, float, bool, type(None)})

_Tensor = torch.Tensor
_is_grad_enabled = torch.is_grad_enabled
_empty = torch.empty
_empty_like = torch.empty_like
_empty_strided = torch.empty_strided
_plans = new_plans()
_WORD = sizeof(c_void_p)

_FORWARD = {"q": "q", "k": "k", "v": "v", "out": "out", "lse": "lse", "workspace": "workspace"}
_LENGTHS = {name: name for name in PLACES[PLACES.index("cu_seqlens_q") :]}
_APPEND = {
    "k_new": "k_new", "v_new": "v_new", "k_cache": "k", "v_cache": "v", "q": "q",
    "q_out": "q_rotated", "cu_seqlens_new": "cu_seqlens_k_new", "seqused_k": "seqused_k",
    "kv_batch_idx": "kv_batch_idx", "page_table": "page_table", "page_table_v": "page_table_v",
    "page_indptr": "page_indptr",
}  # fmt: skip
_ROTARY = {"cos": "cos", "sin": "sin", "first_positions": "first_positions"}


def key_of(tensors: tuple[Any, ...], options: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """All that a call depends on but addresses; None of calls that are not kept. options: numbers
    and tuples of numbers, whose types count, as a call may refuse 1.0 where it takes 1."""
    device = None
    parts: list[Any] = [options]
    for option in options:
        kind: Any = type(option)
        if kind is tuple:
            kind = tuple(map(type, option))
            if not _PLAIN.issuperset(kind):
                return None
        elif kind not in _PLAIN:
            return None
        parts.append(kind)
    records = _is_grad_enabled()
    for x in tensors:
        if x is None:
            parts.append(None)
            continue
        if x.__class__ is not _Tensor or (records and x.requires_grad):
            return None
        if device is None:
            device = x.device
        elif x.device != device:
            return None
        parts.append((x.shape, x.stride(), x.dtype))
    return (device, *parts)


class _Structs:
    """The structs of a call, one behind the other, and where addresses stand in them."""

    def __init__(self) -> None:
        self.image = bytearray()
        self.slots: list[tuple[int, str]] = []  # the word, and whose address it is
        self.inner: list[tuple[int, int]] = []  # the word, and the byte that it points to

    def add(self, struct: Structure, places: dict[str, str], known: dict[str, int]) -> int:
        """Its first byte; -1 where a pointer is not that of its place: what was copied."""
        begin = len(self.image)
        self.image += bytes(struct)
        for field, place in places.items():
            value: Any = getattr(struct, field)
            address = value.data if isinstance(value, c.Tensor) else value
            if not address:  # not given, or without elements
                continue
            if address != known.get(place):
                return -1
            self.slots.append(((begin + getattr(type(struct), field).offset) // _WORD, place))
        return begin

    def point(self, owner: int, struct: type[Structure], field: str, target: int) -> None:
        self.inner.append(((owner + getattr(struct, field).offset) // _WORD, target))


@dataclass
class _Plan:
    """A call without its addresses. Nothing of it changes but `handle`, which any call may replace
    by a better one, and `turn`."""

    handle: int
    function: Callable[..., int]
    structs: tuple[int, ...]  # the bytes of the image at which those begin that the function takes
    image: bytes
    words: Callable[[bytes], Any]  # a copy of the image
    slots: tuple[tuple[int, int], ...]  # the word, and which address
    inner: tuple[tuple[int, int], ...]  # the word, and the byte that it points to
    out: tuple[Any, Any] | None  # shape and stride, where it is made
    lse: Any  # shape, or None
    rotated: Any  # likewise
    out_as_q: bool  # these two are laid out as q is, and made more quickly for it
    rotated_as_q: bool
    workspace_bytes: int
    groups: Groups | None  # structs of features, which the image points to
    turn: int = -1  # the quick way's when it was last given the call


def keep(
    key: tuple[Any, ...], tensors: tuple[Any, ...], call: Call, request: Ragged, size: int,
    out: Any, lse: Any, workspace: Any,
) -> None:  # fmt: skip
    """Keeps a call that has run. tensors: as of key_of(), q and out with a dimension less than what
    the library was given where sequences lie one after the other. size: bytes of workspace."""
    given = dict(zip(PLACES, tensors))
    known = {name: 0 if x is None else x.data_ptr() for name, x in given.items()}
    rotated = request.rotated
    known |= {"lse": 0 if lse is None else lse.data_ptr(), "workspace": workspace.data_ptr()}
    known |= {"out": out.data_ptr(), "q_rotated": 0 if rotated is None else rotated.data_ptr()}
    structs = _Structs()
    reads = {**_FORWARD, "q": "q" if rotated is None else "q_rotated"}
    forward_at = structs.add(call.struct, reads, known)
    lengths_at = structs.add(call.ragged, _LENGTHS, known)
    if min(forward_at, lengths_at) < 0:
        return
    structs.point(forward_at, c.ForwardArgs, "ragged", lengths_at)
    function: Callable[..., int] = c.library.attnpress_forward
    taken: tuple[int, ...] = (forward_at,)
    if call.appended is not None:
        args = call.appended.args
        append_at = structs.add(args, _APPEND, known)
        if append_at < 0:
            return
        if args.rotary:
            rotary_at = structs.add(args.rotary.contents, _ROTARY, known)
            if rotary_at < 0:
                return
            structs.point(append_at, AppendArgs, "rotary", rotary_at)
        function, taken = call.appended.function, (append_at, forward_at)
    elif request.before is not None:
        return
    image = bytes(structs.image)
    q = given["q"]
    shown = out if q.ndim == out.ndim else out[0]

    def lies_as_q(x: Any) -> bool:
        return bool(q.is_contiguous() and x.shape == q.shape and x.stride() == q.stride())

    plan = _Plan(
        handle=call.handle,
        function=function,
        structs=taken,
        image=image,
        words=(c_size_t * (len(image) // _WORD)).from_buffer_copy,
        slots=tuple((word, _NUMBERS[name]) for word, name in structs.slots),
        inner=tuple(structs.inner),
        out=None if given["out"] is not None else (shown.shape, shown.stride()),
        lse=None if lse is None else lse.shape,
        rotated=None if rotated is None else rotated.shape,
        out_as_q=lies_as_q(shown),
        rotated_as_q=rotated is not None and lies_as_q(rotated),
        workspace_bytes=size,
        groups=call.groups,
    )
    _plans.add(key, plan)
    _keep_quickly(key[1], tensors, plan)


def run(key: tuple[Any, ...], tensors: tuple[Any, ...], stream_of: Any) -> Any:
    """(out, lse) of a call that was kept; None of others. stream_of: of a device's index."""
    plan = _plans.by_key.get(key)
    if plan is None:
        return None
    addresses = [0 if x is None else x.data_ptr() for x in tensors]
    if (addresses[0] | addresses[1] | addresses[2] | addresses[3]) % 16:
        return None
    q, _, _, out = tensors[:4]
    device, dtype = q.device, q.dtype
    if plan.out is not None:
        if plan.out_as_q:
            out = _empty_like(q)
        else:
            out = _empty_strided(*plan.out, dtype=dtype, device=device)
        addresses[3] = out.data_ptr()
    lse = workspace = rotated = None
    if plan.lse is not None:
        lse = _empty(plan.lse, dtype=torch.float32, device=device)
    if plan.workspace_bytes:
        # Freed when this function returns; the allocator gives it to later work of this stream.
        workspace = _empty(plan.workspace_bytes, dtype=torch.uint8, device=device)
    if plan.rotated_as_q:
        rotated = _empty_like(q)
    elif plan.rotated is not None:
        rotated = _empty(plan.rotated, dtype=dtype, device=device)
    addresses += [0 if x is None else x.data_ptr() for x in (workspace, rotated, lse)]
    words = plan.words(plan.image)
    base = addressof(words)
    for word, place in plan.slots:
        words[word] = addresses[place]
    for word, target in plan.inner:
        words[word] = base + target
    structs = [base + at for at in plan.structs]
    on_gpu = device.type == "cuda"
    stream = stream_of(device.index) if on_gpu else None
    handle = plan.handle
    status = plan.function(handle, *structs, stream)
    if status != c.OK:
        backend = c.CUDA if on_gpu else c.CPU
        plan.handle = recover(status, backend, handle, plan.function, *structs, stream)
    if plan.turn != _turn:
        _keep_quickly(key[1], tensors, plan)
    return out, lse


# ---- The quick way -------------------------------------------------------------------------------

_MAX_QUICK = 1024  # all are dropped when there are more, and a turn begins
_FLOATS = PLACES.index("first_positions")  # the tensors before it may record gradients
_quick: dict[bytes, tuple[int, list[object]]] = {}
"""By options, the address of their Replays, and what these point to. Whoever calls the builtin
function holds the pair: another thread may drop it here at any time."""
_quick_count = _turn = 0


def _name_of(options: tuple[Any, ...]) -> bytes:
    """Bytes that tell numbers and their types, as 1 and 1.0 may not be the same to a call."""
    return marshal.dumps(options, 2)  # later versions have references, by counts of them


def _keep_quickly(options: tuple[Any, ...], tensors: tuple[Any, ...], plan: _Plan) -> None:
    global _quick_count, _turn  # noqa: PLW0603
    plan.turn = _turn
    functions, made = _exchange.functions, plan.out is not None
    if functions is None or plan.lse is not None:
        return
    if (made and not plan.out_as_q) or (plan.rotated is not None and not plan.rotated_as_q):
        return
    q = tensors[0]

    def words(pairs: Any) -> Any:
        return (_exchange.ReplayWord * len(pairs))(*pairs)

    replay = _exchange.Replay(
        struct_size=sizeof(_exchange.Replay),
        image=plan.image,
        addresses=words(plan.slots),
        inner=words(plan.inner),
        address_count=len(plan.slots),
        inner_count=len(plan.inner),
        image_bytes=len(plan.image),
        forward=plan.structs[-1],
        append=plan.structs[0] if len(plan.structs) > 1 else -1,
        makes_out=made,
        workspace_bytes=plan.workspace_bytes,
        rotated_bytes=0 if plan.rotated is None else q.numel() * q.element_size(),
    )
    if _quick_count >= _MAX_QUICK:
        _quick.clear()
        _quick_count = 0
        _turn = plan.turn = _turn + 1
    table = _exchange.Replays()
    address, kept = _quick.setdefault(_name_of(options), (addressof(table), [table]))
    kept += [replay, plan]
    _quick_count += 1
    functions.keep(address, addressof(replay), *tensors)


def run_quickly(
    tensors: tuple[Any, ...], options: tuple[Any, ...], current_device: Callable[[], int]
) -> Any:
    """The output of a call that was kept, of ordinary tensors; None of all else."""
    functions = _exchange.functions
    if functions is None or not _quick:
        return None
    try:
        found = _quick.get(_name_of(options))
    except ValueError:  # what is no number
        return None
    if found is None:
        return None
    if _is_grad_enabled():
        for x in tensors[:_FLOATS]:
            if x is not None and getattr(x, "requires_grad", True):
                return None
    return functions.replay(found[0], current_device() if tensors[0].is_cuda else 0, *tensors)
