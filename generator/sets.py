"""generator/<family>/variants.toml: which variants are pressed in advance, as sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from generator import GeneratorError, check_keys, load_toml
from generator.family import Family, Where, check_target, families, holds, read_where
from generator.variant import Variant, make_variant

SHOWN_MAX = 310
"""Files in generated/, at the most."""


@dataclass(frozen=True)
class Exclusion:
    """Takes out what matches each of its axes; `targets` None: variants, else their cubins."""

    where: Where
    targets: tuple[str, ...] | None
    reason: str


@dataclass(frozen=True)
class VariantSet:
    """One set of variants.toml."""

    variants: tuple[Variant, ...]  # sorted by stem
    cubins: tuple[tuple[str, str], ...]  # (stem, target), sorted


@cache
def load_sets(family: Family, path: Path | None = None) -> dict[str, VariantSet]:
    """Reads and checks a family's variants.toml; there is always a set named default."""
    path = path or family.folder / "variants.toml"
    content = load_toml(path)
    check_keys(path.name, content, required={"set"})
    sets = {
        name: _read_set(f"{path.name}: {name}", row, family) for name, row in content["set"].items()
    }
    if "default" not in sets:
        raise GeneratorError(f"{path.name} has no set named default")
    return sets


def whole_set(name: str) -> VariantSet:
    """A set of all families that have one of this name."""
    found = [load_sets(family) for family in families()]
    names = sorted({name for sets in found for name in sets})
    if name not in names:
        raise GeneratorError(f"set {name} is unknown: it must be one of {', '.join(names)}")
    variants = [variant for sets in found if name in sets for variant in sets[name].variants]
    cubins = [cubin for sets in found if name in sets for cubin in sets[name].cubins]
    return VariantSet(
        tuple(sorted(variants, key=lambda variant: variant.stem)), tuple(sorted(cubins))
    )


def shown_variants() -> list[Variant]:
    """The variants whose sources stand in generated/: of the default sets those that [[shown]]
    says, and sets named shown, whose kernels are not linked in."""
    linked = [
        variant
        for variant in whole_set("default").variants
        if any(holds(where, variant.family, variant.values) for where in variant.family.shown)
    ]
    sets = [load_sets(family).get("shown") for family in families()]
    others = {variant for found in sets if found for variant in found.variants}
    return sorted({*linked, *others}, key=lambda variant: variant.stem)


def link_targets(variant: Variant) -> tuple[str, ...]:
    """What a variant of a set is compiled for; GeneratorError where no [[link]] says."""
    for where, targets in variant.family.links:
        if holds(where, variant.family, variant.values):
            return targets
    raise GeneratorError(f"no [[link]] of {variant.family.name}/family.toml is for {variant.stem}")


def _read_set(label: str, content: dict, family: Family) -> VariantSet:
    check_keys(label, content, required={"product"}, optional={"exclude"})
    variants = set()
    for row in content["product"]:
        variants.update(_product(label, row, family))
    exclusions = [_read_exclusion(label, row, family) for row in content.get("exclude", ())]
    for exclusion in exclusions:
        if not any(holds(exclusion.where, family, variant.values) for variant in variants):
            raise GeneratorError(f'{label}: nothing matches the exclusion "{exclusion.reason}"')
    for variant in variants:
        if variant.takes_snippet:
            raise GeneratorError(f"{label}: {variant.stem} is compiled with a text of the caller's")
    kept = [
        variant
        for variant in sorted(variants, key=lambda variant: variant.stem)
        if not _excluded(exclusions, variant, target=None)
    ]
    _check_needed(label, kept)
    cubins = [
        (variant.stem, target)
        for variant in kept
        for target in sorted(link_targets(variant))
        if not _excluded(exclusions, variant, target)
    ]
    return VariantSet(tuple(kept), tuple(cubins))


def _check_needed(label: str, variants: list[Variant]) -> None:
    """A set holds what calls of its kernels launch beside them."""
    here = set(variants)
    needed = {
        other.stem
        for variant in variants
        for other in getattr(variant.family.rules, "needed", lambda _: ())(variant)
        if other not in here
    }
    if needed:
        raise GeneratorError(
            f"{label}: its kernels need others as well: {', '.join(sorted(needed))}"
        )


def _product(label: str, row: dict, family: Family) -> Iterator[Variant]:
    """Every combination of a product's values; an axis that is left out has its default, or equals
    another."""
    required = {axis.name for axis in family.axes if axis.default is None and not axis.same_as}
    check_keys(label, row, required, set(family.index))
    axes = {axis.name: axis for axis in family.axes}
    where = read_where(label, axes, row, names=axes)
    for values in itertools.product(*(values for _, values in where)):
        yield make_variant(family, **dict(zip((name for name, _ in where), values, strict=True)))


def _read_exclusion(label: str, row: dict, family: Family) -> Exclusion:
    label = f"{label}: exclude"
    check_keys(label, row, required={"reason"}, optional={*family.index, "target"})
    axes = {axis.name: axis for axis in family.axes}
    where = read_where(label, axes, row, names=axes)
    if "target" not in row:
        return Exclusion(where, None, row["reason"])
    targets = row["target"] if isinstance(row["target"], list) else [row["target"]]
    for target in targets:
        check_target(label, target)
    return Exclusion(where, tuple(targets), row["reason"])


def _excluded(exclusions: list[Exclusion], variant: Variant, target: str | None) -> bool:
    """Whether a variant (target None), or its cubin for a target, is taken out."""
    return any(
        holds(exclusion.where, variant.family, variant.values)
        and (exclusion.targets is None if target is None else target in (exclusion.targets or ()))
        for exclusion in exclusions
    )
