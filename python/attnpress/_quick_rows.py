"""Calls of the families of rows, images and matrices that ran before: one builtin function of the
library knows them again by how their tensors lie, makes the outputs and runs (_exchange.py). All
others, and the first of a kind, go the family's own way, which has the checks and sentences, and
keeps the call here.

Imported where a PyTorch tensor was seen."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from ctypes import Structure, addressof, c_void_p, sizeof
from typing import Any

import torch
from torch.autograd import forward_ad as _forward_mode

from . import _exchange
from . import _library as c

IS_OPEN = _exchange.functions is not None
_WORD = sizeof(c_void_p)
_MAX_CALLS = 1024  # of one Calls; all are dropped when there are more

CONTIGUOUS = torch.contiguous_format
KINDS = torch.Tensor, torch.nn.Parameter
no_grad = torch.no_grad
_is_grad_enabled = torch.is_grad_enabled
_transformed = torch._C._are_functorch_transforms_active
_get_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)

Output = tuple[str, Any, bool]
"""A field of the struct, the tensor that it points to, and whether that is an input."""

Gradients = Callable[..., tuple[Any, ...]]


def _address_of(name: str) -> int | None:
    """Of a function of the library."""
    return ctypes.cast(getattr(c.library, name), c_void_p).value


def _is_like(made: Any, other: Any) -> bool:
    """Whether PyTorch makes it as one like another."""
    if made.shape != other.shape or made.dtype != other.dtype:
        return False
    return bool(torch.empty_like(other).stride() == made.stride())


def _maker_of(made: Any) -> Any:
    """A callable that makes a tensor like this one."""
    if made.is_contiguous():
        one = torch.empty((), dtype=made.dtype, device=made.device)
        return functools.partial(torch.empty_like, one.expand(made.shape))
    return functools.partial(
        torch.empty_strided, made.shape, made.stride(), dtype=made.dtype, device=made.device
    )


class Calls:
    """Of one function of the library, told apart by options: all that a call depends on but its
    tensors. By options the address of a table, and what it points to: whoever calls the builtin
    function holds the pair, as another thread may drop it here at any time."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._tables: dict[Any, tuple[int, list[Any]]] = {}
        self._seen: set[Any] = set()
        functions = _exchange.functions
        self._rows: Any = None if functions is None else functions.rows
        self._keep: Any = None if functions is None else functions.keep_rows

    def run(self, options: Any, *tensors: Any) -> Any:
        """The output, or the tuple of them; None: the call has to go the family's way. Gradients
        are not recorded, whatever the tensors ask for. tensors: all but the first may be None."""
        found = self._tables.get(options)
        if found is None:
            return None
        try:
            device = _get_device() if tensors[0].is_cuda else 0
        except AttributeError:  # no tensor
            return None
        return self._rows(found[0], device, *tensors)

    def keep(
        self,
        options: Any,
        args: Structure,
        tensors: dict[str, Any],
        outputs: Sequence[Output],
        workspace_bytes: int,
    ) -> None:
        """Keeps a call that has run. tensors: those of run(), by the field of the struct that
        points to them; one that was copied first is not kept, nor its call. outputs: what run()
        is to return, in its order."""
        first = next(iter(tensors.values()))
        if self._keep is None or (first.is_cuda and torch.cuda.is_current_stream_capturing()):
            return  # what is made while a graph is captured is the graph's
        key = (
            options,
            tuple(
                None if x is None else (x.shape, x.stride(), x.dtype, x.device)
                for x in tensors.values()
            ),
        )
        if key in self._seen:
            return
        if len(self._seen) >= _MAX_CALLS:
            self._seen.clear()
            self._tables.clear()
        self._seen.add(key)
        inputs = [(field, i, x) for i, (field, x) in enumerate(tensors.items()) if x is not None]
        numbers = {id(x): i for _, i, x in inputs}
        slots = list(inputs)
        kept: list[Any] = []
        call = _exchange.RowsCall(struct_size=sizeof(_exchange.RowsCall), outputs=len(outputs))
        for i, (field, made, is_given) in enumerate(outputs):
            slots.append((field, _exchange.ROWS_OUTPUT + i, made))
            like = numbers.get(id(made), -1) if is_given else -1
            if not is_given:
                like = next((n for _, n, x in inputs if _is_like(made, x)), -1)
            call.output[i].like, call.output[i].is_given = like, is_given
            if like < 0:
                if is_given:
                    return
                kept.append(_maker_of(made))
                call.output[i].make = id(kept[-1])
        words: list[Any] = []
        for field, source, x in slots:
            if not x.data_ptr() or getattr(args, field) != x.data_ptr():
                return
            words.append(((getattr(type(args), field).offset) // _WORD, source))
        if workspace_bytes:
            words.append((type(args).workspace.offset // _WORD, _exchange.ROWS_WORKSPACE))
        image = bytes(args)
        call.run = _address_of(self._function)
        call.image, call.image_bytes = image, len(image)
        call.addresses = (_exchange.ReplayWord * len(words))(*words)
        call.address_count, call.workspace_bytes = len(words), workspace_bytes
        kept += [image, call]
        table = _exchange.RowsCalls()
        address, of_table = self._tables.setdefault(options, (addressof(table), [table]))
        of_table.append(kept)
        self._keep(
            address, addressof(call), len(tensors), *tensors.values(), *(x for _, x, _ in outputs)
        )


# ---- Gradients -----------------------------------------------------------------------------------


def records(*tensors: Any) -> bool:
    """Whether a gradient by one of them is to be recorded. None are those of what is no tensor."""
    if _is_grad_enabled():
        for x in tensors:
            if getattr(x, "requires_grad", False):
                return True
    return False


def may_record() -> bool:
    """Whether gradients are ordinary ones: neither torch.func's nor of forward mode."""
    return not _transformed() and _forward_mode._current_level < 0


def record(
    tensors: tuple[Any, ...], result: Any, saved: tuple[Any, ...], options: Any,
    gradients: Gradients,
) -> Any:  # fmt: skip
    """The result, one tensor or several, of a call that has been run, with its gradients by
    `tensors`: gradients(ctx, *by the result) returns them, and finds `saved` in ctx.saved_tensors
    and `options` in ctx.options."""
    return _record(*tensors, (result, saved, options, gradients))


def _gradients(ctx: Any, *given: Any) -> tuple[Any, ...]:
    if given[0] is None and (len(given) == 1 or given[1] is None):
        return (None,) * len(ctx.needs_input_grad)
    return (*ctx.gradients(ctx, *given), None)


_once = torch.autograd.function.once_differentiable(_gradients)


class _Recorded(torch.autograd.Function):  # type: ignore[misc]
    """Of a call that has been run: a second derivative is not there, and asking for one raises."""

    @staticmethod
    def forward(ctx: Any, *tensors: Any) -> Any:
        result, saved, ctx.options, ctx.gradients = tensors[-1]
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(False)
        return result

    @staticmethod
    def backward(ctx: Any, *given: Any) -> Any:
        return (_once if _is_grad_enabled() else _gradients)(ctx, *given)


# Without what torch.autograd.Function.apply() does for functorch, whose tensors do not come here.
_record = super(torch.autograd.Function, _Recorded).apply
