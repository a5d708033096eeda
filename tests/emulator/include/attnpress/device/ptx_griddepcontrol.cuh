// Stands in for the leaf header of the same name. Kernels run one after the other here, each when
// the one before has ended.
#pragma once

#include "attnpress/args/common.h"

// griddepcontrol.wait (PTX ISA, Parallel Synchronization and Communication Instructions:
// griddepcontrol).
__device__ __forceinline__ void griddepcontrol_wait() {}

// griddepcontrol.launch_dependents (as above).
__device__ __forceinline__ void griddepcontrol_launch_dependents() {}
