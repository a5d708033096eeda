/* The checking mode: before a call is launched, what its index arrays hold is looked at. It copies
 * them from the device and waits for the stream; without the mode nobody reads device memory. */
#pragma once
#include "call.h"

enum { AP_INSPECTED_ARRAYS_MAX = 16 };

typedef struct ap_inspection {
  attnpress_handle *handle;
  CUstream stream;
  void *copies[AP_INSPECTED_ARRAYS_MAX]; /* freed when the inspection ends */
  int count;
} ap_inspection;

/** Where an operation's `inspect` reads an array of the call: on the CPU where it lies, else a copy.
 * *host is NULL where data is. OUT_OF_MEMORY, DRIVER_ERROR. */
attnpress_status ap_inspect_array(ap_inspection *inspection, const void *data, size_t bytes,
                                  const void **host);

/** Looks at a checked call in the checking mode; does nothing without it, where the operation has
 * nothing to look at, and while the stream is captured. context: NULL on the CPU. */
attnpress_status ap_inspect(attnpress_handle *handle, ap_context *context,
                            const ap_operation *operation, const ap_call *call, CUstream stream);
