// outer_fwd_bf16_sm80
//
// c[n, i, j] = x[n, i] y[n, j], bf16, fp32 inside. 2^column_shift threads of a block share a row, a
// vector of 16 bytes each; the block has ROWS rows of each such group.
//
// Pressed from templates/outer/outer_fwd.cu.j2 with tile w8r8 by
//   python -m generator --family outer --pass fwd --dtype bf16

#include "attnpress/args/outer.h"
#include "attnpress/device/outer.cuh"
#include "attnpress/device/ptx_griddepcontrol.cuh"
#include "attnpress/device/row_norm.cuh"
#include "attnpress/device/row_vector.cuh"

constexpr int SIZE = 2; // bytes of an element
constexpr int THREADS = 256;
constexpr int ROWS = 8;     // of a thread
constexpr int ELEMENTS = 16 / SIZE; // of a vector

extern "C" __global__ void __launch_bounds__(THREADS)
    outer_fwd_bf16_sm80(const __grid_constant__ attnpress_outer_fwd_args args) {
  // All memory is touched after what ran before has ended; what comes next may begin to wait too.
  griddepcontrol_wait();
  griddepcontrol_launch_dependents();
  // A read among writes costs more than its bytes: what the thread blocks after the next AHEAD read
  // comes at once, and the first ones also bring what those before them do.
  const int64_t each = (int64_t)args.column_blocks * args.row_blocks; // thread blocks of an entry
  const int64_t part = blockIdx.x % AHEAD, window = blockIdx.x - part;
  if (part < BRINGERS)
    prefetch_entries(&args, SIZE, THREADS, window == 0 ? 0 : (window + AHEAD) / each,
                     (window + 2 * AHEAD + each - 1) / each, (int)part);
  const int column_threads = 1 << args.column_shift;
  const int groups = THREADS >> args.column_shift;
  const int beside = blockIdx.x % args.column_blocks;
  const int below = blockIdx.x / args.column_blocks % args.row_blocks;
  const int64_t batch = blockIdx.x / args.column_blocks / args.row_blocks;
  const int index = beside * column_threads + (threadIdx.x & (column_threads - 1)); // of vectors
  const int first = below * groups * ROWS + (threadIdx.x >> args.column_shift);

  const unsigned char *x = (const unsigned char *)args.x + batch * args.x_stride * SIZE;
  uint4 vector;
  float y[ELEMENTS];
  load_columns((const unsigned char *)args.y + batch * args.y_stride * SIZE, SIZE, args.columns,
               index, 0, 1, &vector);
  widen_vector_bf16(vector, y);
  unsigned char *c = (unsigned char *)args.c + batch * args.c_batch_stride * SIZE;
  float factor[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = first + r * groups;
    factor[r] = 0.0f;
    if (row < args.rows)
      factor[r] = widen_element_bf16(load_element(x, SIZE, row));
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = first + r * groups;
    float product[ELEMENTS];
#pragma unroll
    for (int j = 0; j < ELEMENTS; ++j)
      product[j] = factor[r] * y[j];
    stream_columns(c + row * args.c_row_stride * SIZE, SIZE, row < args.rows ? args.columns : 0,
                   index, narrow_vector_bf16(product));
  }
}
