/* Written by `python -m generator` from templates/attention/flash_fwd_map.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_map(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_map(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t hdim = in->axis[AP_ATTENTION_HDIM];
  const int32_t arch = in->axis[AP_ATTENTION_ARCH];
  const int32_t warps_m = in->field[AP_ATTENTION_TILE_WARPS_M];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// Sorts the tiles of a forward kernel by what a snippet's mask leaves of their scores: none, some\n"
       "// or all of them. The forward kernel neither loads nor computes the first, and asks the mask of the\n"
       "// second alone. Keys that its own mask (causal, window) hides from a row count for nothing here.\n"
       "//\n"
       "// One thread block writes one word: 16 key blocks of one row block, which its warps share. A lane\n"
       "// has every 32nd key.\n"
       "//\n"
       "// Pressed from templates/attention/flash_fwd_map.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass fwd_map --hdim ");
  INTEGER(hdim);
  TEXT(" --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/score_mod.h\"\n"
       "#include \"attnpress/device/score.cuh\"\n"
       "#include \"attnpress/device/score_mod.cuh\"\n"
       "#include \"attnpress/device/work.cuh\"\n"
       "\n"
       "constexpr int WARPS = ");
  INTEGER(warps_m);
  TEXT(";\n"
       "\n"
       "// Whether the snippet lets query row see key `k`.\n"
       "__device__ __forceinline__ bool snippet_keeps(const attnpress_mod_args *mod, SnippetRow row, int k,\n"
       "                                              int q_len, int k_len);\n"
       "\n"
       "// The keys that the forward kernel's own mask lets a position see.\n"
       "__device__ __forceinline__ Row find_row(const attnpress_fwd_map_args *args, int position) {\n"
       "  const attnpress_fwd_args *fwd = &args->call.fwd;\n"
       "  if (args->mask == 2)\n"
       "    return window_row(position, &fwd->score, fwd->seqlen_k);\n"
       "  return row_at(position, args->mask == 1, fwd->seqlen_q, fwd->seqlen_k);\n"
       "}\n"
       "\n"
       "// What the mask leaves of key block `n` to the positions first to last, and the heads from\n"
       "// `first_head` on. All lanes arrive and get the same answer.\n"
       "__device__ __forceinline__ TileState sort_tile(const attnpress_fwd_map_args *args, int64_t batch,\n"
       "                                               int first_head, int first, int last, int n) {\n"
       "  const attnpress_fwd_args *fwd = &args->call.fwd;\n"
       "  const int key_begin = n * args->block_n, key_end = key_begin + args->block_n;\n"
       "  uint32_t found = 0; // of this lane's scores: 1 where some are taken out, 2 where some are left\n"
       "  bool both = false;  // of all lanes' scores: no more is to be known\n"
       "  for (int position = first; position <= last && !both; ++position) {\n"
       "    const Row row = find_row(args, position);\n"
       "    const int begin = max(row.key_begin, key_begin), end = min(row.key_end, key_end);\n"
       "    for (int head = 0; head < args->heads; ++head) {\n"
       "      const SnippetRow at = snippet_row(fwd, batch, first_head + head, position);\n"
       "      for (int key = begin + threadIdx.x % 32; key < end; key += 32)\n"
       "        found |= snippet_keeps(&args->call.mod, at, key, fwd->seqlen_q, fwd->seqlen_k) ? 2 : 1;\n"
       "    }\n"
       "    both = __any_sync(0xffffffff, found & 1) && __any_sync(0xffffffff, found & 2);\n"
       "  }\n"
       "  if (both)\n"
       "    return SOME_SCORES;\n"
       "  return __any_sync(0xffffffff, found & 2) ? ALL_SCORES : NO_SCORES;\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(32 * WARPS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_fwd_map_args args) {\n"
       "  __shared__ uint32_t parts[WARPS];\n"
       "  const attnpress_fwd_args *fwd = &args.call.fwd;\n"
       "  const attnpress_mod_args *mod = &args.call.mod;\n"
       "  int block = blockIdx.x;\n"
       "  const int word = block % mod->map_words;\n"
       "  block /= mod->map_words;\n"
       "  const int row_block = block % fwd->row_blocks;\n"
       "  block /= fwd->row_blocks;\n"
       "  const int tile_head = block % args.map_heads;\n"
       "  const int64_t batch = block / args.map_heads;\n"
       "\n"
       "  int first, last, head;\n"
       "  const int64_t row_begin = (int64_t)row_block * args.row_block_rows;\n"
       "  const int64_t rows = (int64_t)fwd->seqlen_q * fwd->heads_per_tile;\n"
       "  split_row((int)row_begin, fwd->heads_per_tile, &first, &head);\n"
       "  split_row((int)min(row_begin + args.row_block_rows, rows) - 1, fwd->heads_per_tile, &last, &head);\n"
       "  const int key_blocks = ceil_div(fwd->seqlen_k, args.block_n);\n"
       "  uint32_t states = 0;\n"
       "  for (int i = threadIdx.x / 32; i < 16 && word * 16 + i < key_blocks; i += WARPS)\n"
       "    states |= (uint32_t)sort_tile(&args, batch, tile_head * fwd->heads_per_tile, first, last,\n"
       "                                  word * 16 + i)\n"
       "              << 2 * i;\n"
       "  if (threadIdx.x % 32 == 0)\n"
       "    parts[threadIdx.x / 32] = states;\n"
       "  // All threads arrive and wait: hands over what the warps found.\n"
       "  __syncthreads();\n"
       "  if (threadIdx.x == 0) {\n"
       "    for (int warp = 1; warp < WARPS; ++warp)\n"
       "      states |= parts[warp];\n"
       "    uint32_t *map = mod->map + batch * mod->map_batch_stride + tile_head * mod->map_head_stride;\n"
       "    map[(int64_t)row_block * mod->map_words + word] = states;\n"
       "  }\n"
       "}\n");
}
