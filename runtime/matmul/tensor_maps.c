/* The tensor maps of x and W: which calls can have them, and the views that the kernels read. */
#include "cuda/tensor_map.h"
#include "matmul/matmul.h"

enum { SLAB_COLUMNS = 64, ROWS_SPARE = 256 /* a box may end behind the last row */ };

int ap_matmul_maps_fit(const ap_matmul_problem *p) {
  return p->rows <= INT32_MAX - ROWS_SPARE && ap_view_stride_fits(p->rows, p->x_stride, 1) &&
         ap_view_stride_fits(p->n, p->w_stride, 1);
}

/** (1, 1, rows, n) */
static ap_view view(const ap_matmul_problem *p, const void *data, int64_t rows, int64_t stride,
                    int32_t box_rows) {
  const int data_type = p->dtype == ATTNPRESS_FP16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                   : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  ap_view v = ap_view_begin(ATTNPRESS_DATA(data), data_type, p->n, SLAB_COLUMNS);
  ap_view_add(&v, rows, stride, box_rows);
  ap_view_add(&v, 1, 0, 1);
  ap_view_add(&v, 1, 0, 1);
  return v;
}

attnpress_status ap_matmul_maps_encode(ap_maps *maps, const ap_matmul_problem *p,
                                       const ap_tile *tile, attnpress_matmul_args_sm90 *block) {
  const int32_t *field = tile->field;
  const int32_t w_rows = p->transposed ? field[AP_MATMUL_TILE_BLOCK_N] : AP_MATMUL_SM90_BLOCK_K;
  const ap_view x = view(p, p->x, p->rows, p->x_stride, field[AP_MATMUL_TILE_BLOCK_M]);
  const ap_view w = view(p, p->w, p->n, p->w_stride, w_rows);
  FORWARD_IF(ap_view_encode(maps, &x, "x", &block->x));
  return ap_view_encode(maps, &w, "w", &block->w);
}
