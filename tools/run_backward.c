/* attnpress run --backward: random inputs through the forward and the backward pass, the latter timed,
 * and its gradients checked against float64 (reference_backward.h). */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/cpu.h"
#include "attention/defaults.h"
#include "cuda_device.h"
#include "reference_backward.h"
#include "run.h"
#include "sequences.h"
#include "session.h"
#include "tool.h"

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, TENSORS, LSE = TENSORS, DSINKS, DBIAS, WORKSPACE, BUFFERS };
#define BACKWARD_FLOPS 2.5 /* of the forward pass's: five products for two */

typedef struct session {
  const run_options *o;
  attnpress_handle *handle;
  attnpress_backward_args host, device;
  size_t bytes[BUFFERS];
  void *memory[BUFFERS];
  cuda_device cuda;
  int on_cuda;
  CUdeviceptr buffers[BUFFERS], score_buffers[SCORE_BUFFERS];
  CUdeviceptr arrays; /* of the lengths */
  attnpress_ragged device_ragged;
  score_data scores;          /* of host */
  score_groups device_scores; /* of device */
  attnpress_dbias host_dbias, device_dbias;
  CUstream stream;
  CUevent start, end;
  attnpress_plan *plan;
  int launches;
  attnpress_info info[RUN_LAUNCHES_MAX];
  int64_t repeat, differing; /* runs; of those, with other bits than the first one */
  int64_t rounds;            /* calls that were checked, each of other inputs */
  double first_ms, run_ms;
  reference_gradient errors[REFERENCE_GRADIENTS], sinks_error, bias_error;
} session;

#define CUDA_TRY(s, call) TOOL_CUDA_TRY("run", &(s)->cuda, call)

static attnpress_tensor *tensor_of(attnpress_backward_args *a, int which) {
  attnpress_tensor *const all[] = {&a->q, &a->k, &a->v, &a->out, &a->dout, &a->dq, &a->dk, &a->dv};
  return all[which];
}

/* ---- Device, plan and data ---- */

static int open_device(session *s) {
  char why[512];
  const int any = s->o->device == TOOL_ANY_DEVICE;
  if (s->o->device == TOOL_CUDA || (any && s->o->dtype != ATTNPRESS_FP32)) {
    if (cuda_device_open(&s->cuda, 0, why, sizeof why) == 0)
      s->on_cuda = !any || s->cuda.capability >= 80;
    else if (!any) {
      fprintf(stderr, "attnpress run: no CUDA device: %s\n", why);
      return TOOL_FAILED;
    }
  }
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = s->on_cuda ? ATTNPRESS_CUDA : ATTNPRESS_CPU;
  options.num_threads = (int32_t)s->o->threads;
  const attnpress_status status = attnpress_create(&s->handle, &options);
  if (status != ATTNPRESS_OK)
    return tool_fail("run", status);
  if (s->on_cuda) {
    CUDA_TRY(s, stream_create(&s->stream, CU_STREAM_NON_BLOCKING));
    CUDA_TRY(s, event_create(&s->start, CU_EVENT_DEFAULT));
    CUDA_TRY(s, event_create(&s->end, CU_EVENT_DEFAULT));
  }
  return TOOL_OK;
}

static int describe_plan(session *s) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  options.stream = s->stream;
  attnpress_plan_destroy(s->plan);
  const attnpress_status planned = attnpress_plan_backward(s->handle, &s->host, &options, &s->plan);
  return run_describe_launches(s->plan, planned, s->info, &s->launches);
}

/* The call's shapes; the library says what is wrong with them. */
static int describe_call(session *s) {
  const run_options *o = s->o;
  char why[512];
  if (score_data_read(&s->scores, &o->scores, why, sizeof why) != 0)
    return tool_usage("run", "%s", why);
  attnpress_tensor (*tensor)(const void *, int64_t, int64_t, int64_t, int64_t, int32_t) =
      o->layout == 0 ? attnpress_tensor_bshd : attnpress_tensor_bhsd;
  const int status = run_check_sizes(o);
  if (status != TOOL_OK)
    return status;
  s->host = (attnpress_backward_args)ATTNPRESS_BACKWARD_ARGS_INIT;
  const lengths_batch *b = &o->lengths;
  const int ragged = b->count > 0;
  const int64_t batch = ragged ? 1 : o->batch, rows_q = ragged ? b->total_q : o->seqlen_q,
                rows_k = ragged ? b->total_k : o->seqlen_k;
  for (int i = 0; i < TENSORS; ++i) {
    const int keys = i == K || i == V || i == DK || i == DV;
    const int values = i == V || i == OUT || i == DOUT || i == DV;
    *tensor_of(&s->host, i) =
        tensor(NULL, batch, keys ? rows_k : rows_q, keys ? o->kv_heads : o->heads,
               values ? o->hdim_v : o->hdim, o->dtype);
  }
  s->host.ragged = ragged ? &b->ragged : NULL;
  attnpress_forward_args forward = ap_forward_of(&s->host);
  score_data_describe(&s->scores, &o->scores, o->causal, (uint64_t)o->seed, &forward);
  ap_put_scores(&s->host, &forward);
  static float place; /* a plan asks whether it is NULL */
  s->host.dsinks = o->scores.sinks ? &place : NULL;
  if (s->host.bias != NULL) { /* its gradient is as it is */
    s->host_dbias = (attnpress_dbias)ATTNPRESS_DBIAS_INIT;
    memcpy(s->host_dbias.shape, s->host.bias->shape, sizeof s->host_dbias.shape);
    memcpy(s->host_dbias.stride, s->host.bias->stride, sizeof s->host_dbias.stride);
    s->host_dbias.dtype = s->host.bias->dtype;
    s->host.dbias = &s->host_dbias;
  }
  s->host.deterministic = o->deterministic;
  return describe_plan(s);
}

/* Pointers of one side, in the order of the buffers. */
static void set_pointers(attnpress_backward_args *args, void *const *pointers) {
  for (int i = 0; i < TENSORS; ++i)
    tensor_of(args, i)->data = pointers[i];
  args->lse = pointers[LSE];
  if (args->dsinks != NULL)
    args->dsinks = pointers[DSINKS];
  args->workspace = pointers[WORKSPACE];
}

/** Bytes of the gradient by the bias; 0: none. */
static size_t dbias_bytes(const session *s) {
  const int64_t *shape = s->host_dbias.shape;
  return s->host.dbias == NULL ? 0
                               : (size_t)(shape[0] * shape[1] * shape[2] * shape[3]) *
                                     (size_t)reference_element_bytes(s->host_dbias.dtype);
}

/* Bias, slopes and sinks: on the host, and, filled, on the device. */
static int allocate_scores(session *s) {
  void *pointers[SCORE_BUFFERS] = {NULL};
  if (score_data_allocate(&s->scores, (uint64_t)s->o->seed) != 0) {
    fprintf(stderr, "attnpress run: host memory for bias, slopes or sinks could not be had\n");
    return TOOL_FAILED;
  }
  for (int i = 0; i < SCORE_BUFFERS && s->on_cuda; ++i) {
    if (s->scores.bytes[i] == 0)
      continue;
    CUDA_TRY(s, mem_alloc(&s->score_buffers[i], s->scores.bytes[i]));
    CUDA_TRY(s, memcpy_htod(s->score_buffers[i], s->scores.buffers[i], s->scores.bytes[i]));
    pointers[i] = (void *)(uintptr_t)s->score_buffers[i];
  }
  if (s->on_cuda) {
    attnpress_forward_args forward = ap_forward_of(&s->device);
    score_groups_move(&s->device_scores, &s->scores.host, pointers, &forward);
    ap_put_scores(&s->device, &forward);
  }
  return TOOL_OK;
}

/* Of the forward call before, whose kernels may need a workspace for a snippet's mask. */
static attnpress_status forward_workspace(const session *s, size_t *bytes) {
  attnpress_plan *plan;
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_forward_args forward = ap_forward_of(&s->host);
  forward.num_splits = 1;
  options.stream = s->stream;
  attnpress_status status = attnpress_plan_forward(s->handle, &forward, &options, &plan);
  if (status == ATTNPRESS_OK)
    status = attnpress_plan_workspace_bytes(plan, bytes);
  attnpress_plan_destroy(plan);
  return status;
}

static int allocate(session *s) {
  const size_t size = (size_t)reference_element_bytes(s->o->dtype);
  void *pointers[BUFFERS] = {NULL};
  size_t forward_bytes = 0;
  attnpress_status status = attnpress_plan_workspace_bytes(s->plan, &s->host.workspace_bytes);
  if (status == ATTNPRESS_OK)
    status = forward_workspace(s, &forward_bytes);
  if (status != ATTNPRESS_OK)
    return tool_fail("run", status);
  if (forward_bytes > s->host.workspace_bytes)
    s->host.workspace_bytes = forward_bytes;
  for (int i = 0; i < BUFFERS; ++i) {
    s->bytes[i] =
        i < TENSORS ? (size_t)reference_span(tensor_of(&s->host, i)) * size
        : i == LSE ? (size_t)(s->host.q.shape[0] * s->o->heads * s->host.q.shape[1]) * sizeof(float)
        : i == DSINKS ? (size_t)s->o->heads * sizeof(float)
        : i == DBIAS  ? dbias_bytes(s)
                      : s->host.workspace_bytes;
    s->bytes[i] = (s->bytes[i] + 64) / 64 * 64; /* never 0 */
    if (s->on_cuda) {
      CUDA_TRY(s, mem_alloc(&s->buffers[i], s->bytes[i]));
      pointers[i] = (void *)(uintptr_t)s->buffers[i];
    }
    if (i != WORKSPACE && (s->memory[i] = aligned_alloc(64, s->bytes[i])) == NULL) {
      fprintf(stderr, "attnpress run: %.1f GB of host memory could not be had\n",
              (double)s->bytes[i] * 1e-9);
      return TOOL_FAILED;
    }
  }
  set_pointers(&s->host, s->memory);
  s->device = s->host;
  if (s->on_cuda)
    set_pointers(&s->device, pointers);
  const lengths_batch *b = &s->o->lengths;
  if (s->on_cuda && b->count > 0) {
    CUDA_TRY(s, mem_alloc(&s->arrays, b->arrays_bytes));
    CUDA_TRY(s, memcpy_htod(s->arrays, b->arrays, b->arrays_bytes));
    s->device_ragged = lengths_move(b, (uintptr_t)s->arrays);
    s->device.ragged = &s->device_ragged;
  }
  if (s->host.dbias != NULL) {
    s->host_dbias.data = s->memory[DBIAS];
    s->device_dbias = s->host_dbias;
    if (s->on_cuda)
      s->device_dbias.data = pointers[DBIAS];
    s->device.dbias = &s->device_dbias;
  }
  return allocate_scores(s);
}

/* Random inputs of that round, what the forward pass makes of them, gradients of NaN. */
static int fill(session *s, int64_t round) {
  static const int inputs[] = {Q, K, V, DOUT};
  const uint64_t seed = (uint64_t)s->o->seed * 1000003u + (uint64_t)round * 4;
  for (int i = 0; i < 4; ++i) {
    reference_fill_normal(tensor_of(&s->host, inputs[i]), seed + (uint64_t)i);
    if (s->on_cuda)
      CUDA_TRY(s, memcpy_htod(s->buffers[inputs[i]], s->memory[inputs[i]], s->bytes[inputs[i]]));
  }
  for (int i = DQ; i <= DBIAS; ++i) {
    if (i == LSE)
      continue;
    memset(s->memory[i], 0xff, s->bytes[i]);
    if (s->on_cuda)
      CUDA_TRY(s, memset_d8_async(s->buffers[i], 0xff, s->bytes[i], s->stream));
  }
  if (s->on_cuda)
    CUDA_TRY(s, memset_d8_async(s->buffers[WORKSPACE], 0xff, s->bytes[WORKSPACE], s->stream));
  attnpress_forward_args forward = ap_forward_of(&s->device);
  forward.num_splits = 1;
  forward.workspace = s->device.workspace;
  forward.workspace_bytes = s->device.workspace_bytes;
  const attnpress_status status = attnpress_forward(s->handle, &forward, s->stream);
  if (status != ATTNPRESS_OK)
    return tool_fail("run", status);
  if (s->on_cuda)
    CUDA_TRY(s, stream_synchronize(s->stream));
  for (int i = 0; i < 2 && s->on_cuda; ++i) { /* which the reference of dsinks and dropout reads */
    const int which = i == 0 ? OUT : LSE;
    CUDA_TRY(s, memcpy_dtoh(s->memory[which], s->buffers[which], s->bytes[which]));
  }
  return TOOL_OK;
}

/* ---- Running ---- */

/* One call, until its result is there; *ms is wall time, or the device's own where `by_device`. */
static int one_call(session *s, int by_device, double *ms) {
  const double begin = tool_now_ms();
  if (by_device)
    CUDA_TRY(s, event_record(s->start, s->stream));
  const attnpress_status status = attnpress_backward(s->handle, &s->device, s->stream);
  if (status != ATTNPRESS_OK)
    return tool_fail("run", status);
  if (by_device) {
    float elapsed;
    CUDA_TRY(s, event_record(s->end, s->stream));
    CUDA_TRY(s, event_synchronize(s->end));
    CUDA_TRY(s, event_elapsed_time(&elapsed, s->start, s->end));
    *ms = elapsed;
    return TOOL_OK;
  }
  if (s->on_cuda)
    CUDA_TRY(s, stream_synchronize(s->stream));
  *ms = tool_now_ms() - begin;
  return TOOL_OK;
}

static int fetch(session *s, void *const *to) {
  for (int i = DQ; i <= DBIAS && s->on_cuda; ++i)
    if (i != LSE)
      CUDA_TRY(s, memcpy_dtoh(to[i], s->buffers[i], s->bytes[i]));
  return TOOL_OK;
}

/* The median of several runs, each of which is compared with the first where bits are to be the
 * same. */
static int time_calls(session *s) {
  void *again[BUFFERS] = {NULL};
  s->repeat = s->o->repeat != NOT_GIVEN ? s->o->repeat : s->on_cuda ? 10 : 3;
  double *times = malloc((size_t)s->repeat * sizeof *times);
  int status = times ? TOOL_OK : TOOL_FAILED;
  for (int i = DQ; i <= DBIAS && status == TOOL_OK; ++i) {
    again[i] = s->on_cuda ? malloc(s->bytes[i]) : s->memory[i];
    status = again[i] ? TOOL_OK : TOOL_FAILED;
  }
  for (int64_t n = 0; n < s->repeat && status == TOOL_OK; ++n) {
    status = one_call(s, s->on_cuda, &times[n]);
    if (status != TOOL_OK || !s->o->deterministic || !s->on_cuda)
      continue;
    status = fetch(s, again);
    int differs = 0;
    for (int i = DQ; i <= DV; ++i)
      differs |=
          memcmp(again[i], s->memory[i], (size_t)reference_span(tensor_of(&s->host, i)) * 2) != 0;
    if (s->host.dsinks != NULL)
      differs |= memcmp(again[DSINKS], s->memory[DSINKS], (size_t)s->o->heads * sizeof(float)) != 0;
    differs |= memcmp(again[DBIAS], s->memory[DBIAS], dbias_bytes(s)) != 0;
    s->differing += differs;
  }
  if (status == TOOL_OK)
    s->run_ms = tool_median(times, s->repeat);
  for (int i = DQ; i <= DBIAS && s->on_cuda; ++i)
    free(again[i]);
  free(times);
  return status;
}

/* ---- Checking ---- */

static int no_memory(void) {
  fprintf(stderr, "attnpress run: host memory for the reference could not be had\n");
  return TOOL_FAILED;
}

enum { SEQUENCES_CHECKED = 8 };

/* Sequences, each a call of its own: all of them, or some from the first to the last, of which one key
 * head, in turns. */
static int check_sequences(session *s) {
  const int64_t count = s->o->lengths.count, kv_heads = s->o->kv_heads;
  const int full = s->o->check == CHECK_FULL;
  const int64_t checked = full || count < SEQUENCES_CHECKED ? count : SEQUENCES_CHECKED;
  for (int64_t i = 0; i < checked; ++i) {
    const int64_t b = checked > 1 ? i * (count - 1) / (checked - 1) : 0;
    backward_sequence one;
    if (backward_sequence_open(&one, &s->host, b) != 0)
      return -1;
    int status = 0;
    for (int64_t h = full ? 0 : i % kv_heads; h < kv_heads && status == 0; h += full ? 1 : kv_heads)
      status = reference_check_backward_head(&one.args, NULL, b, h, s->errors);
    backward_sequence_close(&one);
    if (status != 0)
      return -1;
  }
  return 0;
}

/* The gradient by the sink of a head, over all sequences. */
static int check_dsink(session *s, int64_t head) {
  reference_dsink sum = {0.0, 0.0};
  for (int64_t b = 0; b < s->o->lengths.count; ++b) {
    backward_sequence one;
    if (backward_sequence_open(&one, &s->host, b) != 0)
      return -1;
    const int status = reference_add_dsink(&one.args, b, head, &sum);
    backward_sequence_close(&one);
    if (status != 0)
      return -1;
  }
  reference_compare_dsink(&s->host, head, &sum, &s->sinks_error);
  return 0;
}

/* All key heads, or the first and the last one; of the gradients by sinks and bias, all query heads, or
 * these two. */
static int check_once(session *s) {
  const int ragged = s->o->lengths.count > 0;
  const int64_t heads = s->o->batch * s->o->kv_heads;
  const int64_t step = s->o->check == CHECK_FULL || heads < 2 ? 1 : heads - 1;
  if (s->o->check == CHECK_NONE)
    return TOOL_OK;
  if (ragged && check_sequences(s) != 0)
    return no_memory();
  for (int64_t i = 0; i < heads && !ragged; i += step)
    if (reference_check_backward_head(&s->host, NULL, i / s->o->kv_heads, i % s->o->kv_heads,
                                      s->errors) != 0)
      return no_memory();
  const int64_t sinks = s->host.dsinks != NULL ? s->o->heads : 0;
  const int64_t sinks_step = s->o->check == CHECK_FULL || sinks < 2 ? 1 : sinks - 1;
  for (int64_t h = 0; h < sinks; h += sinks_step)
    if ((ragged ? check_dsink(s, h) : reference_check_dsinks(&s->host, h, 0.0f, &s->sinks_error)) !=
        0)
      return no_memory();
  const int64_t biases = s->host.dbias != NULL ? s->o->batch * s->o->heads : 0;
  const int64_t bias_step = s->o->check == CHECK_FULL || biases < 2 ? 1 : biases - 1;
  int (*const of_bias)(const attnpress_backward_args *, int64_t, int64_t, const float *,
                       reference_gradient *) =
      ragged ? backward_sequences_check_dbias : reference_check_dbias;
  for (int64_t i = 0; i < biases; i += bias_step)
    if (of_bias(&s->host, i / s->o->heads, i % s->o->heads, NULL, &s->bias_error) != 0)
      return no_memory();
  return TOOL_OK;
}

/* The fewest elements of a gradient that were compared. */
static int64_t compared(const session *s) {
  int64_t least = INT64_MAX;
  for (int i = 0; i < REFERENCE_GRADIENTS; ++i)
    least = s->errors[i].elements < least ? s->errors[i].elements : least;
  return least;
}

/* Few elements' largest errors are chance: further calls with other inputs, until there are enough. */
static int check(session *s) {
  int64_t before = 0;
  int status = check_once(s);
  for (s->rounds = 1;
       status == TOOL_OK && compared(s) > before && compared(s) < REFERENCE_MIN_ELEMENTS;
       ++s->rounds) {
    double ms;
    before = compared(s);
    status = fill(s, s->rounds);
    if (status == TOOL_OK)
      status = one_call(s, 0, &ms);
    if (status == TOOL_OK)
      status = fetch(s, s->memory);
    if (status == TOOL_OK)
      status = check_once(s);
  }
  return status;
}

/* ---- Report ---- */

static void print_call(const session *s) {
  static const char *const dtypes[] = {"any", "fp16", "bf16", "fp32"};
  const run_options *o = s->o;
  char scores[256];
  score_options_print(&o->scores, o->causal, scores, sizeof scores);
  if (o->lengths.count > 0)
    printf("call      backward, %" PRId64 " sequences, %" PRId64 " queries (at most %" PRId64
           " of one), %" PRId64 " keys (%" PRId64 "), %" PRId64 " heads",
           o->lengths.count, o->lengths.total_q, o->lengths.longest_q, o->lengths.total_k,
           o->lengths.longest_k, o->heads);
  else
    printf("call      backward, batch %" PRId64 ", %" PRId64 " queries, %" PRId64 " keys, %" PRId64
           " heads",
           o->batch, o->seqlen_q, o->seqlen_k, o->heads);
  if (o->kv_heads != o->heads)
    printf(" on %" PRId64 " key heads", o->kv_heads);
  printf(", head dim %" PRId64, o->hdim);
  if (o->hdim_v != o->hdim)
    printf("/%" PRId64, o->hdim_v);
  printf(", %s, %s, %s%s\n", dtypes[o->dtype], scores, o->layout == 0 ? "bshd" : "bhsd",
         o->deterministic ? ", deterministic" : "");
  if (s->on_cuda)
    printf("device    %s, compute capability %d.%d\n", s->cuda.name, s->cuda.capability / 10,
           s->cuda.capability % 10);
  else
    printf("device    CPU, %s\n", ap_cpu_isa_name(ap_cpu_best_isa()));
}

static int print_result(const session *s) {
  const double flops = BACKWARD_FLOPS * run_flops(s->o);
  printf("time      %.4f ms, median of %" PRId64 "; %.3f TFLOP/s\n", s->run_ms, s->repeat,
         s->run_ms > 0 ? flops / s->run_ms * 1e-9 : 0.0);
  if (s->o->deterministic && s->on_cuda)
    printf("repeats   %" PRId64 " of %" PRId64 " runs have other bits than the first\n",
           s->differing, s->repeat);
  if (s->errors[REFERENCE_DK].name == NULL) {
    printf("check     none\n");
    return s->differing ? TOOL_FAILED : TOOL_OK;
  }
  printf("error    ");
  for (int i = 0; i < REFERENCE_GRADIENTS; ++i)
    printf("%s %s %.3e, bound %.3e", i ? ";" : "", s->errors[i].name, s->errors[i].error,
           reference_gradient_bound(&s->errors[i]));
  const reference_gradient *worst = reference_worst_gradient(s->errors);
  const reference_gradient *const others[] = {&s->sinks_error, &s->bias_error};
  for (int i = 0; i < 2; ++i) {
    const reference_gradient *e = others[i];
    if (e->name != NULL)
      printf("; %s %.3e, bound %.3e", e->name, e->error, reference_gradient_bound(e));
    if (e->name != NULL && !(e->error <= reference_gradient_bound(e)))
      worst = worst != NULL ? worst : e;
  }
  printf("\ncheck     %s, over %" PRId64 " elements of dk", worst ? "DID NOT HOLD" : "held",
         s->errors[REFERENCE_DK].elements);
  if (s->rounds > 1)
    printf(", in %" PRId64 " calls", s->rounds);
  printf("\n");
  if (worst)
    printf("worst     %s, batch %" PRId64 ", row %" PRId64 ", head %" PRId64 ", column %" PRId64
           ": %.6g, expected %.6g\n",
           worst->name, worst->at[0], worst->at[1], worst->at[2], worst->at[3], worst->value,
           worst->expected);
  return worst || s->differing ? TOOL_FAILED : TOOL_OK;
}

static void close_session(session *s) {
  attnpress_plan_destroy(s->plan);
  attnpress_destroy(s->handle);
  for (int i = 0; i < BUFFERS; ++i) {
    if (s->buffers[i])
      s->cuda.mem_free(s->buffers[i]);
    free(s->memory[i]);
  }
  for (int i = 0; i < SCORE_BUFFERS; ++i)
    if (s->score_buffers[i])
      s->cuda.mem_free(s->score_buffers[i]);
  score_data_free(&s->scores);
  if (s->arrays)
    s->cuda.mem_free(s->arrays);
  cuda_device_end(&s->cuda, s->stream, s->start, s->end);
}

static int run(session *s) {
  attnpress_info before[RUN_LAUNCHES_MAX];
  int status = open_device(s);
  if (status == TOOL_OK)
    status = describe_call(s);
  if (status == TOOL_OK)
    status = allocate(s);
  if (status == TOOL_OK)
    status = fill(s, 0);
  if (status != TOOL_OK)
    return status;
  memcpy(before, s->info, sizeof before);
  status = one_call(s, 0, &s->first_ms);
  if (status == TOOL_OK) /* what is known of the kernels once they are loaded */
    status = describe_plan(s);
  if (status == TOOL_OK)
    status = fetch(s, s->memory);
  if (status == TOOL_OK)
    status = check(s);
  if (status == TOOL_OK)
    status = time_calls(s);
  if (status != TOOL_OK)
    return status;
  print_call(s);
  run_print_kernels(s->info, before, s->launches, s->on_cuda);
  if (s->on_cuda)
    printf("first     %.2f ms, loading included\nworkspace %zu bytes\n", s->first_ms,
           s->host.workspace_bytes);
  return print_result(s);
}

int run_backward(const run_options *o) {
  session s = {.o = o};
  const int status = run(&s);
  close_session(&s);
  return status;
}
