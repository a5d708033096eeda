"""New keys and values, written to their place in a cache, with rotary embeddings. Mirrors
include/attnpress/append.h."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    pointer,
    sizeof,
)
from typing import Any, TypeVar

from . import _library as c
from ._ragged import check_tables_alike
from ._rows import declared, library_of
from ._strided import Arguments

Array = TypeVar("Array")
"""torch.Tensor or numpy.ndarray."""


class Rotary(Structure):
    """attnpress_rotary"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("cos", c_void_p),
        ("sin", c_void_p),
        ("num_positions", c_int64),
        ("stride", c_int64),
        ("positions", c_void_p),
        ("rotary_dim", c_int32),
        ("dtype", c_int32),
        ("interleaved", c_int32),
        ("reserved", c_int32),
        ("first_positions", c_void_p),
        ("q_at_first", c_int32),
        ("reserved_2", c_int32),
    ]


class AppendArgs(Structure):
    """attnpress_append_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("k_new", c.Tensor),
        ("v_new", c.Tensor),
        ("k_cache", c.Tensor),
        ("v_cache", c.Tensor),
        ("q", c.Tensor),
        ("q_out", c.Tensor),
        ("cu_seqlens_new", c_void_p),
        ("batch", c_int64),
        ("seqused_k", c_void_p),
        ("kv_batch_idx", c_void_p),
        ("page_table", c_void_p),
        ("max_pages", c_int64),
        ("page_table_stride", c_int64),
        ("slot_mapping", c_void_p),
        ("rotary", POINTER(Rotary)),
        ("page_table_rows", c_int64),
        ("page_table_v", c_void_p),
        ("page_indptr", c_void_p),
    ]


@functools.cache
def _function() -> Callable[..., int]:
    return declared("attnpress_append")


@functools.cache
def _function_with_forward() -> Callable[..., int]:
    return declared("attnpress_append_forward", [c_void_p, c_void_p])


def append(
    k: Array | None,
    v: Array | None,
    k_cache: Array | None,
    v_cache: Array | None,
    *,
    q: Array | None = None,
    q_out: Array | None = None,
    seqused_k: Array | None = None,
    cu_seqlens: Array | None = None,
    kv_batch_idx: Array | None = None,
    page_table: Any = None,
    page_table_v: Any = None,
    page_indptr: Array | None = None,
    slot_mapping: Array | None = None,
    cos: Array | None = None,
    sin: Array | None = None,
    positions: Array | None = None,
    first_positions: Array | None = None,
    q_at_first: bool = False,
    interleaved: bool = False,
) -> Array | None:
    """Writes new keys and values to their place in a cache; with `cos` and `sin`, k is rotated, and
    q too, which then is what is returned.

    k, v: PyTorch tensors (fp16, bf16, fp32, on a GPU or the CPU) or NumPy arrays (float16, float32,
    bfloat16 of ml_dtypes), (batch, new, heads, head_dim), or (total, heads, head_dim) of ragged
    sequences; k and k_cache, or v and v_cache, may be None. q: the same tokens, rotated where it
    lies, or into q_out. All have one dtype, and any strides that leave the last dimension
    contiguous.

    Token i of sequence b stands at n = seqused_k[b] + i, or i without seqused_k. It is written

    - to k_cache[b, n], or k_cache[kv_batch_idx[b], n]: (entries, rows, heads, head_dim);
    - with page_table (batch, pages) to k_cache[page_table[b, n // page_size], n % page_size]:
      (pages, page_size, heads, head_dim); b is kv_batch_idx[b] where that is given; with
      page_indptr, (batch + 1), the table is flat, (pages of all), and sequence b has its entries
      page_indptr[b] to page_indptr[b + 1] - 1; with page_table_v V's pages are others;
    - with slot_mapping, (batch, new) or (total), to row slot_mapping of either, counted through.

    A token whose place is not in the cache (a negative slot, say) is not written. cu_seqlens,
    (batch + 1): where ragged sequences begin; without it they are one.

    cos, sin: (positions, rotary_dim / 2), float32 or of k's dtype; the first rotary_dim columns are
    rotated in pairs, i and i + rotary_dim / 2, or, if `interleaved`, 2 i and 2 i + 1. positions:
    (batch, new) or (total); first_positions: (batch), of each sequence's first token, behind which
    the others follow; neither: n. A token whose position is not in the tables is skipped. With
    q_at_first all queries of a sequence stand at its first token.

    Index arrays are int32, slot_mapping int64, all where k is. On a GPU the work is queued on the
    current stream. Returns the rotated q, or None. Raises ValueError or TypeError for arguments
    that are not allowed, attnpress.Error for a call that failed, NotImplementedError where
    gradients would be recorded.
    """
    name, first = _first_of(k, v, q)
    asked, made = library_of(name, first).known(
        ("append", q_at_first, interleaved), k, v, k_cache, v_cache, q, q_out, seqused_k,
        cu_seqlens, kv_batch_idx, page_table, page_table_v, page_indptr, slot_mapping, cos, sin,
        positions, first_positions,
    )  # fmt: skip
    if made is not None:
        return q if q_out is None else q_out
    given, args = prepared(
        k, v, k_cache, v_cache, q=q, q_out=q_out, seqused_k=seqused_k, cu_seqlens=cu_seqlens,
        kv_batch_idx=kv_batch_idx, page_table=page_table, page_table_v=page_table_v,
        page_indptr=page_indptr, slot_mapping=slot_mapping, cos=cos, sin=sin, positions=positions,
        first_positions=first_positions, q_at_first=q_at_first, interleaved=interleaved,
    )  # fmt: skip
    pointed = [args.rotary.contents] if args.rotary else []
    given.library.run(_function(), args, given.first, asked, pointed=pointed)
    return q if q_out is None else q_out


def _first_of(k: Any, v: Any, q: Any) -> tuple[str, Any]:
    """What the other tensors are measured by, and its name."""
    for name, value in (("k", k), ("v", v), ("q", q)):
        if value is not None:
            return name, value
    raise ValueError("k, v and q are None; there is nothing to do")


def prepared(
    k: Any, v: Any, k_cache: Any, v_cache: Any, *, q: Any = None, q_out: Any = None,
    seqused_k: Any = None, cu_seqlens: Any = None, kv_batch_idx: Any = None,
    page_table: Any = None, page_table_v: Any = None, page_indptr: Any = None,
    slot_mapping: Any = None, cos: Any = None, sin: Any = None, positions: Any = None,
    first_positions: Any = None, q_at_first: bool = False, interleaved: bool = False,
) -> tuple[Arguments, AppendArgs]:  # fmt: skip
    """The argument struct of such a call, and what has to be alive as long."""
    name, first = _first_of(k, v, q)
    given = Arguments(name, first)
    ragged = len(getattr(first, "shape", ())) == 3
    tokens = tuple(first.shape[: 1 if ragged else 2])
    given.refuse_grad(k, v, k_cache, v_cache, q, q_out)
    args = AppendArgs(struct_size=sizeof(AppendArgs))
    for field, label, value in (("k_new", "k", k), ("v_new", "v", v)):
        if value is not None:
            setattr(args, field, given.tensor(label, value, ragged=ragged))
    for field, value in (("k_cache", k_cache), ("v_cache", v_cache)):
        if value is not None:
            setattr(args, field, given.tensor(field, value, written=True))
    _give_q(given, args, q, q_out, ragged)
    batch = _give_sequences(given, args, tokens, cu_seqlens, ragged)
    args.seqused_k = given.numbers("seqused_k", seqused_k, "int32", (batch,))
    args.kv_batch_idx = given.numbers("kv_batch_idx", kv_batch_idx, "int32", (batch,))
    args.slot_mapping = given.numbers("slot_mapping", slot_mapping, "int64", tokens)
    _give_pages(given, args, page_table, page_table_v, page_indptr, batch)
    rotary = _rotary_of(given, cos, sin, positions, tokens, interleaved)
    if rotary is not None:
        rotary.first_positions = given.numbers(
            "first_positions", first_positions, "int32", (batch,)
        )
        rotary.q_at_first = int(bool(q_at_first))
        args.rotary = pointer(rotary)
    elif first_positions is not None:
        raise ValueError("first_positions is given and cos and sin are not")
    return given, args


class BeforeForward:
    """Such a call and then one of attention, as one."""

    def __init__(self, *tensors: Any, **rest: Any) -> None:
        self.given, self.args = prepared(*tensors, **rest)
        self.function = _function_with_forward()

    def run(self, handle: int, forward: bytes, stream: int | None) -> int:
        """The status. forward: attention's struct."""
        return self.function(handle, byref(self.args), forward, stream)


def _give_q(given: Arguments, args: AppendArgs, q: Any, q_out: Any, ragged: bool) -> None:
    if q is not None:
        args.q = given.tensor("q", q, written=q_out is None, ragged=ragged)
    if q_out is not None:
        args.q_out = given.tensor("q_out", q_out, written=True, ragged=ragged)


def _give_pages(
    given: Arguments, args: AppendArgs, table: Any, table_v: Any, indptr: Any, batch: int
) -> None:
    if table is None:
        if table_v is not None or indptr is not None:
            name = "page_table_v" if indptr is None else "page_indptr"
            raise ValueError(f"{name} is given and page_table is not; it goes with a table")
        return
    if indptr is not None:
        args.page_indptr = given.numbers("page_indptr", indptr, "int32", (batch + 1,))
        shape: tuple[int | None, ...] = (None,)
    else:
        shape = (None if args.kv_batch_idx else batch, None)
    args.page_table, args.page_table_stride = given.table("page_table", table, shape)
    args.max_pages = table.shape[-1]
    if indptr is None:
        args.page_table_rows = table.shape[0]
    if table_v is not None:
        args.page_table_v, stride = given.table("page_table_v", table_v, tuple(table.shape))
        check_tables_alike(args.page_table_stride, stride)


def _give_sequences(
    given: Arguments, args: AppendArgs, tokens: Sequence[int], cu_seqlens: Any, ragged: bool
) -> int:
    """The number of sequences."""
    if cu_seqlens is None:
        return 1 if ragged else tokens[0]
    if not ragged:
        raise ValueError(
            f"cu_seqlens is given and {given.name} has shape {tuple(given.first.shape)}; ragged "
            "tensors are (total, heads, head_dim)"
        )
    args.cu_seqlens_new = given.numbers("cu_seqlens", cu_seqlens, "int32", (None,))
    if cu_seqlens.shape[0] == 0:
        raise ValueError("cu_seqlens is empty; it has one entry more than there are sequences")
    batch: int = cu_seqlens.shape[0] - 1
    args.batch = batch
    return batch


def _rotary_of(
    given: Arguments,
    cos: Any,
    sin: Any,
    positions: Any,
    tokens: Sequence[int],
    interleaved: bool,
) -> Rotary | None:
    if cos is None and sin is None:
        if positions is not None:
            raise ValueError("positions is given and cos and sin are not")
        return None
    if cos is None or sin is None:
        raise ValueError(f"{'sin' if cos is None else 'cos'} is given alone; both are needed")
    library = given.library
    for name, table in (("cos", cos), ("sin", sin)):
        given.check_kind(name, table)
        if len(table.shape) != 2 or tuple(table.shape) != tuple(cos.shape):
            raise ValueError(
                f"{name} has shape {tuple(table.shape)}; cos and sin must both be (positions, "
                "rotary_dim / 2)"
            )
        if table.dtype != cos.dtype:
            raise ValueError(f"sin is {sin.dtype} and cos {cos.dtype}; they must be equal")
    strides = [tuple(library.strides(table)) for table in (cos, sin)]
    alike = strides[0] == strides[1] and strides[0][1] == 1 and strides[0][0] > 0
    if not (
        alike and all(getattr(t, "flags", None) is None or t.flags.aligned for t in (cos, sin))
    ):
        cos, sin = library.contiguous(cos), library.contiguous(sin)
    given.kept += [cos, sin]
    rotary = Rotary(struct_size=sizeof(Rotary), interleaved=int(bool(interleaved)))
    rotary.cos, rotary.sin = library.address(cos) or None, library.address(sin) or None
    rotary.num_positions, rotary.rotary_dim = cos.shape[0], 2 * cos.shape[1]
    rotary.stride = library.strides(cos)[0]
    rotary.dtype = library.dtype("cos", cos)
    rotary.positions = given.numbers("positions", positions, "int32", tokens)
    return rotary
