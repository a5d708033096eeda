/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_cluster.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_cluster(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_cluster(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t pass = in->axis[AP_LAYERNORM_PASS];
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS columns, rstd =\n"
         "// 1 / sqrt(variance + eps), of x + residual where there is one.\n");
  } else {
    TEXT("// y = x rstd weight + bias over the rows of a matrix of at most COLUMNS columns, rstd =\n"
         "// 1 / sqrt(mean square + eps), of x + residual where there is one.\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. CLUSTER thread blocks share a row and have it in shared\n"
       "// memory: x is read once, y may be x. Each thread keeps weight and bias of its columns in registers.\n"
       "// A cluster walks over rows, gridDim.x / CLUSTER apart.\n"
       "//\n"
       "// What a row amounts to its warps tell each other. Meanwhile they add up the next row, and while\n"
       "// they write a row the next one's sums are on their way.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_cluster.cu.j2 with tile ");
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
  TEXT(" --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_cluster.cuh\"\n"
       "#include \"attnpress/device/ptx_cp_async.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_fwd_args Args;\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n");
  int32_t of_cluster = 1;
  int32_t any_cluster = 0;
  TEXT("constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of a parameter's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "constexpr int CLUSTER = ROW_THREADS / THREADS; // thread blocks that share a row\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's parameters\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // rows in shared memory\n"
       "constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
       "constexpr int LANES = ROW_WARPS < 32 ? ROW_WARPS : 32; // that add up what the warps have\n"
       "constexpr int PARTS = ROW_WARPS / LANES;               // a lane's of these\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "\n"
       "// A warp's number in its row. Neighbours are of different blocks, so that each has as much of a row\n"
       "// that is shorter than COLUMNS.\n"
       "__device__ __forceinline__ int row_warp() {\n"
       "  return threadIdx.x / 32 * CLUSTER + blockIdx.x % CLUSTER;\n"
       "}\n"
       "\n"
       "// Row number `row` of a matrix.\n"
       "__device__ __forceinline__ unsigned char *row_of(const void *matrix, int64_t row, int64_t stride) {\n"
       "  return (unsigned char *)matrix + row * stride * SIZE;\n"
       "}\n"
       "\n"
       "// The columns of rows that exist.\n"
       "__device__ __forceinline__ int columns_of(const Args *args, int64_t row) {\n"
       "  return row < args->rows ? args->columns : 0;\n"
       "}\n"
       "\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("// Elements between a multiple of 16 bytes and the begin of a row, that of x which a cluster begins\n"
         "// with. Its later rows begin so too, where they are a multiple of four apart, which the host sees to,\n"
         "// and so do other matrices mostly: what a thread has are vectors in all of them then. 0 where threads\n"
         "// have no room for so many more: rows are moved by elements.\n"
         "__device__ __forceinline__ int shift_of(const void *row, int columns) {\n"
         "  const int shift = (int)((uint64_t)row % 16 / SIZE);\n"
         "  return columns + shift <= COLUMNS ? shift : 0;\n"
         "}\n");
  } else {
    TEXT("// Rows of 16 bits that begin elsewhere than at a multiple of 16 bytes have kernels of their own.\n"
         "__device__ __forceinline__ constexpr int shift_of(const void *, int) {\n"
         "  return 0;\n"
         "}\n");
  }
  TEXT("// The first column of a thread's vector number `index`; it may be before the row's first.\n"
       "__device__ __forceinline__ int column_of(int thread, int shift, int index) {\n"
       "  return (index * ROW_THREADS + thread) * ELEMENTS - shift;\n"
       "}\n"
       "\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("// Whether a thread's columns begin at multiples of 16 bytes in a row.\n"
         "__device__ __forceinline__ bool is_aligned(const void *row, int shift) {\n"
         "  return (uint64_t)row % 16 == shift * SIZE;\n"
         "}\n"
         "\n");
  }
  TEXT("// A thread's part of a row on its way to shared memory. slot: (VECTORS), THREADS apart\n"
       "__device__ __forceinline__ void copy_part(const void *row, int columns, int thread, int shift,\n"
       "                                          uint4 *slot) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  // More of them one after the other, as a loop, since that takes registers that they have not left.\n"
         "  constexpr int COUNT = VECTORS > 6 ? 1 : VECTORS;\n"
         "#pragma unroll 1\n"
         "  for (int i = 0; i < VECTORS; i += COUNT)\n"
         "    copy_fours(row, columns, is_aligned(row, shift), column_of(thread, shift, i),\n"
         "               ROW_THREADS * ELEMENTS, COUNT, slot + i * THREADS, THREADS);\n");
  } else {
    TEXT("  copy_columns(row, SIZE, columns, thread, ROW_THREADS, VECTORS, slot, THREADS);\n");
  }
  TEXT("}\n"
       "\n"
       "// `count` vectors of it from number `index` on. vector: (count)\n"
       "__device__ __forceinline__ void load_part(const void *row, int columns, int thread, int shift,\n"
       "                                          int index, int count, uint4 *vector) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < count; ++i)\n"
         "    vector[i] = load_four(row, columns, column_of(thread, shift, index + i));\n");
  } else {
    TEXT("  load_columns(row, SIZE, columns, index * ROW_THREADS + thread, ROW_THREADS, count, vector);\n");
  }
  TEXT("}\n"
       "\n"
       "// Stores vector number `index` of it.\n"
       "__device__ __forceinline__ void store_part(void *row, int columns, int thread, int shift, int index,\n"
       "                                           uint4 vector) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  store_four(row, columns, column_of(thread, shift, index), vector);\n");
  } else {
    TEXT("  store_columns(row, SIZE, columns, index * ROW_THREADS + thread, vector);\n");
  }
  TEXT("}\n"
       "\n"
       "// The words of a parameter of a thread's columns, `absent` where there is none; 0 beyond the row.\n"
       "// word: (VECTORS, WORDS)\n"
       "__device__ __forceinline__ void load_parameter(const void *parameter, int columns, int thread,\n"
       "                                               int shift, float absent, uint32_t (*word)[WORDS]) {\n"
       "  float filler[ELEMENTS];\n"
       "  if (parameter) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    if (shift != 0) {\n"
         "      load_scattered_parameter(parameter, PARAMETER_SIZE, columns, column_of(thread, shift, 0),\n"
         "                               ROW_THREADS * ELEMENTS, 1, VECTORS, word[0]);\n"
         "      return;\n"
         "    }\n");
  }
  TEXT("    load_parameter_vectors(parameter, PARAMETER_SIZE, columns, ELEMENTS, thread, ROW_THREADS,\n"
       "                           VECTORS, word[0]);\n"
       "    return;\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    filler[j] = absent;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(filler, ELEMENTS, word[i]);\n"
       "}\n"
       "\n");
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
       "}\n");
  if (pass == AP_LAYERNORM_PASS_FWD) {
    TEXT("// How many values a warp of the cluster has of a row.\n"
         "__device__ __forceinline__ float count_values(int columns, int warp, int shift) {\n"
         "  const int before = warp == 0 ? shift : 0; // places that are no columns\n"
         "  return (float)(count_columns(columns + shift, ELEMENTS, warp * 32, 32, ROW_THREADS, VECTORS) -\n"
         "                 before);\n"
         "}\n");
  }
  TEXT("constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == SLOTS * VECTORS * THREADS * 16, \"the generator has another formula\");\n"
       "\n"
       "// A thread's part of a row on its way to shared memory. slot: (VECTORS), THREADS apart\n"
       "__device__ __forceinline__ void send_row(const Args *args, int64_t row, int thread, int shift,\n"
       "                                         uint4 *slot) {\n"
       "  copy_part(row_of(args->x, row, args->x_row_stride), columns_of(args, row), thread, shift, slot);\n"
       "  cp_async_commit();\n"
       "}\n"
       "\n"
       "// Brings the first rows and the parameters to the L2 cache while what ran before still ends.\n"
       "// Whatever that writes of them it writes there: nothing that is read later can be older.\n"
       "__device__ __forceinline__ void prefetch_first(const Args *args, int64_t row, int64_t step,\n"
       "                                               int thread) {\n"
       "#pragma unroll 1\n"
       "  for (int i = 0; i < SLOTS; ++i)\n"
       "    prefetch_row(row_of(args->x, row + i * step, args->x_row_stride), SIZE,\n"
       "                 columns_of(args, row + i * step), thread, ROW_THREADS);\n"
       "  if (args->weight)\n"
       "    prefetch_row(args->weight, PARAMETER_SIZE, args->columns, thread, ROW_THREADS);\n"
       "  if (args->bias)\n"
       "    prefetch_row(args->bias, PARAMETER_SIZE, args->columns, thread, ROW_THREADS);\n"
       "}\n"
       "\n"
       "// x + residual, rounded, of a thread's part of a row; written back. x: (VECTORS), THREADS apart,\n"
       "// then the sum\n"
       "__device__ __forceinline__ void add_residual(const Args *args, int64_t row, int thread, int shift,\n"
       "                                             uint4 *x) {\n"
       "  constexpr int BATCH = VECTORS > 4 && VECTORS % 2 == 0 ? VECTORS / 2 : VECTORS; // loaded at once\n"
       "  const int columns = columns_of(args, row);\n"
       "#pragma unroll 1\n"
       "  for (int first = 0; first < VECTORS; first += BATCH) {\n"
       "    uint4 other[BATCH];\n"
       "    load_part(row_of(args->residual, row, args->residual_row_stride), columns, thread, shift, first,\n"
       "              BATCH, other);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < BATCH; ++i) {\n"
       "      uint4 *const own = x + (first + i) * THREADS;\n"
       "      float a[ELEMENTS], b[ELEMENTS];\n"
       "      widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(*own, a);\n"
       "      widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(other[i], b);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        a[j] += b[j];\n"
       "      *own = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(a);\n"
       "      store_part(row_of(args->sum, row, args->sum_row_stride), columns, thread, shift, first + i,\n"
       "                 *own);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// Mean, or 0, and sum of squared differences to it of the `count` values that the warp has of a\n"
       "// row. part: (VECTORS), THREADS apart\n"
       "__device__ __forceinline__ float2 add_up(const uint4 *part, int columns, int thread, int shift,\n"
       "                                         float count) {\n"
       "  uint4 x[VECTORS];\n"
       "  float2 all = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    x[i] = part[i * THREADS];\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i], value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      all.x += value[j];\n"
         "  }\n"
         "  all.x = sum_lanes(all.x, 32) / fmaxf(count, 1.0f);\n"
         "  renew_vectors(x, VECTORS);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float value[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x[i], value);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("    const int column = column_of(thread, shift, i), left = columns - column; // columns from there on\n"
         "    if (column >= 0 && left >= ELEMENTS) {\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; ++j)\n"
         "        all.y += (value[j] - all.x) * (value[j] - all.x);\n"
         "    } else {\n"
         "#pragma unroll\n"
         "      for (int j = 0; j < ELEMENTS; ++j)\n"
         "        if (column + j >= 0 && j < left)\n"
         "          all.y += (value[j] - all.x) * (value[j] - all.x);\n"
         "    }\n");
  } else {
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      all.y += value[j] * value[j];\n");
  }
  TEXT("  }\n"
       "  all.y = sum_lanes(all.y, 32);\n"
       "  return all;\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, 1)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ RowParts parts[2];\n"
       "  if (threadIdx.x == 0)\n"
       "    init_parts(parts);\n"
       "  // All threads of the cluster arrive; who reaches into another block's shared memory has waited.\n"
       "  cluster_arrive();\n"
       "  const int thread = row_warp() * 32 + threadIdx.x % 32; // of the row\n"
       "  const int64_t step = gridDim.x / CLUSTER;\n"
       "  int64_t row = blockIdx.x / CLUSTER;\n"
       "  const int shift = shift_of(row_of(args.x, row, args.x_row_stride), args.columns);\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  prefetch_first(&args, row, step, thread);\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  // Each thread has its own places: nobody else reads them.\n"
       "  uint4 *const slots = (uint4 *)smem + threadIdx.x;\n"
       "  // The parameters, too, come before the rows that follow the first.\n"
       "  send_row(&args, row, thread, shift, slots);\n"
       "  uint32_t weight[VECTORS][WORDS], bias[VECTORS][WORDS];\n"
       "  load_parameter(args.weight, args.columns, thread, shift, 1.0f, weight);\n"
       "  load_parameter(args.bias, args.columns, thread, shift, 0.0f, bias);\n"
       "#pragma unroll\n"
       "  for (int i = 1; i < SLOTS; ++i)\n"
       "    send_row(&args, row + i * step, thread, shift, slots + i * VECTORS * THREADS);\n"
       "  // How many values the warp has of a row");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? ", and those have whose moments this lane adds up" : "");
  TEXT(".\n"
       "  const float count = count_values(args.columns, row_warp(), shift);\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  float others[PARTS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < PARTS; ++i)\n"
         "    others[i] = count_values(args.columns, i * LANES + threadIdx.x % LANES, shift);\n");
  }
  TEXT("  cp_async_wait(SLOTS - 1);\n"
       "  if (args.residual)\n"
       "    add_residual(&args, row, thread, shift, slots);\n"
       "  const float2 first = add_up(slots, args.columns, thread, shift, count);\n"
       "  // All threads of the cluster have arrived: every block has its barriers.\n"
       "  cluster_wait();\n"
       "  tell(&parts[0], row_warp(), first);\n"
       "  int slot = 0, turn = 0, parity = 0; // parity: of the phase of parts[turn]\n"
       "  for (; row < args.rows; row += step) {\n"
       "    // What the next row amounts to, while others arrive.\n"
       "    const int next = slot + 1 == SLOTS ? 0 : slot + 1;\n"
       "    cp_async_wait(SLOTS - 2);\n"
       "    if (args.residual)\n"
       "      add_residual(&args, row + step, thread, shift, slots + next * VECTORS * THREADS);\n"
       "    const float2 own =\n"
       "        add_up(slots + next * VECTORS * THREADS, args.columns, thread, shift, count);\n"
       "\n"
       "    // Hands over what all warps of the cluster have of this row.\n"
       "    await_parts(&parts[turn], parity);\n"
       "    if (threadIdx.x == 0)\n"
       "      expect_parts(&parts[turn]);\n"
       "    const float2 *const part = parts[turn].warp + threadIdx.x % LANES;\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("    // About the first warp's mean, so that both sums come of one chain of shuffles.\n"
         "    const float about = parts[turn].warp[0].x;\n"
         "    float2 sums = {0.0f, 0.0f};\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < PARTS; ++i) {\n"
         "      const float difference = part[i * LANES].x - about;\n"
         "      const float weighted = others[i] * difference;\n"
         "      sums.x += weighted;\n"
         "      sums.y += part[i * LANES].y + weighted * difference;\n"
         "    }\n"
         "    sums = sum_lanes_of_two(sums, LANES);\n"
         "    const float off = sums.x * args.per_column, mean = about + off;\n"
         "    const float left = sums.y - sums.x * off, squares = left < 0.0f ? 0.0f : left; // NaN stays\n");
  } else {
    TEXT("    constexpr float mean = 0.0f;\n"
         "    float squares = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < PARTS; ++i)\n"
         "      squares += part[i * LANES].y;\n"
         "    squares = sum_lanes(squares, LANES);\n");
  }
  TEXT("    const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n");
  if (dtype != AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    // x^ by one instruction, of values that were rounded to 16 bits.\n"
         "    const float offset = -mean * rstd;\n");
  }
  TEXT("    parity ^= turn;\n"
       "    turn ^= 1;\n"
       "    tell(&parts[turn], row_warp(), own);\n"
       "\n"
       "    uint4 *const x = slots + slot * VECTORS * THREADS;\n"
       "    unsigned char *const y = row_of(args.y, row, args.y_row_stride);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i) {\n"
       "      uint32_t word[WORDS];\n"
       "      float value[ELEMENTS], factor[ELEMENTS], added[ELEMENTS];\n"
       "      widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x[i * THREADS], value);\n"
       "      renew_words(weight[i], WORDS, word);\n"
       "      widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, factor);\n"
       "      renew_words(bias[i], WORDS, word);\n"
       "      widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, added);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("        value[j] = (value[j] - mean) * rstd * factor[j] + added[j];\n");
  } else {
    TEXT("        value[j] = (value[j] * rstd + offset) * factor[j] + added[j];\n");
  }
  TEXT("      store_part(y, args.columns, thread, shift, i, narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value));\n"
       "    }\n"
       "    if (thread == 0) {\n"
       "      if (CENTERED && args.mean)\n"
       "        args.mean[row] = mean;\n"
       "      if (args.rstd)\n"
       "        args.rstd[row] = rstd;\n"
       "    }\n"
       "    // The row that comes SLOTS later takes this one's place.\n"
       "    send_row(&args, row + SLOTS * step, thread, shift, x);\n"
       "    slot = next;\n"
       "  }\n"
       "  // All warps of the cluster have told what they have of the row after the last: nobody reaches\n"
       "  // into this block's shared memory any more.\n"
       "  await_parts(&parts[turn], parity);\n"
       "}\n");
}
