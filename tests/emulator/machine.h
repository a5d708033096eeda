/* The emulated machine as its parts see it: one block runs at a time, one thread of it at a time.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "emulator.h"
#include "fiber.h"
#include "include/emulated_ops.h"

enum {
  WARP_LANES = 32,
  GROUP_WARPS = 4, /* of a warpgroup */
  GROUP_LANES = GROUP_WARPS * WARP_LANES,
  THREADS_MAX = 1024,
  WARPS_MAX = THREADS_MAX / WARP_LANES,
  GROUPS_MAX = WARPS_MAX / GROUP_WARPS,
  MBARRIERS_MAX = 272,
  NAMED_BARRIERS = 16,
  CLUSTER_MAX = 16, /* blocks, of compute capability 9.0 */
};

typedef enum thread_state {
  THREAD_READY,
  THREAD_IN_WARP,    /* waits for the other lanes of its warp, or warpgroup */
  THREAD_AT_BARRIER, /* waits for the block's other threads */
  THREAD_WAITING,    /* waits for an object: a barrier's phase, registers */
  THREAD_EXITED,
} thread_state;

/** A copy of cp.async that has not been waited for. */
typedef struct pending_copy {
  uint32_t shared; /* to where */
  int size;        /* bytes written there */
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
  const void *object;      /* that it waits for, in THREAD_WAITING */
  uint32_t time;           /* of its accesses: order.c */
  uint32_t waited;         /* its time when it knew of the end of earlier kernels; 0: not yet */
  const void *polled;      /* the barrier that answered it no */
  pending_copy *copies;    /* the oldest first */
  int copy_count, copy_capacity;
  uint64_t group; /* the open one */
} thread;

/** Executes an instruction of a warp or a warpgroup, once its lanes have arrived; operands[lane]
 * are those of a lane. */
typedef void warp_function(void *operands[]);

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
  warp warps[WARPS_MAX], groups[GROUPS_MAX];
  uint16_t ready[THREADS_MAX]; /* a ring */
  int ready_first, ready_count, ready_of_group[GROUPS_MAX];
  fiber program; /* the stack of emulated_run() */

  uintptr_t stack_begin; /* the current thread's */
  uintptr_t shared_begin, shared_bytes;
  uint32_t epoch; /* the latest stamp that was given, counted over all blocks; from 1 */
  uint32_t floor; /* what threads did before this stamp is ordered before all that runs now */
  int partial;    /* this launch has barriers that order some threads only */
  int async;      /* this block has the copy engine or products read or write shared memory */

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
/** The same of a warpgroup, four warps of which the first is a multiple of four. */
void group_execute(const char *instruction, warp_function *execute, void *operands,
                   const void *site);
/** Waits for `object`, until threads_wake() names it: whether what it waits for is there, the
 * caller looks at again. */
void thread_wait(const void *object, const char *instruction, const void *site);
void threads_wake(const void *object);
/** The first thread of the current warp. */
int current_warp(void);

/* ---- order.c: who knows of what ----
 *
 * A stamp is a number from one counter. An access by thread t has the stamp threads[t].time; t's
 * time moves on when it releases. Thread r knows t up to a stamp where a chain of releases and
 * acquires leads from there to r. Besides threads there are actors that threads learn of by
 * waiting: the products of a warp, and the copies that a barrier in shared memory counts. */

/** Places in a clock of those actors. */
int order_products_of(int warp);
int order_copies_of(int mbarrier);
/** Clocks of objects by which threads order one another. */
int order_clock_of_mbarrier(int mbarrier, int completed);
int order_clock_of_named(int named);
int order_clock_of_cluster(int parity); /* of the barrier's phase */

void order_reset_launch(void);
void order_reset_block(void);
/** A new stamp, later than all others. */
uint32_t order_stamp(void);
void order_clear(int clock);
void order_copy(int to, int from);
/** What `thread` has done, and what it knows, goes into a clock. */
void order_release(int thread, int clock);
void order_acquire(int thread, int clock);
/** All threads of the block meet. */
void order_barrier(void);
/** Whether `thread` knows what thread `other` did at `stamp`. */
int order_knows(int thread, int other, uint32_t stamp);
/** Up to which stamp the thread knows of another. What it does after this call it does not know yet. */
uint32_t order_known_of(int thread, int other);
/** Up to which stamp a clock knows an actor that is no thread; the clock of a thread is its number.
 */
uint32_t order_known(int clock, int actor);
void order_learn(int clock, int actor, uint32_t stamp);
/** fence.proxy.async: what `thread` knows, the copy engine and products may see. */
void order_fence(int thread);
/** Whether `thread` knows that what `other` wrote at `stamp` has been fenced so. */
int order_knows_fenced(int thread, int other, uint32_t stamp);

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
/** A copy by cp.async into shared memory begins, and ends. */
void shared_copy_begin(uint32_t address, int bytes, const void *site);
void shared_copy_end(uint32_t address, int bytes, const void *site);
/** The copy engine begins to write 16 bytes, for the current thread; whoever knows `mbarrier`'s
 * copies up to `stamp` has seen their end. */
void shared_bulk_begin(uint32_t address, int mbarrier, uint32_t stamp, const void *site);

/** The copy engine begins to read 16 bytes, for the current thread, and has read them. */
void shared_bulk_read_begin(uint32_t address, uint32_t stamp, const void *site);
void shared_bulk_read_end(uint32_t address, const void *site);

/** A product of a warpgroup that reads shared memory. */
typedef struct product_reader {
  int group;
  uint32_t stamp;
  const void *site;
  int may_be_unwritten; /* NaN is read then */
  /* What the warpgroup's threads all know of one barrier's copies, kept from chunk to chunk. */
  int mbarrier; /* -1: none yet */
  uint32_t known;
} product_reader;
/** Reads 16 bytes for a product, which goes on until each warp has waited for it. */
const unsigned char *shared_product_read(product_reader *r, uint32_t address);

/* ---- global_memory.c ---- */

void global_reset(void);       /* before a launch */
void global_block_reset(void); /* before a block */
/** A read or a write by the current thread; a guess: a read of what earlier kernels may yet write. */
void global_guess(uintptr_t address, int bytes, const void *site);
void global_access(uintptr_t address, int bytes, int is_write, const void *site);
/** An addition in place, which other threads' additions to the same bytes need no order with. */
void global_reduction(uintptr_t address, int bytes, const void *site);
/** The same by the copy engine, which the current thread cannot wait for. */
void global_bulk_reduction(uintptr_t address, int bytes, const void *site);
/** A copy begins that will read from there. */
void global_bulk_begin(uintptr_t address, const void *site);
/** A write by the copy engine. */
void global_bulk_write(uintptr_t address, int bytes, const void *site);
/** What the copy engine has written or added there is the current thread's, which has waited for it. */
void global_bulk_written(uintptr_t address, int bytes);
/** The current thread hands what it knows over to those who acquire the counter, of other blocks. */
void global_release(uintptr_t counter);
void global_acquire(uintptr_t counter);
/** What the current thread has acquired the copy engine knows of, too, which it asks later. */
void global_fence(void);

/* ---- red.c ---- */

void tickets_reset(void); /* before a launch */

/* ---- cp_async.c ---- */

void cp_async_reset(thread *t); /* before a block */
void cp_async_free(thread *t);

/* ---- bulk.c ---- */

void bulk_reset(void);      /* before a block */
void bulk_check_exit(void); /* the current thread ends */

/* ---- ldmatrix.c ---- */

void fragments_reset(void); /* before a block */
/** A product of the current thread takes registers that ldmatrix may have loaded. */
void fragments_take(const uint32_t *begin, int words, const void *site);
/** The current thread arrives at an mbarrier. */
void fragments_arrival(const void *site);

/* ---- mbarrier.c ---- */

void mbarriers_reset(void); /* before a block */
int mbarriers_exist(void);  /* the block has initialised one */
/** The barrier at a shared address, which the current thread may use; its number. */
int mbarrier_find(uint32_t address, const char *what, const void *site);
/** The barrier's place overlaps these bytes; 0: none does. */
int mbarrier_overlaps(uint32_t address, int bytes);
/** The copy engine will bring `bytes` that the barrier counts. */
void mbarrier_copy_begin(int mbarrier, int bytes, const void *site);
/** The bytes have come. */
void mbarrier_copy_end(int mbarrier, int bytes);
/** A barrier that threads wait for and that only copies are missing at, the one with the latest
 * copy first; or -1. */
int mbarrier_to_complete(void);
/** The current thread learns what the latest phase of every barrier has handed over. */
void mbarriers_inform(void);
/** Those who wait for the present phase of a barrier will know what the current thread knows. */
void mbarrier_knows(int mbarrier);
/** A store of so many bytes from a block of the cluster has arrived. */
void mbarrier_store_ends(int mbarrier, int bytes, const void *site);
/** "mbarrier at smem + 98304: phase 2, 1 of 8 arrivals, 0 of 16384 bytes", for reports. */
void mbarrier_text(const void *object, char *text, size_t text_bytes);

/* ---- tma.c ---- */

void tma_reset(void); /* before a block */
/** Nobody can go on: carries out the copies of a barrier that threads wait for. 0: there is none.
 */
int tma_carry_out(void);
/** The block ends. */
void tma_check_exit(void);

/* ---- named_barrier.c ---- */

void named_barriers_reset(void); /* before a block */
void named_barrier_text(const void *object, char *text, size_t text_bytes);

/* ---- registers.c ---- */

void registers_reset(void);      /* before a block */
void registers_check_exit(void); /* the block ends */

/* ---- told.c ---- */

void told_reset(void); /* before each block */
/** Wakes threads that wait for what others tell. */
void told_wake(void);
/** The current thread waits until somebody tells something, or other blocks have run. */
void told_await(const char *what, const void *site);

/* ---- cluster.c ---- */

/** Runs the blocks of a cluster, from `first` on, each in a process of its own: one at a time, until
 * it waits for the others. `run_block` runs one. */
void cluster_run(unsigned first, unsigned blocks, unsigned of_cluster,
                 void (*run_block)(unsigned block));
/** No thread of this block can go on: lets the cluster's other blocks run, and comes back when it is
 * this one's turn. 0: there is nobody, or for `rounds` rounds nothing has happened. */
int cluster_let_others_run(int rounds);
/** Something has happened: the copy engine has brought data. */
void cluster_goes_on(void);
/** Brings the stores into this block that count at its mbarriers. 0: there are none. */
int cluster_bring_sent(void);
/** The current thread ends. */
void cluster_thread_exits(void);
/** 1 where the block has waited at the grid's barrier, or there are no others. */
int cluster_has_met(void);
/** How often the current thread has arrived at the cluster's barrier. */
uint32_t cluster_arrivals(void);
/** 1 where the current thread has waited at it since some thread of `block`, having arrived so often,
 * did something. */
int cluster_orders(unsigned block, uint32_t arrivals);

/* ---- earlier.c ---- */

void earlier_reset_launch(void);
void earlier_reset_block(void);
/** Fails where the current thread may not touch a tensor yet, as earlier kernels may still run;
 * `verb`: "reads". */
void earlier_check(const emulated_tensor *t, const char *verb, const void *site);
/** The launch has ended: 1 and a report where no thread has waited, so that later ones cannot. */
int earlier_unawaited(void);

/* ---- wgmma.c ---- */

void products_reset(void);      /* before a block */
void products_check_exit(void); /* the current thread ends */

/* ---- report.c ---- */

/** Ends the launch with a report: "block B, thread T: <sentence>", and the places of sites that
 * were named. Does not return. */
_Noreturn void machine_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** "compute_scores (kernel.cu:203) in kernel (kernel.cu:405)", of a return address in the module;
 * in one of a few buffers that take turns. */
const char *site_text(const void *site);
/** "smem + 1024", in one of a few buffers that take turns. */
const char *place_text(uint32_t shared);

/** The address that the kernel called from. */
#define CALL_SITE() __builtin_return_address(0)
