/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_sorted.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_sorted(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_sorted(ap_text *out, const ap_render_input *in) {
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
  TEXT(" and g = dy weight, over rows of less than COLUMNS - 6 columns:\n"
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
       "// Rows are read in whole vectors, of which those at a row's ends hold what is not the row's, too.\n"
       "// Rows PERIOD apart begin at the same element of a vector, so that a thread's columns are the same\n"
       "// in them: they are a class. Where all rows begin alike there is one class. A cluster walks over\n"
       "// rows of one class, and each class has as many clusters as others: no cluster stops for another\n"
       "// class, whose weight it would read while the memory has nothing else to do.\n"
       "//\n"
       "// What a row amounts to its warps tell each other. Meanwhile they add up the next row.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_sorted.cu.j2 with tile ");
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
  TEXT(" --rows sorted\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n");
  if ((row_threads * groups) > threads) {
    TEXT("#include \"attnpress/device/ptx_cluster.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async_if.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_prefetch.cuh\"\n"
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
       "constexpr int GROUP_WARPS = THREADS / 32 / CLUSTER_ROWS; // of a block\n"
       "constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
       "constexpr int PERIOD = 8; // rows so far apart begin at the same element of a vector, at the most\n"
       "constexpr int ROW = 2 * VECTORS * THREADS; // vectors of a block's rows of x and of dy\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "static_assert(GROUP_WARPS * CLUSTER_ROWS * 32 == THREADS, \"groups are alike\");\n");
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
       "// ---- Which rows ---------------------------------------------------------------------------------\n"
       "\n"
       "// Rows so far apart begin at the same element of a vector.\n"
       "__device__ __forceinline__ int classes_of(const Args *args) {\n"
       "  const int odd = (int)(args->x_row_stride & (PERIOD - 1));\n"
       "  return odd == 0 ? 1 : PERIOD / (odd & -odd);\n"
       "}\n"
       "\n"
       "// The first row of a cluster's group of warps; args->rows or more: none. Neighbouring clusters have\n"
       "// neighbouring rows. Clusters are a multiple of the classes: rows that come CLUSTER_ROWS times as\n"
       "// many later are of the same one.\n"
       "__device__ __forceinline__ int first_row(const Args *args, int cluster, int group) {\n"
       "  const int classes = classes_of(args);\n"
       "  return (cluster / classes * CLUSTER_ROWS + group) * classes + cluster % classes;\n"
       "}\n"
       "\n"
       "// ---- A thread's vectors of a row ----------------------------------------------------------------\n"
       "\n"
       "// Elements between the first of a row's vectors and its begin.\n"
       "__device__ __forceinline__ int shift_of(const Args *args, int row) {\n"
       "  const uint32_t begin = (uint32_t)((uint64_t)args->x / SIZE);\n"
       "  return (int)((begin + (uint32_t)row * (uint32_t)args->x_row_stride) % ELEMENTS);\n"
       "}\n"
       "\n"
       "// The first of a row's vectors.\n"
       "__device__ __forceinline__ unsigned char *begin_of(const void *matrix, int64_t stride, int row) {\n"
       "  return (unsigned char *)(((uint64_t)matrix + row * stride * SIZE) & ~(uint64_t)15);\n"
       "}\n"
       "\n"
       "// A thread's vector number i is whole where i * ROW_THREADS is less; the row's first may not be.\n"
       "__device__ __forceinline__ int whole_of(const Args *args, int row, int thread) {\n"
       "  return (int)((uint32_t)(args->columns + shift_of(args, row)) / ELEMENTS) - thread;\n"
       "}\n"
       "\n"
       "// The number of the row's vector behind its whole ones, if that is the thread's, in all of its rows;\n"
       "// -1: it is not, -2: nor has another of the warp that, or the row's first.\n"
       "__device__ __forceinline__ int edge_of(const Args *args, int row, int thread) {\n"
       "  const int whole = whole_of(args, row, thread);\n"
       "  int edge = -1;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    if (whole == i * ROW_THREADS)\n"
       "      edge = i;\n"
       "  }\n"
       "  return __any_sync(0xffffffff, edge >= 0 || thread == 0) ? edge : -2;\n"
       "}\n"
       "\n"
       "// Elements of the row's vector behind its whole ones.\n"
       "__device__ __forceinline__ int rest_of(const Args *args, int row) {\n"
       "  return (args->columns + shift_of(args, row)) % ELEMENTS;\n"
       "}\n"
       "\n"
       "// A block's share of a row of x and of dy comes to the L2 cache, as far as its vectors are the row's.\n"
       "// By one thread of a group. A hint: what is written there meanwhile is what is read later.\n"
       "__device__ __forceinline__ void prefetch_row(const Args *args, int row, int block) {\n"
       "  const int all = args->columns / ELEMENTS, each = (all + CLUSTER - 1) / CLUSTER;\n"
       "  const int begin = block * each * 16, bytes = min(each * 16, all * 16 - begin);\n"
       "  if (row >= (int)args->rows)\n"
       "    return;\n"
       "  prefetch_bulk_l2(begin_of(args->x, args->x_row_stride, row) + begin, bytes);\n"
       "  prefetch_bulk_l2(begin_of(args->dy, args->dy_row_stride, row) + begin, bytes);\n"
       "}\n"
       "\n"
       "// A thread's part of a row of x, then of dy, on its way to shared memory; nothing beyond the last\n"
       "// row. The matrix's last vector, if that is not whole, is not. slot: (2, VECTORS), THREADS apart\n"
       "__device__ __forceinline__ void send_row(const Args *args, int row, int thread, uint32_t slot) {\n"
       "  const bool exists = row < (int)args->rows;\n"
       "  const int more = row + 1 < (int)args->rows ? ELEMENTS - 1 : 0;\n"
       "  const uint32_t end = args->columns + shift_of(args, row) + more;\n"
       "  const int left = exists ? (int)(end / ELEMENTS) - thread : 0;\n");
  TEXT("  const unsigned char *const x = begin_of(args->x, args->x_row_stride, row) + thread * 16;\n"
       "  const unsigned char *const dy = begin_of(args->dy, args->dy_row_stride, row) + thread * 16;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    cp_async_16_if(i * ROW_THREADS < left, slot + i * THREADS * 16, x + i * ROW_THREADS * 16);\n"
       "    cp_async_16_if(i * ROW_THREADS < left, slot + (VECTORS + i) * THREADS * 16,\n"
       "                   dy + i * ROW_THREADS * 16);\n"
       "  }\n"
       "  cp_async_commit();\n"
       "}\n"
       "\n"
       "// The first `count` elements of the last vector of a matrix, which is not whole.\n"
       "__device__ __forceinline__ uint4 load_last(const Args *args, const void *matrix, int64_t stride,\n"
       "                                           int count) {\n"
       "  const uint16_t *const from =\n"
       "      (const uint16_t *)matrix + (args->rows - 1) * stride + args->columns - count;\n"
       "  uint32_t word[4] = {0, 0, 0, 0};\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    word[j / 2] |= load_2_if(j < count, from + j, 0) << j % 2 * 16;\n"
       "  const uint4 vector = {word[0], word[1], word[2], word[3]};\n"
       "  return vector;\n"
       "}\n"
       "\n"
       "// The bits of a cluster's rows at their ends: of the first vector, and of that behind the whole ones.\n"
       "struct EdgeMasks {\n"
       "  uint4 first, last;\n"
       "};\n"
       "\n"
       "// By the threads that have them. masks: of the row\n"
       "__device__ __forceinline__ void keep_masks(const Args *args, int row, int thread, int edge,\n"
       "                                           EdgeMasks *masks) {\n"
       "  const uint4 all = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, zero = {0, 0, 0, 0};\n"
       "  if (thread == 0)\n"
       "    masks->first = choose_bits(mask_elements(shift_of(args, row)), zero, all);\n"
       "  if (edge >= 0)\n"
       "    masks->last = mask_elements(rest_of(args, row));\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ void mask_vector(uint4 mask, uint4 *vector) {\n"
       "  const uint4 old = *vector;\n"
       "  const uint4 masked = {old.x & mask.x, old.y & mask.y, old.z & mask.z, old.w & mask.w};\n"
       "  *vector = masked;\n"
       "}\n"
       "\n"
       "// Puts 0 in place of what of a thread's vectors, which have come, is not the row's.\n"
       "__device__ __forceinline__ void mask_row(const Args *args, int row, int thread, int edge,\n"
       "                                         const EdgeMasks *masks, uint4 *slot) {\n"
       "  if (thread == 0) {\n"
       "    mask_vector(masks->first, slot);\n"
       "    mask_vector(masks->first, slot + VECTORS * THREADS);\n"
       "  }\n"
       "  if (edge < 0)\n"
       "    return;\n"
       "  uint4 *const x = slot + edge * THREADS, *const dy = x + VECTORS * THREADS;\n"
       "  if (row + 1 == (int)args->rows) {\n"
       "    *x = load_last(args, args->x, args->x_row_stride, rest_of(args, row));\n"
       "    *dy = load_last(args, args->dy, args->dy_row_stride, rest_of(args, row));\n"
       "  } else {\n"
       "    mask_vector(masks->last, x);\n"
       "    mask_vector(masks->last, dy);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Stores what the row has of its first vector: all from element `shift` on. to: the vector\n"
       "__device__ __forceinline__ void store_first(unsigned char *to, const unsigned char *from,\n"
       "                                            int shift) {\n"
       "  const int even = (shift + 1) / 2 * 4;\n"
       "  if (shift % 2 == 1)\n"
       "    *(uint16_t *)(to + shift * 2) = *(const uint16_t *)(from + shift * 2);\n"
       "  if (even % 8 == 4)\n"
       "    *(uint32_t *)(to + even) = *(const uint32_t *)(from + even);\n"
       "  if (shift <= 4)\n"
       "    *(uint2 *)(to + 8) = *(const uint2 *)(from + 8);\n"
       "}\n"
       "\n"
       "// Stores the first `count` elements of its last one.\n"
       "__device__ __forceinline__ void store_last(unsigned char *to, const unsigned char *from,\n"
       "                                           int count) {\n"
       "  const int four = count / 4 * 8, even = count / 2 * 4;\n"
       "  if (count >= 4)\n"
       "    *(uint2 *)to = *(const uint2 *)from;\n"
       "  if (count % 4 >= 2)\n"
       "    *(uint32_t *)(to + four) = *(const uint32_t *)(from + four);\n"
       "  if (count % 2 == 1)\n"
       "    *(uint16_t *)(to + even) = *(const uint16_t *)(from + even);\n"
       "}\n"
       "\n"
       "// Writes a thread's part of a row of dx, and adds up dweight and dbias. sum, dot: rstd times the\n"
       "// means of g and of g x^. weight_sum, bias_sum: (VECTORS, ELEMENTS)\n"
       "__device__ __forceinline__ void write_row(const Args *args, int row, int thread, int edge,\n");
  TEXT("                                          RowMoments moments, float sum, float dot,\n"
       "                                          const Weight *weight, uint4 *x_and_dy,\n"
       "                                          float (*weight_sum)[ELEMENTS],\n"
       "                                          float (*bias_sum)[ELEMENTS]) {\n"
       "  const bool has_first = thread == 0 && shift_of(args, row) > 0;\n"
       "  const int whole_vectors = whole_of(args, row, thread);\n"
       "  unsigned char *const dx = begin_of(args->dx, args->dx_row_stride, row) + thread * 16;\n"
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
       "    const uint4 vector = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(g);\n"
       "    const bool whole = i * ROW_THREADS < whole_vectors && (i > 0 || !has_first);\n"
       "    store_16_if(whole, dx + i * ROW_THREADS * 16, vector);\n"
       "    // Nor what no row has here: what is put in a place of no vector stays there for later rows.\n"
       "    if (i == edge || (i == 0 && has_first))\n"
       "      x_and_dy[i * THREADS] = vector;\n"
       "  }\n"
       "  if (edge > -2) {\n"
       "    if (has_first)\n"
       "      store_first(dx, (const unsigned char *)x_and_dy, shift_of(args, row));\n"
       "    if (edge >= 0)\n"
       "      store_last(dx + edge * ROW_THREADS * 16, (const unsigned char *)(x_and_dy + edge * THREADS),\n"
       "                 rest_of(args, row));\n"
       "  }\n"
       "}\n"
       "\n");
  if (params != AP_LAYERNORM_PARAMS_FP32) {
    TEXT("// Of two words, one after the other, the one that begins `bits` later than the first.\n"
         "__device__ __forceinline__ uint32_t word_across(uint32_t first, uint32_t second, int bits) {\n"
         "  return (uint32_t)(((uint64_t)second << 32 | first) >> bits);\n"
         "}\n"
         "// The vector that begins `bits` later than the first of five words.\n"
         "__device__ __forceinline__ uint4 words_across(const uint32_t *from, int bits) {\n"
         "  const uint4 across = {word_across(from[0], from[1], bits), word_across(from[1], from[2], bits),\n"
         "                        word_across(from[2], from[3], bits), word_across(from[3], from[4], bits)};\n"
         "  return across;\n"
         "}\n"
         "// The vector that begins with element `count` of two, which is not the first.\n"
         "__device__ __forceinline__ uint4 vector_from(uint4 first, uint4 second, int count) {\n"
         "  uint32_t word[8] = {first.x,  first.y,  first.z,  first.w,\n"
         "                      second.x, second.y, second.z, second.w};\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 6; ++i)\n"
         "    word[i] = count & 4 ? word[i + 2] : word[i];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 5; ++i)\n"
         "    word[i] = count & 2 ? word[i + 1] : word[i];\n"
         "  return words_across(word, count % 2 * 16);\n"
         "}\n"
         "\n");
  }
  TEXT("// The words of the weights of a thread's columns, 1 where there is none; 0 beyond the row.\n"
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
       "    return;\n");
  if (params != AP_LAYERNORM_PARAMS_FP32) {
    TEXT("  const bool by_vectors = (uint64_t)args->weight % 16 == 0;\n"
         "  uint4 first[VECTORS], second[VECTORS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const int column = (i * ROW_THREADS + thread) * ELEMENTS;\n"
         "    const bool whole = by_vectors && column + ELEMENTS <= args->columns;\n"
         "    const uint16_t *const from = (const uint16_t *)args->weight + column;\n"
         "    first[i] = load_16_if(whole && shift > 0 && column > 0, from - ELEMENTS, 0);\n"
         "    second[i] = load_16_if(whole, from, 0);\n"
         "  }\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const uint4 vector =\n"
         "        shift == 0 ? second[i] : vector_from(first[i], second[i], ELEMENTS - shift);\n"
         "    const bool whole = by_vectors && (i * ROW_THREADS + thread + 1) * ELEMENTS <= args->columns;\n"
         "    if (whole) {\n"
         "      word[i][0] = vector.x;\n"
         "      word[i][1] = vector.y;\n"
         "      word[i][2] = vector.z;\n"
         "      word[i][3] = vector.w;\n"
         "    }\n"
         "  }\n");
  }
  TEXT("  // All loads of a thread are on their way before the first is waited for.\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int column = (i * ROW_THREADS + thread) * ELEMENTS - shift;\n");
  if (params != AP_LAYERNORM_PARAMS_FP32) {
    TEXT("    if (by_vectors && column + shift + ELEMENTS <= args->columns)\n"
         "      continue;\n");
  }
  if (params == AP_LAYERNORM_PARAMS_FP32) {
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      word[i][j] = load_4_if(has_column(args->columns, column + j),\n"
         "                             (const float *)args->weight + column + j, 0);\n");
  } else {
    TEXT("    const uint16_t *const from = (const uint16_t *)args->weight + column;\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < WORDS; ++j)\n"
         "      word[i][j] =\n"
         "          load_2_if(has_column(args->columns, column + 2 * j), from + 2 * j, 0) |\n"
         "          load_2_if(has_column(args->columns, column + 2 * j + 1), from + 2 * j + 1, 0) << 16;\n");
  }
  TEXT("  }\n"
       "}\n"
       "\n"
       "// ---- Sums ---------------------------------------------------------------------------------------\n"
       "\n"
       "// Stores the block's sums to a part, those of all its groups: by all of its threads. sum: (VECTORS,\n"
       "// ELEMENTS); warp: of the group; first: of the warp's threads, in the row; slot: the block's, of\n"
       "// places whose rows have been written\n"
       "__device__ __forceinline__ void store_sums(const Args *args, float *part, int group, int warp,\n"
       "                                           int first, int shift, const float (*sum)[ELEMENTS],\n"
       "                                           uint4 *slot) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  uint4 *const own = slot + threadIdx.x;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const float4 low = {sum[i][0], sum[i][1], sum[i][2], sum[i][3]};\n"
       "    const float4 high = {sum[i][4], sum[i][5], sum[i][6], sum[i][7]};\n"
       "    own[i * THREADS] = __builtin_bit_cast(uint4, low);\n"
       "    own[(VECTORS + i) * THREADS] = __builtin_bit_cast(uint4, high);\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the sums.\n"
       "  __syncthreads();\n"
       "#pragma unroll 1\n"
       "  for (int i = group; i < VECTORS; i += CLUSTER_ROWS) {\n"
       "#pragma unroll\n"
       "    for (int k = 0; k < ELEMENTS; ++k) {\n"
       "      const int other = 4 * k + lane / ELEMENTS, half = lane % ELEMENTS / 4;\n"
       "      const int column = (i * ROW_THREADS + first + other) * ELEMENTS + lane % ELEMENTS - shift;\n"
       "      float all = 0.0f;\n"
       "#pragma unroll\n"
       "      for (int from = 0; from < CLUSTER_ROWS; ++from) {\n"
       "        const uint4 *const place =\n"
       "            slot + (half * VECTORS + i) * THREADS + (from * GROUP_WARPS + warp) * 32 + other;\n"
       "        all += ((const float *)place)[lane % 4];\n"
       "      }\n"
       "      if (has_column(args->columns, column))\n"
       "        part[column] = all;\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// Part number `number`, if there are any.\n"
       "__device__ __forceinline__ float *part_of(const Args *args, float *parts, int number) {\n"
       "  return parts ? parts + number * (int64_t)args->pitch : parts;\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ RowParts all_parts[CLUSTER_ROWS][2];\n"
       "  __shared__ EdgeMasks all_masks[CLUSTER_ROWS];\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  // The same in all lanes, which the compiler does not see otherwise.\n"
       "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);\n"
       "  const int group = warp / GROUP_WARPS;\n"
       "  const int row_warp = warp % GROUP_WARPS * CLUSTER + blockIdx.x % CLUSTER;\n"
       "  const int thread = row_warp * 32 + lane; // of the row\n"
       "  const int step = gridDim.x / CLUSTER * CLUSTER_ROWS, rows = (int)args.rows;\n"
       "  RowParts *const parts = all_parts[group];\n"
       "  EdgeMasks *const masks = &all_masks[group];\n"
       "  const bool expects = warp % GROUP_WARPS == 0 && lane == 0;\n"
       "  if (expects)\n"
       "    init_parts(parts);\n");
  if (of_cluster) {
    TEXT("  // All threads of the cluster arrive; who reaches into another block's shared memory has waited.\n"
         "  cluster_arrive();\n");
  }
  TEXT("  int row = first_row(&args, blockIdx.x / CLUSTER, group);\n"
       "  const int edge = edge_of(&args, row, thread);\n"
       "  // The first rows are read while what ran before ends: the caches know what that still writes.\n"
       "  if (expects) {\n"
       "#pragma unroll 1\n"
       "    for (int i = 0; i < SLOTS; ++i)\n"
       "      prefetch_row(&args, row + i * step, blockIdx.x % CLUSTER);\n"
       "  }\n"
       "  // Each thread has its own places: nobody else reads them.\n"
       "  uint4 *const slots = (uint4 *)smem + threadIdx.x;\n"
       "  const uint32_t slots_address = shared_address(slots);\n"
       "  const uint4 zero = {0, 0, 0, 0};\n"
       "#pragma unroll 1\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    if (i * ROW_THREADS + thread < args.columns / ELEMENTS)\n"
       "      continue;\n"
       "    // Rows have these, or none.\n"
       "#pragma unroll\n"
       "    for (int slot = 0; slot < SLOTS; ++slot)\n"
       "      slots[slot * ROW + i * THREADS] = slots[slot * ROW + (VECTORS + i) * THREADS] = zero;\n"
       "  }\n"
       "  keep_masks(&args, row, thread, edge, masks);\n"
       "  // What comes next may begin, and wait: the kernel that adds up the parts, and by that the one\n"
       "  // behind it. Its blocks have room where this one's end.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "  // What the first row is added up with comes before the rows that follow it.\n"
       "  RowMoments moments[SLOTS]; // of this row, and of those that are on their way\n"
       "  send_row(&args, row, thread, slots_address);\n"
       "  moments[0] = load_moments(&args, row);\n"
       "  uint32_t words[VECTORS][WORDS];\n"
       "  load_weight(&args, thread, shift_of(&args, row), words);\n"
       "#pragma unroll\n"
       "  for (int i = 1; i < SLOTS; ++i) {\n"
       "    send_row(&args, row + i * step, thread, slots_address + i * ROW * 16);\n"
       "    moments[i] = load_moments(&args, row + i * step);\n"
       "  }\n");
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
       "  }\n");
  if (of_cluster) {
    TEXT("  // All threads of the cluster have arrived: every block has its barriers.\n"
         "  cluster_wait();\n");
  } else {
    TEXT("  // All threads arrive and wait: the block's barriers are there.\n"
         "  __syncthreads();\n");
  }
  TEXT("  if (row < rows) {\n"
       "    cp_async_wait(SLOTS - 1);\n"
       "    if (edge > -2)\n"
       "      mask_row(&args, row, thread, edge, masks, slots);\n"
       "    tell(&parts[0], row_warp, add_up(slots, moments[0], weight));\n"
       "  }\n"
       "  uint32_t turn = 0; // of rows that were told\n"
       "#pragma unroll 1\n"
       "  for (; row < rows; row += step) {\n"
       "    const int slot = (int)(turn % SLOTS), next = slot + 1 == SLOTS ? 0 : slot + 1;\n"
       "    uint4 *const x_and_dy = slots + slot * ROW;\n"
       "    // What the next row amounts to, while others arrive.\n"
       "    const bool follows = row + step < rows;\n"
       "    float2 own = {0.0f, 0.0f};\n"
       "    if (follows) {\n"
       "      cp_async_wait(SLOTS - 2);\n"
       "      if (edge > -2)\n"
       "        mask_row(&args, row + step, thread, edge, masks, slots + next * ROW);\n"
       "      own = add_up(slots + next * ROW, moments[1], weight);\n"
       "    }\n"
       "    // Hands over what all warps of the row have of it.\n"
       "    await_parts(&parts[turn % 2], turn / 2 % 2);\n");
  if (of_cluster) {
    TEXT("    if (expects)\n"
         "      expect_parts(&parts[turn % 2]);\n");
  }
  TEXT("    float2 sums = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < ROW_WARPS; i += 32) {\n"
       "      const int other = i + lane;\n"
       "      if (other < ROW_WARPS) {\n"
       "        sums.x += parts[turn % 2].warp[other].x;\n"
       "        sums.y += parts[turn % 2].warp[other].y;\n"
       "      }\n"
       "    }\n"
       "    // dx = rstd g - (rstd mean(g) + x^ rstd mean(g x^)).\n"
       "    sums = sum_lanes_of_two(sums, 32);\n"
       "    const float scale = args.per_column * moments[0].rstd;\n"
       "    const float sum = CENTERED ? sums.x * scale : 0.0f, dot = sums.y * scale;\n"
       "    ++turn;\n"
       "    if (follows)\n"
       "      tell(&parts[turn % 2], row_warp, own);\n"
       "    write_row(&args, row, thread, edge, moments[0], sum, dot, weight, x_and_dy, weight_sum,\n"
       "              bias_sum);\n"
       "    // The row that comes SLOTS later takes this one's place.\n"
       "    const int later = row + SLOTS * step;\n"
       "    send_row(&args, later, thread, slots_address + slot * ROW * 16);\n"
       "#pragma unroll\n"
       "    for (int i = 1; i < SLOTS; ++i)\n"
       "      moments[i - 1] = moments[i];\n"
       "    moments[SLOTS - 1] = load_moments(&args, later);\n"
       "  }\n"
       "  const int shift = shift_of(&args, row); // of all rows of the class\n"
       "  float *const weight_part = part_of(&args, args.weight_parts, blockIdx.x / CLUSTER);\n"
       "  float *const bias_part = part_of(&args, args.bias_parts, blockIdx.x / CLUSTER);\n"
       "  // Each sum has the places of another row.\n"
       "  if (weight_part)\n"
       "    store_sums(&args, weight_part, group, warp % GROUP_WARPS, row_warp * 32, shift, weight_sum,\n"
       "               (uint4 *)smem);\n"
       "  if (bias_part)\n"
       "    store_sums(&args, bias_part, group, warp % GROUP_WARPS, row_warp * 32, shift, bias_sum,\n"
       "               (uint4 *)smem + ROW);\n"
       "}\n");
}
