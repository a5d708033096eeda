"""Tiles: how a variant's work is cut.

generator/<family>/tiles.toml holds those that were tuned; the rule of the family's rules.py gives
every other variant one. `tile_of()` is what a variant gets, `table()` the whole table that the
runtime links. A family's rules.py has

    threads(tile)                       threads of a thread block
    smem_bytes(variant, tile)           its dynamic shared memory
    complete(variant, fields)           fields that a tile's name leaves open (may be absent)
    problems(variant, tile, target)     what is wrong with a tile, a sentence each
    fill(variant)                       the rule's tile
    fit(variant, other, tile)           the variant's, of the tile of its stand-in (may be absent)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import field as data_field
from functools import cache
from pathlib import Path

from generator import GeneratorError, check_keys, load_toml
from generator.family import Family, Form, Value, Values, Where, holds, one_of, read_where
from generator.variant import Variant, VariantError, key_groups, of_each_class, stand_in


@dataclass(frozen=True)
class Tile:
    """A value for each field of the family, in order, and what follows from them for a variant.
    t["stages"], or t.stages, is the value of a field. Each is a template variable of its name, and
    one of ap_tile in runtime/press/registry.h."""

    family: Family = data_field(repr=False)  # long
    values: tuple[int, ...]
    smem_bytes: int = 0  # dynamic shared memory of a thread block

    def __post_init__(self) -> None:
        # Attributes like the others: they are asked for millions of times.
        vars(self).update(zip(self.family.field_index, self.values, strict=True))

    def __getitem__(self, field: str) -> int:
        return vars(self)[field]

    def replace(self, **changed: int) -> Tile:
        """The tile with other values of some fields."""
        smem_bytes = changed.pop("smem_bytes", self.smem_bytes)
        values = list(self.values)
        for field, value in changed.items():
            values[self.family.field_index[field]] = value
        return Tile(self.family, tuple(values), smem_bytes)

    @property
    def threads(self) -> int:
        """Of a thread block."""
        return self.family.rules.threads(self)

    @property
    def name(self) -> str:
        """Such as m128n64w4x1s2k128v64: the [[tile_name]]s of family.toml say how it is written."""
        return "".join(
            part.token if part.flag else f"{part.token}{self[part.field]}"
            for part in _form_of(self).parts
            if (self[part.field] if part.flag else self[part.field] != part.absent)
        )


def make_tile(family: Family, smem_bytes: int = 0, **fields: int) -> Tile:
    """A tile by field names; what is left out is the field's default."""
    if unknown := fields.keys() - family.field_index:
        raise GeneratorError(f"{min(unknown)} is not a field of a tile")
    values = tuple(fields.get(field.name, field.default) for field in family.fields)
    if None in values:
        missing = family.fields[values.index(None)]
        raise GeneratorError(f"{missing.name} of the tile is missing")
    return Tile(family, values, smem_bytes)


def sized(variant: Variant, tile: Tile) -> Tile:
    """The tile with its shared memory for a variant."""
    return tile.replace(smem_bytes=variant.family.rules.smem_bytes(variant, tile))


# ---- Names --------------------------------------------------------------------------------------


def _form_of(tile: Tile) -> Form:
    for form in tile.family.forms:
        if all(tile[field] == value for field, value in form.where):
            return form
    raise GeneratorError(f"no [[tile_name]] of {tile.family.name} says how to write {tile.values}")


def _parse_form(form: Form, name: str) -> dict[str, int] | None:
    """The fields that a name gives, by one form; None where it is not of this form."""
    fields: dict[str, int] = dict(form.where)
    at = 0
    for part in form.parts:
        found = name.startswith(part.token, at)
        at += len(part.token) if found else 0
        if part.flag:
            fields[part.field] = int(found)
            continue
        if not found and part.absent is not None:
            fields[part.field] = part.absent
            continue
        end = at
        while end < len(name) and name[end] in "0123456789":
            end += 1
        if not found or not 0 < end - at <= 6:
            return None
        fields[part.field] = int(name[at:end])
        at = end
    return fields if at == len(name) else None


def parse_tile(name: str, variant: Variant) -> Tile:
    """The tile of a name for this variant, which decides its shared memory. Legality is not
    checked here; see problems()."""
    family = variant.family
    for form in family.forms:
        fields = _parse_form(form, name)
        if fields is None:
            continue
        complete = getattr(family.rules, "complete", None)
        tile = make_tile(family, **(complete(variant, fields) if complete else fields))
        if tile.name != name:
            raise GeneratorError(f'"{name}" is not how a tile is written: that is {tile.name}')
        return sized(variant, tile)
    examples = one_of(form.example for form in family.forms)
    raise GeneratorError(
        f'"{name}" is not the name of a tile: names look like {examples}'
        + "".join(_meaning(form) for form in family.forms if len(form.parts) > 3)
    )


def _meaning(form: Form) -> str:
    parts = (f"{part.token}{'' if part.flag else '<n>'} {part.field}" for part in form.parts)
    return f"; {form.example}: {', '.join(parts)}"


def problems(variant: Variant, tile: Tile, target: str | None = None) -> list[str]:
    """What is wrong with a tile for a variant, on one target or (None) on each that its
    architecture serves; one sentence each; empty: legal."""
    return variant.family.rules.problems(variant, tile, target)


# ---- Tuned tiles --------------------------------------------------------------------------------


@dataclass(frozen=True)
class TunedTile:
    """One [[tile]] of tiles.toml: the tile of every variant whose axes are among `where`'s, on
    `targets` or (None) on all."""

    where: Where
    tile: str
    targets: tuple[str, ...] | None = None
    classes: tuple[int, ...] = (0,)  # of the features that the tile is for

    def matches(self, variant: Variant, target: str | None) -> bool:
        """An axis that equals another where it is not named must equal it here, too. The class
        is looked at apart."""
        if self.targets is not None and target not in self.targets:
            return False
        if not holds(self.where, variant.family, variant.values):
            return False
        named = {name for name, _ in self.where}
        return all(
            axis.name in named or variant[axis.name] == variant[axis.same_as]
            for axis in variant.family.axes
            if axis.same_as
        )


@cache
def load_tuned(family: Family, path: Path | None = None) -> tuple[TunedTile, ...]:
    """The rows of the family's tiles.toml; none where it has no such file."""
    path = path or family.folder / "tiles.toml"
    if path == family.folder / "tiles.toml" and not path.exists():
        return ()
    content = load_toml(path)
    check_keys(path.name, content, required=set(), optional={"tile"})
    axes = {axis.name: axis for axis in family.axes}
    required = {a.name for a in family.axes if a.name in ("arch", "pass") or a.default is None}
    required -= {axis.name for axis in family.axes if axis.same_as}
    rows = []
    for number, row in enumerate(content.get("tile", ()), start=1):
        label = f"{path.name}: [[tile]] number {number}"
        check_keys(label, row, {*required, "tile"}, {*axes, "class", "target", "note"})
        where = read_where(label, axes, row, names=axes)
        _check_pairs(label, dict(where), family)
        rows.append(
            TunedTile(
                where,
                row["tile"],
                _row_targets(label, row, family),
                _row_classes(label, row, family),
            )
        )
    return tuple(rows)


def _check_pairs(label: str, where: dict[str, Values], family: Family) -> None:
    """A row of a pair that has a stand-in would never count."""
    for axis in family.axes:
        if not axis.pairs or axis.name not in where:
            continue
        for first in where[axis.same_as]:
            for second in where[axis.name]:
                if first != second and (first, second) not in axis.pairs:
                    raise GeneratorError(
                        f"{label}: {first}/{second} is none of the pairs of {axis.name}, which "
                        "alone have tiles of their own"
                    )


def _row_targets(label: str, row: dict, family: Family) -> tuple[str, ...] | None:
    if "target" not in row:
        return None
    targets = row["target"] if isinstance(row["target"], list) else [row["target"]]
    for target in targets:
        if target not in family.tile_targets:
            raise GeneratorError(f"{label}: target {target} is not allowed")
    return tuple(targets)


def _row_classes(label: str, row: dict, family: Family) -> tuple[int, ...]:
    given = row.get("class", 0)
    classes = tuple(given) if isinstance(given, list) else (given,)
    for number in classes:
        if number != 0 and number not in (known for known, _ in family.tile_classes):
            raise GeneratorError(f"{label}: class {number} is not allowed")
    return classes


def tile_of(
    variant: Variant, tuned: tuple[TunedTile, ...] | None = None, target: str | None = None
) -> Tile:
    """The variant's tile, for one target or (None) for those that have no row of their own: the
    tuned one of the target, else the tuned one that says most about the variant, else the
    rule's. Of a variant that has a stand-in, that one's of all targets, fitted."""
    family = variant.family
    tuned = load_tuned(family) if tuned is None else tuned
    other = stand_in(variant)
    if other is not None:
        return family.rules.fit(variant, other, tile_of(other, tuned))
    row = tuned_row(variant, tuned, target)
    if row is None:
        return filled(variant)
    tile = parse_tile(row.tile, variant)
    if found := problems(variant, tile, row.targets and target):
        raise GeneratorError(f"tiles.toml: {tile.name} is not legal for {variant.stem}: {found[0]}")
    return tile


def tuned_row(
    variant: Variant, tuned: tuple[TunedTile, ...], target: str | None
) -> TunedTile | None:
    """The row that says most about a variant, which has no stand-in; None: there is none."""
    features = variant.tile_class
    rows = [row for row in tuned if features in row.classes and row.matches(variant, target)]
    rows = [row for row in rows if row.targets is not None] or rows
    if not rows:
        return None
    most = max(len(row.where) for row in rows)
    best = [row for row in rows if len(row.where) == most]
    if len(best) > 1:  # the one whose variants are all among each other's
        best = [row for row in best if all(_is_within(row, other) for other in best)] or best
    if len(best) > 1:
        raise GeneratorError(
            f"tiles.toml: {best[0].tile} and {best[1].tile} both claim {variant.stem}"
        )
    return best[0]


def _is_within(row: TunedTile, other: TunedTile) -> bool:
    outer = dict(other.where)
    return all(name in outer and set(some) <= set(outer[name]) for name, some in row.where)


def filled(variant: Variant) -> Tile:
    """The rule's tile, made once for all that differ in the family's `rule_any`."""
    alike = (variant.family, variant.family.rule_values(variant.values))
    if alike not in _filled:
        _filled[alike] = variant.family.rules.fill(variant)
    return _filled[alike]


_filled: dict[tuple, Tile] = {}


# ---- The whole table ----------------------------------------------------------------------------


@dataclass(frozen=True)
class TileRow:
    """A row of the table: a tile and, by code, the axes and the tile class that it is for; None:
    any. `target` None: all. Of two rows that match one variant, the one that names the target
    stands first."""

    codes: tuple[int | None, ...]
    tile: Tile
    target: str | None = None
    tile_class: int | None = None

    def matches(self, variant: Variant) -> bool:
        return self.tile_class in (None, variant.tile_class) and all(
            mine is None or mine == code
            for mine, code in zip(self.codes, variant.codes, strict=True)
        )

    @property
    def key(self) -> tuple[int | None, ...]:
        """All that it is for, except the target."""
        return (*self.codes, self.tile_class)


def table(family: Family, tuned: tuple[TunedTile, ...] | None = None) -> list[TileRow]:
    """Rows for every variant, sorted by the axes that rows never leave open; several for the same
    ones where the tile depends on others, or on the target, as well."""
    tuned = load_tuned(family) if tuned is None else tuned
    return [row for group in tile_groups(family, tuned) for row in group_rows(group)]


@dataclass(frozen=True)
class TileGroup:
    """Variants that differ only in what rows of the table may leave open, of each tile class one,
    and with each value of the features that tuned rows of theirs name."""

    variants: list[Variant]
    tuned: tuple[TunedTile, ...]  # all that may be theirs
    features: tuple[str, ...]  # that these name
    idle: set[str]  # axes of which all have the first value, for their tiles depend on them nowhere


def tile_groups(family: Family, tuned: tuple[TunedTile, ...]) -> Iterator[TileGroup]:
    """All variants, in the order of table()."""
    open_ = {*family.tile_any, *family.features}
    fixed = [tuple(pair for pair in row.where if pair[0] not in open_) for row in tuned]
    for plain in key_groups(family).values():
        # The rows that axes in which the group does not vary let match: few.
        near = tuple(
            row
            for row, where in zip(tuned, fixed, strict=True)
            if holds(where, family, plain[0].values)
        )
        named = {name for row in near for name, _ in row.where}
        idle = {
            name
            for name in {*family.tile_any} & family.rule_any - named
            if len({variant[name] for variant in plain}) > 1
        }
        kept = [name for name in family.tile_any if name not in idle]
        firsts: dict[tuple, Variant] = {}
        for variant in plain:
            firsts.setdefault(tuple(variant[name] for name in kept), variant)
        features = tuple(feature for feature in family.features if feature in named)
        group = _with_features(of_each_class(family, firsts.values()), features)
        yield TileGroup(group, near, features, idle)


def group_rows(group: TileGroup) -> list[TileRow]:
    """The rows of a group: those of a target before those of all."""
    of_all = _merged_rows(group, None)
    rows = []
    for target in group.variants[0].family.tile_targets:
        own = [row for row in group.tuned if row.targets is not None and target in row.targets]
        if any(row.matches(variant, target) for row in own for variant in group.variants):
            of_one = _merged_rows(group, target)
            rows += [row for row in of_one if not _is_among(row, of_all)]
    return rows + of_all


def _is_among(row: TileRow, of_all: list[TileRow]) -> bool:
    """Whether the rows of all targets give a target's row its tile, whatever it leaves open."""
    return all(
        other.tile == row.tile
        for other in of_all
        if all(a is None or b is None or a == b for a, b in zip(row.key, other.key, strict=True))
    )


def _with_features(group: list[Variant], names: tuple[str, ...]) -> list[Variant]:
    """The variants, and those of their tile classes with each other value of these features."""
    for name in names:
        more = []
        for variant in group:
            for value in variant.family.axis(name).domain:
                more += next(_alike_with(variant, name, value), [])
        group = list(dict.fromkeys((*group, *more)))
    return group


def _alike_with(variant: Variant, name: str, value: Value) -> Iterator[list[Variant]]:
    """The variant with that value of a feature, then what its tile class has in place of its other
    features: those that are legal, each in a list."""
    family = variant.family
    number = variant.tile_class
    plain = {feature: family.axis(feature).default for feature in family.features}
    others = [dict(where) for found, where in family.tile_classes if found == number]
    for features in ({}, *({**plain, **{k: v[0] for k, v in other.items()}} for other in others)):
        try:
            yield [variant.replace(**{**features, name: value})]
        except VariantError:
            continue


def _merged_rows(group: TileGroup, target: str | None) -> list[TileRow]:
    """Rows of a group: an axis that rows may leave open, a feature that tuned rows name, or the
    tile class is left open where the tile depends on it nowhere, and where there is more than one
    value to leave open. Other features are left open always."""
    family = group.variants[0].family
    tiles = [tile_of(variant, group.tuned, target) for variant in group.variants]
    # What may be left open, of each variant: the axes, and the class under the name "".
    names = (*family.tile_any, *group.features, "")
    parts = [
        (*(variant[name] for name in names[:-1]), variant.tile_class) for variant in group.variants
    ]
    open_ = {*group.idle}
    for name, values in zip(names, zip(*parts), strict=True):
        # Of variants that differ in nothing else but what is open already each has the same tile:
        # a class may follow from a feature, so that only one of the two can be left open.
        alike: dict[tuple, Tile] = {}
        kept = [at for at, other in enumerate(names) if other != name and other not in open_]
        others = (tuple(part[at] for at in kept) for part in parts)
        if len(set(values)) > 1 and all(
            alike.setdefault(key, tile) == tile for key, tile in zip(others, tiles, strict=True)
        ):
            open_.add(name)
    kept = [place for place, name in enumerate(names) if name not in open_]
    firsts: dict[tuple, tuple[Variant, Tile]] = {}
    for variant, tile, part in zip(group.variants, tiles, parts, strict=True):
        firsts.setdefault(tuple(part[place] for place in kept), (variant, tile))
    open_ |= {*family.features} - {*group.features}
    return [_row(variant, tile, target, open_) for variant, tile in firsts.values()]


def _row(variant: Variant, tile: Tile, target: str | None, open_: set[str]) -> TileRow:
    """The row of a variant and of all that differ from it in what is left open."""
    family = variant.family
    codes = tuple(
        None if axis.name in open_ else axis.code(value)
        for axis, value in zip(family.axes, variant.values, strict=True)
    )
    tile_class = None if "" in open_ or not family.tile_classes else variant.tile_class
    return TileRow(codes, tile, target, tile_class)
