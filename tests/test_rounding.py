"""Kernels of batch-invariant calls round alike, whatever tile a row lies in. A product and the sum
that it goes into are one rounding or two, as the compiler likes: one in a basic block, two where it
has moved the product in front of a branch. So no sum may have its product in another block."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

TEXT = 5  # of a row
PRODUCT = re.compile(r"mul\S*\.f32\s+(%f\d+),")
SUM = re.compile(r"(?:add|sub)\S*\.f32\s+%f\d+,\s*(\S+),\s*(\S+);")
STEMS = [
    "flash_fwd_split_hdim80_fp16_causal_alibi_paged_sm80",
    "flash_fwd_split_hdim80_fp16_causal_alibi_paged_few_sm80",
    "flash_fwd_split_hdim128_bf16_window_softcap_alibi_ragged_sm80",
    "flash_fwd_split_hdim320_bf16_causal_ragged_sm80",
]


def instructions(build_dir: Path, stem: str, page: Path) -> list[str]:
    done = subprocess.run(
        [str(build_dir / "attnpress"), "report", stem, "--html", str(page)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    if "NVRTC" in done.stderr and done.returncode != 0:
        pytest.skip(f"no NVRTC: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    found = re.search(r'id="data">\n(.*?)</script>', text, flags=re.DOTALL)
    assert found is not None
    return [row[TEXT] for row in json.loads(found[1])["ptx"]]


@pytest.mark.parametrize("stem", STEMS)
def test_no_product_is_in_another_block_than_its_sum(build_dir, tmp_path, stem: str) -> None:
    block, block_of, apart, sums = 0, {}, [], 0
    for text in instructions(build_dir, stem, tmp_path / "page.html"):
        block += text.endswith(":") or "bra" in text.split()[:2]
        if product := PRODUCT.match(text):
            block_of[product[1]] = block
        if found := SUM.match(text):
            sums += 1
            apart += [text for name in found.groups() if block_of.get(name, block) != block]
    assert sums > 50
    assert not apart, f"{len(apart)} sums, {apart[0]} among them"
