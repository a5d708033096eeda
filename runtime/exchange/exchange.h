/* Calls on a Python library's tensors, read through DLPack's C exchange interface. Private to the
 * Python package of the same version, which mirrors what is here (python/attnpress/_exchange.py);
 * it is no part of the public interface and may change with every release.
 *
 * Nothing of Python is needed to build or to load the library: the package hands over the addresses
 * of the interpreter's functions, all of its stable ABI, and makes builtin functions of the
 * entries. An entry runs a call that has nothing unusual about it, or does nothing and says so: the
 * package then goes its own way, which has all the checks and sentences. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attention/attention.h"
#include "exchange/dlpack.h"

/** A call of an operation, as ap_forward_lent(). */
typedef attnpress_status ap_run_lent(attnpress_handle *handle, const void *args, void *stream,
                                     ap_lender *lender);

/** What the entries need, handed to them as the pointer of a capsule of this name. */
#define ATTNPRESS_EXCHANGE_CAPSULE "attnpress_exchange"

typedef struct attnpress_exchange {
  const ap_dl_exchange *tensors;
  attnpress_handle *const *handles; /* (2), ATTNPRESS_CUDA and ATTNPRESS_CPU; NULL: not made yet */
  ap_run_lent *run[3]; /* in place of the library's, by entry, in their order; NULL: those */
  /* In place of attnpress_forward() and attnpress_append_forward() in calls that ran before: */
  attnpress_status (*forward)(attnpress_handle *, const void *args, void *stream);
  attnpress_status (*append_forward)(attnpress_handle *, const void *append, const void *forward,
                                     void *stream);
  /* Python objects, alive as long as this: */
  void *tensor_type;    /* of the tensors, which may not be of a type derived from it */
  void *parameter_type; /* except this one, in calls of rows; NULL: none is */
  void *make;           /* called with a tensor: a new one of its shape and order of dimensions */
  void *none;
  /* Functions of the interpreter, by their names: */
  void *(*PyObject_Type)(void *object);
  void *(*PyObject_CallFunctionObjArgs)(void *callable, ...);
  void *(*PyTuple_Pack)(ptrdiff_t count, ...);
  void (*Py_IncRef)(void *object);
  void (*Py_DecRef)(void *object);
  void *(*PyLong_AsVoidPtr)(void *object);
  void (*PyErr_Clear)(void);
  void *(*PyEval_SaveThread)(void);
  void (*PyEval_RestoreThread)(void *state);
} attnpress_exchange;

/** To be called before the entries: how they get at the capsule, by the process's interpreter.
 * exchange_bytes: of the caller's attnpress_exchange. 0: it is another one than the library's. */
ATTNPRESS_API int attnpress_exchange_open(void *(*PyCapsule_GetPointer)(void *, const char *),
                                          size_t exchange_bytes);

/** Builtin functions of Python (METH_FASTCALL) that run a call and return its outputs, which are
 * new tensors: out, or the tuple of dq, dk and dv. None: the call is not for this way. NULL with an
 * exception set: what `make` raised.
 *
 * self: the capsule. args[0]: the address, as an int, of an attnpress_forward_args or
 * attnpress_backward_args whose tensors and pointers to data are empty. Then, for the forward pass,
 * q, k, v, and lse, which is written, or None; for the backward pass dout, q, k, v, out, lse, and
 * dlse or None; over a cache q, k, v, how many of its rows are in use, int32 (batch), and their
 * pages, int32 (batch, pages), or None: `ragged` of the struct is not read. To be called with the
 * interpreter's lock, which the library's work does not hold. */
ATTNPRESS_API void *attnpress_exchange_forward(void *self, void *const *args, ptrdiff_t count);
ATTNPRESS_API void *attnpress_exchange_backward(void *self, void *const *args, ptrdiff_t count);
ATTNPRESS_API void *attnpress_exchange_cache(void *self, void *const *args, ptrdiff_t count);

/* ---- Calls that ran before ------------------------------------------------------------------- */

enum {
  ATTNPRESS_REPLAY_TENSORS = 20, /* the tensors of a call of sequences; the fourth is out */
  ATTNPRESS_REPLAY_OUT = 3,
  ATTNPRESS_REPLAY_DIMENSIONS = 4,
  ATTNPRESS_REPLAY_WORDS = 1 + ATTNPRESS_REPLAY_TENSORS * (1 + 2 * ATTNPRESS_REPLAY_DIMENSIONS),
  ATTNPRESS_REPLAY_BUCKETS = 64,
  ATTNPRESS_REPLAY_IMAGE_BYTES = 4096,
};

/** Where a word of the structs comes from. */
typedef struct attnpress_replay_word {
  int32_t word; /* which 8 bytes of the image */
  int32_t
      source; /* of addresses: a tensor's number, or behind them 20: the workspace, 21: q rotated;
                     of inner pointers: the byte of the image that it points to */
} attnpress_replay_word;

/** A call that ran, without its addresses. Made by the package; not changed once it is in a table,
 * and freed with the table, which whoever calls `replay` keeps. */
typedef struct attnpress_replay {
  size_t struct_size;
  const unsigned char *image; /* the structs of arguments, one behind the other */
  const attnpress_replay_word *addresses, *inner;
  int32_t address_count, inner_count;
  int32_t image_bytes, forward, append; /* the bytes at which those begin; append -1: none */
  int32_t makes_out; /* 1: out is made, laid out as q, which is contiguous; 0: it is given */
  int64_t workspace_bytes, rotated_bytes;
  /* Filled by attnpress_exchange_keep(): how the tensors lie. */
  uint64_t hash;
  int64_t count;
  int64_t words[ATTNPRESS_REPLAY_WORDS];
  struct attnpress_replay *next;
} attnpress_replay;

/** Calls that differ in nothing but how their tensors lie. */
typedef struct attnpress_replays {
  attnpress_replay *first[ATTNPRESS_REPLAY_BUCKETS];
} attnpress_replays;

/** Builtin functions of Python, as those above.
 *
 * keep: args[0]: the address of an attnpress_replays, args[1]: of an attnpress_replay, then its 20
 * tensors, each may be None. Returns None; a call with tensors that are not ordinary is not kept.
 *
 * replay: args[0]: the address of an attnpress_replays, args[1]: the current CUDA device, then 20
 * tensors. Runs the call that was kept with tensors that lie as these do, on addresses that are
 * multiples of 16 bytes where they are of q, k, v and out, and returns out. None: there is none, or
 * it failed. */
ATTNPRESS_API void *attnpress_exchange_keep(void *self, void *const *args, ptrdiff_t count);
ATTNPRESS_API void *attnpress_exchange_replay(void *self, void *const *args, ptrdiff_t count);

/* ---- Calls of rows that ran before ----------------------------------------------------------- */

/* Of all operations but attention's. Their structs hold addresses, of tensors and of a workspace,
 * and what follows from how the tensors lie. */

enum {
  ATTNPRESS_ROWS_TENSORS = 8, /* of a call, at the most */
  ATTNPRESS_ROWS_OUTPUTS = 4,
  ATTNPRESS_ROWS_DIMENSIONS = 6,
  ATTNPRESS_ROWS_WORDS =
      1 + (ATTNPRESS_ROWS_TENSORS + ATTNPRESS_ROWS_OUTPUTS) * (1 + 2 * ATTNPRESS_ROWS_DIMENSIONS),
  ATTNPRESS_ROWS_IMAGE_BYTES = 512,
};

/** A tensor that a call returns. */
typedef struct attnpress_rows_output {
  void *make;       /* Python callable; NULL: that of attnpress_exchange */
  int32_t like;     /* which tensor it is called with; -1: none */
  int32_t is_given; /* 1: it is that tensor, which the call writes */
} attnpress_rows_output;

/** A call that ran, without its addresses. Made and kept by the package, as attnpress_replay. */
typedef struct attnpress_rows_call {
  size_t struct_size;
  attnpress_status (*run)(attnpress_handle *handle, const void *args, void *stream);
  const unsigned char *image; /* the struct of arguments */
  /* Sources: a tensor's number, then 8: the first output ..., 12: the workspace. */
  const attnpress_replay_word *addresses;
  int32_t image_bytes, address_count, outputs, reserved;
  attnpress_rows_output output[ATTNPRESS_ROWS_OUTPUTS];
  int64_t workspace_bytes;
  /* Filled by attnpress_exchange_keep_rows(): how tensors, and outputs behind them, lie. */
  uint64_t hash; /* of the tensors' words, `count` of them */
  int64_t count, all;
  int64_t words[ATTNPRESS_ROWS_WORDS];
  struct attnpress_rows_call *next;
} attnpress_rows_call;

typedef struct attnpress_rows_calls {
  attnpress_rows_call *first[ATTNPRESS_REPLAY_BUCKETS];
} attnpress_rows_calls;

/** Builtin functions of Python, as those above.
 *
 * keep_rows: args[0]: the address of an attnpress_rows_calls, args[1]: of an attnpress_rows_call,
 * args[2]: how many tensors follow, as an int, then these, each may be None, then its outputs.
 * Returns None.
 *
 * rows: args[0]: the address of an attnpress_rows_calls, args[1]: the current CUDA device, then the
 * tensors. Runs the call that was kept with tensors that lie as these do, and returns its output,
 * or the tuple of several. None: there is none, or it failed. */
ATTNPRESS_API void *attnpress_exchange_keep_rows(void *self, void *const *args, ptrdiff_t count);
ATTNPRESS_API void *attnpress_exchange_rows(void *self, void *const *args, ptrdiff_t count);
