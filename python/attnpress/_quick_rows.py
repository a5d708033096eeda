"""Calls of the families of rows, images and matrices that ran before, which are known again
(_replay.py). All others, and the first of a kind, go the family's own way, which has the checks and
sentences, and keeps the call here.

Imported where a PyTorch tensor was seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import Structure
from typing import Any

import torch

from . import _library as c
from . import _replay
from ._torch import once_differentiable

CONTIGUOUS = torch.contiguous_format
KINDS = torch.Tensor, torch.nn.Parameter
no_grad = torch.no_grad
_is_grad_enabled = torch.is_grad_enabled
may_record = _replay.are_gradients_ordinary

Gradients = Callable[..., tuple[Any, ...]]


class Calls:
    """Of one function of the library, told apart by options: all that a call depends on but its
    tensors."""

    def __init__(self, function: str) -> None:
        self._name = function
        self._function = getattr(c.library, function)

    def run(self, options: Any, *tensors: Any) -> Any:
        """The output, or the tuple of them; None: the call has to go the family's way. Gradients
        are not recorded, whatever the tensors ask for. tensors: all but the first may be None."""
        made = _replay.again((self._name, options), tensors)
        return made if made is None or len(made) > 1 else made[0]

    def keep(
        self, options: Any, args: Structure, tensors: Sequence[Any], outputs: Sequence[Any],
        workspace_bytes: int,
    ) -> None:  # fmt: skip
        """Keeps a call that has run. tensors: those of run(); one that was copied first is not
        kept, nor its call. outputs: what run() is to return; None is left out."""
        asked = _replay.Asked((self._name, options), tuple(tensors))
        lent = [(args.workspace, workspace_bytes)] if workspace_bytes else []
        outputs = [x for x in outputs if x is not None]
        _replay.keep(asked, self._function, (args,), outputs, (), lent)


# ---- Gradients -----------------------------------------------------------------------------------


def records(*tensors: Any) -> bool:
    """Whether a gradient by one of them is to be recorded. None are those of what is no tensor."""
    if _is_grad_enabled():
        for x in tensors:
            if getattr(x, "requires_grad", False):
                return True
    return False


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


_once = once_differentiable(_gradients)


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
