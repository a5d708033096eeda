/* Decides how a layer norm is run: the kernel whose rows have room for the columns, what adds up the
 * sums over the rows, and their grids. Pure: it depends on shapes and the device's numbers, and
 * touches nothing. */
#include "layernorm/plan.h"

/* An address in short, 0 of none: where in a vector it is, and the first tensor that is there, too. */
enum { IS_THERE = 1 << 7, FIRST_SHIFT = 4, VECTOR_MASK = VECTOR_BYTES - 1 };

static uint8_t shorten(const void *data, int first) {
  return data == NULL
             ? 0
             : (uint8_t)(IS_THERE | first << FIRST_SHIFT | (int)((uintptr_t)data & VECTOR_MASK));
}

/** Such an address. */
static void *lengthen(uint8_t brief) {
  return (void *)(uintptr_t)brief;
}

ap_layernorm_size ap_layernorm_size_of(const ap_layernorm_problem *p) {
  ap_layernorm_size size = {.rows = p->rows,
                            .columns = p->columns,
                            .weight = shorten(p->weight, 0),
                            .bias = shorten(p->bias, 0),
                            .dweight = shorten(p->dweight, 0),
                            .dbias = shorten(p->dbias, 0),
                            .dtype = (uint8_t)p->dtype,
                            .param_dtype = (uint8_t)p->param_dtype,
                            .rms = (uint8_t)p->rms,
                            .backward = (uint8_t)p->backward};
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    int first = 0;
    while (p->tensor[first].data != p->tensor[i].data)
      ++first;
    size.tensor[i] = shorten(p->tensor[i].data, first);
    size.stride[i] = p->tensor[i].stride;
  }
  return size;
}

/** A problem of such a size, of which nothing else is known. */
static ap_layernorm_problem problem_of(const ap_layernorm_size *size) {
  ap_layernorm_problem p = {.rows = size->rows,
                            .columns = size->columns,
                            .weight = lengthen(size->weight),
                            .bias = lengthen(size->bias),
                            .dweight = lengthen(size->dweight),
                            .dbias = lengthen(size->dbias),
                            .dtype = size->dtype,
                            .param_dtype = size->param_dtype,
                            .rms = size->rms,
                            .backward = size->backward};
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    p.tensor[i].data = lengthen(size->tensor[i]);
    p.tensor[i].stride = size->stride[i];
  }
  return p;
}

attnpress_status ap_layernorm_plan_call(const ap_layernorm_problem *problem,
                                        const ap_device *device, int32_t range,
                                        ap_layernorm_plan *plan) {
  const ap_layernorm_size size = ap_layernorm_size_of(problem);
  const ap_layernorm_problem known = problem_of(&size), *p = &known;
  plan->base.count = 0;
  plan->base.workspace_bytes = 0;
  plan->parts = plan->sum_shift = plan->gang = 0;
  plan->told_bytes = 0;
  plan->pitch = p->columns;
  FORWARD_IF(ap_check_capability(device->capability));
  if (range == ATTNPRESS_UP_TO)
    return ap_layernorm_plan_range(p, device, &plan->base);
  if (p->columns == 0 || (p->rows == 0 && !ap_layernorm_has_sums(p)))
    return ATTNPRESS_OK;
  return p->backward ? ap_layernorm_plan_backward(p, device, plan)
                     : ap_layernorm_plan_forward(p, device, plan);
}
