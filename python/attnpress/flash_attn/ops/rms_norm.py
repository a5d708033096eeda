"""RMS norm with dropout and a residual, in plain PyTorch: flash-attn 2.8.3's functions and modules
of this name. Subsets of rows are refused by name."""

from __future__ import annotations

import torch

from .layer_norm import dropout_add_norm, dropout_add_parallel_norm, refuse_subset
from .triton.layer_norm import rms_norm_fn


def rms_norm(x, weight, epsilon):
    """Over the last dimension."""
    return rms_norm_fn(x, weight, None, eps=epsilon)


def dropout_add_rms_norm(
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
    """ops.layer_norm.dropout_add_norm() that subtracts nothing."""
    return dropout_add_norm(
        x0, residual, weight, bias, dropout_p, epsilon, rowscale, layerscale, prenorm,
        residual_in_fp32, return_dropout_mask, True,
    )  # fmt: skip


def dropout_add_rms_norm_subset(
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
    refuse_subset("dropout_add_rms_norm_subset")


def dropout_add_rms_norm_parallel_residual(
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
    """ops.layer_norm.dropout_add_parallel_norm() that subtracts nothing."""
    return dropout_add_parallel_norm(
        x0, x1, residual, weight0, bias0, weight1, bias1, dropout_p, epsilon, prenorm,
        residual_in_fp32, return_dropout_mask, True,
    )  # fmt: skip


class RMSNorm(torch.nn.Module):
    """rms_norm() and its weight."""

    def __init__(self, hidden_size, eps=1e-5, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(hidden_size, device=device, dtype=dtype))
        self.register_parameter("bias", None)

    def reset_parameters(self):
        torch.nn.init.ones_(self.weight)

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


class DropoutAddRMSNorm(torch.nn.Module):
    """dropout_add_rms_norm() and its weight."""

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
        self.register_parameter("bias", None)

    def reset_parameters(self):
        torch.nn.init.ones_(self.weight)

    def forward(self, x0, residual=None):
        return dropout_add_rms_norm(
            x0, residual, self.weight, None, self.p if self.training else 0.0, self.eps,
            prenorm=self.prenorm, residual_in_fp32=self.residual_in_fp32,
        )  # fmt: skip
