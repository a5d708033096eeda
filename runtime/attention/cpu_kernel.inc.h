/* The row block of the CPU backend, included once per instruction set by cpu_plain.c, cpu_avx2.c
 * and cpu_avx512.c, which include the vectors of cpu/ and define before:
 *
 *   AP_KERNEL   name of the row block function
 *   TILE        rows of a register tile, which is two vectors wide
 *
 * S is computed transposed, S^T = K Q^T: keys are broadcast, query rows are vector lanes. K and V
 * are then used as they lie in memory (converted to floats), the row maximum and sum need no
 * horizontal step, and P^T is laid out as P V wants it: O += P V broadcasts P and reads rows of V.
 *
 *   Q^T panel (hdim, 2 * LANES) in cache    S^T tile (TILE, 2 * LANES) in registers
 *   V panel   (keys, 2 * LANES) in cache    O tile   (TILE, 2 * LANES) in registers */
#include <math.h>
#include <string.h>

#include "attention/cpu_kernel.h"
#include "cpu/element.h"

enum { PANEL = 2 * LANES, DOT_ROWS = 4, DOT_KEYS = 4 };
_Static_assert(AP_CPU_ROWS % TILE == 0 && AP_CPU_KEYS % TILE == 0, "tiles fill the blocks");
_Static_assert(AP_CPU_ROWS % PANEL == 0, "panels fill the row block");
_Static_assert(AP_CPU_NUM_PADDING >= (int)PANEL, "room for a padded head dim");
_Static_assert(AP_CPU_KEYS % DOT_KEYS == 0, "dot tiles fill the key block");

#define LOG2_E 1.44269504f

static inline int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/* ---- Rows between memory and scratch ---- */

/* A row of K or V, (columns), as floats: panels of `panel` columns that lie panel_stride apart,
 * zeros up to a multiple of LANES. */
AP_INLINE void convert_row_typed(float *to, int panel, int panel_stride, const void *from,
                                 int64_t at, int columns, int dtype) {
  int c = 0;
  for (; c + LANES <= columns; c += LANES)
    v_store(to + c / panel * panel_stride + c % panel, load_vector(from, at + c, dtype));
  if (c < columns) {
    float *tail = to + c / panel * panel_stride + c % panel;
    v_store(tail, (vec){0});
    load_8(tail, from, at + c, dtype);
  }
}

AP_INLINE void convert_row(float *to, int panel, int panel_stride, const void *from, int64_t at,
                           int columns, int dtype) {
  if (dtype == ATTNPRESS_FP32)
    convert_row_typed(to, panel, panel_stride, from, at, columns, ATTNPRESS_FP32);
  else if (dtype == ATTNPRESS_FP16)
    convert_row_typed(to, panel, panel_stride, from, at, columns, ATTNPRESS_FP16);
  else
    convert_row_typed(to, panel, panel_stride, from, at, columns, ATTNPRESS_BF16);
}

/* Offset in elements of a row, numbered as cpu_kernel.h says, within its batch. */
static inline int64_t row_offset(const ap_cpu_problem *p, int64_t row, int64_t head_kv,
                                 int64_t row_stride, int64_t head_stride) {
  return row / p->group * row_stride + (head_kv * p->group + row % p->group) * head_stride;
}

/* Q, scaled, as rows (few rows) or as transposed panels; padding rows are zero. */
AP_TARGET static void load_q(const ap_cpu_problem *p, ap_cpu_scratch *x, int64_t batch,
                             int64_t head_kv, int64_t row_begin, int rows, int rows_padded) {
  const int hdim_padded = round_up(p->hdim, LANES);
  if (rows > DOT_ROWS || p->batch_invariant)
    memset(x->q, 0, (size_t)round_up(rows_padded, PANEL) * p->hdim * sizeof(float));
  else
    memset(x->q, 0, (size_t)rows * hdim_padded * sizeof(float));
  for (int r = 0; r < rows; ++r) {
    int64_t at = batch * p->q_batch_stride +
                 row_offset(p, row_begin + r, head_kv, p->q_row_stride, p->q_head_stride);
    for (int d = 0; d < p->hdim; d += 8) {
      float q[8];
      load_8(q, p->q, at + d, p->dtype);
      for (int i = 0; i < 8; ++i) {
        float scaled = q[i] * p->q_scale;
        if (rows > DOT_ROWS || p->batch_invariant)
          x->q[(r / PANEL * p->hdim + d + i) * PANEL + r % PANEL] = scaled;
        else
          x->q[r * hdim_padded + d + i] = scaled;
      }
    }
  }
}

/* Offset in elements of a key's row, by the strides of batches, or pages, and rows. */
static inline int64_t key_offset(const ap_cpu_problem *p, const int32_t *table, int64_t batch,
                                 int64_t key, int64_t batch_stride, int64_t row_stride) {
  if (table == NULL)
    return batch * batch_stride + key * row_stride;
  const int64_t row = p->first_key + key;
  int64_t page = table[row / p->page_size];
  page = page < 0 ? 0 : page < p->num_pages ? page : p->num_pages - 1;
  return page * batch_stride + row % p->page_size * row_stride;
}

/* Keys [key_begin, key_begin + keys) of K and V; keys up to the next full tile are zero in K. */
AP_TARGET static void load_kv(const ap_cpu_problem *p, ap_cpu_scratch *x, int64_t batch,
                              int64_t head_kv, int64_t key_begin, int keys) {
  for (int n = 0; n < keys; ++n) {
    const int64_t at =
        key_offset(p, p->page_table, batch, key_begin + n, p->k_batch_stride, p->k_row_stride) +
        head_kv * p->k_head_stride;
    convert_row(x->k + n * AP_CPU_K_STRIDE, AP_CPU_K_STRIDE, 0, p->k, at, p->hdim, p->dtype);
  }
  for (int n = 0; n < keys; ++n) {
    const int64_t at =
        key_offset(p, p->page_table_v, batch, key_begin + n, p->v_batch_stride, p->v_row_stride) +
        head_kv * p->v_head_stride;
    convert_row(x->v + n * PANEL, PANEL, AP_CPU_KEYS * PANEL, p->v, at, p->hdim_v, p->dtype);
  }
  for (int n = keys; n < AP_CPU_KEYS && n < keys + TILE + DOT_KEYS; ++n)
    memset(x->k + n * AP_CPU_K_STRIDE, 0, (size_t)round_up(p->hdim, LANES) * sizeof(float));
}

/* ---- S^T = K Q^T ---- */

/* TILE keys by `vectors` vectors of rows. k: (TILE, hdim), rows AP_CPU_K_STRIDE apart; q: (hdim,
 * PANEL); s: (TILE, ...), rows AP_CPU_ROWS apart. */
AP_INLINE void score_tile(int vectors, const float *k, const float *q, int hdim, float *s) {
  vec acc[TILE][2];
  AP_UNROLL for (int n = 0; n < TILE; ++n) AP_UNROLL for (int j = 0; j < vectors; ++j) acc[n][j] =
      (vec){0};
  for (int d = 0; d < hdim; ++d) {
    vec b[2];
    AP_UNROLL for (int j = 0; j < vectors; ++j) b[j] = v_load(q + d * PANEL + j * LANES);
    AP_UNROLL for (int n = 0; n < TILE; ++n) {
      vec a = v_set1(k[n * AP_CPU_K_STRIDE + d]);
      AP_UNROLL for (int j = 0; j < vectors; ++j) acc[n][j] = v_fma(a, b[j], acc[n][j]);
    }
  }
  AP_UNROLL for (int n = 0; n < TILE; ++n) AP_UNROLL for (int j = 0; j < vectors; ++j)
      v_store(s + n * AP_CPU_ROWS + j * LANES, acc[n][j]);
}

AP_TARGET static void scores(ap_cpu_scratch *x, int hdim, int keys, int rows_padded) {
  for (int r = 0; r < rows_padded; r += PANEL) {
    const float *q = x->q + r * hdim;
    for (int n = 0; n < keys; n += TILE) {
      const float *k = x->k + n * AP_CPU_K_STRIDE;
      float *s = x->s + n * AP_CPU_ROWS + r;
      if (rows_padded - r >= PANEL)
        score_tile(2, k, q, hdim, s);
      else
        score_tile(1, k, q, hdim, s);
    }
  }
}

/* The same for few rows: lanes run along the head dim. */
AP_INLINE void dot_tile(int rows, const float *k, const float *q, int hdim_padded, float *s) {
  vec acc[DOT_KEYS][DOT_ROWS];
  AP_UNROLL for (int n = 0; n < DOT_KEYS; ++n) AP_UNROLL for (int r = 0; r < rows; ++r) acc[n][r] =
      (vec){0};
  for (int d = 0; d < hdim_padded; d += LANES) {
    vec b[DOT_ROWS];
    AP_UNROLL for (int r = 0; r < rows; ++r) b[r] = v_load(q + r * hdim_padded + d);
    AP_UNROLL for (int n = 0; n < DOT_KEYS; ++n) {
      vec a = v_load(k + n * AP_CPU_K_STRIDE + d);
      AP_UNROLL for (int r = 0; r < rows; ++r) acc[n][r] = v_fma(a, b[r], acc[n][r]);
    }
  }
  AP_UNROLL for (int n = 0; n < DOT_KEYS; ++n) AP_UNROLL for (int r = 0; r < rows; ++r)
      s[n * AP_CPU_ROWS + r] = v_sum(acc[n][r]);
}

AP_TARGET static void dot_scores(ap_cpu_scratch *x, int hdim_padded, int keys, int rows) {
  for (int n = 0; n < keys; n += DOT_KEYS) {
    const float *k = x->k + n * AP_CPU_K_STRIDE;
    float *s = x->s + n * AP_CPU_ROWS;
    if (rows == 1)
      dot_tile(1, k, x->q, hdim_padded, s);
    else if (rows == 2)
      dot_tile(2, k, x->q, hdim_padded, s);
    else if (rows == 3)
      dot_tile(3, k, x->q, hdim_padded, s);
    else
      dot_tile(4, k, x->q, hdim_padded, s);
  }
}

/* ---- What is done to scores: softcap, bias, ALiBi, mask ---- */

/* Which keys of the block [key_begin, key_begin + keys) each row sees; `whole`: all. */
static void find_visible(ap_cpu_scratch *x, int64_t key_begin, int keys, int rows_padded,
                         int whole) {
  for (int r = 0; r < rows_padded && whole; ++r) {
    x->first[r] = 0;
    x->end[r] = keys;
  }
  for (int r = 0; r < rows_padded && !whole; ++r) {
    const int64_t first = x->seen[r].begin - key_begin, end = x->seen[r].end - key_begin;
    x->first[r] = first < 0 ? 0 : first > keys ? keys : (int32_t)first;
    x->end[r] = end < x->first[r] ? x->first[r] : end > keys ? keys : (int32_t)end;
  }
}

AP_TARGET static void cap_scores(const ap_cpu_problem *p, ap_cpu_scratch *x, int keys,
                                 int rows_padded) {
  const vec cap = v_set1(p->softcap_log2);
  for (int n = 0; n < keys; ++n)
    for (int r = 0; r < rows_padded; r += LANES) {
      float *s = x->s + n * AP_CPU_ROWS + r;
      v_store(s, cap * v_tanh(v_load(s)));
    }
}

/* That of `keys` keys, `stride` elements apart, from element `at` on. */
AP_INLINE void load_bias(float *to, const void *bias, int64_t at, int64_t stride, int keys,
                         int dtype) {
  int n = 0;
  for (; stride == 1 && n + LANES <= keys; n += LANES)
    v_store(to + n, load_vector(bias, at + n, dtype));
  for (; n < keys; ++n)
    to[n] = ap_load_element(bias, at + n * stride, dtype);
}

/* Adds the bias of the keys that each row sees. */
AP_TARGET static void add_bias(const ap_cpu_problem *p, ap_cpu_scratch *x, int64_t key_begin,
                               int rows) {
  const int64_t stride = p->bias_key_stride;
  for (int r = 0; r < rows; ++r) {
    const int first = x->first[r], keys = x->end[r] - first;
    const int64_t at = x->bias_at[r] + (key_begin + first) * stride;
    float *s = x->s + first * AP_CPU_ROWS + r, bias[AP_CPU_KEYS];
    if (p->bias_dtype == ATTNPRESS_FP32)
      load_bias(bias, p->bias, at, stride, keys, ATTNPRESS_FP32);
    else if (p->bias_dtype == ATTNPRESS_FP16)
      load_bias(bias, p->bias, at, stride, keys, ATTNPRESS_FP16);
    else
      load_bias(bias, p->bias, at, stride, keys, ATTNPRESS_BF16);
    for (int n = 0; n < keys; ++n)
      s[n * AP_CPU_ROWS] += bias[n] * LOG2_E;
  }
}

/* Takes slope * |distance| off the scores. */
AP_TARGET static void add_alibi(ap_cpu_scratch *x, int64_t key_begin, int keys, int rows_padded) {
  for (int r = 0; r < rows_padded; ++r)
    x->distance[r] = (float)(x->center[r] - key_begin);
  for (int n = 0; n < keys; ++n)
    for (int r = 0; r < rows_padded; r += LANES) {
      float *s = x->s + n * AP_CPU_ROWS + r;
      const vec distance = v_load(x->distance + r) - v_set1((float)n);
      v_store(s, v_load(s) - v_load(x->slope + r) * (vec)((ivec)distance & INT32_MAX));
    }
}

/* Hides the keys that a row does not see, in a key block that is not seen whole by every row;
 * `from_first`: that they all see from its first key on. */
AP_INLINE void mask_rows(ap_cpu_scratch *x, int keys, int rows_padded, int from_first) {
  for (int r = 0; r < rows_padded; r += LANES) {
    ivec first, end;
    memcpy(&first, x->first + r, sizeof first);
    memcpy(&end, x->end + r, sizeof end);
    for (int n = 0; n < keys; ++n) {
      float *s = x->s + n * AP_CPU_ROWS + r;
      const ivec seen = from_first ? (ivec)(end > n) : (ivec)(end > n) & (ivec)(first <= n);
      v_store(s, v_select(seen, v_load(s), v_set1(-INFINITY)));
    }
  }
}

AP_TARGET static void mask_scores(ap_cpu_scratch *x, int keys, int rows_padded, int from_first) {
  if (from_first)
    mask_rows(x, keys, rows_padded, 1);
  else
    mask_rows(x, keys, rows_padded, 0);
}

/* ---- P = exp2(S - max), row maxima and sums ---- */

AP_TARGET static void softmax(ap_cpu_scratch *x, int keys, int rows_padded) {
  for (int r = 0; r < rows_padded; r += LANES) {
    float *s = x->s + r;
    vec old_max = v_load(x->row_max + r);
    vec max0 = old_max, max1 = old_max, max2 = old_max, max3 = old_max;
    int n = 0;
    for (; n + 4 <= keys; n += 4) {
      max0 = v_max(max0, v_load(s + (n + 0) * AP_CPU_ROWS));
      max1 = v_max(max1, v_load(s + (n + 1) * AP_CPU_ROWS));
      max2 = v_max(max2, v_load(s + (n + 2) * AP_CPU_ROWS));
      max3 = v_max(max3, v_load(s + (n + 3) * AP_CPU_ROWS));
    }
    for (; n < keys; ++n)
      max0 = v_max(max0, v_load(s + n * AP_CPU_ROWS));
    vec new_max = v_max(v_max(max0, max1), v_max(max2, max3));
    /* A row that has seen no key yet has maximum -inf: any finite value does as its base. */
    vec base = v_select((ivec)(new_max == v_set1(-INFINITY)), (vec){0}, new_max);
    vec row_scale = v_exp2(old_max - base);
    vec sum0 = (vec){0}, sum1 = (vec){0};
    for (n = 0; n + 2 <= keys; n += 2) {
      vec p0 = v_exp2(v_load(s + n * AP_CPU_ROWS) - base);
      vec p1 = v_exp2(v_load(s + (n + 1) * AP_CPU_ROWS) - base);
      v_store(s + n * AP_CPU_ROWS, p0);
      v_store(s + (n + 1) * AP_CPU_ROWS, p1);
      sum0 += p0;
      sum1 += p1;
    }
    if (n < keys) {
      vec p = v_exp2(v_load(s + n * AP_CPU_ROWS) - base);
      v_store(s + n * AP_CPU_ROWS, p);
      sum0 += p;
    }
    v_store(x->row_sum + r, v_fma(v_load(x->row_sum + r), row_scale, sum0 + sum1));
    v_store(x->row_scale + r, row_scale);
    v_store(x->row_max + r, new_max);
  }
}

/* ---- Dropout, after the sum ---- */

AP_INLINE uvec load_words(const uint32_t *p) {
  uvec r;
  memcpy(&r, p, sizeof r);
  return r;
}

/* The bits of LANES rows' decisions (ap_dropout_draw): of the four words the two of the row's half,
 * over the pair of keys of this number, and over that 8 keys behind it. */
AP_INLINE void draw(const ap_cpu_scratch *x, int r, uint32_t number, uvec words[2]) {
  const uvec of_half = load_words(x->half + r);
  uvec row[4], head[4], keys[4];
  AP_UNROLL for (int i = 0; i < 4; ++i) head[i] = load_words(x->head[i] + r);
  AP_UNROLL for (int i = 0; i < 4; ++i) { /* ap_dropout_key_words */
    uvec key = number * AP_DROPOUT_STEP + head[i];
    key ^= key >> 16;
    key = key * AP_DROPOUT_KEY_FIRST + head[(i + 1) % 4];
    key ^= key >> 13;
    key *= AP_DROPOUT_KEY_SECOND;
    keys[i] = key ^ key >> 16;
  }
  AP_UNROLL for (int i = 0; i < 4; ++i) row[i] = load_words(x->word[i] + r);
  AP_UNROLL for (int i = 0; i < 2; ++i) {
    const uvec key = (keys[i * 2] & ~of_half) | (keys[i * 2 + 1] & of_half);
    const uvec a = key * row[i * 2] + row[i * 2 + 1];
    words[i] =
        (a << AP_DROPOUT_TURN | a >> (32 - AP_DROPOUT_TURN)) * row[2 - i * 2] + row[3 - i * 2];
  }
}

/* The probabilities of LANES rows and a key become 0 where the decisions of the lower 16 bits drop
 * them. */
AP_INLINE void drop_key(float *p, uvec bits, uint32_t threshold) {
  const uvec decisions = (AP_DROPOUT_FROM - bits) & 0xffff;
  const ivec kept = (ivec)decisions >= (ivec)((uvec){0} + threshold); /* below 2^16 */
  v_store(p, v_select(kept, v_load(p), (vec){0}));
}

/* The probabilities that are dropped become 0. key_begin: a multiple of 16. */
AP_TARGET static void drop(const ap_cpu_problem *p, ap_cpu_scratch *x, int64_t key_begin, int keys,
                           int rows_padded) {
  const uint32_t threshold = p->dropout.threshold;
  for (int begin = 0; begin < keys; begin += 16)
    for (int pair = 0; pair < 4; ++pair) {
      const uint32_t number = (uint32_t)((key_begin + begin) / 16 * 4 + pair);
      for (int r = 0; r < rows_padded; r += LANES) {
        uvec words[2];
        draw(x, r, number, words);
        for (int tile = 0; tile < 2; ++tile) {
          const int n = begin + tile * 8 + pair * 2;
          float *s = x->s + n * AP_CPU_ROWS + r;
          if (n < keys)
            drop_key(s, words[tile], threshold);
          if (n + 1 < keys)
            drop_key(s + AP_CPU_ROWS, words[tile] >> 16, threshold);
        }
      }
    }
}

/* ---- O = row_scale O + P V ----
 *
 * A row takes the keys that it sees and no others: P is 0 at the others, but 0 times a NaN or an
 * infinity in V is NaN. A tile takes the keys that all its rows see, from the last row's first key
 * to the first row's end, and then each row by itself the few that it sees on either side. */

/* `rows` rows by `vectors` vectors. p: (keys, rows), rows AP_CPU_ROWS apart; v: (keys, PANEL); o:
 * (rows, PANEL). */
AP_INLINE void output_tile(int rows, int vectors, const float *p, const float *v, int keys,
                           const float *row_scale, float *o) {
  vec acc[TILE][2];
  AP_UNROLL for (int r = 0; r < rows; ++r) AP_UNROLL for (int j = 0; j < vectors; ++j) acc[r][j] =
      v_set1(row_scale[r]) * v_load(o + r * PANEL + j * LANES);
  for (int n = 0; n < keys; ++n) {
    vec b[2];
    AP_UNROLL for (int j = 0; j < vectors; ++j) b[j] = v_load(v + n * PANEL + j * LANES);
    AP_UNROLL for (int r = 0; r < rows; ++r) {
      vec a = v_set1(p[n * AP_CPU_ROWS + r]);
      AP_UNROLL for (int j = 0; j < vectors; ++j) acc[r][j] = v_fma(a, b[j], acc[r][j]);
    }
  }
  AP_UNROLL for (int r = 0; r < rows; ++r) AP_UNROLL for (int j = 0; j < vectors; ++j)
      v_store(o + r * PANEL + j * LANES, acc[r][j]);
}

/* Rows of the next tile. */
static inline int tile_rows(int rows) {
  return rows >= TILE ? TILE : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
}

/* One row's part of the keys from `first` to `end` - 1; O is not scaled. */
AP_INLINE void output_row(int vectors, const ap_cpu_scratch *x, int r, int first, int end,
                          const float *v, float *o) {
  static const float unscaled = 1.0f;
  if (first < end)
    output_tile(1, vectors, x->s + first * AP_CPU_ROWS + r, v + first * PANEL, end - first,
                &unscaled, o + r * PANEL);
}

/* `alone`: rows whose first keys differ share no tile, as that changes the order of the keys. */
AP_INLINE void output_panel(int vectors, ap_cpu_scratch *x, const float *v, float *o, int rows,
                            int alone) {
  for (int r = 0, tile; r < rows; r += tile) {
    tile = tile_rows(rows - r);
    if (alone && x->first[r] != x->first[r + tile - 1])
      tile = 1;
    /* The keys that all rows see; where there are none, a row's own part is all that it sees. */
    const int begin = x->first[r + tile - 1], end = x->end[r] > begin ? x->end[r] : begin;
    const int keys = end - begin;
    const float *p = x->s + begin * AP_CPU_ROWS + r, *v_begin = v + begin * PANEL;
    if (tile == TILE)
      output_tile(TILE, vectors, p, v_begin, keys, x->row_scale + r, o + r * PANEL);
    else if (tile == 4)
      output_tile(4, vectors, p, v_begin, keys, x->row_scale + r, o + r * PANEL);
    else if (tile == 2)
      output_tile(2, vectors, p, v_begin, keys, x->row_scale + r, o + r * PANEL);
    else
      output_tile(1, vectors, p, v_begin, keys, x->row_scale + r, o + r * PANEL);
    if (x->first[r] < begin)
      for (int i = r; i < r + tile; ++i)
        output_row(vectors, x, i, x->first[i], x->end[i] < begin ? x->end[i] : begin, v, o);
    if (x->end[r + tile - 1] > end)
      for (int i = r; i < r + tile; ++i)
        output_row(vectors, x, i, x->first[i] > end ? x->first[i] : end, x->end[i], v, o);
  }
}

AP_TARGET static void outputs(ap_cpu_scratch *x, int hdim_v, int rows, int alone) {
  for (int c = 0; c < hdim_v; c += PANEL) {
    const float *v = x->v + c * AP_CPU_KEYS;
    float *o = x->o + c * AP_CPU_ROWS;
    if (hdim_v - c > LANES)
      output_panel(2, x, v, o, rows, alone);
    else
      output_panel(1, x, v, o, rows, alone);
  }
}

/* What a row's O is multiplied by, and its lse. */
typedef struct row_end {
  float factor, lse;
} row_end;

/* The end of a row of a query head, whose sum of exp2(score - max) over the keys is `sum`; 0 and
 * -inf for a row that saw no key. */
static row_end end_row(const ap_cpu_problem *p, float max, float sum, int64_t head) {
  const double ln_2 = 0.69314718055994530942;
  double base = (double)max, total = (double)sum, part = 1.0;
  if (p->sinks != NULL) {
    const double sink =
        (double)ap_load_element(p->sinks, head * p->sinks_stride, p->sinks_dtype) / ln_2;
    base = sink > base ? sink : base;
    part = base == -INFINITY ? 1.0 : exp2((double)max - base);
    total = total * part + (sink == -INFINITY ? 0.0 : exp2(sink - base));
  }
  return (row_end){.factor = total == 0.0 ? 0.0f : (float)(part / total) * p->dropout.scale,
                   .lse = (float)(base * ln_2 + log(total))};
}

/* What is stored for a natural lse. */
static float stored_lse(const ap_cpu_problem *p, float lse) {
  if (p->lse_empty_pos_inf && lse == -INFINITY)
    return INFINITY;
  return p->lse_log2 ? lse * LOG2_E : lse;
}

/* out = O / sum, lse. */
AP_TARGET static void store_out(const ap_cpu_problem *p, const ap_cpu_scratch *x, int64_t batch,
                                int64_t head_kv, int64_t row_begin, int rows) {
  for (int r = 0; r < rows; ++r) {
    const int64_t row = row_begin + r, head = head_kv * p->group + row % p->group;
    const row_end end = end_row(p, x->row_max[r], x->row_sum[r], head);
    int64_t at = batch * p->out_batch_stride +
                 row_offset(p, row, head_kv, p->out_row_stride, p->out_head_stride);
    for (int c = 0; c < p->hdim_v; c += 8) {
      const float *o = x->o + c / PANEL * PANEL * AP_CPU_ROWS + r * PANEL + c % PANEL;
      float normalised[8];
      for (int i = 0; i < 8; ++i)
        normalised[i] = o[i] * end.factor;
      store_8(p->out, at + c, normalised, p->dtype);
    }
    if (p->lse)
      p->lse[batch * p->lse_batch_stride + head * p->lse_head_stride +
             row / p->group * p->lse_row_stride] = stored_lse(p, end.lse);
  }
}

/* ---- The row block ---- */

/* What the features need to know of each row. Rows that are not there get what harms nobody. */
static void describe_rows(const ap_cpu_problem *p, ap_cpu_scratch *x, int64_t batch,
                          int64_t head_kv, int64_t row_begin, int rows, int rows_padded) {
  for (int r = 0; r < rows_padded; ++r) {
    const int64_t row = row_begin + (r < rows ? r : 0), position = row / p->group;
    const int64_t head = head_kv * p->group + row % p->group;
    x->bias_at[r] =
        batch * p->bias_batch_stride + head * p->bias_head_stride + position * p->bias_row_stride;
    if (p->alibi_slopes != NULL) {
      x->slope[r] =
          r < rows ? p->alibi_slopes[batch * p->alibi_batch_stride + head * p->alibi_head_stride] *
                         LOG2_E
                   : 0.0f;
      x->center[r] = position + p->seqlen_k - p->seqlen_q;
    }
    if (p->dropout.threshold > 0) {
      const ap_dropout_words of_head =
          ap_dropout_head(&p->dropout, batch * p->heads_kv * p->group + head);
      const ap_dropout_words words = ap_dropout_row_words(&of_head, position);
      const int half = position / 8 % 2;
      for (int i = 0; i < 4; ++i) {
        x->word[i][r] = words.word[(i + half) % 4];
        x->head[i][r] = of_head.word[i];
      }
      x->half[r] = half ? UINT32_MAX : 0;
    }
  }
}

AP_TARGET void AP_KERNEL(const ap_cpu_problem *p, ap_cpu_scratch *x, int64_t batch, int64_t head_kv,
                         int64_t row_begin, int rows) {
  const int few = rows <= DOT_ROWS && !p->batch_invariant;
  const int rows_padded = round_up(rows, LANES);
  ap_keys some = {p->seqlen_k, 0},
          all = {0, p->seqlen_k}; /* keys that some row sees, that all do */
  for (int r = 0; r < rows_padded; ++r) {
    x->seen[r] = (ap_keys){0, p->seqlen_k};
    x->row_max[r] = -INFINITY;
    x->row_sum[r] = 0.0f;
    if (r >= rows)
      continue;
    if (p->mask.kind != ATTNPRESS_FULL)
      x->seen[r] = ap_keys_of(&p->mask, (row_begin + r) / p->group);
    const ap_keys seen = x->seen[r];
    if (seen.begin < seen.end) {
      some.begin = seen.begin < some.begin ? seen.begin : some.begin;
      some.end = seen.end > some.end ? seen.end : some.end;
    }
    all.begin = seen.begin > all.begin ? seen.begin : all.begin;
    all.end = seen.end < all.end ? seen.end : all.end;
  }
  if (p->bias != NULL || p->alibi_slopes != NULL || p->dropout.threshold > 0)
    describe_rows(p, x, batch, head_kv, row_begin, rows, rows_padded);
  memset(x->o, 0, (size_t)round_up(p->hdim_v, PANEL) * AP_CPU_ROWS * sizeof(float));
  load_q(p, x, batch, head_kv, row_begin, rows, rows_padded);
  const int64_t aligned = p->batch_invariant ? AP_CPU_KEYS : 16;
  for (int64_t key_begin = some.begin / aligned * aligned; key_begin < some.end;
       key_begin += AP_CPU_KEYS) {
    const int keys = some.end - key_begin < AP_CPU_KEYS ? (int)(some.end - key_begin) : AP_CPU_KEYS;
    load_kv(p, x, batch, head_kv, key_begin, keys);
    if (few) {
      memset(x->s, 0, (size_t)AP_CPU_ROWS * keys * sizeof(float));
      dot_scores(x, round_up(p->hdim, LANES), keys, rows);
    } else {
      scores(x, p->hdim, keys, rows_padded);
    }
    const int whole = key_begin >= all.begin && key_begin + keys <= all.end;
    find_visible(x, key_begin, keys, rows_padded, whole);
    if (p->softcap_log2 > 0.0f)
      cap_scores(p, x, keys, rows_padded);
    if (p->bias != NULL)
      add_bias(p, x, key_begin, rows);
    if (p->alibi_slopes != NULL)
      add_alibi(x, key_begin, keys, rows_padded);
    if (!whole)
      mask_scores(x, keys, rows_padded, key_begin >= all.begin);
    softmax(x, keys, rows_padded);
    if (p->dropout.threshold > 0)
      drop(p, x, key_begin, keys, rows_padded);
    outputs(x, p->hdim_v, rows, p->batch_invariant);
  }
  store_out(p, x, batch, head_kv, row_begin, rows);
}
