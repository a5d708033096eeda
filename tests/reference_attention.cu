/* Attention in float64, and in the tensors' precision, by plain kernels: what the GPU tests compare
 * with. Compiled by NVRTC when a test starts.
 *
 *   reference_scores   a thread a (sample, key): the scores of sampled query rows
 *   reference_rows     a block a sample: softmax, output, lse, and their differences from what was
 * computed
 *
 * ref is float64 throughout. low rounds scores, P and output to the dtype and accumulates in fp32.
 */
#include "reference_attention.h"

#define FP16 1

__device__ float load(const unsigned short *p, int dtype) {
  if (dtype == FP16) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(*p));
    return f;
  }
  return __uint_as_float((unsigned)*p << 16);
}

__device__ unsigned short to_bits(float f, int dtype) {
  unsigned short h;
  if (dtype == FP16)
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  else
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

__device__ float round_to(float f, int dtype) {
  unsigned short h = to_bits(f, dtype);
  return load(&h, dtype);
}

struct row_place {
  int batch, head, row;
};

__device__ row_place place_of(const reference_args &a, long long sample) {
  long long row = reference_sampled_row(sample, a.samples, a.rows, a.seed);
  row_place p;
  p.row = (int)(row % a.seqlen_q);
  p.head = (int)(row / a.seqlen_q % a.heads);
  p.batch = (int)(row / a.seqlen_q / a.heads);
  return p;
}

/* Keys that a row sees; causal masks are aligned bottom-right. */
__device__ int visible_keys(const reference_args &a, int row) {
  if (!a.causal)
    return a.seqlen_k;
  int keys = row + 1 + a.seqlen_k - a.seqlen_q;
  return keys < 0 ? 0 : keys;
}

/* grid: (ceil(seqlen_k / REFERENCE_THREADS), samples) */
extern "C" __global__ void reference_scores(reference_args a) {
  const long long sample = blockIdx.y;
  const row_place p = place_of(a, sample);
  const int key = blockIdx.x * REFERENCE_THREADS + threadIdx.x;
  if (key >= visible_keys(a, p.row))
    return;
  const unsigned short *q =
      a.q + p.batch * a.q_stride[0] + p.row * a.q_stride[1] + p.head * a.q_stride[2];
  const unsigned short *k =
      a.k + p.batch * a.k_stride[0] + key * a.k_stride[1] + p.head / a.group * a.k_stride[2];
  double dot = 0.0;
  float low_dot = 0.0f;
  for (int d = 0; d < a.hdim; ++d) {
    float x = load(q + d, a.dtype), y = load(k + d, a.dtype);
    dot += (double)x * (double)y;
    low_dot += x * y;
  }
  a.scores[sample * a.seqlen_k + key] = dot * a.scale;
  a.low_scores[sample * a.seqlen_k + key] = round_to(low_dot * (float)a.scale, a.dtype);
}

enum { REDUCE_MAX, REDUCE_SUM };

/* The maximum or sum of every thread's value, in every thread. */
__device__ double reduce(double value, int what, double *shared) {
  shared[threadIdx.x] = value;
  __syncthreads();
  for (int n = REFERENCE_THREADS / 2; n > 0; n /= 2) {
    if (threadIdx.x < n) {
      double a = shared[threadIdx.x], b = shared[threadIdx.x + n];
      shared[threadIdx.x] = what == REDUCE_SUM ? a + b : fmax(a, b);
    }
    __syncthreads();
  }
  double result = shared[0];
  __syncthreads();
  return result;
}

/* A NaN is larger than all. */
__device__ void note_worst(unsigned long long *worst, double error, long long at) {
  float f = error <= 1e30 ? (float)error : __uint_as_float(0x7f800000);
  unsigned long long noted = (unsigned long long)__float_as_uint(f) << 32 | (unsigned)at;
  if (noted > *(volatile unsigned long long *)worst) /* spares most of the atomics */
    atomicMax(worst, noted);
}

__device__ double difference(double value, double expected) {
  return value == expected ? 0.0 : fabs(value - expected);
}

/* Writes ref and low of one column and notes their differences. */
__device__ void finish_column(const reference_args &a, const row_place &p, long long sample,
                              int column, double ref, float low_sum) {
  const long long at = sample * a.hdim_v + column;
  const float low = round_to(low_sum, a.dtype);
  const float out = load(a.out + p.batch * a.out_stride[0] + p.row * a.out_stride[1] +
                             p.head * a.out_stride[2] + column,
                         a.dtype);
  a.ref[at] = ref;
  a.low[at] = low;
  note_worst(&a.worst[REFERENCE_WORST_OUT], difference(out, ref), at);
  note_worst(&a.worst[REFERENCE_WORST_LOW], difference(low, ref), at);
}

__device__ void finish_lse(const reference_args &a, const row_place &p, long long sample,
                           double ref) {
  a.ref_lse[sample] = ref;
  if (!a.lse)
    return;
  double lse = a.lse[p.batch * a.lse_stride[0] + p.head * a.lse_stride[1] + p.row];
  double error = difference(lse, ref); /* -inf against -inf: 0 */
  note_worst(&a.worst[REFERENCE_WORST_LSE],
             fabs(ref) <= 1e30 ? error / fmax(1.0, fabs(ref)) : error, sample);
}

/* grid: (samples) */
extern "C" __global__ void reference_rows(reference_args a) {
  __shared__ double shared[REFERENCE_THREADS];
  __shared__ float low_shared[REFERENCE_THREADS];
  const long long sample = blockIdx.x;
  const row_place p = place_of(a, sample);
  const int keys = visible_keys(a, p.row), t = threadIdx.x;
  const double infinity = __longlong_as_double(0x7ff0000000000000ll);
  double *scores = a.scores + sample * a.seqlen_k;
  float *low_scores = a.low_scores + sample * a.seqlen_k;

  double max = -infinity, low_max = -infinity;
  for (int j = t; j < keys; j += REFERENCE_THREADS) {
    max = fmax(max, scores[j]);
    low_max = fmax(low_max, (double)low_scores[j]);
  }
  max = reduce(max, REDUCE_MAX, shared);
  low_max = reduce(low_max, REDUCE_MAX, shared);
  double sum = 0.0, low_sum = 0.0;
  for (int j = t; j < keys; j += REFERENCE_THREADS) {
    scores[j] = exp(scores[j] - max);
    low_scores[j] = expf(low_scores[j] - (float)low_max);
    sum += scores[j];
    low_sum += low_scores[j];
  }
  sum = reduce(sum, REDUCE_SUM, shared);
  low_sum = reduce(low_sum, REDUCE_SUM, shared);
  for (int j = t; j < keys; j += REFERENCE_THREADS)
    low_scores[j] = round_to(low_scores[j] / (float)low_sum, a.dtype);
  __syncthreads(); /* every thread wrote probabilities that every thread reads */
  if (t == 0)
    finish_lse(a, p, sample, keys > 0 ? max + log(sum) : -infinity);

  /* Columns by slices of the keys; the first slice's threads add the slices up. */
  const int slices = a.hdim_v < REFERENCE_THREADS ? REFERENCE_THREADS / a.hdim_v : 1;
  const int column = t % a.hdim_v, slice = t / a.hdim_v;
  double acc = 0.0;
  float low_acc = 0.0f;
  const unsigned short *v =
      a.v + p.batch * a.v_stride[0] + p.head / a.group * a.v_stride[2] + column;
  if (slice < slices)
    for (int j = slice; j < keys; j += slices) {
      float x = load(v + j * a.v_stride[1], a.dtype);
      acc += scores[j] * (double)x;
      low_acc += low_scores[j] * x;
    }
  shared[t] = acc;
  low_shared[t] = low_acc;
  __syncthreads();
  if (slice != 0)
    return;
  for (int s = 1; s < slices; ++s) {
    acc += shared[s * a.hdim_v + column];
    low_acc += low_shared[s * a.hdim_v + column];
  }
  finish_column(a, p, sample, column, keys > 0 ? acc / sum : 0.0, low_acc);
}

/* ---- Data ---- */

typedef struct fill_args {
  unsigned short *data;
  long long shape[4], stride[3];
  unsigned long long seed;
  int dtype;
} fill_args;

/* Nearly normal values, mean 0 and variance 1: each the sum of four uniform ones. The last
 * dimension is a multiple of 8. */
extern "C" __global__ void fill_normal(fill_args a) {
  const long long groups = a.shape[0] * a.shape[1] * a.shape[2] * (a.shape[3] / 8);
  const long long step = (long long)gridDim.x * REFERENCE_THREADS;
  for (long long g = (long long)blockIdx.x * REFERENCE_THREADS + threadIdx.x; g < groups;
       g += step) {
    long long rest = g;
    const long long d = rest % (a.shape[3] / 8) * 8;
    rest /= a.shape[3] / 8;
    const long long head = rest % a.shape[2];
    rest /= a.shape[2];
    const long long row = rest % a.shape[1], batch = rest / a.shape[1];
    unsigned short *to = a.data + batch * a.stride[0] + row * a.stride[1] + head * a.stride[2] + d;
    for (int i = 0; i < 8; ++i) {
      unsigned long long bits =
          reference_mix(reference_mix(a.seed) + (unsigned long long)(8 * g + i));
      int sum =
          (int)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
      to[i] = to_bits((float)(sum - 2 * 0xffff) * (1.7320508f / 65536.0f), a.dtype);
    }
  }
}

/* Adds to *count the words of data, (words), that are not poison, all bits set. */
extern "C" __global__ void count_written_16(const unsigned short *data, long long words,
                                            unsigned long long *count) {
  unsigned long long written = 0;
  const long long step = (long long)gridDim.x * REFERENCE_THREADS;
  for (long long i = (long long)blockIdx.x * REFERENCE_THREADS + threadIdx.x; i < words; i += step)
    written += data[i] != 0xffff;
  if (written)
    atomicAdd(count, written);
}

extern "C" __global__ void count_written_32(const unsigned *data, long long words,
                                            unsigned long long *count) {
  unsigned long long written = 0;
  const long long step = (long long)gridDim.x * REFERENCE_THREADS;
  for (long long i = (long long)blockIdx.x * REFERENCE_THREADS + threadIdx.x; i < words; i += step)
    written += data[i] != 0xffffffffu;
  if (written)
    atomicAdd(count, written);
}

/* Adds to *count the words in which a and b, (words), differ. */
extern "C" __global__ void count_differences(const unsigned *a, const unsigned *b, long long words,
                                             unsigned long long *count) {
  unsigned long long different = 0;
  const long long step = (long long)gridDim.x * REFERENCE_THREADS;
  for (long long i = (long long)blockIdx.x * REFERENCE_THREADS + threadIdx.x; i < words; i += step)
    different += a[i] != b[i];
  if (different)
    atomicAdd(count, different);
}
