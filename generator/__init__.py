"""The press: expands the kernel templates into sources, and writes the runtime's tables.

    variant.py    what a stem says: one function prints it, one parses it
    tiles.py      tile shapes: shared memory, legality, the rule that fills what was not tuned
    render.py     templates -> CUDA source, by Jinja2
    to_c.py       templates -> C renderers, from Jinja2's own syntax tree
    registry.py   variants.toml, and every file of generated/
    __main__.py   the command line

Python 3.10 or later and Jinja2; tomli as well on 3.10, which has no tomllib.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"
GENERATED = ROOT / "generated"


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
