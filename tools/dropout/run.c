/* attnpress run dropout: the mask of what dropout keeps, through the public API; every byte is
 * compared with the host's decision. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cuda_device.h"
#include "../session.h"
#include "../tool.h"
#include "attention/dropout.h"

typedef struct run_options {
  int64_t batch, heads, seqlen_q, seqlen_k, seed, offset;
  float probability;
  int on_cpu, on_cuda; /* neither: a GPU where there is one */
} run_options;

static int parse_option(run_options *o, int argc, char **argv, int *i) {
  const struct {
    const char *name;
    int64_t *value, least, most;
  } numbers[] = {
      {"--batch", &o->batch, 1, INT32_MAX},       {"--heads", &o->heads, 1, INT32_MAX},
      {"--seqlen-q", &o->seqlen_q, 1, INT32_MAX}, {"--seqlen-k", &o->seqlen_k, 1, INT32_MAX},
      {"--seed", &o->seed, 0, INT64_MAX},         {"--offset", &o->offset, 0, INT64_MAX}};
  const char *value;
  for (size_t n = 0; n < sizeof numbers / sizeof *numbers; ++n)
    if ((value = tool_option(argc, argv, i, numbers[n].name)) != NULL)
      return tool_parse_number("run dropout", numbers[n].name, value, numbers[n].least,
                               numbers[n].most, numbers[n].value);
  if ((value = tool_option(argc, argv, i, "--probability")) != NULL) {
    char *end;
    o->probability = strtof(value, &end);
    return *value != '\0' && *end == '\0'
               ? TOOL_OK
               : tool_usage("run dropout", "--probability is \"%s\"; it must be a number", value);
  }
  if ((value = tool_option(argc, argv, i, "--device")) != NULL) {
    int device = TOOL_ANY_DEVICE;
    const int status = tool_parse_choice("run dropout", "--device", value, tool_device_names,
                                         TOOL_CPU, TOOL_DEVICES, &device);
    o->on_cpu = device == TOOL_CPU;
    o->on_cuda = device == TOOL_CUDA;
    return status;
  }
  return tool_usage("run dropout", "\"%s\" is not an option", argv[*i]);
}

/* The first byte that is not the host's; the number of bytes where there is none. */
static int64_t first_difference(const run_options *o, const attnpress_dropout *dropout,
                                const uint8_t *keep, int64_t *kept) {
  const ap_dropout expected = ap_dropout_of(dropout);
  int64_t at = 0;
  *kept = 0;
  for (int64_t head = 0; head < o->batch * o->heads; ++head)
    for (int64_t i = 0; i < o->seqlen_q; ++i)
      for (int64_t j = 0; j < o->seqlen_k; ++j, ++at) {
        if (keep[at] != ap_dropout_keeps(&expected, head, i, j))
          return at;
        *kept += keep[at];
      }
  return at;
}

static int report(const run_options *o, const attnpress_dropout *dropout, const uint8_t *keep,
                  int64_t bytes, const char *device, double ms) {
  int64_t kept;
  const int64_t at = first_difference(o, dropout, keep, &kept);
  printf("call      batch %" PRId64 ", %" PRId64 " heads, %" PRId64 " queries, %" PRId64
         " keys, probability %g\ndevice    %s\ntime      %.3f ms, the first call\n",
         o->batch, o->heads, o->seqlen_q, o->seqlen_k, (double)o->probability, device, ms);
  if (at == bytes) {
    printf("share     %.6f dropped\ncheck     held, over %" PRId64 " decisions\n",
           1.0 - (double)kept / (double)bytes, bytes);
    return TOOL_OK;
  }
  printf("check     DID NOT HOLD: decision %" PRId64 " is %d\n", at, (int)keep[at]);
  return TOOL_FAILED;
}

static int cuda_failed(const cuda_device *d, CUresult result) {
  fprintf(stderr, "attnpress run dropout: %s\n", cuda_device_error(d, result));
  return TOOL_FAILED;
}

/* The call, and the mask on the host. */
static int call(attnpress_dropout_mask_args *args, cuda_device *d, attnpress_handle *handle,
                uint8_t *keep, int64_t bytes, double *ms) {
  CUdeviceptr buffer = 0;
  CUresult result = CUDA_SUCCESS;
  if (d != NULL && (result = d->mem_alloc(&buffer, (size_t)bytes)) != CUDA_SUCCESS)
    return cuda_failed(d, result);
  args->keep = d != NULL ? (uint8_t *)(uintptr_t)buffer : keep;
  const double begin = tool_now_ms();
  const attnpress_status status = attnpress_dropout_mask(handle, args, NULL);
  if (status == ATTNPRESS_OK && d != NULL)
    result = d->ctx_synchronize();
  *ms = tool_now_ms() - begin;
  if (status == ATTNPRESS_OK && d != NULL && result == CUDA_SUCCESS)
    result = d->memcpy_dtoh(keep, buffer, (size_t)bytes);
  if (d != NULL)
    d->mem_free(buffer);
  if (status != ATTNPRESS_OK)
    return tool_fail("run dropout", status);
  return result == CUDA_SUCCESS ? TOOL_OK : cuda_failed(d, result);
}

static int run(const run_options *o) {
  char why[512];
  cuda_device cuda = {0};
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  attnpress_handle *handle = NULL;
  const int64_t bytes = o->batch * o->heads * o->seqlen_q * o->seqlen_k;
  const int on_cuda = !o->on_cpu && cuda_device_open(&cuda, 0, why, sizeof why) == 0;
  if (o->on_cuda && !on_cuda) {
    fprintf(stderr, "attnpress run dropout: no CUDA device: %s\n", why);
    return TOOL_FAILED;
  }
  options.backend = on_cuda ? ATTNPRESS_CUDA : ATTNPRESS_CPU;
  attnpress_dropout dropout = ATTNPRESS_DROPOUT_INIT;
  dropout.probability = o->probability;
  dropout.seed = (uint64_t)o->seed;
  dropout.offset = (uint64_t)o->offset;
  attnpress_dropout_mask_args args = ATTNPRESS_DROPOUT_MASK_ARGS_INIT;
  args.dropout = &dropout;
  memcpy(args.shape, (int64_t[]){o->batch, o->heads, o->seqlen_q, o->seqlen_k}, sizeof args.shape);
  uint8_t *keep = malloc((size_t)bytes);
  int status = TOOL_OK;
  double ms = 0.0;
  if (keep == NULL) {
    fprintf(stderr, "attnpress run dropout: %.1f GB of host memory could not be had\n",
            (double)bytes * 1e-9);
    status = TOOL_FAILED;
  } else {
    memset(keep, 0xff, (size_t)bytes);
    const attnpress_status made = attnpress_create(&handle, &options);
    status = made == ATTNPRESS_OK ? TOOL_OK : tool_fail("run dropout", made);
  }
  if (status == TOOL_OK)
    status = call(&args, on_cuda ? &cuda : NULL, handle, keep, bytes, &ms);
  if (status == TOOL_OK)
    status = report(o, &dropout, keep, bytes, on_cuda ? cuda.name : "CPU", ms);
  attnpress_destroy(handle);
  free(keep);
  if (on_cuda)
    cuda_device_close(&cuda);
  return status;
}

static int run_words(int argc, char **argv) {
  run_options o = {
      .batch = 1, .heads = 8, .seqlen_q = 1024, .seqlen_k = 1024, .seed = 1, .probability = 0.1f};
  for (int i = 1; i < argc; ++i) {
    const int status = parse_option(&o, argc, argv, &i);
    if (status != TOOL_OK)
      return status;
  }
  return run(&o);
}

const tool_command ap_tool_run_dropout = {
    .name = "run dropout",
    .summary = "the mask of what dropout keeps",
    .usage = "[OPTION]...",
    .about = "Writes which probabilities dropout keeps, and compares every byte with the host's "
             "decision.",
    .options = {(const tool_opt[]){
        {"--batch", "N", "batches (1)"},
        {"--heads", "N", "heads (8)"},
        {"--seqlen-q", "N", "queries (1024)"},
        {"--seqlen-k", "N", "keys (1024)"},
        {"--probability", "P", "of being dropped, 0 to less than 1 (0.1)"},
        {"--seed", "N", "(1)"},
        {"--offset", "N", "(0)"},
        {"--device", "cpu|cuda|emulated",
         "cuda where there is a GPU; emulated: a GPU's kernel on the CPU"},
        {NULL, NULL, NULL}}},
    .more = TOOL_RUN_STATUS,
    .run = run_words,
};
