/* Appending to a cache on the present GPU, against float64: every way to a place, both styles of
 * rotary embeddings, every dtype, good indices and bad, single tokens of many sequences and many
 * tokens of few; results that are read at once, again and again. Ends with status 77 where there is
 * no CUDA device. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/append/reference.h"
#include "gpu_support.h"

enum { REPEATS = 300 };

typedef struct call {
  append_shape shape;
  append_problem host, device, before; /* before: everything as it was */
  void *buffer[APPEND_BUFFERS], *copy[APPEND_BUFFERS];
  CUdeviceptr memory[APPEND_BUFFERS];
} call;

static void open_call(call *c, const append_shape *s) {
  void *data[APPEND_BUFFERS] = {NULL};
  *c = (call){.shape = *s};
  append_lay_out(&c->host, s);
  c->device = c->before = c->host;
  for (int i = 0; i < APPEND_BUFFERS; ++i) {
    const size_t bytes = (size_t)c->host.bytes[i];
    if (bytes == 0)
      continue;
    c->buffer[i] = memset(malloc(bytes), 0xff, bytes);
    c->copy[i] = malloc(bytes);
    CHECK_CUDA(gpu.mem_alloc(&c->memory[i], bytes));
    data[i] = (void *)(uintptr_t)c->memory[i];
  }
  append_point(&c->host, s, c->buffer);
  append_point(&c->device, s, data);
  append_point(&c->before, s, c->copy);
  append_fill(&c->host, s, 3);
  for (int i = 0; i < APPEND_BUFFERS; ++i)
    if (c->buffer[i] != NULL) {
      memcpy(c->copy[i], c->buffer[i], (size_t)c->host.bytes[i]);
      CHECK_CUDA(gpu.memcpy_htod(c->memory[i], c->buffer[i], (size_t)c->host.bytes[i]));
    }
}

static void close_call(call *c) {
  for (int i = 0; i < APPEND_BUFFERS; ++i) {
    free(c->buffer[i]);
    free(c->copy[i]);
    if (c->memory[i])
      gpu.mem_free(c->memory[i]);
  }
}

/* Nothing waits in between: the copies come after the kernel on its stream. */
static void run(call *c) {
  CHECK_OK(attnpress_append(handle, &c->device.args, NULL));
  for (int i = 0; i < APPEND_BUFFERS; ++i)
    if (c->buffer[i] != NULL)
      CHECK_CUDA(gpu.memcpy_dtoh(c->buffer[i], c->memory[i], (size_t)c->host.bytes[i]));
}

static void check_result(const call *c, int number) {
  append_error e = {0};
  append_check check = {.args = &c->host.args, .before = &c->before.args};
  CHECK(append_check_open(&check) == 0);
  for (int64_t row = 0; row < append_check_rows(&check); ++row)
    append_check_row(&check, row, &e);
  append_check_close(&check);
  ++checks;
  if (e.ratio <= 1.0)
    return;
  ++failures;
  printf("FAILED: shape %d, dtype %d: %s[%lld, %lld, %lld, %lld] is %.9g, expected %.9g\n", number,
         (int)c->shape.dtype, e.what, (long long)e.at[0], (long long)e.at[1], (long long)e.at[2],
         (long long)e.at[3], e.value, e.expected);
}

/* batch, new tokens, heads of K, of q, head dims, rows of a cache's entry; then, by name */
static const append_shape shapes[] = {
    {1, 1, 1, 1, 8, 8, 9, .rotary_dim = 8},
    {257, 1, 8, 32, 128, 128, 16, .rotary_dim = 128, .places = APPEND_PAGES},
    {64, 1, 2, 4, 256, 256, 200, .rotary_dim = 64, .interleaved = 1, .places = APPEND_BATCH_IDX},
    {3, 700, 4, 8, 64, 64, 900, .rotary_dim = 64, .q_out = 1},
    {9, 100, 2, 6, 96, 40, 16, .rotary_dim = 96, .places = APPEND_PAGES, .ragged = 1, .bad = 1},
    {30, 33, 3, 0, 72, 72, 1, .places = APPEND_PAGES, .ragged = 1},
    {8, 50, 3, 2, 33, 17, 8, .rotary_dim = 22, .places = APPEND_SLOTS, .layout = APPEND_ODD,
     .own_positions = 1, .q_out = 1, .ragged = 1, .bad = 1},
    {4, 90, 2, 5, 48, 24, 120, .rotary_dim = 36, .interleaved = 1, .rotary_own = 1, .q_out = 1,
     .layout = APPEND_HEADS_OUTSIDE},
    {6, 30, 1, 2, 80, 80, 24, .rotary_dim = 80, .interleaved = 1, .places = APPEND_PAGES,
     .own_positions = 1, .bad = 1},
    {4, 60, 2, 1, 40, 0, 5, .rotary_dim = 20, .rotary_own = 1, .ragged = 1, .places = APPEND_SLOTS},
    {3, 40, 0, 3, 96, 0, 1, .rotary_dim = 94, .interleaved = 1, .layout = APPEND_ODD, .bad = 1},
    {5, 40, 2, 0, 512, 512, 30, .places = APPEND_BATCH_IDX, .bad = 1},
    {40, 9, 2, 8, 128, 128, 16, .rotary_dim = 64, .places = APPEND_PAGES_IDX, .bad = 1,
     .own_first = 1, .q_out = 1},
    {50, 7, 4, 4, 64, 96, 5, .rotary_dim = 64, .places = APPEND_PAGES_FLAT, .bad = 1, .ragged = 1,
     .q_at_first = 1},
    {9, 30, 2, 4, 80, 80, 16, .rotary_dim = 40, .interleaved = 1, .places = APPEND_PAGES_FLAT,
     .own_first = 1, .q_at_first = 1},
};

static void test_table(void) {
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int32_t dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype) {
      append_shape s = shapes[i];
      call c;
      s.dtype = dtype;
      open_call(&c, &s);
      run(&c);
      check_result(&c, (int)i);
      close_call(&c);
    }
}

/* The same bits again and again: nothing of what is written is read. */
static void test_repeats(void) {
  append_shape s = {40,
                    20,
                    4,
                    8,
                    128,
                    128,
                    16,
                    .rotary_dim = 128,
                    .places = APPEND_PAGES,
                    .q_out = 1,
                    .dtype = ATTNPRESS_BF16};
  call c;
  open_call(&c, &s);
  run(&c);
  check_result(&c, -1);
  const size_t bytes = (size_t)c.host.bytes[APPEND_K_CACHE];
  char *first = memcpy(malloc(bytes), c.buffer[APPEND_K_CACHE], bytes);
  for (int n = 0; n < REPEATS && failures == 0; ++n) {
    CHECK_CUDA(gpu.memcpy_htod(c.memory[APPEND_K_CACHE], c.copy[APPEND_K_CACHE], bytes));
    run(&c);
    CHECK(memcmp(first, c.buffer[APPEND_K_CACHE], bytes) == 0);
  }
  free(first);
  close_call(&c);
}

/* A graph is captured once and replayed with other lengths in use: the host reads none of them. */
static void test_graph(void) {
  append_shape s = {
      40, 1, 4, 8, 128, 128, 64, .rotary_dim = 128, .q_out = 1, .dtype = ATTNPRESS_FP16};
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  call c;
  open_call(&c, &s);
  c.host.rotary.num_positions = c.device.rotary.num_positions = c.before.rotary.num_positions = 40;
  run(&c); /* loads the kernel */
  CHECK_CUDA(gpu.stream_create(&stream, 0));
  CHECK_CUDA(gpu.stream_begin_capture(stream, 0));
  CHECK_OK(attnpress_append(handle, &c.device.args, stream));
  CHECK_CUDA(gpu.stream_end_capture(stream, &graph));
  CHECK_CUDA(gpu.graph_instantiate(&exec, graph, 0));
  for (int n = 0; n < REPEATS && failures == 0; ++n) {
    int32_t *used = c.copy[APPEND_SEQUSED];
    for (int64_t b = 0; b < s.batch; ++b)
      used[b] = (int32_t)((b * 13 + n * 7) % 70); /* past the cache and the tables, too */
    for (int i = 0; i < APPEND_BUFFERS; ++i)
      if (c.buffer[i] != NULL)
        CHECK_CUDA(gpu.memcpy_htod(c.memory[i], c.copy[i], (size_t)c.host.bytes[i]));
    CHECK_CUDA(gpu.graph_launch(exec, stream));
    CHECK_CUDA(gpu.stream_synchronize(stream));
    for (int i = 0; i < APPEND_BUFFERS; ++i)
      if (c.buffer[i] != NULL)
        CHECK_CUDA(gpu.memcpy_dtoh(c.buffer[i], c.memory[i], (size_t)c.host.bytes[i]));
    if (n % 30 == 0)
      check_result(&c, -2);
  }
  CHECK_CUDA(gpu.graph_exec_destroy(exec));
  CHECK_CUDA(gpu.graph_destroy(graph));
  CHECK_CUDA(gpu.stream_destroy(stream));
  close_call(&c);
}

static void tests(void) {
  test_table();
  test_repeats();
  test_graph();
}

int main(void) {
  return run_on_gpu(tests);
}
