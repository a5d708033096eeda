"""Single faults in the template of layernorm's rows that begin anywhere and are read straight into
registers: with gaps, in place or with a residual, of fp32, and with parameters of fp32."""

from __future__ import annotations

from mutations import Mutation

DIRECT = "templates/layernorm/layernorm_fwd_direct.cu.j2"

KERNELS = [
    ("layernorm_fwd_edged_cols512_bf16_wfp32_sm90", "w4t32b8"),
    ("layernorm_fwd_rms_edged_cols1280_fp16_wbf16_sm90", "w2t64b16"),
    ("layernorm_fwd_edged_cols1280_bf16_wfp32_sm90", "w2t64b16"),
    ("layernorm_fwd_edged_cols896_fp32_wfp32_sm90", "w2t64b16"),
    ("layernorm_fwd_edged_cols640_bf16_wbf16_sm90", "w8t16b4"),
    ("layernorm_fwd_edged_cols14336_bf16_wfp32_sm90", "w12t384b3"),
    ("layernorm_fwd_direct_cols1024_fp16_wfp32_sm90", "w4t32b8"),
    ("layernorm_fwd_shifted_cols640_bf16_wbf16_sm90", "w8t16b4"),
    ("layernorm_fwd_rms_shifted_cols1280_fp16_wbf16_sm90", "w2t64b16"),
    ("layernorm_fwd_shifted_cols768_bf16_wfp32_sm90", "w8t16b4"),
    ("layernorm_fwd_shifted_cols2048_fp32_wfp32_sm90", "w4t128b9"),
    ("layernorm_fwd_direct_cols1024_fp32_wfp32_sm90", "w2t64b20"),
]
"""Rows of half a warp, of a warp, of two and of twelve, of 16 bits and of fp32."""

MUTATIONS = [
    Mutation(
        "shifted: no barrier of a block before y is written",
        DIRECT,
        "  // All threads arrive and wait: y is there.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "shifted: no barrier of a warp before y is written",
        DIRECT,
        "  // All lanes arrive and wait: y is there.\n  __syncwarp();\n",
        "",
    ),
    Mutation("shifted: y is put as x lies", DIRECT, "(y_odd - odd) * SIZE;", "0 * odd;"),
    Mutation(
        "shifted: a vector in the middle of words loses its last element",
        DIRECT,
        "    ((uint16_t *)to)[7] = (uint16_t)(vector.w >> 16);\n",
        "",
    ),
    Mutation(
        "shifted: half a vector in the middle of words loses its last element",
        DIRECT,
        "    ((uint16_t *)to)[3] = (uint16_t)(vector.y >> 16);\n",
        "",
    ),
    Mutation(
        "shifted: half a vector is put as a whole one",
        DIRECT,
        "if (at % 8 == 0) {",
        "if (at % 4 == 0) {",
    ),
    Mutation(
        "shifted: y's first vector is written as a whole",
        DIRECT,
        "(i > 0 || at > 0 || y_odd == 0)",
        "true",
    ),
    Mutation(
        "shifted: y's last vector is not there",
        DIRECT,
        "i <= COLUMNS / OUT_ELEMENTS / ROW_THREADS",
        "i < 1",
    ),
    Mutation(
        "shifted: the last elements of y are not written",
        DIRECT,
        "thread < 2 * OUT_ELEMENTS && last >= y_odd",
        "thread < OUT_ELEMENTS && last >= y_odd",
    ),
    Mutation(
        "edges: the sum's are not stored",
        DIRECT,
        "    if (has_edge)\n      store_element(sum, SIZE, edge, own);\n",
        "",
    ),
    Mutation(
        "edges: elements before a row are its own",
        DIRECT,
        "begins && place >= odd && place - odd < columns",
        "begins && place - odd < columns",
    ),
    Mutation(
        "edges: elements behind a row are its own",
        DIRECT,
        ": ended && place - ELEMENTS < cut.end",
        ": ended && place - ELEMENTS < ELEMENTS",
    ),
    Mutation(
        "edges: no barrier before they are read",
        DIRECT,
        "  // All lanes arrive and wait: the elements are there.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "edges: a row begins with its last ones", DIRECT, "x[0] = ends[0];", "x[0] = ends[1];"
    ),
    Mutation("edges: the first vector is read whole", DIRECT, "least = odd != 0", "least = 0"),
    Mutation(
        "edges: the last vector is read whole",
        DIRECT,
        "most = cut.vectors - (cut.end != 0)",
        "most = cut.vectors",
    ),
    Mutation(
        "edges: x's stride for the residual",
        DIRECT,
        "row * args.residual_row_stride - odd",
        "row * args.x_row_stride - odd",
    ),
    Mutation(
        "edges: x's stride for the sum",
        DIRECT,
        "row * args.sum_row_stride - odd",
        "row * args.x_row_stride - odd",
    ),
    Mutation(
        "edges: x's stride for y",
        DIRECT,
        "row * args.y_row_stride - odd",
        "row * args.x_row_stride - odd",
    ),
    Mutation(
        "edges: all rows begin as the first",
        DIRECT,
        "((uint64_t)args.x + (uint64_t)x_begin) % ${ bytes }",
        "(uint64_t)args.x % ${ bytes }",
    ),
    Mutation(
        "edges: rows that are not there are read",
        DIRECT,
        "  if (row >= args.rows)\n    return;\n",
        "",
    ),
    Mutation(
        "edges: rows of half a warp that are not there are read",
        DIRECT,
        "  const bool has = row < args.rows;\n  // Vectors that are the row's alone.\n",
        "  const bool has = true;\n",
    ),
    Mutation(
        "edges: a weight that is not there is read",
        DIRECT,
        "  if (!args.weight)\n    branch = 2 * PLACES;\n",
        "",
    ),
    Mutation(
        "edges: a bias that is not there is read",
        DIRECT,
        "  if (!args.bias)\n    branch += PLACES;\n",
        "",
    ),
    Mutation(
        "edges: where there is no bias all rows begin alike",
        DIRECT,
        "write_row<true, false>(&args, ${ place },",
        "write_row<true, false>(&args, 0,",
    ),
    Mutation(
        "halves of vectors: threads surely have one too many",
        DIRECT,
        "(ROW_VECTORS * 4 / 5 - 1) / ROW_THREADS",
        "(ROW_VECTORS * 4 / 5) / ROW_THREADS",
    ),
    Mutation(
        "halves of vectors: a mask has an element too many",
        DIRECT,
        "count > 3 ? 0xffffffff : count > 2 ? 0xffff : 0",
        "count > 2 ? 0xffffffff : 0",
    ),
    Mutation(
        "edges: the sum is the residual",
        DIRECT,
        "(sum + at * ${ bytes }) = x[number];",
        "(sum + at * ${ bytes }) = other[i];",
    ),
    Mutation(
        "edges: the residual's elements are left out",
        DIRECT,
        "load_${ size }_if(has_edge, residual + edge * SIZE, 0)",
        "0",
    ),
    Mutation(
        "parameters of fp32 begin with the vector in which the row begins",
        DIRECT,
        "2 * index - (odd + 3) / 4",
        "2 * index - odd / 4",
    ),
    Mutation(
        "parameters of fp32 begin with a vector", DIRECT, "all[(4 - first) % 4 + j]", "all[j]"
    ),
    Mutation(
        "parameters of fp32 are read beyond their end",
        DIRECT,
        "begin + i < whole",
        "begin + i <= whole",
    ),
    Mutation("parameters of fp32 are read before", DIRECT, "(begin + i >= 0 && ", "("),
]
