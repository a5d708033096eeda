"""The public functions: what is asked for is checked here, and the arguments' own library is
chosen."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType

from . import _library as c

_ORIGINS = ("none", "prebuilt", "disk", "jit", "memory", "cpu")


@dataclass(frozen=True)
class Launch:
    """One kernel that a call would run, and from where."""

    stem: str  # the kernel's name
    tile: str
    target: str  # what the cubin is compiled for, such as sm_90
    origin: str  # prebuilt, disk, jit, memory, cpu, or none: not available
    grid: int  # thread blocks
    threads: int  # of a thread block
    num_splits: int  # parts that the work of one output is split into
    registers: int  # per thread; 0 where not known yet
    spill_bytes: int  # per thread; -1 where not known yet
    smem_bytes: int  # per block


@dataclass(frozen=True)
class Description:
    """What a call would run, launch by launch; nothing where the output is empty."""

    launches: tuple[Launch, ...]

    @property
    def origin(self) -> str:
        """Of the first launch; "none" where there is none."""
        return self.launches[0].origin if self.launches else "none"

    @property
    def stem(self) -> str:
        """Of the first launch; "" where there is none."""
        return self.launches[0].stem if self.launches else ""

    @property
    def num_splits(self) -> int:
        """Of the first launch; 0 where there is none."""
        return self.launches[0].num_splits if self.launches else 0


_adapters: dict[type, ModuleType] = {}  # of the types seen so far


def _adapter_of(q: object) -> ModuleType:
    """The module that handles values of q's type. Neither library is imported unless the caller has
    it."""
    torch = sys.modules.get("torch")
    numpy = sys.modules.get("numpy")
    if torch is not None and isinstance(q, torch.Tensor):
        from . import _torch as adapter
    elif numpy is not None and isinstance(q, numpy.ndarray):
        from . import _numpy as adapter
    else:
        raise TypeError(f"q is {type(q).__name__}; PyTorch tensors and NumPy arrays are supported")
    return _adapters.setdefault(type(q), adapter)


def _causal_of(dropout_p, causal, window_size, softcap, alibi_slopes) -> bool:
    """The mask that is asked for; NotImplementedError, by name, for what is not built."""
    if dropout_p:
        raise NotImplementedError(f"dropout_p={dropout_p} is not implemented; only 0.0 is")
    if softcap:
        raise NotImplementedError(f"softcap={softcap} is not implemented; only 0.0 is")
    if alibi_slopes is not None:
        raise NotImplementedError("alibi_slopes is not implemented; only None is")
    window = tuple(window_size)
    if window == (-1, 0):  # nothing to the right of the diagonal: this is the causal mask
        return True
    if window != (-1, -1):
        raise NotImplementedError(
            f"window_size={window} is not implemented; only (-1, -1) and (-1, 0) are"
        )
    return bool(causal)


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """softmax(softmax_scale * Q K^T) V, with the signature of flash-attn 2's function of this name.

    q: (batch, seqlen_q, heads_q, head_dim), k: (batch, seqlen_k, heads_kv, head_dim), v: (batch,
    seqlen_k, heads_kv, head_dim_v): PyTorch tensors on one CUDA device (fp16, bf16) or on the CPU,
    or NumPy arrays (fp16, fp32, and bf16 by ml_dtypes). heads_q is a multiple of heads_kv. Head
    dims are multiples of 8, up to 512. Any strides: a tensor that kernels cannot read as it lies
    (last dimension not contiguous, another stride not a multiple of 8 elements, data not 16-byte
    aligned) is copied first.

    softmax_scale: 1 / sqrt(head_dim) where None.
    causal: query i sees keys j <= i + seqlen_k - seqlen_q.
    deterministic: accepted either way; the result always is.
    return_attn_probs: returns (out, softmax_lse, an empty tensor), as flash-attn does without
    dropout; softmax_lse is (batch, heads_q, seqlen_q) in fp32, -inf for rows that see no key.

    Returns out: (batch, seqlen_q, heads_q, head_dim_v), its dimensions in memory in q's order. On a
    GPU the work is queued on the current stream of q's device, and nothing waits for it.

    Raises NotImplementedError for dropout, a window, softcap, alibi_slopes and tensors that require
    grad; ValueError or TypeError for arguments that are not allowed; attnpress.Error (both of these
    too, where the library found the fault) for a call that failed.
    """
    if dropout_p or softcap or alibi_slopes is not None or window_size != (-1, -1):
        causal = _causal_of(dropout_p, causal, window_size, softcap, alibi_slopes)
    adapter = _adapters.get(type(q)) or _adapter_of(q)
    return adapter.forward(q, k, v, softmax_scale, causal, return_attn_probs)


def prepare(q, k, v, softmax_scale=None, causal=False) -> None:
    """Loads every kernel that flash_attn_func may choose for such tensors and any batch or length,
    compiling where needed: later calls neither wait nor fail under CUDA graph capture. The data is
    not read."""
    _adapter_of(q).with_plan(q, k, v, softmax_scale, causal, c.prepare_any)


def describe(q, k, v, softmax_scale=None, causal=False) -> Description:
    """Says what flash_attn_func would run for such tensors, without running it. The data is not
    read."""
    records: list[c.Info] = []
    _adapter_of(q).with_plan(q, k, v, softmax_scale, causal, c.describe_launches, records)
    return Description(
        tuple(
            Launch(
                stem=info.stem.decode(),
                tile=info.tile.decode(),
                target=info.target.decode(),
                origin=_ORIGINS[info.origin],
                grid=info.grid,
                threads=info.threads,
                num_splits=info.num_splits,
                registers=info.registers,
                spill_bytes=info.spill_bytes,
                smem_bytes=info.smem_bytes,
            )
            for info in records
        )
    )
