"""Calls of sequences that are known again (attnpress._replay): each is held, with other tensors, to
what the whole way gives, by the builtin function and without it. On a GPU where there is one."""

from __future__ import annotations

import threading

import pytest

import attnpress

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.autograd import forward_ad  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from attnpress import _exchange, _replay  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH, HEADS, KV_HEADS, DIM, ROWS = 3, 4, 2, 64, 48


def normal(*shape: int, seed: int) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return made.to(torch.bfloat16).to(DEVICE)


def int32(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def forget() -> None:
    _replay._plans.by_key.clear()
    _replay._quick.clear()
    _replay._quick_count = 0


@pytest.fixture(autouse=True)
def _nothing_known():
    varlen(0)()  # a process's first call finds out what tensors are
    forget()
    yield
    forget()


@pytest.fixture(autouse=True, params=["quick", "plain"])
def way(request, monkeypatch):
    """Both ways of knowing a call again."""
    if request.param == "plain":
        monkeypatch.setattr(_exchange, "functions", None)
    elif _exchange.functions is None:
        pytest.skip("this PyTorch or Python has not what the quick way needs")
    return request.param


@pytest.fixture
def quick_runs(way, monkeypatch):
    """What the builtin function answered, None or an output."""
    answers: list = []
    functions = _exchange.functions
    if functions is not None:

        def replay(*args):
            answers.append(functions.replay(*args))
            return answers[-1]

        monkeypatch.setattr(_exchange, "functions", functions._replace(replay=replay))
    return answers


def whole_way(call):
    """What the call gives where nothing is known, and everything that it wrote."""
    known, quick = dict(_replay._plans.by_key), dict(_replay._quick)
    forget()
    result = call()
    forget()
    _replay._plans.by_key.update(known)
    _replay._quick.update(quick)
    return result


def decode(seed: int, **options):
    """A call over a cache, and its caches."""
    pages = options.pop("pages", None)
    shape = (12, pages, KV_HEADS, DIM) if pages else (BATCH, ROWS, KV_HEADS, DIM)
    k_cache, v_cache = normal(*shape, seed=seed), normal(*shape, seed=seed + 1)
    q = normal(BATCH, options.pop("rows", 1), HEADS, DIM, seed=seed + 2)
    used = int32([5 + seed % 7, 17, 0])
    if pages:
        options["block_table"] = int32([[2, 7, 1], [0, 3, 9], [4 + seed % 2, 10, 11]])
    new = options.pop("new", 0)
    if new:
        options["k"] = normal(BATCH, new, KV_HEADS, DIM, seed=seed + 3)
        options["v"] = normal(BATCH, new, KV_HEADS, DIM, seed=seed + 4)
    if options.pop("rotary", False):
        angle = torch.arange(ROWS + 8)[:, None] * 20.0 ** -torch.linspace(0, 1, DIM // 2)
        options["rotary_cos"] = (angle + seed).cos().to(DEVICE)
        options["rotary_sin"] = (angle + seed).sin().to(DEVICE)

    def call():
        k, v = k_cache.clone(), v_cache.clone()
        found = attnpress.flash_attn_with_kvcache(q, k, v, cache_seqlens=used, **options)
        found = found if isinstance(found, tuple) else (found,)
        return (*found, k, v)

    return call


def varlen(seed: int, **options):
    q = normal(20, HEADS, DIM, seed=seed)
    k, v = (normal(31, KV_HEADS, DIM, seed=seed + i) for i in (1, 2))
    cu_q = int32([0, 3 + seed % 4, 11, 20])
    cu_k = int32([0, 9, 20 - seed % 3, 31])

    def call():
        found = attnpress.flash_attn_varlen_func(q, k, v, cu_q, cu_k, 20, 31, **options)
        return found if isinstance(found, tuple) else (found,)

    return call


CALLS = {
    "decode with an lse": (decode, {"return_softmax_lse": True}),
    "appended": (decode, {"new": 1, "causal": True}),
    "appended, pages": (decode, {"new": 2, "rows": 2, "pages": 16, "causal": True}),
    "appended, rotary": (decode, {"new": 1, "rotary": True, "causal": True}),
    "appended, rotary, pages, lse": (
        decode,
        {"new": 2, "rows": 2, "rotary": True, "pages": 16, "causal": True,
         "rotary_interleaved": False, "return_softmax_lse": True},
    ),
    "window": (decode, {"new": 1, "window_size": (4, 0)}),
    "softcap": (decode, {"softcap": 5.0, "rows": 2}),
    "batch-invariant": (decode, {"new": 1, "batch_invariant": True}),
    "ragged": (varlen, {"causal": True}),
    "ragged, lse, window": (varlen, {"window_size": (7, 3), "return_attn_probs": True}),
    "ragged, scale": (varlen, {"softmax_scale": 0.3, "num_splits": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_known_again(name: str, way: str, quick_runs: list) -> None:
    make, options = CALLS[name]
    is_quick = way == "quick" and "lse" not in name
    assert not _replay._plans.by_key
    make(10, **options)()
    assert len(_replay._plans.by_key) == 1
    (plan,) = _replay._plans.by_key.values()
    ran = []
    function = plan.function
    plan.function = lambda *args: ran.append(1) or function(*args)
    for seed in (23, 34, 45):
        call = make(seed, **options)
        expected = whole_way(call)
        found = call()
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            assert one.dtype == other.dtype and one.shape == other.shape
            assert one.stride() == other.stride()
            assert torch.equal(one.nan_to_num(), other.nan_to_num())
    quickly = [out for out in quick_runs if out is not None]
    assert (len(ran), len(quickly)) == ((0, 3) if is_quick else (3, 0))
    assert len(_replay._plans.by_key) == 1


def test_given_out(way: str, quick_runs: list) -> None:
    call = varlen(1)
    outs = [torch.empty(20, HEADS, DIM, dtype=torch.bfloat16, device=DEVICE) for _ in range(3)]
    expected = call()[0]
    forget()
    for out in outs:
        assert varlen(1, out=out)()[0] is out
        assert torch.equal(out, expected)
    assert len(_replay._plans.by_key) == 1
    assert len(quick_runs) == (2 if way == "quick" else 0)


def test_what_differs_has_its_own_plan() -> None:
    varlen(1)()
    varlen(1, causal=True)()
    varlen(1, num_splits=1)()
    varlen(1, window_size=(3, 3))()
    assert len(_replay._plans.by_key) == 4
    with pytest.raises(TypeError, match=r"num_splits is 1\.0"):
        varlen(1, num_splits=1.0)()
    q, k = normal(20, HEADS, DIM, seed=1), normal(31, KV_HEADS, DIM, seed=2)
    bounds = int32([0, 20]), int32([0, 31])
    for longest in (20, torch.tensor(20)):  # a tensor may hold another number the next time
        attnpress.flash_attn_varlen_func(q, k, k, *bounds, longest, 31)
    assert len(_replay._plans.by_key) == 5


def test_what_is_refused_after_the_same_call_with_a_number() -> None:
    varlen(1)()
    decode(1)()
    with pytest.raises(TypeError, match=r"dropout_p is None; it must be a number"):
        varlen(1, dropout_p=None)()
    with pytest.raises(TypeError, match=r"num_splits is 0\.0; it must be a whole number"):
        decode(1, num_splits=0.0)()


def test_layouts_after_many_others(way: str, quick_runs: list, monkeypatch) -> None:
    monkeypatch.setattr(_replay, "_MAX_QUICK", 2)
    calls = [varlen(1, softmax_scale=scale) for scale in (0.1, 0.2, 0.3)]
    expected = [call()[0] for call in calls]
    ran = []
    for i in (2, 2, 1, 1, 0, 0):
        quick_runs.clear()
        assert torch.equal(calls[i]()[0], expected[i])
        ran.append(len(quick_runs))
    # The first two were dropped for the third, and each is kept again when it comes again.
    assert ran == ([1, 1, 0, 1, 0, 1] if way == "quick" else [0] * 6)
    assert len(_replay._quick) <= 2


def test_gradients_go_the_whole_way() -> None:
    q, k = normal(20, HEADS, DIM, seed=1), normal(31, KV_HEADS, DIM, seed=2)
    bounds = int32([0, 20]), int32([0, 31])
    attnpress.flash_attn_varlen_func(q, k, k, *bounds, 20, 31)
    q.requires_grad_()
    out = attnpress.flash_attn_varlen_func(q, k, k, *bounds, 20, 31)
    assert out.requires_grad
    with torch.no_grad():
        again = attnpress.flash_attn_varlen_func(q, k, k, *bounds, 20, 31)
    assert not again.requires_grad and torch.equal(out, again)


def test_what_is_copied_is_not_kept() -> None:
    q, k = normal(21, HEADS, DIM, seed=1), normal(31, KV_HEADS, DIM, seed=2)
    bounds = int32([0, 20]), int32([0, 31])
    expected = attnpress.flash_attn_varlen_func(q[1:], k, k, *bounds, 20, 31)
    assert len(_replay._plans.by_key) == 1
    room = torch.empty(20 * HEADS * DIM + 4, dtype=torch.bfloat16, device=DEVICE)
    moved = room[4:].view(20, HEADS, DIM)  # at 8 bytes
    moved.copy_(q[1:])
    assert torch.equal(attnpress.flash_attn_varlen_func(moved, k, k, *bounds, 20, 31), expected)
    spread = int32([0, 0, 20, 0])[::2][:2]
    found = attnpress.flash_attn_varlen_func(q[1:], k, k, spread, bounds[1], 20, 31)
    assert torch.equal(found, expected)
    assert len(_replay._plans.by_key) == 1


def test_lengths_as_an_int() -> None:
    q = normal(BATCH, 1, HEADS, DIM, seed=1)
    cache = normal(BATCH, ROWS, KV_HEADS, DIM, seed=2)
    for used in (5, 5, 9):
        found = attnpress.flash_attn_with_kvcache(
            q, cache, cache, cache_seqlens=used, return_softmax_lse=True
        )
        expected = attnpress.flash_attn_func(q, cache[:, :used], cache[:, :used])
        assert torch.allclose(found[0].float(), expected.float(), atol=2e-2)
    assert len(_replay._plans.by_key) == 1


def test_queries_with_bounds_of_their_own() -> None:
    """One launch rotates new keys and queries where both have the same bounds; with others of the
    same shape queries stand elsewhere."""
    q, new = normal(4, HEADS, DIM, seed=1), normal(4, KV_HEADS, DIM, seed=2)
    cache = normal(2, ROWS, KV_HEADS, DIM, seed=3)
    angle = torch.arange(ROWS)[:, None] * 20.0 ** -torch.linspace(0, 1, DIM // 2)
    bounds, others = int32([0, 3, 4]), int32([0, 1, 4])

    def call(cu_seqlens_q):
        caches = cache.clone(), cache.clone()
        return attnpress.flash_attn_with_kvcache(
            q, *caches, new, new, angle.cos().to(DEVICE), angle.sin().to(DEVICE), int32([9, 5]),
            causal=True, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k_new=bounds, max_seqlen_q=3,
        )  # fmt: skip

    expected = whole_way(lambda: call(others))
    call(bounds)
    assert len(_replay._plans.by_key) == 1
    assert torch.equal(call(others), expected)


def test_tangents_are_refused() -> None:
    q, k = normal(20, HEADS, DIM, seed=1), normal(31, KV_HEADS, DIM, seed=2)
    bounds = int32([0, 20]), int32([0, 31])
    one, cache = normal(BATCH, 1, HEADS, DIM, seed=3), normal(BATCH, ROWS, KV_HEADS, DIM, seed=4)
    used = int32([5, 17, 0])
    calls = (
        (q, lambda q: attnpress.flash_attn_varlen_func(q, k, k, *bounds, 20, 31)),
        (one, lambda q: attnpress.flash_attn_with_kvcache(q, cache, cache, cache_seqlens=used)),
    )
    for given, call in calls:
        expected = call(given)
        for _ in range(2):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(given, torch.ones_like(given))
                with pytest.raises(NotImplementedError, match="forward-mode gradients"):
                    call(dual)
                assert torch.equal(call(given), expected)


class RaisesOnce(TorchDispatchMode):
    """Where PyTorch allocates for the library."""

    raised = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.empty.memory_format and not self.raised:
            self.raised = True
            raise ValueError("no memory")
        return function(*args, **(kwargs or {}))


def test_memory_that_raises(way: str, quick_runs: list) -> None:
    if way == "plain":
        pytest.skip("it allocates in Python")
    call = decode(1, new=1, rotary=True, causal=True)
    call()
    mode = RaisesOnce()
    with mode:
        found = call()
    assert mode.raised and quick_runs == [None]
    assert all(torch.equal(one, other) for one, other in zip(found, whole_way(call)))


def test_threads_keep_their_own() -> None:
    call = varlen(1)
    expected = call()[0]
    found = []

    def run() -> None:
        assert not _replay._plans.by_key
        found.extend(call()[0] for _ in range(2))
        assert len(_replay._plans.by_key) == 1

    thread = threading.Thread(target=run)
    _replay._quick.clear()  # which are all threads'
    thread.start()
    thread.join()
    assert len(found) == 2 and all(torch.equal(one, expected) for one in found)


def test_errors_are_those_of_the_whole_way() -> None:
    """What only the library finds out: a bad shape has another key, and is not kept."""
    varlen(1)()
    q, k = normal(20, HEADS, DIM, seed=1), normal(31, KV_HEADS, DIM, seed=2)
    for _ in range(2):
        with pytest.raises(ValueError, match="cu_seqlens_k has shape"):
            attnpress.flash_attn_varlen_func(q, k, k, int32([0, 20]), int32([0, 3, 31]), 20, 31)
    assert len(_replay._plans.by_key) == 1
