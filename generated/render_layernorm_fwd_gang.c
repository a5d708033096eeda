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
  int32_t makers = (((params == AP_LAYERNORM_PARAMS_FP32) && (dtype != AP_LAYERNORM_DTYPE_FP32)) && !adds) ? 2 : 1;
  int32_t traded = ((threads > 512) || (rows == AP_LAYERNORM_ROWS_SPLIT)) ? 1 : 0;
  int32_t parameter_words = ((params == AP_LAYERNORM_PARAMS_FP32) && (dtype != AP_LAYERNORM_DTYPE_FP32)) ? 2 : 1;
  int32_t many = ((((cols * parameter_words) * ((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2)) / 16) > (8 * row_threads)) ? 1 : 0;
  int32_t row_registers = (rows != AP_LAYERNORM_ROWS_SPLIT) ? 128 : (many ? 168 : 152);
  int32_t other_registers = (rows != AP_LAYERNORM_ROWS_SPLIT) ? 64 : (many ? 88 : 104);
  int32_t idle = ((rows == AP_LAYERNORM_ROWS_SPLIT) && (makers == 1)) ? 1 : 0;
  int32_t asks_ahead = (((rows == AP_LAYERNORM_ROWS_GANG) || (rows == AP_LAYERNORM_ROWS_GANGSUM)) && (makers == 1)) ? 1 : 0;
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
       "// as they arrive. What its warps have of a row a block tells the gang, through global memory. Of\n"
       "// what all of them tell each block makes the row's moments. When these are there the ring's warp\n"
       "// writes its part of the row, and another takes its place.\n");
  if (adds) {
    TEXT("// x is x + residual, rounded, which is written, too; parts of both lie in a place of a ring.\n");
  }
  if (split) {
    TEXT("//\n");
    if (adds) {
      TEXT("// Rows lie one after the other, of all matrices alike, from a multiple of a vector on; no output is\n"
           "// an input. The\n");
    } else {
      TEXT("// Rows lie one after the other, x and y alike, from a multiple of a vector on; y is not x. The\n");
    }
    TEXT("// gang's warps have those of a row's vectors that are whole wherever it begins. What is left at its\n"
         "// ends, of all rows as many elements, two warps of the gang's first block have, of which one adds\n"
         "// them up and one writes them. Rows that begin at the same element of a vector are a class. A gang\n"
         "// takes class after class, in the order of that element: where the next one begins so many elements\n"
         "// later in its vectors, parameters go as many further, from lane to lane.\n");
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
       "#include \"attnpress/device/ptx_bulk_copy.cuh\"\n"
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_opaque.cuh\"\n"
       "#include \"attnpress/device/ptx_shared.cuh\"\n"
       "#include \"attnpress/device/ptx_told.cuh\"\n");
  if (traded) {
    TEXT("#include \"attnpress/device/ptx_warpgroup.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_norm.cuh\"\n"
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
       "constexpr int MAKERS = ");
  INTEGER(makers);
  TEXT("; // warps that make moments\n"
       "constexpr int OTHERS = MAKERS + ");
  INTEGER(split ? (2 + idle) : 1);
  TEXT("; // that neither add rows up nor write them");
  STRING(split ? ", but ends" : "");
  TEXT("\n"
       "constexpr int ADDERS = THREADS / 32 - ROW_WARPS - OTHERS; // that add rows up\n"
       "constexpr int ADDED = ROW_WARPS / ADDERS;                 // rings that each of them has\n"
       "constexpr int ELEMENTS = 16 / SIZE;                         // of a vector\n"
       "constexpr int VECTORS = COLUMNS / (ROW_THREADS * ELEMENTS); // of a thread in a row, at the most\n"
       "constexpr int LOADED = 4; // of these, that a thread loads before it writes the first\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // rows of a warp's ring, at the most\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "constexpr int RING_BYTES = SMEM_BYTES / ROW_WARPS;\n"
       "constexpr int TURNS = 16;            // rows that a block's warps tell of, and are told of\n"
       "// And a gang's blocks. One that tells of a row has written the one SLOTS before it: all had told of\n"
       "// that, and had written the one SLOTS before it in turn, so that they had read what all told of it.\n"
       "constexpr int TOLD_ROWS = 2 * SLOTS;\n"
       "constexpr int FIRST_ROWS = 2;        // that come before the parameters\n");
  if (split) {
    TEXT("constexpr int UNIT = 1; // vectors that are dealt together\n");
  } else {
    TEXT("constexpr int UNIT = 8; // vectors that are dealt together: a line of 128 bytes\n");
  }
  TEXT("constexpr int BLOCKS_MAX = 160; // of a launch\n"
       "constexpr int LAUNCHES = 4;     // that have memory of their own, in turn\n");
  if (layer) {
    TEXT("constexpr float FAR = 16.0f; // of the square of a mean, in variances\n");
  }
  TEXT("static_assert(VECTORS * ROW_THREADS * ELEMENTS == COLUMNS, \"threads share a row evenly\");\n"
       "static_assert(RING_BYTES % 128 == 0, \"rings are of whole vectors\");\n"
       "static_assert(ADDERS * ADDED == ROW_WARPS && 32 % ROW_WARPS == 0, \"rings are shared evenly\");\n"
       "static_assert(SLOTS <= TURNS, \"what warps tell of a row takes the place of what has been read\");\n");
  if (split) {
    TEXT("static_assert(2 * ELEMENTS - 1 <= 32, \"elements at a row's ends have a lane each\");\n");
  }
  TEXT("// What a block's warps have of a row, sums and squared differences to their means, and then the\n"
       "// row's mean and rstd; each with the barrier that awaits it.\n"
       "struct RowSums {\n"
       "  float2 warp[ROW_WARPS], all;\n"
       "  uint64_t told, known;\n"
       "};\n"
       "\n"
       "// What the blocks of a launch tell each other: what each has of rows.\n"
       "struct Told {\n"
       "  uint64_t part[TOLD_ROWS][BLOCKS_MAX][2];\n"
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
       "\n");
  if (split) {
    TEXT("// How a row's vectors are dealt to the warps of a gang: so many each, and one more to the first.\n"
         "struct Deal {\n"
         "  int each, more;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ int first_vector(Deal deal, int warp) {\n"
         "  return warp * deal.each + min(warp, deal.more);\n"
         "}\n");
  } else {
    TEXT("// How a row's vectors are dealt to the warps of a gang: so many units each, and one more to the\n"
         "// first. The last unit may be short. Warps read and write whole lines where rows begin with one.\n"
         "struct Deal {\n"
         "  int each, more, vectors;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ int first_vector(Deal deal, int warp) {\n"
         "  return min((warp * deal.each + min(warp, deal.more)) * UNIT, deal.vectors);\n"
         "}\n");
  }
  TEXT("// Vectors of a warp, at the most.\n"
       "__device__ __forceinline__ int most_vectors(Deal deal) {\n"
       "  return (deal.each + (deal.more > 0)) * UNIT;\n"
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
         "  int row, number;\n"
         "};\n"
         "\n"
         "__device__ __forceinline__ Walk next_row(const Args *args, Order order, Place, Walk walk) {\n"
         "  walk.row += order.period;\n"
         "  if (__builtin_expect(walk.row < (int)args->rows, 1))\n"
         "    return walk;\n"
         "  while (walk.row >= (int)args->rows && ++walk.number < order.period)\n"
         "    walk.row = walk.number * order.second & (order.period - 1);\n"
         "  return walk;\n"
         "}\n"
         "\n"
         "// The first row of a gang, which has as many as others.\n"
         "__device__ __forceinline__ Walk first_row(const Args *args, Order order, Place place) {\n"
         "  const int rows = (int)args->rows;\n"
         "  int left = place.gang * (rows / place.gangs) + min(place.gang, rows % place.gangs);\n"
         "  Walk walk = {0, 0};\n"
         "  for (;; ++walk.number) {\n"
         "    const int first = walk.number * order.second & (order.period - 1);\n"
         "    // Of the class; the period is ELEMENTS / order.apart.\n"
         "    const int count = (int)((int64_t)(rows - first + order.period - 1) * order.apart / ELEMENTS);\n"
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
         "  int row;\n"
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
       "  if (lane < TOLD_ROWS)\n"
       "    store_told(next->part[lane][block], 0, 0);\n"
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
       "__device__ __forceinline__ Count counted(int count) {\n"
       "  const float columns = (float)count;\n"
       "  const Count counted = {columns, count > 0 ? 1.0f / columns : 0.0f};\n"
       "  return counted;\n"
       "}\n"
       "\n"
       "// Of warps from number `first` on, before number `end`.\n"
       "__device__ __forceinline__ Count count_of(Deal deal, int first, int end) {\n"
       "  return counted((first_vector(deal, end) - first_vector(deal, first)) * ELEMENTS);\n"
       "}\n"
       "\n");
  if (split) {
    TEXT("// Elements of a row that are not dealt as vectors: those of its first one, all or not, and as many\n"
         "// of the last two as make it the same number wherever the row begins.\n"
         "__device__ __forceinline__ int ends_of(const Args *args) {\n"
         "  return ELEMENTS + args->columns % ELEMENTS;\n"
         "}\n"
         "\n");
  }
  TEXT("// Of block number `rank` of a gang.\n"
       "__device__ __forceinline__ Count count_of_block(const Args *args, Deal deal, int rank) {\n"
       "  const int first = rank * ROW_WARPS;\n");
  if (split) {
    TEXT("  const int vectors = first_vector(deal, first + ROW_WARPS) - first_vector(deal, first);\n"
         "  return counted(vectors * ELEMENTS + (rank == 0 ? ends_of(args) : 0));\n");
  } else {
    TEXT("  return count_of(deal, first, first + ROW_WARPS);\n");
  }
  TEXT("}\n"
       "\n");
  if (split) {
    TEXT("// The column of the element at a row's ends that a lane has; there are `ends` of them. shift: where\n"
         "// the row begins in its first vector\n"
         "__device__ __forceinline__ int column_of_end(const Args *args, int ends, int shift) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  return lane < ELEMENTS - shift ? lane : args->columns - ends + lane;\n"
         "}\n"
         "\n"
         "// A lane's value of x there, 0 where it has none.\n"
         "__device__ __forceinline__ float load_end(const Args *args, int ends, int shift, int64_t row) {\n"
         "  if ((int)threadIdx.x % 32 >= ends || row >= args->rows)\n"
         "    return 0.0f;\n"
         "  const int64_t begin = row * args->columns * SIZE;\n"
         "  const int column = column_of_end(args, ends, shift);\n"
         "  const float x = widen_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(\n"
         "      load_element((const unsigned char *)args->x + begin, SIZE, column));\n");
    if (adds) {
      TEXT("  const float other = widen_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(\n"
           "      load_element((const unsigned char *)args->residual + begin, SIZE, column));\n"
           "  return widen_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(narrow_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(x + other));\n");
    } else {
      TEXT("  return x;\n");
    }
    TEXT("}\n"
         "\n");
  }
  TEXT("// One warp: tells the gang what the block's warps have of rows");
  STRING(split ? ", and it itself, at their ends" : "");
  TEXT(".\n"
       "__device__ __forceinline__ void tell_rows(const Args *args, Told *told, Deal deal, Order order,\n"
       "                                          Place place, int rounds, RowSums *sums) {\n"
       "  const int lane = threadIdx.x % 32, warp = lane % ROW_WARPS;\n");
  if (layer) {
    TEXT("  const int first = place.rank * ROW_WARPS;\n"
         "  const Count own = count_of(deal, first + warp, first + warp + 1);\n"
         "  const Count all = count_of_block(args, deal, place.rank);\n");
  }
  if (split) {
    TEXT("  const int ends = place.rank == 0 ? ends_of(args) : 0;\n");
    if (layer) {
      TEXT("  const Count end_count = counted(ends);\n");
    }
    TEXT("  Walk walk = first_row(args, order, place);\n"
         "  float next = load_end(args, ends, shift_of(order, walk), walk.row);\n");
  }
  TEXT("#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n"
       "    RowSums *const row = &sums[round % TURNS];\n");
  if (split) {
    TEXT("    // Of its ends, while others have it on its way.\n"
         "    const float value = next;\n");
    if (layer) {
      TEXT("    float end_sum = 0.0f;\n");
    }
    TEXT("    float end_squares = 0.0f;\n"
         "    if (ends > 0) {\n"
         "      walk = next_row(args, order, place, walk);\n"
         "      next = load_end(args, ends, shift_of(order, walk), walk.row);\n");
    if (layer) {
      TEXT("      end_sum = sum_lanes(value, 32);\n"
           "      const float off = lane < ends ? value - end_sum * end_count.each : 0.0f;\n"
           "      end_squares = sum_lanes(off * off, 32);\n");
    } else {
      TEXT("      end_squares = sum_lanes(value * value, 32);\n");
    }
    TEXT("    }\n");
  }
  TEXT("    wait_for_phase(shared_address(&row->told), round / TURNS % 2);\n"
       "    const float2 part = row->warp[warp];\n");
  if (layer) {
    TEXT("    // Chan, Golub and LeVeque 1979.\n"
         "    const float sum = sum_lanes(part.x, ROW_WARPS)");
    STRING(split ? " + end_sum" : "");
    TEXT(";\n"
         "    const float off = part.x * own.each - sum * all.each;\n");
    if (split) {
      TEXT("    const float end_off = end_sum * end_count.each - sum * all.each;\n"
           "    const float squares = sum_lanes(part.y + own.columns * off * off, ROW_WARPS) +\n"
           "                          (end_squares + end_count.columns * end_off * end_off);\n");
    } else {
      TEXT("    const float squares = sum_lanes(part.y + own.columns * off * off, ROW_WARPS);\n");
    }
  } else {
    TEXT("    constexpr float sum = 0.0f;\n"
         "    const float squares = sum_lanes(part.y, ROW_WARPS)");
    STRING(split ? " + end_squares" : "");
    TEXT(";\n");
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
       "\n");
  if (makers > 1) {
    TEXT("// Others, each of every MAKERS-th row, from number `index` on: tell the block rows' moments. Each\n"
         "// block makes them itself, of what all blocks of the gang tell.\n");
  } else {
    TEXT("// Another one: tells the block rows' moments, from number `index` on. Each block makes them itself,\n"
         "// of what all blocks of the gang tell.\n");
  }
  TEXT("__device__ __forceinline__ void make_moments(const Args *args, const Told *told, Deal deal,\n"
       "                                             Order order, Place place, int index, int rounds,\n"
       "                                             RowSums *sums) {\n"
       "  constexpr int COUNT = BLOCKS_MAX / 32;\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  Walk walk = first_row(args, order, place);\n"
       "  for (int i = 0; i < index; ++i)\n"
       "    walk = next_row(args, order, place, walk);\n");
  if (asks_ahead) {
    TEXT("  // What was told of the row, as far as it has been.\n"
         "  uint64_t sum[COUNT], squares[COUNT];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < COUNT; ++i)\n"
         "    sum[i] = squares[i] = i * 32 + lane < place.blocks ? 0 : mark(0.0f, index);\n");
  }
  TEXT("#pragma unroll 1\n"
       "  for (int round = index; round < rounds; round += MAKERS) {\n"
       "    RowSums *const row = &sums[round % TURNS];\n"
       "    // The block's warps have told of this row: others do so at the same time. Who asks earlier asks\n"
       "    // again, which costs the L2 cache time. And all have read the moments whose place these take.\n"
       "    wait_for_phase(shared_address(&row->told), round / TURNS % 2);\n");
  if (asks_ahead) {
    TEXT("    bool there;\n");
  } else {
    TEXT("    uint64_t sum[COUNT], squares[COUNT];\n"
         "    bool there;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < COUNT; ++i)\n"
         "      sum[i] = squares[i] = i * 32 + lane < place.blocks ? 0 : mark(0.0f, round);\n");
  }
  TEXT("    const uint64_t(*const part)[2] = told->part[round % TOLD_ROWS] + place.gang * place.blocks;\n"
       "    do {\n"
       "      there = true;\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < COUNT; ++i)\n"
       "        if (!is_of(sum[i], round) || !is_of(squares[i], round))\n"
       "          load_told(part[i * 32 + lane], &sum[i], &squares[i]);\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < COUNT; ++i)\n"
       "        there = there && is_of(sum[i], round) && is_of(squares[i], round);\n"
       "    } while (__any_sync(0xffffffff, !there));\n");
  if (asks_ahead) {
    TEXT("    // The next row's is asked for while this one's moments are made.\n");
    if (layer) {
      TEXT("    float own_sum[COUNT];\n");
    }
    TEXT("    float own_squares[COUNT];\n"
         "    const int later = round + MAKERS;\n"
         "    const uint64_t(*const next)[2] = told->part[later % TOLD_ROWS] + place.gang * place.blocks;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < COUNT; ++i) {\n");
    if (layer) {
      TEXT("      own_sum[i] = value_of(sum[i]);\n");
    }
    TEXT("      own_squares[i] = value_of(squares[i]);\n"
         "      sum[i] = squares[i] = mark(0.0f, later);\n"
         "      if (i * 32 + lane < place.blocks)\n"
         "        load_told(next[i * 32 + lane], &sum[i], &squares[i]);\n"
         "    }\n");
  }
  TEXT("    float all = 0.0f;\n");
  if (layer) {
    TEXT("    float mean = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < COUNT; ++i)\n"
         "      mean += ");
    STRING(asks_ahead ? "own_sum[i]" : "value_of(sum[i])");
    TEXT(";\n"
         "    mean = sum_lanes(mean, 32) * args->per_column;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < COUNT; ++i) {\n"
         "      const Count count = count_of_block(args, deal, i * 32 + lane);\n"
         "      const float off = ");
    STRING(asks_ahead ? "own_sum[i]" : "value_of(sum[i])");
    TEXT(" * count.each - mean;\n"
         "      if (i * 32 + lane < place.blocks)\n"
         "        all += ");
    STRING(asks_ahead ? "own_squares[i]" : "value_of(squares[i])");
    TEXT(" + count.columns * off * off;\n"
         "    }\n");
  } else {
    TEXT("    constexpr float mean = 0.0f;\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < COUNT; ++i)\n"
         "      all += ");
    STRING(asks_ahead ? "own_squares[i]" : "value_of(squares[i])");
    TEXT(";\n");
  }
  TEXT("    const float rstd = reciprocal_sqrt_approx(sum_lanes(all, 32) * args->per_column + args->eps);\n"
       "    if (lane == 0) {\n"
       "      row->all = {mean, rstd};\n"
       "      mbarrier_arrive(shared_address(&row->known));\n"
       "      if (place.rank == place.blocks - 1) {\n");
  if (layer) {
    TEXT("        if (args->mean)\n"
         "          args->mean[walk.row] = mean;\n");
  }
  TEXT("        if (args->rstd)\n"
       "          args->rstd[walk.row] = rstd;\n"
       "      }\n"
       "    }\n"
       "    for (int i = 0; i < MAKERS; ++i)\n"
       "      walk = next_row(args, order, place, walk);\n"
       "  }\n"
       "}\n"
       "\n"
       "// ---- A warp's ring ------------------------------------------------------------------------------\n"
       "\n"
       "// Its places, `each` bytes apart.\n"
       "struct Ring {\n"
       "  uint32_t first, barriers;\n"
       "  int each, slots;\n"
       "};\n"
       "\n"
       "// Place number `slot`, in whose round the barrier there has phases of this parity.\n"
       "struct Slot {\n"
       "  int index, parity;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ uint32_t place_of(const Ring *ring, Slot slot) {\n"
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
    TEXT("  return ((int64_t)walk.row * args->columns - shift) * SIZE;\n");
  } else {
    TEXT("  return walk.row * stride * SIZE;\n");
  }
  TEXT("}\n"
       "\n"
       "// Sends a warp's part of a row on its way. By one lane.\n"
       "__device__ __forceinline__ void send_row(const Args *args, Order order, Walk walk, Share share,\n"
       "                                         const Ring *ring, Slot slot) {\n"
       "  const int shift = shift_of(order, walk), bytes = share.vectors * 16;\n"
       "  const uint32_t barrier = ring->barriers + slot.index * 8;\n"
       "  mbarrier_arrive_expect(barrier, ");
  STRING(adds ? "2 * bytes" : "bytes");
  TEXT(");\n"
       "  if (bytes == 0)\n"
       "    return;\n");
  if (adds) {
    TEXT("  bulk_load(place_of(ring, slot) + share.apart * 16,\n"
         "            (const unsigned char *)args->residual +\n"
         "                begin_of(args, walk, shift, args->residual_row_stride) + (int64_t)share.begin * 16,\n"
         "            bytes, barrier);\n");
  }
  TEXT("  bulk_load(place_of(ring, slot),\n"
       "            (const unsigned char *)args->x + begin_of(args, walk, shift, args->x_row_stride) +\n"
       "                (int64_t)share.begin * 16,\n"
       "            bytes, barrier);\n"
       "}\n"
       "\n"
       "// What is sent next, and how many rows before it.\n"
       "struct Sender {\n"
       "  int sent;\n"
       "  Walk walk;\n"
       "  Slot slot;\n"
       "};\n"
       "\n"
       "// Sends the first rows, until there are `end`. Called by all lanes.\n"
       "__device__ __forceinline__ void send_rows(const Args *args, Order order, Place place, Share share,\n"
       "                                          const Ring *ring, int end, Sender *next) {\n"
       "#pragma unroll 1\n"
       "  for (; next->sent < end; ++next->sent) {\n"
       "    if (threadIdx.x % 32 == 0)\n"
       "      send_row(args, order, next->walk, share, ring, next->slot);\n"
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
  TEXT("// Vector number `index` of a share, or 0 if `there` is false. place: of the share\n"
       "__device__ __forceinline__ uint4 vector_of_part(uint32_t place, int index, Share share,\n"
       "                                                bool there) {\n"
       "  const uint4 x = load_shared_16_if(there, place + index * 16);\n");
  if (adds) {
    TEXT("  return add_vectors(x, load_shared_16_if(there, place + (share.apart + index) * 16));\n");
  } else {
    TEXT("  return x;\n");
  }
  TEXT("}\n"
       "\n"
       "// Whether a lane has a vector number `index` of a share.\n"
       "__device__ __forceinline__ bool has_vector(Share share, int index) {\n"
       "  return index * 32 + (int)threadIdx.x % 32 < share.vectors;\n"
       "}\n"
       "\n"
       "// A lane's vectors from number `first` on, `count` of them, 0 beyond the share. vector: (count)\n"
       "__device__ __forceinline__ void load_own(uint32_t place, Share share, int first, int count,\n"
       "                                         uint4 *vector) {\n"
       "#pragma unroll\n"
       "  for (int i = first; i < first + count; ++i)\n"
       "    vector[i - first] =\n"
       "        vector_of_part(place, i * 32 + (int)threadIdx.x % 32, share, has_vector(share, i));\n"
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
         "__device__ __forceinline__ float2 add_up_about(uint32_t place, Share share, float about) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  float2 all = {0.0f, 0.0f};\n"
         "#pragma unroll 1\n"
         "  for (int i = lane; i < share.vectors; i += 32) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(vector_of_part(place, i, share, true), value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n"
         "      const float difference = value[j] - about;\n"
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
       "__device__ __forceinline__ void add_up(Share share, Count count, const Ring *ring, Slot slot,\n"
       "                                       int index, RowSums *to) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  const uint32_t place = place_of(ring, slot);\n"
       "  wait_for_phase(ring->barriers + slot.index * 8, slot.parity);\n"
       "  float2 all = {0.0f, 0.0f};\n"
       "  uint4 x[VECTORS];\n"
       "  load_own(place, share, 0, VECTORS, x);\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i)\n"
       "    add_vector(&all, x[i]);\n");
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
         "    const float2 differences = add_up_about(place, share, about);\n"
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
       "    const int column = (share.begin + own) * ELEMENTS;\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < WORDS; ++j)\n"
       "      word[i][j] = absent_word(index);\n"
       "    if (parameter && own < share.vectors)\n"
       "      load_parameter_words(parameter, PARAMETER_SIZE, column, args->columns, ELEMENTS, true,\n"
       "                           word[i]);\n"
       "  }\n"
       "}\n"
       "\n");
  if (!split) {
    TEXT("// Brings a warp's part of the first rows and of the parameters to the L2 cache while what ran\n"
         "// before still ends. Whatever that writes of them it writes there: nothing that is read later can\n"
         "// be older.\n"
         "__device__ __forceinline__ void fetch_ahead(const Args *args, Order order, Place place, Share share,\n"
         "                                            Walk walk) {\n"
         "  const int lane = threadIdx.x % 32;\n"
         "#pragma unroll 1\n"
         "  for (int i = 0; i < FIRST_ROWS; ++i) {\n"
         "    prefetch_row((const unsigned char *)args->x +\n"
         "                     begin_of(args, walk, shift_of(order, walk), args->x_row_stride) +\n"
         "                     (int64_t)share.begin * 16,\n"
         "                 1, share.vectors * 16, lane, 32);\n"
         "    walk = next_row(args, order, place, walk);\n"
         "  }\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < PARAMETERS; ++i)\n"
         "    if (parameter_of(args, i))\n"
         "      prefetch_row((const unsigned char *)parameter_of(args, i) + share.begin * WORDS * 4, 1,\n"
         "                   share.vectors * WORDS * 4, lane, 32);\n"
         "}\n"
         "\n");
  }
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
         "// What comes to a warp's first vector, at the end of words, when its columns go further for the\n"
         "// `lane + 1`-th time: elements of parameter number `index`.\n"
         "__device__ __forceinline__ uint32_t load_coming(const Args *args, int index, Share share) {\n"
         "  const void *const parameter = parameter_of(args, index);\n"
         "  const int lane = threadIdx.x % 32;\n"
         "  if (!parameter || lane >= ELEMENTS - 1)\n"
         "    return absent_word(index);\n"
         "  return load_element(parameter, PARAMETER_SIZE, share.begin * ELEMENTS - 1 - lane)");
    STRING((params == AP_LAYERNORM_PARAMS_FP32) ? "" : " << 16");
    TEXT(";\n"
         "}\n"
         "\n");
  }
  TEXT("// A value of y.\n"
       "__device__ __forceinline__ float value_of_row(float x, float2 moments, float factor");
  STRING(layer ? ", float added" : "");
  TEXT(") {\n");
  if (!layer) {
    TEXT("  return x * moments.y * factor;\n");
  } else if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  return (x - moments.x) * moments.y * factor + added;\n");
  } else {
    TEXT("  return (x * moments.y - moments.x * moments.y) * factor + added;\n");
  }
  TEXT("}\n"
       "\n"
       "// The values of a vector of y. index: the vector's, of the lane's; word: (PARAMETERS, VECTORS,\n"
       "// WORDS)\n"
       "__device__ __forceinline__ uint4 vector_of_row(uint4 x, int index, float2 moments,\n"
       "                                               const uint32_t (*word)[VECTORS][WORDS]) {\n"
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
       "  for (int j = 0; j < ELEMENTS; ++j)\n"
       "    value[j] = value_of_row(value[j], moments, factor[j]");
  STRING(layer ? ", added[j]" : "");
  TEXT(");\n"
       "  return narrow_vector_");
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
       "// Writes a warp's part of a row. place: of the part; x: (LOADED), of which the lane's first vectors are\n"
       "// there; word: (PARAMETERS, VECTORS, WORDS)\n"
       "__device__ __forceinline__ void write_part(Share share, uint32_t place, uint4 *x, Outputs to,\n"
       "                                           float2 moments, const uint32_t (*word)[VECTORS][WORDS]) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const uint4 own = x[i % LOADED];\n"
       "    const uint4 y = vector_of_row(own, i, moments, word);\n"
       "    if (i + LOADED < VECTORS)\n"
       "      load_own(place, share, i + LOADED, 1, &x[i % LOADED]);\n"
       "    store_16_if(has_vector(share, i), to.y + i * 32, y);\n");
  if (adds) {
    TEXT("    store_16_if(has_vector(share, i), to.sum + i * 32, own);\n");
  }
  TEXT("  }\n"
       "}\n"
       "\n");
  if (split) {
    TEXT("// One warp of a gang's first block: writes the elements at rows' ends, a lane each.\n"
         "__device__ __forceinline__ void write_ends(const Args *args, Order order, Place place, int rounds,\n"
         "                                           RowSums *sums) {\n"
         "  const int lane = threadIdx.x % 32, ends = ends_of(args);\n"
         "  // Who tells of a row waits for this warp, too: it has read the moments of the one whose place\n"
         "  // that takes, if there was one.\n"
         "  if (lane == 0) {\n"
         "    for (int i = 0; i < TURNS; ++i)\n"
         "      mbarrier_arrive(shared_address(&sums[i].told));\n"
         "  }\n"
         "  Walk walk = first_row(args, order, place);\n"
         "  int shift = shift_of(order, walk);\n"
         "  float next = load_end(args, ends, shift, walk.row);\n"
         "  float parameter[PARAMETERS] = {};\n"
         "  int loaded = -1; // where rows begin whose parameters these are\n"
         "#pragma unroll 1\n"
         "  for (int round = 0; round < rounds; ++round) {\n"
         "    const float value = next;\n"
         "    const int column = column_of_end(args, ends, shift);\n"
         "    const int64_t begin = (int64_t)walk.row * args->columns * SIZE;\n"
         "    if (loaded != shift && lane < ends) {\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < PARAMETERS; ++i)\n"
         "        parameter[i] = widen_element_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(\n"
         "            parameter_of(args, i) ? load_element(parameter_of(args, i), PARAMETER_SIZE, column)\n"
         "                                  : absent_word(i));\n"
         "    }\n"
         "    loaded = shift;\n"
         "    walk = next_row(args, order, place, walk);\n"
         "    shift = shift_of(order, walk);\n"
         "    next = load_end(args, ends, shift, walk.row);\n"
         "    // Hands over the moments of this row.\n"
         "    RowSums *const row = &sums[round % TURNS];\n"
         "    wait_for_phase(shared_address(&row->known), round / TURNS % 2);\n"
         "    const float2 moments = row->all;\n"
         "    // All lanes arrive and wait: they have read the moments.\n"
         "    __syncwarp();\n"
         "    if (lane == 0)\n"
         "      mbarrier_arrive(shared_address(&row->told));\n"
         "    if (lane < ends) {\n"
         "      const float y = value_of_row(value, moments, parameter[0]");
    STRING(layer ? ", parameter[1]" : "");
    TEXT(");\n"
         "      store_element((unsigned char *)args->y + begin, SIZE, column, narrow_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(y));\n");
    if (adds) {
      TEXT("      store_element((unsigned char *)args->sum + begin, SIZE, column,\n"
           "                    narrow_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(value));\n");
    }
    TEXT("    }\n"
         "  }\n"
         "}\n"
         "\n");
  }
  TEXT("// The part of rows, and the ring, that number `index` of the block's has.\n"
       "__device__ __forceinline__ Share share_of(Deal deal, Place place, int index) {\n"
       "  const int number = place.rank * ROW_WARPS + index, begin = first_vector(deal, number);\n"
       "  const Share share = {begin");
  STRING(split ? " + 1" : "");
  TEXT(", first_vector(deal, number + 1) - begin");
  STRING(adds ? ", most_vectors(deal)" : "");
  TEXT("};\n"
       "  return share;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ Ring ring_of(uint32_t rings, uint32_t barriers, Deal deal, int index) {\n"
       "  const int each = most_vectors(deal) * ");
  STRING(adds ? "2 * 16" : "16");
  TEXT(";\n"
       "  const Ring ring = {rings + index * RING_BYTES, barriers + index * SLOTS * 8, each,\n"
       "                     min(RING_BYTES / each, SLOTS)};\n"
       "  return ring;\n"
       "}\n"
       "\n"
       "// Adds up parts of rows, as they arrive: those of rings from number `first` on.\n"
       "__device__ __forceinline__ void add_up_rows(Deal deal, Place place, int first, uint32_t rings,\n"
       "                                            uint32_t barriers, int rounds, RowSums *sums) {\n"
       "  Slot slot = {0, 0};\n"
       "  Count count[ADDED];\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < ADDED; ++i) {\n"
       "    const int number = place.rank * ROW_WARPS + first + i;\n"
       "    count[i] = count_of(deal, number, number + 1);\n"
       "  }\n"
       "#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < ADDED; ++i) {\n"
       "      const Ring ring = ring_of(rings, barriers, deal, first + i);\n"
       "      add_up(share_of(deal, place, first + i), count[i], &ring, slot, first + i,\n"
       "             &sums[round % TURNS]);\n"
       "    }\n"
       "    slot = next_slot(slot, ring_of(rings, barriers, deal, first).slots);\n"
       "  }\n"
       "}\n"
       "\n"
       "// Writes a warp's part of rows, when their moments are known.\n"
       "__device__ __forceinline__ void write_rows(const Args *args, Order order, Place place, Share share,\n"
       "                                           const Ring *ring, int rounds, RowSums *sums,\n"
       "                                           Sender *next) {\n"
       "  const int lane = threadIdx.x % 32;\n"
       "  uint32_t words[PARAMETERS][VECTORS][WORDS];\n");
  if (!split) {
    TEXT("  // Where there are more rows than places, the parameters come behind the first row.\n"
         "  if (rounds > ring->slots)\n"
         "    wait_for_phase(ring->barriers, 0);\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < PARAMETERS; ++i)\n"
       "    load_words(args, i, share, words[i]);\n");
  if (split) {
    TEXT("  uint32_t coming[PARAMETERS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < PARAMETERS; ++i)\n"
         "    coming[i] = load_coming(args, i, share);\n");
  }
  if (!split) {
    TEXT("  // And others one by one, as those before come: if all came at once all warps would have their\n"
         "  // part of the first row late, and its moments.\n"
         "#pragma unroll 1\n"
         "  for (int i = 0; next->sent < min(rounds, ring->slots); ++i) {\n"
         "    if (rounds > ring->slots)\n"
         "      wait_for_phase(ring->barriers + i * 8, 0);\n"
         "    send_rows(args, order, place, share, ring, next->sent + 1, next);\n"
         "  }\n");
  } else {
    TEXT("  send_rows(args, order, place, share, ring, min(rounds, ring->slots), next);\n");
  }
  TEXT("  Walk walk = first_row(args, order, place), next_walk = next->walk;\n"
       "  Slot slot = {0, 0};\n"
       "  int shift = 0; // where columns are by now in lanes' vectors\n"
       "#pragma unroll 1\n"
       "  for (int round = 0; round < rounds; ++round) {\n");
  if (split) {
    TEXT("#pragma unroll 1\n"
         "    for (; shift < shift_of(order, walk); ++shift) {\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < PARAMETERS; ++i)\n"
         "        move_words(__shfl_sync(0xffffffff, coming[i], shift), words[i]);\n"
         "    }\n");
  }
  TEXT("    const uint32_t place_of_row = place_of(ring, slot);\n"
       "    const Outputs to = {\n"
       "        (uint4 *)((unsigned char *)args->y + begin_of(args, walk, shift, args->y_row_stride)) +\n"
       "            share.begin + lane");
  STRING(adds ? "," : "};");
  TEXT("\n");
  if (adds) {
    TEXT("        (uint4 *)((unsigned char *)args->sum + begin_of(args, walk, shift, args->sum_row_stride)) +\n"
         "            share.begin + lane};\n");
  }
  TEXT("    // Hands over the row, of which some vectors are loaded while its moments are on their way.\n"
       "    wait_for_phase(ring->barriers + slot.index * 8, slot.parity);\n"
       "    uint4 x[LOADED];\n"
       "    load_own(place_of_row, share, 0, LOADED, x);\n"
       "    // Hands over the moments.\n"
       "    RowSums *const row = &sums[round % TURNS];\n"
       "    wait_for_phase(shared_address(&row->known), round / TURNS % 2);\n"
       "    const float2 moments = row->all;\n"
       "    write_part(share, place_of_row, x, to, moments, words);\n"
       "    // All lanes arrive and wait: they have read the row. Another takes its place.\n"
       "    __syncwarp();\n"
       "    if (round < rounds - ring->slots) {\n"
       "      if (lane == 0)\n"
       "        send_row(args, order, next_walk, share, ring, slot);\n"
       "      next_walk = next_row(args, order, place, next_walk);\n"
       "    }\n"
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
       "  __shared__ RowSums sums[TURNS];\n"
       "  __shared__ __align__(8) unsigned char warp_barriers[ROW_WARPS * SLOTS * 8];\n"
       "  __shared__ int own_turn;\n"
       "  // The same in all lanes, which the compiler does not see otherwise.\n"
       "  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0), lane = threadIdx.x % 32;\n"
       "  const int row_warp = warp % ROW_WARPS;\n"
       "  const int gangs = (int)min((int64_t)(gridDim.x / args.cluster), args.rows);\n"
       "  const Place place = {(int)blockIdx.x / args.cluster, gangs, (int)blockIdx.x % args.cluster,\n"
       "                       args.cluster};\n"
       "  // Rows of the gang; of blocks that are left, none.\n"
       "  const int rounds = place.gang < gangs ? ((int)args.rows - place.gang + gangs - 1) / gangs : 0;\n"
       "  if (threadIdx.x == 0) {\n"
       "    for (int i = 0; i < TURNS; ++i) {\n"
       "      mbarrier_init(shared_address(&sums[i].told), ROW_WARPS");
  STRING(split ? " + (place.rank == 0)" : "");
  TEXT(");\n"
       "      mbarrier_init(shared_address(&sums[i].known), 2); // who tells, and who hears\n"
       "    }\n"
       "  }\n"
       "  // To the compiler new values: it would make them anew wherever they are needed.\n"
       "  const uint32_t barriers = opaque(shared_address(warp_barriers));\n"
       "  const uint32_t rings = opaque(shared_address(smem));\n"
       "  if (warp < ROW_WARPS && lane < SLOTS)\n"
       "    mbarrier_init(barriers + (warp * SLOTS + lane) * 8, 1);\n"
       "  fence_mbarrier_init();\n"
       "  // All lanes arrive and wait: the warp's barriers are there.\n"
       "  __syncwarp();\n");
  if (split) {
    TEXT("  // All but the first that are whole, wherever a row begins in its first vector.\n"
         "  const int vectors = args.columns / ELEMENTS - 1;\n");
  } else {
    TEXT("  const int vectors = args.columns / ELEMENTS;\n");
  }
  TEXT("  const int warps = args.cluster * ROW_WARPS, units = (vectors + UNIT - 1) / UNIT;\n"
       "  const Deal deal = {units / warps, units % warps");
  STRING(split ? "" : ", vectors");
  TEXT("};\n"
       "  const Share share = share_of(deal, place, row_warp);\n"
       "  const Ring ring = ring_of(rings, barriers, deal, row_warp);\n"
       "  Memory *const memory = args.told ? (Memory *)args.told : &own_memory;\n"
       "  const Order order = order_of(&args);\n"
       "  Sender next = {};\n"
       "  if (rounds > 0)\n"
       "    next.walk = first_row(&args, order, place);\n"
       "  // A block of the next launch begins on an SM as this one's ends there, and waits.\n"
       "  griddepcontrol_launch_dependents();\n");
  if (!split) {
    TEXT("  if (warp < ROW_WARPS && rounds > ring.slots)\n"
         "    fetch_ahead(&args, order, place, share, next.walk);\n");
  }
  TEXT("  // All memory is touched after what ran before has ended.\n"
       "  griddepcontrol_wait();\n"
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
       "  }\n");
  if (rows == AP_LAYERNORM_ROWS_SPLIT) {
    TEXT("  if (warp >= ROW_WARPS + ADDERS)\n"
         "    decrease_registers(");
    INTEGER(other_registers);
    TEXT(");\n");
  }
  TEXT("  if (warp < ROW_WARPS) {\n");
  if (traded) {
    TEXT("    increase_registers(");
    INTEGER(row_registers);
    TEXT(");\n");
  }
  TEXT("    write_rows(&args, order, place, share, &ring, rounds, sums, &next);\n"
       "  } else if (warp < ROW_WARPS + ADDERS) {\n");
  if (traded) {
    TEXT("    decrease_registers(");
    INTEGER(other_registers);
    TEXT(");\n");
  }
  TEXT("    add_up_rows(deal, place, (warp - ROW_WARPS) * ADDED, rings, barriers, rounds, sums);\n"
       "  } else if (warp == ROW_WARPS + ADDERS) {\n"
       "    tell_rows(&args, told, deal, order, place, rounds, sums);\n"
       "  } else if (warp <= ROW_WARPS + ADDERS + MAKERS) {\n"
       "    const int index = warp - (ROW_WARPS + ADDERS + 1);\n"
       "    make_moments(&args, told, deal, order, place, index, rounds, sums);\n"
       "  }\n");
  if (split) {
    TEXT("  else if (warp == ROW_WARPS + ADDERS + MAKERS + 1 && place.rank == 0) {\n"
         "    write_ends(&args, order, place, rounds, sums);\n"
         "  }\n");
  }
  TEXT("}\n");
}
