/* `attnpress run --append`: the last keys of each sequence are new. attnpress_append() writes them to
 * their place, rotated with the queries, and attention reads them there. */
#pragma once
#include <stdint.h>

#include "append/reference.h"
#include "attnpress/append.h"
#include "attnpress/attnpress.h"

enum { APPENDED_UNROTATED, APPENDED_NEOX, APPENDED_INTERLEAVED };
/** Tensors: those of the new tokens, those of attention, and a copy of these as they were before. */
enum { APPENDED_K_NEW, APPENDED_V_NEW, APPENDED_K, APPENDED_V, APPENDED_Q, APPENDED_TENSORS };

typedef struct appended {
  int64_t tokens;     /* new ones of a sequence; 0: --append was not given */
  int64_t rotary_dim; /* columns that are rotated; 0: the head dim */
  int rotary;         /* APPENDED_UNROTATED ... */

  attnpress_append_args host, before, device; /* calls; of `before` q, k and v are the copies */
  attnpress_rotary host_rotary, device_rotary;
  void *own[APPENDED_TENSORS]; /* memory of the new tokens, and of the copies */
  size_t bytes[APPENDED_TENSORS];
  int32_t *arrays; /* cu_seqlens_new, seqused_k; then cos and sin; then slot_mapping */
  size_t cos_bytes, slots_bytes, arrays_bytes;
  append_error error;
} appended;

/** Everything but the tensors' memory, for the call of attention that reads the keys: NULL, or what
 * is wrong (in `why` where it has numbers). */
const char *appended_describe(appended *a, const attnpress_forward_args *forward, char *why,
                              size_t why_bytes);
/** 0, or -1 where memory runs out. `forward`: with its tensors' memory. */
int appended_allocate(appended *a, const attnpress_forward_args *forward);
/** Random new tokens; keeps q, k and v of the call as they are now. */
void appended_fill(appended *a, uint64_t seed);
/** The call in other memory: that of the arrays, of the lengths, and of the tensors in the order
 * above. */
void appended_move(appended *a, uintptr_t arrays, const attnpress_ragged *ragged,
                   const uintptr_t tensors[APPENDED_TENSORS]);
/** Holds q, k and v of the call, after it, against float64. 0, or -1 where memory runs out. */
int appended_check(appended *a);
void appended_free(appended *a);
