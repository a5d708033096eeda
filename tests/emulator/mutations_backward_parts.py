"""Single faults in backward kernels of sm90 whose thread blocks share a group's query heads."""

from __future__ import annotations

from mutations import BWD_DQ, Mutation

WALK = "templates/attention/parts/key_walk_sm90.cu.j2"
SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
EXCHANGE = "templates/attention/flash_bwd_exchange_sm90.cu.j2"
CONVERT = "templates/attention/flash_bwd_convert.cu.j2"
GRADIENT = "include/attnpress/device/gradient.cuh"
COLUMNS = "templates/attention/parts/bwd_columns_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim72_fp16_causal_sm90", "m64n128s2v"),
    ("flash_bwd_hdim200_bf16_sm90", "m64n64s2d4"),
    ("flash_bwd_hdim136_bf16_sm90", "m64n80s3"),
    ("flash_bwd_convert_hdim72_bf16_sm80", ""),
    ("flash_bwd_hdim192v128_bf16_sm90", "m64n96s3"),
]
"""Keys as rows, columns shared by two consumers, and keys as columns."""


def of(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"bwd parts: {name}", file, old, new)


MUTATIONS = [
    of(
        "all parts at the first one's place",
        GRADIENT,
        "(((part * args->batch + batch)",
        "(((batch)",
    ),
    of("the first part alone is added up", CONVERT, "part < args.sum_parts", "part < 1"),
    of(
        "parts one row tile apart",
        CONVERT,
        "(int64_t)args.batch * args.heads_q * args.sum_tiles",
        "(int64_t)1",
    ),
    of("a part too many", CONVERT, "part < args.sum_parts", "part <= args.sum_parts"),
    of(
        "all begin at the group's first head",
        WALK,
        "  work.first_head = work.kv_head * all + first;\n",
        "  work.first_head = work.kv_head * all;\n",
    ),
    of(
        "as many heads each",
        WALK,
        "(at.part + 1) * all / at.parts - first",
        "all / at.parts",
    ),
    of(
        "the part is the key head",
        WALK,
        "return {block % args->blocks, number / args->group_parts,",
        "return {block % args->blocks, number,",
    ),
    of(
        "each has the whole group",
        WALK,
        "int first = by_steps ? 0 : at.part * all / at.parts",
        "int first = 0",
    ),
    of(
        "by steps: each part begins at the first head",
        WALK,
        "    work.first_head += begin / blocks;\n",
        "",
    ),
    of(
        "by steps: each part begins at a head's first row",
        WALK,
        "    work.walk_begin += begin % blocks * BLOCK_M;\n",
        "",
    ),
    of(
        "by steps: as many steps each",
        WALK,
        "(at.part + 1) * work.steps / at.parts - begin;",
        "work.steps / at.parts;",
    ),
    of(
        "by steps: whole key blocks are parts",
        WALK,
        "by_steps && at.parts == 1 ? -1 : at.part",
        "at.part",
    ),
    of(
        "by steps: parts begin at the first key block",
        WALK,
        "return {whole + number / heads, number % heads,",
        "return {number / heads, number % heads,",
    ),
    of(
        "by steps: the copy engine adds from the first row on",
        BWD_DQ,
        '"work->walk_begin" if parts else "row_begin" }; n < steps',
        '"row_begin" }; n < steps',
    ),
    of(
        "the first consumer's keys",
        SM90,
        "const int tile = (work->key_begin + consumer * 64) / 16 + warp;",
        "const int tile = work->key_begin / 16 + warp;",
    ),
    of(
        "dK where dV is",
        SM90,
        "HEAD_DIM),\n                  dk, K",
        "HEAD_DIM),\n                  dv, K",
    ),
    of(
        "the first warp's rows",
        EXCHANGE,
        ") / 16 + warp;\n    float *const dk_sum",
        ") / 16;\n    float *const dk_sum",
    ),
    of(
        "columns of the first consumer",
        EXCHANGE,
        "HEAD_DIM_V, lane);\n//% endif\n    return;",
        "HEAD_DIM_V, lane);\n//% endif\n"
        "    store_columns(dv_sum, dv, 1, 0, HEAD_DIM_V, lane);\n    return;",
    ),
    of(
        "rows and columns of a tile",
        COLUMNS,
        "sum_place(row * 4 + c / 2, c % 2)",
        "sum_place(c * 4 + row / 2, c % 2)",
    ),
    of(
        "keys past the sequence's sums",
        COLUMNS,
        "< columns && tile * 8 + row + i % 2 < keys)",
        "< columns)",
    ),
    of(
        "columns past the head dim",
        COLUMNS,
        "if (first + i / 2 * 8 < columns && tile",
        "if (tile",
    ),
]
