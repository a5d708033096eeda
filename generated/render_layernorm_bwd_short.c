/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_short.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_short(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_short(ap_text *out, const ap_render_input *in) {
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
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
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
  TEXT(", fp32 inside. Rows of all matrices lie one after the other from a\n"
       "// multiple of 16 bytes on: those of a piece are whole vectors, which a warp copies to a ring of its\n"
       "// own. There a lane has a row, or a few lanes have one, and dx takes the place of x, so that it\n"
       "// goes back in whole vectors, too. Columns are a lane's in all rows; another kernel adds up the sums\n"
       "// of the blocks. dx may be x, dy or dsum.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_short.cu.j2 with tile ");
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
  TEXT(" --rows short\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async_4.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_opaque.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_bwd_args Args;\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
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
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int RING_BYTES = SMEM_BYTES / WARPS; // of a warp\n"
       "constexpr int SLOTS_MAX = 4;                   // pieces in a ring\n"
       "constexpr int ROWS_MAX = 16;                   // of a piece, times 32\n"
       "constexpr int STEP = 4;     // elements of a lane that are taken at once\n"
       "constexpr int BANKED = 4;   // lanes at most that find their words in the same bank\n"
       "static_assert(ROW_THREADS == 1, \"a lane has a row, at the least\");\n"
       "static_assert(2 * 32 * (3 * COLUMNS * SIZE + 8) <= RING_BYTES, \"a ring has two pieces\");\n"
       "static_assert(32 * 2 * COLUMNS * 4 <= RING_BYTES, \"sums have room where rows were\");\n"
       "\n"
       "// x^ is taken by these: of fp32 from the difference to the mean, which is exact where x is near it.\n"
       "__device__ __forceinline__ float base_of_row(float mean, float rstd) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  return mean;\n");
  } else {
    TEXT("  return -mean * rstd;\n");
  }
  TEXT("}\n"
       "\n"
       "__device__ __forceinline__ float normalized(float x, float rstd, float base) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  return (x - base) * rstd;\n");
  } else {
    TEXT("  return x * rstd + base;\n");
  }
  TEXT("}\n"
       "\n"
       "// How rows are dealt: `lanes` of them (a power of two) have a row, `each` elements a lane. Pieces\n"
       "// have `rows` rows, and a ring `slots` pieces of `bytes` bytes, of which each of the matrices has\n"
       "// `matrix`.\n"
       "struct Deal {\n"
       "  int lanes, each, rows, slots, bytes, matrices, matrix;\n"
       "};\n"
       "\n"
       "// pairs: words are two elements\n"
       "__device__ __forceinline__ Deal deal_rows(const Args *args, bool pairs) {\n"
       "  Deal deal;\n"
       "  const int words = args->columns / (pairs ? 2 : 1), power = words & -words;\n"
       "  deal.lanes = max(power / BANKED, 1);\n"
       "  deal.each = args->columns / deal.lanes;\n"
       "  deal.matrices = args->dsum ? 3 : 2;\n"
       "  const int bytes = deal.matrices * args->columns * SIZE + 8; // of a row, with its moments\n"
       "  deal.rows = 32 * min(RING_BYTES / (2 * 32 * bytes), ROWS_MAX);\n"
       "  deal.matrix = deal.rows * args->columns * SIZE;\n"
       "  deal.bytes = deal.rows * bytes;\n"
       "  deal.slots = min(RING_BYTES / deal.bytes, SLOTS_MAX);\n"
       "  return deal;\n"
       "}\n"
       "\n"
       "// Rows of a piece that exist.\n"
       "__device__ __forceinline__ int rows_of(const Args *args, Deal deal, int64_t piece) {\n"
       "  const int64_t left = args->rows - piece * deal.rows;\n"
       "  return (int)min(max(left, (int64_t)0), (int64_t)deal.rows);\n"
       "}\n"
       "\n"
       "// A piece of a matrix on its way, `count` elements. What is no whole vector is the matrix's end.\n"
       "__device__ __forceinline__ void send_matrix(const void *matrix, int64_t begin, int count,\n"
       "                                            unsigned char *place) {\n"
       "  const int lane = threadIdx.x % 32, vectors = count * SIZE / 16;\n"
       "  const unsigned char *const from = (const unsigned char *)matrix + begin * SIZE;\n"
       "#pragma unroll 1\n"
       "  for (int i = lane; i < vectors; i += 32)\n"
       "    cp_async_16(shared_address(place + i * 16), from + i * 16, 16);\n"
       "  const int element = vectors * (16 / SIZE) + lane;\n"
       "  if (element < count)\n"
       "    store_element(place, SIZE, element, load_element(from, SIZE, element));\n"
       "}\n"
       "\n"
       "// Puts zeros to a piece's place.\n"
       "__device__ __forceinline__ void clear_piece(Deal deal, unsigned char *place) {\n"
       "#pragma unroll 1\n"
       "  for (int i = threadIdx.x % 32; i < deal.bytes / 4; i += 32)\n"
       "    ((uint32_t *)place)[i] = 0;\n"
       "}\n"
       "\n"
       "// A piece, with what the forward pass wrote of its rows. The last one is filled with zeros.\n"
       "__device__ __forceinline__ void send_piece(const Args *args, Deal deal, int64_t piece,\n"
       "                                           unsigned char *place) {\n"
       "  const int lane = threadIdx.x % 32, rows = rows_of(args, deal, piece);\n"
       "  const int64_t first = piece * deal.rows, begin = first * args->columns;\n"
       "  const int count = rows * args->columns;\n"
       "  if (rows > 0 && rows < deal.rows) {\n"
       "    clear_piece(deal, place);\n"
       "    // All lanes arrive and wait: what there is comes behind the zeros.\n"
       "    __syncwarp();\n"
       "  }\n"
       "  if (rows > 0) {\n"
       "    send_matrix(args->x, begin, count, place);\n"
       "    send_matrix(args->dy, begin, count, place + deal.matrix);\n"
       "    if (args->dsum)\n"
       "      send_matrix(args->dsum, begin, count, place + 2 * deal.matrix);\n"
       "    unsigned char *const rstd = place + deal.bytes - 4 * deal.rows;\n"
       "#pragma unroll 1\n"
       "    for (int i = lane; i < rows; i += 32) {\n"
       "      cp_async_4(shared_address(rstd + i * 4), args->rstd + first + i, 4);\n"
       "      if (CENTERED)\n"
       "        cp_async_4(shared_address(rstd - 4 * deal.rows + i * 4), args->mean + first + i, 4);\n"
       "    }\n"
       "  }\n"
       "  cp_async_commit();\n"
       "}\n"
       "\n"
       "// Stores a piece of dx. place: (count)\n"
       "__device__ __forceinline__ void store_piece(const Args *args, Deal deal, int64_t piece,\n"
       "                                            const unsigned char *place) {\n"
       "  const int lane = threadIdx.x % 32, count = rows_of(args, deal, piece) * args->columns;\n"
       "  unsigned char *const to =\n"
       "      (unsigned char *)args->dx + piece * deal.rows * args->columns * SIZE;\n"
       "  const int vectors = count * SIZE / 16;\n"
       "  for (int i = lane; i < vectors; i += 32)\n"
       "    *(uint4 *)(to + i * 16) = *(const uint4 *)(place + i * 16);\n"
       "  const int element = vectors * (16 / SIZE) + lane;\n"
       "  if (element < count)\n"
       "    store_element(to, SIZE, element, load_element(place, SIZE, element));\n"
       "}\n"
       "\n");
  TEXT("// Four of a lane's elements from number `first` on, of which it has `each`; others are 0. own: its\n"
       "// elements\n"
       "__device__ __forceinline__ void take_values(const unsigned char *own, int first, int each,\n"
       "                                            bool pairs, float *value) {\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < STEP; ++j)\n"
       "    value[j] = 0.0f;\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("#pragma unroll\n"
         "  for (int j = 0; j < STEP; ++j)\n"
         "    if (j == 0 || first + j < each)\n"
         "      value[j] = ((const float *)own)[first + j];\n");
  } else {
    TEXT("#pragma unroll\n"
         "  for (int j = 0; j < STEP; j += 2) {\n"
         "    if (pairs && (j == 0 || first + j < each)) {\n"
         "      const uint32_t both = ((const uint32_t *)own)[(first + j) / 2];\n"
         "      value[j] = widen_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(both & 0xffff);\n"
         "      value[j + 1] = widen_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(both >> 16);\n"
         "    }\n"
         "#pragma unroll\n"
         "    for (int k = j; k < j + 2; ++k)\n"
         "      if (!pairs && (k == 0 || first + k < each))\n"
         "        value[k] = widen_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(((const uint16_t *)own)[first + k]);\n"
         "  }\n");
  }
  TEXT("}\n"
       "\n"
       "// Puts them there.\n"
       "__device__ __forceinline__ void put_values(unsigned char *own, int first, int each, bool pairs,\n"
       "                                           const float *value) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("#pragma unroll\n"
         "  for (int j = 0; j < STEP; ++j)\n"
         "    if (j == 0 || first + j < each)\n"
         "      ((float *)own)[first + j] = value[j];\n");
  } else {
    TEXT("#pragma unroll\n"
         "  for (int j = 0; j < STEP; j += 2) {\n"
         "    const uint32_t both = pack_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[j], value[j + 1]);\n"
         "    if (pairs && (j == 0 || first + j < each))\n"
         "      ((uint32_t *)own)[(first + j) / 2] = both;\n"
         "    if (!pairs && (j == 0 || first + j < each))\n"
         "      ((uint16_t *)own)[first + j] = (uint16_t)both;\n"
         "    if (!pairs && first + j + 1 < each)\n"
         "      ((uint16_t *)own)[first + j + 1] = (uint16_t)(both >> 16);\n"
         "  }\n");
  }
  TEXT("}\n"
       "\n"
       "// Walks over the warp's pieces, and writes the block's sums. pairs: a constant.\n"
       "__device__ __forceinline__ void walk(const Args *args, bool pairs, unsigned char *smem) {\n"
       "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
       "  const Deal deal = deal_rows(args, pairs);\n"
       "  const int part = lane % deal.lanes * deal.each; // the lane's first column\n"
       "  float weight[COLUMNS], weight_sum[COLUMNS], bias_sum[COLUMNS];\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < COLUMNS; ++j) {\n"
       "    weight[j] = 1.0f;\n"
       "    if (args->weight && j < deal.each)\n"
       "      weight[j] = widen_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(load_element(args->weight, PARAMETER_SIZE, part + j));\n"
       "    weight_sum[j] = bias_sum[j] = 0.0f;\n"
       "  }\n"
       "  unsigned char *const ring = smem + warp * RING_BYTES;\n"
       "  const int64_t pieces = (args->rows + deal.rows - 1) / deal.rows;\n"
       "  const int64_t stride = (int64_t)gridDim.x * WARPS;\n"
       "  int64_t piece = (int64_t)blockIdx.x * WARPS + warp;\n"
       "#pragma unroll 1\n"
       "  for (int i = 0; i < deal.slots; ++i)\n"
       "    send_piece(args, deal, piece + i * stride, ring + i * deal.bytes);\n"
       "  int slot = 0;\n"
       "  for (; piece < pieces; piece += stride) {\n"
       "    unsigned char *const place = ring + slot * deal.bytes;\n"
       "    const float *const rstds = (const float *)(place + deal.bytes) - deal.rows;\n"
       "    const int rows = rows_of(args, deal, piece), rows_at_once = 32 / deal.lanes;\n"
       "    cp_async_wait(deal.slots - 1);\n"
       "    // All lanes arrive and wait: the piece is there.\n"
       "    __syncwarp();\n"
       "#pragma unroll 1\n"
       "    for (int first = 0; first < rows; first += rows_at_once) {\n"
       "      // What is asked often is asked each time: kept answers would take registers.\n"
       "      const int each = (int)opaque(deal.each), matrices = (int)opaque(deal.matrices);\n"
       "      const int row = first + lane / deal.lanes;\n"
       "      const float rstd = rstds[row];\n"
       "      const float base = CENTERED ? base_of_row(rstds[row - deal.rows], rstd) : 0.0f;\n"
       "      unsigned char *const own = place + (row * args->columns + part) * SIZE;\n"
       "      float sum = 0.0f, dot = 0.0f;\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < COLUMNS; j += STEP) {\n"
       "        if (j < each) {\n"
       "          float x[STEP], dy[STEP];\n"
       "          take_values(own, j, each, pairs, x);\n"
       "          take_values(own + deal.matrix, j, each, pairs, dy);\n"
       "#pragma unroll\n"
       "          for (int k = 0; k < STEP; ++k) {\n"
       "            const float hat = normalized(x[k], rstd, base), g = dy[k] * weight[j + k];\n"
       "            weight_sum[j + k] += dy[k] * hat;\n"
       "            bias_sum[j + k] += dy[k];\n"
       "            sum += g;\n"
       "            dot += g * hat;\n"
       "          }\n"
       "        }\n"
       "      }\n"
       "#pragma unroll 1\n"
       "      for (int distance = 1; distance < deal.lanes; distance *= 2) {\n"
       "        sum += __shfl_xor_sync(0xffffffff, sum, distance);\n"
       "        dot += __shfl_xor_sync(0xffffffff, dot, distance);\n"
       "      }\n"
       "      // dx = rstd g - (rstd mean(g) + x^ rstd mean(g x^)).\n"
       "      sum = CENTERED ? sum * args->per_column * rstd : 0.0f;\n"
       "      dot *= args->per_column * rstd;\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < COLUMNS; j += STEP) {\n"
       "        if (j < each) {\n"
       "          float x[STEP], dy[STEP];\n"
       "          take_values(own, j, each, pairs, x);\n"
       "          take_values(own + deal.matrix, j, each, pairs, dy);\n"
       "#pragma unroll\n"
       "          for (int k = 0; k < STEP; ++k)\n"
       "            x[k] = dy[k] * weight[j + k] * rstd - (sum + normalized(x[k], rstd, base) * dot);\n"
       "          if (matrices > 2) {\n"
       "            take_values(own + 2 * deal.matrix, j, each, pairs, dy);\n"
       "#pragma unroll\n"
       "            for (int k = 0; k < STEP; ++k)\n"
       "              x[k] += dy[k];\n"
       "          }\n"
       "          put_values(own, j, each, pairs, x);\n"
       "        }\n"
       "      }\n"
       "    }\n"
       "    // All lanes arrive and wait: hands over dx.\n"
       "    __syncwarp();\n"
       "    store_piece(args, deal, piece, place);\n"
       "    // All lanes arrive and wait: another piece may take this one's place.\n"
       "    __syncwarp();\n"
       "    send_piece(args, deal, piece + deal.slots * stride, place);\n"
       "    slot = slot + 1 == deal.slots ? 0 : slot + 1;\n"
       "  }\n"
       "  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  if (!args->weight_parts && !args->bias_parts)\n"
       "    return;\n"
       "\n"
       "  // No copy is on its way, and no lane needs a piece.\n"
       "  float *const own = (float *)ring + lane; // of each lane, dweight's and dbias's\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < COLUMNS; ++j) {\n"
       "    own[j * 32] = weight_sum[j];\n"
       "    own[(COLUMNS + j) * 32] = bias_sum[j];\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the sums of all lanes.\n"
       "  __syncthreads();\n"
       "#pragma unroll 1\n"
       "  for (int i = threadIdx.x; i < 2 * COLUMNS; i += THREADS) {\n"
       "    float *const parts = i < COLUMNS ? args->weight_parts : args->bias_parts;\n"
       "    const int column = i % COLUMNS;\n");
  TEXT("    if (!parts || column >= args->columns)\n"
       "      continue;\n"
       "    const int place = (i - column + column % deal.each) * 32;\n"
       "    float sum = 0.0f;\n"
       "#pragma unroll 1\n"
       "    for (int from = column / deal.each; from < THREADS; from += deal.lanes)\n"
       "      sum += ((const float *)(smem + from / 32 * RING_BYTES))[place + from % 32];\n"
       "    parts[(int64_t)blockIdx.x * args->columns + column] = sum;\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  walk(&args, false, smem);\n");
  } else {
    TEXT("  if (args.columns % 2 == 0)\n"
         "    walk(&args, true, smem);\n"
         "  else\n"
         "    walk(&args, false, smem);\n");
  }
  TEXT("}\n");
}
