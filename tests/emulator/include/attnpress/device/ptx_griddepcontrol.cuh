// Stands in for the leaf header of the same name. Kernels run one after the other here, each when
// the one before has ended; but who has not waited for that may not count on it.
#pragma once

#include "attnpress/args/common.h"

// griddepcontrol.wait (PTX ISA, Parallel Synchronization and Communication Instructions:
// griddepcontrol).
__device__ __forceinline__ void griddepcontrol_wait() {
  emulated_wait_for_earlier();
}

// griddepcontrol.launch_dependents (as above).
__device__ __forceinline__ void griddepcontrol_launch_dependents() {}
