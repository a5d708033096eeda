"""Ready schedules: the order in which kernels take the sequences of a batch, made once for all
calls with the same lengths."""

from __future__ import annotations

import functools
from collections.abc import Callable
from ctypes import addressof, sizeof
from typing import Any, TypeVar

from . import _library as c
from ._ragged import checked_length
from ._rows import check_writable, declared
from ._strided import Arguments

Array = TypeVar("Array", bound=Any)

ROWS_MAX = 2**31 - 1024


@functools.cache
def _function() -> Callable[..., int]:
    return declared("attnpress_forward_schedule")


def schedule_length(batch: int) -> int:
    """Numbers of the schedule of so many sequences."""
    return 1 + 2 * batch


def forward_schedule(
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    cu_seqlens_q: Array | None = None,
    cu_seqlens_k: Array | None = None,
    seqused_q: Array | None = None,
    seqused_k: Array | None = None,
    cu_seqlens_k_new: Array | None = None,
    seqlen_k_new: int = 0,
    leftpad_k: Array | None = None,
    out: Array | None = None,
) -> Array:
    """The schedule of sequences of these lengths, to be given as `schedule` to
    flash_attn_varlen_func and flash_attn_with_kvcache, in each layer of a model: their calls then
    launch no kernel that puts the sequences in order.

    The arrays are those of the calls; at least one says how many sequences there are. max_seqlen_q,
    max_seqlen_k: bounds of the lengths, 1 or more. out: where it is written, (1 + 2 batch), int32.

    Results do not depend on what a schedule holds: at other lengths, as in a graph that is
    replayed, it costs time alone. Kernels that need no order ignore it: those of the CPU, of
    compute capability 8.x, and of single queries. With ATTNPRESS_CHECK=1 one of other lengths is
    refused.

    Returns the schedule, (1 + 2 batch), int32; it may be copied. On a GPU the work is queued on the
    current stream of the arrays' device."""
    sums = {
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "cu_seqlens_k_new": cu_seqlens_k_new,
    }
    lengths = {"seqused_q": seqused_q, "seqused_k": seqused_k, "leftpad_k": leftpad_k}
    given = {name: value for name, value in {**sums, **lengths}.items() if value is not None}
    if not given:
        raise ValueError("no array is given; cu_seqlens or seqused say what sequences there are")
    name, first = next(iter(given.items()))
    arguments = Arguments(name, first)
    batch = max(first.shape[0] - (name in sums), 0)
    bounds = [checked_length("max_seqlen_q", max_seqlen_q)]
    bounds.append(checked_length("max_seqlen_k", max_seqlen_k))
    group = c.Ragged(struct_size=sizeof(c.Ragged), batch=batch)
    group.max_seqlen_q = bounds[0]
    group.seqlen_k_new = checked_length("seqlen_k_new", seqlen_k_new)
    for name, value in given.items():
        setattr(group, name, arguments.numbers(name, value, "int32", (batch + (name in sums),)))
    args = c.ForwardArgs(struct_size=sizeof(c.ForwardArgs))
    for tensors, rows, packed in (
        ((args.q, args.out), bounds[0], cu_seqlens_q is not None),
        ((args.k, args.v), bounds[1], cu_seqlens_k is not None),
    ):
        for tensor in tensors:
            count = min(rows * (batch if packed else 1), ROWS_MAX)
            tensor.dtype = c.BF16
            tensor.shape[:] = (1 if packed else batch, count, 1, 8)
            tensor.stride[:] = (8 * count, 8, 8, 1)
    if out is None:
        out = arguments.library.empty((schedule_length(batch),), "int32", first)
    group.schedule = arguments.numbers("out", out, "int32", (schedule_length(batch),))
    if (group.schedule or 0) != arguments.library.address(out):
        raise ValueError("out is not contiguous; a schedule is written where it lies")
    check_writable("out", out)
    group.schedule_bytes = 4 * schedule_length(batch)
    args.ragged = addressof(group)
    arguments.library.run(_function(), args, first)
    written: Array = out
    return written
