/* Written by `python -m generator` from templates/conv2d/conv2d_im2col_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_conv2d_im2col_sm90(ap_text *out, const ap_render_input *in);

void ap_render_conv2d_im2col_sm90(ap_text *out, const ap_render_input *in) {
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
  TEXT(", sums in fp32. A thread block walks over tiles of BLOCK_M rows and BLOCK_N columns. One\n"
       "// of its warps copies slabs, 64 elements of the depth, to a ring: the copy engine finds the pixels\n"
       "// of a tap by itself (im2col), and zeros behind the last channel. The others multiply, and store a\n"
       "// tile while the next one's slabs arrive. Where tiles are few the thread blocks of a cluster share\n"
       "// one: each has a part of its depth, and then a part of its rows to add up.\n"
       "//\n"
       "// Pressed from templates/conv2d/conv2d_im2col_sm90.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family conv2d --pass ");
  STRING(in->word[AP_CONV2D_PASS]);
  TEXT(" --copies im2col --block ");
  STRING(in->word[AP_CONV2D_BLOCK]);
  TEXT(" --dtype ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT(" --arch sm90\n"
       "\n"
       "#include \"attnpress/args/conv2d.h\"\n"
       "#include \"attnpress/device/conv2d.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cluster.cuh\"\n"
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
       "constexpr bool IS_SHARED = BLOCK_M <= 128 && BLOCK_N <= 128; // tiles may be\n"
       "constexpr int WARPS = 4 * CONSUMERS; // that multiply\n"
       "constexpr int PIECES = WARPS * N_TILES / 2; // of a tile: 8 rows of a warp, and 32 columns\n"
       "constexpr int PIECE_BYTES = 8 * 32 * 4;\n"
       "\n"
       "// A tile of a class: its first row and column, and the slabs [begin, end) of its depth that this\n"
       "// thread block has.\n"
       "struct Tile {\n"
       "  int class_index, row, column, begin, end;\n"
       "  bool is_there; // the grid is laid out for the largest class\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Tile find_tile(const attnpress_conv2d_im2col_args *args, int index) {\n"
       "  Tile tile;\n"
       "  const int row_block = index / args->column_blocks;\n"
       "  tile.column = index % args->column_blocks * BLOCK_N;\n"
       "  tile.row = row_block % args->row_blocks * BLOCK_M;\n"
       "  tile.class_index = row_block / args->row_blocks;\n"
       "  const attnpress_conv2d_line *line = args->line[tile.class_index];\n"
       "  const int slabs = line[0].taps * line[1].taps * args->tap_slabs;\n"
       "  tile.begin = 0;\n"
       "  tile.end = slabs;\n"
       "  if (IS_SHARED && args->splits > 1) {\n"
       "    const int share = (slabs + args->splits - 1) / args->splits;\n"
       "    tile.begin = min((int)(blockIdx.x % args->splits) * share, slabs);\n"
       "    tile.end = min(tile.begin + share, slabs);\n"
       "  }\n"
       "  tile.is_there = tile.row < args->batch * line[0].count * line[1].count;\n"
       "  return tile;\n"
       "}\n"
       "\n"
       "// The thread that copies: slabs of a tap after the other.\n"
       "__device__ __forceinline__ Stage copy_tile(const attnpress_conv2d_im2col_args *args, Tile tile,\n"
       "                                           uint32_t ring, Stage stage) {\n"
       "  const attnpress_conv2d_line y = args->line[tile.class_index][0];\n"
       "  const attnpress_conv2d_line x = args->line[tile.class_index][1];\n"
       "  const Place first = place_of(tile.row, y.count, x.count);\n"
       "  const int in_y = y.in + first.middle * y.in_step, in_x = x.in + first.inner * x.in_step;\n"
       "  Place at = {0, 0, 0}; // a tap's row and column, and a slab of it\n"
       "  if (tile.begin > 0)\n"
       "    at = place_of(tile.begin, x.taps, args->tap_slabs);\n"
       "  const int is_last = args->has_last && tile.column + BLOCK_N >= args->out_columns;\n");
  if (pass == AP_CONV2D_PASS_DGRAD) {
    TEXT("  const int panels = min(BLOCK_N, args->out_columns - tile.column + 63) / 64;\n");
  }
  TEXT("  const int bytes = args->slab_bytes[is_last][0], tail_bytes = args->slab_bytes[is_last][1];\n"
       "  for (int i = tile.begin; i < tile.end; ++i) {\n"
       "    const int is_tail = args->has_tail && at.inner + 1 == args->tap_slabs;\n"
       "    const uint32_t slab = open_stage(ring, stage, is_tail ? tail_bytes : bytes);\n"
       "    const uint32_t barrier = full(ring, stage.index);\n"
       "    const int depth = at.inner * SLAB;\n"
       "    const int tap_y = y.tap + at.outer * y.tap_step, tap_x = x.tap + at.middle * x.tap_step;\n"
       "    tma_load_im2col_4d(slab, &args->in[tile.class_index][is_tail], barrier, depth, in_x, in_y,\n"
       "                       first.outer, at.middle * x.tap_move, at.outer * y.tap_move);\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("    tma_load_4d(slab + A_BYTES, &args->weight[is_last][is_tail], barrier, depth, tap_x, tap_y,\n"
         "                tile.column);\n");
  } else {
    TEXT("#pragma unroll\n"
         "    for (int panel = 0; panel < BLOCK_N / 64; ++panel)\n"
         "      if (panel < panels)\n"
         "        tma_load_4d(slab + A_BYTES + panel * PANEL_BYTES, &args->weight[0][is_tail], barrier,\n"
         "                    tile.column + panel * 64, tap_x, tap_y, depth);\n");
  }
  TEXT("    advance(&at, {0, 0, 1}, x.taps, args->tap_slabs);\n"
       "    stage = next_stage(stage, STAGES);\n"
       "  }\n"
       "  return stage;\n"
       "}\n"
       "\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("// The bias of a tile's columns: word i of a lane is the pair of columns 64 i + 2 lane.\n"
         "__device__ __forceinline__ void load_bias(const attnpress_conv2d_im2col_args *args, Tile tile,\n"
         "                                          uint32_t bias[BLOCK_N / 64]) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < BLOCK_N / 64; ++i) {\n"
         "    const int column = tile.column + i * 64 + threadIdx.x % 32 * 2;\n"
         "    bias[i] = load_4_if(args->bias && column < args->out_columns,\n"
         "                        (const uint16_t *)args->bias + column, 0);\n"
         "  }\n"
         "}\n"
         "\n"
         "// Adds the bias of this lane's columns to 64 rows of sums, and what ReLU makes of them.\n"
         "__device__ __forceinline__ void finish_sum(float *sum, const uint32_t bias[BLOCK_N / 64],\n"
         "                                           int relu) {\n"
         "#pragma unroll\n"
         "  for (int n = 0; n < N_TILES; ++n) {\n"
         "    const uint32_t pair =\n"
         "        __shfl_sync(0xffffffff, bias[n / 8], n % 8 * 4 + threadIdx.x % 4);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < 4; ++i)\n"
         "      sum[n * 4 + i] = rectify(\n"
         "          sum[n * 4 + i] + (i % 2 ? widen_high(DTYPE, pair) : widen_low(DTYPE, pair)), relu);\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("// Stores 32 columns of a row of a tile, from `column` on. word: (4), this lane's pairs of 8 columns.\n"
       "__device__ __forceinline__ void store_line(const attnpress_conv2d_im2col_args *args, Tile tile,\n"
       "                                           int row, int column, const uint32_t *word) {\n"
       "  const attnpress_conv2d_line *y = &args->line[tile.class_index][0];\n"
       "  const attnpress_conv2d_line *x = &args->line[tile.class_index][1];\n"
       "  const Place pixel = place_of(row, y->count, x->count);\n"
       "  const int at = pixel.outer * args->out_stride[0] +\n"
       "                 (y->first + pixel.middle * y->step) * args->out_stride[1] +\n"
       "                 (x->first + pixel.inner * x->step) * args->out_stride[2];\n"
       "  const int first = column + threadIdx.x % 4 * VECTOR;\n"
       "  const uint4 line = row_of_quad(word);\n"
       "  store_16_if(row < args->batch * y->count * x->count && first < args->out_columns,\n"
       "              (uint4 *)args->out + at + first / VECTOR, line);\n"
       "}\n"
       "\n"
       "// Stores 64 rows of a tile, of which this warp has 16. sum: (N_TILES, 4); row: this lane's first.\n"
       "__device__ __forceinline__ void store_rows(const attnpress_conv2d_im2col_args *args, Tile tile,\n"
       "                                           const float *sum, int row) {\n"
       "  const attnpress_conv2d_line *y = &args->line[tile.class_index][0];\n"
       "  const attnpress_conv2d_line *x = &args->line[tile.class_index][1];\n"
       "  const int rows = args->batch * y->count * x->count, column = threadIdx.x % 4 * VECTOR;\n"
       "#pragma unroll\n"
       "  for (int half = 0; half < 2; ++half) {\n"
       "    const Place pixel = place_of(row + half * 8, y->count, x->count);\n"
       "    const int at = pixel.outer * args->out_stride[0] +\n"
       "                   (y->first + pixel.middle * y->step) * args->out_stride[1] +\n"
       "                   (x->first + pixel.inner * x->step) * args->out_stride[2];\n"
       "    uint4 *out = (uint4 *)args->out + at + (tile.column + column) / VECTOR;\n"
       "#pragma unroll\n"
       "    for (int n = 0; n < N_TILES; n += 4) {\n"
       "      uint32_t word[4];\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < 4; ++i) {\n"
       "        const float *pair = sum + (n + i) * 4 + half * 2;\n"
       "        word[i] = pack(DTYPE, pair[0], pair[1]);\n"
       "      }\n"
       "      const uint4 line = row_of_quad(word);\n"
       "      store_16_if(row + half * 8 < rows && tile.column + n * 8 + column < args->out_columns,\n"
       "                  out + n, line);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// Adds up the parts of a tile that the cluster's thread blocks have, and stores it: each thread block\n"
       "// gets every splits-th piece of all, in the place of the ring, and adds them in the blocks' order.\n"
       "// sum: (N_TILES, 4); warp: of those that multiply.\n"
       "__device__ __forceinline__ void share_tile(const attnpress_conv2d_im2col_args *args, Tile tile,\n"
       "                                           const float *sum, unsigned char *smem, int warp) {\n"
       "  const int lane = threadIdx.x % 32, splits = args->splits;\n"
       "  const int rank = blockIdx.x % splits;\n"
       "  // All threads of the cluster that multiply arrive and wait: all products have been made, and the\n"
       "  // rings are free.\n"
       "  cluster_arrive();\n"
       "  cluster_wait();\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < N_TILES / 2; ++i) {\n"
       "    const int piece = i * WARPS + warp;\n"
       "    const uint32_t at =\n"
       "        cluster_address(shared_address(smem) +\n"
       "                            (piece / splits * splits + rank) * PIECE_BYTES + lane * 8,\n"
       "                        piece % splits);\n"
       "#pragma unroll\n"
       "    for (int n = 0; n < 4; ++n) {\n"
       "      const float *value = sum + (i / 2 * 4 + n) * 4 + i % 2 * 2;\n"
       "      const float2 pair = {value[0], value[1]};\n"
       "      store_8_cluster(at + n * 256, pair);\n"
       "    }\n"
       "  }\n"
       "  // All arrive and wait: hands over the pieces.\n"
       "  cluster_arrive();\n"
       "  cluster_wait();\n"
       "  for (int own = warp; own * splits + rank < PIECES; own += WARPS) {\n"
       "    float2 pair[4] = {};\n"
       "    for (int from = 0; from < splits; ++from) {\n"
       "      const float2 *part =\n"
       "          (const float2 *)(smem + (own * splits + from) * PIECE_BYTES) + lane;\n"
       "#pragma unroll\n"
       "      for (int n = 0; n < 4; ++n) {\n"
       "        pair[n].x += part[n * 32].x;\n"
       "        pair[n].y += part[n * 32].y;\n"
       "      }\n"
       "    }\n");
  TEXT("    const int piece = own * splits + rank, i = piece / WARPS, of = piece % WARPS;\n"
       "    const int row = tile.row + of * 16 + i % 2 * 8 + lane / 4, column = tile.column + i / 2 * 32;\n"
       "    uint32_t word[4];\n"
       "#pragma unroll\n"
       "    for (int n = 0; n < 4; ++n) {\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("      const int first = column + n * 8 + lane % 4 * 2;\n"
         "      const uint32_t bias = load_4_if(args->bias && first < args->out_columns,\n"
         "                                      (const uint16_t *)args->bias + first, 0);\n"
         "      pair[n].x = rectify(pair[n].x + widen_low(DTYPE, bias), args->relu);\n"
         "      pair[n].y = rectify(pair[n].y + widen_high(DTYPE, bias), args->relu);\n");
  }
  TEXT("      word[n] = pack(DTYPE, pair[n].x, pair[n].y);\n"
       "    }\n"
       "    store_line(args, tile, row, column, word);\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, ");
  INTEGER(min_blocks);
  TEXT(")\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_conv2d_im2col_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  const uint32_t ring = shared_address(smem);\n"
       "  // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
       "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;\n"
       "  if (threadIdx.x == 0) {\n"
       "    prefetch_tensor_map(&args.in[0][0]);\n"
       "    prefetch_tensor_map(&args.weight[0][0]);\n"
       "    make_barriers(ring);\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the barriers.\n"
       "  __syncthreads();\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "\n"
       "  Stage stage = {0, 0};\n"
       "  // Thread blocks that share a tile have no other.\n"
       "  const int first_tile = IS_SHARED && args.splits > 1 ? blockIdx.x / args.splits : blockIdx.x;\n"
       "  if (warp == CONSUMERS * 4) {\n"
       "    // The compiler knows an elected lane to be alone: copies then take uniform registers as they\n"
       "    // are, without a loop over lanes around each.\n"
       "    if (elect_lane())\n"
       "      for (int index = first_tile; index < args.tiles; index += gridDim.x) {\n"
       "        const Tile tile = find_tile(&args, index);\n"
       "        if (tile.is_there)\n"
       "          stage = copy_tile(&args, tile, ring, stage);\n"
       "      }\n"
       "    return;\n"
       "  }\n"
       "  const int row = warp / 4 * 64 * M_TILES + warp % 4 * 16 + lane / 4;\n"
       "  float sum[M_TILES * SUMS];\n"
       "  for (int index = first_tile; index < args.tiles; index += gridDim.x) {\n"
       "    const Tile tile = find_tile(&args, index);\n"
       "    if (!tile.is_there)\n"
       "      continue;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < M_TILES * SUMS; ++i)\n"
       "      sum[i] = 0.0f;\n"
       "    // A second loop, for whole slabs, that does not count them has been slower: ptxas then sets the\n"
       "    // sums to zero by way of uniform registers.\n"
       "    stage = multiply_slabs(sum, ring, warp / 4, stage, tile.begin, tile.end, args.tap_slabs,\n"
       "                           args.tail_steps);\n"
       "    if (IS_SHARED && args.splits > 1) {\n"
       "      share_tile(&args, tile, sum, smem, warp);\n"
       "      continue;\n"
       "    }\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("    uint32_t bias[BLOCK_N / 64];\n"
         "    load_bias(&args, tile, bias);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int m = 0; m < M_TILES; ++m) {\n");
  if (pass == AP_CONV2D_PASS_FPROP) {
    TEXT("      if (args.bias || args.relu)\n"
         "        finish_sum(sum + m * SUMS, bias, args.relu);\n");
  }
  TEXT("      store_rows(&args, tile, sum + m * SUMS, tile.row + row + m * 64);\n"
       "    }\n"
       "  }\n"
       "}\n");
}
