"""Single faults in ragged backward kernels of sm90 whose thread blocks share a group."""

from __future__ import annotations

from mutations import Mutation

WALK = "templates/attention/parts/key_walk_sm90.cu.j2"
SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
EXCHANGE = "templates/attention/flash_bwd_exchange_sm90.cu.j2"
CONVERT = "templates/attention/flash_bwd_convert.cu.j2"

KERNELS = [
    ("flash_bwd_convert_hdim72_bf16_ragged_sm80", ""),
    ("flash_bwd_hdim128_bf16_causal_ragged_sm90", ""),
    ("flash_bwd_hdim192v128_bf16_ragged_sm90", ""),
]


def of(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"bwd parts of sequences: {name}", file, old, new)


MUTATIONS = [
    of(
        "as many heads each",
        WALK,
        "group = (part + 1) * all / parts - begin",
        "group = all / parts",
    ),
    of("each has the whole group", WALK, "group = (part + 1) * all / parts - begin", "group = all"),
    of(
        "all begin at the group's first head",
        WALK,
        "* (args->heads_q / args->heads_kv) + first;",
        "* (args->heads_q / args->heads_kv);",
    ),
    of("the part is the key head", WALK, "  unit.head /= parts;\n", "  unit.head = part;\n"),
    of(
        "all parts at the first one's place",
        WALK,
        "(part * bwd.heads_kv + unit.head) * bwd.key_tiles",
        "unit.head * bwd.key_tiles",
    ),
    of(
        "all sequences at the first one's place",
        WALK,
        "(before + unit.block) * (BLOCK_N / 16)",
        "unit.block * (BLOCK_N / 16)",
    ),
    of(
        "key blocks of all parts before",
        WALK,
        "/ (bwd.heads_kv * parts); // key blocks",
        "/ bwd.heads_kv; // key blocks",
    ),
    of(
        "one part leaves its sums",
        WALK,
        "  if (parts > 1) {\n    const int before",
        "  if (parts > 0) {\n    const int before",
    ),
    of(
        "the first consumer's keys",
        SM90,
        "work->at->key_sum_tile + consumer * 4 + warp",
        "work->at->key_sum_tile + warp",
    ),
    of(
        "dK where dV is",
        SM90,
        "store_for_sum(args->dk_sum + tile",
        "store_for_sum(args->dv_sum + tile",
    ),
    of(
        "the first warp's rows",
        EXCHANGE,
        "work->at->key_sum_tile + warp",
        "work->at->key_sum_tile",
    ),
    of("a unit too many", CONVERT, "number >= given->first_unit", "number > given->first_unit"),
    of(
        "the sequence of another part",
        CONVERT,
        "find_order(given->first_unit, args->batch, number * parts)",
        "find_order(given->first_unit, args->batch, number)",
    ),
    of(
        "units of all parts before",
        CONVERT,
        "number - given->first_unit[order] / parts",
        "number - given->first_unit[order]",
    ),
    of(
        "keys behind the sequence",
        CONVERT,
        "min(min(PART_ROWS, args.blocks - piece), at.seqlen_k - first_row)",
        "min(PART_ROWS, args.blocks - piece)",
    ),
    of("the first piece's sums", CONVERT, "* args.blocks + piece) / 16;", "* args.blocks) / 16;"),
    of(
        "parts one row tile apart",
        CONVERT,
        "(int64_t)args.heads_q * args.key_tiles * CHUNKS",
        "(int64_t)1 * CHUNKS",
    ),
    of(
        "rows of queries",
        CONVERT,
        "(of_keys ? at.k_row : at.q_row)",
        "at.q_row",
    ),
]
