"""Layer norm with dropout and a residual, in plain PyTorch: of flash-attn 2.8.3's module of this
name what has no subset of rows and no second branch."""

from __future__ import annotations

import torch

from .triton.layer_norm import layer_norm_fn


def layer_norm(x, weight, bias, epsilon):
    """Over the last dimension."""
    return layer_norm_fn(x, weight, bias, eps=epsilon)


def dropout_add_norm(
    x0, residual, weight, bias, dropout_p, epsilon, rowscale, layerscale, prenorm,
    residual_in_fp32, return_dropout_mask, is_rms_norm,
):  # fmt: skip
    """norm(dropout(rowscale * layerscale * x0) + residual); with prenorm the sum follows, with
    return_dropout_mask the mask of what is kept."""
    if layerscale is not None:
        x0 = x0 * layerscale
    result = layer_norm_fn(
        x0, weight, bias, residual, eps=epsilon, dropout_p=dropout_p, rowscale=rowscale,
        prenorm=prenorm, residual_in_fp32=residual_in_fp32, is_rms_norm=is_rms_norm,
        return_dropout_mask=return_dropout_mask,
    )  # fmt: skip
    if not return_dropout_mask:
        return result
    *rest, mask, _ = result
    return (*rest, torch.ones_like(x0, dtype=torch.bool) if mask is None else mask)


def dropout_add_layer_norm(
    x0,
    residual,
    weight,
    bias,
    dropout_p,
    epsilon,
    rowscale=None,
    layerscale=None,
    prenorm=False,
    residual_in_fp32=False,
    return_dropout_mask=False,
):
    """dropout_add_norm() that subtracts the mean."""
    return dropout_add_norm(
        x0, residual, weight, bias, dropout_p, epsilon, rowscale, layerscale, prenorm,
        residual_in_fp32, return_dropout_mask, False,
    )  # fmt: skip


class DropoutAddLayerNorm(torch.nn.Module):
    """dropout_add_layer_norm() and its parameters."""

    def __init__(
        self,
        hidden_size,
        prenorm=False,
        p=0.0,
        eps=1e-5,
        residual_in_fp32=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.prenorm = prenorm
        self.p = p
        self.eps = eps
        self.residual_in_fp32 = residual_in_fp32
        self.weight = torch.nn.Parameter(torch.ones(hidden_size, device=device, dtype=dtype))
        self.bias = torch.nn.Parameter(torch.zeros(hidden_size, device=device, dtype=dtype))

    def reset_parameters(self):
        torch.nn.init.ones_(self.weight)
        torch.nn.init.zeros_(self.bias)

    def forward(self, x0, residual=None):
        return dropout_add_layer_norm(
            x0, residual, self.weight, self.bias, self.p if self.training else 0.0, self.eps,
            prenorm=self.prenorm, residual_in_fp32=self.residual_in_fp32,
        )  # fmt: skip
