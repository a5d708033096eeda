/* The tensor maps of Q, K and V: which tensors can have one, from extents and strides alone, and the
 * views that the kernels read. */
#include <string.h>

#include "attention/attention.h"
#include "attention/defaults.h"
#include "core/error.h"
#include "cuda/tensor_map.h"

enum { BATCH, SEQLEN, HEADS, HEAD_DIM }; /* dimensions of an attnpress_tensor */
enum { SLAB_COLUMNS = 64, GROUP_ROWS = 8 };

/* ---- Which tensors fit ----------------------------------------------------------------------- */

/** Heads may be packed, which multiplies their stride. Nothing is loaded of an empty tensor. */
static int fits(const attnpress_tensor *t, int64_t batch, int64_t seqlen) {
  const int64_t heads = t->shape[HEADS];
  return batch == 0 || seqlen == 0 || heads == 0 ||
         (ap_view_stride_fits(batch, t->stride[BATCH], 1) &&
          ap_view_stride_fits(seqlen, t->stride[SEQLEN], 1) &&
          ap_view_stride_fits(heads, t->stride[HEADS], AP_ATTENTION_WARPGROUP_ROWS));
}

int ap_tensor_maps_fit(const attnpress_forward_args *args, int64_t batch, int64_t seqlen_q,
                       int64_t seqlen_k) {
  return fits(&args->q, batch, seqlen_q) && fits(&args->k, batch, seqlen_k) &&
         fits(&args->v, batch, seqlen_k);
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t remainder = a % b;
    a = b;
    b = remainder;
  }
  return a;
}

/** Slabs of a box of K or V in pages: all of them, if they are whole. */
static int32_t box_slabs(const attnpress_tensor *t) {
  return t->shape[HEAD_DIM] % SLAB_COLUMNS == 0 ? (int32_t)(t->shape[HEAD_DIM] / SLAB_COLUMNS) : 1;
}

/** Columns of a step along the dimension that heads and slabs share, both being whole steps. */
static int32_t page_step(const attnpress_tensor *t) {
  _Static_assert((SLAB_COLUMNS & (SLAB_COLUMNS - 1)) == 0, "a power of two");
  const int64_t bits = SLAB_COLUMNS | (t->shape[HEADS] > 1 ? t->stride[HEADS] : 0);
  return (int32_t)(bits & -bits); /* divides both; without a division, as calls ask for it often */
}

/** In 64 bits. A map has heads and slabs apart where a box has one slab alone. */
static int64_t head_step(const attnpress_tensor *t) {
  return box_slabs(t) == 1 ? 1 : t->shape[HEADS] > 1 ? t->stride[HEADS] / page_step(t) : 0;
}

int32_t ap_page_head_step(const attnpress_tensor *t) {
  return (int32_t)head_step(t);
}

/** Steps from the first slab of the first head to the last of the last. */
static int64_t last_step(const attnpress_tensor *t) {
  return (t->shape[HEADS] - 1) * head_step(t) + (box_slabs(t) - 1) * (SLAB_COLUMNS / page_step(t));
}

static int pages_fit(const attnpress_tensor *t) {
  return t->shape[HEADS] == 0 ||
         (ap_view_stride_fits(t->shape[SEQLEN], t->stride[SEQLEN], GROUP_ROWS) &&
          head_step(t) <= INT32_MAX / t->shape[HEADS]);
}

/** Whether keys in pages come in boxes: a box lies in one page, and whole swizzled tiles of 8 rows, from
 * the first key on. */
static int has_boxes(const attnpress_forward_args *args) {
  return args->k.shape[SEQLEN] % GROUP_ROWS == 0 && args->ragged->leftpad_k == NULL &&
         pages_fit(&args->k) && pages_fit(&args->v) &&
         fits(&args->k, args->k.shape[BATCH], args->k.shape[SEQLEN]) &&
         fits(&args->v, args->v.shape[BATCH], args->v.shape[SEQLEN]);
}

/** Whether keys in pages can be gathered: offsets of their rows are counted in 16 bytes, in 32 bits. */
static int gathers(const attnpress_tensor *t) {
  return t->shape[BATCH] == 0 ||
         ((t->shape[BATCH] - 1) * t->stride[BATCH] + (t->shape[SEQLEN] - 1) * t->stride[SEQLEN]) /
                 (16 / 2) <=
             UINT32_MAX;
}

int ap_ragged_maps_fit(const attnpress_forward_args *args) {
  if (!fits(&args->q, args->q.shape[BATCH], args->q.shape[SEQLEN]))
    return 0;
  if (args->ragged->page_table != NULL)
    return has_boxes(args) || (gathers(&args->k) && gathers(&args->v));
  return fits(&args->k, args->k.shape[BATCH], args->k.shape[SEQLEN]) &&
         fits(&args->v, args->v.shape[BATCH], args->v.shape[SEQLEN]);
}

/* ---- Views ----------------------------------------------------------------------------------- */

static ap_view begin_view(const attnpress_tensor *t) {
  const int data_type = t->dtype == ATTNPRESS_FP16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                   : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  return ap_view_begin(t->data, data_type, t->shape[HEAD_DIM], SLAB_COLUMNS);
}

/** (batch, seqlen, heads, head dim): a box has the heads of a tile; those past the last are zeros. */
static ap_view view_queries(const attnpress_tensor *q, const ap_tile *tile,
                            int32_t heads_per_tile) {
  ap_view v = begin_view(q);
  ap_view_add(&v, q->shape[HEADS], q->stride[HEADS], heads_per_tile);
  ap_view_add(&v, q->shape[SEQLEN], q->stride[SEQLEN], ap_consumer_rows(tile) / heads_per_tile);
  ap_view_add(&v, q->shape[BATCH], q->stride[BATCH], 1);
  return v;
}

int32_t ap_page_box_rows(const attnpress_forward_args *args, const ap_tile *tile) {
  return has_boxes(args) ? (int32_t)common_divisor(tile->field[AP_ATTENTION_TILE_BLOCK_N],
                                                   args->k.shape[SEQLEN])
                         : 0;
}

/** (batch, heads, seqlen, head dim). Without keys a map is only prefetched: it then describes one
 * row of memory that is there, that of the queries. */
static ap_view view_keys(const attnpress_tensor *k, const attnpress_tensor *q, int32_t block_n) {
  ap_view v = begin_view(k);
  const int empty = k->shape[SEQLEN] == 0 || k->shape[BATCH] == 0;
  if (empty)
    v.data = q->data;
  ap_view_add(&v, empty ? 1 : k->shape[SEQLEN], k->stride[SEQLEN], block_n);
  ap_view_add(&v, empty ? 1 : k->shape[HEADS], k->stride[HEADS], 1);
  ap_view_add(&v, empty ? 1 : k->shape[BATCH], k->stride[BATCH], 1);
  return v;
}

/** (pages, groups of 8 rows of a page, heads and slabs, rows of a group, columns of a slab): a box is
 * its rows' groups one after the other, each slab by slab. Where slabs are not whole, (pages, groups,
 * heads, rows of a group, head dim). Without keys as above. */
static ap_view view_pages(const attnpress_tensor *k, const attnpress_tensor *q, int32_t box_rows) {
  const int empty = k->shape[SEQLEN] == 0 || k->shape[BATCH] == 0;
  if (empty)
    return view_keys(k, q, box_rows);
  const int32_t slabs = box_slabs(k), step = page_step(k);
  ap_view v = begin_view(k);
  if (slabs > 1)
    v.extents[0] = SLAB_COLUMNS;
  ap_view_add(&v, GROUP_ROWS, k->stride[SEQLEN], GROUP_ROWS);
  if (slabs > 1)
    ap_view_add_steps(&v, last_step(k) + 1, step, slabs, SLAB_COLUMNS / step);
  else
    ap_view_add(&v, k->shape[HEADS], k->stride[HEADS], 1);
  ap_view_add(&v, k->shape[SEQLEN] / GROUP_ROWS, GROUP_ROWS * k->stride[SEQLEN],
              box_rows / GROUP_ROWS);
  ap_view_add(&v, k->shape[BATCH], k->stride[BATCH], 1);
  return v;
}

attnpress_status ap_tensor_maps_encode(ap_maps *maps, const attnpress_forward_args *args,
                                       const ap_plan *plan, int32_t page_box_rows,
                                       attnpress_fwd_sm90_args *kernel_args) {
  const ap_view q = view_queries(&args->q, &plan->tile, plan->heads_per_tile);
  ap_view k, v;
  if (args->ragged != NULL && args->ragged->page_table != NULL) {
    const int32_t rows = page_box_rows;
    k = rows > 0 ? view_pages(&args->k, &args->q, rows) : q; /* which is only prefetched */
    v = rows > 0 ? view_pages(&args->v, &args->q, rows) : q;
  } else {
    const int32_t keys = plan->tile.field[AP_ATTENTION_TILE_BLOCK_N];
    k = view_keys(&args->k, &args->q, keys);
    v = view_keys(&args->v, &args->q, keys);
  }
  FORWARD_IF(ap_view_encode(maps, &q, "q", &kernel_args->q));
  FORWARD_IF(ap_view_encode(maps, &k, "k", &kernel_args->k));
  return ap_view_encode(maps, &v, "v", &kernel_args->v);
}

/** What one serves all of has a stride of 0. Nothing is loaded where there are no keys. */
static int bias_fits(const attnpress_bias *bias, const int64_t extents[3]) {
  for (int i = 0; i < 3; ++i)
    if (!ap_view_stride_fits(extents[i], ap_bias_stride(bias, i), 1))
      return 0;
  return bias->shape[3] > 0;
}

attnpress_status ap_bias_map_encode(ap_maps *maps, const attnpress_forward_args *args,
                                    const ap_tile *tile, attnpress_fwd_sm90_bias_args *out) {
  attnpress_score_args *score = &out->sm90.fwd.score;
  const attnpress_bias *bias = args->bias;
  const int64_t extents[3] = {args->q.shape[BATCH], args->q.shape[HEADS], bias->shape[2]};
  if (score->bias_alignment == 2 && !bias_fits(bias, extents))
    score->bias_alignment = 1;
  if (score->bias_alignment < 2) {
    memset(&out->bias, 0, sizeof out->bias);
    return ATTNPRESS_OK;
  }
  const int data_type = bias->dtype == ATTNPRESS_FP16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                      : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  ap_view v = ap_view_begin((void *)(uintptr_t)bias->data, data_type, bias->shape[3], SLAB_COLUMNS);
  ap_view_add(&v, extents[2], ap_bias_stride(bias, 2), tile->field[AP_ATTENTION_TILE_BLOCK_M]);
  ap_view_add(&v, extents[1], ap_bias_stride(bias, 1), 1);
  ap_view_add(&v, extents[0], ap_bias_stride(bias, 0), 1);
  return ap_view_encode(maps, &v, "bias", &out->bias);
}

/* ---- Backward -------------------------------------------------------------------------------- */

attnpress_status ap_backward_maps_encode(ap_maps *maps, const attnpress_backward_args *args,
                                         const ap_tile *tile, ap_backward_maps to) {
  const int32_t rows = tile->field[AP_ATTENTION_TILE_BLOCK_M];
  const int32_t keys = tile->field[AP_ATTENTION_TILE_BLOCK_N];
  /* Without rows a map is only prefetched, as one without keys above. */
  const ap_view q = view_keys(&args->q, &args->k, rows);
  const ap_view dout = view_keys(&args->dout, &args->k, rows);
  const ap_view k = view_keys(&args->k, &args->q, keys);
  const ap_view v = view_keys(&args->v, &args->q, keys);
  FORWARD_IF(ap_view_encode(maps, &q, "q", to.q));
  FORWARD_IF(ap_view_encode(maps, &dout, "dout", to.dout));
  FORWARD_IF(ap_view_encode(maps, &k, "k", to.k));
  if (to.out != NULL) {
    const ap_view out = view_keys(&args->out, &args->k, rows);
    FORWARD_IF(ap_view_encode(maps, &out, "out", to.out));
  }
  return ap_view_encode(maps, &v, "v", to.v);
}

int ap_backward_maps_fit(const attnpress_backward_args *args, int64_t batch, int64_t seqlen_q,
                         int64_t seqlen_k) {
  return fits(&args->q, batch, seqlen_q) && fits(&args->dout, batch, seqlen_q) &&
         fits(&args->out, batch, seqlen_q) && fits(&args->k, batch, seqlen_k) &&
         fits(&args->v, batch, seqlen_k);
}
