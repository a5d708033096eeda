/* One launch. */
#pragma once
#include "cuda/kernel.h"

/** How a kernel is launched. */
typedef struct ap_launch_shape {
  unsigned grid;
  unsigned threads; /* of a thread block */
  unsigned cluster; /* thread blocks that run at the same time, on neighbouring SMs; 0 or 1: any */
  int overlaps; /* 1: may begin before what was launched before it has ended, and waits for that end
                   itself (griddepcontrol.wait) */
  int smem_bytes; /* dynamic shared memory of a thread block */
  int together;   /* 1: all thread blocks run at the same time, and may wait for each other */
  /* Clusters that the launch has work for, of which as many are launched as the driver says that
   * there is room for at the same time; 0, or where it does not say: the grid's. */
  unsigned clusters_most;
  ap_memo *memo; /* where the driver's answer is remembered; NULL: it is asked each time */
} ap_launch_shape;

/** Launches a kernel; its context is current. `block`: its argument block. */
attnpress_status ap_launch_kernel(const ap_driver *driver, const ap_bound *bound,
                                  const ap_launch_shape *shape, void *block, CUstream stream);
/** Sets `count` words of 4 bytes of device memory to 0, in the order of the stream; its context is
 * current. */
attnpress_status ap_clear_words(const ap_driver *driver, void *words, int32_t count,
                                CUstream stream);
