/* Written by `python -m generator` from templates/layernorm/layernorm_fwd_direct.cu.j2; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"
#include "families.h"

#define TEXT(literal) ap_text_append(out, literal, sizeof(literal) - 1)
#define INTEGER(value) ap_text_append_int(out, value)
#define STRING(value) ap_text_append_string(out, value)

void ap_render_layernorm_fwd_direct(ap_text *out, const ap_render_input *in);

void ap_render_layernorm_fwd_direct(ap_text *out, const ap_render_input *in) {
  const char *const stem = in->stem;
  const char *const tile_name = in->tile_name;
  const int32_t threads = in->threads;
  const int32_t norm = in->axis[AP_LAYERNORM_NORM];
  const int32_t rows = in->axis[AP_LAYERNORM_ROWS];
  const int32_t cols = in->axis[AP_LAYERNORM_COLS];
  const int32_t dtype = in->axis[AP_LAYERNORM_DTYPE];
  const int32_t params = in->axis[AP_LAYERNORM_PARAMS];
  const int32_t arch = in->axis[AP_LAYERNORM_ARCH];
  const int32_t row_threads = in->field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int32_t blocks = in->field[AP_LAYERNORM_TILE_BLOCKS];
  int32_t fp32 = (dtype == AP_LAYERNORM_DTYPE_FP32) ? 1 : 0;
  int32_t size = fp32 ? 4 : 2;
  int32_t kept = (params == AP_LAYERNORM_PARAMS_FP32) ? 4 : 2;
  int32_t shifted = (rows == AP_LAYERNORM_ROWS_SHIFTED) ? 1 : 0;
  int32_t edged = ((rows == AP_LAYERNORM_ROWS_EDGED) || shifted) ? 1 : 0;
  int32_t half = (((params == AP_LAYERNORM_PARAMS_FP32) && !fp32) && (!edged || (cols <= 12288))) ? 1 : 0;
  int32_t wide = (((params == AP_LAYERNORM_PARAMS_FP32) && !fp32) && !half) ? 1 : 0;
  int32_t elements = (fp32 || half) ? 4 : 8;
  int32_t bytes = half ? 8 : 16;
  int32_t shared = (row_threads > 32) ? 1 : 0;
  int32_t several = (row_threads < 32) ? 1 : 0;
  int32_t of_each_lane = (row_threads <= 256) ? 1 : 0;
  TEXT("// ");
  STRING(stem);
  TEXT("\n"
       "//\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("// y = (x - mean) rstd weight + bias over the rows of a matrix of at most COLUMNS - ");
    INTEGER((edged && !fp32) ? 7 : (elements - 1));
    TEXT(" columns,\n"
         "// rstd = 1 / sqrt(variance + eps).\n");
  } else {
    TEXT("// y = x rstd weight over the rows of a matrix of at most COLUMNS - ");
    INTEGER((edged && !fp32) ? 7 : (elements - 1));
    TEXT(" columns, rstd =\n"
         "// 1 / sqrt(mean square + eps).\n");
  }
  if (shifted) {
    TEXT("// ");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT(", parameters ");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT(", fp32 inside. Rows begin at any element of a vector, elsewhere in y than\n"
         "// in x. A parameter that is there is so at a multiple of 16 bytes; without the weight there is no\n"
         "// bias.\n"
         "// ROW_THREADS threads read a row in whole vectors, and what lies beside these by elements. y goes\n"
         "// through shared memory, where it lies as in y's own vectors. Blocks\n"
         "// have rows in the order in which they begin: memory sees neighbouring\n");
  } else if (edged) {
    TEXT("// ");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT(", parameters ");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT(", fp32 inside. Rows begin at any element of a vector, each at the same\n"
         "// one in all matrices. With a residual x is x + residual, rounded, which is written, too; y and the\n"
         "// sum may be x or the residual. A parameter that is there is so at a multiple of 16 bytes; without\n"
         "// the weight there is no bias.\n"
         "// ROW_THREADS threads read a row in whole vectors, and what lies beside these by elements. Blocks\n"
         "// have rows in the order in which they begin: memory sees neighbouring\n");
  } else {
    TEXT("// ");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT(", parameters ");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT(", fp32 inside. Rows of x, and of y, lie one after the other, from\n"
         "// a multiple of 16 bytes on; y is not x. The parameters are there, at multiples of 16 bytes.\n"
         "// ROW_THREADS threads read a row in whole vectors, of which those at its ends hold elements of\n"
         "// others, too. Blocks have rows in the order in which they begin: memory sees neighbouring\n");
  }
  TEXT("// addresses. A row's parameters lie across the vectors that they are read in, which L1 has from the\n"
       "// rows before: there is a branch for each word of a vector in which a row may begin.\n"
       "//\n"
       "// Pressed from templates/layernorm/layernorm_fwd_direct.cu.j2 with tile ");
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
       "#include \"attnpress/device/ptx_global.cuh\"\n"
       "#include \"attnpress/device/ptx_griddepcontrol.cuh\"\n"
       "#include \"attnpress/device/ptx_math.cuh\"\n"
       "#include \"attnpress/device/row_norm.cuh\"\n"
       "#include \"attnpress/device/row_vector.cuh\"\n"
       "\n"
       "constexpr bool CENTERED = ");
  STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
  TEXT("; // the mean is taken off\n"
       "constexpr int COLUMNS = ");
  INTEGER(cols);
  TEXT(";\n"
       "constexpr int SIZE = ");
  INTEGER(size);
  TEXT("; // bytes of an element\n"
       "constexpr int THREADS = ");
  INTEGER(threads);
  TEXT(";\n"
       "constexpr int BLOCKS = ");
  INTEGER(blocks);
  TEXT("; // of an SM\n"
       "constexpr int ROW_THREADS = ");
  INTEGER(row_threads);
  TEXT(";\n"
       "constexpr int LANES = ROW_THREADS < 32 ? ROW_THREADS : 32; // of a warp, of a row\n"
       "constexpr int GROUPS = THREADS / ROW_THREADS;              // rows of a block\n");
  if (half) {
    TEXT("constexpr int ELEMENTS = ");
    INTEGER(elements);
    TEXT("; // of a vector, whose parameters are 16 bytes\n");
  } else {
    TEXT("constexpr int ELEMENTS = ");
    INTEGER(elements);
    TEXT(";                                // of a vector\n");
  }
  TEXT("constexpr int WARPS = THREADS / 32;\n"
       "constexpr int ROW_VECTORS = COLUMNS / ELEMENTS; // that a row has a part of\n"
       "constexpr int VECTORS = (ROW_VECTORS + ROW_THREADS - 1) / ROW_THREADS; // of a thread in a row\n"
       "// Of these, those that every thread has: the class below has four fifths of the columns, or more.\n");
  if (half && edged) {
    TEXT("// A row may have seven columns less than its class, nearly two vectors.\n"
         "constexpr int SURE = (ROW_VECTORS * 4 / 5 - 1) / ROW_THREADS;\n");
  } else {
    TEXT("constexpr int SURE = ROW_VECTORS * 4 / 5 / ROW_THREADS;\n");
  }
  TEXT("static_assert(SURE > 0, \"a row ends in a vector that a thread may not have, or in the one before\");\n");
  if (row_threads < 32) {
    TEXT("static_assert(WARPS % ELEMENTS == 0, \"rows of a warp begin at the same element of a vector\");\n");
  }
  if (shared) {
    TEXT("static_assert(GROUPS == 1, \"all warps of a block share a row\");\n");
  }
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("constexpr float FAR = 16.0f; // of the square of a mean, in variances\n");
  }
  TEXT("// A row begins `odd` elements after the first of its vectors does, and has `end` elements of the\n"
       "// last, all if it is 0.\n"
       "struct Cut {\n"
       "  int odd, vectors, end;\n"
       "};\n"
       "\n");
  if (half) {
    TEXT("typedef uint2 Vector;\n"
         "\n"
         "__device__ __forceinline__ void widen(Vector vector, float *value) {\n"
         "  const uint32_t word[2] = {vector.x, vector.y};\n"
         "  widen_words_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(word, ELEMENTS, value);\n"
         "}\n"
         "\n"
         "__device__ __forceinline__ Vector narrow(const float *value) {\n"
         "  const Vector vector = {pack_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[0], value[1]), pack_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(value[2], value[3])};\n"
         "  return vector;\n"
         "}\n"
         "\n"
         "// Of a vector the bits of its first `count` elements.\n"
         "__device__ __forceinline__ Vector mask_elements(int count) {\n"
         "  const Vector mask = {count > 1 ? 0xffffffff : count > 0 ? 0xffff : 0,\n"
         "                       count > 3 ? 0xffffffff : count > 2 ? 0xffff : 0};\n"
         "  return mask;\n"
         "}\n"
         "\n"
         "// A vector of the bits of `first` where `mask` has any, else of `other`.\n"
         "__device__ __forceinline__ Vector choose_bits(Vector mask, Vector first, Vector other) {\n"
         "  const Vector chosen = {(first.x & mask.x) | (other.x & ~mask.x),\n"
         "                         (first.y & mask.y) | (other.y & ~mask.y)};\n"
         "  return chosen;\n"
         "}\n"
         "\n");
    if (!edged) {
      TEXT("// The first `count` elements of a vector, and 0 for others.\n"
           "__device__ __forceinline__ Vector load_first_elements(const unsigned char *from, int count) {\n"
           "  uint32_t word[2];\n"
           "#pragma unroll\n"
           "  for (int i = 0; i < 2; ++i)\n"
           "    word[i] = load_2_if(2 * i < count, from + i * 4, 0) |\n"
           "              load_2_if(2 * i + 1 < count, from + i * 4 + 2, 0) << 16;\n"
           "  const Vector vector = {word[0], word[1]};\n"
           "  return vector;\n"
           "}\n"
           "\n");
    }
  } else {
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
    if (!edged) {
      TEXT("// The first `count` elements of a vector, and 0 for others.\n"
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
           "\n");
    }
  }
  TEXT("// Puts `filler` in place of elements of a thread's vectors that are others'. x: (VECTORS)\n"
       "__device__ __forceinline__ void fill_ends(Cut cut, int thread, uint32_t filler, ");
  STRING(half ? "Vector" : "uint4");
  TEXT(" *x) {\n"
       "  const ");
  STRING(half ? "Vector" : "uint4");
  TEXT(" fill = ");
  STRING(half ? "{filler, filler}" : "{filler, filler, filler, filler}");
  TEXT(";\n"
       "  if (thread == 0 && cut.odd != 0)\n"
       "    x[0] = choose_bits(mask_elements(cut.odd), fill, x[0]);\n"
       "#pragma unroll\n"
       "  for (int i = SURE - 1; i < VECTORS; ++i)\n"
       "    if (cut.end != 0 && thread + i * ROW_THREADS == cut.vectors - 1)\n"
       "      x[i] = choose_bits(mask_elements(cut.end), x[i], fill);\n"
       "}\n"
       "\n");
  if (shared) {
    TEXT("// Of a block, whose warps have `sums` each. told: (WARPS)\n"
         "__device__ __forceinline__ float2 sum_warps(float2 sums, float2 *told) {\n"
         "  if (threadIdx.x % 32 == 0)\n"
         "    told[threadIdx.x / 32] = sums;\n"
         "  // All threads arrive and wait: the warps have told what they have of the row.\n"
         "  __syncthreads();\n"
         "  float2 all = {0.0f, 0.0f};\n");
    if (of_each_lane) {
      TEXT("#pragma unroll\n"
           "  for (int i = 0; i < WARPS; ++i) {\n"
           "    all.x += told[i].x;\n"
           "    all.y += told[i].y;\n"
           "  }\n"
           "  return all;\n");
    } else {
      TEXT("  if (threadIdx.x % 32 < WARPS)\n"
           "    all = told[threadIdx.x % 32];\n"
           "  return sum_lanes_of_two(all, 32);\n");
    }
    TEXT("}\n");
  }
  TEXT("// Sums over a row of differences to `about`, and of their squares. told: (WARPS), x: (VECTORS)\n"
       "__device__ __forceinline__ float2 add_up(const ");
  STRING(half ? "Vector" : "uint4");
  TEXT(" *x, float about\n");
  if (shared) {
    TEXT("                                         , float2 *told\n");
  }
  TEXT(") {\n"
       "  float2 sums = {0.0f, 0.0f};\n"
       "#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    float value[ELEMENTS];\n");
  if (half) {
    TEXT("    widen(x[i], value);\n");
  } else {
    TEXT("    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(x[i], value);\n");
  }
  TEXT("#pragma unroll\n"
       "    for (int j = 0; j < ELEMENTS; ++j) {\n"
       "      const float difference = value[j] - about;\n"
       "      sums.x += difference;\n"
       "      sums.y += difference * difference;\n"
       "    }\n"
       "  }\n"
       "  sums = sum_lanes_of_two(sums, LANES);\n");
  if (shared) {
    TEXT("  sums = sum_warps(sums, told);\n");
  }
  TEXT("  return sums;\n"
       "}\n"
       "\n");
  if (wide) {
    TEXT("// The elements of a parameter, of fp32, that lie where vector number `index` of a row has its own,\n"
         "// `first` elements behind the first of a vector of these, or a vector more. tail: the parameter's\n"
         "// elements from `whole` vectors on, value: (ELEMENTS)\n"
         "__device__ __forceinline__ void take_parameter(const void *parameter, int index, bool inside,\n"
         "                                               int whole, const uint4 *tail, int odd, int first,\n"
         "                                               float *value) {\n"
         "  const int begin = 2 * index - (odd + 3) / 4; // of its own vectors, the first\n"
         "  const uint4 *const from = (const uint4 *)parameter + begin;\n"
         "  float all[3 * 4];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < (first == 0 ? 2 : 3); ++i) {\n"
         "    uint4 vector;\n"
         "    if (inside || (begin + i >= 0 && begin + i < whole))\n"
         "      vector = from[i];\n"
         "    else\n"
         "      vector = *tail;\n"
         "    widen_vector_fp32(vector, all + 4 * i);\n"
         "  }\n"
         "#pragma unroll\n"
         "  for (int j = 0; j < ELEMENTS; ++j)\n"
         "    value[j] = all[(4 - first) % 4 + j];\n"
         "}\n"
         "\n");
  } else {
    TEXT("// Of two words, one after the other, the one that begins `bits` later than the first.\n"
         "__device__ __forceinline__ uint32_t word_across(uint32_t first, uint32_t second, int bits) {\n"
         "  return (uint32_t)(((uint64_t)second << 32 | first) >> bits);\n"
         "}\n"
         "// The vector that begins `bits` later than the first of five words.\n"
         "__device__ __forceinline__ uint4 words_across(const uint32_t *from, int bits) {\n"
         "  const uint4 across = {word_across(from[0], from[1], bits), word_across(from[1], from[2], bits),\n"
         "                        word_across(from[2], from[3], bits), word_across(from[3], from[4], bits)};\n"
         "  return across;\n"
         "}\n"
         "// The elements of a parameter that lie where a vector of a row has its own: in `vector`, and before\n");
    if (fp32 || half) {
      TEXT("// it. The row begins at word `first` of a vector; bits: 32. value: (ELEMENTS)\n");
    } else {
      TEXT("// it. The row begins at word `first` of a vector, and at the second element of that if `bits` is\n"
           "// 16, else 32. value: (ELEMENTS)\n");
    }
    TEXT("__device__ __forceinline__ void widen_across(uint4 before, uint4 vector, int first, int bits,\n"
         "                                             float *value) {\n"
         "  const uint32_t word[8] = {before.x, before.y, before.z, before.w,\n"
         "                            vector.x, vector.y, vector.z, vector.w};\n"
         "  widen_vector_");
    STRING(in->word[AP_LAYERNORM_PARAMS]);
    TEXT("(words_across(word + 3 - first, bits), value);\n"
         "}\n"
         "\n"
         "// Those of vector number `index` of a row. tail: the parameter's elements from `whole` vectors on\n"
         "__device__ __forceinline__ void take_parameter(const void *parameter, int index, bool inside,\n"
         "                                               int whole, const uint4 *tail, int first,\n"
         "                                               int bits, float *value) {\n"
         "  const uint4 *const from = (const uint4 *)parameter + index;\n"
         "  uint4 before, vector;\n"
         "  if (inside || (index > 0 && index <= whole))\n"
         "    before = from[-1];\n"
         "  else\n"
         "    before = *tail;\n"
         "  if (inside || index < whole)\n"
         "    vector = *from;\n"
         "  else\n"
         "    vector = *tail;\n"
         "  widen_across(before, vector, first, bits, value);\n"
         "}\n"
         "\n");
  }
  if (shifted) {
    TEXT("// Puts a vector to shared memory, at any element: as many whole words as it may.\n");
    if (half) {
      TEXT("__device__ __forceinline__ void put_vector(unsigned char *to, Vector vector) {\n"
           "  const uint32_t at = (uint32_t)(uint64_t)to;\n"
           "  if (at % 8 == 0) {\n"
           "    *(Vector *)to = vector;\n"
           "  } else if (at % 4 == 0) {\n"
           "    ((uint32_t *)to)[0] = vector.x;\n"
           "    ((uint32_t *)to)[1] = vector.y;\n"
           "  } else {\n"
           "    ((uint16_t *)to)[0] = (uint16_t)vector.x;\n"
           "    *(uint32_t *)(to + 2) = (uint32_t)(((uint64_t)vector.y << 32 | vector.x) >> 16);\n"
           "    ((uint16_t *)to)[3] = (uint16_t)(vector.y >> 16);\n"
           "  }\n"
           "}\n");
    } else {
      TEXT("__device__ __forceinline__ void put_vector(unsigned char *to, uint4 vector) {\n"
           "  const uint32_t at = (uint32_t)(uint64_t)to;\n"
           "  if (at % 16 == 0) {\n"
           "    *(uint4 *)to = vector;\n");
      if (fp32) {
        TEXT("  } else {\n");
      } else {
        TEXT("  } else if (at % 4 == 0) {\n");
      }
      TEXT("    ((uint32_t *)to)[0] = vector.x;\n"
           "    ((uint32_t *)to)[1] = vector.y;\n"
           "    ((uint32_t *)to)[2] = vector.z;\n"
           "    ((uint32_t *)to)[3] = vector.w;\n");
      if (!fp32) {
        TEXT("  } else {\n"
             "    ((uint16_t *)to)[0] = (uint16_t)vector.x;\n"
             "    *(uint32_t *)(to + 2) = (uint32_t)(((uint64_t)vector.y << 32 | vector.x) >> 16);\n"
             "    *(uint32_t *)(to + 6) = (uint32_t)(((uint64_t)vector.z << 32 | vector.y) >> 16);\n"
             "    *(uint32_t *)(to + 10) = (uint32_t)(((uint64_t)vector.w << 32 | vector.z) >> 16);\n"
             "    ((uint16_t *)to)[7] = (uint16_t)(vector.w >> 16);\n");
      }
      TEXT("  }\n"
           "}\n");
    }
  }
  if (wide) {
    TEXT("// Writes y of a row that begins at element `first` of a vector of parameters, or a vector more,\n"
         "// from `to` on, the thread's vectors of it; those that hold elements of others, too, to `ends`.\n"
         "// `nothing` is 0, which the compiler does not know: what was made of a row for its sums is not\n"
         "// kept. tails: (2), of weight and bias, ends: (2), x: (VECTORS)\n");
  } else if (half) {
    TEXT("// Writes y of a row that begins at element `first` of a vector, from `to` on, the thread's vectors\n"
         "// of it; those that hold elements of others, too, to `ends`. `nothing` is 0, which the compiler\n"
         "// does not know: what was made of a row for its sums is not kept. tails: (2), of weight and bias,\n"
         "// ends: (2), x: (VECTORS)\n");
  } else {
    TEXT("// Writes y of a row that begins at word `first` of a vector, from `to` on, the thread's vectors of\n"
         "// it; those that hold elements of others, too, to `ends`. `nothing` is 0, which the compiler does\n"
         "// not know: what was made of a row for its sums is not kept. tails: (2), of weight and bias, ends:\n"
         "// (2), x: (VECTORS)\n");
  }
  if (shifted) {
    TEXT("// All of it goes to shared memory: `ends` is not used.\n");
  }
  if (edged) {
    TEXT("// WEIGHTED, BIASED: that parameter is there.\n"
         "template <bool WEIGHTED, bool BIASED>\n");
  }
  TEXT("__device__ __forceinline__ void write_row(const attnpress_layernorm_fwd_args *args, int first,\n"
       "                                          Cut cut, int thread, float mean, float rstd,\n"
       "                                          uint32_t nothing, const uint4 *tails, const ");
  STRING(half ? "Vector" : "uint4");
  TEXT(" *x,\n"
       "                                          ");
  STRING(half ? "Vector" : "uint4");
  TEXT(" *ends, unsigned char *to) {\n"
       "  const int whole = args->columns / ");
  STRING(wide ? "4" : "ELEMENTS");
  TEXT(";\n");
  if (fp32 || half) {
    TEXT("  constexpr int bits = 32;\n");
  } else if (!wide) {
    TEXT("  const int bits = cut.odd % 2 != 0 ? 16 : 32;\n");
  }
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  const float offset = -mean * rstd;\n");
  }
  TEXT("#pragma unroll\n"
       "  for (int i = 0; i < VECTORS; ++i) {\n"
       "    const int at = thread + i * ROW_THREADS;\n"
       "    if (i >= SURE && at >= cut.vectors)\n"
       "      return;\n");
  if (half) {
    TEXT("    const Vector same = {x[i].x ^ nothing, x[i].y ^ nothing};\n");
  } else {
    TEXT("    const uint4 same = {x[i].x ^ nothing, x[i].y ^ nothing, x[i].z ^ nothing, x[i].w ^ nothing};\n");
  }
  TEXT("    const bool inside = i > 0 && i < SURE - 1;\n"
       "    float value[ELEMENTS], factor[ELEMENTS];\n");
  if (half) {
    TEXT("    widen(same, value);\n");
  } else {
    TEXT("    widen_vector_");
    STRING(in->word[AP_LAYERNORM_DTYPE]);
    TEXT("(same, value);\n");
  }
  if (edged) {
    TEXT("    if (WEIGHTED)\n"
         "      take_parameter(args->weight, at, inside, whole, tails, ");
    STRING(wide ? "cut.odd, first" : "first, bits");
    TEXT(", factor);\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("    float added[ELEMENTS];\n"
           "    if (BIASED)\n"
           "      take_parameter(args->bias, at, inside, whole, tails + 1, ");
      STRING(wide ? "cut.odd, first" : "first, bits");
      TEXT(",\n"
           "                     added);\n");
    }
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j) {\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("      value[j] = value[j] * rstd + offset;\n"
           "      if (WEIGHTED)\n"
           "        value[j] *= factor[j];\n"
           "      if (BIASED)\n"
           "        value[j] += added[j];\n");
    } else {
      TEXT("      value[j] *= rstd;\n"
           "      if (WEIGHTED)\n"
           "        value[j] *= factor[j];\n");
    }
    TEXT("    }\n");
  } else {
    TEXT("    take_parameter(args->weight, at, inside, whole, tails, first, bits, factor);\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("    float added[ELEMENTS];\n"
           "    take_parameter(args->bias, at, inside, whole, tails + 1, first, bits, added);\n");
    }
    TEXT("#pragma unroll\n"
         "    for (int j = 0; j < ELEMENTS; ++j)\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("      value[j] = (value[j] * rstd + offset) * factor[j] + added[j];\n");
    } else {
      TEXT("      value[j] = value[j] * rstd * factor[j];\n");
    }
  }
  TEXT("    const ");
  STRING(half ? "Vector" : "uint4");
  TEXT(" y = narrow");
  STRING(half ? "" : "_vector_");
  STRING(half ? "" : in->word[AP_LAYERNORM_DTYPE]);
  TEXT("(value);\n");
  if (shifted) {
    TEXT("    put_vector(to + at * ");
    INTEGER(bytes);
    TEXT(", y);\n");
  } else {
    TEXT("    if (i == 0 && thread == 0 && cut.odd != 0)\n"
         "      ends[0] = y;\n"
         "    else if (i >= SURE - 1 && cut.end != 0 && at == cut.vectors - 1)\n"
         "      ends[1] = y;\n"
         "    else\n"
         "      *(");
    STRING(half ? "Vector" : "uint4");
    TEXT(" *)(to + at * ");
    INTEGER(bytes);
    TEXT(") = y;\n");
  }
  TEXT("  }\n"
       "}\n"
       "\n");
  if (edged && !shifted) {
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
  TEXT("extern \"C\" __global__ void __launch_bounds__(THREADS, BLOCKS)\n"
       "    ");
  STRING(stem);
  TEXT("(\n"
       "        const __grid_constant__ attnpress_layernorm_fwd_args args) {\n"
       "  __shared__ ");
  STRING(half ? "Vector" : "uint4");
  TEXT(" row_ends[GROUPS][2];\n"
       "  __shared__ uint4 warp_tails[WARPS][2];\n");
  if (shifted) {
    TEXT("  // y, and a vector before and two behind, which hold nothing.\n"
         "  __shared__ __align__(16) unsigned char stages[GROUPS][COLUMNS * SIZE + 3 * 16];\n");
  }
  if ((norm == AP_LAYERNORM_NORM_LAYER) && shared) {
    TEXT("  __shared__ float2 told[2][WARPS]; // of either pass\n");
  } else if (shared) {
    TEXT("  __shared__ float2 told[1][WARPS];\n");
  }
  TEXT("  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, columns = args.columns;\n");
  if (shared) {
    TEXT("  const int group = 0, thread = threadIdx.x;\n");
    if (!edged) {
      TEXT("  const uint32_t warp_row = blockIdx.x;\n");
    }
  } else {
    TEXT("  const int group = lane / LANES * WARPS + warp, thread = lane % LANES;\n");
    if (!edged) {
      TEXT("  // Begins at the same element of a vector as the thread's row.\n"
           "  const uint32_t warp_row = blockIdx.x * GROUPS + warp;\n");
    }
  }
  TEXT("  const int64_t row = (int64_t)blockIdx.x * GROUPS + group;\n"
       "  ");
  STRING(half ? "Vector" : "uint4");
  TEXT(" *const ends = row_ends[group];\n");
  if (edged) {
    TEXT("  const int64_t x_begin = row * args.x_row_stride * SIZE;\n"
         "  const int odd = (int)(((uint64_t)args.x + (uint64_t)x_begin) % ");
    INTEGER(bytes);
    TEXT(") / SIZE;\n");
  } else {
    TEXT("  const int odd = (int)(warp_row * (uint32_t)columns % ELEMENTS);\n");
  }
  TEXT("  const Cut cut = {odd, (odd + columns + ELEMENTS - 1) / ELEMENTS, (odd + columns) % ELEMENTS};\n"
       "  // All memory is touched after what ran before has ended; what comes next may begin to wait too.\n"
       "  griddepcontrol_wait();\n"
       "  griddepcontrol_launch_dependents();\n");
  if (edged) {
    TEXT("  const unsigned char *const from = (const unsigned char *)args.x + x_begin - odd * SIZE;\n");
    if (several) {
      TEXT("  const bool has = row < args.rows;\n"
           "  // Vectors that are the row's alone.\n"
           "  const int least = odd != 0, most = has ? cut.vectors - (cut.end != 0) : 0;\n");
    } else {
      TEXT("  if (row >= args.rows)\n"
           "    return;\n"
           "  // Vectors that are the row's alone.\n"
           "  const int least = odd != 0, most = cut.vectors - (cut.end != 0);\n");
    }
    TEXT("  ");
    STRING(half ? "Vector" : "uint4");
    TEXT(" x[VECTORS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const int at = thread + i * ROW_THREADS;\n"
         "    const ");
    STRING(half ? "Vector" : "uint4");
    TEXT(" zero = ");
    STRING(half ? "{0, 0}" : "{0, 0, 0, 0}");
    TEXT(";\n"
         "    x[i] = zero;\n"
         "    if (i == 0 ? at >= least && at < most : i < SURE - 1");
    STRING(several ? " ? has : " : " || ");
    TEXT("at < most)\n"
         "      x[i] = *(const ");
    STRING(half ? "Vector" : "uint4");
    TEXT(" *)(from + at * ");
    INTEGER(bytes);
    TEXT(");\n"
         "  }\n"
         "  // What of y will be written in part, unless x, which comes anyway, lies there.\n"
         "  if (");
    STRING(several ? "has && " : "");
    TEXT("args.y != args.x && args.y_row_stride != columns)\n"
         "    prefetch_ends_by_two((const unsigned char *)args.y + row * args.y_row_stride * SIZE, SIZE,\n"
         "                         columns, thread);\n");
  } else {
    TEXT("  const int64_t begin = (row * columns - odd) * SIZE; // of its first vector\n"
         "  const unsigned char *const from = (const unsigned char *)args.x + begin;\n"
         "  const bool has = row < args.rows;\n"
         "  // Its last vector may reach beyond the matrix.\n"
         "  const bool beyond = row == args.rows - 1 && cut.end != 0;\n"
         "  const int readable = has ? cut.vectors - beyond : 0;\n"
         "  ");
    STRING(half ? "Vector" : "uint4");
    TEXT(" x[VECTORS];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < VECTORS; ++i) {\n"
         "    const int at = thread + i * ROW_THREADS;\n"
         "    const ");
    STRING(half ? "Vector" : "uint4");
    TEXT(" zero = ");
    STRING(half ? "{0, 0}" : "{0, 0, 0, 0}");
    TEXT(";\n"
         "    x[i] = zero;\n"
         "    if (i < SURE - 1 ? has : at < readable)\n"
         "      x[i] = *(const ");
    STRING(half ? "Vector" : "uint4");
    TEXT(" *)(from + at * ");
    INTEGER(bytes);
    TEXT(");\n"
         "  }\n");
  }
  TEXT("  // What of the parameters is no whole vector, for each warp.\n"
       "  uint4 *const tails = warp_tails[warp];\n"
       "  if (lane < ");
  STRING(wide ? "4" : "ELEMENTS");
  TEXT(") {\n"
       "    const int at = columns / ");
  STRING(wide ? "4" : "ELEMENTS");
  TEXT(" * ");
  STRING(wide ? "4" : "ELEMENTS");
  TEXT(" + lane;\n"
       "    store_element(tails, ");
  STRING((half || wide) ? "4" : "SIZE");
  TEXT(", lane,\n"
       "                  load_");
  INTEGER(kept);
  TEXT("_if(");
  STRING(edged ? "args.weight && " : "");
  TEXT("at < columns, (const uint");
  INTEGER(8 * kept);
  TEXT("_t *)args.weight + at, 0));\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("    store_element(tails + 1, ");
    STRING((half || wide) ? "4" : "SIZE");
    TEXT(", lane,\n"
         "                  load_");
    INTEGER(kept);
    TEXT("_if(");
    STRING(edged ? "args.bias && " : "");
    TEXT("at < columns, (const uint");
    INTEGER(8 * kept);
    TEXT("_t *)args.bias + at, 0));\n");
  }
  TEXT("  }\n");
  if (edged) {
    TEXT("  // What lies beside these, element by element: lanes that have those of the begin, and of the end.\n");
    if (several) {
      TEXT("  const bool begins = has && odd != 0, ended = has && cut.end != 0;\n"
           "  const int place = thread; // among the lanes that have elements\n");
    } else {
      TEXT("  const bool begins = ");
      STRING(shared ? "warp == 0 && " : "");
      TEXT("odd != 0;\n"
           "  const bool ended = ");
      STRING(shared ? "(cut.vectors - 1) % ROW_THREADS / 32 == warp && " : "");
      TEXT("cut.end != 0;\n"
           "  const int place = lane; // among the lanes that have elements\n");
    }
    TEXT("  const bool has_edge = place < ELEMENTS ? begins && place >= odd && place - odd < columns\n"
         "                                         : ended && place - ELEMENTS < cut.end;\n"
         "  const int edge = place < ELEMENTS ? place : (cut.vectors - 1) * ELEMENTS + place - ELEMENTS;\n"
         "  uint32_t own = load_");
    INTEGER(size);
    TEXT("_if(has_edge, from + edge * SIZE, 0);\n");
    if (!shifted) {
      TEXT("  const bool adds = args.residual != NULL;\n"
           "  const unsigned char *const residual =\n"
           "      (const unsigned char *)args.residual + (row * args.residual_row_stride - odd) * SIZE;\n"
           "  unsigned char *const sum = (unsigned char *)args.sum + (row * args.sum_row_stride - odd) * SIZE;\n"
           "  if (adds) {\n"
           "    constexpr int MOST = ");
      INTEGER((half && (cols > 2048)) ? 8 : ((half || several) ? 4 : 2));
      TEXT(";\n"
           "    constexpr int BATCH = VECTORS < MOST ? VECTORS : MOST; // of the residual, that come at once\n"
           "#pragma unroll\n"
           "    for (int first = 0; first < VECTORS; first += BATCH) {\n"
           "      ");
      STRING(half ? "Vector" : "uint4");
      TEXT(" other[BATCH];\n"
           "#pragma unroll\n"
           "      for (int i = 0; i < BATCH; ++i) {\n"
           "        const int number = first + i, at = thread + number * ROW_THREADS;\n"
           "        const ");
      STRING(half ? "Vector" : "uint4");
      TEXT(" zero = ");
      STRING(half ? "{0, 0}" : "{0, 0, 0, 0}");
      TEXT(";\n"
           "        other[i] = zero;\n");
      if (several) {
        TEXT("        if (number == 0         ? at >= least && at < most\n"
             "            : number < SURE - 1 ? has\n"
             "                                : number < VECTORS && at < most)\n");
      } else {
        TEXT("        if (number == 0 ? at >= least && at < most\n"
             "                        : number < SURE - 1 || (number < VECTORS && at < most))\n");
      }
      TEXT("          other[i] = *(const ");
      STRING(half ? "Vector" : "uint4");
      TEXT(" *)(residual + at * ");
      INTEGER(bytes);
      TEXT(");\n"
           "      }\n"
           "#pragma unroll\n"
           "      for (int i = 0; i < BATCH; ++i) {\n"
           "        const int number = first + i, at = thread + number * ROW_THREADS;\n"
           "        if (number >= VECTORS)\n"
           "          break;\n"
           "        x[number] = add_vectors(x[number], other[i]);\n"
           "        if (number == 0 ? at >= least && at < most : number < SURE - 1");
      STRING(several ? " ? has : " : " || ");
      TEXT("at < most)\n"
           "          *(");
      STRING(half ? "Vector" : "uint4");
      TEXT(" *)(sum + at * ");
      INTEGER(bytes);
      TEXT(") = x[number];\n"
           "      }\n"
           "    }\n"
           "    const uint32_t beside = load_");
      INTEGER(size);
      TEXT("_if(has_edge, residual + edge * SIZE, 0);\n"
           "    own = narrow_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(widen_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(own) + widen_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(beside))");
      STRING(fp32 ? "" : " & 0xffff");
      TEXT(";\n"
           "    if (has_edge)\n"
           "      store_element(sum, SIZE, edge, own);\n"
           "  }\n");
    }
    TEXT("  if (place < 2 * ELEMENTS && (place < ELEMENTS ? begins : ended))\n"
         "    store_element(ends, SIZE, place, own);\n"
         "  // All lanes arrive and wait: the elements are there.\n"
         "  __syncwarp();\n"
         "  if (");
    STRING(several ? "begins" : "odd != 0");
    TEXT(" && thread == 0)\n"
         "    x[0] = ends[0];\n"
         "#pragma unroll\n"
         "  for (int i = SURE - 1; i < VECTORS; ++i)\n"
         "    if (");
    STRING(several ? "ended" : "cut.end != 0");
    TEXT(" && thread + i * ROW_THREADS == cut.vectors - 1)\n"
         "      x[i] = ends[1];\n");
  } else {
    TEXT("  if (beyond) {\n"
         "#pragma unroll\n"
         "    for (int i = SURE - 1; i < VECTORS; ++i) {\n"
         "      const int at = thread + i * ROW_THREADS;\n"
         "      if (at == cut.vectors - 1)\n"
         "        x[i] = load_first_elements(from + at * ");
    INTEGER(bytes);
    TEXT(", cut.end);\n"
         "    }\n"
         "  }\n");
  }
  if (!edged) {
    TEXT("  fill_ends(cut, thread, 0, x);\n");
  }
  TEXT("  // All lanes arrive and wait: the ends of the parameters are there.\n"
       "  __syncwarp();\n");
  if (norm == AP_LAYERNORM_NORM_LAYER) {
    TEXT("  float2 sums = add_up(x, 0.0f");
    STRING(shared ? ", told[0]" : "");
    TEXT(");\n"
         "  float mean = sums.x * args.per_column, squares = sums.y - sums.x * mean;\n"
         "  // Where values are far from 0 their squares hide what they differ by: again, about the mean.\n");
    if (row_threads < 32) {
      TEXT("  if (__any_sync(0xffffffff, !(sums.x * mean <= FAR * squares))) {\n");
    } else {
      TEXT("  if (!(sums.x * mean <= FAR * squares)) {\n");
    }
    if (fp32) {
      TEXT("    const float about = mean;\n"
           "    const uint32_t filler = narrow_element_fp32(mean);\n");
    } else {
      TEXT("    const uint32_t bits = narrow_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(mean) & 0xffff;\n"
           "    const float about = widen_element_");
      STRING(in->word[AP_LAYERNORM_DTYPE]);
      TEXT("(bits);\n"
           "    const uint32_t filler = bits | bits << 16;\n");
    }
    TEXT("#pragma unroll\n"
         "    for (int i = SURE; i < VECTORS; ++i) {\n"
         "      const ");
    STRING(half ? "Vector" : "uint4");
    TEXT(" fill = ");
    STRING(half ? "{filler, filler}" : "{filler, filler, filler, filler}");
    TEXT(";\n"
         "      if (thread + i * ROW_THREADS >= cut.vectors)\n"
         "        x[i] = fill;\n"
         "    }\n"
         "    fill_ends(cut, thread, filler, x);\n"
         "    sums = add_up(x, about");
    STRING(shared ? ", told[1]" : "");
    TEXT(");\n"
         "    const float off = sums.x * args.per_column, left = sums.y - sums.x * off;\n"
         "    mean = about + off;\n"
         "    squares = left < 0.0f ? 0.0f : left; // NaN stays\n"
         "  }\n");
  } else {
    TEXT("  const float squares = add_up(x, 0.0f");
    STRING(shared ? ", told[0]" : "");
    TEXT(").y;\n"
         "  constexpr float mean = 0.0f;\n");
  }
  TEXT("  const float rstd = reciprocal_sqrt_approx(squares * args.per_column + args.eps);\n");
  if (row_threads < 32) {
    TEXT("  if (has && thread == 0) {\n");
  } else {
    if (!edged) {
      TEXT("  if (!has)\n"
           "    return;\n");
    }
    TEXT("  if (thread == 0) {\n");
  }
  TEXT("    if (CENTERED && args.mean)\n"
       "      args.mean[row] = mean;\n"
       "    if (args.rstd)\n"
       "      args.rstd[row] = rstd;\n"
       "  }\n");
  if (shifted) {
    TEXT("  unsigned char *const y_row = (unsigned char *)args.y + row * args.y_row_stride * SIZE;\n"
         "  const int y_odd = (int)((uint64_t)y_row % 16) / SIZE, y_end = y_odd + columns;\n"
         "  unsigned char *const stage = stages[group] + 16;\n"
         "  unsigned char *const to = stage + (y_odd - odd) * SIZE;\n");
  } else if (edged) {
    TEXT("  unsigned char *const to = (unsigned char *)args.y + (row * args.y_row_stride - odd) * SIZE;\n");
  } else {
    TEXT("  unsigned char *const to = (unsigned char *)args.y + begin;\n");
  }
  TEXT("  const uint32_t nothing = (uint32_t)(columns >> 31);\n"
       "  const int renewed = thread ^ (int)nothing; // nor are addresses made before they are needed\n");
  if (edged) {
    TEXT("  // Branches: of the places with a bias, of those without one, and without parameters.\n"
         "  constexpr int PLACES = 4;\n"
         "  int branch = ");
    STRING((fp32 || half) ? "odd" : (wide ? "odd % 4" : "odd / 2"));
    TEXT(";\n");
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      TEXT("  if (!args.bias)\n"
           "    branch += PLACES;\n");
    }
    TEXT("  if (!args.weight)\n"
         "    branch = 2 * PLACES;\n"
         "  switch (");
    STRING(several ? "has ? branch : -1" : "branch");
    TEXT(") {\n");
    for (int32_t place = 0; place < 4; ++place) {
      TEXT("  case ");
      INTEGER(place);
      TEXT(":\n"
           "    write_row<true, ");
      STRING((norm == AP_LAYERNORM_NORM_LAYER) ? "true" : "false");
      TEXT(">(&args, ");
      INTEGER(place);
      TEXT(", cut, renewed, mean, rstd, nothing, tails, x, ends, to);\n"
           "    break;\n");
    }
    if (norm == AP_LAYERNORM_NORM_LAYER) {
      for (int32_t place = 0; place < 4; ++place) {
        TEXT("  case PLACES + ");
        INTEGER(place);
        TEXT(":\n"
             "    write_row<true, false>(&args, ");
        INTEGER(place);
        TEXT(", cut, renewed, mean, rstd, nothing, tails, x, ends, to);\n"
             "    break;\n");
      }
    }
    TEXT("  case 2 * PLACES:\n"
         "    write_row<false, false>(&args, 0, cut, renewed, mean, rstd, nothing, tails, x, ends, to);\n"
         "    break;\n"
         "  }\n");
  } else {
    if (fp32 || half) {
      TEXT("  switch (");
      STRING((row_threads < 32) ? "has ? odd : -1" : "odd");
      TEXT(") {\n");
    } else {
      TEXT("  switch (");
      STRING((row_threads < 32) ? "has ? odd / 2 : -1" : "odd / 2");
      TEXT(") {\n");
    }
    for (int32_t place = 0; place < 4; ++place) {
      TEXT("  case ");
      INTEGER(place);
      TEXT(":\n"
           "    write_row(&args, ");
      INTEGER(place);
      TEXT(", cut, renewed, mean, rstd, nothing, tails, x, ends, to);\n"
           "    break;\n");
    }
    TEXT("  }\n");
  }
  if (shifted) {
    if (shared) {
      TEXT("  // All threads arrive and wait: y is there.\n"
           "  __syncthreads();\n");
    } else {
      TEXT("  // All lanes arrive and wait: y is there.\n"
           "  __syncwarp();\n");
    }
    if (several) {
      TEXT("  if (!has)\n"
           "    return;\n");
    }
    TEXT("  unsigned char *const out = y_row - y_odd * SIZE;\n"
         "  constexpr int OUT_ELEMENTS = 16 / SIZE; // of a vector of y\n"
         "  const int whole = y_end / OUT_ELEMENTS;\n"
         "#pragma unroll\n"
         "  for (int i = 0; i <= COLUMNS / OUT_ELEMENTS / ROW_THREADS; ++i) {\n"
         "    const int at = renewed + i * ROW_THREADS;\n"
         "    if (at < whole && (i > 0 || at > 0 || y_odd == 0))\n"
         "      *(uint4 *)(out + at * 16) = *(const uint4 *)(stage + at * 16);\n"
         "  }\n"
         "  const int last = thread < OUT_ELEMENTS ? thread : (whole - 1) * OUT_ELEMENTS + thread;\n"
         "  if (thread < 2 * OUT_ELEMENTS && last >= y_odd && last < y_end &&\n"
         "      (thread >= OUT_ELEMENTS || y_odd != 0))\n"
         "    store_element(out, SIZE, last, load_element(stage, SIZE, last));\n");
  } else {
    TEXT("  // All lanes arrive and wait: what is at the row's ends is there.\n"
         "  __syncwarp();\n");
    if ((row_threads < (2 * elements)) && !edged) {
      TEXT("  // Both ends by the same lanes.\n"
           "  const unsigned char *const last = (const unsigned char *)(ends + 1);\n"
           "  unsigned char *const end = to + (cut.vectors - 1) * ");
      INTEGER(bytes);
      TEXT(";\n"
           "  if (has && odd != 0 && thread >= odd)\n"
           "    store_element(to, SIZE, thread, load_element(ends, SIZE, thread));\n"
           "  if (has && thread < cut.end)\n"
           "    store_element(end, SIZE, thread, load_element(last, SIZE, thread));\n");
    } else {
      if (edged) {
        TEXT("  if (has_edge)\n"
             "    store_element(to, SIZE, edge, load_element(ends, SIZE, place));\n");
      } else {
        TEXT("  const int place = lane % LANES; // among the lanes that write elements\n"
             "  const bool begins = ");
        STRING(shared ? "warp == 0 && " : "");
        TEXT("odd != 0 && place < ELEMENTS && place >= odd;\n"
             "  const bool ended = ");
        STRING(shared ? "(cut.vectors - 1) % ROW_THREADS / 32 == warp && " : "");
        TEXT("place >= ELEMENTS &&\n"
             "                     place - ELEMENTS < cut.end;\n"
             "  const int edge = place < ELEMENTS ? place : (cut.vectors - 1) * ELEMENTS + place - ELEMENTS;\n"
             "  if (");
        STRING((row_threads < 32) ? "has && (begins || ended)" : "begins || ended");
        TEXT(")\n"
             "    store_element(to, SIZE, edge, load_element(ends, SIZE, place));\n");
      }
    }
  }
  TEXT("}\n");
}
