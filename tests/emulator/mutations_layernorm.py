"""Single faults in layernorm's templates and device headers, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

FWD = "templates/layernorm/layernorm_fwd.cu.j2"
FWD_LONG = "templates/layernorm/layernorm_fwd_long.cu.j2"
BWD = "templates/layernorm/layernorm_bwd.cu.j2"
DX = "templates/layernorm/layernorm_bwd_dx.cu.j2"
PARAMS = "templates/layernorm/layernorm_bwd_params.cu.j2"
REDUCE = "templates/layernorm/layernorm_bwd_reduce.cu.j2"
NORM = "include/attnpress/device/row_norm.cuh"
LANES = "include/attnpress/device/lanes.cuh"
FWD_ODD = "templates/layernorm/layernorm_fwd_odd.cu.j2"
BWD_ODD = "templates/layernorm/layernorm_bwd_odd.cu.j2"
ODD_ROWS = "templates/layernorm/parts/odd_rows.cu.j2"
FWD_PACKED = "templates/layernorm/layernorm_fwd_packed.cu.j2"
FWD_BULK = "templates/layernorm/layernorm_fwd_bulk.cu.j2"
FWD_DIRECT = "templates/layernorm/layernorm_fwd_direct.cu.j2"
FWD_WIDE = "templates/layernorm/layernorm_fwd_wide.cu.j2"
ABSENT = "templates/layernorm/parts/absent_parameters.cu.j2"
FWD_GATHERED = "templates/layernorm/layernorm_fwd_gathered.cu.j2"
FWD_PAIRS = "templates/layernorm/layernorm_fwd_pairs.cu.j2"
FWD_CLUSTER = "templates/layernorm/layernorm_fwd_cluster.cu.j2"
BWD_CLUSTER = "templates/layernorm/layernorm_bwd_cluster.cu.j2"
BWD_SORTED = "templates/layernorm/layernorm_bwd_sorted.cu.j2"
BWD_ODD_CLUSTER = "templates/layernorm/layernorm_bwd_odd_cluster.cu.j2"
CLUSTER_GRADIENTS = "templates/layernorm/parts/cluster_gradients.cu.j2"
CLUSTER_ROW = "templates/layernorm/parts/cluster_row.cu.j2"
CLUSTER_ROWS = "templates/layernorm/parts/cluster_rows.cu.j2"
ROW_PARTS = "templates/layernorm/parts/row_parts.cu.j2"
RING_PLACES = "templates/layernorm/parts/ring_places.cu.j2"
RING_VECTORS = "templates/layernorm/parts/ring_vectors.cu.j2"
RING_SUMS = "templates/layernorm/parts/ring_sums.cu.j2"
RING_FEW = "templates/layernorm/parts/ring_few.cu.j2"
RING_ROWS = "templates/layernorm/parts/ring_rows.cu.j2"

KERNELS = [
    ("layernorm_fwd_cols64_bf16_wbf16_sm80", "w4t4b2ah"),
    ("layernorm_fwd_cols1024_fp32_wfp16_sm80", "w4t64b2c2"),
    ("layernorm_fwd_rms_cols512_fp16_wfp32_sm80", "w4t64b2a"),
    ("layernorm_fwd_cols131072_bf16_wbf16_sm80", "w4v2"),
    ("layernorm_fwd_rms_cols131072_fp32_wfp32_sm80", "w4v2"),
    ("layernorm_bwd_cols256_bf16_wbf16_sm80", "w4t8ah"),
    ("layernorm_bwd_cols1024_fp32_wbf16_sm80", "w4t128c2s"),
    ("layernorm_bwd_rms_cols512_fp16_wfp32_sm80", "w4t64c1h"),
    ("layernorm_bwd_dx_cols131072_bf16_wbf16_sm80", "w4v2"),
    ("layernorm_bwd_params_cols131072_fp32_wfp32_sm80", "w4v2"),
    ("layernorm_bwd_reduce_cols131072_fp32_wbf16_sm80", "w4v2"),
    ("layernorm_fwd_cols1024_bf16_wfp16_sm80", "w4t64c2hk"),
    ("layernorm_fwd_odd_cols64_bf16_wbf16_sm80", "w2t4c2p"),
    ("layernorm_fwd_rms_odd_cols512_fp16_wfp32_sm80", "w4t64c1"),
    ("layernorm_fwd_odd_cols512_fp16_wfp16_sm80", "w4t16c2"),
    ("layernorm_fwd_odd_cols512_bf16_wfp16_sm80", "w4t64c2"),
    ("layernorm_bwd_odd_cols128_fp16_wbf16_sm80", "w4t8c2"),
    ("layernorm_bwd_rms_odd_cols512_bf16_wfp32_sm80", "w2t64c1"),
    ("layernorm_bwd_odd_cols256_bf16_wfp16_sm80", "w2t8c2"),
    ("layernorm_bwd_odd_cols8192_bf16_wbf16_sm80", "w16t512c2"),
    ("layernorm_bwd_shifted_cols128_bf16_wbf16_sm90", "w4t8c2"),
    ("layernorm_bwd_rms_shifted_cols512_fp16_wfp32_sm90", "w2t64c1"),
    ("layernorm_fwd_cols32768_bf16_wbf16_sm90", "w4t512c2"),
    ("layernorm_fwd_rms_cols32768_fp16_wfp32_sm90", "w16t2048c2"),
    ("layernorm_fwd_cols32768_fp32_wfp16_sm90", "w16t2048c2"),
    ("layernorm_fwd_cols32768_fp32_wfp32_sm90", "w8t1024c2"),
    ("layernorm_bwd_cols32768_bf16_wfp16_sm90", "w16t2048c2"),
    ("layernorm_bwd_rms_cols24576_fp16_wfp32_sm90", "w8t512c3"),
    ("layernorm_bwd_cols16384_bf16_wfp32_sm90", "w8t512c2m"),
    ("layernorm_bwd_cols12288_fp32_wbf16_sm90", "w8t512c2"),
    ("layernorm_bwd_odd_cols10240_bf16_wbf16_sm90", "w10t640c2"),
    ("layernorm_bwd_sorted_cols10240_bf16_wbf16_sm90", "w15t320g3c2"),
    ("layernorm_bwd_rms_sorted_cols49152_fp16_wfp32_sm90", "w12t1536c2m"),
    ("layernorm_bwd_rms_odd_cols20480_fp16_wfp32_sm90", "w10t1280c3m"),
    ("layernorm_fwd_packed_cols1024_fp32_wbf16_sm90", "w2t32c2pn4"),
    ("layernorm_fwd_rms_packed_cols10240_fp16_wfp32_sm90", "w16t512c2n1"),
    ("layernorm_fwd_packed_cols10240_fp16_wfp32_sm90", "w16t512c2n1"),
    ("layernorm_fwd_packed_cols1024_fp32_wfp32_sm90", "w4t64c2n4"),
    ("layernorm_fwd_packed_cols1024_fp32_wbf16_sm90", "w4t64c3n2"),
    ("layernorm_fwd_bulk_cols192_bf16_wbf16_sm90", "w2t4c2"),
    ("layernorm_fwd_rms_bulk_cols2048_fp16_wbf16_sm90", "w4t64c3"),
    ("layernorm_fwd_bulk_cols2560_fp32_wbf16_sm90", "w4t256c2"),
    ("layernorm_fwd_cut_cols3072_bf16_wbf16_sm90", "w2t64c2"),
    ("layernorm_fwd_cut_cols3072_fp16_wfp16_sm90", "w4t64c2"),
    ("layernorm_fwd_rms_cut_cols3072_fp16_wbf16_sm90", "w4t128c3"),
    ("layernorm_fwd_direct_cols896_bf16_wbf16_sm90", "w2t32"),
    ("layernorm_fwd_direct_cols2048_fp16_wbf16_sm90", "w2t64"),
    ("layernorm_fwd_rms_direct_cols10240_bf16_wbf16_sm90", "w10t320"),
    ("layernorm_fwd_direct_cols640_fp16_wfp16_sm90", "w8t16b2"),
    ("layernorm_fwd_cut_cols512_bf16_wbf16_sm90", "w2t8c2"),
    ("layernorm_fwd_cut_cols640_fp16_wfp16_sm90", "w2t16c3"),
    ("layernorm_fwd_rms_cut_cols512_bf16_wfp16_sm90", "w2t32c2"),
    ("layernorm_fwd_cut_cols20480_fp32_wbf16_sm90", "w8t1024c2"),
    ("layernorm_fwd_wide_cols20480_bf16_wbf16_sm90", "w16t512c5"),
    ("layernorm_fwd_wide_cols49152_fp16_wfp16_sm90", "w16t512c5"),
    ("layernorm_fwd_wide_cols32768_fp32_wfp32_sm90", "w16t512c6"),
    ("layernorm_fwd_wide_cols20480_bf16_wfp32_sm90", "w16t512c4"),
    ("layernorm_fwd_pairs_cols64_bf16_wbf16_sm90", "w2t1b16c1pn64"),
    ("layernorm_fwd_pairs_cols256_fp16_wfp32_sm90", "w2t8b16c1pn8"),
    ("layernorm_fwd_gathered_cols64_bf16_wbf16_sm90", "w2t4c1pn16"),
    ("layernorm_fwd_rms_gathered_cols256_fp16_wfp32_sm90", "w2t8c1pn8"),
]
"""Rows of a few threads and of several warps, several a block, rows that are loaded ahead to
registers and to shared memory, weights that are held and that are not, sums in registers and in
shared memory, rows that are read twice, rows of a cluster, of few warps and of many; both norms;
each dtype."""

MUTATIONS = [
    Mutation("no barrier: warps of a row, fwd", FWD, "    __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, fwd long", FWD_LONG, "  __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, bwd", BWD, "    __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, dx", DX, "  __syncthreads();\n", ""),
    Mutation("no barrier: groups' sums, bwd", BWD, "    __syncthreads();\n", "", 2),
    Mutation("no barrier: the next vector's sums, bwd", BWD, "    __syncthreads();\n", "", 3),
    Mutation("no barrier: warps' sums, params", PARAMS, "  __syncthreads();\n", "", 2),
    Mutation("no barrier: warps' sums, reduce", REDUCE, "  __syncthreads();\n", ""),
    Mutation("one place for the moments of two rows", FWD, "turn ^= 1", "turn ^= 0"),
    Mutation("one place for the sums of two rows", BWD, "turn ^= 1", "turn ^= 0"),
    Mutation(
        "a row is not waited for, fwd", FWD, "cp_async_wait(SLOTS - 1)", "cp_async_wait(SLOTS)"
    ),
    Mutation(
        "a row is not waited for, bwd", BWD, "cp_async_wait(SLOTS - 1)", "cp_async_wait(SLOTS)"
    ),
    Mutation("the next row in the wrong slot, fwd", FWD, "row + SLOTS * step", "row + step"),
    Mutation("the next row in the wrong slot, bwd", BWD, "row + SLOTS * step", "row + step"),
    Mutation(
        "the next row's moments", BWD, "load_moments(args, row + step)", "load_moments(args, row)"
    ),
    Mutation(
        "the same row again, ahead", FWD, "row + step, args.x_row_stride", "row, args.x_row_stride"
    ),
    Mutation(
        "rows of a group side by side", FWD, "(int64_t)gridDim.x * GROUPS", "(int64_t)gridDim.x"
    ),
    Mutation(
        "rows past the end are there", FWD, "row < args->rows ? args->columns : 0", "args->columns"
    ),
    Mutation(
        "rows past the end are there, bwd",
        BWD,
        "row < args->rows ? args->columns : 0",
        "args->columns",
    ),
    Mutation("the sum is not written", FWD, "    store_row(sum", "    if (0) store_row(sum"),
    Mutation(
        "elements of odd rows that are not there count",
        FWD,
        "apart = odd ? ROW_THREADS : 1",
        "apart = odd ? 1 : 1",
    ),
    Mutation(
        "a vector of odd rows begins as others do",
        FWD,
        "first = odd ? thread : thread * ELEMENTS",
        "first = thread * ELEMENTS",
    ),
    Mutation(
        "elements of odd rows stored as vectors",
        NORM,
        "(4 * index + j) * stride + first",
        "4 * (index * stride + first) + j",
    ),
    Mutation(
        "parameters of odd rows as vectors",
        FWD,
        "index * ELEMENTS * ROW_THREADS + thread, ELEMENTS * ROW_THREADS,",
        "index * ELEMENTS * ROW_THREADS + thread, ELEMENTS * ROW_THREADS + 1,",
    ),
    Mutation(
        "elements of odd rows are counted as vectors", FWD, "(float)(odd ?", "(float)(false ?"
    ),
    Mutation(
        "the sum is not rounded", FWD_LONG, "vector[i] = narrow", "if (i % 2) vector[i] = narrow"
    ),
    Mutation(
        "the mean without a count",
        FWD,
        "sum_lanes(sum_values(x), LANES) * args.per_column",
        "sum_lanes(sum_values(x), LANES) / COLUMNS",
    ),
    Mutation("the variance without a count", FWD, "squares * args.per_column", "squares / COLUMNS"),
    Mutation("eps is forgotten", FWD, "args.per_column + args.eps", "args.per_column"),
    Mutation("columns that are not there count", FWD, "if (j * apart < left)", "if (true)"),
    Mutation("the mean's factor", FWD, "(value[j] - mean) * rstd", "value[j] * rstd - mean"),
    Mutation("the bias is multiplied", FWD, "value[j] += parameter[j]", "value[j] *= parameter[j]"),
    Mutation(
        "mean and rstd of the wrong row",
        FWD,
        "args.rstd[row] = rstd",
        "args.rstd[first] = rstd",
    ),
    Mutation(
        "y with the stride of x",
        FWD,
        "row_of(args.y, row, args.y_row_stride)",
        "row_of(args.y, row, args.x_row_stride)",
    ),
    Mutation("rows in 32 bits", FWD, "row * stride * SIZE", "(int)(row * stride * SIZE)"),
    Mutation("rows in 32 bits, bwd", BWD, "row * stride * SIZE", "(int)(row * stride * SIZE)"),
    Mutation("the count of the wrong warp", FWD, "thread / 32 * 32, 32", "0, 32", 0),
    Mutation(
        "parts' means are not brought together",
        NORM,
        "part.count == 0.0f ? 0.0f : part.mean - mean",
        "0.0f",
    ),
    Mutation(
        "moments that are added without their distance",
        NORM,
        "a.squares + b.squares + difference * difference * a.count * share",
        "a.squares + b.squares",
    ),
    Mutation(
        "a mean of half the values", NORM, "part.mean *= 1.0f / count", "part.mean *= 2.0f / count"
    ),
    Mutation(
        "a vector too many",
        NORM,
        "(first + i * stride) * elements < columns",
        "(first + i * stride) * elements <= columns",
    ),
    Mutation(
        "all rows are aligned", NORM, "(uint64_t)row % 16 == 0 && columns % elements == 0", "true"
    ),
    Mutation(
        "all rows are aligned, stores",
        NORM,
        "(uint64_t)row % 16 == 0 && columns % elements == 0",
        "true",
        3,
    ),
    Mutation(
        "rows of odd lengths are whole",
        NORM,
        "(uint64_t)row % 16 == 0 && columns % elements == 0",
        "(uint64_t)row % 16 == 0",
    ),
    Mutation("copies are not zeros beyond the row", NORM, "has ? 16 : 0", "16"),
    Mutation("all parameters are aligned", NORM, "% bytes == 0 && column", "% 1 == 0 && column"),
    Mutation(
        "halves of a parameter's word change places",
        NORM,
        "i % 2 ? word[i / 2] & 0xffff0000 : word[i / 2] << 16",
        "i % 2 ? word[i / 2] << 16 : word[i / 2] & 0xffff0000",
    ),
    Mutation("a parameter's last column", NORM, "at + 1 < columns", "at + 2 < columns"),
    Mutation("an odd row's last element", NORM, "column + i < columns", "column + i + 1 < columns"),
    Mutation(
        "the long row's edge is left out",
        FWD_LONG,
        "if (has_edge)\n    part",
        "if (false)\n    part",
    ),
    Mutation("a step too few", FWD_LONG, "step < steps; ++step", "step < steps - 1; ++step"),
    Mutation(
        "vectors that are not there count",
        FWD_LONG,
        "if (first + i * THREADS < cut.vectors)\n        part",
        "if (true)\n        part",
    ),
    Mutation(
        "x again, not the sum",
        FWD_LONG,
        "    if (args.residual)\n      load_vectors(sum,",
        "    if (args.residual)\n      load_vectors(x,",
    ),
    Mutation(
        "the weight of the wrong columns",
        FWD_LONG,
        "load_parameters(args.weight, column",
        "load_parameters(args.weight, column / 2",
    ),
    Mutation("dx without dsum", BWD, "g[j] += more[j]", "g[j] += 0 * more[j]"),
    Mutation(
        "dx of layer norm without the mean of g",
        BWD,
        "sum = CENTERED ? sum_lanes(sum, LANES) : 0.0f",
        "sum = 0.0f",
    ),
    Mutation("dx without the dot product", BWD, "g[j] - sum - x[j] * dot", "g[j] - sum"),
    Mutation(
        "dweight of g", BWD, "weight_sum[i][j] += dy[j] * x[j]", "weight_sum[i][j] += g[j] * x[j]"
    ),
    Mutation("dbias of g", BWD, "bias_sum[i][j] += dy[j]", "bias_sum[i][j] += g[j]"),
    Mutation(
        "sums in shared memory begin as they are",
        BWD,
        "    weight_sums[i * THREADS] = zero",
        "    if (i) weight_sums[i * THREADS] = zero",
    ),
    Mutation(
        "the parts of the wrong block",
        BWD,
        "(int64_t)blockIdx.x * columns + column",
        "(int64_t)(blockIdx.x / 2) * columns + column",
    ),
    Mutation(
        "lanes of other rows are left out",
        BWD,
        "int distance = LANES; distance < 32",
        "int distance = LANES; distance < 16",
    ),
    Mutation(
        "warps of other rows are left out",
        BWD,
        "from < THREADS; from += STEP",
        "from < THREADS - STEP; from += STEP",
    ),
    Mutation(
        "rows are stored over each other",
        BWD,
        "store_columns(dx, SIZE, columns, i * ROW_THREADS + thread",
        "store_columns(dx, SIZE, columns, thread",
    ),
    Mutation("x in place of x^, dx", DX, "(a[j] - mean) * rstd * dot", "a[j] * rstd * dot"),
    Mutation("the edge's dx without its weight", DX, "g_edge *= widen", "g_edge += 0 * widen"),
    Mutation(
        "back from a step too early, dx",
        DX,
        "int step = steps - 1; step",
        "int step = steps - 2; step",
    ),
    Mutation("the edge's dx without dsum", DX, "gradient += widen", "gradient += 0 * widen"),
    Mutation(
        "rows of another part",
        PARAMS,
        "(int64_t)args.parts * WARPS * STEP",
        "(int64_t)WARPS * STEP",
    ),
    Mutation(
        "a row's own rstd", PARAMS, "(a[j] - mean[i]) * rstd[i]", "(a[j] - mean[i]) * rstd[0]"
    ),
    Mutation(
        "the last warp is left out", PARAMS, "other < WARPS; ++other", "other < WARPS - 1; ++other"
    ),
    Mutation(
        "the columns of the first block", PARAMS, "blockIdx.x / args.parts * 32 +", "0 * 32 +"
    ),
    Mutation("dbias in place of dweight", REDUCE, "(int)blockIdx.x < tiles", "(int)blockIdx.x < 0"),
    Mutation("a part too few", REDUCE, "part < count && column", "part < count - 1 && column"),
    Mutation("a part by elements too few", REDUCE, "part < count ?", "part < count - 1 ?"),
    Mutation("the parts of all groups", REDUCE, "first = group;", "first = 0;"),
    Mutation("columns past the end, reduce", REDUCE, "column < columns,", "true,"),
    Mutation(
        "the parts are not waited for by a warp",
        REDUCE,
        "other < groups; ++other",
        "other < groups - 1; ++other",
    ),
    Mutation(
        "kept in shared memory: the next row is another",
        FWD,
        "row + SLOTS * step",
        "row + step",
        3,
    ),
    Mutation(
        "kept in shared memory: neighbours' vectors",
        FWD,
        "constexpr int APART = THREADS",
        "constexpr int APART = 1",
    ),
    Mutation("no barrier: a piece that has come, odd", FWD_ODD, "    __syncwarp();\n", ""),
    Mutation("no barrier: a piece that goes, odd", FWD_ODD, "      __syncwarp();\n", ""),
    Mutation("no barrier: a piece that has gone, odd", FWD_ODD, "    __syncwarp();\n", "", 2),
    Mutation("no barrier: warps of a row, odd", FWD_ODD, "    __syncthreads();\n", ""),
    Mutation("no barrier: warps of a row, odd rms", FWD_ODD, "    __syncthreads();\n", "", 2),
    Mutation("no barrier: warps of a row, odd bwd", BWD_ODD, "    __syncthreads();\n", ""),
    Mutation("no barrier: groups' sums, odd bwd", BWD_ODD, "  __syncthreads();\n  for", "  for"),
    Mutation(
        "odd rows have vectors that no thread has",
        BWD_ODD,
        "min(cut.vectors, VECTORS * ROW_THREADS)",
        "cut.vectors",
    ),
    Mutation(
        "what lies beyond all vectors is not read",
        BWD_ODD,
        "cut.edges = columns - cut.vectors * ELEMENTS",
        "cut.edges += 0",
    ),
    Mutation(
        "long rows with one element a thread beside vectors",
        BWD_ODD,
        "walk_block(EDGES, &args, smem)",
        "walk_block(EDGES / 2, &args, smem)",
    ),
    Mutation("no barrier: rows done, odd bwd", BWD_ODD, "  __syncthreads();\n  store", "  store"),
    Mutation("one place for the moments of two odd rows", FWD_ODD, "turn ^= 1", "turn ^= 0"),
    Mutation("one place for the sums of two odd rows", BWD_ODD, "turn ^= 1", "turn ^= 0"),
    Mutation("odd rows are not waited for", FWD_ODD, "wait(SLOTS - 1)", "wait(SLOTS)"),
    Mutation("odd rows are not waited for, bwd", BWD_ODD, "wait(SLOTS - 1)", "wait(SLOTS)"),
    Mutation("odd rows past the end are there", ODD_ROWS, "row >= args->rows", "false"),
    Mutation(
        "an odd row's vector too many",
        ODD_ROWS,
        "index < cut.vectors)\n      cp",
        "index <= cut.vectors)\n      cp",
    ),
    Mutation(
        "a parameter where no row is cut",
        ODD_ROWS,
        "vector_column(cut, SIZE, index) * P",
        "index * 8 * P",
    ),
    Mutation("all parameters are words, odd", NORM, "(uint64_t)from % 4 == 0", "true"),
    Mutation("no parameters are words, odd", NORM, "(uint64_t)from % 4 == 0", "false"),
    Mutation("halves of neighbouring words", NORM, "loaded[j - 1] >> 16", "loaded[j] >> 16"),
    Mutation("a parameter's first element, odd", NORM, "j == 0 ? first", "j == 0 ? 0"),
    Mutation(
        "a parameter's last element, odd", NORM, "from + count * 2 - 2", "from + count * 2 - 4"
    ),
    Mutation("an edge's parameter", ODD_ROWS, "edge[i] = widen", "if (i) edge[i] = widen"),
    Mutation(
        "all edges of a thread are one",
        ODD_ROWS,
        "edge_column(cut, i * ROW_THREADS + thread)",
        "edge_column(cut, thread)",
    ),
    Mutation(
        "edges that are not there are stored",
        ODD_ROWS,
        "thread < cut.edges, row + byte[i], edge",
        "thread < 14, row + byte[i], edge",
    ),
    Mutation("packed rows with gaps", FWD_ODD, "stride == args->columns && ", ""),
    Mutation("packed rows from anywhere on", FWD_ODD, " && (uint64_t)matrix % 16 == 0", ""),
    Mutation("y is packed if x is", FWD_ODD, "is_packed(&args, args.y, args.y_row_stride)", "true"),
    Mutation("a warp's rows past the end", FWD_ODD, "+ PERIOD <= args->rows", "<= args->rows"),
    Mutation(
        "a piece's last vector",
        FWD_ODD,
        "index < columns)\n      cp",
        "index < columns - 1)\n      cp",
    ),
    Mutation(
        "a piece's last vector, back",
        FWD_ODD,
        "index < columns)\n      *",
        "index < columns - 1)\n      *",
    ),
    Mutation(
        "the first of a warp's rows", FWD_ODD, "group % PERIOD * args.columns", "0 * args.columns"
    ),
    Mutation("a piece of y elsewhere", FWD_ODD, "row - group % PERIOD, args.y", "row, args.y"),
    Mutation("a row where x does not begin", FWD_ODD, "ROW_BYTES + (uint64_t)x % 16", "ROW_BYTES"),
    Mutation(
        "a row where x does not begin, bwd",
        BWD_ODD,
        "ROW_BYTES + (uint64_t)first % 16",
        "ROW_BYTES",
    ),
    Mutation("the next odd rows in the wrong slot", FWD_ODD, "row + SLOTS * step", "row + step", 2),
    Mutation(
        "the next piece in the wrong slot",
        FWD_ODD,
        "later = row + SLOTS * step",
        "later = row + step",
    ),
    Mutation(
        "the next odd rows in the wrong slot, bwd", BWD_ODD, "row + SLOTS * step", "row + step"
    ),
    Mutation(
        "the next odd rows in the wrong slot, made twice",
        BWD_ODD,
        "row + SLOTS * step",
        "row + step",
        2,
    ),
    Mutation(
        "x^ of odd rows is not made again",
        BWD_ODD,
        "thread, moments, x_hat + i * ELEMENTS, gradient",
        "thread, next_moments, x_hat + i * ELEMENTS, gradient",
        2,
    ),
    Mutation(
        "g of odd rows is made again without its weight",
        BWD_ODD,
        "g[i * ELEMENTS + j] = gradient[j] * factor[j]",
        "g[i * ELEMENTS + j] = gradient[j]",
    ),
    Mutation(
        "g of odd rows is kept without its weight",
        BWD_ODD,
        "g[k] = gradient[j] * factor[j]",
        "g[k] = gradient[j]",
    ),
    Mutation(
        "the next odd row's edges", FWD_ODD, "row_of(args.x, row + step,", "row_of(args.x, row,"
    ),
    Mutation(
        "the next odd row's edges, x",
        BWD_ODD,
        "row_of(args->x, row + step,",
        "row_of(args->x, row,",
    ),
    Mutation(
        "the next odd row's edges, dy",
        BWD_ODD,
        "row_of(args->dy, row + step,",
        "row_of(args->dy, row,",
    ),
    Mutation(
        "absent vectors count, odd",
        FWD_ODD,
        "thread < cut.vectors ? mean : 0.0f",
        "thread < 0 ? 0.0f : mean",
    ),
    Mutation(
        "absent edges count, odd",
        FWD_ODD,
        "thread < cut.edges ? mean : 0.0f",
        "thread < 0 ? 0.0f : mean",
    ),
    Mutation(
        "vectors of a warp's count, odd",
        FWD_ODD,
        "cut.vectors ? ELEMENTS : 0",
        "cut.vectors ? 1 : 0",
    ),
    Mutation("edges of a warp's count, odd", FWD_ODD, "cut.edges ? 1 : 0", "cut.edges ? 0 : 1"),
    Mutation(
        "the mean is not taken off, odd", FWD_ODD, "offset = -mean * rstd", "offset = 0 * mean"
    ),
    Mutation("an edge's bias, odd", FWD_ODD, "bias_edge[i - VECTORS * ELEMENTS]", "0.0f"),
    Mutation(
        "mean and rstd of the wrong row, odd", FWD_ODD, "args.rstd[row]", "args.rstd[row - group]"
    ),
    Mutation("the sum without the residual, odd", FWD_ODD, "a[j] += b[j]", "a[j] += 0 * b[j]"),
    Mutation(
        "the sum's edge is left out, odd", FWD_ODD, "store_edges(sum,", "if (0) store_edges(sum,"
    ),
    Mutation(
        "the edges of y are left out, odd",
        FWD_ODD,
        "store_own_edges(y,",
        "if (0) store_own_edges(y,",
        2,
    ),
    Mutation(
        "the wrong moments, odd",
        BWD_ODD,
        "load_moments(args, row + step)",
        "load_moments(args, row)",
    ),
    Mutation(
        "no barrier: shifted rows have come",
        BWD_ODD,
        "    // All lanes arrive and wait: what others brought is there.\n    __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: shifted rows are done",
        BWD_ODD,
        "(HELD)\n      __syncwarp();",
        "(HELD)\n      ;",
    ),
    Mutation(
        "the end of a shifted matrix is not read", BWD_ODD, "row == args->rows - 1, 0", "false, 0"
    ),
    Mutation("the end of a shifted matrix in a vector", BWD_ODD, "shift > 0 && !ends", "shift > 0"),
    Mutation("rows are shifted by words alone", BWD_ODD, "(shift & 2) * 8", "0"),
    Mutation("rows are shifted by half a word alone", BWD_ODD, "own + (shift & 12)", "own"),
    Mutation(
        "what follows shifted vectors does not come",
        BWD_ODD,
        "cp_async_16(to + 16,",
        "cp_async_16(to,",
    ),
    Mutation("shifted rows of dy where x begins", BWD_ODD, "(int)((uint64_t)first % 16)}", "0}"),
    Mutation("dy is cut as x is, odd", BWD_ODD, "is_cut_alike(row, SIZE, cut)", "true"),
    Mutation(
        "dx without dsum, odd", BWD_ODD, "gradient[j] += more[j]", "gradient[j] += 0 * more[j]"
    ),
    Mutation(
        "an edge's dx without dsum, odd", BWD_ODD, "gradient += widen", "gradient += 0 * widen"
    ),
    Mutation(
        "an edge's dx without its weight, odd", BWD_ODD, "gradient * weight_edge[i]", "gradient"
    ),
    Mutation(
        "dweight of g, odd",
        BWD_ODD,
        "weight_sum[k] += gradient[j] * x_hat[k]",
        "weight_sum[k] += g[k] * x_hat[k]",
    ),
    Mutation(
        "an edge's dbias, odd",
        BWD_ODD,
        "bias_sum[k] += gradient;",
        "bias_sum[k] += 0 * gradient;",
    ),
    Mutation(
        "other groups' sums are left out, odd",
        BWD_ODD,
        "i < GROUPS; i += PERIOD",
        "i < PERIOD; i += PERIOD",
    ),
    Mutation(
        "sums of all groups as the first is cut",
        BWD_ODD,
        "blockIdx.x * GROUPS + first",
        "blockIdx.x * GROUPS",
    ),
    Mutation(
        "the edges' sums change places", BWD_ODD, "column < cut.head ? column : after;", "after;"
    ),
    Mutation(
        "rstd once, odd",
        BWD_ODD,
        "dot *= args->per_column * moments.rstd",
        "dot *= args->per_column",
    ),
    Mutation(
        "a cluster's blocks are told before they are there", FWD_CLUSTER, "  cluster_wait();\n", ""
    ),
    Mutation(
        "no wait: warps of a cluster, fwd",
        FWD_CLUSTER,
        "    await_parts(",
        "    if (0) await_parts(",
    ),
    Mutation(
        "no wait: warps of a cluster, bwd",
        BWD_CLUSTER,
        "    await_parts(",
        "    if (0) await_parts(",
    ),
    Mutation(
        "a block of a cluster ends too early, fwd",
        FWD_CLUSTER,
        "\n  await_parts(",
        "\n  if (0) await_parts(",
    ),
    Mutation(
        "neighbouring lanes share the wrong halves of sums, cluster",
        BWD_CLUSTER,
        "odd ? sum[4 + j] : sum[j]",
        "odd ? sum[j] : sum[4 + j]",
    ),
    Mutation(
        "a block of a cluster ends too early, bwd",
        BWD_CLUSTER,
        "\n  await_parts(",
        "\n  if (0) await_parts(",
    ),
    Mutation(
        "one place for the moments of two rows, cluster", FWD_CLUSTER, "turn ^= 1", "turn ^= 0"
    ),
    Mutation("one place for the sums of two rows, cluster", BWD_CLUSTER, "turn ^= 1", "turn ^= 0"),
    Mutation(
        "the parity of a row is that of the first, cluster",
        FWD_CLUSTER,
        "parity ^= turn",
        "parity ^= 0",
    ),
    Mutation(
        "the parity of every row is another, cluster", BWD_CLUSTER, "parity ^= turn", "parity ^= 1"
    ),
    Mutation(
        "the row after the next is not expected, fwd",
        FWD_CLUSTER,
        "      expect_parts(",
        "      if (0) expect_parts(",
    ),
    Mutation(
        "the row after the next is not expected, bwd",
        BWD_CLUSTER,
        "      expect_parts(",
        "      if (0) expect_parts(",
    ),
    Mutation(
        "the next row is expected again, cluster",
        BWD_CLUSTER,
        "      expect_parts(&parts[turn]",
        "      expect_parts(&parts[turn ^ 1]",
    ),
    Mutation("no barrier: lanes that read what is told anew", ROW_PARTS, "  __syncwarp();\n", ""),
    Mutation("a cluster's barriers are not shown", ROW_PARTS, "  fence_mbarrier_init();\n", ""),
    Mutation(
        "the second row is not expected at first",
        ROW_PARTS,
        "i < 2; ++i)\n    expect",
        "i < 1; ++i)\n    expect",
    ),
    Mutation(
        "a warp's bytes too few are awaited",
        ROW_PARTS,
        "ROW_WARPS * (int)sizeof",
        "(ROW_WARPS - 1) * (int)sizeof",
    ),
    Mutation(
        "what is told counts at the first block's barrier",
        ROW_PARTS,
        "&parts->barrier), to)",
        "&parts->barrier), 0)",
    ),
    Mutation(
        "columns before a row's first count, cluster",
        FWD_CLUSTER,
        "if (column >= 0 && left >= ELEMENTS)",
        "if (left >= ELEMENTS)",
    ),
    Mutation(
        "columns before a row's first count one by one, cluster",
        FWD_CLUSTER,
        "if (column + j >= 0 && j < left)",
        "if (j < left)",
    ),
    Mutation(
        "columns after a row's last count, cluster",
        FWD_CLUSTER,
        "if (column + j >= 0 && j < left)",
        "if (column + j >= 0)",
    ),
    Mutation(
        "places before a row's first column are counted",
        CLUSTER_ROWS,
        "warp == 0 ? shift",
        "warp < 0 ? shift",
    ),
    Mutation(
        "more places than threads have",
        CLUSTER_ROWS,
        "columns + shift <= COLUMNS",
        "columns <= COLUMNS",
    ),
    Mutation(
        "parameters of shifted rows",
        CLUSTER_ROWS,
        "columns, column_of(thread, shift, 0)",
        "columns, column_of(thread, 0, 0)",
    ),
    Mutation(
        "a vector elsewhere than at 16 bytes",
        NORM,
        "column + 4 <= columns && ((uint64_t)row + (int64_t)column * 4) % 16 == 0",
        "column + 4 <= columns",
    ),
    Mutation(
        "a vector before a row's begin",
        NORM,
        "return column >= 0 && column + 4",
        "return column + 4",
    ),
    Mutation(
        "a vector past a row's end",
        NORM,
        "column >= 0 && column + 4 <= columns",
        "column >= 0 && column < columns",
    ),
    Mutation(
        "elements of a row copied to the wrong word",
        NORM,
        "cp_async_4(shared_address(shared) + 4 * j,",
        "cp_async_4(shared_address(shared) + 12 - 4 * j,",
    ),
    Mutation("a shifted row's begin is not copied", NORM, "if (first < 0)", "if (first < -4)"),
    Mutation(
        "a shifted row's end is not copied",
        NORM,
        "column < columns && column + 4 > columns)",
        "column < columns && column + 4 > columns + 4)",
    ),
    Mutation(
        "a row that begins otherwise is as shifted as x",
        CLUSTER_ROWS,
        "return (uint64_t)row % 16 == shift * SIZE;",
        "return true;",
    ),
    Mutation("elements that are not there are copied", NORM, "has ? 4 : 0)", "4)"),
    Mutation(
        "columns before a row's first exist",
        NORM,
        "(uint32_t)column < (uint32_t)columns;\n}",
        "column < columns;\n}",
    ),
    Mutation(
        "sums of shifted rows",
        BWD_CLUSTER,
        "const int column = column_of(thread, shift, index);",
        "const int column = column_of(thread, 0, index);",
    ),
    Mutation(
        "the second batch of a residual is the first",
        FWD_CLUSTER,
        "thread, shift, first,\n",
        "thread, shift, 0,\n",
    ),
    Mutation(
        "the first row is not waited for, cluster", FWD_CLUSTER, "wait(SLOTS - 1)", "wait(SLOTS)"
    ),
    Mutation(
        "the first row is not waited for, cluster bwd",
        BWD_CLUSTER,
        "wait(SLOTS - 1)",
        "wait(SLOTS)",
    ),
    Mutation(
        "the next row is not waited for, cluster", FWD_CLUSTER, "wait(SLOTS - 2)", "wait(SLOTS - 1)"
    ),
    Mutation(
        "the next row is not waited for, cluster bwd",
        BWD_CLUSTER,
        "wait(SLOTS - 2)",
        "wait(SLOTS - 1)",
    ),
    Mutation(
        "the next row in the wrong slot, cluster", FWD_CLUSTER, "row + SLOTS * step", "row + step"
    ),
    Mutation(
        "the next row in the wrong slot, cluster bwd",
        BWD_CLUSTER,
        "row + SLOTS * step",
        "row + step",
    ),
    Mutation(
        "the slot after the last, cluster",
        FWD_CLUSTER,
        "slot + 1 == SLOTS ? 0",
        "slot == SLOTS ? 0",
    ),
    Mutation(
        "this row is added up again, cluster",
        FWD_CLUSTER,
        "slots + next * VECTORS",
        "slots + slot * VECTORS",
        2,
    ),
    Mutation(
        "this row is added up again, cluster bwd",
        BWD_CLUSTER,
        "slots + next * ROW",
        "slots + slot * ROW",
    ),
    Mutation(
        "this row's residual again, cluster",
        FWD_CLUSTER,
        "row + step, thread, shift, slots",
        "row, thread, shift, slots",
    ),
    Mutation(
        "the first row's residual is left out, cluster",
        FWD_CLUSTER,
        "add_residual(&args, row, thread, shift, slots);",
        ";",
    ),
    Mutation(
        "the sum is not written, cluster",
        FWD_CLUSTER,
        "      store_part(row_of(args->sum",
        "      if (0) store_part(row_of(args->sum",
    ),
    Mutation("all vectors are whole, cluster", FWD_CLUSTER, "left >= ELEMENTS", "left > 0"),
    Mutation(
        "the count of the wrong warp, cluster",
        FWD_CLUSTER,
        "args.columns, row_warp()",
        "args.columns, threadIdx.x / 32",
    ),
    Mutation(
        "the counts of the first warps, cluster",
        FWD_CLUSTER,
        "i * LANES + threadIdx.x % LANES",
        "threadIdx.x % LANES",
    ),
    Mutation(
        "moments without their distance, cluster",
        FWD_CLUSTER,
        "weighted * difference",
        "0 * difference",
    ),
    Mutation(
        "squares about the first warp's mean, cluster",
        FWD_CLUSTER,
        "sums.y - sums.x * off, squares",
        "sums.y, squares",
    ),
    Mutation(
        "the first warp's mean is the row's, cluster",
        FWD_CLUSTER,
        "mean = about + off",
        "mean = about",
    ),
    Mutation(
        "lanes of two values keep their own, cluster",
        LANES,
        "    value.y += y;",
        "    value.y += 0 * y;",
    ),
    Mutation(
        "x^ with its mean, cluster", FWD_CLUSTER, "value[j] * rstd + offset", "value[j] * rstd"
    ),
    Mutation(
        "the mean is not taken off, cluster",
        FWD_CLUSTER,
        "(value[j] - mean)",
        "(value[j] - 0 * mean)",
    ),
    Mutation(
        "mean and rstd of the wrong row, cluster",
        FWD_CLUSTER,
        "args.rstd[row]",
        "args.rstd[row / 2]",
    ),
    Mutation(
        "y with the stride of x, cluster",
        FWD_CLUSTER,
        "row_of(args.y, row, args.y_row_stride)",
        "row_of(args.y, row, args.x_row_stride)",
    ),
    Mutation(
        "half the warps are not added up, cluster",
        BWD_CLUSTER,
        "i < PARTS",
        "i < PARTS / 2 + PARTS % 2",
    ),
    Mutation(
        "the next row's moments, cluster",
        BWD_CLUSTER,
        "moments = next_moments",
        "next_moments = next_moments",
    ),
    Mutation(
        "the moments of the row after that, cluster", BWD_CLUSTER, "row + 2 * step", "row + step"
    ),
    Mutation(
        "every vector's weight is the first's, cluster",
        CLUSTER_GRADIENTS,
        "weight[(index * (WORDS / 4) + i) *",
        "weight[i *",
    ),
    Mutation(
        "the weight is where a row is, cluster", BWD_CLUSTER, "slots + SLOTS * ROW;", "slots + ROW;"
    ),
    Mutation(
        "half of a vector's weight, cluster",
        CLUSTER_GRADIENTS,
        "words[i * 4 / WORDS] + i * 4 % WORDS",
        "words[i * 4 / WORDS]",
    ),
    Mutation("dx without dsum, cluster", BWD_CLUSTER, "g[j] += more[j]", "g[j] += 0 * more[j]"),
    Mutation(
        "dx without the dot product, cluster", BWD_CLUSTER, "g[j] - sum - x[j] * dot", "g[j] - sum"
    ),
    Mutation(
        "dx without the mean of g, cluster",
        CLUSTER_GRADIENTS,
        "all.x = CENTERED ? sum_lanes(all.x, 32)",
        "all.x = CENTERED ? 0 * all.x",
    ),
    Mutation(
        "dweight of g, cluster",
        BWD_CLUSTER,
        "weight_sum[i][j] += dy[j] * x[j]",
        "weight_sum[i][j] += g[j] * x[j]",
    ),
    Mutation(
        "dbias of g, cluster", BWD_CLUSTER, "bias_sum[i][j] += dy[j]", "bias_sum[i][j] += g[j]"
    ),
    Mutation(
        "the parts of a block, not of a cluster",
        BWD_CLUSTER,
        "(blockIdx.x / CLUSTER) * columns",
        "blockIdx.x * columns",
    ),
    Mutation("blocks walk by themselves", BWD_CLUSTER, "gridDim.x / CLUSTER", "gridDim.x"),
    Mutation(
        "a cluster's blocks are told before they are there, sorted",
        BWD_SORTED,
        "  cluster_wait();\n",
        "",
    ),
    Mutation(
        "no wait: warps of a cluster, sorted",
        BWD_SORTED,
        "    await_parts(",
        "    if (0) await_parts(",
    ),
    Mutation(
        "one place for the sums of two rows, sorted",
        BWD_SORTED,
        "await_parts(&parts[turn % 2], turn / 2 % 2)",
        "await_parts(&parts[0], turn / 2 % 2)",
    ),
    Mutation(
        "the parity of every row is another, sorted",
        BWD_SORTED,
        "turn / 2 % 2",
        "turn % 2",
    ),
    Mutation(
        "the row after the next is not expected, sorted",
        BWD_SORTED,
        "      expect_parts(",
        "      if (0) expect_parts(",
    ),
    Mutation(
        "half the warps are not added up, sorted",
        BWD_SORTED,
        "i < ROW_WARPS; i += 32",
        "i < ROW_WARPS; i += 64",
    ),
    Mutation(
        "warps that are not there are added up, sorted",
        BWD_SORTED,
        "other < ROW_WARPS)",
        "other < ROW_WARPS + 32)",
    ),
    Mutation(
        "rows begin with a vector, sorted",
        BWD_SORTED,
        "(begin + (uint32_t)row * (uint32_t)args->x_row_stride) % ELEMENTS",
        "begin % ELEMENTS",
    ),
    Mutation(
        "the matrix begins with a vector, sorted",
        BWD_SORTED,
        "const uint32_t begin = (uint32_t)((uint64_t)args->x / SIZE);",
        "const uint32_t begin = 0;",
    ),
    Mutation(
        "one class of rows that begin elsewhere, sorted",
        BWD_SORTED,
        "odd == 0 ? 1 : PERIOD / (odd & -odd)",
        "1",
    ),
    Mutation(
        "rows beyond the last are sent, sorted",
        BWD_SORTED,
        "exists ? (int)(end / ELEMENTS) - thread : 0",
        "(int)(end / ELEMENTS) - thread",
    ),
    Mutation(
        "dy where x is, sorted",
        BWD_SORTED,
        "slot + (VECTORS + i) * THREADS * 16,\n                   dy +",
        "slot + i * THREADS * 16,\n                   dy +",
    ),
    Mutation(
        "the last elements stay away, sorted",
        BWD_SORTED,
        "  if (row + 1 == (int)args->rows) {",
        "  if (row < 0) {",
    ),
    Mutation(
        "the last elements of x in dy, sorted",
        BWD_SORTED,
        "*dy = load_last(args, args->dy,",
        "*dy = load_last(args, args->x,",
    ),
    Mutation(
        "elements before a row are its own, sorted",
        BWD_SORTED,
        "choose_bits(mask_elements(shift_of(args, row)), zero, all)",
        "all",
    ),
    Mutation(
        "elements beyond a row are its own, sorted",
        BWD_SORTED,
        "masks->last = mask_elements(rest_of(args, row))",
        "masks->last = mask_elements(ELEMENTS)",
    ),
    Mutation(
        "an element more than a row has, sorted",
        BWD_SORTED,
        "masks->last = mask_elements(rest_of(args, row))",
        "masks->last = mask_elements(rest_of(args, row) + 1)",
    ),
    Mutation(
        "dx's first vector is whole, sorted",
        BWD_SORTED,
        "whole_vectors && (i > 0 || !has_first)",
        "whole_vectors",
    ),
    Mutation(
        "dx's last vector is whole, sorted",
        BWD_SORTED,
        "const bool whole = i * ROW_THREADS < whole_vectors &&",
        "const bool whole = i * ROW_THREADS < whole_vectors + 1 &&",
    ),
    Mutation(
        "the first elements of dx are not written, sorted",
        BWD_SORTED,
        "    if (has_first)\n      store_first",
        "    if (false)\n      store_first",
    ),
    Mutation(
        "the last elements of dx are not written, sorted",
        BWD_SORTED,
        "      store_last(dx +",
        "      if (false) store_last(dx +",
    ),
    Mutation(
        "a later row before the sums are told, sorted",
        BWD_SORTED,
        "cp_async_wait(SLOTS - 2)",
        "cp_async_wait(SLOTS - 1)",
    ),
    Mutation(
        "the first row is not awaited, sorted",
        BWD_SORTED,
        "    cp_async_wait(SLOTS - 1);",
        "    cp_async_wait(SLOTS);",
    ),
    Mutation(
        "a row is sent to the place of the next, sorted",
        BWD_SORTED,
        "slots_address + slot * ROW * 16",
        "slots_address + next * ROW * 16",
    ),
    Mutation(
        "the row after the next in place of a later one, sorted",
        BWD_SORTED,
        "const int later = row + SLOTS * step;",
        "const int later = row + step;",
    ),
    Mutation(
        "the moments of the row before, sorted",
        BWD_SORTED,
        "      moments[i - 1] = moments[i];",
        "      moments[i - 1] = moments[i - 1];",
    ),
    Mutation(
        "the weight of another class, sorted",
        BWD_SORTED,
        "load_weight(&args, thread, shift_of(&args, row), words);",
        "load_weight(&args, thread, 0, words);",
    ),
    Mutation(
        "words of the weight, sorted",
        BWD_SORTED,
        "words_across(word, count % 2 * 16)",
        "words_across(word, 0)",
    ),
    Mutation(
        "two words of the weight, sorted",
        BWD_SORTED,
        "count & 2 ? word[i + 1]",
        "count & 2 ? word[i]",
    ),
    Mutation(
        "four words of the weight, sorted",
        BWD_SORTED,
        "count & 4 ? word[i + 2]",
        "count & 4 ? word[i]",
    ),
    Mutation(
        "a group's rows twice, sorted",
        BWD_SORTED,
        "cluster / classes * CLUSTER_ROWS + group",
        "cluster / classes * CLUSTER_ROWS",
    ),
    Mutation(
        "one class of all clusters, sorted",
        BWD_SORTED,
        "* classes + cluster % classes",
        "* classes",
    ),
    Mutation(
        "the parts of the first cluster, sorted",
        BWD_SORTED,
        "parts + number * (int64_t)args->pitch",
        "parts + 0 * (int64_t)args->pitch",
    ),
    Mutation(
        "parts without gaps, sorted",
        BWD_SORTED,
        "parts + number * (int64_t)args->pitch",
        "parts + number * (int64_t)args->columns",
    ),
    Mutation(
        "sums of one group, sorted",
        BWD_SORTED,
        "from < CLUSTER_ROWS; ++from",
        "from < 1; ++from",
    ),
    Mutation(
        "no barrier: the groups' sums, sorted",
        BWD_SORTED,
        "  // All threads arrive and wait: hands over the sums.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "both sums in one place, sorted",
        BWD_SORTED,
        "(uint4 *)smem + ROW",
        "(uint4 *)smem",
    ),
    Mutation(
        "as many classes of rows that begin at two elements, sorted",
        BWD_SORTED,
        "PERIOD / (odd & -odd)",
        "PERIOD",
    ),
    Mutation(
        "a vector behind a row is prefetched, sorted",
        BWD_SORTED,
        "all * 16 - begin)",
        "all * 16 - begin + 16)",
    ),
    Mutation(
        "rows beyond the last are prefetched, sorted",
        BWD_SORTED,
        "  if (row >= (int)args->rows)\n    return;\n  prefetch",
        "  prefetch",
    ),
    Mutation(
        "rows are prefetched from where they begin, sorted",
        BWD_SORTED,
        "prefetch_bulk_l2(begin_of(args->dy, args->dy_row_stride, row) + begin",
        "prefetch_bulk_l2(begin_of(args->dy, args->dy_row_stride, row) + 2 + begin",
    ),
    Mutation(
        "dx in places of no vector, sorted",
        BWD_SORTED,
        "if (i == edge || (i == 0 && has_first))",
        "if (!whole)",
    ),
    Mutation(
        "masks of one group, sorted",
        BWD_SORTED,
        "&all_masks[group]",
        "&all_masks[0]",
    ),
    Mutation(
        "places of no row are not empty, sorted",
        BWD_SORTED,
        "slots[slot * ROW + i * THREADS] = slots[slot * ROW + (VECTORS + i) * THREADS] = zero",
        "slots[slot * ROW + i * THREADS] = zero",
    ),
    Mutation(
        "the matrix's last vector is sent, sorted",
        BWD_SORTED,
        "row + 1 < (int)args->rows ? ELEMENTS - 1 : 0",
        "ELEMENTS - 1",
    ),
    Mutation(
        "dx without the dot product, sorted",
        BWD_SORTED,
        "(sum + x[j] * dot)",
        "sum",
    ),
    Mutation(
        "dweight of g, sorted",
        BWD_SORTED,
        "weight_sum[i][j] += dy[j] * x[j]",
        "weight_sum[i][j] += g[j] * x[j]",
    ),
    Mutation(
        "dbias of g, sorted",
        BWD_SORTED,
        "bias_sum[i][j] += dy[j]",
        "bias_sum[i][j] += g[j]",
    ),
    Mutation(
        "blocks walk by themselves, sorted",
        BWD_SORTED,
        "gridDim.x / CLUSTER",
        "gridDim.x",
    ),
    Mutation(
        "a cluster's blocks are told before they are there, odd",
        BWD_ODD_CLUSTER,
        "  cluster_wait();\n",
        "",
    ),
    Mutation(
        "no wait: warps of a cluster, odd",
        BWD_ODD_CLUSTER,
        "    await_parts(",
        "    if (0) await_parts(",
    ),
    Mutation(
        "one place for the sums of two rows, odd cluster",
        BWD_ODD_CLUSTER,
        "&parts[(round + 1) % 2]",
        "&parts[round % 2]",
    ),
    Mutation(
        "the parity of every row is another, odd cluster",
        BWD_ODD_CLUSTER,
        "round / 2 % 2",
        "round % 2",
    ),
    Mutation(
        "the row after the next is not expected, odd",
        BWD_ODD_CLUSTER,
        "      expect_parts(",
        "      if (0) expect_parts(",
    ),
    Mutation(
        "half the warps are not added up, odd cluster",
        BWD_ODD_CLUSTER,
        "i < ROW_WARPS; i += 32",
        "i < ROW_WARPS; i += 64",
    ),
    Mutation(
        "warps that are not there are added up",
        BWD_ODD_CLUSTER,
        "other < ROW_WARPS",
        "other < ROW_WARPS + 32",
    ),
    Mutation(
        "x without a row's first element",
        BWD_ODD_CLUSTER,
        "thread < 2 && shift % 2 == 1",
        "thread == 1 && shift % 2 == 1",
    ),
    Mutation(
        "dy without a row's first element",
        BWD_ODD_CLUSTER,
        "thread < 2 && shift % 2 == 1",
        "thread < 1 && shift % 2 == 1",
    ),
    Mutation(
        "a row's first element is put where it is on its way to",
        BWD_ODD_CLUSTER,
        "shift % 2 == 1",
        "shift % 2 == 0",
    ),
    Mutation(
        "the first element of the row before",
        BWD_ODD_CLUSTER,
        "    next_first = later_first;\n",
        "",
    ),
    Mutation(
        "the first element of no row",
        BWD_ODD_CLUSTER,
        "thread < 2 && row < args->rows",
        "thread < 2",
    ),
    Mutation(
        "an element before a row is read",
        BWD_ODD_CLUSTER,
        "has = column >= 0 && row",
        "has = column >= -2 && row",
    ),
    Mutation(
        "elements behind a row are read",
        BWD_ODD_CLUSTER,
        "min(max(bytes - i * ROW_THREADS * 16, 0), 16)",
        "bytes > i * ROW_THREADS * 16 ? 16 : 0",
    ),
    Mutation(
        "a row's vectors begin elsewhere",
        BWD_ODD_CLUSTER,
        "from + i * ROW_THREADS * 16",
        "from + i * THREADS * 16",
    ),
    Mutation(
        "a row that is cut otherwise than x is copied as x",
        BWD_ODD_CLUSTER,
        "shift_of(row) != shift",
        "false",
    ),
    Mutation(
        "classes of rows have one weight",
        BWD_ODD_CLUSTER,
        "load_weight(&args, thread, shift, words)",
        "load_weight(&args, thread, 0, words)",
    ),
    Mutation(
        "a class ends with a cluster's rows alone",
        BWD_ODD_CLUSTER,
        "left <= 1 || row + PERIOD >= count",
        "left <= 1",
    ),
    Mutation(
        "a class begins with the one before",
        BWD_ODD_CLUSTER,
        "begins = ends;",
        "begins = false;",
    ),
    Mutation(
        "the first row of a class twice",
        BWD_ODD_CLUSTER,
        "row -= count - 1",
        "row -= count",
    ),
    Mutation(
        "sums of no rows are not written",
        BWD_ODD_CLUSTER,
        "row < PERIOD && row > 0",
        "row < 0",
    ),
    Mutation(
        "sums of no rows in the place of others",
        BWD_ODD_CLUSTER,
        "(clusters + row - 1)",
        "(clusters + row)",
    ),
    Mutation(
        "a class has the place of the next",
        BWD_ODD_CLUSTER,
        "clusters + row % PERIOD;",
        "clusters + row % PERIOD + 1;",
    ),
    Mutation(
        "sums of a class with those of the one before",
        BWD_ODD_CLUSTER,
        "weight_sum[i][j] = bias_sum[i][j] = 0.0f",
        "weight_sum[i][j] = bias_sum[i][j] = round == 0 ? 0.0f : weight_sum[i][j]",
    ),
    Mutation(
        "no barrier: sums over a row",
        BWD_ODD_CLUSTER,
        "  __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: lanes' sums, odd cluster",
        BWD_ODD_CLUSTER,
        "  __syncwarp();\n",
        "",
        2,
    ),
    Mutation(
        "sums of another lane",
        BWD_ODD_CLUSTER,
        "4 * k + lane / ELEMENTS",
        "4 * k + lane % ELEMENTS",
    ),
    Mutation(
        "the wrong half of a lane's sums",
        BWD_ODD_CLUSTER,
        "lane % ELEMENTS / 4",
        "1 - lane % ELEMENTS / 4",
    ),
    Mutation(
        "the ends of dx are not written",
        BWD_ODD_CLUSTER,
        "has_first && lane < ELEMENTS",
        "false && lane < ELEMENTS",
    ),
    Mutation(
        "the last elements of dx are not written",
        BWD_ODD_CLUSTER,
        "has_last && lane < ELEMENTS",
        "false && lane < ELEMENTS",
    ),
    Mutation(
        "dx that is cut otherwise than x is stored as x",
        BWD_ODD_CLUSTER,
        "alike = shift_of(dx) == shift",
        "alike = true",
    ),
    Mutation(
        "no barrier: lanes that have a row's head",
        BWD_ODD_CLUSTER,
        "  __syncwarp();\n}\n\n// The words of the weights",
        "}\n\n// The words of the weights",
    ),
    Mutation(
        "a row's head without dy's",
        BWD_ODD_CLUSTER,
        "lane / 4 * VECTORS",
        "0 * VECTORS",
    ),
    Mutation(
        "dy's head where it is cut otherwise",
        BWD_ODD_CLUSTER,
        "column == -1 || shift_of(from) != shift",
        "column == -1",
    ),
    Mutation(
        "dsum of whole vectors alone",
        BWD_ODD_CLUSTER,
        "load_elements(dsum, columns, column)",
        "load_elements(dsum, 0, column)",
    ),
    Mutation(
        "dx where there is no column",
        BWD_ODD_CLUSTER,
        "max(-column, 0)",
        "0",
    ),
    Mutation(
        "the first row is not waited for, odd cluster",
        BWD_ODD_CLUSTER,
        "row, SLOTS - 1, first",
        "row, SLOTS, first",
    ),
    Mutation(
        "the next row is not waited for, odd cluster",
        BWD_ODD_CLUSTER,
        "SLOTS - 2, next_first",
        "SLOTS - 1, next_first",
    ),
    Mutation(
        "the same row is sent again",
        BWD_ODD_CLUSTER,
        "left > SLOTS ? row_behind(row, SLOTS, count)",
        "left > SLOTS ? row_behind(row, SLOTS - 1, count)",
    ),
    Mutation(
        "the moments of the next row, odd cluster",
        BWD_ODD_CLUSTER,
        "row_behind(row, 2, count)",
        "row_behind(row, 1, count)",
    ),
    Mutation(
        "dx without dsum, odd cluster",
        BWD_ODD_CLUSTER,
        "g[j] += more[j]",
        "g[j] += 0 * more[j]",
    ),
    Mutation(
        "dbias of g, odd cluster",
        BWD_ODD_CLUSTER,
        "bias_sum[i][j] += dy[j]",
        "bias_sum[i][j] += g[j]",
    ),
    Mutation(
        "rows past the end are there, cluster",
        CLUSTER_ROW,
        "row < args->rows ? args->columns : 0",
        "args->columns",
    ),
    Mutation(
        "rows in 32 bits, cluster",
        CLUSTER_ROW,
        "row * stride * SIZE",
        "(int)(row * stride * SIZE)",
    ),
    Mutation(
        "an absent weight is 0, cluster", CLUSTER_ROWS, "filler[j] = absent", "filler[j] = 0.0f"
    ),
    Mutation(
        "a parameter of the first columns, cluster",
        CLUSTER_ROWS,
        "ELEMENTS, thread, ROW_THREADS,",
        "ELEMENTS, thread, 0,",
    ),
    Mutation(
        "a parameter by elements does not move up", NORM, "word[j] = word[j + words]", "word[j] = 0"
    ),
    Mutation(
        "a parameter's first vector by elements",
        NORM,
        "(first + i * stride) * elements, columns, elements, false",
        "first * elements, columns, elements, false",
    ),
    Mutation(
        "all blocks of a row have the same columns",
        CLUSTER_ROW,
        "/ 32 * CLUSTER + blockIdx.x % CLUSTER",
        "/ 32 * CLUSTER",
    ),
    Mutation("a block is not told", ROW_PARTS, "if (to < $", "if (to + 1 < $"),
    Mutation(
        "the first block alone is told",
        ROW_PARTS,
        "&parts->warp[row_warp]), to)",
        "&parts->warp[row_warp]), 0)",
    ),
    Mutation("no barrier: warps of a packed row", FWD_PACKED, "      __syncthreads();\n", ""),
    Mutation(
        "no barrier: warps of a packed row, rms", FWD_PACKED, "      __syncthreads();\n", "", 2
    ),
    Mutation(
        "no barrier: packed rows are written",
        FWD_PACKED,
        "    fence_proxy_async();\n    meet();\n",
        "    fence_proxy_async();\n",
    ),
    Mutation("no fence: packed rows are written", FWD_PACKED, "    fence_proxy_async();\n", ""),
    Mutation("no barrier: the end of packed rows", FWD_PACKED, "      meet();\n", ""),
    Mutation("one place for the moments of two packed rows", FWD_PACKED, "turn ^= 1", "turn ^= 0"),
    Mutation("a packed piece is not waited for", FWD_PACKED, "parity ^= slot == 0", "parity ^= 0"),
    Mutation(
        "the next packed piece in the wrong slot",
        FWD_PACKED,
        "slot == 0 ? SLOTS - 1 : slot - 1",
        "slot",
    ),
    Mutation("a piece's place has not been read", FWD_PACKED, "      bulk_wait_read(1);\n", ""),
    Mutation(
        "the last pieces are not waited for", FWD_PACKED, "    bulk_wait_read(0);\n", "    ;\n"
    ),
    Mutation(
        "the end of packed rows is not brought", FWD_PACKED, "round_up(span.end) > total", "false"
    ),
    Mutation("vectors behind packed rows", FWD_PACKED, "up < all ? up : all", "up"),
    Mutation(
        "ends of pieces are not written",
        FWD_PACKED,
        "(!WHOLE || end != span.end)",
        "end > span.end",
    ),
    Mutation("a piece's last vector twice", FWD_PACKED, "at >= middle : at", "true : at"),
    Mutation(
        "a word's first half is the row's", FWD_PACKED, "if (i == 0 && cut)\n", "if (false)\n"
    ),
    Mutation(
        "a word's second half is the row's",
        FWD_PACKED,
        "i < whole ? 0xffffffff",
        "true ? 0xffffffff",
    ),
    Mutation(
        "packed values that are not there count", FWD_PACKED, "there ? own_mean : 0.0f", "own_mean"
    ),
    Mutation(
        "packed rows past the end are there", FWD_PACKED, "has ? words_begun : 0", "words_begun"
    ),
    Mutation("parameters of rows that begin with a word", FWD_PACKED, "+ j - odd", "+ j"),
    Mutation(
        "pieces of a block side by side",
        FWD_PACKED,
        "(int64_t)gridDim.x * TEAMS",
        "(int64_t)gridDim.x",
    ),
    Mutation("words of a packed row are counted wrong", FWD_PACKED, "WORDS) - cut) +", "WORDS)) +"),
    Mutation(
        "a row's end is brought by every four of a thread",
        NORM,
        "(uint32_t)last < (uint32_t)count && column",
        "column",
    ),
    Mutation(
        "no barrier: rows in rings are read",
        RING_FEW,
        "    // All lanes arrive and wait: they have read the rows.\n    __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: a row in rings is written",
        RING_ROWS,
        "    // All lanes arrive and wait: they have read the row. Another takes its place.\n"
        "    __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: what is left behind rows in rings",
        RING_PLACES,
        "  // All lanes arrive and wait: it is there.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: the barriers of rings",
        FWD_BULK,
        "  // All threads arrive and wait: the barriers are there.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "no barrier: masks of cut rows",
        FWD_BULK,
        "  // All threads arrive and wait: the masks are there.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "no barrier: the ends of cut rows of a warp",
        RING_SUMS,
        "  // All lanes arrive and wait: the ends of rows are there.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: the ends of a cut row",
        RING_ROWS,
        "      // All lanes arrive and wait: what is at the row's ends is there.\n"
        "      __syncwarp();\n",
        "",
    ),
    Mutation(
        "a vector where cut rows meet is one row's",
        RING_SUMS,
        "choose_bits(masks[own.head], *(const uint4 *)to, first)",
        "first",
    ),
    Mutation(
        "vectors that are not all of a warp's cut rows are taken back",
        RING_PLACES,
        "odd == 0 ? 0 : 16",
        "0",
    ),
    Mutation("elements before cut rows are taken back", RING_PLACES, "lane >= odd) ||", "true) ||"),
    Mutation(
        "no barrier: lanes take cut rows back",
        RING_FEW,
        "    // All lanes arrive and wait: they have taken the rows. Others take their place.\n"
        "    __syncwarp();\n",
        "",
    ),
    Mutation(
        "lanes take a vector back that cut rows begin in", RING_PLACES, "i >= first &&", "i >= 0 &&"
    ),
    Mutation(
        "lanes take a vector back that cut rows end in",
        RING_PLACES,
        "i < end / ELEMENTS)",
        "i <= end / ELEMENTS)",
    ),
    Mutation(
        "lanes leave the last vectors of cut rows",
        RING_PLACES,
        "ROWS * ROW_VECTORS + 7",
        "ROWS * ROW_VECTORS - 32",
    ),
    Mutation("elements behind cut rows are taken back", RING_PLACES, "at < end))", "true))"),
    Mutation("elements before a cut row are stored", FWD_BULK, "lane >= part.odd) ||", "true) ||"),
    Mutation("elements behind a cut row are stored", FWD_BULK, "edge < end);", "true);"),
    Mutation(
        "rings have a row less", FWD_BULK, "first_row + step - 1) / step", "first_row) / step"
    ),
    Mutation(
        "no barrier: a warp's barriers are there",
        FWD_BULK,
        "  // All lanes arrive and wait: the warp's barriers are there.\n  __syncwarp();\n",
        "",
    ),
    Mutation("rings: blocks may not have begun", RING_ROWS, "  cluster_wait();\n", ""),
    Mutation(
        "rings: warps have not told of the row",
        RING_ROWS,
        "    await_parts(&parts[turn], parity);\n",
        "",
    ),
    Mutation(
        "rings: a block ends while it is told",
        RING_ROWS,
        "  await_parts(&parts[turn], parity);\n",
        "",
    ),
    Mutation("one place for what two rows in rings amount to", RING_ROWS, "turn ^= 1", "turn ^= 0"),
    Mutation(
        "rows in rings are not waited for again", RING_FEW, "phase ^= slot == 0", "phase ^= 0"
    ),
    Mutation(
        "rows in rings are not waited for again, of warps",
        RING_ROWS,
        "phase ^= slot == 0",
        "phase ^= 0",
    ),
    Mutation(
        "the next row's moments from this row's place",
        RING_ROWS,
        "place + own_begin, place",
        "ring + own_begin, ring",
    ),
    Mutation("a warp's share begins too early", RING_PLACES, "+ min(row_warp, more)", "+ 0"),
    Mutation("a warp's share is too large", RING_PLACES, "each + (row_warp < more)", "each + 1"),
    Mutation(
        "a warp's columns are counted beyond the row",
        RING_PLACES,
        "min(end, columns) - max",
        "end - max",
    ),
    Mutation("a cut row's first columns are counted twice", RING_PLACES, "max(first, 0)", "first"),
    Mutation(
        "vectors behind cut rows",
        FWD_BULK,
        "sent - last < bytes ? (int)(sent - last) : bytes",
        "bytes",
    ),
    Mutation(
        "rows in rings are taken back before they are written",
        RING_FEW,
        "    fence_proxy_async();\n    __syncwarp();\n",
        "    fence_proxy_async();\n",
    ),
    Mutation("no fence: rows in rings are taken back", RING_FEW, "    fence_proxy_async();\n", ""),
    Mutation("a place in a ring has not been read", RING_FEW, "      bulk_wait_read(1);\n", ""),
    Mutation(
        "the last rows in rings are not waited for", RING_FEW, "    bulk_wait_read(0);\n", "    ;\n"
    ),
    Mutation(
        "rows are taken back as one piece",
        RING_PLACES,
        "args->y_row_stride == args->columns",
        "true",
    ),
    Mutation(
        "the end of cut rows is not brought", RING_PLACES, "begin + bytes <= sent || ", "true || "
    ),
    Mutation(
        "elements before a cut row count", RING_VECTORS, "masks[own.head], fill", "masks[0], fill"
    ),
    Mutation(
        "elements behind a cut row count",
        RING_VECTORS,
        "masks[i == own.last ? own.end : ELEMENTS]",
        "masks[ELEMENTS]",
    ),
    Mutation(
        "elements before a cut row are written", RING_SUMS, "i == 0 && own.head != 0", "false"
    ),
    Mutation(
        "elements behind a cut row are written",
        RING_SUMS,
        "i >= FULL - 1 && i == own.last",
        "false",
    ),
    Mutation(
        "parameters of rows that begin with a vector",
        FWD_BULK,
        "(part.begin + thread) * ELEMENTS - part.odd",
        "(part.begin + thread) * ELEMENTS",
    ),
    Mutation(
        "cut rows begin with a vector", FWD_BULK, "(int)(first_row * columns % ELEMENTS)", "0"
    ),
    Mutation(
        "a vector that a thread has not", RING_VECTORS, "part.vectors > lane + FULL * LANES", "true"
    ),
    Mutation(
        "rows of a warp past the end are told of", RING_FEW, "thread == 0 && has", "thread == 0"
    ),
    Mutation(
        "rows with gaps as one piece", RING_PLACES, "args->x_row_stride == args->columns", "true"
    ),
    Mutation(
        "no one tells of the second warp",
        RING_ROWS,
        "told[other].y + weighted",
        "told[0].y + weighted",
    ),
    Mutation(
        "squares about another mean", RING_ROWS, "sums.y - sums.x * off, squares", "sums.y, squares"
    ),
    Mutation(
        "a warp's squares about its first value",
        RING_SUMS,
        "left = sums.y - sums.x * off;",
        "left = sums.y;",
    ),
    Mutation(
        "moments of RMS norm of the first warp alone",
        RING_ROWS,
        "squares += told[other].y",
        "squares += told[0].y",
    ),
    Mutation(
        "rows of slices are not waited for", FWD_GATHERED, "  wait_for_phase(barrier, 0);\n", ""
    ),
    Mutation(
        "no barrier: parameters of rows of slices",
        FWD_GATHERED,
        "  // All threads arrive and wait: the parameters are there, and the barriers.\n"
        "  __syncthreads();\n",
        "",
    ),
    Mutation(
        "no barrier: ends of slices",
        FWD_GATHERED,
        "    // All lanes arrive and wait: that is there.\n    __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: y of slices",
        FWD_GATHERED,
        "  fence_proxy_async();\n  __syncwarp();\n",
        "  fence_proxy_async();\n",
    ),
    Mutation("the copy engine sees no y of slices", FWD_GATHERED, "  fence_proxy_async();\n", ""),
    Mutation("slices leave before y is taken", FWD_GATHERED, "    bulk_wait_read(0);\n", ""),
    Mutation(
        "rows of slices come as one that lie far from each other",
        FWD_GATHERED,
        "gap >= 0 && gap < SPAN_GAP",
        "gap >= 0",
    ),
    Mutation(
        "rows of slices have places of rows that come one by one",
        FWD_GATHERED,
        "PIECE * (span ? (int)step : pitch)",
        "PIECE * pitch",
    ),
    Mutation(
        "rows of slices that come one by one share a vector",
        FWD_GATHERED,
        "/ 16 * 16 + 32;",
        "/ 16 * 16 + 16;",
    ),
    Mutation(
        "a slice is read before its first element",
        FWD_GATHERED,
        "const uint64_t from = is_first ? ((uint64_t)x + 15) / 16 * 16 : base;",
        "const uint64_t from = base;",
    ),
    Mutation(
        "a slice is read behind its last element",
        FWD_GATHERED,
        "(end + (is_last ? 0 : 15)) / 16 * 16",
        "(end + 15) / 16 * 16",
    ),
    Mutation(
        "a slice is read behind its last element, row by row",
        FWD_GATHERED,
        "(end + (is_last ? 0 : 15)) / 16 * 16",
        "(end + 15) / 16 * 16",
        2,
    ),
    Mutation(
        "a slice's first elements do not come",
        FWD_GATHERED,
        "if (is_first && head != 0)",
        "if (false)",
    ),
    Mutation(
        "a slice's last elements do not come", FWD_GATHERED, "if (is_last && !same)", "if (false)"
    ),
    Mutation(
        "what lies between rows of slices counts",
        FWD_GATHERED,
        "word[i] &= mask_of(masks, i, count);",
        "(void)masks;",
    ),
    Mutation(
        "rows of slices that begin in a word are not shifted",
        FWD_GATHERED,
        "if (begin % 2 != 0) {",
        "if (false) {",
    ),
    Mutation(
        "parameters of slices are those of even rows",
        FWD_GATHERED,
        "2 * thread + 1 - before",
        "2 * thread + 1",
    ),
    Mutation(
        "y of slices is written beyond a row",
        FWD_GATHERED,
        "store_word(to + i * LANES, mask_of(masks, i, count), word[i])",
        "to[i * LANES] = word[i]",
    ),
    Mutation(
        "far values of slices count what is no row's",
        FWD_GATHERED,
        "value[0] -= (mask & 0xffff) != 0 ? mean : 0.0f;",
        "value[0] -= mean;",
    ),
    Mutation(
        "slices' far values are not added up again",
        FWD_GATHERED,
        "FAR * squares)",
        "3.4e38f + 0.0f * squares)",
    ),
    Mutation(
        "moments of rows that a slice has not",
        FWD_GATHERED,
        "if (thread != 0 || number >= piece.rows)",
        "if (thread != 0)",
    ),
    Mutation(
        "no barrier: parameters of pairs of rows",
        FWD_PAIRS,
        "  // All threads arrive and wait: the parameters are there, and the barriers.\n"
        "  __syncthreads();\n",
        "",
    ),
    Mutation(
        "no barrier: zeros behind pairs of rows",
        FWD_PAIRS,
        "    // All lanes arrive and wait: that is there.\n    __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: y of pairs of rows, by lanes",
        FWD_PAIRS,
        "  // All lanes arrive and wait: y is in place of x.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: y of pairs of rows, by the copy engine",
        FWD_PAIRS,
        "  fence_proxy_async();\n  __syncwarp();\n",
        "  fence_proxy_async();\n",
    ),
    Mutation("pairs of rows: the copy engine sees no y", FWD_PAIRS, "  fence_proxy_async();\n", ""),
    Mutation("pairs of rows leave before y is taken", FWD_PAIRS, "    bulk_wait_read(0);\n", ""),
    Mutation("pairs of rows are not waited for", FWD_PAIRS, "  wait_for_phase(barrier, 0);\n", ""),
    Mutation(
        "all lanes read what two rows share",
        FWD_PAIRS,
        "  if (odd && leads)\n    widen",
        "  if (odd)\n    widen",
    ),
    Mutation(
        "what two rows share counts for each lane", FWD_PAIRS, "if (odd && leads) {", "if (odd) {"
    ),
    Mutation(
        "what two rows share does not count", FWD_PAIRS, "if (odd && leads) {", "if (false) {"
    ),
    Mutation(
        "y of what two rows share is not written", FWD_PAIRS, "    *pair.middle = ", "    (void)"
    ),
    Mutation(
        "the second row of a pair begins with the word in the middle",
        FWD_PAIRS,
        "first + each + 1 : first",
        "first + each : first",
    ),
    Mutation(
        "parameters of the second row are the first's",
        FWD_PAIRS,
        "odd ? own[i].odd : own[i].even",
        "own[i].even",
    ),
    Mutation(
        "parameters behind are a word's own",
        FWD_PAIRS,
        "LANES > 1 || i == count - 1 ? next[i] : own[i + 1].even",
        "own[i].even",
    ),
    Mutation("a lane has no words before its first", FWD_PAIRS, "at < pair.begin", "at < 0"),
    Mutation("a lane has a word too many", FWD_PAIRS, "+ LANES - 1) / LANES", "+ LANES) / LANES"),
    Mutation(
        "lanes of a pair do not add up",
        FWD_PAIRS,
        "  sums.second = sum_lanes_of_two(sums.second, LANES);\n",
        "",
    ),
    Mutation(
        "pairs of rows far from 0 are added up about 0",
        FWD_PAIRS,
        "__any_sync(0xffffffff, !(sums.first.x * mean.x <= FAR * squares.x) ||\n"
        "                                 !(sums.second.x * mean.y <= FAR * squares.y))",
        "false",
    ),
    Mutation(
        "rows that are not there have moments", FWD_PAIRS, "  if (second < rows)\n", "  if (true)\n"
    ),
    Mutation("pairs of rows: elements at the matrix's end", FWD_PAIRS, "i < elements ?", "false ?"),
    Mutation(
        "pairs of rows: elements of y at the matrix's end",
        FWD_PAIRS,
        "if (rows < PIECE && whole",
        "if (false && whole",
    ),
    Mutation(
        "pairs of rows are read beyond the matrix",
        FWD_PAIRS,
        "bulk_load(shared_address(place), from, whole * 16, barrier)",
        "bulk_load(shared_address(place), from, (elements * SIZE + 15) / 16 * 16, barrier)",
    ),
    Mutation(
        "a parameter of pairs of rows is read beyond its end",
        FWD_PAIRS,
        "!parameter || column >= columns",
        "!parameter",
    ),
    Mutation(
        "no barrier: parameters' ends of rows read directly",
        FWD_DIRECT,
        "  // All lanes arrive and wait: the ends of the parameters are there.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "no barrier: the ends of a row read directly",
        FWD_DIRECT,
        "  // All lanes arrive and wait: what is at the row's ends is there.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "a row read directly is read beyond the matrix",
        FWD_DIRECT,
        "cut.vectors - beyond : 0",
        "cut.vectors : 0",
    ),
    Mutation(
        "the last vector of the last row read directly is nothing",
        FWD_DIRECT,
        "x[i] = load_first_elements(from + at * ${ bytes }, cut.end)",
        "x[i].x = 0",
    ),
    Mutation(
        "elements before a row read directly count",
        FWD_DIRECT,
        "choose_bits(mask_elements(cut.odd), fill, x[0])",
        "x[0]",
    ),
    Mutation(
        "elements behind a row read directly count",
        FWD_DIRECT,
        "choose_bits(mask_elements(cut.end), x[i], fill)",
        "x[i]",
    ),
    Mutation(
        "elements before a row read directly are stored",
        FWD_DIRECT,
        "place < ELEMENTS && place >= odd",
        "place < ELEMENTS",
    ),
    Mutation(
        "elements behind a row read directly are stored",
        FWD_DIRECT,
        "place - ELEMENTS < cut.end",
        "true",
    ),
    Mutation("no row is read directly", FWD_DIRECT, "  if (!has)\n    return;\n", ""),
    Mutation(
        "parameters of rows read directly begin with a word",
        FWD_DIRECT,
        "cut.odd % 2 != 0 ? 16 : 32",
        "32",
    ),
    Mutation(
        "parameters of rows read directly begin with a vector",
        FWD_DIRECT,
        "word + 3 - first",
        "word + 3",
    ),
    Mutation(
        "a parameter's end is read as a vector", FWD_DIRECT, "inside || index < whole", "true"
    ),
    Mutation("a parameter's end before a row's last vector", FWD_DIRECT, "&& index <= whole", ""),
    Mutation(
        "values far from 0 are added up about 0",
        FWD_DIRECT,
        "!(sums.x * mean <= FAR * squares)",
        "false",
    ),
    Mutation(
        "absent vectors count, of values far from 0",
        FWD_DIRECT,
        "if (thread + i * ROW_THREADS >= cut.vectors)",
        "if (false)",
    ),
    Mutation(
        "rows of a warp begin elsewhere than its first",
        FWD_DIRECT,
        "lane / LANES * WARPS + warp",
        "lane / LANES + warp * (32 / LANES)",
    ),
    Mutation(
        "an absent weight of long rows is 0",
        ABSENT,
        '"0x3f803f80" if params == "bf16"',
        '"0" if params == "bf16"',
    ),
    Mutation(
        "an absent bias of long rows is 1", ABSENT, "return index > 0 ?", "return index > 1 ?"
    ),
    Mutation(
        "half of the parameters of twice the size of wide rows",
        FWD_WIDE,
        "parked[((index - KEPT) * 2 + 1) * THREADS]",
        "parked[(index - KEPT) * 2 * THREADS]",
    ),
    Mutation(
        "no barrier: a piece of a wide row is read",
        FWD_WIDE,
        "Another takes its place.\n    __syncwarp();",
        "Another takes its place.",
    ),
    Mutation(
        "no barrier: the ends of a wide row are written anew",
        FWD_WIDE,
        "others may take their place.\n      __syncwarp();",
        "others may take their place.",
    ),
    Mutation(
        "no barrier: the ends of parameters of wide rows",
        FWD_WIDE,
        "these are there.\n//% endif\n  __syncthreads();",
        "these are there.\n//% endif",
    ),
    Mutation(
        "a piece of a wide row is not waited for",
        FWD_WIDE,
        "      wait_for_phase(barriers + here * 8, here < slot ? phase ^ 1 : phase);\n",
        "",
    ),
    Mutation(
        "the last piece is as long as others",
        FWD_WIDE,
        "min(end - begin, BATCH * 32)",
        "BATCH * 32",
    ),
    Mutation(
        "a wide row is read beyond the matrix",
        FWD_WIDE,
        "row + 1 == (int)args->rows && cut.end != 0",
        "false",
    ),
    Mutation(
        "the next wide row in one place",
        FWD_WIDE,
        "slot = (number + 1) % SLOTS",
        "slot = 1 % SLOTS",
    ),
    Mutation(
        "the phase of a wide row's place",
        FWD_WIDE,
        "phase = (number + 1) / SLOTS % 2",
        "phase = 0",
    ),
    Mutation("the next wide row's pieces in one place", FWD_WIDE, "    slot += pieces;\n", ""),
    Mutation("the phase of a wide row's places", FWD_WIDE, "    phase ^= slot >= SLOTS;\n", ""),
    Mutation(
        "elements before a wide row count",
        FWD_WIDE,
        "choose_bits(mask_elements(cut.odd), zero, x[0])",
        "x[0]",
    ),
    Mutation(
        "elements behind a wide row count",
        FWD_WIDE,
        "choose_bits(mask_elements(cut.end), x[i], zero)",
        "x[i]",
    ),
    Mutation(
        "elements before a wide row are stored",
        FWD_WIDE,
        "lane < ELEMENTS && lane >= cut.odd",
        "lane < ELEMENTS",
    ),
    Mutation(
        "elements behind a wide row are stored", FWD_WIDE, "lane - ELEMENTS < cut.end", "true"
    ),
    Mutation(
        "the last lane's parameters are its own",
        FWD_WIDE,
        "lane == 31 ? before[i] : word[i]",
        "word[i]",
    ),
    Mutation(
        "parameters before a warp's first are its own",
        FWD_WIDE,
        "from[min(share.begin, whole) - 1]",
        "from[min(share.begin, whole - 1)]",
    ),
    Mutation(
        "parameters of wide rows begin with a word",
        FWD_WIDE,
        "cut.odd % 2 != 0 ? 16 : 32",
        "32",
    ),
    Mutation("a wide row's squares beside the diagonal", FWD_WIDE, "g == 2 * t ?", "g == t ?"),
    Mutation(
        "half of a wide row's squares",
        FWD_WIDE,
        "sums.first[0] + sums.second[2]",
        "sums.first[0]",
    ),
    Mutation(
        "lanes of a wide row's squares",
        FWD_WIDE,
        "__shfl_xor_sync(0xffffffff, squares, 9)",
        "__shfl_xor_sync(0xffffffff, squares, 8)",
    ),
    Mutation(
        "a later vector's parameters are fetched",
        FWD_WIDE,
        "next = index + FETCHED,",
        "next = index + FETCHED + 1,",
    ),
    Mutation(
        "the cluster is left early",
        FWD_WIDE,
        "  await_parts(&parts[number % 2], number / 2 % 2);\n}",
        "}",
    ),
    Mutation(
        "values of wide rows far from 0 are added up about 0",
        FWD_WIDE,
        "!(sums.x * mean <= FAR * left)",
        "false",
    ),
    Mutation("wide rows far from 0 are told in one phase", FWD_WIDE, " = again ^ 1;", " = again;"),
    Mutation(
        "others' elements beside wide rows far from 0",
        FWD_WIDE,
        "!cuts || (column + j >= 0 && column + j < args->columns)",
        "true",
    ),
]
