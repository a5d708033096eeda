/* Written by `python -m generator` from templates/outer/outer_unit.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_outer_unit(ap_text *out, const ap_render_input *in);

void ap_render_outer_unit(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t dtype = in->axis[AP_OUTER_DTYPE];
  const int32_t rows = in->field[AP_OUTER_TILE_ROWS];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// c[n, i, j] = x[n, i] y[n, j], ");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT(". c has no gaps, and rows that may not be whole vectors\n"
       "// of 16 bytes: a unit is the fewest rows that are, together. A thread has the same vector of UNITS\n"
       "// units, and so the same y, in registers.\n"
       "//\n"
       "// Pressed from templates/outer/outer_unit.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family outer --pass unit --dtype ");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/outer.h\"\n"
       "#include \"attnpress/device/outer_run.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_OUTER_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int UNITS = ");
  INTEGER(rows);
  TEXT(";    // of a thread, at the most\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "\n"
       "// An element's bits, 0 where the condition is false.\n"
       "__device__ __forceinline__ uint32_t load_if(bool condition, const unsigned char *from, int at) {\n"
       "  return SIZE == 2 ? load_2_if(condition, from + (int64_t)at * 2, 0)\n"
       "                   : load_4_if(condition, from + (int64_t)at * 4, 0);\n"
       "}\n"
       "\n"
       "// The product of two elements, by themselves.\n"
       "__device__ __forceinline__ uint32_t multiply_one(const attnpress_outer_fwd_args *args,\n"
       "                                                 int64_t batch, int row, int column) {\n"
       "  const unsigned char *x = (const unsigned char *)args->x + batch * args->x_stride * SIZE;\n"
       "  const unsigned char *y = (const unsigned char *)args->y + batch * args->y_stride * SIZE;\n"
       "  return multiply_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(load_element(x, SIZE, row), load_element(y, SIZE, column));\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_outer_fwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  const int beside = blockIdx.x % args.column_blocks;\n"
       "  const int below = blockIdx.x / args.column_blocks % args.row_blocks;\n"
       "  const int64_t batch = blockIdx.x / args.column_blocks / args.row_blocks;\n"
       "  const int columns = args.columns;\n"
       "  // Where all vectors of a unit have a thread, groups of threads have units below each other.\n"
       "  const int groups = args.column_blocks > 1 ? 1 : THREADS / args.width;\n"
       "  int group = 0, own = beside * THREADS + (int)threadIdx.x;\n"
       "  if (groups > 1) {\n"
       "    group = (int)threadIdx.x / args.width;\n"
       "    own = (int)threadIdx.x % args.width;\n"
       "  }\n"
       "  // The entry's vectors are those that begin in it and end in it; the first `head` elements are in\n"
       "  // what was before.\n"
       "  const int64_t size = (int64_t)args.rows * columns, begin = batch * size;\n"
       "  const int head =\n"
       "      -(int)((uint32_t)((uint64_t)args.c % 16 / SIZE) + (uint32_t)begin) & (ELEMENTS - 1);\n"
       "  const int64_t vectors = (size - head) / ELEMENTS;\n"
       "  unsigned char *const entry = (unsigned char *)args.c + begin * SIZE;\n"
       "  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;\n"
       "  const unsigned char *y = (const unsigned char *)args.y + batch * args.y_stride * SIZE;\n"
       "  const bool is_mine = group < groups && own < args.width;\n"
       "  const int at = head + own * ELEMENTS, first_row = at / columns;\n"
       "  const int column = at - first_row * columns;\n"
       "  const int cut = columns - column; // elements before the next row's\n"
       "  const int first_unit = below * args.units * groups + group;\n"
       "  uint32_t y_word[4], mask[4];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 4; ++i) {\n"
       "    const int low = i * 4 / SIZE, high = low + 1;\n"
       "    y_word[i] = load_if(is_mine, y, column + low - (low >= cut ? columns : 0));\n"
       "    if (SIZE == 2)\n"
       "      y_word[i] |= load_if(is_mine, y, column + high - (high >= cut ? columns : 0)) << 16;\n"
       "    mask[i] = mask_before(SIZE, cut, i);\n"
       "  }\n"
       "  uint32_t factor[UNITS], next[UNITS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < UNITS; ++i) {\n"
       "    const int unit = first_unit + i * groups, row = unit * args.unit_rows + first_row;\n"
       "    const bool is_there =\n"
       "        is_mine && i < args.units && (int64_t)unit * args.unit_vectors + own < vectors;\n"
       "    factor[i] = load_if(is_there, x, row);\n"
       "    next[i] = load_if(is_there && cut < ELEMENTS, x, row + 1);\n"
       "  }\n"
       "  unsigned char *c =\n"
       "      entry + head * SIZE + ((int64_t)first_unit * args.unit_vectors + own) * 16;\n"
       "  const int64_t step = (int64_t)groups * args.unit_vectors * 16;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < UNITS; ++i) {\n"
       "    const int unit = first_unit + i * groups;\n"
       "    const bool is_there =\n"
       "        is_mine && i < args.units && (int64_t)unit * args.unit_vectors + own < vectors;\n"
       "    const uint32_t a = fill_word(SIZE, factor[i]), b = fill_word(SIZE, next[i]);\n"
       "    uint32_t word[4];\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < 4; ++j)\n"
       "      word[j] = multiply_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(y_word[j], choose_bits(mask[j], a, b));\n"
       "    const uint4 product = {word[0], word[1], word[2], word[3]};\n"
       "    stream_16_if(is_there, c, product);\n"
       "    c += step;\n"
       "  }\n"
       "\n"
       "  // One thread block of an entry has the elements that no vector of an entry has: those of the\n"
       "  // vector that the next entry begins in, and what is before the first vector of c.\n"
       "  if (below == args.row_blocks - 1 && beside == args.column_blocks - 1) {\n"
       "    const int rest = (int)(size - head - vectors * ELEMENTS), last = threadIdx.x;\n"
       "    if (last < ELEMENTS && rest > 0) {\n"
       "      unsigned char *const to = entry + (size - rest) * SIZE;\n"
       "      if (last < rest)\n"
       "        store_element(to, SIZE, last,\n"
       "                      multiply_one(&args, batch, args.rows - 1, columns - rest + last));\n"
       "      else if (batch + 1 < args.batch)\n"
       "        store_element(to, SIZE, last, multiply_one(&args, batch + 1, 0, last - rest));\n"
       "    }\n"
       "    if (batch == 0 && last < head)\n"
       "      store_element(entry, SIZE, last, multiply_one(&args, 0, 0, last));\n"
       "  }\n"
       "}\n");
}
