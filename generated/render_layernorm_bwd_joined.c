/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_joined.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_joined(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_joined(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t rows = in->axis[AP_LAYERNORM_ROWS];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  const int32_t weight_in_shared = in->field[AP_LAYERNORM_TILE_WEIGHT_IN_SHARED];
  const int32_t groups = in->field[AP_LAYERNORM_TILE_GROUPS];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// With x^ = (x - mean) rstd");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0,");
  TEXT(" and g = dy weight, over rows of at most COLUMNS columns:\n"
       "//   dx = rstd (g - ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "mean(g) - " : "");
  TEXT("x^ mean(g x^)),  dweight = sum(dy x^),  dbias = sum(dy).\n"
       "// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", weight ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. Rows begin at any element of a vector of 16 bytes, those of x,\n"
       "// of dy and of dx at the same one. CLUSTER thread blocks share a row of x and dy and have it in\n"
       "// shared memory: both are read once, dx may be either. Each thread keeps its sums of dweight and\n"
       "// dbias in registers, and the weight of its columns in ");
  STRING(weight_in_shared ? "shared memory" : "registers");
  TEXT(";\n"
       "// another kernel adds up those of all clusters.\n"
       "//\n"
       "// The copy engine brings a warp's part of a row in whole vectors, of which those at its ends hold\n"
       "// what is not the part's, too. There the warp moves it, so that a thread's columns are the same in\n"
       "// all rows, and dx back on its way to memory.\n"
       "//\n"
       "// What a row amounts to its warps tell each other. Meanwhile they add up the next row.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_joined.cu.j2 with tile ");
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
  TEXT(" --rows joined\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_bulk_copy.cuh\"\n");
  if ((row_threads * groups) > threads) {
    TEXT("#include \"attnpress/device/ptx_cluster.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_elect.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_bwd_args Args;\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n");
  int32_t of_cluster = ((row_threads * groups) > threads) ? 1 : 0;
  int32_t any_cluster = 0;
  int32_t one_weight = (((params == AP_LAYERNORM_PARAMS_FP32) && weight_in_shared) && (groups > 1)) ? 1 : 0;
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
       "constexpr int CLUSTER_ROWS = ");
  INTEGER(groups);
  TEXT("; // rows that a cluster has at a time, each of a group of warps\n"
       "constexpr int CLUSTER = ROW_THREADS * CLUSTER_ROWS / THREADS; // thread blocks that share a row\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4;        // of a vector's parameters\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // rows in shared memory\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int GROUP_WARPS = WARPS / CLUSTER_ROWS; // of a block\n"
       "constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
       "constexpr int PART = VECTORS * 32; // vectors of a warp in a row\n"
       "constexpr int PART_COLUMNS = PART * ELEMENTS;\n"
       "constexpr int PLACE = PART + 1;         // vectors that these may lie across\n"
       "constexpr int SLOT_BYTES = 2 * PLACE * 16; // of x, then of dy\n"
       "constexpr int WARP_BYTES = SLOTS * SLOT_BYTES;\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "static_assert(GROUP_WARPS * CLUSTER_ROWS == WARPS, \"groups are alike\");\n"
       "static_assert(2 * PART_COLUMNS * 4 <= WARP_BYTES, \"sums have room where rows were\");\n");
  if (weight_in_shared) {
    TEXT("static_assert(SMEM_BYTES == WARPS * WARP_BYTES + VECTORS * THREADS");
    STRING(((params == AP_LAYERNORM_PARAMS_FP32) && (groups > 1)) ? " / CLUSTER_ROWS" : "");
    TEXT(" * WORDS * 4,\n"
         "              \"the generator has another formula\");\n");
  } else {
    TEXT("static_assert(SMEM_BYTES == WARPS * WARP_BYTES, \"the generator has another formula\");\n");
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
    if (one_weight) {
      TEXT("// A thread's weights are places in shared memory, WEIGHT_THREADS apart, of all groups of warps.\n"
           "constexpr int WEIGHT_THREADS = THREADS / CLUSTER_ROWS;\n");
    } else {
      TEXT("// A thread's weights are its own places in shared memory, THREADS apart.\n");
    }
    TEXT("typedef uint4 Weight;\n"
         "\n"
         "// The words of the weights of vector number `index`. weight: (VECTORS, WORDS / 4)\n"
         "__device__ __forceinline__ void find_weight(const Weight *weight, int index, uint32_t *word) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < WORDS / 4; ++i) {\n"
         "    const uint4 four = weight[(index * (WORDS / 4) + i) * ");
    STRING(one_weight ? "WEIGHT_THREADS" : "THREADS");
    TEXT("];\n"
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
         "    weight[i * ");
    STRING(one_weight ? "WEIGHT_THREADS" : "THREADS");
    TEXT("] = four;\n"
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
  TEXT("(part[index * ");
  STRING((rows == AP_LAYERNORM_ROWS_JOINED) ? "32" : "THREADS");
  TEXT("], x);\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(part[");
  STRING((rows == AP_LAYERNORM_ROWS_JOINED) ? "PLACE + index * 32" : "(VECTORS + index) * THREADS");
  TEXT("], dy);\n"
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
       "// Of a vector the bits of its first `count` elements.\n"
       "__device__ __forceinline__ uint4 mask_elements(int count) {\n"
       "  uint32_t word[4];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 4; ++i)\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    word[i] = count > i ? 0xffffffff : 0;\n");
  } else {
    TEXT("    word[i] = count > 2 * i + 1 ? 0xffffffff : count > 2 * i ? 0xffff : 0;\n");
  }
  TEXT("  const uint4 mask = {word[0], word[1], word[2], word[3]};\n"
       "  return mask;\n"
       "}\n"
       "\n"
       "// A vector of the bits of `first` where `mask` has any, else of `other`.\n"
       "__device__ __forceinline__ uint4 choose_bits(uint4 mask, uint4 first, uint4 other) {\n"
       "  const uint4 chosen = {\n"
       "      (first.x & mask.x) | (other.x & ~mask.x), (first.y & mask.y) | (other.y & ~mask.y),\n"
       "      (first.z & mask.z) | (other.z & ~mask.z), (first.w & mask.w) | (other.w & ~mask.w)};\n"
       "  return chosen;\n"
       "}\n"
       "\n"
       "// ---- A warp's part of a row ---------------------------------------------------------------------\n"
       "\n"
       "// Elements between the first of a row's vectors and its begin.\n"
       "__device__ __forceinline__ int odd_of(const Args *args, int row) {\n"
       "  const uint32_t begin = (uint32_t)((uint64_t)args->x / SIZE);\n"
       "  return (int)((begin + (uint32_t)row * (uint32_t)args->x_row_stride) % ELEMENTS);\n"
       "}\n"
       "\n"
       "// Where the vectors of a warp's part begin in a matrix. first: the part's first column\n"
       "__device__ __forceinline__ unsigned char *begin_of(const void *matrix, int64_t stride, int row,\n"
       "                                                   int first) {\n"
       "  return (unsigned char *)(((uint64_t)matrix + (row * stride + first) * SIZE) & ~(uint64_t)15);\n"
       "}\n"
       "\n"
       "// Sends it; nothing beyond the last row. The matrix's last vector, if that is not whole, is not\n"
       "// sent. By one lane. left: columns of the row from the first of the part on\n"
       "__device__ __forceinline__ void send_row(const Args *args, int row, int first, int left,\n"
       "                                         uint32_t to, uint32_t barrier) {\n"
       "  if (row >= (int)args->rows)\n"
       "    return;\n"
       "  const int end = left + odd_of(args, row), more = row + 1 < (int)args->rows ? ELEMENTS - 1 : 0;\n"
       "  const int bytes = left > 0 ? min((end + more) / ELEMENTS, PLACE) * 16 : 0;\n"
       "  mbarrier_arrive_expect(barrier, 2 * bytes);\n"
       "  if (bytes > 0) {\n"
       "    bulk_load(to, begin_of(args->x, args->x_row_stride, row, first), bytes, barrier);\n"
       "    bulk_load(to + PLACE * 16, begin_of(args->dy, args->dy_row_stride, row, first), bytes, barrier);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Puts the elements of the last row that were not sent to their places. place: the warp's\n"
       "__device__ __forceinline__ void complete_last_row(const Args *args, int row, int first, int left,\n"
       "                                                  uint4 *place) {\n"
       "  const int lane = threadIdx.x % 32, end = left + odd_of(args, row);\n"
       "  const int vector = end / ELEMENTS, element = lane % ELEMENTS;\n"
       "  if (left <= 0 || vector >= PLACE)\n"
       "    return;\n"
       "  if (lane < 2 * ELEMENTS && element < end % ELEMENTS) {\n"
       "    const unsigned char *const from =\n"
       "        lane < ELEMENTS ? begin_of(args->x, args->x_row_stride, row, first)\n"
       "                        : begin_of(args->dy, args->dy_row_stride, row, first);\n"
       "    const uint32_t bits = load_element(from + vector * 16, SIZE, element);\n"
       "    store_element(place + lane / ELEMENTS * PLACE + vector, SIZE, element, bits);\n"
       "  }\n"
       "  // All lanes arrive and wait: hands them over.\n"
       "  __syncwarp();\n"
       "}\n"
       "\n"
       "// Of two words, one after the other, the one that begins `bits` later than the first.\n"
       "__device__ __forceinline__ uint32_t word_across(uint32_t first, uint32_t second, int bits) {\n"
       "  return (uint32_t)(((uint64_t)second << 32 | first) >> bits);\n"
       "}\n"
       "// The vector that begins `bits` later than the first of five words.\n"
       "__device__ __forceinline__ uint4 words_across(const uint32_t *from, int bits) {\n"
       "  const uint4 across = {word_across(from[0], from[1], bits), word_across(from[1], from[2], bits),\n"
       "                        word_across(from[2], from[3], bits), word_across(from[3], from[4], bits)};\n"
       "  return across;\n"
       "}\n"
       "// The vector that begins at word `word` of two, and there `bits` later.\n"
       "__device__ __forceinline__ uint4 vector_across(uint4 first, uint4 second, int word, int bits) {\n"
       "  const uint32_t both[8] = {first.x,  first.y,  first.z,  first.w,\n"
       "                            second.x, second.y, second.z, second.w};\n"
       "  return words_across(both + word, bits);\n"
       "}\n"
       "\n"
       "// Moves a lane's vectors of x or of dy so that the part begins with a vector. own: the lane's first\n");
  TEXT("__device__ __forceinline__ void move_part(uint4 *own, int word, int bits) {\n"
       "  uint4 moved[VECTORS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    moved[i] = vector_across(own[i * 32], own[i * 32 + 1], word, bits);\n"
       "  // All lanes arrive and wait: they have read the part.\n"
       "  __syncwarp();\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    own[i * 32] = moved[i];\n"
       "}\n"
       "\n"
       "// What a warp has of a row, which has come, as threads have their columns: 0 beyond the row.\n"
       "__device__ __forceinline__ void align_row(const Args *args, int row, int first, int left,\n"
       "                                          uint4 *place) {\n"
       "  const int lane = threadIdx.x % 32, odd = odd_of(args, row), bits = odd % 2 * 16;\n"
       "  uint4 *const own = place + lane;\n"
       "  if (row + 1 == (int)args->rows)\n"
       "    complete_last_row(args, row, first, left, place);\n"
       "  if (odd != 0) {\n"
       "    switch (odd / 2) {\n");
  for (int32_t word = 0; word < 4; ++word) {
    TEXT("    case ");
    INTEGER(word);
    TEXT(":\n"
         "      move_part(own, ");
    INTEGER(word);
    TEXT(", bits);\n"
         "      move_part(own + PLACE, ");
    INTEGER(word);
    TEXT(", bits);\n"
         "      break;\n");
  }
  TEXT("    }\n"
       "  }\n"
       "  if (left < PART_COLUMNS) {\n"
       "    const uint4 zero = {0, 0, 0, 0};\n"
       "#pragma unroll 1\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      const int count = left - (i * 32 + lane) * ELEMENTS;\n"
       "      if (count >= ELEMENTS)\n"
       "        continue;\n"
       "      const uint4 mask = mask_elements(count);\n"
       "      own[i * 32] = choose_bits(mask, own[i * 32], zero);\n"
       "      own[PLACE + i * 32] = choose_bits(mask, own[PLACE + i * 32], zero);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// Stores whole vectors of dx, of which the part has `count` columns; it begins `odd` elements after\n"
       "// its first vector does. own: the lane's first vector of dx, to: where that of the part begins\n"
       "__device__ __forceinline__ void store_vectors(const uint4 *own, int odd, int count, int word,\n"
       "                                              int bits, unsigned char *to) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int vector = i * 32 + lane;\n"
       "    const uint4 before = own[i > 0 ? i * 32 - 1 : lane > 0 ? -1 : 0], last = own[i * 32];\n"
       "    store_16_if(vector > 0 && (vector + 1) * ELEMENTS <= count + odd,\n"
       "                to + vector * 16, vector_across(before, last, word, bits));\n"
       "  }\n"
       "}\n"
       "\n"
       "// Stores a warp's part of a row of dx. place: the warp's\n"
       "__device__ __forceinline__ void store_row(const Args *args, int row, int first, int left,\n"
       "                                          const uint4 *place) {\n"
       "  const int lane = threadIdx.x % 32, odd = odd_of(args, row), bits = odd % 2 * 16;\n"
       "  const int count = min(left, PART_COLUMNS);\n"
       "  unsigned char *const to = begin_of(args->dx, args->dx_row_stride, row, first);\n"
       "  const uint4 *const own = place + lane;\n"
       "  if (odd == 0) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      const int vector = i * 32 + lane;\n"
       "      store_16_if((vector + 1) * ELEMENTS <= count, to + vector * 16, own[i * 32]);\n"
       "    }\n"
       "  } else {\n"
       "    switch ((ELEMENTS - odd) / 2) {\n");
  for (int32_t word = 0; word < 4; ++word) {
    TEXT("    case ");
    INTEGER(word);
    TEXT(":\n"
         "      store_vectors(own, odd, count, ");
    INTEGER(word);
    TEXT(", bits, to);\n"
         "      break;\n");
  }
  TEXT("    }\n"
       "  }\n"
       "  // What of its first and last vectors it has, a lane each: those hold elements of others.\n"
       "  const int begin = odd == 0 ? 0 : ELEMENTS - odd; // columns of the first\n"
       "  const int ends = count - (count + odd) % ELEMENTS;\n"
       "  const int column = lane < ELEMENTS ? lane : ends + lane - ELEMENTS;\n"
       "  if (lane < ELEMENTS ? column < begin && column < count\n"
       "                      : lane < 2 * ELEMENTS && column >= begin && column < count)\n"
       "    store_element(to, SIZE, odd + column, load_element(place, SIZE, column));\n"
       "}\n"
       "\n"
       "// ---- What a thread makes of a row ---------------------------------------------------------------\n"
       "\n"
       "// The words of the weights of a thread's columns, 1 where there is none; 0 beyond the row. word:\n"
       "// (VECTORS, WORDS)\n"
       "__device__ __forceinline__ void load_weight(const Args *args, int first_vector,\n"
       "                                            uint32_t (*word)[WORDS]) {\n"
       "  float filler[ELEMENTS];\n"
       "  if (args->weight) {\n"
       "    load_parameter_vectors(args->weight, PARAMETER_SIZE, args->columns, ELEMENTS, first_vector, 32,\n"
       "                           VECTORS, word[0]);\n"
       "    return;\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    filler[j] = 1.0f;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(filler, ELEMENTS, word[i]);\n"
       "}\n"
       "\n"
       "// Puts a thread's part of a row of dx in place of x, and adds up dweight and dbias. sum, dot: rstd\n"
       "// times the means of g and of g x^. weight_sum, bias_sum: (VECTORS, ELEMENTS)\n"
       "__device__ __forceinline__ void write_row(uint4 *x_and_dy, RowMoments moments, float sum, float dot,\n"
       "                                          const Weight *weight, float (*weight_sum)[ELEMENTS],\n"
       "                                          float (*bias_sum)[ELEMENTS]) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n"
       "    widen_row(x_and_dy, i, moments, weight, x, dy, g);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      weight_sum[i][j] += dy[j] * x[j];\n"
       "      bias_sum[i][j] += dy[j];\n"
       "      g[j] = g[j] * moments.rstd - (sum + x[j] * dot);\n"
       "    }\n"
       "    x_and_dy[i * 32] = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(g);\n"
       "  }\n"
       "}\n"
       "\n"
       "// ---- Sums ---------------------------------------------------------------------------------------\n"
       "\n"
       "// Puts a thread's sums to its warp's places, by columns. place: (2, VECTORS, 2 x 32) fours of\n"
       "// columns\n"
       "__device__ __forceinline__ void keep_sums(const float (*weight_sum)[ELEMENTS],\n"
       "                                          const float (*bias_sum)[ELEMENTS], float4 *place) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 2 * VECTORS; ++i) {\n"
       "    const float *const sum = i < VECTORS ? weight_sum[i % VECTORS] : bias_sum[i % VECTORS];\n"
       "    const float4 low = {sum[0], sum[1], sum[2], sum[3]}, high = {sum[4], sum[5], sum[6], sum[7]};\n"
       "    place[i * 64 + 2 * lane] = low;\n"
       "    place[i * 64 + 2 * lane + 1] = high;\n"
       "  }\n"
       "}\n"
       "\n"
       "// Stores what a block has of a cluster's parts: the groups of a warp's columns share them, and add\n"
       "// up those of all groups. warp: of the group; rings: the block's\n"
       "__device__ __forceinline__ void store_sums(const Args *args, int cluster, int group, int warp,\n"
       "                                           int first, const unsigned char *rings) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  const int64_t begin = cluster * (int64_t)args->pitch;\n"
       "#pragma unroll 1\n"
       "  for (int i = group; i < 2 * VECTORS; i += CLUSTER_ROWS) {\n"
       "    float *const part = i < VECTORS ? args->weight_parts : args->bias_parts;\n"
       "    if (!part)\n"
       "      continue;\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n"
       "      float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "      for (int other = 0; other < CLUSTER_ROWS; ++other) {\n"
       "        const unsigned char *const ring = rings + (other * GROUP_WARPS + warp) * WARP_BYTES;\n"
       "        const float4 more = ((const float4 *)ring)[i * 64 + half * 32 + lane];\n"
       "        sum.x += more.x;\n"
       "        sum.y += more.y;\n"
       "        sum.z += more.z;\n"
       "        sum.w += more.w;\n"
       "      }\n"
       "      const int column = first + i % VECTORS * 256 + (half * 32 + lane) * 4;\n"
       "      if (column < args->columns)\n"
       "        *(float4 *)(part + begin + column) = sum;\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ RowParts all_parts[CLUSTER_ROWS][2];\n"
       "  __shared__ __align__(8) unsigned char warp_barriers[WARPS * SLOTS * 8];\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  // The same in all lanes, which the compiler does not see otherwise.\n"
       "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);\n"
       "  const int group = warp / GROUP_WARPS;\n"
       "  const int warp_of_row = warp % GROUP_WARPS * CLUSTER + blockIdx.x % CLUSTER;\n"
       "  const int first = warp_of_row * PART_COLUMNS, left = args.columns - first;\n"
       "  const int step = gridDim.x / CLUSTER * CLUSTER_ROWS, rows = (int)args.rows;\n"
       "  RowParts *const parts = all_parts[group];\n"
       "  const bool expects = warp % GROUP_WARPS == 0 && lane == 0;\n"
       "  unsigned char *const ring = smem + warp * WARP_BYTES;\n"
       "  const uint32_t places = shared_address(ring);\n"
       "  const uint32_t barriers = shared_address(warp_barriers) + warp * SLOTS * 8;\n"
       "  if (expects)\n"
       "    init_parts(parts);\n"
       "  if (lane < SLOTS)\n"
       "    mbarrier_init(barriers + lane * 8, 1);\n"
       "  fence_mbarrier_init();\n"
       "  if (left < PART_COLUMNS + ELEMENTS) {\n"
       "    // A part that is not whole: what is not sent is read, and masked.\n"
       "    const uint4 zero = {0, 0, 0, 0};\n"
       "    for (int i = lane; i < WARP_BYTES / 16; i += 32)\n"
       "      ((uint4 *)ring)[i] = zero;\n"
       "    fence_proxy_async();\n"
       "  }\n");
  if (of_cluster) {
    TEXT("  // All threads of the cluster arrive; who reaches into another block's shared memory has waited.\n"
         "  cluster_arrive();\n");
  }
  TEXT("  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "  // All threads arrive and wait: the block's barriers are there.\n"
       "  __syncthreads();\n"
       "  int row = blockIdx.x / CLUSTER * CLUSTER_ROWS + group;\n"
       "  // What the first row is added up with comes before the rows that follow it.\n"
       "  if (elect_lane())\n"
       "    send_row(&args, row, first, left, places, barriers);\n"
       "  RowMoments moments = load_moments(&args, row), next_moments = load_moments(&args, row + step);\n"
       "  uint32_t words[VECTORS][WORDS];\n"
       "  load_weight(&args, warp_of_row * PART + lane, words);\n"
       "  if (elect_lane()) {\n"
       "#pragma unroll 1\n"
       "    for (int i = 1; i < SLOTS; ++i)\n"
       "      send_row(&args, row + i * step, first, left, places + i * SLOT_BYTES, barriers + i * 8);\n"
       "  }\n");
  if (one_weight) {
    TEXT("  // The groups' threads of the same columns have the same places.\n"
         "  Weight *const weight = (uint4 *)(smem + WARPS * WARP_BYTES) + threadIdx.x % WEIGHT_THREADS;\n"
         "  if (group == 0)\n"
         "    keep_weight(words, weight);\n"
         "  // All threads arrive and wait: hands over the weights.\n"
         "  __syncthreads();\n");
  } else if (weight_in_shared) {
    TEXT("  // Each thread has its own places: nobody else reads them.\n"
         "  Weight *const weight = (uint4 *)(smem + WARPS * WARP_BYTES) + threadIdx.x;\n"
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
       "  float2 own = {0.0f, 0.0f};\n"
       "  if (row < rows) {\n"
       "    wait_for_phase(barriers, 0);\n"
       "    align_row(&args, row, first, left, (uint4 *)ring);\n"
       "    own = add_up((const uint4 *)ring + lane, moments, weight);\n"
       "  }\n");
  if (of_cluster) {
    TEXT("  // All threads of the cluster have arrived: every block has its barriers.\n"
         "  cluster_wait();\n");
  }
  TEXT("  if (row < rows)\n"
       "    tell(&parts[0], warp_of_row, own);\n"
       "  int slot = 0, phase = 0;  // phase: of that slot's barrier\n"
       "  int turn = 0, parity = 0; // parity: of the phase of parts[turn]\n"
       "#pragma unroll 1\n"
       "  for (; row < rows; row += step) {\n"
       "    // What the next row amounts to, while others arrive.\n"
       "    const int here = slot;\n"
       "    const bool ends = row + step >= rows;\n"
       "    slot = slot + 1 == SLOTS ? 0 : slot + 1;\n"
       "    phase ^= slot == 0;\n"
       "    const RowMoments later_moments = load_moments(&args, row + 2 * step);\n"
       "    if (!ends) {\n"
       "      wait_for_phase(barriers + slot * 8, phase);\n"
       "      align_row(&args, row + step, first, left, (uint4 *)(ring + slot * SLOT_BYTES));\n"
       "      own = add_up((const uint4 *)(ring + slot * SLOT_BYTES) + lane, next_moments, weight);\n"
       "    }\n"
       "    // Hands over what all warps of the cluster have of this row.\n"
       "    await_parts(&parts[turn], parity);\n");
  if (of_cluster) {
    TEXT("    if (expects)\n"
         "      expect_parts(&parts[turn]);\n");
  }
  TEXT("    float2 sums = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < ROW_WARPS; i += 32) {\n"
       "      const int other = i + lane;\n"
       "      if (other < ROW_WARPS) {\n"
       "        sums.x += parts[turn].warp[other].x;\n"
       "        sums.y += parts[turn].warp[other].y;\n"
       "      }\n"
       "    }\n"
       "    // dx = rstd g - (rstd mean(g) + x^ rstd mean(g x^)).\n"
       "    sums = sum_lanes_of_two(sums, 32);\n"
       "    const float scale = args.per_column * moments.rstd;\n"
       "    const float sum = CENTERED ? sums.x * scale : 0.0f, dot = sums.y * scale;\n"
       "    parity ^= turn;\n"
       "    turn ^= 1;\n"
       "    if (!ends)\n"
       "      tell(&parts[turn], warp_of_row, own);\n"
       "    uint4 *const place = (uint4 *)(ring + here * SLOT_BYTES);\n"
       "    write_row(place + lane, moments, sum, dot, weight, weight_sum, bias_sum);\n"
       "    // All lanes arrive and wait: dx is there.\n"
       "    __syncwarp();\n"
       "    store_row(&args, row, first, left, place);\n"
       "    // All lanes arrive and wait: they have read the row, and the copy engine may write there.\n"
       "    fence_proxy_async();\n"
       "    __syncwarp();\n"
       "    if (elect_lane())\n"
       "      send_row(&args, row + SLOTS * step, first, left, places + here * SLOT_BYTES,\n"
       "               barriers + here * 8);\n"
       "    moments = next_moments;\n"
       "    next_moments = later_moments;\n"
       "  }\n"
       "  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  keep_sums(weight_sum, bias_sum, (float4 *)ring);\n"
       "  // All threads arrive and wait: hands over the sums.\n"
       "  __syncthreads();\n"
       "  store_sums(&args, blockIdx.x / CLUSTER, group, warp % GROUP_WARPS, first, smem);\n"
       "}\n");
}
