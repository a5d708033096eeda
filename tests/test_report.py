"""attnpress report: the page of a kernel, its data, and in a browser what a click marks.

Where there is no nvdisasm, a stand-in prints the kernel's PTX in nvdisasm's form: the page then has
all of its columns."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from browser import Page, find_browser

STEM = "flash_fwd_hdim64_bf16_causal_sm80"
CHAIN, ADDRESS, LIVE, HOT, PRODUCT, TEXT = range(6)  # of a row
STAND_IN = '''#!{python}
"""Prints a page's PTX as nvdisasm prints SASS: `nvdisasm -c -gi|-plr CUBIN`."""
import json, sys
data = json.load(open({data!r}))
files, chains, rows = data["files"], data["chains"], data["ptx"]
assert sys.argv[1] == "-c" and sys.argv[2] in ("-gi", "-plr")
assert open(sys.argv[3], "rb").read(4) == b"\\x7fELF"
names = dict((row[5][:-1], ".L_x_%d" % i) for i, row in enumerate(rows) if row[5].endswith(":"))
address, last = 0, None
print("\\t.target\\tsm_80\\n.text.kernel:")
for chain, _, _, _, product, text in rows:
    if sys.argv[2] == "-gi" and chain >= 0 and chain != last:
        places = list(zip(chains[chain][::2], chains[chain][1::2]))
        for here, there in zip(places, places[1:] + [None]):
            at = ' inlined at "%s", line %d' % (files[there[0]][0], there[1]) if there else ""
            print('\\t//## File "%s", line %d%s' % (files[here[0]][0], here[1], at))
        last = chain
    if text[:-1] in names:
        print(names[text[:-1]] + ":")
        continue
    words = text.rstrip(";").split()
    if words[-1] in names:
        text = ("%s " % words[0] if text[0] == "@" else "") + "BRA `(" + names[words[-1]] + ")"
    text = "HMMA.16816.F32.BF16 R0, R4, R8, R0" if product else text.rstrip(";")
    live = "  // |  %d  ^ :" % (40 + address // 16 % 100) if sys.argv[2] == "-plr" else ""
    print("        /*%04x*/                   %s ;%s" % (address, text, live))
    address += 16
'''


def report(build_dir: Path, *words: str, **keywords) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(build_dir / "attnpress"), "report", *words],
        capture_output=True, text=True, check=False, timeout=120, **keywords,
    )  # fmt: skip


def data_of(page: Path) -> dict:
    text = page.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">\n(.*?)</script>', text, flags=re.DOTALL)[1])


@pytest.fixture(scope="module")
def without_sass(tmp_path_factory, build_dir) -> Path:
    """A page that nvdisasm has no part in."""
    page = tmp_path_factory.mktemp("report") / "ptx.html"
    (page.parent / "bin").mkdir()
    environment = {**os.environ, "PATH": str(page.parent / "bin"), "CUDA_HOME": str(page.parent)}
    done = report(build_dir, STEM, "--html", str(page), env=environment)
    if "NVRTC" in done.stderr and done.returncode != 0:
        pytest.skip(f"no NVRTC: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    if "SASS:" in done.stdout:  # a toolkit in /usr/local/cuda
        pytest.skip("nvdisasm is in /usr/local/cuda")
    assert "nvdisasm of the CUDA toolkit" in done.stderr
    return page


@pytest.fixture(scope="module", params=["stand-in", "nvdisasm"])
def whole(request, tmp_path_factory, build_dir) -> Path:
    """A page with all of its columns."""
    folder = tmp_path_factory.mktemp("report")
    program = shutil.which("nvdisasm") or os.environ.get("ATTNPRESS_TEST_NVDISASM")
    if request.param == "nvdisasm" and program is None:
        pytest.skip("nvdisasm of the CUDA toolkit is not installed")
    if request.param == "stand-in":
        data = folder / "data.json"
        plain = request.getfixturevalue("without_sass")
        data.write_text(json.dumps(data_of(plain)))
        stand_in = folder / "nvdisasm"
        stand_in.write_text(STAND_IN.format(python=sys.executable, data=str(data)))
        stand_in.chmod(0o755)
        program = str(stand_in)
    done = report(build_dir, STEM, "--html", str(folder / "whole.html"), "--nvdisasm", program)
    assert done.returncode == 0, done.stderr
    loop = r"^hot loop  SASS: \d+ instructions, \d+ of them products; at most \d+ registers"
    assert re.search(loop, done.stdout, flags=re.MULTILINE), done.stdout
    return folder / "whole.html"


def check_listing(data: dict, name: str) -> None:
    rows = data[name]
    assert len(rows) > 500
    lengths = [len(text.splitlines()) for _, text in data["files"]]
    for chain in data["chains"]:
        assert chain and len(chain) % 2 == 0
        for file, line in zip(chain[::2], chain[1::2]):
            assert 1 <= line <= lengths[file], (data["files"][file][0], line)
    # Most instructions are from a line of the kernel itself, through whatever was inlined there.
    own = next(i for i, (file, _) in enumerate(data["files"]) if STEM in file)
    code = [row for row in rows if not row[TEXT].endswith(":")]
    of_kernel = [row for row in code if row[CHAIN] >= 0 and own in data["chains"][row[CHAIN]][::2]]
    assert len(of_kernel) > 0.9 * len(code)
    # The hot loop: products of S and of O, 2 x 8 x 4 each for two row tiles, and a branch back.
    hot = [row for row in rows if row[HOT]]
    assert sum(row[PRODUCT] for row in hot) == 128
    assert sum(row[PRODUCT] for row in rows) > 128
    assert hot[0][TEXT].endswith(":")


def test_data_without_sass(without_sass):
    data = data_of(without_sass)
    check_listing(data, "ptx")
    assert data["sass"] == [] and data["stem"] == STEM
    assert ["target", "sm_80"] in data["facts"]
    # A product is from the leaf header, inlined in the kernel.
    product = next(row for row in data["ptx"] if row[PRODUCT])
    chain = data["chains"][product[CHAIN]]
    assert data["files"][chain[0]][0].endswith("ptx_mma.cuh") and len(chain) >= 6
    source = data["files"][chain[-2]][1].splitlines()[chain[-1] - 1]
    assert STEM in data["files"][chain[-2]][0] and source.strip()


def test_data(whole):
    data = data_of(whole)
    check_listing(data, "ptx")
    check_listing(data, "sass")
    code = [row for row in data["sass"] if row[ADDRESS] >= 0]
    assert [row[ADDRESS] for row in code] == sorted({row[ADDRESS] for row in code})
    assert all(0 < row[LIVE] <= 255 for row in code if row[HOT])
    assert all(-1 <= row[LIVE] <= 255 for row in code)  # -1: what fills the end
    assert all(row[LIVE] == -1 for row in data["sass"] if row[ADDRESS] < 0)


def test_the_page_is_whole(whole):
    """Nothing is fetched from anywhere."""
    text = whole.read_text(encoding="utf-8")
    page = text[: text.index('id="data">')] + text[text.index("</script>") :]
    assert not re.findall(r"""(?:src|href)=["'](?!data:)|@import|url\(|fetch\(""", page)


def test_words(build_dir, tmp_path):
    for words, sentence in (
        ((), "the name of a kernel is missing"),
        (("nonsense",), '"nonsense" is not the name of a kernel'),
        ((STEM, STEM), "is a second"),
        ((STEM, "--html"), "--html needs a file"),
        ((STEM, "--target"), "--target needs a target"),
        ((STEM, "--target", "sm_75"), 'target "sm_75" is unknown'),
        ((STEM, "--nvdisasm", str(tmp_path / "none")), f'--nvdisasm is "{tmp_path}/none": No such'),
        ((STEM, "--frobnicate"), '"--frobnicate" is not an option'),
    ):
        done = report(build_dir, *words)
        assert done.returncode == 2 and sentence in done.stderr, (words, done.stderr)


def test_what_fails(build_dir, tmp_path, without_sass):
    assert without_sass
    done = report(build_dir, STEM, "--html", str(tmp_path / "no" / "page.html"))
    assert done.returncode == 1 and "page.html: No such file" in done.stderr
    done = report(build_dir, STEM, "--nvdisasm", "/bin/false")
    assert done.returncode == 1 and "/bin/false -c -gi did not disassemble" in done.stderr


# ---- In a browser --------------------------------------------------------------------------------


@pytest.fixture
def browser(whole):
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium to open the page in")
    with Page(program, whole) as page:
        yield page


MARKED = "Array.from(document.querySelectorAll('#%s .mark')).map(e => Number(e.dataset.row))"


def test_columns_and_clicks(browser, whole):
    data = data_of(whole)
    assert browser.evaluate("document.querySelector('h1').textContent") == STEM
    # Three columns stand side by side, each with rows to be seen.
    boxes = browser.evaluate(
        "Array.from(document.querySelectorAll('section')).map(s => { const b = "
        "s.querySelector('.rows').getBoundingClientRect(); return [s.id, b.left, b.right, b.top, "
        "b.bottom, s.querySelectorAll('.rows > div').length]; })"
    )
    assert [box[0] for box in boxes] == ["source", "ptx", "sass"]
    for before, box in zip([None, *boxes], boxes):
        assert box[2] - box[1] > 300 and box[4] - box[3] > 300 and box[5] > 100
        assert before is None or box[1] >= before[2] - 1
    # What is marked on a click is what the chains say, in every column.
    chain = data["chains"][next(row for row in data["ptx"] if row[HOT] and row[PRODUCT])[CHAIN]]
    place = (chain[-2], chain[-1])
    browser.click(f"document.querySelector('[data-place=\"{place[0]}:{place[1]}\"]')")
    source = "Array.from(document.querySelectorAll('#source .mark')).map(e => e.dataset.place)"
    assert browser.evaluate(source) == [f"{place[0]}:{place[1]}"]
    for name in ("ptx", "sass"):
        expected = [
            index
            for index, row in enumerate(data[name])
            if row[CHAIN] >= 0 and place in list(zip(*[iter(data["chains"][row[CHAIN]])] * 2))
        ]
        assert len(expected) > 5 and browser.evaluate(MARKED % name) == expected
        seen = browser.evaluate(
            f"Array.from(document.querySelectorAll('#{name} .mark')).some(e => {{ const b = "
            "e.getBoundingClientRect(), at = document.elementFromPoint(b.left + 10, b.top + 5);"
            "return at !== null && e.contains(at); })"
        )
        assert seen, f"no marked row of {name} is in view"
    # A row of SASS marks its own chain.
    index = next(i for i, row in enumerate(data["sass"]) if row[HOT] and row[PRODUCT])
    browser.click(f"document.querySelectorAll('#sass .rows > div')[{index}]")
    places = data["chains"][data["sass"][index][CHAIN]]
    assert set(browser.evaluate(source)) == {f"{places[0]}:{places[1]}"}
    for name in ("ptx", "sass"):
        expected = [
            i for i, row in enumerate(data[name])
            if row[CHAIN] >= 0 and data["chains"][row[CHAIN]] == places
        ]  # fmt: skip
        assert expected and browser.evaluate(MARKED % name) == expected
    assert browser.errors == []


def test_hot_loop_and_chart(browser, whole):
    data = data_of(whole)
    for name in ("ptx", "sass"):
        hot = (
            f"Array.from(document.querySelectorAll('#{name} .hot')).map(e => Number(e.dataset.row))"
        )
        assert browser.evaluate(hot) == [i for i, row in enumerate(data[name]) if row[HOT]]
    loop = [i for i, row in enumerate(data["sass"]) if row[HOT] and row[ADDRESS] >= 0]
    assert browser.evaluate("document.querySelectorAll('svg rect').length") == len(loop)
    assert browser.evaluate("document.querySelectorAll('svg rect.product').length") == 128
    browser.click("document.querySelectorAll('svg rect')[100]")
    assert loop[100] in browser.evaluate(MARKED % "sass")
    assert browser.errors == []
