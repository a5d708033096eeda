/* Calls on a Python library's tensors; exchange.h says how. */
#include "exchange/exchange.h"

#include <string.h>

#include "exchange/tensors.h"

enum { FORWARD, BACKWARD, CACHE };
enum { INPUTS_MAX = 7, OUTPUTS_MAX = 3 };

/** What is taken of a tensor. */
typedef enum kind {
  WHOLE,   /* all of it */
  FLOATS,  /* the pointer of contiguous floats (batch, heads, seqlen) */
  LENGTHS, /* the pointer of int32 (batch): rows of a cache that are in use */
  PAGES,   /* int32 (batch, pages): the pages of each sequence */
} kind;

/** Where a tensor goes in the struct of arguments. */
typedef struct slot {
  size_t offset; /* of WHOLE and FLOATS */
  kind kind;
  int32_t is_optional; /* 1: None leaves it NULL */
} slot;

typedef struct operation {
  ap_run_lent *run;
  size_t args_bytes;
  int inputs, outputs;
  int q; /* which input it is */
  slot input[INPUTS_MAX];
  slot output[OUTPUTS_MAX]; /* output i is like input q + i */
} operation;

#define TENSOR(pass, name)                                                                         \
  { offsetof(attnpress_##pass##_args, name), WHOLE, 0 }
#define ROWS(pass, name, optional)                                                                 \
  { offsetof(attnpress_##pass##_args, name), FLOATS, optional }

static const operation operations[] = {
    [FORWARD] = {.run = ap_forward_lent,
                 .args_bytes = sizeof(attnpress_forward_args),
                 .inputs = 4,
                 .outputs = 1,
                 .q = 0,
                 .input = {TENSOR(forward, q), TENSOR(forward, k), TENSOR(forward, v),
                           ROWS(forward, lse, 1)},
                 .output = {TENSOR(forward, out)}},
    [BACKWARD] = {.run = ap_backward_lent,
                  .args_bytes = sizeof(attnpress_backward_args),
                  .inputs = 7,
                  .outputs = 3,
                  .q = 1,
                  .input = {TENSOR(backward, dout), TENSOR(backward, q), TENSOR(backward, k),
                            TENSOR(backward, v), TENSOR(backward, out), ROWS(backward, lse, 0),
                            ROWS(backward, dlse, 1)},
                  .output = {TENSOR(backward, dq), TENSOR(backward, dk), TENSOR(backward, dv)}},
    [CACHE] = {.run = ap_forward_lent,
               .args_bytes = sizeof(attnpress_forward_args),
               .inputs = 5,
               .outputs = 1,
               .q = 0,
               .input = {TENSOR(forward, q),
                         TENSOR(forward, k),
                         TENSOR(forward, v),
                         {.kind = LENGTHS},
                         {.kind = PAGES, .is_optional = 1}},
               .output = {TENSOR(forward, out)}},
};

/** One call. */
typedef struct exchange_call {
  const attnpress_exchange *python;
  const operation *what;
  union {
    attnpress_forward_args forward;
    attnpress_backward_args backward;
  } args;
  attnpress_ragged ragged; /* of CACHE, which args point to */
  ap_dl_device device;     /* of all tensors */
  void *made[OUTPUTS_MAX];
} exchange_call;

static void *at(exchange_call *call, const slot *s) {
  return (char *)&call->args + s->offset;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/** 0: neither fp16 nor bf16. Whether tensors of fp32 are to be cast first, the package asks. */
static int32_t dtype_of(const ap_dl_tensor *t) {
  if (t->dtype.lanes != 1 || t->dtype.bits != 16)
    return 0;
  return t->dtype.code == AP_DL_FLOAT    ? ATTNPRESS_FP16
         : t->dtype.code == AP_DL_BFLOAT ? ATTNPRESS_BF16
                                         : 0;
}

static int put_tensor(attnpress_tensor *to, const ap_dl_tensor *seen) {
  if (seen->ndim != 4)
    return 0;
  to->data = seen->data + seen->byte_offset;
  memcpy(to->shape, seen->shape, sizeof to->shape);
  memcpy(to->stride, seen->strides, sizeof to->stride);
  to->dtype = dtype_of(seen);
  return to->dtype != 0;
}

/** The pointer of (batch, heads, seqlen) contiguous floats; q: (batch, seqlen, heads, head_dim). */
static int put_floats(void **to, const ap_dl_tensor *seen, const attnpress_tensor *q) {
  const int64_t shape[] = {q->shape[0], q->shape[2], q->shape[1]};
  int64_t step = 1;
  if (seen->ndim != 3 || seen->dtype.code != AP_DL_FLOAT || seen->dtype.bits != 32 ||
      seen->dtype.lanes != 1)
    return 0;
  for (int i = 2; i >= 0; --i) {
    if (seen->shape[i] != shape[i] || (shape[i] > 1 && seen->strides[i] != step))
      return 0;
    step *= shape[i];
  }
  *to = seen->data + seen->byte_offset;
  return 1;
}

static int is_int32(const ap_dl_tensor *t) {
  return t->dtype.code == AP_DL_INT && t->dtype.bits == 32 && t->dtype.lanes == 1;
}

/** Lengths of the sequences of a cache; q: (batch, seqlen, heads, head_dim). */
static int put_lengths(attnpress_ragged *to, const ap_dl_tensor *seen, const attnpress_tensor *q) {
  if (!is_int32(seen) || seen->ndim != 1 || seen->shape[0] != q->shape[0] || seen->strides[0] != 1)
    return 0;
  to->batch = q->shape[0];
  to->seqused_k = (const int32_t *)(seen->data + seen->byte_offset);
  return to->seqused_k != NULL;
}

/** Their pages, behind the lengths. */
static int put_pages(attnpress_ragged *to, const ap_dl_tensor *seen) {
  if (!is_int32(seen) || seen->ndim != 2 || seen->shape[0] != to->batch || seen->strides[1] != 1)
    return 0;
  to->page_table = (const int32_t *)(seen->data + seen->byte_offset);
  to->page_table_rows = seen->shape[0];
  to->page_table_pages = seen->shape[1];
  to->page_table_stride = seen->shape[0] > 1 ? seen->strides[0] : 0;
  return to->page_table != NULL;
}

static int put(exchange_call *call, const slot *s, const ap_dl_tensor *seen) {
  const attnpress_tensor *q = at(call, &call->what->input[call->what->q]);
  switch (s->kind) {
  case FLOATS:
    return put_floats(at(call, s), seen, q);
  case LENGTHS:
    return put_lengths(&call->ragged, seen, q);
  case PAGES:
    return put_pages(&call->ragged, seen);
  case WHOLE:
    break;
  }
  return put_tensor(at(call, s), seen);
}

/** 1 where the memory of a new tensor has no gaps, and the order of another's dimensions: the last
 * is contiguous, and of two with equal strides the later one is the inner. */
static int has_order_of(const attnpress_tensor *made, const attnpress_tensor *like) {
  int64_t step = made->shape[3];
  int used = 0;
  if (made->stride[3] != 1)
    return 0;
  for (int done = 0; done < 3; ++done) {
    int next = -1;
    for (int i = 2; i >= 0; --i)
      if (!(used >> i & 1) && (next < 0 || like->stride[i] < like->stride[next]))
        next = i;
    used |= 1 << next;
    if (made->shape[next] <= 1)
      continue;
    if (made->stride[next] != step || like->stride[next] <= 0)
      return 0;
    step *= made->shape[next];
  }
  return 1;
}

/** Fills the arguments from the inputs; 0: they are not all ordinary. */
static int take_inputs(exchange_call *call, void *const *objects) {
  const operation *what = call->what;
  ap_dl_tensor seen[INPUTS_MAX];
  for (int i = 0; i < what->inputs; ++i) {
    const slot *s = &what->input[i];
    if (s->is_optional && objects[i] == call->python->none)
      continue;
    if (!ap_look(call->python, objects[i], &seen[i]) ||
        seen[i].device.type != seen[0].device.type ||
        seen[i].device.index != seen[0].device.index || !put(call, s, &seen[i]))
      return 0;
  }
  call->device = seen[0].device;
  return call->device.type == AP_DL_CUDA || call->device.type == AP_DL_CPU;
}

enum { MADE, NOT_ORDINARY, RAISED };

/** Makes the outputs and puts them into the arguments. */
static int make_outputs(exchange_call *call, void *const *objects) {
  const attnpress_exchange *python = call->python;
  const operation *what = call->what;
  for (int i = 0; i < what->outputs; ++i) {
    ap_dl_tensor seen;
    attnpress_tensor *to = at(call, &what->output[i]);
    void *like = objects[what->q + i];
    call->made[i] = python->PyObject_CallFunctionObjArgs(python->make, like, (void *)NULL);
    if (call->made[i] == NULL)
      return RAISED;
    if (!ap_look(python, call->made[i], &seen) || seen.device.type != call->device.type ||
        seen.device.index != call->device.index || !put_tensor(to, &seen) ||
        !has_order_of(to, at(call, &what->input[what->q + i])))
      return NOT_ORDINARY;
  }
  return MADE;
}

/* ---- The entries ----------------------------------------------------------------------------- */

/** 1 where the library ran the call. */
static int run_filled(exchange_call *call, attnpress_handle *handle, int pass) {
  const attnpress_exchange *python = call->python;
  void *stream;
  if (!ap_find_stream(python, call->device, &stream))
    return 0;
  ap_workspace w = ap_workspace_of(python->tensors, call->device);
  ap_run_lent *run = python->run[pass] != NULL ? python->run[pass] : call->what->run;
  void *state = python->PyEval_SaveThread();
  const attnpress_status status = run(handle, &call->args, stream, &w.base);
  python->PyEval_RestoreThread(state);
  ap_workspace_free(&w);
  if (status != ATTNPRESS_OK)
    python->PyErr_Clear(); /* what the library of tensors may have raised */
  return status == ATTNPRESS_OK;
}

/** MADE: the call was run. */
static int run(exchange_call *call, int pass, void *const *objects, ptrdiff_t count) {
  const attnpress_exchange *python = call->python;
  const void *given = count == 1 + call->what->inputs ? python->PyLong_AsVoidPtr(objects[0]) : NULL;
  if (given == NULL) {
    python->PyErr_Clear();
    return NOT_ORDINARY;
  }
  if (*(const size_t *)given != call->what->args_bytes)
    return NOT_ORDINARY;
  memcpy(&call->args, given, call->what->args_bytes);
  if (pass == CACHE) {
    call->ragged = (attnpress_ragged){.struct_size = sizeof call->ragged};
    call->args.forward.ragged = &call->ragged;
  }
  if (!take_inputs(call, objects + 1))
    return NOT_ORDINARY;
  attnpress_handle *handle =
      python->handles[call->device.type == AP_DL_CUDA ? ATTNPRESS_CUDA : ATTNPRESS_CPU];
  if (handle == NULL)
    return NOT_ORDINARY;
  const int made = make_outputs(call, objects + 1);
  if (made != MADE)
    return made;
  return run_filled(call, handle, pass) ? MADE : NOT_ORDINARY;
}

/** A new reference to what a call returns. */
static void *result_of(const exchange_call *call, int found) {
  const attnpress_exchange *python = call->python;
  if (found == RAISED)
    return NULL;
  if (found == MADE && call->what->outputs == 3)
    return python->PyTuple_Pack(3, call->made[0], call->made[1], call->made[2]);
  void *result = found == MADE ? call->made[0] : python->none;
  python->Py_IncRef(result);
  return result;
}

static void *enter(void *self, int pass, void *const *objects, ptrdiff_t count) {
  exchange_call call = {.what = &operations[pass]};
  const attnpress_exchange *python = ap_exchange_of(self);
  if (python == NULL)
    return NULL; /* with the exception of PyCapsule_GetPointer() */
  call.python = python;
  void *result = result_of(&call, run(&call, pass, objects, count));
  for (int i = 0; i < call.what->outputs; ++i)
    if (call.made[i] != NULL)
      python->Py_DecRef(call.made[i]);
  return result;
}

void *attnpress_exchange_forward(void *self, void *const *args, ptrdiff_t count) {
  return enter(self, FORWARD, args, count);
}

void *attnpress_exchange_backward(void *self, void *const *args, ptrdiff_t count) {
  return enter(self, BACKWARD, args, count);
}

void *attnpress_exchange_cache(void *self, void *const *args, ptrdiff_t count) {
  return enter(self, CACHE, args, count);
}
