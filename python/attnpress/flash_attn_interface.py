"""flash-attn 2.8.3's module of this name: every function with its literal signature, its defaults,
its order of arguments and results, on attnpress's kernels.

    from attnpress.flash_attn_interface import flash_attn_func

What is told apart from flash-attn's, beside speed: head dims up to 512 and V's own; tensors on the
CPU; a row that sees no key has the lse -inf (flash-attn: +inf); S_dmask is not padded to multiples
of 128; softcap goes with dropout; errors name the value and what is allowed, and are RuntimeErrors,
as flash-attn's are. What attnpress does not do yet is refused by name, with NotImplementedError.

Calls in a graph of torch.compile's become operators (attnpress::attention, and one for each private
function); eager calls of the public functions take the direct way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import torch

import attnpress

from . import _library as c
from . import _ops, _torch

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]

_Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


# ---- What attnpress has --------------------------------------------------------------------------


def refuse(message: str) -> NoReturn:
    """A RuntimeError, which flash-attn raises, that is a ValueError too, as attnpress's are."""
    raise attnpress.InvalidArgumentError(c.INVALID_ARGUMENT, message)


def not_here(what: str, instead: str) -> NoReturn:
    raise NotImplementedError(f"attnpress {attnpress.__version__} has no {what}: {instead}")


def run(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """function(*args, **options), whose errors become RuntimeErrors with the same sentence."""
    try:
        return function(*args, **options)
    except RuntimeError:
        raise
    except (TypeError, ValueError) as error:
        raise attnpress.InvalidArgumentError(c.INVALID_ARGUMENT, str(error)) from error


def of_attnpress(name: str) -> Callable[..., Any]:
    """A function of the package that not every version of it has."""
    function = getattr(attnpress, name, None)
    if function is None:
        not_here(name, "flash_attn_func, on dense tensors, is what there is")
    return function


def only_known(function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options that ask for something, of which the function has to have each."""
    known = inspect.signature(function).parameters
    asked = {name: value for name, value in options.items() if value is not None}
    for name, value in asked.items():
        if name not in known:
            shown = f"a {type(value).__name__}" if isinstance(value, torch.Tensor) else repr(value)
            not_here(
                f"{name} in {function.__name__}", f"{name} is {shown}; only its default is allowed"
            )
    return asked


def window_of(left: int, right: int) -> tuple[int, int]:
    """Any negative number stands for all keys on that side."""
    return (left if left >= 0 else -1, right if right >= 0 else -1)


def plain(window_size: Any, softcap: float) -> tuple[Any, float]:
    """Both as attnpress has them."""
    if window_size != (-1, -1):
        window_size = window_of(*window_size)
    return window_size, softcap if softcap > 0 else 0.0


def padded(
    softmax_scale: float | None, *tensors: torch.Tensor
) -> tuple[float | None, int | None, tuple[torch.Tensor, ...]]:
    """(the scale of the first one's true head dim, the last one's where that is cut off again, the
    tensors with head dims that are multiples of 8, behind which zeros stand)."""
    if all(x.shape[-1] % 8 == 0 for x in tensors):
        return softmax_scale, None, tensors
    scale = tensors[0].shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    found = tuple(torch.nn.functional.pad(x, (0, -x.shape[-1] % 8)) for x in tensors)
    return scale, tensors[-1].shape[-1], found


def as_theirs(result: Any, hdim_v: int | None) -> Any:
    """out, or a tuple that begins with it, without the zeros behind hdim_v columns; S_dmask, where
    there is one, in units of each row's largest."""
    if not isinstance(result, tuple):
        return result if hdim_v is None else result[..., :hdim_v]
    out, *others, s_dmask = result
    if torch.is_tensor(s_dmask) and s_dmask.dim() == 4 and s_dmask.numel() > 0:
        largest = s_dmask.abs().amax(-1, keepdim=True)
        s_dmask = s_dmask / largest.where(largest > 0, 1)
    return out if hdim_v is None else out[..., :hdim_v], *others, s_dmask


def maybe_contiguous(x: torch.Tensor | None) -> torch.Tensor | None:
    return x.contiguous() if x is not None and x.stride(-1) != 1 else x


def _get_block_size_n(
    device: torch.device, head_dim: int, is_dropout: bool, is_causal: bool
) -> int:
    """Keys over which S_dmask is scaled by their largest score: here all of a row's; flash-attn's
    kernels have a block's and those behind it."""
    return 2**31 - 1


def round_multiple(x: int, m: int) -> int:
    return (x + m - 1) // m * m


# ---- Dense ---------------------------------------------------------------------------------------


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
    """attnpress.flash_attn_func, which says what the arguments are.

    q: (batch, seqlen_q, heads_q, head_dim), k, v: (batch, seqlen_k, heads_kv, head_dim). Head dims
    that are no multiple of 8 are padded with zeros first; softmax_scale is then that of the true
    one. softcap: 0 or less is none.

    Returns out, or (out, softmax_lse, S_dmask) where return_attn_probs.
    """
    window_size, softcap = plain(window_size, softcap)
    hdim_v = None
    if q.shape[-1] % 8 or v.shape[-1] % 8:
        softmax_scale, hdim_v, (q, k, v) = padded(softmax_scale, q, k, v)
    try:
        result = attnpress.flash_attn_func(
            q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes,
            deterministic, return_attn_probs,
        )  # fmt: skip
    except RuntimeError:
        raise
    except (TypeError, ValueError) as error:
        raise attnpress.InvalidArgumentError(c.INVALID_ARGUMENT, str(error)) from error
    return as_theirs(result, hdim_v) if hdim_v is not None or return_attn_probs else result


def flash_attn_qkvpacked_func(
    qkv,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """flash_attn_func of qkv's three parts. qkv: (batch, seqlen, 3, heads, head_dim)."""
    function = of_attnpress("flash_attn_qkvpacked_func")
    scale, hdim, (qkv,) = padded(softmax_scale, qkv)
    result = run(
        function, qkv, dropout_p, scale, causal, *plain(window_size, softcap), alibi_slopes,
        deterministic, return_attn_probs,
    )  # fmt: skip
    return as_theirs(result, hdim)


def flash_attn_kvpacked_func(
    q,
    kv,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """flash_attn_func of q and kv's two parts. q: (batch, seqlen_q, heads_q, head_dim), kv: (batch,
    seqlen_k, 2, heads_kv, head_dim)."""
    function = of_attnpress("flash_attn_kvpacked_func")
    scale, hdim, (q, kv) = padded(softmax_scale, q, kv)
    result = run(
        function, q, kv, dropout_p, scale, causal, *plain(window_size, softcap), alibi_slopes,
        deterministic, return_attn_probs,
    )  # fmt: skip
    return as_theirs(result, hdim)


# ---- Ragged --------------------------------------------------------------------------------------


class _WithoutGradient(torch.autograd.Function):
    """A result of pages that require grad: as with flash-attn, it is asking for a gradient that
    fails."""

    @staticmethod
    def forward(ctx, result, *tensors):
        return result.view_as(result)

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError(
            "there is no backward pass of calls with block_table: keys in pages have no gradients"
        )


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
):
    """Attention of sequences that lie one behind the other. q: (total_q, heads_q, head_dim), k, v:
    (total_k, heads_kv, head_dim), or with block_table pages; cu_seqlens: (batch + 1,), int32, where
    each begins; out as q, softmax_lse: (heads_q, total_q)."""
    function = of_attnpress("flash_attn_varlen_func")
    scale, hdim_v, tensors = padded(softmax_scale, q, k, v)
    if torch.compiler.is_compiling() and not (
        dropout_p or (torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)))
    ):
        out, lse, s_dmask, _ = _wrapped_flash_attn_varlen_forward(
            *tensors, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, 0.0,
            q.shape[-1] ** -0.5 if scale is None else scale, bool(causal), *window_size,
            float(softcap), alibi_slopes, False, block_table,
        )  # fmt: skip
        result = (out, lse, s_dmask) if return_attn_probs else out
    elif torch.compiler.is_compiling() and block_table is None:
        result = function(
            *tensors, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, scale,
            causal, *plain(window_size, softcap), alibi_slopes, deterministic, return_attn_probs,
        )  # fmt: skip
    else:
        paged = block_table is not None
        with torch.set_grad_enabled(torch.is_grad_enabled() and not paged):
            result = run(
                function, *tensors, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
                dropout_p, scale, causal, *plain(window_size, softcap), alibi_slopes,
                deterministic, return_attn_probs, block_table,
            )  # fmt: skip
        if paged and torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
            first = result[0] if return_attn_probs else result
            out = _WithoutGradient.apply(first, *tensors)
            result = (out, *result[1:]) if return_attn_probs else out
    return as_theirs(result, hdim_v)


def flash_attn_varlen_qkvpacked_func(
    qkv,
    cu_seqlens,
    max_seqlen,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """flash_attn_varlen_func of qkv's three parts. qkv: (total, 3, heads, head_dim)."""
    function = of_attnpress("flash_attn_varlen_qkvpacked_func")
    scale, hdim, (qkv,) = padded(softmax_scale, qkv)
    result = run(
        function, qkv, cu_seqlens, max_seqlen, dropout_p, scale, causal,
        *plain(window_size, softcap), alibi_slopes, deterministic, return_attn_probs,
    )  # fmt: skip
    return as_theirs(result, hdim)


def flash_attn_varlen_kvpacked_func(
    q,
    kv,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
):
    """flash_attn_varlen_func of q and kv's two parts. kv: (total_k, 2, heads_kv, head_dim)."""
    function = of_attnpress("flash_attn_varlen_kvpacked_func")
    scale, hdim, (q, kv) = padded(softmax_scale, q, kv)
    result = run(
        function, q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, scale,
        causal, *plain(window_size, softcap), alibi_slopes, deterministic, return_attn_probs,
    )  # fmt: skip
    return as_theirs(result, hdim)


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    rotary_cos=None,
    rotary_sin=None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    rotary_interleaved=True,
    alibi_slopes=None,
    num_splits=0,
    return_softmax_lse=False,
):
    """Attention on a cache of keys and values, to which k and v are appended in place first. q:
    (batch, seqlen_q, heads_q, head_dim), caches: (batch_cache, seqlen_cache, heads_kv, head_dim),
    or with block_table pages; no gradients. With a head dim that is no multiple of 8 the caches are
    copied, and what is appended is copied back."""
    scale, hdim_v, (padded_q, keys, values) = padded(softmax_scale, q, k_cache, v_cache)
    if hdim_v is not None and k is not None:
        k, v = padded(None, k, v)[2]
    result = run(
        of_attnpress("flash_attn_with_kvcache"), padded_q, keys, values, k, v, rotary_cos,
        rotary_sin, cache_seqlens, cache_batch_idx, cache_leftpad, block_table, scale, causal,
        *plain(window_size, softcap), rotary_interleaved, alibi_slopes, num_splits,
        return_softmax_lse,
    )  # fmt: skip
    if hdim_v is None:
        return result
    if k is not None:
        k_cache.copy_(keys[..., : k_cache.shape[-1]])
        v_cache.copy_(values[..., : v_cache.shape[-1]])
    if return_softmax_lse:
        return result[0][..., :hdim_v], result[1]
    return result[..., :hdim_v]


# ---- The private functions, which clients call by position ---------------------------------------


def run_forward(
    q, k, v, dropout_p, softmax_scale, causal, window_size_left, window_size_right, softcap,
    alibi_slopes, return_softmax, generator=None,
) -> _Tensors:  # fmt: skip
    """(out, softmax_lse, S_dmask, rng_state) of q's head dim, which is a multiple of 8. rng_state:
    (2,) int64, seed and offset of the dropout, of no meaning without."""
    if return_softmax and not dropout_p > 0:
        refuse(f"return_softmax needs dropout_p > 0, and dropout_p is {dropout_p}")
    if q.shape[-1] % 8:
        refuse(f"the head dim is {q.shape[-1]}; it must be a multiple of 8")
    window, softcap = plain((window_size_left, window_size_right), softcap)
    seed = None
    if dropout_p:
        seed = torch.randint(
            -(1 << 63), (1 << 63) - 1, (2,), dtype=torch.int64, device=q.device,
            generator=generator,
        )  # fmt: skip
    call = (
        attnpress.flash_attn_func, q, k, v, dropout_p, softmax_scale, causal, window, softcap,
        alibi_slopes, False, True,
    )  # fmt: skip
    if _torch.needs_grad(q, k, v, alibi_slopes):
        with torch.no_grad():
            out, lse, p = run(*call, seed=seed)
    else:
        out, lse, p = run(*call, seed=seed)
    if dropout_p and not return_softmax:
        p = q.new_empty((0,))
    if seed is None:
        seed = torch.empty_strided((2,), (1,), dtype=torch.int64, device=q.device)
    return out, lse, p, seed


def row_sums(dout, out) -> torch.Tensor:
    """softmax_d, the sums over the head dim of dout * out: (batch, heads, seqlen rounded up to
    128), fp32, zeros behind."""
    sums = (dout.float() * out.float()).sum(-1).transpose(1, 2)
    seqlen = sums.shape[2]
    return torch.nn.functional.pad(sums, (0, round_multiple(seqlen, 128) - seqlen)).contiguous()


def run_backward(
    dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal,
    window_size_left, window_size_right, softcap, alibi_slopes, deterministic, rng_state=None,
) -> tuple[Any, Any, Any, torch.Tensor]:  # fmt: skip
    """(dq, dk, dv, softmax_d); the first three are written where they are given."""
    left, right = window_of(window_size_left, window_size_right)
    window = None if left < 0 and (right < 0 or causal) else (left, right)
    features = only_known(
        attnpress.flash_attn_backward,
        {
            "window_size": window,
            "softcap": softcap if softcap > 0 else None,
            "alibi_slopes": alibi_slopes,
            "dropout_p": dropout_p or None,
            "seed": rng_state if dropout_p else None,
        },
    )
    found = run(
        attnpress.flash_attn_backward, dout, q, k, v, out, softmax_lse, softmax_scale, causal,
        deterministic, **features,
    )  # fmt: skip
    written = []
    for name, given, gradient in zip(("dq", "dk", "dv"), (dq, dk, dv), found):
        if given is not None and (given.shape, given.dtype) != (gradient.shape, gradient.dtype):
            refuse(
                f"{name} is {tuple(given.shape)} of {given.dtype}; it must be "
                f"{tuple(gradient.shape)} of {gradient.dtype}"
            )
        written.append(gradient if given is None else given.copy_(gradient))
    return (*written, row_sums(dout, out))


def run_varlen_forward(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
    causal, window_size_left, window_size_right, softcap, alibi_slopes, return_softmax, block_table,
    leftpad_k, seqused_k, generator=None,
) -> _Tensors:  # fmt: skip
    """run_forward() of sequences that lie one behind the other."""
    if return_softmax and not dropout_p > 0:
        refuse(f"return_softmax needs dropout_p > 0, and dropout_p is {dropout_p}")
    function = of_attnpress("flash_attn_varlen_func")
    seed = None
    if dropout_p:
        seed = torch.randint(
            -(1 << 63), (1 << 63) - 1, (2,), dtype=torch.int64, device=q.device,
            generator=generator,
        )  # fmt: skip
    options = only_known(function, {"leftpad_k": leftpad_k, "seqused_k": seqused_k, "seed": seed})
    with torch.no_grad():
        out, lse, p = run(
            function, q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p,
            softmax_scale, causal, *plain((window_size_left, window_size_right), softcap),
            alibi_slopes, False, True, block_table, **options,
        )  # fmt: skip
    if p is None or (dropout_p and not return_softmax):
        p = q.new_empty((0,))
    if seed is None:
        seed = torch.zeros((2,), dtype=torch.int64, device=q.device)
    return out, lse, p, seed


def run_varlen_backward(
    dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
    max_seqlen_k, dropout_p, softmax_scale, causal, window_size_left, window_size_right, softcap,
    alibi_slopes, deterministic, rng_state=None,
) -> tuple[Any, Any, Any, torch.Tensor]:  # fmt: skip
    """(dq, dk, dv, softmax_d) of sequences that lie one behind the other; the first three are
    written where they are given, except for rows that belong to no sequence."""
    function = of_attnpress("flash_attn_varlen_backward")
    window, softcap = plain((window_size_left, window_size_right), softcap)
    gradients = []
    for name, given, of in (("dq", dq, q), ("dk", dk, k), ("dv", dv, v)):
        if given is not None and (given.shape, given.dtype) != (of.shape, of.dtype):
            refuse(
                f"{name} is {tuple(given.shape)} of {given.dtype}; it must be "
                f"{tuple(of.shape)} of {of.dtype}"
            )
        gradients.append(torch.zeros_like(of) if given is None else given)
    run(
        function, dout, q, k, v, out, softmax_lse, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
        max_seqlen_k, softmax_scale, causal, deterministic, window_size=window, softcap=softcap,
        alibi_slopes=alibi_slopes, dropout_p=dropout_p, seed=rng_state if dropout_p else None,
        gradients=tuple(gradients),
    )  # fmt: skip
    sums = (dout.float() * out.float()).sum(-1).t()
    more = 128 * max(cu_seqlens_q.numel() - 1, 0)
    return (*gradients, torch.nn.functional.pad(sums, (0, more)).contiguous())


def _flash_attn_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: torch.Tensor | None,
    return_softmax: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(out, softmax_lse, S_dmask, rng_state), without gradients."""
    call = _wrapped_flash_attn_forward if torch.compiler.is_compiling() else run_forward
    return call(
        q, k, v, dropout_p, softmax_scale, causal, window_size_left, window_size_right, softcap,
        alibi_slopes, return_softmax,
    )  # fmt: skip


def _flash_attn_varlen_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    return_softmax: bool = False,
    block_table: torch.Tensor | None = None,
    leftpad_k: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    zero_tensors: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(out, softmax_lse, S_dmask, rng_state), without gradients. zero_tensors asks for nothing:
    what lies outside a sequence is not read."""
    return _wrapped_flash_attn_varlen_forward(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
        causal, window_size_left, window_size_right, softcap, alibi_slopes, return_softmax,
        block_table, leftpad_k, seqused_k, zero_tensors,
    )  # fmt: skip


def _flash_attn_backward(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    softmax_lse: torch.Tensor,
    dq: torch.Tensor | None,
    dk: torch.Tensor | None,
    dv: torch.Tensor | None,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: torch.Tensor | None,
    deterministic: bool,
    rng_state: torch.Tensor | None = None,
) -> torch.Tensor:
    """Writes dq, dk and dv, and returns softmax_d: (batch, heads, seqlen_q rounded up to 128)."""
    args = (
        dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal,
        window_size_left, window_size_right, softcap, alibi_slopes, deterministic, rng_state,
    )  # fmt: skip
    if torch.compiler.is_compiling():
        return _wrapped_flash_attn_backward(*args)
    return run_backward(*args)[3]


def _flash_attn_varlen_backward(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    softmax_lse: torch.Tensor,
    dq: torch.Tensor | None,
    dk: torch.Tensor | None,
    dv: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: torch.Tensor | None,
    deterministic: bool,
    rng_state: torch.Tensor | None = None,
    zero_tensors: bool = False,
) -> torch.Tensor:
    """Writes dq, dk and dv, except for rows that belong to no sequence, and returns softmax_d:
    (heads, total_q and 128 more a sequence), zeros behind. zero_tensors asks for nothing."""
    return _wrapped_flash_attn_varlen_backward(
        dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
        max_seqlen_k, dropout_p, softmax_scale, causal, window_size_left, window_size_right,
        softcap, alibi_slopes, deterministic, rng_state, zero_tensors,
    )  # fmt: skip


def _flash_attn_forward_fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: torch.Tensor | None,
    return_softmax: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """_flash_attn_forward's results as a graph sees them, without contents; the same of the next
    three."""
    out, lse = _ops._attention_fake(q, k, v)
    rows = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
    p = q.new_empty(rows if return_softmax else (0,))
    return out, lse, p, q.new_empty((2,), dtype=torch.int64)


def _flash_attn_varlen_forward_fake(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int = -1,
    window_size_right: int = -1,
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    return_softmax: bool = False,
    block_table: torch.Tensor | None = None,
    leftpad_k: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None,
    zero_tensors: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = (1, *q.shape[:2], v.shape[-1])
    out = q.new_empty_strided(shape[1:], _ops._dense(q[None], shape)[1:])
    lse = q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)
    rows = (cu_seqlens_q.numel() - 1, q.shape[1], max_seqlen_q, max_seqlen_k)
    p = q.new_empty(rows if return_softmax else (0,))
    return out, lse, p, q.new_empty((2,), dtype=torch.int64)


def _flash_attn_backward_fake(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    softmax_lse: torch.Tensor,
    dq: torch.Tensor | None,
    dk: torch.Tensor | None,
    dv: torch.Tensor | None,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: torch.Tensor | None,
    deterministic: bool,
    rng_state: torch.Tensor | None = None,
) -> torch.Tensor:
    batch, seqlen, heads = q.shape[:3]
    return q.new_empty((batch, heads, round_multiple(seqlen, 128)), dtype=torch.float32)


def _flash_attn_varlen_backward_fake(
    dout: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    softmax_lse: torch.Tensor,
    dq: torch.Tensor | None,
    dk: torch.Tensor | None,
    dv: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    window_size_left: int,
    window_size_right: int,
    softcap: float,
    alibi_slopes: torch.Tensor | None,
    deterministic: bool,
    rng_state: torch.Tensor | None = None,
    zero_tensors: bool = False,
) -> torch.Tensor:
    rows = q.shape[0] + 128 * (cu_seqlens_q.shape[0] - 1)
    return q.new_empty((q.shape[1], rows), dtype=torch.float32)


def _kernel_forward(*args):
    """An operator's results are the same in each call."""
    found = run_forward(*args)
    if not args[3]:
        found[3].zero_()
    return found


def _kernel_backward(*args):
    return run_backward(*args)[3]


def _kernel_varlen_backward(
    dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
    max_seqlen_k, dropout_p, softmax_scale, causal, window_size_left, window_size_right, softcap,
    alibi_slopes, deterministic, rng_state=None, zero_tensors=False,
):  # fmt: skip
    return run_varlen_backward(
        dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q,
        max_seqlen_k, dropout_p, softmax_scale, causal, window_size_left, window_size_right,
        softcap, alibi_slopes, deterministic, rng_state,
    )[3]  # fmt: skip


def _kernel_varlen_forward(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
    causal, window_size_left=-1, window_size_right=-1, softcap=0.0, alibi_slopes=None,
    return_softmax=False, block_table=None, leftpad_k=None, seqused_k=None, zero_tensors=False,
):  # fmt: skip
    """The dispatcher leaves trailing arguments out that have their defaults."""
    return run_varlen_forward(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
        causal, window_size_left, window_size_right, softcap, alibi_slopes, return_softmax,
        block_table, leftpad_k, seqused_k,
    )  # fmt: skip


def _define() -> None:
    """The private functions as operators, whose arguments have the names of flash-attn's."""
    library = torch.library.Library("attnpress", "FRAGMENT")
    options = (
        "float dropout_p, float softmax_scale, bool causal, SymInt window_size_left{0}, "
        "SymInt window_size_right{0}, float softcap{1}, Tensor? alibi_slopes{2}"
    )
    ragged = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, "
    operators = {
        "_flash_attn_forward": (
            f"(Tensor q, Tensor k, Tensor v, {options.format('', '', '')}, bool return_softmax) "
            "-> (Tensor, Tensor, Tensor, Tensor)",
            _kernel_forward,
            _flash_attn_forward_fake,
        ),
        "_flash_attn_varlen_forward": (
            f"(Tensor q, Tensor k, Tensor v, {ragged}{options.format('=-1', '=0.0', '=None')}, "
            "bool return_softmax=False, Tensor? block_table=None, Tensor? leftpad_k=None, "
            "Tensor? seqused_k=None, bool zero_tensors=False) -> (Tensor, Tensor, Tensor, Tensor)",
            _kernel_varlen_forward,
            _flash_attn_varlen_forward_fake,
        ),
        "_flash_attn_backward": (
            "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, "
            f"Tensor(a!)? dq, Tensor(b!)? dk, Tensor(c!)? dv, {options.format('', '', '')}, "
            "bool deterministic, Tensor? rng_state=None) -> Tensor",
            _kernel_backward,
            _flash_attn_backward_fake,
        ),
        "_flash_attn_varlen_backward": (
            "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, "
            f"Tensor(a!)? dq, Tensor(b!)? dk, Tensor(c!)? dv, {ragged}"
            f"{options.format('', '', '')}, bool deterministic, Tensor? rng_state=None, "
            "bool zero_tensors=False) -> Tensor",
            _kernel_varlen_backward,
            _flash_attn_varlen_backward_fake,
        ),
    }
    for name, (schema, kernel, fake) in operators.items():
        library.define(name + schema, tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(name, kernel, "CPU")
        library.impl(name, kernel, "CUDA")
        torch.library.register_fake(f"attnpress::{name}", fake, lib=library)
    globals()["_operators"] = library  # as long as this lives, the operators do


_define()
_wrapped_flash_attn_forward = torch.ops.attnpress._flash_attn_forward
_wrapped_flash_attn_varlen_forward = torch.ops.attnpress._flash_attn_varlen_forward
_wrapped_flash_attn_backward = torch.ops.attnpress._flash_attn_backward
_wrapped_flash_attn_varlen_backward = torch.ops.attnpress._flash_attn_varlen_backward


# ---- The classes, of which some call apply -------------------------------------------------------


def _class(name: str, function: Callable[..., Any], tensors: int, table: bool = False) -> type:
    """A class whose apply() takes the function's arguments by position, and behind them whether
    gradients are on. tensors: arguments before dropout_p."""

    def apply(*args: Any) -> Any:
        count = tensors + 8 + table
        if len(args) != count + 1:
            raise TypeError(f"{name}.apply takes {count + 1} arguments, and {len(args)} were given")
        with torch.set_grad_enabled(bool(args[-1]) and torch.is_grad_enabled()):
            return function(*args[:-1])

    return type(name, (), {"apply": staticmethod(apply), "__module__": __name__})


FlashAttnFunc = _class("FlashAttnFunc", flash_attn_func, 3)
FlashAttnQKVPackedFunc = _class("FlashAttnQKVPackedFunc", flash_attn_qkvpacked_func, 1)
FlashAttnKVPackedFunc = _class("FlashAttnKVPackedFunc", flash_attn_kvpacked_func, 2)
FlashAttnVarlenFunc = _class("FlashAttnVarlenFunc", flash_attn_varlen_func, 7, True)
FlashAttnVarlenQKVPackedFunc = _class(
    "FlashAttnVarlenQKVPackedFunc", flash_attn_varlen_qkvpacked_func, 3
)
FlashAttnVarlenKVPackedFunc = _class(
    "FlashAttnVarlenKVPackedFunc", flash_attn_varlen_kvpacked_func, 6
)


def __getattr__(name: str) -> Any:
    if name in ("flash_attn_gpu", "flash_attn_cuda"):  # the extension module, by two names
        from . import flash_attn_2_cuda

        return flash_attn_2_cuda
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
