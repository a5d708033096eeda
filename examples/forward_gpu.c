#include <attnpress/attnpress.h>
#include <cuda_runtime_api.h>
#include <stdio.h>

enum { BATCH = 2, SEQLEN = 1024, HEADS = 16, HEAD_DIM = 128 };

int main(void) {
  const size_t bytes = sizeof(uint16_t) * BATCH * SEQLEN * HEADS * HEAD_DIM;
  void *q, *k, *v, *out, *workspace = NULL;
  cudaStream_t stream;
  if (cudaStreamCreate(&stream) || cudaMalloc(&q, bytes) || cudaMalloc(&k, bytes) ||
      cudaMalloc(&v, bytes) || cudaMalloc(&out, bytes))
    return 1;
  cudaMemsetAsync(q, 0, bytes, stream); /* your data */
  cudaMemsetAsync(k, 0, bytes, stream);
  cudaMemsetAsync(v, 0, bytes, stream);

  attnpress_handle *handle; /* one for the whole process: every thread, device and stream */
  if (attnpress_create(&handle, NULL) != ATTNPRESS_OK)
    return fprintf(stderr, "%s\n", attnpress_last_error()), 1;

  attnpress_forward_args args = ATTNPRESS_FORWARD_ARGS_INIT;
  args.q = attnpress_tensor_bshd(q, BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_BF16);
  args.k = attnpress_tensor_bshd(k, BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_BF16);
  args.v = attnpress_tensor_bshd(v, BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_BF16);
  args.out = attnpress_tensor_bshd(out, BATCH, SEQLEN, HEADS, HEAD_DIM, ATTNPRESS_BF16);

  /* Short queries over long keys are split into parts, which need memory; often this is 0. */
  attnpress_plan *plan;
  if (attnpress_plan_forward(handle, &args, NULL, &plan) != ATTNPRESS_OK ||
      attnpress_plan_workspace_bytes(plan, &args.workspace_bytes) != ATTNPRESS_OK)
    return fprintf(stderr, "%s\n", attnpress_last_error()), 1;
  attnpress_plan_destroy(plan);
  if (args.workspace_bytes > 0 && cudaMalloc(&workspace, args.workspace_bytes))
    return 1;
  args.workspace = workspace;

  if (attnpress_forward(handle, &args, stream) != ATTNPRESS_OK)
    return fprintf(stderr, "%s\n", attnpress_last_error()), 1;
  if (cudaStreamSynchronize(stream))
    return 1;
  puts("done");
  attnpress_destroy(handle);
  return 0;
}
