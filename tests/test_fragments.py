"""Fragments that wgmma reads as A from registers, in SASS.

ptxas of CUDA 12.4 to 13.0 takes registers in which K or V stay over a loop for P or dS of the same
loop, where ldmatrix alone has written them and the products have as many columns. The emulator
compiles no SASS, and a GPU shows it only with such an NVRTC: here the registers of A are followed
back to what wrote them.

An arrival at an mbarrier releases what its thread has read before, by the PTX ISA. ptxas of CUDA
13.0 lets it overtake reads of shared memory whose registers nothing has waited for, and the copy
engine then overwrites what they have yet to read: the forward pass at head dim 128, with few keys,
gave another result in each run. Here each arrival is looked at, whether reads are under way. Which
scoreboard an instruction sets, and which it waits for, stands in bits 110 to 121 of its 128.

The last tests need nvdisasm, and test the NVRTC that ATTNPRESS_NVRTC names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from bench import BenchError
from bench.kernels import Compiled
from bench.tune import Press
from generator.tiles import parse_tile, problems
from generator.variant import parse_stem

LABEL = re.compile(r"(\.L\w+):")
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?(\S+)\s*(.*?)\s*;")
WRITTEN = re.compile(r"(?:!?U?P\w, )*R(\d+)\b")
A_REGISTERS = re.compile(r"R\d+, R(\d+), gdesc")
WITHOUT_RESULT = ("ST", "SYNCS", "RED", "BAR", "UBLK", "UTMA")


def _width(opcode: str) -> int:
    """Registers that it writes."""
    if opcode.startswith("HGMMA"):
        return int(re.findall(r"\d+", opcode)[1]) // 2
    if opcode.startswith("LDSM"):
        return int(opcode[-1]) if opcode[-2] == "." and opcode[-1] in "24" else 1
    if ".128" in opcode:
        return 4
    return 2 if ".64" in opcode or ".WIDE" in opcode or opcode.startswith("CS2R") else 1


def _writes(opcode: str, operands: str) -> range:
    found = WRITTEN.match(operands)
    if found is None or opcode.startswith(WITHOUT_RESULT):
        return range(0)
    return range(int(found[1]), int(found[1]) + _width(opcode))


def mixed_writers(sass: str) -> list[str]:
    """The products whose A has writers of several kinds, and these; zeros count as none."""
    code: list[tuple[bool, str, str]] = []
    labels: dict[str, int] = {}
    for line in sass.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(code)
        elif found := INSTRUCTION.match(line):
            code.append((found[1] is not None, found[2], found[3]))

    before: list[list[int]] = [[] for _ in range(len(code) + 1)]
    for i, (conditional, opcode, operands) in enumerate(code):
        goes = opcode.startswith(("BRA", "EXIT", "RET"))
        if goes and (target := re.search(r"`\((\.L\w+)\)", operands)):
            before[labels.get(target[1], len(code))].append(i)
        if not goes or conditional or operands.startswith(("P", "!P", "U", "!U")):
            before[i + 1].append(i)

    def writers(i: int, register: int) -> set[str]:
        found, seen, open_ = set(), set(), list(before[i])
        while open_:
            at = open_.pop()
            if at in seen:
                continue
            seen.add(at)
            conditional, opcode, operands = code[at]
            if register in _writes(opcode, operands):
                zero = opcode.startswith("CS2R") or operands.endswith("RZ, RZ, RZ")
                if copied := re.match(r"R\d+, (?:RZ, RZ, )?R(\d+)$", operands):
                    found |= writers(at, int(copied[1]))
                elif not zero:
                    found.add(opcode)
                if not conditional:
                    continue
            open_ += before[at]
        return found

    mixed = []
    for i, (_, opcode, operands) in enumerate(code):
        if opcode.startswith("HGMMA") and (found := A_REGISTERS.match(operands)):
            first = int(found[1])
            kinds = set().union(*(writers(i, first + n) for n in range(4)))
            if len(kinds) > 1:
                mixed.append(f"{opcode} {operands}: {', '.join(sorted(kinds))}")
    return mixed


ENCODED = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s*/\* 0x([0-9a-f]{16}) \*/")
UPPER_HALF = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/")
SCOREBOARDS = 6
READ = re.compile(r"LDSM?\b")


def overtaken_reads(sass: str) -> list[str]:
    """The arrivals while reads of shared memory are under way, of `nvdisasm -c -hex`, in the order
    of the text."""
    found, lines = [], sass.splitlines()
    under_way: dict[int, str] = {}  # by scoreboard
    for line, after in pairwise(lines):
        instruction, upper = ENCODED.match(line), UPPER_HALF.match(after)
        if instruction is None or upper is None:
            continue
        at, text, _ = instruction.groups()
        control = int(upper[1], 16) >> 41  # from bit 105 on
        sets, waits = control >> 5 & 7, control >> 11 & 63
        for scoreboard in range(SCOREBOARDS):
            if waits >> scoreboard & 1:
                under_way.pop(scoreboard, None)
        if "SYNCS.ARRIVE" in text:
            found += [f"{at} {text}: {read}" for read in under_way.values()]
        if READ.search(text) and sets < SCOREBOARDS:
            under_way[sets] = f"{at} {text}"
        if text.startswith(("BRA", "EXIT", "RET")):  # what follows is come to from elsewhere
            under_way.clear()
    return found


LOOP = """
        /*0000*/                   IMAD.MOV.U32 R40, RZ, RZ, RZ ;
        /*0010*/              @!P0 BRA `(.L_x_1) ;
        /*0020*/                   LDSM.16.M88.4 R40, [R7] ;
.L_x_1:
        /*0030*/                   HGMMA.64x64x16.F32.BF16 R56, R40, gdesc[UR20], RZ, !UPT ;
        /*0040*/               @P1 BRA `(.L_x_2) ;
        /*0050*/                   LDSM.16.MT88.4 R48, [R6+0x900] ;
        /*0060*/                   HGMMA.64x64x16.F32.BF16 R88, R48, gdesc[UR20].tnspB, R88 ;
.L_x_2:
        /*0070*/              @!P2 BRA `(.L_x_1) ;
        /*0080*/                   EXIT ;
"""


@pytest.mark.parametrize(
    ("old", "new", "writers"),
    [
        ("", "", ""),
        ("R48", "R44", ""),  # the registers beside K's
        ("R48", "R40", "LDSM.16.M88.4, LDSM.16.MT88.4"),  # dS over K
        ("LDSM.16.MT88.4 R48, [R6+0x900]", "F2FP.BF16.F32.PACK_AB R43, R1, R2", "F2FP.BF16"),
        ("LDSM.16.MT88.4 R48, [R6+0x900]", "IMAD.MOV.U32 R41, RZ, RZ, R42", ""),  # of K itself
        (".L_x_1) ;\n        /*0080", ".L_x_2) ;\n        /*0080", ""),
    ],
)  # fmt: skip
def test_a_loop_that_writes_over_its_fragments(old: str, new: str, writers: str) -> None:
    found = mixed_writers(LOOP.replace(old, new) if old else LOOP)
    assert len(found) == bool(writers) and all(writers in text for text in found), found


ARRIVAL = """
        /*1350*/                   LDSM.16.M88.4 R212, [R6+0x2000] ;                  /* 0x0020000006d4783b */
                                                                                      /* 0x0000620000000200 */
        /*1360*/                   NOP ;                                              /* 0x0000000000007918 */
                                                                                      /* 0x000fe20000000000 */
        /*1370*/              @!P5 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4+0x38010], RZ ;  /* 0x038010ffffffd9a7 */
                                                                                      /* 0x000fe20008100004 */
"""  # noqa: E501


@pytest.mark.parametrize(
    ("old", "new", "overtakes"),
    [
        ("", "", True),
        ("0x000fe20000000000", "0x002fe20000000000", False),  # NOP waits for scoreboard 1
        ("0x000fe20000000000", "0x004fe20000000000", True),  # for scoreboard 2
        ("0x000fe20008100004", "0x002fe20008100004", False),  # the arrival waits
        ("LDSM.16.M88.4", "LDS.128", True),
        ("LDSM.16.M88.4 R212", "LDG.E R212", False),
        ("NOP ", "EXIT", False),
    ],
)
def test_an_arrival_behind_reads(old: str, new: str, overtakes: bool) -> None:
    found = overtaken_reads(ARRIVAL.replace(old, new) if old else ARRIVAL)
    assert len(found) == overtakes, found


def nvdisasm() -> str:
    program = os.environ.get("ATTNPRESS_TEST_NVDISASM") or shutil.which("nvdisasm")
    if program is None:
        pytest.skip("nvdisasm of the CUDA toolkit is not installed")
    return program


@pytest.mark.parametrize(
    ("stem", "tiles"),
    [
        ("flash_bwd_hdim64_bf16_sm90", "m64n128s2d4k m64n128s2d4v m64n128s3d4kv"),
        ("flash_bwd_hdim64_fp16_causal_ragged_sm90", "m64n128s2d4kv"),
        ("flash_bwd_hdim80_bf16_sm90", "m64n128s2kv m64n128s2d4v"),
        ("flash_bwd_hdim96_bf16_causal_sm90", "m64n128s2v m64n128s2k"),
        ("flash_bwd_dkv_hdim72_bf16_causal_sm90", "m64n128s2kv"),
        ("flash_bwd_hdim192_bf16_causal_sm90", "m64n96s3"),
        ("flash_fwd_hdim64_bf16_causal_sm90", "m128n64s2q"),
        ("flash_fwd_hdim128_bf16_sm90", "m128n128s2q"),
    ],
)
def test_fragments_of_kernels(stem: str, tiles: str, tmp_path: Path) -> None:
    program, variant = nvdisasm(), parse_stem(stem)
    try:
        press = Press(1)
    except BenchError as error:
        pytest.skip(str(error))
    for name in tiles.split():
        tile = parse_tile(name, variant)
        assert problems(variant, tile) == []
        compiled = press.compile(variant, tile, "sm_90a")
        assert isinstance(compiled, Compiled), compiled
        cubin = tmp_path / f"{name}.cubin"
        cubin.write_bytes(compiled.cubin)
        command = [program, "-c", "-hex", str(cubin)]
        sass = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert sass.count("HGMMA") > 8 and "SYNCS.ARRIVE" in sass
        assert mixed_writers(sass) == [], name
        assert overtaken_reads(sass) == [], name
