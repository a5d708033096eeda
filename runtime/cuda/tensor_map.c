/* Tensor maps: what the copy engine (TMA) of compute capability 9.0 is told of Q, K and V. Says
 * which tensors it can be told of, from extents and strides alone, and has the driver encode them.
 * The limits are those of cuTensorMapEncodeTiled (CUDA Driver API, "Tensor Map Object Management").
 */
#include "internal.h"

#include <stdio.h>

enum { BATCH, SEQLEN, HEADS, HEAD_DIM }; /* dimensions of an attnpress_tensor */
enum { ELEMENT_BYTES = 2, RANK_MAX = 5, SLAB_COLUMNS = 64 };
#define STRIDE_MAX_BYTES ((INT64_C(1) << 40) - 1)

/* ---- Which tensors fit ----------------------------------------------------------------------- */

/** Strides of 0, which broadcast, and rows that overlap are fine. Heads may be packed, which
 * multiplies their stride. Nothing is loaded of an empty tensor, and the stride of an extent of 1
 * does not matter. */
static int fits(const attnpress_tensor *t, int64_t batch, int64_t seqlen) {
  const int64_t extents[] = {batch, seqlen, t->shape[HEADS]};
  if (batch == 0 || seqlen == 0 || t->shape[HEADS] == 0)
    return 1;
  for (int i = BATCH; i <= HEADS; ++i) {
    const int64_t most_bytes = STRIDE_MAX_BYTES / (i == HEADS ? AP_ATTENTION_WARPGROUP_ROWS : 1);
    if (extents[i] > 1 && (t->stride[i] < 0 || t->stride[i] > most_bytes / ELEMENT_BYTES))
      return 0;
  }
  return 1;
}

int ap_tensor_maps_fit(const attnpress_forward_args *args, int64_t batch, int64_t seqlen_q,
                       int64_t seqlen_k) {
  return fits(&args->q, batch, seqlen_q) && fits(&args->k, batch, seqlen_k) &&
         fits(&args->v, batch, seqlen_k);
}

/* ---- Encoding -------------------------------------------------------------------------------- */

/** A tensor as the driver wants it: the fastest dimension first, which is contiguous. */
typedef struct view {
  void *data;
  uint32_t rank;
  uint64_t extents[RANK_MAX], strides_bytes[RANK_MAX - 1];
  uint32_t box[RANK_MAX];
} view;

/** Adds the next slower dimension. */
static void add_dimension(view *v, int64_t extent, int64_t stride, int32_t box) {
  const uint64_t row_bytes = v->extents[0] * ELEMENT_BYTES;
  v->strides_bytes[v->rank - 1] = extent > 1 ? (uint64_t)stride * ELEMENT_BYTES : row_bytes;
  v->extents[v->rank] = (uint64_t)extent;
  v->box[v->rank++] = (uint32_t)box;
}

static view begin_view(const attnpress_tensor *t) {
  return (view){
      .data = t->data, .rank = 1, .extents = {(uint64_t)t->shape[HEAD_DIM]}, .box = {SLAB_COLUMNS}};
}

/** (batch, tile heads, seqlen, heads of a tile, head dim) */
static view view_queries(const attnpress_tensor *q, int32_t heads_per_tile) {
  view v = begin_view(q);
  add_dimension(&v, heads_per_tile, q->stride[HEADS], heads_per_tile);
  add_dimension(&v, q->shape[SEQLEN], q->stride[SEQLEN],
                AP_ATTENTION_WARPGROUP_ROWS / heads_per_tile);
  add_dimension(&v, q->shape[HEADS] / heads_per_tile, q->stride[HEADS] * heads_per_tile, 1);
  add_dimension(&v, q->shape[BATCH], q->stride[BATCH], 1);
  return v;
}

/** (batch, heads, seqlen, head dim). Without keys a map is only prefetched: it then describes one
 * row of memory that is there, that of the queries. */
static view view_keys(const attnpress_tensor *k, const attnpress_tensor *q, int32_t block_n) {
  view v = begin_view(k);
  const int empty = k->shape[SEQLEN] == 0;
  if (empty)
    v.data = q->data;
  add_dimension(&v, empty ? 1 : k->shape[SEQLEN], k->stride[SEQLEN], block_n);
  add_dimension(&v, empty ? 1 : k->shape[HEADS], k->stride[HEADS], 1);
  add_dimension(&v, empty ? 1 : k->shape[BATCH], k->stride[BATCH], 1);
  return v;
}

static attnpress_status encode(const ap_driver *driver, const view *v, int32_t dtype,
                               const char *name, attnpress_tensor_map *map) {
  static const uint32_t ones[RANK_MAX] = {1, 1, 1, 1, 1};
  const CUresult result = driver->tensor_map_encode_tiled(
      map,
      dtype == ATTNPRESS_FP16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      v->rank, v->data, v->extents, v->strides_bytes, v->box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS)
    return ATTNPRESS_OK;
  char what[64];
  snprintf(what, sizeof what, "cuTensorMapEncodeTiled of %s", name);
  return ap_driver_fail(driver, result, what);
}

attnpress_status ap_tensor_maps_encode(const ap_driver *driver, const attnpress_forward_args *args,
                                       const ap_plan *plan, attnpress_fwd_sm90_args *kernel_args) {
  const view q = view_queries(&args->q, plan->heads_per_tile);
  const view k = view_keys(&args->k, &args->q, plan->tile.field[AP_ATTENTION_TILE_BLOCK_N]);
  const view v = view_keys(&args->v, &args->q, plan->tile.field[AP_ATTENTION_TILE_BLOCK_N]);
  FORWARD_IF(encode(driver, &q, args->q.dtype, "q", &kernel_args->q));
  FORWARD_IF(encode(driver, &k, args->k.dtype, "k", &kernel_args->k));
  return encode(driver, &v, args->v.dtype, "v", &kernel_args->v);
}
