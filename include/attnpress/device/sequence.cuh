// Sequences of their own lengths: where the rows and the keys of one lie, from the arrays of a call.
//
// The arrays are written by whoever calls, on the device, and nobody has seen them: a length or an
// index that does not fit its tensor makes the sequence empty, and a page's number is clamped, so
// that nothing outside of the tensors is read or written whatever they say.
#pragma once

#include "attnpress/args/ragged.h"
#include "attnpress/device/ptx_math.cuh"
#include "attnpress/device/softmax.cuh"

// Rows of one tensor: `begin` to begin + count - 1.
struct Rows {
  int begin, count;
};

// Entries b and b + 1 of prefix sums, within `rows` rows; else none.
__device__ __forceinline__ Rows rows_between(const int32_t *sums, int64_t b, int rows) {
  const int begin = sums[b], end = sums[b + 1];
  if (begin < 0 || end < begin || end > rows)
    return {0, 0};
  return {begin, end - begin};
}

// The first `used` of these rows, and `more` behind them; none where there are not as many.
__device__ __forceinline__ Rows rows_used(Rows rows, int used, int more) {
  const bool fits = 0 <= used && 0 <= more && used <= rows.count - more;
  return {rows.begin, fits ? used + more : 0};
}

// These rows, at most `bound`, or none.
__device__ __forceinline__ Rows at_most(Rows rows, int bound) {
  return {rows.begin, rows.count <= bound ? rows.count : 0};
}

// The rows of q of sequence b, of its batch; at most `bound`, or none.
__device__ __forceinline__ Rows query_rows(const attnpress_ragged_args *args, int64_t b,
                                           int bound) {
  Rows rows = {0, args->rows_q};
  if (args->cu_seqlens_q != nullptr)
    rows = rows_between(args->cu_seqlens_q, b, args->rows_q);
  if (args->seqused_q != nullptr)
    rows = rows_used(rows, args->seqused_q[b], 0);
  return at_most(rows, bound);
}

// The batch of k, or the row of the page table, of sequence b; -1 where there is no such.
__device__ __forceinline__ int key_batch(const attnpress_ragged_args *args, int64_t b) {
  if (args->kv_batch_idx != nullptr) {
    const int batch = args->kv_batch_idx[b];
    return 0 <= batch && batch < args->kv_batches ? batch : -1;
  }
  return args->cu_seqlens_k != nullptr && args->page_table == nullptr ? 0 : (int)b;
}

// Keys that were appended to sequence b; -1 where the sums do not ascend.
__device__ __forceinline__ int keys_appended(const attnpress_ragged_args *args, int64_t b) {
  if (args->cu_seqlens_k_new == nullptr)
    return args->seqlen_k_new;
  const int begin = args->cu_seqlens_k_new[b], end = args->cu_seqlens_k_new[b + 1];
  return 0 <= begin && begin <= end ? end - begin : -1;
}

// The rows of k and v of sequence b, of its batch, or of its pages one after the other.
__device__ __forceinline__ Rows key_rows(const attnpress_ragged_args *args, int64_t b) {
  Rows rows = {0, args->rows_k};
  if (args->page_indptr != nullptr)
    rows.count =
        rows_between(args->page_indptr, b, args->table_pages).count * args->page_size.value;
  if (args->cu_seqlens_k != nullptr) {
    const bool lengths_alone = args->page_table != nullptr;
    const int room = rows.count;
    rows = rows_between(args->cu_seqlens_k, b, lengths_alone ? 0x7fffffff : room);
    if (lengths_alone)
      rows = {0, rows.count <= room ? rows.count : 0};
  }
  if (args->seqused_k != nullptr)
    rows = rows_used(rows, args->seqused_k[b], keys_appended(args, b));
  if (args->leftpad_k != nullptr) {
    const int pad = args->leftpad_k[b];
    const bool fits = 0 <= pad && pad <= rows.count;
    rows = {rows.begin + (fits ? pad : 0), fits ? rows.count - pad : 0};
  }
  return at_most(rows, args->most_keys);
}

// key_rows() of a sequence of which the length is known, and no more (has_key_count_alone()): `used`
// keys and what was appended.
__device__ __forceinline__ Rows keys_by_count(const attnpress_ragged_args *args, int used) {
  return at_most(rows_used({0, args->rows_k}, used, args->seqlen_k_new), args->most_keys);
}

// A block of a sequence's rows, or of its keys, in one head.
struct HeadBlock {
  int head, block;
};

// Unit `number` of a sequence, in the schedule's order of `heads` heads.
__device__ __forceinline__ HeadBlock find_head_block(const attnpress_sequence_units *of, int number,
                                                     int heads) {
  const int blocks = of->blocks, section_heads = of->section_heads;
  const int first_head = number / (section_heads * blocks) * section_heads;
  const int of_section = number - first_head * blocks;
  const int there = min(section_heads, heads - first_head);
  const int block = of_section / there;
  return {first_head + of_section - block * there, block};
}

// Offset of a sequence's first row in lse, in head 0; `queries`: its rows.
__device__ __forceinline__ int64_t lse_of_sequence(const attnpress_ragged_args *args, Rows queries,
                                                   int64_t b, int64_t batch_stride) {
  return args->lse_packed ? queries.begin * args->lse_row_stride : b * batch_stride;
}

// Where the rows of one sequence lie in q, and its keys in k and v or in its pages, whose batch is
// k_batch, -1 where there is no such.
struct SequenceRows {
  Rows queries, keys;
  int k_batch;
};

__device__ __forceinline__ SequenceRows rows_of_sequence(const attnpress_fwd_args *fwd,
                                                         const attnpress_ragged_args *ragged,
                                                         int64_t b) {
  SequenceRows rows;
  rows.queries = query_rows(ragged, b, fwd->seqlen_q);
  rows.k_batch = key_batch(ragged, b);
  rows.keys = rows.k_batch < 0 ? Rows{0, 0} : key_rows(ragged, b);
  return rows;
}

// Whether a sequence's length is one number, seqused_k, and all else the same of all sequences.
__device__ __forceinline__ bool has_key_count_alone(const attnpress_ragged_args *args) {
  return args->seqused_k != nullptr && args->cu_seqlens_q == nullptr &&
         args->seqused_q == nullptr && args->cu_seqlens_k == nullptr &&
         args->leftpad_k == nullptr && args->kv_batch_idx == nullptr &&
         args->cu_seqlens_k_new == nullptr && args->page_indptr == nullptr;
}

// rows_of_sequence() where that is so, and the length is `used`.
__device__ __forceinline__ SequenceRows rows_of_key_count(const attnpress_fwd_args *fwd,
                                                          const attnpress_ragged_args *ragged,
                                                          int64_t b, int used) {
  const bool fits = ragged->rows_q <= fwd->seqlen_q;
  SequenceRows rows;
  rows.queries = {0, fits ? ragged->rows_q : 0};
  rows.k_batch = (int)b;
  rows.keys = keys_by_count(ragged, used);
  return rows;
}

// The arguments of sequence b alone: lengths and addresses are its own, and batch strides are 0. The
// rows of a split's output remain those of the batch.
__device__ __forceinline__ attnpress_fwd_args args_of_rows(const attnpress_fwd_ragged_args *batch,
                                                           int64_t b, const SequenceRows *rows) {
  const attnpress_ragged_args *ragged = &batch->ragged;
  attnpress_fwd_args args = batch->fwd;
  const Rows queries = rows->queries, keys = rows->keys;
  const int k_batch = rows->k_batch;
  const int64_t q_batch = ragged->cu_seqlens_q != nullptr ? 0 : b;
  args.seqlen_q = queries.count;
  args.seqlen_k = keys.count;
  args.q = (const uint16_t *)args.q + q_batch * args.q_batch_stride +
           queries.begin * args.q_row_stride;
  args.out =
      (uint16_t *)args.out + q_batch * args.out_batch_stride + queries.begin * args.out_row_stride;
  if (args.lse != nullptr)
    args.lse += lse_of_sequence(ragged, queries, b, args.lse_batch_stride);
  if (ragged->page_table == nullptr) {
    const int64_t from = max(k_batch, 0);
    args.k = (const uint16_t *)args.k + from * args.k_batch_stride + keys.begin * args.k_row_stride;
    args.v = (const uint16_t *)args.v + from * args.v_batch_stride + keys.begin * args.v_row_stride;
    args.k_batch_stride = args.v_batch_stride = 0;
  }
  args.q_batch_stride = args.out_batch_stride = args.lse_batch_stride = 0;
  args.score.window_center = ragged->window_top_left ? 0 : args.seqlen_k - args.seqlen_q;
  return args;
}

__device__ __forceinline__ attnpress_fwd_args
args_of_sequence(const attnpress_fwd_ragged_args *batch, int64_t b) {
  const SequenceRows rows = rows_of_sequence(&batch->fwd, &batch->ragged, b);
  return args_of_rows(batch, b, &rows);
}

// What is stored for a row's natural lse.
__device__ __forceinline__ float stored_lse(const attnpress_ragged_args *args, float lse) {
  if (args->lse_empty_pos_inf && lse == -INF)
    return INF;
  return args->lse_log2 ? lse * LOG2_E : lse;
}

// Stores a row's lse; `args`: the sequence's.
__device__ __forceinline__ void store_lse(const attnpress_fwd_ragged_args *batch,
                                          const attnpress_fwd_args *args, int head, int position,
                                          float lse) {
  args->lse[head * args->lse_head_stride + position * batch->ragged.lse_row_stride] =
      stored_lse(&batch->ragged, lse);
}

// The keys of a sequence that lie in pages.
struct Pages {
  const int32_t *table; // the sequence's row, or entries
  int first;            // row of its key 0, over its pages one after the other
  int last_key;         // 0 or more
};

// The entry of the first page of sequence b, whose row of the table is `row`.
__device__ __forceinline__ int64_t first_page(const attnpress_ragged_args *args, int64_t b,
                                              int row) {
  return args->page_indptr != nullptr ? rows_between(args->page_indptr, b, args->table_pages).begin
                                      : row * args->page_table_stride;
}

// `rows`: the sequence's, of which seqlen_k keys are seen.
__device__ __forceinline__ Pages pages_of_rows(const attnpress_ragged_args *args, int64_t b,
                                               const SequenceRows *rows, int seqlen_k) {
  const int64_t first = first_page(args, b, max(rows->k_batch, 0));
  return {args->page_table + first, rows->keys.begin, max(seqlen_k - 1, 0)};
}

__device__ __forceinline__ Pages pages_of_sequence(const attnpress_ragged_args *args, int64_t b,
                                                   int seqlen_k) {
  const int64_t first = first_page(args, b, max(key_batch(args, b), 0));
  return {args->page_table + first, key_rows(args, b).begin, max(seqlen_k - 1, 0)};
}

// A row of K or V, by its page's number.
struct PageRow {
  int page, row;
};

// Where a key lies among the sequence's pages. Keys past the last one are that one: somebody may ask
// for the row of a key that is then not read.
__device__ __forceinline__ PageRow place_of_key(const Pages *pages,
                                                const attnpress_ragged_args *args, int key) {
  const int row = pages->first + min(key, pages->last_key);
  const attnpress_divisor *size = &args->page_size;
  const int page = (int)((uint64_t)row * size->multiplier >> size->shift);
  return {page, row - page * size->value};
}

// A number of the table's that is a page's in any case.
__device__ __forceinline__ int clamped_page(const attnpress_ragged_args *args, int number) {
  return min(max(number, 0), args->num_pages - 1);
}

// Where a key lies, by the table that lies `table` entries behind K's.
__device__ __forceinline__ PageRow page_of_key(const Pages *pages,
                                               const attnpress_ragged_args *args, int key,
                                               int64_t table) {
  const PageRow at = place_of_key(pages, args, key);
  return {clamped_page(args, pages->table[table + at.page]), at.row};
}

// Offset of that row, by the strides of pages and rows.
__device__ __forceinline__ int64_t page_row(const Pages *pages, const attnpress_ragged_args *args,
                                            int key, int64_t table, int64_t page_stride,
                                            int64_t row_stride) {
  const PageRow at = page_of_key(pages, args, key, table);
  return at.page * page_stride + at.row * row_stride;
}
