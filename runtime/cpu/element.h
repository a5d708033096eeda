/* One element of a tensor in host memory, by its dtype: fp16, bf16 or fp32; and fp64, of families
 * whose CPU backend has it. */
#pragma once
#include "attnpress/attnpress.h"
#include "cpu/half.h"

enum { AP_FP64 = 4 /* as the headers of those families have it */ };

static inline int64_t ap_element_bytes(int32_t dtype) {
  return dtype == AP_FP64 ? 8 : dtype == ATTNPRESS_FP32 ? 4 : 2;
}

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

/** Of fp64, too. */
static inline double ap_load_double(const void *data, int64_t at, int32_t dtype) {
  return dtype == AP_FP64 ? ((const double *)data)[at] : (double)ap_load_element(data, at, dtype);
}

static inline void ap_store_double(void *data, int64_t at, double value, int32_t dtype) {
  if (dtype == AP_FP64)
    ((double *)data)[at] = value;
  else
    ap_store_element(data, at, (float)value, dtype);
}
