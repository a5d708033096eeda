"""Attention over parts of the keys, merged. Mirrors include/attnpress/merge.h."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_int32, c_int64, c_size_t, c_void_p, cast, sizeof
from typing import Any, TypeVar

from . import _library as c
from ._rows import check_writable, declared, library_of
from ._strided import Arguments

Array = TypeVar("Array")
"""torch.Tensor or numpy.ndarray."""

PARTS_MAX = 16
"""ATTNPRESS_MERGE_PARTS_MAX"""


class MergePart(Structure):
    """attnpress_merge_part"""

    _fields_ = [("out", c.Tensor), ("lse", c_void_p), ("lse_stride", c_int64 * 3)]


class MergeArgs(Structure):
    """attnpress_merge_args"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("parts", POINTER(MergePart)),
        ("num_parts", c_int32),
        ("lse_log2", c_int32),
        ("out", c.Tensor),
        ("lse", c_void_p),
        ("lse_stride", c_int64 * 3),
    ]


@functools.cache
def _function() -> Callable[..., int]:
    return declared("attnpress_merge")


def merge(
    outs: Sequence[Array],
    lses: Sequence[Array],
    *,
    out: Array | None = None,
    lse: Array | None = None,
    dtype: Any = None,
    log2: bool = False,
) -> tuple[Array, Array]:
    """Attention over all keys, from attention over parts of them.

    outs: 1 to 16 PyTorch tensors (fp16, bf16, fp32, on a GPU or the CPU) or NumPy arrays (float16,
    float32, bfloat16 of ml_dtypes) of one dtype, each (batch, seqlen, heads, head_dim), or (total,
    heads, head_dim) of ragged sequences; any strides. lses: as many, float32, (batch, heads,
    seqlen) or (heads, total), natural logarithms, or with `log2` to base 2. A part whose lse is
    infinite had no keys for that row, and its row counts for nothing.

    out, lse: where the result is written, otherwise new; they may be one of the parts' own, of the
    same dtype, to merge into what is there. dtype: that of a new `out`, otherwise the parts'.

    Returns (out, lse); rows without keys are 0 and -inf. On a GPU the work is queued on the current
    stream of the first part's device. Raises ValueError or TypeError for arguments that are not
    allowed, attnpress.Error for a call that failed, NotImplementedError where gradients would be
    recorded.
    """
    outs, lses = list(outs), list(lses)
    if not 1 <= len(outs) <= PARTS_MAX:
        raise ValueError(f"outs has {len(outs)} parts; 1 to {PARTS_MAX} are merged in one call")
    if len(lses) != len(outs):
        raise ValueError(f"lses has {len(lses)} parts and outs {len(outs)}; they must be as many")
    first: Any = outs[0]
    library = library_of("outs[0]", first)
    asked = None
    if dtype is None:
        asked, made = library.known(("merge", len(outs), log2), *outs, *lses, out, lse)
        if made is not None:
            return made[0], made[1]
    given = Arguments("outs[0]", first)
    ragged = len(first.shape) == 3
    shape = tuple(first.shape)
    if len(shape) not in (3, 4):
        raise ValueError(
            f"outs[0] has shape {shape}; it must be (batch, seqlen, heads, head_dim) or (total, "
            "heads, head_dim)"
        )
    rows = (shape[1], shape[0]) if ragged else (shape[0], shape[2], shape[1])
    parts = (MergePart * len(outs))()
    for i, (part_out, part_lse) in enumerate(zip(outs, lses)):
        parts[i].out = given.tensor(f"outs[{i}]", part_out, ragged=ragged)
        _give_lse(given, parts[i], f"lses[{i}]", part_lse, rows)
    given.refuse_grad(*outs, *lses, out, lse)
    if out is None:
        try:
            out = library.empty(shape, first.dtype if dtype is None else dtype, first)
        except (TypeError, AttributeError):
            raise TypeError(
                f"dtype is {dtype!r}; it must be a dtype of the parts' library"
            ) from None
    elif dtype is not None:
        raise ValueError("out and dtype are given; either says what is written")
    if lse is None:
        lse = library.empty(rows, "float32", first)
    args = MergeArgs(struct_size=sizeof(MergeArgs), num_parts=len(outs), lse_log2=int(bool(log2)))
    args.parts = cast(parts, POINTER(MergePart))
    args.out = given.tensor("out", out, written=True, ragged=ragged)
    _give_lse(given, args, "lse", lse, rows, written=True)
    library.run(_function(), args, first, asked, (out, lse), pointed=(parts,))
    return out, lse


def _give_lse(
    given: Arguments,
    struct: Any,
    name: str,
    value: Any,
    rows: Sequence[int],
    written: bool = False,
) -> None:
    """Puts an lse with its strides into the struct."""
    given.check_array(name, value, "float32", rows)
    strides = tuple(given.library.strides(value))
    if written:
        check_writable(name, value)
    flags = getattr(value, "flags", None)
    readable = all(s >= 0 or n <= 1 for s, n in zip(strides, rows)) and (
        flags is None or flags.aligned
    )
    if not readable and written:
        raise ValueError(f"{name} has strides {strides}; they must not be negative")
    # All strides 0 would mean contiguous.
    if not readable or (all(s == 0 for s in strides) and any(n > 1 for n in rows)):
        value = given.library.contiguous(value)
        strides = tuple(given.library.strides(value))
    given.kept.append(value)
    struct.lse = given.library.address(value) or None
    struct.lse_stride[:] = (0, *strides) if len(strides) == 2 else strides
    if struct.lse_stride[2] == 0 and rows[-1] == 1:
        struct.lse_stride[2] = 1
