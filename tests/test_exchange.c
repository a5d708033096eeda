/* Calls on a Python library's tensors (runtime/exchange) without Python and without a GPU: the
 * interpreter, the library of tensors, the driver and NVRTC are stand-ins. What is launched, where
 * the workspace comes from and when it goes back, and that each reference taken is given back. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "attention_args.h"
#include "exchange/exchange.h"

/* ---- An interpreter and its tensors ---------------------------------------------------------- */

typedef struct object {
  int references;
  struct object *type;
  attnpress_tensor tensor; /* 4 dimensions */
  int device;
  int dimensions; /* of int32 */
} object;

static object type = {.references = 1}, other_type = {.references = 1}, none = {.references = 1},
              make = {.references = 1},
              maker = {.references = 1}; /* called with nothing: one like itself */
static object made[8];
static int made_count, tuples, locks, errors, is_raised;

static void *capsule_pointer(void *capsule, const char *name) {
  assert_string_equal(name, ATTNPRESS_EXCHANGE_CAPSULE);
  return capsule;
}
static void inc_ref(void *o) {
  ++((object *)o)->references;
}
static void dec_ref(void *o) {
  --((object *)o)->references;
}
static void *type_of(void *o) {
  inc_ref(((object *)o)->type);
  return ((object *)o)->type;
}
static void *call_object(void *callable, ...) {
  va_list rest;
  va_start(rest, callable);
  const object *like = va_arg(rest, object *);
  if (callable == &maker) {
    assert_null(like);
    like = &maker;
  } else {
    assert_ptr_equal(callable, &make);
    assert_null(va_arg(rest, object *));
  }
  va_end(rest);
  object *fresh = &made[made_count++];
  *fresh = (object){.references = 1, .type = &type, .device = like->device};
  fresh->tensor = attnpress_tensor_bshd(
      (char *)0x100000 + 0x1000 * made_count, like->tensor.shape[0], like->tensor.shape[1],
      like->tensor.shape[2], like->tensor.shape[3], ATTNPRESS_BF16);
  return fresh;
}
static void *pack(ptrdiff_t count, ...) {
  va_list rest;
  va_start(rest, count);
  for (ptrdiff_t i = 0; i < count; ++i)
    inc_ref(va_arg(rest, object *));
  va_end(rest);
  tuples += (int)count;
  return &none;
}
static void *address_of(void *o) {
  return (void *)((object *)o)->tensor.data;
}
static void clear_error(void) {
  ++errors;
  is_raised = 0;
}
static void *save_thread(void) {
  assert_int_equal(locks++, 0);
  return &locks;
}
static void restore_thread(void *state) {
  assert_ptr_equal(state, &locks);
  --locks;
}

static int look(void *o, ap_dl_tensor *out) {
  object *seen = o;
  const int is_floats = seen->tensor.dtype == ATTNPRESS_FP32;
  const int is_int32 = seen->tensor.dtype == ATTNPRESS_INT32;
  *out = (ap_dl_tensor){
      .data = (char *)seen->tensor.data - 64,
      .byte_offset = 64,
      .device = {AP_DL_CUDA, seen->device},
      .ndim = is_int32    ? seen->dimensions
              : is_floats ? 3
                          : 4,
      .dtype = {is_int32    ? AP_DL_INT
                : is_floats ? AP_DL_FLOAT
                            : AP_DL_BFLOAT,
                is_int32 || is_floats ? 32 : 16, 1},
      .shape = seen->tensor.shape,
      .strides = seen->tensor.stride,
  };
  return seen->device < 0 ? -1 : 0;
}

static CUstream stream;
static int current_stream(int32_t device_type, int32_t device_index, void **out) {
  assert_int_equal(device_type, AP_DL_CUDA);
  (void)device_index;
  *out = stream;
  return 0;
}

static ap_dl_managed workspace;
static int is_lent, launches_at_return, refuses_memory;
static int64_t workspace_bytes;
static void give_back(ap_dl_managed *self) {
  assert_ptr_equal(self, &workspace);
  is_lent = 0;
  launches_at_return = cuda->launches;
}
static int allocate(ap_dl_tensor *prototype, ap_dl_managed **out, void *error_context,
                    void (*set_error)(void *, const char *, const char *)) {
  assert_int_equal(locks, 1); /* without the interpreter's lock */
  assert_int_equal(prototype->device.type, AP_DL_CUDA);
  assert_int_equal(prototype->dtype.code, AP_DL_UINT);
  assert_int_equal(prototype->dtype.bits, 8);
  assert_int_equal(prototype->ndim, 1);
  workspace_bytes = prototype->shape[0];
  if (refuses_memory) {
    set_error(error_context, "MemoryError", "none left");
    is_raised = 1; /* by Python code that allocates, as of a dispatch mode */
    return -1;
  }
  workspace = (ap_dl_managed){.deleter = give_back};
  workspace.tensor.data = (char *)0x600000;
  is_lent = 1;
  *out = &workspace;
  return 0;
}

static const ap_dl_exchange tensors = {
    .version = {AP_DL_MAJOR, 3},
    .allocate = allocate,
    .look = look,
    .current_stream = current_stream,
};
static attnpress_handle *handles[2];
static attnpress_exchange exchange = {
    .tensors = &tensors,
    .handles = handles,
    .tensor_type = &type,
    .make = &make,
    .none = &none,
    .PyObject_Type = type_of,
    .PyObject_CallFunctionObjArgs = call_object,
    .PyTuple_Pack = pack,
    .Py_IncRef = inc_ref,
    .Py_DecRef = dec_ref,
    .PyLong_AsVoidPtr = address_of,
    .PyErr_Clear = clear_error,
    .PyEval_SaveThread = save_thread,
    .PyEval_RestoreThread = restore_thread,
};

/* ---- Calls ----------------------------------------------------------------------------------- */

static object q, k, v, out, dout, lse, template;

static object tensor_of(attnpress_tensor tensor) {
  return (object){.references = 1, .type = &type, .tensor = tensor};
}

static int set_up_exchange(void **state) {
  set_up(state);
  const attnpress_forward_args args = legal_args();
  q = tensor_of(args.q);
  k = tensor_of(args.k);
  v = tensor_of(args.v);
  out = tensor_of(args.out);
  dout = tensor_of(args.out);
  lse = tensor_of((attnpress_tensor){.data = args.lse,
                                     .shape = {BATCH, HEADS_Q, SEQLEN_Q},
                                     .stride = {HEADS_Q * SEQLEN_Q, SEQLEN_Q, 1},
                                     .dtype = ATTNPRESS_FP32});
  none.references = made_count = tuples = errors = is_raised = is_lent = refuses_memory = 0;
  launches_at_return = -1;
  stream = NULL;
  assert_int_equal(attnpress_exchange_open(capsule_pointer, sizeof exchange - 8), 0);
  assert_int_equal(attnpress_exchange_open(capsule_pointer, sizeof exchange), 1);
  handles[ATTNPRESS_CUDA] = make_handle();
  return 0;
}

static int tear_down_exchange(void **state) {
  attnpress_destroy(handles[ATTNPRESS_CUDA]);
  handles[ATTNPRESS_CUDA] = NULL;
  assert_int_equal(locks, 0);
  assert_int_equal(type.references, 1);
  const object *kept[] = {&q, &k, &v, &out, &dout, &lse};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; ++i)
    assert_int_equal(kept[i]->references, 1);
  return tear_down(state);
}

static void *run_forward(attnpress_forward_args *args, object *with_lse) {
  template = (object){.tensor.data = args};
  void *const given[] = {&template, &q, &k, &v, with_lse};
  return attnpress_exchange_forward(&exchange, given, 5);
}

static void assert_refused_by_forward(attnpress_forward_args *args) {
  assert_ptr_equal(run_forward(args, &lse), &none);
  assert_int_equal(none.references, 1);
  assert_int_equal(cuda->launches, 0);
  assert_false(is_raised);
  assert_int_equal(is_lent, 0);
  for (int i = 0; i < made_count; ++i)
    assert_int_equal(made[i].references, 0);
}

static void test_forward(void **state) {
  (void)state;
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  args.num_splits = 1;
  stream = cuda->stream_new(cuda->context_get());
  assert_ptr_equal(run_forward(&args, &lse), &made[0]);
  assert_int_equal(made[0].references, 1);
  assert_int_equal(cuda->launches, 1);
  assert_ptr_equal(cuda->launch[0].stream, stream);
  attnpress_fwd_sm90_args kernel;
  memcpy(&kernel, cuda->launch[0].args, sizeof kernel);
  assert_ptr_equal(kernel.fwd.out, made[0].tensor.data);
  assert_ptr_equal(kernel.fwd.lse, lse.tensor.data);
  assert_int_equal(kernel.fwd.seqlen_k, SEQLEN_K);
  assert_int_equal(launches_at_return, -1); /* no workspace */
  assert_ptr_equal(run_forward(&args, &none), &made[1]);
  memcpy(&kernel, cuda->launch[1].args, sizeof kernel);
  assert_null(kernel.fwd.lse);
  assert_int_equal(errors, 0);
  cuda->stream_free(stream);
}

static void test_workspace(void **state) {
  (void)state;
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  args.num_splits = 3;
  assert_ptr_equal(run_forward(&args, &lse), &made[0]);
  const size_t rows = BATCH * HEADS_Q * SEQLEN_Q, out_bytes = 3 * rows * HDIM * 4;
  assert_int_equal(workspace_bytes, (out_bytes + 255) / 256 * 256 + 3 * rows * 4);
  assert_int_equal(cuda->launches, 2);
  assert_int_equal(launches_at_return, 2); /* not before they are queued */
  assert_int_equal(is_lent, 0);
  attnpress_fwd_sm90_args kernel;
  attnpress_fwd_combine_args combine;
  memcpy(&kernel, cuda->launch[0].args, sizeof kernel);
  memcpy(&combine, cuda->launch[1].args, sizeof combine);
  assert_ptr_equal(kernel.fwd.out_partial, (void *)0x600000);
  assert_ptr_equal(combine.out_partial, (void *)0x600000);

  cuda->reset();
  refuses_memory = 1;
  made_count = 0;
  none.references = 0;
  assert_refused_by_forward(&args);
}

static void test_devices(void **state) {
  (void)state;
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  CUcontext first = cuda->context_get(), second = cuda->context_new(1);
  q.device = k.device = v.device = lse.device = 1;
  assert_refused_by_forward(&args); /* the default stream is the current context's */
  stream = cuda->stream_new(second);
  made_count = 0;
  assert_ptr_equal(run_forward(&args, &lse), &made[0]);
  assert_ptr_equal(cuda->launch[0].context, second);
  assert_ptr_equal(cuda->context_get(), first);
  k.device = 0;
  assert_ptr_equal(run_forward(&args, &lse), &none);
  assert_int_equal(made_count, 1); /* before anything was made */
  cuda->stream_free(stream);
  cuda->context_free(second);
}

static void test_no_context(void **state) {
  (void)state;
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  CUcontext context = cuda->context_get();
  cuda->context_set(NULL);
  assert_refused_by_forward(&args);
  cuda->context_set(context);
}

static void test_refused(void **state) {
  (void)state;
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  v.type = &other_type;
  assert_refused_by_forward(&args);
  assert_int_equal(other_type.references, 1);
  v.type = &type;
  none.references = 0;
  k.device = -1; /* which look() refuses */
  assert_refused_by_forward(&args);
  assert_int_equal(errors, 1);
  k.device = 0;
  none.references = 0;
  args.struct_size -= 8;
  assert_refused_by_forward(&args);
  args.struct_size += 8;
  none.references = 0;
  attnpress_handle *handle = handles[ATTNPRESS_CUDA];
  handles[ATTNPRESS_CUDA] = NULL;
  assert_refused_by_forward(&args);
  handles[ATTNPRESS_CUDA] = handle;
  assert_int_equal(made_count, 0);
  none.references = 0;
  k.tensor.shape[1] = 299; /* which the library refuses */
  assert_refused_by_forward(&args);
  assert_int_equal(made_count, 1);
}

static void test_backward(void **state) {
  (void)state;
  attnpress_backward_args args = ATTNPRESS_BACKWARD_ARGS_INIT;
  template = (object){.tensor.data = &args};
  k.tensor = attnpress_tensor_bshd(k.tensor.data, BATCH, SEQLEN_K, HEADS_KV, HDIM, ATTNPRESS_BF16);
  void *const given[] = {&template, &dout, &q, &k, &v, &out, &lse, &none};
  attnpress_exchange_backward(&exchange, given, 8);
  assert_int_equal(tuples, 3);
  for (int i = 0; i < 3; ++i)
    assert_int_equal(made[i].references, 1); /* the tuple's */
  assert_true(cuda->launches >= 2);
  assert_int_equal(launches_at_return, cuda->launches);
  assert_int_equal(is_lent, 0);
  assert_true(workspace_bytes > 0);

  /* The gradient by lse has the shape of lse. */
  object dlse = lse;
  void *const with_dlse[] = {&template, &dout, &q, &k, &v, &out, &lse, &dlse};
  attnpress_exchange_backward(&exchange, with_dlse, 8);
  assert_int_equal(tuples, 6);
  dlse.tensor.stride[1] = 2 * SEQLEN_Q;
  attnpress_exchange_backward(&exchange, with_dlse, 8);
  assert_int_equal(tuples, 6);
}

/* ---- Over a cache ---------------------------------------------------------------------------- */

enum { PAGE = 16, PAGES = 4 };
static object lengths, pages;

static void set_up_cache(void) {
  lengths = (object){.references = 1, .type = &type, .dimensions = 1};
  lengths.tensor = (attnpress_tensor){
      .data = (void *)0x70000, .shape = {BATCH}, .stride = {1}, .dtype = ATTNPRESS_INT32};
  pages = (object){.references = 1, .type = &type, .dimensions = 2};
  pages.tensor = (attnpress_tensor){.data = (void *)0x80000,
                                    .shape = {BATCH, PAGES},
                                    .stride = {PAGES + 3, 1},
                                    .dtype = ATTNPRESS_INT32};
}

static void *run_cache(attnpress_forward_args *args, object *with_pages) {
  template = (object){.tensor.data = args};
  void *const given[] = {&template, &q, &k, &v, &lengths, with_pages};
  return attnpress_exchange_cache(&exchange, given, 6);
}

static void assert_refused_by_cache(attnpress_forward_args *args, object *with_pages) {
  none.references = 0;
  made_count = 0;
  assert_ptr_equal(run_cache(args, with_pages), &none);
  assert_int_equal(none.references, 1);
  assert_int_equal(cuda->launches, 0);
}

/** The call is that of attnpress_forward() with the same group. */
static void assert_same_launches(const attnpress_forward_args *args, attnpress_ragged *ragged) {
  attnpress_forward_args plain = *args;
  plain.q = q.tensor;
  plain.k = k.tensor;
  plain.v = v.tensor;
  plain.out = made[0].tensor;
  plain.ragged = ragged;
  plain.workspace = (void *)0x600000;
  plain.workspace_bytes = 1 << 30;
  const int launches = cuda->launches;
  assert_int_equal(attnpress_forward(handles[ATTNPRESS_CUDA], &plain, stream), ATTNPRESS_OK);
  assert_int_equal(cuda->launches, 2 * launches);
  for (int i = 0; i < launches; ++i)
    assert_memory_equal(cuda->launch[i].args, cuda->launch[launches + i].args,
                        sizeof(attnpress_fwd_combine_args));
}

static void test_cache(void **state) {
  (void)state;
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  set_up_cache();
  args.num_splits = 2;
  assert_ptr_equal(run_cache(&args, &none), &made[0]);
  attnpress_ragged ragged = ATTNPRESS_RAGGED_INIT;
  ragged.batch = BATCH;
  ragged.seqused_k = lengths.tensor.data;
  assert_same_launches(&args, &ragged);
  assert_int_equal(is_lent, 0);

  cuda->reset();
  made_count = 0;
  k.tensor = v.tensor =
      attnpress_tensor_bshd(k.tensor.data, 7, PAGE, HEADS_KV, HDIM, ATTNPRESS_BF16);
  assert_ptr_equal(run_cache(&args, &pages), &made[0]);
  ragged.page_table = pages.tensor.data;
  ragged.page_table_rows = BATCH;
  ragged.page_table_pages = PAGES;
  ragged.page_table_stride = PAGES + 3;
  assert_same_launches(&args, &ragged);
  assert_int_equal(errors, 0);
}

static void test_cache_refused(void **state) {
  (void)state;
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  set_up_cache();
  lengths.tensor.shape[0] = BATCH + 1;
  assert_refused_by_cache(&args, &none);
  set_up_cache();
  lengths.tensor.stride[0] = 2;
  assert_refused_by_cache(&args, &none);
  set_up_cache();
  lengths.tensor.dtype = ATTNPRESS_FP32;
  assert_refused_by_cache(&args, &none);
  set_up_cache();
  lengths.device = 1;
  assert_refused_by_cache(&args, &none);
  set_up_cache();
  lengths.dimensions = 2;
  assert_refused_by_cache(&args, &none);
  k.tensor = v.tensor =
      attnpress_tensor_bshd(k.tensor.data, 7, PAGE, HEADS_KV, HDIM, ATTNPRESS_BF16);
  set_up_cache();
  assert_refused_by_cache(&args, &none); /* seven entries of a cache in one piece */
  pages.tensor.shape[0] = BATCH - 1;
  assert_refused_by_cache(&args, &pages);
  set_up_cache();
  pages.tensor.stride[1] = 2;
  assert_refused_by_cache(&args, &pages);
  set_up_cache();
  assert_ptr_equal(run_cache(&args, &pages), &made[0]);
}

/* ---- Calls that ran before ------------------------------------------------------------------- */

static object replays_object, replay_object, device_object;
static attnpress_replays replays;

/** A call of q, k, v and a new or a given out, and its struct. */
typedef struct kept_call {
  attnpress_forward_args args;
  attnpress_replay_word words[5];
  attnpress_replay replay;
} kept_call;

static void *run_replay(void *(*entry)(void *, void *const *, ptrdiff_t), kept_call *call,
                        object *with_out) {
  void *given[2 + ATTNPRESS_REPLAY_TENSORS] = {&replays_object, &device_object, &q, &k, &v,
                                               with_out};
  for (int i = 2; i < 2 + ATTNPRESS_REPLAY_TENSORS; ++i)
    if (given[i] == NULL)
      given[i] = &none;
  replay_object.tensor.data = &call->replay;
  if (entry == attnpress_exchange_keep)
    given[1] = &replay_object;
  none.references = 0;
  return entry(&exchange, given, 2 + ATTNPRESS_REPLAY_TENSORS);
}

/** The call without addresses: q, k, v, out and the workspace are sources 0 to 3 and 20. */
static void make_kept(kept_call *call, int num_splits) {
  *call = (kept_call){.args = ATTNPRESS_FORWARD_ARGS_INIT};
  attnpress_tensor *const tensor[] = {&call->args.q, &call->args.k, &call->args.v, &call->args.out};
  const object *const from[] = {&q, &k, &v, &out};
  for (int i = 0; i < 4; ++i) {
    *tensor[i] = from[i]->tensor;
    tensor[i]->data = NULL;
    call->words[i] =
        (attnpress_replay_word){(int32_t)(((char *)&tensor[i]->data - (char *)&call->args) / 8), i};
  }
  call->words[4] = (attnpress_replay_word){offsetof(attnpress_forward_args, workspace) / 8,
                                           ATTNPRESS_REPLAY_TENSORS};
  call->args.num_splits = num_splits;
  call->args.workspace_bytes = num_splits > 1 ? 1 << 24 : 0;
  call->replay = (attnpress_replay){.struct_size = sizeof call->replay,
                                    .image = (const unsigned char *)&call->args,
                                    .addresses = call->words,
                                    .address_count = num_splits > 1 ? 5 : 4,
                                    .image_bytes = sizeof call->args,
                                    .append = -1,
                                    .makes_out = 1,
                                    .workspace_bytes = (int64_t)call->args.workspace_bytes};
}

static void set_up_replays(void) {
  replays = (attnpress_replays){{NULL}};
  replays_object = (object){.tensor.data = &replays};
  device_object = (object){.tensor.data = NULL};
  q.tensor = attnpress_tensor_bshd(q.tensor.data, BATCH, SEQLEN_Q, HEADS_Q, HDIM, ATTNPRESS_BF16);
  out.tensor = q.tensor;
  out.tensor.data = (void *)0x90000;
  made_count = 0;
  cuda->reset();
}

static void assert_not_replayed(kept_call *call, object *with_out) {
  made_count = 0;
  cuda->reset();
  assert_ptr_equal(run_replay(attnpress_exchange_replay, call, with_out), &none);
  assert_int_equal(none.references, 1);
  assert_int_equal(cuda->launches, 0);
  assert_false(is_raised);
  for (int i = 0; i < made_count; ++i)
    assert_int_equal(made[i].references, 0);
}

static void test_replay(void **state) {
  (void)state;
  kept_call call;
  set_up_replays();
  make_kept(&call, 3);
  assert_not_replayed(&call, NULL);
  assert_ptr_equal(run_replay(attnpress_exchange_keep, &call, NULL), &none);
  q.tensor.data = (char *)q.tensor.data + 0x400; /* other addresses */
  v.tensor.data = (char *)v.tensor.data + 0x800;
  assert_ptr_equal(run_replay(attnpress_exchange_replay, &call, NULL), &made[0]);
  assert_int_equal(made[0].references, 1);
  assert_int_equal(workspace_bytes, 1 << 24);
  assert_int_equal(launches_at_return, cuda->launches);
  assert_int_equal(is_lent, 0);
  attnpress_forward_args plain = call.args;
  plain.q.data = q.tensor.data;
  plain.k.data = k.tensor.data;
  plain.v.data = v.tensor.data;
  plain.out.data = made[0].tensor.data;
  plain.workspace = (void *)0x600000;
  const int launches = cuda->launches;
  assert_int_equal(attnpress_forward(handles[ATTNPRESS_CUDA], &plain, NULL), ATTNPRESS_OK);
  assert_int_equal(cuda->launches, 2 * launches);
  attnpress_fwd_sm90_args kernel[2];
  for (int i = 0; i < 2; ++i)
    memcpy(&kernel[i], cuda->launch[i * launches].args, sizeof kernel[i]);
  assert_memory_equal(&kernel[0].fwd, &kernel[1].fwd, sizeof kernel[0].fwd);
  assert_memory_equal(cuda->launch[1].args, cuda->launch[launches + 1].args,
                      sizeof(attnpress_fwd_combine_args));
  assert_null(call.args.q.data); /* the struct is as it was */
}

static void test_replay_layouts(void **state) {
  (void)state;
  kept_call call, other, given;
  set_up_replays();
  make_kept(&call, 1);
  run_replay(attnpress_exchange_keep, &call, NULL);
  k.tensor.stride[1] *= 2;
  assert_not_replayed(&call, NULL);
  make_kept(&other, 1);
  run_replay(attnpress_exchange_keep, &other, NULL);
  assert_ptr_equal(run_replay(attnpress_exchange_replay, &other, NULL), &made[0]);
  attnpress_fwd_sm90_args kernel;
  memcpy(&kernel, cuda->launch[0].args, sizeof kernel);
  assert_ptr_equal(kernel.fwd.out, made[0].tensor.data);
  k.tensor.stride[1] /= 2;
  made_count = 0;
  assert_ptr_equal(run_replay(attnpress_exchange_replay, &call, NULL), &made[0]);

  assert_not_replayed(&call, &out); /* a given output is another layout */
  make_kept(&given, 1);
  given.replay.makes_out = 0;
  run_replay(attnpress_exchange_keep, &given, &out);
  assert_ptr_equal(run_replay(attnpress_exchange_replay, &given, &out), &out);
  assert_int_equal(out.references--, 2);
  memcpy(&kernel, cuda->launch[0].args, sizeof kernel);
  assert_ptr_equal(kernel.fwd.out, out.tensor.data);
}

static void test_replay_refused(void **state) {
  (void)state;
  kept_call call;
  set_up_replays();
  make_kept(&call, 2);
  run_replay(attnpress_exchange_keep, &call, NULL);
  q.tensor.data = (char *)q.tensor.data + 8; /* half of what the library reads at a time */
  assert_not_replayed(&call, NULL);
  q.tensor.data = (char *)q.tensor.data - 8;
  v.type = &other_type;
  assert_not_replayed(&call, NULL);
  v.type = &type;
  k.device = 1;
  assert_not_replayed(&call, NULL);
  k.device = 0;
  device_object.tensor.data = (void *)1; /* its default stream is another one */
  assert_not_replayed(&call, NULL);
  device_object.tensor.data = NULL;
  refuses_memory = 1;
  assert_not_replayed(&call, NULL);
  refuses_memory = 0;
  attnpress_handle *handle = handles[ATTNPRESS_CUDA];
  handles[ATTNPRESS_CUDA] = NULL;
  assert_not_replayed(&call, NULL);
  handles[ATTNPRESS_CUDA] = handle;
  made_count = 0;
  assert_ptr_equal(run_replay(attnpress_exchange_replay, &call, NULL), &made[0]);

  replays = (attnpress_replays){{NULL}};
  call.replay.struct_size -= 8; /* a package of another version */
  run_replay(attnpress_exchange_keep, &call, NULL);
  assert_not_replayed(&call, NULL);
  call.replay.struct_size += 8;
  call.replay.image_bytes = ATTNPRESS_REPLAY_IMAGE_BYTES + 8;
  run_replay(attnpress_exchange_keep, &call, NULL);
  assert_not_replayed(&call, NULL);
}

/* ---- Calls of rows that ran before ----------------------------------------------------------- */

static object calls_object, call_object_of_rows, count_object, parameter_type = {.references = 1};
static attnpress_rows_calls calls;

/** A call of q, k and a third tensor or none, which makes one output, as q, or two. */
typedef struct rows_call {
  uint64_t args[8];
  attnpress_replay_word words[6];
  attnpress_rows_call call;
} rows_call;

static uint64_t got[8];
static int rows_runs;
static attnpress_status rows_status;
static attnpress_status run_rows(attnpress_handle *handle, const void *args, void *on) {
  assert_ptr_equal(handle, handles[ATTNPRESS_CUDA]);
  assert_ptr_equal(on, stream);
  assert_int_equal(locks, 1);
  memcpy(got, args, sizeof got);
  ++rows_runs;
  return rows_status;
}

static void make_rows(rows_call *call, int outputs, int64_t bytes) {
  *call = (rows_call){.args = {7, 0, 0, 0, 0, 0, 0, 9}};
  const int sources[] = {0,
                         1,
                         2,
                         ATTNPRESS_ROWS_TENSORS,
                         ATTNPRESS_ROWS_TENSORS + 1,
                         ATTNPRESS_ROWS_TENSORS + ATTNPRESS_ROWS_OUTPUTS};
  for (int i = 0; i < 6; ++i)
    call->words[i] = (attnpress_replay_word){1 + i, sources[i]};
  call->words[4].source = outputs > 1 ? sources[4] : sources[3];
  call->words[5].source = bytes > 0 ? sources[5] : 0;
  call->call = (attnpress_rows_call){.struct_size = sizeof call->call,
                                     .run = run_rows,
                                     .image = (const unsigned char *)call->args,
                                     .addresses = call->words,
                                     .image_bytes = sizeof call->args,
                                     .address_count = 6,
                                     .outputs = outputs,
                                     .output = {{.like = 0}, {.make = &maker, .like = -1}},
                                     .workspace_bytes = bytes};
}

static void set_up_rows(void) {
  calls = (attnpress_rows_calls){{NULL}};
  calls_object = (object){.tensor.data = &calls};
  device_object = (object){.tensor.data = NULL};
  count_object = (object){.tensor.data = (void *)3};
  exchange.parameter_type = &parameter_type;
  q.tensor = attnpress_tensor_bshd((void *)0x10000, 2, 3, 4, 8, ATTNPRESS_BF16);
  out.tensor = q.tensor;
  out.tensor.data = (void *)0x90000;
  maker.tensor = out.tensor;
  rows_status = ATTNPRESS_OK;
  rows_runs = made_count = 0;
}

static void keep_rows(rows_call *call, object *third) {
  void *given[] = {&calls_object, &call_object_of_rows, &count_object, &q, &k, third, &out, &out};
  call_object_of_rows = (object){.tensor.data = &call->call};
  none.references = 0;
  assert_ptr_equal(attnpress_exchange_keep_rows(&exchange, given, 6 + call->call.outputs), &none);
  assert_int_equal(none.references, 1);
}

static void *rows_again(object *third) {
  void *given[] = {&calls_object, &device_object, &q, &k, third};
  none.references = tuples = made_count = rows_runs = 0;
  return attnpress_exchange_rows(&exchange, given, 5);
}

static void assert_no_rows(object *third, int runs) {
  assert_ptr_equal(rows_again(third), &none);
  assert_int_equal(none.references, 1);
  assert_int_equal(rows_runs, runs);
  assert_int_equal(is_lent, 0);
  assert_false(is_raised);
  for (int i = 0; i < made_count; ++i)
    assert_int_equal(made[i].references, 0);
}

static void test_rows(void **state) {
  (void)state;
  rows_call one, two;
  set_up_rows();
  assert_no_rows(&none, 0);
  make_rows(&one, 1, 0);
  make_rows(&two, 2, 4096);
  keep_rows(&one, &none);
  keep_rows(&two, &v);
  stream = cuda->stream_new(cuda->context_get());
  q.tensor.data = (char *)q.tensor.data + 2; /* any addresses */
  k.type = &parameter_type;
  assert_ptr_equal(rows_again(&none), &made[0]);
  assert_int_equal(made[0].references, 1);
  const uint64_t wanted[] = {7,
                             (uintptr_t)q.tensor.data,
                             (uintptr_t)k.tensor.data,
                             0,
                             (uintptr_t)made[0].tensor.data,
                             (uintptr_t)made[0].tensor.data,
                             (uintptr_t)q.tensor.data,
                             9};
  assert_memory_equal(got, wanted, sizeof got);
  assert_ptr_equal(rows_again(&v), &none); /* which stands for the tuple */
  assert_int_equal(tuples, 2);
  assert_int_equal(workspace_bytes, 4096);
  assert_int_equal(is_lent, 0);
  assert_int_equal(got[3], (uintptr_t)v.tensor.data);
  assert_int_equal(got[5], (uintptr_t)made[1].tensor.data);
  assert_int_equal(got[6], 0x600000);
  for (int i = 0; i < 2; ++i)
    assert_int_equal(made[i].references, 1); /* the tuple's */
  assert_int_equal(two.args[1], 0);          /* the struct is as it was */
  k.type = &type;
}

static void test_rows_given(void **state) {
  (void)state;
  rows_call call;
  set_up_rows();
  make_rows(&call, 1, 0);
  call.call.output[0] = (attnpress_rows_output){.like = 2, .is_given = 1};
  keep_rows(&call, &out);
  assert_ptr_equal(rows_again(&out), &out);
  assert_int_equal(out.references--, 2);
  assert_int_equal(made_count, 0);
  assert_int_equal(got[4], (uintptr_t)out.tensor.data);
}

static void test_rows_refused(void **state) {
  (void)state;
  rows_call call;
  set_up_rows();
  make_rows(&call, 1, 64);
  keep_rows(&call, &v);
  const attnpress_tensor before[] = {q.tensor, k.tensor};
  k.tensor.stride[1] *= 2;
  assert_no_rows(&v, 0);
  k.tensor = before[1];
  assert_no_rows(&none, 0);
  v.type = &other_type;
  assert_no_rows(&v, 0);
  v.type = &type;
  k.device = 1;
  assert_no_rows(&v, 0);
  k.device = 0;
  device_object.tensor.data = (void *)1;
  assert_no_rows(&v, 0);
  device_object.tensor.data = NULL;
  refuses_memory = 1;
  assert_no_rows(&v, 0);
  refuses_memory = 0;
  rows_status = ATTNPRESS_INVALID_ARGUMENT; /* the family's own way says what is wrong */
  assert_no_rows(&v, 1);
  rows_status = ATTNPRESS_OK;
  attnpress_handle *handle = handles[ATTNPRESS_CUDA];
  handles[ATTNPRESS_CUDA] = NULL;
  assert_no_rows(&v, 0);
  handles[ATTNPRESS_CUDA] = handle;
  call.call.output[0] = (attnpress_rows_output){.make = &maker, .like = -1};
  maker.device = 1; /* what is made lies elsewhere, or otherwise */
  assert_no_rows(&v, 0);
  maker.device = 0;
  maker.tensor.shape[1] = 5;
  assert_no_rows(&v, 0);
  maker.tensor = before[0];
  assert_ptr_equal(rows_again(&v), &made[0]);

  calls = (attnpress_rows_calls){{NULL}};
  call.call.struct_size -= 8; /* a package of another version */
  keep_rows(&call, &v);
  assert_no_rows(&v, 0);
  call.call.struct_size += 8;
  call.call.image_bytes = ATTNPRESS_ROWS_IMAGE_BYTES + 8;
  keep_rows(&call, &v);
  assert_no_rows(&v, 0);
  call.call.image_bytes = sizeof call.args;
  call.call.outputs = ATTNPRESS_ROWS_OUTPUTS + 1;
  keep_rows(&call, &v);
  assert_no_rows(&v, 0);
}

#define EXCHANGE_TEST(name)                                                                        \
  cmocka_unit_test_setup_teardown(name, set_up_exchange, tear_down_exchange)

int main(void) {
  const struct CMUnitTest tests[] = {
      EXCHANGE_TEST(test_forward),        EXCHANGE_TEST(test_workspace),
      EXCHANGE_TEST(test_devices),        EXCHANGE_TEST(test_no_context),
      EXCHANGE_TEST(test_refused),        EXCHANGE_TEST(test_backward),
      EXCHANGE_TEST(test_cache),          EXCHANGE_TEST(test_cache_refused),
      EXCHANGE_TEST(test_replay),         EXCHANGE_TEST(test_replay_layouts),
      EXCHANGE_TEST(test_replay_refused), EXCHANGE_TEST(test_rows),
      EXCHANGE_TEST(test_rows_given),     EXCHANGE_TEST(test_rows_refused),
  };
  return cmocka_run_group_tests(tests, set_up_attention, tear_down_group);
}
