"""Plots of a document: one figure for each kind of case, as PNG and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import BenchError, report
from bench.cases import Case
from bench.libraries import OURS, TITLES
from bench.report import Cell, Document

# One hue a library; attnpress's is the one that stands out.
COLORS = {
    OURS: "#d9480f",
    "sm80": "#f0a875",
    "flash2": "#3b6fb6",
    "cudnn": "#5aa469",
    "efficient": "#b8bec6",
    "flex": "#9a6fb0",
    "flash3": "#e0ac2b",
}
INK = "#2b2f36"
QUIET = "#8a9099"
DPI = 160
TIMES = "\N{MULTIPLICATION SIGN}"
_STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#c9ced6",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ee",
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "svg.hashsalt": "attnpress",  # the same bytes for the same numbers
}


def write(document: Document, path: Path) -> list[Path]:
    """Writes path as .png and .svg; where the document has several kinds of case, with the kind in
    the name. Returns what was written."""
    try:
        import matplotlib
    except ImportError:
        raise BenchError("matplotlib is needed for plots: pip install matplotlib") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    stem = path.with_suffix("") if path.suffix in (".png", ".svg") else path
    drawn = [
        (kind, dtype, cells)
        for kind, dtype, cells in report.groups(document)
        if report.libraries_of(cells, ("ms",))
    ]
    if not drawn:
        raise BenchError("nothing was timed, so there is nothing to plot")
    written = []
    with plt.rc_context(_STYLE):
        for kind, dtype, cells in drawn:
            figure = _DRAW[kind](plt, document, dtype, cells)
            suffix = f"-{_slug(kind)}-{dtype}" if len(drawn) > 1 else ""
            for extension in (".png", ".svg"):
                target = stem.with_name(stem.name + suffix + extension)
                metadata = {"Date": None} if extension == ".svg" else None
                figure.savefig(target, dpi=DPI, metadata=metadata, facecolor="white")
                written.append(target)
            plt.close(figure)
    return written


def _slug(kind: str) -> str:
    return kind.replace(": ", "-")


def _thousands(value: int) -> str:
    """4096 as 4K."""
    return f"{value // 1024}K" if value % 1024 == 0 else str(value)


# ---- Parts --------------------------------------------------------------------------------------


def _title(figure: Any, document: Document, what: str) -> None:
    """Two lines above: what it shows, and on what."""
    machine = document["machine"]
    versions = machine.get("versions", {})
    figure.text(0.012, 0.985, what, fontsize=14, fontweight="bold", va="top", ha="left", color=INK)
    line = [str(machine.get("gpu")), f"PyTorch {versions.get('torch')}"]
    if versions.get("cudnn"):
        line.append(f"cuDNN {versions['cudnn']}")
    line += [document["date"], f"medians of {document['method']['rounds']} interleaved rounds"]
    height = figure.get_size_inches()[1]
    figure.text(0.012, 0.985 - 0.27 / height, "  ·  ".join(line), fontsize=9, va="top", color=QUIET)


def _legend(figure: Any, libraries: Sequence[str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=COLORS[name], label=TITLES[name]) for name in libraries]
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.012, 0.985 - 0.52 / figure.get_size_inches()[1]),
        borderpad=0,
        borderaxespad=0,
        ncols=len(handles),
        handlelength=1.0,
        handleheight=1.0,
        columnspacing=1.6,
        fontsize=10,
    )


def _bars(
    axes: Any,
    cells: Sequence[Cell],
    labels: Sequence[str],
    libraries: Sequence[str],
    *,
    lying: bool = False,
) -> None:
    """A group of bars for each cell, one for each library that computed it; in attnpress's, how it
    compares with FlashAttention-2. `lying`: bars go to the right and groups down, for labels that
    are long."""
    thickness = 0.86 / len(libraries)
    highest = max(report.rate(cell, name) or 0.0 for cell in cells for name in libraries)
    for index, cell in enumerate(cells):
        there = [name for name in libraries if report.rate(cell, name) is not None]
        for place, name in enumerate(there):
            at = index + (place - (len(there) - 1) / 2) * thickness
            value = report.rate(cell, name)
            draw = axes.barh if lying else axes.bar
            draw(at, value, thickness * 0.92, color=COLORS[name], linewidth=0)
            ratio = report.ratio(cell, "flash2")
            if name == OURS and ratio is not None:
                inside = -1 if value > 0.15 * highest else 1
                axes.annotate(
                    f"{ratio:.2f}{TIMES}",
                    (value, at) if lying else (at, value),
                    xytext=(3 * inside, 0) if lying else (0, 3 * inside),
                    textcoords="offset points",
                    rotation=0 if lying else 90,
                    ha="center" if not lying else "right" if inside < 0 else "left",
                    va="center_baseline" if lying else "top" if inside < 0 else "bottom",
                    fontsize=7.5 if lying else 6.5,
                    fontweight="bold",
                    color="white" if inside < 0 else COLORS[OURS],
                )
    if lying:
        axes.set_yticks(range(len(cells)), labels)
        axes.grid(axis="y", visible=False)
        axes.set_ylim(len(cells) - 0.4, -0.6)
    else:
        axes.set_xticks(range(len(cells)), labels)
        axes.grid(axis="x", visible=False)
        axes.set_xlim(-0.6, len(cells) - 0.4)


def _note(figure: Any, libraries: Sequence[str], more: str = "") -> None:
    """Below: what the small figures say."""
    parts = [more] if more else []
    if "flash2" in libraries and OURS in libraries:
        parts.insert(0, "Numbers in attnpress's bars: times as fast as FlashAttention-2.")
    figure.text(0.012, 0.012, "  ".join(parts), fontsize=8.5, color=QUIET, va="bottom")


# ---- Forward ------------------------------------------------------------------------------------


def _panels(cells: Sequence[Cell]) -> list[tuple[str, bool, list[str]]]:
    """(title, whether its groups are head dims, head dims): a panel for each head dim that has
    several lengths, one for all the others together."""
    lengths: dict[str, set[str]] = {}
    for cell in cells:
        case = report.case_of(cell)
        lengths.setdefault(case.dims, set()).add(case.seqlens)
    series = [dims for dims, found in lengths.items() if len(found) > 1]
    single = [dims for dims, found in lengths.items() if len(found) == 1]
    panels = [(f"head dim {dims}", False, [dims]) for dims in series]
    if single:
        seqlens = {found for dims in single for found in lengths[dims]}
        at = f", {_length(seqlens.pop())} tokens" if len(seqlens) == 1 else ""
        panels.append((f"{'other ' if series else ''}head dims{at}", True, single))
    return panels


def _length(seqlens: str) -> str:
    return _thousands(int(seqlens)) if seqlens.isdigit() else seqlens


def _draw_forward(plt: Any, document: Document, dtype: str, cells: Sequence[Cell]) -> Any:
    libraries = report.libraries_of(cells, ("ms",))
    panels = _panels(cells)
    masks = list(dict.fromkeys(report.case_of(cell).mask for cell in cells))
    weights = [
        max(3, len({report.case_of(c).seqlens if not by_dim else report.case_of(c).dims
                    for c in cells if report.case_of(c).dims in dims}))
        for _, by_dim, dims in panels
    ]  # fmt: skip
    width = 0.1 * sum(weights) * (len(libraries) + 1.2) + 1.0
    figure, grid = plt.subplots(
        len(masks),
        len(panels),
        figsize=(max(8.5, width), 2.8 * len(masks) + 1.4),
        width_ratios=weights,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    highest = max(report.rate(c, n) or 0 for c in cells for n in libraries)
    for row, mask in zip(grid, masks):
        for axes, (title, by_dim, dims) in zip(row, panels):
            found = [
                cell
                for cell in cells
                if report.case_of(cell).mask == mask and report.case_of(cell).dims in dims
            ]
            if not found:
                axes.set_axis_off()
                continue
            cases = [report.case_of(cell) for cell in found]
            labels = [case.dims if by_dim else _length(case.seqlens) for case in cases]
            _bars(axes, found, labels, libraries)
            axes.set_title(title if mask == masks[0] else "", loc="left")
            if mask == masks[-1]:
                axes.set_xlabel("head dim" if by_dim else "sequence length")
            axes.set_ylim(0, highest * 1.06)
        row[0].set_ylabel(f"{mask}: TFLOP/s")
    _frame(figure, document, f"Attention forward, {dtype}", libraries)
    return figure


def _frame(
    figure: Any, document: Document, title: str, libraries: Sequence[str], more: str = ""
) -> None:
    """Title and legend above, note below, and the panels in between."""
    height = figure.get_size_inches()[1]
    figure.get_layout_engine().set(rect=(0.006, 0.3 / height, 0.988, 1 - 1.2 / height))
    _title(figure, document, title)
    _legend(figure, libraries)
    _note(figure, libraries, more)


# ---- Decode and models --------------------------------------------------------------------------


def _copy_line(axes: Any, document: Document) -> str:
    copy = report.copy_ceiling(document)
    if copy is None:
        return ""
    axes.axvline(copy, color=INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=0.9)
    return f"Dashed: a copy in the same run, {copy:.0f} GB/s read and written."


def _draw_decode(plt: Any, document: Document, dtype: str, cells: Sequence[Cell]) -> Any:
    libraries = report.libraries_of(cells, ("ms",))
    all_dims = list(dict.fromkeys(report.case_of(cell).dims for cell in cells))
    by_dim = [[cell for cell in cells if report.case_of(cell).dims == dims] for dims in all_dims]
    rows = max(map(len, by_dim))
    figure, grid = plt.subplots(
        1,
        len(all_dims),
        figsize=(max(8.5, 4.6 * len(all_dims)), 0.13 * rows * (len(libraries) + 1.2) + 2.2),
        squeeze=False,
        layout="constrained",
    )
    more = ""
    for axes, dims, found in zip(grid[0], all_dims, by_dim):
        cases = [report.case_of(cell) for cell in found]
        labels = [f"{c.batch} {TIMES} {c.heads} heads, {_thousands(c.seqlen_k)}" for c in cases]
        _bars(axes, found, labels, libraries, lying=True)
        axes.set_ylim(rows - 0.4, -0.6)  # bars are as thick in every panel
        axes.set_title(f"head dim {dims}", loc="left")
        axes.set_xlabel("GB/s of K and V")
        more = _copy_line(axes, document)
    _frame(
        figure,
        document,
        f"Attention decode, one query token, {dtype}",
        libraries,
        f"Rows: batch {TIMES} query/key heads, keys.  {more}",
    )
    return figure


def _draw_models(plt: Any, document: Document, dtype: str, cells: Sequence[Cell]) -> Any:
    libraries = report.libraries_of(cells, ("ms",))
    decode = cells[0]["decode"]
    figure, axes = plt.subplots(
        figsize=(10.5, 0.13 * len(cells) * (len(libraries) + 1.2) + 2.2), layout="constrained"
    )
    labels = [_model_label(report.case_of(cell)) for cell in cells]
    _bars(axes, cells, labels, libraries, lying=True)
    axes.set_xlabel("GB/s of K and V" if decode else "TFLOP/s")
    more = _copy_line(axes, document) if decode else ""
    what = "one query token" if decode else "whole sequences"
    _frame(figure, document, f"Attention of real models, {what}, {dtype}", libraries, more)
    return figure


def _model_label(case: Case) -> str:
    label = "" if case.label in ("prefill", "decode") else f", {case.label}"
    shape = f"D {case.dims}, {case.batch} {TIMES} {case.heads} heads, {_length(case.seqlens)}"
    mask = " causal" if case.causal else ""
    return f"{case.model}{label}\n{shape}{mask}"


_DRAW = {
    "forward": _draw_forward,
    "decode": _draw_decode,
    "models: prefill": _draw_models,
    "models: decode": _draw_models,
}
