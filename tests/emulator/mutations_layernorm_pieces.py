"""Single faults in the templates of layernorm's short rows, which come as pieces, of whole vectors
that are read straight into registers, and of rows apart, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

PIECES = "templates/layernorm/layernorm_fwd_pieces.cu.j2"
WHOLE = "templates/layernorm/layernorm_fwd_whole.cu.j2"
APART = "templates/layernorm/layernorm_fwd_apart.cu.j2"
RESIDUAL = "templates/layernorm/parts/piece_residual.cu.j2"
BLOCK_SUMS = "templates/layernorm/parts/block_sums.cu.j2"

KERNELS = [
    ("layernorm_fwd_pieces_cols64_bf16_wfp32_sm90", "w2t2b16c1pn16"),
    ("layernorm_fwd_pairs_cols192_fp32_wbf16_sm90", "w4t16b8c1n8"),
    ("layernorm_fwd_pieces_cols128_fp32_wfp32_sm90", "w2t4b16c1pn8"),
    ("layernorm_fwd_rms_pairs_cols64_fp32_wfp32_sm90", "w2t1b16c1pn32"),
    ("layernorm_fwd_whole_cols2048_bf16_wbf16_sm90", "w2t64"),
    ("layernorm_fwd_rms_whole_cols10240_fp16_wbf16_sm90", "w10t320"),
    ("layernorm_fwd_whole_cols2048_fp16_wfp32_sm90", "w2t64b20"),
    ("layernorm_fwd_added_cols448_bf16_wfp32_sm90", "w4t32b8"),
    ("layernorm_fwd_added_cols1280_fp32_wfp32_sm90", "w3t96b10"),
    ("layernorm_fwd_apart_cols6144_bf16_wfp16_sm90", "w2t32"),
    ("layernorm_fwd_apart_cols8192_fp16_wfp16_sm90", "w8t256"),
]
"""Pieces of a warp and of a block, vectors and words, a lane a row and several; rows of
one warp, of two and of ten."""

MUTATIONS = [
    Mutation(
        "no barrier: parameters of pieces",
        PIECES,
        "  // All threads arrive and wait: the parameters are there, and the barriers.\n"
        "  __syncthreads();\n",
        "",
    ),
    Mutation(
        "no barrier: zeros behind a piece",
        PIECES,
        'that is there.\n    ${ "__syncwarp" if packed else "__syncthreads" }();\n  }\n',
        "that is there.\n  }\n",
    ),
    Mutation(
        "no barrier: y of a piece",
        PIECES,
        '  ${ "__syncwarp" if packed else "__syncthreads" }();\n#pragma unroll 4',
        "#pragma unroll 4",
    ),
    Mutation(
        "no barrier: the sum of a piece",
        PIECES,
        'is in place of x.\n    ${ "__syncwarp" if packed else "__syncthreads" }();\n  }\n',
        "is in place of x.\n  }\n",
    ),
    Mutation("no residual of short rows", PIECES, "  if (args.residual) {\n", "  if (false) {\n"),
    Mutation(
        "the sum of short rows is the residual",
        RESIDUAL,
        "((uint4 *)sum)[at] = both;",
        "((uint4 *)sum)[at] = other[i];",
    ),
    Mutation(
        "short rows: the matrix's end has no residual",
        RESIDUAL,
        "  if (at < elements) {",
        "  if (false) {",
    ),
    Mutation(
        "short rows: of a residual one batch comes",
        RESIDUAL,
        "first += BATCH * TEAM",
        "first += vectors",
    ),
    Mutation(
        "threads of a block meet by warps",
        PIECES,
        '  ${ "__syncwarp" if packed else "__syncthreads" }();\n#pragma unroll 4',
        "  __syncwarp();\n#pragma unroll 4",
    ),
    Mutation(
        "a piece of short rows is not waited for", PIECES, "  wait_for_phase(barrier, 0);\n", ""
    ),
    Mutation(
        "a lane has a unit too many", PIECES, "lane + LANES - 1) / LANES", "lane + LANES) / LANES"
    ),
    Mutation(
        "lanes of a row do not add up", PIECES, "  sums = sum_lanes_of_two(sums, LANES);\n", ""
    ),
    Mutation(
        "lanes that begin later leave units out",
        PIECES,
        "at = at + 1 == row.units ? 0 : at + 1;",
        "at = at + 1 == row.units ? at : at + 1;",
    ),
    Mutation(
        "rows of a piece far from 0 are added up about 0",
        PIECES,
        "!(sums.x * mean <= FAR * squares)",
        "false",
    ),
    Mutation(
        "parameters of a vector are those of its first half",
        PIECES,
        'widen_vector_${ "fp32" if wide else params }(own[i][j], weight',
        'widen_vector_${ "fp32" if wide else params }(own[i][0], weight',
    ),
    Mutation("bias is weight", PIECES, "own[i][PARTS + j]", "own[i][j]"),
    Mutation(
        "bias in place of weight", PIECES, "parameters + PARTS * ROW_VECTORS + i", "parameters + i"
    ),
    Mutation(
        "parameters are those of the row's first columns",
        PIECES,
        "own = parameters + thread % LANES",
        "own = parameters",
    ),
    Mutation("rows of a piece that are not there have moments", PIECES, " || number >= rows)", ")"),
    Mutation("pieces: elements at the matrix's end", PIECES, "i < elements ?", "false ?"),
    Mutation(
        "pieces: elements of y at the matrix's end",
        PIECES,
        "if (rows < PIECE && vectors",
        "if (false && vectors",
    ),
    Mutation(
        "a piece is read beyond the matrix",
        PIECES,
        "bulk_load(shared_address(place), from, vectors * 16, barrier)",
        "bulk_load(shared_address(place), from, (elements * SIZE + 15) / 16 * 16, barrier)",
    ),
    Mutation(
        "no barrier: warps of a row in registers have told",
        BLOCK_SUMS,
        "  // All threads arrive and wait: the warps have told what they have of the row.\n"
        "  __syncthreads();\n",
        "",
    ),
    Mutation(
        "sums of either pass in one place",
        WHOLE,
        "add_up(x, filler[0], told[1])",
        "add_up(x, filler[0], told[0])",
    ),
    Mutation(
        "whole rows far from 0 are added up about 0",
        WHOLE,
        "!(sums.x * mean <= FAR * squares)",
        "false",
    ),
    Mutation(
        "absent vectors count, of whole rows far from 0",
        WHOLE,
        "      if (thread + i * ROW_THREADS >= vectors)\n        x[i] = fill;",
        "      if (false)\n        x[i] = fill;",
    ),
    Mutation(
        "the mean's square is taken about another value", WHOLE, "filler[0] + off", "mean + off"
    ),
    Mutation(
        "a whole row is read beyond its end",
        WHOLE,
        "i < SURE || thread + i * ROW_THREADS < vectors",
        "true",
    ),
    Mutation("a whole row is written beyond its end", WHOLE, "i >= SURE && at >= vectors", "false"),
    Mutation("a warp's sums alone", WHOLE, "  sums = sum_warps(sums, told);\n", ""),
    Mutation("x's stride for y", WHOLE, "row * args.y_row_stride", "row * args.x_row_stride"),
    Mutation(
        "no barrier: ends of rows apart",
        APART,
        "  // All lanes arrive and wait: the ends are there.\n  __syncwarp();\n",
        "",
    ),
    Mutation("rows apart: x's first vector is read whole", APART, "if (number == 0)", "if (false)"),
    Mutation(
        "rows apart: x's last vector is read whole", APART, "number == frame.count - 1", "false"
    ),
    Mutation(
        "rows apart: others' elements count", APART, "column >= 0 && column < columns ?", "true ?"
    ),
    Mutation(
        "rows apart: ends hold others' elements",
        APART,
        "has && column >= 0 && column < columns;",
        "has;",
    ),
    Mutation("rows apart: no shift by half a word", APART, "(shift & 1) * 16", "0"),
    Mutation("rows apart: no shift by two words", APART, "if (shift & 4) {", "if (false) {"),
    Mutation("rows apart: no shift by a word", APART, "if (shift & 2) {", "if (false) {"),
    Mutation("rows apart: x as y is cut", APART, "column + frame.odd, number", "column, number"),
    Mutation(
        "rows apart: no tail of a parameter",
        APART,
        "number + 1 < whole ? from + 1 : tail",
        "from + 1",
    ),
    Mutation(
        "rows apart: a tail beyond the parameter",
        APART,
        "load_2_if(column < columns,",
        "load_2_if(true,",
    ),
    Mutation(
        "rows apart: bias ends as weight",
        APART,
        "args.bias, ends + 3, columns",
        "args.bias, ends + 2, columns",
    ),
    Mutation(
        "rows apart far from 0 are added up about 0",
        APART,
        "!(sums.x * mean <= FAR * squares)",
        "false",
    ),
    Mutation("rows apart: no row is written", APART, "  if (!has)\n    return;\n", ""),
    Mutation(
        "rows apart: whole vectors at the ends of y",
        APART,
        "column >= 0 && column + ELEMENTS <= columns",
        "true",
    ),
    Mutation(
        "rows apart: y's stride is x's", APART, "row * args.y_row_stride", "row * args.x_row_stride"
    ),
    Mutation("the sum is the residual", WHOLE, "sum[at] = x[first + i];", "sum[at] = other[i];"),
    Mutation(
        "the residual is read beyond its end",
        WHOLE,
        "if (first + i < SURE || (first + i < VECTORS && at < vectors))",
        "if (first + i < VECTORS)",
    ),
    Mutation(
        "the sum is written beyond its end",
        WHOLE,
        "      if (first + i < SURE || at < vectors)\n        sum[at]",
        "      sum[at]",
    ),
    Mutation(
        "x's stride for the residual",
        WHOLE,
        "row * args.residual_row_stride",
        "row * args.x_row_stride",
    ),
    Mutation(
        "x's stride for the sum", WHOLE, "row * args.sum_row_stride", "row * args.x_row_stride"
    ),
    Mutation(
        "a vector's parameters are those of its first half",
        WHOLE,
        "widen_vector_fp32(second, value + 4)",
        "widen_vector_fp32(first, value + 4)",
    ),
    Mutation(
        "rows that a block's last warps do not have are read",
        WHOLE,
        "  if (row >= args.rows)\n    return;\n",
        "",
    ),
]
