"""What every Python test may rely on: the repository's own modules are importable,
ATTNPRESS_BUILD_DIR names the build folder (default build/), and the cubin cache is a folder of this
test run, never the user's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("ATTNPRESS_BUILD_DIR", ROOT / "build"))

for folder in (ROOT, ROOT / "python"):
    sys.path.insert(0, str(folder))
os.environ.setdefault("ATTNPRESS_LIBRARY", str(BUILD / "libattnpress.so"))
_cache = tempfile.TemporaryDirectory(prefix="attnpress-test-cache-")
os.environ["ATTNPRESS_CACHE_DIR"] = _cache.name


def pytest_unconfigure() -> None:
    _cache.cleanup()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A file of which -k takes nothing is skipped, for ctest, and has not failed."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = 77


def pytest_report_header() -> str:
    return f"attnpress build folder: {BUILD}"


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """The build folder; fails where nothing was built."""
    if not (BUILD / "libattnpress.so").exists():
        pytest.fail(f"{BUILD} has no libattnpress.so: run `make build`, or set ATTNPRESS_BUILD_DIR")
    return BUILD


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def mypy(build_dir: Path) -> Callable[..., str]:
    """Runs it; what it knows of NumPy is kept in the build folder."""
    command = ["mypy"] if shutil.which("mypy") else [sys.executable, "-m", "mypy"]
    version = subprocess.run([*command, "--version"], capture_output=True, check=False)
    if version.returncode:
        pytest.skip("mypy is not installed")

    def run(*arguments: object, **keywords: Any) -> str:
        return subprocess.run(
            [*command, "--cache-dir", str(build_dir / "mypy-cache"), *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            **keywords,
        ).stdout

    return run
