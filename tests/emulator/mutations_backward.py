"""Single faults in the backward pass of attention, and the kernels that are to see them."""

from __future__ import annotations

from mutations import BWD_DQ, Mutation

BWD = "templates/attention/flash_bwd_sm80.cu.j2"
SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
DQ_SM90 = "templates/attention/flash_bwd_dq_sm90.cu.j2"
DELTA = "templates/attention/flash_bwd_delta.cu.j2"
CONVERT = "templates/attention/flash_bwd_convert.cu.j2"
BULK = "include/attnpress/device/gradient_bulk.cuh"
GRADIENT = "include/attnpress/device/gradient.cuh"
STORE = "include/attnpress/device/gradient_store.cuh"
PRODUCT = "include/attnpress/device/product.cuh"

KEYS_PARITY = '${ "work->before.keys % 2" if takes else "0" }'

LEFT_OUT = (
    "it reads nothing of the step, whose Q has come, and the other consumer, some of whose keys a"
    " row of each step sees, waits for dO before it hands the place back"
)

KERNELS = [
    ("flash_bwd_delta_hdim72_bf16_sm80", ""),
    ("flash_bwd_delta_hdim136_bf16_sm80", ""),
    ("flash_bwd_convert_hdim40_fp16_sm80", ""),
    ("flash_bwd_hdim40_bf16_causal_sm80", "m32n64w1x2a2d2s2c"),
    ("flash_bwd_hdim72_fp16_sm80", "m32n32w2x2a1d1s2c"),
    ("flash_bwd_hdim72_bf16_causal_sm80", "m32n32w2x2x2a2d2s2v1"),
    ("flash_bwd_dkv_hdim24_bf16_sm86", "m32n32w1x2x2a2s1"),
    ("flash_bwd_dq_hdim40_fp16_causal_sm80", "m32n32w2x1a2s2c"),
    ("flash_bwd_dq_hdim72_bf16_sm80", "m32n32w2x2a1s2v1"),
    ("flash_bwd_hdim72_bf16_causal_sm90", ""),
    ("flash_bwd_hdim64_fp16_sm90", "m64n128s3"),
    ("flash_bwd_hdim72_fp16_causal_sm90", "m64n128s2d4"),
    ("flash_bwd_hdim72_bf16_sm90", "m64n128s2kv"),
    ("flash_bwd_hdim64_fp16_causal_sm90", "m64n128s2d4v"),
    ("flash_bwd_hdim56_bf16_sm90", "m64n128s2d4k"),
    ("flash_bwd_hdim120_bf16_causal_sm90", ""),
    ("flash_bwd_hdim120_fp16_sm90", "m64n128s2"),
    ("flash_bwd_dkv_hdim40_bf16_sm90", ""),
    ("flash_bwd_dq_hdim72_bf16_causal_sm90", ""),
]
"""P and dS in registers and in shared memory, warps that compute the same S, one and two stages, dO
or V with fewer of them, spread copies, columns that warps share unevenly; of sm90, one and several
slabs, two and three stages, K and V as A from shared memory and from registers, dQ by a warpgroup
of its own, in turn, with dS in two parts and in four, and half of the columns each."""

TOP_BARRIER = """\
    cp_async_wait(STAGES - 2);
    __syncthreads();
    const bool loads"""

MUTATIONS = [
    # ---- Before and after ----
    Mutation(
        "bwd: delta from the row before",
        DELTA,
        "out + r *",
        "out + max(r - 1, (int64_t)0) *",
    ),
    Mutation(
        "bwd: a later delta from the row before",
        DELTA,
        "out + r *",
        "out + max(r - 1, (int64_t)0) *",
        2,
    ),
    Mutation("bwd: delta of dO alone", DELTA, "widen_low(DTYPE, pairs[0][i]) *", "1.0f *"),
    Mutation("bwd: chunks of out are not waited for", DELTA, "    cp_async_wait(", "    (void)("),
    Mutation("bwd: a round is waited for late", DELTA, "DEPTH - 1);\n", "DEPTH);\n"),
    Mutation("bwd: chunks of dO over those of out", DELTA, "place + TENSOR_BYTES +", "place +"),
    Mutation(
        "bwd: a round in the place of another",
        DELTA,
        "place + round % DEPTH * 2 * TENSOR_BYTES",
        "place",
    ),
    Mutation("bwd: delta of another round", DELTA, "part == round", "part == (round ^ 1)"),
    Mutation("bwd: chunks past the row", DELTA, "valid && chunk < CHUNKS ? 16", "valid ? 16"),
    Mutation("bwd: dlse is added", DELTA, "delta -= args.dlse", "delta += args.dlse"),
    Mutation("bwd: dlse of another head", DELTA, "head * args.dlse_head_stride", "0"),
    Mutation(
        "bwd: dQ of the block before",
        CONVERT,
        "gridDim.x - 1 - blockIdx.x",
        "gridDim.x - blockIdx.x",
    ),
    Mutation("bwd: half the lanes of a row", DELTA, "distance < ROW_THREADS", "distance < 2"),
    Mutation("bwd: natural lse", DELTA, " * LOG2_E", ""),
    Mutation("bwd: a row past the end has lse 0", DELTA, "lse_log2 = INF", "lse_log2 = 0.0f"),
    Mutation("bwd: a part of the sum is not zeroed", DELTA, "i < quads", "i < quads - 1"),
    Mutation("bwd: rows without keys have lse -inf", GRADIENT, "== -INF ? INF", "== INF ? INF"),
    Mutation("bwd: dQ is not scaled", CONVERT, "each[k] * args.scale", "each[k]"),
    Mutation("bwd: halves of a tile of the sum", CONVERT, "value[half * 2][1]", "value[0][1]"),
    Mutation("bwd: dQ is not added to what was there", CONVERT, "if (args.accumulate)", "if (0)"),
    # ---- Waits and barriers, mma.sync ----
    Mutation(
        "bwd: no wait for a step",
        BWD,
        TOP_BARRIER,
        TOP_BARRIER.replace("    cp_async_wait(STAGES - 2);\n", ""),
    ),
    Mutation(
        "bwd: no barrier of a step",
        BWD,
        TOP_BARRIER,
        TOP_BARRIER.replace("    __syncthreads();\n", ""),
    ),
    Mutation("bwd: no wait, one stage", BWD, "    cp_async_wait(0);\n    // All", "    // All"),
    Mutation(
        "bwd: no barrier before the only slot is filled",
        BWD,
        "read the step before.\n    __syncthreads();",
        "read the step before.",
    ),
    Mutation(
        "bwd: no barrier between dS and its products",
        BWD,
        "and<% endif %> dS.\n    __syncthreads();",
        "and<% endif %> dS.",
    ),
    Mutation(
        "bwd: no barrier before dO's only slot is filled",
        BWD,
        "whose slot the next one takes.\n    __syncthreads();",
        "whose slot the next one takes.",
    ),
    Mutation(
        "bwd: no barrier before the gradients take the place of K and V",
        BWD,
        "  cp_async_wait(0);\n  __syncthreads();",
        "  cp_async_wait(0);",
    ),
    Mutation(
        "bwd: no barrier before dK and dV leave",
        BWD,
        "hands over the tiles of dK and dV.\n  __syncthreads();",
        "hands over the tiles of dK and dV.",
    ),
    Mutation("bwd: the next step into this one's slot", BWD, "(slot_index + STAGES - 1) %", "0 *"),
    Mutation(
        "bwd: a half of dO is not loaded",
        BWD,
        "      load_step_v(load_slot_v, &args, work, next, 1, 2);",
        "      load_step_v(load_slot_v, &args, work, next, 0, 2);",
    ),
    # ---- What is walked over ----
    Mutation(
        "bwd: the last step is left out", BWD, "step < steps; ++step", "step < steps - 1; ++step"
    ),
    Mutation("bwd: the last query head of a group", BWD, "head_steps * group", "head_steps"),
    Mutation(
        "bwd: a block of rows too few",
        BWD,
        "/ WALK_ROWS : 0;",
        "/ WALK_ROWS + 1 : 0;",
    ),
    Mutation(
        "bwd: lse of another head",
        BWD,
        "args, work, step.head) + step.row +",
        "args, work, 0) + step.row +",
    ),
    Mutation("bwd: lse of the first rows", BWD, "step.row + chunk * 4;", "chunk * 4;"),
    Mutation("bwd: delta in the place of lse", BWD, "= lse_log2 + WALK_ROWS;", "= lse_log2;"),
    Mutation("bwd: no mask at the end of the keys", BWD, "BLOCK_N > args.seqlen_k", "0 > 1"),
    Mutation("bwd: no mask, dQ", BWD, "now.row + BLOCK_N >\n", "now.row + 0 >\n"),
    Mutation("bwd: no mask on the diagonal", BWD, "BLOCK_N - 1<% endif %>", "0<% endif %>"),
    Mutation("bwd: keys past the end", GRADIENT, "key >= seqlen_k ? seqlen_q", "0 ? seqlen_q"),
    Mutation("bwd: the diagonal is one off", GRADIENT, "max(0, key +", "max(0, key + 1 +"),
    # ---- Products and sums ----
    Mutation("bwd: dS without delta", GRADIENT, "dp[tile * 4 + i] - d)", "dp[tile * 4 + i])"),
    Mutation("bwd: the columns of a pair", GRADIENT, "i % 2 ? pair.y : pair.x", "pair.x", 0),
    Mutation("bwd: dK is not scaled", BWD, "args.scale, args.accumulate", "1.0f, args.accumulate"),
    Mutation(
        "bwd: columns of dQ are added by two warps",
        BWD,
        "if (i >= tiles_of_others(HEAD_DIM / 8, DQ_COLUMN_WARPS, dq_warp))",
        "if (true)",
    ),
    Mutation(
        "bwd: dQ of rows past the end",
        BWD,
        "if (now.row + (dq_row + m) * 16 <",
        "if (now.row + (dq_row + m) * 16 <= BLOCK_M +",
    ),
    Mutation(
        "bwd: dQ of the first key rows", BWD, "ROW_BYTES, BLOCK_N, lane", "ROW_BYTES, 16, lane"
    ),
    Mutation("bwd: the last 8 columns of S", PRODUCT, "depth % 16 != 0", "depth % 16 == 1"),
    Mutation("bwd: an odd column tile", PRODUCT, "n_tiles + 1) / 2", "n_tiles) / 2"),
    Mutation("bwd: warps' columns overlap, and both store", STORE, "if (n >= first)", "if (true)"),
    Mutation("bwd: a row too many is stored", STORE, "min(rows, valid)", "min(rows, valid + 1)"),
    Mutation("bwd: rows are added to others", STORE, "accumulate ? *target : 0", "0"),
    # ---- sm90 ----
    Mutation(
        "bwd sm90: Q is not waited for",
        SM90,
        "    wait_for_phase(q_full(shared, stage.index), stage.parity);\n    start",
        "    start",
    ),
    Mutation(
        "bwd sm90: dO is not waited for",
        SM90,
        "    wait_for_phase(do_full(shared, stage.index), stage.parity);\n",
        "",
    ),
    Mutation(
        "bwd sm90: dO of a step that is left out is not waited for",
        SM90,
        "      wait_for_phase(do_full(shared, stage.index), stage.parity);\n",
        "",
        harmless=LEFT_OUT,
    ),
    Mutation(
        "bwd sm90: dO of a consumer without keys is not waited for",
        SM90,
        "      wait_for_phase(do_full(shared, stage.index), stage.parity);\n",
        "",
        2,
        LEFT_OUT,
    ),
    Mutation(
        "bwd sm90: V is not waited for",
        SM90,
        "      wait_for_phase(v_full(shared), " + KEYS_PARITY + ");",
        "      ;",
    ),
    Mutation(
        "bwd sm90: the dS of all is not waited for",
        BWD_DQ,
        "  wait_for_phase(ds_full(shared, turn), parity);\n",
        "",
    ),
    Mutation(
        "bwd sm90: V of a consumer without keys is not waited for",
        SM90,
        "        wait_for_phase(v_full(shared), " + KEYS_PARITY + ");\n",
        "        ;\n",
        harmless="it reads none, and K of its next keys comes after the others have waited for V",
    ),
    Mutation(
        "bwd sm90: the place of the zeros of a step that is left out is not waited for",
        SM90,
        "      wait_for_phase(ds_empty(shared, turn), turn_parity ^ 1);\n",
        "",
    ),
    Mutation(
        "bwd sm90: the place of dS is not waited for",
        SM90,
        "    wait_for_phase(ds_empty(shared, turn), turn_parity ^ 1);\n",
        "",
    ),
    Mutation(
        "bwd sm90: a step is handed back before its products are done",
        SM90,
        "    wgmma_wait(0);\n    wgmma_order_n${ hdim_v }(dv);\n    wgmma_order_n${ hdim }(dk);\n"
        "    arrive_once(step_empty(shared, stage.index));\n",
        "    arrive_once(step_empty(shared, stage.index));\n"
        "    wgmma_wait(0);\n    wgmma_order_n${ hdim_v }(dv);\n    wgmma_order_n${ hdim }(dk);\n",
    ),
    Mutation(
        "bwd sm90: dP is not waited for",
        SM90,
        "    wgmma_wait(0);\n//% endif\n    wgmma_order_n${ block_m }(dp)",
        "//% endif\n    wgmma_order_n${ block_m }(dp)",
    ),
    Mutation(
        "bwd sm90: the other turn's dS",
        BWD_DQ,
        "DS_OFFSET + turn * DS_BYTES + warp",
        "DS_OFFSET + warp",
    ),
    Mutation(
        "bwd sm90: one consumer's keys of dQ",
        BWD_DQ,
        "first < KEY_STEPS; first",
        "first < KEY_STEPS / 2; first",
    ),
    Mutation("bwd sm90: the other consumer's keys", SM90, "shared + consumer * 64 * 128", "shared"),
    Mutation(
        "bwd sm90: the last step is left out",
        SM90,
        "n < work->steps; ++n) {\n//% if takes",
        "n < work->steps - 1; ++n) {\n//% if takes",
    ),
    Mutation(
        "bwd sm90: no barrier before dK and dV take their place",
        SM90,
        "  named_barrier_sync(2, NUM_THREADS - 128);\n",
        "",
    ),
    Mutation(
        "bwd sm90: no barrier before dK and dV leave",
        SM90,
        "  named_barrier_sync(1, CONSUMER_THREADS);\n  store_gradient",
        "  store_gradient",
    ),
    Mutation(
        "bwd sm90: no mask at the end of the keys",
        SM90,
        "first_key + 64 > args->seqlen_k",
        "0 > 1",
    ),
    Mutation(
        "bwd sm90: no mask on the diagonal",
        SM90,
        "first_key + 63<% endif %>",
        "first_key<% endif %>",
    ),
    Mutation(
        "bwd sm90: dK is not scaled", SM90, "K_TILES, DTYPE, args->scale", "K_TILES, DTYPE, 1.0f"
    ),
    Mutation(
        "bwd sm90: K is overwritten under dQ",
        SM90,
        "named_barrier_sync(2, NUM_THREADS - 128)",
        "named_barrier_sync(2, CONSUMER_THREADS)",
    ),
    Mutation(
        "bwd sm90: dQ of the second slab onto the first",
        BWD_DQ,
        "add_columns(sum + 8 * 128, smem",
        "add_columns(sum, smem",
        0,
    ),
    Mutation(
        "bwd sm90: the place of dS is handed back too early",
        BWD_DQ,
        "        if (first + DQ_STEPS == KEY_STEPS) {",
        "        if (first == 0) {",
        0,
    ),
    Mutation(
        "bwd sm90: lse and delta are handed back by one lane for all",
        SM90,
        "    __syncwarp();\n//% if sums",
        "//% if sums",
    ),
    # ---- sm90: fragments of K and V that stay in registers ----
    Mutation(
        "bwd sm90: K is not there when its fragments are loaded",
        SM90,
        "    wait_for_phase(k_full(shared), " + KEYS_PARITY + ");\n//% if k_in_regs",
        "//% if k_in_regs",
    ),
    Mutation(
        "bwd sm90: V is not there when its fragments are loaded",
        SM90,
        "    wait_for_phase(v_full(shared), " + KEYS_PARITY + ");\n    load",
        "    load",
    ),
    Mutation(
        "bwd sm90: fragments of K before K is there",
        SM90,
        "    wait_for_phase(k_full(shared), " + KEYS_PARITY + ");\n//% if k_in_regs\n"
        "    load_fragments(k, shared + (consumer * 64 + warp * 16) * 128, S_STEPS);\n//% endif\n",
        "//% if k_in_regs\n"
        "    load_fragments(k, shared + (consumer * 64 + warp * 16) * 128, S_STEPS);\n//% endif\n"
        "    wait_for_phase(k_full(shared), " + KEYS_PARITY + ");\n",
    ),
    Mutation(
        "bwd sm90: fragments of the other consumer's K",
        SM90,
        "load_fragments(k, shared + (consumer * 64 + warp * 16) * 128",
        "load_fragments(k, shared + (64 - consumer * 64 + warp * 16) * 128",
    ),
    Mutation(
        "bwd sm90: fragments of the other consumer's V",
        SM90,
        "V_OFFSET + (consumer * 64 + warp * 16) * 128, DP",
        "V_OFFSET + (64 - consumer * 64 + warp * 16) * 128, DP",
    ),
    Mutation(
        "bwd sm90: fragments of another warp's V",
        SM90,
        "V_OFFSET + (consumer * 64 + warp * 16) * 128, DP",
        "V_OFFSET + consumer * 64 * 128, DP",
    ),
    Mutation(
        "bwd sm90: fragments of K in the place of V's",
        SM90,
        "shared + V_OFFSET + (consumer * 64 + warp",
        "shared + (consumer * 64 + warp",
    ),
    Mutation(
        "bwd sm90: fragments of the first slab alone",
        SM90,
        "keys + step / 4 * KEY_SLAB_BYTES",
        "keys + 0 * KEY_SLAB_BYTES",
    ),
    Mutation(
        "bwd sm90: slabs of keys as long as those of rows",
        SM90,
        "keys + step / 4 * KEY_SLAB_BYTES",
        "keys + step / 4 * ROW_SLAB_BYTES",
    ),
    Mutation(
        "bwd sm90: fragments without the swizzle",
        SM90,
        "((step % 4 * 32 + lane / 16 * 16) ^ swizzle_of_row(64, lane))",
        "(step % 4 * 32 + lane / 16 * 16)",
    ),
    Mutation(
        "bwd sm90: halves of a fragment", SM90, "step % 4 * 32 + lane / 16 * 16", "step % 4 * 32"
    ),
    Mutation(
        "bwd sm90: the first fragment of K, always", SM90, "_rs(score, k[step]", "_rs(score, k[0]"
    ),
    Mutation("bwd sm90: the first fragment of V, always", SM90, "_rs(dp, v[step]", "_rs(dp, v[0]"),
    # ---- sm90: consumers compute dQ in turn, of the step before ----
    Mutation(
        "bwd sm90 in turn: the other consumer's turn, but of the last step",
        SM90,
        "if (n > 0 && turn != consumer)",
        "if (n > 0 && turn == consumer)",
        1,
        "consumers change places: each step's dQ is computed once all the same",
    ),
    Mutation(
        "bwd sm90 in turn: dQ of this step's dS",
        SM90,
        "shared, turn ^ 1, turn_parity ^ turn ^ 1, work,",
        "shared, turn, turn_parity, work,",
    ),
    Mutation(
        "bwd sm90 in turn: dQ waits for this step's dS",
        SM90,
        "turn ^ 1, turn_parity ^ turn ^ 1, work,",
        "turn ^ 1, turn_parity, work,",
    ),
    Mutation(
        "bwd sm90 in turn: dQ of the step before is added to this step's rows",
        SM90,
        "work,\n             step_before(step, work));",
        "work,\n             step);",
    ),
    Mutation(
        "bwd sm90 in turn: the step before a head's first is of the same head",
        SM90,
        "    step = {step.head - 1, work->row_end};\n",
        "    step = {step.head, work->row_end};\n",
    ),
    Mutation(
        "bwd sm90 in turn: the step before a head's first is not its last",
        SM90,
        "  if (step.row == work->row_begin)\n    step = {step.head - 1, work->row_end};\n",
        "",
    ),
    Mutation(
        "bwd sm90 in turn: the last dQ is left out",
        SM90,
        "if (work->steps > 0 && last % 2 == consumer)",
        "if (0 > 1)",
    ),
    Mutation(
        "bwd sm90 in turn: the last dQ is of the other dS",
        SM90,
        "shared, consumer, last / 2 % 2, work,",
        "shared, consumer ^ 1, last / 2 % 2, work,",
    ),
    Mutation(
        "bwd sm90 in turn: the last dQ is added to the rows behind the last",
        SM90,
        "work,\n           step_before(step, work));",
        "work,\n           step);",
    ),
    Mutation(
        "bwd sm90 in turn: the place of dQ is waited for with the wrong parity",
        BWD_DQ,
        "dq_empty(shared, turn ^ 1), parity ^ turn ^ 1, work",
        "dq_empty(shared, turn ^ 1), parity ^ turn, work",
    ),
    Mutation(
        "bwd sm90 in turn: the place of dQ that a consumer itself had",
        BWD_DQ,
        "dq_empty(shared, turn ^ 1), parity ^ turn ^ 1, work",
        "dq_empty(shared, turn), parity ^ 1, work",
    ),
    # ---- sm90: consumers have half of the columns of dQ each ----
    Mutation(
        "bwd sm90 halves: dS of the step before is not waited for",
        SM90,
        "    wait_for_phase(ds_full(shared, turn ^ 1), turn_parity ^ turn ^ 1);\n",
        "",
    ),
    Mutation(
        "bwd sm90 halves: dS of the step before without a fence",
        SM90,
        "turn_parity ^ turn ^ 1);\n    fence_proxy_async();\n",
        "turn_parity ^ turn ^ 1);\n",
    ),
    Mutation(
        "bwd sm90 halves: the last dS without a fence",
        SM90,
        "last / 2 % 2);\n    fence_proxy_async();\n",
        "last / 2 % 2);\n",
    ),
    Mutation(
        "bwd sm90 halves: the place of dS is not waited for",
        SM90,
        "    wait_for_phase(ds_empty(shared, turn), turn_parity ^ turn ^ 1);\n",
        "",
    ),
    Mutation(
        "bwd sm90 halves: the place of dS is waited for a phase early",
        SM90,
        "    wait_for_phase(ds_empty(shared, turn), turn_parity ^ turn ^ 1);\n",
        "    wait_for_phase(ds_empty(shared, turn), turn_parity ^ 1);\n",
    ),
    Mutation(
        "bwd sm90 halves: the place of dS is handed back before it is read",
        SM90,
        "    start_dk(dk, ds, shared, stage.index);\n    wgmma_wait(1);\n",
        "    start_dk(dk, ds, shared, stage.index);\n    __syncwarp();\n"
        "    arrive_once(ds_empty(shared, turn ^ 1));\n    wgmma_wait(1);\n",
    ),
    Mutation(
        "bwd sm90 halves: dQ is handed over before its products are done",
        SM90,
        "    wgmma_wait(1);\n    wgmma_order_n${ hdim_v }(dv);\n    wgmma_order_n64(dq);\n",
        "    wgmma_wait(2);\n    wgmma_order_n${ hdim_v }(dv);\n    wgmma_order_n64(dq);\n",
    ),
    Mutation(
        "bwd sm90 halves: dQ of this step's dS",
        SM90,
        'start_dq(dq, shared, ${ "keys, " if keys_ahead else "" }consumer, turn ^ 1)',
        'start_dq(dq, shared, ${ "keys, " if keys_ahead else "" }consumer, turn)',
    ),
    Mutation(
        "bwd sm90 halves: the other consumer's columns of K",
        BWD_DQ,
        '${ "keys" if keys_ahead else "shared" } + consumer * KEY_SLAB_BYTES',
        '${ "keys" if keys_ahead else "shared" }',
    ),
    Mutation(
        "bwd sm90 halves: keys of dS left out",
        BWD_DQ,
        "i < KEY_STEPS; ++i",
        "i < KEY_STEPS / 2; ++i",
    ),
    Mutation(
        "bwd sm90 halves: dS without the swizzle",
        SM90,
        "                       lane / 4 * 16 + lane % 4 * 4;",
        "                       lane % 4 * 4;",
    ),
    Mutation(
        "bwd sm90 halves: dQ of the first step's nothing is handed over",
        SM90,
        "    if (n > 0)\n      hand_over_dq(",
        "    if (n >= 0)\n      hand_over_dq(",
    ),
    Mutation(
        "bwd sm90 halves: the last dQ is left out",
        SM90,
        "    hand_over_dq(args, smem, shared, consumer, dq_empty(shared, consumer), "
        'turn${ "" if chains else " ^ 1" },',
        "    if (0 > 1)\n      hand_over_dq(args, smem, shared, consumer, 0, 0,",
    ),
    Mutation(
        "bwd sm90 halves: dQ of a step is added to the next one's rows",
        BWD_DQ,
        '"row_begin" }; n < steps',
        '"row_begin" } + BLOCK_M; n < steps',
    ),
    Mutation(
        "bwd sm90 halves: dP is not waited for",
        SM90,
        "    fence_proxy_async();\n    wgmma_wait(1);\n",
        "    fence_proxy_async();\n",
    ),
    # ---- sm90: a thread has dQ of consumers added up ----
    Mutation(
        "bwd sm90 adders: the place of dQ is not waited for",
        BWD_DQ,
        "  wait_for_phase(empty, parity);\n",
        "",
    ),
    Mutation(
        "bwd sm90 adders: the place of dQ is given back before it is read",
        BWD_DQ,
        "    bulk_commit();\n    bulk_wait_read(0);\n",
        "    bulk_commit();\n",
    ),
    Mutation(
        "bwd sm90 adders: dQ is not fenced",
        BWD_DQ,
        "    fence_proxy_async();\n#pragma unroll\n    for (int warp",
        "#pragma unroll\n    for (int warp",
    ),
    Mutation(
        "bwd sm90 adders: dQ is not waited for",
        BWD_DQ,
        '    wait_for_phase(dq_full(shared, place), ${ "(before + n)" if takes else "n" } % 2);\n',
        "",
    ),
    Mutation(
        "bwd sm90 adders: dQ is handed over before other lanes stored it",
        BWD_DQ,
        "  __syncwarp();\n  arrive_once(dq_full",
        "  arrive_once(dq_full",
    ),
    Mutation(
        "bwd sm90 adders: the second half is added onto the first",
        BWD_DQ,
        "sum + (warp * K_TILES + first) * 128",
        "sum + warp * K_TILES * 128",
    ),
    Mutation(
        "bwd sm90 adders: columns behind the last are added to the next rows",
        BWD_DQ,
        "place == 0 ? DQ_TILES : K_TILES - DQ_TILES",
        "DQ_TILES",
    ),
    Mutation(
        "bwd sm90 adders: the sum of the first head alone",
        BWD_DQ,
        "      sum += (args->sum_tiles",
        "      sum += 0 * (args->sum_tiles",
    ),
    Mutation(
        "bwd sm90 adders: a step is added to the rows of the one before",
        BWD_DQ,
        "    sum += BLOCK_M / 16 * K_TILES * 128;\n",
        "",
    ),
    Mutation(
        "bwd sm90 in turn: fragments of dS overwritten under the products before",
        BWD_DQ,
        "      if (part > 0)\n        wgmma_wait(1);\n",
        "",
    ),
    Mutation(
        "bwd sm90 in turn: fragments of dS overwritten under the latest products",
        BWD_DQ,
        "load_ds(ds[(part + 1) % 2], tile",
        "load_ds(ds[part % 2], tile",
    ),
    Mutation(
        "bwd sm90 in turn: fragments of dS from the wrong place",
        BWD_DQ,
        "_rs_trans(dq, ds[part % 2][i]",
        "_rs_trans(dq, ds[0][i]",
    ),
    Mutation(
        "bwd sm90 in turn: one consumer's keys of dQ",
        BWD_DQ,
        "part < PARTS; ++part",
        "part < PARTS / 2; ++part",
    ),
    Mutation(
        "bwd sm90 in turn: K of the first keys, always",
        BWD_DQ,
        "k + (part * DQ_STEPS + i) * 16 * 128 / 16",
        "k + i * 16 * 128 / 16",
    ),
    Mutation(
        "bwd sm90 in turn: the place of dS is handed back before its last part is read",
        BWD_DQ,
        "  for (int part = 0; part < PARTS; ++part) {\n    wgmma_fence();\n",
        "  for (int part = 0; part < PARTS; ++part) {\n    wgmma_fence();\n"
        "    if (part == 0) {\n      __syncwarp();\n"
        "      arrive_once(ds_empty(shared, turn));\n    }\n",
    ),
    Mutation(
        "bwd sm90 in turn: the place of dS is handed back by one lane for all",
        BWD_DQ,
        "  // The warp's lanes arrive and wait, so that one arrival stands for all.\n"
        "  __syncwarp();\n  arrive_once(ds_empty(shared, turn));\n",
        "  arrive_once(ds_empty(shared, turn));\n",
    ),
    # ---- sm90: dQ is added by the copy engine ----
    Mutation("bwd sm90: dQ is not fenced", BULK, "  fence_proxy_async();\n", ""),
    Mutation("bwd sm90: dQ is added before other lanes stored it", BULK, "  __syncwarp();\n", ""),
    Mutation("bwd sm90: dQ is not committed", BULK, "    bulk_commit();\n", ""),
    Mutation(
        "bwd sm90: the last dQ is not waited for",
        BWD_DQ,
        "// K has been read\n  wait_for_additions(0);\n",
        "// K has been read\n",
    ),
    Mutation("bwd sm90: one group of additions is left behind", BULK, "read(pending)", "read(1)"),
    Mutation(
        "bwd sm90: the place of dQ's columns is not waited for",
        BWD_DQ,
        "  wait_for_additions(${ 1 if hdim > 64 else 0 });\n",
        "",
    ),
    Mutation(
        "bwd sm90: the place of dQ's columns is waited for by one lane",
        BWD_DQ,
        "  wait_for_additions(${ 1 if hdim > 64 else 0 });\n  __syncwarp();\n",
        "  wait_for_additions(${ 1 if hdim > 64 else 0 });\n",
    ),
    Mutation(
        "bwd sm90: the last columns of dQ are not waited for",
        BWD_DQ,
        "// K has been read\n  wait_for_additions(0);\n",
        "// K has been read\n",
    ),
    Mutation(
        "bwd sm90: both parts of dQ's columns in one place",
        BWD_DQ,
        "shared, place + 8 * 512, dq",
        "shared, place, dq",
        0,
    ),
    Mutation("bwd sm90: a run of dQ is short", BULK, "tiles * 512)", "(tiles - 1) * 512)"),
    Mutation("bwd sm90: a run of dQ is long", BULK, "tiles * 512)", "(tiles + 1) * 512)"),
    Mutation(
        "bwd sm90: a run of dQ is dropped",
        BWD_DQ,
        "for (int warp = 0; warp < 4; ++warp)",
        "for (int warp = 0; warp < 3; ++warp)",
    ),
    Mutation(
        "bwd sm90: another warp's run of dQ",
        BWD_DQ,
        "begin_addition(sum, shared + place,",
        "begin_addition(sum, shared + DQ_OFFSET,",
    ),
    Mutation(
        "bwd sm90: the warps' places of dQ overlap",
        SM90,
        'DQ_WARP_BYTES = 16 * ${ "64" if halves else "HEAD_DIM" } * 4',
        'DQ_WARP_BYTES = 16 * ${ "64" if halves else "HEAD_DIM" } * 4 - 512',
    ),
    Mutation(
        "bwd sm90: a tile of dQ in another order",
        GRADIENT,
        "128 + sum_place(lane, i)]",
        "128 + lane * 4 + i]",
    ),
    Mutation(
        "bwd_dq sm90: K is not waited for",
        DQ_SM90,
        "    wait_for_phase(k_full(shared, stage.index), stage.parity);\n    start",
        "    start",
    ),
    Mutation(
        "bwd_dq sm90: dO is not waited for", DQ_SM90, "wait_for_phase(do_full(shared), 0)", ""
    ),
    Mutation(
        "bwd_dq sm90: no mask", DQ_SM90, "> key_unmasked", "> key_unmasked + BLOCK_M + BLOCK_N"
    ),
    Mutation(
        "bwd_dq sm90: delta of the first row", DQ_SM90, "args->delta[at]", "args->delta[at - row]"
    ),
    Mutation(
        "bwd_dq sm90: no barrier before dQ takes the place of Q",
        DQ_SM90,
        "  named_barrier_sync(1, CONSUMER_THREADS);\n  const int thread",
        "  const int thread",
    ),
    Mutation(
        "bwd_dq sm90: a step too few",
        DQ_SM90,
        "n < steps; ++n) {\n    float",
        "n < steps - 1; ++n) {\n    float",
    ),
    Mutation(
        "bwd_dq sm90: a consumer without rows is waited for",
        DQ_SM90,
        "4 * work.consumers",
        "4 * CONSUMERS",
    ),
    Mutation(
        "bwd_dq sm90: a consumer with fewer than 64 rows computes nothing",
        DQ_SM90,
        "ceil_div(args->seqlen_q - work.row_begin, 64)",
        "max(1, (args->seqlen_q - work.row_begin) / 64)",
    ),
]
