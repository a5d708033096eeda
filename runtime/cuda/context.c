/* The contexts that a handle has met. A context is known by its address and its id; each has a
 * table of the kernels that are ready in it, which is read without a lock. */
#include "cuda/context.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/error.h"
#include "handle.h"

enum { TABLE_CAPACITY = 64 };

/* ---- Contexts -------------------------------------------------------------------------------- */

attnpress_status ap_enter(attnpress_handle *handle, CUcontext context, int *pushed) {
  CUcontext current = NULL;
  *pushed = 0;
  if (handle->driver.ctx_get_current(&current) == CUDA_SUCCESS && current == context)
    return ATTNPRESS_OK;
  const CUresult result = handle->driver.ctx_push_current(context);
  if (result != CUDA_SUCCESS)
    return ap_driver_fail(&handle->driver, result, "cuCtxPushCurrent");
  *pushed = 1;
  return ATTNPRESS_OK;
}

void ap_leave(attnpress_handle *handle, int pushed) {
  CUcontext popped;
  if (pushed)
    handle->driver.ctx_pop_current(&popped);
}

static ap_context *find_context(attnpress_handle *handle, CUcontext context,
                                unsigned long long id) {
  ap_context *c = atomic_load_explicit(&handle->contexts, memory_order_acquire);
  while (c != NULL &&
         (c->context != context || atomic_load_explicit(&c->id, memory_order_acquire) != id))
    c = c->next;
  return c;
}

static ap_bound_table *new_table(size_t capacity, ap_bound_table *older) {
  ap_bound_table *table = calloc(1, sizeof *table + capacity * sizeof *table->slots);
  if (table == NULL)
    return NULL;
  table->capacity = capacity;
  table->older = older;
  for (size_t i = 0; i < capacity; ++i)
    atomic_init(&table->slots[i], NULL);
  return table;
}

static attnpress_status read_context_device(attnpress_handle *handle, CUcontext context,
                                            ap_device *device) {
  int pushed;
  CUdevice ordinal = 0;
  FORWARD_IF(ap_enter(handle, context, &pushed));
  const CUresult result = handle->driver.ctx_get_device(&ordinal);
  ap_leave(handle, pushed);
  if (result != CUDA_SUCCESS)
    return ap_driver_fail(&handle->driver, result, "cuCtxGetDevice");
  return ap_device_read(&handle->driver, ordinal, device);
}

attnpress_status ap_check_process(const attnpress_handle *handle) {
  const pid_t process = getpid();
  RETURN_IF(handle->backend == ATTNPRESS_CUDA && handle->process != process,
            ATTNPRESS_INVALID_ARGUMENT,
            "the handle was made by process %ld, and this is process %ld, a child: it must make a "
            "handle of its own, before which nobody may have started CUDA in it",
            (long)handle->process, (long)process);
  return ATTNPRESS_OK;
}

/** The record of an address, whatever its id; the caller holds the lock. */
static ap_context *find_address(attnpress_handle *handle, CUcontext context) {
  ap_context *c = atomic_load_explicit(&handle->contexts, memory_order_relaxed);
  while (c != NULL && c->context != context)
    c = c->next;
  return c;
}

/** Frees the kernels of a context that is gone and all tables but the newest, which is emptied. */
static void empty(ap_context *record) {
  ap_bound_table *table = atomic_load_explicit(&record->table, memory_order_relaxed);
  for (size_t i = 0; i < table->capacity; ++i) { /* the newest table has them all */
    free(atomic_load_explicit(&table->slots[i], memory_order_relaxed));
    atomic_store_explicit(&table->slots[i], NULL, memory_order_relaxed);
  }
  table->count = 0;
  while (table->older != NULL) {
    ap_bound_table *older = table->older;
    table->older = older->older;
    free(older);
  }
}

/** A record for an address, in the list; the caller holds the lock. NULL: memory ran out. */
static ap_context *new_record(attnpress_handle *handle, CUcontext context, unsigned long long id,
                              const ap_device *device) {
  ap_context *fresh = calloc(1, sizeof *fresh);
  ap_bound_table *table = new_table(TABLE_CAPACITY, NULL);
  if (fresh == NULL || table == NULL) {
    free(fresh);
    free(table);
    return NULL;
  }
  fresh->context = context;
  fresh->device = *device;
  fresh->device.memo = &fresh->memo;
  atomic_init(&fresh->id, id);
  atomic_init(&fresh->table, table);
  fresh->next = atomic_load_explicit(&handle->contexts, memory_order_relaxed);
  atomic_store_explicit(&handle->contexts, fresh, memory_order_release);
  return fresh;
}

static attnpress_status add_context(attnpress_handle *handle, CUcontext context,
                                    unsigned long long id, ap_context **added) {
  ap_device device;
  FORWARD_IF(ap_check_process(handle));
  FORWARD_IF(read_context_device(handle, context, &device));
  device.arch_max = handle->arch_max;

  pthread_mutex_lock(&handle->lock);
  ap_context *record = find_address(handle, context);
  if (record == NULL) {
    record = new_record(handle, context, id, &device);
  } else if (atomic_load_explicit(&record->id, memory_order_relaxed) != id) {
    empty(record);
    record->device = device;
    record->device.memo = &record->memo;
    atomic_store_explicit(&record->id, id, memory_order_release);
  } /* else another thread was first */
  pthread_mutex_unlock(&handle->lock);
  RETURN_IF(record == NULL, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for a context's kernels");
  *added = record;
  return ATTNPRESS_OK;
}

attnpress_status ap_context_of(attnpress_handle *handle, CUstream stream, ap_context **context) {
  const ap_driver *driver = &handle->driver;
  CUcontext found = NULL;
  unsigned long long id = 0;
  CUresult result =
      stream != NULL ? driver->stream_get_ctx(stream, &found) : driver->ctx_get_current(&found);
  RETURN_IF(result == CUDA_ERROR_INVALID_CONTEXT || (result == CUDA_SUCCESS && found == NULL),
            ATTNPRESS_INVALID_ARGUMENT,
            "no CUDA context is current in this thread; make one current first, for example with "
            "cudaSetDevice() or cuCtxSetCurrent()");
  if (result != CUDA_SUCCESS)
    return ap_driver_fail(driver, result, stream != NULL ? "cuStreamGetCtx" : "cuCtxGetCurrent");
  result = driver->ctx_get_id(found, &id);
  if (result != CUDA_SUCCESS)
    return ap_driver_fail(driver, result, "cuCtxGetId");
  *context = find_context(handle, found, id);
  return *context != NULL ? ATTNPRESS_OK : add_context(handle, found, id, context);
}

/* ---- The table of a context ------------------------------------------------------------------ */

static size_t slot_of(uint64_t key, size_t capacity) {
  return (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (capacity - 1);
}

const ap_bound *ap_bound_find(ap_context *context, uint64_t key) {
  ap_bound_table *table = atomic_load_explicit(&context->table, memory_order_acquire);
  for (size_t i = slot_of(key, table->capacity);; i = (i + 1) & (table->capacity - 1)) {
    const ap_bound *bound = atomic_load_explicit(&table->slots[i], memory_order_acquire);
    if (bound == NULL || bound->variant_key == key)
      return bound;
  }
}

static void put_bound(ap_bound_table *table, ap_bound *bound) {
  size_t i = slot_of(bound->variant_key, table->capacity);
  while (atomic_load_explicit(&table->slots[i], memory_order_relaxed) != NULL)
    i = (i + 1) & (table->capacity - 1);
  atomic_store_explicit(&table->slots[i], bound, memory_order_release);
  ++table->count;
}

int ap_bound_insert(ap_context *context, ap_bound *bound) {
  ap_bound_table *table = atomic_load_explicit(&context->table, memory_order_relaxed);
  if (2 * (table->count + 1) > table->capacity) {
    ap_bound_table *larger = new_table(2 * table->capacity, table);
    if (larger == NULL)
      return 0;
    for (size_t i = 0; i < table->capacity; ++i) {
      ap_bound *old = atomic_load_explicit(&table->slots[i], memory_order_relaxed);
      if (old != NULL)
        put_bound(larger, old);
    }
    atomic_store_explicit(&context->table, larger, memory_order_release);
    table = larger;
  }
  put_bound(table, bound);
  return 1;
}

void ap_contexts_free(attnpress_handle *handle) {
  ap_context *context = atomic_load(&handle->contexts);
  while (context != NULL) {
    ap_context *next = context->next;
    empty(context);
    ap_recall_free(&context->calls);
    free(atomic_load(&context->table));
    free(context);
    context = next;
  }
}
