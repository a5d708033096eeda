// Leaf header: the order of kernels that may overlap (programmatic dependent launch). One PTX
// instruction a function; before compute capability 9.0 kernels do not overlap, and there is none.
#pragma once

#include "attnpress/args/common.h"

// griddepcontrol.wait: waits until the kernels that this one was launched after have ended, and all
// that they wrote can be seen. Every thread comes through here before it touches what they write.
__device__ __forceinline__ void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// griddepcontrol.launch_dependents: the next kernel may be launched, once all thread blocks have
// come through here or ended; it still has to wait for this one's end before it reads what this one
// writes. Of a thread block the first thread that comes through here counts.
__device__ __forceinline__ void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
