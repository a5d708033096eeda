/* The parts of the layernorm family, in the order of a call: validate -> plan -> kernel arguments,
 * or the CPU backend. operation.c puts them together. */
#pragma once
#include "attnpress/args/layernorm.h"
#include "attnpress/layernorm.h"
#include "call.h"
#include "cpu/element.h"
#include "../generated/families.h"

enum { AP_LAYERNORM_TENSORS = 4 };
/** Elements between gathered rows of x that do not come with these, as the kernel has it. */
enum { AP_LAYERNORM_GATHERED_GAP = 32 };

/** A tensor of a call: (rows, columns), rows `stride` elements apart. */
typedef struct ap_layernorm_tensor {
  const char *name, *stride_name; /* in sentences */
  void *data;                     /* an input's is only read; NULL: it is not there */
  int64_t stride;
  int32_t output;   /* 1: it is written */
  int32_t optional; /* 1: it may be NULL */
} ap_layernorm_tensor;

/** The places of tensors. */
enum {
  AP_LAYERNORM_X = 0,
  AP_LAYERNORM_RESIDUAL = 1, /* forward */
  AP_LAYERNORM_Y = 2,
  AP_LAYERNORM_SUM = 3,
  AP_LAYERNORM_DY = 1, /* backward */
  AP_LAYERNORM_DSUM = 2,
  AP_LAYERNORM_DX = 3
};

/** A call of either pass, checked. In a range rows and columns are maxima, and 0 stands for any. */
typedef struct ap_layernorm_problem {
  int32_t backward;
  ap_layernorm_tensor tensor[AP_LAYERNORM_TENSORS];
  const void *weight, *bias;
  void *dweight, *dbias; /* backward */
  float *mean, *rstd;    /* backward: only read */
  int64_t rows, columns;
  int32_t dtype, param_dtype;
  int32_t rms;
  float eps;
} ap_layernorm_problem;

/** Whether sums over the rows are asked for. */
static inline int ap_layernorm_has_sums(const ap_layernorm_problem *p) {
  return p->dweight != NULL || p->dbias != NULL;
}

/** "fp16" */
const char *ap_layernorm_dtype_name(int32_t dtype);

/* ---- validate.c ------------------------------------------------------------------------------ */

/** Checks a problem that holds what the caller gave, and fills in its defaults. */
attnpress_status ap_layernorm_validate(ap_layernorm_problem *problem, ap_check how);

/* ---- plan.c ---------------------------------------------------------------------------------- */

/** What a call launches: fwd; or bwd, or bwd_params; bwd_reduce; bwd_dx. In a range, each kernel
 * that one of its calls may take. */
typedef struct ap_layernorm_plan {
  int32_t parts;     /* of dweight and dbias */
  int32_t sum_shift; /* bwd_reduce: 2^sum_shift threads of a block are beside each other */
  int32_t gang;      /* thread blocks that share a row and are no cluster; 0: none do */
  size_t told_bytes; /* of the workspace, at its begin: what those tell each other */
  int64_t pitch;     /* columns from one part to the next */
  ap_launches base;
} ap_layernorm_plan;

/** What plans depend on. Of addresses that is which tensors there are, where in a vector they begin,
 * and which of them are one. */
typedef struct ap_layernorm_size {
  int64_t rows, columns, stride[AP_LAYERNORM_TENSORS];
  uint8_t tensor[AP_LAYERNORM_TENSORS];
  uint8_t weight, bias, dweight, dbias;
  uint8_t dtype, param_dtype, rms, backward;
} ap_layernorm_size;

ap_layernorm_size ap_layernorm_size_of(const ap_layernorm_problem *problem);
/** Of the problem's size alone. */
attnpress_status ap_layernorm_plan_call(const ap_layernorm_problem *problem,
                                        const ap_device *device, int32_t range,
                                        ap_layernorm_plan *plan);

/** Thread blocks that share a row, a cluster; 1: none do. */
int32_t ap_layernorm_cluster(const ap_tile *tile);
/** Rows that a thread block, or a cluster, has at a time. */
int64_t ap_layernorm_block_rows(const ap_tile *tile);
/** Dynamic shared memory of a thread block for gathered rows, `x_stride` elements apart, as the kernel deals
 * it: the tile's is that of the fewest columns without gaps. */
int32_t ap_layernorm_gathered_bytes(const ap_tile *tile, int64_t columns, int64_t x_stride);
/** How many threads of bwd_reduce have neighbouring columns, as a power of two: as many as leave
 * each thread no more parts than it loads at once. */
int32_t ap_layernorm_sum_shift(const ap_tile *tile, int64_t columns, int64_t parts);

/* ---- cpu.c ----------------------------------------------------------------------------------- */

/** num_threads: 0 is all cores. */
attnpress_status ap_layernorm_cpu(const ap_layernorm_problem *problem, int32_t num_threads);
/** The same with one instruction set, which the processor has. */
attnpress_status ap_layernorm_cpu_isa(const ap_layernorm_problem *problem, int32_t num_threads,
                                      int isa);
