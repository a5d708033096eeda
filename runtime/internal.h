/* What the files of attention share: problem, plan, and the checks of a call. The headers of the
 * other parts stand in their folders. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "attnpress/args/attention.h"
#include "core/error.h"
#include "core/struct.h"
#include "cuda/cuda_api.h"
#include "handle.h"
#include "press/cubin.h"
#include "press/registry.h"

enum { AP_HDIM_MAX = 512, AP_SPLITS_MAX = 256 };
enum { AP_SM90_HDIM_MAX = 256 }; /* of both head dims of sm90 kernels */
enum { AP_COMBINE_ARCH = 80 };   /* the combine kernel is one for all; its stems say sm80 */

/* ---- variant.c ------------------------------------------------------------------------------- */

const char *ap_dtype_name(int32_t dtype); /* "fp16" */
const char *ap_mask_name(int32_t mask);   /* "causal" */
/** INVALID_ARGUMENT, naming what is allowed, unless kernels exist for these head dims. */
attnpress_status ap_check_head_dims(int64_t hdim, int64_t hdim_v);

/* ---- registry.c ------------------------------------------------------------------------------ */

/** 1 where tiles exist for this pair of head dims. */
int ap_head_dims_listed(int32_t hdim, int32_t hdim_v);
/** "64/128, 96/64, ...": the pairs that differ. */
void ap_print_pairs(char *text, size_t size);

/* ---- choose.c: devices and targets ----------------------------------------------------------- */

/** NOT_SUPPORTED, naming device and requirement, where no architecture serves the device. */
attnpress_status ap_check_capability(int capability);
/** The numbers of a device that runs a target's cubins, the largest of its kind. */
attnpress_status ap_device_of_target(const char *target, ap_device *device);

typedef struct ap_target {
  const char *name; /* "sm_90" */
  int capability;   /* the least that it runs on */
  int smem_per_block_bytes;
} ap_target;
extern const ap_target ap_targets[];
extern const size_t ap_targets_count;
/** "sm_80, sm_86, ... and sm_120". */
void ap_print_targets(char *text, size_t size);
/** The row of a target; NULL where it is unknown. */
const ap_target *ap_find_target(const char *name);
/** The target of a stem's arch for a device; NULL: the device does not run that arch. */
const char *ap_target_for(int capability, int arch);
/** The target of combine kernels, whose stems all say sm80 and which run on every device; NULL: the
 * device is unknown. */
const char *ap_combine_target_for(int capability);

/* ---- cuda/launch.c --------------------------------------------------------------------------- */

/** Launches a kernel; its context is current. `block`: its argument block. `overlaps`: the kernel may
 * begin before what was launched before it has ended, and waits for that end itself
 * (griddepcontrol.wait). */
attnpress_status ap_launch_kernel(const ap_driver *driver, const ap_bound *bound, unsigned grid,
                                  const ap_tile *tile, int overlaps, void *block,
                                  CUstream stream);

/* ---- compile.c ------------------------------------------------------------------------------- */

/** Fills what a request says of its kernel. */
void ap_request_describe(const ap_request *request, attnpress_info *info);
/** Checks the struct_size and the tail of a caller's attnpress_info. */
attnpress_status ap_check_info(const attnpress_info *info);
/** Writes what was found; the caller's struct_size stays. */
void ap_write_info(const attnpress_info *found, attnpress_info *info);
