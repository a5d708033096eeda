"""Hugging Face's transformers with one line more: the import of attnpress.as_flash_attn, before
transformers. The rest is how one asks for flash-attn.

    python examples/transformers_model.py

Needs transformers and a GPU: transformers refuses "flash_attention_2" on the CPU, whoever provides
it (docs/python.md has the way for the CPU). The model is tiny, with random weights: nothing is
fetched.
"""

import torch

import attnpress.as_flash_attn  # noqa: F401  the line

if not torch.cuda.is_available():
    raise SystemExit("this example needs a GPU: transformers has no flash_attention_2 on the CPU")

from transformers import AutoModelForCausalLM, LlamaConfig

config = LlamaConfig(
    vocab_size=100, hidden_size=256, intermediate_size=512, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(
    config, attn_implementation="flash_attention_2", dtype=torch.bfloat16
).cuda()
ids = torch.randint(3, 100, (2, 20), device="cuda")
mask = torch.ones_like(ids)
mask[0, :5] = 0  # the first prompt is shorter: flash_attn_varlen_func
loss = model(ids, attention_mask=mask, labels=ids).loss
loss.backward()
tokens = model.generate(ids, attention_mask=mask, max_new_tokens=8, do_sample=False)
print(f"loss {loss.item():.3f}, generated {tokens[:, 20:].tolist()}")
