/* The contexts that a handle has met, and the kernels that are ready in each. */
#pragma once
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/recall.h"
#include "cuda/driver.h"

typedef struct ap_kernel ap_kernel;

/** A kernel in a context: what a launch needs. Immutable once published. */
typedef struct ap_bound {
  uint64_t variant_key;
  CUfunction function;
  const ap_kernel *kernel;
} ap_bound;

/** Open addressing, linear probing, at most half full; readers take no lock. A full table is
 * replaced by a larger one and kept until the handle goes, since a reader may still look at it. */
typedef struct ap_bound_table {
  struct ap_bound_table *older;
  size_t capacity, count; /* capacity is a power of two; count is the writers' */
  _Atomic(ap_bound *) slots[];
} ap_bound_table;

/** What a handle knows of a context. There is one record an address, kept until the handle goes,
 * since others may be walking over the list; `next` and `context` never change. When a context is
 * gone and another comes at its address, which its id tells, the record is the new one's: nobody
 * looks for the old id any more, as calls in a context end before it is destroyed. Whoever keeps a
 * record for longer than a call keeps the id too and compares it; the bounds of another id are
 * freed. Drivers allocate contexts, so that addresses come again and there are about as many
 * records as there were contexts at once. */
typedef struct ap_context {
  struct ap_context *next;
  CUcontext context;
  _Atomic(unsigned long long) id; /* stored last: who reads it may read the rest */
  ap_device device;
  ap_memo memo;    /* the device's */
  ap_recall calls; /* that ran, with their argument blocks (kept.h); keys have the id */
  _Atomic(ap_bound_table *) table;
} ap_context;

/** INVALID_ARGUMENT in a child of the process that made a handle for CUDA: the driver's contexts are
 * the parent's, and a lock may be held by a thread that the child does not have. */
attnpress_status ap_check_process(const attnpress_handle *handle);

/** The context that work on `stream` runs in: the stream's, or the calling thread's current one. */
attnpress_status ap_context_of(attnpress_handle *handle, CUstream stream, ap_context **context);
/** The kernel of a variant in a context; NULL: it is not ready there. Takes no lock. */
const ap_bound *ap_bound_find(ap_context *context, uint64_t variant_key);
/** Adds a kernel to a context, which then owns it; the caller holds the handle's lock. 0: memory
 * ran out. */
int ap_bound_insert(ap_context *context, ap_bound *bound);
void ap_contexts_free(attnpress_handle *handle);

/** Makes a context current for the calling thread, if it is not; leaves with ap_leave(). */
attnpress_status ap_enter(attnpress_handle *handle, CUcontext context, int *pushed);
void ap_leave(attnpress_handle *handle, int pushed);
