/* The CPU kernel with AVX-512 F, BW, DQ and VL. */
#if defined(__x86_64__)
#include "cpu/vector_avx512.h"

#define AP_KERNEL ap_cpu_row_block_avx512
enum { TILE = 12 }; /* 24 accumulators of 32 registers */

#include "attention/cpu_kernel.inc.h"
#else
typedef int ap_cpu_avx512_is_for_x86_64; /* ISO C wants a declaration */
#endif
