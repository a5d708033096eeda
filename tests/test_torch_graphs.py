"""Attention under what PyTorch does with functions: torch.compile, export, checkpoints, autocast,
torch.func, its own attention; and which tensors are copied. On CPU tensors."""

from __future__ import annotations

import copy
import inspect
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.utils.checkpoint import checkpoint  # noqa: E402

import attnpress  # noqa: E402
import attnpress.torch as behind  # noqa: E402
from attnpress import conv2d, layernorm, matmul, outer, softmax  # noqa: E402
from attnpress import flash_attn_interface as interface  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32


def tensors(batch=2, seqlen=24, heads=4, hdim=32, grad=False, seed=1, layout="bshd"):
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(3):
        shape = (batch, seqlen, heads, hdim) if layout == "bshd" else (batch, heads, seqlen, hdim)
        x = torch.randn(shape, generator=generator).to(DEVICE, DTYPE)
        x = x if layout == "bshd" else x.transpose(1, 2)
        found.append(x.requires_grad_() if grad else x)
    return found


@pytest.fixture(autouse=True)
def fresh_graphs():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Counting:
    """A backend of torch.compile that counts graphs, and runs them through AOTAutograd."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module, inputs):
        from torch._dynamo.backends.debugging import aot_eager

        self.graphs += 1
        return aot_eager(module, inputs)


class Block(torch.nn.Module):
    def __init__(self, width=64, heads=4) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        batch, seqlen, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, seqlen, 3, self.heads, -1).unbind(2)
        y = interface.flash_attn_func(q, k, v, causal=True)
        return x + self.out(y.reshape(batch, seqlen, width))


def step(model, parameters, x):
    y = model(x)
    return y, torch.autograd.grad(y.square().sum(), parameters)


def test_block_compiles_whole_and_once_for_all_lengths():
    torch.manual_seed(1)
    block = Block().to(DEVICE, DTYPE)
    counting = Counting()
    compiled = torch.compile(block, fullgraph=True, backend=counting)
    for seqlen in (16, 24, 33, 57, 41):
        x = torch.randn(2, seqlen, 64, device=DEVICE, dtype=DTYPE)
        got, gradients = step(compiled, list(block.parameters()), x)
        want, wanted = step(block, list(block.parameters()), x)
        assert torch.equal(got, want)
        for a, b in zip(gradients, wanted):
            assert torch.equal(a, b)
        if seqlen == 33:  # what another library does in between makes no graph anew
            zeros = np.zeros((1, 4, 1, 8), np.float32)
            attnpress.flash_attn_func(zeros, zeros, zeros)
    assert counting.graphs == 2  # one of the first length, one of every other


def test_dynamic_from_the_start_makes_no_graph_anew():
    counting = Counting()
    compiled = torch.compile(
        lambda q, k, v: attnpress.flash_attn_func(q, k, v, causal=True),
        fullgraph=True, backend=counting, dynamic=True,
    )  # fmt: skip
    compiled(*tensors(2, 16))
    first = counting.graphs  # 2 where Dynamo begins anew with numbers that turned out constant
    for batch, seqlen in ((3, 24), (5, 7)):
        qkv = tensors(batch, seqlen)
        assert torch.equal(compiled(*qkv), attnpress.flash_attn_func(*qkv, causal=True))
    assert counting.graphs == first


@pytest.mark.parametrize("dynamic", [None, True])
def test_window_that_a_graph_does_not_know(dynamic):
    """A number of the caller that changes is a symbol to Dynamo, which no message can print."""
    q, k, v = tensors()

    def windowed(left):
        return attnpress.flash_attn_func(q, k, v, causal=True, window_size=(left, 0))

    compiled = torch.compile(windowed, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for left in (3, 9, 11):
        assert torch.equal(compiled(left), windowed(left))


@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor's compiler g++ is not installed")
def test_inductor_gives_the_same_bits():
    from torch._inductor import config

    with config.patch(force_disable_caches=True):
        check_inductor()


def check_inductor():
    torch.manual_seed(1)
    block = Block().to(DEVICE, DTYPE)

    def attend(x):
        q, k, v = block.qkv(x).view(2, 24, 3, 4, -1).unbind(2)
        return attnpress.flash_attn_func(q, k, v, causal=True, return_attn_probs=True)[:2]

    x = torch.randn(2, 24, 64, device=DEVICE, dtype=DTYPE, requires_grad=True)
    out, lse = torch.compile(attend, fullgraph=True)(x)
    wanted = attend(x)
    assert torch.equal(out, wanted[0]) and torch.equal(lse, wanted[1])
    got, want = (
        torch.autograd.grad(a.square().sum() + b.sum(), x)[0] for a, b in ((out, lse), wanted)
    )
    torch.testing.assert_close(got, want)


FEATURES = {
    "window": {"window_size": (5, 2)},
    "softcap": {"causal": True, "softcap": 4.0},
    "alibi": {"alibi_slopes": torch.rand(4)},
    "bias": {"bias": torch.randn(1, 4, 24, 24)},
    "sinks": {"sinks": torch.randn(4)},
    "dropout": {"dropout_p": 0.2, "seed": 7},
}


@pytest.mark.parametrize("name", FEATURES)
def test_features_in_graphs(name):
    qkv = tensors()
    options = {
        key: value.to(DEVICE) if isinstance(value, torch.Tensor) else value
        for key, value in FEATURES[name].items()
    }

    def call(q, k, v):
        return attnpress.flash_attn_func(q, k, v, **options)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*qkv), call(*qkv))


@pytest.mark.parametrize("name", FEATURES)
def test_gradients_of_features_in_graphs(name):
    qkv = tensors(grad=True)
    options = {
        key: value.to(DEVICE) if isinstance(value, torch.Tensor) else value
        for key, value in FEATURES[name].items()
    }
    wanted = list(qkv)
    if "sinks" in options:
        options["sinks"].requires_grad_()
        wanted.append(options["sinks"])

    def call(q, k, v):
        return attnpress.flash_attn_func(q, k, v, **options)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    found, right = (torch.autograd.grad(f(*qkv).square().sum(), wanted) for f in (compiled, call))
    assert len(found) == len(right)
    for got, want in zip(found, right):
        assert torch.equal(got, want)


def test_forward_with_chunks_and_backward_in_graphs():
    q, k, v = tensors()

    def call(q, k, v):
        out, lse = attnpress.forward(q, k, v, chunk=8, top_left=True)
        plain, plain_lse = attnpress.forward(q, k, v, causal=True)
        return out, lse, *attnpress.flash_attn_backward(q, q, k, v, plain, plain_lse, None, True)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for got, want in zip(compiled(q, k, v), call(q, k, v)):
        assert torch.equal(got, want)


def test_private_functions_in_graphs():
    q, k, v = tensors()

    def call(q, k, v):
        out, lse, _, _ = interface._flash_attn_forward(
            q, k, v, 0.0, 0.2, True, -1, -1, 0.0, None, False
        )
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        softmax_d = interface._flash_attn_backward(
            q, q, k, v, out, lse, dq, dk, dv, 0.0, 0.2, True, -1, -1, 0.0, None, False
        )
        return out, lse, dq, dk, dv, softmax_d

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for got, want in zip(compiled(q, k, v), call(q, k, v)):
        assert torch.equal(got, want)


def test_dropout_draws_anew_in_each_run_of_a_graph():
    qkv = tensors()
    compiled = torch.compile(
        lambda q, k, v: attnpress.flash_attn_func(q, k, v, 0.5), fullgraph=True,
        backend="aot_eager",
    )  # fmt: skip
    first, second = compiled(*qkv), compiled(*qkv)
    assert not torch.equal(first, second)


def test_what_a_graph_cannot_have_is_an_error():
    qkv = tensors(grad=True)
    slopes = torch.ones(4, device=DEVICE, requires_grad=True)

    def call(q, k, v):
        return attnpress.flash_attn_func(q, k, v, alibi_slopes=slopes)

    with pytest.raises(Exception, match="alibi_slopes"):
        torch.compile(call, fullgraph=True, backend="aot_eager")(*qkv)
    with pytest.raises(NotImplementedError, match="alibi_slopes"):  # outside of graphs too
        torch.compile(call, backend="aot_eager")(*qkv)
    op = torch.ops.attnpress.attention.default
    out, _ = op(*qkv, slopes, None, None, None, None, False, -1, -1, 0, False, 0.0, 0.0, False)
    with pytest.raises(NotImplementedError, match="alibi_slopes"):
        out.sum().backward()


@pytest.mark.parametrize("shape", [(4, 24, 24), (1, 1, 24, 1)])
def test_gradient_by_a_bias_in_a_graph(shape):
    qkv = tensors(grad=True)
    bias = torch.randn(shape, device=DEVICE, requires_grad=True)

    def call(q, k, v, bias):
        return attnpress.flash_attn_func(q, k, v, bias=bias)

    expected = torch.autograd.grad(call(*qkv, bias).float().sum(), (*qkv, bias))
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(*qkv, bias).float().sum(), (*qkv, bias))
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("grad", [False, True])
def test_opcheck_of_attention(layout, grad):
    qkv = tensors(1, 8, 2, 16, grad, layout=layout)
    found = torch.library.opcheck(
        torch.ops.attnpress.attention.default,
        (*qkv, *(None,) * 5, True, -1, -1, 0, False, 0.0, 0.0, True),
    )
    assert set(found.values()) == {"SUCCESS"} and len(found) == 4


def test_opcheck_of_the_others():
    q, k, v = tensors(1, 8, 2, 16, layout="bhsd")
    out, lse = attnpress.forward(q, k, v)
    slopes = torch.rand(2, device=DEVICE)
    grads = [torch.empty_like(x) for x in (q, k, v)]
    ops = torch.ops.attnpress
    for op, args in (
        (
            ops.attention.default,
            (q, k, v, slopes, None, None, None, 0.3, True, 4, 0, 0, False, 2.0, 0.0, False),
        ),
        (
            ops.attention_backward.default,
            (
                out,
                lse,
                q,
                k,
                v,
                out,
                lse,
                *(None,) * 5,
                False,
                -1,
                -1,
                0,
                False,
                0.0,
                0.0,
                True,
                False,
            ),
        ),
        (
            ops._flash_attn_forward.default,
            (q, k, v, 0.0, 0.3, True, -1, -1, 0.0, None, False),
        ),
        (
            ops._flash_attn_backward.default,
            (out, q, k, v, out, lse, *grads, 0.0, 0.3, False, -1, -1, 0.0, None, False, None),
        ),
    ):
        found = torch.library.opcheck(op, args)
        assert set(found.values()) == {"SUCCESS"}, (op, found)


def test_export_and_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    block = Block().to(DEVICE, DTYPE).eval()
    x = torch.randn(2, 24, 64, device=DEVICE, dtype=DTYPE)
    length = torch.export.Dim("length", min=2, max=512)
    program = torch.export.export(block, (x,), dynamic_shapes=({1: length},))
    assert any(node.target is torch.ops.attnpress.attention.default for node in program.graph.nodes)
    y = torch.randn(2, 40, 64, device=DEVICE, dtype=DTYPE)
    torch.testing.assert_close(program.module()(y), block(y))

    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in tensors(layout="bhsd")]
        out, lse, _ = attnpress.flash_attn_func(*fakes, return_attn_probs=True)
    true = attnpress.flash_attn_func(*tensors(layout="bhsd"))
    assert (out.shape, out.stride(), out.dtype) == (true.shape, true.stride(), true.dtype)
    assert lse.shape == (2, 4, 24)


def test_checkpoint_computes_again_and_gives_the_same():
    block = Block().to(DEVICE, DTYPE)
    parameters = list(block.parameters())
    x = torch.randn(2, 24, 64, device=DEVICE, dtype=DTYPE, requires_grad=True)
    _, wanted = step(block, parameters, x)
    calls = []
    handle = block.register_forward_pre_hook(lambda *_: calls.append(1))
    _, found = step(lambda y: checkpoint(block, y, use_reentrant=False), parameters, x)
    handle.remove()
    assert len(calls) == 2
    for a, b in zip(found, wanted):
        assert torch.equal(a, b)
    compiled = torch.compile(
        lambda y: checkpoint(block, y, use_reentrant=False), fullgraph=True, backend="aot_eager"
    )
    _, found = step(compiled, parameters, x)
    for a, b in zip(found, wanted):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_autocast_casts_as_pytorchs_own_attention(is_compiled):
    q, k, v = (x.float().requires_grad_() for x in tensors())

    def call(q, k, v):
        return attnpress.flash_attn_func(q, k, v, causal=True)

    function = torch.compile(call, fullgraph=True, backend="aot_eager") if is_compiled else call
    with torch.autocast(DEVICE, torch.bfloat16):
        out = function(q, k.bfloat16(), v)
        own = torch.nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in (q, k, v)), is_causal=True
        )
    assert out.dtype == own.dtype == torch.bfloat16
    assert torch.equal(out, call(q.bfloat16(), k.bfloat16(), v.bfloat16()))
    gradient = torch.autograd.grad(out.float().sum(), q)[0]
    assert gradient.dtype == torch.float32 and bool(gradient.isfinite().all())
    with (
        torch.autocast(DEVICE, torch.bfloat16, enabled=False),
        pytest.raises((ValueError, RuntimeError), match="one dtype is needed"),
    ):
        function(q, k.bfloat16(), v)


def test_transforms_are_refused_clearly():
    q, k, v = tensors()
    attnpress.flash_attn_func(q, k, v)  # its plan is there

    def total(q):
        return attnpress.flash_attn_func(q, k, v).sum()

    forward_ad = torch.autograd.forward_ad
    with_batch = [torch.stack((x, x)) for x in (q, k, v)]
    for call in (
        lambda: torch.func.grad(total)(q),
        lambda: torch.func.vmap(attnpress.flash_attn_func)(*with_batch),
        lambda: torch.func.vmap(attnpress.flash_attn_func)(q, k, v),
        lambda: torch.func.jvp(total, (q,), (q,)),
        lambda: torch.func.vmap(total)(torch.stack((q, q)).requires_grad_()),
    ):
        with pytest.raises(
            NotImplementedError, match="make the mapped dimension part of the batch"
        ):
            call()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, q)
        with pytest.raises(NotImplementedError, match="forward-mode gradients"):
            total(dual)
        attnpress.flash_attn_func(q, k, v)  # nothing to lose


def test_second_derivatives_are_refused():
    qkv = tensors(grad=True)
    for function in (
        attnpress.flash_attn_func,
        torch.compile(attnpress.flash_attn_func, backend="aot_eager"),
        lambda q, k, v: torch.ops.attnpress.attention.default(
            q, k, v, *(None,) * 5, False, -1, -1, 0, False, 0.0, 0.0, False
        )[0],
    ):
        with pytest.raises((RuntimeError, NotImplementedError)):
            (first,) = torch.autograd.grad(function(*qkv).sum(), qkv[0], create_graph=True)
            torch.autograd.grad(first.square().sum(), qkv[0])


def recorded_calls():
    """name: (function, its tensor) of what has gradients, whose own have none."""
    q, k, v = tensors()
    x = torch.randn(6, 64, device=DEVICE, dtype=torch.bfloat16)
    square = torch.randn(64, 64, device=DEVICE, dtype=torch.bfloat16)
    image = torch.randn(2, 8, 5, 5, device=DEVICE, dtype=torch.bfloat16)
    sums = torch.tensor([0, 24, 48], dtype=torch.int32, device=DEVICE)
    flat = [t.reshape(-1, *t.shape[2:]) for t in (q, k, v)]
    return {
        "attention": (lambda t: attnpress.flash_attn_func(t, k, v), q),
        "features": (lambda t: attnpress.flash_attn_func(q, k, v, bias=t), q.new_zeros(24, 24)),
        "sinks": (lambda t: attnpress.flash_attn_func(t, k, v, sinks=q.new_zeros(4)), q),
        "sequences": (
            lambda t: attnpress.flash_attn_varlen_func(t, *flat[1:], sums, sums, 24, 24), flat[0],
        ),
        "norm": (lambda t: layernorm.rms_norm(t, square[0]), x),
        "product": (lambda t: matmul.matmul(t, square), x),
        "outer": (lambda t: outer.outer(t, t), x),
        "convolution": (lambda t: conv2d.conv2d(t, image[:, :, :3, :3].repeat(4, 1, 1, 1)), image),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(recorded_calls()))
def test_second_derivatives_are_not_left_out(name):
    """Beside another term, whose second derivative there is; with torch.autograd.grad(), which asks
    by inputs, as with backward()."""
    function, x = recorded_calls()[name]
    x = x.clone().requires_grad_()
    for _ in range(2):  # from the second call on it is known again
        function(x)
    loss = function(x).float().square().sum() + x.float().pow(3).sum()
    (first,) = torch.autograd.grad(loss, x, create_graph=True)
    (again,) = torch.autograd.grad(function(x).float().square().sum() + x.float().pow(3).sum(), x)
    assert torch.equal(first, again)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        torch.autograd.grad(first.float().square().sum(), x, retain_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        first.float().square().sum().backward()
    linear = function(x).sum() + x.float().pow(3).sum()  # whose gradient that comes in is constant
    (first,) = torch.autograd.grad(linear, x, create_graph=True)
    with pytest.raises(NotImplementedError, match="no second derivatives"):
        torch.autograd.grad(first.float().square().sum(), x)


@pytest.mark.parametrize("name", [*recorded_calls(), "softmax", "merge", "append", "gradient"])
def test_forward_mode_is_refused(name):
    """Rather than that a tangent is lost, or that of another tensor taken over."""
    lse = torch.zeros(2, 4, 24, device=DEVICE)
    qkv = tensors()
    caches = [torch.zeros(2, 30, 4, 32, device=DEVICE, dtype=DTYPE) for _ in range(2)]
    calls = {
        **recorded_calls(),
        "softmax": (softmax.softmax, torch.randn(6, 64, device=DEVICE)),
        "merge": (lambda t: attnpress.merge([t, t], [lse, lse])[0], tensors()[0]),
        "append": (lambda t: attnpress.append(t, t, *caches), tensors()[0]),
        "gradient": (lambda t: attnpress.flash_attn_backward(t, *qkv, qkv[0], lse)[0], qkv[0]),
    }
    function, x = calls[name]
    for _ in range(2):  # from the second call on it is known again
        function(x)
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward-mode"):
        function(forward_ad.make_dual(x, x))
    with pytest.raises(NotImplementedError, match="make the mapped dimension part of the batch"):
        torch.func.vmap(function)(torch.stack((x, x)))


# ---- DTensors ------------------------------------------------------------------------------------


@pytest.fixture
def mesh():
    """Of two devices, of which this process is the second; nothing is sent."""
    distributed = pytest.importorskip("torch.distributed.tensor", reason="PyTorch has no DTensor")
    if not hasattr(distributed, "DTensor"):
        pytest.skip(f"PyTorch {torch.__version__} keeps its DTensors to itself")
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    torch.distributed.init_process_group("fake", store=fake.FakeStore(), rank=1, world_size=2)
    yield distributed.init_device_mesh(DEVICE, (2,))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("dim", [0, 2])
def test_split_tensors_stay_split(mesh, dim):
    from torch.distributed.tensor import DTensor, Shard

    own = tensors(grad=True)
    split = [DTensor.from_local(x.detach().requires_grad_(), mesh, [Shard(dim)]) for x in own]
    out, lse, _ = attnpress.flash_attn_func(*split, causal=True, return_attn_probs=True)
    wanted, wanted_lse, _ = attnpress.flash_attn_func(*own, causal=True, return_attn_probs=True)
    assert out.placements == (Shard(dim),)
    assert lse.placements == (Shard({0: 0, 2: 1}[dim]),)
    assert torch.equal(out.to_local(), wanted) and torch.equal(lse.to_local(), wanted_lse)
    dout = torch.randn_like(wanted)
    got = torch.autograd.grad(out, split, DTensor.from_local(dout, mesh, [Shard(dim)]))
    for a, b in zip(got, torch.autograd.grad(wanted, own, dout)):
        assert a.placements == (Shard(dim),) and torch.equal(a.to_local(), b)


def test_split_features(mesh):
    from torch.distributed.tensor import DTensor, Replicate, Shard

    own = tensors()
    split = [DTensor.from_local(x, mesh, [Shard(2)]) for x in own]
    slopes, sinks = torch.rand(4, device=DEVICE), torch.rand(4, device=DEVICE)
    out = attnpress.flash_attn_func(
        *split, softcap=3.0, window_size=(4, 1),
        alibi_slopes=DTensor.from_local(slopes, mesh, [Shard(0)]),
        sinks=DTensor.from_local(sinks, mesh, [Shard(0)]),
    )  # fmt: skip
    wanted = attnpress.flash_attn_func(
        *own, softcap=3.0, window_size=(4, 1), alibi_slopes=slopes, sinks=sinks
    )
    assert out.placements == (Shard(2),) and torch.equal(out.to_local(), wanted)
    # One key head for all cannot be split, nor can dropout, whose mask knows the heads' numbers.
    one = [DTensor.from_local(x[:, :, :1], mesh, [Replicate()]) for x in own[1:]]
    assert attnpress.flash_attn_func(split[0], *one).placements == (Replicate(),)
    seed = DTensor.from_local(
        torch.tensor([1, 2], dtype=torch.int64, device=DEVICE), mesh, [Replicate()]
    )
    out = attnpress.flash_attn_func(*split, dropout_p=0.5, seed=seed)
    assert out.placements == (Replicate(),)


def test_parameters_that_fsdp_splits():
    """fully_shard's parameters are DTensors between the calls, and gathered in them: attention sees
    tensors, and the gradients are those of the whole block."""
    fsdp = pytest.importorskip("torch.distributed.fsdp", reason="PyTorch has no FSDP")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip(f"PyTorch {torch.__version__} has no fully_shard")
    distributed = torch.distributed
    backend = "gloo" if DEVICE == "cpu" else "nccl"
    distributed.init_process_group(backend, store=distributed.HashStore(), rank=0, world_size=1)
    try:
        torch.manual_seed(1)
        plain = Block().to(DEVICE, DTYPE)
        split = copy.deepcopy(plain)
        fsdp.fully_shard(split, mesh=distributed.init_device_mesh(DEVICE, (1,)))
        x = torch.randn(2, 24, 64, device=DEVICE, dtype=DTYPE)
        assert all(hasattr(p, "placements") for p in split.parameters())
        out, wanted = split(x), plain(x)
        assert torch.equal(out, wanted)
        out.square().sum().backward()
        wanted.square().sum().backward()
        for a, b in zip(split.parameters(), plain.parameters()):
            torch.testing.assert_close(a.grad.to_local(), b.grad, atol=1e-2, rtol=2e-2)
    finally:
        distributed.destroy_process_group()


# ---- Copies --------------------------------------------------------------------------------------

WIDE = (2, 24, 4, 40)
LAYOUTS = {  # of a tensor (2, 24, 4, 32): what makes it, whether it has to be copied
    "contiguous": (lambda new: new(2, 24, 4, 32), False),
    "heads before tokens": (lambda new: new(2, 4, 24, 32).transpose(1, 2), False),
    "tokens before batch": (lambda new: new(24, 2, 4, 32).transpose(0, 1), False),
    "a third of qkv": (lambda new: new(2, 24, 3, 4, 32)[:, :, 1], False),
    "every second token": (lambda new: new(2, 48, 4, 32)[:, ::2], False),
    "every second head": (lambda new: new(2, 24, 8, 32)[:, :, ::2], False),
    "half of a wider head": (lambda new: new(2, 24, 4, 64)[..., 32:], False),
    "behind 8 of a wider head": (lambda new: new(*WIDE)[..., 8:], False),
    "one batch for all": (lambda new: new(1, 24, 4, 32).expand(2, 24, 4, 32), False),
    "head dim not last": (lambda new: new(2, 24, 32, 4).transpose(2, 3), True),
    "every second entry": (lambda new: new(2, 24, 4, 64)[..., ::2], True),
    "heads 36 entries apart": (lambda new: new(2, 24, 4, 36)[..., :32], True),
    "not aligned": (lambda new: new(2, 24, 4, 40)[..., 1:33], True),
}


@pytest.mark.parametrize("which", ["q", "k", "v"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_are_copied_only_where_they_must(monkeypatch, layout, which):
    make, must_be_copied = LAYOUTS[layout]
    generator = torch.Generator().manual_seed(1)
    dtype = torch.bfloat16

    def new(*shape):
        return torch.randn(shape, generator=generator).to(DEVICE, dtype)

    qkv = {name: new(2, 24, 4, 32) for name in "qkv"}
    qkv[which] = make(new)
    copies = []
    copy = torch.Tensor.copy_

    def counted(self, source, *args):
        copies.append(source)
        return copy(self, source, *args)

    wanted = attnpress.flash_attn_func(*(x.contiguous().clone() for x in qkv.values()))
    monkeypatch.setattr(torch.Tensor, "copy_", counted)
    monkeypatch.setattr(torch.Tensor, "contiguous", None)
    for _ in range(2):  # with a plan as without one
        copies.clear()
        out = attnpress.flash_attn_func(**qkv)
        assert len(copies) == must_be_copied
        assert all(source is qkv[which] for source in copies)
    monkeypatch.undo()
    assert torch.equal(out, wanted)
    if which == "q":  # the result's dimensions lie in q's order
        order = sorted(range(4), key=lambda i: -qkv["q"].stride(i))
        if layout in ("heads before tokens", "tokens before batch"):
            assert sorted(range(4), key=lambda i: -out.stride(i)) == order
    assert out.stride(-1) == 1


# ---- Behind PyTorch's own attention --------------------------------------------------------------


def test_functions_of_pytorchs_flash_operators():
    """The functions that stand behind the operators, whose devices are GPUs, called directly."""
    q, k, v = (x.transpose(1, 2) for x in tensors(grad=True))
    own = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    overrides = object.__new__(behind.Overrides)
    found = overrides.forward(None, q, k, v, 0.0, True, scale=0.3)
    assert len(found) == 9 and not found[0].requires_grad
    out, lse, _, _, max_q, max_k, rng_state, unused, debug = found
    tolerance = 1e-5 if DTYPE == torch.float32 else 2e-2
    torch.testing.assert_close(out, own, atol=tolerance, rtol=tolerance)
    assert (max_q, max_k) == (24, 24) and lse.shape == (2, 4, 24) and debug.numel() == 0
    dout = torch.randn_like(own)
    gradients = overrides.backward(
        None, dout, q, k, v, out, lse, None, None, max_q, max_k, 0.0, True, rng_state, unused,
        scale=0.3,
    )  # fmt: skip
    for got, want in zip(gradients, torch.autograd.grad(own, (q, k, v), dout)):
        torch.testing.assert_close(got, want, atol=10 * tolerance, rtol=tolerance)
    dropped = []
    overrides._own = {
        name: type("Own", (), {"call_boxed": lambda self, *args, **options: dropped.append(args)})()
        for name in (
            "aten::_scaled_dot_product_flash_attention",
            "aten::_scaled_dot_product_flash_attention_backward",
            "aten::_flash_attention_forward",
            "aten::_flash_attention_backward",
        )
    }
    overrides.forward("keys", q, k, v, 0.1, True)
    overrides.backward("keys", dout, q, k, v, out, lse, None, None, 24, 24, 0.1, True, 1, 2)
    lengths = torch.tensor([0, 24], dtype=torch.int32)
    for begins, dropout_p in ((None, 0.0), (lengths, 0.1)):  # dense, and with dropout
        bounds = (begins, begins, 24, 24, dropout_p, False)
        overrides.varlen_forward("keys", q, k, v, *bounds, False, alibi_slopes=None)
        overrides.varlen_backward("keys", dout, q, k, v, out, lse, *bounds, 1, 2)
    bounds = (lengths, lengths, 24, 24, 0.0, False, False)
    overrides.varlen_forward("keys", q, k, v, *bounds, page_table=lengths, seqused_k=None)
    assert [args[0] for args in dropped] == ["keys"] * 7


LENGTHS = (5, 0, 17, 9)


def ragged_tensors(grad=False):
    """q, k, v of LENGTHS, and where each begins."""
    q, k, v = (x[0].detach() for x in tensors(1, sum(LENGTHS)))
    begins = torch.tensor([0, *np.cumsum(LENGTHS)], dtype=torch.int32, device=DEVICE)
    return [x.requires_grad_(grad) for x in (q, k, v)], begins


@pytest.mark.parametrize(
    ("left", "right", "causal", "same_as"),
    [
        (None, None, False, {}),
        (-1, -1, True, {"causal": True}),
        (-1, 0, True, {"causal": True}),
        (-1, 0, False, {"causal": True}),
        (4, 0, False, {"window_size": (4, 0)}),
        (3, 2, False, {"window_size": (3, 2)}),
        (-1, 2, False, {"window_size": (-1, 2)}),
    ],
)
def test_functions_of_pytorchs_ragged_operators(left, right, causal, same_as):
    (q, k, v), begins = ragged_tensors(grad=True)
    overrides = object.__new__(behind.Overrides)
    bounds = (begins, begins, max(LENGTHS), max(LENGTHS), 0.0, causal)
    window = {"window_size_left": left, "window_size_right": right}
    found = overrides.varlen_forward(None, q, k, v, *bounds, False, scale=0.3, **window)
    out, lse, rng_state, unused, debug = found
    assert not out.requires_grad and debug.numel() == 0
    wanted, wanted_lse, _ = attnpress.flash_attn_varlen_func(
        q, k, v, *bounds[:4], softmax_scale=0.3, return_attn_probs=True, **same_as
    )
    assert torch.equal(out, wanted) and torch.equal(lse, wanted_lse)
    dout = torch.randn_like(wanted)
    gradients = overrides.varlen_backward(
        None, dout, q, k, v, out, lse, *bounds, rng_state, unused, scale=0.3, **window
    )
    tolerance = 1e-6 if DTYPE == torch.float32 else 2e-2
    for got, want in zip(gradients, torch.autograd.grad(wanted, (q, k, v), dout)):
        torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)


def test_pages_of_pytorchs_ragged_operators():
    """seqused_k and block_table, without cum_seq_k, and what is None."""
    (q, k, v), begins = ragged_tensors()
    overrides = object.__new__(behind.Overrides)
    longest = max(LENGTHS)
    wanted = attnpress.flash_attn_varlen_func(q, k, v, begins, begins, longest, longest)
    table = torch.arange(12, dtype=torch.int32, device=DEVICE).view(4, 3)
    pages = [x.new_zeros((12, 8, *x.shape[1:])) for x in (k, v)]
    for x, page in zip((k, v), pages):
        for number, (first, length) in enumerate(zip(begins.tolist(), LENGTHS)):
            rows = page[3 * number : 3 * number + 3].flatten(0, 1)
            rows[:length] = x[first : first + length]
            page[3 * number : 3 * number + 3] = rows.unflatten(0, (3, 8))
    out = overrides.varlen_forward(
        None, q, *pages, begins, None, longest, longest, 0.0, False, False, alibi_slopes=None,
        seqused_k=torch.tensor(LENGTHS, dtype=torch.int32, device=DEVICE), block_table=table,
        num_splits=1,
    )[0]  # fmt: skip
    tolerance = 2e-2 if DTYPE == torch.bfloat16 else 1e-5
    torch.testing.assert_close(out, wanted, atol=tolerance, rtol=tolerance)


@pytest.mark.skipif(
    not hasattr(torch.library, "get_kernel"), reason="PyTorch has no torch.library.get_kernel"
)
@pytest.mark.parametrize(
    "operator", ["_scaled_dot_product_flash_attention", "_flash_attention_forward"]
)
def test_activation_is_registered_and_undone(operator):
    def stands_there():
        return "attnpress" in str(torch.library.get_kernel(f"aten::{operator}", "CUDA"))

    assert not behind.is_active() and not stands_there()
    for _ in range(2):
        behind.activate()
        behind.activate()
        assert behind.is_active() and stands_there()
        if behind.activate_flash_attention_impl is not None:
            from torch.nn.attention import current_flash_attention_impl as current

            assert current() == "attnpress"
        behind.deactivate()
        behind.deactivate()
        assert not behind.is_active() and not stands_there()


@pytest.mark.skipif(DEVICE == "cpu", reason="there is no CUDA device")
def test_pytorchs_own_attention_on_a_gpu():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (x.transpose(1, 2) for x in tensors(grad=True, hdim=64))
    with sdpa_kernel(SDPBackend.MATH):
        wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    dout = torch.randn_like(wanted)
    right = torch.autograd.grad(wanted, (q, k, v), dout)
    behind.activate()
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            dropped = torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
        gradients = torch.autograd.grad(out, (q, k, v), dout)
    finally:
        behind.deactivate()
    torch.testing.assert_close(out, wanted, atol=2e-2, rtol=2e-2)
    for got, want in zip(gradients, right):
        torch.testing.assert_close(got, want, atol=5e-2, rtol=5e-2)
    assert bool(dropped.isfinite().all())


@pytest.mark.skipif(DEVICE == "cpu", reason="there is no CUDA device")
def test_pytorchs_ragged_attention_on_a_gpu(monkeypatch):
    varlen = pytest.importorskip("torch.nn.attention.varlen", reason="PyTorch has no varlen_attn")
    from torch.nn.attention import SDPBackend, sdpa_kernel

    # Some versions choose cuDNN whatever sdpa_kernel says.
    monkeypatch.setattr(varlen, "_should_use_cudnn", lambda *_: False, raising=False)

    (q, k, v), begins = ragged_tensors(grad=True)
    names = inspect.signature(varlen.varlen_attn).parameters
    causal = {"window_size": (-1, 0)} if "window_size" in names else {"is_causal": True}
    bounds = (begins, begins, max(LENGTHS), max(LENGTHS))
    wanted = attnpress.flash_attn_varlen_func(q, k, v, *bounds, causal=True)
    dout = torch.randn_like(wanted)
    right = torch.autograd.grad(wanted, (q, k, v), dout)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        own = varlen.varlen_attn(q, k, v, *bounds, **causal)
        behind.activate()
        try:
            out = varlen.varlen_attn(q, k, v, *bounds, **causal)
            gradients = torch.autograd.grad(out, (q, k, v), dout)
        finally:
            behind.deactivate()
    assert torch.equal(out, wanted)
    torch.testing.assert_close(out, own, atol=2e-2, rtol=2e-2)
    for got, want in zip(gradients, right):
        torch.testing.assert_close(got, want, atol=5e-2, rtol=5e-2)


@pytest.mark.skipif(DEVICE == "cpu", reason="there is no CUDA device")
def test_cuda_graph_of_a_compiled_block():
    block = Block().to(DEVICE, DTYPE)
    compiled = torch.compile(block, fullgraph=True, mode="reduce-overhead")
    x = torch.randn(2, 24, 64, device=DEVICE, dtype=DTYPE)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(compiled(x).clone(), block(x), atol=2e-2, rtol=2e-2)
