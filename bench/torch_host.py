"""What a call from PyTorch costs on the host: the time from Python's call to the library's entry
and back, for attention forward, forward with backward, over a cache and of sequences.

    python bench/torch_host.py [--device cpu|cuda] [--calls 10000] [--json]

On a GPU nothing waits for the kernels. On the CPU the library computes within the call: its
entries are replaced by one that returns at once, through ctypes as the true ones, so that what is
left is the host's part; `--whole` leaves them in place, on one token of one head, and times the
whole call.

Prints the median, the least, and the 90th percentile of the calls, in microseconds. A row that this
version of the package or of PyTorch does not have is left out.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

import attnpress
from attnpress import _append, _backward, _torch
from attnpress import _library as c

try:
    from attnpress import _exchange
except ImportError:  # an older version of the package
    _exchange = None

BATCH, SEQLEN, HEADS, HDIM = 2, 128, 8, 64


def without_library() -> None:
    """Entries that return ATTNPRESS_OK (0) at once: libc's abs(0), called through ctypes."""
    absolute = ctypes.CDLL(None).abs
    absolute.argtypes = [ctypes.c_int]
    absolute.restype = ctypes.c_int32

    def entry(*arguments: object) -> int:
        return absolute(0)

    _torch._forward = c.library.attnpress_forward = entry
    _append._function_with_forward = lambda: entry

    class Library:
        def __getattr__(self, name: str) -> object:
            return entry if name == "attnpress_backward" else getattr(c.library, name)

    _backward.c = type("c", (), {**vars(c), "library": Library()})
    if _exchange is not None:  # memcmp(handle, args, stream), where stream, a size there, is 0
        libc = ctypes.CDLL(None)
        nothing = ctypes.cast(libc.memcmp, ctypes.c_void_p).value
        _exchange._exchange.run[:] = [nothing] * len(_exchange._exchange.run)
        if hasattr(_exchange._exchange, "append_forward"):
            _exchange._exchange.forward = nothing
            # Another address than the handle's, so that the answer is 0, whatever follows.
            unequal = ctypes.cast(libc.pthread_equal, ctypes.c_void_p).value
            _exchange._exchange.append_forward = unequal
        try:
            from attnpress import _quick_rows
        except ImportError:
            return
        _quick_rows._address_of = lambda name: nothing


def timed(call: Callable[[], object], count: int, synchronize: Callable[[], object]) -> list[float]:
    """Microseconds of each call, after warming up."""
    for _ in range(max(count // 10, 20)):
        call()
    synchronize()
    clock = time.perf_counter_ns
    found = []
    for _ in range(count):
        begin = clock()
        call()
        found.append((clock() - begin) * 1e-3)
    synchronize()
    return found


def sequences(device: str) -> dict[str, Callable[[], object]]:
    """Calls over a cache, of four sequences with 32 query and 8 key heads, and of sequences that
    lie one after the other."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.bfloat16, device=device)

    def int32(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    q, new = normal(4, 1, 32, 128), normal(4, 1, 8, 128)
    rows, pages = normal(4, 256, 8, 128), normal(64, 16, 8, 128)
    table = torch.arange(64, dtype=torch.int32, device=device).reshape(4, 16)
    used = int32([100, 50, 20, 200])
    cos = torch.randn(256, 64, device=device)
    bounds = int32([0, 1, 3, 4])
    one, other = q[:, 0], new[:, 0]
    cache = attnpress.flash_attn_with_kvcache
    return {
        "flash_attn_with_kvcache": lambda: cache(q, rows, rows, cache_seqlens=used),
        "the same, pages": lambda: cache(q, pages, pages, cache_seqlens=used, block_table=table),
        "the same, new keys": lambda: cache(q, rows, rows, new, new, cache_seqlens=used),
        "the same, new keys, rotary, pages": lambda: cache(
            q, pages, pages, new, new, cos, cos, used, block_table=table, causal=True
        ),
        "flash_attn_varlen_func": lambda: attnpress.flash_attn_varlen_func(
            one, other, other, bounds, bounds, 2, 2, causal=True
        ),
    }


def families(device: str) -> dict[str, Callable[[], object]]:
    """Calls of the other families."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.bfloat16, device=device)

    def last(x: torch.Tensor) -> torch.Tensor:
        return x.to(memory_format=torch.channels_last)

    from attnpress import conv2d, layernorm, matmul, outer, softmax

    x, y, dc = normal(2, 5), normal(2, 7), normal(2, 5, 7)
    wide, weight, square = normal(4, 64), normal(64), normal(64, 64)
    image, filters = last(normal(2, 8, 5, 5)), last(normal(16, 8, 3, 3))
    recorded = [v.clone().requires_grad_() for v in (x, y)]
    return {
        "outer": lambda: outer.outer(x, y),
        "outer.backward": lambda: outer.backward(dc, x, y),
        "outer that records": lambda: outer.outer(*recorded),
        "outer, forward and backward": lambda: torch.autograd.grad(
            outer.outer(*recorded), recorded, dc
        ),
        "softmax": lambda: softmax.softmax(wide),
        "layer_norm": lambda: layernorm.layer_norm(wide, weight, weight),
        "matmul": lambda: matmul.matmul(wide, square),
        "conv2d": lambda: conv2d.conv2d(image, filters, None, 1, 1),
    }


def rows(device: str, whole: bool) -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    shape = (1, 1, 1, 8) if whole else (BATCH, SEQLEN, HEADS, HDIM)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device=device) for _ in range(3))
    with_grad = [x.clone().requires_grad_() for x in (q, k, v)]
    dout = torch.randn_like(q)
    found: dict[str, Callable[[], object]] = {
        "forward": lambda: attnpress.flash_attn_func(q, k, v, causal=True),
        "forward, window": lambda: attnpress.flash_attn_func(
            q, k, v, causal=True, window_size=(63, 0)
        ),
        "forward that records": lambda: attnpress.flash_attn_func(*with_grad, causal=True),
        "forward and backward": lambda: torch.autograd.grad(
            attnpress.flash_attn_func(*with_grad, causal=True), with_grad, dout
        ),
    }
    found |= sequences(device)
    if not whole:
        found |= families(device)
    try:
        from attnpress import flash_attn_interface as interface
    except ImportError:
        return found
    found["flash_attn_interface, forward"] = lambda: interface.flash_attn_func(q, k, v, causal=True)
    scale = shape[-1] ** -0.5
    found["_wrapped_flash_attn_forward (an op)"] = lambda: interface._wrapped_flash_attn_forward(
        q, k, v, 0.0, scale, True, -1, -1, 0.0, None, False
    )
    found["_flash_attn_forward"] = lambda: interface._flash_attn_forward(
        q, k, v, 0.0, scale, True, -1, -1, 0.0, None, False
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--calls", type=int, default=10000)
    parser.add_argument("--whole", action="store_true", help="the library's own time too (CPU)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
        if not options.whole:
            without_library()
    synchronize = torch.cuda.synchronize if options.device != "cpu" else lambda: None
    result = {}
    for name, call in rows(options.device, options.whole).items():
        found = timed(call, options.calls, synchronize)
        result[name] = {
            "median": statistics.median(found),
            "least": min(found),
            "p90": statistics.quantiles(found, n=10)[8],
        }
    if options.json:
        print(json.dumps({"device": options.device, "torch": torch.__version__, "us": result}))
        return
    print(
        f"torch {torch.__version__}, {options.device}, {options.calls} calls, "
        "us: median [least, p90]"
    )
    for name, one in result.items():
        print(f"{name:38} {one['median']:7.2f}  [{one['least']:.2f}, {one['p90']:.2f}]")


if __name__ == "__main__":
    main()
