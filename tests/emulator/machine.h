/* The emulated machine as its parts see it: one block runs at a time, one thread of it at a time.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "emulator.h"
#include "fiber.h"
#include "include/emulated_ops.h"

enum { WARP_LANES = 32, THREADS_MAX = 1024, WARPS_MAX = THREADS_MAX / WARP_LANES };

typedef enum thread_state {
  THREAD_READY,
  THREAD_IN_WARP,    /* waits for its warp's other lanes */
  THREAD_AT_BARRIER, /* waits for the block's other threads */
  THREAD_EXITED,
} thread_state;

/** A copy of cp.async that has not been waited for. */
typedef struct pending_copy {
  uint32_t shared; /* to where, 16 bytes */
  const void *global;
  int bytes;        /* read from global; zeros follow */
  uint64_t group;   /* counted from the thread's start */
  const void *site; /* of its start */
} pending_copy;

typedef struct thread {
  fiber fiber;
  thread_state state;
  const char *instruction; /* that it waits in */
  const void *site;        /* where that is */
  void *operands;          /* of that */
  pending_copy *copies;    /* the oldest first */
  int copy_count, copy_capacity;
  uint64_t group; /* the open one */
} thread;

/** Executes a warp-wide instruction, once its lanes have arrived; operands[lane] are those of a
 * lane. */
typedef void warp_function(void *operands[WARP_LANES]);

typedef struct warp {
  warp_function *execute; /* the instruction that lanes wait in; NULL: none */
  int arrived;
} warp;

typedef struct machine {
  const emulated_launch *launch;
  unsigned block;
  int thread_count, current; /* current: the thread that runs */
  int at_barrier, exited;
  thread threads[THREADS_MAX];
  warp warps[WARPS_MAX];
  uint16_t ready[THREADS_MAX]; /* a ring */
  int ready_first, ready_count;
  fiber program; /* the stack of emulated_run() */

  uintptr_t stack_begin; /* the current thread's */
  uintptr_t shared_begin, shared_bytes;
  uint32_t epoch; /* barriers passed, counted over all blocks; from 1 */

  int failed;
  char *report;
} machine;
extern machine the_machine;

/* ---- module.c ---- */

struct emulated_module {
  void *library; /* of dlopen */
  int file;
  char path[64]; /* by which the file can be opened */
  void (*kernel)(void);
  uintptr_t begin, end;                 /* in memory */
  uintptr_t shared_begin, shared_bytes; /* its thread-local segment, which is the shared memory */
  uintptr_t dynamic_begin;              /* of the variable whose size the launch gives */
};

/* ---- scheduler.c ---- */

/** Waits until all lanes of the warp are here, and `execute` has run for all of them. */
void warp_execute(const char *instruction, warp_function *execute, void *operands,
                  const void *site);

/* ---- shared_memory.c: places are 32-bit addresses, from the segment's begin ---- */

void shared_reset(void); /* before a block */
void shared_free(void);
unsigned char *shared_pointer(uint32_t address);
/** Checks that `bytes` at `address` are shared memory of this launch, `alignment`-aligned. */
void shared_check_range(uint32_t address, int bytes, int alignment, const char *what,
                        const void *site);
/** A read or a write by the current thread. */
void shared_read(uint32_t address, int bytes, const void *site);
void shared_write(uint32_t address, int bytes, const void *site);
/** A read by all lanes of the current warp. */
void shared_warp_read(uint32_t address, int bytes, const void *site);
/** A copy into shared memory begins, and ends. */
void shared_copy_begin(uint32_t address, int bytes, const void *site);
void shared_copy_end(uint32_t address, int bytes, const void *site);

/* ---- global_memory.c ---- */

void global_reset(void); /* before a launch */
/** A read or a write by the current thread. */
void global_access(uintptr_t address, int bytes, int is_write, const void *site);

/* ---- cp_async.c ---- */

void cp_async_reset(thread *t); /* before a block */
void cp_async_free(thread *t);

/* ---- report.c ---- */

/** Ends the launch with a report: "block B, thread T: <sentence>", and the places of sites that
 * were named. Does not return. */
_Noreturn void machine_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** "compute_scores (kernel.cu:203) in kernel (kernel.cu:405)", of a return address in the module;
 * in one of a few buffers that take turns. */
const char *site_text(const void *site);

/** The address that the kernel called from. */
#define CALL_SITE() __builtin_return_address(0)
