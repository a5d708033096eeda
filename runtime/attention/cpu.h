/* The CPU backend: the same attention on host pointers, for machines without a GPU. The caller has
 * validated the arguments; nothing here checks them again. */
#pragma once
#include "attnpress/attnpress.h"

/** Instruction sets that the kernel is built for, worst first. */
typedef enum ap_cpu_isa {
  AP_CPU_PLAIN = 0,  /* C with four-lane vectors: SSE2, NEON, or what the compiler makes of it */
  AP_CPU_AVX2 = 1,   /* AVX2, FMA, F16C */
  AP_CPU_AVX512 = 2, /* AVX-512 F, BW, DQ, VL */
  AP_CPU_ISA_COUNT = 3
} ap_cpu_isa;

/** 1 where this processor has all that the kernel for `isa` needs. */
int ap_cpu_isa_usable(ap_cpu_isa isa);
/** The best usable one. */
ap_cpu_isa ap_cpu_best_isa(void);
/** "plain", "avx2", "avx512". */
const char *ap_cpu_isa_name(ap_cpu_isa isa);

/** Computes out and lse of a forward call, fp32 among the dtypes, and returns when they are
 * written. At most `num_threads` threads work (0: as many as the process may use cores), the
 * calling one among them; the others are started and joined within the call. The result does not
 * depend on their number, bit for bit. OUT_OF_MEMORY, with nothing written, where the scratch
 * memory (about one MiB a thread) is not to be had. */
attnpress_status ap_cpu_forward(const attnpress_forward_args *args, int num_threads);

/** The same with one instruction set, which must be usable; tests use it. */
attnpress_status ap_cpu_forward_isa(const attnpress_forward_args *args, int num_threads,
                                    ap_cpu_isa isa);
