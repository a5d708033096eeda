/* Lookups in the generated tables; the only file that knows how they are sorted. */
#include "press/registry.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memo.h"
#include "press/target.h"

/* ---- Tiles ----------------------------------------------------------------------------------- */

/** The first row for the axes of a key that no row leaves open; NULL where there is none.
 * generator/tables.py fills the slots. */
static const ap_tile_key *first_row(const ap_tile_table *tiles, uint64_t key) {
  const size_t last = ((size_t)1 << tiles->slot_bits) - 1;
  size_t slot = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - tiles->slot_bits));
  for (size_t row; (row = tiles->slots[slot]) != 0; slot = (slot + 1) & last)
    if ((tiles->keys[row - 1].key & tiles->mask) == key)
      return &tiles->keys[row - 1];
  return NULL;
}

static const char *row_target(const ap_tile_entry *row) {
  return row->target == AP_ANY ? NULL : ap_targets[row->target].name;
}

void ap_tile_row_read(int32_t family, size_t row, ap_tile_row *read) {
  const ap_tile_entry *entry = &ap_families[family]->tiles->rows[row];
  *read = (ap_tile_row){.variant = {.family = family}, .tile = entry->tile};
  memcpy(read->variant.axis, entry->axis, sizeof entry->axis);
  read->tile_class = entry->tile_class;
  read->target = row_target(entry);
}

static int32_t find_tile_class(const ap_family *family, const ap_variant *variant) {
  for (int32_t i = 0; i < family->tile_class_count; ++i)
    if (ap_sets_hold(family->tile_classes[i].where, family->tile_classes[i].where_count, variant))
      return family->tile_classes[i].number;
  return 0;
}

/** By which tiles depend on features. Apart from the search, as most rows do not ask for it. */
__attribute__((noinline)) static int32_t
tile_class_of(const ap_family *family, const ap_variant *variant, uint64_t variant_key) {
  static ap_exact_memo known; /* the class, and 1 */
  if ((variant_key & family->tiles->class_mask) == 0)
    return 0;
  uint8_t answer = ap_exact_find(&known, variant_key);
  if (answer == 0) {
    answer = (uint8_t)(1 + find_tile_class(family, variant));
    ap_exact_put(&known, variant_key, answer);
  }
  return answer - 1;
}

/** Most rows are for every class: then it is not worked out, which takes longer than the search. */
static int is_of_class(const ap_tile_entry *row, const ap_family *family, const ap_variant *variant,
                       uint64_t variant_key) {
  return row->tile_class == AP_ANY ||
         row->tile_class == tile_class_of(family, variant, variant_key);
}

static int is_for_target(const ap_tile_entry *row, const char *target) {
  const char *own = row_target(row);
  return own == NULL || (target != NULL && strcmp(own, target) == 0);
}

/** Apart from the search, which each call makes and which needs no room for a stem. */
__attribute__((noinline)) static attnpress_status fail_tile(const ap_variant *variant) {
  char stem[AP_STEM_MAX];
  FORWARD_IF(ap_variant_print(variant, stem)); /* says what is wrong with an illegal variant */
  return ap_fail(ATTNPRESS_NOT_SUPPORTED, "%s has no tile: generated/ is not whole", stem);
}

/** The row of a variant and a target; NULL where there is none. */
static const ap_tile_entry *find_row(const ap_family *family, const ap_variant *variant,
                                     uint64_t variant_key, const char *target) {
  const ap_tile_table *tiles = family->tiles;
  const uint64_t key = variant_key & tiles->mask;
  const ap_tile_key *row = first_row(tiles, key);
  for (; row != NULL && (row->key & tiles->mask) == key; ++row) {
    const ap_tile_entry *entry = &tiles->rows[row - tiles->keys];
    if (row->key == (variant_key & row->mask) && is_for_target(entry, target) &&
        is_of_class(entry, family, variant, variant_key))
      return entry;
  }
  return NULL;
}

/** The tile of a pair that no row names: that of its stand-in, of all targets, fitted. */
__attribute__((noinline)) static attnpress_status
find_tile_of_pair(const ap_family *family, const ap_variant *variant, ap_tile *tile) {
  const ap_stand_in *found = NULL;
  for (int32_t i = 0; i < family->stand_in_count && found == NULL; ++i)
    if (ap_sets_hold(family->stand_ins[i].where, family->stand_ins[i].where_count, variant))
      found = &family->stand_ins[i];
  if (found == NULL)
    return fail_tile(variant);
  FORWARD_IF(ap_axis_check(variant->family, found->first_axis, variant->axis[found->first_axis]));
  FORWARD_IF(ap_axis_check(variant->family, found->second_axis, variant->axis[found->second_axis]));
  ap_variant other = *variant;
  int32_t *const first = &other.axis[found->first_axis];
  int32_t *const second = &other.axis[found->second_axis];
  const int32_t larger = *first > *second ? *first : *second;
  *first = found->first ? found->first : larger;
  *second = found->second ? found->second : larger;
  const ap_tile_entry *row = find_row(family, &other, ap_variant_key(&other), NULL);
  if (row == NULL)
    return fail_tile(variant);
  *tile = row->tile;
  family->fit(variant, &other, tile);
  return ATTNPRESS_OK;
}

attnpress_status ap_find_tile_by_key(const ap_variant *variant, uint64_t variant_key,
                                     const char *target, ap_tile *tile) {
  const ap_family *family = ap_families[variant->family];
  const ap_tile_entry *row = find_row(family, variant, variant_key, target);
  if (row == NULL)
    return find_tile_of_pair(family, variant, tile);
  *tile = row->tile;
  return ATTNPRESS_OK;
}

attnpress_status ap_find_tile(const ap_variant *variant, const char *target, ap_tile *tile) {
  if (!ap_has_key(variant))
    return fail_tile(variant);
  return ap_find_tile_by_key(variant, ap_variant_key(variant), target, tile);
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

int ap_takes_snippet(const ap_variant *variant) {
  const ap_family *family = ap_families[variant->family];
  for (int32_t i = 0; i < family->snippet_count; ++i)
    if (ap_sets_hold(family->snippets[i].where, family->snippets[i].where_count, variant))
      return 1;
  return 0;
}

attnpress_status ap_render(const ap_variant *variant, const ap_tile *tile,
                           const ap_snippet *snippet, char **source, size_t *size) {
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
  if (snippet != NULL)
    ap_text_append(&text, snippet->text.data, snippet->text.size);
  if (text.failed || text.data == NULL) {
    free(text.data);
    return ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out while %s was rendered", stem);
  }
  *source = text.data;
  *size = text.size;
  return ATTNPRESS_OK;
}
