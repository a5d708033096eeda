/* Lookups in the generated tables; the only file that knows how they are sorted. */
#include "press/registry.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "press/target.h"

/* ---- Tiles ----------------------------------------------------------------------------------- */

/** Integers of a row: the axes, threads, smem_bytes, the fields, the target. */
static size_t row_size(const ap_family *family) {
  return (size_t)family->axis_count + 2 + (size_t)family->field_count + 1;
}

/** Where a variant's rows stand: the axes that no row leaves open, as one number. Two variants have
 * one key only where an axis of one is out of its domain. */
static uint64_t tile_key(const ap_family *family, const ap_variant *variant) {
  uint64_t key = 0;
  for (int32_t i = 0; i < family->tile_axis_count; ++i) {
    const uint8_t axis = family->tile_axes[i];
    key = key << family->key_bits[axis] | (uint64_t)variant->axis[axis];
  }
  return key;
}

/** The first row whose key is not smaller; count where all are. */
static size_t first_row(const ap_tile_table *tiles, uint64_t key) {
  size_t low = 0, high = tiles->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (tiles->keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static const char *row_target(const ap_family *family, const int32_t *row) {
  const int32_t target = row[row_size(family) - 1];
  return target == AP_ANY ? NULL : ap_targets[target].name;
}

static void read_tile(const ap_family *family, const int32_t *row, ap_tile *tile) {
  const int32_t *at = row + family->axis_count;
  memset(tile, 0, sizeof *tile);
  tile->threads = at[0];
  tile->smem_bytes = at[1];
  memcpy(tile->field, at + 2, (size_t)family->field_count * sizeof *at);
}

void ap_tile_row_read(int32_t family, size_t row, ap_tile_row *read) {
  const ap_family *f = ap_families[family];
  const int32_t *values = f->tiles->rows + row * row_size(f);
  memset(read, 0, sizeof *read);
  read->variant.family = family;
  memcpy(read->variant.axis, values, (size_t)f->axis_count * sizeof *values);
  read_tile(f, values, &read->tile);
  read->target = row_target(f, values);
}

/** 1 where a row of the variant's own key is for it and for the target. */
static int is_for(const ap_family *family, const int32_t *row, const ap_variant *variant,
                  const char *target) {
  for (int32_t i = 0; i < family->axis_count; ++i)
    if (row[i] != AP_ANY && row[i] != variant->axis[i])
      return 0;
  const char *own = row_target(family, row);
  return own == NULL || (target != NULL && strcmp(own, target) == 0);
}

attnpress_status ap_find_tile(const ap_variant *variant, const char *target, ap_tile *tile) {
  const ap_family *family = ap_families[variant->family];
  const ap_tile_table *tiles = family->tiles;
  const uint64_t key = tile_key(family, variant);
  for (size_t i = first_row(tiles, key); i < tiles->count && tiles->keys[i] == key; ++i) {
    const int32_t *row = tiles->rows + i * row_size(family);
    if (is_for(family, row, variant, target)) {
      read_tile(family, row, tile);
      return ATTNPRESS_OK;
    }
  }
  char stem[AP_STEM_MAX];
  FORWARD_IF(
      ap_variant_print(variant, stem)); /* says what is wrong with a variant that is illegal */
  return ap_fail(ATTNPRESS_NOT_SUPPORTED, "%s has no tile: generated/ is not whole", stem);
}

/* ---- Linked cubins --------------------------------------------------------------------------- */

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

/* ---- Rendering ------------------------------------------------------------------------------- */

attnpress_status ap_render(const ap_variant *variant, const ap_tile *tile, char **source,
                           size_t *size) {
  char stem[AP_STEM_MAX], tile_name[AP_TILE_NAME_MAX];
  const char *words[AP_AXES_MAX] = {NULL};
  *source = NULL;
  FORWARD_IF(ap_variant_print(variant, stem));
  ap_tile_print(variant, tile, tile_name);
  const ap_family *family = ap_families[variant->family];
  const ap_template *found = NULL;
  for (int32_t i = 0; i < family->template_count && found == NULL; ++i)
    if (ap_sets_hold(family->templates[i].where, family->templates[i].where_count, variant))
      found = &family->templates[i];
  RETURN_IF(found == NULL, ATTNPRESS_NOT_SUPPORTED, "no template serves %s", stem);
  for (int32_t i = 0; i < family->axis_count; ++i)
    words[i] = ap_word_of(variant, i);
  const ap_render_input input = {.stem = stem,
                                 .tile_name = tile_name,
                                 .axis = variant->axis,
                                 .word = words,
                                 .field = tile->field,
                                 .threads = tile->threads,
                                 .smem_bytes = tile->smem_bytes};
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
