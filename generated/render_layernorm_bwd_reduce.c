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
  TEXT(", from their parts, fp32. A thread block has 32 columns of one of the\n"
       "// two; its warps add up every WARPS-th part each, always in the same order.\n"
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
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of an element of dweight\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int STEP = ");
  INTEGER(step);
  TEXT("; // parts that a thread loads at once\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_reduce_args args) {\n"
       "  __shared__ float warp_sum[WARPS][32];\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
       "  const int tiles = (args.columns + 31) / 32;\n"
       "  // The first tiles are dweight's, where it is asked for.\n"
       "  const bool of_weight = args.dweight && (int)blockIdx.x < tiles;\n"
       "  const float *parts = of_weight ? args.weight_parts : args.bias_parts;\n"
       "  void *to = of_weight ? args.dweight : args.dbias;\n"
       "  const int column = blockIdx.x % tiles * 32 + lane;\n"
       "  // The parts are there when the kernels before this one have ended; the next may begin to wait.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "\n"
       "  float sum = 0.0f;\n"
       "  for (int first = warp; column < args.columns && first < args.parts; first += STEP * WARPS) {\n"
       "    float value[STEP];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      const int part = first + i * WARPS;\n"
       "      value[i] = 0.0f;\n"
       "      if (part < args.parts)\n"
       "        value[i] = parts[(int64_t)part * args.columns + column];\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i)\n"
       "      sum += value[i];\n"
       "  }\n"
       "  warp_sum[warp][lane] = sum;\n"
       "  // All threads arrive and wait: hands over the sums of the warps.\n"
       "  __syncthreads();\n"
       "  if (warp > 0 || column >= args.columns)\n"
       "    return;\n"
       "#pragma unroll\n"
       "  for (int other = 1; other < WARPS; ++other)\n"
       "    sum += warp_sum[other][lane];\n"
       "  store_element(to, PARAMETER_SIZE, column, narrow_element_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(sum));\n"
       "}\n");
}
