/* Asks the processor what it can do, and the operating system (through XCR0) which registers it
 * keeps. By cpuid itself: __builtin_cpu_supports() reads a table of the compiler's runtime, and that
 * of zig cc, which links the wheel, stays empty. */
#include "cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum {
  LEAF_1_ECX = 1 << 12 | 1 << 27 | 1 << 28 | 1 << 29, /* FMA, OSXSAVE, AVX, F16C */
  LEAF_7_EBX_AVX2 = 1 << 5,
  XCR0_AVX = 1 << 1 | 1 << 2,             /* XMM, YMM */
  XCR0_AVX512 = 1 << 5 | 1 << 6 | 1 << 7, /* mask registers, upper halves, ZMM16 to ZMM31 */
};
static const unsigned LEAF_7_EBX_AVX512 = /* F, DQ, BW, VL */
    1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;

static int has(unsigned word, unsigned bits) {
  return (word & bits) == bits;
}

/** The registers that the operating system saves; only where OSXSAVE is set. */
static unsigned xcr0(void) {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}
#endif

int ap_cpu_isa_usable(ap_cpu_isa isa) {
  if (isa == AP_CPU_PLAIN)
    return 1;
#if defined(__x86_64__)
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !has(ecx, LEAF_1_ECX))
    return 0;
  const unsigned saved = xcr0();
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
    return 0;
  const int avx2 = has(ebx, LEAF_7_EBX_AVX2) && has(saved, XCR0_AVX);
  if (isa == AP_CPU_AVX2)
    return avx2;
  if (isa == AP_CPU_AVX512)
    return avx2 && has(ebx, LEAF_7_EBX_AVX512) && has(saved, XCR0_AVX512);
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
