"""The quick way of calls on PyTorch tensors (_exchange.py) against the other way, bit for bit and
sentence for sentence; whom it leaves to the other; what it keeps and what it hands back."""

from __future__ import annotations

import ctypes
import gc
import os
import random
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import attnpress  # noqa: E402
from attnpress import _exchange as exchange  # noqa: E402
from attnpress import _torch as direct  # noqa: E402

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(attnpress.__file__))

pytestmark = pytest.mark.skipif(
    exchange.functions is None, reason="this PyTorch or Python has no quick way"
)
HAS_CUDA = torch.cuda.is_available()
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="there is no CUDA device")
DEVICES = ["cpu", *(["cuda"] if HAS_CUDA else [])]


class Ways:
    """Which way calls go, and how many went the quick one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.is_open, self.taken = True, 0
        for name in ("_quick_forward", "_quick_backward", "_quick_cache"):
            patch.setattr(direct, name, self._counted(getattr(direct, name)))

    def _counted(self, function):
        def call(*args):
            found = function(*args) if self.is_open else None
            self.taken += found is not None
            return found

        return call

    def know(self, device="cpu", **options) -> None:
        """known(); from here on calls are counted."""
        known(device, **options)
        self.taken = 0

    def slowly(self, function):
        self.is_open = False
        try:
            return function()
        finally:
            self.is_open = True


@pytest.fixture
def ways(monkeypatch):
    return Ways(monkeypatch)


def outcome(function):
    """What it returns, or the error's type and sentence."""
    try:
        return function()
    except Exception as error:
        return type(error), str(error)


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        strides = [tuple(s for s, extent in zip(x.stride(), x.shape) if extent > 1) for x in (a, b)]
        alike = a.shape == b.shape and a.dtype == b.dtype and a.device == b.device
        return alike and strides[0] == strides[1] and torch.equal(a, b)
    if isinstance(a, tuple) and a and isinstance(a[0], torch.Tensor):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def tensors(shape=(2, 24, 4, 64), dtype=torch.bfloat16, device="cpu", heads_kv=None):
    """q, k and v."""
    generator = torch.Generator().manual_seed(7)
    kv = (*shape[:2], heads_kv or shape[2], shape[3])
    return [torch.randn(s, generator=generator).to(device, dtype) for s in (shape, kv, kv)]


def known(device="cpu", **options) -> None:
    """Lets calls with these options go the quick way: the first of them does not."""
    q, k, v = (x.requires_grad_() for x in tensors((1, 4, 1, 8), device=device))
    attnpress.flash_attn_func(q, k, v, **options).float().square().sum().backward()


# ---- The same results, the same errors -----------------------------------------------------------


def laid_out(draw: random.Random, shape, dtype, device):
    """A tensor of a shape, as it may lie in memory."""
    b, s, h, d = shape
    new = torch.randn(shape, device=device).to(dtype)
    kind = draw.randrange(8)
    if kind == 0:  # (batch, heads, seqlen, head_dim)
        return new.transpose(1, 2).contiguous().transpose(1, 2)
    if kind == 1:  # a part of a packed tensor
        return torch.stack([new, new, new], 2)[:, :, draw.randrange(3)]
    if kind == 2:  # longer rows
        return torch.cat([new, new], 3)[..., :d]
    if kind == 3 and draw.random() < 0.5:  # not aligned
        return torch.cat([new, new[..., :1]], 3)[..., 1:]
    if kind == 4:  # the same for the whole batch
        return new[:1].expand(b, s, h, d) if b else new
    if kind == 5 and draw.random() < 0.3:  # the last dimension is not the inner one
        return new.transpose(2, 3).contiguous().transpose(2, 3)
    return new


def drawn(draw: random.Random, device: str):
    """Arguments of a call, most of them allowed."""
    b, s, n = (
        draw.choice([0, 1, 1, 2, 3]),
        draw.choice([0, 1, 1, 5, 17, 33]),
        draw.choice([1, 9, 40]),
    )
    heads_kv, group = draw.choice([1, 2]), draw.choice([1, 1, 2, 4])
    d = draw.choice([8, 16, 40, 64, 64, 64, 128, 12])
    dv = draw.choice([d] * 8 + [d + 8, 128])
    h = heads_kv * group + (draw.random() < 0.05)
    dtypes = [draw.choice([torch.float16, torch.bfloat16, torch.bfloat16])] * 3
    if draw.random() < 0.1:
        dtypes[draw.randrange(3)] = draw.choice([torch.float32, torch.float16, torch.float64])
    if draw.random() < 0.05:
        dtypes = [torch.float32] * 3
    shapes = [(b, s, h, d), (b, n, heads_kv, d), (b, n, heads_kv, dv)]
    if draw.random() < 0.05:
        shapes[draw.randrange(1, 3)] = (b + 1, n, heads_kv, d)
    values = [laid_out(draw, *x, device) for x in zip(shapes, dtypes)]
    if draw.random() < 0.03:
        values[draw.randrange(3)] = draw.choice(
            [None, 3, values[0].flatten(1), [1.0], values[0].cpu().float().numpy()]
        )
    options = {
        "softmax_scale": draw.choice(
            [None, None, 0.125, 1, -1.0, 0.0, float("nan")][: draw.choice([4, 7])]
        ),
        "causal": draw.choice([False, True]),
        "window_size": draw.choice([(-1, -1)] * 4 + [(5, 0), [3, 4], (-1, 2), (1, -7)]),
        "softcap": draw.choice([0.0] * 5 + [15.0]),
    }
    return values, options


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(4))
def test_random_calls(ways, device, seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for number in range(200):
        values, options = drawn(draw, device)
        function = draw.choice([attnpress.flash_attn_func] * 3 + [attnpress.forward])
        if function is attnpress.flash_attn_func:
            options["return_attn_probs"] = draw.random() < 0.3

        def call(values=values, options=options, function=function):
            return function(*values, **options)

        slow = outcome(lambda call=call: ways.slowly(call))
        assert same(slow, outcome(call)), (seed, number, options)
    assert ways.taken > 40


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(3))
def test_random_gradients(ways, device, seed):
    draw = random.Random(100 + seed)
    torch.manual_seed(seed)
    for number in range(80):
        values, options = drawn(draw, device)
        options |= {"return_attn_probs": draw.random() < 0.3, "deterministic": True}
        wanted = [draw.random() < 0.7 for _ in range(3)]
        kind, with_dlse = draw.randrange(3), draw.random() < 0.5

        def call(values=values, options=options, wanted=wanted, kind=kind, with_dlse=with_dlse):
            leaves = [
                x.detach().requires_grad_(w) if isinstance(x, torch.Tensor) else x
                for x, w in zip(values, wanted)
            ]
            found = attnpress.flash_attn_func(*leaves, **options)
            out, lse = found[:2] if isinstance(found, tuple) else (found, None)
            if not out.requires_grad:
                return (out,)
            loss = [out.float().sum(), (out.float() ** 2).sum(), out.transpose(1, 2).max()][
                kind if out.numel() else 0
            ]
            if lse is not None and with_dlse:
                loss = loss + torch.where(lse.isinf(), 0, lse).square().sum()
            loss.backward()
            return (out.detach(), *(x.grad for x in leaves if x.grad is not None))

        slow = outcome(lambda call=call: ways.slowly(call))
        assert same(slow, outcome(call)), (seed, number, options)
    assert ways.taken > 30


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("seed", range(2))
def test_random_backward_calls(ways, device, seed):
    """flash_attn_backward(), without tensors of features; tests/test_replay.py has those with."""
    draw = random.Random(200 + seed)
    torch.manual_seed(seed)
    for number in range(80):
        values, options = drawn(draw, device)
        forward = outcome(lambda v=values, o=options: attnpress.forward(*v, **o))
        if not isinstance(forward[0], torch.Tensor):
            continue
        out, lse = (laid_out(draw, x.shape, x.dtype, device) if x.ndim == 4 else x for x in forward)
        dout = laid_out(draw, out.shape, draw.choice([out.dtype] * 9 + [torch.float32]), device)
        dlse = draw.choice([None, torch.randn_like(lse), torch.randn_like(lse)[:, :1]])
        options |= {"deterministic": True, "dsoftmax_lse": dlse}

        def call(values=values, options=options, rest=(out, lse), dout=dout):
            return attnpress.flash_attn_backward(dout, *values, *rest, **options)

        slow = outcome(lambda call=call: ways.slowly(call))
        assert same(slow, outcome(call)), (seed, number, options)
    assert ways.taken > 10


@pytest.mark.parametrize("device", DEVICES)
def test_it_is_taken(ways, device):
    """Of ordinary calls all but the first of their kind go the quick way."""
    q, k, v = tensors(device=device, heads_kv=2)
    for options in (
        {},
        {"causal": True},
        {"window_size": (7, 0)},
        {"softcap": 30.0, "causal": True},
    ):
        ways.know(device, **options)
        for x in (q, q.transpose(1, 2).contiguous().transpose(1, 2), q[:1, :1]):
            attnpress.flash_attn_func(x, k[: len(x)], v[: len(x)], **options)
            attnpress.flash_attn_func(
                x, k[: len(x)], v[: len(x)], return_attn_probs=True, **options
            )
        assert ways.taken == 6
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = attnpress.flash_attn_func(*leaves, **options)
        torch.autograd.grad(out, leaves, torch.ones_like(out))
        assert ways.taken == 8
        out, lse = attnpress.forward(q, k, v, **options)
        attnpress.flash_attn_backward(out, q, k, v, out, lse, **options)
        assert ways.taken == 10


def test_other_shapes_need_no_plan_of_their_own(ways):
    ways.know()
    plans = dict(direct._plans.by_key)
    for seqlen in range(1, 20):
        attnpress.flash_attn_func(*tensors((1, seqlen, 2, 16)))
    assert ways.taken == 19 and direct._plans.by_key == plans


# ---- What goes the other way ---------------------------------------------------------------------


class Derived(torch.Tensor):
    pass


def test_derived_tensors(ways):
    ways.know()
    q, k, v = tensors()
    for values in (
        (Derived(q), k, v),
        (q, k.as_subclass(Derived), v),
        (torch.nn.Parameter(q), k, v),
    ):
        with torch.no_grad():
            found = attnpress.flash_attn_func(*values)
        assert torch.equal(torch.as_tensor(found), attnpress.flash_attn_func(q, k, v))
    assert ways.taken == 3


def test_transforms_and_tangents(ways):
    ways.know()
    q, k, v = tensors()
    with pytest.raises(NotImplementedError, match=r"torch\.func"):
        torch.func.vmap(attnpress.flash_attn_func)(q[None], k[None], v[None])
    with pytest.raises(NotImplementedError, match=r"torch\.func"):
        torch.func.grad(lambda x: attnpress.flash_attn_func(x, k, v).sum())(q)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(q, q)
        with pytest.raises(NotImplementedError, match=r"torch\.func"):
            attnpress.flash_attn_func(dual, k, v)
    assert ways.taken == 0


def test_autocast_and_floats(ways):
    ways.know()
    q, k, v = tensors(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attnpress.flash_attn_func(q, k, v).dtype == torch.bfloat16
        assert attnpress.flash_attn_func(q.bfloat16(), k, v).dtype == torch.bfloat16
    taken = ways.taken
    assert attnpress.flash_attn_func(q, k, v).dtype == torch.float32
    assert ways.taken == taken


def test_meta_and_fake_tensors(ways):
    ways.know()
    from torch._subclasses.fake_tensor import FakeTensorMode

    with pytest.raises(ValueError, match="meta"):
        attnpress.flash_attn_func(*(x.to("meta") for x in tensors()))
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(x) for x in tensors()]
        assert attnpress.flash_attn_func(*fakes).shape == fakes[0].shape
    assert ways.taken == 0


def test_it_can_be_switched_off():
    script = (
        "import torch, attnpress; from attnpress import _exchange as e\n"
        "x = torch.ones(1, 2, 1, 8, dtype=torch.float16)\n"
        "for _ in range(3): attnpress.flash_attn_func(x, x, x)\n"
        "print(e.functions is None, len(e.forward_templates))"
    )
    for value, expected in (("1", "True 0"), ("0", "False 1"), ("", "False 1")):
        env = {**os.environ, "ATTNPRESS_EXCHANGE_OFF": value, "PYTHONPATH": PACKAGE_FOLDER}
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True
        )
        assert done.stdout.strip() == expected, done.stderr


def test_a_table_that_does_not_tell_the_truth():
    true = exchange._interface()
    assert true is not None and exchange._tells_the_truth(true)
    table = exchange._Interface.from_buffer_copy(true)
    for answer in (0, -1):
        table.look = ctypes.cast(
            kept := ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(
                lambda tensor, to, answer=answer: answer
            ),
            ctypes.c_void_p,
        ).value
        assert not exchange._tells_the_truth(table), kept


# ---- What it keeps and what it hands back --------------------------------------------------------


def test_outputs_are_ordinary_tensors(ways):
    """Made by PyTorch's own function: their memory is the allocator's, so that record_stream() and
    resizing know it."""
    ways.know()
    q, k, v = tensors()
    out = attnpress.flash_attn_func(q, k, v)
    assert ways.taken == 1
    assert type(out) is torch.Tensor and out._base is None and out.is_leaf
    assert not out.requires_grad and out.untyped_storage().resizable()
    assert out.untyped_storage().nbytes() == out.numel() * 2
    out.resize_(3, 100, 100)


def held() -> int:
    gc.collect()
    return sum(issubclass(type(x), torch.Tensor) for x in gc.get_objects())


class MallocInfo(ctypes.Structure):
    """mallinfo2 of glibc"""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def in_use() -> tuple[int, int]:
    """Bytes that are handed out by malloc, of all arenas, and blocks by Python's own allocator. Not
    the process's resident memory, which threads' arenas move by megabytes either way."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:  # before glibc 2.33
        return 0, sys.getallocatedblocks()
    mallinfo.restype = MallocInfo
    info = mallinfo()
    return info.uordblks + info.hblkhd, sys.getallocatedblocks()


@pytest.mark.parametrize("device", DEVICES)
def test_ten_thousand_calls_keep_nothing(ways, device):
    ways.know(device)
    q, k, v = tensors((1, 2, 1, 8), device=device)
    odd = q[..., ::1].transpose(2, 3).contiguous().transpose(2, 3).double()  # refused
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    dout = torch.ones_like(q)

    def calls(count: int) -> None:
        for _ in range(count):
            attnpress.flash_attn_func(q, k, v)
            attnpress.flash_attn_func(q, k, v, return_attn_probs=True)
            direct._quick_forward(next(iter(exchange.forward_templates.values())), odd, k, v, None)
            torch.autograd.grad(attnpress.flash_attn_func(*leaves), leaves, dout)

    def state() -> tuple:
        memory = torch.cuda.memory_allocated() if device == "cuda" else 0
        everything = (*leaves, q, k, v, odd, dout, torch.Tensor, torch.empty_like)
        return held(), memory, [sys.getrefcount(x) for x in everything]

    def gradients_of_pytorch(count: int) -> None:
        for _ in range(count):
            torch.autograd.grad(leaves[0] * leaves[1], leaves[:2], dout)

    calls(500)
    before, (size, blocks) = state(), in_use()
    calls(2500)  # of four each
    assert state() == before
    more, more_blocks = in_use()
    assert more - size < 32 * 2500  # bytes; malloc's least is 32 a call
    # On a GPU a gradient of PyTorch's own keeps two of Python's blocks (2.11).
    gradients_of_pytorch(2500)
    theirs = in_use()[1] - more_blocks
    assert more_blocks - blocks < 1250 + max(theirs, 0)


def test_what_making_an_output_raises_is_passed_on(monkeypatch):
    known()
    q, k, v = tensors()
    template = next(iter(exchange.forward_templates.values()))

    def fail(like):
        raise KeyError("no memory")

    before = sys.getrefcount(q)
    monkeypatch.setattr(exchange._exchange, "make", id(fail))
    for _ in range(100):
        with pytest.raises(KeyError, match="no memory"):
            exchange.functions.forward(template, q, k, v, None)
    assert sys.getrefcount(q) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda x: None,
        lambda x: torch.empty(3),
        lambda x: x.double(),
        lambda x: torch.empty(x.shape[::-1], dtype=x.dtype).permute(3, 2, 1, 0),
        lambda x: x.as_subclass(Derived),
        lambda x: torch.empty((*x.shape[:3], 2 * x.shape[3]), dtype=x.dtype)[..., ::2],
    ],
)
def test_outputs_that_are_not_as_they_should_be(monkeypatch, make):
    known()
    template = next(iter(exchange.forward_templates.values()))
    monkeypatch.setattr(exchange._exchange, "make", id(make))
    assert exchange.functions.forward(template, *tensors(), None) is None


def test_wrong_arguments_of_the_entries():
    known()
    q, k, v = tensors()
    template = next(iter(exchange.forward_templates.values()))
    forward = exchange.functions.forward
    lse = torch.empty(2, 4, 24)
    assert torch.equal(forward(template, q, k, v, lse), forward(template, q, k, v, None))
    bad = [
        (), (template,), (template, q, k, v), (0, q, k, v, None), ("x", q, k, v, None),
        (template, q, k, None, None), (template, None, k, v, None), (template, q, k, v, q),
        (template, q, k, v, lse.double()), (template, q, k, v, lse.transpose(1, 2)),
        (template, q, k, v, torch.empty(2, 24, 4).transpose(1, 2)), (template, q[0], k, v, None),
        (template, q, k.half(), v, None), (template, q, k, v.to("meta"), None),
        (next(iter(exchange.backward_templates.values())), q, k, v, None),
    ]  # fmt: skip
    for args in bad:
        assert forward(*args) is None
    with pytest.raises(TypeError):
        forward(template, q=q)


# ---- Over a cache --------------------------------------------------------------------------------


def a_cache(device: str, paged: bool, seed: int = 0):
    """q, k_cache and v_cache, and cache_seqlens and block_table as options."""
    q, k, v = (x + seed for x in tensors((3, 32, 4, 64), device=device, heads_kv=2))
    options = {"cache_seqlens": torch.tensor([5, 32, 0], dtype=torch.int32, device=device)}
    if paged:
        order = torch.tensor([5, 0, 3, 1, 4, 2], dtype=torch.int32, device=device)
        options["block_table"] = order.view(3, 2)
        k, v = (x.reshape(6, 16, 2, 64)[order.argsort()] for x in (k, v))
    return (q[:, :2], k, v), options


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize(
    "more",
    [{}, {"causal": True}, {"softmax_scale": 0.3, "num_splits": 2}, {"batch_invariant": True}],
)
def test_over_a_cache(ways, device, paged, more):
    places, options = a_cache(device, paged)
    attnpress.flash_attn_with_kvcache(*places, **options, **more)
    ways.taken = 0
    for seed in range(3):
        places, options = a_cache(device, paged, seed)
        found = attnpress.flash_attn_with_kvcache(*places, **options, **more)
        assert ways.taken == seed + 1
        assert same(
            found,
            ways.slowly(
                lambda: attnpress.flash_attn_with_kvcache(*places, **options, **more)  # noqa: B023
            ),
        )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("paged", [False, True])
def test_over_a_cache_what_is_not_ordinary(ways, device, paged):
    """Such calls go the other way, and say what they say there."""
    places, options = a_cache(device, paged)
    q, k, v = places
    used, table = options["cache_seqlens"], options.get("block_table")
    attnpress.flash_attn_with_kvcache(*places, **options)
    ways.taken = 0
    tables = [table] if table is None else [table, table[:2], table.long(), table[0]]
    calls = [
        (q, k, v, *rest)
        for rest in (
            (used.long(), table), (used[:2], table), (used[None], table), (20, table),
            (torch.stack([used, used], 1)[:, 0], table), *((None, x) for x in tables),
            *((used, x) for x in tables[1:]),
        )
    ]  # fmt: skip
    calls += [
        (q.clone().requires_grad_(), k, v, used, table), (q[0], k, v, used, table),
        (q, k[:, :7], v, used, table), (q, k.half(), v, used, table), (q, k, None, used, table),
        *([] if paged else [(q, k[:2], v[:2], used, None)]), (q.transpose(2, 3), k, v, used, table),
        (q[..., :32].contiguous(), k, v, used, table), (q, k, v[..., :32], used, table),
        (q.as_subclass(Derived), k, v, used, table), (q, k, v, used.as_subclass(Derived), table),
    ]  # fmt: skip
    for q_, k_, v_, used_, table_ in calls:

        def call(of=(q_, k_, v_), used_=used_, table_=table_):
            return attnpress.flash_attn_with_kvcache(*of, cache_seqlens=used_, block_table=table_)

        assert same(outcome(call), ways.slowly(lambda call=call: outcome(call)))
    assert ways.taken == 0
    ways.taken = 0
    attnpress.flash_attn_with_kvcache(*places, **options, return_softmax_lse=True)
    attnpress.flash_attn_with_kvcache(*places, **options, window_size=(3, 0))
    attnpress.flash_attn_with_kvcache(*places, **options, out=torch.empty_like(q))
    assert ways.taken == 0
    attnpress.flash_attn_with_kvcache(*places, **options, window_size=[-1, -1])
    assert ways.taken == 1


# ---- The library within it -----------------------------------------------------------------------

RUN = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)
LEND = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Lender(ctypes.Structure):
    """ap_lender"""

    _fields_ = [("device", ctypes.c_int32), ("lend", ctypes.c_void_p)]


@pytest.fixture
def set_run():
    """Sets what is called in place of the library's forward pass."""

    def put(address: int | None) -> None:
        exchange._exchange.run[0] = address

    yield put
    put(None)


@pytest.mark.parametrize("status", [0, 2, 10])
def test_workspace_and_lock(set_run, status):
    """A workspace is PyTorch's memory, and the interpreter's lock is free meanwhile."""
    known()
    q, k, v = tensors()
    found, other = [], threading.Event()
    begun = threading.Event()

    def another():
        begun.wait()
        other.set()

    thread = threading.Thread(target=another)
    thread.start()

    @RUN
    def run(handle, args, stream, lender):
        begun.set()
        assert other.wait(60)
        address = LEND(Lender.from_address(lender).lend)(lender, 1000)
        ctypes.memset(address, 1, 1000)
        found.append((address, handle, stream))
        return status

    set_run(ctypes.cast(run, ctypes.c_void_p).value)
    template = next(iter(exchange.forward_templates.values()))
    out = exchange.functions.forward(template, q, k, v, None)
    thread.join()
    assert (out is None) == (status != 0)
    ((address, handle, stream),) = found
    assert address and handle == exchange.handle_table[1] and stream is None


def test_threads(ways):
    ways.know()
    expected, failed = {}, []
    values = {seqlen: tensors((2, seqlen, 4, 64)) for seqlen in (1, 7, 24, 40)}
    for seqlen, (q, k, v) in values.items():
        expected[seqlen] = ways.slowly(lambda q=q, k=k, v=v: attnpress.flash_attn_func(q, k, v))

    def work(number: int) -> None:
        for i in range(100):
            seqlen = (1, 7, 24, 40)[(number + i) % 4]
            leaves = [x.detach().requires_grad_(number % 2 == 1) for x in values[seqlen]]
            found = attnpress.flash_attn_func(*leaves)
            if number % 2:
                torch.autograd.grad(found, leaves, torch.ones_like(found))
            if not torch.equal(found, expected[seqlen]):
                failed.append((number, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and ways.taken == 900


def test_a_child_makes_its_own_handle():
    script = (
        "import os, torch, attnpress\n"
        "from attnpress import _exchange as e\n"
        "x = torch.ones(1, 2, 1, 8, dtype=torch.float16)\n"
        "call = lambda: attnpress.flash_attn_func(x, x, x)\n"
        "call(), call()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    none = e.handle_table[1] is None\n"
        "    call(), call()\n"
        "    os._exit(0 if none and e.handle_table[1] else 1)\n"
        "print(os.waitpid(child, 0)[1], e.handle_table[1] is not None)"
    )
    env = {**os.environ, "PYTHONPATH": PACKAGE_FOLDER}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "0 True", done.stderr


# ---- On a GPU ------------------------------------------------------------------------------------


@needs_cuda
def test_streams_graphs_and_workspaces(ways):
    """Splits, which have a workspace, on a side stream and in a captured graph."""
    ways.know("cuda")
    q = torch.randn(1, 1, 4, 128, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(1, 8192, 4, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    assert attnpress.describe(q, k, v).num_splits > 1
    expected = ways.slowly(lambda: attnpress.flash_attn_func(q, k, v))
    attnpress.prepare(q, k, v)
    taken = ways.taken
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(100):
            out = attnpress.flash_attn_func(q, k, v)
    out.record_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_stream(side)
    assert torch.equal(out, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attnpress.flash_attn_func(q, k, v)
    out.zero_()
    graph.replay()
    assert torch.equal(out, expected) and ways.taken == taken + 101


@needs_cuda
@pytest.mark.parametrize("exchange", [True, False])
def test_memory_that_is_freed_while_another_stream_computes(ways, exchange):
    """The workspace, and inputs whose stream is recorded, are freed before a side stream has read
    them; what the main stream then allocates and fills is other memory."""
    ways.know("cuda")
    q = torch.randn(1, 1, 4, 128, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(1, 8192, 4, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    attnpress.prepare(q, k, v)
    expected = ways.slowly(lambda: attnpress.flash_attn_func(q, k, v))
    side = torch.cuda.Stream()
    for _ in range(3):
        own = [x.clone() for x in (q, k, v)]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            ways.is_open = exchange
            out = attnpress.flash_attn_func(*own)
            ways.is_open = True
        for x in own:
            x.record_stream(side)
        del own, x
        filled = [torch.full_like(y, torch.nan) for y in (q, k, v) for _ in range(4)]
        filled += [torch.full((1 << size,), torch.nan, device="cuda") for size in range(10, 22)]
        torch.cuda.synchronize()
        assert torch.equal(out, expected)
        del filled


@needs_cuda
def test_a_thread_without_a_context(ways):
    ways.know("cuda")
    q, k, v = tensors(device="cuda")
    expected, found = attnpress.flash_attn_func(q, k, v), []
    thread = threading.Thread(
        target=lambda: found.extend(attnpress.flash_attn_func(q, k, v) for _ in range(3))
    )
    thread.start()
    thread.join()
    assert all(torch.equal(x, expected) for x in found) and len(found) == 3


@pytest.mark.skipif(not HAS_CUDA or torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_another_device_than_the_current_one(ways):
    ways.know("cuda:0")
    q, k, v = tensors(device="cuda:1")
    with torch.cuda.device(1):
        expected = attnpress.flash_attn_func(q, k, v)
    assert torch.equal(attnpress.flash_attn_func(q, k, v), expected)
    side = torch.cuda.Stream(1)
    side.wait_stream(torch.cuda.current_stream(1))
    with torch.cuda.device(1), torch.cuda.stream(side):
        found = attnpress.flash_attn_func(q, k, v)
        side.synchronize()
    assert torch.equal(found, expected)
