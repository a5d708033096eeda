/* Written by `python -m generator` from templates/attention/flash_fwd_schedule.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_flash_fwd_schedule(ap_text *out, const ap_render_input *in);

void ap_render_flash_fwd_schedule(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t hdim = in->axis[AP_ATTENTION_HDIM];
  const int32_t ready = in->axis[AP_ATTENTION_READY];
  const int32_t arch = in->axis[AP_ATTENTION_ARCH];
  const int32_t warps_m = in->field[AP_ATTENTION_TILE_WARPS_M];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (ready) {
    TEXT("// Puts the sequences of a batch in order, those with the longest units of work first, for calls that\n"
         "// find the order ready. One thread block, which takes 1,024 sequences at a time, and orders each such\n"
         "// part of the batch by itself.\n");
  } else {
    TEXT("// Puts the sequences of a batch in order, those with the longest units of work first, so that the\n"
         "// short ones fill the gaps at the end, and counts the units before each. A thread block an order,\n"
         "// which takes 1,024 sequences at a time, and orders each such part of the batch by itself.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/attention/flash_fwd_schedule.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --pass fwd_schedule --hdim ");
  INTEGER(hdim);
  STRING(ready ? " --ready" : "");
  TEXT(" --arch sm");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/ragged.h\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/sequence.cuh\"\n"
       "#include \"attnpress/device/tile.cuh\"\n");
  if (!ready) {
    TEXT("#include \"attnpress/device/units.cuh\"\n");
  }
  TEXT("constexpr int WARPS = ");
  INTEGER(warps_m);
  TEXT(";\n"
       "constexpr int NUM_THREADS = 32 * WARPS;\n"
       "static_assert(NUM_THREADS == 1024, \"places take 10 bits of a sort key\");\n"
       "\n"
       "// Queries of a sequence and its keys.\n"
       "struct Lengths {\n"
       "  Rows queries, keys;\n"
       "  int k_batch;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Lengths lengths_of(const attnpress_fwd_schedule_args *args, int b) {\n"
       "  const attnpress_ragged_args *ragged = &args->ragged;\n"
       "  Lengths of;\n"
       "  of.queries = query_rows(ragged, b, args->seqlen_q);\n"
       "  of.k_batch = key_batch(ragged, b);\n"
       "  of.keys = of.k_batch < 0 ? Rows{0, 0} : bounded_keys(ragged, b, args->seqlen_k);\n"
       "  return of;\n"
       "}\n"
       "\n"
       "// Of a sequence, the positions that an order's blocks have, and those that each walks over.\n"
       "struct Sides {\n"
       "  int blocks, walk;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Sides sides_of(const attnpress_schedule_order *order,\n"
       "                                          const Lengths *of) {\n"
       "  return order->by_keys ? Sides{of->keys.count, of->queries.count}\n"
       "                        : Sides{of->queries.count, of->keys.count};\n"
       "}\n"
       "\n"
       "// Sequences whose units walk over more, and are longer, have larger sort keys; of equals, earlier\n"
       "// ones. Places without a sequence have 0.\n"
       "__device__ __forceinline__ uint32_t sort_key(int walk, int place) {\n"
       "  return (uint32_t)min(walk / 16, (1 << 22) - 1) << 10 | (uint32_t)(NUM_THREADS - 1 - place);\n"
       "}\n"
       "\n"
       "// Sorts the first `count` keys, a power of two, the largest first (bitonic sort: Batcher 1968).\n"
       "__device__ __forceinline__ void sort(uint32_t *keys, int count) {\n"
       "  const int place = threadIdx.x;\n"
       "  for (int size = 2; size <= count; size *= 2)\n"
       "    for (int stride = size / 2; stride > 0; stride /= 2) {\n"
       "      const int other = place ^ stride;\n"
       "      if (place < count && other > place) {\n"
       "        const uint32_t mine = keys[place], others = keys[other];\n"
       "        if ((place & size) == 0 ? mine < others : mine > others) {\n"
       "          keys[place] = others;\n"
       "          keys[other] = mine;\n"
       "        }\n"
       "      }\n"
       "      // All threads arrive and wait: hands over the keys.\n"
       "      __syncthreads();\n"
       "    }\n"
       "}\n"
       "\n");
  if (!ready) {
    TEXT("// Sums of `value` over the threads up to this one, for the first `count` threads, a power of two.\n"
         "__device__ __forceinline__ int sum_up(int *sums, int value, int count) {\n"
         "  const int place = threadIdx.x;\n"
         "  sums[place] = value;\n"
         "  // All threads arrive and wait, here and below: hands over the sums.\n"
         "  __syncthreads();\n"
         "  for (int distance = 1; distance < count; distance *= 2) {\n"
         "    if (place >= distance)\n"
         "      value += sums[place - distance];\n"
         "    __syncthreads();\n"
         "    sums[place] = value;\n"
         "    __syncthreads();\n"
         "  }\n"
         "  return value;\n"
         "}\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(NUM_THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_fwd_schedule_args args) {\n"
       "  __shared__ uint32_t keys[NUM_THREADS];\n");
  if (!ready) {
    TEXT("  __shared__ int sums[NUM_THREADS];\n");
  }
  TEXT("  const int place = threadIdx.x;\n"
       "  const attnpress_schedule_order *const order = &args.order[blockIdx.x];\n"
       "  griddepcontrol_launch_dependents();\n");
  if (!ready) {
    TEXT("  if (place == 0 && blockIdx.x == 0 && args.ticket != nullptr)\n"
         "    *args.ticket = 0;\n"
         "  int before = 0; // units of the parts before\n");
  }
  TEXT("  for (int part = 0; part < args.batch; part += NUM_THREADS) {\n"
       "    const int there = min(args.batch - part, NUM_THREADS);\n"
       "    int count = 1;\n"
       "    while (count < there)\n"
       "      count *= 2;\n"
       "    uint32_t key = 0;\n"
       "    if (place < there) {\n"
       "      const Lengths of = lengths_of(&args, part + place);\n"
       "      const Sides sides = sides_of(order, &of);\n"
       "      key = sort_key(sides.blocks > 0 ? sides.walk : 0, place);\n"
       "    }\n"
       "    keys[place] = key;\n"
       "    // All threads arrive and wait: hands over the keys.\n"
       "    __syncthreads();\n"
       "    sort(keys, count);\n"
       "\n"
       "    const int sequence = part + NUM_THREADS - 1 - (int)(keys[place] % NUM_THREADS);\n");
  if (ready) {
    TEXT("    if (place < there) {\n"
         "      int32_t *const in_order = args.ready + ATTNPRESS_READY_ORDER;\n"
         "      in_order[part + place] = sequence;\n"
         "      in_order[args.batch + sequence] = part + place;\n"
         "    }\n"
         "  }\n"
         "  if (place == 0)\n"
         "    args.ready[0] = args.batch;\n"
         "}\n");
  } else {
    TEXT("    Lengths of = {{0, 0}, {0, 0}, 0};\n"
         "    if (place < there)\n"
         "      of = lengths_of(&args, sequence);\n"
         "    const Sides sides = sides_of(order, &of);\n"
         "    const int blocks = ceil_div(sides.blocks, order->positions);\n"
         "    Splits splits = {0, 1};\n"
         "    if (args.split_keys > 0)\n"
         "      splits = seen_splits(&args.ragged, &args.score, args.window, of.queries.count,\n"
         "                           of.keys.count, args.split_keys);\n"
         "    const int units = blocks * order->heads * splits.count;\n"
         "    const int end = sum_up(sums, units, count);\n"
         "    if (place < there) {\n"
         "      attnpress_sequence_units *to = &order->sequences[part + place];\n"
         "      order->first_unit[part + place] = before + end - units;\n"
         "      to->sequence = sequence;\n"
         "      to->seqlen_q = of.queries.count;\n"
         "      to->seqlen_k = of.keys.count;\n"
         "      to->q_batch = args.ragged.cu_seqlens_q != nullptr ? 0 : sequence;\n"
         "      to->q_row = of.queries.begin;\n"
         "      to->k_batch = max(of.k_batch, 0);\n"
         "      to->k_row = of.keys.begin;\n"
         "      to->first_page = first_page(&args.ragged, sequence, to->k_batch);\n"
         "      to->blocks = blocks;\n"
         "      to->first_split = splits.first;\n"
         "      if (args.split_keys > 0)\n"
         "        args.sequence_splits[sequence] = splits.count;\n"
         "      to->section_heads =\n"
         "          heads_of_section(sides.walk, order->walk_bytes, order->sharing, order->heads);\n"
         "    }\n"
         "    before += sums[count - 1]; // which change after the next barrier\n"
         "  }\n"
         "  if (place == 0)\n"
         "    order->first_unit[args.batch] = before;\n"
         "}\n");
  }
}
