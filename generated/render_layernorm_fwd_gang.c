/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_gang.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_gang(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_gang(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t rows = in->axis[AP_LAYERNORM_ROWS];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  int32_t split = ((rows == AP_LAYERNORM_ROWS_SPLIT) || (rows == AP_LAYERNORM_ROWS_SPLITSUM)) ? 1 : 0;
  int32_t adds = ((rows == AP_LAYERNORM_ROWS_GANGSUM) || (rows == AP_LAYERNORM_ROWS_SPLITSUM)) ? 1 : 0;
  int32_t layer = (norm == AP_LAYERNORM_NORM_LAYER) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (layer) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix, rstd = 1 / sqrt(variance + eps).\n");
  } else {
    TEXT("// y = x rstd weight over the rows of a matrix, rstd = 1 / sqrt(mean square + eps).\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. The blocks of a gang, as many as the launch says, share\n"
       "// a row: each has at most COLUMNS columns of it, and keeps their parameters in registers. A gang\n"
       "// walks over rows. All blocks of a launch run at the same time, and launches one after the other: a\n"
       "// launch has as many blocks as there are SMs, each of which has room for one.\n"
       "//\n"
       "// The copy engine brings parts of rows to rings, one of each warp that writes. Others add rows up\n"
       "// as they arrive. What its warps have of a row a block tells the gang, through global memory. One\n"
       "// of the gang's blocks, of each row another, makes the row's moments of that, and tells the gang.\n"
       "// When they are known the ring's warp writes its part of the row, and another takes its place.\n");
  if (adds) {
    TEXT("// x is x + residual, rounded, which is written, too; parts of both lie in a place of a ring.\n");
  }
  if (split) {
    TEXT("//\n");
    if (adds) {
      TEXT("// Rows lie one after the other, of all matrices alike, from a multiple of a vector on; no output is\n"
           "// an input. What a\n");
    } else {
      TEXT("// Rows lie one after the other, x and y alike, from a multiple of a vector on; y is not x. What a\n");
    }
    TEXT("// warp has of them are whole vectors, of which those at a row's ends hold elements of others, too.\n"
         "// Rows that begin at the same element of a vector are a class. A gang takes class after class, in\n"
         "// the order of that element: where the next one begins so many elements later in its vectors,\n"
         "// parameters go as many further, from lane to lane.\n");
  } else {
    TEXT("//\n"
         "// Rows of ");
    STRING(adds ? "all matrices" : "x and of y");
    TEXT(" are whole vectors, at multiples of a vector; ");
    STRING(adds ? "an output may be an input" : "y may be x");
    TEXT(".\n");
  }
  TEXT("// Parameters are at multiples of a vector, or NULL.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_gang.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass fwd --norm ");
  STRING(in->word[AP_LAYERNORM_NORM]);
  TEXT(" --cols ");
  INTEGER(cols);
  TEXT(" \\\n"
       "//     --dtype ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(" --params ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(" --rows ");
  STRING(in->word[AP_LAYERNORM_ROWS]);
  TEXT(" --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_bulk_copy.cuh\"\n");
  if (split) {
    TEXT("#include \"attnpress/device/ptx_global.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_told.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_fwd_args Args;\n"
       "\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT("; // that write a row\n"
       "constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
       "constexpr int ADDERS = THREADS / 32 - ROW_WARPS - 3; // warps that add rows up\n"
       "constexpr int ADDED = ROW_WARPS / ADDERS;            // rings that each of them has\n"
       "constexpr int ELEMENTS = 16 / SIZE;                         // of a vector\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row, at the most\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // rows of a warp's ring, at the most\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int RING_BYTES = SMEM_BYTES / ROW_WARPS;\n"
       "constexpr int TURNS = 16;       // rows that a block's warps tell of, and are told of\n"
       "constexpr int TOLD_ROWS = 16;   // and a gang's blocks\n"
       "constexpr int LISTENED = 8;     // rows whose moments are awaited at a time\n"
       "constexpr int FIRST_ROWS = 2;   // that come before the parameters\n"
       "constexpr int BLOCKS_MAX = 160; // of a launch\n"
       "constexpr int LAUNCHES = 4;     // that have memory of their own, in turn\n");
  if (layer) {
    TEXT("constexpr float FAR = 16.0f; // of the square of a mean, in variances\n");
  }
  TEXT("static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "static_assert(RING_BYTES % 128 == 0, \"rings are of whole vectors\");\n"
       "static_assert(ADDERS * ADDED == ROW_WARPS && 32 % ROW_WARPS == 0, \"rings are shared evenly\");\n"
       "static_assert(SLOTS <= TURNS && SLOTS <= TOLD_ROWS && LISTENED <= TURNS,\n"
       "              \"who tells of a row has been told of the one whose place that takes\");\n"
       "\n"
       "// What a block's warps have of a row, sums and squared differences to their means, and then the\n"
       "// row's mean and rstd; each with the barrier that awaits it.\n"
       "struct RowSums {\n"
       "  float2 warp[ROW_WARPS], all;\n"
       "  uint64_t told, known;\n"
       "};\n"
       "\n"
       "// What the blocks of a launch tell each other: what each has of rows, and moments of gangs' rows.\n"
       "struct Told {\n"
       "  uint64_t part[TOLD_ROWS][BLOCKS_MAX][2], row[BLOCKS_MAX][TOLD_ROWS][2];\n"
       "};\n"
       "\n"
       "// Launches take turns, each block for itself: it reads whose turn it is, and leaves it to the next.\n"
       "// That has zeros there, since a launch puts some for the one that follows.\n"
       "struct Memory {\n"
       "  Told told[LAUNCHES];\n"
       "  uint64_t turn[BLOCKS_MAX][2];\n"
       "};\n"
       "\n"
       "__device__ Memory own_memory; // zeros\n"
       "\n"
       "// Where a block is: its gang, of how many, its number in it, and of how many.\n"
       "struct Place {\n"
       "  int gang, gangs, rank, blocks;\n"
       "};\n"
       "\n"
       "// How a row's vectors are dealt to the warps of a gang: so many each, and one more to the first.\n"
       "struct Deal {\n"
       "  int each, more;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ int first_vector(Deal deal, int warp) {\n"
       "  return warp * deal.each + min(warp, deal.more);\n"
       "}\n"
       "\n"
       "// What a warp has of rows: vectors from number `begin` on.\n"
       "struct Share {\n"
       "  int begin, vectors;\n");
  if (adds) {
    TEXT("  int apart; // vectors from those of x in a place to those of the residual\n");
  }
  TEXT("};\n"
       "\n");
  if (split) {
    TEXT("// Rows `period` apart begin at the same element of a vector. Classes begin `apart` elements after\n"
         "// one another; the first row of the second one is number `second`.\n"
         "struct Order {\n"
         "  int period, apart, second;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Order order_of(const Args *args) {\n"
         "  const int odd = args->columns % ELEMENTS; // not 0\n"
         "  Order order = {1, odd & -odd, 0};\n"
         "  order.period = ELEMENTS / order.apart;\n"
         "  while (order.second * odd % ELEMENTS != order.apart)\n"
         "    ++order.second;\n"
         "  return order;\n"
         "}\n"
         "\n"
         "// A row, one past the last behind it, and the number of its class.\n"
         "struct Walk {\n"
         "  int64_t row;\n"
         "  int number;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Walk next_row(const Args *args, Order order, Place, Walk walk) {\n"
         "  walk.row += order.period;\n"
         "  while (walk.row >= args->rows && ++walk.number < order.period)\n"
         "    walk.row = walk.number * order.second % order.period;\n"
         "  return walk;\n"
         "}\n"
         "\n"
         "// The first row of a gang, which has as many as others.\n"
         "__device__ __forceinline__ Walk first_row(const Args *args, Order order, Place place) {\n"
         "  const int rows = (int)args->rows;\n"
         "  int left = place.gang * (rows / place.gangs) + min(place.gang, rows % place.gangs);\n"
         "  Walk walk = {0, 0};\n"
         "  for (;; ++walk.number) {\n"
         "    const int first = walk.number * order.second % order.period;\n"
         "    const int count = (rows - first + order.period - 1) / order.period; // of the class\n"
         "    if (left < count) {\n"
         "      walk.row = first + left * order.period;\n"
         "      return walk;\n"
         "    }\n"
         "    left -= max(count, 0);\n"
         "  }\n"
         "}\n"
         "\n"
         "// At what element of a vector a row begins.\n"
         "__device__ __forceinline__ int shift_of(Order order, Walk walk) {\n"
         "  return walk.number * order.apart;\n"
         "}\n"
         "\n");
  } else {
    TEXT("struct Order {};\n"
         "\n"
         "// A row, or one past the last.\n"
         "struct Walk {\n"
         "  int64_t row;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Walk next_row(const Args *, Order, Place place, Walk walk) {\n"
         "  walk.row += place.gangs;\n"
         "  return walk;\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ int shift_of(Order, Walk) {\n"
         "  return 0;\n"
         "}\n"
         "\n");
  }
  if (!split) {
    TEXT("__device__ __forceinline__ Order order_of(const Args *) {\n"
         "  return {};\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ Walk first_row(const Args *, Order, Place place) {\n"
         "  const Walk walk = {place.gang};\n"
         "  return walk;\n"
         "}\n"
         "\n");
  }
  TEXT("// ---- What blocks tell each other ----------------------------------------------------------------\n"
       "\n"
       "// A value and the round that it is of, which is never 0.\n"
       "__device__ __forceinline__ uint64_t mark(float value, int round) {\n"
       "  return (uint64_t)(round + 1) << 32 | __builtin_bit_cast(uint32_t, value);\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ bool is_of(uint64_t word, int round) {\n"
       "  return (uint32_t)(word >> 32) == (uint32_t)(round + 1);\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ float value_of(uint64_t word) {\n"
       "  return __builtin_bit_cast(float, (uint32_t)word);\n"
       "}\n"
       "\n"
       "// Whose turn it is, of LAUNCHES; puts zeros for the next one. Called by all lanes of a warp.\n"
       "__device__ __forceinline__ int take_turn(Memory *memory) {\n"
       "  const int lane = threadIdx.x % 32, block = blockIdx.x;\n"
       "  uint64_t turn, same;\n"
       "  load_told(memory->turn[block], &turn, &same);\n"
       "  Told *const next = &memory->told[(turn + 1) % LAUNCHES];\n"
       "  static_assert(TOLD_ROWS <= 32, \"a lane each\");\n"
       "  if (lane < TOLD_ROWS) {\n"
       "    store_told(next->part[lane][block], 0, 0);\n"
       "    store_told(next->row[block][lane], 0, 0);\n"
       "  }\n"
       "  // All lanes arrive and wait: they have read it.\n"
       "  __syncwarp();\n"
       "  if (lane == 0)\n"
       "    store_told(memory->turn[block], (turn + 1) % LAUNCHES, 0);\n"
       "  return (int)turn;\n"
       "}\n"
       "\n"
       "// Returns when all blocks have taken their turn. Who has no rows stays until then: on an SM that is\n"
       "// left, a block of the next launch may begin.\n"
       "__device__ __forceinline__ void await_turns(const Memory *memory, int turn) {\n"
       "  for (int block = threadIdx.x % 32; block < (int)gridDim.x; block += 32) {\n"
       "    uint64_t told, same;\n"
       "    do\n"
       "      load_told(memory->turn[block], &told, &same);\n"
       "    while (told == (uint64_t)turn);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Columns that some warps have of a row, and 1 / that, or 0.\n"
       "struct Count {\n"
       "  float columns, each;\n"
       "};\n"
       "\n"
       "// Of warps from number `first` on, before number `end`, of a row that begins at element `shift`.\n"
       "__device__ __forceinline__ Count count_of(const Args *args, Deal deal, int first, int end,\n"
       "                                          int shift) {\n"
       "  const int begin = max(first_vector(deal, first) * ELEMENTS - shift, 0);\n"
       "  const int count = min(first_vector(deal, end) * ELEMENTS - shift, args->columns) - begin;\n"
       "  const float columns = (float)max(count, 0);\n"
       "  const Count counted = {columns, count > 0 ? 1.0f / columns : 0.0f};\n"
       "  return counted;\n"
       "}\n"
       "\n"
       "// One warp: tells the gang what the block's warps have of rows.\n"
       "__device__ __forceinline__ void tell_rows(const Args *args, Told *told, Deal deal, Order order,\n"
       "                                          Place place, int rounds, RowSums *sums) {\n"
       "  const int lane = threadIdx.x % 32, warp = lane % ROW_WARPS;\n");
  if (layer) {
    TEXT("  const int first = place.rank * ROW_WARPS;\n"
         "  Walk walk = first_row(args, order, place);\n");
  }
  TEXT("#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n"
       "    RowSums *const row = &sums[round % TURNS];\n");
  if (layer) {
    TEXT("    const int shift = shift_of(order, walk);\n"
         "    const Count own = count_of(args, deal, first + warp, first + warp + 1, shift);\n"
         "    const Count all = count_of(args, deal, first, first + ROW_WARPS, shift);\n"
         "    walk = next_row(args, order, place, walk);\n");
  }
  TEXT("    wait_for_phase(shared_address(&row->told), round / TURNS % 2);\n"
       "    const float2 part = row->warp[warp];\n");
  if (layer) {
    TEXT("    // Chan, Golub and LeVeque 1979.\n"
         "    const float sum = sum_lanes(part.x, ROW_WARPS);\n"
         "    const float off = part.x * own.each - sum * all.each;\n"
         "    const float squares = sum_lanes(part.y + own.columns * off * off, ROW_WARPS);\n");
  } else {
    TEXT("    constexpr float sum = 0.0f;\n"
         "    const float squares = sum_lanes(part.y, ROW_WARPS);\n");
  }
  TEXT("    // All lanes arrive and wait: they have read what the warps told.\n"
       "    __syncwarp();\n"
       "    if (lane == 0) {\n"
       "      store_told(told->part[round % TOLD_ROWS][place.gang * place.blocks + place.rank],\n"
       "                 mark(sum, round), mark(squares, round));\n"
       "      mbarrier_arrive(shared_address(&row->known));\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// Another one: of the rows whose turn it is this block's, tells the gang the moments.\n"
       "__device__ __forceinline__ void make_moments(const Args *args, Told *told, Deal deal, Order order,\n"
       "                                             Place place, int rounds, RowSums *sums) {\n"
       "  constexpr int COUNT = BLOCKS_MAX / 32;\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  Walk walk = first_row(args, order, place);\n"
       "  int own = place.rank; // the next such round\n"
       "#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n"
       "    const Walk row_walk = walk;\n"
       "    walk = next_row(args, order, place, walk);\n"
       "    // The block's warps have told of this row: others do so at the same time. Who asks earlier asks\n"
       "    // again, which costs the L2 cache time.\n"
       "    wait_for_phase(shared_address(&sums[round % TURNS].told), round / TURNS % 2);\n"
       "    if (round != own)\n"
       "      continue;\n"
       "    own += place.blocks;\n"
       "    uint64_t sum[COUNT], squares[COUNT];\n"
       "    bool there;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < COUNT; ++i)\n"
       "      sum[i] = squares[i] = i * 32 + lane < place.blocks ? 0 : mark(0.0f, round);\n"
       "    uint64_t(*const part)[2] = told->part[round % TOLD_ROWS] + place.gang * place.blocks;\n"
       "    do {\n"
       "      there = true;\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < COUNT; ++i)\n"
       "        if (!is_of(sum[i], round) || !is_of(squares[i], round))\n"
       "          load_told(part[i * 32 + lane], &sum[i], &squares[i]);\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < COUNT; ++i)\n"
       "        there = there && is_of(sum[i], round) && is_of(squares[i], round);\n"
       "    } while (__any_sync(0xffffffff, !there));\n"
       "    float all = 0.0f;\n");
  if (layer) {
    TEXT("    float mean = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < COUNT; ++i)\n"
         "      mean += value_of(sum[i]);\n"
         "    mean = sum_lanes(mean, 32) * args->per_column;\n"
         "    const int shift = shift_of(order, row_walk);\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < COUNT; ++i) {\n"
         "      const int first = (i * 32 + lane) * ROW_WARPS;\n"
         "      const Count count = count_of(args, deal, first, first + ROW_WARPS, shift);\n"
         "      const float off = value_of(sum[i]) * count.each - mean;\n"
         "      if (i * 32 + lane < place.blocks)\n"
         "        all += value_of(squares[i]) + count.columns * off * off;\n"
         "    }\n");
  } else {
    TEXT("    constexpr float mean = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < COUNT; ++i)\n"
         "      all += value_of(squares[i]);\n");
  }
  TEXT("    const float rstd = reciprocal_sqrt_approx(sum_lanes(all, 32) * args->per_column + args->eps);\n"
       "    if (lane == 0) {\n"
       "      store_told(told->row[place.gang][round % TOLD_ROWS], mark(mean, round), mark(rstd, round));\n");
  if (layer) {
    TEXT("      if (args->mean)\n"
         "        args->mean[row_walk.row] = mean;\n");
  }
  TEXT("      if (args->rstd)\n"
       "        args->rstd[row_walk.row] = rstd;\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// A third one: hands rows' moments to the block, a lane each of LISTENED rows.\n"
       "__device__ __forceinline__ void hear_moments(const Told *told, Place place, int rounds,\n"
       "                                             RowSums *sums) {\n"
       "  int round = threadIdx.x % 32;\n"
       "  bool done = round >= LISTENED || round >= rounds;\n"
       "#pragma unroll 1\n"
       "  while (!done) {\n"
       "    uint64_t mean, rstd;\n"
       "    load_told(told->row[place.gang][round % TOLD_ROWS], &mean, &rstd);\n"
       "    if (is_of(mean, round) && is_of(rstd, round)) {\n"
       "      RowSums *const row = &sums[round % TURNS];\n"
       "      const float2 moments = {value_of(mean), value_of(rstd)};\n"
       "      // The block has told of this row: all have read those of the one whose place it takes.\n"
       "      wait_for_phase(shared_address(&row->told), round / TURNS % 2);\n"
       "      row->all = moments;\n"
       "      mbarrier_arrive(shared_address(&row->known));\n"
       "      round += LISTENED;\n"
       "      done = round >= rounds;\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// ---- A warp's ring ------------------------------------------------------------------------------\n"
       "\n"
       "// Its places, `each` bytes apart.\n"
       "struct Ring {\n"
       "  unsigned char *first;\n"
       "  uint32_t barriers;\n"
       "  int each, slots;\n"
       "};\n"
       "\n"
       "// Place number `slot`, in whose round the barrier there has phases of this parity.\n"
       "struct Slot {\n"
       "  int index, parity;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ unsigned char *place_of(const Ring *ring, Slot slot) {\n"
       "  return ring->first + slot.index * ring->each;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ Slot next_slot(Slot slot, int slots) {\n"
       "  const bool last = slot.index + 1 == slots;\n"
       "  const Slot next = {last ? 0 : slot.index + 1, slot.parity ^ (int)last};\n"
       "  return next;\n"
       "}\n"
       "\n"
       "// Where a row's first vector is in a matrix, in bytes.\n"
       "__device__ __forceinline__ int64_t begin_of(const Args *args, Walk walk, int shift,\n"
       "                                            int64_t stride) {\n");
  if (split) {
    TEXT("  return (walk.row * args->columns - shift) * SIZE;\n");
  } else {
    TEXT("  return walk.row * stride * SIZE;\n");
  }
  TEXT("}\n"
       "\n"
       "// A warp's part of a row: its vectors, and of them, from the lane's first on, those that are whole.\n"
       "struct Part {\n"
       "  int all, left;\n");
  if (adds) {
    TEXT("  int apart; // of a share\n");
  }
  if (split) {
    TEXT("  // Elements before the row in its first vector, and of it in its last one; 0 where it is whole.\n"
         "  int shift, end;\n"
         "  bool begins, ends; // the warp has that first one, and that last one, and not as a whole\n"
         "  bool beyond;       // that one reaches beyond the matrix: it does not come\n");
  }
  TEXT("};\n"
       "\n"
       "__device__ __forceinline__ Part part_of(const Args *args, Walk walk, int shift, Share share) {\n"
       "  const int lane = threadIdx.x % 32;\n");
  if (split) {
    TEXT("  const int vectors = (args->columns + shift + ELEMENTS - 1) / ELEMENTS; // of the row\n"
         "  const int all = max(min(share.vectors, vectors - share.begin), 0);\n"
         "  const int end = (args->columns + shift) % ELEMENTS;\n"
         "  const bool ends = end != 0 && all > 0 && share.begin + all == vectors;\n"
         "  const Part part = {all,  all - ends - lane,");
    STRING(adds ? " share.apart," : "");
    TEXT("\n"
         "                     shift, end,\n"
         "                     share.begin == 0 && shift != 0, ends,\n"
         "                     ends && walk.row + 1 == args->rows};\n");
  } else {
    TEXT("  const Part part = {share.vectors, share.vectors - lane");
    STRING(adds ? ", share.apart" : "");
    TEXT("};\n");
  }
  TEXT("  return part;\n"
       "}\n"
       "\n"
       "// What is sent next, and how many rows before it.\n"
       "struct Sender {\n"
       "  int sent;\n"
       "  Walk walk;\n"
       "  Slot slot;\n"
       "};\n"
       "\n"
       "// Sends a warp's part of rows on its way, until there are `end`. Called by all lanes.\n"
       "__device__ __forceinline__ void send_rows(const Args *args, Order order, Place place, Share share,\n"
       "                                          const Ring *ring, int end, Sender *next) {\n"
       "#pragma unroll 1\n"
       "  for (; next->sent < end; ++next->sent) {\n"
       "    const int shift = shift_of(order, next->walk);\n"
       "    const Part part = part_of(args, next->walk, shift, share);\n"
       "    const int bytes = ");
  STRING(split ? "(part.all - part.beyond)" : "part.all");
  TEXT(" * 16;\n"
       "    const uint32_t barrier = ring->barriers + next->slot.index * 8;\n"
       "    if (threadIdx.x % 32 == 0) {\n"
       "      mbarrier_arrive_expect(barrier, ");
  STRING(adds ? "2 * bytes" : "bytes");
  TEXT(");\n");
  if (adds) {
    TEXT("      if (bytes > 0)\n"
         "        bulk_load(shared_address(place_of(ring, next->slot)) + share.apart * 16,\n"
         "                  (const unsigned char *)args->residual +\n"
         "                      begin_of(args, next->walk, shift, args->residual_row_stride) +\n"
         "                      (int64_t)share.begin * 16,\n"
         "                  bytes, barrier);\n");
  }
  TEXT("      if (bytes > 0)\n"
       "        bulk_load(shared_address(place_of(ring, next->slot)),\n"
       "                  (const unsigned char *)args->x +\n"
       "                      begin_of(args, next->walk, shift, args->x_row_stride) +\n"
       "                      (int64_t)share.begin * 16,\n"
       "                  bytes, barrier);\n"
       "    }\n"
       "    next->slot = next_slot(next->slot, ring->slots);\n"
       "    next->walk = next_row(args, order, place, next->walk);\n"
       "  }\n"
       "}\n"
       "\n");
  int32_t half = 0;
  if (adds) {
    half = 0;
    TEXT("// x + residual, rounded.\n");
    if (half) {
      TEXT("__device__ __forceinline__ Vector add_vectors(Vector x, Vector residual) {\n"
           "  float value[ELEMENTS], other[ELEMENTS];\n"
           "  widen(x, value);\n"
           "  widen(residual, other);\n");
    } else {
      TEXT("__device__ __forceinline__ uint4 add_vectors(uint4 x, uint4 residual) {\n"
           "  float value[ELEMENTS], other[ELEMENTS];\n"
           "  widen_vector_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(x, value);\n"
           "  widen_vector_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(residual, other);\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; ++j)\n"
         "    value[j] += other[j];\n"
         "  return narrow");
    STRING(half ? "" : "_vector_");
    STRING(half ? "" : in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value);\n"
         "}\n"
         "\n");
  }
  TEXT("// Vector number `index` of a part, in its place.\n"
       "__device__ __forceinline__ uint4 vector_of_part(const uint4 *place, int index, const Part &part) {\n");
  if (adds) {
    TEXT("  return add_vectors(place[index], place[part.apart + index]);\n");
  } else {
    TEXT("  return place[index];\n");
  }
  TEXT("}\n"
       "\n");
  if (split) {
    TEXT("// Of a vector the bits of its first `count` elements.\n"
         "__device__ __forceinline__ uint4 mask_elements(int count) {\n"
         "  uint32_t word[4];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 4; ++i)\n");
    if (dtype == AP_LAYERNORM_DTYPE_FP32) {
      TEXT("    word[i] = count > i ? 0xffffffff : 0;\n");
    } else {
      TEXT("    word[i] = count > 2 * i + 1 ? 0xffffffff : count > 2 * i ? 0xffff : 0;\n");
    }
    TEXT("  const uint4 mask = {word[0], word[1], word[2], word[3]};\n"
         "  return mask;\n"
         "}\n"
         "\n"
         "// A vector of the bits of `first` where `mask` has any, else of `other`.\n"
         "__device__ __forceinline__ uint4 choose_bits(uint4 mask, uint4 first, uint4 other) {\n"
         "  const uint4 chosen = {\n"
         "      (first.x & mask.x) | (other.x & ~mask.x), (first.y & mask.y) | (other.y & ~mask.y),\n"
         "      (first.z & mask.z) | (other.z & ~mask.z), (first.w & mask.w) | (other.w & ~mask.w)};\n"
         "  return chosen;\n"
         "}\n"
         "\n"
         "// The first `count` elements of a vector, and 0 for others.\n"
         "__device__ __forceinline__ uint4 load_first_elements(const unsigned char *from, int count) {\n"
         "  uint32_t word[4];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < 4; ++i)\n");
    if (dtype == AP_LAYERNORM_DTYPE_FP32) {
      TEXT("    word[i] = load_4_if(i < count, from + i * 4, 0);\n");
    } else {
      TEXT("    word[i] = load_2_if(2 * i < count, from + i * 4, 0) |\n"
           "              load_2_if(2 * i + 1 < count, from + i * 4 + 2, 0) << 16;\n");
    }
    TEXT("  const uint4 vector = {word[0], word[1], word[2], word[3]};\n"
         "  return vector;\n"
         "}\n"
         "\n"
         "// The vector at the end of the matrix, with 0 in place of what is not there.\n"
         "__device__ __forceinline__ uint4 load_last(const Args *args, const Part &part) {\n"
         "  const int64_t begin = (args->rows * args->columns - part.end) * SIZE;\n"
         "  const uint4 x = load_first_elements((const unsigned char *)args->x + begin, part.end);\n");
    if (adds) {
      TEXT("  return add_vectors(\n"
           "      x, load_first_elements((const unsigned char *)args->residual + begin, part.end));\n");
    } else {
      TEXT("  return x;\n");
    }
    TEXT("}\n"
         "\n"
         "// The vectors at the row's ends, with 0 in place of others' elements: the first at the first lane,\n"
         "// the last at the second one, and 0. place: of the part\n"
         "__device__ __forceinline__ uint4 load_ends(const Args *args, const uint4 *place,\n"
         "                                           const Part &part) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  const uint4 zero = {0, 0, 0, 0};\n"
         "  uint4 vector = zero;\n"
         "  if (lane == 0 && part.begins)\n"
         "    vector = choose_bits(mask_elements(part.shift), zero, vector_of_part(place, 0, part));\n"
         "  if (lane == 1 && part.beyond)\n"
         "    vector = load_last(args, part);\n"
         "  else if (lane == 1 && part.ends)\n"
         "    vector = choose_bits(mask_elements(part.end), vector_of_part(place, part.all - 1, part), zero);\n"
         "  return vector;\n"
         "}\n"
         "\n");
  }
  TEXT("// Vector number `index` of a lane, 0 beyond ");
  STRING(split ? "those that are whole" : "the row");
  TEXT(". place: of its first\n"
       "__device__ __forceinline__ uint4 load_own(const uint4 *place, int index, const Part &part) {\n"
       "  uint4 vector = {0, 0, 0, 0};\n"
       "  if (index * 32 < part.left");
  STRING(split ? " && !(index == 0 && part.begins && threadIdx.x % 32 == 0)" : "");
  TEXT(")\n"
       "    vector = vector_of_part(place, index * 32, part);\n"
       "  return vector;\n"
       "}\n"
       "\n"
       "// ---- What rows amount to ------------------------------------------------------------------------\n"
       "\n"
       "// Adds the values of a vector, and their squares.\n"
       "__device__ __forceinline__ void add_vector(float2 *sums, uint4 x) {\n"
       "  float value[ELEMENTS];\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x, value);\n"
       "  float2 own = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j) {\n"
       "    own.x += value[j];\n"
       "    own.y += value[j] * value[j];\n"
       "  }\n"
       "  sums->x += own.x;\n"
       "  sums->y += own.y;\n"
       "}\n"
       "\n");
  if (layer) {
    TEXT("// The sums of what a warp's values of a row differ from `about` by, and of the squares of that.\n"
         "__device__ __forceinline__ float2 add_up_about(const Args *args, const uint4 *place,\n"
         "                                               const Part &part, float about) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  float2 all = {0.0f, 0.0f};\n"
         "#pragma unroll 1\n"
         "  for (int i = lane; i < part.all; i += 32) {\n"
         "    float value[ELEMENTS];\n");
    if (split) {
      TEXT("    const bool first = i == 0 && part.begins, last = i == part.all - 1 && part.ends;\n"
           "    const int from = first ? part.shift : 0, to = last ? part.end : ELEMENTS;\n"
           "    const uint4 vector =\n"
           "        last && part.beyond ? load_last(args, part) : vector_of_part(place, i, part);\n"
           "    widen_vector_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(vector, value);\n");
    } else {
      TEXT("    widen_vector_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(vector_of_part(place, i, part), value);\n");
    }
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n"
         "      const float difference = ");
    STRING(split ? "j >= from && j < to ? value[j] - about : 0.0f" : "value[j] - about");
    TEXT(";\n"
         "      all.x += difference;\n"
         "      all.y += difference * difference;\n"
         "    }\n"
         "  }\n"
         "  return sum_lanes_of_two(all, 32);\n"
         "}\n"
         "\n");
  }
  TEXT("// Waits for a warp's part of a row, and tells the block what it amounts to: ");
  STRING(layer ? "its sum, and the sum of" : "the sum of");
  TEXT("\n"
       "// squared ");
  STRING(layer ? "differences to its mean" : "values");
  TEXT(". count: its\n"
       "// columns; index: of its ring\n"
       "__device__ __forceinline__ void add_up(const Args *args, const Part &part, Count count,\n"
       "                                       const Ring *ring, Slot slot, int index, RowSums *to) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  const uint4 *const place = (const uint4 *)place_of(ring, slot);\n"
       "  wait_for_phase(ring->barriers + slot.index * 8, slot.parity);\n"
       "  float2 all = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    // Of half of them a warp may have none at all.\n"
       "    if (i == VECTORS / 2 && i * 32 >= part.all)\n"
       "      break;\n"
       "    add_vector(&all, load_own(place + lane, i, part));\n"
       "  }\n");
  if (split) {
    TEXT("  if (part.begins || part.ends)\n"
         "    add_vector(&all, load_ends(args, place, part));\n");
  }
  if (layer) {
    TEXT("  all = sum_lanes_of_two(all, 32);\n"
         "  const float mean = all.x * count.each;\n"
         "  float squares = all.y - all.x * mean;\n"
         "  // Where values are far from 0 their squares hide what they differ by: again, about the mean.\n"
         "  if (!(all.x * mean <= FAR * squares)) {\n"
         "    const uint32_t bits = narrow_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(mean)");
    STRING((dtype == AP_LAYERNORM_DTYPE_FP32) ? "" : " & 0xffff");
    TEXT(";\n"
         "    const float about = widen_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(bits);\n"
         "    const float2 differences = add_up_about(args, place, part, about);\n"
         "    all.x = about * count.columns + differences.x;\n"
         "    squares = differences.y - differences.x * (differences.x * count.each);\n"
         "  }\n"
         "  all.y = squares < 0.0f ? 0.0f : squares; // NaN stays\n");
  } else {
    TEXT("  all = {0.0f, sum_lanes(all.y, 32)};\n");
  }
  TEXT("  // All lanes arrive and wait: they have read the row.\n"
       "  __syncwarp();\n"
       "  if (lane == 0) {\n"
       "    to->warp[index] = all;\n"
       "    mbarrier_arrive(shared_address(&to->told));\n"
       "  }\n"
       "}\n"
       "\n"
       "// ---- Parameters and rows that are written -------------------------------------------------------\n"
       "\n"
       "constexpr int PARAMETERS = ");
  INTEGER(layer ? 2 : 1);
  TEXT(";\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT(";\n"
       "constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a parameter, for a vector\n"
       "\n"
       "// Number `index`: weight, bias.\n"
       "__device__ __forceinline__ const void *parameter_of(const Args *args, int index) {\n"
       "  return index > 0 ? args->bias : args->weight;\n"
       "}\n"
       "\n"
       "// A word of parameter number `index`, if that is not there: of a weight 1; of a bias -0, which\n"
       "// leaves what it is added to as it is.\n"
       "__device__ __forceinline__ uint32_t absent_word(int index) {\n"
       "  return index > 0 ? ");
  STRING((params == AP_LAYERNORM_PARAMS_FP32) ? "0x80000000" : "0x80008000");
  TEXT(" : ");
  STRING((params == AP_LAYERNORM_PARAMS_FP32) ? "0x3f800000" : ((params == AP_LAYERNORM_PARAMS_BF16) ? "0x3f803f80" : "0x3c003c00"));
  TEXT(";\n"
       "}\n"
       "// The words of parameter number `index` for a lane's vectors of a row that begins with a vector.\n"
       "// word: (VECTORS, WORDS)\n"
       "__device__ __forceinline__ void load_words(const Args *args, int index, Share share,\n"
       "                                           uint32_t (*word)[WORDS]) {\n"
       "  const void *const parameter = parameter_of(args, index);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int own = i * 32 + (int)threadIdx.x % 32;\n"
       "    const int column = own < share.vectors ? (share.begin + own) * ELEMENTS : args->columns;\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < WORDS; ++j)\n"
       "      word[i][j] = absent_word(index);\n");
  if (split) {
    TEXT("    if (parameter)\n"
         "      load_parameter_words(parameter, PARAMETER_SIZE, column, args->columns, ELEMENTS,\n"
         "                           column + ELEMENTS <= args->columns, word[i]);\n");
  } else {
    TEXT("    if (parameter && column < args->columns)\n"
         "      load_parameter_words(parameter, PARAMETER_SIZE, column, args->columns, ELEMENTS, true,\n"
         "                           word[i]);\n");
  }
  TEXT("  }\n"
       "}\n"
       "\n");
  if (split) {
    TEXT("// Elements of all lanes' vectors go one further: the last of a vector to the next lane. before: a\n"
         "// word whose last element comes to the first lane. word: (VECTORS, WORDS)\n"
         "__device__ __forceinline__ void move_words(uint32_t before, uint32_t (*word)[WORDS]) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const uint32_t given = __shfl_sync(0xffffffff, word[i][WORDS - 1], (lane + 31) % 32);\n"
         "    uint32_t last = lane == 0 ? before : given;\n"
         "    before = given;\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < WORDS; ++j) {\n"
         "      const uint32_t own = word[i][j];\n");
    if (params == AP_LAYERNORM_PARAMS_FP32) {
      TEXT("      word[i][j] = last;\n");
    } else {
      TEXT("      word[i][j] = last >> 16 | own << 16;\n");
    }
    TEXT("      last = own;\n"
         "    }\n"
         "  }\n"
         "}\n"
         "\n"
         "// The word of parameter number `index` that ends with the element before column `column`, if there\n"
         "// is one.\n"
         "__device__ __forceinline__ uint32_t word_before(const Args *args, int index, int column) {\n"
         "  const void *const parameter = parameter_of(args, index);\n"
         "  if (!parameter || column <= 0)\n"
         "    return absent_word(index);\n");
    if (params == AP_LAYERNORM_PARAMS_FP32) {
      TEXT("  return load_element(parameter, PARAMETER_SIZE, column - 1);\n");
    } else {
      TEXT("  return load_element(parameter, PARAMETER_SIZE, column - 1) << 16;\n");
    }
    TEXT("}\n"
         "\n");
  }
  TEXT("// The values of a vector of y. index: the vector's, of the lane's; word: (PARAMETERS, VECTORS,\n"
       "// WORDS)\n"
       "__device__ __forceinline__ uint4 vector_of_row(uint4 x, int index, float2 moments,\n"
       "                                               const uint32_t (*word)[VECTORS][WORDS]) {\n"
       "  const float ");
  STRING((layer && (dtype == AP_LAYERNORM_DTYPE_FP32)) ? "mean = moments.x, " : "");
  TEXT("rstd = moments.y");
  STRING((layer && (dtype != AP_LAYERNORM_DTYPE_FP32)) ? ", offset = -moments.x * moments.y" : "");
  TEXT(";\n"
       "  float value[ELEMENTS], factor[ELEMENTS]");
  STRING(layer ? ", added[ELEMENTS]" : "");
  TEXT(";\n"
       "  uint32_t renewed[WORDS];\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x, value);\n"
       "  renew_words(word[0][index], WORDS, renewed);\n"
       "  widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(renewed, ELEMENTS, factor);\n");
  if (layer) {
    TEXT("  renew_words(word[1][index], WORDS, renewed);\n"
         "  widen_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(renewed, ELEMENTS, added);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n");
  if (!layer) {
    TEXT("    value[j] = value[j] * rstd * factor[j];\n");
  } else if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    value[j] = (value[j] - mean) * rstd * factor[j] + added[j];\n");
  } else {
    TEXT("    value[j] = (value[j] * rstd + offset) * factor[j] + added[j];\n");
  }
  TEXT("  return narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value);\n"
       "}\n"
       "\n"
       "// Where a lane's first vector of a row is written.\n"
       "struct Outputs {\n"
       "  uint4 *y");
  STRING(adds ? ", *sum" : "");
  TEXT(";\n"
       "};\n"
       "\n"
       "// Writes a warp's part of a row. place: of the lane's first vector; word: (PARAMETERS, VECTORS,\n"
       "// WORDS)\n"
       "__device__ __forceinline__ void write_part(const Part &part, const uint4 *place, Outputs to,\n"
       "                                           float2 moments, const uint32_t (*word)[VECTORS][WORDS]) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    if (i == VECTORS / 2 && i * 32 >= part.all)\n"
       "      break;\n"
       "    const uint4 x = load_own(place, i, part);\n"
       "    const uint4 y = vector_of_row(x, i, moments, word);\n"
       "    if (i * 32 < part.left) {\n"
       "      to.y[i * 32] = y;\n");
  if (adds) {
    TEXT("      to.sum[i * 32] = x;\n");
  }
  TEXT("    }\n"
       "  }\n"
       "}\n"
       "\n");
  if (split) {
    TEXT("// The same of a part that has one of the row's ends. ends: (");
    INTEGER(adds ? 4 : 2);
    TEXT("), of the warp\n"
         "__device__ __forceinline__ void write_ends(const Args *args, const Part &part, const uint4 *place,\n"
         "                                           Outputs to, float2 moments,\n"
         "                                           const uint32_t (*word)[VECTORS][WORDS], uint4 *ends) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  const uint4 own = load_ends(args, place - lane, part);\n"
         "  const uint4 last = {__shfl_sync(0xffffffff, own.x, 1), __shfl_sync(0xffffffff, own.y, 1),\n"
         "                      __shfl_sync(0xffffffff, own.z, 1), __shfl_sync(0xffffffff, own.w, 1)};\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const bool is_first = i == 0 && lane == 0 && part.begins;\n"
         "    const bool is_last = part.ends && i * 32 + lane == part.all - 1;\n"
         "    const uint4 x = is_first ? own : is_last ? last : load_own(place, i, part);\n"
         "    const uint4 y = vector_of_row(x, i, moments, word);\n");
    if (adds) {
      TEXT("    if (is_first || is_last) {\n"
           "      ends[is_last] = y;\n"
           "      ends[2 + is_last] = x;\n"
           "    } else if (i * 32 < part.left) {\n"
           "      to.y[i * 32] = y;\n"
           "      to.sum[i * 32] = x;\n"
           "    }\n");
    } else {
      TEXT("    if (is_first)\n"
           "      ends[0] = y;\n"
           "    else if (is_last)\n"
           "      ends[1] = y;\n"
           "    else if (i * 32 < part.left)\n"
           "      to.y[i * 32] = y;\n");
    }
    TEXT("  }\n"
         "  // All lanes arrive and wait: the vectors at the ends are there, whose elements have a lane each.\n"
         "  __syncwarp();\n"
         "  const bool tail = lane >= ELEMENTS;\n"
         "  const int index = tail ? (part.all - 1) * ELEMENTS + lane - ELEMENTS : lane;\n"
         "  if (lane < 2 * ELEMENTS && (tail ? part.ends && lane - ELEMENTS < part.end\n"
         "                                   : part.begins && lane >= part.shift)) {\n"
         "    store_element(to.y - lane, SIZE, index, load_element(ends, SIZE, lane));\n");
    if (adds) {
      TEXT("    store_element(to.sum - lane, SIZE, index, load_element(ends + 2, SIZE, lane));\n");
    }
    TEXT("  }\n"
         "}\n"
         "\n");
  }
  TEXT("// The part of rows, and the ring, that number `index` of the block's has.\n"
       "__device__ __forceinline__ Share share_of(Deal deal, Place place, int index) {\n"
       "  const int number = place.rank * ROW_WARPS + index, begin = first_vector(deal, number);\n"
       "  const Share share = {begin, first_vector(deal, number + 1) - begin");
  STRING(adds ? ", deal.each + (deal.more > 0)" : "");
  TEXT("};\n"
       "  return share;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ Ring ring_of(unsigned char *rings, uint32_t barriers, Deal deal,\n"
       "                                        int index) {\n"
       "  const int each = (deal.each + (deal.more > 0)) * ");
  STRING(adds ? "2 * 16" : "16");
  TEXT(";\n"
       "  const Ring ring = {rings + index * RING_BYTES, barriers + index * SLOTS * 8, each,\n"
       "                     min(RING_BYTES / each, SLOTS)};\n"
       "  return ring;\n"
       "}\n"
       "\n"
       "// Adds up parts of rows, as they arrive: those of rings from number `first` on.\n"
       "__device__ __forceinline__ void add_up_rows(const Args *args, Deal deal, Order order, Place place,\n"
       "                                            int first, unsigned char *rings, uint32_t barriers,\n"
       "                                            int rounds, RowSums *sums) {\n"
       "  Walk walk = first_row(args, order, place);\n"
       "  Slot slot = {0, 0};\n"
       "  int shift = shift_of(order, walk);\n"
       "  Count count[ADDED];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ADDED; ++i) {\n"
       "    const int number = place.rank * ROW_WARPS + first + i;\n"
       "    count[i] = count_of(args, deal, number, number + 1, shift);\n"
       "  }\n"
       "#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n");
  if (split) {
    TEXT("    if (shift != shift_of(order, walk)) {\n"
         "      shift = shift_of(order, walk);\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < ADDED; ++i) {\n"
         "        const int number = place.rank * ROW_WARPS + first + i;\n"
         "        count[i] = count_of(args, deal, number, number + 1, shift);\n"
         "      }\n"
         "    }\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int i = 0; i < ADDED; ++i) {\n"
       "      const Ring ring = ring_of(rings, barriers, deal, first + i);\n"
       "      add_up(args, part_of(args, walk, shift, share_of(deal, place, first + i)), count[i], &ring,\n"
       "             slot, first + i, &sums[round % TURNS]);\n"
       "    }\n"
       "    slot = next_slot(slot, ring_of(rings, barriers, deal, first).slots);\n"
       "    walk = next_row(args, order, place, walk);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Writes a warp's part of rows, when their moments are known.\n"
       "__device__ __forceinline__ void write_rows(const Args *args, Order order, Place place, Share share,\n"
       "                                           const Ring *ring, int rounds, RowSums *sums,\n"
       "                                           Sender *next");
  STRING(split ? ", uint4 *ends" : "");
  TEXT(") {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  uint32_t words[PARAMETERS][VECTORS][WORDS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < PARAMETERS; ++i)\n"
       "    load_words(args, i, share, words[i]);\n"
       "  send_rows(args, order, place, share, ring, min(rounds, ring->slots), next);\n"
       "  Walk walk = first_row(args, order, place);\n"
       "  Slot slot = {0, 0};\n"
       "  int shift = 0; // where columns are by now in lanes' vectors\n"
       "#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n");
  if (split) {
    TEXT("#pragma unroll 1\n"
         "    for (; shift < shift_of(order, walk); ++shift) {\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < PARAMETERS; ++i)\n"
         "        move_words(word_before(args, i, share.begin * ELEMENTS - shift), words[i]);\n"
         "    }\n");
  }
  TEXT("    const Part part = part_of(args, walk, shift, share);\n"
       "    const uint4 *const from = (const uint4 *)place_of(ring, slot) + lane;\n"
       "    const Outputs to = {\n"
       "        (uint4 *)((unsigned char *)args->y + begin_of(args, walk, shift, args->y_row_stride)) +\n"
       "            share.begin + lane");
  STRING(adds ? "," : "};");
  TEXT("\n");
  if (adds) {
    TEXT("        (uint4 *)((unsigned char *)args->sum + begin_of(args, walk, shift, args->sum_row_stride)) +\n"
         "            share.begin + lane};\n");
  }
  TEXT("    // Hands over the moments of this row.\n"
       "    RowSums *const row = &sums[round % TURNS];\n"
       "    wait_for_phase(shared_address(&row->known), round / TURNS % 2);\n"
       "    const float2 moments = row->all;\n");
  if (split) {
    TEXT("    if (part.begins || part.ends)\n"
         "      write_ends(args, part, from, to, moments, words, ends);\n"
         "    else\n"
         "      write_part(part, from, to, moments, words);\n");
  } else {
    TEXT("    write_part(part, from, to, moments, words);\n");
  }
  TEXT("    // All lanes arrive and wait: they have read the row. Another takes its place.\n"
       "    __syncwarp();\n"
       "    send_rows(args, order, place, share, ring, min(rounds, round + 1 + ring->slots), next);\n"
       "    slot = next_slot(slot, ring->slots);\n"
       "    walk = next_row(args, order, place, walk);\n"
       "  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, 1)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ RowSums sums[TURNS];\n");
  if (split) {
    TEXT("  __shared__ uint4 warp_ends[ROW_WARPS][");
    INTEGER(adds ? 4 : 2);
    TEXT("];\n");
  }
  TEXT("  __shared__ __align__(8) unsigned char warp_barriers[ROW_WARPS * SLOTS * 8];\n"
       "  __shared__ int own_turn;\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row_warp = warp % ROW_WARPS;\n"
       "  const int gangs = (int)min((int64_t)(gridDim.x / args.cluster), args.rows);\n"
       "  const Place place = {(int)blockIdx.x / args.cluster, gangs, (int)blockIdx.x % args.cluster,\n"
       "                       args.cluster};\n"
       "  // Rows of the gang; of blocks that are left, none.\n"
       "  const int rounds = place.gang < gangs ? ((int)args.rows - place.gang + gangs - 1) / gangs : 0;\n"
       "  if (threadIdx.x == 0) {\n"
       "    for (int i = 0; i < TURNS; ++i) {\n"
       "      mbarrier_init(shared_address(&sums[i].told), ROW_WARPS);\n"
       "      mbarrier_init(shared_address(&sums[i].known), 2); // who tells, and who hears\n"
       "    }\n"
       "  }\n"
       "  const uint32_t barriers = shared_address(warp_barriers);\n"
       "  if (warp < ROW_WARPS && lane < SLOTS)\n"
       "    mbarrier_init(barriers + (warp * SLOTS + lane) * 8, 1);\n"
       "  fence_mbarrier_init();\n"
       "  // All lanes arrive and wait: the warp's barriers are there.\n"
       "  __syncwarp();\n"
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "  // Of all rows, wherever they begin in their first vector.\n"
       "  const int vectors = (args.columns + ");
  STRING(split ? "2 * ELEMENTS - 2" : "ELEMENTS - 1");
  TEXT(") / ELEMENTS;\n"
       "  const Deal deal = {vectors / (args.cluster * ROW_WARPS), vectors % (args.cluster * ROW_WARPS)};\n"
       "  const Share share = share_of(deal, place, row_warp);\n"
       "  const Ring ring = ring_of(smem, barriers, deal, row_warp);\n"
       "  Memory *const memory = args.told ? (Memory *)args.told : &own_memory;\n"
       "  const Order order = order_of(&args);\n"
       "  Sender next = {};\n"
       "  if (rounds > 0)\n"
       "    next.walk = first_row(&args, order, place);\n"
       "  if (warp < ROW_WARPS) {\n"
       "    send_rows(&args, order, place, share, &ring, min(rounds, min(FIRST_ROWS, ring.slots)), &next);\n"
       "  } else if (warp == ROW_WARPS + ADDERS) {\n"
       "    const int turn = take_turn(memory);\n"
       "    if (lane == 0)\n"
       "      own_turn = turn;\n"
       "  }\n"
       "  // All threads arrive and wait: the barriers are there, and it is known whose turn it is.\n"
       "  __syncthreads();\n"
       "  Told *const told = &memory->told[own_turn];\n"
       "  if (rounds == 0) {\n"
       "    if (warp == 0)\n"
       "      await_turns(memory, own_turn);\n"
       "    return;\n"
       "  }\n"
       "  if (warp < ROW_WARPS)\n"
       "    write_rows(&args, order, place, share, &ring, rounds, sums, &next");
  STRING(split ? ", warp_ends[warp]" : "");
  TEXT(");\n"
       "  else if (warp < ROW_WARPS + ADDERS)\n"
       "    add_up_rows(&args, deal, order, place, (warp - ROW_WARPS) * ADDED, smem, barriers, rounds,\n"
       "                sums);\n"
       "  else if (warp == ROW_WARPS + ADDERS)\n"
       "    tell_rows(&args, told, deal, order, place, rounds, sums);\n"
       "  else if (warp == ROW_WARPS + ADDERS + 1)\n"
       "    hear_moments(told, place, rounds, sums);\n"
       "  else\n"
       "    make_moments(&args, told, deal, order, place, rounds, sums);\n"
       "}\n");
}
