/* The interpreter and its tensors; tensors.h says what is asked of them. */
#include "exchange/tensors.h"

#include <stdatomic.h>

static void *(*_Atomic capsule_pointer)(void *, const char *);

int attnpress_exchange_open(void *(*PyCapsule_GetPointer)(void *, const char *),
                            size_t exchange_bytes) {
  if (exchange_bytes != sizeof(attnpress_exchange))
    return 0;
  atomic_store(&capsule_pointer, PyCapsule_GetPointer);
  return 1;
}

const attnpress_exchange *ap_exchange_of(void *capsule) {
  return atomic_load_explicit(&capsule_pointer, memory_order_relaxed)(capsule,
                                                                      ATTNPRESS_EXCHANGE_CAPSULE);
}

static int look(const attnpress_exchange *python, void *object, const void *other_type,
                ap_dl_tensor *seen) {
  void *type = python->PyObject_Type(object);
  python->Py_DecRef(type);
  if (type != python->tensor_type && type != other_type)
    return 0;
  if (python->tensors->look(object, seen) != 0) {
    python->PyErr_Clear();
    return 0;
  }
  return seen->shape != NULL && seen->strides != NULL;
}

int ap_look(const attnpress_exchange *python, void *object, ap_dl_tensor *seen) {
  return look(python, object, python->tensor_type, seen);
}

int ap_look_at_rows(const attnpress_exchange *python, void *object, ap_dl_tensor *seen) {
  return look(python, object, python->parameter_type, seen);
}

void ap_add_word(ap_layouts *to, int64_t word) {
  to->words[to->count++] = word;
  to->hash = (to->hash ^ (uint64_t)word) * 0x9e3779b97f4a7c15;
  to->hash ^= to->hash >> 32;
}

void ap_add_layout(ap_layouts *to, const ap_dl_tensor *t) {
  ap_add_word(to, 1 | t->ndim << 1 | t->dtype.code << 8 | t->dtype.bits << 16 |
                      (int64_t)t->dtype.lanes << 32);
  for (int d = 0; d < t->ndim; ++d) {
    ap_add_word(to, t->shape[d]);
    ap_add_word(to, t->strides[d]);
  }
}

int ap_find_stream(const attnpress_exchange *python, ap_dl_device device, void **stream) {
  *stream = NULL;
  if (device.type != AP_DL_CUDA ||
      python->tensors->current_stream(AP_DL_CUDA, device.index, stream) == 0)
    return 1;
  python->PyErr_Clear();
  return 0;
}

/* ---- Workspace ------------------------------------------------------------------------------- */

/** The package's own way says what went wrong. */
static void ignore_error(void *context, const char *kind, const char *message) {
  (void)context, (void)kind, (void)message;
}

static void *lend(ap_lender *lender, size_t bytes) {
  ap_workspace *w = (ap_workspace *)lender;
  int64_t shape = (int64_t)bytes;
  ap_dl_tensor prototype = {
      .device = w->device, .ndim = 1, .dtype = {AP_DL_UINT, 8, 1}, .shape = &shape};
  if (w->tensors->allocate(&prototype, &w->made, NULL, ignore_error) != 0) {
    w->made = NULL;
    return NULL;
  }
  return w->made->tensor.data + w->made->tensor.byte_offset;
}

ap_workspace ap_workspace_of(const ap_dl_exchange *tensors, ap_dl_device device) {
  return (ap_workspace){{device.index, lend}, tensors, device, NULL};
}

void ap_workspace_free(ap_workspace *workspace) {
  if (workspace->made != NULL && workspace->made->deleter != NULL)
    workspace->made->deleter(workspace->made);
}
