"""Rotary embedding with gradients: flash-attn 2.8.3's functions and module of this name, in plain
PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ops.triton.rotary import apply_rotary


def rotate_half(x, interleaved=False):
    """(-second, first) of each pair."""
    if interleaved:
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def apply_rotary_emb_torch(x, cos, sin, interleaved=False):
    """x: (batch, seqlen, heads, head_dim); cos, sin: (seqlen, rotary_dim / 2), or with a batch."""
    rotary_dim = 2 * cos.shape[-1]
    if rotary_dim > x.shape[-1]:
        raise ValueError(f"rotary_dim is {rotary_dim}, more than the head dim, {x.shape[-1]}")
    if interleaved:
        cos, sin = (y.repeat_interleave(2, dim=-1).unsqueeze(-2) for y in (cos, sin))
    else:
        cos, sin = (torch.cat((y, y), dim=-1).unsqueeze(-2) for y in (cos, sin))
    rotated, rest = x[..., :rotary_dim], x[..., rotary_dim:]
    return torch.cat((rotated * cos + rotate_half(rotated, interleaved) * sin, rest), dim=-1)


class ApplyRotaryEmb(torch.autograd.Function):
    """In place or not: the gradient is the rotation the other way round."""

    @staticmethod
    def forward(
        ctx,
        x,
        cos,
        sin,
        interleaved=False,
        inplace=False,
        seqlen_offsets: int | Tensor = 0,
        cu_seqlens: Tensor | None = None,
        max_seqlen: int | None = None,
    ):
        is_tensor = isinstance(seqlen_offsets, Tensor)
        ctx.save_for_backward(cos, sin, cu_seqlens, seqlen_offsets if is_tensor else None)
        ctx.options = None if is_tensor else seqlen_offsets, max_seqlen, interleaved
        if inplace:
            ctx.mark_dirty(x)
        return apply_rotary(
            x, cos, sin, seqlen_offsets, cu_seqlens, max_seqlen, interleaved, inplace
        )

    @staticmethod
    def backward(ctx, dout):
        cos, sin, cu_seqlens, offsets = ctx.saved_tensors
        offset, max_seqlen, interleaved = ctx.options
        dx = apply_rotary(
            dout, cos, sin, offset if offsets is None else offsets, cu_seqlens, max_seqlen,
            interleaved, conjugate=True,
        )  # fmt: skip
        return dx, None, None, None, None, None, None, None


def apply_rotary_emb(
    x,
    cos,
    sin,
    interleaved=False,
    inplace=False,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
):
    """ops.triton.rotary.apply_rotary() with a gradient by x."""
    return ApplyRotaryEmb.apply(
        x, cos, sin, interleaved, inplace, seqlen_offsets, cu_seqlens, max_seqlen
    )


apply_rotary_emb_func = apply_rotary_emb


def _parts(qkv, num_heads_q):
    """Views of q and k."""
    if qkv.dim() == 5 and qkv.shape[2] == 3:
        return qkv[:, :, 0], qkv[:, :, 1]
    if qkv.dim() == 4 and num_heads_q is not None:
        heads_kv, rest = divmod(qkv.shape[2] - num_heads_q, 2)
        if not rest and heads_kv > 0:
            return qkv[:, :, :num_heads_q], qkv[:, :, num_heads_q : num_heads_q + heads_kv]
    raise ValueError(
        f"qkv is {tuple(qkv.shape)} and num_heads_q {num_heads_q}; (batch, seqlen, 3, heads, "
        "head_dim), or (batch, seqlen, num_heads_q + 2 heads_kv, head_dim), is needed"
    )


class _InPlace(torch.autograd.Function):
    """Rotates parts of a tensor in place. tables: (part's index, cos, sin) of each."""

    @staticmethod
    def forward(ctx, packed, split, interleaved, seqlen_offsets, *tables):
        is_tensor = isinstance(seqlen_offsets, Tensor)
        ctx.save_for_backward(seqlen_offsets if is_tensor else None, *tables)
        ctx.options = split, interleaved, None if is_tensor else seqlen_offsets
        ctx.mark_dirty(packed)
        for part, cos, sin in zip(split(packed), tables[::2], tables[1::2]):
            apply_rotary(part, cos, sin, seqlen_offsets, interleaved=interleaved, inplace=True)
        return packed

    @staticmethod
    def backward(ctx, dpacked):
        offsets, *tables = ctx.saved_tensors
        split, interleaved, offset = ctx.options
        dpacked = dpacked.clone()
        for part, cos, sin in zip(split(dpacked), tables[::2], tables[1::2]):
            apply_rotary(
                part, cos, sin, offset if offsets is None else offsets, interleaved=interleaved,
                inplace=True, conjugate=True,
            )  # fmt: skip
        return dpacked, None, None, None, *(None,) * len(tables)


def apply_rotary_emb_qkv_(
    qkv,
    cos,
    sin,
    cos_k=None,
    sin_k=None,
    interleaved=False,
    seqlen_offsets: int | torch.Tensor = 0,
    num_heads_q: int | None = None,
):
    """Rotates q and k of qkv in place, k by cos_k and sin_k where they are given. qkv: (batch,
    seqlen, 3, heads, head_dim), or (batch, seqlen, num_heads_q + 2 heads_kv, head_dim)."""
    _parts(qkv, num_heads_q)  # or an error
    cos_k, sin_k = cos if cos_k is None else cos_k, sin if sin_k is None else sin_k
    return _InPlace.apply(
        qkv, lambda x: _parts(x, num_heads_q), interleaved, seqlen_offsets, cos, sin, cos_k, sin_k
    )


def apply_rotary_emb_kv_(
    kv,
    cos,
    sin,
    interleaved=False,
    seqlen_offsets: int | torch.Tensor = 0,
):
    """Rotates k of kv in place. kv: (batch, seqlen, 2, heads, head_dim)."""
    if kv.dim() != 5 or kv.shape[2] != 2:
        raise ValueError(f"kv is {tuple(kv.shape)}; (batch, seqlen, 2, heads, head_dim) is needed")
    return _InPlace.apply(kv, lambda x: (x[:, :, 0],), interleaved, seqlen_offsets, cos, sin)


class ApplyRotaryEmbQKV_:
    """apply_rotary_emb_qkv_, for those who call apply."""

    apply = staticmethod(apply_rotary_emb_qkv_)


class ApplyRotaryEmbKV_:
    """apply_rotary_emb_kv_, for those who call apply."""

    apply = staticmethod(apply_rotary_emb_kv_)


class RotaryEmbedding(torch.nn.Module):
    """Tables of cos and sin that grow with the lengths seen, and what applies them in place.

    dim: rotary_dim; base: of the frequencies; scale_base: None, or that of XPos (Sun et al.,
    arXiv 2212.10554), which scales q up and k down by position.
    """

    def __init__(
        self,
        dim: int,
        base=10000.0,
        interleaved=False,
        scale_base=None,
        device=None,
    ):
        super().__init__()
        self.dim = dim
        self.base = float(base)
        self.register_buffer("inv_freq", self._compute_inv_freq(device), persistent=False)
        self.interleaved = interleaved
        self.scale_base = scale_base
        scale = None
        if scale_base is not None:
            steps = torch.arange(0, dim, 2, device=device, dtype=torch.float32)
            scale = (steps + 0.4 * dim) / (1.4 * dim)
        self.register_buffer("scale", scale, persistent=False)
        self._seq_len_cached = 0
        self._cos_cached = None
        self._sin_cached = None
        self._cos_k_cached = None
        self._sin_k_cached = None

    def _compute_inv_freq(self, device=None):
        steps = torch.arange(0, self.dim, 2, device=device, dtype=torch.float32)
        return 1.0 / (self.base ** (steps / self.dim))

    def _update_cos_sin_cache(self, seqlen, device=None, dtype=None):
        """Tables of `seqlen` rows or more. Angles are computed in fp32, whatever the buffer's
        dtype."""
        cached = self._cos_cached
        if (
            cached is not None
            and seqlen <= self._seq_len_cached
            and cached.device == device
            and cached.dtype == dtype
            and not (self.training and cached.is_inference())
        ):
            return
        self._seq_len_cached = seqlen
        places = torch.arange(seqlen, device=device, dtype=torch.float32)
        inv_freq = self.inv_freq
        if inv_freq.dtype != torch.float32:
            inv_freq = self._compute_inv_freq(device)
        angles = torch.outer(places, inv_freq.to(device))
        cos, sin = torch.cos(angles), torch.sin(angles)
        if self.scale is None:
            self._cos_cached, self._sin_cached = cos.to(dtype), sin.to(dtype)
            return
        power = (places - seqlen // 2) / self.scale_base
        scale = self.scale.to(device=device, dtype=torch.float32) ** power[:, None]
        self._cos_cached, self._sin_cached = (cos * scale).to(dtype), (sin * scale).to(dtype)
        self._cos_k_cached, self._sin_k_cached = (cos / scale).to(dtype), (sin / scale).to(dtype)

    def forward(
        self,
        qkv: torch.Tensor,
        kv: torch.Tensor | None = None,
        seqlen_offset: int | torch.Tensor = 0,
        max_seqlen: int | None = None,
        num_heads_q: int | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """qkv rotated in place; (q, kv) where kv is given, and qkv is q alone. max_seqlen: rows
        that the tables need, which a tensor of offsets cannot say."""
        if max_seqlen is not None:
            self._update_cos_sin_cache(max_seqlen, device=qkv.device, dtype=qkv.dtype)
        elif isinstance(seqlen_offset, int):
            rows = qkv.shape[1] + seqlen_offset
            self._update_cos_sin_cache(rows, device=qkv.device, dtype=qkv.dtype)
        tables = (self._cos_cached, self._sin_cached)
        tables_k = tables if self.scale is None else (self._cos_k_cached, self._sin_k_cached)
        if kv is None:
            return apply_rotary_emb_qkv_(
                qkv, *tables, *tables_k, interleaved=self.interleaved,
                seqlen_offsets=seqlen_offset, num_heads_q=num_heads_q,
            )  # fmt: skip
        options = {"interleaved": self.interleaved, "seqlen_offsets": seqlen_offset}
        q = apply_rotary_emb(qkv, *tables, inplace=True, **options)
        return q, apply_rotary_emb_kv_(kv, *tables_k, **options)
