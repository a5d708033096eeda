/* Written by `python -m generator` from templates/dropout/dropout_keep.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_dropout_keep(ap_text *out, const ap_render_input *in);

void ap_render_dropout_keep(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t warps = in->field[AP_DROPOUT_TILE_WARPS];
  const int32_t block_n = in->field[AP_DROPOUT_TILE_BLOCK_N];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// Writes dropout's decisions, by the code that the forward kernels drop with: a byte of 1 for each\n"
       "// probability that is kept, of 0 for each that is dropped. A warp has 16 rows and BLOCK_N keys of\n"
       "// one head, in the layout of the scores.\n"
       "//\n"
       "// Pressed from templates/dropout/dropout_keep.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family dropout\n"
       "\n"
       "#include \"attnpress/args/dropout.h\"\n"
       "#include \"attnpress/device/dropout.cuh\"\n"
       "\n"
       "constexpr int WARPS = ");
  INTEGER(warps);
  TEXT(";\n"
       "constexpr int BLOCK_M = 16 * WARPS; // rows of a thread block\n"
       "constexpr int BLOCK_N = ");
  INTEGER(block_n);
  TEXT("; // keys of a thread block\n"
       "constexpr int TILES = BLOCK_N / 8; // of 8 keys\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(32 * WARPS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_dropout_keep_args args) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  int block = blockIdx.x;\n"
       "  const int key_begin = block % args.key_blocks * BLOCK_N;\n"
       "  block /= args.key_blocks;\n"
       "  const int row_begin = block % args.row_blocks * BLOCK_M + threadIdx.x / 32 * 16;\n"
       "  block /= args.row_blocks;\n"
       "  const int head = block % args.heads_q;\n"
       "  const int64_t batch = block / args.heads_q;\n"
       "\n"
       "  float keep[TILES * 4];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < TILES * 4; ++i)\n"
       "    keep[i] = 1.0f;\n"
       "  const DropoutHead of_head = dropout_head(&args.score, batch * args.heads_q + head);\n"
       "  drop_probabilities(keep, TILES, &of_head, row_begin, key_begin, lane,\n"
       "                     args.score.dropout_threshold);\n"
       "\n"
       "  unsigned char *to =\n"
       "      (unsigned char *)args.keep + batch * args.batch_stride + head * args.head_stride;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < TILES * 4; ++i) {\n"
       "    const int row = row_begin + i / 2 % 2 * 8 + lane / 4;\n"
       "    const int key = key_begin + i / 4 * 8 + lane % 4 * 2 + i % 2;\n"
       "    if (row < args.seqlen_q && key < args.seqlen_k)\n"
       "      to[row * args.row_stride + key * args.key_stride] = keep[i] != 0.0f;\n"
       "  }\n"
       "}\n");
}
