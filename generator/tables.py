"""The families as C: axes, rules, tile names, tiles, templates, and what runs where. The structs
are those of runtime/press/registry.h and target.h.

    families.h          what a family's own code calls its axes, words, fields and limits
    families.c          ap_families
    family_<name>.c     axes, rules, tile names, templates, devices
    tiles_<name>.c      the tile of every variant
    targets.c           ap_targets, ap_archs
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from generator import GeneratorError
from generator.family import (
    AXES_MAX,
    Axis,
    Family,
    Rule,
    StandIn,
    Values,
    Where,
    families,
    one_of,
)
from generator.targets import load_targets
from generator.tiles import TileRow
from generator.to_c import c_literal
from generator.variant import constants

HEAD = """\
/* Written by `python -m generator` from {origin}; do not edit. */
/* clang-format off */
"""
INCLUDE = '#include "../runtime/press/registry.h"\n'


def commas(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values)


# ---- families.h ---------------------------------------------------------------------------------


def families_h() -> str:
    """generated/families.h"""
    origin = "generator/families.toml and each family.toml"
    text = HEAD.format(origin=origin) + "#pragma once\n"
    text += "\n/* The families, in their order: X(name, NAME). */\n#define AP_FAMILIES(X)"
    text += "".join(f" X({family.name}, {family.name.upper()})" for family in families()) + "\n"
    names = [f"AP_FAMILY_{family.name.upper()} = {n}" for n, family in enumerate(families())]
    text += f"\nenum {{ {commas(names)}, AP_FAMILY_COUNT = {len(names)} }};\n"
    return text + "".join(map(_family_h, families()))


def _family_h(family: Family) -> str:
    macro = family.macro
    text = f"\n/* ---- {family.name} ---- */\n\n/* {family.grammar} */\n"
    axes = [f"{macro}_{axis.name.upper()} = {n}" for n, axis in enumerate(family.axes)]
    text += _enum("axes", [*axes, f"{macro}_AXIS_COUNT = {len(axes)}"])
    for axis in family.axes:
        name = f"{macro}_{axis.name.upper()}"
        if axis.kind == "word":
            words = [f"{name}_{word.upper()} = {code}" for word, code in axis.codes.items()]
            text += _enum(axis.name, words)
        elif isinstance(axis.domain, range):
            low, high, step = axis.domain[0], axis.domain[-1], axis.domain.step
            bounds = [f"{name}_MIN = {low}", f"{name}_MAX = {high}", f"{name}_STEP = {step}"]
            text += _enum(axis.name, bounds)
        elif axis.kind == "number":
            low, high = min(axis.domain), max(axis.domain)
            text += _enum(axis.name, [f"{name}_MIN = {low}", f"{name}_MAX = {high}"])
    fields = [f"{macro}_TILE_{field.name.upper()} = {n}" for n, field in enumerate(family.fields)]
    text += _enum("fields of a tile", [*fields, f"{macro}_TILE_FIELD_COUNT = {len(fields)}"])
    limits = [f"{macro}_{name.upper()} = {value}" for name, value in constants(family).items()]
    return text + (_enum("limits", limits) if limits else "")


def _enum(what: str, names: list[str]) -> str:
    return f"enum {{ /* {what} */\n" + "".join(f"  {name},\n" for name in names) + "};\n"


# ---- family_<name>.c ----------------------------------------------------------------------------


class _Arrays:
    """Arrays of integers and of sets of one file, each written once."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.names: dict[str, str] = {}

    def name(self, type_: str, stem: str, body: str, suffix: str = "[]") -> str:
        key = f"{type_} {body}"
        if key not in self.names:
            self.names[key] = f"{stem}_{len(self.names)}"
            self.text.append(f"static const {type_} {self.names[key]}{suffix} = {{{body}}};\n")
        return self.names[key]

    def set(self, family: Family, axis: Axis, values: Values) -> str:
        """An ap_set."""
        place = family.index[axis.name]
        if isinstance(values, range):
            return f"{{{place}, {values[0]}, {values[-1]}, {values.step}, 0, 0}}"
        codes = [axis.code(value) for value in values]
        name = self.name("int32_t", "values", commas(codes))
        return f"{{{place}, 0, 0, 1, {name}, {len(codes)}}}"

    def where(self, family: Family, where: Where) -> str:
        """Two initialisers: the sets, and how many."""
        if not where:
            return "0, 0"
        sets = commas(self.set(family, family.axis(name), values) for name, values in where)
        return f"{self.name('ap_set', 'where', sets)}, {len(where)}"


def _axis_c(family: Family, axis: Axis, arrays: _Arrays) -> str:
    words = "0"
    if axis.kind == "word":
        rows = [
            f"{{{c_literal(word)}, {c_literal(axis.tokens[word])}, {code}}}"
            for word, code in axis.codes.items()
        ]
        words = arrays.name("ap_word", "words", commas(rows))
    texts = (axis.name, axis.label, axis.token, axis.shown, *axis.phrase)
    name, label, token, shown, before, after = map(c_literal, texts)
    same_as = -1 if axis.same_as is None else family.index[axis.same_as]
    kind = f"AP_AXIS_{axis.kind.upper()}"
    return (
        f"    {{{name}, {label}, {kind}, {token}, {shown}, {before}, {after},\n"
        f"     {same_as}, {arrays.set(family, axis, axis.domain)}, {words}}},\n"
    )


def _rule_c(family: Family, rule: Rule, arrays: _Arrays) -> str:
    axis = family.axis(rule.axis)
    must = f"{{{family.index[rule.axis]}, 0, 0, 1, 0, 0}}"
    if rule.same_as is None:
        must = arrays.set(family, axis, rule.values)
    same_as = -1 if rule.same_as is None else family.index[rule.same_as]
    pairs = "0, 0"
    if rule.pairs:
        body = commas(f"{{{first}, {second}}}" for first, second in rule.pairs)
        pairs = f"{arrays.name('int32_t', 'pairs', body, '[][2]')}, {len(rule.pairs)}"
    return f"    {{{arrays.where(family, rule.where)}, {must}, {same_as}, {pairs}}},\n"


def _stand_in_c(family: Family, row: StandIn, arrays: _Arrays) -> str:
    places = f"{family.index[row.same_as]}, {family.index[row.axis]}"
    return f"    {{{arrays.where(family, row.where)}, {places}, {commas(row.pair or (0, 0))}}},\n"


def _forms_c(family: Family, arrays: _Arrays) -> list[str]:
    rows = []
    for form in family.forms:
        parts = commas(
            f"{{{c_literal(part.token)}, {family.field_index[part.field]}, {int(part.flag)}, "
            f"{-1 if part.absent is None else part.absent}}}"
            for part in form.parts
        )
        ((field, value),) = form.where or ((None, 0),)
        place = -1 if field is None else family.field_index[field]
        name = arrays.name("ap_tile_part", "parts", parts)
        rows.append(f"    {{{place}, {value}, {name}, {len(form.parts)}}},\n")
    return rows


def _array(type_: str, name: str, rows: list[str]) -> tuple[str, str]:
    """The array, and "name, count" for the family's struct."""
    if not rows:
        return "", "0, 0"
    return f"static const {type_} {name}[] = {{\n{''.join(rows)}}};\n", f"{name}, {len(rows)}"


def family_c(family: Family) -> str:
    """generated/family_<name>.c"""
    arrays = _Arrays()
    axes = [_axis_c(family, axis, arrays) for axis in family.axes]
    rules = [_rule_c(family, rule, arrays) for rule in family.legality]
    forms = _forms_c(family, arrays)
    prototypes, templates = [], []
    for template in family.templates:
        function = f"ap_render_{template.c_name}"
        prototypes.append(f"void {function}(ap_text *out, const ap_render_input *in);\n")
        where = arrays.where(family, template.where)
        templates.append(f"    {{{c_literal(template.name)}, {where}, {function}}},\n")
    runs = []
    for where, rows in groupby(family.runs, key=lambda run: run.where):
        alike = list(rows)
        for place, run in enumerate(alike):
            runs.append(
                f"    {{{arrays.where(family, where)}, {len(alike) - place}, {run.capability_min}, "
                f"{run.capability_max}, {run.arch}, {c_literal(run.target)}}},\n"
            )
    fields = [f"    {c_literal(field.name)},\n" for field in family.fields]
    no_bits = [
        f"~{(1 << axis.bits) - (1 << bits.zeros):#x}u"
        for axis, bits in zip(family.axes, family.key_bits, strict=True)
    ]
    no_bits += ["~0u"] * (AXES_MAX - len(no_bits))
    classes = [
        f"    {{{arrays.where(family, where)}, {number}}},\n"
        for number, where in family.tile_classes
    ]
    stand_ins = [_stand_in_c(family, row, arrays) for row in family.stand_ins]
    snippets = [f"    {{{arrays.where(family, where)}}},\n" for where in family.snippets]
    axis_text, axis_use = _array("ap_axis", "axes", axes)
    rule_text, rule_use = _array("ap_rule", "rules", rules)
    field_text, _ = _array("char *const", "fields", fields)
    form_text, form_use = _array("ap_tile_form", "forms", forms)
    class_text, class_use = _array("ap_tile_class", "tile_classes", classes)
    stand_in_text, stand_in_use = _array("ap_stand_in", "stand_ins", stand_ins)
    fit = f"ap_{family.name}_fit" if stand_ins else ""
    template_text, template_use = _array("ap_template", "templates", templates)
    run_text, run_use = _array("ap_route", "routes", runs)
    snippet_text, snippet_use = _array("ap_snippet_rule", "snippets", snippets)
    return (
        HEAD.format(origin=f"generator/{family.name}/family.toml")
        + INCLUDE
        + "\n"
        + "".join(prototypes)
        + f"extern const ap_tile_table ap_tiles_{family.name};\n"
        + (f"void {fit}(const ap_variant *, const ap_variant *, ap_tile *);\n" if fit else "")
        + "\n"
        + "".join(arrays.text)
        + "\n/* name, label, kind, token, shown before, phrase; same as, domain, words */\n"
        + axis_text
        + "/* where, must, same as, pairs */\n"
        + rule_text
        + field_text
        + form_text
        + class_text
        + stand_in_text
        + snippet_text
        + "/* name, where, renderer */\n"
        + template_text
        + "/* where, rows alike, capabilities from and to, arch, target */\n"
        + run_text
        + f"\nextern const ap_family ap_family_{family.name};\n"
        + f"const ap_family ap_family_{family.name} = {{\n"
        + f"    {c_literal(family.name)}, {c_literal(family.prefix)},\n"
        + f"    {c_literal(family.grammar)},\n"
        + f"    {axis_use}, {family.index['arch']},\n"
        + f"    {1 << sum(bits.count for bits in family.key_bits):#x},\n"
        + f"    {{{commas(f'{1 << bits.place >> bits.zeros:#x}' for bits in family.key_bits)}}},\n"
        + f"    {{{commas(no_bits)}}},\n"
        + f"    {rule_use},\n"
        + f"    {len(fields)}, {'fields' if fields else '0'}, {form_use},\n"
        + f"    {class_use}, &ap_tiles_{family.name}, {stand_in_use}, {fit or 0},\n"
        + f"    {template_use}, {run_use},\n"
        + f"    {snippet_use},\n"
        + "};\n"
    )


def _tile_key(family: Family, codes: Sequence[int | None]) -> tuple[int, int]:
    """ap_variant_key() of runtime/press/variant.c without the family, where the axes that are open
    (None) are 0; and a mask of the others."""
    key = mask = 0
    for bits, code in zip(family.key_bits, codes, strict=True):
        if code is not None:
            key |= code >> bits.zeros << bits.place
            mask |= (1 << bits.count) - 1 << bits.place
    return key, mask


def _class_mask(family: Family) -> int:
    """The bits of the axes that tile classes look at: where all are 0, none of the classes holds.
    All bits, where that is not so."""
    named = {name for _, where in family.tile_classes for name, _ in where}
    for _, where in family.tile_classes:
        if all(0 in map(family.axis(name).code, values) for name, values in where):
            return (1 << 64) - 1
    _, mask = _tile_key(family, [0 if axis.name in named else None for axis in family.axes])
    return mask


def _slots(keys: list[int]) -> list[int]:
    """Where the rows of a key begin, as first_row() of runtime/press/registry.c looks for it."""
    starts = {key: row for row, key in reversed(list(enumerate(keys, start=1)))}
    if len(keys) > 0xFFFF:
        raise GeneratorError(f"{len(keys)} rows of tiles: their places are written in 16 bits")
    bits = (2 * len(starts) - 1).bit_length()
    slots = [0] * (1 << bits)
    for key, row in sorted(starts.items()):
        slot = (key * 0x9E3779B97F4A7C15 & (1 << 64) - 1) >> (64 - bits)
        while slots[slot]:
            slot = (slot + 1) % len(slots)
        slots[slot] = row
    return slots


def tiles_c(family: Family, rows: list[TileRow]) -> str:
    """generated/tiles_<name>.c"""
    targets = list(load_targets().targets)
    lines = []
    for row in rows:
        axes = ["AP_ANY" if code is None else code for code in row.codes]
        target = "AP_ANY" if row.target is None else targets.index(row.target)
        tile_class = "AP_ANY" if row.tile_class is None else row.tile_class
        tile = f"{row.tile.threads}, {row.tile.smem_bytes}, {{{commas(row.tile.values)}}}"
        lines.append(f"    {{{{{commas(axes)}}}, {{{tile}}}, {tile_class}, {target}}},\n")
    open_ = {*family.tile_any, *family.features}
    kept = [axis.name for axis in family.axes if axis.name not in open_]
    _, mask = _tile_key(family, [0 if axis.name in kept else None for axis in family.axes])
    keys = [_tile_key(family, row.codes) for row in rows]
    key_lines = [f"    {{{key:#x}, {own:#x}}},\n" for key, own in keys] + ["    {~0ull, 0},\n"]
    slots = _slots([key & mask for key, _ in keys])
    slot_lines = [f"    {commas(slots[at : at + 16])},\n" for at in range(0, len(slots), 16)]
    name = f"generator/{family.name}"
    return (
        HEAD.format(origin=f"{name}/tiles.toml and {name}/rules.py")
        + INCLUDE
        + f"\n/* A row: {commas(axis.name for axis in family.axes)}; tile class;\n"
        + f" * threads, smem_bytes, {commas(field.name for field in family.fields)};\n"
        + " * the target's place in ap_targets. AP_ANY: any.\n"
        + f" * Sorted by {commas(kept)}; the first row that matches a variant and a\n"
        + " * target is theirs. */\n"
        + f"static const ap_tile_entry rows[] = {{\n{''.join(lines)}}};\n"
        + "/* Of each row, for the search: key, mask. */\n"
        + f"static const ap_tile_key keys[] = {{\n{''.join(key_lines)}}};\n"
        + f"static const uint16_t slots[] = {{\n{''.join(slot_lines)}}};\n"
        + f"extern const ap_tile_table ap_tiles_{family.name};\n"
        + f"const ap_tile_table ap_tiles_{family.name} = {{\n"
        + f"    rows, keys, {len(lines)}, {mask:#x}, {_class_mask(family):#x}, "
        + f"slots, {len(slots).bit_length() - 1},\n}};\n"
    )


# ---- families.c, targets.c ----------------------------------------------------------------------


def families_c(listed: Iterable[Family] | None = None) -> str:
    """generated/families.c, of all families or of these."""
    names = [f"ap_family_{family.name}" for family in listed or families()]
    return (
        HEAD.format(origin="generator/families.toml")
        + INCLUDE
        + "\n"
        + "".join(f"extern const ap_family {name};\n" for name in names)
        + f"\nconst ap_family *const ap_families[] = {{{commas(f'&{name}' for name in names)}}};\n"
        + "const size_t ap_families_count = sizeof(ap_families) / sizeof(ap_families[0]);\n"
    )


def targets_c() -> str:
    """generated/targets.c"""
    data = load_targets()
    targets = [
        f"    {{{c_literal(t.name)}, {t.capability}, {t.limits.block_smem_bytes}}},\n"
        for t in data.targets.values()
    ]
    archs = [
        f"    {{{arch}, {limits.block_smem_bytes}, "
        f"{c_literal(data.only[arch]) if arch in data.only else '0'}}},\n"
        for arch, limits in data.archs.items()
    ]
    return (
        HEAD.format(origin="generator/targets.toml and each family.toml")
        + '#include "../runtime/press/target.h"\n'
        + "\n/* name, capability, shared memory of a thread block in bytes */\n"
        + f"const ap_target ap_targets[] = {{\n{''.join(targets)}}};\n"
        + "const size_t ap_targets_count = sizeof(ap_targets) / sizeof(ap_targets[0]);\n"
        + "\n/* arch, shared memory of a thread block in bytes, the only target */\n"
        + f"const ap_arch ap_archs[] = {{\n{''.join(archs)}}};\n"
        + "const size_t ap_archs_count = sizeof(ap_archs) / sizeof(ap_archs[0]);\n"
        + f"\nconst int ap_capability_min = {min(_capabilities())};\n"
        + f"const char ap_capability_list[] = {c_literal(_capability_list())};\n"
    )


def _capabilities() -> set[int]:
    """All that any family runs on."""
    return {
        capability
        for family in families()
        for run in family.runs
        for capability in range(run.capability_min, run.capability_max + 1)
    }


def _capability_list() -> str:
    """ "8.x, 9.0 and 10.x"."""
    found = _capabilities()
    names = []
    for major in sorted({capability // 10 for capability in found}):
        minors = [capability % 10 for capability in found if capability // 10 == major]
        names.append(f"{major}.x" if len(minors) > 1 else f"{major}.{minors[0]}")
    return one_of(names).replace(" or ", " and ")
