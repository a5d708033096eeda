/* Which instruction sets the processor has. A family builds its kernels once for each and asks here
 * which of them to call. */
#pragma once

/** Instruction sets that kernels are built for, worst first. */
typedef enum ap_cpu_isa {
  AP_CPU_PLAIN = 0,  /* C with four-lane vectors: SSE2, NEON, or what the compiler makes of it */
  AP_CPU_AVX2 = 1,   /* AVX2, FMA, F16C */
  AP_CPU_AVX512 = 2, /* AVX-512 F, BW, DQ, VL */
  AP_CPU_ISA_COUNT = 3
} ap_cpu_isa;

/** 1 where this processor has all that kernels for `isa` need. */
int ap_cpu_isa_usable(ap_cpu_isa isa);
/** The best usable one. */
ap_cpu_isa ap_cpu_best_isa(void);
/** "plain", "avx2", "avx512". */
const char *ap_cpu_isa_name(ap_cpu_isa isa);
