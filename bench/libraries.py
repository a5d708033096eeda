"""Who computes: attnpress and its peers, behind one call each.

A library's `bind` gives a function of (q, k, v), tensors of (batch, seqlen, heads, head dim), that
returns (batch, seqlen_q, heads, head_dim_v). It raises Refused where the library does not take such
a case; what it raises otherwise is a failure of the library, which the table shows.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cases import Case

Call = Callable[[Any, Any, Any], Any]


class Refused(Exception):
    """The library does not compute such a case."""


@dataclass(frozen=True)
class Library:
    key: str  # in JSON and on the command line
    title: str
    bind: Callable[[Case], Call]
    # Makes the kernels for q, k, v ready for a CUDA graph; most need no more than a call.
    prepare: Callable[[Case, Any, Any, Any], None] | None = None
    # What it runs for q, k, v, as entries for the JSON.
    describe: Callable[[Case, Any, Any, Any], dict[str, Any]] | None = None
    is_there: Callable[[], bool] = lambda: True


# ---- attnpress ----------------------------------------------------------------------------------


def _attnpress(case: Case) -> Call:
    import attnpress

    return functools.partial(attnpress.flash_attn_func, causal=case.causal)


def _attnpress_prepare(case: Case, q, k, v) -> None:
    import attnpress

    attnpress.prepare(q, k, v, causal=case.causal)


def _attnpress_describe(case: Case, q, k, v) -> dict[str, Any]:
    import attnpress

    found = attnpress.describe(q, k, v, causal=case.causal).launches[0]
    return {
        "stem": found.stem,
        "tile": found.tile,
        "target": found.target,
        "num_splits": found.num_splits,
        "registers": found.registers,
        "spill_bytes": found.spill_bytes,
    }


def _package_again(name: str, folder: Path, environment: dict[str, str]) -> Any:
    """The package attnpress in `folder` once more, under another name. Its library is opened, and
    its handle made, in this environment."""
    import os
    import sys
    from importlib import import_module
    from unittest import mock

    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    with mock.patch.dict(os.environ, environment):
        spec.loader.exec_module(module)
        import_module(name + "._plan").handle_of(import_module(name + "._library").CUDA)
    return module


@functools.cache
def _attnpress_sm80() -> Any:
    """attnpress once more, held to the kernels that compute capability 8.0 has as well."""
    import attnpress

    folder = Path(attnpress.__file__).parent
    return _package_again("attnpress_sm80", folder, {"ATTNPRESS_ARCH_MAX": "80"})


def _sm80(case: Case) -> Call:
    return functools.partial(_attnpress_sm80().flash_attn_func, causal=case.causal)


def _sm80_prepare(case: Case, q, k, v) -> None:
    _attnpress_sm80().prepare(q, k, v, causal=case.causal)


_build: Path | None = None


def use_build(path: Path) -> None:
    """Says what the library "build" is: a libattnpress.so, which this checkout's Python package
    drives, or a checkout, whose own package drives what was built in it."""
    global _build  # noqa: PLW0603
    _build = path.resolve()
    build_package.cache_clear()


def has_build() -> bool:
    return _build is not None


@functools.cache
def build_package() -> Any:
    """attnpress once more, from another build."""
    import attnpress

    assert _build is not None
    folder, library = Path(attnpress.__file__).parent, _build
    if _build.is_dir():
        folder, library = _build / "python" / "attnpress", _build / "build" / "libattnpress.so"
    return _package_again("attnpress_build", folder, {"ATTNPRESS_LIBRARY": str(library)})


def _other_build(case: Case) -> Call:
    return functools.partial(build_package().flash_attn_func, causal=case.causal)


def _other_build_prepare(case: Case, q, k, v) -> None:
    build_package().prepare(q, k, v, causal=case.causal)


# ---- PyTorch ------------------------------------------------------------------------------------


def _sdpa(backend_name: str, case: Case) -> Call:
    """PyTorch's scaled_dot_product_attention held to one backend. The tensors are passed as
    transposed views, which its backends take as they are."""
    if case.causal and case.seqlen_q != case.seqlen_k:
        raise Refused("PyTorch aligns causal masks at the top left")
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import pad, scaled_dot_product_attention

    backend = getattr(SDPBackend, backend_name)
    options: dict[str, Any] = {"is_causal": case.causal}
    if case.heads_q != case.heads_kv:
        options["enable_gqa"] = True

    def call(q, k, v):
        with sdpa_kernel(backend):
            out = scaled_dot_product_attention(
                q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **options
            )
        return out.transpose(1, 2)

    def checked(q, k, v):
        """The first call says whether the backend takes the case; PyTorch warns with reasons."""
        with warnings.catch_warnings(record=True) as reasons:
            warnings.simplefilter("always")
            try:
                return call(q, k, v)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                if re.search("No (available kernel|viable backend)", str(error)) is None:
                    raise
                texts = [str(reason.message).split(" (Triggered")[0] for reason in reasons]
                wanted = [text for text in texts if "ot used because" not in text]
                raise Refused(wanted[0] if wanted else str(error)) from None

    first = True

    def guarded(q, k, v):
        nonlocal first
        if first:
            out = checked(q, k, v)
            first = False
            return out
        return call(q, k, v)

    if backend_name == "FLASH_ATTENTION" and case.hdim_v < case.hdim:
        # FlashAttention-2 has one head dim for all: V is padded once, outside the timing, which is
        # kind to it.
        padded: dict[int, Any] = {}

        def with_padded_v(q, k, v):
            if v.data_ptr() not in padded:
                padded[v.data_ptr()] = pad(v, (0, case.hdim - case.hdim_v))
            return guarded(q, k, padded[v.data_ptr()])[..., : case.hdim_v]

        return with_padded_v
    return guarded


def _flex(case: Case) -> Call:
    """FlexAttention: compiled by Triton for this shape, so that its fallback is never timed."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if case.causal and case.seqlen_q != case.seqlen_k:
        raise Refused("only equal lengths are asked of it")
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    block_mask = None
    if case.causal:
        block_mask = create_block_mask(
            lambda batch, head, row, column: row >= column,
            None,
            None,
            case.seqlen_q,
            case.seqlen_k,
            device="cuda",
        )

    def call(q, k, v):
        out = compiled(
            q.transpose(1, 2),
            k.transpose(1, 2),
            v.transpose(1, 2),
            block_mask=block_mask,
            enable_gqa=case.heads_q != case.heads_kv,
        )
        return out.transpose(1, 2)

    return call


# ---- FlashAttention-3 ---------------------------------------------------------------------------


def _has_flash3() -> bool:
    return importlib.util.find_spec("flash_attn_interface") is not None


def _flash3(case: Case) -> Call:
    from flash_attn_interface import flash_attn_func

    def call(q, k, v):
        out = flash_attn_func(q, k, v, causal=case.causal)
        return out[0] if isinstance(out, tuple) else out

    return call


# ---- The list -----------------------------------------------------------------------------------

OURS = "attnpress"
BUILD = "build"
LIBRARIES = {
    library.key: library
    for library in (
        Library(OURS, "attnpress", _attnpress, _attnpress_prepare, _attnpress_describe),
        Library("sm80", "attnpress, sm80 kernels", _sm80, _sm80_prepare),
        Library(BUILD, "attnpress, other build", _other_build, _other_build_prepare),
        Library("flash2", "FlashAttention-2", functools.partial(_sdpa, "FLASH_ATTENTION")),
        Library("cudnn", "cuDNN", functools.partial(_sdpa, "CUDNN_ATTENTION")),
        Library("efficient", "efficient", functools.partial(_sdpa, "EFFICIENT_ATTENTION")),
        Library("flex", "FlexAttention", _flex),
        Library("flash3", "FlashAttention-3", _flash3, is_there=_has_flash3),
    )
}
TITLES = {key: library.title for key, library in LIBRARIES.items()}
ON_REQUEST = ("flex", "sm80", BUILD)  # compiling takes seconds for each case; ours once more
