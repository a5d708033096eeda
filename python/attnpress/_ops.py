"""Attention as operators of PyTorch's dispatcher: what torch.compile, torch.export, make_fx and
fake tensors see of it. Imported when one of these first meets a call; an eager call goes the direct
way of _torch.py, which costs a fraction of the dispatcher's time.

attnpress::attention and attnpress::attention_backward, each with a fake kernel (shapes, dtypes and
strides without data) and one kernel for the CPU and CUDA. The number of results is fixed. Nothing
is changed in place, and no result is a view of an argument.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, NoReturn

import torch

from . import _torch as direct
from ._plan import dense_stride
from ._scores import Request, groups_of, mask_of, probability_of, softcap_of, window_of

_NAMESPACE = "attnpress"
IS_TRACED = True
library = torch.library.Library(_NAMESPACE, "FRAGMENT")  # as long as this lives, the operators do

# In graphs the strides that the fake kernel saw are those that the kernel gets, since its results'
# order of dimensions follows them.
_tags = [torch.Tag.pt2_compliant_tag]
if hasattr(torch.Tag, "needs_exact_strides"):
    _tags.append(torch.Tag.needs_exact_strides)
elif hasattr(torch.Tag, "needs_fixed_stride_order"):
    _tags.append(torch.Tag.needs_fixed_stride_order)

library.define(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? alibi_slopes, Tensor? bias, Tensor? sinks, "
    "Tensor? seed, float? softmax_scale, bool causal, int window_left, int window_right, "
    "int chunk, bool top_left, float softcap, float dropout_p, bool deterministic) "
    "-> (Tensor out, Tensor softmax_lse)",
    tags=tuple(_tags),
)
library.define(
    "attention_backward(Tensor dout, Tensor? dsoftmax_lse, Tensor q, Tensor k, Tensor v, "
    "Tensor out, Tensor softmax_lse, Tensor? alibi_slopes, Tensor? bias, Tensor? sinks, "
    "Tensor? seed, float? softmax_scale, bool causal, int window_left, int window_right, "
    "int chunk, bool top_left, float softcap, float dropout_p, bool deterministic, "
    "bool with_dbias) -> (Tensor dq, Tensor dk, Tensor dv, Tensor dsinks, Tensor dbias)",
    tags=tuple(_tags),
)


_VARLEN = (
    "Tensor cu_seqlens_q, Tensor cu_seqlens_k, Tensor? seqused_k, Tensor? alibi_slopes, "
    "Tensor? sinks, Tensor? seed, SymInt max_seqlen_q, SymInt max_seqlen_k, float? softmax_scale, "
    "bool causal, int window_left, int window_right, float softcap, float dropout_p, "
    "bool deterministic, int num_splits"
)
library.define(
    f"varlen_attention(Tensor q, Tensor k, Tensor v, {_VARLEN}) "
    "-> (Tensor out, Tensor softmax_lse)",
    tags=tuple(_tags),
)
library.define(
    "varlen_attention_backward(Tensor dout, Tensor? dsoftmax_lse, Tensor q, Tensor k, Tensor v, "
    f"Tensor out, Tensor softmax_lse, {_VARLEN}) "
    "-> (Tensor dq, Tensor dk, Tensor dv, Tensor dsinks)",
    tags=tuple(_tags),
)


def _new(like: torch.Tensor, shape, stride) -> torch.Tensor:
    return torch.empty_strided(shape, stride, dtype=like.dtype, device=like.device)


def _dense(like: torch.Tensor, shape) -> tuple[int, ...]:
    return dense_stride(shape, like.stride())


# ---- Forward -------------------------------------------------------------------------------------


def _request(
    alibi_slopes, bias, sinks, seed, causal, window_left, window_right, chunk, top_left, softcap,
    dropout_p,
) -> tuple[bool, Request]:  # fmt: skip
    causal, window = mask_of(causal, (window_left, window_right), chunk, top_left)
    return causal, Request(window, softcap, alibi_slopes, bias, sinks, dropout_p, seed)


def _groups(request: Request, q, k, v, softmax_scale, softcap, dropout_p):
    softcap_of(softcap), probability_of(dropout_p)  # numbers here, which a graph may not know
    if not request.asks():
        return None
    direct.checked(q, k, v, softmax_scale)
    return groups_of(direct, request, q, k)


def _attention(
    q, k, v, alibi_slopes, bias, sinks, seed, softmax_scale, causal, window_left, window_right,
    chunk, top_left, softcap, dropout_p, deterministic,
):  # fmt: skip
    causal, request = _request(
        alibi_slopes, bias, sinks, seed, causal, window_left, window_right, chunk, top_left,
        softcap, dropout_p,
    )  # fmt: skip
    groups = _groups(request, q, k, v, softmax_scale, softcap, dropout_p)
    with torch.no_grad():  # autograd's formula is the operator's
        return direct.forward(q, k, v, softmax_scale, causal, True, groups)[:2]


def _attention_fake(q, k, v, *options):
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4:
            raise ValueError(
                f"{name} has {x.dim()} dimensions; (batch, seqlen, heads, head_dim) is needed"
            )
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q is {q.dtype}, k {k.dtype}, v {v.dtype}; one dtype is needed")
    shape = (*q.shape[:3], v.shape[3])
    out = _new(q, shape, _dense(q, shape))
    lse = q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)
    return out, lse


# ---- Backward ------------------------------------------------------------------------------------


def _attention_backward(
    dout, dlse, q, k, v, out, lse, alibi_slopes, bias, sinks, seed, softmax_scale, causal,
    window_left, window_right, chunk, top_left, softcap, dropout_p, deterministic, with_dbias,
):  # fmt: skip
    causal, request = _request(
        alibi_slopes, bias, sinks, seed, causal, window_left, window_right, chunk, top_left,
        softcap, dropout_p,
    )  # fmt: skip
    groups = _groups(request, q, k, v, softmax_scale, softcap, dropout_p)
    dq, dk, dv, *others = direct.backward(
        dout, q, k, v, out, lse, softmax_scale, causal, deterministic, dlse, groups,
        with_dbias=with_dbias,
    )  # fmt: skip
    dbias = others.pop() if with_dbias else q.new_empty((0,))
    return dq, dk, dv, others[0] if others else q.new_empty((0,)), dbias


def _attention_backward_fake(dout, dlse, q, k, v, out, lse, alibi_slopes, bias, sinks, *options):
    dsinks = q.new_empty((0,)) if sinks is None else sinks.new_empty((q.shape[2],))
    dbias = bias.new_empty(bias.shape) if options[-1] else q.new_empty((0,))
    return (*(_new(q, x.shape, _dense(x, x.shape)) for x in (q, k, v)), dsinks, dbias)


def _save(ctx, inputs, output) -> None:
    q, k, v, *features = inputs
    ctx.save_for_backward(q, k, v, *output, *features[:4])
    ctx.options = features[4:]
    ctx.set_materialize_grads(False)


def _gradients(ctx, dout, dlse):
    none = (None,) * (4 + len(ctx.options))
    if dout is None and dlse is None:
        return (None, None, None, *none)
    q, k, v, out, lse, alibi_slopes, bias, sinks, seed = ctx.saved_tensors
    if ctx.needs_input_grad[3]:
        direct._refuse_grad("alibi_slopes")
    with_dbias = ctx.needs_input_grad[4]
    if dout is None:
        dout = torch.zeros_like(out)
    dq, dk, dv, dsinks, dbias = torch.ops.attnpress.attention_backward.default(
        dout, dlse, q, k, v, out, lse, alibi_slopes, bias, sinks, seed, *ctx.options, with_dbias
    )
    of_features = (dbias if with_dbias else None, None if sinks is None else dsinks)
    return (dq, dk, dv, None, *of_features, *none[3:])


def _no_second_gradients(ctx, *gradients) -> NoReturn:
    raise NotImplementedError("there are no second derivatives of attention")


# ---- Sequences of their own lengths --------------------------------------------------------------


def _varlen_options(alibi_slopes, sinks, seed, softmax_scale, causal, left, right, softcap, p):
    return {
        "softmax_scale": softmax_scale, "causal": causal, "window_size": (left, right),
        "softcap": softcap, "alibi_slopes": alibi_slopes, "s_aux": sinks, "dropout_p": p,
        "seed": seed,
    }  # fmt: skip


def _varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_k, alibi_slopes, sinks, seed, max_seqlen_q,
    max_seqlen_k, softmax_scale, causal, window_left, window_right, softcap, dropout_p,
    deterministic, num_splits,
):  # fmt: skip
    from ._varlen import flash_attn_varlen_func

    options = _varlen_options(
        alibi_slopes, sinks, seed, softmax_scale, causal, window_left, window_right, softcap,
        dropout_p,
    )  # fmt: skip
    with torch.no_grad():  # autograd's formula is the operator's
        return flash_attn_varlen_func(
            q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_k=seqused_k,
            num_splits=num_splits, return_attn_probs=True, **options,
        )[:2]  # fmt: skip


def _varlen_dense(like, shape) -> tuple[int, ...]:
    """Strides of a result, which the kernels make with a batch dimension in front."""
    return _dense(like[None], (1, *shape))[1:]


def _varlen_fake(q, k, v, *options):
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 3:
            raise ValueError(f"{name} has {x.dim()} dimensions; (total, heads, head_dim) is needed")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q is {q.dtype}, k {k.dtype}, v {v.dtype}; one dtype is needed")
    shape = (*q.shape[:2], v.shape[2])
    out = _new(q, shape, _varlen_dense(q, shape))
    return out, q.new_empty((q.shape[1], q.shape[0]), dtype=torch.float32)


def _varlen_backward(
    dout, dlse, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, seqused_k, alibi_slopes, sinks, seed,
    max_seqlen_q, max_seqlen_k, softmax_scale, causal, window_left, window_right, softcap,
    dropout_p, deterministic, num_splits,
):  # fmt: skip
    from ._varlen import flash_attn_varlen_backward

    options = _varlen_options(
        alibi_slopes, sinks, seed, softmax_scale, causal, window_left, window_right, softcap,
        dropout_p,
    )  # fmt: skip
    gradients = flash_attn_varlen_backward(
        dout, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k,
        deterministic=deterministic, dsoftmax_lse=dlse, seqused_k=seqused_k, **options,
    )  # fmt: skip
    return gradients if sinks is not None else (*gradients, q.new_empty((0,)))


def _varlen_backward_fake(
    dout, dlse, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, seqused_k, alibi_slopes, sinks,
    *options,
):  # fmt: skip
    dsinks = q.new_empty((0,)) if sinks is None else sinks.new_empty((q.shape[1],))
    return (*(_new(q, x.shape, _varlen_dense(x, x.shape)) for x in (q, k, v)), dsinks)


def _save_varlen(ctx, inputs, output) -> None:
    q, k, v, *rest = inputs
    ctx.save_for_backward(q, k, v, *output, *rest[:6])
    ctx.options = rest[6:]
    ctx.set_materialize_grads(False)


def _varlen_gradients(ctx, dout, dlse):
    none = (None,) * len(ctx.options)
    if dout is None and dlse is None:
        return (None,) * 9 + none
    q, k, v, out, lse, *arrays, alibi_slopes, sinks, seed = ctx.saved_tensors
    if ctx.needs_input_grad[6]:
        direct._refuse_grad("alibi_slopes")
    if dout is None:
        dout = torch.zeros_like(out)
    dq, dk, dv, dsinks = torch.ops.attnpress.varlen_attention_backward.default(
        dout, dlse, q, k, v, out, lse, *arrays, alibi_slopes, sinks, seed, *ctx.options
    )
    return (dq, dk, dv, None, None, None, None, None if sinks is None else dsinks, None, *none)


for _name, _kernel, _fake in (
    ("attention", _attention, _attention_fake),
    ("attention_backward", _attention_backward, _attention_backward_fake),
    ("varlen_attention", _varlen, _varlen_fake),
    ("varlen_attention_backward", _varlen_backward, _varlen_backward_fake),
):
    library.impl(_name, _kernel, "CPU")
    library.impl(_name, _kernel, "CUDA")
    torch.library.register_fake(f"{_NAMESPACE}::{_name}", _fake, lib=library)
torch.library.register_autograd(
    f"{_NAMESPACE}::attention", _gradients, setup_context=_save, lib=library
)
torch.library.register_autograd(
    f"{_NAMESPACE}::attention_backward", _no_second_gradients, lib=library
)
torch.library.register_autograd(
    f"{_NAMESPACE}::varlen_attention", _varlen_gradients, setup_context=_save_varlen, lib=library
)
torch.library.register_autograd(
    f"{_NAMESPACE}::varlen_attention_backward", _no_second_gradients, lib=library
)


# ---- The public functions, where they are traced -------------------------------------------------


def __getattr__(name: str) -> Any:
    """What is not traced is asked of the tensors' own adapter, or refused by it."""
    return getattr(direct, name)


_is_sharding_known = False


def learn_sharding() -> None:
    """How DTensors go in, where PyTorch has imported them."""
    global _is_sharding_known  # noqa: PLW0603
    if not _is_sharding_known and "torch.distributed.tensor" in sys.modules:
        _is_sharding_known = True
        with contextlib.suppress(ImportError):  # a PyTorch whose DTensors have no such interface
            from . import _sharding

            _sharding.register()


learn_sharding()


def _seed_tensor(q, dropout_p, seed):
    """Seed and offset as a tensor on q's device, or None without dropout."""
    if not dropout_p:
        return None
    if isinstance(seed, torch.Tensor):
        return seed
    pair = (seed, 0) if isinstance(seed, int) else tuple(seed)
    return torch.tensor(pair, dtype=torch.int64, device=q.device)


def flash_attn_func(q, k, v, *, return_attn_probs, **options):
    """attnpress.flash_attn_func() in a graph."""
    out, lse = attention(q, k, v, return_mask=return_attn_probs, **options)
    return (out, lse, q.new_empty((0,))) if return_attn_probs else out


def attention(
    q, k, v, softmax_scale, causal, window_size, softcap, alibi_slopes, bias, sinks, dropout_p,
    seed, deterministic, chunk=0, top_left=False, return_mask=False,
):  # fmt: skip
    """(out, lse) of a call in a graph."""
    q, k, v = direct.autocast(q, k, v)
    left, right = window_of(window_size)
    direct.check_no_grad(Request(None, softcap, alibi_slopes, bias, sinks, dropout_p, seed))
    if dropout_p and return_mask:
        raise NotImplementedError(
            "return_attn_probs with dropout_p is for tests, and not in compiled graphs: call it "
            "eagerly"
        )
    if dropout_p and seed is None:
        seed = direct.draw_seed(q)
    seed = _seed_tensor(q, dropout_p, seed)
    return torch.ops.attnpress.attention.default(
        q, k, v, alibi_slopes, bias, sinks, seed, softmax_scale, bool(causal), left, right, chunk,
        bool(top_left), softcap, dropout_p, bool(deterministic),
    )  # fmt: skip


def flash_attn_backward(
    dout, q, k, v, out, lse, softmax_scale, causal, deterministic, dlse, *, window_size, chunk,
    top_left, softcap, alibi_slopes, bias, sinks, dropout_p, seed,
):  # fmt: skip
    """attnpress.flash_attn_backward() in a graph."""
    left, right = window_of(window_size)
    gradients = torch.ops.attnpress.attention_backward.default(
        dout, dlse, q, k, v, out, lse, alibi_slopes, bias, sinks,
        _seed_tensor(q, dropout_p, seed), softmax_scale, bool(causal), left, right, chunk,
        bool(top_left), softcap, dropout_p, bool(deterministic), False,
    )  # fmt: skip
    return gradients[:3] if sinks is None else gradients[:4]


def _varlen_rest(
    q, cu_seqlens_q, cu_seqlens_k, seqused_k, max_seqlen_q, max_seqlen_k, softmax_scale, causal,
    window_size, softcap, alibi_slopes, sinks, dropout_p, seed, deterministic, num_splits,
):  # fmt: skip
    """The arguments behind q, k and v."""
    left, right = window_of(window_size)
    return (
        cu_seqlens_q, cu_seqlens_k, seqused_k, alibi_slopes, sinks,
        _seed_tensor(q, dropout_p, seed), max_seqlen_q, max_seqlen_k, softmax_scale, bool(causal),
        left, right, softcap, dropout_p, bool(deterministic), num_splits,
    )  # fmt: skip


def varlen(
    q, k, v, cu_seqlens_q, cu_seqlens_k, seqused_k, max_seqlen_q, max_seqlen_k, softmax_scale,
    causal, window_size, softcap, alibi_slopes, sinks, dropout_p, seed, deterministic, num_splits,
):  # fmt: skip
    """(out, lse) of attnpress.flash_attn_varlen_func() in a graph."""
    direct.check_no_grad(Request(None, softcap, alibi_slopes, None, sinks, dropout_p, seed))
    if dropout_p and seed is None:
        seed = direct.draw_seed(q)
    return torch.ops.attnpress.varlen_attention.default(
        q, k, v,
        *_varlen_rest(
            q, cu_seqlens_q, cu_seqlens_k, seqused_k, max_seqlen_q, max_seqlen_k, softmax_scale,
            causal, window_size, softcap, alibi_slopes, sinks, dropout_p, seed, deterministic,
            num_splits,
        ),
    )  # fmt: skip


def varlen_backward(
    dout, dlse, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, seqused_k, max_seqlen_q,
    max_seqlen_k, softmax_scale, causal, window_size, softcap, alibi_slopes, sinks, dropout_p, seed,
    deterministic,
):  # fmt: skip
    """attnpress.flash_attn_varlen_backward() in a graph."""
    gradients = torch.ops.attnpress.varlen_attention_backward.default(
        dout, dlse, q, k, v, out, lse,
        *_varlen_rest(
            q, cu_seqlens_q, cu_seqlens_k, seqused_k, max_seqlen_q, max_seqlen_k, softmax_scale,
            causal, window_size, softcap, alibi_slopes, sinks, dropout_p, seed, deterministic, 0,
        ),
    )  # fmt: skip
    return gradients if sinks is not None else gradients[:3]
