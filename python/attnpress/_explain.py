"""attnpress.explain: what `attnpress explain` says of a call, for the tensors of that call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._attention import _adapter_of, _request_of, _sinks_of, forward
from ._scores import Request
from ._tool import run_tool


@dataclass(frozen=True)
class ExplainedLaunch:
    """A kernel, and how it fills the device."""

    stem: str
    tile: str
    target: str  # what the cubin is compiled for
    origin: str  # where it is now: prebuilt, cache, or jit, where it would be compiled
    grid: int  # thread blocks
    threads: int  # of a thread block
    smem_bytes: int  # of a thread block
    registers: int  # of a thread; 0: not known before it is compiled
    num_splits: int
    blocks_per_sm: int  # that an SM holds at once
    limited_by: str  # what keeps it from more
    waves: float  # thread blocks by those that the device holds at once
    last_wave: float  # how full the last of them is, 0 to 1


@dataclass(frozen=True)
class Alternative:
    """What would run with something changed, and why it does not."""

    reason: str
    launch: ExplainedLaunch  # the first


@dataclass(frozen=True)
class Explanation:
    """Why a call runs what it runs, and what bounds it. As a text: what the tool prints."""

    target: str  # the device
    launches: tuple[ExplainedLaunch, ...]
    why: tuple[str, ...]
    alternatives: tuple[Alternative, ...]
    workspace_bytes: int
    flops: float  # in products
    bytes: float  # read and written at least
    tflops: float  # of the device: 0 where not known
    gb_s: float  # of its memory: 0 where not known
    text: str
    measured_us: float | None = None  # the median of the call, where that was asked for

    @property
    def bound_us(self) -> float | None:
        """The time that neither products nor memory allow to be less, in microseconds; None where
        the device's numbers are not known."""
        if not (self.tflops and self.gb_s):
            return None
        return max(self.flops / self.tflops * 1e-6, self.bytes / self.gb_s * 1e-3)

    @property
    def bound_by(self) -> str | None:
        """ "products" or "memory"."""
        if self.bound_us is None:
            return None
        products = self.flops / self.tflops * 1e-6
        return "products" if products > self.bytes / self.gb_s * 1e-3 else "memory"

    def __str__(self) -> str:
        if self.measured_us is None:
            return self.text
        share = f", {self.bound_us / self.measured_us:.0%} of the bound" if self.bound_us else ""
        return f"{self.text}measured {self.measured_us:.2f} us{share}\n"


def _launch(found: dict[str, Any]) -> ExplainedLaunch:
    fields = ExplainedLaunch.__dataclass_fields__
    return ExplainedLaunch(origin=found["from"], **{n: found[n] for n in fields if n in found})


_DTYPES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}


def _dtype_word(name: str, value: Any) -> str:
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in _DTYPES:
        raise ValueError(f"{name} is {dtype}; it must be one of {', '.join(_DTYPES)}")
    return _DTYPES[dtype]


def _words(q: Any, k: Any, v: Any, causal: bool, request: Request | None) -> list[str]:
    """A call as the tool's options."""
    for name, value in (("q", q), ("k", k), ("v", v)):
        if len(value.shape) != 4:
            raise ValueError(
                f"{name} has {len(value.shape)} dimensions; (batch, seqlen, heads, head_dim) is "
                "needed"
            )
    dtype = _dtype_word("q", q)
    if dtype == "fp32":
        raise ValueError("q is float32; kernels for GPUs are of float16 and bfloat16")
    numbers = {
        "batch": q.shape[0], "seqlen-q": q.shape[1], "seqlen-k": k.shape[1], "heads": q.shape[2],
        "kv-heads": k.shape[2], "hdim": q.shape[3], "hdim-v": v.shape[3],
    }  # fmt: skip
    words = [f"--{name}={int(number)}" for name, number in numbers.items()]
    words.append(f"--dtype={dtype}")
    if causal:
        words.append("--causal")
    if request is None:
        return words
    if request.window is not None:
        left, right, chunk, top_left = request.window
        words.append(f"--window={left},{right}")
        if chunk:
            words.append(f"--chunk={chunk}")
        if top_left:
            words.append("--top-left")
    if request.softcap:
        words.append(f"--softcap={request.softcap!r}")
    if request.alibi_slopes is not None:
        words.append("--alibi")
    if request.bias is not None:
        words.append(f"--bias={_dtype_word('bias', request.bias)}")
    if request.sinks is not None:
        words.append("--sinks")
    if request.dropout_p:
        words.append(f"--dropout={request.dropout_p!r}")
    return words


def _told(words: list[str]) -> str:
    """What the tool prints; its ValueErrors have the arguments' names, not the options'."""
    try:
        return run_tool("explain", *words)
    except ValueError as error:
        sentence = re.sub(r"--([a-z-]+)", lambda m: m[1].replace("-", "_"), str(error))
        raise ValueError(sentence) from None


def _measure(call: Callable[[], Any], q: Any) -> float:
    """The median time of a call on the device, in microseconds, by the device's own clock."""
    if not getattr(q, "is_cuda", False):
        raise ValueError("measure is of PyTorch tensors on a GPU")
    import torch

    with torch.cuda.device(q.device):
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(20)]
        call()  # loads the kernels
        for begin, end in events:
            begin.record()
            call()
            end.record()
        torch.cuda.synchronize()
    times: list[float] = sorted(begin.elapsed_time(end) for begin, end in events)
    return 1e3 * times[len(times) // 2]


def explain(
    q: Any,
    k: Any,
    v: Any,
    softmax_scale: float | None = None,
    causal: bool = False,
    *,
    target: str | None = None,
    backward: bool = False,
    deterministic: bool = False,
    num_splits: int = 0,
    ragged: bool = False,
    page_size: int = 0,
    ready_schedule: bool = False,
    batch_invariant: bool = False,
    tflops: float | None = None,
    gb_s: float | None = None,
    measure: bool = False,
    **features: Any,
) -> Explanation:
    """Which kernels flash_attn_func launches on a GPU for such tensors, why these and not others,
    how they fill the device, and the time that neither products nor memory allow to be less.

    q, k, v: fp16 or bf16 as in flash_attn_func(), NumPy arrays too. The data is not read.
    target: the device, such as sm_90, which need not be there. None: the first GPU.
    backward: of the gradients instead; deterministic: of such whose bits are always the same.
    num_splits: parts that the keys are split into; 0: the library chooses.
    ragged: of sequences of different lengths, as in flash_attn_varlen_func: the tensors' batch is
        their number, and their seqlen the longest.
    page_size: the same with k and v in pages of so many rows, as in flash_attn_with_kvcache.
    ready_schedule: of such calls that find their schedule ready.
    batch_invariant: rows have the same bits whatever else is in the call.
    tflops, gb_s: products and memory of the device; None: those of a data sheet, where known.
    measure: runs the forward call too, on a GPU, and adds its time.
    features: further arguments of flash_attn_func and forward, by their names.

    Raises ValueError and TypeError for what is not allowed, FileNotFoundError where the tool is not
    installed beside the library, and RuntimeError where it fails."""
    _adapter_of(q)
    known = {
        "window_size": (-1, -1), "softcap": 0.0, "alibi_slopes": None, "bias": None,
        "dropout_p": 0.0, "seed": (0, 0), "chunk": 0, "top_left": False, "sinks": None,
        "s_aux": None,
    }  # fmt: skip
    for name in features:
        if name not in known:
            raise TypeError(f"{name} is not an argument; {', '.join(known)} are")
    asked = {**known, **features}
    asked["sinks"] = _sinks_of(asked.pop("s_aux"), asked["sinks"])
    is_causal, request = _request_of(causal=causal, **asked)
    words = _words(q, k, v, is_causal, request)
    flags = {
        "backward": backward, "deterministic": deterministic, "ragged": ragged,
        "ready-schedule": ready_schedule, "batch-invariant": batch_invariant,
    }  # fmt: skip
    words += [f"--{option}" for option, wanted in flags.items() if wanted]
    values = {
        "target": target, "tflops": tflops, "gb-s": gb_s,
        "num-splits": num_splits or None, "page-size": page_size or None,
    }  # fmt: skip
    words += [f"--{option}={value}" for option, value in values.items() if value is not None]
    found = json.loads(_told([*words, "--json"]))
    measured = None
    if measure:
        others = [option for option, wanted in flags.items() if wanted]
        others += [option for option in ("num-splits", "page-size") if values[option]]
        if others:
            raise ValueError(
                "measure is of a forward call of dense batches as the library chooses; "
                f"{', '.join(others).replace('-', '_')} was asked for"
            )
        measured = _measure(
            lambda: forward(q, k, v, softmax_scale=softmax_scale, causal=causal, **asked), q
        )
    return Explanation(
        target=found["target"],
        launches=tuple(_launch(launch) for launch in found["launches"]),
        why=tuple(found["why"]),
        alternatives=tuple(
            Alternative(reason=other["reason"], launch=_launch(other))
            for other in found["alternatives"]
        ),
        workspace_bytes=found["workspace_bytes"],
        flops=found["flops"],
        bytes=found["bytes"],
        tflops=found["tflops"],
        gb_s=found["gb_s"],
        text=_told(words),
        measured_us=measured,
    )
