"""flash_attn_with_kvcache, and vLLM's, FlashAttention-3's and the extension module's ways to it:
new keys and values are appended and rotated, and attention is that of plain PyTorch in float64.
All of the cache that no sequence uses is NaN. On a GPU where there is one."""

from __future__ import annotations

import inspect
import itertools

import pytest

import attnpress

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from attnpress import flash_attn_2_cuda as extension  # noqa: E402
from attnpress import flash_attn_interface as interface  # noqa: E402
from attnpress import vllm  # noqa: E402
from attnpress.flash_attn_3 import flash_attn_interface as third  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = [torch.float16, torch.bfloat16] + ([torch.float32] if DEVICE == "cpu" else [])
EPSILON = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7, torch.float32: 2.0**-20}
PLACES = ["dense", "picked", "pages of 1", "pages of 5", "pages of 16", "picked pages", "flat"]


def int32(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def sums(lengths) -> torch.Tensor:
    return int32([0, *itertools.accumulate(lengths)])


def normal(*shape: int, dtype, seed: int) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return made.to(dtype).to(DEVICE)


def tables(rotary_dim: int, dtype, count: int = 200) -> tuple[torch.Tensor, torch.Tensor]:
    angle = torch.arange(count)[:, None] * 30.0 ** -torch.linspace(0, 1, rotary_dim // 2)
    return angle.cos().to(dtype).to(DEVICE), angle.sin().to(dtype).to(DEVICE)


def rotated(x, position: int, rotary) -> torch.Tensor:
    """x: (heads, head_dim) of one token, in float64."""
    cos, sin, interleaved = rotary
    x, half = x.double().cpu(), cos.shape[1]
    c, s, out = cos[position].double().cpu(), sin[position].double().cpu(), x.clone()
    first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
    second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
    out[:, first] = x[:, first] * c - x[:, second] * s
    out[:, second] = x[:, second] * c + x[:, first] * s
    return out


def attention(q, k, v, causal: bool, window) -> tuple[torch.Tensor, torch.Tensor]:
    """(out, lse) of one sequence, (rows, heads, head_dim) each, in float64."""
    rows, heads, dim = q.shape
    k, v = (x.repeat_interleave(heads // x.shape[1], dim=1) for x in (k, v))
    score = torch.einsum("ihd,jhd->hij", q, k) * dim**-0.5
    at = torch.arange(rows)[:, None] + len(k) - rows - torch.arange(len(k))
    hidden = torch.zeros(at.shape, dtype=torch.bool)
    hidden |= (at < 0) if causal else (-at > window[1]) if window[1] >= 0 else hidden
    hidden |= (at > window[0]) if window[0] >= 0 else False
    score = score.masked_fill(hidden, -torch.inf)
    lse = score.logsumexp(-1)
    p = torch.exp(score - torch.where(lse == -torch.inf, 0.0, lse)[..., None])
    return torch.einsum("hij,jhd->ihd", p, v), lse


class Cache:
    """Sequences in a cache, and where their rows lie."""

    def __init__(self, place: str, lengths, room: int, heads: int, dim: int, dtype, pad: int = 0):
        self.lengths, self.pad, self.options = lengths, pad, {}
        batch, size = len(lengths), int(place.rsplit(maxsplit=1)[-1]) if place[-1].isdigit() else 4
        rows = room + 3
        order = torch.randperm(batch + 2, generator=torch.Generator().manual_seed(1))[:batch]
        if place in ("dense", "picked"):
            shape = (batch if place == "dense" else batch + 2, rows)
            if place == "picked":
                self.options["cache_batch_idx"] = int32(order.tolist())
            self.places = [
                [(b if place == "dense" else int(order[b]), n) for n in range(rows)]
                for b in range(batch)
            ]
            self.v_places = self.places
        else:
            pages = -(-rows // size)
            count = batch * pages + 2
            shape = (count, size)
            numbers = torch.randperm(count, generator=torch.Generator().manual_seed(2)).tolist()
            own = [numbers[b * pages : (b + 1) * pages] for b in range(batch)]
            other = [[(page + 1) % count for page in one] for one in own]
            if place == "picked pages":
                table = [[-1] * pages for _ in range(batch + 2)]
                for b in range(batch):
                    table[int(order[b])] = own[b]
                self.options["cache_batch_idx"] = int32(order.tolist())
                self.options["block_table"] = int32(table)
            elif place == "flat":
                self.options["block_table"] = int32([0, *itertools.chain(*own)])
                self.options["block_table_v"] = int32([0, *itertools.chain(*other)])
                self.options["page_indptr"] = int32([1 + b * pages for b in range(batch + 1)])
            else:
                self.options["block_table"] = int32(own)
            self.places = [[(one[n // size], n % size) for n in range(rows)] for one in own]
            self.v_places = self.places
            if place == "flat":
                self.v_places = [[(one[n // size], n % size) for n in range(rows)] for one in other]
        if pad:
            self.options["cache_leftpad"] = int32([pad] * batch)
        self.options["cache_seqlens"] = int32(lengths)
        self.k, self.v = (
            torch.full((*shape, heads, dim), torch.nan, dtype=dtype, device=DEVICE) for _ in "kv"
        )
        for b, length in enumerate(lengths):
            for n in range(pad, length):
                for i, (x, places) in enumerate(((self.k, self.places), (self.v, self.v_places))):
                    x[places[b][n]] = normal(heads, dim, dtype=dtype, seed=9000 * i + 100 * b + n)

    def rows(self, b: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values of a sequence as they stand."""
        found = []
        for x, places in ((self.k, self.places), (self.v, self.v_places)):
            at = torch.tensor(places[b][self.pad : length]).reshape(-1, 2).long()
            found.append(x.cpu()[at[:, 0], at[:, 1]].double())
        return found[0], found[1]


def check(
    cache, before, q, out, lse, new, rotary, causal, window, first=None, lengths_q=None
) -> None:
    """out and lse: of each sequence. new: (k, v) of each sequence, or None. before: the cache's k
    and v before the call. q: of each sequence, as given."""
    dtype = cache.k.dtype
    k_want, v_want = before
    masked = causal or window != (-1, -1)
    for b, length in enumerate(cache.lengths):
        count = 0 if new is None else len(new[b][0])
        begin = length if first is None else first[b]
        for i in range(count):
            k, v = new[b][0][i], new[b][1][i]
            at, v_at = cache.places[b][length + i], cache.v_places[b][length + i]
            v_want[v_at] = v
            want = k if rotary is None else rotated(k, begin + i, rotary)
            error = (cache.k[at].cpu().double() - want.cpu().double()).abs().max()
            assert error <= (0 if rotary is None else EPSILON[dtype] * want.abs().max())
            k_want[at] = cache.k[at]
        k, v = cache.rows(b, length + count)
        queries = q[b].cpu().double()
        if len(queries) == 0:
            continue
        if rotary is not None:
            queries = torch.stack(
                [rotated(x, begin + (i if masked else 0), rotary) for i, x in enumerate(q[b])]
            )
        want, want_lse = attention(queries, k, v, causal, window)
        assert (out[b].cpu().double() - want).abs().max() <= 3 * EPSILON[dtype] + 1e-5
        bound = max(4 * EPSILON[dtype], 2e-5) * want_lse.abs().clamp(min=1.0)
        same = (lse[b].cpu().double() - want_lse).abs() <= bound
        assert bool((same | (lse[b].cpu() == want_lse)).all())
    for got, want in ((cache.k, k_want), (cache.v, v_want)):  # NaN included
        assert torch.equal(got.view(torch.uint8), want.view(torch.uint8))


# place, new tokens, queries, rotary dim, interleaved, causal, window, pad, heads, of K, dim
CALLS = [
    ("dense", 1, 1, 64, True, True, (-1, -1), 0, 4, 2, 64),
    ("dense", 5, 5, 64, False, True, (-1, -1), 0, 4, 4, 64),
    ("dense", 5, 5, 32, False, False, (-1, -1), 0, 6, 2, 64),
    ("dense", 3, 6, 16, True, False, (-1, -1), 0, 4, 1, 64),
    ("dense", 4, 2, 32, False, True, (-1, -1), 0, 4, 1, 64),
    ("picked", 1, 1, 16, False, True, (-1, -1), 3, 6, 2, 64),
    ("picked", 6, 6, 64, True, False, (7, 0), 2, 4, 2, 64),
    ("pages of 1", 2, 2, 64, False, True, (-1, -1), 0, 8, 2, 64),
    ("pages of 5", 7, 7, 48, True, False, (9, 2), 3, 4, 2, 64),
    ("pages of 5", 4, 4, 0, False, True, (-1, -1), 0, 4, 2, 64),
    ("pages of 16", 1, 1, 128, False, False, (-1, -1), 0, 8, 1, 128),
    ("pages of 16", 20, 20, 64, True, True, (-1, -1), 0, 2, 2, 64),
    ("picked pages", 3, 3, 32, False, True, (-1, -1), 1, 4, 2, 64),
    ("flat", 3, 3, 64, False, False, (-1, -1), 0, 4, 2, 64),
    ("flat", 2, 5, 0, False, False, (-1, -1), 2, 4, 4, 64),
    ("dense", 0, 3, 0, False, True, (-1, -1), 0, 4, 2, 64),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("call", CALLS, ids=lambda c: "-".join(map(str, c)))
def test_append_and_attend(call, dtype) -> None:
    place, new, queries, rotary_dim, interleaved, causal, window, pad, heads, heads_kv, dim = call
    lengths = [max(n, pad) for n in (30, 3, 0, 17)]
    cache = Cache(place, lengths, 30 + new, heads_kv, dim, dtype, pad)
    q = normal(4, queries, heads, dim, dtype=dtype, seed=1)
    k, v = (
        (normal(4, new, heads_kv, dim, dtype=dtype, seed=n) for n in (2, 3)) if new else (None,) * 2
    )
    table_dtype = torch.float32 if rotary_dim == 64 else dtype
    rotary = (*tables(rotary_dim, table_dtype), interleaved) if rotary_dim else None
    before, q_before = (cache.k.clone(), cache.v.clone()), q.clone()
    out, lse = attnpress.flash_attn_with_kvcache(
        q, cache.k, cache.v, k, v, *(rotary[:2] if rotary else (None, None)),
        causal=causal, window_size=window, rotary_interleaved=interleaved, return_softmax_lse=True,
        **cache.options,
    )  # fmt: skip
    assert torch.equal(q, q_before) and out.shape == q.shape
    pairs = None if k is None else list(zip(k, v))
    check(cache, before, q, out, lse, pairs, rotary, causal, window)


def packed_call(rotary_seqlens: bool, same: bool):
    """A call on a cache of pages whose queries and new keys are ragged."""
    dtype, lengths, counts = torch.float16, [30, 3, 12], [4, 0, 9]
    lengths_q = counts if same else [2, 5, 1]
    cache = Cache("pages of 5", lengths, 40, 2, 64, dtype)
    q = normal(sum(lengths_q), 4, 64, dtype=dtype, seed=1)
    k, v = (normal(sum(counts), 2, 64, dtype=dtype, seed=n) for n in (2, 3))
    cu_new = sums(counts)
    options = {
        "cu_seqlens_q": cu_new if same else sums(lengths_q),
        "cu_seqlens_k_new": cu_new,
        "max_seqlen_q": 9,
        "cache_seqlens": cache.options["cache_seqlens"],
    }
    first = [5, 70, 0] if rotary_seqlens else None
    if first:
        options["rotary_seqlens"] = int32(first)
    return cache, q, k, v, options, counts, lengths_q, first


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("rotary_seqlens", [True, False])
def test_ragged(causal, rotary_seqlens, same) -> None:
    cache, q, k, v, options, counts, lengths_q, first = packed_call(rotary_seqlens, same)
    rotary = (*tables(32, torch.float32), False)
    before = cache.k.clone(), cache.v.clone()
    out, lse = attnpress.flash_attn_with_kvcache(
        q, cache.k, cache.v, k, v, *rotary[:2], block_table=cache.options["block_table"],
        causal=causal, rotary_interleaved=False, return_softmax_lse=True, **options,
    )  # fmt: skip
    assert out.shape == q.shape and lse.shape == (4, len(q))
    new = list(zip(k.split(counts), v.split(counts)))
    check(
        cache, before, q.split(lengths_q), out.split(lengths_q), lse.split(lengths_q, dim=1), new,
        rotary, causal, (-1, -1), first,
    )  # fmt: skip


def test_int_lengths_and_out() -> None:
    cache = Cache("dense", [8, 8], 12, 2, 64, torch.float16)
    q, k, v = (normal(2, 2, n, 64, dtype=torch.float16, seed=n) for n in (4, 2, 2))
    before, out = (cache.k.clone(), cache.v.clone()), torch.full_like(q, torch.nan)
    got, lse = attnpress.flash_attn_with_kvcache(
        q, cache.k, cache.v, k, v, cache_seqlens=8, causal=True, out=out, return_softmax_lse=True
    )
    assert got is out
    check(cache, before, q, out, lse, list(zip(k, v)), None, True, (-1, -1))


def test_no_room() -> None:
    """New keys that the cache has no room for make their sequence empty, and no other."""
    cache = Cache("dense", [8, 10], 10, 2, 64, torch.float16)
    q, k, v = (normal(2, 4, n, 64, dtype=torch.float16, seed=n) for n in (4, 2, 2))
    out, lse = attnpress.flash_attn_with_kvcache(
        q, cache.k, cache.v, k, v, cache_seqlens=cache.options["cache_seqlens"],
        return_softmax_lse=True,
    )  # fmt: skip
    assert bool((out[1] == 0).all()) and bool((lse[1] == -torch.inf).all())
    want, _ = attention(q[0].cpu().double(), *cache.rows(0, 12), False, (-1, -1))
    assert (out[0].cpu().double() - want).abs().max() <= 3 * EPSILON[torch.float16]


def test_an_error_leaves_the_cache_as_it_was() -> None:
    cache = torch.zeros(2, 8, 2, 64, dtype=torch.float16, device=DEVICE)
    q = torch.ones(2, 2, 3, 64, dtype=torch.float16, device=DEVICE)  # 3 heads on 2
    k = torch.ones(2, 2, 2, 64, dtype=torch.float16, device=DEVICE)
    with pytest.raises(ValueError, match="heads"):
        attnpress.flash_attn_with_kvcache(q, cache, cache.clone(), k, k, cache_seqlens=1)
    assert bool((cache == 0).all())
    wide = torch.zeros(2, 8, 2, 65, dtype=torch.float16, device=DEVICE)[..., 1:]
    with pytest.raises(ValueError, match=r"k_cache, of shape .* cannot be written and read"):
        attnpress.flash_attn_with_kvcache(q[:, :, :2], wide, cache, k, k, cache_seqlens=1)
    with pytest.raises(NotImplementedError, match=r"requires grad|backward"):
        attnpress.flash_attn_with_kvcache(
            q[:, :, :2], cache, cache.clone(), k.clone().requires_grad_(), k, cache_seqlens=1
        )


def test_errors_name_the_argument() -> None:
    cache = torch.zeros(2, 8, 2, 64, dtype=torch.float16, device=DEVICE)
    for window in (3, None):
        with pytest.raises(TypeError, match=f"window_size is {window}; it must be a pair"):
            attnpress.flash_attn_with_kvcache(cache, cache, cache, window_size=window)
    with pytest.raises(ValueError, match=f"cache_seqlens is {1 << 31}; it must be less than"):
        attnpress.flash_attn_with_kvcache(cache, cache, cache, cache_seqlens=1 << 31)


@pytest.mark.skipif(DEVICE == "cpu", reason="there is no GPU")
def test_a_captured_call_at_other_lengths() -> None:
    cache = Cache("pages of 16", [30, 3], 40, 2, 64, torch.bfloat16)
    q, k, v = (normal(2, 1, n, 64, dtype=torch.bfloat16, seed=n) for n in (4, 2, 2))
    rotary = (*tables(64, torch.float32), False)

    def call():
        return attnpress.flash_attn_with_kvcache(
            q, cache.k, cache.v, k, v, *rotary[:2], causal=True, rotary_interleaved=False,
            return_softmax_lse=True, **cache.options,
        )  # fmt: skip

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = call()
    for lengths in ([30, 3], [31, 4], [5, 0], [0, 2]):
        cache.lengths = lengths
        cache.options["cache_seqlens"].copy_(int32(lengths))
        before = cache.k.clone(), cache.v.clone()
        graph.replay()
        torch.cuda.synchronize()
        check(cache, before, q, out, lse, list(zip(k, v)), rotary, True, (-1, -1))


# ---- The other names of it -----------------------------------------------------------------------


def test_the_same_by_every_name() -> None:
    """flash-attn 2's function, its extension module's, and FlashAttention-3's two."""
    rotary = (*tables(32, torch.float16), False)
    q, k, v = (normal(3, 4, n, 64, dtype=torch.float16, seed=n) for n in (4, 2, 2))

    def caches():
        made = Cache("pages of 5", [30, 0, 12], 40, 2, 64, torch.float16)
        table, used = made.options["block_table"], made.options["cache_seqlens"]
        return made.k, made.v, table, used

    k_cache, v_cache, table, used = caches()
    want = attnpress.flash_attn_with_kvcache(
        q, k_cache, v_cache, k, v, *rotary[:2], used, None, None, table, 0.2, True, (9, 0), 2.0,
        False, None, 1, True,
    )  # fmt: skip

    def second(k_cache, v_cache, table, used):
        return interface.flash_attn_with_kvcache(
            q, k_cache, v_cache, k, v, *rotary[:2], used, None, None, table, 0.2, True, (9, 0),
            2.0, False, None, 1, True,
        )  # fmt: skip

    def of_extension(k_cache, v_cache, table, used):
        out = torch.empty_like(q)
        found = extension.fwd_kvcache(
            q, k_cache, v_cache, k, v, used, *rotary[:2], None, None, table, None, out, 0.2, True,
            9, 0, 2.0, False, 1,
        )  # fmt: skip
        assert isinstance(found, list) and found[0] is out
        return found

    def of_third(k_cache, v_cache, table, used):
        metadata = third.get_scheduler_metadata(3, 4, 40, 4, 2, 64, used, page_size=5)
        return third.flash_attn_with_kvcache(
            q, k_cache, v_cache, k, v, None, *rotary[:2], used, page_table=table,
            softmax_scale=0.2, causal=True, window_size=(9, 0), softcap=2.0,
            rotary_interleaved=False, scheduler_metadata=metadata.clone(), num_splits=1,
            pack_gqa=True, sm_margin=4, return_softmax_lse=True,
        )  # fmt: skip

    def private(k_cache, v_cache, table, used):
        return third._flash_attn_forward(
            q, k_cache, v_cache, k, v, seqused_k=used, page_table=table, rotary_cos=rotary[0],
            rotary_sin=rotary[1], softmax_scale=0.2, causal=True, window_size_left=9,
            window_size_right=0, softcap=2.0, rotary_interleaved=False,
        )  # fmt: skip

    for function in (second, of_extension, of_third, private):
        memory = caches()
        out, lse, *_ = function(*memory)
        assert torch.equal(out, want[0]) and torch.equal(lse, want[1]), function.__name__
        for got, expected in zip(memory, (k_cache, v_cache)):
            assert torch.equal(got.view(torch.uint8), expected.view(torch.uint8))


def test_ragged_by_the_third() -> None:
    cache, q, k, v, options, _, _, _ = packed_call(True, False)
    rotary = tables(32, torch.float32)
    table = cache.options["block_table"]
    again = cache.k.clone(), cache.v.clone()
    want = attnpress.flash_attn_with_kvcache(
        q, cache.k, cache.v, k, v, *rotary, block_table=table, chunk=16, return_softmax_lse=True,
        **options,
    )  # fmt: skip
    found = third.flash_attn_with_kvcache(
        q, *again, k, v, None, *rotary, page_table=table, attention_chunk=16,
        return_softmax_lse=True, **options,
    )  # fmt: skip
    assert torch.equal(found[0], want[0]) and torch.equal(found[1], want[1])
    # SGLang says cu_seqlens_k_new without k.
    del options["rotary_seqlens"]
    found = third.flash_attn_with_kvcache(q, *again, page_table=table, **options)
    del options["cu_seqlens_k_new"]
    want = attnpress.flash_attn_with_kvcache(q, *again, block_table=table, **options)
    assert torch.equal(found, want)


def test_refused_by_the_third() -> None:
    q, cache = (torch.zeros(1, n, 2, 64, dtype=torch.float16, device=DEVICE) for n in (1, 8))
    for changes, error, says in (
        ({"qv": q}, NotImplementedError, "no qv"),
        ({"k_descale": q}, NotImplementedError, "no k_descale"),
        ({"scheduler_metadata": q}, ValueError, r"scheduler_metadata is torch.float16"),
        ({"scheduler_metadata": 3}, ValueError, r"scheduler_metadata is 3"),
        ({"attention_chunk": -2}, ValueError, "attention_chunk is -2"),
        ({"max_seqlen_q": -1}, ValueError, "max_seqlen_q is -1"),
        ({"rotary_cos": q[0, 0]}, ValueError, "rotary_cos is given and k is None"),
    ):
        with pytest.raises(error, match=says) as caught:
            third.flash_attn_with_kvcache(q, cache, cache, **changes)
        assert isinstance(caught.value, RuntimeError)


def test_a_bound_of_queries_that_have_a_batch() -> None:
    q, cache = (normal(2, n, 2, 64, dtype=torch.float16, seed=n) for n in (3, 8))
    for function in (attnpress.flash_attn_with_kvcache, third.flash_attn_with_kvcache):
        expected = function(q, cache, cache)
        for bound in (0, 1, 3, 4096):
            assert torch.equal(function(q, cache, cache, max_seqlen_q=bound), expected)
        with pytest.raises(ValueError, match="max_seqlen_q is -2"):
            function(q, cache, cache, max_seqlen_q=-2)


# ---- vLLM's --------------------------------------------------------------------------------------

VLLM = (
    "q, k, v, max_seqlen_q, cu_seqlens_q, max_seqlen_k, cu_seqlens_k=None, seqused_k=None, "
    "q_v=None, dropout_p=0.0, softmax_scale=None, causal=False, window_size=None, softcap=0.0, "
    "alibi_slopes=None, deterministic=False, return_attn_probs=False, block_table=None, "
    "return_softmax_lse=False, out=None, scheduler_metadata=None, q_descale=None, k_descale=None, "
    "v_descale=None, num_splits=0, fa_version=2, s_aux=None, cp_world_size=1, cp_rank=0, "
    "cp_tot_seqused_k=None"
)
METADATA = (
    "batch_size, max_seqlen_q, max_seqlen_k, num_heads_q, num_heads_kv, headdim, cache_seqlens, "
    "qkv_dtype=torch.bfloat16, headdim_v=None, cu_seqlens_q=None, cu_seqlens_k_new=None, "
    "cache_leftpad=None, page_size=None, max_seqlen_k_new=0, causal=False, window_size=(-1, -1), "
    "has_softcap=False, num_splits=0, pack_gqa=None, sm_margin=0"
)


@pytest.mark.parametrize(
    ("name", "said"), [("flash_attn_varlen_func", VLLM), ("get_scheduler_metadata", METADATA)]
)
def test_signatures_of_vllm(name, said) -> None:
    parameters = inspect.signature(getattr(vllm, name)).parameters.values()
    found = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
    assert ", ".join(found) == said


def vllm_call(**changes):
    """vLLM's own way: slices of wider tensors, K and V of a token side by side, heads outside of
    tokens, and the table of a longer batch."""
    lengths_q, lengths = [3, 1, 8], [30, 17, 8]
    qkv = normal(14, 4 * 64 + 64, dtype=torch.bfloat16, seed=1)
    q = qkv[:12, : 4 * 64].unflatten(1, (4, 64))
    size, heads = 16, 2
    cache = torch.full((9, heads, size, 2 * 64), torch.nan, dtype=torch.bfloat16, device=DEVICE)
    table = int32([[4, 2], [8, 1], [6, -1], [-1, -1]])
    k, v = (cache[..., i * 64 : (i + 1) * 64].transpose(1, 2) for i in range(2))
    keys, values = [], []
    for b, length in enumerate(lengths):
        keys.append(normal(length, heads, 64, dtype=torch.bfloat16, seed=10 + b))
        values.append(normal(length, heads, 64, dtype=torch.bfloat16, seed=20 + b))
        for n in range(length):
            at = int(table[b, n // size]), n % size
            k[at], v[at] = keys[-1][n], values[-1][n]
    used = int32([*lengths, 0])[:3]
    arguments = {
        "q": q,
        "k": k,
        "v": v,
        "max_seqlen_q": 8,
        "cu_seqlens_q": sums(lengths_q),
        "max_seqlen_k": 30,
        "seqused_k": used,
        "block_table": table[:3],
        "causal": True,
    }
    return {**arguments, **changes}, keys, values, lengths_q


@pytest.mark.parametrize("fa_version", [2, 3])
@pytest.mark.parametrize("num_splits", [0, 1, 32])
@pytest.mark.parametrize("window", [None, [9, 0]])
def test_vllm(fa_version, num_splits, window) -> None:
    used = vllm_call()[0]["seqused_k"]
    buffer = torch.full((17,), 7, dtype=torch.int32, device=DEVICE)
    metadata = vllm.get_scheduler_metadata(3, 8, 30, 4, 2, 64, used, page_size=16, causal=True)
    assert metadata.dtype == torch.int32 and metadata.dim() == 1 and metadata.device == used.device
    buffer[: metadata.shape[0]] = metadata
    memory = torch.full((14, 4, 64), torch.nan, dtype=torch.bfloat16, device=DEVICE)
    scale = torch.ones(1, device=DEVICE).expand(3, 2)
    arguments, keys, values, lengths_q = vllm_call(
        out=memory[:12], window_size=window, return_softmax_lse=True, fa_version=fa_version,
        num_splits=num_splits, scheduler_metadata=buffer[: metadata.shape[0]], k_descale=scale,
        v_descale=scale,
    )  # fmt: skip
    out, lse = vllm.flash_attn_varlen_func(**arguments)
    assert out.data_ptr() == memory.data_ptr() and bool(memory[12:].isnan().all())
    assert lse.shape == (4, 12)
    for q, k, v, got, got_lse in zip(
        arguments["q"].split(lengths_q), keys, values, out.split(lengths_q),
        lse.split(lengths_q, dim=1),
    ):  # fmt: skip
        want, want_lse = attention(
            *(x.cpu().double() for x in (q, k, v)), True, (-1, -1) if window is None else window
        )
        assert (got.cpu().double() - want).abs().max() <= 3 * EPSILON[torch.bfloat16]
        assert (got_lse.cpu().double() - want_lse).abs().max() <= 1e-4 * 8
    without = vllm.flash_attn_varlen_func(**{**arguments, "return_softmax_lse": False})
    assert torch.equal(without, out)


def test_scheduler_metadata_changes_no_bit() -> None:
    """That of attnpress, none, and another library's schedule."""
    arguments = vllm_call(return_softmax_lse=True)[0]
    used, table = arguments["seqused_k"], arguments["block_table"]
    ours = vllm.get_scheduler_metadata(3, 8, 30, 4, 2, 64, used, page_size=16, causal=True)
    others = int32([2, 0, -1, 7, 1 << 30])
    want = vllm.flash_attn_varlen_func(**arguments)
    for metadata in (ours, others):
        found = vllm.flash_attn_varlen_func(**arguments, scheduler_metadata=metadata)
        assert all(map(torch.equal, found, want))

    def of_third(metadata):
        return third.flash_attn_with_kvcache(
            arguments["q"], arguments["k"], arguments["v"], cache_seqlens=used, page_table=table,
            cu_seqlens_q=arguments["cu_seqlens_q"], max_seqlen_q=8, causal=True,
            scheduler_metadata=metadata, return_softmax_lse=True,
        )  # fmt: skip

    ours = third.get_scheduler_metadata(3, 8, 30, 4, 2, 64, used, page_size=16, causal=True)
    want = of_third(None)
    for metadata in (ours, others):
        assert all(map(torch.equal, of_third(metadata)[:2], want[:2]))


@pytest.mark.parametrize("module", [vllm, third])
def test_scheduler_metadata_is_checked(module) -> None:
    used = int32([30, 17, 8])
    for changes, error, says in (
        ({"cache_seqlens": [30, 17, 8]}, ValueError, r"cache_seqlens is \[30, 17, 8\]"),
        ({"cache_seqlens": used.long()}, ValueError, r"cache_seqlens is \(3,\) of torch.int64"),
        ({"cache_seqlens": used[:2]}, ValueError, r"cache_seqlens is \(2,\) of torch.int32; it"),
        ({"batch_size": 4}, ValueError, r"it must be \(batch_size\), \(4,\)"),
        ({"qkv_dtype": torch.float8_e4m3fn}, NotImplementedError, "qkv_dtype is torch.float8"),
    ):
        arguments = {
            "batch_size": 3, "max_seqlen_q": 8, "max_seqlen_k": 30, "num_heads_q": 4,
            "num_heads_kv": 2, "headdim": 64, "cache_seqlens": used, **changes,
        }  # fmt: skip
        with pytest.raises(error, match=says) as caught:
            module.get_scheduler_metadata(**arguments)
        assert isinstance(caught.value, RuntimeError)


def test_vllm_of_packed_keys() -> None:
    q, k = (normal(12, n, 64, dtype=torch.bfloat16, seed=n) for n in (4, 2))
    cu = sums([5, 7])
    sinks = normal(4, dtype=torch.bfloat16, seed=9)
    found = vllm.flash_attn_varlen_func(q, k, k, 7, cu, 7, cu, s_aux=sinks, softcap=3.0)
    want = attnpress.flash_attn_varlen_func(q, k, k, cu, cu, 7, 7, s_aux=sinks, softcap=3.0)
    assert torch.equal(found, want)


def test_vllm_refuses_by_name() -> None:
    cu = sums([3, 1, 8])
    for changes, error, says in (
        ({"q_v": cu}, NotImplementedError, "no q_v"),
        ({"cp_world_size": 2}, NotImplementedError, "cp_world_size is 2"),
        ({"fa_version": 4}, ValueError, "fa_version is 4"),
        ({"seqused_k": None}, ValueError, "cu_seqlens_k and seqused_k are not given"),
        ({"cu_seqlens_k": cu}, ValueError, "cu_seqlens_k and seqused_k are both given"),
        ({"seqused_k": None, "cu_seqlens_k": cu}, ValueError, "block_table is given and seqused_k"),
        ({"block_table": None}, ValueError, "without pages cu_seqlens_k is needed"),
        ({"window_size": [3]}, ValueError, r"window_size is \[3\]"),
        ({"cu_seqlens_q": None}, ValueError, "cu_seqlens_q is None"),
        ({"scheduler_metadata": 0.5}, ValueError, "scheduler_metadata is 0.5"),
    ):
        with pytest.raises(error, match=says) as caught:
            vllm.flash_attn_varlen_func(**vllm_call(**changes)[0])
        assert isinstance(caught.value, RuntimeError)
    for version in (2, 3):
        assert vllm.is_fa_version_supported(version) is (DEVICE == "cuda")
    assert not vllm.is_fa_version_supported(4)
    with pytest.raises(ValueError, match="fa_version is 7"):
        vllm.fa_version_unsupported_reason(7)


@pytest.mark.parametrize("appended", [0, 2])
def test_head_dim_that_is_no_multiple_of_8(appended):
    """flash-attn's function copies such caches, and what is appended back."""
    dtype, dim, used = torch.float16, 59, [5, 9]
    q = normal(2, 3, 4, dim, dtype=dtype, seed=1)
    caches = [normal(2, 20, 2, dim, dtype=dtype, seed=n) for n in (2, 3)]
    new = [normal(2, appended, 2, dim, dtype=dtype, seed=n) for n in (4, 5)]
    whole = [x.clone() for x in caches]
    for cache, more in zip(whole, new):
        for b, length in enumerate(used):
            cache[b, length : length + appended] = more[b]
    out, lse = interface.flash_attn_with_kvcache(
        q, *caches, *(new if appended else ()), cache_seqlens=int32(used), causal=True,
        return_softmax_lse=True,
    )  # fmt: skip
    assert out.shape == q.shape
    assert all(torch.equal(x, y) for x, y in zip(caches, whole))
    for b, length in enumerate(used):
        rows = (x[b, : length + appended].double().cpu() for x in whole)
        wanted, wanted_lse = attention(q[b].double().cpu(), *rows, True, (-1, -1))
        torch.testing.assert_close(out[b].double().cpu(), wanted, atol=4e-3, rtol=4e-3)
        torch.testing.assert_close(lse[b].double().cpu(), wanted_lse, atol=1e-5, rtol=1e-5)


# ---- The same signature again -------------------------------------------------------------------


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
def test_signature_again(paged, causal, fixed):
    """Calls of one signature, which the adapter knows from the second on, over other tensors."""
    batch, room, heads, dim = 3, 64, 2, 64
    for seed in range(4):
        lengths = [(17 * seed + 11 * b) % room for b in range(batch)]
        q = normal(batch, 2, 2 * heads, dim, dtype=torch.float16, seed=seed)
        k, v = (
            normal(batch, room, heads, dim, dtype=torch.float16, seed=9 + seed + i) for i in (0, 1)
        )
        options = {"cache_seqlens": int32(lengths), "causal": causal, "batch_invariant": fixed}
        places = (k, v)
        if paged:
            order = torch.randperm(
                batch * room // 16, generator=torch.Generator().manual_seed(seed)
            )
            options["block_table"] = order.int().view(batch, -1).to(DEVICE)
            places = tuple(torch.empty_like(x).view(-1, 16, heads, dim) for x in (k, v))
            for x, of in zip((k, v), places):
                of[order.to(DEVICE)] = x.view(-1, 16, heads, dim)
        out = attnpress.flash_attn_with_kvcache(q, *places, **options)
        assert out.data_ptr() != q.data_ptr()
        for b, length in enumerate(lengths):
            want, _ = attention(
                *(x.double().cpu() for x in (q[b], k[b, :length], v[b, :length])), causal, (-1, -1)
            )
            assert (out[b].double().cpu() - want.nan_to_num()).abs().max() < 4e-3


def test_signature_again_is_checked():
    """What a signature does not say: gradients, and where q begins."""
    q, k, v = (normal(1, n, 1, 64, dtype=torch.float16, seed=n) for n in (1, 32, 33))
    v = v[:, :32]
    options = {"cache_seqlens": int32([20])}
    first = interface.flash_attn_with_kvcache(q, k, v, **options)
    assert torch.equal(first, interface.flash_attn_with_kvcache(q, k, v, **options))
    moved = torch.empty(q.numel() + 4, dtype=q.dtype, device=DEVICE)[4:].view(q.shape).copy_(q)
    assert torch.equal(first, interface.flash_attn_with_kvcache(moved, k, v, **options))
    # What the call copies first: its addresses are not those of the tensors given.
    wide = torch.stack([int32([20]), int32([3])], 1)
    pages = torch.tensor([[1, 9, 0, 9]], dtype=torch.int32, device=DEVICE)[:, ::2]
    transposed = q.transpose(-1, -2).contiguous().transpose(-1, -2)
    paged = [x.reshape(2, 16, 1, 64).flip(0) for x in (k, v.contiguous())]
    for _ in range(3):
        strided = interface.flash_attn_with_kvcache(q, k, v, cache_seqlens=wide[:, 0])
        assert torch.equal(first, strided)
        assert torch.equal(first, interface.flash_attn_with_kvcache(transposed, k, v, **options))
        of_pages = interface.flash_attn_with_kvcache(q, *paged, **options, block_table=pages)
        assert (first - of_pages).abs().max() < 2e-3
    with pytest.raises(NotImplementedError, match="requires grad"):
        interface.flash_attn_with_kvcache(q.clone().requires_grad_(), k, v, **options)
    with pytest.raises(ValueError, match=r"cache_seqlens|seqused_k"):
        interface.flash_attn_with_kvcache(q, k, v, cache_seqlens=int32([20, 20]))


@pytest.mark.parametrize(
    ("place", "interleaved", "rotary_dim", "heads", "heads_kv", "dim"),
    [
        ("dense", False, 128, 32, 8, 128),
        ("pages of 16", False, 128, 8, 8, 128),
        ("pages of 16", True, 64, 32, 8, 128),
        ("pages of 5", True, 128, 16, 8, 128),
        ("pages of 16", False, 64, 64, 8, 64),
        ("pages of 16", False, 0, 32, 8, 128),
        ("dense", False, 32, 32, 8, 128),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_many_sequences_decode(place, interleaved, rotary_dim, heads, heads_kv, dim, dtype) -> None:
    """A query and a new key each, which one kernel writes on the way on a GPU: as by two calls. A
    sequence without room, and one whose last page is not there, are left out."""
    batch, most = (70, 1500) if DEVICE == "cuda" else (5, 60)
    lengths = [(b * b * 37 + 1) % most for b in range(batch)]
    rows = most + 36
    lengths[3], lengths[4] = rows - 1, rows  # the last row, and no row
    size = int(place.rsplit(maxsplit=1)[-1]) if place[-1].isdigit() else 0
    shape = (batch, rows)
    options = {"cache_seqlens": int32(lengths), "causal": True}
    if size:
        pages = -(-rows // size)
        shape = (batch * pages, size)
        numbers = torch.randperm(batch * pages, generator=torch.Generator().manual_seed(2))
        table = numbers.reshape(batch, pages).int()
        lengths[4] = pages * size
        table[2, lengths[2] // size] = batch * pages
        options |= {"cache_seqlens": int32(lengths), "block_table": table.to(DEVICE)}
    torch.manual_seed(5)
    cache = [torch.randn(*shape, heads_kv, dim, dtype=dtype, device=DEVICE) for _ in "kv"]
    q = normal(batch, 1, heads, dim, dtype=dtype, seed=1)
    k, v = (normal(batch, 1, heads_kv, dim, dtype=dtype, seed=n) for n in (2, 3))
    rotary, other = {}, [x.clone() for x in cache]
    if rotary_dim:
        cos, sin = tables(rotary_dim, torch.float32 if dim == 64 else dtype, rows + 2 * 16)
        rotary = {"cos": cos, "sin": sin, "interleaved": interleaved}
    places = {"seqused_k": options["cache_seqlens"], "page_table": options.get("block_table")}
    rotated_q = torch.empty_like(q) if rotary else q
    if rotary:
        places |= {"q": q, "q_out": rotated_q}
    attnpress.append(k, v, *other, **places, **rotary)
    options["cache_seqlens"] = options["cache_seqlens"] + 1
    want = attnpress.flash_attn_with_kvcache(rotated_q, *other, **options)
    options["cache_seqlens"] = int32(lengths)
    options |= {f"rotary_{name}": value for name, value in rotary.items()}
    got = attnpress.flash_attn_with_kvcache(q, *cache, k, v, **options)
    for a, b in zip(cache, other):
        assert torch.equal(a.view(torch.uint8), b.view(torch.uint8))
    kept = [b for b in range(batch) if not (size and b == 2)]
    assert (got[4] == 0).all()
    error = (got[kept].double() - want[kept].double()).abs().max()
    assert error <= 2 * EPSILON[dtype]
