"""Cross entropy in plain PyTorch: flash-attn 2.8.3's cross_entropy_loss."""

from __future__ import annotations

import torch


def cross_entropy_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    precomputed_lse: torch.Tensor | None = None,
    label_smoothing: float = 0.0,
    logit_scale: float = 1.0,
    lse_square_scale: float = 0.0,
    ignore_index=-100,
    inplace_backward: bool = False,
    process_group=None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(losses, z_losses), both (rows,) fp32, z_losses without a gradient.

    logits: (rows, classes); labels: (rows,), ignore_index for 0; precomputed_lse: (rows,), used
    where there is neither smoothing nor a scale. lse_square_scale: of lse^2, which is added.
    inplace_backward asks for nothing here. process_group: of one process; classes that are split
    over several are refused.
    """
    if process_group is not None and torch.distributed.get_world_size(process_group) > 1:
        raise NotImplementedError(
            f"process_group has {torch.distributed.get_world_size(process_group)} processes; "
            "classes that are split over several are not supported, 1 is"
        )
    scaled = logits.float() * logit_scale
    if precomputed_lse is not None and label_smoothing == 0.0 and logit_scale == 1.0:
        # Its value, and the gradient of the sum of exponentials.
        lse = torch.logsumexp(scaled, dim=-1)
        lse = lse + (precomputed_lse - lse).detach()
    else:
        lse = torch.logsumexp(scaled, dim=-1)
    is_counted = labels != ignore_index
    classes = logits.shape[-1]
    # A label of no class takes the smoothing's part alone.
    has_class = is_counted & (labels >= 0) & (labels < classes)
    place = torch.where(has_class, labels, torch.zeros_like(labels)).long()
    picked = scaled.gather(-1, place[:, None])[:, 0]
    loss = torch.where(has_class, (1 - label_smoothing) * (lse - picked), torch.zeros_like(lse))
    if label_smoothing > 0:
        loss = loss + label_smoothing * (lse - scaled.mean(dim=-1))
    z_loss = lse_square_scale * lse.square()
    zero = torch.zeros_like(lse)
    return (
        torch.where(is_counted, loss + z_loss, zero),
        torch.where(is_counted, z_loss, zero).detach(),
    )
