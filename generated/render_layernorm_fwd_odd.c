/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_odd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_odd(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_odd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  const int32_t packed = in->field[AP_LAYERNORM_TILE_PACKED];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS columns and a vector\n"
         "// less one, rstd = 1 / sqrt(variance + eps), of x + residual where there is one.\n");
  } else {
    TEXT("// y = x rstd weight + bias over the rows of a matrix of at most COLUMNS columns and a vector less\n"
         "// one, rstd = 1 / sqrt(mean square + eps), of x + residual where there is one.\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside; rows may begin at any element. ROW_THREADS threads share a\n"
       "// row: its vectors, cut where addresses are multiples of 16 bytes, and the elements beside those. A\n"
       "// thread block walks over rows, gridDim.x * GROUPS apart: a multiple of PERIOD, where it has more than\n"
       "// one round of them, so that all rows of a thread are cut alike, and weight and bias stay in registers\n"
       "// where they are needed. Later rows are on their way to shared memory meanwhile. y may be x.\n");
  if (packed) {
    TEXT("//\n"
         "// Where rows lie one after the other, from a multiple of 16 bytes on, those of a warp go through shared\n"
         "// memory as one piece, which is whole vectors.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_odd.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass fwd --norm ");
  STRING(in->word[AP_LAYERNORM_NORM]);
  TEXT(" --cols ");
  INTEGER(cols);
  TEXT(" \\\n"
       "//     --dtype ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(" --params ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(" --rows odd\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_piece.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n");
  int32_t more_edges = 0;
  int32_t shifted = 0;
  TEXT("constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of a parameter's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCKS = ");
  INTEGER(blocks);
  TEXT("; // of an SM\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "\n"
       "typedef attnpress_layernorm_fwd_args Args;\n"
       "\n"
       "constexpr int SIZE = 2; // bytes of an element\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int PERIOD = 8; // rows so far apart begin at the same element of a vector, in any matrix\n"
       "static_assert(PERIOD * SIZE % 16 == 0, \"whole vectors apart, whatever the stride\");\n"
       "constexpr int GROUPS = THREADS / ROW_THREADS; // rows of a block at a time\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row\n");
  if (more_edges) {
    TEXT("constexpr int MORE_COLUMNS = 1024; // of the longest rows, than vectors have: elements beside them\n"
         "constexpr int EDGES = MORE_COLUMNS / ROW_THREADS; // of a thread in such a row\n");
  } else {
    TEXT("constexpr int EDGES = (2 * ELEMENTS - 2 + ROW_THREADS - 1) / ROW_THREADS; // and elements beside them\n");
  }
  TEXT("constexpr int VALUES = VECTORS * ELEMENTS + EDGES; // of a thread in a row, the edges last\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's parameters\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // rows of a group in shared memory\n");
  if (shifted) {
    TEXT("// Of a row's vectors, of a warp's with what follows them; and from one of a thread's to the next.\n"
         "constexpr int ROW_BYTES = ROW_THREADS > 32 ? COLUMNS * SIZE / 32 * 33 : COLUMNS * SIZE + 16;\n"
         "constexpr int APART = ROW_THREADS > 32 ? 33 * 16 : ROW_THREADS * 16;\n");
  } else {
    TEXT("constexpr int ROW_BYTES = COLUMNS * SIZE + 16; // of the vectors of a row, from anywhere in one on\n");
  }
  TEXT("constexpr int PLACE_BYTES = GROUPS * ROW_BYTES; // of a block's rows of a matrix\n"
       "static_assert(VECTORS * ELEMENTS * ROW_THREADS == COLUMNS, \"threads share a row evenly\");\n"
       "\n"
       "// Row number `row` of a matrix, or from another one on.\n"
       "__device__ __forceinline__ unsigned char *row_of(const void *matrix, int64_t row, int64_t stride) {\n"
       "  return (unsigned char *)matrix + row * stride * SIZE;\n"
       "}\n"
       "\n"
       "// How a row is cut, all of a thread's being cut alike; one that is not there has nothing.\n"
       "__device__ __forceinline__ RowCut cut_of(const Args *args, RowCut cut, int64_t row) {\n"
       "  if (row >= args->rows)\n"
       "    cut.vectors = cut.edges = 0;\n"
       "  return cut;\n"
       "}\n"
       "\n"
       "// A thread's vectors of a row on their way to `own`, to places that nobody else reads.\n"
       "__device__ __forceinline__ void send_own_vectors(const unsigned char *row, RowCut cut, int thread,\n"
       "                                                 unsigned char *own) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int index = i * ROW_THREADS + thread, byte = vector_column(cut, SIZE, index) * SIZE;\n"
       "    if (index < cut.vectors)\n"
       "      cp_async_16(shared_address(own + byte), row + byte, 16);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Where the elements of a thread beside its vectors are in its rows. byte: (EDGES)\n");
  if (more_edges) {
    TEXT("__device__ __forceinline__ void find_edges(int each, RowCut cut, int thread, int *byte) {\n");
  } else {
    TEXT("__device__ __forceinline__ void find_edges(RowCut cut, int thread, int *byte) {\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < ");
  STRING(more_edges ? "each" : "EDGES");
  TEXT("; ++i)\n"
       "    byte[i] = edge_column(cut, i * ROW_THREADS + thread) * SIZE;\n"
       "}\n"
       "\n"
       "// These, 0 where the row has none. byte, edge: (EDGES)\n");
  if (more_edges) {
    TEXT("__device__ __forceinline__ void load_own_edges(int each, const unsigned char *row, RowCut cut,\n"
         "                                               int thread, const int *byte, uint32_t *edge) {\n");
  } else {
    TEXT("__device__ __forceinline__ void load_own_edges(const unsigned char *row, RowCut cut, int thread,\n"
         "                                               const int *byte, uint32_t *edge) {\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < ");
  STRING(more_edges ? "each" : "EDGES");
  TEXT("; ++i)\n"
       "    edge[i] = load_2_if(i * ROW_THREADS + thread < cut.edges, row + byte[i], 0);\n"
       "}\n"
       "\n");
  if (more_edges) {
    TEXT("__device__ __forceinline__ void store_own_edges(int each, unsigned char *row, RowCut cut,\n"
         "                                                int thread, const int *byte,\n"
         "                                                const uint32_t *edge) {\n");
  } else {
    TEXT("__device__ __forceinline__ void store_own_edges(unsigned char *row, RowCut cut, int thread,\n"
         "                                                const int *byte, const uint32_t *edge) {\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < ");
  STRING(more_edges ? "each" : "EDGES");
  TEXT("; ++i)\n"
       "    store_2_if(i * ROW_THREADS + thread < cut.edges, row + byte[i], edge[i]);\n"
       "}\n"
       "\n"
       "// What a thread has of a parameter in its rows: the words of its vectors, and the values of its\n"
       "// edges. Where there is none, `absent`. edge: (EDGES)\n");
  if (more_edges) {
    TEXT("__device__ __forceinline__ void load_parameter(int each, const void *parameter, RowCut cut,\n"
         "                                               int thread, float absent,\n"
         "                                               uint32_t (*word)[WORDS], float *edge) {\n");
  } else {
    TEXT("__device__ __forceinline__ void load_parameter(const void *parameter, RowCut cut, int thread,\n"
         "                                               float absent, uint32_t (*word)[WORDS],\n"
         "                                               float *edge) {\n");
  }
  TEXT("  float filler[ELEMENTS];\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    filler[j] = absent;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(filler, ELEMENTS, word[i]);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ");
  STRING(more_edges ? "each" : "EDGES");
  TEXT("; ++i)\n"
       "    edge[i] = absent;\n"
       "  if (!parameter)\n"
       "    return;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int index = i * ROW_THREADS + thread;\n"
       "    const unsigned char *from =\n"
       "        (const unsigned char *)parameter + vector_column(cut, SIZE, index) * PARAMETER_SIZE;\n");
  if (params == AP_LAYERNORM_PARAMS_FP32) {
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < WORDS; ++j)\n"
         "      word[i][j] = load_4_if(index < cut.vectors, from + j * 4, 0);\n");
  } else {
    TEXT("    load_halves(from, index < cut.vectors, ELEMENTS, word[i]);\n");
  }
  TEXT("  }\n"
       "  uint32_t bits[EDGES];\n"
       "  load_edges(parameter, PARAMETER_SIZE, cut, thread, ROW_THREADS, ");
  STRING(more_edges ? "each" : "EDGES");
  TEXT(", 0, bits);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ");
  STRING(more_edges ? "each" : "EDGES");
  TEXT("; ++i)\n"
       "    edge[i] = widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(bits[i]);\n"
       "}\n"
       "\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == SLOTS * PLACE_BYTES, \"the generator has another formula\");\n"
       "\n"
       "// Parameters of fp32 leave no registers for it beside 16 bits.\n"
       "constexpr bool BRINGS_ENDS = ");
  STRING(((params == AP_LAYERNORM_PARAMS_FP32) && (dtype != AP_LAYERNORM_DTYPE_FP32)) ? "false" : "true");
  TEXT(";\n"
       "\n"
       "// Brings what rows of y will be written to in part to the L2 cache. One that x lies in comes anyway.\n"
       "__device__ __forceinline__ void prefetch_row_ends(const Args *args, int64_t row, int thread) {\n"
       "  if (BRINGS_ENDS && args->y != args->x && row < args->rows &&\n"
       "      args->y_row_stride != args->columns)\n"
       "    prefetch_ends_by_two(row_of(args->y, row, args->y_row_stride), SIZE, args->columns, thread);\n"
       "}\n"
       "\n");
  if (packed) {
    TEXT("// Rows of a warp as one piece: PERIOD rows that lie one after the other, from a multiple of 16 bytes\n"
         "// on, are whole vectors together, as many as a row has columns.\n"
         "constexpr int PIECE_VECTORS = (COLUMNS + ELEMENTS - 1 + 31) / 32; // of a lane\n"
         "static_assert(ROW_THREADS * PERIOD == 32, \"a warp has rows that are whole vectors together\");\n"
         "\n"
         "// Whether the rows of a matrix lie so.\n"
         "__device__ __forceinline__ bool is_packed(const Args *args, const void *matrix, int64_t stride) {\n"
         "  return stride == args->columns && (uint64_t)matrix % 16 == 0;\n"
         "}\n"
         "\n"
         "// Sends a piece on its way to shared memory.\n"
         "__device__ __forceinline__ void send_piece(const unsigned char *rows, int columns,\n"
         "                                           unsigned char *piece) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < PIECE_VECTORS; ++i) {\n"
         "    const int index = i * 32 + threadIdx.x % 32;\n"
         "    if (index < columns)\n"
         "      cp_async_16(shared_address(piece) + index * 16, rows + index * 16, 16);\n"
         "  }\n"
         "}\n"
         "\n"
         "// Takes it to where its rows belong, by the lanes that send the next one.\n"
         "__device__ __forceinline__ void return_piece(unsigned char *rows, int columns,\n"
         "                                             const unsigned char *piece) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < PIECE_VECTORS; ++i) {\n"
         "    const int index = i * 32 + threadIdx.x % 32;\n"
         "    if (index < columns)\n"
         "      *(uint4 *)(rows + index * 16) = *(const uint4 *)(piece + index * 16);\n"
         "  }\n"
         "}\n"
         "\n"
         "// Whether the rows of this thread's warp, of which this is number `row`, are all there.\n"
         "__device__ __forceinline__ bool is_warp_full(const Args *args, int64_t row) {\n"
         "  return row - threadIdx.x % 32 / ROW_THREADS + PERIOD <= args->rows;\n"
         "}\n"
         "\n"
         "// Sends the rows of a warp on their way as a piece if `in_piece`, or a thread's vectors of this one.\n"
         "__device__ __forceinline__ void send_row(const Args *args, const void *matrix, int64_t stride,\n"
         "                                         int64_t row, RowCut cut, int thread, bool in_piece,\n"
         "                                         unsigned char *piece, unsigned char *own) {\n"
         "  if (!in_piece)\n"
         "    prefetch_row_ends(args, row, thread);\n"
         "  if (in_piece)\n"
         "    send_piece(row_of(matrix, row - threadIdx.x % 32 / ROW_THREADS, stride), args->columns, piece);\n"
         "  else\n"
         "    send_own_vectors(row_of(matrix, row, stride), cut_of(args, cut, row), thread, own);\n"
         "}\n"
         "\n");
  }
  TEXT("// A thread's values of a row. vector: (VECTORS), edge: (EDGES), value: (VALUES)\n"
       "__device__ __forceinline__ void widen_row(const uint4 *vector, const uint32_t *edge, float *value) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(vector[i], value + i * ELEMENTS);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < EDGES; ++i)\n"
       "    value[VECTORS * ELEMENTS + i] = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(edge[i]);\n"
       "}\n"
       "\n"
       "// The other way round.\n"
       "__device__ __forceinline__ void narrow_row(const float *value, uint4 *vector, uint32_t *edge) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    vector[i] = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value + i * ELEMENTS);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < EDGES; ++i)\n"
       "    edge[i] = narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value[VECTORS * ELEMENTS + i]);\n"
       "}\n"
       "\n"
       "// x + residual, rounded, of a thread's part of a row; written to `sum`. vector: (VECTORS), edge: (EDGES),\n"
       "// of x, then the sum\n"
       "__device__ __forceinline__ void add_residual(const void *residual, void *sum, RowCut cut,\n"
       "                                             int thread, uint4 *vector, uint32_t *edge) {\n"
       "  uint4 other[VECTORS];\n"
       "  uint32_t other_edge[EDGES];\n"
       "  load_vectors(residual, SIZE, cut, thread, ROW_THREADS, VECTORS, 0, other);\n"
       "  load_edges(residual, SIZE, cut, thread, ROW_THREADS, EDGES, 0, other_edge);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float a[ELEMENTS], b[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(vector[i], a);\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(other[i], b);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      a[j] += b[j];\n"
       "    vector[i] = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(a);\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < EDGES; ++i)\n"
       "    edge[i] = narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(edge[i]) +\n"
       "                                        widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(other_edge[i]));\n"
       "  store_vectors(sum, SIZE, cut, thread, ROW_THREADS, VECTORS, vector);\n"
       "  store_edges(sum, SIZE, cut, thread, ROW_THREADS, EDGES, edge);\n"
       "}\n"
       "\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// The sum of a thread's part of a row, each vector's by itself, so that additions need not wait for each\n"
         "// other. value: (VALUES)\n"
         "__device__ __forceinline__ float sum_values(const float *value) {\n"
         "  float sum = 0.0f;\n"
         "#pragma unroll\n"
         "  for (int i = VECTORS * ELEMENTS; i < VALUES; ++i)\n"
         "    sum += value[i];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float part = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      part += value[i * ELEMENTS + j];\n"
         "    sum += part;\n"
         "  }\n"
         "  return sum;\n"
         "}\n"
         "\n");
  }
  TEXT("// The sum of squared differences to `mean` likewise.\n"
       "__device__ __forceinline__ float sum_squares(const float *value, RowCut cut, int thread,\n"
       "                                             float mean) {\n"
       "  float sum = 0.0f;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < EDGES; ++i) {\n"
       "    // Values that are not there are 0, and so is their mean.\n"
       "    const float own = i * ROW_THREADS + thread < cut.edges ? mean : 0.0f;\n"
       "    sum += (value[VECTORS * ELEMENTS + i] - own) * (value[VECTORS * ELEMENTS + i] - own);\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const float own = i * ROW_THREADS + thread < cut.vectors ? mean : 0.0f;\n"
       "    float part = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      part += (value[i * ELEMENTS + j] - own) * (value[i * ELEMENTS + j] - own);\n"
       "    sum += part;\n"
       "  }\n"
       "  return sum;\n"
       "}\n"
       "\n");
  if ((norm == AP_LAYERNORM_NORM_LAYER) && (row_threads > 32)) {
    TEXT("// How many values the warp has of its rows.\n"
         "__device__ __forceinline__ float count_values(RowCut cut, int thread) {\n"
         "  int own = 0;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i)\n"
         "    own += i * ROW_THREADS + thread < cut.vectors ? ELEMENTS : 0;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < EDGES; ++i)\n"
         "    own += i * ROW_THREADS + thread < cut.edges ? 1 : 0;\n"
         "  return sum_lanes((float)own, 32);\n"
         "}\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  const int thread = threadIdx.x % ROW_THREADS, group = threadIdx.x / ROW_THREADS;\n"
       "  const int64_t step = (int64_t)gridDim.x * GROUPS;\n"
       "  int64_t row = (int64_t)blockIdx.x * GROUPS + group;\n"
       "  const unsigned char *const x = row_of(args.x, row, args.x_row_stride);\n"
       "  const RowCut cut = cut_row(x, SIZE, args.columns);\n"
       "  int edge_byte[EDGES];\n"
       "  find_edges(cut, thread, edge_byte);\n"
       "  // Where a row of this group is, in a slot.\n"
       "  unsigned char *const place = smem + group * ROW_BYTES + (uint64_t)x % 16;\n");
  if (packed) {
    TEXT("  // Or the warp's rows together, and this one among them.\n"
         "  unsigned char *const piece = smem + threadIdx.x / 32 * PERIOD * ROW_BYTES;\n"
         "  unsigned char *const piece_row = piece + group % PERIOD * args.columns * SIZE;\n"
         "  const bool packed = is_packed(&args, args.x, args.x_row_stride) &&\n"
         "                      is_packed(&args, args.y, args.y_row_stride);\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < SLOTS; ++i) {\n"
         "    const int64_t later = row + i * step;\n"
         "    send_row(&args, args.x, args.x_row_stride, later, cut, thread,\n"
         "             packed && is_warp_full(&args, later), piece + i * PLACE_BYTES,\n"
         "             place + i * PLACE_BYTES);\n"
         "    cp_async_commit();\n"
         "  }\n");
  } else {
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < SLOTS; ++i) {\n"
         "    send_own_vectors(row_of(x, i * step, args.x_row_stride), cut_of(&args, cut, row + i * step),\n"
         "                     thread, place + i * PLACE_BYTES);\n"
         "    cp_async_commit();\n"
         "    prefetch_row_ends(&args, row + i * step, thread);\n"
         "  }\n"
         "  uint32_t next_edge[EDGES];\n"
         "  load_own_edges(x, cut_of(&args, cut, row), thread, edge_byte, next_edge);\n");
  }
  TEXT("  uint32_t weight[VECTORS][WORDS], bias[VECTORS][WORDS];\n"
       "  float weight_edge[EDGES], bias_edge[EDGES];\n"
       "  load_parameter(args.weight, cut, thread, 1.0f, weight, weight_edge);\n"
       "  load_parameter(args.bias, cut, thread, 0.0f, bias, bias_edge);\n");
  if (row_threads > 32) {
    TEXT("  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  const int other = threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS;\n"
         "  int turn = 0; // in turn: one barrier a row is enough\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  __shared__ Moments warp_part[2][THREADS / 32];\n"
           "  const float count = count_values(cut, thread); // of the warp's part of a row\n");
    } else {
      TEXT("  __shared__ float warp_squares[2][THREADS / 32];\n");
    }
  }
  TEXT("  int slot = 0;\n"
       "  // As often as the block's first group has a row; others then may have none.\n"
       "  for (; row - group < args.rows; row += step) {\n"
       "    const RowCut own = cut_of(&args, cut, row);\n"
       "    uint4 vector[VECTORS];\n"
       "    uint32_t edge[EDGES];\n"
       "    float value[VALUES];\n"
       "    cp_async_wait(SLOTS - 1);\n");
  if (packed) {
    TEXT("    const bool in_piece = packed && is_warp_full(&args, row);\n"
         "    unsigned char *const at = (in_piece ? piece_row : place) + slot * PLACE_BYTES;\n"
         "    // All lanes arrive and wait: hands over the rows of the warp.\n"
         "    __syncwarp();\n"
         "    take_vectors(at, SIZE, own, thread, ROW_THREADS, VECTORS, 0, vector);\n"
         "    if (in_piece)\n"
         "      take_edges(at, SIZE, own, thread, ROW_THREADS, EDGES, 0, edge);\n"
         "    else\n"
         "      load_own_edges(row_of(args.x, row, args.x_row_stride), own, thread, edge_byte, edge);\n");
  } else {
    TEXT("    take_vectors(place + slot * PLACE_BYTES, SIZE, own, thread, ROW_THREADS, VECTORS, 0, vector);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < EDGES; ++i)\n"
         "      edge[i] = next_edge[i];\n"
         "    // The row that comes SLOTS later takes its place.\n"
         "    send_own_vectors(row_of(args.x, row + SLOTS * step, args.x_row_stride),\n"
         "                     cut_of(&args, cut, row + SLOTS * step), thread, place + slot * PLACE_BYTES);\n"
         "    cp_async_commit();\n"
         "    prefetch_row_ends(&args, row + SLOTS * step, thread);\n"
         "    load_own_edges(row_of(args.x, row + step, args.x_row_stride), cut_of(&args, cut, row + step),\n"
         "                   thread, edge_byte, next_edge);\n");
  }
  TEXT("    if (args.residual)\n"
       "      add_residual(row_of(args.residual, row, args.residual_row_stride),\n"
       "                   row_of(args.sum, row, args.sum_row_stride), own, thread, vector, edge);\n"
       "    widen_row(vector, edge, value);\n"
       "\n"
       "    // Mean and sum of squares: over the warp's part of the row, then over its warps.\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    if (row_threads > 32) {
      TEXT("    const float own_mean = sum_lanes(sum_values(value), LANES) / fmaxf(count, 1.0f);\n"
           "    const float own_squares = sum_lanes(sum_squares(value, own, thread, own_mean), LANES);\n"
           "    if (threadIdx.x % 32 == 0) {\n"
           "      const Moments part = {count, own_mean, own_squares};\n"
           "      warp_part[turn][threadIdx.x / 32] = part;\n"
           "    }\n"
           "    // All threads arrive and wait: hands over the moments of the warps.\n"
           "    __syncthreads();\n"
           "    const Moments all = add_moments_of_lanes(warp_part[turn][other], ROW_WARPS);\n"
           "    const float mean = all.mean, squares = all.squares;\n"
           "    turn ^= 1;\n");
    } else {
      TEXT("    const float mean = sum_lanes(sum_values(value), LANES) * args.per_column;\n"
           "    const float squares = sum_lanes(sum_squares(value, own, thread, mean), LANES);\n");
    }
  } else {
    TEXT("    constexpr float mean = 0.0f;\n"
         "    float squares = sum_lanes(sum_squares(value, own, thread, mean), LANES);\n");
    if (row_threads > 32) {
      TEXT("    if (threadIdx.x % 32 == 0)\n"
           "      warp_squares[turn][threadIdx.x / 32] = squares;\n"
           "    // All threads arrive and wait: hands over the sums of the warps.\n"
           "    __syncthreads();\n"
           "    squares = sum_lanes(warp_squares[turn][other], ROW_WARPS);\n"
           "    turn ^= 1;\n");
    }
  }
  TEXT("    const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n"
       "\n"
       "    // x^ by one instruction, of values that were rounded to 16 bits.\n"
       "    const float offset = -mean * rstd;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      uint32_t word[WORDS];\n"
       "      float factor[ELEMENTS], added[ELEMENTS];\n"
       "      renew_words(weight[i], WORDS, word);\n"
       "      widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, factor);\n"
       "      renew_words(bias[i], WORDS, word);\n"
       "      widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, added);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        value[i * ELEMENTS + j] = (value[i * ELEMENTS + j] * rstd + offset) * factor[j] + added[j];\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int i = VECTORS * ELEMENTS; i < VALUES; ++i)\n"
       "      value[i] = (value[i] * rstd + offset) * weight_edge[i - VECTORS * ELEMENTS] +\n"
       "                 bias_edge[i - VECTORS * ELEMENTS];\n"
       "    narrow_row(value, vector, edge);\n"
       "    unsigned char *const y = row_of(args.y, row, args.y_row_stride);\n");
  if (packed) {
    TEXT("    if (in_piece) {\n"
         "      put_vectors(at, SIZE, own, thread, ROW_THREADS, VECTORS, vector);\n"
         "      put_edges(at, SIZE, own, thread, ROW_THREADS, EDGES, edge);\n"
         "      // All lanes arrive and wait: hands over the rows of y.\n"
         "      __syncwarp();\n"
         "      return_piece(row_of(args.y, row - group % PERIOD, args.y_row_stride), args.columns,\n"
         "                   piece + slot * PLACE_BYTES);\n"
         "    } else {\n"
         "      store_vectors(y, SIZE, own, thread, ROW_THREADS, VECTORS, vector);\n"
         "      store_own_edges(y, own, thread, edge_byte, edge);\n"
         "    }\n");
  } else {
    TEXT("    store_vectors(y, SIZE, own, thread, ROW_THREADS, VECTORS, vector);\n"
         "    store_own_edges(y, own, thread, edge_byte, edge);\n");
  }
  TEXT("    if (thread == 0 && row < args.rows) {\n"
       "      if (CENTERED && args.mean)\n"
       "        args.mean[row] = mean;\n"
       "      if (args.rstd)\n"
       "        args.rstd[row] = rstd;\n"
       "    }\n");
  if (packed) {
    TEXT("    // All lanes arrive and wait: the piece has been read. What comes SLOTS later takes its place.\n"
         "    __syncwarp();\n"
         "    const int64_t later = row + SLOTS * step;\n"
         "    send_row(&args, args.x, args.x_row_stride, later, cut, thread,\n"
         "             packed && is_warp_full(&args, later), piece + slot * PLACE_BYTES,\n"
         "             place + slot * PLACE_BYTES);\n"
         "    cp_async_commit();\n");
  }
  TEXT("    slot = slot + 1 == SLOTS ? 0 : slot + 1;\n"
       "  }\n"
       "}\n");
}
