"""The way from PyTorch tensors to the library. Imported when the first tensor is seen: the caller
has PyTorch."""

from __future__ import annotations

import threading

import torch

from . import _library as c
from ._plan import Plan, check_request, dense_stride, is_allowed, new_plans, strides_read

_DTYPES = {torch.float16: c.FP16, torch.bfloat16: c.BF16, torch.float32: c.FP32}
_plans = new_plans()
_forward = c.library.attnpress_forward
_empty = torch.empty
_empty_strided = torch.empty_strided
_get_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
_raw_stream = getattr(
    torch._C,
    "_cuda_getCurrentRawStream",
    lambda index: torch.cuda.current_stream(index).cuda_stream,
)


def _key(q, k, v, softmax_scale: float | None, causal: bool) -> tuple:
    """Everything that a plan depends on."""
    try:
        return (
            q.device, k.device, v.device, q.dtype, k.dtype, v.dtype,
            q.shape, k.shape, v.shape, q.stride(), k.stride(), v.stride(), softmax_scale, causal,
        )  # fmt: skip
    except AttributeError:
        raise TypeError(
            f"q, k and v are {_types(q, k, v)}; all three must be PyTorch tensors"
        ) from None


def _types(*values) -> str:
    return ", ".join(type(value).__name__ for value in values)


_thread = threading.local()


def _has_context() -> bool:
    """False once in each thread, which may have no CUDA context of its own until it calls CUDA's
    runtime. Capturing takes a context, so that a call under capture needs none."""
    known = getattr(_thread, "has_context", False) or torch.cuda.is_current_stream_capturing()
    _thread.has_context = True
    return known


def _checked(q, k, v, softmax_scale: float | None) -> tuple[int, int, tuple]:
    """Backend, attnpress_dtype and shapes; raises for what is not allowed."""
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


def _new_plan(key: tuple, q, k, v, softmax_scale: float | None, causal: bool) -> Plan | None:
    """The plan of a signature, or None where a tensor has to be copied first."""
    backend, dtype, shapes = _checked(q, k, v, softmax_scale)
    strides = (q.stride(), k.stride(), v.stride())
    if not all(is_allowed(*one) for one in zip(shapes, strides)):
        return None
    plan = Plan(backend, dtype, shapes, strides, softmax_scale, causal)
    _plans.add(key, plan)
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


def forward(q, k, v, softmax_scale: float | None, causal: bool, with_lse: bool):
    """out, or (out, lse, an empty tensor) where with_lse. Queues the work on q's device's current
    stream."""
    key = _key(q, k, v, softmax_scale, causal)
    if (q.requires_grad or k.requires_grad or v.requires_grad) and torch.is_grad_enabled():
        raise NotImplementedError(
            "flash_attn_func has no backward yet, and an argument requires grad: "
            "detach it, or call under torch.no_grad()"
        )
    device = key[0]
    on_gpu = device.type == "cuda"
    index = device.index
    if on_gpu and _get_device() != index:
        with torch.cuda.device(index):
            return forward(q, k, v, softmax_scale, causal, with_lse)
    plan = _plans.by_key.get(key) or _new_plan(key, q, k, v, softmax_scale, causal)
    q_data, k_data, v_data = q.data_ptr(), k.data_ptr(), v.data_ptr()
    if plan is None or (q_data | k_data | v_data) & 15:
        return forward(_readable(q), _readable(k), _readable(v), softmax_scale, causal, with_lse)

    out = _empty_strided(plan.out_shape, plan.out_stride, dtype=key[3], device=device)
    lse = _empty(plan.lse_shape, dtype=torch.float32, device=device) if with_lse else None
    lse_data = 0 if lse is None else lse.data_ptr()
    workspace_data = 0
    if plan.workspace_bytes:
        # Freed when this function returns; the allocator gives it to later work of this stream.
        workspace = _empty(plan.workspace_bytes, dtype=torch.uint8, device=device)
        workspace_data = workspace.data_ptr()
    args = plan.args(q_data, k_data, v_data, out.data_ptr(), lse_data, workspace_data)
    stream = _raw_stream(index) if on_gpu else None
    handle = plan.handle
    status = _forward(handle, args, stream)
    if status != c.OK:
        plan.recover(status, handle, c.CUDA if on_gpu else c.CPU, args, _forward, stream)
    return out if lse is None else (out, lse, _empty(0, dtype=q.dtype, device=device))


def with_plan(q, k, v, softmax_scale: float | None, causal: bool, function, *rest: object) -> None:
    """function(handle, args, *rest) of the library for these tensors, which are neither read nor
    copied."""
    _key(q, k, v, softmax_scale, causal)  # all three are tensors
    with torch.cuda.device(q.device) if q.is_cuda else torch.no_grad():
        backend, dtype, shapes = _checked(q, k, v, softmax_scale)
        strides = tuple(
            strides_read(x.shape, x.stride(), x.stride(), x.data_ptr() % 16 == 0) for x in (q, k, v)
        )
        plan = Plan(backend, dtype, shapes, strides, softmax_scale, causal)
        plan.run(backend, plan.args(), function, *rest)
