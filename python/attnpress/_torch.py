"""The way from PyTorch tensors to the library. Imported when the first tensor is seen: the caller
has PyTorch."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from ctypes import addressof
from typing import Any, NoReturn

import torch
from torch.autograd import forward_ad as _forward_mode

from . import _attention, _exchange, _replay
from . import _library as c
from ._backward import Call, Layout, Request, check_shapes, dbias_shape
from ._backward import Plan as BackwardPlan
from ._plan import (
    Plan,
    check_request,
    dense_stride,
    handle_of,
    handle_with_nvrtc,
    is_allowed,
    new_plans,
    recover,
    strides_read,
)
from ._ragged import Call as RaggedCall
from ._ragged import Ragged, check_in_place, struct_of
from ._scores import Groups, View, mask_args
from ._scores import Request as ScoreRequest

_DTYPES = {torch.float16: c.FP16, torch.bfloat16: c.BF16, torch.float32: c.FP32}
_plans = new_plans()
_backward_plans = new_plans()
_forward = c.library.attnpress_forward
_quick: Any = _exchange.functions or (None, None, None)  # where no template leads
_quick_forward, _quick_backward, _quick_cache = _quick[:3]
_forward_templates = _exchange.forward_templates
_backward_templates = _exchange.backward_templates
_cache_templates = _exchange.cache_templates
_empty = torch.empty
_empty_like = torch.empty_like
_empty_strided = torch.empty_strided
_is_grad_enabled = torch.is_grad_enabled
_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
IS_TRACED = False  # calls are run, and do not become operators in a graph
_transformed = torch._C._are_functorch_transforms_active
_FLOAT32 = torch.float32
_get_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
_raw_stream = getattr(
    torch._C,
    "_cuda_getCurrentRawStream",
    lambda index: torch.cuda.current_stream(index).cuda_stream,
)


def _key(q, k, v, softmax_scale: float | None, causal: bool, groups: Groups | None) -> tuple:
    """Everything that a plan depends on."""
    try:
        return (
            q.device, k.device, v.device, q.dtype, k.dtype, v.dtype,
            q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), softmax_scale, causal,
            None if groups is None else groups.key,
        )  # fmt: skip
    except AttributeError:
        raise TypeError(
            f"q, k and v are {_types(q, k, v)}; all three must be PyTorch tensors"
        ) from None


def _types(*values) -> str:
    return ", ".join(type(value).__name__ for value in values)


def _refuse_grad(name: str) -> NoReturn:
    raise NotImplementedError(
        f"there is no gradient by {name} yet, and {name} requires grad; q, k, v, bias and sinks "
        f"have gradients: detach {name}, or call under torch.no_grad()"
    )


def _refuse_grad_of_mask(name: str) -> NoReturn:
    raise NotImplementedError(
        f"there is no gradient by {name}, a tensor of a score_mod without a score, and it requires "
        f"grad: detach {name}, or call under torch.no_grad()"
    )


def _check_not_deterministic(groups: Groups) -> None:
    """NotImplementedError where a gradient is recorded whose sums have no order."""
    if any(x.requires_grad for x in groups.buffers):
        raise NotImplementedError(
            "deterministic is True, and a tensor of score_mod requires grad, whose gradient is "
            "added up in any order: detach it, or call without deterministic"
        )


def _refuse_transforms() -> NoReturn:
    raise NotImplementedError(
        "torch.func's transforms and forward-mode gradients do not know attnpress's kernels: for "
        "vmap, make the mapped dimension part of the batch; for gradients, call autograd"
    )


def _check_no_tangent(*tensors) -> None:
    if any(_forward_mode.unpack_dual(x).tangent is not None for x in tensors):
        _refuse_transforms()


def check_untransformed(*values) -> None:
    """NotImplementedError for tensors that torch.func or forward mode has made its own."""
    if _transformed():
        _refuse_transforms()
    if _forward_mode._current_level >= 0:
        _check_no_tangent(*(x for x in values if isinstance(x, torch.Tensor)))


def _autocasts(device) -> bool:
    """Whether torch.autocast is on for a device that calls run on."""
    return device.type in ("cuda", "cpu") and torch.is_autocast_enabled(device.type)


def autocast(q, k, v):
    """q, k and v as torch.autocast has them: in its dtype where it is on for their device."""
    if not _autocasts(q.device):
        return q, k, v
    kind = q.device.type
    dtype = torch.get_autocast_dtype(kind)
    return q.to(dtype), k.to(dtype), v.to(dtype)


_thread = threading.local()


def _has_context() -> bool:
    """False once in each thread, which may have no CUDA context of its own until it calls CUDA's
    runtime. Capturing takes a context, so that a call under capture needs none."""
    known = getattr(_thread, "has_context", False) or torch.cuda.is_current_stream_capturing()
    _thread.has_context = True
    return known


def checked(q, k, v, softmax_scale: float | None) -> tuple[int, int, tuple]:
    """Backend, attnpress_dtype and shapes; raises for what is not allowed."""
    if not (isinstance(k, torch.Tensor) and isinstance(v, torch.Tensor)):
        raise TypeError(f"q, k and v are {_types(q, k, v)}; all three must be PyTorch tensors")
    check_untransformed(q, k, v)
    if not q.device == k.device == v.device:
        raise ValueError(
            f"q is on {q.device}, k on {k.device}, v on {v.device}; one device is needed"
        )
    if q.device.type not in ("cuda", "cpu"):
        raise ValueError(f"q is on {q.device}; CUDA and CPU tensors are supported")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q is {q.dtype}, k {k.dtype}, v {v.dtype}; one dtype is needed")
    if q.dtype not in _DTYPES:
        raise ValueError(
            f"dtype {q.dtype} is not supported; torch.float16 and torch.bfloat16 are, and "
            "torch.float32 on the CPU"
        )
    shapes = (q.shape, k.shape, v.shape)
    check_request(shapes, softmax_scale)
    if q.is_cuda and not _has_context():
        torch.cuda.mem_get_info(q.device)  # binds the device's context to this thread
    return c.CUDA if q.is_cuda else c.CPU, _DTYPES[q.dtype], shapes


def _new_plan(
    key: tuple, q, k, v, softmax_scale: float | None, causal: bool, groups: Groups | None
) -> Plan | None:
    """The plan of a signature, or None where a tensor has to be copied first."""
    backend, dtype, shapes = checked(q, k, v, softmax_scale)
    strides = (q.stride(), k.stride(), v.stride())
    if not all(is_allowed(*one) for one in zip(shapes, strides)):
        return None
    plan = Plan(backend, dtype, shapes, strides, softmax_scale, causal, groups)
    _plans.add(key, plan)
    _exchange.add_forward(softmax_scale, causal, groups)
    return plan


def _readable(tensor):
    """The tensor, or a copy in the same order of dimensions where the library cannot read it as it
    lies."""
    if is_allowed(tensor.shape, tensor.stride()) and tensor.data_ptr() % 16 == 0:
        return tensor
    copy = _empty_strided(
        tensor.shape,
        dense_stride(tensor.shape, tensor.stride()),
        dtype=tensor.dtype,
        device=tensor.device,
    )
    return copy.copy_(tensor)


class _Attention(torch.autograd.Function):
    """(out, lse), of which both have gradients. A second derivative is not there: asking for one
    raises."""

    @staticmethod
    def forward(ctx, q, k, v, options, *of_groups):
        key, softmax_scale, causal, with_lse, groups, _, asked = options
        out, lse = _launched(key, q, k, v, softmax_scale, causal, True, groups, asked)
        if groups is None:
            ctx.save_for_backward(q, k, v, out, lse)
        else:  # with them what the groups point to, so that a change in place is found out
            kept = (x for x in groups.kept if torch.is_tensor(x))
            ctx.save_for_backward(q, k, v, out, lse, *kept)
        ctx.options = options[:6]
        if not with_lse:
            return out
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse=None):
        return (_once if _is_grad_enabled() else _gradients)(ctx, dout, dlse)


def _gradients(ctx, dout, dlse) -> tuple:
    """By the arguments of _Attention.forward()."""
    if dout is None and dlse is None:
        return (None,) * len(ctx.needs_input_grad)
    q, k, v, out, lse, *_ = ctx.saved_tensors
    _, scale, causal, _, groups, deterministic = ctx.options
    if dout is None:
        dout = torch.zeros_like(out)
    wanted = ctx.needs_input_grad[6:]
    if groups is None or (groups.sinks is None and groups.bias is None and not any(wanted)):
        found = _planned_backward(
            dout, q, k, v, out, lse, scale, causal, deterministic, dlse, groups
        )
        return (*found, *(None,) * (len(ctx.needs_input_grad) - 3))
    with_dbias = ctx.needs_input_grad[5]
    dq, dk, dv, *others = backward(
        dout, q, k, v, out, lse, scale, causal, deterministic, dlse, groups, with_dbias=with_dbias,
        with_dbuffers=wanted,
    )  # fmt: skip
    dbuffers = others.pop() if any(wanted) else (None,) * len(wanted)
    dbias = others.pop() if with_dbias else None
    return dq, dk, dv, None, others[0] if others else None, dbias, *dbuffers


class _Refused(torch.autograd.Function):
    """The first tensors as they are, without gradients by the others: asking for one raises."""

    @staticmethod
    def forward(ctx, count, *tensors):
        return tuple(x.detach() for x in tensors[:count])

    @staticmethod
    def backward(ctx, *gradients) -> NoReturn:
        raise NotImplementedError("there are no second derivatives of attnpress's functions")


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A backward() whose gradients have none. PyTorch's decorator of this name lets a second
    derivative through, as if the gradients were constants, where the gradient that comes in
    requires none, or where torch.autograd.grad() asks by inputs that it does not know."""

    @functools.wraps(function)
    def once(ctx, *gradients):
        if not _is_grad_enabled():
            return function(ctx, *gradients)
        with torch.no_grad():
            results = function(ctx, *gradients)
        made = [x for x in results if x is not None]
        refused = iter(_Refused.apply(len(made), *made, *ctx.saved_tensors, *gradients))
        return tuple(None if x is None else next(refused) for x in results)

    return once


_once = once_differentiable(_gradients)


class _Recorded(_Attention):
    """_Attention of a call that has been run."""

    @staticmethod
    def forward(ctx, q, k, v, done):
        out, lse, options = done
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = options
        if not options[3]:
            return out
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse=None):
        if dout is not None and not _is_grad_enabled():
            _, scale, causal, _, groups, deterministic = ctx.options
            templates = _backward_templates if groups is None else groups.backward_templates
            if templates is not None:
                template = templates.get((scale, causal, deterministic))
                if template is not None:
                    found = _quick_backward(template, dout, *ctx.saved_tensors, dlse)
                    if found is not None:
                        return (*found, None)
        return _Attention.backward(ctx, dout, dlse)


class _Again(torch.autograd.Function):
    """_Attention of a call with tensors of features that has been run."""

    @staticmethod
    def forward(ctx, q, k, v, slopes, bias, sinks, done):
        (out, lse), ctx.options, with_lse = done
        ctx.save_for_backward(q, k, v, out, lse, slopes, bias, sinks)
        if not with_lse:
            return out
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse=None):
        return (_once_again if _is_grad_enabled() else _gradients_again)(ctx, dout, dlse)


def _gradients_again(ctx, dout, dlse) -> tuple:
    """By the arguments of _Again.forward()."""
    if dout is None and dlse is None:
        return (None,) * 7
    q, k, v, out, lse, slopes, bias, sinks = ctx.saved_tensors
    if dout is None:
        dout = torch.zeros_like(out)
    with_dbias = ctx.needs_input_grad[4]
    options, deterministic = ctx.options
    dq, dk, dv, *others = backward_again(
        dout, q, k, v, out, lse, dlse, slopes, bias, sinks, options, deterministic, with_dbias
    )
    dbias = others.pop() if with_dbias else None
    return dq, dk, dv, None, dbias, others[0] if others else None, None


_once_again = once_differentiable(_gradients_again)

# Without what torch.autograd.Function.apply() does for functorch, whose tensors do not come here.
_record = super(torch.autograd.Function, _Recorded).apply
_record_again = super(torch.autograd.Function, _Again).apply


def _planned_backward(
    dout, q, k, v, out, lse, softmax_scale, causal: bool, deterministic: bool, dlse,
    groups: Groups | None,
):  # fmt: skip
    """backward() of what forward() kept; its checks and its plan are made once a signature."""
    if q.is_cuda and _get_device() != q.device.index:
        with torch.cuda.device(q.device):
            return _planned_backward(
                dout, q, k, v, out, lse, softmax_scale, causal, deterministic, dlse, groups
            )
    data = (
        q.data_ptr(), k.data_ptr(), v.data_ptr(), out.data_ptr(), dout.data_ptr(), lse.data_ptr()
    )  # fmt: skip
    if (data[0] | data[1] | data[2] | data[3] | data[4]) & 15:
        return backward(dout, q, k, v, out, lse, softmax_scale, causal, deterministic, dlse, groups)
    key = (
        _key(q, k, v, softmax_scale, causal, groups), out.stride(), dout.stride(), lse.stride(),
        dout.dtype, out.dtype, lse.dtype, dlse is not None, deterministic,
    )  # fmt: skip
    plan = _backward_plans.by_key.get(key)
    if plan is None:
        return backward(
            dout, q, k, v, out, lse, softmax_scale, causal, deterministic, dlse, groups,
            plan_key=key,
        )  # fmt: skip
    dlse_data = 0
    if dlse is not None:
        dlse = dlse.to(_FLOAT32).contiguous()
        dlse_data = dlse.data_ptr()
    device, _, _, dtype = key[0][:4]
    dq, dk, dv = (
        _empty_strided(x.shape, stride, dtype=dtype, device=device)
        for x, stride in zip((q, k, v), plan.strides)
    )
    # Freed when this function returns; the allocator gives it to later work of this stream.
    workspace = _empty_strided((plan.workspace_bytes,), (1,), dtype=torch.uint8, device=device)
    plan.run(
        *data[:5], dq.data_ptr(), dk.data_ptr(), dv.data_ptr(), data[5], dlse_data,
        workspace.data_ptr(), groups, _raw_stream(device.index) if q.is_cuda else None,
    )  # fmt: skip
    return dq, dk, dv


def _layout(tensor) -> Layout:
    return Layout(tensor.data_ptr(), tensor.shape, tensor.stride())


class _RaggedAttention(torch.autograd.Function):
    """The same of sequences of their own lengths: lse is (heads_q, total_q)."""

    @staticmethod
    def forward(
        ctx, q, k, v, sinks, bias, softmax_scale, causal, deterministic, groups, request,
        num_splits, *buffers,
    ):  # fmt: skip
        lse_shape = (q.shape[2], q.shape[1])
        out, lse = ragged(
            q, k, v, None, request, softmax_scale, causal, groups, num_splits, lse_shape
        )
        names = request.names()
        arrays = [request.arrays[name] for name in names]
        kept = () if groups is None else groups.kept
        ctx.save_for_backward(q, k, v, out, lse, *arrays, *(x for x in kept if torch.is_tensor(x)))
        ctx.options = softmax_scale, causal, deterministic
        ctx.groups = groups
        ctx.bounds = request.batch, request.max_seqlen_q, request.max_seqlen_k, names
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, dout, dlse):
        if dout is None and dlse is None:
            return (None,) * len(ctx.needs_input_grad)
        q, k, v, out, lse, *arrays = ctx.saved_tensors
        if dout is None:
            dout = torch.zeros_like(out)
        batch, max_seqlen_q, max_seqlen_k, names = ctx.bounds
        request = Ragged(batch, max_seqlen_q, max_seqlen_k, arrays=dict(zip(names, arrays)))
        scale, causal, deterministic = ctx.options
        with_dbias, wanted = ctx.needs_input_grad[4], ctx.needs_input_grad[11:]
        dq, dk, dv, *others = backward(
            dout, q, k, v, out, lse, scale, causal, deterministic, dlse, ctx.groups, request,
            with_dbias=with_dbias, with_dbuffers=wanted,
        )  # fmt: skip
        dbuffers = others.pop() if any(wanted) else (None,) * len(wanted)
        dbias = others.pop() if with_dbias else None
        return (dq, dk, dv, others[0] if others else None, dbias, *(None,) * 6, *dbuffers)


def needs_grad(*values) -> bool:
    """Whether a gradient by one of them is to be recorded."""
    if _is_grad_enabled():
        for value in values:  # quicker than any() of a generator
            if isinstance(value, _Tensor) and value.requires_grad:
                return True
    return False


def recorded_ragged(
    q, k, v, request: Ragged, softmax_scale, causal, groups: Groups | None, num_splits,
    deterministic: bool,
):  # fmt: skip
    """(out, lse) as ragged(), with a backward pass."""
    if _transformed():
        _refuse_transforms()
    if groups is not None and torch.is_tensor(groups.seed):
        _keep_seed(groups)
    sinks, bias, buffers = (None, None, ())
    if groups is not None:
        sinks, bias, buffers = groups.sinks, groups.bias, groups.buffers
        if deterministic:
            _check_not_deterministic(groups)
    return _RaggedAttention.apply(
        q, k, v, sinks, bias, softmax_scale, causal, deterministic, groups, request, num_splits,
        *buffers,
    )  # fmt: skip


def _is_writable(given, like) -> bool:
    """Whether a gradient can be written where the caller has room for it."""
    stride = given.stride()
    spans = sorted((stride[i], given.shape[i]) for i in range(3) if given.shape[i] > 1)
    disjoint = all(
        outer >= inner * count for (inner, count), (outer, _) in zip(spans, spans[1:])
    ) and (not spans or spans[0][0] >= given.shape[3])
    return (
        given.shape == like.shape
        and is_allowed(given.shape, stride)
        and given.data_ptr() % 16 == 0
        and disjoint
    )


def backward(
    dout, q, k, v, out, lse, softmax_scale: float | None, causal: bool, deterministic: bool, dlse,
    groups: Groups | None = None, sequences: Ragged | None = None, given=None,
    with_dbias: bool = False, plan_key: tuple | None = None,
    with_dbuffers: tuple[bool, ...] = (), asked: _replay.Asked | None = None,
):  # fmt: skip
    """dq, dk and dv, and with sinks dsinks; behind them, where asked, dbias; last, where one is
    asked, a tuple of the gradients of a snippet's buffers, None where not. With `sequences` tensors
    are those of ragged() and lse is (heads_q, total_q); gradients of rows that belong to no
    sequence are 0, or, with `given`, three tensors to write dq, dk and dv to, left as they are.
    Queues the work on q's device's current stream. plan_key: of the plan that is kept, where no
    tensor was copied; asked: of the call itself."""
    _key(q, k, v, softmax_scale, causal, None)  # all three are tensors
    if q.is_cuda and _get_device() != q.device.index:
        with torch.cuda.device(q.device):
            return backward(
                dout, q, k, v, out, lse, softmax_scale, causal, deterministic, dlse, groups,
                sequences, given, with_dbias, with_dbuffers=with_dbuffers,
            )  # fmt: skip
    backend, dtype, _ = checked(q, k, v, softmax_scale)
    check_untransformed(dout, out, lse, dlse)
    inputs = [
        ("dout", dout, q.dtype), ("out", out, q.dtype), ("softmax_lse", lse, torch.float32),
    ]  # fmt: skip
    if dlse is not None:
        inputs.append(("dsoftmax_lse", dlse, getattr(dlse, "dtype", None)))
    for name, tensor, wanted in inputs:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} is {type(tensor).__name__}; with q it must be a tensor")
        if tensor.dtype != wanted or tensor.device != q.device:
            raise ValueError(
                f"{name} is {tensor.dtype} on {tensor.device}; it must be {wanted} on {q.device}"
            )
    check_shapes(
        q.shape, v.shape, out.shape, dout.shape, lse.shape, None if dlse is None else dlse.shape,
        sequences is not None,
    )  # fmt: skip
    if given is not None and not all(map(_is_writable, given, (q, k, v))):
        found = backward(
            dout, q, k, v, out, lse, softmax_scale, causal, deterministic, dlse, groups, sequences,
            with_dbias=with_dbias, with_dbuffers=with_dbuffers,
        )  # fmt: skip
        return (*(to.copy_(x) for to, x in zip(given, found)), *found[3:])
    read = [_readable(tensor) for tensor in (q, k, v, out, dout)]
    lse_read = lse.contiguous()
    if any(a is not b for a, b in zip((*read, lse_read), (q, k, v, out, dout, lse))):
        plan_key = None
    (q, k, v, out, dout), lse = read, lse_read
    group = None
    if sequences is not None:
        group = struct_of(sequences, sequences.layouts(_layout))
    dlse = None if dlse is None else dlse.to(torch.float32).contiguous()
    dbias = None
    shape: tuple[int, ...] = ()
    if with_dbias and groups is not None:
        bias = groups.bias
        shape = dbias_shape(bias.shape, groups.structs["bias"].shape[3])
        sums_keys = bias.shape[-1:] != shape[3:]  # which the library does not
        dbias = _empty(shape, dtype=_FLOAT32 if sums_keys else bias.dtype, device=q.device)
    dbuffers: list = []
    if any(with_dbuffers) and groups is not None:
        dbuffers = [
            torch.zeros(x.shape, dtype=_FLOAT32, device=q.device) if wanted else None
            for x, wanted in zip(groups.buffers, with_dbuffers)
        ]
    request = Request(
        backend, dtype, _layout(q), _layout(k), _layout(v), _layout(out), _layout(dout),
        lse.data_ptr(), 0 if dlse is None else dlse.data_ptr(), softmax_scale, causal,
        deterministic, groups, group, None if given is None else tuple(x.stride() for x in given),
        shape, 0 if dbias is None else _DTYPES[dbias.dtype],
        tuple(None if x is None else tuple(x.shape) for x in dbuffers),
    )  # fmt: skip
    call = Call(request)
    if plan_key is not None:
        _backward_plans.add(plan_key, BackwardPlan(request, call))
        _exchange.add_backward(softmax_scale, causal, deterministic, groups)
    gradients = list(given or ()) or [
        _empty_strided(x.shape, stride, dtype=q.dtype, device=q.device)
        for x, stride in zip((q, k, v), request.gradient_strides())
    ]
    if sequences is not None and given is None:
        for gradient in gradients:
            gradient.zero_()
    sinks, bias = (None, None) if groups is None else (groups.sinks, groups.bias)
    if sinks is not None:
        gradients.append(_empty(q.shape[2], dtype=torch.float32, device=q.device))
    dq, dk, dv, dsinks = [x.data_ptr() for x in gradients] + [0] * (4 - len(gradients))
    if dbias is not None:
        gradients.append(dbias)
    # Freed when this function returns; the allocator gives it to later work of this stream.
    workspace = _empty(call.workspace_bytes, dtype=torch.uint8, device=q.device)
    stream = _raw_stream(q.device.index) if q.is_cuda else None
    dbias_data = 0 if dbias is None else dbias.data_ptr()
    call.run(
        dq, dk, dv, dsinks, workspace.data_ptr(), stream, dbias_data,
        [0 if x is None else x.data_ptr() for x in dbuffers],
    )  # fmt: skip
    if asked is not None:
        function, pointed = c.library.attnpress_backward, call.pointed()
        lent = [(workspace.data_ptr(), call.workspace_bytes)]
        _replay.keep(asked, function, (call.args,), gradients, pointed, lent)
    gradients = _as_given(gradients, bias if with_dbias else None, sinks)
    if dbuffers and groups is not None:
        of = zip(dbuffers, groups.buffers)
        gradients.append(tuple(None if x is None else x.to(value.dtype) for x, value in of))
    return tuple(gradients)


def _as_given(gradients, bias, sinks) -> list:
    """What the library wrote as backward() gives it: dsinks, and dbias behind it, as sinks and bias
    are, where they are given."""
    gradients = list(gradients)
    if sinks is not None:
        gradients[3] = gradients[3].to(sinks.dtype)
    if bias is not None:
        dbias = gradients[-1]
        if bias.shape[-1:] != dbias.shape[3:]:  # the library does not sum over keys
            dbias = dbias.sum(3).to(bias.dtype)
        gradients[-1] = dbias.reshape(bias.shape)
    return gradients


def _groups_of(q, k, v, slopes, bias, sinks, scale, causal, window_size, softcap, chunk, top_left):
    """(whether the mask is causal, the groups) of a call with these arguments of
    attnpress.forward()."""
    causal, request = _attention._request_of(
        causal, window_size, softcap, slopes, bias, sinks, 0.0, None, chunk, top_left
    )
    return causal, _attention._groups_of(sys.modules[__name__], request, q, k, v, scale)


def backward_again(
    dout, q, k, v, out, lse, dlse, slopes, bias, sinks, options: tuple, deterministic: bool,
    with_dbias: bool = False,
):  # fmt: skip
    """backward() of a call with tensors of features, which is known again. options: scale and what
    follows it in _groups_of()."""
    tensors = (dout, q, k, v, out, lse, dlse, slopes, bias, sinks)
    asked, made = known(tensors, ("backward", *options, deterministic, with_dbias))
    if made is not None:
        return tuple(_as_given(made, bias if with_dbias else None, sinks))
    scale = options[0]
    causal, groups = _groups_of(q, k, v, slopes, bias, sinks, *options)
    return backward(
        dout, q, k, v, out, lse, scale, causal, deterministic, dlse, groups,
        with_dbias=with_dbias, asked=asked,
    )  # fmt: skip


def backward_quickly(
    dout, q, k, v, out, lse, scale, causal, deterministic, dlse, groups: Groups | None
):
    """backward() of a call without tensors of features."""
    templates = _backward_templates if groups is None else groups.backward_templates
    template = None if templates is None else templates.get((scale, causal, deterministic))
    if template is not None and _replay.are_gradients_ordinary():
        found = _quick_backward(template, dout, q, k, v, out, lse, dlse)
        if found is not None:
            return found
    found = backward(dout, q, k, v, out, lse, scale, causal, deterministic, dlse, groups)
    _exchange.add_backward(scale, causal, deterministic, groups)
    return found


def _requires_grad(groups: Groups) -> bool:
    """needs_grad() of what groups have gradients by, for calls that must be quick."""
    sinks, bias = groups.sinks, groups.bias
    return (
        (sinks is not None and sinks.requires_grad)
        or (bias is not None and bias.requires_grad)
        or (groups.buffers != () and any(x.requires_grad for x in groups.buffers))
    )


def forward(
    q,
    k,
    v,
    softmax_scale: float | None,
    causal: bool,
    with_lse: bool,
    groups: Groups | None = None,
    deterministic: bool = False,
    asked: _replay.Asked | None = None,
):
    """out, or (out, lse, an empty tensor) where with_lse. Queues the work on q's device's current
    stream. Where an argument requires grad, the outputs have a backward pass. asked: of the
    call."""
    templates = _forward_templates if groups is None else groups.forward_templates
    if templates is not None:
        template = templates.get((softmax_scale, causal))
        if template is not None:
            found = _quickly(
                template, q, k, v, softmax_scale, causal, with_lse, groups, deterministic
            )
            if found is not None:
                return found
    key = _key(q, k, v, softmax_scale, causal, groups)
    dtype = key[3]
    if (dtype is _FLOAT32 or dtype is not key[4] or dtype is not key[5]) and _autocasts(key[0]):
        q, k, v = autocast(q, k, v)
        with torch.autocast(key[0].type, enabled=False):
            return forward(q, k, v, softmax_scale, causal, with_lse, groups, deterministic)
    if _forward_mode._current_level >= 0:
        _check_no_tangent(q, k, v)
    if (
        q.requires_grad
        or k.requires_grad
        or v.requires_grad
        or (groups is not None and _requires_grad(groups))
    ) and _is_grad_enabled():
        if _transformed():
            _refuse_transforms()
        options = key, softmax_scale, causal, with_lse, groups, deterministic, asked
        if groups is None:
            found = _Attention.apply(q, k, v, options)
        else:
            if torch.is_tensor(groups.seed):
                _keep_seed(groups)
            if deterministic and groups.buffers:
                _check_not_deterministic(groups)
            found = _Attention.apply(q, k, v, options, groups.sinks, groups.bias, *groups.buffers)
        return (*found, _empty(0, dtype=dtype, device=key[0])) if with_lse else found
    out, lse = _launched(key, q, k, v, softmax_scale, causal, with_lse, groups, asked)
    return out if lse is None else (out, lse, _empty(0, dtype=dtype, device=key[0]))


def forward_again(
    q, k, v, slopes, bias, sinks, options: tuple, with_lse: bool, deterministic: bool
):
    """(what forward() takes, what it returns) of a call with tensors of features, where it is known
    again; else the latter is None. options: as of backward_again()."""
    if needs_grad(slopes) or (q.dtype is _FLOAT32 and _autocasts(q.device)):
        return None, None
    records = needs_grad(q, k, v, bias, sinks)
    kept = ("forward", *options, with_lse or records)
    asked, made = known((q, k, v, slopes, bias, sinks), kept)
    if made is None:
        return asked, None
    if records:
        done = made, (options, deterministic), with_lse
        made = _record_again(q, k, v, slopes, bias, sinks, done)
        if not with_lse:
            return None, made
    return None, (*made, q.new_empty(0)) if with_lse else made[0]


def _quickly(template, q, k, v, softmax_scale, causal, with_lse, groups, deterministic):
    """forward() of ordinary tensors; None for all else, of which nothing is known here."""
    if _forward_mode._current_level >= 0:
        return None
    try:
        records = (q.requires_grad or k.requires_grad or v.requires_grad) and _is_grad_enabled()
    except AttributeError:
        return None
    if not (records or with_lse):
        return _quick_forward(template, q, k, v, None)
    if q.__class__ is not _Tensor or q.dim() != 4 or (records and _transformed()):
        return None
    batch, seqlen, heads, _ = q.shape
    device = q.device
    lse = _empty_strided(
        (batch, heads, seqlen), (heads * seqlen, seqlen, 1), dtype=_FLOAT32, device=device
    )
    out = _quick_forward(template, q, k, v, lse)
    if out is None:
        return None
    if records:
        options = None, softmax_scale, causal, with_lse, groups, deterministic
        found = _record(q, k, v, (out, lse, options))
        if not with_lse:
            return found
        out, lse = found
    return out, lse, q.new_empty(0)


def _launched(key, q, k, v, softmax_scale, causal, with_lse, groups, asked=None):
    """(out, lse), of which lse is None unless with_lse. key: that of the arguments."""
    device = key[0]
    on_gpu = q.is_cuda
    if on_gpu and _get_device() != device.index:
        with torch.cuda.device(device):
            return _launched(key, q, k, v, softmax_scale, causal, with_lse, groups, asked)
    plan = _plans.by_key.get(key) or _new_plan(key, q, k, v, softmax_scale, causal, groups)
    try:
        q_data, k_data, v_data = q.data_ptr(), k.data_ptr(), v.data_ptr()
    except RuntimeError:
        if _transformed():
            _refuse_transforms()
        raise
    if plan is None or (q_data | k_data | v_data) & 15:
        copies = (_readable(q), _readable(k), _readable(v))
        key = _key(*copies, softmax_scale, causal, groups)
        return _launched(key, *copies, softmax_scale, causal, with_lse, groups)

    if plan.out_as_q and (q.__class__ is _Tensor or q.__class__ is _Parameter):
        out = _empty_like(q)  # quicker than by shape and strides
    else:
        out = _empty_strided(plan.out_shape, plan.out_stride, dtype=key[3], device=device)
    lse = None
    lse_data = workspace_data = 0
    if with_lse:
        lse = _empty_strided(plan.lse_shape, plan.lse_stride, dtype=_FLOAT32, device=device)
        lse_data = lse.data_ptr()
    if plan.workspace_bytes:
        # Freed when this function returns; the allocator gives it to later work of this stream.
        workspace = _empty_strided((plan.workspace_bytes,), (1,), dtype=torch.uint8, device=device)
        workspace_data = workspace.data_ptr()
    args = plan.args(q_data, k_data, v_data, out.data_ptr(), lse_data, workspace_data)
    if groups is not None:
        args = groups.point_from(args)
    stream = _raw_stream(device.index) if on_gpu else None
    handle = plan.handle
    status = _forward(handle, args, stream)
    if status != 0:  # ATTNPRESS_OK
        backend = c.CUDA if on_gpu else c.CPU
        plan.handle = recover(status, backend, handle, _forward, args, stream)
    if asked is not None and groups is not None:
        made = (out,) if lse is None else (out, lse)
        taken, pointed = c.ForwardArgs.from_buffer_copy(args), groups.structs.values()
        lent = [(workspace_data, plan.workspace_bytes)]
        _replay.keep(asked, _forward, (taken,), made, pointed, lent)
    return out, lse


def with_plan(
    q,
    k,
    v,
    softmax_scale: float | None,
    causal: bool,
    groups: Groups | None,
    function,
    *rest: object,
) -> None:
    """function(handle, args, *rest) of the library for these tensors, which are neither read nor
    copied."""
    with torch.cuda.device(q.device) if q.is_cuda else torch.no_grad():
        backend, dtype, shapes = checked(q, k, v, softmax_scale)
        strides = tuple(
            strides_read(x.shape, x.stride(), x.stride(), x.data_ptr() % 16 == 0) for x in (q, k, v)
        )
        plan = Plan(backend, dtype, shapes, strides, softmax_scale, causal, groups)
        args = plan.args() if groups is None else groups.point_from(plan.args())
        plan.run(backend, args, function, *rest)


# ---- Sequences of their own lengths --------------------------------------------------------------


def int32_array(name: str, value, like):
    """A tensor of lengths or indices, checked."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is {type(value).__name__}; with q it must be a PyTorch tensor")
    if value.device != like.device:
        raise ValueError(f"{name} is on {value.device} and q on {like.device}; one is needed")
    if value.dtype != torch.int32:
        raise ValueError(f"{name} is {value.dtype}; torch.int32 is needed: {name}.int()")
    return value if value.dim() < 1 or value.stride(-1) == 1 else value.contiguous()


def int32_full(count: int, value: int, like):
    return torch.full((count,), value, dtype=torch.int32, device=like.device)


def refuse_grad(names: tuple[str, ...], *values) -> None:
    """NotImplementedError where a tensor requires grad."""
    if needs_grad(*values):
        raise NotImplementedError(
            f"there is no backward pass yet of calls with {', '.join(names)}, and an argument "
            "requires grad: detach it, or call under torch.no_grad()"
        )


def ragged(
    q, k, v, out, request: Ragged, softmax_scale, causal, groups, num_splits, lse_shape
):  # fmt: skip
    """(out, lse); of q, k, v (batch, seqlen, heads, head_dim); lse where lse_shape is not None.
    Queues the work on q's device's current stream."""
    backend, dtype, _ = checked(q, k, v, softmax_scale)
    on_gpu = backend == c.CUDA
    if on_gpu and _get_device() != q.device.index:
        with torch.cuda.device(q.device):
            return ragged(
                q, k, v, out, request, softmax_scale, causal, groups, num_splits, lse_shape
            )
    out_shape = (*q.shape[:3], v.shape[3])
    cache, given = (k, v), (q, k, v)
    q, k, v = (_readable(x) for x in given)
    if request.before is not None:
        check_in_place(("k_cache", cache[0], k), ("v_cache", cache[1], v))
    if out is None:
        stride = dense_stride(out_shape, q.stride())
        out = _empty_strided(out_shape, stride, dtype=q.dtype, device=q.device)
    elif (
        not isinstance(out, torch.Tensor)
        or out.shape != out_shape
        or out.dtype != q.dtype
        or out.device != q.device
    ):
        raise ValueError(
            f"out is {getattr(out, 'dtype', type(out).__name__)} of shape "
            f"{tuple(getattr(out, 'shape', ()))}; it must be {q.dtype} of shape {out_shape} on "
            f"{q.device}"
        )
    elif not is_allowed(out_shape, out.stride()) or out.data_ptr() % 16:
        raise ValueError(
            f"out has strides {out.stride()}; the last dimension must be contiguous, the others "
            "multiples of 8 elements, and the data aligned to 16 bytes"
        )
    lse = None
    if lse_shape is not None:
        lse = _empty(lse_shape, dtype=torch.float32, device=q.device)
    call = RaggedCall(
        handle_of(backend), dtype, [_layout(x) for x in (q, k, v, out)],
        0 if lse is None else lse.data_ptr(), request, request.layouts(_layout), softmax_scale,
        causal, groups, num_splits,
    )  # fmt: skip
    size = 0
    if request.before is not None or on_gpu:
        size = call.workspace_bytes()
    if request.appended is not None:
        call.appended = request.appended()
    elif request.before is not None:
        request.before()
    # Freed when this function returns; the allocator gives it to later work of this stream.
    workspace = _empty(size, dtype=torch.uint8, device=q.device)
    stream = _raw_stream(q.device.index) if on_gpu else None
    status = call.run(workspace.data_ptr(), size, stream)
    if status == c.NO_NVRTC:
        call.handle = handle_with_nvrtc(backend, call.handle, c.error_of(status))
        status = call.run(workspace.data_ptr(), size, stream)
    c.check(status)
    kept = all(a is b for a, b in zip((q, k, v), given))
    if groups is None and kept and request.is_plain:
        _exchange.add_cache(softmax_scale, causal, num_splits)
    if request.asked is not None and kept:
        _replay.keep(*_kept_of(request, call, out, lse, workspace))
    return out, lse


def _kept_of(request: Ragged, call: RaggedCall, out, lse, workspace) -> tuple:
    """What keep() takes of a call of sequences that has run."""
    asked = request.asked
    assert asked is not None
    function: Any = c.library.attnpress_forward
    taken: list[Any] = [call.struct]
    pointed: list[Any] = [call.ragged]
    if call.groups is not None:
        pointed += call.groups.structs.values()
    if call.appended is not None:
        function, args = call.appended.function, call.appended.args
        taken = [args, *taken]
        if args.rotary:
            pointed.append(args.rotary.contents)
    elif request.before is not None:
        asked = None  # two calls
    shown = out[0] if request.is_packed else out
    if request.given_out is not None:
        shown = request.given_out
    made = (shown,) if lse is None else (shown, lse)
    lent = [
        (x.data_ptr(), x.numel() * x.element_size())
        for x in (workspace, request.rotated)
        if x is not None
    ]
    return asked, function, taken, made, pointed, lent


def cache_quickly(q, k, v, used, table, softmax_scale, causal, num_splits):
    """The output of flash_attn_with_kvcache() without new keys and features, of ordinary tensors;
    None for all else, of which nothing is known here."""
    template = _cache_templates.get((softmax_scale, causal, num_splits))
    if template is None or _forward_mode._current_level >= 0:
        return None
    try:
        records = (q.requires_grad or k.requires_grad or v.requires_grad) and _is_grad_enabled()
    except AttributeError:
        return None
    return None if records else _quick_cache(template, q, k, v, used, table)


def known(tensors: tuple, options: tuple):
    """(what keeps a call, what it made) where it is known again (_replay.py); None for either. For
    calls of which no gradient is recorded."""
    if not _replay.are_gradients_ordinary():
        return None, None
    return _replay.known(options, tensors)


def known_unrecorded(tensors: tuple, options: tuple):
    """The same of calls that may be recorded, and are then not kept."""
    if _is_grad_enabled():
        for x in tensors:
            if x is not None and getattr(x, "requires_grad", True):
                return None, None
    return known(tensors, options)


def empty_like(q):
    """A tensor without elements."""
    return _empty(0, dtype=q.dtype, device=q.device)


# ---- What is done to scores ----------------------------------------------------------------------


def check_no_grad(request: ScoreRequest) -> None:
    """NotImplementedError for a tensor that requires grad and has no gradient, or has a tangent."""
    if not torch.compiler.is_compiling() and _forward_mode._current_level >= 0:
        _check_no_tangent(*(x for x in request.tensors if isinstance(x, torch.Tensor)))
    slopes = request.alibi_slopes
    if isinstance(slopes, torch.Tensor) and slopes.requires_grad and torch.is_grad_enabled():
        _refuse_grad("alibi_slopes")
    mod = request.score_mod
    if mod is not None and not (mod.score or "").strip() and torch.is_grad_enabled():
        for name, value in mod.values.items():
            if isinstance(value, torch.Tensor) and value.requires_grad:
                _refuse_grad_of_mask(name)


def _keep_seed(groups: Groups) -> None:
    """Copies a seed of the caller's, who may draw another into it before the backward pass."""
    seed = groups.seed.clone()
    groups.kept = [seed if value is groups.seed else value for value in groups.kept]
    groups.structs["dropout"].seed_and_offset = seed.data_ptr()


def view(name: str, value, like, whole: bool = False) -> View:
    """A tensor of a feature's; whole: of int32 as well."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is {type(value).__name__}; with q it must be a PyTorch tensor")
    if value.device != like.device:
        raise ValueError(f"{name} is on {value.device} and q on {like.device}; one is needed")
    if whole and value.dtype == torch.int32:
        return View(value, value.data_ptr(), value.shape, value.stride(), c.INT32)
    if value.dtype not in _DTYPES:
        raise ValueError(
            f"{name} is {value.dtype}; torch.float16, torch.bfloat16 and torch.float32 are "
            f"supported{', and torch.int32' if whole else ''}"
        )
    return View(value, value.data_ptr(), value.shape, value.stride(), _DTYPES[value.dtype])


def contiguous_view(value) -> View:
    """Of a copy."""
    copy = value.contiguous()
    return View(copy, copy.data_ptr(), copy.shape, copy.stride(), _DTYPES[copy.dtype])


def draw_seed(like):
    """By PyTorch's generator of q's device, and in its memory: a graph that captured the call draws
    anew at each replay."""
    return torch.randint(-(1 << 63), (1 << 63) - 1, (2,), dtype=torch.int64, device=like.device)


def seed_address(seed, like) -> int:
    """Of a tensor that holds seed and offset."""
    if (
        not isinstance(seed, torch.Tensor)
        or tuple(seed.shape) != (2,)
        or seed.dtype != torch.int64
        or not seed.is_contiguous()
        or seed.device != like.device
    ):
        raise ValueError(
            f"seed is {seed!r}; it must be an int, two ints (seed, offset), or a contiguous int64 "
            "tensor of these two on q's device"
        )
    return seed.data_ptr()


def dropout_mask(q, seqlen_k: int, groups: Groups):
    """(batch, heads, seqlen_q, seqlen_k): True where a probability is kept."""
    shape = (q.shape[0], q.shape[2], q.shape[1], seqlen_k)
    keep = _empty(shape, dtype=torch.uint8, device=q.device)
    args = mask_args(shape, keep.data_ptr(), groups)
    backend = c.CUDA if q.is_cuda else c.CPU
    with torch.cuda.device(q.device) if q.is_cuda else torch.no_grad():
        stream = torch.cuda.current_stream().cuda_stream if q.is_cuda else None
        handle, function = handle_of(backend), c.library.attnpress_dropout_mask
        rest = addressof(args), stream
        recover(function(handle, *rest), backend, handle, function, *rest)
    return keep.view(torch.bool)


# What probabilities() is computed with.
library = torch


def floats(value):
    return value.float()


def zeros(shape, like):
    return torch.zeros(shape, device=like.device)


def positions(count: int, like):
    return torch.arange(count, device=like.device)


def signed(p, keep, q):
    """p in q's dtype, negative where it was dropped."""
    return torch.where(keep, p, -p).to(q.dtype)
