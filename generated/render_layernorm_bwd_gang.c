/* Written by `python -m generator` from templates/layernorm/layernorm_bwd_gang.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_bwd_gang(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_bwd_gang(ap_text *out, const ap_render_input *in) {
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
  int32_t split = (rows == AP_LAYERNORM_ROWS_SPLIT) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n"
       "// With x^ = (x - mean) rstd");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "" : ", mean 0,");
  TEXT(" and g = dy weight, over the rows of a matrix:\n"
       "//   dx = rstd (g - ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "mean(g) - " : "");
  TEXT("x^ mean(g x^)) + dsum,    dweight = sum(dy x^),    dbias = sum(dy).\n"
       "// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", weight ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. The blocks of a gang, as many as the launch says,\n"
       "// share a row: each has at most COLUMNS columns of it, always the same ones, and keeps their weight\n"
       "// and their sums of dweight and dbias in registers. x and dy are read once.");
  STRING(split ? "" : " dx may be either.");
  TEXT("\n"
       "// A gang walks over rows; another kernel adds up the sums of gangs, unless there is but one.\n"
       "//\n"
       "// The copy engine brings a warp's part of rows to its ring. What a row amounts to a block's warps\n"
       "// tell one of it, which tells the gang, through global memory. Others add up what all blocks have\n"
       "// told. Meanwhile rows that follow are added up, some ahead of the one that is written.\n");
  if (split) {
    TEXT("//\n"
         "// Rows lie one after the other, x, dy, dsum and dx alike, from a multiple of a vector on. What a\n"
         "// warp has of them comes in whole vectors, of which those at its ends hold elements of others, too.\n"
         "// Rows that begin at the same element of a vector are a class. A gang takes class after class, in\n"
         "// the order of that element: where the next one begins so many elements later in its vectors,\n"
         "// weight and sums go as many further, from lane to lane. dx is a matrix of its own.\n");
  } else {
    TEXT("//\n"
         "// Rows of all matrices are whole vectors, at multiples of a vector.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/layernorm/layernorm_bwd_gang.cu.j2 with tile ");
  STRING(tile_name);
  TEXT(" by\n"
       "//   python -m generator --family layernorm --pass bwd --norm ");
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
       "#include \"attnpress/device/ptx_bulk_copy.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n");
  if (split) {
    TEXT("#include \"attnpress/device/ptx_tma.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_told.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_bwd_args Args;\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean was taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of the weight's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT("; // that have columns\n"
       "constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
       "constexpr int ELEMENTS = 16 / SIZE;                         // of a vector\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row, at the most\n");
  if (split) {
    TEXT("constexpr int ENDS = 16; // bytes that a part of a row takes beside its own vectors\n");
  } else {
    TEXT("constexpr int ENDS = 0; // bytes that a part of a row takes beside its vectors\n");
  }
  TEXT("constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's weights\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // rows of a warp's ring, at the most\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int RING_BYTES = SMEM_BYTES / ROW_WARPS;\n"
       "constexpr int AHEAD_MAX = 6;    // rows that have been added up before one is written, at the most\n"
       "constexpr int AHEAD_ASKED = 3;  // and are when a row's sums are asked for\n"
       "constexpr int TURNS = 8;        // rows that a block's warps tell of, and are told of\n"
       "constexpr int TOLD_ROWS = 16;   // and a gang's blocks\n"
       "constexpr int TOLD_WORDS = 2;   // of 8 bytes, of a block and row\n"
       "constexpr int BLOCKS_MAX = 160; // of a gang\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "static_assert(RING_BYTES % 128 == 0, \"rings are of whole vectors\");\n"
       "static_assert(THREADS == ROW_THREADS + 64 && 32 % ROW_WARPS == 0, \"two warps have no columns\");\n"
       "static_assert(AHEAD_MAX < TURNS && TOLD_ROWS >= 2 * AHEAD_MAX + 2,\n"
       "              \"who tells of a row has been told of the one whose place that takes\");\n"
       "\n"
       "// What the forward pass wrote of a row.\n"
       "struct RowMoments {\n"
       "  float mean, rstd;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ RowMoments load_moments(const Args *args, int64_t row) {\n"
       "  RowMoments moments = {0.0f, 0.0f};\n"
       "  if (row < args->rows) {\n"
       "    if (CENTERED)\n"
       "      moments.mean = args->mean[row];\n"
       "    moments.rstd = args->rstd[row];\n"
       "  }\n"
       "  return moments;\n"
       "}\n"
       "\n"
       "// What a block's warps have of a row, and then all blocks; each with the barrier that awaits it.\n"
       "struct RowSums {\n"
       "  float2 warp[ROW_WARPS], all;\n"
       "  uint64_t told, known;\n"
       "};\n"
       "\n"
       "// Where a block is: its gang, of how many, and its number in it.\n"
       "struct Place {\n"
       "  int gang, gangs, rank;\n"
       "};\n"
       "\n"
       "// What a warp has of rows: vectors from number `begin` on, and columns.\n"
       "struct Share {\n"
       "  int begin, vectors, columns;\n");
  if (split) {
    TEXT("  int64_t cut_row; // the row whose last vector it has, and that reaches beyond the matrix: not sent\n");
  }
  TEXT("};\n"
       "\n"
       "__device__ __forceinline__ Share share_of(const Args *args, int rank, int warp) {\n"
       "  const int all = (args->columns + ELEMENTS - 1) / ELEMENTS, warps = args->gang * ROW_WARPS;\n"
       "  const int number = rank * ROW_WARPS + warp, more = all % warps;\n"
       "  const int begin = number * (all / warps) + min(number, more);\n"
       "  const int vectors = all / warps + (number < more);\n"
       "  const int columns = max(min(vectors * ELEMENTS, args->columns - begin * ELEMENTS), 0);\n");
  if (split) {
    TEXT("  const bool ends = columns > 0 && begin * ELEMENTS + columns == args->columns;\n"
         "  const bool beyond = args->rows * args->columns % ELEMENTS != 0;\n"
         "  const Share share = {begin, vectors, columns, ends && beyond ? args->rows - 1 : -1};\n");
  } else {
    TEXT("  const Share share = {begin, vectors, columns};\n");
  }
  TEXT("  return share;\n"
       "}\n"
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
  TEXT("// ---- What blocks tell each other ----------------------------------------------------------------\n"
       "\n"
       "// Where a block tells of a row.\n"
       "__device__ __forceinline__ uint64_t *told_of(const Args *args, Place place, int round, int rank) {\n"
       "  return args->told +\n"
       "         ((int64_t)(place.gang * TOLD_ROWS + round % TOLD_ROWS) * args->gang + rank) * TOLD_WORDS;\n"
       "}\n"
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
       "// One warp: tells the gang what the block's warps have of rows.\n"
       "__device__ __forceinline__ void tell_rows(const Args *args, Place place, int rounds,\n"
       "                                          RowSums *sums) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n"
       "    RowSums *const row = &sums[round % TURNS];\n"
       "    wait_for_phase(shared_address(&row->told), round / TURNS % 2);\n"
       "    const float2 own = sum_lanes_of_two(row->warp[lane % ROW_WARPS], ROW_WARPS);\n"
       "    // All lanes arrive and wait: they have read what the warps told.\n"
       "    __syncwarp();\n"
       "    if (lane == 0) {\n"
       "      store_told(told_of(args, place, round, place.rank), mark(own.x, round), mark(own.y, round));\n"
       "      mbarrier_arrive(shared_address(&row->known));\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// Another one: adds up what all blocks have told of rows, always in the same order, and hands it to\n"
       "// the block. Who asks before others have told asks again, which costs the L2 cache time: a row's sums\n"
       "// are asked for when the block has told of `later` rows more.\n"
       "__device__ __forceinline__ void add_rows(const Args *args, Place place, int later, int rounds,\n"
       "                                         RowSums *sums) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  constexpr int COUNT = BLOCKS_MAX / 32;\n"
       "#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n"
       "    uint64_t sum[COUNT], dot[COUNT];\n"
       "    bool there;\n"
       "    RowSums *const row = &sums[round % TURNS];\n"
       "    // The block's warps have told of this row, and so read what they were told of the one whose\n"
       "    // place it takes.\n"
       "    const int until = min(round + later, rounds - 1);\n"
       "    wait_for_phase(shared_address(&sums[until % TURNS].told), until / TURNS % 2);\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < COUNT; ++i)\n"
       "      sum[i] = dot[i] = i * 32 + lane < args->gang ? 0 : mark(0.0f, round);\n"
       "    do {\n"
       "      there = true;\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < COUNT; ++i)\n"
       "        if (!is_of(sum[i], round) || !is_of(dot[i], round))\n"
       "          load_told(told_of(args, place, round, i * 32 + lane), &sum[i], &dot[i]);\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < COUNT; ++i)\n"
       "        there = there && is_of(sum[i], round) && is_of(dot[i], round);\n"
       "    } while (__any_sync(0xffffffff, !there));\n"
       "    float2 all = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < COUNT; ++i) {\n"
       "      all.x += __builtin_bit_cast(float, (uint32_t)sum[i]);\n"
       "      all.y += __builtin_bit_cast(float, (uint32_t)dot[i]);\n"
       "    }\n"
       "    all = sum_lanes_of_two(all, 32);\n"
       "    all.x *= args->per_column;\n"
       "    all.y *= args->per_column;\n"
       "    if (lane == 0) {\n"
       "      row->all = all;\n"
       "      mbarrier_arrive(shared_address(&row->known));\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// ---- A warp's ring ------------------------------------------------------------------------------\n"
       "\n"
       "// Its places: of x, dy and, where it is given, dsum, `each` bytes apart.\n"
       "struct Ring {\n"
       "  unsigned char *first;\n"
       "  uint32_t barriers;\n"
       "  int each, matrices, slots;\n"
       "};\n"
       "\n"
       "// Place number `slot`, in whose round the barrier there has phases of this parity.\n"
       "struct Slot {\n"
       "  int index, parity;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ unsigned char *place_of(const Ring *ring, Slot slot) {\n"
       "  return ring->first + slot.index * ring->matrices * ring->each;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ Slot next_slot(Slot slot, int slots) {\n"
       "  const bool last = slot.index + 1 == slots;\n");
  TEXT("  const Slot next = {last ? 0 : slot.index + 1, slot.parity ^ (int)last};\n"
       "  return next;\n"
       "}\n"
       "\n"
       "// Where a warp's part of a row is in a matrix, its first vector.\n"
       "__device__ __forceinline__ int64_t part_of(const Args *args, Walk walk, int shift, int64_t stride,\n"
       "                                           Share share) {\n");
  if (split) {
    TEXT("  return (walk.row * args->columns - shift) * SIZE + (int64_t)share.begin * 16;\n");
  } else {
    TEXT("  return walk.row * stride * SIZE + (int64_t)share.begin * 16;\n");
  }
  TEXT("}\n"
       "\n"
       "// Vectors of a warp's part of a row.\n"
       "__device__ __forceinline__ int vectors_of(Share share, int shift) {\n");
  if (split) {
    TEXT("  return share.columns > 0 ? (shift + share.columns + ELEMENTS - 1) / ELEMENTS : 0;\n");
  } else {
    TEXT("  return share.vectors;\n");
  }
  TEXT("}\n"
       "\n"
       "// Sends a warp's part of a row on its way. Called by all lanes.\n"
       "__device__ __forceinline__ void send_row(const Args *args, Walk walk, int shift, Share share,\n"
       "                                         const Ring *ring, Slot slot) {\n"
       "  if (threadIdx.x % 32 != 0)\n"
       "    return;\n"
       "  const uint32_t to = shared_address(place_of(ring, slot));\n"
       "  const uint32_t barrier = ring->barriers + slot.index * 8;\n");
  if (split) {
    TEXT("  const int bytes = (vectors_of(share, shift) - (walk.row == share.cut_row)) * 16;\n");
  } else {
    TEXT("  const int bytes = share.vectors * 16;\n");
  }
  TEXT("  const unsigned char *const x =\n"
       "      (const unsigned char *)args->x + part_of(args, walk, shift, args->x_row_stride, share);\n"
       "  const unsigned char *const dy =\n"
       "      (const unsigned char *)args->dy + part_of(args, walk, shift, args->dy_row_stride, share);\n"
       "  const unsigned char *const dsum =\n"
       "      (const unsigned char *)args->dsum + part_of(args, walk, shift, args->dsum_row_stride, share);\n"
       "  mbarrier_arrive_expect(barrier, bytes * ring->matrices);\n"
       "  if (bytes == 0)\n"
       "    return;\n"
       "  bulk_load(to, x, bytes, barrier);\n"
       "  bulk_load(to + ring->each, dy, bytes, barrier);\n"
       "  if (ring->matrices > 2)\n"
       "    bulk_load(to + 2 * ring->each, dsum, bytes, barrier);\n"
       "}\n"
       "\n");
  if (split) {
    TEXT("// Puts zeros where the vectors at the ends of a warp's part hold what is not its own, and what is\n"
         "// not sent of the row's last one where it was to come. Called by all lanes.\n"
         "__device__ __forceinline__ void end_part(const Args *args, Walk walk, int shift, Share share,\n"
         "                                         const Ring *ring, unsigned char *place) {\n"
         "  const int lane = threadIdx.x % 32, index = lane % ELEMENTS;\n"
         "  const int matrix = lane / (2 * ELEMENTS);                      // x or dy\n"
         "  const int end = shift + share.columns, count = end % ELEMENTS; // of the last vector\n"
         "  unsigned char *const to = place + matrix * ring->each;\n"
         "  if (matrix < 2 && lane / ELEMENTS % 2 == 0 && index < shift)\n"
         "    store_element(to, SIZE, index, 0);\n"
         "  if (matrix < 2 && lane / ELEMENTS % 2 == 1 && count > 0 && index >= count)\n"
         "    store_element(to, SIZE, end - count + index, 0);\n"
         "  if (walk.row == share.cut_row) {\n"
         "    const int64_t first = args->rows * args->columns - count;\n"
         "#pragma unroll 1\n"
         "    for (int i = 0; i < ring->matrices; ++i) {\n"
         "      const void *const from = i == 0 ? args->x : i == 1 ? args->dy : args->dsum;\n"
         "      if (lane < count)\n"
         "        store_element(place + i * ring->each, SIZE, end - count + lane,\n"
         "                      load_element((const unsigned char *)from + first * SIZE, SIZE, lane));\n"
         "      else if (i == 2 && lane < ELEMENTS)\n"
         "        store_element(place + i * ring->each, SIZE, end - count + lane, 0);\n"
         "    }\n"
         "  }\n"
         "  // The copy engine may write over it later.\n"
         "  fence_proxy_async();\n"
         "  // All lanes arrive and wait: these are there.\n"
         "  __syncwarp();\n"
         "}\n"
         "\n"
         "// Elements of all lanes' vectors, as words, go one further: the last of a vector to the next\n"
         "// lane. word: (VECTORS, WORDS)\n"
         "__device__ __forceinline__ void move_words(uint32_t (*word)[WORDS]) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  uint32_t before = 0; // what comes to the first lane\n"
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
         "// The same of values.\n"
         "__device__ __forceinline__ void move_values(float (*value)[ELEMENTS]) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  float before = 0.0f;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const float given = __shfl_sync(0xffffffff, value[i][ELEMENTS - 1], (lane + 31) % 32);\n"
         "    float last = lane == 0 ? before : given;\n"
         "    before = given;\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n"
         "      const float own = value[i][j];\n"
         "      value[i][j] = last;\n"
         "      last = own;\n"
         "    }\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("// ---- Values -------------------------------------------------------------------------------------\n"
       "\n"
       "// The words of the weights of a lane's columns, 1 where there is none. word: (VECTORS, WORDS)\n"
       "__device__ __forceinline__ void load_weight(const Args *args, Share share,\n"
       "                                            uint32_t (*word)[WORDS]) {\n");
  if (split) {
    TEXT("  if (args->weight) {\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < VECTORS; ++i) {\n"
         "      const int column = (share.begin + i * 32 + (int)threadIdx.x % 32) * ELEMENTS;\n"
         "      load_parameter_words(\n"
         "          args->weight, PARAMETER_SIZE, column, args->columns, ELEMENTS,\n"
         "          is_parameter_whole(args->weight, PARAMETER_SIZE, column, args->columns, ELEMENTS),\n"
         "          word[i]);\n"
         "    }\n"
         "    return;\n"
         "  }\n");
  } else {
    TEXT("  if (args->weight) {\n"
         "    load_parameter_vectors(args->weight, PARAMETER_SIZE, args->columns, ELEMENTS,\n"
         "                           share.begin + threadIdx.x % 32, 32, VECTORS, word[0]);\n"
         "    return;\n"
         "  }\n");
  }
  TEXT("  float ones[ELEMENTS];\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    ones[j] = 1.0f;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(ones, ELEMENTS, word[i]);\n"
       "}\n"
       "\n"
       "// A lane's vectors of a warp's part of a row: how many the warp has of it, and from the lane's first\n"
       "// on.\n"
       "struct Own {\n"
       "  int all, vectors;\n");
  if (split) {
    TEXT("  int shift, end; // elements before the part in its first vector, and of it in its last, if not all\n");
  }
  TEXT("};\n"
       "\n"
       "__device__ __forceinline__ Own own_of(Share share, int shift) {\n"
       "  const int all = vectors_of(share, shift);\n");
  if (split) {
    TEXT("  const Own own = {all, all - (int)threadIdx.x % 32, shift, (shift + share.columns) % ELEMENTS};\n");
  } else {
    TEXT("  const Own own = {all, all - (int)threadIdx.x % 32};\n");
  }
  TEXT("  return own;\n"
       "}\n"
       "\n"
       "// Vector number `index` of a lane of a matrix, 0 where the warp has no more. from: its first\n"
       "__device__ __forceinline__ void load_own(const unsigned char *from, int index, Own own,\n"
       "                                         float *value) {\n"
       "  uint4 vector = {0, 0, 0, 0};\n"
       "  if (index * 32 < own.vectors)\n"
       "    vector = ((const uint4 *)from)[index * 32];\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(vector, value);\n"
       "}\n"
       "\n"
       "// Vector number `index` of x^, of dy and of g = dy weight. place: of the lane's first one of x\n"
       "__device__ __forceinline__ void load_row(const unsigned char *place, const Ring *ring, int index,\n"
       "                                         Own own, RowMoments moments, const uint32_t *weight,\n"
       "                                         float *x, float *dy, float *g) {\n"
       "  uint32_t word[WORDS];\n"
       "  float factor[ELEMENTS];\n"
       "  load_own(place, index, own, x);\n"
       "  load_own(place + ring->each, index, own, dy);\n"
       "  renew_words(weight, WORDS, word);\n"
       "  widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(word, ELEMENTS, factor);\n");
  if (dtype != AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  // By one instruction, of values that were rounded to 16 bits.\n"
         "  const float offset = -moments.mean * moments.rstd;\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    x[j] = (x[j] - moments.mean) * moments.rstd;\n");
  } else {
    TEXT("    x[j] = x[j] * moments.rstd + offset;\n");
  }
  TEXT("    g[j] = dy[j] * factor[j];\n"
       "  }\n"
       "}\n"
       "\n"
       "// Waits for a warp's part of a row, and tells the block what it amounts to: the sums of g and of\n"
       "// g x^.\n"
       "__device__ __forceinline__ void add_up(const Args *args, Walk walk, Own own, Share share,\n"
       "                                       const Ring *ring, Slot slot, RowMoments moments,\n"
       "                                       const uint32_t (*weight)[WORDS], RowSums *to) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  unsigned char *const place = place_of(ring, slot);\n"
       "  wait_for_phase(ring->barriers + slot.index * 8, slot.parity);\n");
  if (split) {
    TEXT("  if (share.columns > 0)\n"
         "    end_part(args, walk, own.shift, share, ring, place);\n");
  }
  TEXT("  float2 all = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    // Of half of them a warp may have none at all.\n"
       "    if (i >= VECTORS / 2 && i * 32 >= own.all)\n"
       "      break;\n"
       "    float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n"
       "    load_row(place + lane * 16, ring, i, own, moments, weight[i], x, dy, g);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      all.x += g[j];\n"
       "      all.y += g[j] * x[j];\n"
       "    }\n"
       "  }\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  all = sum_lanes_of_two(all, 32);\n");
  } else {
    TEXT("  all = {0.0f, sum_lanes(all.y, 32)};\n");
  }
  TEXT("  if (lane == 0) {\n"
       "    to->warp[threadIdx.x / 32] = all;\n"
       "    mbarrier_arrive(shared_address(&to->told));\n"
       "  }\n"
       "}\n"
       "\n"
       "// Writes a warp's part of a row of dx, and adds up dweight and dbias. sum, dot: rstd times the\n"
       "// means of g and of g x^; weight_sum, bias_sum: (VECTORS, ELEMENTS)\n"
       "__device__ __forceinline__ void write_row(const Args *args, Walk walk, Own own, Share share,\n"
       "                                          const Ring *ring, Slot slot, RowMoments moments,\n"
       "                                          float sum, float dot, const uint32_t (*weight)[WORDS],\n"
       "                                          float (*weight_sum)[ELEMENTS],\n"
       "                                          float (*bias_sum)[ELEMENTS]");
  STRING(split ? ", uint4 *ends" : "");
  TEXT(") {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  unsigned char *const place = place_of(ring, slot) + lane * 16;\n"
       "  unsigned char *const part =\n"
       "      (unsigned char *)args->dx +\n"
       "      part_of(args, walk, ");
  STRING(split ? "own.shift" : "0");
  TEXT(", args->dx_row_stride, share);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    if (i >= VECTORS / 2 && i * 32 >= own.all)\n"
       "      break;\n"
       "    float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n"
       "    load_row(place, ring, i, own, moments, weight[i], x, dy, g);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      weight_sum[i][j] += dy[j] * x[j];\n"
       "      bias_sum[i][j] += dy[j];\n"
       "      g[j] = g[j] * moments.rstd - (sum + x[j] * dot);\n"
       "    }\n"
       "    if (ring->matrices > 2) {\n"
       "      load_own(place + 2 * ring->each, i, own, x);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        g[j] += x[j];\n"
       "    }\n"
       "    const uint4 dx = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(g);\n");
  if (split) {
    TEXT("    const bool first = i == 0 && lane == 0 && own.shift != 0;\n"
         "    const bool last = own.end != 0 && own.vectors == i * 32 + 1;\n"
         "    if (first)\n"
         "      ends[0] = dx;\n"
         "    else if (last)\n"
         "      ends[1] = dx;\n"
         "    else if (i * 32 < own.vectors)\n"
         "      *(uint4 *)(part + (i * 32 + lane) * 16) = dx;\n");
  } else {
    TEXT("    if (i * 32 < own.vectors)\n"
         "      *(uint4 *)(part + (i * 32 + lane) * 16) = dx;\n");
  }
  TEXT("  }\n");
  if (split) {
    TEXT("  if (own.shift == 0 && own.end == 0)\n"
         "    return;\n"
         "  // All lanes arrive and wait: the vectors at the ends are there, whose elements have a lane each.\n"
         "  __syncwarp();\n"
         "  const bool tail = lane >= ELEMENTS;\n"
         "  const int index = tail ? (own.all - 1) * ELEMENTS + lane - ELEMENTS : lane;\n"
         "  const int columns = index - own.shift;\n"
         "  if (lane < 2 * ELEMENTS &&\n"
         "      (tail ? own.end != 0 && (own.all > 1 || own.shift == 0) : own.shift != 0) && columns >= 0 &&\n"
         "      columns < share.columns)\n"
         "    store_element(part, SIZE, index, load_element(ends, SIZE, lane));\n");
  }
  TEXT("}\n"
       "\n"
       "// Writes a warp's sums of vector number `index`, of the columns that exist: those of all rows, or a\n"
       "// part of them. Called by all lanes.\n"
       "__device__ __forceinline__ void store_sums(const Args *args, Place place, Share share, int index,\n"
       "                                           float *parts, const float *sum, float *scratch) {\n"
       "  // ");
  STRING(split ? "By now columns are a vector behind the lane's own place." : "The vector's first column, of the warp's.");
  TEXT("\n"
       "  const int lane = threadIdx.x % 32, own = (index * 32 + lane");
  STRING(split ? " - 1" : "");
  TEXT(") * ELEMENTS;\n"
       "  const int column = share.begin * ELEMENTS + own;\n"
       "  if (!parts)\n"
       "    return;\n"
       "  if (args->whole) {\n"
       "    uint32_t word[WORDS];\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(sum, ELEMENTS, word);\n"
       "    if (own >= 0 && own < share.columns)\n"
       "      store_span(parts, PARAMETER_SIZE, column, args->columns, ELEMENTS, word);\n"
       "    return;\n"
       "  }\n"
       "  float *const part = parts + (int64_t)place.gang * args->columns;\n");
  if (split) {
    TEXT("  // Neighbouring lanes write neighbouring columns. All lanes arrive and wait: nobody needs what is\n"
         "  // there, and then the sums are there.\n"
         "  __syncwarp();\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; j += 4) {\n"
         "    const float4 four = {sum[j], sum[j + 1], sum[j + 2], sum[j + 3]};\n"
         "    *(float4 *)(scratch + lane * ELEMENTS + j) = four;\n"
         "  }\n"
         "  __syncwarp();\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; ++j) {\n"
         "    const int other = (index * 32 - 1) * ELEMENTS + j * 32 + lane;\n"
         "    if (other >= 0 && other < share.columns)\n"
         "      part[share.begin * ELEMENTS + other] = scratch[j * 32 + lane];\n"
         "  }\n");
  } else {
    TEXT("  if (own < share.columns) {\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; j += 4) {\n"
         "      const float4 four = {sum[j], sum[j + 1], sum[j + 2], sum[j + 3]};\n"
         "      *(float4 *)(part + column + j) = four;\n"
         "    }\n"
         "  }\n");
  }
  TEXT("}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, 1)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ RowSums sums[TURNS];\n");
  if (split) {
    TEXT("  __shared__ uint4 ends[ROW_WARPS][2];\n");
  }
  TEXT("  __shared__ __align__(8) unsigned char warp_barriers[ROW_WARPS * SLOTS * 8];\n"
       "  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;\n"
       "  const Place place = {(int)blockIdx.x / args.gang, (int)gridDim.x / args.gang,\n"
       "                       (int)blockIdx.x % args.gang};\n"
       "  // Rows of the gang.\n"
       "  const int rounds = ((int)args.rows - place.gang + place.gangs - 1) / place.gangs;\n"
       "  if (threadIdx.x == 0) {\n"
       "    for (int i = 0; i < TURNS; ++i) {\n"
       "      mbarrier_init(shared_address(&sums[i].told), ROW_WARPS);\n"
       "      mbarrier_init(shared_address(&sums[i].known), 2); // of the two warps without columns\n"
       "    }\n"
       "  }\n"
       "  const uint32_t barriers = shared_address(warp_barriers) + warp * SLOTS * 8;\n"
       "  if (warp < ROW_WARPS && lane < SLOTS)\n"
       "    mbarrier_init(barriers + lane * 8, 1);\n"
       "  fence_mbarrier_init();\n"
       "  // All threads arrive and wait: the barriers are there.\n"
       "  __syncthreads();\n"
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "  const Share share = share_of(&args, place.rank, warp % ROW_WARPS);\n"
       "  const int matrices = args.dsum ? 3 : 2;\n"
       "  // Rows of a ring, and those that have been added up before one is written. Another is on its way\n"
       "  // meanwhile, where there is room.\n"
       "  const int vectors = (args.columns + ELEMENTS - 1) / ELEMENTS, warps = args.gang * ROW_WARPS;\n"
       "  const int each = (vectors + warps - 1) / warps * 16 + ENDS;\n"
       "  const int slots = min(RING_BYTES / (matrices * each), SLOTS);\n"
       "  const int ahead = min(max(slots - (slots < 5 ? 1 : 2), 1), AHEAD_MAX);\n"
       "  if (warp == ROW_WARPS) {\n"
       "    tell_rows(&args, place, rounds, sums);\n"
       "    return;\n"
       "  }\n"
       "  if (warp > ROW_WARPS) {\n"
       "    add_rows(&args, place, max(ahead - AHEAD_ASKED, 0), rounds, sums);\n"
       "    return;\n"
       "  }\n"
       "\n"
       "  const Ring ring = {smem + warp * RING_BYTES, barriers, each, matrices, slots};\n");
  if (split) {
    TEXT("  const Order order = order_of(&args);\n"
         "  Walk walk = first_row(&args, order, place);\n");
  } else {
    TEXT("  const Order order = {};\n"
         "  Walk walk = {place.gang};\n");
  }
  TEXT("  Walk later_walk = walk, sent_walk = walk; // of the row that is added up, and of one that is sent\n"
       "  Slot slot = {0, 0}, later_slot = slot, sent_slot = slot;\n"
       "  int sent = 0;\n"
       "  uint32_t weight[VECTORS][WORDS];\n"
       "#pragma unroll 1\n"
       "  for (; sent < ring.slots; ++sent) {\n"
       "    if (sent < rounds)\n"
       "      send_row(&args, sent_walk, shift_of(order, sent_walk), share, &ring, sent_slot);\n"
       "    sent_slot = next_slot(sent_slot, ring.slots);\n"
       "    sent_walk = next_row(&args, order, place, sent_walk);\n"
       "    // What the first row is added up with comes before the rows that follow it.\n"
       "    if (sent == 0)\n"
       "      load_weight(&args, share, weight);\n"
       "  }\n"
       "  float weight_sum[VECTORS][ELEMENTS], bias_sum[VECTORS][ELEMENTS];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      weight_sum[i][j] = bias_sum[i][j] = 0.0f;\n"
       "  }\n");
  if (split) {
    TEXT("  // Where columns are by now in lanes' vectors: weight and sums of rows that are written, and\n"
         "  // weight of those that are added up.\n"
         "  int shift = 0, later_shift = 0;\n"
         "  uint32_t later_weight[VECTORS][WORDS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < WORDS; ++j)\n"
         "      later_weight[i][j] = weight[i][j];\n"
         "  }\n");
  } else {
    TEXT("  constexpr int shift = 0, later_shift = 0;\n"
         "  const uint32_t(*const later_weight)[WORDS] = weight;\n");
  }
  TEXT("  RowMoments moments = load_moments(&args, walk.row), later_moments = moments;\n"
       "#pragma unroll 1\n"
       "  for (int round = -ahead; round < rounds; ++round) {\n"
       "    // What a later row amounts to, while others arrive.\n"
       "    if (round + ahead < rounds) {\n"
       "      const Walk last_walk = next_row(&args, order, place, later_walk);\n"
       "      const RowMoments last_moments = load_moments(&args, last_walk.row);\n");
  if (split) {
    TEXT("#pragma unroll 1\n"
         "      for (; later_shift < shift_of(order, later_walk); ++later_shift)\n"
         "        move_words(later_weight);\n");
  }
  TEXT("      add_up(&args, later_walk, own_of(share, later_shift), share, &ring, later_slot,\n"
       "             later_moments, later_weight, &sums[(round + ahead) % TURNS]);\n"
       "      later_slot = next_slot(later_slot, ring.slots);\n"
       "      later_walk = last_walk;\n"
       "      later_moments = last_moments;\n"
       "    }\n"
       "    if (round < 0)\n"
       "      continue;\n"
       "    const Walk next_walk = next_row(&args, order, place, walk);\n"
       "    const RowMoments next_moments = load_moments(&args, next_walk.row);\n");
  if (split) {
    TEXT("#pragma unroll 1\n"
         "    for (; shift < shift_of(order, walk); ++shift) {\n"
         "      move_words(weight);\n"
         "      move_values(weight_sum);\n"
         "      move_values(bias_sum);\n"
         "    }\n");
  }
  TEXT("    // Hands over what all blocks have of this row.\n"
       "    RowSums *const told = &sums[round % TURNS];\n"
       "    wait_for_phase(shared_address(&told->known), round / TURNS % 2);\n"
       "    const float2 all = told->all;\n"
       "    // dx = rstd g - (rstd mean(g) + x^ rstd mean(g x^)).\n"
       "    write_row(&args, walk, own_of(share, shift), share, &ring, slot, moments,\n"
       "              all.x * moments.rstd, all.y * moments.rstd, weight, weight_sum, bias_sum");
  STRING(split ? ", ends[warp]" : "");
  TEXT(");\n"
       "    // All lanes arrive and wait: they have read the row. Another takes its place.\n"
       "    __syncwarp();\n"
       "    if (sent < rounds)\n"
       "      send_row(&args, sent_walk, shift_of(order, sent_walk), share, &ring, sent_slot);\n"
       "    ++sent;\n"
       "    sent_slot = next_slot(sent_slot, ring.slots);\n"
       "    sent_walk = next_row(&args, order, place, sent_walk);\n"
       "    slot = next_slot(slot, ring.slots);\n"
       "    walk = next_walk;\n"
       "    moments = next_moments;\n"
       "  }\n"
       "  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n");
  if (split) {
    TEXT("  // To a whole vector.\n"
         "#pragma unroll 1\n"
         "  for (; shift < ELEMENTS; ++shift) {\n"
         "    move_values(weight_sum);\n"
         "    move_values(bias_sum);\n"
         "  }\n");
  }
  TEXT("  float *const scratch = (float *)ring.first;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    store_sums(&args, place, share, i, args.weight_parts, weight_sum[i], scratch);\n"
       "    store_sums(&args, place, share, i, args.bias_parts, bias_sum[i], scratch);\n"
       "  }\n"
       "}\n");
}
