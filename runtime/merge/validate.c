/* Checks what callers hand in. Nothing here looks at a device or at memory that a pointer names,
 * except for the array of parts. */
#include "merge/merge.h"

#include <inttypes.h>
#include <stdio.h>

#include "attention/strided.h"

enum { NAME_BYTES = 32 };

static attnpress_status check_part(const attnpress_merge_part *parts, int32_t index, ap_check how,
                                   attnpress_merge_part *checked) {
  char name[NAME_BYTES], lse_name[NAME_BYTES];
  snprintf(name, sizeof name, "parts[%d].out", (int)index);
  snprintf(lse_name, sizeof lse_name, "parts[%d].lse", (int)index);
  *checked = parts[index];
  FORWARD_IF(ap_strided_check(&checked->out, (ap_strided){name, how.with_data, 0}));
  if (index > 0) {
    RETURN_IF(checked->out.dtype != parts[0].out.dtype, ATTNPRESS_INVALID_ARGUMENT,
              "%s.dtype is %d and parts[0]'s is %d; they must be equal", name,
              (int)checked->out.dtype, (int)parts[0].out.dtype);
    FORWARD_IF(ap_strided_same(&parts[0].out, "parts[0].out", &checked->out, name, 0));
  }
  const int64_t *shape = checked->out.shape;
  const int64_t extent[3] = {shape[0], shape[2], shape[1]};
  FORWARD_IF(ap_strided_lse_check(checked->lse, extent, checked->lse_stride,
                                  (ap_strided){lse_name, how.with_data, 0}));
  RETURN_IF(how.with_data && checked->lse == NULL && shape[0] > 0 && shape[1] > 0 && shape[2] > 0,
            ATTNPRESS_INVALID_ARGUMENT, "%s is NULL; each part needs its lse", lse_name);
  return ATTNPRESS_OK;
}

/** out over a part: the same elements in the same places. */
static attnpress_status check_in_place(const ap_merge_problem *p) {
  for (int32_t i = 0; i < p->num_parts; ++i) {
    const attnpress_merge_part *part = &p->part[i];
    if (p->out.data != NULL && part->out.data == p->out.data) {
      RETURN_IF(part->out.dtype != p->out.dtype, ATTNPRESS_INVALID_ARGUMENT,
                "out lies over parts[%d].out, whose dtype is %d, and has dtype %d; they must be "
                "equal",
                (int)i, (int)part->out.dtype, (int)p->out.dtype);
      for (int d = 0; d < 3; ++d)
        RETURN_IF(p->out.shape[d] > 1 && part->out.stride[d] != p->out.stride[d],
                  ATTNPRESS_INVALID_ARGUMENT,
                  "out lies over parts[%d].out, whose stride[%d] is %" PRId64 ", and has %" PRId64
                  "; they must be equal",
                  (int)i, d, part->out.stride[d], p->out.stride[d]);
    }
    if (p->lse == NULL || part->lse != p->lse)
      continue;
    const int64_t extent[3] = {p->batch, p->heads, p->seqlen};
    for (int d = 0; d < 3; ++d)
      RETURN_IF(extent[d] > 1 && part->lse_stride[d] != p->lse_stride[d],
                ATTNPRESS_INVALID_ARGUMENT,
                "lse lies over parts[%d].lse, whose lse_stride[%d] is %" PRId64 ", and has %" PRId64
                "; they must be equal",
                (int)i, d, part->lse_stride[d], p->lse_stride[d]);
  }
  return ATTNPRESS_OK;
}

attnpress_status ap_merge_validate(const attnpress_merge_args *a, ap_check how,
                                   ap_merge_problem *p) {
  int64_t rows;
  RETURN_IF(a->num_parts < 1 || a->num_parts > ATTNPRESS_MERGE_PARTS_MAX,
            ATTNPRESS_INVALID_ARGUMENT,
            "num_parts is %d; it must be 1 to %d: merge more in several calls, out over a part",
            (int)a->num_parts, (int)ATTNPRESS_MERGE_PARTS_MAX);
  RETURN_IF(a->parts == NULL, ATTNPRESS_INVALID_ARGUMENT, "parts is NULL; it must hold %d",
            (int)a->num_parts);
  RETURN_IF(a->lse_log2 != 0 && a->lse_log2 != 1, ATTNPRESS_INVALID_ARGUMENT,
            "lse_log2 is %d; it must be 0 or 1", (int)a->lse_log2);
  *p = (ap_merge_problem){.num_parts = a->num_parts,
                          .lse_log2 = a->lse_log2,
                          .out = a->out,
                          .lse = a->lse,
                          .lse_stride = {a->lse_stride[0], a->lse_stride[1], a->lse_stride[2]}};
  for (int32_t i = 0; i < a->num_parts; ++i)
    FORWARD_IF(check_part(a->parts, i, how, &p->part[i]));
  FORWARD_IF(ap_strided_check(&p->out, (ap_strided){"out", how.with_data, 1}));
  FORWARD_IF(ap_strided_same(&p->part[0].out, "parts[0].out", &p->out, "out", 0));
  p->dtype = p->part[0].out.dtype;
  p->out_dtype = p->out.dtype;
  p->batch = p->out.shape[0];
  p->seqlen = p->out.shape[1];
  p->heads = p->out.shape[2];
  p->head_dim = p->out.shape[3];
  RETURN_IF(__builtin_mul_overflow(p->batch * p->seqlen, p->heads, &rows) || rows > INT32_MAX,
            ATTNPRESS_NOT_SUPPORTED,
            "batch %" PRId64 " x seqlen %" PRId64 " x heads %" PRId64
            " is more than 2^31 - 1 rows: merge them in several calls",
            p->batch, p->seqlen, p->heads);
  if (p->lse != NULL)
    FORWARD_IF(ap_strided_lse_check(p->lse, (int64_t[]){p->batch, p->heads, p->seqlen},
                                    p->lse_stride, (ap_strided){"lse", how.with_data, 1}));
  return how.with_data ? check_in_place(p) : ATTNPRESS_OK;
}
