"""Does the emulator see faults? Puts single faults (mutations.py) into templates and device
headers, and runs a few kernels of each: `python tests/emulator/mutate.py`, after a build.

Each mutated text is expanded by the generator and run by attnpress-emulate over its table of
shapes, until a kernel fails that passes without the fault. Prints what each fault was caught by,
and those that escape; exit status 1 where more than 5% of the faults that can be seen escape, a
fault no longer fits, or a kernel fails without any fault, so that it sees none."""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from mutations import MUTATIONS, Mutation

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from generator.render import environment, source  # noqa: E402
from generator.tiles import parse_tile, tile_of  # noqa: E402
from generator.variant import parse_stem  # noqa: E402

KERNELS = [
    ("flash_fwd_combine_hdim96_fp16_sm80", ""),
    ("flash_fwd_combine_hdim72_bf16_sm80", ""),
    ("flash_fwd_hdim128_bf16_decode_sm80", ""),
    ("flash_fwd_hdim64_fp16_causal_sm80", ""),
    ("flash_fwd_split_hdim72_fp16_causal_decode_sm80", ""),
    ("flash_fwd_hdim72_bf16_decode_sm80", ""),
    ("flash_fwd_hdim264_bf16_decode_sm80", ""),
    ("flash_fwd_hdim40_bf16_causal_sm86", ""),
    ("flash_fwd_split_hdim120_fp16_sm80", ""),
    ("flash_fwd_split_hdim168_bf16_causal_sm86", ""),
    ("flash_fwd_hdim176_bf16_causal_sm80", ""),
    ("flash_fwd_hdim96_fp16_sm80", ""),
    ("flash_fwd_hdim128_bf16_sm80", ""),
    ("flash_fwd_hdim64v128_bf16_causal_sm80", ""),
    ("flash_fwd_hdim64_bf16_sm80", "m128n64w4x1s2k64v64q"),
    ("flash_fwd_hdim128_bf16_causal_sm90", "m128n128s2"),
    ("flash_fwd_hdim72_fp16_causal_sm90", "m192n48s3"),
    ("flash_fwd_split_hdim40_bf16_sm90", "m64n176s2"),
    ("flash_fwd_hdim192v128_bf16_sm90", "m128n80s2"),
]
"""Kernels and tiles (empty: the kernel's own) that have each piece of the templates between them:
several and single slabs of K and V, a narrow last one, rings that come round with a key block and
that do not, one and several warps a row, overlapping ones, warps with keys of their own, Q in
registers, a head dim that is no multiple of 16, an output wider than Q, copies that are spread over
the products, row sums that wait in shared memory; of sm90, one to three consumers, rings of two and
three stages, one and several slabs."""
FIRST: dict[Mutation, int] = {}
"""The place in KERNELS of a mutation's own kernels, with which its run begins."""
# Those of other families, and of features: mutations_<name>.py.
for path in sorted(Path(__file__).parent.glob("mutations_*.py")):
    other = importlib.import_module(path.stem)
    FIRST |= {mutation: len(KERNELS) for mutation in other.MUTATIONS}
    KERNELS += other.KERNELS
    MUTATIONS += other.MUTATIONS

HEADERS = "include/attnpress/device/"

ESCAPES_ALLOWED = 0.05
KERNEL_SECONDS = 120  # two to three times the longest without a fault


def render(templates: Path) -> dict[str, str]:
    """The sources of KERNELS, by the names of their files."""
    env = environment(templates)
    texts = {}
    for i, (stem, tile_name) in enumerate(KERNELS):
        variant = parse_stem(stem)
        tile = parse_tile(tile_name, variant) if tile_name else tile_of(variant)
        texts[f"{i}/{stem}.cu"] = source(env, variant, tile)
    return texts


def place_of(path: str) -> int:
    """In KERNELS, of a source."""
    return int(path.partition("/")[0])


@dataclass(frozen=True)
class Outcome:
    """What became of a mutation. caught_by: a few words of the report; "": nothing was seen."""

    mutation: Mutation
    caught_by: str
    kernel: str
    report: str
    seconds: float


def classify(report: str) -> str:
    """The kind of a failure, in a few words."""
    kinds = [
        (r"did not compile", "the compiler"),
        (r"by wgmma, or its wait", "memory that a product reads"),
        (r"the copy engine reads", "memory that the copy engine reads"),
        (r"no fence.proxy.async", "fence"),
        (r"a product use|last wgmma.fence|first wgmma.fence", "registers of a product"),
        (r"descriptor|atoms", "descriptor"),
        (
            r"arrives once too often|more bytes than|no barrier was init|does not see the barrier",
            "barrier in shared memory",
        ),
        (r"named barrier.* for \d+ threads, where", "named barrier"),
        (r"in flight", "copy in flight"),
        (r"earlier kernels have ended|end of earlier kernels", "earlier kernels"),
        (r"race:", "race"),
        (r"deadlock", "deadlock"),
        (r"nothing has written", "memory that was not written"),
        (r"outside the tensors", "access outside the tensors"),
        (r"outside the \d+ bytes", "access outside shared memory"),
        (r"not a multiple of", "misaligned access"),
        (r"took too long|waits for ever", "too long"),
        (r"ended with signal", "crash"),
        (r"out is off|_cache is off|\bq is off", "wrong output"),
        (r"lse is off", "wrong lse"),
        (r"d[qkv] is off|dq of batch|(d(sinks|bias)|buffer) is off", "wrong gradient"),
        (r"of lse_log2 and delta is|of dq_(sum|zeroed) is", "wrong delta"),
    ]
    return next((kind for pattern, kind in kinds if re.search(pattern, report)), "failure")


class Emulator:
    """Runs kernels. Whether one passes without a fault is found out once, when first asked."""

    def __init__(self, program: Path, kernel_seconds: int) -> None:
        self.program = program
        self.kernel_seconds = kernel_seconds  # that a kernel may take
        self.failing: dict[str, str] = {}  # reports of kernels that fail without a fault, by path
        self._results: dict[str, str] = {}  # the same of all that were asked for, by source
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def failure(self, folder: Path, path: str, text: str, include: Path | None = None) -> str:
        """The report of a kernel that fails, with the headers of `include`; "" if it passes."""
        kernel = folder / path
        kernel.parent.mkdir(exist_ok=True)
        kernel.write_text(text)
        command = [self.program, "sources", kernel, "--jobs", "1"]
        command += ["--seconds", str(self.kernel_seconds)]
        command += ["--include", include] if include else []
        result = subprocess.run(command, capture_output=True, text=True)
        return (result.stdout or "no report") if result.returncode != 0 else ""

    def passes(self, path: str, original: str) -> bool:
        """Whether the kernel without a fault passes; if not, it is among the failing."""
        with self._lock:
            lock = self._locks.setdefault(original, threading.Lock())
        with lock:
            if original not in self._results:
                with tempfile.TemporaryDirectory(prefix="attnpress-original-") as name:
                    self._results[original] = self.failure(Path(name), path, original)
            if self._results[original]:
                self.failing[path] = self._results[original]
            return not self._results[original]


def run_mutation(mutation: Mutation, emulator: Emulator, originals: dict[str, str]) -> Outcome:
    """Runs the kernels that the mutation changes, until one fails that passes without it."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="attnpress-mutation-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "templates", folder / "templates")
        target = folder / mutation.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(mutation.apply((ROOT / mutation.file).read_text()))
        texts = render(folder / "templates")
        first = FIRST.get(mutation, 0)
        for path, text in sorted(texts.items(), key=lambda item: place_of(item[0]) < first):
            if mutation.file.startswith(HEADERS):
                if Path(mutation.file).name not in text:
                    continue
            elif text == originals[path]:
                continue
            failure = emulator.failure(folder, path, text, folder / "include")
            if failure and emulator.passes(path, originals[path]):
                seconds = time.monotonic() - begin
                return Outcome(mutation, classify(failure), Path(path).stem, failure, seconds)
    return Outcome(mutation, "", "", "", time.monotonic() - begin)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--emulate", type=Path, default=ROOT / "build" / "attnpress-emulate")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutations at a time")
    parser.add_argument("--only", default="", help="those with this text in their names")
    parser.add_argument("--sample", type=int, help="so many of them, by a fixed seed")
    parser.add_argument(
        "--seconds", type=int, default=KERNEL_SECONDS, help="that a kernel may take"
    )
    parser.add_argument(
        "--without", action="store_true", help="the kernels alone, each once, without a fault"
    )
    parser.add_argument("--verbose", action="store_true", help="the emulator's reports too")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if not options.emulate.is_file():
        print(f"{options.emulate} is missing: build first, or say --emulate PATH", file=sys.stderr)
        return 2
    emulator = Emulator(options.emulate.resolve(), options.seconds)
    mutations = [m for m in MUTATIONS if options.only in m.name]
    if options.sample is not None:
        mutations = random.Random(1).sample(mutations, min(options.sample, len(mutations)))
    begin = time.monotonic()
    try:
        for m in MUTATIONS:
            m.apply((ROOT / m.file).read_text())
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    originals = render(ROOT / "templates")
    if options.without:
        return run_without(emulator, originals, options)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(
            pool.map(
                lambda m: report(run_mutation(m, emulator, originals), options.verbose), mutations
            )
        )
    return summary(outcomes, emulator.failing, time.monotonic() - begin)


def run_without(emulator: Emulator, originals: dict[str, str], options: argparse.Namespace) -> int:
    """Runs the kernels as they are; the exit status."""
    kernels = {text: path for path, text in originals.items() if options.only in path}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda item: emulator.passes(item[1], item[0]), kernels.items()))
    print(f"{len(kernels)} kernels, {len(emulator.failing)} fail")
    print_failing(emulator.failing)
    return 1 if emulator.failing else 0


def print_failing(failing: dict[str, str]) -> None:
    """Of kernels that fail without a fault, by path, with the emulator's reports."""
    for path, failure in sorted(failing.items()):
        tile = KERNELS[place_of(path)][1] or "its own tile"
        print(f"  fails without a fault: {Path(path).stem}, {tile}\n{failure}")


def report(outcome: Outcome, verbose: bool) -> Outcome:
    """Prints a line for a mutation."""
    m = outcome.mutation
    verdict = f"caught: {outcome.caught_by} ({outcome.kernel})" if outcome.caught_by else "ESCAPED"
    if m.harmless and not outcome.caught_by:
        verdict = f"harmless: {m.harmless}"
    print(f"{m.name:<62} {verdict}, {outcome.seconds:.1f} s", flush=True)
    if verbose and outcome.report:
        print(outcome.report)
    return outcome


def summary(outcomes: list[Outcome], failing: dict[str, str], seconds: float) -> int:
    """Prints the count, and gives the exit status. `failing`: as of an Emulator."""
    uncompiled = [o for o in outcomes if o.caught_by == "the compiler"]
    visible = [
        o for o in outcomes if o not in uncompiled and (o.caught_by or not o.mutation.harmless)
    ]
    escaped = [o for o in visible if not o.caught_by]
    print(
        f"{len(visible)} faults, {len(visible) - len(escaped)} caught, {len(escaped)} escaped; "
        f"{len(outcomes) - len(visible) - len(uncompiled)} harmless; {seconds:.0f} s"
    )
    for outcome in escaped:
        print(f"  escaped: {outcome.mutation.name}")
    for outcome in uncompiled:
        print(f"  does not compile, which is no test: {outcome.mutation.name}\n{outcome.report}")
    print_failing(failing)
    return 1 if uncompiled or failing or len(escaped) > ESCAPES_ALLOWED * len(visible) else 0


if __name__ == "__main__":
    sys.exit(main())
