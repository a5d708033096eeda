/* A program as a user of version 0.2 compiled it: its header is the one kept in tests/abi/0.2/, and it
 * runs on the library of today. It calls every function, with structs of its own sizes, and with
 * structs that are longer than it knows, as a newer program's would be. Ends with 0 where all held.
 */
#include <attnpress/attnpress.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(ATTNPRESS_VERSION == 200, "this is the header of version 0.2");

static int failures;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, attnpress_last_error());           \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

enum { BATCH = 2, SEQLEN = 33, HEADS = 4, HEAD_DIM = 40, COUNT = BATCH * SEQLEN * HEADS * HEAD_DIM };
static float q[COUNT + 16], k[COUNT + 16], v[COUNT + 16], out[COUNT + 16];

static float *aligned(float *data) {
  return (float *)(((uintptr_t)data + 63) / 64 * 64);
}

static attnpress_forward_args make_args(void) {
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  args.q = attnpress_tensor_bshd(aligned(q), BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_FP32);
  args.k = attnpress_tensor_bhsd(aligned(k), BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_FP32);
  args.v = attnpress_tensor_bshd(aligned(v), BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_FP32);
  args.out = attnpress_tensor_bshd(aligned(out), BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_FP32);
  args.mask = ATTNPRESS_CAUSAL;
  return args;
}

/** All of V is 3, and so is every output. */
static void check_outputs(void) {
  for (int i = 0; i < COUNT; ++i)
    CHECK(aligned(out)[i] > 2.999f && aligned(out)[i] < 3.001f);
  memset(out, 0xff, sizeof out);
}

static void run_on_cpu(void) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle;
  attnpress_plan *plan;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  attnpress_plan_options where = ATTNPRESS_PLAN_OPTIONS_INIT;
  size_t bytes = 1;
  attnpress_forward_args args = make_args();
  options.backend = ATTNPRESS_CPU;
  CHECK(attnpress_create(&handle, &options) == ATTNPRESS_OK);
  CHECK(attnpress_forward(handle, &args, NULL) == ATTNPRESS_OK);
  check_outputs();
  CHECK(attnpress_plan_forward(handle, &args, &where, &plan) == ATTNPRESS_OK);
  CHECK(attnpress_plan_workspace_bytes(plan, &bytes) == ATTNPRESS_OK && bytes == 0);
  CHECK(attnpress_plan_prepare(plan, NULL) == ATTNPRESS_OK);
  CHECK(attnpress_plan_launch_count(plan) == 1);
  CHECK(attnpress_plan_launch(plan, 0, &info) == ATTNPRESS_OK);
  CHECK(info.origin == ATTNPRESS_ORIGIN_CPU && info.struct_size == sizeof info);
  CHECK(strcmp(info.target, "cpu") == 0);
  CHECK(attnpress_plan_run(plan, &args, NULL) == ATTNPRESS_OK);
  check_outputs();
  attnpress_plan_destroy(plan);

  /* A newer program's struct: longer, and nothing new is used; then something is. */
  struct {
    attnpress_forward_args args;
    char newer[400];
  } longer;
  memset(&longer, 0, sizeof longer);
  longer.args = args;
  longer.args.struct_size = sizeof longer;
  CHECK(attnpress_forward(handle, &longer.args, NULL) == ATTNPRESS_OK);
  check_outputs();
  longer.newer[399] = 1;
  CHECK(attnpress_forward(handle, &longer.args, NULL) == ATTNPRESS_INVALID_ARGUMENT);
  args.struct_size = 0;
  CHECK(attnpress_forward(handle, &args, NULL) == ATTNPRESS_INVALID_ARGUMENT);
  attnpress_destroy(handle);
}

static void plan_for_target(void) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_plan_options where = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_handle *handle;
  attnpress_plan *plan;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  attnpress_forward_args args = make_args();
  char *source = NULL;
  args.q.dtype = args.k.dtype = args.v.dtype = args.out.dtype = ATTNPRESS_BF16;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  options.cache_off = 1;
  where.target = "sm_90";
  where.range = ATTNPRESS_UP_TO;
  CHECK(attnpress_create(&handle, &options) == ATTNPRESS_OK);
  CHECK(attnpress_plan_forward(handle, &args, &where, &plan) == ATTNPRESS_OK);
  CHECK(attnpress_plan_launch_count(plan) > 1);
  CHECK(attnpress_plan_launch(plan, 0, &info) == ATTNPRESS_OK && info.threads > 0);
  CHECK(attnpress_render_source(info.stem, info.target, &source) == ATTNPRESS_OK);
  CHECK(source != NULL && strstr(source, info.stem) != NULL);
  CHECK(attnpress_compile(handle, "flash_fwd", NULL, &info) == ATTNPRESS_INVALID_ARGUMENT);
  attnpress_free_source(source);
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

int main(void) {
  CHECK(attnpress_version() >= ATTNPRESS_VERSION);
#define CHECK_STATUS(name, value, sentence)                                                        \
  CHECK(strcmp(attnpress_status_string(value), sentence) == 0);
  ATTNPRESS_STATUS_MAP(CHECK_STATUS)
  for (int i = 0; i < COUNT; ++i) {
    aligned(q)[i] = (float)(i % 7) - 3.0f;
    aligned(k)[i] = (float)(i % 5) - 2.0f;
    aligned(v)[i] = 3.0f;
  }
  memset(out, 0xff, sizeof out);
  run_on_cpu();
  plan_for_target();
  printf("abi 0.2: %s\n", failures ? "broken" : "held");
  return failures != 0;
}
