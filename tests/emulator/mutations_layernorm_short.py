"""Single faults in the gradients of layernorm's rows of few columns, and of rows of fp32 that begin
anywhere, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

SHORT = "templates/layernorm/layernorm_bwd_short.cu.j2"
BWD = "templates/layernorm/layernorm_bwd.cu.j2"
WORDS = "include/attnpress/device/row_words.cuh"

KERNELS = [
    ("layernorm_bwd_short_cols8_fp16_wfp16_sm90", "w2t1b3"),
    ("layernorm_bwd_short_cols16_bf16_wbf16_sm90", "w2t1b3"),
    ("layernorm_bwd_short_cols16_fp32_wfp32_sm90", "w2t1b3"),
    ("layernorm_bwd_rms_short_cols32_fp16_wfp32_sm90", "w2t1b3"),
    ("layernorm_bwd_short_cols64_bf16_wbf16_sm90", "w2t4b4"),
    ("layernorm_bwd_rms_short_cols96_fp16_wfp32_sm90", "w2t8b4"),
    ("layernorm_bwd_short_cols128_fp16_wfp16_sm90", "w2t8b3"),
    ("layernorm_bwd_gathered_cols64_bf16_wbf16_sm90", "w2t4b4"),
    ("layernorm_bwd_rms_gathered_cols32_fp16_wfp32_sm90", "w2t2b4"),
    ("layernorm_bwd_odd_cols192_fp32_wfp32_sm80", "w4t16b3ah"),
    ("layernorm_bwd_odd_cols512_fp32_wbf16_sm80", "w4t64c2"),
    ("layernorm_bwd_rms_odd_cols256_fp32_wfp16_sm80", "w2t64ah"),
]
"""Rows of a lane and of some, lanes of a row, pairs of elements and single ones; words of part of a
warp and of two, loaded ahead to registers and to shared memory."""

MUTATIONS = [
    Mutation(
        "no barrier: short rows have come",
        SHORT,
        "    // All lanes arrive and wait: the piece is there.\n    __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: dx of short rows",
        SHORT,
        "    // All lanes arrive and wait: hands over dx.\n    __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: short rows are done",
        SHORT,
        "    // All lanes arrive and wait: another piece may take this one's place.\n"
        "    __syncwarp();\n",
        "",
    ),
    Mutation("no barrier: warps' sums of short rows", SHORT, "  __syncthreads();\n", ""),
    Mutation("short rows are not waited for", SHORT, "wait(deal.slots - 1)", "wait(deal.slots)"),
    Mutation(
        "short rows in the wrong slot", SHORT, "piece + deal.slots * stride", "piece + stride"
    ),
    Mutation("a ring of short rows has one piece more", SHORT, "RING_BYTES / deal.bytes, ", "9, "),
    Mutation(
        "the end of short rows is not read",
        SHORT,
        "  if (element < count)\n    store_element(place",
        "  if (false)\n    store_element(place",
    ),
    Mutation(
        "the end of short rows is not written",
        SHORT,
        "  if (element < count)\n    store_element(to",
        "  if (false)\n    store_element(to",
    ),
    Mutation("no zeros behind the last short rows", SHORT, "rows > 0 && rows < deal.rows", "false"),
    Mutation(
        "no barrier: zeros behind the last short rows",
        SHORT,
        "    // All lanes arrive and wait: what there is comes behind the zeros.\n"
        "    __syncwarp();\n",
        "",
    ),
    Mutation("short rows of another's mean", SHORT, "(moments - deal->rows, ", "(moments, "),
    Mutation("rows of a lane have one's mean", SHORT, "fp32(means[i])", "fp32(means[0 * i])"),
    Mutation("a warp's sums alone, of short rows", SHORT, "j < WARPS; ++j", "j < 1; ++j"),
    Mutation(
        "no barrier: lanes' sums of short rows",
        SHORT,
        "  // All lanes arrive and wait: hands over their sums.\n  __syncwarp();\n",
        "",
    ),
    Mutation("sums of a column's first lanes", SHORT, "j < 32; j += LANES", "j < 16; j += LANES"),
    Mutation(
        "a part's first column is the lane's before", SHORT, "column >= part", "column > part"
    ),
    Mutation("parts of short rows are denser", SHORT, "args.pitch + (i", "columns + (i"),
    Mutation("lanes of a row have one weight", SHORT, "part.first + j))", "j))"),
    Mutation(
        "a row's last lane has one column more",
        SHORT,
        "min(words * (lane + 1) / LANES * 2, columns)",
        "words * (lane + 1) / LANES * 2",
    ),
    Mutation(
        "a part's last column is not read",
        SHORT,
        "    word[words - 1] = halves[2 * words - 2];\n",
        "    ;\n",
    ),
    Mutation(
        "a part's last column is not written",
        SHORT,
        "    halves[2 * words - 2] = (uint16_t)narrow_element_${ dtype }(value[last]);\n",
        "    ;\n",
    ),
    Mutation("a part begins with the row before", SHORT, "halves[1] << 16", "halves[0] << 16"),
    Mutation("dx of a part is the row's before", SHORT, "    halves[1] = ", "    halves[0] = "),
    Mutation(
        "a part's column beyond its words is not read",
        SHORT,
        "      word[words] = halves[2 * words];\n",
        "      ;\n",
    ),
    Mutation(
        "a part's column beyond its words is not written",
        SHORT,
        "      halves[2 * words] = (uint16_t)",
        "      (void)(uint16_t)",
    ),
    Mutation("lanes add up half of a row", SHORT, "of_two(both, LANES)", "of_two(both, LANES / 2)"),
    Mutation(
        "dx of lanes of a row without dsum",
        SHORT,
        "g[j] += element_of(x, ahead + j)",
        "g[j] += 0 * element_of(x, ahead + j)",
    ),
    Mutation(
        "the second row of lanes in a word of its own",
        SHORT,
        "columns - 1) * SIZE, rstds",
        "columns) * SIZE, rstds",
    ),
    Mutation(
        "the second row of lanes has the first one's",
        SHORT,
        "SIZE, rstds + row + 1",
        "SIZE, rstds + row",
    ),
    Mutation(
        "the second row of lanes is left out",
        SHORT,
        "    if (group == 2)\n      take_row(",
        "    if (false)\n      take_row(",
    ),
    Mutation("lanes without a row tell nothing", SHORT, "row - begin < rows", "row < rows"),
    Mutation("rows of a slice are not shifted", SHORT, "across ? 16 : 0", "0"),
    Mutation(
        "the end of a slice in a vector",
        SHORT,
        "there > 0 && first + row < args->rows - 1",
        "there > 0",
    ),
    Mutation("the end of a slice is not read", SHORT, "i * SIZE < there", "false"),
    Mutation("rows of a slice begin alike", SHORT, "(byte + row * stride) % 16", "byte % 16"),
    Mutation(
        "what lies beside rows of a slice is theirs",
        SHORT,
        "    word[words - 1] = count < 2 * words - 1 ? 0 : word[words - 1] & 0xffff;\n",
        "    ;\n",
    ),
    Mutation("rows of a slice overlap", SHORT, "(vectors_of_row(columns) | 1) * 16", "16"),
    Mutation(
        "dx of a slice without dsum", SHORT, 'own + ${ "" if apart', 'own + ${ "0 * " if apart'
    ),
    Mutation(
        "dx of short rows without dsum",
        SHORT,
        "value[j] += element_of(x, j)",
        "value[j] += 0 * element_of(x, j)",
    ),
    Mutation("the second of a pair is the first", SHORT, "[number / 2] >> 16)", "[number / 2])"),
    Mutation(
        "a word of two rows has the first one's last but one",
        SHORT,
        "value[0] = value[columns - 1]",
        "value[0] = value[columns - 2]",
    ),
    Mutation("the second of two rows has the first one's", SHORT, "rstds + row + 1", "rstds + row"),
    Mutation(
        "the second of two rows begins with the first one's last",
        SHORT,
        "columns, 1, 1, 4, own",
        "columns, 1, 0, 4, own",
    ),
    Mutation(
        "moments that are no vectors, as vectors", SHORT, "(uint64_t)moments % 16 == 0", "moments"
    ),
    Mutation(
        "the rest of the moments of short rows",
        SHORT,
        "i = vectors * 4 + lane",
        "i = vectors * 4 + 4 + lane",
    ),
    Mutation("rows of a lane are those of the next one", SHORT, "% 32 * group; row", "% 32; row"),
    Mutation(
        "words overlap",
        BWD,
        "thread / LANES * (LANES * VECTORS * ELEMENTS)",
        "thread / LANES * LANES",
    ),
    Mutation("words beyond a row are copied", WORDS, "first + i * stride < columns ? 4 : 0", "4"),
    Mutation(
        "words beyond a row are loaded",
        WORDS,
        "load_4_if(first + column < columns, from + column, 0)",
        "load_4_if(true, from + column, 0)",
    ),
    Mutation(
        "words beyond a row are stored",
        WORDS,
        "store_4_if(first + column < columns",
        "store_4_if(true",
    ),
    Mutation(
        "the first words again",
        WORDS,
        "const int column = (i * 4 + j) * stride;",
        "const int column = j * stride;",
    ),
    Mutation(
        "words of a parameter in the wrong half",
        WORDS,
        "i % 2 ? word[i / 2] | half << 16 : half",
        "i % 2 ? word[i / 2] << 16 | half : half",
    ),
    Mutation("a parameter beyond the row", WORDS, "load_2_if(column < columns", "load_2_if(true"),
    Mutation(
        "words of the next vector", WORDS, "shared + index * 4 * apart", "shared + index * apart"
    ),
]
