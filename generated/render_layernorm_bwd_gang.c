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
  int32_t group = (threads > (row_threads + 64)) ? 1 : 0;
  int32_t apart = ((split && (params == AP_LAYERNORM_PARAMS_FP32)) && (dtype != AP_LAYERNORM_DTYPE_FP32)) ? 1 : 0;
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
       "// and their sums of dweight and dbias in registers. x and dy are read once. dx may be either.\n"
       "// A gang walks over rows; another kernel adds up the sums of gangs, unless there is but one.\n"
       "//\n"
       "// The copy engine brings a warp's part of rows to its ring. What a row amounts to a block's warps\n"
       "// tell one of it, which tells the gang, through global memory. Others add up what all blocks have\n"
       "// told. Meanwhile rows that follow are added up, some ahead of the one that is written.\n");
  if (group) {
    TEXT("// Warps with columns get most of a block's registers, so that they ask for vectors early.\n");
  }
  if (split) {
    TEXT("//\n"
         "// Rows begin at any element of a vector, those of x, dy, dsum and dx at the same one. Warps have\n"
         "// whole vectors of them, of which a row's first and its last hold elements that are not the row's,\n"
         "// too: who has one of these has fewer vectors. Rows that begin at the same element are a class. A\n"
         "// gang takes class after class, in the order of that element: where the next one begins so\n"
         "// many elements later in its vectors, weight and sums go as many further, from lane to lane. Of\n"
         "// columns that have gone from a warp's vectors to the next one's, each has a part of the sums; in\n"
         "// the end they come together.\n");
    if (apart) {
      TEXT("// The weight as rows that are added up have it is in shared memory.\n");
    }
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
       "#include \"attnpress/device/ptx_elect.cuh\"\n"
       "#include \"attnpress/device/ptx_grid.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_opaque.cuh\"\n"
       "#include \"attnpress/device/ptx_shared.cuh\"\n");
  if (split) {
    TEXT("#include \"attnpress/device/ptx_tma.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_told.cuh\"\n");
  if (split || group) {
    TEXT("#include \"attnpress/device/ptx_warpgroup.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_norm.cuh\"\n"
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
    TEXT("constexpr int FEWER = 32; // vectors that a row's first and its last warp do without, at the most\n"
         "constexpr int VECTORS_MOST = VECTORS * 32 - 1; // of a warp: columns move on, by a vector at the most\n");
  }
  TEXT("constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's weights\n"
       "// Vectors of a lane that are asked for before the first is used, as registers allow.\n"
       "constexpr int EARLY = ");
  STRING(!group ? "0" : (apart ? "2" : ((params == AP_LAYERNORM_PARAMS_FP32) ? "1" : ((cols == 10240) ? "3" : "VECTORS"))));
  TEXT(";\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // rows of a warp's ring, at the most\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n");
  if (apart) {
    TEXT("constexpr int WEIGHT_BYTES = COLUMNS * PARAMETER_SIZE; // behind the rings\n"
         "constexpr int RING_BYTES = (SMEM_BYTES - WEIGHT_BYTES) / ROW_WARPS / 128 * 128;\n");
  } else {
    TEXT("constexpr int RING_BYTES = SMEM_BYTES / ROW_WARPS;\n");
  }
  TEXT("constexpr int AHEAD_MAX = 6;    // rows that have been added up before one is written, at the most\n"
       "constexpr int ROWS_AT_FIRST = 3; // rows that are on their way before one is added up\n"
       "constexpr int AHEAD_ASKED = 3;  // and are when a row's sums are asked for\n"
       "constexpr int TURNS = 8;        // rows that a block's warps tell of, and are told of\n"
       "constexpr int TOLD_ROWS = 16;   // and a gang's blocks\n"
       "constexpr int TOLD_WORDS = 2;   // of 8 bytes, of a block and row\n"
       "constexpr int BLOCKS_MAX = 160; // of a gang\n"
       "static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "static_assert(RING_BYTES % 128 == 0, \"rings are of whole vectors\");\n");
  if (group) {
    TEXT("static_assert(THREADS == ROW_THREADS + 128 && 32 % ROW_WARPS == 0, \"a warpgroup has no columns\");\n");
  } else {
    TEXT("static_assert(THREADS == ROW_THREADS + 64 && 32 % ROW_WARPS == 0, \"two warps have no columns\");\n");
  }
  TEXT("static_assert(AHEAD_MAX < TURNS && TOLD_ROWS >= 2 * AHEAD_MAX + 2,\n"
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
       "// What a block's warps have of a row, and what it is written by, each with the barrier that awaits\n"
       "// it.\n"
       "struct RowSums {\n"
       "  float2 warp[ROW_WARPS];\n"
       "  float4 known_row; // rstd times the means of g and of g x^, then what x^ is made of\n"
       "  uint64_t told, known;\n"
       "};\n"
       "constexpr int ROW_BYTE = ROW_WARPS * 8, TOLD_BYTE = ROW_BYTE + 16, KNOWN_BYTE = TOLD_BYTE + 8;\n"
       "constexpr int SUMS_BYTES = KNOWN_BYTE + 8;\n"
       "static_assert(sizeof(RowSums) == SUMS_BYTES, \"these are where they are said to be\");\n"
       "\n"
       "// Mean and rstd of a row; behind the last one, of that.\n"
       "__device__ __forceinline__ RowMoments moments_of(const Args *args, int row) {\n"
       "  const int there = min(row, (int)args->rows - 1);\n"
       "  const RowMoments moments = {CENTERED ? args->mean[there] : 0.0f, args->rstd[there]};\n"
       "  return moments;\n"
       "}\n"
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
       "// Vectors of a row that warps share");
  STRING(split ? ", wherever it begins" : "");
  TEXT(".\n"
       "__device__ __forceinline__ int vectors_of_row(const Args *args) {\n"
       "  return (args->columns + ");
  STRING(split ? "2 * ELEMENTS - 2" : "ELEMENTS - 1");
  TEXT(") / ELEMENTS;\n"
       "}\n"
       "\n");
  if (split) {
    TEXT("// Vectors that a row's first and its last warp do without: as many as others have room for, and no lane\n"
         "// has a vector more for it.\n"
         "__device__ __forceinline__ int fewer_of(const Args *args) {\n"
         "  const int all = vectors_of_row(args), warps = args->gang * ROW_WARPS;\n"
         "  const int most = min((all + warps * 32 - 1) / (warps * 32) * 32, VECTORS_MOST);\n"
         "  return min((warps * most - all) / 2, FEWER);\n"
         "}\n"
         "\n");
  }
  TEXT("// The most of them that a warp has.\n"
       "__device__ __forceinline__ int most_vectors(const Args *args) {\n"
       "  const int warps = args->gang * ROW_WARPS;\n"
       "  return (vectors_of_row(args)");
  STRING(split ? " + 2 * fewer_of(args)" : "");
  TEXT(" + warps - 1) / warps;\n"
       "}\n"
       "\n");
  if (split) {
    TEXT("// The element of a vector at which a row begins.\n"
         "__device__ __forceinline__ int shift_of(const Args *args, int64_t row) {\n"
         "  return (int)(((uint64_t)args->x / SIZE + row * args->x_row_stride) % ELEMENTS);\n"
         "}\n"
         "\n"
         "// Vectors of a warp's part of a row that begins at element `shift` of its first one, which may be\n"
         "// one less where that is the row's last.\n"
         "__device__ __forceinline__ int vectors_of(const Args *args, Share share, int shift) {\n"
         "  const int all = (shift + args->columns + ELEMENTS - 1) / ELEMENTS;\n"
         "  return max(min(share.vectors, all - share.begin), 0);\n"
         "}\n"
         "\n"
         "// Elements of the row's last vector, if that is the part's and has not all.\n"
         "__device__ __forceinline__ int end_of(const Args *args, Share share, int shift) {\n"
         "  const int end = shift + args->columns, last = end / ELEMENTS - share.begin;\n"
         "  return last >= 0 && last < share.vectors ? end % ELEMENTS : 0;\n"
         "}\n"
         "\n");
  }
  TEXT("__device__ __forceinline__ Share share_of(const Args *args, int rank, int warp) {\n");
  if (split) {
    TEXT("  // As if so many vectors more came before a row and behind it.\n"
         "  const int all = vectors_of_row(args), warps = args->gang * ROW_WARPS;\n"
         "  const int fewer = fewer_of(args), dealt = all + 2 * fewer, more = dealt % warps;\n"
         "  const int number = rank * ROW_WARPS + warp;\n"
         "  const int first = number * (dealt / warps) + min(number, more) - fewer;\n"
         "  const int begin = max(first, 0);\n"
         "  const int vectors = max(min(first + dealt / warps + (number < more), all) - begin, 0);\n"
         "  const int columns = max(min(vectors * ELEMENTS, args->columns - begin * ELEMENTS), 0);\n"
         "  Share share = {begin, vectors, columns, -1};\n"
         "  if (end_of(args, share, shift_of(args, args->rows - 1)) > 0)\n"
         "    share.cut_row = args->rows - 1;\n");
  } else {
    TEXT("  const int all = vectors_of_row(args), warps = args->gang * ROW_WARPS;\n"
         "  const int number = rank * ROW_WARPS + warp, more = all % warps;\n"
         "  const int begin = number * (all / warps) + min(number, more);\n"
         "  const int vectors = all / warps + (number < more);\n"
         "  const int columns = max(min(vectors * ELEMENTS, args->columns - begin * ELEMENTS), 0);\n"
         "  const Share share = {begin, vectors, columns};\n");
  }
  TEXT("  return share;\n"
       "}\n"
       "\n");
  if (split) {
    TEXT("// Rows `period` apart begin at the same element of a vector, those of the first class at `begin`.\n"
         "// Classes begin `apart` elements after one another. The first row of the first class is number\n"
         "// `first`, that of the next one comes `second` later, or a multiple of the period earlier.\n"
         "struct Order {\n"
         "  int period, apart, begin, first, second;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Order order_of(const Args *args) {\n"
         "  const int odd = (int)(args->x_row_stride & (ELEMENTS - 1)), shift = shift_of(args, 0);\n"
         "  Order order = {1, ELEMENTS, shift, 0, 0};\n"
         "  if (odd == 0)\n"
         "    return order;\n"
         "  order.apart = odd & -odd;\n"
         "  order.period = ELEMENTS / order.apart;\n"
         "  order.begin = shift % order.apart;\n"
         "  while ((shift + order.first * odd) % ELEMENTS != order.begin)\n"
         "    ++order.first;\n"
         "  while (order.second * odd % ELEMENTS != order.apart)\n"
         "    ++order.second;\n"
         "  return order;\n"
         "}\n"
         "\n"
         "// A row, one past the last behind it, the number of its class, and at what element of a vector it\n"
         "// begins.\n"
         "struct Walk {\n"
         "  int row, number, shift;\n"
         "  // What a warp has of it: vectors; elements before the row in its first one, if the warp has that,\n"
         "  // and elements of the row in its last one, if the warp has that and the row ends in it; else 0.\n"
         "  int vectors, first, end;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Walk begin_class(const Args *args, Order order, Share share, int row,\n"
         "                                            int number) {\n"
         "  const int shift = order.begin + number * order.apart;\n"
         "  const int vectors = vectors_of(args, share, shift);\n"
         "  const Walk walk = {row,\n"
         "                     number,\n"
         "                     shift,\n"
         "                     vectors,\n"
         "                     share.begin == 0 && vectors > 0 ? shift : 0,\n"
         "                     end_of(args, share, shift)};\n"
         "  return walk;\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ Walk next_row(const Args *args, Order order, Place, Share share,\n"
         "                                         Walk walk) {\n"
         "  walk.row += order.period;\n"
         "  if (__builtin_expect(walk.row < (int)args->rows, 1))\n"
         "    return walk;\n"
         "  int row = walk.row, number = walk.number;\n"
         "  while (row >= (int)args->rows && ++number < order.period)\n"
         "    row = (order.first + number * order.second) % order.period;\n"
         "  return begin_class(args, order, share, row, number);\n"
         "}\n"
         "\n"
         "// The first row of a gang, which has as many as others.\n"
         "__device__ __forceinline__ Walk first_row(const Args *args, Order order, Place place,\n"
         "                                          Share share) {\n"
         "  const int rows = (int)args->rows;\n"
         "  int left = place.gang * (rows / place.gangs) + min(place.gang, rows % place.gangs);\n"
         "  for (int number = 0;; ++number) {\n"
         "    const int first = (order.first + number * order.second) % order.period;\n"
         "    const int count = (rows - first + order.period - 1) / order.period; // of the class\n"
         "    if (left < count)\n"
         "      return begin_class(args, order, share, first + left * order.period, number);\n"
         "    left -= max(count, 0);\n"
         "  }\n"
         "}\n"
         "\n");
  } else {
    TEXT("struct Order {};\n"
         "\n"
         "// A row, or one past the last, and the vectors that a warp has of it.\n"
         "struct Walk {\n"
         "  int row, vectors;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Walk next_row(const Args *, Order, Place place, Share, Walk walk) {\n"
         "  walk.row += place.gangs;\n"
         "  return walk;\n"
         "}\n"
         "\n");
  }
  TEXT("// ---- What blocks tell each other ----------------------------------------------------------------\n"
       "//\n"
       "// Nothing is there in the beginning but what others have left. A block writes zeros where it is to\n"
       "// tell, and asks others when all blocks have done so: they all run at the same time.\n"
       "\n"
       "// Where a block tells of a row.\n"
       "__device__ __forceinline__ uint64_t *told_of(const Args *args, Place place, int round, int rank) {\n"
       "  const int row = place.gang * TOLD_ROWS + (int)((uint32_t)round % TOLD_ROWS);\n"
       "  return args->told + ((int64_t)row * args->gang + rank) * TOLD_WORDS;\n"
       "}\n"
       "\n");
  if (split) {
    TEXT("// Where a block tells another of a column's sums.\n"
         "__device__ __forceinline__ uint64_t *sums_of(const Args *args, Place place, int rank, int index) {\n"
         "  return args->told +\n"
         "         ((int64_t)place.gangs * TOLD_ROWS * args->gang +\n"
         "          (int64_t)(place.gang * args->gang + rank) * ELEMENTS + index) *\n"
         "             TOLD_WORDS;\n"
         "}\n"
         "\n");
  }
  TEXT("// A value and the round that it is of, which is never 0.\n"
       "__device__ __forceinline__ uint64_t mark(float value, int round) {\n"
       "  return (uint64_t)(round + 1) << 32 | __builtin_bit_cast(uint32_t, value);\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ bool is_of(uint64_t word, int round) {\n"
       "  return (uint32_t)(word >> 32) == (uint32_t)(round + 1);\n"
       "}\n"
       "\n"
       "// One warp: zeros where the block is to tell.\n"
       "__device__ __forceinline__ void clear_told(const Args *args, Place place) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  if (lane < TOLD_ROWS)\n"
       "    store_told(told_of(args, place, lane, place.rank), 0, 0);\n");
  if (split) {
    TEXT("  else if (lane < TOLD_ROWS + ELEMENTS)\n"
         "    store_told(sums_of(args, place, place.rank, lane - TOLD_ROWS), 0, 0);\n");
  }
  TEXT("}\n"
       "\n"
       "// One warp: tells the gang what the block's warps have of rows.\n"
       "__device__ __forceinline__ void tell_rows(const Args *args, Place place, int rounds,\n"
       "                                          RowSums *sums) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n"
       "    RowSums *const row = &sums[(uint32_t)round % TURNS];\n"
       "    wait_for_phase(shared_address(&row->told), (uint32_t)round / TURNS % 2);\n"
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
       "// the block. Who asks before others have told asks again, which costs the L2 cache time: a row's\n"
       "// sums are asked for when the block has told of `later` rows more.\n");
  if (dtype != AP_LAYERNORM_DTYPE_FP32) {
    TEXT("//\n"
         "// Blocks tell the sum of g x, of which it makes that of g x^: of 16 bits x has no more digits than\n"
         "// that leaves.\n");
  }
  TEXT("__device__ __forceinline__ void add_rows(const Args *args, Order order, Place place, Share share,\n"
       "                                         Walk walk, int later, int rounds, RowSums *sums) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  constexpr int COUNT = BLOCKS_MAX / 32;\n"
       "  // All blocks arrive and wait: there are zeros where they are to tell. Others of the block ask for\n"
       "  // nothing before they have been told of a row.\n"
       "  if (lane == 0) {\n"
       "    const uint32_t arrived = grid_arrive();\n"
       "    while (!grid_has_come(arrived))\n"
       "      ;\n"
       "  }\n"
       "  __syncwarp();\n"
       "#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n"
       "    uint64_t sum[COUNT], dot[COUNT];\n"
       "    bool there;\n"
       "    const RowMoments moments = moments_of(args, walk.row);\n"
       "    walk = next_row(args, order, place, share, walk);\n"
       "    RowSums *const row = &sums[(uint32_t)round % TURNS];\n"
       "    // The block's warps have told of this row, and so read what they were told of the one whose\n"
       "    // place it takes.\n"
       "    const int until = round == 0 ? 0 : min(round + later, rounds - 1);\n"
       "    wait_for_phase(shared_address(&sums[(uint32_t)until % TURNS].told),\n"
       "                   (uint32_t)until / TURNS % 2);\n"
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
       "    all = sum_lanes_of_two(all, 32);\n");
  if (dtype != AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    all.y = (all.y - moments.mean * all.x) * moments.rstd;\n");
  }
  TEXT("    const float scale = args->per_column * moments.rstd;\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("    const float4 known = {all.x * scale, all.y * scale, moments.mean, moments.rstd};\n");
  } else {
    TEXT("    const float4 known = {all.x * scale, all.y * scale, -moments.mean * moments.rstd, moments.rstd};\n");
  }
  TEXT("    if (lane == 0) {\n"
       "      row->known_row = known;\n"
       "      mbarrier_arrive(shared_address(&row->known));\n"
       "    }\n"
       "  }\n"
       "}\n"
       "\n"
       "// ---- A warp's ring ------------------------------------------------------------------------------\n"
       "\n"
       "// Its places: of x, dy and, where it is given, dsum, `each` bytes apart.\n"
       "struct Ring {\n"
       "  uint32_t first, barriers;\n"
       "  int each, matrices, slots;\n"
       "};\n"
       "\n"
       "// Place number `slot`, in whose round the barrier there has phases of this parity.\n"
       "struct Slot {\n"
       "  int index, parity;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ uint32_t place_of(const Ring *ring, Slot slot) {\n"
       "  return ring->first + slot.index * ring->matrices * ring->each;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ Slot next_slot(Slot slot, int slots) {\n"
       "  const bool last = slot.index + 1 == slots;\n"
       "  const Slot next = {last ? 0 : slot.index + 1, slot.parity ^ (int)last};\n"
       "  return next;\n"
       "}\n"
       "\n"
       "// Where a warp's part of a row is in a matrix, its first vector.\n"
       "__device__ __forceinline__ int64_t part_of(const Args *args, Walk walk, int64_t stride,\n"
       "                                           Share share) {\n");
  if (split) {
    TEXT("  return (walk.row * stride - walk.shift) * SIZE + (int64_t)share.begin * 16;\n");
  } else {
    TEXT("  return walk.row * stride * SIZE + (int64_t)share.begin * 16;\n");
  }
  TEXT("}\n"
       "\n"
       "// Sends a warp's part of a row on its way. By one lane.\n"
       "__device__ __forceinline__ void send_row(const Args *args, Walk walk, Share share,\n"
       "                                         const Ring *ring, Slot slot) {\n"
       "  const uint32_t to = place_of(ring, slot);\n"
       "  const uint32_t barrier = ring->barriers + slot.index * 8;\n");
  if (split) {
    TEXT("  const int bytes = (walk.vectors - (walk.row == share.cut_row)) * 16;\n");
  } else {
    TEXT("  const int bytes = share.vectors * 16;\n");
  }
  TEXT("  const unsigned char *const x =\n"
       "      (const unsigned char *)args->x + part_of(args, walk, args->x_row_stride, share);\n"
       "  const unsigned char *const dy =\n"
       "      (const unsigned char *)args->dy + part_of(args, walk, args->dy_row_stride, share);\n"
       "  const unsigned char *const dsum =\n"
       "      (const unsigned char *)args->dsum + part_of(args, walk, args->dsum_row_stride, share);\n"
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
    TEXT("// Puts zeros where the row's first vector and its last hold what is not its own, and brings what is\n"
         "// not sent of the matrix's last one. Called by all lanes of a warp that has one of them.\n"
         "__device__ __forceinline__ void end_part(const Args *args, Walk walk, Share share, const Ring *ring,\n"
         "                                         unsigned char *place) {\n"
         "  const int lane = threadIdx.x % 32, index = lane % ELEMENTS;\n"
         "  const int matrix = lane / (2 * ELEMENTS); // x or dy\n"
         "  const int last = (walk.vectors - 1) * ELEMENTS;\n"
         "  unsigned char *const to = place + matrix * ring->each;\n"
         "  if (matrix < 2 && lane / ELEMENTS % 2 == 0 && index < walk.first)\n"
         "    store_element(to, SIZE, index, 0);\n"
         "  if (matrix < 2 && lane / ELEMENTS % 2 == 1 && walk.end > 0 && index >= walk.end)\n"
         "    store_element(to, SIZE, last + index, 0);\n"
         "  if (walk.row == share.cut_row) {\n"
         "    const int first = args->columns - walk.end;\n"
         "#pragma unroll 1\n"
         "    for (int i = 0; i < ring->matrices; ++i) {\n"
         "      const void *const from = i == 0 ? args->x : i == 1 ? args->dy : args->dsum;\n"
         "      const int64_t stride = i == 0   ? args->x_row_stride\n"
         "                             : i == 1 ? args->dy_row_stride\n"
         "                                      : args->dsum_row_stride;\n"
         "      if (lane < walk.end)\n"
         "        store_element(place + i * ring->each, SIZE, last + lane,\n"
         "                      load_element((const unsigned char *)from + (walk.row * stride + first) * SIZE,\n"
         "                                   SIZE, lane));\n"
         "      else if (i == 2 && lane < ELEMENTS)\n"
         "        store_element(place + i * ring->each, SIZE, last + lane, 0);\n"
         "    }\n"
         "  }\n"
         "  // The copy engine may write over it later.\n"
         "  fence_proxy_async();\n"
         "  // All lanes arrive and wait: these are there.\n"
         "  __syncwarp();\n"
         "}\n"
         "\n"
         "// The element of the weight that comes to a warp's vectors when its columns go one further for the\n"
         "// `lane + 1`-th time, at the end of a word.\n"
         "__device__ __forceinline__ uint32_t load_coming(const Args *args, Share share) {\n"
         "  const int column = share.begin * ELEMENTS - 1 - (int)threadIdx.x % 32;\n"
         "  if (column < 0 || column >= args->columns || !args->weight)\n"
         "    return ");
    STRING((params == AP_LAYERNORM_PARAMS_FP32) ? "0x3f800000" : ((params == AP_LAYERNORM_PARAMS_BF16) ? "0x3f800000" : "0x3c000000"));
    TEXT(";\n"
         "  return load_element(args->weight, PARAMETER_SIZE, column)");
    STRING((params == AP_LAYERNORM_PARAMS_FP32) ? "" : " << 16");
    TEXT(";\n"
         "}\n"
         "\n"
         "// Elements of all lanes' vectors, as words, go one further: the last of a vector to the next\n"
         "// lane. word: (VECTORS, WORDS), before: what comes to the first lane\n"
         "__device__ __forceinline__ void move_words(uint32_t (*word)[WORDS], uint32_t before) {\n"
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
         "\n");
    if (apart) {
      TEXT("// A vector's words of those in shared memory: of a lane's first one.\n"
           "__device__ __forceinline__ void take_shared_words(const uint4 *from, int index, uint32_t *word) {\n"
           "#pragma unroll\n"
           "  for (int j = 0; j < WORDS; j += 4) {\n"
           "    const uint4 four = from[(index * WORDS + j) * 8];\n"
           "    word[j] = four.x;\n"
           "    word[j + 1] = four.y;\n"
           "    word[j + 2] = four.z;\n"
           "    word[j + 3] = four.w;\n"
           "  }\n"
           "}\n"
           "\n"
           "__device__ __forceinline__ void put_shared_words(const uint32_t *word, int index, uint4 *to) {\n"
           "#pragma unroll\n"
           "  for (int j = 0; j < WORDS; j += 4) {\n"
           "    const uint4 four = {word[j], word[j + 1], word[j + 2], word[j + 3]};\n"
           "    to[(index * WORDS + j) * 8] = four;\n"
           "  }\n"
           "}\n"
           "\n"
           "// move_words() of those.\n"
           "__device__ __forceinline__ void move_shared_words(uint4 *shared, uint32_t before) {\n"
           "  const int lane = threadIdx.x % 32;\n"
           "#pragma unroll 1\n"
           "  for (int i = 0; i < VECTORS; ++i) {\n"
           "    uint32_t word[WORDS];\n"
           "    take_shared_words(shared, i, word);\n"
           "    const uint32_t given = __shfl_sync(0xffffffff, word[WORDS - 1], (lane + 31) % 32);\n"
           "    uint32_t last = lane == 0 ? before : given;\n"
           "    before = given;\n"
           "#pragma unroll\n"
           "    for (int j = 0; j < WORDS; ++j) {\n"
           "      const uint32_t own = word[j];\n");
      if (params == AP_LAYERNORM_PARAMS_FP32) {
        TEXT("      word[j] = last;\n");
      } else {
        TEXT("      word[j] = last >> 16 | own << 16;\n");
      }
      TEXT("      last = own;\n"
           "    }\n"
           "    put_shared_words(word, i, shared);\n"
           "  }\n"
           "}\n"
           "\n");
    }
    TEXT("// The same of values.\n"
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
       "// Vector number `index` of a lane of a matrix, 0 where the warp has no more. from: its first\n"
       "__device__ __forceinline__ uint4 load_own(uint32_t from, int index, int vectors) {\n");
  if (group) {
    TEXT("  return load_shared_16_if(index * 32 < vectors, from + index * 512);\n");
  } else {
    TEXT("  uint4 vector = {0, 0, 0, 0};\n"
         "  if (index * 32 < vectors)\n"
         "    vector = load_shared_16(from + index * 512);\n"
         "  return vector;\n");
  }
  TEXT("}\n"
       "\n"
       "// Vector number `index` of x and of dy. place: of the lane's first one of x\n"
       "__device__ __forceinline__ void load_row(uint32_t place, const Ring *ring, int index, int vectors,\n"
       "                                         uint4 *vector) {\n"
       "  vector[0] = load_own(place, index, vectors);\n"
       "  vector[1] = load_own(place + ring->each, index, vectors);\n"
       "}\n"
       "\n"
       "// Their values, and g = dy weight.\n"
       "__device__ __forceinline__ void widen_row(const uint4 *vector, const uint32_t *weight, float *x,\n"
       "                                          float *dy, float *g) {\n"
       "  float factor[ELEMENTS];\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(vector[0], x);\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(vector[1], dy);\n");
  if (group && (params == AP_LAYERNORM_PARAMS_FP32)) {
    TEXT("  widen_words_fp32(weight, ELEMENTS, factor);\n");
  } else {
    TEXT("  uint32_t word[WORDS];\n"
         "  renew_words(weight, WORDS, word);\n"
         "  widen_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(word, ELEMENTS, factor);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    g[j] = dy[j] * factor[j];\n"
       "}\n"
       "\n"
       "// Waits for a warp's part of a row, and tells the block what it amounts to: the sums of g and of\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("// g x^.\n");
  } else {
    TEXT("// g x.\n");
  }
  TEXT("__device__ __forceinline__ void add_up(const Args *args, Walk walk, Share share, const Ring *ring,\n"
       "                                       Slot slot");
  STRING((dtype == AP_LAYERNORM_DTYPE_FP32) ? ", RowMoments moments" : "");
  TEXT(",\n"
       "                                       ");
  STRING(apart ? "const uint4 *weight" : "const uint32_t (*weight)[WORDS]");
  TEXT(",\n"
       "                                       uint32_t told");
  STRING(split ? ", unsigned char *rings" : "");
  TEXT(") {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  const uint32_t place = place_of(ring, slot);\n"
       "  wait_for_phase(ring->barriers + slot.index * 8, slot.parity);\n");
  if (split) {
    TEXT("  if (__builtin_expect(walk.first > 0 || walk.end > 0, 0))\n"
         "    end_part(args, walk, share, ring, rings + (place - shared_address(rings)));\n");
  }
  TEXT("  uint4 vector[VECTORS][2];\n");
  if (apart) {
    TEXT("  uint32_t word[VECTORS][WORDS];\n");
  }
  TEXT("#pragma unroll\n");
  if (apart) {
    TEXT("  for (int i = 0; i < EARLY; ++i) {\n"
         "    load_row(place + lane * 16, ring, i, walk.vectors - lane, vector[i]);\n"
         "    take_shared_words(weight, i, word[i]);\n"
         "  }\n");
  } else {
    TEXT("  for (int i = 0; i < EARLY; ++i)\n"
         "    load_row(place + lane * 16, ring, i, walk.vectors - lane, vector[i]);\n");
  }
  TEXT("  float2 all = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    // Of half of them a warp may have none at all.\n"
       "    if (i >= VECTORS / 2 && i * 32 >= walk.vectors)\n"
       "      break;\n");
  if (apart) {
    TEXT("    if (i + EARLY < VECTORS) {\n"
         "      load_row(place + lane * 16, ring, i + EARLY, walk.vectors - lane, vector[i + EARLY]);\n"
         "      take_shared_words(weight, i + EARLY, word[i + EARLY]);\n"
         "    }\n");
  } else {
    TEXT("    if (i + EARLY < VECTORS)\n"
         "      load_row(place + lane * 16, ring, i + EARLY, walk.vectors - lane, vector[i + EARLY]);\n");
  }
  TEXT("    float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n");
  if (apart) {
    TEXT("    widen_row(vector[i], word[i], x, dy, g);\n");
  } else {
    TEXT("    widen_row(vector[i], weight[i], x, dy, g);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      all.x += g[j];\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("      all.y += g[j] * ((x[j] - moments.mean) * moments.rstd);\n");
  } else {
    TEXT("      all.y += g[j] * x[j];\n");
  }
  TEXT("    }\n"
       "  }\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  all = sum_lanes_of_two(all, 32);\n");
  } else {
    TEXT("  all = {0.0f, sum_lanes(all.y, 32)};\n");
  }
  TEXT("  if (lane == 0) {\n"
       "    store_shared_8(told + threadIdx.x / 32 * 8, all);\n"
       "    mbarrier_arrive(told + TOLD_BYTE);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Writes a warp's part of a row of dx, and adds up dweight and dbias. known: known_row of RowSums;\n"
       "// weight_sum, bias_sum: (VECTORS, ELEMENTS)\n"
       "__device__ __forceinline__ void write_row(const Args *args, Walk walk, Share share,\n"
       "                                          const Ring *ring, Slot slot, float4 known,\n"
       "                                          const uint32_t (*weight)[WORDS],\n"
       "                                          float (*weight_sum)[ELEMENTS],\n"
       "                                          float (*bias_sum)[ELEMENTS]");
  STRING(split ? ", uint4 *ends" : "");
  TEXT(") {\n"
       "  const int lane = threadIdx.x % 32, vectors = walk.vectors - lane; // from the lane's first one on\n"
       "  const uint32_t place = place_of(ring, slot) + lane * 16;\n"
       "  unsigned char *const part =\n"
       "      (unsigned char *)args->dx +\n"
       "      part_of(args, walk, args->dx_row_stride, share);\n"
       "  uint4 vector[VECTORS][2];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < EARLY; ++i)\n"
       "    load_row(place, ring, i, vectors, vector[i]);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    if (i >= VECTORS / 2 && i * 32 >= walk.vectors)\n"
       "      break;\n"
       "    if (i + EARLY < VECTORS)\n"
       "      load_row(place, ring, i + EARLY, vectors, vector[i + EARLY]);\n"
       "    float x[ELEMENTS], dy[ELEMENTS], g[ELEMENTS];\n"
       "    widen_row(vector[i], weight[i], x, dy, g);\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("      x[j] = (x[j] - known.z) * known.w;\n");
  } else {
    TEXT("      // By one instruction, of values that were rounded to 16 bits.\n"
         "      x[j] = x[j] * known.w + known.z;\n");
  }
  TEXT("      weight_sum[i][j] += dy[j] * x[j];\n"
       "      bias_sum[i][j] += dy[j];\n"
       "      g[j] = g[j] * known.w - (known.x + x[j] * known.y);\n"
       "    }\n"
       "    if (__builtin_expect(ring->matrices > 2, 0)) {\n"
       "      widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(load_own(place + 2 * ring->each, i, vectors), x);\n"
       "#pragma unroll\n"
       "      for (int j = 0; j < ELEMENTS; ++j)\n"
       "        g[j] += x[j];\n"
       "    }\n"
       "    const uint4 dx = narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(g);\n");
  if (split) {
    TEXT("    const bool first = i == 0 && walk.first > 0 && lane == 0;\n"
         "    if (i * 32 < vectors - (walk.end > 0) && !first)\n"
         "      *(uint4 *)(part + (i * 32 + lane) * 16) = dx;\n"
         "    if (first)\n"
         "      ends[0] = dx;\n"
         "    if (walk.end > 0 && vectors == i * 32 + 1)\n"
         "      ends[1] = dx;\n");
  } else {
    TEXT("    if (i * 32 < vectors)\n"
         "      *(uint4 *)(part + (i * 32 + lane) * 16) = dx;\n");
  }
  TEXT("  }\n");
  if (split) {
    TEXT("  if (__builtin_expect(walk.first == 0 && walk.end == 0, 1))\n"
         "    return;\n"
         "  // All lanes arrive and wait: the row's first vector and its last are there, whose elements have a\n"
         "  // lane each.\n"
         "  __syncwarp();\n"
         "  const bool tail = lane >= ELEMENTS;\n"
         "  const int index = tail ? (walk.vectors - 1) * ELEMENTS + lane - ELEMENTS : lane;\n"
         "  if (lane < 2 * ELEMENTS &&\n"
         "      (tail ? lane - ELEMENTS < walk.end : walk.first > 0 && lane >= walk.first))\n"
         "    store_element(part, SIZE, index, load_element(ends, SIZE, lane));\n");
  }
  TEXT("}\n"
       "\n");
  if (split) {
    TEXT("constexpr int PLACE_SUMS = VECTORS * 33 * ELEMENTS; // of a warp\n"
         "\n"
         "// Where a warp's sum is, so that neither vectors of lanes nor neighbours lie in the same bank.\n"
         "__device__ __forceinline__ int place_of_sum(int column) {\n"
         "  return column + column / 32;\n"
         "}\n"
         "\n"
         "// Gives what a warp has of columns that have come to its first vector to the warp before it, whose\n"
         "// these are, adds what the next one gives, and moves columns so that the first vector is its own:\n"
         "// by now they are `shift` elements behind. Called by all warps that have columns. rings: the block's,\n"
         "// which are empty, with room for (2, PLACE_SUMS) of each warp\n"
         "__device__ __forceinline__ void join_sums(const Args *args, Place place, Share share, int shift,\n"
         "                                          unsigned char *rings, float (*weight_sum)[ELEMENTS],\n"
         "                                          float (*bias_sum)[ELEMENTS]) {\n"
         "  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;\n"
         "  static_assert(2 * PLACE_SUMS * 4 <= RING_BYTES, \"sums have room where rows were\");\n"
         "  float *const own = (float *)(rings + warp * RING_BYTES);\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n"
         "      float *const at = own + place_of_sum((i * 32 + lane) * ELEMENTS + j);\n"
         "      at[0] = weight_sum[i][j];\n"
         "      at[PLACE_SUMS] = bias_sum[i][j];\n"
         "    }\n"
         "  }\n"
         "  // All threads that have columns arrive and wait: hands over the warps' sums.\n"
         "  named_barrier_sync(1, ROW_THREADS);\n"
         "  if (warp == 0 && share.vectors > 0 && share.begin > 0 && lane < shift)\n"
         "    store_told(sums_of(args, place, place.rank, lane), mark(own[lane], 0),\n"
         "               mark(own[PLACE_SUMS + lane], 0));\n"
         "  if (share.vectors > 0 && share.begin + share.vectors < vectors_of_row(args) && lane < shift) {\n"
         "    float2 more;\n"
         "    if (warp < ROW_WARPS - 1) {\n"
         "      const float *const next = (const float *)(rings + (warp + 1) * RING_BYTES);\n"
         "      more = {next[lane], next[PLACE_SUMS + lane]};\n"
         "    } else {\n"
         "      uint64_t sum = 0, dot = 0;\n"
         "      while (!is_of(sum, 0) || !is_of(dot, 0))\n"
         "        load_told(sums_of(args, place, place.rank + 1, lane), &sum, &dot);\n"
         "      more = {__builtin_bit_cast(float, (uint32_t)sum), __builtin_bit_cast(float, (uint32_t)dot)};\n"
         "    }\n"
         "    float *const at = own + place_of_sum(share.vectors * ELEMENTS + lane);\n"
         "    at[0] += more.x;\n"
         "    at[PLACE_SUMS] += more.y;\n"
         "  }\n"
         "  // All lanes arrive and wait: the warp's columns are there, from element `shift` on.\n"
         "  __syncwarp();\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const int first = (i * 32 + lane) * ELEMENTS + shift;\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n"
         "      // Of the last vector there may be nothing behind it.\n"
         "      const float *const at = own + place_of_sum(min(first + j, VECTORS * 32 * ELEMENTS - 1));\n"
         "      weight_sum[i][j] = at[0];\n"
         "      bias_sum[i][j] = at[PLACE_SUMS];\n"
         "    }\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("// Writes a warp's sums of vector number `index`, of the columns that exist: those of all rows, or a\n"
       "// part of them.\n"
       "__device__ __forceinline__ void store_sums(const Args *args, Place place, Share share, int index,\n"
       "                                           float *parts, const float *sum) {\n"
       "  // The vector's first column, of the warp's.\n"
       "  const int own = (index * 32 + (int)threadIdx.x % 32) * ELEMENTS;\n"
       "  const int column = share.begin * ELEMENTS + own;\n"
       "  if (!parts || own >= share.columns)\n"
       "    return;\n"
       "  if (args->whole) {\n"
       "    uint32_t word[WORDS];\n"
       "    narrow_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(sum, ELEMENTS, word);\n"
       "    store_span(parts, PARAMETER_SIZE, column, args->columns, ELEMENTS, word);\n"
       "    return;\n"
       "  }\n"
       "  float *const part = parts + (int64_t)place.gang * args->pitch;\n"
       "#pragma unroll\n"
       "  for (int j = 0; j < ELEMENTS; j += 4) {\n"
       "    const float4 four = {sum[j], sum[j + 1], sum[j + 2], sum[j + 3]};\n");
  if (split && (dtype != AP_LAYERNORM_DTYPE_FP32)) {
    TEXT("    // The part's columns are a multiple of four.\n"
         "    if (column + j < args->columns)\n"
         "      *(float4 *)(part + column + j) = four;\n");
  } else {
    TEXT("    *(float4 *)(part + column + j) = four;\n");
  }
  TEXT("  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, 1)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_bwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ __align__(16) RowSums sums[TURNS];\n");
  if (split) {
    TEXT("  __shared__ uint4 ends[ROW_WARPS][2];\n"
         "  __shared__ uint32_t coming[ROW_WARPS][ELEMENTS];\n");
  }
  TEXT("  __shared__ __align__(8) unsigned char warp_barriers[ROW_WARPS * SLOTS * 8];\n"
       "  // The same in all lanes, which the compiler does not see otherwise.\n"
       "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;\n"
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
       "  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
       "  if (warp == ROW_WARPS + 1)\n"
       "    clear_told(&args, place);\n"
       "  // All threads arrive and wait: the barriers are there, and zeros where the block tells.\n"
       "  __syncthreads();\n"
       "  const Share share = share_of(&args, place.rank, warp % ROW_WARPS);\n"
       "  const int matrices = args.dsum ? 3 : 2;\n"
       "  // Rows of a ring, and those that have been added up before one is written. Another is on its way\n"
       "  // meanwhile, where there is room.\n"
       "  const int each = most_vectors(&args) * 16;\n"
       "  const int slots = min(RING_BYTES / (matrices * each), SLOTS);\n"
       "  const int ahead = min(max(slots - (slots < 5 ? 1 : 2), 1), AHEAD_MAX);\n");
  if (!group) {
    TEXT("  if (warp == ROW_WARPS) {\n"
         "    tell_rows(&args, place, rounds, sums);\n"
         "    return;\n"
         "  }\n");
  }
  if (split) {
    TEXT("  const Order order = order_of(&args);\n"
         "  Walk walk = first_row(&args, order, place, share);\n");
  } else {
    TEXT("  const Order order = {};\n"
         "  Walk walk = {place.gang, share.vectors};\n");
  }
  if (group) {
    TEXT("  if (warp >= ROW_WARPS) {\n"
         "    decrease_registers(56);\n"
         "    if (warp == ROW_WARPS)\n"
         "      tell_rows(&args, place, rounds, sums);\n"
         "    else if (warp == ROW_WARPS + 1)\n"
         "      add_rows(&args, order, place, share, walk, max(ahead - AHEAD_ASKED, 0), rounds, sums);\n"
         "    return;\n"
         "  }\n"
         "  increase_registers(224);\n");
  } else {
    TEXT("  if (warp > ROW_WARPS) {\n"
         "    add_rows(&args, order, place, share, walk, max(ahead - AHEAD_ASKED, 0), rounds, sums);\n"
         "    return;\n"
         "  }\n");
  }
  TEXT("  // To the compiler new values: it would make them anew wherever they are needed.\n"
       "  const Ring ring = {opaque(shared_address(smem) + warp * RING_BYTES), opaque(barriers), each,\n"
       "                     matrices, slots};\n"
       "  const uint32_t told = opaque(shared_address(sums));\n"
       "  Walk later_walk = walk, sent_walk = walk; // of the row that is added up, and of one that is sent\n"
       "  Slot slot = {0, 0}, later_slot = slot, sent_slot = slot;\n"
       "  int sent = 0;\n"
       "  uint32_t weight[VECTORS][WORDS];\n"
       "  // Some rows come before all others: what the first ones amount to is told early.\n"
       "#pragma unroll 1\n"
       "  for (; sent < min(ring.slots, ROWS_AT_FIRST); ++sent) {\n"
       "    if (sent < rounds && elect_lane())\n"
       "      send_row(&args, sent_walk, share, &ring, sent_slot);\n"
       "    sent_slot = next_slot(sent_slot, ring.slots);\n"
       "    sent_walk = next_row(&args, order, place, share, sent_walk);\n"
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
         "  if (lane < ELEMENTS)\n"
         "    coming[warp][lane] = load_coming(&args, share);\n"
         "  // All lanes arrive and wait: these are there.\n"
         "  __syncwarp();\n");
    if (apart) {
      TEXT("  // A lane's own: nobody else reads them.\n"
           "  uint4 *const later_weight =\n"
           "      (uint4 *)(smem + ROW_WARPS * RING_BYTES) + warp * VECTORS * WORDS * 8 + lane;\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < VECTORS; ++i)\n"
           "    put_shared_words(weight[i], i, later_weight);\n");
    } else {
      TEXT("  uint32_t later_weight[VECTORS][WORDS];\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < VECTORS; ++i) {\n"
           "#pragma unroll\n"
           "    for (int j = 0; j < WORDS; ++j)\n"
           "      later_weight[i][j] = weight[i][j];\n"
           "  }\n");
    }
  } else {
    TEXT("  constexpr int shift = 0, later_shift = 0;\n"
         "  const uint32_t(*const later_weight)[WORDS] = weight;\n");
  }
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  RowMoments later_moments = moments_of(&args, walk.row);\n");
  }
  TEXT("#pragma unroll 1\n"
       "  for (int round = -ahead; round < rounds; ++round) {\n"
       "    // What a later row amounts to, while others arrive.\n"
       "    if (round + ahead < rounds) {\n"
       "      const Walk last_walk = next_row(&args, order, place, share, later_walk);\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("      const RowMoments last_moments = moments_of(&args, last_walk.row);\n");
  }
  if (split) {
    TEXT("#pragma unroll 1\n"
         "      for (; __builtin_expect(later_shift < later_walk.shift, 0); ++later_shift)\n");
    if (apart) {
      TEXT("        move_shared_words(later_weight, coming[warp][later_shift]);\n");
    } else {
      TEXT("        move_words(later_weight, coming[warp][later_shift]);\n");
    }
  }
  TEXT("      add_up(&args, later_walk, share, &ring, later_slot, ");
  STRING((dtype == AP_LAYERNORM_DTYPE_FP32) ? "later_moments, " : "");
  TEXT("later_weight,\n"
       "             told + (uint32_t)(round + ahead) % TURNS * SUMS_BYTES");
  STRING(split ? ", smem" : "");
  TEXT(");\n"
       "      later_slot = next_slot(later_slot, ring.slots);\n"
       "      later_walk = last_walk;\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("      later_moments = last_moments;\n");
  }
  TEXT("    }\n"
       "    if (round >= 0) {\n"
       "      const Walk next_walk = next_row(&args, order, place, share, walk);\n");
  if (split) {
    TEXT("#pragma unroll 1\n"
         "      for (; __builtin_expect(shift < walk.shift, 0); ++shift) {\n"
         "        move_words(weight, coming[warp][shift]);\n"
         "        move_values(weight_sum);\n"
         "        move_values(bias_sum);\n"
         "      }\n");
  }
  TEXT("      // Hands over what all blocks have of this row.\n"
       "      const uint32_t turn = told + (uint32_t)round % TURNS * SUMS_BYTES;\n"
       "      wait_for_phase(turn + KNOWN_BYTE, (uint32_t)round / TURNS % 2);\n"
       "      const float4 known = load_shared_float4(turn + ROW_BYTE);\n"
       "      // dx = rstd g - (rstd mean(g) + x^ rstd mean(g x^)).\n"
       "      write_row(&args, walk, share, &ring, slot, known, weight, weight_sum,\n"
       "                bias_sum");
  STRING(split ? ", ends[warp]" : "");
  TEXT(");\n"
       "      // All lanes arrive and wait: they have read the row. Another takes its place.\n"
       "      __syncwarp();\n"
       "      slot = next_slot(slot, ring.slots);\n"
       "      walk = next_walk;\n"
       "    }\n"
       "    // In the beginning places are left.\n"
       "    if (round >= 0 || sent < ring.slots) {\n"
       "      if (sent < rounds && elect_lane())\n"
       "        send_row(&args, sent_walk, share, &ring, sent_slot);\n"
       "      ++sent;\n"
       "      sent_slot = next_slot(sent_slot, ring.slots);\n"
       "      sent_walk = next_row(&args, order, place, share, sent_walk);\n"
       "    }\n"
       "  }\n"
       "  // The kernel that adds up the parts may be launched; it waits for their end.\n"
       "  griddepcontrol_launch_dependents();\n");
  if (split) {
    TEXT("  join_sums(&args, place, share, shift, smem, weight_sum, bias_sum);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    store_sums(&args, place, share, i, args.weight_parts, weight_sum[i]);\n"
       "    store_sums(&args, place, share, i, args.bias_parts, bias_sum[i]);\n"
       "  }\n"
       "}\n");
}
