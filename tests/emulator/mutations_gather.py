"""Faults in how sm90's kernels gather keys in pages without boxes, for mutate.py."""

from __future__ import annotations

from mutations import GATHER_KEYS, Mutation

PRODUCER = "templates/attention/parts/ragged_producer.cu.j2"
FORWARD = "templates/attention/flash_fwd_sm90.cu.j2"

KERNELS = [
    ("flash_fwd_split_hdim72v136_fp16_paged_decode_sm90", "m8n48s2"),
    ("flash_fwd_split_hdim72_bf16_causal_paged_ready_decode_sm90", "m8n48s3"),
    ("flash_fwd_split_hdim128_fp16_paged_ready_sm90", "m128n80s2"),
    ("flash_fwd_hdim64_bf16_causal_paged_sm90", "m128n96s3"),
]
"""Slabs apart, the last one not whole, and slabs together; lanes that look up as many keys, or
not; entries by copies, and in registers; two and four warps; splits, and none."""

MUTATIONS = [
    Mutation(
        "gather: the first of V's warps has keys of K",
        FORWARD,
        "warp < ${ 8 + gather_parts });",
        "warp < ${ 9 + gather_parts });",
    ),
    Mutation(
        "gather: V's warps have each other's keys",
        FORWARD,
        "warp - 8 : warp - ${ 7 + gather_parts };",
        "warp - 8 : warp - ${ 8 + gather_parts };",
    ),
    Mutation(
        "gather: a warp that gathers hands over V",
        FORWARD,
        "warp == ${ 7 + 2 * gather_parts })\n      pass_on",
        "warp == ${ 6 + 2 * gather_parts })\n      pass_on",
    ),
    Mutation(
        "gather: numbers that are no page's",
        GATHER_KEYS,
        "clamped_page(ragged, entry) *",
        "entry *",
    ),
    Mutation(
        "gather: products may not see what was copied of K",
        PRODUCER,
        "      fence_proxy_async();\n      arrive_once(k_full",
        "      arrive_once(k_full",
    ),
    Mutation(
        "gather: products may not see what was copied of V",
        PRODUCER,
        "      fence_proxy_async();\n      arrive_once(v_full(shared, stage.index));",
        "      arrive_once(v_full(shared, stage.index));",
    ),
    Mutation(
        "gather: K is handed over while it is under way",
        PRODUCER,
        "      wait_for_phase(k_loaded(stage.index), stage.parity);\n",
        "",
    ),
    Mutation(
        "gather: V is handed over while it is under way",
        PRODUCER,
        "      wait_for_phase(v_loaded(stage.index), stage.parity);\n",
        "",
    ),
    Mutation(
        "gather: space is overwritten before it is handed back",
        GATHER_KEYS,
        "  wait_for_phase(empty, parity);\n//% if one_sequence\n",
        "//% if one_sequence\n",
    ),
    Mutation(
        "gather: entries are read while they are under way",
        GATHER_KEYS,
        "  wait_for_phase(entries_full(gathering->place.index), gathering->place.parity);\n",
        "",
    ),
    Mutation(
        "gather: entries are handed back before all lanes have read them",
        GATHER_KEYS,
        "  __syncwarp();\n  arrive_once(entries_empty",
        "  arrive_once(entries_empty",
    ),
    Mutation(
        "gather: entries are overwritten before they are read",
        PRODUCER,
        "      wait_for_phase(entries_empty(entry.index), entry.parity ^ 1);\n",
        "",
    ),
    Mutation(
        "gather: entries of the key block before",
        PRODUCER,
        "place_of_key(pages, ragged, n * BLOCK_N + key).page;",
        "place_of_key(pages, ragged, (n + 1) * BLOCK_N + key).page;",
    ),
    Mutation("gather: no swizzle", GATHER_KEYS, "(chunk ^ row) * 16;", "chunk * 16;"),
    Mutation(
        "gather: the swizzle of every second four keys", GATHER_KEYS, "(to ^ half * 64)", "to"
    ),
    Mutation("gather: keys of the first half twice", GATHER_KEYS, "+ half * 4 + row)", "+ row)"),
    Mutation(
        "gather: rows of another warp's keys",
        GATHER_KEYS,
        "const int place = (i * 4 + group) * GATHER_PARTS + gathering->part;",
        "const int place = (i * 4 + group) * GATHER_PARTS + GATHER_PARTS - 1 - gathering->part;",
    ),
    Mutation(
        "gather: a page of the key block before",
        GATHER_KEYS,
        "max(key - BLOCK_N, 0),\n",
        "key,\n",
    ),
    Mutation(
        "gather: columns past the head dim are another head's",
        GATHER_KEYS,
        "slab * 64 + chunk * 8 < columns ? 16 : 0",
        "true ? 16 : 0",
    ),
    Mutation(
        "gather: V by K's entries",
        GATHER_KEYS,
        "[of_values][",
        "[0][",
    ),
    Mutation(
        "gather: V by K's table",
        GATHER_KEYS,
        "of_values ? ragged->page_table_v : 0);",
        "0);",
    ),
    Mutation(
        "gather: the first V by K's table",
        PRODUCER,
        "                    ragged_args(args)->ragged.page_table_v);\n",
        "                    0);\n",
    ),
    Mutation(
        "gather: Q of few rows by the place of the unit before",
        PRODUCER,
        "        load_q(args, shared, q_turn, unit);\n",
        "        load_q(args, shared, q_turn & ~1u, unit);\n",
        place=2,
    ),
    Mutation(
        "one sequence: the length is what it was guessed to be",
        PRODUCER,
        "bool holds = guess->seqlen_k == seqlen_k;",
        "bool holds = true;",
    ),
    Mutation(
        "one sequence: entries are what they were guessed to be",
        PRODUCER,
        "holds &= guess->entries[place][i] == *entry_of_whole(args, first, place, i);",
        "holds &= true;",
    ),
    Mutation(
        "one sequence: the guess of a lane alone is held to what is there",
        PRODUCER,
        "return __ballot_sync(0xffffffff, !holds) == 0;",
        "return __shfl_sync(0xffffffff, (int)holds, 0) != 0;",
    ),
    Mutation(
        "one sequence: a wrong guess is computed again in its place",
        PRODUCER,
        "Stage place = {guess->seqlen_k >= 0 ? 1 : 0, 0};",
        "Stage place = {0, 0};",
    ),
    Mutation(
        "one sequence: a unit without keys counts as guessed",
        PRODUCER,
        "there ? seqlen_k : -1",
        "seqlen_k",
    ),
    Mutation(
        "one sequence: entries of a whole split where it is not",
        PRODUCER,
        "entries_too && guess.seqlen_k >= (first.split + 1) * fixed * BLOCK_N;",
        "entries_too && there;",
    ),
    Mutation(
        "one sequence: guessed entries of the key block before",
        PRODUCER,
        "ragged->fixed_split_blocks - 1 - place;",
        "ragged->fixed_split_blocks - 2 - place;",
    ),
    Mutation(
        "one sequence: guessed entries are asked for again",
        PRODUCER,
        "      n -= count;\n",
        "",
    ),
    Mutation(
        "one sequence: boxes by K's entries of the key block behind",
        PRODUCER,
        "entries[place][0][min(key, BLOCK_N - 1)]",
        "entries[max(place - 1, 0)][0][min(key, BLOCK_N - 1)]",
    ),
    Mutation(
        "one sequence: boxes may not see the guessed entries",
        PRODUCER,
        "  __syncwarp();\n//% endif\n  if (lane == 0 && there)",
        "//% endif\n  if (lane == 0 && there)",
    ),
    Mutation(
        "few rows: keys are waited for that are there, in the phase before",
        PRODUCER,
        "full + 8 * arrivals->stage.index, arrivals->stage.parity);",
        "full + 8 * arrivals->stage.index, arrivals->stage.parity ^ 1);",
    ),
    Mutation(
        "few rows: the key block that is waited for is always the first",
        PRODUCER,
        "  arrivals->stage = next_stage(arrivals->stage, STAGES);\n",
        "",
    ),
]
