"""Training: a small language model learns texts in which four words repeat, with attention and its
gradients by attnpress; the model is compiled or not.

    python examples/training_step.py [--compile] [--steps 100]

Runs on the GPU in bf16 (autocast), or on the CPU in fp32. Prints the loss, which falls from ln 32 =
3.47, where nothing is known, to about 0.2: three words of each text come for the first time.
"""

import argparse

import torch
from torch import nn

from attnpress.flash_attn_interface import flash_attn_qkvpacked_func

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WORDS, WIDTH, HEADS, LAYERS = 32, 128, 4, 2
BATCH, SEQLEN = 16, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        qkv = self.qkv(self.norm_1(x)).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
        x = x + self.out(flash_attn_qkvpacked_func(qkv, causal=True).flatten(2))
        return x + self.mlp(self.norm_2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(SEQLEN, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS))

    def forward(self, ids):
        return self.head(self.blocks(self.words(ids) + self.places.weight[: ids.shape[1]]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Model().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    run = torch.compile(model, fullgraph=True) if options.compile else model
    for step in range(options.steps + 1):
        ids = torch.randint(WORDS, (BATCH, 4), device=DEVICE).repeat(1, SEQLEN // 4)
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            logits = run(ids[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"step {step:3}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
