"""The press: expands the kernel templates into sources, and writes the runtime's tables.

    targets.py    what cubins can be compiled for
    family.py     a family as data: generator/<family>/family.toml
    variant.py    what a stem says: one function prints it, one parses it, one says what is legal
    tiles.py      how a variant's work is cut: names, tuned tiles, the whole table
    render.py     templates -> CUDA source, by Jinja2
    to_c.py       templates -> C renderers, from Jinja2's own syntax tree
    sets.py       generator/<family>/variants.toml: which variants are pressed
    tables.py     families, tiles and targets as C
    registry.py   every file of generated/
    __main__.py   the command line
    <family>/     a family: its toml files, and rules.py for what data cannot say

Python 3.10 or later and Jinja2; tomli as well on 3.10, which has no tomllib.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"
GENERATED = ROOT / "generated"
FAMILIES_TOML = ROOT / "generator" / "families.toml"
TARGETS_TOML = ROOT / "generator" / "targets.toml"


class GeneratorError(Exception):
    """Bad input: its text is one sentence that names the value and what is allowed."""


def load_toml(path: Path) -> dict:
    """The content of a TOML file; GeneratorError where it cannot be read or does not parse."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            raise GeneratorError(
                "Python 3.10 has no tomllib: install tomli (pip install tomli)"
            ) from None
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise GeneratorError(f"{path} cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise GeneratorError(f"{path} is not valid TOML: {error}") from None


def check_keys(
    label: str,
    row: dict,
    required: AbstractSet[str],
    optional: AbstractSet[str] = frozenset(),
) -> None:
    """GeneratorError that names a key of a row which is missing or unknown."""
    if missing := required - set(row):
        raise GeneratorError(f"{label}: {min(missing)} is missing")
    if unknown := set(row) - required - optional:
        raise GeneratorError(f"{label}: {min(unknown)} is unknown")
