/* One launch. */
#pragma once
#include "cuda/kernel.h"

/** Launches a kernel; its context is current. `block`: its argument block. `overlaps`: the kernel may
 * begin before what was launched before it has ended, and waits for that end itself
 * (griddepcontrol.wait). */
attnpress_status ap_launch_kernel(const ap_driver *driver, const ap_bound *bound, unsigned grid,
                                  const ap_tile *tile, int overlaps, void *block, CUstream stream);
