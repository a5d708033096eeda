/* The matrix product in place on the present GPU, against float64: columns of every class, each
 * dtype, both products, room between rows; each way in which thread blocks share rows; results that
 * are read at once, on a side stream, on two streams, again and again; device memory; more than
 * 2^31 elements. Ends with status 77 where there is no CUDA device. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/matmul/reference.h"
#include "../tools/rows.h"
#include "attnpress/matmul.h"
#include "gpu_support.h"

enum { GAP = 24, ROWS_CHECKED = 6 };

/* x lies on the device twice: as it is, and as it was. */
typedef struct call {
  matmul_case c;
  size_t x_bytes, w_bytes;
  char *before, *x, *w;
  CUdeviceptr device_x, device_before, device_w;
} call;

static void open_call(call *k, int64_t rows, int64_t n, int dtype, int w_dtype, int transposed,
                      int gaps) {
  const int64_t stride = n + (gaps ? GAP : 0);
  *k = (call){.c = {.dtype = dtype,
                    .w_dtype = w_dtype,
                    .transposed = transposed,
                    .rows = rows,
                    .n = n,
                    .before_stride = stride,
                    .x_stride = stride,
                    .w_stride = stride},
              .x_bytes = (size_t)(rows * stride * 2),
              .w_bytes = (size_t)(n * stride * (w_dtype == ATTNPRESS_FP32 ? 4 : 2))};
  k->before = malloc(k->x_bytes);
  k->x = malloc(k->x_bytes);
  k->w = malloc(k->w_bytes);
  memset(k->before, 0xff, k->x_bytes); /* between rows: NaN */
  memset(k->w, 0xff, k->w_bytes);
  rows_fill(k->before, rows, n, stride, dtype, 0.1, 1.0, 1);
  rows_fill(k->w, n, n, stride, w_dtype, 0.0, 1.0 / sqrt((double)n), 2);
  k->c.before = k->before;
  k->c.x = k->x;
  k->c.w = k->w;
  CHECK_CUDA(gpu.mem_alloc(&k->device_x, k->x_bytes));
  CHECK_CUDA(gpu.mem_alloc(&k->device_before, k->x_bytes));
  CHECK_CUDA(gpu.mem_alloc(&k->device_w, k->w_bytes));
  CHECK_CUDA(gpu.memcpy_htod(k->device_before, k->before, k->x_bytes));
  CHECK_CUDA(gpu.memcpy_htod(k->device_w, k->w, k->w_bytes));
}

static void close_call(call *k) {
  free(k->before), free(k->x), free(k->w);
  gpu.mem_free(k->device_x);
  gpu.mem_free(k->device_before);
  gpu.mem_free(k->device_w);
}

/* The product of what x is. */
static void multiply(const call *k, CUstream stream) {
  const matmul_case *c = &k->c;
  attnpress_matmul_args args = ATTNPRESS_MATMUL_ARGS_INIT;
  args.x = (void *)(uintptr_t)k->device_x, args.w = (void *)(uintptr_t)k->device_w;
  args.rows = c->rows, args.n = c->n;
  args.x_stride = c->x_stride, args.w_stride = c->w_stride;
  args.dtype = c->dtype, args.w_dtype = c->w_dtype, args.transposed = c->transposed;
  CHECK_OK(attnpress_matmul(handle, &args, stream));
}

/* x as it was, and the product. Nothing waits in between. */
static void run(const call *k, CUstream stream) {
  CHECK_CUDA(gpu.memcpy_dtod_async(k->device_x, k->device_before, k->x_bytes, stream));
  multiply(k, stream);
}

static void report(const call *k, const char *what, const matmul_error *e) {
  ++checks;
  if (e->ratio <= 1.0)
    return;
  ++failures;
  printf("FAILED: %s, %lld rows, n %lld, dtype %d, W %d%s: row %lld, column %lld is %.9g, expected "
         "%.9g\n",
         what, (long long)k->c.rows, (long long)k->c.n, (int)k->c.dtype, (int)k->c.w_dtype,
         k->c.transposed ? ", transposed" : "", (long long)e->row, (long long)e->column, e->value,
         e->expected);
}

/* Rows from both ends and between, and whether any element of x is NaN, or what lies between its
 * rows is not. */
static void check_result(const call *k, const char *what) {
  const matmul_case *c = &k->c;
  matmul_error e = {0};
  for (int i = 0; i < ROWS_CHECKED; ++i)
    matmul_check_row(c, (c->rows - 1) * i / (ROWS_CHECKED - 1), &e);
  int64_t wrong = 0;
  for (int64_t row = 0; row < c->rows; ++row)
    for (int64_t i = 0; i < c->x_stride; ++i)
      wrong += (isnan(rows_load(k->x, row * c->x_stride + i, c->dtype)) != 0) != (i >= c->n);
  CHECK(wrong == 0);
  report(k, what, &e);
}

static void test_table(void) {
  static const int64_t columns[] = {8,   40,  136,  256,  264,  512,  520,
                                    768, 776, 1024, 1032, 2048, 2056, 4096};
  for (size_t i = 0; i < sizeof columns / sizeof *columns; ++i)
    for (int way = 0; way < 8; ++way) {
      const int dtype = way & 1 ? ATTNPRESS_FP16 : ATTNPRESS_BF16;
      const int w_dtype = way >> 2 ? ATTNPRESS_FP32 : dtype;
      if (columns[i] > 1100 && (way & 1) != (way >> 1 & 1))
        continue; /* a sample: they take the host a while */
      call k;
      open_call(&k, way & 1 ? 333 : 128, columns[i], dtype, w_dtype, way >> 1 & 1, i % 2);
      run(&k, NULL);
      CHECK_CUDA(gpu.memcpy_dtoh(k.x, k.device_x, k.x_bytes));
      check_result(&k, "table");
      close_call(&k);
    }
}

/* Each tile of Hopper's kernels, by each way in which their thread blocks share rows. */
static void test_shares(void) {
  static const struct {
    int64_t rows, n;
    int transposed;
  } shapes[] = {
      {1, 8, 0},      {9969, 32, 1},   {74, 320, 0},    {700, 512, 1},   {300, 1024, 0},
      {3000, 768, 1}, {3000, 768, 0},  {20000, 512, 1}, {1, 4096, 0},    {16, 4096, 0},
      {200, 2048, 1}, {1000, 1536, 0}, {2000, 2600, 1}, {4097, 1024, 0}, {5000, 2048, 1},
      {64, 2048, 1},  {61, 2056, 1},   {256, 3000, 1},  {132, 4096, 0},  {132, 4096, 1},
      {500, 4096, 0}, {500, 4096, 1},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int gaps = 0; gaps < 2; ++gaps) {
      const int dtype = i % 2 ? ATTNPRESS_FP16 : ATTNPRESS_BF16;
      call k;
      open_call(&k, shapes[i].rows, shapes[i].n, dtype, dtype, shapes[i].transposed, gaps);
      run(&k, NULL);
      CHECK_CUDA(gpu.memcpy_dtoh(k.x, k.device_x, k.x_bytes));
      check_result(&k, "shared");
      close_call(&k);
    }
}

/* All row blocks, in flight at once, of kernels whose thread blocks share rows. */
static void test_many_rows(int64_t rows, int64_t n) {
  call k;
  open_call(&k, rows, n, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0);
  run(&k, NULL);
  CHECK_CUDA(gpu.memcpy_dtoh(k.x, k.device_x, k.x_bytes));
  check_result(&k, "many rows");
  close_call(&k);
}

static void test_side_stream(void) {
  CUstream stream;
  call k;
  CHECK_CUDA(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  open_call(&k, 5000, 512, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0);
  for (int i = 0; i < 20; ++i) {
    run(&k, stream);
    CHECK_CUDA(gpu.stream_synchronize(stream));
    CHECK_CUDA(gpu.memcpy_dtoh(k.x, k.device_x, k.x_bytes));
  }
  check_result(&k, "on a side stream");
  close_call(&k);
  gpu.stream_destroy(stream);
}

/* x W W W W, one behind the other. */
static void run_powers(const call *k, CUstream stream) {
  run(k, stream);
  for (int i = 0; i < 3; ++i)
    multiply(k, stream);
}

/* Launches that each wait for all of their own thread blocks, more than the device has room for at
 * the same time, and each of which may begin before the one before it has ended. */
static void test_two_streams(void) {
  CUstream streams[2];
  call calls[2];
  char *first[2];
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(gpu.stream_create(&streams[i], CU_STREAM_NON_BLOCKING));
    open_call(&calls[i], i ? 1000 : 64, i ? 1536 : 4096, ATTNPRESS_BF16, ATTNPRESS_BF16, !i, 0);
    run(&calls[i], streams[i]);
    CHECK_CUDA(gpu.stream_synchronize(streams[i]));
    CHECK_CUDA(gpu.memcpy_dtoh(calls[i].x, calls[i].device_x, calls[i].x_bytes));
    check_result(&calls[i], "before two streams");
    run_powers(&calls[i], streams[i]);
    CHECK_CUDA(gpu.stream_synchronize(streams[i]));
    first[i] = malloc(calls[i].x_bytes);
    CHECK_CUDA(gpu.memcpy_dtoh(first[i], calls[i].device_x, calls[i].x_bytes));
  }
  for (int often = 0; often < 50; ++often) {
    for (int i = 0; i < 40; ++i)
      run_powers(&calls[i % 2], streams[i % 2]);
    for (int i = 0; i < 2; ++i) {
      CHECK_CUDA(gpu.stream_synchronize(streams[i]));
      CHECK_CUDA(gpu.memcpy_dtoh(calls[i].x, calls[i].device_x, calls[i].x_bytes));
      CHECK(memcmp(calls[i].x, first[i], calls[i].x_bytes) == 0);
    }
  }
  for (int i = 0; i < 2; ++i) {
    free(first[i]);
    close_call(&calls[i]);
    gpu.stream_destroy(streams[i]);
  }
}

/* The same bits a thousand times, and no device memory taken. */
static void test_repeats(int64_t rows, int64_t n, int w_dtype) {
  call k;
  open_call(&k, rows, n, ATTNPRESS_BF16, w_dtype, 0, 0);
  char *first = malloc(k.x_bytes);
  size_t free_before = 0, free_after = 1, total;
  run(&k, NULL);
  CHECK_CUDA(gpu.memcpy_dtoh(first, k.device_x, k.x_bytes));
  CHECK_CUDA(gpu.mem_get_info(&free_before, &total));
  for (int i = 0; i < 1000; ++i) {
    run(&k, NULL);
    CHECK_CUDA(gpu.memcpy_dtoh(k.x, k.device_x, k.x_bytes));
    if (memcmp(first, k.x, k.x_bytes) != 0) {
      CHECK(!"the same bits again");
      break;
    }
  }
  CHECK_CUDA(gpu.mem_get_info(&free_after, &total));
  CHECK(free_before == free_after);
  check_result(&k, "repeated");
  free(first);
  close_call(&k);
}

/* Blocks of rows that are copies of one: each must come out as the first, which is checked. The
 * last row is left alone. */
static void test_large(int64_t n, int w_dtype) {
  enum { BLOCK_ROWS = 1000 };
  const int64_t blocks = ((INT64_C(1) << 31) / n + 1) / BLOCK_ROWS + 2;
  size_t free_bytes = 0, total;
  call k;
  CUdeviceptr whole;
  open_call(&k, BLOCK_ROWS, n, ATTNPRESS_FP16, w_dtype, 0, 0);
  gpu.mem_get_info(&free_bytes, &total);
  if (free_bytes < (size_t)(blocks + 64) * k.x_bytes) {
    printf("skipped: more than 2^31 elements: too little memory is free\n");
    close_call(&k);
    return;
  }
  CHECK_CUDA(gpu.mem_alloc(&whole, k.x_bytes * (size_t)blocks));
  for (int64_t b = 0; b < blocks; ++b)
    CHECK_CUDA(gpu.memcpy_dtod_async(whole + (CUdeviceptr)b * k.x_bytes, k.device_before, k.x_bytes,
                                     NULL));
  attnpress_matmul_args args = ATTNPRESS_MATMUL_ARGS_INIT;
  args.x = (void *)(uintptr_t)whole, args.w = (void *)(uintptr_t)k.device_w;
  args.rows = BLOCK_ROWS * blocks - 1, args.n = n;
  args.dtype = k.c.dtype, args.w_dtype = w_dtype;
  CHECK_OK(attnpress_matmul(handle, &args, NULL));
  CHECK_CUDA(gpu.memcpy_dtoh(k.x, whole, k.x_bytes));
  check_result(&k, "a block of rows");
  char *got = malloc(k.x_bytes);
  const size_t row_bytes = (size_t)n * 2;
  for (int64_t b = 0; b < blocks; b += b + 100 < blocks ? 97 : 1) {
    const size_t bytes = k.x_bytes - (b == blocks - 1 ? row_bytes : 0);
    CHECK_CUDA(gpu.memcpy_dtoh(got, whole + (CUdeviceptr)b * k.x_bytes, k.x_bytes));
    CHECK(memcmp(got, k.x, bytes) == 0);
  }
  CHECK(memcmp(got + k.x_bytes - row_bytes, k.before + k.x_bytes - row_bytes, row_bytes) == 0);
  free(got);
  gpu.mem_free(whole);
  close_call(&k);
}

static void test_rows(void) {
  test_many_rows(65537, 512);
  test_many_rows(20000, 1024);
  test_many_rows(9999, 2048);
  test_many_rows(5001, 4096);
}

static void test_all_repeats(void) {
  test_repeats(2000, 512, ATTNPRESS_BF16);
  test_repeats(2000, 1024, ATTNPRESS_BF16);
  test_repeats(2000, 264, ATTNPRESS_FP32);
  test_repeats(2000, 2600, ATTNPRESS_BF16);
  test_repeats(132, 4096, ATTNPRESS_BF16);
}

static void test_all_large(void) {
  test_large(1000, ATTNPRESS_FP16);
  test_large(2048, ATTNPRESS_FP16);
  test_large(264, ATTNPRESS_FP32);
}

static void tests(void) {
  run_part("table", test_table);
  run_part("shares", test_shares);
  run_part("rows", test_rows);
  run_part("side_stream", test_side_stream);
  run_part("two_streams", test_two_streams);
  run_part("repeats", test_all_repeats);
  run_part("large", test_all_large);
}

int main(void) {
  return run_on_gpu(tests);
}
