/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_odd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_odd(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_odd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t rows = in->axis[AP_LAYERNORM_ROWS];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  int32_t shifted = (rows == AP_LAYERNORM_ROWS_SHIFTED) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (cols == 8192) {
    TEXT("// With x^ = (x - mean) rstd");
    STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0,");
    TEXT(" and g = dy weight, over rows of at most COLUMNS columns and\n"
         "// ");
    STRING((params == AP_LAYERNORM_PARAMS_FP32) ? "one more" : "two more");
    TEXT(" of each thread:\n");
  } else {
    TEXT("// With x^ = (x - mean) rstd");
    STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0,");
    TEXT(" and g = dy weight, over rows of at most COLUMNS columns and a\n"
         "// vector less one:\n");
  }
  TEXT("//   dx = rstd (g - ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "mean(g) - " : "");
  TEXT("x^ mean(g x^)) + dsum,    dweight = sum(dy x^),    dbias = sum(dy).\n"
       "// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", weight ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside; rows may begin at any element. ROW_THREADS threads share a row of\n"
       "// x and dy: their vectors, cut where addresses of ");
  STRING(shifted ? "d" : "");
  TEXT("x are multiples of 16 bytes, and the elements beside\n"
       "// those. A thread block walks over rows, gridDim.x * GROUPS apart: a multiple of PERIOD, where it has\n"
       "// more than one round of them, so that all rows of a thread are cut alike. It adds up its columns of\n"
       "// dweight and dbias, which another kernel then adds up over the blocks. Later rows are on their way to\n");
  if (shifted) {
    TEXT("// shared memory meanwhile, of x by vectors of memory, of which a thread shifts two to one of the row. dx may\n"
         "// be dy or dsum.\n");
  } else {
    TEXT("// shared memory meanwhile. dx may be x, dy or dsum.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_odd.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass bwd --norm ");
  STRING(in->word[AP_LAYERNORM_NORM]);
  TEXT(" --cols ");
  INTEGER(cols);
  TEXT(" \\\n"
       "//     --dtype ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(" --params ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(" --rows ");
  STRING(in->word[AP_LAYERNORM_ROWS]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_piece.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n");
  int32_t dsum_late = (cols == 6144) ? 1 : 0;
  int32_t dsum_behind = ((cols > (16 * row_threads)) || ((params == AP_LAYERNORM_PARAMS_FP32) && (row_threads > 32))) ? 1 : 0;
  int32_t of_gaps = ((cols == 64) || (cols == 128) || (cols == 256) || (cols == 512)) ? 1 : 0;
  int32_t capped = (cols == 8192) ? 1 : 0;
  int32_t more_edges = ((cols == 8192) && (params != AP_LAYERNORM_PARAMS_FP32)) ? 1 : 0;
  TEXT("constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of the weight's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCKS = ");
  INTEGER(blocks);
  TEXT("; // of an SM\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n");
  if (row_threads > 32) {
    TEXT("constexpr int WARPS = THREADS / 32, ROW_WARPS = ROW_THREADS / 32;\n");
  }
  TEXT("typedef attnpress_layernorm_bwd_args Args;\n"
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
       "\n");
  if (shifted) {
    TEXT("// Of two words, one after the other, the one that begins `bits` later than the first.\n"
         "__device__ __forceinline__ uint32_t word_across(uint32_t first, uint32_t second, int bits) {\n"
         "  return (uint32_t)(((uint64_t)second << 32 | first) >> bits);\n"
         "}\n"
         "// The vector that begins `bits` later than the first of five words.\n"
         "__device__ __forceinline__ uint4 words_across(const uint32_t *from, int bits) {\n"
         "  const uint4 across = {word_across(from[0], from[1], bits), word_across(from[1], from[2], bits),\n"
         "                        word_across(from[2], from[3], bits), word_across(from[3], from[4], bits)};\n"
         "  return across;\n"
         "}\n");
  }
  TEXT("// Whether x^ and g of a row stay in registers; else they are made twice.\n"
       "constexpr bool HELD = VECTORS <= 2;\n"
       "// The sums of a group of threads over its rows, of dweight and dbias: those of a value lie SUM_STRIDE\n"
       "// apart from those of the next one.\n"
       "constexpr int SUM_STRIDE = ROW_THREADS == 4 ? 4 : ROW_THREADS + 4;\n"
       "constexpr int GROUP_SUMS = VALUES * SUM_STRIDE + 4;\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES >= 2 * SLOTS * PLACE_BYTES && SMEM_BYTES >= GROUPS * GROUP_SUMS * 8,\n"
       "              \"the generator has another formula\");\n"
       "\n");
  if (shifted) {
    TEXT("// Where a thread's first vector of a shifted row is in its place: what follows it comes next.\n"
         "__device__ __forceinline__ int own_byte(int thread) {\n"
         "  return (ROW_THREADS > 32 ? thread / 32 * VECTORS * 33 + thread % 32 : thread) * 16;\n"
         "}\n"
         "\n"
         "// By how many bytes vectors of the matrix are ahead of those of the row, where dx is cut.\n"
         "__device__ __forceinline__ int shift_of(const unsigned char *row, RowCut cut) {\n"
         "  return (int)(((uint64_t)row + cut.head * SIZE) % 16);\n"
         "}\n"
         "\n"
         "// A thread's vectors of such a row on their way. The last lane of those that share a row, or of a warp,\n"
         "// brings what follows its vectors, too. ends: whether the matrix ends with the row, which end_matrix()\n"
         "// brings the end of; own: the thread's first place\n"
         "__device__ __forceinline__ void send_shifted(const unsigned char *row, RowCut cut, int shift,\n"
         "                                             bool ends, int thread, unsigned char *own) {\n"
         "  const unsigned char *const from = row + (cut.head * SIZE - shift) + thread * 16;\n"
         "  const int vectors = cut.vectors + (cut.vectors > 0 && shift > 0 && !ends);\n"
         "  const bool last = thread % LANES == LANES - 1;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const int index = i * ROW_THREADS + thread, byte = i * ROW_THREADS * 16;\n"
         "    const uint32_t to = shared_address(own) + i * APART;\n"
         "    if (index < vectors)\n"
         "      cp_async_16(to, from + byte, 16);\n"
         "    if ((ROW_THREADS > 32 || i == VECTORS - 1) && last && index + 1 < vectors)\n"
         "      cp_async_16(to + 16, from + byte + 16, 16);\n"
         "  }\n"
         "}\n"
         "\n"
         "// Of the matrix's last row, behind which nothing is read: what its last vector ends with, by who reads it.\n"
         "__device__ __forceinline__ void end_matrix(const unsigned char *row, RowCut cut, int shift,\n"
         "                                           int thread, unsigned char *own) {\n"
         "  const int last = cut.vectors - 1, i = (last - thread) / ROW_THREADS;\n"
         "  const unsigned char *const from = row + (cut.head * SIZE - shift) + cut.vectors * 16;\n"
         "  if (last < 0 || i * ROW_THREADS + thread != last)\n"
         "    return;\n"
         "#pragma unroll 1\n"
         "  for (int j = 0; j < ELEMENTS; ++j)\n"
         "    store_element(own + i * APART + 16, SIZE, j,\n"
         "                  j * SIZE < shift ? load_element(from, SIZE, j) : 0);\n"
         "}\n"
         "\n"
         "// Vector number `index` of a thread, 0 where the row has no more. own: its place\n"
         "__device__ __forceinline__ uint4 take_shifted(const unsigned char *own, RowCut cut, int shift,\n"
         "                                              int index) {\n"
         "  uint32_t word[5] = {0, 0, 0, 0, 0};\n"
         "  if (index < cut.vectors) {\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < 5; ++j)\n"
         "      if (j < 4 || shift & 2)\n"
         "        word[j] = ((const uint32_t *)(own + (shift & 12)))[j];\n"
         "  }\n"
         "  return words_across(word, (shift & 2) * 8);\n"
         "}\n"
         "\n");
  }
  if (capped) {
    TEXT("// Cuts a row: what the threads have no vectors for lies beside them, too.\n"
         "__device__ __forceinline__ RowCut cut_own_row(const void *row, int columns) {\n"
         "  RowCut cut = cut_row(row, SIZE, columns);\n"
         "  cut.vectors = min(cut.vectors, VECTORS * ROW_THREADS);\n"
         "  cut.edges = columns - cut.vectors * ELEMENTS;\n"
         "  return cut;\n"
         "}\n"
         "\n");
  }
  TEXT("// The same of a row that is dealt to the threads as another was cut.\n"
       "__device__ __forceinline__ void send_vectors(const unsigned char *row, RowCut cut, int thread,\n"
       "                                             unsigned char *own) {\n"
       "  if (is_cut_alike(row, SIZE, cut)) {\n"
       "    send_own_vectors(row, cut, thread, own);\n"
       "    return;\n"
       "  }\n"
       "#pragma unroll 1\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int index = i * ROW_THREADS + thread, column = vector_column(cut, SIZE, index);\n"
       "    if (index < cut.vectors)\n"
       "      *(uint4 *)(own + column * SIZE) = load_vector_by_elements(row, SIZE, column);\n"
       "  }\n"
       "}\n"
       "\n");
  if (of_gaps) {
    TEXT("// Whether rows of dx lie less than a line of the cache apart: sectors that they have a part of are\n"
         "// brought to the L2 cache (prefetch_ends()).\n"
         "__device__ __forceinline__ bool lies_apart(const attnpress_layernorm_bwd_args *args) {\n"
         "  const uint32_t gap = (uint32_t)args->dx_row_stride - (uint32_t)args->columns;\n"
         "  return gap - 1 < 128 / SIZE - 1;\n"
         "}\n"
         "\n");
  }
  if (shifted) {
    TEXT("// By how many bytes vectors of x are ahead, and where rows of dy begin in their places, in all of a\n"
         "// thread's rows.\n"
         "struct Shifts {\n"
         "  int x, dy;\n"
         "};\n"
         "\n");
  }
  TEXT("// A thread's vectors of a row of x and of dy on their way. x_row: its place, PLACE_BYTES before dy's\n");
  if (shifted) {
    TEXT("__device__ __forceinline__ void send_row(const Args *args, int64_t row, RowCut cut, Shifts shifts,\n"
         "                                         int thread, unsigned char *x_row) {\n"
         "  const RowCut own = cut_of(args, cut, row);\n"
         "  send_shifted(row_of(args->x, row, args->x_row_stride), own, shifts.x,\n"
         "               row == args->rows - 1, thread, x_row + own_byte(thread));\n"
         "  send_vectors(row_of(args->dy, row, args->dy_row_stride), own, thread,\n"
         "               x_row + PLACE_BYTES + shifts.dy);\n");
  } else {
    TEXT("__device__ __forceinline__ void send_row(const Args *args, int64_t row, RowCut cut, int thread,\n"
         "                                         unsigned char *x_row) {\n"
         "  const RowCut own = cut_of(args, cut, row);\n"
         "  send_own_vectors(row_of(args->x, row, args->x_row_stride), own, thread, x_row);\n"
         "  send_vectors(row_of(args->dy, row, args->dy_row_stride), own, thread, x_row + PLACE_BYTES);\n");
  }
  TEXT("  cp_async_commit();\n");
  if (of_gaps) {
    TEXT("  if (lies_apart(args) && row < args->rows)\n"
         "    prefetch_ends_by_two(row_of(args->dx, row, args->dx_row_stride), SIZE, args->columns, thread);\n");
  }
  TEXT("}\n"
       "\n"
       "// What the forward pass wrote of a row.\n"
       "struct RowMoments {\n"
       "  float mean, rstd;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ RowMoments load_moments(const Args *args, int64_t row) {\n"
       "  RowMoments moments = {0.0f, 0.0f};\n"
       "  if (row < args->rows) {\n"
       "    if (CENTERED)\n"
       "      moments.mean = args->mean[row];\n"
       "    moments.rstd = args->rstd[row];\n"
       "  }\n"
       "  return moments;\n"
       "}\n"
       "\n"
       "// Vector number `index` of a thread, of x^ and of dy, which is 0 beyond the row. x_row, dy_row: in\n"
       "// shared memory\n");
  if (shifted) {
    TEXT("__device__ __forceinline__ void take_values(const unsigned char *x_row, const unsigned char *dy_row,\n"
         "                                            RowCut cut, Shifts shifts, int index, int thread,\n"
         "                                            RowMoments moments, float *x, float *dy) {\n"
         "  uint4 vector;\n"
         "  vector = take_shifted(x_row + own_byte(thread) + index * APART, cut, shifts.x,\n"
         "                        index * ROW_THREADS + thread);\n"
         "  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(vector, x);\n"
         "  take_vectors(dy_row + shifts.dy, SIZE, cut, index * ROW_THREADS + thread, 0, 1, 0, &vector);\n");
  } else {
    TEXT("__device__ __forceinline__ void take_values(const unsigned char *x_row, const unsigned char *dy_row,\n"
         "                                            RowCut cut, int index, int thread, RowMoments moments,\n"
         "                                            float *x, float *dy) {\n"
         "  uint4 vector;\n"
         "  take_vectors(x_row, SIZE, cut, index * ROW_THREADS + thread, 0, 1, 0, &vector);\n"
         "  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(vector, x);\n"
         "  take_vectors(dy_row, SIZE, cut, index * ROW_THREADS + thread, 0, 1, 0, &vector);\n");
  }
  TEXT("  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(vector, dy);\n"
       "  // By one instruction, of values that were rounded to 16 bits.\n"
       "  const float offset = -moments.mean * moments.rstd;\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    x[j] = x[j] * moments.rstd + offset;\n"
       "}\n"
       "\n"
       "// Where a group has the sum of a column of its rows, which are cut so.\n"
       "__device__ __forceinline__ int sum_place(RowCut cut, int column) {\n"
       "  const int after = column - (cut.columns - cut.edges); // an edge's number, if it comes last\n"
       "  const int index = (column - cut.head) / ELEMENTS;     // a vector's, if it has the column\n"
       "  if (column < cut.head || after >= cut.head) {\n"
       "    const int edge = column < cut.head ? column : after;\n"
       "    return (VECTORS * ELEMENTS + edge / ROW_THREADS) * SUM_STRIDE + edge % ROW_THREADS;\n"
       "  }\n"
       "  return (index / ROW_THREADS * ELEMENTS + (column - cut.head) % ELEMENTS) * SUM_STRIDE +\n"
       "         index % ROW_THREADS;\n"
       "}\n"
       "\n"
       "// Adds up the sums of the groups of a block, always in the same order, and writes them. weight_sum,\n"
       "// bias_sum: (VALUES)\n");
  if (more_edges) {
    TEXT("__device__ __forceinline__ void store_sums(int each, const Args *args, const float *weight_sum,\n"
         "                                           const float *bias_sum, float2 *shared) {\n");
  } else {
    TEXT("__device__ __forceinline__ void store_sums(const Args *args, const float *weight_sum,\n"
         "                                           const float *bias_sum, float2 *shared) {\n");
  }
  TEXT("  const int thread = threadIdx.x % ROW_THREADS, group = threadIdx.x / ROW_THREADS;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ");
  STRING(more_edges ? "VECTORS * ELEMENTS + each" : "VALUES");
  TEXT("; ++i) {\n"
       "    const float2 own = {weight_sum[i], bias_sum[i]};\n"
       "    shared[group * GROUP_SUMS + i * SUM_STRIDE + thread] = own;\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the sums of the groups.\n"
       "  __syncthreads();\n"
       "  for (int column = threadIdx.x; column < args->columns; column += THREADS) {\n"
       "    float2 all = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "    for (int first = 0; first < min(GROUPS, PERIOD); ++first) {\n"
       "      // This group's rows are cut as those of every PERIOD-th one after it.\n"
       "      const int64_t row = (int64_t)blockIdx.x * GROUPS + first;\n");
  if (capped) {
    TEXT("      const RowCut cut = cut_own_row(row_of(args->");
    STRING(shifted ? "dx" : "x");
    TEXT(", row, args->");
    STRING(shifted ? "dx" : "x");
    TEXT("_row_stride), args->columns);\n");
  } else {
    TEXT("      const RowCut cut = cut_row(row_of(args->");
    STRING(shifted ? "dx" : "x");
    TEXT(", row, args->");
    STRING(shifted ? "dx" : "x");
    TEXT("_row_stride), SIZE, args->columns);\n");
  }
  TEXT("      const int place = sum_place(cut, column);\n"
       "#pragma unroll\n"
       "      for (int i = first; i < GROUPS; i += PERIOD) {\n"
       "        const float2 other = shared[i * GROUP_SUMS + place];\n"
       "        all.x += other.x;\n"
       "        all.y += other.y;\n"
       "      }\n"
       "    }\n"
       "    const int64_t at = (int64_t)blockIdx.x * args->columns + column;\n"
       "    if (args->weight_parts)\n"
       "      args->weight_parts[at] = all.x;\n"
       "    if (args->bias_parts)\n"
       "      args->bias_parts[at] = all.y;\n"
       "  }\n"
       "}\n"
       "\n"
       "// A row of dsum comes to the L2 cache while others are added up.\n"
       "__device__ __forceinline__ void prefetch_dsum(const attnpress_layernorm_bwd_args *args, int64_t row,\n"
       "                                              int thread) {\n"
       "  if (row < args->rows)\n"
       "    prefetch_row(row_of(args->dsum, row, args->dsum_row_stride), SIZE, args->columns, thread,\n"
       "                 ROW_THREADS);\n"
       "}\n"
       "\n"
       "// Walks over a group's rows from number `row` on, and adds up dweight and dbias. has_dsum: a\n"
       "// constant, so that calls without dsum have a loop of their own, which no branch cuts.\n");
  if (more_edges) {
    TEXT("__device__ __forceinline__ void walk(const attnpress_layernorm_bwd_args *args, int each,\n"
         "                                     bool has_dsum, int64_t row, RowCut cut,");
    STRING(shifted ? " Shifts shifts," : "");
    TEXT(" int thread,\n"
         "                                     const int *edge_byte, unsigned char *place,\n"
         "                                     const uint32_t (*weight)[WORDS], const float *weight_edge,\n"
         "                                     float2 *warp_sums, float *weight_sum, float *bias_sum) {\n");
  } else {
    TEXT("__device__ __forceinline__ void walk(const attnpress_layernorm_bwd_args *args, bool has_dsum,\n"
         "                                     int64_t row, RowCut cut,");
    STRING(shifted ? " Shifts shifts," : "");
    TEXT(" int thread, const int *edge_byte,\n"
         "                                     unsigned char *place, const uint32_t (*weight)[WORDS],\n"
         "                                     const float *weight_edge, float2 *warp_sums,\n"
         "                                     float *weight_sum, float *bias_sum) {\n");
  }
  TEXT("  const int group = threadIdx.x / ROW_THREADS;\n"
       "  const int64_t step = (int64_t)gridDim.x * GROUPS;\n"
       "  uint32_t next_x_edge[EDGES], next_dy_edge[EDGES];\n"
       "  load_own_edges(");
  STRING(more_edges ? "each, " : "");
  TEXT("row_of(args->x, row, args->x_row_stride), cut_of(args, cut, row), thread,\n"
       "                 edge_byte, next_x_edge);\n"
       "  load_own_edges(");
  STRING(more_edges ? "each, " : "");
  TEXT("row_of(args->dy, row, args->dy_row_stride), cut_of(args, cut, row), thread,\n"
       "                 edge_byte, next_dy_edge);\n"
       "  if (has_dsum)\n"
       "    prefetch_dsum(args, row, thread);\n"
       "  RowMoments next_moments = load_moments(args, row);\n");
  if (row_threads > 32) {
    TEXT("  int turn = 0;\n");
  }
  TEXT("  int slot = 0;\n"
       "  // As often as the block's first group has a row; others then may have none.\n"
       "  for (; row - group < args->rows; row += step) {\n"
       "    const RowCut own = cut_of(args, cut, row);\n"
       "    const RowMoments moments = next_moments;\n"
       "    next_moments = load_moments(args, row + step);\n"
       "    uint32_t x_edge[EDGES], dy_edge[EDGES];\n"
       "    cp_async_wait(SLOTS - 1);\n");
  if (shifted) {
    TEXT("    if (__builtin_expect(row == args->rows - 1, 0))\n"
         "      end_matrix(row_of(args->x, row, args->x_row_stride), own, shifts.x, thread,\n"
         "                 place + slot * 2 * PLACE_BYTES + own_byte(thread));\n"
         "    // All lanes arrive and wait: what others brought is there.\n"
         "    __syncwarp();\n");
  }
  TEXT("    unsigned char *const x_row = place + slot * 2 * PLACE_BYTES;\n"
       "    unsigned char *const dy_row = x_row + PLACE_BYTES;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < ");
  STRING(more_edges ? "each" : "EDGES");
  TEXT("; ++i) {\n"
       "      x_edge[i] = next_x_edge[i];\n"
       "      dy_edge[i] = next_dy_edge[i];\n"
       "    }\n"
       "    const RowCut next = cut_of(args, cut, row + step);\n"
       "    load_own_edges(");
  STRING(more_edges ? "each, " : "");
  TEXT("row_of(args->x, row + step, args->x_row_stride), next, thread, edge_byte,\n"
       "                   next_x_edge);\n"
       "    load_own_edges(");
  STRING(more_edges ? "each, " : "");
  TEXT("row_of(args->dy, row + step, args->dy_row_stride), next, thread, edge_byte,\n"
       "                   next_dy_edge);\n"
       "    const unsigned char *const dsum = row_of(args->dsum, row, args->dsum_row_stride);\n"
       "    uint32_t more_edge[EDGES];\n");
  if (!dsum_late) {
    TEXT("    uint4 added[VECTORS];\n");
  }
  TEXT("    if (has_dsum) {\n"
       "      prefetch_dsum(args, row + step, thread);\n");
  if (!dsum_behind) {
    TEXT("      load_vectors(dsum, SIZE, own, thread, ROW_THREADS, VECTORS, 0, added);\n"
         "      load_own_edges(");
    STRING(more_edges ? "each, " : "");
    TEXT("dsum, own, thread, edge_byte, more_edge);\n");
  }
  TEXT("    }\n"
       "\n"
       "    // The sums of g and of g x^, and what the row adds to those of its columns.\n"
       "    float sum = 0.0f, dot = 0.0f, x_hat[VALUES], g[VALUES];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      float gradient[ELEMENTS], factor[ELEMENTS];\n"
       "      uint32_t word[WORDS];\n"
       "      take_values(x_row, dy_row, own,");
  STRING(shifted ? " shifts," : "");
  TEXT(" i, thread, moments, x_hat + i * ELEMENTS, gradient);\n"
       "      renew_words(weight[i], WORDS, word);\n"
       "      widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, factor);\n"
       "      // Each vector's by itself: additions need not wait for each other.\n"
       "      float part = 0.0f, dot_part = 0.0f;\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j) {\n"
       "        const int k = i * ELEMENTS + j;\n"
       "        g[k] = gradient[j] * factor[j];\n"
       "        part += g[k];\n"
       "        dot_part += g[k] * x_hat[k];\n"
       "        weight_sum[k] += gradient[j] * x_hat[k];\n"
       "        bias_sum[k] += gradient[j];\n"
       "      }\n"
       "      sum += part;\n"
       "      dot += dot_part;\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < ");
  STRING(more_edges ? "each" : "EDGES");
  TEXT("; ++i) {\n"
       "      const int k = VECTORS * ELEMENTS + i;\n"
       "      const float gradient = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(dy_edge[i]);\n"
       "      x_hat[k] = widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x_edge[i]) * moments.rstd - moments.mean * moments.rstd;\n"
       "      g[k] = gradient * weight_edge[i];\n"
       "      sum += g[k];\n"
       "      dot += g[k] * x_hat[k];\n"
       "      weight_sum[k] += gradient * x_hat[k];\n"
       "      bias_sum[k] += gradient;\n"
       "    }\n");
  if (shifted) {
    TEXT("    // All lanes arrive and wait: nobody needs what others brought any more.\n"
         "    if (HELD)\n"
         "      __syncwarp();\n");
  }
  TEXT("    if (HELD)\n"
       "      send_row(args, row + SLOTS * step, cut,");
  STRING(shifted ? " shifts," : "");
  TEXT(" thread, x_row);\n");
  if (dsum_behind && !dsum_late) {
    TEXT("    if (has_dsum) {\n"
         "      load_own_edges(");
    STRING(more_edges ? "each, " : "");
    TEXT("dsum, own, thread, edge_byte, more_edge);\n"
         "      load_vectors(dsum, SIZE, own, thread, ROW_THREADS, VECTORS, 0, added);\n"
         "    }\n");
  }
  TEXT("    sum = CENTERED ? sum_lanes(sum, LANES) : 0.0f;\n"
       "    dot = sum_lanes(dot, LANES);\n");
  if (row_threads > 32) {
    TEXT("    if (threadIdx.x % 32 == 0) {\n"
         "      const float2 part = {sum, dot};\n"
         "      warp_sums[turn * WARPS + threadIdx.x / 32] = part;\n"
         "    }\n"
         "    // All threads arrive and wait: hands over the sums of the warps.\n"
         "    __syncthreads();\n"
         "    const float2 other =\n"
         "        warp_sums[turn * WARPS + threadIdx.x / ROW_THREADS * ROW_WARPS +\n"
         "                  threadIdx.x % ROW_WARPS];\n"
         "    sum = CENTERED ? sum_lanes(other.x, ROW_WARPS) : 0.0f;\n"
         "    dot = sum_lanes(other.y, ROW_WARPS);\n"
         "    turn ^= 1;\n");
  }
  TEXT("    // dx = rstd g - (rstd mean(g) + x^ rstd mean(g x^)).\n"
       "    sum *= args->per_column * moments.rstd;\n"
       "    dot *= args->per_column * moments.rstd;\n"
       "\n"
       "    unsigned char *const dx = row_of(args->dx, row, args->dx_row_stride);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      float gradient[ELEMENTS];\n"
       "      if (!HELD) {\n"
       "        float factor[ELEMENTS];\n"
       "        uint32_t word[WORDS];\n"
       "        take_values(x_row, dy_row, own,");
  STRING(shifted ? " shifts," : "");
  TEXT(" i, thread, moments, x_hat + i * ELEMENTS, gradient);\n"
       "        renew_words(weight[i], WORDS, word);\n"
       "        widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, factor);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          g[i * ELEMENTS + j] = gradient[j] * factor[j];\n"
       "      }\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j) {\n"
       "        const int k = i * ELEMENTS + j;\n"
       "        gradient[j] = g[k] * moments.rstd - (sum + x_hat[k] * dot);\n"
       "      }\n"
       "      if (has_dsum) {\n");
  if (dsum_late) {
    TEXT("        uint4 added;\n"
         "        load_vectors(dsum, SIZE, own, i * ROW_THREADS + thread, 0, 1, 0, &added);\n");
  }
  TEXT("        float more[ELEMENTS];\n"
       "        widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(added");
  STRING(dsum_late ? "" : "[i]");
  TEXT(", more);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          gradient[j] += more[j];\n"
       "      }\n"
       "      const uint4 vector = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(gradient);\n"
       "      store_vector(dx, SIZE, own, i * ROW_THREADS + thread, vector);\n"
       "    }\n"
       "    uint32_t edge[EDGES];\n");
  if (dsum_late) {
    TEXT("    if (has_dsum)\n"
         "      load_own_edges(");
    STRING(more_edges ? "each, " : "");
    TEXT("dsum, own, thread, edge_byte, more_edge);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int i = 0; i < ");
  STRING(more_edges ? "each" : "EDGES");
  TEXT("; ++i) {\n"
       "      const int k = VECTORS * ELEMENTS + i;\n"
       "      float gradient = g[k] * moments.rstd - (sum + x_hat[k] * dot);\n"
       "      if (has_dsum)\n"
       "        gradient += widen_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(more_edge[i]);\n"
       "      edge[i] = narrow_element_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(gradient);\n"
       "    }\n"
       "    store_own_edges(");
  STRING(more_edges ? "each, " : "");
  TEXT("dx, own, thread, edge_byte, edge);\n");
  if (shifted) {
    TEXT("    if (!HELD)\n"
         "      __syncwarp();\n");
  }
  TEXT("    if (!HELD)\n"
       "      send_row(args, row + SLOTS * step, cut,");
  STRING(shifted ? " shifts," : "");
  TEXT(" thread, x_row);\n"
       "    slot = slot + 1 == SLOTS ? 0 : slot + 1;\n"
       "  }\n"
       "}\n"
       "\n");
  if (more_edges) {
    TEXT("// All that a block does. each: elements of a thread beside its vectors, a constant; smem: dynamic\n"
         "// shared memory\n"
         "__device__ __forceinline__ void walk_block(int each, const Args *args, unsigned char *smem) {\n"
         "  // All memory is touched after what ran before has ended.\n"
         "  griddepcontrol_wait();\n");
  } else {
    TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
         "    ");
    STRING(stem);
    TEXT("(\n"
         "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
         "  // All memory is touched after what ran before has ended.\n"
         "  griddepcontrol_wait();\n"
         "  extern __shared__ __align__(1024) unsigned char smem[];\n");
  }
  TEXT("  const int thread = threadIdx.x % ROW_THREADS, group = threadIdx.x / ROW_THREADS;\n"
       "  const int64_t step = (int64_t)gridDim.x * GROUPS;\n"
       "  int64_t row = (int64_t)blockIdx.x * GROUPS + group;\n");
  if (shifted) {
    TEXT("  // All rows are dealt to the threads as dx is cut.\n"
         "  const unsigned char *const first = row_of(");
    STRING(more_edges ? "args->" : "args.");
    TEXT("dx, row, ");
    STRING(more_edges ? "args->" : "args.");
    TEXT("dx_row_stride);\n");
  } else {
    TEXT("  const unsigned char *const first = row_of(");
    STRING(more_edges ? "args->" : "args.");
    TEXT("x, row, ");
    STRING(more_edges ? "args->" : "args.");
    TEXT("x_row_stride);\n"
         "  // All rows are dealt to the threads as x is cut.\n");
  }
  TEXT("  const RowCut cut = ");
  STRING(capped ? "cut_own_row(first, " : "cut_row(first, SIZE, ");
  STRING(more_edges ? "args->" : "args.");
  TEXT("columns);\n"
       "  int edge_byte[EDGES];\n"
       "  find_edges(");
  STRING(more_edges ? "each, " : "");
  TEXT("cut, thread, edge_byte);\n"
       "  // Where a row of this group is, in a slot: of x, and PLACE_BYTES later of dy.\n");
  if (shifted) {
    TEXT("  unsigned char *const place = smem + group * ROW_BYTES;\n"
         "  const Shifts shifts = {\n"
         "      shift_of(row_of(");
    STRING(more_edges ? "args->" : "args.");
    TEXT("x, row, ");
    STRING(more_edges ? "args->" : "args.");
    TEXT("x_row_stride), cut),\n"
         "      (int)((uint64_t)first % 16)};\n");
  } else {
    TEXT("  unsigned char *const place = smem + group * ROW_BYTES + (uint64_t)first % 16;\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < SLOTS; ++i)\n"
       "    send_row(");
  STRING(more_edges ? "args" : "&args");
  TEXT(", row + i * step, cut,");
  STRING(shifted ? " shifts," : "");
  TEXT(" thread, place + i * 2 * PLACE_BYTES);\n"
       "  uint32_t weight[VECTORS][WORDS];\n"
       "  float weight_edge[EDGES], weight_sum[VALUES], bias_sum[VALUES];\n"
       "  load_parameter(");
  STRING(more_edges ? "each, " : "");
  STRING(more_edges ? "args->" : "args.");
  TEXT("weight, cut, thread, 1.0f, weight, weight_edge);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ");
  STRING(more_edges ? "VECTORS * ELEMENTS + each" : "VALUES");
  TEXT("; ++i)\n"
       "    weight_sum[i] = bias_sum[i] = 0.0f;\n");
  if (row_threads > 32) {
    TEXT("  __shared__ float2 warp_sums[2 * WARPS]; // in turn: one barrier a row is enough\n");
  } else {
    TEXT("  float2 *const warp_sums = nullptr;\n");
  }
  TEXT("  if (");
  STRING(more_edges ? "args->" : "args.");
  TEXT("dsum)\n"
       "    walk(");
  STRING(more_edges ? "args" : "&args");
  TEXT(", ");
  STRING(more_edges ? "each, " : "");
  TEXT("true, row, cut,");
  STRING(shifted ? " shifts," : "");
  TEXT(" thread, edge_byte, place, weight, weight_edge, warp_sums,\n"
       "         weight_sum, bias_sum);\n"
       "  else\n"
       "    walk(");
  STRING(more_edges ? "args" : "&args");
  TEXT(", ");
  STRING(more_edges ? "each, " : "");
  TEXT("false, row, cut,");
  STRING(shifted ? " shifts," : "");
  TEXT(" thread, edge_byte, place, weight, weight_edge, warp_sums,\n"
       "         weight_sum, bias_sum);\n"
       "  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  if (!");
  STRING(more_edges ? "args->" : "args.");
  TEXT("weight_parts && !");
  STRING(more_edges ? "args->" : "args.");
  TEXT("bias_parts)\n"
       "    return;\n"
       "\n"
       "  cp_async_wait(0);\n"
       "  // All threads arrive and wait: nobody needs a row any more.\n"
       "  __syncthreads();\n"
       "  store_sums(");
  STRING(more_edges ? "each, " : "");
  STRING(more_edges ? "args" : "&args");
  TEXT(", weight_sum, bias_sum, (float2 *)smem);\n"
       "}\n");
  if (more_edges) {
    TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
         "    ");
    STRING(stem);
    TEXT("(\n"
         "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
         "  extern __shared__ __align__(1024) unsigned char smem[];\n"
         "  if (args.columns <= COLUMNS + MORE_COLUMNS / 2)\n"
         "    walk_block(EDGES / 2, &args, smem);\n"
         "  else\n"
         "    walk_block(EDGES, &args, smem);\n"
         "}\n");
  }
}
