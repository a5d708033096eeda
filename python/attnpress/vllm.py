"""What vLLM calls of its flash-attention package, vllm.vllm_flash_attn, with its own order of
arguments, on attnpress's kernels:

    from attnpress.vllm import flash_attn_varlen_func, get_scheduler_metadata

Refused by name: fp8, q_v (latent attention's second half of q), and context parallelism,
cp_world_size of 2 and more. fa_version 2 and 3 run the same kernels, which have ALiBi, sinks and
splits. Errors are RuntimeErrors, and ValueErrors or NotImplementedErrors with them.
"""

from __future__ import annotations

from typing import Any

import torch

from .flash_attn_3.flash_attn_interface import _check, metadata_of, schedule_in
from .flash_attn_interface import not_here, of_attnpress, plain, refuse, run

__all__ = [
    "fa_version_unsupported_reason",
    "flash_attn_varlen_func",
    "get_scheduler_metadata",
    "is_fa_version_supported",
]

DEFAULT_FA_VERSION = 2


def fa_version_unsupported_reason(fa_version: int, device: Any = None) -> str | None:
    """Why a version's calls are not served on a device, or None: versions 2 and 3 are, on every
    device of compute capability 8.0 and more."""
    if fa_version not in (2, 3, 4):
        refuse(f"fa_version is {fa_version}; it must be 2, 3 or 4")
    if fa_version == 4:
        return "fa_version 4 has arguments that attnpress does not take: use 2 or 3"
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"compute capability 8.0 or more is needed, and the device has {major}.{minor}"
    return None


def is_fa_version_supported(fa_version: int, device: Any = None) -> bool:
    return fa_version_unsupported_reason(fa_version, device) is None


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


def flash_attn_varlen_func(
    q,
    k,
    v,
    max_seqlen_q,
    cu_seqlens_q,
    max_seqlen_k,
    cu_seqlens_k=None,
    seqused_k=None,
    q_v=None,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size: list[int] | None = None,
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
    return_softmax_lse=False,
    out=None,
    scheduler_metadata=None,
    q_descale=None,
    k_descale=None,
    v_descale=None,
    num_splits: int = 0,
    fa_version: int = DEFAULT_FA_VERSION,
    s_aux=None,
    cp_world_size=1,
    cp_rank=0,
    cp_tot_seqused_k=None,
):
    """attnpress.flash_attn_varlen_func, which says what the arguments are. q: (total_q, heads_q,
    head_dim); k, v: (total_k, heads_kv, head_dim) with cu_seqlens_k, or, with block_table and
    seqused_k, pages, (pages, page_size, heads_kv, head_dim), by any strides.

    window_size: None is (-1, -1). num_splits: 1 is one part; anything else, as vLLM's bound for
    graphs, leaves the number to attnpress. The descales belong to fp8, and mean nothing without it.
    deterministic and return_attn_probs ask for nothing: the forward pass is deterministic.

    Returns out, or (out, softmax_lse) with return_softmax_lse: (heads_q, total_q), natural
    logarithms, -inf for rows without keys, sinks included.
    """
    _check(q, k, v, out, q_v=q_v)
    if fa_version not in (2, 3):
        refuse(f"fa_version is {fa_version}; it must be 2 or 3")
    if cp_world_size != 1:
        not_here("context parallelism", f"cp_world_size is {cp_world_size}; only 1 is allowed")
    if cu_seqlens_q is None:
        refuse("cu_seqlens_q is None; it says where the sequences of q begin and end")
    if (cu_seqlens_k is None) == (seqused_k is None):
        refuse(
            f"cu_seqlens_k and seqused_k are {'both' if seqused_k is not None else 'not'} given; "
            "one of them says how many keys there are"
        )
    if block_table is not None and seqused_k is None:
        refuse("block_table is given and seqused_k is None; it says how many keys there are")
    if block_table is None and cu_seqlens_k is None:
        refuse("block_table is None and seqused_k is given; without pages cu_seqlens_k is needed")
    if window_size is not None and len(window_size) != 2:
        refuse(f"window_size is {window_size!r}; it must be two numbers, left and right")
    schedule = schedule_in(scheduler_metadata, cu_seqlens_q.shape[0] - 1, q)
    window, softcap = plain((-1, -1) if window_size is None else tuple(window_size), softcap)
    result, lse, _ = run(
        of_attnpress("flash_attn_varlen_func"), q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
        max_seqlen_k, dropout_p, softmax_scale, causal, window, softcap, alibi_slopes, False, True,
        block_table, s_aux=s_aux, seqused_k=seqused_k, out=out,
        num_splits=1 if num_splits == 1 else 0, schedule=schedule,
    )  # fmt: skip
    return (result, lse) if return_softmax_lse else result
