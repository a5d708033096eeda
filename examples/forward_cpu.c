#include <attnpress/attnpress.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 1, SEQLEN = 128, HEADS = 8, KV_HEADS = 2, HEAD_DIM = 72 };

static float *random_floats(size_t count) {
  float *data = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
  for (size_t i = 0; data != NULL && i < count; ++i)
    data[i] = (float)rand() / (float)RAND_MAX - 0.5f;
  return data;
}

int main(void) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  options.backend = ATTNPRESS_CPU; /* ATTNPRESS_CUDA: the pointers below are device pointers */
  attnpress_handle *handle;
  if (attnpress_create(&handle, &options) != ATTNPRESS_OK) {
    fprintf(stderr, "%s\n", attnpress_last_error());
    return 1;
  }

  /* (batch, seqlen, heads, head_dim), contiguous; eight query heads share two key heads */
  float *q = random_floats(BATCH * SEQLEN * HEADS * HEAD_DIM);
  float *k = random_floats(BATCH * SEQLEN * KV_HEADS * HEAD_DIM);
  float *v = random_floats(BATCH * SEQLEN * KV_HEADS * HEAD_DIM);
  float *out = random_floats(BATCH * SEQLEN * HEADS * HEAD_DIM);
  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  args.q = attnpress_tensor_bshd(q, BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_FP32);
  args.k = attnpress_tensor_bshd(k, BATCH, SEQLEN, KV_HEADS, HEAD_DIM, ATTNPRESS_FP32);
  args.v = attnpress_tensor_bshd(v, BATCH, SEQLEN, KV_HEADS, HEAD_DIM, ATTNPRESS_FP32);
  args.out = attnpress_tensor_bshd(out, BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_FP32);
  args.mask = ATTNPRESS_CAUSAL;

  attnpress_status status = attnpress_forward(handle, &args, NULL);
  if (status != ATTNPRESS_OK)
    fprintf(stderr, "%s\n", attnpress_last_error());
  else
    printf("out[0] = %g; a row that sees one key is that key's value: %g\n", out[0], v[0]);

  free(q), free(k), free(v), free(out);
  attnpress_destroy(handle);
  return status == ATTNPRESS_OK ? 0 : 1;
}
