"""flash-attn's functions of packed tensors, of sequences of their own lengths and of caches, with
its signatures: the arguments are checked here and go to the adapter of their library."""

from __future__ import annotations

from typing import Any, TypeVar

from ._attention import _adapter_of, _adapters, _request_of, _tracing, flash_attn_func
from ._ragged import Ragged, check_array, checked_length, shapes_of
from ._scores import groups_of

Array = TypeVar("Array", bound=Any)
"""torch.Tensor or numpy.ndarray: what comes in goes out."""

_dense: Any = flash_attn_func  # without its overloads, which tell what return_attn_probs gives


def _dimensions(name: str, value: Any, count: int, wanted: str) -> None:
    if getattr(value, "ndim", count) != count:
        raise ValueError(f"{name} has {value.ndim} dimensions; {wanted} is needed")


def _part(name: str, packed: Any, axis: int, parts: int, wanted: str) -> list[Any]:
    """The parts of a packed tensor: views along one of its dimensions."""
    _dimensions(name, packed, len(wanted.split(",")), wanted)
    if packed.shape[axis] != parts:
        raise ValueError(f"{name} has shape {tuple(packed.shape)}; {wanted} is needed")
    index = (slice(None),) * axis
    return [packed[(*index, part)] for part in range(parts)]


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
) -> Any:
    """flash_attn_func of qkv[:, :, 0], qkv[:, :, 1] and qkv[:, :, 2]; qkv: (batch, seqlen, 3,
    heads, head_dim). Nothing is copied, and gradients are as there."""
    _adapter_of(qkv)
    q, k, v = _part("qkv", qkv, 2, 3, "(batch, seqlen, 3, heads, head_dim)")
    return _dense(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
        deterministic, return_attn_probs,
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
) -> Any:
    """flash_attn_func of q, kv[:, :, 0] and kv[:, :, 1]; kv: (batch, seqlen_k, 2, heads_kv,
    head_dim). Nothing is copied, and gradients are as there."""
    _adapter_of(q)
    k, v = _part("kv", kv, 2, 2, "(batch, seqlen_k, 2, heads_kv, head_dim)")
    return _dense(
        q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
        deterministic, return_attn_probs,
    )  # fmt: skip


def _check_arrays(adapter: Any, q: Any, ragged: Ragged) -> None:
    shapes = shapes_of(ragged)
    for name in ragged.names():
        value = ragged.arrays[name] = adapter.int32_array(name, ragged.arrays[name], q)
        check_array(name, value.shape, shapes[name])


def _forward(
    q: Any, k: Any, v: Any, ragged: Ragged, causal: bool, window_size: Any, softcap: float,
    alibi_slopes: Any, s_aux: Any, dropout_p: float, seed: Any, softmax_scale: float | None,
    out: Any, num_splits: int, lse_shape: tuple[int, ...] | None,
    deterministic: bool | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """(out, lse) of q, k, v with a batch dimension each; lse is None where lse_shape is.
    deterministic: None where the call has no gradients."""
    adapter = _adapters.get(type(q)) or _adapter_of(q)
    adapter.checked(q, k, v, softmax_scale)
    records = adapter.needs_grad(q, k, v, s_aux)
    if deterministic is None or "page_table" in ragged.names() or out is not None:
        names = ("out",) if out is not None and deterministic is not None else ragged.names()
        adapter.refuse_grad(names or ("a cache",), q, k, v, alibi_slopes, s_aux)
    _check_arrays(adapter, q, ragged)
    causal, request = _request_of(
        causal, window_size, softcap, alibi_slopes, None, s_aux, dropout_p, seed
    )
    if request is not None:
        adapter.check_no_grad(request)
    groups = None if request is None else groups_of(adapter, request, q, k, ragged.batch)
    if records:
        recorded: tuple[Any, Any] = adapter.recorded_ragged(
            q, k, v, ragged, softmax_scale, causal, groups, num_splits, bool(deterministic)
        )
        return recorded
    result: tuple[Any, Any] = adapter.ragged(
        q, k, v, out, ragged, softmax_scale, causal, groups, num_splits, lse_shape
    )
    return result


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
    s_aux: Array | None = None,
    seqused_k: Array | None = None,
    out: Array | None = None,
    num_splits: int = 0,
    seed: int | tuple[int, int] | Array | None = None,
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
        queries than max_seqlen_q is not computed. A tensor is fetched, which waits for the GPU.
    block_table: (batch, pages of a sequence), int32.
    seqused_k: (batch), int32: of each sequence's keys only the first ones.
    out: where the result is written, (total_q, heads_q, head_dim_v).
    num_splits: parts that the keys of a row are split into; 0: chosen from the bounds.
    The others as in flash_attn_func; a mask, ALiBi and dropout count within the sequence.

    Returns out, or (out, softmax_lse, S_dmask) with return_attn_probs: softmax_lse is (heads_q,
    total_q), S_dmask is empty. Rows that belong to no sequence are not written. Where a PyTorch
    tensor requires grad, out and softmax_lse have gradients by q, k, v and s_aux, which are 0 in
    rows that belong to no sequence; with block_table, or with out, NotImplementedError is
    raised then.
    """
    adapter = _tracing() or _adapter_of(q)
    _dimensions("q", q, 3, "(total_q, heads_q, head_dim)")
    paged = block_table is not None
    wanted = "(pages, page_size, heads_kv, head_dim)" if paged else "(total_k, heads_kv, head_dim)"
    for name, value in (("k", k), ("v", v)):
        _dimensions(name, value, 4 if paged else 3, wanted)
    if cu_seqlens_q is None:
        raise ValueError("cu_seqlens_q is None; it says where the sequences of q begin and end")
    if cu_seqlens_k is None and (seqused_k is None or not paged):
        raise ValueError(
            "cu_seqlens_k is None; it can be only where block_table and seqused_k are given"
        )
    _dimensions("cu_seqlens_q", cu_seqlens_q, 1, "(batch + 1)")
    if adapter.IS_TRACED and not paged and out is None:
        result, lse = adapter.varlen(
            q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_k, max_seqlen_q, max_seqlen_k,
            softmax_scale, causal, window_size, softcap, alibi_slopes, s_aux, dropout_p, seed,
            deterministic, num_splits,
        )  # fmt: skip
        return (result, lse, adapter.empty_like(q)) if return_attn_probs else result
    ragged = Ragged(
        batch=max(cu_seqlens_q.shape[0] - 1, 0),
        max_seqlen_q=checked_length("max_seqlen_q", max_seqlen_q),
        max_seqlen_k=checked_length("max_seqlen_k", max_seqlen_k),
        arrays={
            "cu_seqlens_q": cu_seqlens_q,
            "cu_seqlens_k": cu_seqlens_k,
            "seqused_k": seqused_k,
            "page_table": block_table,
        },
    )
    lse_shape = (q.shape[1], q.shape[0]) if return_attn_probs else None
    result, lse = _forward(
        q[None], k if paged else k[None], v if paged else v[None], ragged, causal, window_size,
        softcap, alibi_slopes, s_aux, dropout_p, seed, softmax_scale,
        None if out is None else out[None], num_splits, lse_shape, deterministic,
    )  # fmt: skip
    result = result[0] if out is None else out
    return (result, lse, _adapter_of(q).empty_like(q)) if return_attn_probs else result


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
    s_aux: Array | None = None,
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

    Returns dq, dk, dv, and with s_aux its gradient, (heads_q). Raises what flash_attn_backward
    does.
    """
    adapter = _tracing() or _adapter_of(q)
    tensors = {"dout": dout, "q": q, "k": k, "v": v, "out": out}
    for name, value in tensors.items():
        _dimensions(name, value, 3, "(total, heads, head_dim)")
    if dropout_p and seed is None:
        raise ValueError(
            f"dropout_p is {dropout_p} and seed is None; the gradients need the seed of the call"
        )
    if adapter.IS_TRACED and gradients is None:
        return adapter.varlen_backward(  # type: ignore[no-any-return]
            dout, dsoftmax_lse, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, seqused_k,
            max_seqlen_q, max_seqlen_k, softmax_scale, causal, window_size, softcap, alibi_slopes,
            s_aux, dropout_p, seed, deterministic,
        )  # fmt: skip
    ragged = Ragged(
        batch=max(cu_seqlens_q.shape[0] - 1, 0),
        max_seqlen_q=checked_length("max_seqlen_q", max_seqlen_q),
        max_seqlen_k=checked_length("max_seqlen_k", max_seqlen_k),
        arrays={
            "cu_seqlens_q": cu_seqlens_q,
            "cu_seqlens_k": cu_seqlens_k,
            "seqused_k": seqused_k,
        },
    )
    dout, q, k, v, out = (x[None] for x in tensors.values())
    adapter.checked(q, k, v, softmax_scale)
    _check_arrays(adapter, q, ragged)
    causal, request = _request_of(
        causal, window_size, softcap, alibi_slopes, None, s_aux, dropout_p, seed
    )
    groups = None if request is None else groups_of(adapter, request, q, k, ragged.batch)
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
) -> Any:
    """flash_attn_varlen_func of qkv[:, 0], qkv[:, 1] and qkv[:, 2]; qkv: (total, 3, heads,
    head_dim). Nothing is copied."""
    _adapter_of(qkv)
    q, k, v = _part("qkv", qkv, 1, 3, "(total, 3, heads, head_dim)")
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, dropout_p, softmax_scale, causal,
        window_size, softcap, alibi_slopes, deterministic, return_attn_probs,
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
) -> Any:
    """flash_attn_varlen_func of q, kv[:, 0] and kv[:, 1]; kv: (total_k, 2, heads_kv, head_dim).
    Nothing is copied."""
    _adapter_of(q)
    k, v = _part("kv", kv, 1, 2, "(total_k, 2, heads_kv, head_dim)")
    return flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
        causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs,
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
    s_aux: Array | None = None,
    out: Array | None = None,
) -> Any:
    """Attention to a cache of keys, with the signature of flash-attn 2's function of this name, and
    more by keyword.

    q: (batch, seqlen_q, heads_q, head_dim). k_cache, v_cache: (batch, seqlen_cache, heads_kv,
    head_dim), or with block_table (pages, page_size, heads_kv, head_dim), pages of any size.

    cache_seqlens: an int, or (batch) int32: rows of the cache that are in use. None: all.
    cache_batch_idx: (batch), int32: the batch of the cache, or the row of block_table, of each.
    cache_leftpad: (batch), int32: the row of the first key, counted in cache_seqlens.
    block_table: (batch, pages of a sequence), int32.
    num_splits: parts that the keys of a row are split into; 0: chosen from shapes.
    out: where the result is written, (batch, seqlen_q, heads_q, head_dim_v).
    The others as in flash_attn_func. Not built yet, and refused: k, v (appending to the cache),
    rotary_cos, rotary_sin.

    Returns out, or (out, softmax_lse) with return_softmax_lse: (batch, heads_q, seqlen_q). There is
    no backward pass.
    """
    adapter = _adapter_of(q)
    for name, value in (("k", k), ("v", v), ("rotary_cos", rotary_cos), ("rotary_sin", rotary_sin)):
        if value is not None:
            raise NotImplementedError(
                f"{name} is given; only None is supported: attnpress.append() writes new keys and "
                "values, with rotary embedding, before this call"
            )
    for name, value in (("q", q), ("k_cache", k_cache), ("v_cache", v_cache)):
        _dimensions(name, value, 4, "(batch, seqlen, heads, head_dim)")
    batch = q.shape[0]
    paged = block_table is not None
    if not paged and cache_batch_idx is None and k_cache.shape[0] != batch:
        raise ValueError(
            f"k_cache has batch {k_cache.shape[0]} and q {batch}; without cache_batch_idx they "
            "must be equal"
        )
    if cache_seqlens is not None and not hasattr(cache_seqlens, "shape"):
        cache_seqlens = adapter.int32_full(batch, checked_length("cache_seqlens", cache_seqlens), q)
    ragged = Ragged(
        batch=batch,
        arrays={
            "seqused_k": cache_seqlens,
            "kv_batch_idx": cache_batch_idx,
            "leftpad_k": cache_leftpad,
            "page_table": block_table,
        },
    )
    lse_shape = (batch, q.shape[2], q.shape[1]) if return_softmax_lse else None
    result, lse = _forward(
        q, k_cache, v_cache, ragged, causal, window_size, softcap, alibi_slopes, s_aux, 0.0, None,
        softmax_scale, out, num_splits, lse_shape,
    )  # fmt: skip
    return (result, lse) if return_softmax_lse else result
