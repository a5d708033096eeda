/* Rows of a softmax in C for every processor. */
#include "cpu/vector_plain.h"

#define AP_FORWARD  ap_softmax_row_forward_plain
#define AP_BACKWARD ap_softmax_row_backward_plain

#include "softmax/cpu_rows.inc.h"
