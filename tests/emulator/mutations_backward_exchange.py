"""Single faults in the backward kernels of sm90 whose P and dS pass through shared memory."""

from __future__ import annotations

from mutations import Mutation

EXCHANGE = "templates/attention/flash_bwd_exchange_sm90.cu.j2"
WALK = "templates/attention/parts/key_walk_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim136_bf16_causal_sm90", "m64n64s3d4"),
    ("flash_bwd_hdim200_fp16_sm90", ""),
    ("flash_bwd_dkv_hdim192_bf16_sm90", ""),
    ("flash_bwd_hdim136_bf16_causal_dropout_sm90", "m64n64s2d4"),
    ("flash_bwd_hdim192v128_fp16_window_sm90", "m64n64s3d4"),
    ("flash_bwd_hdim72_bf16_causal_ragged_sm90", ""),
    ("flash_bwd_hdim136_fp16_ragged_sm90", ""),
    ("flash_bwd_hdim152_fp16_ragged_sm90", "m64n64s2d4"),
    ("flash_bwd_hdim208_bf16_runs_sm90", ""),
    ("flash_bwd_hdim200_fp16_causal_runs_sm90", ""),
]
"""Two and three slabs, two and three stages, with and without dQ, and with dQ added by the copy
engine, V of one slab a consumer; ragged, of both templates; key blocks one after the other."""

KEYS = '${ "work->before.keys % 2" if takes else "0" }'

MUTATIONS = [
    # ---- What comes in ----
    Mutation(
        "bwd exchange: K is not waited for",
        EXCHANGE,
        f"    wait_for_phase(k_full(shared), {KEYS});\n    wait_for_phase(q_full(",
        "    wait_for_phase(q_full(",
    ),
    Mutation(
        "bwd exchange: V is not waited for",
        EXCHANGE,
        f"    wait_for_phase(v_full(shared), {KEYS});\n",
        "",
    ),
    Mutation(
        "bwd exchange: Q of the next step is not waited for",
        EXCHANGE,
        "    wait_for_phase(q_full(shared, next.index), next.parity);\n",
        "",
    ),
    Mutation(
        "bwd exchange: dO of the next step is not waited for",
        EXCHANGE,
        "    wait_for_phase(do_full(shared, next.index), next.parity);\n",
        "",
    ),
    Mutation(
        "bwd exchange: dQ begins before K is there",
        EXCHANGE,
        f"    wait_for_phase(k_full(shared), {KEYS});\n  for",
        "    ;\n  for",
        1,
        "dS, which it waits for, is made of K",
    ),
    # ---- P and dS ----
    Mutation(
        "bwd exchange: products may not see what was stored",
        EXCHANGE,
        "  fence_proxy_async(); // behind",
        "  // behind",
    ),
    Mutation(
        "bwd exchange: the other consumer's P and dS are not waited for",
        EXCHANGE,
        "  named_barrier_sync(3, CONSUMER_THREADS);\n",
        "",
    ),
    Mutation(
        "bwd exchange: dS of the step before last is overwritten",
        EXCHANGE,
        "  wait_for_phase(ds_empty(shared, turn), n / 2 % 2 ^ 1);\n",
        "",
    ),
    Mutation(
        "bwd exchange: dQ does not wait for dS",
        EXCHANGE,
        "    wait_for_phase(ds_full(shared, n % 2), n / 2 % 2);\n//% if bulk\n    add_dq",
        "//% if bulk\n    add_dq",
    ),
    Mutation(
        "bwd exchange: P of the other turn",
        EXCHANGE,
        "start_dv(dv, shared, consumer, n % 2,",
        "start_dv(dv, shared, consumer, 0,",
        0,
    ),
    Mutation(
        "bwd exchange: dS of the other turn, dQ",
        EXCHANGE,
        "start_dq(dq, shared, turn",
        "start_dq(dq, shared, 0",
    ),
    Mutation(
        "bwd exchange: the place of a part of dQ is not waited for",
        EXCHANGE,
        "  wait_for_additions(1);\n",
        "",
    ),
    Mutation(
        "bwd exchange: the place of a part of dQ is waited for by one lane",
        EXCHANGE,
        "  wait_for_additions(1);\n  __syncwarp();\n",
        "  wait_for_additions(1);\n",
    ),
    Mutation(
        "bwd exchange: the last part of dQ is not waited for",
        EXCHANGE,
        "  wait_for_additions(0);\n",
        "",
    ),
    Mutation(
        "bwd exchange: all parts of dQ in one place",
        EXCHANGE,
        "      *place ^= DQ_WARP_BYTES;\n",
        "",
    ),
    Mutation(
        "bwd exchange: a part of dQ onto the one before",
        EXCHANGE,
        "begin_addition(sum + part * (DQ_COLUMNS / 8) * 128,",
        "begin_addition(sum,",
    ),
    Mutation(
        "bwd exchange: columns of dQ past the head dim are added",
        EXCHANGE,
        "min(DQ_COLUMNS / 8, HEAD_DIM / 8 - part * (DQ_COLUMNS / 8))",
        "DQ_COLUMNS / 8",
    ),
    Mutation("bwd exchange: chunks are not swizzled", EXCHANGE, "(lane / 4 * 16 ^", "(0 ^"),
    Mutation(
        "bwd exchange: both consumers store their rows in the same chunks",
        EXCHANGE,
        " ^ consumer * S_TILES * 16",
        "",
    ),
    Mutation("bwd exchange: dS in the place of P", EXCHANGE, "+ 2 * P_BYTES + i % 2", "+ i % 2"),
    # ---- Products ----
    Mutation("bwd exchange: S is not waited for", EXCHANGE, "  wgmma_wait(after + 1);\n", ""),
    Mutation("bwd exchange: dP is not waited for", EXCHANGE, "  wgmma_wait(after);\n", ""),
    Mutation(
        "bwd exchange: dV and dK are not waited for, three stages",
        EXCHANGE,
        "    wgmma_wait(0);\n    order_dv(dv);\n    order_dk(dk);\n    arrive_once",
        "    arrive_once",
    ),
    Mutation(
        "bwd exchange: dV and dK are not waited for, two stages",
        EXCHANGE,
        "    wgmma_wait(2);\n",
        "",
    ),
    Mutation(
        "bwd exchange: dQ is not waited for",
        EXCHANGE,
        "    wgmma_wait(0);\n    wgmma_order_n${ dq_width }(dq);\n",
        "",
    ),
    Mutation(
        "bwd exchange: S of the other consumer's rows",
        EXCHANGE,
        "shared + Q_OFFSET + consumer * S_ROWS * 128",
        "shared + Q_OFFSET",
    ),
    Mutation(
        "bwd exchange: dP of the other consumer's rows",
        EXCHANGE,
        "shared + DO_OFFSET + consumer * S_ROWS * 128",
        "shared + DO_OFFSET",
    ),
    Mutation(
        "bwd exchange: the half of a slab is the other consumer's",
        EXCHANGE,
        "ROW_SLAB_BYTES + consumer * 64, 1024",
        "ROW_SLAB_BYTES, 1024",
        0,
    ),
    Mutation(
        "bwd exchange: dQ of half of the keys", EXCHANGE, "step < KEY_STEPS", "step < KEY_STEPS / 2"
    ),
    Mutation(
        "bwd exchange: dQ of the first columns",
        EXCHANGE,
        "part * DQ_COLUMNS / 64 * KEY_SLAB_BYTES",
        "0 * KEY_SLAB_BYTES",
    ),
    Mutation(
        "bwd exchange: dQ's columns past the head dim",
        EXCHANGE,
        "HEAD_DIM % DQ_COLUMNS == 0 || part",
        "true || part",
    ),
    Mutation("bwd exchange: dQ of rows past the end", EXCHANGE, "    if (valid)\n", ""),
    # ---- Scores ----
    Mutation(
        "bwd exchange: lse of the first consumer's rows",
        EXCHANGE,
        "ROWS_BYTES) + consumer * S_ROWS + ",
        "ROWS_BYTES) + ",
    ),
    Mutation(
        "bwd exchange: delta is lse", EXCHANGE, "true, lse_log2 + BLOCK_M);", "true, lse_log2);"
    ),
    Mutation(
        "bwd exchange: no mask at the end of the keys",
        EXCHANGE,
        "first_key + 64 > args->seqlen_k",
        "0 > 1",
    ),
    Mutation(
        "bwd exchange: no mask on the diagonal",
        EXCHANGE,
        "first_key + 63<% endif %>",
        "first_key<% endif %>",
    ),
    Mutation(
        "bwd exchange: a window ends a consumer's rows late",
        EXCHANGE,
        "row + S_ROWS > unmasked_end",
        "row > unmasked_end",
    ),
    Mutation(
        "bwd exchange: dropped for the first consumer's rows",
        EXCHANGE,
        "step.row + consumer * S_ROWS,",
        "step.row,",
    ),
    # ---- The walk ----
    Mutation(
        "bwd exchange: a step is handed back before it was read",
        EXCHANGE,
        "    start_dk(dk, shared, consumer, n % 2, stage.index);\n//% endif\n//% if dropout",
        "    start_dk(dk, shared, consumer, n % 2, stage.index);\n"
        "    arrive_once(step_empty(shared, stage.index));\n//% endif\n//% if dropout",
    ),
    Mutation(
        "bwd exchange: the last step is left out",
        EXCHANGE,
        'n + 1 < ${ "end" if takes else "work->steps" }; ++n',
        'n + 2 < ${ "end" if takes else "work->steps" }; ++n',
    ),
    Mutation(
        "bwd exchange: dQ of the first head",
        EXCHANGE,
        "work->batch, step.head, step.row",
        "work->batch, work->first_head, step.row",
    ),
    Mutation(
        "bwd exchange: columns of the other consumer",
        EXCHANGE,
        "64 + consumer * 32, HEAD_DIM,\n                         valid",
        "64, HEAD_DIM,\n                         valid",
    ),
    Mutation(
        "bwd exchange: gradients of keys past the end",
        EXCHANGE,
        "valid = args->seqlen_k - work->key_begin - row;",
        "valid = args->seqlen_k - work->key_begin;",
    ),
    Mutation(
        "bwd exchange: columns past the head dim",
        EXCHANGE,
        "tiles, (columns - column) / 8, valid, DTYPE,",
        "tiles, tiles, valid, DTYPE,",
    ),
    # ---- The producer, of both templates ----
    Mutation(
        "bwd sm90: lse and delta arrive before all lanes have stored",
        WALK,
        "  __syncwarp();\n  arrive_once(q_full",
        "  arrive_once(q_full",
    ),
    Mutation(
        "bwd sm90: the producer does not wait",
        WALK,
        "  wait_for_phase(step_empty(shared, stage.index), stage.parity ^ 1);\n//% if sequences",
        "//% if sequences",
    ),
    Mutation(
        "bwd sm90: lse and delta of a step that is still read",
        WALK,
        "  wait_for_phase(step_empty(shared, stage.index), stage.parity ^ 1);\n  *(float4",
        "  *(float4",
    ),
    Mutation(
        "bwd sm90: lse of the first head", WALK, "args->heads_q + step.head)", "args->heads_q)"
    ),
    # ---- Sequences of their own lengths ----
    Mutation(
        "bwd ragged sm90: rows behind a sequence are not cleared",
        WALK,
        "    clear_rows(smem + Q_OFFSET + stage.index * Q_BYTES, K_SLABS, BLOCK_M, valid);\n",
        "",
    ),
    Mutation(
        "bwd ragged sm90: dO behind a sequence is not cleared",
        WALK,
        "    clear_rows(smem + DO_OFFSET + stage.index * DO_BYTES, V_SLABS, BLOCK_M, valid);\n",
        "",
    ),
    Mutation(
        "bwd ragged sm90: K behind a sequence is not cleared",
        WALK,
        "  clear_rows(smem, K_SLABS, BLOCK_N, valid);\n",
        "",
    ),
    Mutation(
        "bwd ragged sm90: V behind a sequence is not cleared",
        WALK,
        "  clear_rows(smem + V_OFFSET, V_SLABS, BLOCK_N, valid);\n",
        "",
    ),
    Mutation(
        "bwd ragged sm90: a row too few is cleared",
        WALK,
        "chunk = valid * 8",
        "chunk = valid * 8 + 8",
    ),
    Mutation(
        "bwd ragged sm90: zeros before the copy engine is done",
        WALK,
        "    wait_for_phase(step_loaded(stage.index), *parities >> stage.index & 1);\n",
        "",
    ),
    Mutation(
        "bwd ragged sm90: the next tail of a stage is not waited for",
        WALK,
        "    *parities ^= 1u << stage.index;\n",
        "",
    ),
    Mutation(
        "bwd ragged sm90: K is cleared before it is there",
        WALK,
        '  wait_for_phase(k_loaded(), ${ "parity" if takes else "0" });\n',
        "",
    ),
    Mutation(
        "bwd ragged sm90: V is cleared before it is there",
        WALK,
        '  wait_for_phase(v_loaded(), ${ "parity" if takes else "0" });\n',
        "",
    ),
    Mutation(
        "bwd ragged sm90: products may not see the zeros", WALK, "  fence_proxy_async();\n", ""
    ),
    Mutation(
        "bwd ragged sm90: zeros are handed over by one lane for all",
        WALK,
        "    __syncwarp();\n    arrive_once(do_full",
        "    arrive_once(do_full",
    ),
    Mutation(
        "bwd ragged sm90: lse of the first sequence",
        WALK,
        "work->at->values_row + step.row",
        "step.row",
    ),
    Mutation(
        "bwd ragged sm90: Q of the first sequence", WALK, "work->at->q_row + step.row", "step.row"
    ),
    Mutation(
        "bwd ragged sm90: K of the first sequence",
        WALK,
        "work->at->k_row + work->key_begin, batch",
        "work->key_begin, batch",
    ),
    Mutation(
        "bwd ragged sm90: V of the first sequence",
        WALK,
        "work->at->k_row + work->key_begin, key_batch",
        "work->key_begin, key_batch",
    ),
    Mutation(
        "bwd ragged sm90: dQ onto the first sequence's",
        EXCHANGE,
        "work->at->sum_tile + step.row / 16",
        "step.row / 16",
    ),
    Mutation(
        "bwd ragged sm90: dK in the first sequence's place",
        EXCHANGE,
        "key_row = work->at->k_row + work->key_begin",
        "key_row = work->key_begin",
    ),
    Mutation(
        "bwd ragged sm90: work that is not there",
        EXCHANGE,
        "  if (found.key_begin < 0)\n    return;\n",
        "",
    ),
    Mutation(
        "bwd ragged sm90: a unit is dropped",
        WALK,
        "is_unit(batch, number)",
        "is_unit(batch, number + 1)",
    ),
    Mutation(
        "bwd ragged sm90: the key block before, twice",
        WALK,
        "unit->block * BLOCK_N",
        "max(unit->block - 1, 0) * BLOCK_N",
    ),
    Mutation(
        "bwd ragged sm90: key head 0", WALK, "work.kv_head = unit->head;", "work.kv_head = 0;"
    ),
    Mutation(
        "bwd ragged sm90: a mask of the bounds",
        WALK,
        "args_of_lengths(batch, at->seqlen_q, at->seqlen_k)",
        "batch->bwd",
    ),
    # ---- Key blocks one after the other ----
    Mutation(
        "bwd exchange takes: K of the work before is overwritten",
        WALK,
        "    wait_for_phase(k_empty(), work->before.keys % 2 ^ 1);\n",
        "",
    ),
    Mutation(
        "bwd exchange takes: V of the work before is overwritten",
        WALK,
        "    wait_for_phase(v_empty(), work->before.keys % 2 ^ 1);\n",
        "",
    ),
    Mutation(
        "bwd exchange takes: V is not handed back",
        EXCHANGE,
        "    arrive_once(v_empty()); // the last dP has been waited for\n",
        "",
    ),
    Mutation(
        "bwd exchange takes: V is handed back before the last dP",
        EXCHANGE,
        '  for (int n = ${ "first" if takes',
        "//% if takes\n  if (end > first + 1)\n    arrive_once(v_empty());\n//% endif\n"
        '  for (int n = ${ "first" if takes',
        2,
    ),
    Mutation(
        "bwd exchange takes: K is handed back twice",
        EXCHANGE,
        "  if (end > first) // hands over the place of K, which the consumers have read before\n",
        "  if (end > first)\n    arrive_once(k_empty());\n  if (end > first)\n",
    ),
    Mutation(
        "bwd exchange takes: the last step is not handed back",
        EXCHANGE,
        "    arrive_once(step_empty(shared, stage.index));\n//% endif\n  }\n",
        "//% endif\n  }\n",
    ),
    Mutation(
        "bwd exchange takes: dQ counts from 0",
        EXCHANGE,
        "const int first = __shfl_sync(0xffffffff, work->before.steps, 0);",
        "const int first = 0;",
    ),
    Mutation(
        "bwd exchange takes: consumers count from 0",
        EXCHANGE,
        "const int first = work->before.steps, end",
        "const int first = 0, end",
    ),
    Mutation(
        "bwd exchange takes: the ring begins anew",
        EXCHANGE,
        "  Stage stage = progress_stage(work->before, STAGES);\n",
        "  Stage stage = {0, 0};\n",
    ),
]
