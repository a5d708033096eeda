"""flash-attn's functions of packed tensors, ragged batches and caches: each sequence is what
flash_attn_func gives of it alone, bit for bit, and everything outside of the sequences is NaN."""

from __future__ import annotations

import inspect
import itertools
import re

import numpy as np
import pytest

import attnpress

try:
    import torch
except ImportError:
    torch = None

LENGTHS_Q = [5, 0, 77, 1, 30]
LENGTHS_K = [40, 7, 100, 0, 30]
DIM = 40


def sums(lengths: list[int], first: int = 0) -> np.ndarray:
    return np.cumsum([first, *lengths]).astype(np.int32)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ragged(lengths: list[int], heads: int, first: int, seed: int) -> np.ndarray:
    """Sequences one after the other, with NaN before and behind them."""
    x = normal(sum(lengths) + first + 2, heads, DIM, seed=seed)
    x[:first] = x[first + sum(lengths) :] = np.nan
    return x


def paged(
    keys: list[np.ndarray], page_size: int, pad: int = 0
) -> tuple[np.ndarray, np.ndarray, int]:
    """A cache of pages in any order, NaN where there is no key, and its table."""
    counts = [-(-(len(one) + pad) // page_size) for one in keys]
    order = np.random.default_rng(page_size).permutation(sum(counts) + 2)
    cache = np.full((len(order), page_size, *keys[0].shape[1:]), np.nan, dtype=np.float32)
    table = np.full((len(keys), max(counts) + 1), -1, dtype=np.int32)
    used = iter(order)
    for b, one in enumerate(keys):
        for page in range(counts[b]):
            table[b, page] = next(used)
        for row, value in enumerate(one, start=pad):
            cache[table[b, row // page_size], row % page_size] = value
    return cache, table, max(counts)


FEATURES = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window_size": (9, 3)},
    "causal window": {"causal": True, "window_size": (9, -1)},
    "softcap": {"softcap": 2.0},
    "scale": {"softmax_scale": 0.3, "causal": True},
}


def alone(q, k, v, **features) -> tuple[np.ndarray, np.ndarray]:
    out, lse, _ = attnpress.flash_attn_func(
        q[None], k[None], v[None], return_attn_probs=True, **features
    )
    return out[0], lse[0]


def sequences(x: np.ndarray, lengths: list[int], first: int = 0) -> list[np.ndarray]:
    ends = sums(lengths, first)
    return [x[begin:end] for begin, end in itertools.pairwise(ends)]


def check(out, lse, q, k, v, lengths_q, first, **features) -> None:
    """out and lse of packed queries against each sequence alone; k, v: a list of each."""
    for b, one in enumerate(sequences(q, lengths_q, first)):
        place = slice(*sums(lengths_q, first)[b : b + 2])
        want, want_lse = alone(one, k[b], v[b], **features)
        np.testing.assert_array_equal(out[place], want)
        np.testing.assert_array_equal(lse[:, place], want_lse)


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES)
def test_varlen(features) -> None:
    q = ragged(LENGTHS_Q, 6, 2, seed=1)
    k, v = ragged(LENGTHS_K, 2, 1, seed=2), ragged(LENGTHS_K, 2, 1, seed=3)
    out = np.full_like(q, np.nan)
    got, lse, probabilities = attnpress.flash_attn_varlen_func(
        q, k, v, sums(LENGTHS_Q, 2), sums(LENGTHS_K, 1), 90, 100, return_attn_probs=True, out=out,
        **features,
    )  # fmt: skip
    assert got is out and probabilities.size == 0 and lse.shape == (6, len(q))
    check(
        out, lse, q, sequences(k, LENGTHS_K, 1), sequences(v, LENGTHS_K, 1), LENGTHS_Q, 2,
        **features,
    )  # fmt: skip
    assert np.isnan(out[:2]).all() and np.isnan(out[-2:]).all()


@pytest.mark.parametrize("page_size", [1, 3, 16, 64])
def test_varlen_of_pages(page_size: int) -> None:
    q = ragged(LENGTHS_Q, 4, 0, seed=1)
    keys = sequences(ragged(LENGTHS_K, 2, 0, seed=2), LENGTHS_K)
    values = sequences(ragged(LENGTHS_K, 2, 0, seed=3), LENGTHS_K)
    k, table, _ = paged(keys, page_size)
    v, _, _ = paged(values, page_size)
    results = [
        attnpress.flash_attn_varlen_func(
            q, k, v, sums(LENGTHS_Q), cu_k, 77, 0, causal=True, return_attn_probs=True,
            block_table=table, seqused_k=used,
        )
        for cu_k, used in ((sums(LENGTHS_K), None), (None, np.array(LENGTHS_K, dtype=np.int32)))
    ]  # fmt: skip
    for out, lse, _ in results:
        check(out, lse, q, keys, values, LENGTHS_Q, 0, causal=True)


def test_slopes_sinks_and_dropout_count_by_sequence() -> None:
    q = ragged(LENGTHS_Q, 4, 0, seed=1)
    k, v = ragged(LENGTHS_K, 2, 0, seed=2), ragged(LENGTHS_K, 2, 0, seed=3)
    slopes = np.abs(normal(len(LENGTHS_Q), 4, seed=4))
    sinks = normal(4, seed=5)
    arguments = (q, k, v, sums(LENGTHS_Q), sums(LENGTHS_K), 77, 100)
    out, lse, _ = attnpress.flash_attn_varlen_func(
        *arguments, alibi_slopes=slopes, s_aux=sinks, return_attn_probs=True
    )
    for b in range(len(LENGTHS_Q)):
        place, keys = slice(*sums(LENGTHS_Q)[b : b + 2]), slice(*sums(LENGTHS_K)[b : b + 2])
        want, want_lse = alone(q[place], k[keys], v[keys], alibi_slopes=slopes[b], s_aux=sinks)
        np.testing.assert_array_equal(out[place], want)
        np.testing.assert_array_equal(lse[:, place], want_lse)
    first = slice(*sums(LENGTHS_Q)[:2]), slice(*sums(LENGTHS_K)[:2])
    dropped = attnpress.flash_attn_varlen_func(*arguments, 0.4, seed=7)
    want = attnpress.flash_attn_func(
        q[None, first[0]], k[None, first[1]], v[None, first[1]], 0.4, seed=7
    )
    np.testing.assert_array_equal(dropped[first[0]], want[0])
    assert (dropped != out).any()


@pytest.mark.parametrize(
    ("heads", "of_batch", "more"), [(4, True, 0), (1, True, 9), (4, False, 0), (1, False, 3)]
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_bias_counts_by_sequence(heads: int, of_batch: bool, more: int, dtype: type) -> None:
    """Of sequences and heads or broadcast, as large as the bounds or larger; -inf masks."""
    q = ragged(LENGTHS_Q, 4, 0, seed=1)
    k, v = ragged(LENGTHS_K, 2, 0, seed=2), ragged(LENGTHS_K, 2, 0, seed=3)
    shape = (len(LENGTHS_Q) if of_batch else 1, heads, 77 + more, 100 + more)
    bias = normal(*shape, seed=4).astype(dtype)
    bias[np.abs(bias) < 0.1] = -np.inf
    out, lse, _ = attnpress.flash_attn_varlen_func(
        q, k, v, sums(LENGTHS_Q), sums(LENGTHS_K), 77, 100, causal=True, bias=bias,
        return_attn_probs=True,
    )  # fmt: skip
    for b, (queries, keys) in enumerate(zip(LENGTHS_Q, LENGTHS_K)):
        place, rows = slice(*sums(LENGTHS_Q)[b : b + 2]), slice(*sums(LENGTHS_K)[b : b + 2])
        part = bias[b if of_batch else 0, :, :queries, :keys]
        want, want_lse = alone(q[place], k[rows], v[rows], causal=True, bias=part[None])
        np.testing.assert_array_equal(out[place], want)
        np.testing.assert_array_equal(lse[:, place], want_lse)


def test_bias_of_a_cache() -> None:
    """By pages and by batches, one bias of all queries, and new keys that have a part in it."""
    keys = [normal(n, 2, DIM, seed=n) for n in (19, 7)]
    cache, table, _ = paged(keys, 4)
    used = np.array([19, 7], np.int32)
    q = normal(2, 3, 4, DIM, seed=5)
    bias = normal(4, 1, 4 * table.shape[1], seed=6)
    got = attnpress.flash_attn_with_kvcache(
        q, cache, cache, cache_seqlens=used, block_table=table, bias=bias
    )
    for b, one in enumerate(keys):
        want, _ = alone(q[b], one, one, bias=bias[None, :, :, : len(one)])
        np.testing.assert_array_equal(got[b], want)
    batches = np.zeros((2, 24, 2, DIM), np.float32)
    for b, one in enumerate(keys):
        batches[b, : len(one) - 2] = one[:-2]
    new = np.stack([one[-2:] for one in keys])
    appended = attnpress.flash_attn_with_kvcache(
        q, batches, batches, new, new, cache_seqlens=used - 2, bias=bias[..., :24]
    )
    np.testing.assert_array_equal(appended, got)


def test_more_keys_than_the_bias_has() -> None:
    """A sequence that passes max_seqlen_k has no keys then."""
    bias = normal(1, 4, 10, 9)
    out = varlen(max_seqlen_k=9, bias=bias, cu_seqlens_k=np.array([0, 10, 19], np.int32))
    assert (out[:10] == 0).all() and (out[10:] != 0).any()


def test_a_snippet_of_sequences_is_a_gpus() -> None:
    mod = attnpress.ScoreMod(mask="k <= q")
    lse = np.zeros((4, 20), np.float32)
    with pytest.raises(attnpress.NotSupportedError, match="the CPU backend cannot run it"):
        attnpress.flash_attn_varlen_backward(Q, Q, Q, Q, Q, lse, CU, CU, 10, 10, score_mod=mod)
    with pytest.raises(attnpress.NotSupportedError, match="the CPU backend cannot run it"):
        varlen(score_mod=mod)
    with pytest.raises(attnpress.NotSupportedError, match="the CPU backend cannot run it"):
        kvcache(score_mod=mod)


def test_packed() -> None:
    qkv = normal(2, 30, 3, 4, DIM)
    q, k, v = (qkv[:, :, i] for i in range(3))
    want = attnpress.flash_attn_func(q, k, v, causal=True)
    np.testing.assert_array_equal(attnpress.flash_attn_qkvpacked_func(qkv, causal=True), want)
    kv = qkv[:, :, 1:]
    np.testing.assert_array_equal(attnpress.flash_attn_kvpacked_func(q, kv, causal=True), want)
    flat, cu = qkv.reshape(60, 3, 4, DIM), sums([30, 30])
    got = attnpress.flash_attn_varlen_qkvpacked_func(flat, cu, 30, causal=True)
    np.testing.assert_array_equal(got.reshape(want.shape), want)
    got = attnpress.flash_attn_varlen_kvpacked_func(
        flat[:, 0], flat[:, 1:], cu, cu, 30, 30, causal=True
    )
    np.testing.assert_array_equal(got.reshape(want.shape), want)


def test_packed_options() -> None:
    """By keyword they take what the function of the parts does, and out and seqused_k."""
    qkv, sink = normal(2, 30, 3, 4, DIM, seed=1), normal(4, seed=2)
    q, k, v = (qkv[:, :, i] for i in range(3))
    used = np.array([30, 11], dtype=np.int32)
    want = np.stack([
        attnpress.flash_attn_func(q[b : b + 1], k[b : b + 1, :n], v[b : b + 1, :n], s_aux=sink)[0]
        for b, n in enumerate(used)
    ])  # fmt: skip
    calls = {
        "flash_attn_qkvpacked_func": (qkv,),
        "flash_attn_kvpacked_func": (q, qkv[:, :, 1:]),
        "flash_attn_varlen_qkvpacked_func": (qkv.reshape(60, 3, 4, DIM), sums([30, 30]), 30),
        "flash_attn_varlen_kvpacked_func": (
            q.reshape(60, 4, DIM), qkv.reshape(60, 3, 4, DIM)[:, 1:], sums([30, 30]),
            sums([30, 30]), 30, 30,
        ),
    }  # fmt: skip
    for name, arguments in calls.items():
        function = getattr(attnpress, name)
        rows = (60,) if "varlen" in name else (2, 30)
        room = np.full((*rows, 4, DIM), np.nan, dtype=np.float32)
        got, lse, _ = function(
            *arguments, return_attn_probs=True, s_aux=sink, seqused_k=used, out=room
        )
        assert got is room
        np.testing.assert_array_equal(got.reshape(want.shape), want, err_msg=name)
        assert lse.shape == (*rows[:-1], 4, rows[-1])
        whole = function(*arguments, s_aux=sink)
        dense = attnpress.flash_attn_func(q, k, v, s_aux=sink)
        np.testing.assert_array_equal(whole.reshape(want.shape), dense, err_msg=name)
        says = f"out has shape {(3, *rows[1:], 4, DIM)}; it must be {(*rows, 4, DIM)}"
        with pytest.raises(ValueError, match=re.escape(says)):
            function(*arguments, out=room[:1].repeat(3, axis=0))


def test_packed_takes_what_its_parts_do() -> None:
    def keywords(name: str) -> set[str]:
        parameters = inspect.signature(getattr(attnpress, name)).parameters.values()
        return {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}

    more = keywords("flash_attn_func") | {"seqused_k", "out"}
    ragged_more = keywords("flash_attn_varlen_func") - {"block_table_v", "page_indptr"}
    for kind in ("qkvpacked", "kvpacked"):
        assert keywords(f"flash_attn_{kind}_func") == more
        assert keywords(f"flash_attn_varlen_{kind}_func") == ragged_more


@pytest.mark.parametrize("place", ["dense", "picked", "pages of 1", "pages of 16"])
@pytest.mark.parametrize("seqlen_q", [1, 7])
def test_with_kvcache(place: str, seqlen_q: int) -> None:
    lengths, pad = [40, 7, 100, 0], 3 if place == "picked" else 0
    q = normal(4, seqlen_q, 6, DIM, seed=1)
    keys = sequences(ragged(lengths, 2, 0, seed=2), lengths)
    values = sequences(ragged(lengths, 2, 0, seed=3), lengths)
    options = {"cache_seqlens": np.array(lengths, dtype=np.int32) + np.int32(pad)}
    if place.startswith("pages"):
        page_size = int(place.rsplit(maxsplit=1)[-1])
        k, options["block_table"], _ = paged(keys, page_size)
        v = paged(values, page_size)[0]
    else:
        k, v = (np.full((6, 110, 2, DIM), np.nan, dtype=np.float32) for _ in range(2))
        index = [4, 1, 0, 5] if place == "picked" else range(4)
        for b, at in enumerate(index):
            k[at, pad : pad + lengths[b]] = keys[b]
            v[at, pad : pad + lengths[b]] = values[b]
        if place == "picked":
            options["cache_batch_idx"] = np.array(index, dtype=np.int32)
            options["cache_leftpad"] = np.full(4, pad, dtype=np.int32)
        else:
            k, v = k[:4], v[:4]
    out, lse = attnpress.flash_attn_with_kvcache(
        q, k, v, causal=True, return_softmax_lse=True, **options
    )
    for b in range(4):
        want, want_lse = alone(q[b], keys[b], values[b], causal=True)
        np.testing.assert_array_equal(out[b], want)
        np.testing.assert_array_equal(lse[b], want_lse)


def test_with_kvcache_of_one_length() -> None:
    q, k, v = (normal(2, n, 4, DIM, seed=n) for n in (3, 50, 50))
    whole = attnpress.flash_attn_with_kvcache(q, k, v)
    np.testing.assert_array_equal(whole, attnpress.flash_attn_func(q, k, v))
    part = attnpress.flash_attn_with_kvcache(q, k, v, cache_seqlens=20)
    np.testing.assert_array_equal(part, attnpress.flash_attn_func(q, k[:, :20], v[:, :20]))


# flash-attn 2.8's: names, order and defaults.
SIGNATURES = {
    "flash_attn_qkvpacked_func": "qkv, dropout_p=0.0, softmax_scale=None, causal=False, "
    "window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False, "
    "return_attn_probs=False",
    "flash_attn_kvpacked_func": "q, kv, dropout_p=0.0, softmax_scale=None, causal=False, "
    "window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False, "
    "return_attn_probs=False",
    "flash_attn_varlen_qkvpacked_func": "qkv, cu_seqlens, max_seqlen, dropout_p=0.0, "
    "softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, "
    "deterministic=False, return_attn_probs=False",
    "flash_attn_varlen_kvpacked_func": "q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, "
    "max_seqlen_k, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), "
    "softcap=0.0, alibi_slopes=None, deterministic=False, return_attn_probs=False",
    "flash_attn_varlen_func": "q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, "
    "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, "
    "alibi_slopes=None, deterministic=False, return_attn_probs=False, block_table=None",
    "flash_attn_with_kvcache": "q, k_cache, v_cache, k=None, v=None, rotary_cos=None, "
    "rotary_sin=None, cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None, "
    "block_table=None, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, "
    "rotary_interleaved=True, alibi_slopes=None, num_splits=0, return_softmax_lse=False",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    parameters = inspect.signature(getattr(attnpress, name)).parameters.values()
    said = [
        p.name if p.default is p.empty else f"{p.name}={p.default!r}"
        for p in parameters
        if p.kind is p.POSITIONAL_OR_KEYWORD
    ]
    assert ", ".join(said) == SIGNATURES[name]
    assert name in attnpress.__all__


Q, CU = normal(20, 4, DIM), sums([10, 10])
CACHE = normal(2, 10, 4, DIM)
TABLE = np.zeros((2, 1), dtype=np.int32)


def read_only(array):
    """A copy that may not be written."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def varlen(**changes):
    arguments = {
        "q": Q, "k": Q, "v": Q, "cu_seqlens_q": CU, "cu_seqlens_k": CU, "max_seqlen_q": 10,
        "max_seqlen_k": 10,
    }  # fmt: skip
    return attnpress.flash_attn_varlen_func(**{**arguments, **changes})


def kvcache(**changes):
    return attnpress.flash_attn_with_kvcache(
        **{"q": CACHE, "k_cache": CACHE, "v_cache": CACHE, **changes}
    )


@pytest.mark.parametrize(
    ("function", "changes", "error", "says"),
    [
        (varlen, {"q": Q[None]}, ValueError, "q has 4 dimensions"),
        (varlen, {"k": Q[None]}, ValueError, "k has 4 dimensions"),
        (varlen, {"block_table": TABLE}, ValueError, "k has 3 dimensions"),
        (varlen, {"cu_seqlens_q": CU.astype(np.int64)}, ValueError, "cu_seqlens_q is int64"),
        (varlen, {"cu_seqlens_q": CU.tolist()}, TypeError, "cu_seqlens_q is list"),
        (varlen, {"cu_seqlens_k": CU[:2]}, ValueError, r"cu_seqlens_k has shape .* be \(\d,\)"),
        (varlen, {"cu_seqlens_q": None}, ValueError, "cu_seqlens_q is None"),
        (varlen, {"cu_seqlens_k": None}, ValueError, "cu_seqlens_k is None"),
        (varlen, {"seqused_k": CU}, ValueError, "seqused_k has shape"),
        (varlen, {"max_seqlen_q": -1}, ValueError, "max_seqlen_q is -1"),
        (varlen, {"max_seqlen_q": "ten"}, TypeError, "max_seqlen_q is 'ten'"),
        (varlen, {"max_seqlen_q": 4.5}, TypeError, "max_seqlen_q is 4.5; it must be a whole"),
        (varlen, {"out": Q[:5]}, ValueError, r"out has shape \(5, .*; it must be \(20, 4, 40\)"),
        (varlen, {"out": Q.astype(np.float16)}, ValueError, "out is float16 of shape"),
        (varlen, {"s_aux": normal(3)}, ValueError, r"s_aux has shape \(3,\)"),
        (varlen, {"out": Q[None]}, ValueError, "out has 4 dimensions"),
        (varlen, {"out": [1]}, TypeError, "out is list"),
        (varlen, {"out": read_only(Q)}, ValueError, "out is read-only"),
        (kvcache, {"out": Q}, ValueError, "out has 3 dimensions"),
        (varlen, {"alibi_slopes": normal(3, 4)}, ValueError, "alibi_slopes has shape"),
        (varlen, {"num_splits": 999}, ValueError, "num_splits is 999"),
        (varlen, {"num_splits": "two"}, TypeError, "num_splits is 'two'; it must be a whole"),
        (varlen, {"bias": normal(3, 4, 10, 10)}, ValueError, "bias has shape"),
        (varlen, {"bias": normal(4, 9, 10)}, ValueError, "the bounds of the lengths or more"),
        (varlen, {"score_mod": "k <= q"}, TypeError, "score_mod is str"),
        (varlen, {"page_indptr": CU}, ValueError, "page_indptr is given and block_table is None"),
        (varlen, {"seqused_q": CU}, ValueError, "seqused_q has shape"),
        (kvcache, {"max_seqlen_q": -1}, ValueError, "max_seqlen_q is -1"),
        (kvcache, {"max_seqlen_q": 1.5}, TypeError, "max_seqlen_q is 1.5"),
        (kvcache, {"k": CACHE}, ValueError, "k is given and v is None"),
        (kvcache, {"v": CACHE}, ValueError, "v is given and k is None"),
        (kvcache, {"rotary_cos": CACHE}, ValueError, "rotary_cos is given and k is None"),
        (kvcache, {"k": CACHE, "v": CACHE}, ValueError, "cache_seqlens is None"),
        (
            kvcache,
            {"k": CACHE[:1], "v": CACHE[:1], "cache_seqlens": 1},
            ValueError,
            "k has batch 1 and q 2",
        ),
        (
            kvcache,
            {"k": CACHE, "v": CACHE, "cache_seqlens": 0, "rotary_seqlens": CU[:2]},
            ValueError,
            "rotary_seqlens is given and rotary_cos is None",
        ),
        (
            kvcache,
            {"k": CACHE, "v": CACHE, "cache_seqlens": 0, "rotary_cos": CACHE[0, :, 0]},
            ValueError,
            "rotary_cos is given alone",
        ),
        (kvcache, {"rotary_seqlens": CU[:2]}, ValueError, "rotary_seqlens is given and k is None"),
        (
            kvcache,
            {"block_table": TABLE, "block_table_v": np.zeros((2, 3), np.int32)[:, :1]},
            ValueError,
            "block_table_v has rows 3 apart and block_table 1",
        ),
        (
            kvcache,
            {"block_table_v": TABLE},
            ValueError,
            "block_table_v is given and block_table is None",
        ),
        (kvcache, {"q": CACHE[:1]}, ValueError, "k_cache has batch 2 and q 1"),
        (kvcache, {"q": CACHE[0]}, ValueError, "q has 3 dimensions"),
        (kvcache, {"cache_seqlens": -2}, ValueError, "cache_seqlens is -2"),
        (kvcache, {"cache_seqlens": CU}, ValueError, "cache_seqlens has shape"),
        (kvcache, {"cache_batch_idx": [0, 1]}, TypeError, "cache_batch_idx is list"),
        (kvcache, {"block_table": TABLE[0]}, ValueError, "block_table has shape"),
        (kvcache, {"block_table": TABLE.tolist()}, TypeError, "block_table is list"),
        (kvcache, {"block_table": TABLE.astype(np.int64)}, ValueError, "block_table is int64"),
    ],
)
def test_refusals(function, changes, error, says) -> None:
    with pytest.raises(error, match=says):
        function(**changes)


def test_packed_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"qkv has shape .*; \(batch, seqlen, 3, heads, head_dim"):
        attnpress.flash_attn_qkvpacked_func(normal(2, 10, 2, 4, DIM))
    with pytest.raises(ValueError, match="kv has 3 dimensions"):
        attnpress.flash_attn_varlen_kvpacked_func(Q, Q, CU, CU, 10, 10)


def test_strided_inputs_are_read_as_they_are() -> None:
    """A slice of a packed tensor, an array that must be copied, and a table with gaps."""
    wide = normal(20, 4, 2 * DIM)
    odd = np.asfortranarray(Q)
    want = varlen(k=np.ascontiguousarray(wide[..., :DIM]))
    np.testing.assert_array_equal(varlen(q=odd, k=wide[..., :DIM]), want)
    pages, table, _ = paged(sequences(Q, [10, 10]), 4)
    spread = np.full((2, table.shape[1] * 2), -1, dtype=np.int32)
    spread[:, : table.shape[1]] = table
    got = varlen(k=pages, v=pages, block_table=spread[:, : table.shape[1]])
    np.testing.assert_array_equal(got, varlen())


@pytest.mark.skipif(
    torch is None or not torch.cuda.is_available(), reason="there is no CUDA device"
)
@pytest.mark.parametrize("causal", [False, True])
def test_long_sequences(causal: bool) -> None:
    """So many rows, in the mean, that Hopper has a row block of its own for them."""
    lengths, first, heads, heads_kv, dim = [1, 6000, 0, 2305, 4097, 640], 3, 8, 2, 128
    ends = torch.from_numpy(sums(lengths, first)).cuda()
    generator = torch.Generator("cuda").manual_seed(0)
    q, k, v = (
        torch.randn(
            first + sum(lengths) + 2, n, dim, device="cuda", dtype=torch.float16,
            generator=generator,
        )
        for n in (heads, heads_kv, heads_kv)
    )  # fmt: skip
    for x in (q, k, v):
        x[:first] = x[first + sum(lengths) :] = torch.nan
    out = torch.full_like(q, -7)
    _, lse, _ = attnpress.flash_attn_varlen_func(
        q, k, v, ends, ends, max(lengths), max(lengths), causal=causal, out=out,
        return_attn_probs=True,
    )  # fmt: skip
    assert (out[:first] == -7).all()
    assert (out[first + sum(lengths) :] == -7).all()
    for begin, end in itertools.pairwise(ends.tolist()):
        rows = [x[begin:end].float().transpose(0, 1) for x in (q, k, v)]
        rows[1:] = (x.repeat_interleave(heads // heads_kv, 0) for x in rows[1:])
        scores = rows[0] @ rows[1].transpose(1, 2) * dim**-0.5
        if causal:
            scores.masked_fill_(torch.ones_like(scores[0]).triu(1).bool(), -torch.inf)
        want = (scores.softmax(-1) @ rows[2]).transpose(0, 1)
        torch.testing.assert_close(out[begin:end].float(), want, atol=2e-3, rtol=2e-3)
        torch.testing.assert_close(lse[:, begin:end], scores.logsumexp(-1), atol=1e-3, rtol=1e-5)


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
def test_torch() -> None:
    q = torch.from_numpy(Q)
    cu = torch.from_numpy(CU)
    out = attnpress.flash_attn_varlen_func(q, q, q, cu, cu, torch.tensor(10), 10, causal=True)
    np.testing.assert_array_equal(out.numpy(), varlen(causal=True))
    cache = torch.from_numpy(CACHE)
    out, lse = attnpress.flash_attn_with_kvcache(
        cache, cache, cache, cache_seqlens=torch.tensor([4, 9], dtype=torch.int32),
        return_softmax_lse=True,
    )  # fmt: skip
    want = kvcache(cache_seqlens=np.array([4, 9], dtype=np.int32), return_softmax_lse=True)
    np.testing.assert_array_equal(out.numpy(), want[0])
    np.testing.assert_array_equal(lse.numpy(), want[1])
    with pytest.raises(NotImplementedError, match="calls with out"):
        attnpress.flash_attn_varlen_func(
            q.clone().requires_grad_(), q, q, cu, cu, 10, 10, out=torch.empty_like(q)
        )
    qkv = torch.randn(2, 10, 3, 4, DIM, requires_grad=True)
    attnpress.flash_attn_qkvpacked_func(qkv, causal=True).sum().backward()
    assert qkv.grad is not None and bool(qkv.grad.isfinite().all())


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
def test_slopes_and_bias_of_no_sequence() -> None:
    """PyTorch gives empty tensors no address."""
    q = torch.zeros(0, 4, DIM, requires_grad=True)
    cu = torch.zeros(1, dtype=torch.int32)
    dense = torch.zeros(0, 5, 4, DIM, requires_grad=True)
    for features in ({"alibi_slopes": torch.ones(0, 4)}, {"bias": torch.ones(0, 4, 5, 5)}):
        out = attnpress.flash_attn_varlen_func(q, q, q, cu, cu, 5, 5, **features)
        (gradient,) = torch.autograd.grad(out, q, torch.zeros_like(out))
        assert out.shape == gradient.shape == q.shape
        out = attnpress.flash_attn_func(dense, dense, dense, **features)
        (gradient,) = torch.autograd.grad(out, dense, torch.zeros_like(out))
        assert out.shape == gradient.shape == dense.shape


@pytest.mark.parametrize("causal", [False, True])
def test_dropped_probabilities(causal):
    """With dropout S_dmask gives the result: of each sequence its probabilities, negative where
    they were dropped, by which V is weighted; 0 past its end."""
    queries, keys = [5, 0, 17], [40, 7, 20]
    q, k, v = (
        normal(sum(n), 6 if i == 0 else 2, DIM, seed=i) for i, n in enumerate((queries, keys, keys))
    )
    slopes = normal(3, 6, seed=9) ** 2
    out, _, p = attnpress.flash_attn_varlen_func(
        q, k, v, sums(queries), sums(keys), 17, 40, 0.3, causal=causal, alibi_slopes=slopes,
        return_attn_probs=True, seed=(3, 4),
    )  # fmt: skip
    assert p.shape == (3, 6, 17, 40)
    for b in range(3):
        rows = slice(*sums(queries)[b : b + 2])
        held = p[b, :, : queries[b], : keys[b]]
        assert np.count_nonzero(p[b]) == np.count_nonzero(held)
        weights = np.where(held > 0, held, 0) / 0.7
        values = v[slice(*sums(keys)[b : b + 2])].repeat(3, axis=1)
        np.testing.assert_allclose(
            np.einsum("hij,jhd->ihd", weights, values), out[rows], atol=1e-5, rtol=1e-4
        )
    assert 0.2 < np.count_nonzero(p < 0) / np.count_nonzero(p) < 0.4


def same_bits(one: tuple[np.ndarray, np.ndarray], rows: slice, whole: tuple) -> bool:
    """Whether (out, lse) are those of some rows of a call that has more."""
    return np.array_equal(one[0], whole[0][rows]) and np.array_equal(one[1], whole[1][:, rows])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("heads", [(4, 2), (2, 2), (5, 1)])
@pytest.mark.parametrize(
    "features", [{}, {"window_size": (100, 0)}, {"softcap": 5.0}, {"alibi_slopes": True}]
)
def test_batch_invariant(features: dict, heads: tuple[int, int], dtype: type) -> None:
    """A sequence alone, in a batch, and cut into calls, one row at a time included."""
    lengths, bits = [300, 1, 37, 700, 130], {"causal": True, "batch_invariant": True}
    if "alibi_slopes" in features:
        features = {"alibi_slopes": normal(heads[0], seed=9) ** 2}
    q, k, v = (
        [normal(n, h, DIM, seed=10 * i + b).astype(dtype) for b, n in enumerate(lengths)]
        for i, h in enumerate((heads[0], heads[1], heads[1]))
    )

    def call(queries: list, keys: list, values: list) -> tuple[np.ndarray, np.ndarray]:
        sizes = [[len(x) for x in each] for each in (queries, keys)]
        found = attnpress.flash_attn_varlen_func(
            *(np.concatenate(x) for x in (queries, keys, values)), *map(sums, sizes),
            *map(max, sizes), return_attn_probs=True, **bits, **features,
        )  # fmt: skip
        return found[:2]

    whole, at = call(q, k, v), sums(lengths)
    for b, length in enumerate(lengths):
        assert same_bits(call([q[b]], [k[b]], [v[b]]), slice(at[b], at[b + 1]), whole)
        begin = 0
        for count in itertools.chain((1, 1, 5, 64, 97), itertools.repeat(150)):
            end = min(begin + count, length)
            if end == begin:
                break
            part = call([q[b][begin:end]], [k[b][:end]], [v[b][:end]])
            assert same_bits(part, slice(at[b] + begin, at[b] + end), whole)
            begin = end


@pytest.mark.parametrize("page_size", [1, 8, 24])
def test_batch_invariant_decode(page_size: int) -> None:
    """Steps of one token over a cache in pages, beside the call that had all of them."""
    lengths = [130, 9, 260]
    keys, values = (
        [normal(n, 2, DIM, seed=20 * i + b) for b, n in enumerate(lengths)] for i in (1, 2)
    )
    q = [normal(n, 4, DIM, seed=60 + b) for b, n in enumerate(lengths)]
    whole = attnpress.flash_attn_varlen_func(
        *map(np.concatenate, (q, keys, values)), sums(lengths), sums(lengths), 260, 260,
        causal=True, batch_invariant=True,
    )  # fmt: skip
    k_cache, table, _ = paged(keys, page_size)
    v_cache, _, _ = paged(values, page_size)
    for back in range(4):
        used = np.array(lengths, np.int32) - back
        one = attnpress.flash_attn_with_kvcache(
            np.stack([x[n - 1] for x, n in zip(q, used)])[:, None], k_cache, v_cache,
            cache_seqlens=used, block_table=table, causal=True, batch_invariant=True,
        )  # fmt: skip
        for b, n in enumerate(used):
            assert np.array_equal(one[b, 0], whole[sums(lengths)[b] + n - 1])


def test_batch_invariant_refusals() -> None:
    q, cu = normal(3, 2, DIM), sums([3])
    with pytest.raises(ValueError, match="num_splits is 2 with batch_invariant"):
        attnpress.flash_attn_varlen_func(q, q, q, cu, cu, 3, 3, num_splits=2, batch_invariant=True)
    with pytest.raises(NotImplementedError, match="dropout and batch_invariant are both given"):
        attnpress.flash_attn_varlen_func(q, q, q, cu, cu, 3, 3, dropout_p=0.5, batch_invariant=True)


def test_ready_schedule_changes_no_bit() -> None:
    """Made, of other lengths, and spoiled; on the CPU it is written and ignored."""
    queries, keys = sums([0, 3, 3, 10]), sums([30, 60, 0, 10])
    q, k = normal(int(queries[-1]), 4, 64, seed=1), normal(int(keys[-1]), 2, 64, seed=2)
    want = attnpress.flash_attn_varlen_func(q, k, k, queries, keys, 10, 60)
    made = attnpress.forward_schedule(10, 60, cu_seqlens_q=queries, cu_seqlens_k=keys)
    assert made.tolist() == [4, 1, 0, 2, 3, 1, 0, 2, 3]
    for schedule in (made, made[::-1].copy(), np.full_like(made, -7)):
        found = attnpress.flash_attn_varlen_func(q, k, k, queries, keys, 10, 60, schedule=schedule)
        assert np.array_equal(found, want)
    with pytest.raises(ValueError, match="schedule has shape"):
        attnpress.flash_attn_varlen_func(q, k, k, queries, keys, 10, 60, schedule=made[:-1])
    with pytest.raises(ValueError, match="no array is given"):
        attnpress.forward_schedule(10, 60)
    with pytest.raises(ValueError, match="out is read-only"):
        attnpress.forward_schedule(10, 60, cu_seqlens_q=queries, out=read_only(made))
