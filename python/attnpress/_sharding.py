"""How DTensors go into the operators: split by batch or by heads, each device computes its own
part, and nothing is sent. A call that is split otherwise is gathered first.
"""

from __future__ import annotations

import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding


def _heads_divide(q, k) -> bool:
    """Whether every device gets the query heads of its own key heads. q, k: their specs."""
    devices = q.mesh.size()
    return q.shape[2] % devices == 0 and k.shape[2] % devices == 0


def _forward(q, k, v, alibi_slopes, bias, sinks, seed, *numbers):
    """(placements of out and lse, of the arguments) that need nothing sent."""
    dropout_p = numbers[-2]
    features = (alibi_slopes, bias, sinks, seed)
    numbers = [None] * len(numbers)
    everywhere = [None if x is None else Replicate() for x in features]
    found = [([Replicate(), Replicate()], [Replicate()] * 3 + everywhere + numbers)]
    if dropout_p:  # which entries are dropped depends on the batch's and the head's own number
        return found
    if alibi_slopes is None and bias is None:
        found.append(([Shard(0), Shard(0)], [Shard(0)] * 3 + everywhere + numbers))
    if _heads_divide(q, k):
        of_heads = [
            None if alibi_slopes is None else Shard(len(alibi_slopes.shape) - 1),
            None if bias is None else Shard(1),
            None if sinks is None else Shard(0),
            None,
        ]
        if bias is None or (len(bias.shape) == 4 and bias.shape[1] == q.shape[2]):
            found.append(([Shard(2), Shard(1)], [Shard(2)] * 3 + of_heads + numbers))
    return found


def _backward(dout, dlse, q, k, v, out, lse, alibi_slopes, bias, sinks, seed, *numbers):
    """The same of the gradients; those of features are computed everywhere."""
    features = [None if x is None else Replicate() for x in (alibi_slopes, bias, sinks, seed)]
    numbers_placed = [None] * len(numbers)

    def strategy(of_tensors, of_rows):
        rows = None if dlse is None else of_rows
        inputs = [of_tensors, rows, *[of_tensors] * 4, of_rows, *features, *numbers_placed]
        return [*[of_tensors] * 3, Replicate()], inputs

    found = [strategy(Replicate(), Replicate())]
    if numbers[-2] or any(x is not None for x in features):  # dropout_p
        return found
    found.append(strategy(Shard(0), Shard(0)))
    if _heads_divide(q, k):
        found.append(strategy(Shard(2), Shard(1)))
    return found


def register() -> None:
    """To be called once."""
    register_sharding(torch.ops.attnpress.attention.default)(_forward)
    register_sharding(torch.ops.attnpress.attention_backward.default)(_backward)
