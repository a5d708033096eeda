"""A variant: everything that a stem says. runtime/press/variant.c is this file's twin in C.

The grammar of stems:

    flash_<pass>[_split]_hdim<D>[v<DV>]_<dtype>[_causal][_decode]_sm<arch>
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from generator import GeneratorError

PASSES = ("fwd", "fwd_combine")
DTYPES = ("fp16", "bf16")
MASKS = ("full", "causal")
ARCHS = (80, 86, 90)
HDIMS = tuple(range(8, 513, 8))
HDIM_MAX = {80: 512, 86: 512, 90: 256}
"""By arch, of both head dims."""
DECODE_ARCHS = (80, 86)
"""Where short queries have kernels of their own; 9.0 runs those of sm80."""
PAIRS = ((64, 128), (96, 64), (128, 64), (192, 128), (256, 128))
"""(head dim, value head dim) where the two differ."""
COMBINE_ARCH = 80
"""The combine kernel is the same on every architecture; its stems say sm80."""


class VariantError(GeneratorError):
    """A variant that does not exist, or a stem that does not parse."""


def _one_of(values: tuple) -> str:
    return ", ".join(str(value) for value in values[:-1]) + f" or {values[-1]}"


def _arch_names(archs: tuple[int, ...]) -> str:
    return _one_of(tuple(f"sm{arch}" for arch in archs))


ARCH_NAMES = _arch_names(ARCHS)


@dataclass(frozen=True, order=True)
class Variant:
    """One kernel, before its tile and target are chosen. Only legal ones can be made.

    For the combine pass `hdim` and `hdim_v` are both the value head dim, and `arch` is 80.
    """

    pass_: str
    hdim: int
    hdim_v: int
    dtype: str
    mask: str = "full"
    split: bool = False
    decode: bool = False
    arch: int = 80

    def __post_init__(self) -> None:
        if self.pass_ not in PASSES:
            raise VariantError(f"pass {self.pass_} is unknown: it must be {_one_of(PASSES)}")
        for name, value in (("head dim", self.hdim), ("value head dim", self.hdim_v)):
            if value not in HDIMS:
                raise VariantError(
                    f"{name} {value} is not supported: it must be a multiple of 8 from "
                    f"{HDIMS[0]} to {HDIMS[-1]}"
                )
        if self.dtype not in DTYPES:
            raise VariantError(f"dtype {self.dtype} is unknown: it must be {_one_of(DTYPES)}")
        if self.mask not in MASKS:
            raise VariantError(f"mask {self.mask} is unknown: it must be {_one_of(MASKS)}")
        if self.arch not in ARCHS:
            raise VariantError(f"arch sm{self.arch} is unknown: it must be {ARCH_NAMES}")
        if self.pass_ == "fwd_combine":
            self._check_combine()
            return
        self._check_arch()
        if self.hdim != self.hdim_v and (self.hdim, self.hdim_v) not in PAIRS:
            pairs = ", ".join(f"{hdim}/{hdim_v}" for hdim, hdim_v in PAIRS)
            raise VariantError(
                f"value head dim {self.hdim_v} is not supported with head dim {self.hdim}: it "
                f"must be equal, or the two one of {pairs}"
            )

    def _check_arch(self) -> None:
        largest = HDIM_MAX[self.arch]
        for name, value in (("head dim", self.hdim), ("value head dim", self.hdim_v)):
            if value > largest:
                raise VariantError(
                    f"{name} {value} is not supported on sm{self.arch}: it must be a multiple of "
                    f"8 from {HDIMS[0]} to {largest}"
                )
        if self.decode and self.arch not in DECODE_ARCHS:
            raise VariantError(
                f"decode is not supported on sm{self.arch}: it must be on "
                f"{_arch_names(DECODE_ARCHS)}"
            )

    def _check_combine(self) -> None:
        for name, wrong in (
            ("a mask", self.mask != "full"),
            ("split", self.split),
            ("decode", self.decode),
            ("a value head dim of its own", self.hdim != self.hdim_v),
            (f"arch sm{self.arch}, only sm{COMBINE_ARCH}", self.arch != COMBINE_ARCH),
        ):
            if wrong:
                raise VariantError(f"the fwd_combine pass does not take {name}")

    @property
    def stem(self) -> str:
        """Names the source file, the extern "C" symbol, the renderer's input, the log line."""
        return "".join(
            (
                f"flash_{self.pass_}",
                "_split" if self.split else "",
                f"_hdim{self.hdim}",
                f"v{self.hdim_v}" if self.hdim_v != self.hdim else "",
                f"_{self.dtype}",
                "_causal" if self.mask == "causal" else "",
                "_decode" if self.decode else "",
                f"_sm{self.arch}",
            )
        )


_NUMBER = "[1-9][0-9]{0,5}|0"
_STEM = re.compile(
    r"flash_(?P<pass_>fwd_combine|fwd)(?P<split>_split)?"
    rf"_hdim(?P<hdim>{_NUMBER})(?:v(?P<hdim_v>{_NUMBER}))?"
    r"_(?P<dtype>[a-z]+[0-9]+)(?P<mask>_causal)?(?P<decode>_decode)?"
    rf"_sm(?P<arch>{_NUMBER})",
    re.ASCII,
)
GRAMMAR = (
    "flash_<fwd|fwd_combine>[_split]_hdim<D>[v<DV>]_<fp16|bf16>[_causal][_decode]_sm<80|86|90>"
)


def parse_stem(stem: str) -> Variant:
    """The inverse of Variant.stem; VariantError where it does not parse or is not legal."""
    match = _STEM.fullmatch(stem)
    if match is None:
        raise VariantError(f'"{stem}" is not the name of a kernel: names are {GRAMMAR}')
    hdim = int(match["hdim"])
    if match["hdim_v"] is not None and int(match["hdim_v"]) == hdim:
        raise VariantError(
            f'"{stem}" names its value head dim twice: v{hdim} is only written where it differs'
        )
    return Variant(
        pass_=match["pass_"],
        hdim=hdim,
        hdim_v=int(match["hdim_v"] or hdim),
        dtype=match["dtype"],
        mask="causal" if match["mask"] else "full",
        split=match["split"] is not None,
        decode=match["decode"] is not None,
        arch=int(match["arch"]),
    )


def dims(pass_: str) -> list[tuple[int, int]]:
    """Every (head dim, value head dim) of a pass, sorted."""
    pairs = PAIRS if pass_ == "fwd" else ()
    return sorted([(hdim, hdim) for hdim in HDIMS] + list(pairs))


def archs(hdim: int, hdim_v: int, decode: bool) -> list[int]:
    """The archs that have forward kernels of these head dims, sorted."""
    return [
        arch
        for arch in ARCHS
        if max(hdim, hdim_v) <= HDIM_MAX[arch] and (not decode or arch in DECODE_ARCHS)
    ]


def every_variant() -> Iterator[Variant]:
    """All variants that exist, in a fixed order."""
    flags = (False, True)
    for (hdim, hdim_v), dtype, mask, split, decode in itertools.product(
        dims("fwd"), DTYPES, MASKS, flags, flags
    ):
        for arch in archs(hdim, hdim_v, decode):
            yield Variant("fwd", hdim, hdim_v, dtype, mask, split, decode, arch)
    for (hdim, hdim_v), dtype in itertools.product(dims("fwd_combine"), DTYPES):
        yield Variant("fwd_combine", hdim, hdim_v, dtype, arch=COMBINE_ARCH)


# ---- Rows of variants.toml and tiles.toml -------------------------------------------------------

AXES: dict[str, tuple] = {
    "pass": PASSES,
    "hdim": HDIMS,
    "hdim_v": HDIMS,
    "dtype": DTYPES,
    "mask": MASKS,
    "split": (False, True),
    "decode": (False, True),
    "arch": ARCHS,
}
"""The keys of a variant in the data files, and what each may be."""


def axis_values(label: str, row: dict, axis: str) -> tuple:
    """The values that a row gives an axis, one or a list; GeneratorError where one is not legal."""
    values = row[axis] if isinstance(row[axis], list) else [row[axis]]
    for value in values:
        # 1 is not True, and 64.0 is not 64.
        if type(value) is not type(AXES[axis][0]) or value not in AXES[axis]:
            raise GeneratorError(f"{label}: {axis} {value} is not allowed")
    return tuple(values)


def axes_match(axes: Iterable[tuple[str, tuple]], variant: Variant) -> bool:
    """Whether the variant's field is among the values of each of these axes."""
    return all(
        (variant.pass_ if axis == "pass" else getattr(variant, axis)) in values
        for axis, values in axes
    )


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
