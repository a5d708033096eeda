"""What features of scores cost: calls with a feature beside the same calls without, in one process:
`python bench/scores.py`, on a GPU, from the root of the repository.

Each line is a row of the table in bench/notes/scores.md: microseconds of the call that it is
held to, of the call with the feature, medians of interleaved rounds, and the first over the
second. The document mask is held to FlexAttention, compiled, whose block mask is made before; rows
fa3-* to the same call of FlashAttention-3, where flash_attn_interface can be imported."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

if __package__ in (None, ""):  # run as a script: this folder's files are not modules of their own
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "python"))

import attnpress
from bench.timing import device_name, medians

try:
    import flash_attn_interface
except ImportError:
    flash_attn_interface = None

Calls = tuple[Callable[[], Any], Callable[[], Any]]  # what it is held to, the feature


def tensors(batch: int, heads: int, heads_kv: int, seqlen: int, hdim: int) -> list[torch.Tensor]:
    """q, k, v in bf16."""
    return [
        torch.randn(batch, seqlen, h, hdim, device="cuda", dtype=torch.bfloat16)
        for h in (heads, heads_kv, heads_kv)
    ]


def with_and_without(qkv: list[torch.Tensor], causal: bool = False, **feature: Any) -> Calls:
    return (
        lambda: attnpress.flash_attn_func(*qkv, causal=causal),
        lambda: attnpress.flash_attn_func(*qkv, causal=causal, **feature),
    )


def softcap(hdim: int) -> Calls:
    return with_and_without(tensors(4, 2048 // hdim, 2048 // hdim, 4096, hdim), softcap=30.0)


def alibi() -> Calls:
    slopes = torch.tensor([2 ** (-8 * (h + 1) / 16) for h in range(16)], device="cuda")
    return with_and_without(tensors(4, 16, 16, 4096, 128), alibi_slopes=slopes)


def bias() -> Calls:
    table = torch.randn(1, 32, 4096, 4096, device="cuda", dtype=torch.bfloat16)
    return with_and_without(tensors(1, 32, 32, 4096, 128), bias=table)


def dropout() -> Calls:
    return with_and_without(tensors(4, 16, 16, 4096, 128), dropout_p=0.1, seed=1)


def sinks() -> Calls:
    return with_and_without(
        tensors(1, 64, 8, 8192, 64), causal=True, s_aux=torch.randn(64, device="cuda")
    )


def window(left: int) -> Calls:
    """Held to the causal mask."""
    return with_and_without(tensors(1, 64, 8, 8192, 64), causal=True, window_size=(left, 0))


def documents() -> Calls:
    """16 documents in 8,192 tokens, 32 heads of 128 columns, causal in each."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    seqlen, heads = 8192, 32
    q, k, v = tensors(1, heads, heads, seqlen, 128)
    doc = (torch.arange(seqlen, device="cuda", dtype=torch.int32) // (seqlen // 16))[None]
    own = attnpress.ScoreMod(mask="k <= q && doc(b, q) == doc(b, k)", doc=doc)
    of_flex = create_block_mask(
        lambda b, h, i, j: (i >= j) & (doc[0, i] == doc[0, j]), None, None, seqlen, seqlen
    )
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    theirs = [x.transpose(1, 2) for x in (q, k, v)]
    a = attnpress.flash_attn_func(q, k, v, score_mod=own).float()
    b = compiled(*theirs, block_mask=of_flex).transpose(1, 2).float()
    if not (a - b).abs().max() < 0.05:
        raise SystemExit(f"documents: the outputs differ by {(a - b).abs().max().item()}")
    return (
        lambda: compiled(*theirs, block_mask=of_flex),
        lambda: attnpress.flash_attn_func(q, k, v, score_mod=own),
    )


def beside_fa3(*shape: int, **feature: Any) -> Calls:
    """Held to FlashAttention-3's call with the same feature, of the same meaning."""
    qkv = tensors(*shape)
    theirs = flash_attn_interface.flash_attn_func(*qkv, **feature)
    theirs = theirs[0] if isinstance(theirs, tuple) else theirs
    if not (attnpress.flash_attn_func(*qkv, **feature) - theirs).abs().max() < 0.05:
        raise SystemExit(f"the outputs differ: {shape} {feature}")
    return (
        lambda: flash_attn_interface.flash_attn_func(*qkv, **feature),
        lambda: attnpress.flash_attn_func(*qkv, **feature),
    )


def rows_beside_fa3() -> dict[str, Callable[[], Calls]]:
    def window(left: int, *shape: int) -> Callable[[], Calls]:
        return lambda: beside_fa3(*shape, causal=True, window_size=(left, 0))

    return {
        "fa3-window-64-127": window(127, 1, 64, 8, 8192, 64),
        "fa3-window-128-1023": window(1023, 1, 32, 8, 8192, 128),
        "fa3-window-128-4095": window(4095, 1, 32, 32, 16384, 128),
        **{
            f"fa3-softcap-{hdim}": lambda hdim=hdim: beside_fa3(
                4, 2048 // hdim, 2048 // hdim, 4096, hdim, softcap=30.0
            )
            for hdim in (128, 256)
        },
    }


ROWS: dict[str, Callable[[], Calls]] = {
    "softcap-128": lambda: softcap(128),
    "softcap-256": lambda: softcap(256),
    "alibi": alibi,
    "bias": bias,
    "dropout": dropout,
    "sinks": sinks,
    **{f"window-{left}": lambda left=left: window(left) for left in (127, 1023, 4095, 8191)},
    "documents": documents,
    **(rows_beside_fa3() if flash_attn_interface is not None else {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(device_name())
    print("row                   held to  feature  ratio")
    for name in options.rows:
        plain, feature = ROWS[name]()
        took = medians({"plain": [plain], "feature": [feature]}, 3, options.rounds)
        ratio = took["plain"] / took["feature"]
        print(f"{name:20} {took['plain']:8.0f} {took['feature']:8.0f} {ratio:6.3f}", flush=True)


if __name__ == "__main__":
    main()
