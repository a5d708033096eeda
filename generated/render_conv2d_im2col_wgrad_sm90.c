/* Written by `python -m generator` from templates/conv2d/conv2d_im2col_wgrad_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_conv2d_im2col_wgrad_sm90(ap_text *out, const ap_render_input *in);

void ap_render_conv2d_im2col_wgrad_sm90(ap_text *out, const ap_render_input *in) {
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
       "//\n"
       "// The gradient of the weights: dweight[k, r, s, c] = sum over n, p, q of dout[n, p, q, k] x[n, h,\n"
       "// w, c], where h is p * stride - padding + r * dilation, and w likewise. As a product of matrices\n"
       "// that are never laid out: rows are filters, columns (r, s, c), the depth are pixels. A line of a\n"
       "// slab is a pixel; fragments are read transposed. A column has one tap for good, so that a thread's\n"
       "// vector of (r, s, c) only follows the pixels.\n"
       "// ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT(", sums in fp32. A split of the pixels is a thread block's; where there are several,\n"
       "// their sums go to parts, and another kernel adds them up, always in the same order. One of its\n"
       "// warps copies slabs, 64 pixels, to a ring: the copy engine finds the pixels of a tap by itself\n"
       "// (im2col). The others multiply.\n"
       "//\n"
       "// Pressed from templates/conv2d/conv2d_im2col_wgrad_sm90.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family conv2d --pass wgrad --copies im2col --block ");
  STRING(in->word[AP_CONV2D_BLOCK]);
  TEXT(" --dtype ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT(" --arch sm90\n"
       "\n"
       "#include \"attnpress/args/conv2d.h\"\n"
       "#include \"attnpress/device/conv2d.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_elect.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
       "#include \"attnpress/device/quad.cuh\"\n"
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
       "constexpr int CONSUMERS = THREADS / 128;          // warpgroups that multiply\n"
       "constexpr int M_TILES = BLOCK_M / 64 / CONSUMERS; // of 64 rows, of a warpgroup\n"
       "constexpr int N_TILES = BLOCK_N / 8;              // of 8 columns\n"
       "constexpr int SUMS = N_TILES * 4;                 // of a thread, in a tile of 64 rows\n"
       "constexpr int A_BYTES = BLOCK_M * LINE_BYTES;     // of a stage\n"
       "constexpr int STAGE_BYTES = A_BYTES + BLOCK_N * LINE_BYTES;\n"
       "constexpr int BARRIER_OFFSET = STAGES * STAGE_BYTES;\n"
       "static_assert(THREADS == 128 * CONSUMERS + 32, \"warpgroups, and the warp that copies\");\n"
       "static_assert(BARRIER_OFFSET + STAGES * 16 == ");
  INTEGER(smem_bytes);
  TEXT(", \"shared memory\");\n"
       "\n"
       "// A stage's slab is there: the warp that copies arrives, and the copies' bytes.\n"
       "__device__ __forceinline__ uint32_t full(uint32_t ring, int stage) {\n"
       "  return ring + BARRIER_OFFSET + stage * 16;\n"
       "}\n"
       "\n"
       "// It has been read: each warp that multiplies arrives.\n"
       "__device__ __forceinline__ uint32_t empty(uint32_t ring, int stage) {\n"
       "  return ring + BARRIER_OFFSET + stage * 16 + 8;\n"
       "}\n"
       "\n"
       "// One thread makes the barriers.\n"
       "__device__ __forceinline__ void make_barriers(uint32_t ring) {\n"
       "  for (int stage = 0; stage < STAGES; ++stage) {\n"
       "    mbarrier_init(full(ring, stage), 1);\n"
       "    mbarrier_init(empty(ring, stage), 4 * CONSUMERS);\n"
       "  }\n"
       "  fence_mbarrier_init();\n"
       "}\n"
       "\n"
       "// Waits until a stage's place is free, and says how much is to come; returns its address.\n"
       "__device__ __forceinline__ uint32_t open_stage(uint32_t ring, Stage stage, int bytes) {\n"
       "  wait_for_phase(empty(ring, stage.index), stage.parity ^ 1);\n"
       "  mbarrier_arrive_expect(full(ring, stage.index), bytes);\n"
       "  return ring + stage.index * STAGE_BYTES;\n"
       "}\n"
       "\n");
  if (pass == AP_CONV2D_PASS_WGRAD) {
    TEXT("// Of a side whose elements have the depth across: panels of 64 pixels of `width` channels, 64 or\n"
         "// 32, a constant, which lie as so many columns of the copy engine's swizzle.\n"
         "__device__ __forceinline__ uint64_t side_descriptor(uint32_t shared, int width) {\n"
         "  return width == 64 ? wgmma_descriptor(shared, 1024, PANEL_BYTES)\n"
         "                     : wgmma_descriptor_of_lines(shared, 512, PANEL_BYTES / 2, 64);\n"
         "}\n"
         "\n"
         "// Starts sum += A B of a slab as a group of its own: (64 * M_TILES, BLOCK_N) for each warpgroup. A\n"
         "// descriptor counts 16 bytes. The widths of panels are constants.\n"
         "__device__ __forceinline__ void start_panels(float sum[M_TILES * SUMS], uint32_t slab, int consumer,\n"
         "                                             int row_width, int width) {\n"
         "  const uint64_t b = side_descriptor(slab + A_BYTES, width);\n");
  } else {
    TEXT("// Starts sum += A B of a slab as a group of its own: (64 * M_TILES, BLOCK_N) for each warpgroup. A\n"
         "// descriptor counts 16 bytes: 16 elements of the depth are 2 further on, or 16 lines.\n"
         "// steps: of 16 elements, a constant; one or two are all that a line has.\n"
         "__device__ __forceinline__ void start_steps(float sum[M_TILES * SUMS], uint32_t slab, int consumer,\n"
         "                                            int steps) {\n"
         "  const int line_bytes = steps > 2 ? LINE_BYTES : steps * 32;\n");
    if (pass == AP_CONV2D_PASS_FPROP) {
      TEXT("  const uint64_t b = wgmma_descriptor_of_lines(slab + A_BYTES, 8 * line_bytes, 0, line_bytes);\n");
    } else {
      TEXT("  const uint64_t b = wgmma_descriptor(slab + A_BYTES, 1024, PANEL_BYTES);\n");
    }
  }
  TEXT("#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m)\n"
       "    wgmma_order_n");
  INTEGER(block_n);
  TEXT("(sum + m * SUMS);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m) {\n");
  if (pass == AP_CONV2D_PASS_WGRAD) {
    TEXT("    const uint64_t a =\n"
         "        side_descriptor(slab + (consumer * M_TILES + m) * PANEL_BYTES, row_width);\n"
         "#pragma unroll\n"
         "    for (int step = 0; step < SLAB / 16; ++step)\n"
         "      wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_CONV2D_DTYPE]);
    TEXT("_ss_trans_both(sum + m * SUMS, a + step * row_width * 2,\n"
         "                                          b + step * width * 2, 1);\n");
  } else {
    TEXT("    const uint64_t a = wgmma_descriptor_of_lines(slab + (consumer * M_TILES + m) * 64 * line_bytes,\n"
         "                                                 8 * line_bytes, 0, line_bytes);\n"
         "#pragma unroll\n"
         "    for (int step = 0; step < steps; ++step)\n");
    if (pass == AP_CONV2D_PASS_FPROP) {
      TEXT("      wgmma_m64n");
      INTEGER(block_n);
      TEXT("k16_");
      STRING(in->word[AP_CONV2D_DTYPE]);
      TEXT("_ss(sum + m * SUMS, a + step * 2, b + step * 2, 1);\n");
    } else {
      TEXT("      wgmma_m64n");
      INTEGER(block_n);
      TEXT("k16_");
      STRING(in->word[AP_CONV2D_DTYPE]);
      TEXT("_ss_trans(sum + m * SUMS, a + step * 2, b + step * LINE_BYTES, 1);\n");
    }
  }
  TEXT("  }\n"
       "  wgmma_commit();\n"
       "}\n"
       "\n");
  if (pass != AP_CONV2D_PASS_WGRAD) {
    TEXT("// The same with as many steps as have elements.\n"
         "__device__ __forceinline__ void start_slab(float sum[M_TILES * SUMS], uint32_t slab, int consumer,\n"
         "                                           int steps) {\n"
         "  if (steps == SLAB / 16)\n"
         "    start_steps(sum, slab, consumer, SLAB / 16);\n"
         "  else if (steps == 3)\n"
         "    start_steps(sum, slab, consumer, 3);\n"
         "  else if (steps == 2)\n"
         "    start_steps(sum, slab, consumer, 2);\n"
         "  else\n"
         "    start_steps(sum, slab, consumer, 1);\n"
         "}\n");
  }
  TEXT("\n"
       "// Waits until at most `pending` slabs' products are unfinished.\n"
       "__device__ __forceinline__ void wait_for_products(float sum[M_TILES * SUMS], int pending) {\n"
       "  wgmma_wait(pending);\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m)\n"
       "    wgmma_order_n");
  INTEGER(block_n);
  TEXT("(sum + m * SUMS);\n"
       "}\n"
       "\n"
       "// sum += A B over the slabs [begin, end), which the ring brings from `stage` on; returns the stage\n");
  if (pass == AP_CONV2D_PASS_WGRAD) {
    TEXT("// behind. The widths of panels are constants.\n");
  } else {
    TEXT("// behind. Every period-th has `tail_steps` steps.\n");
  }
  TEXT("__device__ __forceinline__ Stage multiply_slabs(float sum[M_TILES * SUMS], uint32_t ring,\n"
       "                                                int consumer, Stage stage, int begin, int end,\n");
  if (pass == AP_CONV2D_PASS_WGRAD) {
    TEXT("                                                int row_width, int width) {\n"
         "  const int slabs = end - begin;\n");
  } else {
    TEXT("                                                int period, int tail_steps) {\n"
         "  const int slabs = end - begin;\n"
         "  int left = period - (begin > 0 ? begin % period : 0); // slabs of a tap\n");
  }
  TEXT("  int last = 0; // the stage whose products are in flight\n"
       "  for (int slab = 0; slab < slabs; ++slab) {\n"
       "    // The copy engine hands over the slab.\n"
       "    wait_for_phase(full(ring, stage.index), stage.parity);\n");
  if (pass == AP_CONV2D_PASS_WGRAD) {
    TEXT("    start_panels(sum, ring + stage.index * STAGE_BYTES, consumer, row_width, width);\n");
  } else {
    TEXT("    --left;\n"
         "    start_slab(sum, ring + stage.index * STAGE_BYTES, consumer, left == 0 ? tail_steps : SLAB / 16);\n"
         "    left = left == 0 ? period : left;\n");
  }
  TEXT("    wait_for_products(sum, 1);\n"
       "    if (slab > 0)\n"
       "      arrive_once(empty(ring, last));\n"
       "    last = stage.index;\n"
       "    stage = next_stage(stage, STAGES);\n"
       "  }\n"
       "  wait_for_products(sum, 0);\n"
       "  if (slabs > 0)\n"
       "    arrive_once(empty(ring, last));\n"
       "  return stage;\n"
       "}\n"
       "\n"
       "// Panels of `width`, 64 or 32, that so many columns have.\n"
       "__device__ __forceinline__ int panels_of(int columns, int width) {\n"
       "  return width == 64 ? columns / 64 : columns / 32;\n"
       "}\n"
       "\n"
       "// The thread that copies: `slabs` slabs from number `first` on. A column has one tap for good.\n"
       "__device__ __forceinline__ void copy_slabs(const attnpress_conv2d_im2col_wgrad_args *args, int row,\n"
       "                                           int column, int first, int slabs, uint32_t ring) {\n"
       "  const int row_width = args->width[0], width = args->width[1];\n"
       "  // Panels behind the last one are not copied: they make rows, or columns, that nobody stores.\n"
       "  const int row_panels = min(panels_of(BLOCK_M, row_width), args->panels[0] - panels_of(row, row_width));\n"
       "  const int first_panel = panels_of(column, width);\n"
       "  const int panels = min(panels_of(BLOCK_N, width), args->panels[1] - first_panel);\n"
       "  const int bytes = (row_panels * row_width + panels * width) * SLAB * 2;\n"
       "  int channel[BLOCK_N / 32], tap_y[BLOCK_N / 32], tap_x[BLOCK_N / 32];\n"
       "  Place tap = place_of(first_panel, args->filter_width, args->tap_panels);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < BLOCK_N / 32; ++i) {\n"
       "    channel[i] = tap.inner * width;\n"
       "    tap_y[i] = tap.outer * args->dilation[0];\n"
       "    tap_x[i] = tap.middle * args->dilation[1];\n"
       "    advance(&tap, {0, 0, 1}, args->filter_width, args->tap_panels);\n"
       "  }\n"
       "  Place pixel = place_of(first * SLAB, args->out_height, args->out_width);\n"
       "  const Place by = place_of(SLAB, args->out_height, args->out_width);\n"
       "  Stage stage = {0, 0};\n"
       "  for (int i = 0; i < slabs; ++i) {\n"
       "    const uint32_t slab = open_stage(ring, stage, bytes), barrier = full(ring, stage.index);\n"
       "    const int y = pixel.middle * args->stride[0] - args->padding[0];\n"
       "    const int x = pixel.inner * args->stride[1] - args->padding[1];\n"
       "#pragma unroll\n"
       "    for (int panel = 0; panel < BLOCK_M / 32; ++panel)\n"
       "      if (panel < row_panels)\n"
       "        tma_load_im2col_4d(slab + panel * row_width * SLAB * 2, &args->dout, barrier,\n"
       "                           row + panel * row_width, pixel.inner, pixel.middle, pixel.outer, 0, 0);\n"
       "#pragma unroll\n"
       "    for (int panel = 0; panel < BLOCK_N / 32; ++panel)\n"
       "      if (panel < panels)\n"
       "        tma_load_im2col_4d(slab + A_BYTES + panel * width * SLAB * 2, &args->x, barrier,\n"
       "                           channel[panel], x, y, pixel.outer, tap_x[panel], tap_y[panel]);\n"
       "    advance(&pixel, by, args->out_height, args->out_width);\n"
       "    stage = next_stage(stage, STAGES);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Stores 64 rows of a tile, of which this warp has 16. sum: (N_TILES, 4); row: this lane's first;\n"
       "// tile_column: the tile's.\n"
       "__device__ __forceinline__ void store_rows(const attnpress_conv2d_im2col_wgrad_args *args,\n"
       "                                           float *parts, const float *sum, int row,\n"
       "                                           int tile_column) {\n"
       "  // Where panels leave no channel out, taps lie side by side as their columns do.\n"
       "  const int tap_columns = args->tap_panels * args->width[1];\n"
       "  const bool is_whole = tap_columns == args->channels;\n"
       "  int tap = is_whole ? 0 : tile_column / tap_columns, channel = tile_column - tap * tap_columns;\n"
       "#pragma unroll\n"
       "  for (int n = 0; n < N_TILES; n += 4) {\n"
       "    // 32 columns of dweight from `first` on: as many as are there, of a tap.\n"
       "    const int first = tap * args->channels + channel, left = args->columns - first;\n"
       "    const int columns = is_whole ? left : min(left, args->channels - channel);\n"
       "    channel += 32;\n"
       "    if (!is_whole && channel == tap_columns) {\n"
       "      channel = 0;\n"
       "      ++tap;\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n"
       "      const int at_row = row + half * 8;\n"
       "      const int64_t at = (int64_t)at_row * args->columns + first;\n"
       "      const float *tile = sum + n * 4 + half * 2;\n");
  TEXT("      const int pair_column = threadIdx.x % 4 * 2, column = threadIdx.x % 4 * VECTOR;\n"
       "      if (parts) {\n"
       "#pragma unroll\n"
       "        for (int i = 0; i < 4; ++i)\n"
       "          if (at_row < args->filters && pair_column + i * 8 < columns)\n"
       "            *(float2 *)(parts + at + pair_column + i * 8) = {tile[i * 4], tile[i * 4 + 1]};\n"
       "        continue;\n"
       "      }\n"
       "      uint32_t word[4];\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < 4; ++i)\n"
       "        word[i] = pack(DTYPE, tile[i * 4], tile[i * 4 + 1]);\n"
       "      const uint4 line = row_of_quad(word);\n"
       "      store_16_if(at_row < args->filters && column < columns,\n"
       "                  (uint4 *)((uint16_t *)args->dweight + at + column), line);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, ");
  INTEGER(min_blocks);
  TEXT(")\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_conv2d_im2col_wgrad_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  const uint32_t ring = shared_address(smem);\n"
       "  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
       "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;\n"
       "  if (threadIdx.x == 0) {\n"
       "    prefetch_tensor_map(&args.x);\n"
       "    prefetch_tensor_map(&args.dout);\n"
       "    make_barriers(ring);\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the barriers.\n"
       "  __syncthreads();\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "\n"
       "  const int column_begin = blockIdx.x % args.column_blocks * BLOCK_N;\n"
       "  const int row_begin = blockIdx.x / args.column_blocks % args.row_blocks * BLOCK_M;\n"
       "  const int split = blockIdx.x / args.column_blocks / args.row_blocks;\n"
       "  const int first = split * args.split_slabs;\n"
       "  const int slabs = min(args.split_slabs, args.slabs - first);\n"
       "  if (warp == CONSUMERS * 4) {\n"
       "    // The compiler knows an elected lane to be alone: copies then take uniform registers as they\n"
       "    // are, without a loop over lanes around each.\n"
       "    if (elect_lane())\n"
       "      copy_slabs(&args, row_begin, column_begin, first, slabs, ring);\n"
       "    return;\n"
       "  }\n"
       "  float sum[M_TILES * SUMS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < M_TILES * SUMS; ++i)\n"
       "    sum[i] = 0.0f;\n"
       "  // A loop for each width of panels: a look at them in each slab has taken 4% longer.\n"
       "  if (args.width[0] == 64 && args.width[1] == 64)\n"
       "    multiply_slabs(sum, ring, warp / 4, {0, 0}, 0, slabs, 64, 64);\n"
       "  else if (args.width[0] == 64)\n"
       "    multiply_slabs(sum, ring, warp / 4, {0, 0}, 0, slabs, 64, 32);\n"
       "  else if (args.width[1] == 64)\n"
       "    multiply_slabs(sum, ring, warp / 4, {0, 0}, 0, slabs, 32, 64);\n"
       "  else\n"
       "    multiply_slabs(sum, ring, warp / 4, {0, 0}, 0, slabs, 32, 32);\n"
       "  const int row = row_begin + warp / 4 * 64 * M_TILES + warp % 4 * 16 + lane / 4;\n"
       "  float *parts =\n"
       "      args.parts ? args.parts + (int64_t)split * args.filters * args.columns : nullptr;\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m)\n"
       "    store_rows(&args, parts, sum + m * SUMS, row + m * 64, column_begin);\n"
       "}\n");
}
