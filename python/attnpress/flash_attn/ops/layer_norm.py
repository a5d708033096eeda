"""Layer norm with dropout and a residual, in plain PyTorch: flash-attn 2.8.3's functions and module
of this name. Subsets of rows are refused by name."""

from __future__ import annotations

from typing import NoReturn

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


def refuse_subset(name: str) -> NoReturn:
    raise NotImplementedError(
        f"attnpress has no {name}: x0_subset and out_subset are not supported; take the rows by "
        "index_select, and call the function without _subset"
    )


def dropout_add_layer_norm_subset(
    x0,
    residual,
    weight,
    bias,
    dropout_p,
    epsilon,
    layerscale=None,
    x0_subset=None,
    out_subset=None,
    rowscale_const=1.0,
    out_numrows=0,
    prenorm=False,
    residual_in_fp32=False,
    return_dropout_mask=False,
):
    """Refused by name."""
    refuse_subset("dropout_add_layer_norm_subset")


def dropout_add_parallel_norm(
    x0, x1, residual, weight0, bias0, weight1, bias1, dropout_p, epsilon, prenorm,
    residual_in_fp32, return_dropout_mask, is_rms_norm,
):  # fmt: skip
    """Two norms of dropout(x0) + dropout(x1) + residual, None where weight1 is; x1 and residual may
    be None. With prenorm the sum follows, with return_dropout_mask both masks."""
    result = layer_norm_fn(
        x0, weight0, bias0, residual, x1, weight1, bias1, eps=epsilon, dropout_p=dropout_p,
        prenorm=True, residual_in_fp32=residual_in_fp32, is_rms_norm=is_rms_norm,
        return_dropout_mask=True,
    )  # fmt: skip
    *norms, total, mask0, mask1 = result
    results = [norms[0], norms[1] if weight1 is not None else None]
    if prenorm:
        results.append(total)
    if return_dropout_mask:
        every = torch.ones_like(x0, dtype=torch.bool)
        results.append(every if mask0 is None else mask0)
        results.append(every if mask1 is None else mask1)
    return tuple(results)


def dropout_add_layer_norm_parallel_residual(
    x0,
    x1,
    residual,
    weight0,
    bias0,
    weight1,
    bias1,
    dropout_p,
    epsilon,
    prenorm=False,
    residual_in_fp32=False,
    return_dropout_mask=False,
):
    """dropout_add_parallel_norm() that subtracts the mean."""
    return dropout_add_parallel_norm(
        x0, x1, residual, weight0, bias0, weight1, bias1, dropout_p, epsilon, prenorm,
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
