"""python -m attnpress.run [--force] SCRIPT [ARGUMENTS ...]
python -m attnpress.run [--force] -m MODULE [ARGUMENTS ...]

Runs a script or a module with attnpress in flash-attn's place. --force: also where a real
flash-attn is installed, which it refuses otherwise.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

from ._stand_in import install


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return False


def main() -> None:
    arguments = sys.argv[1:]
    force = None
    if arguments[:1] == ["--force"]:
        force, arguments = True, arguments[1:]
    is_module = arguments[:1] == ["-m"]
    if is_module:
        arguments = arguments[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        sys.exit(0 if arguments else 2)
    if not is_module and not Path(arguments[0]).exists():
        sys.exit(f"attnpress.run: there is no {arguments[0]}")
    try:
        install(force)
    except ImportError as error:
        sys.exit(f"attnpress.run: {error}")
    sys.argv = arguments
    if is_module:
        if not _is_module(arguments[0]):
            sys.exit(f"attnpress.run: there is no module {arguments[0]}")
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
