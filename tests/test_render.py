"""One template, two expansions: what Jinja2 renders and what the C renderer renders are the same
bytes; what cannot be compiled to C is an error that says where."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from generator_support import (
    ATTENTION,
    EVERY,
    ROOT,
    TESTS,
    compile_c,
    compile_grammar_cli,
    featured,
    fresh_files,
    random_tile,
    run_lines,
    sample_of_pairs,
    tabs,
    take_line,
    tile_fields,
)

from generator import GeneratorError
from generator.family import Template
from generator.registry import renderer_c
from generator.render import (
    Integer,
    TemplateError,
    environment,
    render,
    render_input,
    source,
    variables,
)
from generator.tables import families_c, families_h, family_c, targets_c
from generator.tiles import tile_of
from generator.to_c import LITERAL_BYTES, c_literal, compile_template
from generator.variant import make_variant

VARIABLES = variables(ATTENTION)


@pytest.fixture(scope="module")
def grammar_cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_grammar_cli(tmp_path_factory.mktemp("render"))


def test_variants_render_the_same_both_ways(grammar_cli: Path) -> None:
    """A sample in which each two values of two axes meet, with and without features, with their own
    tile and with random legal ones: over 1,000 sources."""
    rng = random.Random(20261)
    sample = sample_of_pairs([*EVERY, *featured(6000)])
    assert {variant.tile_class for variant in sample} == set(range(7))
    for axis in ATTENTION.axes:
        assert {variant[axis.name] for variant in sample} == set(axis.domain), axis.name
    cases = [(variant, tile_of(variant)) for variant in sample]
    cases += [(variant, random_tile(rng, variant)) for variant in sample for _ in range(3)]
    assert len(cases) >= 1000
    assert {variant.hdim for variant, _ in cases} == set(range(8, 513, 8))
    tiles = {tile for _, tile in cases}
    names = (
        "warps_n",
        "stages",
        "q_in_regs",
        "min_blocks",
        "k_unroll",
        "spread",
        "producer",
        "warps_k",
        "k_in_regs",
        "v_in_regs",
    )
    for name in (*names, "block_m", "block_n"):
        assert len({tile[name] for tile in tiles}) > 1, f"{name} does not vary"

    lines = [tabs("render", variant.stem, tile_fields(tile)) for variant, tile in cases]
    answer = run_lines(grammar_cli, lines)
    env = environment()
    at = 0
    for variant, tile in cases:
        line, at = take_line(answer, at)
        assert line.startswith("ok\t"), f"{variant.stem}: {line}"
        size = int(line.removeprefix("ok\t"))
        expected = source(env, variant, tile).encode()
        assert answer[at : at + size] == expected, f"{variant.stem}, {tile.name}"
        at += size
    assert at == len(answer)


def test_sources_are_what_a_person_would_write() -> None:
    """No blank-line runs, no residue, no trailing blanks, 100 columns except for the command."""
    env = environment()
    rng = random.Random(20262)
    too_long: set[str] = set()
    for variant in (*rng.sample(EVERY, 300), *featured(150)):
        text = source(env, variant, random_tile(rng, variant))
        assert text.endswith("}\n"), variant.stem
        assert "\n\n\n" not in text, variant.stem
        assert not re.search(r"[ \t]\n|//%|<%|%>|<#|#>|\$\{|\t", text), variant.stem
        assert str(ROOT) not in text
        lines = [line for line in text.splitlines() if "//   python -m generator" not in line]
        too_long |= {line for line in lines if len(line) > 100}
    assert not too_long, "\n".join(sorted(too_long))


# ---- Templates of our own -----------------------------------------------------------------------


def build(folder: Path, env, names: list[str], *flags: str) -> Path:
    """tests/render_cli.c with the C renderers of these templates, as if they were the family's."""
    templates = tuple(Template(name, (), {}) for name in sorted(names))
    family = replace(ATTENTION, templates=templates)
    files = {
        "families.h": families_h(),
        "families.c": families_c([family]),
        "targets.c": targets_c(),
        "family_attention.c": family_c(family),
        "tiles_attention.c": fresh_files()["tiles_attention.c"],
    }
    for template in templates:
        files[f"render_{template.c_name}.c"] = renderer_c(env, family, template)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    runtime = ("core/text.c", "core/error.c", "press/variant.c", "press/arch.c", "attention/tile.c")
    sources = [TESTS / "render_cli.c", *(ROOT / "runtime" / name for name in runtime)]
    sources += [folder / name for name in files if name.endswith(".c")]
    return compile_c(folder / "render_cli", sources, *flags)


def c_words(values: dict) -> list[object]:
    """What render_cli.c reads behind the template's name."""
    axes = [axis.code(values[axis.name]) for axis in ATTENTION.axes]
    fields = [values[field.name] for field in ATTENTION.fields]
    sizes = (values["threads"], values["smem_bytes"])
    return [values["stem"], values["tile_name"], *axes, *sizes, *fields]


def check_same(program: Path, env, cases: list[tuple[str, dict]]) -> None:
    """Each (template, variables) renders the same both ways."""
    answer = run_lines(program, [tabs(name, *c_words(values)) for name, values in cases])
    at = 0
    for name, values in cases:
        line, at = take_line(answer, at)
        expected = render(env, name, values).encode()
        assert answer[at : at + int(line)] == expected, f"{name} {values}"
        at += int(line)
    assert at == len(answer)


def some_inputs(count: int) -> list[dict]:
    rng = random.Random(20263)
    forward = [variant for variant in EVERY if variant["pass"] == "fwd"]
    chosen = rng.sample(forward, count)
    return [render_input(variant, random_tile(rng, variant)) for variant in chosen]


def test_every_construct(tmp_path: Path) -> None:
    folder = TESTS / "data" / "templates"
    env = environment(folder)
    names = sorted(path.name for path in folder.glob("*.j2"))
    assert "everything.cu.j2" in names
    program = build(tmp_path, env, names)
    check_same(program, env, [(name, values) for values in some_inputs(400) for name in names])


def test_long_texts_are_cut_into_literals(tmp_path: Path) -> None:
    lines = [f"line {number} of a long text, é\n" for number in range(2000)]
    (tmp_path / "long.cu.j2").write_text("".join(lines), encoding="utf-8")
    env = environment(tmp_path)
    program = build(tmp_path, env, ["long.cu.j2"])  # -Wpedantic -Werror, no pragma
    check_same(program, env, [("long.cu.j2", some_inputs(1)[0])])
    code = (tmp_path / "render_long.c").read_text(encoding="utf-8")
    assert code.count("TEXT(") > len("".join(lines).encode()) // LITERAL_BYTES


def random_integer(rng: random.Random, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        names = [name for name, known in VARIABLES.items() if isinstance(known.kind, Integer)]
        return rng.choice([*names, str(rng.randint(0, 300))])
    sign = rng.choice(("+", "-", "*", "//", "%", "-1", "if"))
    left, right = random_integer(rng, depth - 1), random_integer(rng, depth - 1)
    if sign == "-1":
        return f"-({left})" if rng.random() < 0.5 else f"-{left}"
    if sign == "if":
        return f"({left} if {random_condition(rng, depth - 1)} else {right})"
    form = rng.choice(("({} {} {})", "{} {} {}"))
    return form.format(left, sign, right)


def random_condition(rng: random.Random, depth: int) -> str:
    if depth == 0:
        strings = ('dtype == "bf16"', 'mask != "causal"', 'mask in ("full", "causal")', "split")
        return rng.choice(strings)
    left, right = random_integer(rng, depth - 1), random_integer(rng, depth - 1)
    return rng.choice(
        (
            f"{left} {rng.choice(('==', '!=', '<', '<=', '>', '>='))} {right}",
            f"{left} not in (8, {right})",
            f"not {random_condition(rng, depth - 1)}",
            f"({random_condition(rng, depth - 1)} or {random_condition(rng, depth - 1)})",
            f"{random_condition(rng, depth - 1)} and {random_condition(rng, depth - 1)}",
            random_integer(rng, depth - 1),
        )
    )


def test_random_expressions(tmp_path: Path) -> None:
    """What is compiled means in C what it means in Python; what might not is refused."""
    rng = random.Random(20264)
    env = environment(tmp_path)
    lines, refused = [], 0
    while len(lines) < 400:
        line = f"${{ {random_integer(rng, 3)} }}\n"
        if rng.random() < 0.3:
            line = f"//% if {random_condition(rng, 3)}\nyes\n//% else\nno\n//% endif\n"
        (tmp_path / "one.cu.j2").write_text(line, encoding="utf-8")
        try:
            compile_template(env, "one.cu.j2", VARIABLES, "one")
        except TemplateError:
            refused += 1
        else:
            lines.append(line)
    assert refused > 50
    (tmp_path / "random.cu.j2").write_text("".join(lines), encoding="utf-8")
    program = build(tmp_path, env, ["random.cu.j2"], "-Wno-tautological-compare")
    check_same(program, env, [("random.cu.j2", values) for values in some_inputs(100)])


# ---- What cannot be compiled --------------------------------------------------------------------

REFUSED = [
    # construct, line, what the error says
    ("<% macro f(x) %>${ x }<% endmacro %>", 1, "macro"),
    ("\n\n<% call f() %>x<% endcall %>", 3, "call"),
    ("${ stem | upper }", 1, "a filter (upper)"),
    ("\n<% filter upper %>x<% endfilter %>", 2, "a filter block"),
    ('x\n//% include "other.cu.j2"', 2, "template other.cu.j2 is missing"),
    ("<% include dtype %>", 1, "include can only be of one path in quotes"),
    ('<% include ["a", "b"] %>', 1, "include can only be of one path in quotes"),
    ('<% include "a" ignore missing %>', 1, "include must be plain"),
    ('<% include "a" without context %>', 1, "include must be plain"),
    ('x\n//% include "bad.cu.j2"', 2, "bad.cu.j2 includes itself"),
    ('<% import "other.cu.j2" as x %>', 1, "import"),
    ('<% from "other.cu.j2" import x %>', 1, "from ... import"),
    ('<% extends "other.cu.j2" %>', 1, "extends"),
    ("<% block x %>x<% endblock %>", 1, "block"),
    ("<% with x = 1 %>${ x }<% endwith %>", 1, "with"),
    ("<% raw %>x<% endraw %>\n${ range(3) }", 2, "a call of range()"),
    ("${ stem.upper() }", 1, "a call"),
    ("${ stem.size }", 1, "an attribute"),
    ("${ stem[0] }", 1, "a subscript"),
    ("${ [1, 2] }", 1, "a list"),
    ("${ (1, 2) }", 1, "a tuple"),
    ("${ {'a': 1} }", 1, "a dict"),
    ("${ dtype ~ mask }", 1, "~ cannot"),
    ("${ hdim is even }", 1, "a test with is (even)"),
    ("//% if hdim is defined\nx\n//% endif", 1, "a test with is (defined)"),
    # integers
    ("x\n${ hdim / 2 }", 2, "/ (it gives a float; // divides integers)"),
    ("${ hdim * 0.5 }", 1, "the constant 0.5"),
    ("${ hdim ** 2 }", 1, "**"),
    ("${ +hdim }", 1, "unary +"),
    ("${ true }", 1, "the constant True"),
    ("${ none }", 1, "the constant None"),
    ("${ hdim // split }", 1, "the divisor split may be 0"),
    ("${ hdim % (hdim - 8) }", 1, "the divisor hdim - 8 may be 0: not"),
    ("${ hdim // -2 }", 1, "may be -2: not positive"),
    ("${ (hdim - hdim_v) // 2 }", 1, "the dividend hdim - hdim_v may be -504: negative"),
    ("${ (8 - hdim) % 3 }", 1, "may be -504: negative"),
    ("${ 9 // (2 - (3 if split else 1)) }", 1, "may be -1: not positive"),
    ("${ 9 // (2 - (1 if split else 3)) }", 1, "may be -1: not positive"),
    ("//% for i in range(9)\n${ 9 // (7 - i) }\n//% endfor", 2, "may be -1: not positive"),
    (
        "//% for i in range(-1, hdim)\n${ i % 2 }\n//% endfor",
        2,
        "the dividend i may be -1: negative",
    ),
    (
        "//% set x = 1\n//% if split\n//% set x = 3\n//% endif\n${ 9 // (2 - x) }",
        5,
        "may be -1: not positive",
    ),
    (
        "//% if split\n//% set x = 3\n//% else\n//% set x = 1\n//% endif\n${ 9 // (2 - x) }",
        6,
        "may be -1: not positive",
    ),
    ("${ smem_bytes * smem_bytes }", 1, "does not fit 32 bits"),
    ("${ 4294967296 }", 1, "does not fit 32 bits"),
    ("${ hdim + dtype }", 1, "a string stands where an integer must"),
    ("${ -dtype }", 1, "a string stands where an integer must"),
    ("${ hdim + (split == 1) }", 1, "a condition stands where an integer must"),
    # conditions
    ("${ hdim == 64 }", 1, "a condition cannot be put into the text"),
    ("${ split and decode }", 1, "a condition cannot be put into the text"),
    ("//% if stem\nx\n//% endif", 1, "a string cannot be a condition"),
    ("//% if 8 < hdim < 64\nx\n//% endif", 1, "a chain of comparisons"),
    ("${ hdim if split }", 1, "needs an else"),
    ('${ 1 if split else "a" }', 1, "one choice is an integer, the other a string"),
    # strings
    ('x\n//% if mask == "casual"\nx\n//% endif', 2, 'mask is never "casual": it is full or'),
    ('//% if dtype in ("fp16", "fp8")\nx\n//% endif', 1, 'dtype is never "fp8"'),
    ('//% if "sliding" != mask\nx\n//% endif', 1, 'mask is never "sliding"'),
    ('//% if stem == "x"\nx\n//% endif', 1, "stem has no list of values"),
    ('//% if dtype < "fp16"\nx\n//% endif', 1, "strings cannot be compared with <"),
    ('//% if hdim == "64"\nx\n//% endif', 1, "an integer is compared with a string"),
    ("//% if dtype == 16\nx\n//% endif", 1, "a string is compared with an integer"),
    ('//% if dtype in "fp16"\nx\n//% endif', 1, "in must be followed by a list"),
    ("//% if hdim in ()\nx\n//% endif", 1, "in must be followed by a list"),
    # names
    ("x\nx\n${ head_dim }", 3, "head_dim is not defined"),
    ("//% if hdmi == 64\nx\n//% endif", 1, "hdmi is not defined"),
    ("${ loop }", 1, "loop is not defined"),
    ("//% for i in range(3)\n${ loop.index }\n//% endfor", 2, "an attribute"),
    ("//% for i in range(3)\n//% endfor\n${ i }", 3, "i is not defined"),
    ("//% if split\n//% set x = 1\n//% endif\n${ x }", 4, "x is not set on every way"),
    ("//% for i in range(2)\n//% set x = 1\n//% endfor\n${ x }", 4, "x is not defined"),
    ("//% set hdim = 64", 1, "hdim is a variable of every template"),
    ("//% set int = 64", 1, "int cannot be the name of a variable in C"),
    ("//% set out = 64", 1, "out cannot be the name of a variable in C"),
    ("//% set x = dtype", 1, "set x: only integers can be set"),
    ("//% set x = split == 1", 1, "set x: only integers can be set"),
    ("//% set x, y = 1, 2", 1, "set can only be of one name"),
    ("<% set x %>1<% endset %>", 1, "a set block"),
    ("<% set ns = namespace(a=1) %>", 1, "a call of namespace()"),
    (
        "//% set x = 1\n//% for i in range(3)\n//% set x = x + 1\n//% endfor",
        3,
        "set x: it was set outside of this loop",
    ),
    ("//% for i in range(3)\n//% set i = 1\n//% endfor", 2, "set i: it was set outside"),
    # loops
    ("//% for x in (1, 2)\nx\n//% endfor", 1, "for can only be over range(n)"),
    ("//% for x in stem\nx\n//% endfor", 1, "for can only be over range(n)"),
    ("//% for i in range(0, 9, 2)\nx\n//% endfor", 1, "for can only be over range(n)"),
    ("//% for i in range(*hdim)\nx\n//% endfor", 1, "for can only be over range(n)"),
    ("//% for i in range(dtype)\nx\n//% endfor", 1, "a string stands where an integer must"),
    ("//% for i, j in range(3)\nx\n//% endfor", 1, "for with several names"),
    ("//% for i in range(3) if i\nx\n//% endfor", 1, "for with else, if or recursive"),
    ("//% for i in range(3)\nx\n//% else\ny\n//% endfor", 1, "for with else, if or recursive"),
    ("//% set i = 1\n//% for i in range(3)\nx\n//% endfor", 2, "i has a value already"),
    # what Jinja2 itself refuses
    ("x\n//% if split", 2, ""),
    ("${ hdim", 1, ""),
    ("\n<% bogus %>", 2, "unknown tag 'bogus'"),
    ("${ hdim | no_such }", 1, "no_such"),
]


@pytest.mark.parametrize(("text", "line", "what"), REFUSED)
def test_refused(tmp_path: Path, text: str, line: int, what: str) -> None:
    (tmp_path / "bad.cu.j2").write_text(text, encoding="utf-8")
    with pytest.raises(TemplateError) as caught:
        compile_template(environment(tmp_path), "bad.cu.j2", VARIABLES, "bad")
    assert str(caught.value).startswith(f"bad.cu.j2:{line}: ")
    assert what in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("x\n\n${ head_dim }", 3, "head_dim is not defined"),
        ("x\n//% if split", 2, ""),
        ('x\n//% include "none.cu.j2"', 2, "template none.cu.j2 is missing"),
        ('\n\n//% include "outer.cu.j2"', 3, "outer.cu.j2 includes itself"),
        ("//% set x = 2", 1, "set x: it was set outside of this loop or include"),
        ("//% set x = x + 1", 1, "set x: it was set outside"),
    ],
)
def test_refused_in_an_included_text(tmp_path: Path, text: str, line: int, what: str) -> None:
    """The error names the included text and its line, not those of the include."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "inner.cu.j2").write_text(text, encoding="utf-8")
    outer = '//% set x = 1\n\n\n\n//% include "parts/inner.cu.j2"\n'
    (tmp_path / "outer.cu.j2").write_text(outer, encoding="utf-8")
    with pytest.raises(TemplateError) as caught:
        compile_template(environment(tmp_path), "outer.cu.j2", "fwd", "outer")
    assert str(caught.value).startswith(f"parts/inner.cu.j2:{line}: ")
    assert what in str(caught.value)


def test_what_an_include_sets_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "inner.cu.j2").write_text("//% set y = 1\n${ y }\n", encoding="utf-8")
    outer = '//% include "inner.cu.j2"\n${ y }\n'
    (tmp_path / "outer.cu.j2").write_text(outer, encoding="utf-8")
    with pytest.raises(TemplateError, match=r"outer\.cu\.j2:2: y is not defined"):
        compile_template(environment(tmp_path), "outer.cu.j2", "fwd", "outer")
    with pytest.raises(GeneratorError, match="'y' is undefined"):
        render(environment(tmp_path), "outer.cu.j2", {})


def test_jinja_names_the_included_text(tmp_path: Path) -> None:
    for text, sentence in (
        ("x\n<% bogus %>", r"^inner\.cu\.j2:2: "),
        ('x\n//% include "none.cu.j2"', r"^template none\.cu\.j2 is missing$"),
        ('x\n//% include "outer.cu.j2"', r"includes itself$"),
        ("x\n\n${ head_dim }", r"^inner\.cu\.j2:3: 'head_dim' is undefined$"),
    ):
        (tmp_path / "inner.cu.j2").write_text(text, encoding="utf-8")
        (tmp_path / "outer.cu.j2").write_text('\n//% include "inner.cu.j2"\n', encoding="utf-8")
        with pytest.raises(GeneratorError, match=sentence):
            render(environment(tmp_path), "outer.cu.j2", {})


def test_bounds_are_those_of_the_pass(tmp_path: Path) -> None:
    """stages is at least 2 in the forward pass, and 0 in the combine pass."""
    (tmp_path / "one.cu.j2").write_text("${ hdim // stages }", encoding="utf-8")
    compile_template(environment(tmp_path), "one.cu.j2", VARIABLES, "one")
    with pytest.raises(TemplateError, match="the divisor stages may be 0"):
        combine = next(t for t in ATTENTION.templates if t.c_name == "flash_fwd_combine")
        compile_template(environment(tmp_path), "one.cu.j2", variables(ATTENTION, combine), "one")


def test_missing_template(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match=r"template none\.cu\.j2 is missing"):
        compile_template(environment(tmp_path), "none.cu.j2", VARIABLES, "none")
    with pytest.raises(GeneratorError, match=r"template none\.cu\.j2 is missing"):
        render(environment(tmp_path), "none.cu.j2", {})


def test_undefined_variable_of_jinja(tmp_path: Path) -> None:
    (tmp_path / "bad.cu.j2").write_text("${ head_dim }", encoding="utf-8")
    with pytest.raises(GeneratorError, match="'head_dim' is undefined"):
        render(environment(tmp_path), "bad.cu.j2", {})


def test_values_are_within_the_bounds_that_were_compiled() -> None:
    variant = make_variant(ATTENTION, hdim=128)
    tile = tile_of(variant)
    assert set(render_input(variant, tile)) == set(VARIABLES)
    with pytest.raises(GeneratorError, match="smem_bytes 400000 is out of range"):
        render_input(variant, replace(tile, smem_bytes=400000))


def test_words_are_integers_in_c(tmp_path: Path) -> None:
    """Compared as such with a constant; printed by name; two of them are compared by name."""
    text = '${ dtype }<% if dtype == "bf16" %>x<% endif %><% if mask == dtype %>y<% endif %>'
    (tmp_path / "one.cu.j2").write_text(text, encoding="utf-8")
    code = compile_template(environment(tmp_path), "one.cu.j2", VARIABLES, "one")
    assert "STRING(in->word[AP_ATTENTION_DTYPE]);" in code
    assert "if (dtype == AP_ATTENTION_DTYPE_BF16) {" in code
    assert "IS(in->word[AP_ATTENTION_MASK], in->word[AP_ATTENTION_DTYPE])" in code
    program = build(tmp_path, environment(tmp_path), ["one.cu.j2"])
    check_same(program, environment(tmp_path), [("one.cu.j2", some_inputs(1)[0])])


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain\n", '"plain\\n"'),
        ('a "b" \\n', '"a \\"b\\" \\\\n"'),
        ("what??=", '"what?\\?="'),
        ("é7", '"\\303\\2517"'),
        ("\t\r\0", '"\\t\\r\\000"'),
    ],
)
def test_c_literals(text: str, literal: str) -> None:
    assert c_literal(text) == literal
