/* Which words of attention's structs are addresses. */
#include "attention/give.h"

#include "attnpress/args/score_mod.h"

static const ap_layout forward_layout = {
    .words = sizeof(attnpress_forward_args) / sizeof(uint64_t),
    .workspace = AP_WORD(attnpress_forward_args, workspace),
    .num_addresses = 5,
    .address = {AP_WORD(attnpress_forward_args, q.data), AP_WORD(attnpress_forward_args, k.data),
                AP_WORD(attnpress_forward_args, v.data), AP_WORD(attnpress_forward_args, out.data),
                AP_WORD(attnpress_forward_args, lse)},
    .num_pointers = 7,
    .pointer = {AP_WORD(attnpress_forward_args, window), AP_WORD(attnpress_forward_args, alibi),
                AP_WORD(attnpress_forward_args, bias), AP_WORD(attnpress_forward_args, sinks),
                AP_WORD(attnpress_forward_args, dropout),
                AP_WORD(attnpress_forward_args, score_mod),
                AP_WORD(attnpress_forward_args, ragged)},
};

static const ap_layout backward_layout = {
    .words = sizeof(attnpress_backward_args) / sizeof(uint64_t),
    .workspace = AP_WORD(attnpress_backward_args, workspace),
    .num_addresses = 11,
    .address = {AP_WORD(attnpress_backward_args, q.data), AP_WORD(attnpress_backward_args, k.data),
                AP_WORD(attnpress_backward_args, v.data),
                AP_WORD(attnpress_backward_args, out.data),
                AP_WORD(attnpress_backward_args, dout.data),
                AP_WORD(attnpress_backward_args, dq.data),
                AP_WORD(attnpress_backward_args, dk.data),
                AP_WORD(attnpress_backward_args, dv.data), AP_WORD(attnpress_backward_args, lse),
                AP_WORD(attnpress_backward_args, dlse), AP_WORD(attnpress_backward_args, dsinks)},
    .num_pointers = 8,
    .pointer = {AP_WORD(attnpress_backward_args, window), AP_WORD(attnpress_backward_args, alibi),
                AP_WORD(attnpress_backward_args, bias), AP_WORD(attnpress_backward_args, sinks),
                AP_WORD(attnpress_backward_args, dropout),
                AP_WORD(attnpress_backward_args, score_mod),
                AP_WORD(attnpress_backward_args, ragged), AP_WORD(attnpress_backward_args, dbias)},
};

#define GROUP_LAYOUT(type, field)                                                                  \
  {                                                                                                \
    .words = sizeof(type) / sizeof(uint64_t), .num_addresses = 1,                                  \
    .address = {AP_WORD(type, field)},                                                             \
  }

static const ap_layout window_layout = {.words = sizeof(attnpress_window) / sizeof(uint64_t)};
static const ap_layout alibi_layout = GROUP_LAYOUT(attnpress_alibi, slopes);
static const ap_layout bias_layout = GROUP_LAYOUT(attnpress_bias, data);
static const ap_layout dbias_layout = GROUP_LAYOUT(attnpress_dbias, data);
static const ap_layout sinks_layout = GROUP_LAYOUT(attnpress_sinks, data);
static const ap_layout dropout_layout = {
    .words = sizeof(attnpress_dropout) / sizeof(uint64_t),
    .num_addresses = 1,
    .address = {AP_WORD(attnpress_dropout, seed_and_offset)},
    .num_numbers = 2, /* other ones at each step of a training */
    .number = {AP_WORD(attnpress_dropout, seed), AP_WORD(attnpress_dropout, offset)},
};
static const ap_layout ragged_layout = {
    .words = sizeof(attnpress_ragged) / sizeof(uint64_t),
    .num_addresses = 11,
    .address = {AP_WORD(attnpress_ragged, cu_seqlens_q), AP_WORD(attnpress_ragged, cu_seqlens_k),
                AP_WORD(attnpress_ragged, seqused_q), AP_WORD(attnpress_ragged, seqused_k),
                AP_WORD(attnpress_ragged, leftpad_k), AP_WORD(attnpress_ragged, kv_batch_idx),
                AP_WORD(attnpress_ragged, page_table), AP_WORD(attnpress_ragged, cu_seqlens_k_new),
                AP_WORD(attnpress_ragged, page_table_v), AP_WORD(attnpress_ragged, page_indptr),
                AP_WORD(attnpress_ragged, schedule)},
};

static const ap_layout score_mod_layout = {
    .words = sizeof(attnpress_score_mod) / sizeof(uint64_t),
    .num_pointers = 6,
    .pointer = {AP_WORD(attnpress_score_mod, name), AP_WORD(attnpress_score_mod, score),
                AP_WORD(attnpress_score_mod, mask), AP_WORD(attnpress_score_mod, scalars),
                AP_WORD(attnpress_score_mod, buffers), AP_WORD(attnpress_score_mod, score_grad)},
};
static const ap_layout scalar_layout = {
    .words = sizeof(attnpress_score_scalar) / sizeof(uint64_t),
    .num_pointers = 1,
    .pointer = {AP_WORD(attnpress_score_scalar, name)},
};
static const ap_layout buffer_layout = {
    .words = sizeof(attnpress_score_buffer) / sizeof(uint64_t),
    .num_addresses = 1,
    .address = {AP_WORD(attnpress_score_buffer, data)},
    .num_pointers = 1,
    .pointer = {AP_WORD(attnpress_score_buffer, name)},
};

/** Whether there are as many as is said, which nobody has checked. */
static int are_given(const void *array, int32_t count, int32_t most) {
  return count == 0 || (array != NULL && count > 0 && count <= most);
}

/** A snippet's texts count by what they say, so that a caller may write them anew. */
static int give_score_mod(ap_given *given, const attnpress_score_mod *mod) {
  if (!ap_given_add(given, mod, &score_mod_layout) || !ap_given_add_text(given, mod->name) ||
      !ap_given_add_text(given, mod->score) || !ap_given_add_text(given, mod->mask) ||
      !ap_given_add_text(given, mod->score_grad) ||
      !are_given(mod->scalars, mod->scalar_count, ATTNPRESS_MOD_SCALARS_MAX) ||
      !are_given(mod->buffers, mod->buffer_count, ATTNPRESS_MOD_BUFFERS_MAX))
    return 0;
  for (int i = 0; i < mod->scalar_count; ++i)
    if (!ap_given_add_fields(given, &mod->scalars[i], &scalar_layout) ||
        !ap_given_add_text(given, mod->scalars[i].name))
      return 0;
  for (int i = 0; i < mod->buffer_count; ++i)
    if (!ap_given_add_fields(given, &mod->buffers[i], &buffer_layout) ||
        !ap_given_add_text(given, mod->buffers[i].name))
      return 0;
  return 1;
}

/** Adds those that are given. A checked call may have lengths where the caller's has none, so that
 * these come last. */
static inline int give_groups(ap_given *given, const attnpress_window *window,
                              const attnpress_alibi *alibi, const attnpress_bias *bias,
                              const attnpress_sinks *sinks, const attnpress_dropout *dropout,
                              const attnpress_score_mod *mod, const attnpress_ragged *ragged) {
  return (window == NULL || ap_given_add(given, window, &window_layout)) &&
         (alibi == NULL || ap_given_add(given, alibi, &alibi_layout)) &&
         (bias == NULL || ap_given_add(given, bias, &bias_layout)) &&
         (sinks == NULL || ap_given_add(given, sinks, &sinks_layout)) &&
         (dropout == NULL || ap_given_add(given, dropout, &dropout_layout)) &&
         (mod == NULL || give_score_mod(given, mod)) &&
         (ragged == NULL || ap_given_add(given, ragged, &ragged_layout));
}

int ap_give_forward(const attnpress_forward_args *args, ap_given *given) {
  return ap_given_add(given, args, &forward_layout) &&
         give_groups(given, args->window, args->alibi, args->bias, args->sinks, args->dropout,
                     args->score_mod, args->ragged);
}

int ap_give_backward(const attnpress_backward_args *args, ap_given *given) {
  return ap_given_add(given, args, &backward_layout) && args->dbuffers == NULL &&
         (args->dbias == NULL || ap_given_add(given, args->dbias, &dbias_layout)) &&
         give_groups(given, args->window, args->alibi, args->bias, args->sinks, args->dropout,
                     args->score_mod, args->ragged);
}
