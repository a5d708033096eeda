"""The gradients of attention: what the adapters of PyTorch and NumPy have in common."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof, byref, c_size_t, sizeof
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import _library as c
from ._plan import dense_stride, handle_of, packer, recover
from ._scores import Groups

_NAMES = ("q", "k", "v", "out", "dout")


class Layout(NamedTuple):
    """A tensor that the library reads or writes: its address, and its strides in elements."""

    data: int
    shape: Sequence[int]
    stride: Sequence[int]


@dataclass(frozen=True)
class Request:
    """One backward call. The gradients have the shapes of q, k and v, and these strides."""

    backend: int
    dtype: int
    q: Layout
    k: Layout
    v: Layout
    out: Layout
    dout: Layout
    lse: int  # addresses of (batch, heads_q, seqlen_q) floats without gaps
    dlse: int  # 0: none
    softmax_scale: float | None
    causal: bool
    deterministic: bool
    groups: Groups | None = None
    ragged: c.Ragged | None = None  # then lse and dlse are (heads_q, total_q)
    given: tuple[Sequence[int], ...] | None = None  # strides of gradients that are there already
    dbias: tuple[int, ...] = ()  # the shape of the gradient by the bias, without gaps; (): none
    dbias_dtype: int = 0
    dbuffers: tuple[tuple[int, ...] | None, ...] = ()
    """The shapes of the gradients of a snippet's buffers, without gaps; None: not wanted."""

    def gradient_strides(self) -> tuple[tuple[int, ...], ...]:
        """Of dq, dk and dv: without gaps, in the order of q, k and v in memory."""
        if self.given is not None:
            return tuple(tuple(stride) for stride in self.given)
        return tuple(dense_stride(x.shape, x.stride) for x in (self.q, self.k, self.v))


class Call:
    """A request as the library takes it. `workspace_bytes`: what it needs besides."""

    def __init__(self, request: Request) -> None:
        args = self.args = c.BackwardArgs(struct_size=sizeof(c.BackwardArgs))
        self._backend = request.backend
        inputs = (request.q, request.k, request.v, request.out, request.dout)
        for name, layout in zip(_NAMES, inputs):
            _fill(getattr(args, name), request.dtype, layout.shape, layout.stride, layout.data)
        for name, of, stride in zip(("dq", "dk", "dv"), inputs, request.gradient_strides()):
            _fill(getattr(args, name), request.dtype, of.shape, stride, 0)
        args.lse = request.lse
        args.dlse = request.dlse or None
        args.scale = request.softmax_scale or 0.0
        args.mask = c.CAUSAL if request.causal else c.FULL
        self._groups = request.groups
        if request.groups is not None:
            request.groups.put_into(args)
            if request.groups.sinks is not None:
                args.dsinks = 16  # a plan asks whether it is NULL
        self._dbias = c.DBias(struct_size=sizeof(c.DBias), dtype=request.dbias_dtype)
        if request.dbias:
            self._dbias.shape[:] = request.dbias
            self._dbias.stride[:] = dense_stride(request.dbias, (4, 3, 2, 1))
            args.dbias = addressof(self._dbias)
        self._dbuffers = (c.DBuffer * len(request.dbuffers))()
        for dbuffer, shape in zip(self._dbuffers, request.dbuffers):
            if shape is not None:
                dbuffer.data = 16  # a plan asks whether it is NULL
                dbuffer.stride[: len(shape)] = _contiguous(shape)
        if any(shape is not None for shape in request.dbuffers):
            args.dbuffers = addressof(self._dbuffers)
        args.deterministic = int(request.deterministic)
        self._ragged = request.ragged  # as long as the call
        if request.ragged is not None:
            args.ragged = addressof(request.ragged)
        size = c_size_t()
        c.check(c.backward_workspace_bytes(handle_of(request.backend), args, size))
        self.workspace_bytes = args.workspace_bytes = size.value

    def pointed(self) -> list[Any]:
        """The structs that `args` points to; not those of a snippet's gradients."""
        groups = () if self._groups is None else self._groups.structs.values()
        ragged = () if self._ragged is None else (self._ragged,)
        return [*groups, *ragged, self._dbias]

    def run(
        self,
        dq: int,
        dk: int,
        dv: int,
        dsinks: int,
        workspace: int,
        stream: int | None,
        dbias: int = 0,
        dbuffers: Sequence[int] = (),
    ) -> None:
        """Runs it, with these addresses; dsinks: of (heads_q) floats, 0 without sinks; dbias: of
        the request's shape and dtype; dbuffers: of zeros of the request's shapes, in fp32, 0 where
        it has none. Raises what failed."""
        args = self.args
        args.dq.data, args.dk.data, args.dv.data = dq, dk, dv
        args.dsinks = dsinks or None
        self._dbias.data = dbias or None
        for dbuffer, data in zip(self._dbuffers, dbuffers):
            dbuffer.data = data or None
        args.workspace = workspace
        handle = handle_of(self._backend)
        function, rest = c.library.attnpress_backward, (byref(args), stream)
        recover(function(handle, *rest), self._backend, handle, function, *rest)


_split, _pack = packer(
    c.BackwardArgs,
    "q", "k", "v", "out", "dout", "dq", "dk", "dv", "lse", "dlse", "workspace",
)  # fmt: skip


class Plan:
    """One signature of calls without sequences, sinks, or gradients by a bias or a snippet's
    buffers, filled once, as _plan.Plan is: each call makes a struct of its own from it."""

    __slots__ = ("handle", "parts", "strides", "workspace_bytes", "_backend")

    def __init__(self, request: Request, call: Call) -> None:
        args = c.BackwardArgs.from_buffer_copy(call.args)
        args.window = args.alibi = args.bias = args.sinks = args.dropout = None
        args.score_mod = args.dbias = args.dbuffers = args.dsinks = None
        self.parts = _split(bytes(args))
        self.strides = request.gradient_strides()
        self.workspace_bytes = call.workspace_bytes
        self.handle = handle_of(request.backend)
        self._backend = request.backend

    def run(
        self, q: int, k: int, v: int, out: int, dout: int, dq: int, dk: int, dv: int, lse: int,
        dlse: int, workspace: int, groups: Groups | None, stream: int | None,
    ) -> None:  # fmt: skip
        """attnpress_backward() with these addresses. Raises what failed."""
        a, b, d, e, f, g, h, i, j, x, y, z = self.parts
        args = _pack(
            a, q, b, k, d, v, e, out, f, dout, g, dq, h, dk, i, dv, j, lse, x, dlse, y, workspace, z
        )
        if groups is not None:
            args = groups.point_from(args, c.BackwardArgs)
        handle, function = self.handle, c.library.attnpress_backward
        status = function(handle, args, stream)
        if status != c.OK:
            self.handle = recover(status, self._backend, handle, function, args, stream)


def dbias_shape(bias_shape: Sequence[int], keys: int) -> tuple[int, ...]:
    """Of the gradient by a bias, as the library sums it: in four dimensions, and of every key."""
    of_all = (*(1,) * (4 - len(bias_shape)), *bias_shape)
    return (*of_all[:3], keys)


def _contiguous(shape: Sequence[int]) -> list[int]:
    """Strides of a tensor of 1 to 4 dimensions without gaps."""
    stride = [1] * len(shape)
    for i in range(len(shape) - 1, 0, -1):
        stride[i - 1] = stride[i] * shape[i]
    return stride


def _fill(
    tensor: c.Tensor, dtype: int, shape: Sequence[int], stride: Sequence[int], data: int
) -> None:
    tensor.data = data
    tensor.shape[:] = shape
    tensor.stride[:] = stride
    tensor.dtype = dtype


def check_shapes(
    q: Sequence[int],
    v: Sequence[int],
    out: Sequence[int],
    dout: Sequence[int],
    lse: Sequence[int],
    dlse: Sequence[int] | None,
    is_ragged: bool = False,
) -> None:
    """ValueError where the shapes of out, dout, lse and dlse are not those of a forward call."""
    expected = (*q[:3], v[3])
    for name, shape in (("out", out), ("dout", dout)):
        if tuple(shape) != expected:
            raise ValueError(f"{name} is {tuple(shape)}; it must be {expected}")
    rows = (q[2], q[1]) if is_ragged else (q[0], q[2], q[1])
    for name, shape in (("softmax_lse", lse), ("dsoftmax_lse", rows if dlse is None else dlse)):
        if tuple(shape) != rows:
            raise ValueError(f"{name} is {tuple(shape)}; it must be {rows}, in fp32")
