"""python -m attnpress: the command-line tool, from beside this package or from a checkout's build.
See `python -m attnpress --help`; `python -m attnpress doctor` says what is missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from . import _library as c


def find_tool() -> Path | None:
    """Beside the package, as in a wheel, or beside the library."""
    folders = [Path(__file__).resolve().parent, Path(c.library_path).resolve().parent]
    folders.append(folders[1].parent / "bin")  # an installed prefix
    tools = (folder / "attnpress" for folder in folders)
    return next((tool for tool in tools if tool.is_file() and os.access(tool, os.X_OK)), None)


def main() -> None:
    tool = find_tool()
    if tool is None:
        sys.exit(f"attnpress: the tool is neither beside the package nor beside {c.library_path}")
    if "ATTNPRESS_NVRTC" not in os.environ and (paths := c.nvrtc_of_pip()):
        # After the loader's own path, where the tool looks first.
        folders = [os.environ.get("LD_LIBRARY_PATH", ""), str(Path(paths[0]).parent)]
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
    sys.stdout.flush()
    os.execv(tool, [str(tool), *sys.argv[1:]])


if __name__ == "__main__":
    main()
