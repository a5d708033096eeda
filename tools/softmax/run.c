/* attnpress run softmax: random inputs through the public API, timed, and checked against float64
 * (reference.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cuda_device.h"
#include "../session.h"
#include "../tool.h"
#include "attnpress/softmax.h"
#include "cpu/isa.h"
#include "reference.h"

enum { DEVICE_ANY, DEVICE_CPU, DEVICE_CUDA };
enum { CHECK_NONE, CHECK_SAMPLE, CHECK_FULL };
enum { NOT_GIVEN = -1, REPEAT_MAX = 100000, SAMPLED_ROWS = 64, TENSORS_MAX = 3 };

static const char *const dtype_names[] = {"any", "fp16", "bf16", "fp32"};
static const char *const device_names[] = {"any", "cpu", "cuda"};
static const char *const check_names[] = {"none", "sample", "full"};

typedef struct run_options {
  int64_t rows, columns, stride, repeat, threads, seed;
  int dtype, device, check, backward, in_place;
  float scale;
} run_options;

/* One run. Tensors are x, y or y, dy, dx; the last is the output, and in place it is the one before
 * it. */
typedef struct session {
  run_options o;
  attnpress_handle *handle;
  int on_cuda, tensors;
  int64_t bytes;                    /* of a tensor */
  void *host[TENSORS_MAX], *before; /* before: the input that a run in place writes over */
  cuda_device cuda;
  CUdeviceptr buffers[TENSORS_MAX];
  CUstream stream;
  CUevent start, end;
  attnpress_plan *plan;
  attnpress_info info;
  double first_ms, run_ms;
  softmax_error error;
} session;

/* ---- Words ----------------------------------------------------------------------------------- */

static int parse_number(const char *name, const char *text, int64_t least, int64_t most,
                        int64_t *value) {
  char *end;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  if (*text == '\0' || *end != '\0' || errno != 0 || number < least || number > most)
    return tool_usage("run softmax",
                      "%s is \"%s\"; it must be a whole number from %" PRId64 " to %" PRId64, name,
                      text, least, most);
  *value = number;
  return TOOL_OK;
}

static int parse_choice(const char *name, const char *text, const char *const *names, int first,
                        int count, int *value) {
  char allowed[64];
  for (int i = first; i < count; ++i)
    if (strcmp(text, names[i]) == 0) {
      *value = i;
      return TOOL_OK;
    }
  tool_join(allowed, sizeof allowed, names + first, (size_t)(count - first));
  return tool_usage("run softmax", "%s is \"%s\"; it can be %s", name, text, allowed);
}

static int parse_option(run_options *o, int argc, char **argv, int *i) {
  const struct {
    const char *name;
    int64_t *value, least, most;
  } numbers[] = {{"--rows", &o->rows, 0, INT64_MAX / 4},
                 {"--columns", &o->columns, 0, ATTNPRESS_SOFTMAX_COLUMNS_MAX},
                 {"--stride", &o->stride, 1, INT32_MAX},
                 {"--repeat", &o->repeat, 1, REPEAT_MAX},
                 {"--threads", &o->threads, 0, INT32_MAX},
                 {"--seed", &o->seed, 0, INT64_MAX}};
  const struct {
    const char *name;
    const char *const *names;
    int first, count, *value;
  } choices[] = {{"--dtype", dtype_names, ATTNPRESS_FP16, 4, &o->dtype},
                 {"--device", device_names, DEVICE_CPU, 3, &o->device},
                 {"--check", check_names, CHECK_NONE, 3, &o->check}};
  const char *value;
  if (strcmp(argv[*i], "--backward") == 0)
    return o->backward = 1, TOOL_OK;
  if (strcmp(argv[*i], "--in-place") == 0)
    return o->in_place = 1, TOOL_OK;
  for (size_t n = 0; n < sizeof numbers / sizeof *numbers; ++n)
    if ((value = tool_option(argc, argv, i, numbers[n].name)) != NULL)
      return parse_number(numbers[n].name, value, numbers[n].least, numbers[n].most,
                          numbers[n].value);
  for (size_t n = 0; n < sizeof choices / sizeof *choices; ++n)
    if ((value = tool_option(argc, argv, i, choices[n].name)) != NULL)
      return parse_choice(choices[n].name, value, choices[n].names, choices[n].first,
                          choices[n].count, choices[n].value);
  if ((value = tool_option(argc, argv, i, "--scale")) != NULL) {
    char *end;
    o->scale = strtof(value, &end);
    return *value != '\0' && *end == '\0'
               ? TOOL_OK
               : tool_usage("run softmax", "--scale is \"%s\"; it must be a number", value);
  }
  return tool_usage("run softmax", "\"%s\" is not an option", argv[*i]);
}

/* ---- Device and data ------------------------------------------------------------------------- */

static int cuda_failed(const session *s, CUresult result, const char *what) {
  fprintf(stderr, "attnpress run softmax: %s: %s\n", what, cuda_device_error(&s->cuda, result));
  return TOOL_FAILED;
}

/* Returns TOOL_FAILED from the caller where a driver call fails. */
#define CUDA_TRY(s, call)                                                                          \
  do {                                                                                             \
    const CUresult cuda_result = (s)->cuda.call;                                                   \
    if (cuda_result != CUDA_SUCCESS)                                                               \
      return cuda_failed(s, cuda_result, #call);                                                   \
  } while (0)

/* What was asked for, else a GPU that this version runs on, else the CPU. */
static int open_device(session *s) {
  char why[512];
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  const int any = s->o.device == DEVICE_ANY;
  if (s->o.device != DEVICE_CPU) {
    if (cuda_device_open(&s->cuda, 0, why, sizeof why) == 0)
      s->on_cuda = !any || s->cuda.capability >= 80;
    else if (!any) {
      fprintf(stderr, "attnpress run softmax: no CUDA device: %s\n", why);
      return TOOL_FAILED;
    }
  }
  options.backend = s->on_cuda ? ATTNPRESS_CUDA : ATTNPRESS_CPU;
  options.num_threads = (int32_t)s->o.threads;
  const attnpress_status status = attnpress_create(&s->handle, &options);
  if (status != ATTNPRESS_OK)
    return tool_fail("run softmax", status);
  if (s->on_cuda) {
    CUDA_TRY(s, stream_create(&s->stream, CU_STREAM_NON_BLOCKING));
    CUDA_TRY(s, event_create(&s->start, CU_EVENT_DEFAULT));
    CUDA_TRY(s, event_create(&s->end, CU_EVENT_DEFAULT));
  }
  return TOOL_OK;
}

static softmax_case case_of(const session *s) {
  const int output = s->tensors - 1;
  softmax_case c = {.backward = s->o.backward,
                    .dtype = s->o.dtype,
                    .scale = s->o.scale,
                    .rows = s->o.rows,
                    .columns = s->o.columns,
                    .output = s->host[output],
                    .input_stride = {s->o.stride, s->o.stride},
                    .output_stride = s->o.stride};
  for (int i = 0; i < output; ++i)
    c.input[i] = s->o.in_place && i == output - 1 ? s->before : s->host[i];
  return c;
}

static int allocate(session *s) {
  const softmax_case shape = case_of(s);
  s->bytes = (softmax_span_bytes(&shape, s->o.stride) + 64) / 64 * 64; /* never 0 */
  for (int i = 0; i < s->tensors; ++i) {
    s->host[i] =
        s->o.in_place && i == s->tensors - 1 ? s->host[i - 1] : aligned_alloc(64, (size_t)s->bytes);
    if (s->on_cuda && s->o.in_place && i == s->tensors - 1)
      s->buffers[i] = s->buffers[i - 1];
    else if (s->on_cuda)
      CUDA_TRY(s, mem_alloc(&s->buffers[i], (size_t)s->bytes));
  }
  s->before = s->o.in_place ? aligned_alloc(64, (size_t)s->bytes) : NULL;
  if (s->host[0] == NULL || s->host[1] == NULL || (s->tensors == 3 && s->host[2] == NULL) ||
      (s->o.in_place && s->before == NULL)) {
    fprintf(stderr, "attnpress run softmax: %.1f GB of host memory could not be had\n",
            (double)s->bytes * 1e-9);
    return TOOL_FAILED;
  }
  return TOOL_OK;
}

/* Random inputs, an output of NaN. */
static int fill(session *s) {
  const int inputs = s->tensors - 1;
  const softmax_case shape = case_of(s);
  memset(s->host[inputs], 0xff, (size_t)s->bytes);
  for (int i = 0; i < inputs; ++i)
    softmax_fill(s->host[i], &shape, s->o.stride, s->o.backward ? 1.0 : 3.0,
                 s->o.backward && i == 0, (uint64_t)s->o.seed + (uint64_t)i);
  if (s->o.in_place)
    memcpy(s->before, s->host[inputs], (size_t)s->bytes);
  for (int i = 0; s->on_cuda && i < s->tensors; ++i)
    CUDA_TRY(s, memcpy_htod(s->buffers[i], s->host[i], (size_t)s->bytes));
  return TOOL_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

typedef union call_args {
  attnpress_softmax_args forward;
  attnpress_softmax_backward_args backward;
} call_args;

static void *pointer_of(const session *s, int tensor) {
  return s->on_cuda ? (void *)(uintptr_t)s->buffers[tensor] : s->host[tensor];
}

static call_args args_of(const session *s) {
  call_args args;
  if (s->o.backward)
    args.backward =
        (attnpress_softmax_backward_args){sizeof args.backward, pointer_of(s, 0), pointer_of(s, 1),
                                          pointer_of(s, 2),     s->o.rows,        s->o.columns,
                                          s->o.stride,          s->o.stride,      s->o.stride,
                                          s->o.dtype,           s->o.scale};
  else
    args.forward = (attnpress_softmax_args){sizeof args.forward, pointer_of(s, 0), pointer_of(s, 1),
                                            s->o.rows,           s->o.columns,     s->o.stride,
                                            s->o.stride,         s->o.dtype,       s->o.scale};
  return args;
}

/* Plans the call, and asks what it launches. */
static int describe(session *s) {
  attnpress_plan_options options = ATTNPRESS_PLAN_OPTIONS_INIT;
  const call_args args = args_of(s);
  options.stream = s->stream;
  attnpress_plan_destroy(s->plan);
  attnpress_status status =
      s->o.backward ? attnpress_plan_softmax_backward(s->handle, &args.backward, &options, &s->plan)
                    : attnpress_plan_softmax(s->handle, &args.forward, &options, &s->plan);
  s->info = (attnpress_info)ATTNPRESS_INFO_INIT;
  if (status == ATTNPRESS_OK && attnpress_plan_launch_count(s->plan) > 0)
    status = attnpress_plan_launch(s->plan, 0, &s->info);
  return status == ATTNPRESS_OK ? TOOL_OK : tool_fail("run softmax", status);
}

/* One call, until its result is there; *ms is wall time, or the device's. */
static int call_once(session *s, int on_device_clock, double *ms) {
  const call_args args = args_of(s);
  const double begin = tool_now_ms();
  float elapsed = 0.0f;
  if (on_device_clock)
    CUDA_TRY(s, event_record(s->start, s->stream));
  const attnpress_status status =
      s->o.backward ? attnpress_softmax_backward(s->handle, &args.backward, s->stream)
                    : attnpress_softmax(s->handle, &args.forward, s->stream);
  if (status != ATTNPRESS_OK)
    return tool_fail("run softmax", status);
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

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int time_calls(session *s) {
  s->o.repeat = s->o.repeat != NOT_GIVEN ? s->o.repeat : s->on_cuda ? 10 : 3;
  double *times = malloc((size_t)s->o.repeat * sizeof *times);
  int status = times ? TOOL_OK : TOOL_FAILED;
  for (int64_t i = 0; i < s->o.repeat && status == TOOL_OK; ++i)
    status = call_once(s, s->on_cuda, &times[i]);
  if (status == TOOL_OK) {
    qsort(times, (size_t)s->o.repeat, sizeof *times, compare_doubles);
    s->run_ms = times[s->o.repeat / 2];
  }
  free(times);
  return status;
}

/* The first row, the last, and rows between them. */
static int check(session *s) {
  const softmax_case c = case_of(s);
  const int64_t samples = s->o.check == CHECK_FULL || c.rows < SAMPLED_ROWS ? c.rows : SAMPLED_ROWS;
  if (s->o.check == CHECK_NONE || c.columns == 0)
    return TOOL_OK;
  if (s->on_cuda)
    CUDA_TRY(s, memcpy_dtoh(s->host[s->tensors - 1], s->buffers[s->tensors - 1], (size_t)s->bytes));
  for (int64_t i = 0; i < samples; ++i)
    softmax_check_row(
        &c, samples == 1 ? 0 : (int64_t)((double)(c.rows - 1) * (double)i / (double)(samples - 1)),
        &s->error);
  return TOOL_OK;
}

/* ---- Report ---------------------------------------------------------------------------------- */

/* `before`: what the plan said before the first call, with the origin. */
static int print_result(const session *s, const attnpress_info *before) {
  static const char *const origins[] = {
      "none", "linked in", "disk cache", "compiled now (jit)", "memory", "the library's own code"};
  const run_options *o = &s->o;
  const softmax_error *e = &s->error;
  const double bytes =
      (double)o->rows * (double)o->columns * (o->dtype == ATTNPRESS_FP32 ? 4 : 2) * s->tensors;
  printf("call      softmax%s, %" PRId64 " rows of %" PRId64 " columns, stride %" PRId64 ", %s%s\n",
         o->backward ? " backward" : "", o->rows, o->columns, o->stride, dtype_names[o->dtype],
         o->in_place ? ", in place" : "");
  printf("device    %s\n", s->on_cuda ? s->cuda.name : ap_cpu_isa_name(ap_cpu_best_isa()));
  if (*s->info.stem)
    printf("kernel    %s%s%s, %s\norigin    %s\n", s->info.stem, *s->info.tile ? ", tile " : "",
           s->info.tile, s->info.target, origins[before->origin]);
  if (s->on_cuda && *s->info.stem)
    printf("size      %d blocks of %d threads, %d registers, %d bytes of local memory, %d bytes of "
           "shared memory\nfirst     %.2f ms, loading included\n",
           (int)s->info.grid, (int)s->info.threads, (int)s->info.registers,
           (int)s->info.spill_bytes, (int)s->info.smem_bytes, s->first_ms);
  printf("time      %.4f ms, median of %" PRId64 "; %.1f GB/s\n", s->run_ms, o->repeat,
         s->run_ms > 0 ? bytes / s->run_ms * 1e-6 : 0.0);
  if (e->elements == 0) {
    printf("check     none\n");
    return TOOL_OK;
  }
  const int held = e->ratio <= 1.0;
  printf("error     %.3f of the tolerance\n", e->ratio);
  printf("check     %s, over %" PRId64 " elements\n", held ? "held" : "DID NOT HOLD", e->elements);
  if (!held)
    printf("worst     row %" PRId64 ", column %" PRId64 ": %.9g, expected %.9g\n", e->row,
           e->column, e->value, e->expected);
  return held ? TOOL_OK : TOOL_FAILED;
}

static void close_session(session *s) {
  attnpress_plan_destroy(s->plan);
  attnpress_destroy(s->handle);
  for (int i = 0; i < s->tensors - s->o.in_place; ++i) {
    free(s->host[i]);
    if (s->buffers[i])
      s->cuda.mem_free(s->buffers[i]);
  }
  free(s->before);
  if (s->start)
    s->cuda.event_destroy(s->start);
  if (s->end)
    s->cuda.event_destroy(s->end);
  if (s->stream)
    s->cuda.stream_destroy(s->stream);
  if (s->cuda.library)
    cuda_device_close(&s->cuda);
}

static int run(session *s) {
  int status = open_device(s);
  if (status == TOOL_OK)
    status = allocate(s);
  if (status == TOOL_OK)
    status = fill(s);
  if (status == TOOL_OK)
    status = describe(s);
  const attnpress_info before = s->info;
  if (status == TOOL_OK)
    status = call_once(s, 0, &s->first_ms);
  if (status == TOOL_OK)
    status = check(s); /* before calls in place have gone over it again */
  if (status == TOOL_OK)
    status = describe(s); /* what is known of the kernel once it is loaded */
  if (status == TOOL_OK)
    status = time_calls(s);
  return status == TOOL_OK ? print_result(s, &before) : status;
}

static int run_words(int argc, char **argv) {
  session s = {.o = {.rows = 4096,
                     .columns = 4096,
                     .stride = NOT_GIVEN,
                     .repeat = NOT_GIVEN,
                     .seed = 1,
                     .dtype = ATTNPRESS_BF16,
                     .check = CHECK_SAMPLE,
                     .scale = 1.0f}};
  for (int i = 1; i < argc; ++i) {
    const int status = parse_option(&s.o, argc, argv, &i);
    if (status != TOOL_OK)
      return status;
  }
  if (s.o.stride == NOT_GIVEN)
    s.o.stride = s.o.columns > 0 ? s.o.columns : 1;
  if (s.o.stride < s.o.columns || (double)s.o.rows * (double)s.o.stride > 1e15)
    return tool_usage("run softmax",
                      "--stride is %" PRId64 "; it must be %" PRId64
                      " or more, and tensors at most 10^15 elements",
                      s.o.stride, s.o.columns);
  s.tensors = s.o.backward ? 3 : 2;
  const int status = run(&s);
  close_session(&s);
  return status;
}

const tool_command ap_tool_run_softmax = {
    .name = "run softmax",
    .summary = "softmax over the rows of a matrix",
    .usage = "--rows R --columns C [OPTION]...",
    .about = "Makes random inputs, runs softmax over the rows of a matrix or, with --backward, its "
             "gradient, times it, and checks the result against float64.",
    .options = {(const tool_opt[]){
                    {"--rows", "N", "rows (4096)"},
                    {"--columns", "N", "columns, up to 1048576 (4096)"},
                    {"--dtype", "fp16|bf16|fp32", "(bf16)"},
                    {"--backward", NULL, "dx = scale y (dy - sum(dy y)) of y and dy"},
                    {"--scale", "X", "of y = softmax(scale x) (1)"},
                    {"--stride", "N", "elements from row to row (as many as columns)"},
                    {"--in-place", NULL, "y over x, dx over dy"},
                    {NULL, NULL, NULL}},
                tool_session_options},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};
