/* What is used of DLPack's C exchange interface, in our own words: github.com/dmlc/dlpack,
 * include/dlpack/dlpack.h of version 1.3. The layouts are those of major version 1. */
#pragma once
#include <stdint.h>

enum { AP_DL_MAJOR = 1 };
enum { AP_DL_CPU = 1, AP_DL_CUDA = 2 };                                    /* ap_dl_device.type */
enum { AP_DL_INT = 0, AP_DL_UINT = 1, AP_DL_FLOAT = 2, AP_DL_BFLOAT = 4 }; /* ap_dl_dtype.code */

typedef struct ap_dl_version {
  uint32_t major, minor;
} ap_dl_version;

typedef struct ap_dl_device {
  int32_t type, index;
} ap_dl_device;

typedef struct ap_dl_dtype {
  uint8_t code, bits;
  uint16_t lanes;
} ap_dl_dtype;

/** A tensor that belongs to somebody else, as do shape and strides. */
typedef struct ap_dl_tensor {
  char *data;
  ap_dl_device device;
  int32_t ndim;
  ap_dl_dtype dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: contiguous */
  uint64_t byte_offset;
} ap_dl_tensor;

/** A tensor of the receiver's, until it calls `deleter` (NULL: nothing to be done). */
typedef struct ap_dl_managed {
  ap_dl_version version;
  void *context;
  void (*deleter)(struct ap_dl_managed *self);
  uint64_t flags;
  ap_dl_tensor tensor;
} ap_dl_managed;

/** What a library of tensors offers, for the life of the process. Functions return 0, or -1: those
 * that take Python objects with a Python exception set. */
typedef struct ap_dl_exchange {
  ap_dl_version version;
  const struct ap_dl_exchange *older; /* a table of an older major version, or NULL */
  /** A new tensor with the prototype's dtype, shape and device. */
  int (*allocate)(ap_dl_tensor *prototype, ap_dl_managed **out, void *error_context,
                  void (*set_error)(void *error_context, const char *kind, const char *message));
  int (*managed_from_object)(void *object, ap_dl_managed **out);
  int (*object_from_managed)(ap_dl_managed *tensor, void **out);
  /** What a Python tensor is, valid as long as that lives and stays as it is; may be NULL. */
  int (*look)(void *object, ap_dl_tensor *out);
  /** The stream that the library's work goes to in this thread. */
  int (*current_stream)(int32_t device_type, int32_t device_index, void **out);
} ap_dl_exchange;
