"""Every command of the documents: it is run, or it is named here with the reason why not; and what
is said of the tool between the lines is what it takes."""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_readme import commands as commands_of_readme

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = (
    "README.md", "CONTRIBUTING.md", "docs/backward.md", "docs/conv2d.md", "docs/families.md",
    "docs/hopper.md", "docs/layernorm.md", "docs/python.md", "docs/score-mods.md", "docs/sm80.md",
    "tests/emulator/README.md",
)  # fmt: skip

WHOLE_BUILD = "it is the build that this test is part of"
GPU = "it measures on a GPU"
WHEEL = "tests/test_wheel.py makes it"
STAND_IN = "tests/test_torch_stand_in.py runs it"
INSTALLS = "test_install_and_example runs it"
OWN_MOD = "tests/test_score_mods.py writes such a file and runs it"
NOT_RUN = {
    "make build": WHOLE_BUILD,
    "cmake --install build": INSTALLS,
    "export PKG_CONFIG_PATH=": INSTALLS,
    "cc -o build/forward": INSTALLS,
    "build/forward": INSTALLS,
    "pip install '.[jit]'": WHEEL,
    "python -m attnpress doctor": WHEEL,
    "build/attnpress doctor": "tests/test_tool.sh does; its status says whether there is a GPU",
    "build/attnpress run --causal --mod own.mod": OWN_MOD,
    "make demo": WHOLE_BUILD,
    "make test": WHOLE_BUILD,
    "make generate && make build": WHOLE_BUILD,
    "make wheel": WHEEL,
    "make sdist": WHEEL,
    "python -m attnpress.run train.py": STAND_IN,
    "python -m attnpress shim": STAND_IN,
    "python -m attnpress hf-kernel": STAND_IN,
    "export LOCAL_KERNELS=": STAND_IN,
    "ATTNPRESS_BUILD_DIR=build python -m pytest": "these are tests of their own",
    "cmake -S . -B build -G Ninja": WHOLE_BUILD,
    "cmake --build build": WHOLE_BUILD,
    "ctest --test-dir build": WHOLE_BUILD,
    "python bench/compare.py --forward": GPU,
    "python bench/compare.py --decode": GPU,
}  # by how they begin
SHORTER = {  # what takes minutes, a sample of it
    "build/attnpress-emulate default --only '*sm90'": "--one-in 100",
    "build/attnpress-emulate default --only 'outer*' --verbose": "--one-in 6",
}


def lines_of(name: str) -> list[str]:
    """The lines of a document's shell blocks, without comments."""
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"\s+# .*", "", line) for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.strip()]


def all_lines() -> list[str]:
    by_readme = set(commands_of_readme())
    lines = dict.fromkeys(line for name in DOCUMENTS for line in lines_of(name))
    return [line for line in lines if line not in by_readme]


def test_there_are_commands():
    found = all_lines()
    assert len(found) > 15
    for begin in (*NOT_RUN, *SHORTER):  # none is kept for a command that is gone
        assert any(line.startswith(begin) for line in found), begin


LINES = [line for line in all_lines() if not line.startswith(tuple(NOT_RUN))]


@pytest.mark.parametrize("line", LINES)
def test_command(line: str, build_dir: Path, tmp_path: Path):
    if "emulate" in line and not (build_dir / "attnpress-emulate").exists():
        pytest.skip("attnpress-emulate was not built: it needs clang")
    if "man -l" in line and shutil.which("man") is None:
        pytest.skip("man is not installed")
    command = f"{line} {SHORTER.get(line, '')}"
    if "mutate.py" in command:
        command += " --emulate build/attnpress-emulate"
    command = re.sub(r"\bbuild/(?=attnpress)", f"{build_dir}/", command)
    command = re.sub(r"(?<=\s)build/", f"{tmp_path}/", command)
    command = re.sub(r"^(\.venv/bin/)?python\b", shlex.quote(sys.executable), command)
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "ATTNPRESS_CACHE_DIR": str(tmp_path / "cache")},
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert "DID NOT HOLD" not in done.stdout and not done.stdout.startswith("0 kernels")


def test_install_and_example(build_dir: Path, tmp_path: Path):
    """The block of the README that installs to a prefix and builds an example against it."""
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(
        r"^```sh\nmake build\n(cmake --install.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    libdir = re.search(
        r"^CMAKE_INSTALL_LIBDIR:\w+=(.*)$", (build_dir / "CMakeCache.txt").read_text(), re.MULTILINE
    )
    script = block[1].replace("--install build ", f"--install {build_dir} ")
    script = script.replace("build/prefix/lib", f"build/prefix/{libdir[1]}")
    script = re.sub(r"(?<=[\s=])build/|^build/", f"{tmp_path}/", script, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "out[0] = " in done.stdout


def tables(build_dir: Path) -> dict[str, set[str]]:
    """The options of each command of the tool, as fish is told of them."""
    done = subprocess.run(
        [str(build_dir / "attnpress"), "completions", "fish"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, set[str]] = {}
    pattern = r"^complete -c attnpress -n '__attnpress_is ([a-z0-9 ]+)' -l (\S+)"
    for command, option in re.findall(pattern, done.stdout, flags=re.MULTILINE):
        found.setdefault(command, set()).add(f"--{option}")
    return found


@pytest.mark.parametrize("name", [*DOCUMENTS, "CHANGELOG.md", "SECURITY.md"])
def test_what_is_said_of_the_tool(name: str, build_dir: Path):
    """`attnpress COMMAND --option` in the text: both exist."""
    known = tables(build_dir)
    commands = {command.split()[0] for command in known} | {"run", "manual", "completions"}
    text = (ROOT / name).read_text(encoding="utf-8")
    for code in re.findall(r"`(?:build/)?attnpress ([^`]+)`", text):
        words = code.split()
        assert words[0] in commands, f"{name}: attnpress {code}"
        family = f"run {words[1]}" if len(words) > 1 and f"run {words[1]}" in known else None
        command = family or ("run attention" if words[0] == "run" else words[0])
        options = {word.split("=")[0] for word in words if word.startswith("--")}
        unknown = options - known.get(command, set()) - {"--help"}
        assert not unknown, f"{name}: attnpress {code}: {unknown}"


def shown_signatures() -> list[tuple[str, str]]:
    """`attnpress.function(a, b, *, c)`, as tables of the documents have it: name, arguments."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in DOCUMENTS)
    rows = "".join(re.findall(r"^\| .*\n", text, flags=re.MULTILINE))
    return sorted(set(re.findall(r"`(attnpress(?:\.[A-Za-z_0-9]+)+)\(([^`]*)\)`", rows)))


@pytest.mark.parametrize(("name", "words"), shown_signatures())
def test_shown_signature(name: str, words: str, build_dir: Path):
    """Its arguments exist, all of them unless there is a `...`, and those before the * can be given
    by position, in this order."""
    parameters = inspect.signature(pkgutil.resolve_name(name)).parameters
    by_name = {n for n, p in parameters.items() if p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD)}
    positional = [n for n in parameters if n not in by_name]
    shown = [word.strip().lstrip("*") for word in words.split(",") if word.strip() != "..."]
    if "..." not in words:
        assert sorted(filter(None, shown)) == sorted(parameters)
    end = shown.index("") if "" in shown else len(shown)
    if words.rpartition("**")[0] and "" not in shown:  # the ** stands for the *
        end -= 1
    assert shown[:end] == [n for n in positional if n in shown[:end]]
    assert set(shown[end + 1 :]) <= by_name


def test_figures_without_rich(tmp_path: Path):
    """What was measured is shown on a machine that lacks rich."""
    (tmp_path / "rich.py").write_text("raise ImportError('rich is not here')\n")
    hidden = (
        "import importlib.util, runpy, sys; find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n == 'rich' else find(n, *a)\n"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    (line,) = (line for line in all_lines() if "--from" in line and "--dims" in line)
    done = subprocess.run(
        [sys.executable, "-c", hidden, *shlex.split(line)[1:]],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Forward, bf16" in done.stdout and "NVIDIA H200" in done.stdout
