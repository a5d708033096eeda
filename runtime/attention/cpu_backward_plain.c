/* The CPU backend's gradients in C, for every processor. */
#include "cpu/vector_plain.h"

#define AP_KEYS ap_cpu_backward_keys_plain
#define AP_ROWS ap_cpu_backward_rows_plain
#define AP_SINK ap_cpu_backward_sink_plain
#define AP_BIAS ap_cpu_backward_bias_plain
enum { TILE = 4 };

#include "attention/cpu_backward_kernel.inc.h"
