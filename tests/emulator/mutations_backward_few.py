"""Single faults in the backward kernels of few rows, which stay in shared memory."""

from __future__ import annotations

from mutations import Mutation

FEW = "templates/attention/flash_bwd_few_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim256_bf16_few_sm90", ""),
    ("flash_bwd_hdim200_fp16_causal_few_sm90", ""),
]
"""Whole slabs and a last one in part; both masks."""


def of(name: str, old: str, new: str, place: int = 1, harmless: str = "") -> Mutation:
    return Mutation(f"bwd few: {name}", FEW, old, new, place, harmless)


MUTATIONS = [
    # ---- Walks ----
    of(
        "the last key block is left out",
        "(blockIdx.x + 1) * all / gridDim.x)}",
        "(blockIdx.x + 1) * all / gridDim.x) - 1}",
    ),
    of("rows of the second query head", "head + consumer / tiles", "head + consumer / tiles % 1"),
    of("all consumers have the first rows", "consumer % tiles * BLOCK_M}", "0}"),
    of(
        "the tile behind the only one is that",
        "  return {batch, head, BLOCK_M};",
        "  return {batch, head, 0};",
    ),
    of("the wrong key head", "key_head % args->heads_kv, key_head / args->heads_kv", "0, 0"),
    of("the next head's rows are not brought", "    if (key_head == known)", "    if (known >= 0)"),
    # ---- What comes in ----
    of(
        "Q is not waited for",
        "    wait_for_phase(q_full(shared), rows_parity); // the copy engine hands over Q\n",
        "",
    ),
    of("K is not waited for", "      wait_for_phase(k_full(shared), parity);\n", ""),
    of("V is not waited for", "      wait_for_phase(v_full(shared), parity);\n", ""),
    of(
        "dO is not waited for",
        "      if (first)\n        wait_for_phase(do_full(shared), rows_parity);\n",
        "",
    ),
    of(
        "Q and dO of the head before are overwritten",
        "    wait_for_phase(rows_empty(shared), rows_parity); // the same of the rows\n",
        "",
    ),
    of("K of the step before is overwritten", "    wait_for_phase(k_empty(shared), parity);\n", ""),
    of("V of the step before is overwritten", "    wait_for_phase(v_empty(shared), parity);\n", ""),
    of(
        "V is handed back before dP is waited for",
        "      wgmma_wait(0);\n      wgmma_order_n${ block_n }(dp);\n"
        "      arrive_once(v_empty(shared));\n",
        "      arrive_once(v_empty(shared));\n      wgmma_wait(0);\n"
        "      wgmma_order_n${ block_n }(dp);\n",
    ),
    of("K is handed back before dQ is waited for", "      wgmma_wait(2);\n", ""),
    # ---- P and dS ----
    of("S is not waited for", "      wgmma_wait(1);\n", ""),
    of(
        "P of the step before is overwritten",
        "      wait_for_phase(p_empty(shared), parity ^ 1);\n",
        "",
    ),
    of(
        "dS of the step before is overwritten",
        "      wait_for_phase(ds_empty(shared), parity ^ 1); // the same of dS\n",
        "",
    ),
    of(
        "P of the other consumer is not waited for",
        "    named_barrier_sync(1, CONSUMER_THREADS);\n",
        "    named_barrier_arrive(1, CONSUMER_THREADS);\n",
    ),
    of(
        "dS of the other consumer is not waited for",
        "    named_barrier_sync(2, CONSUMER_THREADS);\n",
        "    named_barrier_arrive(2, CONSUMER_THREADS);\n",
    ),
    of("products may not see what was stored", "  fence_proxy_async(); // behind", "  // behind"),
    of(
        "P is handed back a slab early",
        "        if (slab + 1 == SLABS)",
        "        if (slab + 2 == SLABS)",
    ),
    of("dV of dS", "has_dk ? DS_OFFSET : P_OFFSET", "DS_OFFSET"),
    of("dK of dO", "has_dk ? Q_OFFSET : DO_OFFSET", "DO_OFFSET"),
    of("chunks of P are not swizzled", "(place ^ i / 2 * 16)", "(place + i / 2 * 16)"),
    of(
        "rows of P by warp alone",
        "(thread / 32 * 16 + lane / 4) * 128",
        "(thread / 32 % 4 * 16 + lane / 4) * 128",
    ),
    # ---- The gradients ----
    of("products of half of the rows", "ROW_STEPS = ROWS / 16", "ROW_STEPS = ROWS / 32"),
    of(
        "slabs are added up",
        "                                       step > 0);\n  wgmma_commit();\n}\n\n// Stores P",
        "                                       1);\n  wgmma_commit();\n}\n\n// Stores P",
    ),
    of("a slab is waited for too late", "wgmma_wait(slab + 1 < SLABS ? 1 : 0);", "wgmma_wait(1);"),
    of("dK is not scaled", "has_dk ? args->scale : 1.0f", "1.0f"),
    of("keys past the end", "args->seqlen_k - key_row, DTYPE", "16, DTYPE"),
    of(
        "dQ goes on with the next head",
        "    float dq[Q_TILES * 4] = {};\n",
        "    float dq[Q_TILES * 4];\n",
    ),
    of("dQ of rows behind the last", "    if (tile.row + warp * 16 < args->seqlen_q) {", "    {"),
    of("dQ of the first rows", "tile.row / 16 + warp, HEAD_DIM)", "warp, HEAD_DIM)"),
    # ---- Masks ----
    of("keys past the end are seen", "      if (key + BLOCK_N > unmasked) {", "      if (false) {"),
    of("the mask of the first rows of a warp", "half * 8 + lane / 4, CAUSAL", "lane / 4, CAUSAL"),
]
