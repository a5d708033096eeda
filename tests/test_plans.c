/* Plans of the public API, on the stand-ins of api_support.h: what they are made from, what they
 * say, that they say what the call does, and how structs of other sizes are read and written. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_support.h"

/** The arguments of a call of other lengths. */
static attnpress_forward_args args_of(int64_t batch, int64_t seqlen_q, int64_t seqlen_k) {
  attnpress_forward_args args = legal_args();
  args.q = attnpress_tensor_bshd((void *)0x10000, batch, seqlen_q, HEADS_Q, HDIM, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd((void *)0x20000, batch, seqlen_k, HEADS_KV, HDIM, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd((void *)0x30000, batch, seqlen_k, HEADS_KV, HDIM, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd((void *)0x40000, batch, seqlen_q, HEADS_Q, HDIM, ATTNPRESS_BF16);
  args.num_splits = 0;
  return args;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static void test_bad_plan_options(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle(), *compile_only;
  attnpress_options compile_options = handle_options();
  compile_options.backend = ATTNPRESS_COMPILE_ONLY;
  assert_ok(attnpress_create(&compile_only, &compile_options));
  const attnpress_forward_args args = legal_args();
  static const struct {
    int named; /* on the compile-only handle */
    attnpress_plan_options options;
    const char *says;
  } rows[] = {
      {0, {sizeof(attnpress_plan_options), NULL, "sm_90", 0, 0}, "options.target is \"sm_90\""},
      {0, {sizeof(attnpress_plan_options), NULL, NULL, 2, 0}, "options.range is 2"},
      {0, {sizeof(attnpress_plan_options), NULL, NULL, -1, 0}, "options.range is -1"},
      {0, {sizeof(attnpress_plan_options), NULL, NULL, 0, 4}, "options.num_sms is 4"},
      {0, {8, NULL, NULL, 0, 0}, "options.struct_size is 8"},
      {1, {sizeof(attnpress_plan_options), NULL, NULL, 0, 0}, "options.target is NULL"},
      {1, {sizeof(attnpress_plan_options), NULL, "sm_9", 0, 0}, "target \"sm_9\" is unknown"},
      {1, {sizeof(attnpress_plan_options), NULL, "sm_90", 0, -1}, "options.num_sms is -1"},
      {1, {sizeof(attnpress_plan_options), NULL, "sm_90", 0, 4097}, "it must be 1 to 4096"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    attnpress_plan *plan = (attnpress_plan *)8;
    assert_int_equal(attnpress_plan_forward(rows[i].named ? compile_only : handle, &args,
                                            &rows[i].options, &plan),
                     ATTNPRESS_INVALID_ARGUMENT);
    assert_error_says(rows[i].says);
    assert_null(plan);
  }
  attnpress_plan *plan;
  assert_int_equal(attnpress_plan_forward(NULL, &args, NULL, &plan), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_plan_forward(handle, NULL, NULL, &plan), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_plan_forward(handle, &args, NULL, NULL), ATTNPRESS_INVALID_ARGUMENT);
  attnpress_destroy(compile_only);
  attnpress_destroy(handle);
}

static void test_no_plan(void **state) {
  (void)state;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  size_t bytes;
  const attnpress_forward_args args = legal_args();
  attnpress_plan_destroy(NULL);
  assert_int_equal(attnpress_plan_launch_count(NULL), 0);
  assert_int_equal(attnpress_plan_workspace_bytes(NULL, &bytes), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_plan_launch(NULL, 0, &info), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_plan_prepare(NULL, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_int_equal(attnpress_plan_run(NULL, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
}

/* ---- What a plan says is what the call does -------------------------------------------------- */

/** Over many shapes: stems, grids, threads and shared memory of each launch, and the workspace. */
static void test_plan_says_what_the_call_does(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  static const int64_t lengths_q[] = {0, 1, 5, 17, 300}, lengths_k[] = {0, 1, 200, 5000};
  int split = 0;
  for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask)
    for (int q = 0; q < 5; ++q)
      for (int k = 0; k < 4; ++k)
        for (int splits = 0; splits <= 3; splits += 3) {
          attnpress_forward_args args = args_of(2, lengths_q[q], lengths_k[k]);
          attnpress_plan *plan;
          args.mask = mask;
          args.num_splits = splits;
          args.workspace = (void *)0x60000;
          assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
          assert_ok(attnpress_plan_workspace_bytes(plan, &args.workspace_bytes));
          const int count = attnpress_plan_launch_count(plan);
          cuda->launches = 0;
          assert_ok(attnpress_forward(handle, &args, NULL));
          assert_int_equal(cuda->launches, count);
          assert_int_equal(count > 0, lengths_q[q] > 0);
          for (int i = 0; i < count; ++i) {
            attnpress_info info = ATTNPRESS_INFO_INIT;
            const fake_launch *launch = &cuda->launch[i];
            assert_ok(attnpress_plan_launch(plan, i, &info));
            assert_string_equal(info.stem, launch->symbol);
            assert_int_equal(info.grid, launch->grid);
            assert_int_equal(info.threads, launch->block);
            assert_int_equal(info.smem_bytes, launch->smem_bytes);
            assert_int_equal(info.origin, ATTNPRESS_ORIGIN_MEMORY);
          }
          split += count > 1;
          if (args.workspace_bytes > 0) { /* one byte less is refused */
            --args.workspace_bytes;
            assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_WORKSPACE_TOO_SMALL);
          }
          attnpress_plan_destroy(plan);
        }
  assert_true(split > 10);
  attnpress_destroy(handle);
}

/* ---- Every kernel of the table ---- */

enum { KEYS_MAX = 8192 };

typedef struct key_set {
  uint64_t keys[KEYS_MAX];
  int count;
} key_set;

static int holds_key(const key_set *set, uint64_t key) {
  for (int i = 0; i < set->count; ++i)
    if (set->keys[i] == key)
      return 1;
  return 0;
}

/** Plans a call, makes it, and compares the two; the kernels are added to `met`. */
static void compare_call(attnpress_handle *handle, attnpress_forward_args *args, key_set *met) {
  attnpress_plan *plan;
  args->workspace = (void *)0x60000;
  assert_ok(attnpress_plan_forward(handle, args, NULL, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &args->workspace_bytes));
  const int count = attnpress_plan_launch_count(plan);
  cuda->launches = 0;
  assert_ok(attnpress_forward(handle, args, NULL));
  assert_int_equal(cuda->launches, count);
  for (int i = 0; i < count; ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    ap_variant variant;
    assert_ok(attnpress_plan_launch(plan, i, &info));
    assert_string_equal(info.stem, cuda->launch[i].symbol);
    assert_int_equal(info.grid, cuda->launch[i].grid);
    assert_int_equal(info.threads, cuda->launch[i].block);
    assert_int_equal(info.smem_bytes, cuda->launch[i].smem_bytes);
    assert_ok(ap_variant_parse(info.stem, &variant));
    const uint64_t key = ap_variant_key(&variant);
    if (!holds_key(met, key) && met->count < KEYS_MAX)
      met->keys[met->count++] = key;
  }
  attnpress_plan_destroy(plan);
}

/** The calls that between them launch every kernel of a pair of head dims. */
static void compare_head_dims(attnpress_handle *handle, int hdim, int hdim_v, key_set *met) {
  static const int lengths_q[] = {1, 5, 300};
  for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_BF16; ++dtype)
    for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask)
      for (int q = 0; q < 3; ++q)
        for (int splits = 1; splits <= 2; ++splits) {
          attnpress_forward_args args = legal_args();
          void *const data = (void *)0x10000;
          args.q = attnpress_tensor_bshd(data, 1, lengths_q[q], 2, hdim, dtype);
          args.k = attnpress_tensor_bshd(data, 1, 1000, 2, hdim, dtype);
          args.v = attnpress_tensor_bshd(data, 1, 1000, 2, hdim_v, dtype);
          args.out = attnpress_tensor_bshd(data, 1, lengths_q[q], 2, hdim_v, dtype);
          args.mask = mask;
          args.num_splits = splits;
          compare_call(handle, &args, met);
        }
}

/** Calls of head dim 64 with many row blocks, for which four consumers are faster. */
static void compare_many_rows(attnpress_handle *handle, key_set *met) {
  enum { BATCH = 64, ROWS = 256, HEADS = 16, HDIM = AP_ATTENTION_LONG_KEYS_HDIM };
  for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_BF16; ++dtype)
    for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask) {
      attnpress_forward_args args = legal_args();
      void *const data = (void *)0x10000;
      args.q = attnpress_tensor_bshd(data, BATCH, ROWS, HEADS, HDIM, dtype);
      args.k = args.v = args.out = args.q;
      args.lse = NULL;
      args.mask = mask;
      compare_call(handle, &args, met);
    }
}

/** Single queries of batch-invariant calls, whose kernels of compute capability 9.0 are of sequences:
 * so many that they have a schedule made. */
static void compare_few_rows(attnpress_handle *handle, int hdim, int hdim_v, key_set *met) {
  enum { SEQUENCES = 40 };
  for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_BF16; ++dtype)
    for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask) {
      attnpress_forward_args args = legal_args();
      attnpress_ragged ragged = ATTNPRESS_RAGGED_INIT;
      void *const data = (void *)0x10000;
      args.q = attnpress_tensor_bshd(data, 1, SEQUENCES, 2, hdim, dtype);
      args.k = attnpress_tensor_bshd(data, 1, 9000, 2, hdim, dtype);
      args.v = attnpress_tensor_bshd(data, 1, 9000, 2, hdim_v, dtype);
      args.out = attnpress_tensor_bshd(data, 1, SEQUENCES, 2, hdim_v, dtype);
      args.lse = NULL;
      args.mask = mask;
      args.num_splits = 0;
      args.batch_invariant = 1;
      ragged.batch = SEQUENCES;
      ragged.max_seqlen_q = 1;
      ragged.cu_seqlens_q = ragged.cu_seqlens_k = (const int32_t *)data;
      args.ragged = &ragged;
      compare_call(handle, &args, met);
    }
}

/** Equal ones, those of models, and a sample of all other pairs. */
static int takes_pair(int hdim, int hdim_v) {
  static const int of_models[][2] = {{64, 128}, {64, 256},  {64, 512}, {96, 64},
                                     {128, 64}, {192, 128}, {256, 128}};
  for (size_t i = 0; i < sizeof of_models / sizeof *of_models; ++i)
    if (hdim == of_models[i][0] && hdim_v == of_models[i][1])
      return 1;
  return hdim == hdim_v || (hdim / 8 * 137 + hdim_v / 8 * 11) % 401 == 0;
}

/** Each legal kernel of sm80 and sm90 for these head dims is planned and launched, the same way. */
static void test_every_kernel(void **state) {
  (void)state;
  static key_set met;
  attnpress_options options = handle_options();
  attnpress_handle *best = make_handle(), *sm80;
  options.arch_max = 80;
  assert_ok(attnpress_create(&sm80, &options));
  int wanted = 0;
  met.count = 0;
  compare_many_rows(best, &met);
  for (int hdim = 8; hdim <= AP_ATTENTION_HDIM_MAX; hdim += 8)
    for (int hdim_v = 8; hdim_v <= AP_ATTENTION_HDIM_V_MAX; hdim_v += 8) {
      ap_variant v = {.family = AP_FAMILY_ATTENTION,
                      .axis = {[AP_ATTENTION_HDIM] = hdim,
                               [AP_ATTENTION_HDIM_V] = hdim_v,
                               [AP_ATTENTION_DTYPE] = AP_ATTENTION_DTYPE_FP16,
                               [AP_ATTENTION_ARCH] = 80}};
      if (!takes_pair(hdim, hdim_v))
        continue;
      compare_head_dims(best, hdim, hdim_v, &met);
      compare_head_dims(sm80, hdim, hdim_v, &met);
      compare_few_rows(best, hdim, hdim_v, &met);
      for (int bits = 0; bits < 32; ++bits) { /* dtype, mask, split, decode, arch */
        v.axis[AP_ATTENTION_DTYPE] = bits & 1 ? AP_ATTENTION_DTYPE_BF16 : AP_ATTENTION_DTYPE_FP16;
        v.axis[AP_ATTENTION_MASK] = bits >> 1 & 1;
        v.axis[AP_ATTENTION_SPLIT] = bits >> 2 & 1;
        v.axis[AP_ATTENTION_DECODE] = bits >> 3 & 1;
        v.axis[AP_ATTENTION_ARCH] = bits >> 4 ? 90 : 80;
        /* Dense ones stand in the table of tiles for these, and are launched by nobody. */
        v.axis[AP_ATTENTION_SEQUENCES] =
            v.axis[AP_ATTENTION_DECODE] && v.axis[AP_ATTENTION_ARCH] == 90
                ? AP_ATTENTION_SEQUENCES_RAGGED
                : AP_ATTENTION_SEQUENCES_DENSE;
        if (!ap_variant_is_legal(&v))
          continue;
        ++wanted;
        if (!holds_key(&met, ap_variant_key(&v))) {
          char stem[AP_STEM_MAX];
          assert_ok(ap_variant_print(&v, stem));
          fail_msg("no call launched %s", stem);
        }
      }
    }
  assert_true(wanted > 1000);
  attnpress_destroy(sm80);
  attnpress_destroy(best);
}

/** With the combine kernel missing and compiling off, the plan says so of that launch, and the call
 * fails before anything is launched. */
static void test_missing_combine(void **state) {
  (void)state;
  attnpress_options options = handle_options();
  attnpress_handle *filling = make_handle(), *handle;
  attnpress_forward_args args = legal_args();
  attnpress_info info = ATTNPRESS_INFO_INIT;
  args.num_splits = 2;
  args.workspace = (void *)0x60000;
  assert_ok(workspace_bytes_of(filling, &args, &args.workspace_bytes));
  assert_ok(describe(filling, &args, &info));
  assert_ok(attnpress_compile(filling, info.stem, info.target, NULL));
  attnpress_destroy(filling);
  options.jit_off = 1;
  assert_ok(attnpress_create(&handle, &options));
  assert_ok(describe_launch(handle, &args, 0, &info));
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_DISK);
  assert_ok(describe_launch(handle, &args, 1, &info));
  assert_int_equal(info.origin, ATTNPRESS_ORIGIN_NONE);
  assert_int_equal(attnpress_forward(handle, &args, NULL), ATTNPRESS_NO_KERNEL);
  assert_error_says(info.stem);
  assert_int_equal(cuda->launches, 0);
  attnpress_destroy(handle);
}

/** Plans, workspace and preparing look at the stream's device, as the call does: here the thread's
 * current context is on another one. */
static void test_plan_is_of_the_streams_device(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  CUcontext hopper = cuda->context_get();
  cuda->capability = 80;
  CUcontext ampere = cuda->context_new(1);
  cuda->context_set(hopper);
  CUstream stream = cuda->stream_new(ampere);
  const attnpress_forward_args args = legal_args();
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_info info = ATTNPRESS_INFO_INIT;
  attnpress_plan *plan;
  options.stream = stream;
  assert_ok(attnpress_plan_forward(handle, &args, &options, &plan));
  assert_ok(attnpress_plan_launch(plan, 0, &info));
  assert_string_equal(info.target, "sm_80");
  assert_ok(attnpress_plan_prepare(plan, stream));
  const int loads = cuda->loads;
  assert_ok(attnpress_plan_run(plan, &args, stream));
  assert_ok(attnpress_forward(handle, &args, stream));
  assert_int_equal(cuda->loads, loads);
  assert_ptr_equal(cuda->context_get(), hopper);
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("the stream is on device 0 and the plan was made for device 1");
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
  cuda->stream_free(stream);
  cuda->context_free(ampere);
}

/** A plan outlives the context that it was made in. */
static void test_context_goes_away(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  attnpress_plan *plan;
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  cuda->context_free(cuda->context_get());
  cuda->context_set(cuda->context_new(0));
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_int_equal(cuda->launches, 2);
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/* ---- Running again --------------------------------------------------------------------------- */

static void test_run_again(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = legal_args();
  attnpress_plan *plan;
  assert_ok(attnpress_plan_forward(handle, &args, NULL, &plan));
  args.q.data = (void *)0x90000;
  args.out.stride[1] *= 2; /* strides are no part of what is chosen */
  args.out.stride[0] *= 2;
  assert_ok(attnpress_plan_run(plan, &args, NULL));
  assert_int_equal(cuda->launches, 1);
  args.q.data = NULL;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  args = args_of(2, SEQLEN_Q, SEQLEN_K + 1);
  args.num_splits = 1;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("seqlen_k is 301 and was 300 when the plan was made");
  args = legal_args();
  args.mask = ATTNPRESS_CAUSAL;
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("mask is 1 and was 0");
  assert_int_equal(cuda->launches, 1);
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/** A plan of a range: everything within it is loaded, and one workspace serves all. */
static void test_run_in_range(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  attnpress_forward_args args = args_of(4, 100, 4000);
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan;
  size_t bytes;
  options.range = ATTNPRESS_UP_TO;
  assert_ok(attnpress_plan_forward(handle, &args, &options, &plan));
  assert_ok(attnpress_plan_workspace_bytes(plan, &bytes));
  assert_true(bytes > 0);
  for (int i = 0; i < attnpress_plan_launch_count(plan); ++i) {
    attnpress_info info = ATTNPRESS_INFO_INIT;
    assert_ok(attnpress_plan_launch(plan, i, &info));
    assert_int_equal(info.grid, 0);
    assert_int_equal(info.origin, ATTNPRESS_ORIGIN_JIT);
  }
  assert_ok(attnpress_plan_prepare(plan, NULL));
  const int loads = cuda->loads;
  assert_int_equal(loads, attnpress_plan_launch_count(plan));
  for (int64_t batch = 1; batch <= 4; ++batch)
    for (int64_t seqlen_q = 1; seqlen_q <= 100; seqlen_q += 11)
      for (int64_t seqlen_k = 1; seqlen_k <= 4000; seqlen_k = seqlen_k * 3 + 1) {
        args = args_of(batch, seqlen_q, seqlen_k);
        args.workspace = (void *)0x60000;
        args.workspace_bytes = bytes;
        assert_ok(attnpress_plan_run(plan, &args, NULL));
      }
  assert_int_equal(cuda->loads, loads);
  args = args_of(5, 100, 4000);
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("batch is 5; the plan serves up to 4");
  attnpress_plan_destroy(plan);

  args = args_of(0, 0, 0);
  args.num_splits = 2;
  assert_ok(attnpress_plan_forward(handle, &args, &options, &plan));
  assert_int_equal(attnpress_plan_workspace_bytes(plan, &bytes), ATTNPRESS_NOT_SUPPORTED);
  assert_int_equal(bytes, 0);
  attnpress_plan_destroy(plan);
  attnpress_destroy(handle);
}

/* ---- Compile-only handles -------------------------------------------------------------------- */

/** A plan for a named target is that of such a device, and preparing fills the cache with all that
 * a call on it needs. */
static void test_named_target(void **state) {
  (void)state;
  attnpress_options options = handle_options();
  attnpress_handle *building, *handle;
  attnpress_forward_args args = legal_args();
  attnpress_plan_options where = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan;
  args.num_splits = 2;
  args.workspace = (void *)0x60000;
  args.workspace_bytes = 1 << 30;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  assert_ok(attnpress_create(&building, &options));
  where.target = "sm_90";
  assert_ok(attnpress_plan_forward(building, &args, &where, &plan));
  assert_int_equal(attnpress_plan_launch_count(plan), 2);
  assert_int_equal(attnpress_plan_run(plan, &args, NULL), ATTNPRESS_NOT_SUPPORTED);
  assert_ok(attnpress_plan_prepare(plan, NULL));
  assert_int_equal(compiles(), 2);
  attnpress_plan_destroy(plan);
  attnpress_destroy(building);

  options = handle_options();
  options.jit_off = 1;
  assert_ok(attnpress_create(&handle, &options));
  assert_ok(attnpress_forward(handle, &args, NULL));
  attnpress_destroy(handle);
}

/* ---- Structs of other sizes ------------------------------------------------------------------ */

/** What is written back ends where the caller's struct does. */
static void test_written_back(void **state) {
  (void)state;
  attnpress_handle *handle = make_handle();
  const attnpress_forward_args args = legal_args();
  enum { FIRST_BYTES = AP_INFO_FIRST_BYTES };
  unsigned char memory[sizeof(attnpress_info) + 64];
  attnpress_info *info = (attnpress_info *)(void *)memory;
  memset(memory, 0xee, sizeof memory);
  info->struct_size = FIRST_BYTES;
  assert_ok(describe(handle, &args, info));
  assert_int_equal(info->struct_size, FIRST_BYTES);
  assert_string_equal(info->stem, "flash_fwd_hdim72_bf16_sm90");
  for (size_t i = FIRST_BYTES; i < sizeof memory; ++i)
    assert_int_equal(memory[i], 0xee);
  info->struct_size = FIRST_BYTES - 1;
  assert_int_equal(describe(handle, &args, info), ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("info.struct_size is");
  attnpress_destroy(handle);
}

/** An older caller's struct is read as far as it goes, and its missing tail counts as zero. The first
 * version's sizes stand in core/struct.h, so this is about a copy that knows more than was given. */
static void test_older_struct(void **state) {
  (void)state;
  struct {
    size_t struct_size;
    int32_t first, second, third, fourth;
  } newer = {0, 9, 9, 9, 9}, older = {16, 1, 2, 7, 7};
  assert_ok(ap_copy_struct(&older, &newer, sizeof newer, 16, "older"));
  assert_int_equal(newer.first, 1);
  assert_int_equal(newer.second, 2);
  assert_int_equal(newer.third, 0);
  assert_int_equal(newer.fourth, 0);
  newer.first = newer.second = newer.third = newer.fourth = 5;
  ap_write_struct(&newer, sizeof newer, &older);
  assert_int_equal(older.struct_size, 16);
  assert_int_equal(older.second, 5);
  assert_int_equal(older.third, 7);
  older.struct_size = 15;
  assert_int_equal(ap_copy_struct(&older, &newer, sizeof newer, 16, "older"),
                   ATTNPRESS_INVALID_ARGUMENT);
  assert_error_says("older.struct_size is 15");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_bad_plan_options),
      TEST(test_no_plan),
      TEST(test_plan_says_what_the_call_does),
      TEST(test_every_kernel),
      TEST(test_missing_combine),
      TEST(test_plan_is_of_the_streams_device),
      TEST(test_context_goes_away),
      TEST(test_run_again),
      TEST(test_run_in_range),
      TEST(test_named_target),
      TEST(test_written_back),
      TEST(test_older_struct),
  };
  return cmocka_run_group_tests(tests, set_up_group, tear_down_group);
}
