/* The parts of the softmax family, in the order of a call: validate -> plan -> kernel arguments, or
 * the CPU backend. operation.c puts them together. */
#pragma once
#include "attnpress/args/softmax.h"
#include "attnpress/softmax.h"
#include "call.h"
#include "cpu/element.h"
#include "../generated/families.h"

enum { AP_SOFTMAX_TENSORS = 3 };

/** A tensor of a call: (rows, columns), rows `stride` elements apart. */
typedef struct ap_softmax_tensor {
  const char *name, *stride_name; /* in sentences */
  void *data;                     /* an input's is only read */
  int64_t stride;
} ap_softmax_tensor;

/** A call of either pass, checked. In a range rows and columns are maxima, and 0 stands for any. */
typedef struct ap_softmax_problem {
  int32_t pass;                                 /* AP_SOFTMAX_PASS_... */
  ap_softmax_tensor tensor[AP_SOFTMAX_TENSORS]; /* fwd: x, y; bwd: y, dy, dx; the output is last */
  int32_t tensor_count;
  int64_t rows, columns;
  int32_t dtype;
  float scale;
} ap_softmax_problem;

static inline const ap_softmax_tensor *ap_softmax_output(const ap_softmax_problem *p) {
  return &p->tensor[p->tensor_count - 1];
}

static inline int64_t ap_softmax_element_bytes(const ap_softmax_problem *p) {
  return ap_element_bytes(p->dtype);
}

/** "fp16" */
const char *ap_softmax_dtype_name(int32_t dtype);

/* ---- validate.c ------------------------------------------------------------------------------ */

/** Checks a problem that holds what the caller gave, and fills in its defaults. */
attnpress_status ap_softmax_validate(ap_softmax_problem *problem, ap_check how);

/* ---- plan.c ---------------------------------------------------------------------------------- */

/** Thread blocks that share a row, a cluster; 1: none do. */
int32_t ap_softmax_cluster(const ap_tile *tile);
/** Rows of a thread block, or of a cluster. */
int64_t ap_softmax_block_rows(const ap_tile *tile);
/** The one launch of a call, or in a range each kernel that one of its calls may take. */
attnpress_status ap_softmax_plan(const ap_softmax_problem *problem, const ap_device *device,
                                 int32_t range, ap_launches *plan);

/* ---- cpu.c ----------------------------------------------------------------------------------- */

/** num_threads: 0 is all cores. */
attnpress_status ap_softmax_cpu(const ap_softmax_problem *problem, int32_t num_threads);
/** The same with one instruction set, which the processor has. */
attnpress_status ap_softmax_cpu_isa(const ap_softmax_problem *problem, int32_t num_threads,
                                    int isa);
