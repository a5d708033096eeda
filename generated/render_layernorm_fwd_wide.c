/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_wide.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_wide(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_wide(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  int32_t vectors = cols / (threads * ((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 8));
  int32_t twice = ((params == AP_LAYERNORM_PARAMS_FP32) && (dtype != AP_LAYERNORM_DTYPE_FP32)) ? 1 : 0;
  int32_t kept = (vectors == 7) ? 6 : ((vectors <= 8) ? 8 : ((norm == AP_LAYERNORM_NORM_RMS) ? 14 : 4));
  kept = !twice ? kept : ((norm == AP_LAYERNORM_NORM_RMS) ? vectors : 4);
  int32_t batch = (vectors <= 8) ? vectors : 4;
  int32_t products = (((dtype != AP_LAYERNORM_DTYPE_FP32) && (vectors != 8)) && !(twice && (norm == AP_LAYERNORM_NORM_LAYER))) ? 1 : 0;
  int32_t spare = (vectors > 8) ? (((vectors / 2) - slots) + 1) : 0;
  int32_t early = (spare <= 0) ? 0 : (((4 * spare) < vectors) ? (4 * spare) : vectors);
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix, rstd = 1 / sqrt(variance + eps).\n");
  } else {
    TEXT("// y = x rstd weight over the rows of a matrix, rstd = 1 / sqrt(mean square + eps).\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. The blocks of a cluster, as many as the launch says,\n");
  if (twice) {
    TEXT("// share a row: each has at most COLUMNS columns of it, in shared memory. Rows of x, and of y, begin\n"
         "// at multiples of 16 bytes and are whole vectors; y may be x. Parameters are at multiples of 16\n"
         "// bytes, or NULL.\n"
         "//\n"
         "// The copy engine brings pieces of a warp's part of rows to its ring. As those of a row are\n"
         "// written, those of later rows come to their places. Parameters stay where they are.\n");
  } else {
    TEXT("// share a row: each has at most COLUMNS columns of it, in shared memory, ");
    INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 3 : 7);
    TEXT(" less of rows that begin\n"
         "// anywhere. Rows of x, and of y, begin at multiples of 16 bytes and are whole vectors, or lie one\n"
         "// after the other from one on; then y is not x. Parameters are at multiples of 16 bytes, or NULL.\n"
         "//\n"
         "// The copy engine brings pieces of a warp's part of rows to its ring. As those of a row are\n"
         "// written, those of later rows come to their places. A row is brought in whole vectors, of which\n"
         "// those at its ends may hold elements of others, too. Parameters stay where they are: where a row\n"
         "// begins at another element of a vector, a vector's parameters lie across a lane's own and those of\n"
         "// the lane before.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_wide.cu.j2 with tile ");
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
  TEXT(" --rows wide --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_bulk_copy.cuh\"\n"
       "#include \"attnpress/device/ptx_cluster.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n");
  if (products) {
    TEXT("#include \"attnpress/device/ptx_mma.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_fwd_args Args;\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT("; // those of a block, whatever the cluster\n"
       "static_assert(ROW_THREADS == THREADS, \"all threads of a block share a row\");\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int ELEMENTS = 16 / SIZE;                     // of a vector\n"
       "constexpr int WORDS = ");
  INTEGER(twice ? 8 : 4);
  TEXT(";                            // of a parameter, for a vector\n"
       "constexpr int VECTORS = COLUMNS / (THREADS * ELEMENTS); // of a thread in a row, at the most\n"
       "// That a lane has in any case: there are classes for less.\n"
       "constexpr int SURE = ");
  INTEGER((vectors <= 8) ? (vectors - 2) : 0);
  TEXT(";\n"
       "constexpr int BATCH = ");
  INTEGER(batch);
  TEXT("; // vectors of a lane that come at once: a piece\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // pieces of a warp's ring\n"
       "constexpr int KEPT = ");
  INTEGER((kept < vectors) ? kept : vectors);
  TEXT(";  // vectors of a thread whose parameters are in registers\n"
       "// That are written before the next row is added up, all of which has been sent then.\n"
       "constexpr int EARLY = ");
  INTEGER(early);
  TEXT(";\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("constexpr float FAR = 16.0f; // of the square of a mean, in variances\n");
  }
  if (products && (norm == AP_LAYERNORM_NORM_LAYER)) {
    TEXT("constexpr uint32_t ONES = ");
    STRING((dtype == AP_LAYERNORM_DTYPE_BF16) ? "0x3f803f80" : "0x3c003c00");
    TEXT(";\n");
  }
  TEXT("constexpr int PLACE_BYTES = BATCH * 32 * 16;\n"
       "constexpr int RING_BYTES = SLOTS * PLACE_BYTES;\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int FETCHED = 2;\n"
       "// Vectors whose parameters are in shared memory; of others they are fetched for each row, while the\n"
       "// FETCHED before are written.\n"
       "constexpr int PARKED = (SMEM_BYTES - WARPS * RING_BYTES) / (");
  INTEGER((norm == AP_LAYERNORM_NORM_LAYER) ? 2 : 1);
  TEXT(" * THREADS * WORDS * 4);\n"
       "static_assert(VECTORS % BATCH == 0, \"a row is whole pieces\");\n"
       "static_assert(SLOTS > VECTORS / BATCH, \"the next row comes while one is written\");\n"
       "static_assert(EARLY % BATCH == 0 && EARLY <= VECTORS, \"whole pieces are written early\");\n"
       "static_assert(PARKED >= 0 && KEPT + PARKED <= VECTORS, \"the generator has another formula\");\n"
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
       "\n");
  int32_t of_cluster = 1;
  int32_t any_cluster = 1;
  TEXT("constexpr int CLUSTER_MAX = 16; // blocks\n"
       "constexpr int PARTS = CENTERED ? 3 : 2; // two rows in turn, and one that is added up again\n");
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
       "// What warp number `warp` of a row's has: vectors from number `begin` on.\n"
       "struct Share {\n"
       "  int warp, begin, vectors;\n"
       "};\n"
       "\n"
       "// A row begins `odd` elements after the first of its vectors does, and has `end` elements of the\n"
       "// last, all if it is 0.\n"
       "struct Cut {\n"
       "  int odd, vectors, end;\n"
       "};\n"
       "\n"
       "// Whether rows begin anywhere.\n"
       "__device__ __forceinline__ bool is_cut(const Args *");
  STRING(twice ? "" : "args");
  TEXT(") {\n"
       "  return ");
  STRING(twice ? "false" : "args->columns % ELEMENTS != 0");
  TEXT(";\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ Cut cut_of(const Args *args, int row, bool cuts) {\n"
       "  if (!cuts) {\n"
       "    const Cut cut = {0, args->columns / ELEMENTS, 0};\n"
       "    return cut;\n"
       "  }\n"
       "  const int odd = (int)(row * args->x_row_stride % ELEMENTS);\n"
       "  const Cut cut = {odd, (args->columns + odd + ELEMENTS - 1) / ELEMENTS,\n"
       "                   (args->columns + odd) % ELEMENTS};\n"
       "  return cut;\n"
       "}\n"
       "\n"
       "// What a warp's ring is sent next: piece number `index` of its part of a row, to place `slot`.\n"
       "struct Sender {\n"
       "  int row, index, slot;\n"
       "};\n"
       "\n");
  if (vectors > 8) {
    TEXT("// What is sent after `count` pieces of rows from `row` on.\n"
         "__device__ __forceinline__ Sender sender_after(int count, int row, int pieces, int step) {\n"
         "  const Sender sender = {row + count / pieces * step, count % pieces, 0};\n"
         "  return sender;\n"
         "}\n"
         "\n");
  }
  TEXT("// Whether a row's last vector reaches beyond the matrix: it is not sent.\n"
       "__device__ __forceinline__ bool is_beyond(const Args *args, int row, Cut cut) {\n"
       "  return row + 1 == (int)args->rows && cut.end != 0;\n"
       "}\n"
       "\n"
       "// Sends a piece; nothing beyond the last row. Called by all lanes. places, barriers: of the warp's\n"
       "// ring; cuts: rows begin anywhere\n"
       "__device__ __forceinline__ void send_piece(const Args *args, Share share, int pieces, int step,\n"
       "                                           uint32_t places, uint32_t barriers, bool cuts,\n"
       "                                           Sender *next) {\n"
       "  if (threadIdx.x % 32 == 0 && next->row < (int)args->rows) {\n"
       "    const Cut cut = cut_of(args, next->row, cuts);\n"
       "    const int begin = share.begin + next->index * BATCH * 32;\n"
       "    const int end = min(share.begin + share.vectors, cut.vectors - is_beyond(args, next->row, cut));\n"
       "    const int bytes = max(min(end - begin, BATCH * 32), 0) * 16;\n"
       "    const uint32_t barrier = barriers + next->slot * 8;\n"
       "    const unsigned char *const from = (const unsigned char *)args->x +\n"
       "                                      (next->row * args->x_row_stride - cut.odd) * SIZE +\n"
       "                                      (int64_t)begin * 16;\n"
       "    mbarrier_arrive_expect(barrier, bytes);\n"
       "    if (bytes > 0)\n"
       "      bulk_load(places + next->slot * PLACE_BYTES, from, bytes, barrier);\n"
       "  }\n"
       "  next->slot = next->slot + 1 == SLOTS ? 0 : next->slot + 1;\n"
       "  if (++next->index == pieces) {\n"
       "    next->index = 0;\n"
       "    next->row += step;\n"
       "  }\n"
       "}\n"
       "\n"
       "// The first `count` elements of a vector, and 0 for others.\n"
       "__device__ __forceinline__ uint4 load_first_elements(const unsigned char *from, int count) {\n"
       "  uint32_t word[4];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 4; ++i)\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    word[i] = load_4_if(i < count, from + i * 4, 0);\n");
  } else {
    TEXT("    word[i] = load_2_if(2 * i < count, from + i * 4, 0) |\n"
         "              load_2_if(2 * i + 1 < count, from + i * 4 + 2, 0) << 16;\n");
  }
  TEXT("  const uint4 vector = {word[0], word[1], word[2], word[3]};\n"
       "  return vector;\n"
       "}\n"
       "\n");
  if (!products) {
    TEXT("// What a lane has of a row: the sums of its values and of their squares.\n"
         "struct Sums {\n"
         "  float2 all;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Sums zero_sums() {\n"
         "  const Sums sums = {{0.0f, 0.0f}};\n"
         "  return sums;\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ void add_vector(Sums *sums, uint4 x) {\n"
         "  float value[ELEMENTS];\n"
         "  widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x, value);\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; ++j) {\n"
         "    sums->all.x += value[j];\n"
         "    sums->all.y += value[j] * value[j];\n"
         "  }\n"
         "}\n"
         "\n"
         "// The warp's sums.\n"
         "__device__ __forceinline__ float2 all_sums(const Sums &sums) {\n"
         "  return sum_lanes_of_two(sums.all, 32);\n"
         "}\n");
  } else {
    TEXT("// What a warp has of a row, as products. Two words of each lane are a matrix of 16 rows and 8\n"
         "// columns: the first are its first 8 rows, the second the others. With the first transposed its\n"
         "// first rows have their squares on the diagonal, and with the second the others.\n"
         "struct Sums {\n"
         "  float first[4], second[4];\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  float ones[4]; // with ones: each row's sum\n");
    }
    TEXT("};\n"
         "\n"
         "__device__ __forceinline__ Sums zero_sums() {\n"
         "  Sums sums;\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < 4; ++j)\n"
         "    ");
    STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "sums.ones[j] = " : "");
    TEXT("sums.first[j] = sums.second[j] = 0.0f;\n"
         "  return sums;\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ void add_words(Sums *sums, uint32_t first, uint32_t second) {\n"
         "  const uint32_t both[2] = {first, second};\n"
         "  mma_m16n8k8_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(sums->first, both, &first);\n"
         "  mma_m16n8k8_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(sums->second, both, &second);\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  const uint32_t ones = ONES;\n"
           "  mma_m16n8k8_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(sums->ones, both, &ones);\n");
    }
    TEXT("}\n"
         "\n"
         "__device__ __forceinline__ void add_vector(Sums *sums, uint4 x) {\n"
         "  add_words(sums, x.x, x.y);\n"
         "  add_words(sums, x.z, x.w);\n"
         "}\n"
         "\n"
         "// The warp's sums of values, of RMS norm 0, and of their squares.\n"
         "__device__ __forceinline__ float2 all_sums(const Sums &sums) {\n"
         "  // Column 2 t, or 2 t + 1, of rows g and g + 8 is on the diagonal.\n"
         "  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;\n"
         "  float squares = g == 2 * t ? sums.first[0] + sums.second[2] : sums.first[1] + sums.second[3];\n"
         "  float values = ");
    STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "sums.ones[0] + sums.ones[2]" : "0.0f");
    TEXT(";\n"
         "  // The next lanes that are on it are four on, and, of pairs of rows, nine and eighteen.\n"
         "  squares += __shfl_xor_sync(0xffffffff, squares, 4);\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  values += __shfl_xor_sync(0xffffffff, values, 4);\n");
    }
    TEXT("  squares += __shfl_xor_sync(0xffffffff, squares, 9);\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  values += __shfl_xor_sync(0xffffffff, values, 8);\n");
    }
    TEXT("  squares += __shfl_xor_sync(0xffffffff, squares, 18);\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  values += __shfl_xor_sync(0xffffffff, values, 16);\n");
    }
    TEXT("  const float2 all = {values, __shfl_sync(0xffffffff, squares, 0)};\n"
         "  return all;\n"
         "}\n");
  }
  TEXT("// The lane's vectors of a piece; 0 beyond the row. left: vectors of the row from the lane's first\n"
       "// of the piece on; begins, ends: it holds elements of other rows, at its begin in the lane's first\n"
       "// vector, and at its end\n"
       "__device__ __forceinline__ void take_piece(const uint4 *own, int left, bool begins, bool ends,\n"
       "                                           Cut cut, uint4 *x) {\n"
       "  const uint4 zero = {0, 0, 0, 0};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < BATCH; ++i) {\n"
       "    x[i] = zero;\n"
       "    if (i < SURE || left > i * 32)\n"
       "      x[i] = own[i * 32];\n"
       "  }\n"
       "  if (begins)\n"
       "    x[0] = choose_bits(mask_elements(cut.odd), zero, x[0]);\n"
       "  if (ends) {\n"
       "#pragma unroll\n"
       "    for (int i = SURE; i < BATCH; ++i)\n"
       "      if (left == i * 32 + 1)\n"
       "        x[i] = choose_bits(mask_elements(cut.end), x[i], zero);\n"
       "  }\n"
       "}\n"
       "\n"
       "// The sums of what a warp has of a row, and of its squares; awaits its pieces, which lie from place\n"
       "// `slot` on. phase: of that place's barrier; ring, barriers: the warp's\n"
       "__device__ __forceinline__ float2 add_up(const Args *args, Share share, int pieces, int row,\n"
       "                                         unsigned char *ring, uint32_t barriers, int slot,\n"
       "                                         int phase, bool cuts) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  const Cut cut = cut_of(args, row, cuts);\n"
       "  const int end = min(share.begin + share.vectors, cut.vectors) - share.begin;\n"
       "  const bool begins = share.begin == 0 && cut.odd != 0 && lane == 0;\n"
       "  const bool ends = share.begin + end == cut.vectors && cut.end != 0;\n"
       "  Sums sums = zero_sums();\n"
       "  int here = slot;\n"
       "  if (row < (int)args->rows) {\n"
       "#pragma unroll 1\n"
       "    for (int piece = 0; piece < pieces; ++piece) {\n"
       "      uint4 *const own = (uint4 *)(ring + here * PLACE_BYTES) + lane;\n"
       "      const int left = end - piece * BATCH * 32 - lane;\n"
       "      const bool ends_here = ends && left <= BATCH * 32;\n"
       "      wait_for_phase(barriers + here * 8, here < slot ? phase ^ 1 : phase);\n"
       "      if (ends_here && is_beyond(args, row, cut) && left > 0 && left % 32 == 1)\n"
       "        own[left - 1] = load_first_elements(\n"
       "            (const unsigned char *)args->x + (row * args->x_row_stride - cut.odd) * SIZE +\n"
       "                (int64_t)(cut.vectors - 1) * 16,\n"
       "            cut.end);\n"
       "      uint4 x[BATCH];\n"
       "      take_piece(own, left, begins && piece == 0, ends_here, cut, x);\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < BATCH; ++i)\n"
       "        add_vector(&sums, x[i]);\n"
       "      here = here + 1 == SLOTS ? 0 : here + 1;\n"
       "    }\n"
       "  }\n"
       "  return all_sums(sums);\n"
       "}\n"
       "\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// The sums of what a warp's values of a row, which are there, differ from `about` by, and of the\n"
         "// squares of that.\n"
         "__device__ __forceinline__ float2 add_up_about(const Args *args, Share share, int pieces, int row,\n"
         "                                               const unsigned char *ring, int slot, float about,\n"
         "                                               bool cuts) {\n"
         "  const Cut cut = cut_of(args, row, cuts);\n"
         "  const int end = min(share.begin + share.vectors, cut.vectors) - share.begin;\n"
         "  float2 all = {0.0f, 0.0f};\n"
         "#pragma unroll 1\n"
         "  for (int i = threadIdx.x % 32; i < end; i += 32) {\n"
         "    const int place = slot + i / (BATCH * 32);\n"
         "    const uint4 *const from =\n"
         "        (const uint4 *)(ring + (place < SLOTS ? place : place - SLOTS) * PLACE_BYTES);\n"
         "    // Of the row's elements the first of this vector.\n"
         "    const int column = (share.begin + i) * ELEMENTS - cut.odd;\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(from[i % (BATCH * 32)], value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n"
         "      const bool there = !cuts || (column + j >= 0 && column + j < args->columns);\n"
         "      const float difference = there ? value[j] - about : 0.0f;\n"
         "      all.x += difference;\n"
         "      all.y += difference * difference;\n"
         "    }\n"
         "  }\n"
         "  return sum_lanes_of_two(all, 32);\n"
         "}\n"
         "\n");
  }
  TEXT("// The sums of what the `warps` of the cluster have told.\n"
       "__device__ __forceinline__ float2 sum_parts(const RowParts *parts, int warps) {\n"
       "  float2 sums = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < CLUSTER_MAX * WARPS; i += 32) {\n"
       "    const int warp = i + threadIdx.x % 32;\n"
       "    if (warp < warps) {\n"
       "      const float2 told = parts->warp[warp];\n"
       "      sums.x += told.x;\n"
       "      sums.y += told.y;\n"
       "    }\n"
       "  }\n"
       "  return sum_lanes_of_two(sums, 32);\n"
       "}\n"
       "\n"
       "// ---- Parameters ---------------------------------------------------------------------------------\n"
       "\n"
       "// Number `index`: weight, bias.\n"
       "__device__ __forceinline__ const void *parameter_of(const Args *args, int index) {\n"
       "  return CENTERED && index > 0 ? args->bias : args->weight;\n"
       "}\n"
       "\n"
       "// How many whole vectors it has in memory: if it is NULL, none.\n"
       "__device__ __forceinline__ int whole_vectors(const Args *args, int index) {\n"
       "  return parameter_of(args, index) ? args->columns / ELEMENTS : 0;\n"
       "}\n"
       "\n");
  if (twice) {
    TEXT("// What a thread reads of a parameter beside the words of its first KEPT vectors of a row: those of\n"
         "// the next ones, a vector of four each, THREADS apart.\n"
         "struct Parameter {\n"
         "  const uint4 *parked;\n"
         "};\n"
         "\n");
  } else {
    TEXT("// What a thread reads of a parameter: words of its first KEPT vectors of a row, `parked` of the\n"
         "// next ones, THREADS apart, and `from`, in memory, of others, which is not read from `whole`\n"
         "// vectors of the row on: the elements that are left are `tail`. `before` is the vector before its\n"
         "// warp's.\n"
         "struct Parameter {\n"
         "  const uint4 *parked, *from, *tail, *before;\n"
         "};\n"
         "\n");
  }
  TEXT("// A word of parameter number `index`, if that is not there: of a weight 1; of a bias -0, which\n"
       "// leaves what it is added to as it is.\n"
       "__device__ __forceinline__ uint32_t absent_word(int index) {\n"
       "  return index > 0 ? ");
  STRING((params == AP_LAYERNORM_PARAMS_FP32) ? "0x80000000" : "0x80008000");
  TEXT(" : ");
  STRING((params == AP_LAYERNORM_PARAMS_FP32) ? "0x3f800000" : ((params == AP_LAYERNORM_PARAMS_BF16) ? "0x3f803f80" : "0x3c003c00"));
  TEXT(";\n"
       "}\n"
       "__device__ __forceinline__ void split(uint4 vector, uint32_t *word) {\n"
       "  word[0] = vector.x;\n"
       "  word[1] = vector.y;\n"
       "  word[2] = vector.z;\n"
       "  word[3] = vector.w;\n"
       "}\n"
       "\n");
  if (!twice) {
    TEXT("// The thread's vector number `index`, of which the row's is number `at`, from memory.\n"
         "__device__ __forceinline__ uint4 fetch_parameter(const Parameter &parameter, int index, int at,\n"
         "                                                 int whole) {\n"
         "  uint4 vector = *parameter.tail;\n"
         "  if (at < whole)\n"
         "    vector = parameter.from[index * 32];\n"
         "  return vector;\n"
         "}\n"
         "\n");
  }
  TEXT("// The words of the thread's vector number `index`. words: (KEPT, WORDS); fetched: (FETCHED), where\n"
       "// it is if it is from memory\n"
       "__device__ __forceinline__ void find_words(const Parameter &parameter,\n"
       "                                           const uint32_t (*words)[WORDS], const uint4 *fetched,\n"
       "                                           int index, uint32_t *word) {\n"
       "  if (index < KEPT) {\n"
       "    renew_words(words[index < KEPT ? index : 0], WORDS, word);\n"
       "    return;\n"
       "  }\n");
  if (twice) {
    TEXT("  split(parameter.parked[(index - KEPT) * 2 * THREADS], word);\n"
         "  split(parameter.parked[((index - KEPT) * 2 + 1) * THREADS], word + 4);\n");
  } else {
    TEXT("  split(index < KEPT + PARKED ? parameter.parked[(index - KEPT) * THREADS]\n"
         "                              : fetched[index % FETCHED],\n"
         "        word);\n");
  }
  TEXT("}\n"
       "\n");
  if (!twice) {
    if (dtype != AP_LAYERNORM_DTYPE_FP32) {
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
    TEXT("// The elements that lie where a row's vector has its own, which begins at word `first` of a vector");
    STRING((dtype != AP_LAYERNORM_DTYPE_FP32) ? "," : ".");
    TEXT("\n");
    if (dtype != AP_LAYERNORM_DTYPE_FP32) {
      TEXT("// and at the second element of that if `bits` is 16, else 32.\n");
    }
    TEXT("// word: (4), the lane's; before: (4), of the warp's last lane the vector before its first\n"
         "__device__ __forceinline__ void widen_across(const uint32_t *word, const uint32_t *before,\n"
         "                                             int first, int bits, float *value) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  uint32_t both[8];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 4; ++i) {\n"
         "    both[i] = 0;\n"
         "    both[4 + i] = word[i];\n"
         "    // Of the lane before; the last has what comes before the first.\n"
         "    if (i >= ");
    STRING((dtype == AP_LAYERNORM_DTYPE_FP32) ? "4 - first" : "3 - first");
    TEXT(")\n"
         "      both[i] = __shfl_sync(0xffffffff, lane == 31 ? before[i] : word[i], (lane + 31) % 32);\n"
         "  }\n");
    if (dtype == AP_LAYERNORM_DTYPE_FP32) {
      TEXT("  const uint4 across = {both[4 - first], both[5 - first], both[6 - first], both[7 - first]};\n");
    } else {
      TEXT("  const uint4 across = words_across(both + 3 - first, bits);\n");
    }
    TEXT("  widen_vector_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(across, value);\n"
         "}\n"
         "\n");
  }
  TEXT("// ---- A row --------------------------------------------------------------------------------------\n"
       "\n"
       "// A row that is written: at how many bits of a word it begins, or 32; the vectors that the warp has\n"
       "// of it from the lane's first on; whether the lane's first holds some of the row before, and the\n"
       "// warp's last some of the next; and where the first is.\n"
       "struct Row {\n"
       "  int bits, left;\n"
       "  bool first, last;\n"
       "  float mean, rstd;\n"
       "  unsigned char *to;\n"
       "};\n"
       "\n"
       "// The values of a parameter for the lane's vector number `index`, and those of the vector before,\n"
       "// which the last lane has to know. known: (4), of its number `index` - 1, if\n"
       "// that is not kept\n"
       "__device__ __forceinline__ void widen_parameter(const Parameter &parameter,\n"
       "                                                const uint32_t (*words)[WORDS],\n"
       "                                                const uint4 *fetched, int index, int first,\n"
       "                                                int bits, uint32_t *known, float *value) {\n");
  if (twice) {
    TEXT("  uint32_t word[WORDS];\n"
         "  find_words(parameter, words, fetched, index, word);\n"
         "  widen_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(word, ELEMENTS, value);\n");
  } else {
    TEXT("  uint32_t word[4], before[4];\n"
         "  find_words(parameter, words, fetched, index, word);\n"
         "  if (first < 0) {\n"
         "    widen_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(word, ELEMENTS, value);\n"
         "    return;\n"
         "  }\n"
         "  if (index == 0)\n"
         "    split(*parameter.before, before);\n"
         "  else if (index <= KEPT)\n"
         "    renew_words(words[index - 1], 4, before);\n"
         "  else\n"
         "    renew_words(known, 4, before);\n"
         "  widen_across(word, before, first, bits, value);\n"
         "  if (index >= KEPT)\n"
         "    renew_words(word, 4, known);\n");
  }
  TEXT("}\n"
       "\n"
       "// Writes a thread's vector number `index` of a row that begins at word `word` of a vector, or with\n"
       "// one if that is -1; if it holds elements of other rows, too, to `ends`. known: as above, of both\n"
       "// parameters\n"
       "__device__ __forceinline__ void write_vector(const Args *args, int index, int word, const Row &row,\n"
       "                                             int at, const uint4 *place, const Parameter &weight,\n"
       "                                             const uint32_t (*weights)[WORDS],\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("                                             const Parameter &bias, const uint32_t (*biases)[WORDS],\n");
  }
  TEXT("                                             uint4 (*fetched)[FETCHED], uint32_t (*known)[4],\n"
       "                                             uint4 *ends) {\n"
       "  float value[ELEMENTS], factor[ELEMENTS];\n"
       "  uint4 x = {0, 0, 0, 0};\n"
       "  if (index < SURE || index * 32 < row.left)\n"
       "    x = *place;\n"
       "  widen_parameter(weight, weights, fetched[0], index, word, row.bits, known[0], factor);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  float added[ELEMENTS];\n"
         "  widen_parameter(bias, biases, fetched[1], index, word, row.bits, known[1], added);\n");
  }
  if (vectors > 8) {
    TEXT("  // What a later vector needs comes while those before it are written.\n"
         "  const int next = index + FETCHED, next_at = at + FETCHED * 32;\n"
         "  if (next >= KEPT + PARKED && next < VECTORS) {\n"
         "    fetched[0][index % FETCHED] =\n"
         "        fetch_parameter(weight, next, next_at, whole_vectors(args, 0));\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("    fetched[1][index % FETCHED] = fetch_parameter(bias, next, next_at, whole_vectors(args, 1));\n");
    }
    TEXT("  }\n");
  }
  TEXT("  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x, value);\n");
  if ((norm == AP_LAYERNORM_NORM_LAYER) && (dtype != AP_LAYERNORM_DTYPE_FP32)) {
    TEXT("  const float offset = -row.mean * row.rstd;\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n");
  if (norm == AP_LAYERNORM_NORM_RMS) {
    TEXT("    value[j] = value[j] * row.rstd * factor[j];\n");
  } else if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    value[j] = (value[j] - row.mean) * row.rstd * factor[j] + added[j];\n");
  } else {
    TEXT("    value[j] = (value[j] * row.rstd + offset) * factor[j] + added[j];\n");
  }
  TEXT("  const uint4 y = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value);\n"
       "  const bool first = word >= 0 && index == 0 && row.first;\n"
       "  if (first)\n"
       "    ends[0] = y;\n"
       "  const bool last = index >= SURE && row.last && row.left == index * 32 + 1;\n"
       "  if (last)\n"
       "    ends[1] = y;\n"
       "  if (!first && !last && (index < SURE || index * 32 < row.left))\n"
       "    *(uint4 *)(row.to + index * 32 * 16) = y;\n"
       "}\n"
       "\n"
       "// Writes vectors `begin` to `end` of a thread, of which its warp has `rounds`, likewise, and sends\n"
       "// pieces of later rows to their places.\n"
       "__device__ __forceinline__ void write_vectors(const Args *args, int begin, int end, int word,\n"
       "                                              const Row &row, Share share, int rounds, int step,\n"
       "                                              const Parameter &weight,\n"
       "                                              const uint32_t (*weights)[WORDS],\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("                                              const Parameter &bias,\n"
         "                                              const uint32_t (*biases)[WORDS],\n");
  }
  TEXT("                                              const unsigned char *ring, uint32_t places,\n"
       "                                              uint32_t barriers, bool cuts, Sender *next,\n"
       "                                              uint4 (*fetched)[FETCHED], uint4 *ends) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  uint32_t known[2][4];\n");
  if (!twice) {
    TEXT("  if (begin > KEPT && word >= 0) {\n"
         "    const int at = share.begin + (begin - 1) * 32 + lane;\n"
         "    split(fetch_parameter(weight, begin - 1, at, whole_vectors(args, 0)), known[0]);\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("    split(fetch_parameter(bias, begin - 1, at, whole_vectors(args, 1)), known[1]);\n");
    }
    TEXT("  }\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = begin; i < end; i += BATCH) {\n");
  if (vectors > batch) {
    TEXT("    if (i >= rounds)\n"
         "      return;\n");
  }
  TEXT("    // A ring's next place to be written is the one that is sent to next.\n"
       "    const uint4 *const place = (const uint4 *)(ring + next->slot * PLACE_BYTES) + lane;\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < BATCH; ++j)\n"
       "      write_vector(args, i + j, word, row, share.begin + (i + j) * 32 + lane, place + j * 32,\n"
       "                   weight, weights, ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "bias, biases, " : "");
  TEXT("fetched, known, ends);\n"
       "    // All lanes arrive and wait: they have read the piece. Another takes its place.\n"
       "    __syncwarp();\n"
       "    send_piece(args, share, ");
  STRING((vectors <= 8) ? "1" : "(rounds + BATCH - 1) / BATCH");
  TEXT(", step, places, barriers, cuts,\n"
       "               next);\n"
       "  }\n"
       "}\n"
       "\n"
       "// A warp of the row's, and what it has.\n"
       "struct Part {\n"
       "  const Share *shares; // of a block's warps\n"
       "  int *again;          // of each, the phase of parts[2]\n"
       "  int rounds, cluster;\n"
       "  unsigned char *ring;\n"
       "  uint32_t places, barriers;\n"
       "};\n"
       "\n"
       "// A warp's share, read anew: registers are few.\n"
       "__device__ __forceinline__ Share share_of(const Part &own_part) {\n"
       "  return own_part.shares[threadIdx.x / 32];\n"
       "}\n"
       "\n"
       "// Walks over the rows from `row` on, whose first have been sent, and the first told.\n"
       "__device__ __forceinline__ void walk(const Args *args, bool cuts, RowParts *parts,\n"
       "                                     const Part &own_part, int pieces, int row, int step,\n"
       "                                     const uint32_t (*words)[KEPT][WORDS], const Parameter &weight,\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("                                     const Parameter &bias,\n");
  }
  TEXT("                                     uint4 *own_ends) {\n"
       "  const int lane = threadIdx.x % 32;\n");
  if (vectors > 8) {
    TEXT("  Sender next = sender_after(SLOTS, row, pieces, step);\n");
  }
  TEXT("  uint32_t number = 0; // of rows, which have parts[0] and [1] in turn\n");
  if (vectors > 8) {
    TEXT("  // Where the next row begins, and the phase of that place's barrier.\n"
         "  int slot = pieces % SLOTS, phase = pieces / SLOTS;\n");
  }
  TEXT("#pragma unroll 1\n"
       "  for (; row < (int)args->rows; row += step) {\n");
  if (vectors <= 8) {
    TEXT("    // The next row's place, and the phase of its barrier.\n"
         "    const int slot = (number + 1) % SLOTS, phase = (number + 1) / SLOTS % 2;\n");
  }
  if (early == 0) {
    TEXT("    // What the next row amounts to, while others arrive.\n"
         "    const Share share = share_of(own_part);\n"
         "    const float2 own = add_up(args, share, pieces, row + step, own_part.ring, own_part.barriers,\n"
         "                              slot, phase, cuts);\n"
         "\n");
  }
  TEXT("    // Hands over what all warps of the cluster have of this row.\n"
       "    await_parts(&parts[number % 2], number / 2 % 2);\n"
       "    if (threadIdx.x == 0)\n"
       "      expect_parts(&parts[number % 2], own_part.cluster * WARPS);\n"
       "    const Cut cut = cut_of(args, row, cuts);\n"
       "    const float2 sums = sum_parts(&parts[number % 2], own_part.cluster * WARPS);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("    float mean = sums.x * args->per_column, left = sums.y - sums.x * mean;\n"
         "    // Where values are far from 0 their squares hide what they differ by: again, about the mean.\n"
         "    if (!(sums.x * mean <= FAR * left)) {\n"
         "      const uint32_t bits = narrow_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(mean)");
    STRING((dtype == AP_LAYERNORM_DTYPE_FP32) ? "" : " & 0xffff");
    TEXT(";\n"
         "      const float about = widen_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(bits);\n"
         "      const int before = slot - pieces < 0 ? slot - pieces + SLOTS : slot - pieces;\n"
         "      const float2 own_differences =\n"
         "          add_up_about(args, share_of(own_part), pieces, row, own_part.ring, before, about, cuts);\n"
         "      const int again = own_part.again[threadIdx.x / 32]; // the phase of parts[2]\n"
         "      tell(&parts[2], share_of(own_part).warp, own_differences, own_part.cluster);\n"
         "      // All lanes have read it.\n"
         "      if (lane == 0)\n"
         "        own_part.again[threadIdx.x / 32] = again ^ 1;\n"
         "      await_parts(&parts[2], again);\n"
         "      if (threadIdx.x == 0)\n"
         "        expect_parts(&parts[2], own_part.cluster * WARPS);\n"
         "      const float2 differences = sum_parts(&parts[2], own_part.cluster * WARPS);\n"
         "      const float off = differences.x * args->per_column;\n"
         "      mean = about + off;\n"
         "      left = differences.y - differences.x * off;\n"
         "    }\n"
         "    const float squares = left < 0.0f ? 0.0f : left; // NaN stays\n");
  } else {
    TEXT("    constexpr float mean = 0.0f;\n"
         "    const float squares = sums.y;\n");
  }
  TEXT("    const float rstd = reciprocal_sqrt_approx(squares * args->per_column + args->eps);\n"
       "    ++number;\n");
  if (early == 0) {
    TEXT("    tell(&parts[number % 2], share.warp, own, own_part.cluster);\n");
  } else {
    TEXT("    const Share share = share_of(own_part);\n");
  }
  TEXT("    if (share.warp == 0 && lane == 0) {\n"
       "      if (CENTERED && args->mean)\n"
       "        args->mean[row] = mean;\n"
       "      if (args->rstd)\n"
       "        args->rstd[row] = rstd;\n"
       "    }\n"
       "\n"
       "    const int end = min(share.begin + share.vectors, cut.vectors);\n"
       "    const bool begins = share.begin == 0 && cut.odd != 0;\n"
       "    const bool ends = end == cut.vectors && cut.end != 0;\n"
       "    unsigned char *const to =\n"
       "        (unsigned char *)args->y + (row * args->y_row_stride - cut.odd) * SIZE;\n"
       "    const Row own_row = {cut.odd % 2 != 0 ? 16 : 32,\n"
       "                         end - share.begin - lane,\n"
       "                         begins && lane == 0,\n"
       "                         ends,\n"
       "                         mean,\n"
       "                         rstd,\n"
       "                         to + (int64_t)(share.begin + lane) * 16};\n");
  if (vectors <= 8) {
    TEXT("    Sender next = {row + SLOTS * step, 0, (int)((number - 1) % SLOTS)}; // to this row's place\n");
  }
  TEXT("    uint4 fetched[2][FETCHED];\n");
  for (int32_t half = 0; half < (early ? 2 : 1); ++half) {
    if (half > 0) {
      TEXT("    // What the next row amounts to.\n"
           "    const float2 own = add_up(args, share_of(own_part), pieces, row + step, own_part.ring,\n"
           "                              own_part.barriers, slot, phase, cuts);\n"
           "    tell(&parts[number % 2], share_of(own_part).warp, own, own_part.cluster);\n");
    }
    TEXT("    // Those that begin with a vector, or at one of its words.\n"
         "    switch (cuts ? ");
    STRING((dtype == AP_LAYERNORM_DTYPE_FP32) ? "cut.odd" : "(cut.odd + 7) / 8 + cut.odd / 2");
    TEXT(" : 0) {\n");
    for (int32_t word = 0; word < (twice ? 1 : ((dtype != AP_LAYERNORM_DTYPE_FP32) ? 5 : 4)); ++word) {
      TEXT("    case ");
      INTEGER(word);
      TEXT(":\n"
           "      write_vectors(args, ");
      STRING((half > 0) ? "EARLY" : "0");
      TEXT(", ");
      STRING((early && (half == 0)) ? "EARLY" : "VECTORS");
      TEXT(", ");
      INTEGER(((dtype != AP_LAYERNORM_DTYPE_FP32) || (word == 0)) ? (word - 1) : word);
      TEXT(", own_row, share, own_part.rounds, step, weight,\n"
           "                    words[0], ");
      STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "bias, words[1], " : "");
      TEXT("own_part.ring,\n"
           "                    own_part.places, own_part.barriers, cuts, &next, fetched, own_ends);\n"
           "      break;\n");
    }
    TEXT("    }\n");
  }
  if (vectors > 8) {
    TEXT("    slot += pieces;\n"
         "    phase ^= slot >= SLOTS;\n"
         "    slot -= slot >= SLOTS ? SLOTS : 0;\n");
  }
  TEXT("    if (begins || ends) {\n"
       "      // All lanes have met since what is at the row's ends was put there.\n"
       "      const int edge =\n"
       "          lane < ELEMENTS ? lane : (cut.vectors - 1) * ELEMENTS + lane - ELEMENTS;\n"
       "      if ((begins && lane < ELEMENTS && lane >= cut.odd) ||\n"
       "          (ends && lane >= ELEMENTS && lane - ELEMENTS < cut.end))\n"
       "        store_element(to, SIZE, edge, load_element(own_ends, SIZE, lane));\n"
       "      // All lanes arrive and wait: others may take their place.\n"
       "      __syncwarp();\n"
       "    }\n"
       "  }\n"
       "  // All warps of the cluster have told what they have of the row after the last: nobody reaches\n"
       "  // into this block's shared memory any more.\n"
       "  await_parts(&parts[number % 2], number / 2 % 2);\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, 1)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ RowParts parts[PARTS];\n"
       "  __shared__ __align__(8) unsigned char warp_barriers[WARPS * SLOTS * 8];\n"
       "  __shared__ Share shares[WARPS];\n"
       "  __shared__ int again[WARPS];\n"
       "  __shared__ uint4 warp_ends[WARPS][2], warp_before[WARPS][2], tails[2];\n"
       "  const int cluster = args.cluster, warps = cluster * WARPS, columns = args.columns;\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
       "  const int row_warp = (int)(blockIdx.x % cluster) * WARPS + warp;\n"
       "  unsigned char *const ring = smem + warp * RING_BYTES;\n"
       "  const uint32_t places = shared_address(ring);\n"
       "  const uint32_t barriers = shared_address(warp_barriers) + warp * SLOTS * 8;\n"
       "  if (threadIdx.x == 0) {\n"
       "    init_parts(parts, warps);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("    mbarrier_init(shared_address(&parts[2].barrier), 1);\n"
         "    fence_mbarrier_init();\n"
         "    expect_parts(&parts[2], warps);\n");
  }
  TEXT("  }\n"
       "  if (lane < SLOTS)\n"
       "    mbarrier_init(barriers + lane * 8, 1);\n"
       "  fence_mbarrier_init();\n"
       "  // All threads of the cluster arrive; who reaches into another block's shared memory has waited.\n"
       "  cluster_arrive();\n"
       "  const int step = gridDim.x / cluster;\n"
       "  int row = blockIdx.x / cluster;\n"
       "  // Of all rows, wherever they begin in their first vector.\n"
       "  const int odd_most = columns % ELEMENTS != 0 ? ELEMENTS - 1 : 0;\n"
       "  const int all = (columns + odd_most + ELEMENTS - 1) / ELEMENTS;\n"
       "  const int each = all / warps, more = all % warps; // vectors, and warps that have one more\n"
       "  const Share share = {row_warp, row_warp * each + min(row_warp, more), each + (row_warp < more)};\n"
       "  const int rounds = (share.vectors + 31) / 32; // of the warp's lanes in a row\n"
       "  if (lane == 0) {\n"
       "    shares[warp] = share;\n"
       "    again[warp] = 0;\n"
       "  }\n");
  if (vectors <= 8) {
    TEXT("  constexpr int pieces = 1;\n");
  } else {
    TEXT("  const int pieces = (rounds + BATCH - 1) / BATCH;\n");
  }
  TEXT("  const int whole = columns / ELEMENTS;\n"
       "  // Brings the first rows and the parameters to the L2 cache while what ran before still ends.\n"
       "  // Whatever that writes of them it writes there: nothing that is read later can be older.\n"
       "#pragma unroll 1\n"
       "  for (int i = 0; i < 2; ++i)\n"
       "    if (row + i * step + 1 < args.rows)\n"
       "      prefetch_row((const unsigned char *)args.x +\n"
       "                       (row + i * step) * args.x_row_stride * SIZE + share.begin * 16,\n"
       "                   1, share.vectors * 16, lane, 32);\n"
       "  constexpr int PARAMETER_BYTES = WORDS * 4; // for a vector\n"
       "  const int own_parameters = (min(share.vectors, whole - share.begin)) * PARAMETER_BYTES;\n"
       "  if (args.weight)\n"
       "    prefetch_row((const unsigned char *)args.weight + share.begin * PARAMETER_BYTES, 1,\n"
       "                 own_parameters, lane, 32);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  if (args.bias)\n"
         "    prefetch_row((const unsigned char *)args.bias + share.begin * PARAMETER_BYTES, 1,\n"
         "                 own_parameters, lane, 32);\n");
  }
  TEXT("  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  // All lanes arrive and wait: the warp's barriers are there.\n"
       "  __syncwarp();\n"
       "  Sender next = {row, 0, 0};\n"
       "#pragma unroll 1\n"
       "  for (int i = 0; i < pieces; ++i)\n"
       "    send_piece(&args, share, pieces, step, places, barriers, is_cut(&args), &next);\n");
  if (twice) {
    TEXT("  // The parameters come before the rows that follow the first.\n"
         "  constexpr int PARAMETERS = CENTERED ? 2 : 1;\n");
  } else {
    TEXT("  // The parameters come before the rows that follow the first: what of them is no whole vector, and\n"
         "  // the vector before a warp's, first.\n"
         "  constexpr int PARAMETERS = CENTERED ? 2 : 1;\n"
         "  if ((int)threadIdx.x < PARAMETERS * ELEMENTS) {\n"
         "    const unsigned char *const from =\n"
         "        (const unsigned char *)parameter_of(&args, threadIdx.x / ELEMENTS);\n"
         "    const int at = whole * ELEMENTS + threadIdx.x % ELEMENTS;\n"
         "    store_element(tails, SIZE, threadIdx.x,\n"
         "                  ");
    STRING((dtype == AP_LAYERNORM_DTYPE_FP32) ? "load_4_if" : "load_2_if");
    TEXT("(from && at < columns, from + (int64_t)at * SIZE,\n"
         "                            absent_word(threadIdx.x / ELEMENTS)));\n"
         "  }\n"
         "  if (lane < PARAMETERS) {\n"
         "    const uint32_t word = absent_word(lane);\n"
         "    const uint4 absent = {word, word, word, word};\n"
         "    const uint4 *const from = (const uint4 *)parameter_of(&args, lane);\n"
         "    warp_before[warp][lane] =\n"
         "        from && share.begin > 0 ? from[min(share.begin, whole) - 1] : absent;\n"
         "  }\n");
  }
  if (twice) {
    TEXT("  // All threads arrive and wait: the block's barriers are there.\n");
  } else {
    TEXT("  // All threads arrive and wait: these are there.\n");
  }
  TEXT("  __syncthreads();\n"
       "  uint4 *const parked = (uint4 *)(smem + WARPS * RING_BYTES) + threadIdx.x;\n"
       "  uint32_t words[PARAMETERS][KEPT][WORDS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < KEPT + PARKED; ++i) {\n"
       "    const int index = i * 32 + lane, at = share.begin + index;\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < PARAMETERS; ++j) {\n");
  if (twice) {
    TEXT("      const uint32_t word = absent_word(j);\n"
         "#pragma unroll\n"
         "      for (int k = 0; k < 2; ++k) {\n"
         "        uint4 vector = {word, word, word, word};\n"
         "        if (index < share.vectors && at < whole_vectors(&args, j))\n"
         "          vector = ((const uint4 *)parameter_of(&args, j))[at * 2 + k];\n"
         "        if (i < KEPT)\n"
         "          split(vector, words[j][i < KEPT ? i : 0] + k * 4);\n"
         "        else\n"
         "          parked[((j * PARKED + i - KEPT) * 2 + k) * THREADS] = vector;\n"
         "      }\n");
  } else {
    TEXT("      uint4 vector = tails[j];\n"
         "      if (index < share.vectors && at < whole_vectors(&args, j))\n"
         "        vector = ((const uint4 *)parameter_of(&args, j))[at];\n"
         "      if (i < KEPT)\n"
         "        split(vector, words[j][i < KEPT ? i : 0]);\n"
         "      else\n"
         "        parked[(j * PARKED + i - KEPT) * THREADS] = vector;\n");
  }
  TEXT("    }\n"
       "  }\n");
  if (twice) {
    TEXT("  const Parameter weight = {parked};\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  const Parameter bias = {parked + PARKED * 2 * THREADS};\n");
    }
  } else {
    TEXT("  const Parameter weight = {parked, (const uint4 *)args.weight + share.begin + lane, &tails[0],\n"
         "                            &warp_before[warp][0]};\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  const Parameter bias = {parked + PARKED * THREADS, (const uint4 *)args.bias + share.begin + lane,\n"
           "                          &tails[1], &warp_before[warp][1]};\n");
    }
  }
  TEXT("#pragma unroll 1\n"
       "  for (int i = pieces; i < SLOTS; ++i)\n"
       "    send_piece(&args, share, pieces, step, places, barriers, is_cut(&args), &next);\n"
       "\n"
       "  const float2 first = add_up(&args, share, pieces, row, ring, barriers, 0, 0, is_cut(&args));\n"
       "  // All threads of the cluster have arrived: every block has its barriers.\n"
       "  cluster_wait();\n"
       "  tell(&parts[0], row_warp, first, cluster);\n"
       "  const Part own_part = {shares, again, rounds, cluster, ring, places, barriers};\n");
  if (twice) {
    TEXT("  walk(&args, false, parts, own_part, pieces, row, step, words, weight, ");
    STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "bias, " : "");
    TEXT("warp_ends[warp]);\n");
  } else {
    TEXT("  // Each way has registers of its own.\n"
         "  if (is_cut(&args))\n"
         "    walk(&args, true, parts, own_part, pieces, row, step, words, weight, ");
    STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "bias, " : "");
    TEXT("warp_ends[warp]);\n"
         "  else\n"
         "    walk(&args, false, parts, own_part, pieces, row, step, words, weight, ");
    STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "bias, " : "");
    TEXT("warp_ends[warp]);\n");
  }
  TEXT("}\n");
}
