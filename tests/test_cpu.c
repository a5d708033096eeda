/* The CPU backend against float64: every instruction set that the processor has, fp16, bf16 and
 * fp32, every mask, all that is done to scores, in three memory layouts. Inputs and outputs lie in buffers of NaN, so that
 * a read beside a tensor shows in the result and a write beside it in the buffer.
 *
 * ATTNPRESS_TEST_QUICK=1 takes a few rows of the large tables: for runs that instrument each access
 * (test_sanitizers.sh). */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention/attention.h"
#include "attention/cpu.h"
#include "cpu/element.h"
#include "../tools/reference.h"

/* ---- pthread_create, counted, and made to fail on demand ---- */

static int threads_started, threads_allowed = 1 << 20;

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
  if (threads_started >= threads_allowed)
    return 11; /* EAGAIN */
  create_function *next;
  *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
  ++threads_started;
  return next(thread, attributes, start, argument);
}

/** 1 where a quick run leaves the row of a large table out. */
static int left_out(int row) {
  enum { STEP = 23 };
  const char *quick = getenv("ATTNPRESS_TEST_QUICK");
  return quick != NULL && *quick == '1' && row % STEP != 0;
}

/* ---- aligned_alloc, made to fail on demand ---- */

static int memory_is_out, times_refused;

void *aligned_alloc(size_t alignment, size_t bytes) {
  typedef void *allocate_function(size_t, size_t);
  allocate_function *next;
  if (memory_is_out) {
    ++times_refused;
    return NULL;
  }
  *(void **)&next = dlsym(RTLD_NEXT, "aligned_alloc");
  return next(alignment, bytes);
}

/* ---- Calls in poisoned memory ---- */

enum { BSHD, BHSD, GAPS, LAYOUTS };
static const char *const layout_names[] = {"bshd", "bhsd", "gaps"};
static const char *const dtype_names[] = {"", "fp16", "bf16", "fp32"};
static const char *const mask_names[] = {"full", "causal", "window"};

enum { GUARD = 64 }; /* elements before and behind each tensor */

typedef struct shape {
  int batch, heads_q, heads_kv, seqlen_q, seqlen_k, hdim, hdim_v;
} shape;

enum { BIAS = 5, SLOPES, SINKS, BUFFERS };

typedef struct problem {
  attnpress_forward_args args;
  void *buffers[BUFFERS]; /* q, k, v, out, lse, and the features' */
  size_t bytes[BUFFERS];
  attnpress_window window;
  attnpress_bias bias;
  attnpress_alibi alibi;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
  uint64_t seed_and_offset[2];
  char text[256]; /* the features in words */
} problem;

static attnpress_tensor make_tensor(problem *p, int slot, int64_t batch, int64_t seqlen,
                                    int64_t heads, int64_t hdim, int dtype, int layout) {
  attnpress_tensor t = layout == BHSD
                           ? attnpress_tensor_bhsd(NULL, batch, seqlen, heads, hdim, dtype)
                           : attnpress_tensor_bshd(NULL, batch, seqlen, heads, hdim, dtype);
  if (layout == GAPS) {
    t.stride[2] = hdim + 8;
    t.stride[1] = heads * t.stride[2] + 24;
    t.stride[0] = seqlen * t.stride[1] + 40;
  }
  const size_t size = (size_t)reference_element_bytes(dtype);
  p->bytes[slot] = ((size_t)reference_span(&t) + 2 * GUARD) * size;
  p->bytes[slot] = (p->bytes[slot] + 63) / 64 * 64;
  p->buffers[slot] = aligned_alloc(64, p->bytes[slot]);
  assert_non_null(p->buffers[slot]);
  memset(p->buffers[slot], 0xff, p->bytes[slot]);
  t.data = (char *)p->buffers[slot] + GUARD * size;
  return t;
}

static problem make_problem(const shape *s, int dtype, int mask, int layout, int with_lse) {
  problem p = {.args = ATTNPRESS_FORWARD_ARGS_INIT};
  attnpress_forward_args *a = &p.args;
  a->q = make_tensor(&p, 0, s->batch, s->seqlen_q, s->heads_q, s->hdim, dtype, layout);
  a->k = make_tensor(&p, 1, s->batch, s->seqlen_k, s->heads_kv, s->hdim, dtype, layout);
  a->v = make_tensor(&p, 2, s->batch, s->seqlen_k, s->heads_kv, s->hdim_v, dtype, layout);
  a->out = make_tensor(&p, 3, s->batch, s->seqlen_q, s->heads_q, s->hdim_v, dtype, layout);
  a->mask = mask;
  reference_fill_normal(&a->q, 1);
  reference_fill_normal(&a->k, 2);
  reference_fill_normal(&a->v, 3);
  if (with_lse) {
    const int64_t gap = layout == GAPS ? 5 : 0;
    attnpress_tensor lse = {.shape = {s->batch, s->heads_q, s->seqlen_q, 1},
                            .stride = {0, 0, 1, 1}};
    lse.stride[1] = s->seqlen_q + gap;
    lse.stride[0] = s->heads_q * lse.stride[1] + gap;
    p.bytes[4] = (((size_t)reference_span(&lse) + 2 * GUARD) * sizeof(float) + 63) / 64 * 64;
    p.buffers[4] = aligned_alloc(64, p.bytes[4]);
    assert_non_null(p.buffers[4]);
    memset(p.buffers[4], 0xff, p.bytes[4]);
    a->lse = (float *)p.buffers[4] + GUARD;
    if (layout == GAPS) {
      a->lse_stride[0] = lse.stride[0];
      a->lse_stride[1] = lse.stride[1];
    }
  }
  return p;
}

static void free_problem(problem *p) {
  for (int i = 0; i < BUFFERS; ++i)
    free(p->buffers[i]);
}

/* Everything of out's and lse's buffers that is no element still holds the poison. */
static void check_surroundings(const problem *p) {
  const attnpress_forward_args *a = &p->args;
  const int size = reference_element_bytes(a->out.dtype);
  unsigned char *copy = malloc(p->bytes[3]);
  assert_non_null(copy);
  memcpy(copy, p->buffers[3], p->bytes[3]);
  for (int64_t b = 0; b < a->out.shape[0]; ++b)
    for (int64_t i = 0; i < a->out.shape[1]; ++i)
      for (int64_t h = 0; h < a->out.shape[2]; ++h) {
        int64_t at = b * a->out.stride[0] + i * a->out.stride[1] + h * a->out.stride[2];
        memset(copy + (GUARD + at) * size, 0xff, (size_t)a->out.shape[3] * size);
      }
  for (size_t i = 0; i < p->bytes[3]; ++i)
    if (copy[i] != 0xff)
      fail_msg("out's buffer was written at byte %zu of %zu, beside the tensor", i, p->bytes[3]);
  free(copy);
  if (!a->lse)
    return;
  const float *begin = p->buffers[4], *end = begin + p->bytes[4] / sizeof(float);
  int64_t written = 0;
  for (const float *f = begin; f < end; ++f)
    written += ap_bits_from_float(*f) != 0xffffffff;
  assert_true(written <= a->q.shape[0] * a->q.shape[1] * a->q.shape[2]);
  assert_true(isnan(a->lse[-1]));
}

static void run_and_check(problem *p, int num_threads, ap_cpu_isa isa, const char *text) {
  attnpress_forward_args *a = &p->args;
  assert_int_equal(ap_cpu_forward_isa(a, num_threads, isa), ATTNPRESS_OK);
  reference r;
  reference_error e = {0};
  assert_int_equal(reference_init(&r, a), 0);
  reference_check(&r, &e);
  reference_free(&r);
  e.capped = 0; /* the CPU's tanh is exact */
  if (!reference_holds(&e))
    fail_msg(
        "%s %s %s %s%s, batch %d heads %d/%d seqlen %d/%d hdim %d/%d: out error %g (bound %g) at "
        "(%d, %d, %d, %d): %.9g, expected %.9g; lse error %g at (%d, %d, %d): %.9g, expected "
        "%.9g",
        ap_cpu_isa_name(isa), dtype_names[a->q.dtype], mask_names[a->mask], text, p->text,
        (int)a->q.shape[0], (int)a->q.shape[2], (int)a->k.shape[2], (int)a->q.shape[1],
        (int)a->k.shape[1], (int)a->q.shape[3], (int)a->v.shape[3], e.out, reference_bound(&e),
        (int)e.at[0], (int)e.at[1], (int)e.at[2], (int)e.at[3], e.value, e.expected, e.lse,
        (int)e.lse_at[0], (int)e.lse_at[1], (int)e.lse_at[2], e.lse_value, e.lse_expected);
  check_surroundings(p);
}

/* ---- The table ---- */

static const shape shapes[] = {
    /* lengths at the edges of row blocks, key blocks, tiles and vectors; batch is raised where
     * there are too few elements */
    {1, 2, 2, 1, 1, 64, 64},
    {1, 2, 2, 1, 2, 64, 64},
    {1, 2, 1, 2, 1, 64, 64},
    {1, 3, 3, 3, 3, 64, 64},
    {1, 2, 2, 4, 95, 64, 64},
    {1, 2, 2, 5, 96, 64, 64},
    {1, 2, 2, 15, 97, 64, 64},
    {1, 1, 1, 16, 191, 64, 64},
    {1, 1, 1, 17, 192, 64, 64},
    {1, 1, 1, 31, 193, 64, 64},
    {1, 1, 1, 33, 13, 64, 64},
    {1, 1, 1, 95, 96, 64, 64},
    {1, 1, 1, 96, 96, 64, 64},
    {1, 1, 1, 97, 97, 64, 64},
    {1, 1, 1, 113, 203, 64, 64},
    {1, 1, 1, 203, 113, 64, 64},
    {1, 1, 1, 239, 1, 64, 64},
    {1, 1, 1, 1, 239, 64, 64},
    {1, 1, 1, 3, 799, 64, 64},
    {1, 1, 1, 256, 512, 64, 64},
    {1, 1, 1, 512, 256, 64, 64},
    {1, 1, 1, 1, 20000, 64, 64},
    {1, 8, 1, 2, 3000, 64, 64},
    /* head dims */
    {2, 2, 1, 37, 101, 8, 8},
    {2, 2, 1, 37, 101, 16, 16},
    {2, 2, 1, 37, 101, 24, 24},
    {2, 2, 1, 37, 101, 32, 32},
    {2, 2, 1, 37, 101, 40, 40},
    {2, 2, 1, 37, 101, 72, 72},
    {2, 2, 1, 37, 101, 80, 80},
    {2, 2, 1, 37, 101, 96, 96},
    {2, 2, 1, 37, 101, 112, 112},
    {2, 2, 1, 37, 101, 128, 128},
    {2, 2, 1, 37, 101, 160, 160},
    {2, 2, 1, 37, 101, 200, 200},
    {2, 2, 1, 37, 101, 256, 256},
    {2, 2, 1, 37, 101, 320, 320},
    {2, 2, 1, 37, 101, 504, 504},
    {2, 2, 1, 37, 101, 512, 512},
    {2, 2, 1, 37, 101, 192, 128},
    {2, 2, 1, 37, 101, 128, 64},
    {2, 2, 1, 37, 101, 64, 128},
    {2, 2, 1, 37, 101, 96, 64},
    {2, 2, 1, 37, 101, 256, 128},
    {2, 2, 1, 37, 101, 8, 512},
    {2, 2, 1, 37, 101, 512, 8},
    {2, 2, 1, 37, 101, 72, 40},
    {2, 2, 1, 37, 101, 40, 72},
    {2, 2, 1, 37, 101, 264, 64},
    {4, 2, 2, 1, 101, 64, 264},
    {4, 2, 2, 1, 101, 136, 120},
    {4, 2, 2, 1, 101, 8, 8},
    {4, 2, 2, 1, 101, 72, 72},
    {4, 2, 2, 1, 101, 512, 512},
    {4, 2, 2, 1, 101, 192, 128},
    /* groups of query heads */
    {1, 4, 1, 50, 100, 64, 64},
    {1, 7, 1, 50, 100, 64, 64},
    {1, 8, 1, 50, 100, 64, 64},
    {1, 14, 2, 29, 130, 64, 64},
    {1, 32, 8, 1, 300, 64, 64},
    {1, 6, 2, 1, 300, 64, 64},
    {1, 7, 1, 1, 300, 128, 128},
    {1, 100, 1, 1, 200, 64, 64},
    {1, 12, 3, 2, 300, 64, 64},
};

/* Shapes with too few elements for the criterion get more batches. */
static void check_shape(shape s, int dtype, int mask, int layout, int with_lse) {
  while (s.batch * s.heads_q * s.seqlen_q * s.hdim_v < REFERENCE_MIN_ELEMENTS)
    ++s.batch;
  problem p = make_problem(&s, dtype, mask, layout, with_lse);
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    memset(p.buffers[3], 0xff, p.bytes[3]);
    if (with_lse)
      memset(p.buffers[4], 0xff, p.bytes[4]);
    run_and_check(&p, 1, (ap_cpu_isa)isa, layout_names[layout]);
  }
  free_problem(&p);
}

/* What the processor can do, as Linux sees it: each flag stands between spaces in /proc/cpuinfo. */
static int linux_sees(const char *const *flags) {
  static char text[1 << 16];
  FILE *file = fopen("/proc/cpuinfo", "r");
  assert_non_null(file);
  const size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[size] = 0;
  for (char *c = text; *c != 0; ++c)
    if (*c == '\n')
      *c = ' ';
  for (; *flags != NULL; ++flags) {
    char word[32];
    snprintf(word, sizeof word, " %s ", *flags);
    if (strstr(text, word) == NULL)
      return 0;
  }
  return 1;
}

/* A wrong no costs speed and nothing else, so that no other test sees it. */
static void test_instruction_sets(void **state) {
  (void)state;
#if defined(__x86_64__)
  const char *const avx2[] = {"avx2", "fma", "f16c", NULL};
  const char *const avx512[] = {"avx512f", "avx512bw", "avx512dq", "avx512vl", NULL};
  assert_int_equal(ap_cpu_isa_usable(AP_CPU_AVX2), linux_sees(avx2));
  assert_int_equal(ap_cpu_isa_usable(AP_CPU_AVX512), linux_sees(avx2) && linux_sees(avx512));
#else
  assert_int_equal(ap_cpu_best_isa(), AP_CPU_PLAIN);
#endif
}

static void test_table(void **state) {
  (void)state;
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa)
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      print_message("%s: not on this processor\n", ap_cpu_isa_name((ap_cpu_isa)isa));
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask)
        if (!left_out((int)i + 2 * dtype + 5 * mask))
          check_shape(shapes[i], dtype, mask, (int)(i + (size_t)dtype + (size_t)mask) % LAYOUTS,
                      (int)(i + (size_t)mask) % 4 != 0);
}

static void test_every_layout(void **state) {
  (void)state;
  const shape s = {2, 4, 2, 100, 110, 72, 72};
  for (int layout = 0; layout < LAYOUTS; ++layout)
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
      for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask) {
        if (left_out(layout - dtype))
          continue;
        problem p = make_problem(&s, dtype, mask, layout, 1);
        run_and_check(&p, 1, ap_cpu_best_isa(), layout_names[layout]);
        free_problem(&p);
      }
}

/* Strides of 0 read one K and V for every batch. */
static void test_shared_keys(void **state) {
  (void)state;
  const shape s = {3, 2, 2, 20, 50, 64, 64};
  problem p = make_problem(&s, ATTNPRESS_BF16, ATTNPRESS_FULL, BSHD, 1);
  p.args.k.stride[0] = p.args.v.stride[0] = 0;
  run_and_check(&p, 1, ap_cpu_best_isa(), "one K and V");
  free_problem(&p);
}

static void test_scale(void **state) {
  (void)state;
  static const float scales[] = {0.01f, 0.5f, 3.0f};
  const shape s = {2, 2, 2, 40, 100, 64, 64};
  for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype)
    for (int i = 0; i < 3; ++i) {
      problem p = make_problem(&s, dtype, ATTNPRESS_CAUSAL, BHSD, 1);
      p.args.scale = scales[i];
      run_and_check(&p, 1, ap_cpu_best_isa(), "scale");
      free_problem(&p);
    }
}

/* ---- Rows without keys, and no rows ---- */

static void test_rows_without_keys(void **state) {
  (void)state;
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask) {
      const int seqlen_k = mask == ATTNPRESS_CAUSAL ? 30 : 0; /* causal: rows 0 to 169 see none */
      const int rows = mask == ATTNPRESS_CAUSAL ? 170 : 200;
      const shape s = {2, 4, 2, 200, seqlen_k, 40, 40};
      problem p = make_problem(&s, ATTNPRESS_FP16, mask, GAPS, 1);
      run_and_check(&p, 1, (ap_cpu_isa)isa, "no keys");
      for (int b = 0; b < 2; ++b)
        for (int h = 0; h < 4; ++h)
          for (int i = 0; i < rows; ++i) {
            assert_true(p.args.lse[b * p.args.lse_stride[0] + h * p.args.lse_stride[1] + i] ==
                        -INFINITY);
            for (int c = 0; c < 40; ++c)
              assert_true(reference_load(&p.args.out, b, i, h, c) == 0.0f);
          }
      free_problem(&p);
    }
  }
}

static void test_nothing_to_do(void **state) {
  (void)state;
  static const shape empty[] = {{0, 2, 2, 5, 5, 64, 64},
                                {2, 2, 2, 0, 5, 64, 64},
                                {2, 2, 2, 0, 0, 64, 64},
                                {2, 0, 0, 5, 5, 64, 64}};
  for (size_t i = 0; i < sizeof empty / sizeof *empty; ++i) {
    problem p = make_problem(&empty[i], ATTNPRESS_BF16, ATTNPRESS_CAUSAL, BSHD, 1);
    assert_int_equal(ap_cpu_forward(&p.args, 4), ATTNPRESS_OK);
    check_surroundings(&p);
    free_problem(&p);
  }
}

/* ---- Numbers that a careless exponential or maximum would stumble over ---- */

static void test_large_scores(void **state) {
  (void)state;
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    const shape s = {1, 2, 2, 40, 300, 64, 64};
    problem p = make_problem(&s, ATTNPRESS_FP32, ATTNPRESS_CAUSAL, BSHD, 1);
    for (int i = 0; i < 40 * 2 * 64; ++i) /* scores of some thousands, most probabilities zero */
      ((float *)p.args.q.data)[i] *= 1000.0f;
    assert_int_equal(ap_cpu_forward_isa(&p.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
    reference r;
    assert_int_equal(reference_init(&r, &p.args), 0);
    for (int i = 0; i < 40; ++i)
      for (int h = 0; h < 2; ++h) {
        reference_row(&r, 0, i, h);
        assert_true(fabs(p.args.lse[h * 40 + i] - r.lse) <= 1e-5 * fabs(r.lse));
        for (int c = 0; c < 64; ++c) /* fp32 scores of 1e4 are good to about 1e-3 */
          assert_true(fabs(reference_load(&p.args.out, 0, i, h, c) - r.out[c]) < 2e-2);
      }
    reference_free(&r);
    free_problem(&p);
  }
}

/* The criterion's 1e-5 is wide for fp32; a coarse exponential would hide in it. */
static void test_fp32_precision(void **state) {
  (void)state;
  const shape s = {2, 2, 2, 100, 300, 64, 64};
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    problem p = make_problem(&s, ATTNPRESS_FP32, ATTNPRESS_CAUSAL, BSHD, 1);
    assert_int_equal(ap_cpu_forward_isa(&p.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
    reference r;
    reference_error e = {0};
    assert_int_equal(reference_init(&r, &p.args), 0);
    reference_check(&r, &e);
    reference_free(&r);
    assert_true(e.out < 1.5e-6 && e.lse < 5e-7);
    free_problem(&p);
  }
}

/* A NaN in one query row makes that row NaN and leaves the others alone. */
static void test_nan_stays_in_its_row(void **state) {
  (void)state;
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    for (int seqlen_q = 2; seqlen_q <= 20; seqlen_q += 18) {
      const shape s = {1, 1, 1, seqlen_q, 200, 64, 64};
      problem p = make_problem(&s, ATTNPRESS_FP32, ATTNPRESS_FULL, BSHD, 1);
      ((float *)p.args.q.data)[64 + 3] = ap_float_from_bits(0x7fc00001);
      assert_int_equal(ap_cpu_forward_isa(&p.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
      for (int i = 0; i < seqlen_q; ++i) {
        assert_int_equal(isnan(p.args.lse[i]) != 0, i == 1);
        for (int c = 0; c < 64; ++c)
          assert_int_equal(isnan(reference_load(&p.args.out, 0, i, 0, c)) != 0, i == 1);
      }
      free_problem(&p);
    }
  }
}

/* ---- Keys that a row does not see ---- */

/* All of a key's row of `t`, in every batch and head. */
static void spoil_key(const attnpress_tensor *t, int64_t key, float value) {
  for (int64_t b = 0; b < t->shape[0]; ++b)
    for (int64_t h = 0; h < t->shape[2]; ++h)
      for (int64_t c = 0; c < t->shape[3]; ++c) {
        const int64_t at = b * t->stride[0] + key * t->stride[1] + h * t->stride[2] + c;
        ap_store_element(t->data, at, value, t->dtype);
      }
}

/* Rows below `row` are those of the clean call, bit for bit; the others are not finite, where
 * `spreads`. */
static void check_spoiled(const problem *clean, const problem *spoiled, int64_t row, int spreads) {
  const attnpress_tensor *out = &clean->args.out;
  const int64_t seqlen = out->shape[1], heads = out->shape[2];
  const size_t row_bytes = (size_t)out->shape[3] * reference_element_bytes(out->dtype);
  for (int64_t i = 0; i < seqlen; ++i)
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = i * out->stride[1] + h * out->stride[2];
      const size_t byte = (size_t)(GUARD + at) * reference_element_bytes(out->dtype);
      if (i < row) {
        assert_memory_equal((char *)clean->buffers[3] + byte, (char *)spoiled->buffers[3] + byte,
                            row_bytes);
        assert_memory_equal(&clean->args.lse[h * seqlen + i], &spoiled->args.lse[h * seqlen + i],
                            sizeof(float));
      }
      for (int64_t c = 0; spreads && i >= row && c < out->shape[3]; ++c)
        assert_false(isfinite(reference_load(&spoiled->args.out, 0, i, h, c)));
    }
}

/* Infinities and NaN in K or V at a key reach the rows that see it, and no other. */
static void test_what_a_row_does_not_see(void **state) {
  (void)state;
  static const struct {
    shape s;
    int key;
  } cases[] = {
      {{1, 1, 1, 200, 200, 64, 64}, 150}, /* inside a key block */
      {{1, 1, 1, 200, 200, 64, 64}, 199},
      {{1, 1, 1, 200, 200, 64, 64}, 1},
      {{1, 1, 1, 97, 97, 40, 40}, 96},
      {{1, 1, 1, 250, 200, 24, 24}, 101}, /* rows 0 to 49 see no key */
      {{1, 6, 2, 50, 200, 72, 72}, 175},  /* three rows share a position */
      {{1, 1, 1, 3, 200, 64, 64}, 199},   /* few rows */
      {{1, 2, 1, 2, 97, 128, 128}, 96},
  };
  static const uint32_t values[] = {0x7f800000, 0xff800000, 0x7fc00000}; /* Inf, -Inf, NaN */
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
      for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_FP32; ++dtype) {
        const shape *s = &cases[i].s;
        const int64_t row = cases[i].key - (s->seqlen_k - s->seqlen_q);
        problem clean = make_problem(s, dtype, ATTNPRESS_CAUSAL, BHSD, 1);
        run_and_check(&clean, 1, (ap_cpu_isa)isa, "clean");
        for (int v = 0; v < 3; ++v)
          for (int in_v = 0; in_v < 2; ++in_v) {
            problem p = make_problem(s, dtype, ATTNPRESS_CAUSAL, BHSD, 1);
            spoil_key(in_v ? &p.args.v : &p.args.k, cases[i].key, ap_float_from_bits(values[v]));
            assert_int_equal(ap_cpu_forward_isa(&p.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
            check_spoiled(&clean, &p, row, in_v || isnan(ap_float_from_bits(values[v])));
            check_surroundings(&p);
            free_problem(&p);
          }
        free_problem(&clean);
      }
  }
}

/* ---- What is done to scores ---- */

/* 0, or a row of one of the tables below, from 1 on. */
typedef struct features {
  int mask, softcap, alibi, bias, sinks, dropout;
} features;

static const attnpress_window windows[] = {
    {.left = -1, .right = -1},
    {.left = 127, .right = 0},
    {.left = 0, .right = 0},
    {.left = 3, .right = 0},
    {.left = 40, .right = 11},
    {.left = -1, .right = 5},
    {.left = 17, .right = -1},
    {.left = 300, .right = 300},
    {.left = 20, .right = 0, .top_left = 1},
    {.left = -1, .right = 0, .top_left = 1},
    {.left = 0, .right = 9, .top_left = 1},
    {.left = -1, .right = -1, .chunk = 64},
    {.left = -1, .right = 0, .chunk = 50},
    {.left = 30, .right = 0, .chunk = 100},
    {.left = -1, .right = 0, .chunk = 1, .top_left = 1},
    {.left = 70, .right = 3, .chunk = 97, .top_left = 1},
};
enum { WINDOWS = sizeof windows / sizeof *windows, MASKS = 2 + WINDOWS };

static const float softcaps[] = {0.0f, 30.0f, 1.5f, 1000.0f};

/* Slopes of heads; of batch and heads; of one value for all batches with gaps between heads. */
enum { NO_ALIBI, OF_HEADS, OF_BATCHES, WITH_GAPS, ALIBIS };

/* Layouts: contiguous; heads and batches share one; rows share one, with a gap between keys; keys
 * with rows inside, as a transposed tensor lies; some keys and whole rows masked. Three dtypes each.
 */
enum { DENSE, SHARED, ONE_ROW, TRANSPOSED, HOLES, BIAS_LAYOUTS, BIASES = 1 + 3 * BIAS_LAYOUTS };

/* Three dtypes, contiguous or not; the last with -inf among them. */
enum { SINK_KINDS = 1 + 3 * 2 };

static const float dropouts[] = {0.0f, 0.17f, 0.5f};

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static void *poisoned(problem *p, int slot, size_t elements, int dtype) {
  const size_t size = (size_t)reference_element_bytes(dtype);
  p->bytes[slot] = ((elements + 2 * GUARD) * size + 63) / 64 * 64;
  p->buffers[slot] = aligned_alloc(64, p->bytes[slot]);
  assert_non_null(p->buffers[slot]);
  memset(p->buffers[slot], 0xff, p->bytes[slot]);
  return (char *)p->buffers[slot] + GUARD * size;
}

/* From -2 to 2. */
static float random_value(uint64_t *state) {
  return (float)(next_random(state) % 4001) * 1e-3f - 2.0f;
}

static void add_bias(problem *p, int kind) {
  const int64_t *q = p->args.q.shape, keys = p->args.k.shape[1];
  const int layout = (kind - 1) / 3, dtype = ATTNPRESS_FP16 + (kind - 1) % 3;
  attnpress_bias *b = &p->bias;
  *b = (attnpress_bias)ATTNPRESS_BIAS_INIT;
  const int one = layout == SHARED || layout == ONE_ROW;
  b->dtype = dtype;
  memcpy(b->shape, (int64_t[]){one ? 1 : q[0], one ? 1 : q[2], q[1], keys}, sizeof b->shape);
  memcpy(b->stride, (int64_t[]){q[2] * q[1] * keys, q[1] * keys, keys, 1}, sizeof b->stride);
  if (layout == ONE_ROW)
    memcpy(b->stride, (int64_t[]){0, 0, 0, 2}, sizeof b->stride);
  if (layout == SHARED)
    b->stride[0] = b->stride[1] = INT64_MAX; /* not computed with */
  if (layout == TRANSPOSED)
    memcpy(b->stride, (int64_t[]){1, keys * q[1] * q[0], q[0], q[1] * q[0]}, sizeof b->stride);
  int64_t span = 1;
  for (int i = 0; i < 4; ++i)
    span += b->shape[i] > 1 ? (b->shape[i] - 1) * b->stride[i] : 0;
  void *data = poisoned(p, BIAS, (size_t)span, dtype);
  uint64_t state = 17;
  for (int64_t at = 0; at < span; ++at) {
    float value = random_value(&state);
    if (layout == HOLES && keys > 0 && (next_random(&state) % 8 == 0 || at / keys % 5 == 3))
      value = -INFINITY;
    if (layout != ONE_ROW || at % 2 == 0) /* between the keys there is NaN */
      ap_store_element(data, at, value, dtype);
  }
  b->data = data;
  p->args.bias = b;
}

static void add_alibi(problem *p, int kind) {
  const int64_t batch = p->args.q.shape[0], heads = p->args.q.shape[2];
  attnpress_alibi *alibi = &p->alibi;
  *alibi = (attnpress_alibi)ATTNPRESS_ALIBI_INIT;
  if (kind == OF_BATCHES)
    alibi->stride[0] = heads;
  if (kind != OF_HEADS)
    alibi->stride[1] = kind == WITH_GAPS ? 3 : 1;
  const int64_t step = kind == WITH_GAPS ? 3 : 1, rows = kind == OF_BATCHES ? batch : 1;
  float *slopes = poisoned(p, SLOPES, (size_t)(rows * heads * step), ATTNPRESS_FP32);
  for (int64_t i = 0; i < rows * heads; ++i)
    slopes[i * step] = exp2f(-8.0f * (float)(i + 1) / (float)(rows * heads));
  alibi->slopes = slopes;
  p->args.alibi = alibi;
}

static void add_sinks(problem *p, int kind) {
  const int64_t heads = p->args.q.shape[2];
  const int dtype = ATTNPRESS_FP16 + (kind - 1) % 3;
  attnpress_sinks *sinks = &p->sinks;
  *sinks = (attnpress_sinks)ATTNPRESS_SINKS_INIT;
  sinks->dtype = dtype;
  sinks->stride = kind > 3 ? 5 : 0;
  const int64_t step = kind > 3 ? 5 : 1;
  void *data = poisoned(p, SINKS, (size_t)(heads * step), dtype);
  for (int64_t h = 0; h < heads; ++h)
    ap_store_element(data, h * step,
                     kind == SINK_KINDS - 1 && h % 2 ? -INFINITY : 1.5f * (float)(h % 5) - 1.0f,
                     dtype);
  sinks->data = data;
  p->args.sinks = sinks;
}

static void add_dropout(problem *p, int kind) {
  attnpress_dropout *dropout = &p->dropout;
  *dropout = (attnpress_dropout)ATTNPRESS_DROPOUT_INIT;
  dropout->probability = dropouts[kind];
  dropout->seed = 1234;
  dropout->offset = 5;
  if (kind == 2) {
    p->seed_and_offset[0] = UINT64_C(0x123456789abcdef0);
    p->seed_and_offset[1] = UINT64_C(0xfedcba9876543210);
    dropout->seed_and_offset = p->seed_and_offset;
  }
  p->args.dropout = dropout;
}

/* What make_problem() made, with features. It does not move from then on. */
static void add_features(problem *p, const features *f) {
  attnpress_forward_args *a = &p->args;
  a->mask = f->mask < 2 ? f->mask : ATTNPRESS_WINDOW;
  if (f->mask >= 2) {
    p->window = windows[f->mask - 2];
    p->window.struct_size = sizeof p->window;
    a->window = &p->window;
  }
  a->softcap = softcaps[f->softcap];
  if (f->alibi)
    add_alibi(p, f->alibi);
  if (f->bias)
    add_bias(p, f->bias);
  if (f->sinks)
    add_sinks(p, f->sinks);
  if (f->dropout)
    add_dropout(p, f->dropout);
  snprintf(p->text, sizeof p->text,
           ", window %d: left %d right %d chunk %d top_left %d, softcap %g, alibi %d, bias %d, "
           "sinks %d, dropout %g",
           f->mask - 2, (int)p->window.left, (int)p->window.right, (int)p->window.chunk,
           (int)p->window.top_left, (double)a->softcap, f->alibi, f->bias, f->sinks,
           (double)dropouts[f->dropout]);
}

static void check_features(const shape *s, const features *f, int dtype, int layout,
                           ap_cpu_isa isa) {
  problem p = make_problem(s, dtype, ATTNPRESS_FULL, layout, 1);
  add_features(&p, f);
  run_and_check(&p, 1, isa, layout_names[layout]);
  free_problem(&p);
}

/* Lengths and ratios of the features' tests; each has enough elements. */
static const shape feature_shapes[] = {
    {2, 4, 2, 113, 203, 40, 40}, {1, 3, 3, 203, 113, 64, 64}, {3, 6, 2, 1, 307, 256, 256},
    {2, 6, 1, 101, 97, 72, 72},  {1, 2, 2, 257, 257, 64, 64}, {4, 8, 2, 3, 200, 64, 64},
    {2, 2, 2, 96, 192, 24, 24},  {5, 4, 4, 17, 0, 64, 64},    {1, 7, 1, 50, 149, 96, 64},
};
enum { FEATURE_SHAPES = sizeof feature_shapes / sizeof *feature_shapes };

/* The usable instruction set that is the n-th, counted round and round. */
static ap_cpu_isa isa_of(int n) {
  int usable = 0;
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa)
    usable += ap_cpu_isa_usable((ap_cpu_isa)isa);
  n %= usable;
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa)
    if (ap_cpu_isa_usable((ap_cpu_isa)isa) && n-- == 0)
      return (ap_cpu_isa)isa;
  return AP_CPU_PLAIN;
}

/* Every kind of every feature by itself, with every mask that is no window, by each instruction
 * set. */
static void test_each_feature(void **state) {
  (void)state;
  static const int kinds[] = {MASKS, 4, ALIBIS, BIASES, SINK_KINDS, 3};
  int n = 0;
  for (int axis = 0; axis < 6; ++axis)
    for (int kind = 1; kind < kinds[axis]; ++kind)
      for (int s = 0; s < FEATURE_SHAPES; ++s, ++n) {
        if (left_out(n))
          continue;
        int value[6] = {n % 2}; /* full or causal */
        value[axis] = kind;
        const features f = {value[0], value[1], value[2], value[3], value[4], value[5]};
        for (int i = 0; i < 3; ++i)
          check_features(&feature_shapes[s], &f, ATTNPRESS_FP16 + (n + i) % 3, n % LAYOUTS,
                         isa_of(i));
      }
}

/* Any of them together. */
static void test_features_together(void **state) {
  (void)state;
  uint64_t random = 2024;
  for (int n = 0; n < 600; ++n) {
    const features f = {.mask = (int)(next_random(&random) % MASKS),
                        .softcap = (int)(next_random(&random) % 4),
                        .alibi = (int)(next_random(&random) % ALIBIS),
                        .bias = next_random(&random) % 2 ? (int)(next_random(&random) % BIASES) : 0,
                        .sinks = (int)(next_random(&random) % SINK_KINDS),
                        .dropout = (int)(next_random(&random) % 3)};
    const shape *s = &feature_shapes[next_random(&random) % FEATURE_SHAPES];
    const int dtype = ATTNPRESS_FP16 + (int)(next_random(&random) % 3);
    const int layout = (int)(next_random(&random) % LAYOUTS);
    if (!left_out(n))
      check_features(s, &f, dtype, layout, isa_of(n));
  }
}

/* A window that shows everything, neutral slopes, a bias of 0, sinks of -inf and a probability of 0
 * change no bit; nor does a window that is the causal mask. */
static void test_neutral_features(void **state) {
  (void)state;
  const shape s = {2, 4, 2, 113, 203, 40, 40};
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    for (int causal = 0; causal < 2; ++causal) {
      problem plain = make_problem(&s, ATTNPRESS_BF16, causal, BSHD, 1);
      problem p = make_problem(&s, ATTNPRESS_BF16, causal, BSHD, 1);
      add_features(&p, &(features){.mask = 2, .alibi = OF_HEADS, .bias = 1 + 2, .sinks = 3});
      p.window.right = causal ? 0 : -1;
      memset(p.buffers[BIAS], 0, p.bytes[BIAS]);
      memset(p.buffers[SLOPES], 0, p.bytes[SLOPES]);
      for (int h = 0; h < 4; ++h)
        ap_store_element(ATTNPRESS_DATA(p.sinks.data), h, -INFINITY, ATTNPRESS_FP32);
      add_dropout(&p, 0);
      assert_int_equal(ap_cpu_forward_isa(&plain.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
      assert_int_equal(ap_cpu_forward_isa(&p.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
      assert_memory_equal(plain.buffers[3], p.buffers[3], p.bytes[3]);
      assert_memory_equal(plain.buffers[4], p.buffers[4], p.bytes[4]);
      free_problem(&plain);
      free_problem(&p);
    }
  }
}

/* Many heads of one query as the queries of their key head (runtime/attention/heads.c): the same bits
 * at the same places, in any layout. */
static void test_heads_as_rows(void **state) {
  (void)state;
  static const shape cases[] = {{2, 142, 2, 1, 200, 40, 24}, {3, 71, 1, 1, 33, 24, 40}};
  for (int n = 0; n < 2 * LAYOUTS; ++n) {
    const shape *s = &cases[n % 2];
    const int layout = n / 2;
    problem p = make_problem(s, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, layout, layout != GAPS);
    problem rows = make_problem(s, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, layout, layout != GAPS);
    ap_problem heads = {.heads_q = s->heads_q, .heads_kv = s->heads_kv, .seqlen_q = 1};
    assert_true(ap_head_rows_fit(&rows.args));
    ap_take_heads_as_rows(&rows.args, &heads);
    assert_int_equal(heads.seqlen_q, 71);
    assert_int_equal(rows.args.q.shape[1], 71);
    assert_int_equal(ap_cpu_forward(&p.args, 1), ATTNPRESS_OK);
    assert_int_equal(ap_cpu_forward(&rows.args, 1), ATTNPRESS_OK);
    assert_memory_equal(p.buffers[3], rows.buffers[3], p.bytes[3]);
    if (layout != GAPS)
      assert_memory_equal(p.buffers[4], rows.buffers[4], p.bytes[4]);
    else { /* whose lse would have gaps */
      problem apart = make_problem(s, ATTNPRESS_BF16, ATTNPRESS_CAUSAL, layout, 1);
      assert_false(ap_head_rows_fit(&apart.args));
      free_problem(&apart);
    }
    free_problem(&p);
    free_problem(&rows);
  }
}

/* NaN in K and V at a key reaches the rows that see it, and no other, under every window and with
 * every feature. */
static void test_what_a_window_hides(void **state) {
  (void)state;
  static const shape cases[] = {
      {1, 2, 1, 150, 200, 40, 40}, {1, 6, 2, 3, 200, 64, 64}, {1, 1, 1, 200, 120, 24, 24}};
  for (int n = 0; n < 3 * MASKS; ++n) {
    const shape *s = &cases[n % 3];
    const features f = {.mask = n / 3,
                        .softcap = n % 2,
                        .alibi = n % ALIBIS,
                        .bias = n % 3,
                        .sinks = n % 4,
                        .dropout = 0};
    const int dtype = ATTNPRESS_FP16 + n / 3 % 3;
    if (left_out(n))
      continue;
    problem clean = make_problem(s, dtype, ATTNPRESS_FULL, BHSD, 1);
    add_features(&clean, &f);
    run_and_check(&clean, 1, isa_of(n), "clean");
    for (int64_t key = n % 7; key < s->seqlen_k; key += 37) {
      problem p = make_problem(s, dtype, ATTNPRESS_FULL, BHSD, 1);
      add_features(&p, &f);
      spoil_key(&p.args.v, key, NAN);
      if (key % 2)
        spoil_key(&p.args.k, key, NAN);
      assert_int_equal(ap_cpu_forward_isa(&p.args, 1, isa_of(n)), ATTNPRESS_OK);
      for (int64_t i = 0; i < s->seqlen_q; ++i)
        for (int64_t h = 0; h < s->heads_q; ++h) {
          const int seen = reference_sees(&p.args, i, key);
          const float *lse[] = {&clean.args.lse[h * s->seqlen_q + i],
                                &p.args.lse[h * s->seqlen_q + i]};
          if (!seen)
            assert_memory_equal(lse[0], lse[1], sizeof(float));
          for (int64_t c = 0; c < s->hdim_v; ++c) {
            const float value = reference_load(&p.args.out, 0, i, h, c);
            if (seen)
              assert_true(isnan(value));
            else
              assert_true(value == reference_load(&clean.args.out, 0, i, h, c));
          }
        }
      free_problem(&p);
    }
    free_problem(&clean);
  }
}

/* Rows that a bias masks whole, and rows that a window leaves without keys: 0 and -inf, or the sink.
 */
static void test_rows_that_see_nothing(void **state) {
  (void)state;
  const shape s = {1, 2, 2, 130, 100, 64, 64};
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    for (int with_sinks = 0; with_sinks < 2; ++with_sinks) {
      problem p = make_problem(&s, ATTNPRESS_FP16, ATTNPRESS_FULL, BSHD, 1);
      /* left 3, right 0: rows 0 to 29 see none; row 5 + 100 is masked whole */
      add_features(&p, &(features){.mask = 2 + 3, .bias = 1, .sinks = with_sinks});
      for (int j = 0; j < 100; ++j)
        ap_store_element(ATTNPRESS_DATA(p.bias.data), (1 * 130 + 105) * 100 + j, -INFINITY,
                         ATTNPRESS_FP16);
      run_and_check(&p, 1, (ap_cpu_isa)isa, "rows without keys");
      for (int h = 0; h < 2; ++h)
        for (int i = 0; i < 130; ++i) {
          if (i >= 30 && !(h == 1 && i == 105))
            continue;
          const float sink = 1.5f * (float)h - 1.0f;
          assert_true(p.args.lse[h * 130 + i] == (with_sinks ? sink : -INFINITY));
          for (int c = 0; c < 64; ++c)
            assert_true(reference_load(&p.args.out, 0, i, h, c) == 0.0f);
        }
      free_problem(&p);
    }
  }
}

/* Neither the number of threads nor the rows that share a row block change what is dropped: the
 * output of a V of unit vectors tells the probabilities. */
static void test_dropped_by_position(void **state) {
  (void)state;
  enum { KEYS = 64 };
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    for (int ratio = 1; ratio <= 3; ++ratio)
      for (int seqlen_q = 1; seqlen_q <= 131; seqlen_q += 65) {
        const shape s = {2, 2 * ratio, 2, seqlen_q, KEYS, KEYS, KEYS};
        problem p = make_problem(&s, ATTNPRESS_FP32, ATTNPRESS_FULL, BSHD, 1);
        add_features(&p, &(features){.dropout = 1});
        memset(p.args.q.data, 0, sizeof(float) * 2 * (size_t)(seqlen_q * 2 * ratio * KEYS));
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t j = 0; j < KEYS; ++j)
            for (int64_t h = 0; h < 2; ++h)
              for (int64_t c = 0; c < KEYS; ++c)
                ((float *)p.args.v.data)[((b * KEYS + j) * 2 + h) * KEYS + c] = j == c;
        assert_int_equal(ap_cpu_forward_isa(&p.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
        const ap_dropout d = ap_dropout_of(&p.dropout);
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t h = 0; h < 2 * ratio; ++h)
            for (int64_t i = 0; i < seqlen_q; ++i)
              for (int64_t j = 0; j < KEYS; ++j) {
                const float expected =
                    ap_dropout_keeps(&d, b * 2 * ratio + h, i, j) ? d.scale / KEYS : 0.0f;
                assert_true(fabsf(reference_load(&p.args.out, b, i, h, j) - expected) < 1e-7f);
              }
        free_problem(&p);
      }
  }
}

/* ---- Strides that nothing is computed with ---- */

/* A dimension of extent 1 may have any stride: an overflow is found by -fsanitize=undefined. */
static void test_strides_of_one(void **state) {
  (void)state;
  static const shape cases[] = {
      {1, 1, 1, 1, 1, 64, 64}, {1, 2, 2, 1, 1, 64, 64}, {2, 2, 1, 1, 1, 64, 64}};
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
      problem plain = make_problem(&cases[i], ATTNPRESS_FP16, ATTNPRESS_CAUSAL, BSHD, 1);
      problem huge = make_problem(&cases[i], ATTNPRESS_FP16, ATTNPRESS_CAUSAL, BSHD, 1);
      attnpress_tensor *tensors[] = {&huge.args.q, &huge.args.k, &huge.args.v, &huge.args.out};
      for (int t = 0; t < 4; ++t)
        for (int d = 0; d < 3; ++d)
          if (tensors[t]->shape[d] == 1)
            tensors[t]->stride[d] = INT64_MAX - 7;
      assert_int_equal(ap_cpu_forward_isa(&plain.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
      assert_int_equal(ap_cpu_forward_isa(&huge.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
      assert_memory_equal(plain.buffers[3], huge.buffers[3], plain.bytes[3]);
      assert_memory_equal(plain.buffers[4], huge.buffers[4], plain.bytes[4]);
      free_problem(&plain);
      free_problem(&huge);
    }
  }
}

/* ---- Memory ---- */

/* Nothing is written where the scratch memory is not to be had, and the next call works. */
static void test_out_of_memory(void **state) {
  (void)state;
  const shape s = {2, 2, 2, 200, 300, 64, 64};
  for (int threads = 1; threads <= 4; threads += 3) {
    problem p = make_problem(&s, ATTNPRESS_FP16, ATTNPRESS_FULL, BSHD, 1);
    threads_started = times_refused = 0;
    memory_is_out = 1;
    const attnpress_status status = ap_cpu_forward(&p.args, threads);
    memory_is_out = 0;
    assert_int_equal(status, ATTNPRESS_OUT_OF_MEMORY);
    assert_int_equal(times_refused, 1);
    assert_int_equal(threads_started, 0);
    assert_non_null(strstr(attnpress_last_error(), "use fewer threads"));
    for (int slot = 3; slot < 5; ++slot)
      for (size_t i = 0; i < p.bytes[slot]; ++i)
        assert_int_equal(((unsigned char *)p.buffers[slot])[i], 0xff);
    run_and_check(&p, threads, ap_cpu_best_isa(), "after a failure");
    free_problem(&p);
  }
}

/* ---- Threads ---- */

static void test_threads_change_no_bit(void **state) {
  (void)state;
  static const shape cases[] = {
      {2, 4, 2, 200, 700, 72, 72}, {1, 8, 2, 500, 300, 128, 64}, {3, 8, 8, 1, 9000, 64, 64}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    for (int mask = ATTNPRESS_FULL; mask <= ATTNPRESS_CAUSAL; ++mask) {
      if (left_out((int)i * 2 + mask))
        continue;
      problem one = make_problem(&cases[i], ATTNPRESS_BF16, mask, GAPS, 1);
      threads_started = 0;
      run_and_check(&one, 1, ap_cpu_best_isa(), "one thread");
      assert_int_equal(threads_started, 0);
      static const int counts[] = {4, 2, 3, 64, 0};
      for (int n = 0; n < 5; ++n) {
        problem many = make_problem(&cases[i], ATTNPRESS_BF16, mask, GAPS, 1);
        threads_started = 0;
        assert_int_equal(ap_cpu_forward(&many.args, counts[n]), ATTNPRESS_OK);
        if (counts[n] == 4)
          assert_int_equal(threads_started, 3);
        assert_memory_equal(one.buffers[3], many.buffers[3], one.bytes[3]);
        assert_memory_equal(one.buffers[4], many.buffers[4], one.bytes[4]);
        free_problem(&many);
      }
      free_problem(&one);
    }
}

/* Where no thread can be started the call does all the work itself. */
static void test_threads_that_cannot_start(void **state) {
  (void)state;
  shape s = {2, 4, 2, 200, 700, 72, 72};
  if (left_out(1))
    s = (shape){1, 4, 2, 60, 200, 72, 72}; /* still worth four threads */
  for (int allowed = 0; allowed < 3; ++allowed) {
    problem p = make_problem(&s, ATTNPRESS_FP16, ATTNPRESS_FULL, BHSD, 1);
    threads_started = 0;
    threads_allowed = allowed;
    run_and_check(&p, 4, ap_cpu_best_isa(), "few threads");
    assert_int_equal(threads_started, allowed);
    threads_allowed = 1 << 20;
    free_problem(&p);
  }
}

/* A small call is not worth a thread. */
static void test_small_calls_start_none(void **state) {
  (void)state;
  const shape s = {4, 4, 4, 8, 8, 64, 64};
  problem p = make_problem(&s, ATTNPRESS_FP16, ATTNPRESS_FULL, BHSD, 1);
  threads_started = 0;
  run_and_check(&p, 64, ap_cpu_best_isa(), "small");
  assert_int_equal(threads_started, 0);
  free_problem(&p);
}

/* ---- 16-bit conversions, all of them ---- */

static void test_half_conversions(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 0x10000; ++h) {
    float f = ap_float_from_fp16((uint16_t)h), b = ap_float_from_bf16((uint16_t)h);
    int exponent = (int)(h >> 10 & 31);
    double value =
        exponent == 0 ? ldexp(h & 0x3ff, -24) : ldexp(0x400 + (h & 0x3ff), exponent - 25);
    if (exponent < 31) {
      assert_true(fabs((double)f) == value && !signbit(f) == !(h & 0x8000));
    }
    if (isnan(f)) {
      assert_true(isnan(ap_float_from_fp16(ap_fp16_from_float(f))));
    } else {
      assert_int_equal(ap_fp16_from_float(f), h);
    }
    if (isnan(b)) {
      assert_true(isnan(ap_float_from_bf16(ap_bf16_from_float(b))));
    } else {
      assert_int_equal(ap_bf16_from_float(b), h);
    }
    if (h < 0x7bff) { /* halfway to the next goes to the even one, and beside it to the nearer */
      double next = ap_float_from_fp16((uint16_t)(h + 1)), middle = (f + next) / 2;
      assert_int_equal(ap_fp16_from_float((float)middle), h + (h & 1));
      assert_int_equal(ap_fp16_from_float(nextafterf((float)middle, 0.0f)), h);
      assert_int_equal(ap_fp16_from_float(nextafterf((float)middle, INFINITY)), h + 1);
    }
  }
  assert_int_equal(ap_fp16_from_float(65519.99f), 0x7bff);
  assert_int_equal(ap_fp16_from_float(65520.0f), 0x7c00);
  assert_int_equal(ap_bf16_from_float(ap_float_from_bits(0x3f808000)), 0x3f80);
  assert_int_equal(ap_bf16_from_float(ap_float_from_bits(0x3f818000)), 0x3f82);
  assert_int_equal(ap_bf16_from_float(ap_float_from_bits(0x7f7fffff)), 0x7f80);
  assert_true(isnan(ap_float_from_bf16(ap_bf16_from_float(ap_float_from_bits(0x7f800001)))));
}

/* Every value through each kernel: one key with P = 1, so that out is V. */
static void test_every_half(void **state) {
  (void)state;
  const shape s = {1, 128, 128, 1, 1, 512, 512};
  for (int isa = 0; isa < AP_CPU_ISA_COUNT; ++isa) {
    if (!ap_cpu_isa_usable((ap_cpu_isa)isa))
      continue;
    for (int dtype = ATTNPRESS_FP16; dtype <= ATTNPRESS_BF16; ++dtype) {
      problem p = make_problem(&s, dtype, ATTNPRESS_FULL, BSHD, 0);
      for (int i = 0; i < 0x10000; ++i)
        ((uint16_t *)p.args.v.data)[i] = (uint16_t)i;
      assert_int_equal(ap_cpu_forward_isa(&p.args, 1, (ap_cpu_isa)isa), ATTNPRESS_OK);
      for (int i = 0; i < 0x10000; ++i) {
        const double v = reference_load(&p.args.v, 0, 0, i / 512, i % 512);
        const double out = reference_load(&p.args.out, 0, 0, i / 512, i % 512);
        if (isnan(v) ? !isnan(out) : out != v)
          fail_msg("%s %s: 0x%04x is %g, and %g came out", ap_cpu_isa_name((ap_cpu_isa)isa),
                   dtype_names[dtype], (unsigned)i, v, out);
      }
      free_problem(&p);
    }
  }
}

/* The first argument picks tests: test_cpu 'test_str*'. */
int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_half_conversions),
      cmocka_unit_test(test_every_half),
      cmocka_unit_test(test_instruction_sets),
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_every_layout),
      cmocka_unit_test(test_shared_keys),
      cmocka_unit_test(test_scale),
      cmocka_unit_test(test_rows_without_keys),
      cmocka_unit_test(test_nothing_to_do),
      cmocka_unit_test(test_large_scores),
      cmocka_unit_test(test_fp32_precision),
      cmocka_unit_test(test_nan_stays_in_its_row),
      cmocka_unit_test(test_what_a_row_does_not_see),
      cmocka_unit_test(test_each_feature),
      cmocka_unit_test(test_features_together),
      cmocka_unit_test(test_neutral_features),
      cmocka_unit_test(test_heads_as_rows),
      cmocka_unit_test(test_what_a_window_hides),
      cmocka_unit_test(test_rows_that_see_nothing),
      cmocka_unit_test(test_dropped_by_position),
      cmocka_unit_test(test_strides_of_one),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_threads_change_no_bit),
      cmocka_unit_test(test_threads_that_cannot_start),
      cmocka_unit_test(test_small_calls_start_none),
  };
  if (argc > 1)
    cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
