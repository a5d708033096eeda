"""How DTensors go into the operators: split by batch or by heads, each device computes its own
part, and nothing is sent. A call that is split otherwise is gathered first.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding


def _heads_divide(q, k) -> bool:
    """Whether every device gets the query heads of its own key heads. q, k: their specs."""
    devices = q.mesh.size()
    return q.shape[2] % devices == 0 and k.shape[2] % devices == 0


def _forward(q, k, v, alibi_slopes, bias, sinks, seed, *numbers):
    """(placements of out and lse, of the arguments) that need nothing sent."""
    dropout_p = numbers[-2]
    features = (alibi_slopes, bias, sinks, seed)
    rest: list[Any] = [None] * len(numbers)
    everywhere: list[Any] = [None if x is None else Replicate() for x in features]
    found = [([Replicate(), Replicate()], [Replicate()] * 3 + everywhere + rest)]
    if dropout_p:  # which entries are dropped depends on the batch's and the head's own number
        return found
    if alibi_slopes is None and bias is None:
        found.append(([Shard(0), Shard(0)], [Shard(0)] * 3 + everywhere + rest))
    if _heads_divide(q, k):
        of_heads = [
            None if alibi_slopes is None else Shard(len(alibi_slopes.shape) - 1),
            None if bias is None else Shard(1),
            None if sinks is None else Shard(0),
            None,
        ]
        if bias is None or (len(bias.shape) == 4 and bias.shape[1] == q.shape[2]):
            found.append(([Shard(2), Shard(1)], [Shard(2)] * 3 + of_heads + rest))
    return found


def _backward(dout, dlse, q, k, v, out, lse, *others):
    """The same of the gradients: split as the forward call may be."""
    with_dbias, sinks = others[-1], others[2]
    found = []
    for (of_out, of_lse), inputs in _forward(q, k, v, *others[:-1]):
        rows = None if dlse is None else of_lse
        dsinks = Replicate()
        if sinks is not None and of_out == Shard(0):
            dsinks = Partial()  # each device sums over its own batches
        elif sinks is not None and of_out == Shard(2):
            dsinks = Shard(0)
        tensors = [of_out, rows, *inputs[:3], of_out, of_lse]
        dbias = Shard(1) if with_dbias and of_out == Shard(2) else Replicate()
        found.append(([*inputs[:3], dsinks, dbias], [*tensors, *inputs[3:], None]))
    return found


def register() -> None:
    """To be called once."""
    register_sharding(torch.ops.attnpress.attention.default)(_forward)
    register_sharding(torch.ops.attnpress.attention_backward.default)(_backward)
