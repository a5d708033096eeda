"""attnpress.flash_attn_interface under flash-attn's name: the very functions, private ones too."""

from attnpress import flash_attn_interface as _interface
from attnpress.flash_attn_interface import *  # noqa: F403

globals().update(
    {name: value for name, value in vars(_interface).items() if not name.startswith("__")}
)
__getattr__ = _interface.__getattr__
