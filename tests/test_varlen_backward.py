"""Gradients of sequences of their own lengths: each is what flash_attn_backward gives of it alone,
and rows that belong to no sequence have gradients of 0."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import attnpress

torch = pytest.importorskip("torch")

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
LENGTHS_Q = [5, 0, 40, 17, 3]
LENGTHS_K = [30, 9, 40, 0, 70]
FIRST, LAST = 2, 3  # rows before and behind the sequences


def cu_seqlens(lengths: list[int], first: int = FIRST):
    return torch.tensor(np.cumsum([first, *lengths]), dtype=torch.int32)


def rows(lengths: list[int], heads: int, hdim: int = 40, dtype=torch.float32, seed: int = 0):
    """(total, heads, head_dim), NaN outside of the sequences."""
    generator = torch.Generator().manual_seed(seed)
    total = FIRST + sum(lengths) + LAST
    x = torch.randn(total, heads, hdim, generator=generator).to(dtype)
    x[:FIRST] = x[total - LAST :] = float("nan")
    return x


def sequences(x, lengths: list[int]):
    ends = np.cumsum([FIRST, *lengths])
    return [x[begin:end] for begin, end in itertools.pairwise(ends)]


def inputs(heads: int = 4, heads_kv: int = 2, dtype=torch.float32):
    q = rows(LENGTHS_Q, heads, dtype=dtype, seed=1)
    k, v = (rows(LENGTHS_K, heads_kv, dtype=dtype, seed=seed) for seed in (2, 3))
    return q, k, v, rows(LENGTHS_Q, heads, dtype=dtype, seed=4)


LENGTHS = (cu_seqlens(LENGTHS_Q), cu_seqlens(LENGTHS_K), max(LENGTHS_Q), max(LENGTHS_K))


def expected(q, k, v, dout, dlse=None, **features):
    """dq, dk, dv and dsinks of the sequences one by one; zeros elsewhere."""
    gradients = [torch.zeros_like(x) for x in (q, k, v)]
    sinks = features.get("sinks")
    dsinks = None if sinks is None else torch.zeros_like(sinks)
    slopes = features.pop("alibi_slopes", None)
    parts = [
        sequences(x, lengths)
        for x, lengths in (
            (q, LENGTHS_Q), (k, LENGTHS_K), (v, LENGTHS_K), (dout, LENGTHS_Q),
            (gradients[0], LENGTHS_Q), (gradients[1], LENGTHS_K), (gradients[2], LENGTHS_K),
        )
    ]  # fmt: skip
    of_lse = None if dlse is None else sequences(dlse.t(), LENGTHS_Q)
    for b, (q1, k1, v1, dout1, *grads) in enumerate(zip(*parts)):
        one = dict(features)
        if slopes is not None:
            one["alibi_slopes"] = slopes[b] if slopes.dim() > 1 else slopes
        out, lse = attnpress.forward(q1[None], k1[None], v1[None], **one)
        found = attnpress.flash_attn_backward(
            dout1[None], q1[None], k1[None], v1[None], out, lse,
            dsoftmax_lse=None if of_lse is None else of_lse[b].t()[None], **one,
        )  # fmt: skip
        for to, x in zip(grads, found):
            to.copy_(x[0])
        if dsinks is not None:
            dsinks += found[3]
    return gradients, dsinks


FEATURES = [
    {},
    {"causal": True},
    {"window_size": (7, 2), "softcap": 5.0},
    {"causal": True, "alibi_slopes": torch.arange(20).reshape(5, 4) * 0.05},
    {"sinks": torch.tensor([0.5, -1.0, 2.0, 0.0])},
]


@pytest.mark.parametrize("features", FEATURES, ids=lambda x: "-".join(x) or "plain")
def test_autograd(features) -> None:
    q, k, v, dout = inputs()
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    named = dict(features)
    sinks = named.pop("sinks", None)
    if sinks is not None:
        named["s_aux"] = sinks = sinks.clone().requires_grad_()
    out, lse, _ = attnpress.flash_attn_varlen_func(
        *leaves, *LENGTHS, return_attn_probs=True, **named
    )
    dlse = torch.linspace(-1, 1, lse.numel()).reshape(lse.shape)
    # A loss of the sequences alone: what lies beside them is NaN.
    loss = sum((a * b).sum() for a, b in zip(sequences(out, LENGTHS_Q), sequences(dout, LENGTHS_Q)))
    columns = torch.isfinite(lse)
    columns[:, :FIRST] = columns[:, -LAST:] = False
    loss = loss + lse[columns].mul(dlse[columns]).sum()
    loss.backward()
    wanted, dsinks = expected(q, k, v, dout, torch.where(columns, dlse, 0), **features)
    for leaf, gradient in zip(leaves, wanted):
        assert torch.equal(leaf.grad, gradient)
    if sinks is not None:
        assert torch.allclose(sinks.grad, dsinks, rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_cuda)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "shape",
    [(5, 4, 41, 75), (1, 4, 40, 70), (5, 1, 40, 70), (40, 70), (5, 4, 1, 72), (4, 40, 1)],
    ids=str,
)
def test_gradient_by_the_bias(shape, dtype, device) -> None:
    """Summed over what it is broadcast over, and 0 past the ends, against PyTorch's own."""
    on_gpu = device == "cuda"
    q, k, v, dout = (x.to(device) for x in inputs(dtype=torch.float16 if on_gpu else torch.float32))
    lengths = [x.to(device) if torch.is_tensor(x) else x for x in LENGTHS]
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    generator = torch.Generator().manual_seed(7)
    bias = torch.randn(shape, generator=generator).to(device, getattr(torch, dtype))
    bias.requires_grad_()
    out = attnpress.flash_attn_varlen_func(*leaves, *lengths, causal=True, softcap=4.0, bias=bias)
    inside = torch.cat(sequences(out, LENGTHS_Q))
    inside.backward(torch.cat(sequences(dout, LENGTHS_Q)))
    whole = bias.detach().double().requires_grad_()
    of_all = whole.expand(5, 4, *(max(a, b) for a, b in zip(whole.shape[-2:], (40, 70))))
    loss = 0.0
    for b in range(5):
        q1, dout1 = (sequences(x.double(), LENGTHS_Q)[b] for x in (q, dout))
        k1, v1 = (sequences(x.double(), LENGTHS_K)[b].repeat_interleave(2, 1) for x in (k, v))
        rows_, keys = len(q1), len(k1)
        s = 4.0 * torch.tanh(torch.einsum("ihd,jhd->hij", q1, k1) / 40**0.5 / 4.0)
        s = s + of_all[b, :, :rows_, :keys]
        seen = torch.arange(keys)[None] <= torch.arange(rows_)[:, None] + keys - rows_
        seen = seen.to(device)
        s = s.masked_fill(~seen, -torch.inf)
        p = torch.softmax(s, 2).nan_to_num()
        loss = loss + (torch.einsum("hij,jhd->ihd", p, v1) * dout1).sum()
    (expected,) = torch.autograd.grad(loss, whole)
    assert bias.grad.dtype == bias.dtype and bias.grad.shape == bias.shape
    close = {"atol": 0.02, "rtol": 0.02} if dtype == "bfloat16" else {"atol": 1e-4, "rtol": 1e-4}
    if on_gpu:
        close = {"atol": 0.05, "rtol": 0.05}
    torch.testing.assert_close(bias.grad.double(), expected, **close)
    if on_gpu:
        return  # where dq is summed in any order
    found = attnpress.flash_attn_varlen_backward(
        dout, q, k, v, *attnpress.flash_attn_varlen_func(
            q, k, v, *LENGTHS, causal=True, softcap=4.0, bias=bias.detach(), return_attn_probs=True
        )[:2], *LENGTHS, causal=True, softcap=4.0, bias=bias.detach(),
    )  # fmt: skip
    for leaf, gradient in zip(leaves, found):
        assert torch.equal(leaf.grad, gradient)


def test_dropout_has_the_seed_of_the_call() -> None:
    q, k, v, dout = inputs()
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    seed = torch.tensor([5, 7])
    out, lse, _ = attnpress.flash_attn_varlen_func(
        *leaves, *LENGTHS, dropout_p=0.3, seed=seed, return_attn_probs=True
    )
    seed.zero_()  # somebody draws another
    inside = torch.cat(sequences(out, LENGTHS_Q))
    inside.backward(torch.cat(sequences(dout, LENGTHS_Q)))
    found = attnpress.flash_attn_varlen_backward(
        dout, q, k, v, out.detach(), lse.detach(), *LENGTHS, dropout_p=0.3, seed=(5, 7)
    )
    other = attnpress.flash_attn_varlen_backward(
        dout, q, k, v, out.detach(), lse.detach(), *LENGTHS, dropout_p=0.3, seed=(0, 0)
    )
    for leaf, gradient in zip(leaves, found):
        assert torch.equal(leaf.grad, gradient)
    assert not torch.equal(found[2], other[2])


def test_packed_and_strided() -> None:
    """Gradients of the parts of a packed tensor, of views, and of an output gradient with gaps."""
    q, k, v, dout = inputs(heads=2)
    lengths = (cu_seqlens(LENGTHS_K), max(LENGTHS_K))
    same = [rows(LENGTHS_K, 2, seed=seed) for seed in (5, 6, 7, 8)]
    qkv = torch.stack(same[:3], 1).requires_grad_()
    out = attnpress.flash_attn_varlen_qkvpacked_func(qkv, *lengths, causal=True)
    inside = slice(FIRST, -LAST)
    wide = torch.full((out.shape[0], 3, out.shape[2]), float("nan"))
    wide[:, ::2] = same[3]
    out[inside].backward(wide[inside, ::2])
    leaves = [x.clone().requires_grad_() for x in same[:3]]
    attnpress.flash_attn_varlen_func(
        *leaves, lengths[0], lengths[0], lengths[1], lengths[1], causal=True
    )[inside].backward(same[3][inside])
    for part, leaf in enumerate(leaves):
        assert torch.equal(qkv.grad[:, part], leaf.grad)
        assert not qkv.grad[:FIRST].any() and not qkv.grad[-LAST:].any()
    kv = torch.stack([k, v], 1).requires_grad_()
    turned = q.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    attnpress.flash_attn_varlen_kvpacked_func(turned, kv, *LENGTHS)[inside].backward(dout[inside])
    wanted, _ = expected(q, k, v, dout)
    assert torch.equal(turned.grad, wanted[0])
    assert torch.equal(kv.grad, torch.stack(wanted[1:], 1))


def test_numpy_and_used_rows() -> None:
    """flash_attn_varlen_backward of arrays; keys that are not used have gradients of 0."""
    q, k, v, dout = (x.numpy() for x in inputs())
    used = np.array([20, 9, 13, 0, 70], dtype=np.int32)
    lengths = (LENGTHS[0].numpy(), LENGTHS[1].numpy(), *LENGTHS[2:])
    out, lse, _ = attnpress.flash_attn_varlen_func(
        q, k, v, *lengths, seqused_k=used, return_attn_probs=True
    )
    dq, dk, dv = attnpress.flash_attn_varlen_backward(
        dout, q, k, v, out, lse, *lengths, seqused_k=used
    )
    ends = np.cumsum([FIRST, *LENGTHS_K])
    for b, begin in enumerate(ends[:-1]):
        assert not dk[begin + used[b] : ends[b + 1]].any()
        assert not dv[begin + used[b] : ends[b + 1]].any()
    assert dk[ends[0] : ends[0] + 20].all() and np.isfinite(dq).all()
    leaves = [torch.from_numpy(x.copy()).requires_grad_() for x in (q, k, v)]
    attnpress.flash_attn_varlen_func(*leaves, *LENGTHS, seqused_k=torch.from_numpy(used))[
        FIRST:-LAST
    ].backward(torch.from_numpy(dout[FIRST:-LAST]))
    for leaf, gradient in zip(leaves, (dq, dk, dv)):
        assert np.array_equal(leaf.grad.numpy(), gradient)


def test_gradients_that_are_given() -> None:
    """Written in place where the library can, and else copied; rows beside the sequences stay."""
    q, k, v, dout = inputs()
    out, lse, _ = attnpress.flash_attn_varlen_func(q, k, v, *LENGTHS, return_attn_probs=True)
    wanted, _ = expected(q, k, v, dout)
    given = [torch.full_like(x, 9.0) for x in (q, k, v)]
    found = attnpress.flash_attn_varlen_backward(
        dout, q, k, v, out, lse, *LENGTHS, gradients=tuple(given)
    )
    for memory, gradient, want in zip(given, found, wanted):
        assert gradient.data_ptr() == memory.data_ptr()
        assert torch.equal(memory[FIRST:-LAST], want[FIRST:-LAST])
        assert (memory[:FIRST] == 9).all() and (memory[-LAST:] == 9).all()
    apart = [torch.full((*x.shape, 2), 9.0)[..., 0] for x in (q, k, v)]
    attnpress.flash_attn_varlen_backward(dout, q, k, v, out, lse, *LENGTHS, gradients=tuple(apart))
    for memory, want in zip(apart, wanted):
        assert torch.equal(memory[FIRST:-LAST], want[FIRST:-LAST])


def test_what_is_refused() -> None:
    q, k, v, dout = inputs()
    q.requires_grad_()
    with pytest.raises(NotImplementedError, match="calls with out"):
        attnpress.flash_attn_varlen_func(q, k, v, *LENGTHS, out=torch.empty_like(q))
    pages, table = torch.zeros(4, 16, 2, 40), torch.zeros(5, 1, dtype=torch.int32)
    with pytest.raises(NotImplementedError, match="block_table"):
        attnpress.flash_attn_varlen_func(q, pages, pages, *LENGTHS, block_table=table)
    with pytest.raises(NotImplementedError, match="no gradient by alibi_slopes"):
        attnpress.flash_attn_varlen_func(
            q, k, v, *LENGTHS, alibi_slopes=torch.ones(4, requires_grad=True)
        )
    with pytest.raises(NotImplementedError, match="a cache"):
        attnpress.flash_attn_with_kvcache(
            torch.zeros(4, 1, 4, 40, requires_grad=True), pages, pages
        )
    out, lse, _ = attnpress.flash_attn_varlen_func(q, k, v, *LENGTHS, return_attn_probs=True)
    with pytest.raises(ValueError, match="softmax_lse is"):
        attnpress.flash_attn_varlen_backward(dout, q, k, v, out, lse.t(), *LENGTHS)
    with pytest.raises(ValueError, match="dsoftmax_lse is"):
        attnpress.flash_attn_varlen_backward(
            dout, q, k, v, out, lse, *LENGTHS, dsoftmax_lse=lse[:1]
        )
    with pytest.raises(TypeError, match="softmax_lse is NoneType; with q it must be a tensor"):
        attnpress.flash_attn_varlen_backward(dout, q, k, v, out, None, *LENGTHS)
    numpys = [x.detach().numpy() for x in (dout, q, k, v, out, lse, *LENGTHS[:2])]
    with pytest.raises(TypeError, match="gradients are for PyTorch tensors"):
        attnpress.flash_attn_varlen_backward(*numpys, *LENGTHS[2:], gradients=tuple(numpys[1:4]))
    with pytest.raises(ValueError, match="cu_seqlens_k has shape"):
        attnpress.flash_attn_varlen_backward(
            dout, q, k, v, out, lse, LENGTHS[0], LENGTHS[1][:3], *LENGTHS[2:]
        )
    with pytest.raises(ValueError, match="seed is None"):
        attnpress.flash_attn_varlen_backward(dout, q, k, v, out, lse, *LENGTHS, dropout_p=0.1)
    (gradient,) = torch.autograd.grad(out[FIRST:-LAST].sum(), q, create_graph=True)
    with pytest.raises(RuntimeError):
        gradient.sum().backward()


def test_in_graphs() -> None:
    """torch.compile of the public function, whole, gives the same bits; so do the operators."""
    from attnpress import flash_attn_interface

    q, k, v, dout = inputs()
    wanted, _ = expected(q, k, v, dout, causal=True)

    def step(q, k, v, cu_seqlens_q, cu_seqlens_k):
        return attnpress.flash_attn_varlen_func(
            q, k, v, cu_seqlens_q, cu_seqlens_k, *LENGTHS[2:], causal=True
        )

    def step_of_interface(q, k, v, cu_seqlens_q, cu_seqlens_k):
        return flash_attn_interface.flash_attn_varlen_func(
            q, k, v, cu_seqlens_q, cu_seqlens_k, *LENGTHS[2:], causal=True
        )

    for function in (step, step_of_interface):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        compiled(*leaves, *LENGTHS[:2])[FIRST:-LAST].backward(dout[FIRST:-LAST])
        for leaf, gradient in zip(leaves, wanted):
            assert torch.equal(leaf.grad, gradient)
    clean = [torch.nan_to_num(x).requires_grad_() for x in (q, k, v)]
    lengths = [cu_seqlens(lengths, 0) for lengths in (LENGTHS_Q, LENGTHS_K)]
    for x, total in zip(clean, (sum(LENGTHS_Q), sum(LENGTHS_K), sum(LENGTHS_K))):
        x.data = x.data[:total].contiguous()
    check = torch.library.opcheck(
        torch.ops.attnpress.varlen_attention.default,
        (
            *clean, *lengths, None, None, None, None, *LENGTHS[2:], None, True, -1, -1, 0.0, 0.0,
            False, 0,
        ),
    )  # fmt: skip
    assert set(check.values()) == {"SUCCESS"}


def test_private_functions() -> None:
    """flash-attn's private functions and those of its extension module."""
    from attnpress import flash_attn_2_cuda, flash_attn_interface

    q, k, v, dout = inputs()
    wanted, _ = expected(q, k, v, dout, causal=True, softmax_scale=0.3)
    out, lse, _, state = flash_attn_interface._flash_attn_varlen_forward(
        q, k, v, *LENGTHS, 0.0, 0.3, True
    )
    rest = (*LENGTHS, 0.0, 0.3, True, -1, -1, 0.0, None, False)
    for function in (
        flash_attn_interface._flash_attn_varlen_backward,
        flash_attn_interface._wrapped_flash_attn_varlen_backward,
    ):
        given = [torch.zeros_like(x) for x in (q, k, v)]
        sums = function(dout, q, k, v, out, lse, *given, *rest, state)
        assert sums.shape == (4, q.shape[0] + 128 * 5)
        for memory, gradient in zip(given, wanted):
            assert torch.equal(memory, gradient)
    found = flash_attn_2_cuda.varlen_bwd(
        dout, q, k, v, out, lse, None, None, None, *LENGTHS[:2], None, *LENGTHS[2:], 0.0, 0.3,
        False, True, -1, -1, 0.0, False, None, None,
    )  # fmt: skip
    for memory, gradient in zip(found, wanted):
        assert torch.equal(memory, gradient)
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    flash_attn_interface.flash_attn_varlen_func(*leaves, *LENGTHS, causal=True, softmax_scale=0.3)[
        FIRST:-LAST
    ].backward(dout[FIRST:-LAST])
    for leaf, gradient in zip(leaves, wanted):
        assert torch.equal(leaf.grad, gradient)
