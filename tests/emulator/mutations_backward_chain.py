"""Faults where a thread block passes dQ of a sequence on from key block to key block."""

from __future__ import annotations

from mutations import BWD_DQ, Mutation

CHAIN = "include/attnpress/device/gradient_chain.cuh"
SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
WALK = "templates/attention/parts/key_walk_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim104_fp16_causal_ragged_runs_sm90", "m64n128s2d8"),
    ("flash_bwd_hdim128_bf16_causal_ragged_runs_sm90", "m64n128s2d8"),
    ("flash_bwd_hdim120_bf16_ragged_runs_sm90", "m64n128s2d8"),
]
"""Halves of dQ's columns of one width, and of two; rows that all see all keys."""


def of(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"bwd chains: {name}", file, old, new)


BEGINS = "work->begins = seqlen_k <= direct_keys && work->key_begin == 0;"
NEXT_ROWS = "first_row_of(next, seqlen_q, seqlen_k)"
UNIT_END = "at->seqlen_k <= batch->direct_keys ? at->seqlen_k : work->key_begin"
WAIT = "      bulk_wait_written(); // of the key block before\n"

MUTATIONS = [
    # ---- What a thread block takes ----
    of(
        "the unit's last key block is dropped",
        WALK,
        "last->key_begin + BLOCK_N < last->unit_end",
        "last->key_begin + 2 * BLOCK_N < last->unit_end",
    ),
    of(
        "a key block behind the unit's last",
        WALK,
        "last->key_begin + BLOCK_N < last->unit_end",
        "last->key_begin < last->unit_end",
    ),
    of("every unit ends where the sequence does", WALK, UNIT_END, "at->seqlen_k"),
    of("every unit has one key block", WALK, UNIT_END, "work->key_begin"),
    of("the same key block again", WALK, "  work->key_begin += BLOCK_N;\n", ""),
    of(
        "the walk of the key block before",
        WALK,
        "  work->row_begin = first_row_of(work->key_begin, at->seqlen_q, at->seqlen_k);\n",
        "",
    ),
    of(
        "the steps of the key block before",
        WALK,
        "  work->steps = (work->row_end - work->row_begin) / BLOCK_M * work->group;\n",
        "",
    ),
    of(
        "where the sequence lies is in the place of another",
        WALK,
        "  work->at = at;\n  work->key_begin += BLOCK_N;\n",
        "  work->key_begin += BLOCK_N;\n",
    ),
    of(
        "nobody waits for the words of others",
        WALK,
        "  __syncwarp(); // the first lane knows of what the others have copied\n",
        "",
    ),
    of(
        "the sum of another thread block",
        WALK,
        "work->sum_head = blockIdx.x * work->group;",
        "work->sum_head = 0 * work->group;",
    ),
    of("the sum is where the sequence's would be", WALK, "    at->sum_tile = 0;\n", ""),
    # ---- What is complete ----
    of("a key block too early", WALK, "next >= seqlen_k\n", "next + BLOCK_N >= seqlen_k\n"),
    of("a key block too late", WALK, "next >= seqlen_k\n", "next > seqlen_k\n"),
    of(
        "rows a step too early",
        WALK,
        NEXT_ROWS,
        "first_row_of(next + BLOCK_M, seqlen_q, seqlen_k)",
    ),
    of("rows with the last key block alone", WALK, NEXT_ROWS, "0"),
    of(
        "walks under the full mask begin as under the causal one",
        WALK,
        "return CAUSAL ? max(0, key - seqlen_k + seqlen_q) / BLOCK_M * BLOCK_M : 0;",
        "return max(0, key - seqlen_k + seqlen_q) / BLOCK_M * BLOCK_M;",
    ),
    of(
        "rows of a sequence of several units",
        WALK,
        "work->whole_end = seqlen_k > direct_keys ? 0",
        "work->whole_end = seqlen_k > 2 * direct_keys ? 0",
    ),
    of(
        "a longer sequence begins with nothing",
        WALK,
        BEGINS,
        "work->begins = work->key_begin == 0;",
    ),
    of("every key block begins", WALK, BEGINS, "work->begins = seqlen_k <= direct_keys;"),
    of("none begins", WALK, BEGINS, "work->begins = 0;"),
    of(
        "unseen rows are zeroed by each key block",
        SM90,
        "if (work->begins)\n    clear_unseen_rows",
        "if (work->unit_end > 0)\n    clear_unseen_rows",
    ),
    # ---- The way there and back ----
    of("the first part is added", CHAIN, "  if (begins)\n", "  if (false)\n"),
    of("later parts are stored", CHAIN, "  if (begins)\n", "  if (true)\n"),
    of("nobody waits until parts are written", BWD_DQ, WAIT, "      ;\n"),
    of("parts have been read, not written", BWD_DQ, WAIT, "      bulk_wait_read(0);\n"),
    of(
        "what was left is not brought",
        BWD_DQ,
        "if (row < left_end) {",
        "if (false) {",
    ),
    of(
        "row tiles behind the last come as well",
        BWD_DQ,
        "        if (row + warp * 16 < args->seqlen_q)\n          bulk_load(",
        "          bulk_load(",
    ),
    of(
        "a row tile less is awaited",
        BWD_DQ,
        "min(4, ceil_div(args->seqlen_q - row, 16)) * tiles",
        "(min(4, ceil_div(args->seqlen_q - row, 16)) - 1) * tiles",
    ),
    of(
        "columns of the other half come",
        BWD_DQ,
        "bulk_load(source + warp * DQ_WARP_BYTES, sum + (warp * K_TILES + first) * 128",
        "bulk_load(source + warp * DQ_WARP_BYTES, sum + warp * K_TILES * 128",
    ),
    of(
        "what was left is not added",
        BWD_DQ,
        "  if (work->key_begin > 0) {\n    add_left(",
        "  if (work->key_begin < 0) {\n    add_left(",
    ),
    of(
        "what was left where nothing was",
        BWD_DQ,
        "  if (work->key_begin > 0) {\n    add_left(",
        "  if (work->key_begin >= 0) {\n    add_left(",
    ),
    of(
        "the place is written while others read it",
        BWD_DQ,
        "    // The warp's lanes arrive and wait: and the place is free.\n    __syncwarp();\n",
        "",
    ),
    of(
        "rows that are not complete are stored",
        BWD_DQ,
        '${ "step.row < work->whole_end" if chains',
        '${ "true" if chains',
    ),
    of(
        "complete rows are added up as well",
        BWD_DQ,
        '${ "row >= whole_end && " if chains',
        '${ "" if chains',
    ),
    of(
        "the place comes a step too late",
        SM90,
        'turn${ " ^ 1" if chains else "" }, work,\n                   step_before',
        "turn, work,\n                   step_before",
    ),
    of(
        "the place of the last step comes a step too early",
        SM90,
        'turn${ "" if chains else " ^ 1" }',
        "turn ^ 1",
    ),
    of(
        "a lane's first pair of what was left",
        CHAIN,
        "d[tile * 4 + i] += left[tile * 128 + sum_place(lane, i)]",
        "d[tile * 4 + i] += left[tile * 128 + sum_place(lane, i & 1)]",
    ),
]
