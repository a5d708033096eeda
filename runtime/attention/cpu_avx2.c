/* The CPU kernel with AVX2, FMA and F16C. */
#if defined(__x86_64__)
#include "cpu/vector_avx2.h"

#define AP_KERNEL ap_cpu_row_block_avx2
enum { TILE = 6 }; /* 12 accumulators of 16 registers */

#include "attention/cpu_kernel.inc.h"
#else
typedef int ap_cpu_avx2_is_for_x86_64; /* ISO C wants a declaration */
#endif
