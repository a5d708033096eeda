"""python -m attnpress: the command-line tool, from beside this package or from a checkout's build.
See `python -m attnpress --help`; `python -m attnpress doctor` says what is missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from ._tool import environment, find_tool, missing


def shim(arguments: list[str]) -> None:
    """The command of this name."""
    from ._stand_in import write_wheel

    parser = argparse.ArgumentParser(
        prog="attnpress shim",
        description="Writes a wheel of flash-attn 2.8.3 that runs on attnpress. It is for this "
        "machine: the name flash-attn on PyPI is another project's.",
    )
    parser.add_argument("--out", type=Path, default=Path(), help="its folder (default: this one)")
    print(write_wheel(parser.parse_args(arguments).out))


def hf_kernel(arguments: list[str]) -> None:
    """The command of this name."""
    from ._stand_in import kernel_folder, write_kernel

    parser = argparse.ArgumentParser(
        prog="attnpress hf-kernel",
        description="Writes attnpress as a kernel of Hugging Face's `kernels`, and prints its "
        'folder: LOCAL_KERNELS="kernels-community/flash-attn2=$(attnpress hf-kernel)" gives it to '
        "transformers and diffusers.",
    )
    parser.add_argument("--out", type=Path, help="the folder (default: one in attnpress's cache)")
    folder = (parser.parse_args(arguments).out or kernel_folder()).absolute()
    if ":" in str(folder):
        sys.exit(f"attnpress hf-kernel: {folder} has a colon, at which LOCAL_KERNELS ends a path")
    print(write_kernel(folder))


_COMMANDS = {"shim": shim, "hf-kernel": hf_kernel}
_OWN = """
Of the Python package, with --out FOLDER:

  shim         a wheel that puts attnpress in flash-attn's place
  hf-kernel    a folder for LOCAL_KERNELS of Hugging Face's kernels"""


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] in _COMMANDS:
        _COMMANDS[sys.argv[1]](sys.argv[2:])
        return
    tool = find_tool()
    if tool is None:
        sys.exit(f"attnpress: {missing()}")
    if sys.argv[1:] in (["-h"], ["--help"], ["help"]):
        subprocess.run([str(tool), "--help"], env=environment(), check=True)
        print(_OWN)
        return
    sys.stdout.flush()
    os.execve(tool, [str(tool), *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
