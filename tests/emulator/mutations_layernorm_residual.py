"""Single faults in the template of layernorm's rows with a residual, and of those that begin
anywhere and lie in place or with gaps, which come to rings."""

from __future__ import annotations

from mutations import Mutation

BULK = "templates/layernorm/layernorm_fwd_bulk.cu.j2"
RESIDUAL = "templates/layernorm/parts/ring_residual.cu.j2"
ROWS = "templates/layernorm/parts/ring_rows.cu.j2"

KERNELS = [
    ("layernorm_fwd_summed_cols20480_fp32_wfp32_sm90", "w16t1024c3a"),
    ("layernorm_fwd_summed_cols40960_bf16_wfp32_sm90", "w16t1024c2"),
    ("layernorm_fwd_ringed_cols20480_bf16_wbf16_sm90", "w16t512c3a"),
    ("layernorm_fwd_rms_ringed_cols20480_fp32_wfp32_sm90", "w16t1024c2"),
]
"""Rows of two blocks and of one, with a place of the residual and with two."""

MUTATIONS = [
    Mutation(
        "residual: the sum is not stored",
        RESIDUAL,
        "    *(uint4 *)(sum + at) = all;\n",
        "",
    ),
    Mutation(
        "residual: x stays in place of the sum",
        RESIDUAL,
        "    *(uint4 *)(x + at) = all;\n",
        "",
    ),
    Mutation(
        "residual: threads have a vector more",
        RESIDUAL,
        "    if (i == FULL && !own.more)\n      break;\n",
        "",
    ),
    Mutation(
        "residual: it is not awaited",
        ROWS,
        "//% else\n      wait_for_phase(residual_barrier + beside * 8, residual_phase);\n",
        "//% else\n",
    ),
    Mutation(
        "residual: a place's phase does not change",
        ROWS,
        "      residual_phase ^= beside == 0;\n",
        "",
    ),
    Mutation(
        "residual: the next place is always the first",
        ROWS,
        "beside = beside + 1 == BESIDE ? 0 : beside + 1;",
        "beside = 0;",
    ),
    Mutation(
        "residual: the row before it is added",
        ROWS,
        "lane == 0 && round + 1 + BESIDE < count",
        "lane == 0 && round + 2 + BESIDE < count",
    ),
    Mutation(
        "residual: sums of all rows are one",
        ROWS,
        "      residual_from += residual_step;\n      sum += sum_step;\n",
        "      residual_from += residual_step;\n",
    ),
    Mutation(
        "residual: x's stride",
        BULK,
        "residual_step = step * args.residual_row_stride * SIZE",
        "residual_step = step * args.x_row_stride * SIZE",
    ),
    Mutation(
        "residual: x's stride for the sum",
        ROWS,
        "sum_step = step * args.sum_row_stride * SIZE",
        "sum_step = step * args.x_row_stride * SIZE",
    ),
    Mutation(
        "residual: its first vector is in another warp's part",
        BULK,
        "                                       part.begin * 16;\n//% if edged\n",
        "                                       part.begin * 32;\n//% if edged\n",
    ),
    Mutation(
        "edges in rings: they are not put to the place",
        RESIDUAL,
        "  store_element(place, SIZE, edge, x);\n",
        "",
    ),
    Mutation(
        "edges in rings: the sum's are not stored",
        RESIDUAL,
        "    store_element(sum, SIZE, edge, x);\n",
        "",
    ),
    Mutation(
        "edges in rings: the residual's are left out",
        RESIDUAL,
        "widen_element_${ dtype }(x) + widen_element_${ dtype }(residual)",
        "widen_element_${ dtype }(x)",
    ),
    Mutation(
        "edges in rings: the first vector's sum is written whole",
        RESIDUAL,
        "(i == 0 && own.head != 0) || ",
        "",
    ),
    Mutation(
        "edges in rings: the last vector's sum is written whole",
        RESIDUAL,
        "|| (i >= FULL - 1 && i == own.last)",
        "",
    ),
    Mutation(
        "edges in rings: elements before a row are its own",
        BULK,
        "(begins && lane < ELEMENTS && lane >= part.odd) ||\n"
        "                        (ends && lane >= ELEMENTS && lane < 2 * ELEMENTS && edge < end);\n"
        "  const int skipped",
        "(begins && lane < ELEMENTS) ||\n"
        "                        (ends && lane >= ELEMENTS && lane < 2 * ELEMENTS && edge < end);\n"
        "  const int skipped",
    ),
    Mutation(
        "edges in rings: what lies beside them is not cleared",
        BULK,
        "      store_element(ring + i * PLACE_BYTES, SIZE, edge, 0);\n",
        "      ;\n",
    ),
    Mutation(
        "edges in rings: the first vector is brought whole",
        BULK,
        "const int skipped = begins ? 16 : 0;",
        "const int skipped = 0;",
    ),
    Mutation(
        "edges in rings: the last vector is brought whole",
        BULK,
        "part.vectors * 16 - skipped - (ends ? 16 : 0)",
        "part.vectors * 16 - skipped",
    ),
    Mutation(
        "edges in rings: all rows have the first one's",
        ROWS,
        "      x_edge = load_edge(args.x, args.x_row_stride, row + 2 * step, more, edge_at);\n",
        "",
    ),
    Mutation(
        "edges in rings: a row's begin is counted from the matrix's",
        BULK,
        "(uint64_t)args.x + (uint64_t)(first_row * args.x_row_stride * SIZE)",
        "(uint64_t)(first_row * args.x_row_stride * SIZE)",
    ),
]
