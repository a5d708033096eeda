/* Attention over parts of the keys, made into attention over all of them: for prefixes that
 * requests share, for keys that lie on several devices, for any split of a caller's own.
 * attnpress.h has the conventions (status, structs that grow, units, threads, streams), the handle
 * and plans; they hold here too.
 *
 *     lse = log(sum over i of exp(lse_i)),     out = sum over i of exp(lse_i - lse) * out_i
 *
 * where part i is what attnpress_forward() gives for a part of the keys: out_i and lse_i. The order
 * of the parts changes nothing but rounding.
 *
 * A part whose lse_i is -inf had no key that the row sees, and counts for nothing, whatever its row
 * of out_i holds, NaN included; so does one of +inf, which flash-attn writes for such rows. A row
 * without keys in any part becomes out = 0 and lse = -inf. NaN comes from NaN alone.
 *
 * Tensors are (batch, seqlen, heads, head_dim) by their strides, which may be any that are not
 * negative, also no multiples of 8; ragged sequences are one entry, (1, total, heads, head_dim).
 * The last dimension is contiguous, pointers are aligned to an element. Extents are 0 to 2^31 - 1
 * each, and batch * seqlen * heads is at most 2^31 - 1.
 *
 * Results are the same bit for bit whenever shapes, dtypes, the parts' order and the device are. */
#pragma once
#include "attnpress/attnpress.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTNPRESS_MERGE_PARTS_MAX = 16 };

/** One part. This struct is frozen, as attnpress_tensor is. */
typedef struct attnpress_merge_part {
  attnpress_tensor out;  /* (batch, seqlen, heads, head_dim); stride 0 broadcasts */
  const float *lse;      /* (batch, heads, seqlen) */
  int64_t lse_stride[3]; /* batch, head, row, in elements, not negative; all 0: contiguous */
} attnpress_merge_part;
#define ATTNPRESS_MERGE_PART_INIT                                                                  \
  {                                                                                                \
    ATTNPRESS_TENSOR_INIT, NULL, {                                                                 \
      0, 0, 0                                                                                      \
    }                                                                                              \
  }

typedef struct attnpress_merge_args {
  size_t struct_size;
  const attnpress_merge_part *parts; /* (num_parts), of one shape and dtype; read during the call */
  int32_t num_parts;                 /* 1 to ATTNPRESS_MERGE_PARTS_MAX */
  /** 1: every lse, those of the parts and the result's, is a logarithm to base 2; 0: natural. */
  int32_t lse_log2;
  /** Written: the parts' shape; FP16, BF16 or FP32, whatever theirs is. It may lie over one part's
   * out, at the same address and strides and of the same dtype: merging into what is there. */
  attnpress_tensor out;
  float *lse;            /* (batch, heads, seqlen); written; over one part's, likewise; or NULL */
  int64_t lse_stride[3]; /* as of a part */
} attnpress_merge_args;
#define ATTNPRESS_MERGE_ARGS_INIT                                                                  \
  {                                                                                                \
    sizeof(attnpress_merge_args), NULL, 0, 0, ATTNPRESS_TENSOR_INIT, NULL, {                       \
      0, 0, 0                                                                                      \
    }                                                                                              \
  }

/** Merges, asynchronously on `stream` (CUstream or cudaStream_t; NULL: the default stream of the
 * current context); the CPU backend ignores it and returns when the result is there. Needs no
 * workspace. Arithmetic is fp32, on the CPU fp64.
 * OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, NO_NVRTC, NO_KERNEL, CAPTURING,
 * COMPILE_FAILED, DRIVER_ERROR, IO_ERROR. */
ATTNPRESS_API attnpress_status attnpress_merge(attnpress_handle *handle,
                                               const attnpress_merge_args *args, void *stream);

/** Plans attnpress_merge(). With ATTNPRESS_UP_TO the plan serves every shape and number of parts of
 * these dtypes. OK, INVALID_ARGUMENT, NOT_SUPPORTED, OUT_OF_MEMORY, DRIVER_ERROR. */
ATTNPRESS_API attnpress_status attnpress_plan_merge(attnpress_handle *handle,
                                                    const attnpress_merge_args *args,
                                                    const attnpress_plan_options *options,
                                                    attnpress_plan **plan);

#ifdef __cplusplus
}
#endif
