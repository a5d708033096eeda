"""Sequences of their own lengths: the arguments of one call, filled from what the adapters say of
tensors. Knows neither NumPy nor PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import addressof, c_size_t, sizeof
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import _library as c
from ._backward import Layout
from ._scores import Groups

if TYPE_CHECKING:
    from ._append import BeforeForward


@dataclass
class Ragged:
    """What a call says of its sequences, by attnpress_ragged's names; tensors of int32 or None."""

    batch: int
    max_seqlen_q: int = 0
    max_seqlen_k: int = 0
    seqlen_k_new: int = 0
    arrays: dict[str, Any] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    """What the caller calls the arrays, where that is another name."""
    before: Callable[[], Any] | None = None
    """What is done when the call has been checked, and before it: it writes to k and v."""
    appended: Callable[[], BeforeForward] | None = None
    """Where that is one call of append(): what makes it and the call's own as one."""
    rotated: Any = None
    """What is read for q, where `before` writes it."""
    asked: Any = None
    """What keeps the call, where its adapter is to know it again (_replay.py); is_packed: q and out
    have a dimension less for the caller; given_out: the caller's."""
    is_packed: bool = False
    given_out: Any = None
    is_plain: bool = False
    """Of a call over a cache: it has neither new keys nor features, and no room for its output."""

    def names(self) -> tuple[str, ...]:
        return tuple(name for name, value in self.arrays.items() if value is not None)

    def layouts(self, layout: Callable[[Any], Layout]) -> dict[str, Layout]:
        """Where the arrays lie."""
        return {name: layout(self.arrays[name]) for name in self.names()}


def checked_length(name: str, value: Any) -> int:
    """A bound of lengths: an int, or a tensor of one, whose value is fetched."""
    try:
        number = int(value)
        # Of a tensor the comparison would be another launch.
        whole = not isinstance(value, (float, str)) or number == value
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole:
        raise TypeError(f"{name} is {value!r}; it must be a whole number") from None
    if number < 0:
        raise ValueError(f"{name} is {number}; it must be 0 or more")
    return number


def extents_of(ragged: Ragged, q: Sequence[int], k: Sequence[int]) -> tuple[int, int, int]:
    """Sequences, and the most queries and keys of one, as the library bounds them; q, k: shapes."""
    table = ragged.arrays.get("page_table")
    rows = k[1] if table is None else k[1] * table.shape[-1]
    rows = rows if k[0] else 0

    def bounded(bound: int, most: int) -> int:
        return bound if 0 < bound < most else most

    return ragged.batch, bounded(ragged.max_seqlen_q, q[1]), bounded(ragged.max_seqlen_k, rows)


def shapes_of(ragged: Ragged) -> dict[str, tuple[Any, ...]]:
    """The shape of each array; None where any extent will do."""
    batch = ragged.batch
    arrays = ragged.arrays
    rows = None if arrays.get("kv_batch_idx") is not None else batch
    flat = arrays.get("page_indptr") is not None
    table = arrays.get("page_table")
    return {
        "cu_seqlens_q": (batch + 1,),
        "cu_seqlens_k": (batch + 1,),
        "cu_seqlens_k_new": (batch + 1,),
        "seqused_q": (batch,),
        "seqused_k": (batch,),
        "leftpad_k": (batch,),
        "kv_batch_idx": (batch,),
        "page_table": (None,) if flat else (rows, None),
        "page_table_v": () if table is None else tuple(table.shape),
        "page_indptr": (batch + 1,),
        "schedule": (1 + 2 * batch,),
    }


FIXED_SPLITS = -(2**31)  # num_splits of a batch-invariant call


def splits_of(num_splits: int, batch_invariant: bool) -> int:
    """What stands for both; ValueError where they do not go together."""
    num_splits = c.whole_number("num_splits", num_splits)
    if batch_invariant and num_splits not in (0, FIXED_SPLITS):
        raise ValueError(
            f"num_splits is {num_splits} with batch_invariant, which splits keys at fixed places; "
            "it must be 0"
        )
    return FIXED_SPLITS if batch_invariant else num_splits


def check_array(name: str, shape: Sequence[int], allowed: Sequence[int | None]) -> None:
    """ValueError unless the shape is the allowed one."""
    fits = len(shape) == len(allowed) and all(
        want in (None, have) for have, want in zip(shape, allowed)
    )
    if not fits:
        raise ValueError(f"{name} has shape {tuple(shape)}; it must be {c.shape_text(allowed)}")


def check_in_place(*tensors: tuple[str, Any, Any]) -> None:
    """ValueError where one that is written would be read from a copy: name, tensor, its reading."""
    for name, value, seen in tensors:
        if seen is not value:
            raise ValueError(
                f"{name}, of shape {tuple(value.shape)}, cannot be written and read where it lies: "
                "its last dimension must be contiguous, the other strides multiples of 8 elements, "
                "and the data aligned to 16 bytes"
            )


def check_tables_alike(
    stride: int, stride_v: int, names: tuple[str, str] = ("page_table", "page_table_v")
) -> None:
    """ValueError where the rows of the table of V's pages do not lie as those of page_table do;
    names: what the caller calls the two."""
    if stride != stride_v:
        raise ValueError(
            f"{names[1]} has rows {stride_v} apart and {names[0]} {stride}; they must be equal"
        )


def struct_of(ragged: Ragged, arrays: dict[str, Layout]) -> c.Ragged:
    """The group as the library takes it; arrays: what ragged.layouts() gives."""
    group = c.Ragged(struct_size=sizeof(c.Ragged), batch=ragged.batch)
    group.max_seqlen_q = ragged.max_seqlen_q
    group.max_seqlen_k = ragged.max_seqlen_k
    group.seqlen_k_new = ragged.seqlen_k_new
    for name, (address, shape, stride) in arrays.items():
        setattr(group, name, address or None)
        if name == "page_table" and len(shape) == 2:
            group.page_table_rows, group.page_table_pages = shape
            group.page_table_stride = stride[0] if shape[0] > 1 else 0
        elif name == "page_table":
            group.page_table_pages = shape[0]
        elif name == "schedule":
            group.schedule_bytes = 4 * shape[0]
    if "page_table_v" in arrays:
        (_, shape, stride), other = arrays["page_table"], arrays["page_table_v"].stride
        if len(shape) == 2 and shape[0] > 1:
            said = ragged.said.get
            names = said("page_table", "page_table"), said("page_table_v", "page_table_v")
            check_tables_alike(stride[0], other[0], names)
    return group


class Call:
    """One call: its argument struct and all that it points to."""

    def __init__(
        self,
        handle: int,
        dtype: int,
        layouts: Sequence[Layout],
        lse: int,
        ragged: Ragged,
        arrays: dict[str, Layout],
        scale: float | None,
        causal: bool,
        groups: Groups | None,
        num_splits: int,
    ) -> None:
        """layouts: of q, k, v and out; arrays: what ragged.layouts() gives."""
        self.groups = groups  # kept as long as the call
        self.handle = handle
        args = self.struct = c.ForwardArgs(struct_size=sizeof(c.ForwardArgs))
        args.scale = scale or 0.0
        if scale is not None and args.scale == 0.0:
            raise ValueError(f"softmax_scale is {scale}; it is 0 in single precision")
        args.mask = c.CAUSAL if causal else c.FULL
        args.num_splits = 0 if num_splits == FIXED_SPLITS else num_splits
        args.batch_invariant = num_splits == FIXED_SPLITS
        args.lse = lse or None
        if groups is not None:
            groups.put_into(args)
        for tensor, (address, shape, stride) in zip((args.q, args.k, args.v, args.out), layouts):
            tensor.data = address or None
            tensor.dtype = dtype
            tensor.shape[:] = shape
            tensor.stride[:] = stride
        self.ragged = struct_of(ragged, arrays)
        args.ragged = addressof(self.ragged)
        self.appended: BeforeForward | None = None
        """What runs it, where it appends as well."""

    def workspace_bytes(self) -> int:
        """Checks the call, too."""
        size = c_size_t()
        c.check(c.workspace_bytes(self.handle, bytes(self.struct), size))
        return size.value

    def run(self, workspace: int, workspace_bytes: int, stream: int | None) -> int:
        """The status."""
        self.struct.workspace = workspace or None
        self.struct.workspace_bytes = workspace_bytes
        if self.appended is not None:
            return self.appended.run(self.handle, bytes(self.struct), stream)
        status: int = c.library.attnpress_forward(self.handle, bytes(self.struct), stream)
        return status
