/* Options, buffers and calls of `attnpress run FAMILY`. */
#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/isa.h"
#include "handle.h"
#include "tool.h"

enum { NOT_GIVEN = -1, REPEAT_MAX = 100000, SAMPLED_ROWS = 64, ALIGNMENT = 64 };

const char *const tool_dtype_names[] = {"any", "fp16", "bf16", "fp32"};
static const char *const check_names[] = {"none", "sample", "full"};

const tool_opt tool_session_options[] = {
    {"--device", "cpu|cuda|emulated",
     "cuda where there is a GPU; emulated: a GPU's kernel on the CPU"},
    {"--threads", "N", "threads on the CPU (0: all cores)"},
    {"--repeat", "N", "runs of which the median time is taken (10; on the CPU 3)"},
    {"--check", "none|sample|full",
     "sample: some rows, the first and the last among them (sample)"},
    {"--seed", "N", "of the random inputs (1)"},
    {NULL, NULL, NULL}};

/* ---- Options --------------------------------------------------------------------------------- */

static int parse_real(const tool_session *s, const tool_real *r, const char *text) {
  char *end;
  *r->value = strtof(text, &end);
  return *text != '\0' && *end == '\0'
             ? TOOL_OK
             : tool_usage(s->command, "%s is \"%s\"; it must be a number", r->name, text);
}

static int keep_word(const tool_session *s, const tool_word *w, const char *text) {
  int count = 0;
  while (count < w->most && w->value[count] != NULL)
    ++count;
  if (*text == '\0' || count == w->most)
    return tool_usage(s->command, "%s \"%s\" is %s", w->name, text,
                      *text == '\0' ? "empty" : "one too many");
  w->value[count] = text;
  return TOOL_OK;
}

static int parse_option(tool_session *s, const tool_options *o, int argc, char **argv, int *i) {
  const char *value;
  for (const tool_flag *f = o->flags; f != NULL && f->name != NULL; ++f)
    if (strcmp(argv[*i], f->name) == 0)
      return *f->value = 1, TOOL_OK;
  for (const tool_number *n = o->numbers; n != NULL && n->name != NULL; ++n)
    if ((value = tool_option(argc, argv, i, n->name)) != NULL)
      return tool_parse_number(s->command, n->name, value, n->least, n->most, n->value);
  for (const tool_choice *c = o->choices; c != NULL && c->name != NULL; ++c)
    if ((value = tool_option(argc, argv, i, c->name)) != NULL)
      return tool_parse_choice(s->command, c->name, value, c->names, c->first, c->count, c->value);
  for (const tool_real *r = o->reals; r != NULL && r->name != NULL; ++r)
    if ((value = tool_option(argc, argv, i, r->name)) != NULL)
      return parse_real(s, r, value);
  for (const tool_word *w = o->words; w != NULL && w->name != NULL; ++w)
    if ((value = tool_option(argc, argv, i, w->name)) != NULL)
      return keep_word(s, w, value);
  return NOT_GIVEN;
}

int tool_session_parse(tool_session *s, const char *command, const tool_options *options, int argc,
                       char **argv) {
  const tool_number numbers[] = {{"--repeat", &s->repeat, 1, REPEAT_MAX},
                                 {"--threads", &s->threads, 0, AP_THREADS_MAX},
                                 {NULL, NULL, 0, 0}};
  const tool_choice choices[] = {
      {"--device", tool_device_names, TOOL_CPU, TOOL_DEVICES, &s->device},
      {"--check", check_names, TOOL_CHECK_NONE, 3, &s->check},
      {NULL, NULL, 0, 0, NULL}};
  const tool_options own = {numbers, choices, NULL, NULL, NULL};
  s->command = command;
  s->check = TOOL_CHECK_SAMPLE;
  s->repeat = NOT_GIVEN;
  for (int i = 1; i < argc; ++i) {
    int status = parse_option(s, &own, argc, argv, &i);
    if (status == NOT_GIVEN)
      status = parse_option(s, options, argc, argv, &i);
    if (status == NOT_GIVEN)
      status = tool_usage(command, "\"%s\" is not an option", argv[i]);
    if (status != TOOL_OK)
      return status;
  }
  return TOOL_OK;
}

/* ---- Devices, times, origins ----------------------------------------------------------------- */

int tool_cuda_failed(const char *command, const cuda_device *cuda, CUresult result,
                     const char *what) {
  fprintf(stderr, "attnpress %s: %s: %s\n", command, what, cuda_device_error(cuda, result));
  return TOOL_FAILED;
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double tool_median(double *times, int64_t count) {
  qsort(times, (size_t)count, sizeof *times, compare_doubles);
  return times[count / 2];
}

const char *tool_origin(int32_t origin) {
  static const char *const origins[] = {
      "none", "linked in", "disk cache", "compiled now (jit)", "memory", "the library's own code"};
  return origins[origin];
}

/* ---- Device and data ------------------------------------------------------------------------- */

#define CUDA_TRY(s, call) TOOL_CUDA_TRY((s)->command, &(s)->cuda, call)

int tool_session_open(tool_session *s) {
  char why[512];
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  const int any = s->device == TOOL_ANY_DEVICE;
  if (s->device != TOOL_CPU) {
    if (cuda_device_open(&s->cuda, 0, why, sizeof why) == 0)
      s->on_cuda = !any || s->cuda.capability >= 80;
    else if (!any) {
      fprintf(stderr, "attnpress %s: no CUDA device: %s\n", s->command, why);
      return TOOL_FAILED;
    }
  }
  options.backend = s->on_cuda ? ATTNPRESS_CUDA : ATTNPRESS_CPU;
  options.num_threads = (int32_t)s->threads;
  const attnpress_status status = attnpress_create(&s->handle, &options);
  if (status != ATTNPRESS_OK)
    return tool_fail(s->command, status);
  if (s->on_cuda) {
    CUDA_TRY(s, stream_create(&s->stream, CU_STREAM_NON_BLOCKING));
    CUDA_TRY(s, event_create(&s->start, CU_EVENT_DEFAULT));
    CUDA_TRY(s, event_create(&s->end, CU_EVENT_DEFAULT));
  }
  return TOOL_OK;
}

static int allocate(const tool_session *s, size_t bytes, void **memory) {
  *memory = aligned_alloc(ALIGNMENT, bytes);
  if (*memory != NULL)
    return TOOL_OK;
  fprintf(stderr, "attnpress %s: %.1f GB of host memory could not be had\n", s->command,
          (double)bytes * 1e-9);
  return TOOL_FAILED;
}

int tool_session_add(tool_session *s, int64_t bytes, int *index) {
  tool_buffer *b = &s->buffer[s->buffer_count];
  *index = s->buffer_count++;
  b->bytes = ((size_t)bytes + ALIGNMENT) / ALIGNMENT * ALIGNMENT; /* never 0 */
  if (allocate(s, b->bytes, &b->host) != TOOL_OK)
    return TOOL_FAILED;
  memset(b->host, 0xff, b->bytes);
  if (s->on_cuda)
    CUDA_TRY(s, mem_alloc(&b->device, b->bytes));
  return TOOL_OK;
}

void *tool_session_data(const tool_session *s, int index) {
  if (index < 0)
    return NULL;
  return s->on_cuda ? (void *)(uintptr_t)s->buffer[index].device : s->buffer[index].host;
}

void *tool_session_host(const tool_session *s, int index) {
  return index < 0 ? NULL : s->buffer[index].host;
}

int tool_session_keep(tool_session *s, int index, void **copy) {
  tool_buffer *b = &s->buffer[index];
  if (allocate(s, b->bytes, &b->kept) != TOOL_OK)
    return TOOL_FAILED;
  *copy = memcpy(b->kept, b->host, b->bytes);
  return TOOL_OK;
}

int tool_session_upload(tool_session *s) {
  for (int i = 0; s->on_cuda && i < s->buffer_count; ++i)
    CUDA_TRY(s, memcpy_htod(s->buffer[i].device, s->buffer[i].host, s->buffer[i].bytes));
  return TOOL_OK;
}

int tool_session_download(tool_session *s) {
  for (int i = 0; s->on_cuda && i < s->buffer_count; ++i)
    CUDA_TRY(s, memcpy_dtoh(s->buffer[i].host, s->buffer[i].device, s->buffer[i].bytes));
  return TOOL_OK;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Plans the call, and asks what its first launch is. */
static int describe(tool_session *s, const tool_call *call, attnpress_info *info) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  options.stream = s->stream;
  attnpress_plan_destroy(s->plan);
  s->plan = NULL;
  attnpress_status status = call->plan(s->handle, call->args, &options, &s->plan);
  *info = (attnpress_info)ATTNPRESS_INFO_INIT;
  s->launch_count = attnpress_plan_launch_count(s->plan);
  if (status == ATTNPRESS_OK && s->launch_count > 0)
    status = attnpress_plan_launch(s->plan, 0, info);
  return status == ATTNPRESS_OK ? TOOL_OK : tool_fail(s->command, status);
}

static int give_workspace(tool_session *s, const tool_call *call) {
  if (!s->on_cuda || call->set_workspace == NULL)
    return TOOL_OK;
  const attnpress_status status = attnpress_plan_workspace_bytes(s->plan, &s->workspace_bytes);
  if (status != ATTNPRESS_OK)
    return tool_fail(s->command, status);
  if (s->workspace_bytes > 0)
    CUDA_TRY(s, mem_alloc(&s->workspace, s->workspace_bytes));
  call->set_workspace(call->args, (void *)(uintptr_t)s->workspace, s->workspace_bytes);
  return TOOL_OK;
}

/* One call, until its result is there; *ms is wall time, or the device's. */
static int one_call(tool_session *s, const tool_call *call, int on_device_clock, double *ms) {
  const double begin = tool_now_ms();
  float elapsed = 0.0f;
  if (on_device_clock)
    CUDA_TRY(s, event_record(s->start, s->stream));
  const attnpress_status status = call->run(s->handle, call->args, s->stream);
  if (status != ATTNPRESS_OK)
    return tool_fail(s->command, status);
  if (on_device_clock) {
    CUDA_TRY(s, event_record(s->end, s->stream));
    CUDA_TRY(s, event_synchronize(s->end));
    CUDA_TRY(s, event_elapsed_time(&elapsed, s->start, s->end));
  } else if (s->on_cuda) {
    CUDA_TRY(s, stream_synchronize(s->stream));
  }
  *ms = on_device_clock ? (double)elapsed : tool_now_ms() - begin;
  return TOOL_OK;
}

int tool_session_first(tool_session *s, const tool_call *call) {
  int status = tool_session_upload(s);
  if (status == TOOL_OK)
    status = describe(s, call, &s->before);
  if (status == TOOL_OK)
    status = give_workspace(s, call);
  if (status == TOOL_OK)
    status = one_call(s, call, 0, &s->first_ms);
  if (status == TOOL_OK)
    status = tool_session_download(s);
  /* What is known of the kernel once it is loaded. */
  return status == TOOL_OK ? describe(s, call, &s->info) : status;
}

int tool_session_time(tool_session *s, const tool_call *call) {
  s->repeat = s->repeat != NOT_GIVEN ? s->repeat : s->on_cuda ? 10 : 3;
  double *times = malloc((size_t)s->repeat * sizeof *times);
  int status = times ? TOOL_OK : TOOL_FAILED;
  for (int64_t i = 0; i < s->repeat && status == TOOL_OK; ++i)
    status = one_call(s, call, s->on_cuda, &times[i]);
  if (status == TOOL_OK)
    s->run_ms = tool_median(times, s->repeat);
  free(times);
  return status;
}

void tool_session_check_rows(const tool_session *s, int64_t rows,
                             void (*check)(void *context, int64_t row), void *context) {
  const int64_t samples = s->check == TOOL_CHECK_FULL || rows < SAMPLED_ROWS ? rows : SAMPLED_ROWS;
  for (int64_t i = 0; s->check != TOOL_CHECK_NONE && i < samples; ++i)
    check(context,
          samples == 1 ? 0 : (int64_t)((double)(rows - 1) * (double)i / (double)(samples - 1)));
}

/* ---- Report ---------------------------------------------------------------------------------- */

int tool_session_report(const tool_session *s, const char *text, double bytes,
                        const tool_verdict *verdict) {
  const attnpress_info *info = &s->info;
  printf("call      %s\n", text);
  printf("device    %s\n", s->on_cuda ? s->cuda.name : ap_cpu_isa_name(ap_cpu_best_isa()));
  if (*info->stem)
    printf("kernel    %s%s%s, %s%s\norigin    %s\n", info->stem, *info->tile ? ", tile " : "",
           info->tile, info->target, s->launch_count > 1 ? ", the first of several" : "",
           tool_origin(s->before.origin));
  if (s->on_cuda && *info->stem)
    printf("size      %d blocks of %d threads, %d registers, %d bytes of local memory, %d bytes of "
           "shared memory, %zu bytes of workspace\nfirst     %.2f ms, loading included\n",
           (int)info->grid, (int)info->threads, (int)info->registers, (int)info->spill_bytes,
           (int)info->smem_bytes, s->workspace_bytes, s->first_ms);
  printf("time      %.4f ms, median of %" PRId64 "; %.1f GB/s\n", s->run_ms, s->repeat,
         s->run_ms > 0 ? bytes / s->run_ms * 1e-6 : 0.0);
  if (verdict->elements == 0) {
    printf("check     none\n");
    return TOOL_OK;
  }
  const int held = verdict->ratio <= 1.0;
  printf("error     %.3f of the tolerance\n", verdict->ratio);
  printf("check     %s, over %" PRId64 " elements\n", held ? "held" : "DID NOT HOLD",
         verdict->elements);
  if (!held)
    printf("worst     %s\n", verdict->worst);
  return held ? TOOL_OK : TOOL_FAILED;
}

void tool_session_close(tool_session *s) {
  attnpress_plan_destroy(s->plan);
  attnpress_destroy(s->handle);
  for (int i = 0; i < s->buffer_count; ++i) {
    free(s->buffer[i].host);
    free(s->buffer[i].kept);
    if (s->buffer[i].device)
      s->cuda.mem_free(s->buffer[i].device);
  }
  if (s->workspace)
    s->cuda.mem_free(s->workspace);
  cuda_device_end(&s->cuda, s->stream, s->start, s->end);
}
