/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_reduce.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_reduce(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_reduce(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t step = in->field[AP_LAYERNORM_TILE_STEP];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// dweight and dbias, ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", from their parts, fp32. 2^column_shift threads of a block have\n"
       "// neighbouring columns of one of the two, a vector of 16 bytes each. Each such group adds up every\n"
       "// GROUPS-th part, and the groups' sums are added up, always in the same order.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_reduce.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass bwd_reduce --norm ");
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
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of an element of dweight\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int STEP = ");
  INTEGER(step);
  TEXT(";    // parts that a thread loads at once\n"
       "constexpr int ELEMENTS = 4; // of a vector\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4;\n"
       "\n"
       "// Vectors at `column` of the parts `first`, `first` + apart ..., 0 where there are none. parts:\n"
       "// (count, pitch), vector: (STEP)\n"
       "__device__ __forceinline__ void load_parts(const float *parts, int count, int columns, int pitch,\n"
       "                                           int column, int first, int apart, uint4 *vector) {\n"
       "  // One branch for all: every load of a thread is on its way before the first is waited for.\n"
       "  if (pitch % ELEMENTS == 0) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      const int part = first + i * apart;\n"
       "      vector[i] =\n"
       "          load_16_if(part < count && column < columns, parts + (int64_t)part * pitch + column, 0);\n"
       "    }\n"
       "    return;\n"
       "  }\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < STEP; ++i) {\n"
       "    const int part = first + i * apart;\n"
       "    load_columns(parts + (int64_t)part * pitch, 4, part < count ? columns : 0, column / ELEMENTS,\n"
       "                 0, 1, &vector[i]);\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_reduce_args args) {\n"
       "  __shared__ float4 group_sum[THREADS];\n"
       "  const int column_threads = 1 << args.column_shift;\n"
       "  const int groups = THREADS >> args.column_shift, group = threadIdx.x >> args.column_shift;\n"
       "  const int block_columns = column_threads * ELEMENTS;\n"
       "  const int tiles = (args.columns + block_columns - 1) / block_columns;\n"
       "  // The first tiles are dweight's, where it is asked for.\n"
       "  const bool of_weight = args.dweight && (int)blockIdx.x < tiles;\n"
       "  const float *parts = of_weight ? args.weight_parts : args.bias_parts;\n"
       "  void *to = of_weight ? args.dweight : args.dbias;\n"
       "  const int column =\n"
       "      (blockIdx.x % tiles * column_threads + threadIdx.x % column_threads) * ELEMENTS;\n"
       "  // The next kernel may begin, and wait. The parts are there when those before this one have ended.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  griddepcontrol_wait();\n"
       "\n"
       "  float sum[ELEMENTS] = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "  for (int first = group; first < args.parts; first += STEP * groups) {\n"
       "    uint4 vector[STEP];\n"
       "    load_parts(parts, args.parts, args.columns, args.pitch, column, first, groups, vector);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      float value[ELEMENTS];\n"
       "      widen_vector_fp32(vector[i], value);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        sum[j] += value[j];\n"
       "    }\n"
       "  }\n"
       "  const float4 own = {sum[0], sum[1], sum[2], sum[3]};\n"
       "  group_sum[threadIdx.x] = own;\n"
       "  // All threads arrive and wait: hands over the sums of the groups.\n"
       "  __syncthreads();\n"
       "  if (group > 0)\n"
       "    return;\n"
       "#pragma unroll 4\n"
       "  for (int other = 1; other < groups; ++other) {\n"
       "    const float4 more = group_sum[other * column_threads + threadIdx.x];\n"
       "    sum[0] += more.x;\n"
       "    sum[1] += more.y;\n"
       "    sum[2] += more.z;\n"
       "    sum[3] += more.w;\n"
       "  }\n"
       "  uint32_t word[WORDS];\n"
       "  narrow_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(sum, ELEMENTS, word);\n"
       "  store_span(to, PARAMETER_SIZE, column, args.columns, ELEMENTS, word);\n"
       "}\n");
}
