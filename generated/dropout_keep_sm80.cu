// dropout_keep_sm80
//
// Writes dropout's decisions, by the code that the forward kernels drop with: a byte of 1 for each
// probability that is kept, of 0 for each that is dropped. A warp has 16 rows and BLOCK_N keys of
// one head, in the layout of the scores.
//
// Pressed from templates/dropout/dropout_keep.cu.j2 with tile w4n64 by
//   python -m generator --family dropout

#include "attnpress/args/dropout.h"
#include "attnpress/device/dropout.cuh"

constexpr int WARPS = 4;
constexpr int BLOCK_M = 16 * WARPS; // rows of a thread block
constexpr int BLOCK_N = 64; // keys of a thread block
constexpr int TILES = BLOCK_N / 8; // of 8 keys

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    dropout_keep_sm80(const __grid_constant__ attnpress_dropout_keep_args args) {
  const int lane = threadIdx.x % 32;
  int block = blockIdx.x;
  const int key_begin = block % args.key_blocks * BLOCK_N;
  block /= args.key_blocks;
  const int row_begin = block % args.row_blocks * BLOCK_M + threadIdx.x / 32 * 16;
  block /= args.row_blocks;
  const int head = block % args.heads_q;
  const int64_t batch = block / args.heads_q;

  float keep[TILES * 4];
#pragma unroll
  for (int i = 0; i < TILES * 4; ++i)
    keep[i] = 1.0f;
  const DropoutHead of_head = dropout_head(&args.score, batch * args.heads_q + head);
  drop_probabilities(keep, TILES, &of_head, row_begin, key_begin, lane,
                     args.score.dropout_threshold);

  unsigned char *to =
      (unsigned char *)args.keep + batch * args.batch_stride + head * args.head_stride;
#pragma unroll
  for (int i = 0; i < TILES * 4; ++i) {
    const int row = row_begin + i / 2 % 2 * 8 + lane / 4;
    const int key = key_begin + i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (row < args.seqlen_q && key < args.seqlen_k)
      to[row * args.row_stride + key * args.key_stride] = keep[i] != 0.0f;
  }
}
