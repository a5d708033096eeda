/* The naming grammar: one function that prints a stem and one that parses it, inverses of each
 * other. generator/variant.py is this file's twin.
 *
 *     flash_<pass>[_split]_hdim<D>[v<DV>]_<dtype>[_causal][_decode]_sm<arch> */
#include "internal.h"

#include <stdio.h>
#include <string.h>

static const char grammar[] =
    "flash_<fwd|fwd_combine>[_split]_hdim<D>[v<DV>]_<fp16|bf16>[_causal][_decode]_sm<80|86|90>";

const char *ap_dtype_name(int32_t dtype) {
  switch (dtype) {
  case ATTNPRESS_FP16:
    return "fp16";
  case ATTNPRESS_BF16:
    return "bf16";
  case ATTNPRESS_FP32:
    return "fp32";
  default:
    return "unknown";
  }
}

const char *ap_mask_name(int32_t mask) {
  return mask == ATTNPRESS_CAUSAL ? "causal" : "full";
}

attnpress_status ap_check_head_dims(int64_t hdim, int64_t hdim_v) {
  RETURN_IF(hdim < 8 || hdim > AP_HDIM_MAX || hdim % 8 != 0, ATTNPRESS_INVALID_ARGUMENT,
            "head dim %lld is not supported: it must be a multiple of 8 from 8 to %d",
            (long long)hdim, AP_HDIM_MAX);
  RETURN_IF(hdim_v < 8 || hdim_v > AP_HDIM_MAX || hdim_v % 8 != 0, ATTNPRESS_INVALID_ARGUMENT,
            "value head dim %lld is not supported: it must be a multiple of 8 from 8 to %d",
            (long long)hdim_v, AP_HDIM_MAX);
  if (hdim != hdim_v && !ap_head_dims_listed((int32_t)hdim, (int32_t)hdim_v)) {
    char pairs[256];
    ap_print_pairs(pairs, sizeof pairs);
    return ap_fail(ATTNPRESS_INVALID_ARGUMENT,
                   "value head dim %lld is not supported with head dim %lld: it must be equal, or "
                   "the two one of %s",
                   (long long)hdim_v, (long long)hdim, pairs);
  }
  return ATTNPRESS_OK;
}

/** What sm90 does not have: large head dims, and decode kernels; 9.0 runs those of sm80. */
static attnpress_status check_sm90(const ap_variant *v) {
  const int value = v->hdim <= AP_SM90_HDIM_MAX;
  const int hdim = value ? v->hdim_v : v->hdim;
  RETURN_IF(hdim > AP_SM90_HDIM_MAX, ATTNPRESS_INVALID_ARGUMENT,
            "%s %d is not supported on sm90: it must be a multiple of 8 from 8 to %d",
            value ? "value head dim" : "head dim", hdim, AP_SM90_HDIM_MAX);
  RETURN_IF(v->decode, ATTNPRESS_INVALID_ARGUMENT,
            "decode is not supported on sm90: it must be on sm80 or sm86");
  return ATTNPRESS_OK;
}

static attnpress_status check_variant(const ap_variant *v) {
  RETURN_IF(v->pass != AP_PASS_FWD && v->pass != AP_PASS_FWD_COMBINE, ATTNPRESS_INVALID_ARGUMENT,
            "pass %d is unknown: it must be fwd or fwd_combine", (int)v->pass);
  RETURN_IF(v->dtype != ATTNPRESS_FP16 && v->dtype != ATTNPRESS_BF16, ATTNPRESS_INVALID_ARGUMENT,
            "dtype %d has no kernels: it must be fp16 or bf16", (int)v->dtype);
  RETURN_IF(v->mask != ATTNPRESS_FULL && v->mask != ATTNPRESS_CAUSAL, ATTNPRESS_INVALID_ARGUMENT,
            "mask %d is unknown: it must be full or causal", (int)v->mask);
  RETURN_IF(v->arch != 80 && v->arch != 86 && v->arch != 90, ATTNPRESS_INVALID_ARGUMENT,
            "arch sm%d is unknown: it must be sm80, sm86 or sm90", (int)v->arch);
  FORWARD_IF(ap_check_head_dims(v->hdim, v->hdim_v));
  if (v->pass == AP_PASS_FWD_COMBINE)
    RETURN_IF(v->mask != ATTNPRESS_FULL || v->split || v->decode || v->hdim != v->hdim_v ||
                  v->arch != AP_COMBINE_ARCH,
              ATTNPRESS_INVALID_ARGUMENT,
              "the fwd_combine pass takes no split, mask, decode or value head dim of its own, and "
              "its arch is sm%d",
              AP_COMBINE_ARCH);
  if (v->pass == AP_PASS_FWD && v->arch == 90)
    FORWARD_IF(check_sm90(v));
  return ATTNPRESS_OK;
}

attnpress_status ap_variant_print(const ap_variant *variant, char stem[AP_STEM_MAX]) {
  FORWARD_IF(check_variant(variant));
  char value_dim[16] = "";
  if (variant->hdim_v != variant->hdim)
    snprintf(value_dim, sizeof value_dim, "v%d", (int)variant->hdim_v);
  snprintf(stem, AP_STEM_MAX, "flash_%s%s_hdim%d%s_%s%s%s_sm%d",
           variant->pass == AP_PASS_FWD ? "fwd" : "fwd_combine", variant->split ? "_split" : "",
           (int)variant->hdim, value_dim, ap_dtype_name(variant->dtype),
           variant->mask == ATTNPRESS_CAUSAL ? "_causal" : "", variant->decode ? "_decode" : "",
           (int)variant->arch);
  return ATTNPRESS_OK;
}

/** Steps over `word` where the text begins with it. */
static int accept(const char **at, const char *word) {
  const size_t length = strlen(word);
  if (strncmp(*at, word, length) != 0)
    return 0;
  *at += length;
  return 1;
}

/** A decimal number of at most six digits and no leading zero. */
static int accept_number(const char **at, int32_t *number) {
  const char *p = *at;
  if (*p < '0' || *p > '9')
    return 0;
  *number = 0;
  int digits = 0;
  while (*p >= '0' && *p <= '9') {
    if (++digits > 6)
      return 0;
    *number = *number * 10 + (*p++ - '0');
  }
  if (**at == '0' && digits > 1)
    return 0;
  *at = p;
  return 1;
}

static int parse(const char *at, ap_variant *v) {
  memset(v, 0, sizeof *v);
  if (!accept(&at, "flash_fwd"))
    return 0;
  v->pass = accept(&at, "_combine") ? AP_PASS_FWD_COMBINE : AP_PASS_FWD;
  v->split = accept(&at, "_split");
  if (!accept(&at, "_hdim") || !accept_number(&at, &v->hdim))
    return 0;
  v->hdim_v = v->hdim;
  if (accept(&at, "v") && (!accept_number(&at, &v->hdim_v) || v->hdim_v == v->hdim))
    return 0;
  if (accept(&at, "_fp16"))
    v->dtype = ATTNPRESS_FP16;
  else if (accept(&at, "_bf16"))
    v->dtype = ATTNPRESS_BF16;
  else
    return 0;
  v->mask = accept(&at, "_causal") ? ATTNPRESS_CAUSAL : ATTNPRESS_FULL;
  v->decode = accept(&at, "_decode");
  return accept(&at, "_sm") && accept_number(&at, &v->arch) && *at == '\0';
}

attnpress_status ap_variant_parse(const char *stem, ap_variant *variant) {
  RETURN_IF(stem == NULL, ATTNPRESS_INVALID_ARGUMENT, "stem is NULL: names are %s", grammar);
  RETURN_IF(!parse(stem, variant), ATTNPRESS_INVALID_ARGUMENT,
            "\"%.160s\" is not the name of a kernel: names are %s", stem, grammar);
  return check_variant(variant);
}

void ap_tile_print(const ap_tile *tile, char name[AP_TILE_NAME_MAX]) {
  char own_keys[16] = "", blocks[16] = "", unroll[16] = "";
  if (tile->producer) {
    snprintf(name, AP_TILE_NAME_MAX, "m%dn%ds%d", (int)tile->block_m, (int)tile->block_n,
             (int)tile->stages);
    return;
  }
  if (tile->warps_k != 1)
    snprintf(own_keys, sizeof own_keys, "x%d", (int)tile->warps_k);
  if (tile->min_blocks != 1)
    snprintf(blocks, sizeof blocks, "b%d", (int)tile->min_blocks);
  if (tile->k_unroll != 0)
    snprintf(unroll, sizeof unroll, "u%d", (int)tile->k_unroll);
  snprintf(name, AP_TILE_NAME_MAX, "m%dn%dw%dx%d%ss%dk%dv%d%s%s%s%s", (int)tile->block_m,
           (int)tile->block_n, (int)tile->warps_m, (int)tile->warps_n, own_keys, (int)tile->stages,
           (int)tile->k_slab, (int)tile->v_slab, tile->q_in_regs ? "q" : "", blocks, unroll,
           tile->spread ? "c" : "");
}

int ap_tile_threads(const ap_tile *tile) {
  enum { PRODUCER_THREADS = 128 };
  return 32 * tile->warps_m * tile->warps_n * tile->warps_k +
         (tile->producer ? PRODUCER_THREADS : 0);
}

uint64_t ap_variant_key(const ap_variant *v) {
  return (uint64_t)v->pass | (uint64_t)v->split << 4 | (uint64_t)v->decode << 5 |
         (uint64_t)v->mask << 6 | (uint64_t)v->dtype << 10 | (uint64_t)v->hdim << 16 |
         (uint64_t)v->hdim_v << 32 | (uint64_t)v->arch << 48;
}
