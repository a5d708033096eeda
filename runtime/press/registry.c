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

/** Order of a family's rows: by the axes that no row leaves open; rows that only differ in others
 * and in the target stand together, those that name a target first. */
static int compare_row(const ap_family *family, const int32_t *row, const ap_variant *variant) {
  for (int32_t i = 0; i < family->axis_count; ++i)
    if (!family->axes[i].of_tile_any && row[i] != variant->axis[i])
      return row[i] < variant->axis[i] ? -1 : 1;
  return 0;
}

/** The first row that does not come before the variant; tiles->count where all do. */
static size_t first_row(const ap_family *family, const ap_variant *variant) {
  size_t low = 0, high = family->tiles->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (compare_row(family, family->tiles->rows + middle * row_size(family), variant) < 0)
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
  for (size_t i = first_row(family, variant); i < family->tiles->count; ++i) {
    const int32_t *row = family->tiles->rows + i * row_size(family);
    if (compare_row(family, row, variant) != 0)
      break;
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
