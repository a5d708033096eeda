"""Single faults in the outer product's templates, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

FWD = "templates/outer/outer_fwd.cu.j2"
FLAT = "templates/outer/outer_flat.cu.j2"
SUM = "templates/outer/outer_sum.cu.j2"
BWD = "templates/outer/outer_bwd.cu.j2"
REDUCE = "templates/outer/outer_bwd_reduce.cu.j2"

KERNELS = [
    ("outer_fwd_bf16_sm80", ""),
    ("outer_flat_bf16_sm80", ""),
    ("outer_sum_fp32_sm80", ""),
    ("outer_bwd_fp16_sm80", ""),
    ("outer_bwd_reduce_bf16_sm80", ""),
]

MUTATIONS = [
    Mutation(
        "the columns of another block", FWD, "beside * column_threads +", "0 * column_threads +"
    ),
    Mutation("the rows of another block", FWD, "below * groups * ROWS", "below * groups"),
    Mutation(
        "rows past the end are stored", FWD, "row < args.rows ? args.columns : 0", "args.columns"
    ),
    Mutation("x of another entry", FWD, "batch * args.x_stride", "0 * args.x_stride"),
    Mutation(
        "c in 32 bits",
        FWD,
        "row * args.c_row_stride * SIZE",
        "(int)(row * args.c_row_stride * SIZE)",
    ),
    Mutation("threads of another row", FWD, "(column_threads - 1)", "(column_threads / 2)"),
    Mutation("the row before c is one of c's", FLAT, "row >= 0 && first_entry", "first_entry"),
    Mutation("x past the batch", FLAT, "row >= 0 && first_entry + entry < args->batch", "row >= 0"),
    Mutation("x of the chunk's first entry", FLAT, "row - entry * args->rows", "row"),
    Mutation("y of the chunk's first entry", FLAT, "here.y = entry * args->pitch", "here.y = 0"),
    Mutation("y past the batch", FLAT, "if (first_entry + i < args->batch)\n", "\n"),
    Mutation("y does not begin again", FLAT, "j < args->columns ? j : j - args->columns", "j"),
    Mutation("no barrier: x and y are there", FLAT, "  __syncthreads();\n", ""),
    Mutation("windows begin at words", FLAT, "(at & 2) * 8", "0"),
    Mutation("windows begin at pairs of words", FLAT, "(at & 4) != 0", "false"),
    Mutation("c begins where a vector does", FLAT, "* CHUNK - lead;", "* CHUNK;"),
    Mutation("what is before c is written", FLAT, "blockIdx.x == 0 ? lead : 0", "0"),
    Mutation("what is behind c is written", FLAT, "&& number + ELEMENTS <= end", ""),
    Mutation("the last elements are left out", FLAT, "    if (!whole)\n", "    if (false)\n"),
    Mutation(
        "y of the entry before behind an entry's end",
        FLAT,
        "cut < ELEMENTS && next.y != here.y",
        "false",
    ),
    Mutation("x of the row before", FLAT, "j < cut ? here.x : next.x", "here.x"),
    Mutation("a row too few", FLAT, "      ++row;\n", ""),
    Mutation("no barrier: entries have been read", SUM, "    __syncthreads();\n", "", 1),
    Mutation("no barrier: entries are there", SUM, "    __syncthreads();\n", "", 2),
    Mutation("entries past the batch", SUM, "batch + n < batches &&", ""),
    Mutation("an entry too few", SUM, "n < STEP; ++n", "n < STEP - 1; ++n"),
    Mutation("y is x", SUM, "y[n][j * SIDE + beside]", "x[n][j * SIDE + beside]"),
    Mutation("sums begin with one", SUM, "sum[i][j] = 0.0f", "sum[i][j] = 1.0f"),
    Mutation(
        "columns past the end", SUM, "row < args.rows && column < args.columns", "row < args.rows"
    ),
    Mutation("one place for the sums of two steps", BWD, "turn ^= 1", "turn ^= 0"),
    Mutation("no barrier: warps' sums", BWD, "      __syncthreads();\n", ""),
    Mutation("the same step again", BWD, "index += row_lanes", "index += 0"),
    Mutation("a warp's first group alone", BWD, "group < groups; ++group", "group < 1; ++group"),
    Mutation("the rows of a group lie together", BWD, "first + r * apart", "first + r", 1),
    Mutation("x of rows that lie together", BWD, "first + r * groups", "first + r", 1),
    Mutation("dx of rows that lie together", BWD, "first + r * groups", "first + r", 3),
    Mutation("one group's dx", BWD, "(lane & (row_lanes - 1)) == 0", "lane == 0"),
    Mutation("any strides are whole vectors", BWD, "args.dc_row_stride % ELEMENTS == 0 &&", ""),
    Mutation("columns past the end are read", BWD, "&& index * ELEMENTS < args->columns", ""),
    Mutation("whole rows past the end are read", BWD, "row < args->rows && ", ""),
    Mutation(
        "rows by elements do not move up",
        BWD,
        "vector[i] = vector[i + BATCH]",
        "vector[i] = vector[ROWS - 1]",
    ),
    Mutation(
        "dx of the first warp's rows",
        BWD,
        "args.row_blocks * WARPS + warp)",
        "args.row_blocks * WARPS)",
    ),
    Mutation(
        "rows past the end are read",
        BWD,
        "row < args->rows ? args->columns : 0",
        "args->columns",
    ),
    Mutation(
        "the last warp is left out", BWD, "other < WARPS; ++other", "other < WARPS - 1; ++other"
    ),
    Mutation(
        "the parts of another block",
        BWD,
        "(int64_t)blockIdx.x * args.columns",
        "(int64_t)batch * args.columns",
    ),
    Mutation(
        "half the lanes of dx",
        BWD,
        "sum_lanes(dx[r], row_lanes)",
        "sum_lanes(dx[r], row_lanes / 2)",
    ),
    Mutation(
        "dc of another entry", BWD, "batch * args.dc_batch_stride", "batch * args.dc_row_stride"
    ),
    Mutation(
        "a part too few", REDUCE, "first + i < args.row_blocks", "first + i < args.row_blocks - 1"
    ),
    Mutation("parts of another entry", REDUCE, "batch * args.row_blocks", "0 * args.row_blocks"),
    Mutation(
        "elements past the end", REDUCE, "element >= args.elements", "element > args.elements"
    ),
]
