/* Written by `python -m generator` from templates/outer/outer_bwd_reduce.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_outer_bwd_reduce(ap_text *out, const ap_render_input *in);

void ap_render_outer_bwd_reduce(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t dtype = in->axis[AP_OUTER_DTYPE];
  const int32_t rows = in->field[AP_OUTER_TILE_ROWS];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// dy[n, j], ");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT(", from its parts, fp32: 2^lane_shift threads have an element, and every so\n"
       "// many parts of it each, always in the same order.\n"
       "//\n"
       "// Pressed from templates/outer/outer_bwd_reduce.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family outer --pass bwd_reduce --dtype ");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/outer.h\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_OUTER_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int STEP = ");
  INTEGER(rows);
  TEXT("; // parts that a thread loads at once\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_outer_reduce_args args) {\n"
       "  __shared__ float sums[THREADS];\n"
       "  const int lanes = 1 << args.lane_shift, beside = THREADS >> args.lane_shift;\n"
       "  const int lane = threadIdx.x / beside, own = threadIdx.x & (beside - 1);\n"
       "  const int64_t element = (int64_t)blockIdx.x * beside + own;\n"
       "  const int64_t batch = args.elements == args.columns ? 0 : element / args.columns;\n"
       "  const int column = (int)(element - batch * args.columns);\n"
       "  const bool is_there = element < args.elements;\n"
       "  const float *parts = args.dy_parts + batch * args.row_blocks * args.columns + column;\n"
       "  // The parts are there when the kernel before this one has ended; the next may begin to wait.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  float sum = 0.0f;\n"
       "  for (int first = lane; first < args.row_blocks; first += STEP * lanes) {\n"
       "    float value[STEP];\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i) {\n"
       "      const int part = first + i * lanes;\n"
       "      value[i] = 0.0f;\n"
       "      if (is_there && part < args.row_blocks)\n"
       "        value[i] = parts[(int64_t)part * args.columns];\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < STEP; ++i)\n"
       "      sum += value[i];\n"
       "  }\n"
       "  if (lanes > 1) {\n"
       "    sums[threadIdx.x] = sum;\n"
       "    // All threads arrive and wait: hands over the sums of the lanes.\n"
       "    __syncthreads();\n"
       "    for (int i = 1; i < lanes && lane == 0; ++i)\n"
       "      sum += sums[i * beside + own];\n"
       "  }\n"
       "  if (is_there && lane == 0)\n"
       "    store_element((unsigned char *)args.dy + batch * args.dy_stride * SIZE, SIZE, column,\n"
       "                  narrow_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(sum));\n"
       "}\n");
}
