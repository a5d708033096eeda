/* Lookups in the generated tables; the only file that knows how they are sorted. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/** Order of ap_tiles: pass, hdim, hdim_v, mask, decode, arch; rows that only differ in split,
 * dtype and target stand together, those that name a target first. */
static int compare_tile_row(const ap_variant *a, const ap_variant *b) {
  const int32_t x[] = {a->pass, a->hdim, a->hdim_v, a->mask, a->decode, a->arch};
  const int32_t y[] = {b->pass, b->hdim, b->hdim_v, b->mask, b->decode, b->arch};
  for (size_t i = 0; i < sizeof x / sizeof *x; ++i)
    if (x[i] != y[i])
      return x[i] < y[i] ? -1 : 1;
  return 0;
}

/** The first row that does not come before the variant; ap_tiles_count where all do. */
static size_t first_tile_row(const ap_variant *variant) {
  size_t low = 0, high = ap_tiles_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (compare_tile_row(&ap_tiles[middle].variant, variant) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

attnpress_status ap_find_tile(const ap_variant *variant, const char *target, ap_tile *tile) {
  for (size_t i = first_tile_row(variant); i < ap_tiles_count; ++i) {
    const ap_variant *row = &ap_tiles[i].variant;
    if (compare_tile_row(row, variant) != 0)
      break;
    const char *row_target = ap_tiles[i].target;
    if ((row->split == -1 || row->split == variant->split) &&
        (row->dtype == 0 || row->dtype == variant->dtype) &&
        (row_target == NULL || (target != NULL && strcmp(row_target, target) == 0))) {
      *tile = ap_tiles[i].tile;
      return ATTNPRESS_OK;
    }
  }
  char stem[AP_STEM_MAX];
  FORWARD_IF(
      ap_variant_print(variant, stem)); /* says what is wrong with a variant that is illegal */
  return ap_fail(ATTNPRESS_NOT_SUPPORTED,
                 "%s has no tile: kernels exist for head dims that are multiples of 8 up to %d, on "
                 "sm80, sm86 and sm90",
                 stem, AP_HDIM_MAX);
}

int ap_head_dims_listed(int32_t hdim, int32_t hdim_v) {
  const ap_variant low = {.pass = AP_PASS_FWD, .hdim = hdim, .hdim_v = hdim_v};
  const size_t i = first_tile_row(&low);
  return i < ap_tiles_count && ap_tiles[i].variant.pass == AP_PASS_FWD &&
         ap_tiles[i].variant.hdim == hdim && ap_tiles[i].variant.hdim_v == hdim_v;
}

void ap_print_pairs(char *text, size_t size) {
  int32_t hdim = 0, hdim_v = 0;
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < ap_tiles_count && used < size; ++i) {
    const ap_variant *row = &ap_tiles[i].variant;
    if (row->pass != AP_PASS_FWD || row->hdim == row->hdim_v ||
        (row->hdim == hdim && row->hdim_v == hdim_v))
      continue;
    hdim = row->hdim;
    hdim_v = row->hdim_v;
    used += (size_t)snprintf(text + used, size - used, "%s%d/%d", used ? ", " : "", (int)hdim,
                             (int)hdim_v);
  }
}

typedef struct cubin_name {
  const char *stem, *tile_name, *target;
} cubin_name;

static int compare_cubin(const void *key, const void *row) {
  const cubin_name *name = key;
  const ap_cubin *cubin = row;
  int order = strcmp(name->stem, cubin->stem);
  if (order == 0)
    order = strcmp(name->tile_name, cubin->tile_name);
  return order != 0 ? order : strcmp(name->target, cubin->target);
}

const ap_cubin *ap_find_prebuilt(const char *stem, const char *tile_name, const char *target) {
  const cubin_name name = {stem, tile_name, target};
  return bsearch(&name, ap_prebuilt_cubins, ap_prebuilt_cubins_count, sizeof *ap_prebuilt_cubins,
                 compare_cubin);
}

attnpress_status ap_render(const ap_variant *variant, const ap_tile *tile, char **source,
                           size_t *size) {
  char stem[AP_STEM_MAX], tile_name[AP_TILE_NAME_MAX];
  *source = NULL;
  FORWARD_IF(ap_variant_print(variant, stem));
  ap_tile_print(tile, tile_name);
  const ap_template *found = NULL;
  for (size_t i = 0; i < ap_templates_count && found == NULL; ++i)
    if (ap_templates[i].pass == variant->pass && ap_templates[i].arch_min <= variant->arch &&
        variant->arch <= ap_templates[i].arch_max &&
        (ap_templates[i].decode == -1 || ap_templates[i].decode == variant->decode))
      found = &ap_templates[i];
  RETURN_IF(found == NULL, ATTNPRESS_NOT_SUPPORTED, "no template serves %s", stem);
  const ap_render_input input = {
      .stem = stem,
      .dtype = ap_dtype_name(variant->dtype),
      .mask = ap_mask_name(variant->mask),
      .tile_name = tile_name,
      .split = variant->split,
      .decode = variant->decode,
      .hdim = variant->hdim,
      .hdim_v = variant->hdim_v,
      .arch = variant->arch,
      .block_m = tile->block_m,
      .block_n = tile->block_n,
      .warps_m = tile->warps_m,
      .warps_n = tile->warps_n,
      .stages = tile->stages,
      .k_slab = tile->k_slab,
      .v_slab = tile->v_slab,
      .q_in_regs = tile->q_in_regs,
      .min_blocks = tile->min_blocks,
      .k_unroll = tile->k_unroll,
      .spread = tile->spread,
      .producer = tile->producer,
      .warps_k = tile->warps_k,
      .smem_bytes = tile->smem_bytes,
  };
  ap_text text = {NULL, 0, 0, 0};
  found->render(&text, &input);
  if (text.failed || text.data == NULL) {
    free(text.data);
    return ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out while %s was rendered", stem);
  }
  *source = text.data;
  *size = text.size;
  return ATTNPRESS_OK;
}
