/* The CPU backend's gradients. The caller has validated the arguments. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "cpu/isa.h"

/** Computes dq, dk and dv of a backward call, fp32 among the dtypes, and returns when they are
 * written. Threads and statuses as in ap_cpu_forward(); the result does not depend on their number,
 * bit for bit. */
attnpress_status ap_cpu_backward(const attnpress_backward_args *args, int num_threads);

/** The same with one instruction set, which must be usable; tests use it. */
attnpress_status ap_cpu_backward_isa(const attnpress_backward_args *args, int num_threads,
                                     ap_cpu_isa isa);
