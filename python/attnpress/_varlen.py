"""flash-attn's functions of packed tensors, of sequences of their own lengths and of caches, with
its signatures: the arguments are checked here and go to the adapter of their library."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar

from ._append import BeforeForward, append
from ._attention import (
    _adapter_of,
    _adapters,
    _check_seed,
    _request_of,
    _sinks_of,
    _tracing,
    flash_attn_func,
)
from ._ragged import Ragged, check_array, checked_length, extents_of, shapes_of, splits_of
from ._rows import library_of
from ._score_mod import ScoreMod
from ._scores import groups_of, mask_of, probabilities, window_of

Array = TypeVar("Array", bound=Any)
"""torch.Tensor or numpy.ndarray: what comes in goes out."""

_dense: Any = flash_attn_func  # without its overloads, which tell what return_attn_probs gives


def _dimensions(name: str, value: Any, count: int, wanted: str) -> None:
    if not hasattr(value, "ndim"):
        raise TypeError(
            f"{name} is {type(value).__name__}; PyTorch tensors and NumPy arrays are supported"
        )
    if value.ndim != count:
        raise ValueError(f"{name} has {value.ndim} dimensions; {wanted} is needed")


def _check_out(out: Any, q: Any, v: Any, wanted: str) -> None:
    """By the caller's own shapes: adapters are given a batch dimension more of packed tensors."""
    _dimensions("out", out, len(wanted.split(",")), wanted)
    shape = (*q.shape[:-1], v.shape[-1])
    if tuple(out.shape) != shape:
        raise ValueError(f"out has shape {tuple(out.shape)}; it must be {shape}")


def _part(name: str, packed: Any, axis: int, parts: int, wanted: str) -> list[Any]:
    """The parts of a packed tensor: views along one of its dimensions."""
    _dimensions(name, packed, len(wanted.split(",")), wanted)
    if packed.shape[axis] != parts:
        raise ValueError(f"{name} has shape {tuple(packed.shape)}; {wanted} is needed")
    index = (slice(None),) * axis
    return [packed[(*index, part)] for part in range(parts)]


def _dense_parts(
    q: Any, k: Any, v: Any, dropout_p: float, softmax_scale: float | None, causal: bool,
    window_size: Any, softcap: float, alibi_slopes: Any, deterministic: bool,
    return_attn_probs: bool, s_aux: Any, sinks: Any, bias: Any, score_mod: ScoreMod | None,
    seed: Any, seqused_k: Any, out: Any,
) -> Any:  # fmt: skip
    """flash_attn_func, which has neither seqused_k nor out: with one of these a call of sequences
    that lie as batches."""
    if seqused_k is None and out is None:
        return _dense(
            q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
            deterministic, return_attn_probs, s_aux=s_aux, sinks=sinks, bias=bias,
            score_mod=score_mod, seed=seed,
        )  # fmt: skip
    wanted = "(batch, seqlen, heads, head_dim)"
    _dimensions("q", q, 4, wanted)
    if out is not None:
        _check_out(out, q, v, wanted)
    ragged = Ragged(batch=q.shape[0], arrays={"seqused_k": seqused_k})
    result, lse, _ = _forward(
        q, k, v, ragged, causal, window_size, softcap, alibi_slopes, bias, _sinks_of(s_aux, sinks),
        score_mod, dropout_p, seed, softmax_scale, out, 0,
        (q.shape[0], q.shape[2], q.shape[1]) if return_attn_probs else None, 0,
        None if seqused_k is not None else deterministic,
    )  # fmt: skip
    return (result, lse, _adapter_of(q).empty_like(q)) if return_attn_probs else result


def flash_attn_qkvpacked_func(
    qkv: Array,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    s_aux: Array | None = None,
    sinks: Array | None = None,
    bias: Array | None = None,
    score_mod: ScoreMod | None = None,
    seed: int | tuple[int, int] | Array | None = None,
    seqused_k: Array | None = None,
    out: Array | None = None,
) -> Any:
    """flash_attn_func of qkv[:, :, 0], qkv[:, :, 1] and qkv[:, :, 2]; qkv: (batch, seqlen, 3,
    heads, head_dim). Nothing is copied, and gradients are as there.

    seqused_k: (batch), int32: of each batch's keys only the first ones. out: where the result is
    written, (batch, seqlen, heads, head_dim). With either S_dmask is empty, and NotImplementedError
    is raised where a PyTorch tensor requires grad. The others as in flash_attn_func."""
    _adapter_of(qkv)
    q, k, v = _part("qkv", qkv, 2, 3, "(batch, seqlen, 3, heads, head_dim)")
    return _dense_parts(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
        deterministic, return_attn_probs, s_aux, sinks, bias, score_mod, seed, seqused_k, out,
    )  # fmt: skip


def flash_attn_kvpacked_func(
    q: Array,
    kv: Array,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    s_aux: Array | None = None,
    sinks: Array | None = None,
    bias: Array | None = None,
    score_mod: ScoreMod | None = None,
    seed: int | tuple[int, int] | Array | None = None,
    seqused_k: Array | None = None,
    out: Array | None = None,
) -> Any:
    """flash_attn_func of q, kv[:, :, 0] and kv[:, :, 1]; kv: (batch, seqlen_k, 2, heads_kv,
    head_dim). Nothing is copied, and gradients are as there. seqused_k and out as in
    flash_attn_qkvpacked_func."""
    _adapter_of(q)
    k, v = _part("kv", kv, 2, 2, "(batch, seqlen_k, 2, heads_kv, head_dim)")
    return _dense_parts(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
        deterministic, return_attn_probs, s_aux, sinks, bias, score_mod, seed, seqused_k, out,
    )  # fmt: skip


# What the functions here call the library's arrays.
TABLES = {"page_table": "block_table", "page_table_v": "block_table_v"}
CACHE = {
    **TABLES,
    "seqused_k": "cache_seqlens",
    "kv_batch_idx": "cache_batch_idx",
    "leftpad_k": "cache_leftpad",
}


def _known(q: Any, tensors: tuple[Any, ...], options: tuple[Any, ...]) -> tuple[Any, Any]:
    """What keeps a call, for its adapter to know it again, and the tensors that it made where it is
    known; None for either."""
    adapter = None if _tracing() else _adapters.get(type(q))
    if adapter is None or not hasattr(adapter, "known_unrecorded"):
        return None, None
    known: tuple[Any, Any] = adapter.known_unrecorded(tensors, options)
    return known


def _packed(cu_seqlens_q: Any, max_seqlen_q: Any, max_seqlen_k: Any, **arrays: Any) -> Ragged:
    """Sequences of a q in which they lie one after the other."""
    return Ragged(
        batch=max(cu_seqlens_q.shape[0] - 1, 0),
        max_seqlen_q=checked_length("max_seqlen_q", max_seqlen_q),
        max_seqlen_k=checked_length("max_seqlen_k", max_seqlen_k),
        arrays={"cu_seqlens_q": cu_seqlens_q, **arrays},
        said=TABLES,
    )


def _check_arrays(adapter: Any, q: Any, ragged: Ragged) -> None:
    for name in ragged.names():
        said = ragged.said.get(name, name)
        ragged.arrays[name] = adapter.int32_array(said, ragged.arrays[name], q)
    shapes = shapes_of(ragged)
    for name in ragged.names():
        check_array(ragged.said.get(name, name), ragged.arrays[name].shape, shapes[name])


def _forward(
    q: Any, k: Any, v: Any, ragged: Ragged, causal: bool, window_size: Any, softcap: float,
    alibi_slopes: Any, bias: Any, s_aux: Any, score_mod: ScoreMod | None, dropout_p: float,
    seed: Any, softmax_scale: float | None, out: Any, num_splits: int,
    lse_shape: tuple[int, ...] | None, chunk: int = 0, deterministic: bool | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """(out, lse, the call) of q, k, v with a batch dimension each; lse is None where lse_shape is,
    and the call is (causal, request or None, groups or None). deterministic: None where the call
    has no gradients."""
    adapter = _adapters.get(type(q)) or _adapter_of(q)
    adapter.checked(q, k, v, softmax_scale)
    own = score_mod.tensors if isinstance(score_mod, ScoreMod) else ()
    records = adapter.needs_grad(q, k, v, s_aux, bias, *own)
    if deterministic is None or "page_table" in ragged.names() or out is not None:
        names = tuple(ragged.said.get(name, name) for name in ragged.names())
        if out is not None and deterministic is not None:
            names = ("out",)
        adapter.refuse_grad(names or ("a cache",), q, k, v, alibi_slopes, bias, s_aux, *own)
    _check_arrays(adapter, q, ragged)
    causal, request = _request_of(
        causal, window_size, softcap, alibi_slopes, bias, s_aux, dropout_p, seed, chunk,
        score_mod=score_mod,
    )  # fmt: skip
    if request is not None:
        if s_aux is not None:
            request = dataclasses.replace(request, sinks_name="s_aux")
        adapter.check_no_grad(request)
    extents = extents_of(ragged, q.shape, k.shape)
    groups = None if request is None else groups_of(adapter, request, q, k, extents)
    if records:
        ragged.arrays.pop("schedule", None)  # the backward pass has orders of its own
        recorded: tuple[Any, Any] = adapter.recorded_ragged(
            q, k, v, ragged, softmax_scale, causal, groups, num_splits, bool(deterministic)
        )
        return (*recorded, (causal, request, groups))
    result: tuple[Any, Any] = adapter.ragged(
        q, k, v, out, ragged, softmax_scale, causal, groups, num_splits, lse_shape
    )
    return (*result, (causal, request, groups))


def _part_of_bias(bias: Any, b: int, queries: int, keys: int) -> Any:
    """A sequence's, (1, heads or 1, queries or 1, keys or 1)."""
    whole = bias.reshape((1,) * (4 - bias.ndim) + tuple(bias.shape))
    first = b if whole.shape[0] > 1 else 0
    return whole[first : first + 1, :, : max(queries, 0), : max(keys, 0)]


def _dropped(
    adapter: Any, q: Any, k: Any, lse: Any, ragged: Ragged, call: Any, softmax_scale: float | None
) -> Any:
    """S_dmask, as flash_attn_func's, of sequences that lie one after the other: (batch, heads_q,
    longest of q, longest of k), 0 past the ends. Reads the lengths on the host."""
    causal, request, groups = call
    begin_q, begin_k = (ragged.arrays[name].tolist() for name in ("cu_seqlens_q", "cu_seqlens_k"))
    lengths = [(max(j - i, 0) for i, j in zip(x, x[1:])) for x in (begin_q, begin_k)]
    longest_q, longest_k = (max(each, default=0) for each in lengths)
    p = adapter.zeros((ragged.batch, q.shape[1], longest_q, longest_k), q)
    slopes = request.alibi_slopes
    for b in range(ragged.batch):
        rows, keys = slice(*begin_q[b : b + 2]), slice(*begin_k[b : b + 2])
        one = request
        if slopes is not None and len(slopes.shape) == 2:
            one = dataclasses.replace(request, alibi_slopes=slopes[b])
        if request.bias is not None:
            part = _part_of_bias(request.bias, b, rows.stop - rows.start, keys.stop - keys.start)
            one = dataclasses.replace(one, bias=part)
        found = probabilities(
            adapter, one, causal, softmax_scale, q[None, rows], k[None, keys], lse[None, :, rows]
        )[0]
        p[b, :, : found.shape[1], : found.shape[2]] = found
    return adapter.signed(p, adapter.dropout_mask(p.swapaxes(1, 2), longest_k, groups), q)


def _check_tables(table: Any, table_v: Any, indptr: Any) -> None:
    for name, value in (("block_table_v", table_v), ("page_indptr", indptr)):
        if value is not None and table is None:
            raise ValueError(f"{name} is given and block_table is None; it goes with a table")


def flash_attn_varlen_func(
    q: Array,
    k: Array,
    v: Array,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array | None,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Array | None = None,
    *,
    bias: Array | None = None,
    score_mod: ScoreMod | None = None,
    s_aux: Array | None = None,
    seqused_q: Array | None = None,
    seqused_k: Array | None = None,
    leftpad_k: Array | None = None,
    block_table_v: Array | None = None,
    page_indptr: Array | None = None,
    chunk: int = 0,
    out: Array | None = None,
    num_splits: int = 0,
    seed: int | tuple[int, int] | Array | None = None,
    batch_invariant: bool = False,
    schedule: Array | None = None,
) -> Any:
    """Attention of sequences that lie one after the other, with the signature of flash-attn 2's
    function of this name, and more by keyword.

    q: (total_q, heads_q, head_dim), k: (total_k, heads_kv, head_dim), v: (total_k, heads_kv,
    head_dim_v), PyTorch tensors or NumPy arrays as in flash_attn_func. Sequence b has rows
    cu_seqlens[b] to cu_seqlens[b + 1] - 1. With block_table k and v are (pages, page_size,
    heads_kv, head_dim), pages of any size.

    cu_seqlens_q, cu_seqlens_k: (batch + 1), int32. With block_table cu_seqlens_k gives lengths
        alone, and may be None where seqused_k says them.
    max_seqlen_q, max_seqlen_k: bounds of the lengths; 0: whatever there is. A sequence with more
        queries than max_seqlen_q is not computed; with batch_invariant one with more keys than
        max_seqlen_k counts as one with none. A tensor is fetched, which waits for the GPU.
    block_table: (batch, pages of a sequence), int32. block_table_v: V's, where its pages differ.
        page_indptr: (batch + 1), int32: block_table is flat, (pages of all), and sequence b has
        its entries page_indptr[b] to page_indptr[b + 1] - 1.
    seqused_q, seqused_k: (batch), int32: of each sequence's queries, or keys, only the first ones.
    leftpad_k: (batch), int32: the first key of each, counted in its keys.
    bias: (batch, heads_q, max_seqlen_q, max_seqlen_k), or what broadcasts to it, or larger in the
        last two: the score of a sequence's query and key, counted within it, has its number,
        query and key. A sequence with more keys than max_seqlen_k then counts as one with none.
    score_mod: as in flash_attn_func; b is the sequence's number, and h, q, k, q_len and k_len
        count within the sequence. No key block is skipped by its mask.
    chunk: as in attnpress.forward.
    out: where the result is written, (total_q, heads_q, head_dim_v).
    num_splits: parts that the keys of a row are split into; 0: chosen from the bounds.
    schedule: (1 + 2 batch), int32, what forward_schedule gives; where gradients are recorded it is
        not used.
    batch_invariant: each row of out and softmax_lse has the same bits whatever else is in the call:
        alone, in any batch, and however its sequence's queries are cut into calls. Without dropout,
        bias and score_mod.
    The others as in flash_attn_func; a mask, ALiBi and dropout count within the sequence.

    Returns out, or (out, softmax_lse, S_dmask) with return_attn_probs: softmax_lse is (heads_q,
    total_q). S_dmask is empty without dropout, in graphs, and with seqused, leftpad_k, pages or
    chunk; else it is as in flash_attn_func, for tests: (batch, heads_q, longest of q, longest of
    k), 0 past the ends, of lengths that are read on the host. Rows that belong to no sequence are
    not written. Where a PyTorch tensor requires grad, out and softmax_lse have gradients by q, k,
    v, bias, s_aux and the tensors of score_mod, which are 0 in rows that belong to no sequence, and
    in what of a bias is past the ends; with block_table or out, NotImplementedError is raised then.
    """
    num_splits = splits_of(num_splits, batch_invariant)
    tensors = (
        q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, leftpad_k, block_table,
        block_table_v, page_indptr, schedule, alibi_slopes, bias, s_aux,
    )  # fmt: skip
    asked, again = None, None
    if score_mod is None and dropout_p == 0:
        options = (
            "varlen", softmax_scale, causal, num_splits, window_size, softcap, chunk, max_seqlen_q,
            max_seqlen_k, return_attn_probs,
        )  # fmt: skip
        asked, again = _known(q, tensors, options)
    if again is not None:
        return (*again, q.new_empty(0)) if return_attn_probs else again[0]
    adapter = _tracing() or _adapter_of(q)
    _dimensions("q", q, 3, "(total_q, heads_q, head_dim)")
    paged = block_table is not None
    wanted = "(pages, page_size, heads_kv, head_dim)" if paged else "(total_k, heads_kv, head_dim)"
    for name, value in (("k", k), ("v", v)):
        _dimensions(name, value, 4 if paged else 3, wanted)
    if out is not None:
        _check_out(out, q, v, "(total_q, heads_q, head_dim_v)")
    if cu_seqlens_q is None:
        raise ValueError("cu_seqlens_q is None; it says where the sequences of q begin and end")
    if cu_seqlens_k is None and (seqused_k is None or not paged):
        raise ValueError(
            "cu_seqlens_k is None; it can be only where block_table and seqused_k are given"
        )
    _dimensions("cu_seqlens_q", cu_seqlens_q, 1, "(batch + 1)")
    if adapter.IS_TRACED and (bias is not None or score_mod is not None):
        raise NotImplementedError(
            f"{'bias' if bias is not None else 'score_mod'} of sequences is not known in graphs "
            "(torch.compile, export, fake tensors): call it eagerly"
        )
    if score_mod is not None and dropout_p and return_attn_probs:
        raise NotImplementedError(
            "return_attn_probs with dropout and score_mod: S_dmask is computed anew by PyTorch, "
            "which runs no snippet; call without return_attn_probs"
        )
    if adapter.IS_TRACED and not paged and out is None:
        result, lse = adapter.varlen(
            q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_k, max_seqlen_q, max_seqlen_k,
            softmax_scale, causal, window_size, softcap, alibi_slopes, s_aux, dropout_p, seed,
            deterministic, num_splits,
        )  # fmt: skip
        return (result, lse, adapter.empty_like(q)) if return_attn_probs else result
    ragged = _packed(
        cu_seqlens_q, max_seqlen_q, max_seqlen_k, cu_seqlens_k=cu_seqlens_k, seqused_q=seqused_q,
        seqused_k=seqused_k, leftpad_k=leftpad_k, page_table=block_table,
        page_table_v=block_table_v, page_indptr=page_indptr, schedule=schedule,
    )  # fmt: skip
    ragged.asked, ragged.is_packed, ragged.given_out = asked, True, out
    _check_tables(block_table, block_table_v, page_indptr)
    lse_shape = (q.shape[1], q.shape[0]) if return_attn_probs else None
    result, lse, call = _forward(
        q[None], k if paged else k[None], v if paged else v[None], ragged, causal, window_size,
        softcap, alibi_slopes, bias, s_aux, score_mod, dropout_p, seed, softmax_scale,
        None if out is None else out[None], num_splits, lse_shape, chunk, deterministic,
    )  # fmt: skip
    result = result[0] if out is None else out
    if not return_attn_probs:
        return result
    adapter = _adapter_of(q)
    names = tuple(name for name in ragged.names() if name != "schedule")
    plain = names == ("cu_seqlens_q", "cu_seqlens_k") and not chunk
    if not (dropout_p and plain):
        return result, lse, adapter.empty_like(q)
    return result, lse, _dropped(adapter, q, k, lse, ragged, call, softmax_scale)


def flash_attn_varlen_backward(
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    softmax_lse: Array,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float | None = None,
    causal: bool = False,
    deterministic: bool = False,
    dsoftmax_lse: Array | None = None,
    *,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Array | None = None,
    bias: Array | None = None,
    s_aux: Array | None = None,
    score_mod: ScoreMod | None = None,
    seqused_k: Array | None = None,
    dropout_p: float = 0.0,
    seed: int | tuple[int, int] | Array | None = None,
    gradients: tuple[Array, Array, Array] | None = None,
) -> tuple[Array, ...]:
    """The gradients by q, k and v, and by s_aux, of a loss whose gradient by out is dout: what
    autograd gives after flash_attn_varlen_func, whose arguments these are, with what it returned.

    softmax_lse, dsoftmax_lse: (heads_q, total_q), fp32. A sequence with more keys than max_seqlen_k
    counts as one with none. seed: that of the call; None is refused where there is dropout.
    gradients: three PyTorch tensors that dq, dk and dv are written to, where rows that belong to no
    sequence are left as they are. None: new ones, with zeros there.

    Returns dq, dk, dv, and with s_aux its gradient, (heads_q). The gradient by a bias is autograd's
    alone. Raises what flash_attn_backward does.
    """
    adapter = _tracing() or _adapter_of(q)
    tensors = {"dout": dout, "q": q, "k": k, "v": v, "out": out}
    for name, value in tensors.items():
        _dimensions(name, value, 3, "(total, heads, head_dim)")
    _check_seed(dropout_p, seed)
    if adapter.IS_TRACED and (bias is not None or score_mod is not None):
        raise NotImplementedError(
            f"{'bias' if bias is not None else 'score_mod'} of sequences is not known in graphs "
            "(torch.compile, export, fake tensors): call it eagerly"
        )
    if adapter.IS_TRACED and gradients is None:
        return adapter.varlen_backward(  # type: ignore[no-any-return]
            dout, dsoftmax_lse, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, seqused_k,
            max_seqlen_q, max_seqlen_k, softmax_scale, causal, window_size, softcap, alibi_slopes,
            s_aux, dropout_p, seed, deterministic,
        )  # fmt: skip
    ragged = _packed(
        cu_seqlens_q, max_seqlen_q, max_seqlen_k, cu_seqlens_k=cu_seqlens_k, seqused_k=seqused_k
    )
    dout, q, k, v, out = (x[None] for x in tensors.values())
    adapter.checked(q, k, v, softmax_scale)
    _check_arrays(adapter, q, ragged)
    causal, request = _request_of(
        causal, window_size, softcap, alibi_slopes, bias, s_aux, dropout_p, seed,
        score_mod=score_mod,
    )  # fmt: skip
    extents = extents_of(ragged, q.shape, k.shape)
    groups = None if request is None else groups_of(adapter, request, q, k, extents)
    options: dict[str, Any] = {}
    if gradients is not None:
        options["given"] = tuple(x[None] for x in gradients)
    found = adapter.backward(
        dout, q, k, v, out, softmax_lse, softmax_scale, causal, bool(deterministic), dsoftmax_lse,
        groups, ragged, **options,
    )  # fmt: skip
    return (*(x[0] for x in found[:3]), *found[3:])


def flash_attn_varlen_qkvpacked_func(
    qkv: Array,
    cu_seqlens: Array,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    bias: Array | None = None,
    score_mod: ScoreMod | None = None,
    s_aux: Array | None = None,
    seqused_q: Array | None = None,
    seqused_k: Array | None = None,
    leftpad_k: Array | None = None,
    chunk: int = 0,
    out: Array | None = None,
    num_splits: int = 0,
    seed: int | tuple[int, int] | Array | None = None,
    batch_invariant: bool = False,
    schedule: Array | None = None,
) -> Any:
    """flash_attn_varlen_func of qkv[:, 0], qkv[:, 1] and qkv[:, 2]; qkv: (total, 3, heads,
    head_dim). Nothing is copied."""
    _adapter_of(qkv)
    q, k, v = _part("qkv", qkv, 1, 3, "(total, 3, heads, head_dim)")
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p, softmax_scale, causal,
        window_size, softcap, alibi_slopes, deterministic, return_attn_probs, bias=bias,
        score_mod=score_mod, s_aux=s_aux, seqused_q=seqused_q, seqused_k=seqused_k,
        leftpad_k=leftpad_k, chunk=chunk, out=out, num_splits=num_splits, seed=seed,
        batch_invariant=batch_invariant, schedule=schedule,
    )  # fmt: skip


def flash_attn_varlen_kvpacked_func(
    q: Array,
    kv: Array,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    bias: Array | None = None,
    score_mod: ScoreMod | None = None,
    s_aux: Array | None = None,
    seqused_q: Array | None = None,
    seqused_k: Array | None = None,
    leftpad_k: Array | None = None,
    chunk: int = 0,
    out: Array | None = None,
    num_splits: int = 0,
    seed: int | tuple[int, int] | Array | None = None,
    batch_invariant: bool = False,
    schedule: Array | None = None,
) -> Any:
    """flash_attn_varlen_func of q, kv[:, 0] and kv[:, 1]; kv: (total_k, 2, heads_kv, head_dim).
    Nothing is copied."""
    _adapter_of(q)
    k, v = _part("kv", kv, 1, 2, "(total_k, 2, heads_kv, head_dim)")
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
        causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs, bias=bias,
        score_mod=score_mod, s_aux=s_aux, seqused_q=seqused_q, seqused_k=seqused_k,
        leftpad_k=leftpad_k, chunk=chunk, out=out, num_splits=num_splits, seed=seed,
        batch_invariant=batch_invariant, schedule=schedule,
    )  # fmt: skip


def flash_attn_with_kvcache(
    q: Array,
    k_cache: Array,
    v_cache: Array,
    k: Array | None = None,
    v: Array | None = None,
    rotary_cos: Array | None = None,
    rotary_sin: Array | None = None,
    cache_seqlens: int | Array | None = None,
    cache_batch_idx: Array | None = None,
    cache_leftpad: Array | None = None,
    block_table: Array | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Array | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
    *,
    bias: Array | None = None,
    score_mod: ScoreMod | None = None,
    s_aux: Array | None = None,
    cu_seqlens_q: Array | None = None,
    cu_seqlens_k_new: Array | None = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: Array | None = None,
    block_table_v: Array | None = None,
    page_indptr: Array | None = None,
    chunk: int = 0,
    out: Array | None = None,
    batch_invariant: bool = False,
    schedule: Array | None = None,
) -> Any:
    """Attention to a cache of keys, with the signature of flash-attn 2's function of this name, and
    more by keyword.

    q: (batch, seqlen_q, heads_q, head_dim). k_cache, v_cache: (batch, seqlen_cache, heads_kv,
    head_dim), or with block_table (pages, page_size, heads_kv, head_dim), pages of any size.

    k, v: new keys and values, (batch, seqlen_new, heads_kv, head_dim), written behind those that
        cache_seqlens counts, which must be given then; attention is to both. A token for which the
        cache has no room is not written, and its sequence counts as empty.
    rotary_cos, rotary_sin: (positions, rotary_dim / 2), float32 or of q's dtype; with k alone. New
        keys are rotated before they are written, in the first rotary_dim columns, by the positions
        cache_seqlens, cache_seqlens + 1 and so on; queries too where there is a causal mask, a
        window or chunks; without them all queries are at position cache_seqlens. q is not changed.
    rotary_interleaved: columns 2 i and 2 i + 1 are a pair; False: i and i + rotary_dim / 2.
    cache_seqlens: an int, or (batch) int32: rows of the cache that are in use. None: all.
    cache_batch_idx: (batch), int32: the batch of the cache, or the row of block_table, of each.
    cache_leftpad: (batch), int32: the row of the first key, counted in cache_seqlens.
    block_table: (batch, pages of a sequence), int32. block_table_v: V's, where its pages differ.
        page_indptr: as in flash_attn_varlen_func.
    num_splits: parts that the keys of a row are split into; 0: chosen from shapes.
    batch_invariant: as in flash_attn_varlen_func, whose rows over the same keys have the same bits.
    schedule: as in flash_attn_varlen_func.
    cu_seqlens_q: (batch + 1), int32: q is (total_q, heads_q, head_dim), as in
        flash_attn_varlen_func, and max_seqlen_q a bound of the lengths, which is not needed, and
        not read further than to be 0 or more, where q has a batch.
    cu_seqlens_k_new: the same of k and v, (total_new, heads_kv, head_dim); ignored without k.
    rotary_seqlens: (batch), int32: positions that count instead of cache_seqlens.
    bias, score_mod: as in flash_attn_varlen_func; a bias has as many columns as a sequence may have
        keys: seqlen_cache, or page_size times block_table's pages of a sequence.
    chunk: as in attnpress.forward.
    out: where the result is written, q's shape with v's head dim.
    The others as in flash_attn_func.

    Returns out, or (out, softmax_lse) with return_softmax_lse: (batch, heads_q, seqlen_q), with
    cu_seqlens_q (heads_q, total_q). There is no backward pass. An error of an argument leaves the
    cache as it was.
    """
    if batch_invariant or num_splits or num_splits.__class__ is not int:
        num_splits = splits_of(num_splits, batch_invariant)
    if max_seqlen_q is not None:
        max_seqlen_q = checked_length("max_seqlen_q", max_seqlen_q)
        if cu_seqlens_q is None:
            max_seqlen_q = None
    is_plain = (
        k is v is rotary_cos is rotary_sin is rotary_seqlens is cu_seqlens_q is max_seqlen_q is None
        and cache_batch_idx is cache_leftpad is block_table_v is page_indptr is schedule is None
        and alibi_slopes is bias is score_mod is s_aux is cu_seqlens_k_new is out is None
        and not (return_softmax_lse or softcap or chunk)
        and (window_size == (-1, -1) or window_of(window_size) == (-1, -1))
    )
    if is_plain:
        quick = _adapters.get(type(q))
        if quick is not None and hasattr(quick, "cache_quickly"):
            causal = bool(causal)
            places = q, k_cache, v_cache, cache_seqlens, block_table
            result = quick.cache_quickly(*places, softmax_scale, causal, num_splits)
            if result is not None:
                return result
    tensors = (
        q, k_cache, v_cache, out, k, v, rotary_cos, rotary_sin, rotary_seqlens, cu_seqlens_q,
        cu_seqlens_k_new, cache_seqlens, cache_leftpad, cache_batch_idx, block_table, block_table_v,
        page_indptr, schedule, alibi_slopes, bias, s_aux,
    )  # fmt: skip
    options = (
        "cache", softmax_scale, causal, num_splits, window_size, softcap, chunk, max_seqlen_q,
        rotary_interleaved, return_softmax_lse, cu_seqlens_k_new is cu_seqlens_q,
    )  # fmt: skip
    has_number = cache_seqlens is not None and not hasattr(cache_seqlens, "shape")
    asked, again = None, None
    if score_mod is None and not has_number:
        asked, again = _known(q, tensors, options)
    if again is not None:
        return again if return_softmax_lse else again[0]
    adapter = _adapter_of(q)
    packed = cu_seqlens_q is not None
    wanted = "(total_q, heads_q, head_dim)" if packed else "(batch, seqlen, heads, head_dim)"
    _dimensions("q", q, 3 if packed else 4, wanted)
    for name, value in (("k_cache", k_cache), ("v_cache", v_cache)):
        _dimensions(name, value, 4, "(batch, seqlen, heads, head_dim)")
    if out is not None:
        _check_out(out, q, v_cache, wanted)
    if packed:
        _dimensions("cu_seqlens_q", cu_seqlens_q, 1, "(batch + 1)")
    batch = q.shape[0] if cu_seqlens_q is None else max(cu_seqlens_q.shape[0] - 1, 0)
    paged = block_table is not None
    _check_tables(block_table, block_table_v, page_indptr)
    if not paged and cache_batch_idx is None and k_cache.shape[0] != batch:
        raise ValueError(
            f"k_cache has batch {k_cache.shape[0]} and q {batch}; without cache_batch_idx they "
            "must be equal"
        )
    if has_number:
        used = checked_length("cache_seqlens", cache_seqlens)
        if used >= 1 << 31:
            raise ValueError(f"cache_seqlens is {used}; it must be less than 2^31")
        cache_seqlens = adapter.int32_full(batch, used, q)
        tensors = (*tensors[:11], cache_seqlens, *tensors[12:])
        if score_mod is None:
            asked, again = _known(q, tensors, options)
        if again is not None:
            return again if return_softmax_lse else again[0]
    arrays = {
        "cu_seqlens_q": cu_seqlens_q,
        "seqused_k": cache_seqlens,
        "kv_batch_idx": cache_batch_idx,
        "leftpad_k": cache_leftpad,
        "page_table": block_table,
        "page_table_v": block_table_v,
        "page_indptr": page_indptr,
        "schedule": schedule,
    }
    ragged = Ragged(
        batch=batch, arrays=arrays, said=CACHE, asked=asked, is_packed=packed,
        given_out=out, is_plain=is_plain,
    )  # fmt: skip
    if packed and max_seqlen_q is not None:
        ragged.max_seqlen_q = max_seqlen_q
    if k is None:
        alone: tuple[tuple[str, Any], ...] = (
            ("v", v), ("rotary_cos", rotary_cos), ("rotary_sin", rotary_sin),
            ("rotary_seqlens", rotary_seqlens),
        )  # fmt: skip
        for name, given in alone:
            if given is not None:
                raise ValueError(f"{name} is given and k is None; it goes with new keys alone")
        read: Any = q
    else:
        masked = any(mask_of(bool(causal), window_size, chunk))
        read = _append_before(
            ragged, q, k, v, k_cache, v_cache, cu_seqlens_k_new, rotary_cos, rotary_sin,
            rotary_seqlens, rotary_interleaved, not masked,
        )  # fmt: skip
    lse_shape = None
    if return_softmax_lse:
        lse_shape = (q.shape[1], q.shape[0]) if packed else (batch, q.shape[2], q.shape[1])
    result, lse, _ = _forward(
        read[None] if packed else read, k_cache, v_cache, ragged, causal, window_size, softcap,
        alibi_slopes, bias, s_aux, score_mod, 0.0, None, softmax_scale,
        out[None] if packed and out is not None else out, num_splits, lse_shape, chunk,
    )  # fmt: skip
    if packed:
        result = result[0] if out is None else out
    return (result, lse) if return_softmax_lse else result


def _append_before(
    ragged: Ragged, q: Any, k: Any, v: Any, k_cache: Any, v_cache: Any, cu_seqlens: Any, cos: Any,
    sin: Any, first_positions: Any, interleaved: bool, q_at_first: bool,
) -> Any:  # fmt: skip
    """What attention is to read for q: q, or a tensor that the rotated q will be written to. The
    request learns of the new keys, and of what writes them before the call."""
    arrays = ragged.arrays
    used, cu_seqlens_q = arrays["seqused_k"], arrays["cu_seqlens_q"]
    if v is None:
        raise ValueError("k is given and v is None; they come together")
    if used is None:
        raise ValueError(
            "k is given and cache_seqlens is None; it says where in the cache new keys begin"
        )
    wanted = "(batch, seqlen_new, heads_kv, head_dim)"
    if cu_seqlens is not None:
        wanted = "(total_new, heads_kv, head_dim)"
    for name, value in (("k", k), ("v", v)):
        _dimensions(name, value, len(wanted.split(",")), wanted)
    if cu_seqlens is not None:
        arrays["cu_seqlens_k_new"] = cu_seqlens
    elif k.shape[0] != ragged.batch:
        raise ValueError(f"k has batch {k.shape[0]} and q {ragged.batch}; they must be equal")
    else:
        ragged.seqlen_k_new = k.shape[1]
    _adapter_of(q).refuse_grad(("new keys",), q, k, v, k_cache, v_cache)
    places = {
        "seqused_k": used,
        "cu_seqlens": cu_seqlens,
        "kv_batch_idx": arrays["kv_batch_idx"],
        "page_table": arrays["page_table"],
        "page_table_v": arrays["page_table_v"],
        "page_indptr": arrays["page_indptr"],
    }
    if cos is None and sin is None:
        if first_positions is not None:
            raise ValueError("rotary_seqlens is given and rotary_cos is None; it goes with rotary")
        ragged.before = functools.partial(append, k, v, k_cache, v_cache, **places)
        ragged.appended = functools.partial(BeforeForward, k, v, k_cache, v_cache, **places)
        return q
    if cos is None or sin is None:
        raise ValueError(
            f"rotary_{'sin' if cos is None else 'cos'} is given alone; rotary_cos and rotary_sin "
            "are both needed"
        )
    rotary = {
        "cos": cos,
        "sin": sin,
        "first_positions": first_positions,
        "q_at_first": q_at_first,
        "interleaved": interleaved,
    }
    library = library_of("q", q)
    rotated = ragged.rotated = library.empty(tuple(q.shape), q.dtype, q)
    same_tokens = cu_seqlens is cu_seqlens_q and tuple(q.shape[:-2]) == tuple(k.shape[:-2])

    def before() -> None:
        if same_tokens:
            append(k, v, k_cache, v_cache, q=q, q_out=rotated, **places, **rotary)
            return
        append(k, v, k_cache, v_cache, **places, **rotary)
        queries = {"seqused_k": used, "cu_seqlens": cu_seqlens_q}
        append(None, None, None, None, q=q, q_out=rotated, **queries, **rotary)

    ragged.before = before
    if same_tokens:
        ragged.appended = functools.partial(
            BeforeForward, k, v, k_cache, v_cache, q=q, q_out=rotated, **places, **rotary
        )
    return rotated
