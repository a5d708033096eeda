"""Activations in plain PyTorch: flash-attn 2.8.3's, by name. GELU is the one with tanh."""

from __future__ import annotations

import torch.nn.functional as F


def bias_gelu_impl(input, bias):
    """gelu(input + bias)."""
    return F.gelu(input + bias, approximate="tanh")


def fast_gelu_impl(input):
    return F.gelu(input, approximate="tanh")


gelu_fwd = fast_gelu_impl


def sqrelu_fwd(x):
    """relu(x)^2."""
    return F.relu(x).square()


def swiglu(x, y):
    """silu(x) * y, computed in fp32."""
    return (F.silu(x.float()) * y.float()).to(x.dtype)
