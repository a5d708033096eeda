/* Rows of a layer norm in C for every processor. */
#include "cpu/vector_plain.h"

#define AP_FORWARD  ap_layernorm_row_forward_plain
#define AP_BACKWARD ap_layernorm_row_backward_plain
#define AP_SUMS     ap_layernorm_sums_plain

#include "layernorm/cpu_rows.inc.h"
