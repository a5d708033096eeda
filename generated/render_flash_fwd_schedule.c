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
    TEXT("// Puts the sequences of a batch in order, those with the longest units of work first, for calls\n"
         "// that find the order ready. A thread block a part of the batch, of 1,024 sequences, which it puts\n"
         "// in order by itself.\n");
  } else {
    TEXT("// Puts the sequences of a batch in order, those with the longest units of work first, so that the\n"
         "// short ones fill the gaps at the end, and counts the units before each. A thread block a part of\n"
         "// the batch, of 1,024 sequences, and an order of it: it puts the part in order by itself, and adds\n"
         "// up the units of all sequences before the part, whose sum is the same in any order. So no thread\n"
         "// block waits for another.\n");
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
       "#include \"attnpress/args/ragged.h\"\n");
  if (!ready) {
    TEXT("#include \"attnpress/device/ptx_global.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/sequence.cuh\"\n"
       "#include \"attnpress/device/tile.cuh\"\n");
  if (!ready) {
    TEXT("#include \"attnpress/device/units.cuh\"\n");
  }
  TEXT("constexpr int WARPS = ");
  INTEGER(warps_m);
  TEXT(";\n"
       "constexpr int NUM_THREADS = 32 * WARPS;\n"
       "static_assert(NUM_THREADS == ATTNPRESS_SCHEDULE_PART, \"a thread a sequence of a part\");\n"
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
       "  of.keys = of.k_batch < 0 ? Rows{0, 0} : key_rows(ragged, b);\n"
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
       "// ones. So places behind the last sequence, which have no units, remain there.\n"
       "__device__ __forceinline__ uint32_t sort_key(Sides sides, int place) {\n"
       "  const int walk = sides.blocks > 0 ? sides.walk : 0;\n"
       "  return (uint32_t)min(walk / 16, (1 << 22) - 1) << 10 | (uint32_t)(NUM_THREADS - 1 - place);\n"
       "}\n"
       "\n"
       "// Sorts the keys of the first `count` threads, a power of two, the largest first (bitonic sort:\n"
       "// Batcher 1968). Lanes of a warp exchange theirs by shuffles, warps through two buffers in turn, so\n"
       "// that what is read of one is not written before all have passed the next barrier.\n"
       "__device__ __forceinline__ uint32_t sort(uint32_t (*buffers)[NUM_THREADS], uint32_t key,\n"
       "                                         int count) {\n"
       "  const int place = threadIdx.x;\n"
       "  int turn = 0;\n"
       "  for (int size = 2; size <= count; size *= 2) {\n"
       "    const bool falls = (place & size) == 0;\n"
       "    for (int stride = size / 2; stride >= 32; stride /= 2) {\n"
       "      buffers[turn][place] = key;\n"
       "      // All threads arrive and wait: hands over the keys.\n"
       "      __syncthreads();\n"
       "      const uint32_t other = buffers[turn][place ^ stride];\n"
       "      key = falls == ((place & stride) == 0) ? max(key, other) : min(key, other);\n"
       "      turn ^= 1;\n"
       "    }\n"
       "#pragma unroll\n"
       "    for (int stride = 16; stride > 0; stride /= 2)\n"
       "      if (stride < size) {\n"
       "        const uint32_t other = __shfl_xor_sync(0xffffffff, key, stride);\n"
       "        key = falls == ((place & stride) == 0) ? max(key, other) : min(key, other);\n"
       "      }\n"
       "  }\n"
       "  return key;\n"
       "}\n"
       "\n");
  if (!ready) {
    TEXT("// Blocks of a sequence, of each head, and the splits of each.\n"
         "struct Blocks {\n"
         "  int count;\n"
         "  Splits splits;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Blocks blocks_of(const attnpress_fwd_schedule_args *args,\n"
         "                                            const attnpress_schedule_order *order,\n"
         "                                            const Lengths *of) {\n"
         "  Splits splits = {0, 1};\n"
         "  if (args->split_keys > 0)\n"
         "    splits = seen_splits(&args->ragged, &args->score, args->window, of->queries.count,\n"
         "                         of->keys.count, args->split_keys);\n"
         "  const int positions = sides_of(order, of).blocks;\n"
         "  const int blocks = ceil_div(positions, order->positions);\n"
         "  return {positions <= order->whole ? min(blocks, 1) : blocks, splits};\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ int units_of(const Blocks *blocks, int heads) {\n"
         "  return blocks->count * heads * blocks->splits.count;\n"
         "}\n"
         "\n"
         "// What is stored of a sequence, 16 bytes at a time: fewer stores than one of each field.\n"
         "constexpr int RECORD_VECTORS = sizeof(attnpress_sequence_units) / sizeof(uint4);\n"
         "union Record {\n"
         "  attnpress_sequence_units of;\n"
         "  uint4 vectors[RECORD_VECTORS];\n"
         "};\n"
         "\n"
         "// Units of sequence b. Most orders are of rows, and of all keys at once: then keys are not looked\n"
         "// at.\n"
         "__device__ __forceinline__ int count_units(const attnpress_fwd_schedule_args *args,\n"
         "                                           const attnpress_schedule_order *order, int b) {\n"
         "  if (!order->by_keys && args->split_keys == 0) {\n"
         "    const int rows = query_rows(&args->ragged, b, args->seqlen_q).count;\n"
         "    return ceil_div(rows, order->positions) * order->heads;\n"
         "  }\n"
         "  const Lengths of = lengths_of(args, b);\n"
         "  const Blocks blocks = blocks_of(args, order, &of);\n"
         "  return units_of(&blocks, order->heads);\n"
         "}\n"
         "\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(NUM_THREADS)\n"
       "    ");
  STRING(stem);
  TEXT("(const __grid_constant__ attnpress_fwd_schedule_args args) {\n"
       "  __shared__ uint32_t keys[2][NUM_THREADS];\n");
  if (!ready) {
    TEXT("  __shared__ Lengths lengths[NUM_THREADS];\n"
         "  __shared__ int units_before[WARPS], units_of_warps[WARPS];\n");
  }
  TEXT("  const int place = threadIdx.x;\n"
       "  const int parts = max(ceil_div(args.batch, NUM_THREADS), 1);\n"
       "  const int part = blockIdx.x % parts * NUM_THREADS;\n"
       "  const attnpress_schedule_order *const order = &args.order[blockIdx.x / parts];\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_launch_dependents();\n"
       "  griddepcontrol_wait();\n");
  if (!ready) {
    TEXT("  if (place == 0 && blockIdx.x == 0 && args.ticket != nullptr)\n"
         "    *args.ticket = 0;\n");
  }
  TEXT("  const int there = min(args.batch - part, NUM_THREADS);\n"
       "  int count = 1;\n"
       "  while (count < there)\n"
       "    count *= 2;\n"
       "  Lengths of = {{0, 0}, {0, 0}, 0};\n"
       "  if (place < there)\n"
       "    of = lengths_of(&args, part + place);\n");
  if (!ready) {
    TEXT("  lengths[place] = of;\n"
         "  int before = 0; // units of this thread's share of the sequences before the part\n"
         "  for (int b = place; b < part; b += NUM_THREADS)\n"
         "    before += count_units(&args, order, b);\n"
         "  // All threads arrive and wait: hands over the lengths.\n"
         "  __syncthreads();\n");
  }
  TEXT("  const uint32_t key = sort(keys, sort_key(sides_of(order, &of), place), count);\n"
       "  const int from = NUM_THREADS - 1 - (int)(key % NUM_THREADS), sequence = part + from;\n");
  if (ready) {
    TEXT("  if (place < there) {\n"
         "    int32_t *const in_order = args.ready + ATTNPRESS_READY_ORDER;\n"
         "    in_order[part + place] = sequence;\n"
         "    in_order[args.batch + sequence] = part + place;\n"
         "  }\n"
         "  if (place == 0 && part == 0)\n"
         "    args.ready[0] = args.batch;\n"
         "}\n");
  } else {
    TEXT("  of = lengths[from];\n"
         "  const Blocks blocks = blocks_of(&args, order, &of);\n"
         "  const int units = units_of(&blocks, order->heads);\n"
         "  const int sum = sum_up_lanes(units);\n"
         "  const int lane = place % 32, warp = place / 32;\n"
         "  before = __reduce_add_sync(0xffffffff, before);\n"
         "  if (lane == 31) {\n"
         "    units_before[warp] = before;\n"
         "    units_of_warps[warp] = sum;\n"
         "  }\n"
         "  // All threads arrive and wait: hands over the units.\n"
         "  __syncthreads();\n"
         "  // Of the parts before, and of the warps before: each lane adds up those of one warp.\n"
         "  const int others = units_before[lane] + (lane < warp ? units_of_warps[lane] : 0);\n"
         "  const int end = __reduce_add_sync(0xffffffff, others) + sum;\n"
         "  if (place < there) {\n"
         "    order->first_unit[part + place] = end - units;\n"
         "    if (args.split_keys > 0)\n"
         "      args.sequence_splits[sequence] = blocks.splits.count;\n"
         "    Record record;\n"
         "    record.of.sequence = sequence;\n"
         "    record.of.seqlen_q = of.queries.count;\n"
         "    record.of.seqlen_k = of.keys.count;\n"
         "    record.of.q_batch = args.ragged.cu_seqlens_q != nullptr ? 0 : sequence;\n"
         "    record.of.q_row = of.queries.begin;\n"
         "    record.of.k_batch = max(of.k_batch, 0);\n"
         "    record.of.k_row = of.keys.begin;\n"
         "    record.of.first_page = first_page(&args.ragged, sequence, record.of.k_batch);\n"
         "    record.of.blocks = blocks.count;\n"
         "    record.of.first_split = blocks.splits.first;\n"
         "    record.of.section_heads = heads_of_section(sides_of(order, &of).walk, order->walk_bytes,\n"
         "                                               order->sharing, order->heads);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < RECORD_VECTORS; ++i)\n"
         "      store_16_if(true, (uint4 *)&order->sequences[part + place] + i, record.vectors[i]);\n"
         "  }\n"
         "  if (place == NUM_THREADS - 1 && part + NUM_THREADS >= args.batch)\n"
         "    order->first_unit[args.batch] = end;\n"
         "}\n");
  }
}
