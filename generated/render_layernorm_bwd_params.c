/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_params.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_params(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_params(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t step = in->field[AP_LAYERNORM_TILE_STEP];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// Parts of dweight = sum(dy x^) and dbias = sum(dy) over the rows, x^ = (x - mean) rstd");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0");
  TEXT(";\n"
       "// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", fp32 inside. A thread block has 32 ELEMENTS columns, a vector of each lane, and every\n"
       "// args.parts-th group of WARPS * STEP rows; another kernel then adds up the parts.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_params.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass bwd_params --norm ");
  STRING(in->word[AP_LAYERNORM_NORM]);
  TEXT(" --cols ");
  INTEGER(cols);
  TEXT(" \\\n"
       "//     --dtype ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(" --params ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int STEP = ");
  INTEGER(step);
  TEXT(";     // rows that a thread loads at once\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "\n"
       "// The first warp adds up what the others have, and writes it.\n"
       "__device__ __forceinline__ void store_sums(float *parts, int part, int column, int columns,\n"
       "                                           float *sum) {\n"
       "  __shared__ float warp_sum[WARPS][ELEMENTS][32];\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
       "  // All threads arrive and wait: what was here before has been read.\n"
       "  __syncthreads();\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    warp_sum[warp][j][lane] = sum[j];\n"
       "  // All threads arrive and wait: hands over the sums of the warps.\n"
       "  __syncthreads();\n"
       "  if (warp > 0)\n"
       "    return;\n"
       "  float *to = parts + (int64_t)part * columns + column;\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j) {\n"
       "    for (int other = 1; other < WARPS; ++other)\n"
       "      sum[j] += warp_sum[other][j][lane];\n"
       "    if (column + j < columns)\n"
       "      to[j] = sum[j];\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "  const int part = blockIdx.x % args.parts;\n"
       "  const int index = blockIdx.x / args.parts * 32 + threadIdx.x % 32; // of the row's vectors\n"
       "  float weight_sum[ELEMENTS], bias_sum[ELEMENTS];\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    weight_sum[j] = bias_sum[j] = 0.0f;\n"
       "\n"
       "  const int64_t rows_apart = (int64_t)args.parts * WARPS * STEP;\n"
       "  for (int64_t first = ((int64_t)part * WARPS + threadIdx.x / 32) * STEP; first < args.rows;\n"
       "       first += rows_apart) {\n"
       "    uint4 x[STEP], dy[STEP];\n"
       "    float mean[STEP], rstd[STEP];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      const int64_t row = first + i;\n"
       "      const int columns = row < args.rows ? args.columns : 0;\n"
       "      load_columns((const unsigned char *)args.x + row * args.x_row_stride * SIZE, SIZE, columns,\n"
       "                   index, 0, 1, &x[i]);\n"
       "      load_columns((const unsigned char *)args.dy + row * args.dy_row_stride * SIZE, SIZE, columns,\n"
       "                   index, 0, 1, &dy[i]);\n"
       "      mean[i] = rstd[i] = 0.0f;\n"
       "      if (row < args.rows) {\n"
       "        if (CENTERED)\n"
       "          mean[i] = args.mean[row];\n"
       "        rstd[i] = args.rstd[row];\n"
       "      }\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      float a[ELEMENTS], b[ELEMENTS];\n"
       "      widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x[i], a);\n"
       "      widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(dy[i], b);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j) {\n"
       "        weight_sum[j] += b[j] * ((a[j] - mean[i]) * rstd[i]);\n"
       "        bias_sum[j] += b[j];\n"
       "      }\n"
       "    }\n"
       "  }\n"
       "  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  if (args.weight_parts)\n"
       "    store_sums(args.weight_parts, part, index * ELEMENTS, args.columns, weight_sum);\n"
       "  if (args.bias_parts)\n"
       "    store_sums(args.bias_parts, part, index * ELEMENTS, args.columns, bias_sum);\n"
       "}\n");
}
