"""Calls that are known again (attnpress._replay): each is held, with other tensors, to what the
whole way gives, by the builtin function and without it. On a GPU where there is one."""

from __future__ import annotations

import os
import random
import threading

import pytest

import attnpress

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.autograd import forward_ad  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from attnpress import (  # noqa: E402
    _exchange,
    _replay,
    conv2d,
    layernorm,
    matmul,
    outer,
    softmax,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH, HEADS, KV_HEADS, DIM, ROWS = 3, 4, 2, 64, 48


def normal(*shape: int, seed: int) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return made.to(torch.bfloat16).to(DEVICE)


def int32(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def forget() -> None:
    _replay._plans.by_key.clear()
    _replay._kept.clear()
    _replay._kept_count = 0


def kept() -> int:
    """How many calls are."""
    return len(_replay._plans.by_key) + _replay._kept_count


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
def again(monkeypatch):
    """What calls made that were asked for again; None of those that are not known."""
    answers: list = []
    ask = _replay.again

    def counted(name, tensors):
        answers.append(ask(name, tensors))
        return answers[-1]

    monkeypatch.setattr(_replay, "again", counted)
    return answers


def whole_way(call):
    """What the call gives where nothing is known or kept, and everything that it wrote."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_replay, "again", lambda name, tensors: None)
        patch.setattr(_replay, "keep", lambda *given: None)
        return call()


def outcome(call):
    """What it gives, or the error's type and sentence."""
    try:
        return call()
    except Exception as error:
        return type(error), str(error)


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        alike = a.shape == b.shape and a.dtype == b.dtype and a.device == b.device
        strides = [[s for s, n in zip(x.stride(), x.shape) if n > 1] for x in (a, b)]
        bits = [x.detach().contiguous().view(torch.uint8) if x.ndim else x for x in (a, b)]
        return alike and strides[0] == strides[1] and torch.equal(*bits)
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


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
def test_known_again(name: str, again: list) -> None:
    make, options = CALLS[name]
    make(10, **options)()
    assert kept() == 1
    again.clear()
    for seed in (23, 34, 45):
        call = make(seed, **options)
        assert same(whole_way(call), call())
    assert len(again) == 3 and None not in again
    assert kept() == 1


def test_given_out(again: list) -> None:
    call = varlen(1)
    outs = [torch.empty(20, HEADS, DIM, dtype=torch.bfloat16, device=DEVICE) for _ in range(3)]
    expected = call()[0]
    forget()
    again.clear()
    for out in outs:
        assert varlen(1, out=out)()[0] is out
        assert torch.equal(out, expected)
    assert kept() == 1 and [found is not None for found in again] == [False, True, True]


def test_what_differs_has_its_own_plan() -> None:
    varlen(1)()
    varlen(1, causal=True)()
    varlen(1, num_splits=1)()
    varlen(1, window_size=(3, 3))()
    assert kept() == 4
    with pytest.raises(TypeError, match=r"num_splits is 1\.0"):
        varlen(1, num_splits=1.0)()
    q, k = normal(20, HEADS, DIM, seed=1), normal(31, KV_HEADS, DIM, seed=2)
    bounds = int32([0, 20]), int32([0, 31])
    for longest in (20, torch.tensor(20)):  # a tensor may hold another number the next time
        attnpress.flash_attn_varlen_func(q, k, k, *bounds, longest, 31)
    assert kept() == 5


def test_what_is_refused_after_the_same_call_with_a_number() -> None:
    varlen(1)()
    decode(1)()
    with pytest.raises(TypeError, match=r"dropout_p is None; it must be a number"):
        varlen(1, dropout_p=None)()
    with pytest.raises(TypeError, match=r"num_splits is 0\.0; it must be a whole number"):
        decode(1, num_splits=0.0)()


def test_layouts_after_many_others(way: str, again: list, monkeypatch) -> None:
    if way == "plain":
        pytest.skip("it has plans of each thread")
    monkeypatch.setattr(_replay, "_MAX_KEPT", 2)
    calls = [varlen(1, softmax_scale=scale) for scale in (0.1, 0.2, 0.3)]
    expected = [call()[0] for call in calls]
    again.clear()
    for i in (2, 2, 1, 1, 0, 0):
        assert torch.equal(calls[i]()[0], expected[i])
    # The first two were dropped for the third, and each is kept again when it comes again.
    assert [found is not None for found in again] == [True, True, False, True, False, True]
    assert len(_replay._kept) <= 2


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
    assert kept() == 1
    room = torch.empty(20 * HEADS * DIM + 4, dtype=torch.bfloat16, device=DEVICE)
    moved = room[4:].view(20, HEADS, DIM)  # at 8 bytes
    moved.copy_(q[1:])
    assert torch.equal(attnpress.flash_attn_varlen_func(moved, k, k, *bounds, 20, 31), expected)
    spread = int32([0, 0, 20, 0])[::2][:2]
    found = attnpress.flash_attn_varlen_func(q[1:], k, k, spread, bounds[1], 20, 31)
    assert torch.equal(found, expected)
    assert kept() == 1


def test_places_within_a_vector() -> None:
    """Tensors of one shape that are read where they lie, and copied first elsewhere."""
    sinks = normal(HEADS + 1, seed=3)
    room = normal(2 * 5 * HEADS * DIM + 8, seed=1)
    for begin in (0, 8, 4, 0, 4, 8):
        q = room[begin : begin + 2 * 5 * HEADS * DIM].view(2, 5, HEADS, DIM)
        for first in (0, 1):

            def call(q=q, first=first):
                return attnpress.flash_attn_func(q, q, q, sinks=sinks[first : first + HEADS])

            assert same(whole_way(call), call())


def test_which_tensors_are_the_same() -> None:
    """An address is found by comparing: two tensors at one may be at two in the next call."""
    q, k, v = (normal(2, 5, HEADS, DIM, seed=i) for i in range(3))
    sinks = normal(HEADS, seed=3)
    for tensors in ((q, q, q), (q, k, v), (q, k, k), (q, q, k), (q, k, v), (q, q, q), (k, q, k)):
        call = lambda t=tensors: attnpress.flash_attn_func(*t, sinks=sinks)  # noqa: E731
        assert same(whole_way(call), call())
    assert kept() == 5


def test_lengths_as_an_int() -> None:
    q = normal(BATCH, 1, HEADS, DIM, seed=1)
    cache = normal(BATCH, ROWS, KV_HEADS, DIM, seed=2)
    for used in (5, 5, 9):
        found = attnpress.flash_attn_with_kvcache(
            q, cache, cache, cache_seqlens=used, return_softmax_lse=True
        )
        expected = attnpress.flash_attn_func(q, cache[:, :used], cache[:, :used])
        assert torch.allclose(found[0].float(), expected.float(), atol=2e-2)
    assert kept() == 1


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
    assert kept() == 1
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


def test_memory_that_raises(way: str, again: list) -> None:
    if way == "plain":
        pytest.skip("it allocates in Python")
    call = decode(1, new=1, rotary=True, causal=True)
    call()
    again.clear()
    mode = RaisesOnce()
    with mode:
        found = call()
    assert mode.raised and again == [None]
    assert all(torch.equal(one, other) for one, other in zip(found, whole_way(call)))


def test_threads(way: str) -> None:
    """The builtin function's calls are all threads', the others a thread's own."""
    call = varlen(1)
    expected = call()[0]
    found = []

    def run() -> None:
        assert kept() == (way == "quick")
        found.extend(call()[0] for _ in range(2))
        assert kept() == 1

    thread = threading.Thread(target=run)
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
    assert kept() == 1


# ---- Tensors of features -------------------------------------------------------------------------


def featured(**options):
    """A call with sinks, known again after it was made here."""
    q, k, v = (normal(2, 5, heads, DIM, seed=heads) for heads in (HEADS, KV_HEADS, KV_HEADS))
    sinks = normal(HEADS, seed=9)

    def call(q=q, sinks=sinks, **more):
        return attnpress.flash_attn_func(q, k, v, sinks=sinks, **{**options, **more})

    call()
    return call, q, sinks


def test_sinks_of_a_module(again: list) -> None:
    """A parameter, with its gradient and without."""
    call, _, sinks = featured(causal=True)
    expected = call()
    again.clear()
    parameter = torch.nn.Parameter(sinks.clone())
    with torch.no_grad():
        assert torch.equal(call(sinks=parameter), expected)
        assert torch.equal(call(sinks=parameter), expected)
    assert again[-1] is not None
    gradients = []
    for _ in range(3):
        out = call(sinks=parameter)
        assert torch.equal(out, expected) and out.requires_grad
        gradients.append(torch.autograd.grad(out.float().square().sum(), parameter)[0])
    assert all(torch.equal(g, gradients[0]) for g in gradients) and gradients[0].abs().sum() > 0
    assert None not in again[-2:]


def test_what_was_saved_has_changed() -> None:
    call, q, sinks = featured()
    for _ in range(3):
        leaf, own = q.clone().requires_grad_(), sinks.clone()
        out = call(q=leaf, sinks=own)
        own.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.float().sum().backward()


def test_no_second_derivative() -> None:
    call, q, _ = featured()
    for _ in range(3):
        leaf = q.clone().requires_grad_()
        (found,) = torch.autograd.grad(call(q=leaf).float().square().sum(), leaf, create_graph=True)
        with pytest.raises(RuntimeError, match=r"once_differentiable|second derivatives"):
            found.float().sum().backward()


def test_features_that_are_refused() -> None:
    q, k = normal(2, 5, HEADS, DIM, seed=1), normal(2, 5, KV_HEADS, DIM, seed=2)
    slopes = torch.rand(HEADS, device=DEVICE)
    for _ in range(2):
        attnpress.flash_attn_func(q, k, k, alibi_slopes=slopes)
    with pytest.raises(NotImplementedError, match="no gradient by alibi_slopes"):
        attnpress.flash_attn_func(q, k, k, alibi_slopes=slopes.clone().requires_grad_())
    with pytest.raises(ValueError, match="s_aux and sinks are both given"):
        attnpress.flash_attn_func(q, k, k, s_aux=slopes, sinks=slopes)
    call, q, sinks = featured()
    with pytest.raises(NotImplementedError, match=r"torch\.func"):
        torch.func.vmap(lambda x: call(q=x))(q[None])
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=r"torch\.func"):
        call(sinks=sinks, q=forward_ad.make_dual(q, q))


OPTIONS: list[dict] = [
    {}, {"softmax_scale": 0.3}, {"softmax_scale": 1}, {"causal": True}, {"window_size": (2, 1)},
    {"window_size": (2, 0)}, {"softcap": 2.0}, {"deterministic": True},
]  # fmt: skip


@pytest.mark.parametrize(
    "kind", ["forward", "with an lse", "backward", "autograd", "ragged", "cache"]
)
def test_options_of_the_same_tensors(kind: str, again: list) -> None:
    """Each of a call's options has its own, and what a second tensor is counts."""
    q, k = normal(2, 5, HEADS, DIM, seed=1), normal(2, 5, KV_HEADS, DIM, seed=2)
    dout, bounds, used = normal(2, 5, HEADS, DIM, seed=3), int32([0, 5, 10]), int32([3, 5])
    sinks, slopes = normal(HEADS, seed=4), torch.rand(HEADS, device=DEVICE)
    bias = normal(2, HEADS, 5, 5, seed=5)
    out, lse = attnpress.forward(q, k, k, sinks=sinks)

    def call(options: dict, **features):
        options = dict(options)
        if kind == "backward":
            return attnpress.flash_attn_backward(
                dout, q, k, k, out, lse, **{"deterministic": True, **options, **features}
            )
        if kind in ("forward", "with an lse"):
            function = attnpress.forward if kind == "with an lse" else attnpress.flash_attn_func
            return function(q, k, k, **options, **features)
        if kind == "autograd":
            leaf = q.clone().requires_grad_()
            options["deterministic"] = True
            return torch.autograd.grad(
                attnpress.flash_attn_func(leaf, k, k, **options, **features), leaf, dout
            )
        options.pop("deterministic", None)
        if "sinks" in features:
            features["s_aux"] = features.pop("sinks")
        if kind == "cache":
            return attnpress.flash_attn_with_kvcache(
                q, k, k, cache_seqlens=used, **options, **features
            )
        rows, keys = q.flatten(0, 1), k.flatten(0, 1)
        return attnpress.flash_attn_varlen_func(
            rows, keys, keys, bounds, bounds, 5, 5, **options, **features
        )

    features: list[dict] = [{"sinks": sinks}, {"alibi_slopes": slopes}, {"bias": bias}]
    options_here = list(OPTIONS)
    if kind == "with an lse":
        options_here += [{"chunk": 2}, {"top_left": True, "causal": True}]
    for _ in range(2):
        for options in options_here:
            for each in features:
                expected = whole_way(lambda o=options, f=each: call(o, **f))
                for _ in range(2):
                    assert same(expected, call(options, **each)), (options, list(each))
    known = sum(found is not None for found in again)
    assert known > len(again) / 2


@pytest.mark.skipif(DEVICE != "cpu", reason="fp32 is the CPU's")
def test_autocast() -> None:
    q, k = (normal(2, 5, heads, DIM, seed=heads).float() for heads in (HEADS, KV_HEADS))
    for _ in range(3):
        assert attnpress.flash_attn_func(q, k, k, sinks=q[0, 0, :, 0]).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attnpress.flash_attn_func(q, k, k, sinks=q[0, 0, :, 0]).dtype == torch.bfloat16


def test_dropout_is_not_kept() -> None:
    """Another call has another seed."""
    seed = torch.tensor([1, 2], device=DEVICE)
    q = normal(2, 5, HEADS, DIM, seed=1)
    for _ in range(2):
        attnpress.flash_attn_func(q, q, q, 0.5, seed=seed, sinks=q[0, 0, :, 0])
    assert kept() == 0


# ---- Random calls --------------------------------------------------------------------------------


class Draw:
    """Random arguments: the same of each `Draw` with the same seed. The tensors' values are those
    of the seed `values`, and they lie elsewhere."""

    def __init__(self, seed: int, values: int) -> None:
        self.of = random.Random(seed)
        self.generator = torch.Generator().manual_seed(values)
        self.kept: list = []  # other memory, so that addresses differ

    def __call__(self, *choices):
        return self.of.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.of.random() < probability

    def tensor(self, *shape: int, dtype=torch.bfloat16, lies: bool = True) -> torch.Tensor:
        """As it may lie in memory."""
        new = torch.randn(*shape, generator=self.generator).to(DEVICE, dtype)
        kind = self.of.randrange(10) if lies else 9
        if kind == 0 and new.ndim > 2:
            new = new.transpose(0, 1).contiguous().transpose(0, 1)
        elif kind == 1:  # longer rows
            new = torch.cat([new, new], -1)[..., : shape[-1]]
        elif kind == 2 and self.chance(0.3):  # not aligned
            new = torch.cat([new, new[..., :1]], -1)[..., 1:]
        elif kind == 3 and self.chance(0.3):  # the last dimension is not the inner one
            new = new.transpose(-1, -2).contiguous().transpose(-1, -2) if new.ndim > 1 else new
        elif kind == 4:  # within others
            new = torch.stack([new, new])[1]
        self.kept.append(torch.empty(16 * (1 + self.generator.initial_seed() % 50)))
        return new

    def parameter(self, *shape: int, dtype=None) -> torch.Tensor:
        """Of one dimension, or of other than the calls' dtype."""
        dtype = self(torch.float32, torch.bfloat16, torch.float16) if dtype is None else dtype
        made = self.tensor(*shape, dtype=dtype)
        return torch.nn.Parameter(made, requires_grad=False) if self.chance(0.3) else made

    def features(self, batch: int, heads: int, queries: int, keys: int, sinks: str) -> dict:
        found: dict = {
            "causal": self(False, True),
            "window_size": self((-1, -1), (-1, -1), (5, 0), (3, 4)),
            "softcap": self(0.0, 0.0, 5.0),
            "softmax_scale": self(None, None, 0.3),
        }
        kinds = self(("sinks",), ("sinks",), ("slopes",), ("bias",), ("sinks", "slopes", "bias"))
        if "sinks" in kinds:
            found[sinks] = self.parameter(heads + self.chance(0.03))
        if "slopes" in kinds:
            shape = self((heads,), (batch, heads))
            found["alibi_slopes"] = self.parameter(*shape, dtype=torch.float32).abs()
        if "bias" in kinds:
            shape = (self(1, batch), self(1, heads), self(1, queries), keys)
            found["bias"] = self.parameter(*shape)
        return found


def shapes_of(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Of q, k and v: (batch, seqlen, heads, head_dim)."""
    batch, queries, keys = draw(1, 2, 3), draw(0, 1, 5, 17), draw(1, 9, 33)
    heads_kv, dim = draw(1, 2), draw(16, 64, 64, 12)
    shape = (batch, keys, heads_kv, dim)
    return (batch, queries, heads_kv * draw(1, 2), dim), shape, (*shape[:3], draw(dim, dim, 32))


def dense(draw: Draw):
    shapes = shapes_of(draw)
    q, k, v = (draw.tensor(*shape) for shape in shapes)
    (batch, queries, heads, _), keys = shapes[0], shapes[1][1]
    options = draw.features(batch, heads, queries, keys, "sinks")
    if draw.chance(0.3):
        return attnpress.forward(q, k, v, **options, top_left=draw(False, True), chunk=draw(0, 4))
    return attnpress.flash_attn_func(q, k, v, **options, return_attn_probs=draw(False, True))


def recorded(draw: Draw):
    shapes = shapes_of(draw)
    leaves = [draw.tensor(*shape).detach().requires_grad_(draw.chance(0.8)) for shape in shapes]
    (batch, queries, heads, _), keys = shapes[0], shapes[1][1]
    options = draw.features(batch, heads, queries, keys, "sinks")
    for name in ("sinks", "bias"):
        if name in options and draw.chance(0.6):
            leaves.append(options[name].detach().requires_grad_())
            options[name] = leaves[-1]
    with_lse = draw(False, True)
    found = attnpress.flash_attn_func(
        *leaves[:3], **options, return_attn_probs=with_lse, deterministic=True
    )
    out, lse = found[:2] if with_lse else (found, None)
    if not out.requires_grad:
        return out
    loss = (out.float() ** 2).sum()
    if lse is not None and draw(False, True):
        loss = loss * draw(0.0, 1.0) + torch.where(lse.isinf(), 0, lse).square().sum()
    loss.backward()
    return (out, *(x.grad for x in leaves if x.grad is not None))


def gradients(draw: Draw):
    shapes = shapes_of(draw)
    q, k, v = (draw.tensor(*shape) for shape in shapes)
    (batch, queries, heads, _), keys = shapes[0], shapes[1][1]
    options = draw.features(batch, heads, queries, keys, "sinks")
    if draw.chance(0.3):
        for name in ("sinks", "bias", "alibi_slopes"):
            options.pop(name, None)
    out, lse = attnpress.forward(q, k, v, **options)
    dout = draw.tensor(*out.shape)
    dlse = draw.tensor(*lse.shape, dtype=draw(torch.float32, torch.bfloat16))
    return attnpress.flash_attn_backward(
        dout, q, k, v, out, lse, deterministic=True, dsoftmax_lse=draw(None, dlse), **options
    )


def sequences(draw: Draw):
    """Of their own lengths, in pages or not."""
    batch, heads_kv, dim = draw(1, 3), draw(1, 2), draw(16, 64)
    heads = heads_kv * draw(1, 2)
    starts = int32([0, 4, 9, 20][: batch + 1])
    total = 20 if batch == 3 else 4
    pages = draw(None, None, 16)
    options = draw.features(batch, heads, 20, 20, "s_aux")
    if pages:
        options["block_table"] = int32([[2], [0], [1]][:batch])
        options["seqused_k"] = int32([3, 5, 11][:batch])
        options.pop("bias", None)
    kv = (3, pages, heads_kv, dim) if pages else (total, heads_kv, dim)
    q, k, v = draw.tensor(total, heads, dim), draw.tensor(*kv), draw.tensor(*kv)
    if draw.chance(0.3):
        options["out"] = torch.empty(total, heads, dim, dtype=q.dtype, device=DEVICE)
    return attnpress.flash_attn_varlen_func(
        q, k, v, starts, None if pages else starts, 20, 20, **options,
        return_attn_probs=draw(False, True), batch_invariant=draw(False, False, True),
    )  # fmt: skip


def cached(draw: Draw):
    batch, heads_kv, dim, queries = draw(1, 3), draw(1, 2), draw(16, 64), draw(1, 1, 3)
    heads = heads_kv * draw(1, 2)
    options = draw.features(batch, heads, queries, 24, "s_aux")
    pages = draw(None, 8)
    if pages:
        options["block_table"] = int32([[2, 5, 1], [0, 3, 8], [4, 6, 7]][:batch])
    caches = [
        draw.tensor(*((9, pages) if pages else (batch, 24)), heads_kv, dim, lies=False)
        for _ in "kv"
    ]
    if draw.chance(0.5):
        options["k"] = draw.tensor(batch, queries, heads_kv, dim)
        options["v"] = options["k"] if draw.chance(0.3) else draw.tensor(*options["k"].shape)
        if draw.chance(0.5):
            options["rotary_cos"], options["rotary_sin"] = (
                draw.tensor(32, dim // 2, dtype=torch.float32, lies=False) for _ in "cs"
            )
    used = draw(7, int32([3 + draw.generator.initial_seed() % 9, 7, 20][:batch]))
    found = attnpress.flash_attn_with_kvcache(
        draw.tensor(batch, queries, heads, dim), *caches, cache_seqlens=used, **options,
        return_softmax_lse=draw(False, True), num_splits=draw(0, 0, 2),
    )  # fmt: skip
    return (found, *caches)


def appended(draw: Draw):
    batch, new, heads, dim = draw(1, 2), draw(1, 3), draw(1, 2), draw(16, 64)
    k = draw.tensor(batch, new, heads, dim)
    v = draw(k, draw.tensor(batch, new, heads, dim))
    caches = [draw.tensor(batch, 16, heads, dim, lies=draw.chance(0.3)) for _ in "kv"]
    options: dict = {"seqused_k": int32([2, 5][:batch]), "interleaved": draw(False, True)}
    if draw.chance(0.3):
        options = {"slot_mapping": torch.arange(batch * new, device=DEVICE).reshape(batch, new)}
    if draw.chance(0.5):
        options["cos"] = draw.tensor(32, dim // 2, dtype=torch.float32)
        options["sin"] = draw.tensor(32, dim // 2, dtype=torch.float32)
        options["q"] = draw.tensor(batch, new, 2 * heads, dim)
        options["q_out"] = draw(None, torch.empty_like(options["q"]))
    return attnpress.append(k, v, *caches, **options), *caches, options.get("q")


def merged(draw: Draw):
    count, shape = draw(1, 2, 3), draw((2, 5, 4, 64), (7, 2, 16))
    rows = (shape[1], shape[0]) if len(shape) == 3 else (shape[0], shape[2], shape[1])
    outs = [draw.tensor(*shape) for _ in range(count)]
    lses = [draw.tensor(*rows, dtype=torch.float32) for _ in range(count)]
    options: dict = {"log2": draw(False, True)}
    if draw.chance(0.3):
        options = {"out": outs[-1], "lse": lses[-1]}
    if draw.chance(0.1):
        options["dtype"] = torch.float32
    return attnpress.merge(outs, lses, **options)


def rows_of(draw: Draw, dtype=torch.bfloat16, columns: int = 64) -> torch.Tensor:
    return draw.tensor(*draw((5,), (1,), (2, 3), ()), columns, dtype=dtype)


def soft(draw: Draw):
    x = rows_of(draw, draw(torch.bfloat16, torch.float32))
    out = draw(None, None, x, torch.empty_like(x))
    scale = draw(1.0, 0.5, 2, 0.0, "1")
    if draw.chance(0.5):
        return softmax.softmax(x, scale, out)
    return softmax.softmax_backward(x, x.clone(), scale, out)


def normed(draw: Draw):
    x = rows_of(draw, draw(torch.bfloat16, torch.float32))
    weight, bias = (draw(None, draw.parameter(64, dtype=torch.float32)) for _ in "wb")
    residual = draw(None, x.clone(), x)
    eps, rms = draw(1e-5, 1, 0.0), draw(False, True)
    if draw.chance(0.5):
        leaves = [y for y in (x, weight, bias, residual) if y is not None]
        leaves = {id(y): y.detach().requires_grad_() for y in leaves}
        given = [None if y is None else leaves[id(y)] for y in (x, weight, bias, residual)]
        if rms:
            found = layernorm.rms_norm(given[0], given[1], eps, given[3])
        else:
            found = layernorm.layer_norm(*given[:3], eps, given[3])
        outs = found if isinstance(found, tuple) else (found,)
        sum(y.float().square().sum() for y in outs).backward()
        return (*outs, *(y.grad for y in leaves.values() if y.grad is not None))
    out = draw(None, None, x, torch.empty_like(x))
    if draw.chance(0.5):
        return layernorm.forward(x, weight, bias, eps, residual, out, rms, draw(False, True))
    return layernorm.layer_norm(x, weight, bias, eps, residual, out)


def multiplied(draw: Draw):
    x, w = rows_of(draw), draw.tensor(64 + 8 * draw.chance(0.05), 64)
    w = draw(w, w.t(), w.float(), torch.nn.Parameter(w, requires_grad=False))
    if draw.chance(0.5):
        return matmul.matmul_(x, w, draw(False, True))
    leaves = [x.detach().requires_grad_(), w.detach().requires_grad_(draw(False, True))]
    found = matmul.matmul(*leaves, draw(False, True))
    found.float().square().sum().backward()
    return (found, *(y.grad for y in leaves))


def outers(draw: Draw):
    x = rows_of(draw)
    y = draw(x, x.clone(), rows_of(draw, columns=32))
    leaves = [z.detach().requires_grad_(draw(False, True)) for z in (x, y)]
    found = outer.outer(*leaves, draw(False, True))
    if found.requires_grad:
        found.float().square().sum().backward()
    return (found, *(z.grad for z in leaves))


def convolved(draw: Draw):
    x, weight = draw.tensor(2, 8, 9, 8, lies=False), draw.tensor(8, 3, 3, 8, lies=False)
    if draw.chance(0.8):
        x, weight = x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2)
    else:
        x, weight = draw.tensor(2, 8, 9, 8), draw.tensor(8, 8, 3, 3)
    bias = draw(None, draw.tensor(8, lies=False))
    steps = draw(1, 2, (1, 2)), draw(0, 1, (1, 0), -1), draw(1, 2)
    leaves = [y if y is None else y.detach().requires_grad_(draw(False, True))
              for y in (x, weight, bias)]  # fmt: skip
    found = conv2d.conv2d(*leaves, *steps, relu=draw(False, True))
    if found.requires_grad:
        found.float().square().sum().backward()
    return (found, *(y.grad for y in leaves if y is not None))


KINDS = {
    f.__name__: f
    for f in (
        dense, recorded, gradients, sequences, cached, appended, merged, soft, normed, multiplied,
        outers, convolved,
    )
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_random_calls(kind: str, again: list) -> None:
    count = int(os.environ.get("ATTNPRESS_RANDOM_CALLS", "60"))
    raised = 0
    for seed in range(count):

        def call(values: int, seed: int = seed):
            draw = Draw(seed, values)
            return outcome(lambda: KINDS[kind](draw))

        first = call(1)
        raised += isinstance(first, tuple) and isinstance(first[0], type)
        call(2)
        for values in (3, 4):
            assert same(whole_way(lambda values=values: call(values)), call(values)), (kind, seed)
    known = sum(found is not None for found in again)
    assert known >= count - raised, (known, raised)
    assert raised < count / 2
