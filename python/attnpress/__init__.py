"""attnpress: exact attention from pressed kernels, on NVIDIA GPUs (PyTorch tensors) and on the CPU
(NumPy arrays).

    out = attnpress.flash_attn_func(q, k, v, causal=True)

The library is reached through its C ABI with ctypes, so one copy serves every version of Python and
of PyTorch. PyTorch and NumPy are used only where the arguments come from them.
"""

from ._attention import Description, Launch, describe, flash_attn_func, prepare
from ._library import Error, InvalidArgumentError, NotSupportedError, library_path

__version__ = "0.2.0"
__all__ = [
    "Description",
    "Error",
    "InvalidArgumentError",
    "Launch",
    "NotSupportedError",
    "describe",
    "flash_attn_func",
    "library_path",
    "prepare",
]
