"""What is computed: one attention call each, by shape.

Counting: a forward pass is 2 B Hq Sq Sk (D + DV) floating-point operations, half of that if causal;
a decode step moves K and V once, B Hkv Sk (D + DV) values.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import ROOT, BenchError

MODELS_TOML = ROOT / "bench" / "models.toml"
DTYPES = ("bf16", "fp16")
MASKS = ("full", "causal")


@dataclass(frozen=True)
class Case:
    """One call. `decode`: a step of generation, timed from a CUDA graph and counted in bytes."""

    batch: int
    heads_q: int
    heads_kv: int
    seqlen_q: int
    seqlen_k: int
    hdim: int
    hdim_v: int
    dtype: str
    causal: bool = False
    decode: bool = False
    model: str = ""  # title of the model that it comes from
    label: str = ""  # which of the model's calls

    def __post_init__(self) -> None:
        for name in ("batch", "heads_q", "heads_kv", "seqlen_q", "seqlen_k"):
            if getattr(self, name) < 1:
                raise BenchError(f"{name} {getattr(self, name)} is not positive")
        for name in ("hdim", "hdim_v"):
            value = getattr(self, name)
            if value % 8 or not 8 <= value <= 512:
                raise BenchError(f"{name} {value} is not a multiple of 8 from 8 to 512")
        if self.dtype not in DTYPES:
            raise BenchError(f"dtype {self.dtype} is unknown: bf16 and fp16 are known")
        if self.heads_q % self.heads_kv:
            raise BenchError(f"{self.heads_q} query heads are no multiple of {self.heads_kv}")
        if self.causal and self.seqlen_q > self.seqlen_k:
            raise BenchError("a causal case with seqlen_q over seqlen_k has rows without keys")

    @property
    def mask(self) -> str:
        return MASKS[self.causal]

    @property
    def flops(self) -> float:
        pairs = float(self.seqlen_q * self.seqlen_k)
        if self.causal:  # aligned at the bottom right; half where the lengths are equal
            pairs -= self.seqlen_q**2 / 2
        return 2 * self.batch * self.heads_q * pairs * (self.hdim + self.hdim_v)

    @property
    def kv_bytes(self) -> int:
        return 2 * self.batch * self.heads_kv * self.seqlen_k * (self.hdim + self.hdim_v)

    @property
    def dims(self) -> str:
        return str(self.hdim) if self.hdim == self.hdim_v else f"{self.hdim}/{self.hdim_v}"

    @property
    def heads(self) -> str:
        same = self.heads_q == self.heads_kv
        return str(self.heads_q) if same else f"{self.heads_q}/{self.heads_kv}"

    @property
    def seqlens(self) -> str:
        if self.decode or self.seqlen_q == self.seqlen_k:
            return str(self.seqlen_k)
        return f"{self.seqlen_q}x{self.seqlen_k}"

    @property
    def title(self) -> str:
        """One line for people."""
        head = f"{self.model} {self.label}: " if self.model else ""
        kind = "decode" if self.decode else self.mask
        return (
            f"{head}D {self.dims} {self.dtype} {kind} S {self.seqlens} "
            f"({self.batch} x {self.heads} heads)"
        )


# ---- Grids --------------------------------------------------------------------------------------

COMMON_DIMS = ((64, 64), (96, 96), (128, 128), (192, 192), (256, 256))
COMMON_SEQLENS = (512, 1024, 4096, 16384)
OTHER_DIMS = ((40, 40), (72, 72), (80, 80), (112, 112), (160, 160), (320, 320), (512, 512))
OTHER_SEQLENS = (4096,)
QUICK_DIMS = ((64, 64), (128, 128), (256, 256))
QUICK_SEQLENS = (1024, 4096)

TOKENS = 16384  # of a batch
WIDTH = 2048  # heads * head dim; as in FlashAttention's own benchmarks


def forward_cases(
    dims: Sequence[tuple[int, int]],
    seqlens: Sequence[int],
    masks: Sequence[str],
    dtypes: Sequence[str],
) -> Iterator[Case]:
    """The benchmark of FlashAttention's papers: as many tokens and as much width everywhere."""
    for dtype in dtypes:
        for hdim, hdim_v in dims:
            for mask in masks:
                for seqlen in seqlens:
                    heads = max(1, WIDTH // hdim)
                    batch = max(1, TOKENS // seqlen)
                    yield Case(
                        batch, heads, heads, seqlen, seqlen, hdim, hdim_v, dtype, mask == "causal"
                    )


DECODE_DIMS = ((64, 64), (128, 128), (256, 256))
# batch, query heads, key heads, keys
DECODE_ROWS = (
    (1, 32, 8, 8192),
    (1, 32, 8, 131072),
    (16, 32, 8, 8192),
    (32, 32, 32, 4096),
    (64, 32, 8, 4096),
)
# Groups that are not a power of two, and large ones; head dim 128.
DECODE_GROUP_ROWS = (
    (1, 28, 4, 16384),
    (32, 28, 4, 16384),
    (1, 64, 8, 16384),
    (32, 64, 8, 16384),
)
QUICK_DECODE_ROWS = ((1, 32, 8, 8192), (16, 32, 8, 8192))


def decode_cases(
    dims: Sequence[tuple[int, int]], dtypes: Sequence[str], quick: bool = False
) -> Iterator[Case]:
    """One query token a sequence against a cache of keys and values."""
    for dtype in dtypes:
        for hdim, hdim_v in dims:
            rows = QUICK_DECODE_ROWS if quick else DECODE_ROWS
            if (hdim, hdim_v) == (128, 128) and not quick:
                rows += DECODE_GROUP_ROWS
            for batch, heads_q, heads_kv, keys in rows:
                yield Case(batch, heads_q, heads_kv, 1, keys, hdim, hdim_v, dtype, decode=True)


# ---- Random shapes -------------------------------------------------------------------------------

RATIOS = (1, 2, 4, 5, 7, 8, 16, 71)  # query heads of a key head
RANDOM_BYTES = 16 << 30  # of Q and the output, or of K and V, at most


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))


def _random_heads(rng: random.Random) -> tuple[int, int]:
    """4 to 64 query heads, or the 71 of one ratio, and their key heads."""
    ratio = rng.choice(RATIOS)
    heads_kv = max(1, _log_uniform(rng, 4, 64) // ratio)
    return heads_kv * ratio, heads_kv


def _random_forward(
    rng: random.Random, dims: Sequence[tuple[int, int]], masks: Sequence[str], dtype: str
) -> Case:
    """4K to 64K tokens in sequences of 64 to 32,768, whatever the remainder; one in three with
    more keys than queries."""
    hdim, hdim_v = rng.choice(dims)
    seqlen_q = seqlen_k = _log_uniform(rng, 64, 32768)
    if rng.random() < 1 / 3:
        other = _log_uniform(rng, 64, 32768)
        seqlen_q, seqlen_k = min(seqlen_q, other), max(seqlen_q, other)
    batch = min(max(1, _log_uniform(rng, 4096, 65536) // seqlen_k), 32)
    heads_q, heads_kv = _random_heads(rng)
    causal = rng.choice(masks) == "causal"
    return Case(batch, heads_q, heads_kv, seqlen_q, seqlen_k, hdim, hdim_v, dtype, causal)


def _random_decode(rng: random.Random, dims: Sequence[tuple[int, int]], dtype: str) -> Case:
    hdim, hdim_v = rng.choice(dims)
    batch, keys = _log_uniform(rng, 1, 256), _log_uniform(rng, 512, 131072)
    heads_q, heads_kv = _random_heads(rng)
    return Case(batch, heads_q, heads_kv, 1, keys, hdim, hdim_v, dtype, decode=True)


def random_cases(
    count: int,
    seed: int,
    dims: Sequence[tuple[int, int]],
    masks: Sequence[str],
    dtypes: Sequence[str],
    decode: bool,
) -> Iterator[Case]:
    """`count` shapes that nobody chose; the same ones for a seed, and more of them for a larger
    count."""
    for dtype in dtypes:
        rng = random.Random(f"{seed} {'decode' if decode else 'forward'}")
        left = count
        while left:
            case = (
                _random_decode(rng, dims, dtype)
                if decode
                else _random_forward(rng, dims, masks, dtype)
            )
            q_bytes = 2 * case.batch * case.heads_q * case.seqlen_q * (case.hdim + case.hdim_v)
            if max(q_bytes, case.kv_bytes) <= RANDOM_BYTES:
                left -= 1
                yield case


# ---- models.toml --------------------------------------------------------------------------------

_MODEL_KEYS = {"name", "title", "sources", "heads", "kv_heads", "hdim", "causal"}
_MODEL_OPTIONAL = {"hdim_v", "prefill", "decode", "note"}
_ROW_KEYS = {"seqlen"}
_ROW_OPTIONAL = {
    "batch", "seqlen_k", "heads", "kv_heads", "hdim", "hdim_v", "causal", "label",
}  # fmt: skip


@dataclass(frozen=True)
class Model:
    """One [[model]] of models.toml; `rows` are what its cases are made of."""

    name: str
    title: str
    sources: tuple[str, ...]
    note: str
    rows: tuple[dict, ...]

    def cases(self, dtype: str) -> list[Case]:
        return [Case(**row, dtype=dtype, model=self.title) for row in self.rows]


def _check_keys(label: str, row: dict, required: set[str], optional: set[str]) -> None:
    if missing := required - set(row):
        raise BenchError(f"{label}: {min(missing)} is missing")
    if unknown := set(row) - required - optional:
        raise BenchError(f"{label}: {min(unknown)} is unknown")


def _case_fields(model: dict, row: dict, decode: bool) -> dict:
    """The fields of a Case, from a prefill or decode row and its model's own keys."""
    _check_keys(f"models.toml: {model['name']}", row, _ROW_KEYS, _ROW_OPTIONAL)
    merged = {**model, **row}
    seqlen = merged["seqlen"]
    hdim = merged["hdim"]
    # A row that changes the head dim changes that of V with it.
    hdim_v = row.get("hdim_v", row.get("hdim", model.get("hdim_v", hdim)))
    return {
        "batch": merged.get("batch", 1),
        "heads_q": merged["heads"],
        "heads_kv": merged["kv_heads"],
        "seqlen_q": 1 if decode else seqlen,
        "seqlen_k": merged.get("seqlen_k", seqlen),
        "hdim": hdim,
        "hdim_v": hdim_v,
        "causal": merged["causal"] and not decode,
        "decode": decode,
        "label": merged.get("label", "decode" if decode else "prefill"),
    }


def load_models(path: Path = MODELS_TOML) -> dict[str, Model]:
    """The models by name; BenchError where the file is not right."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BenchError(f"{path} cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise BenchError(f"{path} is not valid TOML: {error}") from None
    models: dict[str, Model] = {}
    for number, row in enumerate(content.get("model", ()), start=1):
        label = f"{path.name}: [[model]] number {number}"
        _check_keys(label, row, _MODEL_KEYS, _MODEL_OPTIONAL)
        name = row["name"]
        if name in models:
            raise BenchError(f"{label}: {name} is there twice")
        model = Model(
            name=name,
            title=row["title"],
            sources=tuple(row["sources"]),
            note=row.get("note", ""),
            rows=tuple(
                _case_fields(row, fields, decode)
                for decode, part in ((False, "prefill"), (True, "decode"))
                for fields in row.get(part, ())
            ),
        )
        if not model.rows:
            raise BenchError(f"{label}: {name} has neither prefill nor decode")
        if not model.sources:
            raise BenchError(f"{label}: {name} has no source")
        model.cases(DTYPES[0])  # legal, or an error here
        models[name] = model
    return models


def model_cases(
    names: Sequence[str], dtypes: Sequence[str], models: dict[str, Model]
) -> list[Case]:
    """The cases of models by name; "all" is every one."""
    if "all" in names:
        names = tuple(models)
    for name in names:
        if name not in models:
            raise BenchError(f'model "{name}" is unknown: {", ".join(models)}, or all')
    return [case for dtype in dtypes for name in names for case in models[name].cases(dtype)]
