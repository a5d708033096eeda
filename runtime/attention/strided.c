/* Strides that may be any, as long as they are not negative. Nothing here looks at memory that a
 * pointer names. */
#include "attention/strided.h"

#include <inttypes.h>

#include "attention/overlap.h"

static const char *const dimension_names[4] = {"batch", "seqlen", "heads", "head_dim"};
static const char *const lse_names[3] = {"batch", "head", "row"};

static int64_t element_bytes(int32_t dtype) {
  return dtype == ATTNPRESS_FP32 ? 4 : 2;
}

int ap_strided_is_empty(const attnpress_tensor *t) {
  return t->shape[0] == 0 || t->shape[1] == 0 || t->shape[2] == 0 || t->shape[3] == 0;
}

/** Bytes from the first element to behind the last fit into 63 bits. */
static int fits(int count, const int64_t *extent, const int64_t *stride, int64_t last,
                int64_t bytes) {
  for (int i = 0; i < count; ++i) {
    int64_t span;
    if (extent[i] > 1 && (__builtin_mul_overflow(extent[i] - 1, stride[i], &span) ||
                          __builtin_add_overflow(last, span, &last)))
      return 0;
  }
  return !__builtin_mul_overflow(last, bytes, &last);
}

static attnpress_status check_layout(const attnpress_tensor *t, const ap_strided *how) {
  RETURN_IF(t->shape[3] > 1 && t->stride[3] != 1, ATTNPRESS_INVALID_ARGUMENT,
            "%s.stride[3] (head_dim) is %" PRId64
            "; it must be 1: the last dimension is contiguous",
            how->name, t->stride[3]);
  for (int i = 0; i < 3; ++i)
    RETURN_IF(t->shape[i] > 1 && t->stride[i] < 0, ATTNPRESS_INVALID_ARGUMENT,
              "%s.stride[%d] (%s) is %" PRId64 " elements; it must not be negative", how->name, i,
              dimension_names[i], t->stride[i]);
  RETURN_IF(!fits(3, t->shape, t->stride, t->shape[3], element_bytes(t->dtype)),
            ATTNPRESS_INVALID_ARGUMENT,
            "%s.stride is %" PRId64 ", %" PRId64 ", %" PRId64
            ", so that the tensor spans more than 2^63 bytes",
            how->name, t->stride[0], t->stride[1], t->stride[2]);
  RETURN_IF(how->written && ap_rows_overlap(3, t->shape, t->stride, t->shape[3]),
            ATTNPRESS_INVALID_ARGUMENT,
            "%s.stride is %" PRId64 ", %" PRId64 ", %" PRId64 " for head_dim %" PRId64
            ", so that rows overlap; sorted, each stride must be at least the span below it",
            how->name, t->stride[0], t->stride[1], t->stride[2], t->shape[3]);
  return ATTNPRESS_OK;
}

attnpress_status ap_strided_check(const attnpress_tensor *t, ap_strided how) {
  RETURN_IF(t->dtype < ATTNPRESS_FP16 || t->dtype > ATTNPRESS_FP32, ATTNPRESS_INVALID_ARGUMENT,
            "%s.dtype is %d; it must be ATTNPRESS_FP16 (1), ATTNPRESS_BF16 (2) or ATTNPRESS_FP32 "
            "(3)",
            how.name, (int)t->dtype);
  RETURN_IF(t->reserved != 0, ATTNPRESS_INVALID_ARGUMENT, "%s.reserved is %d; it must be 0",
            how.name, (int)t->reserved);
  for (int i = 0; i < 4; ++i)
    RETURN_IF(t->shape[i] < 0 || t->shape[i] > INT32_MAX, ATTNPRESS_INVALID_ARGUMENT,
              "%s.shape[%d] (%s) is %" PRId64 "; it must be 0 to %d", how.name, i,
              dimension_names[i], t->shape[i], INT32_MAX);
  FORWARD_IF(check_layout(t, &how));
  if (!how.with_data || ap_strided_is_empty(t))
    return ATTNPRESS_OK;
  RETURN_IF(t->data == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "%s.data is NULL; it may be only where an extent is 0", how.name);
  RETURN_IF((uintptr_t)t->data % (uintptr_t)element_bytes(t->dtype) != 0,
            ATTNPRESS_INVALID_ARGUMENT, "%s.data is %p; it must be aligned to an element, %d bytes",
            how.name, t->data, (int)element_bytes(t->dtype));
  return ATTNPRESS_OK;
}

attnpress_status ap_strided_lse_check(const float *lse, const int64_t extent[3], int64_t stride[3],
                                      ap_strided how) {
  if (stride[0] == 0 && stride[1] == 0 && stride[2] == 0) {
    stride[2] = 1;
    stride[1] = extent[2];
    stride[0] = extent[1] * extent[2]; /* both below 2^31 */
  }
  for (int i = 0; i < 3; ++i)
    RETURN_IF(extent[i] > 1 && stride[i] < 0, ATTNPRESS_INVALID_ARGUMENT,
              "%s_stride[%d] (%s) is %" PRId64
              " elements; it must not be negative, or all three 0 for contiguous",
              how.name, i, lse_names[i], stride[i]);
  RETURN_IF(!fits(3, extent, stride, 1, (int64_t)sizeof(float)), ATTNPRESS_INVALID_ARGUMENT,
            "%s_stride is %" PRId64 ", %" PRId64 ", %" PRId64 ", which spans more than 2^63 bytes",
            how.name, stride[0], stride[1], stride[2]);
  RETURN_IF(how.written && ap_rows_overlap(3, extent, stride, 1), ATTNPRESS_INVALID_ARGUMENT,
            "%s_stride is %" PRId64 ", %" PRId64 ", %" PRId64 " for batch %" PRId64
            ", heads %" PRId64 " and seqlen %" PRId64
            ", so that elements overlap; sorted, each stride must be at least the span below it",
            how.name, stride[0], stride[1], stride[2], extent[0], extent[1], extent[2]);
  if (!how.with_data)
    return ATTNPRESS_OK;
  RETURN_IF((uintptr_t)lse % sizeof(float) != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %p; it must be aligned to 4 bytes", how.name, (const void *)lse);
  return ATTNPRESS_OK;
}

attnpress_status ap_strided_same(const attnpress_tensor *tensor, const char *name,
                                 const attnpress_tensor *other, const char *other_name, int first) {
  for (int i = first; i < 4; ++i)
    RETURN_IF(tensor->shape[i] != other->shape[i], ATTNPRESS_INVALID_ARGUMENT,
              "%s.shape[%d] (%s) is %" PRId64 " and %s's is %" PRId64 "; they must be equal",
              other_name, i, dimension_names[i], other->shape[i], name, tensor->shape[i]);
  return ATTNPRESS_OK;
}
