/* Rows of a layer norm with AVX2, FMA and F16C. */
#if defined(__x86_64__)
#include "cpu/vector_avx2.h"

#define AP_FORWARD  ap_layernorm_row_forward_avx2
#define AP_BACKWARD ap_layernorm_row_backward_avx2
#define AP_SUMS     ap_layernorm_sums_avx2

#include "layernorm/cpu_rows.inc.h"
#else
typedef int ap_layernorm_avx2_is_for_x86_64; /* ISO C wants a declaration */
#endif
