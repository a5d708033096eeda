/* The CPU backend: the same attention on host pointers, for machines without a GPU. The caller has
 * validated the arguments; nothing here checks them again. */
#pragma once
#include "attnpress/attnpress.h"
#include "cpu/isa.h"

/** Computes out and lse of a forward call, fp32 among the dtypes, and returns when they are
 * written. At most `num_threads` threads work (0: as many as the process may use cores), the
 * calling one among them; the others are started and joined within the call. The result does not
 * depend on their number, bit for bit. OUT_OF_MEMORY, with nothing written, where the scratch
 * memory (about one MiB a thread) is not to be had. */
attnpress_status ap_cpu_forward(const attnpress_forward_args *args, int num_threads);

/** The same with one instruction set, which must be usable; tests use it. */
attnpress_status ap_cpu_forward_isa(const attnpress_forward_args *args, int num_threads,
                                    ap_cpu_isa isa);
