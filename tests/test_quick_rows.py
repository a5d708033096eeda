"""Calls of rows, images and matrices that come again (attnpress._quick_rows) against the families'
own way, bit for bit and sentence for sentence; which take the builtin function, and which do not.
On a GPU where there is one."""

from __future__ import annotations

import gc
import random
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from attnpress import _exchange, _quick_rows  # noqa: E402
from attnpress import conv2d as cv  # noqa: E402
from attnpress import layernorm as ln  # noqa: E402
from attnpress import matmul as mm  # noqa: E402
from attnpress import outer as o  # noqa: E402
from attnpress import softmax as sm  # noqa: E402
from attnpress._rows import library_of  # noqa: E402

pytestmark = pytest.mark.skipif(
    _exchange.functions is None, reason="this PyTorch or Python has no quick way"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BF16 = torch.bfloat16


class Ways:
    """Which way calls go, and how many went the quick one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.taken, self.is_open = 0, True
        run = _quick_rows.Calls.run

        def counted(calls, *args):
            found = run(calls, *args) if self.is_open else None
            self.taken += found is not None
            return found

        patch.setattr(_quick_rows.Calls, "run", counted)

    def slowly(self, function):
        self.is_open = False
        try:
            return function()
        finally:
            self.is_open = True


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    for module in (cv, ln, mm, o):
        monkeypatch.setattr(module, "_quick", None)
    monkeypatch.setattr(sm, "_quick", {})


@pytest.fixture
def ways(monkeypatch):
    return Ways(monkeypatch)


def normal(*shape: int, seed: int, dtype=BF16) -> torch.Tensor:
    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return made.to(dtype).to(DEVICE)


def last(x: torch.Tensor) -> torch.Tensor:
    """Its channels last in memory."""
    return x.to(memory_format=torch.channels_last)


def gradients(result, inputs, seed: int):
    """By the inputs, and the result itself."""
    results = result if isinstance(result, tuple) else (result,)
    given = [torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)) for x in results]
    given = [g.to(x.dtype).to(DEVICE) for g, x in zip(given, results)]
    if results[0].dim() == 4:
        given = [last(g) for g in given]
    found = torch.autograd.grad(results, inputs, given)
    return (*(x.detach() for x in results), *found)


def parameter(x: torch.Tensor) -> torch.nn.Parameter:
    return torch.nn.Parameter(x)


def in_place(function, x, *args, **options):
    x = x.clone()
    found = function(x, *args, **options)
    assert found is x
    return x


CALLS = {
    "outer": lambda s: o.outer(normal(3, 5, seed=s), normal(3, 12, seed=s + 1)),
    "outer of vectors": lambda s: o.outer(normal(5, seed=s), normal(9, seed=s + 1)),
    "outer, summed": lambda s: o.outer(normal(3, 5, seed=s), normal(3, 12, seed=s + 1), True),
    "outer, rows apart": lambda s: o.outer(
        normal(3, 10, seed=s)[:, :5], normal(3, 12, seed=s + 1)
    ),
    "outer.backward": lambda s: o.backward(
        normal(3, 5, 12, seed=s), normal(3, 5, seed=s + 1), normal(3, 12, seed=s + 2)
    ),
    "outer.backward, one": lambda s: o.backward(
        normal(5, 12, seed=s), normal(3, 5, seed=s + 1), normal(3, 12, seed=s + 2), True,
        (False, True),
    ),
    "outer, gradients": lambda s: gradients(
        o.outer(*(x := [normal(3, n, seed=s + n).requires_grad_() for n in (5, 12)])), x, s
    ),
    "softmax": lambda s: sm.softmax(normal(2, 3, 40, seed=s)),
    "softmax, out": lambda s: sm.softmax(normal(2, 40, seed=s), 0.5, out=normal(2, 40, seed=9)),
    "softmax, in place": lambda s: in_place(
        lambda x: sm.softmax(x, 2, out=x), normal(2, 40, seed=s)
    ),
    "softmax_backward": lambda s: sm.softmax_backward(normal(2, 40, seed=s), normal(2, 40, seed=7)),
    "layer_norm": lambda s: ln.layer_norm(normal(2, 3, 40, seed=s), normal(40, seed=s + 1)),
    "layer_norm, out": lambda s: ln.layer_norm(
        normal(2, 40, seed=s), None, normal(40, seed=s + 1), out=normal(2, 40, seed=8)
    ),
    "layer_norm.forward": lambda s: ln.forward(normal(2, 3, 40, seed=s), residual=None)[::2],
    "rms_norm, residual": lambda s: ln.rms_norm(
        normal(2, 40, seed=s), residual=normal(2, 40, seed=s + 1)
    ),
    "layer_norm, gradients": lambda s: gradients(
        ln.layer_norm(*(x := [
            normal(4, 40, seed=s).requires_grad_(), parameter(normal(40, seed=s + 1)),
            parameter(normal(40, seed=s + 2)),
        ])), x, s,
    ),
    "rms_norm, residual, gradients": lambda s: gradients(
        ln.rms_norm(
            (x := [normal(4, 40, seed=s).requires_grad_(), parameter(normal(40, seed=s + 1))])[0],
            x[1], residual=normal(4, 40, seed=s + 2),
        ), x, s,
    ),
    "layer_norm, gradients of x": lambda s: gradients(
        ln.layer_norm(x := normal(4, 40, seed=s).requires_grad_(), normal(40, seed=s + 1)), [x], s
    ),
    "layer_norm, gradients of the bias": lambda s: gradients(
        ln.layer_norm(
            normal(4, 40, seed=s), None, b := parameter(normal(40, seed=s + 1))
        ), [b], s,
    ),
    "matmul_": lambda s: in_place(mm.matmul_, normal(6, 16, seed=s), normal(16, 16, seed=s + 1)),
    "matmul, W.t()": lambda s: mm.matmul(normal(6, 16, seed=s), normal(16, 16, seed=s + 1).t()),
    "matmul, gradients": lambda s: gradients(
        mm.matmul(*(x := [
            normal(2, 6, 16, seed=s).requires_grad_(), parameter(normal(16, 16, seed=s + 1)),
        ]), True), x, s,
    ),
    "conv2d": lambda s: cv.conv2d(
        last(normal(2, 8, 6, 7, seed=s)), last(normal(16, 8, 3, 3, seed=s + 1)),
        normal(16, seed=s + 2), padding=(1, 0),
    ),
    "conv2d, gradients": lambda s: gradients(
        cv.conv2d(*(x := [
            last(normal(2, 8, 6, 7, seed=s)).requires_grad_(),
            parameter(last(normal(16, 8, 3, 3, seed=s + 1))), parameter(normal(16, seed=s + 2)),
        ]), 1, 1, 1, True), x, s,
    ),
    "conv2d, gradients of the weight": lambda s: gradients(
        cv.conv2d(
            last(normal(2, 8, 6, 7, seed=s)), w := parameter(last(normal(8, 8, 3, 3, seed=s + 1)))
        ), [w], s,
    ),
}  # fmt: skip


def same(a, b) -> bool:
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if a is None or b is None:
        return a is b
    return (
        a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype
        and a.device == b.device and torch.equal(a, b)
    )  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, ways: Ways) -> None:
    """The second call and those after it go the quick way, each with its own tensors."""
    call = CALLS[name]
    expected = [ways.slowly(lambda seed=seed: call(seed)) for seed in (1, 20, 40)]
    assert ways.taken == 0
    for seed, wanted in zip((20, 40, 1), (expected[1], expected[2], expected[0])):
        before = ways.taken
        assert same(call(seed), wanted)
        assert ways.taken - before == 1 + ("gradients" in name)
    assert ways.taken


def test_which_are_none(ways: Ways) -> None:
    """Calls that differ in which of their tensors is None."""
    x, one = normal(4, 40, seed=1), normal(40, seed=2)
    for _ in range(3):
        for given in ((one, None), (None, one), (one, one), (None, None)):
            wanted = ways.slowly(lambda given=given: ln.layer_norm(x, *given))
            assert same(ln.layer_norm(x, *given), wanted)
    assert ways.taken > 6


def test_other_layouts(ways: Ways) -> None:
    """Whatever was seen before, a call has what the family's own way gives."""
    draw = random.Random(3)
    shapes = [(2, 40), (40,), (3, 2, 24), (1, 8), (0, 8), (2, 0)]
    for _ in range(150):
        shape = draw.choice(shapes)
        dtype = draw.choice([BF16, torch.float32, torch.float16])
        x = normal(*shape, seed=draw.randrange(99), dtype=dtype)
        kind = draw.randrange(4)
        if kind == 1:
            x = torch.cat([x, x], -1)[..., : shape[-1]]
        elif kind == 2:
            x = torch.stack([x, x], -1)[..., 1]
        elif kind == 3:
            x = torch.cat([x, x[..., :1]], -1)[..., 1:] if shape[-1] else x
        weight = normal(shape[-1], seed=5, dtype=draw.choice([dtype, torch.float32]))
        for call in (
            lambda x=x: o.outer(x, x),
            lambda x=x: o.outer(x, x, summed=True),
            lambda x=x: sm.softmax(x, 0.5),
            lambda x=x, weight=weight: ln.layer_norm(x, weight),
        ):
            assert same(call(), ways.slowly(call))
    assert ways.taken > 100


WRONG = {
    "a list": lambda: o.outer([1.0], normal(3, seed=1)),
    "an array": lambda: o.outer(normal(3, 5, seed=1), normal(3, 12, seed=1).float().cpu().numpy()),
    "shapes": lambda: o.outer(normal(3, 5, seed=1), normal(2, 12, seed=1)),
    "dtypes": lambda: o.outer(normal(3, 5, seed=1), normal(3, 12, seed=1).float()),
    "summed": lambda: o.outer(normal(3, 5, seed=1), normal(3, 12, seed=1), 2),
    "dc": lambda: o.backward(None, normal(3, 5, seed=1), normal(3, 12, seed=1)),
    "scale": lambda: sm.softmax(normal(2, 40, seed=1), 0.0),
    "a scale in a list": lambda: sm.softmax(normal(2, 40, seed=1), [1.0]),
    "out": lambda: sm.softmax(normal(2, 40, seed=1), out=normal(2, 39, seed=1)),
    "requires grad": lambda: sm.softmax(normal(2, 40, seed=1).requires_grad_()),
    "weight": lambda: ln.layer_norm(normal(2, 40, seed=1), normal(39, seed=1)),
    "eps": lambda: ln.layer_norm(normal(2, 40, seed=1), normal(40, seed=1), eps="1e-5"),
    "out and a gradient": lambda: ln.layer_norm(
        normal(2, 40, seed=1).requires_grad_(), out=normal(2, 40, seed=1)
    ),
    "in place and a gradient": lambda: mm.matmul_(
        normal(6, 16, seed=1).requires_grad_(), normal(16, 16, seed=1)
    ),
    "stride": lambda: cv.conv2d(
        last(normal(2, 8, 6, 7, seed=1)), last(normal(8, 8, 3, 3, seed=1)), stride=1.0
    ),
    "a word": lambda: cv.conv2d(
        last(normal(2, 8, 6, 7, seed=1)), last(normal(8, 8, 3, 3, seed=1)), padding="same"
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str, ways: Ways) -> None:
    for call in CALLS.values():
        call(1)
    answers = []
    for way in (ways.slowly, lambda call: call()):
        ways.taken = 0
        with pytest.raises(Exception) as error:
            way(WRONG[name])
        answers.append((type(error.value), str(error.value)))
        assert ways.taken == 0
    assert answers[0] == answers[1]


def test_subclasses_and_functions(ways: Ways) -> None:
    """Tensors of other types, a function of the caller's, and torch.func go the other way."""

    class Own(torch.Tensor):
        pass

    x, y = normal(3, 5, seed=1), normal(3, 12, seed=2)
    wanted = o.outer(x, y)
    o.outer(x, y)
    assert ways.taken == 1
    assert torch.equal(o.outer(x.as_subclass(Own), y).as_subclass(torch.Tensor), wanted)
    assert ways.taken == 1
    with pytest.raises(Exception):  # noqa: B017
        torch.func.vmap(o.outer)(x, y)
    with pytest.raises(ValueError, match="scalars are given without"):
        o.outer(x, y, scalars={"a": 1})
    assert ways.taken == 1


def test_versions_and_second_derivatives(ways: Ways) -> None:
    """What is written in place is found out, and a second derivative is refused."""
    for _ in range(2):
        x, y = (normal(3, n, seed=n).requires_grad_() for n in (5, 12))
        c = o.outer(x, y)
        with torch.no_grad():
            x += 1
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            c.sum().backward()
        w = normal(16, 16, seed=1)
        first = normal(6, 16, seed=2).requires_grad_()
        kept = first * 1.0
        squares = kept.square().sum()  # which keeps `kept`
        with torch.no_grad():
            mm.matmul_(kept, w)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            squares.backward()
        x = normal(3, 5, seed=1).requires_grad_()
        (dx,) = torch.autograd.grad(
            o.outer(x, y.detach()).float().square().sum(), x, None, True, True
        )
        with pytest.raises(RuntimeError, match="once_differentiable"):
            dx.sum().backward()
    assert ways.taken


def test_many_kinds(monkeypatch, ways: Ways) -> None:
    """No more than so many calls are kept, while other threads run those that are dropped."""
    monkeypatch.setattr(_quick_rows, "_MAX_CALLS", 8)
    faults: list[object] = []

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(300):
            n = draw.randrange(1, 20)
            x, y = normal(2, n, seed=seed), normal(2, 12, seed=seed)
            wanted = (x.float()[:, :, None] * y.float()[:, None, :]).to(BF16)
            if not torch.equal(o.outer(x, y), wanted):
                faults.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert ways.taken
    assert len(o._quick.forward_calls._seen) <= 8


def test_nothing_is_left() -> None:
    """Calls hand back all that they take."""
    x, y = normal(3, 5, seed=1), normal(3, 12, seed=2)
    for _ in range(3):
        o.outer(x, y)
        o.backward(normal(3, 5, 12, seed=3), x, y)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(100):
        o.outer(x, y)
        o.backward(normal(3, 5, 12, seed=3), x, y)
    gc.collect()
    assert abs(len(gc.get_objects()) - before) < 20


def test_numpy_has_none() -> None:
    numpy = pytest.importorskip("numpy")
    assert library_of("x", numpy.zeros(3)).quick is None
