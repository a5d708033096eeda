/* Written by `python -m generator` from templates/outer/outer_fwd.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_outer_fwd(ap_text *out, const ap_render_input *in);

void ap_render_outer_fwd(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t dtype = in->axis[AP_OUTER_DTYPE];
  const int32_t mod = in->axis[AP_OUTER_MOD];
  const int32_t rows = in->field[AP_OUTER_TILE_ROWS];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (mod) {
    TEXT("// c[n, i, j] = f(x[n, i], y[n, j]), ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside; f is at the end. 2^column_shift\n"
         "// threads of a block share a row, a vector of 16 bytes each; the block has ROWS rows of each such\n"
         "// group.\n");
  } else {
    TEXT("// c[n, i, j] = x[n, i] y[n, j], ");
    STRING(in->word[AP_OUTER_DTYPE]);
    TEXT(", fp32 inside. 2^column_shift threads of a block share a row, a\n"
         "// vector of 16 bytes each; the block has ROWS rows of each such group.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/outer/outer_fwd.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family outer --pass fwd");
  if (mod) {
    TEXT(" --mod");
  }
  TEXT(" --dtype ");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/outer.h\"\n"
       "#include \"attnpress/device/outer.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n");
  if (mod) {
    TEXT("#include \"attnpress/device/snippet.cuh\"\n");
  }
  TEXT("\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_OUTER_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int ROWS = ");
  INTEGER(rows);
  TEXT(";     // of a thread\n"
       "constexpr int ELEMENTS = 16 / SIZE; // of a vector\n"
       "\n");
  if (mod) {
    TEXT("// The caller's function of an element of x and one of y.\n"
         "__device__ __forceinline__ float snippet_value(const uint32_t *scalars, float x, float y);\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_outer_fwd_args args) {\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  // A read among writes costs more than its bytes: what the thread blocks after the next AHEAD read\n"
       "  // comes at once, and the first ones also bring what those before them do.\n"
       "  const int64_t each = (int64_t)args.column_blocks * args.row_blocks; // thread blocks of an entry\n"
       "  const int64_t part = blockIdx.x % AHEAD, window = blockIdx.x - part;\n"
       "  if (part < BRINGERS)\n"
       "    prefetch_entries(&args, SIZE, THREADS, window == 0 ? 0 : (window + AHEAD) / each,\n"
       "                     (window + 2 * AHEAD + each - 1) / each, (int)part);\n"
       "  const int column_threads = 1 << args.column_shift;\n"
       "  const int groups = THREADS >> args.column_shift;\n"
       "  const int beside = blockIdx.x % args.column_blocks;\n"
       "  const int below = blockIdx.x / args.column_blocks % args.row_blocks;\n"
       "  const int64_t batch = blockIdx.x / args.column_blocks / args.row_blocks;\n"
       "  const int index = beside * column_threads + (threadIdx.x & (column_threads - 1)); // of vectors\n"
       "  const int first = below * groups * ROWS + (threadIdx.x >> args.column_shift);\n"
       "\n"
       "  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;\n"
       "  uint4 vector;\n"
       "  float y[ELEMENTS];\n"
       "  load_columns((const unsigned char *)args.y + batch * args.y_stride * SIZE, SIZE, args.columns,\n"
       "               index, 0, 1, &vector);\n"
       "  widen_vector_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(vector, y);\n"
       "  unsigned char *c = (unsigned char *)args.c + batch * args.c_batch_stride * SIZE;\n"
       "  float factor[ROWS];\n"
       "#pragma unroll\n"
       "  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int row = first + r * groups;\n"
       "    factor[r] = 0.0f;\n"
       "    if (row < args.rows)\n"
       "      factor[r] = widen_element_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(load_element(x, SIZE, row));\n"
       "  }\n");
  if (mod) {
    TEXT("  // The function is compiled for one row: its factor is the first, and the others move up.\n"
         "#pragma unroll 1\n");
  } else {
    TEXT("#pragma unroll\n");
  }
  TEXT("  for (int r = 0; r < ROWS; ++r) {\n"
       "    const int row = first + r * groups;\n"
       "    float product[ELEMENTS];\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n");
  if (mod) {
    TEXT("      product[j] = snippet_value(args.scalar, factor[0], y[j]);\n");
  } else {
    TEXT("      product[j] = factor[r] * y[j];\n");
  }
  TEXT("    stream_columns(c + row * args.c_row_stride * SIZE, SIZE, row < args.rows ? args.columns : 0,\n"
       "                   index, narrow_vector_");
  STRING(in->word[AP_OUTER_DTYPE]);
  TEXT("(product));\n");
  if (mod) {
    TEXT("#pragma unroll\n"
         "    for (int i = 0; i < ROWS - 1; ++i)\n"
         "      factor[i] = factor[i + 1];\n");
  }
  TEXT("  }\n"
       "}\n");
}
