"""The naming grammar: two functions in Python, two in C, all inverses of each other."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from generator_support import ATTENTION, EVERY, compile_grammar_cli, number_of, run_lines, tabs

from generator import GeneratorError
from generator.attention.rules import make_variant
from generator.variant import Variant, VariantError, parse_stem
from generator.variant import make_variant as make_any_variant

PAIRS = ((64, 128), (64, 256), (64, 512), (96, 64), (128, 64), (192, 128), (256, 128))

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
    "flash_bwd_dv_hdim128_bf16_sm80",
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
    "flash_fwd_hdim264_bf16_window_sm90",
    "flash_fwd_hdim512_bf16_causal_ragged_sm90",
    "flash_fwd_hdim512_bf16_decode_sm90",
    "flash_bwd_dq_hdim264_bf16_sm90",
    "flash_fwd_hdim520_bf16_sm80",
    "flash_fwd_hdim4294967360_bf16_sm80",
    "flash_fwd_hdim99999999999999999999_bf16_sm80",
    "flash_fwd_hdim64v_bf16_sm80",
    "flash_fwd_hdim64v64_bf16_sm80",
    "flash_fwd_hdim64v0128_bf16_sm80",
    "flash_fwd_hdim64v12_bf16_sm80",
    "flash_fwd_hdim64v520_bf16_sm80",
    "flash_fwd_hdim64v60_bf16_sm80",
    "flash_bwd_hdim64v72_bf16_sm90",
    "flash_fwd_hdim264v64_bf16_sm90",
    "flash_fwd_hdim512v576_bf16_sm80",
    "flash_fwd_hdim576v512_bf16_sm80",
    "flash_fwd_hdim192v128v64_bf16_sm80",
    "flash_fwd_hdim128_fp32_sm80",
    "flash_fwd_hdim128_fp8_sm80",
    "flash_fwd_hdim128_f16_sm80",
    "flash_fwd_hdim128_bf16_full_sm80",
    "flash_fwd_hdim128_bf16_windows_sm80",
    "flash_fwd_hdim128_bf16_alibi_softcap_sm80",
    "flash_fwd_hdim128_bf16_biasint8_sm80",
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
    wide_pairs = sum(max(pair) > 256 for pair in PAIRS)
    head_dims_sm90 = 32 + len(PAIRS) - wide_pairs
    # Splits, dtypes, three masks, decode and two architectures; features are not counted. On sm90
    # head dims above 256 have two masks.
    forward = head_dims * 2 * 2 * 3 * 2 * 2 + head_dims_sm90 * 2 * 2 * 3 + 64 * 2
    forward += (32 + wide_pairs) * 2 * 2 * 2
    forward += 2 * 2 * 2  # head dims, dtypes and masks of the row block for long sequences
    forward += head_dims_sm90 * 2 * 2  # and of few rows on sm90
    forward += head_dims_sm90 * 2 * 2  # and of a consumer's there, whose splits are parts
    forward += 3 * 2 * 2  # with splits shared by four, and at head dim 64 by two
    # Of few rows on sm80 up to 256, on sm86 up to 192: dtypes and masks.
    for most in (256, 192):
        forward += (most // 8 + sum(max(pair) <= most for pair in PAIRS)) * 2 * 3
    forward += 64 * 2  # and what adds up the parts of few rows: head dims, dtypes
    forward += 3 * 2 * 2  # runs over all sequences: head dims, dtypes and masks
    forward += 2  # and of all heads of a key, on sm90: dtypes
    # dtypes and masks; bwd up to 256, bwd_dkv and bwd_dq up to 512, on sm80 and sm86; on sm90 all
    # three up to 256, bwd and bwd_dkv where K is as wide as V if V is wide; bwd_delta and
    # bwd_convert have no mask, and bwd_sinks is one, as are fwd_map and fwd_schedule; bwd_dbias has
    # masks and one architecture.
    narrow_keys = sum(pair[0] <= 128 < pair[1] <= 256 for pair in PAIRS)
    backward = (head_dims_sm90 + 2 * head_dims) * 2 + 3 * head_dims_sm90 - 2 * narrow_keys
    dbias = head_dims * 2 * 3
    wide = 8 * 2 * (2 + 2 + 1)  # head dims 200 to 256, masks; dtypes of few rows, runs, long walks
    short = 4 * 2 * 2  # of short sequences: head dims 104 to 128, dtypes, masks
    assert len(EVERY) == forward + backward * 2 * 3 + wide + short + (64 + 32) * 2 + 3 + dbias
    assert len(set(EVERY)) == len(EVERY)
    assert len({variant.stem for variant in EVERY}) == len(EVERY)


@pytest.mark.parametrize(
    ("variant", "stem"),
    [
        (
            make_variant("fwd", 96, 96, "fp16", "causal"),
            "flash_fwd_hdim96_fp16_causal_sm80",
        ),
        (
            make_variant("fwd", 192, 192, "fp16", "causal", split=True),
            "flash_fwd_split_hdim192_fp16_causal_sm80",
        ),
        (
            make_variant("fwd", 192, 128, "bf16", "causal", split=True, decode=True, arch=86),
            "flash_fwd_split_hdim192v128_bf16_causal_decode_sm86",
        ),
        (make_variant("fwd", 8, 8, "bf16"), "flash_fwd_hdim8_bf16_sm80"),
        (
            make_variant("fwd", 256, 128, "fp16", "causal", split=True, arch=90),
            "flash_fwd_split_hdim256v128_fp16_causal_sm90",
        ),
        (make_variant("fwd_combine", 128, 128, "bf16"), "flash_fwd_combine_hdim128_bf16_sm80"),
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
        ({"dtype": "fp32"}, "dtype fp32 is unknown: it must be fp16 or bf16"),
        ({"mask": "band"}, "mask band is unknown: it must be full, causal or window"),
        ({"arch": 75}, "arch sm75 is unknown: it must be sm80, sm86 or sm90"),
        (
            {"arch": 90, "hdim": 264, "hdim_v": 264, "pass": "bwd_dq"},
            "^head dim 264 is not supported in the bwd_dq pass and on sm90: .* from 8 to 256",
        ),
        (
            {"arch": 90, "hdim": 264, "hdim_v": 264, "mask": "window"},
            "^mask window is not supported .*on sm90.*: it must be full or causal",
        ),
        (
            {"arch": 90, "hdim": 264, "hdim_v": 264, "softcap": True},
            "^softcap is not supported",
        ),
        (
            {"arch": 90, "hdim": 264, "hdim_v": 64},
            "^head dim 264 is not supported on sm90 .*: it must be .* from 8 to 256",
        ),
        (
            {"arch": 90, "hdim": 64, "hdim_v": 264, "sequences": "ragged"},
            "^sequences ragged is not supported .*on sm90",
        ),
        (
            {"arch": 90, "pass": "bwd", "hdim": 64, "hdim_v": 72},
            "^value head dim 72 is not supported with head dim 64 in the bwd pass and on sm90: "
            "it must be equal, or the two one of 64/128, 64/256, 96/64, 128/64, 192/128, 256/128$",
        ),
        (
            {"arch": 90, "decode": True},
            "no split is not supported on sm90 and with decode$",
        ),
        (
            {"arch": 90, "pass": "fwd_combine"},
            "arch sm90 is not supported in the fwd_combine pass: it must be sm80",
        ),
        ({"pass": "back"}, "pass back is unknown: it must be fwd, fwd_combine, bwd, bwd_dkv"),
        (
            {"arch": 90, "pass": "bwd", "hdim": 64, "hdim_v": 256},
            "head dim 64 is not supported in the bwd pass and on sm90",
        ),
        ({"pass": "fwd_combine", "split": True}, "split is not supported in the fwd_combine pass"),
        (
            {"pass": "fwd_combine", "decode": True},
            "decode is not supported in the fwd_combine pass",
        ),
        (
            {"pass": "fwd_combine", "mask": "causal"},
            "mask causal is not supported in the fwd_combine pass: it must be full",
        ),
        (
            {"pass": "fwd_combine", "arch": 86},
            "arch sm86 is not supported in the fwd_combine pass: it must be sm80",
        ),
        (
            {"pass": "fwd_combine", "hdim": 192},
            "value head dim 128 is not supported with head dim 192 in the fwd_combine pass",
        ),
    ],
)
def test_errors_name_the_value_and_what_is_allowed(fields: dict, sentence: str) -> None:
    legal = {"hdim": 128, "hdim_v": 128, "dtype": "bf16"}
    with pytest.raises(VariantError, match=sentence):
        make_any_variant(ATTENTION, **{**legal, **fields})


def test_axes_by_name() -> None:
    variant = make_any_variant(ATTENTION, hdim=64, mask="causal")
    assert (variant["hdim"], variant.hdim_v, variant.arch, variant["pass"]) == (64, 64, 80, "fwd")
    assert variant.replace(arch=86).stem == "flash_fwd_hdim64_bf16_causal_sm86"
    assert variant.codes == (0, 0, 64, 64, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 80)
    with pytest.raises(AttributeError):
        variant.stages  # noqa: B018
    with pytest.raises(VariantError, match="hdim is missing"):
        make_any_variant(ATTENTION, dtype="bf16")
    with pytest.raises(VariantError, match="window is unknown"):
        make_any_variant(ATTENTION, hdim=64, window=True)
    for wrong in (True, 64.0, "64"):
        with pytest.raises(GeneratorError):
            make_any_variant(ATTENTION, hdim=wrong)


# ---- The twin in C ------------------------------------------------------------------------------


def test_c_parses_and_prints_every_variant(grammar_cli: Path) -> None:
    """And its key is another for each, never 0."""
    family = number_of(ATTENTION)
    lines = [tabs("parse", variant.stem) for variant in EVERY]
    lines += [tabs("print", family, *variant.codes) for variant in EVERY]
    answers = [line.split("\t") for line in run_lines(grammar_cli, lines).decode().splitlines()]
    keys = {int(answer.pop(-2)) for answer in answers[: len(EVERY)]}
    assert len(keys) == len(EVERY) and 0 not in keys
    expected = [tabs("ok", family, *variant.codes, variant.stem) for variant in EVERY]
    expected += [tabs("ok", variant.stem) for variant in EVERY]
    assert [tabs(*answer) for answer in answers] == expected


def refusal(stem: str) -> str | None:
    """What Python says of a stem; None: it parses."""
    try:
        parse_stem(stem)
    except VariantError as error:
        return str(error)
    return None


def test_c_and_python_agree_on_what_does_not_parse(grammar_cli: Path) -> None:
    """And say the same of it, except for stems so long that C cuts them off."""
    stems = MALFORMED + mutations(6000)
    answers = run_lines(grammar_cli, [tabs("parse", stem) for stem in stems]).decode().splitlines()
    assert len(answers) == len(stems)
    sentences = set()
    for stem, answer in zip(stems, answers, strict=True):
        kind, *words = answer.split("\t")
        expected = refusal(stem)
        if expected is None:
            assert (kind, words[-1]) == ("ok", stem)
            continue
        status, sentence = words
        assert kind == "error" and status != "0", stem
        if len(stem.encode()) <= 160:
            assert sentence == expected
            sentences.add(sentence.partition(" is ")[2])
    assert len(sentences) > 10


def random_features(random_: random.Random) -> tuple[int, ...]:
    """softcap, alibi, bias, dropout, a snippet's score, mask and gradients, sequences, and a ready
    schedule: mostly none, and at times a bias or sequences that are not there."""
    if random_.random() < 0.7:
        return 0, 0, 0, 0, 0, 0, 0, 0, 0
    return (
        random_.randint(0, 1),
        random_.randint(0, 1),
        random_.randint(-1, 4),
        random_.randint(0, 1),
        random_.randint(0, 1),
        random_.randint(0, 1),
        int(random_.random() < 0.2),
        random_.randint(-1, 3),
        random_.randint(0, 1),
    )


def test_c_prints_what_python_allows_and_nothing_else(grammar_cli: Path) -> None:
    """Over a grid with illegal values on every axis; both say the same, where Python has a name for
    the value of a word."""
    random_ = random.Random(11)
    grid = [
        (
            *fields[:6],
            *random_features(random_),
            fields[6],
            *(int(random_.random() < 0.1) for _ in range(5)),
            fields[7],
        )
        for fields in itertools.product(
            range(-1, 3),
            (0, 1),
            (-8, 0, 8, 12, 64, 192, 256, 264, 512, 520),
            (-8, 0, 8, 12, 64, 128, 256, 264, 512, 520),
            range(4),
            range(-1, 4),
            (0, 1),
            (0, 75, 80, 86, 90),
        )
    ]
    family = number_of(ATTENTION)
    answers = run_lines(grammar_cli, [tabs("print", family, *fields) for fields in grid])
    legal = compared = 0
    for fields, answer in zip(grid, answers.decode().splitlines(), strict=True):
        values = []
        for axis, field in zip(ATTENTION.axes, fields, strict=True):
            words = {code: word for word, code in axis.codes.items()}
            number = bool(field) if axis.kind == "flag" else field
            values.append(words.get(field, "?") if axis.kind == "word" else number)
        try:
            stem = Variant(ATTENTION, tuple(values)).stem
        except VariantError as error:
            kind, status, sentence = answer.split("\t")
            assert (kind, status) == ("error", "1"), fields
            if "?" not in values:
                assert sentence == str(error)
                compared += 1
        else:
            assert answer == tabs("ok", stem)
            legal += 1
    assert legal > 100 and compared > 10_000


def test_families_and_flags_out_of_range(grammar_cli: Path) -> None:
    variant = make_variant("fwd", 64, 64, "bf16").codes
    lines = [tabs("print", 99, *variant), tabs("print", -1, *variant)]
    lines.append(tabs("print", number_of(ATTENTION), 0, 2, *variant[2:]))
    answers = run_lines(grammar_cli, lines).decode().splitlines()
    assert "family 99 is unknown" in answers[0]
    assert "family -1 is unknown" in answers[1]
    assert "split is 2: it must be 0 or 1" in answers[2]


def test_what_runs_where(grammar_cli: Path) -> None:
    """Architectures best first, each with its target; a variant's own arch does not matter."""
    stem, combine = "flash_fwd_hdim64_bf16_sm86", "flash_fwd_combine_hdim64_bf16_sm80"
    rows = {
        (stem, 80): "80 sm_80",
        (stem, 86): "86 sm_86",
        (stem, 87): "80 sm_80",
        (stem, 89): "86 sm_86",
        (stem, 90): "90 sm_90a 80 sm_90",
        (stem, 103): "80 sm_100",
        (stem, 121): "86 sm_120",
        (combine, 86): "80 sm_86",
        (combine, 90): "80 sm_90",
        (combine, 120): "80 sm_120",
    }
    lines = [tabs("runs", *row) for row in [*rows, (stem, 75), (stem, 91)]]
    *found, old, unknown = run_lines(grammar_cli, lines).decode().splitlines()
    assert found == [tabs("ok", *row.split()) for row in rows.values()]
    assert "compute capability 7.5; 8.0 or newer is needed" in old
    assert "9.1, which this version does not know; it knows 8.x, 9.0, 10.x, 11.x and" in unknown
