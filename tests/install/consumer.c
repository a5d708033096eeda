/* A user's program: a few calls through the public header alone, with known answers, on the CPU. */
#include <attnpress/attnpress.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 1, SEQLEN = 33, HEADS = 2, DIM = 40, COUNT = BATCH * SEQLEN * HEADS * DIM };

/* Where every value row is the same, attention is that row, whatever Q and K are. */
static int forward_is_right(attnpress_handle *handle) {
  static float q[COUNT] __attribute__((aligned(16))), k[COUNT] __attribute__((aligned(16)));
  static float v[COUNT] __attribute__((aligned(16))), out[COUNT] __attribute__((aligned(16)));
  for (int i = 0; i < COUNT; ++i) {
    q[i] = sinf((float)i);
    k[i] = cosf((float)i);
    v[i] = (float)(i % (HEADS * DIM));
  }
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  args.q = attnpress_tensor_bshd(q, BATCH, SEQLEN, HEADS, DIM, ATTNPRESS_FP32);
  args.k = attnpress_tensor_bshd(k, BATCH, SEQLEN, HEADS, DIM, ATTNPRESS_FP32);
  args.v = attnpress_tensor_bshd(v, BATCH, SEQLEN, HEADS, DIM, ATTNPRESS_FP32);
  args.out = attnpress_tensor_bshd(out, BATCH, SEQLEN, HEADS, DIM, ATTNPRESS_FP32);
  args.mask = ATTNPRESS_CAUSAL;
  if (attnpress_forward(handle, &args, NULL) != ATTNPRESS_OK) {
    fprintf(stderr, "attnpress_forward: %s\n", attnpress_last_error());
    return 0;
  }
  for (int i = 0; i < COUNT; ++i) {
    if (!(fabsf(out[i] - v[i]) <= 1e-4f)) {
      fprintf(stderr, "out[%d] is %g, not %g\n", i, (double)out[i], (double)v[i]);
      return 0;
    }
  }
  return 1;
}

static int source_is_right(void) {
  const char *stem = "flash_fwd_hdim40_bf16_causal_sm80";
  char *source = NULL;
  if (attnpress_render_source(stem, NULL, &source) != ATTNPRESS_OK) {
    fprintf(stderr, "attnpress_render_source: %s\n", attnpress_last_error());
    return 0;
  }
  const int found = strstr(source, stem) != NULL;
  attnpress_free_source(source);
  if (!found)
    fprintf(stderr, "the source of %s does not name it\n", stem);
  return found;
}

int main(void) {
  if (attnpress_version() != ATTNPRESS_VERSION) {
    fprintf(stderr, "header and library differ\n");
    return EXIT_FAILURE;
  }
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_CPU;
  attnpress_handle *handle = NULL;
  if (attnpress_create(&handle, &options) != ATTNPRESS_OK) {
    fprintf(stderr, "attnpress_create: %s\n", attnpress_last_error());
    return EXIT_FAILURE;
  }
  const int right = forward_is_right(handle) && source_is_right();
  attnpress_destroy(handle);
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
