"""The documents: words that are not to come back, links that lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Each with what is said instead.
WORDS = {
    r"\bcan say\b": "express",
    r"\bbut for (?!example|instance)": "except",
    r"\bmend(s|ed|ing)?\b": "remedy, repair",
    r"\bgo(es)? round\b|\bwent round\b": "work around",
    r"\bpassed over\b|\bpasses over\b": "skipped",
}
LEFT_AS_THEY_ARE = (
    "generated/",
    "tests/abi/",
    "bench/results/",
    "tests/test_words.py",
)
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "bench/NOTES.md",
    "bench/README.md",
    "docs/backward.md",
    "docs/conv2d.md",
    "docs/families.md",
    "docs/hopper.md",
    "docs/layernorm.md",
    "docs/python.md",
    "docs/score-mods.md",
    "docs/sm80.md",
    "generator/README.md",
    "tests/emulator/README.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "bench" / "notes").glob("*.md")),
)


def texts() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0 or not listed.stdout:
        pytest.skip("not a checkout of git")
    ends = (".c", ".cu", ".cuh", ".h", ".j2", ".md", ".py", ".sh", ".toml", ".cmake", ".txt")
    names = [
        name
        for name in listed.stdout.splitlines()
        if name.endswith(ends) and not name.startswith(LEFT_AS_THEY_ARE)
    ]
    return [ROOT / name for name in names if (ROOT / name).exists()]


@pytest.mark.parametrize("pattern", WORDS)
def test_words(pattern: str):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(pattern, line, flags=re.IGNORECASE)
    ]
    assert not found, f"say {WORDS[pattern]}:\n" + "\n".join(found)


def anchors(text: str) -> set[str]:
    """Of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in headings}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links(name: str):
    path = ROOT / name
    for target in re.findall(r"\]\(([^)#\s]*(?:#[^)\s]*)?)\)", path.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        other = (path.parent / file) if file else path
        assert other.exists(), f"{name} links to {target}"
        if anchor:
            assert anchor in anchors(other.read_text(encoding="utf-8")), f"{name}: {target}"


def public_names() -> set[str]:
    """Of the Python package: what its modules define without an underscore, or name in __all__."""
    found = set()
    for path in sorted((ROOT / "python/attnpress").glob("*.py")):
        if path.name.startswith("__main__") or path.name == "run.py":
            continue
        nodes = ast.parse(path.read_text(encoding="utf-8")).body
        lists = [
            ast.literal_eval(node.value)
            for node in nodes
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
        ]
        if lists:
            found.update(lists[0])
        elif not path.name.startswith("_"):
            functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef))
            found.update(name for name in functions if not name.startswith("_"))
    return found


def test_python_functions_are_documented():
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    names = public_names()
    assert {"flash_attn_func", "rms_norm", "varlen_bwd", "install", "activate"} <= names
    assert not sorted(name for name in names if not re.search(rf"\b{name}\b", text))


def test_every_section_is_in_the_contents():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    contents = text[text.index("Contents:") : text.index("## ")]
    for head in re.findall(r"^## (.*)$", text, flags=re.MULTILINE):
        assert f"[{head}](#" in contents, head


def test_the_version_is_one():
    header = (ROOT / "include/attnpress/attnpress.h").read_text(encoding="utf-8")
    version = ".".join(
        re.search(rf"ATTNPRESS_VERSION_{part} (\d+)", header)[1]
        for part in ("MAJOR", "MINOR", "PATCH")
    )
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
