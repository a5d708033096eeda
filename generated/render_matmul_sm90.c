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
       "// The thread blocks of a cluster share row blocks of BLOCK_M rows: each computes BLOCK_N columns of\n"
       "// the result, as many as its accumulators hold, and reads the whole rows of x for it. None may store\n"
       "// before all have read: each arrives at the cluster's barrier when its last piece of x has landed in\n"
       "// shared memory, multiplies what is left, and waits at the barrier before it stores. While it stores,\n"
       "// the producer already loads the next row block's x and W. docs/hopper.md explains wgmma, TMA and\n"
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
  TEXT(" --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/matmul.h\"\n"
       "#include \"attnpress/device/matmul.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cluster.cuh\"\n"
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
  TEXT(";   // rows of a cluster\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT(";   // columns of a thread block\n"
       "constexpr int BLOCK_K = 64;    // depth of a stage: a row of the swizzle\n"
       "constexpr int STAGES = ");
  INTEGER(stages);
  TEXT(";\n"
       "constexpr int TILES = BLOCK_N / 8; // of 8 columns\n"
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
       "constexpr int CONSUMER_REGISTERS = 232;\n"
       "static_assert(BARRIER_OFFSET + STAGES * 16 == SMEM_BYTES, \"as the generator has it\");\n"
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
       "// The row blocks of this cluster, [begin, end), and the first column of this thread block.\n"
       "struct Work {\n"
       "  int begin, end, column;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Work find_work(const attnpress_matmul_args_sm90 *args) {\n"
       "  const int begin = blockIdx.x / args->cluster * args->cluster_share;\n"
       "  return {begin, min(begin + args->cluster_share, args->row_blocks),\n"
       "          (int)(blockIdx.x % args->cluster) * BLOCK_N};\n"
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
       "// The producer's warpgroup, whose first thread loads. All of its threads meet the cluster, as the\n"
       "// consumers' do: its barrier counts them, and they wait because they will arrive again.\n"
       "__device__ __forceinline__ void produce(const attnpress_matmul_args_sm90 *args, uint32_t shared) {\n"
       "  const Work work = find_work(args);\n"
       "  Stage stage = {0, 0};\n"
       "  for (int block = work.begin; block < work.end; ++block) {\n"
       "    for (int depth = 0; depth < args->n; depth += BLOCK_K) {\n"
       "      if (threadIdx.x == 0)\n"
       "        load_stage(args, shared, stage, block * BLOCK_M, work.column, depth);\n"
       "      stage = next_stage(stage, STAGES);\n"
       "    }\n"
       "    __syncwarp();\n"
       "    if (args->cluster > 1) {\n"
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
       "// One consumer: 64 rows of each row block.\n"
       "__device__ __forceinline__ void consume(const attnpress_matmul_args_sm90 *args, uint32_t shared,\n"
       "                                        int consumer) {\n"
       "  const Work work = find_work(args);\n"
       "  const int n = args->n;\n"
       "  Stage stage = {0, 0};\n"
       "  float sum[TILES * 4];\n"
       "  for (int block = work.begin; block < work.end; ++block) {\n"
       "    int last = 0; // the stage whose products are in flight\n"
       "    for (int depth = 0; depth < n; depth += BLOCK_K) {\n"
       "      // The copy engine hands over x and W.\n"
       "      wait_for_phase(full(shared, stage.index), stage.parity);\n"
       "      // All of this thread block's reads of the row block are done: to the others of the cluster.\n"
       "      if (depth + BLOCK_K >= n && args->cluster > 1)\n"
       "        cluster_arrive();\n"
       "      start_stage(sum, shared, consumer, stage.index, depth == 0);\n"
       "      if (depth > 0)\n"
       "        finish_stage(sum, shared, last, 1);\n"
       "      last = stage.index;\n"
       "      stage = next_stage(stage, STAGES);\n"
       "    }\n"
       "    finish_stage(sum, shared, last, 0);\n"
       "\n"
       "    // All thread blocks have read these rows: their place is free.\n"
       "    if (args->cluster > 1)\n"
       "      cluster_wait();\n"
       "    const int row = block * BLOCK_M + consumer * 64 + threadIdx.x / 32 % 4 * 16;\n"
       "    uint16_t *out = (uint16_t *)args->out + row * args->x_stride + work.column;\n"
       "#pragma unroll\n"
       "    for (int tile = 0; tile < TILES; tile += 4)\n"
       "      store_four_tiles(out + tile * 8, args->x_stride, sum + tile * 4, DTYPE, args->rows - row,\n"
       "                       n - work.column - tile * 8);\n"
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
       "  // All threads arrive and wait: hands over the barriers.\n"
       "  __syncthreads();\n"
       "\n"
       "  if (threadIdx.x < 128) {\n"
       "    decrease_registers(PRODUCER_REGISTERS);\n"
       "    produce(&args, shared);\n"
       "  } else {\n"
       "    increase_registers(CONSUMER_REGISTERS);\n"
       "    // Read from lane 0, so that the compiler knows it to be the same in the whole warp.\n"
       "    consume(&args, shared, __shfl_sync(0xffffffff, threadIdx.x / 128, 0) - 1);\n"
       "  }\n"
       "}\n");
}
