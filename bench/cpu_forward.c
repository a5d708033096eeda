/* How much faster the CPU backend is than the plain triple loop that anyone would write first, both
 * on one thread, in one process, built by the same compiler with the same options (-O3).
 *
 *     cmake --build build --target cpu_forward
 *     build/cpu_forward [hdim] [seqlen] [heads]      default: 128 2048 1
 *
 * The plain loop gets its inputs as floats whatever the dtype, so that conversions, which it would
 * do once an element and key, do not slow it. Prints the median of 5 (plain loop: 3) for each dtype
 * and mask, and for each instruction set that the processor has. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "attention/cpu.h"
#include "cpu/half.h"

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *times, int n) {
  qsort(times, (size_t)n, sizeof *times, compare_doubles);
  return times[n / 2];
}

/* q, k, v, out: (heads, seqlen, hdim) */
static void plain_attention(const float *q, const float *k, const float *v, float *out,
                            float *scores, int heads, int seqlen, int hdim, int causal) {
  const float scale = 1.0f / sqrtf((float)hdim);
  for (int h = 0; h < heads; ++h, q += seqlen * hdim, k += seqlen * hdim, v += seqlen * hdim)
    for (int i = 0; i < seqlen; ++i, out += hdim) {
      const int keys = causal ? i + 1 : seqlen;
      float max = -INFINITY, sum = 0.0f;
      for (int j = 0; j < keys; ++j) {
        float dot = 0.0f;
        for (int d = 0; d < hdim; ++d)
          dot += q[i * hdim + d] * k[j * hdim + d];
        scores[j] = dot * scale;
        max = fmaxf(max, scores[j]);
      }
      for (int j = 0; j < keys; ++j)
        sum += scores[j] = expf(scores[j] - max);
      for (int d = 0; d < hdim; ++d)
        out[d] = 0.0f;
      for (int j = 0; j < keys; ++j)
        for (int d = 0; d < hdim; ++d)
          out[d] += scores[j] / sum * v[j * hdim + d];
    }
}

static void *allocate(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!p) {
    fputs("out of memory\n", stderr);
    exit(1);
  }
  return p;
}

static void fill(float *f, void *t, size_t n, int dtype, unsigned seed) {
  uint64_t state = seed;
  for (size_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    f[i] = (float)(int32_t)(state >> 32) * 0x1p-31f;
    if (dtype == ATTNPRESS_FP32)
      ((float *)t)[i] = f[i];
    else
      ((uint16_t *)t)[i] =
          dtype == ATTNPRESS_FP16 ? ap_fp16_from_float(f[i]) : ap_bf16_from_float(f[i]);
  }
}

int main(int argc, char **argv) {
  const int hdim = argc > 1 ? atoi(argv[1]) : 128, seqlen = argc > 2 ? atoi(argv[2]) : 2048;
  const int heads = argc > 3 ? atoi(argv[3]) : 1;
  if (hdim < 8 || hdim > 512 || hdim % 8 || seqlen < 1 || heads < 1 || argc > 4) {
    fputs("usage: cpu_forward [hdim, a multiple of 8 up to 512] [seqlen] [heads]\n", stderr);
    return 2;
  }
  const size_t n = (size_t)heads * seqlen * hdim;
  float *f[4], *scores = allocate(sizeof(float) * (size_t)seqlen);
  void *t[4];
  for (int i = 0; i < 4; ++i) {
    f[i] = allocate(n * sizeof(float));
    t[i] = allocate(n * sizeof(float));
  }
  printf("one thread, head dim %d, %d tokens, %d head(s)\n", hdim, seqlen, heads);
  printf("%-5s %-7s %-7s %10s %10s %8s\n", "dtype", "mask", "isa", "ms", "GFLOP/s", "ratio");
  for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype) {
    static const char *const dtypes[] = {"", "fp16", "bf16", "fp32"};
    for (int i = 0; i < 3; ++i)
      fill(f[i], t[i], n, dtype, (unsigned)i + 1);
    for (int causal = 0; causal < 2; ++causal) {
      const double flops = (causal ? 2.0 : 4.0) * heads * (double)seqlen * seqlen * hdim;
      double times[5];
      for (int r = 0; r < 3; ++r) {
        double start = now_ms();
        plain_attention(f[0], f[1], f[2], f[3], scores, heads, seqlen, hdim, causal);
        times[r] = now_ms() - start;
      }
      const double plain = median(times, 3);
      const char *mask = causal ? "causal" : "full";
      printf("%-5s %-7s %-7s %10.2f %10.2f %8s\n", dtypes[dtype], mask, "loop", plain,
             flops / plain * 1e-6, "1");
      attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
      args.q = attnpress_tensor_bhsd(t[0], 1, seqlen, heads, hdim, dtype);
      args.k = attnpress_tensor_bhsd(t[1], 1, seqlen, heads, hdim, dtype);
      args.v = attnpress_tensor_bhsd(t[2], 1, seqlen, heads, hdim, dtype);
      args.out = attnpress_tensor_bhsd(t[3], 1, seqlen, heads, hdim, dtype);
      args.mask = causal ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL;
      for (int isa = AP_CPU_ISA_COUNT - 1; isa >= 0; --isa) {
        if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
          continue;
        for (int r = 0; r < 5; ++r) {
          double start = now_ms();
          if (ap_cpu_forward_isa(&args, 1, (ap_cpu_isa)isa) != ATTNPRESS_OK)
            return 1;
          times[r] = now_ms() - start;
        }
        const double ms = median(times, 5);
        printf("%-5s %-7s %-7s %10.2f %10.2f %8.1f\n", dtypes[dtype], mask,
               ap_cpu_isa_name((ap_cpu_isa)isa), ms, flops / ms * 1e-6, plain / ms);
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    free(f[i]);
    free(t[i]);
  }
  free(scores);
  return 0;
}
