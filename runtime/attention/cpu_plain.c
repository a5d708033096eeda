/* The CPU kernel in C with four-lane vectors, for every processor. */
#include "cpu/vector_plain.h"

#define AP_KERNEL ap_cpu_row_block_plain
#if defined(__aarch64__)
enum { TILE = 8 }; /* 16 accumulators of 32 registers */
#else
enum { TILE = 4 }; /* 8 accumulators of 16 registers */
#endif

#include "attention/cpu_kernel.inc.h"
