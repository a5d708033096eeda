"""A variant: everything that a stem says. One printer, one parser and one check for all families;
runtime/press/variant.c is this file's twin in C, and says the same sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass, field
from functools import cache, cached_property
from typing import Any

from generator import GeneratorError
from generator.family import Axis, Family, Rule, Value, families, holds, one_of


class VariantError(GeneratorError):
    """A variant that does not exist, or a stem that does not parse."""


@dataclass(frozen=True)
class Variant:
    """One kernel, before its tile and target are chosen: a value for each axis, in order. Only
    legal ones can be made. v["arch"], or v.arch, is the value of an axis."""

    family: Family = field(repr=False)  # long
    values: tuple[Value, ...]
    changed: InitVar[Iterable[str] | None] = None  # only these axes are not a legal variant's

    def __post_init__(self, changed: Iterable[str] | None) -> None:
        if sentence := illegal(self.family, self.values, changed):
            raise VariantError(sentence)
        # Attributes like the others: they are asked for millions of times.
        vars(self).update(zip(self.family.index, self.values, strict=True))

    def __getitem__(self, axis: str) -> Any:
        return vars(self)[axis]

    def replace(self, **changed: Value) -> Variant:
        """The variant with other values of some axes."""
        values = list(self.values)
        for axis, value in changed.items():
            values[self.family.index[axis]] = value
        return Variant(self.family, tuple(values))

    @property
    def stem(self) -> str:
        """Names the source file, the extern "C" symbol, the renderer's input, the log line."""
        return self.family.prefix + "".join(
            _token(self.family, axis, value, self.values)
            for axis, value in zip(self.family.axes, self.values, strict=True)
        )

    @cached_property
    def tile_class(self) -> int:
        """By which its tile depends on its features."""
        for number, where in self.family.tile_classes:
            if holds(where, self.family, self.values):
                return number
        return 0

    @property
    def takes_snippet(self) -> bool:
        """Whether its source ends with a text of the caller's; without it, it does not compile."""
        return any(holds(where, self.family, self.values) for where in self.family.snippets)

    @property
    def codes(self) -> tuple[int, ...]:
        """The values as integers, as ap_variant has them."""
        return tuple(
            axis.code(value) for axis, value in zip(self.family.axes, self.values, strict=True)
        )


def make_variant(family: Family, **axes: Value) -> Variant:
    """A variant by axis names; what is left out is the default, or the same as its axis says."""
    values: list[Value] = []
    for axis in family.axes:
        if axis.name in axes:
            values.append(axes.pop(axis.name))
        elif axis.same_as:
            values.append(values[family.index[axis.same_as]])
        elif axis.default is not None:
            values.append(axis.default)
        else:
            raise VariantError(f"{axis.name} is missing")
    if axes:
        raise VariantError(f"{min(axes)} is unknown")
    return Variant(family, tuple(values))


# ---- What is legal ------------------------------------------------------------------------------


def illegal(
    family: Family, values: tuple[Value, ...], changed: Iterable[str] | None = None
) -> str | None:
    """What is wrong with values of all axes; None: nothing. changed: the others are those of a
    legal variant."""
    axes, rules = _what_to_check(family, frozenset(family.index if changed is None else changed))
    for place, axis in axes:
        if not axis.has(values[place]):
            return axis.refusal(values[place])
    rule = _first_breach(rules, family, values)
    return None if rule is None else _breach(rule, family, values)


@cache
def _what_to_check(
    family: Family, names: frozenset[str]
) -> tuple[list[tuple[int, Axis]], list[Rule]]:
    """Of these axes: themselves, by place, and the rules that look at any of them."""
    axes = [(place, axis) for place, axis in enumerate(family.axes) if axis.name in names]
    return axes, [rule for rule in family.legality if not names.isdisjoint(rule.names)]


def _first_breach(rules: Iterable[Rule], family: Family, values: tuple[Value, ...]) -> Rule | None:
    """The first of some rules that values do not keep; `values`: of all axes that these name."""
    where, here = None, False
    for rule in rules:
        if rule.where is not where:  # that of several rules in a row
            where, here = rule.where, holds(rule.where, family, values)
        if here and not _kept(rule, family, values):
            return rule
    return None


def _kept(rule: Rule, family: Family, values: tuple[Value, ...]) -> bool:
    value = values[family.index[rule.axis]]
    if rule.same_as is None:
        return value in rule.values
    other = values[family.index[rule.same_as]]
    return value == other or (other, value) in rule.pairs


def _breach(rule: Rule, family: Family, values: tuple[Value, ...]) -> str:
    """Names the value, the circumstances, and what is allowed."""
    axis = family.axis(rule.axis)
    text = f"{axis.say(values[family.index[rule.axis]])} is not supported"
    if rule.same_as is not None:
        text += f" with {family.axis(rule.same_as).say(values[family.index[rule.same_as]])}"
    for number, (name, _) in enumerate(rule.where):
        circumstance = family.axis(name).circumstance(values[family.index[name]])
        text += f"{' and' if number else ''} {circumstance}"
    if rule.same_as is not None:
        pairs = ", ".join(f"{first}/{second}" for first, second in rule.pairs)
        return f"{text}: it must be equal" + (f", or the two one of {pairs}" if pairs else "")
    return text if axis.kind == "flag" else f"{text}: it must be {axis.allowed(rule.values)}"


def with_class(variant: Variant, number: int) -> Variant | None:
    """The variant with features of a tile class: the first values of the first [[tile_class]] that
    it can have; None where there is none."""
    for found, where in variant.family.tile_classes:
        if found == number:
            try:
                return variant.replace(**{name: values[0] for name, values in where})
            except VariantError:
                continue
    return None if number else variant


@cache
def every_variant(family: Family, with_features: bool = False) -> tuple[Variant, ...]:
    """All variants of a family that have rows of tiles, in the order of their axes; those that have
    features only where these are asked for: they are many."""
    found: list[tuple[Value, ...]] = [()]
    for place, axis in enumerate(family.axes):
        plain = axis.name in family.features and not with_features
        known = [rule for rule in family.legality if _last_place(rule, family) == place]
        found = [
            values
            for before in found
            for value in ((axis.default,) if plain else _candidates(family, axis, before))
            if _first_breach(known, family, values := (*before, value)) is None
        ]
    return tuple(Variant(family, values, changed=()) for values in found)


def _last_place(rule: Rule, family: Family) -> int:
    """The place of the axis behind which it is known whether a variant keeps a rule."""
    return max(family.index[name] for name in rule.names)


def _candidates(family: Family, axis: Axis, values: tuple[Value, ...]) -> Iterator[Value]:
    """What an axis may be behind others, at the most."""
    if axis.same_as is None:
        yield from axis.domain
        return
    other = values[family.index[axis.same_as]]
    near = {other, *(second for first, second in axis.pairs if first == other)}
    yield from (value for value in axis.domain if not axis.pairs or value in near)


def stand_in(variant: Variant) -> Variant | None:
    """The variant whose tile this one has; None: it has one of its own."""
    for row in variant.family.stand_ins:
        first, second = variant[row.same_as], variant[row.axis]
        if first == second or (first, second) in variant.family.axis(row.axis).pairs:
            return None
        if holds(row.where, variant.family, variant.values):
            pair = row.pair or (max(first, second),) * 2
            return variant.replace(**{row.same_as: pair[0], row.axis: pair[1]})
    return None


# ---- The grammar --------------------------------------------------------------------------------


def _token(family: Family, axis: Axis, value: Value, values: tuple[Value, ...]) -> str:
    if axis.kind == "word":
        return axis.tokens[value]
    if axis.kind == "flag":
        return axis.token if value else ""
    if axis.same_as and values[family.index[axis.same_as]] == value:
        return ""
    return f"{axis.token}{value}"


def _parse_number(text: str, at: int) -> tuple[int, int] | None:
    """A decimal number of at most six digits and no leading zero, and the offset after it."""
    end = at
    while end < len(text) and "0" <= text[end] <= "9":
        end += 1
    if not 0 < end - at <= 6 or (text[at] == "0" and end - at > 1):
        return None
    return int(text[at:end]), end


def _parse(family: Family, stem: str) -> tuple[Value, ...] | None:
    """The values that a stem gives the axes; None where it does not parse."""
    at = len(family.prefix)
    values: list[Value] = []
    for axis in family.axes:
        if axis.kind == "word":
            words = [word for word, token in axis.tokens.items() if stem.startswith(token, at)]
            if not words:
                return None
            values.append(max(words, key=lambda word: len(axis.tokens[word])))
            at += len(axis.tokens[values[-1]])
            continue
        found = stem.startswith(axis.token, at)
        at += len(axis.token) if found else 0
        if axis.kind == "flag":
            values.append(found)
        elif found:
            number = _parse_number(stem, at)
            if number is None or (axis.same_as and number[0] == values[family.index[axis.same_as]]):
                return None
            values.append(number[0])
            at = number[1]
        elif axis.same_as:
            values.append(values[family.index[axis.same_as]])
        else:
            return None
    return tuple(values) if at == len(stem) else None


def parse_stem(stem: str) -> Variant:
    """The inverse of Variant.stem; VariantError where it does not parse or is not legal."""
    for family in families():
        if not stem.startswith(f"{family.prefix}_"):
            continue
        values = _parse(family, stem)
        if values is None:
            raise VariantError(f'"{stem}" is not the name of a kernel: names are {family.grammar}')
        return Variant(family, values)
    prefixes = one_of(f"{family.prefix}_" for family in families())
    raise VariantError(f'"{stem}" is not the name of a kernel: names begin with {prefixes}')


def constants(family: Family) -> dict[str, int]:
    """The family's constants; { max = AXIS, where = ... } is the largest legal value of an axis."""
    result = {}
    for name, given in family.constants.items():
        if not isinstance(given, dict):
            result[name] = given
            continue
        where = [(axis, (value,)) for axis, value in given["where"].items()]
        result[name] = max(
            int(variant[given["max"]])
            for variant in every_variant(family)
            if holds(tuple(where), family, variant.values)
        )
    return result


def of_each_class(family: Family, plain: Iterable[Variant]) -> list[Variant]:
    """Of each variant those with features of each tile class."""
    classes = sorted({0, *(number for number, _ in family.tile_classes)})
    found = (with_class(variant, number) for variant in plain for number in classes)
    return [variant for variant in found if variant is not None]


def key_groups(family: Family) -> dict[tuple, list[Variant]]:
    """The variants without features by all axes but those that rows of tiles may leave open, sorted
    by code."""
    open_ = {*family.tile_any, *family.features}
    kept = [axis for axis in family.axes if axis.name not in open_]
    groups: dict[tuple, list[Variant]] = {}
    for plain in every_variant(family):
        key = tuple(axis.code(plain[axis.name]) for axis in kept)
        groups.setdefault(key, []).append(plain)
    return dict(sorted(groups.items(), key=lambda item: item[0]))
