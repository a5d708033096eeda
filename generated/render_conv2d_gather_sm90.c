/* Written by `python -m generator` from templates/conv2d/conv2d_gather_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_conv2d_gather_sm90(ap_text *out, const ap_render_input *in);

void ap_render_conv2d_gather_sm90(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t pass = in->axis[AP_CONV2D_PASS];
  const int32_t dtype = in->axis[AP_CONV2D_DTYPE];
  const int32_t stages = in->field[AP_CONV2D_TILE_STAGES];
  const int32_t min_blocks = in->field[AP_CONV2D_TILE_MIN_BLOCKS];
  const int32_t block_m = in->field[AP_CONV2D_TILE_BLOCK_M];
  const int32_t block_n = in->field[AP_CONV2D_TILE_BLOCK_N];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("// The forward pass: out[n, p, q, k] = sum over r, s, c of x[n, h, w, c] weight[k, r, s, c], where h\n"
         "// is p * stride - padding + r * dilation, and w likewise; then bias, then ReLU. As a product of\n"
         "// matrices that are never laid out: rows are pixels of out, columns filters, the depth are (r, s,\n"
         "// c).\n");
  } else {
    TEXT("// The gradient of the input: dx[n, h, w, c] = sum over r, s, k of dout[n, p, q, k] weight[k, r, s,\n"
         "// c], where p is (h + padding - r * dilation) / stride, if that is whole, and q likewise. As a\n"
         "// product of matrices that are never laid out: rows are pixels of dx, columns channels, the depth\n"
         "// are (r, s, k). A tile's pixels have one residue of h + padding by the stride, and one of\n"
         "// w + padding: all of them then have the same taps, and the others cost nothing.\n");
  }
  TEXT("// ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT(", sums in fp32. One thread block computes BLOCK_M rows and BLOCK_N columns, and walks\n"
       "// over the depth by slabs of 64, which all gather, 8 channels of a pixel at a time, and zeros where\n"
       "// a tap lies outside; copies run STAGES - 1 slabs ahead.\n"
       "//\n"
       "// Pressed from templates/conv2d/conv2d_gather_sm90.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family conv2d --pass ");
  STRING(in->word[AP_CONV2D_PASS]);
  TEXT(" --block ");
  STRING(in->word[AP_CONV2D_BLOCK]);
  TEXT(" --dtype ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT(" --arch sm90\n"
       "\n"
       "#include \"attnpress/args/conv2d.h\"\n"
       "#include \"attnpress/device/conv2d.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
       "#include \"attnpress/device/wgmma/ptx_wgmma_n");
  INTEGER(block_n);
  TEXT(".cuh\"\n"
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
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT(";\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int M_TILES = 1; // of a warp: a warpgroup has 64 rows, and all columns\n"
       "constexpr int N_TILES = BLOCK_N / 8;\n"
       "constexpr int A_BYTES = BLOCK_M * LINE_BYTES; // of a stage\n"
       "constexpr int STAGE_BYTES = A_BYTES + BLOCK_N * LINE_BYTES;\n"
       "constexpr int PASS_LINES = THREADS / 8; // lines of A that the threads copy in a pass\n"
       "constexpr int A_PASSES = BLOCK_M / PASS_LINES;\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("constexpr int B_PASSES = BLOCK_N / PASS_LINES;\n");
  } else {
    TEXT("constexpr int B_LINES = THREADS / (BLOCK_N / VECTOR); // elements of the depth in a pass\n"
         "constexpr int B_PASSES = SLAB / B_LINES;\n");
  }
  TEXT("static_assert(THREADS == 2 * BLOCK_M, \"warpgroups\");\n"
       "static_assert(STAGES * STAGE_BYTES + BLOCK_M * 16 == ");
  INTEGER(smem_bytes);
  TEXT(", \"shared memory\");\n"
       "static_assert(BLOCK_M * result_row_bytes(BLOCK_N) <= STAGES * STAGE_BYTES, \"results\");\n"
       "\n"
       "// What is known of each row of the block, in shared memory.\n"
       "struct Rows {\n"
       "  int in[BLOCK_M];            // the pixel of `in` under the first tap, in vectors\n"
       "  int y[BLOCK_M], x[BLOCK_M]; // its line and column; NOWHERE: there is no such row\n"
       "  int out[BLOCK_M];           // the pixel of `out`, in vectors; -1: there is no such row\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ void find_row(const attnpress_conv2d_gather_args *args, Line lines,\n"
       "                                         Line columns, int index, int row, Rows *rows) {\n"
       "  rows->in[row] = 0;\n"
       "  rows->y[row] = rows->x[row] = NOWHERE;\n"
       "  rows->out[row] = -1;\n"
       "  if (index >= args->batch * lines.count * columns.count)\n"
       "    return;\n"
       "  const Place pixel = place_of(index, lines.count, columns.count);\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("  const int y = lines.base + pixel.middle * args->stride[0];\n"
         "  const int x = columns.base + pixel.inner * args->stride[1];\n"
         "  const int out_y = pixel.middle, out_x = pixel.inner;\n");
  } else {
    TEXT("  const int y = lines.base + pixel.middle, x = columns.base + pixel.inner;\n"
         "  const int out_y = lines.first + pixel.middle * args->stride[0];\n"
         "  const int out_x = columns.first + pixel.inner * args->stride[1];\n");
  }
  TEXT("  rows->y[row] = y;\n"
       "  rows->x[row] = x;\n"
       "  rows->in[row] =\n"
       "      pixel.outer * args->in_stride[0] + y * args->in_stride[1] + x * args->in_stride[2];\n"
       "  rows->out[row] =\n"
       "      pixel.outer * args->out_stride[0] + out_y * args->out_stride[1] + out_x * args->out_stride[2];\n"
       "}\n"
       "\n"
       "// A thread's part of the copies, slab by slab.\n"
       "struct Copies {\n"
       "  // A: chunk threadIdx.x % 8 of A_PASSES lines, PASS_LINES apart.\n"
       "  int in[A_PASSES], y[A_PASSES], x[A_PASSES]; // as in Rows\n"
       "  Place tap;                                  // tap row, tap column, and the vector of channels\n"
       "  Place tap_by;                               // from slab to slab\n"
       "  uint32_t a_target;                          // in the ring's first stage\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("  // B: the same chunk of B_PASSES lines, which are filters.\n"
         "  const uint4 *weight; // of the first, at this thread's place in the depth\n"
         "  int depth, filters;  // vectors of the depth from here on; filters from this thread's first on\n");
  } else {
    TEXT("  // B: a vector of channels for B_PASSES elements of the depth, B_LINES apart.\n"
         "  Place b_tap, b_tap_by;\n"
         "  int weight; // of the vector of channels under the first tap, in vectors\n"
         "  bool channel_is_there;\n");
  }
  TEXT("  uint32_t b_target;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ void start_copies(Copies *copies,\n"
       "                                             const attnpress_conv2d_gather_args *args,\n"
       "                                             const Rows *rows, Line lines, Line columns,\n"
       "                                             int column_begin, uint32_t ring) {\n"
       "  const int chunk = threadIdx.x % 8, line = threadIdx.x / 8;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < A_PASSES; ++i) {\n"
       "    copies->in[i] = rows->in[line + i * PASS_LINES];\n"
       "    copies->y[i] = rows->y[line + i * PASS_LINES];\n"
       "    copies->x[i] = rows->x[line + i * PASS_LINES];\n"
       "  }\n"
       "  const int taps = max(columns.taps, 1);\n"
       "  copies->tap = place_of(chunk, taps, args->in_vectors);\n"
       "  copies->tap_by = place_of(SLAB / VECTOR, taps, args->in_vectors);\n"
       "  copies->a_target = ring + line * LINE_BYTES + (chunk ^ line % 8) * VECTOR_BYTES;\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("  const int vectors = args->filter_height * args->filter_width * args->in_vectors;\n"
         "  copies->weight = (const uint4 *)args->weight + (int64_t)(column_begin + line) * vectors + chunk;\n"
         "  copies->depth = vectors - chunk;\n"
         "  copies->filters = args->out_columns - column_begin - line;\n"
         "  copies->b_target = copies->a_target + A_BYTES;\n");
  } else {
    TEXT("  const int b_line = threadIdx.x / (BLOCK_N / VECTOR), vector = threadIdx.x % (BLOCK_N / VECTOR);\n"
         "  const int channels = args->out_columns / VECTOR; // in vectors\n"
         "  const int channel = column_begin / VECTOR + vector;\n"
         "  copies->b_tap = place_of(b_line / VECTOR, taps, args->in_vectors);\n"
         "  copies->b_tap_by = place_of(B_LINES / VECTOR, taps, args->in_vectors);\n"
         "  copies->channel_is_there = channel < channels;\n"
         "  copies->weight = ((b_line % VECTOR * args->filter_height + lines.first_tap) * args->filter_width +\n"
         "                    columns.first_tap) *\n"
         "                       channels +\n"
         "                   channel;\n"
         "  copies->b_target = ring + A_BYTES + vector / 8 * PANEL_BYTES + b_line * LINE_BYTES +\n"
         "                     (vector % 8 ^ b_line % 8) * VECTOR_BYTES;\n");
  }
  TEXT("}\n"
       "\n"
       "// Starts the copies of the next slab into a stage of the ring; closes their group.\n"
       "__device__ __forceinline__ void copy_slab(Copies *copies, const attnpress_conv2d_gather_args *args,\n"
       "                                          Line lines, Line columns, int stage) {\n"
       "  const int y = copies->tap.outer * args->tap_move[0], x = copies->tap.middle * args->tap_move[1];\n"
       "  const int move = y * args->in_stride[1] + x * args->in_stride[2] + copies->tap.inner;\n"
       "  const bool tap_is_there = copies->tap.outer < lines.taps;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < A_PASSES; ++i) {\n"
       "    const bool inside = tap_is_there && (uint32_t)(copies->y[i] + y) < (uint32_t)args->in_height &&\n"
       "                        (uint32_t)(copies->x[i] + x) < (uint32_t)args->in_width;\n"
       "    cp_async_16(copies->a_target + stage * STAGE_BYTES + i * PASS_LINES * LINE_BYTES,\n"
       "                (const uint4 *)args->in + (copies->in[i] + move), inside ? VECTOR_BYTES : 0);\n"
       "  }\n"
       "  advance(&copies->tap, copies->tap_by, columns.taps, args->in_vectors);\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("  const int row_vectors = args->filter_height * args->filter_width * args->in_vectors;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < B_PASSES; ++i)\n"
         "    cp_async_16(copies->b_target + stage * STAGE_BYTES + i * PASS_LINES * LINE_BYTES,\n"
         "                copies->weight + (int64_t)i * PASS_LINES * row_vectors,\n"
         "                copies->depth > 0 && i * PASS_LINES < copies->filters ? VECTOR_BYTES : 0);\n"
         "  copies->weight += SLAB / VECTOR;\n"
         "  copies->depth -= SLAB / VECTOR;\n");
  } else {
    TEXT("  const int channels = args->out_columns / VECTOR;\n"
         "  const int row_vectors = args->filter_height * args->filter_width * channels;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < B_PASSES; ++i) {\n"
         "    const int at = copies->weight + copies->b_tap.inner * VECTOR * row_vectors +\n"
         "                   (copies->b_tap.outer * args->tap_step[0] * args->filter_width +\n"
         "                    copies->b_tap.middle * args->tap_step[1]) *\n"
         "                       channels;\n"
         "    cp_async_16(copies->b_target + stage * STAGE_BYTES + i * B_LINES * LINE_BYTES,\n"
         "                (const uint4 *)args->weight + at,\n"
         "                copies->channel_is_there && copies->b_tap.outer < lines.taps ? VECTOR_BYTES : 0);\n"
         "    advance(&copies->b_tap, copies->b_tap_by, columns.taps, args->in_vectors);\n"
         "  }\n");
  }
  TEXT("  cp_async_commit();\n"
       "}\n"
       "\n"
       "// Starts sum += A B of a slab, (64, BLOCK_N) for each warpgroup, as a group of its own.\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("__device__ __forceinline__ void start_product(float sum[N_TILES * 4], uint32_t slab) {\n"
         "  const uint64_t a = wgmma_descriptor(slab + threadIdx.x / 128 * 64 * LINE_BYTES, 1024, 0);\n"
         "  const uint64_t b = wgmma_descriptor(slab + A_BYTES, 1024, 0);\n"
         "  wgmma_order_n");
    INTEGER(block_n);
    TEXT("(sum);\n"
         "  wgmma_fence();\n"
         "#pragma unroll\n"
         "  for (int step = 0; step < SLAB / 16; ++step)\n"
         "    wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_CONV2D_DTYPE]);
    TEXT("_ss(sum, a + step * 2, b + step * 2, 1);\n"
         "  wgmma_commit();\n"
         "}\n");
  } else {
    TEXT("// a: the fragments of A, which are registers, so that B may be read with its columns contiguous.\n"
         "__device__ __forceinline__ void start_product(float sum[N_TILES * 4], uint32_t a[SLAB / 16][4],\n"
         "                                              uint32_t a_address, uint32_t slab) {\n"
         "  const uint64_t b = wgmma_descriptor(slab + A_BYTES, 1024, PANEL_BYTES);\n"
         "#pragma unroll\n"
         "  for (int step = 0; step < SLAB / 16; ++step)\n"
         "    load_fragment(a[step], DEPTH_INSIDE, a_address, 0, step);\n"
         "  wgmma_order_n");
    INTEGER(block_n);
    TEXT("(sum);\n"
         "  wgmma_fence();\n"
         "#pragma unroll\n"
         "  for (int step = 0; step < SLAB / 16; ++step)\n"
         "    wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_CONV2D_DTYPE]);
    TEXT("_rs_trans(sum, a[step], b + step * 16 * LINE_BYTES / 16, 1);\n"
         "  wgmma_commit();\n"
         "}\n");
  }
  TEXT("\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, ");
  INTEGER(min_blocks);
  TEXT(")\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_conv2d_gather_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  Rows *rows = (Rows *)(smem + STAGES * STAGE_BYTES);\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
       "  const int column_begin = blockIdx.x % args.column_blocks * BLOCK_N;\n"
       "  const int row_begin = blockIdx.x / args.column_blocks % args.row_blocks * BLOCK_M;\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("  const Line lines = whole_line(args.out_height, args.filter_height, args.padding[0]);\n"
         "  const Line columns = whole_line(args.out_width, args.filter_width, args.padding[1]);\n");
  } else {
    TEXT("  // Classes with the most taps come first. The grid is laid out for the largest class.\n"
         "  const int residue = blockIdx.x / args.column_blocks / args.row_blocks;\n"
         "  Line lines = residue_line(residue / args.stride[1], args.out_height, args.filter_height,\n"
         "                            args.stride[0], args.padding[0], args.dilation[0], args.tap_step[0]);\n"
         "  const Line columns =\n"
         "      residue_line(residue % args.stride[1], args.out_width, args.filter_width, args.stride[1],\n"
         "                   args.padding[1], args.dilation[1], args.tap_step[1]);\n"
         "  if (row_begin >= args.batch * lines.count * columns.count)\n"
         "    return;\n"
         "  lines.taps = columns.taps > 0 ? lines.taps : 0; // none at all: zeros\n");
  }
  TEXT("  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "\n"
       "  for (int row = threadIdx.x; row < BLOCK_M; row += THREADS)\n"
       "    find_row(&args, lines, columns, row_begin + row, row, rows);\n"
       "  // All threads arrive and wait: hands over the table of rows.\n"
       "  __syncthreads();\n"
       "  const uint32_t ring = shared_address(smem);\n"
       "  Copies copies;\n"
       "  start_copies(&copies, &args, rows, lines, columns, column_begin, ring);\n"
       "  const int slabs = ceil_div(lines.taps * columns.taps * args.in_vectors, SLAB / VECTOR);\n"
       "#pragma unroll\n"
       "  for (int stage = 0; stage < STAGES - 1; ++stage)\n"
       "    copy_slab(&copies, &args, lines, columns, stage);\n"
       "  float sum[N_TILES * 4];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < N_TILES * 4; ++i)\n"
       "    sum[i] = 0.0f;\n");
  if (pass == AP_CONV2D_PASS_DGRAD) {
    TEXT("  const uint32_t a = fragment_address(ring, DEPTH_INSIDE, true, warp * 16, lane);\n");
  }
  TEXT("  int stage = 0;\n"
       "  for (int slab = 0; slab < slabs; ++slab) {\n"
       "    // All threads arrive and wait: hands over the slab that everyone's copies brought, to products\n"
       "    // too, and says that all warpgroups' products of the one before have ended, whose place the\n"
       "    // next copies take. Slabs past the last are zeros.\n"
       "    cp_async_wait(STAGES - 2);\n"
       "    fence_proxy_async();\n"
       "    __syncthreads();\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("    start_product(sum, ring + stage * STAGE_BYTES);\n");
  } else {
    TEXT("    uint32_t a_frag[SLAB / 16][4];\n"
         "    start_product(sum, a_frag, a + stage * STAGE_BYTES, ring + stage * STAGE_BYTES);\n");
  }
  TEXT("    copy_slab(&copies, &args, lines, columns, stage == 0 ? STAGES - 1 : stage - 1);\n"
       "    wgmma_wait(0);\n"
       "    wgmma_order_n");
  INTEGER(block_n);
  TEXT("(sum);\n"
       "    stage = stage + 1 == STAGES ? 0 : stage + 1;\n"
       "  }\n"
       "\n"
       "  const int row = warp * 16 + lane / 4, column = lane % 4 * 2;\n"
       "  finish_tile(sum, M_TILES, N_TILES, DTYPE, args.bias, args.relu, column_begin + column,\n"
       "              args.out_columns);\n"
       "  // All threads arrive and wait: the ring has been read and no copy is in flight, so that the\n"
       "  // results can take its place.\n"
       "  cp_async_wait(0);\n"
       "  __syncthreads();\n"
       "  stage_tile(smem, result_row_bytes(BLOCK_N), sum, M_TILES, N_TILES, DTYPE, row, column);\n"
       "  // All threads arrive and wait: hands over the results.\n"
       "  __syncthreads();\n"
       "  store_tile(args.out, smem, result_row_bytes(BLOCK_N), rows->out, BLOCK_M, BLOCK_N,\n"
       "             column_begin / VECTOR, args.out_columns - column_begin, threadIdx.x, THREADS);\n"
       "}\n");
}
