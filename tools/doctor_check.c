/* The doctor's launch: a small call on a device, against the same call on the CPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attnpress/attnpress.h"
#include "cpu/half.h"
#include "cuda_device.h"
#include "tool.h"

enum { BATCH = 1, SEQLEN = 100, HEADS = 4, KV_HEADS = 2, HEAD_DIM = 64 };
enum {
  Q_COUNT = BATCH * SEQLEN * HEADS * HEAD_DIM,
  K_COUNT = BATCH * SEQLEN * KV_HEADS * HEAD_DIM
};
enum { TENSORS = 4 };
/* Inputs are within 1, so that outputs are, and bf16 has 8 bits: a rounding of P and one of the
 * output on either side. */
#define MOST_DIFFERENCE (4.0f / 256)

static const int counts[TENSORS] = {Q_COUNT, K_COUNT, K_COUNT, Q_COUNT};

/** q, k, v and out in one place each, from 0 to 3. */
static attnpress_forward_args make_args(void *const data[TENSORS]) {
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  args.q = attnpress_tensor_bshd(data[0], BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd(data[1], BATCH, SEQLEN, KV_HEADS, HEAD_DIM, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd(data[2], BATCH, SEQLEN, KV_HEADS, HEAD_DIM, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd(data[3], BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_BF16);
  args.mask = ATTNPRESS_CAUSAL;
  args.num_splits = 1; /* which needs no workspace */
  return args;
}

/** One call in a handle of its own, and then `wait`, before the handle goes; 0: the sentence is the
 * library's. */
static int call(int32_t backend, void *const data[TENSORS], CUresult (*wait)(void),
                CUresult *result) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle;
  const attnpress_forward_args args = make_args(data);
  options.backend = backend;
  if (attnpress_create(&handle, &options) != ATTNPRESS_OK)
    return 0;
  const int good = attnpress_forward(handle, &args, NULL) == ATTNPRESS_OK;
  if (wait != NULL)
    *result = wait();
  attnpress_destroy(handle);
  return good;
}

static float from_bf16(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/** Copies the inputs there, calls, copies the output back into `host[3]`; 0: `why` says why not. */
static int call_on_device(cuda_device *d, void *const host[TENSORS], char *why, size_t size) {
  void *there[TENSORS] = {NULL};
  CUresult result = CUDA_SUCCESS;
  int good = 1;
  for (int i = 0; i < TENSORS && result == CUDA_SUCCESS; ++i) {
    CUdeviceptr pointer = 0;
    const size_t bytes = (size_t)counts[i] * sizeof(uint16_t);
    result = d->mem_alloc(&pointer, bytes);
    there[i] = (void *)(uintptr_t)pointer;
    if (result == CUDA_SUCCESS)
      result = d->memcpy_htod(pointer, host[i], bytes);
  }
  if (result == CUDA_SUCCESS && !(good = call(ATTNPRESS_CUDA, there, d->ctx_synchronize, &result)))
    snprintf(why, size, "%s", attnpress_last_error());
  if (result == CUDA_SUCCESS && good)
    result = d->memcpy_dtoh(host[3], (CUdeviceptr)(uintptr_t)there[3],
                            (size_t)counts[3] * sizeof(uint16_t));
  if (good && result != CUDA_SUCCESS)
    snprintf(why, size, "%s", cuda_device_error(d, result));
  for (int i = 0; i < TENSORS; ++i)
    if (there[i] != NULL)
      d->mem_free((CUdeviceptr)(uintptr_t)there[i]);
  return good && result == CUDA_SUCCESS;
}

static float most_difference(const uint16_t *a, const uint16_t *b, int count) {
  float most = 0;
  for (int i = 0; i < count; ++i) {
    const float difference = fabsf(from_bf16(a[i]) - from_bf16(b[i]));
    if (!(difference <= most)) /* NaN counts */
      most = difference;
  }
  return most;
}

int tool_check_device(int ordinal, char *text, size_t size) {
  cuda_device device;
  uint16_t *data[TENSORS + 1] = {NULL}; /* the last one: the CPU's output */
  int good = 1;
  if (cuda_device_open(&device, ordinal, text, size) != 0)
    return 0;
  for (int i = 0; i <= TENSORS; ++i) {
    const int count = counts[i < TENSORS ? i : TENSORS - 1];
    data[i] = calloc((size_t)count, sizeof(uint16_t));
    good &= data[i] != NULL;
    for (int j = 0; data[i] != NULL && i < 3 && j < count; ++j)
      data[i][j] = ap_bf16_from_float((float)((j * 37 + i * 11) % 201 - 100) / 100.0f);
  }
  if (!good)
    snprintf(text, size, "host memory ran out");
  else if (!(good =
                 call(ATTNPRESS_CPU, (void *[]){data[0], data[1], data[2], data[4]}, NULL, NULL)))
    snprintf(text, size, "%s", attnpress_last_error());
  const double begin_ms = tool_now_ms();
  if (good)
    good = call_on_device(&device, (void *[]){data[0], data[1], data[2], data[3]}, text, size);
  if (good) {
    const float most = most_difference(data[3], data[4], Q_COUNT);
    good = most <= MOST_DIFFERENCE;
    snprintf(text, size, "%s: differs from the CPU by %g at most, %g is allowed (%.0f ms)",
             good ? "held" : "WRONG", (double)most, (double)MOST_DIFFERENCE,
             tool_now_ms() - begin_ms);
  }
  for (int i = 0; i <= TENSORS; ++i)
    free(data[i]);
  cuda_device_close(&device);
  return good;
}
