/* Written by `python -m generator` from templates/matmul/matmul_sm80.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_matmul_sm80(ap_text *out, const ap_render_input *in);

void ap_render_matmul_sm80(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t pass = in->axis[AP_MATMUL_PASS];
  const int32_t cols = in->axis[AP_MATMUL_COLS];
  const int32_t dtype = in->axis[AP_MATMUL_DTYPE];
  const int32_t weight = in->axis[AP_MATMUL_WEIGHT];
  const int32_t arch = in->axis[AP_MATMUL_ARCH];
  const int32_t block_m = in->field[AP_MATMUL_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_MATMUL_TILE_BLOCK_N];
  const int32_t row_warps = in->field[AP_MATMUL_TILE_ROW_WARPS];
  const int32_t stages = in->field[AP_MATMUL_TILE_STAGES];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// x = x ");
  STRING((pass == AP_MATMUL_PASS_NT) ? "W^T" : "W");
  TEXT(" in place, rows of at most ");
  INTEGER(cols);
  TEXT(" columns, ");
  STRING(in->word[AP_MATMUL_DTYPE]);
  TEXT(", sums in fp32.\n"
       "//\n"
       "// A thread block copies its BLOCK_M rows of x to shared memory, whole. From then on their place in\n"
       "// global memory is free: nobody else reads it. The block walks over the columns of the result,\n"
       "// BLOCK_N at a time, and for each over the depth in steps of BLOCK_K, with a ring of tiles of W.\n"
       "//\n"
       "// Pressed from templates/matmul/matmul_sm80.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family matmul --pass ");
  STRING(in->word[AP_MATMUL_PASS]);
  TEXT(" --cols ");
  INTEGER(cols);
  TEXT(" --dtype ");
  STRING(in->word[AP_MATMUL_DTYPE]);
  STRING((weight == AP_MATMUL_WEIGHT_FP32) ? " --weight fp32" : "");
  TEXT(" --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/matmul.h\"\n"
       "#include \"attnpress/device/matmul.cuh\"\n");
  if (weight == AP_MATMUL_WEIGHT_FP32) {
    TEXT("#include \"attnpress/device/ptx_global.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/product.cuh\"\n"
       "\n"
       "constexpr int COLUMNS_MAX = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr Dtype DTYPE = ");
  STRING((dtype == AP_MATMUL_DTYPE_FP16) ? "FP16" : "BF16");
  TEXT(";\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCK_M = ");
  INTEGER(block_m);
  TEXT(";  // rows of x of a thread block\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT(";  // columns of the result that it computes at once\n"
       "constexpr int BLOCK_K = 32;   // columns of x, of a step\n"
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT(";     // tiles of W in the ring\n"
       "constexpr int ROW_WARPS = ");
  INTEGER(row_warps);
  TEXT(";  // warps below each other\n"
       "constexpr int COLUMN_WARPS = THREADS / 32 / ROW_WARPS;\n"
       "constexpr int M_TILES = max_int(BLOCK_M, 16) / 16 / ROW_WARPS; // of a warp, 16 rows each\n"
       "constexpr int N_TILES = BLOCK_N / 8 / COLUMN_WARPS;            // of a warp, 8 columns each\n"
       "constexpr int X_ROW_BYTES = tile_row_bytes(COLUMNS_MAX);\n");
  if (pass == AP_MATMUL_PASS_NT) {
    TEXT("constexpr int W_ROWS = BLOCK_N, W_COLUMNS = BLOCK_K; // of a tile of W\n");
  } else {
    TEXT("constexpr int W_ROWS = BLOCK_K, W_COLUMNS = BLOCK_N; // of a tile of W\n");
  }
  TEXT("constexpr int W_ROW_BYTES = tile_row_bytes(W_COLUMNS);\n"
       "constexpr int W_BYTES = W_ROWS * W_ROW_BYTES;\n"
       "constexpr int W_OFFSET = BLOCK_M * X_ROW_BYTES;\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(W_OFFSET + STAGES * W_BYTES == SMEM_BYTES, \"as the generator has it\");\n"
       "\n"
       "// A tile of W: the columns of the result and the step of the depth that it is for.\n"
       "struct Place {\n"
       "  int column, depth;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Place next_place(Place place, int n) {\n"
       "  return place.depth + BLOCK_K < n ? Place{place.column, place.depth + BLOCK_K}\n"
       "                                   : Place{place.column + BLOCK_N, 0};\n"
       "}\n"
       "\n"
       "// The block's rows of x, and zeros for rows and columns that are not there, up to a multiple of\n"
       "// BLOCK_K columns.\n"
       "__device__ __forceinline__ void start_x(uint32_t shared, const uint16_t *x, int64_t x_stride,\n"
       "                                        int rows, int n) {\n"
       "  const int chunks = ceil_div(n, BLOCK_K) * (BLOCK_K / 8);\n"
       "  for (int i = threadIdx.x; i < BLOCK_M * chunks; i += THREADS) {\n"
       "    const int row = i / chunks, column = i % chunks * 8;\n"
       "    const bool valid = row < rows && column < n;\n"
       "    cp_async_16(shared + row * X_ROW_BYTES + column * 2, valid ? x + row * x_stride + column : x,\n"
       "                valid ? 16 : 0);\n"
       "  }\n"
       "}\n"
       "\n"
       "constexpr int W_CHUNKS = W_ROWS * W_COLUMNS / 8 / THREADS; // of a thread, 8 elements of a tile each\n"
       "static_assert(W_ROWS * W_COLUMNS % (8 * THREADS) == 0, \"all threads copy the same\");\n"
       "\n"
       "// Chunk number `chunk` of this thread's: its row and column in a tile of W.\n"
       "__device__ __forceinline__ int chunk_row(int chunk) {\n"
       "  return (chunk * THREADS + threadIdx.x) / (W_COLUMNS / 8);\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ int chunk_column(int chunk) {\n"
       "  return (chunk * THREADS + threadIdx.x) % (W_COLUMNS / 8) * 8;\n"
       "}\n"
       "\n"
       "// Where the chunk lies in W.\n"
       "struct Element {\n"
       "  int row, column;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Element chunk_place(int chunk, Place place) {\n");
  if (pass == AP_MATMUL_PASS_NT) {
    TEXT("  return {place.column + chunk_row(chunk), place.depth + chunk_column(chunk)};\n");
  } else {
    TEXT("  return {place.depth + chunk_row(chunk), place.column + chunk_column(chunk)};\n");
  }
  TEXT("}\n"
       "\n");
  if (weight == AP_MATMUL_WEIGHT_FP32) {
    TEXT("// This thread's part of a tile of W, which is rounded and stored once the products of a step before\n"
         "// it are on their way; zeros outside of W.\n"
         "__device__ __forceinline__ void load_w(uint4 part[W_CHUNKS][2], const float *w, int64_t w_stride,\n"
         "                                       int n, Place place) {\n"
         "#pragma unroll\n"
         "  for (int chunk = 0; chunk < W_CHUNKS; ++chunk) {\n"
         "    const Element at = chunk_place(chunk, place);\n"
         "    const bool valid = at.row < n && at.column < n;\n"
         "    const float *from = w + at.row * w_stride + at.column;\n"
         "    part[chunk][0] = load_16_if(valid, from, 0);\n"
         "    part[chunk][1] = load_16_if(valid, from + 4, 0);\n"
         "  }\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ uint32_t pack_words(uint32_t low, uint32_t high) {\n"
         "  return pack(DTYPE, __builtin_bit_cast(float, low), __builtin_bit_cast(float, high));\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ void store_w(unsigned char *stage, const uint4 part[W_CHUNKS][2]) {\n"
         "#pragma unroll\n"
         "  for (int chunk = 0; chunk < W_CHUNKS; ++chunk) {\n"
         "    const uint4 first = part[chunk][0], second = part[chunk][1];\n"
         "    *(uint4 *)(stage + chunk_row(chunk) * W_ROW_BYTES + chunk_column(chunk) * 2) =\n"
         "        uint4{pack_words(first.x, first.y), pack_words(first.z, first.w),\n"
         "              pack_words(second.x, second.y), pack_words(second.z, second.w)};\n"
         "  }\n"
         "}\n");
  } else {
    TEXT("// This thread's part of a tile of W; zeros outside of it.\n"
         "__device__ __forceinline__ void start_w(uint32_t stage, const uint16_t *w, int64_t w_stride, int n,\n"
         "                                        Place place) {\n"
         "#pragma unroll\n"
         "  for (int chunk = 0; chunk < W_CHUNKS; ++chunk) {\n"
         "    const Element at = chunk_place(chunk, place);\n"
         "    const bool valid = at.row < n && at.column < n;\n"
         "    cp_async_16(stage + chunk_row(chunk) * W_ROW_BYTES + chunk_column(chunk) * 2,\n"
         "                valid ? w + at.row * w_stride + at.column : w, valid ? 16 : 0);\n"
         "  }\n"
         "}\n");
  }
  TEXT("// sum += x W of one step. `x`: this warp's first row and the step's first column; `w`: this warp's\n"
       "// first column.\n"
       "__device__ __forceinline__ void multiply_step(float sum[M_TILES][N_TILES][4], uint32_t x,\n"
       "                                              uint32_t w) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  // With 8 rows the lower half of the fragments is the upper one again, and is not stored.\n"
       "  const int row = BLOCK_M == 8 ? lane % 8 : lane % 16;\n"
       "  const uint32_t x_lane = x + row * X_ROW_BYTES + lane / 16 * 16;\n");
  if (pass == AP_MATMUL_PASS_NT) {
    TEXT("  const uint32_t w_lane = w + ldmatrix_columns_first(lane, W_ROW_BYTES);\n");
  } else {
    TEXT("  const uint32_t w_lane = w + ldmatrix_rows_first(lane, W_ROW_BYTES);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int step = 0; step < BLOCK_K / 16; ++step) {\n"
       "    uint32_t x_frag[M_TILES][4];\n"
       "#pragma unroll\n"
       "    for (int m = 0; m < M_TILES; ++m)\n"
       "      ldmatrix_x4(x_frag[m], x_lane + m * 16 * X_ROW_BYTES + step * 32);\n"
       "#pragma unroll\n"
       "    for (int tile = 0; tile < N_TILES; tile += 2) {\n"
       "      uint32_t w_frag[4];\n");
  if (pass == AP_MATMUL_PASS_NT) {
    TEXT("      ldmatrix_x4(w_frag, w_lane + tile * 8 * W_ROW_BYTES + step * 32);\n");
  } else {
    TEXT("      ldmatrix_x4_trans(w_frag, w_lane + step * 16 * W_ROW_BYTES + tile * 16);\n");
  }
  TEXT("#pragma unroll\n"
       "      for (int m = 0; m < M_TILES; ++m) {\n"
       "        mma_k16(DTYPE, sum[m][tile], x_frag[m], w_frag);\n"
       "        mma_k16(DTYPE, sum[m][tile + 1], x_frag[m], w_frag + 2);\n"
       "      }\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_matmul_args_sm80 args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  const uint32_t shared = shared_address(smem);\n"
       "  const int n = args.n;\n"
       "  const int64_t first_row = (int64_t)blockIdx.x * BLOCK_M;\n"
       "  const int rows = (int)min((long long)BLOCK_M, (long long)(args.rows - first_row));\n"
       "  uint16_t *x = (uint16_t *)args.x + first_row * args.x_stride;\n"
       "  const int warp_row = threadIdx.x / 32 / COLUMN_WARPS * M_TILES * 16;\n"
       "  const int warp_column = threadIdx.x / 32 % COLUMN_WARPS * N_TILES * 8;\n"
       "  const uint32_t warp_x = shared + warp_row * X_ROW_BYTES;\n");
  if (pass == AP_MATMUL_PASS_NT) {
    TEXT("  const uint32_t warp_w = shared + W_OFFSET + warp_column * W_ROW_BYTES;\n");
  } else {
    TEXT("  const uint32_t warp_w = shared + W_OFFSET + warp_column * 2;\n");
  }
  if (weight == AP_MATMUL_WEIGHT_FP32) {
    TEXT("  const float *w = (const float *)args.w;\n"
         "  uint4 part[W_CHUNKS][2];\n");
  } else {
    TEXT("  const uint16_t *w = (const uint16_t *)args.w;\n");
  }
  TEXT("  start_x(shared, x, args.x_stride, rows, n);\n");
  if (weight == AP_MATMUL_WEIGHT_FP32) {
    TEXT("  cp_async_commit();\n");
  }
  TEXT("  Place ahead = {0, 0};\n"
       "#pragma unroll\n"
       "  for (int stage = 0; stage < STAGES - 1; ++stage) {\n");
  if (weight == AP_MATMUL_WEIGHT_FP32) {
    TEXT("    load_w(part, w, args.w_stride, n, ahead);\n"
         "    store_w(smem + W_OFFSET + stage * W_BYTES, part);\n");
  } else {
    TEXT("    if (ahead.column < n)\n"
         "      start_w(shared + W_OFFSET + stage * W_BYTES, w, args.w_stride, n, ahead);\n"
         "    cp_async_commit();\n");
  }
  TEXT("    ahead = next_place(ahead, n);\n"
       "  }\n"
       "\n"
       "  float sum[M_TILES][N_TILES][4] = {};\n"
       "  int stage = 0, free_stage = STAGES - 1;\n"
       "  for (Place place = {0, 0}; place.column < n; place = next_place(place, n)) {\n"
       "    // All threads arrive and wait: hands over this step's tile of W and, in the first step, x; gives\n"
       "    // back the stage that the step before has read.\n");
  if (weight == AP_MATMUL_WEIGHT_FP32) {
    TEXT("    cp_async_wait(0);\n"
         "    __syncthreads();\n"
         "    load_w(part, w, args.w_stride, n, ahead);\n");
  } else {
    TEXT("    cp_async_wait(STAGES - 2);\n"
         "    __syncthreads();\n"
         "    if (ahead.column < n)\n"
         "      start_w(shared + W_OFFSET + free_stage * W_BYTES, w, args.w_stride, n, ahead);\n"
         "    cp_async_commit();\n");
  }
  TEXT("    multiply_step(sum, warp_x + place.depth * 2, warp_w + stage * W_BYTES);\n");
  if (weight == AP_MATMUL_WEIGHT_FP32) {
    TEXT("    store_w(smem + W_OFFSET + free_stage * W_BYTES, part);\n");
  }
  TEXT("    ahead = next_place(ahead, n);\n"
       "    free_stage = stage;\n"
       "    stage = stage + 1 == STAGES ? 0 : stage + 1;\n"
       "\n"
       "    if (place.depth + BLOCK_K < n)\n"
       "      continue;\n"
       "    // These columns of the result, over x, whose rows are all in shared memory.\n"
       "#pragma unroll\n"
       "    for (int m = 0; m < M_TILES; ++m) {\n"
       "      const int row = warp_row + m * 16;\n"
       "#pragma unroll\n"
       "      for (int tile = 0; tile < N_TILES; tile += 2) {\n"
       "        const int column = place.column + warp_column + tile * 8;\n"
       "        store_tiles(x + row * args.x_stride + column, args.x_stride, sum[m][tile],\n"
       "                    sum[m][tile + 1], DTYPE, rows - row, n - column);\n"
       "      }\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < N_TILES * 4; ++i)\n"
       "        sum[m][i / 4][i % 4] = 0.0f;\n"
       "    }\n"
       "  }\n"
       "}\n");
}
