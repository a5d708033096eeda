"""Completions and the manual page: they hold what the tool takes, and shells and man read them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

# `run --device emulated` hands its words on; these are options of attnpress-emulate.
EMULATED = ("--stem", "--source", "--templates", "--arch", "--packed")


@pytest.fixture(scope="session")
def tool(build_dir) -> str:
    return str(build_dir / "attnpress")


def run(*words: str, **keywords) -> subprocess.CompletedProcess:
    return subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=60, **keywords
    )


def printed(tool: str, *words: str) -> str:
    done = run(tool, *words)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def options(tool) -> dict[str, list[tuple[str, bool]]]:
    """By command: its options, and whether they take a value; as fish is told."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for line in printed(tool, "completions", "fish").splitlines():
        words = shlex.split(line.split(" -d '")[0]) if line.startswith("complete ") else []
        if "-l" in words and "-n" in words:
            command = words[words.index("-n") + 1].removeprefix("__attnpress_is ")
            takes = "-x" in words or "-r" in words
            found.setdefault(command, []).append(("--" + words[words.index("-l") + 1], takes))
    return found


def test_the_tables_are_all_there(tool, options):
    commands = re.findall(r"^  ([a-z]+)  +\S", printed(tool, "--help"), flags=re.MULTILINE)
    without = {"run", "manual", "completions"}
    assert {command.split()[0] for command in options} == set(commands) - without | {"run"}
    families = re.search(r"^Families: ([a-z0-9 ]+);", printed(tool, "run", "--help"), re.MULTILINE)
    assert {f"run {family}" for family in families[1].split()} <= set(options)
    assert ("--hdim", True) in options["compile"] and ("--causal", False) in options[
        "run attention"
    ]


def test_what_is_completed_is_taken(tool, options, tmp_path):
    """Each option of a table is one of its command's parser, with a value or without: a word behind
    it that cannot be is the one that is refused."""
    for command, rows in options.items():
        for name, takes in rows:
            if command.startswith("run") and name in EMULATED:
                continue
            words = [name, "no-such-value"] if takes else [name, "no-such-word"]
            done = run(tool, *command.split(), *words, "another-word", cwd=tmp_path)
            assert f'"{name}" is not an option' not in done.stderr, (command, name, done.stderr)
            assert done.returncode != 0, (command, name)
            if takes:  # its own value was used, not left over as a word
                assert f'"{name}' not in done.stderr
                assert '"no-such-value" is not an option' not in done.stderr, (command, name)
            else:
                assert f"{name} is" not in done.stderr and f"{name} needs" not in done.stderr


def test_what_is_in_no_table_is_refused(tool, options):
    """Also where another command has it."""
    for command in options:
        own = {name for name, _ in options[command]}
        other = next(n for rows in options.values() for n, _ in rows if n not in own)
        for word in ("--frobnicate", other):
            done = run(tool, *command.split(), word)
            assert done.returncode == 2 and f'"{word}" is not an option' in done.stderr, done


def bash_completes(tool: str, *words: str) -> list[str]:
    """What bash offers for the last word."""
    given = " ".join(shlex.quote(word) for word in ("attnpress", *words))
    script = (
        'source <("$1" completions bash)\n'
        f"COMP_WORDS=({given}) COMP_CWORD={len(words)}\n"
        "compopt() { :; }\n"  # is known while completing alone
        '_attnpress && printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = run("bash", "-c", script, "bash", tool)
    assert done.stderr == "", done.stderr
    return done.stdout.split()


def test_bash(tool):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    assert bash_completes(tool, "comp") == ["compile", "completions"]
    assert bash_completes(tool, "compile", "--hdim") == ["--hdim", "--hdim-v"]
    assert bash_completes(tool, "compile", "--dtype", "") == ["fp16", "bf16"]
    assert bash_completes(tool, "compile", "--dtype", "=") == ["fp16", "bf16"]
    assert bash_completes(tool, "compile", "--dtype", "=", "b") == ["bf16"]
    assert bash_completes(tool, "explain", "--target", "sm_9") == ["sm_90", "sm_90a"]
    assert bash_completes(tool, "compile", "--heads", "") == []
    assert bash_completes(tool, "cache", "ex") == ["export"]
    assert bash_completes(tool, "cache", "list", "ex") == []
    assert bash_completes(tool, "run", "la") == ["layernorm"]
    assert bash_completes(tool, "run", "layernorm", "--r") == [
        "--rows", "--rms", "--residual", "--repeat",
    ]  # fmt: skip
    assert "--kv-heads" in bash_completes(tool, "run", "--k")
    assert "--kv-heads" not in bash_completes(tool, "run", "softmax", "--")
    assert "--softcap" in bash_completes(tool, "run", "--causal", "--so")


def test_fish(tool, tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = tmp_path / "attnpress.fish"
    script.write_text(printed(tool, "completions", "fish"))

    def completes(line: str) -> list[str]:
        done = run("fish", "-N", "-c", f"source {script}; complete -C {shlex.quote(line)}")
        assert done.stderr == "", done.stderr
        return [found.split("\t")[0] for found in done.stdout.splitlines()]

    assert completes("attnpress comp") == ["compile", "completions"]
    assert completes("attnpress compile --dtype ") == ["bf16", "fp16"]
    assert completes("attnpress cache exp") == ["export"]
    assert "--kv-heads" in completes("attnpress run --k")
    assert "--kv-heads" not in completes("attnpress run softmax --")
    assert "--cached" not in completes("attnpress cache list --ca")
    assert "--rms" in completes("attnpress run layernorm --r")


ZSH = r"""
zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell 'PS1= PROMPT2= ; unsetopt prompt_sp; autoload -Uz compinit; compinit -u -D'
zpty -w shell 'zstyle ":completion:*" list-colors; LISTMAX=1000; source '$1
zpty -w shell 'echo re""ady'
zpty -r -m shell out '*ready*'
for line in "${@:2}"; do
  zpty -w -n shell $line$'\t'
  sleep 0.7
  zpty -w -n shell $'\C-u'
  zpty -w shell 'echo en""d'
  zpty -r -m shell out '*end*'
  print -r -- "$out"
  print -r -- @@@
done
"""


def test_zsh(tool, tmp_path):
    """A shell of its own behind a terminal: what a tab adds to the line."""
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    script = tmp_path / "_attnpress"
    script.write_text(printed(tool, "completions", "zsh"))
    completed = {
        "attnpress comple": "attnpress completions",
        "attnpress compile --dry": "attnpress compile --dry-run",
        "attnpress compile --dtype b": "attnpress compile --dtype bf16",
        "attnpress run layernorm --rm": "attnpress run layernorm --rms",
        "attnpress run so": "attnpress run softmax",
        "attnpress cache exp": "attnpress cache export",
    }
    done = run("zsh", "-f", "-c", ZSH, "zsh", str(script), *completed, cwd=tmp_path)
    answers = done.stdout.split("@@@")
    for answer, wanted in zip(answers, completed.values()):
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x08.?|\r", "", answer)
        assert wanted in text, (wanted, answer)


def test_manual(tool, options):
    text = printed(tool, "manual")
    assert text.startswith(".TH ATTNPRESS 1 ")
    for command, rows in options.items():
        section = text[text.index(f".SS attnpress {command}\n") :].split("\n.SS ")[0]
        for name, _ in rows:
            assert name.replace("-", r"\-") in section, (command, name)
    programs = {"mandoc": ["-T", "lint", "-W", "warning"], "groff": ["-man", "-ww", "-z"]}
    program = next((p for p in programs if shutil.which(p)), None)
    if program is None:
        pytest.skip("neither mandoc nor groff is installed: the page was not read by one")
    done = run(program, *programs[program], input=text)
    complaints = [
        line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line
    ]
    assert not complaints, complaints


def test_words(tool):
    for words, sentence in (
        (["completions"], "one shell is needed: bash, zsh or fish"),
        (["completions", "tcsh"], 'there are none for "tcsh": it must be bash, zsh or fish'),
        (["manual", "run"], '"run" is a word too many'),
    ):
        done = run(tool, *words)
        assert done.returncode == 2 and sentence in done.stderr


def test_installed_texts(build_dir, tool):
    """What is installed is what the tool prints."""
    folder: Path = build_dir / "share"
    for name, words in (
        ("attnpress.bash", ("completions", "bash")),
        ("_attnpress", ("completions", "zsh")),
        ("attnpress.fish", ("completions", "fish")),
        ("attnpress.1", ("manual",)),
    ):
        assert (folder / name).read_text() == printed(tool, *words), name
