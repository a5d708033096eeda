"""transformers' models on attnpress: logits, gradients of a training step, generation, a padded
batch and packed sequences of tiny models with random weights, held to eager attention, beside
PyTorch's own (sdpa).

    python bench/hf_models.py

On a GPU attnpress stands in for flash-attn, and attn_implementation is "flash_attention_2", in
bf16. transformers refuses that on the CPU: there attnpress is the kernel "attnpress/flash-attn" of
Hugging Face's `kernels`, from the folder of `python -m attnpress hf-kernel`, in fp32. Nothing is
fetched.

A cell is the largest error, or how many generated tokens differ, with sdpa's in parentheses; or why
there is none. Packed sequences are held to eager attention on each alone.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

# In the place of this folder, whose kernels.py is not the package of that name.
sys.path[0] = str(Path(__file__).resolve().parent.parent / "python")

from attnpress import _stand_in  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32
os.environ["HF_HUB_OFFLINE"] = "1"
_folder = tempfile.TemporaryDirectory()
if DEVICE == "cuda":
    _stand_in.install()
    IMPLEMENTATION = "flash_attention_2"
else:
    kernel = _stand_in.write_kernel(Path(_folder.name))
    os.environ["LOCAL_KERNELS"] = f"attnpress/flash-attn={kernel}"
    IMPLEMENTATION = "attnpress/flash-attn"

import transformers  # noqa: E402

BATCH, SEQLEN, PADDED, VOCABULARY = 2, 24, 7, 99
PACKED = (9, 24, 14)  # lengths of sequences, one behind the other
DECODERS = ("Llama", "Gemma-2", "Phi-3")
HDIM = 16
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 4 * HDIM,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
GROUPED = {
    **TEXT,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MODELS = {
    "Llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "Gemma-2": (
        "Gemma2ForCausalLM",
        "Gemma2Config",
        {**GROUPED, "head_dim": HDIM, "sliding_window": 8, "query_pre_attn_scalar": HDIM},
    ),
    "Phi-3": ("Phi3ForCausalLM", "Phi3Config", {**GROUPED, "sliding_window": 8}),
    "BERT": ("BertModel", "BertConfig", TEXT),
    "Whisper": (
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {
            "vocab_size": VOCABULARY,
            "d_model": 4 * HDIM,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 96,
            "decoder_ffn_dim": 96,
            "num_mel_bins": 16,
            "max_source_positions": 50,
            "max_target_positions": 64,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
    ),
}


def tried(call: Callable[[], str]) -> str:
    """What it says, or the kind of error and the beginning of its message."""
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).split(',')[0][:70]}"


def worst(some, others) -> float:
    return max(
        (a.double() - b.double()).abs().max().item() for a, b in zip(some, others, strict=True)
    )


def models(name: str) -> dict[str, torch.nn.Module]:
    """One by each implementation, with the same weights."""
    kind, config_kind, values = MODELS[name]
    config = getattr(transformers, config_kind)(**values)
    torch.manual_seed(0)
    found = {}
    for implementation in ("eager", "sdpa", IMPLEMENTATION):
        model = getattr(transformers, kind)._from_config(
            copy.deepcopy(config), attn_implementation=implementation
        )
        found[implementation] = model.to(DEVICE, DTYPE).eval()
        model.load_state_dict(found["eager"].state_dict())
    return found


def columns(name: str) -> list[str]:
    """Of one model's row."""
    by = models(name)
    ids = torch.randint(3, VOCABULARY, (BATCH, SEQLEN), device=DEVICE)
    inputs = {"input_ids": ids}
    if name == "Whisper":
        sounds = torch.randn(BATCH, 16, 100, device=DEVICE, dtype=DTYPE)
        inputs = {"input_features": sounds, "decoder_input_ids": ids}
    mask = torch.ones_like(ids)
    mask[0, :PADDED] = 0

    def against_eager(values: Callable[[torch.nn.Module], list[torch.Tensor]]) -> str:
        right = values(by["eager"])
        ours = worst(values(by[IMPLEMENTATION]), right)
        return f"{ours:.1e} ({worst(values(by['sdpa']), right):.1e})"

    def logits(model):
        with torch.no_grad():
            return [model(**inputs)[0]]

    def gradients(model):
        model.zero_grad()
        model(**inputs)[0].float().square().mean().backward()
        return [x.grad for x in model.parameters() if x.grad is not None]

    def padded(model):
        with torch.no_grad():
            return [model(**inputs, attention_mask=mask)[0][mask.bool()]]

    def packed() -> str:
        parts = [torch.randint(3, VOCABULARY, (1, n), device=DEVICE) for n in PACKED]
        places = torch.cat([torch.arange(n, device=DEVICE)[None] for n in PACKED], 1)
        with torch.no_grad():
            right = torch.cat([by["eager"](input_ids=part)[0] for part in parts], 1)
            ours, theirs = (
                by[i](input_ids=torch.cat(parts, 1), position_ids=places, use_cache=False)[0]
                for i in (IMPLEMENTATION, "sdpa")
            )
        return f"{worst([ours], [right]):.1e} ({worst([theirs], [right]):.1e})"

    def generated(cache: str | None) -> Callable[[], str]:
        def call() -> str:
            options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
            if cache is not None:
                options["cache_implementation"] = cache
            given = {key: x for key, x in inputs.items() if key != "decoder_input_ids"}
            right, theirs, ours = (
                by[i].generate(**given, **options) for i in ("eager", "sdpa", IMPLEMENTATION)
            )
            differ = (int((right != x).sum()) for x in (ours, theirs))
            return "{} ({}) of {} differ".format(*differ, right.numel())

        return call

    found = [tried(lambda: against_eager(logits)), tried(lambda: against_eager(gradients))]
    if name == "BERT":
        found += ["", ""]
    else:
        found += [tried(generated(None)), tried(generated("static"))]
    found.append("" if name == "Whisper" else tried(lambda: against_eager(padded)))
    return [*found, tried(packed) if name in DECODERS else ""]


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {DEVICE}, {DTYPE},")
    print(f"attn_implementation={IMPLEMENTATION!r}\n")
    print(
        "| model | logits | gradients | generation | with a static cache | padded batch | packed |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in MODELS:
        print(f"| {name} | {' | '.join(columns(name))} |", flush=True)


if __name__ == "__main__":
    main()
