"""Rotary embedding in plain PyTorch: flash-attn 2.8.3's apply_rotary."""

from __future__ import annotations

import torch


def _positions(x, seqlen_offsets, cu_seqlens, max_seqlen):
    """Rows of cos and sin, (batch or 1, seqlen) or (total,). Nothing waits for the GPU."""
    device = x.device
    if cu_seqlens is None:
        batch, seqlen = x.shape[:2]
        offsets = seqlen_offsets
        if isinstance(offsets, torch.Tensor):
            if tuple(offsets.shape) != (batch,):
                raise ValueError(f"seqlen_offsets is {tuple(offsets.shape)}; it must be ({batch},)")
            offsets = offsets[:, None]
        return torch.arange(seqlen, device=device)[None, :] + offsets
    if max_seqlen is None:
        raise ValueError("max_seqlen is None; with cu_seqlens it must be the longest length")
    tokens = torch.arange(x.shape[0], device=device)
    begins = cu_seqlens[1:].to(torch.int64)
    sequence = torch.bucketize(tokens, begins, right=True).clamp_max(begins.shape[0] - 1)
    places = tokens - cu_seqlens[sequence]
    if isinstance(seqlen_offsets, torch.Tensor):
        return places + seqlen_offsets[sequence]
    return places + seqlen_offsets


def apply_rotary(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    seqlen_offsets: int | torch.Tensor = 0,
    cu_seqlens: torch.Tensor | None = None,
    max_seqlen: int | None = None,
    interleaved=False,
    inplace=False,
    conjugate=False,
) -> torch.Tensor:
    """x with the first rotary_dim entries of each head rotated, computed in fp32.

    x: (batch, seqlen, heads, head_dim), or (total, heads, head_dim) with cu_seqlens (batch + 1,);
    cos, sin: (seqlen_rotary, rotary_dim / 2). Token i of a sequence takes row i + seqlen_offsets,
    an int or (batch,). interleaved: entries 2i and 2i + 1 are a pair, not i and i + rotary_dim / 2.
    inplace: x is written and returned. conjugate: the other way round, as the gradient needs it.
    """
    rotary_dim = 2 * cos.shape[-1]
    if cos.dim() != 2 or cos.shape != sin.shape:
        raise ValueError(
            f"cos is {tuple(cos.shape)} and sin {tuple(sin.shape)}; both must be (seqlen_rotary, "
            "rotary_dim / 2)"
        )
    if rotary_dim > x.shape[-1]:
        raise ValueError(f"rotary_dim is {rotary_dim}, more than the head dim, {x.shape[-1]}")
    seqlen = x.shape[1] if cu_seqlens is None else max_seqlen
    if not isinstance(seqlen_offsets, torch.Tensor) and (seqlen or 0) + seqlen_offsets > len(cos):
        raise ValueError(
            f"the positions reach {(seqlen or 0) + seqlen_offsets}, and cos has {len(cos)} rows"
        )
    # Positions behind the tables, which only a tensor of offsets or padding can have, read no row.
    rows = _positions(x, seqlen_offsets, cu_seqlens, max_seqlen).clamp(0, len(cos) - 1)
    cos, sin = (table[rows].float().unsqueeze(-2) for table in (cos, sin))
    if conjugate:
        sin = -sin
    rotated = x[..., :rotary_dim].float()
    if interleaved:
        first, second = rotated[..., ::2], rotated[..., 1::2]
    else:
        first, second = rotated.chunk(2, dim=-1)
    parts = (first * cos - second * sin, first * sin + second * cos)
    result = torch.stack(parts, dim=-1).flatten(-2) if interleaved else torch.cat(parts, dim=-1)
    result = result.to(x.dtype)
    if inplace:
        x[..., :rotary_dim].copy_(result)
        return x
    return result if rotary_dim == x.shape[-1] else torch.cat((result, x[..., rotary_dim:]), -1)
