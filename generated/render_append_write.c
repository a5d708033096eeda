/* Written by `python -m generator` from templates/append/append_write.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_append_write(ap_text *out, const ap_render_input *in);

void ap_render_append_write(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t dtype = in->axis[AP_APPEND_DTYPE];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// Writes rows of new K and V, ");
  STRING(in->word[AP_APPEND_DTYPE]);
  TEXT(", to their place in a cache, K rotated by its position, and q's\n"
       "// rows, rotated, over themselves or to another tensor. A thread has a vector of 16 bytes; where\n"
       "// columns i and i + rotary_dim / 2 are a pair, it has both, so that rows can be rotated in place.\n"
       "//\n"
       "// Pressed from templates/append/append_write.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family append --dtype ");
  STRING(in->word[AP_APPEND_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/append.h\"\n"
       "#include \"attnpress/device/append.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/rotary.cuh\"\n"
       "\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_APPEND_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "\n"
       "// `count` values of a row of cos or sin, from `column` on. value: (count)\n"
       "__device__ __forceinline__ void load_rotary(const void *table, int64_t position, int column,\n"
       "                                            int columns, int count,\n"
       "                                            const attnpress_append_write_args *args,\n"
       "                                            float *value) {\n"
       "  const int64_t first = position * args->rotary_stride;\n"
       "  uint32_t word[ELEMENTS];\n");
  if (dtype != AP_APPEND_DTYPE_FP32) {
    TEXT("  if (!args->rotary_fp32) {\n"
         "    load_span((const uint16_t *)table + first, 2, column, columns, count, word);\n"
         "    widen_words_");
    STRING(in->word[AP_APPEND_DTYPE]);
    TEXT("(word, count, value);\n"
         "    return;\n"
         "  }\n");
  }
  TEXT("  load_span((const float *)table + first, 4, column, columns, count, word);\n"
       "  widen_words_fp32(word, count, value);\n"
       "}\n"
       "\n"
       "// Rotates ELEMENTS columns from `column` on, of the first half of those that are rotated, and their\n"
       "// partners in the second. word: (2, 4)\n"
       "__device__ __forceinline__ void rotate_halves(int column, int half, int64_t position,\n"
       "                                              const attnpress_append_write_args *args,\n"
       "                                              uint32_t word[2][4]) {\n"
       "  float value[2][ELEMENTS], cos[ELEMENTS], sin[ELEMENTS];\n"
       "  load_rotary(args->cos, position, column, half, ELEMENTS, args, cos);\n"
       "  load_rotary(args->sin, position, column, half, ELEMENTS, args, sin);\n"
       "  widen_words_");
  STRING(in->word[AP_APPEND_DTYPE]);
  TEXT("(word[0], ELEMENTS, value[0]);\n"
       "  widen_words_");
  STRING(in->word[AP_APPEND_DTYPE]);
  TEXT("(word[1], ELEMENTS, value[1]);\n"
       "  rotate_pairs(cos, sin, ELEMENTS, 1, value[0], value[1]);\n"
       "  narrow_words_");
  STRING(in->word[AP_APPEND_DTYPE]);
  TEXT("(value[0], ELEMENTS, word[0]);\n"
       "  narrow_words_");
  STRING(in->word[AP_APPEND_DTYPE]);
  TEXT("(value[1], ELEMENTS, word[1]);\n"
       "}\n"
       "\n"
       "// The pairs of neighbours among ELEMENTS columns from `column` on that are rotated: those below\n"
       "// `rotary_dim`; the others keep their bits. word: (4)\n"
       "__device__ __forceinline__ void rotate_neighbours(int column, int rotary_dim, int64_t position,\n"
       "                                                  const attnpress_append_write_args *args,\n"
       "                                                  uint32_t *word) {\n"
       "  uint32_t rotated[4];\n"
       "  float value[ELEMENTS], cos[ELEMENTS / 2], sin[ELEMENTS / 2];\n"
       "  load_rotary(args->cos, position, column / 2, rotary_dim / 2, ELEMENTS / 2, args, cos);\n"
       "  load_rotary(args->sin, position, column / 2, rotary_dim / 2, ELEMENTS / 2, args, sin);\n"
       "  widen_words_");
  STRING(in->word[AP_APPEND_DTYPE]);
  TEXT("(word, ELEMENTS, value);\n"
       "  rotate_pairs(cos, sin, ELEMENTS / 2, 2, value, value + 1);\n"
       "  narrow_words_");
  STRING(in->word[AP_APPEND_DTYPE]);
  TEXT("(value, ELEMENTS, rotated);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 4; ++i)\n"
       "    if (column + i * (4 / SIZE) < rotary_dim)\n"
       "      word[i] = rotated[i];\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_append_write_args args) {\n"
       "  const int64_t thread = (int64_t)blockIdx.x * THREADS + threadIdx.x;\n"
       "  const bool working = thread < (int64_t)args.tokens * args.token_threads.value;\n"
       "  const int number = working ? divide((int)thread, &args.token_threads) : 0;\n"
       "  int part = working ? (int)thread - number * args.token_threads.value : 0;\n"
       "  int which = ATTNPRESS_APPEND_Q;\n"
       "  while (part >= args.rows[which].threads)\n"
       "    part -= args.rows[which++].threads;\n"
       "  const attnpress_append_rows *rows = &args.rows[which];\n"
       "  const int head = divide(part, &rows->head_threads);\n"
       "  part -= head * rows->head_threads.value;\n"
       "  const int half = args.interleaved ? 0 : rows->rotary_dim / 2;\n"
       "  const int pairs = (half + ELEMENTS - 1) / ELEMENTS; // of vectors\n"
       "  const bool paired = part < pairs;\n"
       "  const int column = paired ? part * ELEMENTS : 2 * half + (part - pairs) * ELEMENTS;\n"
       "\n"
       "  // A length that what ran before may yet write says where to look, so that nobody waits for memory\n"
       "  // twice: by hints alone, given again when all else in the caches may have driven that out.\n"
       "  AppendHints hints = {nullptr, nullptr};\n"
       "  if (working && head == 0 && part == 0) {\n"
       "    hints = guess_hints(number, which, ");
  STRING((dtype == AP_APPEND_DTYPE_FP32) ? "4" : "args.rotary_fp32 ? 4 : 2");
  TEXT(", &args);\n"
       "    follow_hints(hints);\n"
       "  }\n"
       "  // What comes next, attention over the cache, may begin to wait too: for this kernel, and so for\n"
       "  // all that this one waits for.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  griddepcontrol_wait();\n"
       "  follow_hints(hints);\n"
       "  if (!working)\n"
       "    return;\n"
       "  const AppendToken token = append_token(number, &args);\n"
       "  if (!token.exists)\n"
       "    return;\n"
       "\n"
       "  // The row is read before it is known where it goes, and cos and sin beside the page's number.\n"
       "  const unsigned char *from = (const unsigned char *)rows->from +\n"
       "                              (token.entry * rows->from_batch + token.row * rows->from_row +\n"
       "                               head * rows->from_head) *\n"
       "                                  SIZE;\n"
       "  uint32_t word[2][4];\n"
       "  load_span(from, SIZE, column, paired ? half : rows->head_dim, ELEMENTS, word[0]);\n"
       "  if (paired)\n"
       "    load_span(from + half * SIZE, SIZE, column, half, ELEMENTS, word[1]);\n"
       "  int64_t position = 0;\n"
       "  if (args.num_positions > 0)\n"
       "    position = append_position(token, which, &args);\n"
       "  // Nowhere, where an index is out of range.\n"
       "  AppendPlace place = {true, token.entry, token.row};\n"
       "  if (which != ATTNPRESS_APPEND_Q)\n"
       "    place = append_place(token, which, &args);\n"
       "  if (position < 0 || position >= max(args.num_positions, 1))\n"
       "    return;\n"
       "  if (paired)\n"
       "    rotate_halves(column, half, position, &args, word);\n"
       "  else if (args.interleaved && column < rows->rotary_dim)\n"
       "    rotate_neighbours(column, rows->rotary_dim, position, &args, word[0]);\n"
       "  if (!place.exists)\n"
       "    return;\n"
       "  unsigned char *to =\n"
       "      (unsigned char *)rows->to +\n"
       "      (place.entry * rows->to_batch + place.row * rows->to_row + head * rows->to_head) * SIZE;\n"
       "  store_span(to, SIZE, column, paired ? half : rows->head_dim, ELEMENTS, word[0]);\n"
       "  if (paired)\n"
       "    store_span(to + half * SIZE, SIZE, column, half, ELEMENTS, word[1]);\n"
       "}\n");
}
