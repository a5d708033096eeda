"""Tensors of any strides, and index arrays, for append() and merge(): from PyTorch's and NumPy's to
the C ABI's structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _library as c
from ._rows import check_writable, library_of


class Arguments:
    """The tensors of one call, all of one library and on one device; alive as long as this is."""

    def __init__(self, name: str, first: Any) -> None:
        """first: the tensor that the others are measured by."""
        self.name, self.first = name, first
        self.library = library_of(name, first)
        self.kept: list[Any] = []  # what the call reads and writes
        self.library.check_untransformed()

    def check_kind(self, name: str, value: Any) -> None:
        kind = self.library.kind
        if not isinstance(value, kind):
            raise TypeError(
                f"{name} is {type(value).__name__}; with {self.name} it must be {kind.__name__}"
            )
        device = getattr(self.first, "device", None)
        if hasattr(value, "is_cuda") and value.device != device:
            raise ValueError(
                f"{name} is on {value.device} and {self.name} on {device}; one is needed"
            )
        if not hasattr(value, "is_cuda"):
            self.library.check_place(name, value, self.first)  # no masked arrays

    def refuse_grad(self, *values: Any) -> None:
        """Nothing here has a backward pass."""
        if self.library.records(*values):
            raise NotImplementedError(
                "an argument requires grad, and this call has no gradients: detach it, or call "
                "under torch.no_grad()"
            )

    def _is_readable(self, value: Any) -> bool:
        strides = self.library.strides(value)
        aligned = not hasattr(value, "flags") or value.flags.aligned
        whole = all(s >= 0 or n <= 1 for s, n in zip(strides, value.shape))
        return aligned and whole and (value.shape[-1] <= 1 or strides[-1] == 1)

    def tensor(
        self, name: str, value: Any, written: bool = False, ragged: bool = False
    ) -> c.Tensor:
        """The struct of a (batch, seqlen, heads, head_dim) tensor, or, where `ragged`, of a (total,
        heads, head_dim) one. An input that the library cannot read as it lies is copied; an output
        is an error then."""
        self.check_kind(name, value)
        dimensions = 3 if ragged else 4
        if len(value.shape) != dimensions:
            wanted = "(total, heads, head_dim)" if ragged else "(batch, seqlen, heads, head_dim)"
            raise ValueError(f"{name} has shape {tuple(value.shape)}; it must be {wanted}")
        dtype = self.library.dtype(name, value)
        if written:
            check_writable(name, value)
        if 0 not in value.shape and not self._is_readable(value):
            if written:
                raise ValueError(
                    f"{name} has strides {tuple(self.library.strides(value))}, in elements; what "
                    "is written must have a contiguous last dimension and no negative strides"
                )
            value = self.library.contiguous(value)
        self.kept.append(value)
        struct = c.Tensor(dtype=dtype)
        struct.data = self.library.address(value) or None
        shape, stride = tuple(value.shape), tuple(self.library.strides(value))
        struct.shape[:] = (1, *shape) if ragged else shape
        struct.stride[:] = (0, *stride) if ragged else stride
        if shape[-1] <= 1 or 0 in shape:
            struct.stride[3] = 1
        return struct

    def numbers(self, name: str, value: Any, dtype: str, shape: Sequence[int | None]) -> int | None:
        """The address of a contiguous array of this dtype and shape (None: any extent); copied
        where it is not contiguous. None stands for None."""
        if value is None:
            return None
        self.check_array(name, value, dtype, shape)
        value = self.library.contiguous_if_not(value)
        self.kept.append(value)
        return self.library.address(value) or None

    def table(self, name: str, value: Any, shape: Sequence[int | None]) -> tuple[int | None, int]:
        """The address of an int32 array whose last dimension is contiguous, and the elements from
        row to row; 0 where there is one row at most. Copied where it does not lie so."""
        self.check_array(name, value, "int32", shape)
        stride = self.library.strides(value)
        columns, aligned = value.shape[-1], getattr(getattr(value, "flags", None), "aligned", True)
        if (columns > 1 and stride[-1] != 1) or stride[0] < 0 or not aligned:
            value = self.library.contiguous(value)
            stride = self.library.strides(value)
        self.kept.append(value)
        rows = value.shape[0] if len(shape) == 2 else 1
        return self.library.address(value) or None, stride[0] if rows > 1 else 0

    def check_array(self, name: str, value: Any, dtype: str, shape: Sequence[int | None]) -> None:
        self.check_kind(name, value)
        found = str(value.dtype).rpartition(".")[2]
        fits = len(value.shape) == len(shape) and all(
            want is None or have == want for have, want in zip(value.shape, shape)
        )
        if found != dtype or not fits:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)} and dtype {found}; it must be "
                f"{c.shape_text(shape)} and {dtype}"
            )
