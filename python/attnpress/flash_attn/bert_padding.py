"""Padding taken out of a batch and put back, in plain PyTorch, with gradients: flash-attn 2.8.3's
functions of this module."""

from __future__ import annotations

import torch


def index_first_axis(input, indices):
    """input[indices], (count, ...), of input (total, ...)."""
    if input.dim() < 2:
        raise ValueError(f"input has {input.dim()} dimensions; 2 or more are needed")
    return input.index_select(0, indices)


def index_put_first_axis(values, indices, first_axis_dim):
    """(first_axis_dim, ...): values (count, ...) where indices say, zeros elsewhere."""
    if indices.dim() != 1 or values.dim() < 2:
        raise ValueError(
            f"indices has {indices.dim()} dimensions and values {values.dim()}; 1, and 2 or more, "
            "are needed"
        )
    padded = values.new_zeros((first_axis_dim, *values.shape[1:]))
    return padded.index_copy(0, indices.long(), values)  # transformers' are int32


def index_first_axis_residual(input, indices):
    """(input[indices], input); the gradients of both add up."""
    return index_first_axis(input, indices), input.view_as(input)


class IndexFirstAxis:
    """index_first_axis, for those who call apply."""

    apply = staticmethod(index_first_axis)


class IndexPutFirstAxis:
    """index_put_first_axis, for those who call apply."""

    apply = staticmethod(index_put_first_axis)


class IndexFirstAxisResidual:
    """index_first_axis_residual, for those who call apply."""

    apply = staticmethod(index_first_axis_residual)


def _cumulative(lengths):
    """(count + 1,) int32: 0, and the sums so far."""
    return torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))


def _true_places(mask):
    return torch.nonzero(mask.flatten(), as_tuple=False).flatten()


def unpad_input(hidden_states, attention_mask, unused_mask=None):
    """The tokens of a padded batch, one behind the other.

    hidden_states: (batch, seqlen, ...); attention_mask, unused_mask: (batch, seqlen), bool or 0 and
    1: tokens that are used, and that are kept without being used.

    Returns (tokens (total, ...), indices (total,) of them in the flattened batch, cu_seqlens
    (batch + 1,) int32, the longest length as an int, the used lengths (batch,) int32).
    """
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(dim=-1, dtype=torch.int32)
    indices = _true_places(kept)
    return (
        index_first_axis(hidden_states.flatten(0, 1), indices),
        indices,
        _cumulative(lengths),
        lengths.max().item(),
        attention_mask.sum(dim=-1, dtype=torch.int32),
    )


def unpad_input_for_concatenated_sequences(hidden_states, attention_mask_in_length):
    """unpad_input of rows that hold several sequences each.

    attention_mask_in_length: (batch, seqlen), ints: each row begins with the lengths of its
    sequences, and zeros follow. Returns (tokens, indices, cu_seqlens, the longest length).
    """
    used = attention_mask_in_length.sum(dim=-1, keepdim=True)
    place = torch.arange(attention_mask_in_length.shape[1], device=used.device)
    lengths = attention_mask_in_length.flatten()
    lengths = lengths[_true_places(lengths)]
    indices = _true_places(place < used)
    return (
        index_first_axis(hidden_states.flatten(0, 1), indices),
        indices,
        _cumulative(lengths),
        lengths.max().item(),
    )


def pad_input(hidden_states, indices, batch, seqlen):
    """(batch, seqlen, ...): the tokens (total, ...) where indices say, zeros elsewhere."""
    padded = index_put_first_axis(hidden_states, indices, batch * seqlen)
    return padded.unflatten(0, (batch, seqlen))
