"""Faults in sm90's kernels whose clusters share splits, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

SHARED = "templates/attention/flash_fwd_shared_sm90.cu.j2"

KERNELS = [
    ("flash_fwd_split_hdim64_bf16_paged_decode_shared_sm90", "m8n48s4"),
    ("flash_fwd_split_hdim64_fp16_causal_ragged_decode_shared_sm90", "m8n32s6"),
    ("flash_fwd_split_hdim64_bf16_ragged_decode_pairs_sm90", "m8n32s6"),
]
"""Keys in pages, and in a row; a thread block has one key block of a split, two, and three."""

MUTATIONS = [
    Mutation(
        "shared splits: P takes the place of V",
        SHARED,
        "P_OFFSET = K_OFFSET;",
        "P_OFFSET = V_OFFSET;",
    ),
    Mutation(
        "shared splits: room for the parts of three",
        SHARED,
        "SPLITS = 16 / SHARING;",
        "SPLITS = 16 / SHARING - 1;",
    ),
    Mutation(
        "shared splits: two thread blocks are sent what is outermost twice",
        SHARED,
        "      if (lane % 4 < SHARING)\n        send_8_cluster",
        "      send_8_cluster",
    ),
    Mutation(
        "shared splits: key blocks of the thread block beside it",
        SHARED,
        "const int n = first_block + own * SHARING + rank;",
        "const int n = first_block + own * SHARING + (rank + 1) % SHARING;",
    ),
    Mutation(
        "shared splits: P goes to the first split's thread blocks",
        SHARED,
        "const int to = first_rank + (rank + i) % SHARING;",
        "const int to = (rank + i) % SHARING;",
    ),
    Mutation(
        "shared splits: what is outermost is not waited for",
        SHARED,
        "  wait_for_phase(all_outermost, 0);\n",
        "",
    ),
    Mutation(
        "shared splits: P of other thread blocks is not waited for",
        SHARED,
        "  wait_for_phase(all_p, 0);\n",
        "",
    ),
    Mutation(
        "shared splits: sums are not waited for",
        SHARED,
        "  wait_for_phase(shared_address(&sums_barrier), 0);\n",
        "",
    ),
    Mutation(
        "shared splits: what is outermost of one warp's scores",
        SHARED,
        "i < BLOCK_WARPS; ++i) {\n        const Outermost",
        "i < 1; ++i) {\n        const Outermost",
    ),
    Mutation(
        "shared splits: warps do not wait for each other's outermost scores",
        SHARED,
        "    named_barrier_sync(1 + own, 32 * BLOCK_WARPS);\n",
        "",
    ),
    Mutation(
        "shared splits: references do not follow",
        SHARED,
        "(maximum - *reference) * scale_log2 <= 8.0f)\n    return rescale;",
        "maximum < INF)\n    return rescale;",
    ),
    Mutation(
        "shared splits: sums of P that is rounded",
        SHARED,
        "sum.x += exact.w;",
        "sum.x += exact.z;",
    ),
    Mutation(
        "shared splits: sums before of both rows by one's factor",
        SHARED,
        "rescales[block][lane % 4 * 2 + 1];",
        "rescales[block][lane % 4 * 2];",
    ),
    Mutation(
        "shared splits: barriers are not waited for",
        SHARED,
        "  cluster_wait();\n  const float scale_log2",
        "  const float scale_log2",
    ),
    Mutation(
        "shared splits: Q and K are not waited for",
        SHARED,
        "  cp_async_wait(1);\n",
        "",
    ),
    Mutation(
        "shared splits: V is not waited for",
        SHARED,
        "  cp_async_wait(0);\n  // All threads arrive and wait: hands over own P",
        "  // All threads arrive and wait: hands over own P",
    ),
    Mutation(
        "shared splits: the reference of the last key block alone",
        SHARED,
        "for (int block = 0; block <= index; ++block)",
        "for (int block = index; block <= index; ++block)",
    ),
    Mutation(
        "shared splits: keys past the end are not masked",
        SHARED,
        "keys_of_all(first_row, last_row).end)",
        "0x7fffffff)",
    ),
    Mutation(
        "shared splits: parts are not waited for",
        SHARED,
        "    wait_for_phase(all_parts, 0);\n",
        "    ;\n",
    ),
    Mutation(
        "shared splits: parts are not normalised",
        SHARED,
        "{out[0] * normalize.x, ",
        "{out[0], ",
    ),
    Mutation(
        "shared splits: a part counts as much as the first",
        SHARED,
        "weigh_part(&sum, part_lse[i - 1][row].x);",
        "weigh_part(&sum, end.lse);",
    ),
    Mutation(
        "shared splits: lse of parts is not waited for",
        SHARED,
        "      wait_for_phase(shared_address(&lse_barrier), 0);\n",
        "      ;\n",
    ),
    Mutation(
        "shared splits: what ends rows is not waited for",
        SHARED,
        "  wait_for_phase(shared_address(&ends_barrier), 0);\n",
        "",
    ),
    Mutation(
        "shared splits: what ends rows is handed over before all lanes have found it",
        SHARED,
        "  __syncwarp();\n  if (lane == 0)\n    mbarrier_arrive(shared_address(&ends",
        "  if (lane == 0)\n    mbarrier_arrive(shared_address(&ends",
    ),
    Mutation(
        "shared splits: the sum is ended as the first part",
        SHARED,
        "of_own_rows(sum_normalizers)",
        "of_own_rows(normalizers)",
    ),
    Mutation(
        "shared splits: parts count what the next row's do",
        SHARED,
        "(const float4 *)&part_factors[i][lane % 4 * 2]",
        "(const float4 *)&part_factors[i][(lane + 1) % 4 * 2]",
    ),
    Mutation(
        "shared splits: each thread block of a split stores lse",
        SHARED,
        "lse, head, valid && rank == 0);",
        "lse, head, valid);",
    ),
    Mutation(
        "shared splits: rows without keys are not stored",
        SHARED,
        "if (place.split > 0 || warp >= O_WARPS)",
        "if (place.split >= 0 || warp >= O_WARPS)",
    ),
    Mutation(
        "shared splits: row blocks begin at the first position",
        SHARED,
        "(blocks - sequence * row_blocks) * args->warpgroup_positions;",
        "0;",
    ),
    Mutation(
        "shared splits: heads of another row",
        SHARED,
        "const int head = (place.tile_head - row_position) * fwd->heads_per_tile + lane / 4;",
        "const int head = place.tile_head * fwd->heads_per_tile;",
    ),
    Mutation(
        "shared splits: entries of the table by the bound, whatever else says where keys lie",
        SHARED,
        "    pages = {ragged->page_table + first_page",
        "    Pages others = {ragged->page_table + first_page",
    ),
    Mutation(
        "shared splits: the length is what it was guessed to be",
        SHARED,
        "    if (of.keys.count == seqlen_k)\n      break;\n",
        "    break;\n",
    ),
    Mutation(
        "shared splits: keys are copied again while the first copies are under way",
        SHARED,
        "      break;\n    cp_async_wait(0);\n",
        "      break;\n",
    ),
    Mutation(
        "shared splits: the sum of the last key block is left out",
        SHARED,
        "    if (i < count) {\n",
        "    if (i + 1 < count) {\n",
    ),
    Mutation(
        "shared splits: sums of key blocks that are not there count",
        SHARED,
        "    if (i < count)\n      row_sum = row_sum * factor",
        "    row_sum = row_sum * factor",
    ),
]
