/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_bulk.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_bulk(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_bulk(ap_text *out, const ap_render_input *in) {
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
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t ahead = in->field[AP_LAYERNORM_TILE_AHEAD];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  int32_t edged = (rows == AP_LAYERNORM_ROWS_RINGED) ? 1 : 0;
  int32_t cut = ((rows == AP_LAYERNORM_ROWS_CUT) || edged) ? 1 : 0;
  int32_t added = ((rows == AP_LAYERNORM_ROWS_SUMMED) || edged) ? 1 : 0;
  int32_t half = 0;
  int32_t few = (row_threads <= 32) ? 1 : 0;
  int32_t by_lanes = ((cut && ((row_threads == 16) || (row_threads == 32))) && (cols <= (((dtype != AP_LAYERNORM_DTYPE_FP32) ? 32 : 16) * row_threads))) ? 1 : 0;
  int32_t of_cluster = (row_threads > threads) ? 1 : 0;
  int32_t any_cluster = 0;
  int32_t edges = (dtype == AP_LAYERNORM_DTYPE_FP32) ? 3 : 7;
  int32_t wide = ((dtype != AP_LAYERNORM_DTYPE_FP32) && (cols <= ((few ? 24 : 32) * row_threads))) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    if (cut) {
      TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS - ");
      INTEGER(edges);
      TEXT(" columns,\n");
    } else {
      TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS columns,\n");
    }
    TEXT("// rstd = 1 / sqrt(variance + eps).\n");
  } else {
    if (cut) {
      TEXT("// y = x rstd weight + bias over the rows of a matrix of at most COLUMNS - ");
      INTEGER(edges);
      TEXT(" columns, rstd =\n");
    } else {
      TEXT("// y = x rstd weight + bias over the rows of a matrix of at most COLUMNS columns, rstd =\n");
    }
    TEXT("// 1 / sqrt(mean square + eps).\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. The copy engine brings rows to shared memory,\n"
       "// where each warp has a ring for its part of them.\n");
  if (edged) {
    TEXT("// Rows begin at any element of a vector, each at the same one in all matrices: with gaps, in place,\n"
         "// or with a residual: x is x + residual then, rounded, which is written, too. y and the sum may be\n"
         "// x or the residual. Whole vectors are brought by the copy engine, and what lies beside them by\n"
         "// elements, which come a row earlier than they are needed. A warp always meets rows that begin\n"
         "// alike. The sum takes the place of x; the residual has places of its own, which are free earlier.\n");
  } else if (cut) {
    TEXT("// Rows of x, and of y, lie one after the other, from a multiple of 16 bytes on; y is not x. A row is\n"
         "// brought in whole vectors, of which those at its ends hold elements of others, too. A warp always\n"
         "// meets rows that begin at the same element of a vector.\n");
  } else {
    TEXT("// Rows are whole vectors; y may be x.\n");
  }
  if (added && !edged) {
    TEXT("// x is x + residual, rounded, which is written, too: y and the sum may be x or the residual. The\n"
         "// sum takes the place of x; the residual has places of its own, which are free earlier.\n");
  }
  if (few) {
    TEXT("// ROW_THREADS lanes share a row, a warp has ROWS at a time. They are replaced by those of y, which ");
    STRING(by_lanes ? "lanes" : "the");
    TEXT("\n"
         "// ");
    STRING(by_lanes ? "take" : "copy engine takes");
    TEXT(" back.\n");
  } else {
    TEXT("// ROW_THREADS threads share a row. Its warps tell each other what they have of it; meanwhile they\n"
         "// add up the next one.\n");
  }
  TEXT("//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_bulk.cu.j2 with tile ");
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
       "#include \"attnpress/device/ptx_address.cuh\"\n");
  if (few) {
    TEXT("#include \"attnpress/device/ptx_bulk.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_bulk_copy.cuh\"\n");
  if (of_cluster) {
    TEXT("#include \"attnpress/device/ptx_cluster.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n");
  if (few || added) {
    TEXT("#include \"attnpress/device/ptx_tma.cuh\"\n");
  }
  TEXT("#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_span.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "typedef attnpress_layernorm_fwd_args Args;\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
  TEXT("; // bytes of an element\n"
       "constexpr int PARAMETER_SIZE = ");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("; // bytes of a parameter's element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCKS = ");
  INTEGER(blocks);
  TEXT("; // of an SM\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT(";        // of a warp\n");
  if (added) {
    TEXT("constexpr int BESIDE = ");
    INTEGER((ahead || (slots == 2)) ? (slots - 1) : (slots - 2));
    TEXT(";       // and of the residual\n");
  }
  TEXT("constexpr int PREFETCHED = ");
  INTEGER((slots < 4) ? slots : 4);
  TEXT(";   // of them, to the L2 cache at first\n"
       "constexpr int ELEMENTS = 16 / SIZE;      // of a vector\n"
       "constexpr int WARPS = THREADS / 32;\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n"
       "constexpr int ROWS = 32 / LANES;                           // of a warp at a time\n"
       "constexpr int ROW_WARPS = ROW_THREADS < 32 ? 1 : ROW_THREADS / 32;\n"
       "constexpr int CLUSTER = ROW_THREADS > THREADS ? ROW_THREADS / THREADS : 1; // blocks of a row\n"
       "constexpr int GROUPS = CLUSTER > 1 ? 1 : WARPS / ROW_WARPS;                // rows of a block\n"
       "constexpr int ROW_VECTORS = COLUMNS / ELEMENTS;                         // that a row has a part of\n"
       "constexpr int WARP_VECTORS = (ROW_VECTORS + ROW_WARPS - 1) / ROW_WARPS;      // of these, a warp's\n"
       "constexpr int VECTORS = (WARP_VECTORS + LANES - 1) / LANES;                  // of a thread in a row\n"
       "constexpr int FULL = VECTORS - 1; // of these, that every thread has: no row has fewer\n");
  if (wide) {
    TEXT("constexpr int WORDS = ELEMENTS; // of a vector's parameters, which are kept as fp32\n");
  } else {
    TEXT("constexpr int WORDS = ELEMENTS * PARAMETER_SIZE / 4; // of a vector's parameters\n");
  }
  TEXT("constexpr int PLACE_BYTES = ROWS * WARP_VECTORS * 16;\n");
  if (added) {
    TEXT("constexpr int RING_BYTES = ((SLOTS + BESIDE) * PLACE_BYTES + 127) / 128 * 128;\n");
  } else {
    TEXT("constexpr int RING_BYTES = (SLOTS * PLACE_BYTES + 127) / 128 * 128;\n");
  }
  TEXT("constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == WARPS * RING_BYTES, \"the generator has another formula\");\n"
       "static_assert(CLUSTER > 1 || WARPS % ROW_WARPS == 0, \"a block has whole rows\");\n"
       "static_assert(VECTORS > 1, \"the last vector of a row is of its last two of a thread\");\n"
       "\n"
       "// What a warp has of a row, or of each of its rows: vectors from number `begin` on. The row begins\n"
       "// `odd` elements after its first vector does.\n"
       "struct Part {\n"
       "  int odd, begin, vectors;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Part part_of(int columns, int odd, int row_warp) {\n"
       "  const int all = (columns + odd + ELEMENTS - 1) / ELEMENTS;\n"
       "  const int each = all / ROW_WARPS, more = all % ROW_WARPS;\n"
       "  const Part part = {odd, row_warp * each + min(row_warp, more), each + (row_warp < more)};\n"
       "  return part;\n"
       "}\n"
       "\n"
       "// The columns of it.\n"
       "__device__ __forceinline__ float count_columns_of(int columns, Part part) {\n"
       "  const int first = part.begin * ELEMENTS - part.odd, end = first + part.vectors * ELEMENTS;\n"
       "  return (float)(min(end, columns) - max(first, 0));\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ int64_t round_down(int64_t byte) {\n"
       "  return byte / 16 * 16;\n"
       "}\n"
       "\n");
  if (cut) {
    TEXT("// Sends a warp's part of its rows from `row` on, `bytes` that begin at `from`, to shared memory, of\n"
         "// several rows as one piece. By one lane.\n");
  } else {
    TEXT("// Sends a warp's part of its rows from `row` on, `bytes` of each, which begins at `from`, to shared\n"
         "// memory. By one lane.\n");
  }
  TEXT("__device__ __forceinline__ void send_part(const Args *args, int64_t row, const unsigned char *from,\n"
       "                                          int bytes, uint32_t place, uint32_t barrier) {\n");
  if (few && !cut) {
    TEXT("  const int rows = (int)min(args->rows - row, (int64_t)ROWS);\n"
         "  mbarrier_arrive_expect(barrier, rows * bytes);\n"
         "  if (args->x_row_stride == args->columns) {\n"
         "    bulk_load(place, from, rows * bytes, barrier);\n"
         "    return;\n"
         "  }\n"
         "#pragma unroll 1\n"
         "  for (int i = 0; i < rows; ++i)\n"
         "    bulk_load(place + i * bytes, from + i * args->x_row_stride * SIZE, bytes, barrier);\n");
  } else {
    TEXT("  mbarrier_arrive_expect(barrier, bytes);\n"
         "  bulk_load(place, from, bytes, barrier);\n");
  }
  TEXT("}\n"
       "\n");
  if (few) {
    if (cut) {
      TEXT("// Takes y of `rows` rows of a warp back to `to`, the first of which begins `odd` elements after\n");
      if (by_lanes) {
        TEXT("// `place` does: a lane their whole vectors that are its own of lines of 128 bytes, and an element of\n"
             "// what lies beside those. Called by all.\n");
      } else {
        TEXT("// `place` does: their whole vectors by the copy engine, and what lies beside those by lanes. Called\n"
             "// by all.\n");
      }
      TEXT("__device__ __forceinline__ void take_part(unsigned char *to, int columns, int rows, int odd,\n"
           "                                          unsigned char *place) {\n"
           "  const int lane = threadIdx.x % 32, end = odd + rows * columns;\n"
           "  const int at = lane < ELEMENTS ? lane : end / ELEMENTS * ELEMENTS + lane - ELEMENTS;\n"
           "  if ((lane < ELEMENTS && odd != 0 && lane >= odd) ||\n"
           "      (lane >= ELEMENTS && lane < 2 * ELEMENTS && at < end))\n"
           "    store_element(to, SIZE, at, load_element(place, SIZE, at));\n");
      if (by_lanes) {
        TEXT("  const int first = odd == 0 ? 0 : 1, own = lane - (int)((uint64_t)to / 16 % 8);\n"
             "#pragma unroll\n"
             "  for (int i = own; i < own + ROWS * ROW_VECTORS + 7; i += 32)\n"
             "    if (i >= first && i < end / ELEMENTS)\n"
             "      *(uint4 *)(to + i * 16) = *(const uint4 *)(place + i * 16);\n");
      } else {
        TEXT("  const int skipped = odd == 0 ? 0 : 16;\n"
             "  if (lane == 0)\n"
             "    bulk_store(to + skipped, shared_address(place) + skipped, end / ELEMENTS * 16 - skipped);\n");
      }
      TEXT("}\n");
    } else {
      TEXT("// Takes y of a warp's rows from `row` on back, of `bytes` each. By one lane.\n"
           "__device__ __forceinline__ void take_part(const Args *args, int64_t row, uint32_t place, int bytes) {\n"
           "  unsigned char *const to = (unsigned char *)args->y + row * args->y_row_stride * SIZE;\n"
           "  const int rows = (int)min(args->rows - row, (int64_t)ROWS);\n"
           "  if (args->y_row_stride == args->columns) {\n"
           "    bulk_store(to, place, rows * bytes);\n"
           "  } else {\n"
           "#pragma unroll 1\n"
           "    for (int i = 0; i < rows; ++i)\n"
           "      bulk_store(to + i * args->y_row_stride * SIZE, place + i * bytes, bytes);\n"
           "  }\n"
           "  bulk_commit();\n"
           "}\n");
    }
  }
  if (cut) {
    TEXT("// What the copy engine leaves at the matrix's end, of a warp's part of its last rows, from `row`\n"
         "// on.\n"
         "__device__ __forceinline__ void complete_part(const Args *args, int64_t row, Part part, int bytes,\n"
         "                                              unsigned char *place) {\n"
         "  const int64_t row_bytes = (int64_t)args->columns * SIZE, total = args->rows * row_bytes;\n"
         "  const int64_t begin = round_down(row * row_bytes) + part.begin * 16, sent = round_down(total);\n"
         "  if (begin + bytes <= sent || total == sent)\n"
         "    return;\n"
         "  const int64_t from = sent + threadIdx.x % 32 * SIZE;\n"
         "  if (threadIdx.x % 32 < ELEMENTS)\n"
         "    store_element(place + (from - begin), SIZE, 0,\n"
         "                  from < total ? load_element((const unsigned char *)args->x + from, SIZE, 0) : 0);\n"
         "  // All lanes arrive and wait: it is there.\n"
         "  __syncwarp();\n"
         "}\n"
         "\n");
  }
  if (cut) {
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
         "\n");
  }
  TEXT("// Of a thread's vectors: whether it has the last; of its first, the elements before the row; which\n"
       "// one the row ends in, and the elements of it that are the row's.\n"
       "struct Own {\n"
       "  bool more;\n"
       "  int head, last, end;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Own own_of(int columns, Part part, int lane) {\n"
       "  Own own = {part.vectors > lane + FULL * LANES, 0, -1, ELEMENTS};\n");
  if (cut) {
    TEXT("  // Elements from its first vector on.\n"
         "  const int left = columns + part.odd - (part.begin + lane) * ELEMENTS;\n"
         "  own.head = part.begin + lane == 0 ? part.odd : 0;\n"
         "  if (left % ELEMENTS != 0 && left / ELEMENTS % LANES == 0 &&\n"
         "      left / ELEMENTS / LANES < FULL + own.more) {\n"
         "    own.last = left / ELEMENTS / LANES;\n"
         "    own.end = left % ELEMENTS;\n"
         "  }\n");
  }
  TEXT("  return own;\n"
       "}\n"
       "\n"
       "// A thread's vectors; one that it has not has the words `filler`. x: (VECTORS)\n"
       "__device__ __forceinline__ void load_own(const unsigned char *from, Own own, uint32_t filler,\n"
       "                                         uint4 *x) {\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < FULL; ++i)\n"
       "    x[i] = *(const uint4 *)(from + i * LANES * 16);\n"
       "  const uint4 nothing = {filler, filler, filler, filler};\n"
       "  x[FULL] = nothing;\n"
       "  if (own.more)\n"
       "    x[FULL] = *(const uint4 *)(from + FULL * LANES * 16);\n"
       "}\n"
       "\n");
  if (cut) {
    TEXT("// And so have elements that are not the row's. masks: (ELEMENTS + 1), of mask_elements(), by how\n"
         "// many those are; x: (VECTORS)\n"
         "__device__ __forceinline__ void fill_edges(Own own, uint32_t filler, const uint4 *masks,\n"
         "                                           uint4 *x) {\n"
         "  const uint4 fill = {filler, filler, filler, filler};\n"
         "  x[0] = choose_bits(masks[own.head], fill, x[0]);\n"
         "#pragma unroll\n"
         "  for (int i = FULL - 1; i < VECTORS; ++i)\n"
         "    x[i] = choose_bits(masks[i == own.last ? own.end : ELEMENTS], x[i], fill);\n"
         "}\n"
         "\n");
  }
  if (cut) {
    TEXT("// The words of a parameter's elements from `column` on, as many as a vector of a row has; 0 unless\n"
         "// they are all there");
    STRING((params != AP_LAYERNORM_PARAMS_FP32) ? "" : ", or for each of fp32 that is not");
    TEXT(".\n"
         "__device__ __forceinline__ void load_whole_vector(const void *parameter, int columns, int column,\n"
         "                                                  uint32_t *word) {\n"
         "  const unsigned char *const from =\n"
         "      (const unsigned char *)parameter + (int64_t)column * PARAMETER_SIZE;\n");
    if (params == AP_LAYERNORM_PARAMS_FP32) {
      TEXT("#pragma unroll\n"
           "  for (int j = 0; j < ELEMENTS; ++j)\n"
           "    word[j] = load_4_if((uint32_t)(column + j) < (uint32_t)columns, from + j * 4, 0);\n");
    } else {
      TEXT("  load_halves(from, column >= 0 && column + ELEMENTS <= columns, ELEMENTS, word);\n");
    }
    TEXT("}\n"
         "\n");
    if (params != AP_LAYERNORM_PARAMS_FP32) {
      TEXT("// Those of a vector of which some are there, and 0 for others.\n"
           "__device__ __forceinline__ void load_end_vector(const void *parameter, int columns, int column,\n"
           "                                                uint32_t *word) {\n"
           "  if ((column >= 0 && column + ELEMENTS <= columns) || column >= columns)\n"
           "    return;\n"
           "#pragma unroll\n"
           "  for (int j = 0; j < ELEMENTS; ++j) {\n"
           "    const unsigned char *const from = (const unsigned char *)parameter + (int64_t)(column + j) * 2;\n"
           "    const uint32_t bits = load_2_if((uint32_t)(column + j) < (uint32_t)columns, from, 0);\n"
           "    word[j / 2] |= bits << j % 2 * 16;\n"
           "  }\n"
           "}\n"
           "\n");
    }
  }
  TEXT("// The words of a parameter of a thread's columns, of which the first vector begins with `column`;\n"
       "// `absent` where there is none. word: (VECTORS, WORDS)\n"
       "__device__ __forceinline__ void load_parameter(const void *parameter, int columns, int column,\n"
       "                                               float absent, uint32_t (*word)[WORDS]) {\n"
       "  if (!parameter) {\n"
       "    float filler[ELEMENTS];\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j)\n"
       "      filler[j] = absent;\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < VECTORS; ++i)\n"
       "      narrow_words_");
  STRING(wide ? "fp32" : in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(filler, ELEMENTS, word[i]);\n"
       "    return;\n"
       "  }\n");
  if (cut) {
    TEXT("  uint32_t loaded[VECTORS][ELEMENTS * PARAMETER_SIZE / 4];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i)\n"
         "    load_whole_vector(parameter, columns, column + i * LANES * ELEMENTS, loaded[i]);\n");
    if (params != AP_LAYERNORM_PARAMS_FP32) {
      TEXT("  // Those at the row's ends.\n"
           "  load_end_vector(parameter, columns, column, loaded[0]);\n"
           "#pragma unroll\n"
           "  for (int i = FULL == 1 ? FULL : FULL - 1; i < VECTORS; ++i)\n"
           "    load_end_vector(parameter, columns, column + i * LANES * ELEMENTS, loaded[i]);\n");
    }
    TEXT("#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n");
    if (wide) {
      TEXT("    float value[ELEMENTS];\n"
           "    widen_words_");
      STRING(in->word[AP_LAYERNORM_PARAMS]);
      TEXT("(loaded[i], ELEMENTS, value);\n"
           "    narrow_words_fp32(value, ELEMENTS, word[i]);\n");
    } else {
      TEXT("    renew_words(loaded[i], WORDS, word[i]);\n");
    }
    TEXT("  }\n");
  } else if (wide) {
    TEXT("  uint32_t narrow[VECTORS][ELEMENTS * PARAMETER_SIZE / 4];\n"
         "  load_parameter_vectors(parameter, PARAMETER_SIZE, columns, ELEMENTS, column / ELEMENTS, LANES,\n"
         "                         VECTORS, narrow[0]);\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(narrow[i], ELEMENTS, value);\n"
         "    narrow_words_fp32(value, ELEMENTS, word[i]);\n"
         "  }\n");
  } else {
    TEXT("  load_parameter_vectors(parameter, PARAMETER_SIZE, columns, ELEMENTS, column / ELEMENTS, LANES,\n"
         "                         VECTORS, word[0]);\n");
  }
  TEXT("}\n"
       "\n"
       "// Mean, or 0, and sum of squared differences to it of what LANES lanes have of a row, a lane's from\n"
       "// `from` on; `per_value` is 1 / their number. `first` is where the first of them is. x: (VECTORS), the\n"
       "// lane's, and the first value in place of what is no part of the row.\n"
       "__device__ __forceinline__ float2 add_up(const unsigned char *from, const unsigned char *first,\n"
       "                                         Own own, float per_value,\n");
  if (cut) {
    TEXT("                                         const uint4 *masks, bool edges,\n");
  }
  TEXT("                                         uint4 *x) {\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  // In one pass, about the first value: its squared difference to the mean is no more than so many\n"
         "  // times the variance as there are values.\n"
         "  const uint32_t bits = load_element(first, SIZE, 0);\n"
         "  const float about = widen_element_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(bits);\n"
         "  const uint32_t filler = ");
    STRING((dtype == AP_LAYERNORM_DTYPE_FP32) ? "bits" : "bits | bits << 16");
    TEXT(";\n"
         "  load_own(from, own, filler, x);\n");
    if (cut) {
      TEXT("  if (edges)\n"
           "    fill_edges(own, filler, masks, x);\n");
    }
    TEXT("  float2 sums = {0.0f, 0.0f};\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i], value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n"
         "      const float difference = value[j] - about;\n"
         "      sums.x += difference;\n"
         "      sums.y += difference * difference;\n"
         "    }\n"
         "  }\n"
         "  sums = sum_lanes_of_two(sums, LANES);\n"
         "  const float off = sums.x * per_value, left = sums.y - sums.x * off;\n"
         "  const float2 all = {about + off, left < 0.0f ? 0.0f : left}; // NaN stays\n");
  } else {
    TEXT("  load_own(from, own, 0, x);\n");
    if (cut) {
      TEXT("  if (edges)\n"
           "    fill_edges(own, 0, masks, x);\n");
    }
    TEXT("  float2 all = {0.0f, 0.0f};\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    float value[ELEMENTS];\n"
         "    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i], value);\n"
         "#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      all.y += value[j] * value[j];\n"
         "  }\n"
         "  all.y = sum_lanes(all.y, LANES);\n");
  }
  TEXT("  return all;\n"
       "}\n"
       "\n"
       "// y of a vector. weight, bias: (WORDS)\n"
       "__device__ __forceinline__ uint4 y_of(uint4 x, float mean, float rstd, const uint32_t *weight,\n"
       "                                      const uint32_t *bias) {\n"
       "  float value[ELEMENTS], factor[ELEMENTS], added[ELEMENTS];\n"
       "  widen_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(x, value);\n");
  if (wide) {
    TEXT("  widen_words_fp32(weight, ELEMENTS, factor);\n"
         "  widen_words_fp32(bias, ELEMENTS, added);\n");
  } else {
    TEXT("  uint32_t word[WORDS];\n"
         "  renew_words(weight, WORDS, word);\n"
         "  widen_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(word, ELEMENTS, factor);\n"
         "  renew_words(bias, WORDS, word);\n"
         "  widen_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(word, ELEMENTS, added);\n");
  }
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; ++j)\n"
         "    value[j] = (value[j] - mean) * rstd * factor[j] + added[j];\n");
  } else {
    TEXT("  // x^ by one instruction, of values that were rounded to 16 bits.\n"
         "  const float offset = -mean * rstd;\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; ++j)\n"
         "    value[j] = (value[j] * rstd + offset) * factor[j] + added[j];\n");
  }
  TEXT("  return narrow_vector_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value);\n"
       "}\n"
       "\n");
  if (cut && few) {
    TEXT("// Writes y of a row's vectors of a thread to their places, from `to` on. Where rows meet within a\n"
         "// vector it is written first by the row that ends there. Called by all lanes; who has no row has\n"
         "// `has` 0. masks: as above, x: (VECTORS), weight, bias: (VECTORS, WORDS)\n"
         "__device__ __forceinline__ void write_own(unsigned char *to, Own own, bool has, bool begins,\n"
         "                                          const uint4 *masks, const uint4 *x, float mean,\n"
         "                                          float rstd, const uint32_t (*weight)[WORDS],\n"
         "                                          const uint32_t (*bias)[WORDS]) {\n"
         "  const uint4 first = y_of(x[0], mean, rstd, weight[0], bias[0]);\n"
         "  if (has && !begins)\n"
         "    *(uint4 *)to = first;\n"
         "#pragma unroll\n"
         "  for (int i = 1; i < VECTORS; ++i) {\n"
         "    const uint4 y = y_of(x[i], mean, rstd, weight[i], bias[i]);\n"
         "    if (has && (i < FULL || own.more))\n"
         "      *(uint4 *)(to + i * LANES * 16) = y;\n"
         "  }\n"
         "  // All lanes arrive and wait: the ends of rows are there.\n"
         "  __syncwarp();\n"
         "  if (has && begins)\n"
         "    *(uint4 *)to = choose_bits(masks[own.head], *(const uint4 *)to, first);\n"
         "}\n"
         "\n");
  } else {
    if (cut) {
      TEXT("// Writes y of a row's vectors of a thread, from `to` on, and of those that hold elements of others\n"
           "// too, the row's first and last, to `ends`. x: (VECTORS), ends: (2), weight, bias: (VECTORS, WORDS)\n");
    } else {
      TEXT("// Writes y of a row's vectors of a thread, from `to` on. x: (VECTORS), weight, bias: (VECTORS, WORDS)\n");
    }
    TEXT("__device__ __forceinline__ void write_own(unsigned char *to,\n");
    if (cut) {
      TEXT("                                          uint4 *ends,\n");
    }
    TEXT("                                          Own own, const uint4 *x, float mean, float rstd,\n"
         "                                          const uint32_t (*weight)[WORDS],\n"
         "                                          const uint32_t (*bias)[WORDS]) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    if (i == FULL && !own.more)\n"
         "      return;\n"
         "    const uint4 y = y_of(x[i], mean, rstd, weight[i], bias[i]);\n"
         "    unsigned char *const vector = to + i * LANES * 16;\n");
    if (cut) {
      TEXT("    if (i == 0 && own.head != 0)\n"
           "      ends[0] = y;\n"
           "    else if (i >= FULL - 1 && i == own.last)\n"
           "      ends[1] = y;\n"
           "    else\n"
           "      *(uint4 *)vector = y;\n");
    } else {
      TEXT("    *(uint4 *)vector = y;\n");
    }
    TEXT("  }\n"
         "}\n"
         "\n");
  }
  if (added) {
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
         "\n"
         "\n");
    if (edged) {
      TEXT("// Puts x + residual, rounded, of a thread's vectors that are the row's alone in place of x, and\n"
           "// writes it to `sum`.\n");
    } else {
      TEXT("// Puts x + residual, rounded, of a thread's vectors in place of x, and writes it to `sum`.\n");
    }
    TEXT("__device__ __forceinline__ void add_residual(const unsigned char *residual, Own own,\n"
         "                                             unsigned char *x, unsigned char *sum) {\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    if (i == FULL && !own.more)\n"
         "      break;\n");
    if (edged) {
      TEXT("    if ((i == 0 && own.head != 0) || (i >= FULL - 1 && i == own.last))\n"
           "      continue;\n");
    }
    TEXT("    const int at = i * LANES * 16;\n"
         "    const uint4 all = add_vectors(*(const uint4 *)(x + at), *(const uint4 *)(residual + at));\n"
         "    *(uint4 *)(x + at) = all;\n"
         "    *(uint4 *)(sum + at) = all;\n"
         "  }\n"
         "  // The copy engine brings a later row to the place of what this thread has written.\n"
         "  fence_proxy_async();\n"
         "}\n");
    if (edged) {
      TEXT("// The element of row number `row` that is `at` bytes behind its begin; 0 unless `has`.\n"
           "__device__ __forceinline__ uint32_t load_edge(const void *matrix, int64_t stride, int64_t row,\n"
           "                                              bool has, int at) {\n"
           "  return load_");
      INTEGER((dtype == AP_LAYERNORM_DTYPE_FP32) ? 4 : 2);
      TEXT("_if(has, (const unsigned char *)matrix + row * stride * SIZE + at, 0);\n"
           "}\n"
           "\n"
           "// Puts element number `edge` of what the warp has of a row to its place: x, or x + residual,\n"
           "// rounded, which is written to `sum`, too.\n"
           "__device__ __forceinline__ void put_edge(bool adds, uint32_t x, uint32_t residual, int edge,\n"
           "                                         unsigned char *place, unsigned char *sum) {\n"
           "  if (adds) {\n"
           "    x = narrow_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(widen_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(x) + widen_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(residual))");
      STRING((dtype == AP_LAYERNORM_DTYPE_FP32) ? "" : " & 0xffff");
      TEXT(";\n"
           "    store_element(sum, SIZE, edge, x);\n"
           "  }\n"
           "  store_element(place, SIZE, edge, x);\n"
           "}\n");
    }
  }
  if (!few) {
    TEXT("constexpr int PART_LANES = ROW_WARPS <= 2    ? 2\n"
         "                           : ROW_WARPS <= 4  ? 4\n"
         "                           : ROW_WARPS <= 8  ? 8\n"
         "                           : ROW_WARPS <= 16 ? 16\n"
         "                                             : 32; // that add up what the warps have\n"
         "constexpr int PARTS = (ROW_WARPS + PART_LANES - 1) / PART_LANES; // a lane's of these\n"
         "\n");
    if (of_cluster) {
      TEXT("// What the warps of a row have of it, in each block's shared memory, and the barrier that awaits it.\n"
           "// Two rows have places in turn.\n");
    } else {
      TEXT("// What the warps of a row have of it, and the barrier that awaits it. Two rows have places in turn.\n");
    }
    TEXT("struct RowParts {\n"
         "  float2 warp[");
    STRING(any_cluster ? "CLUSTER_MAX * WARPS" : "ROW_WARPS");
    TEXT("];\n"
         "  uint64_t barrier;\n"
         "};\n"
         "\n");
    if (of_cluster) {
      if (any_cluster) {
        TEXT("// Begins to await what the `warps` of the next row of these have. By one thread.\n"
             "__device__ __forceinline__ void expect_parts(RowParts *parts, int warps) {\n"
             "  mbarrier_arrive_expect(shared_address(&parts->barrier), warps * (int)sizeof(float2));\n"
             "}\n");
      } else {
        TEXT("// Begins to await what the warps have of the next row of these. By one thread.\n"
             "__device__ __forceinline__ void expect_parts(RowParts *parts) {\n"
             "  mbarrier_arrive_expect(shared_address(&parts->barrier), ROW_WARPS * (int)sizeof(float2));\n"
             "}\n");
      }
      TEXT("// Makes the barriers, and begins to await the first two rows. Others see them behind the cluster's\n"
           "// barrier. parts: (2)\n"
           "__device__ __forceinline__ void init_parts(RowParts *parts");
      STRING(any_cluster ? ", int warps" : "");
      TEXT(") {\n"
           "  for (int i = 0; i < 2; ++i)\n"
           "    mbarrier_init(shared_address(&parts[i].barrier), 1);\n"
           "  fence_mbarrier_init();\n"
           "  for (int i = 0; i < 2; ++i)\n"
           "    expect_parts(&parts[i]");
      STRING(any_cluster ? ", warps" : "");
      TEXT(");\n"
           "}\n"
           "\n");
    } else {
      TEXT("// Makes the barriers. Others see them behind the block's. parts: (2)\n"
           "__device__ __forceinline__ void init_parts(RowParts *parts) {\n"
           "  for (int i = 0; i < 2; ++i)\n"
           "    mbarrier_init(shared_address(&parts[i].barrier), ROW_WARPS);\n"
           "}\n"
           "\n");
    }
    TEXT("// Tells all warps of a row what this one has of it. Whoever has been told so by all of them may\n"
         "// write over what they were told of the row before.\n"
         "__device__ __forceinline__ void tell(RowParts *parts, int row_warp, float2 own");
    STRING(any_cluster ? ", int cluster" : "");
    TEXT(") {\n"
         "  // All lanes arrive and wait: they have read that.\n"
         "  __syncwarp();\n");
    if (of_cluster) {
      TEXT("  const int to = threadIdx.x % 32;\n"
           "  if (to < ");
      STRING(any_cluster ? "cluster" : "CLUSTER");
      TEXT(")\n"
           "    send_8_cluster(cluster_address(shared_address(&parts->warp[row_warp]), to), own,\n"
           "                   cluster_address(shared_address(&parts->barrier), to));\n");
    } else {
      TEXT("  if (threadIdx.x % 32 == 0) {\n"
           "    parts->warp[row_warp] = own;\n"
           "    mbarrier_arrive(shared_address(&parts->barrier));\n"
           "  }\n");
    }
    TEXT("}\n"
         "\n"
         "// Waits until all warps have told what they have of a row.\n"
         "__device__ __forceinline__ void await_parts(const RowParts *parts, int parity) {\n"
         "  wait_for_phase(shared_address(&parts->barrier), parity);\n"
         "}\n");
  }
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n");
  if (added) {
    TEXT("  __shared__ __align__(8) unsigned char barriers[WARPS * (SLOTS + BESIDE) * 8];\n");
  } else {
    TEXT("  __shared__ __align__(8) unsigned char barriers[WARPS * SLOTS * 8];\n");
  }
  TEXT("  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, columns = args.columns;\n");
  if (few) {
    TEXT("  const int group = warp, thread = lane % LANES;\n"
         "  constexpr int row_warp = 0;\n");
  } else if (of_cluster) {
    TEXT("  constexpr int group = 0;\n"
         "  const int row_warp = blockIdx.x % CLUSTER * WARPS + warp, thread = lane;\n");
  } else {
    TEXT("  const int group = warp / ROW_WARPS, row_warp = warp % ROW_WARPS, thread = lane;\n");
  }
  TEXT("  // The rows of a warp, and how far apart it has others.\n"
       "  const int64_t step = (int64_t)(gridDim.x / CLUSTER) * GROUPS * ROWS;\n"
       "  const int64_t first_row = ((int64_t)(blockIdx.x / CLUSTER) * GROUPS + group) * ROWS;\n"
       "  // How often it has rows.\n"
       "  const int count = first_row < args.rows ? (int)((args.rows - first_row + step - 1) / step) : 0;\n");
  if (cut && few) {
    TEXT("  // The first of the warp's rows begins so many elements after its place does, and this lane's.\n"
         "  const int warp_odd = (int)(first_row * columns % ELEMENTS);\n"
         "  const int lane_odd = warp_odd + lane / LANES * columns;\n"
         "  const Part part = part_of(columns, lane_odd % ELEMENTS, row_warp);\n");
  } else if (edged) {
    TEXT("  const uint64_t first_byte = (uint64_t)args.x + (uint64_t)(first_row * args.x_row_stride * SIZE);\n"
         "  const Part part = part_of(columns, (int)(first_byte % 16) / SIZE, row_warp);\n"
         "  // Elements at the row's ends that are in vectors with what is not the row's, which lanes have one\n"
         "  // each: whether the warp has any, and where this lane's is in what the warp has.\n"
         "  const int end = columns + part.odd - part.begin * ELEMENTS; // of the row\n"
         "  const bool begins = part.begin == 0 && part.odd != 0;\n"
         "  const bool ends = end <= part.vectors * ELEMENTS && end % ELEMENTS != 0;\n"
         "  const bool edges = begins || ends;\n"
         "  const int edge = lane < ELEMENTS ? lane : end / ELEMENTS * ELEMENTS + lane - ELEMENTS;\n"
         "  const bool has_edge = (begins && lane < ELEMENTS && lane >= part.odd) ||\n"
         "                        (ends && lane >= ELEMENTS && lane < 2 * ELEMENTS && edge < end);\n"
         "  const int skipped = begins ? 16 : 0; // bytes that the copy engine leaves, before others\n");
  } else if (cut) {
    TEXT("  const Part part = part_of(columns, (int)(first_row * columns % ELEMENTS), row_warp);\n");
  } else {
    TEXT("  const Part part = part_of(columns, 0, row_warp);\n");
  }
  TEXT("  unsigned char *const ring = smem + warp * RING_BYTES;\n"
       "  const uint32_t places = shared_address(ring)");
  STRING(edged ? " + skipped" : "");
  TEXT(";\n");
  if (added) {
    TEXT("  const uint32_t barrier = shared_address(barriers) + warp * (SLOTS + BESIDE) * 8;\n"
         "  const uint32_t residual_barrier = barrier + SLOTS * 8;\n"
         "  unsigned char *const residual_ring = ring + SLOTS * PLACE_BYTES;\n"
         "  const uint32_t residual_places = places + SLOTS * PLACE_BYTES;\n");
  } else {
    TEXT("  const uint32_t barrier = shared_address(barriers) + warp * SLOTS * 8;\n");
  }
  TEXT("  if (lane == 0) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < SLOTS");
  STRING(added ? " + BESIDE" : "");
  TEXT("; ++i)\n"
       "      mbarrier_init(barrier + i * 8, 1);\n"
       "    fence_mbarrier_init();\n"
       "  }\n");
  if (cut) {
    TEXT("  __shared__ uint4 masks[ELEMENTS + 1];\n"
         "  if (threadIdx.x <= ELEMENTS)\n"
         "    masks[threadIdx.x] = mask_elements(threadIdx.x);\n");
    if (few || of_cluster) {
      TEXT("  // All threads arrive and wait: the masks are there.\n"
           "  __syncthreads();\n");
    }
  }
  if (!few) {
    TEXT("  __shared__ RowParts row_parts[GROUPS][2];\n"
         "  RowParts *const parts = row_parts[group];\n");
    if (of_cluster) {
      TEXT("  if (threadIdx.x == 0)\n"
           "    init_parts(parts);\n"
           "  // All threads of the cluster arrive; who reaches into another block's shared memory has waited.\n"
           "  cluster_arrive();\n");
    } else {
      TEXT("  if (row_warp == 0 && lane == 0)\n"
           "    init_parts(parts);\n"
           "  // All threads arrive and wait: the barriers are there.\n"
           "  __syncthreads();\n");
    }
  }
  TEXT("  // What the warp sends next, the bytes of it, and how far apart it has others.\n");
  if (cut && !edged) {
    TEXT("  const int64_t row_bytes = (int64_t)columns * SIZE, x_step = step * row_bytes;\n"
         "  const unsigned char *from =\n"
         "      (const unsigned char *)args.x + round_down(first_row * row_bytes) + part.begin * 16;\n");
    if (few) {
      TEXT("  const int bytes = (warp_odd + ROWS * columns + ELEMENTS - 1) / ELEMENTS * 16;\n");
    } else {
      TEXT("  const int bytes = part.vectors * 16;\n");
    }
    TEXT("  // Of its last rows, without the matrix's last vector, if it is none.\n"
         "  const int64_t sent = round_down(args.rows * row_bytes);\n"
         "  const int64_t last = round_down(first_row * row_bytes) + part.begin * 16 + (count - 1) * x_step;\n"
         "  const int last_bytes = sent - last < bytes ? (int)(sent - last) : bytes;\n");
  } else {
    TEXT("  const int64_t x_step = step * args.x_row_stride * SIZE;\n"
         "  const unsigned char *from =\n"
         "      (const unsigned char *)args.x + first_row * args.x_row_stride * SIZE + part.begin * 16;\n");
    if (edged) {
      TEXT("  from += skipped - part.odd * SIZE;\n"
           "  const int bytes = part.vectors * 16 - skipped - (ends ? 16 : 0);\n"
           "  const bool adds = args.residual != NULL;\n"
           "  const int slots = adds ? SLOTS : SLOTS + BESIDE; // of x, which has all places without a residual\n");
    } else {
      TEXT("  const int bytes = part.vectors * 16;\n");
    }
  }
  if (added) {
    TEXT("  const int64_t residual_step = step * args.residual_row_stride * SIZE;\n"
         "  const unsigned char *residual_from = (const unsigned char *)args.residual +\n"
         "                                       first_row * args.residual_row_stride * SIZE +\n"
         "                                       part.begin * 16;\n");
    if (edged) {
      TEXT("  residual_from += skipped - part.odd * SIZE;\n");
    }
  }
  TEXT("  // Brings the first rows to the L2 cache while what ran before still ends. Whatever that writes of\n"
       "  // them it writes there: nothing that is read later can be older.\n"
       "#pragma unroll 1\n"
       "  for (int i = 0; i < PREFETCHED; ++i) {\n"
       "    const int64_t left = args.rows - first_row - i * step;\n");
  if (few && !cut) {
    TEXT("    const int rows = args.x_row_stride == columns && left > ROWS ? ROWS : 1;\n");
  } else {
    TEXT("    constexpr int rows = 1;\n");
  }
  TEXT("    if (left ");
  STRING((cut && few) ? ">= ROWS" : "> 0");
  TEXT(")\n"
       "      prefetch_row(from + i * x_step, 1, rows * bytes, lane, 32);\n");
  if (added) {
    TEXT("    if (");
    STRING(edged ? "adds && " : "");
    TEXT("left > 0 && i < BESIDE)\n"
         "      prefetch_row(residual_from + i * residual_step, 1, bytes, lane, 32);\n");
  }
  TEXT("  }\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  // All lanes arrive and wait: the warp's barriers are there.\n"
       "  __syncwarp();\n"
       "  uint32_t weight[VECTORS][WORDS], bias[VECTORS][WORDS];\n"
       "  const int first_column = (part.begin + thread) * ELEMENTS - part.odd;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < SLOTS");
  STRING(edged ? " + BESIDE" : "");
  TEXT("; ++i) {\n"
       "    if (lane == 0 && i < count");
  STRING(edged ? " && i < slots" : "");
  TEXT(")\n");
  if (cut && !edged) {
    TEXT("      send_part(&args, first_row + i * step, from, i + 1 == count ? last_bytes : bytes,\n"
         "                places + i * PLACE_BYTES, barrier + i * 8);\n");
  } else {
    TEXT("      send_part(&args, first_row + i * step, from, bytes, places + i * PLACE_BYTES,\n"
         "                barrier + i * 8);\n");
  }
  if (edged) {
    TEXT("    if (i < slots)\n"
         "      from += x_step;\n");
  } else {
    TEXT("    from += x_step;\n");
  }
  if (added) {
    TEXT("    if (i < BESIDE) {\n"
         "      if (");
    STRING(edged ? "adds && " : "");
    TEXT("lane == 0 && i < count)\n"
         "        send_part(&args, first_row + i * step, residual_from, bytes,\n"
         "                  residual_places + i * PLACE_BYTES, residual_barrier + i * 8);\n"
         "      residual_from += residual_step;\n"
         "    }\n");
  }
  TEXT("    // The parameters come before the rows that follow the first.\n"
       "    if (i == 0) {\n"
       "      load_parameter(args.weight, columns, first_column, 1.0f, weight);\n"
       "      load_parameter(args.bias, columns, first_column, 0.0f, bias);\n"
       "    }\n"
       "  }\n"
       "  const Own own = own_of(columns, part, thread);\n"
       "  // In its place, the thread's first vector, and the first value of all lanes that have a row.\n");
  if (cut && few) {
    TEXT("  const int own_begin = lane_odd / ELEMENTS * 16 + thread * 16, first = lane_odd * SIZE;\n"
         "  constexpr bool edges = true;\n");
  } else {
    if (few) {
      TEXT("  const int row_begin = lane / LANES * columns * SIZE;\n");
    } else {
      TEXT("  constexpr int row_begin = 0;\n");
    }
    TEXT("  const int own_begin = row_begin + thread * 16;\n"
         "  const int first = row_begin + (part.begin == 0 ? part.odd * SIZE : 0);\n");
  }
  if (edged) {
    TEXT("  __shared__ uint4 warp_ends[WARPS][2];\n"
         "  // What is in a vector with an edge and not the row's stays 0.\n"
         "  if ((begins && lane < ELEMENTS) || (ends && lane >= ELEMENTS && lane < 2 * ELEMENTS)) {\n"
         "#pragma unroll\n"
         "    for (int i = 0; i < SLOTS + BESIDE; ++i)\n"
         "      store_element(ring + i * PLACE_BYTES, SIZE, edge, 0);\n"
         "  }\n"
         "  // Of the first row; later ones' come while the row before is taken.\n"
         "  const int edge_at = part.begin * 16 + (edge - part.odd) * SIZE; // bytes from the row's begin\n"
         "  uint32_t x_edge = load_edge(args.x, args.x_row_stride, first_row, has_edge && count > 0, edge_at);\n"
         "  uint32_t residual_edge = load_edge(args.residual, args.residual_row_stride, first_row,\n"
         "                                     adds && has_edge && count > 0, edge_at);\n");
  } else if (cut && !few) {
    TEXT("  // Elements at the row's ends that are in vectors with those of other rows, which lanes store one\n"
         "  // each: whether the warp has any, and where this lane's is in what the warp has.\n"
         "  __shared__ uint4 warp_ends[WARPS][2];\n"
         "  const int end = columns + part.odd - part.begin * ELEMENTS; // of the row\n"
         "  const bool begins = part.begin == 0 && part.odd != 0;\n"
         "  const bool ends = end <= part.vectors * ELEMENTS && end % ELEMENTS != 0;\n"
         "  const bool edges = begins || ends;\n"
         "  const int edge = lane < ELEMENTS ? lane : end / ELEMENTS * ELEMENTS + lane - ELEMENTS;\n"
         "  const bool has_edge = (begins && lane < ELEMENTS && lane >= part.odd) ||\n"
         "                        (ends && lane >= ELEMENTS && lane < 2 * ELEMENTS && edge < end);\n");
  }
  TEXT("  int slot = 0, phase = 0;\n");
  if (few) {
    TEXT("  int64_t row = first_row;\n");
    if (cut) {
      TEXT("  unsigned char *y = (unsigned char *)args.y + (first_row * columns - warp_odd) * SIZE;\n"
           "  const int64_t y_step = x_step;\n");
    }
    TEXT("#pragma unroll 1\n"
         "  for (int round = 0; round < count; ++round, row += step) {\n"
         "    const int here = slot;\n"
         "    unsigned char *const place = ring + here * PLACE_BYTES;\n"
         "    wait_for_phase(barrier + here * 8, phase);\n"
         "    slot = here + 1 == SLOTS ? 0 : here + 1;\n"
         "    phase ^= slot == 0;\n"
         "    // Lanes that have no row any more add up the first.\n"
         "    const bool has = row + lane / LANES < args.rows;\n"
         "    Own own_here = own;\n"
         "    own_here.more = own.more && has;\n"
         "    uint4 x[VECTORS];\n");
    if (cut) {
      TEXT("    if (round + 1 == count)\n"
           "      complete_part(&args, row, part, bytes, place);\n"
           "    const float2 all = add_up(place + (has ? own_begin : thread * 16), place + (has ? first : 0),\n"
           "                              own_here, args.per_column, masks, edges, x);\n");
    } else {
      TEXT("    const float2 all = add_up(place + (has ? own_begin : thread * 16), place + (has ? first : 0),\n"
           "                              own_here, args.per_column, x);\n");
    }
    TEXT("    renew_vectors(x, VECTORS);\n"
         "    const float rstd = reciprocal_sqrt_approx(all.y * args.per_column + args.eps);\n"
         "    // All lanes arrive and wait: they have read the rows.\n"
         "    __syncwarp();\n");
    if (cut) {
      TEXT("    write_own(place + own_begin, own_here, has, thread == 0, masks, x, all.x, rstd, weight, bias);\n");
    } else {
      TEXT("    if (has)\n"
           "      write_own(place + own_begin, own_here, x, all.x, rstd, weight, bias);\n");
    }
    TEXT("    if (thread == 0 && has) {\n"
         "      if (CENTERED && args.mean)\n"
         "        args.mean[row + lane / LANES] = all.x;\n"
         "      if (args.rstd)\n"
         "        args.rstd[row + lane / LANES] = rstd;\n"
         "    }\n"
         "    // The copy engine, which lane 0 asks, sees what all have written.\n"
         "    fence_proxy_async();\n"
         "    __syncwarp();\n");
    if (by_lanes) {
      TEXT("    take_part(y, columns, (int)min(args.rows - row, (int64_t)ROWS), warp_odd, place);\n"
           "    y += y_step;\n"
           "    // All lanes arrive and wait: they have taken the rows. Others take their place.\n"
           "    __syncwarp();\n"
           "    if (lane == 0 && round + SLOTS < count) {\n"
           "      send_part(&args, row + SLOTS * step, from, round + 1 + SLOTS == count ? last_bytes : bytes,\n"
           "                places + here * PLACE_BYTES, barrier + here * 8);\n"
           "      from += x_step;\n"
           "    }\n"
           "  }\n");
    } else {
      if (cut) {
        TEXT("    take_part(y, columns, (int)min(args.rows - row, (int64_t)ROWS), warp_odd, place);\n"
             "    y += y_step;\n"
             "    if (lane == 0) {\n"
             "      bulk_commit();\n");
      } else {
        TEXT("    if (lane == 0) {\n"
             "      take_part(&args, row, places + here * PLACE_BYTES, bytes);\n");
      }
      TEXT("      // What was taken back before has been read: later rows take its place.\n"
           "      bulk_wait_read(1);\n"
           "      const int before = here == 0 ? SLOTS - 1 : here - 1;\n"
           "      if (round > 0 && round + SLOTS - 1 < count) {\n");
      if (cut) {
        TEXT("        send_part(&args, row + (SLOTS - 1) * step, from,\n"
             "                  round + SLOTS == count ? last_bytes : bytes, places + before * PLACE_BYTES,\n"
             "                  barrier + before * 8);\n");
      } else {
        TEXT("        send_part(&args, row + (SLOTS - 1) * step, from, bytes, places + before * PLACE_BYTES,\n"
             "                  barrier + before * 8);\n");
      }
      TEXT("        from += x_step;\n"
           "      }\n"
           "    }\n"
           "  }\n"
           "  // Shared memory is there until the last rows have been taken.\n"
           "  if (lane == 0)\n"
           "    bulk_wait_read(0);\n");
    }
  } else {
    TEXT("  const float per_value = 1.0f / count_columns_of(columns, part); // of the warp's\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  // How many values those have whose moments this lane adds up.\n"
           "  float others[PARTS];\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < PARTS; ++i) {\n"
           "    const int other = i * PART_LANES + lane % PART_LANES;\n"
           "    const Part others_part = part_of(columns, part.odd, other);\n"
           "    others[i] = other < ROW_WARPS ? count_columns_of(columns, others_part) : 0.0f;\n"
           "  }\n");
    }
    TEXT("  const int64_t y_step = step * args.y_row_stride * SIZE;\n"
         "  unsigned char *y = (unsigned char *)args.y + (first_row * args.y_row_stride - part.odd) * SIZE +\n"
         "                     (part.begin + thread) * 16;\n");
    if (of_cluster) {
      TEXT("  // All threads of the cluster have arrived: every block has its barriers.\n"
           "  cluster_wait();\n");
    }
    if (added) {
      TEXT("  const int64_t sum_step = step * args.sum_row_stride * SIZE;\n");
      if (edged) {
        TEXT("  unsigned char *sum = (unsigned char *)args.sum +\n"
             "                       (first_row * args.sum_row_stride - part.odd) * SIZE +\n"
             "                       (part.begin + thread) * 16;\n");
      } else {
        TEXT("  unsigned char *sum = (unsigned char *)args.sum + first_row * args.sum_row_stride * SIZE +\n"
             "                       (part.begin + thread) * 16;\n");
      }
      TEXT("  int beside = 0, residual_phase = 0; // of the residual's places\n");
    }
    TEXT("  uint4 x[VECTORS];\n"
         "  float2 next_sums = {0.0f, 0.0f};\n"
         "  if (count > 0) {\n"
         "    wait_for_phase(barrier, 0);\n");
    if (added) {
      if (edged) {
        TEXT("    if (has_edge)\n"
             "      put_edge(adds, x_edge, residual_edge, edge, ring, sum - own_begin);\n"
             "    x_edge = load_edge(args.x, args.x_row_stride, first_row + step, has_edge && count > 1, edge_at);\n"
             "    if (adds) {\n"
             "      residual_edge = load_edge(args.residual, args.residual_row_stride, first_row + step,\n"
             "                                has_edge && count > 1, edge_at);\n"
             "      wait_for_phase(residual_barrier, 0);\n"
             "      add_residual(residual_ring + own_begin, own, ring + own_begin, sum);\n"
             "    }\n");
      } else {
        TEXT("    wait_for_phase(residual_barrier, 0);\n"
             "    add_residual(residual_ring + own_begin, own, ring + own_begin, sum);\n");
      }
      TEXT("    // All lanes arrive and wait: the sum is there. Another residual takes the place of this one.\n"
           "    __syncwarp();\n"
           "    if (");
      STRING(edged ? "adds && " : "");
      TEXT("lane == 0 && BESIDE < count)\n"
           "      send_part(&args, first_row + BESIDE * step, residual_from, bytes, residual_places,\n"
           "                residual_barrier);\n"
           "    residual_from += residual_step;\n"
           "    sum += sum_step;\n"
           "    beside = BESIDE == 1 ? 0 : 1;\n"
           "    residual_phase = BESIDE == 1;\n");
    }
    if (cut && !edged) {
      TEXT("    if (count == 1)\n"
           "      complete_part(&args, first_row, part, bytes, ring);\n");
    }
    if (cut) {
      TEXT("    next_sums = add_up(ring + own_begin, ring + first, own, per_value, masks, edges, x);\n");
    } else {
      TEXT("    next_sums = add_up(ring + own_begin, ring + first, own, per_value, x);\n");
    }
    TEXT("  }\n"
         "  tell(&parts[0], row_warp, next_sums);\n"
         "  int turn = 0, parity = 0; // parity: of the phase of parts[turn]\n"
         "  int64_t row = first_row;\n"
         "#pragma unroll 1\n"
         "  for (int round = 0; round < count; ++round, row += step) {\n"
         "    const int here = slot;\n"
         "    slot = slot + 1 == ");
    STRING(edged ? "slots" : "SLOTS");
    TEXT(" ? 0 : slot + 1;\n"
         "    phase ^= slot == 0;\n"
         "    // What the next row amounts to, while others arrive.\n"
         "    if (round + 1 < count) {\n"
         "      unsigned char *const place = ring + slot * PLACE_BYTES;\n"
         "      wait_for_phase(barrier + slot * 8, phase);\n");
    if (added) {
      if (edged) {
        TEXT("      if (has_edge)\n"
             "        put_edge(adds, x_edge, residual_edge, edge, place, sum - own_begin);\n"
             "      const bool more = has_edge && round + 2 < count;\n"
             "      x_edge = load_edge(args.x, args.x_row_stride, row + 2 * step, more, edge_at);\n"
             "      if (adds) {\n"
             "        residual_edge =\n"
             "            load_edge(args.residual, args.residual_row_stride, row + 2 * step, more, edge_at);\n"
             "        wait_for_phase(residual_barrier + beside * 8, residual_phase);\n"
             "        add_residual(residual_ring + beside * PLACE_BYTES + own_begin, own, place + own_begin, sum);\n"
             "      }\n");
      } else {
        TEXT("      wait_for_phase(residual_barrier + beside * 8, residual_phase);\n"
             "      add_residual(residual_ring + beside * PLACE_BYTES + own_begin, own, place + own_begin, sum);\n");
      }
      TEXT("      // All lanes arrive and wait: the sum is there. Another residual takes the place of this one.\n"
           "      __syncwarp();\n"
           "      if (");
      STRING(edged ? "adds && " : "");
      TEXT("lane == 0 && round + 1 + BESIDE < count)\n"
           "        send_part(&args, row + (1 + BESIDE) * step, residual_from, bytes,\n"
           "                  residual_places + beside * PLACE_BYTES, residual_barrier + beside * 8);\n"
           "      residual_from += residual_step;\n"
           "      sum += sum_step;\n"
           "      beside = beside + 1 == BESIDE ? 0 : beside + 1;\n"
           "      residual_phase ^= beside == 0;\n");
    }
    if (cut && !edged) {
      TEXT("      if (round + 2 == count)\n"
           "        complete_part(&args, row + step, part, bytes, place);\n");
    }
    if (cut) {
      TEXT("      next_sums = add_up(place + own_begin, place + first, own, per_value, masks, edges, x);\n");
    } else {
      TEXT("      next_sums = add_up(place + own_begin, place + first, own, per_value, x);\n");
    }
    TEXT("    }\n"
         "\n"
         "    // Hands over what all warps have of this row.\n"
         "    await_parts(&parts[turn], parity);\n");
    if (of_cluster) {
      TEXT("    if (threadIdx.x == 0)\n"
           "      expect_parts(&parts[turn]);\n");
    }
    TEXT("    const float2 *const told = parts[turn].warp;\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("    // About the first warp's mean, so that both sums come of one chain of shuffles.\n"
           "    const float about = told[0].x;\n"
           "    float2 sums = {0.0f, 0.0f};\n");
    } else {
      TEXT("    constexpr float mean = 0.0f;\n"
           "    float squares = 0.0f;\n");
    }
    TEXT("#pragma unroll\n"
         "    for (int i = 0; i < PARTS; ++i) {\n"
         "      const int other = i * PART_LANES + lane % PART_LANES;\n"
         "      if (ROW_WARPS % PART_LANES != 0 && other >= ROW_WARPS)\n"
         "        continue;\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("      const float difference = told[other].x - about, weighted = others[i] * difference;\n"
           "      sums.x += weighted;\n"
           "      sums.y += told[other].y + weighted * difference;\n");
    } else {
      TEXT("      squares += told[other].y;\n");
    }
    TEXT("    }\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("    sums = sum_lanes_of_two(sums, PART_LANES);\n"
           "    const float off = sums.x * args.per_column, mean = about + off;\n"
           "    const float left = sums.y - sums.x * off, squares = left < 0.0f ? 0.0f : left; // NaN stays\n");
    } else {
      TEXT("    squares = sum_lanes(squares, PART_LANES);\n");
    }
    TEXT("    const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n"
         "    parity ^= turn;\n"
         "    turn ^= 1;\n"
         "    tell(&parts[turn], row_warp, next_sums);\n"
         "\n"
         "    load_own(ring + here * PLACE_BYTES + own_begin, own, 0, x);\n");
    if (cut) {
      TEXT("    write_own(y, warp_ends[warp], own, x, mean, rstd, weight, bias);\n"
           "    if (edges) {\n"
           "      // All lanes arrive and wait: what is at the row's ends is there.\n"
           "      __syncwarp();\n"
           "      if (has_edge)\n"
           "        store_element(y - own_begin, SIZE, edge, load_element(warp_ends[warp], SIZE, lane));\n"
           "    }\n");
    } else {
      TEXT("    write_own(y, own, x, mean, rstd, weight, bias);\n");
    }
    TEXT("    y += y_step;\n"
         "    if (thread == 0 && row_warp == 0) {\n"
         "      if (CENTERED && args.mean)\n"
         "        args.mean[row] = mean;\n"
         "      if (args.rstd)\n"
         "        args.rstd[row] = rstd;\n"
         "    }\n"
         "    // All lanes arrive and wait: they have read the row. Another takes its place.\n"
         "    __syncwarp();\n"
         "    if (lane == 0 && round + ");
    STRING(edged ? "slots" : "SLOTS");
    TEXT(" < count) {\n");
    if (cut && !edged) {
      TEXT("      send_part(&args, row + SLOTS * step, from, round + 1 + SLOTS == count ? last_bytes : bytes,\n"
           "                places + here * PLACE_BYTES, barrier + here * 8);\n");
    } else {
      TEXT("      send_part(&args, row + ");
      STRING(edged ? "slots" : "SLOTS");
      TEXT(" * step, from, bytes, places + here * PLACE_BYTES,\n"
           "                barrier + here * 8);\n");
    }
    TEXT("      from += x_step;\n"
         "    }\n"
         "  }\n"
         "  // All warps have told what they have of the row after the last: nobody reaches into this block's\n"
         "  // shared memory any more.\n"
         "  await_parts(&parts[turn], parity);\n");
  }
  TEXT("}\n");
}
