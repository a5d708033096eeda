"""Single faults in the backward kernels of sm90 whose consumers share the columns of dK and dV."""

from __future__ import annotations

from mutations import Mutation

COLUMNS = "templates/attention/parts/bwd_columns_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim136_bf16_causal_sm90", "m64n80s3"),
    ("flash_bwd_hdim192v128_fp16_window_sm90", "m64n96s3"),
    ("flash_bwd_hdim144_fp16_alibi_biasbf16_sm90", "m64n80s3"),
    ("flash_bwd_hdim192_fp16_causal_sm90", "m64n96s3"),
    ("flash_bwd_hdim208_bf16_causal_long_sm90", ""),
    ("flash_bwd_hdim256_bf16_long_sm90", ""),
]
"""80 and 96 keys, dV of three and of two consumers, each mask, what is added to scores, and dP in
the place of S; dQ of a warpgroup that has no columns."""


def of(name: str, old: str, new: str, place: int = 1, harmless: str = "") -> Mutation:
    return Mutation(f"bwd columns: {name}", COLUMNS, old, new, place, harmless)


MUTATIONS = [
    # ---- The producer ----
    of(
        "Q over a step that is read",
        "    wait_for_phase(q_empty(shared, stage.index), stage.parity ^ 1);\n    mbarrier",
        "    mbarrier",
    ),
    of(
        "dO over a step that is read",
        "    wait_for_phase(do_empty(shared, dout.index), dout.parity ^ 1);\n    mbarrier",
        "    mbarrier",
    ),
    of(
        "lse over a step that is read",
        "    wait_for_phase(q_empty(shared, stage.index), stage.parity ^ 1);\n    if (lane",
        "    if (lane",
        1,
        "delta of the step before, which it brings first, waits as long",
    ),
    of(
        "delta over a step that is read",
        "    wait_for_phase(do_empty(shared, dout.index), dout.parity ^ 1);\n    if (lane",
        "    if (lane",
    ),
    of(
        "lse arrives before all lanes have stored",
        "    __syncwarp();\n    arrive_once(q_full",
        "    arrive_once(q_full",
        1,
        "consumers wait for delta first, which arrives behind it",
    ),
    of(
        "delta arrives before all lanes have stored",
        "    __syncwarp();\n    arrive_once(do_full",
        "    arrive_once(do_full",
    ),
    of("delta in the place of lse", "lane % 16 * 16) = four", "lane * 16) = four"),
    of("dO of the first head", "slab * 64, step.row, step.head,", "slab * 64, step.row, 0,"),
    of(
        "Q of the first rows",
        "                  step.row, step.head,",
        "                  0, step.head,",
    ),
    of(
        "V of the first keys",
        "work->key_begin, work->kv_head, work->batch);",
        "0, work->kv_head, work->batch);",
    ),
    of(
        "a slab of Q twice",
        "&args->q, q_full(shared, stage.index), slab * 64",
        "&args->q, q_full(shared, stage.index), slab / 2 * 64",
    ),
    # ---- What products read ----
    of(
        "K is not waited for",
        "    wait_for_phase(k_full(shared), 0);\n    wait_for_phase(q_full(shared, 0), 0);",
        "    wait_for_phase(q_full(shared, 0), 0);",
    ),
    of("V is not waited for", "    wait_for_phase(v_full(shared), 0);\n", ""),
    of("the first Q is not waited for", "    wait_for_phase(q_full(shared, 0), 0);\n", ""),
    of("the first dO is not waited for", "    wait_for_phase(do_full(shared, 0), 0);\n", ""),
    of(
        "Q of a step is not waited for",
        "    wait_for_phase(q_full(shared, stage.index), stage.parity);\n    start_scores",
        "    start_scores",
    ),
    of(
        "dO of a step is not waited for",
        "    wait_for_phase(do_full(shared, dout), parity);\n",
        "",
    ),
    of(
        "P of the other consumer is not waited for",
        "    wait_for_scores(p_full(shared), (n - 1) % 2);\n    start_dv",
        "    start_dv",
    ),
    of(
        "dS of the other consumer is not waited for",
        "    wait_for_scores(ds_full(shared), (n - 1) % 2);\n    start_dk",
        "    start_dk",
    ),
    of(
        "the last P is not waited for",
        "    wait_for_scores(p_full(shared), last % 2);\n",
        "",
    ),
    of(
        "the last dS is not waited for",
        "    wait_for_scores(ds_full(shared), last % 2);\n",
        "",
    ),
    of(
        "dQ begins before dS is there",
        '"n % 2 ^ 1" if serial else "n % 2" });\n    start_dq',
        '"n % 2" if serial else "n % 2 ^ 1" });\n    start_dq',
    ),
    of(
        "the third dV begins before P is there",
        "    wait_for_scores(p_full(shared), n % 2);\n",
        "",
    ),
    of(
        "the third dV begins before dO is there",
        "    wait_for_phase(do_full(shared, n % 2), n / 2 % 2);\n",
        "",
        1,
        "P, which it waits for, comes after dO",
    ),
    of(
        "the third dK begins before Q is there",
        "    wait_for_phase(q_full(shared, stage.index), stage.parity);\n"
        "    wait_for_scores(ds_full",
        "    wait_for_scores(ds_full",
        1,
        "dS, which it waits for, is made of Q",
    ),
    of(
        "dQ begins before K is there",
        "  if (work->steps > 0) // the copy engine hands over K\n"
        "    wait_for_phase(k_full(shared), 0);\n",
        "",
        1,
        "dS, which it waits for, is made of K",
    ),
    # ---- P and dS ----
    of(
        "P over what dV reads",
        "    wait_for_phase(p_empty(shared), (n - 1) % 2);\n",
        "",
    ),
    of(
        "dS over what dK and dQ read",
        "    wait_for_phase(ds_empty(shared), (n - 1) % 2);\n",
        "",
    ),
    of(
        "P is handed back before it was read",
        "    wgmma_wait(2);\n    wgmma_order_n${ block_n }(dv);\n"
        "    arrive_once(do_empty(shared, dout",
        "    arrive_once(do_empty(shared, dout",
    ),
    of(
        "dS is handed back before it was read",
        "    wgmma_wait(0);\n    wgmma_order_n${ block_n }(dk);\n"
        "    arrive_once(q_empty(shared, before",
        "    arrive_once(q_empty(shared, before",
    ),
    of(
        "the third hands P back before it was read",
        "    wgmma_wait(2);\n    wgmma_order_n${ block_n }(dv);\n"
        "    arrive_once(do_empty(shared, n",
        "    arrive_once(do_empty(shared, n",
    ),
    of(
        "the third hands Q back before it was read",
        "    wgmma_wait(1);\n    wgmma_order_n${ block_n }(dk);\n",
        "",
    ),
    of(
        "dQ hands dS back with a part to go",
        "    arrive_once(ds_empty(shared));\n    if (valid)\n",
        "    if (valid)\n",
    ),
    of("products may not see what was stored", "  fence_proxy_async();\n", ""),
    of(
        "P arrives before all lanes have stored",
        "  // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
        "  __syncwarp();\n}",
        "}",
    ),
    of("chunks are not swizzled", "+ lane / 4 * 16 + lane % 4 * 4", "+ lane % 4 * 4"),
    of("chunks of the first consumer", "consumer * S_TILES + i / 2", "i / 2"),
    of("the second slab in the first", " + chunk / 8 * ROW_SLAB_BYTES +", " +"),
    of("both rows of a lane in one", "i % 2 * 8 * 128) = rounded", "0) = rounded"),
    of(
        "P in the place of dS",
        "store_scores(smem, P_OFFSET, score, consumer);",
        "store_scores(smem, DS_OFFSET, score, consumer);",
        2,
    ),
    of(
        "P instead of dS",
        "store_scores(smem, DS_OFFSET, dp, consumer);",
        "store_scores(smem, DS_OFFSET, score, consumer);",
        2,
    ),
    # ---- Products ----
    of("S is not waited for", "    wgmma_wait(3);\n", "    wgmma_wait(4);\n"),
    of(
        "dP is not waited for",
        "    wgmma_wait(1);\n    wgmma_order_n${ s_keys }(dp);\n",
        "    wgmma_order_n${ s_keys }(dp);\n",
    ),
    of(
        "the first S is not waited for",
        "    wgmma_wait(1);\n    wgmma_order_n${ s_keys }(score);\n",
        "",
    ),
    of(
        "the first dP is not waited for",
        "    wgmma_wait(0);\n    wgmma_order_n${ s_keys }(dp);\n",
        "",
    ),
    of(
        "the last products are not waited for",
        "    wgmma_wait(0);\n    wgmma_order_n${ block_n }(dv);\n",
        "",
    ),
    of("dQ is not waited for", "    wgmma_wait(1);\n    wgmma_order_n64(dq);\n", ""),
    of(
        "the second part of dQ is not waited for",
        "    wgmma_wait(0);\n    wgmma_order_n64(dq);\n",
        "",
    ),
    of("S of the first keys", "shared + consumer * S_KEYS * 128, 1024, 0", "shared, 1024, 0"),
    of(
        "dP of the first keys",
        "shared + V_OFFSET + consumer * S_KEYS * 128, 1024",
        "shared + V_OFFSET, 1024",
    ),
    of(
        "a slab of K is as high as one of Q",
        "k + (step / 4 * KEY_SLAB_BYTES",
        "k + (step / 4 * ROW_SLAB_BYTES",
    ),
    of(
        "columns past a slab of dO",
        "dout + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32)",
        "dout + step * 32",
    ),
    of(
        "keys of the second slab",
        "wgmma_descriptor(shared + scores, 1024, ROW_SLAB_BYTES)",
        "wgmma_descriptor(shared + scores, 1024, 1024)",
    ),
    of(
        "dV of the first columns",
        'stage * DO_BYTES + consumer * ${ "2 * " if apart else "" }ROW_SLAB_BYTES',
        "stage * DO_BYTES",
    ),
    of(
        "dK of the first columns",
        'stage * Q_BYTES + consumer * ${ "2 * " if apart else "" }ROW_SLAB_BYTES',
        "stage * Q_BYTES",
    ),
    of("dV of dS", "ROW_SLAB_BYTES, P_OFFSET);", "ROW_SLAB_BYTES, DS_OFFSET);"),
    of(
        "dV of the other step's dO",
        "start_dv(dv, shared, consumer, dout ^ 1)",
        "start_dv(dv, shared, consumer, dout)",
    ),
    of(
        "dK of the next step's Q",
        "start_dk(dk, shared, consumer, before.index)",
        "start_dk(dk, shared, consumer, stage.index)",
    ),
    of("half of the rows", "step < ROW_STEPS", "step < ROW_STEPS / 2"),
    of("dQ of some keys", "step < KEY_STEPS", "step < KEY_STEPS - 1"),
    of("dQ of the first columns", " + part * (KEY_SLAB_BYTES / 16);", ";"),
    of(
        "dQ's keys of the second slab",
        "ds + (step / 4 * ROW_SLAB_BYTES + step % 4 * 32) / 16",
        "ds + step * 2",
    ),
    of("a part of dQ twice", "start_dq(dq, shared, 2);", "start_dq(dq, shared, 1);"),
    of(
        "dQ past the head dim is added",
        "if (HEAD_DIM % 64 == 0 || part * 8 + tile < HEAD_DIM / 8)\n",
        "",
        1,
        "zeros, to the row tile behind, which is there in all shapes",
    ),
    of(
        "dQ of rows past the end",
        "    if (valid)\n      add_part(sum, dq, 1)",
        "    add_part(sum, dq, 1)",
        1,
        "zeros, and rows are padded",
    ),
    of(
        "dQ of a tile too few",
        "part * 8 + tile < HEAD_DIM / 8)",
        "part * 8 + tile < HEAD_DIM / 8 - 1)",
    ),
    of("dQ of the first rows", "step.row / 16 + warp, HEAD_DIM", "warp, HEAD_DIM"),
    # ---- Scores ----
    of("lse of other rows", "+ warp * 16 + lane / 4;\n  two[0]", "+ lane / 4;\n  two[0]"),
    of("lse of one row for both", "two[1] = rows[8];", "two[1] = rows[0];"),
    of(
        "lse of the step before",
        "LSE_OFFSET + stage.index * BLOCK_M * 4);\n    wgmma",
        "LSE_OFFSET + before.index * BLOCK_M * 4);\n    wgmma",
    ),
    of(
        "delta of the step before",
        "DELTA_OFFSET + dout * BLOCK_M * 4);\n    wgmma",
        "DELTA_OFFSET + (dout ^ 1) * BLOCK_M * 4);\n    wgmma",
    ),
    of(
        "no mask at the end of the keys",
        "first_key + S_KEYS > args->seqlen_k<%",
        "false<%",
        1,
        "K past the end is 0, and dK and dV are not stored there",
    ),
    of(
        "no mask on the diagonal",
        "args->seqlen_k < first_key + S_KEYS - 1<%",
        "args->seqlen_k < first_key - S_KEYS<%",
    ),
    of(
        "a window ends late",
        "step.row + BLOCK_M > unmasked_end",
        "step.row + BLOCK_M > unmasked_end + BLOCK_M",
    ),
    of(
        "the mask of the first consumer's keys",
        "const int first_key = work->key_begin + consumer * S_KEYS;",
        "const int first_key = work->key_begin;",
    ),
    of("the mask of other rows", "row_at(row + half * 8,", "row_at(row,"),
    of("the window of other rows", "window_row(row + half * 8,", "window_row(row,"),
    of(
        "the bias of other rows",
        "work->batch, step.head, row + half * 8,",
        "work->batch, step.head, row,",
    ),
    of(
        "the bias of the first head",
        "work->batch, step.head, row + half * 8,",
        "work->batch, 0, row + half * 8,",
    ),
    of("the distance of other rows", "slope, row + half * 8, key);", "slope, row, key);"),
    of(
        "a slope of the first head",
        "load_slope(&args->score, work->batch, step.head)",
        "load_slope(&args->score, work->batch, 0)",
    ),
    # ---- The gradients ----
    of(
        "dK and dV over what is read",
        "  // All consumers arrive and wait: K, V and all steps have been read.\n"
        "  named_barrier_sync(1, CONSUMER_THREADS);\n",
        "",
    ),
    of(
        "dK and dV are stored before they are there",
        "  // Those that store them arrive and wait: hands over the tiles of dK and dV.\n"
        "  named_barrier_sync(${ 2 if apart else 1 }, GRADIENT_THREADS);\n",
        "",
    ),
    of(
        "what is added to is not waited for",
        "    // Those that store them arrive and wait: hands over what dK and dV are added to.\n"
        "    named_barrier_sync(${ 2 if apart else 1 }, GRADIENT_THREADS);\n",
        "",
    ),
    of(
        "keys of a pair exchanged",
        "(lane % 4 * 2 + odd) * row_bytes",
        "(lane % 4 * 2 + !odd) * row_bytes",
    ),
    of(
        "columns of a pair exchanged",
        "(odd ? other : pair[0]) * scale, (odd ? pair[1] : other)",
        "(odd ? pair[1] : pair[0]) * scale, (odd ? other : other)",
    ),
    of("columns past the head dim", "    if (first >= columns)\n      continue;\n", ""),
    of(
        "dK without scale",
        "HEAD_DIM, args->scale,",
        "HEAD_DIM, 1.0f,",
    ),
    of("columns of the first consumer", "dv, thread, consumer * 64", "dv, thread, 0"),
    of(
        "keys past the end",
        "const int valid = args->seqlen_k - work->key_begin;",
        "const int valid = BLOCK_N;",
    ),
    of(
        "gradients replace what is there",
        "  if (args->accumulate) {\n    load",
        "  if (false) {\n    load",
    ),
    of(
        "registers that are not there",
        "${ 208 if apart else 160 if has_v or block_n == 80 else 176 }",
        "${ 184 if has_v or block_n == 80 else 200 }",
    ),
    # ---- dP in the place of S ----
    of(
        "K is not waited for, dP in the place of S",
        "    wait_for_phase(k_full(shared), 0);\n    wait_for_phase(v_full(shared), 0);",
        "    wait_for_phase(v_full(shared), 0);",
    ),
    of(
        "V is not waited for, dP in the place of S",
        "    wait_for_phase(v_full(shared), 0);\n",
        "",
        2,
    ),
    of(
        "S is not waited for, dP in its place",
        "      wgmma_wait(1);\n      wgmma_order_n${ s_keys }(score);\n      make_probabilities",
        "      make_probabilities",
    ),
    of(
        "dP is not waited for, in the place of S",
        "      wgmma_wait(1);\n      wgmma_order_n${ s_keys }(score);\n"
        "//% if apart\n      read_kept",
        "//% if apart\n      read_kept",
    ),
    of(
        "Q of a step is not waited for, dP in the place of S",
        "      wait_for_phase(q_full(shared, stage.index), stage.parity);\n      start_scores",
        "      start_scores",
    ),
    of(
        "dO of a step is not waited for, dP in the place of S",
        '      wait_for_phase(do_full(shared, dout), ${ "n % 2" if apart else "n / 2 % 2" });\n',
        "",
    ),
    of(
        "P of the other consumer is not waited for, dP in the place of S",
        "      wait_for_scores(p_full(shared), n % 2);\n",
        "",
    ),
    of(
        "dS of the other consumer is not waited for, dP in the place of S",
        "      wait_for_scores(ds_full(shared), n % 2);\n",
        "",
    ),
    of(
        "P over what dV reads, dP in the place of S",
        "      wait_for_phase(p_empty(shared), n % 2 ^ 1);\n",
        "",
    ),
    of(
        "dS over what dK and dQ read, dP in the place of S",
        "      wait_for_phase(ds_empty(shared), n % 2);\n",
        "",
    ),
    of(
        "P is handed back before it was read, dP in the place of S",
        "      wgmma_wait(0);\n      wgmma_order_n${ block_n }(dv);\n",
        "",
    ),
    of(
        "dS is handed back before it was read, dP in the place of S",
        "      wgmma_wait(1);\n      wgmma_order_n${ block_n }(dk);\n",
        "",
    ),
    of(
        "the last dS is not waited for, dP in the place of S",
        "    wait_for_scores(ds_full(shared), work->steps % 2);\n",
        "",
    ),
    of(
        "P that is kept, times its scale",
        "KEPT_SCALE;\n    score[i * 2 + 1]",
        "1;\n    score[i * 2 + 1]",
    ),
    of("lse that is not moved by what is kept", "lse_log2[0] -= KEPT_BITS, ", ""),
    of(
        "the other half of a word of P",
        "widen_low(FP16, p[i]) * (dp",
        "widen_high(FP16, p[i]) * (dp",
    ),
    of("delta of one row for both", "delta[i % 2] * KEPT_SCALE", "delta[0] * KEPT_SCALE"),
    of(
        "lse of the step before, dP in the place of S",
        "      load_rows(lse_log2, smem, LSE_OFFSET + stage.index",
        "      load_rows(lse_log2, smem, LSE_OFFSET + stage_before(stage)",
    ),
    of(
        "delta of the step before, dP in the place of S",
        "      load_rows(delta, smem, DELTA_OFFSET + dout *",
        "      load_rows(delta, smem, DELTA_OFFSET + (dout ^ 1) *",
    ),
    of(
        "dV of the other step's dO, dP in the place of S",
        "      start_dv(dv, shared, consumer, dout)",
        "      start_dv(dv, shared, consumer, dout ^ 1)",
    ),
    of(
        "dK of the next step's Q, dP in the place of S",
        "consumer, n == 0 ? 0 : stage_before(stage))",
        "consumer, stage.index)",
    ),
    of(
        "no zeros for the dK before the first step",
        "      store_scores(smem, DS_OFFSET, none, consumer);\n",
        "      __syncwarp();\n",
    ),
    of(
        "Q before the first step, which nobody brought",
        "consumer, n == 0 ? 0 : stage_before(stage))",
        "consumer, stage_before(stage))",
    ),
    of(
        "the zeros' place is not handed back by dQ's consumer",
        "  arrive_once(ds_empty(shared)); // of zeros before the first step\n",
        "",
    ),
    # ---- dQ apart ----
    of(
        "the second slab is the first, dQ apart",
        "a + (slab * ROW_SLAB_BYTES + step * 16 * 128) / 16",
        "a + step * 16 * 128 / 16",
    ),
    of(
        "consumers' slabs overlap, dQ apart",
        'consumer * ${ "2 * " if apart else "" }ROW_SLAB_BYTES, DS_OFFSET',
        "consumer * ROW_SLAB_BYTES, DS_OFFSET",
    ),
    of(
        "what is kept is another thread's, dQ apart",
        "    p[i] = place[i * GRADIENT_THREADS];",
        "    p[i] = place[i * GRADIENT_THREADS ^ 1];",
    ),
    of(
        "words of what is kept in one place, dQ apart",
        "    place[i * GRADIENT_THREADS] = p[i];",
        "    place[i / 2 * GRADIENT_THREADS] = p[i];",
    ),
    of(
        "zeros before the first step are not waited for, dQ apart",
        "    wait_for_phase(ds_full(shared), 0);\n    __syncwarp();\n",
        "",
    ),
    of(
        "dS is not waited for, dQ apart",
        "    wait_for_scores(ds_full(shared), n % 2 ^ 1);\n#pragma",
        "#pragma",
    ),
    of(
        "dS is handed back before the last part, dQ apart",
        "      if (part + 1 == K_SLABS) {",
        "      if (part + 2 == K_SLABS) {",
    ),
    of(
        "K is overwritten under dQ, dQ apart",
        "  // All consumers arrive, and these wait: K, V and all steps have been read.\n"
        "  named_barrier_sync(1, CONSUMER_THREADS);\n",
        "  named_barrier_sync(1, GRADIENT_THREADS);\n",
    ),
    of(
        "columns of the other slab are stored, dQ apart",
        "    round_columns(smem, DK_ROW_BYTES, dk[i], thread,",
        "    round_columns(smem, DK_ROW_BYTES, dk[i ^ 1], thread,",
    ),
]
