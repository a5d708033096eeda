"""FlashAttention-3's module of this name, with its literal signatures, on attnpress's kernels.

Refused by name: fp8 and its q_descale, k_descale, v_descale; qv; ragged lengths in
_flash_attn_backward, which autograd of flash_attn_varlen_func has gradients of.
pack_gqa and sm_margin change nothing: attnpress chooses them itself; so do num_splits outside of
flash_attn_with_kvcache. scheduler_metadata changes no result.

Errors are RuntimeErrors, and ValueErrors or NotImplementedErrors with them.
"""

from __future__ import annotations

import math
from typing import Any

import torch

import attnpress

from ..flash_attn_interface import (
    maybe_contiguous,
    not_here,
    of_attnpress,
    only_known,
    refuse,
    round_multiple,
    run,
    run_backward,
    window_of,
)

__all__ = [
    "flash_attn_combine",
    "flash_attn_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "get_scheduler_metadata",
    "maybe_contiguous",
    "round_multiple",
]

_FP8 = tuple(
    getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)
)


def _check(*tensors: torch.Tensor | None, **refused: Any) -> None:
    """NotImplementedError for fp8 tensors and for what is refused by name."""
    for tensor in tensors:
        if tensor is not None and tensor.dtype in _FP8:
            not_here("fp8", f"a tensor is {tensor.dtype}; float16 and bfloat16 are supported")
    for name, value in refused.items():
        if value is not None:
            not_here(name, f"{name} is a {type(value).__name__}; only None is allowed")


def metadata_of(
    batch_size: int,
    max_seqlen_q: Any,
    max_seqlen_k: Any,
    cache_seqlens: Any,
    qkv_dtype: torch.dtype,
    cu_seqlens_q: torch.Tensor | None,
    cu_seqlens_k_new: torch.Tensor | None,
    cache_leftpad: torch.Tensor | None,
    max_seqlen_k_new: Any,
) -> torch.Tensor:
    """What get_scheduler_metadata() gives, once its arguments are checked. Its bounds are no
    promises here: a sequence that passes them comes last, and its result is the same."""
    if qkv_dtype in _FP8:
        not_here("fp8", f"qkv_dtype is {qkv_dtype}; float16 and bfloat16 are supported")
    if not isinstance(cache_seqlens, torch.Tensor):
        refuse(f"cache_seqlens is {cache_seqlens!r}; it must be a tensor of int32")
    if cache_seqlens.dtype != torch.int32 or tuple(cache_seqlens.shape) != (batch_size,):
        refuse(
            f"cache_seqlens is {tuple(cache_seqlens.shape)} of {cache_seqlens.dtype}; it must be "
            f"(batch_size), ({batch_size},), of torch.int32"
        )
    new = int(max_seqlen_k_new or 0)
    return attnpress.forward_schedule(
        max(int(max_seqlen_q), 1), max(int(max_seqlen_k) + new, 1), cu_seqlens_q=cu_seqlens_q,
        seqused_k=cache_seqlens, leftpad_k=cache_leftpad, cu_seqlens_k_new=cu_seqlens_k_new,
        seqlen_k_new=new if cu_seqlens_k_new is None else 0,
    )  # fmt: skip


def schedule_in(
    scheduler_metadata: torch.Tensor | None, batch: int, like: torch.Tensor
) -> torch.Tensor | None:
    """The schedule, if it is one of as many sequences; None for another library's."""
    refuse_metadata(scheduler_metadata)
    if scheduler_metadata is None or tuple(scheduler_metadata.shape) != (1 + 2 * batch,):
        return None
    return scheduler_metadata if scheduler_metadata.device == like.device else None


def refuse_metadata(scheduler_metadata: Any) -> None:
    """Anything that no library's get_scheduler_metadata() gives."""
    if scheduler_metadata is not None and (
        not isinstance(scheduler_metadata, torch.Tensor) or scheduler_metadata.dtype != torch.int32
    ):
        refuse(
            f"scheduler_metadata is {getattr(scheduler_metadata, 'dtype', scheduler_metadata)!r}; "
            "it must be None, or what get_scheduler_metadata() gives, int32"
        )


def _chunk_of(attention_chunk: int) -> int:
    if attention_chunk < 0:
        refuse(f"attention_chunk is {attention_chunk}; it must be the keys of a chunk, or 0")
    return attention_chunk


def _dense(
    q, k, v, softmax_scale, causal, window_size, attention_chunk, softcap, deterministic
) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, softmax_lse), with gradients where attnpress has them. V's head dim may be its own."""
    hdim_v = v.shape[-1]
    if q.shape[-1] % 8 or hdim_v % 8:
        softmax_scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
        q, k, v = (torch.nn.functional.pad(x, (0, -x.shape[-1] % 8)) for x in (q, k, v))
    out, lse = run(
        attnpress.forward, q, k, v, softmax_scale=softmax_scale, causal=causal,
        window_size=window_of(*window_size), chunk=_chunk_of(attention_chunk),
        softcap=softcap if softcap > 0 else 0.0, deterministic=deterministic,
    )  # fmt: skip
    return (out if out.shape[-1] == hdim_v else out[..., :hdim_v]), lse


def flash_attn_func(
    q,
    k,
    v,
    softmax_scale=None,
    causal=False,
    qv=None,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    window_size=(-1, -1),
    attention_chunk=0,
    softcap=0.0,
    num_splits=1,
    pack_gqa=None,
    deterministic=False,
    sm_margin=0,
    return_attn_probs=False,
):
    """q: (batch, seqlen_q, heads_q, head_dim), k: (batch, seqlen_k, heads_kv, head_dim), v: (batch,
    seqlen_k, heads_kv, head_dim_v). Returns out, or (out, softmax_lse) where return_attn_probs."""
    _check(q, k, v, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    out, lse = _dense(
        q, k, v, softmax_scale, causal, window_size, attention_chunk, softcap, deterministic
    )
    return (out, lse) if return_attn_probs else out


def flash_attn_qkvpacked_func(
    qkv,
    softmax_scale=None,
    causal=False,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    window_size=(-1, -1),
    attention_chunk=0,
    softcap=0.0,
    deterministic=False,
    num_heads_q=None,
    sm_margin=0,
    return_attn_probs=False,
):
    """flash_attn_func of qkv's parts: (batch, seqlen, 3, heads, head_dim), or (batch, seqlen,
    num_heads_q + 2 heads_kv, head_dim)."""
    if qkv.dim() == 5:
        if qkv.shape[2] != 3:
            refuse(f"qkv is {tuple(qkv.shape)}; its dimension 2 must be 3")
        q, k, v = qkv.unbind(dim=2)
    elif qkv.dim() == 4 and num_heads_q is not None:
        heads_kv, rest = divmod(qkv.shape[2] - num_heads_q, 2)
        if rest or heads_kv < 1:
            refuse(
                f"qkv has {qkv.shape[2]} heads and num_heads_q is {num_heads_q}; what is left must "
                "be as many heads of k as of v"
            )
        q, k, v = qkv.split([num_heads_q, heads_kv, heads_kv], dim=2)
    else:
        refuse(
            f"qkv has {qkv.dim()} dimensions and num_heads_q is {num_heads_q}; 5 are needed, or 4 "
            "and num_heads_q"
        )
    return flash_attn_func(
        q, k, v, softmax_scale, causal, None, q_descale, k_descale, v_descale, window_size,
        attention_chunk, softcap, deterministic=deterministic, sm_margin=sm_margin,
        return_attn_probs=return_attn_probs,
    )  # fmt: skip


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    seqused_q=None,
    seqused_k=None,
    softmax_scale=None,
    causal=False,
    qv=None,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    window_size=(-1, -1),
    attention_chunk=0,
    softcap=0.0,
    num_splits=1,
    pack_gqa=None,
    deterministic=False,
    sm_margin=0,
    return_attn_probs=False,
):
    """flash_attn_func of sequences that lie one behind the other, (total, heads, head_dim)."""
    _check(q, k, v, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale)
    function = of_attnpress("flash_attn_varlen_func")
    options = only_known(
        function,
        {"seqused_q": seqused_q, "seqused_k": seqused_k, "chunk": attention_chunk or None},
    )
    result = run(
        function, q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, 0.0,
        softmax_scale, causal, window_of(*window_size), softcap if softcap > 0 else 0.0, None,
        deterministic, return_attn_probs, **options,
    )  # fmt: skip
    return tuple(result[:2]) if return_attn_probs else result


def flash_attn_combine(out_partial, lse_partial, out=None, out_dtype=None):
    """(out, lse) of parts of the keys: out_partial (splits, ..., heads, head_dim), fp32,
    lse_partial (splits, ..., heads), fp32. Plain PyTorch. out: written where it is given, of
    out_dtype; rows that no part sees are 0, and their lse is -inf."""
    if lse_partial.shape != out_partial.shape[:-1]:
        refuse(
            f"lse_partial is {tuple(lse_partial.shape)}; it must be {tuple(out_partial.shape[:-1])}"
        )
    lse = torch.logsumexp(lse_partial.float(), dim=0)
    weight = torch.exp(lse_partial.float() - torch.where(lse == -math.inf, 0.0, lse))
    total = (weight[..., None] * out_partial.float()).sum(0).to(out_dtype or out_partial.dtype)
    return (total if out is None else out.copy_(total)), lse


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    qv=None,
    rotary_cos=None,
    rotary_sin=None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    page_table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k_new: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    rotary_seqlens: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    attention_chunk=0,
    softcap=0.0,
    rotary_interleaved=True,
    scheduler_metadata=None,
    num_splits=0,
    pack_gqa=None,
    sm_margin=0,
    return_softmax_lse=False,
):
    """attnpress.flash_attn_with_kvcache, which says what the arguments are: attention on a cache of
    keys and values, to which k and v, rotated, are appended in place first. page_table: its
    block_table. cu_seqlens_k_new and rotary_seqlens are ignored without k."""
    batch = q.shape[0] if cu_seqlens_q is None else cu_seqlens_q.shape[0] - 1
    schedule = schedule_in(scheduler_metadata, batch, q)
    _check(
        q, k_cache, v_cache, qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale
    )
    function = of_attnpress("flash_attn_with_kvcache")
    options = only_known(
        function,
        {
            "cu_seqlens_q": cu_seqlens_q,
            "cu_seqlens_k_new": cu_seqlens_k_new if k is not None else None,
            "max_seqlen_q": max_seqlen_q,
            "rotary_seqlens": rotary_seqlens if k is not None else None,
            "chunk": _chunk_of(attention_chunk) or None,
            "schedule": schedule,
        },
    )
    return run(
        function, q, k_cache, v_cache, k, v, rotary_cos, rotary_sin, cache_seqlens, cache_batch_idx,
        cache_leftpad, page_table, softmax_scale, causal, window_of(*window_size),
        softcap if softcap > 0 else 0.0, rotary_interleaved, None, num_splits, return_softmax_lse,
        **options,
    )  # fmt: skip


def get_scheduler_metadata(
    batch_size,
    max_seqlen_q,
    max_seqlen_k,
    num_heads_q,
    num_heads_kv,
    headdim,
    cache_seqlens: torch.Tensor,
    qkv_dtype=torch.bfloat16,
    headdim_v=None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k_new: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    page_size: int | None = None,
    max_seqlen_k_new=0,
    causal=False,
    window_size=(-1, -1),
    attention_chunk=0,
    has_softcap=False,
    num_splits=0,
    pack_gqa=None,
    sm_margin=0,
):
    """The order of these sequences, (1 + 2 batch_size) int32 on cache_seqlens's device, to be given
    as scheduler_metadata to each call with these lengths (attnpress.forward_schedule). It may be
    copied, and no result depends on it: at other lengths it costs time alone. Of the arguments it
    reads the lengths and their bounds. A schedule of another length, such as another library's, is
    not read.

    Raises for cache_seqlens that are not (batch_size) int32, and for fp8."""
    return metadata_of(
        batch_size, max_seqlen_q, max_seqlen_k, cache_seqlens, qkv_dtype, cu_seqlens_q,
        cu_seqlens_k_new, cache_leftpad, max_seqlen_k_new,
    )  # fmt: skip


def _flash_attn_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    k_new: torch.Tensor | None = None,
    v_new: torch.Tensor | None = None,
    qv: torch.Tensor | None = None,
    out_: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    cu_seqlens_k_new: torch.Tensor | None = None,
    seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    page_table: torch.Tensor | None = None,
    kv_batch_idx: torch.Tensor | None = None,
    leftpad_k: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    seqlens_rotary: torch.Tensor | None = None,
    q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
    attention_chunk: int = 0,
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    scheduler_metadata: torch.Tensor | None = None,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    sm_margin: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(out, softmax_lse, and two empty tensors), without gradients; out_ is written where it is
    given. Dense, ragged by cu_seqlens_q and cu_seqlens_k, or on a cache by seqused_k."""
    window = (window_size_left, window_size_right)
    with torch.no_grad():
        if cu_seqlens_k is not None:
            _check(
                k_new=k_new, v_new=v_new, page_table=page_table, kv_batch_idx=kv_batch_idx,
                leftpad_k=leftpad_k, rotary_cos=rotary_cos, rotary_sin=rotary_sin,
            )  # fmt: skip
            out, lse = flash_attn_varlen_func(
                q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q,
                seqused_k, softmax_scale, causal, qv, q_descale, k_descale, v_descale, window,
                attention_chunk, softcap, return_attn_probs=True,
            )  # fmt: skip
        elif seqused_k is not None or k_new is not None or page_table is not None:
            out, lse, *_ = flash_attn_with_kvcache(
                q, k, v, k_new, v_new, qv, rotary_cos, rotary_sin, seqused_k, kv_batch_idx,
                leftpad_k, page_table, cu_seqlens_q, cu_seqlens_k_new, max_seqlen_q,
                seqlens_rotary, q_descale, k_descale, v_descale, softmax_scale, causal, window,
                attention_chunk, softcap, rotary_interleaved, scheduler_metadata, num_splits,
                pack_gqa, sm_margin, True,
            )  # fmt: skip
        else:
            _check(
                cu_seqlens_q=cu_seqlens_q, seqused_q=seqused_q, kv_batch_idx=kv_batch_idx,
                leftpad_k=leftpad_k, rotary_cos=rotary_cos, rotary_sin=rotary_sin,
            )  # fmt: skip
            out, lse = flash_attn_func(
                q, k, v, softmax_scale, causal, qv, q_descale, k_descale, v_descale, window,
                attention_chunk, softcap, return_attn_probs=True,
            )  # fmt: skip
    if out_ is not None:
        out = out_.copy_(out)
    return out, lse, q.new_empty((0,)), q.new_empty((0,))


def _flash_attn_backward(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    softmax_lse: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None,
    sequed_q: torch.Tensor | None = None,
    sequed_k: torch.Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    dq: torch.Tensor | None = None,
    dk: torch.Tensor | None = None,
    dv: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    is_causal: bool = False,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    deterministic: bool = False,
    sm_margin: int = 0,
) -> torch.Tensor:
    """Writes dq, dk and dv, and returns softmax_d: (batch, heads, seqlen_q rounded up to 128)."""
    _check(
        dout, q, k, v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, sequed_q=sequed_q,
        sequed_k=sequed_k,
    )  # fmt: skip
    return run_backward(
        dout, q, k, v, out, softmax_lse, dq, dk, dv, 0.0, softmax_scale, is_causal,
        window_size_left, window_size_right, softcap, None, deterministic,
    )[3]  # fmt: skip
