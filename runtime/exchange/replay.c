/* Calls that ran before, known again by how their tensors lie; exchange.h says how. */
#include <string.h>

#include "attnpress/append.h"
#include "exchange/tensors.h"

enum {
  TENSORS = ATTNPRESS_REPLAY_TENSORS,
  OUT = ATTNPRESS_REPLAY_OUT,
  WORKSPACE = TENSORS,
  ROTATED,
  SOURCES
};

/** The tensors of one call. */
typedef struct seen {
  ap_layouts layouts; /* in `words` */
  ap_dl_device device;
  ap_dl_tensor q;
  char *address[SOURCES];
  int64_t words[ATTNPRESS_REPLAY_WORDS];
} seen;

/** 0: they are not all ordinary. */
static int see(const attnpress_exchange *python, void *const *objects, seen *call) {
  int given = 0;
  call->layouts = (ap_layouts){.words = call->words};
  for (int i = 0; i < TENSORS; ++i) {
    ap_dl_tensor t;
    call->address[i] = NULL;
    if (objects[i] == python->none) {
      ap_add_word(&call->layouts, 0);
      continue;
    }
    if (!ap_look(python, objects[i], &t) || t.ndim > ATTNPRESS_REPLAY_DIMENSIONS)
      return 0;
    if (!given++) {
      call->device = t.device;
      call->q = t;
      ap_add_word(&call->layouts, (int64_t)t.device.type << 32 | t.device.index);
    } else if (t.device.type != call->device.type || t.device.index != call->device.index) {
      return 0;
    }
    ap_add_layout(&call->layouts, &t);
    if (t.data != NULL)
      call->address[i] = t.data + t.byte_offset;
  }
  return objects[0] != python->none &&
         (call->device.type == AP_DL_CUDA || call->device.type == AP_DL_CPU);
}

static const attnpress_replay *find(const attnpress_replays *table, const seen *call) {
  for (const attnpress_replay *r = table->first[call->layouts.hash % ATTNPRESS_REPLAY_BUCKETS];
       r != NULL; r = r->next)
    if (r->hash == call->layouts.hash && r->count == call->layouts.count &&
        memcmp(r->words, call->words, (size_t)r->count * sizeof *r->words) == 0)
      return r;
  return NULL;
}

/** Whether out, which was made after q, lies as q does: without gaps. */
static int lies_as_q(const ap_dl_tensor *out, const seen *call) {
  int64_t step = 1;
  if (out->ndim != call->q.ndim || out->device.type != call->device.type ||
      out->device.index != call->device.index || out->dtype.code != call->q.dtype.code ||
      out->dtype.bits != call->q.dtype.bits)
    return 0;
  for (int d = out->ndim - 1; d >= 0; --d) {
    if (out->shape[d] != call->q.shape[d] || (out->shape[d] > 1 && out->strides[d] != step))
      return 0;
    step *= out->shape[d];
  }
  return 1;
}

static attnpress_status run_structs(const attnpress_exchange *python, const attnpress_replay *r,
                                    unsigned char *image, attnpress_handle *handle, void *stream) {
  void *forward = image + r->forward;
  if (r->append < 0)
    return python->forward != NULL ? python->forward(handle, forward, stream)
                                   : attnpress_forward(handle, forward, stream);
  void *append = image + r->append;
  return python->append_forward != NULL ? python->append_forward(handle, append, forward, stream)
                                        : attnpress_append_forward(handle, append, forward, stream);
}

/** Runs the call; without the interpreter's lock. */
static attnpress_status run(const attnpress_exchange *python, const attnpress_replay *r, seen *call,
                            attnpress_handle *handle, void *stream) {
  enum { ALIGNMENT = 256 };
  uint64_t image[ATTNPRESS_REPLAY_IMAGE_BYTES / 8];
  ap_workspace memory = ap_workspace_of(python->tensors, call->device);
  const int64_t workspace = (r->workspace_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT,
                bytes = workspace + r->rotated_bytes;
  if (bytes > 0) {
    char *lent = memory.base.lend(&memory.base, (size_t)bytes);
    if (lent == NULL)
      return ATTNPRESS_OUT_OF_MEMORY;
    call->address[WORKSPACE] = lent;
    call->address[ROTATED] = lent + workspace;
  }
  memcpy(image, r->image, (size_t)r->image_bytes);
  for (int i = 0; i < r->address_count; ++i)
    image[r->addresses[i].word] = (uintptr_t)call->address[r->addresses[i].source];
  for (int i = 0; i < r->inner_count; ++i)
    image[r->inner[i].word] = (uintptr_t)image + (uintptr_t)r->inner[i].source;
  const attnpress_status status = run_structs(python, r, (unsigned char *)image, handle, stream);
  ap_workspace_free(&memory);
  return status;
}

/** A new reference to out; the interpreter's None: the call is not for this way. NULL: raised. */
static void *replay(const attnpress_exchange *python, void *const *objects) {
  seen call;
  const attnpress_replays *table = python->PyLong_AsVoidPtr(objects[0]);
  const intptr_t current = (intptr_t)python->PyLong_AsVoidPtr(objects[1]);
  const attnpress_replay *found;
  void *stream, *out = NULL, *none = python->none;
  objects += 2;
  if (table == NULL || !see(python, objects, &call) || (found = find(table, &call)) == NULL)
    goto other_way;
  attnpress_handle *handle =
      python->handles[call.device.type == AP_DL_CUDA ? ATTNPRESS_CUDA : ATTNPRESS_CPU];
  if (handle == NULL || (call.device.type == AP_DL_CUDA && call.device.index != current) ||
      !ap_find_stream(python, call.device, &stream))
    goto other_way;
  if (found->makes_out) {
    ap_dl_tensor made;
    out = python->PyObject_CallFunctionObjArgs(python->make, objects[0], (void *)NULL);
    if (out == NULL)
      return NULL;
    if (!ap_look(python, out, &made) || !lies_as_q(&made, &call))
      goto other_way;
    call.address[OUT] = made.data == NULL ? NULL : made.data + made.byte_offset;
  } else {
    out = objects[OUT];
    python->Py_IncRef(out);
  }
  for (int i = 0; i <= OUT; ++i)
    if ((uintptr_t)call.address[i] % 16 != 0)
      goto other_way;
  void *state = python->PyEval_SaveThread();
  const attnpress_status status = run(python, found, &call, handle, stream);
  python->PyEval_RestoreThread(state);
  if (status == ATTNPRESS_OK)
    return out;
  python->PyErr_Clear(); /* what the library of tensors may have raised */
other_way:
  if (out != NULL)
    python->Py_DecRef(out);
  python->Py_IncRef(none);
  return none;
}

void *attnpress_exchange_replay(void *self, void *const *args, ptrdiff_t count) {
  const attnpress_exchange *python = ap_exchange_of(self);
  if (python == NULL)
    return NULL;
  if (count == 2 + TENSORS)
    return replay(python, args);
  python->Py_IncRef(python->none);
  return python->none;
}

static void keep(const attnpress_exchange *python, void *const *objects) {
  seen call;
  attnpress_replays *table = python->PyLong_AsVoidPtr(objects[0]);
  attnpress_replay *r = python->PyLong_AsVoidPtr(objects[1]);
  if (table == NULL || r == NULL || r->struct_size != sizeof *r ||
      r->image_bytes > ATTNPRESS_REPLAY_IMAGE_BYTES || !see(python, objects + 2, &call) ||
      find(table, &call) != NULL)
    return;
  r->hash = call.layouts.hash;
  r->count = call.layouts.count;
  memcpy(r->words, call.words, (size_t)r->count * sizeof *r->words);
  attnpress_replay **first = &table->first[r->hash % ATTNPRESS_REPLAY_BUCKETS];
  r->next = *first;
  *first = r;
}

void *attnpress_exchange_keep(void *self, void *const *args, ptrdiff_t count) {
  const attnpress_exchange *python = ap_exchange_of(self);
  if (python == NULL)
    return NULL;
  if (count == 2 + TENSORS)
    keep(python, args);
  python->Py_IncRef(python->none);
  return python->none;
}
