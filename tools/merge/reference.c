/* Merged attention in float64, element by element, and random calls. */
#include "reference.h"

#include <math.h>
#include <string.h>

#include "../rows.h"
#include "cpu/element.h"

/* ---- Calls ----------------------------------------------------------------------------------- */

/** Strides of a tensor in a layout; the elements from its first to behind its last. */
static int64_t lay_out_tensor(const merge_shape *s, attnpress_tensor *t, int32_t dtype) {
  const int64_t gap = s->layout == MERGE_ODD ? 3 : 0, row = s->head_dim + gap;
  const int heads_outside = s->layout == MERGE_HEADS_OUTSIDE;
  *t = (attnpress_tensor){.shape = {s->batch, s->seqlen, s->heads, s->head_dim},
                          .stride = {s->seqlen * s->heads * row + gap,
                                     heads_outside ? row : s->heads * row,
                                     heads_outside ? s->seqlen * row : row, 1},
                          .dtype = dtype};
  if (s->far)
    t->stride[0] = ((int64_t)1 << 31) + t->stride[0] + 3;
  return (s->batch - 1) * t->stride[0] + s->seqlen * s->heads * row;
}

/** (batch, heads, seqlen), or in odd layouts heads as the fastest. */
static int64_t lay_out_lse(const merge_shape *s, int64_t stride[3]) {
  const int odd = s->layout == MERGE_ODD;
  stride[0] = s->heads * s->seqlen + (odd ? 5 : 0);
  stride[1] = odd ? 1 : s->seqlen;
  stride[2] = odd ? s->heads : 1;
  return s->batch * stride[0];
}

void merge_lay_out(merge_problem *p, const merge_shape *s) {
  const int64_t first = s->layout == MERGE_ODD; /* element of each tensor */
  *p = (merge_problem){0};
  for (int i = 0; i < s->num_parts; ++i) {
    p->out_bytes =
        (lay_out_tensor(s, &p->part[i].out, s->dtype) + first) * ap_element_bytes(s->dtype);
    p->out_bytes = (p->out_bytes + 15) / 16 * 16;
    p->lse_bytes = lay_out_lse(s, p->part[i].lse_stride) * 4;
  }
  p->args = (attnpress_merge_args){
      .struct_size = sizeof p->args, .num_parts = s->num_parts, .lse_log2 = s->lse_log2};
  p->bytes[MERGE_OUTS] = s->num_parts * p->out_bytes;
  p->bytes[MERGE_LSES] = s->num_parts * p->lse_bytes;
  p->bytes[MERGE_OUT] =
      (lay_out_tensor(s, &p->args.out, s->out_dtype) + first) * ap_element_bytes(s->out_dtype);
  p->bytes[MERGE_LSE] = lay_out_lse(s, p->args.lse_stride) * 4;
}

void merge_point(merge_problem *p, const merge_shape *s, void *const buffer[MERGE_BUFFERS]) {
  const int64_t first = s->layout == MERGE_ODD;
  for (int i = 0; i < s->num_parts; ++i) {
    p->part[i].out.data =
        (char *)buffer[MERGE_OUTS] + i * p->out_bytes + first * ap_element_bytes(s->dtype);
    p->part[i].lse = (float *)((char *)buffer[MERGE_LSES] + i * p->lse_bytes);
  }
  const attnpress_merge_part *last = &p->part[s->num_parts - 1];
  p->args.parts = p->part;
  p->args.out.data = s->in_place
                         ? last->out.data
                         : (char *)buffer[MERGE_OUT] + first * ap_element_bytes(s->out_dtype);
  p->args.lse = s->no_lse ? NULL : s->in_place ? (float *)(uintptr_t)last->lse : buffer[MERGE_LSE];
}

/* A part has no keys in one of five rows, all have none in one of nine. Parts differ by up to e^20.
 */
static void fill_row(merge_problem *p, uint64_t seed, int64_t b, int64_t i, int64_t h) {
  const int64_t *shape = p->args.out.shape;
  const uint64_t index = (uint64_t)((b * shape[1] + i) * shape[2] + h);
  for (int n = 0; n < p->args.num_parts; ++n) {
    const attnpress_merge_part *part = &p->part[n];
    const uint64_t place = index * 16 + (uint64_t)n;
    const int64_t at = b * part->out.stride[0] + i * part->out.stride[1] + h * part->out.stride[2];
    const int none = index % 9 == 4 || (place * 7 + seed) % 5 == 2;
    float *lse = (float *)(uintptr_t)part->lse + b * part->lse_stride[0] + h * part->lse_stride[1] +
                 i * part->lse_stride[2];
    *lse = none ? (n % 2 ? INFINITY : -INFINITY) : (float)(3.0 + 5.0 * rows_normal(seed, place));
    for (int64_t j = 0; j < shape[3]; ++j)
      rows_store(part->out.data, at + j,
                 none ? NAN : 0.3 + rows_normal(seed + 1, place * (uint64_t)shape[3] + (uint64_t)j),
                 part->out.dtype);
  }
}

void merge_fill(merge_problem *p, uint64_t seed) {
  const int64_t *shape = p->args.out.shape;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t i = 0; i < shape[1]; ++i)
      for (int64_t h = 0; h < shape[2]; ++h)
        fill_row(p, seed, b, i, h);
}

/* ---- Results --------------------------------------------------------------------------------- */

static void compare(merge_error *e, const merge_error *place, double value, double expected,
                    double tolerance) {
  const double ratio = value == expected || (isnan(value) && isnan(expected))
                           ? 0.0
                           : fabs(value - expected) / tolerance;
  ++e->elements;
  if (ratio <= e->ratio)
    return;
  const int64_t elements = e->elements;
  *e = *place;
  e->elements = elements;
  e->ratio = isnan(ratio) ? INFINITY : ratio;
  e->value = value;
  e->expected = expected;
}

void merge_check_row(const attnpress_merge_args *a, const attnpress_merge_part *parts,
                     int64_t index, merge_error *error) {
  const int64_t *shape = a->out.shape;
  merge_error place = {.what = "out",
                       .batch = index / shape[2] / shape[1],
                       .row = index / shape[2] % shape[1],
                       .head = index % shape[2]};
  double weight[ATTNPRESS_MERGE_PARTS_MAX], maximum = -INFINITY, sum = 0.0;
  const double base = a->lse_log2 ? 2.0 : exp(1.0);
  for (int n = 0; n < a->num_parts; ++n) {
    const int64_t *stride = parts[n].lse_stride;
    weight[n] = (double)parts[n]
                    .lse[place.batch * stride[0] + place.head * stride[1] + place.row * stride[2]];
    if (!isinf(weight[n]) && !(weight[n] <= maximum))
      maximum = weight[n];
  }
  for (int n = 0; n < a->num_parts; ++n) {
    weight[n] = isinf(weight[n]) ? 0.0 : pow(base, weight[n] - maximum);
    sum += weight[n];
  }
  for (int64_t j = 0; j < shape[3]; ++j) {
    double expected = 0.0, size = 0.0;
    for (int n = 0; n < a->num_parts; ++n) {
      const int64_t *stride = parts[n].out.stride;
      const int64_t at = place.batch * stride[0] + place.row * stride[1] + place.head * stride[2];
      if (weight[n] == 0.0)
        continue;
      const double term =
          weight[n] / sum * rows_load(parts[n].out.data, at + j, parts[n].out.dtype);
      expected += term;
      size += fabs(term);
    }
    const int64_t at = place.batch * a->out.stride[0] + place.row * a->out.stride[1] +
                       place.head * a->out.stride[2];
    place.column = j;
    compare(error, &place, rows_load(a->out.data, at + j, a->out.dtype), expected,
            rows_rounding(expected, a->out.dtype) + 4e-6 * size);
  }
  if (a->lse == NULL)
    return;
  const double expected = sum == 0.0 ? -INFINITY : maximum + log(sum) / log(base);
  place.what = "lse";
  place.column = 0;
  compare(error, &place,
          (double)a->lse[place.batch * a->lse_stride[0] + place.head * a->lse_stride[1] +
                         place.row * a->lse_stride[2]],
          expected, 1e-5 * fmax(1.0, fabs(expected)));
}

void merge_check(const attnpress_merge_args *a, const attnpress_merge_part *parts,
                 merge_error *error) {
  for (int64_t i = 0; i < a->out.shape[0] * a->out.shape[1] * a->out.shape[2]; ++i)
    merge_check_row(a, parts, i, error);
}
