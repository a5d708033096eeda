/* The gradients of a key block, of a row block, of a sink and of a bias, included once per instruction set by
 * cpu_backward_plain.c, cpu_backward_avx2.c and cpu_backward_avx512.c, which include the vectors of
 * cpu/ and define before:
 *
 *   AP_KEYS, AP_ROWS, AP_SINK, AP_BIAS   names of the four functions
 *   TILE                                 rows of a register tile, which is two vectors wide
 *
 * Blocks are converted to fp32 and all products are of one form, C += A B with rows of B as vectors;
 * K and V are turned for the two that contract the head dim. */
#include <math.h>
#include <string.h>

#include "attention/cpu_backward_kernel.h"
#include "cpu/element.h"

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

static const float LOG2_E = 1.44269504088896341f;

/* dO of a row block, log2(e) lse, and delta = rowsum(dO out) - dlse. */
AP_TARGET static void load_row_values(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x,
                                      int64_t batch, int64_t first, int count, int64_t head) {
  const int hdim_v = round_up(p->hdim_v, PANEL);
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
      delta -= p->dlse[batch * p->dlse_batch_stride + head * p->dlse_head_stride +
                       (first + r) * p->dlse_row_stride] *
               (p->lse_log2 ? LOG2_E : 1.0f);
    x->delta[r] = delta;
    x->lse_log2[r] = p->lse[batch * p->lse_batch_stride + head * p->lse_head_stride +
                            (first + r) * p->lse_row_stride] *
                     (p->lse_log2 ? 1.0f : LOG2_E);
  }
}

/* The same, and Q. */
AP_TARGET static void load_step(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x,
                                int64_t batch, int64_t first, int count, int64_t head) {
  load_rows(x->q, &p->q, batch, first, count, head, p->hdim, round_up(p->hdim, PANEL), p->dtype);
  load_row_values(p, x, batch, first, count, head);
}

/* A row of a head, and the keys of a block from key_begin on that it sees: first to end - 1. */
typedef struct row_keys {
  int64_t batch, head, row, key_begin;
  int first, end;
  int of_bias; /* 1: dS is that of the bias, before a softcap's derivative */
} row_keys;

/* x->added: bias and ALiBi. */
static void find_added(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x, row_keys at) {
  memset(x->added, 0, sizeof x->added);
  if (p->bias != NULL) {
    const int64_t *stride = p->bias_stride;
    const int64_t from = at.batch * stride[0] + at.head * stride[1] + at.row * stride[2];
    for (int c = at.first; c < at.end; ++c)
      x->added[c] =
          ap_load_element(p->bias, from + (at.key_begin + c) * stride[3], p->bias_dtype) * LOG2_E;
  }
  if (p->alibi_slopes != NULL) {
    const float slope =
        p->alibi_slopes[at.batch * p->alibi_batch_stride + at.head * p->alibi_head_stride] * LOG2_E;
    const int64_t distance = at.row + p->seqlen_k - p->seqlen_q - at.key_begin;
    for (int c = at.first; c < at.end; ++c)
      x->added[c] -= slope * fabsf((float)(distance - c));
  }
}

/* x->head_words and x->key_words. key_begin: a multiple of 16. */
static void find_key_words(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x,
                           int64_t batch, int64_t head, int64_t key_begin) {
  x->head_words = ap_dropout_head(&p->dropout, batch * p->heads_q + head);
  for (int n = 0; n < KEYS / 4; ++n)
    x->key_words[n] = ap_dropout_key_words(&x->head_words, key_begin + n / 4 * 16 + n % 4 * 2);
}

/* x->kept. What is drawn at once decides over four of a row's 16 keys. */
static void find_kept(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x, row_keys at) {
  const ap_dropout *d = &p->dropout;
  const ap_dropout_words rows = ap_dropout_row_words(&x->head_words, at.row);
  for (int c = at.first / 16 * 16; c < at.end; c += 16)
    for (int pair = 0; pair < 8; pair += 2) {
      uint32_t word[4];
      ap_dropout_draw(word, &rows, &x->key_words[c / 4 + pair / 2]);
      for (int i = 0; i < 4; ++i) { /* key and its neighbour, and those 8 behind them */
        const uint32_t both = word[i / 2 * 2 + at.row / 8 % 2];
        const uint32_t decision = i % 2 != 0 ? both >> 16 : both & 0xffff;
        x->kept[c + pair + i / 2 * 8 + i % 2] = decision >= d->threshold ? d->scale : 0.0f;
      }
    }
}

/* P and dS of one row: S and dP become what dV takes of P, and dS. */
AP_TARGET static void score_row(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x, int r,
                                row_keys at) {
  float *row = x->p + r * KEYS, *grad = x->ds + r * KEYS;
  const int adds = p->bias != NULL || p->alibi_slopes != NULL, drops = p->dropout.threshold > 0;
  const vec lse = v_set1(x->lse_log2[r]), delta = v_set1(x->delta[r]);
  const vec scale = v_set1(p->scale_log2), cap_scale = v_set1(p->softcap_scale);
  if (adds)
    find_added(p, x, at);
  if (drops)
    find_kept(p, x, at);
  for (int c = at.first / LANES * LANES; c < at.end; c += LANES) {
    vec score = v_load(row + c), slope = v_set1(1.0f);
    if (p->softcap_scale > 0.0f) {
      score = v_tanh(score * cap_scale);
      slope -= at.of_bias ? v_set1(0.0f) : score * score;
    }
    score *= scale;
    if (adds)
      score += v_load(x->added + c);
    const vec probability = v_exp2(score - lse);
    vec dp = v_load(grad + c), kept = probability;
    if (drops) {
      dp *= v_load(x->kept + c);
      kept *= v_load(x->kept + c);
    }
    v_store(row + c, kept);
    v_store(grad + c, probability * (dp - delta) * slope);
  }
}

/* P and dS, (count, KEYS), of the rows of a step and the keys of a block; zero where a row does not
 * see a key. */
AP_TARGET static void score_step(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x,
                                 int64_t batch, int64_t head, int64_t row_begin, int count,
                                 int64_t key_begin, int keys, int of_bias) {
  const int hdim = round_up(p->hdim, PANEL), hdim_v = round_up(p->hdim_v, PANEL);
  const int columns = round_up(keys, PANEL);
  if (p->dropout.threshold > 0)
    find_key_words(p, x, batch, head, key_begin);
  memset(x->p, 0, (size_t)count * KEYS * sizeof *x->p);
  memset(x->ds, 0, (size_t)count * KEYS * sizeof *x->ds);
  multiply((product){x->p, x->q, x->k_turned, count, columns, p->hdim, hdim, 1, KEYS, KEYS});
  multiply(
      (product){x->ds, x->dout, x->v_turned, count, columns, p->hdim_v, hdim_v, 1, KEYS, KEYS});
  for (int r = 0; r < count; ++r) {
    float *row = x->p + r * KEYS, *grad = x->ds + r * KEYS;
    const ap_keys seen = ap_keys_of(&p->mask, row_begin + r);
    int64_t first = seen.begin - key_begin, end = seen.end - key_begin;
    first = first < 0 ? 0 : first > keys ? keys : first;
    end = end < first || x->lse_log2[r] == -INFINITY ? first : end > keys ? keys : end;
    if (first < end)
      score_row(p, x, r,
                (row_keys){batch, head, row_begin + r, key_begin, (int)first, (int)end, of_bias});
    for (int64_t c = 0; c < first; ++c)
      row[c] = grad[c] = 0.0f;
    for (int64_t c = end; c < columns; ++c)
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
  const int64_t first_row = ap_queries_of(&p->mask, begin).begin;
  const int64_t end_row = ap_queries_of(&p->mask, begin + keys - 1).end;
  for (int64_t h = head * group; h < (head + 1) * group; ++h)
    for (int64_t row = first_row; row < end_row; row += ROWS) {
      const int rows = at_most(end_row - row, ROWS);
      load_step(p, x, batch, row, rows, h);
      score_step(p, x, batch, h, row, rows, begin, keys, 0);
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
  const int64_t key_end = ap_keys_of(&p->mask, begin + rows - 1).end;
  /* Dropout's decisions want a multiple of 16. */
  const int64_t first_key = ap_keys_of(&p->mask, begin).begin / KEYS * KEYS;
  load_step(p, x, batch, begin, rows, head);
  memset(x->sum, 0, (size_t)rows * (size_t)hdim * sizeof *x->sum);
  for (int64_t key = first_key; key < key_end; key += KEYS) {
    const int keys = at_most(p->seqlen_k - key, KEYS);
    load_rows(x->k, &p->k, batch, key, keys, kv_head, p->hdim, hdim, p->dtype);
    load_turned(x->k_turned, &p->k, batch, key, keys, kv_head, p->hdim, p->dtype);
    load_turned(x->v_turned, &p->v, batch, key, keys, kv_head, p->hdim_v, p->dtype);
    score_step(p, x, batch, head, begin, rows, key, keys, 0);
    multiply((product){x->sum, x->ds, x->k, rows, hdim, keys, KEYS, 1, hdim, hdim});
  }
  store_rows(p, &p->dq, x->sum, batch, begin, rows, head, p->hdim, hdim, p->scale);
}

/* dsink = -sum of P delta, P = exp(sink - lse), over batch and rows. */
AP_TARGET void AP_SINK(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x, int64_t batch,
                       int64_t head, int64_t begin) {
  const float sink = ap_load_element(p->sinks, head * p->sinks_stride, p->sinks_dtype) * LOG2_E;
  double sum = 0.0;
  for (; batch < p->batch; ++batch)
    for (int64_t row = begin; row < p->seqlen_q; row += ROWS) {
      const int rows = at_most(p->seqlen_q - row, ROWS);
      load_row_values(p, x, batch, row, rows, head);
      for (int r = 0; r < rows; ++r)
        if (x->lse_log2[r] != -INFINITY)
          sum -= (double)(exp2f(sink - x->lse_log2[r]) * x->delta[r]);
    }
  p->dsinks[head] = (float)(sum + (p->accumulate ? (double)p->dsinks[head] : 0.0));
}

/* Sums of dS, in one order, over what the gradient has one of. */
AP_TARGET static void add_bias_tile(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x,
                                    int64_t batch, int64_t head, int64_t begin, int64_t key,
                                    int keys) {
  const int64_t group = p->heads_q / p->heads_kv;
  const int64_t row_end =
      p->dbias_one[2] ? p->seqlen_q : begin + at_most(p->seqlen_q - begin, ROWS);
  load_turned(x->k_turned, &p->k, batch, key, keys, head / group, p->hdim, p->dtype);
  load_turned(x->v_turned, &p->v, batch, key, keys, head / group, p->hdim_v, p->dtype);
  for (int64_t row = begin; row < row_end; row += ROWS) {
    const int rows = at_most(row_end - row, ROWS);
    load_step(p, x, batch, row, rows, head);
    score_step(p, x, batch, head, row, rows, key, keys, 1);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < keys; ++c)
        x->dbias[(p->dbias_one[2] ? 0 : r) * KEYS + c] += (double)x->ds[r * KEYS + c];
  }
}

AP_TARGET void AP_BIAS(const ap_cpu_backward_problem *p, ap_cpu_backward_scratch *x, int64_t batch,
                       int64_t head, int64_t begin) {
  const int64_t *stride = p->dbias_stride;
  const int64_t batch_end = p->dbias_one[0] ? p->batch : batch + 1;
  const int64_t head_end = p->dbias_one[1] ? p->heads_q : head + 1;
  const int rows = p->dbias_one[2] ? 1 : at_most(p->dbias_rows - begin, ROWS);
  for (int64_t key = 0; key < p->dbias_keys; key += KEYS) {
    const int keys = at_most(p->dbias_keys - key, KEYS);
    memset(x->dbias, 0, sizeof x->dbias);
    for (int64_t b = batch; b < batch_end; ++b) {
      const ap_cpu_backward_problem one = p->sequence != NULL ? p->sequence(p->job, b) : *p;
      if (begin >= one.seqlen_q || key >= one.seqlen_k)
        continue;
      for (int64_t h = head; h < head_end; ++h)
        add_bias_tile(&one, x, b, h, begin, key, at_most(one.seqlen_k - key, KEYS));
    }
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < keys; ++c) {
        const int64_t at =
            batch * stride[0] + head * stride[1] + (begin + r) * stride[2] + (key + c) * stride[3];
        const double there =
            p->accumulate ? (double)ap_load_element(p->dbias, at, p->dbias_dtype) : 0.0;
        ap_store_element(p->dbias, at, (float)(there + x->dbias[r * KEYS + c]), p->dbias_dtype);
      }
  }
}
