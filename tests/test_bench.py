"""The benchmark and the tuner: everything but the figures, which need a GPU."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import BenchError, backward_tiles, compare, libraries, report, softmax_tiles, tune
from bench.cases import (
    COMMON_DIMS,
    MASKS,
    RANDOM_BYTES,
    RATIOS,
    Case,
    decode_cases,
    forward_cases,
    load_models,
    random_cases,
)
from bench.kernels import (
    CombineArgs,
    CompileError,
    Divisor,
    ForwardArgs,
    ForwardSm90Args,
    Nvrtc,
    TensorMap,
    TensorView,
    deal_units,
    read_report,
    view_keys,
    view_queries,
)
from bench.libraries import LIBRARIES, OURS, Library, Refused
from generator import GeneratorError
from generator.attention.rules import make_variant
from generator.tiles import Tile, load_tuned, parse_tile, problems, tile_of
from generator.variant import Variant, parse_stem

ROOT = Path(__file__).resolve().parent.parent


def test_every_program_is_in_the_readme() -> None:
    text = (ROOT / "bench/README.md").read_text(encoding="utf-8")
    files = [*(ROOT / "bench").glob("*.py"), *(ROOT / "bench").glob("*.c")]
    programs = [f.name for f in files if '"__main__"' in f.read_text() or f.suffix == ".c"]
    assert len(programs) > 20
    assert [name for name in programs if not re.search(rf"^## .*\b{name}\b", text, re.M)] == []


# ---- Cases --------------------------------------------------------------------------------------


def test_counting() -> None:
    case = Case(4, 16, 16, 4096, 4096, 128, 128, "bf16")
    assert case.flops == 4 * 4 * 16 * 4096**2 * 128
    assert replace(case, causal=True).flops == case.flops / 2
    assert Case(1, 128, 128, 64, 64, 192, 128, "bf16").flops == 2 * 128 * 64 * 64 * (192 + 128)
    decode = Case(16, 32, 8, 1, 8192, 128, 128, "bf16", decode=True)
    assert decode.kv_bytes == 16 * 8 * 8192 * 128 * 2 * 2


def test_causal_flops_of_short_queries() -> None:
    """One query under the mask sees all keys, and its half of the diagonal's is all that is off."""
    full = Case(1, 8, 8, 4, 4096, 64, 64, "bf16")
    assert 0.999 < replace(full, causal=True).flops / full.flops < 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"batch": 0}, "batch 0"),
        ({"hdim": 12}, "hdim 12"),
        ({"hdim": 520}, "hdim 520"),
        ({"hdim_v": 4}, "hdim_v 4"),
        ({"dtype": "fp8"}, "fp8"),
        ({"heads_q": 3}, "3 query heads"),
        ({"causal": True, "seqlen_q": 200}, "rows without keys"),
    ],
)
def test_bad_case(change: dict, named: str) -> None:
    fields = {
        "batch": 1, "heads_q": 4, "heads_kv": 2, "seqlen_q": 64, "seqlen_k": 64, "hdim": 64,
        "hdim_v": 64, "dtype": "bf16",
    }  # fmt: skip
    with pytest.raises(BenchError, match=re.escape(named)):
        Case(**{**fields, **change})


def test_forward_grid_is_the_papers() -> None:
    """16,384 tokens a batch, heads = 2048 / head dim."""
    found = list(forward_cases([(128, 128)], [512, 16384], ["full", "causal"], ["bf16"]))
    assert [(c.batch, c.heads_q, c.seqlen_q, c.causal) for c in found] == [
        (32, 16, 512, False),
        (1, 16, 16384, False),
        (32, 16, 512, True),
        (1, 16, 16384, True),
    ]


def test_decode_rows() -> None:
    found = list(decode_cases([(64, 64), (128, 128)], ["bf16"]))
    assert all(c.decode and c.seqlen_q == 1 and not c.causal for c in found)
    groups = {(c.hdim, c.batch, c.heads_q, c.heads_kv) for c in found}
    assert (128, 32, 28, 4) in groups and (128, 1, 64, 8) in groups
    assert sum(c.hdim == 64 for c in found) == 5


def _random(count: int, seed: int, decode: bool, masks: Any = MASKS) -> list[Case]:
    return list(random_cases(count, seed, COMMON_DIMS, masks, ["bf16"], decode))


def test_random_forward_shapes() -> None:
    found = _random(400, 1, decode=False)
    assert found == _random(400, 1, decode=False) and found[:50] == _random(50, 1, decode=False)
    assert not set(found) & set(_random(400, 2, decode=False))
    for case in found:
        assert 1 <= case.batch <= 32 and 64 <= case.seqlen_q <= case.seqlen_k <= 32768
        assert case.batch == 1 or case.batch * case.seqlen_k <= 65536
        assert case.heads_q // case.heads_kv in RATIOS and 4 <= case.heads_q <= 71
        assert not case.decode and case.flops > 0
    assert {c.hdim for c in found} == {64, 96, 128, 192, 256}
    assert {c.heads_q // c.heads_kv for c in found} == set(RATIOS)
    for some in (
        [c for c in found if c.causal],
        [c for c in found if not c.causal],
        [c for c in found if c.seqlen_q != c.seqlen_k],
        [c for c in found if c.seqlen_q < 256],
        [c for c in found if c.seqlen_q > 8192],
    ):
        assert len(some) > 40
    assert sum(c.seqlen_k % 64 == 0 for c in found) < 40  # any remainder
    assert all(c.causal for c in _random(50, 1, decode=False, masks=["causal"]))


def test_random_decode_shapes() -> None:
    found = _random(400, 1, decode=True)
    assert found[:50] == _random(50, 1, decode=True)
    for case in found:
        assert case.decode and case.seqlen_q == 1 and not case.causal
        assert 1 <= case.batch <= 256 and 512 <= case.seqlen_k <= 131072
        assert case.kv_bytes <= RANDOM_BYTES
    assert sum(c.kv_bytes < 100e6 for c in found) > 40 and sum(c.kv_bytes > 1e9 for c in found) > 40


# ---- models.toml --------------------------------------------------------------------------------

# heads, kv heads, head dim, value head dim
SHAPES = {
    "llama3-8b": (32, 8, 128, 128),
    "llama3-70b": (64, 8, 128, 128),
    "qwen2.5-7b": (28, 4, 128, 128),
    "gemma2-9b": (16, 8, 256, 256),
    "phi3-mini": (32, 32, 96, 96),
    "falcon-7b": (71, 1, 64, 64),
    "deepseek-v3": (128, 128, 192, 128),
    "siglip-so400m": (16, 16, 72, 72),
    "whisper-large-v3": (20, 20, 64, 64),
    "vit-h14": (16, 16, 80, 80),
    "gpt-neox-20b": (64, 64, 96, 96),
}


def test_models() -> None:
    models = load_models()
    for name, shape in SHAPES.items():
        case = models[name].cases("bf16")[0]
        assert (case.heads_q, case.heads_kv, case.hdim, case.hdim_v) == shape, name
    assert [c.hdim for c in models["sd1.5"].cases("fp16")][:3] == [40, 80, 160]


@pytest.mark.parametrize("name", sorted(load_models()))
def test_model_is_whole(name: str) -> None:
    model = load_models()[name]
    assert model.sources
    for source in model.sources:
        assert re.fullmatch(r"https://(huggingface\.co|arxiv\.org)/\S+", source), source
    for case in model.cases("bf16"):
        assert case.model == model.title and case.label
        pair = make_variant(
            "fwd", case.hdim, case.hdim_v, case.dtype
        )  # the library has such a kernel
        assert pair.hdim == case.hdim


@pytest.mark.parametrize(
    ("line", "replaced", "sentence"),
    [
        ('name = "a"', 'nam = "a"', "name is missing"),
        ("hdim = 64", "hdim = 60", "hdim 60 is not a multiple"),
        ("hdim = 64", "hdim = 64\nlayers = 3", "layers is unknown"),
        ('sources = ["https://x"]', "sources = []", "has no source"),
        ("{ seqlen = 64 }", "{ seqlen = 64, heds = 1 }", "heds is unknown"),
        ("prefill = [{ seqlen = 64 }]", "", "neither prefill nor decode"),
        ("heads = 4", "heads = ", "not valid TOML"),
    ],
)
def test_bad_models(tmp_path: Path, line: str, replaced: str, sentence: str) -> None:
    text = (
        '[[model]]\nname = "a"\ntitle = "A"\nsources = ["https://x"]\nheads = 4\nkv_heads = 2\n'
        "hdim = 64\ncausal = true\nprefill = [{ seqlen = 64 }]\n"
    )
    path = tmp_path / "models.toml"
    path.write_text(text)
    assert len(load_models(path)["a"].cases("bf16")) == 1
    assert line in text
    path.write_text(text.replace(line, replaced))
    with pytest.raises(BenchError, match=sentence):
        load_models(path)


# ---- Arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "arguments", "named"),
    [
        ("compare.py", ["--dims", "12"], "12"),
        ("compare.py", ["--dims", "192/"], "192/"),
        ("compare.py", ["--seqlens", "0"], "0"),
        ("compare.py", ["--dtype", "fp32"], "fp32"),
        ("compare.py", ["--libraries", "triton"], "triton"),
        ("compare.py", ["--models", "llama9"], "llama9"),
        ("compare.py", ["--from", "missing.json"], "missing.json"),
        ("compare.py", ["--json", "/no/such/folder/x.json"], "/no/such/folder"),
        ("compare.py", ["surprise"], "surprise"),
        ("compare.py", ["--random", "0"], "0"),
        ("compare.py", ["--libraries", "flash9"], "flash9"),
        ("compare.py", ["--libraries", "build:/no/such.so"], "/no/such.so"),
        ("tune.py", [], "nothing to tune"),
        ("tune.py", ["flash_fwd_hdim12_bf16_sm80", "--list"], "head dim 12"),
        ("tune.py", ["flash_fwd_combine_hdim64_bf16_sm80", "--list"], "combine"),
        ("tune.py", ["--dims", "64", "--seconds", "-1"], "-1"),
        ("tune.py", ["flash_bwd_hdim64_bf16_sm90", "--list"], "timed by --backward"),
        ("tune.py", ["--backward", "--dims", "12", "--list"], "head dim 12"),
        ("tune.py", ["--backward", "--dims", "96", "--tiles", "m64n128s2kv", "--list"], "over 120"),
    ],
)
def test_bad_arguments(script: str, arguments: list[str], named: str) -> None:
    """Status 2 and a sentence, from the scripts as they are called."""
    if script == "tune.py" and not arguments:
        arguments = ["--list"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / script), *arguments],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert named in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("script", ["compare.py", "tune.py"])
def test_help(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / script), "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "usage" in done.stdout


def _chosen(*arguments: str) -> list[Case]:
    return compare.chosen_cases(compare.parser().parse_args(arguments))


def test_chosen_cases() -> None:
    everything = _chosen()
    assert {c.hdim for c in everything} >= {40, 64, 72, 80, 96, 112, 128, 160, 192, 256, 320, 512}
    assert any(c.decode for c in everything)
    assert not any(c.decode for c in _chosen("--forward"))
    assert all(c.decode for c in _chosen("--decode"))
    assert all(c.model for c in _chosen("--models", "all"))
    part = _chosen("--forward", "--dims", "72", "192/128", "--seqlens", "1024", "--causal")
    assert [(c.dims, c.seqlen_q, c.causal) for c in part] == [
        ("72", 1024, True),
        ("192/128", 1024, True),
    ]
    assert len(_chosen("--quick")) < 20
    random_ones = _chosen("--random", "7", "--seed", "3")
    assert [c.decode for c in random_ones] == [False] * 7 + [True] * 7
    assert random_ones != _chosen("--random", "7", "--seed", "4")
    some = _chosen("--forward", "--random", "9", "--causal", "--dims", "72")
    assert len(some) == 9 and all(c.causal and c.hdim == 72 for c in some)
    assert {c.dtype for c in _chosen("--dtype", "bf16", "fp16")} == {"bf16", "fp16"}


def test_chosen_libraries() -> None:
    def chosen(*arguments: str) -> list[str]:
        options = compare.parser().parse_args(arguments)
        return [library.key for library in compare.chosen_libraries(options)]

    assert chosen()[:4] == [OURS, "flash2", "cudnn", "efficient"]
    assert "flex" not in chosen() and "flex" in chosen("--flex")
    assert chosen("--libraries", "cudnn") == [OURS, "cudnn"]


def test_another_build_is_a_library(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(libraries, "_build", None)

    def chosen(*arguments: str) -> list[str]:
        options = compare.parser().parse_args(arguments)
        return [library.key for library in compare.chosen_libraries(options)]

    with pytest.raises(BenchError, match="build needs a path"):
        chosen("--libraries", "build")
    library = tmp_path / "libattnpress.so"
    library.touch()
    assert chosen("--libraries", f"build:{library}", "cudnn") == [OURS, "build", "cudnn"]
    assert libraries._build == library.resolve()
    assert "build" not in chosen()


def test_the_other_build_is_loaded_beside_ours(
    build_dir: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    import attnpress

    monkeypatch.setattr(libraries, "_build", None)
    copy = tmp_path / "libattnpress.so"
    shutil.copy(build_dir / "libattnpress.so", copy)
    libraries.use_build(copy)
    with contextlib.suppress(RuntimeError):  # without a GPU it has no handle
        libraries.build_package()
    opened = sys.modules["attnpress_build._library"]
    assert opened.library_path == str(copy)
    assert attnpress._library.library_path != str(copy)
    assert opened.library is not attnpress._library.library
    libraries.build_package.cache_clear()


def test_command_line_keeps_no_paths() -> None:
    words = ["--dims", "64", "--json", "/home/me/x.json", "--plot=/home/me/x", "--quick"]
    assert compare._command_line(words) == "python bench/compare.py --dims 64 --quick"
    words = ["--libraries", "build:/home/me/libattnpress.so", "cudnn"]
    assert compare._command_line(words) == "python bench/compare.py --libraries build:PATH cudnn"


# ---- Measuring, with a GPU that is none ----------------------------------------------------------


class FakeGpu:
    """Stands in for bench.gpu.Gpu. A call returns what it computes: its error, or it raises; a
    call's time is looked up."""

    def __init__(self, times_ms: dict[str, float], lost: bool = False) -> None:
        self.times_ms, self.lost = times_ms, lost
        self.graphs: list[int] = []

    def sets_past_cache(self, case: Case) -> int:
        return 5

    def sets_to_check(self, case: Case) -> int:
        return 2 if case.decode else 1

    def inputs(self, case: Case, sets: int) -> list[tuple]:
        return [(index, index, index) for index in range(sets)]

    def run_once(self, call: Any, tensors: tuple, case: Case) -> Any:
        return call(*tensors)

    def recover(self) -> None:
        if self.lost:
            raise RuntimeError("an illegal memory access was encountered")

    def check(self, case: Case, sets: list, outs: dict[str, list]) -> dict[str, tuple]:
        assert all(len(out) == len(sets) for out in outs.values())
        return {name: (out[0], 2e-3) for name, out in outs.items()}

    def graph(self, call: Any, sets: list, calls: int) -> Any:
        self.graphs.append(calls)
        return call

    def time(self, calls: dict, rounds: int, divide: dict[str, int]) -> dict[str, list[float]]:
        assert set(divide) == set(calls)
        return {
            name: [self.times_ms[name] * (1 + 0.01 * (r - rounds // 2)) for r in range(rounds)]
            for name in calls
        }


def _library(key: str, computes: Any) -> Library:
    def bind(case: Case) -> Any:
        def call(q: Any, k: Any, v: Any) -> Any:
            if isinstance(computes, Exception):
                raise computes
            return computes

        return call

    return replace(LIBRARIES[key], bind=bind, prepare=None, describe=None)


D128 = Case(4, 16, 16, 4096, 4096, 128, 128, "bf16")
DECODE = Case(1, 32, 8, 1, 8192, 128, 128, "bf16", decode=True)
TIMES_MS = {OURS: 1.0, "flash2": 1.1, "cudnn": 0.5, "efficient": 2.0}


def test_measure_survives_its_libraries() -> None:
    libraries = [
        _library(OURS, 1e-3),
        _library("flash2", Refused("only supports head dim up to 256")),
        _library("cudnn", RuntimeError("cuDNN error: CUDNN_STATUS_BAD_PARAM\nmore")),
        _library("efficient", math.nan),
    ]
    cell = compare.measure(D128, libraries, FakeGpu(TIMES_MS), rounds=5, rotate=True)
    results = cell["results"]
    assert results[OURS]["ms"]["median"] == pytest.approx(1.0)
    assert results[OURS]["ms"]["rounds"] == 5 and "wrong" not in results[OURS]
    assert results["flash2"] == {"refused": "only supports head dim up to 256"}
    assert results["cudnn"] == {"failed": "RuntimeError: cuDNN error: CUDNN_STATUS_BAD_PARAM"}
    assert results["efficient"]["wrong"] and results["efficient"]["error"] is None
    assert report.ratio(cell, "efficient") is None  # what is wrong is not fast
    json.dumps(cell, allow_nan=False)


def test_decode_is_timed_from_graphs_over_several_inputs() -> None:
    gpu = FakeGpu(TIMES_MS)
    libraries = [_library(OURS, 1e-3), _library("flash2", 1e-3)]
    compare.measure(DECODE, libraries, gpu, rounds=3, rotate=True)
    assert gpu.graphs == [35, 35]  # every set as often: a multiple of 5, at least 32
    gpu.graphs.clear()
    compare.measure(DECODE, libraries, gpu, rounds=3, rotate=False)
    assert gpu.graphs == [32, 32]


def _document(cells: list[dict]) -> dict[str, Any]:
    return {
        "schema": report.SCHEMA,
        "command": "python bench/compare.py",
        "date": "2026-01-02",
        "machine": {
            "gpu": "NVIDIA H200",
            "driver": "580.1",
            "versions": {"torch": "2.11.0", "cudnn": 91900},
            "ceilings": {"copy_gb_s": [4200.0, 4300.0], "matmul_bf16_tflop_s": [780.0, 770.0]},
            "clocks": {"busy_samples": 9, "sm_mhz": {"min": 1500, "median": 1700, "max": 1980}},
        },
        "method": {"rounds": 5},
        "cells": cells,
    }


def test_run_stops_where_the_context_is_lost_and_keeps_what_it_has(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    document = _document([])
    gpu = FakeGpu(TIMES_MS)
    path = tmp_path / "out.json"
    compare.run([D128], [_library(OURS, 1e-3)], gpu, document, rounds=3, json_path=path)
    gpu.lost = True
    bad = _library(OURS, RuntimeError("an illegal memory access"))
    compare.run([DECODE, D128], [bad], gpu, document, rounds=3, json_path=path)
    assert len(document["cells"]) == 1 and "attnpress lost" in document["stopped"]
    assert len(report.load(path)["cells"]) == 1


class MovingGpu(FakeGpu):
    """One whose peer takes another time in each measurement."""

    def __init__(self, peer_ms: list[float]) -> None:
        super().__init__({})
        self.peer_ms = peer_ms

    def time(self, calls: dict, rounds: int, divide: dict[str, int]) -> dict[str, list[float]]:
        self.times_ms = {OURS: 1.0, "cudnn": self.peer_ms.pop(0)}
        return super().time(calls, rounds, divide)


def test_failures_are_repeated_alone_and_their_median_counts() -> None:
    pair = [_library(OURS, 1e-3), _library("cudnn", 1e-3)]
    gpu = MovingGpu([1.5, 0.9, 0.98, 0.8, 1.1, 0.95])
    document = _document([])
    todo = list(forward_cases([(64, 64)], [512, 1024, 4096], ["full"], ["bf16"]))
    document["cells"] = [compare.measure(case, pair, gpu, 3, True) for case in todo]
    passed = [document["cells"][0], document["cells"][2]]
    compare.repeat_failures(pair, gpu, document, rounds=3)
    assert gpu.peer_ms == []  # one cell three times more
    assert [document["cells"][0], document["cells"][2]] == passed
    cell = document["cells"][1]
    assert cell["seqlen_q"] == 1024 and report.ratio(cell, "cudnn") == pytest.approx(0.95)
    assert cell["repeated"] == pytest.approx([r / 0.97 for r in (0.9, 0.8, 0.95, 1.1)])
    assert report.fails(cell) and not report.fails(passed[1])
    assert "1 cell was below the bar" in " ".join(report.notes(document))
    json.dumps(document, allow_nan=False)


def test_bars() -> None:
    def cell(**times_ms: float) -> dict[str, Any]:
        found = [_library(name, 1e-3) for name in (OURS, *times_ms)]
        return compare.measure(D128, found, FakeGpu({OURS: 1.0, **times_ms}), 3, True)

    assert not report.fails(cell(flash3=0.965)) and report.fails(cell(flash3=0.955))
    assert not report.fails(cell(cudnn=0.975)) and report.fails(cell(cudnn=0.965))
    assert not report.fails(cell()) and report.fails(cell(cudnn=1.5, build=0.9))
    wrong = compare.measure(D128, [_library(OURS, 1.0)], FakeGpu({OURS: 1.0}), 3, True)
    assert report.fails(wrong)


# ---- Reports ------------------------------------------------------------------------------------


@pytest.fixture()
def recorded() -> dict[str, Any]:
    """What a run might have left: forward, decode and a model, a refusal and a failure."""
    gpu = FakeGpu(TIMES_MS)
    all_right = [_library(name, 1e-3) for name in TIMES_MS]
    refusing = [*all_right[:1], _library("flash2", Refused("up to 256")), *all_right[2:]]
    failing = [*all_right[:2], _library("cudnn", RuntimeError("no plan")), all_right[3]]
    todo = [
        *((case, all_right) for case in forward_cases([(64, 64)], [512, 4096], ["full"], ["bf16"])),
        *((case, all_right) for case in forward_cases([(64, 64)], [512], ["causal"], ["bf16"])),
        (Case(4, 4, 4, 4096, 4096, 512, 512, "bf16"), refusing),
        (DECODE, failing),
        *((case, all_right) for case in load_models()["sd1.5"].cases("bf16")),
        *((case, all_right) for case in load_models()["llama3-8b"].cases("bf16")),
    ]
    return _document([compare.measure(c, libraries, gpu, 5, True) for c, libraries in todo])


def test_ratios(recorded: dict[str, Any]) -> None:
    cell = recorded["cells"][0]
    assert report.ratio(cell, "flash2") == pytest.approx(1.1)
    assert report.ratio_to_best(cell) == pytest.approx(0.5)
    assert report.rate(cell, OURS) == pytest.approx(cell["flops"] / 1e9)
    decode = next(cell for cell in recorded["cells"] if cell["decode"])
    assert report.rate(decode, OURS) == pytest.approx(decode["kv_bytes"] / 1e6)
    assert report.ratio_to_best(decode) == pytest.approx(1.1)  # cuDNN failed
    assert report.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def test_tables(recorded: dict[str, Any]) -> None:
    text = report.markdown(recorded)
    assert "**Forward, bf16, TFLOP/s**" in text and "**Decode, bf16, GB/s**" in text
    assert "**Models: prefill, bf16, TFLOP/s**" in text
    row = next(line for line in text.splitlines() if line.startswith("| 512 | full | 4096 |"))
    columns = [column.strip() for column in row.strip("|").split("|")]
    assert columns[6] == "-" and columns[7].endswith("(0.50x)")
    assert "| failed |" in text and "cuDNN failed on D 128 bf16 decode" in text
    assert "FlashAttention-2 refuses 1 of the cases: up to 256" in text
    mean = next(line for line in text.splitlines() if "geometric mean |" in line)
    assert [c.strip() for c in mean.strip("|").split("|")][-3:] == ["1.10x", "0.50x", "2.00x"]
    assert "copy 4200 to 4300 GB/s" in text
    widths = {}
    for line in text.splitlines():  # every row of a table has its columns
        if line.startswith("**"):
            widths.clear()
        elif line.startswith("|"):
            assert widths.setdefault("columns", line.count("|")) == line.count("|"), line


def test_spread_of_random_shapes(recorded: dict[str, Any]) -> None:
    assert "random shapes" not in report.markdown(recorded)
    recorded["method"]["random"] = 4
    text = report.markdown(recorded)
    assert "**Forward, bf16: 4 random shapes, attnpress over each peer**" in text
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| cuDNN | 0.5")]
    columns = [column.strip() for column in rows[0]]
    assert columns[1:6] == ["0.50x"] * 5 and columns[6] == "4 < 0.97"
    assert columns[7].count(";") == 3 and "0.50 D 64 bf16 full S 512 (32 x 32 heads)" in columns[7]


def test_the_table_of_the_readme() -> None:
    """Is what the results beside it say, which its commands wrote."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text[text.index("## How fast") : text.index("## Without a GPU")]
    (name,) = set(re.findall(r"--from (\S+)", section))
    recorded = report.load(ROOT / name)
    assert f"\n{recorded['command']}\n" in section
    assert f"medians of {recorded['method']['rounds']} interleaved rounds" in section
    cells = {
        (str(cell["hdim"]), "causal" if cell["causal"] else "full", str(cell["seqlen_q"])): cell
        for cell in recorded["cells"]
    }
    (head, _, *rows) = (
        [*map(str.strip, line.split("|")[1:-1])]
        for line in re.findall(r"^\|.*\|$", section, flags=re.MULTILINE)
    )
    lengths = [column.removeprefix("S ") for column in head[2:]]
    assert len(rows) == 10 and len(lengths) == 4
    for hdim, mask, *shown in rows:
        for length, figures in zip(lengths, shown, strict=True):
            cell = cells[hdim, mask, length]
            ms = {peer: found["ms"]["median"] for peer, found in cell["results"].items()}
            flash, cudnn = (ms[peer] / ms[OURS] for peer in ("flash2", "cudnn"))
            speed = cell["flops"] / ms[OURS] * 1e-9
            assert figures == f"{speed:.0f} ({flash:.2f}x, {cudnn:.2f}x)", (hdim, mask, length)


def test_show_from_json(recorded: dict[str, Any], tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("rich")
    path = tmp_path / "run.json"
    report.save(recorded, path)
    assert report.load(path) == recorded
    assert compare.main(["--from", str(path), "--markdown", str(tmp_path / "run.md")]) == 0
    shown = capsys.readouterr().out
    assert "Forward, bf16, TFLOP/s" in shown and "(1.10x)" in shown and "NVIDIA H200" in shown
    assert (tmp_path / "run.md").read_text() == report.markdown(recorded)


def test_show_a_part_of_a_json(recorded: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    report.save(recorded, path)

    def part(*options: str) -> list[dict[str, Any]]:
        parsed = compare.parser().parse_args(["--from", str(path), *options])
        return compare.recorded_part(report.load(path), parsed)["cells"]

    assert part() == recorded["cells"]
    some = part("--dims", "64", "--seqlens", "4096", "--libraries", "cudnn")
    whole = [c for c in recorded["cells"] if c["hdim"] == 64 and c["seqlen_q"] == 4096]
    assert len(some) == len(whole) > 0
    for cell, before in zip(some, whole):
        assert list(cell["results"]) == [OURS, "cudnn"]
        assert cell["results"]["cudnn"] == before["results"]["cudnn"]
    cell = part("--subject", "flash2")[0]
    assert report.ratio(cell, "flash2") is None
    assert report.ratio(cell, "cudnn") == pytest.approx(0.5 / 1.1)
    with pytest.raises(BenchError, match="no case"):
        part("--dims", "72")


def test_status_says_that_we_were_wrong(recorded: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("rich")
    path = tmp_path / "run.json"
    recorded["cells"][0]["results"][OURS]["wrong"] = True
    report.save(recorded, path)
    assert compare.main(["--from", str(path)]) == 1


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 99}', '{"cells": []}'])
def test_bad_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=re.escape(str(path))):
        report.load(path)


def test_plots(recorded: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bench import plot

    written = plot.write(recorded, tmp_path / "run.png")
    assert [path.name for path in written] == [
        f"run-{kind}-bf16.{extension}"
        for kind in ("forward", "decode", "models-prefill", "models-decode")
        for extension in ("png", "svg")
    ]
    for path in written:
        start = path.read_bytes()[:64]
        assert start.startswith(b"\x89PNG" if path.suffix == ".png" else b"<?xml")
    one = {**recorded, "cells": recorded["cells"][:3]}
    assert [p.name for p in plot.write(one, tmp_path / "one")] == ["one.png", "one.svg"]
    first = (tmp_path / "one.svg").read_bytes()
    plot.write(one, tmp_path / "one")
    assert (tmp_path / "one.svg").read_bytes() == first
    assert set(plot.COLORS) == set(LIBRARIES)


def test_nothing_to_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from bench import plot

    with pytest.raises(BenchError, match="nothing was timed"):
        plot.write(_document([]), tmp_path / "run.png")


def test_committed_results_are_readable() -> None:
    for path in sorted((ROOT / "bench" / "results").glob("*.json")):
        document = report.load(path)
        assert report.markdown(document)
        machine = document["machine"]
        assert {"gpu", "driver", "versions", "ceilings", "clocks"} <= set(machine), path


# ---- Tuning: candidates -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stem",
    [
        "flash_fwd_hdim64_bf16_sm80",
        "flash_fwd_hdim72_bf16_causal_sm80",
        "flash_fwd_hdim256_bf16_sm86",
        "flash_fwd_hdim512_bf16_sm80",
        "flash_fwd_hdim192v128_bf16_causal_sm80",
        "flash_fwd_split_hdim128_bf16_decode_sm80",
        "flash_fwd_hdim64_bf16_sm90",
        "flash_fwd_split_hdim128_bf16_causal_sm90",
        "flash_fwd_hdim192v128_bf16_sm90",
    ],
)
def test_candidates_are_legal(stem: str) -> None:
    variant = parse_stem(stem)
    present = tile_of(variant)
    grid = tune.coarse_grid(variant, present)
    assert len(grid) > 20 and len({tile.name for tile in grid}) == len(grid)
    around = list(tune.neighbours(variant, present))
    assert around and present not in around
    for tile in [*grid, *around]:
        assert problems(variant, tile) == []
        assert parse_tile(tile.name, variant) == tile
    shape = (present.block_m, present.block_n, present.warps_m, present.warps_n, present.stages)
    assert shape in {(t.block_m, t.block_n, t.warps_m, t.warps_n, t.stages) for t in grid}


@pytest.mark.parametrize(
    ("capability", "words", "arch"),
    [
        (90, "--dims 64", 90),
        (90, "--dims 64 --decode", 80),
        (90, "--dims 64 320", 90),
        (90, "--dims 192/128 --arch 80", 80),
        (90, "flash_fwd_hdim64_bf16_sm90", 90),
        (90, "flash_fwd_hdim64_bf16_sm80", 80),
        (90, "flash_fwd_hdim64_bf16_sm86", "runs sm90 and sm80 kernels"),
        (90, "flash_fwd_hdim64_bf16_sm80 --arch 90", "one arch at a time"),
        (80, "--dims 64", 80),
        (80, "--dims 64 --arch 90", "8.0 runs sm80 kernels"),
        (120, "--dims 64", 86),
        (75, "--dims 64", "none of these"),
    ],
)
def test_the_arch_that_is_tuned(capability: int, words: str, arch: int | str) -> None:
    options = tune.parser().parse_args(words.split())
    if isinstance(arch, int):
        assert tune.device_arch(capability, options) == arch
    else:
        with pytest.raises(BenchError, match=arch):
            tune.device_arch(capability, options)


def test_groups() -> None:
    def groups(*arguments: str) -> list[str]:
        options = tune.parser().parse_args(arguments)
        return [group.title for group in tune.chosen_groups(options, 80)]

    assert groups("--dims", "64") == ["flash_fwd_hdim64_sm80", "flash_fwd_hdim64_causal_sm80"]
    assert groups("--dims", "64", "--decode") == [
        "flash_fwd_hdim64_decode_sm80",
        "flash_fwd_split_hdim64_decode_sm80",
    ]
    assert groups("--dims", "64", "--decode", "--split") == ["flash_fwd_split_hdim64_decode_sm80"]
    stems = ["flash_fwd_hdim72_fp16_causal_sm80", "flash_fwd_hdim72_bf16_causal_sm80"]
    assert groups(*stems) == ["flash_fwd_hdim72_causal_sm80"]
    with pytest.raises(BenchError, match="sm80"):
        groups("flash_fwd_hdim72_fp16_sm86")


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_cases_of_groups(split: bool, decode: bool, mask: str) -> None:
    group = tune.group_of(make_variant("fwd", 128, 128, "bf16", mask, split, decode))
    for case in tune.timed_cases(group, "bf16", [4096, 1024]):
        assert case.decode == decode and case.causal == (mask == "causal" and not decode)
    checked = tune.checked_cases(group, "bf16")
    assert {case.mask for case in checked} == set(group.masks)
    if decode:
        for case in checked:
            assert case.seqlen_q * case.heads_q // case.heads_kv <= 16


def test_choose() -> None:
    variant = make_variant("fwd", 64, 64, "bf16")
    group = tune.group_of(variant)
    present = tile_of(variant)
    fast, faster = list(tune.neighbours(variant, present))[:2]

    def score(tile: Any, rate: float) -> tune.Score:
        return tune.Score(tile, [rate, rate])

    scores = [score(faster, 330.0), score(fast, 320.0), score(present, 300.0)]
    none = {faster: None, fast: None}
    assert tune.choose(group, scores, present, none.get) is scores[0]
    spilling = {faster: "spills on sm_80", fast: None}
    assert tune.choose(group, scores, present, spilling.get) is scores[1]
    within_noise = [score(fast, 302.0), score(present, 300.0)]
    assert tune.choose(group, within_noise, present, none.get) is None
    assert tune.choose(group, [score(present, 300.0)], present, none.get) is None
    assert tune.choose(group, scores[:2], present, none.get) is scores[0]  # the present one spilled
    assert tune.choose(group, [], present, none.get) is None


class FakeBench:
    """Stands in for tune.Bench: rates come from a formula, and are the best at 96 keys."""

    def __init__(self, group: tune.Group, wrong: str = "") -> None:
        self.dtype, self.target, self.press, self.group = "bf16", "sm_90", self, group
        self.variant = group.variant("bf16")
        self.never_right = wrong
        self.timed: list[int] = []

    def clean(self, variant: Variant, tiles: Any, target: str, *_: Any) -> dict:
        return {tile: None for tile in tiles if tile.stages < 4}  # four stages "spill"

    def runs(self, tile: Any, case: Case) -> bool:
        return tile.warps_n < 4

    def wrong(self, tile: Any) -> str | None:
        return "error" if tile.name == self.never_right else None

    def time(self, tiles: Any, case: Case, rounds: int) -> dict:
        self.timed.append(rounds)
        return {
            t: 300
            - abs(t.block_n - 96)
            - 10 * abs(t.warps_m - 4)
            + 5 * t.q_in_regs
            + t.block_m / 64
            for t in tiles
        }


def test_search() -> None:
    group = tune.group_of(parse_stem("flash_fwd_hdim64_bf16_sm80"))
    variant = group.variant("bf16")
    present = tile_of(variant)
    todo = tune.timed_cases(group, "bf16", [4096, 1024])

    def found(**fake: Any) -> list[tune.Score]:
        return tune.search(group, todo, FakeBench(group, **fake), math.inf, present)

    scores = found()
    best = scores[0].tile
    assert (best.block_n, best.warps_m, best.q_in_regs) == (96, 4, 1)
    assert len(scores) == tune.FINALISTS + 1 and scores[-1].tile == present
    assert all(score.tile.stages < 4 and score.tile.warps_n < 4 for score in scores)
    assert [len(score.rates) for score in scores] == [2] * len(scores)
    assert best not in [score.tile for score in found(wrong=best.name)]
    won = tune.choose(group, scores, present, lambda tile: None)
    note = tune.note_of(scores, won, present, todo, "NVIDIA H200")
    assert "NVIDIA H200, 20" in note and "S 1024 " in note and present.name in note


# ---- Tuning: tiles.toml -------------------------------------------------------------------------


def _winner(stem: str, index: int = 0, note: str = "NVIDIA H200: 350") -> tune.Winner:
    variant = parse_stem(stem)
    tile = list(tune.neighbours(variant, tile_of(variant, ())))[index]
    return tune.Winner(tune.group_of(variant), tile, note)


@pytest.fixture()
def tiles_toml(tmp_path: Path) -> Path:
    path = tmp_path / "tiles.toml"
    path.write_text(tune.TILES_TOML.read_text(encoding="utf-8"), encoding="utf-8")
    return path


def test_winners_reach_their_variants(tiles_toml: Path) -> None:
    before = tiles_toml.read_text().partition(tune.MARKER)[0]
    winners = [
        _winner("flash_fwd_hdim128_bf16_causal_sm80"),
        _winner("flash_fwd_hdim192v128_bf16_sm80"),
        _winner("flash_fwd_split_hdim64_bf16_decode_sm80"),
    ]
    tune.write_winners(tiles_toml, winners)
    text = tiles_toml.read_text()
    assert text.startswith(before.rstrip("\n") + "\n")  # comments and others' rows stay
    assert text.count(tune.MARKER) == 1 and text.endswith("\n")
    load_tuned.cache_clear()
    tuned = load_tuned(tune.ATTENTION, tiles_toml)
    for winner in winners:
        for variant in winner.group.variants():
            assert tile_of(variant, tuned) == winner.tile, variant.stem
    full = parse_stem("flash_fwd_hdim128_bf16_sm80")
    load_tuned.cache_clear()
    assert tile_of(full, tuned) == tile_of(full, load_tuned(tune.ATTENTION))  # not asked for
    assert list(tiles_toml.parent.iterdir()) == [tiles_toml]


def test_own_rows_are_replaced(tiles_toml: Path) -> None:
    stem = "flash_fwd_hdim72_bf16_sm80"
    tune.write_winners(tiles_toml, [_winner(stem, 0, "first")])
    tune.write_winners(tiles_toml, [_winner("flash_fwd_hdim64_bf16_causal_sm80", 0, "other")])
    tune.write_winners(tiles_toml, [_winner(stem, 1, 'the "second"')])
    text = tiles_toml.read_text()
    assert "first" not in text and "the 'second'" in text and "other" in text
    once = tiles_toml.read_bytes()
    tune.write_winners(tiles_toml, [_winner(stem, 1, 'the "second"')])
    assert tiles_toml.read_bytes() == once
    load_tuned.cache_clear()
    assert (
        tile_of(parse_stem(stem), load_tuned(tune.ATTENTION, tiles_toml)) == _winner(stem, 1).tile
    )


def test_a_more_specific_row_is_an_error_and_the_file_stays(tiles_toml: Path) -> None:
    winner = _winner("flash_fwd_hdim72_bf16_sm80")
    rows = [
        {**winner.group.keys, "dtype": dtype, "tile": _winner(winner.group.variant("bf16").stem, 1)}
        for dtype in ("fp16", "bf16")
    ]
    text = tiles_toml.read_text()
    for row in rows:
        row["tile"] = row["tile"].tile.name
        text = text.rstrip("\n") + "\n\n" + tune._row_text(row)
    tiles_toml.write_text(text)
    with pytest.raises(GeneratorError, match="more keys"):
        tune.write_winners(tiles_toml, [winner])
    assert tiles_toml.read_text() == text
    assert list(tiles_toml.parent.iterdir()) == [tiles_toml]


# ---- Compiling one kernel -----------------------------------------------------------------------


def _header_structs() -> dict[str, tuple[list[str], int]]:
    """Of the argument headers: struct -> its fields in order, and its size."""
    headers = ROOT / "include" / "attnpress" / "args"
    text = "".join((headers / name).read_text() for name in ("common.h", "attention.h"))
    sizes = {n: int(s) for n, s in re.findall(r"sizeof\((\w+)\) == (\d+)", text)}
    bare = re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace(" ATTNPRESS_ALIGNED_64", "")
    return {
        name: (
            re.findall(r"(\w+)(?:\[\w+\])?\s*(?=[,;])", re.sub(r"\s+", " ", body)),
            sizes.get(name, 0),
        )
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", bare, flags=re.S)
    }


def test_argument_structs_mirror_the_header() -> None:
    structs = _header_structs()
    for mirror, name in (
        (ForwardArgs, "attnpress_fwd_args"),
        (CombineArgs, "attnpress_fwd_combine_args"),
        (ForwardSm90Args, "attnpress_fwd_sm90_args"),
        (TensorMap, "attnpress_tensor_map"),
        (Divisor, "attnpress_divisor"),
    ):
        fields, size = structs[name]
        assert [field[0] for field in mirror._fields_] == fields
        if mirror not in (TensorMap, Divisor):  # whose sizes follow from those of the others
            assert ctypes.sizeof(mirror) == size


# ---- Tensor maps and units of work, of sm90 -----------------------------------------------------


def test_divisors() -> None:
    rng = random.Random(5)
    for value in [
        1,
        2,
        3,
        5,
        7,
        64,
        132,
        2**31 - 1,
        *(rng.randrange(1, 2**31) for _ in range(200)),
    ]:
        divisor = Divisor.of(value)
        edges = [0, 1, value - 1, value, value + 1, 2 * value - 1, 2**31 - 1, rng.randrange(2**31)]
        for n in edges:
            if n < 2**31:
                assert n * divisor.multiplier >> divisor.shift == n // value, (n, value)


def _units_of(args: ForwardSm90Args, grid: int) -> list[tuple[int, int]]:
    """(head, row block) of each unit in the order of rounds, as the kernel's find_unit() has it."""
    found = []
    for round_ in range(args.rounds):
        group, group_round = divmod(round_, args.group_rounds.value)
        for block in range(grid):
            place = block if group_round % 2 == 0 else grid - 1 - block
            group_unit = group_round * grid + place
            unit = group * args.group_units + group_unit
            section, section_unit = divmod(unit, args.section_units.value)
            row_block, head = divmod(section_unit, args.section_heads.value)
            head += section * args.section_heads.value
            if group_unit < args.group_units and head < args.heads:
                found.append((head, row_block))
    return found


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("batch", "heads_q", "heads_kv", "row_blocks", "splits", "seqlen_k"),
    [
        (1, 1, 1, 1, 1, 1),
        (2, 6, 2, 3, 1, 300),
        (4, 16, 16, 32, 1, 4096),
        (1, 32, 8, 128, 1, 16384),
        (3, 5, 5, 7, 4, 900),
        (1, 7, 1, 1000, 1, 100000),
    ],
)
def test_every_unit_is_dealt_once(
    causal: bool,
    batch: int,
    heads_q: int,
    heads_kv: int,
    row_blocks: int,
    splits: int,
    seqlen_k: int,
) -> None:
    fwd = ForwardArgs(batch=batch, heads_q=heads_q, heads_kv=heads_kv, heads_per_tile=1)
    fwd.row_blocks, fwd.num_splits = row_blocks, splits
    args = ForwardSm90Args(fwd=fwd)
    grid = deal_units(args, causal, 2 * seqlen_k * 256, 132)
    heads = batch * heads_q * splits
    assert grid == min(132, heads * row_blocks)
    assert args.heads == heads and args.tile_heads.value == heads_q
    units = _units_of(args, grid)
    assert len(units) == len(set(units)) == heads * row_blocks
    assert set(units) == {(head, row) for head in range(heads) for row in range(row_blocks)}


class FakeTensor:
    """(batch, seqlen, heads, head dim) in memory as (batch, heads, seqlen, head dim)."""

    shape = (2, 100, 3, 72)

    def stride(self, dim: int) -> int:
        return (3 * 100 * 72, 72, 100 * 72, 1)[dim]

    def data_ptr(self) -> int:
        return 4096


def test_tensor_views() -> None:
    assert view_queries(FakeTensor()) == TensorView(
        4096, (72, 3, 100, 2), (14400, 144, 43200), (64, 1, 64, 1)
    )
    assert view_keys(FakeTensor(), 176) == TensorView(
        4096, (72, 100, 3, 2), (144, 14400, 43200), (64, 176, 1, 1)
    )


def test_compiler_report() -> None:
    log = (
        "ptxas info    : Function properties for k\n"
        "    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
        "ptxas info    : Used 255 registers, used 1 barriers\n"
    )
    assert read_report(log) == (255, 8, 28)
    with pytest.raises(CompileError):
        read_report("nothing")


def test_press_compiles_and_sees_spills() -> None:
    try:
        Nvrtc()
    except BenchError as error:
        pytest.skip(str(error))
    press = tune.Press(threads=2)
    variant = parse_stem("flash_fwd_hdim64_bf16_sm80")
    good = tile_of(variant)
    fits = press.compile(variant, good, "sm_80")
    assert not isinstance(fits, str), fits
    assert not fits.spills and 0 < fits.registers <= 255 and fits.cubin.startswith(b"\x7fELF")
    assert press.compile(variant, good, "sm_80") is fits
    crowded = good.replace(min_blocks=8)  # leaves a thread too few registers
    assert set(press.clean(variant, [good, crowded], "sm_80", math.inf)) == {good}
    tried: list[Tile] = []
    assert press.clean(variant, [tile_of(variant, ())], "sm_80", deadline=0.0, tried=tried) == {}
    assert tried == []
    press.clean(variant, [good, crowded], "sm_80", math.inf, tried=tried)
    assert tried == [good, crowded]
    assert isinstance(press.compile(variant, good, "sm_1"), str)


# ---- With PyTorch, and with a GPU ---------------------------------------------------------------


def _torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.mark.parametrize(
    "case",
    [
        Case(2, 6, 2, 113, 203, 64, 64, "bf16"),
        Case(1, 4, 4, 130, 130, 40, 40, "fp16", causal=True),
        Case(1, 2, 1, 100, 300, 192, 128, "bf16", causal=True),
        Case(3, 8, 2, 1, 515, 128, 128, "bf16", decode=True),
    ],
    ids=lambda case: case.title,
)
def test_criterion(case: Case) -> None:
    """What an independent implementation computes is right; a small error, and a NaN, are not."""
    torch = _torch()
    import random

    from bench.gpu import DTYPES, errors_on_rows

    torch.manual_seed(1)
    dtype = DTYPES[case.dtype]
    q = torch.randn(case.batch, case.seqlen_q, case.heads_q, case.hdim, dtype=dtype)
    k = torch.randn(case.batch, case.seqlen_k, case.heads_kv, case.hdim, dtype=dtype)
    v = torch.randn(case.batch, case.seqlen_k, case.heads_kv, case.hdim_v, dtype=dtype)
    mask = None
    if case.causal:
        ones = torch.ones(case.seqlen_q, case.seqlen_k, dtype=torch.bool)
        mask = ones.tril(diagonal=case.seqlen_k - case.seqlen_q)
    right = torch.nn.functional.scaled_dot_product_attention(
        *(t.float().transpose(1, 2) for t in (q, k, v)),
        attn_mask=mask,
        enable_gqa=case.heads_q != case.heads_kv,
    ).transpose(1, 2).to(dtype)  # fmt: skip
    off, holed = right + 0.02, right.clone()
    holed[0, 0] = math.nan
    outs = {"right": right, "off": off, "holed": holed}
    errors, low = errors_on_rows(case, (q, k, v), outs, random.Random(0))
    assert 0 < errors["right"] <= 2 * low + 1e-5
    assert not errors["off"] <= 2 * low + 1e-5
    assert math.isnan(errors["holed"])


def test_clock_summary() -> None:
    _torch()
    from bench.gpu import summarize_clocks

    rows = [[345, 3201, 80, 30, 0], [1980, 3201, 690, 50, 100], [1500, 3201, 700, 60, 100]]
    summary = summarize_clocks(rows)
    assert summary["samples"] == 3 and summary["busy_samples"] == 2
    assert summary["sm_mhz"] == {"min": 1500, "median": 1740, "max": 1980}
    assert summarize_clocks([]) == {"samples": 0, "busy_samples": 0}


def _needs_gpu() -> None:
    if not _torch().cuda.is_available():
        pytest.skip("no CUDA device")


def test_no_gpu_is_one_sentence(capsys: Any) -> None:
    if _torch().cuda.is_available():
        pytest.skip("there is one")
    assert compare.main(["--quick"]) == 2
    assert capsys.readouterr().err.startswith("compare.py: ")
    assert tune.main(["--dims", "64"]) == 2
    assert "no CUDA device" in capsys.readouterr().err


def test_small_run_on_the_gpu(request: Any, tmp_path: Path) -> None:
    _needs_gpu()
    request.getfixturevalue("build_dir")
    pytest.importorskip("rich")
    path = tmp_path / "run.json"
    words = ["--forward", "--decode", "--dims", "64", "--seqlens", "256", "--rounds", "3"]
    assert compare.main([*words, "--json", str(path)]) == 0
    document = report.load(path)
    for cell in document["cells"]:
        for name in (OURS, "flash2"):
            assert "ms" in cell["results"][name], (report.case_of(cell).title, cell["results"])
            assert "wrong" not in cell["results"][name]
    assert document["machine"]["ceilings"]["copy_gb_s"][0] > 0


@pytest.mark.parametrize(
    "stem",
    [
        "flash_fwd_hdim72_bf16_causal_sm80",
        "flash_fwd_split_hdim128_bf16_decode_sm80",
        "flash_fwd_hdim64_bf16_decode_sm80",
        "flash_fwd_hdim72_bf16_causal_sm90",
        "flash_fwd_split_hdim192v128_fp16_sm90",
    ],
)
def test_tuner_launches_what_the_library_would(stem: str) -> None:
    """Its own launch of the present tile computes what it should; a wrong launch is seen."""
    _needs_gpu()
    from bench.gpu import Gpu

    gpu = Gpu()
    variant = parse_stem(stem)
    capability = 10 * gpu.properties.major + gpu.properties.minor
    if variant.arch not in tune.CAPABILITY_ARCHS.get(capability, (86,)):
        pytest.skip(f"capability {capability / 10} does not run sm{variant.arch}")
    target = tune.own_target(90) if variant.arch == 90 else f"sm_{capability}"
    bench = tune.Bench(tune.group_of(variant), variant.dtype, tune.Press(), gpu, target)
    tile = tile_of(variant)
    assert bench.wrong(tile) is None
    case = tune.timed_cases(bench.group, variant.dtype, [256])[0]
    assert bench.time([tile], case, 3)[tile] > 0
    bench.attention(tile).tile = tile.replace(block_m=2 * tile.block_m)  # half the rows missing
    assert bench.wrong(tile) is not None or variant.decode


# ---- Tiles of the backward pass ------------------------------------------------------------------


def test_backward_args() -> None:
    text = (ROOT / "include/attnpress/args/attention.h").read_text()
    sizes = {n: int(s) for n, s in re.findall(r"sizeof\((\w+)\) == (\d+)", text)}
    mirrors = [
        (backward_tiles.BackwardArgs, "attnpress_bwd_args"),
        (backward_tiles.BackwardSm90Args, "attnpress_bwd_sm90_args"),
    ]
    for mirror, name in mirrors:
        assert ctypes.sizeof(mirror) == sizes[name]
        struct = re.search(rf"typedef struct {name} {{(.*?)}} {name};", text, re.S)[1]
        struct = re.sub(r"/\*.*?\*/", "", struct, flags=re.S)
        struct = re.sub(r"union {(.*?;).*?};", r"\1", struct, flags=re.S)  # its first name
        fields = re.findall(r"(\w+)(?:\[\d+\])?[;,]", struct)
        assert fields == [field for field, _ in mirror._fields_ if field != "padding"]


def test_backward_candidates() -> None:
    """The present tile first, then what is legal; names alone where they are given."""
    for hdim in (64, 96, 112, 192):
        variant = make_variant("bwd", hdim, hdim, "bf16", arch=90)
        tiles = backward_tiles.candidates(variant)
        assert tiles[0] == tile_of(variant) and len(set(tiles)) == len(tiles) > 1, hdim
        assert all(problems(variant, tile) == [] for tile in tiles)
        assert any(tile.v_in_regs for tile in tiles) == (hdim <= 96)
    variant = make_variant("bwd", 64, 64, "bf16", arch=90)
    named = backward_tiles.candidates(variant, ["m64n128s2d4kv", "m64n128s2d4v"])
    assert [tile.name for tile in named[1:]] == ["m64n128s2d4kv", "m64n128s2d4v"]
    wide = make_variant("bwd", 96, 96, "bf16", arch=90)
    with pytest.raises(BenchError, match="over 100"):
        backward_tiles.candidates(wide, ["m64n128s2d4v"])


@pytest.mark.parametrize("hdim", [64, 80, 96])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_backward_tiles_compute_gradients(hdim: int, mask: str, capsys) -> None:
    """Every legal tile, those that keep K and V in registers among them, against float64."""
    _needs_gpu()
    import torch

    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("only compute capability 9.0 runs these kernels")
    words = f"--dims {hdim} --masks {mask} --seqlens 512 1024 --group 2 --rounds 1"
    assert backward_tiles.main(words.split()) == 0
    out = capsys.readouterr().out
    assert "kv" in out or hdim > 80
    assert "WRONG" not in out, out


# ---- Tiles of softmax ----------------------------------------------------------------------------


def test_softmax_args() -> None:
    text = (ROOT / "include/attnpress/args/softmax.h").read_text()
    sizes = {n: int(s) for n, s in re.findall(r"sizeof\((\w+)\) == (\d+)", text)}
    mirrors = [
        (softmax_tiles.ForwardArgs, "attnpress_softmax_fwd_args"),
        (softmax_tiles.BackwardArgs, "attnpress_softmax_bwd_args"),
    ]
    for mirror, name in mirrors:
        assert ctypes.sizeof(mirror) == sizes[name]
        struct = re.search(rf"typedef struct {name} {{(.*?)}} {name};", text, re.S)[1]
        struct = re.sub(r"/\*.*?\*/", "", struct, flags=re.S)
        assert re.findall(r"(\w+)[;,]", struct) == [field for field, _ in mirror._fields_]


@pytest.mark.parametrize(("pass_", "dtype"), [("fwd", "fp16"), ("bwd", "fp32")])
def test_softmax_candidates(pass_: str, dtype: str) -> None:
    for cols in softmax_tiles.COLS:
        variant = parse_stem(f"softmax_{pass_}_cols{cols}_{dtype}_sm80")
        tiles = softmax_tiles.candidates(variant, [])
        assert tiles[0] == tile_of(variant) and len(set(tiles)) == len(tiles) > 3
        assert not any(problems(variant, tile) for tile in tiles)
        assert cols < 4096 or any(tile.in_shared for tile in tiles)
        for columns in softmax_tiles.columns_of(variant):
            # The kernel takes them, and the next smaller one does not.
            vector = 4 if dtype == "fp32" else 8
            assert columns <= cols + vector - 1
            place = softmax_tiles.COLS.index(cols)
            assert place == 0 or columns > softmax_tiles.COLS[place - 1] + vector - 1


def test_softmax_ranking() -> None:
    cases = [
        {"copy": 4.0, "torch": 1.0, "a": 2.0, "b": 4.0},
        {"copy": 2.0, "torch": 1.0, "a": 2.0, "b": 0.5},
    ]
    ranked = softmax_tiles.ranking(cases)
    assert [name for _, name in ranked] == ["a", "b"]
    assert ranked[0][0] == pytest.approx(0.5**0.5) and ranked[1][0] == pytest.approx(0.5)


def test_medians_of_calls_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers rotate, the call before the events is not timed, and the median is that of a call.
    Which contender is first changes."""
    clock, made = [0.0], []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at_ms = clock[0]

        def elapsed_time(self, end: Event) -> float:
            return end.at_ms - self.at_ms

    cuda = SimpleNamespace(Event=Event, synchronize=lambda: None)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.delitem(sys.modules, "bench.timing", raising=False)
    from bench.timing import medians

    def call(name: str, buffers: int, us: float) -> None:
        made.append((name, buffers))
        slow = 10 if len(made) > 40 else 1  # a few rounds of many
        clock[0] += us * slow * 1e-3

    contenders = {
        name: [partial(call, name, i, us) for i in range(2)] for name, us in (("a", 3), ("b", 5))
    }
    assert medians(contenders, 4, 5) == pytest.approx({"a": 3.0, "b": 5.0})
    turn = [("a", 1), ("a", 0), ("a", 1), ("a", 0), ("a", 1)]
    assert sorted([made[4:9], made[9:14]]) == [turn, [("b", i) for _, i in turn]]
    assert len(made) == 4 + 5 * 10
    monkeypatch.delitem(sys.modules, "bench.timing")


# ---- Training ------------------------------------------------------------------------------------


def test_training_scripts_run_on_the_cpu() -> None:
    """Where attnpress computes in fp32 too: curves and gradients are float32's."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}

    def printed(script: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, str(ROOT / "bench" / script), *arguments],
            capture_output=True, text=True, cwd=ROOT, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    text = printed(
        "train_gpt.py", "--cpu", "--steps", "3", "--batch", "1", "--seqlen", "32",
        "--seeds", "1", "2", "--dims", "64",
    )  # fmt: skip
    rows = re.findall(r"attnpress +(\d|mean) +(\S+) +(\S+) +(\S+) +(\S+)$", text, re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "2", "mean"]
    assert all(float(x) < 1e-5 for row in rows for x in row[1:])
    errors = text.splitlines()[-2].split()
    assert errors[0] == "attnpress" and all(0.0 < float(x) < 1e-5 for x in errors[1:])
    text = printed(
        "training_step.py", "--rounds", "1", "--steps", "1", "--ways", "attnpress", "flash"
    )
    losses = re.findall(r": loss (\S+), first step", text)
    assert len(losses) == 2 and math.isclose(*map(float, losses), rel_tol=1e-5)
    assert text.count("of the first, loss") == 2


def test_lengths() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from bench import decode, ragged

    for (batch, keys), tokens in decode.TOKENS.items():
        lengths = decode.lengths_of(batch, keys)
        assert len(lengths) == batch and sum(lengths) == tokens and min(lengths) >= 1
    assert ragged.lengths_of("8x2048") == [2048] * 8
    assert ragged.lengths_of("512x128") == ragged.SETS["512x128"]
    for wrong in ("8x", "0x128", "8x2048x2", "long"):
        with pytest.raises(ValueError, match=f"{wrong} is none of"):
            ragged.lengths_of(wrong)
