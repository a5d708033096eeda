/* Layer norm without a GPU: numbers on the CPU with every instruction set, what bad input gets, which
 * kernels a call takes and what they are launched with (the driver and NVRTC are stand-ins). */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../tools/layernorm/reference.h"
#include "../tools/rows.h"
#include "api_support.h"
#include "attnpress/layernorm.h"
#include "cpu/isa.h"
#include "cuda/device.h"
#include "layernorm/layernorm.h"
#include "layernorm/plan.h"
#include "press/target.h"

enum {
  GUARD = 64,            /* elements before and behind each tensor */
  SPLIT_COLS_MIN = 32761 /* gangs have longer rows that begin anywhere */
};
static const int32_t dtypes[] = {ATTNPRESS_FP16, ATTNPRESS_BF16, ATTNPRESS_FP32};

/* ---- Numbers on the CPU ---------------------------------------------------------------------- */

typedef struct cpu_case {
  int64_t rows, columns, gap; /* gap: elements between rows */
  int rms, more, in_place;    /* more: a residual, or dsum */
  int parameters;             /* 0: none; 1: of the tensors' dtype; 2: of another */
  int upside_down;            /* row strides are negative */
  float mean;
} cpu_case;

static const cpu_case cpu_cases[] = {
    {3, 1, 0, 0, 0, 0, 1, 0, 1.0f},      {5, 2, 3, 1, 0, 1, 1, 0, 0.0f},
    {7, 7, 0, 0, 1, 0, 2, 0, 2.0f},      {4, 8, 1, 1, 1, 1, 1, 1, 1.0f},
    {6, 9, 0, 0, 0, 1, 0, 0, -30.0f},    {9, 31, 2, 1, 1, 0, 2, 0, 1.0f},
    {300, 33, 0, 0, 1, 1, 2, 0, 0.0f},   {17, 255, 5, 0, 0, 0, 1, 1, 100.0f},
    {33, 256, 0, 1, 0, 0, 1, 0, 1.0f},   {65, 257, 0, 0, 1, 0, 1, 0, 1.0f},
    {3, 2047, 1, 0, 0, 1, 1, 0, 1.0f},   {3, 2048, 0, 1, 1, 0, 2, 0, 1.0f},
    {3, 2049, 0, 0, 1, 1, 1, 0, 3.0f},   {2, 70001, 0, 0, 1, 0, 1, 0, 1.0f},
    {1, 1 << 20, 0, 0, 0, 0, 1, 0, 5.0f}};

/* Matrices in memory that is NaN elsewhere; what is written in place has a copy, for the reference. */
typedef struct tensors {
  int64_t size, stride, bytes;
  char *memory[AP_LAYERNORM_TENSORS], *before;
  void *vector[6]; /* weight, bias, mean, rstd, dweight, dbias */
  ap_layernorm_problem p;
  layernorm_case c;
} tensors;

static void *matrix(const tensors *t, int which) {
  return t->memory[which] + (GUARD + 1) * t->size; /* aligned to an element, no more */
}

static int32_t parameter_dtype(const cpu_case *s, int32_t dtype) {
  return s->parameters < 2 ? dtype : dtype == ATTNPRESS_FP32 ? ATTNPRESS_BF16 : ATTNPRESS_FP32;
}

static void make_matrices(tensors *t, const cpu_case *s, int backward) {
  const int64_t last = s->upside_down ? (s->rows - 1) * t->stride * t->size : 0;
  const int out = backward ? AP_LAYERNORM_DX : AP_LAYERNORM_Y;
  const int over = backward ? AP_LAYERNORM_DY : AP_LAYERNORM_X;
  const int other = backward ? AP_LAYERNORM_DSUM : AP_LAYERNORM_RESIDUAL;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    const int output = backward ? i == out : i == out || i == AP_LAYERNORM_SUM;
    t->memory[i] = malloc((size_t)t->bytes);
    memset(t->memory[i], 0xff, (size_t)t->bytes);
    if (!output)
      rows_fill(matrix(t, i), s->rows, s->columns, t->stride, t->p.dtype,
                i == AP_LAYERNORM_X ? (double)s->mean : 0.0, 1.0, (uint64_t)(i + 1));
    const int there = s->more || !(i == other || (!backward && i == AP_LAYERNORM_SUM));
    t->p.tensor[i] = (ap_layernorm_tensor){"",
                                           "",
                                           there ? (char *)matrix(t, i) + last : NULL,
                                           s->upside_down ? -t->stride : t->stride,
                                           output,
                                           0};
  }
  t->before = malloc((size_t)t->bytes);
  memcpy(t->before, t->memory[s->in_place ? over : out], (size_t)t->bytes);
  if (s->in_place)
    t->p.tensor[out] = t->p.tensor[over];
}

static layernorm_matrix known(const tensors *t, const cpu_case *s, int which) {
  if (t->p.tensor[which].data == NULL)
    return (layernorm_matrix){NULL, 0};
  const int over = t->p.backward ? AP_LAYERNORM_DY : AP_LAYERNORM_X;
  const int is_copied = s->in_place && which == over;
  return (layernorm_matrix){is_copied ? t->before + (GUARD + 1) * t->size
                            : s->in_place &&
                                    which == (t->p.backward ? AP_LAYERNORM_DX : AP_LAYERNORM_Y)
                                ? matrix(t, over)
                                : matrix(t, which),
                            t->stride};
}

static void make_tensors(tensors *t, const cpu_case *s, int32_t dtype, int backward) {
  const int32_t param_dtype = parameter_dtype(s, dtype);
  *t = (tensors){.size = ap_element_bytes(dtype), .stride = s->columns + s->gap};
  t->bytes = rows_span_bytes(s->rows, s->columns, t->stride, dtype) + 2 * GUARD * t->size;
  t->p = (ap_layernorm_problem){.backward = backward,
                                .rows = s->rows,
                                .columns = s->columns,
                                .dtype = dtype,
                                .param_dtype = param_dtype,
                                .rms = s->rms,
                                .eps = 1e-5f};
  make_matrices(t, s, backward);
  for (int i = 0; i < 6; ++i)
    t->vector[i] = malloc((size_t)(s->columns + s->rows) * 4);
  for (int i = 0; i < 2; ++i)
    rows_fill(t->vector[i], 1, s->columns, s->columns, param_dtype, 1.0 - i, 0.5,
              77u + (unsigned)i);
  t->c = (layernorm_case){.backward = backward,
                          .rms = s->rms,
                          .dtype = dtype,
                          .param_dtype = param_dtype,
                          .eps = 1e-5f,
                          .rows = s->rows,
                          .columns = s->columns,
                          .weight = s->parameters ? t->vector[0] : NULL,
                          .bias = s->parameters && !backward ? t->vector[1] : NULL,
                          .x = known(t, s, AP_LAYERNORM_X),
                          .mean = s->rms ? NULL : t->vector[2],
                          .rstd = t->vector[3]};
  t->p.weight = t->c.weight;
  t->p.bias = t->c.bias;
  t->p.mean = s->rms ? NULL : t->vector[2];
  t->p.rstd = t->vector[3];
  if (backward) {
    t->c.dy = known(t, s, AP_LAYERNORM_DY);
    t->c.dsum = known(t, s, AP_LAYERNORM_DSUM);
    t->c.dx = known(t, s, AP_LAYERNORM_DX);
    t->p.dweight = ATTNPRESS_DATA(t->c.dweight = t->vector[4]);
    t->p.dbias = ATTNPRESS_DATA(t->c.dbias = t->vector[5]);
    float ignored;
    for (int64_t row = 0; row < s->rows; ++row)
      layernorm_moments(&t->c, row, s->rms ? &ignored : &((float *)t->vector[2])[row],
                        &((float *)t->vector[3])[row]);
    if (s->upside_down) /* the last row comes first */
      for (int64_t row = 0; row < s->rows / 2; ++row)
        for (int i = 2; i < 4; ++i) {
          float *v = t->vector[i], swap = v[row];
          v[row] = v[s->rows - 1 - row];
          v[s->rows - 1 - row] = swap;
        }
  } else {
    t->c.residual = known(t, s, AP_LAYERNORM_RESIDUAL);
    t->c.y = known(t, s, AP_LAYERNORM_Y);
    t->c.sum = known(t, s, AP_LAYERNORM_SUM);
  }
}

static void free_tensors(tensors *t) {
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    free(t->memory[i]);
  for (int i = 0; i < 6; ++i)
    free(t->vector[i]);
  free(t->before);
}

/* Vectors of rows are in the order of the call; the reference reads matrices from their begin. */
static void turn_vectors(tensors *t) {
  for (int i = 2; i < 4; ++i)
    for (int64_t row = 0; row < t->p.rows / 2; ++row) {
      float *v = t->vector[i], swap = v[row];
      v[row] = v[t->p.rows - 1 - row];
      v[t->p.rows - 1 - row] = swap;
    }
}

static void check_cpu(const cpu_case *s, int32_t dtype, int backward, int isa) {
  tensors t;
  make_tensors(&t, s, dtype, backward);
  assert_ok(ap_layernorm_cpu_isa(&t.p, 1, isa));
  if (s->upside_down)
    turn_vectors(&t);
  layernorm_error e = {0};
  layernorm_check(&t.c, &e);
  if (!(e.ratio <= 1.0))
    fail_msg("%s%s, %s, %s, %lld columns: %s, row %lld, column %lld is %.9g, expected %.9g",
             backward ? "backward" : "forward", s->rms ? " rms" : "",
             ap_layernorm_dtype_name(dtype), ap_cpu_isa_name((ap_cpu_isa)isa),
             (long long)s->columns, e.what, (long long)e.row, (long long)e.column, e.value,
             e.expected);
  assert_true(e.elements >= s->rows * s->columns);
  const int written = s->in_place ? (backward ? AP_LAYERNORM_DY : AP_LAYERNORM_X)
                      : backward  ? AP_LAYERNORM_DX
                                  : AP_LAYERNORM_Y;
  assert_gaps_kept(t.before, t.memory[written], t.size, t.bytes / t.size, GUARD + 1, s->rows,
                   s->columns, t.stride);
  free_tensors(&t);
}

static void test_cpu(void **state) {
  (void)state;
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa)
    for (size_t d = 0; ap_cpu_isa_usable((ap_cpu_isa)isa) && d < 3; ++d)
      for (int backward = 0; backward < 2; ++backward)
        for (size_t i = 0; i < sizeof cpu_cases / sizeof *cpu_cases; ++i)
          check_cpu(&cpu_cases[i], dtypes[d], backward, isa);
}

/* Through the public API, on several threads: the same bits as on one, sums over the rows too. */
static void test_threads(void **state) {
  (void)state;
  enum { ROWS = 3000, COLUMNS = 700, ELEMENTS = ROWS * COLUMNS };
  float *x = malloc(sizeof(float) * ELEMENTS), *rstd = malloc(sizeof(float) * ROWS);
  float *out[2], *dweight[2];
  rows_fill(x, ROWS, COLUMNS, COLUMNS, ATTNPRESS_FP32, 1.0, 2.0, 5);
  for (int i = 0; i < 2; ++i) {
    out[i] = malloc(sizeof(float) * ELEMENTS);
    dweight[i] = malloc(sizeof(float) * COLUMNS);
    attnpress_handle *handle = make_cpu_handle(1 + 2 * i);
    attnpress_layernorm_args args = ATTNPRESS_LAYERNORM_ARGS_INIT;
    args.x = x;
    args.y = out[i];
    args.rstd = rstd;
    args.rows = ROWS;
    args.columns = COLUMNS;
    args.dtype = ATTNPRESS_FP32;
    args.rms = 1;
    assert_ok(attnpress_layernorm(handle, &args, NULL));
    attnpress_layernorm_backward_args back = ATTNPRESS_LAYERNORM_BACKWARD_ARGS_INIT;
    back.x = x;
    back.dy = back.dx = out[i];
    back.rstd = rstd;
    back.dweight = dweight[i];
    back.rows = ROWS;
    back.columns = COLUMNS;
    back.dtype = ATTNPRESS_FP32;
    back.rms = 1;
    assert_ok(attnpress_layernorm_backward(handle, &back, NULL));
    attnpress_destroy(handle);
  }
  assert_memory_equal(out[0], out[1], sizeof(float) * ELEMENTS);
  assert_memory_equal(dweight[0], dweight[1], sizeof(float) * COLUMNS);
  for (int i = 0; i < 2; ++i)
    free(out[i]), free(dweight[i]);
  free(x), free(rstd);
}

/* Sums over no rows are 0; without columns no pointer is looked at. */
static void test_nothing(void **state) {
  (void)state;
  attnpress_handle *handle = make_cpu_handle(1);
  uint16_t dweight[3] = {1, 1, 1};
  float dbias[3] = {1, 1, 1};
  attnpress_layernorm_backward_args back = ATTNPRESS_LAYERNORM_BACKWARD_ARGS_INIT;
  back.columns = 3;
  back.dtype = ATTNPRESS_BF16;
  back.dweight = dweight;
  assert_ok(attnpress_layernorm_backward(handle, &back, NULL));
  assert_true(dweight[0] == 0 && dweight[2] == 0);
  back.dweight = NULL;
  back.dbias = dbias;
  back.param_dtype = ATTNPRESS_FP32;
  assert_ok(attnpress_layernorm_backward(handle, &back, NULL));
  assert_true(dbias[0] == 0.0f && dbias[2] == 0.0f);
  attnpress_layernorm_args args = ATTNPRESS_LAYERNORM_ARGS_INIT;
  args.rows = 5;
  args.dtype = ATTNPRESS_FP16;
  assert_ok(attnpress_layernorm(handle, &args, NULL));
  attnpress_destroy(handle);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static attnpress_layernorm_args legal_forward(void) {
  attnpress_layernorm_args args = ATTNPRESS_LAYERNORM_ARGS_INIT;
  args.x = (void *)0x10002;
  args.weight = (void *)0x50004;
  args.bias = (void *)0x60004;
  args.y = (void *)0x20004;
  args.mean = (void *)0x70004;
  args.rstd = (void *)0x80004;
  args.rows = 100;
  args.columns = 1000;
  args.x_row_stride = 1003;
  args.dtype = ATTNPRESS_BF16;
  args.param_dtype = ATTNPRESS_FP32;
  return args;
}

static attnpress_layernorm_backward_args legal_backward(void) {
  attnpress_layernorm_backward_args args = ATTNPRESS_LAYERNORM_BACKWARD_ARGS_INIT;
  args.x = (void *)0x10002;
  args.dy = (void *)0x20004;
  args.weight = (void *)0x50004;
  args.mean = (void *)0x70004;
  args.rstd = (void *)0x80004;
  args.dx = (void *)0x30006;
  args.dweight = (void *)0x90002;
  args.dbias = (void *)0xa0002;
  args.rows = 10000;
  args.columns = 1000;
  args.dtype = ATTNPRESS_FP16;
  args.workspace = (void *)0x1000000;
  args.workspace_bytes = 1 << 26;
  return args;
}

#define SPOIL(name, statement)                                                                     \
  static void name(attnpress_layernorm_args *a) {                                                  \
    statement;                                                                                     \
  }
SPOIL(rows_negative, a->rows = -1)
SPOIL(columns_many, a->columns = (1 << 20) + 1)
SPOIL(dtype_0, a->dtype = 0)
SPOIL(param_dtype_9, a->param_dtype = 9)
SPOIL(rms_2, a->rms = 2)
SPOIL(eps_nan, a->eps = NAN)
SPOIL(eps_negative, a->eps = -1e-5f)
SPOIL(x_null, a->x = NULL)
SPOIL(y_null, a->y = NULL)
SPOIL(x_misaligned, a->x = (void *)0x10001)
SPOIL(weight_misaligned, a->weight = (void *)0x50002)
SPOIL(rstd_misaligned, a->rstd = (void *)0x80002)
SPOIL(y_overlaps, a->y_row_stride = 999)
SPOIL(stride_overflows, a->x_row_stride = INT64_MAX / 2)
SPOIL(in_place_strides, a->y = (void *)0x10002; a->y_row_stride = 1004)
SPOIL(residual_alone, a->residual = (void *)0xb0000)
SPOIL(sum_alone, a->sum = (void *)0xb0000)
SPOIL(sum_is_y, a->residual = (void *)0xb0000; a->sum = a->y)
SPOIL(mean_of_rms, a->rms = 1)
SPOIL(struct_small, a->struct_size = sizeof *a - 8)

static const struct {
  void (*spoil)(attnpress_layernorm_args *args);
  const char *says;
} bad_inputs[] = {
    {rows_negative, "rows is -1"},
    {columns_many, "columns is 1048577"},
    {dtype_0, "dtype is 0"},
    {param_dtype_9, "param_dtype is 9"},
    {rms_2, "rms is 2"},
    {eps_nan, "eps is"},
    {eps_negative, "eps is -1e-05"},
    {x_null, "x is NULL"},
    {y_null, "y is NULL"},
    {x_misaligned, "x is 0x10001"},
    {weight_misaligned, "weight is 0x50002"},
    {rstd_misaligned, "rstd is 0x80002"},
    {y_overlaps, "y_row_stride is 999"},
    {stride_overflows, "x_row_stride"},
    {in_place_strides, "in place"},
    {residual_alone, "sum is NULL"},
    {sum_alone, "residual is NULL"},
    {sum_is_y, "two tensors"},
    {mean_of_rms, "mean is given with rms"},
    {struct_small, "struct_size"},
};

#define SPOIL_BACKWARD(name, statement)                                                            \
  static void name(attnpress_layernorm_backward_args *a) {                                         \
    statement;                                                                                     \
  }
SPOIL_BACKWARD(mean_null, a->mean = NULL)
SPOIL_BACKWARD(rstd_null, a->rstd = NULL)
SPOIL_BACKWARD(dy_null, a->dy = NULL)
SPOIL_BACKWARD(dx_strides, a->dx = ATTNPRESS_DATA(a->x); a->dx_row_stride = 1008)
SPOIL_BACKWARD(dweight_misaligned, a->dweight = (void *)0x90001)
SPOIL_BACKWARD(workspace_misaligned, a->workspace = (void *)0x1000008)

static const struct {
  void (*spoil)(attnpress_layernorm_backward_args *args);
  const char *says;
} bad_backward_inputs[] = {
    {mean_null, "mean is NULL"},
    {rstd_null, "rstd is NULL"},
    {dy_null, "dy is NULL"},
    {dx_strides, "dx is x"},
    {dweight_misaligned, "dweight is 0x90001"},
    {workspace_misaligned, "workspace is 0x1000008"},
};

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  assert_refused(handle, attnpress_layernorm, attnpress_layernorm_args, legal_forward, bad_inputs);
  assert_refused(handle, attnpress_layernorm_backward, attnpress_layernorm_backward_args,
                 legal_backward, bad_backward_inputs);
  attnpress_layernorm_backward_args small = legal_backward();
  small.workspace_bytes = 16;
  assert_int_equal(attnpress_layernorm_backward(handle, &small, NULL),
                   ATTNPRESS_WORKSPACE_TOO_SMALL);
  assert_error_says("and 16 were given");
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void test_launch_forward(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_layernorm_args args = legal_forward();
  args.residual = (void *)0xb0002;
  args.sum = ATTNPRESS_DATA(args.residual);
  assert_ok(attnpress_layernorm(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  attnpress_layernorm_fwd_args given;
  memcpy(&given, cuda->launch[0].args, sizeof given);
  assert_string_equal(cuda->launch[0].symbol, "layernorm_fwd_odd_cols1024_bf16_wfp32_sm80");
  assert_ptr_equal(given.x, args.x);
  assert_ptr_equal(given.residual, args.residual);
  assert_ptr_equal(given.weight, args.weight);
  assert_ptr_equal(given.bias, args.bias);
  assert_ptr_equal(given.y, args.y);
  assert_ptr_equal(given.sum, args.sum);
  assert_ptr_equal(given.mean, args.mean);
  assert_ptr_equal(given.rstd, args.rstd);
  assert_int_equal(given.rows, 100);
  assert_int_equal(given.columns, 1000);
  assert_int_equal(given.x_row_stride, 1003);
  assert_int_equal(given.y_row_stride, 1000);
  assert_true(given.eps == 1e-5f && given.per_column == 1.0f / 1000.0f);
  args.rms = 1;
  args.mean = NULL;
  args.param_dtype = 0;
  assert_ok(attnpress_layernorm(handle, &args, NULL));
  assert_string_equal(cuda->launch[1].symbol, "layernorm_fwd_rms_odd_cols1024_bf16_wbf16_sm80");
  attnpress_destroy(handle);
}

/* Rows of 16 bits that begin or end elsewhere than at a multiple of 16 bytes have kernels of their
 * own, up to 8,199 columns: what lies outside of the vectors of a row needs no room. */
static void test_launch_odd_rows(void **state) {
  static const struct {
    int64_t columns, stride;
    uintptr_t x;
    int32_t dtype;
    const char *symbol;
  } rows[] = {
      {1000, 1000, 0x10000, ATTNPRESS_BF16, "layernorm_fwd_pieces_cols1024_bf16_wbf16_sm90"},
      {1000, 1008, 0x10000, ATTNPRESS_BF16, "layernorm_fwd_bulk_cols1024_bf16_wbf16_sm90"},
      {1000, 1004, 0x10000, ATTNPRESS_BF16, "layernorm_fwd_odd_cols1024_bf16_wbf16_sm80"},
      {1000, 1000, 0x10002, ATTNPRESS_BF16, "layernorm_fwd_odd_cols1024_bf16_wbf16_sm80"},
      {1001, 1008, 0x10000, ATTNPRESS_FP16, "layernorm_fwd_odd_cols1024_fp16_wfp16_sm80"},
      {100, 104, 0x10002, ATTNPRESS_FP16, "layernorm_fwd_odd_cols96_fp16_wfp16_sm80"},
      {8185, 8187, 0x10000, ATTNPRESS_FP16, "layernorm_fwd_odd_cols8192_fp16_wfp16_sm80"},
      {1031, 1033, 0x10000, ATTNPRESS_FP16, "layernorm_fwd_odd_cols1024_fp16_wfp16_sm80"},
      {1033, 1035, 0x10000, ATTNPRESS_FP16, "layernorm_fwd_odd_cols1280_fp16_wfp16_sm80"},
      {8199, 8201, 0x10000, ATTNPRESS_FP16, "layernorm_fwd_odd_cols8192_fp16_wfp16_sm80"},
      {8201, 8203, 0x10000, ATTNPRESS_FP16, "layernorm_fwd_cols10240_fp16_wfp16_sm80"},
      {1001, 1001, 0x10004, ATTNPRESS_FP32, "layernorm_fwd_cols1024_fp32_wfp32_sm80"},
  };
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_layernorm_args args = legal_forward();
    args.columns = rows[i].columns;
    args.dtype = rows[i].dtype;
    args.param_dtype = 0;
    args.residual = NULL;
    args.sum = NULL;
    args.x = (const void *)rows[i].x;
    args.x_row_stride = args.y_row_stride = rows[i].stride;
    args.y = (void *)0x2000000;
    assert_ok(attnpress_layernorm(handle, &args, NULL));
    assert_string_equal(cuda->launch[i].symbol, rows[i].symbol);
  }
  attnpress_destroy(handle);
}

/* Rows that begin anywhere, one after the other, from a multiple of 16 bytes on, have kernels of their own
 * where the device has a copy engine; longer ones if y is another matrix and nothing is added. */
static void test_launch_packed_rows(void **state) {
  static const struct {
    int64_t columns, stride;
    uintptr_t x, y;
    int32_t dtype, residual;
    const char *symbol;
  } rows[] = {
      {7, 7, 0x10000, 0x2000000, ATTNPRESS_FP16, 0, "layernorm_fwd_pairs_cols32_fp16_wfp16_sm90"},
      {100, 100, 0x10000, 0x2000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_pairs_cols128_bf16_wbf16_sm90"},
      {447, 447, 0x10000, 0x2000000, ATTNPRESS_FP16, 0,
       "layernorm_fwd_pairs_cols448_fp16_wfp16_sm90"},
      {449, 449, 0x10000, 0x2000000, ATTNPRESS_FP16, 0,
       "layernorm_fwd_cut_cols512_fp16_wfp16_sm90"},
      {101, 101, 0x10000, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_pairs_cols128_fp32_wfp32_sm90"},
      {767, 767, 0x10000, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_pairs_cols768_fp32_wfp32_sm90"},
      {769, 769, 0x10000, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_cut_cols1024_fp32_wfp32_sm90"},
      {101, 103, 0x10000, 0x2000000, ATTNPRESS_FP32, 0, "layernorm_fwd_cols128_fp32_wfp32_sm80"},
      {101, 101, 0x10000, 0x10000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_pairs_cols128_fp32_wfp32_sm90"},
      {100, 102, 0x10000, 0x2000000, ATTNPRESS_BF16, 0, "layernorm_fwd_odd_cols96_bf16_wbf16_sm80"},
      {100, 100, 0x10002, 0x2000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_gathered_cols128_bf16_wbf16_sm90"},
      {100, 100, 0x10000, 0x2000002, ATTNPRESS_BF16, 0, "layernorm_fwd_odd_cols96_bf16_wbf16_sm80"},
      {100, 100, 0x10000, 0x10000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_pairs_cols128_bf16_wbf16_sm90"},
      {100, 100, 0x10000, 0x2000000, ATTNPRESS_BF16, 1,
       "layernorm_fwd_pairs_cols128_bf16_wbf16_sm90"},
      {104, 104, 0x10000, 0x2000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_pieces_cols128_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x2000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_cut_cols1024_bf16_wbf16_sm90"},
      {1977, 1977, 0x10000, 0x2000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_cut_cols1984_bf16_wbf16_sm90"},
      {1978, 1978, 0x10000, 0x2000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_cut_cols2048_bf16_wbf16_sm90"},
      {3962, 3962, 0x10000, 0x2000000, ATTNPRESS_FP16, 0,
       "layernorm_fwd_cut_cols4096_fp16_wfp16_sm90"},
      {9001, 9001, 0x10000, 0x2000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_cut_cols10240_bf16_wbf16_sm90"},
      {1901, 1901, 0x10000, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_cut_cols2048_fp32_wfp32_sm90"},
      {3901, 3901, 0x10000, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_packed_cols4096_fp32_wfp32_sm90"},
      {24583, 24583, 0x10000, 0x2000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_cut_cols28672_bf16_wbf16_sm90"},
      {5001, 5001, 0x10000, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_packed_cols5120_fp32_wfp32_sm90"},
      {5001, 5001, 0x10004, 0x2000000, ATTNPRESS_FP32, 0, "layernorm_fwd_cols6144_fp32_wfp32_sm80"},
      {16381, 16381, 0x10000, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_cut_cols16384_fp32_wfp32_sm90"},
      {16385, 16385, 0x10000, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_cut_cols20480_fp32_wfp32_sm90"},
      {30001, 30001, 0x10000, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_cut_cols32768_fp32_wfp32_sm90"},
      {30001, 30001, 0x10004, 0x2000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_cols32768_fp32_wfp32_sm90"},
  };
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_layernorm_args args = legal_forward();
    args.columns = rows[i].columns;
    args.dtype = rows[i].dtype;
    args.param_dtype = 0;
    args.residual = rows[i].residual ? (const void *)0x4000000 : NULL;
    args.sum = rows[i].residual ? (void *)0x6000000 : NULL;
    args.x = (const void *)rows[i].x;
    args.y = (void *)rows[i].y;
    args.x_row_stride = args.y_row_stride = rows[i].stride;
    assert_ok(attnpress_layernorm(handle, &args, NULL));
    assert_string_equal(cuda->launch[i].symbol, rows[i].symbol);
  }
  attnpress_destroy(handle);
}

/* Rows of whole vectors have kernels whose warps have rings, where nothing is added to them. */
static void test_launch_rows_in_rings(void **state) {
  static const struct {
    int64_t columns, stride;
    uintptr_t x, y;
    int32_t dtype, param_dtype, residual;
    const char *symbol;
  } rows[] = {
      {1024, 1024, 0x10000, 0x2000000, ATTNPRESS_BF16, 0, 0,
       "layernorm_fwd_pieces_cols1024_bf16_wbf16_sm90"},
      {1032, 1032, 0x10000, 0x10000, ATTNPRESS_FP16, ATTNPRESS_BF16, 0,
       "layernorm_fwd_pieces_cols1280_fp16_wbf16_sm90"},
      {1024, 1032, 0x10000, 0x2000000, ATTNPRESS_BF16, 0, 0,
       "layernorm_fwd_bulk_cols1024_bf16_wbf16_sm90"},
      {1024, 1024, 0x10000, 0x2000000, ATTNPRESS_BF16, ATTNPRESS_FP32, 0,
       "layernorm_fwd_pieces_cols1024_bf16_wfp32_sm90"},
      {1024, 1024, 0x10000, 0x2000000, ATTNPRESS_BF16, 0, 1,
       "layernorm_fwd_cols1024_bf16_wbf16_sm80"},
      {1904, 1904, 0x10000, 0x2000000, ATTNPRESS_BF16, 0, 0,
       "layernorm_fwd_bulk_cols2048_bf16_wbf16_sm90"},
      {3904, 3904, 0x10000, 0x2000000, ATTNPRESS_FP32, 0, 0,
       "layernorm_fwd_bulk_cols4096_fp32_wfp32_sm90"},
      {57352, 57352, 0x10000, 0x2000000, ATTNPRESS_BF16, 0, 0,
       "layernorm_fwd_bulk_cols65536_bf16_wbf16_sm90"},
      {57344, 57344, 0x10000, 0x2000000, ATTNPRESS_FP32, 0, 0,
       "layernorm_fwd_bulk_cols57344_fp32_wfp32_sm90"},
      {16388, 16388, 0x10000, 0x2000000, ATTNPRESS_FP32, ATTNPRESS_FP16, 0,
       "layernorm_fwd_bulk_cols20480_fp32_wfp16_sm90"},
      {12281, 12281, 0x10000, 0x2000000, ATTNPRESS_FP16, 0, 0,
       "layernorm_fwd_cut_cols12288_fp16_wfp16_sm90"},
      {12282, 12282, 0x10000, 0x2000000, ATTNPRESS_FP16, 0, 0,
       "layernorm_fwd_cut_cols14336_fp16_wfp16_sm90"},
  };
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_layernorm_args args = legal_forward();
    args.columns = rows[i].columns;
    args.dtype = rows[i].dtype;
    args.param_dtype = rows[i].param_dtype;
    args.residual = rows[i].residual ? (const void *)0x4000000 : NULL;
    args.sum = rows[i].residual ? (void *)0x6000000 : NULL;
    args.x = (const void *)rows[i].x;
    args.y = (void *)rows[i].y;
    args.x_row_stride = args.y_row_stride = rows[i].stride;
    assert_ok(attnpress_layernorm(handle, &args, NULL));
    assert_string_equal(cuda->launch[i].symbol, rows[i].symbol);
  }
  attnpress_destroy(handle);
}

/* Rows that begin anywhere, one after the other, whose parameters are there at multiples of 16 bytes, are
 * read straight into registers where such a class has room; long ones if they are many. */
static void test_launch_direct_rows(void **state) {
  static const struct {
    int64_t columns, stride;
    uintptr_t x, y, weight, bias;
    int32_t rms, params, rows;
    const char *symbol;
  } rows[] = {
      {1001, 1001, 0x10000, 0x2000000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_direct_cols1024_bf16_wbf16_sm90"},
      {1017, 1017, 0x10000, 0x2000000, 0x50000, 0x60000, 0, ATTNPRESS_FP16, 100,
       "layernorm_fwd_direct_cols1024_bf16_wfp16_sm90"},
      {1018, 1018, 0x10000, 0x2000000, 0x50010, 0x60010, 0, 0, 100,
       "layernorm_fwd_direct_cols1280_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x2000000, 0x50000, 0, 1, 0, 100,
       "layernorm_fwd_rms_direct_cols1024_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x2000000, 0x50000, 0x60000, 1, 0, 100,
       "layernorm_fwd_rms_cut_cols1024_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x2000000, 0, 0, 1, 0, 100,
       "layernorm_fwd_rms_cut_cols1024_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x2000000, 0x50000, 0, 0, 0, 100,
       "layernorm_fwd_cut_cols1024_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x2000000, 0, 0x60000, 0, 0, 100,
       "layernorm_fwd_cut_cols1024_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x2000000, 0x50002, 0x60000, 0, 0, 100,
       "layernorm_fwd_cut_cols1024_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x2000000, 0x50000, 0x60008, 0, 0, 100,
       "layernorm_fwd_cut_cols1024_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x2000000, 0x50000, 0x60000, 0, ATTNPRESS_FP32, 100,
       "layernorm_fwd_direct_cols1024_bf16_wfp32_sm90"},
      {1001, 1003, 0x10000, 0x2000000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_edged_cols1024_bf16_wbf16_sm90"},
      {882, 883, 0x10000, 0x2000000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_moved_cols896_bf16_wbf16_sm90"},
      {882, 883, 0x10000, 0x2000000, 0x50000, 0, 0, 0, 100,
       "layernorm_fwd_edged_cols896_bf16_wbf16_sm90"},
      {883, 885, 0x10000, 0x2000000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_edged_cols896_bf16_wbf16_sm90"},
      {1010, 1013, 0x10000, 0x2000002, 0x50000, 0, 1, 0, 100,
       "layernorm_fwd_rms_moved_cols1024_bf16_wbf16_sm90"},
      {1011, 1013, 0x10000, 0x2000002, 0x50000, 0x60000, 0, ATTNPRESS_FP16, 100,
       "layernorm_fwd_moved_cols1280_bf16_wfp16_sm90"},
      {2034, 2036, 0x10000, 0x2000002, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_moved_cols2048_bf16_wbf16_sm90"},
      {2035, 2037, 0x10000, 0x2000002, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_shifted_cols2048_bf16_wbf16_sm90"},
      {754, 754, 0x10000, 0x2000002, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_moved_cols768_bf16_wbf16_sm90"},
      {755, 755, 0x10000, 0x2000002, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_shifted_cols768_bf16_wbf16_sm90"},
      {51, 53, 0x10000, 0x2000002, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_moved_cols96_bf16_wbf16_sm90"},
      {50, 53, 0x10000, 0x2000002, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_odd_cols64_bf16_wbf16_sm80"},
      {1001, 1001, 0x10000, 0x10000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_edged_cols1024_bf16_wbf16_sm90"},
      {1017, 1019, 0x10006, 0x2000006, 0x50000, 0x60000, 0, ATTNPRESS_FP32, 100,
       "layernorm_fwd_edged_cols1024_bf16_wfp32_sm90"},
      {1018, 1020, 0x10006, 0x10006, 0x50000, 0, 1, 0, 100,
       "layernorm_fwd_rms_edged_cols1280_bf16_wbf16_sm90"},
      {1001, 1001, 0x10000, 0x10000, 0x50002, 0x60000, 0, 0, 100,
       "layernorm_fwd_odd_cols1024_bf16_wbf16_sm80"},
      {30001, 30001, 0x10000, 0x2000000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_cut_cols32768_bf16_wbf16_sm90"},
      {30001, 30001, 0x10000, 0x20000000, 0x50000, 0x60000, 0, 0, 5000,
       "layernorm_fwd_direct_cols32768_bf16_wbf16_sm90"},
      {2000, 2000, 0x10000, 0x2000000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_whole_cols2048_bf16_wbf16_sm90"},
      {2000, 2008, 0x10000, 0x10000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_whole_cols2048_bf16_wbf16_sm90"},
      {2000, 2000, 0x10000, 0x2000000, 0x50002, 0x60000, 0, 0, 100,
       "layernorm_fwd_bulk_cols2048_bf16_wbf16_sm90"},
      {8200, 8200, 0x10000, 0x2000000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_bulk_cols10240_bf16_wbf16_sm90"},
      {8200, 8200, 0x10000, 0x40000000, 0x50000, 0x60000, 0, 0, 20000,
       "layernorm_fwd_whole_cols10240_bf16_wbf16_sm90"},
      {1001, 1003, 0x10000, 0x2000002, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_moved_cols1024_bf16_wbf16_sm90"},
      {1001, 1003, 0x10000, 0x2000002, 0x50002, 0x60000, 0, 0, 100,
       "layernorm_fwd_odd_cols1024_bf16_wbf16_sm80"},
      {200, 203, 0x10000, 0x2000002, 0x50000, 0x60000, 0, ATTNPRESS_FP32, 100,
       "layernorm_fwd_odd_cols256_bf16_wfp32_sm80"},
      {1001, 1003, 0x10000, 0x2000002, 0, 0, 0, 0, 100,
       "layernorm_fwd_shifted_cols1024_bf16_wbf16_sm90"},
      {1001, 1003, 0x10000, 0x2000002, 0x50000, 0, 0, 0, 100,
       "layernorm_fwd_shifted_cols1024_bf16_wbf16_sm90"},
      {1001, 1003, 0x10000, 0x2000002, 0, 0x60000, 0, 0, 100,
       "layernorm_fwd_odd_cols1024_bf16_wbf16_sm80"},
      {1001, 1003, 0x10000, 0x2000002, 0x50000, 0x60000, 0, ATTNPRESS_FP32, 100,
       "layernorm_fwd_shifted_cols1024_bf16_wfp32_sm90"},
      {12281, 12283, 0x10000, 0x2000002, 0x50000, 0x60000, 0, ATTNPRESS_FP32, 100,
       "layernorm_fwd_shifted_cols12288_bf16_wfp32_sm90"},
      {4089, 4090, 0x10000, 0x2000002, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_shifted_cols4096_bf16_wbf16_sm90"},
      {4090, 4091, 0x10000, 0x2000002, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_shifted_cols5120_bf16_wbf16_sm90"},
      {4090, 4091, 0x10000, 0x2000002, 0, 0, 0, 0, 100,
       "layernorm_fwd_shifted_cols5120_bf16_wbf16_sm90"},
      {20473, 20475, 0x10000, 0x2000004, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_shifted_cols20480_bf16_wbf16_sm90"},
      {20474, 20477, 0x10000, 0x2000004, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_apart_cols24576_bf16_wbf16_sm90"},
      {9001, 9003, 0x10000, 0x10000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_edged_cols10240_bf16_wbf16_sm90"},
      {9001, 9001, 0x10000, 0x10000, 0, 0, 0, 0, 100,
       "layernorm_fwd_edged_cols10240_bf16_wbf16_sm90"},
      {9001, 9001, 0x10000, 0x10000, 0x50000, 0, 0, 0, 100,
       "layernorm_fwd_edged_cols10240_bf16_wbf16_sm90"},
      {9001, 9001, 0x10000, 0x10000, 0, 0x60000, 0, 0, 100,
       "layernorm_fwd_cols10240_bf16_wbf16_sm80"},
      {249, 251, 0x10000, 0x10000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_edged_cols256_bf16_wbf16_sm90"},
      {440, 443, 0x10000, 0x10000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_edged_cols448_bf16_wbf16_sm90"},
      {440, 443, 0x10000, 0x10000, 0x50002, 0x60000, 0, 0, 100,
       "layernorm_fwd_odd_cols512_bf16_wbf16_sm80"},
      {447, 447, 0x10000, 0x10000, 0x50002, 0, 0, 0, 100,
       "layernorm_fwd_pairs_cols448_bf16_wbf16_sm90"},
      {1021, 1021, 0x10000, 0x2000000, 0x50000, 0x60000, 0, ATTNPRESS_FP32, 100,
       "layernorm_fwd_direct_cols1024_bf16_wfp32_sm90"},
      {12001, 12001, 0x10000, 0x2000000, 0x50000, 0x60000, 0, ATTNPRESS_FP32, 100,
       "layernorm_fwd_cut_cols12288_bf16_wfp32_sm90"},
      {35001, 35001, 0x10000, 0x40000000, 0x50000, 0x60000, 0, 0, 5000,
       "layernorm_fwd_wide_cols20480_bf16_wbf16_sm90"},
      {35001, 35001, 0x10000, 0x40000000, 0x50000, 0x60000, 0, 0, 100,
       "layernorm_fwd_cut_cols40960_bf16_wbf16_sm90"},
      {24000, 24000, 0x10000, 0x40000000, 0x50000, 0x60000, 0, ATTNPRESS_FP32, 100,
       "layernorm_fwd_bulk_cols24576_bf16_wfp32_sm90"},
  };
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_layernorm_args args = legal_forward();
    args.columns = rows[i].columns;
    args.rows = rows[i].rows;
    args.param_dtype = rows[i].params;
    args.rms = rows[i].rms;
    args.mean = rows[i].rms ? NULL : args.mean;
    args.x = (const void *)rows[i].x;
    args.y = (void *)rows[i].y;
    args.weight = (const void *)rows[i].weight;
    args.bias = (const void *)rows[i].bias;
    args.x_row_stride = args.y_row_stride = rows[i].stride;
    assert_ok(attnpress_layernorm(handle, &args, NULL));
    assert_string_equal(cuda->launch[i].symbol, rows[i].symbol);
  }
  attnpress_destroy(handle);
}

/* A slice of a wider matrix: rows of x begin anywhere, and those of y lie one after the other. */
static void test_launch_rows_of_slices(void **state) {
  static const struct {
    int64_t columns, x_stride, y_stride, rows;
    uintptr_t x, y, residual;
    int32_t dtype, params;
    const char *symbol;
    unsigned grid;
  } rows[] = {
      {100, 104, 100, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_gathered_cols128_bf16_wbf16_sm90", 16},
      {100, 200, 100, 1000, 0x10002, 0x2000000, 0, ATTNPRESS_FP16, ATTNPRESS_FP32,
       "layernorm_fwd_gathered_cols128_fp16_wfp32_sm90", 16},
      {100, 100, 100, 1000, 0x10002, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_gathered_cols128_bf16_wbf16_sm90", 16}, /* begin elsewhere */
      {100, INT64_C(1) << 40, 100, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_gathered_cols128_bf16_wbf16_sm90", 16},
      {8, 9, 8, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_gathered_cols32_bf16_wbf16_sm90", 8},
      {100, 108, 100, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_gathered_cols128_bf16_wbf16_sm90", 16},
      {384, 387, 384, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_gathered_cols384_bf16_wbf16_sm90", 32},
      {7, 9, 7, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_odd_cols32_bf16_wbf16_sm80", 0}, /* too few columns */
      {385, 388, 385, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_moved_cols448_bf16_wbf16_sm90", 0}, /* too many */
      {385, 388, 385, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_FP32,
       "layernorm_fwd_shifted_cols448_bf16_wfp32_sm90", 0},
      {257, 265, 257, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_moved_cols320_bf16_wbf16_sm90", 0}, /* begin alike */
      {333, 364, 333, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_gathered_cols384_bf16_wbf16_sm90", 32},
      {333, 366, 333, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_moved_cols384_bf16_wbf16_sm90", 0}, /* rows far from each other */
      {333, 366, 333, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_FP32,
       "layernorm_fwd_gathered_cols384_bf16_wfp32_sm90", 32},
      {100, 104, 100, 1000, 0x10000, 0x2000002, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_moved_cols128_bf16_wbf16_sm90", 0}, /* y elsewhere */
      {100, 104, 101, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_moved_cols128_bf16_wbf16_sm90", 0}, /* with gaps in y */
      {100, 99, 100, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_odd_cols96_bf16_wbf16_sm80", 0}, /* rows of x overlap */
      {100, 104, 100, 1000, 0x10000, 0x2000000, 0x4000000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_odd_cols96_bf16_wbf16_sm80", 0}, /* with a residual */
      {100, 104, 100, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_FP32, ATTNPRESS_FP32,
       "layernorm_fwd_cols128_fp32_wfp32_sm80", 0},
      {1981, 1984, 1981, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_FP32, ATTNPRESS_FP32,
       "layernorm_fwd_cols2048_fp32_wfp32_sm80", 0},
      {1982, 1985, 1982, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_FP32, ATTNPRESS_FP32,
       "layernorm_fwd_shifted_cols2048_fp32_wfp32_sm90", 0},
      {3581, 3584, 3581, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_FP32, ATTNPRESS_FP32,
       "layernorm_fwd_shifted_cols3584_fp32_wfp32_sm90", 0},
      {3582, 3585, 3582, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_FP32, ATTNPRESS_FP32,
       "layernorm_fwd_cols4096_fp32_wfp32_sm80", 0},
      {4094, 4097, 4094, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_FP32, ATTNPRESS_FP32,
       "layernorm_fwd_shifted_cols5120_fp32_wfp32_sm90", 0},
      {7165, 7168, 7165, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_FP32, ATTNPRESS_FP32,
       "layernorm_fwd_shifted_cols7168_fp32_wfp32_sm90", 0},
      {7166, 7169, 7166, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_FP32, ATTNPRESS_FP32,
       "layernorm_fwd_cols8192_fp32_wfp32_sm80", 0},
      {754, 757, 754, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_moved_cols768_bf16_wbf16_sm90", 0},
      {755, 758, 755, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_shifted_cols768_bf16_wbf16_sm90", 0}, /* too many, without gaps in y */
      {96, 104, 96, 1000, 0x10000, 0x2000000, 0, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_fwd_cols96_bf16_wbf16_sm80", 0}, /* whole vectors */
  };
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_layernorm_args args = legal_forward();
    args.columns = rows[i].columns;
    args.rows = rows[i].rows;
    args.dtype = rows[i].dtype;
    args.param_dtype = rows[i].params;
    args.x = (const void *)rows[i].x;
    args.y = (void *)rows[i].y;
    args.residual = (const void *)rows[i].residual;
    args.sum = rows[i].residual ? (void *)0x6000000 : NULL;
    args.weight = (const void *)0x50000;
    args.bias = (const void *)0x60000;
    args.x_row_stride = rows[i].x_stride;
    args.y_row_stride = rows[i].y_stride;
    assert_ok(attnpress_layernorm(handle, &args, NULL));
    assert_string_equal(cuda->launch[i].symbol, rows[i].symbol);
    if (rows[i].grid > 0)
      assert_int_equal(cuda->launch[i].grid, rows[i].grid);
  }
  attnpress_destroy(handle);
}

/* With a residual rows are read straight into registers, too: whole vectors, and those that begin alike in
 * all matrices. */
static void test_launch_rows_with_residual(void **state) {
  static const struct {
    int64_t columns, stride;
    uintptr_t residual, sum;
    int32_t dtype, params;
    const char *symbol;
  } rows[] = {
      {1024, 1024, 0x4000000, 0x6000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_added_cols1024_bf16_wbf16_sm90"},
      {1032, 1040, 0x4000000, 0x10000, ATTNPRESS_BF16, ATTNPRESS_FP32,
       "layernorm_fwd_added_cols1280_bf16_wfp32_sm90"},
      {1900, 1900, 0x4000000, 0x4000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_added_cols1984_fp32_wfp32_sm90"},
      {1900, 1900, 0x4000000, 0x4000000, ATTNPRESS_FP32, ATTNPRESS_BF16,
       "layernorm_fwd_cols2048_fp32_wbf16_sm80"},
      {1001, 1001, 0x4000000, 0x6000000, ATTNPRESS_FP16, 0,
       "layernorm_fwd_edged_cols1024_fp16_wfp16_sm90"},
      {1024, 1024, 0x4000002, 0x6000002, ATTNPRESS_FP16, 0,
       "layernorm_fwd_odd_cols1024_fp16_wfp16_sm80"},
      {1001, 1001, 0x4000004, 0x6000004, ATTNPRESS_FP32, 0,
       "layernorm_fwd_cols1024_fp32_wfp32_sm80"},
      {200, 200, 0x4000000, 0x6000000, ATTNPRESS_FP16, 0,
       "layernorm_fwd_pieces_cols224_fp16_wfp16_sm90"},
      {200, 208, 0x4000000, 0x6000000, ATTNPRESS_FP16, 0, "layernorm_fwd_cols256_fp16_wfp16_sm80"},
      {201, 201, 0x4000000, 0x10000, ATTNPRESS_FP16, ATTNPRESS_FP32,
       "layernorm_fwd_pairs_cols224_fp16_wfp32_sm90"},
      {201, 203, 0x4000000, 0x10000, ATTNPRESS_FP16, 0,
       "layernorm_fwd_odd_cols256_fp16_wfp16_sm80"},
      {12001, 12001, 0x4000000, 0x6000000, ATTNPRESS_FP16, ATTNPRESS_FP32,
       "layernorm_fwd_edged_cols12288_fp16_wfp32_sm90"},
      {12001, 12001, 0x4000000, 0x4000000, ATTNPRESS_FP16, ATTNPRESS_FP32,
       "layernorm_fwd_ringed_cols12288_fp16_wfp32_sm90"},
      {12282, 12282, 0x4000000, 0x6000000, ATTNPRESS_FP16, ATTNPRESS_FP32,
       "layernorm_fwd_ringed_cols14336_fp16_wfp32_sm90"},
      {16377, 16379, 0x4000000, 0x6000000, ATTNPRESS_FP16, 0,
       "layernorm_fwd_edged_cols16384_fp16_wfp16_sm90"},
      {16378, 16380, 0x4000000, 0x6000000, ATTNPRESS_FP16, 0,
       "layernorm_fwd_ringed_cols20480_fp16_wfp16_sm90"},
      {30001, 30001, 0x4000000, 0x10000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_ringed_cols32768_fp32_wfp32_sm90"},
      {32763, 32763, 0x4000000, 0x6000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_ringed_cols40960_bf16_wbf16_sm90"},
      {32768, 32768, 0x4000000, 0x4000000, ATTNPRESS_BF16, 0,
       "layernorm_fwd_added_cols32768_bf16_wbf16_sm90"},
      {32769, 32769, 0x4000000, 0x6000000, ATTNPRESS_FP16, ATTNPRESS_FP32,
       "layernorm_fwd_ringed_cols40960_fp16_wfp32_sm90"},
      {36864, 36872, 0x4000000, 0x6000000, ATTNPRESS_FP16, ATTNPRESS_FP32,
       "layernorm_fwd_summed_cols40960_fp16_wfp32_sm90"},
      {36864, 36864, 0x4000000, 0x6000000, ATTNPRESS_FP16, 0,
       "layernorm_fwd_summed_cols40960_fp16_wfp16_sm90"},
      {16388, 16388, 0x4000000, 0x4000000, ATTNPRESS_FP32, ATTNPRESS_BF16,
       "layernorm_fwd_summed_cols20480_fp32_wbf16_sm90"},
      {40001, 40001, 0x4000000, 0x6000000, ATTNPRESS_FP32, 0,
       "layernorm_fwd_ringed_cols40960_fp32_wfp32_sm90"},
  };
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_layernorm_args args = legal_forward();
    args.columns = rows[i].columns;
    args.rows = 100;
    args.dtype = rows[i].dtype;
    args.param_dtype = rows[i].params;
    args.x = (const void *)0x10000;
    args.y = (void *)0x2000000;
    args.weight = (const void *)0x50000;
    args.bias = (const void *)0x60000;
    args.residual = (const void *)rows[i].residual;
    args.sum = (void *)rows[i].sum;
    args.x_row_stride = args.y_row_stride = rows[i].stride;
    args.residual_row_stride = args.sum_row_stride = rows[i].stride;
    assert_ok(attnpress_layernorm(handle, &args, NULL));
    assert_string_equal(cuda->launch[i].symbol, rows[i].symbol);
  }
  attnpress_destroy(handle);
}

/* What walks over packed rows goes on by an even number of rows, or has one round of them, so that they
 * begin at the same element of a word, and over cut rows by as many as a vector has elements, of a
 * vector; none walks over rows that are read straight, or by pairs; every one has room for its columns. */
static void test_packed_steps(void **state) {
  int packed = 0, cut = 0, direct = 0, pairs = 0;
  (void)state;
  for (int i = 0; i < 20000; ++i) {
    const int64_t rows = 1 + i * 7919 % 90000, columns = 1 + i * 37 % 66000;
    const int64_t edges = i % 3 == 2 ? 3 : 7; /* of fp32, of 16 bits */
    const ap_layernorm_problem p = {.tensor = {{.data = (void *)0x10000, .stride = columns},
                                               {.data = NULL},
                                               {.data = (void *)0x2000000, .stride = columns}},
                                    .rows = rows,
                                    .columns = columns,
                                    .weight = i % 2 ? (void *)0x4000000 : NULL,
                                    .bias = i % 2 && i % 5 ? (void *)0x6000000 : NULL,
                                    .rms = i % 5 == 0,
                                    .dtype = dtypes[i % 3],
                                    .param_dtype = dtypes[i / 3 % 3]};
    ap_device device;
    ap_layernorm_plan plan;
    assert_ok(ap_device_of_target("sm_90", &device));
    device.sm_count = 1 + i % 150;
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
    const ap_launch *l = &plan.base.launch[0];
    const int32_t cols = l->variant.axis[AP_LAYERNORM_COLS];
    const int64_t step = l->grid * ap_layernorm_block_rows(&l->tile);
    if (l->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_CUT) {
      assert_true(step % (edges + 1) == 0 || step >= rows);
      assert_true(columns + edges <= cols && columns + edges > cols * 2 / 3);
      ++cut;
    }
    if (l->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_DIRECT) { /* each row once */
      assert_true(step >= rows && step - ap_layernorm_block_rows(&l->tile) < rows);
      const int64_t kept = p.param_dtype == ATTNPRESS_FP32 ? 3 : edges;
      assert_true(columns + kept <= cols && columns + kept > cols * 4 / 5);
      ++direct;
    }
    if (l->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_PAIRS) { /* likewise */
      assert_true(step >= rows && step - ap_layernorm_block_rows(&l->tile) < rows);
      assert_true(ap_layernorm_block_rows(&l->tile) % 8 == 0 && columns <= cols);
      ++pairs;
    }
    if (l->variant.axis[AP_LAYERNORM_ROWS] != AP_LAYERNORM_ROWS_PACKED)
      continue;
    assert_true(step % 2 == 0 || step >= rows);
    assert_true(columns <= cols + (i % 3 == 2 ? 0 : 7));
    ++packed;
  }
  assert_true(packed > 100 && cut > 5000 && direct > 500 && pairs > 50);
}

/* Rows of more than 65,536 columns, whole vectors or without gaps, are those of clusters of two, three,
 * four, eight or sixteen thread blocks, and of 16 bits that begin anywhere of five, as few as have room for them, each of which has its part of a row
 * within its class, and of which as many are planned as run at the same time whichever SMs a device
 * lacks. Parameters may be missing; beside 16 bits they may be fp32 of whole vectors, of which a block
 * of layer norm has less then. */
static void test_wide_rows(void **state) {
  static const int32_t most[] = {[2] = 66, 29, 29, 13, [8] = 13, [16] = 5};
  int wide = 0;
  (void)state;
  for (int i = 0; i < 20000; ++i) {
    const int pair = i % 17 == 0; /* packed rows of 16 bits that a pair has */
    const int64_t columns = pair ? (i % 5 ? 36859 : 40955) + 2 * (i * 7919 % 12287)
                                 : 65537 + (int64_t)i * 7919 % ((1 << 20) - 65536);
    const int32_t dtype = pair ? ATTNPRESS_BF16 : dtypes[i % 3],
                  size = dtype == ATTNPRESS_FP32 ? 4 : 2;
    const int in_place = !pair && i % 7 == 0, apart = !pair && i % 11 == 0;
    const int64_t stride = columns + (apart ? 8 : 0);
    const int twice = !pair && size == 2 && i % 19 == 0, bare = !pair && i % 23 == 0;
    const ap_layernorm_problem p = {
        .tensor = {{.data = (void *)0x100000, .stride = stride},
                   {.data = NULL},
                   {.data = (void *)(uintptr_t)(in_place ? 0x100000 : 0x200000), .stride = stride}},
        .rows = 1 + i % 100,
        .columns = columns,
        .weight = bare ? NULL : (void *)0x4000000,
        .bias = !bare && i % 5 ? (void *)0x6000000 : NULL,
        .rms = i % 5 == 0,
        .dtype = dtype,
        .param_dtype = twice ? ATTNPRESS_FP32 : dtype};
    ap_device device;
    ap_layernorm_plan plan;
    assert_ok(ap_device_of_target(i % 13 ? "sm_90" : "sm_80", &device));
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
    const ap_launch *l = &plan.base.launch[0];
    const int is_whole = columns * size % 16 == 0;
    const int is_wide = l->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_WIDE;
    const int64_t odd = is_whole ? 0 : 16 / size - 1, takes = 16 * (131072 / size);
    assert_int_equal(plan.base.count, 1);
    if (plan.gang > 0) /* test_forward_gangs() has these */
      continue;
    if (pair && !is_wide) {
      assert_true(i % 13 == 0);
      continue;
    }
    if (!is_wide) { /* what no such kernel takes: they are read twice */
      assert_int_equal(l->grid, p.rows);
      assert_true(i % 13 == 0 || (!is_whole && (in_place || apart)) || columns + odd > takes);
      continue;
    }
    assert_true(i % 13 && (is_whole || (!in_place && (!apart || p.rows == 1))));
    const int32_t cluster = (int32_t)l->cluster;
    const int64_t bytes = ((columns + odd) * size + 15) / 16 * 16;
    const int64_t room = twice && !p.rms ? 49152 : 65536, fewest = (bytes + room - 1) / room;
    assert_true(is_whole || !twice);
    assert_int_equal(cluster, fewest > 8 ? 16 : fewest > 4 + (odd && size == 2) ? 8 : fewest);
    assert_true(pair == (cluster == 2));
    assert_int_equal(l->clusters_most, p.rows);
    assert_int_equal(l->grid, cluster * (p.rows < most[cluster] ? p.rows : most[cluster]));
    const int64_t block = l->variant.axis[AP_LAYERNORM_COLS];
    assert_true(columns + odd <= cluster * block);
    if (block * size <= 65536) /* no lane of a warp lacks a vector but the last */
      assert_true(columns + odd > cluster * (block - 512 * 16 / size));
    ++wide;
  }
  assert_true(wide > 4000);
}

/* Blocks that walk over odd rows go on by a multiple of eight rows, or have one round of them. */
static void test_odd_steps(void **state) {
  (void)state;
  for (size_t d = 0; d < ap_targets_count; ++d)
    for (int i = 0; i < 2000; ++i) {
      const int64_t columns = 1 + i * 37 % 9216, rows = 1 + i * 7919 % 4000;
      float sum, x[2];
      const ap_layernorm_problem p = {.backward = i % 2,
                                      .tensor = {{.data = x, .stride = 9217}},
                                      .rows = rows,
                                      .columns = columns,
                                      .dtype = ATTNPRESS_BF16,
                                      .param_dtype = i % 3 ? ATTNPRESS_FP32 : ATTNPRESS_BF16,
                                      .dweight = i % 2 ? &sum : NULL};
      ap_device device;
      ap_layernorm_plan plan;
      assert_ok(ap_device_of_target(ap_targets[d].name, &device));
      device.sm_count = 1 + i % 150;
      assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
      const ap_launch *l = &plan.base.launch[0];
      if (l->variant.axis[AP_LAYERNORM_ROWS] != AP_LAYERNORM_ROWS_ODD)
        continue;
      const int64_t step =
          (int64_t)l->grid * (l->tile.threads / l->tile.field[AP_LAYERNORM_TILE_ROW_THREADS]);
      assert_true(step % 8 == 0 || step >= rows);
      /* The longest class of gradients has rows that are longer than its vectors. */
      const int64_t more = !p.backward ? 7 : l->variant.axis[AP_LAYERNORM_COLS] == 8192 ? 1024 : 7;
      assert_true(columns <= l->variant.axis[AP_LAYERNORM_COLS] + more);
    }
}

/* More thread blocks than there is room for are launched where the tile says so: a multiple, so that all
 * have as many rows, and each has as many as the tile says at least. */
static void test_rounds(void **state) {
  int multiples = 0;
  (void)state;
  for (int i = 0; i < 20000; ++i) {
    const int64_t rows = 1 + i * 7919 % 90000;
    const ap_layernorm_problem p = {.rms = i % 5 == 0,
                                    .rows = rows,
                                    .columns = 8 * (1 + i * 37 % 8192),
                                    .dtype = i % 3 ? ATTNPRESS_BF16 : ATTNPRESS_FP32,
                                    .param_dtype = i % 3 ? ATTNPRESS_BF16 : ATTNPRESS_FP32};
    ap_device device;
    ap_layernorm_plan plan;
    assert_ok(ap_device_of_target("sm_90", &device));
    device.sm_count = 132;
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
    const ap_launch *l = &plan.base.launch[0];
    const int32_t rounds = l->tile.field[AP_LAYERNORM_TILE_ROUNDS];
    const int64_t block_rows = ap_layernorm_block_rows(&l->tile);
    const int64_t walkers = l->grid / ap_layernorm_cluster(&l->tile);
    const int64_t steps = (rows + block_rows - 1) / block_rows;
    const int64_t at_once = (int64_t)device.sm_count * l->tile.field[AP_LAYERNORM_TILE_BLOCKS];
    assert_true(walkers >= 1 && walkers <= steps);
    if (l->cluster > 1 || walkers <= at_once)
      continue;
    assert_true(rounds > 0);
    assert_int_equal(walkers % at_once, 0);
    assert_true(steps / walkers >= rounds);
    ++multiples;
  }
  assert_true(multiples > 0);
}

/* A workspace that serves a shape serves it wherever its tensors begin. */
static void test_workspace_of_odd_rows(void **state) {
  static const int64_t columns[] = {5, 32, 64, 100, 1000, 1024, 2048, 5000, 8192, 9000};
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof columns / sizeof *columns; ++i) {
    size_t bytes[2];
    for (int odd = 0; odd < 2; ++odd) {
      attnpress_layernorm_backward_args args = legal_backward();
      attnpress_plan *plan;
      args.columns = columns[i];
      args.rows = 100000;
      args.x = (const void *)(uintptr_t)(odd ? 0x10002 : 0x10000);
      args.dy = (const void *)0x20000;
      args.dx = (void *)0x30000;
      assert_ok(attnpress_plan_layernorm_backward(handle, &args, NULL, &plan));
      assert_ok(attnpress_plan_workspace_bytes(plan, &bytes[odd]));
      attnpress_plan_destroy(plan);
    }
    assert_int_equal(bytes[0], bytes[1]);
  }
  attnpress_destroy(handle);
}

/* dx and the parts of the sums, then the sums; the parts are what the workspace holds. */
static void test_launch_backward(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_layernorm_backward_args args = legal_backward();
  assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  attnpress_layernorm_bwd_args given;
  attnpress_layernorm_reduce_args sums;
  memcpy(&given, cuda->launch[0].args, sizeof given);
  memcpy(&sums, cuda->launch[1].args, sizeof sums);
  assert_string_equal(cuda->launch[0].symbol, "layernorm_bwd_odd_cols1024_fp16_wfp16_sm80");
  assert_string_equal(cuda->launch[1].symbol, "layernorm_bwd_reduce_cols131072_fp32_wfp16_sm80");
  assert_true(cuda->launch[0].overlaps && cuda->launch[1].overlaps);
  assert_int_equal(given.parts, cuda->launch[0].grid);
  assert_int_equal(sums.parts, cuda->launch[0].grid);
  assert_ptr_equal(given.weight_parts, args.workspace);
  assert_ptr_equal(given.bias_parts, (float *)args.workspace + (int64_t)given.parts * 1000);
  assert_ptr_equal(sums.weight_parts, given.weight_parts);
  assert_ptr_equal(sums.bias_parts, given.bias_parts);
  assert_ptr_equal(sums.dweight, args.dweight);
  assert_ptr_equal(sums.dbias, args.dbias);
  assert_int_equal(cuda->launch[1].grid, 2 * 32);
  /* dbias alone, and neither. */
  args.dweight = NULL;
  assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
  memcpy(&given, cuda->launch[2].args, sizeof given);
  assert_null(given.weight_parts);
  assert_ptr_equal(given.bias_parts, args.workspace);
  args.dbias = NULL;
  args.workspace = NULL;
  args.workspace_bytes = 0;
  assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 5);
  attnpress_destroy(handle);
}

/* Gradients of rows that begin anywhere, of fp32 too, and of few columns, which lie one after the other;
 * a workspace that serves one of these serves all. */
static void test_launch_gradients(void **state) {
  static const struct {
    int64_t columns, stride;
    uintptr_t x, dx;
    int32_t dtype;
    const char *symbol;
  } rows[] = {
      {1000, 1000, 0x10000, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_cols1024_fp32_wfp32_sm80"},
      {1000, 1000, 0x10004, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_odd_cols1024_fp32_wfp32_sm80"},
      {1001, 1001, 0x10000, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_odd_cols1024_fp32_wfp32_sm80"},
      {1024, 1025, 0x10000, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_odd_cols1024_fp32_wfp32_sm80"},
      {1025, 1025, 0x10000, 0x10000, ATTNPRESS_FP32, "layernorm_bwd_odd_cols1536_fp32_wfp32_sm80"},
      {8191, 8191, 0x10000, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_odd_cols8192_fp32_wfp32_sm80"},
      {8193, 8193, 0x10000, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_cols12288_fp32_wfp32_sm90"},
      {11001, 11004, 0x10000, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_cols12288_fp32_wfp32_sm90"},
      {16001, 16004, 0x10000, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_cols16384_fp32_wfp32_sm90"},
      {17001, 17004, 0x10000, 0x10000, ATTNPRESS_FP32,
       "layernorm_bwd_split_cols4096_fp32_wfp32_sm90"},
      {11001, 11003, 0x10000, 0x10000, ATTNPRESS_FP32,
       "layernorm_bwd_split_cols4096_fp32_wfp32_sm90"},
      {33001, 33001, 0x10000, 0x10000, ATTNPRESS_FP32,
       "layernorm_bwd_split_cols4096_fp32_wfp32_sm90"},
      {33001, 33001, 0x10004, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_cols40960_fp32_wfp32_sm90"},
      {9001, 9008, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_odd_cols8192_bf16_wbf16_sm80"},
      {9216, 9217, 0x10000, 0x10000, ATTNPRESS_BF16, "layernorm_bwd_odd_cols8192_bf16_wbf16_sm80"},
      {9301, 9301, 0x10000, 0x10000, ATTNPRESS_BF16,
       "layernorm_bwd_sorted_cols10240_bf16_wbf16_sm90"},
      {10233, 10240, 0x10000, 0x10000, ATTNPRESS_BF16,
       "layernorm_bwd_sorted_cols10240_bf16_wbf16_sm90"},
      {10234, 10240, 0x10000, 0x10000, ATTNPRESS_BF16,
       "layernorm_bwd_sorted_cols12288_bf16_wbf16_sm90"},
      {12001, 12001, 0x10002, 0x30000, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols12288_bf16_wbf16_sm90"},
      {24001, 24001, 0x10002, 0x30000, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols24576_bf16_wbf16_sm90"},
      {3, 3, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_short_cols8_bf16_wbf16_sm90"},
      {3, 3, 0x10000, 0x10000, ATTNPRESS_FP32, "layernorm_bwd_short_cols8_fp32_wfp32_sm90"},
      {3, 4, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_odd_cols32_bf16_wbf16_sm80"},
      {40, 40, 0x10000, 0x10000, ATTNPRESS_BF16, "layernorm_bwd_short_cols64_bf16_wbf16_sm90"},
      {41, 41, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_short_cols64_bf16_wbf16_sm90"},
      {41, 48, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_odd_cols64_bf16_wbf16_sm80"},
      {41, 41, 0x10002, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_gathered_cols64_bf16_wbf16_sm90"},
      {41, 41, 0x10000, 0x30000, ATTNPRESS_FP32, "layernorm_bwd_odd_cols64_fp32_wfp32_sm80"},
      {56, 56, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_short_cols64_bf16_wbf16_sm90"},
      {64, 64, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_cols64_bf16_wbf16_sm80"},
      {65, 65, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_short_cols96_bf16_wbf16_sm90"},
      {71, 71, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_short_cols96_bf16_wbf16_sm90"},
      {71, 72, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_odd_cols64_bf16_wbf16_sm80"},
      {73, 73, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_short_cols96_bf16_wbf16_sm90"},
      {73, 74, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_odd_cols128_bf16_wbf16_sm80"},
      {88, 88, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_short_cols96_bf16_wbf16_sm90"},
      {96, 96, 0x10000, 0x30000, ATTNPRESS_BF16, "layernorm_bwd_cols96_bf16_wbf16_sm80"},
      {127, 127, 0x10000, 0x10000, ATTNPRESS_BF16, "layernorm_bwd_short_cols128_bf16_wbf16_sm90"},
      {3, 3, 0x10000, 0x30002, ATTNPRESS_BF16, "layernorm_bwd_odd_cols32_bf16_wbf16_sm80"},
      {3, 3, 0x10000, 0x30004, ATTNPRESS_FP32, "layernorm_bwd_odd_cols32_fp32_wfp32_sm80"},
  };
  int64_t columns = 0;
  size_t bytes = 0;
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_layernorm_backward_args args = legal_backward();
    attnpress_plan *plan;
    size_t needed;
    args.columns = rows[i].columns;
    args.dtype = rows[i].dtype;
    args.x = (const void *)rows[i].x;
    args.dy = (const void *)0x2000000;
    args.dx = (void *)rows[i].dx;
    args.dweight = (void *)0x90004;
    args.dbias = (void *)0xa0004;
    args.x_row_stride = args.dy_row_stride = args.dx_row_stride = rows[i].stride;
    cuda->launches = 0;
    assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
    assert_string_equal(cuda->launch[0].symbol, rows[i].symbol);
    assert_ok(attnpress_plan_layernorm_backward(handle, &args, NULL, &plan));
    assert_ok(attnpress_plan_workspace_bytes(plan, &needed));
    attnpress_plan_destroy(plan);
    if (columns == args.columns && i > 0 && rows[i].dtype == rows[i - 1].dtype)
      assert_int_equal(needed, bytes);
    columns = args.columns;
    bytes = needed;
  }
  attnpress_destroy(handle);
}

/* x is a slice of a wider matrix: gradients of rows that begin elsewhere in it than in the other matrices,
 * which begin alike. A workspace serves them, and rows that lie one after the other. */
static void test_launch_gradients_of_slices(void **state) {
  static const struct {
    int64_t columns, x_stride, stride, rows;
    uintptr_t x, dy, dsum, dx;
    int32_t dtype, params;
    const char *symbol;
  } rows[] = {
      {41, 45, 41, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_gathered_cols64_bf16_wbf16_sm90"},
      {41, 41, 41, 1000, 0x10002, 0x2000000, 0x4000000, 0x2000000, ATTNPRESS_FP16, ATTNPRESS_FP32,
       "layernorm_bwd_gathered_cols64_fp16_wfp32_sm90"}, /* dx over dy */
      {17, INT64_C(1) << 40, 17, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16,
       ATTNPRESS_BF16, "layernorm_bwd_gathered_cols32_bf16_wbf16_sm90"},
      {16, 20, 16, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_gathered_cols16_bf16_wbf16_sm90"},
      {5, 9, 5, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_gathered_cols16_bf16_wbf16_sm90"},
      {96, 97, 96, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_gathered_cols96_bf16_wbf16_sm90"},
      {41, 49, 41, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols64_bf16_wbf16_sm80"}, /* begin alike */
      {41, 40, 41, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols64_bf16_wbf16_sm80"}, /* rows of x overlap */
      {41, 45, 42, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols64_bf16_wbf16_sm80"}, /* with gaps in the others */
      {41, 45, 41, 1000, 0x10000, 0x2000002, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols64_bf16_wbf16_sm80"}, /* dy elsewhere */
      {41, 45, 41, 1000, 0x10000, 0x2000000, 0x4000002, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols64_bf16_wbf16_sm80"}, /* dsum elsewhere */
      {41, 45, 41, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_FP32, ATTNPRESS_FP32,
       "layernorm_bwd_odd_cols64_fp32_wfp32_sm80"},
      {72, 77, 73, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_shifted_cols128_bf16_wbf16_sm90"}, /* with gaps in the others */
      {71, 77, 73, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols64_bf16_wbf16_sm80"}, /* too few columns for that */
      {97, 101, 97, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_shifted_cols128_bf16_wbf16_sm90"},
      {135, 139, 135, 1000, 0x10002, 0x2000002, 0x4000002, 0x30002, ATTNPRESS_BF16, ATTNPRESS_FP32,
       "layernorm_bwd_shifted_cols128_bf16_wfp32_sm90"},
      {136, 144, 136, 1000, 0x10002, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_shifted_cols256_bf16_wbf16_sm90"}, /* begins elsewhere */
      {9216, 9217, 9216, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_shifted_cols8192_bf16_wbf16_sm90"},
      {9216, 9217, 9216, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_FP32,
       "layernorm_bwd_odd_cols10240_bf16_wfp32_sm90"}, /* too many columns */
      {1001, 1009, 1001, 1000, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols1024_bf16_wbf16_sm80"}, /* begin alike */
      {1001, 1005, 1001, 1000, 0x10000, 0x2000002, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols1024_bf16_wbf16_sm80"}, /* dy elsewhere */
      {1001, 1005, 1001, 1, 0x10000, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_odd_cols1024_bf16_wbf16_sm80"}, /* one row begins alike */
      {1001, 1001, 1001, 1, 0x10002, 0x2000000, 0, 0x30000, ATTNPRESS_BF16, ATTNPRESS_BF16,
       "layernorm_bwd_shifted_cols1024_bf16_wbf16_sm90"},
  };
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_layernorm_backward_args args = legal_backward();
    size_t needed[2];
    args.rows = rows[i].rows;
    args.columns = rows[i].columns;
    args.dtype = rows[i].dtype;
    args.param_dtype = rows[i].params;
    args.x = (const void *)rows[i].x;
    args.dy = (const void *)rows[i].dy;
    args.dsum = (const void *)rows[i].dsum;
    args.dx = (void *)rows[i].dx;
    args.dweight = (void *)0x90004;
    args.dbias = (void *)0xa0004;
    args.x_row_stride = rows[i].x_stride;
    args.dy_row_stride = args.dsum_row_stride = args.dx_row_stride = rows[i].stride;
    cuda->launches = 0;
    assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
    assert_string_equal(cuda->launch[0].symbol, rows[i].symbol);
    for (int k = 0; k < 2; ++k) {
      attnpress_plan *plan;
      assert_ok(attnpress_plan_layernorm_backward(handle, &args, NULL, &plan));
      assert_ok(attnpress_plan_workspace_bytes(plan, &needed[k]));
      attnpress_plan_destroy(plan);
      args.x_row_stride = args.dy_row_stride = args.dsum_row_stride = args.dx_row_stride =
          args.columns;
      args.x = (const void *)0x8000000;
      args.dx = (void *)0x30000;
    }
    assert_int_equal(needed[0], needed[1]);
  }
  attnpress_destroy(handle);
}

/* Threads beside each other: as many as leave a thread no more parts than it loads at once, 32
 * columns at least and no more than there are. */
static void test_sum_shift(void **state) {
  (void)state;
  const ap_tile tile = {.threads = 256, .field[AP_LAYERNORM_TILE_STEP] = 8};
  static const struct {
    int64_t columns, parts;
    int32_t shift;
  } cases[] = {{4096, 264, 3}, {4096, 256, 3}, {16384, 66, 4}, {16384, 64, 5},
               {32768, 29, 6}, {32768, 1, 8},  {100, 1, 5},    {1000, 0, 8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    assert_int_equal(ap_layernorm_sum_shift(&tile, cases[i].columns, cases[i].parts),
                     cases[i].shift);
}

/* Rows that the blocks of a cluster share: whole clusters, each of which has a part of the sums. */
static void test_launch_clusters(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_layernorm_args forward = legal_forward();
  attnpress_layernorm_backward_args args = legal_backward();
  forward.columns = args.columns = 40000;
  forward.x_row_stride = forward.residual_row_stride = 0;
  forward.rows = args.rows = 3000;
  assert_ok(attnpress_layernorm(handle, &forward, NULL));
  /* No kernel of 40,960 columns has registers for parameters of fp32. */
  assert_string_equal(cuda->launch[0].symbol, "layernorm_fwd_cols49152_bf16_wfp32_sm90");
  assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 3);
  assert_string_equal(cuda->launch[1].symbol, "layernorm_bwd_odd_cols40960_fp16_wfp16_sm90");
  attnpress_layernorm_bwd_args given;
  memcpy(&given, cuda->launch[1].args, sizeof given);
  for (int i = 0; i < 2; ++i) {
    assert_true(cuda->launch[i].cluster > 1);
    assert_int_equal(cuda->launch[i].grid % cuda->launch[i].cluster, 0);
  }
  /* Sums of seven classes of rows, of which two clusters have some, beside those of each cluster. */
  assert_int_equal((given.parts - 7) * cuda->launch[1].cluster, cuda->launch[1].grid);
  args.x = (void *)0x10000;
  args.dy = (void *)0x20000;
  args.dx = (void *)0x30000;
  args.columns = 32000; /* others have gangs */
  assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
  assert_string_equal(cuda->launch[3].symbol, "layernorm_bwd_cols32768_fp16_wfp16_sm90");
  memcpy(&given, cuda->launch[3].args, sizeof given);
  assert_int_equal(given.parts * cuda->launch[3].cluster, cuda->launch[3].grid);
  /* Fewer rows than there is room for: a cluster each. */
  forward.rows = 2;
  assert_ok(attnpress_layernorm(handle, &forward, NULL));
  assert_int_equal(cuda->launch[5].grid, 2 * cuda->launch[5].cluster);
  attnpress_destroy(handle);
}

/* Rows of more than 65,536 columns: as many clusters as the driver has room for, which is asked once, or as
 * have a row; where it does not say, as many as surely are there. */
static void test_launch_room(void **state) {
  static const struct {
    int room, rows, clusters, asked;
  } cases[] = {{0, 3000, 13, 1}, {15, 3000, 15, 2}, {0, 3000, 15, 2}, {0, 14, 14, 2}, {0, 2, 2, 2}};
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_layernorm_args args = legal_forward();
  args.x = (void *)0x10000;
  args.y = (void *)0x20000;
  args.weight = (void *)0x50000;
  args.bias = (void *)0x60000;
  args.columns = 262144;
  args.x_row_stride = 0;
  args.param_dtype = args.dtype;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cuda->cluster_room = cases[i].room;
    args.rows = cases[i].rows;
    assert_ok(attnpress_layernorm(handle, &args, NULL));
    const fake_launch *l = &cuda->launch[i];
    assert_string_equal(l->symbol, "layernorm_fwd_wide_cols32768_bf16_wbf16_sm90");
    assert_int_equal(l->cluster, 8);
    assert_int_equal(l->grid, 8 * cases[i].clusters);
    assert_int_equal(cuda->rooms_asked, cases[i].asked);
  }
  attnpress_destroy(handle);
}

/* A device of few SMs still gets a cluster, and its parts fit into the workspace. */
static void test_few_sms(void **state) {
  float sum;
  (void)state;
  for (int32_t sms = 1; sms <= 40; ++sms)
    for (int64_t columns = 16400; columns <= 24576; columns += columns / 5) {
      const ap_layernorm_problem p = {.backward = 1,
                                      .rows = 500,
                                      .columns = columns,
                                      .dtype = ATTNPRESS_BF16,
                                      .param_dtype = ATTNPRESS_BF16,
                                      .dweight = &sum};
      ap_device device;
      ap_layernorm_plan plan;
      assert_ok(ap_device_of_target("sm_90", &device));
      device.sm_count = sms;
      assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
      const ap_launch *l = &plan.base.launch[0];
      assert_true(l->cluster > 1 && l->grid >= l->cluster && l->grid % l->cluster == 0);
      assert_int_equal(plan.parts, l->grid / l->cluster);
      assert_true(plan.base.workspace_bytes >= (size_t)(plan.parts * columns) * sizeof(float));
    }
}

/* Odd rows of a cluster: its threads have room for them wherever they begin, and the workspace for the
 * sums of seven classes of rows more, which whole rows of as many columns are told, too. */
static void test_odd_clusters(void **state) {
  (void)state;
  for (int i = 0; i < 4000; ++i) {
    const int64_t columns = 9217 + (int64_t)i * 7919 % (65530 - 9217), rows = 1 + i * 37 % 3000;
    float sum;
    ap_layernorm_problem p = {.backward = 1,
                              .tensor = {{.data = (void *)0x1000002, .stride = columns},
                                         {.data = NULL},
                                         {.data = (void *)0x3000006, .stride = columns},
                                         {.data = (void *)0x2000004, .stride = columns}},
                              .rows = rows,
                              .columns = columns,
                              .rms = i % 3 == 0,
                              .dtype = i % 2 ? ATTNPRESS_BF16 : ATTNPRESS_FP16,
                              .param_dtype = i % 5 ? ATTNPRESS_BF16 : ATTNPRESS_FP32,
                              .dweight = &sum};
    ap_device device;
    ap_layernorm_plan plan, other;
    assert_ok(ap_device_of_target("sm_90", &device));
    device.sm_count = 1 + i % 150;
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
    const ap_launch *l = &plan.base.launch[0];
    assert_int_equal(l->variant.axis[AP_LAYERNORM_ROWS], AP_LAYERNORM_ROWS_ODD);
    assert_true(columns + 7 <= l->variant.axis[AP_LAYERNORM_COLS]);
    assert_true(l->cluster > 1 && l->grid >= l->cluster && l->grid % l->cluster == 0);
    assert_int_equal(plan.parts, l->grid / l->cluster + 7);
    assert_true(plan.base.workspace_bytes >= (size_t)(plan.parts * columns) * sizeof(float));
    p.tensor[0] = (ap_layernorm_tensor){.data = (void *)0x1000000, .stride = columns};
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &other));
    assert_int_equal(other.base.workspace_bytes, plan.base.workspace_bytes);
  }
}

/* Whether rows that begin alike have as many columns as gangs take. */
static int have_gangs(const ap_layernorm_problem *p, int whole) {
  const int64_t columns = p->columns;
  const int added = p->tensor[AP_LAYERNORM_DSUM].data != NULL;
  const int wide = p->param_dtype == ATTNPRESS_FP32;
  const int full = (columns > 15360 && columns <= 16384) || (columns > 30720 && columns <= 32768);
  const int64_t stride = p->tensor[0].stride;
  if (p->dtype == ATTNPRESS_FP32 && !whole && !added && stride % 4 == 0)
    return columns > 12288 && !full;
  if (p->dtype == ATTNPRESS_FP32)
    return columns > 10240;
  if (!whole && !added &&
      (p->rows < (wide && columns <= 49145 ? 192 : 64) || stride % (wide ? 4 : 2) == 0))
    return columns > 65529;
  if (!whole)
    return columns > (added ? (wide ? 8704 : 9216) : SPLIT_COLS_MIN);
  if (wide)
    return columns > 49152 || (columns > 24576 && columns <= 30720);
  return columns > (added ? 8192 : 24576) && !full;
}

/* Long rows, whole vectors or without gaps, are those of gangs: thread blocks that all run at the same
 * time, no more than there are SMs, each with columns that its rings have room for three rows of. A
 * workspace depends on neither pointers nor strides, nor on what is added to dx. */
static void test_gangs(void **state) {
  int many = 0, alone = 0, split = 0, shorter = 0, longer = 0;
  float sum;
  (void)state;
  for (int i = 0; i < 20000; ++i) {
    const int32_t dtype = dtypes[i % 3], size = dtype == ATTNPRESS_FP32 ? 4 : 2;
    const int64_t columns = i % 5 == 1    ? 8200 + (int64_t)i * 7919 % (65537 - 8200)
                            : i % 97 == 3 ? 65527 + i % 10 /* about the longest of clusters */
                                          : 65537 + (int64_t)i * 7919 % ((1 << 20) - 65536);
    const int in_place = i % 7 == 0, apart = i % 11 == 0, more = i % 3 == 0, matrices = 2 + more;
    const int64_t full = columns + (-columns & 7);
    const int64_t stride = i % 8 == 2 ? full + (i / 8 % 4) * 2 : columns + (apart ? 8 : 0);
    ap_layernorm_problem p = {
        .backward = 1,
        .tensor = {{.data = (void *)0x1000000, .stride = stride},
                   {.data = (void *)0x2000000, .stride = stride},
                   {.data = more ? (void *)0x3000000 : NULL, .stride = stride},
                   {.data = in_place ? (void *)0x1000000 : (void *)0x4000000, .stride = stride}},
        .rows = 1 + i % 300,
        .columns = columns,
        .rms = i % 5 == 0,
        .dtype = dtype,
        .param_dtype = dtypes[i / 3 % 3],
        .dweight = &sum,
        .dbias = i % 5 == 0 ? NULL : &sum};
    ap_device device;
    ap_layernorm_plan plan, other;
    assert_ok(ap_device_of_target(i % 13 ? "sm_90" : "sm_80", &device));
    device.sm_count = i % 4 ? device.sm_count : 1 + i % 190;
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
    const ap_launch *l = &plan.base.launch[0];
    const int whole = (columns | (p.rows > 1 ? stride : 0)) * size % 16 == 0, elements = 16 / size;
    ap_layernorm_problem q = p;
    q.tensor[0].data = (void *)(uintptr_t)0x1000004;
    q.tensor[AP_LAYERNORM_DSUM].data = more ? NULL : (void *)0x3000000;
    assert_ok(ap_layernorm_plan_call(&q, &device, ATTNPRESS_ONE_CALL, &other));
    assert_int_equal(other.base.workspace_bytes, plan.base.workspace_bytes);
    assert_int_equal(other.gang, 0);
    /* Shorter ones, few SMs, other rows, those of fp32 with half of the columns. */
    if (plan.gang == 0) {
      assert_true(!have_gangs(&p, whole) || i % 13 == 0 || device.sm_count < 132 ||
                  (more && columns > 65536) ||
                  (!whole && columns > 132 * 4032 && p.dtype == ATTNPRESS_FP32));
      continue;
    }
    assert_true(have_gangs(&p, whole));
    assert_true(i % 13);
    assert_int_equal(l->variant.axis[AP_LAYERNORM_ROWS],
                     whole ? AP_LAYERNORM_ROWS_GANG : AP_LAYERNORM_ROWS_SPLIT);
    const int gangs = (int)l->grid / plan.gang;
    assert_true(l->together && !l->cluster && plan.gang <= 160);
    assert_true((int)l->grid <= device.sm_count && (int)l->grid == gangs * plan.gang);
    assert_true(gangs <= p.rows && gangs == plan.parts);
    assert_int_equal(plan.base.count, gangs > 1 ? 2 : 1);
    const int64_t warps = l->tile.field[AP_LAYERNORM_TILE_ROW_THREADS] / 32;
    /* Where rows begin anywhere, columns move on by a vector, and the first warp and the last do without 32,
     * or as many as there is room for and no lane has one more for. */
    const int64_t vectors = whole ? columns / elements : (columns + 2 * elements - 2) / elements;
    const int64_t most = l->variant.axis[AP_LAYERNORM_COLS] / elements / warps - !whole;
    const int64_t lanes = (vectors + plan.gang * warps * 32 - 1) / (plan.gang * warps * 32);
    const int64_t room =
        (plan.gang * warps * (lanes * 32 < most ? lanes * 32 : most) - vectors) / 2;
    const int64_t dealt = vectors + (whole ? 0 : 2 * (room < 32 ? room : 32));
    const int64_t each = (dealt + plan.gang * warps - 1) / (plan.gang * warps);
    assert_true(room >= 0 && each <= most);
    /* Weights of fp32 beside 16 bits are in shared memory, too, where rows begin anywhere. */
    const int wide = size == 2 && p.param_dtype == ATTNPRESS_FP32;
    const int64_t rings =
        l->tile.smem_bytes - (!whole && wide ? 4 * l->variant.axis[AP_LAYERNORM_COLS] : 0);
    assert_true(each * 16 * matrices * 3 <= rings / warps);
    const size_t told = (size_t)l->grid * (16 + (whole ? 0 : 8)) * 2 * sizeof(uint64_t);
    assert_true(plan.told_bytes >= told && plan.told_bytes % 16 == 0);
    assert_true(l->clears == 0 && l->overlaps);
    assert_true(plan.base.workspace_bytes >=
                plan.told_bytes +
                    (gangs > 1 ? (size_t)gangs * (size_t)columns * sizeof(float) : 0));
    /* Where five vectors a lane make another gang, blocks have so many. */
    const int long_block = l->variant.axis[AP_LAYERNORM_COLS] == 10240;
    if (long_block)
      assert_true(!whole && !more && columns > 536000);
    if (!whole && !more && size == 2 && p.rows > 1 && device.sm_count == 132 && columns > 537000 &&
        columns < (wide ? 624000 : 669000))
      assert_true(long_block && gangs == 2);
    longer += long_block;
    many += gangs > 1;
    alone += gangs == 1;
    split += !whole;
    shorter += columns <= 65536;
  }
  assert_true(many > 3000 && alone > 3000 && split > 3000 && shorter > 1000 && longer > 100);
}

/* Whether gangs take rows of so many columns where clusters have room for them, too. */
static int are_forward_gangs_faster(const ap_layernorm_problem *p, int whole) {
  const int bare = p->weight == NULL && p->bias == NULL;
  if (whole && bare)
    return p->dtype != ATTNPRESS_FP32 && !p->rms && p->columns > 917504;
  if (p->dtype == ATTNPRESS_FP32)
    return !p->rms && p->columns > 262144;
  if (whole && !p->rms && p->param_dtype == p->dtype && p->columns > 262144 && p->columns <= 327680)
    return 1;
  return p->columns > (!whole ? 262144 : p->rms ? 786432 : 524288);
}

/* The most columns that clusters have room for, of rows without a residual; of 16 bits with parameters of
 * fp32 they take whole vectors alone. */
static int64_t most_of_clusters(const ap_layernorm_problem *p, int whole) {
  if (p->dtype == ATTNPRESS_FP32)
    return whole ? 524288 : 524288 - 3;
  if (p->param_dtype == ATTNPRESS_FP32)
    return !whole ? 0 : p->rms ? 524288 : 393216;
  return whole ? 1048576 : 1048576 - 7;
}

/* Of the longest rows y is made by gangs, too: a launch has a thread block for each SM, whatever it has
 * rows for, and all blocks of a gang have columns that their registers and rings have room for. */
static void test_forward_gangs(void **state) {
  int gangs = 0, split = 0, sums = 0;
  (void)state;
  for (int i = 0; i < 20000; ++i) {
    const int32_t dtype = dtypes[i % 3], size = dtype == ATTNPRESS_FP32 ? 4 : 2;
    const int64_t columns = 65537 + (int64_t)i * 7919 % ((1 << 20) - 65536);
    const int in_place = i % 7 == 0, apart = i % 11 == 0, other = i % 17 == 0, more = i % 19 == 0;
    const int bare = i % 23 == 0;
    const int64_t stride = columns + (apart ? 8 : 0);
    const ap_layernorm_problem p = {
        .tensor = {{.data = (void *)0x100000, .stride = stride},
                   {.data = more ? (void *)0x300000 : NULL, .stride = stride},
                   {.data = (void *)(uintptr_t)(in_place ? 0x100000 : 0x200000), .stride = stride},
                   {.data = more ? (void *)0x400000 : NULL, .stride = stride}},
        .rows = 1 + i % 100,
        .columns = columns,
        .weight = bare ? NULL : (void *)0x4000000,
        .bias = !bare && i % 5 ? (void *)0x6000000 : NULL,
        .rms = i % 5 == 0,
        .dtype = dtype,
        .param_dtype = other ? (dtype == ATTNPRESS_FP32 ? ATTNPRESS_BF16 : ATTNPRESS_FP32) : dtype};
    ap_device device;
    ap_layernorm_plan plan;
    assert_ok(ap_device_of_target(i % 13 ? "sm_90" : "sm_80", &device));
    device.sm_count = i % 4 ? device.sm_count : 1 + i % 190;
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
    const ap_launch *l = &plan.base.launch[0];
    const int whole = columns * size % 16 == 0, elements = 16 / size;
    assert_int_equal(plan.base.count, 1);
    assert_int_equal(plan.base.workspace_bytes, 0);
    if (plan.gang == 0) {
      assert_false(l->together);
      assert_true(i % 13 == 0 || (other && size == 4) ||
                  (!whole && (in_place || (apart && p.rows > 1))) || device.sm_count < 132 ||
                  device.sm_count > 160 || (more && bare && !whole && columns <= 98304) ||
                  (l->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_WIDE &&
                   !are_forward_gangs_faster(&p, whole)));
      continue;
    }
    assert_true(more || device.sm_count < 132 || columns > most_of_clusters(&p, whole) ||
                are_forward_gangs_faster(&p, whole));
    assert_true(i % 13 && (!other || size == 2) &&
                (whole || (!in_place && (!apart || p.rows == 1))));
    assert_int_equal(l->variant.axis[AP_LAYERNORM_ROWS], more && whole ? AP_LAYERNORM_ROWS_GANGSUM
                                                         : more        ? AP_LAYERNORM_ROWS_SPLITSUM
                                                         : whole       ? AP_LAYERNORM_ROWS_GANG
                                                                       : AP_LAYERNORM_ROWS_SPLIT);
    assert_true(l->together && !l->cluster && !l->clears && l->overlaps);
    assert_int_equal(l->grid, device.sm_count);
    assert_true(plan.gang <= device.sm_count && device.sm_count <= 160);
    const int64_t warps = l->tile.field[AP_LAYERNORM_TILE_ROW_THREADS] / 32;
    /* Others than those at a row's ends, of which all rows have as many elements; of whole vectors lines of
     * 128 bytes are dealt. */
    const int64_t unit = whole ? 8 : 1, units = (columns / elements - !whole + unit - 1) / unit;
    const int64_t each = (units + plan.gang * warps - 1) / (plan.gang * warps) * unit;
    assert_true(each * elements * warps <= l->variant.axis[AP_LAYERNORM_COLS]);
    /* Six rows of a ring, where not all SMs have to share a row, or four of the longest blocks. */
    const int longest = l->variant.axis[AP_LAYERNORM_COLS] == 12288;
    const int64_t slots = (int)l->grid / plan.gang == 1 ? 3 : longest ? 4 : 6;
    assert_true(each * 16 * slots * (1 + more) <= l->tile.smem_bytes / warps);
    sums += more;
    gangs += whole;
    split += !whole;
  }
  assert_true(gangs > 500 && split > 500 && sums > 300);
}

/* Of rows that begin anywhere as many gangs as are at few places of a matrix, and blocks of more columns
 * where that takes them. */
static void test_counts_of_forward_gangs(void **state) {
  static const struct {
    int64_t rows, columns;
    int32_t dtype, param_dtype, more, block, gangs;
  } cases[] = {
      {107, 300001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 20480, 8}, /* of 6 */
      {31, 300001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 16384, 6},  /* few rows */
      {3, 300001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 16384, 3},
      {107, 270001, ATTNPRESS_FP16, ATTNPRESS_FP16, 0, 20480, 8}, /* of 7 */
      {107, 262145, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 16384, 8}, /* 9 would be at 9 places */
      {107, 333333, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 16384, 6}, /* 7 at 7 */
      {107, 450001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 16384, 4},
      {107, 600001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 20480, 4},
      {107, 750001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 20480, 3}, /* half as many more */
      {107, 1000001, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 16384, 2},
      {107, 300001, ATTNPRESS_FP32, ATTNPRESS_FP32, 0, 10240, 4},
      {3, 300001, ATTNPRESS_FP32, ATTNPRESS_FP32, 0, 10240, 3},
      {107, 700001, ATTNPRESS_FP32, ATTNPRESS_FP32, 0, 10240, 1},
      {107, 300001, ATTNPRESS_BF16, ATTNPRESS_FP32, 0, 10240, 4},
      {107, 600001, ATTNPRESS_BF16, ATTNPRESS_FP32, 0, 10240, 2},
      {107, 1000001, ATTNPRESS_BF16, ATTNPRESS_FP32, 0, 8192, 1},
      {107, 300001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 10240, 4},
      {107, 350001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 8192, 3},
      {107, 380001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 12288, 4}, /* of 3 */
      {107, 500001, ATTNPRESS_FP16, ATTNPRESS_FP16, 1, 12288, 3}, /* of 2 */
      {107, 650001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 12288, 2}, /* of 1 */
      {107, 800001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 12288, 2},
      {107, 811017, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 12288, 2},
      {107, 811025, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 8192, 1},
      {7, 650001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 8192, 1}, /* few rows */
      {107, 650001, ATTNPRESS_BF16, ATTNPRESS_FP32, 1, 8192, 1},
      {107, 110001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 8192, 8},  /* 9 have room */
      {107, 70001, ATTNPRESS_BF16, ATTNPRESS_BF16, 1, 10240, 16}, /* of 14 */
      {107, 65537, ATTNPRESS_BF16, ATTNPRESS_FP32, 1, 8192, 16},
      {107, 300000, ATTNPRESS_BF16, ATTNPRESS_FP32, 1, 8192, 3}, /* whole vectors */
      {107, 600008, ATTNPRESS_BF16, ATTNPRESS_BF16, 0, 16384, 3},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const int64_t stride = cases[i].columns;
    const ap_layernorm_problem p = {
        .tensor = {{.data = (void *)0x100000, .stride = stride},
                   {.data = cases[i].more ? (void *)0x300000 : NULL, .stride = stride},
                   {.data = (void *)0x200000, .stride = stride},
                   {.data = cases[i].more ? (void *)0x400000 : NULL, .stride = stride}},
        .rows = cases[i].rows,
        .columns = cases[i].columns,
        .weight = (void *)0x4000000,
        .bias = (void *)0x6000000,
        .dtype = cases[i].dtype,
        .param_dtype = cases[i].param_dtype};
    ap_device device;
    ap_layernorm_plan plan;
    assert_ok(ap_device_of_target("sm_90", &device));
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
    const ap_launch *l = &plan.base.launch[0];
    if (plan.gang == 0 || l->variant.axis[AP_LAYERNORM_COLS] != cases[i].block ||
        (int)l->grid / plan.gang != cases[i].gangs)
      fail_msg("%lld columns: gangs of %d blocks of %d columns", (long long)cases[i].columns,
               plan.gang, l->variant.axis[AP_LAYERNORM_COLS]);
  }
}

/* A forward launch of gangs: nothing is cleared before it, and its blocks have memory of the kernel's own. */
static void test_launch_forward_gangs(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_layernorm_args args = legal_forward();
  attnpress_layernorm_fwd_args given;
  args.x = (void *)0x10000;
  args.y = (void *)0x20000;
  args.weight = (void *)0x50000;
  args.bias = (void *)0x60000;
  args.columns = 1 << 20;
  args.x_row_stride = 0;
  args.param_dtype = args.dtype;
  cuda->cleared_words = 0;
  assert_ok(attnpress_layernorm(handle, &args, NULL));
  const fake_launch *l = &cuda->launch[0];
  assert_string_equal(l->symbol, "layernorm_fwd_gang_cols16384_bf16_wbf16_sm90");
  memcpy(&given, l->args, sizeof given);
  assert_true(l->together && l->overlaps && l->cluster == 0);
  assert_int_equal(l->grid, 132);
  assert_int_equal(given.cluster, 66);
  assert_null(given.told);
  assert_int_equal(cuda->cleared_words, 0);
  attnpress_destroy(handle);
}

/* What a gang is given: where its blocks tell each other, and sums as they are, or parts of them. */
static void test_launch_gangs(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  for (int alone = 0; alone < 2; ++alone) {
    attnpress_layernorm_backward_args args = legal_backward();
    attnpress_layernorm_bwd_args given;
    const int before = cuda->launches;
    args.x = (void *)0x10000;
    args.dy = (void *)0x20000;
    args.dx = (void *)0x30000;
    args.columns = alone ? 1 << 20 : 100001;
    args.rows = 300;
    assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
    const fake_launch *first = &cuda->launch[before];
    assert_int_equal(cuda->launches, before + (alone ? 1 : 2));
    memcpy(&given, first->args, sizeof given);
    assert_true(first->together && first->overlaps && first->cluster == 0);
    assert_int_equal(first->grid % (unsigned)given.gang, 0);
    assert_ptr_equal(given.told, args.workspace);
    assert_int_equal(cuda->clears, 0);
    assert_int_equal(given.whole, alone);
    if (alone) {
      assert_ptr_equal(given.weight_parts, args.dweight);
      assert_ptr_equal(given.bias_parts, args.dbias);
      continue;
    }
    attnpress_layernorm_reduce_args sums;
    memcpy(&sums, cuda->launch[before + 1].args, sizeof sums);
    assert_true((char *)given.weight_parts >=
                (char *)args.workspace + first->grid * (16 + 8) * 2 * sizeof(uint64_t));
    assert_ptr_equal(sums.weight_parts, given.weight_parts);
    assert_ptr_equal(sums.bias_parts, given.bias_parts);
    assert_int_equal(sums.parts, first->grid / (unsigned)given.gang);
    assert_true(cuda->launch[before + 1].overlaps && !cuda->launch[before + 1].together);
  }
  attnpress_destroy(handle);
}

/* Clusters of sorted rows: as many of each of the classes as have rows, or as there is room for. */
static int64_t clusters_of(const ap_layernorm_problem *p, const ap_device *device,
                           const ap_launch *launch, int64_t classes) {
  const int64_t rows = (p->rows + classes - 1) / classes;
  const int64_t each = ap_layernorm_block_rows(&launch->tile);
  const int64_t steps = (rows + each - 1) / each;
  const int64_t room = ap_layernorm_walkers_at_once(device, launch) / classes;
  return classes * (steps < room ? steps : room > 1 ? room : 1);
}

/* Odd rows that begin alike in all matrices: each cluster has rows of one class, and parts of the sums begin
 * at multiples of 16 bytes. Rows of as many columns are told the same workspace, wherever they are. */
static void test_sorted_rows(void **state) {
  (void)state;
  for (int i = 0; i < 4000; ++i) {
    const int64_t columns = (9216 + (int64_t)i * 7919 % (65529 - 9216)) | 1,
                  rows = 1 + i * 37 % 3000;
    float sum;
    ap_layernorm_problem p = {.backward = 1,
                              .tensor = {{.data = (void *)0x1000000, .stride = columns},
                                         {.data = (void *)0x2000000, .stride = columns},
                                         {.data = NULL},
                                         {.data = (void *)0x3000000, .stride = columns}},
                              .rows = rows,
                              .columns = columns,
                              .rms = i % 3 == 0,
                              .dtype = i % 2 ? ATTNPRESS_BF16 : ATTNPRESS_FP16,
                              .param_dtype = i % 5 ? ATTNPRESS_BF16 : ATTNPRESS_FP32,
                              .dweight = i % 7 ? &sum : NULL};
    ap_device device;
    ap_layernorm_plan plan, other;
    assert_ok(ap_device_of_target("sm_90", &device));
    device.sm_count = 1 + i % 150;
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
    const ap_launch *l = &plan.base.launch[0];
    const int32_t kind = l->variant.axis[AP_LAYERNORM_ROWS];
    const int sorted = kind == AP_LAYERNORM_ROWS_SORTED, gang = kind == AP_LAYERNORM_ROWS_SPLIT;
    /* Long ones are those of gangs, where these have room for a row. */
    const int of_gangs = p.dweight != NULL && device.sm_count >= 9;
    const int wide = p.param_dtype == ATTNPRESS_FP32;
    const int many = rows >= (wide && columns <= 49145 ? 192 : 64);
    assert_true(sorted || gang);
    assert_true(!of_gangs || gang == (columns > SPLIT_COLS_MIN && many));
    assert_int_equal(gang, plan.gang > 0);
    if (sorted) { /* have what lies beside the vectors as vectors */
      assert_true(columns + 7 <= l->variant.axis[AP_LAYERNORM_COLS]);
      assert_true(l->cluster > 1 && l->grid >= l->cluster && l->grid % l->cluster == 0);
      assert_int_equal(plan.parts, l->grid / l->cluster);
      assert_int_equal(plan.parts, clusters_of(&p, &device, l, 8));
    }
    assert_int_equal(plan.pitch, (columns + 3) / 4 * 4);
    if (p.dweight != NULL)
      assert_true(plan.base.workspace_bytes >= (size_t)(plan.parts * plan.pitch) * sizeof(float));
    /* One elsewhere than the others, in place, one with gaps, with dsum, and all with gaps, so that rows
     * begin at one element of a vector, at two or at four. */
    ap_layernorm_tensor *const t = p.tensor;
    const int64_t classes = 1 << i / 5 % 3;
    switch (i % 5) {
    case 0:
      t[i / 5 % 2 ? AP_LAYERNORM_X : AP_LAYERNORM_DX].data = (void *)0x4000002;
      break;
    case 1:
      t[AP_LAYERNORM_DX].data = t[i / 5 % 2].data;
      break;
    case 2:
      t[AP_LAYERNORM_DY].stride += rows > 1;
      t[AP_LAYERNORM_DY].data = rows > 1 ? (void *)0x2000000 : (void *)0x2000002;
      break;
    case 3:
      t[AP_LAYERNORM_DSUM] = t[AP_LAYERNORM_X];
      break;
    default:
      for (int j = 0; j < 4; ++j)
        t[j].stride = (columns + 7) / 8 * 8 + 8 * j + (classes > 1 ? 8 / classes : 0);
    }
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &other));
    const int32_t other_kind = other.base.launch[0].variant.axis[AP_LAYERNORM_ROWS];
    assert_int_equal(other.base.workspace_bytes, plan.base.workspace_bytes);
    if (i % 5 == 1) { /* nothing else */
      assert_int_equal(other_kind, kind);
      assert_int_equal(other.pitch, plan.pitch);
    } else if (i % 5 == 4) { /* less classes, which clusters are faster with */
      assert_int_equal(other_kind, wide && classes == 4 ? kind : AP_LAYERNORM_ROWS_SORTED);
      if (other_kind == AP_LAYERNORM_ROWS_SORTED)
        assert_int_equal(other.parts, clusters_of(&p, &device, &other.base.launch[0], classes));
    } else {
      const int added = i % 5 == 3 && other.gang > 0; /* gangs add dsum */
      assert_true(i % 5 != 3 || !of_gangs || other.gang > 0);
      assert_int_equal(other_kind, added ? AP_LAYERNORM_ROWS_SPLIT : AP_LAYERNORM_ROWS_ODD);
      assert_int_equal(other.pitch, added ? plan.pitch : columns);
    }
  }
}

/* Long rows: the sums first, as dx may lie over what they are made of. */
static void test_launch_long(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_layernorm_backward_args args = legal_backward();
  args.columns = 140000;
  args.rows = 3000; /* which begin at other elements of a vector in each matrix */
  args.dx = ATTNPRESS_DATA(args.dy);
  assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 3);
  attnpress_layernorm_bwd_args params, dx;
  memcpy(&params, cuda->launch[0].args, sizeof params);
  memcpy(&dx, cuda->launch[2].args, sizeof dx);
  assert_string_equal(cuda->launch[0].symbol, "layernorm_bwd_params_cols131072_fp16_wfp32_sm80");
  assert_string_equal(cuda->launch[2].symbol, "layernorm_bwd_dx_cols131072_fp16_wfp16_sm80");
  assert_int_equal(cuda->launch[0].grid, params.parts * ((140000 + 255) / 256));
  assert_int_equal(cuda->launch[2].grid, 3000);
  assert_null(dx.weight_parts);
  /* No rows: zeros are written. */
  args.rows = 0;
  assert_ok(attnpress_layernorm_backward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 4);
  attnpress_layernorm_reduce_args sums;
  memcpy(&sums, cuda->launch[3].args, sizeof sums);
  assert_int_equal(sums.parts, 0);
  assert_ptr_equal(sums.dweight, args.dweight);
  attnpress_destroy(handle);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/* The kernel of every number of columns has room for them, the next smaller one has not, and its
 * shared memory is there. */
static void test_classes(void **state) {
  (void)state;
  for (size_t d = 0; d < ap_targets_count; ++d) {
    ap_device device;
    assert_ok(ap_device_of_target(ap_targets[d].name, &device));
    for (int backward = 0; backward < 2; ++backward)
      for (int64_t columns = 1; columns <= 1 << 20; columns += columns < 600 ? 1 : columns / 9) {
        float sum;
        const ap_layernorm_problem p = {.backward = backward,
                                        .rows = 1,
                                        .columns = columns,
                                        .dtype = dtypes[columns % 3],
                                        .param_dtype = dtypes[columns % 2],
                                        .rms = columns % 5 == 0,
                                        .dweight = backward ? &sum : NULL};
        ap_layernorm_plan plan;
        assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan));
        const ap_launch *l = &plan.base.launch[0];
        const int32_t takes = l->variant.axis[AP_LAYERNORM_COLS];
        const int held = backward ? l->variant.axis[AP_LAYERNORM_PASS] == AP_LAYERNORM_PASS_BWD
                                  : takes <= AP_LAYERNORM_HELD_COLS_MAX;
        if (plan.gang > 0) { /* test_gangs() has these */
          assert_true(columns > 8192);
          continue;
        }
        if (l->variant.axis[AP_LAYERNORM_ROWS] ==
            AP_LAYERNORM_ROWS_WIDE) { /* and test_wide_rows() */
          assert_true(columns > 65536);
          continue;
        }
        assert_int_equal(plan.base.count, !backward ? 1 : held ? 2 : 3);
        const int odd = l->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_ODD;
        const int beside = !odd ? 0 : backward && takes == 8192 ? 1024 : 7; /* its vectors */
        assert_true(takes + beside >= columns || !held);
        assert_true(columns < 33 || takes < 2 * columns || !held);
        assert_true(held || columns > 8192);
        for (int i = 0; i < plan.base.count; ++i)
          assert_true(plan.base.launch[i].tile.smem_bytes <=
                      ap_find_target(plan.base.launch[i].target)->smem_per_block_bytes);
      }
  }
}

/* What a range prepares, and the workspace that it names, are enough for every call in it. */
static void test_range(void **state) {
  (void)state;
  attnpress_handle *handle = make_compile_only();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  static const char *const targets[] = {"sm_80", "sm_86", "sm_90", "sm_120"};
  uint32_t random = 1;
  for (int i = 0; i < 400; ++i) {
    attnpress_layernorm_backward_args args = legal_backward();
    attnpress_plan *range, *call;
    random = random * 1664525u + 1013904223u;
    options.target = targets[random >> 28 & 3];
    args.rows = 0;
    args.columns = i % 5 == 0 ? 0 : 1 + (int64_t)(random % (1u << (random >> 8) % 20));
    args.rms = i % 3 == 0;
    args.dtype = i % 4 == 3 ? ATTNPRESS_FP32 : args.dtype;
    options.range = ATTNPRESS_UP_TO;
    assert_ok(attnpress_plan_layernorm_backward(handle, &args, &options, &range));
    const int64_t most = args.columns == 0 ? 1 << 20 : args.columns;
    args.rows = 1 + random % 100000;
    args.columns = 1 + (int64_t)(random >> 4) % most;
    if (i % 2) { /* rows one after the other, from multiples of 16 bytes on */
      args.x = (void *)0x10000;
      args.dx = (void *)0x8000000000;
      args.dy = (void *)0x10000000000;
      args.x_row_stride = args.dy_row_stride = args.dx_row_stride = args.columns;
    }
    options.range = ATTNPRESS_ONE_CALL;
    assert_ok(attnpress_plan_layernorm_backward(handle, &args, &options, &call));
    assert_prepared(range, call);
    size_t bound = 0, bytes = 0;
    assert_ok(attnpress_plan_workspace_bytes(range, &bound));
    assert_ok(attnpress_plan_workspace_bytes(call, &bytes));
    assert_true(bytes > 0 && bytes <= bound);
    attnpress_plan_destroy(call);
    attnpress_plan_destroy(range);
  }
  attnpress_destroy(handle);
}

/* A plan may be run with other pointers, whose rows another kernel serves. */
static void test_plan_of_other_pointers(void **state) {
  static const struct {
    uintptr_t x, dx;
    const char *symbol;
  } runs[] = {{0x10000, 0x30000, "layernorm_bwd_short_cols8_bf16_wbf16_sm90"},
              {0x10002, 0x30000, "layernorm_bwd_odd_cols32_bf16_wbf16_sm80"},
              {0x10000, 0x10000, "layernorm_bwd_short_cols8_bf16_wbf16_sm90"}};
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_layernorm_backward_args args = legal_backward();
  attnpress_plan *plan;
  args.columns = args.x_row_stride = args.dy_row_stride = args.dx_row_stride = 3;
  args.dtype = ATTNPRESS_BF16;
  args.x = (const void *)0x10000;
  args.dy = (const void *)0x2000000;
  args.dx = (void *)0x30000;
  args.dweight = (void *)0x90004;
  args.dbias = (void *)0xa0004;
  assert_ok(attnpress_plan_layernorm_backward(handle, &args, NULL, &plan));
  for (size_t i = 0; i < sizeof runs / sizeof *runs; ++i) {
    args.x = (const void *)runs[i].x;
    args.dx = (void *)runs[i].dx;
    assert_ok(attnpress_plan_run(plan, &args, NULL));
    assert_string_equal(cuda->launch[2 * i].symbol, runs[i].symbol);
  }
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/* The kernel of every call in a range is one that the range prepares, of cut rows and of whole vectors. */
static void test_forward_range(void **state) {
  static ap_layernorm_plan range, call;
  uint32_t random = 1;
  ap_device device;
  (void)state;
  assert_ok(ap_device_of_target("sm_90", &device));
  for (int i = 0; i < 2000; ++i) {
    random = random * 1664525u + 1013904223u;
    const int64_t most = 1 + (int64_t)(random >> 4) % (i % 2 ? 4200 : 70000);
    const int64_t less = i % 3 ? 0 : (int64_t)(random >> 8) % most;
    const int64_t whole = (most - less) / 8 * 8;
    const int64_t columns = i % 5 == 0 && whole > 0 ? whole : most - less;
    ap_layernorm_problem p = {.tensor = {{.data = (void *)0x10000, .stride = columns},
                                         {.data = NULL},
                                         {.data = (void *)0x2000000, .stride = columns}},
                              .rows = 1000,
                              .columns = most,
                              .rms = i % 7 == 0,
                              .weight = i % 4 < 2 ? (void *)0x4000000 : NULL,
                              .bias = i % 4 < 2 && i % 7 ? (void *)0x6000000 : NULL,
                              .dtype = dtypes[i / 2 % 3],
                              .param_dtype = dtypes[i / 2 % 3]};
    if (i % 11 == 0) /* rows of y begin elsewhere */
      p.tensor[AP_LAYERNORM_Y].data = (void *)0x2000002;
    if (i % 13 == 0) /* in place */
      p.tensor[AP_LAYERNORM_Y] = p.tensor[AP_LAYERNORM_X];
    if (i % 9 == 0) {
      p.tensor[AP_LAYERNORM_RESIDUAL] = p.tensor[AP_LAYERNORM_SUM] = p.tensor[AP_LAYERNORM_X];
      p.tensor[AP_LAYERNORM_SUM].data = (void *)0x8000000;
    }
    if (i % 10 == 0 && ap_element_bytes(p.dtype) == 2)
      p.param_dtype = ATTNPRESS_FP32;
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_UP_TO, &range));
    p.columns = columns;
    assert_ok(ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &call));
    int found = 0;
    for (int k = 0; k < range.base.count; ++k)
      found |= memcmp(&range.base.launch[k].variant, &call.base.launch[0].variant,
                      sizeof call.base.launch[0].variant) == 0;
    if (!found)
      print_error("%d columns of a range up to %d, dtype %d\n", (int)columns, (int)most, p.dtype);
    assert_true(found);
  }
}

static void test_plan_run(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_layernorm_backward_args args = legal_backward();
  attnpress_plan *plan;
  assert_ok(attnpress_plan_layernorm_backward(handle, &args, &options, &plan));
  args.dx = (void *)0x900000;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  args.dbias = NULL;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("dbias is NULL and was given");
  args = legal_backward();
  args.columns = 999;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("columns is 999 and was 1000");
  attnpress_plan_destroy(plan);
  options.range = ATTNPRESS_UP_TO;
  args.columns = 4096;
  args.rows = 0;
  assert_ok(attnpress_plan_layernorm_backward(handle, &args, &options, &plan));
  args.rows = 7;
  args.columns = 5;
  args.dbias = NULL;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_string_equal(cuda->launch[2].symbol, "layernorm_bwd_odd_cols32_fp16_wfp16_sm80");
  args.columns = 4097;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  args.columns = 5;
  args.dweight = (void *)0x90004;
  args.param_dtype = ATTNPRESS_FP32;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("param_dtype is 3 and was 1");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

static void test_plan_cpu(void **state) {
  (void)state;
  attnpress_handle *handle = make_cpu_handle(1);
  attnpress_layernorm_backward_args args = legal_backward();
  attnpress_plan *plan;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  assert_ok(attnpress_plan_layernorm_backward(handle, &args, NULL, &plan));
  assert_ok(attnpress_plan_launch(plan, 0, &info));
  assert_string_equal(info.stem, "cpu_layernorm_bwd_fp16_wfp16");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

static int set_up_layernorm(void **state) {
  const int status = set_up_group(state);
  cuda->args_of("layernorm_fwd", sizeof(attnpress_layernorm_fwd_args));
  cuda->args_of("layernorm_bwd", sizeof(attnpress_layernorm_bwd_args));
  cuda->args_of("layernorm_bwd_reduce", sizeof(attnpress_layernorm_reduce_args));
  return status;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_nothing),
      TEST(test_bad_input),
      TEST(test_launch_forward),
      TEST(test_launch_odd_rows),
      TEST(test_launch_packed_rows),
      TEST(test_launch_direct_rows),
      TEST(test_launch_rows_of_slices),
      TEST(test_launch_rows_with_residual),
      TEST(test_wide_rows),
      TEST(test_launch_rows_in_rings),
      TEST(test_packed_steps),
      TEST(test_odd_steps),
      TEST(test_rounds),
      TEST(test_workspace_of_odd_rows),
      TEST(test_launch_backward),
      TEST(test_launch_gradients),
      TEST(test_launch_gradients_of_slices),
      cmocka_unit_test(test_sum_shift),
      TEST(test_launch_clusters),
      TEST(test_launch_room),
      cmocka_unit_test(test_few_sms),
      cmocka_unit_test(test_odd_clusters),
      cmocka_unit_test(test_sorted_rows),
      TEST(test_launch_long),
      TEST(test_gangs),
      TEST(test_launch_gangs),
      cmocka_unit_test(test_forward_gangs),
      cmocka_unit_test(test_counts_of_forward_gangs),
      TEST(test_launch_forward_gangs),
      cmocka_unit_test(test_classes),
      cmocka_unit_test(test_range),
      cmocka_unit_test(test_forward_range),
      TEST(test_plan_of_other_pointers),
      TEST(test_plan_run),
      cmocka_unit_test(test_plan_cpu),
  };
  return cmocka_run_group_tests_name("layernorm", tests, set_up_layernorm, tear_down_group);
}
