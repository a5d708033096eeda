"""Single faults in the outer product's templates, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

FWD = "templates/outer/outer_fwd.cu.j2"
UNIT = "templates/outer/outer_unit.cu.j2"
CHUNK = "templates/outer/outer_chunk.cu.j2"
FLAT = "templates/outer/outer_flat.cu.j2"
RUN = "include/attnpress/device/outer_run.cuh"
SUM = "templates/outer/outer_sum.cu.j2"
BWD = "templates/outer/outer_bwd.cu.j2"
REDUCE = "templates/outer/outer_bwd_reduce.cu.j2"

KERNELS = [
    ("outer_fwd_bf16_sm80", ""),
    ("outer_unit_bf16_sm80", ""),
    ("outer_unit_fp32_sm80", ""),
    ("outer_chunk_bf16_sm80", ""),
    ("outer_chunk_fp32_sm80", ""),
    ("outer_flat_bf16_sm80", ""),
    ("outer_sum_fp32_sm80", ""),
    ("outer_sum_fp32_sm80", "w2r8"),  # rows of a thread that lie apart
    ("outer_sum_bf16_sm80", ""),
    ("outer_sum_bf16_sm80", "w4r8"),  # warps below each other
    ("outer_sum_dx_fp16_sm80", ""),
    ("outer_sum_dx_fp32_sm80", ""),
    ("outer_sum_dy_bf16_sm80", ""),
    ("outer_bwd_fp16_sm80", ""),
    ("outer_bwd_fp32_sm80", ""),  # whose loads are always ahead
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
    Mutation(
        "the elements of the row before",
        RUN,
        "(cut * size - word * 4) * 8",
        "(cut * size - word * 4) * 8 + 16",
    ),
    Mutation("one element of a word", RUN, "bits | bits << 16", "bits"),
    Mutation(
        "units: the vectors of another block",
        UNIT,
        "beside * THREADS + (int)threadIdx.x",
        "(int)threadIdx.x",
    ),
    Mutation(
        "units: the vectors of a group below",
        UNIT,
        "(int)threadIdx.x % args.width",
        "(int)threadIdx.x",
    ),
    Mutation(
        "units: c begins where a vector does",
        UNIT,
        "(uint32_t)((uint64_t)args.c % 16 / SIZE) + ",
        "",
    ),
    Mutation("units: entries begin where a vector does", UNIT, " + (uint32_t)begin)", ")"),
    Mutation(
        "units: y does not begin again",
        UNIT,
        "column + low - (low >= cut ? columns : 0)",
        "column + low",
    ),
    Mutation(
        "units: y of the next element does not",
        UNIT,
        "column + high - (high >= cut ? columns : 0)",
        "column + high",
    ),
    Mutation("units: x of the row before", UNIT, "x, row + 1)", "x, row)"),
    Mutation(
        "units: x of the unit's first row",
        UNIT,
        "unit * args.unit_rows + first_row",
        "unit * args.unit_rows",
    ),
    Mutation(
        "units: those of another block",
        UNIT,
        "below * args.units * groups + group",
        "below * args.units + group",
    ),
    Mutation(
        "units: those of the next block", UNIT, "is_mine && i < args.units &&", "is_mine &&", 2
    ),
    Mutation(
        "units: vectors past the end",
        UNIT,
        "i < args.units && (int64_t)unit * args.unit_vectors + own < vectors",
        "i < args.units",
        2,
    ),
    Mutation("units: threads without a vector", UNIT, "group < groups && own < args.width", "true"),
    Mutation(
        "units: an element too few at the end", UNIT, "if (last < rest)", "if (last < rest - 1)"
    ),
    Mutation(
        "units: the next entry's elements past the batch",
        UNIT,
        "else if (batch + 1 < args.batch)",
        "else",
    ),
    Mutation(
        "units: the next entry's elements of this one",
        UNIT,
        "batch + 1, 0, last - rest",
        "batch, 0, last - rest",
    ),
    Mutation(
        "units: what is before the first vector is left out",
        UNIT,
        "batch == 0 && last < head",
        "false",
    ),
    Mutation("chunks: copies are not waited for", CHUNK, "  cp_async_wait(0);\n", ""),
    Mutation("chunks: no barrier", CHUNK, "  __syncthreads();\n", ""),
    Mutation(
        "chunks: what is before a tensor is read",
        CHUNK,
        "from >= low && from + 16 <= high",
        "from + 16 <= high",
    ),
    Mutation(
        "chunks: what is behind a tensor is read",
        CHUNK,
        "from >= low && from + 16 <= high",
        "from >= low",
    ),
    Mutation(
        "chunks: elements before a tensor are read",
        CHUNK,
        "from + i * SIZE >= low && from + i * SIZE < high",
        "from + i * SIZE < high",
    ),
    Mutation(
        "chunks: elements behind a tensor are read",
        CHUNK,
        "from + i * SIZE >= low && from + i * SIZE < high",
        "from + i * SIZE >= low",
    ),
    Mutation(
        "chunks: pieces begin where vectors do", CHUNK, "return shared + phase;", "return shared;"
    ),
    Mutation(
        "chunks: y of the first entry",
        CHUNK,
        "y + (entry * columns + column) * SIZE",
        "y + column * SIZE",
    ),
    Mutation("chunks: windows begin at words", CHUNK, "(at & 2) * 8", "0"),
    Mutation("chunks: windows begin at pairs of words", CHUNK, "(at & 4) != 0", "false"),
    Mutation("chunks: c begins where a vector does", CHUNK, "* CHUNK - lead;", "* CHUNK;"),
    Mutation("chunks: what is before c is written", CHUNK, "blockIdx.x == 0 ? lead : 0", "0"),
    Mutation("chunks: what is behind c is written", CHUNK, "&& number + ELEMENTS <= end", ""),
    Mutation("chunks: the last elements are left out", CHUNK, "  if (!whole)\n", "  if (false)\n"),
    Mutation(
        "chunks: the last row is left out",
        CHUNK,
        "(first_column + CHUNK - 1) / columns + 1",
        "(first_column + CHUNK - 1) / columns - 40",
    ),
    Mutation(
        "chunks: the last entry is left out",
        CHUNK,
        "(first_inner + row_count - 1) / rows + 1",
        "(first_inner + row_count - 1) / rows - 20",
    ),
    Mutation(
        "chunks: y of the first entry of one row",
        CHUNK,
        "(rows == 1 ? first_column : 0) - ELEMENTS",
        "-ELEMENTS",
    ),
    Mutation(
        "chunks: y of the same entry again", CHUNK, "inner + 1 == rows ? entry + 1 : entry", "entry"
    ),
    Mutation(
        "chunks: y of the next entry early",
        CHUNK,
        "inner + 1 == rows ? entry + 1 : entry",
        "entry + 1",
    ),
    Mutation(
        "chunks: x of the row before",
        CHUNK,
        "load_element(x, SIZE, row + 1)",
        "load_element(x, SIZE, row)",
    ),
    Mutation("chunks: x of a vector's first row", CHUNK, "    ++row;\n    if", "    if"),
    Mutation(
        "chunks: y of a vector's first entry",
        CHUNK,
        "      inner = 0;\n      ++entry;\n",
        "      inner = 0;\n",
    ),
    Mutation(
        "chunks: narrow rows of the first entry",
        CHUNK,
        "first_inner + below - beyond * rows",
        "below",
    ),
    Mutation("chunks: a row too few", CHUNK, "      ++row;\n      ++inner;\n", "      ++inner;\n"),
    Mutation(
        "chunks: an entry too few",
        CHUNK,
        "      inner -= rows;\n      ++entry;\n",
        "      inner -= rows;\n",
    ),
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
    Mutation("sums: no barrier", SUM, "    __syncthreads();\n", ""),
    Mutation("sums: copies are not waited for", SUM, "    cp_async_wait(STAGES - 2);\n", ""),
    Mutation("sums: a step too few", SUM, "step < steps; ++step", "step < steps - 1; ++step"),
    Mutation(
        "sums: the step after the next", SUM, "(int64_t)next * STEP", "(int64_t)(next + 1) * STEP"
    ),
    Mutation("sums: steps in one stage", SUM, "stage = step % STAGES", "stage = 0"),
    Mutation("sums: the first split again", SUM, "begin = split * args.split_depth", "begin = 0"),
    Mutation(
        "sums: all that follows a split",
        SUM,
        "min(args.depth, begin + args.split_depth)",
        "args.depth",
    ),
    Mutation("sums: parts of another split", SUM, "args->splits + split)", "args->splits)"),
    Mutation(
        "sums: rows of another block", SUM, "args.row_blocks) * TILE_ROWS", "args.row_blocks) * 1"
    ),
    Mutation("sums: columns past the end", SUM, "|| column >= args->columns", ""),
    Mutation("sums: rows past the end", SUM, "row >= args->rows ||", ""),
    Mutation("sums: vectors past the end", SUM, "min(max(bytes_left - at, 0), 16)", "16"),
    Mutation("sums: words past the end", SUM, "min(max(bytes_left - at, 0), 4)", "4"),
    Mutation("sums: elements past the end", SUM, "&& at * 2 < bytes_left", ""),
    Mutation("sums: elements of rows past the end", SUM, "below < rows_left &&", ""),
    Mutation("sums: rows of vectors past the end", SUM, "first + i < rows_left", "true", 1),
    Mutation("sums: rows of words past the end", SUM, "first + i < rows_left", "true", 2),
    Mutation("sums: any row is whole vectors", SUM, "together % 16 == 0", "true"),
    Mutation("sums: any row is whole words", SUM, "together % 4 == 0", "true"),
    Mutation(
        "sums: elements lie together",
        SUM,
        "row_apart + at * apart, element",
        "1 + at * apart, element",
    ),
    Mutation("sums: a words' way", SUM, "SIZE + at * apart)", "SIZE + at)"),
    Mutation(
        "sums: y is x",
        SUM,
        "sum[i][j] += a_value[i] * b_value[j]",
        "sum[i][j] += a_value[i] * a_value[j]",
    ),
    Mutation("sums: the other rows of a thread", SUM, "i / 4 * 4 * (THREADS / SIDE) + i % 4", "i"),
    Mutation("sums: rows of a fragment", SUM, "lane / 8 % 2 * 8;", "lane / 8 % 2 * 4;", 1),
    Mutation("sums: depth of a fragment", SUM, "k + lane / 16 * 8, row", "k, row"),
    Mutation("sums: columns of a fragment", SUM, "lane % 8 + lane / 16 * 8;", "lane % 8;"),
    Mutation(
        "sums: depth of a column's fragment", SUM, "k + lane % 16, column", "k + lane % 8, column"
    ),
    Mutation("sums: half of a step", SUM, "k < STEP; k += 16", "k < STEP / 2; k += 16"),
    Mutation("sums: rows of two halves", SUM, "k / 2 * 8,", "k / 2,"),
    Mutation("sums: another warp's rows", SUM, "warp / BESIDE * WARP_ROWS", "0"),
    Mutation("sums: another warp's columns", SUM, "warp % BESIDE * WARP_COLUMNS", "0"),
    Mutation("one place for the sums of two steps", BWD, "turn ^= 1", "turn ^= 0"),
    Mutation("no barrier: warps' sums", BWD, "      __syncthreads();\n", ""),
    Mutation(
        "the first step again",
        BWD,
        "column + own, apart, false, vector",
        "own, apart, false, vector",
    ),
    Mutation(
        "the same vectors again",
        BWD,
        "column + step + own, 1, true, vector",
        "column + own, 1, true, vector",
    ),
    Mutation("y of the first step", BWD, "column + own, apart, false);", "own, apart, false);"),
    Mutation(
        "y of the same vectors", BWD, "column + step + own, 1, true);", "column + own, 1, true);"
    ),
    Mutation("the first group alone", BWD, "other < groups; ++other", "other < 1; ++other"),
    Mutation("sums of elements that lie together", BWD, "sum[j * apart]", "sum[j]"),
    Mutation("the rows of a group lie together", BWD, "first + r * groups", "first + r", 1),
    Mutation("x of rows that lie together", BWD, "first + r * groups", "first + r", 2),
    Mutation(
        "one group's dx",
        BWD,
        "thread == 0 && row < args.rows",
        "threadIdx.x == 0 && row < args.rows",
    ),
    Mutation("dx of a row's first warp", BWD, "i < row_threads / 32", "i < 1"),
    Mutation("dx of another row's warp", BWD, "warp_dx[warp + i][r]", "warp_dx[i][r]"),
    Mutation("no barrier: warps' dx", BWD, "    __syncthreads();\n#pragma", "#pragma"),
    Mutation("any strides are whole vectors", BWD, "| (uint64_t)args.dc_row_stride * SIZE", ""),
    Mutation(
        "columns past the end are read", BWD, "load_16_if(column < columns,", "load_16_if(true,"
    ),
    Mutation("any y is whole vectors", BWD, "* SIZE | (uint64_t)y)", "* SIZE)"),
    Mutation("elements past the end are read", BWD, "column + k < columns", "true"),
    Mutation(
        "a word's halves change places",
        BWD,
        "row + (int64_t)k * 2, 0) << 16",
        "row + (int64_t)j * 2, 0) << 16",
    ),
    Mutation(
        "dx of the first group's rows",
        BWD,
        "args.row_blocks * groups * ROWS + group",
        "args.row_blocks * groups * ROWS",
    ),
    Mutation(
        "rows past the end are read",
        BWD,
        "row < args->rows ? args->columns : 0",
        "args->columns",
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
        "min(row_threads, 32)",
        "min(row_threads, 32) / 2",
    ),
    Mutation(
        "dc of another entry", BWD, "batch * args.dc_batch_stride", "batch * args.dc_row_stride"
    ),
    Mutation(
        "the next step's columns are this one's",
        BWD,
        "column + step + own, apart, false, vector",
        "column + own, apart, false, vector",
    ),
    Mutation(
        "y of the next step's columns",
        BWD,
        "column + step + own, apart, false);",
        "column + own, apart, false);",
    ),
    Mutation(
        "no dy of blocks that have all rows", BWD, "args.dy_parts || args.dy", "args.dy_parts"
    ),
    Mutation("dy of another entry", BWD, "blockIdx.x * args.dy_stride", "0 * args.dy_stride"),
    Mutation(
        "dy of the first step",
        BWD,
        "SIZE,\n                        column + at",
        "SIZE,\n                        at",
    ),
    Mutation("a part too few", REDUCE, "part < args.row_blocks", "part < args.row_blocks - 1"),
    Mutation("the parts of another lane", REDUCE, "first = lane;", "first = 0;"),
    Mutation("parts that lie together", REDUCE, "first + i * lanes", "first + i"),
    Mutation("parts of another entry", REDUCE, "batch * args.row_blocks", "0 * args.row_blocks"),
    Mutation(
        "elements past the end", REDUCE, "element < args.elements", "element <= args.elements"
    ),
    Mutation("no barrier: the sums of lanes", REDUCE, "    __syncthreads();\n", ""),
    Mutation("the first lane's sum", REDUCE, "i < lanes && lane == 0", "i < 1 && lane == 0"),
    Mutation("each lane's sum", REDUCE, "is_there && lane == 0", "is_there"),
]
