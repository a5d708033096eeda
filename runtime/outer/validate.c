/* Checks what callers hand in. Nothing here looks at a device or at memory that a pointer names. */
#include "outer/outer.h"

#include <inttypes.h>

const char *ap_outer_dtype_name(int32_t dtype) {
  const ap_variant variant = {.family = AP_FAMILY_OUTER, .axis[AP_OUTER_DTYPE] = dtype};
  return dtype == ATTNPRESS_OUTER_FP64 ? "fp64" : ap_word_of(&variant, AP_OUTER_DTYPE);
}

static attnpress_status check_extent(const char *name, int64_t value, int64_t most) {
  RETURN_IF(value < 0 || value > most, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %" PRId64 "; it must be 0 to %" PRId64, name, value, most);
  return ATTNPRESS_OK;
}

static attnpress_status check_dtype(const ap_outer_problem *p, ap_check how) {
  RETURN_IF(
      ap_outer_dtype_name(p->dtype) == NULL, ATTNPRESS_INVALID_ARGUMENT,
      "dtype is %d; it must be ATTNPRESS_FP16 (1), ATTNPRESS_BF16 (2), ATTNPRESS_FP32 (3) or, "
      "on the CPU, ATTNPRESS_OUTER_FP64 (4)",
      (int)p->dtype);
  RETURN_IF(p->dtype == ATTNPRESS_OUTER_FP64 && how.backend != ATTNPRESS_CPU,
            ATTNPRESS_NOT_SUPPORTED, "dtype is ATTNPRESS_OUTER_FP64, which only the CPU has");
  RETURN_IF(p->summed != 0 && p->summed != 1, ATTNPRESS_INVALID_ARGUMENT,
            "summed is %d; it must be 0 or 1", (int)p->summed);
  return ATTNPRESS_OK;
}

/** A dimension of a tensor, for strides. */
typedef struct extent {
  const char *name;
  int64_t count, stride;
} extent;

static int64_t size_of(int64_t stride) {
  return stride == INT64_MIN ? INT64_MAX : stride < 0 ? -stride : stride;
}

/** The bytes that it spans fit into 63 bits; of an output, entries of the outer dimension lie beyond
 * the inner ones: those are `inner` elements. */
static attnpress_status check_stride(const ap_outer_problem *p, const extent *e, int64_t inner,
                                     int output) {
  int64_t span;
  RETURN_IF(output && e->count > 1 && size_of(e->stride) < inner, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %" PRId64
            " elements, so that what lies that far apart overlaps; its size must be "
            "at least %" PRId64,
            e->name, e->stride, inner);
  RETURN_IF(e->stride == INT64_MIN || __builtin_mul_overflow(e->count, size_of(e->stride), &span) ||
                __builtin_add_overflow(span, inner, &span) ||
                __builtin_mul_overflow(span, ap_outer_bytes(p), &span),
            ATTNPRESS_INVALID_ARGUMENT,
            "%s %" PRId64 " times %" PRId64 " spans more than 2^63 bytes", e->name, e->stride,
            e->count);
  return ATTNPRESS_OK;
}

static attnpress_status check_strides(const ap_outer_problem *p) {
  const int output = !p->backward;
  const extent x = {"x_stride", p->batch, p->x_stride}, y = {"y_stride", p->batch, p->y_stride};
  const extent dx = {"dx_stride", p->batch, p->dx_stride},
               dy = {"dy_stride", p->batch, p->dy_stride};
  const extent rows = {output ? "c_row_stride" : "dc_row_stride", p->rows, p->c_row_stride};
  const extent batch = {output ? "c_batch_stride" : "dc_batch_stride", p->summed ? 1 : p->batch,
                        p->c_batch_stride};
  FORWARD_IF(check_stride(p, &x, p->rows, 0));
  FORWARD_IF(check_stride(p, &y, p->columns, 0));
  FORWARD_IF(check_stride(p, &rows, p->columns, output));
  FORWARD_IF(
      check_stride(p, &batch, (p->rows - 1) * size_of(p->c_row_stride) + p->columns, output));
  if (p->backward) {
    FORWARD_IF(check_stride(p, &dx, p->rows, p->dx != NULL));
    FORWARD_IF(check_stride(p, &dy, p->columns, p->dy != NULL));
  }
  return ATTNPRESS_OK;
}

static attnpress_status check_pointer(const ap_outer_problem *p, const char *name, const void *data,
                                      int needed) {
  RETURN_IF(data == NULL && needed, ATTNPRESS_INVALID_ARGUMENT,
            "%s is NULL; it may be only where it has no elements", name);
  RETURN_IF((uintptr_t)data % (uintptr_t)ap_outer_bytes(p) != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %p; it must be aligned to an element, %d bytes", name, data,
            (int)ap_outer_bytes(p));
  return ATTNPRESS_OK;
}

static void fill_strides(ap_outer_problem *p) {
  const struct {
    int64_t *stride, otherwise;
  } strides[] = {{&p->x_stride, p->rows},
                 {&p->y_stride, p->columns},
                 {&p->c_row_stride, p->columns},
                 {&p->dx_stride, p->rows},
                 {&p->dy_stride, p->columns}};
  for (size_t i = 0; i < sizeof strides / sizeof *strides; ++i)
    if (*strides[i].stride == 0)
      *strides[i].stride = strides[i].otherwise;
  if (p->summed)
    p->c_batch_stride = 0;
  else if (p->c_batch_stride == 0 &&
           __builtin_mul_overflow(p->rows, p->c_row_stride, &p->c_batch_stride))
    p->c_batch_stride = INT64_MAX; /* refused with what it spans */
}

attnpress_status ap_outer_validate(ap_outer_problem *p, ap_check how) {
  FORWARD_IF(check_dtype(p, how));
  FORWARD_IF(check_extent("batch", p->batch, INT64_MAX));
  FORWARD_IF(check_extent("rows", p->rows, INT32_MAX));
  FORWARD_IF(check_extent("columns", p->columns, INT32_MAX));
  if (ap_outer_is_empty(p) && how.range == ATTNPRESS_ONE_CALL)
    return ATTNPRESS_OK;
  fill_strides(p);
  if (how.range == ATTNPRESS_ONE_CALL) /* a range is of any strides */
    FORWARD_IF(check_strides(p));
  if (!how.with_data)
    return ATTNPRESS_OK;
  FORWARD_IF(check_pointer(p, "x", p->x, p->batch > 0 && p->rows > 0));
  FORWARD_IF(check_pointer(p, "y", p->y, p->batch > 0 && p->columns > 0));
  FORWARD_IF(check_pointer(p, p->backward ? "dc" : "c", p->c, p->rows > 0 && p->columns > 0));
  FORWARD_IF(check_pointer(p, "dx", p->dx, 0));
  return check_pointer(p, "dy", p->dy, 0);
}
