/* What the tests on the present GPU share: the device, a handle, checks that are counted. Included by
 * one file of a program, whose main() is
 *
 *     return run_on_gpu(tests);
 */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tools/cuda_device.h"
#include "attnpress/attnpress.h"

enum { SKIPPED = 77 /* the status of a test that cannot run */ };

static cuda_device gpu;
static attnpress_handle *handle;
static int failures, checks;

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    __atomic_fetch_add(&checks, 1, __ATOMIC_RELAXED);                                              \
    if (!(condition)) {                                                                            \
      __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                                          \
      printf("FAILED: %s:%d: %s (%s)\n", __func__, __LINE__, #condition, attnpress_last_error());  \
    }                                                                                              \
  } while (0)
#define CHECK_OK(call)   CHECK((call) == ATTNPRESS_OK)
#define CHECK_CUDA(call) CHECK((call) == CUDA_SUCCESS)

/** Ends the program as failed, where what a test needs is missing: with the line printed. */
static inline _Noreturn void give_up(const char *why) {
  printf("FAILED: %s\n", why);
  exit(1);
}

/** Runs a part of the tests, and says at once how long it took. Where the environment names a part, as
 * ATTNPRESS_TEST_PART, only that one. */
static inline void run_part(const char *name, void (*part)(void)) {
  struct timespec begin, end;
  const char *only = getenv("ATTNPRESS_TEST_PART");
  if (only != NULL && strcmp(only, name) != 0)
    return;
  timespec_get(&begin, TIME_UTC);
  part();
  timespec_get(&end, TIME_UTC);
  printf("%s: %.1f s, %d checks so far, %d failed\n", name,
         (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec), checks,
         failures);
  fflush(stdout);
}

/** Whether this is a shape to test. Where the environment says ATTNPRESS_TEST_SLICE=i/n, only one in n
 * of those that ask is, so that n programs share a part of the tests between them. */
static inline int in_slice(void) {
  static int shapes;
  const char *slice = getenv("ATTNPRESS_TEST_SLICE");
  int i, n;
  if (slice == NULL)
    return 1;
  if (sscanf(slice, "%d/%d", &i, &n) != 2 || i < 0 || i >= n)
    give_up("ATTNPRESS_TEST_SLICE is not i/n with 0 <= i < n");
  return shapes++ % n == i;
}

/** Runs `tests` with the first device and a handle of default options; the program's status. */
static int run_on_gpu(void (*tests)(void)) {
  char why[512];
  if (cuda_device_open(&gpu, 0, why, sizeof why) != 0) {
    printf("skipped: no CUDA device: %s\n", why);
    return SKIPPED;
  }
  CHECK_OK(attnpress_create(&handle, NULL));
  if (handle != NULL)
    tests();
  attnpress_destroy(handle);
  cuda_device_close(&gpu);
  printf("%d checks, %d failed\n", checks, failures);
  return failures != 0;
}
