/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_odd_cluster.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_odd_cluster(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_odd_cluster(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t rows = in->axis[AP_LAYERNORM_ROWS];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  const int32_t weight_in_shared = in->field[AP_LAYERNORM_TILE_WEIGHT_IN_SHARED];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// With x^ = (x - mean) rstd");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0,");
  TEXT(" and g = dy weight, over rows of less than COLUMNS - 6 columns:\n"
       "//   dx = rstd (g - ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "mean(g) - " : "");
  TEXT("x^ mean(g x^)) + dsum,    dweight = sum(dy x^),    dbias = sum(dy).\n"
       "// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", weight ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside; rows may begin at any element. CLUSTER thread blocks share a row of x\n"
       "// and dy and have it in shared memory, cut where addresses of x are multiples of 16 bytes: both are read\n"
       "// once, dx may be either, or dsum. Each thread keeps its sums of dweight and dbias in registers, and the\n"
       "// weight of its columns in ");
  STRING(weight_in_shared ? "shared memory" : "registers");
  TEXT(".\n"
       "//\n"
       "// Rows PERIOD apart begin at the same element of a vector, so that a thread's columns are the same in\n"
       "// them: they are a class. A cluster walks over as many rows as others, classes one after the other.\n"
       "// Where a class ends in between it writes its sums, and begins again with those of the next one; another\n"
       "// kernel adds up all.\n"
       "//\n"
       "// What a row amounts to its warps tell each other. Meanwhile they add up the next row.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_odd_cluster.cu.j2 with tile ");
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
  TEXT(" --arch ");
  INTEGER(arch);
  TEXT(" --rows odd\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cluster.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async_4.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_bwd_args Args;\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n");
  int32_t of_cluster = 1;
  int32_t any_cluster = 0;
  TEXT("constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = 2; // bytes of an element\n"
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
  TEXT(";\n"
       "constexpr int CLUSTER = ROW_THREADS / THREADS; // thread blocks that share a row\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's parameters\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // rows in shared memory\n"
       "constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
       "constexpr int PERIOD = 8; // rows so far apart begin at the same element of a vector, whatever their stride\n"
       "constexpr int ROW = 2 * VECTORS * THREADS; // vectors of a block in a row of x and of dy\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n");
  if (weight_in_shared) {
    TEXT("static_assert(SMEM_BYTES == SLOTS * ROW * 16 + VECTORS * THREADS * WORDS * 4,\n"
         "              \"the generator has another formula\");\n");
  } else {
    TEXT("static_assert(SMEM_BYTES == SLOTS * ROW * 16, \"the generator has another formula\");\n");
  }
  if (of_cluster) {
    TEXT("// What the warps of a row have of it, in each block's shared memory, and the barrier that awaits it.\n"
         "// Two rows have places in turn.\n");
  } else {
    TEXT("// What the warps of a row have of it, and the barrier that awaits it. Two rows have places in turn.\n");
  }
  TEXT("struct RowParts {\n"
       "  float2 warp[");
  STRING(any_cluster ? "CLUSTER_MAX * WARPS" : "ROW_WARPS");
  TEXT("];\n"
       "  uint64_t barrier;\n"
       "};\n"
       "\n");
  if (of_cluster) {
    if (any_cluster) {
      TEXT("// Begins to await what the `warps` of the next row of these have. By one thread.\n"
           "__device__ __forceinline__ void expect_parts(RowParts *parts, int warps) {\n"
           "  mbarrier_arrive_expect(shared_address(&parts->barrier), warps * (int)sizeof(float2));\n"
           "}\n");
    } else {
      TEXT("// Begins to await what the warps have of the next row of these. By one thread.\n"
           "__device__ __forceinline__ void expect_parts(RowParts *parts) {\n"
           "  mbarrier_arrive_expect(shared_address(&parts->barrier), ROW_WARPS * (int)sizeof(float2));\n"
           "}\n");
    }
    TEXT("// Makes the barriers, and begins to await the first two rows. Others see them behind the cluster's\n"
         "// barrier. parts: (2)\n"
         "__device__ __forceinline__ void init_parts(RowParts *parts");
    STRING(any_cluster ? ", int warps" : "");
    TEXT(") {\n"
         "  for (int i = 0; i < 2; ++i)\n"
         "    mbarrier_init(shared_address(&parts[i].barrier), 1);\n"
         "  fence_mbarrier_init();\n"
         "  for (int i = 0; i < 2; ++i)\n"
         "    expect_parts(&parts[i]");
    STRING(any_cluster ? ", warps" : "");
    TEXT(");\n"
         "}\n"
         "\n");
  } else {
    TEXT("// Makes the barriers. Others see them behind the block's. parts: (2)\n"
         "__device__ __forceinline__ void init_parts(RowParts *parts) {\n"
         "  for (int i = 0; i < 2; ++i)\n"
         "    mbarrier_init(shared_address(&parts[i].barrier), ROW_WARPS);\n"
         "}\n"
         "\n");
  }
  TEXT("// Tells all warps of a row what this one has of it. Whoever has been told so by all of them may\n"
       "// write over what they were told of the row before.\n"
       "__device__ __forceinline__ void tell(RowParts *parts, int row_warp, float2 own");
  STRING(any_cluster ? ", int cluster" : "");
  TEXT(") {\n"
       "  // All lanes arrive and wait: they have read that.\n"
       "  __syncwarp();\n");
  if (of_cluster) {
    TEXT("  const int to = threadIdx.x % 32;\n"
         "  if (to < ");
    STRING(any_cluster ? "cluster" : "CLUSTER");
    TEXT(")\n"
         "    send_8_cluster(cluster_address(shared_address(&parts->warp[row_warp]), to), own,\n"
         "                   cluster_address(shared_address(&parts->barrier), to));\n");
  } else {
    TEXT("  if (threadIdx.x % 32 == 0) {\n"
         "    parts->warp[row_warp] = own;\n"
         "    mbarrier_arrive(shared_address(&parts->barrier));\n"
         "  }\n");
  }
  TEXT("}\n"
       "\n"
       "// Waits until all warps have told what they have of a row.\n"
       "__device__ __forceinline__ void await_parts(const RowParts *parts, int parity) {\n"
       "  wait_for_phase(shared_address(&parts->barrier), parity);\n"
       "}\n"
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
       "\n");
  if (weight_in_shared) {
    TEXT("// A thread's weights are its own places in shared memory, THREADS apart.\n"
         "typedef uint4 Weight;\n"
         "\n"
         "// The words of the weights of vector number `index`. weight: (VECTORS, WORDS / 4)\n"
         "__device__ __forceinline__ void find_weight(const Weight *weight, int index, uint32_t *word) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < WORDS / 4; ++i) {\n"
         "    const uint4 four = weight[(index * (WORDS / 4) + i) * THREADS];\n"
         "    word[4 * i] = four.x;\n"
         "    word[4 * i + 1] = four.y;\n"
         "    word[4 * i + 2] = four.z;\n"
         "    word[4 * i + 3] = four.w;\n"
         "  }\n"
         "}\n"
         "\n"
         "// Puts a thread's weights there. words: (VECTORS, WORDS), weight: (VECTORS, WORDS / 4)\n"
         "__device__ __forceinline__ void keep_weight(const uint32_t (*words)[WORDS], Weight *weight) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS * WORDS / 4; ++i) {\n"
         "    const uint32_t *const from = words[i * 4 / WORDS] + i * 4 % WORDS;\n"
         "    const uint4 four = {from[0], from[1], from[2], from[3]};\n"
         "    weight[i * THREADS] = four;\n"
         "  }\n"
         "}\n");
  } else {
    TEXT("// A thread's weights are in registers.\n"
         "typedef uint32_t Weight[WORDS];\n"
         "\n"
         "// The words of the weights of vector number `index`. weight: (VECTORS)\n"
         "__device__ __forceinline__ void find_weight(const Weight *weight, int index, uint32_t *word) {\n"
         "  renew_words(weight[index], WORDS, word);\n"
         "}\n");
  }
  TEXT("// Vector number `index` of x^, of dy and of g = dy weight. `part`: x, then dy.\n"
       "__device__ __forceinline__ void widen_row(const uint4 *part, int index, RowMoments moments,\n"
       "                                          const Weight *weight, float *x, float *dy, float *g) {\n"
       "  uint32_t word[WORDS];\n"
       "  float factor[ELEMENTS];\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(part[index * THREADS], x);\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(part[(VECTORS + index) * THREADS], dy);\n"
       "  find_weight(weight, index, word);\n"
       "  widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, factor);\n");
  if (rows != AP_LAYERNORM_ROWS_ALIGNED) {
    TEXT("  // By one instruction, of values that were rounded to 16 bits.\n"
         "  const float offset = -moments.mean * moments.rstd;\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j) {\n");
  if (rows != AP_LAYERNORM_ROWS_ALIGNED) {
    TEXT("    x[j] = x[j] * moments.rstd + offset;\n");
  } else {
    TEXT("    x[j] = (x[j] - moments.mean) * moments.rstd;\n");
  }
  TEXT("    g[j] = dy[j] * factor[j];\n"
       "  }\n"
       "}\n"
       "\n"
       "// The sums of g and of g x^ of the warp's part of a row. part: x, then dy\n"
       "__device__ __forceinline__ float2 add_up(const uint4 *part, RowMoments moments,\n"
       "                                         const Weight *weight) {\n"
       "  float2 all = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n"
       "    widen_row(part, i, moments, weight, x, dy, g);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      all.x += g[j];\n"
       "      all.y += g[j] * x[j];\n"
       "    }\n"
       "  }\n"
       "  all.x = CENTERED ? sum_lanes(all.x, 32) : 0.0f;\n"
       "  all.y = sum_lanes(all.y, 32);\n"
       "  return all;\n"
       "}\n"
       "// A warp's number in its row. Neighbours are of different blocks, so that each has as much of a row\n"
       "// that is shorter than COLUMNS.\n"
       "__device__ __forceinline__ int row_warp() {\n"
       "  return threadIdx.x / 32 * CLUSTER + blockIdx.x % CLUSTER;\n"
       "}\n"
       "\n"
       "// Row number `row` of a matrix.\n"
       "__device__ __forceinline__ unsigned char *row_of(const void *matrix, int64_t row, int64_t stride) {\n"
       "  return (unsigned char *)matrix + row * stride * SIZE;\n"
       "}\n"
       "\n"
       "// The columns of rows that exist.\n"
       "__device__ __forceinline__ int columns_of(const Args *args, int64_t row) {\n"
       "  return row < args->rows ? args->columns : 0;\n"
       "}\n"
       "\n"
       "// Elements between a multiple of 16 bytes and the begin of a row.\n"
       "__device__ __forceinline__ int shift_of(const void *row) {\n"
       "  return (int)((uint64_t)row % 16 / SIZE);\n"
       "}\n"
       "\n"
       "// The first column of a thread's vector number `index`, in rows whose shift is that of x; that of the\n"
       "// row's first vector may be before the row's first.\n"
       "__device__ __forceinline__ int column_of(int thread, int shift, int index) {\n"
       "  return (index * ROW_THREADS + thread) * ELEMENTS - shift;\n"
       "}\n"
       "\n"
       "// Whether the row has all columns of vector number `index` of a thread, from `column` on.\n"
       "__device__ __forceinline__ bool is_whole(int index, int column, int columns) {\n"
       "  return (index > 0 || column >= 0) && column + ELEMENTS <= columns;\n"
       "}\n"
       "\n"
       "// ELEMENTS elements from `column` on, 0 where the row has none, one by one.\n"
       "__device__ __forceinline__ uint4 load_elements(const void *row, int columns, int column) {\n"
       "  const uint16_t *const from = (const uint16_t *)row + column;\n"
       "  uint32_t word[4];\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < 4; ++j) {\n"
       "    word[j] = load_2_if(has_column(columns, column + 2 * j), from + 2 * j, 0) |\n"
       "              load_2_if(has_column(columns, column + 2 * j + 1), from + 2 * j + 1, 0) << 16;\n"
       "  }\n"
       "  const uint4 vector = {word[0], word[1], word[2], word[3]};\n"
       "  return vector;\n"
       "}\n"
       "\n"
       "// A thread's vectors of a row on their way to shared memory, but the one that begins before the row.\n"
       "// slot: (VECTORS), THREADS apart\n"
       "__device__ __forceinline__ void copy_part(const unsigned char *row, int columns, int thread,\n"
       "                                          int shift, uint4 *slot) {\n"
       "  if (shift_of(row) != shift) { // cut otherwise than x\n"
       "#pragma unroll 1\n"
       "    for (int i = 0; i < VECTORS; ++i)\n"
       "      slot[i * THREADS] = load_elements(row, columns, column_of(thread, shift, i));\n"
       "    return;\n"
       "  }\n"
       "  // Where the row has no more, no byte is read.\n"
       "  const unsigned char *const from = row + (thread * ELEMENTS - shift) * SIZE;\n"
       "  const int bytes = (columns - column_of(thread, shift, 0)) * SIZE;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    if (i > 0 || thread > 0 || shift == 0)\n"
       "      cp_async_16(shared_address(slot + i * THREADS), from + i * ROW_THREADS * 16,\n"
       "                  min(max(bytes - i * ROW_THREADS * 16, 0), 16));\n"
       "  }\n"
       "}\n"
       "\n"
       "// The matrix of which a lane of a row's first warp has elements of the vector that begins before the\n"
       "// row: words of x and of dy, four lanes each; and of the first element, if that is the second of a\n"
       "// word, one lane each.\n"
       "__device__ __forceinline__ const unsigned char *head_of(const Args *args, int64_t row, bool of_dy) {\n"
       "  return of_dy ? row_of(args->dy, row, args->dy_row_stride)\n"
       "               : row_of(args->x, row, args->x_row_stride);\n"
       "}\n"
       "\n");
  TEXT("// The words of that vector on their way, but the one whose second element is the row's first. slot:\n"
       "// of the row's first thread\n"
       "__device__ __forceinline__ void copy_head(const Args *args, int64_t row, int shift, uint4 *slot) {\n"
       "  const int lane = threadIdx.x % 32, word = lane % 4, column = 2 * word - shift;\n"
       "  const unsigned char *const from = head_of(args, row, lane >= 4);\n"
       "  if (lane >= 8 || shift == 0 || column == -1 || shift_of(from) != shift)\n"
       "    return;\n"
       "  const bool has = column >= 0 && row < args->rows;\n"
       "  cp_async_4(shared_address(slot + lane / 4 * VECTORS * THREADS) + 4 * word,\n"
       "             from + (has ? column : -shift) * SIZE, has ? 4 : 0);\n"
       "}\n"
       "\n"
       "// A thread's part of a row of x, then of dy, on its way to shared memory. slot: (2, VECTORS),\n"
       "// THREADS apart\n"
       "__device__ __forceinline__ void send_row(const Args *args, int64_t row, int thread, uint4 *slot) {\n"
       "  const unsigned char *const x = row_of(args->x, row, args->x_row_stride);\n"
       "  const int columns = columns_of(args, row), shift = shift_of(x);\n"
       "  copy_part(x, columns, thread, shift, slot);\n"
       "  copy_part(row_of(args->dy, row, args->dy_row_stride), columns, thread, shift,\n"
       "            slot + VECTORS * THREADS);\n"
       "  if (thread < 32) {\n"
       "    // All lanes arrive and wait: nobody needs what was there.\n"
       "    __syncwarp();\n"
       "    copy_head(args, row, shift, slot - thread);\n"
       "  }\n"
       "  cp_async_commit();\n"
       "}\n"
       "\n"
       "// The first element of a row of x or of dy, in the lane that has it. Nothing is made of it, so that\n"
       "// nobody waits for it here.\n"
       "__device__ __forceinline__ uint32_t load_first(const Args *args, int64_t row, int thread) {\n"
       "  uint32_t first = 0;\n"
       "  if (thread < 2 && row < args->rows)\n"
       "    first = load_element(head_of(args, row, thread == 1), SIZE, 0);\n"
       "  return first;\n"
       "}\n"
       "\n"
       "// Waits for a row, of which `pending` later ones may not be there, and puts its first elements where\n"
       "// they are not on their way to. slot: of this thread\n"
       "__device__ __forceinline__ void await_row(const Args *args, int64_t row, int pending,\n"
       "                                          uint32_t first, int thread, uint4 *slot) {\n"
       "  cp_async_wait(pending);\n"
       "  if (thread >= 32)\n"
       "    return;\n"
       "  const int shift = shift_of(row_of(args->x, row, args->x_row_stride));\n"
       "  if (thread < 2 && shift % 2 == 1)\n"
       "    ((uint32_t *)(slot - thread + thread * VECTORS * THREADS))[shift / 2] = first << 16;\n"
       "  // All lanes arrive and wait: hands over the vector that begins before the row.\n"
       "  __syncwarp();\n"
       "}\n"
       "\n"
       "// The words of the weights of a thread's columns, 1 where there is none; 0 beyond the row.\n"
       "// word: (VECTORS, WORDS)\n"
       "__device__ __forceinline__ void load_weight(const Args *args, int thread, int shift,\n"
       "                                            uint32_t (*word)[WORDS]) {\n"
       "  float filler[ELEMENTS];\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    filler[j] = 1.0f;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(filler, ELEMENTS, word[i]);\n"
       "  if (!args->weight)\n"
       "    return;\n"
       "  // All loads of a thread are on their way before the first is waited for.\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int column = column_of(thread, shift, i);\n");
  if (params == AP_LAYERNORM_PARAMS_FP32) {
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      word[i][j] = load_4_if(has_column(args->columns, column + j),\n"
         "                             (const float *)args->weight + column + j, 0);\n");
  } else {
    TEXT("    const uint4 vector = load_elements(args->weight, args->columns, column);\n"
         "    word[i][0] = vector.x;\n"
         "    word[i][1] = vector.y;\n"
         "    word[i][2] = vector.z;\n"
         "    word[i][3] = vector.w;\n");
  }
  TEXT("  }\n"
       "}\n"
       "\n"
       "// The row that a cluster takes `steps` rows after another: of the same class, or of a later one.\n"
       "// count: places of all classes\n"
       "__device__ __forceinline__ int row_behind(int row, int steps, int count) {\n"
       "  row += steps * PERIOD;\n"
       "  while (row >= count)\n"
       "    row -= count - 1;\n"
       "  return row;\n"
       "}\n"
       "\n"
       "// Stores what a warp has of a row's first and last elements that fill no vector, a lane each, from the\n"
       "// places of x.\n"
       "__device__ __forceinline__ void store_ends(void *row, int columns, int shift, const uint4 *place) {\n"
       "  const int lane = threadIdx.x % 32, last = (columns + shift) / ELEMENTS; // the last vector\n"
       "  const bool has_first = shift > 0 && row_warp() == 0;\n"
       "  const bool has_last = row_warp() == last % ROW_THREADS / 32;\n"
       "  if (!has_first && !has_last)\n"
       "    return;\n"
       "  // All lanes arrive and wait: the vectors are there.\n"
       "  __syncwarp();\n"
       "  const uint16_t *const own = (const uint16_t *)(place - lane) + lane;\n"
       "  if (has_first && lane < ELEMENTS && has_column(columns, lane - shift))\n"
       "    store_element(row, SIZE, lane - shift, own[0]);\n"
       "  const int column = last * ELEMENTS - shift + lane;\n"
       "  if (has_last && lane < ELEMENTS && has_column(columns, column))\n"
       "    store_element(row, SIZE, column, own[(last / ROW_THREADS * THREADS + last % 32) * ELEMENTS]);\n"
       "  // All lanes arrive and wait: the next row may take these places.\n"
       "  __syncwarp();\n"
       "}\n"
       "\n"
       "// Stores all that a thread has of a row that is cut otherwise than x, from the places of x.\n"
       "__device__ __forceinline__ void store_elements(void *row, int columns, int thread, int shift,\n"
       "                                               const uint4 *place) {\n"
       "#pragma unroll 1\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int column = column_of(thread, shift, i), end = min(columns - column, ELEMENTS);\n"
       "#pragma unroll 1\n"
       "    for (int j = max(-column, 0); j < end; ++j)\n"
       "      store_element(row, SIZE, column + j, ((const uint16_t *)(place + i * THREADS))[j]);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Writes a thread's part of a row of dx, and adds up dweight and dbias. sum, dot: rstd times the means of g and of g x^. weight_sum, bias_sum: (VECTORS, ELEMENTS)\n"
       "__device__ __forceinline__ void write_row(const Args *args, int64_t row, int thread, int shift,\n"
       "                                          RowMoments moments, float sum, float dot,\n"
       "                                          const Weight *weight, uint4 *x_and_dy,\n"
       "                                          float (*weight_sum)[ELEMENTS],\n"
       "                                          float (*bias_sum)[ELEMENTS]) {\n"
       "  unsigned char *const dx = row_of(args->dx, row, args->dx_row_stride);\n"
       "  const int columns = columns_of(args, row);\n"
       "  const bool alike = shift_of(dx) == shift;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n"
       "    const int column = column_of(thread, shift, i);\n"
       "    widen_row(x_and_dy, i, moments, weight, x, dy, g);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      weight_sum[i][j] += dy[j] * x[j];\n"
       "      bias_sum[i][j] += dy[j];\n"
       "      g[j] = g[j] * moments.rstd - (sum + x[j] * dot);\n"
       "    }\n"
       "    if (args->dsum) {\n"
       "      float more[ELEMENTS];\n"
       "      const unsigned char *const dsum = row_of(args->dsum, row, args->dsum_row_stride);\n"
       "      const uint4 added = shift_of(dsum) == shift && is_whole(i, column, columns)\n"
       "                              ? load_vector(dsum, SIZE, column)\n"
       "                              : load_elements(dsum, columns, column);\n"
       "      widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(added, more);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        g[j] += more[j];\n"
       "    }\n"
       "    const uint4 vector = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(g);\n"
       "    const bool whole = alike && is_whole(i, column, columns);\n"
       "    store_16_if(whole, dx + (int64_t)column * SIZE, vector);\n"
       "    if (!whole)\n"
       "      x_and_dy[i * THREADS] = vector;\n"
       "  }\n"
       "  if (alike)\n"
       "    store_ends(dx, columns, shift, x_and_dy);\n"
       "  else\n"
       "    store_elements(dx, columns, thread, shift, x_and_dy);\n"
       "}\n"
       "\n"
       "// Stores the sums of a warp's vectors number `index`, of the columns that exist: lanes hand each other\n"
       "// neighbouring columns, by their places in shared memory. place: of vector number `index`, of this\n"
       "// thread\n"
       "__device__ __forceinline__ void store_sums(float *part, int columns, int thread, int shift,\n"
       "                                           int index, const float *sum, uint4 *place) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  const float4 low = {sum[0], sum[1], sum[2], sum[3]}, high = {sum[4], sum[5], sum[6], sum[7]};\n"
       "  // All lanes arrive and wait: nobody needs what is there.\n"
       "  __syncwarp();\n"
       "  place[0] = __builtin_bit_cast(uint4, low);\n"
       "  place[VECTORS * THREADS] = __builtin_bit_cast(uint4, high);\n"
       "  // All lanes arrive and wait: hands over the sums.\n"
       "  __syncwarp();\n"
       "  const float *const all = (const float *)(place - lane);\n"
       "  const int first = column_of(thread - lane, shift, index) + lane;\n"
       "#pragma unroll\n"
       "  for (int k = 0; k < ELEMENTS; ++k) {\n"
       "    const int other = 4 * k + lane / ELEMENTS; // the lane that has it\n"
       "    const int half = lane % ELEMENTS / 4;\n"
       "    const float value = all[half * VECTORS * THREADS * 4 + other * 4 + lane % 4];\n"
       "    if (has_column(columns, first + 32 * k))\n"
       "      part[first + 32 * k] = value;\n"
       "  }\n"
       "}\n"
       "\n"
       "// The sums of no rows at all.\n"
       "__device__ __forceinline__ void store_nothing(float *part, int columns, int thread) {\n"
       "  for (int column = thread; part && column < columns; column += ROW_THREADS)\n"
       "    part[column] = 0.0f;\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ RowParts parts[2];\n"
       "  if (threadIdx.x == 0)\n"
       "    init_parts(parts);\n"
       "  // All threads of the cluster arrive; who reaches into another block's shared memory has waited.\n"
       "  cluster_arrive();\n"
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "  const int thread = row_warp() * 32 + threadIdx.x % 32; // of the row\n"
       "  const int clusters = gridDim.x / CLUSTER, cluster = blockIdx.x / CLUSTER;\n"
       "  // Places of a class, of all, and of each cluster; the last of a class may have no row.\n"
       "  const int rows = (int)args.rows, of_class = (rows + PERIOD - 1) / PERIOD, count = of_class * PERIOD;\n"
       "  const int each = (count + clusters - 1) / clusters;\n"
       "  const int begin = (int)min((int64_t)cluster * each, (int64_t)count);\n"
       "  int left = min(each, count - begin); // places of this cluster from the present row's on\n"
       "  int row = begin % of_class * PERIOD + begin / of_class;\n"
       "  // The sums of a class, by its number, that ends with a cluster's rows are that cluster's; else behind\n"
       "  // all of these.\n"
       "  float *const weight_parts = args.weight_parts, *const bias_parts = args.bias_parts;\n"
       "  if (left > 0 && row < PERIOD && row > 0) {\n"
       "    const int64_t at = (clusters + row - 1) * (int64_t)args.columns;\n"
       "    store_nothing(weight_parts ? weight_parts + at : weight_parts, args.columns, thread);\n"
       "    store_nothing(bias_parts ? bias_parts + at : bias_parts, args.columns, thread);\n"
       "  }\n"
       "  row = left > 0 ? row : rows;\n"
       "  // Each thread has its own places: nobody else reads them.\n"
       "  uint4 *const slots = (uint4 *)smem + threadIdx.x;\n"
       "  // What the first row is added up with comes before the rows that follow it.\n"
       "  send_row(&args, row, thread, slots);\n"
       "  RowMoments moments = load_moments(&args, row);\n"
       "  RowMoments next_moments = load_moments(&args, left > 1 ? row_behind(row, 1, count) : rows);\n"
       "  const uint32_t first = load_first(&args, row, thread);\n"
       "  uint32_t next_first = load_first(&args, left > 1 ? row_behind(row, 1, count) : rows, thread);\n"
       "  uint32_t words[VECTORS][WORDS];\n");
  if (weight_in_shared) {
    TEXT("  Weight *const weight = slots + SLOTS * ROW;\n");
  } else {
    TEXT("  const Weight *const weight = words;\n");
  }
  TEXT("  float weight_sum[VECTORS][ELEMENTS], bias_sum[VECTORS][ELEMENTS];\n"
       "  // All threads of the cluster have arrived: every block has its barriers.\n"
       "  cluster_wait();\n"
       "  int shift = 0, slot = 0;\n"
       "  bool begins = true; // a class\n"
       "  for (int round = 0;; ++round) {\n"
       "    RowParts *const own_parts = &parts[round % 2], *const next_parts = &parts[(round + 1) % 2];\n"
       "    uint4 *const x_and_dy = slots + slot * ROW;\n"
       "    if (begins) {\n"
       "      shift = shift_of(row_of(args.x, row, args.x_row_stride));\n"
       "      load_weight(&args, thread, shift, words);\n"
       "      if (round == 0) {\n"
       "#pragma unroll 1\n"
       "        for (int i = 1; i < SLOTS; ++i)\n"
       "          send_row(&args, i < left ? row_behind(row, i, count) : rows, thread, slots + i * ROW);\n"
       "        await_row(&args, row, SLOTS - 1, first, thread, x_and_dy);\n"
       "      }\n");
  if (weight_in_shared) {
    TEXT("      keep_weight(words, weight);\n");
  }
  TEXT("#pragma unroll\n"
       "      for (int i = 0; i < VECTORS; ++i) {\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          weight_sum[i][j] = bias_sum[i][j] = 0.0f;\n"
       "      }\n"
       "      tell(own_parts, row_warp(), add_up(x_and_dy, moments, weight));\n"
       "    }\n"
       "    // What the next row of the class amounts to, while others arrive.\n"
       "    const bool ends = left <= 1 || row + PERIOD >= count;\n"
       "    const int next_slot = slot + 1 == SLOTS ? 0 : slot + 1;\n"
       "    const int later = left > 2 ? row_behind(row, 2, count) : rows;\n"
       "    const RowMoments later_moments = load_moments(&args, later);\n"
       "    const uint32_t later_first = load_first(&args, later, thread);\n"
       "    await_row(&args, left > 1 ? row_behind(row, 1, count) : rows, SLOTS - 2, next_first, thread,\n"
       "              slots + next_slot * ROW);\n"
       "    float2 own = {0.0f, 0.0f};\n"
       "    if (!ends)\n"
       "      own = add_up(slots + next_slot * ROW, next_moments, weight);\n"
       "\n"
       "    // Hands over what all warps of the cluster have of this row.\n"
       "    await_parts(own_parts, round / 2 % 2);\n"
       "    if (threadIdx.x == 0)\n"
       "      expect_parts(own_parts);\n"
       "    float sum = 0.0f, dot = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < ROW_WARPS; i += 32) {\n"
       "      const int other = i + threadIdx.x % 32;\n"
       "      if (other < ROW_WARPS) {\n"
       "        sum += own_parts->warp[other].x;\n"
       "        dot += own_parts->warp[other].y;\n"
       "      }\n"
       "    }\n"
       "    // dx = rstd g - (rstd mean(g) + x^ rstd mean(g x^)).\n"
       "    const float scale = args.per_column * moments.rstd;\n"
       "    sum = CENTERED ? sum_lanes(sum, 32) * scale : 0.0f;\n"
       "    dot = sum_lanes(dot, 32) * scale;\n"
       "    if (!ends)\n"
       "      tell(next_parts, row_warp(), own);\n"
       "\n"
       "    write_row(&args, row, thread, shift, moments, sum, dot, weight, x_and_dy, weight_sum, bias_sum);\n"
       "    if (ends) {\n"
       "      // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "      if (left <= 1)\n"
       "        griddepcontrol_launch_dependents();\n"
       "      const int64_t part = left <= 1 ? cluster : clusters + row % PERIOD; // of the sums\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < VECTORS; ++i) {\n"
       "        uint4 *const place = x_and_dy + i * THREADS;\n"
       "        if (weight_parts)\n"
       "          store_sums(weight_parts + part * args.columns, args.columns, thread, shift, i,\n"
       "                     weight_sum[i], place);\n"
       "        if (bias_parts)\n"
       "          store_sums(bias_parts + part * args.columns, args.columns, thread, shift, i, bias_sum[i],\n"
       "                     place);\n"
       "      }\n"
       "      // All lanes arrive and wait: the next row may take these places.\n"
       "      __syncwarp();\n"
       "      if (left <= 1)\n"
       "        break;\n"
       "    }\n"
       "    // The row that comes SLOTS later takes this one's place.\n"
       "    send_row(&args, left > SLOTS ? row_behind(row, SLOTS, count) : rows, thread, x_and_dy);\n"
       "    row = row_behind(row, 1, count);\n"
       "    --left;\n"
       "    slot = next_slot;\n"
       "    moments = next_moments;\n"
       "    next_moments = later_moments;\n"
       "    next_first = later_first;\n"
       "    begins = ends;\n"
       "  }\n"
       "}\n");
}
