"""Faults in sm90's kernels whose clusters share splits, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

SHARED = "templates/attention/flash_fwd_shared_sm90.cu.j2"

KERNELS = [
    ("flash_fwd_split_hdim64_bf16_paged_decode_shared_sm90", "m8n48s4"),
    ("flash_fwd_split_hdim64_fp16_causal_ragged_decode_shared_sm90", "m8n32s6"),
]
"""Keys in pages, and in a row; a thread block has one key block of a split, and two."""

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
        "SPLITS = 4;",
        "SPLITS = 3;",
    ),
    Mutation(
        "shared splits: key blocks of the thread block beside it",
        SHARED,
        "own * SHARING + rank",
        "own * SHARING + (rank + 1) % SHARING",
    ),
    Mutation(
        "shared splits: scores go to the first split's thread blocks",
        SHARED,
        "cluster_address(target, first_rank + to)",
        "cluster_address(target, to)",
    ),
    Mutation(
        "shared splits: scores are not waited for",
        SHARED,
        "    wait_for_phase(barrier, 0);\n",
        "",
    ),
    Mutation(
        "shared splits: barriers are not waited for",
        SHARED,
        "  cluster_wait();\n  uint32_t q",
        "  uint32_t q",
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
        "  cp_async_wait(0);\n",
        "",
    ),
    Mutation(
        "shared splits: the reference of the last key block alone",
        SHARED,
        "for (int block = 0; block <= warp; ++block)",
        "for (int block = warp; block <= warp; ++block)",
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
        "{out[0] * end.normalize, out[1] * end.normalize}",
        "{out[0], out[1] * end.normalize}",
    ),
    Mutation(
        "shared splits: a part counts as much as the first",
        SHARED,
        "factors = weigh_part(&sum, part_lse[i][lane / 4].x);",
        "factors = weigh_part(&sum, end.lse);",
    ),
    Mutation(
        "shared splits: rows without keys are not stored",
        SHARED,
        "if (place.split > 0 || warp >= COLUMNS / 8)",
        "if (place.split >= 0 || warp >= COLUMNS / 8)",
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
        "  if (!alone) {\n    of = rows_of_sequence",
        "  of = rows_of_sequence(fwd, ragged, place.sequence);\n"
        "  if (false) {\n    of = rows_of_sequence",
    ),
    Mutation(
        "shared splits: the length is what it was guessed to be",
        SHARED,
        "    if (of.keys.count == copied)\n      break;\n",
        "    break;\n",
    ),
    Mutation(
        "shared splits: keys are copied again while the first copies are under way",
        SHARED,
        "      break;\n    cp_async_wait(0);\n",
        "      break;\n",
    ),
]
