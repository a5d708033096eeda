"""flash-attn 2.8.3's module of cross entropy, in plain PyTorch."""

from __future__ import annotations

import torch.nn as nn

from ..ops.triton.cross_entropy import cross_entropy_loss


class CrossEntropyLoss(nn.Module):
    """reduction: "mean" over the labels that are counted, "sum" or "none"; the other arguments are
    cross_entropy_loss's. return_z_loss: (loss, z_loss), both reduced."""

    def __init__(
        self,
        ignore_index=-100,
        reduction="mean",
        label_smoothing=0.0,
        logit_scale=1.0,
        lse_square_scale=0.0,
        inplace_backward=False,
        process_group=None,
        return_z_loss=False,
    ):
        super().__init__()
        if reduction not in ("mean", "none", "sum"):
            raise NotImplementedError(
                f'reduction is {reduction!r}; "mean", "none" and "sum" are supported'
            )
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing
        self.logit_scale = logit_scale
        self.lse_square_scale = lse_square_scale
        self.inplace_backward = inplace_backward
        self.process_group = process_group
        self.return_z_loss = return_z_loss

    def _reduced(self, loss, target):
        if self.reduction == "none":
            return loss
        if self.reduction == "sum":
            return loss.sum()
        return loss.sum() / (target != self.ignore_index).sum()

    def forward(self, input, target, precomputed_lse=None):
        """input: (rows, classes), target: (rows,)."""
        loss, z_loss = cross_entropy_loss(
            input, target, precomputed_lse, self.label_smoothing, self.logit_scale,
            self.lse_square_scale, self.ignore_index, self.inplace_backward, self.process_group,
        )  # fmt: skip
        loss = self._reduced(loss, target)
        return (loss, self._reduced(z_loss, target)) if self.return_z_loss else loss
