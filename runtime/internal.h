/* What the files of attention share: problem, plan, and the checks of a call. The headers of the
 * other parts stand in their folders. */
#pragma once
#include <stdint.h>

#include "../generated/families.h"
#include "attnpress/attnpress.h"
#include "attnpress/args/attention.h"
#include "core/error.h"
#include "core/struct.h"
#include "cuda/cuda_api.h"
#include "handle.h"
#include "press/cubin.h"
#include "press/registry.h"
#include "press/target.h"

enum { AP_SPLITS_MAX = 256 };

/* ---- attention/validate.c -------------------------------------------------------------------- */

const char *ap_dtype_name(int32_t dtype); /* "fp16" */

/* ---- press/device.c -------------------------------------------------------------------------- */

/** The numbers of a device that runs a target's cubins, the largest of its kind. */
attnpress_status ap_device_of_target(const char *target, ap_device *device);

/* ---- cuda/launch.c --------------------------------------------------------------------------- */

/** Launches a kernel; its context is current. `block`: its argument block. `overlaps`: the kernel may
 * begin before what was launched before it has ended, and waits for that end itself
 * (griddepcontrol.wait). */
attnpress_status ap_launch_kernel(const ap_driver *driver, const ap_bound *bound, unsigned grid,
                                  const ap_tile *tile, int overlaps, void *block, CUstream stream);

/* ---- compile.c ------------------------------------------------------------------------------- */

/** Fills what a request says of its kernel. */
void ap_request_describe(const ap_request *request, attnpress_info *info);
/** Checks the struct_size and the tail of a caller's attnpress_info. */
attnpress_status ap_check_info(const attnpress_info *info);
/** Writes what was found; the caller's struct_size stays. */
void ap_write_info(const attnpress_info *found, attnpress_info *info);
