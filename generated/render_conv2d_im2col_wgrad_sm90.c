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
       "__device__ __forceinline__ uint32_t open_stage(uint32_t ring, Stage stage) {\n"
       "  wait_for_phase(empty(ring, stage.index), stage.parity ^ 1);\n"
       "  mbarrier_arrive_expect(full(ring, stage.index), STAGE_BYTES);\n"
       "  return ring + stage.index * STAGE_BYTES;\n"
       "}\n"
       "\n"
       "// Starts sum += A B of a slab as a group of its own: (64 * M_TILES, BLOCK_N) for each warpgroup. A\n"
       "// descriptor counts 16 bytes: 16 elements of the depth are 2 further on, or 16 lines.\n"
       "// steps: of 16 elements, a constant.\n"
       "__device__ __forceinline__ void start_steps(float sum[M_TILES * SUMS], uint32_t slab, int consumer,\n"
       "                                            int steps) {\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("  const uint64_t b = wgmma_descriptor(slab + A_BYTES, 1024, 0);\n");
  } else {
    TEXT("  const uint64_t b = wgmma_descriptor(slab + A_BYTES, 1024, PANEL_BYTES);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m)\n"
       "    wgmma_order_n");
  INTEGER(block_n);
  TEXT("(sum + m * SUMS);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m) {\n"
       "    const uint64_t a =\n"
       "        wgmma_descriptor(slab + (consumer * M_TILES + m) * PANEL_BYTES, 1024, PANEL_BYTES);\n"
       "#pragma unroll\n"
       "    for (int step = 0; step < steps; ++step)\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("      wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_CONV2D_DTYPE]);
    TEXT("_ss(sum + m * SUMS, a + step * 2, b + step * 2, 1);\n");
  } else if (pass == AP_CONV2D_PASS_DGRAD) {
    TEXT("      wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_CONV2D_DTYPE]);
    TEXT("_ss_trans(sum + m * SUMS, a + step * 2, b + step * LINE_BYTES, 1);\n");
  } else {
    TEXT("      wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_CONV2D_DTYPE]);
    TEXT("_ss_trans_both(sum + m * SUMS, a + step * LINE_BYTES,\n"
         "                                          b + step * LINE_BYTES, 1);\n");
  }
  TEXT("  }\n"
       "  wgmma_commit();\n"
       "}\n"
       "\n"
       "// The same with as many steps as have elements.\n"
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
       "}\n"
       "\n"
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
       "// sum += A B over the slabs [begin, end), which the ring brings from `stage` on; returns the stage\n"
       "// behind. Every period-th has `tail_steps` steps.\n"
       "__device__ __forceinline__ Stage multiply_slabs(float sum[M_TILES * SUMS], uint32_t ring,\n"
       "                                                int consumer, Stage stage, int begin, int end,\n"
       "                                                int period, int tail_steps) {\n"
       "  const int slabs = end - begin;\n"
       "  int left = period - (begin > 0 ? begin % period : 0); // slabs of a tap\n"
       "  int last = 0; // the stage whose products are in flight\n"
       "  for (int slab = 0; slab < slabs; ++slab) {\n"
       "    // The copy engine hands over the slab.\n"
       "    wait_for_phase(full(ring, stage.index), stage.parity);\n"
       "    --left;\n"
       "    start_slab(sum, ring + stage.index * STAGE_BYTES, consumer, left == 0 ? tail_steps : SLAB / 16);\n"
       "    left = left == 0 ? period : left;\n"
       "    wait_for_products(sum, 1);\n"
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
       "constexpr int PANELS = BLOCK_N / 64; // of 64 columns: channels of one tap\n"
       "\n"
       "// The thread that copies: `slabs` slabs from number `first` on. A column has one tap for good.\n"
       "__device__ __forceinline__ void copy_slabs(const attnpress_conv2d_im2col_wgrad_args *args, int row,\n"
       "                                           int column, int first, int slabs, uint32_t ring) {\n"
       "  int channel[PANELS], tap_y[PANELS], tap_x[PANELS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < PANELS; ++i) {\n"
       "    const int panel = column / 64 + i;\n"
       "    const Place tap = place_of(panel, args->filter_width, args->channel_slabs);\n"
       "    const bool is_there = panel < args->panels; // else behind the channels: zeros\n"
       "    channel[i] = (is_there ? tap.inner : args->channel_slabs) * 64;\n"
       "    tap_y[i] = is_there ? tap.outer * args->dilation[0] : 0;\n"
       "    tap_x[i] = is_there ? tap.middle * args->dilation[1] : 0;\n"
       "  }\n"
       "  Place pixel = place_of(first * SLAB, args->out_height, args->out_width);\n"
       "  const Place by = place_of(SLAB, args->out_height, args->out_width);\n"
       "  Stage stage = {0, 0};\n"
       "  for (int i = 0; i < slabs; ++i) {\n"
       "    const uint32_t slab = open_stage(ring, stage), barrier = full(ring, stage.index);\n"
       "    const int y = pixel.middle * args->stride[0] - args->padding[0];\n"
       "    const int x = pixel.inner * args->stride[1] - args->padding[1];\n"
       "#pragma unroll\n"
       "    for (int panel = 0; panel < BLOCK_M / 64; ++panel)\n"
       "      tma_load_im2col_4d(slab + panel * PANEL_BYTES, &args->dout, barrier, row + panel * 64,\n"
       "                         pixel.inner, pixel.middle, pixel.outer, 0, 0);\n"
       "#pragma unroll\n"
       "    for (int panel = 0; panel < PANELS; ++panel)\n"
       "      tma_load_im2col_4d(slab + A_BYTES + panel * PANEL_BYTES, &args->x, barrier, channel[panel], x,\n"
       "                         y, pixel.outer, tap_x[panel], tap_y[panel]);\n"
       "    advance(&pixel, by, args->out_height, args->out_width);\n"
       "    stage = next_stage(stage, STAGES);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Stores 64 rows of a tile, of which this warp has 16. sum: (N_TILES, 4); row: this lane's first;\n"
       "// first_panel: the tile's.\n"
       "__device__ __forceinline__ void store_rows(const attnpress_conv2d_im2col_wgrad_args *args,\n"
       "                                           float *parts, const float *sum, int row,\n"
       "                                           int first_panel) {\n"
       "#pragma unroll\n"
       "  for (int panel = 0; panel < PANELS; ++panel) {\n"
       "    // Columns of dweight from `first` on: channels of a tap, as many as are there.\n"
       "    int first = (first_panel + panel) * 64, columns = args->columns - first;\n"
       "    if (args->channels % 64 != 0) {\n"
       "      const int tap = (first_panel + panel) / args->channel_slabs;\n"
       "      const int channel = (first_panel + panel) % args->channel_slabs * 64;\n"
       "      first = tap * args->channels + channel;\n"
       "      columns = first_panel + panel < args->panels ? args->channels - channel : 0;\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n");
  TEXT("      const int at_row = row + half * 8;\n"
       "      const int64_t at = (int64_t)at_row * args->columns + first;\n"
       "#pragma unroll\n"
       "      for (int n = 0; n < 8; n += 4) {\n"
       "        const float *tile = sum + (panel * 8 + n) * 4 + half * 2;\n"
       "        const int pair_column = n * 8 + threadIdx.x % 4 * 2;\n"
       "        const int column = n * 8 + threadIdx.x % 4 * VECTOR;\n"
       "        if (parts) {\n"
       "#pragma unroll\n"
       "          for (int i = 0; i < 4; ++i)\n"
       "            if (at_row < args->filters && pair_column + i * 8 < columns)\n"
       "              *(float2 *)(parts + at + pair_column + i * 8) = {tile[i * 4], tile[i * 4 + 1]};\n"
       "          continue;\n"
       "        }\n"
       "        uint32_t word[4];\n"
       "#pragma unroll\n"
       "        for (int i = 0; i < 4; ++i)\n"
       "          word[i] = pack(DTYPE, tile[i * 4], tile[i * 4 + 1]);\n"
       "        const uint4 line = row_of_quad(word);\n"
       "        store_16_if(at_row < args->filters && column < columns,\n"
       "                    (uint4 *)((uint16_t *)args->dweight + at + column), line);\n"
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
       "    if (lane == 0)\n"
       "      copy_slabs(&args, row_begin, column_begin, first, slabs, ring);\n"
       "    return;\n"
       "  }\n"
       "  float sum[M_TILES * SUMS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < M_TILES * SUMS; ++i)\n"
       "    sum[i] = 0.0f;\n"
       "  multiply_slabs(sum, ring, warp / 4, {0, 0}, 0, slabs, slabs, SLAB / 16);\n"
       "  const int row = row_begin + warp / 4 * 64 * M_TILES + warp % 4 * 16 + lane / 4;\n"
       "  float *parts =\n"
       "      args.parts ? args.parts + (int64_t)split * args.filters * args.columns : nullptr;\n"
       "#pragma unroll\n"
       "  for (int m = 0; m < M_TILES; ++m)\n"
       "    store_rows(&args, parts, sum + m * SUMS, row + m * 64, column_begin / 64);\n"
       "}\n");
}
