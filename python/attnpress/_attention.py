"""The public functions: what is asked for is checked here, and the arguments' own library is
chosen."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, NoReturn, TypeVar, overload

from . import _library as c
from ._score_mod import ScoreMod
from ._scores import (
    Groups,
    Request,
    groups_of,
    mask_of,
    probabilities,
    probability_of,
    softcap_of,
    window_of,
)

Array = TypeVar("Array")
"""torch.Tensor or numpy.ndarray: what comes in goes out."""

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
    adapter: ModuleType
    if torch is not None and isinstance(q, torch.Tensor):
        if type(q).__torch_dispatch__ is torch.Tensor.__torch_dispatch__:
            from . import _torch

            adapter = _torch
        else:  # a fake tensor, a DTensor: without data of its own, the dispatcher knows what to do
            from . import _ops

            _ops.learn_sharding()
            adapter = _ops
    elif numpy is not None and isinstance(q, numpy.ndarray):
        from . import _numpy

        adapter = _numpy
    else:
        raise TypeError(f"q is {type(q).__name__}; PyTorch tensors and NumPy arrays are supported")
    return _adapters.setdefault(type(q), adapter)


def _tracing() -> ModuleType | None:
    """The adapter of calls that go into a graph, while PyTorch makes one. It is asked for first: a
    graph is made anew when something changes that Dynamo has read on the way to it."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.compiler.is_compiling():
        return None
    from . import _ops as adapter

    return adapter


def _request_of(
    causal: bool,
    window_size: Any,
    softcap: float,
    alibi_slopes: object,
    bias: object,
    sinks: object,
    dropout_p: float,
    seed: object,
    chunk: int = 0,
    top_left: bool = False,
    score_mod: ScoreMod | None = None,
) -> tuple[bool, Request | None]:
    """Whether the mask is causal, and what else is asked for."""
    causal, window = mask_of(bool(causal), window_size, chunk, top_left)
    if score_mod is not None and not isinstance(score_mod, ScoreMod):
        raise TypeError(
            f"score_mod is {type(score_mod).__name__}; it must be an attnpress.ScoreMod"
        )
    request = Request(
        window=window,
        softcap=softcap_of(softcap),
        alibi_slopes=alibi_slopes,
        bias=bias,
        sinks=sinks,
        dropout_p=probability_of(dropout_p),
        seed=seed,
        score_mod=score_mod,
    )
    return causal, request if request.asks() else None


def _sinks_of(s_aux: Any, sinks: Any) -> Any:
    if s_aux is not None and sinks is not None:
        raise ValueError("s_aux and sinks are both given; they are two names of one argument")
    return sinks if s_aux is None else s_aux


@functools.lru_cache(maxsize=256)
def _without_tensors(causal: bool, window_size: Any, softcap: float) -> tuple[bool, Groups | None]:
    """The mask and the groups of calls that have a window or a softcap alone: many calls share
    them."""
    causal, request = _request_of(causal, window_size, softcap, None, None, None, 0.0, None)
    return causal, None if request is None else groups_of(None, request, None, None)


def _again(
    adapter: ModuleType, q: Any, k: Any, v: Any, alibi_slopes: Any, bias: Any, sinks: Any,
    options: tuple[Any, ...], is_known: bool, with_lse: bool, deterministic: bool,
) -> tuple[dict[str, Any], Any]:  # fmt: skip
    """(further arguments of the adapter's forward(), what it returns) of a call with tensors of
    features that its adapter knows again; else the latter is None. is_known: False of calls with
    other features. options: scale, causal, window_size, softcap, chunk, top_left."""
    again = getattr(adapter, "forward_again", None)
    if again is None or not is_known:
        return {}, None
    asked, found = again(
        q, k, v, alibi_slopes, bias, sinks, options, bool(with_lse), bool(deterministic)
    )
    return ({} if asked is None else {"asked": asked}), found


def _has_numbers_alone(
    alibi_slopes: object, bias: object, sinks: object, dropout_p: Any, score_mod: object,
    window_size: Any, chunk: Any, top_left: Any,
) -> bool:  # fmt: skip
    """Whether _without_tensors() says what a call asks for."""
    return (
        alibi_slopes is bias is sinks is score_mod is None
        and dropout_p.__class__ is float
        and dropout_p == 0
        and window_size.__class__ is tuple
        and all(side.__class__ is int for side in window_size)
        and chunk.__class__ is int
        and chunk == 0
        and top_left is False
    )


def _groups_of(adapter: ModuleType, request: Request | None, q, k, v, scale) -> Groups | None:
    if request is None:
        return None
    adapter.check_no_grad(request)
    adapter.checked(q, k, v, scale)
    return groups_of(adapter, request, q, k)


@overload
def flash_attn_func(
    q: Array,
    k: Array,
    v: Array,
    dropout_p: float = ...,
    softmax_scale: float | None = ...,
    causal: bool = ...,
    window_size: tuple[int, int] = ...,
    softcap: float = ...,
    alibi_slopes: Array | None = ...,
    deterministic: bool = ...,
    return_attn_probs: Literal[False] = ...,
    *,
    s_aux: Array | None = ...,
    sinks: Array | None = ...,
    bias: Array | None = ...,
    score_mod: ScoreMod | None = ...,
    seed: int | tuple[int, int] | Array | None = ...,
) -> Array: ...
@overload
def flash_attn_func(
    q: Array,
    k: Array,
    v: Array,
    dropout_p: float = ...,
    softmax_scale: float | None = ...,
    causal: bool = ...,
    window_size: tuple[int, int] = ...,
    softcap: float = ...,
    alibi_slopes: Array | None = ...,
    deterministic: bool = ...,
    *,
    return_attn_probs: Literal[True],
    s_aux: Array | None = ...,
    sinks: Array | None = ...,
    bias: Array | None = ...,
    score_mod: ScoreMod | None = ...,
    seed: int | tuple[int, int] | Array | None = ...,
) -> tuple[Array, Array, Array]: ...
def flash_attn_func(
    q: Array,
    k: Array,
    v: Array,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Array | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    *,
    s_aux: Array | None = None,
    sinks: Array | None = None,
    bias: Array | None = None,
    score_mod: ScoreMod | None = None,
    seed: int | tuple[int, int] | Array | None = None,
) -> Any:
    """softmax(softmax_scale * Q K^T) V, with the signature of flash-attn 2's function of this name,
    and more by keyword.

    q: (batch, seqlen_q, heads_q, head_dim), k: (batch, seqlen_k, heads_kv, head_dim), v: (batch,
    seqlen_k, heads_kv, head_dim_v): PyTorch tensors on one CUDA device (fp16, bf16) or on the CPU,
    or NumPy arrays (fp16, fp32, and bf16 by ml_dtypes). heads_q is a multiple of heads_kv. Head
    dims are multiples of 8, up to 512. Any strides: a tensor that kernels cannot read as it lies
    (last dimension not contiguous, another stride not a multiple of 8 elements, data not 16-byte
    aligned) is copied first.

    The score of query i and key j is softcap(softmax_scale <q_i, k_j>) + bias + ALiBi; then the
    mask takes keys out, the sink enters the sum, and dropout acts on the probabilities.

    dropout_p: each probability becomes 0 with this probability, else 1 / (1 - dropout_p) of itself.
    softmax_scale: 1 / sqrt(head_dim) where None.
    causal: query i sees keys j <= i + seqlen_k - seqlen_q.
    window_size: (left, right): query i sees keys from i + seqlen_k - seqlen_q - left to i +
        seqlen_k - seqlen_q + right; -1: all on that side. With causal right is 0.
    softcap: scores become softcap * tanh(score / softcap); 0: they do not.
    alibi_slopes: (heads_q) or (batch, heads_q), fp32: -slope * |i + seqlen_k - seqlen_q - j| is
        added.
    deterministic: whether the backward pass gives the same bits in every run, which costs speed;
        the forward pass always does.
    return_attn_probs: returns (out, softmax_lse, S_dmask); softmax_lse is (batch, heads_q,
        seqlen_q) in fp32, -inf for rows that see no key. S_dmask is empty without dropout, as in
        flash-attn; with it it holds, for tests, the probabilities before dropout, (batch, heads_q,
        seqlen_q, seqlen_k) of q's dtype, negative where they were dropped.
    s_aux, sinks: (heads_q), fp16, bf16 or fp32, two names of one argument: a score a head that
        takes part in the sum alone.
    bias: (batch, heads_q, seqlen_q, seqlen_k), or what broadcasts to it; fp16, bf16 or fp32; -inf
        masks a key.
    score_mod: an attnpress.ScoreMod, one's own C text for scores and masks, on a GPU; scores come
        to it after the softcap. It goes with neither alibi_slopes nor bias.
    seed: of dropout: an int, two (seed, offset), or a tensor of these two on q's device, which a
        captured graph reads at each replay. None: drawn by PyTorch's or NumPy's own generator.

    Returns out: (batch, seqlen_q, heads_q, head_dim_v), its dimensions in memory in q's order. On a
    GPU the work is queued on the current stream of q's device, and nothing waits for it. Where a
    PyTorch tensor requires grad, out and softmax_lse have gradients by q, k, v, bias, sinks and the
    tensors of score_mod, and no second ones; flash_attn_backward gives those by q, k, v and sinks
    without autograd.

    Raises NotImplementedError for alibi_slopes that require grad, by which there are no gradients
    yet, and with deterministic for a tensor of score_mod that does; attnpress.NotSupportedError for
    a score_mod on the CPU; ValueError or TypeError for arguments that are not allowed;
    attnpress.Error (both of these too, where the library found the fault) for a call that failed.
    """
    adapter = _tracing() or _adapters.get(type(q)) or _adapter_of(q)
    if adapter.IS_TRACED:
        if score_mod is not None:
            _refuse_traced_mod()
        return adapter.flash_attn_func(
            q, k, v, softmax_scale=softmax_scale, causal=causal, window_size=window_size,
            softcap=softcap, alibi_slopes=alibi_slopes, bias=bias, sinks=_sinks_of(s_aux, sinks),
            dropout_p=dropout_p, seed=seed, deterministic=deterministic,
            return_attn_probs=return_attn_probs,
        )  # fmt: skip
    groups = None
    kept: dict[str, Any] = {}
    if (
        dropout_p
        or alibi_slopes is not None
        or bias is not None
        or sinks is not None
        or s_aux is not None
        or score_mod is not None
    ):
        sinks = _sinks_of(s_aux, sinks)
        kept, found = _again(
            adapter, q, k, v, alibi_slopes, bias, sinks,
            (softmax_scale, causal, window_size, softcap, 0, False),
            dropout_p == 0 and score_mod is None, return_attn_probs, deterministic,
        )  # fmt: skip
        if found is not None:
            return found
        causal, request = _request_of(
            causal, window_size, softcap, alibi_slopes, bias, sinks, dropout_p, seed,
            score_mod=score_mod,
        )  # fmt: skip
        if score_mod is not None and dropout_p and return_attn_probs:
            raise NotImplementedError(
                "return_attn_probs with dropout and score_mod: S_dmask is computed anew by PyTorch,"
                " which runs no snippet; call without return_attn_probs, or use forward()"
            )
        groups = _groups_of(adapter, request, q, k, v, softmax_scale)
    elif softcap or window_size.__class__ is not tuple or window_size != (-1, -1):
        if window_size.__class__ is not tuple:  # a list, an array
            window_size = window_of(window_size)
        causal, groups = _without_tensors(bool(causal), window_size, softcap)
    result = adapter.forward(
        q, k, v, softmax_scale, causal, return_attn_probs, groups, bool(deterministic), **kept
    )
    if groups is None or not (return_attn_probs and groups.dropout_p):
        return result
    out, lse, _ = result
    assert request is not None
    keep = adapter.dropout_mask(q, k.shape[1], groups)  # type: ignore[attr-defined]
    p = probabilities(adapter, request, causal, softmax_scale, q, k, lse)
    return out, lse, adapter.signed(p, keep, q)


def _refuse_traced_mod() -> NoReturn:
    raise NotImplementedError(
        "score_mod is not known in graphs (torch.compile, export, fake tensors): call it eagerly"
    )


def _check_seed(dropout_p: float, seed: Any) -> None:
    """ValueError where a backward pass has dropout and no seed."""
    if dropout_p and seed is None:
        raise ValueError(
            f"dropout_p is {dropout_p} and seed is None; the gradients need the seed of the call"
        )


def flash_attn_backward(
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    softmax_lse: Array,
    softmax_scale: float | None = None,
    causal: bool = False,
    deterministic: bool = False,
    dsoftmax_lse: Array | None = None,
    *,
    window_size: tuple[int, int] = (-1, -1),
    chunk: int = 0,
    top_left: bool = False,
    softcap: float = 0.0,
    alibi_slopes: Array | None = None,
    bias: Array | None = None,
    sinks: Array | None = None,
    dropout_p: float = 0.0,
    seed: int | tuple[int, int] | Array | None = None,
    score_mod: ScoreMod | None = None,
) -> tuple[Array, ...]:
    """The gradients by q, k and v, and by sinks, of a loss whose gradient by out is dout.

    q, k, v, softmax_scale, causal and what comes by keyword are those of flash_attn_func and
    forward, out and softmax_lse, (batch, heads_q, seqlen_q) in fp32, what they returned; PyTorch
    tensors or NumPy arrays. Any strides, as there. seed: that of the call; None is refused where
    there is dropout.

    deterministic: whether every bit is the same in every run; dq may else be summed in any order.
    dsoftmax_lse: the gradient by softmax_lse, where that is part of the loss.

    Returns dq, dk, dv: the shapes and the dtype of q, k, v, and their order of dimensions in
    memory; with sinks dsinks behind them, (heads_q) of the dtype of sinks. The gradient by a bias
    is autograd's alone.

    Raises ValueError or TypeError for arguments that are not allowed; attnpress.Error for a call
    that failed.
    """
    adapter = _tracing() or _adapters.get(type(q)) or _adapter_of(q)
    _check_seed(dropout_p, seed)
    if adapter.IS_TRACED:
        if score_mod is not None:
            _refuse_traced_mod()
        return adapter.flash_attn_backward(
            dout, q, k, v, out, softmax_lse, softmax_scale, causal, deterministic, dsoftmax_lse,
            window_size=window_size, chunk=chunk, top_left=top_left, softcap=softcap,
            alibi_slopes=alibi_slopes, bias=bias, sinks=sinks, dropout_p=dropout_p, seed=seed,
        )  # fmt: skip
    deterministic = bool(deterministic)
    backward = adapter.backward
    if _has_numbers_alone(
        alibi_slopes, bias, sinks, dropout_p, score_mod, window_size, chunk, top_left
    ):
        causal, groups = _without_tensors(bool(causal), window_size, softcap)
        backward = getattr(adapter, "backward_quickly", backward)
    elif score_mod is None and dropout_p == 0 and hasattr(adapter, "backward_again"):
        options = softmax_scale, causal, window_size, softcap, chunk, top_left
        return adapter.backward_again(
            dout, q, k, v, out, softmax_lse, dsoftmax_lse, alibi_slopes, bias, sinks, options,
            deterministic,
        )  # fmt: skip
    else:
        causal, request = _request_of(
            causal, window_size, softcap, alibi_slopes, bias, sinks, dropout_p, seed, chunk,
            top_left, score_mod,
        )  # fmt: skip
        groups = _groups_of(adapter, request, q, k, v, softmax_scale)
    return backward(
        dout, q, k, v, out, softmax_lse, softmax_scale, causal, deterministic, dsoftmax_lse, groups
    )


def forward(
    q: Array,
    k: Array,
    v: Array,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    chunk: int = 0,
    top_left: bool = False,
    softcap: float = 0.0,
    alibi_slopes: Array | None = None,
    bias: Array | None = None,
    sinks: Array | None = None,
    dropout_p: float = 0.0,
    seed: int | tuple[int, int] | Array | None = None,
    deterministic: bool = False,
    score_mod: ScoreMod | None = None,
) -> tuple[Array, Array]:
    """(out, lse) of what the library's forward call does, by its names: flash_attn_func() and

    chunk: keys of a chunk; a query sees those of its own alone (Llama 4's attention_chunk). 0: no
        chunks.
    top_left: the mask (causal, window_size, chunk) counts from the first key: query i stands at key
        i, not at i + seqlen_k - seqlen_q. ALiBi's distance does not follow it.
    """
    adapter = _tracing() or _adapters.get(type(q)) or _adapter_of(q)
    if adapter.IS_TRACED:
        if score_mod is not None:
            _refuse_traced_mod()
        return adapter.attention(
            q, k, v, softmax_scale=softmax_scale, causal=causal, window_size=window_size,
            softcap=softcap, alibi_slopes=alibi_slopes, bias=bias, sinks=sinks, dropout_p=dropout_p,
            seed=seed, deterministic=deterministic, chunk=chunk, top_left=top_left,
        )  # fmt: skip
    kept: dict[str, Any] = {}
    if _has_numbers_alone(
        alibi_slopes, bias, sinks, dropout_p, score_mod, window_size, chunk, top_left
    ):
        causal, groups = _without_tensors(bool(causal), window_size, softcap)
    else:
        kept, found = _again(
            adapter, q, k, v, alibi_slopes, bias, sinks,
            (softmax_scale, causal, window_size, softcap, chunk, top_left),
            dropout_p == 0 and score_mod is None, True, deterministic,
        )  # fmt: skip
        if found is not None:
            return found[:2]
        causal, request = _request_of(
            causal, window_size, softcap, alibi_slopes, bias, sinks, dropout_p, seed, chunk,
            top_left, score_mod,
        )  # fmt: skip
        groups = _groups_of(adapter, request, q, k, v, softmax_scale)
    return adapter.forward(
        q, k, v, softmax_scale, causal, True, groups, bool(deterministic), **kept
    )[:2]


def dropout_mask(
    q: Array, k: Array, dropout_p: float, seed: int | tuple[int, int] | Array
) -> Array:
    """Which probabilities a call on q and k with this dropout and seed keeps: a bool tensor or
    array (batch, heads_q, seqlen_q, seqlen_k). seed: as in flash_attn_func(), not None."""
    adapter = _adapters.get(type(q)) or _adapter_of(q)
    if seed is None:
        raise ValueError("seed is None; the mask of a seed that was not kept cannot be told")
    if probability_of(dropout_p) == 0.0:
        raise ValueError(f"dropout_p is {dropout_p}; nothing is dropped, so there is no mask")
    groups = _groups_of(adapter, Request(dropout_p=float(dropout_p), seed=seed), q, k, k, None)
    return adapter.dropout_mask(q, k.shape[1], groups)  # type: ignore[attr-defined]


def _ask(function, q, k, v, softmax_scale, causal, features, *rest) -> None:
    """function(handle, args, *rest) of the library for a call that is not made."""
    adapter = _adapter_of(q)
    s_aux, sinks = features.pop("s_aux", None), features.pop("sinks", None)
    known = {
        "window_size": (-1, -1),
        "softcap": 0.0,
        "alibi_slopes": None,
        "bias": None,
        "dropout_p": 0.0,
        "seed": (0, 0),
        "chunk": 0,
        "top_left": False,
        "score_mod": None,
    }
    for name in features:
        if name not in known:
            raise TypeError(f"{name} is not an argument; {', '.join(known)} and sinks are")
    causal, request = _request_of(
        causal=causal, sinks=_sinks_of(s_aux, sinks), **{**known, **features}
    )
    groups = _groups_of(adapter, request, q, k, v, softmax_scale)
    adapter.with_plan(q, k, v, softmax_scale, causal, groups, function, *rest)


def prepare(
    q: Array,
    k: Array,
    v: Array,
    softmax_scale: float | None = None,
    causal: bool = False,
    **features: Any,
) -> None:
    """Loads every kernel that flash_attn_func may choose for such tensors and any batch or length,
    compiling where needed: later calls neither wait nor fail under CUDA graph capture. The data is
    not read. features: further arguments of flash_attn_func and forward, by their names."""
    _ask(c.prepare_any, q, k, v, softmax_scale, causal, features)


def describe(
    q: Array,
    k: Array,
    v: Array,
    softmax_scale: float | None = None,
    causal: bool = False,
    **features: Any,
) -> Description:
    """Says what flash_attn_func would run for such tensors, without running it. The data is not
    read. features: further arguments of flash_attn_func and forward, by their names."""
    records: list[c.Info] = []
    _ask(c.describe_launches, q, k, v, softmax_scale, causal, features, records)
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
