"""Faults in kernels whose thread blocks have runs over all sequences, for mutate.py."""

from __future__ import annotations

from mutations import COMBINE, Mutation

RING = "templates/attention/parts/key_ring.cu.j2"
APPEND_KEY = "include/attnpress/device/append_key.cuh"
RUNS = "templates/attention/flash_fwd_runs_sm80.cu.j2"
PARTS = "templates/attention/parts/runs.cu.j2"

KERNELS = [
    ("flash_fwd_split_hdim64_bf16_causal_paged_decode_runs_sm80", ""),
    ("flash_fwd_split_hdim64_fp16_ragged_decode_runs_sm80", ""),
    ("flash_fwd_split_hdim256_bf16_paged_decode_runs_sm80", ""),
    ("flash_fwd_split_hdim128_fp16_ragged_decode_runs_sm80", ""),
    ("flash_fwd_combine_hdim64_bf16_ragged_sm80", ""),
    ("flash_fwd_split_hdim64_fp16_ragged_decode_runs_append_sm80", ""),
    ("flash_fwd_split_hdim128_bf16_paged_decode_runs_append_sm80", ""),
]
"""Keys in pages, and in a row; rings that go on over the end of a sequence, and that do not; parts
that the combine kernel adds up, and thread blocks; new keys that are written on the way."""

MUTATIONS = [
    Mutation(
        "runs: lengths are not handed over",
        PARTS,
        "  // All threads arrive and wait: hands over key_counts.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "runs: what is left over is nobody's",
        PARTS,
        "run * shares.each + min(run, shares.longer)",
        "run * shares.each",
    ),
    Mutation(
        "runs: sequences without keys are passed by",
        PARTS,
        "begin < end || (blocks == 0 && begins)",
        "begin < end",
    ),
    Mutation(
        "runs: a warp's keys are counted from the first warp's",
        RUNS,
        "pipe->seqlen_k = part.keys - pipe->key_begin;",
        "pipe->seqlen_k = part.keys;",
    ),
    Mutation(
        "runs: sequences without keys have the ring's next key block",
        RUNS,
        "while (part.sequence >= 0 && part.blocks.begin >= part.blocks.end)",
        "while (false)",
    ),
    Mutation(
        "runs: parts take the place of a slab to come",
        RUNS,
        "pipe.slot == 0 ? STAGES - 1 : pipe.slot - 1",
        "pipe.slot == STAGES - 1 ? 0 : pipe.slot + 1",
    ),
    Mutation(
        "runs: a warp's part is stored before its slab was read",
        RUNS,
        "//% endif\n  ring_barrier();\n",
        "//% endif\n",
    ),
    Mutation(
        "runs: parts are added up before they are there",
        RUNS,
        "  // All threads arrive and wait: hands over the parts. Each thread then adds up 4 "
        "columns of a row.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "runs: rings are filled before the parts were read",
        RUNS,
        "  // All threads arrive and wait: the parts have been read, and the ring may be filled.\n"
        "  __syncthreads();\n",
        "",
    ),
    Mutation(
        "runs: the sink of a sequence of one part is forgotten",
        RUNS,
        "DROPOUT, !whole)",
        "DROPOUT, true)",
    ),
    Mutation(
        "runs: two parts of a run in one place",
        RUNS,
        "((begins ? args->runs : 0) + run) *",
        "run *",
    ),
    Mutation(
        "runs: a sequence that is not cut is added up",
        COMBINE,
        "    if (sequence < 0) // none begins there and goes on in others\n      return;\n",
        "",
    ),
    Mutation(
        "runs: the last part is left out",
        COMBINE,
        "(int)cut.y - run + 1",
        "(int)cut.y - run",
    ),
    Mutation(
        "runs: a sequence is added up before all of it is there",
        PARTS,
        "return expected == last;",
        "return true;",
    ),
    Mutation(
        "runs: nobody adds a sequence up",
        PARTS,
        "return expected == last;",
        "return false;",
    ),
    Mutation(
        "runs: a count is left",
        PARTS,
        "      next = 0;",
        "      next = expected + 1;",
    ),
    Mutation(
        "runs: whatever is there is a count",
        PARTS,
        "expected - ATTNPRESS_RUNS_COUNT < (uint64_t)parts",
        "expected > 0",
    ),
    Mutation(
        "runs: each run counts for itself",
        RUNS,
        "blockIdx.x + (cuts[threadIdx.x].first - run) * run_blocks",
        "blockIdx.x",
    ),
    Mutation(
        "runs: not all threads know of the other runs' parts",
        RUNS,
        "  // All threads arrive and wait: hands over which sequences are all there, and their "
        "parts.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "runs: a sequence begins a run early",
        PARTS,
        "begin_of_run(shares, first + 1) - before, blocks) == 0)",
        "begin_of_run(shares, first + 1) - before, blocks) < 0)",
        place=2,
    ),
    Mutation(
        "runs: all parts are sought where first ones lie",
        RUNS,
        "first_partial(args, cut.first + part, part == 0)",
        "first_partial(args, cut.first + part, true)",
    ),
    Mutation(
        "runs: the last part that a thread block adds up is left out",
        RUNS,
        "if (part < cut.parts) {",
        "if (part < cut.parts - 1) {",
    ),
    Mutation(
        "runs: the sum is not scaled to the next parts' maximum",
        RUNS,
        "total.sum *= rescale;",
        "",
    ),
    Mutation(
        "runs: the sink of a sequence that is cut is forgotten",
        RUNS,
        "head, DROPOUT, false)",
        "head, DROPOUT, true)",
    ),
    Mutation(
        "runs: lengths are what they were guessed to be",
        RUNS,
        "if (!key_count_alone || !guess_holds(&batch))",
        "if (!key_count_alone)",
    ),
    Mutation(
        "runs: the last of a lane's lengths is held to the guess alone",
        PARTS,
        "holds &= key_counts[b]",
        "holds = key_counts[b]",
    ),
    Mutation(
        "runs: lengths replace a guess that is being read",
        RUNS,
        "    // All threads arrive and wait: the guess has been read.\n    __syncthreads();\n",
        "",
    ),
    Mutation(
        "runs: a guess without the new keys",
        PARTS,
        "keys_by_count(ragged, used).count",
        "rows_used({0, ragged->rows_k}, used, 0).count",
    ),
    Mutation(
        "runs: rows of Q past the end",
        RUNS,
        "const bool there = m * 16 + half * 8 + lane / 4 < rows;",
        "const bool there = true;",
    ),
    Mutation(
        "append: rows of Q that are not there",
        RUNS,
        "    ((uint32_t *)q_rows)[i] = 0;\n",
        "    ((uint32_t *)q_rows)[0] = 0;\n",
    ),
    Mutation(
        "append: the new key is nobody's",
        RUNS,
        "ends && 0 <= new_key && new_key < RING_KEYS ?",
        "ends && new_key > RING_KEYS ?",
    ),
    Mutation(
        "append: V goes where K does",
        RING,
        "const bool together = pipe->batch->ragged.page_table_v == 0;",
        "const bool together = true;",
    ),
    Mutation(
        "append: Q of the next part is not handed over",
        RUNS,
        "  // All threads arrive and wait: hands over Q.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "append: Q stands a position behind",
        RUNS,
        "const Rotation rotation = rotation_at(&given->append, part->keys - 1);",
        "const Rotation rotation = rotation_at(&given->append, part->keys);",
    ),
    Mutation(
        "append: Q of the next part takes the place of what is read",
        RUNS,
        "  if (next->sequence >= 0)\n    load_query_words(words, all, next, first_head, heads);\n",
        "  if (next->sequence >= 0) {\n    load_query_words(words, all, next, first_head, heads);\n"
        "    store_query_words(words, all, next, heads);\n  }\n",
    ),
    Mutation(
        "append: the key stands a position behind",
        RUNS,
        "rotation_at(append, key)",
        "rotation_at(append, key + 1)",
    ),
    Mutation(
        "append: a row goes to a page that is not there",
        RUNS,
        "if (works && (uint32_t)entry < (uint32_t)append->entries && row",
        "if (works && row",
    ),
    Mutation(
        "append: keys without a position are written",
        RUNS,
        "(append->num_positions == 0 || key < append->num_positions)) {",
        "true) {",
    ),
    Mutation(
        "append: neighbours are rotated the other way round",
        APPEND_KEY,
        "rotate_pairs(cos, sin, 1, 1, first, first + 1);",
        "rotate_pairs(cos, sin, 1, 1, first + 1, first);",
    ),
    Mutation(
        "append: neighbours are rotated in all columns",
        APPEND_KEY,
        "  if (number * 4 >= rotation->rotary_dim)\n    return;\n",
        "",
    ),
]
