"""Families are data: a second one, made here, is its folders and one line in a list, and neither
the generator's core nor the runtime's is touched. What data cannot mean is an error that says
where."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from generator_support import (
    ATTENTION,
    GRAMMAR_SOURCES,
    ROOT,
    compile_c,
    run_lines,
    tabs,
    take_line,
)

from generator import GeneratorError
from generator import registry as generator_registry
from generator.family import load_family
from generator.variant import constants

TOY = """
prefix = "toy"

[[axis]]
name = "op"
kind = "word"
words = [{ name = "copy", token = "" }, { name = "scale" }, { name = "scale_add" }]
default = "copy"

[[axis]]
name = "columns"
kind = "number"
token = "_cols"
letter = "N"
range = [32, 1024, 32]

[[axis]]
name = "quiet"
kind = "flag"

[[axis]]
name = "arch"
kind = "number"
token = "_sm"
shown = "sm"
values = [80, 90]
default = 80
phrase = "on {}"

[[rule]]
where = { op = ["scale", "scale_add"], arch = 90 }
must = { columns = { high = 256 }, quiet = true }

[[field]]
name = "rows"
range = [1, 32]

[[tile_name]]
example = "r4"
parts = [{ token = "r", field = "rows" }]

[[template]]
name = "toy/toy.cu.j2"

[[run]]
devices = [
    { capability = [80, 89], arch = 80, target = "sm_80" },
    { capability = [90, 90], arch = 90, target = "sm_90" },
    { capability = [90, 90], arch = 80, target = "sm_90" },
]

[[link]]
targets = ["sm_80"]

[[shown]]
op = "copy"
columns = 64

[constants]
widest_of_90 = { max = "columns", where = { op = "scale", arch = 90 } }
"""
SETS = """
[[set.default.product]]
op = ["copy", "scale"]
columns = [64, 128]
"""
RULES = """
from generator.tiles import make_tile, sized


def threads(tile):
    return 32 * tile.rows


def smem_bytes(variant, tile):
    return 4 * variant.columns * tile.rows


def problems(variant, tile, target=None):
    return [] if tile.rows in (2, 4, 8) else [f"rows {tile.rows} is not 2, 4 or 8"]


def fill(variant):
    return sized(variant, make_tile(variant.family, rows=8 if variant.columns <= 256 else 2))
"""
TILES = """
[[tile]]
columns = 96
arch = 80
tile = "r4"
"""
TEMPLATE = """\
// ${ stem }: ${ op } of ${ columns } columns, tile ${ tile_name }, ${ threads } threads
//% if op != "copy"
// factor, ${ smem_bytes } bytes
//% endif
//% if op in ("copy", "scale_add") and not quiet
${ op }
//% endif
"""
DUMP = """
import json
from generator.family import families
from generator.render import environment, source
from generator.tiles import tile_of
from generator.variant import every_variant
env = environment()
family = families()[1]
print(json.dumps([[v.stem, v.codes, t.name, [t.threads, t.smem_bytes, *t.values], source(env, v)]
                  for v in every_variant(family) for t in [tile_of(v)]]))
"""


def python(folder: Path, *arguments: str, status: int = 0) -> tuple[str, str]:
    """Python in a checkout; what it wrote to stdout and stderr."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's generator with the family toy: two folders and a line more."""
    folder = tmp_path_factory.mktemp("toy")
    for name in ("generator", "templates", "include"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    own = folder / "generator" / "toy"
    own.mkdir()
    texts = {"family": TOY, "variants": SETS, "tiles": TILES}
    for name, text in texts.items():
        (own / f"{name}.toml").write_text(text, encoding="utf-8")
    (own / "rules.py").write_text(RULES, encoding="utf-8")
    (folder / "templates" / "toy").mkdir()
    (folder / "templates" / "toy" / "toy.cu.j2").write_text(TEMPLATE, encoding="utf-8")
    listed = folder / "generator" / "families.toml"
    text = listed.read_text(encoding="utf-8")
    listed.write_text(re.sub(r"\[.*\]", '["attention", "toy"]', text), encoding="utf-8")
    python(folder, "-m", "generator")
    return folder


def test_the_first_family_stays_as_it_is(checkout: Path) -> None:
    """Byte for byte, except for the lists of families, cubins and capabilities."""
    changed, more = set(), set()
    for path in (checkout / "generated").iterdir():
        committed = ROOT / "generated" / path.name
        if not committed.exists():
            more.add(path.name)
        elif committed.read_bytes() != path.read_bytes():
            changed.add(path.name)
    assert changed == {"families.c", "families.h", "default_set.c"}
    shown = {"toy_cols64_sm80.cu"}
    assert more == {"family_toy.c", "tiles_toy.c", "render_toy.c", *shown}
    header = (checkout / "generated" / "families.h").read_text(encoding="utf-8")
    for line in (
        "AP_FAMILY_TOY = 1",
        "AP_TOY_OP_SCALE_ADD = 2",
        "AP_TOY_COLUMNS_MAX = 1024",
        "AP_TOY_TILE_ROWS = 0",
        "AP_TOY_WIDEST_OF_90 = 256",
        "#define AP_FAMILIES(X) X(attention, ATTENTION) X(toy, TOY)",
    ):
        assert line in header
    default = (checkout / "generated" / "default_set.c").read_text(encoding="utf-8")
    assert '{"toy_scale_cols128_sm80", "sm_80"}' in default
    python(checkout, "-m", "generator", "--check")


def test_the_runtime_knows_it(checkout: Path, tmp_path: Path) -> None:
    """Every variant parses, prints, has its tile and renders as in Python; nothing else does."""
    variants = json.loads(python(checkout, "-c", DUMP)[0])
    assert len(variants) == 3 * 32 * 2 * 2 - 2 * (32 * 2 - 8)
    sources = [*GRAMMAR_SOURCES, *sorted((checkout / "generated").glob("*.c"))]
    program = compile_c(tmp_path / "grammar_cli", sources)

    lines = [tabs("parse", stem) for stem, *_ in variants]
    lines += [tabs("tile", stem) for stem, *_ in variants]
    lines += [tabs("render", stem, *fields) for stem, _, _, fields, _ in variants]
    answer, at = run_lines(program, lines), 0
    keys = set()
    for stem, codes, *_ in variants:
        line, at = take_line(answer, at)
        *words, key, again = line.split("\t")
        assert (words, again) == (["ok", "1", *map(str, codes)], stem)
        keys.add(key)
    assert len(keys) == len(variants)
    for _, _, name, fields, _ in variants:
        line, at = take_line(answer, at)
        assert line == tabs("ok", *fields, name)
    for stem, *_, text in variants:
        line, at = take_line(answer, at)
        size = int(line.removeprefix("ok\t"))
        assert answer[at : at + size].decode() == text, stem
        at += size

    attention = (
        "flash_<fwd|fwd_combine|bwd|bwd_dkv|bwd_dq|bwd_delta|bwd_convert|bwd_sinks|fwd_map"
        "|fwd_schedule|bwd_dbias>[_split]_hdim<D>[v<DV>]_<fp16|bf16>[_causal|_window]"
        "[_softcap][_alibi]"
        "[_biasfp16|_biasbf16|_biasfp32][_dropout][_modscore][_modmask][_modgrad]"
        "[_ragged|_paged][_ready][_decode][_shared|_pairs][_few][_runs][_append][_long]"
    )
    toy = "toy[_scale|_scale_add]_cols<N>[_quiet]_sm<80|90>"
    refused = {
        "toy_cols16_sm80": "columns 16 is not supported: it must be a multiple of 32 from 32 to "
        "1024",
        "toy_scale_cols288_quiet_sm90": "columns 288 is not supported with op scale and on sm90: "
        "it must be a multiple of 32 from 32 to 256",
        "toy_scale_add_cols64_sm90": "no quiet is not supported with op scale_add and on sm90",
        "toy_cols64_sm86": "arch sm86 is unknown: it must be sm80 or sm90",
        "toy_copy_cols64_sm80": f'"toy_copy_cols64_sm80" is not the name of a kernel: names are '
        f"{toy}",
        "flash_cols64_sm80": '"flash_cols64_sm80" is not the name of a kernel: names are '
        f"{attention}_sm<80|86|90>",
        "toys_cols64_sm80": '"toys_cols64_sm80" is not the name of a kernel: names begin with '
        "flash_ or toy_",
    }
    answers = run_lines(program, [tabs("parse", stem) for stem in refused]).decode().splitlines()
    assert answers == [tabs("error", 1, sentence) for sentence in refused.values()]
    assert run_lines(program, [tabs("runs", "toy_cols64_sm80", 90)]) == (
        b"ok\t90\tsm_90\t80\tsm_90\n"
    )


def test_on_the_command_line(checkout: Path) -> None:
    def press(*arguments: str, status: int = 0) -> str:
        out, err = python(checkout, "-m", "generator", *arguments, status=status)
        return out + err

    # Options are those of the family: words are flags, too.
    words = "--family toy --columns 32 64 --scale-add --arch sm90 --quiet"
    out = press(*words.split())
    assert out.split() == [
        "build/pressed/toy_scale_add_cols32_quiet_sm90.cu",
        "build/pressed/toy_scale_add_cols64_quiet_sm90.cu",
    ]
    assert press("--family", "toy", "--columns", "96", "--op", "scale", "copy").split() == [
        "build/pressed/toy_scale_cols96_sm80.cu",
        "build/pressed/toy_cols96_sm80.cu",
    ]
    assert "tile r4" in (checkout / "build/pressed/toy_cols96_sm80.cu").read_text("utf-8")
    out = press("--family", "toy", "--columns", "64", "--tile", "r3", status=2)
    assert "tile r3 is not legal for toy_cols64_sm80: rows 3 is not 2, 4 or 8" in out
    assert "--scale needs --columns" in press("--family", "toy", "--scale", status=2)
    assert "--hdim is not an option; of toy there are --op, --columns" in press(
        "--family", "toy", "--hdim", "64", status=2
    )
    out = press("--family", "toys", "--list", status=2)
    assert out == ("python -m generator: family toys is unknown: it must be attention or toy\n")
    # The first family needs no naming; sets are of all.
    assert press("--hdim", "40").split() == ["build/pressed/flash_fwd_hdim40_bf16_sm80.cu"]
    toys = [f"toy_{stem}_sm80" for stem in ("cols128", "cols64", "scale_cols128", "scale_cols64")]
    assert press("--list", "--family", "toy").split() == toys
    assert press("--list").split()[-4:] == toys


# ---- Bad data -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('prefix = "toy"', "", "prefix is missing"),
        ('prefix = "toy"', 'prefix = "toy"\ncolour = 1', "colour is unknown"),
        ('kind = "flag"', 'kind = "colour"', "kind colour is not word, flag or number"),
        ('name = "quiet"', 'name = "Quiet"', "a name is lower-case letters, digits and _"),
        ('name = "arch"', 'name = "age"', "the axis arch, a number, is missing"),
        ("range = [32, 1024, 32]", "range = [30, 1024, 32]", "is not from a multiple to another"),
        ("range = [32, 1024, 32]", "range = [32, 1024000, 32]", "is not from a multiple to"),
        ('{ name = "scale" }', '{ name = "scale", token = "" }', "two words have one value or one"),
        ('{ name = "scale" }', '{ name = "scale", value = 0 }', "two words have one value or one"),
        ('default = "copy"', 'default = "move"', "default move is not allowed"),
        ("arch = 90 }\nmust", "arch = 75 }\nmust", "arch 75 is not allowed"),
        ("high = 256", "high = 250", "columns 250 is not allowed"),
        ("high = 256", "top = 256", "top is unknown"),
        ("quiet = true }", "loud = true }", "loud is unknown"),
        ('field = "rows"', 'field = "lines"', "lines is not a field"),
        ('targets = ["sm_80"]', 'targets = ["sm80"]', "target sm80 is unknown: it must be sm_80"),
        ('target = "sm_80" }', 'target = "sm_1" }', "target sm_1 is unknown"),
        ("columns = 64\n", "columns = 65\n", "columns 65 is not allowed"),
        ('prefix = "toy"', 'prefix = "toy"\ntile_any = ["size"]', "size is not an axis"),
        ('prefix = "toy"', 'prefix = "toy"\ntile_targets = ["sm_7"]', "target sm_7 is unknown"),
    ],
)
def test_bad_family_toml(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in TOY
    (tmp_path / "family.toml").write_text(TOY.replace(old, new), encoding="utf-8")
    with pytest.raises(GeneratorError, match=re.escape(sentence)):
        load_family("toy", tmp_path)


def test_too_many_axes_and_bits(tmp_path: Path) -> None:
    for count, kind, sentence in (
        (19, 'kind = "flag"', "23 axes are more than 22"),
        (4, 'kind = "number"\nrange = [0, 999999, 1]', "a variant takes 102 bits, more than 64"),
    ):
        more = "".join(f'[[axis]]\nname = "more{n}"\n{kind}\n' for n in range(count))
        (tmp_path / "family.toml").write_text(more + TOY[TOY.index("[[axis]]") :], encoding="utf-8")
        text = 'prefix = "toy"\n' + (tmp_path / "family.toml").read_text(encoding="utf-8")
        (tmp_path / "family.toml").write_text(text, encoding="utf-8")
        load_family.cache_clear()
        with pytest.raises(GeneratorError, match=sentence):
            load_family("toy", tmp_path)


def test_generated_holds_at_most_so_many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator_registry, "SHOWN_MAX", 200)
    with pytest.raises(GeneratorError, match=r"generated/ would hold \d+ files, more than 200"):
        generator_registry.generated_files()


# ---- The core knows no family -------------------------------------------------------------------


def test_the_core_names_no_family() -> None:
    """Neither the generator's core nor the grammar and the tables of the runtime."""
    words = re.compile("flash|softmax|hdim|causal", re.IGNORECASE)
    paths = [*(ROOT / "generator").glob("*.py")]
    names = ("variant.c", "registry.c", "registry.h", "target.c", "target.h")
    paths += [ROOT / "runtime" / "press" / name for name in names]
    assert len(paths) > 12
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            assert not words.search(line), f"{path}:{number}: {line}"


def test_limits_are_what_the_rules_say() -> None:
    assert constants(ATTENTION)["sm90_hdim_max"] == 256
    assert constants(ATTENTION)["sm90_wide_hdim_max"] == 512
    assert constants(ATTENTION)["combine_arch"] == 80
