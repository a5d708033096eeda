/* What a handle is among callbacks, contexts, devices and threads: messages whose receiver calls
 * back or never returns, contexts that come and go, several devices at once. The driver and NVRTC
 * are stand-ins. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "api_support.h"

/* Head dim 72 is not in the default set, so that nothing here depends on what is linked in. */
static const char stem[] = "flash_fwd_hdim72_bf16_sm80";

static ap_variant variant;

/** Those of a handle whose messages nobody hears. */
static attnpress_options quiet_options(void) {
  attnpress_options options = handle_options();
  options.log = NULL;
  return options;
}

static int set_up_handles(void **state) {
  const int status = set_up_group(state);
  assert_ok(ap_variant_parse(stem, &variant));
  return status;
}

static int set_up_slow(void **state) {
  const int status = set_up(state);
  setenv("FAKE_NVRTC_MODE", "warn", 1); /* a message from the middle of a compile */
  alarm(60);                            /* a deadlock ends */
  return status;
}

static int tear_down_slow(void **state) {
  alarm(0);
  return tear_down(state);
}

/** Loads the kernel of `stem` in the current context. */
static attnpress_status get(attnpress_handle *handle) {
  ap_context *context;
  const ap_bound *bound;
  FORWARD_IF(ap_context_of(handle, NULL, &context));
  return ap_kernel_get(handle, context, &variant, ap_variant_key(&variant), NULL, "sm_90", NULL, 1,
                       &bound);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/** What a receiver of messages does. */
typedef struct receiver {
  attnpress_handle *handle;
  int lines, compiles_at_first; /* heard, and compiles when the first one was */
  int calls_back;               /* with what is to come of it; not within such a call */
  attnpress_status expected;
  int jump_at; /* 1: out of the first line; 0: never */
  int exits;   /* instead of jumping */
  jmp_buf out;
  char text[4096];
} receiver;

static void receive(void *user, int level, const char *message) {
  receiver *r = user;
  (void)level;
  if (r->lines++ == 0)
    r->compiles_at_first = compiles();
  const size_t used = strlen(r->text);
  snprintf(r->text + used, sizeof r->text - used, "%s\n", message);
  if (r->lines == r->calls_back) {
    if (get(r->handle) != r->expected ||
        attnpress_compile(r->handle, stem, "sm_90", NULL) != r->expected)
      fail_msg("called back: %s", attnpress_last_error());
    attnpress_compile(r->handle, "no stem", NULL, NULL); /* leaves its sentence in this thread */
  }
  if (r->lines == r->jump_at) {
    if (r->exits)
      pthread_exit(NULL);
    longjmp(r->out, 1);
  }
}

static attnpress_handle *make_heard(receiver *r) {
  attnpress_options options = quiet_options();
  options.log = receive;
  options.log_user = r;
  assert_ok(attnpress_create(&r->handle, &options));
  return r->handle;
}

/** A line before the compile begins, its warning and its end after it. */
static void test_lines(void **state) {
  (void)state;
  receiver r = {0};
  attnpress_handle *handle = make_heard(&r);
  assert_ok(get(handle));
  assert_int_equal(r.lines, 3);
  assert_int_equal(r.compiles_at_first, 0);
  const char *compiling = strstr(r.text, "sm_90: compiling ("), *jit = strstr(r.text, "sm_90: jit");
  assert_non_null(compiling);
  assert_non_null(strstr(compiling, "warning #1: odd"));
  assert_non_null(jit);
  assert_true(compiling < jit);
  attnpress_destroy(handle);

  r = (receiver){0}; /* cached: nothing is announced that does not happen */
  handle = make_heard(&r);
  assert_ok(get(handle));
  assert_null(strstr(r.text, "compiling"));
  assert_non_null(strstr(r.text, "sm_90: cache"));
  attnpress_destroy(handle);

  remove_tree(cache_dir);
  r = (receiver){0};
  handle = make_heard(&r);
  assert_ok(attnpress_compile(handle, stem, "sm_90", NULL));
  assert_int_equal(r.compiles_at_first, 1); /* the one of above */
  assert_non_null(strstr(r.text, "sm_90: compiling ("));
  attnpress_destroy(handle);
}

/** The receiver loads the very kernel that it is told of, from each line. */
static void test_receiver_calls_back(void **state) {
  (void)state;
  for (int line = 1; line <= 3; ++line) {
    remove_tree(cache_dir);
    unlink(count_file);
    receiver r = {.calls_back = line};
    attnpress_handle *handle = make_heard(&r);
    assert_ok(get(handle));
    assert_true(r.lines >= 3);
    assert_int_equal(compiles(), 1);
    attnpress_destroy(handle);
  }

  /* A failure's sentence is still the failure's when the receiver's calls have failed otherwise. */
  remove_tree(cache_dir);
  setenv("FAKE_NVRTC_MODE", "fail", 1);
  receiver r = {.calls_back = 1, .expected = ATTNPRESS_COMPILE_FAILED};
  attnpress_handle *handle = make_heard(&r);
  assert_int_equal(get(handle), ATTNPRESS_COMPILE_FAILED);
  assert_error_says("identifier \"foo\"");
  attnpress_destroy(handle);
}

static void *get_in_thread(void *user) {
  receiver *r = user;
  cuda->context_set(cuda->context_new(0));
  get(r->handle); /* ends this thread where the receiver does */
  return NULL;
}

/** 1 where the receiver jumped out of the call. */
static int jumps(receiver *r, int by_name) {
  if (setjmp(r->out) != 0)
    return 1;
  if (by_name)
    attnpress_compile(r->handle, stem, "sm_90", NULL);
  else
    get(r->handle);
  return 0;
}

static void receiver_leaves(int line, int exits) {
  receiver r = {.jump_at = line, .exits = exits};
  attnpress_handle *handle = make_heard(&r);
  CUcontext current = cuda->context_get();
  if (exits) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, get_in_thread, &r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
  } else {
    assert_int_equal(jumps(&r, 0), 1);
  }
  assert_int_equal(r.lines, line);
  assert_ptr_equal(cuda->context_get(), current); /* nothing stays pushed */
  assert_ok(get(handle));
  attnpress_destroy(handle);
  assert_int_equal(r.lines, 3); /* none is lost, none comes twice */
}

/** Whichever line the receiver does not return from, the kernel can be had by everybody else. */
static void test_receiver_does_not_return(void **state) {
  (void)state;
  for (int line = 1; line <= 3; ++line)
    for (int exits = 0; exits < 2; ++exits) {
      remove_tree(cache_dir);
      receiver_leaves(line, exits);
    }
  remove_tree(cache_dir);
  receiver r = {.jump_at = 1};
  attnpress_handle *handle = make_heard(&r);
  assert_int_equal(jumps(&r, 1), 1);
  r.jump_at = 0;
  assert_ok(attnpress_compile(handle, stem, "sm_90", NULL));
  attnpress_destroy(handle);
}

/* ---- Contexts -------------------------------------------------------------------------------- */

static int count_records(attnpress_handle *handle) {
  int count = 0;
  for (ap_context *c = atomic_load(&handle->contexts); c != NULL; c = c->next)
    ++count;
  return count;
}

/** Kernels that are ready in a context. */
static int count_bounds(ap_context *context) {
  return (int)atomic_load(&context->table)->count;
}

static attnpress_handle *make_silent(void) {
  attnpress_handle *handle;
  const attnpress_options options = quiet_options();
  assert_ok(attnpress_create(&handle, &options));
  return handle;
}

/** Ten thousand contexts come and go, four at a time: the handle keeps what four take, and a kernel
 * is never one of a context that is gone. */
static void test_contexts_come_and_go(void **state) {
  (void)state;
  enum { CONTEXTS = 10000, ALIVE = 4 };
  attnpress_handle *handle = make_silent();
  CUcontext own = cuda->context_get(), alive[ALIVE];
  for (int i = 0; i < CONTEXTS; ++i) {
    CUcontext *place = &alive[i * 7 / 3 % ALIVE];
    if (i < ALIVE)
      place = &alive[i];
    else
      cuda->context_free(*place);
    *place = cuda->context_new(0);
    cuda->context_set(*place);
    const int made = cuda->functions;
    ap_context *context;
    const ap_bound *bound, *again;
    assert_ok(ap_context_of(handle, NULL, &context));
    assert_int_equal(count_bounds(context), 0);
    assert_ok(ap_kernel_get(handle, context, &variant, ap_variant_key(&variant), NULL, "sm_90",
                            NULL, 1, &bound));
    assert_int_equal(cuda->functions, made + 1);
    assert_ok(ap_kernel_get(handle, context, &variant, ap_variant_key(&variant), NULL, "sm_90",
                            NULL, 1, &again));
    assert_ptr_equal(bound, again);
    assert_true(count_records(handle) <= ALIVE);
  }
  assert_int_equal(compiles(), 1);
  assert_int_equal(cuda->loads, 1);
  attnpress_destroy(handle);
  for (int i = 0; i < ALIVE; ++i)
    cuda->context_free(alive[i]);
  cuda->context_set(own);
}

/** Two devices of different generations under one handle: each context gets its device's numbers
 * and target, also where the next context at its address is the other device's. */
static void test_mixed_devices(void **state) {
  (void)state;
  static const int capabilities[] = {90, 86};
  static const int sm_counts[] = {132, 84};
  static const char *const targets[] = {"sm_90", "sm_86"};
  ap_variant variants[2];
  assert_ok(ap_variant_parse(stem, &variants[0]));
  assert_ok(ap_variant_parse("flash_fwd_hdim72_bf16_sm86", &variants[1]));
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  for (int d = 0; d < 2; ++d)
    cuda->capability_of[d] = capabilities[d];
  attnpress_handle *handle = make_silent();
  CUcontext own = cuda->context_get();
  for (int round = 0; round < 4; ++round) {
    CUcontext contexts[2];
    for (int i = 0; i < 2; ++i)
      contexts[(i + round) % 2] = cuda->context_new((i + round) % 2); /* addresses change places */
    for (int call = 0; call < 4; ++call) {
      const int d = call % 2;
      ap_context *context;
      const ap_bound *bound;
      CUstream stream = cuda->stream_new(contexts[d]);
      cuda->context_set(contexts[1 - d]); /* the stream's counts */
      assert_ok(ap_context_of(handle, stream, &context));
      assert_int_equal(context->device.ordinal, d);
      assert_int_equal(context->device.capability, capabilities[d]);
      assert_int_equal(context->device.sm_count, sm_counts[d]);
      assert_ok(ap_kernel_get(handle, context, &variants[d], ap_variant_key(&variants[d]), NULL,
                              targets[d], stream, 0, &bound));
      assert_string_equal(bound->kernel->request.target, targets[d]);
      cuda->context_set(contexts[d]);
      const CUlaunchConfig config = {.grid_x = 1,
                                     .grid_y = 1,
                                     .grid_z = 1,
                                     .block_x = 128,
                                     .block_y = 1,
                                     .block_z = 1,
                                     .smem_bytes = (unsigned)bound->kernel->request.tile.smem_bytes,
                                     .stream = stream};
      unsigned char args[sizeof(attnpress_fwd_sm90_args)] = {0};
      void *parameters[] = {args};
      assert_int_equal(handle->driver.launch_kernel(&config, bound->function, parameters, NULL),
                       CUDA_SUCCESS);
      cuda->stream_free(stream);
    }
    for (int i = 1; i >= 0; --i)
      cuda->context_free(contexts[i]);
  }
  assert_int_equal(count_records(handle), 2);
  assert_int_equal(compiles(), 2);
  assert_int_equal(cuda->loads, 2);
  /* A kernel of the other device is refused by the driver and not bound. */
  CUcontext first = cuda->context_new(0);
  cuda->context_set(first);
  ap_context *context;
  const ap_bound *bound;
  assert_ok(ap_context_of(handle, NULL, &context));
  assert_int_equal(ap_kernel_get(handle, context, &variants[1], ap_variant_key(&variants[1]), NULL,
                                 "sm_86", NULL, 1, &bound),
                   ATTNPRESS_DRIVER_ERROR);
  assert_int_equal(count_bounds(context), 0);
  attnpress_destroy(handle);
  cuda->context_free(first);
  cuda->context_set(own);
  unsetenv("FAKE_CUDA_DEVICES");
}

/* ---- Processes ------------------------------------------------------------------------------- */

static void *get_slowly(void *user) {
  cuda->context_set(cuda->context_new(0));
  assert_ok(get(user));
  return NULL;
}

/** What a child can do with a handle of its parent's; 0: all is well, else what was not. */
static int use_in_child(attnpress_handle *handle, attnpress_handle *compile_only) {
  alarm(10);
  if (get(handle) != ATTNPRESS_INVALID_ARGUMENT)
    return 1;
  if (strstr(attnpress_last_error(), "a child: it must make a handle of its own") == NULL)
    return 2;
  if (attnpress_compile(handle, stem, "sm_90", NULL) != ATTNPRESS_INVALID_ARGUMENT)
    return 3;
  const int unloads = cuda->unloads;
  attnpress_destroy(handle);
  if (cuda->unloads != unloads)
    return 4;
  if (attnpress_compile(compile_only, "flash_fwd_hdim80_bf16_sm80", "sm_90", NULL) != ATTNPRESS_OK)
    return 5;
  attnpress_destroy(compile_only);
  attnpress_handle *own = make_silent();
  if (get(own) != ATTNPRESS_OK)
    return 6;
  attnpress_destroy(own);
  return 0;
}

/** A process forks while one of its threads compiles: the child gets an answer at once and can make
 * handles of its own, and a compile that the parent has ended holds up nobody. */
static void test_fork(void **state) {
  (void)state;
  setenv("FAKE_NVRTC_MS", "500", 1);
  attnpress_handle *handle = make_silent(), *compile_only;
  attnpress_options options = quiet_options();
  options.backend = ATTNPRESS_COMPILE_ONLY;
  assert_ok(attnpress_create(&compile_only, &options));
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, get_slowly, handle), 0);
  while (compiles() == 0)
    sched_yield();
  const pid_t child = fork();
  if (child == 0)
    _exit(use_in_child(handle, compile_only));
  const pid_t idle = fork(); /* has the descriptors of the cache, and keeps them */
  if (idle == 0)
    for (;;)
      pause();
  assert_int_equal(pthread_join(thread, NULL), 0);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  unsetenv("FAKE_NVRTC_MS");
  const int compiled = compiles();
  while (*find_file(cache_dir, ".entry") != '\0') /* .lock stays */
    unlink(find_file(cache_dir, ".entry"));
  unlink(find_file(cache_dir, ".entry"));
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  assert_ok(attnpress_compile(compile_only, stem, "sm_90", NULL));
  clock_gettime(CLOCK_MONOTONIC, &end);
  kill(idle, SIGKILL);
  assert_int_equal(waitpid(idle, NULL, 0), idle);
  assert_int_equal(status, 0);
  assert_int_equal(compiles(), compiled + 1);
  assert_true(end.tv_sec - begin.tv_sec < 5);
  attnpress_destroy(compile_only);
  attnpress_destroy(handle);
}

#define SLOW_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_slow, tear_down_slow)

int main(void) {
  const struct CMUnitTest tests[] = {
      SLOW_TEST(test_lines),
      SLOW_TEST(test_receiver_calls_back),
      SLOW_TEST(test_receiver_does_not_return),
      SLOW_TEST(test_contexts_come_and_go),
      SLOW_TEST(test_mixed_devices),
      SLOW_TEST(test_fork),
  };
  return cmocka_run_group_tests(tests, set_up_handles, tear_down_group);
}
