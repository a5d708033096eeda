"""What is done to scores: from what a caller asks for to the C structs of one call. Knows neither
NumPy nor PyTorch: the adapters say where a tensor lies."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Sequence
from ctypes import addressof, sizeof
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _library as c
from ._score_mod import ScoreMod, fill


@dataclass(frozen=True)
class Request:
    """Beside q, k, v, scale and whether the mask is causal or full."""

    window: tuple[int, int, int, int] | None = None  # left, right, chunk, top_left
    softcap: float = 0.0
    alibi_slopes: Any = None
    bias: Any = None
    sinks: Any = None
    dropout_p: float = 0.0
    seed: Any = None  # an int, a pair, a tensor of two, or None: drawn
    score_mod: ScoreMod | None = None
    sinks_name: str = "sinks"  # in errors: the caller's

    def asks(self) -> bool:
        """False where it is plain attention."""
        return bool(self.features)

    @property
    def features(self) -> tuple[str, ...]:
        """What is asked for, by the callers' names."""
        left, right, chunk, top_left = self.window or (-1, -1, 0, 0)
        asked = {
            "window_size": left != -1 or right > 0,
            "chunk": chunk > 0,
            "top_left": top_left,
            "softcap": self.softcap > 0,
            "alibi_slopes": self.alibi_slopes is not None,
            "bias": self.bias is not None,
            "sinks": self.sinks is not None,
            "dropout_p": self.dropout_p > 0,
            "score_mod": self.score_mod is not None,
        }
        return tuple(name for name, is_asked in asked.items() if is_asked)

    @property
    def tensors(self) -> tuple:
        own = () if self.score_mod is None else self.score_mod.tensors
        return (self.alibi_slopes, self.bias, self.sinks, *own)


class View(NamedTuple):
    """A tensor as the library sees it."""

    value: Any  # keeps the memory
    address: int
    shape: Sequence[int]
    stride: Sequence[int]  # in elements, not negative
    dtype: int


# ---- Numbers -------------------------------------------------------------------------------------


def _whole(name: str, value: Any, least: int, allowed: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} is {value!r}; {allowed}")
    return number


def window_of(window_size: Any) -> tuple[int, int]:
    allowed = "two whole numbers are needed, each 0 keys or more, or -1 for all"
    try:
        sides = tuple(window_size)
    except TypeError:
        raise TypeError(
            f"window_size is {window_size!r}; it must be a pair (left, right)"
        ) from None
    if len(sides) != 2:
        raise ValueError(f"window_size is {window_size!r}; {allowed}")
    try:
        left, right = (_whole("window_size", side, -1, allowed) for side in sides)
    except ValueError as error:  # the pair is printed here alone: a graph's numbers cannot be
        raise ValueError(f"{error} (window_size is {window_size!r})") from None
    return left, right


def mask_of(
    causal: bool, window_size: Sequence[int], chunk: int = 0, top_left: bool = False
) -> tuple[bool, tuple[int, int, int, int] | None]:
    """Whether the mask is the causal one, and the window where it is neither that nor full. A
    causal window sees nothing behind the query."""
    left, right = window_of(window_size)
    if causal:
        right = 0
    chunk = _whole("chunk", chunk, 0, "it must be the keys of a chunk, or 0 for no chunks")
    if chunk == 0 and left == -1 and (right == -1 or (right == 0 and not top_left)):
        return right == 0, None
    return False, (left, right, chunk, int(bool(top_left)))


def softcap_of(softcap: float) -> float:
    softcap = c.real_number("softcap", softcap)
    if not (softcap >= 0 and math.isfinite(softcap)):
        raise ValueError(f"softcap is {softcap}; it must be positive and finite, or 0 for none")
    return softcap


def probability_of(dropout_p: float) -> float:
    dropout_p = c.real_number("dropout_p", dropout_p)
    if not 0 <= dropout_p < 1:
        raise ValueError(f"dropout_p is {dropout_p}; it must be 0 to less than 1")
    return dropout_p


# ---- Groups --------------------------------------------------------------------------------------

_MASK_64 = (1 << 64) - 1
_POINTERS = struct.Struct("5P")  # to the groups, which lie together
_NAMES = ("window", "alibi", "bias", "sinks", "dropout")
_MOD_POINTER = struct.Struct("P")  # the one that lies apart
_OFFSETS = {
    kind: (kind.window.offset, kind.score_mod.offset) for kind in (c.ForwardArgs, c.BackwardArgs)
}


class Groups:
    """The groups of one call as C structs, alive as long as this is."""

    __slots__ = (
        "backward_templates",
        "bias",
        "buffers",
        "dropout_p",
        "forward_templates",
        "key",
        "kept",
        "seed",
        "sinks",
        "softcap",
        "structs",
    )

    def __init__(self) -> None:
        self.structs: dict[str, Any] = {}
        self.kept: list[Any] = []  # what they point to
        self.key: tuple = ()  # what a plan depends on
        self.softcap = 0.0
        self.dropout_p = 0.0
        self.sinks: Any = None  # as they were given
        self.bias: Any = None
        self.buffers: tuple[Any, ...] = ()  # of a snippet, in its order
        self.seed: Any = None  # a tensor of the caller's, which may change after the call
        self.forward_templates: Any = None  # of _exchange, where calls with these groups have them
        self.backward_templates: Any = None

    def addresses(self) -> list[int]:
        return [addressof(self.structs[n]) if n in self.structs else 0 for n in _NAMES]

    def put_into(self, args: c.ForwardArgs | c.BackwardArgs) -> None:
        """Mask, softcap, and pointers to the groups."""
        args.softcap = self.softcap
        if self.softcap and args.softcap == 0.0:
            raise ValueError(f"softcap is {self.softcap}; it is 0 in single precision")
        if "window" in self.structs:
            args.mask = c.WINDOW
        for name, address in zip(_NAMES, self.addresses()):
            setattr(args, name, address or None)
        args.score_mod = self._mod_address() or None

    def _mod_address(self) -> int:
        return addressof(self.structs["score_mod"]) if "score_mod" in self.structs else 0

    def point_from(
        self, args: bytes, kind: type[c.ForwardArgs] | type[c.BackwardArgs] = c.ForwardArgs
    ) -> bytes:
        """A call's own argument struct, whose groups are these."""
        begin, mod_begin = _OFFSETS[kind]
        end = begin + _POINTERS.size
        args = args[:begin] + _POINTERS.pack(*self.addresses()) + args[end:]
        if "score_mod" not in self.structs:
            return args
        mod = _MOD_POINTER.pack(self._mod_address())
        return args[:mod_begin] + mod + args[mod_begin + _MOD_POINTER.size :]


def _group(groups: Groups, name: str, kind: type, **fields: Any) -> Any:
    group = kind(struct_size=sizeof(kind), **fields)
    groups.structs[name] = group
    return group


def _add_alibi(groups: Groups, view: View, batch: int, heads: int, readable) -> None:
    name = "alibi_slopes"
    if tuple(view.shape) not in ((heads,), (batch, heads)):
        raise ValueError(
            f"{name} has shape {tuple(view.shape)}; it must be (heads,), ({heads},), or (batch, "
            f"heads), ({batch}, {heads})"
        )
    if view.dtype != c.FP32:
        raise ValueError(f"{name} must be float32, one slope a head")
    if view.stride[-1] == 0 and heads > 1:  # which would mean something else
        view = readable(view)
    group = _group(groups, "alibi", c.Alibi, slopes=view.address)
    group.stride[:] = (0, view.stride[-1]) if len(view.shape) == 1 else view.stride
    if heads == 1 and group.stride[1] == 0:
        group.stride[1] = 1
    groups.kept.append(view.value)


def _add_bias(groups: Groups, view: View, extents: Sequence[int], bounds: bool) -> None:
    """extents: batch, heads, seqlen_q, seqlen_k; bounds: of lengths, which the bias may exceed."""
    missing = 4 - len(view.shape)
    shape = [1] * missing + list(view.shape)
    stride = [0] * missing + list(view.stride)

    def fits(i: int) -> bool:
        more = bounds and i >= 2 and shape[i] > extents[i]
        return shape[i] in (1, extents[i]) or more

    if missing < 0 or not all(fits(i) for i in range(4)):
        least = "the bounds of the lengths or more, " if bounds else ""
        raise ValueError(
            f"bias has shape {tuple(view.shape)}; it must be (batch, heads, seqlen_q, seqlen_k), "
            f"{least}{tuple(extents)}, where 1 broadcasts"
        )
    for i in range(4):
        if shape[i] == 1:
            stride[i] = 0
        if i >= 2:
            shape[i] = max(shape[i], extents[i]) if bounds else extents[i]
    group = _group(groups, "bias", c.Bias, data=view.address, dtype=view.dtype)
    group.shape[:] = shape
    group.stride[:] = stride
    groups.kept.append(view.value)


def _add_sinks(groups: Groups, view: View, heads: int, readable, name: str) -> None:
    if tuple(view.shape) != (heads,):
        raise ValueError(f"{name} has shape {tuple(view.shape)}; it must be (heads,), ({heads},)")
    if view.stride[0] == 0 and heads > 1:
        view = readable(view)
    _group(
        groups, "sinks", c.Sinks, data=view.address, stride=view.stride[0] or 1, dtype=view.dtype
    )
    groups.kept.append(view.value)


def _add_dropout(groups: Groups, adapter, request: Request, like) -> None:
    group = _group(groups, "dropout", c.Dropout, probability=request.dropout_p)
    groups.dropout_p = request.dropout_p
    if group.probability >= 1.0:
        raise ValueError(f"dropout_p is {request.dropout_p}; it is 1 in single precision")
    seed = request.seed
    if seed is None:
        seed = adapter.draw_seed(like)
    if isinstance(seed, (int, tuple, list)):
        pair = (seed, 0) if isinstance(seed, int) else tuple(seed)
        if len(pair) != 2 or not all(isinstance(part, int) for part in pair):
            raise ValueError(f"seed is {seed!r}; it must be an int, or two: seed and offset")
        group.seed, group.offset = (part & _MASK_64 for part in pair)
    else:
        group.seed_and_offset = adapter.seed_address(seed, like)
        groups.seed = request.seed
        groups.kept.append(seed)


def groups_of(
    adapter, request: Request, q, k, sequences: tuple[int, int, int] | None = None
) -> Groups:
    """The groups of a call on q and k, which were checked; None where the request has neither
    tensors nor dropout. A tensor that the library cannot read as it lies is copied. sequences: of a
    ragged call, what extents_of() gives."""
    groups = Groups()
    groups.softcap = request.softcap
    if q is not None:
        heads = q.shape[2]
        batch, seqlen_q, seqlen_k = sequences or (q.shape[0], q.shape[1], k.shape[1])

    def view(name: str, value) -> View:
        return adapter.view(name, value, q)

    def readable(seen: View) -> View:
        return adapter.contiguous_view(seen.value)

    if request.window is not None:
        left, right, chunk, top_left = request.window
        _group(groups, "window", c.Window, left=left, right=right, chunk=chunk, top_left=top_left)
    if request.alibi_slopes is not None:
        seen = view("alibi_slopes", request.alibi_slopes)
        _add_alibi(groups, seen, batch, heads, readable)
    if request.bias is not None:
        extents = (batch, heads, seqlen_q, seqlen_k)
        _add_bias(groups, view("bias", request.bias), extents, sequences is not None)
        groups.bias = request.bias
    if request.sinks is not None:
        name = request.sinks_name
        _add_sinks(groups, view(name, request.sinks), heads, readable, name)
        groups.sinks = request.sinks
    if request.dropout_p:
        _add_dropout(groups, adapter, request, q)
    mod_key = None
    if request.score_mod is not None:
        group, kept, mod_key = fill(
            request.score_mod, lambda name, value: adapter.view(name, value, q, True)
        )
        groups.structs["score_mod"] = group
        groups.buffers = request.score_mod.tensors
        groups.kept += kept
    bias = groups.structs.get("bias")
    groups.key = (
        request.window,
        request.softcap,
        request.alibi_slopes is not None,
        None if bias is None else bias.dtype,
        request.sinks is not None,
        request.dropout_p > 0,
        mod_key,
    )
    return groups


def mask_args(shape: Sequence[int], address: int, groups: Groups) -> c.DropoutMaskArgs:
    """The arguments of attnpress_dropout_mask() for a contiguous tensor of bytes."""
    args = c.DropoutMaskArgs(struct_size=sizeof(c.DropoutMaskArgs), keep=address or None)
    args.dropout = addressof(groups.structs["dropout"])
    args.shape[:] = shape
    return args


# ---- Probabilities, for tests --------------------------------------------------------------------


def probabilities(adapter, request: Request, causal: bool, scale: float | None, q, k, lse):
    """The probabilities before dropout, (batch, heads_q, seqlen_q, seqlen_k) in fp32, computed anew
    from a call's `lse`: slow, and as large as that."""
    library, floats = adapter.library, adapter.floats
    batch, seqlen_q, heads, dim = q.shape
    seqlen_k, heads_kv = k.shape[1:3]
    grouped = floats(q).reshape(batch, seqlen_q, heads_kv, heads // heads_kv, dim)
    scores = library.einsum("bikgd,bjkd->bkgij", grouped, floats(k))
    scores = scores.reshape(batch, heads, seqlen_q, seqlen_k) * (scale or dim**-0.5)
    distance = adapter.positions(seqlen_q, q)[:, None] + seqlen_k - seqlen_q
    distance = distance - adapter.positions(seqlen_k, q)[None, :]
    if request.softcap:
        scores = request.softcap * library.tanh(scores / request.softcap)
    if request.bias is not None:
        scores = scores + floats(request.bias)
    if request.alibi_slopes is not None:
        scores = scores - request.alibi_slopes[..., None, None] * abs(distance)
    left, right = (-1, 0 if causal else -1) if request.window is None else request.window[:2]
    seen = lse[..., None] > -math.inf
    if left >= 0:
        seen = seen & (distance <= left)
    if right >= 0:
        seen = seen & (-distance <= right)
    none = library.zeros_like(scores)
    p = library.exp(library.where(seen, scores - lse[..., None], none))
    return library.where(seen, p, none)
