/* Written by `python -m generator` from templates/conv2d/conv2d_reduce.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_conv2d_reduce(ap_text *out, const ap_render_input *in);

void ap_render_conv2d_reduce(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t dtype = in->axis[AP_CONV2D_DTYPE];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// out[e], ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT(", from its parts, fp32. A thread has four neighbouring elements, and\n"
       "// 2^group_shift groups of threads share their parts: each adds up every so many-th, and the groups'\n"
       "// sums are added up in order, so that the order is always the same.\n"
       "//\n"
       "// Pressed from templates/conv2d/conv2d_reduce.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family conv2d --pass reduce --block none --dtype ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/conv2d.h\"\n"
       "#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "\n"
       "constexpr Dtype DTYPE = ");
  STRING((dtype == AP_CONV2D_DTYPE_FP16) ? "FP16" : "BF16");
  TEXT(";\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int STEP = 4; // parts that a thread loads at once\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_conv2d_reduce_args args) {\n"
       "  __shared__ float4 sums[THREADS];\n"
       "  const int groups = 1 << args.group_shift, group_threads = THREADS >> args.group_shift;\n"
       "  const int group = threadIdx.x / group_threads;\n"
       "  const int64_t element = ((int64_t)blockIdx.x * group_threads + threadIdx.x % group_threads) * 4;\n"
       "  const bool is_there = element < args.elements;\n"
       "  // The parts are there when the kernel before this one has ended; the next may begin to wait.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "  for (int first = group; first < args.count; first += groups * STEP) {\n"
       "    uint4 part[STEP];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      const int at = first + i * groups;\n"
       "      part[i] = load_16_if(is_there && at < args.count,\n"
       "                           args.parts + (int64_t)at * args.elements + element, 0);\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      const uint32_t word[4] = {part[i].x, part[i].y, part[i].z, part[i].w};\n"
       "      sum.x += __builtin_bit_cast(float, word[0]);\n"
       "      sum.y += __builtin_bit_cast(float, word[1]);\n"
       "      sum.z += __builtin_bit_cast(float, word[2]);\n"
       "      sum.w += __builtin_bit_cast(float, word[3]);\n"
       "    }\n"
       "  }\n"
       "  sums[threadIdx.x] = sum;\n"
       "  // All threads arrive and wait: hands over the sums of the groups.\n"
       "  __syncthreads();\n"
       "  if (group != 0 || !is_there)\n"
       "    return;\n"
       "  for (int other = 1; other < groups; ++other) {\n"
       "    const float4 more = sums[other * group_threads + threadIdx.x];\n"
       "    sum.x += more.x;\n"
       "    sum.y += more.y;\n"
       "    sum.z += more.z;\n"
       "    sum.w += more.w;\n"
       "  }\n"
       "  const uint2 packed = {pack(DTYPE, sum.x, sum.y), pack(DTYPE, sum.z, sum.w)};\n"
       "  *(uint2 *)((uint16_t *)args.out + element) = packed;\n"
       "}\n");
}
