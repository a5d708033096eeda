"""What cubins can be compiled for: generator/targets.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from generator import TARGETS_TOML, GeneratorError, check_keys, load_toml


@dataclass(frozen=True)
class Limits:
    """Shared memory, in bytes."""

    block_smem_bytes: int  # that a thread block may ask for
    sm_smem_bytes: int  # of an SM, for as many blocks as fit


@dataclass(frozen=True)
class Target:
    name: str
    capability: int  # the least that it runs on, times ten
    limits: Limits


@dataclass(frozen=True)
class Targets:
    """targets.toml."""

    targets: Mapping[str, Target]
    archs: Mapping[int, Limits]  # what kernels of a stem's arch may count on
    only: Mapping[int, str]  # archs whose instructions exist on one target alone


@cache
def load_targets(path: Path = TARGETS_TOML) -> Targets:
    """Reads and checks targets.toml."""
    content = load_toml(path)
    check_keys(path.name, content, {"target", "arch"})
    sizes = {"block_smem_kib", "sm_smem_kib"}
    targets, archs, only = {}, {}, {}
    for row in content["target"]:
        check_keys(f"{path.name}: [[target]]", row, {"name", "capability", *sizes})
        targets[row["name"]] = Target(row["name"], row["capability"], _limits(row))
    for row in content["arch"]:
        check_keys(f"{path.name}: [[arch]]", row, {"arch", *sizes}, {"target"})
        archs[row["arch"]] = _limits(row)
        if "target" in row:
            if row["target"] not in targets:
                raise GeneratorError(f"{path.name}: target {row['target']} is unknown")
            only[row["arch"]] = row["target"]
    return Targets(targets, archs, only)


def _limits(row: Mapping[str, int]) -> Limits:
    return Limits(1024 * row["block_smem_kib"], 1024 * row["sm_smem_kib"])
