"""The five functions of flash-attn 2.8.3's extension module, which clients call by position. Each
returns a list. out, where given, is written and is what the list begins with; gen is a
torch.Generator for dropout. flash_attn_interface says what else is told apart.
"""

from __future__ import annotations

from attnpress import flash_attn_interface as interface

__all__ = ["bwd", "fwd", "fwd_kvcache", "varlen_bwd", "varlen_fwd"]


def _into(out, result):
    if out is None:
        return result
    if (out.shape, out.dtype) != (result.shape, result.dtype):
        interface.refuse(
            f"out is {tuple(out.shape)} of {out.dtype}; it must be {tuple(result.shape)} of "
            f"{result.dtype}"
        )
    return out.copy_(result)


def fwd(
    q,
    k,
    v,
    out,
    alibi_slopes,
    p_dropout,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    return_softmax,
    gen,
):
    """[out, softmax_lse, S_dmask, rng_state]. q: (batch, seqlen_q, heads, head_dim)."""
    result, *rest = interface.run_forward(
        q, k, v, p_dropout, softmax_scale, is_causal, window_size_left, window_size_right, softcap,
        alibi_slopes, return_softmax, gen,
    )  # fmt: skip
    return [_into(out, result), *rest]


def varlen_fwd(
    q,
    k,
    v,
    out,
    cu_seqlens_q,
    cu_seqlens_k,
    seqused_k,
    leftpad_k,
    block_table,
    alibi_slopes,
    max_seqlen_q,
    max_seqlen_k,
    p_dropout,
    softmax_scale,
    zero_tensors,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    return_softmax,
    gen,
):
    """[out, softmax_lse, S_dmask, rng_state]. q: (total_q, heads, head_dim)."""
    result, *rest = interface.run_varlen_forward(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, p_dropout, softmax_scale,
        is_causal, window_size_left, window_size_right, softcap, alibi_slopes, return_softmax,
        block_table, leftpad_k, seqused_k, gen,
    )  # fmt: skip
    return [_into(out, result), *rest]


def bwd(
    dout,
    q,
    k,
    v,
    out,
    softmax_lse,
    dq,
    dk,
    dv,
    alibi_slopes,
    p_dropout,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    deterministic,
    gen,
    rng_state,
):
    """[dq, dk, dv, softmax_d], the first three made where they are None."""
    return list(
        interface.run_backward(
            dout, q, k, v, out, softmax_lse, dq, dk, dv, p_dropout, softmax_scale, is_causal,
            window_size_left, window_size_right, softcap, alibi_slopes, deterministic, rng_state,
        )
    )  # fmt: skip


def varlen_bwd(
    dout,
    q,
    k,
    v,
    out,
    softmax_lse,
    dq,
    dk,
    dv,
    cu_seqlens_q,
    cu_seqlens_k,
    alibi_slopes,
    max_seqlen_q,
    max_seqlen_k,
    p_dropout,
    softmax_scale,
    zero_tensors,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    deterministic,
    gen,
    rng_state,
):
    """[dq, dk, dv, softmax_d] of sequences that lie one behind the other."""
    return list(
        interface.run_varlen_backward(
            dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
            max_seqlen_k, p_dropout, softmax_scale, is_causal, window_size_left, window_size_right,
            softcap, alibi_slopes, deterministic, rng_state,
        )
    )  # fmt: skip


def fwd_kvcache(
    q,
    kcache,
    vcache,
    k,
    v,
    seqlens_k,
    rotary_cos,
    rotary_sin,
    cache_batch_idx,
    leftpad_k,
    block_table,
    alibi_slopes,
    out,
    softmax_scale,
    is_causal,
    window_size_left,
    window_size_right,
    softcap,
    is_rotary_interleaved,
    num_splits,
):
    """[out, softmax_lse]; k and v are appended to the cache in place."""
    window, softcap = interface.plain((window_size_left, window_size_right), softcap)
    return list(
        interface.run(
            interface.of_attnpress("flash_attn_with_kvcache"), q, kcache, vcache, k, v, rotary_cos,
            rotary_sin, seqlens_k, cache_batch_idx, leftpad_k, block_table, softmax_scale,
            is_causal, window, softcap, is_rotary_interleaved, alibi_slopes, num_splits, True,
            out=out,
        )
    )  # fmt: skip
