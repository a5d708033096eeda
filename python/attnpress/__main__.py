"""python -m attnpress: the command-line tool, from beside this package or from a checkout's build.
See `python -m attnpress --help`; `python -m attnpress doctor` says what is missing."""

from __future__ import annotations

import os
import sys

from ._tool import environment, find_tool, missing


def main() -> None:
    tool = find_tool()
    if tool is None:
        sys.exit(f"attnpress: {missing()}")
    sys.stdout.flush()
    os.execve(tool, [str(tool), *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
