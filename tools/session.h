/* What the `attnpress run FAMILY` commands of families that work on plain buffers have in common:
 * options, a device, buffers on the host and on the device, a call that is planned, made, timed and
 * reported. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "cuda_device.h"
#include "options.h"

/* ---- Options --------------------------------------------------------------------------------- */

typedef struct tool_number {
  const char *name;
  int64_t *value, least, most;
} tool_number;

/** One of names[first] to names[count - 1]; the value is its place. */
typedef struct tool_choice {
  const char *name;
  const char *const *names;
  int first, count, *value;
} tool_choice;

typedef struct tool_flag {
  const char *name;
  int *value;
} tool_flag;

typedef struct tool_real {
  const char *name;
  float *value;
} tool_real;

/** A word as it stands; where it may be given often, `most` of them, in order. */
typedef struct tool_word {
  const char *name, **value;
  int most;
} tool_word;

/** Tables of options, each ended by one without a name. */
typedef struct tool_options {
  const tool_number *numbers;
  const tool_choice *choices;
  const tool_flag *flags;
  const tool_real *reals;
  const tool_word *words;
} tool_options;

extern const char *const tool_dtype_names[]; /* "any", "fp16", "bf16", "fp32": as ATTNPRESS_... */

/* ---- Devices, times, origins ----------------------------------------------------------------- */

/** Says which call of the driver failed, and how; TOOL_FAILED. */
int tool_cuda_failed(const char *command, const cuda_device *cuda, CUresult result,
                     const char *what);
/** Returns TOOL_FAILED from the caller where a driver call fails. */
#define TOOL_CUDA_TRY(command, device, call)                                                       \
  do {                                                                                             \
    const CUresult cuda_result = (device)->call;                                                   \
    if (cuda_result != CUDA_SUCCESS)                                                               \
      return tool_cuda_failed(command, device, cuda_result, #call);                                \
  } while (0)

/** The median of times, which are sorted. */
double tool_median(double *times, int64_t count);
/** Where a kernel came from, ATTNPRESS_ORIGIN_..., in words. */
const char *tool_origin(int32_t origin);

/* ---- A session ------------------------------------------------------------------------------- */

enum { TOOL_BUFFERS_MAX = 16, TOOL_CHECK_NONE = 0, TOOL_CHECK_SAMPLE = 1, TOOL_CHECK_FULL = 2 };

typedef struct tool_buffer {
  void *host, *kept; /* kept: NULL, or a copy of host */
  CUdeviceptr device;
  size_t bytes;
} tool_buffer;

typedef struct tool_session {
  const char *command; /* "run layernorm" */
  /* Options. */
  int device, check; /* TOOL_CHECK_... */
  int64_t repeat, threads;
  /* What they led to. */
  attnpress_handle *handle;
  int on_cuda, buffer_count;
  tool_buffer buffer[TOOL_BUFFERS_MAX];
  CUdeviceptr workspace;
  size_t workspace_bytes;
  cuda_device cuda;
  CUstream stream;
  CUevent start, end;
  attnpress_plan *plan;
  int launch_count;
  attnpress_info before, info; /* of the first launch: before the first call, and after it */
  double first_ms, run_ms;
} tool_session;

/** How a family plans and runs its call. args: its argument struct. */
typedef struct tool_call {
  void *args;
  attnpress_status (*plan)(attnpress_handle *handle, const void *args,
                           const attnpress_plan_options *options, attnpress_plan **plan);
  attnpress_status (*run)(attnpress_handle *handle, const void *args, void *stream);
  void (*set_workspace)(void *args, void *workspace, size_t bytes); /* NULL: it needs none */
} tool_call;

/** plan_<name>() and run_<name>() of a tool_call, by a family's own functions, whose structs of
 * arguments have types: attnpress_<function>() and attnpress_plan_<function>(). */
#define TOOL_CALL_FUNCTIONS(name, function)                                                        \
  static attnpress_status plan_##name(attnpress_handle *handle, const void *args,                  \
                                      const attnpress_plan_options *options,                       \
                                      attnpress_plan **plan) {                                     \
    return attnpress_plan_##function(handle, args, options, plan);                                 \
  }                                                                                                \
  static attnpress_status run_##name(attnpress_handle *handle, const void *args, void *stream) {   \
    return attnpress_##function(handle, args, stream);                                             \
  }
/** set_workspace() of one, by the type of its arguments. */
#define TOOL_SET_WORKSPACE(arguments)                                                              \
  static void set_workspace(void *args, void *workspace, size_t bytes) {                           \
    arguments *a = args;                                                                           \
    a->workspace = workspace;                                                                      \
    a->workspace_bytes = bytes;                                                                    \
  }

/** What the result was found to be. */
typedef struct tool_verdict {
  double ratio; /* of the error to what is allowed */
  int64_t elements;
  char worst[256]; /* the worst element, in words */
} tool_verdict;

/** The options that all of these commands have. */
extern const tool_opt tool_session_options[];
#define TOOL_RUN_STATUS                                                                            \
  "exit status: 0 the check held, 1 it did not or the run failed, 2 wrong arguments"

/** The session's own options and those of the tables. TOOL_OK, or TOOL_USAGE after it has said what
 * was wrong. Fills in the session's defaults. */
int tool_session_parse(tool_session *s, const char *command, const tool_options *options, int argc,
                       char **argv);
/** What was asked for, else a GPU that this version runs on, else the CPU. */
int tool_session_open(tool_session *s);
/** A buffer of host memory, filled with 0xff (NaN), and on a GPU one of device memory beside it.
 * *index: its place. */
int tool_session_add(tool_session *s, int64_t bytes, int *index);
/** The memory that a call is given: on the device, or on the host. NULL for index -1. */
void *tool_session_data(const tool_session *s, int index);
/** A buffer's host memory. NULL for index -1. */
void *tool_session_host(const tool_session *s, int index);
/** Copies a buffer's host memory as it is now, once: what a call writes over, for the check. The
 * copy is the session's. */
int tool_session_keep(tool_session *s, int index, void **copy);
/** Host memory goes to the device, and comes back. */
int tool_session_upload(tool_session *s);
int tool_session_download(tool_session *s);
/** Plans the call, gives it the workspace that it needs, makes it once and fetches the result. */
int tool_session_first(tool_session *s, const tool_call *call);
/** Repeats the call. */
int tool_session_time(tool_session *s, const tool_call *call);
/** `text`: the call; `bytes`: what it reads and writes. */
int tool_session_report(const tool_session *s, const char *text, double bytes,
                        const tool_verdict *verdict);
void tool_session_close(tool_session *s);

/** Calls `check` for `rows` rows, or some of them, as the session was asked to. */
void tool_session_check_rows(const tool_session *s, int64_t rows,
                             void (*check)(void *context, int64_t row), void *context);
