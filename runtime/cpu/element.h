/* One element of a tensor in host memory, by its dtype: fp16, bf16 or fp32. */
#pragma once
#include "attnpress/attnpress.h"
#include "cpu/half.h"

static inline float ap_load_element(const void *data, int64_t at, int32_t dtype) {
  if (dtype == ATTNPRESS_FP32)
    return ((const float *)data)[at];
  const uint16_t bits = ((const uint16_t *)data)[at];
  return dtype == ATTNPRESS_FP16 ? ap_float_from_fp16(bits) : ap_float_from_bf16(bits);
}

static inline void ap_store_element(void *data, int64_t at, float value, int32_t dtype) {
  if (dtype == ATTNPRESS_FP32)
    ((float *)data)[at] = value;
  else
    ((uint16_t *)data)[at] =
        dtype == ATTNPRESS_FP16 ? ap_fp16_from_float(value) : ap_bf16_from_float(value);
}
