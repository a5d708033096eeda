/* Checks what callers hand in. Nothing here looks at a device or at memory that a pointer names. */
#include "attention/attention.h"
#include "attention/defaults.h"
#include "attention/groups.h"
#include "attention/overlap.h"
#include "attention/ragged.h"
#include "attention/score_mod.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Kernels count keys and rows in 32 bits, up to the end of the last block. */
enum { SEQLEN_MAX = INT32_MAX - 1023 };

static const char *const dimension_names[4] = {"batch", "seqlen", "heads", "head_dim"};

static int64_t element_bytes(int32_t dtype) {
  return dtype == ATTNPRESS_FP32 ? 4 : 2;
}

static attnpress_status check_dtype(const char *name, int32_t dtype, int32_t backend) {
  RETURN_IF(dtype != ATTNPRESS_FP16 && dtype != ATTNPRESS_BF16 && dtype != ATTNPRESS_FP32,
            ATTNPRESS_INVALID_ARGUMENT,
            "%s.dtype is %d; it must be ATTNPRESS_FP16 (1), ATTNPRESS_BF16 (2) or, on the CPU, "
            "ATTNPRESS_FP32 (3)",
            name, (int)dtype);
  RETURN_IF(dtype == ATTNPRESS_FP32 && backend != ATTNPRESS_CPU, ATTNPRESS_NOT_SUPPORTED,
            "%s.dtype is ATTNPRESS_FP32, which only the CPU backend computes; GPUs take "
            "ATTNPRESS_FP16 and ATTNPRESS_BF16",
            name);
  return ATTNPRESS_OK;
}

static int is_empty(const attnpress_tensor *t) {
  return t->shape[0] == 0 || t->shape[1] == 0 || t->shape[2] == 0;
}

static attnpress_status check_stride(const attnpress_tensor *t, const char *name, int i,
                                     int written) {
  const int64_t stride = t->stride[i];
  RETURN_IF(stride < 0 || stride % 8 != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s.stride[%d] (%s) is %" PRId64
            " elements; it must be a multiple of 8 and not negative",
            name, i, dimension_names[i], stride);
  RETURN_IF(written && !is_empty(t) && stride < t->shape[3], ATTNPRESS_INVALID_ARGUMENT,
            "%s.stride[%d] (%s) is %" PRId64 " elements, so that rows of %" PRId64
            " elements overlap; it must be at least that",
            name, i, dimension_names[i], stride, t->shape[3]);
  return ATTNPRESS_OK;
}

/** The offset of the last element must fit, in bytes. */
static attnpress_status check_extent(const attnpress_tensor *t, const char *name) {
  int64_t last = t->shape[3];
  for (int i = 0; i < 3; ++i) {
    int64_t span;
    RETURN_IF(t->shape[i] > 1 && (__builtin_mul_overflow(t->shape[i] - 1, t->stride[i], &span) ||
                                  __builtin_add_overflow(last, span, &last)),
              ATTNPRESS_INVALID_ARGUMENT,
              "%s: shape[%d] %" PRId64 " times stride[%d] %" PRId64 " overflows", name, i,
              t->shape[i], i, t->stride[i]);
  }
  RETURN_IF(__builtin_mul_overflow(last, element_bytes(t->dtype), &last),
            ATTNPRESS_INVALID_ARGUMENT, "%s spans more than 2^63 bytes", name);
  return ATTNPRESS_OK;
}

/** What check_tensor() takes, one thing after the other, with a sentence for each. */
static attnpress_status look_at_tensor(const attnpress_tensor *t, const char *name, int32_t backend,
                                       int with_data, int written) {
  FORWARD_IF(check_dtype(name, t->dtype, backend));
  RETURN_IF(t->reserved != 0, ATTNPRESS_INVALID_ARGUMENT, "%s.reserved is %d; it must be 0", name,
            (int)t->reserved);
  for (int i = 0; i < 4; ++i) {
    const int64_t most = i == 1 ? SEQLEN_MAX : INT32_MAX;
    RETURN_IF(t->shape[i] < 0 || t->shape[i] > most, ATTNPRESS_INVALID_ARGUMENT,
              "%s.shape[%d] (%s) is %" PRId64 "; it must be 0 to %" PRId64, name, i,
              dimension_names[i], t->shape[i], most);
  }
  RETURN_IF(t->stride[3] != 1, ATTNPRESS_INVALID_ARGUMENT,
            "%s.stride[3] (head_dim) is %" PRId64
            "; it must be 1: the last dimension is contiguous",
            name, t->stride[3]);
  for (int i = 0; i < 3; ++i)
    if (t->shape[i] > 1)
      FORWARD_IF(check_stride(t, name, i, written));
  FORWARD_IF(check_extent(t, name));
  if (with_data && !is_empty(t)) {
    RETURN_IF(t->data == NULL, ATTNPRESS_INVALID_ARGUMENT,
              "%s.data is NULL; it may be only where an extent is 0", name);
    RETURN_IF((uintptr_t)t->data % 16 != 0, ATTNPRESS_INVALID_ARGUMENT,
              "%s.data is %p; it must be aligned to 16 bytes", name, t->data);
  }
  return ATTNPRESS_OK;
}

/** Whether a tensor with data is as most are, which takes fewer steps to tell: extents and strides
 * so small that no product overflows, and every stride in order, also of a dimension of 1. */
static inline int is_usual(const attnpress_tensor *t, int written) {
  const int64_t *shape = t->shape, *stride = t->stride;
  const uint64_t extents = (uint64_t)(shape[0] | shape[1] | shape[2] | shape[3]);
  const uint64_t strides = (uint64_t)(stride[0] | stride[1] | stride[2]);
  const int64_t least = written ? shape[3] : 0;
  return (t->dtype == ATTNPRESS_FP16 || t->dtype == ATTNPRESS_BF16) && t->reserved == 0 &&
         extents >> 28 == 0 && strides >> 32 == 0 && strides % 8 == 0 && stride[3] == 1 &&
         stride[0] >= least && stride[1] >= least && stride[2] >= least && t->data != NULL &&
         (uintptr_t)t->data % 16 == 0;
}

static inline attnpress_status check_tensor(const attnpress_tensor *t, const char *name,
                                            int32_t backend, int with_data, int written) {
  return is_usual(t, written) ? ATTNPRESS_OK : look_at_tensor(t, name, backend, with_data, written);
}

/** b.shape[j] must be a.shape[i]. */
static attnpress_status check_same(const attnpress_tensor *a, const char *a_name, int i,
                                   const attnpress_tensor *b, const char *b_name) {
  RETURN_IF(a->shape[i] != b->shape[i], ATTNPRESS_INVALID_ARGUMENT,
            "%s.shape[%d] (%s) is %" PRId64 " and %s's is %" PRId64 "; they must be equal", b_name,
            i, dimension_names[i], b->shape[i], a_name, a->shape[i]);
  return ATTNPRESS_OK;
}

const char *ap_dtype_name(int32_t dtype) {
  switch (dtype) {
  case ATTNPRESS_FP16:
    return "fp16";
  case ATTNPRESS_BF16:
    return "bf16";
  case ATTNPRESS_FP32:
    return "fp32";
  default:
    return "unknown";
  }
}

static attnpress_status check_shapes(const attnpress_forward_args *args) {
  const attnpress_tensor *q = &args->q, *k = &args->k, *v = &args->v, *out = &args->out;
  const struct {
    const attnpress_tensor *tensor;
    const char *name;
  } others[] = {{k, "k"}, {v, "v"}, {out, "out"}};
  for (int i = 0; i < 3; ++i) {
    RETURN_IF(others[i].tensor->dtype != q->dtype, ATTNPRESS_INVALID_ARGUMENT,
              "%s.dtype is %s and q's is %s; they must be equal", others[i].name,
              ap_dtype_name(others[i].tensor->dtype), ap_dtype_name(q->dtype));
    if (args->ragged == NULL)
      FORWARD_IF(check_same(q, "q", 0, others[i].tensor, others[i].name));
  }
  if (args->ragged != NULL) { /* which says how q's batch and k's belong together */
    FORWARD_IF(check_same(q, "q", 0, out, "out"));
    FORWARD_IF(check_same(k, "k", 0, v, "v"));
  }
  FORWARD_IF(check_same(k, "k", 1, v, "v"));
  FORWARD_IF(check_same(k, "k", 2, v, "v"));
  FORWARD_IF(check_same(q, "q", 3, k, "k"));
  FORWARD_IF(check_same(q, "q", 1, out, "out"));
  FORWARD_IF(check_same(q, "q", 2, out, "out"));
  FORWARD_IF(check_same(v, "v", 3, out, "out"));
  const int64_t heads_q = q->shape[2], heads_kv = k->shape[2];
  RETURN_IF(heads_kv == 0 ? heads_q != 0 : heads_q % heads_kv != 0, ATTNPRESS_INVALID_ARGUMENT,
            "q has %" PRId64 " heads and k %" PRId64
            "; q's must be a multiple of k's (GQA and MQA share key heads)",
            heads_q, heads_kv);
  return ATTNPRESS_OK;
}

static attnpress_status check_lse(const attnpress_forward_args *args, int with_data) {
  const int64_t *stride = args->lse_stride;
  const int64_t batch = args->q.shape[0], seqlen = args->q.shape[1], heads = args->q.shape[2];
  if (args->lse == NULL)
    return ATTNPRESS_OK;
  RETURN_IF(with_data && (uintptr_t)args->lse % sizeof(float) != 0, ATTNPRESS_INVALID_ARGUMENT,
            "lse is %p; it must be aligned to 4 bytes", (void *)args->lse);
  if (stride[0] == 0 && stride[1] == 0)
    return ATTNPRESS_OK;
  for (int i = 0; i < 2; ++i) {
    const int64_t extent = i == 0 ? batch : heads;
    int64_t last;
    RETURN_IF(extent > 1 && stride[i] < seqlen, ATTNPRESS_INVALID_ARGUMENT,
              "lse_stride[%d] (%s) is %" PRId64 "; it must be at least seqlen_q, %" PRId64
              ", or both strides 0 for contiguous",
              i, i == 0 ? "batch" : "head", stride[i], seqlen);
    RETURN_IF(extent > 1 &&
                  (__builtin_mul_overflow(extent, stride[i], &last) || last > INT64_MAX / 16),
              ATTNPRESS_INVALID_ARGUMENT, "lse_stride[%d] %" PRId64 " times its extent overflows",
              i, stride[i]);
  }
  RETURN_IF(ap_rows_overlap(2, (int64_t[]){batch, heads}, stride, seqlen),
            ATTNPRESS_INVALID_ARGUMENT,
            "lse_stride is %" PRId64 ", %" PRId64 " for batch %" PRId64 ", heads %" PRId64
            " and seqlen_q %" PRId64
            ", so that rows overlap; sorted, each stride must be at least the span below it",
            stride[0], stride[1], batch, heads, seqlen);
  return ATTNPRESS_OK;
}

static attnpress_status check_scalars(const attnpress_forward_args *args) {
  RETURN_IF(!isfinite(args->scale) || args->scale < 0.0f, ATTNPRESS_INVALID_ARGUMENT,
            "scale is %g; it must be positive and finite, or 0 for 1 / sqrt(head_dim)",
            (double)args->scale);
  RETURN_IF(args->mask < ATTNPRESS_FULL || args->mask > ATTNPRESS_WINDOW,
            ATTNPRESS_INVALID_ARGUMENT,
            "mask is %d; it must be ATTNPRESS_FULL (0), ATTNPRESS_CAUSAL (1) or ATTNPRESS_WINDOW "
            "(2)",
            (int)args->mask);
  RETURN_IF(args->num_splits < 0 || args->num_splits > AP_SPLITS_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "num_splits is %d; it must be 1 to %d, or 0 to have it chosen", (int)args->num_splits,
            AP_SPLITS_MAX);
  return ATTNPRESS_OK;
}

/** What may go with batch_invariant. */
static attnpress_status check_invariant(const attnpress_forward_args *args) {
  RETURN_IF(args->batch_invariant != 0 && args->batch_invariant != 1, ATTNPRESS_INVALID_ARGUMENT,
            "batch_invariant is %d; it must be 0 or 1", (int)args->batch_invariant);
  if (!args->batch_invariant)
    return ATTNPRESS_OK;
  RETURN_IF(
      args->num_splits != 0, ATTNPRESS_INVALID_ARGUMENT,
      "num_splits is %d with batch_invariant, which splits keys at fixed places; it must be 0",
      (int)args->num_splits);
  const int dropout = args->dropout != NULL && args->dropout->probability > 0.0f;
  RETURN_IF(args->bias != NULL || args->score_mod != NULL || dropout, ATTNPRESS_NOT_SUPPORTED,
            "%s and batch_invariant are both given; what it does depends on a query's number in "
            "the call: leave one of them out",
            args->bias != NULL        ? "bias"
            : args->score_mod != NULL ? "score_mod"
                                      : "dropout");
  return ATTNPRESS_OK;
}

/** batch * heads_q * seqlen_q, which indexes lse and the splits, must fit with room for a head dim.
 */
static attnpress_status check_rows(const attnpress_forward_args *args) {
  int64_t rows;
  const int64_t batch = args->ragged != NULL ? args->ragged->batch : args->q.shape[0];
  const int64_t seqlen_q = args->ragged != NULL ? ap_ragged_queries(args) : args->q.shape[1];
  RETURN_IF(__builtin_mul_overflow(batch, seqlen_q, &rows) ||
                __builtin_mul_overflow(rows, args->q.shape[2], &rows) ||
                rows > INT64_MAX / (AP_ATTENTION_HDIM_MAX * 4 * (int64_t)AP_SPLITS_MAX),
            ATTNPRESS_INVALID_ARGUMENT,
            "batch %" PRId64 " x seqlen_q %" PRId64 " x heads %" PRId64 " overflows", batch,
            seqlen_q, args->q.shape[2]);
  return ATTNPRESS_OK;
}

/** 1 where tensor maps fit every call of a range: as a stride counts from an extent of 2 on, those
 * of its largest call. */
static int maps_fit_range(const attnpress_forward_args *args) {
  const int64_t extents[] = {args->q.shape[0], args->q.shape[1], args->k.shape[1]};
  int64_t most[3];
  for (int i = 0; i < 3; ++i)
    most[i] = extents[i] == 1 ? 1 : 2;
  return ap_tensor_maps_fit(args, most[0], most[1], most[2]);
}

/** INVALID_ARGUMENT, naming what is allowed, unless kernels exist for these head dims. */
static attnpress_status check_head_dims(int64_t hdim, int64_t hdim_v) {
  FORWARD_IF(ap_axis_check(AP_FAMILY_ATTENTION, AP_ATTENTION_HDIM, hdim));
  return ap_axis_check(AP_FAMILY_ATTENTION, AP_ATTENTION_HDIM_V, hdim_v);
}

attnpress_status ap_validate_forward(const attnpress_forward_args *args, ap_check how,
                                     ap_problem *problem) {
  const int32_t backend = how.backend;
  const int with_data = how.with_data, range = how.range == ATTNPRESS_UP_TO;
  /* Before the strides, which a wrong head dim makes wrong as well. */
  FORWARD_IF(check_head_dims(args->q.shape[3], args->v.shape[3]));
  FORWARD_IF(check_tensor(&args->q, "q", backend, with_data, 0));
  FORWARD_IF(check_tensor(&args->k, "k", backend, with_data, 0));
  FORWARD_IF(check_tensor(&args->v, "v", backend, with_data, 0));
  FORWARD_IF(check_tensor(&args->out, "out", backend, with_data, 1));
  FORWARD_IF(check_shapes(args));
  if (args->ragged != NULL)
    FORWARD_IF(ap_check_ragged(args, with_data));
  FORWARD_IF(check_rows(args));
  RETURN_IF(ap_rows_overlap(3, args->out.shape, args->out.stride, args->out.shape[3]),
            ATTNPRESS_INVALID_ARGUMENT,
            "out.stride is %" PRId64 ", %" PRId64 ", %" PRId64
            ", so that rows overlap; sorted, each stride must be at least the span below it",
            args->out.stride[0], args->out.stride[1], args->out.stride[2]);
  if (args->ragged == NULL)
    FORWARD_IF(check_lse(args, with_data));
  FORWARD_IF(check_scalars(args));
  FORWARD_IF(check_invariant(args));
  FORWARD_IF(ap_check_groups(args, with_data));
  *problem = (ap_problem){
      .batch = (int32_t)args->q.shape[0],
      .heads_q = (int32_t)args->q.shape[2],
      .heads_kv = (int32_t)args->k.shape[2],
      .seqlen_q = (int32_t)args->q.shape[1],
      .seqlen_k = (int32_t)args->k.shape[1],
      .hdim = (int32_t)args->q.shape[3],
      .hdim_v = (int32_t)args->v.shape[3],
      .dtype = args->q.dtype,
      .mask = args->mask,
      .softcap = args->softcap > 0.0f,
      .alibi = args->alibi != NULL,
      .dropout = args->dropout != NULL && args->dropout->probability > 0.0f,
      .bias = args->bias != NULL ? args->bias->dtype : 0,
      .num_splits = args->num_splits,
      .batch_invariant = args->batch_invariant,
      .head_rows = args->ragged == NULL && ap_head_rows_fit(args),
      .tma = ap_tensor_maps_fit(args, args->q.shape[0], args->q.shape[1], args->k.shape[1]),
  };
  if (args->score_mod != NULL) {
    RETURN_IF(
        backend == ATTNPRESS_CPU, ATTNPRESS_NOT_SUPPORTED,
        "score_mod \"%s\" is a text that is compiled for a GPU; the CPU backend cannot run it: it "
        "has window, softcap, alibi, bias, sinks and dropout",
        ap_score_mod_name(args->score_mod));
    ap_score_mod_describe(args->score_mod, 0, 0, problem);
  }
  if (args->mask == ATTNPRESS_WINDOW) {
    const ap_mask mask = ap_mask_of(args);
    problem->window_left = mask.left;
    problem->window_right = mask.right;
    problem->window_chunk = mask.chunk;
    problem->window_top_left = args->window->top_left;
  }
  if (args->ragged != NULL) {
    ap_ragged_problem(args, problem);
    problem->tma_min = problem->tma_max = problem->tma;
    return ATTNPRESS_OK;
  }
  problem->tma_min = range ? maps_fit_range(args) : problem->tma;
  problem->tma_max = range ? ap_tensor_maps_fit(args, 1, 1, 1) : problem->tma;
  return ATTNPRESS_OK;
}

/* ---- Backward -------------------------------------------------------------------------------- */

/** A gradient: the shape and dtype of what it is the gradient by. */
static attnpress_status check_gradient(const attnpress_tensor *t, const char *name,
                                       const attnpress_tensor *of, const char *of_name,
                                       ap_check how, int written) {
  FORWARD_IF(check_tensor(t, name, how.backend, how.with_data, written));
  for (int i = 0; i < 4; ++i)
    FORWARD_IF(check_same(of, of_name, i, t, name));
  RETURN_IF(t->dtype != of->dtype, ATTNPRESS_INVALID_ARGUMENT,
            "%s.dtype is %d and %s's is %d; all tensors of a call have the same dtype", name,
            (int)t->dtype, of_name, (int)of->dtype);
  RETURN_IF(written && ap_rows_overlap(3, t->shape, t->stride, t->shape[3]),
            ATTNPRESS_INVALID_ARGUMENT,
            "%s.stride is %" PRId64 ", %" PRId64 ", %" PRId64
            ", so that rows overlap; sorted, each stride must be at least the span below it",
            name, t->stride[0], t->stride[1], t->stride[2]);
  return ATTNPRESS_OK;
}

/** Strides of the gradient of lse, which is only read: any that are not negative. */
static attnpress_status check_dlse(const attnpress_backward_args *args, int with_data) {
  const int64_t extents[] = {args->q.shape[0], args->q.shape[2]};
  if (args->dlse == NULL)
    return ATTNPRESS_OK;
  RETURN_IF(with_data && (uintptr_t)args->dlse % sizeof(float) != 0, ATTNPRESS_INVALID_ARGUMENT,
            "dlse is %p; it must be aligned to 4 bytes", (const void *)args->dlse);
  for (int i = 0; i < 2; ++i) {
    int64_t last;
    RETURN_IF(extents[i] > 1 && (args->dlse_stride[i] < 0 ||
                                 __builtin_mul_overflow(extents[i], args->dlse_stride[i], &last) ||
                                 last > INT64_MAX / 16),
              ATTNPRESS_INVALID_ARGUMENT,
              "dlse_stride[%d] (%s) is %" PRId64
              "; it must not be negative, nor overflow times its extent",
              i, i == 0 ? "batch" : "head", args->dlse_stride[i]);
  }
  return ATTNPRESS_OK;
}

static attnpress_status check_flag(const char *name, int32_t value) {
  RETURN_IF(value != 0 && value != 1, ATTNPRESS_INVALID_ARGUMENT, "%s is %d; it must be 0 or 1",
            name, (int)value);
  return ATTNPRESS_OK;
}

/** The gradient by the sinks, where it is wanted. */
static attnpress_status check_dsinks(const attnpress_backward_args *args, int with_data) {
  if (args->dsinks == NULL)
    return ATTNPRESS_OK;
  RETURN_IF(
      args->sinks == NULL, ATTNPRESS_INVALID_ARGUMENT,
      "dsinks is given and sinks is NULL; the gradient is by what the forward call was given");
  RETURN_IF(with_data && (uintptr_t)args->dsinks % sizeof(float) != 0, ATTNPRESS_INVALID_ARGUMENT,
            "dsinks is %p; it must be aligned to 4 bytes", (void *)args->dsinks);
  return ATTNPRESS_OK;
}

attnpress_status ap_validate_backward(const attnpress_backward_args *args, ap_check how,
                                      ap_problem *problem) {
  const attnpress_forward_args forward = ap_forward_of(args);
  FORWARD_IF(ap_validate_forward(&forward, how, problem));
  FORWARD_IF(check_gradient(&args->dout, "dout", &args->out, "out", how, 0));
  FORWARD_IF(check_gradient(&args->dq, "dq", &args->q, "q", how, 1));
  FORWARD_IF(check_gradient(&args->dk, "dk", &args->k, "k", how, 1));
  FORWARD_IF(check_gradient(&args->dv, "dv", &args->v, "v", how, 1));
  RETURN_IF(how.with_data && args->lse == NULL && !is_empty(&args->q), ATTNPRESS_INVALID_ARGUMENT,
            "lse is NULL; the backward pass needs what the forward pass wrote there");
  if (args->ragged != NULL)
    FORWARD_IF(ap_check_ragged_backward(args, how.with_data, problem));
  else
    FORWARD_IF(check_dlse(args, how.with_data));
  RETURN_IF(args->ragged == NULL && args->dlse_row_stride != 0, ATTNPRESS_INVALID_ARGUMENT,
            "dlse_row_stride is %" PRId64 "; without ragged it must be 0", args->dlse_row_stride);
  FORWARD_IF(check_dsinks(args, how.with_data));
  problem->dsinks = args->dsinks != NULL;
  problem->head_rows = 0; /* of the forward pass alone */
  FORWARD_IF(ap_check_dbuffers(args, how.with_data));
  if (args->score_mod != NULL)
    ap_score_mod_describe(args->score_mod, 1, ap_dbuffers_wanted(args), problem);
  if (args->dbias != NULL) {
    FORWARD_IF(ap_check_dbias(args, how.with_data));
    problem->dbias = AP_DBIAS;
    for (int i = 0; i < 3; ++i)
      if (args->dbias->shape[i] == 1)
        problem->dbias |= AP_DBIAS_ONE_BATCH << i;
    if (args->ragged != NULL) {
      problem->dbias_rows = (int32_t)args->dbias->shape[2];
      problem->dbias_keys = (int32_t)args->dbias->shape[3];
    }
  }
  RETURN_IF(args->reserved != 0, ATTNPRESS_INVALID_ARGUMENT, "reserved is %d; it must be 0",
            (int)args->reserved);
  FORWARD_IF(check_flag("deterministic", args->deterministic));
  problem->tma = problem->tma_min = problem->tma_max =
      ap_backward_maps_fit(args, args->q.shape[0], args->q.shape[1], args->k.shape[1]);
  if (how.range == ATTNPRESS_UP_TO &&
      args->ragged == NULL) { /* as in a range of the forward pass */
    problem->tma_min =
        ap_backward_maps_fit(args, args->q.shape[0] == 1 ? 1 : 2, args->q.shape[1] == 1 ? 1 : 2,
                             args->k.shape[1] == 1 ? 1 : 2);
    problem->tma_max = ap_backward_maps_fit(args, 1, 1, 1);
  }
  return check_flag("accumulate", args->accumulate);
}

/* ---- Which calls a plan serves --------------------------------------------------------------- */

attnpress_status ap_check_served(const ap_problem *p, const ap_problem *planned, int32_t range) {
  const struct {
    const char *name;
    int32_t value, planned;
  } same[] = {{"heads of q", p->heads_q, planned->heads_q},
              {"heads of k", p->heads_kv, planned->heads_kv},
              {"head_dim", p->hdim, planned->hdim},
              {"head_dim of v", p->hdim_v, planned->hdim_v},
              {"dtype", p->dtype, planned->dtype},
              {"mask", p->mask, planned->mask},
              {"softcap given", p->softcap, planned->softcap},
              {"alibi given", p->alibi, planned->alibi},
              {"dropout given", p->dropout, planned->dropout},
              {"bias.dtype (0: no bias)", p->bias, planned->bias},
              {"sequences (1: ragged, 2: paged)", p->sequences, planned->sequences},
              {"num_splits", p->num_splits, planned->num_splits},
              {"batch_invariant", p->batch_invariant, planned->batch_invariant}};
  for (size_t i = 0; i < sizeof same / sizeof *same; ++i)
    FORWARD_IF(ap_check_extent(same[i].name, same[i].value, same[i].planned, ATTNPRESS_ONE_CALL));
  RETURN_IF(
      memcmp(p->mod_key, planned->mod_key, sizeof p->mod_key) != 0, ATTNPRESS_INVALID_ARGUMENT,
      "score_mod is not that of the plan: its texts, its names, dtypes and ranks must be the same, "
      "and so must be the buffers whose gradients are wanted");
  FORWARD_IF(ap_check_given("ragged.schedule", p->ready ? p : NULL, planned->ready ? planned : NULL,
                            range));
  FORWARD_IF(ap_check_extent("batch", p->batch, planned->batch, range));
  FORWARD_IF(ap_check_extent("seqlen_q", p->seqlen_q, planned->seqlen_q, range));
  FORWARD_IF(ap_check_extent("seqlen_k", p->seqlen_k, planned->seqlen_k, range));
  if (range != ATTNPRESS_UP_TO)
    RETURN_IF(p->window_left != planned->window_left || p->window_right != planned->window_right ||
                  p->window_chunk != planned->window_chunk ||
                  p->window_top_left != planned->window_top_left,
              ATTNPRESS_INVALID_ARGUMENT,
              "the window is not that of the plan; make a plan of it, or one of a range");
  /* A range has the kernels of both. */
  RETURN_IF(
      range != ATTNPRESS_UP_TO && ap_has_many_heads(p) && p->head_rows != planned->head_rows,
      ATTNPRESS_INVALID_ARGUMENT,
      "one query with more than %d heads a key head runs other kernels where it has sinks, or "
      "heads that do not lie side by side in lse; make a plan of such a call, or one of a range",
      AP_ATTENTION_WARPGROUP_ROWS);
  /* A range has the kernels for strides as they were given. */
  RETURN_IF(
      range == ATTNPRESS_UP_TO ? p->tma < planned->tma_min || p->tma > planned->tma_max
                               : p->tma != planned->tma,
      ATTNPRESS_INVALID_ARGUMENT,
      "tensor maps fit one of the call and the plan, and not the other: of the other, a stride "
      "is 2^39 elements or more, or a page's size is no multiple of 8; make a plan with the "
      "strides and pages of the call");
  return ATTNPRESS_OK;
}
