/* Checks what callers hand in. Nothing here looks at a device or at memory that a pointer names. */
#include "matmul/matmul.h"

#include <inttypes.h>

#include "cpu/element.h"

enum { ALIGNMENT_BYTES = 16, N_STEP = 8 };

const char *ap_matmul_dtype_name(int32_t dtype) {
  const ap_variant variant = {.family = AP_FAMILY_MATMUL, .axis[AP_MATMUL_DTYPE] = dtype};
  return ap_word_of(&variant, AP_MATMUL_DTYPE);
}

static attnpress_status check_words(const ap_matmul_problem *p) {
  RETURN_IF(ap_matmul_dtype_name(p->dtype) == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "dtype is %d; it must be ATTNPRESS_FP16 (1) or ATTNPRESS_BF16 (2)", (int)p->dtype);
  RETURN_IF(p->w_dtype != p->dtype && p->w_dtype != ATTNPRESS_FP32, ATTNPRESS_INVALID_ARGUMENT,
            "w_dtype is %d; it must be that of x, %d, or ATTNPRESS_FP32 (3)", (int)p->w_dtype,
            (int)p->dtype);
  RETURN_IF(p->transposed != 0 && p->transposed != 1, ATTNPRESS_INVALID_ARGUMENT,
            "transposed is %d; it must be 0 or 1", (int)p->transposed);
  RETURN_IF(p->rows < 0, ATTNPRESS_INVALID_ARGUMENT, "rows is %" PRId64 "; it must be 0 or more",
            p->rows);
  RETURN_IF(p->n < 0 || p->n > ATTNPRESS_MATMUL_N_MAX || p->n % N_STEP != 0,
            ATTNPRESS_INVALID_ARGUMENT, "n is %" PRId64 "; it must be a multiple of %d up to %d",
            p->n, N_STEP, ATTNPRESS_MATMUL_N_MAX);
  return ATTNPRESS_OK;
}

/** Rows that do not overlap, begin at multiples of 16 bytes, and lie within 2^63 bytes. */
static attnpress_status check_stride(const char *name, int64_t stride, int64_t rows, int64_t n,
                                     int32_t dtype) {
  int64_t span;
  const int64_t step = ALIGNMENT_BYTES / ap_element_bytes(dtype);
  RETURN_IF(stride < n, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %" PRId64 " elements, so that rows of %" PRId64
            " overlap; it must be at least that",
            name, stride, n);
  RETURN_IF(stride % step != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %" PRId64 " elements; it must be a multiple of %" PRId64 ", %d bytes", name,
            stride, step, (int)ALIGNMENT_BYTES);
  RETURN_IF(__builtin_mul_overflow(rows, stride, &span) ||
                __builtin_mul_overflow(span, ap_element_bytes(dtype), &span),
            ATTNPRESS_INVALID_ARGUMENT,
            "%s %" PRId64 " times %" PRId64 " rows spans more than 2^63 bytes", name, stride, rows);
  return ATTNPRESS_OK;
}

static attnpress_status check_pointer(const char *name, const void *data) {
  RETURN_IF(data == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "%s is NULL; it may be only where rows or n is 0", name);
  RETURN_IF((uintptr_t)data % ALIGNMENT_BYTES != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %p; it must be %d-byte aligned", name, data, (int)ALIGNMENT_BYTES);
  return ATTNPRESS_OK;
}

/** Whether a row of x has some of the bytes from `begin` to `end`, which count from its first. */
static int touches_x(const ap_matmul_problem *p, int64_t begin, int64_t end) {
  const int64_t size = ap_element_bytes(p->dtype), row_bytes = p->n * size;
  const int64_t stride = p->x_stride * size;
  if (end <= 0 || p->rows == 1)
    return end > 0 && begin < row_bytes;
  const int64_t row = begin < row_bytes ? 0 : (begin - row_bytes) / stride + 1; /* ends behind it */
  return row < p->rows && row * stride < end;
}

/** Whether W has an element of x. Rows of one may lie between those of the other. */
static int overlaps_x(const ap_matmul_problem *p) {
  const int64_t size = ap_element_bytes(p->w_dtype), rows = p->w_stride == p->n ? 1 : p->n;
  const int64_t row_bytes = p->n * size * (rows == 1 ? p->n : 1), stride = p->w_stride * size;
  const int64_t begin = (int64_t)((uintptr_t)p->w - (uintptr_t)p->x);
  if (!touches_x(p, begin, begin + (rows - 1) * stride + row_bytes))
    return 0;
  int overlaps = 0;
  for (int64_t row = 0; row < rows && !overlaps; ++row)
    overlaps = touches_x(p, begin + row * stride, begin + row * stride + row_bytes);
  return overlaps;
}

attnpress_status ap_matmul_validate(ap_matmul_problem *p, ap_check how) {
  if (p->w_dtype == 0)
    p->w_dtype = p->dtype;
  FORWARD_IF(check_words(p));
  if (ap_matmul_is_empty(p) && how.range == ATTNPRESS_ONE_CALL)
    return ATTNPRESS_OK;
  if (p->x_stride == 0)
    p->x_stride = p->n;
  if (p->w_stride == 0)
    p->w_stride = p->n;
  if (how.range == ATTNPRESS_ONE_CALL) { /* a range is of any strides */
    if (p->rows > 1)                     /* that of a single row means nothing */
      FORWARD_IF(check_stride("x_stride", p->x_stride, p->rows, p->n, p->dtype));
    FORWARD_IF(check_stride("w_stride", p->w_stride, p->n, p->n, p->w_dtype));
  }
  if (!how.with_data)
    return ATTNPRESS_OK;
  FORWARD_IF(check_pointer("x", p->x));
  FORWARD_IF(check_pointer("w", p->w));
  RETURN_IF(overlaps_x(p), ATTNPRESS_INVALID_ARGUMENT,
            "w at %p has elements of x at %p; W must not overlap what is written", p->w, p->x);
  return ATTNPRESS_OK;
}
