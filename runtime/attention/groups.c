/* Copies and checks the optional groups of a forward or a backward call. */
#include "attention/groups.h"

#include <inttypes.h>
#include <math.h>

#include "attention/attention.h"
#include "attention/defaults.h"
#include "attention/ragged.h"
#include "attention/score_mod.h"

/* Sizes in the version that brought them, 0.3; they never change. */
enum {
  WINDOW_FIRST_BYTES = 40,
  ALIBI_FIRST_BYTES = 32,
  BIAS_FIRST_BYTES = 88,
  SINKS_FIRST_BYTES = 32,
  DROPOUT_FIRST_BYTES = 40,
  SCORE_MOD_FIRST_BYTES = 56,
  RAGGED_FIRST_BYTES = 128,
  DBIAS_FIRST_BYTES = 88
};
_Static_assert(sizeof(attnpress_window) >= WINDOW_FIRST_BYTES &&
                   sizeof(attnpress_alibi) >= ALIBI_FIRST_BYTES &&
                   sizeof(attnpress_bias) >= BIAS_FIRST_BYTES &&
                   sizeof(attnpress_sinks) >= SINKS_FIRST_BYTES &&
                   sizeof(attnpress_dropout) >= DROPOUT_FIRST_BYTES &&
                   sizeof(attnpress_score_mod) >= SCORE_MOD_FIRST_BYTES &&
                   sizeof(attnpress_ragged) >= RAGGED_FIRST_BYTES &&
                   sizeof(attnpress_dbias) >= DBIAS_FIRST_BYTES,
               "structs only grow");

attnpress_status ap_copy_groups(attnpress_forward_args *args, ap_groups *groups) {
  if (args->window != NULL) {
    FORWARD_IF(ap_copy_struct(args->window, &groups->window, sizeof groups->window,
                              WINDOW_FIRST_BYTES, "window"));
    args->window = &groups->window;
  }
  if (args->alibi != NULL) {
    FORWARD_IF(ap_copy_struct(args->alibi, &groups->alibi, sizeof groups->alibi, ALIBI_FIRST_BYTES,
                              "alibi"));
    args->alibi = &groups->alibi;
  }
  if (args->bias != NULL) {
    FORWARD_IF(
        ap_copy_struct(args->bias, &groups->bias, sizeof groups->bias, BIAS_FIRST_BYTES, "bias"));
    args->bias = &groups->bias;
  }
  if (args->sinks != NULL) {
    FORWARD_IF(ap_copy_struct(args->sinks, &groups->sinks, sizeof groups->sinks, SINKS_FIRST_BYTES,
                              "sinks"));
    args->sinks = &groups->sinks;
  }
  if (args->dropout != NULL) {
    FORWARD_IF(ap_copy_struct(args->dropout, &groups->dropout, sizeof groups->dropout,
                              DROPOUT_FIRST_BYTES, "dropout"));
    args->dropout = &groups->dropout;
  }
  if (args->score_mod != NULL) {
    FORWARD_IF(ap_copy_struct(args->score_mod, &groups->score_mod, sizeof groups->score_mod,
                              SCORE_MOD_FIRST_BYTES, "score_mod"));
    args->score_mod = &groups->score_mod;
    const attnpress_score_mod *mod = args->score_mod;
    if (mod->buffers != NULL && mod->buffer_count > 0 &&
        mod->buffer_count <= ATTNPRESS_MOD_BUFFERS_MAX) { /* else the check says so */
      memcpy(groups->buffers, mod->buffers, (size_t)mod->buffer_count * sizeof *mod->buffers);
      groups->score_mod.buffers = groups->buffers;
    }
  }
  if (args->ragged != NULL) {
    FORWARD_IF(ap_copy_struct(args->ragged, &groups->ragged, sizeof groups->ragged,
                              RAGGED_FIRST_BYTES, "ragged"));
    args->ragged = &groups->ragged;
  } else if (args->batch_invariant) { /* which has kernels of sequences alone: a batch each */
    groups->ragged = (attnpress_ragged)ATTNPRESS_RAGGED_INIT;
    groups->ragged.batch = args->q.shape[0];
    args->ragged = &groups->ragged;
  }
  return ATTNPRESS_OK;
}

attnpress_status ap_copy_backward_groups(attnpress_backward_args *args, ap_groups *groups) {
  attnpress_forward_args forward = {.window = args->window, /* what ap_copy_groups() looks at */
                                    .alibi = args->alibi,
                                    .bias = args->bias,
                                    .sinks = args->sinks,
                                    .dropout = args->dropout,
                                    .ragged = args->ragged,
                                    .score_mod = args->score_mod};
  FORWARD_IF(ap_copy_groups(&forward, groups));
  args->window = forward.window;
  args->alibi = forward.alibi;
  args->bias = forward.bias;
  args->sinks = forward.sinks;
  args->dropout = forward.dropout;
  args->ragged = forward.ragged;
  args->score_mod = forward.score_mod;
  if (args->dbias != NULL) {
    FORWARD_IF(ap_copy_struct(args->dbias, &groups->dbias, sizeof groups->dbias, DBIAS_FIRST_BYTES,
                              "dbias"));
    args->dbias = &groups->dbias;
  }
  return ATTNPRESS_OK;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static attnpress_status check_reserved(const char *name, int32_t reserved) {
  RETURN_IF(reserved != 0, ATTNPRESS_INVALID_ARGUMENT, "%s.reserved is %d; it must be 0", name,
            (int)reserved);
  return ATTNPRESS_OK;
}

/** dtype and pointer of a group's data. */
static attnpress_status check_data(const char *name, const char *field, const void *data,
                                   int32_t dtype, int with_data) {
  RETURN_IF(dtype != ATTNPRESS_FP16 && dtype != ATTNPRESS_BF16 && dtype != ATTNPRESS_FP32,
            ATTNPRESS_INVALID_ARGUMENT,
            "%s.dtype is %d; it must be ATTNPRESS_FP16 (1), ATTNPRESS_BF16 (2) or ATTNPRESS_FP32 "
            "(3)",
            name, (int)dtype);
  const uintptr_t bytes = dtype == ATTNPRESS_FP32 ? 4 : 2;
  RETURN_IF(with_data && data == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "%s.%s is NULL; leave the group out instead", name, field);
  RETURN_IF(with_data && (uintptr_t)data % bytes != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s.%s is %p; it must be aligned to its elements, %d bytes", name, field, data,
            (int)bytes);
  return ATTNPRESS_OK;
}

static attnpress_status check_side(const char *name, int64_t side) {
  RETURN_IF(side < -1, ATTNPRESS_INVALID_ARGUMENT,
            "window.%s is %" PRId64 "; it must be 0 or more keys, or -1 for all", name, side);
  return ATTNPRESS_OK;
}

static attnpress_status check_window(const attnpress_forward_args *args) {
  const attnpress_window *w = args->window;
  RETURN_IF(w == NULL && args->mask == ATTNPRESS_WINDOW, ATTNPRESS_INVALID_ARGUMENT,
            "mask is ATTNPRESS_WINDOW and window is NULL; it says which keys a query sees");
  if (w == NULL)
    return ATTNPRESS_OK;
  RETURN_IF(args->mask != ATTNPRESS_WINDOW, ATTNPRESS_INVALID_ARGUMENT,
            "window is given and mask is %d; it must be ATTNPRESS_WINDOW (2): a causal window has "
            "right 0",
            (int)args->mask);
  FORWARD_IF(check_side("left", w->left));
  FORWARD_IF(check_side("right", w->right));
  RETURN_IF(w->chunk < 0, ATTNPRESS_INVALID_ARGUMENT,
            "window.chunk is %" PRId64 "; it must be the keys of a chunk, or 0 for no chunks",
            w->chunk);
  RETURN_IF(w->top_left != 0 && w->top_left != 1, ATTNPRESS_INVALID_ARGUMENT,
            "window.top_left is %d; it must be 0 or 1", (int)w->top_left);
  return check_reserved("window", w->reserved);
}

/** A stride of an extent, neither negative nor past what 2^63 bytes hold. */
static attnpress_status check_group_stride(const char *name, int i, int64_t stride, int64_t extent,
                                           int64_t *span) {
  int64_t part;
  RETURN_IF(extent > 1 && stride < 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s.stride[%d] is %" PRId64 " elements; it must not be negative", name, i, stride);
  RETURN_IF(extent > 1 && (__builtin_mul_overflow(extent - 1, stride, &part) ||
                           __builtin_add_overflow(*span, part, span) || *span > INT64_MAX / 4),
            ATTNPRESS_INVALID_ARGUMENT, "%s.stride[%d] %" PRId64 " times its extent overflows",
            name, i, stride);
  return ATTNPRESS_OK;
}

static attnpress_status check_alibi(const attnpress_forward_args *args, int with_data) {
  const attnpress_alibi *a = args->alibi;
  const int64_t batch = ap_extents_of(args).batch;
  int64_t span = 0;
  FORWARD_IF(check_data("alibi", "slopes", a->slopes, ATTNPRESS_FP32, with_data && batch > 0));
  FORWARD_IF(check_group_stride("alibi", 0, a->stride[0], batch, &span));
  return check_group_stride("alibi", 1, a->stride[1], args->q.shape[2], &span);
}

/** Of sequences a bias may have more than the bounds of their lengths, and so has its gradient. */
static attnpress_status check_bias(const attnpress_forward_args *args, int with_data) {
  const attnpress_bias *b = args->bias;
  static const char *const names[4] = {"batch", "heads of q", "seqlen_q", "seqlen_k"};
  static const char *const bounds[2] = {"max_seqlen_q", "max_seqlen_k"};
  const ap_extents of = ap_extents_of(args);
  const int64_t extents[4] = {of.batch, args->q.shape[2], of.seqlen_q, of.seqlen_k};
  int64_t span = 0;
  int empty = 0;
  for (int i = 0; i < 4; ++i) {
    const int bounded = i >= 2 && args->ragged != NULL;
    RETURN_IF(bounded && b->shape[i] < extents[i], ATTNPRESS_INVALID_ARGUMENT,
              "bias.shape[%d] is %" PRId64 "; it must be at least %" PRId64
              ", the bound of the lengths by ragged.%s and the tensors",
              i, b->shape[i], extents[i], bounds[i - 2]);
    const int broadcasts = i < 2 && b->shape[i] == 1;
    RETURN_IF(!bounded && b->shape[i] != extents[i] && !broadcasts, ATTNPRESS_INVALID_ARGUMENT,
              "bias.shape[%d] is %" PRId64 "; it must be %s, %" PRId64 "%s", i, b->shape[i],
              names[i], extents[i], i < 2 ? ", or 1" : "");
    FORWARD_IF(check_group_stride("bias", i, b->stride[i], b->shape[i], &span));
    empty |= extents[i] == 0;
  }
  FORWARD_IF(check_data("bias", "data", b->data, b->dtype, with_data && !empty));
  return check_reserved("bias", b->reserved);
}

/** 1 where two elements of a tensor may meet: sorted, each stride must be at least what those below it
 * span. */
static int elements_meet(const int64_t shape[4], const int64_t stride[4]) {
  int order[4] = {0, 1, 2, 3};
  for (int i = 0; i < 4; ++i)
    for (int j = i + 1; j < 4; ++j)
      if (stride[order[j]] < stride[order[i]]) {
        const int first = order[i];
        order[i] = order[j];
        order[j] = first;
      }
  int64_t span = 1;
  for (int i = 0; i < 4; ++i) {
    const int64_t extent = shape[order[i]];
    if (extent <= 1)
      continue;
    if (stride[order[i]] < span)
      return 1;
    span += (extent - 1) * stride[order[i]];
  }
  return 0;
}

attnpress_status ap_check_dbias(const attnpress_backward_args *args, int with_data) {
  const attnpress_dbias *d = args->dbias;
  static const char *const names[4] = {"batch", "heads of q", "seqlen_q", "seqlen_k"};
  static const char *const of_bias[4] = {"batch", "heads of q", "bias.shape[2]", "bias.shape[3]"};
  int64_t span = 0;
  int empty = 0;
  RETURN_IF(args->bias == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "dbias is given and bias is NULL; the gradient is by what the forward call was given");
  const int ragged = args->ragged != NULL;
  const int64_t extents[4] = {ragged ? args->ragged->batch : args->q.shape[0], args->q.shape[2],
                              ragged ? args->bias->shape[2] : args->q.shape[1],
                              ragged ? args->bias->shape[3] : args->k.shape[1]};
  for (int i = 0; i < 4; ++i) {
    const int sums = i < 3 && d->shape[i] == 1;
    RETURN_IF(d->shape[i] != extents[i] && !sums, ATTNPRESS_INVALID_ARGUMENT,
              "dbias.shape[%d] is %" PRId64 "; it must be %s, %" PRId64 "%s", i, d->shape[i],
              (ragged ? of_bias : names)[i], extents[i], i < 3 ? ", or 1" : "");
    RETURN_IF(d->shape[i] > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
              "dbias.shape[%d] is %" PRId64 "; it must be less than 2^31", i, d->shape[i]);
    FORWARD_IF(check_group_stride("dbias", i, d->stride[i], d->shape[i], &span));
    empty |= d->shape[i] == 0;
  }
  RETURN_IF(!empty && elements_meet(d->shape, d->stride), ATTNPRESS_INVALID_ARGUMENT,
            "dbias.stride is %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
            ", so that elements meet; sorted, each stride must be at least the span below it",
            d->stride[0], d->stride[1], d->stride[2], d->stride[3]);
  FORWARD_IF(check_data("dbias", "data", d->data, d->dtype, with_data && !empty));
  return check_reserved("dbias", d->reserved);
}

static attnpress_status check_sinks(const attnpress_forward_args *args, int with_data) {
  const attnpress_sinks *s = args->sinks;
  int64_t span = 0;
  FORWARD_IF(check_data("sinks", "data", s->data, s->dtype, with_data));
  FORWARD_IF(check_group_stride("sinks", 0, s->stride, args->q.shape[2], &span));
  return check_reserved("sinks", s->reserved);
}

static attnpress_status check_dropout(const attnpress_dropout *d, int with_data) {
  RETURN_IF(!(d->probability >= 0.0f && d->probability < 1.0f), ATTNPRESS_INVALID_ARGUMENT,
            "dropout.probability is %g; it must be 0 to less than 1", (double)d->probability);
  RETURN_IF(with_data && (uintptr_t)d->seed_and_offset % 8 != 0, ATTNPRESS_INVALID_ARGUMENT,
            "dropout.seed_and_offset is %p; it must be aligned to 8 bytes",
            (const void *)d->seed_and_offset);
  return check_reserved("dropout", d->reserved);
}

attnpress_status ap_check_groups(const attnpress_forward_args *args, int with_data) {
  FORWARD_IF(check_window(args));
  if (args->alibi != NULL)
    FORWARD_IF(check_alibi(args, with_data));
  if (args->bias != NULL)
    FORWARD_IF(check_bias(args, with_data));
  if (args->sinks != NULL)
    FORWARD_IF(check_sinks(args, with_data));
  if (args->dropout != NULL)
    FORWARD_IF(check_dropout(args->dropout, with_data));
  RETURN_IF(!isfinite(args->softcap) || args->softcap < 0.0f, ATTNPRESS_INVALID_ARGUMENT,
            "softcap is %g; it must be positive and finite, or 0 for none", (double)args->softcap);
  RETURN_IF(args->reserved_2 != 0, ATTNPRESS_INVALID_ARGUMENT, "reserved_2 is %d; it must be 0",
            (int)args->reserved_2);
  if (args->score_mod != NULL)
    FORWARD_IF(ap_check_score_mod(args, with_data));
  return ATTNPRESS_OK;
}
