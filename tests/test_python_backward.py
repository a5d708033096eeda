"""The gradients through Python: NumPy against float64, PyTorch's autograd against its own."""

from __future__ import annotations

import numpy as np
import pytest

import attnpress

torch = None
try:
    import torch
except ImportError:
    pass
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
needs_cuda = pytest.mark.skipif(
    torch is None or not torch.cuda.is_available(), reason="there is no CUDA device"
)

SHAPES = [  # batch, queries, keys, heads, key heads, head dim, value head dim
    (2, 40, 70, 4, 2, 64, 64),
    (1, 65, 33, 3, 1, 72, 72),
    (2, 30, 30, 2, 2, 192, 128),
    (1, 30, 30, 4, 2, 24, 72),
]


def exact_gradients(q, k, v, dout, dlse, causal: bool, scale: float, **features):
    """dq, dk, dv, out and lse in float64, for (batch, seqlen, heads, head_dim) arrays; with sinks
    dsinks last. features: left, right, softcap, slopes, bias, sinks, and keep, what dropout makes
    of each probability."""
    q, k, v, dout = (np.float64(x).transpose(0, 2, 1, 3) for x in (q, k, v, dout))
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat(group, axis=1) for x in (k, v))
    s = q @ k.swapaxes(2, 3) * scale
    rows, keys = s.shape[2:]
    distance = np.arange(rows)[:, None] + keys - rows - np.arange(keys)
    slope = 1.0
    if softcap := features.get("softcap"):
        t = np.tanh(s / softcap)
        s, slope = softcap * t, 1 - t * t
    s = s + features.get("bias", 0.0)
    if "slopes" in features:
        s = s - features["slopes"][:, None, None] * abs(distance)
    if causal:
        s = np.where(distance < 0, -np.inf, s)
    if "left" in features:
        seen = (distance <= features["left"]) & (-distance <= features["right"])
        s = np.where(seen, s, -np.inf)
    sink = np.float64(features.get("sinks", np.full(s.shape[1], -np.inf)))[:, None, None]
    top = np.maximum(s.max(axis=3, keepdims=True), sink)
    top = np.where(np.isinf(top), 0.0, top)
    p = np.exp(s - top)
    p_sink = np.exp(sink - top)
    total = p.sum(axis=3, keepdims=True) + p_sink
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0]
    p = p / np.where(total == 0.0, 1.0, total)
    keep = features.get("keep", 1.0)
    out = (p * keep) @ v
    dp = dout @ v.swapaxes(2, 3) * keep
    delta = (p * dp).sum(axis=3, keepdims=True)
    if dlse is not None:
        delta = delta - np.float64(dlse)[..., None]
    dsinks = -(p_sink / np.where(total == 0.0, 1.0, total) * delta).sum(axis=(0, 2, 3))
    ds = p * (dp - delta) * slope * scale
    shape = (q.shape[0], -1, group, *k.shape[2:3])
    dq = ds @ k
    dk = (ds.swapaxes(2, 3) @ q).reshape(*shape, q.shape[3]).sum(axis=2)
    dv = ((p * keep).swapaxes(2, 3) @ dout).reshape(*shape, v.shape[3]).sum(axis=2)
    result = (*(x.transpose(0, 2, 1, 3) for x in (dq, dk, dv, out)), lse)
    return (*result, dsinks) if "sinks" in features else result


def arrays(seed: int, shape: tuple[int, ...], dtype=np.float32):
    batch, rows, keys, heads, kv_heads, hdim, hdim_v = shape
    random = np.random.default_rng(seed)
    return (
        random.standard_normal(size).astype(dtype)
        for size in (
            (batch, rows, heads, hdim),
            (batch, keys, kv_heads, hdim),
            (batch, keys, kv_heads, hdim_v),
            (batch, rows, heads, hdim_v),
        )
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_numpy(shape: tuple[int, ...], causal: bool) -> None:
    q, k, v, dout = arrays(1, shape)
    scale = 0.2
    dlse = np.random.default_rng(2).standard_normal((shape[0], shape[3], shape[1]))
    *expected, out, lse = exact_gradients(q, k, v, dout, dlse, causal, scale)
    given = attnpress.flash_attn_backward(
        dout, q, k, v, out.astype(np.float32), lse.astype(np.float32), scale, causal,
        dsoftmax_lse=dlse,
    )  # fmt: skip
    for gradient, tensor, exact in zip(given, (q, k, v), expected):
        assert gradient.shape == tensor.shape and gradient.dtype == tensor.dtype
        np.testing.assert_allclose(gradient, exact, atol=2e-4, rtol=2e-4)


SCORES = ["window", "softcap", "alibi", "bias", "sinks", "dropout", "all"]


def score_arguments(which: str, shape: tuple[int, ...], q, k):
    """Keywords of flash_attn_func, and what exact_gradients() calls them."""
    batch, rows, keys, heads = shape[:4]
    random = np.random.default_rng(11)
    given, exact = {}, {}
    if which in ("window", "all"):
        given["window_size"] = (9, 2)
        exact.update(left=9, right=2)
    if which in ("softcap", "all"):
        given["softcap"] = exact["softcap"] = 1.5
    if which in ("alibi", "all"):
        given["alibi_slopes"] = exact["slopes"] = np.linspace(0.1, 0.5, heads).astype(np.float32)
    if which in ("bias", "all"):  # broadcast over heads
        bias = random.standard_normal((batch, 1, rows, keys)).astype(np.float32)
        given["bias"] = exact["bias"] = bias
    if which in ("sinks", "all"):
        given["sinks"] = exact["sinks"] = np.linspace(-1, 1, heads).astype(np.float32)
    if which in ("dropout", "all"):
        given.update(dropout_p=0.25, seed=(7, 9))
        exact["keep"] = attnpress.dropout_mask(q, k, 0.25, (7, 9)) / 0.75
    return given, exact


@pytest.mark.parametrize("which", SCORES)
@pytest.mark.parametrize("shape", SHAPES[:2])
def test_numpy_with_scores(shape: tuple[int, ...], which: str) -> None:
    q, k, v, dout = arrays(6, shape)
    dlse = np.random.default_rng(8).standard_normal((shape[0], shape[3], shape[1]))
    given, exact_names = score_arguments(which, shape, q, k)
    dq, dk, dv, out, _, *dsinks = exact_gradients(q, k, v, dout, dlse, False, 0.2, **exact_names)
    found, found_lse, _ = attnpress.flash_attn_func(
        q, k, v, softmax_scale=0.2, return_attn_probs=True, **given
    )
    np.testing.assert_allclose(found, out, atol=1e-4, rtol=1e-4)
    gradients = attnpress.flash_attn_backward(
        dout, q, k, v, found, found_lse, 0.2, dsoftmax_lse=dlse, **given
    )
    assert len(gradients) == 3 + len(dsinks)
    for gradient, exact in zip(gradients, (dq, dk, dv, *dsinks)):
        np.testing.assert_allclose(gradient, exact, atol=5e-4, rtol=5e-4)


def test_numpy_reads_what_it_cannot_read_as_it_lies() -> None:
    """A gradient that is broadcast, and a tensor that is turned."""
    q, k, v, dout = arrays(3, SHAPES[0])
    turned = np.ascontiguousarray(k.transpose(0, 3, 2, 1)).transpose(0, 3, 2, 1)
    ones = np.broadcast_to(np.float32(1), dout.shape)
    *expected, out, lse = exact_gradients(q, k, v, ones, None, False, 1 / 8)
    given = attnpress.flash_attn_backward(
        ones, q, turned, v, out.astype(np.float32), lse.astype(np.float32)
    )
    for gradient, exact in zip(given, expected):
        np.testing.assert_allclose(gradient, exact, atol=2e-4, rtol=2e-4)


def test_what_is_refused() -> None:
    q, k, v, dout = arrays(4, SHAPES[0])
    out, lse = np.zeros_like(dout), np.zeros((2, 4, 40), np.float32)
    with pytest.raises(ValueError, match=r"dout is \(2, 39, 4, 64\); it must be \(2, 40, 4, 64\)"):
        attnpress.flash_attn_backward(dout[:, :39], q, k, v, out, lse)
    with pytest.raises(ValueError, match=r"softmax_lse is \(2, 4, 39\)"):
        attnpress.flash_attn_backward(dout, q, k, v, out, lse[:, :, :39])
    with pytest.raises(ValueError, match=r"dropout_p is 0\.5 and seed is None"):
        attnpress.flash_attn_backward(dout, q, k, v, out, lse, dropout_p=0.5)
    with pytest.raises(ValueError, match="out is float16; it must be float32"):
        attnpress.flash_attn_backward(dout, q, k, v, out.astype(np.float16), lse)
    with pytest.raises(ValueError, match=r"dsoftmax_lse is \(2, 1, 40\); it must be \(2, 4, 40\)"):
        attnpress.flash_attn_backward(dout, q, k, v, out, lse, dsoftmax_lse=lse[:, :1])
    for name, changed in (("out", (None, lse)), ("softmax_lse", (out, None))):
        with pytest.raises(TypeError, match=f"^{name} is NoneType; with q it must be a NumPy"):
            attnpress.flash_attn_backward(dout, q, k, v, *changed)


# ---- PyTorch ----------------------------------------------------------------------------------


def plain(q, k, v, causal: bool):
    """out and lse of (batch, seqlen, heads, head_dim) tensors, by PyTorch, in their dtype."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    s = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
    if causal:
        rows, keys = s.shape[2:]
        seen = torch.ones(rows, keys, dtype=torch.bool, device=q.device).tril(keys - rows)
        s = s.masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(s, 3)
    return (torch.softmax(s, 3).to(v.dtype) @ v).transpose(1, 2), lse


def check_autograd(device: str, dtype, deterministic: bool, causal: bool, shape) -> None:
    """Views of one packed tensor; a loss of out and lse; a gradient that is not contiguous."""
    batch, rows, _, heads, kv_heads, hdim, _ = shape
    torch.manual_seed(5)
    packed = torch.randn(batch, rows, heads + 2 * kv_heads, hdim, device=device).to(dtype)
    weight = torch.randn(batch, heads, hdim, rows, device=device).to(dtype).permute(0, 3, 1, 2)

    def gradient(function, as_dtype):
        leaf = packed.detach().to(as_dtype).requires_grad_()
        q, k, v = leaf.split((heads, kv_heads, kv_heads), dim=2)
        out, lse = function(q, k, v)
        return torch.autograd.grad((out * weight.to(as_dtype)).sum() + lse.sum(), leaf)[0]

    ours = gradient(
        lambda q, k, v: attnpress.flash_attn_func(
            q, k, v, causal=causal, deterministic=deterministic, return_attn_probs=True
        )[:2],
        dtype,
    )
    exact = gradient(lambda q, k, v: plain(q, k, v, causal), torch.float64)
    low = gradient(lambda q, k, v: plain(q, k, v, causal), dtype)
    error = (ours.double() - exact).abs().max().item()
    bound = 2 * (low.double() - exact).abs().max().item() + 1e-4
    assert error <= bound


@needs_torch
@pytest.mark.parametrize("causal", [False, True])
def test_autograd_on_the_cpu(causal: bool) -> None:
    check_autograd("cpu", torch.float32, False, causal, (2, 50, 50, 4, 2, 64, 64))


@needs_cuda
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("hdim", [64, 72, 128, 256])
def test_autograd_on_the_gpu(hdim: int, causal: bool, deterministic: bool) -> None:
    shape = (2, 300, 300, 4, 2, hdim, hdim)
    check_autograd("cuda", torch.bfloat16, deterministic, causal, shape)


@needs_torch
def test_second_derivatives_are_refused() -> None:
    q = torch.randn(1, 8, 1, 16, requires_grad=True)
    out = attnpress.flash_attn_func(q, q, q)
    (first,) = torch.autograd.grad((out * out).sum(), q, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        first.sum().backward()


def douts(like):
    """Gradients of one shape that lie in memory in different ways, the last not 16-byte aligned."""
    dense = torch.randn_like(like)
    shifted = torch.randn(like.numel() + 1).to(like)[1:].view(like.shape)
    transposed = torch.randn_like(like.transpose(1, 2)).transpose(1, 2)
    return (
        dense,
        transposed,
        dense[:, :, :1].expand_as(like),
        torch.ones(()).expand_as(like),
        shifted,
    )


@needs_torch
@pytest.mark.parametrize("with_hooks", [False, True])
@pytest.mark.parametrize("with_dlse", [False, True])
@pytest.mark.parametrize("which", ["plain", "window_size", "alibi_slopes", "dropout_p", "softcap"])
def test_kept_plans_give_the_bits_of_a_call_without(
    which: str, with_dlse: bool, with_hooks: bool
) -> None:
    """A second call of a signature, whose plan is there, with other tensors, and with saved tensors
    that come back with other strides."""
    packed = torch.randn(2, 20, 6, 32)
    for seed in (3, 4):
        qkv = [x.requires_grad_() for x in packed.clone().split(2, dim=2)]
        features = {
            "plain": {},
            "window_size": {"window_size": (7, 3)},
            "alibi_slopes": {"alibi_slopes": torch.rand(2)},
            "dropout_p": {"dropout_p": 0.3, "seed": seed},
            "softcap": {"softcap": 20.0},
        }[which]
        for dout in douts(torch.empty(2, 20, 2, 32)):
            with torch.autograd.graph.saved_tensors_hooks(
                (lambda x: x.contiguous()) if with_hooks else (lambda x: x), lambda x: x
            ):
                out, lse, _ = attnpress.flash_attn_func(*qkv, return_attn_probs=True, **features)
            dlse = torch.randn_like(lse) if with_dlse else None
            results = ((out, dout), (lse, dlse)) if with_dlse else ((out, dout),)
            got = torch.autograd.grad([x for x, _ in results], qkv, [dx for _, dx in results])
            inputs = [x.detach() for x in qkv]
            wanted = attnpress.flash_attn_backward(
                dout, *inputs, out.detach(), lse.detach(), dsoftmax_lse=dlse, **features
            )
            for a, b in zip(got, wanted):
                assert torch.equal(a, b)


@needs_torch
def test_gradients_of_a_part() -> None:
    """Only one argument requires grad; lse is not used."""
    q, k, v = (torch.randn(1, 20, 2, 32) for _ in range(3))
    k.requires_grad_()
    attnpress.flash_attn_func(q, k, v, causal=True).sum().backward()
    exact = torch.autograd.grad(plain(q, k, v, True)[0].sum(), k)[0]
    torch.testing.assert_close(k.grad, exact, atol=1e-4, rtol=1e-4)


@needs_torch
@pytest.mark.parametrize("which", SCORES)
def test_autograd_with_scores(which: str) -> None:
    """Of q, k, v and sinks, against NumPy's."""
    shape = (2, 40, 40, 4, 2, 64, 64)
    q, k, v, dout = arrays(9, shape)
    given, _ = score_arguments(which, shape, q, k)
    out, lse, _ = attnpress.flash_attn_func(q, k, v, return_attn_probs=True, **given)
    expected = attnpress.flash_attn_backward(dout, q, k, v, out, lse, **given)
    leaves = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    tensors = {
        name: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in given.items()
    }
    if "sinks" in tensors:
        leaves.append(tensors["sinks"].requires_grad_())
    found = attnpress.flash_attn_func(*leaves[:3], **tensors)
    gradients = torch.autograd.grad(found, leaves, torch.from_numpy(dout))
    assert len(gradients) == len(expected)
    for gradient, exact in zip(gradients, expected):
        np.testing.assert_allclose(gradient.numpy(), exact, atol=1e-5, rtol=1e-5)


@needs_torch
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "shape", [(2, 4, 40, 50), (1, 4, 40, 50), (2, 1, 40, 50), (40, 50), (2, 1, 1, 50), (4, 40, 1)]
)
def test_gradient_by_the_bias(shape: tuple[int, ...], dtype: str, device: str) -> None:
    """Summed over what it is broadcast over, against PyTorch's own; a view of it, too."""
    of = torch.float16 if device == "cuda" else torch.float32
    q, dout = (torch.randn(2, 40, 4, 64, device=device).to(of) for _ in range(2))
    k, v = (torch.randn(2, 50, 4, 64, device=device).to(of) for _ in range(2))
    leaf = torch.randn(shape, device=device).to(getattr(torch, dtype)).requires_grad_()
    softcap, scale = 4.0, 0.2
    s = torch.einsum("bihd,bjhd->bhij", q.double(), k.double()) * scale
    p = torch.softmax(softcap * torch.tanh(s / softcap) + leaf.double(), 3)
    out = torch.einsum("bhij,bjhd->bihd", p, v.double())
    (expected,) = torch.autograd.grad(out, leaf, dout.double())
    for bias in (leaf, leaf.transpose(-1, -2).contiguous().transpose(-1, -2)):
        out = attnpress.flash_attn_func(q, k, v, softmax_scale=scale, softcap=softcap, bias=bias)
        (found,) = torch.autograd.grad(out, leaf, dout)
        assert found.dtype == leaf.dtype and found.shape == leaf.shape
        close = {"atol": 0.05, "rtol": 0.05} if device == "cuda" else {"atol": 1e-4, "rtol": 1e-4}
        if dtype == "bfloat16":
            close = {"atol": 0.02, "rtol": 0.02}
        torch.testing.assert_close(found, expected, **close)


@needs_torch
def test_autograd_keeps_the_seed() -> None:
    """Another seed is drawn into the caller's tensor before the backward pass; a bias that changes
    is found out."""
    q, k, v = (torch.randn(1, 30, 2, 32) for _ in range(3))
    q.requires_grad_()
    seed = torch.tensor([3, 4])
    out = attnpress.flash_attn_func(q, k, v, dropout_p=0.5, seed=seed)
    seed.add_(1)
    (found,) = torch.autograd.grad(out.sum(), q)
    out = attnpress.flash_attn_func(q, k, v, dropout_p=0.5, seed=(3, 4))
    (expected,) = torch.autograd.grad(out.sum(), q)
    assert torch.equal(found, expected)
    bias = torch.zeros(30, 30)
    out = attnpress.flash_attn_func(q, k, v, bias=bias)
    bias.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@needs_torch
def test_only_the_sinks_require_grad() -> None:
    q, k, v = (torch.randn(1, 30, 2, 32, dtype=torch.float32) for _ in range(3))
    sinks = torch.zeros(2, dtype=torch.float16, requires_grad=True)
    attnpress.flash_attn_func(q, k, v, sinks=sinks).sum().backward()
    assert sinks.grad.dtype == torch.float16 and sinks.grad.abs().max() > 0
