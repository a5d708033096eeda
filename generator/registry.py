"""What is pressed, and every file of it: in generated/

    <stem>.cu               the sources of the default set
    render_<template>.c     each template as C
    templates.c             ap_templates: which renderer serves which variants
    tiles.c                 ap_tiles: the tile of every variant
    default_set.c           ap_default_set: the cubins that are linked
    device_headers.c        ap_device_headers: what the JIT includes

and in include/

    attnpress/device/wgmma/ptx_wgmma_n<N>.cuh     wgmma with N columns

Everything is a pure function of the repository's files: sorted, without dates, paths or machines.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import jinja2

from generator import GENERATED, ROOT, TEMPLATES, GeneratorError, load_toml
from generator.render import Template, environment, render, render_input
from generator.tiles import Tile, TileRow, table, tile_of
from generator.to_c import c_literal, compile_template
from generator.variant import AXES, Variant, axes_match, axis_values, check_keys

VARIANTS_TOML = ROOT / "generator" / "variants.toml"
INCLUDE = ROOT / "include"
HEADERS = ("attnpress/args/*.h", "attnpress/device/*.cuh", "attnpress/device/wgmma/*.cuh")
PRESSED_HEADERS = "attnpress/device/wgmma/ptx_wgmma_n*.cuh"
"""Files in include/ that only the generator can have written."""
WGMMA_TEMPLATE = "device/ptx_wgmma.cuh.j2"
WGMMA_COLUMNS = tuple(range(8, 257, 8))

# ---- variants.toml ------------------------------------------------------------------------------

# The axes that a product may leave out, and what they are then; hdim_v is then the same as hdim.
_OPTIONAL = {
    "hdim_v": (None,),
    "mask": ("full",),
    "split": (False,),
    "decode": (False,),
    "arch": (80,),
}


@dataclass(frozen=True)
class Exclusion:
    """Takes out what matches each of its axes; `targets` None: variants, else their cubins."""

    axes: tuple[tuple[str, tuple], ...]
    targets: tuple[str, ...] | None
    reason: str


@dataclass(frozen=True)
class VariantSet:
    """One set of variants.toml."""

    variants: tuple[Variant, ...]  # sorted by stem
    cubins: tuple[tuple[str, str], ...]  # (stem, target), sorted


@dataclass(frozen=True)
class Catalog:
    """variants.toml."""

    templates: tuple[Template, ...]
    targets: dict[tuple[str, int], tuple[str, ...]]  # by pass and arch
    sets: dict[str, VariantSet]


@cache
def load_catalog(path: Path = VARIANTS_TOML) -> Catalog:
    """Reads and checks variants.toml."""
    content = load_toml(path)
    check_keys(path.name, content, required={"template", "target", "set"})
    templates = []
    for row in content["template"]:
        label = f"{path.name}: [[template]]"
        check_keys(label, row, required={"name", "pass", "arch"}, optional={"decode"})
        if len(row["arch"]) != 2:
            raise GeneratorError(f"{label}: arch is {row['arch']}, not [from, to]")
        (decode,) = axis_values(label, row, "decode") if "decode" in row else (None,)
        templates.append(
            Template(row["name"], *axis_values(label, row, "pass"), *row["arch"], decode)
        )
    targets: dict[tuple[str, int], tuple[str, ...]] = {}
    for row in content["target"]:
        label = f"{path.name}: [[target]]"
        check_keys(label, row, required={"pass", "arch", "targets"})
        for target in row["targets"]:
            if re.fullmatch(r"sm_[0-9]+[af]?", target) is None:
                raise GeneratorError(f"{label}: target {target} does not look like sm_90")
        for pass_ in axis_values(label, row, "pass"):
            for arch in axis_values(label, row, "arch"):
                targets[pass_, arch] = tuple(row["targets"])
    sets = {
        name: _read_set(f"{path.name}: {name}", row, targets)
        for name, row in content["set"].items()
    }
    if "default" not in sets:
        raise GeneratorError(f"{path.name} has no set named default")
    return Catalog(tuple(sorted(templates, key=lambda template: template.name)), targets, sets)


def _read_set(
    label: str, content: dict, targets: dict[tuple[str, int], tuple[str, ...]]
) -> VariantSet:
    check_keys(label, content, required={"product"}, optional={"exclude"})
    variants = set()
    for row in content["product"]:
        variants.update(_product(label, row))
    exclusions = [_read_exclusion(label, row) for row in content.get("exclude", ())]
    for exclusion in exclusions:
        if not any(axes_match(exclusion.axes, variant) for variant in variants):
            raise GeneratorError(f'{label}: nothing matches the exclusion "{exclusion.reason}"')
    kept = [
        variant
        for variant in sorted(variants, key=lambda variant: variant.stem)
        if not _excluded(exclusions, variant, target=None)
    ]
    cubins = []
    for variant in kept:
        key = variant.pass_, variant.arch
        if key not in targets:
            raise GeneratorError(f"{label}: no [[target]] is for pass {key[0]}, arch {key[1]}")
        cubins += [
            (variant.stem, target)
            for target in sorted(targets[key])
            if not _excluded(exclusions, variant, target)
        ]
    return VariantSet(tuple(kept), tuple(cubins))


def _product(label: str, row: dict) -> Iterator[Variant]:
    """Every combination of a product's values."""
    check_keys(label, row, required=AXES.keys() - _OPTIONAL.keys(), optional=_OPTIONAL.keys())
    axes = [axis_values(label, row, axis) if axis in row else _OPTIONAL[axis] for axis in AXES]
    for pass_, hdim, hdim_v, dtype, mask, split, decode, arch in itertools.product(*axes):
        yield Variant(pass_, hdim, hdim_v or hdim, dtype, mask, split, decode, arch)


def _read_exclusion(label: str, row: dict) -> Exclusion:
    label = f"{label}: exclude"
    check_keys(label, row, required={"reason"}, optional={*AXES, "target"})
    axes = tuple((axis, axis_values(label, row, axis)) for axis in AXES if axis in row)
    if "target" not in row:
        return Exclusion(axes, None, row["reason"])
    targets = row["target"] if isinstance(row["target"], list) else [row["target"]]
    return Exclusion(axes, tuple(targets), row["reason"])


def _excluded(exclusions: list[Exclusion], variant: Variant, target: str | None) -> bool:
    """Whether a variant (target None), or its cubin for a target, is taken out."""
    return any(
        axes_match(exclusion.axes, variant)
        and (exclusion.targets is None if target is None else target in (exclusion.targets or ()))
        for exclusion in exclusions
    )


# ---- Sources ------------------------------------------------------------------------------------


def template_of(templates: Iterable[Template], variant: Variant) -> Template:
    """The one template that serves a variant."""
    found = [template for template in templates if template.serves(variant)]
    if len(found) != 1:
        raise GeneratorError(f"{len(found)} templates serve {variant.stem}, not one")
    return found[0]


def source(env: jinja2.Environment, variant: Variant, tile: Tile | None = None) -> str:
    """The CUDA source of a variant, with its own tile or another."""
    template = template_of(load_catalog().templates, variant)
    return render(env, template.name, render_input(variant, tile or tile_of(variant)))


# ---- Tables -------------------------------------------------------------------------------------

_HEAD = """\
/* Written by `python -m generator` from {origin}; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
"""
_LONG_LITERALS = """
/* C11 promises string literals of 4095 characters, which -Wpedantic holds us to. The compilers that
 * build this take longer ones, and the texts stay readable here. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Woverlength-strings"
#endif
"""
_TILE_COLUMNS = """
/* pass, split (-1: both), hdim, hdim_v, dtype (0: any), mask, decode, arch;
 * {tile};
 * target (NULL: any).
 * Sorted by pass, hdim, hdim_v, mask, decode, arch; the first row that matches a variant and a
 * target is theirs. */
"""
_C_PASS = {"fwd": "AP_PASS_FWD", "fwd_combine": "AP_PASS_FWD_COMBINE"}
_C_DTYPE = {None: "0", "fp16": "ATTNPRESS_FP16", "bf16": "ATTNPRESS_BF16"}
_C_MASK = {"full": "ATTNPRESS_FULL", "causal": "ATTNPRESS_CAUSAL"}
_C_FLAG = {None: "-1", False: "0", True: "1"}


def renderer_c(env: jinja2.Environment, template: Template) -> str:
    """generated/render_<template>.c"""
    function = f"ap_render_{template.c_name}"
    body = compile_template(env, template.name, template.pass_, function)
    compares = "IS(" in body
    return (
        _HEAD.format(origin=f"templates/{template.name}")
        + ("#include <string.h>\n" if compares else "")
        + "\n#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)\n"
        + "#define INTEGER(value) ap_text_append_int(out, value)\n"
        + "#define STRING(value) ap_text_append_string(out, value)\n"
        + ("#define IS(value, literal) (strcmp(value, literal) == 0)\n" if compares else "")
        + f"\nvoid {function}(ap_text *out, const ap_render_input *in);\n\n"
        + body
    )


def templates_c(templates: Iterable[Template]) -> str:
    """generated/templates.c"""
    prototypes, rows = [], []
    for template in templates:
        function = f"ap_render_{template.c_name}"
        prototypes.append(f"void {function}(ap_text *out, const ap_render_input *in);\n")
        rows.append(
            f'    {{"{template.name}", {_C_PASS[template.pass_]}, {template.arch_min}, '
            f"{template.arch_max}, {_C_FLAG[template.decode]}, {function}}},\n"
        )
    return (
        _HEAD.format(origin="generator/variants.toml")
        + "\n"
        + "".join(prototypes)
        + "\n/* name, pass, archs from and to, decode (-1: both), renderer */\n"
        + _table("ap_template", "ap_templates", rows)
    )


def tiles_c(table_rows: Iterable[TileRow]) -> str:
    """generated/tiles.c"""
    rows = []
    for row in table_rows:
        variant = row.variant
        key = (
            _C_PASS[variant.pass_],
            _C_FLAG[row.split],
            variant.hdim,
            variant.hdim_v,
            _C_DTYPE[row.dtype],
            _C_MASK[variant.mask],
            int(variant.decode),
            variant.arch,
        )
        values = [getattr(row.tile, field.name) for field in fields(Tile)]
        target = "NULL" if row.target is None else c_literal(row.target)
        rows.append(f"    {{{{{_commas(key)}}},\n     {{{_commas(values)}}}, {target}}},\n")
    return (
        _HEAD.format(origin="generator/tiles.toml and generator/tiles.py")
        + _TILE_COLUMNS.format(tile=", ".join(field.name for field in fields(Tile)))
        + _table("ap_tile_row", "ap_tiles", rows)
    )


def default_set_c(cubins: Iterable[tuple[str, str]]) -> str:
    """generated/default_set.c"""
    rows = [f'    {{"{stem}", "{target}"}},\n' for stem, target in cubins]
    return (
        _HEAD.format(origin="generator/variants.toml")
        + "\n/* stem, target: sorted */\n"
        + _table("ap_prebuilt_row", "ap_default_set", rows)
    )


def pressed_headers(env: jinja2.Environment) -> dict[str, str]:
    """Name, as kernels include it, and text of each header that comes from a template."""
    return {
        PRESSED_HEADERS.replace("*", str(columns)): render(env, WGMMA_TEMPLATE, {"n": columns})
        for columns in WGMMA_COLUMNS
    }


def device_headers(include: Path = INCLUDE) -> dict[str, str]:
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
        _HEAD.format(origin="include/attnpress")
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


def _commas(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values)


# ---- All files ----------------------------------------------------------------------------------


def generated_files() -> dict[str, str]:
    """Name and text of every file of generated/, sorted by name."""
    catalog = load_catalog()
    default = catalog.sets["default"]
    env = environment(TEMPLATES)
    files = {f"{variant.stem}.cu": source(env, variant) for variant in default.variants}
    for template in catalog.templates:
        files[f"render_{template.c_name}.c"] = renderer_c(env, template)
    files["templates.c"] = templates_c(catalog.templates)
    files["tiles.c"] = tiles_c(table())
    files["default_set.c"] = default_set_c(default.cubins)
    files["device_headers.c"] = device_headers_c(device_headers())
    return dict(sorted(files.items()))


def written_files() -> dict[Path, str]:
    """Path and text of every file that the generator writes, sorted."""
    headers = pressed_headers(environment())
    return {
        **{GENERATED / name: text for name, text in generated_files().items()},
        **{INCLUDE / name: text for name, text in sorted(headers.items())},
    }
