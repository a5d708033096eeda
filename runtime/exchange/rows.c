/* Calls of rows, images and matrices that ran before, known again by how their tensors lie;
 * exchange.h says how. */
#include <string.h>

#include "exchange/tensors.h"

enum {
  TENSORS = ATTNPRESS_ROWS_TENSORS,
  OUTPUTS = ATTNPRESS_ROWS_OUTPUTS,
  WORKSPACE = TENSORS + OUTPUTS,
  SOURCES
};

/** The tensors of one call. */
typedef struct seen {
  ap_layouts layouts; /* in `words` */
  ap_dl_device device;
  char *address[SOURCES];
  int64_t words[ATTNPRESS_ROWS_WORDS];
} seen;

static char *data_of(const ap_dl_tensor *t) {
  return t->data == NULL ? NULL : t->data + t->byte_offset;
}

/** 0: they are not all ordinary, with all of their addresses. */
static int see(const attnpress_exchange *python, void *const *objects, ptrdiff_t count,
               seen *call) {
  int given = 0;
  call->layouts = (ap_layouts){.words = call->words};
  for (ptrdiff_t i = 0; i < count; ++i) {
    ap_dl_tensor t;
    if (objects[i] == python->none) {
      call->address[i] = NULL;
      ap_add_word(&call->layouts, 0);
      continue;
    }
    if (!ap_look_at_rows(python, objects[i], &t) || t.ndim > ATTNPRESS_ROWS_DIMENSIONS)
      return 0;
    if (!given++) {
      call->device = t.device;
      ap_add_word(&call->layouts, (int64_t)t.device.type << 32 | t.device.index);
    } else if (t.device.type != call->device.type || t.device.index != call->device.index) {
      return 0;
    }
    ap_add_layout(&call->layouts, &t);
    call->address[i] = data_of(&t);
    if (call->address[i] == NULL)
      return 0;
  }
  return given > 0 && (call->device.type == AP_DL_CUDA || call->device.type == AP_DL_CPU);
}

/** Adds an output, made or given, to what was seen; 0: it is not ordinary. */
static int see_output(const attnpress_exchange *python, void *object, int number, seen *call) {
  ap_dl_tensor t;
  if (!ap_look_at_rows(python, object, &t) || t.ndim > ATTNPRESS_ROWS_DIMENSIONS ||
      t.device.type != call->device.type || t.device.index != call->device.index)
    return 0;
  ap_add_layout(&call->layouts, &t);
  call->address[TENSORS + number] = data_of(&t);
  return call->address[TENSORS + number] != NULL;
}

static attnpress_rows_call **bucket_of(attnpress_rows_calls *table, uint64_t hash) {
  return &table->first[hash % ATTNPRESS_REPLAY_BUCKETS];
}

static const attnpress_rows_call *find(attnpress_rows_calls *table, const seen *call) {
  for (const attnpress_rows_call *r = *bucket_of(table, call->layouts.hash); r != NULL; r = r->next)
    if (r->hash == call->layouts.hash && r->count == call->layouts.count &&
        memcmp(r->words, call->words, (size_t)r->count * sizeof *r->words) == 0)
      return r;
  return NULL;
}

/** A new reference to an output; NULL: raised. */
static void *output_of(const attnpress_exchange *python, const attnpress_rows_output *output,
                       void *const *objects) {
  void *make = output->make != NULL ? output->make : python->make;
  if (!output->is_given)
    return output->like < 0
               ? python->PyObject_CallFunctionObjArgs(make, (void *)NULL)
               : python->PyObject_CallFunctionObjArgs(make, objects[output->like], (void *)NULL);
  python->Py_IncRef(objects[output->like]);
  return objects[output->like];
}

/** Runs the call; without the interpreter's lock. */
static attnpress_status run(const attnpress_exchange *python, const attnpress_rows_call *r,
                            seen *call, attnpress_handle *handle, void *stream) {
  uint64_t image[ATTNPRESS_ROWS_IMAGE_BYTES / 8];
  ap_workspace memory = ap_workspace_of(python->tensors, call->device);
  if (r->workspace_bytes > 0) {
    call->address[WORKSPACE] = memory.base.lend(&memory.base, (size_t)r->workspace_bytes);
    if (call->address[WORKSPACE] == NULL)
      return ATTNPRESS_OUT_OF_MEMORY;
  }
  memcpy(image, r->image, (size_t)r->image_bytes);
  for (int i = 0; i < r->address_count; ++i)
    image[r->addresses[i].word] = (uintptr_t)call->address[r->addresses[i].source];
  const attnpress_status status = r->run(handle, image, stream);
  ap_workspace_free(&memory);
  return status;
}

/** A new reference to what the call returns; the outputs keep theirs. */
static void *result_of(const attnpress_exchange *python, int count, void *const *made) {
  switch (count) {
  case 1:
    python->Py_IncRef(made[0]);
    return made[0];
  case 2:
    return python->PyTuple_Pack(2, made[0], made[1]);
  case 3:
    return python->PyTuple_Pack(3, made[0], made[1], made[2]);
  default:
    return python->PyTuple_Pack(4, made[0], made[1], made[2], made[3]);
  }
}

enum { RAN, NOT_ORDINARY, RAISED };

/** made: (outputs), new references, NULL where it did not come to them. */
static int run_found(const attnpress_exchange *python, const attnpress_rows_call *r, seen *call,
                     void *const *objects, void **made) {
  attnpress_handle *handle =
      python->handles[call->device.type == AP_DL_CUDA ? ATTNPRESS_CUDA : ATTNPRESS_CPU];
  void *stream;
  if (handle == NULL || !ap_find_stream(python, call->device, &stream))
    return NOT_ORDINARY;
  for (int i = 0; i < r->outputs; ++i) {
    made[i] = output_of(python, &r->output[i], objects);
    if (made[i] == NULL)
      return RAISED;
    if (!see_output(python, made[i], i, call))
      return NOT_ORDINARY;
  }
  if (call->layouts.count != r->all ||
      memcmp(r->words, call->words, (size_t)r->all * sizeof *r->words) != 0)
    return NOT_ORDINARY;
  void *state = python->PyEval_SaveThread();
  const attnpress_status status = run(python, r, call, handle, stream);
  python->PyEval_RestoreThread(state);
  if (status == ATTNPRESS_OK)
    return RAN;
  python->PyErr_Clear(); /* what the library of tensors may have raised */
  return NOT_ORDINARY;
}

void *attnpress_exchange_rows(void *self, void *const *args, ptrdiff_t count) {
  const attnpress_exchange *python = ap_exchange_of(self);
  if (python == NULL)
    return NULL;
  seen call;
  void *made[OUTPUTS] = {NULL}, *result = python->none;
  attnpress_rows_calls *table = count > 2 ? python->PyLong_AsVoidPtr(args[0]) : NULL;
  const attnpress_rows_call *r = NULL;
  int came = NOT_ORDINARY;
  if (table != NULL && count <= 2 + TENSORS && see(python, args + 2, count - 2, &call))
    r = find(table, &call);
  if (r != NULL && (call.device.type != AP_DL_CUDA ||
                    call.device.index == (intptr_t)python->PyLong_AsVoidPtr(args[1])))
    came = run_found(python, r, &call, args + 2, made);
  if (came == NOT_ORDINARY)
    python->Py_IncRef(result);
  else
    result = came == RAN ? result_of(python, r->outputs, made) : NULL;
  for (int i = 0; i < OUTPUTS; ++i)
    if (made[i] != NULL)
      python->Py_DecRef(made[i]);
  return result;
}

static void keep(const attnpress_exchange *python, void *const *args, ptrdiff_t count) {
  seen call;
  attnpress_rows_calls *table = python->PyLong_AsVoidPtr(args[0]);
  attnpress_rows_call *r = python->PyLong_AsVoidPtr(args[1]);
  const ptrdiff_t tensors = (intptr_t)python->PyLong_AsVoidPtr(args[2]);
  if (table == NULL || r == NULL || r->struct_size != sizeof *r ||
      r->image_bytes > ATTNPRESS_ROWS_IMAGE_BYTES || r->outputs < 1 || r->outputs > OUTPUTS ||
      tensors < 1 || tensors > TENSORS || count != 3 + tensors + r->outputs ||
      !see(python, args + 3, tensors, &call) || find(table, &call) != NULL)
    return;
  r->hash = call.layouts.hash;
  r->count = call.layouts.count;
  for (int i = 0; i < r->outputs; ++i)
    if (!see_output(python, args[3 + tensors + i], i, &call))
      return;
  r->all = call.layouts.count;
  memcpy(r->words, call.words, (size_t)r->all * sizeof *r->words);
  r->next = *bucket_of(table, r->hash);
  *bucket_of(table, r->hash) = r;
}

void *attnpress_exchange_keep_rows(void *self, void *const *args, ptrdiff_t count) {
  const attnpress_exchange *python = ap_exchange_of(self);
  if (python == NULL)
    return NULL;
  if (count > 3)
    keep(python, args, count);
  python->Py_IncRef(python->none);
  return python->none;
}
