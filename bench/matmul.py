"""The matrix product in place beside PyTorch, which needs a second buffer and a copy back, in
one process: `python bench/matmul.py`, on a GPU, from the root of the repository.

Each line is a shape: microseconds of torch.matmul into a buffer and copy_ back, of attnpress, and
the first over the second, medians of interleaved rounds; TFLOP/s of attnpress; device memory that
a call of each takes beside x and W, in MB: what PyTorch's allocator hands out, and what the driver
has less of afterwards. W is orthogonal, so that x keeps its size however often it is multiplied."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

from attnpress.matmul import matmul_
from bench.timing import device_name, medians

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def by_torch(x, w, transposed: bool):
    x.copy_(torch.matmul(x, w.t() if transposed else w))


def extra_memory(call) -> tuple[float, float]:
    """MB that a call takes at most, by PyTorch's allocator, and MB that the driver has less."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, allocated = torch.cuda.mem_get_info()[0], torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - allocated
    return peak / 1e6, (free - torch.cuda.mem_get_info()[0]) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=65536)
    parser.add_argument("--n", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=["bf16"])
    parser.add_argument(
        "--fp32-w", action="store_true", help="W is fp32; torch's is cast each time"
    )
    parser.add_argument("--transposed", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    print(device_name())
    print("dtype  rows x n        torch us  ours us   of torch  TFLOP/s  MB torch, ours (driver)")
    for name in options.dtypes:
        dtype = DTYPES[name]
        for n in options.n:
            x = torch.randn(options.rows, n, device="cuda", dtype=dtype)
            w = torch.linalg.qr(torch.randn(n, n, device="cuda"))[0]
            w = w.contiguous() if options.fp32_w else w.to(dtype).contiguous()
            calls = {
                "torch": [lambda x=x, w=w: by_torch(x, w.to(x.dtype), options.transposed)],
                "attnpress": [lambda x=x, w=w: matmul_(x, w, options.transposed)],
            }
            t = medians(calls, 6, options.rounds)
            memory = {key: extra_memory(call[0]) for key, call in calls.items()}
            print(
                f"{name:6} {f'{options.rows}x{n}':14}{t['torch']:10.1f}{t['attnpress']:9.1f}"
                f"{t['torch'] / t['attnpress']:11.2f}"
                f"{2e-6 * options.rows * n * n / t['attnpress']:9.1f}"
                f"{memory['torch'][0]:9.1f}, {memory['attnpress'][0]:.1f}"
                f" ({memory['torch'][1]:.1f}, {memory['attnpress'][1]:.1f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
