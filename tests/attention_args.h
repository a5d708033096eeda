/* What the stand-in for the driver is told of attention's kernels: the bytes of their arguments. */
#pragma once
#include "api_support.h"
#include "attnpress/args/ragged.h"
#include "attnpress/args/score_mod.h"

_Static_assert(sizeof(attnpress_fwd_sm90_ragged_mod_args) <= FAKE_ARGS_MAX &&
                   sizeof(attnpress_bwd_ragged_mod_grad_args) <= FAKE_ARGS_MAX,
               "a launch of the stand-in has room for the largest");

/** Up to the last field: nobody fills what pads a struct behind it. */
#define BYTES_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)NULL)->field))

static UNUSED size_t attention_args_bytes(const char *symbol) {
  const int sm90 = strstr(symbol, "_sm90") != NULL;
  const int mod = strstr(symbol, "_mod") != NULL;
  if (strncmp(symbol, "flash_", strlen("flash_")) != 0)
    return 0;
  if (strstr(symbol, "combine") != NULL)
    return strstr(symbol, "_ragged") != NULL ? sizeof(attnpress_fwd_combine_ragged_args)
                                             : sizeof(attnpress_fwd_combine_args);
  if (strstr(symbol, "fwd_map") != NULL)
    return sizeof(attnpress_fwd_map_args);
  if (strstr(symbol, "bwd_dbias") != NULL)
    return strstr(symbol, "_ragged") != NULL ? sizeof(attnpress_bwd_dbias_ragged_args)
                                             : sizeof(attnpress_bwd_dbias_args);
  if (strstr(symbol, "_modgrad") != NULL)
    return strstr(symbol, "_ragged") != NULL ? sizeof(attnpress_bwd_ragged_mod_grad_args)
                                             : sizeof(attnpress_bwd_mod_grad_args);
  if (strstr(symbol, "flash_bwd") != NULL && mod)
    return strstr(symbol, "_ragged") != NULL ? sizeof(attnpress_bwd_ragged_mod_args)
                                             : sizeof(attnpress_bwd_mod_args);
  if (strstr(symbol, "fwd_schedule") != NULL)
    return sizeof(attnpress_fwd_schedule_args);
  if (strstr(symbol, "flash_bwd") != NULL && strstr(symbol, "_ragged") != NULL)
    return sm90 ? sizeof(attnpress_bwd_sm90_ragged_args) : sizeof(attnpress_bwd_ragged_args);
  if (strstr(symbol, "flash_bwd") != NULL)
    return sm90 ? BYTES_UP_TO(attnpress_bwd_sm90_args, bwd) : sizeof(attnpress_bwd_args);
  const int sequences = strstr(symbol, "_ragged") != NULL || strstr(symbol, "_paged") != NULL;
  if (sequences && mod)
    return sm90 ? BYTES_UP_TO(attnpress_fwd_sm90_ragged_mod_args, mod)
                : sizeof(attnpress_fwd_ragged_mod_args);
  if (sequences)
    return sm90 ? BYTES_UP_TO(attnpress_fwd_sm90_ragged_args, reserved)
                : sizeof(attnpress_fwd_ragged_args);
  if (mod)
    return sm90 ? BYTES_UP_TO(attnpress_fwd_sm90_mod_args, mod) : sizeof(attnpress_fwd_mod_args);
  const int bias = strstr(symbol, "_biasfp16") != NULL || strstr(symbol, "_biasbf16") != NULL;
  if (sm90 && bias)
    return sizeof(attnpress_fwd_sm90_bias_args);
  return sm90 ? sizeof(attnpress_fwd_sm90_args) : sizeof(attnpress_fwd_args);
}

static UNUSED int set_up_attention(void **state) {
  const int status = set_up_group(state);
  cuda->args_by(attention_args_bytes);
  return status;
}
