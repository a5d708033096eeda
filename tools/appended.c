/* The call of attnpress_append() in `attnpress run --append`. */
#include "appended.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

/* (1, tokens, heads, columns), with the order of heads and rows of a tensor of attention. */
static attnpress_tensor tensor_of_new(const attnpress_tensor *like, int64_t tokens) {
  const int heads_outside = like->stride[1] < like->stride[2];
  return (heads_outside ? attnpress_tensor_bhsd : attnpress_tensor_bshd)(
      NULL, 1, tokens, like->shape[2], like->shape[3], like->dtype);
}

/* cu_seqlens_new and seqused_k; -1 where a sequence has fewer keys than are new. */
static int64_t fill_counts(appended *a, const attnpress_ragged *r) {
  int32_t *sums = a->arrays, *used = sums + r->batch + 1;
  sums[0] = 0;
  for (int64_t b = 0; b < r->batch; ++b) {
    used[b] = r->cu_seqlens_k[b + 1] - r->cu_seqlens_k[b] - (int32_t)a->tokens;
    sums[b + 1] = sums[b] + (int32_t)a->tokens;
    if (used[b] < 0)
      return b;
  }
  return -1;
}

static void fill_tables(float *cosine, float *sine, int64_t positions, int64_t half) {
  for (int64_t p = 0; p < positions; ++p)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = (double)p * pow(10000.0, -(double)i / (double)half);
      cosine[p * half + i] = (float)cos(angle);
      sine[p * half + i] = (float)sin(angle);
    }
}

/* Where keys are not in pages, new ones are in the last rows of their sequence. */
static void fill_slots(int64_t *slots, const appended *a, const attnpress_ragged *r) {
  for (int64_t b = 0; b < r->batch; ++b)
    for (int64_t i = 0; i < a->tokens; ++i)
      *slots++ = r->cu_seqlens_k[b + 1] - a->tokens + i;
}

/* The arrays' addresses, from where they begin. */
static void point_to_arrays(const appended *a, uintptr_t arrays, attnpress_append_args *args,
                            attnpress_rotary *rotary) {
  args->cu_seqlens_new = (const int32_t *)arrays;
  args->seqused_k = args->cu_seqlens_new + args->batch + 1;
  const uintptr_t cosine = arrays + a->arrays_bytes - a->slots_bytes - 2 * a->cos_bytes;
  if (a->rotary != APPENDED_UNROTATED) {
    rotary->cos = (const void *)cosine;
    rotary->sin = (const void *)(cosine + a->cos_bytes);
    args->rotary = rotary;
  }
  if (a->slots_bytes > 0)
    args->slot_mapping = (const int64_t *)(cosine + 2 * a->cos_bytes);
}

static void point_to_pages(attnpress_append_args *args, const attnpress_ragged *ragged) {
  args->page_table = ragged->page_table;
  args->page_table_v = ragged->page_table_v;
  args->page_indptr = ragged->page_indptr;
}

const char *appended_describe(appended *a, const attnpress_forward_args *forward, char *why,
                              size_t why_bytes) {
  const attnpress_ragged *r = forward->ragged;
  const int64_t tokens = r->batch * a->tokens, positions = r->max_seqlen_k;
  const int64_t hdim = forward->q.shape[3];
  const int64_t rotary_dim = a->rotary_dim != 0 ? a->rotary_dim : hdim;
  if (a->rotary != APPENDED_UNROTATED && forward->q.shape[1] != tokens)
    return "--rotary turns the queries of the new tokens: leave --seqlen-q out";
  if (a->rotary_dim % 2 != 0 || rotary_dim > hdim) {
    snprintf(why, why_bytes,
             "--rotary-dim is %lld; it must be a multiple of 2, at most --hdim, %lld",
             (long long)a->rotary_dim, (long long)hdim);
    return why;
  }
  if (tokens > INT32_MAX)
    return "--append: the new tokens add up to 2^31 or more";
  /* Each part begins at 8 bytes. */
  const size_t counts_bytes = (size_t)(2 * r->batch + 2) * sizeof(int32_t);
  a->cos_bytes = a->rotary == APPENDED_UNROTATED
                     ? 0
                     : (size_t)((positions * rotary_dim / 2 + 1) / 2 * 2) * sizeof(float);
  a->slots_bytes = r->page_table == NULL ? (size_t)tokens * sizeof(int64_t) : 0;
  a->arrays_bytes = counts_bytes + 2 * a->cos_bytes + a->slots_bytes;
  if ((a->arrays = malloc(a->arrays_bytes)) == NULL)
    return "host memory for --append could not be had";
  const int64_t few = fill_counts(a, r);
  if (few >= 0) {
    snprintf(why, why_bytes, "--append is %lld; sequence %lld of --lengths has only %d keys",
             (long long)a->tokens, (long long)few,
             (int)(r->cu_seqlens_k[few + 1] - r->cu_seqlens_k[few]));
    return why;
  }
  a->host = (attnpress_append_args)ATTNPRESS_APPEND_ARGS_INIT;
  a->host.batch = r->batch;
  a->host.k_new = tensor_of_new(&forward->k, tokens);
  a->host.v_new = tensor_of_new(&forward->v, tokens);
  a->host.k_cache = forward->k;
  a->host.v_cache = forward->v;
  a->host.max_pages = r->page_table_pages;
  point_to_pages(&a->host, r);
  a->host_rotary = (attnpress_rotary)ATTNPRESS_ROTARY_INIT;
  point_to_arrays(a, (uintptr_t)a->arrays, &a->host, &a->host_rotary);
  if (a->rotary != APPENDED_UNROTATED) {
    a->host.q = forward->q;
    a->host_rotary.num_positions = positions;
    a->host_rotary.rotary_dim = (int32_t)rotary_dim;
    a->host_rotary.dtype = ATTNPRESS_FP32;
    a->host_rotary.interleaved = a->rotary == APPENDED_INTERLEAVED;
    fill_tables((float *)(uintptr_t)a->host_rotary.cos, (float *)(uintptr_t)a->host_rotary.sin,
                positions, rotary_dim / 2);
  }
  if (a->slots_bytes > 0)
    fill_slots((int64_t *)(uintptr_t)a->host.slot_mapping, a, r);
  return NULL;
}

static attnpress_tensor *tensor_of(attnpress_append_args *args, int i) {
  attnpress_tensor *tensors[] = {&args->k_new, &args->v_new, &args->k_cache, &args->v_cache,
                                 &args->q};
  return tensors[i];
}

int appended_allocate(appended *a, const attnpress_forward_args *forward) {
  a->host.k_cache.data = forward->k.data;
  a->host.v_cache.data = forward->v.data;
  a->host.q.data = forward->q.data;
  a->before = a->host;
  for (int i = 0; i < APPENDED_TENSORS; ++i) {
    const attnpress_tensor *t = tensor_of(&a->host, i);
    if (t->dtype == 0) /* q, where nothing is rotated */
      continue;
    a->bytes[i] = (size_t)reference_span(t) * (size_t)reference_element_bytes(t->dtype);
    if ((a->own[i] = malloc(a->bytes[i] + 1)) == NULL)
      return -1;
    tensor_of(&a->before, i)->data = a->own[i];
    if (i <= APPENDED_V_NEW)
      tensor_of(&a->host, i)->data = a->own[i];
  }
  a->device = a->host;
  return 0;
}

void appended_fill(appended *a, uint64_t seed) {
  reference_fill_normal(&a->host.k_new, seed);
  reference_fill_normal(&a->host.v_new, seed + 1);
  for (int i = APPENDED_K; i < APPENDED_TENSORS; ++i)
    if (a->own[i] != NULL)
      memcpy(a->own[i], tensor_of(&a->host, i)->data, a->bytes[i]);
}

void appended_move(appended *a, uintptr_t arrays, const attnpress_ragged *ragged,
                   const uintptr_t tensors[APPENDED_TENSORS]) {
  a->device_rotary = a->host_rotary;
  point_to_pages(&a->device, ragged);
  point_to_arrays(a, arrays, &a->device, &a->device_rotary);
  for (int i = 0; i < APPENDED_TENSORS; ++i)
    if (a->own[i] != NULL)
      tensor_of(&a->device, i)->data = (void *)tensors[i];
}

int appended_check(appended *a) {
  append_check check = {.args = &a->host, .before = &a->before};
  if (append_check_open(&check) != 0)
    return -1;
  for (int64_t row = 0; row < append_check_rows(&check); ++row)
    append_check_row(&check, row, &a->error);
  append_check_close(&check);
  return 0;
}

void appended_free(appended *a) {
  for (int i = 0; i < APPENDED_TENSORS; ++i)
    free(a->own[i]);
  free(a->arrays);
}
