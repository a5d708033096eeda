"""Results: the JSON that a run writes, and the tables made of it.

A document is

    {"schema": 1, "command": ..., "date": ..., "machine": {...}, "method": {...}, "cells": [...]}

A cell is a Case's fields, "flops", "kv_bytes" and "results": for each library that was asked
{"ms": {"median", "p10", "p90", "min", "max", "rounds"}, "error", "bound"}, with "wrong": true where
the error is over its bound (an error that is NaN is null); or {"refused": reason} where the library
does not take such a case, or {"failed": reason}. "kernel" in attnpress's says what it ran. A cell
of random shapes that was below its bar and measured again has "repeated": the lowest ratio over its
bar at first, and in each repetition; its results are those of the median repetition.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from bench import BenchError
from bench.cases import Case
from bench.libraries import LIBRARIES, OURS, TITLES

SCHEMA = 1
BEST_OF = ("flash2", "cudnn")  # whose better one decode is held against
BEST = "best of FA2, cuDNN"

Document = dict[str, Any]
Cell = dict[str, Any]


# ---- Making and reading documents ---------------------------------------------------------------


def summarize(times_ms: Sequence[float]) -> dict[str, float | int]:
    """Median and spread of the times of one call."""
    ordered = sorted(times_ms)

    def at(share: float) -> float:
        return ordered[round(share * (len(ordered) - 1))]

    return {
        "median": statistics.median(ordered),
        "p10": at(0.1),
        "p90": at(0.9),
        "min": ordered[0],
        "max": ordered[-1],
        "rounds": len(ordered),
    }


def make_cell(case: Case, results: dict[str, dict[str, Any]]) -> Cell:
    return {
        **asdict(case),
        "flops": case.flops,
        "kv_bytes": case.kv_bytes,
        "results": results,
    }


def save(document: Document, path: Path) -> None:
    """Whole or not at all."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def load(path: Path) -> Document:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BenchError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BenchError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BenchError(f"{path} is not a result of bench/compare.py with schema {SCHEMA}")
    return document


# ---- Questions to a cell ------------------------------------------------------------------------

_CASE_FIELDS = tuple(entry.name for entry in fields(Case))


def case_of(cell: Cell) -> Case:
    return Case(**{name: cell[name] for name in _CASE_FIELDS})


def median_ms(cell: Cell, library: str) -> float | None:
    """None where the library was not timed, or computed something wrong."""
    result = cell["results"].get(library, {})
    return result["ms"]["median"] if "ms" in result and not result.get("wrong") else None


def spread(cell: Cell, library: str) -> float:
    """Half of what lies between the 10th and the 90th percentile, as a share of the median."""
    ms = cell["results"][library]["ms"]
    return (ms["p90"] - ms["p10"]) / 2 / ms["median"]


def rate(cell: Cell, library: str) -> float | None:
    """TFLOP/s, or GB/s of a decode step."""
    ms = median_ms(cell, library)
    if ms is None:
        return None
    return cell["kv_bytes"] / ms / 1e6 if cell["decode"] else cell["flops"] / ms / 1e9


def ratio(cell: Cell, library: str) -> float | None:
    """How many times as fast as `library` attnpress is."""
    ours, theirs = median_ms(cell, OURS), median_ms(cell, library)
    return theirs / ours if ours and theirs else None


def ratio_to_best(cell: Cell, libraries: Iterable[str] = BEST_OF) -> float | None:
    ratios = [value for name in libraries if (value := ratio(cell, name)) is not None]
    return min(ratios) if ratios else None


BARS = {"flash3": 0.96}  # what random shapes have to reach beside a library
BAR = 0.97  # and beside the others


def margin(cell: Cell) -> float:
    """The lowest of a cell's ratios over their bars: 1 and more where it passes, 0 where attnpress
    was not timed or wrong."""
    if median_ms(cell, OURS) is None:
        return 0.0
    peers = [name for name in cell["results"] if name != OURS]
    found = [r / BARS.get(name, BAR) for name in peers if (r := ratio(cell, name)) is not None]
    return min(found, default=1.0)


def fails(cell: Cell) -> bool:
    return margin(cell) < 1


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def libraries_of(cells: Iterable[Cell], entries: Sequence[str] = ("ms", "failed")) -> list[str]:
    """The libraries that have one of these entries in at least one of the cells, in the usual
    order: by default those that did not refuse everything."""
    there = {
        name
        for cell in cells
        for name, found in cell["results"].items()
        if any(entry in found for entry in entries)
    }
    return [name for name in LIBRARIES if name in there]


def copy_ceiling(document: Document) -> float | None:
    """GB/s of a copy in the same run: the median of its measurements."""
    values = document["machine"].get("ceilings", {}).get("copy_gb_s")
    return statistics.median(values) if values else None


# ---- Tables -------------------------------------------------------------------------------------


@dataclass
class Table:
    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    text_columns: int = 1  # on the left; the others are numbers
    footer_rows: int = 0  # of the rows, the last ones


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _measured(cell: Cell, library: str) -> str:
    """What a library reached: its rate and spread, and how attnpress compares."""
    result = cell["results"].get(library)
    if result is None or "refused" in result:
        return "-"
    if "failed" in result:
        return "failed"
    if result.get("wrong"):
        return "wrong"
    text = f"{rate(cell, library):.0f}"
    if cell["decode"]:
        text = f"{1e3 * result['ms']['median']:.1f} us {text}"
    text += f" ±{100 * spread(cell, library):.1f}%"
    if library != OURS:
        text += f" ({_times(ratio(cell, library))})"
    return text


def _summary(cells: Sequence[Cell], peers: Sequence[str], blank: int) -> list[list[str]]:
    """Geometric mean and lowest of the ratios to each peer, said in the column before them."""
    ratios = [[r for cell in cells if (r := ratio(cell, peer)) is not None] for peer in peers]
    return [
        [*[""] * blank, name, *(_times(reduce(values) if values else None) for values in ratios)]
        for name, reduce in (("geometric mean", geometric_mean), ("lowest", min))
    ]


def _cell_table(
    title: str,
    cells: Sequence[Cell],
    left: dict[str, Callable[[Case], str]],
    extra: dict[str, Callable[[Cell], str]],
) -> Table:
    """`left`: columns that say what the case is; `extra`: columns on the right."""
    libraries = libraries_of(cells)
    peers = [name for name in libraries if name != OURS]
    unit = "GB/s" if cells[0]["decode"] else "TFLOP/s"
    columns = [*left, *(TITLES[name] for name in libraries), *extra]
    table = Table(f"{title}, {unit}", columns, text_columns=len(left))
    for cell in cells:
        case = case_of(cell)
        table.rows.append(
            [
                *(column(case) for column in left.values()),
                *(_measured(cell, name) for name in libraries),
                *(column(cell) for column in extra.values()),
            ]
        )
    before = len(columns) - len(extra) - len(peers) - 1
    for row in _summary(cells, peers, before):
        table.rows.append(row + [""] * len(extra))
        table.footer_rows += 1
    if BEST in extra:
        best = [value for cell in cells if (value := ratio_to_best(cell)) is not None]
        for row, reduce in zip(table.rows[-2:], (geometric_mean, min)):
            row[columns.index(BEST)] = _times(reduce(best) if best else None)
    return table


_SHAPE: dict[str, Callable[[Case], str]] = {
    "D": lambda case: case.dims,
    "mask": lambda case: case.mask,
    "S": lambda case: case.seqlens,
    "batch": lambda case: str(case.batch),
    "heads": lambda case: case.heads,
}
_DECODE_SHAPE = {name: column for name, column in _SHAPE.items() if name != "mask"}
_MODEL: dict[str, Callable[[Case], str]] = {
    "model": lambda case: case.model,
    "call": lambda case: case.label,
}


def groups(document: Document) -> list[tuple[str, str, list[Cell]]]:
    """(kind, dtype, cells): forward, decode, prefill and decode of models, each by dtype."""
    result = []
    for dtype in ("bf16", "fp16"):
        for kind, of_model, decode in (
            ("forward", False, False),
            ("decode", False, True),
            ("models: prefill", True, False),
            ("models: decode", True, True),
        ):
            cells = [
                cell
                for cell in document["cells"]
                if cell["dtype"] == dtype
                and bool(cell["model"]) == of_model
                and cell["decode"] == decode
            ]
            if cells:
                result.append((kind, dtype, cells))
    return result


def tables(document: Document) -> list[Table]:
    """Every table of a document."""
    copy = copy_ceiling(document)
    decode_extra: dict[str, Callable[[Cell], str]] = {
        BEST: lambda cell: _times(ratio_to_best(cell)),
    }
    if copy is not None:
        decode_extra["of copy"] = lambda cell: (
            f"{100 * ours / copy:.0f}%" if (ours := rate(cell, OURS)) is not None else "-"
        )
    result = []
    for kind, dtype, cells in groups(document):
        decode = kind.endswith("decode")
        left = _DECODE_SHAPE if decode else _SHAPE
        if kind.startswith("models"):
            left = {**_MODEL, **left}
        extra = decode_extra if decode else {}
        result.append(_cell_table(f"{kind.capitalize()}, {dtype}", cells, left, extra))
        if kind in ("forward", "decode"):
            result.append(_by_dim(f"{kind.capitalize()}, {dtype}", cells))
            if document.get("method", {}).get("random"):
                result.append(_spread_table(f"{kind.capitalize()}, {dtype}", cells))
    return result


LOWEST = 5  # cells that are named


def _spread_table(title: str, cells: Sequence[Cell]) -> Table:
    """How the ratios to each peer lie, and the cells where they are lowest."""
    peers = [name for name in libraries_of(cells) if name != OURS]
    table = Table(
        f"{title}: {len(cells)} random shapes, attnpress over each peer",
        ["peer", "mean", "lowest", "10%", "median", "90%", "below the bar", "lowest cells"],
    )
    for peer in peers:
        found = [(r, case_of(cell).title) for cell in cells if (r := ratio(cell, peer)) is not None]
        if not found:
            continue
        found.sort()
        ratios = [r for r, _ in found]
        at = [ratios[round(share * (len(ratios) - 1))] for share in (0, 0.1, 0.5, 0.9)]
        bar = BARS.get(peer, BAR)
        below = f"{sum(r < bar for r in ratios)} < {bar}"
        lowest = "; ".join(f"{r:.2f} {name}" for r, name in found[:LOWEST])
        shown = [_times(value) for value in (geometric_mean(ratios), *at)]
        table.rows.append([TITLES[peer], *shown, below, lowest])
    return table


def _by_dim(title: str, cells: Sequence[Cell]) -> Table:
    """How many times as fast as each peer, by head dim and mask: geometric mean and lowest."""
    peers = [name for name in libraries_of(cells) if name != OURS]
    table = Table(
        f"{title}: attnpress over each peer, geometric mean (lowest)",
        ["D", "mask", *(TITLES[name] for name in peers)],
        text_columns=2,
    )
    keys = dict.fromkeys((case_of(cell).dims, case_of(cell).mask) for cell in cells)
    for dims, mask in keys:
        row = [dims, mask]
        for peer in peers:
            ratios = [
                value
                for cell in cells
                if (case_of(cell).dims, case_of(cell).mask) == (dims, mask)
                and (value := ratio(cell, peer)) is not None
            ]
            text = f"{_times(geometric_mean(ratios))} ({min(ratios):.2f})" if ratios else "-"
            row.append(text)
        table.rows.append(row)
    return table


def notes(document: Document) -> list[str]:
    """What the tables do not say: why a library is missing, what was wrong, the machine."""
    lines = []
    refused: dict[str, list[str]] = {}
    failed: dict[tuple[str, str], list[str]] = {}
    for cell in document["cells"]:
        title = case_of(cell).title
        for name, result in cell["results"].items():
            if "failed" in result:
                failed.setdefault((name, result["failed"]), []).append(title)
            elif result.get("wrong"):
                error = "NaN" if result["error"] is None else f"{result['error']:.2e}"
                lines.append(
                    f"{TITLES[name]} is wrong on {title}: error {error}, allowed "
                    f"{result['bound']:.2e}"
                )
            elif "refused" in result:
                refused.setdefault(name, []).append(result["refused"])
    for (name, reason), titles in failed.items():
        more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
        lines.append(f"{TITLES[name]} failed on {titles[0]}{more}: {reason}")
    for name, reasons in refused.items():
        lines.append(f"- : {TITLES[name]} refuses {len(reasons)} of the cases: {reasons[0]}")
    repeated = sum("repeated" in cell for cell in document["cells"])
    if repeated:
        cells = "1 cell was" if repeated == 1 else f"{repeated} cells were"
        lines.append(
            f"{cells} below the bar and measured three times more, alone: the median counts"
        )
    if stopped := document.get("stopped"):
        lines.append(f"the run stopped early: {stopped}")
    return lines


def machine_lines(document: Document) -> list[str]:
    """The machine and the method, in a few lines."""
    machine, method = document["machine"], document.get("method", {})
    versions = machine.get("versions", {})
    known = ("attnpress", "torch", "cuda", "cudnn", "triton", "flash_attn_3")
    lines = [
        ", ".join(
            [
                f"{machine.get('gpu')} (driver {machine.get('driver')})",
                *(f"{name} {versions[name]}" for name in known if versions.get(name)),
            ]
        )
    ]
    ceilings = machine.get("ceilings", {})
    if ceilings:
        copy, product = ceilings["copy_gb_s"], ceilings["matmul_bf16_tflop_s"]
        lines.append(
            f"in the same run: copy {_range(copy)} GB/s, 8192^3 bf16 matrix product "
            f"{_range(product)} TFLOP/s"
        )
    sm = machine.get("clocks", {}).get("sm_mhz")
    if sm:
        lines.append(
            f"SM clock {sm['min']:.0f} to {sm['max']:.0f} MHz, median {sm['median']:.0f}, "
            f"over {machine['clocks']['busy_samples']} samples"
        )
    if method:
        lines.append(
            f"medians of {method['rounds']} interleaved rounds ± half of the span from the 10th to "
            "the 90th percentile; (1.05x): attnpress is 1.05 times as fast"
        )
    return lines


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.0f}" if f"{low:.0f}" == f"{high:.0f}" else f"{low:.0f} to {high:.0f}"


# ---- Showing ------------------------------------------------------------------------------------


def has_rich() -> bool:
    return importlib.util.find_spec("rich") is not None


def plain(document: Document) -> str:
    """The same as show(), for a machine without rich."""
    lines = []
    for table in tables(document):
        rows = [table.columns, *table.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
        lines += [table.title, ""]
        for row in rows:
            cells = (
                text.ljust(width) if i < table.text_columns else text.rjust(width)
                for i, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join(cells).rstrip())
        lines.append("")
    return "\n".join([*lines, *notes(document), *machine_lines(document)]) + "\n"


def show(document: Document, console: Any) -> None:
    """Prints everything on a rich console."""
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    for table in tables(document):
        shown = RichTable(title=table.title, box=box.SIMPLE_HEAD, title_justify="left")
        for index, column in enumerate(table.columns):
            shown.add_column(column, justify="left" if index < table.text_columns else "right")
        body = len(table.rows) - table.footer_rows
        for index, row in enumerate(table.rows):
            if index == body:
                shown.add_section()
            shown.add_row(*(Text(text, style=_style(text)) for text in row))
        console.print(shown)
    for line in notes(document) + machine_lines(document):
        console.print(line, markup=False, highlight=False)


def _style(text: str) -> str:
    """Red where attnpress is slower by more than noise or something is wrong."""
    if text in ("failed", "wrong"):
        return "bold red"
    found = re.search(r"(\d+\.\d+)x", text)
    if found is None:
        return ""
    return "red" if float(found[1]) < 0.97 else "green" if float(found[1]) >= 1.0 else ""


def markdown(document: Document) -> str:
    """The same as Markdown."""
    lines = []
    for table in tables(document):
        align = ["---" if i < table.text_columns else "---:" for i in range(len(table.columns))]
        lines += [f"**{table.title}**", ""]
        lines += [f"| {' | '.join(row)} |" for row in (table.columns, align, *table.rows)]
        lines.append("")
    lines += [f"{line}  " for line in notes(document) + machine_lines(document)]
    return "\n".join(lines).rstrip() + "\n"
