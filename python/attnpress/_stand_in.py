"""Standing in for flash-attn: a finder that makes `flash_attn`, `flash_attn_2_cuda` and the
distribution flash-attn importable without a file of theirs, and the wheel that holds the same.
Importing this imports neither PyTorch nor any of them.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import sys
import zipfile
from collections.abc import Iterable
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any, ClassVar

import attnpress

NAME = "flash-attn"
_STANDS_FOR = "2.8.3"
VERSION = f"{_STANDS_FOR}+attnpress"
FORCE_VARIABLE = "ATTNPRESS_AS_FLASH_ATTN"  # "force": in the place of an installed flash-attn

_FOLDER = Path(__file__).resolve().parent
_MODULES = {
    "flash_attn": _FOLDER / "flash_attn" / "__init__.py",
    "flash_attn_2_cuda": _FOLDER / "flash_attn_2_cuda.py",
}
_METADATA = f"""\
Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: attnpress {attnpress.__version__} under flash-attn's name
License: BSD-3-Clause
Requires-Dist: attnpress
Requires-Dist: torch
"""
_WHEEL = """\
Wheel-Version: 1.0
Generator: attnpress
Root-Is-Purelib: true
Tag: py3-none-any
"""


class Distribution(importlib.metadata.Distribution):
    """flash-attn's, as importlib.metadata shows it."""

    _files: ClassVar = {
        "METADATA": _METADATA,
        "INSTALLER": "attnpress\n",
        "top_level.txt": "".join(f"{name}\n" for name in _MODULES),
    }

    def read_text(self, filename: Any) -> str | None:
        return self._files.get(str(filename))

    def locate_file(self, path: Any) -> Path:
        return _FOLDER / str(path)


class Finder(MetaPathFinder):
    """Of sys.meta_path. The modules' own submodules are found as any package's are."""

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = _MODULES.get(fullname)
        if file is None:
            return None
        return importlib.util.spec_from_file_location(fullname, file)

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        name = getattr(context, "name", None)
        if name is None or name.lower().replace("_", "-").replace(".", "-") == NAME:
            yield Distribution()


def _finder() -> Finder | None:
    return next((one for one in sys.meta_path if isinstance(one, Finder)), None)


def installed() -> str | None:
    """What else stands under flash-attn's name, in words; None for nothing."""
    finder = _finder()
    others = [one for one in sys.meta_path if one is not finder]
    kept, sys.meta_path[:] = list(sys.meta_path), others
    try:
        for name, own in _MODULES.items():
            module = sys.modules.get(name)
            file = getattr(module, "__file__", None)
            if module is not None and file != str(own):
                return f"{name} from {file} is imported"
        try:
            version = importlib.metadata.version(NAME)
        except importlib.metadata.PackageNotFoundError:
            version = None
        if version is not None:
            return f"{NAME} {version} is installed"
        for name in _MODULES:
            if name not in sys.modules:
                spec = importlib.util.find_spec(name)
                if spec is not None and spec.origin is not None:  # None: a namespace alone
                    return f"{name} is importable, from {spec.origin}"
        return None
    finally:
        sys.meta_path[:] = kept


def install(force: bool | None = None, quiet: bool = False) -> None:
    """Makes flash_attn importable, and says so in one line on stderr.

    force: also where a real flash-attn is installed; None: what ATTNPRESS_AS_FLASH_ATTN says.
    Raises ImportError for one that is installed otherwise. To be called before what looks for
    flash-attn, as transformers does when it is imported."""
    if _finder() is not None:
        return
    if force is None:
        force = os.environ.get(FORCE_VARIABLE, "") == "force"
    found = installed()
    if found is not None and VERSION in found and "installed" in found:
        return  # the wheel of `attnpress shim`: it is there already
    if found is not None and not force:
        raise ImportError(
            f"attnpress does not stand in for flash-attn: {found}. Uninstall it, or set "
            f"{FORCE_VARIABLE}=force, or use `python -m attnpress.run --force`, to have attnpress "
            "in its place",
            name="flash_attn",
        )
    for name in [one for one in sys.modules if one.split(".")[0] in _MODULES]:
        del sys.modules[name]
    sys.meta_path.insert(0, Finder())
    importlib.invalidate_caches()
    if quiet:
        return
    line = f"attnpress {attnpress.__version__} stands in for flash-attn {_STANDS_FOR}"
    if found is not None:
        line += f", although {found}"
    if "transformers" in sys.modules:
        line += "; transformers was imported before, and may not look for it again"
    print(line, file=sys.stderr)


def remove() -> None:
    """Undoes install(): modules that were imported stay with those who have them."""
    finder = _finder()
    if finder is not None:
        sys.meta_path.remove(finder)
        for name in [one for one in sys.modules if one.split(".")[0] in _MODULES]:
            del sys.modules[name]
        importlib.invalidate_caches()


# ---- The wheel -----------------------------------------------------------------------------------

_PACKAGE = '''\
"""flash-attn's module tree on attnpress's kernels: a wheel that `attnpress shim` wrote."""

from pathlib import Path

import attnpress

__path__ = [*__path__, str(Path(attnpress.__file__).resolve().parent / "flash_attn")]

from attnpress.flash_attn import *  # noqa: E402, F403
from attnpress.flash_attn import __version__  # noqa: E402, F401
'''
_EXTENSION = '''\
"""flash-attn's extension module on attnpress's kernels: a wheel that `attnpress shim` wrote."""

from attnpress.flash_attn_2_cuda import *  # noqa: F403
'''


def write_wheel(folder: Path) -> Path:
    """Writes flash_attn-2.8.3+attnpress-py3-none-any.whl, which needs attnpress beside it. The same
    bytes each time."""
    info = f"flash_attn-{VERSION}.dist-info"
    files = {
        "flash_attn/__init__.py": _PACKAGE,
        "flash_attn_2_cuda.py": _EXTENSION,
        f"{info}/METADATA": _METADATA,
        f"{info}/WHEEL": _WHEEL,
        f"{info}/top_level.txt": Distribution._files["top_level.txt"],
    }
    record = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()
        record.append(f"{name},sha256={digest.rstrip('=')},{len(text.encode())}\n")
    record.append(f"{info}/RECORD,,\n")
    files[f"{info}/RECORD"] = "".join(record)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"flash_attn-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)  # dated 1980-01-01
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, text)
    return path


# ---- A kernel for Hugging Face's kernels package -------------------------------------------------

_KERNEL = '''\
"""attnpress as a kernel of Hugging Face's `kernels`: what kernels-community/flash-attn2 exports."""

import sys

_SITE = {site!r}
if _SITE not in sys.path:
    sys.path.append(_SITE)

from attnpress import flash_attn_interface  # noqa: E402
from attnpress.flash_attn import *  # noqa: E402, F403
from attnpress.flash_attn_2_cuda import (  # noqa: E402, F401
    bwd,
    fwd,
    fwd_kvcache,
    varlen_bwd,
    varlen_fwd,
)

sys.modules[__name__ + ".flash_attn_interface"] = flash_attn_interface
'''


def write_kernel(folder: Path) -> Path:
    """Writes the folder that LOCAL_KERNELS names for this installation of the package: pure Python,
    for CUDA and for the CPU. Returns it."""
    for backend in ("cuda", "cpu"):
        variant = folder / "build" / f"torch-{backend}"
        variant.mkdir(parents=True, exist_ok=True)
        (variant / "__init__.py").write_text(_KERNEL.format(site=str(_FOLDER.parent)))
        metadata = {
            "id": f"attnpress_flash_attn_{backend}",
            "name": "flash-attn",
            "version": 1,
            "license": "BSD-3-Clause",
            "python-depends": [],
            "backend": {"type": backend},
        }
        (variant / "metadata.json").write_text(json.dumps(metadata) + "\n")
    return folder


def kernel_folder() -> Path:
    """In the user's cache, one for each place that the package is installed in. LOCAL_KERNELS takes
    no path with a colon."""
    cache = os.environ.get("ATTNPRESS_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "attnpress"
    )
    place = hashlib.sha256(str(_FOLDER).encode()).hexdigest()[:12]
    return Path(cache).absolute() / "hf-kernel" / f"{attnpress.__version__}-{place}"
