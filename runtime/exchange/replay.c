/* Calls that ran before, known again by how their tensors lie; exchange.h says how. */
#include <string.h>

#include "exchange/tensors.h"

enum { TENSORS = ATTNPRESS_REPLAY_TENSORS, OUTPUTS = ATTNPRESS_REPLAY_OUTPUTS };

/** The tensors of one call. */
typedef struct seen {
  int tensors;
  ap_dl_device device;
  char *address[TENSORS + OUTPUTS + 1];
  uint64_t hash;
  int64_t count;
  int64_t words[ATTNPRESS_REPLAY_WORDS];
} seen;

static uint64_t mixed(uint64_t hash, int64_t word) {
  hash = (hash ^ (uint64_t)word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

static void add_word(seen *call, int64_t word) {
  call->words[call->count++] = word;
  call->hash = mixed(call->hash, word);
}

static char *address_of(const ap_dl_tensor *t) {
  return t->data == NULL ? NULL : t->data + t->byte_offset;
}

/** What counts of a tensor beside shape and strides. */
static int64_t kind_of(const ap_dl_tensor *t) {
  const uintptr_t address = (uintptr_t)address_of(t);
  return 1 | t->dtype.code << 8 | t->dtype.bits << 16 | (int64_t)t->dtype.lanes << 32 |
         (int64_t)(address % 16) << 48 | (int64_t)(address != 0) << 52;
}

static uint64_t layout_of(const ap_dl_tensor *t) {
  uint64_t hash = mixed((uint64_t)t->ndim, kind_of(t));
  for (int d = 0; d < t->ndim; ++d)
    hash = mixed(mixed(hash, t->shape[d]), t->strides[d]);
  return hash;
}

/** 0: they are not all ordinary. */
static int see(const attnpress_exchange *python, void *const *objects, int count, seen *call) {
  int given = 0;
  call->tensors = count;
  call->hash = 0;
  call->count = 0;
  for (int i = 0; i < count; ++i) {
    ap_dl_tensor t;
    int same = 0;
    call->address[i] = NULL;
    if (call->count + 2 > ATTNPRESS_REPLAY_WORDS)
      return 0;
    if (objects[i] == python->none) {
      add_word(call, 0);
      continue;
    }
    if (!ap_look_at_any(python, objects[i], &t) ||
        call->count + 3 + 2 * (int64_t)t.ndim > ATTNPRESS_REPLAY_WORDS)
      return 0;
    if (!given++) {
      call->device = t.device;
      add_word(call, (int64_t)t.device.type << 32 | t.device.index);
    } else if (t.device.type != call->device.type || t.device.index != call->device.index) {
      return 0;
    }
    call->address[i] = address_of(&t);
    while (call->address[same] != call->address[i])
      ++same;
    add_word(call, kind_of(&t));
    add_word(call, (int64_t)same << 32 | t.ndim);
    for (int d = 0; d < t.ndim; ++d) {
      add_word(call, t.shape[d]);
      add_word(call, t.strides[d]);
    }
  }
  return given > 0 && (call->device.type == AP_DL_CUDA || call->device.type == AP_DL_CPU);
}

static const attnpress_replay *find(const attnpress_replays *table, const seen *call) {
  for (const attnpress_replay *r = table->first[call->hash % ATTNPRESS_REPLAY_BUCKETS]; r != NULL;
       r = r->next)
    if (r->hash == call->hash && r->count == call->count && r->tensors == call->tensors &&
        memcmp(r->words, call->words, (size_t)call->count * sizeof *call->words) == 0)
      return r;
  return NULL;
}

/** Whether a tensor that was made is an ordinary one where the call's are. */
static int is_made(const attnpress_exchange *python, void *object, const seen *call,
                   ap_dl_tensor *made) {
  return ap_look(python, object, made) && made->device.type == call->device.type &&
         made->device.index == call->device.index;
}

/** The tuple of outputs; NULL: `raised`, or they are not as they were. */
static void *make_outputs(const attnpress_exchange *python, const attnpress_replay *r,
                          void *const *objects, seen *call, int *raised) {
  void *tuple = python->PyTuple_New(r->outputs);
  *raised = tuple == NULL;
  for (int i = 0; i < r->outputs && tuple != NULL; ++i) {
    const attnpress_replay_output *output = &r->output[i];
    ap_dl_tensor made;
    void *like = output->like < 0 ? NULL : objects[output->like];
    if (output->maker == NULL) { /* one that was given */
      python->Py_IncRef(like);
      python->PyTuple_SetItem(tuple, i, like); /* which owns it now */
      continue;
    }
    void *object = python->PyObject_CallFunctionObjArgs(output->maker, like, (void *)NULL);
    *raised = object == NULL;
    const int fits =
        object != NULL && is_made(python, object, call, &made) && layout_of(&made) == output->hash;
    if (object != NULL)
      python->PyTuple_SetItem(tuple, i, object);
    if (!fits) {
      python->Py_DecRef(tuple);
      return NULL;
    }
    call->address[call->tensors + i] = address_of(&made);
  }
  return tuple;
}

/** Runs the call; without the interpreter's lock. */
static attnpress_status run(const attnpress_exchange *python, const attnpress_replay *r, seen *call,
                            attnpress_handle *handle, void *stream) {
  typedef attnpress_status run_one(attnpress_handle *, const void *, void *);
  typedef attnpress_status run_two(attnpress_handle *, const void *, const void *, void *);
  uint64_t image[ATTNPRESS_REPLAY_IMAGE_BYTES / 8];
  unsigned char *bytes = (unsigned char *)image;
  ap_workspace memory = ap_workspace_of(python->tensors, call->device);
  if (r->lent_bytes > 0) {
    char *lent = memory.base.lend(&memory.base, (size_t)r->lent_bytes);
    if (lent == NULL)
      return ATTNPRESS_OUT_OF_MEMORY;
    call->address[call->tensors + r->outputs] = lent;
  }
  memcpy(image, r->image, (size_t)r->image_bytes);
  for (int i = 0; i < r->address_count; ++i) {
    const attnpress_replay_word *w = &r->addresses[i];
    const uintptr_t base = w->source < 0 ? (uintptr_t)image : (uintptr_t)call->address[w->source];
    image[w->word] = base + (uintptr_t)w->beyond;
  }
  void *function = python->replayed != NULL ? python->replayed : r->function;
  const attnpress_status status =
      r->second < 0
          ? (*(run_one **)(void *)&function)(handle, bytes + r->first, stream)
          : (*(run_two **)(void *)&function)(handle, bytes + r->first, bytes + r->second, stream);
  ap_workspace_free(&memory);
  return status;
}

/** A new reference to the tuple; the interpreter's None: the call is not for this way. NULL:
 * raised. */
static void *replay(const attnpress_exchange *python, void *const *objects, int count) {
  seen call;
  const attnpress_replays *table = python->PyLong_AsVoidPtr(objects[0]);
  const intptr_t current = (intptr_t)python->PyLong_AsVoidPtr(objects[1]);
  const attnpress_replay *found;
  void *stream, *made = NULL, *none = python->none;
  int raised;
  objects += 2;
  if (table == NULL || !see(python, objects, count, &call) || (found = find(table, &call)) == NULL)
    goto other_way;
  attnpress_handle *handle =
      python->handles[call.device.type == AP_DL_CUDA ? ATTNPRESS_CUDA : ATTNPRESS_CPU];
  if (handle == NULL || (call.device.type == AP_DL_CUDA && call.device.index != current) ||
      !ap_find_stream(python, call.device, &stream))
    goto other_way;
  made = make_outputs(python, found, objects, &call, &raised);
  if (raised)
    return NULL;
  if (made == NULL)
    goto other_way;
  void *state = python->PyEval_SaveThread();
  const attnpress_status status = run(python, found, &call, handle, stream);
  python->PyEval_RestoreThread(state);
  if (status == ATTNPRESS_OK)
    return made;
  python->PyErr_Clear(); /* what the library of tensors may have raised */
  python->Py_DecRef(made);
other_way:
  python->Py_IncRef(none);
  return none;
}

void *attnpress_exchange_replay(void *self, void *const *args, ptrdiff_t count) {
  const attnpress_exchange *python = ap_exchange_of(self);
  if (python == NULL)
    return NULL;
  if (count > 2 && count <= 2 + TENSORS)
    return replay(python, args, (int)count - 2);
  python->Py_IncRef(python->none);
  return python->none;
}

/** 1: it is kept. */
static int keep(const attnpress_exchange *python, void *const *objects, int count) {
  seen call;
  attnpress_replays *table = python->PyLong_AsVoidPtr(objects[0]);
  attnpress_replay *r = python->PyLong_AsVoidPtr(objects[1]);
  objects += 2;
  if (table == NULL || r == NULL || r->struct_size != sizeof *r ||
      r->image_bytes > ATTNPRESS_REPLAY_IMAGE_BYTES || r->tensors + r->outputs != count ||
      r->tensors > TENSORS || r->outputs > OUTPUTS || !see(python, objects, r->tensors, &call) ||
      find(table, &call) != NULL)
    return 0;
  for (int i = 0; i < r->outputs; ++i) {
    ap_dl_tensor made;
    if (r->output[i].maker == NULL)
      continue;
    if (!is_made(python, objects[r->tensors + i], &call, &made))
      return 0;
    r->output[i].hash = layout_of(&made);
  }
  r->hash = call.hash;
  r->count = call.count;
  memcpy(r->words, call.words, (size_t)call.count * sizeof *call.words);
  attnpress_replay **first = &table->first[call.hash % ATTNPRESS_REPLAY_BUCKETS];
  r->next = *first;
  *first = r;
  return 1;
}

void *attnpress_exchange_keep(void *self, void *const *args, ptrdiff_t count) {
  const attnpress_exchange *python = ap_exchange_of(self);
  if (python == NULL)
    return NULL;
  void *result = python->none;
  if (count > 2 && count <= 2 + TENSORS + OUTPUTS && keep(python, args, (int)count - 2))
    result = args[0];
  python->Py_IncRef(result);
  return result;
}
