/* Dropout's decisions on the host: Philox against Random123's published vectors, where a decision
 * lies in the layout of the kernels' scores, how many are dropped, that neighbours know nothing of
 * each other, and that nothing else matters;
 * attnpress_dropout_mask() on the CPU, what it refuses, and what it launches (the driver and NVRTC
 * are stand-ins). */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api_support.h"
#include "attnpress/args/dropout.h"
#include "attention/dropout.h"

/* Random123's kat_vectors, philox4x32. */
static void test_philox(void **state) {
  (void)state;
  static const struct {
    int rounds;
    uint32_t counter[4], key[2], result[4];
  } known[] = {
      {7, {0, 0, 0, 0}, {0, 0}, {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}},
      {7,
       {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}},
      {7,
       {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}},
      {10, {0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {10,
       {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {10,
       {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    uint32_t result[4];
    ap_philox(result, known[i].counter, known[i].key, known[i].rounds);
    assert_memory_equal(result, known[i].result, sizeof result);
  }
}

static attnpress_dropout group(float probability, uint64_t seed, uint64_t offset) {
  attnpress_dropout d = ATTNPRESS_DROPOUT_INIT;
  d.probability = probability;
  d.seed = seed;
  d.offset = offset;
  return d;
}

/* The eight decisions of a lane's call, element by element as mma's accumulators lie in a thread:
 * element 4 tile + 2 half + i is row lane / 4 + 8 half, key 8 tile + 2 (lane % 4) + i. */
static void test_where_a_decision_lies(void **state) {
  (void)state;
  const attnpress_dropout g = group(0.5f, 0x0123456789abcdef, 0xfedcba9876543210);
  const ap_dropout d = ap_dropout_of(&g);
  const int64_t head = 37, row_begin = 48, key_begin = 1600;
  for (int lane = 0; lane < 32; ++lane) {
    /* key: the seed, the upper half of the offset added to its upper half */
    const uint32_t key[2] = {0x89abcdef, 0x01234567 + 0xfedcba98};
    const uint32_t counter[4] = {0, 0, (uint32_t)head, 0x76543210};
    uint32_t of_head[4], row[4], x[4];
    ap_philox(of_head, counter, key, 7);
    memcpy(row, of_head, sizeof row);
    row[0] += (3 * 8 + (uint32_t)lane / 4) * 0x9E3779B9u;
    for (int round = 0; round < 4; ++round)
      ap_philox_round(row, 0, 0);
    for (int i = 0; i < 4; ++i)
      row[i] |= 1;
    for (int i = 0; i < 4; ++i) {
      uint32_t of_key = of_head[i] + (100 * 4 + (uint32_t)lane % 4) * 0x9E3779B9u;
      of_key = (of_key ^ of_key >> 16) * 0x85EBCA6Bu + of_head[(i + 1) % 4];
      of_key = (of_key ^ of_key >> 13) * 0xC2B2AE35u;
      of_key ^= of_key >> 16;
      const uint32_t a = of_key * row[i] + row[(i + 1) % 4];
      x[i] = (a << 12 | a >> 20) * row[(i + 2) % 4] + row[(i + 3) % 4];
    }
    for (int element = 0; element < 8; ++element) {
      const int tile = element / 4, half = element / 2 % 2, i = element % 2;
      const uint32_t decision = ap_dropout_decision(&d, head, row_begin + lane / 4 + 8 * half,
                                                    key_begin + 8 * tile + 2 * (lane % 4) + i);
      assert_int_equal(decision, (0xFC00 - (x[tile * 2 + half] >> 16 * i)) & 0xffff);
    }
  }
}

static void test_thresholds(void **state) {
  (void)state;
  assert_int_equal(ap_dropout_threshold(0.0f), 0);
  assert_int_equal(ap_dropout_threshold(0.1f), 6554);
  assert_int_equal(ap_dropout_threshold(0.5f), 32768);
  assert_int_equal(ap_dropout_threshold(0x1p-16f), 1);
  assert_int_equal(ap_dropout_threshold(0x1p-18f), 0);
  assert_int_equal(ap_dropout_threshold(0.9999999f), 65535);
  assert_true(ap_dropout_scale(0.0f) == 1.0f && ap_dropout_scale(0.75f) == 4.0f);
  const ap_dropout none = ap_dropout_of(NULL);
  assert_int_equal(none.threshold, 0);
  assert_true(none.scale == 1.0f && ap_dropout_keeps(&none, 0, 0, 0));
}

/* Seed and offset behind a pointer count instead of those in the group. */
static void test_seed_by_pointer(void **state) {
  (void)state;
  const uint64_t pair[2] = {0x1111222233334444, 0x5555666677778888};
  attnpress_dropout by_value = group(0.3f, pair[0], pair[1]), by_pointer = group(0.3f, 7, 8);
  by_pointer.seed_and_offset = pair;
  const ap_dropout a = ap_dropout_of(&by_value), b = ap_dropout_of(&by_pointer);
  assert_memory_equal(&a, &b, sizeof a);
}

/* The fraction of rows and keys over which two decisions agree. */
static double agreement(const ap_dropout *a, int64_t head_a, int64_t row_a, const ap_dropout *b,
                        int64_t head_b, int64_t row_b, int64_t count) {
  int64_t same = 0;
  for (int64_t i = 0; i < count; ++i)
    same += ap_dropout_keeps(a, head_a, row_a + i / 1000, i % 1000) ==
            ap_dropout_keeps(b, head_b, row_b + i / 1000, i % 1000);
  return (double)same / (double)count;
}

/* Over 10^7 decisions the share is right within four standard deviations of a fair one. */
static void test_share(void **state) {
  (void)state;
  static const float probabilities[] = {0.1f, 0.17f, 0.5f, 0.9f};
  enum { ROWS = 1000, KEYS = 1000, HEADS = 10 };
  for (int n = 0; n < 4; ++n) {
    const attnpress_dropout g = group(probabilities[n], 42, 1);
    const ap_dropout d = ap_dropout_of(&g);
    const double p = d.threshold / 65536.0, count = (double)ROWS * KEYS * HEADS;
    assert_true(fabs(p - (double)probabilities[n]) <= 0x1p-17);
    int64_t dropped = 0;
    for (int64_t h = 0; h < HEADS; ++h)
      for (int64_t i = 0; i < ROWS; ++i)
        for (int64_t j = 0; j < KEYS; ++j)
          dropped += !ap_dropout_keeps(&d, h, i, j);
    assert_true(fabs((double)dropped - p * count) <= 4.0 * sqrt(p * (1.0 - p) * count));
  }
}

/* The upper four bits of a decision and those of one `rows` rows and `keys` keys further on: each of
 * the 256 pairs comes as often as it must, by chi squared. Deviations: from its mean, 255. */
static double deviations(const ap_dropout *d, int64_t rows, int64_t keys) {
  enum { ROWS = 512, KEYS = 512 };
  double count[256] = {0}, chi_squared = 0.0;
  for (int64_t i = 0; i < ROWS; ++i)
    for (int64_t j = 0; j < KEYS; ++j)
      ++count[(ap_dropout_decision(d, 3, i, j) >> 12) * 16 +
              (ap_dropout_decision(d, 3, i + rows, j + keys) >> 12)];
  const double expected = (double)ROWS * KEYS / 256.0;
  for (int n = 0; n < 256; ++n)
    chi_squared += (count[n] - expected) * (count[n] - expected) / expected;
  return (chi_squared - 255.0) / sqrt(2.0 * 255.0);
}

/* The upper bits of the eight decisions of one draw: the parity of any of them is as often odd as
 * even. Sums of products can look random word by word, and not together. */
static void test_one_draw(void **state) {
  (void)state;
  enum { HEADS = 16, TILES = 32 };
  const attnpress_dropout g = group(0.5f, 2024, 11);
  const ap_dropout d = ap_dropout_of(&g);
  static int32_t count[256]; /* of each eight bits; then of each parity, even less odd */
  for (int64_t head = 0; head < HEADS; ++head) {
    const ap_dropout_words of_head = ap_dropout_head(&d, head);
    for (int64_t row = 0; row < TILES * 16; row += row % 16 == 7 ? 9 : 1)
      for (int64_t key = 0; key < TILES * 16; key += key % 8 == 6 ? 10 : 2) {
        uint32_t word[4], bits = 0;
        const ap_dropout_words rows = ap_dropout_row_words(&of_head, row),
                               keys = ap_dropout_key_words(&of_head, key);
        ap_dropout_draw(word, &rows, &keys);
        for (int i = 0; i < 4; ++i)
          bits |= (word[i] >> 31 << 1 | (word[i] >> 15 & 1)) << 2 * i;
        ++count[bits];
      }
  }
  for (int length = 1; length < 256; length *= 2)
    for (int i = 0; i < 256; ++i)
      if ((i & length) == 0) {
        const int32_t even = count[i], odd = count[i + length];
        count[i] = even + odd;
        count[i + length] = even - odd;
      }
  assert_int_equal(count[0], HEADS * TILES * TILES * 32);
  for (int i = 1; i < 256; ++i)
    assert_true(abs(count[i]) < 5.0 * sqrt(count[0]));
}

/* Bits are products of words that a row has and of words that keys have: where two rows meet two
 * keys, the parity of any of the four decisions' bits is as often odd as even. */
static void test_rectangles(void **state) {
  (void)state;
  enum { LENGTH = 2048, COUNT = 1 << 20 };
  const attnpress_dropout g = group(0.5f, 7, 3);
  const ap_dropout d = ap_dropout_of(&g);
  const ap_dropout_words of_head = ap_dropout_head(&d, 5);
  static ap_dropout_words rows[LENGTH], keys[LENGTH];
  for (int i = 0; i < LENGTH; ++i) {
    rows[i] = ap_dropout_row_words(&of_head, i / 8 * 16 + i % 8);
    keys[i] = ap_dropout_key_words(&of_head, i / 4 * 16 + i % 4 * 2);
  }
  int32_t odd[4][32][16] = {{{0}}}; /* of each word, bit and set of the four */
  uint64_t random = 88172645463325252u;
  for (int n = 0; n < COUNT; ++n) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    const int row = (int)(random % LENGTH), key = (int)(random >> 16 & 0xffff) % LENGTH;
    const int to_row = (row + 1 + (int)(random >> 32 & 0xffff) % (LENGTH - 1)) % LENGTH;
    const int to_key = (key + 1 + (int)(random >> 48) % (LENGTH - 1)) % LENGTH;
    uint32_t drawn[4][4];
    ap_dropout_draw(drawn[0], &rows[row], &keys[key]);
    ap_dropout_draw(drawn[1], &rows[to_row], &keys[key]);
    ap_dropout_draw(drawn[2], &rows[row], &keys[to_key]);
    ap_dropout_draw(drawn[3], &rows[to_row], &keys[to_key]);
    for (int word = 0; word < 4; ++word)
      for (int set = 1; set < 16; ++set) {
        uint32_t parity = 0;
        for (int i = 0; i < 4; ++i)
          parity ^= set >> i & 1 ? drawn[i][word] : 0;
        for (int bit = 0; bit < 32; ++bit)
          odd[word][bit][set] += parity >> bit & 1;
      }
  }
  for (int word = 0; word < 4; ++word)
    for (int bit = 0; bit < 32; ++bit)
      for (int set = 1; set < 16; ++set)
        assert_true(fabs(odd[word][bit][set] - COUNT / 2.0) < 5.5 * 0.5 * sqrt(COUNT));
}

/* The bits of two rows over the same keys, and of two keys over the same rows, know nothing of each
 * other, the lowest ones too: first products whose lower halves agree are few. */
static void test_pairs_of_rows(void **state) {
  (void)state;
  enum { PAIRS = 1000, COUNT = 4096 };
  const attnpress_dropout g = group(0.5f, 99, 0);
  const ap_dropout d = ap_dropout_of(&g);
  const ap_dropout_words of_head = ap_dropout_head(&d, 1);
  for (int side = 0; side < 2; ++side)
    for (int pair = 0; pair < PAIRS; ++pair) {
      int32_t odd[32] = {0};
      for (int n = 0; n < COUNT / 4; ++n) {
        const int64_t one = pair * 16, other = n * 16;
        const ap_dropout_words a =
            side ? ap_dropout_row_words(&of_head, other) : ap_dropout_key_words(&of_head, other);
        uint32_t drawn[2][4];
        for (int i = 0; i < 2; ++i) {
          const ap_dropout_words b = side ? ap_dropout_key_words(&of_head, one + i * 2)
                                          : ap_dropout_row_words(&of_head, one + i);
          ap_dropout_draw(drawn[i], side ? &a : &b, side ? &b : &a);
        }
        for (int word = 0; word < 4; ++word)
          for (int bit = 0; bit < 32; ++bit)
            odd[bit] += (drawn[0][word] ^ drawn[1][word]) >> bit & 1;
      }
      for (int bit = 0; bit < 32; ++bit)
        assert_true(fabs(odd[bit] - COUNT / 2.0) < 5.5 * 0.5 * sqrt(COUNT));
    }
}

/* Of one draw, of the next lanes', rows' and keys', and further away. */
static void test_neighbours(void **state) {
  (void)state;
  static const int64_t away[][2] = {{0, 1},  {0, 2},   {0, 8},  {8, 0},  {8, 8},   {1, 0},  {0, 16},
                                    {16, 0}, {16, 16}, {0, 32}, {32, 0}, {0, 128}, {128, 0}};
  const attnpress_dropout g = group(0.5f, 2024, 11);
  const ap_dropout d = ap_dropout_of(&g);
  for (size_t i = 0; i < sizeof away / sizeof *away; ++i)
    assert_true(fabs(deviations(&d, away[i][0], away[i][1])) < 5.0);
}

/* Different heads, rows, seeds and offsets agree as often as fair coins do. */
static void test_correlations(void **state) {
  (void)state;
  enum { COUNT = 1000000 };
  const attnpress_dropout g = group(0.5f, 42, 0), other_seed = group(0.5f, 43, 0),
                          other_offset = group(0.5f, 42, 1),
                          far_offset = group(0.5f, 42, UINT64_C(1) << 32);
  const ap_dropout d = ap_dropout_of(&g), seed = ap_dropout_of(&other_seed),
                   offset = ap_dropout_of(&other_offset), far = ap_dropout_of(&far_offset);
  const struct {
    const ap_dropout *other;
    int64_t head, row;
  } pairs[] = {{&d, 1, 0},  {&d, 2, 0},    {&d, 64, 0},   {&d, 0, 1},   {&d, 0, 8},
               {&d, 0, 16}, {&d, 0, 4096}, {&seed, 0, 0}, {&far, 0, 0}, {&offset, 0, 0}};
  assert_true(agreement(&d, 0, 0, &d, 0, 0, COUNT) == 1.0);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
    const double same = agreement(&d, 0, 0, pairs[i].other, pairs[i].head, pairs[i].row, COUNT);
    assert_true(fabs(same - 0.5) <= 4.0 * 0.5 / sqrt((double)COUNT));
  }
  /* Keys of a row: each against the next ones. */
  for (int64_t distance = 1; distance <= 64; distance += distance < 17 ? 1 : 47) {
    int64_t same = 0;
    for (int64_t i = 0; i < COUNT; ++i)
      same += ap_dropout_keeps(&d, 0, i / 1000, i % 1000) ==
              ap_dropout_keeps(&d, 0, i / 1000, i % 1000 + distance);
    assert_true(fabs((double)same / COUNT - 0.5) <= 4.5 * 0.5 / sqrt((double)COUNT));
  }
}

/* ---- attnpress_dropout_mask() ---------------------------------------------------------------- */

static attnpress_handle *cpu_handle(void) {
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_CPU;
  assert_ok(attnpress_create(&handle, &options));
  return handle;
}

enum { POISON = 0xaa };

/* Every element is what ap_dropout_keeps() says, every other byte is as it was. */
static void check_mask(attnpress_handle *handle, const attnpress_dropout_mask_args *given,
                       const int64_t stride[4], uint8_t *memory, size_t bytes) {
  const ap_dropout d = ap_dropout_of(given->dropout);
  const int64_t *shape = given->shape;
  memset(memory, POISON, bytes);
  assert_ok(attnpress_dropout_mask(handle, given, NULL));
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i)
        for (int64_t j = 0; j < shape[3]; ++j) {
          uint8_t *at = given->keep + b * stride[0] + h * stride[1] + i * stride[2] + j * stride[3];
          assert_int_equal(*at, ap_dropout_keeps(&d, b * shape[1] + h, i, j));
          *at = POISON;
        }
  for (size_t i = 0; i < bytes; ++i)
    assert_int_equal(memory[i], POISON);
}

static void test_mask(void **state) {
  (void)state;
  static const struct {
    int64_t shape[4], stride[4], contiguous[4];
  } cases[] = {
      {{2, 3, 37, 53}, {0, 0, 0, 0}, {3 * 37 * 53, 37 * 53, 53, 1}},
      {{1, 1, 1, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}},
      {{2, 2, 16, 16}, {0, 0, 0, 0}, {512, 256, 16, 1}},
      {{1, 2, 70, 129},
       {INT64_MAX, 3 * 200 * 70, 3, 210},
       {0, 3 * 200 * 70, 3, 210}},                                /* keys out */
      {{2, 3, 20, 40}, {100, 7000, 300, 2}, {100, 7000, 300, 2}}, /* gaps */
      {{0, 3, 20, 40}, {0, 0, 0, 0}, {0, 0, 0, 0}},
      {{2, 3, 0, 40}, {0, 0, 0, 0}, {0, 0, 0, 0}},
  };
  static uint8_t memory[1 << 17];
  attnpress_handle *handle = cpu_handle();
  const uint64_t pair[2] = {99, 98};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    attnpress_dropout d = group(0.3f, 17, 4);
    d.seed_and_offset = i % 2 ? pair : NULL;
    attnpress_dropout_mask_args args = ATTNPRESS_DROPOUT_MASK_ARGS_INIT;
    args.dropout = &d;
    args.keep = memory + 100;
    memcpy(args.shape, cases[i].shape, sizeof args.shape);
    memcpy(args.stride, cases[i].stride, sizeof args.stride);
    check_mask(handle, &args, cases[i].contiguous, memory, sizeof memory);
  }
  attnpress_destroy(handle);
}

static void test_mask_refuses(void **state) {
  (void)state;
  uint8_t keep[16];
  attnpress_handle *handle = cpu_handle();
  static const struct {
    const char *says;
    int64_t shape[4], stride[4];
    int no_keep, no_dropout, small;
    float probability;
  } cases[] = {
      {"shape[2] (seqlen_q) is -1", {1, 1, -1, 4}, {0, 0, 0, 0}, 0, 0, 0, 0.1f},
      {"shape[3] (seqlen_k) is 2147483647", {1, 1, 1, INT32_MAX}, {0, 0, 0, 0}, 0, 0, 0, 0.1f},
      {"shape[0] (batch) is 4294967296", {1LL << 32, 1, 1, 1}, {0, 0, 0, 0}, 0, 0, 0, 0.1f},
      {"2^63", {1 << 30, 1 << 30, 1 << 30, 4}, {0, 0, 0, 0}, 0, 0, 0, 0.1f},
      {"stride[3] (seqlen_k) is -1", {1, 1, 2, 4}, {8, 8, 4, -1}, 0, 0, 0, 0.1f},
      {"stride[2] (seqlen_q) is 0", {1, 1, 2, 4}, {8, 8, 0, 1}, 0, 0, 0, 0.1f},
      {"overlap", {1, 1, 2, 4}, {8, 8, 3, 1}, 0, 0, 0, 0.1f},
      {"overflows", {1, 1, 3, 4}, {8, 8, INT64_MAX / 2 + 1, 1}, 0, 0, 0, 0.1f},
      {"keep is NULL", {1, 1, 2, 4}, {0, 0, 0, 0}, 1, 0, 0, 0.1f},
      {"dropout is NULL", {1, 1, 2, 4}, {0, 0, 0, 0}, 0, 1, 0, 0.1f},
      {"args.struct_size is 40", {1, 1, 2, 4}, {0, 0, 0, 0}, 0, 0, 1, 0.1f},
      {"dropout.probability is 1;", {1, 1, 2, 4}, {0, 0, 0, 0}, 0, 0, 0, 1.0f},
      {"dropout.probability is -0.1;", {1, 1, 2, 4}, {0, 0, 0, 0}, 0, 0, 0, -0.1f},
      {"dropout.probability is nan", {1, 1, 2, 4}, {0, 0, 0, 0}, 0, 0, 0, NAN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    attnpress_dropout d = group(cases[i].probability, 0, 0);
    attnpress_dropout_mask_args args = ATTNPRESS_DROPOUT_MASK_ARGS_INIT;
    args.dropout = cases[i].no_dropout ? NULL : &d;
    args.keep = cases[i].no_keep ? NULL : keep;
    if (cases[i].small)
      args.struct_size = 40;
    memcpy(args.shape, cases[i].shape, sizeof args.shape);
    memcpy(args.stride, cases[i].stride, sizeof args.stride);
    assert_int_equal(attnpress_dropout_mask(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
    assert_error_says(cases[i].says);
  }
  assert_int_equal(attnpress_dropout_mask(handle, NULL, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_dropout_mask(NULL, NULL, NULL), ATTNPRESS_INVALID_ARGUMENT);
  attnpress_destroy(handle);
}

/* On a GPU: one launch of tiles that cover the mask, on the caller's stream. */
static void test_mask_launch(void **state) {
  (void)state;
  const attnpress_dropout d = group(0.25f, 5, 6);
  attnpress_dropout_mask_args args = ATTNPRESS_DROPOUT_MASK_ARGS_INIT;
  args.dropout = &d;
  args.keep = (uint8_t *)0x1000;
  memcpy(args.shape, (int64_t[]){2, 3, 1000, 777}, sizeof args.shape);
  cuda->args_of("dropout_keep", sizeof(attnpress_dropout_keep_args));
  attnpress_handle *handle = make_handle();
  CUstream stream = cuda->stream_new(cuda->context_get());
  assert_ok(attnpress_dropout_mask(handle, &args, stream));
  assert_int_equal(cuda->launches, 1);
  const fake_launch *launch = &cuda->launch[0];
  assert_string_equal(launch->symbol, "dropout_keep_sm80");
  assert_ptr_equal(launch->stream, stream);
  attnpress_dropout_keep_args given;
  memcpy(&given, launch->args, sizeof given);
  const int rows = (int)launch->block / 32 * 16,
            keys = (777 + given.key_blocks - 1) / given.key_blocks;
  assert_int_equal(given.row_blocks, (1000 + rows - 1) / rows);
  assert_true(given.key_blocks > 1 && keys <= 256);
  assert_int_equal(launch->grid, 6 * given.row_blocks * given.key_blocks);
  assert_ptr_equal(given.keep, args.keep);
  assert_int_equal(given.batch, 2);
  assert_int_equal(given.heads_q, 3);
  assert_int_equal(given.seqlen_q, 1000);
  assert_int_equal(given.seqlen_k, 777);
  assert_int_equal(given.batch_stride, 3 * 777000);
  assert_int_equal(given.head_stride, 777000);
  assert_int_equal(given.row_stride, 777);
  assert_int_equal(given.key_stride, 1);
  assert_int_equal(given.score.dropout_threshold, 16384);
  assert_int_equal(given.score.dropout_seed, 5);
  assert_int_equal(given.score.dropout_offset, 6);
  assert_null(given.score.dropout_seed_and_offset);
  args.shape[0] = 0; /* empty: nothing is launched */
  assert_ok(attnpress_dropout_mask(handle, &args, stream));
  assert_int_equal(cuda->launches, 1);
  memcpy(args.shape, (int64_t[]){1 << 20, 1 << 10, 64, 64}, sizeof args.shape);
  assert_ok(attnpress_dropout_mask(handle, &args, stream));
  memcpy(args.shape, (int64_t[]){1 << 20, 1 << 12, 640, 640}, sizeof args.shape);
  assert_int_equal(attnpress_dropout_mask(handle, &args, stream), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("write the mask in parts");
  cuda->stream_free(stream);
  attnpress_destroy(handle);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_philox),
      cmocka_unit_test(test_one_draw),
      cmocka_unit_test(test_rectangles),
      cmocka_unit_test(test_pairs_of_rows),
      cmocka_unit_test(test_neighbours),
      cmocka_unit_test(test_where_a_decision_lies),
      cmocka_unit_test(test_thresholds),
      cmocka_unit_test(test_seed_by_pointer),
      cmocka_unit_test(test_share),
      cmocka_unit_test(test_correlations),
      cmocka_unit_test(test_mask),
      cmocka_unit_test(test_mask_refuses),
      TEST(test_mask_launch),
  };
  return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
