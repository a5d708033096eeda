/* Written by `python -m generator` from templates/flash_fwd_combine.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/registry.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_combine(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_combine(ap_text *out, const ap_render_input *in) {
  TEXT("// ");
  STRING(in->stem);
  TEXT("\n"
       "//\n"
       "// Adds up the splits of a forward pass:\n"
       "//   lse = log(sum_i exp(lse_i)), out = sum_i exp(lse_i - lse) out_i.\n"
       "// The output is ");
  STRING(in->dtype);
  TEXT(", all else fp32. One thread block computes one row: its threads form groups\n"
       "// of HEAD_DIM_V / 4 threads, each group adds up every GROUPS-th split, and the first group adds up\n"
       "// the groups.\n"
       "//\n"
       "// Pressed from templates/flash_fwd_combine.cu.j2 with tile ");
  STRING(in->tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass fwd_combine --hdim ");
  INTEGER(in->hdim_v);
  TEXT(" --dtype ");
  STRING(in->dtype);
  TEXT(" --arch sm");
  INTEGER(in->arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/device/ptx_cvt.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/kernel_args.h\"\n"
       "\n"
       "constexpr int HEAD_DIM_V = ");
  INTEGER(in->hdim_v);
  TEXT(";\n"
       "constexpr int NUM_THREADS = ");
  INTEGER(32 * in->warps_m);
  TEXT(";\n"
       "constexpr int GROUP_THREADS = HEAD_DIM_V / 4; // of 4 columns\n"
       "constexpr int GROUPS = NUM_THREADS / GROUP_THREADS;\n"
       "constexpr float LOG2_E = 1.44269504088896341f;\n"
       "constexpr float LN_2 = 0.693147180559945309f;\n"
       "constexpr float INF = __builtin_bit_cast(float, 0x7f800000);\n"
       "static_assert(GROUPS >= 1, \"a row needs HEAD_DIM_V / 4 threads\");\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(NUM_THREADS)\n"
       "    ");
  STRING(in->stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_fwd_combine_args args) {\n"
       "  __shared__ float4 partial_sum[GROUPS][GROUP_THREADS];\n"
       "  const int row = blockIdx.x; // of (batch, heads_q, seqlen_q)\n"
       "  const int lane = threadIdx.x % 32;\n"
       "\n"
       "  // lse of the row. Every warp computes it for itself, in units of log2.\n"
       "  float row_max = -INF;\n"
       "  for (int i = lane; i < args.num_splits; i += 32)\n"
       "    row_max = fmaxf(row_max, args.lse_partial[i * args.rows + row]);\n"
       "#pragma unroll\n"
       "  for (int lanes = 16; lanes > 0; lanes /= 2)\n"
       "    row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, lanes));\n"
       "  const float shift = row_max == -INF ? 0.0f : row_max * LOG2_E; // a row without keys\n"
       "  float row_sum = 0.0f;\n"
       "  for (int i = lane; i < args.num_splits; i += 32)\n"
       "    row_sum += exp2_approx(args.lse_partial[i * args.rows + row] * LOG2_E - shift);\n"
       "#pragma unroll\n"
       "  for (int lanes = 16; lanes > 0; lanes /= 2)\n"
       "    row_sum += __shfl_xor_sync(0xffffffff, row_sum, lanes);\n"
       "  const float normalize = row_sum == 0.0f ? 0.0f : reciprocal_approx(row_sum);\n"
       "\n"
       "  // This group's splits.\n"
       "  const int group = threadIdx.x / GROUP_THREADS;\n"
       "  const int column = threadIdx.x % GROUP_THREADS * 4;\n"
       "  float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};\n"
       "  if (group < GROUPS) {\n"
       "    const float *lse = args.lse_partial + (group * args.rows + row);\n"
       "    const float *part = args.out_partial + (group * args.rows + row) * HEAD_DIM_V + column;\n"
       "#pragma unroll 4\n"
       "    for (int i = group; i < args.num_splits; i += GROUPS) {\n"
       "      const float weight = exp2_approx(*lse * LOG2_E - shift) * normalize;\n"
       "      const float4 out = *(const float4 *)part;\n"
       "      sum.x += weight * out.x;\n"
       "      sum.y += weight * out.y;\n"
       "      sum.z += weight * out.z;\n"
       "      sum.w += weight * out.w;\n"
       "      lse += GROUPS * args.rows;\n"
       "      part += GROUPS * args.rows * HEAD_DIM_V;\n"
       "    }\n"
       "    partial_sum[group][column / 4] = sum;\n"
       "  }\n"
       "  // All threads arrive and wait: hands over the sums of the groups.\n"
       "  __syncthreads();\n"
       "  if (group != 0)\n"
       "    return;\n"
       "#pragma unroll\n"
       "  for (int i = 1; i < GROUPS; ++i) {\n"
       "    const float4 part = partial_sum[i][column / 4];\n"
       "    sum.x += part.x;\n"
       "    sum.y += part.y;\n"
       "    sum.z += part.z;\n"
       "    sum.w += part.w;\n"
       "  }\n"
       "\n"
       "  const int position = row % args.seqlen_q;\n"
       "  const int head = row / args.seqlen_q % args.heads_q;\n"
       "  const int batch = row / args.seqlen_q / args.heads_q;\n"
       "  uint16_t *out = (uint16_t *)args.out + batch * args.out_batch_stride +\n"
       "                  position * args.out_row_stride + head * args.out_head_stride + column;\n"
       "  const uint2 packed = {pack_");
  STRING(in->dtype);
  TEXT("(sum.x, sum.y), pack_");
  STRING(in->dtype);
  TEXT("(sum.z, sum.w)};\n"
       "  *(uint2 *)out = packed;\n"
       "  if (args.lse && threadIdx.x == 0)\n"
       "    args.lse[batch * args.lse_batch_stride + head * args.lse_head_stride + position] =\n"
       "        (shift + log2_approx(row_sum)) * LN_2;\n"
       "}\n");
}
