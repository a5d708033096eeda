/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_packed.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_packed(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_packed(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t smem_bytes = in->smem_bytes;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  const int32_t slots = in->field[AP_LAYERNORM_TILE_SLOTS];
  const int32_t packed = in->field[AP_LAYERNORM_TILE_PACKED];
  const int32_t piece = in->field[AP_LAYERNORM_TILE_PIECE];
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS + EDGES columns, rstd =\n"
         "// 1 / sqrt(variance + eps).\n");
  } else {
    TEXT("// y = x rstd weight + bias over the rows of a matrix of at most COLUMNS + EDGES columns, rstd =\n"
         "// 1 / sqrt(mean square + eps).\n");
  }
  TEXT("// ");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT(", parameters ");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT(", fp32 inside. Rows of x and of y lie one after the other, from a multiple of\n"
       "// 16 bytes on; y is not x. The copy engine brings PIECE of them at a time to shared memory, in whole\n"
       "// vectors, where they are replaced by those of y, which it takes back. ROW_THREADS threads share a row,\n"
       "// word by word. A TEAM walks over pieces, gridDim.x * TEAMS apart, and always has rows that begin at the\n"
       "// same element of a word.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_packed.cu.j2 with tile ");
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
  TEXT(" --rows packed --arch ");
  INTEGER(arch);
  TEXT("\n"
       "\n"
       "#include \"attnpress/args/layernorm.h\"\n"
       "#include \"attnpress/device/lanes.cuh\"\n"
       "#include \"attnpress/device/pipeline.cuh\"\n"
       "#include \"attnpress/device/ptx_address.cuh\"\n"
       "#include \"attnpress/device/ptx_bulk.cuh\"\n"
       "#include \"attnpress/device/ptx_bulk_copy.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/ptx_mbarrier.cuh\"\n"
       "#include \"attnpress/device/ptx_tma.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
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
       "constexpr int PIECE = ");
  INTEGER(piece);
  TEXT("; // rows that are moved as one\n"
       "constexpr int SLOTS = ");
  INTEGER(slots);
  TEXT("; // pieces of a team in shared memory\n"
       "constexpr int TEAM = ");
  INTEGER(packed ? 32 : threads);
  TEXT("; // threads that share pieces\n"
       "constexpr int TEAMS = THREADS / TEAM;\n"
       "constexpr int GROUPS = TEAM / ROW_THREADS; // rows of a team at a time\n"
       "constexpr int ELEMENTS = 4 / SIZE; // of a word\n"
       "constexpr int PERIOD = 16 / SIZE; // elements of a vector, and rows that are whole vectors together\n"
       "constexpr int EDGES = SIZE == 2 ? PERIOD - 1 : 0;\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp that share a row\n"
       "// Of a thread in a row; where it begins within a word, it has one more.\n"
       "constexpr int WORDS =\n"
       "    ((COLUMNS + EDGES) / ELEMENTS + ELEMENTS - 1 + ROW_THREADS - 1) / ROW_THREADS;\n"
       "// Words of one parameter that belong to one of a row.\n"
       "constexpr int PARAMETER_WORDS = ELEMENTS * PARAMETER_SIZE > 4 ? ELEMENTS * PARAMETER_SIZE / 4 : 1;\n"
       "constexpr bool WHOLE = PIECE % PERIOD == 0; // pieces are whole vectors\n"
       "constexpr int PLACE_BYTES =\n"
       "    (PIECE * (COLUMNS + EDGES) * SIZE + (WHOLE ? 0 : 16) + 127) / 128 * 128;\n"
       "constexpr int SMEM_BYTES = ");
  INTEGER(smem_bytes);
  TEXT(";\n"
       "static_assert(SMEM_BYTES == TEAMS * SLOTS * PLACE_BYTES, \"the generator has another formula\");\n"
       "static_assert(PIECE % GROUPS == 0, \"a team has a piece's rows in whole rounds\");\n"
       "static_assert(SIZE == 4 || PIECE == 1, \"rows of a piece share no words\");\n"
       "\n"
       "// A thread's word number i is number i * WORD_STEP from its first on: neighbouring threads have neighbouring\n"
       "// words, and those of a warp that has several rows have neighbours themselves, as fewer of them then are\n"
       "// in the same bank.\n"
       "constexpr int WORD_STEP = ROW_THREADS < 32 ? 1 : ROW_THREADS;\n"
       "constexpr int FIRST_STEP = ROW_THREADS < 32 ? WORDS : 1;\n"
       "\n"
       "// Of a piece in global memory: its first byte, and the one behind its last.\n"
       "struct Span {\n"
       "  int64_t begin, end;\n"
       "};\n"
       "\n"
       "__device__ __forceinline__ Span span_of(const Args *args, int64_t piece) {\n"
       "  const int64_t row = piece * PIECE, left = args->rows - row;\n"
       "  const int64_t begin = row * args->columns * SIZE;\n"
       "  const Span span = {begin, begin + (left < PIECE ? left : PIECE) * args->columns * SIZE};\n"
       "  return span;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ int64_t round_down(int64_t byte) {\n"
       "  return byte / 16 * 16;\n"
       "}\n"
       "\n"
       "__device__ __forceinline__ int64_t round_up(int64_t byte) {\n"
       "  return round_down(byte + 15);\n"
       "}\n"
       "\n"
       "// Sends the whole vectors that a piece has a part of on their way, except that at the matrix's end,\n"
       "// if it is none.\n"
       "__device__ __forceinline__ void send_piece(const Args *args, int64_t pieces, int64_t piece,\n"
       "                                           uint32_t place, uint32_t barrier) {\n"
       "  if (piece >= pieces)\n"
       "    return;\n"
       "  const Span span = span_of(args, piece);\n"
       "  const int64_t begin = round_down(span.begin), all = round_down(args->rows * args->columns * SIZE);\n"
       "  const int64_t up = round_up(span.end), end = up < all ? up : all;\n"
       "  const int bytes = (int)(end - begin);\n"
       "  mbarrier_arrive_expect(barrier, bytes);\n"
       "  if (bytes > 0)\n"
       "    bulk_load(place, (const unsigned char *)args->x + begin, bytes, barrier);\n"
       "}\n"
       "\n"
       "// All threads of a team arrive and wait.\n"
       "__device__ __forceinline__ void meet() {\n");
  if (packed) {
    TEXT("  __syncwarp();\n");
  } else {
    TEXT("  __syncthreads();\n");
  }
  TEXT("}\n"
       "\n"
       "// What a thread has of a parameter, whose words begin `odd` elements before the row; where there is none,\n"
       "// `absent`. word: (WORDS, PARAMETER_WORDS)\n"
       "__device__ __forceinline__ void load_parameter(const void *parameter, int columns, int first,\n"
       "                                               int odd, float absent,\n"
       "                                               uint32_t (*word)[PARAMETER_WORDS]) {\n"
       "  const float filler[2] = {absent, absent};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < WORDS; ++i)\n");
  if (params == AP_LAYERNORM_PARAMS_FP32) {
    TEXT("    narrow_words_fp32(filler, PARAMETER_WORDS, word[i]);\n");
  } else {
    TEXT("    narrow_words_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(filler, 2, word[i]);\n");
  }
  TEXT("  if (!parameter)\n"
       "    return;\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < WORDS; ++i) {\n"
       "    uint32_t bits[2] = {0, 0};\n"
       "#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      const int column = (first + i * WORD_STEP) * ELEMENTS + j - odd;\n"
       "      const unsigned char *const from =\n"
       "          (const unsigned char *)parameter + (int64_t)column * PARAMETER_SIZE;\n"
       "      bits[j] = load_");
  INTEGER((params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2);
  TEXT("_if((uint32_t)column < (uint32_t)columns, from, 0);\n"
       "    }\n");
  if (params == AP_LAYERNORM_PARAMS_FP32) {
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n"
         "      word[i][j] = bits[j];\n");
  } else {
    TEXT("    word[i][0] = opaque(bits[0] | bits[1] << 16);\n");
  }
  TEXT("  }\n"
       "}\n"
       "\n"
       "extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  extern __shared__ __align__(1024) unsigned char smem[];\n"
       "  __shared__ __align__(8) unsigned char barriers[TEAMS * SLOTS * 8];\n"
       "  const int team = threadIdx.x / TEAM, thread = threadIdx.x % ROW_THREADS;\n"
       "  const int group = threadIdx.x % TEAM / ROW_THREADS;\n"
       "  const bool leads = threadIdx.x % TEAM == 0;\n"
       "  unsigned char *const ring = smem + team * SLOTS * PLACE_BYTES;\n"
       "  const uint32_t barrier = shared_address(barriers) + team * SLOTS * 8;\n"
       "  if (leads) {\n"
       "#pragma unroll\n"
       "    for (int i = 0; i < SLOTS; ++i)\n"
       "      mbarrier_init(barrier + i * 8, 1);\n"
       "    fence_mbarrier_init();\n"
       "  }\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n"
       "  const int64_t pieces = (args.rows + PIECE - 1) / PIECE, step = (int64_t)gridDim.x * TEAMS;\n"
       "  const int64_t first_piece = (int64_t)blockIdx.x * TEAMS + team;\n"
       "  if (leads) {\n"
       "#pragma unroll 1\n"
       "    for (int i = 0; i < SLOTS; ++i)\n"
       "      send_piece(&args, pieces, first_piece + i * step, shared_address(ring) + i * PLACE_BYTES,\n"
       "                 barrier + i * 8);\n"
       "  }\n"
       "  const int columns = args.columns, row_bytes = columns * SIZE;\n"
       "  const int64_t total = args.rows * row_bytes;\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("  constexpr int odd = 0;\n"
         "  constexpr bool cut = false;\n");
  } else {
    TEXT("  // Elements between the begin of a word and that of this thread's rows.\n"
         "  const int odd = (int)(first_piece * columns % ELEMENTS);\n"
         "  const bool cut = odd != 0 && thread == 0; // of whose first word the row has the second half\n");
  }
  TEXT("  const int first = thread * FIRST_STEP;\n"
       "  // How many of a thread's words the row has something of, and how many of these have a second half or, of\n"
       "  // fp32, are whole.\n"
       "  const int last_word = (columns + odd + ELEMENTS - 1) / ELEMENTS - first;\n"
       "  const int last_whole = (columns + odd) / ELEMENTS - first;\n"
       "  const int words_begun = (last_word + WORD_STEP - 1) / WORD_STEP;\n"
       "  const int words_whole = (last_whole + WORD_STEP - 1) / WORD_STEP;\n"
       "  uint32_t weight[WORDS][PARAMETER_WORDS], bias[WORDS][PARAMETER_WORDS];\n"
       "  load_parameter(args.weight, columns, first, odd, 1.0f, weight);\n"
       "  load_parameter(args.bias, columns, first, odd, 0.0f, bias);\n");
  if (row_threads > 32) {
    TEXT("  constexpr int ROW_WARPS = ROW_THREADS / 32;\n"
         "  const int other = threadIdx.x / ROW_THREADS * ROW_WARPS + threadIdx.x % ROW_WARPS;\n"
         "  int turn = 0; // in turn: one barrier a row is enough\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  __shared__ Moments warp_part[2][THREADS / 32];\n"
           "  // Of the warp's part of a row.\n"
           "  const float count = sum_lanes((float)(min(max(words_begun, 0), WORDS) - cut) +\n"
           "                                    (ELEMENTS - 1) * (float)min(max(words_whole, 0), WORDS),\n"
           "                                32);\n");
    } else {
      TEXT("  __shared__ float warp_squares[2][THREADS / 32];\n");
    }
  }
  TEXT("  // The barriers are there.\n"
       "  meet();\n"
       "\n"
       "  int slot = 0, parity = 0;\n"
       "  for (int64_t piece = first_piece; piece < pieces; piece += step) {\n"
       "    unsigned char *const place = ring + slot * PLACE_BYTES;\n"
       "    wait_for_phase(barrier + slot * 8, parity);\n"
       "    const Span span = span_of(&args, piece);\n"
       "    const int begin = (int)(span.begin - round_down(span.begin)); // in its place\n");
  if (piece > 1) {
    TEXT("    const int rows = (int)(args.rows - piece * PIECE < PIECE ? args.rows - piece * PIECE : PIECE);\n");
  }
  TEXT("    if (round_up(span.end) > total) {\n"
       "      // What the copy engine leaves at the matrix's end.\n"
       "      const int64_t from = round_down(total) + threadIdx.x % TEAM * SIZE;\n"
       "      if (threadIdx.x % TEAM < PERIOD)\n"
       "        store_element(place + (from - round_down(span.begin)), SIZE, 0,\n"
       "                      from < total ? load_element((const unsigned char *)args.x + from, SIZE, 0) : 0);\n"
       "      meet();\n"
       "    }\n"
       "#pragma unroll 1\n"
       "    for (int index = group; index < PIECE; index += GROUPS) {\n");
  if (piece == 1) {
    TEXT("      constexpr bool has = true;\n");
  } else {
    TEXT("      const bool has = index < rows;\n");
  }
  TEXT("      // From the word of its first element on, this thread's.\n"
       "      unsigned char *const own = place + (begin + index * row_bytes) / 4 * 4 + first * 4;\n"
       "      // Compared anew for each use: the answers are more than there are predicates.\n"
       "      int begun = (int)opaque(has ? words_begun : 0), whole = (int)opaque(words_whole);\n"
       "      uint32_t word[WORDS];\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < WORDS; ++i) {\n"
       "        word[i] = 0;\n"
       "        if (i < begun)\n"
       "          word[i] = *(const uint32_t *)(own + i * WORD_STEP * 4);\n");
  if (dtype != AP_LAYERNORM_DTYPE_FP32) {
    TEXT("        word[i] &= i < whole ? 0xffffffff : 0xffff;\n"
         "        if (i == 0 && cut)\n"
         "          word[i] &= 0xffff0000;\n");
  }
  TEXT("      }\n"
       "\n"
       "      // Mean and sum of squares: over the warp's part of the row, then over its warps.\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("      float sum = 0.0f;\n"
         "#pragma unroll\n"
         "      for (int i = 0; i < WORDS; ++i) {\n"
         "        float value[ELEMENTS];\n"
         "        widen_words_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(word + i, ELEMENTS, value);\n"
         "#pragma unroll\n"
         "        for (int j = 0; j < ELEMENTS; ++j)\n"
         "          sum += value[j];\n"
         "      }\n");
    if (row_threads > 32) {
      TEXT("      const float own_mean = sum_lanes(sum, 32) / fmaxf(count, 1.0f);\n");
    } else {
      TEXT("      const float own_mean = sum_lanes(sum, LANES) * args.per_column;\n");
    }
    TEXT("      renew_words(word, WORDS, word);\n"
         "      begun = (int)opaque((uint32_t)begun), whole = (int)opaque((uint32_t)whole);\n");
  } else {
    TEXT("      constexpr float own_mean = 0.0f;\n");
  }
  TEXT("      float squares = 0.0f;\n"
       "#pragma unroll\n"
       "      for (int i = 0; i < WORDS; ++i) {\n"
       "        float value[ELEMENTS];\n"
       "        widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(word + i, ELEMENTS, value);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j) {\n"
       "          // Values that are not there are 0, and so is their mean.\n"
       "          const bool there = (j == 0 ? i < begun : i < whole) && !(i == 0 && j == 0 && cut);\n"
       "          const float difference = value[j] - (there ? own_mean : 0.0f);\n"
       "          squares += difference * difference;\n"
       "        }\n"
       "      }\n"
       "      squares = sum_lanes(squares, LANES);\n");
  if (row_threads > 32) {
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("      if (threadIdx.x % 32 == 0) {\n"
           "        const Moments part = {count, own_mean, squares};\n"
           "        warp_part[turn][threadIdx.x / 32] = part;\n"
           "      }\n"
           "      // All threads arrive and wait: hands over the moments of the warps.\n"
           "      __syncthreads();\n"
           "      const Moments all = add_moments_of_lanes(warp_part[turn][other], ROW_WARPS);\n"
           "      const float mean = all.mean;\n"
           "      squares = all.squares;\n");
    } else {
      TEXT("      constexpr float mean = 0.0f;\n"
           "      if (threadIdx.x % 32 == 0)\n"
           "        warp_squares[turn][threadIdx.x / 32] = squares;\n"
           "      // All threads arrive and wait: hands over the sums of the warps.\n"
           "      __syncthreads();\n"
           "      squares = sum_lanes(warp_squares[turn][other], ROW_WARPS);\n");
    }
    TEXT("      turn ^= 1;\n");
  } else {
    TEXT("      const float mean = own_mean;\n");
  }
  TEXT("      renew_words(word, WORDS, word);\n"
       "      begun = (int)opaque((uint32_t)begun), whole = (int)opaque((uint32_t)whole);\n"
       "      const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n");
  if (dtype != AP_LAYERNORM_DTYPE_FP32) {
    TEXT("      // x^ by one instruction, of values that were rounded to 16 bits.\n"
         "      const float offset = -mean * rstd;\n");
  }
  TEXT("#pragma unroll\n"
       "      for (int i = 0; i < WORDS; ++i) {\n"
       "        float value[ELEMENTS], factor[ELEMENTS], added[ELEMENTS];\n"
       "        uint32_t parameter[PARAMETER_WORDS], y;\n"
       "        widen_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(word + i, ELEMENTS, value);\n"
       "        renew_words(weight[i], PARAMETER_WORDS, parameter);\n"
       "        widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(parameter, ELEMENTS, factor);\n"
       "        renew_words(bias[i], PARAMETER_WORDS, parameter);\n"
       "        widen_words_");
  STRING(in->word[AP_LAYERNORM_PARAMS]);
  TEXT("(parameter, ELEMENTS, added);\n"
       "#pragma unroll\n"
       "        for (int j = 0; j < ELEMENTS; ++j)\n");
  if (dtype == AP_LAYERNORM_DTYPE_FP32) {
    TEXT("          value[j] = (value[j] - mean) * rstd * factor[j] + added[j];\n");
  } else {
    TEXT("          value[j] = (value[j] * rstd + offset) * factor[j] + added[j];\n");
  }
  TEXT("        narrow_words_");
  STRING(in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value, ELEMENTS, &y);\n"
       "        unsigned char *const to = own + i * WORD_STEP * 4;\n"
       "        // Of a word of which the row has one half the other is taken back by nobody.\n"
       "        if (i < begun)\n"
       "          *(uint32_t *)to = y;\n"
       "      }\n"
       "      if (thread == 0 && has) {\n"
       "        const int64_t row = piece * PIECE + index;\n"
       "        if (CENTERED && args.mean)\n"
       "          args.mean[row] = mean;\n"
       "        if (args.rstd)\n"
       "          args.rstd[row] = rstd;\n"
       "      }\n"
       "    }\n"
       "    // The copy engine, which the leader asks, sees what all have written.\n"
       "    fence_proxy_async();\n"
       "    meet();\n"
       "    unsigned char *const y = (unsigned char *)args.y;\n"
       "    const int64_t middle = round_up(span.begin), end = round_down(span.end);\n"
       "    if (threadIdx.x % TEAM < 2 * PERIOD && (!WHOLE || end != span.end)) {\n"
       "      // Vectors that neighbours have a part of.\n"
       "      const bool at_end = threadIdx.x % TEAM >= PERIOD;\n"
       "      const int64_t at = (at_end ? end : span.begin) + threadIdx.x % PERIOD * SIZE;\n"
       "      if (at < span.end && (at_end ? at >= middle : at < middle))\n"
       "        store_element(y + at, SIZE, 0, load_element(place + (at - round_down(span.begin)), SIZE, 0));\n"
       "    }\n"
       "    if (leads) {\n"
       "      if (end > middle)\n"
       "        bulk_store(y + middle, shared_address(place) + (uint32_t)(middle - round_down(span.begin)),\n"
       "                   (int)(end - middle));\n"
       "      bulk_commit();\n"
       "      // What was taken back before has been read: a later piece takes its place.\n"
       "      bulk_wait_read(1);\n"
       "      const int before = slot == 0 ? SLOTS - 1 : slot - 1;\n"
       "      if (piece != first_piece)\n"
       "        send_piece(&args, pieces, piece + (SLOTS - 1) * step,\n"
       "                   shared_address(ring) + before * PLACE_BYTES, barrier + before * 8);\n"
       "    }\n"
       "    slot = slot + 1 == SLOTS ? 0 : slot + 1;\n"
       "    parity ^= slot == 0;\n"
       "  }\n"
       "  // Shared memory is there until the last pieces have been taken.\n"
       "  if (leads)\n"
       "    bulk_wait_read(0);\n"
       "}\n");
}
