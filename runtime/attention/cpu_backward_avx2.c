/* The CPU backend's gradients with AVX2, FMA and F16C. */
#if defined(__x86_64__)
#include "cpu/vector_avx2.h"

#define AP_KEYS ap_cpu_backward_keys_avx2
#define AP_ROWS ap_cpu_backward_rows_avx2
#define AP_SINK ap_cpu_backward_sink_avx2
#define AP_BIAS ap_cpu_backward_bias_avx2
enum { TILE = 6 }; /* 12 accumulators of 16 registers */

#include "attention/cpu_backward_kernel.inc.h"
#else
typedef int ap_cpu_backward_avx2_is_for_x86_64; /* ISO C wants a declaration */
#endif
