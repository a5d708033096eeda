"""Generation with keys in pages: two prompts of their own lengths share one pool of pages, each new
token's keys are rotated and written to their page by the call that attends to them, and a sequence
gets a page from the pool when it needs one.

    python examples/paged_generation.py [--tokens 40]

Runs on the GPU in bf16, or on the CPU in fp32. The model has random weights; its tokens are
compared with those that it generates without a cache, from the whole text anew each time.
"""

import argparse

import torch

import attnpress
from attnpress.flash_attn.layers.rotary import apply_rotary_emb

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32
WORDS, WIDTH, HEADS, KV_HEADS, HDIM, LAYERS = 50, 128, 8, 2, 16, 2
PAGE, PAGES, POSITIONS = 16, 24, 256  # keys of a page, pages of the pool


class Pool:
    """The pages that are free, and those of each sequence."""

    def __init__(self, sequences):
        self.free = list(range(PAGES - 1, -1, -1))  # any order will do
        self.used = [0] * sequences
        self.table = torch.zeros(sequences, POSITIONS // PAGE, dtype=torch.int32, device=DEVICE)

    def make_room(self, lengths):
        for i, length in enumerate(lengths):
            while self.used[i] * PAGE < length:
                self.table[i, self.used[i]] = self.free.pop()
                self.used[i] += 1


class Model:
    def __init__(self):
        def weight(*shape):
            return (torch.randn(shape) / shape[0] ** 0.5).to(DEVICE, DTYPE)

        self.words = torch.randn(WORDS, WIDTH).to(DEVICE, DTYPE)
        self.qkv = [weight(WIDTH, (HEADS + 2 * KV_HEADS) * HDIM) for _ in range(LAYERS)]
        self.out = [weight(HEADS * HDIM, WIDTH) for _ in range(LAYERS)]
        angles = torch.arange(POSITIONS)[:, None] * 1e-2 ** torch.linspace(0, 1, HDIM // 2)
        self.cos, self.sin = (f(angles).to(DEVICE, torch.float32) for f in (torch.cos, torch.sin))

    def logits(self, ids, attend):
        """Of the last token. attend(layer, q, k, v): attention, before rotation."""
        x = self.words[ids]
        for layer in range(LAYERS):
            qkv = (x @ self.qkv[layer]).unflatten(-1, (-1, HDIM))
            out = attend(layer, *qkv.split((HEADS, KV_HEADS, KV_HEADS), dim=-2))
            x = torch.nn.functional.rms_norm(x + out.flatten(-2) @ self.out[layer], (WIDTH,))
        return x[:, -1] @ self.words.T

    def without_cache(self, layer, q, k, v):
        q, k = (apply_rotary_emb(x.float(), self.cos, self.sin).to(DTYPE) for x in (q, k))
        return attnpress.flash_attn_func(q, k, v, causal=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=40)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Model()
    texts = [torch.randint(WORDS, (n,)).tolist() for n in (5, 37)]
    prompts = [len(text) for text in texts]

    pages = [
        torch.zeros(2, PAGES, PAGE, KV_HEADS, HDIM, dtype=DTYPE, device=DEVICE)
        for _ in range(LAYERS)
    ]
    pool = Pool(len(texts))

    def with_cache(rows, ids, lengths):
        """The logits of new tokens `ids`, (sequences, new), behind `lengths` cached ones."""
        pool.make_room(
            [
                max(pool.used[i] * PAGE, lengths[rows.index(i)] + len(ids[0])) if i in rows else 0
                for i in range(len(texts))
            ]
        )
        used = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)
        table = pool.table[rows]

        def attend(layer, q, k, v):
            return attnpress.flash_attn_with_kvcache(
                q, *pages[layer], k, v, rotary_cos=model.cos, rotary_sin=model.sin,
                cache_seqlens=used, block_table=table, causal=True,
            )  # fmt: skip

        return model.logits(torch.tensor(ids, device=DEVICE), attend)

    # The prompts, one by one; then a token of every sequence at a time.
    new = [int(with_cache([i], [text], [0]).argmax()) for i, text in enumerate(texts)]
    for _ in range(options.tokens - 1):
        for text, token in zip(texts, new):
            text.append(token)
        lengths = [len(text) - 1 for text in texts]
        new = with_cache([0, 1], [[token] for token in new], lengths).argmax(-1).tolist()
    for text, token in zip(texts, new):
        text.append(token)

    for text, prompt, used in zip(texts, prompts, pool.used):
        same = 0
        for end in range(prompt, len(text)):  # each token from the same text before it
            ids = torch.tensor([text[:end]], device=DEVICE)
            same += int(model.logits(ids, model.without_cache).argmax()) == text[end]
        print(
            f"{prompt} tokens of a prompt, {len(text) - prompt} more in {used} pages; "
            f"{same} of them are those without a cache",
            flush=True,
        )


if __name__ == "__main__":
    main()
