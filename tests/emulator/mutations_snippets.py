"""Faults in what a caller's snippet does to scores and masks, for mutate.py. The emulator puts the
snippets' texts behind the sources."""

from __future__ import annotations

from mutations import DENSE_PRODUCER, FWD, FWD_SCORES, FWD_SM90, FWD_WALK, Mutation

HEADER = "include/attnpress/device/score_mod.cuh"
TEXT = "include/attnpress/device/score_text.cuh"
MAP = "templates/attention/flash_fwd_map.cu.j2"
PARTS = "templates/attention/parts/"
RANGE = "include/attnpress/device/snippet_range.cuh"
PASS = PARTS + "snippet.cu.j2"
BLOCK = PARTS + "key_block.cu.j2"
RING = PARTS + "key_ring.cu.j2"

KERNELS = [
    ("flash_fwd_map_hdim8_bf16_sm80", ""),
    ("flash_fwd_hdim64_bf16_modscore_modmask_sm80", ""),
    ("flash_fwd_hdim72_fp16_causal_modscore_modmask_sm90", "m128n80s2"),
    ("flash_fwd_split_hdim64_fp16_softcap_modscore_modmask_decode_sm80", ""),
    ("flash_fwd_hdim40_bf16_window_modscore_modmask_sm90", "m192n48s3"),
    ("flash_fwd_hdim64_bf16_modmask_sm90", "m128n48s2"),
    ("flash_fwd_hdim72_fp16_causal_modmask_sm90", "m128n176s2"),
]
"""Scores and masks on both architectures; warps with keys of their own; one to three consumers;
masks whose map has bits, in one word of a row and two."""

MUTATIONS = [
    Mutation("snippet: before the scale", PASS, "*one * mod->natural_per_unit", "*one"),
    Mutation(
        "snippet: its score is a pair late",
        PASS,
        "row, key + i / 2 * 8",
        "row, key + 8 + i / 2 * 8",
    ),
    Mutation(
        "snippet: its mask takes out what it keeps",
        PASS,
        "if (!(seen[half *",
        "if ((seen[half *",
    ),
    Mutation(
        "snippet: the mask of the other row",
        PASS,
        "snippet_keeps(mod, rows[i / 2]",
        "snippet_keeps(mod, rows[0]",
    ),
    Mutation(
        "snippet: its mask is a key late",
        PASS,
        "rows[i / 2], key +",
        "rows[i / 2], key + 1 +",
    ),
    Mutation(
        "snippet: the query of a packed row",
        BLOCK,
        "snippet_row(args, place->batch, place->first_head + head, position)",
        "snippet_row(args, place->batch, place->first_head + head,"
        " position * args->heads_per_tile)",
    ),
    Mutation(
        "snippet: the head of a packed row",
        BLOCK,
        "snippet_row(args, place->batch, place->first_head + head, position)",
        "snippet_row(args, place->batch, place->first_head, position)",
    ),
    Mutation(
        "snippet, sm90: the query of a packed row",
        FWD_WALK,
        "snippet_row(fwd, walk->unit.batch, head, position_begin + row_position)",
        "snippet_row(fwd, walk->unit.batch, head, position_begin + row + half * 8)",
    ),
    Mutation(
        "snippet: the key head is the query head",
        HEADER,
        "head, key_head(args, head), min",
        "head, head, min",
    ),
    Mutation(
        "snippet: indices are not clamped",
        TEXT,
        "clampi(index, 0, from->extent[dim] - 1)",
        "index",
    ),
    Mutation(
        "snippet: the last index is beyond", TEXT, "from->extent[dim] - 1", "from->extent[dim]"
    ),
    # ---- The map ----
    Mutation(
        "map: a tile late",
        HEADER,
        "map[n / 16] >> n % 16 * 2",
        "map[(n + 1) / 16] >> (n + 1) % 16 * 2",
    ),
    Mutation(
        "map: inverted, all is some taken out",
        MAP,
        "SOME_SCORES : ALL_SCORES : NO_SCORES;",
        "SOME_SCORES : NO_SCORES : ALL_SCORES;",
    ),
    Mutation(
        "map: what is some is all",
        MAP,
        "found.out ? SOME_SCORES : ALL_SCORES",
        "found.out ? ALL_SCORES : ALL_SCORES",
    ),
    Mutation(
        "range: what may be equal is less",
        RANGE,
        "SnippetTruth(a.low < b.high, a.high >= b.low)",
        "SnippetTruth(a.low < b.high, a.high > b.low)",
    ),
    Mutation(
        "range: one equal end is enough",
        RANGE,
        "a.low != a.high || b.low != b.high || a.low != b.low",
        "a.low != b.low",
    ),
    Mutation(
        "range: both are false where one may be",
        RANGE,
        "SnippetTruth(a.may && b.may, a.may_not || b.may_not)",
        "SnippetTruth(a.may && b.may, a.may_not && b.may_not)",
    ),
    Mutation(
        "range: one is true where both may be",
        RANGE,
        "SnippetTruth(a.may || b.may, a.may_not && b.may_not)",
        "SnippetTruth(a.may && b.may, a.may_not && b.may_not)",
    ),
    Mutation(
        "range: a remainder rises with its number",
        RANGE,
        "if (a.low >= 0 && a.low / b.low == a.high / b.low)",
        "if (a.low >= 0)",
    ),
    Mutation("range: some of a buffer", RANGE, "element += 32", "element += 64"),
    Mutation(
        "range: lanes keep what they found", RANGE, "step < 32; step *= 2", "step < 2; step *= 2"
    ),
    Mutation("range: of the first query", MAP, "{first, last}}", "first}"),
    Mutation("range: of the first head", MAP, "row.h + args->heads - 1}", "row.h}"),
    Mutation("range: of the first key", MAP, "{key_begin, key_end - 1}", "key_begin"),
    # ---- Units ----
    Mutation(
        "map, sm90: the ticket is not set to 0",
        MAP,
        "    *mod->ticket = 0;\n",
        "    ;\n",
    ),
    Mutation(
        "map, sm90: a ticket is taken twice",
        DENSE_PRODUCER,
        "atomic_increment(snippet_args_sm90(args)->ticket)",
        "(0 * atomic_increment(snippet_args_sm90(args)->ticket))",
    ),
    Mutation(
        "map, sm90: the last units are nobody's",
        DENSE_PRODUCER,
        "divide(args->rounds, &args->group_rounds) * args->group_units",
        "args->group_units",
    ),
    Mutation(
        "map, sm90: a place is not waited for",
        DENSE_PRODUCER,
        "      wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n"
        "      units[place.index] = unit;",
        "      units[place.index] = unit;",
    ),
    Mutation(
        "map, sm90: one reader too few",
        FWD_SM90,
        "4 * CONSUMERS + 1);",
        "4 * CONSUMERS);",
    ),
    Mutation("map: its words are a block off", MAP, "<< 2 * i;", "<< 2 * (i ^ 1);"),
    Mutation(
        "map: only the first positions count",
        MAP,
        "position <= last && !(",
        "position == first && !(",
    ),
    Mutation(
        "map: one position of those asked at once", MAP, "min(position + i, last)", "position"
    ),
    Mutation(
        "map: only the first head counts",
        MAP,
        "head < first_head + args->heads",
        "head <= first_head",
    ),
    Mutation("map: only the first keys count", MAP, "key += 32 * KEYS", "key += 64 * KEYS"),
    Mutation(
        "map: keys that the forward kernel's mask hides count",
        MAP,
        "all.begin <= key && key + 32 * KEYS",
        "key + 32 * KEYS",
    ),
    Mutation(
        "map: the head of the first tile",
        MAP,
        "tile_head * fwd->heads_per_tile, first, last",
        "0, first, last",
    ),
    Mutation(
        "map: keys past the block",
        MAP,
        "end = min(row.key_end, key_end)",
        "end = min(row.key_end, key_end - 1)",
    ),
    Mutation(
        "map: one warp's part is lost",
        MAP,
        "int warp = 0; warp < WARPS",
        "int warp = 2; warp < WARPS",
    ),
    Mutation("map: no barrier before it is put together", MAP, "  __syncthreads();\n", ""),
    Mutation(
        "map: the block before is found too far on",
        HEADER,
        "2 * (first + 16 - end)",
        "2 * (first + 15 - end)",
    ),
    Mutation(
        "map: the first block is skipped",
        HEADER,
        "2 * (begin - first);",
        "2 * (begin - first + 1);",
    ),
    Mutation("map: the walk stays in its word", HEADER, "    end = first;\n", "    end = begin;\n"),
    Mutation(
        "map: K walks on by one block",
        RING,
        "pipe->k -= (n - next) * (BLOCK_N * pipe->k_row_stride);",
        "pipe->k -= BLOCK_N * pipe->k_row_stride;",
    ),
    Mutation(
        "map: V walks on by one block",
        RING,
        "pipe->v -= (n - next) * (BLOCK_N * pipe->v_row_stride);",
        "pipe->v -= BLOCK_N * pipe->v_row_stride;",
    ),
    Mutation(
        "map: of the first row block",
        FWD,
        "work.row_begin / BLOCK_M);",
        "0);",
    ),
    Mutation(
        "map, sm90: of the first row block",
        FWD_SM90,
        "unit->position_begin / positions);",
        "0);",
    ),
    Mutation(
        "map, sm90: K of every block is loaded",
        DENSE_PRODUCER,
        "const int next = block_after(&unit, n);",
        "const int next = n - 1;",
    ),
    Mutation(
        "map, sm90: the mask is never asked",
        FWD_SCORES,
        "  if (state != ALL_SCORES)\n    hide_unseen",
        "  if (state == NO_SCORES)\n    hide_unseen",
    ),
    Mutation(
        "map: the mask is never asked",
        BLOCK,
        "tile_state(place->map, n) != ALL_SCORES",
        "tile_state(place->map, n) == NO_SCORES",
    ),
    # ---- Bits ----
    Mutation("bits: of the last block", FWD_SM90, "known_behind(map, walk->n) ? 1 : 0;", "0;"),
    Mutation(
        "bits: a block is behind itself",
        HEADER,
        "0xfffffffc << n % 16 * 2",
        "0xffffffff << n % 16 * 2",
    ),
    Mutation(
        "bits: of the first row block", FWD_SM90, "map - mod->map + walk->n / 16;", "walk->n / 16;"
    ),
    Mutation(
        "bits: of the first consumer", FWD_SM90, "(threadIdx.x - 128) *", "threadIdx.x % 128 *"
    ),
    Mutation("bits: both rows are the first", MAP, "/ 4 + i % 2 * 8;", "/ 4;"),
    Mutation("bits: consumers share their rows", MAP, "first + thread / 128 * positions", "first"),
    Mutation(
        "bits: the rows of packed heads", MAP, "positions + row / heads);", "positions + row);"
    ),
    Mutation("bits: a key late", MAP, "thread % 4 * 2 + j;", "thread % 4 * 2 + j + 1;"),
    Mutation(
        "bits: of the word's first block", MAP, "first, word * 16 + i);", "first, word * 16);"
    ),
    Mutation("bits: two tiles are one", MAP, "<< tile * 2 + j;", "<< tile / 2 * 2 + j;"),
    Mutation(
        "bits: the words of a row are one",
        MAP,
        "bits[i * words + word]",
        "bits[i * words]",
        harmless="no kernel with a mask of a snippet has a tile of more than 128 keys",
    ),
    Mutation(
        "bits: row blocks share theirs", MAP, "index * ATTNPRESS_MOD_BITS_BLOCKS", "0 * index"
    ),
    Mutation("bits: blocks share theirs", MAP, "++place, bits += words)", "++place)"),
]
