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
  /* Python objects, alive as long as this: */
  void *tensor_type; /* of the tensors, which may not be of a type derived from it */
  void *make;        /* called with a tensor: a new one of its shape and order of dimensions */
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
