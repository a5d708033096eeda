"""attnpress behind PyTorch's own attention: torch.nn.functional.scaled_dot_product_attention, and
torch.nn.attention.varlen.varlen_attn.

    import attnpress.torch
    attnpress.torch.activate()  # from here on, where PyTorch chooses its flash backend, on GPUs
    ...
    attnpress.torch.deactivate()

PyTorch chooses the flash backend where head dims are equal and at most 256, there is no mask beside
the causal one, and dtypes are fp16 or bf16; under
torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION) a call takes it or raises. The same
backend of varlen_attn takes windows, seqused_k, block_table and num_splits too, gradients without
the last three. Calls with dropout, and varlen_attn_out, stay with PyTorch's own kernels; so do
graphs that AOTInductor compiled, and nested tensors, which do not ask the dispatcher.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

import attnpress

from . import _torch as direct

NAME = "attnpress"
_lock = threading.Lock()
_overrides: Any = None  # where the registry is not PyTorch's

try:  # from PyTorch 2.11 on, or thereabouts
    from torch.nn.attention import (
        activate_flash_attention_impl,
        current_flash_attention_impl,
        register_flash_attention_impl,
        restore_flash_attention_impl,
    )
except ImportError:
    activate_flash_attention_impl = None


def _auxiliary(query: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """rng_state, unused, debug_attn_mask of a call without dropout."""
    return (
        query.new_zeros((2,), dtype=torch.uint64),
        query.new_zeros((), dtype=torch.uint64),
        query.new_empty((0,)),
    )


def _forward(
    query: Any, key: Any, value: Any, is_causal: bool, scale: float | None
) -> tuple[Any, Any]:
    """(out, lse); all (batch, heads, seqlen, head_dim)."""
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    with torch.no_grad():
        out, lse, _ = direct.forward(q, k, v, scale, is_causal, True)
    return out.transpose(1, 2), lse


def _backward(
    grad_out: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    lse: Any,
    is_causal: bool,
    scale: float | None,
) -> tuple[Any, ...]:
    dout, q, k, v, out = (x.transpose(1, 2) for x in (grad_out, query, key, value, out))
    deterministic = torch.are_deterministic_algorithms_enabled()
    found = direct.backward(dout, q, k, v, out, lse, scale, is_causal, deterministic, None)
    return tuple(x.transpose(1, 2) for x in found)


def _window(left: int | None, right: int | None) -> tuple[int, int]:
    """window_size as attnpress has it."""
    left, right = (-1 if x is None or x < 0 else x for x in (left, right))
    return left, right


_DENSE = "aten::_scaled_dot_product_flash_attention"
_RAGGED = "aten::_flash_attention_forward"
_DENSE_BACKWARD = "aten::_scaled_dot_product_flash_attention_backward"
_RAGGED_BACKWARD = "aten::_flash_attention_backward"
# Of varlen_attn's options, those that flash_attn_varlen_func has by the same names.
_SHARED = {"alibi_slopes", "block_table", "num_splits", "seqused_k"}


class Overrides:
    """PyTorch's flash operators on CUDA tensors, as long as this is not removed."""

    def __init__(self) -> None:
        functions = {
            _DENSE: self.forward,
            _DENSE_BACKWARD: self.backward,
            _RAGGED: self.varlen_forward,
            _RAGGED_BACKWARD: self.varlen_backward,
        }
        # What stood there before serves the calls that attnpress does not.
        self._own = {name: torch.library.get_kernel(name, "CUDA") for name in functions}
        self._library: Any = torch.library.Library("aten", "IMPL", "CUDA")
        for name, function in functions.items():
            self._library.impl(
                name.split("::")[1], function, "CUDA", with_keyset=True, allow_override=True
            )

    def remove(self) -> None:
        library, self._library = self._library, None
        if library is not None:
            library._destroy()

    def forward(
        self,
        keys: Any,
        query: Any,
        key: Any,
        value: Any,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        return_debug_mask: bool = False,
        *,
        scale: float | None = None,
    ) -> Any:
        if dropout_p != 0.0 or return_debug_mask:
            return self._own[_DENSE].call_boxed(
                keys, query, key, value, dropout_p, is_causal, return_debug_mask, scale=scale
            )
        out, lse = _forward(query, key, value, is_causal, scale)
        lengths = query.shape[2], key.shape[2]
        return (out, lse, None, None, *lengths, *_auxiliary(query))

    def backward(
        self,
        keys: Any,
        grad_out: Any,
        query: Any,
        key: Any,
        value: Any,
        out: Any,
        logsumexp: Any,
        cum_seq_q: Any,
        cum_seq_k: Any,
        max_q: Any,
        max_k: Any,
        dropout_p: float,
        is_causal: bool,
        philox_seed: Any,
        philox_offset: Any,
        *,
        scale: float | None = None,
    ) -> Any:
        if dropout_p != 0.0:
            return self._own[_DENSE_BACKWARD].call_boxed(
                keys, grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q,
                max_k, dropout_p, is_causal, philox_seed, philox_offset, scale=scale,
            )  # fmt: skip
        return _backward(grad_out, query, key, value, out, logsumexp, is_causal, scale)

    def varlen_forward(
        self,
        keys: Any,
        query: Any,
        key: Any,
        value: Any,
        cum_seq_q: Any,
        cum_seq_k: Any,
        max_q: Any,
        max_k: Any,
        dropout_p: float,
        is_causal: bool,
        return_debug_mask: bool,
        *,
        scale: float | None = None,
        window_size_left: int | None = None,
        window_size_right: int | None = None,
        **others: Any,
    ) -> Any:
        """others: what versions of PyTorch differ in, of which attnpress has _SHARED."""
        asked = {name: value for name, value in others.items() if value is not None}
        known = asked.keys() <= _SHARED
        if cum_seq_q is None or dropout_p != 0.0 or return_debug_mask or not known:
            return self._own[_RAGGED].call_boxed(
                keys, query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal,
                return_debug_mask, scale=scale, window_size_left=window_size_left,
                window_size_right=window_size_right, **others,
            )  # fmt: skip
        window = _window(window_size_left, window_size_right)
        with torch.no_grad():
            out, lse, _ = attnpress.flash_attn_varlen_func(
                query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, 0.0, scale, is_causal,
                window, return_attn_probs=True, **asked,
            )  # fmt: skip
        return (out, lse, *_auxiliary(query))

    def varlen_backward(
        self,
        keys: Any,
        grad_out: Any,
        query: Any,
        key: Any,
        value: Any,
        out: Any,
        logsumexp: Any,
        cum_seq_q: Any,
        cum_seq_k: Any,
        max_q: Any,
        max_k: Any,
        dropout_p: float,
        is_causal: bool,
        rng_state: Any,
        unused: Any,
        *,
        scale: float | None = None,
        window_size_left: int | None = None,
        window_size_right: int | None = None,
    ) -> Any:
        if cum_seq_q is None or dropout_p != 0.0:
            return self._own[_RAGGED_BACKWARD].call_boxed(
                keys, grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q,
                max_k, dropout_p, is_causal, rng_state, unused, scale=scale,
                window_size_left=window_size_left, window_size_right=window_size_right,
            )  # fmt: skip
        window = _window(window_size_left, window_size_right)
        return attnpress.flash_attn_varlen_backward(
            grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, scale,
            is_causal, torch.are_deterministic_algorithms_enabled(), window_size=window,
        )  # fmt: skip


def _check() -> None:
    if not hasattr(torch.library, "get_kernel"):
        raise RuntimeError(
            f"PyTorch is {torch.__version__}; attnpress.torch needs torch.library.get_kernel, "
            "which newer versions have"
        )


def activate() -> None:
    """Has the flash backend of scaled_dot_product_attention and varlen_attn run on attnpress, in
    the whole process. With PyTorch's registry of flash implementations it is registered there, as
    "attnpress", and takes the place of one that is active.

    RuntimeError where this version of PyTorch cannot do it."""
    global _overrides  # noqa: PLW0603
    _check()
    with _lock:
        if activate_flash_attention_impl is not None:
            if current_flash_attention_impl() != NAME:
                activate_flash_attention_impl(NAME)
        elif _overrides is None:
            _overrides = Overrides()


def deactivate() -> None:
    """Undoes activate(); nothing where attnpress is not active."""
    global _overrides  # noqa: PLW0603
    with _lock:
        if activate_flash_attention_impl is not None:
            if current_flash_attention_impl() == NAME:
                restore_flash_attention_impl()
        elif _overrides is not None:
            _overrides.remove()
            _overrides = None


def is_active() -> bool:
    """Whether activate() holds."""
    if activate_flash_attention_impl is not None:
        return bool(current_flash_attention_impl() == NAME)
    return _overrides is not None


if activate_flash_attention_impl is not None:
    register_flash_attention_impl(NAME, register_fn=Overrides)

__all__ = ["activate", "deactivate", "is_active"]
__version__ = attnpress.__version__
