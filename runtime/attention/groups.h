/* The optional groups of a forward or a backward call. */
#pragma once
#include "attention/attention.h"
#include "attnpress/args/score_mod.h"

/** Copies, of the size that this library knows. */
typedef struct ap_groups {
  attnpress_window window;
  attnpress_alibi alibi;
  attnpress_bias bias;
  attnpress_sinks sinks;
  attnpress_dropout dropout;
  attnpress_score_mod score_mod;
  attnpress_score_buffer buffers[ATTNPRESS_MOD_BUFFERS_MAX]; /* its */
  attnpress_ragged ragged;
  attnpress_dbias dbias; /* of a backward call */
} ap_groups;

/** Copies the caller's groups and makes the pointers of `args`, a copy of the caller's struct, name
 * them: past this, every group has its full size. */
attnpress_status ap_copy_groups(attnpress_forward_args *args, ap_groups *groups);
/** The same of a backward call. */
attnpress_status ap_copy_backward_groups(attnpress_backward_args *args, ap_groups *groups);
/** Checks the gradient by the bias, which has been checked. */
attnpress_status ap_check_dbias(const attnpress_backward_args *args, int with_data);
/** Checks them, the softcap, and how they go with the mask. The tensors have been checked. */
attnpress_status ap_check_groups(const attnpress_forward_args *args, int with_data);
