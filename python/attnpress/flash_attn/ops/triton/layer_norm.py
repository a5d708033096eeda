"""Layer norm and RMS norm with dropout, residual and a second branch, in plain PyTorch: flash-attn
2.8.3's functions and module of this name. attnpress.layernorm has kernels for the plain ones."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def _normalized(x, weight, bias, eps, zero_centered, is_rms_norm, dtype):
    """In fp32, rounded to dtype."""
    weight = weight.float() + 1.0 if zero_centered else weight.float()
    bias = None if bias is None else bias.float()
    if not is_rms_norm:
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps).to(dtype)
    result = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight
    return (result if bias is None else result + bias).to(dtype)


def _dropped(x, dropout_p):
    """(x with dropout, the mask of what is kept or None)."""
    if dropout_p == 0.0:
        return x, None
    keep = torch.rand(x.shape, device=x.device) >= dropout_p
    return torch.where(keep, x / (1.0 - dropout_p), torch.zeros_like(x)), keep


def layer_norm_fn(
    x,
    weight,
    bias,
    residual=None,
    x1=None,
    weight1=None,
    bias1=None,
    eps=1e-6,
    dropout_p=0.0,
    rowscale=None,
    prenorm=False,
    residual_in_fp32=False,
    zero_centered_weight=False,
    is_rms_norm=False,
    return_dropout_mask=False,
    out_dtype=None,
    out=None,
    residual_out=None,
):
    """norm(dropout(rowscale * x) + dropout(x1) + residual), over the last dimension, in fp32.

    weight1: a second norm of the same sum, whose result follows the first. prenorm: the sum follows
    them, in residual's dtype, in fp32 where residual_in_fp32, else in x's. return_dropout_mask: the
    masks of x and x1 follow, None where nothing is dropped. zero_centered_weight: weight + 1.
    out, residual_out: written where they are given.
    """
    if x1 is not None and rowscale is not None:
        raise NotImplementedError("rowscale with x1 is not supported; one of them must be None")
    total = x.float()
    if rowscale is not None:
        total = total * rowscale[..., None].float()
    total, mask = _dropped(total, dropout_p)
    mask1 = None
    if x1 is not None:
        branch, mask1 = _dropped(x1.float(), dropout_p)
        total = total + branch
    if residual is not None:
        total = total + residual.float()
    dtype = x.dtype if out_dtype is None else out_dtype
    options = eps, zero_centered_weight, is_rms_norm, dtype
    y = _normalized(total, weight, bias, *options)
    results = [y if out is None else out.copy_(y)]
    if weight1 is not None:
        results.append(_normalized(total, weight1, bias1, *options))
    if prenorm:
        sum_dtype = x.dtype if residual is None else residual.dtype
        if residual is None and residual_in_fp32:
            sum_dtype = torch.float32
        total = total.to(sum_dtype)
        results.append(total if residual_out is None else residual_out.copy_(total))
    if return_dropout_mask:
        results += [mask, mask1]
    return results[0] if len(results) == 1 else tuple(results)


def rms_norm_fn(
    x,
    weight,
    bias,
    residual=None,
    x1=None,
    weight1=None,
    bias1=None,
    eps=1e-6,
    dropout_p=0.0,
    rowscale=None,
    prenorm=False,
    residual_in_fp32=False,
    zero_centered_weight=False,
    return_dropout_mask=False,
    out_dtype=None,
    out=None,
    residual_out=None,
):
    """layer_norm_fn() that divides by the root of the mean square, and subtracts nothing."""
    return layer_norm_fn(
        x, weight, bias, residual, x1, weight1, bias1, eps, dropout_p, rowscale, prenorm,
        residual_in_fp32, zero_centered_weight, True, return_dropout_mask, out_dtype, out,
        residual_out,
    )  # fmt: skip


class RMSNorm(torch.nn.Module):
    """rms_norm_fn() and its weight."""

    def __init__(
        self,
        hidden_size,
        eps=1e-5,
        dropout_p=0.0,
        zero_centered_weight=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.eps = eps
        self.drop = torch.nn.Dropout(dropout_p) if dropout_p > 0.0 else None
        self.zero_centered_weight = zero_centered_weight
        self.weight = torch.nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        torch.nn.init.constant_(self.weight, 0.0 if self.zero_centered_weight else 1.0)

    def forward(self, x, residual=None, prenorm=False, residual_in_fp32=False):
        dropout_p = self.drop.p if self.drop is not None and self.training else 0.0
        return rms_norm_fn(
            x, self.weight, self.bias, residual=residual, eps=self.eps, dropout_p=dropout_p,
            prenorm=prenorm, residual_in_fp32=residual_in_fp32,
            zero_centered_weight=self.zero_centered_weight,
        )  # fmt: skip


def layer_norm_linear_fn(
    x,
    norm_weight,
    norm_bias,
    linear_weight,
    linear_bias,
    residual=None,
    eps=1e-6,
    prenorm=False,
    residual_in_fp32=False,
    is_rms_norm=False,
):
    """linear(norm(x + residual)); with prenorm the sum follows."""
    result = layer_norm_fn(
        x, norm_weight, norm_bias, residual, eps=eps, prenorm=prenorm,
        residual_in_fp32=residual_in_fp32, is_rms_norm=is_rms_norm,
    )  # fmt: skip
    y = result[0] if prenorm else result
    linear = F.linear(y, linear_weight, linear_bias)
    return (linear, result[1]) if prenorm else linear
