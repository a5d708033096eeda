"""The module tree of flash-attn 2.8.3, which stands in under its name: attnpress.as_flash_attn and
`attnpress shim` put this folder there. Attention runs on attnpress's kernels, the rest in plain
PyTorch.
"""

from pkgutil import extend_path

from attnpress.flash_attn_interface import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_attn_with_kvcache,
)

# Packages that install into flash_attn/ beside this one are found too, such as FlashAttention-4's
# flash_attn.cute.
__path__ = extend_path(__path__, __name__)
__version__ = "2.8.3+attnpress"
__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]
