"""Importing this makes attnpress stand in for flash-attn in this process:

    import attnpress.as_flash_attn  # before transformers, or whatever looks for flash-attn
    from flash_attn import flash_attn_func

It says so in one line on stderr. Where a real flash-attn is installed it raises ImportError, unless
ATTNPRESS_AS_FLASH_ATTN=force. attnpress.as_flash_attn.remove() undoes it.
"""

from ._stand_in import install, remove

__all__ = ["install", "remove"]

install()
