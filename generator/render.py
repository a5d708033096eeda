"""Templates to CUDA source, by Jinja2. to_c.py makes C of the same templates; both know the
variables below and nothing else."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import jinja2

from generator import TEMPLATES, GeneratorError
from generator.family import Axis, Family, Template, holds
from generator.tiles import Tile, tile_of
from generator.variant import Variant

# ---- Variables: what ap_render_input holds ------------------------------------------------------


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


@dataclass(frozen=True)
class Variable:
    """A variable of a template, and where C finds it: `code` is an integer or a string; of a word,
    `code` is the integer that stands for it, `text` its string, `words` the integers by name."""

    kind: Text | Integer
    code: str
    text: str = ""
    words: Mapping[str, str] = field(default_factory=dict)


SMEM_BYTES_MAX = 1 << 18
THREADS_MAX = 1024


def variables(family: Family, template: Template | None = None) -> dict[str, Variable]:
    """The variables of a family's templates and what they can be; to_c.py proves with it that
    integer expressions neither overflow nor divide by zero. template: with its own bounds."""
    result = {
        "stem": Variable(Text(), "in->stem"),
        "tile_name": Variable(Text(), "in->tile_name"),
        "smem_bytes": Variable(Integer(0, SMEM_BYTES_MAX), "in->smem_bytes"),
        "threads": Variable(Integer(1, THREADS_MAX), "in->threads"),
    }
    for axis in family.axes:
        result[axis.name] = _axis_variable(family, axis)
    for tile_field in family.fields:
        bounds = (tile_field.low, tile_field.high)
        if template is not None:
            bounds = template.fields.get(tile_field.name, bounds)
        result[tile_field.name] = Variable(
            Integer(*bounds), f"in->field[{family.macro}_TILE_{tile_field.name.upper()}]"
        )
    return result


def _axis_variable(family: Family, axis: Axis) -> Variable:
    name = f"{family.macro}_{axis.name.upper()}"
    if axis.kind == "word":
        words = {word: f"{name}_{word.upper()}" for word in axis.domain}
        return Variable(Text(axis.domain), f"in->axis[{name}]", f"in->word[{name}]", words)
    codes = [axis.code(value) for value in axis.domain]
    return Variable(Integer(min(codes), max(codes)), f"in->axis[{name}]")


def template_of(variant: Variant) -> Template:
    """The one template that serves a variant."""
    family = variant.family
    found = [row for row in family.templates if holds(row.where, family, variant.values)]
    if len(found) != 1:
        raise GeneratorError(f"{len(found)} templates serve {variant.stem}, not one")
    return found[0]


def render_input(variant: Variant, tile: Tile) -> dict[str, str | int]:
    """The values of every variable."""
    values: dict[str, str | int] = {
        "stem": variant.stem,
        "tile_name": tile.name,
        "smem_bytes": tile.smem_bytes,
        "threads": tile.threads,
    }
    for axis in variant.family.axes:
        value = variant[axis.name]
        values[axis.name] = value if axis.kind == "word" else int(value)
    for tile_field in variant.family.fields:
        values[tile_field.name] = tile[tile_field.name]
    for name, variable in variables(variant.family, template_of(variant)).items():
        value, kind = values[name], variable.kind
        if isinstance(kind, Integer) and not kind.low <= value <= kind.high:
            raise GeneratorError(
                f"{name} {value} is out of range: it must be from {kind.low} to {kind.high}"
            )
    return values


# ---- Jinja2 -------------------------------------------------------------------------------------


class TemplateError(GeneratorError):
    """What is wrong with a template, where: "toys/toy_fwd.cu.j2:12: ..."."""

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


def source(env: jinja2.Environment, variant: Variant, tile: Tile | None = None) -> str:
    """The CUDA source of a variant, with its own tile or another."""
    return render(env, template_of(variant).name, render_input(variant, tile or tile_of(variant)))
