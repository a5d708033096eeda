"""The naming grammar: two functions in Python, two in C, all inverses of each other."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from generator_support import c_fields, compile_grammar_cli, run_lines, tabs

from generator.variant import (
    ARCHS,
    DTYPES,
    MASKS,
    PAIRS,
    PASSES,
    Variant,
    VariantError,
    every_variant,
    parse_stem,
)

EVERY = list(every_variant())

# Names of nothing: wrong characters, order, case, numbers, combinations.
MALFORMED = [
    "",
    " ",
    "flash",
    "flash_fwd",
    "flash_fwd_",
    "flash_fwd_hdim128",
    "flash_fwd_hdim128_bf16",
    "flash_fwd_hdim128_bf16_sm",
    "flash_fwd_hdim128_bf16_sm8",
    "flash_fwd_hdim128_bf16_sm89",
    "flash_fwd_hdim128_bf16_sm90a",
    "flash_fwd_hdim264_bf16_sm90",
    "flash_fwd_hdim512_bf16_causal_sm90",
    "flash_fwd_hdim128_bf16_decode_sm90",
    "flash_fwd_combine_hdim128_bf16_sm90",
    "flash_fwd_hdim128_bf16_sm080",
    "flash_fwd_hdim128_bf16_sm80 ",
    " flash_fwd_hdim128_bf16_sm80",
    "flash_fwd_hdim128_bf16_sm80.cu",
    "flash_fwd_hdim128_bf16_sm80_",
    "flash_fwd_hdim128_bf16_sm80a",
    "flash_fwd_hdim128_bf16_sm86sm86",
    "Flash_fwd_hdim128_bf16_sm80",
    "flash_fwd_hdim128_BF16_sm80",
    "flash_bwd_hdim128_bf16_sm80",
    "flash_fwdcombine_hdim128_bf16_sm80",
    "flash_combine_hdim128_bf16_sm80",
    "flash__fwd_hdim128_bf16_sm80",
    "flash_fwd__hdim128_bf16_sm80",
    "flash_fwd_hdim_bf16_sm80",
    "flash_fwd_hdim0_bf16_sm80",
    "flash_fwd_hdim00_bf16_sm80",
    "flash_fwd_hdim4_bf16_sm80",
    "flash_fwd_hdim12_bf16_sm80",
    "flash_fwd_hdim-8_bf16_sm80",
    "flash_fwd_hdim+8_bf16_sm80",
    "flash_fwd_hdim 64_bf16_sm80",
    "flash_fwd_hdim064_bf16_sm80",
    "flash_fwd_hdim0x40_bf16_sm80",
    "flash_fwd_hdim520_bf16_sm80",
    "flash_fwd_hdim4294967360_bf16_sm80",
    "flash_fwd_hdim99999999999999999999_bf16_sm80",
    "flash_fwd_hdim64v_bf16_sm80",
    "flash_fwd_hdim64v64_bf16_sm80",
    "flash_fwd_hdim64v0128_bf16_sm80",
    "flash_fwd_hdim64v12_bf16_sm80",
    "flash_fwd_hdim64v520_bf16_sm80",
    "flash_fwd_hdim64v72_bf16_sm80",
    "flash_fwd_hdim128v192_bf16_sm80",
    "flash_fwd_hdim512v576_bf16_sm80",
    "flash_fwd_hdim576v512_bf16_sm80",
    "flash_fwd_hdim192v128v64_bf16_sm80",
    "flash_fwd_hdim128_fp32_sm80",
    "flash_fwd_hdim128_fp8_sm80",
    "flash_fwd_hdim128_f16_sm80",
    "flash_fwd_hdim128_bf16_full_sm80",
    "flash_fwd_hdim128_bf16_window_sm80",
    "flash_fwd_hdim128_bf16_causal_causal_sm80",
    "flash_fwd_hdim128_bf16_decode_causal_sm80",
    "flash_fwd_hdim128_causal_bf16_sm80",
    "flash_fwd_hdim128_bf16_split_sm80",
    "flash_split_fwd_hdim128_bf16_sm80",
    "flash_fwd_split_split_hdim128_bf16_sm80",
    "flash_fwd_combine_split_hdim128_bf16_sm80",
    "flash_fwd_split_combine_hdim128_bf16_sm80",
    "flash_fwd_combine_hdim128_bf16_causal_sm80",
    "flash_fwd_combine_hdim128_bf16_decode_sm80",
    "flash_fwd_combine_hdim128_bf16_sm86",
    "flash_fwd_combine_hdim192v128_bf16_sm80",
    "flash_fwd_combine_hdim128_fp32_sm80",
    "flash_fwd_hdim\u0661\u0662\u0668_bf16_sm80",  # digits, but not ASCII
    "../flash_fwd_hdim128_bf16_sm80",
    "flash_fwd_hdim128_bf16_sm80/",
    "flash_fwd_hdim" + "8" * 300 + "_bf16_sm80",
    "x" * 1000,
]


def mutations(count: int) -> list[str]:
    """Legal stems with one character taken out, doubled, changed or swapped; seeded."""
    rng = random.Random(20260)
    letters = "abcdefhilmnpstvw_0123456789"
    result = []
    for _ in range(count):
        stem = rng.choice(EVERY).stem
        at = rng.randrange(len(stem) - 1)
        head, here, tail = stem[:at], stem[at], stem[at + 1 :]
        edits = (head + tail, head + here + here + tail, head + rng.choice(letters) + tail)
        result.append(rng.choice((*edits, head + tail[0] + here + tail[1:])))
    return result


@pytest.fixture(scope="module")
def grammar_cli(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_grammar_cli(tmp_path_factory.mktemp("grammar"))


def parses(stem: str) -> bool:
    try:
        parse_stem(stem)
    except VariantError:
        return False
    return True


def test_every_variant_is_there_once() -> None:
    head_dims = 64 + len(PAIRS)
    head_dims_sm90 = 32 + len(PAIRS)
    assert len(EVERY) == head_dims * 2 * 2 * 2 * 2 * 2 + head_dims_sm90 * 2 * 2 * 2 + 64 * 2
    assert len(set(EVERY)) == len(EVERY)
    assert len({variant.stem for variant in EVERY}) == len(EVERY)


@pytest.mark.parametrize(
    ("variant", "stem"),
    [
        (
            Variant("fwd", 96, 96, "fp16", "causal"),
            "flash_fwd_hdim96_fp16_causal_sm80",
        ),
        (
            Variant("fwd", 192, 192, "fp16", "causal", split=True),
            "flash_fwd_split_hdim192_fp16_causal_sm80",
        ),
        (
            Variant("fwd", 192, 128, "bf16", "causal", split=True, decode=True, arch=86),
            "flash_fwd_split_hdim192v128_bf16_causal_decode_sm86",
        ),
        (Variant("fwd", 8, 8, "bf16"), "flash_fwd_hdim8_bf16_sm80"),
        (
            Variant("fwd", 256, 128, "fp16", "causal", split=True, arch=90),
            "flash_fwd_split_hdim256v128_fp16_causal_sm90",
        ),
        (Variant("fwd_combine", 128, 128, "bf16"), "flash_fwd_combine_hdim128_bf16_sm80"),
    ],
)
def test_examples(variant: Variant, stem: str) -> None:
    assert variant.stem == stem
    assert parse_stem(stem) == variant


def test_print_and_parse_are_inverses() -> None:
    for variant in EVERY:
        assert parse_stem(variant.stem) == variant


@pytest.mark.parametrize("stem", MALFORMED)
def test_malformed_stems_do_not_parse(stem: str) -> None:
    with pytest.raises(VariantError):
        parse_stem(stem)


def test_what_parses_prints_the_same() -> None:
    survivors = [stem for stem in mutations(3000) if parses(stem)]
    assert survivors, "no mutation is a stem: the test sees nothing"
    for stem in survivors:
        assert parse_stem(stem).stem == stem


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"hdim": 12, "hdim_v": 12}, "head dim 12 is not supported: it must be a multiple of 8"),
        ({"hdim": 0, "hdim_v": 0}, "head dim 0 is not supported"),
        ({"hdim": 520, "hdim_v": 520}, "head dim 520 is not supported: .* from 8 to 512"),
        ({"hdim": 64, "hdim_v": 12}, "value head dim 12 is not supported"),
        (
            {"hdim": 64, "hdim_v": 72},
            "value head dim 72 is not supported with head dim 64: .*192/128",
        ),
        ({"dtype": "fp32"}, "dtype fp32 is unknown: it must be fp16 or bf16"),
        ({"mask": "window"}, "mask window is unknown: it must be full or causal"),
        ({"arch": 75}, "arch sm75 is unknown: it must be sm80, sm86 or sm90"),
        (
            {"arch": 90, "hdim": 264, "hdim_v": 264},
            "^head dim 264 is not supported on sm90: it must be a multiple of 8 from 8 to 256",
        ),
        (
            {"arch": 90, "hdim": 256, "hdim_v": 512},
            "^value head dim 512 is not supported on sm90: it must be a multiple of 8 .* to 256",
        ),
        (
            {"arch": 90, "hdim": 64, "hdim_v": 72},
            "value head dim 72 is not supported with head dim 64",
        ),
        (
            {"arch": 90, "decode": True},
            "decode is not supported on sm90: it must be on sm80 or sm86",
        ),
        (
            {"arch": 90, "pass_": "fwd_combine"},
            "fwd_combine pass does not take arch sm90, only sm80",
        ),
        ({"pass_": "bwd"}, "pass bwd is unknown: it must be fwd or fwd_combine"),
        ({"pass_": "fwd_combine", "split": True}, "fwd_combine pass does not take split"),
        ({"pass_": "fwd_combine", "decode": True}, "fwd_combine pass does not take decode"),
        ({"pass_": "fwd_combine", "mask": "causal"}, "fwd_combine pass does not take a mask"),
        ({"pass_": "fwd_combine", "arch": 86}, "fwd_combine pass does not take arch sm86"),
        (
            {"pass_": "fwd_combine", "hdim": 192},
            "fwd_combine pass does not take a value head dim of its own",
        ),
    ],
)
def test_errors_name_the_value_and_what_is_allowed(fields: dict, sentence: str) -> None:
    legal = {"pass_": "fwd", "hdim": 128, "hdim_v": 128, "dtype": "bf16"}
    with pytest.raises(VariantError, match=sentence):
        Variant(**{**legal, **fields})


# ---- The twin in C ------------------------------------------------------------------------------


def test_c_parses_and_prints_every_variant(grammar_cli: Path) -> None:
    lines = [tabs("parse", variant.stem) for variant in EVERY]
    lines += [tabs("print", *c_fields(variant)) for variant in EVERY]
    answers = run_lines(grammar_cli, lines).decode().splitlines()
    expected = [tabs("ok", *c_fields(variant), variant.stem) for variant in EVERY]
    expected += [tabs("ok", variant.stem) for variant in EVERY]
    assert answers == expected


def test_c_and_python_agree_on_what_does_not_parse(grammar_cli: Path) -> None:
    stems = MALFORMED + mutations(3000)
    answers = run_lines(grammar_cli, [tabs("parse", stem) for stem in stems]).decode().splitlines()
    assert len(answers) == len(stems)
    for stem, answer in zip(stems, answers, strict=True):
        kind, *words = answer.split("\t")
        if parses(stem):
            assert (kind, words[-1]) == ("ok", stem)
        else:
            assert kind == "error", stem
            status, sentence = words
            assert status != "0"
            assert sentence, f"no sentence for {stem!r}"


def test_c_prints_what_python_allows_and_nothing_else(grammar_cli: Path) -> None:
    """Over a grid with illegal values on every axis."""
    grid = list(
        itertools.product(
            range(-1, 3),
            (0, 1),
            (-8, 0, 8, 12, 64, 192, 256, 264, 512, 520),
            (-8, 0, 8, 12, 64, 128, 256, 264, 512, 520),
            range(4),
            range(-1, 3),
            (0, 1),
            (0, 75, 80, 86, 90),
        )
    )
    names = (dict(enumerate(PASSES)), dict(enumerate(DTYPES, start=1)), dict(enumerate(MASKS)))
    answers = run_lines(grammar_cli, [tabs("print", *fields) for fields in grid])
    legal = 0
    for fields, answer in zip(grid, answers.decode().splitlines(), strict=True):
        pass_, split, hdim, hdim_v, dtype, mask, decode, arch = fields
        try:
            stem = Variant(
                names[0].get(pass_, "?"),
                hdim,
                hdim_v,
                names[1].get(dtype, "?"),
                names[2].get(mask, "?"),
                bool(split),
                bool(decode),
                arch,
            ).stem
        except VariantError:
            assert answer.startswith("error\t"), fields
        else:
            assert answer == tabs("ok", stem)
            legal += 1
    assert legal > len(ARCHS)
