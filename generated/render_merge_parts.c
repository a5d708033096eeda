/* Written by `python -m generator` from templates/merge/merge_parts.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_merge_parts(ap_text *out, const ap_render_input *in);

void ap_render_merge_parts(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t dtype = in->axis[AP_MERGE_DTYPE];
  const int32_t result = in->axis[AP_MERGE_RESULT];
  const int32_t step = in->field[AP_MERGE_TILE_STEP];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// out = sum of exp(lse_i - lse) out_i with lse = log(sum of exp(lse_i)) over parts i: ");
  STRING(in->word[AP_MERGE_DTYPE]);
  TEXT(" to\n"
       "// ");
  STRING(in->word[AP_MERGE_RESULT]);
  TEXT(", fp32 inside. 2^lane_shift lanes of a warp share a row (one query of one head), a vector\n"
       "// of 16 bytes of each part at a time. A part whose lse is infinite had no keys: it does not count.\n"
       "//\n"
       "// Pressed from templates/merge/merge_parts.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family merge --dtype ");
  STRING(in->word[AP_MERGE_DTYPE]);
  TEXT(" --result ");
  STRING(in->word[AP_MERGE_RESULT]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/merge.h\"\n"
       "#include \"attnpress/device/merge.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_MERGE_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element of a part\n"
       "constexpr int OUT_SIZE = ");
  INTEGER((result == AP_MERGE_RESULT_FP32) ? 4 : 2);
  TEXT("; // of the result\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int STEP = ");
  INTEGER(step);
  TEXT("; // parts that are loaded at once\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_merge_parts_args args) {\n"
       "  const int lanes = 1 << args.lane_shift;\n"
       "  const int lane = threadIdx.x & (lanes - 1);\n"
       "  const int64_t index =\n"
       "      (int64_t)blockIdx.x * (THREADS >> args.lane_shift) + (threadIdx.x >> args.lane_shift);\n"
       "  const bool has_row = index < args.rows;\n"
       "  const MergeRow at = merge_row(has_row ? (int)index : 0, &args);\n"
       "\n"
       "  // The largest lse of parts that have keys, and what all weigh against it.\n"
       "  float maximum = -MERGE_INF, sum = 0.0f;\n"
       "#pragma unroll 4\n"
       "  for (int i = 0; has_row && i < args.parts; ++i) {\n"
       "    const float lse = args.part[i].lse[merge_lse_offset(&args.part[i], at)];\n"
       "    maximum = has_no_keys(lse) ? maximum : fmaxf(maximum, lse);\n"
       "  }\n"
       "#pragma unroll 4\n"
       "  for (int i = 0; has_row && i < args.parts; ++i)\n"
       "    sum += part_weight(args.part[i].lse[merge_lse_offset(&args.part[i], at)], maximum,\n"
       "                       args.log2_of_lse);\n"
       "  const float share = sum == 0.0f ? 0.0f : reciprocal_approx(sum);\n"
       "\n"
       "  // out, STEP parts at a time. One lane reads and writes an element: out may lie over a part.\n"
       "  for (int column = lane * ELEMENTS; has_row && column < args.head_dim;\n"
       "       column += lanes * ELEMENTS) {\n"
       "    float total[ELEMENTS];\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      total[j] = 0.0f;\n"
       "#pragma unroll 1\n"
       "    for (int first = 0; first < args.parts; first += STEP) {\n"
       "      // All of them are on their way before the first is waited for.\n"
       "      uint32_t word[STEP][4];\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < STEP; ++i) {\n"
       "        if (first + i >= args.parts)\n"
       "          break;\n"
       "        const attnpress_merge_rows *rows = &args.part[first + i];\n"
       "        load_span((const unsigned char *)rows->out + merge_offset(rows, at) * SIZE, SIZE, column,\n"
       "                  args.head_dim, ELEMENTS, word[i]);\n"
       "      }\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < STEP; ++i) {\n"
       "        if (first + i >= args.parts)\n"
       "          break;\n"
       "        const attnpress_merge_rows *rows = &args.part[first + i];\n"
       "        const float weight = share * part_weight(rows->lse[merge_lse_offset(rows, at)], maximum,\n"
       "                                                 args.log2_of_lse);\n"
       "        float value[ELEMENTS];\n"
       "        widen_words_");
  STRING(in->word[AP_MERGE_DTYPE]);
  TEXT("(word[i], ELEMENTS, value);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n"
       "          total[j] += weight == 0.0f ? 0.0f : weight * value[j];\n"
       "      }\n"
       "    }\n"
       "    uint32_t merged[ELEMENTS * OUT_SIZE / 4];\n"
       "    narrow_words_");
  STRING(in->word[AP_MERGE_RESULT]);
  TEXT("(total, ELEMENTS, merged);\n"
       "    store_span((unsigned char *)args.result.out + merge_offset(&args.result, at) * OUT_SIZE,\n"
       "               OUT_SIZE, column, args.head_dim, ELEMENTS, merged);\n"
       "  }\n"
       "\n"
       "  // The result's lse may lie over a part's, which every lane of the row has read by now.\n"
       "  __syncwarp();\n"
       "  if (has_row && lane == 0 && args.result.lse != nullptr)\n"
       "    ((float *)args.result.lse)[merge_lse_offset(&args.result, at)] =\n"
       "        maximum + log2_approx(sum) * args.lse_of_log2; // without keys -inf, twice\n"
       "}\n");
}
