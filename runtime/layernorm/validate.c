/* Checks what callers hand in. Nothing here looks at a device or at memory that a pointer names. */
#include "layernorm/layernorm.h"

#include <inttypes.h>
#include <math.h>

static const float EPS_DEFAULT = 1e-5f;

const char *ap_layernorm_dtype_name(int32_t dtype) {
  const ap_variant variant = {.family = AP_FAMILY_LAYERNORM, .axis[AP_LAYERNORM_DTYPE] = dtype};
  return ap_word_of(&variant, AP_LAYERNORM_DTYPE);
}

static attnpress_status check_dtype(const char *name, int32_t dtype, const char *zero) {
  RETURN_IF(ap_layernorm_dtype_name(dtype) == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %d; it must be ATTNPRESS_FP16 (1), ATTNPRESS_BF16 (2) or ATTNPRESS_FP32 (3)%s",
            name, (int)dtype, zero);
  return ATTNPRESS_OK;
}

static attnpress_status check_extents(const ap_layernorm_problem *p) {
  RETURN_IF(p->rows < 0, ATTNPRESS_INVALID_ARGUMENT, "rows is %" PRId64 "; it must be 0 or more",
            p->rows);
  RETURN_IF(p->columns < 0 || p->columns > ATTNPRESS_LAYERNORM_COLUMNS_MAX,
            ATTNPRESS_INVALID_ARGUMENT, "columns is %" PRId64 "; it must be 0 to %d", p->columns,
            ATTNPRESS_LAYERNORM_COLUMNS_MAX);
  FORWARD_IF(check_dtype("dtype", p->dtype, ""));
  FORWARD_IF(check_dtype("param_dtype", p->param_dtype, ", and 0 means dtype"));
  RETURN_IF(p->rms != 0 && p->rms != 1, ATTNPRESS_INVALID_ARGUMENT, "rms is %d; it must be 0 or 1",
            (int)p->rms);
  RETURN_IF(!p->backward && !(p->eps > 0.0f && isfinite(p->eps)), ATTNPRESS_INVALID_ARGUMENT,
            "eps is %g; it must be positive and finite, and 0 means 1e-5", (double)p->eps);
  return ATTNPRESS_OK;
}

/** Its rows lie within 2^63 bytes of the first, and an output's do not overlap. */
static attnpress_status check_stride(const ap_layernorm_problem *p, const ap_layernorm_tensor *t) {
  int64_t span;
  RETURN_IF(t->output && t->stride > -p->columns && t->stride < p->columns,
            ATTNPRESS_INVALID_ARGUMENT,
            "%s is %" PRId64 " elements, so that rows of %" PRId64
            " columns overlap; its size must be at least that",
            t->stride_name, t->stride, p->columns);
  RETURN_IF(__builtin_mul_overflow(p->rows - 1, t->stride, &span) ||
                __builtin_add_overflow(span, t->stride < 0 ? -p->columns : p->columns, &span) ||
                __builtin_mul_overflow(span, ap_element_bytes(p->dtype), &span),
            ATTNPRESS_INVALID_ARGUMENT,
            "rows %" PRId64 " times %s %" PRId64 " spans more than 2^63 bytes", p->rows,
            t->stride_name, t->stride);
  return ATTNPRESS_OK;
}

static attnpress_status check_alignment(const char *name, const void *data, int64_t bytes) {
  RETURN_IF((uintptr_t)data % (uintptr_t)bytes != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s is %p; it must be aligned to an element, %d bytes", name, data, (int)bytes);
  return ATTNPRESS_OK;
}

static attnpress_status check_tensor(const ap_layernorm_problem *p, const ap_layernorm_tensor *t) {
  RETURN_IF(t->data == NULL && !t->optional, ATTNPRESS_INVALID_ARGUMENT,
            "%s is NULL; it may be only where rows or columns is 0", t->name);
  FORWARD_IF(check_alignment(t->name, t->data, ap_element_bytes(p->dtype)));
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    const ap_layernorm_tensor *other = &p->tensor[i];
    if (other == t || other->data == NULL || other->data != t->data || !other->output)
      continue;
    RETURN_IF(t->output, ATTNPRESS_INVALID_ARGUMENT, "%s is %s; they must be two tensors", t->name,
              other->name);
    RETURN_IF(t->stride != other->stride && p->rows > 1, ATTNPRESS_INVALID_ARGUMENT,
              "%s is %s, and %s is %" PRId64 " while %s is %" PRId64
              "; in place they must be the same",
              other->name, t->name, other->stride_name, other->stride, t->stride_name, t->stride);
  }
  return ATTNPRESS_OK;
}

static attnpress_status check_vectors(const ap_layernorm_problem *p) {
  const struct {
    const char *name;
    const void *data;
    int64_t bytes;
  } vectors[] = {{"weight", p->weight, ap_element_bytes(p->param_dtype)},
                 {"bias", p->bias, ap_element_bytes(p->param_dtype)},
                 {"dweight", p->dweight, ap_element_bytes(p->param_dtype)},
                 {"dbias", p->dbias, ap_element_bytes(p->param_dtype)},
                 {"mean", p->mean, 4},
                 {"rstd", p->rstd, 4}};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; ++i)
    FORWARD_IF(check_alignment(vectors[i].name, vectors[i].data, vectors[i].bytes));
  if (p->rows == 0)
    return ATTNPRESS_OK;
  RETURN_IF(p->rms && p->mean != NULL, ATTNPRESS_INVALID_ARGUMENT,
            "mean is given with rms; RMS norm has none: it must be NULL");
  RETURN_IF(p->backward && !p->rms && p->mean == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "mean is NULL; the backward pass needs what the forward pass wrote, except for rms");
  RETURN_IF(p->backward && p->rstd == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "rstd is NULL; the backward pass needs what the forward pass wrote");
  if (!p->backward)
    RETURN_IF((p->tensor[AP_LAYERNORM_RESIDUAL].data == NULL) !=
                  (p->tensor[AP_LAYERNORM_SUM].data == NULL),
              ATTNPRESS_INVALID_ARGUMENT,
              "%s is NULL and %s is not; they must be given together, or neither",
              p->tensor[AP_LAYERNORM_SUM].data == NULL ? "sum" : "residual",
              p->tensor[AP_LAYERNORM_SUM].data == NULL ? "residual" : "sum");
  return ATTNPRESS_OK;
}

attnpress_status ap_layernorm_validate(ap_layernorm_problem *p, ap_check how) {
  if (p->param_dtype == 0)
    p->param_dtype = p->dtype;
  if (p->eps == 0.0f)
    p->eps = EPS_DEFAULT;
  FORWARD_IF(check_extents(p));
  if (p->columns == 0 || (p->rows == 0 && !ap_layernorm_has_sums(p)))
    return ATTNPRESS_OK;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    if (p->tensor[i].stride == 0)
      p->tensor[i].stride = p->columns;
    /* A range is of any strides, and those of a single row mean nothing. */
    if (p->rows > 1 && how.range == ATTNPRESS_ONE_CALL)
      FORWARD_IF(check_stride(p, &p->tensor[i]));
  }
  if (!how.with_data)
    return ATTNPRESS_OK;
  for (int i = 0; p->rows > 0 && i < AP_LAYERNORM_TENSORS; ++i)
    FORWARD_IF(check_tensor(p, &p->tensor[i]));
  return check_vectors(p);
}
