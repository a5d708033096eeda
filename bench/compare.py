#!/usr/bin/env python3
"""Times attnpress beside its peers on the present GPU, in one process.

    python bench/compare.py                         forward and decode, the common grid
    python bench/compare.py --dims 72 80 --causal   a part of it
    python bench/compare.py --models all            shapes of real models
    python bench/compare.py --random 40 --seed 1    shapes that nobody chose
    python bench/compare.py --backward --help       gradients: bench/backward.py
    python bench/compare.py --from FILE.json --plot FILE.png

The libraries take turns, call by call and in random order, on the same random inputs, after warming
up; device events time each call, and the median counts. Every output is checked once. Decode steps
are replayed from CUDA graphs, over as many sets of inputs as it takes to find nothing in the cache.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

from bench import BenchError, cases, report
from bench.cases import Case
from bench.libraries import (
    BUILD,
    LIBRARIES,
    ON_REQUEST,
    OURS,
    Library,
    Refused,
    has_build,
    use_build,
)

ROUNDS = 20
QUICK_ROUNDS = 7
GRAPH_CALLS = 32  # in one graph; fewer where each takes long
GRAPH_CALLS_LARGE = 8
LARGE_BYTES = 1 << 28


# ---- One case -----------------------------------------------------------------------------------


def measure(
    case: Case, libraries: Sequence[Library], gpu: Any, rounds: int, rotate: bool
) -> report.Cell:
    """One cell. What a library throws becomes its entry."""
    timed_sets = gpu.sets_past_cache(case) if case.decode and rotate else 1
    checked_sets = gpu.sets_to_check(case)
    sets = gpu.inputs(case, max(timed_sets, checked_sets))
    results: dict[str, dict[str, Any]] = {}
    calls = _run_and_check(case, libraries, gpu, sets[:checked_sets], results)
    _time(case, libraries, gpu, sets[:timed_sets], calls, rounds, results)
    return report.make_cell(case, results)


class Lost(Exception):
    """A failure left the device unusable for this process."""


def _failure(gpu: Any, who: str, error: Exception) -> dict[str, str]:
    """The entry of a library that failed. Lost where nothing more can run."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
    try:
        gpu.recover()
    except Exception:
        raise Lost(f"{who} lost the CUDA context: {reason}") from error
    return {"failed": reason}


def _run_and_check(
    case: Case, libraries: Sequence[Library], gpu: Any, sets: list, results: dict[str, dict]
) -> dict[str, Any]:
    """Runs every library once on each set and checks what came out. Returns the calls that work."""
    calls, outs = {}, {}
    for library in libraries:
        try:
            call = library.bind(case)
            if library.prepare is not None:
                library.prepare(case, *sets[0])
            outs[library.key] = [gpu.run_once(call, tensors, case) for tensors in sets]
            calls[library.key] = call
            results[library.key] = {}
            if library.describe is not None:
                results[library.key]["kernel"] = library.describe(case, *sets[0])
        except Refused as refusal:
            results[library.key] = {"refused": str(refusal)}
        except Exception as error:
            calls.pop(library.key, None)
            results[library.key] = _failure(gpu, library.title, error)
    checked = {name: out for name, out in outs.items() if name in calls}
    for name, (error, bound) in gpu.check(case, sets, checked).items():
        results[name]["error"] = error if error == error else None  # JSON has no NaN
        results[name]["bound"] = bound
        if not error <= bound:
            results[name]["wrong"] = True
    return calls


def _time(
    case: Case,
    libraries: Sequence[Library],
    gpu: Any,
    sets: list,
    calls: dict[str, Any],
    rounds: int,
    results: dict[str, dict],
) -> None:
    """Adds "ms" to the results of the calls."""
    ready: dict[str, Any] = {}
    per_call = 1
    if case.decode:
        wanted = GRAPH_CALLS_LARGE if case.kv_bytes > LARGE_BYTES else GRAPH_CALLS
        per_call = len(sets) * -(-wanted // len(sets))
    for library in libraries:
        call = calls.get(library.key)
        if call is None:
            continue
        try:
            if case.decode:
                ready[library.key] = gpu.graph(call, sets, per_call)
            else:
                ready[library.key] = _bound(call, sets[0])
        except Exception as error:
            results[library.key] = _failure(gpu, library.title, error)
    if not ready:
        return
    try:
        times = gpu.time(ready, rounds, dict.fromkeys(ready, per_call))
    except Exception as error:
        failure = _failure(gpu, "one of the libraries", error)
        results.update((name, dict(failure)) for name in ready)
        return
    for name, times_ms in times.items():
        results[name]["ms"] = report.summarize(times_ms)


def _bound(call: Any, tensors: Any) -> Any:
    return lambda: call(*tensors)


# ---- A run --------------------------------------------------------------------------------------


class Progress:
    """Says on stderr what is being measured: a bar on a terminal, else a line for each case."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.begin = time.perf_counter()
        self.bar = None
        if report.has_rich() and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self.console = Console(stderr=True)
            columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Bar(*columns, TextColumn("{task.description}"), console=self.console)
            self.task = self.bar.add_task("", total=total)
            self.bar.start()

    def starting(self, case: Case) -> None:
        if self.bar is not None:
            self.bar.update(self.task, description=case.title)

    def finished(self, case: Case, cell: report.Cell) -> None:
        self.done += 1
        if self.bar is not None:
            self.bar.advance(self.task)
            return
        reached = []
        for name in cell["results"]:
            rate = report.rate(cell, name)
            reached.append(f"{name} {'-' if rate is None else f'{rate:.0f}'}")
        seconds = time.perf_counter() - self.begin
        line = f"[{self.done}/{self.total} {seconds:.0f} s] {case.title}: {', '.join(reached)}"
        print(line, file=sys.stderr, flush=True)

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def run(
    todo: Sequence[Case],
    libraries: Sequence[Library],
    gpu: Any,
    document: report.Document,
    *,
    rounds: int = ROUNDS,
    rotate: bool = True,
    json_path: Path | None = None,
) -> None:
    """Measures every case into document["cells"], and writes the JSON after each, so that a run
    that is cut off has left what it measured."""
    progress = Progress(len(todo))
    try:
        for case in todo:
            progress.starting(case)
            try:
                cell = measure(case, libraries, gpu, rounds, rotate)
            except KeyboardInterrupt:
                document["stopped"] = "interrupted"
                return
            except Lost as lost:
                document["stopped"] = f"{case.title}: {lost}"
                return
            except Exception as error:  # of the inputs or the reference: out of memory, say
                try:
                    failure = _failure(gpu, "the check", error)
                except Lost as lost:
                    document["stopped"] = f"{case.title}: {lost}"
                    return
                cell = report.make_cell(case, {library.key: failure for library in libraries})
            document["cells"].append(cell)
            progress.finished(case, cell)
            if json_path is not None:
                report.save(document, json_path)
    finally:
        progress.stop()


REPEATS = 3


def repeat_failures(
    libraries: Sequence[Library],
    gpu: Any,
    document: report.Document,
    *,
    rounds: int = ROUNDS,
    rotate: bool = True,
) -> None:
    """Measures the cells that are below their bar three times more, each by itself, after all
    others. The time with the median ratio takes the cell's place and says what it was among."""
    for index, cell in enumerate(document["cells"]):
        if "stopped" in document:
            return
        if not report.fails(cell):
            continue
        case = report.case_of(cell)
        again = []
        try:
            for _ in range(REPEATS):
                again.append(measure(case, libraries, gpu, rounds, rotate))
        except (KeyboardInterrupt, Lost) as error:
            document["stopped"] = f"{case.title}, repeated: {error or 'interrupted'}"
            return
        again.sort(key=report.margin)
        chosen = again[REPEATS // 2]
        chosen["repeated"] = [report.margin(found) for found in (cell, *again)]
        document["cells"][index] = chosen


@contextmanager
def described(gpu: Any, document: report.Document) -> Iterator[None]:
    """Puts the machine into the document: before, what it is and reaches; after, what it reached
    then, and the clocks in between."""
    from bench.gpu import summarize_clocks, watch_clocks

    machine = document["machine"] = gpu.describe()
    with watch_clocks(gpu.uuid()) as clock_rows:
        before = gpu.ceilings()
        machine["ceilings"] = {name: [value] for name, value in before.items()}
        yield
        if "stopped" not in document:
            for name, value in gpu.ceilings().items():
                machine["ceilings"][name].append(value)
    machine["clocks"] = summarize_clocks(clock_rows)


# ---- Command line -------------------------------------------------------------------------------


def _dims(text: str) -> tuple[int, int]:
    """64, or 192/128."""
    parts = text.split("/")
    try:
        values = [int(part) for part in parts]
    except ValueError:
        values = []
    if len(values) not in (1, 2) or any(v % 8 or not 8 <= v <= 512 for v in values):
        raise argparse.ArgumentTypeError(
            f'"{text}" is not a head dim: multiples of 8 from 8 to 512, or two such as 192/128'
        )
    return values[0], values[-1]


def _positive(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a positive number')
    return value


def _library(text: str) -> str:
    """A name of LIBRARIES; build:PATH says which other build."""
    name, colon, path = text.partition(":")
    if name == BUILD and colon:
        if not Path(path).exists():
            raise argparse.ArgumentTypeError(f'there is no library or checkout at "{path}"')
        use_build(Path(path))
        return BUILD
    if text not in LIBRARIES:
        raise argparse.ArgumentTypeError(f'"{text}" is none of {", ".join(LIBRARIES)}')
    return text


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python bench/compare.py",
        description=__doc__.split("\n\n", maxsplit=1)[0],
        epilog="Without --forward, --decode and --models: forward and decode.",
    )
    what = p.add_argument_group("what is computed")
    what.add_argument("--forward", action="store_true", help="whole sequences")
    what.add_argument("--decode", action="store_true", help="one query token, from CUDA graphs")
    what.add_argument("--models", nargs="+", metavar="NAME", help="of models.toml; all: every one")
    what.add_argument("--list-models", action="store_true", help="show them and end")
    what.add_argument(
        "--random", type=_positive, metavar="N", help="N random shapes instead, by --seed"
    )
    what.add_argument("--dims", nargs="+", type=_dims, metavar="D", help="head dims, or D/DV")
    what.add_argument("--seqlens", nargs="+", type=_positive, metavar="S", help="of --forward")
    what.add_argument("--causal", action="store_true", help="only the causal mask")
    what.add_argument("--full", action="store_true", help="only without a mask")
    what.add_argument("--dtype", nargs="+", choices=cases.DTYPES, default=["bf16"])
    what.add_argument("--quick", action="store_true", help="a minute: fewer cases and rounds")
    how = p.add_argument_group("how")
    how.add_argument(
        "--libraries",
        nargs="+",
        type=_library,
        metavar="NAME",
        help=f"besides attnpress: {', '.join(name for name in LIBRARIES if name != BUILD)}, or "
        f"{BUILD}:PATH, a second libattnpress.so or a checkout with one",
    )
    how.add_argument("--flex", action="store_true", help="FlexAttention as well: slow to compile")
    how.add_argument("--rounds", type=_positive, help=f"default {ROUNDS}, quick {QUICK_ROUNDS}")
    how.add_argument("--layout", choices=("bshd", "bhsd"), default="bshd", help="in memory")
    how.add_argument(
        "--warm-cache", action="store_true", help="decode: one set of inputs again and again"
    )
    how.add_argument("--seed", type=int, default=0)
    out = p.add_argument_group("results")
    out.add_argument("--json", type=Path, metavar="FILE", help="everything that was measured")
    out.add_argument("--plot", type=Path, metavar="FILE", help="writes FILE as .png and as .svg")
    out.add_argument("--markdown", type=Path, metavar="FILE", help="the tables as Markdown")
    out.add_argument(
        "--from",
        dest="recorded",
        type=Path,
        metavar="FILE",
        help="show a JSON, or its --dims, --seqlens and --libraries; measure nothing",
    )
    out.add_argument(
        "--subject", choices=list(LIBRARIES), default=OURS, help="of --from: in attnpress's place"
    )
    return p


def recorded_part(document: report.Document, options: argparse.Namespace) -> report.Document:
    """The cells and libraries of a recorded run that the options ask for."""

    def part(cell: report.Cell) -> report.Cell:
        results = {OURS: cell["results"].get(options.subject, {"refused": "not in this run"})}
        for name, result in cell["results"].items():
            if name not in (OURS, options.subject) and name in (options.libraries or LIBRARIES):
                results[name] = result
        return {**cell, "results": results}

    cells = [
        part(cell)
        for cell in document["cells"]
        if (not options.dims or (cell["hdim"], cell["hdim_v"]) in options.dims)
        and (not options.seqlens or cell["seqlen_q"] in options.seqlens)
    ]
    if not cells:
        raise BenchError(f"{options.recorded} has no case that was asked for")
    return {**document, "cells": cells}


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    """What the options ask for."""
    masks = [
        mask
        for mask, asked in (("full", options.full), ("causal", options.causal))
        if asked or options.full == options.causal
    ]
    forward = options.forward or not (options.decode or options.models)
    decode = options.decode or not (options.forward or options.models)
    todo: list[Case] = []
    if options.random:
        dims = options.dims or cases.COMMON_DIMS
        for kind in [False] * forward + [True] * decode:
            todo += cases.random_cases(
                options.random, options.seed, dims, masks, options.dtype, decode=kind
            )
        forward = decode = False
    if forward and (options.dims or options.quick):
        dims = options.dims or cases.QUICK_DIMS
        seqlens = options.seqlens or (
            cases.QUICK_SEQLENS if options.quick else cases.COMMON_SEQLENS
        )
        todo += cases.forward_cases(dims, seqlens, masks, options.dtype)
    elif forward:
        common, other = cases.COMMON_SEQLENS, cases.OTHER_SEQLENS
        todo += cases.forward_cases(
            cases.COMMON_DIMS, options.seqlens or common, masks, options.dtype
        )
        todo += cases.forward_cases(
            cases.OTHER_DIMS, options.seqlens or other, masks, options.dtype
        )
    if decode:
        todo += cases.decode_cases(options.dims or cases.DECODE_DIMS, options.dtype, options.quick)
    if options.models:
        todo += cases.model_cases(options.models, options.dtype, cases.load_models())
    return todo


def chosen_libraries(options: argparse.Namespace) -> list[Library]:
    wanted = options.libraries or [name for name in LIBRARIES if name not in ON_REQUEST]
    if options.flex:
        wanted = [*wanted, "flex"]
    if BUILD in wanted and not has_build():
        raise BenchError(f"{BUILD} needs a path: {BUILD}:libattnpress.so, or {BUILD}:checkout")
    return [
        library
        for name, library in LIBRARIES.items()
        if name == OURS or (name in wanted and (options.libraries or library.is_there()))
    ]


def _list_models() -> None:
    for model in cases.load_models().values():
        print(f"{model.name:18} {model.title}" + (f": {model.note}" if model.note else ""))
        for source in model.sources:
            print(f"{'':18} {source}")


def _command_line(argv: Sequence[str]) -> str:
    """What to type again, without the places of files, which are this machine's."""
    shown, skip = [], False
    for word in argv:
        if skip:
            skip = False
        elif word.startswith(f"{BUILD}:"):
            shown.append(f"{BUILD}:PATH")
        elif word in ("--json", "--plot", "--markdown"):
            skip = True
        elif not word.startswith(("--json=", "--plot=", "--markdown=")):
            shown.append(word)
    return " ".join(["python bench/compare.py", *shown])


def _new_gpu(options: argparse.Namespace) -> Any:
    try:
        from bench.gpu import Gpu
    except ImportError as error:
        raise BenchError(f"PyTorch with CUDA is needed to measure: {error}") from None
    try:
        import attnpress  # noqa: F401
    except ImportError as error:
        raise BenchError(str(error)) from None
    return Gpu(options.seed, options.layout)


def _measure_all(options: argparse.Namespace, argv: Sequence[str]) -> report.Document:
    todo = chosen_cases(options)
    libraries = chosen_libraries(options)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    gpu = _new_gpu(options)
    document: report.Document = {
        "schema": report.SCHEMA,
        "command": _command_line(argv),
        "date": datetime.date.today().isoformat(),
        "machine": {},
        "method": {
            "rounds": rounds,
            "layout": options.layout,
            "decode_inputs": "one set" if options.warm_cache else "sets of 4 times the L2 cache",
            "seed": options.seed,
            **({"random": options.random} if options.random else {}),
        },
        "cells": [],
    }
    with described(gpu, document):
        run(
            todo,
            libraries,
            gpu,
            document,
            rounds=rounds,
            rotate=not options.warm_cache,
            json_path=options.json,
        )
        if options.random:
            repeat_failures(libraries, gpu, document, rounds=rounds, rotate=not options.warm_cache)
    return document


def _results(options: argparse.Namespace, document: report.Document) -> None:
    if options.json is not None and options.recorded is None:
        report.save(document, options.json)
    if report.has_rich():
        from rich.console import Console

        console = Console()
        if not console.is_terminal:
            console = Console(width=240)  # a table takes what it needs
        report.show(document, console)
    else:
        print(report.plain(document), end="")
    if options.markdown is not None:
        options.markdown.write_text(report.markdown(document), encoding="utf-8")
    if options.plot is not None:
        from bench import plot

        for path in plot.write(document, options.plot):
            print(f"plot: {path}")


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if "--backward" in argv:
        from bench import backward

        return backward.main([word for word in argv if word != "--backward"])
    options = parser().parse_args(argv)
    try:
        if options.list_models:
            _list_models()
            return 0
        for path in (options.json, options.plot, options.markdown):
            if path is not None and not path.absolute().parent.is_dir():
                raise BenchError(f"{path.parent} is not a directory")
        if options.recorded is not None:
            document = recorded_part(report.load(options.recorded), options)
        else:
            document = _measure_all(options, argv)
        _results(options, document)
    except BenchError as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    ours = [cell["results"].get(OURS, {}) for cell in document["cells"]]
    return int("stopped" in document or any("failed" in r or r.get("wrong") for r in ours))


if __name__ == "__main__":
    sys.exit(main())
