/* Carries out an operation: what all of them have in common between a caller's arguments and the
 * launches. An operation is a table of functions that know its arguments and its kernels; this part
 * knows neither.
 *
 *     check -> plan -> find the kernels -> kernel arguments, launch by launch
 *
 * A call that is only run keeps all of it on the stack of the public function. A plan object keeps
 * the checked arguments and the launches, and can be asked about them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "core/recall.h"
#include "core/struct.h"
#include "cuda/launch.h"
#include "cuda/tensor_map.h"
#include "given.h"
#include "handle.h"
#include "press/registry.h"

/* ---- What an operation fills ----------------------------------------------------------------- */

/** The head of an operation's checked call, which goes on with what is its own. */
typedef struct ap_call {
  void *workspace; /* as the caller gave it */
  size_t workspace_bytes;
  int32_t has_snippet; /* 1: kernels whose launches say so end with a text of the caller's */
  unsigned char snippet_key[AP_SNIPPET_KEY_BYTES]; /* of all that this text is made of */
} ap_call;

enum { AP_LAUNCHES_MAX = 384 };

/** One kernel, and how it is launched. */
typedef struct ap_launch {
  ap_variant variant;
  uint64_t variant_key; /* its ap_variant_key(); 0: not known yet */
  ap_tile tile;
  const char *target;
  uint32_t grid;    /* thread blocks; 0: depends on the call (ranges only) */
  uint32_t cluster; /* of those, that run at the same time (cuda/launch.h); 0: each by itself */
  int32_t overlaps; /* 1: may begin before what was launched before it has ended; it waits itself */
  int32_t smem_bytes;     /* dynamic shared memory of a thread block, where more than the tile's */
  int32_t together;       /* 1: all its thread blocks run at the same time (cuda/launch.h) */
  uint32_t clusters_most; /* that it has work for: as many as fit are launched (cuda/launch.h); 0:
                             the grid's */
  int32_t clears; /* before it so many words of 4 bytes of the workspace are set to 0, the first */
  int32_t num_splits; /* parts that the work of one output is split into; 0: depends on the call */
  int32_t snippet;    /* 1: its source ends with the call's text */
} ap_launch;

/** The end of an operation's plan, `base`, behind what is its own: its launches in order. Not
 * initialised beyond `count`. */
typedef struct ap_launches {
  int count;              /* 0: the output is empty */
  size_t workspace_bytes; /* SIZE_MAX: no bound (ranges only) */
  ap_launch launch[AP_LAUNCHES_MAX];
} ap_launches;

/** The operation's own plan that launches are the end of. */
#define AP_PLAN_OF(type, launches) ((type *)(void *)((char *)(launches)-offsetof(type, base)))
#define AP_CONST_PLAN_OF(type, launches)                                                           \
  ((const type *)(const void *)((const char *)(launches)-offsetof(type, base)))

/** The argument block of a launch, and how many bytes of it the kernel reads at most. */
typedef struct ap_block {
  void *data;
  size_t bytes;
} ap_block;

#define AP_BLOCK(of) ((ap_block){&(of), sizeof(of)})

/** How a call's arguments are to be checked. */
typedef struct ap_check {
  int32_t backend;
  int32_t with_data; /* 0: data pointers are ignored */
  int32_t range;     /* ATTNPRESS_UP_TO: extents are maxima, 0 any */
} ap_check;

struct ap_inspection; /* inspect.h */

typedef struct ap_operation {
  const char *name; /* of the public function */
  /* Of its own structs: ap_call is the head of one, ap_launches the end of the other. */
  size_t call_bytes, plan_bytes;
  /** Checks a caller's arguments and fills `call`. */
  attnpress_status (*check)(const void *args, ap_check how, ap_call *call);
  /** Writes the text of a call that has one, and what is said of its errors: name, text, scope and
   * explain. While the caller's arguments are there. NULL: no call has one. */
  attnpress_status (*snippet)(const ap_call *call, ap_snippet *fresh);
  /** Chooses what is launched; pure. */
  attnpress_status (*plan)(const ap_call *call, const ap_device *device, int32_t range,
                           ap_launches *plan);
  /** Whether a plan that was made for `planned` serves `call`; the sentence says what differs. */
  attnpress_status (*serves)(const ap_call *call, const ap_call *planned, int32_t range);
  /** 1: kernels depend on what `serves` does not ask about (addresses, strides, what is given), so
   * that each run of a plan chooses its own. */
  int32_t plans_by_pointers;
  /** The argument block of launch `index`, which lives in the call; asked for in order. */
  attnpress_status (*arguments)(ap_maps *maps, ap_call *call, const ap_launches *plan, int index,
                                ap_block *block);
  /** Looks at what index arrays of a checked call hold, in the checking mode: INVALID_ARGUMENT with
   * the first entry that does not fit. NULL: no call has any. */
  attnpress_status (*inspect)(const ap_call *call, struct ap_inspection *inspection);
  attnpress_status (*run_cpu)(const ap_call *call, int32_t num_threads);
  void (*describe_cpu)(const ap_call *call, attnpress_info *info);
  /** ap_plan_run() with memory for a call and a plan of this operation. */
  attnpress_status (*run_planned)(const attnpress_plan *plan, const void *args, void *stream);
  /** Adds all of a caller's arguments, none of which has been looked at; 0: the call is not one that
   * is known again. NULL: none is. */
  int (*give)(const void *args, ap_given *given);
  /** Of a call that was checked: where it has the same addresses, in the same order. */
  void (*give_checked)(ap_call *call, ap_given *given);
  size_t run_bytes; /* of a call and its argument blocks, where there is `give` */
} ap_operation;

/** Where a call runs. */
typedef struct ap_place {
  attnpress_handle *handle;
  ap_context *context;
  CUstream stream;
} ap_place;

/* ---- What `plan` functions call --------------------------------------------------------------- */

/** The arch and the target of a launch whose variant's other axes stand: the best that the device
 * has and the handle takes; the last of a device is taken in any case. Something runs on the device,
 * as ap_check_capability() says. */
void ap_choose_arch(const ap_device *device, ap_launch *launch);

/** The key and the tile of a launch whose variant and target stand; as ap_find_tile(). */
attnpress_status ap_find_launch_tile(ap_launch *launch);

/** Whether a range has room for another launch, which is then its next; else NOT_SUPPORTED. */
attnpress_status ap_find_room(const ap_launches *range);

/** Adds a kernel to those of a range, unless it is there. Its grid depends on the call. */
attnpress_status ap_add_to_range(const ap_launch *launch, ap_launches *range);

/* ---- What `serves` functions call ------------------------------------------------------------- */

/** Whether a field of a call is that of the plan, or, in a range (ATTNPRESS_UP_TO), at most as
 * large; there a planned 0 is any. */
attnpress_status ap_check_extent(const char *name, int64_t value, int64_t planned, int32_t range);
/** Whether a pointer is given as it was for the plan; in a range it may be left out. */
attnpress_status ap_check_given(const char *name, const void *value, const void *planned,
                                int32_t range);

/* ---- What a public function calls ------------------------------------------------------------ */

/** A caller who does not know how large a workspace has to be, and has the memory for it. */
typedef struct ap_lender {
  int32_t device; /* ordinal of the GPU that the memory is on; a stream of another is refused */
  /** Memory of a workspace, which is used by what the call launches: 16-byte aligned device memory
   * that the stream's later work alone may use again. NULL: there is none. */
  void *(*lend)(struct ap_lender *lender, size_t bytes);
} ap_lender;

/** Runs an operation. lender: who gives the workspace; NULL: it is in the arguments. `call` and
 * `plan` are memory of the operation's own structs. */
attnpress_status ap_call_run_lent(attnpress_handle *handle, const ap_operation *operation,
                                  const void *args, void *stream, ap_lender *lender, ap_call *call,
                                  ap_launches *plan);
/** The same without a lender. */
attnpress_status ap_call_run(attnpress_handle *handle, const ap_operation *operation,
                             const void *args, void *stream, ap_call *call, ap_launches *plan);
/** Makes a plan object. */
attnpress_status ap_plan_make(attnpress_handle *handle, const ap_operation *operation,
                              const void *args, const attnpress_plan_options *options,
                              attnpress_plan **plan);
/** attnpress_plan_run(); `call` and `fresh` are memory of the operation's own structs. */
attnpress_status ap_plan_run(const attnpress_plan *plan, const void *args, void *stream,
                             ap_call *call, ap_launches *fresh);
