/* The public API on a machine without a GPU: the driver and NVRTC are stand-ins (fake_cuda.c,
 * fake_nvrtc.c) that keep what was launched. What bad input gets; what a kernel is launched with;
 * contexts, captures, preparing, describing, compiling; many threads at once. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_support.h"
#include "attention_args.h"
#include "core/struct.h"
#include "attention/overlap.h"

/* ---- Bad input ------------------------------------------------------------------------------- */

typedef struct bad_input {
  const char *what;
  attnpress_status status;
  const char *says; /* the value, in the sentence */
  void (*spoil)(attnpress_forward_args *args);
} bad_input;

#define SPOIL(name, statement)                                                                     \
  static void name(attnpress_forward_args *a) {                                                    \
    statement;                                                                                     \
  }

static void set_hdim(attnpress_forward_args *a, int64_t hdim) {
  attnpress_tensor *tensors[] = {&a->q, &a->k, &a->v, &a->out};
  for (int i = 0; i < 4; ++i)
    *tensors[i] =
        attnpress_tensor_bshd(tensors[i]->data, tensors[i]->shape[0], tensors[i]->shape[1],
                              tensors[i]->shape[2], hdim, ATTNPRESS_BF16);
}
static void set_dtype(attnpress_forward_args *a, int32_t dtype) {
  a->q.dtype = a->k.dtype = a->v.dtype = a->out.dtype = dtype;
}

SPOIL(hdim_0, set_hdim(a, 0))
static void hdim_12(attnpress_forward_args *a) {
  set_hdim(a, 16);
  a->q.shape[3] = a->k.shape[3] = a->v.shape[3] = a->out.shape[3] = 12;
}
SPOIL(hdim_520, set_hdim(a, 520))
SPOIL(hdim_v_576, a->v.shape[3] = a->out.shape[3] = 576)
SPOIL(dtype_0, set_dtype(a, 0))
SPOIL(dtype_9, set_dtype(a, 9))
SPOIL(dtype_fp32, set_dtype(a, ATTNPRESS_FP32))
SPOIL(dtype_mixed, a->v.dtype = ATTNPRESS_FP16)
SPOIL(batch_differs, a->k.shape[0] = 3)
SPOIL(batch_out_differs, a->out.shape[0] = 1)
SPOIL(seqlen_k_differs, a->v.shape[1] = 299)
SPOIL(heads_kv_differ, a->v.shape[2] = 1)
SPOIL(heads_out_differ, a->out.shape[2] = 3)
SPOIL(seqlen_out_differs, a->out.shape[1] = 99)
SPOIL(hdim_k_differs, a->k.shape[3] = 64)
SPOIL(hdim_out_differs, a->out.shape[3] = 64)
SPOIL(heads_not_multiple, a->q.shape[2] = a->out.shape[2] = 5)
SPOIL(heads_kv_0, a->k.shape[2] = a->v.shape[2] = 0)
SPOIL(negative_shape, a->q.shape[1] = -1)
SPOIL(huge_shape, a->k.shape[1] = a->v.shape[1] = INT64_C(1) << 31)
SPOIL(q_null, a->q.data = NULL)
SPOIL(k_null, a->k.data = NULL)
SPOIL(v_null, a->v.data = NULL)
SPOIL(out_null, a->out.data = NULL)
SPOIL(q_misaligned, a->q.data = (void *)0x10008)
SPOIL(out_misaligned, a->out.data = (void *)0x40002)
SPOIL(lse_misaligned, a->lse = (float *)0x50002)
SPOIL(stride_last, a->q.stride[3] = 2)
SPOIL(stride_not_8, a->k.stride[1] = 76)
SPOIL(stride_negative, a->v.stride[0] = -8)
SPOIL(stride_out_overlaps, a->out.stride[2] = 64)
SPOIL(strides_out_overlap, a->out.stride[0] = a->out.stride[1] = a->out.stride[2] = 72)
SPOIL(stride_out_in_span, a->out.stride[0] = a->out.stride[1])
SPOIL(stride_out_zero, a->out.stride[0] = 0)
SPOIL(stride_overflows, a->q.stride[0] = INT64_MAX - 7)
SPOIL(rows_out_overlap, a->out.stride[1] = 64)
/** Nearly 2^63 elements. */
static void span_far(attnpress_forward_args *a, int64_t extent, int64_t stride) {
  a->q.shape[0] = a->q.shape[1] = extent;
  a->q.stride[0] = a->q.stride[1] = stride;
}
SPOIL(spans_overflow, span_far(a, (1 << 30) - 1, (INT64_C(1) << 32) - 8))
SPOIL(spans_overflow_by_extents, span_far(a, INT32_MAX - 1023, INT64_C(1) << 31))
SPOIL(spans_overflow_by_strides, span_far(a, 1 << 27, INT64_C(1) << 35))
SPOIL(bytes_overflow, a->q.stride[0] = INT64_MAX / 2 - 7)
static void rows_overflow(attnpress_forward_args *a) {
  a->q.shape[0] = a->k.shape[0] = a->v.shape[0] = a->out.shape[0] = INT32_MAX;
  a->q.shape[1] = a->out.shape[1] = INT32_MAX - 1023;
  a->q.stride[0] = a->k.stride[0] = a->v.stride[0] = 0;
  a->q.stride[1] = 0;
  a->out.stride[0] = a->out.stride[1] = 432;
}
SPOIL(reserved_tensor, a->v.reserved = 1)
SPOIL(invariant_2, a->batch_invariant = 2)
SPOIL(scale_negative, a->scale = -0.5f)
SPOIL(scale_nan, a->scale = NAN)
SPOIL(scale_inf, a->scale = INFINITY)
SPOIL(mask_3, a->mask = 3)
SPOIL(splits_negative, a->num_splits = -1)
SPOIL(splits_257, a->num_splits = 257)
SPOIL(lse_stride_small, a->lse_stride[0] = 600; a->lse_stride[1] = 99)
SPOIL(lse_strides_overlap, a->lse_stride[0] = a->lse_stride[1] = 100)
SPOIL(lse_stride_negative, a->lse_stride[0] = -600; a->lse_stride[1] = 100)
SPOIL(workspace_missing, a->num_splits = 4)
SPOIL(workspace_small, a->num_splits = 4; a->workspace = (void *)0x60000; a->workspace_bytes = 100)
SPOIL(workspace_misaligned, a->num_splits = 4; a->workspace = (void *)0x60008;
      a->workspace_bytes = 1 << 30)
SPOIL(struct_small, a->struct_size = AP_FORWARD_ARGS_FIRST_BYTES - 8)
SPOIL(struct_zero, a->struct_size = 0)
SPOIL(struct_absurd, a->struct_size = (size_t)1 << 40)

static const bad_input bad_inputs[] = {
    {"head dim 0", ATTNPRESS_INVALID_ARGUMENT, "head dim 0", hdim_0},
    {"head dim 12", ATTNPRESS_INVALID_ARGUMENT, "head dim 12", hdim_12},
    {"head dim 520", ATTNPRESS_INVALID_ARGUMENT, "head dim 520", hdim_520},
    {"value head dim 576", ATTNPRESS_INVALID_ARGUMENT, "value head dim 576", hdim_v_576},
    {"no dtype", ATTNPRESS_INVALID_ARGUMENT, "q.dtype is 0", dtype_0},
    {"unknown dtype", ATTNPRESS_INVALID_ARGUMENT, "q.dtype is 9", dtype_9},
    {"fp32", ATTNPRESS_NOT_SUPPORTED, "only the CPU backend", dtype_fp32},
    {"mixed dtypes", ATTNPRESS_INVALID_ARGUMENT, "v.dtype is fp16", dtype_mixed},
    {"k's batch", ATTNPRESS_INVALID_ARGUMENT, "k.shape[0] (batch) is 3", batch_differs},
    {"out's batch", ATTNPRESS_INVALID_ARGUMENT, "out.shape[0] (batch) is 1", batch_out_differs},
    {"v's length", ATTNPRESS_INVALID_ARGUMENT, "v.shape[1] (seqlen) is 299", seqlen_k_differs},
    {"v's heads", ATTNPRESS_INVALID_ARGUMENT, "v.shape[2] (heads) is 1", heads_kv_differ},
    {"out's heads", ATTNPRESS_INVALID_ARGUMENT, "out.shape[2] (heads) is 3", heads_out_differ},
    {"out's length", ATTNPRESS_INVALID_ARGUMENT, "out.shape[1] (seqlen) is 99", seqlen_out_differs},
    {"k's head dim", ATTNPRESS_INVALID_ARGUMENT, "k.shape[3] (head_dim) is 64", hdim_k_differs},
    {"out's head dim", ATTNPRESS_INVALID_ARGUMENT, "out.shape[3] (head_dim) is 64",
     hdim_out_differs},
    {"5 heads on 3", ATTNPRESS_INVALID_ARGUMENT, "q has 5 heads and k 3", heads_not_multiple},
    {"6 heads on 0", ATTNPRESS_INVALID_ARGUMENT, "q has 6 heads and k 0", heads_kv_0},
    {"a negative extent", ATTNPRESS_INVALID_ARGUMENT, "q.shape[1] (seqlen) is -1", negative_shape},
    {"an extent of 2^31", ATTNPRESS_INVALID_ARGUMENT, "2147483648", huge_shape},
    {"q NULL", ATTNPRESS_INVALID_ARGUMENT, "q.data is NULL", q_null},
    {"k NULL", ATTNPRESS_INVALID_ARGUMENT, "k.data is NULL", k_null},
    {"v NULL", ATTNPRESS_INVALID_ARGUMENT, "v.data is NULL", v_null},
    {"out NULL", ATTNPRESS_INVALID_ARGUMENT, "out.data is NULL", out_null},
    {"q misaligned", ATTNPRESS_INVALID_ARGUMENT, "0x10008", q_misaligned},
    {"out misaligned", ATTNPRESS_INVALID_ARGUMENT, "0x40002", out_misaligned},
    {"lse misaligned", ATTNPRESS_INVALID_ARGUMENT, "0x50002", lse_misaligned},
    {"last stride 2", ATTNPRESS_INVALID_ARGUMENT, "q.stride[3] (head_dim) is 2", stride_last},
    {"stride 76", ATTNPRESS_INVALID_ARGUMENT, "k.stride[1] (seqlen) is 76", stride_not_8},
    {"stride -8", ATTNPRESS_INVALID_ARGUMENT, "v.stride[0] (batch) is -8", stride_negative},
    {"out overlaps", ATTNPRESS_INVALID_ARGUMENT, "out.stride[2] (heads) is 64",
     stride_out_overlaps},
    {"out's rows in one place", ATTNPRESS_INVALID_ARGUMENT, "out.stride is 72, 72, 72",
     strides_out_overlap},
    {"out's batches overlap", ATTNPRESS_INVALID_ARGUMENT, "so that rows overlap",
     stride_out_in_span},
    {"out broadcast", ATTNPRESS_INVALID_ARGUMENT, "out.stride[0] (batch) is 0", stride_out_zero},
    {"offset overflow", ATTNPRESS_INVALID_ARGUMENT, "overflows", stride_overflows},
    {"spans overflow", ATTNPRESS_INVALID_ARGUMENT, "2^63 bytes", spans_overflow},
    {"spans overflow by extents", ATTNPRESS_INVALID_ARGUMENT, "2^63 bytes",
     spans_overflow_by_extents},
    {"spans overflow by strides", ATTNPRESS_INVALID_ARGUMENT, "2^63 bytes",
     spans_overflow_by_strides},
    {"out's rows overlap", ATTNPRESS_INVALID_ARGUMENT, "out.stride[1] (seqlen) is 64",
     rows_out_overlap},
    {"byte overflow", ATTNPRESS_INVALID_ARGUMENT, "q spans more than 2^63 bytes", bytes_overflow},
    {"row overflow", ATTNPRESS_INVALID_ARGUMENT, "overflows", rows_overflow},
    {"v.reserved", ATTNPRESS_INVALID_ARGUMENT, "v.reserved is 1", reserved_tensor},
    {"batch_invariant", ATTNPRESS_INVALID_ARGUMENT, "batch_invariant is 2", invariant_2},
    {"scale -0.5", ATTNPRESS_INVALID_ARGUMENT, "scale is -0.5", scale_negative},
    {"scale nan", ATTNPRESS_INVALID_ARGUMENT, "nan", scale_nan},
    {"scale inf", ATTNPRESS_INVALID_ARGUMENT, "inf", scale_inf},
    {"mask 3", ATTNPRESS_INVALID_ARGUMENT, "mask is 3", mask_3},
    {"-1 splits", ATTNPRESS_INVALID_ARGUMENT, "num_splits is -1", splits_negative},
    {"257 splits", ATTNPRESS_INVALID_ARGUMENT, "num_splits is 257", splits_257},
    {"lse's head stride", ATTNPRESS_INVALID_ARGUMENT, "lse_stride[1] (head) is 99",
     lse_stride_small},
    {"lse's rows in one place", ATTNPRESS_INVALID_ARGUMENT, "lse_stride is 100, 100",
     lse_strides_overlap},
    {"lse's batch stride", ATTNPRESS_INVALID_ARGUMENT, "lse_stride[0] (batch) is -600",
     lse_stride_negative},
    {"no workspace", ATTNPRESS_WORKSPACE_TOO_SMALL, "1401600 bytes, and 0", workspace_missing},
    {"small workspace", ATTNPRESS_WORKSPACE_TOO_SMALL, "1401600 bytes, and 100", workspace_small},
    {"workspace misaligned", ATTNPRESS_INVALID_ARGUMENT, "0x60008", workspace_misaligned},
    {"small struct", ATTNPRESS_INVALID_ARGUMENT, "args.struct_size is", struct_small},
    {"struct_size 0", ATTNPRESS_INVALID_ARGUMENT, "args.struct_size is 0", struct_zero},
    {"absurd struct", ATTNPRESS_INVALID_ARGUMENT, "1099511627776", struct_absurd},
};

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof bad_inputs / sizeof *bad_inputs; ++i) {
    attnpress_forward_args args = legal_args();
    bad_inputs[i].spoil(&args);
    const attnpress_status status = attnpress_forward(handle, &args, NULL);
    if (status != bad_inputs[i].status)
      fail_msg("%s: status %d, not %d: %s", bad_inputs[i].what, status, bad_inputs[i].status,
               attnpress_last_error());
    assert_error_says(bad_inputs[i].says);
  }
  assert_int_equal(attnpress_forward(handle, NULL, NULL), ATTNPRESS_INVALID_ARGUMENT);
  const attnpress_forward_args args = legal_args();
  assert_int_equal(attnpress_forward(NULL, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(cuda->launches, 0);
  assert_int_equal(cuda->loads, 0);
  assert_int_equal(compiles(), 0);
  assert_int_equal(count_files(cache_dir, ""), 0);
  attnpress_destroy(handle);
}

/** Extents and strides of rows that lie apart, and of such as do not. */
static void test_rows_overlap(void **state) {
  (void)state;
  static const struct {
    int64_t extent[3], stride[3], row;
    int want;
  } rows[] = {
      {{2, 3, 4}, {768, 256, 64}, 64, 0}, /* the six orders of three dimensions */
      {{2, 3, 4}, {768, 64, 192}, 64, 0},
      {{2, 3, 4}, {256, 512, 64}, 64, 0},
      {{2, 3, 4}, {64, 512, 128}, 64, 0},
      {{2, 3, 4}, {192, 64, 384}, 64, 0},
      {{2, 3, 4}, {64, 128, 384}, 64, 0},
      {{2, 3, 4}, {1000, 300, 72}, 64, 0}, /* padded */
      {{1, 3, 4}, {0, 256, 64}, 64, 0},    /* extents of 1 */
      {{1, 1, 1}, {0, 0, 0}, 64, 0},
      {{1, 3, 1}, {8, 64, INT64_MAX}, 64, 0},
      {{0, 3, 4}, {64, 64, 64}, 64, 0}, /* nothing is written */
      {{2, 3, 0}, {0, 0, 0}, 64, 0},
      {{2, 3, 4}, {0, 0, 0}, 0, 0},
      {{2, 3, 4}, {64, 64, 64}, 64, 1},
      {{2, 3, 4}, {768, 256, 56}, 64, 1},
      {{2, 3, 4}, {768, 248, 64}, 64, 1},
      {{2, 3, 4}, {760, 256, 64}, 64, 1},
      {{2, 3, 4}, {64, 504, 128}, 64, 1},
      {{2, 3, 4}, {0, 256, 64}, 64, 1},
      {{2, 2, 1}, {64, 64, 8}, 64, 1},
      {{2, 3, 2}, {192, 128, 1000}, 64, 1}, /* interleaved */
      {{3, 2, 2}, {INT64_MAX / 2, INT64_MAX / 2 + 64, 64}, 64, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
    if (ap_rows_overlap(3, rows[i].extent, rows[i].stride, rows[i].row) != rows[i].want)
      fail_msg("row %zu: %d was expected", i, rows[i].want);
}

/** The other calls refuse the same, except for what only a launch needs. */
static void test_bad_input_without_data(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  for (size_t i = 0; i < sizeof bad_inputs / sizeof *bad_inputs; ++i) {
    attnpress_forward_args args = legal_args();
    attnpress_info info = ATTNPRESS_INFO_INIT;
    size_t bytes;
    bad_inputs[i].spoil(&args);
    const int about_data = strstr(bad_inputs[i].what, "NULL") != NULL ||
                           strstr(bad_inputs[i].what, "misaligned") != NULL ||
                           strstr(bad_inputs[i].what, "workspace") != NULL;
    const attnpress_status want = about_data ? ATTNPRESS_OK : bad_inputs[i].status;
    assert_int_equal(workspace_bytes_of(handle, &args, &bytes), want);
    assert_int_equal(describe(handle, &args, &info), want);
    attnpress_plan *plan = (attnpress_plan *)8;
    assert_int_equal(attnpress_plan_forward(handle, &args, NULL, &plan), want);
    assert_int_equal(plan != NULL, about_data);
    attnpress_plan_destroy(plan);
  }
  const attnpress_forward_args args = legal_args();
  attnpress_info info = ATTNPRESS_INFO_INIT;
  assert_int_equal(workspace_bytes_of(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(describe(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  info.struct_size = 8;
  assert_int_equal(describe(handle, &args, &info), ATTNPRESS_INVALID_ARGUMENT);
  attnpress_destroy(handle);
}

/** A struct from a newer version is fine as long as what is new is not used. */
static void test_larger_structs(void **state) {
  (void)state;
  attnpress_handle *handle;
  struct {
    attnpress_options options;
    char newer[24];
  } options = {handle_options(), {0}};
  options.options.struct_size = sizeof options;
  assert_ok(attnpress_create(&handle, &options.options));
  struct {
    attnpress_forward_args args;
    char newer[24];
  } args = {legal_args(), {0}};
  args.args.struct_size = sizeof args;
  assert_ok(attnpress_forward(handle, &args.args, NULL));
  assert_int_equal(cuda->launches, 1);
  args.newer[23] = 1;
  assert_int_equal(attnpress_forward(handle, &args.args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("does not know");
  struct {
    attnpress_info info;
    char newer[24];
  } info = {ATTNPRESS_INFO_INIT, {0}};
  info.info.struct_size = sizeof info;
  args.newer[23] = 0;
  assert_ok(describe(handle, &args.args, &info.info));
  assert_int_equal(info.info.struct_size, sizeof info);
  attnpress_destroy(handle);

  attnpress_handle *none = (attnpress_handle *)8;
  options.newer[0] = 1;
  assert_int_equal(attnpress_create(&none, &options.options), ATTNPRESS_INVALID_ARGUMENT);
  assert_null(none);
}

static void test_bad_options(void **state) {
  (void)state;
  static char long_path[AP_PATH_MAX + 8];
  memset(long_path, 'a', sizeof long_path - 1);
  static const char *const empty_layer[] = {"/usr", "", NULL};
  attnpress_options rows[12];
  for (int i = 0; i < 12; ++i)
    rows[i] = handle_options();
  rows[0].backend = 3;
  rows[1].backend = -1;
  rows[2].jit_off = 2;
  rows[3].cache_off = -1;
  rows[4].num_threads = 1025;
  rows[5].num_threads = -1;
  rows[6].cache_dir = "";
  rows[7].nvrtc_path = long_path;
  rows[8].read_only_dirs = empty_layer;
  rows[9].struct_size = 4;
  rows[10].arch_max = 75;
  rows[11].check = 2;
  static const char *const says[] = {"backend is 3",
                                     "backend is -1",
                                     "jit_off is 2",
                                     "cache_off is -1",
                                     "is 1025",
                                     "threads is -1",
                                     "cache_dir is an empty",
                                     "nvrtc_path is longer",
                                     "read_only_dirs is an empty",
                                     "struct_size is 4",
                                     "arch_max is 75",
                                     "options.check is 2"};
  for (int i = 0; i < 12; ++i) {
    attnpress_handle *handle = (attnpress_handle *)8;
    assert_int_equal(attnpress_create(&handle, &rows[i]), ATTNPRESS_INVALID_ARGUMENT);
    assert_error_says(says[i]);
    assert_null(handle);
  }
  assert_int_equal(attnpress_create(NULL, NULL), ATTNPRESS_INVALID_ARGUMENT);
  attnpress_destroy(NULL);
}

/* ---- What is not there ----------------------------------------------------------------------- */

static void test_no_driver(void **state) {
  (void)state;
  attnpress_handle *handle = (attnpress_handle *)8;
  setenv("ATTNPRESS_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
  assert_int_equal(attnpress_create(&handle, NULL), ATTNPRESS_NO_DRIVER);
  assert_error_says("/nonexistent/libcuda.so.1");
  assert_null(handle);
  /* A library that is no driver. */
  setenv("ATTNPRESS_LIBCUDA", nvrtc_path, 1);
  assert_int_equal(attnpress_create(&handle, NULL), ATTNPRESS_NO_DRIVER);
  assert_error_says("cuInit");
  cuda = use_fake_cuda();

  setenv("FAKE_CUDA_INIT", "100", 1);
  assert_int_equal(attnpress_create(&handle, NULL), ATTNPRESS_NO_DRIVER);
  assert_error_says("no GPU");
  setenv("FAKE_CUDA_INIT", "34", 1);
  assert_int_equal(attnpress_create(&handle, NULL), ATTNPRESS_NO_DRIVER);
  assert_error_says("stub");
  setenv("FAKE_CUDA_INIT", "3", 1);
  assert_int_equal(attnpress_create(&handle, NULL), ATTNPRESS_NO_DRIVER);
  assert_error_says("does not start");
  unsetenv("FAKE_CUDA_INIT");
  setenv("FAKE_CUDA_VERSION", "11080", 1);
  assert_int_equal(attnpress_create(&handle, NULL), ATTNPRESS_NO_DRIVER);
  assert_error_says("CUDA 11.8");
  unsetenv("FAKE_CUDA_VERSION");
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  assert_int_equal(attnpress_create(&handle, NULL), ATTNPRESS_NO_DRIVER);
  unsetenv("FAKE_CUDA_DEVICES");
  assert_ok(attnpress_create(&handle, NULL));
  attnpress_destroy(handle);
}

static void test_no_context(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  CUcontext context = cuda->context_get();
  const attnpress_forward_args args = legal_args();
  attnpress_info info = ATTNPRESS_INFO_INIT;
  size_t bytes;
  cuda->context_set(NULL);
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("no CUDA context is current");
  assert_int_equal(attnpress_forward(handle, &args, (void *)2), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("no CUDA context is current");
  assert_int_equal(prepare_any(handle, &args), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(describe(handle, &args, &info), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(workspace_bytes_of(handle, &args, &bytes), ATTNPRESS_INVALID_ARGUMENT);
  /* A stream brings its own. */
  CUstream stream = cuda->stream_new(context);
  assert_ok(attnpress_forward(handle, &args, stream));
  assert_int_equal(cuda->launches, 1);
  assert_null(cuda->context_get());
  cuda->stream_free(stream);
  cuda->context_set(context);
  attnpress_destroy(handle);
}

static void test_old_device(void **state) {
  (void)state;
  cuda->capability = 75;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("compute capability 7.5; 8.0 or newer is needed");
  assert_int_equal(prepare_any(handle, &args), ATTNPRESS_NOT_SUPPORTED);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

static void test_no_nvrtc(void **state) {
  (void)state;
  attnpress_handle *handle;
  attnpress_options options = handle_options();
  const attnpress_forward_args args = legal_args();
  options.nvrtc_path = "/nonexistent/libnvrtc.so.13";
  assert_ok(attnpress_create(&handle, &options));
  for (int i = 0; i < 2; ++i) { /* the second time as well */
    assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_NO_NVRTC);
    assert_error_says("/nonexistent/libnvrtc.so.13");
  }
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

static void test_jit_off(void **state) {
  (void)state;
  attnpress_handle *handle;
  attnpress_options options = handle_options();
  const attnpress_forward_args args = legal_args();
  attnpress_info info = ATTNPRESS_INFO_INIT;
  options.jit_off = 1;
  assert_ok(attnpress_create(&handle, &options));
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_NO_KERNEL);
  assert_error_says("flash_fwd_hdim72_bf16_sm90 for sm_90a is neither linked in nor cached");
  assert_ok(describe(handle, &args, &info));
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_NONE);
  assert_int_equal(attnpress_compile(handle, info.stem, NULL, NULL), ATTNPRESS_NO_KERNEL);
  assert_int_equal(compiles(), 0);
  assert_int_equal(cuda->launches, 0);

  /* Another handle fills the cache, and then the kernel is there. */
  attnpress_handle *other = make_handle();
  assert_ok(attnpress_compile(other, info.stem, NULL, NULL));
  attnpress_destroy(other);
  assert_ok(describe(handle, &args, &info));
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_DISK);
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  attnpress_destroy(handle);
}

static void test_compile_only(void **state) {
  (void)state;
  attnpress_handle *handle;
  attnpress_options options = handle_options();
  const attnpress_forward_args args = legal_args();
  attnpress_info info = ATTNPRESS_INFO_INIT;
  setenv("ATTNPRESS_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
  options.backend = ATTNPRESS_COMPILE_ONLY;
  assert_ok(attnpress_create(&handle, &options));
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_error_says("ATTNPRESS_COMPILE_ONLY");
  assert_ok(attnpress_compile(handle, "flash_fwd_hdim72_bf16_causal_sm86", NULL, &info));
  assert_string_equal(info.target, "sm_86"); /* the stem's own */
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_JIT);
  assert_true(info.compile_ms > 0);
  assert_true(info.cubin_bytes > 0);
  assert_string_equal(info.stem, "flash_fwd_hdim72_bf16_causal_sm86");
  assert_ok(attnpress_compile(handle, "flash_fwd_hdim72_bf16_causal_sm86", "sm_86", &info));
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_DISK);
  assert_true(info.compile_ms == 0);
  assert_int_equal(compiles(), 1);
  attnpress_destroy(handle);
  cuda = use_fake_cuda();
}

static void test_compile_arguments(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  static const struct {
    const char *stem, *target;
    attnpress_status status;
    const char *says;
  } rows[] = {
      {"flash_fwd_hdim12_bf16_sm80", NULL, ATTNPRESS_INVALID_ARGUMENT, "head dim 12"},
      {"nonsense", NULL, ATTNPRESS_INVALID_ARGUMENT, "\"nonsense\" is not the name"},
      {NULL, NULL, ATTNPRESS_INVALID_ARGUMENT, "stem is NULL"},
      {"flash_fwd_hdim72_bf16_sm80", "sm_75", ATTNPRESS_INVALID_ARGUMENT, "\"sm_75\" is unknown"},
      {"flash_fwd_hdim72_bf16_sm80", "", ATTNPRESS_INVALID_ARGUMENT, "\"\" is unknown"},
      {"flash_fwd_hdim72_bf16_sm80", "sm_90 --maxrregcount", ATTNPRESS_INVALID_ARGUMENT, "unknown"},
      {"flash_fwd_hdim72_bf16_sm86", "sm_80", ATTNPRESS_INVALID_ARGUMENT, "older than its arch"},
      {"flash_fwd_hdim72_bf16_sm80", "sm_110", ATTNPRESS_NOT_SUPPORTED, "does not compile for"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    assert_int_equal(attnpress_compile(handle, rows[i].stem, rows[i].target, NULL), rows[i].status);
    assert_error_says(rows[i].says);
  }
  assert_int_equal(attnpress_compile(NULL, "flash_fwd_hdim72_bf16_sm80", NULL, NULL),
                   ATTNPRESS_INVALID_ARGUMENT);
  /* The present device's target, with a context and without. */
  attnpress_info info = ATTNPRESS_INFO_INIT;
  assert_ok(attnpress_compile(handle, "flash_fwd_hdim72_bf16_sm80", NULL, &info));
  assert_string_equal(info.target, "sm_90");
  CUcontext context = cuda->context_get();
  cuda->context_set(NULL);
  assert_ok(attnpress_compile(handle, "flash_fwd_hdim72_bf16_sm80", NULL, &info));
  assert_string_equal(info.target, "sm_90");
  assert_ok(attnpress_compile(handle, "flash_fwd_combine_hdim72_bf16_sm80", NULL, &info));
  assert_string_equal(info.target, "sm_90");
  cuda->capability = 86;
  assert_ok(attnpress_compile(handle, "flash_fwd_combine_hdim72_bf16_sm80", NULL, &info));
  assert_string_equal(info.target, "sm_86");
  /* An arch that the device does not run: the stem's own. */
  assert_ok(attnpress_compile(handle, "flash_fwd_hdim72_bf16_sm80", NULL, &info));
  assert_string_equal(info.target, "sm_80");
  cuda->context_set(context);
  attnpress_destroy(handle);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void test_launch(void **state) {
  (void)state;
  cuda->capability = 80;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  args.mask = ATTNPRESS_CAUSAL;
  CUstream stream = cuda->stream_new(cuda->context_get());
  assert_ok(attnpress_forward(handle, &args, stream));
  assert_int_equal(cuda->launches, 1);
  const fake_launch *launch = &cuda->launch[0];
  assert_string_equal(launch->symbol, "flash_fwd_hdim72_bf16_causal_sm80");
  assert_ptr_equal(launch->stream, stream);

  ap_variant variant;
  ap_tile tile;
  assert_ok(ap_variant_parse(launch->symbol, &variant));
  assert_ok(ap_find_tile(&variant, NULL, &tile));
  attnpress_fwd_args k;
  memcpy(&k, launch->args, sizeof k);
  assert_int_equal(launch->block, 32 * tile.field[AP_ATTENTION_TILE_WARPS_M] *
                                      tile.field[AP_ATTENTION_TILE_WARPS_N] *
                                      tile.field[AP_ATTENTION_TILE_WARPS_K]);
  assert_int_equal(tile.threads, launch->block);
  assert_int_equal(launch->smem_bytes, tile.smem_bytes);
  assert_int_equal(launch->overlaps, 0);
  assert_int_equal(k.row_blocks,
                   (SEQLEN_Q * k.heads_per_tile + tile.field[AP_ATTENTION_TILE_BLOCK_M] - 1) /
                       tile.field[AP_ATTENTION_TILE_BLOCK_M]);
  assert_int_equal(launch->grid, k.row_blocks * (HEADS_Q / k.heads_per_tile) * BATCH);
  assert_ptr_equal(k.q, args.q.data);
  assert_ptr_equal(k.k, args.k.data);
  assert_ptr_equal(k.v, args.v.data);
  assert_ptr_equal(k.out, args.out.data);
  assert_ptr_equal(k.lse, args.lse);
  assert_null(k.out_partial);
  assert_int_equal(k.q_batch_stride, SEQLEN_Q * HEADS_Q * HDIM);
  assert_int_equal(k.q_row_stride, HEADS_Q * HDIM);
  assert_int_equal(k.q_head_stride, HDIM);
  assert_int_equal(k.k_batch_stride, SEQLEN_K * HEADS_KV * HDIM); /* (batch, heads, seqlen, dim) */
  assert_int_equal(k.k_row_stride, HDIM);
  assert_int_equal(k.k_head_stride, SEQLEN_K * HDIM);
  assert_int_equal(k.v_row_stride, HEADS_KV * HDIM);
  assert_int_equal(k.out_row_stride, HEADS_Q * HDIM);
  assert_int_equal(k.lse_batch_stride, HEADS_Q * SEQLEN_Q);
  assert_int_equal(k.lse_head_stride, SEQLEN_Q);
  assert_int_equal(k.batch, BATCH);
  assert_int_equal(k.heads_q, HEADS_Q);
  assert_int_equal(k.heads_kv, HEADS_KV);
  assert_int_equal(k.seqlen_q, SEQLEN_Q);
  assert_int_equal(k.seqlen_k, SEQLEN_K);
  assert_int_equal(k.num_splits, 1);
  assert_int_equal(k.key_blocks_per_split, (SEQLEN_K + tile.field[AP_ATTENTION_TILE_BLOCK_N] - 1) /
                                               tile.field[AP_ATTENTION_TILE_BLOCK_N]);
  assert_true(fabsf(k.scale - 1.0f / sqrtf(HDIM)) < 1e-7f);
  assert_true(fabsf(k.scale_log2 - k.scale * 1.44269504f) < 1e-6f);

  args.scale = 0.25f;
  args.lse_stride[0] = 5000;
  args.lse_stride[1] = 200;
  assert_ok(attnpress_forward(handle, &args, stream));
  memcpy(&k, cuda->launch[1].args, sizeof k);
  assert_true(k.scale == 0.25f);
  assert_int_equal(k.lse_batch_stride, 5000);
  assert_int_equal(k.lse_head_stride, 200);
  assert_int_equal(cuda->loads, 1);
  assert_int_equal(compiles(), 1);
  assert_non_null(strstr(logged, "flash_fwd_hdim72_bf16_causal_sm80"));
  assert_non_null(strstr(logged, "sm_80: jit"));
  assert_int_equal(cuda->maps, 0);
  cuda->stream_free(stream);
  attnpress_destroy(handle);
  assert_int_equal(cuda->unloads, 1);
}

static void test_split_launch(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  size_t bytes = 0;
  args.num_splits = 3;
  assert_ok(workspace_bytes_of(handle, &args, &bytes));
  const size_t rows = BATCH * HEADS_Q * SEQLEN_Q, out_bytes = 3 * rows * HDIM * 4;
  assert_int_equal(bytes, (out_bytes + 255) / 256 * 256 + 3 * rows * 4);
  args.workspace = (void *)0x600000;
  args.workspace_bytes = bytes;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_split_hdim72_bf16_sm90");
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_combine_hdim72_bf16_sm80");
  assert_int_equal(cuda->launch[0].overlaps, 0); /* it does not wait itself */
  assert_int_equal(cuda->launch[1].overlaps, 1);
  attnpress_fwd_sm90_args hopper;
  attnpress_fwd_combine_args c;
  memcpy(&hopper, cuda->launch[0].args, sizeof hopper);
  const attnpress_fwd_args k = hopper.fwd;
  assert_int_equal(hopper.num_splits.value, 3);
  memcpy(&c, cuda->launch[1].args, sizeof c);
  assert_int_equal(k.num_splits, 3);
  assert_ptr_equal(k.out_partial, args.workspace);
  assert_ptr_equal(k.lse_partial, (char *)args.workspace + (out_bytes + 255) / 256 * 256);
  assert_ptr_equal(c.out_partial, k.out_partial);
  assert_ptr_equal(c.lse_partial, k.lse_partial);
  assert_ptr_equal(c.out, args.out.data);
  assert_ptr_equal(c.lse, args.lse);
  assert_int_equal(c.rows, rows);
  assert_int_equal(c.heads_q, HEADS_Q);
  assert_int_equal(c.seqlen_q, SEQLEN_Q);
  assert_int_equal(c.num_splits, 3);
  assert_int_equal(c.block_rows, 16);
  assert_int_equal(c.out_batch_stride, k.out_batch_stride);
  assert_int_equal(c.lse_head_stride, SEQLEN_Q);

  /* If the combine kernel cannot be had, nothing is launched, not the split kernel either. */
  cuda->reset();
  set_hdim(&args, 80);
  setenv("FAKE_NVRTC_MODE", "fail", 1);
  assert_ok(workspace_bytes_of(handle, &args, &args.workspace_bytes));
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_COMPILE_FAILED);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

static fake_map map_of(const attnpress_tensor_map *map) {
  fake_map m;
  memcpy(&m, map, sizeof m);
  return m;
}

static void check_map(const attnpress_tensor_map *map, const void *data, const uint64_t *extents,
                      const uint64_t *strides, const uint16_t *box) {
  enum { RANK = 4 };
  const fake_map m = map_of(map);
  assert_int_equal(m.address, (uintptr_t)data);
  assert_int_equal(m.data_type, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  assert_int_equal(m.rank, RANK);
  for (int i = 0; i < RANK; ++i) {
    assert_int_equal(m.extents[i], extents[i]);
    assert_int_equal(m.box[i], box[i]);
    if (i + 1 < RANK)
      assert_int_equal(m.strides_bytes[i], 2 * strides[i]);
  }
}

#define EXTENTS(...) ((const uint64_t[]){__VA_ARGS__})
#define BOX(...)     ((const uint16_t[]){__VA_ARGS__})

static void test_empty(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  args.q.shape[1] = args.out.shape[1] = 0;
  args.q.data = args.out.data = NULL;
  assert_ok(attnpress_forward(handle, &args, NULL));
  args = legal_args();
  args.q.shape[0] = args.k.shape[0] = args.v.shape[0] = args.out.shape[0] = 0;
  args.q.data = args.k.data = args.v.data = args.out.data = NULL;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 0);
  assert_int_equal(cuda->loads, 0);
  /* No keys: the kernel runs and writes zeros. */
  args = legal_args();
  args.k.shape[1] = args.v.shape[1] = 0;
  args.k.data = args.v.data = NULL;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  assert_int_equal(cuda->maps, 3);
  /* The maps of K and V are only prefetched: they describe memory that is there. */
  attnpress_fwd_sm90_args k;
  memcpy(&k, cuda->launch[0].args, sizeof k);
  check_map(&k.k, args.q.data, EXTENTS(HDIM, 1, 1, 1), EXTENTS(HDIM, HDIM, HDIM),
            BOX(64, map_of(&k.k).box[1], 1, 1));
  check_map(&k.v, args.q.data, EXTENTS(HDIM, 1, 1, 1), EXTENTS(HDIM, HDIM, HDIM),
            BOX(64, map_of(&k.v).box[1], 1, 1));
  attnpress_destroy(handle);
}

/** Thread blocks of a kernel that decodes have an SM each where they are no more than SMs: of two an SM
 * would have room. */
static void test_alone(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  static const int batches[] = {2, 44, 45}; /* of 3 thread blocks, on 132 SMs */
  for (int i = 0; i < 3; ++i) {
    attnpress_forward_args args = legal_args();
    args.q.shape[1] = args.out.shape[1] = 1;
    args.q.shape[0] = args.k.shape[0] = args.v.shape[0] = args.out.shape[0] = batches[i];
    assert_ok(attnpress_forward(handle, &args, NULL));
    assert_int_equal(cuda->launches, i + 1);
    const fake_launch *launch = &cuda->launch[i];
    assert_non_null(strstr(launch->symbol, "_decode_"));
    assert_int_equal(launch->grid, 3 * batches[i]);
    const int an_sm_holds = 228 * 1024 / ((int)launch->smem_bytes + 1024);
    assert_int_equal(an_sm_holds, launch->grid <= 132 ? 1 : 2);
  }
  attnpress_destroy(handle);
}

/** Strides that are only allowed because the extent is 1, and broadcast inputs. */
static void test_odd_strides(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  args.q.shape[0] = args.k.shape[0] = args.v.shape[0] = args.out.shape[0] = 1;
  args.q.stride[0] = -7;
  args.out.stride[0] = 3;
  args.k.stride[0] = 0;
  args.v.stride[0] = INT64_C(1) << 60;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_hdim72_bf16_sm90");
  args.k.stride[2] = 0; /* every key head the same */
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[1].symbol, "flash_fwd_hdim72_bf16_sm90");
  assert_int_equal(cuda->maps, 3 + 3);
  attnpress_destroy(handle);
}

static void test_hopper_launch(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  args.mask = ATTNPRESS_CAUSAL;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  assert_int_equal(cuda->maps, 3);
  const fake_launch *launch = &cuda->launch[0];
  assert_string_equal(launch->symbol, "flash_fwd_hdim72_bf16_causal_sm90");
  assert_non_null(strstr(logged, "sm_90a: jit"));

  ap_variant variant;
  ap_tile tile;
  assert_ok(ap_variant_parse(launch->symbol, &variant));
  assert_ok(ap_find_tile(&variant, "sm_90a", &tile));
  assert_int_equal(launch->block, 128 * (1 + tile.field[AP_ATTENTION_TILE_BLOCK_M] / 64));
  assert_int_equal(launch->smem_bytes, tile.smem_bytes);
  assert_int_equal(launch->grid, BATCH * HEADS_Q); /* 100 rows: one block a head */
  attnpress_fwd_sm90_args k;
  memcpy(&k, launch->args, sizeof k);
  check_map(&k.q, args.q.data, EXTENTS(HDIM, HEADS_Q, SEQLEN_Q, BATCH),
            EXTENTS(HDIM, HEADS_Q * HDIM, SEQLEN_Q * HEADS_Q * HDIM), BOX(64, 1, 64, 1));
  check_map(&k.k, args.k.data, EXTENTS(HDIM, SEQLEN_K, HEADS_KV, BATCH),
            EXTENTS(HDIM, SEQLEN_K * HDIM, SEQLEN_K * HEADS_KV * HDIM),
            BOX(64, (uint16_t)tile.field[AP_ATTENTION_TILE_BLOCK_N], 1, 1));
  check_map(&k.v, args.v.data, EXTENTS(HDIM, SEQLEN_K, HEADS_KV, BATCH),
            EXTENTS(HEADS_KV * HDIM, HDIM, SEQLEN_K * HEADS_KV * HDIM),
            BOX(64, (uint16_t)tile.field[AP_ATTENTION_TILE_BLOCK_N], 1, 1));
  assert_ptr_equal(k.fwd.out, args.out.data);
  assert_ptr_equal(k.fwd.lse, args.lse);
  assert_int_equal(k.fwd.out_row_stride, HEADS_Q * HDIM);
  assert_int_equal(k.fwd.row_blocks, 1);
  assert_int_equal(k.fwd.heads_per_tile, 1);
  assert_int_equal(k.fwd.seqlen_k, SEQLEN_K);
  assert_int_equal(k.heads, BATCH * HEADS_Q);
  assert_int_equal(k.section_heads.value, HEADS_Q / HEADS_KV);
  assert_int_equal(k.section_units.value, HEADS_Q / HEADS_KV);
  assert_int_equal(k.group_units, BATCH * HEADS_Q);
  assert_int_equal(k.group_rounds.value, 1);
  assert_int_equal(k.rounds, 1);
  assert_int_equal(k.num_splits.value, 1);
  assert_int_equal(k.tile_heads.value, HEADS_Q);
  assert_int_equal(k.heads_per_tile.value, 1);
  assert_int_equal(k.warpgroup_positions, 64);
  attnpress_destroy(handle);
}

/** A box has all heads that share a tile, for each of its rows. */
static void test_packed_launch(void **state) {
  (void)state;
  enum { HEADS = 28, GROUP = 7, ROWS = 9, DIM_V = 128, DIM = 192 };
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  args.q = attnpress_tensor_bhsd((void *)0x10000, 1, ROWS, HEADS, DIM, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd((void *)0x20000, 1, SEQLEN_K, 4, DIM, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd((void *)0x30000, 1, SEQLEN_K, 4, DIM_V, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd((void *)0x40000, 1, ROWS, HEADS, DIM_V, ATTNPRESS_BF16);
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_hdim192v128_bf16_sm90");
  assert_int_equal(cuda->launch[0].grid, HEADS / GROUP);
  attnpress_fwd_sm90_args k;
  memcpy(&k, cuda->launch[0].args, sizeof k);
  check_map(&k.q, args.q.data, EXTENTS(DIM, HEADS, ROWS, 1), EXTENTS(ROWS * DIM, DIM, DIM),
            BOX(64, GROUP, 64 / GROUP, 1));
  assert_int_equal(map_of(&k.v).extents[0], DIM_V);
  assert_int_equal(k.fwd.heads_per_tile, GROUP);
  assert_int_equal(k.heads_per_tile.value, GROUP);
  assert_int_equal(k.warpgroup_positions, 64 / GROUP);
  assert_int_equal(k.tile_heads.value, HEADS / GROUP);
  attnpress_destroy(handle);
}

/** Of more heads than a warpgroup has rows some share a tile; the last tile has fewer. */
static void test_parts_launch(void **state) {
  (void)state;
  enum { HEADS = 71, ROWS = 100, PART = 8, PARTS = 9 };
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  args.q = attnpress_tensor_bshd((void *)0x10000, 2, ROWS, HEADS, HDIM, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd((void *)0x20000, 2, SEQLEN_K, 1, HDIM, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd((void *)0x30000, 2, SEQLEN_K, 1, HDIM, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd((void *)0x40000, 2, ROWS, HEADS, HDIM, ATTNPRESS_BF16);
  args.num_splits = 1;
  assert_ok(attnpress_forward(handle, &args, NULL));
  attnpress_fwd_sm90_args k;
  memcpy(&k, cuda->launch[0].args, sizeof k);
  check_map(&k.q, args.q.data, EXTENTS(HDIM, HEADS, ROWS, 2),
            EXTENTS(HDIM, HEADS * HDIM, ROWS * HEADS * HDIM), BOX(64, PART, 64 / PART, 1));
  assert_int_equal(k.fwd.heads_q, HEADS);
  assert_int_equal(k.fwd.heads_per_tile, PART);
  assert_int_equal(k.heads_per_tile.value, PART);
  assert_int_equal(k.warpgroup_positions, 64 / PART);
  assert_int_equal(k.tile_heads.value, PARTS);
  assert_int_equal(k.heads, 2 * PARTS);
  attnpress_destroy(handle);
}

/** Many heads of one query become the queries of their key head: in the map of Q, in the strides of
 * the output, of lse and of the parts of splits. */
static void test_many_heads_launch(void **state) {
  (void)state;
  enum { HEADS = 142, GROUP = 71, KEYS = 30000, BATCHES = 3, ROW = HEADS * HDIM };
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  args.q = attnpress_tensor_bshd((void *)0x10000, BATCHES, 1, HEADS, HDIM, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd((void *)0x20000, BATCHES, KEYS, 2, HDIM, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd((void *)0x30000, BATCHES, KEYS, 2, HDIM, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd((void *)0x40000, BATCHES, 1, HEADS, HDIM, ATTNPRESS_BF16);
  args.mask = ATTNPRESS_CAUSAL;
  args.num_splits = 2;
  args.workspace = (void *)0x1000000;
  args.workspace_bytes = 1 << 30;
  args.lse_stride[0] = 200;
  args.lse_stride[1] = 1;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_split_hdim72_bf16_sm90");
  attnpress_fwd_sm90_args k;
  memcpy(&k, cuda->launch[0].args, sizeof k);
  check_map(&k.q, args.q.data, EXTENTS(HDIM, 2, GROUP, BATCHES), EXTENTS(GROUP * HDIM, HDIM, ROW),
            BOX(64, 1, 64, 1));
  assert_int_equal(k.fwd.seqlen_q, GROUP);
  assert_int_equal(k.fwd.heads_q, 2);
  assert_int_equal(k.fwd.heads_per_tile, 1);
  attnpress_fwd_combine_args c;
  memcpy(&c, cuda->launch[1].args, sizeof c);
  assert_int_equal(c.rows, BATCHES * HEADS);
  assert_int_equal(c.seqlen_q, GROUP);
  assert_int_equal(c.heads_q, 2);
  assert_int_equal(c.out_batch_stride, ROW);
  assert_int_equal(c.out_row_stride, HDIM);
  assert_int_equal(c.out_head_stride, GROUP * HDIM);
  assert_int_equal(c.lse_batch_stride, 200);
  assert_int_equal(c.lse_head_stride, GROUP);
  /* A plan of one call serves those that run the same kernels, a plan of a range all. */
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *one, *range, *other;
  attnpress_sinks sinks = ATTNPRESS_SINKS_INIT;
  sinks.data = (void *)0x70000;
  sinks.dtype = ATTNPRESS_FP32;
  attnpress_forward_args apart = args;
  apart.lse_stride[0] = 2 * HEADS;
  apart.lse_stride[1] = 2;
  attnpress_forward_args with_sinks = args;
  with_sinks.sinks = &sinks;
  attnpress_forward_args small = args;
  small.k.shape[1] = small.v.shape[1] = 500;
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &one));
  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_forward(handle, &args, &options, &range));
  const attnpress_forward_args *calls[] = {&args, &apart, &with_sinks, &small};
  static const char *const symbols[] = {
      "flash_fwd_split_hdim72_bf16_sm90", "flash_fwd_split_hdim72_bf16_sm80",
      "flash_fwd_split_hdim72_bf16_sm80", "flash_fwd_split_hdim72_bf16_decode_sm80"};
  for (int i = 0; i < 4; ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    assert_ok(describe(handle, calls[i], &info));
    assert_string_equal(info.stem, symbols[i]);
    assert_ok(attnpress_plan_forward(handle, calls[i], NULL, &other));
    assert_prepared(range, other);
    attnpress_plan_destroy(other);
    assert_ok(attnpress_plan_run(range, calls[i], NULL));
  }
  assert_int_equal(attnpress_plan_run(one, &apart, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("side by side in lse");
  attnpress_plan_destroy(one);
  attnpress_plan_destroy(range);
  attnpress_destroy(handle);
}

/** The copy engine is told of a bias of 16 bits where it can bring it; consumers load any other. */
static void test_bias_map(void **state) {
  (void)state;
  enum { ROW = (SEQLEN_K + 7) / 8 * 8 };
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  attnpress_bias bias = ATTNPRESS_BIAS_INIT;
  bias.data = (void *)0x60000;
  bias.dtype = ATTNPRESS_BF16;
  const int64_t shape[4] = {1, HEADS_Q, SEQLEN_Q, SEQLEN_K};
  const int64_t stride[4] = {3, SEQLEN_Q * ROW, ROW, 1};
  memcpy(bias.shape, shape, sizeof shape);
  memcpy(bias.stride, stride, sizeof stride);
  args.bias = &bias;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_hdim72_bf16_biasbf16_sm90");
  assert_int_equal(cuda->maps, 4);
  attnpress_fwd_sm90_bias_args k;
  memcpy(&k, cuda->launch[0].args, sizeof k);
  const uint16_t block_m = map_of(&k.bias).box[1];
  assert_int_equal(k.sm90.fwd.score.bias_alignment, 2);
  assert_int_equal(block_m % 64, 0);
  check_map(&k.bias, bias.data, EXTENTS(SEQLEN_K, SEQLEN_Q, HEADS_Q, BATCH),
            EXTENTS(ROW, SEQLEN_Q * ROW, 0), BOX(64, block_m, 1, 1));

  bias.stride[2] = 0; /* every query the same */
  assert_ok(attnpress_forward(handle, &args, NULL));
  memcpy(&k, cuda->launch[1].args, sizeof k);
  assert_int_equal(k.sm90.fwd.score.bias_alignment, 2);
  assert_int_equal(map_of(&k.bias).strides_bytes[0], 0);
  assert_int_equal(cuda->maps, 4 + 4);

  static const struct {
    int64_t address, row, head, key;
    int alignment;
  } others[] = {
      {0x60004, ROW, SEQLEN_Q * ROW, 1, 1},     {0x60002, ROW, SEQLEN_Q * ROW, 1, 0},
      {0x60000, ROW + 2, SEQLEN_Q * ROW, 1, 1}, {0x60000, 2 * ROW, 2 * SEQLEN_Q * ROW, 2, 0},
      {0x60000, ROW, INT64_C(1) << 40, 1, 1}, /* too far apart for a map */
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    bias.data = (void *)(uintptr_t)others[i].address;
    bias.stride[1] = others[i].head;
    bias.stride[2] = others[i].row;
    bias.stride[3] = others[i].key;
    assert_ok(attnpress_forward(handle, &args, NULL));
    memcpy(&k, cuda->launch[2 + i].args, sizeof k);
    assert_int_equal(k.sm90.fwd.score.bias_alignment, others[i].alignment);
    assert_int_equal(cuda->maps, 4 + 4 + 3 * ((int)i + 1)); /* those of q, k and v alone */
    assert_int_equal(map_of(&k.bias).rank, 0);
  }
  attnpress_destroy(handle);
}

/** What cannot be described runs the sm80 kernel, and describe says so. */
static void test_no_maps(void **state) {
  (void)state;
  enum { FAR_Q = 0, FAR_K, FAR_V, CASES };
  attnpress_handle *handle = make_handle();
  for (int i = 0; i < CASES; ++i) {
    attnpress_forward_args args = legal_args();
    attnpress_info info = ATTNPRESS_INFO_INIT;
    const int64_t far_stride = INT64_C(1) << 39; /* 2^40 bytes */
    if (i == FAR_Q)
      args.q.stride[0] = far_stride;
    if (i == FAR_K)
      args.k.stride[1] = far_stride;
    if (i == FAR_V)
      args.v.stride[0] = far_stride;
    assert_ok(describe(handle, &args, &info));
    assert_string_equal(info.stem, "flash_fwd_hdim72_bf16_sm80");
    assert_string_equal(info.target, "sm_90");
    assert_ok(attnpress_forward(handle, &args, NULL));
    assert_string_equal(cuda->launch[i].symbol, info.stem);
  }
  attnpress_forward_args args = legal_args();
  args.q.stride[0] = (INT64_C(1) << 39) - 8;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[CASES].symbol, "flash_fwd_hdim72_bf16_sm90");
  assert_int_equal(cuda->maps, 3);
  attnpress_destroy(handle);

  /* A driver without the function. */
  cuda->reset();
  handle = make_handle();
  handle->driver.tensor_map_encode_tiled = NULL;
  args = legal_args();
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_hdim72_bf16_sm80");
  attnpress_destroy(handle);

  /* Not wanted. */
  cuda->reset();
  attnpress_options options = handle_options();
  options.arch_max = 80;
  assert_ok(attnpress_create(&handle, &options));
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_string_equal(cuda->launch[0].symbol, "flash_fwd_hdim72_bf16_sm80");
  attnpress_destroy(handle);
  cuda->reset();

  /* One that refuses all the same. */
  handle = make_handle();
  cuda->fail_map = CUDA_ERROR_INVALID_VALUE;
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_DRIVER_ERROR);
  assert_error_says("cuTensorMapEncodeTiled of q");
  assert_int_equal(cuda->launches, 0);
  assert_ok(attnpress_forward(handle, &args, NULL));
  attnpress_destroy(handle);
}

static void test_launch_failure(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  cuda->fail_launch = 700;
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_DRIVER_ERROR);
  assert_error_says("launching flash_fwd_hdim72_bf16_sm90");
  assert_error_says("700");
  assert_ok(attnpress_forward(handle, &args, NULL));
  attnpress_destroy(handle);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static void test_contexts(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  CUcontext first = cuda->context_get(), second = cuda->context_new(0);
  CUstream first_stream = cuda->stream_new(first), second_stream = cuda->stream_new(second);
  assert_ok(attnpress_forward(handle, &args, first_stream));
  assert_ok(attnpress_forward(handle, &args, second_stream)); /* `first` is current */
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_ptr_equal(cuda->launch[0].context, first);
  assert_ptr_equal(cuda->launch[1].context, second);
  assert_ptr_equal(cuda->launch[2].context, first);
  assert_ptr_equal(cuda->context_get(), first);
  assert_int_equal(cuda->loads, 1); /* a cubin is loaded once, a function made in each context */
  assert_int_equal(cuda->functions, 2);

  /* A context at the address of one that is gone is another one. */
  cuda->context_free(second);
  CUcontext third = cuda->context_new(0);
  assert_ptr_equal(third, second);
  CUstream third_stream = cuda->stream_new(third);
  assert_ok(attnpress_forward(handle, &args, third_stream));
  assert_int_equal(cuda->functions, 3);
  cuda->stream_free(first_stream);
  cuda->stream_free(second_stream);
  cuda->stream_free(third_stream);
  cuda->context_free(third);
  attnpress_destroy(handle);
}

/** More kernels than the first table of a context holds. */
static void test_many_kernels(void **state) {
  (void)state;
  attnpress_handle *handle;
  attnpress_options options = handle_options();
  options.cache_off = 1;
  assert_ok(attnpress_create(&handle, &options));
  for (int pass = 0; pass < 2; ++pass)
    for (int hdim = 8; hdim <= 512; hdim += 8)
      for (int mask = 0; mask < 2; ++mask) {
        attnpress_forward_args args = legal_args();
        set_hdim(&args, hdim);
        args.mask = mask;
        assert_ok(attnpress_forward(handle, &args, NULL));
      }
  assert_int_equal(cuda->launches, 256);
  assert_int_equal(cuda->loads, 128);
  assert_int_equal(cuda->functions, 128);
  attnpress_destroy(handle);
  assert_int_equal(cuda->unloads, 128);
}

/* ---- Capture and prepare --------------------------------------------------------------------- */

static void test_capture(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  CUstream stream = cuda->stream_new(cuda->context_get());
  cuda->stream_capture(stream, 1);
  assert_int_equal(attnpress_forward(handle, &args, stream), ATTNPRESS_CAPTURING);
  assert_error_says("attnpress_plan_prepare");
  assert_int_equal(cuda->launches, 0);
  assert_int_equal(cuda->loads, 0);
  assert_int_equal(compiles(), 0);
  cuda->stream_capture(stream, 0);

  assert_ok(prepare_any(handle, &args));
  assert_int_equal(cuda->launches, 0);
  const int loads = cuda->loads;
  cuda->stream_capture(stream, 1);
  for (int seqlen_q = 1; seqlen_q < 400; seqlen_q += 3) {
    args = legal_args();
    args.q = attnpress_tensor_bshd((void *)0x10000, BATCH, seqlen_q, HEADS_Q, HDIM, ATTNPRESS_BF16);
    args.out = args.q;
    assert_ok(attnpress_forward(handle, &args, stream));
  }
  assert_int_equal(cuda->loads, loads);
  /* What was not prepared is still refused. */
  args.mask = ATTNPRESS_CAUSAL;
  assert_int_equal(attnpress_forward(handle, &args, stream), ATTNPRESS_CAPTURING);
  cuda->stream_capture(stream, 0);

  /* The default stream, while another one that it waits for is being captured. */
  cuda->stream_capturing = 1;
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_CAPTURING);
  cuda->stream_capturing = 0;
  cuda->stream_free(stream);
  attnpress_destroy(handle);
}

/** Another stream's capture, in global mode, does not keep this one from loading. */
static void test_foreign_capture(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  CUstream captured = cuda->stream_new(cuda->context_get());
  CUstream stream = cuda->stream_new(cuda->context_get());
  cuda->stream_capture(captured, 1);
  assert_ok(attnpress_forward(handle, &args, stream));
  cuda->stream_capture(captured, 0);
  cuda->stream_free(captured);
  cuda->stream_free(stream);
  attnpress_destroy(handle);
}

static void test_prepare(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  attnpress_tensor *const tensors[] = {&args.q, &args.k, &args.v, &args.out};
  for (int i = 0; i < 4; ++i)
    tensors[i]->data = NULL; /* data is ignored */
  args.lse = NULL;
  args.mask = ATTNPRESS_CAUSAL;
  args.num_splits = 0;
  assert_ok(prepare_any(handle, &args));
  static const char *const stems[] = {
      "flash_fwd_hdim72_bf16_causal_sm90",        "flash_fwd_split_hdim72_bf16_causal_sm90",
      "flash_fwd_hdim72_bf16_causal_decode_sm80", "flash_fwd_split_hdim72_bf16_causal_decode_sm80",
      "flash_fwd_hdim72_bf16_decode_sm80",        "flash_fwd_split_hdim72_bf16_decode_sm80",
      "flash_fwd_combine_hdim72_bf16_sm80",       "flash_fwd_hdim72_bf16_causal_sm80"};
  for (size_t i = 0; i < sizeof stems / sizeof *stems; ++i)
    if (strstr(logged, stems[i]) == NULL)
      fail_msg("%s was not prepared", stems[i]);
  assert_int_equal(compiles(), sizeof stems / sizeof *stems);
  assert_ok(prepare_any(handle, &args));
  assert_int_equal(compiles(), sizeof stems / sizeof *stems);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/** Strides are part of the call: where no batch or length makes tensor maps of them, only sm80
 * kernels are loaded; where some do and some do not, both are. */
static void test_prepare_strides(void **state) {
  (void)state;
  static const struct {
    const char *what;
    int batch, tensor, dimension; /* tensor: 0 q, 1 k, 2 v; whose stride is too far */
    int want_sm90, want_sm80;
  } rows[] = {
      {"batches of keys", 2, 1, 0, 1, 1},         /* sm90 where the batch is 1 */
      {"the same, and one batch", 1, 1, 0, 1, 1}, /* sm80 where it is more */
      {"queries", 2, 0, 1, 1, 1},
      {"key heads", 2, 1, 2, 0, 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_handle *handle = make_handle();
    attnpress_forward_args args = legal_args();
    attnpress_tensor *const tensors[] = {&args.q, &args.k, &args.v, &args.out};
    for (int t = 0; t < 4; ++t)
      tensors[t]->shape[0] = rows[i].batch;
    tensors[rows[i].tensor]->stride[rows[i].dimension] = INT64_C(1) << 39;
    logged[0] = '\0';
    assert_ok(prepare_any(handle, &args));
    const int sm90 = strstr(logged, "flash_fwd_hdim72_bf16_sm90") != NULL;
    const int sm80 = strstr(logged, "flash_fwd_hdim72_bf16_sm80") != NULL;
    if (sm90 != rows[i].want_sm90 || sm80 != rows[i].want_sm80)
      fail_msg("%s: sm90 %d, sm80 %d", rows[i].what, sm90, sm80);
    const int loads = cuda->loads;
    assert_ok(attnpress_forward(handle, &args, NULL));
    assert_int_equal(cuda->loads, loads);
    attnpress_destroy(handle);
  }
}

/* ---- Describe -------------------------------------------------------------------------------- */

static void test_describe(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  attnpress_info info = ATTNPRESS_INFO_INIT;
  args.num_splits = 2;
  assert_ok(describe(handle, &args, &info));
  assert_string_equal(info.stem, "flash_fwd_split_hdim72_bf16_sm90");
  assert_string_equal(info.target, "sm_90a");
  assert_true(strlen(info.tile) > 0);
  assert_true(info.smem_bytes > 0);
  assert_int_equal(info.num_splits, 2);
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_JIT);
  assert_int_equal(info.cubin_bytes, 0);
  assert_int_equal(compiles(), 0);
  assert_int_equal(cuda->loads, 0);

  assert_ok(prepare_any(handle, &args));
  assert_ok(describe(handle, &args, &info));
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_MEMORY);
  assert_true(info.cubin_bytes > 0);
  assert_true(info.compile_ms > 0);
  attnpress_destroy(handle);

  handle = make_handle();
  assert_ok(describe(handle, &args, &info));
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_DISK);
  assert_true(info.cubin_bytes > 0);
  assert_true(info.grid > 0);
  assert_ok(describe_launch(handle, &args, 1, &info));
  assert_string_equal(info.stem, "flash_fwd_combine_hdim72_bf16_sm80");
  assert_string_equal(info.target, "sm_90");
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_DISK);
  assert_int_equal(describe_launch(handle, &args, 2, &info), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("index is 2; the plan has 2 launches");
  args.num_splits = 1;
  assert_ok(describe_launch(handle, &args, 0, &info));
  assert_int_equal(describe_launch(handle, &args, 1, &info), ATTNPRESS_INVALID_ARGUMENT);
  attnpress_destroy(handle);
}

/* ---- The driver refuses, the compiler fails -------------------------------------------------- */

/** An entry that the driver refuses is compiled again, once, and replaced. */
static void test_refused_entry(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 1);
  attnpress_destroy(handle);

  handle = make_handle();
  cuda->refuse_loads = 1;
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 2);
  assert_non_null(strstr(logged, "looking further"));
  assert_int_equal(count_files(cache_dir, ".entry"), 1);
  attnpress_destroy(handle);

  /* It is removed even where nothing can take its place. */
  attnpress_options options = handle_options();
  options.jit_off = 1;
  assert_ok(attnpress_create(&handle, &options));
  cuda->refuse_loads = 1;
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_NO_KERNEL);
  assert_int_equal(count_files(cache_dir, ".entry"), 0);
  attnpress_destroy(handle);

  handle = make_handle();
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 3);
  attnpress_destroy(handle);
  handle = make_handle();
  cuda->refuse_loads = 2; /* what was compiled is refused too */
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_DRIVER_ERROR);
  assert_error_says("CUDA_ERROR_NO_BINARY_FOR_GPU");
  assert_int_equal(compiles(), 4);
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_DRIVER_ERROR);
  assert_int_equal(compiles(), 4); /* remembered */
  attnpress_destroy(handle);
}

/** A failure that is the machine's and not the cubin's is not remembered, and costs no entry. */
static void test_passing_failure(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  cuda->fail_load = CUDA_ERROR_OUT_OF_MEMORY;
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_DRIVER_ERROR);
  assert_int_equal(count_files(cache_dir, ".entry"), 1);
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(compiles(), 1);
  attnpress_destroy(handle);
}

static void test_failed_compile(void **state) {
  (void)state;
  static const char *const modes[] = {"fail", "empty", "garbage"};
  static const char *const says[] = {"x.cu(9): error: identifier \"foo\" is undefined", "0 bytes",
                                     "something else than a cubin"};
  for (int i = 0; i < 3; ++i) {
    attnpress_handle *handle = make_handle();
    const attnpress_forward_args args = legal_args();
    unlink(count_file);
    setenv("FAKE_NVRTC_MODE", modes[i], 1);
    for (int again = 0; again < 3; ++again) {
      assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_COMPILE_FAILED);
      assert_error_says(says[i]);
      assert_error_says("flash_fwd_hdim72_bf16_sm90");
    }
    assert_int_equal(compiles(), 1); /* remembered */
    assert_int_equal(count_files(cache_dir, ".entry"), 0);
    unsetenv("FAKE_NVRTC_MODE");
    assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_COMPILE_FAILED);
    attnpress_destroy(handle);
  }
  assert_non_null(strstr(logged, "1 error detected")); /* the whole log is heard */
  assert_int_equal(cuda->launches, 0);
}

static void test_warnings_are_heard(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  setenv("FAKE_NVRTC_MODE", "warn", 1);
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_non_null(strstr(logged, "warning: NVRTC 13.0 on flash_fwd_hdim72_bf16_sm90"));
  attnpress_destroy(handle);
}

/* ---- Cache trouble --------------------------------------------------------------------------- */

/** A directory that must not be trusted fails the call; one that cannot be written costs speed. */
static void test_cache_trouble(void **state) {
  (void)state;
  const attnpress_forward_args args = legal_args();
  attnpress_options options = handle_options();
  attnpress_handle *handle;
  mkdir(cache_dir, 0775);
  chmod(cache_dir, 0775);
  assert_ok(attnpress_create(&handle, &options));
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_IO_ERROR);
  assert_error_says("can be written by others (mode 0775)");
  assert_error_says(cache_dir);
  assert_int_equal(attnpress_compile(handle, "flash_fwd_hdim72_bf16_sm80", NULL, NULL),
                   ATTNPRESS_IO_ERROR);
  assert_int_equal(cuda->launches, 0);
  assert_int_equal(count_files(cache_dir, ""), 0);
  chmod(cache_dir, 0700); /* the remedy, and the same handle goes on */
  assert_ok(attnpress_forward(handle, &args, NULL));
  attnpress_destroy(handle);

  assert_int_equal(symlink(cache_dir, in(folder, "link")), 0);
  options.cache_dir = in(folder, "link");
  assert_ok(attnpress_create(&handle, &options));
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_IO_ERROR);
  assert_error_says("is a symbolic link");
  attnpress_destroy(handle);
  unlink(in(folder, "link"));

  /* Missing, and cannot be made. */
  cuda->reset();
  options.cache_dir = "/proc/attnpress/cache";
  assert_ok(attnpress_create(&handle, &options));
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  assert_non_null(strstr(logged, "warning: not cached: cache directory /proc/attnpress/cache"));
  assert_int_equal(attnpress_compile(handle, "flash_fwd_hdim72_bf16_sm80", NULL, NULL),
                   ATTNPRESS_IO_ERROR);
  attnpress_destroy(handle);

  /* Switched off. */
  remove_tree(cache_dir);
  options = handle_options();
  options.cache_off = 1;
  assert_ok(attnpress_create(&handle, &options));
  assert_ok(attnpress_forward(handle, &args, NULL));
  assert_ok(attnpress_compile(handle, "flash_fwd_hdim72_bf16_sm80", NULL, NULL));
  assert_int_equal(access(cache_dir, F_OK), -1);
  attnpress_destroy(handle);
}

/* ---- Threads --------------------------------------------------------------------------------- */

enum { THREADS = 16 };

typedef struct racer {
  attnpress_handle *handle;
  CUcontext context;
  int hdim, calls;
  attnpress_status status;
  char sentence[256];
} racer;

static void *race(void *argument) {
  racer *r = argument;
  cuda->context_set(r->context);
  r->status = ATTNPRESS_OK;
  for (int i = 0; i < r->calls && r->status == ATTNPRESS_OK; ++i) {
    attnpress_forward_args args = legal_args();
    set_hdim(&args, r->hdim + 8 * (i % 4));
    r->status = attnpress_forward(r->handle, &args, NULL);
  }
  snprintf(r->sentence, sizeof r->sentence, "%s", attnpress_last_error());
  return NULL;
}

static void run_race(attnpress_handle *handle, int calls, racer racers[THREADS]) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) {
    racers[i] =
        /* 200, 208, 216 and 224 are not linked in. */
        (racer){.handle = handle, .context = cuda->context_get(), .hdim = 200, .calls = calls};
    assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i)
    pthread_join(threads[i], NULL);
}

static void test_one_compile_for_all(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  racer racers[THREADS];
  setenv("FAKE_NVRTC_MS", "50", 1);
  run_race(handle, 1, racers);
  for (int i = 0; i < THREADS; ++i)
    assert_int_equal(racers[i].status, ATTNPRESS_OK);
  assert_int_equal(compiles(), 1);
  assert_int_equal(cuda->loads, 1);
  assert_int_equal(cuda->functions, 1);
  assert_int_equal(cuda->launches, THREADS);
  unsetenv("FAKE_NVRTC_MS");
  run_race(handle, 400, racers);
  for (int i = 0; i < THREADS; ++i)
    assert_int_equal(racers[i].status, ATTNPRESS_OK);
  assert_int_equal(compiles(), 4);
  assert_int_equal(cuda->launches, THREADS + THREADS * 400);
  attnpress_destroy(handle);
}

static void test_one_failure_for_all(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  racer racers[THREADS];
  setenv("FAKE_NVRTC_MODE", "fail", 1);
  setenv("FAKE_NVRTC_MS", "50", 1);
  run_race(handle, 1, racers);
  for (int i = 0; i < THREADS; ++i) {
    assert_int_equal(racers[i].status, ATTNPRESS_COMPILE_FAILED);
    assert_non_null(strstr(racers[i].sentence, "is undefined"));
  }
  assert_int_equal(compiles(), 1);
  attnpress_destroy(handle);
}

static void *call_while_compiling(void *argument) {
  racer *r = argument;
  cuda->context_set(r->context);
  attnpress_forward_args args = legal_args();
  set_hdim(&args, 80);
  r->status = attnpress_forward(r->handle, &args, NULL);
  return NULL;
}

/** A compile that takes long does not hold up calls whose kernels are there. */
static void test_warm_calls_do_not_wait(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  assert_ok(attnpress_forward(handle, &args, NULL));
  setenv("FAKE_NVRTC_MS", "1500", 1);
  racer slow = {.handle = handle, .context = cuda->context_get()};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, call_while_compiling, &slow), 0);
  while (compiles() < 2)
    usleep(1000);
  for (int i = 0; i < 1000; ++i)
    assert_ok(attnpress_forward(handle, &args, NULL));
  assert_int_equal(cuda->loads, 1); /* the slow one is not done yet */
  pthread_join(thread, NULL);
  assert_int_equal(slow.status, ATTNPRESS_OK);
  attnpress_destroy(handle);
}

static void *fail_once(void *argument) {
  racer *r = argument;
  r->status = attnpress_create((attnpress_handle **)&r->handle, NULL) == ATTNPRESS_OK;
  if (r->handle != NULL)
    attnpress_destroy(r->handle);
  attnpress_forward(NULL, NULL, NULL);
  snprintf(r->sentence, sizeof r->sentence, "%s", attnpress_last_error());
  return NULL;
}

/** The sentence is the thread's own. */
static void test_errors_are_of_threads(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  racer other = {0};
  pthread_t thread;
  args.mask = 7;
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(pthread_create(&thread, NULL, fail_once, &other), 0);
  pthread_join(thread, NULL);
  assert_non_null(strstr(other.sentence, "handle is NULL"));
  assert_error_says("mask is 7");
  attnpress_destroy(handle);
}

/* ---- CPU ------------------------------------------------------------------------------------- */

static void test_cpu(void **state) {
  (void)state;
  enum { COUNT = 2 * 5 * 2 * 16 };
  static float q[COUNT] __attribute__((aligned(16))), k[COUNT] __attribute__((aligned(16))),
      v[COUNT] __attribute__((aligned(16))), out[COUNT] __attribute__((aligned(16)));
  for (int i = 0; i < COUNT; ++i) {
    q[i] = k[i] = 0.0f;
    v[i] = 3.0f;
    out[i] = NAN;
  }
  setenv("ATTNPRESS_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
  attnpress_handle *handle;
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  size_t bytes = 1;
  options.backend = ATTNPRESS_CPU;
  assert_ok(attnpress_create(&handle, &options));
  args.q = attnpress_tensor_bshd(q, 2, 5, 2, 16, ATTNPRESS_FP32);
  args.k = attnpress_tensor_bshd(k, 2, 5, 2, 16, ATTNPRESS_FP32);
  args.v = attnpress_tensor_bshd(v, 2, 5, 2, 16, ATTNPRESS_FP32);
  args.out = attnpress_tensor_bshd(out, 2, 5, 2, 16, ATTNPRESS_FP32);
  assert_ok(attnpress_forward(handle, &args, NULL));
  for (int i = 0; i < COUNT; ++i)
    assert_true(fabsf(out[i] - 3.0f) < 1e-5f);
  assert_ok(workspace_bytes_of(handle, &args, &bytes));
  assert_int_equal(bytes, 0);
  assert_ok(prepare_any(handle, &args));
  assert_ok(describe(handle, &args, &info));
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_CPU);
  assert_string_equal(info.target, "cpu");
  args.mask = 5;
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  attnpress_destroy(handle);
  cuda = use_fake_cuda();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_alone),
      TEST(test_bad_input),
      TEST(test_rows_overlap),
      TEST(test_bad_input_without_data),
      TEST(test_larger_structs),
      TEST(test_bad_options),
      TEST(test_no_driver),
      TEST(test_no_context),
      TEST(test_old_device),
      TEST(test_no_nvrtc),
      TEST(test_jit_off),
      TEST(test_compile_only),
      TEST(test_compile_arguments),
      TEST(test_launch),
      TEST(test_split_launch),
      TEST(test_empty),
      TEST(test_odd_strides),
      TEST(test_hopper_launch),
      TEST(test_packed_launch),
      TEST(test_parts_launch),
      TEST(test_many_heads_launch),
      TEST(test_bias_map),
      TEST(test_no_maps),
      TEST(test_launch_failure),
      TEST(test_contexts),
      TEST(test_many_kernels),
      TEST(test_capture),
      TEST(test_foreign_capture),
      TEST(test_prepare),
      TEST(test_prepare_strides),
      TEST(test_describe),
      TEST(test_refused_entry),
      TEST(test_passing_failure),
      TEST(test_failed_compile),
      TEST(test_warnings_are_heard),
      TEST(test_cache_trouble),
      TEST(test_one_compile_for_all),
      TEST(test_one_failure_for_all),
      TEST(test_warm_calls_do_not_wait),
      TEST(test_errors_are_of_threads),
      TEST(test_cpu),
  };
  return cmocka_run_group_tests(tests, set_up_attention, tear_down_group);
}
