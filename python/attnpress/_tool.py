"""The command-line tool: where it is, and how it is run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from . import _library as c


def find_tool() -> Path | None:
    """Beside the package, as in a wheel, or beside the library."""
    folders = [Path(__file__).resolve().parent, Path(c.library_path).resolve().parent]
    folders.append(folders[1].parent / "bin")  # an installed prefix
    tools = (folder / "attnpress" for folder in folders)
    return next((tool for tool in tools if tool.is_file() and os.access(tool, os.X_OK)), None)


def missing() -> str:
    return f"the tool is neither beside the package nor beside {c.library_path}"


def environment() -> dict[str, str]:
    """The process's, with pip's NVRTC behind the loader's own path, where the tool looks first."""
    variables = dict(os.environ)
    if "ATTNPRESS_NVRTC" not in variables and (paths := c.nvrtc_of_pip()):
        folders = [variables.get("LD_LIBRARY_PATH", ""), str(Path(paths[0]).parent)]
        variables["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    return variables


def run_tool(*words: str) -> str:
    """What the tool prints. FileNotFoundError where there is none; ValueError, with the tool's
    sentence, for words that are not allowed, and RuntimeError where it failed."""
    tool = find_tool()
    if tool is None:
        raise FileNotFoundError(missing())
    done = subprocess.run(
        [str(tool), *words], env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sentence = done.stderr.strip().removeprefix(f"attnpress {words[0]}: ")
        sentence = sentence.removesuffix(f"; see attnpress {words[0]} --help")
        raise (ValueError if done.returncode == 2 else RuntimeError)(sentence)
    return done.stdout
