/* Which keys a query sees, on the host; include/attnpress/device/score.cuh is its twin. */
#pragma once
#include "attnpress/attnpress.h"

/** A call's mask, in full. */
typedef struct ap_mask {
  int32_t kind; /* ATTNPRESS_FULL, _CAUSAL or _WINDOW */
  int64_t seqlen_q, seqlen_k;
  /* Only of a window: */
  int64_t left, right; /* keys before and behind; INT32_MAX: all */
  int64_t chunk;       /* keys of a chunk; 0: no chunks */
  int64_t center;      /* the key that the query at position 0 stands at */
} ap_mask;

/** The keys begin to end - 1; none where end <= begin. */
typedef struct ap_keys {
  int64_t begin, end;
} ap_keys;

static inline int64_t ap_window_side(int64_t side) {
  return side < 0 || side > INT32_MAX ? INT32_MAX : side;
}

/** Of a checked call. */
static inline ap_mask ap_mask_of(const attnpress_forward_args *args) {
  ap_mask m = {.kind = args->mask, .seqlen_q = args->q.shape[1], .seqlen_k = args->k.shape[1]};
  if (args->mask == ATTNPRESS_WINDOW) {
    m.left = ap_window_side(args->window->left);
    m.right = ap_window_side(args->window->right);
    m.chunk = args->window->chunk > INT32_MAX ? INT32_MAX : args->window->chunk;
    m.center = args->window->top_left ? 0 : m.seqlen_k - m.seqlen_q;
  }
  return m;
}

/** Of two positions, neither bound of the later one comes before that of the other. */
static inline ap_keys ap_keys_of(const ap_mask *m, int64_t position) {
  if (m->kind == ATTNPRESS_FULL)
    return (ap_keys){0, m->seqlen_k};
  if (m->kind == ATTNPRESS_CAUSAL) {
    const int64_t end = position + 1 + m->seqlen_k - m->seqlen_q;
    return (ap_keys){0, end < 0 ? 0 : end < m->seqlen_k ? end : m->seqlen_k};
  }
  const int64_t center = position + m->center;
  ap_keys keys = {center - m->left, center + 1 + m->right};
  if (m->chunk > 0) {
    const int64_t begin = center < 0 ? 0 : center - center % m->chunk;
    const int64_t end = center < 0 ? 0 : begin + m->chunk;
    keys.begin = keys.begin > begin ? keys.begin : begin;
    keys.end = keys.end < end ? keys.end : end;
  }
  keys.begin = keys.begin < 0 ? 0 : keys.begin > m->seqlen_k ? m->seqlen_k : keys.begin;
  keys.end = keys.end < 0 ? 0 : keys.end > m->seqlen_k ? m->seqlen_k : keys.end;
  return keys;
}

/** The queries begin to end - 1 that see a key which is there; none where end <= begin. Of two keys,
 * neither bound of the later one comes before that of the other. */
static inline ap_keys ap_queries_of(const ap_mask *m, int64_t key) {
  ap_keys rows = {0, m->seqlen_q};
  if (m->kind == ATTNPRESS_CAUSAL)
    rows.begin = key - m->seqlen_k + m->seqlen_q;
  if (m->kind == ATTNPRESS_WINDOW) {
    rows = (ap_keys){key - m->right, key + m->left + 1};
    if (m->chunk > 0) {
      const int64_t begin = key - key % m->chunk, end = begin + m->chunk;
      rows.begin = rows.begin > begin ? rows.begin : begin;
      rows.end = rows.end < end ? rows.end : end;
    }
    rows.begin -= m->center;
    rows.end -= m->center;
  }
  rows.begin = rows.begin < 0 ? 0 : rows.begin;
  rows.end = rows.end < 0 ? 0 : rows.end > m->seqlen_q ? m->seqlen_q : rows.end;
  return rows;
}
