/* Checks of 4-D tensors that may have any strides, of the families beside attention. */
#pragma once
#include "call.h"

/** What is asked of a tensor. */
typedef struct ap_strided {
  const char *name; /* as the caller knows it: "out", "parts[3].out" */
  int32_t with_data, written;
} ap_strided;

/** dtype (fp16, bf16, fp32), extents, strides, span, address, and of what is written that rows do
 * not overlap; the sentence names what is wrong. */
attnpress_status ap_strided_check(const attnpress_tensor *tensor, ap_strided how);
/** The same of fp32 numbers, one a row: (batch, heads, seqlen) by strides, which are filled in
 * where all are 0. */
attnpress_status ap_strided_lse_check(const float *lse, const int64_t extent[3], int64_t stride[3],
                                      ap_strided how);
/** Extents from `first` to 3 of `other` must be `tensor`'s. */
attnpress_status ap_strided_same(const attnpress_tensor *tensor, const char *name,
                                 const attnpress_tensor *other, const char *other_name, int first);
/** Whether a tensor has no elements. */
int ap_strided_is_empty(const attnpress_tensor *tensor);
