"""attnpress: exact attention from pressed kernels, on NVIDIA GPUs (PyTorch tensors) and on the CPU
(NumPy arrays).

    out = attnpress.flash_attn_func(q, k, v, causal=True)

The library is reached through its C ABI with ctypes, so one copy serves every version of Python and
of PyTorch. PyTorch and NumPy are used only where the arguments come from them.

Threads may call at once, and so may a signal handler in the middle of a call. After os.fork the
child makes handles of its own: calls on the CPU work there as in the parent, whatever the parent
had run. CUDA itself does not survive a fork: a child of a parent that used a GPU cannot use one
(PyTorch says so), and worker processes are to be started with "spawn".
"""

from ._append import append
from ._attention import (
    Description,
    Launch,
    describe,
    dropout_mask,
    flash_attn_backward,
    flash_attn_func,
    forward,
    prepare,
)
from ._explain import Alternative, ExplainedLaunch, Explanation, explain
from ._library import (
    Error,
    InvalidArgumentError,
    NotSupportedError,
    get_include,
    library_path,
)
from ._merge import merge
from ._ready import forward_schedule
from ._score_mod import ScoreMod
from ._settings import configure
from ._varlen import (
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_backward,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

__version__ = "0.3.0"
__all__ = [
    "Alternative",
    "Description",
    "Error",
    "ExplainedLaunch",
    "Explanation",
    "InvalidArgumentError",
    "Launch",
    "NotSupportedError",
    "ScoreMod",
    "append",
    "configure",
    "describe",
    "dropout_mask",
    "explain",
    "flash_attn_backward",
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_backward",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "forward",
    "forward_schedule",
    "get_include",
    "library_path",
    "merge",
    "prepare",
]
