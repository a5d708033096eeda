/* Written by `python -m generator` from templates/matmul/matmul_sm90.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_matmul_sm90(ap_text *out, const ap_render_input *in);

void ap_render_matmul_sm90(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t pass = in->axis[AP_MATMUL_PASS];
  const int32_t cols = in->axis[AP_MATMUL_COLS];
  const int32_t dtype = in->axis[AP_MATMUL_DTYPE];
  const int32_t block = in->axis[AP_MATMUL_BLOCK];
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
  TEXT(" in place, ");
  STRING(in->word[AP_MATMUL_DTYPE]);
  TEXT(", sums in fp32, with wgmma and TMA.\n"
       "//\n"
       "// Thread blocks share row blocks of BLOCK_M rows: each computes BLOCK_N columns of the result, as\n"
       "// many as its accumulators hold, and reads the whole rows of x for it. None may store before all\n"
       "// have read: each arrives at a barrier when its last piece of x has landed in shared memory,\n"
       "// multiplies what is left, and waits at the barrier before it stores. While it stores, the producer\n"
       "// already loads the next row block's x and W. The barrier is a cluster's, which those that share\n"
       "// rows are, or that of all thread blocks, which then run at the same time. There a tile that has\n"
       "// the device to itself may be split: the blocks of a cluster each have a part of its depth, and add\n"
       "// up their sums through shared memory, in one order. docs/hopper.md explains wgmma, TMA and\n"
       "// barriers in shared memory.\n"
       "//\n"
       "// Pressed from templates/matmul/matmul_sm90.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family matmul --pass ");
  STRING(in->word[AP_MATMUL_PASS]);
  TEXT(" --cols ");
  INTEGER(cols);
  TEXT(" --dtype ");
  STRING(in->word[AP_MATMUL_DTYPE]);
  if (block != AP_MATMUL_BLOCK_M128N256) {
    TEXT(" --block ");
    STRING(in->word[AP_MATMUL_BLOCK]);
  }
  TEXT(" --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/matmul.h\"\n"
       "#include \"attnpress/device/matmul.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cluster.cuh\"\n"
       "#include \"attnpress/device/ptx_grid.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/ptx_warpgroup.cuh\"\n"
       "#include \"attnpress/device/ptx_wgmma.cuh\"\n"
       "#include \"attnpress/device/tile.cuh\"\n"
       "#include \"attnpress/device/wgmma/ptx_wgmma_n");
  INTEGER(block_n);
  TEXT(".cuh\"\n"
       "\n"
       "constexpr Dtype DTYPE = ");
  STRING((dtype == AP_MATMUL_DTYPE_FP16) ? "FP16" : "BF16");
  TEXT(";\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int CONSUMERS = ");
  INTEGER(row_warps / 4);
  TEXT(";   // warpgroups that multiply, 64 rows each\n"
       "constexpr int BLOCK_M = ");
  INTEGER(block_m);
  TEXT(";   // rows of a thread block\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT(";   // columns of a thread block\n"
       "constexpr int BLOCK_K = 64;    // depth of a stage: a row of the swizzle\n"
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT(";\n"
       "constexpr int TILES_SHIFT = BLOCK_N == 64 ? 3 : BLOCK_N == 128 ? 4 : 5;\n"
       "constexpr int TILES = 1 << TILES_SHIFT; // of 8 columns\n"
       "static_assert(BLOCK_N == 8 * TILES, \"64, 128 or 256 columns\");\n"
       "constexpr int X_BYTES = BLOCK_M * 128;\n"
       "constexpr int W_BYTES = BLOCK_N * 128;\n"
       "constexpr int W_OFFSET = STAGES * X_BYTES;\n"
       "constexpr int BARRIER_OFFSET = W_OFFSET + STAGES * W_BYTES;\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n");
  if (pass == AP_MATMUL_PASS_NN) {
    TEXT("constexpr int SLAB_BYTES = BLOCK_K * 128; // 64 columns of W, a row for each k\n");
  }
  TEXT("constexpr int PRODUCER_REGISTERS = 40;\n"
       "constexpr int CONSUMER_REGISTERS = ");
  INTEGER((block_m == 192) ? 152 : 232);
  TEXT(";\n"
       "static_assert(BARRIER_OFFSET + STAGES * 16 == SMEM_BYTES, \"as the generator has it\");\n"
       "constexpr int CONSUMER_THREADS = 128 * CONSUMERS;\n"
       "// Of sums, in the place of the ring: two of each thread.\n"
       "constexpr int PAIR_BYTES = 8 * CONSUMER_THREADS;\n"
       "static_assert(TILES * 2 * PAIR_BYTES <= BARRIER_OFFSET, \"sums take the place of the ring\");\n"
       "static_assert(BLOCK_M == 64 * CONSUMERS && THREADS == 128 * (1 + CONSUMERS), \"64 rows a consumer\");\n"
       "\n"
       "// A stage of x and W is there: the producer arrives, and the copies' bytes.\n"
       "__device__ __forceinline__ uint32_t full(uint32_t shared, int stage) {\n"
       "  return shared + BARRIER_OFFSET + stage * 16;\n"
       "}\n"
       "\n"
       "// It has been read: each warp of the consumers arrives.\n"
       "__device__ __forceinline__ uint32_t empty(uint32_t shared, int stage) {\n"
       "  return shared + BARRIER_OFFSET + stage * 16 + 8;\n"
       "}\n"
       "\n"
       "// What a thread block computes: row blocks begin, begin + step ..., `share` of them, of which those\n"
       "// from args.row_blocks on are not there; BLOCK_N columns; a part of the depth, of which it is\n"
       "// number `part` of its cluster.\n"
       "struct Work {\n"
       "  int begin, step, share, column, part;\n"
       "  int depth_begin, depth_end;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Work find_work(const attnpress_matmul_args_sm90 *args) {\n"
       "  Work work = {0, 1, args->share, 0, 0, 0, args->n};\n"
       "  const int shift = args->split_shift;\n"
       "  const int tile = blockIdx.x >> shift, tiles = gridDim.x >> shift;\n"
       "  const int row = tile / args->column_blocks; // of those that are worked on at the same time\n"
       "  work.column = tile % args->column_blocks * BLOCK_N;\n"
       "  work.begin = args->together ? row : row * args->share;\n"
       "  if (args->together)\n"
       "    work.step = tiles / args->column_blocks;\n"
       "  if (shift > 0) {\n"
       "    const int steps = ceil_div(args->n, BLOCK_K);\n"
       "    work.part = blockIdx.x & ((1 << shift) - 1);\n"
       "    work.depth_begin = (steps * work.part >> shift) * BLOCK_K;\n"
       "    work.depth_end = min((steps * (work.part + 1) >> shift) * BLOCK_K, args->n);\n"
       "  }\n"
       "  return work;\n"
       "}\n"
       "\n"
       "// The producer's one thread: x and W of a stage. What lies outside of them arrives as zeros.\n"
       "__device__ __forceinline__ void load_stage(const attnpress_matmul_args_sm90 *args, uint32_t shared,\n"
       "                                           Stage stage, int row, int column, int depth) {\n"
       "  const uint32_t barrier = full(shared, stage.index);\n"
       "  const uint32_t w = shared + W_OFFSET + stage.index * W_BYTES;\n"
       "  wait_for_phase(empty(shared, stage.index), stage.parity ^ 1);\n"
       "  mbarrier_arrive_expect(barrier, X_BYTES + W_BYTES);\n"
       "  tma_load_4d(shared + stage.index * X_BYTES, &args->x, barrier, depth, row, 0, 0);\n");
  if (pass == AP_MATMUL_PASS_NT) {
    TEXT("  tma_load_4d(w, &args->w, barrier, depth, column, 0, 0);\n");
  } else {
    TEXT("  for (int slab = 0; slab < BLOCK_N / 64; ++slab)\n"
         "    tma_load_4d(w + slab * SLAB_BYTES, &args->w, barrier, column + slab * 64, depth, 0, 0);\n");
  }
  TEXT("}\n"
       "\n"
       "// The producer's warpgroup, whose first thread loads. All of its threads meet the cluster that\n"
       "// shares rows, as the consumers' do: its barrier counts them, and they wait because they will\n"
       "// arrive again. Of a cluster that shares a tile's depth they leave: it counts those that are there.\n"
       "__device__ __forceinline__ void produce(const attnpress_matmul_args_sm90 *args, uint32_t shared) {\n"
       "  const Work work = find_work(args);\n"
       "  const bool meets = !args->together && args->column_blocks > 1;\n"
       "  Stage stage = {0, 0};\n"
       "  for (int turn = 0; turn < work.share; ++turn) {\n"
       "    const int block = work.begin + turn * work.step;\n"
       "    if (block >= args->row_blocks)\n"
       "      break;\n"
       "    for (int depth = work.depth_begin; depth < work.depth_end; depth += BLOCK_K) {\n"
       "      if (threadIdx.x == 0)\n"
       "        load_stage(args, shared, stage, block * BLOCK_M, work.column, depth);\n"
       "      stage = next_stage(stage, STAGES);\n"
       "    }\n"
       "    __syncwarp();\n"
       "    if (meets) {\n"
       "      cluster_arrive();\n"
       "      cluster_wait();\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// Starts sum += x W of a stage, this consumer's 64 rows; of the first one, sum = x W.\n"
       "__device__ __forceinline__ void start_stage(float sum[TILES * 4], uint32_t shared, int consumer,\n"
       "                                            int stage, bool first) {\n"
       "  const uint64_t x =\n"
       "      wgmma_descriptor(shared + stage * X_BYTES + consumer * (64 * 128), 1024, 0);\n");
  if (pass == AP_MATMUL_PASS_NT) {
    TEXT("  const uint64_t w = wgmma_descriptor(shared + W_OFFSET + stage * W_BYTES, 1024, 0);\n");
  } else {
    TEXT("  const uint64_t w = wgmma_descriptor(shared + W_OFFSET + stage * W_BYTES, 1024, SLAB_BYTES);\n");
  }
  TEXT("  wgmma_order_n");
  INTEGER(block_n);
  TEXT("(sum);\n"
       "  wgmma_fence();\n"
       "#pragma unroll\n"
       "  for (int step = 0; step < BLOCK_K / 16; ++step)\n");
  if (pass == AP_MATMUL_PASS_NT) {
    TEXT("    wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_MATMUL_DTYPE]);
    TEXT("_ss(sum, x + step * 32 / 16, w + step * 32 / 16,\n"
         "                             step > 0 || !first);\n");
  } else {
    TEXT("    wgmma_m64n");
    INTEGER(block_n);
    TEXT("k16_");
    STRING(in->word[AP_MATMUL_DTYPE]);
    TEXT("_ss_trans(sum, x + step * 32 / 16, w + step * 16 * 128 / 16,\n"
         "                                   step > 0 || !first);\n");
  }
  TEXT("  wgmma_commit();\n"
       "}\n"
       "\n"
       "// Waits until at most `pending` stages' products are unfinished, and gives a stage back.\n"
       "__device__ __forceinline__ void finish_stage(float sum[TILES * 4], uint32_t shared, int stage,\n"
       "                                             int pending) {\n"
       "  wgmma_wait(pending);\n"
       "  wgmma_order_n");
  INTEGER(block_n);
  TEXT("(sum);\n"
       "  arrive_once(empty(shared, stage));\n"
       "}\n"
       "\n"
       "// Where in the ring's place pair number `pair` of a thread's sums lies that part `from` has.\n"
       "__device__ __forceinline__ uint32_t pair_place(uint32_t shared, int from, int pairs, int pair) {\n"
       "  return shared + (from * pairs + pair) * PAIR_BYTES + (threadIdx.x - 128) * 8;\n"
       "}\n"
       "\n"
       "// The blocks of a cluster each hand the others what is theirs: tiles number [part * own, ...). Then\n"
       "// each adds up its own, in the order of the parts, and stores them.\n"
       "__device__ __forceinline__ void hand_over(const attnpress_matmul_args_sm90 *args, uint32_t shared,\n"
       "                                          int part, const float sum[TILES * 4]) {\n"
       "  const int shift = TILES_SHIFT - args->split_shift, pairs = 2 << shift;\n"
       "  // All threads of the cluster arrive and wait: nobody reads the rings any more.\n"
       "  cluster_arrive();\n"
       "  cluster_wait();\n"
       "#pragma unroll\n"
       "  for (int tile = 0; tile < TILES; ++tile) {\n"
       "    const uint32_t there = cluster_address(shared, tile >> shift);\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half)\n"
       "      store_8_cluster(pair_place(there, part, pairs, (tile * 2 + half) & (pairs - 1)),\n"
       "                      float2{sum[tile * 4 + half * 2], sum[tile * 4 + half * 2 + 1]});\n"
       "  }\n"
       "  // They arrive and wait: hands over the sums.\n"
       "  cluster_arrive();\n"
       "  cluster_wait();\n"
       "}\n"
       "\n"
       "// Four tiles' sums of all parts, from tile number `first` of this block's own.\n"
       "__device__ __forceinline__ void add_parts(const attnpress_matmul_args_sm90 *args,\n"
       "                                          const unsigned char *smem, int first, float *total) {\n"
       "  const int pairs = (TILES >> args->split_shift) * 2;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 16; ++i)\n"
       "    total[i] = 0.0f;\n"
       "  for (int from = 0; from < 1 << args->split_shift; ++from)\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < 8; ++i) {\n"
       "      const float2 pair = *(const float2 *)(smem + pair_place(0, from, pairs, first * 2 + i));\n"
       "      total[i * 2] += pair.x;\n"
       "      total[i * 2 + 1] += pair.y;\n"
       "    }\n"
       "}\n"
       "\n"
       "// Waits until all thread blocks have read the rows; by all consumers.\n"
       "__device__ __forceinline__ void wait_for_readers(const attnpress_matmul_args_sm90 *args,\n"
       "                                                 uint32_t arrived) {\n"
       "  if (!args->together) {\n"
       "    if (args->column_blocks > 1)\n"
       "      cluster_wait();\n"
       "    return;\n"
       "  }\n"
       "  if (threadIdx.x == 128)\n"
       "    while (!grid_has_come(arrived))\n"
       "      ;\n"
       "  // All consumers arrive and wait: one of them has seen it.\n"
       "  named_barrier_sync(1, CONSUMER_THREADS);\n"
       "}\n"
       "\n"
       "// One consumer: 64 rows of each row block.\n"
       "__device__ __forceinline__ void consume(const attnpress_matmul_args_sm90 *args,\n"
       "                                        const unsigned char *smem, uint32_t shared, int consumer) {\n"
       "  const Work work = find_work(args);\n"
       "  const int n = args->n;\n"
       "  const bool meets = !args->together && args->column_blocks > 1;\n"
       "  Stage stage = {0, 0};\n"
       "  float sum[TILES * 4];\n"
       "  for (int turn = 0; turn < work.share; ++turn) {\n"
       "    const int block = work.begin + turn * work.step;\n"
       "    uint32_t arrived = 0;\n"
       "    if (block >= args->row_blocks) {\n"
       "      // Those that have rows of this turn wait for all.\n"
       "      if (args->together && threadIdx.x == 128)\n"
       "        grid_arrive();\n"
       "      break;\n"
       "    }\n"
       "    int last = 0; // the stage whose products are in flight\n"
       "    for (int depth = work.depth_begin; depth < work.depth_end; depth += BLOCK_K) {\n"
       "      // The copy engine hands over x and W.\n"
       "      wait_for_phase(full(shared, stage.index), stage.parity);\n"
       "      // All of this thread block's reads of the row block are done: to the others that share it.\n"
       "      if (depth + BLOCK_K >= work.depth_end) {\n"
       "        if (meets)\n"
       "          cluster_arrive();\n"
       "        if (args->together && threadIdx.x == 128)\n"
       "          arrived = grid_arrive();\n"
       "      }\n"
       "      start_stage(sum, shared, consumer, stage.index, depth == work.depth_begin);\n"
       "      if (depth > work.depth_begin)\n"
       "        finish_stage(sum, shared, last, 1);\n"
       "      last = stage.index;\n"
       "      stage = next_stage(stage, STAGES);\n"
       "    }\n"
       "    finish_stage(sum, shared, last, 0);\n"
       "\n");
  TEXT("    const int row = block * BLOCK_M + consumer * 64 + threadIdx.x / 32 % 4 * 16;\n"
       "    uint16_t *out = (uint16_t *)args->out + row * args->x_stride;\n"
       "    if (args->split_shift > 0) {\n"
       "      const int own = TILES >> args->split_shift;\n"
       "      hand_over(args, shared, work.part, sum);\n"
       "      wait_for_readers(args, arrived);\n"
       "#pragma unroll 1\n"
       "      for (int tile = 0; tile < own; tile += 4) {\n"
       "        const int column = work.column + (work.part * own + tile) * 8;\n"
       "        float total[16];\n"
       "        add_parts(args, smem, tile, total);\n"
       "        store_four_tiles(out + column, args->x_stride, total, DTYPE, args->rows - row, n - column);\n"
       "      }\n"
       "      continue;\n"
       "    }\n"
       "    // All thread blocks have read these rows: their place is free.\n"
       "    wait_for_readers(args, arrived);\n"
       "#pragma unroll\n"
       "    for (int tile = 0; tile < TILES; tile += 4)\n"
       "      store_four_tiles(out + work.column + tile * 8, args->x_stride, sum + tile * 4, DTYPE,\n"
       "                       args->rows - row, n - work.column - tile * 8);\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, 1)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_matmul_args_sm90 args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  const uint32_t shared = shared_address(smem);\n"
       "  if (threadIdx.x == 0) {\n"
       "    prefetch_tensor_map(&args.x);\n"
       "    prefetch_tensor_map(&args.w);\n"
       "    for (int stage = 0; stage < STAGES; ++stage) {\n"
       "      mbarrier_init(full(shared, stage), 1);\n"
       "      mbarrier_init(empty(shared, stage), 4 * CONSUMERS);\n"
       "    }\n"
       "    fence_mbarrier_init();\n"
       "  }\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  // All threads arrive and wait: hands over the barriers.\n"
       "  __syncthreads();\n"
       "\n"
       "  if (threadIdx.x < 128) {\n"
       "    decrease_registers(PRODUCER_REGISTERS);\n"
       "    produce(&args, shared);\n"
       "  } else {\n"
       "    increase_registers(CONSUMER_REGISTERS);\n"
       "    // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
       "    consume(&args, smem, shared, __shfl_sync(0xffffffff, threadIdx.x / 128, 0) - 1);\n"
       "  }\n"
       "}\n");
}
