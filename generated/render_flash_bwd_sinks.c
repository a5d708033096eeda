/* Written by `python -m generator` from templates/attention/flash_bwd_sinks.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_bwd_sinks(ap_text *out, const ap_render_input *in);

void ap_render_flash_bwd_sinks(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t hdim = in->axis[AP_ATTENTION_HDIM];
  const int32_t sequences = in->axis[AP_ATTENTION_SEQUENCES];
  const int32_t warps_m = in->field[AP_ATTENTION_TILE_WARPS_M];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// Part of the backward pass: of each head dsink = -sum of P delta over batch and rows, where P =\n"
       "// exp(sink - lse) is the sink's own probability. One thread block sums up a head, always in one\n"
       "// order. It reads lse_log2 and delta, which have inf and 0 for rows past the end.\n"
       "//\n"
       "// Pressed from templates/attention/flash_bwd_sinks.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass bwd_sinks --hdim ");
  INTEGER(hdim);
  TEXT(" --dtype ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT(" --");
    STRING(in->word[AP_ATTENTION_SEQUENCES]);
  }
  TEXT("\n"
       "#include \"attnpress/args/attention.h\"\n"
       "#include \"attnpress/device/epilogue.cuh\"\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("#include \"attnpress/device/gradient_sequence.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_math.cuh\"\n"
       "\n"
       "constexpr int NUM_WARPS = ");
  INTEGER(warps_m);
  TEXT(";\n"
       "constexpr int NUM_THREADS = 32 * NUM_WARPS;\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(NUM_THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("        const __grid_constant__ attnpress_bwd_ragged_args given) {\n"
         "  const attnpress_bwd_args &args = given.bwd;\n");
  } else {
    TEXT("        const __grid_constant__ attnpress_bwd_args args) {\n");
  }
  TEXT("  __shared__ float part[NUM_WARPS]; // of each warp\n"
       "  const int head = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
       "  const float sink_log2 = load_sink(args.score.sinks, args.score.sinks_dtype,\n"
       "                                    args.score.sinks_stride, head, args.heads_q);\n"
       "  float sum = 0.0f;\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("  // Many sequences are short: each warp takes some of them.\n"
         "  for (int b = warp; b < args.batch; b += NUM_WARPS) {\n"
         "    const SequencePlace at = place_of_sequence(&given, b);\n"
         "    const int64_t first = (int64_t)head * args.row_tiles * 16 + at.values_row;\n"
         "    for (int row = lane; row < at.seqlen_q; row += 32)\n"
         "      sum -= exp2_approx(sink_log2 - args.lse_log2[first + row]) * args.delta[first + row];\n"
         "  }\n");
  } else {
    TEXT("  const int rows = args.row_tiles * 16; // of a head, padded\n"
         "  for (int batch = 0; batch < args.batch; ++batch) {\n"
         "    const int64_t first = ((int64_t)batch * args.heads_q + head) * rows;\n"
         "    for (int row = threadIdx.x; row < rows; row += NUM_THREADS)\n"
         "      sum -= exp2_approx(sink_log2 - args.lse_log2[first + row]) * args.delta[first + row];\n"
         "  }\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int distance = 16; distance > 0; distance /= 2)\n"
       "    sum += __shfl_xor_sync(0xffffffff, sum, distance);\n"
       "  if (lane == 0)\n"
       "    part[warp] = sum;\n"
       "  // All threads arrive and wait: hands over the parts.\n"
       "  __syncthreads();\n"
       "  if (threadIdx.x == 0) {\n"
       "    sum = args.accumulate ? args.dsinks[head] : 0.0f;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < NUM_WARPS; ++i)\n"
       "      sum += part[i];\n"
       "    args.dsinks[head] = sum;\n"
       "  }\n"
       "}\n");
}
