/* Checks what callers hand in. Nothing here looks at a device or at memory that a pointer names. */
#include "softmax/softmax.h"

#include <inttypes.h>
#include <math.h>

const char *ap_softmax_dtype_name(int32_t dtype) {
  const ap_variant variant = {.family = AP_FAMILY_SOFTMAX, .axis[AP_SOFTMAX_DTYPE] = dtype};
  return ap_word_of(&variant, AP_SOFTMAX_DTYPE);
}

static attnpress_status check_extents(const ap_softmax_problem *p) {
  RETURN_IF(p->rows < 0, ATTNPRESS_INVALID_ARGUMENT, "rows is %" PRId64 "; it must be 0 or more",
            p->rows);
  RETURN_IF(p->columns < 0 || p->columns > ATTNPRESS_SOFTMAX_COLUMNS_MAX,
            ATTNPRESS_INVALID_ARGUMENT, "columns is %" PRId64 "; it must be 0 to %d", p->columns,
            ATTNPRESS_SOFTMAX_COLUMNS_MAX);
  RETURN_IF(ap_softmax_dtype_name(p->dtype) == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "dtype is %d; it must be ATTNPRESS_FP16 (1), ATTNPRESS_BF16 (2) or ATTNPRESS_FP32 (3)",
            (int)p->dtype);
  RETURN_IF(!isfinite(p->scale), ATTNPRESS_INVALID_ARGUMENT,
            "scale is %g; it must be finite, and 0 means 1", (double)p->scale);
  return ATTNPRESS_OK;
}

/** Its rows lie within 2^63 bytes of the first, and an output's do not overlap. */
static attnpress_status check_stride(const ap_softmax_problem *p, const ap_softmax_tensor *t) {
  int64_t span;
  RETURN_IF(t == ap_softmax_output(p) && t->stride > -p->columns && t->stride < p->columns,
            ATTNPRESS_INVALID_ARGUMENT,
            "%s is %" PRId64 " elements, so that rows of %" PRId64
            " columns overlap; its size must be at least that",
            t->stride_name, t->stride, p->columns);
  RETURN_IF(__builtin_mul_overflow(p->rows - 1, t->stride, &span) ||
                __builtin_add_overflow(span, t->stride < 0 ? -p->columns : p->columns, &span) ||
                __builtin_mul_overflow(span, ap_softmax_element_bytes(p), &span),
            ATTNPRESS_INVALID_ARGUMENT,
            "rows %" PRId64 " times %s %" PRId64 " spans more than 2^63 bytes", p->rows,
            t->stride_name, t->stride);
  return ATTNPRESS_OK;
}

static attnpress_status check_data(const ap_softmax_problem *p, const ap_softmax_tensor *t) {
  const ap_softmax_tensor *output = ap_softmax_output(p);
  RETURN_IF(t->data == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "%s is NULL; it may be only where rows or columns is 0", t->name);
  RETURN_IF((uintptr_t)t->data % (uintptr_t)ap_softmax_element_bytes(p) != 0,
            ATTNPRESS_INVALID_ARGUMENT, "%s is %p; it must be aligned to an element, %d bytes",
            t->name, t->data, (int)ap_softmax_element_bytes(p));
  RETURN_IF(t->data == output->data && t->stride != output->stride && p->rows > 1,
            ATTNPRESS_INVALID_ARGUMENT,
            "%s is %s, and %s is %" PRId64 " while %s is %" PRId64
            "; in place they must be the same",
            output->name, t->name, output->stride_name, output->stride, t->stride_name, t->stride);
  return ATTNPRESS_OK;
}

attnpress_status ap_softmax_validate(ap_softmax_problem *p, ap_check how) {
  FORWARD_IF(check_extents(p));
  if (p->scale == 0.0f)
    p->scale = 1.0f;
  if (p->rows == 0 || p->columns == 0)
    return ATTNPRESS_OK;
  for (int32_t i = 0; i < p->tensor_count; ++i) {
    if (p->tensor[i].stride == 0)
      p->tensor[i].stride = p->columns;
    /* A range is of any strides, and those of a single row mean nothing. */
    if (p->rows > 1 && how.range == ATTNPRESS_ONE_CALL)
      FORWARD_IF(check_stride(p, &p->tensor[i]));
  }
  for (int32_t i = 0; how.with_data && i < p->tensor_count; ++i)
    FORWARD_IF(check_data(p, &p->tensor[i]));
  return ATTNPRESS_OK;
}
