"""Compiles and launches one kernel at a time, with any tile: the library takes its tiles from its
own table, and the tuner looks for better ones.

Compiling needs NVRTC and no GPU; launching needs libcuda and PyTorch's context. The argument
structs mirror include/attnpress/args/attention.h.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Mapping
from ctypes import (
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import BenchError
from generator.tiles import Tile
from generator.variant import Variant

# ---- NVRTC --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compiled:
    """A cubin and the compiler's report of it."""

    cubin: bytes
    registers: int  # per thread
    stack_bytes: int  # per thread
    spill_bytes: int  # per thread, stores and loads
    remarks: tuple[str, ...]  # their codes: C7510, say, where products wait for each other
    compile_ms: float

    @property
    def spills(self) -> bool:
        return self.stack_bytes > 0 or self.spill_bytes > 0

    @property
    def flaw(self) -> str | None:
        """Why it is not to be used; None: nothing."""
        if self.spills:
            return "spills"
        return f"has the compiler's remark {self.remarks[0]}" if self.remarks else None


class CompileError(Exception):
    """NVRTC does not compile it; the text is the first error of its log."""


def nvrtc_candidates() -> list[str]:
    """Where NVRTC is looked for, best first: ATTNPRESS_NVRTC alone if it is set."""
    if named := os.environ.get("ATTNPRESS_NVRTC"):
        return [named]
    found: list[Path] = []
    for entry in sys.path:
        found += Path(entry or ".").glob("nvidia/*/lib/libnvrtc.so.1[23]")
    found += Path("/usr/local/cuda/lib64").glob("libnvrtc.so.1[23]")
    newest_first = sorted(found, key=lambda path: path.name, reverse=True)
    return [*map(str, newest_first), "libnvrtc.so.13", "libnvrtc.so.12"]


class Nvrtc:
    """NVRTC; compile() may be called from several threads at once."""

    def __init__(self) -> None:
        self.library = None
        for path in nvrtc_candidates():
            # Opened by its path, NVRTC does not find its builtins beside it: they come first.
            try:
                for builtins in sorted(Path(path).parent.glob("libnvrtc-builtins.so.1*")):
                    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
                self.library = ctypes.CDLL(path)
                break
            except OSError:
                continue
        if self.library is None:
            raise BenchError(
                "NVRTC was not found: install it (pip install nvidia-cuda-nvrtc), or set "
                "ATTNPRESS_NVRTC to its path"
            )

    def compile(self, name: str, source: str, target: str, headers: Mapping[str, str]) -> Compiled:
        """The cubin of a source for a target such as sm_90, with the library's options."""
        n = self.library
        names = (c_char_p * len(headers))(*(key.encode() for key in headers))
        texts = (c_char_p * len(headers))(*(text.encode() for text in headers.values()))
        program = c_void_p()
        status = n.nvrtcCreateProgram(
            ctypes.byref(program),
            source.encode(),
            f"{name}.cu".encode(),
            len(headers),
            texts,
            names,
        )
        if status != 0:
            raise CompileError(f"NVRTC does not take the source of {name} (result {status})")
        try:
            return self._compile(program, name, target)
        finally:
            n.nvrtcDestroyProgram(ctypes.byref(program))

    def _compile(self, program: c_void_p, name: str, target: str) -> Compiled:
        n = self.library
        options = [f"--gpu-architecture={target}", "--std=c++17", "--ptxas-options=-v"]
        version = (c_int(), c_int())
        n.nvrtcVersion(ctypes.byref(version[0]), ctypes.byref(version[1]))
        if (version[0].value, version[1].value) >= (12, 9):
            options.append("--no-cache")
        words = (c_char_p * len(options))(*(option.encode() for option in options))
        begin = time.perf_counter()
        status = n.nvrtcCompileProgram(program, len(options), words)
        compile_ms = 1e3 * (time.perf_counter() - begin)
        log = self._bytes(program, "ProgramLog").decode(errors="replace").rstrip("\0")
        if status != 0:
            errors = [line for line in log.splitlines() if "error" in line]
            raise CompileError(f"{name} for {target}: {errors[0] if errors else log[:200]}")
        cubin = self._bytes(program, "CUBIN")
        if not cubin.startswith(b"\x7fELF"):
            raise CompileError(f"{name} for {target}: NVRTC gave no cubin")
        remarks = tuple(sorted(set(re.findall(r"\((C\d+)\)", log))))
        return Compiled(cubin, *read_report(log), remarks, compile_ms)

    def _bytes(self, program: c_void_p, what: str) -> bytes:
        size = c_size_t()
        if getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) != 0:
            return b""
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        if getattr(self.library, f"nvrtcGet{what}")(program, buffer) != 0:
            return b""
        return buffer.raw[: size.value]


def read_report(log: str) -> tuple[int, int, int]:
    """(registers, stack bytes, spill bytes) by ptxas -v; CompileError where it does not say."""
    used = re.search(r"Used (\d+) registers", log)
    spills = re.search(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log
    )
    if used is None or spills is None:
        raise CompileError("the compiler reports neither registers nor spills")
    return int(used[1]), int(spills[1]), int(spills[2]) + int(spills[3])


# ---- Argument structs ---------------------------------------------------------------------------


class ScoreArgs(ctypes.Structure):
    """attnpress_score_args"""

    _fields_ = [
        *(
            (name, c_void_p)
            for name in ("bias", "alibi_slopes", "sinks", "dropout_seed_and_offset")
        ),
        *(
            (f"{name}_stride", c_int64)
            for name in (
                "bias_batch", "bias_head", "bias_row", "bias_key", "alibi_batch", "alibi_head",
                "sinks",
            )
        ),
        ("dropout_seed", c_uint64),
        ("dropout_offset", c_uint64),
        ("sinks_dtype", c_int32),
        ("bias_alignment", c_int32),
        ("units_per_natural", c_float),
        ("softcap_scale", c_float),
        ("dropout_threshold", c_uint32),
        ("dropout_scale", c_float),
        *((f"window_{name}", c_int32) for name in ("center", "left", "right", "chunk")),
        ("reserved", c_int32 * 2),
    ]  # fmt: skip


class ForwardArgs(ctypes.Structure):
    """attnpress_fwd_args"""

    _fields_ = [
        *((name, c_void_p) for name in ("q", "k", "v", "out", "lse", "out_partial", "lse_partial")),
        *(
            (f"{tensor}_{dim}_stride", c_int64)
            for tensor in ("q", "k", "v", "out")
            for dim in ("batch", "row", "head")
        ),
        ("lse_batch_stride", c_int64),
        ("lse_head_stride", c_int64),
        *(
            (name, c_int32)
            for name in (
                "batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k",
                "heads_per_tile", "row_blocks", "num_splits", "key_blocks_per_split",
            )
        ),
        ("scale", c_float),
        ("scale_log2", c_float),
        ("whole_row_blocks", c_int32),
        ("score", ScoreArgs),
    ]  # fmt: skip


class TensorMap(ctypes.Structure):
    """attnpress_tensor_map, the driver's CUtensorMap, except for its alignment"""

    _fields_ = [("words", c_uint64 * 16)]


class Divisor(ctypes.Structure):
    """attnpress_divisor: n / value = n * multiplier >> shift for n from 0 to 2^31 - 1"""

    _fields_ = [("value", c_int32), ("multiplier", c_uint32), ("shift", c_uint32)]

    @classmethod
    def of(cls, value: int) -> Divisor:
        shift = 31 + (value - 1).bit_length()
        return cls(value, _ceil_div(1 << shift, value), shift)


class ForwardSm90Args(ctypes.Structure):
    """attnpress_fwd_sm90_args"""

    _fields_ = [
        *((name, TensorMap) for name in ("q", "k", "v")),
        ("fwd", ForwardArgs),
        *(
            (name, Divisor)
            for name in (
                "section_heads", "section_units", "group_rounds", "num_splits", "tile_heads",
                "heads_per_tile",
            )
        ),
        *((name, c_int32) for name in ("heads", "group_units", "rounds", "warpgroup_positions")),
        ("reserved", c_int32 * 14),
    ]  # fmt: skip


class CombineArgs(ctypes.Structure):
    """attnpress_fwd_combine_args"""

    _fields_ = [
        *((name, c_void_p) for name in ("out_partial", "lse_partial", "out", "lse", "sinks")),
        *((f"out_{dim}_stride", c_int64) for dim in ("batch", "row", "head")),
        ("lse_batch_stride", c_int64),
        ("lse_head_stride", c_int64),
        ("sinks_stride", c_int64),
        ("rows", c_int64),
        *((name, c_int32) for name in ("heads_q", "seqlen_q", "num_splits", "sinks_dtype")),
        ("block_rows", c_int32),
        ("whole_rows", c_int32),
    ]


# ---- The driver ---------------------------------------------------------------------------------


_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # CUfunction_attribute
_TENSOR_MAP_DATA_TYPE = {"fp16": 6, "bf16": 9}  # CUtensorMapDataType
_TENSOR_MAP_SWIZZLE_128B, _TENSOR_MAP_L2_PROMOTION_128B = 3, 2
_TENSOR_MAP_ALIGNMENT = 64
LOG2_E = 1.4426950408889634


# CUlaunchAttributeID
_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4
_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute"""

    _fields_ = [
        ("id", c_int32),
        ("padding", c_int32),
        ("value", c_uint32 * 3),
        ("rest", c_uint32 * 13),
    ]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig"""

    _fields_ = [
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared_bytes", c_uint32),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("attribute_count", c_uint32),
    ]


class Driver:
    """libcuda, through which cubins are loaded into PyTorch's context."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise BenchError(f"the CUDA driver is not there: {error}") from None

    def check(self, status: int, what: str) -> None:
        if status != 0:
            text = c_char_p()
            self.library.cuGetErrorString(status, ctypes.byref(text))
            reason = text.value.decode() if text.value else "unknown"
            raise RuntimeError(f"{what}: {reason} ({status})")

    def encode(self, view: TensorView, dtype: str) -> TensorMap:
        """The tensor map of a view, boxes in the 128-byte swizzle, zeros past its ends."""
        rank = len(view.extents)
        buffer = ctypes.create_string_buffer(ctypes.sizeof(TensorMap) + _TENSOR_MAP_ALIGNMENT)
        at = -ctypes.addressof(buffer) % _TENSOR_MAP_ALIGNMENT
        status = self.library.cuTensorMapEncodeTiled(
            ctypes.byref(buffer, at),
            _TENSOR_MAP_DATA_TYPE[dtype],
            c_uint32(rank),
            c_void_p(view.data),
            (c_uint64 * rank)(*view.extents),
            (c_uint64 * (rank - 1))(*view.strides_bytes),
            (c_uint32 * rank)(*view.box),
            (c_uint32 * rank)(*[1] * rank),
            0,  # not interleaved
            _TENSOR_MAP_SWIZZLE_128B,
            _TENSOR_MAP_L2_PROMOTION_128B,
            0,  # zeros, not NaN, past the ends
        )
        self.check(status, "cuTensorMapEncodeTiled")
        return TensorMap.from_buffer_copy(buffer, at)

    def load(self, stem: str, cubin: bytes, smem_bytes: int) -> LoadedKernel:
        module, function = c_void_p(), c_void_p()
        self.check(self.library.cuModuleLoadData(ctypes.byref(module), cubin), f"loading {stem}")
        self.check(
            self.library.cuModuleGetFunction(ctypes.byref(function), module, stem.encode()),
            f"finding {stem}",
        )
        kernel = LoadedKernel(self, stem, module, function, smem_bytes)
        if smem_bytes > 0:
            self.check(
                self.library.cuFuncSetAttribute(
                    function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, smem_bytes
                ),
                f"{smem_bytes} bytes of shared memory for {stem}",
            )
        return kernel


class Device:
    """The current CUDA device of PyTorch, for kernels that are loaded beside the library."""

    def __init__(self) -> None:
        import torch

        self.torch, self.driver = torch, Driver()
        torch.zeros(1, device="cuda")  # makes the context
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.name, self.sms = properties.name, properties.multi_processor_count
        self.target = f"sm_{properties.major}{properties.minor}"
        self.stream = torch.cuda.current_stream().cuda_stream


@dataclass
class LoadedKernel:
    driver: Driver
    stem: str
    module: c_void_p
    function: c_void_p
    smem_bytes: int

    def launch(
        self,
        blocks: int,
        threads: int,
        args: ctypes.Structure,
        stream: int,
        cluster: int = 1,
        overlaps: bool = False,
    ) -> None:
        """blocks: in clusters of so many. overlaps: the kernel itself waits for the one before."""
        parameters = (c_void_p * 1)(ctypes.addressof(args))
        values = []
        if cluster > 1:
            values.append((_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 0, (cluster, 1, 1)))
        if overlaps:
            values.append((_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 0, (1, 0, 0)))
        attributes = (LaunchAttribute * 2)(*(LaunchAttribute(*value) for value in values))
        config = LaunchConfig(
            (blocks, 1, 1), (threads, 1, 1), self.smem_bytes, stream, attributes, len(values)
        )
        status = self.driver.library.cuLaunchKernelEx(
            ctypes.byref(config), self.function, parameters, None
        )
        self.driver.check(status, f"launching {self.stem}")

    def blocks_per_sm(self, threads: int) -> int:
        """How many of its blocks an SM holds."""
        count = c_int()
        status = self.driver.library.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(count), self.function, threads, c_size_t(self.smem_bytes)
        )
        self.driver.check(status, f"occupancy of {self.stem}")
        return count.value

    def unload(self) -> None:
        self.driver.library.cuModuleUnload(self.module)


# ---- Tensor maps and units of work, of sm90 -----------------------------------------------------


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class TensorView:
    """A tensor of 16-bit elements as the driver wants it: the fastest dimension, which is
    contiguous, first. The strides are those of the others."""

    data: int  # address
    extents: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]


SLAB_COLUMNS = 64  # of a box
WARPGROUP_ROWS = 64
L2_BYTES = 32 << 20  # what the heads of a causal section may take of the L2 cache


def view_queries(q: Any) -> TensorView:
    """(batch, seqlen, heads, head dim) of such a tensor: no heads share a tile."""
    batch, seqlen, heads, hdim = q.shape
    strides = (q.stride(2), q.stride(1), q.stride(0))
    return TensorView(
        q.data_ptr(),
        (hdim, heads, seqlen, batch),
        tuple(2 * stride for stride in strides),
        (SLAB_COLUMNS, 1, WARPGROUP_ROWS, 1),
    )


def view_keys(k: Any, block_n: int) -> TensorView:
    """(batch, heads, seqlen, head dim) of a (batch, seqlen, heads, head dim) tensor."""
    batch, seqlen, heads, hdim = k.shape
    strides = (k.stride(1), k.stride(2), k.stride(0))
    return TensorView(
        k.data_ptr(),
        (hdim, seqlen, heads, batch),
        tuple(2 * stride for stride in strides),
        (SLAB_COLUMNS, block_n, 1, 1),
    )


def deal_units(args: ForwardSm90Args, causal: bool, key_head_bytes: int, sm_count: int) -> int:
    """Fills all but the tensor maps from `fwd`, and returns the grid, at most `sm_count`: an order
    that comes out about as even as that of runtime/attention/schedule.c. `key_head_bytes`: of K and
    V of one head."""
    fwd = args.fwd
    tile_heads = fwd.heads_q // fwd.heads_per_tile
    heads = fwd.batch * tile_heads * fwd.num_splits
    units = heads * fwd.row_blocks
    grid = min(units, sm_count)
    sharing = tile_heads // fwd.heads_kv * fwd.num_splits  # that read the same keys
    groups = 1
    if causal:
        section_heads = _causal_section(
            heads, fwd.row_blocks, grid, max(1, L2_BYTES // key_head_bytes) * sharing
        )
        args.group_units = section_heads * fwd.row_blocks
        groups = _ceil_div(heads, section_heads)
    else:
        section_heads = sharing
        args.group_units = units
    group_rounds = _ceil_div(args.group_units, grid)
    args.section_heads = Divisor.of(section_heads)
    args.section_units = Divisor.of(section_heads * fwd.row_blocks)
    args.group_rounds = Divisor.of(group_rounds)
    args.num_splits = Divisor.of(fwd.num_splits)
    args.tile_heads = Divisor.of(tile_heads)
    args.heads_per_tile = Divisor.of(fwd.heads_per_tile)
    args.heads = heads
    args.rounds = groups * group_rounds
    args.warpgroup_positions = WARPGROUP_ROWS // fwd.heads_per_tile
    return grid


def _causal_section(heads: int, row_blocks: int, grid: int, heads_in_l2: int) -> int:
    """Heads of a section: pairs of rounds, as the units of a round are long where those of the
    next are short."""
    if heads <= heads_in_l2:
        return heads
    rounds = max(2, (heads_in_l2 * row_blocks + grid) // (2 * grid) * 2)
    some = max(1, rounds * grid // row_blocks)
    return _ceil_div(heads, _ceil_div(heads, some))


# ---- A call -------------------------------------------------------------------------------------


class Attention:
    """The forward pass by one kernel with one tile, as the library would launch it."""

    def __init__(
        self,
        variant: Variant,
        tile: Tile,
        kernel: LoadedKernel,
        combine: tuple[LoadedKernel, Tile] | None,
    ) -> None:
        self.variant, self.tile, self.kernel, self.combine = variant, tile, kernel, combine

    def heads_per_tile(self, seqlen_q: int, group: int) -> int:
        """A group's heads share a tile in the decode kernels, else none do."""
        fits = seqlen_q * group <= self.tile.block_m
        return group if self.variant.decode and fits else 1

    def tile_rows(self, seqlen_q: int, group: int) -> int:
        """Row blocks of one key head's group."""
        heads = self.heads_per_tile(seqlen_q, group)
        return _ceil_div(seqlen_q * heads, self.tile.block_m) * (group // heads)

    def call(self, q: Any, k: Any, v: Any, num_splits: int = 1, lse: Any = None) -> Any:
        """out of (batch, seqlen, heads, head dim) tensors of PyTorch."""
        import torch

        batch, seqlen_q, heads_q, hdim = q.shape
        seqlen_k, heads_kv, hdim_v = k.shape[1], k.shape[2], v.shape[3]
        stream = torch.cuda.current_stream().cuda_stream
        out = torch.empty(batch, seqlen_q, heads_q, hdim_v, device=q.device, dtype=q.dtype)
        args = ForwardArgs()
        for name, tensor in (("q", q), ("k", k), ("v", v), ("out", out)):
            setattr(args, name, tensor.data_ptr())
            for dim, index in (("batch", 0), ("row", 1), ("head", 2)):
                setattr(args, f"{name}_{dim}_stride", tensor.stride(index))
        args.lse = None if lse is None else lse.data_ptr()
        args.lse_batch_stride, args.lse_head_stride = heads_q * seqlen_q, seqlen_q
        args.batch, args.heads_q, args.heads_kv = batch, heads_q, heads_kv
        args.seqlen_q, args.seqlen_k = seqlen_q, seqlen_k
        args.heads_per_tile = self.heads_per_tile(seqlen_q, heads_q // heads_kv)
        args.row_blocks = _ceil_div(seqlen_q * args.heads_per_tile, self.tile.block_m)
        args.num_splits = num_splits
        args.key_blocks_per_split = _ceil_div(_ceil_div(seqlen_k, self.tile.block_n), num_splits)
        args.scale = hdim**-0.5
        args.scale_log2 = args.scale * LOG2_E
        args.score.units_per_natural, args.score.dropout_scale = 1 / args.scale, 1.0
        args.score.window_left = args.score.window_right = 2**31 - 1
        rows = batch * heads_q * seqlen_q
        if self.variant.split:
            device = {"device": q.device, "dtype": torch.float32}
            out_partial = torch.empty(num_splits * rows * hdim_v, **device)
            lse_partial = torch.empty(num_splits * rows, **device)
            args.out_partial, args.lse_partial = out_partial.data_ptr(), lse_partial.data_ptr()
        if self.tile.producer:
            self._launch_sm90(args, (q, k, v), stream)
        else:
            blocks = args.row_blocks * num_splits * (heads_q // args.heads_per_tile) * batch
            self.kernel.launch(blocks, self.tile.threads, args, stream)
        if self.variant.split:
            self._combine(args, rows, stream)
        return out

    def _launch_sm90(self, forward: ForwardArgs, qkv: tuple[Any, Any, Any], stream: int) -> None:
        import torch

        q, k, v = qkv
        args = ForwardSm90Args(fwd=forward)
        key_head_bytes = 2 * max(1, k.shape[1]) * (k.shape[3] + v.shape[3])
        sm_count = torch.cuda.get_device_properties(q.device).multi_processor_count
        causal = self.variant.mask == "causal"
        cluster = self.tile.block_m // (16 * self.tile.warps_m)
        grid = deal_units(args, causal, key_head_bytes, sm_count // cluster)
        encode, dtype = self.kernel.driver.encode, self.variant.dtype
        args.q = encode(view_queries(q), dtype)
        args.k = encode(view_keys(k, self.tile.block_n // cluster), dtype)
        args.v = encode(view_keys(v, self.tile.block_n // cluster), dtype)
        self.kernel.launch(grid * cluster, self.tile.threads, args, stream, cluster)

    def _combine(self, forward: ForwardArgs, rows: int, stream: int) -> None:
        assert self.combine is not None
        kernel, tile = self.combine
        args = CombineArgs()
        for name in (
            "out_partial", "lse_partial", "out", "lse", "out_batch_stride", "out_row_stride",
            "out_head_stride", "lse_batch_stride", "lse_head_stride", "heads_q", "seqlen_q",
            "num_splits",
        ):  # fmt: skip
            setattr(args, name, getattr(forward, name))
        args.rows = rows
        args.block_rows = 1
        blocks = _ceil_div(rows, args.block_rows) * _ceil_div(self.variant.hdim_v, tile.block_n)
        kernel.launch(blocks, tile.threads, args, stream)
