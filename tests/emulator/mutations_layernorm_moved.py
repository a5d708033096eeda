"""Single faults in the template of layernorm's rows that are moved in registers to where they lie
in y."""

from __future__ import annotations

from mutations import Mutation

MOVED = "templates/layernorm/layernorm_fwd_moved.cu.j2"

KERNELS = [
    ("layernorm_fwd_moved_cols96_bf16_wbf16_sm90", "w8t4b4"),
    ("layernorm_fwd_rms_moved_cols320_fp16_wbf16_sm90", "w8t8b4"),
    ("layernorm_fwd_moved_cols1536_bf16_wfp16_sm90", "w8t32b4"),
]
"""Rows of four lanes, of eight and of a warp."""

MUTATIONS = [
    Mutation("moved: a row is not where y begins", MOVED, "shift == 0 ? -1 : shift / 2", "-1"),
    Mutation("moved: no half a word", MOVED, "shift % 2 * 16", "0 * shift"),
    Mutation(
        "moved: the last lane's next vector is the first lane's own",
        MOVED,
        "i + 1 < VECTORS ? x[i + 1] : x[i]",
        "x[i]",
    ),
    Mutation(
        "moved: the next lane is another row's",
        MOVED,
        "lane / LANES * LANES + (thread + 1) % LANES",
        "(lane + 1) % 32",
    ),
    Mutation(
        "moved: the third word of the next vector is the second",
        MOVED,
        "word[6] = __shfl_sync(0xffffffff, told.z, next);",
        "word[6] = __shfl_sync(0xffffffff, told.y, next);",
    ),
    Mutation(
        "moved: x begins in y's first vector", MOVED, "own < odd ? own + ELEMENTS : own", "own"
    ),
    Mutation(
        "moved: x is read behind its last element",
        MOVED,
        "is_last ? x_end / ELEMENTS : (x_end + ELEMENTS - 1) / ELEMENTS",
        "(x_end + ELEMENTS - 1) / ELEMENTS",
    ),
    Mutation("moved: rows that are not there are read", MOVED, "most = !has ? 0 :", "most ="),
    Mutation(
        "moved: what the first and the last row have beside vectors is not read",
        MOVED,
        "if (has && (is_first || is_last)) {",
        "if (false) {",
    ),
    Mutation(
        "moved: elements behind a row are its own",
        MOVED,
        "      x[i] = choose_bits(mask_elements(cut.end), x[i], fill);\n",
        "      (void)x;\n",
    ),
    Mutation(
        "moved: elements before a row are its own",
        MOVED,
        "    x[0] = choose_bits(mask_elements(cut.odd), fill, x[0]);\n",
        "    (void)x;\n",
    ),
    Mutation(
        "moved: vectors behind a row count",
        MOVED,
        "    if (at >= cut.vectors)\n      x[i] = fill;\n",
        "",
    ),
    Mutation(
        "moved: x's stride for y", MOVED, "row * args.y_row_stride", "row * args.x_row_stride"
    ),
    Mutation(
        "moved: all rows of y begin as the first",
        MOVED,
        "((uint64_t)args.y + (uint64_t)y_begin) % 16",
        "(uint64_t)args.y % 16",
    ),
    Mutation(
        "moved: y's first vector is written as a whole",
        MOVED,
        "i == 0 && thread == 0 && cut.odd != 0",
        "false",
    ),
    Mutation(
        "moved: y's last vector is written as a whole",
        MOVED,
        "i >= SURE && cut.end != 0 && at == cut.vectors - 1)\n      ends[1]",
        "false)\n      ends[1]",
    ),
    Mutation(
        "moved: y's last elements are not written", MOVED, "place - ELEMENTS < cut.end;", "false;"
    ),
    Mutation(
        "moved: few lanes write some of a row's ends",
        MOVED,
        "place += LANES",
        "place += 2 * ELEMENTS",
    ),
    Mutation(
        "moved: no barrier before the parameters' ends are read",
        MOVED,
        "  // All lanes arrive and wait: the ends of the parameters are there.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "moved: no barrier before a row's ends are written",
        MOVED,
        "  // All lanes arrive and wait: what is at the row's ends is there.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "moved: a parameter is read before its begin", MOVED, "index > 0 && index <= whole", "true"
    ),
    Mutation("moved: a parameter is read beyond its end", MOVED, "inside || index < whole", "true"),
    Mutation(
        "moved: parameters begin with a vector",
        MOVED,
        "words_across(word + 3 - first",
        "words_across(word + 3",
    ),
    Mutation(
        "moved: far values are not added up again",
        MOVED,
        "FAR * squares)",
        "3.4e38f + 0.0f * squares)",
    ),
    Mutation(
        "moved: far values count what is no row's",
        MOVED,
        "    fill_ends(cut, thread, half | half << 16, x);\n",
        "",
    ),
    Mutation(
        "moved: moments of rows that are not there", MOVED, "has && thread == 0", "thread == 0"
    ),
]
