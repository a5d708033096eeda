/* Layer norm on the present GPU, against float64: every class of columns, dtype, norm and pass, rows
 * that begin anywhere, in place and not, with and without residual and parameters; results that are
 * read at once, on side streams, again and again; more than 2^31 elements. Ends with status 77 where
 * there is no CUDA device. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "../tools/layernorm/reference.h"
#include "../tools/rows.h"
#include "attnpress/layernorm.h"
#include "gpu_support.h"

enum {
  MATRICES = 4,
  VECTORS = 6,
  OFFSET = 3,       /* elements before the first row */
  SLICE_OFFSETS = 8 /* fewer are before a slice's */
};
enum { X = 0, RESIDUAL = 1, Y = 2, SUM = 3, DY = 1, DSUM = 2, DX = 3 };
enum { WEIGHT, BIAS, MEAN, RSTD, DWEIGHT, DBIAS };

/* How a call is made. */
typedef struct shape {
  int64_t rows, columns;
  int32_t dtype, param_dtype;               /* 0: no weight and no bias */
  int backward, rms, more, mixed, in_place; /* more: residual or dsum; mixed: rows begin anywhere */
  int apart; /* whole vectors lie between rows; 2: rows begin so far apart; 3: and half a vector more, 4: a
              * quarter */
  double mean; /* of x; 0: a half */
  /* Of a slice: elements between rows of x, and one; 0: it is none. Its y, and others, have none. */
  int64_t gap;
} shape;

typedef struct memory {
  size_t bytes;
  char *host;
  CUdeviceptr device;
} memory;

typedef struct call {
  shape s;
  layernorm_case c;
  int64_t size, stride[MATRICES];
  memory matrix[MATRICES], vector[VECTORS], workspace;
  char *before; /* what a call in place writes over */
} call;

static int is_output(const shape *s, int matrix) {
  return s->backward ? matrix == DX : matrix == Y || matrix == SUM;
}

static int is_there(const shape *s, int matrix) {
  return s->more || (s->backward ? matrix != DSUM : matrix != RESIDUAL && matrix != SUM);
}

static void open_memory(memory *m, int64_t bytes) {
  m->bytes = (size_t)bytes;
  m->host = malloc(m->bytes);
  memset(m->host, 0xff, m->bytes);
  CHECK_CUDA(gpu.mem_alloc(&m->device, m->bytes));
}

static void upload(const memory *m) {
  if (m->bytes > 0)
    CHECK_CUDA(gpu.memcpy_htod(m->device, m->host, m->bytes));
}

static int64_t offset_of(const call *k, int matrix) {
  if (k->s.gap > 0)
    return matrix == X ? k->s.gap % SLICE_OFFSETS * k->size : 0;
  return k->s.mixed ? (OFFSET + matrix) * k->size : 0;
}

/* In place, the output lies where an input does. */
static int place_of(const call *k, int matrix) {
  const int out = k->s.backward ? DX : Y;
  return k->s.in_place && matrix == out ? (k->s.backward ? DY : X) : matrix;
}

static layernorm_matrix host_matrix(const call *k, int matrix) {
  const int place = place_of(k, matrix);
  if (!is_there(&k->s, matrix))
    return (layernorm_matrix){NULL, 0};
  return (layernorm_matrix){k->matrix[place].host + offset_of(k, place), k->stride[place]};
}

static void *device_matrix(const call *k, int matrix) {
  const int place = place_of(k, matrix);
  return is_there(&k->s, matrix)
             ? (void *)(uintptr_t)(k->matrix[place].device + (CUdeviceptr)offset_of(k, place))
             : NULL;
}

static void *device_vector(const call *k, int vector) {
  return k->vector[vector].bytes > 0 ? (void *)(uintptr_t)k->vector[vector].device : NULL;
}

static void open_vectors(call *k) {
  const shape *s = &k->s;
  for (int i = 0; i < VECTORS; ++i) {
    const int moment = i == MEAN || i == RSTD;
    if ((s->rms && (i == MEAN || i == BIAS)) || (s->param_dtype == 0 && i <= BIAS) ||
        (s->backward ? i == BIAS : i >= DWEIGHT))
      continue;
    open_memory(&k->vector[i],
                moment ? s->rows * 4 : rows_span_bytes(1, s->columns, s->columns, s->param_dtype));
    if (i <= BIAS)
      rows_fill(k->vector[i].host, 1, s->columns, s->columns, s->param_dtype, 1.0 - i, 0.5,
                90u + (unsigned)i);
  }
}

static void describe(call *k) {
  const shape *s = &k->s;
  k->c = (layernorm_case){.backward = s->backward,
                          .rms = s->rms,
                          .dtype = s->dtype,
                          .param_dtype = s->param_dtype,
                          .eps = 1e-5f,
                          .rows = s->rows,
                          .columns = s->columns,
                          .weight = k->vector[WEIGHT].host,
                          .bias = k->vector[BIAS].host,
                          .x = host_matrix(k, X),
                          .mean = (const float *)k->vector[MEAN].host,
                          .rstd = (const float *)k->vector[RSTD].host,
                          .dweight = k->vector[DWEIGHT].host,
                          .dbias = k->vector[DBIAS].host};
  if (s->backward) {
    k->c.dy = host_matrix(k, DY);
    k->c.dsum = host_matrix(k, DSUM);
    k->c.dx = host_matrix(k, DX);
    for (int64_t row = 0; row < s->rows; ++row) {
      float mean, rstd;
      layernorm_moments(&k->c, row, &mean, &rstd);
      if (!s->rms)
        ((float *)k->vector[MEAN].host)[row] = mean;
      ((float *)k->vector[RSTD].host)[row] = rstd;
    }
  } else {
    k->c.residual = host_matrix(k, RESIDUAL);
    k->c.y = host_matrix(k, Y);
    k->c.sum = host_matrix(k, SUM);
  }
}

static void open_call(call *k, const shape *s) {
  *k = (call){.s = *s, .size = s->dtype == ATTNPRESS_FP32 ? 4 : 2};
  for (int i = 0; i < MATRICES; ++i) {
    if (!is_there(s, i) || place_of(k, i) != i)
      continue;
    k->stride[i] = s->columns + (s->mixed ? 5 + i : s->apart ? 8 + 8 * i : 0);
    if (s->gap > 0)
      k->stride[i] = s->columns + (i == X ? s->gap - 1 : 0);
    if (s->apart >= 2)
      k->stride[i] = (s->columns + 7) / 8 * 8 + 8 * i + (s->apart == 2 ? 0 : 16 >> (s->apart - 1));
    /* Elements before the first row, or behind the last. */
    const int beside = s->gap > 0 ? SLICE_OFFSETS : OFFSET + i;
    open_memory(&k->matrix[i],
                rows_span_bytes(s->rows, s->columns, k->stride[i], s->dtype) + beside * k->size);
    if (!is_output(s, i))
      rows_fill(k->matrix[i].host + offset_of(k, i), s->rows, s->columns, k->stride[i], s->dtype,
                i != X           ? 0.0
                : s->mean != 0.0 ? s->mean
                                 : 0.5,
                1.0, (uint64_t)(i + 1));
  }
  open_vectors(k);
  describe(k);
  for (int i = 0; i < MATRICES; ++i)
    upload(&k->matrix[i]);
  for (int i = 0; i < VECTORS; ++i)
    upload(&k->vector[i]);
  if (s->in_place) {
    const memory *m = &k->matrix[s->backward ? DY : X];
    k->before = malloc(m->bytes);
    memcpy(k->before, m->host, m->bytes);
    layernorm_matrix *input = s->backward ? &k->c.dy : &k->c.x;
    input->data = k->before + offset_of(k, s->backward ? DY : X);
  }
}

static void close_call(call *k) {
  memory *const all[] = {k->matrix, k->vector, &k->workspace};
  const int counts[] = {MATRICES, VECTORS, 1};
  for (int list = 0; list < 3; ++list)
    for (int i = 0; i < counts[list]; ++i) {
      free(all[list][i].host);
      if (all[list][i].device)
        gpu.mem_free(all[list][i].device);
    }
  free(k->before);
}

static attnpress_layernorm_args forward_args(const call *k) {
  const shape *s = &k->s;
  return (attnpress_layernorm_args){.struct_size = sizeof(attnpress_layernorm_args),
                                    .x = device_matrix(k, X),
                                    .residual = device_matrix(k, RESIDUAL),
                                    .weight = device_vector(k, WEIGHT),
                                    .bias = device_vector(k, BIAS),
                                    .y = device_matrix(k, Y),
                                    .sum = device_matrix(k, SUM),
                                    .mean = device_vector(k, MEAN),
                                    .rstd = device_vector(k, RSTD),
                                    .rows = s->rows,
                                    .columns = s->columns,
                                    .x_row_stride = k->stride[X],
                                    .residual_row_stride = k->stride[RESIDUAL],
                                    .y_row_stride = k->stride[place_of(k, Y)],
                                    .sum_row_stride = k->stride[SUM],
                                    .dtype = s->dtype,
                                    .param_dtype = s->param_dtype,
                                    .rms = s->rms};
}

static attnpress_status run_backward(call *k, CUstream stream) {
  const shape *s = &k->s;
  attnpress_layernorm_backward_args args = {.struct_size = sizeof args,
                                            .x = device_matrix(k, X),
                                            .dy = device_matrix(k, DY),
                                            .weight = device_vector(k, WEIGHT),
                                            .dsum = device_matrix(k, DSUM),
                                            .mean = device_vector(k, MEAN),
                                            .rstd = device_vector(k, RSTD),
                                            .dx = device_matrix(k, DX),
                                            .dweight = device_vector(k, DWEIGHT),
                                            .dbias = device_vector(k, DBIAS),
                                            .rows = s->rows,
                                            .columns = s->columns,
                                            .x_row_stride = k->stride[X],
                                            .dy_row_stride = k->stride[DY],
                                            .dsum_row_stride = k->stride[DSUM],
                                            .dx_row_stride = k->stride[place_of(k, DX)],
                                            .dtype = s->dtype,
                                            .param_dtype = s->param_dtype,
                                            .rms = s->rms};
  if (k->workspace.bytes == 0) {
    attnpress_plan *plan;
    size_t bytes = 0;
    CHECK_OK(attnpress_plan_layernorm_backward(handle, &args, NULL, &plan));
    CHECK_OK(attnpress_plan_workspace_bytes(plan, &bytes));
    attnpress_plan_destroy(plan);
    open_memory(&k->workspace, (int64_t)bytes);
    upload(&k->workspace);
  }
  args.workspace = (void *)(uintptr_t)k->workspace.device;
  args.workspace_bytes = k->workspace.bytes;
  return attnpress_layernorm_backward(handle, &args, stream);
}

static attnpress_status run(call *k, CUstream stream) {
  if (k->s.backward)
    return run_backward(k, stream);
  const attnpress_layernorm_args args = forward_args(k);
  return attnpress_layernorm(handle, &args, stream);
}

/* Results are fetched at once: the copies come after the kernels on their stream. */
static void download(call *k) {
  for (int i = 0; i < MATRICES; ++i)
    if (k->matrix[i].bytes > 0)
      CHECK_CUDA(gpu.memcpy_dtoh(k->matrix[i].host, k->matrix[i].device, k->matrix[i].bytes));
  for (int i = 0; i < VECTORS; ++i)
    if (k->vector[i].bytes > 0)
      CHECK_CUDA(gpu.memcpy_dtoh(k->vector[i].host, k->vector[i].device, k->vector[i].bytes));
}

static void check_result(const call *k, const char *what) {
  layernorm_error e = {0};
  layernorm_check(&k->c, &e);
  ++checks;
  if (!(e.ratio <= 1.0)) {
    ++failures;
    printf("FAILED: %s, %s %s, dtype %d, parameters %d, %lld columns: %s, row %lld, column %lld is "
           "%.9g, expected %.9g\n",
           what, k->s.rms ? "rms" : "layer", k->s.backward ? "backward" : "forward",
           (int)k->s.dtype, (int)k->s.param_dtype, (long long)k->s.columns, e.what,
           (long long)e.row, (long long)e.column, e.value, e.expected);
  }
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void test_shape(const shape *s, const char *what) {
  if (!in_slice())
    return;
  call k;
  open_call(&k, s);
  CHECK_OK(run(&k, NULL));
  download(&k);
  check_result(&k, what);
  close_call(&k);
}

/* Each class of columns and its neighbours, each dtype and pass. The ways of a call are the rows of an
 * orthogonal array, of which six of eight are a number of columns' own: it meets both values of each,
 * and over the table each two values of two of them meet. */
static void test_table(void) {
  static const int64_t columns[] = {
      1,    3,     17,    32,    33,    64,    65,    96,    100,     128,  129,  192,   257,  384,
      512,  700,   768,   1000,  1024,  1025,  1536,  2048,  3000,    3072, 4096, 5000,  6144, 8192,
      9000, 12288, 16384, 16385, 20000, 24576, 32768, 40001, 1 << 20, 9001, 5120, 12287, 1280, 2560,
      7168, 10240, 14336, 20480, 28672, 40960, 57344, 65536, 1032,    2056, 6152, 8200,  24584};
  for (int n = 0; n < (int)(sizeof columns / sizeof *columns); ++n)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int backward = 0; backward < 2; ++backward) {
        const int64_t c = columns[n];
        const int way = (2 * (dtype - ATTNPRESS_FP16) + backward + 3 * n) % 8;
        const int a = way & 1, b = way >> 1 & 1, d = way >> 2;
        const shape s = {.rows = c < 600     ? 1037
                                 : c < 2000  ? 419
                                 : c < 50000 ? 23
                                             : 2,
                         .columns = c,
                         .dtype = dtype,
                         .param_dtype = a ^ b ^ d ? 1 + (dtype + n) % 3 : dtype,
                         .backward = backward,
                         .rms = a,
                         .more = b,
                         .mixed = d,
                         .in_place = a ^ b};
        test_shape(&s, s.mixed ? "odd rows" : "packed");
      }
}

/* Rows of 16 bits without gaps that begin anywhere, more of them than blocks have at a time. */
static void test_odd_rows(void) {
  static const shape shapes[] = {
      {30000, 101, ATTNPRESS_FP16, ATTNPRESS_FP16, 0, 0, 0, 0, 0, 0, 0, 0},
      {30000, 100, ATTNPRESS_BF16, ATTNPRESS_FP32, 0, 1, 1, 0, 1, 0, 0, 0},
      {6000, 1001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 1, 0, 0, 0, 0, 0},
      {12000, 100, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 0, 1, 0, 1, 0, 0, 0},
      {12000, 101, ATTNPRESS_BF16, ATTNPRESS_FP32, 1, 1, 0, 0, 0, 0, 0, 0},
      {3000, 1001, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 0, 0, 0, 0, 0, 0, 0},
      {611, 9001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 1, 0, 0, 0, 0, 0},
      {300, 8202, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 1, 0, 0, 1, 0, 0, 0},
      {300, 12281, ATTNPRESS_BF16, ATTNPRESS_FP32, 1, 0, 1, 1, 0, 0, 0, 0},
      {290, 14001, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 0, 0, 0, 1, 0, 0, 0},
      {200, 20001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 1, 1, 0, 0, 0, 0, 0},
      {200, 24569, ATTNPRESS_FP16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {150, 28001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {150, 32761, ATTNPRESS_BF16, ATTNPRESS_FP32, 1, 0, 0, 0, 1, 0, 0, 0},
      {100, 40004, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 1, 0, 0, 0, 0, 0},
      {90, 49145, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 1, 0, 0, 0, 0, 0, 0},
      {80, 57001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {75, 65529, ATTNPRESS_BF16, ATTNPRESS_FP16, 1, 0, 0, 0, 0, 0, 0, 0},
      {5, 65530, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 1, 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    test_shape(&shapes[i], "odd rows without gaps");
}

/* Gradients of rows of few columns: each number of them, few rows and many, some of these more than are on
 * their way, in place and not, with dsum and without; some with gaps. */
static void test_short_gradients(void) {
  enum { FIRST = 33, MOST = 130, SHAPES = 6 * FIRST + 3 * (MOST - FIRST) };
  for (int n = 0; n < SHAPES; ++n) {
    const int64_t c = n < 6 * FIRST ? n / 6 + 1 : FIRST + 1 + (n - 6 * FIRST) / 3;
    const int few = (n + n / 6) % 3 == 0, ring = n % 29 == 1;
    const shape s = {.rows = few ? 1 + n % 70 : (ring ? 140000 : 20000) + 37 * n,
                     .columns = c,
                     .dtype = 1 + n % 3,
                     .param_dtype = 1 + n / 2 % 3,
                     .backward = 1,
                     .rms = n / 3 % 2,
                     .more = n / 5 % 2,
                     .mixed = n % 11 == 0,
                     .in_place = n / 7 % 2,
                     .mean = n % 5 == 0 ? 40.0 : 0.0};
    test_shape(&s, "gradients of short rows");
  }
}

/* Gradients of rows of fp32 that begin anywhere, and of 16 bits with dsum: of each class the least columns,
 * the most and some between. */
static void test_gradients_anywhere(void) {
  static const int64_t classes[] = {32,   64,   96,   128,  192,  256,  384,  512,  768,
                                    1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
  const int count = (int)(sizeof classes / sizeof *classes);
  for (int n = 0; n < 8 * (count - 1); ++n) {
    const int class = n / 8 + 1, place = n % 8; /* from the least to the most columns */
    const int64_t least = classes[class - 1] + 1, most = classes[class] - 1;
    const int64_t c = least + (most - least) * (place / 2) / 3;
    const int dtype = place % 2 ? ATTNPRESS_FP32 : 1 + n / 2 % 2;
    const int few = (n + class) % 3 == 0;
    const shape s = {.rows = few ? 1 + n % 9 : 5 + 2000000 / c,
                     .columns = c % 8 == 0 ? c + 1 : c,
                     .dtype = dtype,
                     .param_dtype = n % 5 == 0 ? 1 + n / 3 % 3 : dtype,
                     .backward = 1,
                     .rms = n / 3 % 2,
                     .more = dtype != ATTNPRESS_FP32 || n % 3 == 0,
                     .mixed = n % 4 == 0,
                     .in_place = n / 3 % 3 == 0,
                     .mean = n % 5 == 0 ? 40.0 : 0.0};
    test_shape(&s, "gradients of rows that begin anywhere");
  }
}

/* Rows without gaps that the copy engine moves, where the device's has them: of each class, and their
 * neighbours; more of them than are on their way, and few; of matrices that end within a vector. */
static void test_packed_rows(void) {
  static const int64_t columns[] = {1,    3,    5,    33,   39,   65,   71,    85,    101,   103,
                                    135,  199,  257,  263,  389,  501,  777,   1001,  1535,  2001,
                                    3001, 4097, 5001, 7001, 8199, 8201, 10001, 12287, 15001, 20001};
  for (int n = 0; n < (int)(sizeof columns / sizeof *columns); ++n)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int few = 0; few < 2; ++few) {
        const int64_t c = columns[n];
        const shape s = {.rows = few       ? 1 + (n + dtype) % 9
                                 : c < 200 ? 20011
                                 : c < 600 ? 7001
                                           : 4000000 / c,
                         .columns = c,
                         .dtype = dtype,
                         .param_dtype = (n + few) % 3 ? dtype : 1 + (dtype + n) % 3,
                         .rms = (n + dtype + few) % 2};
        test_shape(&s, "packed rows");
      }
}

/* Rows that come to a ring of each warp, where the device's kernels have such: of each class the least and
 * the most columns, of whole vectors, with and without gaps, in place and not, and cut; more of them
 * than are on their way, and few. */
static void test_rows_in_rings(void) {
  static const int64_t classes[] = {
      96,    128,   160,   192,   224,   256,   320,   384,   448,   512,   640,   768,  896,  1024,
      1280,  1536,  1792,  1984,  2048,  2560,  3072,  3584,  3968,  4096,  5120,  6144, 7168, 8192,
      10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
  const int count = (int)(sizeof classes / sizeof *classes);
  for (int n = 0; n < 4 * count; ++n) {
    const int most = n & 1, cut = n >> 1 & 1, class = n / 4, few = (class + most + cut) % 2;
    const int dtype = ATTNPRESS_FP16 + (class + few) % 3;
    const int less = !cut ? 0 : dtype == ATTNPRESS_FP32 ? 3 : 7;
    const int64_t c = most ? classes[class] - less : (class ? classes[class - 1] : 64) + 8 - less;
    const shape s = {.rows = few ? 1 + n % 9 : 3 + 1000000 / c,
                     .columns = c,
                     .dtype = dtype,
                     .param_dtype = !cut && class % 2 ? 0
                                    : (n + class) % 3 ? dtype
                                                      : 1 + (dtype + n) % 3,
                     .rms = (most + class) % 2,
                     .in_place = !cut && (class + few + most) % 3 == 0,
                     .apart = !cut && (class + most) % 2};
    test_shape(&s, "rows in rings");
  }
}

/* Short rows, of which a warp has pairs, where the device's kernels have such: of each class the least and
 * the most columns, odd and even, and a few between; few rows and many, in place and with a residual;
 * values about 0 and far from it. */
static void test_pairs_of_rows(void) {
  static const int64_t classes[] = {0, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448};
  const int count = (int)(sizeof classes / sizeof *classes);
  for (int n = 0; n < 8 * (count - 1); ++n) {
    const int class = n / 8 + 1, place = n % 8; /* from the least to the most columns */
    const int64_t least = classes[class - 1] + 1, most = classes[class] - 1;
    const int64_t c = least + (most - least) * place / 7;
    const int few = (n + class) % 2;
    const shape s = {.rows = few ? 1 + n % 70 : 5 + 2000000 / c,
                     .columns = c % 8 == 0 ? c + 1 : c,
                     .dtype = 1 + n / 2 % 2,
                     .param_dtype = 1 + (n + class) % 3,
                     .rms = n / 3 % 2,
                     .more = n % 5 < 2,
                     .in_place = n % 3 == 1,
                     .mean = place == 1   ? 40.0
                             : place == 4 ? -7.0
                                          : 0.0};
    test_shape(&s, "pairs of rows");
  }
}

/* Rows that are read straight into registers, where the device's kernels have such: of each class the least
 * and the most columns, and a few between; few rows and many, of long ones those that are many alone;
 * values about 0 and far from it. */
static void test_direct_rows(void) {
  static const int64_t classes[] = {448,  512,  640,  768,  896,   1024,  1280,  1536,
                                    1792, 1984, 2048, 2560, 3072,  3584,  3968,  4096,
                                    5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
  const int count = (int)(sizeof classes / sizeof *classes);
  for (int n = 0; n < 6 * (count - 1); ++n) {
    const int class = n / 6 + 1, place = n % 6; /* from the least to the most columns */
    const int64_t least = classes[class - 1] - 6, most = classes[class] - 7;
    const int64_t c = least + (most - least) * place / 5;
    const int few = (n + class) % 2;
    const shape s = {.rows = few ? 1 + n % 9 : 5 + 1000000 / c,
                     .columns = c % 8 == 0 ? c + 1 : c,
                     .dtype = 1 + n / 2 % 3,
                     .param_dtype = n / 2 % 3 == 2 && n % 5 > 0 ? ATTNPRESS_FP32 : 1 + n / 4 % 3,
                     .rms = n / 3 % 2,
                     .mean = place == 1   ? 40.0
                             : place == 4 ? -7.0
                                          : 0.0};
    test_shape(&s, "rows read directly");
  }
  const shape many = {2150, 28601, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0};
  test_shape(&many, "many long rows read directly");
}

/* Short rows that come as pieces, where the device's kernels have such: fp32 that begins anywhere, and
 * whole vectors; of each class the least and the most columns and some between; few rows and many, in
 * place, with a residual, with parameters and without; values about 0 and far from it. */
static void test_pieces_of_rows(void) {
  static const int64_t classes[] = {0,   32,  64,  96,  128, 160, 192,  224,  256, 320,
                                    384, 448, 512, 640, 768, 896, 1024, 1280, 1536};
  const int count = (int)(sizeof classes / sizeof *classes);
  for (int n = 0; n < 8 * (count - 1); ++n) {
    const int class = n / 8 + 1, place = n % 8; /* from the least to the most columns */
    const int32_t dtype = place % 4 < 2 && class < 15 ? ATTNPRESS_FP32 : 1 + n / 4 % 2;
    const int whole = dtype != ATTNPRESS_FP32 || place % 2 != 0;
    const int64_t elements = dtype == ATTNPRESS_FP32 ? 4 : 8, most = classes[class];
    const int64_t c = classes[class - 1] + 1 + (most - classes[class - 1] - 1) * place / 7;
    const int few = (n + class) % 2;
    const shape s = {.rows = few ? 1 + n % 70 : 5 + 2000000 / c,
                     .columns = whole               ? (c + elements - 1) / elements * elements
                                : c % elements == 0 ? c - 1
                                                    : c,
                     .dtype = dtype,
                     .param_dtype = n % 7 == 0 ? 0 : 1 + (n + class) % 3,
                     .rms = n / 3 % 2,
                     .more = n % 7 % 3 == 1,
                     .in_place = n % 5 == 0,
                     .mean = place == 1   ? 40.0
                             : place == 4 ? -7.0
                                          : 0.0};
    test_shape(&s, "pieces of rows");
  }
}

/* Whole vectors that are read straight into registers, where the device's kernels have such: of each class
 * the least and the most columns, in place, with gaps, and with a residual; values about 0 and far from
 * it. */
static void test_whole_rows(void) {
  static const int64_t classes[] = {160,   192,   224,   256,   320,   384,   448,   512,  640,
                                    768,   896,   1024,  1280,  1536,  1792,  1984,  2048, 2560,
                                    3072,  3584,  3968,  4096,  5120,  6144,  7168,  8192, 10240,
                                    12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864};
  const int count = (int)(sizeof classes / sizeof *classes);
  for (int n = 0; n < 6 * (count - 1); ++n) {
    const int class = n / 6 + 1, place = n % 6;
    const int32_t dtype = 1 + (n + class) % 3;
    const int64_t least = classes[class - 1] + 8, most = classes[class];
    const int64_t c = (least + (most - least) * place / 5) / 8 * 8;
    const shape s = {.rows = c < 8192 || place % 3 > 0 ? 1 + 7 * place + n % 200 : 900 + n,
                     .columns = c,
                     .dtype = dtype,
                     .param_dtype = dtype == ATTNPRESS_FP32 ? dtype : 1 + n / 2 % 3,
                     .rms = n / 3 % 2,
                     .more = c > 32768 || (n + class) % 4 < 2,
                     .in_place = n % 5 == 0,
                     .apart = n % 3 == 0,
                     .mean = place == 1   ? 40.0
                             : place == 4 ? -7.0
                                          : 0.0};
    test_shape(&s, "whole rows");
  }
}

/* Rows that begin anywhere, but alike in all matrices, with gaps, in place or with a residual, with
 * parameters and without, where the device's kernels have such. */
static void test_edged_rows(void) {
  static const int64_t columns[] = {180,   213,   249,   250,   319,   381,   441,   449,   505,
                                    506,   763,   890,   1017,  1018,  1273,  1529,  1531,  1785,
                                    1977,  2041,  2557,  3065,  3577,  3961,  4093,  5113,  6137,
                                    7161,  8185,  8193,  10237, 12281, 12285, 14329, 16377, 20473,
                                    24569, 28665, 32761, 36857, 40953, 49145, 57337, 65529};
  const int count = (int)(sizeof columns / sizeof *columns);
  for (int n = 0; n < 5 * count; ++n) {
    const int32_t dtype = 1 + (n + n / 5) % 3;
    const shape s = {.rows = n % 5 == 0 ? 1 + n % 3 : 3 + 300000 / columns[n / 5],
                     .columns = columns[n / 5] + (n % 5 > 2),
                     .dtype = dtype,
                     .param_dtype = n % 11 == 3               ? 0
                                    : dtype == ATTNPRESS_FP32 ? dtype
                                                              : 1 + n / 2 % 3,
                     .rms = n / 4 % 2,
                     .more = n % 3 != 0,
                     .in_place = n % 3 != 1,
                     .apart = n % 2,
                     .mean = n % 7 == 1   ? 40.0
                             : n % 7 == 4 ? -7.0
                                          : 0.0};
    test_shape(&s, "rows with edges");
  }
}

/* Long rows with a residual, of whole vectors, and those that begin anywhere, in place and with gaps, too,
 * where the device's kernels have rings for such: of each class the least and the most columns, more rows
 * than a ring has places for. */
static void test_rings_with_residual(void) {
  static const int64_t columns[] = {10234, 12285, 14329, 16388, 16389, 20473, 20480, 24569, 24576,
                                    28668, 30001, 32761, 32763, 32776, 36001, 40953, 40960, 45004,
                                    49145, 50720, 57337, 57344, 65529, 65533, 65536};
  const int count = (int)(sizeof columns / sizeof *columns);
  for (int n = 0; n < 3 * count; ++n) {
    const int32_t dtype = 1 + (n + n / 3) % 3;
    const shape s = {.rows = n % 3 == 0 ? 1 + n % 90 : 290 + n % 11,
                     .columns = columns[n / 3],
                     .dtype = dtype,
                     .param_dtype = n % 7 == 3 ? 0 : 1 + n / 2 % 3,
                     .rms = n / 4 % 2,
                     .more = n % 2 == 0,
                     .in_place = n / 2 % 2,
                     .apart = n % 5 == 0,
                     .mean = n % 7 == 1   ? 40.0
                             : n % 7 == 4 ? -7.0
                                          : 0.0};
    test_shape(&s, "rings with a residual");
  }
}

/* Rows of 16 bits that begin elsewhere in x than in y, where the device's kernels have such. */
static void test_rows_apart(void) {
  static const int64_t columns[] = {225,   256,   505,   506,   511,   1001,  1017,  1018,
                                    2041,  2050,  4001,  4089,  4090,  6137,  8185,  8186,
                                    9001,  10233, 10234, 12281, 16377, 16378, 20001, 20473,
                                    24567, 30001, 32760, 32761, 32762};
  const int count = (int)(sizeof columns / sizeof *columns);
  for (int n = 0; n < 3 * count; ++n) {
    const shape s = {.rows = n % 3 == 0 ? 1 : 3 + 200000 / columns[n / 3],
                     .columns = columns[n / 3],
                     .dtype = 1 + n % 2,
                     .param_dtype = 1 + n / 2 % 2,
                     .rms = n / 4 % 2,
                     .mixed = 1,
                     .mean = n % 3 == 1   ? 40.0
                             : n % 7 == 4 ? -7.0
                                          : 0.0};
    test_shape(&s, "rows apart");
  }
}

/* Slices of wider matrices, and gradients of them, few rows and many, and what lies beside rows of y or dx,
 * which are the memory's end: with gaps that are read and others, and where x begins elsewhere alone. */
static void test_slices(void) {
  static const int64_t columns[] = {1,   2,   7,   8,   9,   17,  20,   31,   32,   33,   47,
                                    64,  65,  96,  97,  100, 125, 128,  129,  160,  161,  192,
                                    193, 223, 224, 225, 250, 256, 257,  300,  320,  321,  333,
                                    383, 384, 385, 463, 500, 777, 1500, 3000, 5001, 8001, 9101};
  static const int64_t gaps[] = {1, 2, 4, 5, 9, 31, 32, 33, 34, 100, 513};
  const int count = (int)(sizeof columns / sizeof *columns);
  for (int n = 0; n < 12 * count; ++n) {
    const int64_t c = columns[n / 12];
    const int backward = n / 6 % 2;
    const shape s = {.rows = n % 6 == 0   ? 1 + n / 6 % 9
                             : n % 6 == 1 ? 70001 / c + n
                                          : 900000 / c + n,
                     .columns = c,
                     .dtype = 1 + n % 2,
                     .param_dtype = n % 11 == 3 && !backward ? 0 : 1 + n / 2 % 3,
                     .backward = backward,
                     .rms = n / 4 % 2,
                     .more = backward ? n % 4 == 1 : n % 13 == 5,
                     .in_place = backward && n % 3 == 1,
                     .mean = n % 5 == 1   ? 40.0
                             : n % 7 == 4 ? -7.0
                                          : 0.0,
                     .gap = gaps[(n + n / 11) % 11]};
    test_shape(&s, "slices");
  }
}

/* Rows that a cluster shares where the device has some, more of them than clusters have at a time. */
static void test_long_rows(void) {
  static const shape shapes[] = {
      {200, 32768, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0},
      {130, 65536, ATTNPRESS_FP16, ATTNPRESS_FP32, 0, 1, 1, 0, 1, 0, 0, 0},
      {300, 16384, ATTNPRESS_FP32, ATTNPRESS_FP32, 0, 0, 1, 0, 0, 0, 0, 0},
      {300, 20000, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 1, 0, 1, 0, 0, 0},
      {150, 49152, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 1, 0, 0, 0, 0, 0, 0},
      {150, 32768, ATTNPRESS_FP32, ATTNPRESS_FP32, 1, 0, 0, 0, 0, 0, 0, 0},
      {100, 65536, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 1, 0, 1, 0, 0, 0},
      {100, 60000, ATTNPRESS_FP16, ATTNPRESS_FP32, 1, 1, 0, 0, 0, 0, 0, 0},
      {60, 131072, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 1, 0, 0, 0, 0, 0},
      {50, 100000, ATTNPRESS_FP16, ATTNPRESS_FP32, 1, 1, 0, 0, 1, 0, 0, 0},
      {70, 65536, ATTNPRESS_FP32, ATTNPRESS_FP32, 1, 0, 0, 0, 0, 0, 0, 0},
      {40, 70001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    test_shape(&shapes[i], "long rows");
}

/* Rows that a cluster of as many thread blocks as they need shares, where the device's kernels have such,
 * and some beside them: whole vectors, in place or with gaps, and rows that begin anywhere; more of them
 * than clusters are there at a time, fewer, and one; values about 0 and far from it. */
static void test_wide_rows(void) {
  static const int64_t columns[] = {45001,  50001,  57345,  60001,  65529,  65537,  65544,
                                    70001,  98304,  100003, 131064, 131065, 131072, 131073,
                                    200000, 262137, 262144, 262145, 300007, 400008, 524281,
                                    524288, 524289, 700001, 786432, 1048576};
  const int count = (int)(sizeof columns / sizeof *columns);
  for (int n = 0; n < 3 * count; ++n) {
    const int64_t c = columns[n / 3];
    const int whole = c % 8 == 0;
    const shape s = {.rows = n % 3 == 0   ? 1
                             : n % 3 == 1 ? 7
                                          : 8000000 / c + 3,
                     .columns = c,
                     .dtype = ATTNPRESS_FP16 + n % 3,
                     .param_dtype = n % 11 == 4   ? 0
                                    : n % 11 == 7 ? ATTNPRESS_FP32
                                                  : ATTNPRESS_FP16 + n % 3,
                     .rms = n % 4 == 1,
                     .in_place = whole && n % 2,
                     .apart = whole && n % 5 == 0,
                     .mean = n % 7 == 3 ? 30.0 : 0.0};
    test_shape(&s, "wide rows");
  }
}

/* Rows that gangs of thread blocks share, and some beside them: fewer than there are gangs, and more than
 * a gang's rings have places for; launches one after the other, as each leaves memory to the next; some
 * with a residual, without parameters, or with those of fp32. Of three columns' many rows the first have
 * 16 bits and a residual, the second 16 bits, the third fp32. */
static void test_forward_gangs(void) {
  static const int64_t columns[] = {65544,  1000001, 131072, 300001, 300001,  262148,  350001,
                                    270001, 300001,  600008, 600001, 700001,  70001,   1048575,
                                    524292, 786440,  750001, 999998, 1048576, 1048576, 1000001,
                                    999999, 786440,  800001, 524296, 400001};
  const int count = (int)(sizeof columns / sizeof *columns);
  for (int n = 0; n < 4 * count; ++n) {
    const int64_t c = columns[n / 4];
    const int32_t dtype = n % 4 == 3 ? ATTNPRESS_FP32 : ATTNPRESS_FP16 + n / 4 % 3;
    const int whole = c % (dtype == ATTNPRESS_FP32 ? 4 : 8) == 0;
    const shape s = {.rows = n % 4 == 0   ? 1 + n / 4 % 3
                             : n % 4 == 1 ? 9
                                          : 8000000 / c + 14,
                     .columns = c,
                     .dtype = dtype,
                     .param_dtype = n % 7 == 2   ? 0
                                    : n % 7 == 4 ? ATTNPRESS_FP32
                                                 : dtype,
                     .more = n % 3 == 2,
                     .rms = n % 5 == 1,
                     .in_place = whole && n % 2,
                     .apart = whole && n % 7 == 0,
                     .mean = n % 3 == 1 ? 30.0 : 0.0};
    test_shape(&s, "rows of gangs, forward");
  }
  /* With a residual, in the longest blocks, which have rows enough. */
  static const int64_t longest[] = {360001, 380001, 500001, 650001, 730003, 800001, 811017};
  for (int n = 0; n < 7; ++n) {
    const shape s = {.rows = 17 + 5 * (n % 3),
                     .columns = longest[n],
                     .dtype = ATTNPRESS_FP16 + n % 2,
                     .param_dtype = ATTNPRESS_FP16 + n % 2,
                     .rms = n % 3 == 2,
                     .more = 1,
                     .mean = n % 4 == 1 ? 30.0 : 0.0};
    test_shape(&s, "rows of gangs with the longest blocks");
  }
}

/* Gradients of rows that gangs of thread blocks share, and of some beside them. */
static void test_gangs(void) {
  static const int64_t columns[] = {8200,   9001,   14343,  20483,  24584,   32301,
                                    40008,  57001,  65001,  65529,  65537,   65544,
                                    70001,  98304,  131072, 131073, 200003,  262146,
                                    400008, 524288, 700001, 900004, 1048575, 1048576};
  const int count = (int)(sizeof columns / sizeof *columns);
  for (int n = 0; n < 3 * count; ++n) {
    const int64_t c = columns[n / 3];
    const shape s = {.rows = n % 3 == 0   ? 1 + n % 2
                             : n % 3 == 1 ? 9
                                          : 3000000 / c + 3,
                     .columns = c,
                     .dtype = ATTNPRESS_FP16 + (n + n / 3) % 3,
                     .param_dtype = ATTNPRESS_FP16 + n % 3,
                     .backward = 1,
                     .rms = n % 4 == 1,
                     .more = n % 5 == 2 || c < 20000, /* of these gangs take such rows alone */
                     .in_place = n % 2,
                     .apart = n % 7 == 0   ? 1
                              : n % 7 == 5 ? 2
                                           : 0,
                     .mean = n % 7 == 3 ? 30.0 : 0.0};
    test_shape(&s, "rows of gangs");
  }
}

/* Gradients of rows with gaps, or in place, that begin alike in all matrices. */
static void test_gradients_apart(void) {
  static const int64_t columns[] = {33,    65,    100,   161,   333,   501,   1001,
                                    8201,  8801,  9001,  9999,  10237, 12001, 12281,
                                    14001, 16377, 20001, 24001, 32761};
  const int count = (int)(sizeof columns / sizeof *columns);
  for (int n = 0; n < 4 * count; ++n) {
    const int64_t c = columns[n / 4];
    const int32_t dtype = n % 7 == 5 ? ATTNPRESS_FP32 : ATTNPRESS_FP16 + (n + n / 4) % 2;
    const shape s = {.rows = n % 9 == 0 ? 1 + n % 5 : 2000000 / c + 3,
                     .columns = c,
                     .dtype = dtype,
                     .param_dtype = n % 3 == 2 ? ATTNPRESS_FP32 : dtype,
                     .backward = 1,
                     .rms = n % 5 == 1,
                     .more = n % 11 == 2,
                     .in_place = n % 4 == 3 || n % 5 == 4,
                     .apart = n % 4 < 3 ? n % 4 : n / 4 % 3,
                     .mean = n % 7 == 3 ? 30.0 : 0.0};
    test_shape(&s, "gradients of rows with gaps");
  }
}

/* Gradients of rows of 16 bits that clusters have by the element of a vector at which they begin: at each,
 * at every second or fourth one, all at one; fewer rows than that, and more than are on their way. */
static void test_sorted_gradients(void) {
  static const int64_t columns[] = {9217,  10233, 10234, 11161, 12281, 12282, 14329, 14330,
                                    16377, 16378, 18001, 20473, 20474, 24569, 24570, 28665,
                                    28666, 32761, 32762, 36857, 40953, 49145, 57337, 65529};
  static const int64_t few[] = {1, 2, 3, 7, 8, 9, 17};
  const int count = (int)(sizeof columns / sizeof *columns);
  for (int n = 0; n < 8 * count; ++n) {
    const int64_t c = columns[n / 8];
    const shape s = {.rows = n % 8 < 7 ? few[n % 8] : 7000000 / c + n % 5,
                     .columns = c,
                     .dtype = ATTNPRESS_FP16 + (n + n / 8) % 2,
                     .param_dtype = n % 3 == 2 ? ATTNPRESS_FP32 : ATTNPRESS_FP16 + (n + n / 8) % 2,
                     .backward = 1,
                     .rms = n / 3 % 2,
                     .in_place = n % 5 == 4,
                     .apart = c % 8 != 0 && n % 7 < 2 ? 0 : 2 + n % 3,
                     .mean = n % 7 == 3 ? 30.0 : 0.0};
    test_shape(&s, "gradients of sorted rows");
  }
}

/* ---- Streams, repeats ------------------------------------------------------------------------ */

static void test_side_stream(int backward) {
  CUstream stream;
  call k;
  const shape s = {20000, 1000, ATTNPRESS_BF16, ATTNPRESS_BF16, backward, 0, 0, 0, 0, 0, 0, 0};
  CHECK_CUDA(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  open_call(&k, &s);
  CHECK_OK(run(&k, stream)); /* compiled and loaded */
  const memory *out = &k.matrix[backward ? DX : Y];
  for (int i = 0; i < 20; ++i) {
    CHECK_CUDA(gpu.memset_d8_async(out->device, 0xff, out->bytes, stream));
    CHECK_OK(run(&k, stream));
  }
  CHECK_CUDA(gpu.stream_synchronize(stream));
  download(&k);
  check_result(&k, "on a side stream");
  close_call(&k);
  gpu.stream_destroy(stream);
}

/* Rows of gangs: calls in several streams and a graph of two of them, which all want every SM. Launches
 * take turns, whichever stream they are of, and leave memory to each other. */
static void test_streams_of_gangs(void) {
  static const shape shapes[] = {
      {3, 1000001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0},
      {9, 1048576, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0},
      {40, 300001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0},
      {1, 1000001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0},
      {40, 131001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 1, 0, 0, 0, 0, 0},
      {20, 400001, ATTNPRESS_FP32, ATTNPRESS_FP32, 0, 0, 0, 0, 0, 0, 0, 0},
  };
  enum { STREAMS = sizeof shapes / sizeof *shapes, ROUNDS = 50, IN_GRAPH = 2 };
  CUstream stream[STREAMS];
  call k[STREAMS];
  CUgraph graph;
  CUgraphExec exec;
  for (int i = 0; i < STREAMS; ++i) {
    CHECK_CUDA(gpu.stream_create(&stream[i], CU_STREAM_NON_BLOCKING));
    open_call(&k[i], &shapes[i]);
    CHECK_OK(run(&k[i], stream[i])); /* compiled and loaded */
    CHECK_CUDA(gpu.stream_synchronize(stream[i]));
    CHECK_CUDA(gpu.memset_d8_async(k[i].matrix[Y].device, 0xff, k[i].matrix[Y].bytes, stream[i]));
  }
  CHECK_CUDA(gpu.stream_begin_capture(stream[0], CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < 2 * IN_GRAPH; ++i)
    CHECK_OK(run(&k[i % IN_GRAPH], stream[0]));
  CHECK_CUDA(gpu.stream_end_capture(stream[0], &graph));
  CHECK_CUDA(gpu.graph_instantiate(&exec, graph, 0));
  for (int round = 0; round < ROUNDS; ++round) {
    CHECK_CUDA(gpu.graph_launch(exec, stream[0]));
    for (int i = IN_GRAPH; i < STREAMS; ++i)
      for (int j = 0; j <= i % 2; ++j)
        CHECK_OK(run(&k[i], stream[i]));
  }
  for (int i = 0; i < STREAMS; ++i)
    CHECK_CUDA(gpu.stream_synchronize(stream[i]));
  CHECK_CUDA(gpu.graph_exec_destroy(exec));
  CHECK_CUDA(gpu.graph_destroy(graph));
  for (int i = 0; i < STREAMS; ++i) {
    download(&k[i]);
    check_result(&k[i], "of gangs, in several streams");
    close_call(&k[i]);
    gpu.stream_destroy(stream[i]);
  }
}

/* The same bits a thousand times, sums over the rows too. */
static void test_repeats(const shape *s) {
  call k;
  open_call(&k, s);
  const memory *const outputs[] = {&k.matrix[s->backward ? DX : Y], &k.vector[DWEIGHT],
                                   &k.vector[DBIAS]};
  char *first[3] = {NULL, NULL, NULL};
  for (int i = 0; i < 1000; ++i) {
    CHECK_CUDA(gpu.memset_d8_async(outputs[0]->device, 0xff, outputs[0]->bytes, NULL));
    CHECK_OK(run(&k, NULL));
    for (int o = 0; o < 3 && outputs[o]->bytes > 0; ++o) {
      CHECK_CUDA(gpu.memcpy_dtoh(outputs[o]->host, outputs[o]->device, outputs[o]->bytes));
      if (i == 0)
        first[o] = memcpy(malloc(outputs[o]->bytes), outputs[o]->host, outputs[o]->bytes);
      else if (memcmp(first[o], outputs[o]->host, outputs[o]->bytes) != 0) {
        CHECK(!"the same bits again");
        i = 1000;
      }
    }
  }
  download(&k);
  check_result(&k, "repeated");
  for (int o = 0; o < 3; ++o)
    free(first[o]);
  close_call(&k);
}

/* Calls of other shapes one behind the other on a stream, in one workspace: a kernel may begin while the
 * one before ends, but neither writes what that still reads nor reads what it still writes. */
static void test_calls_in_turn(void) {
  static const shape shapes[] = {
      {900, 10319, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {3, 16501, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 0, 0, 0, 0, 0, 0, 0},
      {500, 16501, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 1, 0, 0, 0, 3, 0, 0},
      {60, 70001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {200, 24741, ATTNPRESS_BF16, ATTNPRESS_FP32, 1, 0, 0, 0, 0, 0, 0, 0},
      {1, 9219, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {700, 4096, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {120, 36001, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 0, 0, 0, 0, 4, 0, 0},
      {300, 12737, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 1, 0, 0, 0, 0, 0},
      {90, 45001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 2, 0, 0},
      {9, 12737, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {1000, 1001, ATTNPRESS_FP16, ATTNPRESS_FP16, 0, 0, 0, 0, 0, 0, 0, 0},
  };
  enum { CALLS = sizeof shapes / sizeof *shapes, TURNS = 5 };
  call calls[CALLS];
  CUstream stream;
  CUgraph graph;
  CUgraphExec exec;
  memory shared = {0};
  CHECK_CUDA(gpu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < CALLS; ++i) {
    open_call(&calls[i], &shapes[i]);
    CHECK_OK(run(&calls[i], NULL)); /* compiled and loaded */
    if (calls[i].workspace.bytes > shared.bytes)
      shared = calls[i].workspace;
  }
  memory own[CALLS];
  CHECK_CUDA(gpu.stream_synchronize(NULL));
  for (int i = 0; i < CALLS; ++i) {
    own[i] = calls[i].workspace;
    calls[i].workspace.device = shared.device;
  }
  for (int graphs = 0; graphs < 2; ++graphs) {
    for (int i = 0; i < CALLS; ++i) {
      const memory *const m = calls[i].matrix, *const v = calls[i].vector;
      const memory *const written[] = {&m[shapes[i].backward ? DX : Y], &v[DWEIGHT], &v[DBIAS]};
      for (int o = 0; o < 3; ++o)
        if (written[o]->bytes > 0)
          CHECK_CUDA(gpu.memset_d8_async(written[o]->device, 0xff, written[o]->bytes, stream));
    }
    CHECK_CUDA(gpu.stream_synchronize(stream));
    if (graphs)
      CHECK_CUDA(gpu.stream_begin_capture(stream, 0));
    for (int turn = 0; turn < TURNS; ++turn)
      for (int i = 0; i < CALLS; ++i)
        CHECK_OK(run(&calls[(i + turn) % CALLS], stream));
    if (graphs) {
      CHECK_CUDA(gpu.stream_end_capture(stream, &graph));
      CHECK_CUDA(gpu.graph_instantiate(&exec, graph, 0));
      for (int turn = 0; turn < TURNS; ++turn)
        CHECK_CUDA(gpu.graph_launch(exec, stream));
    }
    CHECK_CUDA(gpu.stream_synchronize(stream));
    for (int i = 0; i < CALLS; ++i) {
      download(&calls[i]);
      check_result(&calls[i], graphs ? "calls in turn, in a graph" : "calls in turn");
    }
  }
  CHECK_CUDA(gpu.graph_exec_destroy(exec));
  CHECK_CUDA(gpu.graph_destroy(graph));
  for (int i = 0; i < CALLS; ++i) {
    calls[i].workspace = own[i];
    close_call(&calls[i]);
  }
  gpu.stream_destroy(stream);
}

/* ---- More than 2^31 elements ------------------------------------------------------------------ */

/* Rows of a small call, over and over; the last row is left alone. */
static void test_large(int backward) {
  enum { BLOCK_ROWS = 1024, COLUMNS = 1000 };
  const int64_t blocks = ((INT64_C(1) << 31) / COLUMNS + 1) / BLOCK_ROWS + 2;
  const size_t bytes = (size_t)BLOCK_ROWS * COLUMNS * 2; /* of a block of rows */
  const shape s = {BLOCK_ROWS, COLUMNS, ATTNPRESS_FP16, ATTNPRESS_FP16, backward, 0, 0, 0, 0, 0,
                   0,          0};
  const int out = backward ? DX : Y;
  call k;
  memory small[MATRICES], moments[2];
  size_t free_bytes = 0, total_bytes;
  gpu.mem_get_info(&free_bytes, &total_bytes);
  if (free_bytes < (3 * (size_t)blocks + 64) * bytes + (1u << 30)) {
    printf("skipped: more than 2^31 elements: too little memory is free\n");
    return;
  }
  open_call(&k, &s);
  memcpy(small, k.matrix, sizeof small);
  memcpy(moments, &k.vector[MEAN], sizeof moments);
  for (int i = 0; i < MATRICES; ++i) {
    if (small[i].bytes == 0)
      continue;
    CHECK_CUDA(gpu.mem_alloc(&k.matrix[i].device, bytes * (size_t)blocks));
    for (int64_t b = 0; b < blocks; ++b)
      CHECK_CUDA(gpu.memcpy_dtod_async(k.matrix[i].device + (CUdeviceptr)b * bytes, small[i].device,
                                       bytes, NULL));
  }
  for (int i = 0; i < 2; ++i) {
    CHECK_CUDA(gpu.mem_alloc(&k.vector[MEAN + i].device, (size_t)blocks * BLOCK_ROWS * 4));
    for (int64_t b = 0; b < blocks; ++b)
      CHECK_CUDA(gpu.memcpy_dtod_async(k.vector[MEAN + i].device + (CUdeviceptr)b * BLOCK_ROWS * 4,
                                       moments[i].device, BLOCK_ROWS * 4, NULL));
  }
  k.s.rows = BLOCK_ROWS * blocks - 1;
  CHECK_OK(run(&k, NULL));
  k.c.dweight = k.c.dbias = NULL; /* of all rows */
  /* The element at 2^31 lies in the last block but one; the last is the one that is left behind. */
  const int64_t looked_at[] = {0, 1, blocks / 2, blocks - 2, blocks - 1};
  for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; ++i) {
    const CUdeviceptr b = (CUdeviceptr)looked_at[i];
    CHECK_CUDA(gpu.memcpy_dtoh(k.matrix[out].host, k.matrix[out].device + b * bytes, bytes));
    for (int v = MEAN; v <= RSTD; ++v)
      CHECK_CUDA(gpu.memcpy_dtoh(k.vector[v].host, k.vector[v].device + b * BLOCK_ROWS * 4,
                                 BLOCK_ROWS * 4));
    k.c.rows = looked_at[i] == blocks - 1 ? BLOCK_ROWS - 1 : BLOCK_ROWS;
    check_result(&k, "more than 2^31 elements");
  }
  const uint16_t *last = (const uint16_t *)k.matrix[out].host + (BLOCK_ROWS - 1) * COLUMNS;
  for (int i = 0; i < COLUMNS; ++i)
    CHECK(last[i] == 0xffff);
  for (int v = MEAN; v <= RSTD && !backward; ++v)
    CHECK(((const uint32_t *)k.vector[v].host)[BLOCK_ROWS - 1] == 0xffffffff);
  for (int i = 0; i < MATRICES; ++i)
    if (small[i].bytes > 0)
      gpu.mem_free(small[i].device);
  for (int i = 0; i < 2; ++i)
    gpu.mem_free(moments[i].device);
  close_call(&k);
}

static void test_side_streams(void) {
  test_side_stream(0);
  test_side_stream(1);
  test_streams_of_gangs();
}

static void test_all_repeats(void) {
  static const shape repeated[] = {
      {300, 3000, ATTNPRESS_FP16, ATTNPRESS_FP16, 0, 0, 1, 1, 0, 0, 0, 0},
      {2000, 50, ATTNPRESS_BF16, ATTNPRESS_FP32, 1, 0, 0, 1, 0, 0, 0, 0},
      {700, 4096, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 1, 1, 0, 0, 0, 0, 0},
      {9000, 50, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 0, 1, 0, 0, 0, 0, 0},
      {40, 40000, ATTNPRESS_FP32, ATTNPRESS_FP32, 1, 0, 0, 0, 0, 0, 0, 0},
      {400, 9001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {100, 40001, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 0, 0, 0, 0, 0, 0, 0},
      {60, 70001, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 0, 0, 0, 0, 0, 0, 0},
      {20, 524288, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {40, 400000, ATTNPRESS_FP32, ATTNPRESS_FP32, 0, 0, 0, 0, 0, 0, 0, 0},
      {20, 1000001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0},
      {3, 1000001, ATTNPRESS_FP16, ATTNPRESS_FP16, 0, 0, 0, 0, 0, 0, 0, 0},
      {20, 1048576, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0},
      {60, 300001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0},
      {20, 400001, ATTNPRESS_BF16, ATTNPRESS_FP32, 0, 0, 1, 0, 0, 0, 0, 0},
      {200, 32768, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 0, 0, 0, 0, 0, 0, 0},
      {200, 32768, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 0, 0, 0, 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof repeated / sizeof *repeated; ++i)
    test_repeats(&repeated[i]);
}

static void test_all_large(void) {
  test_large(0);
  test_large(1);
}

static void tests(void) {
  run_part("table", test_table);
  run_part("odd", test_odd_rows);
  run_part("short_gradients", test_short_gradients);
  run_part("gradients", test_gradients_anywhere);
  run_part("packed", test_packed_rows);
  run_part("rings", test_rows_in_rings);
  run_part("direct", test_direct_rows);
  run_part("pairs", test_pairs_of_rows);
  run_part("pieces", test_pieces_of_rows);
  run_part("whole", test_whole_rows);
  run_part("edged", test_edged_rows);
  run_part("gradients_apart", test_gradients_apart);
  run_part("ringed", test_rings_with_residual);
  run_part("apart", test_rows_apart);
  run_part("slices", test_slices);
  run_part("long", test_long_rows);
  run_part("wide", test_wide_rows);
  run_part("forward_gangs", test_forward_gangs);
  run_part("gangs", test_gangs);
  run_part("sorted_gradients", test_sorted_gradients);
  run_part("side_stream", test_side_streams);
  run_part("in_turn", test_calls_in_turn);
  run_part("repeats", test_all_repeats);
  run_part("large", test_all_large);
}

int main(void) {
  return run_on_gpu(tests);
}
