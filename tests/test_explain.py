"""attnpress.explain: the tool's answer for the tensors of a call."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest

import attnpress


def tensor(*shape: int, dtype: str = "float16"):
    """A tensor of that shape that takes next to no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def told(build_dir, *words: str) -> dict:
    done = subprocess.run(
        [str(build_dir / "attnpress"), "explain", *words, "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_a_prefill(build_dir):
    q, k, v = tensor(2, 4096, 32, 192), tensor(2, 4096, 8, 192), tensor(2, 4096, 8, 128)
    found = attnpress.explain(q, k, v, causal=True, target="sm_90")
    words = "--batch 2 --seqlen-q 4096 --heads 32 --kv-heads 8 --hdim 192 --hdim-v 128 --dtype fp16"
    expected = told(build_dir, *words.split(), "--causal", "--target", "sm_90")
    assert [launch.stem for launch in found.launches] == [
        launch["stem"] for launch in expected["launches"]
    ]
    assert found.launches[0].stem == "flash_fwd_hdim192v128_fp16_causal_sm90"
    assert found.launches[0].target == "sm_90a" and found.launches[0].grid == 132
    assert found.why == tuple(expected["why"]) and found.target == "sm_90"
    # 2 x 32 heads, 4096 x 4097 / 2 pairs, 2 x (192 + 128) operations each.
    assert found.flops == 2 * 32 * 4096 * 4097 / 2 * 2 * 320
    assert found.bytes == 2 * 2 * 4096 * (32 + 8) * (192 + 128)
    assert found.bound_by == "products"
    assert found.bound_us == pytest.approx(found.flops / 989.4e12 * 1e6)
    assert str(found).startswith("call     batch 2, 4096 queries x 32 heads")
    other = found.alternatives[0]
    assert other.launch.stem == "flash_fwd_hdim192v128_fp16_causal_sm80" and "sm80" in other.reason


def test_a_decode():
    q, k = tensor(1, 1, 32, 128), tensor(1, 8192, 8, 128)
    found = attnpress.explain(q, k, k, causal=True, target="sm_90", gb_s=4800, tflops=900)
    assert [launch.num_splits for launch in found.launches] == [16, 16]
    assert found.workspace_bytes > 0 and found.bound_by == "memory"
    assert found.bound_us == pytest.approx(found.bytes / 4800e9 * 1e6)
    assert any("decode kernels are for batch-invariant calls" in reason for reason in found.why)
    assert [other.launch.num_splits for other in found.alternatives] == [1, 32]
    assert all(other.reason and other.launch.waves > 0 for other in found.alternatives)


def test_scores():
    q = tensor(1, 512, 8, 64)
    found = attnpress.explain(
        q, q, q, causal=True, window_size=(127, 0), softcap=30.0, dropout_p=0.1,
        alibi_slopes=np.zeros(8, np.float32), bias=tensor(512, 512, dtype="float32"),
        s_aux=np.zeros(8, np.float32), target="sm_80",
    )  # fmt: skip
    assert found.launches[0].stem.endswith("window_softcap_alibi_biasfp32_dropout_sm80")
    found = attnpress.explain(q, q, q, chunk=128, top_left=True, target="sm_80")
    assert "128" in found.text.splitlines()[0] and "window" in found.launches[0].stem


def test_gradients():
    q = tensor(1, 512, 8, 64)
    found = attnpress.explain(q, q, q, backward=True, deterministic=True, target="sm_80")
    passes = [launch.stem.split("_hdim")[0] for launch in found.launches]
    assert passes == ["flash_bwd_delta", "flash_bwd_dq", "flash_bwd_dkv"]
    assert any("deterministic" in reason for reason in found.why)


@pytest.mark.parametrize(
    ("asked", "words", "stem"),
    [
        ({"ragged": True}, ["--ragged"], "_ragged_"),
        ({"page_size": 8, "ready_schedule": True}, ["--page-size=8", "--ready-schedule"], "_paged"),
        ({"batch_invariant": True}, ["--batch-invariant"], "flash_fwd_split_hdim128_fp16_ragged"),
        ({"num_splits": 3}, ["--num-splits=3"], "flash_fwd_split_hdim128_fp16_"),
    ],
)
def test_sequences(build_dir, asked, words, stem):
    q, k = tensor(4, 100, 8, 128), tensor(4, 1000, 8, 128)
    found = attnpress.explain(q, k, k, target="sm_90", **asked)
    shape = "--batch=4 --seqlen-q=100 --seqlen-k=1000 --heads=8 --hdim=128 --dtype=fp16"
    expected = told(build_dir, *shape.split(), *words, "--target=sm_90")
    assert [launch.stem for launch in found.launches] == [
        launch["stem"] for launch in expected["launches"]
    ]
    assert any(stem in launch.stem for launch in found.launches), found.text


@pytest.mark.parametrize(
    ("features", "exception", "says"),
    [
        ({"target": "sm_75"}, ValueError, 'target "sm_75" is unknown: targets are sm_80'),
        ({"target": None}, ValueError, "^target is missing"),
        ({"window_size": 4}, TypeError, "it must be a pair"),
        ({"frobnicate": 4}, TypeError, "frobnicate is not an argument; window_size"),
        ({"deterministic": True}, ValueError, "^deterministic is of backward"),
        ({"tflops": -1}, ValueError, '^tflops is "-1"; it must be a positive number'),
        ({"measure": True}, ValueError, "measure is of PyTorch tensors on a GPU"),
        ({"measure": True, "ragged": True}, ValueError, "measure is of a forward .*; ragged was"),
        ({"num_splits": -1}, ValueError, '^num_splits is "-1"'),
        ({"page_size": -1}, ValueError, '^page_size is "-1"'),
    ],
)
def test_what_is_not_allowed(features, exception, says):
    q = tensor(1, 64, 8, 64)
    with pytest.raises(exception, match=says.replace("(", r"\(")) as raised:
        attnpress.explain(q, q, q, **{"target": "sm_90", **features})
    assert "--help" not in str(raised.value)


def test_tensors_that_are_not_allowed():
    q = tensor(1, 64, 8, 64)
    with pytest.raises(ValueError, match="q is float32; kernels for GPUs are of float16"):
        attnpress.explain(*[tensor(1, 64, 8, 64, dtype="float32")] * 3, target="sm_90")
    with pytest.raises(ValueError, match="k has 3 dimensions"):
        attnpress.explain(q, tensor(64, 8, 64), q, target="sm_90")
    with pytest.raises(ValueError, match="head dim 60 is not supported"):
        attnpress.explain(*[tensor(1, 64, 8, 60)] * 3, target="sm_90")
    with pytest.raises(TypeError, match="q is list"):
        attnpress.explain([1], q, q, target="sm_90")


def test_without_the_tool(monkeypatch):
    from attnpress import _tool

    monkeypatch.setattr(_tool, "find_tool", lambda: None)
    q = tensor(1, 64, 8, 64)
    with pytest.raises(FileNotFoundError, match="the tool is neither beside the package nor"):
        attnpress.explain(q, q, q, target="sm_90")
