/* Attention in float64, and in the tensors' precision, by plain kernels, with all that may be done
 * to scores: what the GPU tests compare with. Compiled by NVRTC when a test starts.
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

/* The keys that a row sees: begin to end - 1. */
struct key_range {
  int begin, end;
};

__device__ bool sees(const reference_args &a, int row, int key) {
  const reference_scores_args &m = a.modify;
  if (a.causal)
    return key <= row + a.seqlen_k - a.seqlen_q;
  if (!m.window)
    return true;
  const long long center = (long long)row + m.center;
  return key >= center - m.left && key <= center + m.right &&
         (m.chunk == 0 || (center >= 0 && key / m.chunk == center / m.chunk));
}

/* Found by bisection, from the rule for one key: the keys that a row sees are neighbours. `inside` is
 * one of them, or none is. */
__device__ key_range keys_of(const reference_args &a, int row) {
  const long long center =
      a.modify.window ? (long long)row + a.modify.center : (long long)row + a.seqlen_k - a.seqlen_q;
  const long long last = a.seqlen_k - 1;
  int inside = (int)(center < 0 ? 0 : center > last ? last : center);
  if (!a.causal && !a.modify.window)
    inside = 0;
  if (a.seqlen_k == 0 || !sees(a, row, inside))
    return {0, 0};
  int low = 0, high = inside; /* the first that is seen */
  while (low < high) {
    const int middle = (low + high) / 2;
    if (sees(a, row, middle))
      high = middle;
    else
      low = middle + 1;
  }
  key_range keys = {low, 0};
  low = inside;
  high = a.seqlen_k - 1; /* the last */
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (sees(a, row, middle))
      low = middle;
    else
      high = middle - 1;
  }
  keys.end = low + 1;
  return keys;
}

__device__ double load_any(const void *data, long long at, int dtype) {
  return dtype == 3 ? (double)((const float *)data)[at]
                    : (double)load((const unsigned short *)data + at, dtype);
}

/* Philox 4x32 (Salmon et al. 2011), in place; `keyed`: each round has a key of its own. */
__device__ void philox(unsigned x[4], unsigned key_low, unsigned key_high, int rounds, int keyed) {
  for (int round = 0; round < rounds; ++round) {
    const unsigned long long first = 0xD2511F53ull * x[0], second = 0xCD9E8D57ull * x[2];
    x[0] = (unsigned)(second >> 32) ^ x[1] ^ key_low;
    x[2] = (unsigned)(first >> 32) ^ x[3] ^ key_high;
    x[1] = (unsigned)second;
    x[3] = (unsigned)first;
    key_low += keyed * 0x9E3779B9u;
    key_high += keyed * 0xBB67AE85u;
  }
}

/* 16 bits: which, include/attnpress/device/dropout.cuh says. */
__device__ bool keeps(const reference_args &a, const row_place &p, int key) {
  const reference_scores_args &m = a.modify;
  unsigned head[4] = {0, 0, (unsigned)((long long)p.batch * a.heads + p.head), m.dropout_offset};
  philox(head, m.dropout_key[0], m.dropout_key[1], 7, 1);
  unsigned row[4] = {head[0], head[1], head[2], head[3]};
  row[0] += (p.row / 16 * 8 + p.row % 8) * 0x9E3779B9u;
  philox(row, 0, 0, 4, 0);
  for (int i = 0; i < 4; ++i)
    row[i] |= 1;
  const int i = key / 8 % 2 * 2 + p.row / 8 % 2;
  unsigned of_key = head[i] + (key / 16 * 4 + key % 8 / 2) * 0x9E3779B9u;
  of_key = (of_key ^ of_key >> 16) * 0x85EBCA6Bu + head[(i + 1) % 4];
  of_key = (of_key ^ of_key >> 13) * 0xC2B2AE35u;
  of_key ^= of_key >> 16;
  const unsigned product = of_key * row[i] + row[(i + 1) % 4];
  const unsigned pair = (product << 12 | product >> 20) * row[(i + 2) % 4] + row[(i + 3) % 4];
  return (0xFC00 - (key % 2 ? pair >> 16 : pair) & 0xffff) >= m.dropout_threshold;
}

/* grid: (ceil(seqlen_k / REFERENCE_THREADS), samples) */
extern "C" __global__ void reference_scores(reference_args a) {
  const long long sample = blockIdx.y;
  const row_place p = place_of(a, sample);
  const reference_scores_args &m = a.modify;
  const int key = blockIdx.x * REFERENCE_THREADS + threadIdx.x;
  if (key >= a.seqlen_k || !sees(a, p.row, key))
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
  double score = dot * a.scale;
  float low = round_to(low_dot * (float)a.scale, a.dtype);
  if (m.softcap > 0.0) {
    score = m.softcap * tanh(score / m.softcap);
    low = round_to((float)m.softcap * tanhf(low / (float)m.softcap), a.dtype);
  }
  if (m.bias) {
    const double bias =
        load_any(m.bias,
                 p.batch * m.bias_stride[0] + p.head * m.bias_stride[1] +
                     p.row * m.bias_stride[2] + key * m.bias_stride[3],
                 m.bias_dtype);
    score += bias;
    low = round_to(low + (float)bias, a.dtype);
  }
  if (m.slopes) {
    const double cost =
        (double)m.slopes[p.batch * m.slopes_stride[0] + p.head * m.slopes_stride[1]] *
        fabs((double)p.row + a.seqlen_k - a.seqlen_q - key);
    score -= cost;
    low = round_to(low - (float)cost, a.dtype);
  }
  a.scores[sample * a.seqlen_k + key] = score;
  a.low_scores[sample * a.seqlen_k + key] = low;
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
  const key_range keys = keys_of(a, p.row);
  const reference_scores_args &m = a.modify;
  const int t = threadIdx.x;
  const double infinity = __longlong_as_double(0x7ff0000000000000ll);
  double *scores = a.scores + sample * a.seqlen_k;
  float *low_scores = a.low_scores + sample * a.seqlen_k;

  /* A sink is one score more, whose value is 0. */
  const double sink =
      m.sinks ? load_any(m.sinks, p.head * m.sinks_stride, m.sinks_dtype) : -infinity;
  double max = sink, low_max = sink;
  for (int j = keys.begin + t; j < keys.end; j += REFERENCE_THREADS) {
    max = fmax(max, scores[j]);
    low_max = fmax(low_max, (double)low_scores[j]);
  }
  max = reduce(max, REDUCE_MAX, shared);
  low_max = reduce(low_max, REDUCE_MAX, shared);
  const bool empty = max == -infinity, low_empty = low_max == -infinity;
  double sum = t == 0 && !empty ? exp(sink - max) : 0.0;
  double low_sum = t == 0 && !low_empty ? (double)expf((float)(sink - low_max)) : 0.0;
  for (int j = keys.begin + t; j < keys.end; j += REFERENCE_THREADS) {
    scores[j] = empty ? 0.0 : exp(scores[j] - max);
    low_scores[j] = low_empty ? 0.0f : expf(low_scores[j] - (float)low_max);
    sum += scores[j];
    low_sum += low_scores[j];
  }
  sum = reduce(sum, REDUCE_SUM, shared);
  low_sum = reduce(low_sum, REDUCE_SUM, shared);
  for (int j = keys.begin + t; j < keys.end; j += REFERENCE_THREADS) {
    low_scores[j] = low_empty ? 0.0f : round_to(low_scores[j] / (float)low_sum, a.dtype);
    if (m.dropout_threshold > 0 && !keeps(a, p, j))
      scores[j] = low_scores[j] = 0.0f;
  }
  __syncthreads(); /* every thread wrote probabilities that every thread reads */
  if (t == 0)
    finish_lse(a, p, sample, empty ? -infinity : max + log(sum));

  /* Columns by slices of the keys; the first slice's threads add the slices up. */
  const int slices = a.hdim_v < REFERENCE_THREADS ? REFERENCE_THREADS / a.hdim_v : 1;
  const int column = t % a.hdim_v, slice = t / a.hdim_v;
  double acc = 0.0;
  float low_acc = 0.0f;
  const unsigned short *v =
      a.v + p.batch * a.v_stride[0] + p.head / a.group * a.v_stride[2] + column;
  if (slice < slices)
    for (int j = keys.begin + slice; j < keys.end; j += slices) {
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
  finish_column(a, p, sample, column, empty ? 0.0 : acc / sum * m.dropout_scale,
                low_acc * m.dropout_scale);
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

typedef struct fill_bias_args {
  void *data;
  long long shape[4], stride[4];
  unsigned long long seed;
  int dtype;
} fill_bias_args;

/* Uniform in [-2, 2); one in 16 is -inf, and so are all keys of every thirteenth query. */
extern "C" __global__ void fill_bias(fill_bias_args a) {
  const long long elements = a.shape[0] * a.shape[1] * a.shape[2] * a.shape[3];
  const long long step = (long long)gridDim.x * REFERENCE_THREADS;
  for (long long i = (long long)blockIdx.x * REFERENCE_THREADS + threadIdx.x; i < elements;
       i += step) {
    const unsigned long long bits = reference_mix(reference_mix(a.seed) + (unsigned long long)i);
    long long rest = i;
    long long place[4];
    for (int d = 3; d >= 0; --d) {
      place[d] = rest % a.shape[d];
      rest /= a.shape[d];
    }
    float value = (float)(bits >> 40) / (float)(1 << 22) - 2.0f;
    if (bits % 16 == 0 || (a.stride[2] != 0 && place[2] % 13 == 5))
      value = -__uint_as_float(0x7f800000);
    long long at = 0;
    for (int d = 0; d < 4; ++d)
      at += place[d] * a.stride[d];
    if (a.dtype == 3)
      ((float *)a.data)[at] = value;
    else
      ((unsigned short *)a.data)[at] = to_bits(value, a.dtype);
  }
}

/* Adds to *count the words of data, (words), that are NaN and not poison. */
extern "C" __global__ void count_nan_16(const unsigned short *data, long long words, int dtype,
                                        unsigned long long *count) {
  const unsigned infinity = dtype == FP16 ? 0x7c00 : 0x7f80;
  unsigned long long found = 0;
  const long long step = (long long)gridDim.x * REFERENCE_THREADS;
  for (long long i = (long long)blockIdx.x * REFERENCE_THREADS + threadIdx.x; i < words; i += step)
    found += data[i] != 0xffff && (data[i] & 0x7fff) > infinity;
  if (found)
    atomicAdd(count, found);
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
