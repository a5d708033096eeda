"""Calls that take turns on the GPU, timed by device events. Needs PyTorch."""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

NO_DEVICE = "there is no CUDA device that this PyTorch can use"


def device_name() -> str:
    """The current CUDA device's; the program ends with a sentence where there is none."""
    if not torch.cuda.is_available():
        raise SystemExit(f"{Path(sys.argv[0]).name}: {NO_DEVICE}")
    return torch.cuda.get_device_name()


def medians(
    contenders: Mapping[str, Sequence[Callable[[], object]]], launches: int, rounds: int
) -> dict[str, float]:
    """Microseconds of a call of each: contenders' values are a call for each set of buffers, and
    `launches` calls in a row, over all sets in turn, are timed in each round. Contenders take turns
    in a new random order each round, since the first of a round finds a cooler chip."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for calls in contenders.values():
        for call in calls:
            call()
    order = list(contenders.items())
    for _ in range(rounds):
        events = []
        random.shuffle(order)
        for name, calls in order:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            calls[-1]()
            begin.record()
            for i in range(launches):
                calls[i % len(calls)]()
            end.record()
            events.append((name, begin, end))
        torch.cuda.synchronize()
        for name, begin, end in events:
            times[name].append(begin.elapsed_time(end) / launches * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}


def copy_rate() -> float:
    """TB/s that a copy of 2 GiB reads and writes."""
    source = torch.zeros(2 << 30, device="cuda", dtype=torch.int8)
    target = torch.empty_like(source)
    times = medians({"copy": [lambda: target.copy_(source)]}, 5, 5)
    return 2 * (2 << 30) / times["copy"] * 1e-6


def graph_of(calls: Sequence[Callable[[], object]], launches: int) -> Callable[[], object]:
    """The replay of a CUDA graph of `launches` calls in a row, over all sets in turn."""
    # Inputs may still be made, of temporaries where outputs lie now: another stream does not wait.
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):  # what is compiled on first use is so before
        for call in calls:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(launches):
            calls[i % len(calls)]()
    return graph.replay


def graph_medians(
    contenders: Mapping[str, Sequence[Callable[[], object]]],
    launches: int,
    rounds: int,
    eager: Sequence[str] = (),
) -> dict[str, float]:
    """medians() of calls that a graph replays: what the host takes for a call is not in it. Those
    of `eager` are called. Copies are: some sizes a graph copies at two thirds of the rate."""

    def in_turn(calls: Sequence[Callable[[], object]]) -> Callable[[], object]:
        return lambda: [calls[i % len(calls)]() for i in range(launches)]

    ready = {
        name: [in_turn(calls) if name in eager else graph_of(calls, launches)]
        for name, calls in contenders.items()
    }
    return {name: time / launches for name, time in medians(ready, 1, rounds).items()}
