"""A family of kernels as data: generator/<family>/family.toml, read and checked.

What kernels of the family are called (axes), which exist (rules), how their tiles are written
(fields, forms), their templates, and what runs where. What cannot be said as data is the family's
module rules.py: shared memory, threads, registers, the tile of a variant where none was tuned.
generator/README.md describes both.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from generator import FAMILIES_TOML, ROOT, GeneratorError, check_keys, load_toml
from generator.targets import load_targets

AXES_MAX, TILE_FIELDS_MAX, KEY_BITS = 22, 20, 64  # as in runtime/press/registry.h
FAMILY_BITS = 6
NUMBER_MAX = 999_999  # six digits, as the parsers read

Value = str | int | bool
Values = tuple | range
Where = tuple[tuple[str, Values], ...]
"""Axes and the values that they may have: it holds where each has one of its own."""


def one_of(values: Iterable[str]) -> str:
    """ "a", "a or b", "a, b or c"."""
    *most, last = values
    return f"{', '.join(most)} or {last}" if most else last


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis: what it may be, how it is written in a stem, what it is called in sentences."""

    name: str
    kind: str  # "word", "flag", "number"
    label: str
    help: str
    domain: Values  # of words, of numbers, or (False, True)
    codes: Mapping[str, int]  # of words: the integers that stand for them in C
    tokens: Mapping[str, str]  # of words: in a stem; "" for at most one
    token: str  # of a flag: all of it; of a number: what stands before it
    letter: str  # of a number, in the grammar
    shown: str  # of a number: what stands before it in sentences and options
    phrase: tuple[str, str]  # around the value, where it is a circumstance: ("on ", "")
    same_as: str | None  # the axis that it equals where a stem does not name it
    pairs: tuple[tuple[int, int], ...]  # that have rows of tiles beside equal ones, same_as first
    default: Value | None

    def code(self, value: Value) -> int:
        """The value as an integer, as C has it."""
        return self.codes[value] if self.kind == "word" else int(value)

    def has(self, value: object) -> bool:
        """Whether the value is in the domain; 1 is not True, and 64.0 is not 64."""
        return type(value) is type(self.domain[0]) and value in self.domain

    def print(self, value: Value) -> str:
        return f"{self.shown}{value}"

    def say(self, value: Value) -> str:
        """Such as "columns 60", "dtype bf16", "decode"."""
        if self.kind == "flag" and isinstance(value, bool):
            return self.label if value else f"no {self.label}"
        return f"{self.label} {self.print(value)}"

    def circumstance(self, value: Value) -> str:
        """Such as "on sm90", "with dtype bf16", "without decode"."""
        if self.kind == "flag":
            return f"{'with' if value else 'without'} {self.label}"
        return f"{self.phrase[0]}{self.print(value)}{self.phrase[1]}"

    def allowed(self, values: Values) -> str:
        """What values there are, such as "fp16 or bf16", "a multiple of 8 from 8 to 512"."""
        if isinstance(values, range):
            step = f"a multiple of {values.step} " if values.step != 1 else ""
            return f"{step}from {values[0]} to {values[-1]}"
        return one_of(self.print(value) for value in values)

    def refusal(self, value: Value) -> str:
        """What is wrong with a value that is not in the domain."""
        if self.kind == "flag":
            return f"{self.label} is {value}: it must be 0 or 1"
        what = "not supported" if isinstance(self.domain, range) else "unknown"
        return f"{self.say(value)} is {what}: it must be {self.allowed(self.domain)}"

    @cached_property
    def bits(self) -> int:
        """They hold every value."""
        return max(1, max(map(self.code, self.domain)).bit_length())

    @cached_property
    def zero_bits(self) -> int:
        """The lowest of these that are 0 in every value of a number, as in multiples of 8."""
        step = self.domain.step if isinstance(self.domain, range) else 1
        return (step & -step).bit_length() - 1

    @property
    def grammar(self) -> str:
        """Its part of the grammar, such as "[_split]", "_cols<N>", "_sm<80|86|90>"."""
        if self.kind == "flag":
            return f"[{self.token}]"
        if self.kind == "word":
            tokens = [token for token in self.tokens.values() if token]
            if "" in self.tokens.values():
                return f"[{'|'.join(tokens)}]"
            return f"_<{'|'.join(token[1:] for token in tokens)}>"
        numbers = self.letter if isinstance(self.domain, range) else "|".join(map(str, self.domain))
        text = f"{self.token}<{numbers}>"
        return f"[{text}]" if self.same_as else text


@dataclass(frozen=True, eq=False)
class Rule:
    """Where `where` holds, `axis` must have one of `values`; or, where `same_as` is an axis, that
    one's value, or the two be one of `pairs` (same_as first)."""

    where: Where
    axis: str
    values: Values
    same_as: str | None = None
    pairs: tuple[tuple[int, int], ...] = ()

    @cached_property
    def names(self) -> frozenset[str]:
        """All axes that it looks at."""
        return frozenset((self.axis, self.same_as or self.axis, *(name for name, _ in self.where)))


@dataclass(frozen=True, eq=False)
class StandIn:
    """Where `where` holds, variants whose `axis` and the one that it is the same as are a pair
    without rows of tiles have the tile of another: of `pair` (same_as first), or (None) of one
    whose two are both the larger. The family's fit() makes it theirs."""

    where: Where
    axis: str
    same_as: str
    pair: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Field:
    """A field of a tile, from low to high. No default: every name says it, or complete() does."""

    name: str
    low: int
    high: int
    default: int | None


@dataclass(frozen=True)
class Part:
    """A token and the number of a field; not written where that is `absent`. A flag is its token,
    where the field is 1."""

    token: str
    field: str
    absent: int | None = None
    flag: bool = False


@dataclass(frozen=True)
class Form:
    """How tiles are written whose fields are what `where` says."""

    where: tuple[tuple[str, int], ...]
    parts: tuple[Part, ...]
    example: str


@dataclass(frozen=True, eq=False)
class Template:
    """A kernel template and the variants that it serves."""

    name: str  # file in templates/
    where: Where
    fields: Mapping[str, tuple[int, int]]  # of tiles, where the bounds are others than the field's

    @property
    def c_name(self) -> str:
        """toy_fwd of toys/toy_fwd.cu.j2."""
        return Path(self.name).name.split(".")[0]


@dataclass(frozen=True)
class Run:
    """Devices of these compute capabilities run variants for which `where` holds with this arch,
    compiled for this target."""

    where: Where
    capability_min: int
    capability_max: int
    arch: int
    target: str


@dataclass(frozen=True)
class KeyBits:
    """The bits of an axis in a variant's key, from `place` on: of its value without the lowest
    `zeros`, which are 0 in all."""

    place: int
    count: int
    zeros: int


@dataclass(frozen=True, eq=False)
class Family:
    """family.toml. Variants and tiles of a family point to it; there is one object a family."""

    name: str
    folder: Path
    prefix: str
    axes: tuple[Axis, ...]
    legality: tuple[Rule, ...]
    fields: tuple[Field, ...]
    forms: tuple[Form, ...]
    templates: tuple[Template, ...]
    runs: tuple[Run, ...]  # per `where`, of a device best first
    links: tuple[tuple[Where, tuple[str, ...]], ...]  # what cubins of a set are compiled for
    shown: tuple[Where, ...]  # what of the default set stands in generated/
    tile_any: tuple[str, ...]
    rule_any: frozenset[str]  # axes on which the tiles of fill() do not depend
    tile_targets: tuple[str, ...]
    features: tuple[str, ...]  # axes that add to a kernel; tiles depend on them by class alone
    tile_classes: tuple[tuple[int, Where], ...]  # the first that holds is a variant's, else 0
    stand_ins: tuple[StandIn, ...]  # the first that holds counts
    snippets: tuple[Where, ...]  # whose sources end with a text of the caller's
    constants: Mapping[str, Any]  # int, or what to take the largest of

    @cached_property
    def index(self) -> dict[str, int]:
        """The place of each axis."""
        return {axis.name: place for place, axis in enumerate(self.axes)}

    @cached_property
    def key_bits(self) -> tuple[KeyBits, ...]:
        """Of each axis, in a variant's key, whose lowest are those of the last."""
        found: list[KeyBits] = []
        place = 0
        for axis in reversed(self.axes):
            zeros = axis.zero_bits if axis.zero_bits <= place else 0
            found.append(KeyBits(place, axis.bits - zeros, zeros))
            place += axis.bits - zeros
        return tuple(reversed(found))

    @cached_property
    def field_index(self) -> dict[str, int]:
        return {field.name: place for place, field in enumerate(self.fields)}

    @cached_property
    def rules(self) -> ModuleType:
        """The family's module."""
        return importlib.import_module(f"generator.{self.name}.rules")

    @cached_property
    def rule_values(self) -> Callable[[tuple], object]:
        """Of the values of all axes those on which the tiles of fill() depend."""
        return itemgetter(
            *(n for n, axis in enumerate(self.axes) if axis.name not in self.rule_any)
        )

    @property
    def grammar(self) -> str:
        return self.prefix + "".join(axis.grammar for axis in self.axes)

    @property
    def macro(self) -> str:
        """What its names in C begin with: AP_ATTENTION."""
        return f"AP_{self.name.upper()}"

    def axis(self, name: str) -> Axis:
        return self.axes[self.index[name]]


# ---- Reading ------------------------------------------------------------------------------------


def read_where(
    label: str, axes: Mapping[str, Axis], row: Mapping[str, Any], names: Iterable[str] | None = None
) -> Where:
    """The axes of a row and their values, one or a list each; GeneratorError where one is not an
    axis or a value is not in its domain. names: only these keys are looked at."""
    where = []
    for name in row if names is None else (name for name in names if name in row):
        if name not in axes:
            raise GeneratorError(f"{label}: {name} is unknown")
        given = row[name]
        if isinstance(given, dict):
            where.append((name, _narrowed(label, axes[name], given)))
            continue
        values = given if isinstance(given, list) else [given]
        for value in values:
            if not axes[name].has(value):
                raise GeneratorError(f"{label}: {name} {value} is not allowed")
        where.append((name, tuple(values)))
    return tuple(where)


def _narrowed(label: str, axis: Axis, given: dict) -> range:
    """{ low = ..., high = ... } of an axis with a range."""
    check_keys(f"{label}: {axis.name}", given, set(), {"low", "high"})
    domain = axis.domain
    if not isinstance(domain, range):
        raise GeneratorError(f"{label}: {axis.name} has no range to narrow")
    low, high = given.get("low", domain[0]), given.get("high", domain[-1])
    for value in (low, high):
        if not axis.has(value):
            raise GeneratorError(f"{label}: {axis.name} {value} is not allowed")
    return range(low, high + 1, domain.step)


def holds(where: Where, family: Family, values: tuple) -> bool:
    """Whether each axis has one of its values; `values`: of all axes."""
    index = family.index
    for name, allowed in where:  # a loop: it is asked millions of times
        if values[index[name]] not in allowed:
            return False
    return True


def _read_axis(label: str, row: dict) -> Axis:
    optional = {
        "label", "help", "words", "values", "range", "token", "letter", "shown", "phrase",
        "same_as", "pairs", "default",
    }  # fmt: skip
    check_keys(label, row, {"name", "kind"}, optional)
    name, kind = row["name"], row["kind"]
    label = f"{label} {name}"
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None:
        raise GeneratorError(f"{label}: a name is lower-case letters, digits and _")
    codes: dict[str, int] = {}
    tokens: dict[str, str] = {}
    if kind == "word":
        for place, word in enumerate(row["words"]):
            codes[word["name"]] = word.get("value", place)
            tokens[word["name"]] = word.get("token", f"_{word['name']}")
        if len(set(codes.values())) < len(codes) or len(set(tokens.values())) < len(tokens):
            raise GeneratorError(f"{label}: two words have one value or one token")
        domain: Values = tuple(codes)
    elif kind == "flag":
        domain = (False, True)
    elif kind == "number" and "range" in row:
        low, high, step = row["range"]
        domain = range(low, high + 1, step)
        if low < 0 or high > NUMBER_MAX or domain[-1] != high or (step != 1 and low % step):
            raise GeneratorError(f"{label}: range {row['range']} is not from a multiple to another")
    elif kind == "number":
        domain = tuple(row["values"])
    else:
        raise GeneratorError(f"{label}: kind {kind} is not word, flag or number")
    default = row.get("default", False if kind == "flag" else None)
    axis_label = row.get("label", name)
    before, _, after = row.get("phrase", f"with {axis_label} {{}}").partition("{}")
    axis = Axis(
        name, kind, axis_label, row.get("help", ""), domain, codes, tokens,
        row.get("token", "" if kind == "word" else f"_{name}"),
        row.get("letter", name.upper()), row.get("shown", ""), (before, after),
        row.get("same_as"), _read_pairs(row), default,
    )  # fmt: skip
    if default is not None and not axis.has(default):
        raise GeneratorError(f"{label}: default {default} is not allowed")
    return axis


def _read_pairs(row: dict) -> tuple[tuple[int, int], ...]:
    return tuple((first, second) for first, second in row.get("pairs", ()))


def _read_rules(label: str, axes: Mapping[str, Axis], rows: list[dict]) -> tuple[Rule, ...]:
    rules = []
    for number, row in enumerate(rows, start=1):
        here = f"{label}: [[rule]] number {number}"
        check_keys(here, row, {"must"}, {"where", "pairs"})
        where = read_where(here, axes, row.get("where", {}))
        for name, given in row["must"].items():
            if given == "same" and axes[name].same_as:
                rules.append(Rule(where, name, (), axes[name].same_as, _read_pairs(row)))
                continue
            ((_, values),) = read_where(here, axes, {name: given})
            rules.append(Rule(where, name, values))
    return tuple(rules)


def _read_field(label: str, row: dict) -> Field:
    check_keys(label, row, {"name", "range"}, {"default"})
    low, high = row["range"]
    return Field(row["name"], low, high, row.get("default"))


def _read_form(label: str, row: dict, fields: Mapping[str, Field]) -> Form:
    check_keys(label, row, {"parts", "example"}, {"where"})
    parts = tuple(Part(**part) for part in row["parts"])
    for name in [*row.get("where", {}), *(part.field for part in parts)]:
        if name not in fields:
            raise GeneratorError(f"{label}: {name} is not a field")
    return Form(tuple(row.get("where", {}).items()), parts, row["example"])


def _read_runs(label: str, axes: Mapping[str, Axis], rows: list[dict]) -> tuple[Run, ...]:
    runs = []
    for row in rows:
        check_keys(label, row, {"devices"}, {"where"})
        where = read_where(label, axes, row.get("where", {}))
        for device in row["devices"]:
            check_keys(label, device, {"capability", "arch", "target"})
            read_where(label, axes, device, ["arch"])
            check_target(label, device["target"])
            runs.append(Run(where, *device["capability"], device["arch"], device["target"]))
    return tuple(runs)


def _read_classes(
    label: str, axes: Mapping[str, Axis], content: dict
) -> tuple[tuple[int, Where], ...]:
    """The [[tile_class]]es: what they look at are features, whose defaults are those of class 0."""
    features = content.get("features", ())
    for name in features:
        if name not in axes or axes[name].default is None:
            raise GeneratorError(f"{label}: features: {name} is not an axis with a default")
    rows = []
    for row in content.get("tile_class", ()):
        check_keys(f"{label}: [[tile_class]]", row, {"class", "where"})
        where = read_where(f"{label}: [[tile_class]]", axes, row["where"])
        for name, values in where:
            if name not in features or axes[name].default in values:
                raise GeneratorError(
                    f"{label}: [[tile_class]]: {name} is not a feature that is there"
                )
        rows.append((row["class"], where))
    return tuple(rows)


def _read_stand_ins(label: str, axes: Mapping[str, Axis], rows: list[dict]) -> tuple[StandIn, ...]:
    (axis, *others) = [axis for axis in axes.values() if axis.pairs] or [None]
    if rows and (axis is None or others or axis.same_as is None):
        raise GeneratorError(f"{label}: [[stand_in]]: not one axis has pairs")
    found = []
    for row in rows:
        check_keys(f"{label}: [[stand_in]]", row, {"where"}, {"as"})
        where = read_where(f"{label}: [[stand_in]]", axes, row["where"])
        pair = tuple(row["as"]) if "as" in row else None
        if pair is not None and pair[0] != pair[1] and pair not in axis.pairs:
            raise GeneratorError(f"{label}: [[stand_in]]: {pair[0]}/{pair[1]} has no tiles")
        found.append(StandIn(where, axis.name, axis.same_as, pair))
    return tuple(found)


def check_target(label: str, target: str) -> None:
    if target not in load_targets().targets:
        raise GeneratorError(
            f"{label}: target {target} is unknown: it must be {one_of(load_targets().targets)}"
        )


_KEYS = {"prefix", "axis", "template", "run", "link", "shown"}
_OPTIONAL_KEYS = {
    "rule", "field", "tile_name", "tile_any", "rule_any", "tile_targets", "features", "tile_class",
    "stand_in", "snippet", "constants",
}  # fmt: skip


@cache
def load_family(name: str, folder: Path | None = None) -> Family:
    """Reads and checks family.toml of a folder of generator/."""
    folder = folder or ROOT / "generator" / name
    content = load_toml(folder / "family.toml")
    label = f"{name}/family.toml"
    check_keys(label, content, _KEYS, _OPTIONAL_KEYS)
    axes = {axis.name: axis for axis in (_read_axis(f"{label}: axis", r) for r in content["axis"])}
    if "arch" not in axes or axes["arch"].kind != "number":
        raise GeneratorError(f"{label}: the axis arch, a number, is missing")
    fields = {
        field.name: field
        for field in (_read_field(f"{label}: field", row) for row in content.get("field", ()))
    }
    templates = []
    for row in content["template"]:
        here = f"{label}: [[template]]"
        check_keys(here, row, {"name"}, {"where", "fields"})
        where = read_where(here, axes, row.get("where", {}))
        bounds = {field: (low, high) for field, (low, high) in row.get("fields", {}).items()}
        templates.append(Template(row["name"], where, bounds))
    links = []
    for row in content["link"]:
        here = f"{label}: [[link]]"
        check_keys(here, row, {"targets"}, {"where"})
        for target in row["targets"]:
            check_target(here, target)
        links.append((read_where(here, axes, row.get("where", {})), tuple(row["targets"])))
    family = Family(
        name=name,
        folder=folder,
        prefix=content["prefix"],
        axes=tuple(axes.values()),
        legality=_read_rules(label, axes, content.get("rule", [])),
        fields=tuple(fields.values()),
        forms=tuple(
            _read_form(f"{label}: [[tile_name]]", row, fields)
            for row in content.get("tile_name", ())
        ),
        templates=tuple(sorted(templates, key=lambda template: template.name)),
        runs=_read_runs(f"{label}: [[run]]", axes, content["run"]),
        links=tuple(links),
        shown=tuple(read_where(f"{label}: [[shown]]", axes, row) for row in content["shown"]),
        tile_any=tuple(content.get("tile_any", ())),
        rule_any=frozenset(content.get("rule_any", ())),
        tile_targets=tuple(content.get("tile_targets", ())),
        features=tuple(content.get("features", ())),
        tile_classes=_read_classes(label, axes, content),
        stand_ins=_read_stand_ins(label, axes, content.get("stand_in", [])),
        snippets=tuple(
            read_where(f"{label}: [[snippet]]", axes, row["where"])
            for row in content.get("snippet", ())
        ),
        constants=content.get("constants", {}),
    )
    _check_sizes(label, family)
    return family


def _check_sizes(label: str, family: Family) -> None:
    if len(family.axes) > AXES_MAX:
        raise GeneratorError(f"{label}: {len(family.axes)} axes are more than {AXES_MAX}")
    if len(family.fields) > TILE_FIELDS_MAX:
        count = len(family.fields)
        raise GeneratorError(f"{label}: {count} fields are more than {TILE_FIELDS_MAX}")
    bits = FAMILY_BITS + sum(bits.count for bits in family.key_bits)
    if bits > KEY_BITS:
        raise GeneratorError(f"{label}: a variant takes {bits} bits, more than {KEY_BITS}")
    same = (axis.same_as for axis in family.axes if axis.same_as)
    for name in (*family.tile_any, *family.rule_any, *same):
        if name not in family.index:
            raise GeneratorError(f"{label}: {name} is not an axis")
    for target in family.tile_targets:
        check_target(label, target)


@cache
def families(path: Path = FAMILIES_TOML) -> tuple[Family, ...]:
    """All families, in the order of families.toml."""
    content = load_toml(path)
    check_keys(path.name, content, {"families"})
    found = tuple(load_family(name) for name in content["families"])
    for family in found:
        for other in found:
            if other is not family and f"{other.prefix}_".startswith(f"{family.prefix}_"):
                raise GeneratorError(f"{path.name}: prefix {other.prefix} begins like another's")
    if not found or len(found) >= 1 << FAMILY_BITS:
        raise GeneratorError(f"{path.name} lists {len(found)} families")
    return found


def family_of(name: str) -> Family:
    """The family of a name; GeneratorError where it is not listed."""
    for family in families():
        if family.name == name:
            return family
    names = one_of(family.name for family in families())
    raise GeneratorError(f"family {name} is unknown: it must be {names}")
