/* attnpress run: random inputs through the public API, timed, and checked against float64
 * (reference.h). */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../generated/families.h"
#include "appended.h"
#include "attention/attention.h"
#include "attention/cpu.h"
#include "attention/rows.h"
#include "cuda_device.h"
#include "handle.h"
#include "reference.h"
#include "run.h"
#include "sequences.h"
#include "score_options.h"
#include "session.h"
#include "tool.h"

enum { REPEAT_MAX = 100000, SAMPLED_ROWS = 64 };

static const char *const check_names[] = {"none", "sample", "full"};
static const char *const layout_names[] = {"bshd", "bhsd"};
static const char *const page_table_names[] = {"rows", "flat"};
static const char *const rotary_names[] = {"none", "neox", "interleaved"};
static const char *const dtype_names[] = {"any", "fp16", "bf16", "fp32"};

/* One run: the call with host pointers, and where it is a GPU's, with device pointers. */
typedef struct session {
  run_options o;
  attnpress_handle *handle;
  attnpress_forward_args host, device;
  score_data scores;          /* the host's */
  score_groups device_scores; /* the device's, of whose memory there are these pieces */
  CUdeviceptr score_buffers[SCORE_BUFFERS];
  size_t bytes[5]; /* of q, k, v, out, lse */
  cuda_device cuda;
  int on_cuda;
  CUdeviceptr buffers[6]; /* q, k, v, out, lse, workspace */
  CUdeviceptr arrays;     /* of the lengths */
  attnpress_ragged device_ragged;
  CUstream stream;
  CUevent start, end;
  attnpress_plan *plan;
  int launches;
  attnpress_info info[RUN_LAUNCHES_MAX]; /* of each launch */
  appended appended;                     /* what --append has before */
  CUdeviceptr append_buffers[3];         /* new K, new V, arrays */
  int append_launches;
  attnpress_info append_info[RUN_LAUNCHES_MAX];
  double first_ms, run_ms;
  reference_error error;
  int64_t checked_rows, rounds;
} session;

/* ---- Words ---- */

/** Of attnpress-emulate, which has them itself: they go with --device emulated. */
static const tool_opt emulated_options[] = {
    {"--stem", "STEM", "--device emulated: this kernel, not the one that the library chooses"},
    {"--source", "FILE", "--device emulated: this file, such as the generator writes"},
    {"--templates", NULL, "--device emulated: from the templates as they stand now"},
    {"--arch", "sm80|sm86|sm90", "--device emulated: where the library chooses (sm80)"},
    {"--packed", NULL, "--device emulated: the query heads of a key head share a tile"},
    {NULL, NULL, NULL}};

/* What goes with --lengths; batch and lengths become those of the call. */
static int check_lengths(run_options *o) {
  if (o->seqlen_k != NOT_GIVEN || o->batch != 1)
    return tool_usage("run", "--lengths says how many sequences and keys there are: leave --batch "
                             "and --seqlen-k out");
  if (o->lengths.flat && o->lengths.page_size == 0)
    return tool_usage("run", "--page-tables is of --page-size, which is not given");
  if (o->backward && o->lengths.ready)
    return tool_usage("run", "--ready-schedule is of the forward pass: leave it or --backward out");
  if (o->backward && o->lengths.page_size > 0)
    return tool_usage("run",
                      "keys in pages have no gradients: leave --page-size or --backward out");
  if (o->backward && o->append > 0)
    return tool_usage("run", "--append is of the forward pass: leave it or --backward out");
  o->lengths.seqlen_q = o->seqlen_q == NOT_GIVEN ? o->append : o->seqlen_q;
  if (lengths_describe(&o->lengths) != 0)
    return tool_usage("run", "the lengths add up to 2^31 or more, or memory ran out");
  o->batch = o->lengths.count;
  o->seqlen_q = o->lengths.longest_q;
  o->seqlen_k = o->lengths.longest_k;
  return TOOL_OK;
}

static int parse_options(int argc, char **argv, run_options *o) {
  const struct {
    const char *name;
    int64_t *value, least, most;
  } numbers[] = {
      {"--batch", &o->batch, 0, INT32_MAX},
      {"--seqlen-q", &o->seqlen_q, 0, INT32_MAX},
      {"--seqlen-k", &o->seqlen_k, 0, INT32_MAX},
      {"--heads", &o->heads, 1, INT32_MAX},
      {"--kv-heads", &o->kv_heads, 1, INT32_MAX},
      {"--hdim", &o->hdim, 1, INT32_MAX},
      {"--hdim-v", &o->hdim_v, 1, INT32_MAX},
      {"--splits", &o->splits, 0, AP_SPLITS_MAX},
      {"--repeat", &o->repeat, 1, REPEAT_MAX},
      {"--threads", &o->threads, 0, AP_THREADS_MAX},
      {"--seed", &o->seed, 0, INT64_MAX},
      {"--page-size", &o->lengths.page_size, 1, 1 << 24},
      {"--append", &o->append, 1, INT32_MAX},
      {"--rotary-dim", &o->rotary_dim, 2, INT32_MAX},
  };
  const struct {
    const char *name;
    const char *const *names;
    int first, count, *value;
  } choices[] = {
      {"--dtype", dtype_names, ATTNPRESS_FP16, 4, &o->dtype},
      {"--layout", layout_names, 0, 2, &o->layout},
      {"--device", tool_device_names, TOOL_CPU, TOOL_DEVICES, &o->device},
      {"--check", check_names, 0, 3, &o->check},
      {"--page-tables", page_table_names, 0, 2, &o->lengths.flat},
      {"--rotary", rotary_names, 0, 3, &o->rotary},
  };
  const struct {
    const char *name;
    int *value;
  } flags[] = {{"--causal", &o->causal},
               {"--backward", &o->backward},
               {"--deterministic", &o->deterministic},
               {"--batch-invariant", &o->invariant},
               {"--ready-schedule", &o->lengths.ready}};
  for (int i = 1; i < argc; ++i) {
    const char *value = NULL;
    int status = TOOL_OK, known = 0;
    for (size_t n = 0; !known && n < sizeof flags / sizeof *flags; ++n)
      if ((known = strcmp(argv[i], flags[n].name) == 0))
        *flags[n].value = 1;
    if (!known && (value = tool_option(argc, argv, &i, "--lengths")) != NULL) {
      int32_t *lengths;
      const char *allowed = lengths_parse(value, &lengths, &o->lengths.count);
      if (allowed != NULL)
        return tool_usage("run", "--lengths is \"%s\"; it must be %s", value, allowed);
      free((void *)(uintptr_t)o->lengths.lengths);
      o->lengths.lengths = lengths;
      known = 1;
    }
    if (!known)
      known = score_options_flag(&o->scores, argv[i]);
    for (int n = 0; !known && score_option_names[n] != NULL; ++n)
      if ((value = tool_option(argc, argv, &i, score_option_names[n])) != NULL) {
        const char *allowed = score_options_value(&o->scores, score_option_names[n], value);
        if (allowed != NULL)
          return tool_usage("run", "%s is \"%s\"; it must be %s", score_option_names[n], value,
                            allowed);
        known = 1;
      }
    for (size_t n = 0; !known && n < sizeof numbers / sizeof *numbers; ++n)
      if ((value = tool_option(argc, argv, &i, numbers[n].name)) != NULL) {
        known = 1;
        status = tool_parse_number("run", numbers[n].name, value, numbers[n].least, numbers[n].most,
                                   numbers[n].value);
      }
    for (size_t n = 0; !known && n < sizeof choices / sizeof *choices; ++n)
      if ((value = tool_option(argc, argv, &i, choices[n].name)) != NULL) {
        known = 1;
        status = tool_parse_choice("run", choices[n].name, value, choices[n].names,
                                   choices[n].first, choices[n].count, choices[n].value);
      }
    if (!known && tool_find_in(emulated_options, argv[i]) != NULL)
      return tool_usage("run", "%.*s goes with --device emulated", (int)strcspn(argv[i], "="),
                        argv[i]);
    if (!known)
      return tool_usage("run",
                        strncmp(argv[i], "--", 2) == 0 ? "\"%s\" is not an option"
                                                       : "\"%s\" is neither a family nor an option",
                        argv[i]);
    if (status != TOOL_OK)
      return status;
  }
  if (o->rotary != APPENDED_UNROTATED && o->append == 0)
    return tool_usage("run", "--rotary is of --append, which is not given");
  if (o->rotary_dim != 0 && o->rotary == APPENDED_UNROTATED)
    return tool_usage("run", "--rotary-dim is of --rotary, which is not given");
  if (o->lengths.count > 0) {
    const int status = check_lengths(o);
    if (status != TOOL_OK)
      return status;
  } else if (o->lengths.page_size > 0) {
    return tool_usage("run", "--page-size is of --lengths, which is not given");
  } else if (o->lengths.flat) {
    return tool_usage("run", "--page-tables is of --lengths, which is not given");
  } else if (o->lengths.ready) {
    return tool_usage("run", "--ready-schedule is of --lengths, which is not given");
  } else if (o->append > 0) {
    return tool_usage("run", "--append is of --lengths, which is not given");
  }
  if (o->seqlen_q == NOT_GIVEN)
    o->seqlen_q = 1024;
  if (o->seqlen_k == NOT_GIVEN)
    o->seqlen_k = o->seqlen_q;
  if (o->kv_heads == NOT_GIVEN)
    o->kv_heads = o->heads;
  if (o->hdim_v == NOT_GIVEN)
    o->hdim_v = o->hdim;
  if (o->deterministic && !o->backward)
    return tool_usage("run", "--deterministic is of --backward; the forward pass always is");
  if (o->splits && o->backward)
    return tool_usage("run", "--splits is of the forward pass");
  if (o->invariant && (o->splits || o->backward))
    return tool_usage("run", "--batch-invariant does not go with %s",
                      o->backward ? "--backward" : "--splits: its splits lie at fixed keys");
  return TOOL_OK;
}

/* ---- Device and handle ---- */

#define CUDA_TRY(s, call) TOOL_CUDA_TRY("run", &(s)->cuda, call)

/* Chooses the device: what was asked for, else a GPU that this version runs on, else the CPU. */
static int open_device(session *s) {
  char why[512];
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_status status;
  const int any = s->o.device == TOOL_ANY_DEVICE;
  if (s->o.device == TOOL_CUDA || (any && s->o.dtype != ATTNPRESS_FP32)) {
    if (cuda_device_open(&s->cuda, 0, why, sizeof why) == 0)
      s->on_cuda = !any || s->cuda.capability >= 80;
    else if (!any) {
      fprintf(stderr, "attnpress run: no CUDA device: %s\n", why);
      return TOOL_FAILED;
    }
  }
  options.backend = s->on_cuda ? ATTNPRESS_CUDA : ATTNPRESS_CPU;
  options.num_threads = (int32_t)s->o.threads;
  status = attnpress_create(&s->handle, &options);
  if (status != ATTNPRESS_OK)
    return tool_fail("run", status);
  if (s->on_cuda) {
    CUDA_TRY(s, stream_create(&s->stream, CU_STREAM_NON_BLOCKING));
    CUDA_TRY(s, event_create(&s->start, CU_EVENT_DEFAULT));
    CUDA_TRY(s, event_create(&s->end, CU_EVENT_DEFAULT));
  }
  return TOOL_OK;
}

/* ---- Data ---- */

int run_describe_launches(const attnpress_plan *plan, attnpress_status planned,
                          attnpress_info info[RUN_LAUNCHES_MAX], int *launches) {
  attnpress_status status = planned;
  const int count = attnpress_plan_launch_count(plan);
  *launches = count < RUN_LAUNCHES_MAX ? count : RUN_LAUNCHES_MAX;
  for (int i = 0; i < *launches && status == ATTNPRESS_OK; ++i) {
    info[i] = (attnpress_info)ATTNPRESS_INFO_INIT;
    status = attnpress_plan_launch(plan, i, &info[i]);
  }
  return status == ATTNPRESS_OK ? TOOL_OK : tool_fail("run", status);
}

/* Of the call that appends. */
static int describe_append(session *s) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  attnpress_plan *plan = NULL;
  options.stream = s->stream;
  if (s->o.append == 0)
    return TOOL_OK;
  const attnpress_status planned =
      attnpress_plan_append(s->handle, &s->appended.host, &options, &plan);
  const int status = run_describe_launches(plan, planned, s->append_info, &s->append_launches);
  attnpress_plan_destroy(plan);
  return status;
}

/* Plans the call, and asks what it launches. */
static int describe_plan(session *s) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  options.stream = s->stream;
  attnpress_plan_destroy(s->plan);
  const attnpress_status planned = attnpress_plan_forward(s->handle, &s->host, &options, &s->plan);
  return run_describe_launches(s->plan, planned, s->info, &s->launches);
}

int run_check_sizes(const run_options *o) {
  const double elements = (double)(o->batch + 1) * (double)(o->seqlen_q + o->seqlen_k + 1) *
                          (double)(o->heads + o->kv_heads) * (double)(o->hdim + o->hdim_v);
  const double bias = o->scores.bias ? (double)o->batch * (double)o->heads * (double)o->seqlen_q *
                                           (double)o->seqlen_k
                                     : 0.0;
  if (elements > 1e15 || bias > 1e15)
    return tool_usage("run", "these sizes make tensors of more than 10^15 elements");
  return TOOL_OK;
}

/* The call's shapes; the library says what is wrong with them. */
static int describe_call(session *s) {
  const run_options *o = &s->o;
  char why[512];
  attnpress_tensor (*tensor)(const void *, int64_t, int64_t, int64_t, int64_t, int32_t) =
      o->layout == 0 ? attnpress_tensor_bshd : attnpress_tensor_bhsd;
  const int status = run_check_sizes(o);
  if (status != TOOL_OK)
    return status;
  s->host = (attnpress_forward_args)ATTNPRESS_FORWARD_ARGS_INIT;
  s->host.q = tensor(NULL, o->batch, o->seqlen_q, o->heads, o->hdim, o->dtype);
  s->host.k = tensor(NULL, o->batch, o->seqlen_k, o->kv_heads, o->hdim, o->dtype);
  s->host.v = tensor(NULL, o->batch, o->seqlen_k, o->kv_heads, o->hdim_v, o->dtype);
  s->host.out = tensor(NULL, o->batch, o->seqlen_q, o->heads, o->hdim_v, o->dtype);
  if (score_data_read(&s->scores, &o->scores, why, sizeof why) != 0)
    return tool_usage("run", "%s", why);
  if (o->lengths.count > 0) {
    const lengths_batch *b = &o->lengths;
    const int64_t pages = b->page_size > 0 ? b->pages : 1;
    const int64_t rows = b->page_size > 0 ? b->page_size : b->total_k;
    s->host.q = tensor(NULL, 1, b->total_q, o->heads, o->hdim, o->dtype);
    s->host.k = tensor(NULL, pages, rows, o->kv_heads, o->hdim, o->dtype);
    s->host.v = tensor(NULL, pages, rows, o->kv_heads, o->hdim_v, o->dtype);
    s->host.out = tensor(NULL, 1, b->total_q, o->heads, o->hdim_v, o->dtype);
    s->host.ragged = &b->ragged;
  }
  s->appended.tokens = o->append;
  s->appended.rotary = o->rotary;
  s->appended.rotary_dim = o->rotary_dim;
  if (o->append > 0) {
    const char *wrong = appended_describe(&s->appended, &s->host, why, sizeof why);
    if (wrong != NULL)
      return tool_usage("run", "%s", wrong);
  }
  score_data_describe(&s->scores, &o->scores, o->causal, (uint64_t)o->seed, &s->host);
  s->host.num_splits = (int32_t)o->splits;
  s->host.batch_invariant = o->invariant;
  return describe_plan(s);
}

static int allocate_host(session *s) {
  attnpress_tensor *tensors[] = {&s->host.q, &s->host.k, &s->host.v, &s->host.out};
  const size_t size = (size_t)reference_element_bytes(s->o.dtype);
  for (int i = 0; i < 5; ++i) {
    s->bytes[i] =
        i < 4 ? (size_t)reference_span(tensors[i]) * size
              : (size_t)(s->host.q.shape[0] * s->o.heads * s->host.q.shape[1]) * sizeof(float);
    s->bytes[i] = (s->bytes[i] + 64) / 64 * 64; /* never 0 */
    void *data = aligned_alloc(64, s->bytes[i]);
    if (data == NULL) {
      fprintf(stderr, "attnpress run: %.1f GB of host memory could not be had\n",
              (double)s->bytes[i] * 1e-9);
      return TOOL_FAILED;
    }
    if (i < 4)
      tensors[i]->data = data;
    else
      s->host.lse = data;
  }
  if (score_data_allocate(&s->scores, (uint64_t)s->o.seed) != 0) {
    fprintf(stderr,
            "attnpress run: host memory for bias, slopes, sinks or a snippet could not be had\n");
    return TOOL_FAILED;
  }
  if (s->o.append > 0 && appended_allocate(&s->appended, &s->host) != 0) {
    fprintf(stderr, "attnpress run: host memory for --append could not be had\n");
    return TOOL_FAILED;
  }
  s->device = s->host;
  return TOOL_OK;
}

/* Bias, slopes and sinks, filled. */
static int allocate_device_scores(session *s) {
  void *pointers[SCORE_BUFFERS] = {NULL};
  for (int i = 0; i < SCORE_BUFFERS; ++i) {
    if (s->scores.bytes[i] == 0)
      continue;
    CUDA_TRY(s, mem_alloc(&s->score_buffers[i], s->scores.bytes[i]));
    CUDA_TRY(s, memcpy_htod(s->score_buffers[i], s->scores.buffers[i], s->scores.bytes[i]));
    pointers[i] = (void *)(uintptr_t)s->score_buffers[i];
  }
  score_groups_move(&s->device_scores, &s->scores.host, pointers, &s->device);
  return TOOL_OK;
}

/* New keys and values, and the arrays of the call that appends them. */
static int allocate_device_append(session *s) {
  const appended *a = &s->appended;
  for (int i = 0; i < 2; ++i)
    CUDA_TRY(s, mem_alloc(&s->append_buffers[i], a->bytes[APPENDED_K_NEW + i] + 1));
  CUDA_TRY(s, mem_alloc(&s->append_buffers[2], a->arrays_bytes));
  CUDA_TRY(s, memcpy_htod(s->append_buffers[2], a->arrays, a->arrays_bytes));
  const uintptr_t tensors[APPENDED_TENSORS] = {
      [APPENDED_K_NEW] = (uintptr_t)s->append_buffers[0],
      [APPENDED_V_NEW] = (uintptr_t)s->append_buffers[1],
      [APPENDED_K] = (uintptr_t)s->buffers[1],
      [APPENDED_V] = (uintptr_t)s->buffers[2],
      [APPENDED_Q] = (uintptr_t)s->buffers[0],
  };
  appended_move(&s->appended, (uintptr_t)s->append_buffers[2], s->device.ragged, tensors);
  return TOOL_OK;
}

static int allocate_device(session *s) {
  void **pointers[] = {&s->device.q.data, &s->device.k.data, &s->device.v.data,
                       &s->device.out.data};
  for (int i = 0; i < 5; ++i) {
    CUDA_TRY(s, mem_alloc(&s->buffers[i], s->bytes[i]));
    if (i < 4)
      *pointers[i] = (void *)(uintptr_t)s->buffers[i];
    else
      s->device.lse = (float *)(uintptr_t)s->buffers[i];
  }
  if (allocate_device_scores(s) != TOOL_OK)
    return TOOL_FAILED;
  if (s->o.lengths.count > 0) {
    const lengths_batch *b = &s->o.lengths;
    CUDA_TRY(s, mem_alloc(&s->arrays, b->arrays_bytes));
    CUDA_TRY(s, memcpy_htod(s->arrays, b->arrays, b->arrays_bytes));
    s->device_ragged = lengths_move(b, (uintptr_t)s->arrays);
    s->device.ragged = &s->device_ragged;
  }
  if (s->o.append > 0 && allocate_device_append(s) != TOOL_OK)
    return TOOL_FAILED;
  const attnpress_status status =
      attnpress_plan_workspace_bytes(s->plan, &s->device.workspace_bytes);
  if (status != ATTNPRESS_OK)
    return tool_fail("run", status);
  if (s->device.workspace_bytes > 0)
    CUDA_TRY(s, mem_alloc(&s->buffers[5], s->device.workspace_bytes));
  s->device.workspace = (void *)(uintptr_t)s->buffers[5];
  return TOOL_OK;
}

/* Random inputs, outputs of NaN. */
static int fill(session *s, int64_t round) {
  const void *inputs[] = {s->host.q.data, s->host.k.data, s->host.v.data};
  const uint64_t seed = (uint64_t)s->o.seed * 1000003u + (uint64_t)round * 3;
  reference_fill_normal(&s->host.q, seed);
  reference_fill_normal(&s->host.k, seed + 1);
  reference_fill_normal(&s->host.v, seed + 2);
  memset(s->host.out.data, 0xff, s->bytes[3]);
  memset(s->host.lse, 0xff, s->bytes[4]);
  if (s->o.append > 0)
    appended_fill(&s->appended, seed + 500009);
  if (!s->on_cuda)
    return TOOL_OK;
  for (int i = 0; i < 2 && s->o.append > 0; ++i)
    CUDA_TRY(s, memcpy_htod(s->append_buffers[i], s->appended.own[APPENDED_K_NEW + i],
                            s->appended.bytes[APPENDED_K_NEW + i]));
  for (int i = 0; i < 3; ++i)
    CUDA_TRY(s, memcpy_htod(s->buffers[i], inputs[i], s->bytes[i]));
  for (int i = 3; i < 5; ++i)
    CUDA_TRY(s, memset_d8_async(s->buffers[i], 0xff, s->bytes[i], s->stream));
  if (s->device.workspace_bytes > 0)
    CUDA_TRY(s, memset_d8_async(s->buffers[5], 0xff, s->device.workspace_bytes, s->stream));
  CUDA_TRY(s, stream_synchronize(s->stream));
  return TOOL_OK;
}

/* ---- Running ---- */

/* Attention, behind what appends to its keys. */
static attnpress_status queue_call(session *s) {
  attnpress_status status = ATTNPRESS_OK;
  if (s->o.append > 0)
    status = attnpress_append(s->handle, &s->appended.device, s->stream);
  return status == ATTNPRESS_OK ? attnpress_forward(s->handle, &s->device, s->stream) : status;
}

/* One call, until its result is there; *ms is wall time. */
static int one_call(session *s, double *ms) {
  const double begin = tool_now_ms();
  const attnpress_status status = queue_call(s);
  if (status != ATTNPRESS_OK)
    return tool_fail("run", status);
  if (s->on_cuda)
    CUDA_TRY(s, stream_synchronize(s->stream));
  *ms = tool_now_ms() - begin;
  return TOOL_OK;
}

/* The schedule of the lengths, which all calls then find ready. */
static int make_schedule(session *s) {
  if (!s->o.lengths.ready)
    return TOOL_OK;
  const attnpress_status status = attnpress_forward_schedule(s->handle, &s->device, s->stream);
  return status == ATTNPRESS_OK ? TOOL_OK : tool_fail("run", status);
}

static int fetch_outputs(session *s) {
  if (!s->on_cuda)
    return TOOL_OK;
  CUDA_TRY(s, memcpy_dtoh(s->host.out.data, s->buffers[3], s->bytes[3]));
  CUDA_TRY(s, memcpy_dtoh(s->host.lse, s->buffers[4], s->bytes[4]));
  if (s->o.append > 0) { /* written, too */
    void *written[] = {s->host.q.data, s->host.k.data, s->host.v.data};
    for (int i = 0; i < 3; ++i)
      CUDA_TRY(s, memcpy_dtoh(written[i], s->buffers[i], s->bytes[i]));
  }
  return TOOL_OK;
}

/* The time of a call on the device, by its own clock. */
static int time_on_device(session *s, double *ms) {
  float elapsed;
  CUDA_TRY(s, event_record(s->start, s->stream));
  const attnpress_status status = queue_call(s);
  if (status != ATTNPRESS_OK)
    return tool_fail("run", status);
  CUDA_TRY(s, event_record(s->end, s->stream));
  CUDA_TRY(s, event_synchronize(s->end));
  CUDA_TRY(s, event_elapsed_time(&elapsed, s->start, s->end));
  *ms = elapsed;
  return TOOL_OK;
}

static int time_calls(session *s) {
  const int64_t repeat = s->o.repeat != NOT_GIVEN ? s->o.repeat : s->on_cuda ? 10 : 3;
  double *times = malloc((size_t)repeat * sizeof *times);
  int status = times ? TOOL_OK : TOOL_FAILED;
  for (int64_t i = 0; i < repeat && status == TOOL_OK; ++i)
    status = s->on_cuda ? time_on_device(s, &times[i]) : one_call(s, &times[i]);
  if (status == TOOL_OK) {
    s->run_ms = tool_median(times, repeat);
    s->o.repeat = repeat;
  }
  free(times);
  return status;
}

/* ---- Checking ---- */

/* Rows are numbered ((batch * heads) + head) * seqlen_q + position. A sample is one row of each of
 * as many parts of equal size, the first row of all and the last among them. */
static void check_rows(session *s, reference *r, int64_t rows) {
  const int64_t least = (REFERENCE_MIN_ELEMENTS + s->o.hdim_v - 1) / s->o.hdim_v;
  int64_t samples = least > SAMPLED_ROWS ? least : SAMPLED_ROWS;
  if (s->o.check == CHECK_FULL || samples > rows)
    samples = rows;
  uint64_t state = (uint64_t)s->o.seed;
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t begin = (int64_t)((double)rows * (double)i / (double)samples);
    const int64_t end = (int64_t)((double)rows * (double)(i + 1) / (double)samples);
    state = state * 6364136223846793005u + 1442695040888963407u;
    int64_t row = begin + (int64_t)((state >> 33) % (uint64_t)(end > begin ? end - begin : 1));
    if (i == 0 || samples == rows)
      row = samples == rows ? i : 0;
    else if (i == samples - 1)
      row = rows - 1;
    reference_check_row(r, row / s->o.seqlen_q / s->o.heads, row % s->o.seqlen_q,
                        row / s->o.seqlen_q % s->o.heads, &s->error);
  }
  s->checked_rows += samples;
}

/* The same of sequences, each a call of its own: every row, or of each sequence the first one, the
 * last one and one between them, of heads that take turns. */
static int check_sequences(session *s) {
  const int64_t heads = s->o.heads;
  for (int64_t b = 0; b < s->o.lengths.count; ++b) {
    sequence one;
    reference r;
    if (sequence_open(&one, &s->host, b) != 0 || reference_init(&r, &one.args) != 0) {
      sequence_close(&one);
      return -1;
    }
    const int64_t queries = one.args.q.shape[1], rows = queries * heads;
    const int whole = s->o.check == CHECK_FULL || rows <= 3;
    for (int64_t i = 0; i < (whole ? rows : 3); ++i) {
      const int64_t query = whole ? i % queries : i == 0 ? 0 : i == 1 ? queries - 1 : queries / 2;
      reference_check_row(&r, b, query, whole ? i / queries : (b + i) % heads, &s->error);
      ++s->checked_rows;
    }
    reference_free(&r);
    sequence_close(&one);
  }
  return 0;
}

/* Checks the outputs of the first call; a call with few elements is made again with other inputs,
 * until the maxima are over as many as the criterion wants. */
static int check_once(session *s, reference *r, int64_t rows) {
  if (s->o.lengths.count == 0) {
    check_rows(s, r, rows);
    return TOOL_OK;
  }
  if (check_sequences(s) == 0)
    return TOOL_OK;
  fprintf(stderr, "attnpress run: host memory for the reference could not be had\n");
  return TOOL_FAILED;
}

static int check(session *s) {
  const int64_t rows = s->host.q.shape[0] * s->o.heads * s->host.q.shape[1];
  const int sequences = s->o.lengths.count > 0;
  reference r = {0};
  if (s->o.check == CHECK_NONE || rows == 0)
    return TOOL_OK;
  if (!sequences && reference_init(&r, &s->host) != 0) {
    fprintf(stderr, "attnpress run: no reference: %s\n", r.why);
    return TOOL_FAILED;
  }
  int status = fetch_outputs(s);
  if (status == TOOL_OK && s->o.append > 0 && appended_check(&s->appended) != 0) {
    fprintf(stderr, "attnpress run: host memory for the check could not be had\n");
    status = TOOL_FAILED;
  }
  if (status == TOOL_OK)
    status = check_once(s, &r, rows);
  for (s->rounds = 1; status == TOOL_OK && s->error.elements < REFERENCE_MIN_ELEMENTS;
       ++s->rounds) {
    double ms;
    r.batch = -1; /* K and V change */
    status = fill(s, s->rounds);
    if (status == TOOL_OK)
      status = one_call(s, &ms);
    if (status == TOOL_OK)
      status = fetch_outputs(s);
    if (status == TOOL_OK)
      status = check_once(s, &r, rows);
  }
  reference_free(&r);
  return status;
}

/* ---- Report ---- */

/* Of one sequence. */
static double pairs_of(const run_options *o, int64_t seqlen_q, int64_t seqlen_k) {
  const attnpress_window window = score_options_window(&o->scores, o->causal);
  const attnpress_forward_args args = {.mask = score_options_mask(&o->scores, o->causal),
                                       .window = &window,
                                       .q.shape[1] = seqlen_q,
                                       .k.shape[1] = seqlen_k};
  const ap_mask mask = ap_mask_of(&args);
  double pairs = 0.0;
  for (int64_t i = 0; i < seqlen_q; ++i) {
    const ap_keys keys = ap_keys_of(&mask, i);
    pairs += keys.end > keys.begin ? (double)(keys.end - keys.begin) : 0.0;
  }
  return pairs;
}

double run_flops(const run_options *o) {
  const lengths_batch *b = &o->lengths;
  double pairs = 0.0;
  if (b->count == 0)
    pairs = (double)o->batch * pairs_of(o, o->seqlen_q, o->seqlen_k);
  for (int64_t i = 0; i < b->count; ++i)
    pairs += pairs_of(o, b->seqlen_q > 0 ? b->seqlen_q : b->lengths[i], b->lengths[i]);
  return 2.0 * (double)o->heads * pairs * (double)(o->hdim + o->hdim_v);
}

static void print_call(const session *s) {
  const run_options *o = &s->o;
  char scores[256];
  score_options_print(&o->scores, o->causal, scores, sizeof scores);
  if (o->lengths.count > 0) {
    printf("call      %" PRId64 " sequences, %" PRId64 " queries (at most %" PRId64
           " of one), %" PRId64 " keys (%" PRId64 ")",
           o->lengths.count, o->lengths.total_q, o->lengths.longest_q, o->lengths.total_k,
           o->lengths.longest_k);
    if (o->lengths.page_size > 0)
      printf(" in %" PRId64 " pages of %" PRId64, o->lengths.pages, o->lengths.page_size);
    if (o->append > 0)
      printf(", %" PRId64 " of each new", o->append);
    if (o->rotary != APPENDED_UNROTATED)
      printf(" and rotated (%s)", rotary_names[o->rotary]);
    printf(", %" PRId64 " heads", o->heads);
  } else {
    printf("call      batch %" PRId64 ", %" PRId64 " queries, %" PRId64 " keys, %" PRId64 " heads",
           o->batch, o->seqlen_q, o->seqlen_k, o->heads);
  }
  if (o->kv_heads != o->heads)
    printf(" on %" PRId64 " key heads", o->kv_heads);
  printf(", head dim %" PRId64, o->hdim);
  if (o->hdim_v != o->hdim)
    printf("/%" PRId64, o->hdim_v);
  printf(", %s, %s, %s%s\n", dtype_names[o->dtype], scores, layout_names[o->layout],
         o->lengths.ready ? ", with a ready schedule" : "");
  if (s->on_cuda)
    printf("device    %s, compute capability %d.%d\n", s->cuda.name, s->cuda.capability / 10,
           s->cuda.capability % 10);
  else
    printf("device    CPU, %s\n", ap_cpu_isa_name(ap_cpu_best_isa()));
}

void run_print_kernels(const attnpress_info *info, const attnpress_info *before, int count,
                       int on_cuda) {
  for (int i = 0; i < count; ++i, ++info) {
    printf("kernel    %s", info->stem);
    if (*info->tile)
      printf(", tile %s, %s", info->tile, info->target);
    if (on_cuda)
      printf(", %d blocks of %d threads", (int)info->grid, (int)info->threads);
    if (info->num_splits > 1)
      printf(", %d splits", (int)info->num_splits);
    printf("\norigin    %s\n", tool_origin(before[i].origin));
    if (on_cuda)
      printf("compile   %.1f ms\n"
             "size      %zu bytes, %d registers, %d bytes of local memory, %d bytes of shared "
             "memory\n",
             info->compile_ms, info->cubin_bytes, (int)info->registers, (int)info->spill_bytes,
             (int)info->smem_bytes);
  }
}

static int print_result(const session *s) {
  printf("time      %.4f ms, median of %" PRId64 "; %.3f TFLOP/s\n", s->run_ms, s->o.repeat,
         s->run_ms > 0 ? run_flops(&s->o) / s->run_ms * 1e-9 : 0.0);
  if (s->o.check == CHECK_NONE || s->error.elements == 0) {
    printf("check     none\n");
    return TOOL_OK;
  }
  const reference_error *e = &s->error;
  const append_error *of_new = &s->appended.error;
  const int appended = of_new->ratio <= 1, held = reference_holds(e) && appended;
  printf("error     out %.3e, bound %.3e; lse %.3e, bound %.1e\n", e->out, reference_bound(e),
         e->lse, reference_lse_bound(e));
  if (s->o.append > 0)
    printf("append    %.3f of the tolerance, over %" PRId64 " elements\n", of_new->ratio,
           of_new->elements);
  printf("check     %s, over %" PRId64 " rows, %" PRId64 " elements",
         held ? "held" : "DID NOT HOLD", s->checked_rows, e->elements);
  if (s->rounds > 1)
    printf(", in %" PRId64 " calls", s->rounds);
  printf("\n");
  if (!(e->out <= reference_bound(e)))
    printf("worst     batch %" PRId64 ", row %" PRId64 ", head %" PRId64 ", column %" PRId64
           ": %.6g, expected %.6g\n",
           e->at[0], e->at[1], e->at[2], e->at[3], e->value, e->expected);
  if (!appended)
    printf("worst     %s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
           "]: %.6g, expected %.6g\n",
           of_new->what, of_new->at[0], of_new->at[1], of_new->at[2], of_new->at[3], of_new->value,
           of_new->expected);
  if (!(e->lse <= reference_lse_bound(e)))
    printf("worst lse batch %" PRId64 ", row %" PRId64 ", head %" PRId64 ": %.9g, expected %.9g\n",
           e->lse_at[0], e->lse_at[1], e->lse_at[2], e->lse_value, e->lse_expected);
  return held ? TOOL_OK : TOOL_FAILED;
}

static void close_session(session *s) {
  attnpress_plan_destroy(s->plan);
  attnpress_destroy(s->handle);
  if (s->on_cuda) {
    for (int i = 0; i < 6; ++i)
      if (s->buffers[i])
        s->cuda.mem_free(s->buffers[i]);
    for (int i = 0; i < SCORE_BUFFERS; ++i)
      if (s->score_buffers[i])
        s->cuda.mem_free(s->score_buffers[i]);
    if (s->arrays)
      s->cuda.mem_free(s->arrays);
    for (int i = 0; i < 3; ++i)
      if (s->append_buffers[i])
        s->cuda.mem_free(s->append_buffers[i]);
  }
  cuda_device_end(&s->cuda, s->stream, s->start, s->end);
  free(s->host.q.data);
  free(s->host.k.data);
  free(s->host.v.data);
  free(s->host.out.data);
  free(s->host.lse);
  score_data_free(&s->scores);
  appended_free(&s->appended);
  lengths_free(&s->o.lengths);
}

static int run(session *s) {
  int status = open_device(s);
  if (status == TOOL_OK)
    status = describe_call(s);
  if (status == TOOL_OK)
    status = allocate_host(s);
  if (status == TOOL_OK && s->on_cuda)
    status = allocate_device(s);
  if (status == TOOL_OK)
    status = fill(s, 0);
  if (status != TOOL_OK)
    return status;
  attnpress_info before[RUN_LAUNCHES_MAX], append_before[RUN_LAUNCHES_MAX];
  memcpy(before, s->info, sizeof before);
  status = describe_append(s);
  memcpy(append_before, s->append_info, sizeof append_before);
  if (status == TOOL_OK)
    status = make_schedule(s);
  if (status == TOOL_OK)
    status = one_call(s, &s->first_ms);
  if (status == TOOL_OK) /* what is known of the kernels once they are loaded */
    status = describe_plan(s);
  if (status == TOOL_OK)
    status = describe_append(s);
  if (status == TOOL_OK)
    status = check(s);
  if (status == TOOL_OK)
    status = time_calls(s);
  if (status != TOOL_OK)
    return status;
  print_call(s);
  run_print_kernels(s->append_info, append_before, s->append_launches, s->on_cuda);
  run_print_kernels(s->info, before, s->launches, s->on_cuda);
  if (s->on_cuda)
    printf("first     %.2f ms, loading included\n", s->first_ms);
  return print_result(s);
}

int run_time(const run_options *o, double *ms) {
  session s = {.o = *o};
  s.o.device = TOOL_CUDA;
  int status = open_device(&s);
  if (status == TOOL_OK)
    status = describe_call(&s);
  if (status == TOOL_OK)
    status = allocate_host(&s);
  if (status == TOOL_OK)
    status = allocate_device(&s);
  if (status == TOOL_OK)
    status = fill(&s, 0);
  if (status == TOOL_OK)
    status = make_schedule(&s);
  if (status == TOOL_OK)
    status = one_call(&s, &s.first_ms); /* loads the kernels */
  if (status == TOOL_OK)
    status = time_calls(&s);
  *ms = s.run_ms;
  close_session(&s);
  return status;
}

static int run_words(int argc, char **argv) {
  session s = {.o = {.batch = 1,
                     .seqlen_q = NOT_GIVEN,
                     .seqlen_k = NOT_GIVEN,
                     .heads = 8,
                     .kv_heads = NOT_GIVEN,
                     .hdim = 128,
                     .hdim_v = NOT_GIVEN,
                     .repeat = NOT_GIVEN,
                     .seed = 1,
                     .dtype = ATTNPRESS_BF16,
                     .check = CHECK_SAMPLE}};
  int status = parse_options(argc, argv, &s.o);
  if (status != TOOL_OK) {
    lengths_free(&s.o.lengths);
    return status;
  }
  if (s.o.backward)
    return run_backward(&s.o);
  status = run(&s);
  close_session(&s);
  return status;
}

/* ---- Families -------------------------------------------------------------------------------- */

const tool_command ap_tool_run_attention = {
    .name = "run attention",
    .summary = "attention, forward or backward",
    .usage = "[OPTION]...",
    .about =
        "Makes random inputs, runs attention, times it, and checks the result against float64: "
        "max|out - ref| must be at most 2 max|low - ref| + 1e-5, where low is plain attention in "
        "the same precision, and lse must be within 1e-5 max(1, |lse|); with a softcap 3 times "
        "and 2^-10.",
    .options =
        {(const tool_opt[]){
             {"--batch", "N", "batches (1)"},
             {"--seqlen-q", "N", "queries (1024)"},
             {"--seqlen-k", "N", "keys (as many as queries)"},
             {"--heads", "N", "query heads (8)"},
             {"--kv-heads", "N", "key heads (as many as query heads)"},
             {"--hdim", "N", "head dim of Q and K, a multiple of 8 up to 512 (128)"},
             {"--hdim-v", "N", "head dim of V and the output (that of Q and K)"},
             {"--dtype", "fp16|bf16|fp32", "fp32 on the CPU (bf16)"},
             {"--causal", NULL, "each query sees the keys up to its own position"},
             {"--backward", NULL,
              "the gradients, of the same call: each of dq, dk and dv is "
              "held to the bound of out"},
             {"--deterministic", NULL, "gradients whose bits are the same in every run"},
             {"--lengths", "LIST",
              "sequences of their own lengths in one call: 5,300,77 keys, or "
              "lognormal:COUNT:MEAN:SEED; queries as many, or --seqlen-q of each"},
             {"--page-size", "N", "with --lengths: keys lie in pages of N rows, in any order"},
             {"--page-tables", "rows|flat",
              "with --page-size: a row for each sequence, or flat, K and V apart (rows)"},
             {"--append", "N",
              "with --lengths: the last N keys of each are new, written to their place by the same "
              "call; N queries of each, or --seqlen-q"},
             {"--rotary", "none|neox|interleaved",
              "with --append: new keys and their queries are rotated (none)"},
             {"--rotary-dim", "N", "with --rotary: columns that are rotated (the head dim)"},
             {"--ready-schedule", NULL,
              "with --lengths: the order of the sequences is made before, and not by each call"},
             {"--splits", "N", "parts that the keys are split into (0: chosen)"},
             {"--batch-invariant", NULL, "each row has the same bits whatever else is in the call"},
             {"--layout", "bshd|bhsd", "the order of batch, seqlen, heads and head dim (bshd)"},
             {NULL, NULL, NULL}},
         score_options_table, tool_session_options, emulated_options},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};

#define FAMILY_COMMAND(name, NAME) extern const tool_command ap_tool_run_##name;
AP_FAMILIES(FAMILY_COMMAND)

#define FAMILY_ROW(name, NAME) &ap_tool_run_##name,
const tool_command *const ap_tool_run_families[] = {AP_FAMILIES(FAMILY_ROW) NULL};

/* `attnpress run FAMILY ...`; attention where none is named. */
static int run_family(int argc, char **argv) {
  if (tool_is_emulated(argc, argv))
    return ap_tool_run_emulated(argc, argv);
  for (const tool_command *const *f = ap_tool_run_families; argc > 1 && *f != NULL; ++f)
    if (strcmp(argv[1], (*f)->name + strlen("run ")) == 0)
      return tool_dispatch(*f, argc - 1, argv + 1);
  tool_command any = ap_tool_run_attention;
  char about[1024];
  snprintf(about, sizeof about, "%s\n\n%s", any.about, ap_tool_run.about);
  any.name = ap_tool_run.name;
  any.usage = ap_tool_run.usage;
  any.about = about;
  return tool_dispatch(&any, argc, argv);
}

#define FAMILY_WORD(name, NAME) "|" #name
static const char family_words[] = "" AP_FAMILIES(FAMILY_WORD);

#define FAMILY_LISTED(name, NAME) " " #name
const tool_command ap_tool_run = {
    .name = "run",
    .summary = "run kernels on random inputs and check the result",
    .usage = "[OPTION]...\nFAMILY [OPTION]...",
    .words = family_words + 1,
    .about = "Families:" AP_FAMILIES(
        FAMILY_LISTED) "; where none is named, attention is meant. Each "
                       "has options of its own: attnpress run FAMILY --help.",
    .run = run_family,
};
