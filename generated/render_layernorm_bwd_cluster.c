/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_cluster.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_cluster(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_cluster(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t pass = in->axis[AP_LAYERNORM_PASS];
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t rows = in->axis[AP_LAYERNORM_ROWS];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  const int32_t weight_in_shared = in->field[AP_LAYERNORM_TILE_WEIGHT_IN_SHARED];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// With x^ = (x - mean) rstd");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0,");
  TEXT(" and g = dy weight, over rows of at most COLUMNS columns:\n"
       "//   dx = rstd (g - ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "mean(g) - " : "");
  TEXT("x^ mean(g x^)) + dsum,    dweight = sum(dy x^),    dbias = sum(dy).\n"
       "// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", weight ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. CLUSTER thread blocks share a row of x and dy and have it in\n");
  if (weight_in_shared) {
    TEXT("// shared memory: both are read once, dx may be either. Each thread keeps its sums of dweight and\n"
         "// dbias in registers, and the weight of its columns in shared memory. A cluster walks over rows,\n"
         "// gridDim.x / CLUSTER apart; another kernel then adds up the sums over the clusters.\n");
  } else {
    TEXT("// shared memory: both are read once, dx may be either. Each thread keeps the weight of its columns,\n"
         "// and its sums of dweight and dbias, in registers. A cluster walks over rows, gridDim.x / CLUSTER\n"
         "// apart; another kernel then adds up the sums over the clusters.\n");
  }
  TEXT("//\n"
       "// What a row amounts to its warps tell each other. Meanwhile they add up the next row, and while\n"
       "// they write a row the next one's sums are on their way.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_cluster.cu.j2 with tile ");
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
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cluster.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
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
  int32_t one_loop = ((dtype != AP_LAYERNORM_DTYPE_FP32) && (((cols == 65536) || (cols == 131072)) || ((cols == 24576) && (norm == AP_LAYERNORM_NORM_RMS)))) ? 1 : 0;
  int32_t of_cluster = 1;
  int32_t any_cluster = 0;
  TEXT("constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of a parameter's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
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
       "constexpr int LANES = ROW_WARPS < 32 ? ROW_WARPS : 32; // that add up what the warps have\n"
       "constexpr int PARTS = ROW_WARPS / LANES;               // a lane's of these\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "\n"
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
       "\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("// Elements between a multiple of 16 bytes and the begin of a row, that of x which a cluster begins\n"
         "// with. Its later rows begin so too, where they are a multiple of four apart, which the host sees to,\n"
         "// and so do other matrices mostly: what a thread has are vectors in all of them then. 0 where threads\n"
         "// have no room for so many more: rows are moved by elements.\n"
         "__device__ __forceinline__ int shift_of(const void *row, int columns) {\n"
         "  const int shift = (int)((uint64_t)row % 16 / SIZE);\n"
         "  return columns + shift <= COLUMNS ? shift : 0;\n"
         "}\n");
  } else {
    TEXT("// Rows of 16 bits that begin elsewhere than at a multiple of 16 bytes have kernels of their own.\n"
         "__device__ __forceinline__ constexpr int shift_of(const void *, int) {\n"
         "  return 0;\n"
         "}\n");
  }
  TEXT("// The first column of a thread's vector number `index`; it may be before the row's first.\n"
       "__device__ __forceinline__ int column_of(int thread, int shift, int index) {\n"
       "  return (index * ROW_THREADS + thread) * ELEMENTS - shift;\n"
       "}\n"
       "\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("// Whether a thread's columns begin at multiples of 16 bytes in a row.\n"
         "__device__ __forceinline__ bool is_aligned(const void *row, int shift) {\n"
         "  return (uint64_t)row % 16 == shift * SIZE;\n"
         "}\n"
         "\n");
  }
  TEXT("// A thread's part of a row on its way to shared memory. slot: (VECTORS), THREADS apart\n"
       "__device__ __forceinline__ void copy_part(const void *row, int columns, int thread, int shift,\n"
       "                                          uint4 *slot) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  // More of them one after the other, as a loop, since that takes registers that they have not left.\n"
         "  constexpr int COUNT = VECTORS > 6 ? 1 : VECTORS;\n"
         "#pragma unroll 1\n"
         "  for (int i = 0; i < VECTORS; i += COUNT)\n"
         "    copy_fours(row, columns, is_aligned(row, shift), column_of(thread, shift, i),\n"
         "               ROW_THREADS * ELEMENTS, COUNT, slot + i * THREADS, THREADS);\n");
  } else {
    TEXT("  copy_columns(row, SIZE, columns, thread, ROW_THREADS, VECTORS, slot, THREADS);\n");
  }
  TEXT("}\n"
       "\n"
       "// `count` vectors of it from number `index` on. vector: (count)\n"
       "__device__ __forceinline__ void load_part(const void *row, int columns, int thread, int shift,\n"
       "                                          int index, int count, uint4 *vector) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < count; ++i)\n"
         "    vector[i] = load_four(row, columns, column_of(thread, shift, index + i));\n");
  } else {
    TEXT("  load_columns(row, SIZE, columns, index * ROW_THREADS + thread, ROW_THREADS, count, vector);\n");
  }
  TEXT("}\n"
       "\n"
       "// Stores vector number `index` of it.\n"
       "__device__ __forceinline__ void store_part(void *row, int columns, int thread, int shift, int index,\n"
       "                                           uint4 vector) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  store_four(row, columns, column_of(thread, shift, index), vector);\n");
  } else {
    TEXT("  store_columns(row, SIZE, columns, index * ROW_THREADS + thread, vector);\n");
  }
  TEXT("}\n"
       "\n"
       "// The words of a parameter of a thread's columns, `absent` where there is none; 0 beyond the row.\n"
       "// word: (VECTORS, WORDS)\n"
       "__device__ __forceinline__ void load_parameter(const void *parameter, int columns, int thread,\n"
       "                                               int shift, float absent, uint32_t (*word)[WORDS]) {\n"
       "  float filler[ELEMENTS];\n"
       "  if (parameter) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    if (shift != 0) {\n"
         "      load_scattered_parameter(parameter, PARAMETER_SIZE, columns, column_of(thread, shift, 0),\n"
         "                               ROW_THREADS * ELEMENTS, 1, VECTORS, word[0]);\n"
         "      return;\n"
         "    }\n");
  }
  TEXT("    load_parameter_vectors(parameter, PARAMETER_SIZE, columns, ELEMENTS, thread, ROW_THREADS,\n"
       "                           VECTORS, word[0]);\n"
       "    return;\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    filler[j] = absent;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(filler, ELEMENTS, word[i]);\n"
       "}\n"
       "\n");
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
       "}\n");
  if (pass == AP_LAYERNORM_PASS_FWD) {
    TEXT("// How many values a warp of the cluster has of a row.\n"
         "__device__ __forceinline__ float count_values(int columns, int warp, int shift) {\n"
         "  const int before = warp == 0 ? shift : 0; // places that are no columns\n"
         "  return (float)(count_columns(columns + shift, ELEMENTS, warp * 32, 32, ROW_THREADS, VECTORS) -\n"
         "                 before);\n"
         "}\n");
  }
  TEXT("constexpr int ROW = 2 * VECTORS * THREADS; // vectors of a block in a row of x and of dy\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n");
  if (weight_in_shared) {
    TEXT("static_assert(SMEM_BYTES == SLOTS * ROW * 16 + VECTORS * THREADS * WORDS * 4,\n"
         "              \"the generator has another formula\");\n");
  } else {
    TEXT("static_assert(SMEM_BYTES == SLOTS * ROW * 16, \"the generator has another formula\");\n");
  }
  TEXT("// What the forward pass wrote of a row.\n"
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
       "// A thread's part of a row of x, then of dy, on its way to shared memory. slot: (2, VECTORS),\n"
       "// THREADS apart\n"
       "__device__ __forceinline__ void send_row(const Args *args, int64_t row, int thread, int shift,\n"
       "                                         uint4 *slot) {\n"
       "  copy_part(row_of(args->x, row, args->x_row_stride), columns_of(args, row), thread, shift, slot);\n"
       "  copy_part(row_of(args->dy, row, args->dy_row_stride), columns_of(args, row), thread, shift,\n"
       "            slot + VECTORS * THREADS);\n"
       "  cp_async_commit();\n"
       "}\n"
       "\n");
  if (!one_loop) {
    TEXT("// A row of dsum comes to the L2 cache while others are added up.\n"
         "__device__ __forceinline__ void prefetch_dsum(const Args *args, int64_t row, int thread) {\n"
         "  prefetch_row(row_of(args->dsum, row, args->dsum_row_stride), SIZE, columns_of(args, row), thread,\n"
         "               ROW_THREADS);\n"
         "}\n"
         "\n");
  }
  TEXT("// Vector number `index` of a thread's part of a row of dsum.\n"
       "__device__ __forceinline__ uint4 load_dsum(const Args *args, int64_t row, int thread, int shift,\n"
       "                                           int index) {\n"
       "  uint4 vector;\n"
       "  load_part(row_of(args->dsum, row, args->dsum_row_stride), args->columns, thread, shift, index, 1,\n"
       "            &vector);\n"
       "  return vector;\n"
       "}\n"
       "\n");
  if (dtype != AP_LAYERNORM_DTYPE_FP32) {
    TEXT("// Writes two vectors of the sums of each lane's 8 columns, from `to` on. Neighbouring lanes share\n"
         "// each of the two, so that sectors of 32 bytes are written as a whole.\n"
         "__device__ __forceinline__ void store_pairs(float *to, const float *sum) {\n"
         "  const int odd = threadIdx.x % 2;\n"
         "  float own[4], other[4];\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < 4; ++j) {\n"
         "    own[j] = odd ? sum[4 + j] : sum[j];\n"
         "    other[j] = __shfl_xor_sync(0xffffffff, odd ? sum[j] : sum[4 + j], 1);\n"
         "  }\n"
         "  // An even lane's first half is beside its second, which the odd lane has; the odd lane's follow.\n"
         "  const float4 even_columns = {odd ? other[0] : own[0], odd ? other[1] : own[1],\n"
         "                               odd ? other[2] : own[2], odd ? other[3] : own[3]};\n"
         "  const float4 odd_columns = {odd ? own[0] : other[0], odd ? own[1] : other[1],\n"
         "                              odd ? own[2] : other[2], odd ? own[3] : other[3]};\n"
         "  *(float4 *)(to - odd * 4) = even_columns;\n"
         "  *(float4 *)(to - odd * 4 + 8) = odd_columns;\n"
         "}\n"
         "\n");
  }
  TEXT("// Writes the sums of a thread's vector number `index`, of the columns that exist.\n"
       "__device__ __forceinline__ void store_sums(float *parts, int index, int columns, int thread,\n"
       "                                           int shift, const float *sum) {\n"
       "  const int column = column_of(thread, shift, index);\n"
       "  float *const row = parts + (int64_t)(blockIdx.x / CLUSTER) * columns;\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  const float4 four = {sum[0], sum[1], sum[2], sum[3]};\n"
         "  store_four(row, columns, column, __builtin_bit_cast(uint4, four));\n");
  } else {
    TEXT("  float *const to = row + column;\n"
         "  // As all lanes have columns, or none.\n"
         "  if (columns % (32 * ELEMENTS) == 0) {\n"
         "    if (column < columns)\n"
         "      store_pairs(to, sum);\n"
         "    return;\n"
         "  }\n"
         "  if (columns % ELEMENTS == 0) {\n"
         "    if (column < columns) {\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; j += 4) {\n"
         "        const float4 four = {sum[j], sum[j + 1], sum[j + 2], sum[j + 3]};\n"
         "        *(float4 *)(to + j) = four;\n"
         "      }\n"
         "    }\n"
         "    return;\n"
         "  }\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; ++j)\n"
         "    if (column + j < columns)\n"
         "      to[j] = sum[j];\n");
  }
  TEXT("}\n"
       "\n"
       "// Walks over the rows of a cluster from number `row` on, of which the first has been added up, and\n"
       "// adds up dweight and dbias. has_dsum: mostly a constant, so that calls without dsum have a loop of\n"
       "// their own, which no branch cuts.\n"
       "__device__ __forceinline__ void walk(const Args *args, bool has_dsum, int64_t row, int64_t step,\n"
       "                                     int thread, int shift, RowParts *parts, uint4 *slots,\n"
       "                                     const Weight *weight, RowMoments moments,\n"
       "                                     RowMoments next_moments, float (*weight_sum)[ELEMENTS],\n"
       "                                     float (*bias_sum)[ELEMENTS]) {\n"
       "  int slot = 0, turn = 0, parity = 0; // parity: of the phase of parts[turn]\n"
       "  for (; row < args->rows; row += step) {\n"
       "    // What the next row amounts to, while others arrive.\n"
       "    const int next = slot + 1 == SLOTS ? 0 : slot + 1;\n"
       "    const RowMoments later_moments = load_moments(args, row + 2 * step);\n");
  if (!one_loop) {
    TEXT("    if (has_dsum)\n"
         "      prefetch_dsum(args, row + step, thread);\n");
  }
  TEXT("    cp_async_wait(SLOTS - 2);\n"
       "    const float2 own = add_up(slots + next * ROW, next_moments, weight);\n"
       "\n");
  if (!one_loop) {
    TEXT("    // One vector ahead.\n"
         "    uint4 next_added = {0, 0, 0, 0};\n"
         "    if (has_dsum)\n"
         "      next_added = load_dsum(args, row, thread, shift, 0);\n");
  }
  TEXT("    // Hands over what all warps of the cluster have of this row.\n"
       "    await_parts(&parts[turn], parity);\n"
       "    if (threadIdx.x == 0)\n"
       "      expect_parts(&parts[turn]);\n"
       "    const float2 *const part = parts[turn].warp + threadIdx.x % LANES;\n"
       "    float sum = 0.0f, dot = 0.0f;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < PARTS; ++i) {\n"
       "      sum += part[i * LANES].x;\n"
       "      dot += part[i * LANES].y;\n"
       "    }\n"
       "    sum = CENTERED ? sum_lanes(sum, LANES) * args->per_column : 0.0f;\n"
       "    dot = sum_lanes(dot, LANES) * args->per_column;\n"
       "    parity ^= turn;\n"
       "    turn ^= 1;\n"
       "    tell(&parts[turn], row_warp(), own);\n"
       "\n"
       "    uint4 *const x_and_dy = slots + slot * ROW;\n"
       "    unsigned char *const dx = row_of(args->dx, row, args->dx_row_stride);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n"
       "      widen_row(x_and_dy, i, moments, weight, x, dy, g);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j) {\n"
       "        weight_sum[i][j] += dy[j] * x[j];\n"
       "        bias_sum[i][j] += dy[j];\n"
       "        g[j] = moments.rstd * (g[j] - sum - x[j] * dot);\n"
       "      }\n"
       "      if (has_dsum) {\n");
  if (one_loop) {
    TEXT("        const uint4 added = load_dsum(args, row, thread, shift, i);\n");
  } else {
    TEXT("        const uint4 added = next_added;\n"
         "        if (i + 1 < VECTORS)\n"
         "          next_added = load_dsum(args, row, thread, shift, i + 1);\n");
  }
  TEXT("        float more[ELEMENTS];\n"
       "        widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(added, more);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          g[j] += more[j];\n"
       "      }\n"
       "      store_part(dx, args->columns, thread, shift, i, narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(g));\n"
       "    }\n"
       "    // The row that comes SLOTS later takes this one's place.\n"
       "    send_row(args, row + SLOTS * step, thread, shift, x_and_dy);\n"
       "    slot = next;\n"
       "    moments = next_moments;\n"
       "    next_moments = later_moments;\n"
       "  }\n"
       "  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  // All warps of the cluster have told what they have of the row after the last: nobody reaches\n"
       "  // into this block's shared memory any more.\n"
       "  await_parts(&parts[turn], parity);\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, 1)\n"
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
       "  const int64_t step = gridDim.x / CLUSTER;\n"
       "  const int64_t row = blockIdx.x / CLUSTER;\n"
       "  const int shift = shift_of(row_of(args.x, row, args.x_row_stride), args.columns);\n"
       "  const RowMoments moments = load_moments(&args, row);\n"
       "  const RowMoments next_moments = load_moments(&args, row + step);\n"
       "  // Each thread has its own places: nobody else reads them.\n"
       "  uint4 *const slots = (uint4 *)smem + threadIdx.x;\n"
       "  // What the first row is added up with comes before the rows that follow it.\n"
       "  send_row(&args, row, thread, shift, slots);\n"
       "  uint32_t words[VECTORS][WORDS];\n"
       "  load_parameter(args.weight, args.columns, thread, shift, 1.0f, words);\n"
       "#pragma unroll\n"
       "  for (int i = 1; i < SLOTS; ++i)\n"
       "    send_row(&args, row + i * step, thread, shift, slots + i * ROW);\n");
  if (!one_loop) {
    TEXT("  if (args.dsum)\n"
         "    prefetch_dsum(&args, row, thread);\n");
  }
  if (weight_in_shared) {
    TEXT("  Weight *const weight = slots + SLOTS * ROW;\n"
         "  keep_weight(words, weight);\n");
  } else {
    TEXT("  const Weight *const weight = words;\n");
  }
  TEXT("  float weight_sum[VECTORS][ELEMENTS], bias_sum[VECTORS][ELEMENTS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      weight_sum[i][j] = bias_sum[i][j] = 0.0f;\n"
       "  }\n"
       "\n"
       "  cp_async_wait(SLOTS - 1);\n"
       "  const float2 first = add_up(slots, moments, weight);\n"
       "  // All threads of the cluster have arrived: every block has its barriers.\n"
       "  cluster_wait();\n"
       "  tell(&parts[0], row_warp(), first);\n");
  if (one_loop) {
    TEXT("  walk(&args, args.dsum != nullptr, row, step, thread, shift, parts, slots, weight, moments,\n"
         "       next_moments, weight_sum, bias_sum);\n");
  } else {
    TEXT("  if (args.dsum)\n"
         "    walk(&args, true, row, step, thread, shift, parts, slots, weight, moments, next_moments,\n"
         "         weight_sum, bias_sum);\n"
         "  else\n"
         "    walk(&args, false, row, step, thread, shift, parts, slots, weight, moments, next_moments,\n"
         "         weight_sum, bias_sum);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    if (args.weight_parts)\n"
       "      store_sums(args.weight_parts, i, args.columns, thread, shift, weight_sum[i]);\n"
       "    if (args.bias_parts)\n"
       "      store_sums(args.bias_parts, i, args.columns, thread, shift, bias_sum[i]);\n"
       "  }\n"
       "}\n");
}
