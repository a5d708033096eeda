"""The Python examples, run as they stand: on CPU tensors, or on a GPU where there is one."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
ROOT = Path(__file__).resolve().parent.parent
NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="it needs a GPU")


PATHS = (str(ROOT / "python"), os.environ.get("PYTHONPATH", ""))


def run(name: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments],
        check=False, capture_output=True, text=True, timeout=300,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, PATHS)),
        },
    )  # fmt: skip


def printed(name: str, *arguments: str) -> str:
    done = run(name, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_example_is_here() -> None:
    tested = set(re.findall(r'"(\w+\.py)"', Path(__file__).read_text(encoding="utf-8")))
    assert tested == {path.name for path in (ROOT / "examples").glob("*.py")}


def test_training_step_learns() -> None:
    losses = [float(x) for x in re.findall(r"loss (\S+)", printed("training_step.py"))]
    assert losses[0] > 3 and losses[-1] < 1


def test_paged_generation_gives_the_tokens_without_a_cache() -> None:
    counts = re.findall(r", (\d+) more .* (\d+) of them", printed("paged_generation.py"))
    assert len(counts) == 2
    for generated, same in counts:  # rounding may choose another of two tokens that tie in bf16
        assert int(same) == int(generated) if not torch.cuda.is_available() else int(same) > 35


@NEEDS_GPU
@pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="transformers is not installed"
)
def test_transformers_model() -> None:
    assert re.match(r"loss \S+, generated", printed("transformers_model.py"))


def test_score_mod() -> None:
    done = run("score_mod.py")
    if torch.cuda.is_available():
        assert float(re.findall(r"difference: (\S+)", done.stdout)[0]) < 2e-2
    else:  # a CPU that runs snippets, or the library's sentence
        assert "largest difference" in done.stdout or "not here: score_mod" in done.stderr
