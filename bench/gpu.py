"""The GPU's side of the benchmark: inputs, checks, timing, and what machine it is.

Everything here needs PyTorch and a CUDA device. compare.py asks a Gpu for all of it, so that a test
can put something simpler in its place.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import math
import platform
import random
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from bench import BenchError
from bench.cases import Case
from bench.timing import NO_DEVICE, graph_of

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Gpu:
    """The current CUDA device."""

    def __init__(self, seed: int = 0, layout: str = "bshd") -> None:
        if not torch.cuda.is_available():
            raise BenchError(NO_DEVICE)
        torch.backends.cuda.matmul.allow_tf32 = False  # the references are float32 and float64
        self.properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.random = random.Random(seed)
        self.layout = layout
        torch.manual_seed(seed)
        torch.zeros(1, device="cuda")  # makes the context

    # ---- Inputs ---------------------------------------------------------------------------------

    def _tensor(self, shape: Sequence[int], dtype: str) -> torch.Tensor:
        """Random, (batch, seqlen, heads, head dim), in memory as the layout says."""
        batch, seqlen, heads, hdim = shape
        memory = (batch, seqlen, heads, hdim)
        if self.layout == "bhsd":
            memory = (batch, heads, seqlen, hdim)
        tensor = torch.randn(memory, device="cuda", dtype=DTYPES[dtype])
        return tensor.transpose(1, 2) if self.layout == "bhsd" else tensor

    def inputs(self, case: Case, sets: int = 1) -> list[Tensors]:
        """Sets of q, k, v."""
        return [
            (
                self._tensor((case.batch, case.seqlen_q, case.heads_q, case.hdim), case.dtype),
                self._tensor((case.batch, case.seqlen_k, case.heads_kv, case.hdim), case.dtype),
                self._tensor((case.batch, case.seqlen_k, case.heads_kv, case.hdim_v), case.dtype),
            )
            for _ in range(sets)
        ]

    def sets_past_cache(self, case: Case) -> int:
        """Sets of inputs whose keys and values together are four times the L2 cache, so that a call
        finds none of its own there; one is enough where a single set is that large."""
        return max(1, math.ceil(4 * self.properties.L2_cache_size / case.kv_bytes))

    # ---- Running and checking -------------------------------------------------------------------

    def run_once(self, call: Callable[..., Any], tensors: Tensors, case: Case) -> torch.Tensor:
        """The output of one call, waited for. The memory that the allocator will hand out for it is
        filled with NaN before, so that an element that is not written shows."""
        shape = (case.batch, case.seqlen_q, case.heads_q, case.hdim_v)
        poison = torch.full(shape, math.nan, device="cuda", dtype=DTYPES[case.dtype])
        torch.cuda.synchronize()
        del poison
        out = call(*tensors)
        torch.cuda.synchronize()
        if tuple(out.shape) != shape:
            raise RuntimeError(f"the output is {tuple(out.shape)}, not {shape}")
        return out

    def recover(self) -> None:
        """After a failure: frees what it left. Raises where the device is unusable."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def sets_to_check(self, case: Case) -> int:
        """Sets of inputs whose outputs together are enough for the criterion."""
        out_elements = case.batch * case.seqlen_q * case.heads_q * case.hdim_v
        return math.ceil(CHECK_ELEMENTS / out_elements)

    def check(
        self, case: Case, sets: list[Tensors], outs: dict[str, list[torch.Tensor]]
    ) -> dict[str, tuple[float, float]]:
        """(largest error, largest allowed) of each library's outputs, one for each set.

        The criterion of FlashAttention's tests: the error against float64 is at most twice that of
        the plain algorithm, which rounds scores, P and output to the dtype and sums in fp32, plus
        1e-5. An error that is NaN is one that no bound allows.
        """
        largest = dict.fromkeys(outs, 0.0)
        low_error = 0.0
        for index, tensors in enumerate(sets):
            of_set = {name: of_library[index] for name, of_library in outs.items()}
            errors, of_low = errors_on_rows(case, tensors, of_set, self.random)
            low_error = max(low_error, of_low)
            for name, error in errors.items():
                largest[name] = larger(largest[name], error)
        return {name: (error, 2 * low_error + CHECK_ATOL) for name, error in largest.items()}

    # ---- Timing ---------------------------------------------------------------------------------

    def time(
        self, calls: dict[str, Callable[[], Any]], rounds: int, divide: dict[str, int] | None = None
    ) -> dict[str, list[float]]:
        """Milliseconds of each call in each round, by device events. A round runs every call once,
        in an order of its own; `divide`: how many attention calls one call makes."""
        order = list(calls)
        host_ms = self._warm_up(calls)
        events = {
            name: [
                (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
                for _ in range(rounds)
            ]
            for name in calls
        }
        # The device starts when the host is done queueing: the host's time is then in no figure.
        self._hold_back(host_ms * rounds)
        for number in range(rounds):
            self.random.shuffle(order)
            for name in order:
                begin, end = events[name][number]
                begin.record()
                calls[name]()
                end.record()
        torch.cuda.synchronize()
        return {
            name: [begin.elapsed_time(end) / (divide or {}).get(name, 1) for begin, end in pairs]
            for name, pairs in events.items()
        }

    def _warm_up(self, calls: dict[str, Callable[[], Any]]) -> float:
        """Runs all calls three times and for 50 ms. Returns the host's milliseconds of a round."""
        host_ms = []
        begin = time.perf_counter()
        while len(host_ms) < 3 or time.perf_counter() - begin < 0.05:
            round_begin = time.perf_counter()
            for call in calls.values():
                call()
            host_ms.append((time.perf_counter() - round_begin) * 1e3)
            torch.cuda.synchronize()
        return statistics.median(host_ms)

    def _hold_back(self, milliseconds: float) -> None:
        sleep = getattr(torch.cuda, "_sleep", None)
        if sleep is not None:
            sleep(int(min(1.5 * milliseconds + 1.0, 50.0) * 2e6))  # cycles, at about 2 GHz

    def graph(
        self, call: Callable[..., Any], sets: list[Tensors], calls: int
    ) -> Callable[[], None]:
        """A CUDA graph of `calls` calls over the sets in turn. Returns its replay."""
        return graph_of([functools.partial(call, *tensors) for tensors in sets], calls)

    # ---- The machine ----------------------------------------------------------------------------

    def ceilings(self) -> dict[str, float]:
        """What this device reaches now: a copy of 2 GiB (bytes read plus written), and an 8192^3
        bf16 matrix product."""
        source = torch.randint(-128, 127, (2 << 30,), device="cuda", dtype=torch.int8)
        target = torch.empty_like(source)
        a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        c = torch.empty_like(a)
        times = self.time(
            {
                "copy": functools.partial(target.copy_, source),
                "matmul": functools.partial(torch.mm, a, b, out=c),
            },
            20,
        )
        return {
            "copy_gb_s": 2 * (2 << 30) / statistics.median(times["copy"]) / 1e6,
            "matmul_bf16_tflop_s": 2 * 8192**3 / statistics.median(times["matmul"]) / 1e9,
        }

    def uuid(self) -> str:
        uuid = str(getattr(self.properties, "uuid", ""))
        return uuid if uuid.startswith("GPU-") or not uuid else f"GPU-{uuid}"

    def describe(self) -> dict[str, Any]:
        """The machine, without its name or paths."""
        import attnpress

        p = self.properties
        versions = {
            "attnpress": attnpress.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
        }
        with contextlib.suppress(Exception):
            versions["cudnn"] = torch.backends.cudnn.version()
        for package in ("triton", "flash_attn_3"):
            with contextlib.suppress(Exception):
                from importlib.metadata import version

                versions[package] = version(package)
        return {
            "gpu": p.name,
            "capability": f"{p.major}.{p.minor}",
            "multiprocessors": p.multi_processor_count,
            "l2_bytes": p.L2_cache_size,
            "memory_bytes": p.total_memory,
            "driver": nvidia_smi("driver_version", self.uuid()),
            "power_limit_w": nvidia_smi("power.limit", self.uuid()),
            "versions": versions,
        }


# ---- The criterion ------------------------------------------------------------------------------

CHECK_ELEMENTS = 4096  # at least, for the maxima to mean something
CHECK_ROWS = 64  # of a head, at most
CHECK_ATOL = 1e-5


def sample_rows(seqlen: int, rng: random.Random) -> list[int]:
    """All rows of a short sequence; of a long one the first, the last and others by chance."""
    if seqlen <= CHECK_ROWS:
        return list(range(seqlen))
    return sorted({0, seqlen - 1, *rng.sample(range(1, seqlen - 1), CHECK_ROWS - 2)})


def sample_heads(case: Case, rows: int, rng: random.Random) -> list[tuple[int, int]]:
    """(batch, head) pairs, the first and the last among them, for CHECK_ELEMENTS outputs."""
    pairs = [(b, h) for b in range(case.batch) for h in range(case.heads_q)]
    count = max(8, math.ceil(CHECK_ELEMENTS / (rows * case.hdim_v)))
    if count >= len(pairs):
        return pairs
    return [pairs[0], pairs[-1], *rng.sample(pairs[1:-1], count - 2)]


def larger(a: float, b: float) -> float:
    """The larger of two errors, NaN where one is."""
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)


def errors_on_rows(
    case: Case, tensors: Tensors, outs: dict[str, torch.Tensor], rng: random.Random
) -> tuple[dict[str, float], float]:
    """On sampled rows, the largest difference from float64 of each output, and of the plain
    algorithm in the tensors' dtype."""
    q, k, v = tensors
    rows = sample_rows(case.seqlen_q, rng)
    index = torch.tensor(rows, device=q.device)
    group = case.heads_q // case.heads_kv
    scale = case.hdim**-0.5
    hidden = None
    if case.causal:
        keys = torch.arange(case.seqlen_k, device=q.device)
        hidden = keys[None, :] > index[:, None] + case.seqlen_k - case.seqlen_q
    errors = dict.fromkeys(outs, 0.0)
    low_error = 0.0
    for batch, head in sample_heads(case, len(rows), rng):
        q_rows = q[batch, index, head]
        k_all, v_all = k[batch, :, head // group], v[batch, :, head // group]
        scores = (q_rows.double() @ k_all.double().T) * scale
        low = ((q_rows.float() @ k_all.float().T) * scale).to(q.dtype).float()
        if hidden is not None:
            scores.masked_fill_(hidden, -math.inf)
            low.masked_fill_(hidden, -math.inf)
        exact = scores.softmax(-1) @ v_all.double()
        low = (low.softmax(-1).to(q.dtype).float() @ v_all.float()).to(q.dtype)
        low_error = max(low_error, (low.double() - exact).abs().max().item())
        for name, out in outs.items():
            error = (out[batch, index, head].double() - exact).abs().max().item()
            errors[name] = larger(errors[name], error)
    return errors, low_error


# ---- nvidia-smi ---------------------------------------------------------------------------------


def nvidia_smi(query: str, uuid: str = "") -> str | None:
    """One value, or None where nvidia-smi cannot say."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command + (["-i", uuid] if uuid else []), capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


_WATCHED = {
    "clocks.sm": "sm_mhz",
    "clocks.mem": "memory_mhz",
    "power.draw": "power_w",
    "temperature.gpu": "temperature_c",
    "utilization.gpu": "utilization_percent",
}


def summarize_clocks(rows: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Lowest, median and highest of what was watched, over the samples where the GPU was busy."""
    names = list(_WATCHED.values())
    busy = [row for row in rows if row[names.index("utilization_percent")] > 0]
    summary: dict[str, Any] = {"samples": len(rows), "busy_samples": len(busy)}
    for index, name in enumerate(names[:-1]):
        values = [row[index] for row in busy]
        if values:
            summary[name] = {
                "min": min(values),
                "median": statistics.median(values),
                "max": max(values),
            }
    return summary


@contextlib.contextmanager
def watch_clocks(uuid: str) -> Iterator[list[list[float]]]:
    """Samples of clocks, power and temperature twice a second while the block runs; stays empty
    where there is no nvidia-smi."""
    rows: list[list[float]] = []
    command = ["nvidia-smi", f"--query-gpu={','.join(_WATCHED)}"]
    command += ["--format=csv,noheader,nounits", "-lms", "500"] + (["-i", uuid] if uuid else [])
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        yield rows
        return

    def read() -> None:
        assert process.stdout is not None
        for fields in csv.reader(process.stdout):
            with contextlib.suppress(ValueError):
                if len(fields) == len(_WATCHED):
                    rows.append([float(field) for field in fields])

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield rows
    finally:
        process.terminate()
        process.wait()
        thread.join(timeout=5)
