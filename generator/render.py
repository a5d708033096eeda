"""Templates to CUDA source, by Jinja2. to_c.py makes C of the same templates; both know the
variables below and nothing else."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import jinja2

from generator import TEMPLATES, GeneratorError
from generator.tiles import Tile
from generator.variant import ARCHS, DTYPES, MASKS, Variant


@dataclass(frozen=True)
class Template:
    """A row of ap_templates: which variants a template serves."""

    name: str  # file in templates/
    pass_: str
    arch_min: int
    arch_max: int
    decode: bool | None = None  # None: both

    def serves(self, variant: Variant) -> bool:
        return (
            variant.pass_ == self.pass_
            and self.arch_min <= variant.arch <= self.arch_max
            and self.decode in (None, variant.decode)
        )

    @property
    def c_name(self) -> str:
        """flash_fwd_sm80 of attention/flash_fwd_sm80.cu.j2."""
        return Path(self.name).name.split(".")[0]


# ---- Variables: the fields of ap_render_input ---------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A variable that is a string. `values`: all that it can be, or () where that is not known;
    only such variables as have values may be compared."""

    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Integer:
    """A variable that is an integer, or what is known of an integer expression: its bounds."""

    low: int
    high: int


_STRINGS = {
    "stem": Text(),
    "dtype": Text(DTYPES),
    "mask": Text(MASKS),
    "tile_name": Text(),
}
_VARIANT_INTEGERS = {
    "split": Integer(0, 1),
    "decode": Integer(0, 1),
    "hdim": Integer(8, 512),
    "hdim_v": Integer(8, 512),
    "arch": Integer(min(ARCHS), max(ARCHS)),
}
_TILE_INTEGERS = {
    "block_m": Integer(1, 1024),
    "block_n": Integer(16, 1024),
    "warps_m": Integer(1, 32),
    "warps_n": Integer(1, 32),
    "stages": Integer(2, 64),
    "k_slab": Integer(8, 512),
    "v_slab": Integer(16, 1024),
    "q_in_regs": Integer(0, 1),
    "min_blocks": Integer(1, 32),
    "k_unroll": Integer(0, 32),
    "spread": Integer(0, 1),
    "producer": Integer(0, 1),
    "warps_k": Integer(1, 32),
    "smem_bytes": Integer(0, 1 << 18),
}
_UNUSED_BY_COMBINE = ("stages", "k_slab", "v_slab")


def variables(pass_: str) -> dict[str, Text | Integer]:
    """The variables of a pass's templates and what they can be; to_c.py proves with it that
    integer expressions neither overflow nor divide by zero."""
    result: dict[str, Text | Integer] = {**_STRINGS, **_VARIANT_INTEGERS, **_TILE_INTEGERS}
    if pass_ == "fwd_combine":
        result.update((name, Integer(0, 0)) for name in _UNUSED_BY_COMBINE)
    return result


def render_input(variant: Variant, tile: Tile) -> dict[str, str | int]:
    """The values of every variable."""
    values: dict[str, str | int] = {
        "stem": variant.stem,
        "dtype": variant.dtype,
        "mask": variant.mask,
        "tile_name": tile.name,
        "split": int(variant.split),
        "decode": int(variant.decode),
        "hdim": variant.hdim,
        "hdim_v": variant.hdim_v,
        "arch": variant.arch,
    }
    values.update((field.name, getattr(tile, field.name)) for field in fields(Tile))
    for name, kind in variables(variant.pass_).items():
        value = values[name]
        if isinstance(kind, Integer) and not kind.low <= value <= kind.high:
            raise GeneratorError(
                f"{name} {value} is out of range: it must be from {kind.low} to {kind.high}"
            )
    return values


# ---- Jinja2 -------------------------------------------------------------------------------------


class TemplateError(GeneratorError):
    """What is wrong with a template, where: "attention/flash_fwd_sm80.cu.j2:12: ..."."""

    def __init__(self, template: str, line: int, what: str) -> None:
        super().__init__(f"{template}:{line}: {what}")


def environment(folder: Path = TEMPLATES) -> jinja2.Environment:
    """Directives look like comments of C, and vanish with their lines."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        line_statement_prefix="//%",
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="${",
        variable_end_string="}",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def template_text(env: jinja2.Environment, name: str) -> str:
    """The text of a template file; GeneratorError where there is none."""
    try:
        return env.loader.get_source(env, name)[0]
    except jinja2.TemplateNotFound:
        raise GeneratorError(f"template {name} is missing") from None


def render(env: jinja2.Environment, name: str, values: Mapping[str, str | int]) -> str:
    """A template's output; TemplateError where it does not parse or names an unknown variable."""
    try:
        return env.get_template(name).render(values)
    except jinja2.TemplateNotFound as error:
        raise GeneratorError(f"template {error.name} is missing") from None
    except jinja2.TemplateSyntaxError as error:
        raise TemplateError(error.name or name, error.lineno, error.message) from None
    except jinja2.UndefinedError as error:
        # Jinja2 has put the template's own file and line into the traceback.
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = Path(at.filename).relative_to(env.loader.searchpath[0]).as_posix()
        raise TemplateError(where, at.lineno or 0, error.message or "") from None
    except RecursionError:
        raise GeneratorError(f"{name}: a template includes itself") from None
