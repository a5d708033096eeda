"""Every file that the generator writes: in generated/

    <stem>.cu               sources of the default sets, those that the families show
    render_<template>.c     each template as C
    families.h, families.c, family_<family>.c, tiles_<family>.c, targets.c     tables.py
    default_set.c           ap_default_set: the cubins that are linked
    device_headers.c        ap_device_headers: what the JIT includes

and in include/

    attnpress/device/wgmma/ptx_wgmma_n<N>.cuh     wgmma with N columns

Everything is a pure function of the repository's files: sorted, without dates, paths or machines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import jinja2

from generator import GENERATED, ROOT, TEMPLATES, GeneratorError
from generator.family import Family, Template, families
from generator.render import environment, render, source, variables
from generator.sets import SHOWN_MAX, shown_variants, whole_set
from generator.tables import HEAD, INCLUDE, families_c, families_h, family_c, targets_c, tiles_c
from generator.tiles import table
from generator.to_c import c_literal, compile_template

INCLUDE_DIR = ROOT / "include"
HEADERS = ("attnpress/args/*.h", "attnpress/device/*.cuh", "attnpress/device/wgmma/*.cuh")
PRESSED_HEADERS = "attnpress/device/wgmma/ptx_wgmma_n*.cuh"
"""Files in include/ that only the generator can have written."""
WGMMA_TEMPLATE = "device/ptx_wgmma.cuh.j2"
WGMMA_COLUMNS = tuple(range(8, 257, 8))

# ---- Tables -------------------------------------------------------------------------------------

_LONG_LITERALS = """
/* C11 promises string literals of 4095 characters, which -Wpedantic holds us to. The compilers that
 * build this take longer ones, and the texts stay readable here. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverlength-strings"
#endif
"""


def renderer_c(env: jinja2.Environment, family: Family, template: Template) -> str:
    """generated/render_<template>.c"""
    function = f"ap_render_{template.c_name}"
    body = compile_template(env, template.name, variables(family, template), function)
    compares = "IS(" in body
    return (
        HEAD.format(origin=f"templates/{template.name}")
        + INCLUDE
        + '#include "families.h"\n'
        + ("#include <string.h>\n" if compares else "")
        + "\n#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)\n"
        + "#define INTEGER(value) ap_text_append_int(out, value)\n"
        + "#define STRING(value) ap_text_append_string(out, value)\n"
        + ("#define IS(value, literal) (strcmp(value, literal) == 0)\n" if compares else "")
        + f"\nvoid {function}(ap_text *out, const ap_render_input *in);\n\n"
        + body
    )


def default_set_c(cubins: Iterable[tuple[str, str]]) -> str:
    """generated/default_set.c"""
    rows = [f'    {{"{stem}", "{target}"}},\n' for stem, target in cubins]
    return (
        HEAD.format(origin="each variants.toml")
        + INCLUDE
        + "\n/* stem, target: sorted */\n"
        + _table("ap_prebuilt_row", "ap_default_set", rows)
    )


def pressed_headers(env: jinja2.Environment) -> dict[str, str]:
    """Name, as kernels include it, and text of each header that comes from a template."""
    return {
        PRESSED_HEADERS.replace("*", str(columns)): render(env, WGMMA_TEMPLATE, {"n": columns})
        for columns in WGMMA_COLUMNS
    }


def device_headers(include: Path = INCLUDE_DIR) -> dict[str, str]:
    """Name, as kernels include it, and text of each header that the JIT has; sorted. Those of a
    template are what it says now, whatever stands in the folder."""
    paths = {path for pattern in HEADERS for path in include.glob(pattern)}
    headers = {
        path.relative_to(include).as_posix(): path.read_text(encoding="utf-8")
        for path in paths - set(include.glob(PRESSED_HEADERS))
    }
    return dict(sorted({**headers, **pressed_headers(environment())}.items()))


def headers_digest(headers: dict[str, str]) -> str:
    """SHA-256, in hex, of the names and texts, each after its length, so that none runs into the
    next."""
    digest = hashlib.sha256()
    for name, text in sorted(headers.items()):
        for part in (name.encode(), text.encode()):
            digest.update(f"{len(part)}:".encode() + part)
    return digest.hexdigest()


def device_headers_c(headers: dict[str, str]) -> str:
    """generated/device_headers.c"""
    rows = []
    for name, text in headers.items():
        lines = [c_literal(line) for line in text.splitlines(keepends=True)] or [c_literal("")]
        rows.append("\n     ".join([f'    {{"{name}",', *lines]) + "},\n")
    return (
        HEAD.format(origin="include/attnpress")
        + INCLUDE
        + _LONG_LITERALS
        + "\n/* name, text */\n"
        + _table("ap_device_header", "ap_device_headers", rows)
        + f'\nconst char ap_device_headers_digest[] =\n    "{headers_digest(headers)}";\n'
    )


def _table(type_: str, name: str, rows: list[str]) -> str:
    if not rows:
        raise GeneratorError(f"{name} would be empty")
    return (
        f"const {type_} {name}[] = {{\n{''.join(rows)}}};\n"
        f"const size_t {name}_count = sizeof({name}) / sizeof({name}[0]);\n"
    )


# ---- All files ----------------------------------------------------------------------------------


def _tiles_of(family: Family) -> str:
    return tiles_c(family, table(family))


def generated_files() -> dict[str, str]:
    """Name and text of every file of generated/, sorted by name."""
    env = environment(TEMPLATES)
    texts: dict[str, Callable[[], str]] = {
        f"{variant.stem}.cu": partial(source, env, variant) for variant in shown_variants()
    }
    texts["families.h"] = families_h
    texts["families.c"] = families_c
    texts["targets.c"] = targets_c
    for family in families():
        texts[f"family_{family.name}.c"] = partial(family_c, family)
        texts[f"tiles_{family.name}.c"] = partial(_tiles_of, family)
        for template in family.templates:
            texts[f"render_{template.c_name}.c"] = partial(renderer_c, env, family, template)
    texts["default_set.c"] = lambda: default_set_c(whole_set("default").cubins)
    texts["device_headers.c"] = lambda: device_headers_c(device_headers())
    if len(texts) > SHOWN_MAX:
        raise GeneratorError(
            f"generated/ would hold {len(texts)} files, more than {SHOWN_MAX}: let [[shown]] of a "
            "family.toml match fewer variants"
        )
    return {name: text() for name, text in sorted(texts.items())}


def written_files() -> dict[Path, str]:
    """Path and text of every file that the generator writes, sorted."""
    headers = pressed_headers(environment())
    return {
        **{GENERATED / name: text for name, text in generated_files().items()},
        **{INCLUDE_DIR / name: text for name, text in sorted(headers.items())},
    }
