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
from generator.tiles import Tile, parse_tile, problems, tile_of
from generator.variant import ARCH_NAMES, Variant

try:
    from generator.registry import INCLUDE, PRESSED_HEADERS, load_catalog, source, written_files
    from generator.render import environment
except ModuleNotFoundError as missing:
    if missing.name != "jinja2":
        raise
    print("python -m generator: Jinja2 is not installed: pip install jinja2", file=sys.stderr)
    sys.exit(2)

PRESSED = ROOT / "build" / "pressed"
OWNED = ("flash_*.cu", "render_*.c", PRESSED_HEADERS.rpartition("/")[2])
"""Files that only the generator can have written; others are never removed."""

DESCRIPTION = """\
Expands the kernel templates. Without options: writes generated/, which holds the sources of the
default set and the runtime's tables, and the device headers of wgmma, and removes what no longer
belongs there. With --hdim: presses variants on demand."""


class Parser(argparse.ArgumentParser):
    """Bad arguments end with status 2 and one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> Parser:
    result = Parser(prog="python -m generator", description=DESCRIPTION, allow_abbrev=False)
    mode = result.add_mutually_exclusive_group()
    mode.add_argument(
        "--check",
        action="store_true",
        help="write nothing; name each missing, differing or orphaned file, status 1 where one is",
    )
    mode.add_argument("--list", action="store_true", help="print the stems of a set")
    result.add_argument("--only", metavar="GLOB", help="only stems that match, such as '*hdim96*'")
    result.add_argument("--set", help="the set of variants.toml to list or to press (default)")
    result.add_argument("--out", metavar="DIR", type=Path, help="where to press to (build/pressed)")

    demand = result.add_argument_group("variants on demand; lists give every combination")
    demand.add_argument("--pass", dest="pass_", choices=("fwd", "fwd_combine"))
    demand.add_argument("--hdim", metavar="D", type=int, nargs="+", help="head dim, 8 to 512")
    demand.add_argument("--hdim-v", metavar="DV", type=int, help="value head dim, if it differs")
    demand.add_argument("--dtype", nargs="+", help="fp16, bf16 (bf16)")
    demand.add_argument("--causal", action="store_true")
    demand.add_argument("--split", action="store_true", help="write one split's partial output")
    demand.add_argument("--decode", action="store_true", help="small row block for short queries")
    demand.add_argument("--arch", nargs="+", help="sm80, sm86, sm90 (sm80)")
    demand.add_argument("--tile", metavar="NAME", help="such as m128n64w4x1s2k128v64, not its own")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0, 1 where --check found something, 2 for bad input."""
    command = parser()
    options = command.parse_args(argv)
    try:
        return _run(command, options)
    except GeneratorError as error:
        print(f"{command.prog}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"{command.prog}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


def _run(command: Parser, options: argparse.Namespace) -> int:
    demand = ("pass_", "hdim_v", "dtype", "causal", "split", "decode", "arch", "tile")
    if options.hdim is None:
        for name in demand:
            if getattr(options, name):
                command.error(f"--{name.rstrip('_').replace('_', '-')} needs --hdim")
    else:
        for name in ("check", "list", "only", "set"):
            if getattr(options, name):
                command.error(f"--{name} does not go with --hdim")
        return _press_on_demand(options)
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


def _press_on_demand(options: argparse.Namespace) -> int:
    pressed = []
    for hdim, dtype, arch in itertools.product(
        options.hdim, options.dtype or ["bf16"], options.arch or ["sm80"]
    ):
        number = arch.removeprefix("sm").removeprefix("_")
        if not number.isdecimal():
            raise GeneratorError(f"arch {arch} is unknown: it must be {ARCH_NAMES}")
        variant = Variant(
            pass_=options.pass_ or "fwd",
            hdim=hdim,
            hdim_v=hdim if options.hdim_v is None else options.hdim_v,
            dtype=dtype,
            mask="causal" if options.causal else "full",
            split=options.split,
            decode=options.decode,
            arch=int(number),
        )
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
            "generator/variants.toml, or choose another folder"
        )
    env = environment()
    texts = {f"{variant.stem}.cu": source(env, variant, tile) for variant, tile in pressed}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        _write_changed(folder / name, text)
        print(_shown(folder / name))
    return 0


def _selected(options: argparse.Namespace) -> list[Variant]:
    """The variants of --set that match --only."""
    sets = load_catalog().sets
    name = options.set or "default"
    if name not in sets:
        raise GeneratorError(f"set {name} is unknown: it must be one of {', '.join(sorted(sets))}")
    variants = [
        variant
        for variant in sets[name].variants
        if options.only is None or fnmatch.fnmatchcase(variant.stem, options.only)
    ]
    if not variants:
        raise GeneratorError(f'nothing in the {name} set matches "{options.only}"')
    return variants


# ---- generated/, and the headers in include/ ----------------------------------------------------


def _expected(options: argparse.Namespace) -> dict[Path, str]:
    """All files with their texts; with --only, the sources that match."""
    if options.only is None:
        return written_files()
    env = environment()
    return {GENERATED / f"{v.stem}.cu": source(env, v) for v in _selected(options)}


def _orphans(options: argparse.Namespace, expected: dict[Path, str]) -> list[Path]:
    """What stands in generated/, or in include/ under the name of a pressed header, and does not
    belong there; with --only, sources that match."""
    paths = sorted(GENERATED.iterdir()) if GENERATED.is_dir() else []
    if options.only is None:
        paths += sorted(INCLUDE.glob(PRESSED_HEADERS))
    else:
        stems = {variant.stem for variant in load_catalog().sets["default"].variants}
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
        if path.is_file() and any(fnmatch.fnmatchcase(path.name, glob) for glob in OWNED):
            path.unlink()
            print(f"removed: {_shown(path)}")
        else:
            print(f"orphaned, not the generator's, left: {_shown(path)}", file=sys.stderr)
    print(f"{len(expected)} files, {written} written, {len(expected) - written} unchanged")
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
