/* The CPU backend's gradients with AVX-512. */
#if defined(__x86_64__)
#include "cpu/vector_avx512.h"

#define AP_KEYS ap_cpu_backward_keys_avx512
#define AP_ROWS ap_cpu_backward_rows_avx512
#define AP_SINK ap_cpu_backward_sink_avx512
#define AP_BIAS ap_cpu_backward_bias_avx512
enum { TILE = 12 }; /* 24 accumulators of 32 registers */

#include "attention/cpu_backward_kernel.inc.h"
#else
typedef int ap_cpu_backward_avx512_is_for_x86_64; /* ISO C wants a declaration */
#endif
