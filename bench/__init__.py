"""Benchmarks of attnpress beside its peers, and the tuner of its tiles.

    compare.py       the benchmark's command line
    cases.py         what is computed: grids, decode rows, models.toml
    libraries.py     who computes it: attnpress and the peers
    gpu.py           inputs, checks, timing, the machine
    report.py        tables and JSON
    plot.py          PNG and SVG
    tune.py          tries tiles on the GPU and writes generator/attention/tiles.toml
    softmax.py       softmax beside PyTorch and a copy
    layernorm.py     layer norm and RMS norm beside PyTorch and a copy
    outer.py         the outer product beside torch.einsum and a fill
    matmul.py        the matrix product in place beside torch.matmul and copy_
    conv2d.py        convolutions beside cuDNN
    new_size.py      seconds from a new size to a result, nothing cached
    timing.py        calls in turns, by device events, for the latter four
    softmax_tiles.py tiles of softmax beside each other
    layernorm_tiles.py tiles of layer norm likewise
    kernels.py       compiles and launches a single kernel, for the tuner

NumPy is not needed; PyTorch with CUDA is, and rich; matplotlib for plots.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class BenchError(Exception):
    """Bad input, or a machine that cannot do it: its text is one sentence for the user."""
