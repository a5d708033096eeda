/* Written by `python -m generator` from templates/outer/outer_flat.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_outer_flat(ap_text *out, const ap_render_input *in);

void ap_render_outer_flat(ap_text *out, const ap_render_input *in) {
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
  TEXT(", fp32 inside. c has no gaps: it is one run of vectors of\n"
       "// 16 bytes, wherever its rows begin. A block writes a chunk of it, VECTORS of each thread, and has\n"
       "// what that takes of x and y in shared memory.\n"
       "//\n"
       "// Pressed from templates/outer/outer_flat.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family outer --pass flat --dtype ");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/outer.h\"\n"
       "#include \"attnpress/device/outer.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_OUTER_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int VECTORS = ");
  INTEGER(rows);
  TEXT(";         // of a thread\n"
       "constexpr int ELEMENTS = 16 / SIZE;        // of a vector\n"
       "constexpr int STEP = THREADS * ELEMENTS;   // from a thread's vector to its next\n"
       "constexpr int CHUNK = VECTORS * STEP;      // elements of a block\n"
       "\n"
       "// A row of the chunk: x, and where its entry's y begins in shared memory, in bytes.\n"
       "struct FlatRow {\n"
       "  float x;\n"
       "  int y;\n"
       "};\n"
       "\n"
       "// The rows of a chunk and the one after them, which its last vector may reach into. Row 0 of the\n"
       "// first chunk may be one before c, where c begins within a vector: rows that are not there are zeros.\n"
       "__device__ __forceinline__ void load_rows(const attnpress_outer_fwd_args *args, int64_t first_entry,\n"
       "                                          int first_row, FlatRow *table) {\n"
       "  for (int i = threadIdx.x; i < args->row_blocks; i += THREADS) {\n"
       "    const int row = first_row + i;\n"
       "    const int entry = max(row, 0) / args->rows;\n"
       "    FlatRow here = {0.0f, 0};\n"
       "    if (row >= 0 && first_entry + entry < args->batch) {\n"
       "      const unsigned char *x =\n"
       "          (const unsigned char *)args->x + (first_entry + entry) * args->x_stride * SIZE;\n"
       "      here.x = widen_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(load_element(x, SIZE, row - entry * args->rows));\n"
       "      here.y = entry * args->pitch;\n"
       "    }\n"
       "    table[i] = here;\n"
       "  }\n"
       "}\n"
       "\n"
       "// The y of a chunk's entries. Behind its end each begins again, for vectors that are of two rows.\n"
       "__device__ __forceinline__ void load_entries(const attnpress_outer_fwd_args *args,\n"
       "                                             int64_t first_entry, unsigned char *y) {\n"
       "  const int beside = 1 << args->column_shift;\n"
       "  for (int i = threadIdx.x >> args->column_shift; i < args->column_blocks;\n"
       "       i += THREADS >> args->column_shift) {\n"
       "    const unsigned char *from =\n"
       "        (const unsigned char *)args->y + (first_entry + i) * args->y_stride * SIZE;\n"
       "    for (int j = threadIdx.x & (beside - 1); j < args->pitch / SIZE; j += beside) {\n"
       "      const int column = j < args->columns ? j : j - args->columns;\n"
       "      if (first_entry + i < args->batch)\n"
       "        store_element(y + i * args->pitch, SIZE, j,\n"
       "                      column < args->columns ? load_element(from, SIZE, column) : 0);\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// 16 bytes of shared memory from byte `at` on, where an element begins.\n"
       "__device__ __forceinline__ uint4 load_window(const unsigned char *y, int at) {\n"
       "  const uint2 *pair = (const uint2 *)(y + (at & ~7));\n"
       "  const uint2 a = pair[0], b = pair[1], c = pair[2];\n"
       "  const bool odd = (at & 4) != 0;\n"
       "  const uint32_t word[5] = {odd ? a.y : a.x, odd ? b.x : a.y, odd ? b.y : b.x, odd ? c.x : b.y,\n"
       "                            odd ? c.y : c.x};\n"
       "  const int shift = (at & 2) * 8;\n"
       "  uint32_t to[4];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < 4; ++i)\n"
       "    to[i] = SIZE == 4 ? word[i] : (uint32_t)(((uint64_t)word[i + 1] << 32 | word[i]) >> shift);\n"
       "  const uint4 vector = {to[0], to[1], to[2], to[3]};\n"
       "  return vector;\n"
       "}\n"
       "\n"
       "// Stores the elements from `first` on, before `end`, of a vector that c does not have all of.\n"
       "__device__ __forceinline__ void store_piece(unsigned char *c, int first, int end, uint4 vector) {\n"
       "  const uint32_t word[4] = {vector.x, vector.y, vector.z, vector.w};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ELEMENTS; ++i)\n"
       "    if (i >= first && i < end)\n"
       "      store_element(c, SIZE, i, SIZE == 2 ? word[i / 2] >> i % 2 * 16 & 0xffff : word[i]);\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_outer_fwd_args args) {\n"
       "  extern __shared__ __align__(16) unsigned char smem[];\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  const int columns = args.columns;\n"
       "  const int64_t entry_size = (int64_t)args.rows * columns;\n"
       "  // As in outer_fwd: what the thread blocks after the next AHEAD read comes at once.\n"
       "  const int64_t part = blockIdx.x % AHEAD, window = blockIdx.x - part;\n"
       "  if (part < BRINGERS)\n"
       "    prefetch_entries(&args, SIZE, THREADS,\n"
       "                     window == 0 ? 0 : (window + AHEAD) * CHUNK / entry_size,\n"
       "                     ((window + 2 * AHEAD) * CHUNK + entry_size - 1) / entry_size, (int)part);\n"
       "\n"
       "  // Chunks begin where vectors do, the first one a few elements before c perhaps.\n"
       "  const int lead = (int)((uint64_t)args.c % 16) / SIZE;\n"
       "  const int64_t begin = (int64_t)blockIdx.x * CHUNK - lead;\n"
       "  const int64_t first_row = (begin + columns) / columns - 1; // of all entries' rows\n"
       "  const int64_t first_entry = max(first_row, (int64_t)0) / args.rows;\n"
       "  FlatRow *table = (FlatRow *)smem;\n"
       "  unsigned char *const y = smem + args.row_blocks * (int)sizeof(FlatRow);\n"
       "  load_rows(&args, first_entry, (int)(first_row - first_entry * args.rows), table);\n"
       "  load_entries(&args, first_entry, y);\n"
       "  __syncthreads();\n"
       "\n"
       "  const int at = (int)(begin - first_row * columns) + (int)threadIdx.x * ELEMENTS;\n"
       "  const int step_rows = STEP / columns, step_columns = STEP % columns;\n"
       "  int row = at / columns, column = at % columns;\n"
       "  // Of the chunk's elements, those that c has.\n"
       "  const int first = blockIdx.x == 0 ? lead : 0;\n"
       "  const int end = (int)min((int64_t)CHUNK, args.batch * entry_size - begin);\n"
       "  unsigned char *c = (unsigned char *)args.c + (begin + (int)threadIdx.x * ELEMENTS) * SIZE;\n"
       "#pragma unroll 4\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const FlatRow here = table[row], next = table[row + 1];\n"
       "    const int cut = columns - column; // elements of `here`, the others are of `next`\n"
       "    float value[ELEMENTS];\n"
       "    widen_vector_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(load_window(y, here.y + column * SIZE), value);\n"
       "    if (cut < ELEMENTS && next.y != here.y) {\n"
       "#pragma unroll\n"
       "      for (int j = 1; j < ELEMENTS; ++j)\n"
       "        if (j >= cut)\n"
       "          value[j] = widen_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(load_element(y + next.y, SIZE, j - cut));\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      value[j] *= j < cut ? here.x : next.x;\n"
       "    const uint4 vector = narrow_vector_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(value);\n"
       "    const int number = i * STEP + (int)threadIdx.x * ELEMENTS;\n"
       "    const bool whole = number >= first && number + ELEMENTS <= end;\n"
       "    stream_16_if(whole, c, vector);\n"
       "    if (!whole)\n"
       "      store_piece(c, first - number, end - number, vector);\n"
       "    c += STEP * SIZE;\n"
       "    row += step_rows;\n"
       "    column += step_columns;\n"
       "    if (column >= columns) {\n"
       "      column -= columns;\n"
       "      ++row;\n"
       "    }\n"
       "  }\n"
       "}\n");
}
