/* One query a sequence, with more heads a key head than the tile of a decode kernel has rows: which
 * kernels run it. Whatever is chosen, the heads of a key head are rows that see the same keys. */
#include "attention/choose_parts.h"
#include "attention/defaults.h"
#include "cuda/tensor_map.h"

/* Decode kernels read K and V once for each block of their rows, of which all after the first find
 * them in the L2 cache. So many bytes in all, at most, and a quarter above some columns: from there on
 * products over more rows are faster. */
#define BLOCKS_BYTES 40e6
enum { BLOCKS_COLUMNS = 128 };

/** 1 where a single query sees every key, and heads differ in what they are given alone. */
static int are_alike(const ap_problem *p) {
  return p->mask != ATTNPRESS_WINDOW && !p->alibi && !p->bias && !p->dropout && !p->mod_score &&
         !p->mod_mask;
}

int ap_has_many_heads(const ap_problem *p) {
  return p->sequences == AP_ATTENTION_SEQUENCES_DENSE && p->seqlen_q == 1 && !p->batch_invariant &&
         are_alike(p) && p->hdim <= AP_ATTENTION_SM90_HDIM_MAX &&
         p->hdim_v <= AP_ATTENTION_SM90_HDIM_MAX && ap_group_of(p) > AP_ATTENTION_DECODE_ROWS;
}

int32_t ap_choose_heads(const ap_problem *p) {
  if (!ap_has_many_heads(p))
    return AP_HEADS_AS_GIVEN;
  if (p->heads != AP_HEADS_CHOSEN)
    return p->heads;
  const double bytes = (double)p->batch * p->heads_kv * p->seqlen_k * (p->hdim + p->hdim_v) *
                       (double)sizeof(uint16_t);
  const double most = p->hdim_v > BLOCKS_COLUMNS ? BLOCKS_BYTES / 4 : BLOCKS_BYTES;
  if ((double)ceil_div(ap_group_of(p), AP_ATTENTION_DECODE_ROWS) * bytes <= most)
    return AP_HEADS_IN_BLOCKS;
  return p->head_rows ? AP_HEADS_AS_ROWS : AP_HEADS_AS_GIVEN;
}

int ap_head_rows_fit(const attnpress_forward_args *args) {
  enum { SEQLEN = 1, HEADS = 2 };
  const int64_t heads_kv = args->k.shape[HEADS];
  if (args->q.shape[SEQLEN] != 1 || heads_kv == 0 || args->sinks != NULL)
    return 0;
  const int64_t group = args->q.shape[HEADS] / heads_kv;
  int64_t batch_stride, head_stride;
  ap_lse_strides(args, &batch_stride, &head_stride);
  return group > AP_ATTENTION_WARPGROUP_ROWS && (args->lse == NULL || head_stride == 1) &&
         ap_view_stride_fits(heads_kv, args->q.stride[HEADS], group);
}

void ap_heads_to_rows(ap_problem *p) {
  p->seqlen_q = ap_group_of(p);
  p->heads_q = p->heads_kv;
  p->mask = ATTNPRESS_FULL;
}

static void to_rows(attnpress_tensor *t, int64_t group) {
  enum { SEQLEN = 1, HEADS = 2 };
  t->shape[SEQLEN] = group;
  t->shape[HEADS] /= group;
  t->stride[SEQLEN] = t->stride[HEADS];
  t->stride[HEADS] *= t->shape[HEADS] > 1 ? group : 1;
}

void ap_take_heads_as_rows(attnpress_forward_args *args, ap_problem *problem) {
  const int32_t group = ap_group_of(problem);
  ap_heads_to_rows(problem);
  to_rows(&args->q, group);
  to_rows(&args->out, group);
  args->mask = ATTNPRESS_FULL;
  if (args->lse_stride[0] != 0 || args->lse_stride[1] != 0)
    args->lse_stride[1] = group;
}
