"""Seconds from a new size to a result with nothing cached: `python bench/new_size.py`, on a GPU,
from the root of the repository.

Each case is a process of its own with an empty cache of cubins, in which PyTorch and the library
are loaded and the device is awake. The time is that of the calls, compiling and the result's way to
the host included."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CASES = {
    "layer norm": "y = ln.forward(normal(512, 1000), normal(1000), normal(1000))[0]",
    "layer norm, and backward": """
x, w = normal(512, 1000), normal(1000)
_, _, mean, rstd = ln.forward(x, w, w)
y = ln.backward(x, x, rstd, mean, w)[0]""",
    "layer norm of 100,000 columns, and backward": """
x, w = normal(16, 100000), normal(100000)
_, _, mean, rstd = ln.forward(x, w, w)
y = ln.backward(x, x, rstd, mean, w)[0]""",
    "matmul, n 1016": "y = mm.matmul_(normal(512, 1016), normal(1016, 1016))",
    "matmul, n 200": "y = mm.matmul_(normal(512, 200), normal(200, 200))",
    "outer": "y = o.forward(normal(4, 100), normal(4, 200))",
    "outer, and backward": """
x, y = normal(4, 100), normal(4, 200)
y = o.backward(o.forward(x, y), x, y)[0]""",
    "conv2d": "y = cv.forward(last(4, 192, 21, 21), last(192, 192, 3, 3), None, 1, 1)",
    "conv2d with bias and ReLU, and backward": """
x, w = last(4, 192, 21, 21), last(192, 192, 3, 3)
out = cv.forward(x, w, normal(192), 1, 1, 1, True)
y = cv.backward(x, x, w, out, 1, 1, 1, True)[0]""",
}
PROGRAM = """
import time
import torch
from attnpress import conv2d as cv, layernorm as ln, matmul as mm, outer as o

def normal(*shape):
    return torch.randn(*shape, device="cuda").bfloat16()

def last(*shape):
    return normal(*shape).contiguous(memory_format=torch.channels_last)

last(8, 8, 8, 8).float().sum().item()
begin = time.perf_counter()
{}
y.float().sum().item()
print(f"{{time.perf_counter() - begin:.3f}}")
"""


def seconds(text: str) -> str:
    """Of a case, or the last line of what went wrong."""
    with tempfile.TemporaryDirectory(prefix="attnpress-cache-") as folder:
        paths = [str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "ATTNPRESS_CACHE_DIR": folder,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(text)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout.strip() or (done.stderr.strip().splitlines() or ["no output"])[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", default="", help="cases that have this in their name")
    options = parser.parse_args()
    for name, text in CASES.items():
        if options.only in name:
            print(f"{name:45} {seconds(text)}", flush=True)


if __name__ == "__main__":
    main()
