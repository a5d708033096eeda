"""flash-attn's modules on attnpress: their signatures, and what their functions compute, on CPU
tensors against float64."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import attnpress  # noqa: E402
from attnpress import flash_attn_2_cuda as extension  # noqa: E402
from attnpress import flash_attn_interface as interface  # noqa: E402
from attnpress.flash_attn import bert_padding  # noqa: E402
from attnpress.flash_attn.layers import rotary  # noqa: E402
from attnpress.flash_attn.losses.cross_entropy import CrossEntropyLoss  # noqa: E402
from attnpress.flash_attn.ops import activations  # noqa: E402
from attnpress.flash_attn.ops import layer_norm as ops_layer_norm  # noqa: E402
from attnpress.flash_attn.ops import rms_norm as ops_rms_norm  # noqa: E402
from attnpress.flash_attn.ops.triton import layer_norm as norms  # noqa: E402
from attnpress.flash_attn.ops.triton.rotary import apply_rotary  # noqa: E402
from attnpress.flash_attn_3 import flash_attn_interface as third  # noqa: E402

# ---- Signatures ----------------------------------------------------------------------------------

TAIL = (
    "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, "
    "alibi_slopes=None, deterministic=False, return_attn_probs=False"
)
LENGTHS = "cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k"
PRIVATE = (
    "dropout_p, softmax_scale, causal, window_size_left{0}, window_size_right{0}, softcap{1}, "
    "alibi_slopes{2}"
)
GRADIENTS = "dout, q, k, v, out, softmax_lse, dq, dk, dv"
CACHE = (
    "rotary_cos=None, rotary_sin=None, cache_seqlens=None, cache_batch_idx=None, "
    "cache_leftpad=None, "
)
DESCALE = "q_descale=None, k_descale=None, v_descale=None"
SECOND = {  # flash-attn 2.8.3
    "flash_attn_func": f"q, k, v, {TAIL}",
    "flash_attn_qkvpacked_func": f"qkv, {TAIL}",
    "flash_attn_kvpacked_func": f"q, kv, {TAIL}",
    "flash_attn_varlen_func": f"q, k, v, {LENGTHS}, {TAIL}, block_table=None",
    "flash_attn_varlen_qkvpacked_func": f"qkv, cu_seqlens, max_seqlen, {TAIL}",
    "flash_attn_varlen_kvpacked_func": f"q, kv, {LENGTHS}, {TAIL}",
    "flash_attn_with_kvcache": (
        f"q, k_cache, v_cache, k=None, v=None, {CACHE}block_table=None, softmax_scale=None, "
        "causal=False, window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, "
        "alibi_slopes=None, num_splits=0, return_softmax_lse=False"
    ),
    "_flash_attn_forward": f"q, k, v, {PRIVATE.format('', '', '')}, return_softmax",
    "_flash_attn_varlen_forward": (
        f"q, k, v, {LENGTHS}, {PRIVATE.format('=-1', '=0.0', '=None')}, return_softmax=False, "
        "block_table=None, leftpad_k=None, seqused_k=None, zero_tensors=False"
    ),
    "_flash_attn_backward": (
        f"{GRADIENTS}, {PRIVATE.format('', '', '')}, deterministic, rng_state=None"
    ),
    "_flash_attn_varlen_backward": (
        f"{GRADIENTS}, {LENGTHS}, {PRIVATE.format('', '', '')}, deterministic, rng_state=None, "
        "zero_tensors=False"
    ),
}
for _name in [name for name in SECOND if name.startswith("_")]:  # each has one for graphs
    SECOND[f"{_name}_fake"] = SECOND[_name]
MASK = "is_causal, window_size_left, window_size_right, softcap"
EXTENSION = {  # flash_attn_2_cuda: by position
    "fwd": f"q, k, v, out, alibi_slopes, p_dropout, softmax_scale, {MASK}, return_softmax, gen",
    "varlen_fwd": (
        "q, k, v, out, cu_seqlens_q, cu_seqlens_k, seqused_k, leftpad_k, block_table, "
        f"alibi_slopes, max_seqlen_q, max_seqlen_k, p_dropout, softmax_scale, zero_tensors, "
        f"{MASK}, return_softmax, gen"
    ),
    "bwd": (
        f"{GRADIENTS}, alibi_slopes, p_dropout, softmax_scale, {MASK}, deterministic, gen, "
        "rng_state"
    ),
    "varlen_bwd": (
        f"{GRADIENTS}, cu_seqlens_q, cu_seqlens_k, alibi_slopes, max_seqlen_q, max_seqlen_k, "
        f"p_dropout, softmax_scale, zero_tensors, {MASK}, deterministic, gen, rng_state"
    ),
    "fwd_kvcache": (
        "q, kcache, vcache, k, v, seqlens_k, rotary_cos, rotary_sin, cache_batch_idx, leftpad_k, "
        f"block_table, alibi_slopes, out, softmax_scale, {MASK}, is_rotary_interleaved, num_splits"
    ),
}
LATE = "num_splits={}, pack_gqa=None, "
WINDOW = "window_size=(-1, -1), attention_chunk=0, "
THIRD = {  # FlashAttention-3
    "flash_attn_func": (
        f"q, k, v, softmax_scale=None, causal=False, qv=None, {DESCALE}, {WINDOW}softcap=0.0, "
        f"{LATE.format(1)}deterministic=False, sm_margin=0, return_attn_probs=False"
    ),
    "flash_attn_qkvpacked_func": (
        f"qkv, softmax_scale=None, causal=False, {DESCALE}, {WINDOW}softcap=0.0, "
        "deterministic=False, num_heads_q=None, sm_margin=0, return_attn_probs=False"
    ),
    "flash_attn_varlen_func": (
        f"q, k, v, {LENGTHS}, seqused_q=None, seqused_k=None, softmax_scale=None, causal=False, "
        f"qv=None, {DESCALE}, {WINDOW}softcap=0.0, {LATE.format(1)}deterministic=False, "
        "sm_margin=0, return_attn_probs=False"
    ),
    "flash_attn_combine": "out_partial, lse_partial, out=None, out_dtype=None",
    "flash_attn_with_kvcache": (
        f"q, k_cache, v_cache, k=None, v=None, qv=None, {CACHE}page_table=None, cu_seqlens_q=None, "
        f"cu_seqlens_k_new=None, max_seqlen_q=None, rotary_seqlens=None, {DESCALE}, "
        f"softmax_scale=None, causal=False, {WINDOW}softcap=0.0, rotary_interleaved=True, "
        f"scheduler_metadata=None, {LATE.format(0)}sm_margin=0, return_softmax_lse=False"
    ),
    "get_scheduler_metadata": (
        "batch_size, max_seqlen_q, max_seqlen_k, num_heads_q, num_heads_kv, headdim, "
        "cache_seqlens, qkv_dtype=torch.bfloat16, headdim_v=None, cu_seqlens_q=None, "
        "cu_seqlens_k_new=None, cache_leftpad=None, page_size=None, max_seqlen_k_new=0, "
        f"causal=False, {WINDOW}has_softcap=False, {LATE.format(0)}sm_margin=0"
    ),
    "_flash_attn_forward": (
        "q, k, v, k_new=None, v_new=None, qv=None, out_=None, cu_seqlens_q=None, "
        "cu_seqlens_k=None, cu_seqlens_k_new=None, seqused_q=None, seqused_k=None, "
        "max_seqlen_q=None, max_seqlen_k=None, page_table=None, kv_batch_idx=None, leftpad_k=None, "
        f"rotary_cos=None, rotary_sin=None, seqlens_rotary=None, {DESCALE}, softmax_scale=None, "
        "causal=False, window_size_left=-1, window_size_right=-1, attention_chunk=0, softcap=0.0, "
        f"rotary_interleaved=True, scheduler_metadata=None, {LATE.format(1)}sm_margin=0"
    ),
    "_flash_attn_backward": (
        "dout, q, k, v, out, softmax_lse, cu_seqlens_q=None, cu_seqlens_k=None, sequed_q=None, "
        "sequed_k=None, max_seqlen_q=None, max_seqlen_k=None, dq=None, dk=None, dv=None, "
        "softmax_scale=None, is_causal=False, window_size_left=-1, window_size_right=-1, "
        "softcap=0.0, deterministic=False, sm_margin=0"
    ),
}


@pytest.mark.parametrize(
    "module, name, wanted",
    [
        (module, name, wanted)
        for module, table in ((interface, SECOND), (extension, EXTENSION), (third, THIRD))
        for name, wanted in table.items()
    ],
    ids=lambda value: value if isinstance(value, str) and "," not in value else "",
)
def test_signature_is_literal(module, name, wanted):
    parameters = inspect.signature(getattr(module, name)).parameters.values()
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    shown = ", ".join(
        p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters
    )
    assert shown == wanted


PRIVATE_NAMES = [name for name in SECOND if name.startswith("_") and not name.endswith("_fake")]


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_wrapped_functions_take_what_the_plain_ones_do(name):
    schema = getattr(interface, f"_wrapped{name}").default._schema
    parameters = inspect.signature(getattr(interface, name)).parameters.values()
    defaults = [None if p.default is p.empty else p.default for p in parameters]
    assert [argument.name for argument in schema.arguments] == [p.name for p in parameters]
    assert [argument.default_value for argument in schema.arguments] == defaults


ROTARY_TAIL = "interleaved=False, seqlen_offsets=0"
NORM = "x0, residual, weight, bias, dropout_p, epsilon, "
NORM_TAIL = "prenorm=False, residual_in_fp32=False, return_dropout_mask=False"
SUBSET = (
    f"{NORM}layerscale=None, x0_subset=None, out_subset=None, rowscale_const=1.0, out_numrows=0, "
    f"{NORM_TAIL}"
)
PARALLEL = f"x0, x1, residual, weight0, bias0, weight1, bias1, dropout_p, epsilon, {NORM_TAIL}"
TREE = {  # of the other modules
    (bert_padding, "unpad_input"): "hidden_states, attention_mask, unused_mask=None",
    (bert_padding, "pad_input"): "hidden_states, indices, batch, seqlen",
    (bert_padding, "unpad_input_for_concatenated_sequences"): (
        "hidden_states, attention_mask_in_length"
    ),
    (rotary, "apply_rotary_emb"): (
        "x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0, cu_seqlens=None, "
        "max_seqlen=None"
    ),
    (rotary, "apply_rotary_emb_qkv_"): (
        f"qkv, cos, sin, cos_k=None, sin_k=None, {ROTARY_TAIL}, num_heads_q=None"
    ),
    (rotary, "apply_rotary_emb_kv_"): f"kv, cos, sin, {ROTARY_TAIL}",
    (ops_layer_norm, "layer_norm"): "x, weight, bias, epsilon",
    (
        ops_layer_norm,
        "dropout_add_layer_norm",
    ): f"{NORM}rowscale=None, layerscale=None, {NORM_TAIL}",
    (ops_layer_norm, "dropout_add_layer_norm_subset"): SUBSET,
    (ops_layer_norm, "dropout_add_layer_norm_parallel_residual"): PARALLEL,
    (ops_rms_norm, "rms_norm"): "x, weight, epsilon",
    (ops_rms_norm, "dropout_add_rms_norm"): f"{NORM}rowscale=None, layerscale=None, {NORM_TAIL}",
    (ops_rms_norm, "dropout_add_rms_norm_subset"): SUBSET,
    (ops_rms_norm, "dropout_add_rms_norm_parallel_residual"): PARALLEL,
}


@pytest.mark.parametrize(("module", "name"), TREE, ids=lambda x: x if isinstance(x, str) else "")
def test_signature_of_the_other_modules_is_literal(module, name):
    parameters = inspect.signature(getattr(module, name)).parameters.values()
    shown = ", ".join(
        p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters
    )
    assert shown == TREE[module, name]


@pytest.mark.parametrize(
    "module",
    [
        attnpress, interface, extension, third, bert_padding, rotary, activations, ops_layer_norm,
        ops_rms_norm, norms, *map(
            importlib.import_module,
            (
                "attnpress.torch", "attnpress.as_flash_attn", "attnpress.vllm",
                "attnpress.flash_attn.losses.cross_entropy",
                "attnpress.flash_attn.ops.triton.cross_entropy",
                "attnpress.flash_attn.ops.triton.rotary",
            ),
        ),
    ],
    ids=lambda module: module.__name__,
)  # fmt: skip
def test_every_function_is_in_the_documents(module):
    folder = Path(__file__).resolve().parent.parent / "docs"
    text = "".join((folder / name).read_text() for name in ("python.md", "score-mods.md"))
    unnamed = {  # what both modules of norms share, and kin
        "dropout_add_norm", "dropout_add_parallel_norm", "refuse_subset", "IndexPutFirstAxis",
        "IndexFirstAxisResidual",
    }  # fmt: skip
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    assert names
    for name in set(names) - unnamed:
        assert re.search(rf"\b{re.escape(name)}\b", text), name


# ---- Dense attention -----------------------------------------------------------------------------


def tensors(batch=2, seqlen_q=40, seqlen_k=40, heads=4, heads_kv=2, hdim=32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, seqlen_q, heads, hdim)] + 2 * [(batch, seqlen_k, heads_kv, hdim)]
    return [torch.randn(shape, generator=generator) for shape in shapes]


def reference(q, k, v, causal=False, left=-1, right=-1, softcap=0.0):
    """(out, lse) in float64."""
    q, k, v = (x.double().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    s = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    shift = k.shape[2] - q.shape[2]
    distance = torch.arange(q.shape[2])[:, None] + shift - torch.arange(k.shape[2])[None]
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left >= 0:
        seen &= distance <= left
    if causal or right >= 0:
        seen &= distance >= (0 if causal else -right)
    s = s.masked_fill(~seen, float("-inf"))
    return (torch.softmax(s, -1) @ v).transpose(1, 2), torch.logsumexp(s, -1)


CASES = [
    {},
    {"causal": True},
    {"causal": True, "window_size": (9, 9)},
    {"window_size": (5, 3), "softcap": 4.0},
    {"window_size": (-7, 2), "softcap": -1.0},
]


@pytest.mark.parametrize("options", CASES, ids=str)
def test_flash_attn_func(options):
    q, k, v = tensors()
    left, right = options.get("window_size", (-1, -1))
    wanted = reference(
        q, k, v, options.get("causal", False), left, right, max(options.get("softcap", 0.0), 0.0)
    )
    out = interface.flash_attn_func(q, k, v, **options)
    torch.testing.assert_close(out.double(), wanted[0], atol=1e-5, rtol=1e-5)
    again, lse, s_dmask = interface.flash_attn_func(q, k, v, **options, return_attn_probs=True)
    assert torch.equal(out, again) and s_dmask.numel() == 0
    torch.testing.assert_close(lse.double(), wanted[1], atol=1e-5, rtol=1e-5)
    third_out, third_lse = third.flash_attn_func(q, k, v, **options, return_attn_probs=True)
    assert torch.equal(out, third_out) and torch.equal(lse, third_lse)
    assert torch.equal(out, third.flash_attn_func(q, k, v, **options))


def test_head_dim_that_is_no_multiple_of_8_is_padded():
    q, k, v = (x.requires_grad_() for x in tensors(hdim=20))
    wanted, _ = reference(q, k, v, causal=True)
    dout = torch.randn(wanted.shape, generator=torch.Generator().manual_seed(2))
    right = torch.autograd.grad(wanted, (q, k, v), dout.double())
    for out in (
        interface.flash_attn_func(q, k, v, causal=True),
        third.flash_attn_func(q, k, v, causal=True),
        interface.FlashAttnFunc.apply(
            q, k, v, 0.0, None, True, (-1, -1), 0.0, None, False, False, True
        ),
    ):
        assert out.shape == q.shape
        torch.testing.assert_close(out.double(), wanted, atol=1e-5, rtol=1e-5)
        for got, want in zip(torch.autograd.grad(out, (q, k, v), dout), right):
            torch.testing.assert_close(got, want.to(got.dtype), atol=1e-5, rtol=1e-5)


def test_apply_without_gradients_records_none():
    q, k, v = (x.requires_grad_() for x in tensors())
    out = interface.FlashAttnFunc.apply(
        q, k, v, 0.0, None, False, (-1, -1), 0.0, None, False, False, False
    )
    assert not out.requires_grad
    with pytest.raises(TypeError, match="takes 12 arguments, and 3 were given"):
        interface.FlashAttnFunc.apply(q, k, v)


def test_private_functions_forward_and_backward():
    q, k, v = tensors()
    scale = 0.2
    out, lse, _ = attnpress.flash_attn_func(
        q, k, v, softmax_scale=scale, causal=True, return_attn_probs=True
    )
    args = (q, k, v, 0.0, scale, True, -1, -1, 0.0, None, False)
    for function in (interface._flash_attn_forward, interface._wrapped_flash_attn_forward):
        found = function(*args)
        assert torch.equal(found[0], out) and torch.equal(found[1], lse)
        assert found[2].numel() == 0
        assert found[3].shape == (2,) and found[3].dtype == torch.int64
    named = interface._wrapped_flash_attn_forward(
        q, k, v, 0.0, scale, causal=True, window_size_left=-1, window_size_right=0, softcap=0.0,
        alibi_slopes=None, return_softmax=False,
    )  # fmt: skip
    assert torch.equal(named[0], out)

    dout = torch.randn_like(out)
    right = attnpress.flash_attn_backward(dout, q, k, v, out, lse, scale, True)
    sums = (dout * out).sum(-1).transpose(1, 2)
    for function in (interface._flash_attn_backward, interface._wrapped_flash_attn_backward):
        packed = torch.full((2, 40, 3, 4, 32), 7.0)  # dq lies between others' gradients
        dq, dk, dv = packed[:, :, 1], torch.full_like(k, 7.0), torch.full_like(v, 7.0)
        softmax_d = function(
            dout, q, k, v, out, lse, dq, dk, dv, 0.0, scale, True, -1, 0, 0.0, None, False, None
        )
        for got, want in zip((dq, dk, dv), right):
            assert torch.equal(got, want)
        assert bool((packed[:, :, ::2] == 7.0).all())
        assert softmax_d.shape == (2, 4, 128)
        torch.testing.assert_close(softmax_d[..., :40], sums)
        assert bool((softmax_d[..., 40:] == 0).all())


def test_extension_module():
    q, k, v = tensors()
    wanted = attnpress.flash_attn_func(q, k, v, window_size=(3, 2), return_attn_probs=True)
    memory = torch.empty_like(q)
    out, lse, _p, _rng_state = extension.fwd(
        q, k, v, memory, None, 0.0, 32**-0.5, False, 3, 2, 0.0, False, None
    )
    assert out is memory and torch.equal(out, wanted[0]) and torch.equal(lse, wanted[1])
    with pytest.raises(
        RuntimeError, match=r"out is \(2, 40\) of torch.float32; it must be \(2, 40"
    ):
        extension.fwd(q, k, v, torch.empty(2, 40), None, 0.0, 0.2, False, -1, -1, 0.0, False, None)
    out, lse, *_ = extension.fwd(q, k, v, None, None, 0.0, 0.2, True, -1, -1, 0.0, False, None)
    dout = torch.randn_like(out)
    *found, softmax_d = extension.bwd(
        dout, q, k, v, out, lse, None, None, None, None, 0.0, 0.2, True, -1, -1, 0.0, True, None,
        None,
    )  # fmt: skip
    for got, want in zip(found, attnpress.flash_attn_backward(dout, q, k, v, out, lse, 0.2, True)):
        torch.testing.assert_close(got, want)
    assert softmax_d.shape == (2, 4, 128)
    assert interface.flash_attn_gpu is extension and interface.flash_attn_cuda is extension


def test_dropout_is_told_by_rng_state_and_drawn_by_the_generator():
    q, k, v = tensors()
    args = (q, k, v, 0.3, 0.2, False, -1, -1, 0.0, None, True)
    torch.manual_seed(5)
    out, _lse, p, rng_state = interface._flash_attn_forward(*args)
    kept = attnpress.dropout_mask(q, k, 0.3, rng_state)
    assert torch.equal(p > 0, kept) and p.shape == (2, 4, 40, 40)
    again = attnpress.flash_attn_func(q, k, v, 0.3, 0.2, seed=rng_state)
    assert torch.equal(out, again)

    def drawn(seed):
        generator = torch.Generator().manual_seed(seed)
        return extension.fwd(q, k, v, None, None, 0.3, 0.2, False, -1, -1, 0.0, False, generator)[3]

    assert torch.equal(drawn(1), drawn(1)) and not torch.equal(drawn(1), drawn(2))


def test_errors_are_runtime_errors_that_name_the_value():
    q, k, v = tensors()
    for call, words in (
        (lambda: interface.flash_attn_func(q, k, v, dropout_p=1.5), "dropout_p is 1.5"),
        (lambda: interface.flash_attn_func(q, k, v, softmax_scale=-2.0), "softmax_scale is -2.0"),
        (lambda: interface.flash_attn_func(q, k, v.double()), "v torch.float64"),
        (lambda: interface.flash_attn_func(q, k[:1], v), "batch"),
        (lambda: third.flash_attn_func(q, k, v, attention_chunk=-3), "attention_chunk is -3"),
        (lambda: third.flash_attn_qkvpacked_func(q), "num_heads_q is None"),
        (
            lambda: interface._flash_attn_forward(q, k, v, 0.0, 1.0, 0, -1, -1, 0.0, None, True),
            "dropout_p is 0.0",
        ),
    ):
        with pytest.raises(RuntimeError, match=words) as caught:
            call()
        assert isinstance(caught.value, ValueError)


def test_what_is_not_there_is_refused_by_name():
    q, k, v = tensors()
    for call, words in (
        (lambda: third.flash_attn_func(q, k, v, qv=q), "no qv: qv is a Tensor"),
        (lambda: third.flash_attn_func(q, k, v, k_descale=q), "k_descale"),
        (lambda: third.flash_attn_func(q.to(torch.float8_e4m3fn), k, v), "no fp8.*float8_e4m3fn"),
        (
            lambda: ops_rms_norm.dropout_add_rms_norm_subset(q, None, q, None, 0.0, 1e-5),
            "no dropout_add_rms_norm_subset: x0_subset",
        ),
        (
            lambda: ops_layer_norm.dropout_add_layer_norm_subset(q, None, q, None, 0.0, 1e-5),
            "no dropout_add_layer_norm_subset: x0_subset",
        ),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match=words):
            call()


@pytest.mark.parametrize("option", ["qv", "q_descale", "k_descale", "v_descale"])
def test_third_functions_refuse_by_name(option):
    """Each function that has the argument, dense, ragged, packed, cached and private."""
    q, k, v = tensors()
    lengths = torch.arange(0, 3, dtype=torch.int32) * q.shape[1]
    ragged = (*(x.flatten(0, 1) for x in (q, k, v)), lengths, lengths, q.shape[1], k.shape[1])
    calls = {
        "flash_attn_func": (q, k, v),
        "flash_attn_varlen_func": ragged,
        "flash_attn_with_kvcache": (q, k, v),
        "flash_attn_qkvpacked_func": (torch.stack((q, q, q), 2),),
        "_flash_attn_forward": (q, k, v),
    }
    for name, args in calls.items():
        if option in inspect.signature(getattr(third, name)).parameters:
            with pytest.raises(NotImplementedError, match=f"no {option}: {option} is a Tensor"):
                getattr(third, name)(*args, **{option: torch.ones(2, 2)})


FORWARDED = [name for name in SECOND if not name.startswith("_") and name != "flash_attn_func"]


@pytest.mark.parametrize("name", FORWARDED)
def test_functions_of_the_package_are_asked_or_missed_by_name(monkeypatch, name):
    """Each argument arrives at the place that it has in flash-attn."""
    signature = inspect.signature(getattr(interface, name))
    values = {parameter: object() for parameter in signature.parameters}
    for tensor in {"q", "k", "v", "kv", "qkv", "k_cache", "v_cache"} & set(values):
        values[tensor] = torch.zeros(2, 8)
    values.update(window_size=(3, 1), softcap=2.0)
    monkeypatch.setattr(attnpress, name, lambda *args: args, raising=False)
    found = getattr(interface, name)(*values.values())
    assert len(found) == len(values) and all(
        a is b or a == b for a, b in zip(found, values.values()) if not torch.is_tensor(b)
    )
    assert all(a is b for a, b in zip(found, values.values()) if torch.is_tensor(b))
    values.update(window_size=(-4, 1), softcap=-1.0)
    place = list(values).index("window_size")
    assert getattr(interface, name)(*values.values())[place : place + 2] == ((-1, 1), 0.0)
    monkeypatch.delattr(attnpress, name)
    with pytest.raises(NotImplementedError, match=f"has no {name}"):
        getattr(interface, name)(*values.values())


def test_private_ragged_functions(monkeypatch):
    """On a function of the package's that takes one sequence."""
    seen = []

    def varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
        causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs, block_table,
        *, seqused_k=None, seed=None,
    ):  # fmt: skip
        seen.append((max_seqlen_q, max_seqlen_k, block_table, seqused_k, seed))
        out, lse, p = attnpress.flash_attn_func(
            q[None], k[None], v[None], dropout_p, softmax_scale, causal, window_size, softcap,
            alibi_slopes, deterministic, return_attn_probs, seed=seed,
        )  # fmt: skip
        return out[0], lse[0], p

    monkeypatch.setattr(attnpress, "flash_attn_varlen_func", varlen, raising=False)
    q, k, v = (x[0] for x in tensors(batch=1))
    cu_seqlens = torch.tensor([0, 40], dtype=torch.int32)
    lengths = (cu_seqlens, cu_seqlens, 40, 41)
    out, lse = (x[0] for x in attnpress.forward(q[None], k[None], v[None], softmax_scale=0.2))
    for function in (
        interface._flash_attn_varlen_forward,
        interface._wrapped_flash_attn_varlen_forward,
    ):
        found = function(q, k, v, *lengths, 0.0, 0.2, False, seqused_k=cu_seqlens)
        assert torch.equal(found[0], out) and torch.equal(found[1], lse)
        assert found[2].numel() == 0 and found[3].shape == (2,)
        max_seqlen_q, max_seqlen_k, block_table, seqused_k, seed = seen.pop()
        assert (max_seqlen_q, max_seqlen_k, block_table, seed) == (40, 41, None, None)
        assert torch.equal(seqused_k, cu_seqlens)
        with pytest.raises(NotImplementedError, match="no leftpad_k in varlen"):
            function(q, k, v, *lengths, 0.0, 0.2, False, leftpad_k=cu_seqlens)
    memory = torch.empty_like(q)
    found = extension.varlen_fwd(
        q, k, v, memory, *lengths[:2], None, None, None, None, *lengths[2:], 0.5, 0.2, False, False,
        -1, -1, 0.0, True, None,
    )  # fmt: skip
    assert found[0] is memory and torch.equal(seen.pop()[-1], found[3])
    again = attnpress.flash_attn_func(q[None], k[None], v[None], 0.5, 0.2, seed=found[3])
    assert torch.equal(memory, again[0])
    compiled = torch.compile(
        lambda q, k, v: interface.flash_attn_varlen_func(q, k, v, *lengths, softmax_scale=0.2),
        fullgraph=True, backend="aot_eager",
    )  # fmt: skip
    assert torch.equal(compiled(q, k, v), out)
    check = torch.library.opcheck(
        torch.ops.attnpress._flash_attn_varlen_forward.default, (q, k, v, *lengths, 0.0, 0.2, True)
    )
    assert set(check.values()) == {"SUCCESS"}


def test_third_functions_ask_the_packages_ragged_ones(monkeypatch):
    q, k, v = tensors()
    seen = []

    def varlen(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale,
        causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs, *,
        seqused_k=None,
    ):  # fmt: skip
        seen.append((max_seqlen_k, causal, window_size, return_attn_probs, seqused_k))
        return q, k, None

    monkeypatch.setattr(attnpress, "flash_attn_varlen_func", varlen, raising=False)
    assert third.flash_attn_varlen_func(
        q, k, v, "cu_q", "cu_k", 3, 4, seqused_k=v, causal=True, return_attn_probs=True
    ) == (q, k)
    assert seen == [(4, True, (-1, -1), True, v)]
    with pytest.raises(NotImplementedError, match="no chunk in varlen: chunk is 16"):
        third.flash_attn_varlen_func(q, k, v, "cu_q", "cu_k", 3, 4, attention_chunk=16)


def test_third_packed_and_chunked():
    q, k, v = tensors()
    packed = torch.cat((q, k, v), dim=2)
    wanted = interface.flash_attn_func(q, k, v, causal=True)
    assert torch.equal(third.flash_attn_qkvpacked_func(packed, causal=True, num_heads_q=4), wanted)
    stacked = torch.stack((q, q, q), dim=2)
    assert torch.equal(third.flash_attn_qkvpacked_func(stacked), interface.flash_attn_func(q, q, q))
    chunked, _ = attnpress.forward(q, k, v, causal=True, chunk=16)
    assert torch.equal(third.flash_attn_func(q, k, v, causal=True, attention_chunk=16), chunked)


def test_third_private_functions():
    q, k, v = tensors()
    out, lse, *rest = third._flash_attn_forward(q, k, v, causal=True, softmax_scale=0.2)
    wanted = attnpress.flash_attn_func(q, k, v, 0.0, 0.2, True, return_attn_probs=True)
    assert torch.equal(out, wanted[0]) and torch.equal(lse, wanted[1])
    assert [x.numel() for x in rest] == [0, 0]
    dout = torch.randn_like(out)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    third._flash_attn_backward(
        dout, q, k, v, out, lse, dq=dq, dk=dk, dv=dv, softmax_scale=0.2, is_causal=True
    )
    right = attnpress.flash_attn_backward(dout, q, k, v, out, lse, 0.2, True)
    for got, want in zip((dq, dk, dv), right):
        assert torch.equal(got, want)


def test_third_combines_parts_of_the_keys():
    q, k, v = tensors()
    outs, lses = zip(*(attnpress.forward(q, k[:, s], v[:, s]) for s in (slice(13), slice(13, 40))))
    out, lse = third.flash_attn_combine(
        torch.stack(outs), torch.stack([x.transpose(1, 2) for x in lses])
    )
    wanted, wanted_lse = attnpress.forward(q, k, v)
    torch.testing.assert_close(out, wanted, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(lse.transpose(1, 2), wanted_lse, atol=1e-5, rtol=1e-5)
    nothing = torch.full((2, 1, 1), float("-inf"))
    out, lse = third.flash_attn_combine(torch.zeros(2, 1, 1, 8), nothing)
    assert bool((out == 0).all()) and bool((lse == float("-inf")).all())


# ---- Beside attention ----------------------------------------------------------------------------


def test_unpad_and_pad():
    x = torch.randn(3, 5, 2, 4, dtype=torch.float64, requires_grad=True)
    lengths = [3, 5, 1]
    mask = torch.arange(5)[None] < torch.tensor(lengths)[:, None]
    tokens, indices, cu_seqlens, longest, used = bert_padding.unpad_input(x, mask)
    assert torch.equal(tokens, x[mask]) and cu_seqlens.dtype == torch.int32
    assert cu_seqlens.tolist() == [0, 3, 8, 9] and longest == 5 and type(longest) is int
    assert used.tolist() == lengths
    padded = bert_padding.pad_input(tokens, indices, 3, 5)
    assert torch.equal(bert_padding.pad_input(tokens, indices.int(), 3, 5), padded)
    assert torch.equal(padded, x * mask[..., None, None])
    padded.square().sum().backward()
    assert torch.equal(x.grad, 2 * x.detach() * mask[..., None, None])
    _, _, cu_seqlens, longest, used = bert_padding.unpad_input(
        x, mask.int(), (torch.arange(5)[None] == 3) & ~mask
    )
    assert cu_seqlens.tolist() == [0, 4, 9, 11] and used.tolist() == lengths
    both = bert_padding.index_first_axis_residual(x, torch.tensor([2, 0]))
    gradient = torch.autograd.grad(both[0].sum() + both[1].sum(), x)[0]
    assert gradient[:, 0, 0, 0].tolist() == [2.0, 1.0, 2.0]


def test_unpad_several_sequences_of_a_row():
    x = torch.arange(18.0).reshape(3, 6, 1)
    rows = torch.tensor([[2, 3, 0, 0, 0, 0], [3, 2, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0]])
    tokens, indices, cu_seqlens, longest = bert_padding.unpad_input_for_concatenated_sequences(
        x, rows
    )
    assert cu_seqlens.tolist() == [0, 2, 5, 8, 10, 16] and longest == 6
    assert indices.tolist() == [*range(5), *range(6, 11), *range(12, 18)]
    assert torch.equal(tokens[:, 0].long(), indices)


def rotated(x, cos, sin, places, interleaved):
    """By complex numbers, in float64. x: (tokens, heads, head_dim)."""
    dim = 2 * cos.shape[1]
    turned = x[..., :dim].double()
    pairs = turned.unflatten(-1, (-1, 2)) if interleaved else turned.unflatten(-1, (2, -1)).mT
    numbers = torch.view_as_complex(pairs.contiguous())
    numbers = numbers * torch.complex(cos.double(), sin.double())[places][:, None]
    pairs = torch.view_as_real(numbers)
    turned = pairs.flatten(-2) if interleaved else pairs.mT.flatten(-2)
    return torch.cat((turned, x[..., dim:].double()), dim=-1)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary(interleaved):
    x = torch.randn(2, 7, 3, 20)
    angles = torch.outer(torch.arange(32.0), torch.rand(8))
    cos, sin = angles.cos(), angles.sin()
    offsets = torch.tensor([4, 11])
    found = apply_rotary(x, cos, sin, offsets, interleaved=interleaved)
    for i in range(2):
        wanted = rotated(x[i], cos, sin, torch.arange(7) + offsets[i], interleaved)
        torch.testing.assert_close(found[i].double(), wanted, atol=1e-6, rtol=1e-5)
    back = apply_rotary(found, cos, sin, offsets, interleaved=interleaved, conjugate=True)
    torch.testing.assert_close(back, x, atol=1e-5, rtol=1e-5)
    same = x.clone()
    assert apply_rotary(same, cos, sin, offsets, interleaved=interleaved, inplace=True) is same
    assert torch.equal(same, found)
    # Ragged: sequences of 2, 0 and 5 tokens.
    tokens, cu_seqlens = x[0], torch.tensor([0, 2, 2, 7], dtype=torch.int32)
    places = torch.tensor([0, 1, 0, 1, 2, 3, 4]) + 3
    found = apply_rotary(tokens, cos, sin, 3, cu_seqlens, 5, interleaved)
    wanted = rotated(tokens, cos, sin, places, interleaved)
    torch.testing.assert_close(found.double(), wanted, atol=1e-6, rtol=1e-5)
    plain = rotary.apply_rotary_emb_torch(x, cos[:7], sin[:7], interleaved)
    torch.testing.assert_close(plain, apply_rotary(x, cos, sin, interleaved=interleaved))
    with pytest.raises(ValueError, match="the positions reach 33, and cos has 32 rows"):
        apply_rotary(x, cos, sin, 26)


@pytest.mark.parametrize("inplace", [False, True])
def test_rotary_gradients(inplace):
    x = torch.randn(2, 7, 3, 20, requires_grad=True)
    angles = torch.outer(torch.arange(32.0), torch.rand(8))
    cos, sin = angles.cos(), angles.sin()
    dout = torch.randn_like(x)
    found = rotary.apply_rotary_emb(x * 1.0, cos, sin, False, inplace, 5)
    (got,) = torch.autograd.grad(found, x, dout)
    wanted = rotary.apply_rotary_emb_torch(x, cos[5:12], sin[5:12])
    torch.testing.assert_close(found, wanted)
    (want,) = torch.autograd.grad(wanted, x, dout)
    torch.testing.assert_close(got, want)


def test_rotary_embedding_of_packed_tensors():
    layer = rotary.RotaryEmbedding(16, interleaved=True)
    qkv = torch.randn(2, 7, 3, 2, 24, requires_grad=True)
    found = layer(qkv * 1.0, seqlen_offset=4)
    cos, sin = layer._cos_cached, layer._sin_cached
    assert cos.shape == (11, 8)
    turned = [rotary.apply_rotary_emb(qkv[:, :, i], cos, sin, True, False, 4) for i in range(2)]
    wanted = torch.stack([*turned, qkv[:, :, 2]], dim=2)
    torch.testing.assert_close(found, wanted)
    dout = torch.randn_like(qkv)
    got, want = (torch.autograd.grad(x, qkv, dout)[0] for x in (found, wanted))
    torch.testing.assert_close(got, want)
    grouped = torch.cat((qkv[:, :, 0], qkv[:, :, 1, :1], qkv[:, :, 2, :1]), dim=2).detach()
    q, kv = qkv[:, :, 0].detach().clone(), qkv[:, :, 1:, :1].detach().clone()
    apart = layer(q, kv, seqlen_offset=4)
    together = layer(grouped, seqlen_offset=4, num_heads_q=2)
    torch.testing.assert_close(together[:, :, :2], apart[0])
    torch.testing.assert_close(together[:, :, 2:], apart[1].flatten(2, 3))
    scaled = rotary.RotaryEmbedding(16, scale_base=512.0)
    q, k = scaled(qkv.detach().clone()).unbind(2)[:2]
    plain_q, plain_k = rotary.RotaryEmbedding(16)(qkv.detach().clone()).unbind(2)[:2]
    # XPos changes q and k, and not the product of those of one position.
    assert not torch.allclose(q, plain_q)
    torch.testing.assert_close((q * k)[..., :16].sum(-1), (plain_q * plain_k)[..., :16].sum(-1))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy(reduction, smoothing):
    logits = torch.randn(6, 11, requires_grad=True)
    target = torch.tensor([3, 0, -100, 10, 7, -100])
    loss, z_loss = CrossEntropyLoss(
        reduction=reduction, label_smoothing=smoothing, logit_scale=1.5, lse_square_scale=0.1,
        return_z_loss=True,
    )(logits, target)  # fmt: skip
    wanted = torch.nn.functional.cross_entropy(
        1.5 * logits, target, reduction="none", label_smoothing=smoothing
    )
    square = 0.1 * torch.logsumexp(1.5 * logits, -1).square() * (target >= 0)
    reduce = {"mean": lambda x: x.sum() / 4, "sum": torch.sum, "none": lambda x: x}[reduction]
    torch.testing.assert_close(loss, reduce(wanted + square))
    torch.testing.assert_close(z_loss, reduce(square))
    assert not z_loss.requires_grad
    got, want = (torch.autograd.grad(x.sum(), logits)[0] for x in (loss, reduce(wanted + square)))
    torch.testing.assert_close(got, want)
    with pytest.raises(NotImplementedError, match="'middle'"):
        CrossEntropyLoss(reduction="middle")


@pytest.mark.parametrize("rms", [False, True])
def test_norms(rms):
    x, branch, residual = (torch.randn(4, 9, 16, dtype=torch.bfloat16) for _ in range(3))
    weight, bias, weight1 = (torch.randn(16) for _ in range(3))
    total = x.double() + branch.double() + residual.double()

    def normalized(weight, bias):
        if rms:
            y = torch.nn.functional.rms_norm(total, (16,), weight.double(), 1e-6)
            return y if bias is None else y + bias.double()
        return torch.nn.functional.layer_norm(
            total, (16,), weight.double(), None if bias is None else bias.double(), 1e-6
        )

    function = norms.rms_norm_fn if rms else norms.layer_norm_fn
    y, y1, z = function(x, weight, bias, residual.float(), branch, weight1, None, prenorm=True)
    assert y.dtype == torch.bfloat16 and z.dtype == torch.float32
    torch.testing.assert_close(y.double(), normalized(weight, bias), atol=0.02, rtol=0.02)
    torch.testing.assert_close(y1.double(), normalized(weight1, None), atol=0.02, rtol=0.02)
    torch.testing.assert_close(z.double(), total, atol=1e-6, rtol=1e-6)
    centered = function(x, weight - 1.0, bias, residual.float(), branch, zero_centered_weight=True)
    torch.testing.assert_close(centered, y, atol=0.02, rtol=0.02)
    _, z, keep, none = function(
        torch.ones(64, 64), torch.ones(64), None, dropout_p=0.25, prenorm=True,
        return_dropout_mask=True,
    )  # fmt: skip
    assert none is None and 0.70 < keep.double().mean() < 0.80
    assert torch.equal(z, keep / 0.75)
    with pytest.raises(NotImplementedError, match="rowscale with x1"):
        function(x, weight, bias, x1=x, rowscale=torch.ones(4, 9))


@pytest.mark.parametrize("rms", [False, True])
def test_norms_of_two_branches(rms):
    x0, x1, residual = (torch.randn(3, 5, 16) for _ in range(3))
    weight0, bias0, weight1, bias1 = (torch.randn(16) for _ in range(4))
    function = (
        ops_rms_norm.dropout_add_rms_norm_parallel_residual
        if rms
        else ops_layer_norm.dropout_add_layer_norm_parallel_residual
    )

    def normalized(x, weight, bias):
        if rms:
            return torch.nn.functional.rms_norm(x, (16,), weight, 1e-5) + bias
        return torch.nn.functional.layer_norm(x, (16,), weight, bias, 1e-5)

    args = (x0, x1, residual, weight0, bias0, weight1, bias1, 0.0, 1e-5)
    z0, z1, total = function(*args, prenorm=True)
    torch.testing.assert_close(total, x0 + x1 + residual)
    torch.testing.assert_close(z0, normalized(total, weight0, bias0))
    torch.testing.assert_close(z1, normalized(total, weight1, bias1))
    z0, none, mask0, mask1 = function(
        x0, None, None, weight0, bias0, None, None, 0.0, 1e-5, return_dropout_mask=True
    )
    torch.testing.assert_close(z0, normalized(x0, weight0, bias0))
    assert none is None and mask0.all() and mask1.all()
    _, none, total, mask0, mask1 = function(
        torch.ones(64, 16), torch.ones(64, 16), None, weight0, bias0, None, None, 0.5, 1e-5,
        prenorm=True, return_dropout_mask=True,
    )  # fmt: skip
    assert none is None and torch.equal(total, 2.0 * mask0 + 2.0 * mask1)
    assert not torch.equal(mask0, mask1)


def test_modules_of_norms_and_activations():
    x = torch.randn(3, 16)
    wanted = torch.nn.functional.rms_norm(x, (16,), None, 1e-5)
    for layer in (ops_rms_norm.RMSNorm(16), norms.RMSNorm(16), ops_rms_norm.DropoutAddRMSNorm(16)):
        torch.testing.assert_close(layer(x), wanted)
    torch.testing.assert_close(
        ops_layer_norm.DropoutAddLayerNorm(16, prenorm=True)(x, x)[0],
        torch.nn.functional.layer_norm(2 * x, (16,)),
    )
    y = torch.randn(3, 16)
    torch.testing.assert_close(activations.swiglu(x, y), torch.nn.functional.silu(x) * y)


def test_dropped_probabilities_are_scaled_by_their_row():
    """S_dmask as flash-attn's tests read it: a row's largest is 1."""
    q, k, v = tensors()
    for causal in (False, True):
        _, _, p = interface.flash_attn_func(q, k, v, 0.2, causal=causal, return_attn_probs=True)
        assert p.shape == (*q.shape[:1], q.shape[2], q.shape[1], k.shape[1])
        torch.testing.assert_close(p.abs().amax(-1), torch.ones(p.shape[:3]))
    lengths = torch.tensor([0, 9, 20], dtype=torch.int32)
    one = (x[0, :20] for x in (q, k, v))
    _, _, p = interface.flash_attn_varlen_func(
        *one, lengths, lengths, 11, 11, 0.2, return_attn_probs=True
    )
    assert p.shape == (2, q.shape[2], 11, 11) and p[0, :, 9:].eq(0).all()
    torch.testing.assert_close(p[1].abs().amax(-1), torch.ones(p.shape[1:3]))


def test_pages_that_require_grad():
    """The result is there, as with flash-attn; its gradient is not."""
    q, k, v = (x[0, :32].clone() for x in tensors())
    pages = (x.reshape(2, 16, *x.shape[1:]) for x in (k, v))
    table = torch.tensor([[0, 1]], dtype=torch.int32)
    lengths = torch.tensor([0, 32], dtype=torch.int32)
    wanted = interface.flash_attn_varlen_func(q, k, v, lengths, lengths, 32, 32)
    out = interface.flash_attn_varlen_func(
        q.requires_grad_(), *pages, lengths, lengths, 32, 32, block_table=table
    )
    assert torch.equal(out, wanted)
    with pytest.raises(NotImplementedError, match="keys in pages have no gradients"):
        out.sum().backward()
