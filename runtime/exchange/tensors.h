/* What the entries of this folder ask of the interpreter and of its library of tensors. */
#pragma once
#include "exchange/exchange.h"

/** The struct that the capsule holds; NULL with the exception of PyCapsule_GetPointer(). */
const attnpress_exchange *ap_exchange_of(void *capsule);

/** 1 where a Python object is a tensor, and not of a derived type. */
int ap_look(const attnpress_exchange *python, void *object, ap_dl_tensor *seen);

/** The same, where a parameter is one, too. */
int ap_look_at_rows(const attnpress_exchange *python, void *object, ap_dl_tensor *seen);

/** How tensors lie, in words, by whose hash a call is found again. */
typedef struct ap_layouts {
  uint64_t hash;
  int64_t count;
  int64_t *words;
} ap_layouts;

void ap_add_word(ap_layouts *to, int64_t word);
/** Its device is not among them. */
void ap_add_layout(ap_layouts *to, const ap_dl_tensor *tensor);

/** The stream of this thread's work on a device; NULL on the CPU. 0: there is none. */
int ap_find_stream(const attnpress_exchange *python, ap_dl_device device, void **stream);

/** Memory of the library of tensors for one call. */
typedef struct ap_workspace {
  ap_lender base;
  const ap_dl_exchange *tensors;
  ap_dl_device device;
  ap_dl_managed *made; /* NULL: none yet */
} ap_workspace;

ap_workspace ap_workspace_of(const ap_dl_exchange *tensors, ap_dl_device device);
/** What is queued uses the memory still: its library gives it to later work of this stream. */
void ap_workspace_free(ap_workspace *workspace);
