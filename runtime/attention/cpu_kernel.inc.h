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

enum { PANEL = 2 * LANES, DOT_ROWS = 4, DOT_KEYS = 4 };
_Static_assert(AP_CPU_ROWS % TILE == 0 && AP_CPU_KEYS % TILE == 0, "tiles fill the blocks");
_Static_assert(AP_CPU_ROWS % PANEL == 0, "panels fill the row block");
_Static_assert(AP_CPU_NUM_PADDING >= (int)PANEL, "room for a padded head dim");
_Static_assert(AP_CPU_KEYS % DOT_KEYS == 0, "dot tiles fill the key block");

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
  if (rows > DOT_ROWS)
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
        float scaled = q[i] * p->scale_log2;
        if (rows > DOT_ROWS)
          x->q[(r / PANEL * p->hdim + d + i) * PANEL + r % PANEL] = scaled;
        else
          x->q[r * hdim_padded + d + i] = scaled;
      }
    }
  }
}

/* Keys [key_begin, key_begin + keys) of K and V; keys up to the next full tile are zero in K. */
AP_TARGET static void load_kv(const ap_cpu_problem *p, ap_cpu_scratch *x, int64_t batch,
                              int64_t head_kv, int64_t key_begin, int keys) {
  int64_t k_at =
      batch * p->k_batch_stride + key_begin * p->k_row_stride + head_kv * p->k_head_stride;
  int64_t v_at =
      batch * p->v_batch_stride + key_begin * p->v_row_stride + head_kv * p->v_head_stride;
  for (int n = 0; n < keys; ++n, k_at += p->k_row_stride)
    convert_row(x->k + n * AP_CPU_K_STRIDE, AP_CPU_K_STRIDE, 0, p->k, k_at, p->hdim, p->dtype);
  for (int n = 0; n < keys; ++n, v_at += p->v_row_stride)
    convert_row(x->v + n * PANEL, PANEL, AP_CPU_KEYS * PANEL, p->v, v_at, p->hdim_v, p->dtype);
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

/* ---- P = exp2(S - max), row maxima and sums ---- */

/* How many keys of the block [key_begin, key_begin + keys) each row sees. */
static void find_visible(ap_cpu_scratch *x, int64_t key_begin, int keys, int rows_padded) {
  for (int r = 0; r < rows_padded; ++r) {
    int64_t limit = x->key_limit[r] - key_begin;
    x->visible[r] = limit < 0 ? 0 : limit > keys ? keys : (int32_t)limit;
  }
}

/* Hides the keys that a row does not see, in a key block that the causal diagonal crosses. */
AP_TARGET static void mask_scores(ap_cpu_scratch *x, int keys, int rows_padded) {
  for (int r = 0; r < rows_padded; r += LANES) {
    ivec visible;
    memcpy(&visible, x->visible + r, sizeof visible);
    for (int n = 0; n < keys; ++n) {
      float *s = x->s + n * AP_CPU_ROWS + r;
      v_store(s, v_select((ivec)(visible > n), v_load(s), v_set1(-INFINITY)));
    }
  }
}

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

/* ---- O = row_scale O + P V ----
 *
 * A row takes the keys that it sees and no others: P is 0 at the others, but 0 times a NaN or an
 * infinity in V is NaN. Later rows see no fewer keys than earlier ones. A tile therefore takes the
 * keys that its first row sees, and then each row by itself the few that it sees beyond those. */

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

AP_INLINE void output_panel(int vectors, ap_cpu_scratch *x, const float *v, float *o, int rows) {
  for (int r = 0, tile; r < rows; r += tile) {
    const int keys = x->visible[r];
    tile = tile_rows(rows - r);
    if (tile == TILE)
      output_tile(TILE, vectors, x->s + r, v, keys, x->row_scale + r, o + r * PANEL);
    else if (tile == 4)
      output_tile(4, vectors, x->s + r, v, keys, x->row_scale + r, o + r * PANEL);
    else if (tile == 2)
      output_tile(2, vectors, x->s + r, v, keys, x->row_scale + r, o + r * PANEL);
    else
      output_tile(1, vectors, x->s + r, v, keys, x->row_scale + r, o + r * PANEL);
    static const float unscaled = 1.0f;
    for (int i = r + 1; i < r + tile; ++i)
      if (x->visible[i] > keys)
        output_tile(1, vectors, x->s + keys * AP_CPU_ROWS + i, v + keys * PANEL,
                    x->visible[i] - keys, &unscaled, o + i * PANEL);
  }
}

AP_TARGET static void outputs(ap_cpu_scratch *x, int hdim_v, int rows) {
  for (int c = 0; c < hdim_v; c += PANEL) {
    const float *v = x->v + c * AP_CPU_KEYS;
    float *o = x->o + c * AP_CPU_ROWS;
    if (hdim_v - c > LANES)
      output_panel(2, x, v, o, rows);
    else
      output_panel(1, x, v, o, rows);
  }
}

/* out = O / row_sum, lse; 0 and -inf for a row that saw no key. */
AP_TARGET static void store_out(const ap_cpu_problem *p, const ap_cpu_scratch *x, int64_t batch,
                                int64_t head_kv, int64_t row_begin, int rows) {
  for (int r = 0; r < rows; ++r) {
    const int64_t row = row_begin + r;
    const float sum = x->row_sum[r];
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    int64_t at = batch * p->out_batch_stride +
                 row_offset(p, row, head_kv, p->out_row_stride, p->out_head_stride);
    for (int c = 0; c < p->hdim_v; c += 8) {
      const float *o = x->o + c / PANEL * PANEL * AP_CPU_ROWS + r * PANEL + c % PANEL;
      float normalised[8];
      for (int i = 0; i < 8; ++i)
        normalised[i] = o[i] * factor;
      store_8(p->out, at + c, normalised, p->dtype);
    }
    if (p->lse)
      p->lse[batch * p->lse_batch_stride +
             (head_kv * p->group + row % p->group) * p->lse_head_stride + row / p->group] =
          (float)(x->row_max[r] * 0.69314718055994530942 + log((double)sum));
  }
}

AP_TARGET void AP_KERNEL(const ap_cpu_problem *p, ap_cpu_scratch *x, int64_t batch, int64_t head_kv,
                         int64_t row_begin, int rows) {
  const int few = rows <= DOT_ROWS;
  const int rows_padded = round_up(rows, LANES);
  int64_t key_end = 0;            /* one past the last key that any row sees */
  int64_t key_full = p->seqlen_k; /* keys below it are seen by every row */
  for (int r = 0; r < rows_padded; ++r) {
    int64_t limit = p->seqlen_k;
    if (p->causal && r < rows)
      limit = (row_begin + r) / p->group + 1 + p->seqlen_k - p->seqlen_q;
    limit = limit < 0 ? 0 : limit > p->seqlen_k ? p->seqlen_k : limit;
    x->key_limit[r] = limit;
    x->row_max[r] = -INFINITY;
    x->row_sum[r] = 0.0f;
    if (r < rows && limit > key_end)
      key_end = limit;
    if (limit < key_full)
      key_full = limit;
  }
  memset(x->o, 0, (size_t)round_up(p->hdim_v, PANEL) * AP_CPU_ROWS * sizeof(float));
  load_q(p, x, batch, head_kv, row_begin, rows, rows_padded);
  for (int64_t key_begin = 0; key_begin < key_end; key_begin += AP_CPU_KEYS) {
    const int keys = key_end - key_begin < AP_CPU_KEYS ? (int)(key_end - key_begin) : AP_CPU_KEYS;
    load_kv(p, x, batch, head_kv, key_begin, keys);
    if (few) {
      memset(x->s, 0, (size_t)AP_CPU_ROWS * keys * sizeof(float));
      dot_scores(x, round_up(p->hdim, LANES), keys, rows);
    } else {
      scores(x, p->hdim, keys, rows_padded);
    }
    find_visible(x, key_begin, keys, rows_padded);
    if (key_begin + keys > key_full)
      mask_scores(x, keys, rows_padded);
    softmax(x, keys, rows_padded);
    outputs(x, p->hdim_v, rows);
  }
  store_out(p, x, batch, head_kv, row_begin, rows);
}
