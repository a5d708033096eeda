"""A caller's own text for scores and masks: attnpress_score_mod."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from ctypes import addressof, c_char_p, c_void_p, cast, sizeof
from pathlib import Path
from typing import Any

from . import _library as c

_MODS = Path(__file__).parent / "mods"
_SCALAR = re.compile(r"scalar\s+(int|float)\s+(\w+)\s*=\s*(\S+)")
_BUFFER = re.compile(r"buffer\s+\w+\s+(\w+)\s*\(")


class ScoreMod:
    """C text that a GPU's kernels are compiled with, on first use, and numbers and tensors that it
    may name.

        cap = attnpress.ScoreMod(score="score = cap * tanhf(score / cap);", cap=30.0)
        own = attnpress.ScoreMod(mask="k <= q && doc(b, q) == doc(b, k)", doc=doc)
        out = attnpress.flash_attn_func(q, k, v, score_mod=own)

    score: statements that may assign to `score`, the score so far in natural units. mask: an
    expression, true where query q sees key k. Both may name b, h, h_kv (batch, query head, key
    head), q, k (query, key), q_len, k_len, clampi(x, low, high), INFINITY, C's math functions, and
    what `values` has:

    score_grad: an expression, the derivative of what `score` makes of the score, by the score that
        comes to it. None: the library's own, of the text that is given, in whose copy for the
        backward pass a float is a number with its derivative.
    values: a float or an int is a number of that name, another value of which compiles nothing; a
        tensor on q's device (fp16, bf16, fp32, int32, 1 to 4 dimensions) is read as name(i, j),
        whose indices are clamped to its extents.
    name: what errors call it.

    Errors of the text come with the first call that uses it, and name its line.
    """

    __slots__ = ("mask", "name", "score", "score_grad", "values")

    def __init__(
        self,
        score: str | None = None,
        mask: str | None = None,
        *,
        score_grad: str | None = None,
        name: str = "mod",
        **values: Any,
    ) -> None:
        for what, text in (("score", score), ("mask", mask), ("score_grad", score_grad)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{what} is {type(text).__name__}; it must be C text, a str")
        if not (score or "").strip() and not (mask or "").strip():
            raise ValueError("neither score nor mask is given; one of the two texts is needed")
        if score_grad is not None and not (score or "").strip():
            raise ValueError("score_grad is given without a score that it is the derivative of")
        for key, value in values.items():
            check_value(key, value)
        self.score = score
        self.mask = mask
        self.score_grad = score_grad
        self.name = name
        self.values = values

    @classmethod
    def shipped(cls, name: str, **values: Any) -> ScoreMod:
        """One that comes with the package: alibi, softcap, window, prefix_lm, document, t5_bias.
        values: its buffers, all of them, and scalars that are to differ from its file's."""
        names = sorted(path.stem for path in _MODS.glob("*.mod"))
        if name not in names:
            raise ValueError(f"there is no snippet {name!r}; there are {', '.join(names)}")
        head, score, mask = _split((_MODS / f"{name}.mod").read_text(encoding="utf-8"))
        known = {
            match[2]: int(match[3]) if match[1] == "int" else float(match[3])
            for match in _SCALAR.finditer(head)
        }
        buffers = _BUFFER.findall(head)
        for key, value in values.items():
            if key not in known and key not in buffers:
                raise TypeError(f"{name} has no {key}; it has {', '.join([*known, *buffers])}")
            if key in known:
                values[key] = type(known[key])(value)
        for key in buffers:
            if key not in values:
                raise TypeError(f"{name} needs {key}, a tensor")
        return cls(score, mask, name=name, **{**known, **values})

    def __repr__(self) -> str:
        return f"ScoreMod({self.name!r}, {', '.join(self.values)})"

    @property
    def tensors(self) -> tuple[Any, ...]:
        return tuple(value for value in self.values.values() if not is_number(value))


def is_number(value: object) -> bool:
    """Whether a snippet's value is a scalar."""
    return isinstance(value, (int, float))


def check_value(name: str, value: object) -> None:
    """Raises TypeError or ValueError for what no snippet takes."""
    if isinstance(value, bool):
        raise TypeError(f"{name} is a bool; a snippet's numbers are ints and floats")
    if isinstance(value, int) and not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{name} is {value}; an int of a snippet has 32 bits")
    if isinstance(value, float) and math.isfinite(value) and abs(value) > 3.5e38:
        raise ValueError(f"{name} is {value}; a float of a snippet has single precision")
    if not is_number(value) and not hasattr(value, "shape"):
        raise TypeError(
            f"{name} is {type(value).__name__}; a snippet takes ints, floats and tensors"
        )


def scalar_of(name: c_void_p | None, value: float) -> c.ScoreScalar:
    """A snippet's number; name: its text, which the caller keeps."""
    if isinstance(value, int):
        return c.ScoreScalar(name=name, dtype=c.INT32, int_value=value)
    return c.ScoreScalar(name=name, dtype=c.FP32, value=value)


def _split(text: str) -> tuple[str, str | None, str | None]:
    """Declarations, score and mask of a file."""
    parts = re.split(r"^(score|mask):[^\n]*\n", text, flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2]))
    return parts[0], texts.get("score"), texts.get("mask")


def fill(
    mod: ScoreMod, view: Callable[[str, Any], Any]
) -> tuple[c.ScoreMod, list[Any], tuple[Any, ...]]:
    """The C struct, what it points to, and what a plan depends on. view: (name, tensor) -> View."""
    scalars: list[c.ScoreScalar] = []
    buffers: list[c.ScoreBuffer] = []
    kept: list[Any] = []
    kinds: list[tuple[Any, ...]] = []

    def text(value: str | None) -> c_void_p | None:
        if value is None:
            return None
        kept.append(c_char_p(value.encode()))
        return cast(kept[-1], c_void_p)

    for name, value in mod.values.items():
        if is_number(value):
            scalars.append(scalar_of(text(name), value))
            kinds.append((name, scalars[-1].dtype))
        else:
            seen = view(name, value)
            _check_rank(name, seen.shape)
            buffer = c.ScoreBuffer(
                name=text(name), data=seen.address, dtype=seen.dtype, rank=len(seen.shape)
            )
            buffer.shape[: buffer.rank] = seen.shape
            buffer.stride[: buffer.rank] = seen.stride
            buffers.append(buffer)
            kept.append(seen.value)
            kinds.append((name, seen.dtype, buffer.rank))
    group = c.ScoreMod(
        struct_size=sizeof(c.ScoreMod),
        name=text(mod.name),
        score=text(mod.score),
        mask=text(mod.mask),
        score_grad=text(mod.score_grad),
        scalar_count=len(scalars),
        buffer_count=len(buffers),
    )
    if scalars:
        kept.append((c.ScoreScalar * len(scalars))(*scalars))
        group.scalars = addressof(kept[-1])
    if buffers:
        kept.append((c.ScoreBuffer * len(buffers))(*buffers))
        group.buffers = addressof(kept[-1])
    return group, kept, (mod.name, mod.score, mod.mask, mod.score_grad, tuple(kinds))


def _check_rank(name: str, shape: Sequence[int]) -> None:
    if not 1 <= len(shape) <= 4:
        raise ValueError(
            f"{name} has {len(shape)} dimensions; a snippet's buffer has 1 to 4 (a number is an "
            "int or a float)"
        )
