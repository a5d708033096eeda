/* Softmax on the present GPU, against float64: every class of columns, dtype and pass, rows that
 * begin anywhere, in place and not; results that are read at once, on side streams, again and again;
 * more than 2^31 elements. Ends with status 77 where there is no CUDA device. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "../tools/softmax/reference.h"
#include "attnpress/softmax.h"
#include "gpu_support.h"

enum { TENSORS = 3, OFFSET = 3 /* elements before the first row */ };

/* x, y or y, dy, dx, on the host and the device; the output is last. In place the output's device
 * memory is that of the input before it. */
typedef struct call {
  softmax_case c;
  int count, in_place;
  int64_t size, stride[TENSORS];
  size_t bytes[TENSORS];
  char *host[TENSORS];
  CUdeviceptr device[TENSORS];
} call;

static void open_call(call *k, int dtype, int backward, int64_t rows, int64_t columns, int mixed,
                      int in_place) {
  *k = (call){.c = {.backward = backward,
                    .dtype = dtype,
                    .scale = mixed ? -0.7f : 1.0f,
                    .rows = rows,
                    .columns = columns},
              .count = backward ? 3 : 2,
              .in_place = in_place,
              .size = dtype == ATTNPRESS_FP32 ? 4 : 2};
  for (int i = 0; i < k->count; ++i) {
    const int over = in_place && i == k->count - 1;
    k->stride[i] = over ? k->stride[i - 1] : columns + (mixed ? 5 + i : 0);
    k->bytes[i] = (size_t)(softmax_span_bytes(&k->c, k->stride[i]) + (OFFSET + i) * k->size);
    k->host[i] = malloc(k->bytes[i]);
    memset(k->host[i], 0xff, k->bytes[i]);
    if (over)
      k->device[i] = k->device[i - 1];
    else
      CHECK_CUDA(gpu.mem_alloc(&k->device[i], k->bytes[i]));
    if (i < k->count - 1)
      softmax_fill(k->host[i] + (mixed ? (OFFSET + i) * k->size : 0), &k->c, k->stride[i],
                   backward ? 1.0 : 3.0, backward && i == 0, (uint64_t)(i + 1));
    if (!over)
      CHECK_CUDA(gpu.memcpy_htod(k->device[i], k->host[i], k->bytes[i]));
    if (i < k->count - 1) {
      k->c.input[i] = k->host[i] + (mixed ? (OFFSET + i) * k->size : 0);
      k->c.input_stride[i] = k->stride[i];
    }
  }
  const int out = k->count - 1, begin = in_place ? out - 1 : out;
  k->c.output = k->host[out] + (mixed ? (OFFSET + begin) * k->size : 0);
  k->c.output_stride = k->stride[out];
}

static void close_call(call *k) {
  for (int i = 0; i < k->count; ++i) {
    free(k->host[i]);
    if (!(k->in_place && i == k->count - 1))
      gpu.mem_free(k->device[i]);
  }
}

static void *data_of(const call *k, int i, int mixed) {
  const int begin = k->in_place && i == k->count - 1 ? i - 1 : i;
  return (void *)(uintptr_t)(k->device[i] + (CUdeviceptr)(mixed ? (OFFSET + begin) * k->size : 0));
}

static attnpress_status run(const call *k, int mixed, CUstream stream) {
  if (k->c.backward) {
    const attnpress_softmax_backward_args args = {
        sizeof args,  data_of(k, 0, mixed), data_of(k, 1, mixed), data_of(k, 2, mixed), k->c.rows,
        k->c.columns, k->stride[0],         k->stride[1],         k->stride[2],         k->c.dtype,
        k->c.scale};
    return attnpress_softmax_backward(handle, &args, stream);
  }
  const attnpress_softmax_args args = {sizeof args,  data_of(k, 0, mixed), data_of(k, 1, mixed),
                                       k->c.rows,    k->c.columns,         k->stride[0],
                                       k->stride[1], k->c.dtype,           k->c.scale};
  return attnpress_softmax(handle, &args, stream);
}

static void check_result(const call *k, const char *what) {
  softmax_error e = {0};
  softmax_check(&k->c, &e);
  ++checks;
  if (!(e.ratio <= 1.0)) {
    ++failures;
    printf("FAILED: %s, %s, dtype %d, %lld columns: row %lld, column %lld is %.9g, expected %.9g\n",
           what, k->c.backward ? "backward" : "forward", (int)k->c.dtype, (long long)k->c.columns,
           (long long)e.row, (long long)e.column, e.value, e.expected);
  }
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void test_table(void) {
  /* Some that fill a kernel's vectors, some with all the edges beside them. */
  static const int64_t columns[] = {
      1,     3,     17,    32,    33,    39,    40,    64,    65,     67,   71,    96,
      100,   128,   129,   192,   257,   384,   512,   700,   768,    1000, 1024,  1025,
      1031,  1536,  2048,  3000,  3072,  4096,  5000,  6144,  8192,   9000, 12288, 16384,
      16387, 20000, 24576, 24583, 32768, 32771, 32775, 40001, 1 << 20};
  for (size_t n = 0; n < sizeof columns / sizeof *columns; ++n)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int backward = 0; backward < 2; ++backward)
        for (int way = 0; way < 4; ++way) {
          const int mixed = way & 1, in_place = way >> 1;
          const int64_t rows = columns[n] < 600     ? 137
                               : columns[n] < 2000  ? 19
                               : columns[n] < 50000 ? 3
                                                    : 1;
          call k;
          if (columns[n] > 50000 && way != 1)
            continue;
          open_call(&k, dtype, backward, rows, columns[n], mixed, in_place);
          CHECK_OK(run(&k, mixed, NULL));
          /* Nothing waits in between: the copy comes after the kernel on its stream. */
          CHECK_CUDA(gpu.memcpy_dtoh(k.host[k.count - 1], k.device[k.count - 1],
                                     k.bytes[in_place ? k.count - 2 : k.count - 1]));
          check_result(&k, mixed ? "odd rows" : "packed");
          close_call(&k);
        }
}

/* ---- Streams, repeats ------------------------------------------------------------------------ */

static void test_side_stream(void) {
  CUstream stream;
  call k;
  CHECK_CUDA(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  open_call(&k, ATTNPRESS_BF16, 0, 20000, 1000, 0, 0);
  CHECK_OK(run(&k, 0, stream)); /* compiled and loaded */
  for (int i = 0; i < 20; ++i) {
    CHECK_CUDA(gpu.memset_d8_async(k.device[1], 0xff, k.bytes[1], stream));
    CHECK_OK(run(&k, 0, stream));
    CHECK_CUDA(gpu.stream_synchronize(stream));
    CHECK_CUDA(gpu.memcpy_dtoh(k.host[1], k.device[1], k.bytes[1]));
  }
  check_result(&k, "on a side stream");
  close_call(&k);
  gpu.stream_destroy(stream);
}

static void test_repeats(int backward, int dtype, int64_t rows, int64_t columns) {
  call k;
  open_call(&k, dtype, backward, rows, columns, 1, 0);
  const int out = k.count - 1;
  char *first = malloc(k.bytes[out]);
  for (int i = 0; i < 1000; ++i) {
    CHECK_CUDA(gpu.memset_d8_async(k.device[out], 0xff, k.bytes[out], NULL));
    CHECK_OK(run(&k, 1, NULL));
    CHECK_CUDA(gpu.memcpy_dtoh(i == 0 ? first : k.host[out], k.device[out], k.bytes[out]));
    if (i > 0 && memcmp(first, k.host[out], k.bytes[out]) != 0) {
      CHECK(!"the same bits again");
      break;
    }
  }
  check_result(&k, "repeated");
  free(first);
  close_call(&k);
}

/* ---- More than 2^31 elements ------------------------------------------------------------------ */

static void test_large(int backward) {
  enum { BLOCK_ROWS = 1024, COLUMNS = 1000 };
  const int64_t blocks = ((INT64_C(1) << 31) / COLUMNS + 1) / BLOCK_ROWS + 2;
  call k;
  size_t free_bytes = 0, total_bytes;
  CUdeviceptr whole[TENSORS];
  open_call(&k, ATTNPRESS_FP16, backward, BLOCK_ROWS, COLUMNS, 0, 0);
  const size_t bytes = (size_t)BLOCK_ROWS * COLUMNS * 2; /* of a block of rows */
  gpu.mem_get_info(&free_bytes, &total_bytes);
  if (free_bytes < ((size_t)k.count * (size_t)blocks + 64) * bytes) {
    printf("skipped: more than 2^31 elements: too little memory is free\n");
    close_call(&k);
    return;
  }
  for (int i = 0; i < k.count; ++i) {
    CHECK_CUDA(gpu.mem_alloc(&whole[i], bytes * (size_t)blocks));
    for (int64_t b = 0; b < blocks; ++b)
      CHECK_CUDA(
          gpu.memcpy_dtod_async(whole[i] + (CUdeviceptr)b * bytes, k.device[i], bytes, NULL));
    gpu.mem_free(k.device[i]);
    k.device[i] = whole[i];
  }
  k.c.rows = BLOCK_ROWS * blocks - 1; /* the last row is left alone */
  CHECK_OK(run(&k, 0, NULL));
  k.c.rows = BLOCK_ROWS;
  const int out = k.count - 1;
  for (int64_t b = 0; b < blocks; b += b + 100 < blocks ? 97 : 1) {
    CHECK_CUDA(gpu.memcpy_dtoh(k.host[out], whole[out] + (CUdeviceptr)b * bytes, bytes));
    k.c.rows = b == blocks - 1 ? BLOCK_ROWS - 1 : BLOCK_ROWS;
    if (b < 2 || b > blocks - 3)
      check_result(&k, "more than 2^31 elements");
  }
  const uint16_t *last = (const uint16_t *)k.host[out] + (BLOCK_ROWS - 1) * COLUMNS;
  for (int i = 0; i < COLUMNS; ++i)
    CHECK(last[i] == 0xffff);
  k.c.rows = BLOCK_ROWS;
  close_call(&k);
}

static void tests(void) {
  test_table();
  test_side_stream();
  test_repeats(0, ATTNPRESS_FP16, 300, 3000);
  test_repeats(1, ATTNPRESS_FP32, 40, 32768);
  test_repeats(0, ATTNPRESS_BF16, 2000, 50);
  test_large(0);
  test_large(1);
}

int main(void) {
  return run_on_gpu(tests);
}
