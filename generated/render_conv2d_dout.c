/* Written by `python -m generator` from templates/conv2d/conv2d_dout.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_conv2d_dout(ap_text *out, const ap_render_input *in);

void ap_render_conv2d_dout(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// masked = dout where out is positive, else 0; and sums of that, or of dout, over the pixels of a\n"
       "// thread block, which another kernel adds up to the gradient of the bias; ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT(", fp32 inside.\n"
       "// A thread has a vector of 8 filters of every LINES-th pixel.\n"
       "//\n"
       "// Pressed from templates/conv2d/conv2d_dout.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family conv2d --pass dout --block none --dtype ");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/conv2d.h\"\n"
       "#include \"attnpress/device/conv2d.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int LINES = THREADS / 8; // pixels that a thread block reads at once\n"
       "constexpr int STEP = 4;            // pixels that a thread loads at once\n"
       "\n"
       "__device__ __forceinline__ int offset_of(Place pixel, const int *stride) {\n"
       "  return pixel.outer * stride[0] + pixel.middle * stride[1] + pixel.inner * stride[2];\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_conv2d_dout_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  __shared__ float sums[LINES][8 * VECTOR];\n"
       "  const int line = threadIdx.x / 8;\n"
       "  const int vector = blockIdx.x % args.column_blocks * 8 + threadIdx.x % 8;\n"
       "  const int row_block = blockIdx.x / args.column_blocks;\n"
       "  const int first = row_block * args.block_pixels;\n"
       "  const int end = min(first + args.block_pixels, args.batch * args.out_height * args.out_width);\n"
       "  Place pixel = place_of(first + line, args.out_height, args.out_width);\n"
       "  const Place by = place_of(LINES, args.out_height, args.out_width);\n"
       "  const bool is_there = vector < args.vectors;\n"
       "  float sum[VECTOR];\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < VECTOR; ++j)\n"
       "    sum[j] = 0.0f;\n"
       "  for (int index = first + line; index < end; index += LINES * STEP) {\n"
       "    uint4 given[STEP], out[STEP];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      const bool valid = is_there && index + i * LINES < end;\n"
       "      given[i] = load_16_if(\n"
       "          valid, (const uint4 *)args.dout + offset_of(pixel, args.dout_stride) + vector, 0);\n"
       "      out[i] = load_16_if(valid && args.out,\n"
       "                          (const uint4 *)args.out + offset_of(pixel, args.out_stride) + vector, 0);\n"
       "      advance(&pixel, by, args.out_height, args.out_width);\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      float value[VECTOR], result[VECTOR];\n"
       "      widen_vector_");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT("(given[i], value);\n"
       "      widen_vector_");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT("(out[i], result);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < VECTOR; ++j) {\n"
       "        value[j] = args.out && !(result[j] > 0.0f) ? 0.0f : value[j];\n"
       "        sum[j] += value[j];\n"
       "      }\n"
       "      store_16_if(args.masked && is_there && index + i * LINES < end,\n"
       "                  (uint4 *)args.masked + (int64_t)(index + i * LINES) * args.vectors + vector,\n"
       "                  narrow_vector_");
  STRING(in->word[AP_CONV2D_DTYPE]);
  TEXT("(value));\n"
       "    }\n"
       "  }\n"
       "  if (!args.parts)\n"
       "    return;\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < VECTOR; ++j)\n"
       "    sums[line][threadIdx.x % 8 * VECTOR + j] = sum[j];\n"
       "  // All threads arrive and wait: hands over the sums of the lines.\n"
       "  __syncthreads();\n"
       "  const int column = blockIdx.x % args.column_blocks * 8 * VECTOR + threadIdx.x;\n"
       "  if (threadIdx.x >= 8 * VECTOR || column >= args.vectors * VECTOR)\n"
       "    return;\n"
       "  float total = 0.0f;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < LINES; ++i)\n"
       "    total += sums[i][threadIdx.x];\n"
       "  args.parts[(int64_t)row_block * args.vectors * VECTOR + column] = total;\n"
       "}\n");
}
