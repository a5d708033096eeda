"""`make demo`: presses and compiles two head dims that are not linked into the library, runs them,
on the GPU if there is one and on the CPU otherwise, and prints what happened as a table.

It only calls the generator and the tool, the way a user would; every command is shown. The cubins
go to a cache folder inside the build folder, which is emptied first, so that the times are real.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD_DIMS = (40, 72)
SHAPES = {  # batch, sequence length, heads
    "cuda": (4, 4096, 16),
    "cpu": (1, 1024, 8),
}


def run(command: list[str]) -> str:
    """The command's output. Ends the demo, with the command's own words, where it fails."""
    words = [os.path.relpath(word) if word.startswith(str(ROOT)) else word for word in command]
    print("$", " ".join(words), flush=True)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}demo: this command failed: {' '.join(command)}")
    return done.stdout


def find(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of a pattern that must be there."""
    match = re.search(pattern, text, flags=re.MULTILINE)
    if match is None:
        sys.exit(f"demo: no {pattern!r} in\n{text}")
    return match.groups()


@dataclass(frozen=True)
class Machine:
    """Where the kernels run, and what they are compiled for."""

    device: str  # cuda or cpu
    arch: str  # of the stems, 80, 86 or 90
    target: str  # such as sm_90a


def look_at_machine(tool: str) -> Machine:
    """The first GPU; without one, kernels are compiled for an H100 all the same."""
    # Its status says whether something is missing, such as a GPU.
    command = [tool, "doctor", "--no-launch"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found = re.search(r"runs sm(\d+) kernels compiled for (sm_\w+)", out)
    return Machine("cuda", found[1], found[2]) if found else Machine("cpu", "90", "sm_90a")


@dataclass
class Column:
    """What the table says of one head dim, by row title."""

    cells: dict[str, str] = field(default_factory=dict)


def press(tool: str, stem: str, hdim: int, arch: str, folder: Path, column: Column) -> None:
    """Expands the template twice, with Jinja2 and with the library's C code, and compares."""
    command = [sys.executable, "-m", "generator", "--hdim", str(hdim), "--dtype", "bf16"]
    run([*command, "--causal", "--arch", f"sm{arch}", "--out", str(folder)])
    by_generator = (folder / f"{stem}.cu").read_text()
    same = by_generator == run([tool, "source", stem])
    column.cells["source"] = f"{len(by_generator.splitlines())} lines of CUDA C"
    column.cells["generator and library agree"] = "yes, byte for byte" if same else "NO"
    if not same:
        sys.exit(f"demo: the generator's {stem}.cu differs from `attnpress source {stem}`")


def compile_kernel(tool: str, stem: str, target: str, cache: Path, column: Column) -> None:
    """Compiles with NVRTC, then asks again: now it comes from the cache."""
    command = [tool, "compile", stem, "--target", target, "--cache-dir", str(cache)]
    row = rf"^{stem} +{target} +(\S+) +(\S+) +(\d+) +(\S+) +(\S+)$"
    origin, ms, size, registers, spills = find(row, run(command))
    column.cells[f"compiled for {target}"] = f"{float(ms):.0f} ms ({origin})"
    column.cells["cubin"] = f"{int(size) / 1024:.0f} KB"
    column.cells["registers, spilled bytes"] = f"{registers}, {spills}"
    origin, ms, *_ = find(row, run(command))
    column.cells["asked for again"] = f"{float(ms):.1f} ms ({origin})"


def run_kernel(tool: str, stem: str, hdim: int, device: str, column: Column) -> None:
    """Runs on random inputs and checks against float64."""
    batch, seqlen, heads = SHAPES[device]
    command = [tool, "run", "--device", device, "--hdim", str(hdim), "--dtype", "bf16", "--causal"]
    command += ["--batch", str(batch), "--seqlen-q", str(seqlen), "--heads", str(heads)]
    text = run(command)
    (name,) = find(r"^device +(.+)$", text)
    (kernel,) = find(r"^kernel +([^\s,]+)", text)
    if device == "cuda" and kernel != stem:
        sys.exit(f"demo: {kernel} ran, and not {stem}")
    column.cells["ran on"] = name.partition(", compute")[0]
    time_ms, tflops = find(r"^time +(\S+) ms.*; (\S+) TFLOP/s", text)
    column.cells["time"] = f"{float(time_ms):.3f} ms"
    unit = "TFLOP/s" if float(tflops) >= 1 else "GFLOP/s"
    column.cells["speed"] = f"{float(tflops) * (1 if unit[0] == 'T' else 1000):.0f} {unit}"
    error, bound = find(r"^error +out (\S+), bound ([^;]+);", text)
    column.cells["largest error"] = f"{float(error):.5f}"
    column.cells["allowed"] = f"{float(bound):.5f}"
    column.cells["result"] = (
        "correct" if find(r"^check +(held|DID NOT HOLD)", text)[0] == "held" else "WRONG"
    )


def print_table(columns: list[Column]) -> None:
    titles = list(columns[0].cells)
    heads = ["", *(f"head dim {hdim}" for hdim in HEAD_DIMS)]
    rows = [heads, *([title, *(c.cells[title] for c in columns)] for title in titles)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    print("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder")
    build = parser.parse_args().build.resolve()
    tool = str(build / "attnpress")
    folder = build / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    cache = folder / "cache"
    cache.mkdir(parents=True, mode=0o700)
    os.environ["ATTNPRESS_CACHE_DIR"] = str(cache)

    began = time.monotonic()
    machine = look_at_machine(tool)
    columns = []
    for hdim in HEAD_DIMS:
        column = Column()
        stem = f"flash_fwd_hdim{hdim}_bf16_causal_sm{machine.arch}"
        press(tool, stem, hdim, machine.arch, folder / "pressed", column)
        compile_kernel(tool, stem, machine.target, cache, column)
        run_kernel(tool, stem, hdim, machine.device, column)
        columns.append(column)

    batch, seqlen, heads = SHAPES[machine.device]
    print("\nCausal attention in bf16 with two head dims that are not linked into the library.")
    print(f"Shape: batch {batch}, {seqlen} queries and keys, {heads} heads.\n")
    print_table(columns)
    if machine.device == "cpu":
        print(
            f"\nThere is no GPU here: the kernels were compiled for {machine.target}, and the CPU"
            "\nran the same attention with its own code. With a GPU, the compiled kernels run."
        )
    print(f"\nThe sources are in {os.path.relpath(folder / 'pressed')}/, the cubins in", end=" ")
    print(f"{os.path.relpath(cache)}/. All of this took {time.monotonic() - began:.1f} s.")
    print("Next: the examples in README.md, or `make test`.")


if __name__ == "__main__":
    main()
