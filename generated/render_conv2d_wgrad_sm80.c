/* Written by `python -m generator` from templates/conv2d/conv2d_wgrad_sm80.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_conv2d_wgrad_sm80(ap_text *out, const ap_render_input *in);

void ap_render_conv2d_wgrad_sm80(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t dtype = in->axis[AP_CONV2D_DTYPE];
  const int32_t warps_m = in->field[AP_CONV2D_TILE_WARPS_M];
  const int32_t warps_n = in->field[AP_CONV2D_TILE_WARPS_N];
  const int32_t stages = in->field[AP_CONV2D_TILE_STAGES];
  const int32_t min_blocks = in->field[AP_CONV2D_TILE_MIN_BLOCKS];
  const int32_t block_m = in->field[AP_CONV2D_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_CONV2D_TILE_BLOCK_N];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// The gradient of the weights: dweight[k, r, s, c] = sum over n, p, q of dout[n, p, q, k] x[n, h,\n"
       "// w, c], where h is p * stride - padding + r * dilation, and w likewise. As a product of matrices\n"
       "// that are never laid out: rows are filters, columns (r, s, c), the depth are pixels. A line of a\n"
       "// slab is a pixel; fragments are read transposed. A column has one tap for good, so that a thread's\n"
       "// vector of (r, s, c) only follows the pixels.\n"
       "// ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT(", sums in fp32. A split of the pixels is a thread block's; where there are several,\n"
       "// their sums go to parts, and another kernel adds them up, always in the same order.\n"
       "//\n"
       "// Pressed from templates/conv2d/conv2d_wgrad_sm80.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family conv2d --pass wgrad --block ");
  STRING(in->word[AP_CONV2D_BLOCK]);
  TEXT(" --dtype ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/conv2d.h\"\n"
       "#include \"attnpress/device/conv2d.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "\n"
       "constexpr Dtype DTYPE = ");
  STRING((dtype == AP_CONV2D_DTYPE_FP16) ? "FP16" : "BF16");
  TEXT(";\n"
       "constexpr int BLOCK_M = ");
  INTEGER(block_m);
  TEXT(";\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT(";\n"
       "constexpr int WARPS_M = ");
  INTEGER(warps_m);
  TEXT(";\n"
       "constexpr int WARPS_N = ");
  INTEGER(warps_n);
  TEXT(";\n"
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT(";\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int M_TILES = BLOCK_M / WARPS_M / 16; // of a warp\n"
       "constexpr int N_TILES = BLOCK_N / WARPS_N / 8;\n"
       "constexpr int A_BYTES = BLOCK_M * LINE_BYTES; // of a stage\n"
       "constexpr int STAGE_BYTES = A_BYTES + BLOCK_N * LINE_BYTES;\n"
       "constexpr int A_LINES = THREADS / (BLOCK_M / VECTOR); // pixels that the threads copy in a pass\n"
       "constexpr int B_LINES = THREADS / (BLOCK_N / VECTOR);\n"
       "static_assert(STAGES * STAGE_BYTES + BLOCK_M * 16 == ");
  INTEGER(smem_bytes);
  TEXT(", \"shared memory\");\n"
       "static_assert(BLOCK_M * result_row_bytes(BLOCK_N) <= STAGES * STAGE_BYTES, \"results\");\n"
       "\n"
       "// A thread's part of the copies of a matrix: a vector of SLAB / lines pixels, `lines` apart.\n"
       "struct Copies {\n"
       "  Place pixel, by;\n"
       "  int left;        // pixels of the split from this thread's first on\n"
       "  int at;          // its vector in the first pixel, in vectors\n"
       "  int y, x;        // B: what its tap adds to a pixel's line and column\n"
       "  bool is_there;   // its vector\n"
       "  uint32_t target; // in the ring's first stage\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Copies start_copies(const attnpress_conv2d_wgrad_args *args,\n"
       "                                               int first_pixel, int pixels, int lines, int vectors,\n"
       "                                               uint32_t ring) {\n"
       "  Copies copies;\n"
       "  const int line = threadIdx.x / vectors, vector = threadIdx.x % vectors;\n"
       "  copies.pixel = place_of(first_pixel + line, args->out_height, args->out_width);\n"
       "  copies.by = place_of(lines, args->out_height, args->out_width);\n"
       "  copies.left = pixels - line;\n"
       "  copies.target =\n"
       "      ring + vector / 8 * PANEL_BYTES + line * LINE_BYTES + (vector % 8 ^ line % 8) * VECTOR_BYTES;\n"
       "  return copies;\n"
       "}\n"
       "\n"
       "// The copy of a vector of dout.\n"
       "__device__ __forceinline__ void copy_dout(const Copies *a, Place pixel, int left,\n"
       "                                          const attnpress_conv2d_wgrad_args *args, int stage,\n"
       "                                          int pass) {\n"
       "  const int at = a->at + pixel.outer * args->dout_stride[0] + pixel.middle * args->dout_stride[1] +\n"
       "                 pixel.inner * args->dout_stride[2];\n"
       "  cp_async_16(a->target + stage * STAGE_BYTES + pass * A_LINES * LINE_BYTES,\n"
       "              (const uint4 *)args->dout + at, a->is_there && left > 0 ? VECTOR_BYTES : 0);\n"
       "}\n"
       "\n"
       "// Starts the copies of the next slab into a stage of the ring; closes their group.\n"
       "__device__ __forceinline__ void copy_slab(Copies *a, Copies *b,\n"
       "                                          const attnpress_conv2d_wgrad_args *args, int stage) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < SLAB / B_LINES; ++i) {\n"
       "    const int y = b->pixel.middle * args->stride[0] + b->y;\n"
       "    const int x = b->pixel.inner * args->stride[1] + b->x;\n"
       "    const bool inside = (uint32_t)y < (uint32_t)args->height && (uint32_t)x < (uint32_t)args->width;\n"
       "    const int at =\n"
       "        b->at + b->pixel.outer * args->x_stride[0] + y * args->x_stride[1] + x * args->x_stride[2];\n"
       "    cp_async_16(b->target + stage * STAGE_BYTES + i * B_LINES * LINE_BYTES,\n"
       "                (const uint4 *)args->x + at,\n"
       "                b->is_there && inside && b->left > 0 ? VECTOR_BYTES : 0);\n");
  if (block_m == block_n) {
    TEXT("    // A thread's pixels of A are those of B.\n"
         "    copy_dout(a, b->pixel, b->left, args, stage, i);\n");
  }
  TEXT("    advance(&b->pixel, b->by, args->out_height, args->out_width);\n"
       "    b->left -= B_LINES;\n"
       "  }\n");
  if (block_m != block_n) {
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < SLAB / A_LINES; ++i) {\n"
         "    copy_dout(a, a->pixel, a->left, args, stage, i);\n"
         "    advance(&a->pixel, a->by, args->out_height, args->out_width);\n"
         "    a->left -= A_LINES;\n"
         "  }\n");
  }
  TEXT("  cp_async_commit();\n"
       "}\n"
       "\n"
       "// Stores a warp's sums in fp32. parts: (rows, columns), of the split\n"
       "__device__ __forceinline__ void store_parts(float *parts, const float *sum, int row, int column,\n"
       "                                            int rows, int columns) {\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m) {\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n"
       "      const int at = row + m * 16 + half * 8;\n"
       "#pragma unroll\n"
       "      for (int n = 0; n < N_TILES; ++n) {\n"
       "        const float *tile = sum + (m * N_TILES + n) * 4 + half * 2;\n"
       "        const float2 pair = {tile[0], tile[1]};\n"
       "        if (at < rows && column + n * 8 < columns)\n"
       "          *(float2 *)(parts + (int64_t)at * columns + column + n * 8) = pair;\n"
       "      }\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, ");
  INTEGER(min_blocks);
  TEXT(")\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_conv2d_wgrad_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  int *offset = (int *)(smem + STAGES * STAGE_BYTES); // of rows of dweight, in vectors\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
       "  const int row_vectors = args.filter_height * args.filter_width * args.vectors;\n"
       "  const int column_begin = blockIdx.x % args.column_blocks * BLOCK_N;\n"
       "  const int row_begin = blockIdx.x / args.column_blocks % args.row_blocks * BLOCK_M;\n"
       "  const int split = blockIdx.x / args.column_blocks / args.row_blocks;\n"
       "  const int first_pixel = split * args.split_pixels;\n"
       "  const int pixels =\n"
       "      min(args.split_pixels, args.batch * args.out_height * args.out_width - first_pixel);\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "\n"
       "  for (int row = threadIdx.x; row < BLOCK_M; row += THREADS)\n"
       "    offset[row] = row_begin + row < args.filters ? (row_begin + row) * row_vectors : -1;\n"
       "  const uint32_t ring = shared_address(smem);\n"
       "  Copies a = start_copies(&args, first_pixel, pixels, A_LINES, BLOCK_M / VECTOR, ring);\n"
       "  a.at = row_begin / VECTOR + threadIdx.x % (BLOCK_M / VECTOR);\n"
       "  a.is_there = a.at * VECTOR < args.filters;\n"
       "  Copies b = start_copies(&args, first_pixel, pixels, B_LINES, BLOCK_N / VECTOR, ring + A_BYTES);\n"
       "  const int vector = column_begin / VECTOR + threadIdx.x % (BLOCK_N / VECTOR);\n"
       "  const Place tap = place_of(vector, args.filter_width, args.vectors);\n"
       "  b.at = tap.inner;\n"
       "  b.y = tap.outer * args.dilation[0] - args.padding[0];\n"
       "  b.x = tap.middle * args.dilation[1] - args.padding[1];\n"
       "  b.is_there = vector < row_vectors;\n"
       "  const int slabs = ceil_div(pixels, SLAB);\n"
       "#pragma unroll\n"
       "  for (int stage = 0; stage < STAGES - 1; ++stage)\n"
       "    copy_slab(&a, &b, &args, stage);\n"
       "  float sum[M_TILES * N_TILES * 4];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < M_TILES * N_TILES * 4; ++i)\n"
       "    sum[i] = 0.0f;\n"
       "  const int warp_row = warp % WARPS_M * (BLOCK_M / WARPS_M);\n"
       "  const int warp_column = warp / WARPS_M * (BLOCK_N / WARPS_N);\n"
       "  const uint32_t a_slab = fragment_address(ring, DEPTH_ACROSS, true, warp_row, lane);\n"
       "  const uint32_t b_slab = fragment_address(ring + A_BYTES, DEPTH_ACROSS, false, warp_column, lane);\n"
       "  int stage = 0;\n"
       "  for (int slab = 0; slab < slabs; ++slab) {\n"
       "    // All threads arrive and wait: hands over the slab that everyone's copies brought, and says\n"
       "    // that the one before has been read, whose place the next copies take. Slabs past the last are\n"
       "    // zeros.\n"
       "    cp_async_wait(STAGES - 2);\n"
       "    __syncthreads();\n"
       "    copy_slab(&a, &b, &args, stage == 0 ? STAGES - 1 : stage - 1);\n"
       "    multiply_slab(sum, M_TILES, N_TILES, DTYPE, DEPTH_ACROSS, a_slab + stage * STAGE_BYTES,\n"
       "                  DEPTH_ACROSS, b_slab + stage * STAGE_BYTES);\n"
       "    stage = stage + 1 == STAGES ? 0 : stage + 1;\n"
       "  }\n"
       "  cp_async_wait(0);\n"
       "\n"
       "  const int row = warp_row + lane / 4, column = warp_column + lane % 4 * 2;\n"
       "  if (args.parts) {\n"
       "    store_parts(args.parts + (int64_t)split * args.filters * row_vectors * VECTOR, sum,\n"
       "                row_begin + row, column_begin + column, args.filters, row_vectors * VECTOR);\n"
       "    return;\n"
       "  }\n"
       "  // All threads arrive and wait: the ring has been read and no copy is in flight, so that the\n"
       "  // results can take its place.\n"
       "  __syncthreads();\n"
       "  stage_tile(smem, result_row_bytes(BLOCK_N), sum, M_TILES, N_TILES, DTYPE, row, column);\n"
       "  // All threads arrive and wait: hands over the results.\n"
       "  __syncthreads();\n"
       "  store_tile(args.dweight, smem, result_row_bytes(BLOCK_N), offset, BLOCK_M, BLOCK_N,\n"
       "             column_begin / VECTOR, row_vectors * VECTOR - column_begin, threadIdx.x, THREADS);\n"
       "}\n");
}
