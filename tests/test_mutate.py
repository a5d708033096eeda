"""What tests/emulator/mutate.py says of faults: with programs in place of the emulator."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent / "emulator"))

import mutate
from mutations import COMBINE, Mutation

KERNELS = [("flash_fwd_combine_hdim96_fp16_sm80", ""), ("flash_fwd_combine_hdim72_bf16_sm80", "")]
FAULTS = [
    Mutation(name, COMBINE, "__launch_bounds__", f"/* {name} */ __launch_bounds__")
    for name in ("a fault", "another fault")
]


@pytest.fixture
def emulator(tmp_path, monkeypatch):
    """Makes an emulator in whose eyes kernels fail that have one of these words; what it is given
    is listed in a file beside it."""
    monkeypatch.setattr(mutate, "KERNELS", KERNELS)

    def make(*words: str) -> mutate.Emulator:
        program = tmp_path / "emulate"
        program.write_text(
            f"#!{sys.executable}\n"
            "import sys\nfrom pathlib import Path\n"
            "kernel = Path(sys.argv[2])\n"
            f"with open({str(tmp_path / 'given')!r}, 'a') as given:\n"
            "    print(kernel.stem, 'fault' in kernel.read_text(), file=given)\n"
            f"for word in {words!r}:\n"
            "    if word in kernel.read_text():\n"
            "        sys.exit(f'FAILED {kernel.stem}')\n"
        )
        program.chmod(0o755)
        return mutate.Emulator(program, 30)

    return make


def outcomes_of(emulator: mutate.Emulator) -> list[mutate.Outcome]:
    originals = mutate.render(mutate.ROOT / "templates")
    return [mutate.run_mutation(fault, emulator, originals) for fault in FAULTS]


def test_a_fault_is_caught_by_a_kernel_that_passes_without(emulator, tmp_path, capsys):
    found = emulator("fault")
    outcomes = outcomes_of(found)
    assert [bool(outcome.caught_by) for outcome in outcomes] == [True, True]
    assert outcomes[0].kernel == KERNELS[0][0] and not found.failing
    # Without a fault it ran once.
    given = (tmp_path / "given").read_text().splitlines()
    assert given == [f"{KERNELS[0][0]} {fault}" for fault in (True, False, True)]
    assert mutate.summary(outcomes, found.failing, 1.0) == 0
    assert "2 faults, 2 caught, 0 escaped" in capsys.readouterr().out


def test_a_kernel_that_always_fails_catches_nothing(emulator, capsys):
    found = emulator("__global__")
    outcomes = outcomes_of(found)
    assert not any(outcome.caught_by for outcome in outcomes)
    assert {Path(path).stem for path in found.failing} == {stem for stem, _ in KERNELS}
    assert mutate.summary(outcomes, found.failing, 1.0) == 1
    said = capsys.readouterr().out
    assert "2 faults, 0 caught, 2 escaped" in said
    assert all(f"fails without a fault: {stem}, its own tile" in said for stem, _ in KERNELS)


def test_kernels_without_a_fault(emulator, monkeypatch, capsys):
    found = emulator("hdim72")
    monkeypatch.setattr(sys, "argv", ["mutate.py", "--without", "--emulate", str(found.program)])
    assert mutate.main() == 1
    said = capsys.readouterr().out
    assert said.startswith("2 kernels, 1 fail\n") and KERNELS[1][0] in said
    assert KERNELS[0][0] not in said


def test_the_next_kernel_is_asked_after_one_that_always_fails(emulator, capsys):
    """It still is an error: the fault may be one that the first should see."""
    found = emulator(KERNELS[0][0], "fault")
    outcomes = outcomes_of(found)
    assert {outcome.kernel for outcome in outcomes} == {KERNELS[1][0]}
    assert mutate.summary(outcomes, found.failing, 1.0) == 1
    assert "2 faults, 2 caught, 0 escaped" in capsys.readouterr().out


def test_a_fault_that_nobody_sees_escapes(emulator, capsys):
    found = emulator("nothing like it")
    assert mutate.summary(outcomes_of(found), found.failing, 1.0) == 1
    assert "escaped: a fault" in capsys.readouterr().out


def test_a_fault_is_where_its_text_begins_a_line():
    """What is indented further is another place, which has a fault of its own."""
    text = "if (x) {\n    wait();\n}\n  wait();\n"
    fault = Mutation("it does not wait", "file", "  wait();\n", "")
    assert fault.apply(text) == "if (x) {\n    wait();\n}\n"
    assert (
        Mutation("nor here", "file", "    wait();\n", "").apply(text) == "if (x) {\n}\n  wait();\n"
    )
    assert Mutation("nor anywhere", "file", "wait();", ";", 0).apply(text).count("wait") == 0
    with pytest.raises(ValueError, match="is not in file: bring it up to date"):
        Mutation("there is one", "file", "  wait();\n", "", 2).apply(text)
