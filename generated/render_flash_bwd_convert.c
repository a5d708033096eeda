/* Written by `python -m generator` from templates/attention/flash_bwd_convert.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_bwd_convert(ap_text *out, const ap_render_input *in);

void ap_render_flash_bwd_convert(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t hdim = in->axis[AP_ATTENTION_HDIM];
  const int32_t dtype = in->axis[AP_ATTENTION_DTYPE];
  const int32_t sequences = in->axis[AP_ATTENTION_SEQUENCES];
  const int32_t block_m = in->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t warps_m = in->field[AP_ATTENTION_TILE_WARPS_M];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// After the backward pass: dQ = scale times its sum, ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT(", or dK or dV of parts of groups");
  }
  TEXT(". A thread\n"
       "// takes two rows, 8 apart, of a tile of the sum: those of a quad of lanes that added to it.\n"
       "//\n"
       "// Pressed from templates/attention/flash_bwd_convert.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass bwd_convert --hdim ");
  INTEGER(hdim);
  TEXT(" --dtype ");
  STRING(in->word[AP_ATTENTION_DTYPE]);
  if (sequences != AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT(" --");
    STRING(in->word[AP_ATTENTION_SEQUENCES]);
  }
  TEXT("\n"
       "#include \"attnpress/args/attention.h\"\n"
       "#include \"attnpress/device/dtype.cuh\"\n"
       "#include \"attnpress/device/gradient.cuh\"\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("#include \"attnpress/device/gradient_sequence.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/gradient_store.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "\n"
       "constexpr int HEAD_DIM = ");
  INTEGER(hdim);
  TEXT(";\n"
       "constexpr Dtype DTYPE = ");
  STRING((dtype == AP_ATTENTION_DTYPE_BF16) ? "BF16" : "FP16");
  TEXT(";\n"
       "constexpr int BLOCK_M = ");
  INTEGER(block_m);
  TEXT("; // rows of a thread block\n"
       "constexpr int NUM_THREADS = ");
  INTEGER(32 * warps_m);
  TEXT(";\n"
       "constexpr int CHUNKS = HEAD_DIM / 8; // of a row\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("constexpr int PART_ROWS = 32; // keys of a thread block, of parts of groups\n"
         "\n"
         "// The unit of keys that thread block `number` has, whose dK or dV is in parts: key blocks of key heads,\n"
         "// of which the order has each part of a group. All lanes of a warp arrive.\n"
         "__device__ __forceinline__ Unit find_keys(const attnpress_bwd_ragged_args *given, int number) {\n"
         "  const attnpress_bwd_args *const args = &given->bwd;\n"
         "  const int parts = args->group_parts;\n"
         "  if (number >= given->first_unit[args->batch] / parts)\n"
         "    return {0, 0, 0, -1};\n"
         "  const int order = find_order(given->first_unit, args->batch, number * parts);\n"
         "  const attnpress_sequence_units *const of = &given->sequences[order];\n"
         "  const int unit = number - given->first_unit[order] / parts;\n"
         "  return {order, of->sequence, unit / of->blocks, unit % of->blocks};\n"
         "}\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(NUM_THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("        const __grid_constant__ attnpress_bwd_ragged_args given) {\n"
         "  const attnpress_bwd_args &args = given.bwd;\n");
  } else {
    TEXT("        const __grid_constant__ attnpress_bwd_args args) {\n");
  }
  TEXT("  griddepcontrol_wait();\n");
  if (sequences == AP_ATTENTION_SEQUENCES_RAGGED) {
    TEXT("  // Of what is behind bwd_delta has found no sums.\n"
         "  if (args.taken != nullptr && args.zero_ahead == 0 && blockIdx.x >= args.taken[1])\n"
         "    return;\n"
         "  const bool of_keys = args.sum_parts > 1; // dk or dv, of parts of groups\n"
         "  Unit unit;\n"
         "  SequencePlace at;\n"
         "  int first_row, rows; // rows: that are there\n"
         "  int64_t sum_tile;\n"
         "  if (of_keys) {\n"
         "    const int pieces = ceil_div(args.blocks, PART_ROWS); // of a key block\n"
         "    unit = find_keys(&given, blockIdx.x / pieces);\n"
         "    if (unit.block < 0)\n"
         "      return;\n"
         "    at = place_of_unit(&given, &unit);\n"
         "    const int piece = blockIdx.x % pieces * PART_ROWS;\n"
         "    first_row = unit.block * args.blocks + piece;\n"
         "    rows = min(min(PART_ROWS, args.blocks - piece), at.seqlen_k - first_row);\n"
         "    const int before = given.first_unit[unit.order] / (args.heads_q * args.group_parts);\n"
         "    sum_tile = (int64_t)unit.head * args.key_tiles +\n"
         "               ((before + unit.block) * args.blocks + piece) / 16;\n"
         "  } else {\n"
         "    if (!is_unit(&given, blockIdx.x))\n"
         "      return;\n"
         "    unit = find_unit(&given, blockIdx.x, args.heads_q);\n"
         "    at = place_of_unit(&given, &unit);\n"
         "    if (at.seqlen_k <= given.direct_keys) // it has no sum, and its dq is there\n"
         "      return;\n"
         "    first_row = unit.block * BLOCK_M;\n"
         "    rows = at.seqlen_q - first_row;\n"
         "    sum_tile = (int64_t)unit.head * args.sum_tiles + at.sum_tile + first_row / 16;\n"
         "  }\n"
         "  uint16_t *dq = (uint16_t *)args.dq + (of_keys ? at.k_batch : at.q_batch) * args.dq_batch_stride +\n"
         "                 (of_keys ? at.k_row : at.q_row) * args.dq_row_stride +\n"
         "                 unit.head * args.dq_head_stride;\n"
         "  const float *sum = args.dq_sum + sum_tile * (CHUNKS * 128);\n"
         "  const int64_t part_quads = (int64_t)args.heads_q * args.key_tiles * CHUNKS * (128 / 4);\n");
  } else {
    TEXT("  const int row_blocks = args.row_tiles * 16 / BLOCK_M;\n"
         "  const int block = gridDim.x - 1 - blockIdx.x; // the last sums are still in L2\n"
         "  const int first_row = block % row_blocks * BLOCK_M;\n"
         "  const int head_index = block / row_blocks; // batch and query head\n"
         "  const int head = head_index % args.heads_q, batch = head_index / args.heads_q;\n"
         "  uint16_t *dq = (uint16_t *)args.dq + batch * args.dq_batch_stride + head * args.dq_head_stride;\n"
         "  const float *sum = args.dq_sum + sum_offset(&args, batch, head, first_row / 16, HEAD_DIM);\n"
         "\n"
         "  const int64_t part_quads = // of a part's sum\n"
         "      (int64_t)args.batch * args.heads_q * args.sum_tiles * CHUNKS * (128 / 4);\n"
         "\n"
         "  const int rows = args.seqlen_q - first_row; // that are there\n");
  }
  TEXT("  // Behind them are the tiles of another head or sequence.\n"
       "  const int tiles = min(BLOCK_M / 16, ceil_div(rows, 16));\n"
       "#pragma unroll 2\n"
       "  for (int index = threadIdx.x; index < tiles * CHUNKS * 8; index += NUM_THREADS) {\n"
       "    const int quad = index % 8, chunk = index / 8 % CHUNKS, row = index / (8 * CHUNKS) * 16 + quad;\n"
       "    const float4 *tile = (const float4 *)(sum + (row / 16 * CHUNKS + chunk) * 128);\n"
       "    float4 four[4];\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < 4; ++j)\n"
       "      four[j] = tile[SUM_BY_FOURS ? quad * 4 + j : j * 8 + quad];\n");
  if (sequences == AP_ATTENTION_SEQUENCES_DENSE) {
    TEXT("#pragma unroll 1\n"
         "    for (int part = 1; part < args.sum_parts; ++part) {\n");
  } else {
    TEXT("#pragma unroll 2\n"
         "    for (int part = 1; part < args.sum_parts; ++part) {\n");
  }
  TEXT("      tile += part_quads;\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < 4; ++j) {\n"
       "        const float4 next = tile[SUM_BY_FOURS ? quad * 4 + j : j * 8 + quad];\n"
       "        four[j] = {four[j].x + next.x, four[j].y + next.y, four[j].z + next.z, four[j].w + next.w};\n"
       "      }\n"
       "    }\n"
       "    // Element i of the quad's lane t.\n"
       "    float value[4][4];\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < 4; ++j) {\n"
       "      const float each[4] = {four[j].x, four[j].y, four[j].z, four[j].w};\n"
       "#pragma unroll\n"
       "      for (int k = 0; k < 4; ++k)\n"
       "        value[SUM_BY_FOURS ? k : j][SUM_BY_FOURS ? j : k] = each[k] * args.scale;\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int half = 0; half < 2; ++half) {\n"
       "      if (row + half * 8 >= rows)\n"
       "        continue;\n"
       "      uint4 *target =\n"
       "          (uint4 *)(dq + (first_row + row + half * 8) * args.dq_row_stride + chunk * 8);\n"
       "      uint4 there = {0, 0, 0, 0};\n"
       "      if (args.accumulate)\n"
       "        there = *target;\n"
       "      *target = {round_pair(DTYPE, value[half * 2][0], value[half * 2 + 1][0], there.x,\n"
       "                            args.accumulate),\n"
       "                 round_pair(DTYPE, value[half * 2][1], value[half * 2 + 1][1], there.y,\n"
       "                            args.accumulate),\n"
       "                 round_pair(DTYPE, value[half * 2][2], value[half * 2 + 1][2], there.z,\n"
       "                            args.accumulate),\n"
       "                 round_pair(DTYPE, value[half * 2][3], value[half * 2 + 1][3], there.w,\n"
       "                            args.accumulate)};\n"
       "    }\n"
       "  }\n"
       "}\n");
}
