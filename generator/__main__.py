"""The command line: `python -m generator`, from the root of the repository."""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from generator import GENERATED, ROOT, GeneratorError
from generator.family import Axis, Family, Value, families, family_of
from generator.tiles import Tile, parse_tile, problems, tile_of
from generator.variant import Variant, make_variant

try:
    from generator.registry import INCLUDE_DIR, PRESSED_HEADERS, written_files
    from generator.render import environment, source
    from generator.sets import shown_variants, whole_set
except ModuleNotFoundError as missing:
    if missing.name != "jinja2":
        raise
    print("python -m generator: Jinja2 is not installed: pip install jinja2", file=sys.stderr)
    sys.exit(2)

PROGRAM = "python -m generator"
PRESSED = ROOT / "build" / "pressed"

DESCRIPTION = """\
Expands the kernel templates. Without options: writes generated/, which holds sources of the default
set and the runtime's tables, and the device headers of wgmma, and removes what no longer belongs
there. With an axis of the family, such as {option}: presses variants on demand."""


class Parser(argparse.ArgumentParser):
    """Bad arguments end with status 2 and one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parser(family: Family) -> Parser:
    """The options; those of variants on demand are the family's axes."""
    description = DESCRIPTION.format(option=_option(_main_axis(family)))
    result = Parser(prog=PROGRAM, description=description, allow_abbrev=False)
    mode = result.add_mutually_exclusive_group()
    mode.add_argument(
        "--check",
        action="store_true",
        help="write nothing; name each missing, differing or orphaned file, status 1 where one is",
    )
    mode.add_argument("--list", action="store_true", help="print the stems of a set")
    result.add_argument("--only", metavar="GLOB", help="only stems that match, such as '*bf16*'")
    result.add_argument("--set", help="the set of variants.toml to list or to press (default)")
    result.add_argument("--out", metavar="DIR", type=Path, help="where to press to (build/pressed)")

    names = ", ".join(f.name for f in families())
    result.add_argument("--family", help=f"whose variants to press: {names} ({families()[0].name})")
    demand = result.add_argument_group(
        f"variants of {family.name} on demand; lists give every combination"
    )
    for axis in family.axes:
        _add_axis(demand, axis)
    examples = " or ".join(form.example for form in family.forms)
    demand.add_argument("--tile", metavar="NAME", help=f"such as {examples}, not its own")
    return result


def _option(axis: Axis) -> str:
    return f"--{axis.name.replace('_', '-')}"


def _option_given(axis: Axis, options: argparse.Namespace) -> str:
    """The option as it was given, or might have been: --WORD rather than --AXIS WORD."""
    given = getattr(options, _dest(axis))
    return f"--{given[0]}" if given[0] in _short_words(axis) else _option(axis)


def _short_words(axis: Axis) -> list[str]:
    """Words of an axis that are options of their own: stems say them as they are, or nothing."""
    if axis.kind != "word" or "" not in axis.tokens.values():
        return []
    return [word for word, token in axis.tokens.items() if token.strip("_") == word]


def _dest(axis: Axis) -> str:
    return f"axis_{axis.name}"


def _add_axis(group: argparse._ArgumentGroup, axis: Axis) -> None:
    """--FLAG; --AXIS VALUE; and --WORD of short words."""
    if axis.kind == "flag":
        group.add_argument(_option(axis), dest=_dest(axis), action="store_true", help=axis.help)
        return
    default = "" if axis.default is None else f" ({axis.print(axis.default)})"
    text = axis.help or ", ".join(axis.domain if axis.kind == "word" else map(str, axis.domain))
    kind = int if axis.kind == "number" and not axis.shown else str
    metavar = axis.letter if axis.kind == "number" else axis.name.upper()
    group.add_argument(
        _option(axis), dest=_dest(axis), type=kind, nargs="+", metavar=metavar, help=text + default
    )
    for word in _short_words(axis):
        group.add_argument(
            f"--{word.replace('_', '-')}",
            dest=_dest(axis),
            action="append_const",
            const=word,
            help=f"{_option(axis)} {word}",
        )


def _main_axis(family: Family) -> Axis:
    """The first that has no default: without it nothing is pressed on demand."""
    for axis in family.axes:
        if axis.default is None and not axis.same_as:
            return axis
    return family.axes[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 where --check found something, 2 for bad input."""
    try:
        family = _family_asked_for(sys.argv[1:] if argv is None else argv)
        command = parser(family or families()[0])
        options, unknown = command.parse_known_args(argv)
        family = family_of(options.family or families()[0].name)
        if unknown:
            axes = ", ".join(_option(axis) for axis in family.axes)
            command.error(f"{unknown[0]} is not an option; of {family.name} there are {axes}")
        return _run(command, family, options)
    except GeneratorError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"{PROGRAM}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _family_asked_for(argv: Sequence[str]) -> Family | None:
    """The family of --family, whose axes are options; None: the first."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    finder.add_argument("--family", nargs="?")
    name = finder.parse_known_args(argv)[0].family
    return next((family for family in families() if family.name == name), None)


def _run(command: Parser, family: Family, options: argparse.Namespace) -> int:
    given = [axis for axis in family.axes if getattr(options, _dest(axis))]
    main_axis = _main_axis(family)
    if given or options.tile:
        if main_axis.default is None and main_axis not in given:
            option = _option_given(given[0], options) if given else "--tile"
            command.error(f"{option} needs {_option(main_axis)}")
        for name in ("check", "list", "only", "set"):
            if getattr(options, name):
                command.error(f"--{name} does not go with {_option(main_axis)}")
        return _press_on_demand(family, options)
    if options.family is not None and not (options.list or options.out or options.only):
        command.error(
            f"--family needs --list, --out, --only, or an axis such as {_option(main_axis)}"
        )
    if options.set is not None and not options.list and options.out is None:
        command.error("--set needs --list or --out: generated/ holds the default set")
    if options.out is not None and (options.list or options.check):
        command.error("--out does not go with --list or --check")
    if options.list:
        for variant in _selected(options):
            print(variant.stem)
        return 0
    if options.out is not None:
        return _press_set(options)
    return _check(options) if options.check else _write(options)


# ---- Variants on demand, and sets ---------------------------------------------------------------


def _axis_values(axis: Axis, options: argparse.Namespace) -> list[tuple[str, Value]]:
    """What the options give an axis, if anything: (name, value) each."""
    given = getattr(options, _dest(axis))
    if not given:
        return []
    if axis.kind == "flag":
        return [(axis.name, True)]
    if not axis.shown:
        return [(axis.name, value) for value in given]
    numbers = [text.removeprefix(axis.shown).removeprefix("_") for text in given]
    for text, number in zip(given, numbers, strict=True):
        if not number.isdecimal():
            raise GeneratorError(
                f"{axis.label} {text} is unknown: it must be {axis.allowed(axis.domain)}"
            )
    return [(axis.name, int(number)) for number in numbers]


def _press_on_demand(family: Family, options: argparse.Namespace) -> int:
    pressed = []
    rows = [values for axis in family.axes if (values := _axis_values(axis, options))]
    for values in itertools.product(*rows):
        variant = make_variant(family, **dict(values))
        tile = parse_tile(options.tile, variant) if options.tile else tile_of(variant)
        if found := problems(variant, tile):
            raise GeneratorError(f"tile {tile.name} is not legal for {variant.stem}: {found[0]}")
        pressed.append((variant, tile))
    return _press(pressed, options.out)


def _press_set(options: argparse.Namespace) -> int:
    return _press([(variant, tile_of(variant)) for variant in _selected(options)], options.out)


def _press(pressed: list[tuple[Variant, Tile]], out: Path | None) -> int:
    """Writes the sources of (variant, tile) pairs to a folder, and prints their paths."""
    folder = PRESSED if out is None else out
    if folder.resolve() == GENERATED:
        raise GeneratorError(
            "--out cannot be generated/, which holds the default set: add the variant to "
            "variants.toml of its family, or choose another folder"
        )
    env = environment()
    texts = {f"{variant.stem}.cu": source(env, variant, tile) for variant, tile in pressed}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        _write_changed(folder / name, text)
        print(_shown(folder / name))
    return 0


def _matching(
    options: argparse.Namespace, variants: Sequence[Variant], where: str
) -> list[Variant]:
    """Those that match --only, and the family where --family names one."""
    found = [
        variant
        for variant in variants
        if (options.only is None or fnmatch.fnmatchcase(variant.stem, options.only))
        and options.family in (None, variant.family.name)
    ]
    if not found:
        raise GeneratorError(f'nothing in {where} matches "{options.only or options.family}"')
    return found


def _selected(options: argparse.Namespace) -> list[Variant]:
    """The variants of --set that match."""
    name = options.set or "default"
    return _matching(options, whole_set(name).variants, f"the {name} set")


# ---- generated/, and the headers in include/ ----------------------------------------------------


def _expected(options: argparse.Namespace) -> dict[Path, str]:
    """All files with their texts; with --only, the sources that match."""
    if options.only is None:
        return written_files()
    env = environment()
    variants = _matching(options, shown_variants(), "the default set")
    return {GENERATED / f"{variant.stem}.cu": source(env, variant) for variant in variants}


def _orphans(options: argparse.Namespace, expected: dict[Path, str]) -> list[Path]:
    """What stands in generated/, or in include/ under the name of a pressed header, and does not
    belong there; with --only, sources that match."""
    paths = sorted(GENERATED.iterdir()) if GENERATED.is_dir() else []
    if options.only is None:
        paths += sorted(INCLUDE_DIR.glob(PRESSED_HEADERS))
    else:
        stems = {variant.stem for variant in shown_variants()}
        paths = [
            path
            for path in paths
            if path.suffix == ".cu"
            and fnmatch.fnmatchcase(path.stem, options.only)
            and path.stem not in stems
        ]
    return [path for path in paths if path not in expected]


def _check(options: argparse.Namespace) -> int:
    """Names what is wrong, a line a file."""
    expected = _expected(options)
    found = []
    for path, text in expected.items():
        if not path.is_file():
            found.append(f"missing: {_shown(path)}")
        elif path.read_bytes() != text.encode():
            found.append(f"differing: {_shown(path)}")
    found += [f"orphaned: {_shown(path)}" for path in _orphans(options, expected)]
    for line in found:
        print(line)
    if found:
        print(
            f"{len(found)} of {len(expected)} files are not what the generator writes: "
            "run python -m generator",
            file=sys.stderr,
        )
        return 1
    print(f"{len(expected)} files are up to date")
    return 0


def _write(options: argparse.Namespace) -> int:
    """Brings all up to date; says what was written and removed."""
    expected = _expected(options)
    GENERATED.mkdir(parents=True, exist_ok=True)
    written = 0
    for path, text in expected.items():
        written += _write_changed(path, text)
    for path in _orphans(options, expected):
        if path.is_file() and _is_own(path):
            path.unlink()
            print(f"removed: {_shown(path)}")
        else:
            print(f"orphaned, not the generator's, left: {_shown(path)}", file=sys.stderr)
    print(f"{len(expected)} files, {written} written, {len(expected) - written} unchanged")
    return 0


def _is_own(path: Path) -> bool:
    """Whether only the generator can have written a file; others are never removed."""
    globs = [f"{family.prefix}_*.cu" for family in families()]
    globs += ["render_*.c", "family_*.c", "tiles_*.c", PRESSED_HEADERS.rpartition("/")[2]]
    return any(fnmatch.fnmatchcase(path.name, glob) for glob in globs)


def _write_changed(path: Path, text: str) -> bool:
    """Writes a file unless it holds this text already; whole or not at all."""
    data = text.encode()
    if path.is_file() and path.read_bytes() == data:
        return False
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _shown(path: Path) -> str:
    """A path as a person at the root of the repository would write it."""
    try:
        return str(path.resolve().relative_to(ROOT))
    except ValueError:
        return str(path)


def _main_quietly() -> int:
    """main(), quiet where the reader of its output goes away, as `| head` does."""
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    sys.exit(_main_quietly())
