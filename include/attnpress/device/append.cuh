// New tokens of sequences: which there are, and their places in a cache. Whatever the index arrays
// hold, a place that exists lies in the cache.
#pragma once

#include "attnpress/args/append.h"
#include "attnpress/device/pipeline.cuh"
#include "attnpress/device/ptx_atom.cuh"
#include "attnpress/device/ptx_prefetch.cuh"

// A token, and its place among the tensors of new rows.
struct AppendToken {
  bool exists;
  int number, sequence;
  int index; // in its sequence
  int entry, row;
};

// An entry of the cache (a sequence's, or a page), and a row of it.
struct AppendPlace {
  bool exists;
  int entry, row;
};

// The last sequence that begins at `token` or before it, which is the one that has it, whatever
// sequences without tokens begin there too. Some sequence, where cu_seqlens does not ascend.
__device__ __forceinline__ int find_sequence(const int32_t *cu_seqlens, int batch, int token) {
  int low = 0, high = batch;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    if (cu_seqlens[middle] <= token)
      low = middle;
    else
      high = middle;
  }
  return low;
}

__device__ __forceinline__ AppendToken append_token(int number,
                                                    const attnpress_append_write_args *args) {
  AppendToken token = {true, number, 0, 0, 0, number};
  if (args->cu_seqlens == nullptr) {
    token.sequence = token.entry = divide(number, &args->new_tokens);
    token.index = token.row = number - token.sequence * args->new_tokens.value;
    return token;
  }
  token.exists = false; // tokens before the first sequence and behind the last
  if (args->batch > 0) {
    token.sequence = find_sequence(args->cu_seqlens, args->batch, number);
    const int begin = args->cu_seqlens[token.sequence];
    token.index = number - begin;
    token.exists = begin >= 0 && begin <= number && number < args->cu_seqlens[token.sequence + 1];
  }
  return token;
}

// Behind the tokens that the cache has of the sequence.
__device__ __forceinline__ int64_t append_row(AppendToken token,
                                              const attnpress_append_write_args *args) {
  const int64_t used = args->seqused == nullptr ? 0 : args->seqused[token.sequence];
  return used + token.index;
}

// Of cos and sin, for a row of q, K or V.
__device__ __forceinline__ int64_t append_position(AppendToken token, int which,
                                                   const attnpress_append_write_args *args) {
  if (args->positions != nullptr)
    return args->positions[token.number];
  if (which == ATTNPRESS_APPEND_Q && args->q_at_first)
    token.index = 0;
  if (args->first_positions != nullptr)
    return (int64_t)args->first_positions[token.sequence] + token.index;
  return append_row(token, args);
}

// The entry of a row of all entries, 0 or more. Divisions of 64 bits take their time: almost every
// row is a number of 31.
__device__ __forceinline__ int64_t entry_of(int64_t row, int entry_rows) {
  return row >> 31 == 0 ? (int)row / entry_rows : row / entry_rows;
}

// The number of a sequence's page, of its own; -1 where the table has none.
__device__ __forceinline__ int append_page(int sequence, int64_t page, int which,
                                           const attnpress_append_write_args *args) {
  const int32_t *table = which == ATTNPRESS_APPEND_V ? args->page_table_v : args->page_table;
  int64_t first = sequence * args->page_table_stride;
  int pages = args->pages;
  if (args->page_indptr != nullptr) {
    const int begin = args->page_indptr[sequence], end = args->page_indptr[sequence + 1];
    first = begin;
    pages = begin >= 0 && end >= begin && end <= args->pages ? end - begin : 0;
  } else if (args->kv_batch_idx != nullptr) {
    const int row = args->kv_batch_idx[sequence];
    first = row * args->page_table_stride;
    pages = row >= 0 && row < args->table_rows ? pages : 0;
  }
  return page >= 0 && page < pages ? table[first + page] : -1;
}

// Of K or V of a token that exists.
__device__ __forceinline__ AppendPlace append_place(AppendToken token, int which,
                                                    const attnpress_append_write_args *args) {
  int64_t entry = token.sequence, row;
  if (args->slots != nullptr) {
    row = args->slots[token.number];
    entry = row < 0 ? -1 : entry_of(row, args->entry_rows);
    row -= entry * args->entry_rows;
  } else {
    row = append_row(token, args);
    if (args->page_table != nullptr) {
      const int64_t page = row < 0 ? -1 : entry_of(row, args->entry_rows);
      entry = append_page(token.sequence, page, which, args);
      row -= page * args->entry_rows;
    } else if (args->kv_batch_idx != nullptr) {
      entry = args->kv_batch_idx[token.sequence];
    }
  }
  const bool exists = entry >= 0 && entry < args->entries && row >= 0 && row < args->entry_rows;
  const AppendPlace place = {exists, (int)entry, (int)row};
  return place;
}

// What stands in memory for a row whose place is known by its sequence's length alone, by a guess of
// that: rows of cos and sin, or the entry of its page in the table; nullptr where there is none.
struct AppendHints {
  const unsigned char *first, *second;
};

// `size`: bytes of an element of cos and sin.
__device__ __forceinline__ AppendHints guess_hints(int number, int which, int size,
                                                   const attnpress_append_write_args *args) {
  AppendHints hints = {nullptr, nullptr};
  if (args->cu_seqlens != nullptr || args->seqused == nullptr)
    return hints;
  const AppendToken token = append_token(number, args);
  const int used = (int)load_relaxed((const uint32_t *)args->seqused + token.sequence);
  const int64_t row = (int64_t)used + token.index;
  if (which == ATTNPRESS_APPEND_Q) {
    if (row >= 0 && row < args->num_positions) {
      const int64_t offset = row * args->rotary_stride * size;
      hints = {(const unsigned char *)args->cos + offset,
               (const unsigned char *)args->sin + offset};
    }
  } else if (args->page_table != nullptr && args->page_indptr == nullptr) {
    const int64_t page = row < 0 ? -1 : entry_of(row, args->entry_rows);
    const int32_t *table = which == ATTNPRESS_APPEND_V ? args->page_table_v : args->page_table;
    if (page >= 0 && page < args->pages)
      hints.first =
          (const unsigned char *)(table + token.sequence * args->page_table_stride + page);
  }
  return hints;
}

__device__ __forceinline__ void follow_hints(AppendHints hints) {
  if (hints.first != nullptr)
    prefetch_l2(hints.first);
  if (hints.second != nullptr)
    prefetch_l2(hints.second);
}
