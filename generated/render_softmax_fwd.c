/* Written by `python -m generator` from templates/softmax/softmax_fwd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_softmax_fwd(ap_text *out, const ap_render_input *in);

void ap_render_softmax_fwd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t cols = in->axis[AP_SOFTMAX_COLS];
  const int32_t dtype = in->axis[AP_SOFTMAX_DTYPE];
  const int32_t row_threads = in->field[AP_SOFTMAX_TILE_ROW_THREADS];
  const int32_t rows = in->field[AP_SOFTMAX_TILE_ROWS];
  const int32_t in_shared = in->field[AP_SOFTMAX_TILE_IN_SHARED];
  const int32_t held = in->field[AP_SOFTMAX_TILE_HELD];
  const int32_t ahead = in->field[AP_SOFTMAX_TILE_AHEAD];
  const int32_t packed = in->field[AP_SOFTMAX_TILE_PACKED];
  const int32_t blocks = in->field[AP_SOFTMAX_TILE_BLOCKS];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// y = softmax(scale x) over the rows of a matrix of at most COLUMNS columns, ");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT(", fp32\n");
  if (in_shared) {
    TEXT("// inside. x is read once, into shared memory, y may be x.\n"
         "//\n"
         "// A thread adds up powers of its vectors as they arrive, relative to the maximum so far. The warps\n"
         "// then learn from each other what their sums amount to, behind one barrier, and take the powers\n"
         "// again, relative to the maximum of the row: less work than a row in registers is worth, where that\n"
         "// would leave the SM one block, which has nothing on its way while it computes.\n");
  } else {
    TEXT("// inside. ROW_THREADS threads share a row and hold it in registers: x is read once, y may be x.\n"
         "//\n"
         "// Each warp takes powers relative to its own maximum of a row; where several warps share the row,\n"
         "// they then learn from each other what these amount to, behind one barrier.\n");
  }
  if (packed) {
    TEXT("//\n"
         "// Where rows lie one after the other and begin at any element, those of a block go through shared\n"
         "// memory as one piece, which has two ragged ends instead of two a row.\n");
  }
  if (row_threads > threads) {
    TEXT("//\n"
         "// CLUSTER thread blocks share a row, so that an SM has parts of several: each warp tells all of\n"
         "// them what it has, behind the cluster's barrier.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/softmax/softmax_fwd.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family softmax --pass fwd --cols ");
  INTEGER(cols);
  TEXT(" --dtype ");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/softmax.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n");
  if (in_shared || (row_threads > threads)) {
    TEXT("#include \"attnpress/device/ptx_address.cuh\"\n");
  }
  if (row_threads > threads) {
    TEXT("#include \"attnpress/device/ptx_cluster.cuh\"\n");
  }
  if (in_shared) {
    TEXT("#include \"attnpress/device/ptx_cp_async.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_math.cuh\"\n");
  if (packed) {
    TEXT("#include \"attnpress/device/row_piece.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_softmax.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_SOFTMAX_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(" + ELEMENTS - 1; // at most: a vector less one of them are edges\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "constexpr int ROWS = ");
  INTEGER(rows);
  TEXT("; // of a thread\n");
  if (row_threads > threads) {
    TEXT("constexpr int CLUSTER = ROW_THREADS / THREADS; // thread blocks that share a row\n"
         "constexpr int GROUPS = 1;\n");
  } else {
    TEXT("constexpr int GROUPS = THREADS / ROW_THREADS;\n");
  }
  TEXT("constexpr int BLOCK_ROWS = GROUPS * ROWS;\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row\n"
       "constexpr int EDGES = (2 * ELEMENTS + ROW_THREADS - 1) / ROW_THREADS;\n");
  if (in_shared) {
    if (held > 0) {
      TEXT("constexpr int HELD = ");
      INTEGER(held);
      TEXT("; // vectors of a thread that wait in registers, the last ones\n");
    } else {
      TEXT("constexpr int HELD = 0; // vectors of a thread that wait in registers\n");
    }
    TEXT("constexpr int IN_SHARED = VECTORS - HELD;        // and in shared memory\n"
         "constexpr int STEP = IN_SHARED % 2 == 0 ? 2 : 1; // vectors that are added at once\n"
         "constexpr int SMEM_BYTES = ");
    INTEGER(smem_bytes);
    TEXT(";\n"
         "static_assert(SMEM_BYTES == IN_SHARED * THREADS * 16, \"the generator has another formula\");\n"
         "static_assert(EDGES == 1 && BLOCK_ROWS == 1, \"a thread block has one row\");\n");
  } else {
    if (packed) {
      TEXT("constexpr int SMEM_BYTES = ");
      INTEGER(smem_bytes);
      TEXT("; // the rows of a block, from anywhere in a vector on\n"
           "static_assert(SMEM_BYTES >= BLOCK_ROWS * COLUMNS * SIZE + 15, \"the generator has another formula\");\n");
    }
    TEXT("constexpr int VALUES = VECTORS * ELEMENTS + EDGES; // of a thread in a row, the edges last\n");
  }
  TEXT("constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS + ELEMENTS - 1 == COLUMNS,\n"
       "              \"threads share a row evenly\");\n"
       "\n");
  if (in_shared) {
    TEXT("// The sum with `count` more vectors, of maxima of -x if `negative`.\n"
         "__device__ __forceinline__ RowSum add_vectors(RowSum part, const uint4 *vector, int count,\n"
         "                                              bool negative, float power) {\n"
         "  const float max = fmaxf(part.max, max_vectors_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(vector, count, negative));\n"
         "  const float reference = negative ? -reference_of(max) : reference_of(max);\n"
         "  RowSum all = {max, part.sum * exp_difference(part.max, reference_of(max), fabsf(power))};\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < count; ++i) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(vector[i], value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      all.sum += exp_difference(value[j], reference, power);\n"
         "  }\n"
         "  return all;\n"
         "}\n"
         "\n"
         "// Vectors of a row on their way to shared memory, each thread's to places of its own: nobody else\n"
         "// reads them. A group of copies each.\n"
         "__device__ __forceinline__ void copy_vectors(const void *row, RowCut cut, uint32_t filler,\n"
         "                                             int thread, uint4 *shared) {\n"
         "  const uint4 nothing = {filler, filler, filler, filler};\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < IN_SHARED; ++i) {\n"
         "    const int vector = i * ROW_THREADS + thread;\n"
         "    if (vector < cut.vectors)\n"
         "      cp_async_16(shared_address(shared + i * THREADS),\n"
         "                  (const unsigned char *)row + (int64_t)vector_column(cut, SIZE, vector) * SIZE,\n"
         "                  16);\n"
         "    else\n"
         "      shared[i * THREADS] = nothing;\n"
         "    cp_async_commit();\n"
         "  }\n"
         "}\n"
         "\n");
  }
  if (row_threads > threads) {
    TEXT("// The sum over the warps of a row, those of the other blocks among them.\n"
         "__device__ __forceinline__ RowSum add_warps(RowSum part, float power) {\n"
         "  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  __shared__ float2 warp_part[ROW_WARPS];\n"
         "  const int block_warp = blockIdx.x % CLUSTER * (THREADS / 32) + threadIdx.x / 32;\n"
         "  const float2 own = {part.max, part.sum};\n"
         "  // All threads of the cluster arrived when they began: every block has its shared memory.\n"
         "  cluster_wait();\n"
         "  if (threadIdx.x % 32 < CLUSTER)\n"
         "    store_8_cluster(cluster_address(shared_address(warp_part + block_warp), threadIdx.x % 32), own);\n"
         "  // All threads of the cluster arrive and wait: hands over the sums of the warps. Nobody reaches\n"
         "  // into another block's shared memory afterwards, so that blocks may end.\n"
         "  cluster_arrive();\n"
         "  cluster_wait();\n"
         "  const float2 other = warp_part[threadIdx.x % ROW_WARPS];\n"
         "  const RowSum warps = {other.x, other.y};\n"
         "  return add_lanes(warps, ROW_WARPS, power);\n"
         "}\n"
         "\n");
  } else if (row_threads > 32) {
    TEXT("// The sum over the warps of a row.\n"
         "__device__ __forceinline__ RowSum add_warps(RowSum part, float power) {\n"
         "  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  __shared__ float2 warp_part[THREADS / 32];\n"
         "  if (threadIdx.x % 32 == 0) {\n"
         "    const float2 own = {part.max, part.sum};\n"
         "    warp_part[threadIdx.x / 32] = own;\n"
         "  }\n"
         "  // All threads arrive and wait: hands over the sums of the warps.\n"
         "  __syncthreads();\n"
         "  const float2 other =\n"
         "      warp_part[threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS];\n"
         "  const RowSum warps = {other.x, other.y};\n"
         "  return add_lanes(warps, ROW_WARPS, power);\n"
         "}\n"
         "\n");
  }
  if (blocks > 0) {
    TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, ");
    INTEGER(blocks);
    TEXT(")\n");
  } else {
    TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS)\n");
  }
  TEXT("    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_softmax_fwd_args args) {\n"
       "  // What a row does not have counts as -inf after scaling.\n"
       "  const uint32_t filler = filler_");
  STRING(in->word[AP_SOFTMAX_DTYPE]);
  TEXT("(args.scale);\n"
       "  // Where scale is negative, maxima are those of -x.\n"
       "  const bool negative = args.scale < 0.0f;\n"
       "  const float power = args.scale * LOG2_E; // of 2, for each 1 that x grows\n");
  if (in_shared) {
    TEXT("  extern __shared__ __align__(1024) unsigned char smem[];\n"
         "  uint4 *waiting = (uint4 *)smem + threadIdx.x; // this thread's vectors, THREADS apart\n");
    if (row_threads > threads) {
      TEXT("  const int thread = blockIdx.x % CLUSTER * THREADS + threadIdx.x; // of the row\n"
           "  const int64_t row = blockIdx.x / CLUSTER;\n"
           "  cluster_arrive(); // add_warps waits\n");
    } else {
      TEXT("  const int thread = threadIdx.x; // of the row\n"
           "  const int64_t row = blockIdx.x;\n");
    }
    TEXT("  const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;\n"
         "  const RowCut cut = cut_row(x, SIZE, args.columns);\n"
         "  uint32_t edge[EDGES];\n"
         "  load_edges(x, SIZE, cut, thread, ROW_THREADS, EDGES, filler, edge);\n"
         "  copy_vectors(x, cut, filler, thread, waiting);\n");
    if (held > 0) {
      TEXT("  uint4 held[HELD];\n"
           "  load_own_vectors(x, SIZE, cut, IN_SHARED * ROW_THREADS + thread, ROW_THREADS, HELD, filler, held);\n");
    }
    if (ahead) {
      TEXT("  // Blocks begin in the order of their rows: what one will load next, here, is on its way by then.\n"
           "  if (row + args.rows_ahead < args.rows)\n"
           "    prefetch_row(x + args.rows_ahead * args.x_row_stride * SIZE, SIZE, args.columns, thread,\n"
           "                 ROW_THREADS);\n");
    }
    TEXT("  const float edge_value = widen_element_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(edge[0]);\n"
         "  RowSum part = {negative ? -edge_value : edge_value, 0.0f};\n"
         "  part.sum = exp_difference(part.max, reference_of(part.max), fabsf(power));\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < IN_SHARED; i += STEP) {\n"
         "    uint4 vector[STEP];\n"
         "    cp_async_wait(IN_SHARED - STEP - i);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < STEP; ++j)\n"
         "      vector[j] = waiting[(i + j) * THREADS];\n"
         "    part = add_vectors(part, vector, STEP, negative, power);\n"
         "  }\n");
    if (held > 0) {
      TEXT("  part = add_vectors(part, held, HELD, negative, power);\n");
    }
    TEXT("  const RowSum all = add_warps(add_lanes(part, LANES, fabsf(power)), fabsf(power));\n"
         "\n"
         "  unsigned char *y = (unsigned char *)args.y + row * args.y_row_stride * SIZE;\n"
         "  const float reference = negative ? -all.max : all.max;\n"
         "  const float factor = share_factor(all.max, all, fabsf(power));\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float value[ELEMENTS];\n");
    if (held > 0) {
      TEXT("    widen_vector_");
      STRING(in->word[AP_SOFTMAX_DTYPE]);
      TEXT("(i < IN_SHARED ? waiting[i * THREADS] : held[i - IN_SHARED], value);\n");
    } else {
      TEXT("    widen_vector_");
      STRING(in->word[AP_SOFTMAX_DTYPE]);
      TEXT("(waiting[i * THREADS], value);\n");
    }
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      value[j] = exp_difference(value[j], reference, power) * factor;\n"
         "    const uint4 vector = narrow_vector_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(value);\n"
         "    store_vectors(y, SIZE, cut, i * ROW_THREADS + thread, ROW_THREADS, 1, &vector);\n"
         "  }\n"
         "  edge[0] = narrow_element_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(exp_difference(edge_value, reference, power) * factor);\n"
         "  store_edges(y, SIZE, cut, thread, ROW_THREADS, EDGES, edge);\n"
         "}\n");
  } else {
    if (row_threads > threads) {
      TEXT("  const int thread = blockIdx.x % CLUSTER * THREADS + threadIdx.x; // of the row\n"
           "  const int64_t first_row = blockIdx.x / CLUSTER;\n"
           "  cluster_arrive(); // add_warps waits\n");
    } else {
      TEXT("  const int thread = threadIdx.x % ROW_THREADS;\n"
           "  const int64_t first_row = (int64_t)blockIdx.x * BLOCK_ROWS + threadIdx.x / ROW_THREADS;\n");
    }
    TEXT("  uint4 vector[ROWS][VECTORS];\n"
         "  uint32_t edge[ROWS][EDGES];\n");
    if (packed) {
      TEXT("  extern __shared__ __align__(1024) unsigned char smem[];\n"
           "  const int64_t block_row = (int64_t)blockIdx.x * BLOCK_ROWS;\n"
           "  const unsigned char *x_piece = (const unsigned char *)args.x + block_row * args.columns * SIZE;\n"
           "  unsigned char *y_piece = (unsigned char *)args.y + block_row * args.columns * SIZE;\n"
           "  unsigned char *piece = smem + (uint64_t)x_piece % 16; // cut as x is\n"
           "  const RowCut piece_cut =\n"
           "      cut_row(x_piece, SIZE, (int)min(args.rows - block_row, (int64_t)BLOCK_ROWS) * args.columns);\n"
           "  const bool in_piece = args.x_row_stride == args.columns && args.y_row_stride == args.columns &&\n"
           "                        args.columns % ELEMENTS != 0 &&\n"
           "                        ((uint64_t)args.x - (uint64_t)args.y) % 16 == 0;\n"
           "  if (in_piece) {\n"
           "    load_piece(x_piece, SIZE, piece_cut, threadIdx.x, THREADS, piece);\n"
           "    // All threads arrive and wait: hands over the block's rows.\n"
           "    __syncthreads();\n"
           "  }\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int r = 0; r < ROWS; ++r) {\n"
         "    const int64_t row = first_row + r * GROUPS;\n"
         "    const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;\n"
         "    const RowCut cut = cut_row(x, SIZE, row < args.rows ? args.columns : 0);\n");
    if (packed) {
      TEXT("    if (in_piece) {\n"
           "      const unsigned char *own = piece + (int)(row - block_row) * args.columns * SIZE;\n"
           "      take_vectors(own, SIZE, cut, thread, ROW_THREADS, VECTORS, filler, vector[r]);\n"
           "      take_edges(own, SIZE, cut, thread, ROW_THREADS, EDGES, filler, edge[r]);\n"
           "      continue;\n"
           "    }\n");
    }
    TEXT("    load_own_vectors(x, SIZE, cut, thread, ROW_THREADS, VECTORS, filler, vector[r]);\n"
         "    load_edges(x, SIZE, cut, thread, ROW_THREADS, EDGES, filler, edge[r]);\n");
    if (row_threads <= 32) {
      TEXT("    if (thread == 0 && row < args.rows && args.y_row_stride != args.columns)\n"
           "      prefetch_ends((unsigned char *)args.y + row * args.y_row_stride * SIZE, SIZE, args.columns);\n");
    }
    TEXT("  }\n"
         "\n");
    if (ahead) {
      TEXT("  // Blocks begin in the order of their rows: what one will load next, here, is on its way by then.\n"
           "  const int64_t later = first_row + args.rows_ahead;\n"
           "  if (later < args.rows)\n"
           "    prefetch_row((const unsigned char *)args.x + later * args.x_row_stride * SIZE, SIZE,\n"
           "                 args.columns, thread, ROW_THREADS);\n"
           "\n");
    }
    TEXT("  // Powers relative to the maximum of the warp's part of the row, and their sum.\n"
         "  RowSum part[ROWS];\n"
         "#pragma unroll\n"
         "  for (int r = 0; r < ROWS; ++r) {\n"
         "    float max = max_vectors_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(vector[r], VECTORS, negative);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < EDGES; ++i) {\n"
         "      const float value = widen_element_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(edge[r][i]);\n"
         "      max = fmaxf(max, negative ? -value : value);\n"
         "    }\n"
         "    part[r].max = max_lanes(max, LANES);\n"
         "  }\n"
         "  float value[ROWS][VALUES];\n"
         "#pragma unroll\n"
         "  for (int r = 0; r < ROWS; ++r) {\n"
         "    const float reference = negative ? -reference_of(part[r].max) : reference_of(part[r].max);\n"
         "    float sum = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < VECTORS; ++i)\n"
         "      widen_vector_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(vector[r][i], value[r] + i * ELEMENTS);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < EDGES; ++i)\n"
         "      value[r][VECTORS * ELEMENTS + i] = widen_element_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(edge[r][i]);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < VALUES; ++i) {\n"
         "      value[r][i] = exp_difference(value[r][i], reference, power);\n"
         "      sum += value[r][i];\n"
         "    }\n"
         "    part[r].sum = sum_lanes(sum, LANES);\n"
         "  }\n"
         "\n");
    if (row_threads > 32) {
      TEXT("  const float factor[ROWS] = {\n"
           "      share_factor(part[0].max, add_warps(part[0], fabsf(power)), fabsf(power))};\n"
           "\n");
    } else {
      TEXT("  float factor[ROWS];\n"
           "#pragma unroll\n"
           "  for (int r = 0; r < ROWS; ++r)\n"
           "    factor[r] = reciprocal_approx(part[r].sum);\n"
           "\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int r = 0; r < ROWS; ++r) {\n"
         "    const int64_t row = first_row + r * GROUPS;\n"
         "    const unsigned char *x = (const unsigned char *)args.x + row * args.x_row_stride * SIZE;\n"
         "    unsigned char *y = (unsigned char *)args.y + row * args.y_row_stride * SIZE;\n"
         "    const RowCut cut = cut_row(x, SIZE, row < args.rows ? args.columns : 0);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < VALUES; ++i)\n"
         "      value[r][i] *= factor[r];\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < VECTORS; ++i)\n"
         "      vector[r][i] = narrow_vector_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(value[r] + i * ELEMENTS);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < EDGES; ++i)\n"
         "      edge[r][i] = narrow_element_");
    STRING(in->word[AP_SOFTMAX_DTYPE]);
    TEXT("(value[r][VECTORS * ELEMENTS + i]);\n");
    if (packed) {
      TEXT("    if (in_piece) {\n"
           "      unsigned char *own = piece + (int)(row - block_row) * args.columns * SIZE;\n"
           "      put_vectors(own, SIZE, cut, thread, ROW_THREADS, VECTORS, vector[r]);\n"
           "      put_edges(own, SIZE, cut, thread, ROW_THREADS, EDGES, edge[r]);\n"
           "      continue;\n"
           "    }\n");
    }
    TEXT("    store_vectors(y, SIZE, cut, thread, ROW_THREADS, VECTORS, vector[r]);\n"
         "    store_edges(y, SIZE, cut, thread, ROW_THREADS, EDGES, edge[r]);\n"
         "  }\n");
    if (packed) {
      TEXT("  if (in_piece) {\n"
           "    // All threads arrive and wait: hands over the block's results.\n"
           "    __syncthreads();\n"
           "    store_piece(y_piece, SIZE, piece_cut, threadIdx.x, THREADS, piece);\n"
           "  }\n");
    }
    TEXT("}\n");
  }
}
