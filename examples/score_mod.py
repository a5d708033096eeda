"""A score and a mask of one's own: documents that lie one behind the other in a row see only
themselves, with a learned bias by distance and a soft cap, as a few lines of C that attnpress puts
into its kernels.

    python examples/score_mod.py

Needs a GPU and NVRTC; on the CPU attnpress says why not. Prints the largest difference to the same
computed by PyTorch with a matrix of all scores.
"""

import torch

import attnpress

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32
BATCH, SEQLEN, HEADS, HDIM, CAP, FARTHEST = 2, 300, 4, 64, 20.0, 63


def by_pytorch(q, k, v, bias, doc):
    place = torch.arange(SEQLEN, device=DEVICE)
    far = (place[:, None] - place).clamp(0, FARTHEST)
    scores = torch.einsum("bihd,bjhd->bhij", q.float(), k.float()) / HDIM**0.5
    scores = CAP * torch.tanh((scores + bias[:, far]) / CAP)
    seen = (place[:, None] >= place) & (doc[:, :, None] == doc[:, None, :])
    p = scores.masked_fill(~seen[:, None], float("-inf")).softmax(-1)
    return torch.einsum("bhij,bjhd->bihd", p, v.float())


def main():
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(BATCH, SEQLEN, HEADS, HDIM, device=DEVICE, dtype=DTYPE) for _ in range(3)
    )
    bias = torch.randn(HEADS, FARTHEST + 1, device=DEVICE)
    ends = torch.tensor([[90, 210], [10, 250]], device=DEVICE)
    doc = (torch.arange(SEQLEN, device=DEVICE) >= ends[:, :, None]).sum(1).int()
    mod = attnpress.ScoreMod(
        score="score = cap * tanhf((score + bias(h, q - k)) / cap);",  # bias() clamps its indices
        mask="k <= q && doc(b, q) == doc(b, k)",
        cap=CAP,
        bias=bias,
        doc=doc,
    )
    try:
        out = attnpress.flash_attn_func(q, k, v, score_mod=mod)
    except attnpress.NotSupportedError as error:
        raise SystemExit(f"not here: {error}") from None
    worst = (out.float() - by_pytorch(q, k, v, bias, doc)).abs().max().item()
    print(f"largest difference: {worst:.1e}")


if __name__ == "__main__":
    main()
