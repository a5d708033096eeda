"""Calls that take turns on the GPU, timed by device events. Needs PyTorch."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

import torch


def medians(
    contenders: Mapping[str, Sequence[Callable[[], object]]], launches: int, rounds: int
) -> dict[str, float]:
    """Microseconds of a call of each: contenders' values are a call for each set of buffers, and
    `launches` calls in a row, over all sets in turn, are timed in each round."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for calls in contenders.values():
        for call in calls:
            call()
    for _ in range(rounds):
        events = []
        for name, calls in contenders.items():
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
