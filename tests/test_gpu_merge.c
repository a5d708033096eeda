/* Merging parts of attention on the present GPU, against float64: shapes of all kinds, every pair
 * of dtypes, in place and not; results that are read at once, again and again. Ends with status 77
 * where there is no CUDA device. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/merge/reference.h"
#include "gpu_support.h"

enum { REPEATS = 300 };

typedef struct call {
  merge_shape shape;
  merge_problem host, device, before; /* before: the parts as they were */
  void *buffer[MERGE_BUFFERS], *copy[MERGE_BUFFERS];
  CUdeviceptr memory[MERGE_BUFFERS];
} call;

static void open_call(call *c, const merge_shape *s) {
  void *data[MERGE_BUFFERS];
  *c = (call){.shape = *s};
  merge_lay_out(&c->host, s);
  c->device = c->before = c->host;
  for (int i = 0; i < MERGE_BUFFERS; ++i) {
    const size_t bytes = (size_t)c->host.bytes[i];
    c->buffer[i] = memset(malloc(bytes), 0xff, bytes);
    c->copy[i] = malloc(bytes);
    CHECK_CUDA(gpu.mem_alloc(&c->memory[i], bytes));
    data[i] = (void *)(uintptr_t)c->memory[i];
  }
  merge_point(&c->host, s, c->buffer);
  merge_point(&c->device, s, data);
  merge_point(&c->before, s, c->copy);
  merge_fill(&c->host, 3);
  for (int i = 0; i < MERGE_BUFFERS; ++i) {
    memcpy(c->copy[i], c->buffer[i], (size_t)c->host.bytes[i]);
    CHECK_CUDA(gpu.memcpy_htod(c->memory[i], c->buffer[i], (size_t)c->host.bytes[i]));
  }
}

static void close_call(call *c) {
  for (int i = 0; i < MERGE_BUFFERS; ++i) {
    free(c->buffer[i]);
    free(c->copy[i]);
    gpu.mem_free(c->memory[i]);
  }
}

/* Nothing waits in between: the copies come after the kernel on its stream. */
static void run(call *c) {
  CHECK_OK(attnpress_merge(handle, &c->device.args, NULL));
  for (int i = 0; i < MERGE_BUFFERS; ++i)
    CHECK_CUDA(gpu.memcpy_dtoh(c->buffer[i], c->memory[i], (size_t)c->host.bytes[i]));
}

static void check_result(const call *c) {
  merge_error e = {0};
  const merge_shape *s = &c->shape;
  merge_check(&c->host.args, c->before.part, &e);
  ++checks;
  if (e.ratio <= 1.0)
    return;
  ++failures;
  printf("FAILED: %d parts of %lld x %lld x %lld x %lld, dtypes %d and %d, layout %d: %s, batch "
         "%lld, row %lld, head %lld, column %lld is %.9g, expected %.9g\n",
         (int)s->num_parts, (long long)s->batch, (long long)s->seqlen, (long long)s->heads,
         (long long)s->head_dim, (int)s->dtype, (int)s->out_dtype, (int)s->layout, e.what,
         (long long)e.batch, (long long)e.row, (long long)e.head, (long long)e.column, e.value,
         e.expected);
}

static void test_table(void) {
  static const merge_shape shapes[] = {
      {1, 1, 1, 1, .num_parts = 1},
      {2, 300, 8, 128, .num_parts = 2},
      {1, 1000, 16, 64, .num_parts = 4, .lse_log2 = 1},
      {3, 77, 5, 33, .num_parts = 3, .layout = MERGE_ODD},
      {2, 50, 7, 72, .num_parts = 16, .layout = MERGE_HEADS_OUTSIDE},
      {5, 9, 4, 520, .num_parts = 5, .no_lse = 1},
      {2, 100, 3, 96, .num_parts = 6, .in_place = 1},
      {300, 1, 32, 128, .num_parts = 8, .layout = MERGE_HEADS_OUTSIDE, .in_place = 1},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int32_t dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int32_t out = ATTNPRESS_FP16; out <= ATTNPRESS_FP32; ++out) {
        merge_shape s = shapes[i];
        call c;
        s.dtype = dtype;
        s.out_dtype = out;
        if (s.in_place && dtype != out)
          continue;
        open_call(&c, &s);
        run(&c);
        check_result(&c);
        close_call(&c);
      }
}

/* The same bits again and again. */
static void test_repeats(void) {
  const merge_shape s = {
      4, 500, 8, 128, .num_parts = 3, .dtype = ATTNPRESS_BF16, .out_dtype = ATTNPRESS_BF16};
  call c;
  open_call(&c, &s);
  run(&c);
  check_result(&c);
  const size_t bytes = (size_t)c.host.bytes[MERGE_OUT];
  char *first = memcpy(malloc(bytes), c.buffer[MERGE_OUT], bytes);
  for (int n = 0; n < REPEATS && failures == 0; ++n) {
    CHECK_CUDA(gpu.memset_d8_async(c.memory[MERGE_OUT], 0xff, bytes, NULL));
    run(&c);
    CHECK(memcmp(first, c.buffer[MERGE_OUT], bytes) == 0);
  }
  free(first);
  close_call(&c);
}

static void tests(void) {
  test_table();
  test_repeats();
}

int main(void) {
  return run_on_gpu(tests);
}
