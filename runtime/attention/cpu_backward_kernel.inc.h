/* The gradients of a key block and of a row block, included once per instruction set by
 * cpu_backward_plain.c, cpu_backward_avx2.c and cpu_backward_avx512.c, which include the vectors of
 * cpu/ and define before:
 *
 *   AP_KEYS, AP_ROWS   names of the two functions
 *   TILE               rows of a register tile, which is two vectors wide
 *
 * Blocks are converted to fp32 and all products are of one form, C += A B with rows of B as vectors;
 * K and V are turned for the two that contract the head dim. */
#include <math.h>
#include <string.h>

#include "attention/cpu_backward_kernel.h"

enum { PANEL = 2 * LANES, ROWS = AP_CPU_BACKWARD_ROWS, KEYS = AP_CPU_BACKWARD_KEYS };
_Static_assert(KEYS % (int)PANEL == 0, "panels fill the key block");
_Static_assert(512 % (int)PANEL == 0 && (int)PANEL <= 32, "room for a padded head dim");

static inline int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* C (m, n) += A (m, depth) B (depth, n): A's element (i, k) is a[i * a_row + k * a_column], rows of B
 * and C are ldb and ldc apart. n is a multiple of PANEL. */
typedef struct product {
  float *c;
  const float *a, *b;
  int m, n, depth, a_row, a_column, ldb, ldc;
} product;

AP_INLINE void product_tile(int rows, const product *x, int i, int j) {
  vec sum[TILE][2];
  AP_UNROLL for (int r = 0; r < rows; ++r) {
    sum[r][0] = v_load(x->c + (i + r) * x->ldc + j);
    sum[r][1] = v_load(x->c + (i + r) * x->ldc + j + LANES);
  }
  const float *a = x->a + i * x->a_row, *b = x->b + j;
  for (int k = 0; k < x->depth; ++k, a += x->a_column, b += x->ldb) {
    const vec low = v_load(b), high = v_load(b + LANES);
    AP_UNROLL for (int r = 0; r < rows; ++r) {
      const vec factor = v_set1(a[r * x->a_row]);
      sum[r][0] = v_fma(factor, low, sum[r][0]);
      sum[r][1] = v_fma(factor, high, sum[r][1]);
    }
  }
  AP_UNROLL for (int r = 0; r < rows; ++r) {
    v_store(x->c + (i + r) * x->ldc + j, sum[r][0]);
    v_store(x->c + (i + r) * x->ldc + j + LANES, sum[r][1]);
  }
}

AP_TARGET static void multiply(product x) {
  for (int j = 0; j < x.n; j += PANEL) {
    int i = 0;
    for (; i + TILE <= x.m; i += TILE)
      product_tile(TILE, &x, i, j);
    for (; i < x.m; ++i)
      product_tile(1, &x, i, j);
  }
}

/* ---- Rows between memory and scratch --------------------------------------------------------- */

static inline int64_t offset_of(const ap_cpu_tensor *t, int64_t batch, int64_t row, int64_t head) {
  return batch * t->batch_stride + row * t->row_stride + head * t->head_stride;
}

/* rows: (count, columns), `columns_padded` apart, zeros behind. */
AP_TARGET static void load_rows(float *rows, const ap_cpu_tensor *t, int64_t batch, int64_t first,
                                int count, int64_t head, int columns, int columns_padded,
                                int dtype) {
  for (int r = 0; r < count; ++r) {
    const int64_t at = offset_of(t, batch, first + r, head);
    float *row = rows + r * columns_padded;
    for (int c = 0; c < columns; c += 8)
      load_8(row + c, t->data, at + c, dtype);
    memset(row + columns, 0, (size_t)(columns_padded - columns) * sizeof *row);
  }
}

/* turned: (columns, KEYS); keys from `count` on are zeros. */
AP_TARGET static void load_turned(float *turned, const ap_cpu_tensor *t, int64_t batch,
                                  int64_t first, int count, int64_t head, int columns, int dtype) {
  memset(turned, 0, (size_t)columns * KEYS * sizeof *turned);
  for (int r = 0; r < count; ++r) {
    const int64_t at = offset_of(t, batch, first + r, head);
    for (int c = 0; c < columns; c += 8) {
      float eight[8];
      load_8(eight, t->data, at + c, dtype);
      for (int i = 0; i < 8; ++i)
        turned[(c + i) * KEYS + r] = eight[i];
    }
  }
}

/* Writes a gradient, times `scale`, or adds it to what is there. */
AP_TARGET static void store_rows(const ap_cpu_backward_problem *p, const ap_cpu_tensor *t,
                                 const float *rows, int64_t batch, int64_t first, int count,
                                 int64_t head, int columns, int columns_padded, float scale) {
  for (int r = 0; r < count; ++r) {
    const int64_t at = offset_of(t, batch, first + r, head);
    for (int c = 0; c < columns; c += 8) {
      float eight[8] = {0};
      if (p->accumulate)
        load_8(eight, t->data, at + c, p->dtype);
      for (int i = 0; i < 8; ++i)
        eight[i] += rows[r * columns_padded + c + i] * scale;
      store_8(t->data, at + c, eight, p->dtype);
    }
  }
}

/* ---- Rows of a step -------------------------------------------------------------------------- */

/* Q and dO of a row block, log2(e) lse, and delta = rowsum(dO out) - dlse. */
AP_TARGET static void load_step(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x,
                                int64_t batch, int64_t first, int count, int64_t head) {
  const int hdim = round_up(p->hdim, PANEL), hdim_v = round_up(p->hdim_v, PANEL);
  load_rows(x->q, &p->q, batch, first, count, head, p->hdim, hdim, p->dtype);
  load_rows(x->dout, &p->dout, batch, first, count, head, p->hdim_v, hdim_v, p->dtype);
  for (int r = 0; r < count; ++r) {
    const int64_t at = offset_of(&p->out, batch, first + r, head);
    float delta = 0.0f;
    for (int c = 0; c < p->hdim_v; c += 8) {
      float out[8];
      load_8(out, p->out.data, at + c, p->dtype);
      for (int i = 0; i < 8; ++i)
        delta += out[i] * x->dout[r * hdim_v + c + i];
    }
    if (p->dlse != NULL)
      delta -= p->dlse[batch * p->dlse_batch_stride + head * p->dlse_head_stride + first + r];
    x->delta[r] = delta;
    x->lse_log2[r] = p->lse[batch * p->lse_batch_stride + head * p->lse_head_stride + first + r] *
                     1.44269504088896341f;
  }
}

/* P and dS, (count, KEYS), of the rows of a step and the keys of a block; zero where a row does not
 * see a key. */
AP_TARGET static void score_step(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x,
                                 int64_t row_begin, int count, int64_t key_begin, int keys) {
  const int hdim = round_up(p->hdim, PANEL), hdim_v = round_up(p->hdim_v, PANEL);
  const int columns = round_up(keys, PANEL);
  memset(x->p, 0, (size_t)count * KEYS * sizeof *x->p);
  memset(x->ds, 0, (size_t)count * KEYS * sizeof *x->ds);
  multiply((product){x->p, x->q, x->k_turned, count, columns, p->hdim, hdim, 1, KEYS, KEYS});
  multiply(
      (product){x->ds, x->dout, x->v_turned, count, columns, p->hdim_v, hdim_v, 1, KEYS, KEYS});
  for (int r = 0; r < count; ++r) {
    float *row = x->p + r * KEYS, *grad = x->ds + r * KEYS;
    int64_t seen = p->seqlen_k - key_begin;
    if (p->causal && row_begin + r + 1 + p->seqlen_k - p->seqlen_q - key_begin < seen)
      seen = row_begin + r + 1 + p->seqlen_k - p->seqlen_q - key_begin;
    if (seen < 0 || x->lse_log2[r] == -INFINITY)
      seen = 0;
    const vec lse = v_set1(x->lse_log2[r]), delta = v_set1(x->delta[r]);
    const vec scale = v_set1(p->scale_log2);
    for (int c = 0; c < columns && c < seen; c += LANES) {
      const vec probability = v_exp2(v_load(row + c) * scale - lse);
      v_store(row + c, probability);
      v_store(grad + c, probability * (v_load(grad + c) - delta));
    }
    for (int64_t c = seen; c < columns; ++c)
      row[c] = grad[c] = 0.0f;
  }
}

/* ---- The blocks ------------------------------------------------------------------------------ */

static inline int at_most(int64_t left, int most) {
  return left < most ? (int)left : most;
}

AP_TARGET void AP_KEYS(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x, int64_t batch,
                       int64_t head, int64_t begin) {
  const int hdim = round_up(p->hdim, PANEL), hdim_v = round_up(p->hdim_v, PANEL);
  const int keys = at_most(p->seqlen_k - begin, KEYS);
  const int64_t group = p->heads_q / p->heads_kv;
  load_turned(x->k_turned, &p->k, batch, begin, keys, head, p->hdim, p->dtype);
  load_turned(x->v_turned, &p->v, batch, begin, keys, head, p->hdim_v, p->dtype);
  memset(x->sum, 0, (size_t)keys * (size_t)hdim * sizeof *x->sum);
  memset(x->sum_v, 0, (size_t)keys * (size_t)hdim_v * sizeof *x->sum_v);
  int64_t first_row = p->causal ? begin - p->seqlen_k + p->seqlen_q : 0;
  if (first_row < 0)
    first_row = 0;
  for (int64_t h = head * group; h < (head + 1) * group; ++h)
    for (int64_t row = first_row; row < p->seqlen_q; row += ROWS) {
      const int rows = at_most(p->seqlen_q - row, ROWS);
      load_step(p, x, batch, row, rows, h);
      score_step(p, x, row, rows, begin, keys);
      multiply((product){x->sum_v, x->p, x->dout, keys, hdim_v, rows, 1, KEYS, hdim_v, hdim_v});
      multiply((product){x->sum, x->ds, x->q, keys, hdim, rows, 1, KEYS, hdim, hdim});
    }
  store_rows(p, &p->dk, x->sum, batch, begin, keys, head, p->hdim, hdim, p->scale);
  store_rows(p, &p->dv, x->sum_v, batch, begin, keys, head, p->hdim_v, hdim_v, 1.0f);
}

AP_TARGET void AP_ROWS(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x, int64_t batch,
                       int64_t head, int64_t begin) {
  const int hdim = round_up(p->hdim, PANEL);
  const int rows = at_most(p->seqlen_q - begin, ROWS);
  const int64_t kv_head = head / (p->heads_q / p->heads_kv);
  int64_t key_end = p->seqlen_k;
  if (p->causal && begin + rows + p->seqlen_k - p->seqlen_q < key_end)
    key_end = begin + rows + p->seqlen_k - p->seqlen_q;
  load_step(p, x, batch, begin, rows, head);
  memset(x->sum, 0, (size_t)rows * (size_t)hdim * sizeof *x->sum);
  for (int64_t key = 0; key < key_end; key += KEYS) {
    const int keys = at_most(p->seqlen_k - key, KEYS);
    load_rows(x->k, &p->k, batch, key, keys, kv_head, p->hdim, hdim, p->dtype);
    load_turned(x->k_turned, &p->k, batch, key, keys, kv_head, p->hdim, p->dtype);
    load_turned(x->v_turned, &p->v, batch, key, keys, kv_head, p->hdim_v, p->dtype);
    score_step(p, x, begin, rows, key, keys);
    multiply((product){x->sum, x->ds, x->k, rows, hdim, keys, KEYS, 1, hdim, hdim});
  }
  store_rows(p, &p->dq, x->sum, batch, begin, rows, head, p->hdim, hdim, p->scale);
}
