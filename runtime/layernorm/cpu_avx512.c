/* Rows of a layer norm with AVX-512. */
#if defined(__x86_64__)
#include "cpu/vector_avx512.h"

#define AP_FORWARD  ap_layernorm_row_forward_avx512
#define AP_BACKWARD ap_layernorm_row_backward_avx512
#define AP_SUMS     ap_layernorm_sums_avx512

#include "layernorm/cpu_rows.inc.h"
#else
typedef int ap_layernorm_avx512_is_for_x86_64; /* ISO C wants a declaration */
#endif
