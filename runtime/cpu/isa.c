/* Asks the processor what it can do. */
#include "cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

int ap_cpu_isa_usable(ap_cpu_isa isa) {
  if (isa == AP_CPU_PLAIN)
    return 1;
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned eax, ebx, ecx, edx;
  int f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
  int avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == AP_CPU_AVX2)
    return avx2;
  if (isa == AP_CPU_AVX512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return 0;
}

ap_cpu_isa ap_cpu_best_isa(void) {
  if (ap_cpu_isa_usable(AP_CPU_AVX512))
    return AP_CPU_AVX512;
  return ap_cpu_isa_usable(AP_CPU_AVX2) ? AP_CPU_AVX2 : AP_CPU_PLAIN;
}

const char *ap_cpu_isa_name(ap_cpu_isa isa) {
  return isa == AP_CPU_AVX512 ? "avx512" : isa == AP_CPU_AVX2 ? "avx2" : "plain";
}
