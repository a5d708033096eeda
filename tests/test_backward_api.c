/* attnpress_backward() and its plans, without a GPU: what is launched where, workspaces, and what is
 * refused, in which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "attnpress/attnpress.h"

enum { BATCH = 2, ROWS = 300, KEYS = 500, HEADS = 8, KV_HEADS = 2 };

static attnpress_handle *handle_for(int32_t backend) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle;
  options.backend = backend;
  options.cache_off = 1;
  assert_int_equal(attnpress_create(&handle, &options), ATTNPRESS_OK);
  return handle;
}

enum { PADDED_KEYS = BATCH * KV_HEADS * 512, PARTS = HEADS / KV_HEADS };

static attnpress_backward_args args_for(int64_t hdim, int64_t hdim_v, int32_t dtype) {
  static float rows[BATCH * HEADS * ROWS];
  attnpress_backward_args a = ATTNPRESS_BACKWARD_ARGS_INIT;
  const void *const data = (void *)0x10000;
  a.q = a.dq = attnpress_tensor_bshd(data, BATCH, ROWS, HEADS, hdim, dtype);
  a.k = a.dk = attnpress_tensor_bshd(data, BATCH, KEYS, KV_HEADS, hdim, dtype);
  a.v = a.dv = attnpress_tensor_bshd(data, BATCH, KEYS, KV_HEADS, hdim_v, dtype);
  a.out = a.dout = attnpress_tensor_bshd(data, BATCH, ROWS, HEADS, hdim_v, dtype);
  a.lse = rows;
  return a;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

/** The stems and grids of a plan, "stem grid; stem grid". */
static void say_plan(attnpress_handle *handle, const attnpress_backward_args *args,
                     const char *target, int32_t range, char *text, size_t bytes,
                     size_t *workspace_bytes) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan;
  options.target = target;
  options.range = range;
  assert_int_equal(attnpress_plan_backward(handle, args, &options, &plan), ATTNPRESS_OK);
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < attnpress_plan_launch_count(plan); ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    assert_int_equal(attnpress_plan_launch(plan, i, &info), ATTNPRESS_OK);
    length += (size_t)snprintf(text + length, bytes - length, "%s%s %d", i ? "; " : "", info.stem,
                               (int)info.grid);
  }
  if (workspace_bytes != NULL)
    assert_int_equal(attnpress_plan_workspace_bytes(plan, workspace_bytes), ATTNPRESS_OK);
  attnpress_plan_destroy(plan);
}

static void test_what_is_launched(void **state) {
  (void)state;
  attnpress_handle *handle = handle_for(ATTNPRESS_COMPILE_ONLY);
  const struct {
    int64_t hdim, hdim_v;
    int32_t deterministic, mask;
    const char *target, *plan;
  } rows[] = {
      {64, 64, 0, ATTNPRESS_FULL, "sm_90",
       /* a thread block for each of four query heads of a key head, whose dK and dV are sums */
       "flash_bwd_delta_hdim64_bf16_sm80 96; flash_bwd_hdim64_bf16_sm90 64; "
       "flash_bwd_convert_hdim64_bf16_sm80 96; flash_bwd_convert_hdim64_bf16_sm80 32; "
       "flash_bwd_convert_hdim64_bf16_sm80 32"},
      {192, 128, 0, ATTNPRESS_CAUSAL, "sm_80",
       "flash_bwd_delta_hdim128_bf16_sm80 96; flash_bwd_hdim192v128_bf16_causal_sm80 32; "
       "flash_bwd_convert_hdim192_bf16_sm80 384"},
      {128, 128, 1, ATTNPRESS_CAUSAL, "sm_90",
       "flash_bwd_delta_hdim128_bf16_sm80 96; flash_bwd_dq_hdim128_bf16_causal_sm90 48; "
       "flash_bwd_dkv_hdim128_bf16_causal_sm90 16"},
      {192, 128, 0, ATTNPRESS_CAUSAL, "sm_90",
       "flash_bwd_delta_hdim128_bf16_sm80 96; flash_bwd_hdim192v128_bf16_causal_sm90 96; "
       "flash_bwd_convert_hdim192_bf16_sm80 384; flash_bwd_convert_hdim192_bf16_sm80 128; "
       "flash_bwd_convert_hdim128_bf16_sm80 64"},
      {256, 256, 1, ATTNPRESS_FULL, "sm_90",
       "flash_bwd_delta_hdim256_bf16_sm80 96; flash_bwd_dq_hdim256_bf16_sm90 48; "
       "flash_bwd_dkv_hdim256_bf16_sm90 32"},
      {72, 40, 0, ATTNPRESS_CAUSAL, "sm_90", /* a pair whose gradients are sm80's */
       "flash_bwd_delta_hdim40_bf16_sm80 96; flash_bwd_hdim72v40_bf16_causal_sm80 16; "
       "flash_bwd_convert_hdim72_bf16_sm80 192"},
      {512, 512, 0, ATTNPRESS_FULL, "sm_86",
       "flash_bwd_delta_hdim512_bf16_sm80 96; flash_bwd_dq_hdim512_bf16_sm86 304; "
       "flash_bwd_dkv_hdim512_bf16_sm86 128"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_backward_args args = args_for(rows[i].hdim, rows[i].hdim_v, ATTNPRESS_BF16);
    char text[512];
    size_t bytes;
    args.deterministic = rows[i].deterministic;
    args.mask = rows[i].mask;
    say_plan(handle, &args, rows[i].target, ATTNPRESS_ONE_CALL, text, sizeof text, &bytes);
    assert_string_equal(text, rows[i].plan);
    /* Rows are padded to 384, and to 304 of dq in fp32, where it is summed; dk and dv of each part of a
     * group.
     * Kernels of 9.0 that add to a sum count what is zeroed of it: one number a head at most, in
     * units of 256 bytes. Those that take key blocks have another number. */
    const size_t padded = BATCH * HEADS * 384, sum_rows = BATCH * HEADS * 304;
    const int summed = !rows[i].deterministic && rows[i].hdim <= 256;
    const char *const convert = strstr(rows[i].plan, "_bwd_convert_");
    const int shared = convert != NULL && strstr(convert + 1, "_bwd_convert_") != NULL;
    const size_t key_sums =
        shared ? PARTS * PADDED_KEYS * (size_t)(rows[i].hdim + rows[i].hdim_v) : 0;
    const char *const fused = strstr(rows[i].plan, "flash_bwd_hdim");
    const size_t counters = fused == NULL || strncmp(strchr(fused, ' ') - 5, "_sm90", 5) != 0 ? 0
                            : rows[i].hdim <= 128 ? 2 * 256
                                                  : 256;
    const size_t sums = summed ? sum_rows * (size_t)rows[i].hdim : 0;
    assert_int_equal(bytes, 4 * (padded * 2 + sums + key_sums) + counters);
  }
  attnpress_destroy(handle);
}

/* What is done to scores is in the names; with a softcap and more, 9.0 runs the sm80 kernels. */
static void test_scores(void **state) {
  (void)state;
  static const float slopes[HEADS] = {0.0f};
  static float dsinks[HEADS];
  attnpress_handle *handle = handle_for(ATTNPRESS_COMPILE_ONLY);
  attnpress_backward_args args = args_for(64, 64, ATTNPRESS_BF16);
  attnpress_window window = ATTNPRESS_WINDOW_INIT;
  attnpress_alibi alibi = ATTNPRESS_ALIBI_INIT;
  attnpress_bias bias = ATTNPRESS_BIAS_INIT;
  attnpress_sinks sinks = ATTNPRESS_SINKS_INIT;
  attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
  char text[512];
  size_t bytes;
  window.left = 127;
  alibi.slopes = slopes;
  bias.data = (void *)0x10000;
  bias.dtype = ATTNPRESS_FP16;
  memcpy(bias.shape, (int64_t[]){1, 1, ROWS, KEYS}, sizeof bias.shape);
  memcpy(bias.stride, (int64_t[]){0, 0, KEYS, 1}, sizeof bias.stride);
  sinks.data = slopes;
  sinks.dtype = ATTNPRESS_FP32;
  dropout.probability = 0.5f;
  args.mask = ATTNPRESS_WINDOW;
  args.window = &window;
  args.sinks = &sinks;
  args.deterministic = 1;
  say_plan(handle, &args, "sm_90", ATTNPRESS_ONE_CALL, text, sizeof text, &bytes);
  assert_string_equal(text, "flash_bwd_delta_hdim64_bf16_sm80 96; "
                            "flash_bwd_dq_hdim64_bf16_window_sm90 48; "
                            "flash_bwd_dkv_hdim64_bf16_window_sm90 16");
  args.alibi = &alibi;
  args.bias = &bias;
  args.dropout = &dropout;
  args.deterministic = 0;
  say_plan(handle, &args, "sm_90", ATTNPRESS_ONE_CALL, text, sizeof text, &bytes);
  assert_string_equal(text, "flash_bwd_delta_hdim64_bf16_sm80 96; "
                            "flash_bwd_hdim64_bf16_window_alibi_biasfp16_dropout_sm90 16; "
                            "flash_bwd_convert_hdim64_bf16_sm80 96");
  /* The gradient by the bias is a kernel of its own, here of 5 x 8 tiles of 64 rows and keys. */
  attnpress_dbias dbias = ATTNPRESS_DBIAS_INIT;
  dbias.dtype = ATTNPRESS_FP32;
  memcpy(dbias.shape, bias.shape, sizeof dbias.shape);
  memcpy(dbias.stride, bias.stride, sizeof dbias.stride);
  args.dbias = &dbias;
  say_plan(handle, &args, "sm_90", ATTNPRESS_ONE_CALL, text, sizeof text, &bytes);
  assert_non_null(
      strstr(text, "; flash_bwd_dbias_hdim64_bf16_window_alibi_biasfp16_dropout_sm80 40; "));
  args.dbias = NULL;
  args.bias = NULL;
  args.dropout = NULL;
  args.deterministic = 1;
  args.softcap = 30.0f;
  say_plan(handle, &args, "sm_90", ATTNPRESS_ONE_CALL, text, sizeof text, &bytes);
  assert_string_equal(text, "flash_bwd_delta_hdim64_bf16_sm80 96; "
                            "flash_bwd_dq_hdim64_bf16_window_softcap_alibi_sm80 48; "
                            "flash_bwd_dkv_hdim64_bf16_window_softcap_alibi_sm80 16");
  args.bias = &bias;
  args.dropout = &dropout;
  args.dsinks = dsinks;
  args.deterministic = 0;
  say_plan(handle, &args, "sm_86", ATTNPRESS_ONE_CALL, text, sizeof text, &bytes);
  assert_string_equal(text,
                      "flash_bwd_delta_hdim64_bf16_sm80 96; flash_bwd_sinks_hdim8_fp16_sm80 8; "
                      "flash_bwd_hdim64_bf16_window_softcap_alibi_biasfp16_dropout_sm86 16; "
                      "flash_bwd_convert_hdim64_bf16_sm80 96");
  /* A head's rows are none: its gradient is 0, and somebody has to write it. */
  args.q.shape[1] = args.dq.shape[1] = args.out.shape[1] = args.dout.shape[1] = bias.shape[2] = 0;
  args.k.shape[1] = args.dk.shape[1] = args.v.shape[1] = args.dv.shape[1] = bias.shape[3] = 0;
  say_plan(handle, &args, "sm_80", ATTNPRESS_ONE_CALL, text, sizeof text, NULL);
  assert_string_equal(text, "flash_bwd_sinks_hdim8_fp16_sm80 8");
  attnpress_destroy(handle);
}

/* A plan serves calls with the same groups. */
static void test_what_a_plan_serves(void **state) {
  (void)state;
  attnpress_handle *handle = handle_for(ATTNPRESS_CPU);
  attnpress_backward_args args = args_for(64, 64, ATTNPRESS_BF16);
  attnpress_plan *plan;
  args.q.data = NULL; /* it would not be run */
  assert_int_equal(attnpress_plan_backward(handle, &args, NULL, &plan), ATTNPRESS_OK);
  args = args_for(64, 64, ATTNPRESS_BF16);
  args.softcap = 3.0f;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_non_null(strstr(attnpress_last_error(), "softcap given is 1 and was 0"));
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

static void test_empty(void **state) {
  (void)state;
  attnpress_handle *handle = handle_for(ATTNPRESS_COMPILE_ONLY);
  char text[512];
  for (int deterministic = 0; deterministic < 2; ++deterministic) {
    attnpress_backward_args args = args_for(64, 64, ATTNPRESS_FP16);
    args.deterministic = deterministic;
    args.q.shape[1] = args.dq.shape[1] = args.out.shape[1] = args.dout.shape[1] = 0;
    say_plan(handle, &args, "sm_80", ATTNPRESS_ONE_CALL, text, sizeof text, NULL);
    assert_string_equal(text, deterministic ? "flash_bwd_dkv_hdim64_fp16_sm80 16"
                                            : "flash_bwd_hdim64_fp16_sm80 16");
    args = args_for(64, 64, ATTNPRESS_FP16);
    args.deterministic = deterministic;
    args.k.shape[1] = args.dk.shape[1] = args.v.shape[1] = args.dv.shape[1] = 0;
    say_plan(handle, &args, "sm_80", ATTNPRESS_ONE_CALL, text, sizeof text, NULL);
    assert_string_equal(
        text, deterministic
                  ? "flash_bwd_delta_hdim64_fp16_sm80 96; flash_bwd_dq_hdim64_fp16_sm80 48"
                  : "flash_bwd_delta_hdim64_fp16_sm80 96; flash_bwd_convert_hdim64_fp16_sm80 96");
  }
  /* Keys alone, more blocks of them than SMs: nothing before bwd sets the counter that thread blocks
   * would take them by. */
  attnpress_backward_args many = args_for(64, 64, ATTNPRESS_BF16);
  void *const data = (void *)0x10000;
  many.q = many.dq = many.out = many.dout =
      attnpress_tensor_bshd(data, BATCH, 0, HEADS, 64, ATTNPRESS_BF16);
  many.k = many.dk = many.v = many.dv =
      attnpress_tensor_bshd(data, BATCH, 128000, KV_HEADS, 64, ATTNPRESS_BF16);
  say_plan(handle, &many, "sm_90", ATTNPRESS_ONE_CALL, text, sizeof text, NULL);
  assert_string_equal(text, "flash_bwd_hdim64_bf16_sm90 4000");
  attnpress_destroy(handle);
}

static void test_ranges(void **state) {
  (void)state;
  attnpress_handle *handle = handle_for(ATTNPRESS_COMPILE_ONLY);
  attnpress_backward_args args = args_for(128, 128, ATTNPRESS_BF16);
  char text[512];
  size_t bytes;
  say_plan(handle, &args, "sm_90", ATTNPRESS_UP_TO, text, sizeof text, &bytes);
  assert_string_equal(text, "flash_bwd_delta_hdim128_bf16_sm80 0; flash_bwd_hdim128_bf16_sm90 0; "
                            "flash_bwd_convert_hdim128_bf16_sm80 0");
  for (int64_t q = 1; q <= ROWS;
       q += ROWS - 1) /* smaller calls may share groups where it does not */
    for (int64_t keys = 1; keys <= KEYS; keys += 13)
      for (int64_t batch = 1; batch <= BATCH; ++batch) {
        attnpress_backward_args smaller = args;
        size_t needed;
        attnpress_tensor *const all[] = {&smaller.q, &smaller.dq, &smaller.out, &smaller.dout,
                                         &smaller.k, &smaller.dk, &smaller.v,   &smaller.dv};
        for (int i = 0; i < 8; ++i) {
          all[i]->shape[0] = batch;
          all[i]->shape[1] = i < 4 ? q : keys;
        }
        say_plan(handle, &smaller, "sm_90", ATTNPRESS_ONE_CALL, text, sizeof text, &needed);
        assert_true(needed <= bytes);
      }
  attnpress_tensor *const rows[] = {&args.q, &args.dq, &args.out, &args.dout};
  for (int i = 0; i < 4; ++i)
    rows[i]->shape[1] = 0;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan;
  options.target = "sm_90";
  options.range = ATTNPRESS_UP_TO;
  assert_int_equal(attnpress_plan_backward(handle, &args, &options, &plan), ATTNPRESS_OK);
  assert_int_equal(attnpress_plan_launch_count(plan), 3);
  assert_int_equal(attnpress_plan_workspace_bytes(plan, &bytes), ATTNPRESS_NOT_SUPPORTED);
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void refuse(attnpress_handle *handle, const attnpress_backward_args *args,
                   attnpress_status status, const char *says) {
  assert_int_equal(attnpress_backward(handle, args, NULL), status);
  if (strstr(attnpress_last_error(), says) == NULL)
    fail_msg("\"%s\" does not say \"%s\"", attnpress_last_error(), says);
}

static void test_bad_input(void **state) {
  (void)state;
  attnpress_handle *handle = handle_for(ATTNPRESS_CPU);
  const attnpress_backward_args good = args_for(64, 64, ATTNPRESS_BF16);
#define REFUSED(change, says)                                                                      \
  do {                                                                                             \
    attnpress_backward_args a = good;                                                              \
    change;                                                                                        \
    refuse(handle, &a, ATTNPRESS_INVALID_ARGUMENT, says);                                          \
  } while (0)
  REFUSED(a.struct_size = 8, "args.struct_size is 8");
  REFUSED(a.lse = NULL, "lse is NULL; the backward pass needs what the forward pass wrote there");
  REFUSED(a.dout.shape[1] = 299, "dout.shape[1] (seqlen) is 299 and out's is 300");
  REFUSED(a.dq.shape[2] = 4, "dq.shape[2] (heads) is 4 and q's is 8");
  REFUSED(a.dk.dtype = ATTNPRESS_FP16, "dk.dtype is 1 and k's is 2");
  REFUSED(a.dv.stride[1] = 60, "dv.stride[1] (seqlen) is 60 elements");
  REFUSED(a.dv.stride[1] = 64, "dv.stride is");
  REFUSED(a.dv.data = NULL, "dv.data is NULL");
  REFUSED(a.dlse = (float *)0x1001, "dlse is 0x1001; it must be aligned to 4 bytes");
  REFUSED((a.dlse = (float *)0x1000, a.dlse_stride[0] = -8), "dlse_stride[0] (batch) is -8");
  REFUSED(a.deterministic = 2, "deterministic is 2; it must be 0 or 1");
  REFUSED(a.accumulate = -1, "accumulate is -1; it must be 0 or 1");
  REFUSED(a.scale = -1.0f, "scale is -1");
  REFUSED(a.mask = 7, "mask is 7");
  REFUSED(a.mask = ATTNPRESS_WINDOW, "mask is ATTNPRESS_WINDOW and window is NULL");
  REFUSED(a.softcap = -2.0f, "softcap is -2; it must be positive and finite, or 0 for none");
  REFUSED(a.reserved = 5, "reserved is 5; it must be 0");
  attnpress_window window = ATTNPRESS_WINDOW_INIT;
  attnpress_sinks sinks = ATTNPRESS_SINKS_INIT;
  attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
  window.left = -5;
  dropout.probability = 1.0f;
  sinks.dtype = ATTNPRESS_FP32;
  REFUSED((a.mask = ATTNPRESS_WINDOW, a.window = &window), "window.left is -5; it must be 0 or");
  REFUSED(a.window = &window, "window is given and mask is 0");
  REFUSED(a.dropout = &dropout, "dropout.probability is 1; it must be 0 to less than 1");
  REFUSED(a.sinks = &sinks, "sinks.data is NULL; leave the group out instead");
  REFUSED(a.dsinks = (float *)0x1000, "dsinks is given and sinks is NULL");
  sinks.data = (void *)0x1000;
  REFUSED((a.sinks = &sinks, a.dsinks = (float *)0x1002), "dsinks is 0x1002; it must be aligned");
  sinks.struct_size = 8;
  REFUSED(a.sinks = &sinks, "sinks.struct_size is 8");
  attnpress_bias bias = ATTNPRESS_BIAS_INIT;
  attnpress_dbias dbias = ATTNPRESS_DBIAS_INIT;
  bias.data = (void *)0x1000;
  dbias.data = (void *)0x1000;
  bias.dtype = dbias.dtype = ATTNPRESS_FP32;
  memcpy(bias.shape, (int64_t[]){1, 1, ROWS, KEYS}, sizeof bias.shape);
  memcpy(bias.stride, (int64_t[]){0, 0, KEYS, 1}, sizeof bias.stride);
  memcpy(dbias.shape, (int64_t[]){1, HEADS, ROWS, KEYS}, sizeof dbias.shape);
  memcpy(dbias.stride, (int64_t[]){0, ROWS * KEYS, KEYS, 1}, sizeof dbias.stride);
  REFUSED(a.dbias = &dbias, "dbias is given and bias is NULL");
  REFUSED((a.bias = &bias, a.dbias = &dbias, dbias.shape[3] = 1),
          "dbias.shape[3] is 1; it must be seqlen_k, ");
  dbias.shape[3] = KEYS;
  REFUSED((a.bias = &bias, a.dbias = &dbias, dbias.shape[1] = 3),
          "dbias.shape[1] is 3; it must be heads of q, 8, or 1");
  dbias.shape[1] = HEADS;
  REFUSED((a.bias = &bias, a.dbias = &dbias, dbias.stride[1] = 0), "so that elements meet");
  dbias.stride[1] = ROWS * KEYS;
  REFUSED((a.bias = &bias, a.dbias = &dbias, dbias.stride[2] = -1),
          "dbias.stride[2] is -1 elements");
  dbias.stride[2] = KEYS;
  REFUSED((a.bias = &bias, a.dbias = &dbias, dbias.dtype = 9), "dbias.dtype is 9");
  dbias.dtype = ATTNPRESS_BF16;
  REFUSED((a.bias = &bias, a.dbias = &dbias, dbias.data = (void *)0x1001), "dbias.data is 0x1001");
  dbias.struct_size = 8;
  REFUSED((a.bias = &bias, a.dbias = &dbias), "dbias.struct_size is 8");
#undef REFUSED
  assert_int_equal(attnpress_backward(NULL, &good, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_backward(handle, NULL, NULL), ATTNPRESS_INVALID_ARGUMENT);
  attnpress_destroy(handle);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_is_launched),
      cmocka_unit_test(test_scores),
      cmocka_unit_test(test_what_a_plan_serves),
      cmocka_unit_test(test_empty),
      cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_bad_input),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
