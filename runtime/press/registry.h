/* What the generator hands the runtime: families of kernels with their axes, rules, tiles and
 * renderers, targets, device headers, the default set and the linked cubins. The runtime's core
 * knows no family by name; what a family's own code calls its axes is in generated/families.h. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "core/text.h"
#include "press/snippet.h"

enum { AP_STEM_MAX = 128, AP_TILE_NAME_MAX = 64, AP_TARGET_MAX = 16 };
enum { AP_AXES_MAX = 22, AP_TILE_FIELDS_MAX = 20 };
enum { AP_ANY = -1 }; /* in a row of tiles: whatever the axis is, or the target */

/** A variant: everything that a stem says. An axis that the family does not have is 0. */
typedef struct ap_variant {
  int32_t family;            /* AP_FAMILY_... */
  int32_t axis[AP_AXES_MAX]; /* by AP_<FAMILY>_<AXIS>; words are AP_<FAMILY>_<AXIS>_<WORD> */
} ap_variant;

/** A tile: how a variant's work is cut. The generator computes all of it. */
typedef struct ap_tile {
  int32_t threads;                   /* of a thread block */
  int32_t smem_bytes;                /* its dynamic shared memory */
  int32_t field[AP_TILE_FIELDS_MAX]; /* by AP_<FAMILY>_TILE_<FIELD> */
} ap_tile;

/* ---- Families: generated/ -------------------------------------------------------------------- */

typedef struct ap_word {
  const char *name;  /* "bf16" */
  const char *token; /* in a stem: "_bf16"; "" for at most one word of an axis */
  int32_t value;     /* in ap_variant */
} ap_word;

typedef enum ap_axis_kind { AP_AXIS_WORD, AP_AXIS_FLAG, AP_AXIS_NUMBER } ap_axis_kind;

/** Values of an axis: those listed, or, where none is, low, low + step, ... high. */
typedef struct ap_set {
  int32_t axis;
  int32_t low, high, step;
  const int32_t *values;
  int32_t count;
} ap_set;

typedef struct ap_axis {
  const char *name;  /* in data files and options */
  const char *label; /* in sentences */
  ap_axis_kind kind;
  const char *token;                        /* flag: all of it; number: what stands before it */
  const char *shown;                        /* number: what stands before it in sentences */
  const char *phrase_before, *phrase_after; /* around the value, where it is a circumstance */
  int32_t same_as;      /* the axis that it equals where a stem does not name it; -1: none */
  ap_set domain;        /* of words: their values */
  const ap_word *words; /* as many as the domain lists, in its order */
} ap_axis;

/** Where all of `where` hold, the axis of `must` has one of its values; or, where same_as is not
 * -1, the value of that axis, or the two are one of `pairs` (same_as first). */
typedef struct ap_rule {
  const ap_set *where;
  int32_t where_count;
  ap_set must;
  int32_t same_as;
  const int32_t (*pairs)[2];
  int32_t pair_count;
} ap_rule;

typedef struct ap_tile_part {
  const char *token;
  int32_t field;
  int32_t flag;   /* 1: the token, where the field is 1 */
  int32_t absent; /* not written where the field is that; -1: always written */
} ap_tile_part;

/** How tiles are written, where a field is a value (where_field -1: all others). */
typedef struct ap_tile_form {
  int32_t where_field, where_value;
  const ap_tile_part *parts;
  int32_t part_count;
} ap_tile_form;

/** Variants for which all of `where` hold are of this class; the first row that holds counts, and
 * where none does the class is 0. */
typedef struct ap_tile_class {
  const ap_set *where;
  int32_t where_count;
  int32_t number;
} ap_tile_class;

/** Variants for which all of `where` hold and whose two axes are a pair that no row of tiles names
 * have the tile of another variant: of the pair first, second, or, where these are 0, of one whose
 * two axes are the larger. The first row that holds counts. */
typedef struct ap_stand_in {
  const ap_set *where;
  int32_t where_count;
  int32_t first_axis, second_axis;
  int32_t first, second;
} ap_stand_in;

/** What a renderer gets. */
typedef struct ap_render_input {
  const char *stem; /* file name without .cu, and the extern "C" symbol */
  const char *tile_name;
  const int32_t *axis;     /* of the variant */
  const char *const *word; /* by axis: the name of its word; NULL where it has none */
  const int32_t *field;    /* of the tile */
  int32_t threads, smem_bytes;
} ap_render_input;

typedef struct ap_template {
  const char *name; /* file in templates/ */
  const ap_set *where;
  int32_t where_count; /* which variants it serves: where all hold */
  void (*render)(ap_text *out, const ap_render_input *in);
} ap_template;

/** Devices of these compute capabilities (90 for 9.0) run variants for which `where` holds with
 * this arch, compiled for this target. Rows of a device stand best first; the last runs all. */
typedef struct ap_route {
  const ap_set *where;
  int32_t where_count;
  int32_t alike; /* rows from this one on that have the same `where` */
  int32_t capability_min, capability_max;
  int32_t arch;
  const char *target;
} ap_route;

/** A row of a family's tiles; see ap_tile_row_read(). */
typedef struct ap_tile_entry {
  int32_t axis[AP_AXES_MAX]; /* AP_ANY: any */
  ap_tile tile;
  int32_t tile_class; /* AP_ANY: any */
  int32_t target;     /* its place in ap_targets; AP_ANY: any */
} ap_tile_entry;

/** The variants of a row of tiles: ap_variant_key() without the family, which is the highest. */
typedef struct ap_tile_key {
  uint64_t key;  /* 0 where an axis may be any */
  uint64_t mask; /* all ones but there */
} ap_tile_key;

/** The tiles of a family. Sorted by the axes that no row leaves open, which are those of `mask`; the
 * first row that matches a variant and a target is theirs. `slots` is a hash table of these axes,
 * with open addressing and linear probing, at most half full: where their rows begin, counted from
 * 1; 0: empty. */
typedef struct ap_tile_table {
  const ap_tile_entry *rows;
  const ap_tile_key *keys; /* of each row, and one behind them that is of none: {~0, 0} */
  size_t count;
  uint64_t mask;
  uint64_t
      class_mask; /* of the axes that tile classes look at: where they are 0, so is the class */
  const uint16_t *slots;
  int32_t slot_bits; /* there are 2^slot_bits */
} ap_tile_table;

/** Variants for which all of `where` hold have sources that end with a caller's text. */
typedef struct ap_snippet_rule {
  const ap_set *where;
  int32_t where_count;
} ap_snippet_rule;

typedef struct ap_family {
  const char *name, *prefix, *grammar;
  const ap_axis *axes;
  int32_t axis_count, arch_axis; /* arch_axis: the place of the axis that is the architecture */
  /* What a value of 1 adds to ap_variant_key(): of the family's number, and by axis. */
  uint64_t key_family, key_unit[AP_AXES_MAX];
  uint32_t no_bits[AP_AXES_MAX]; /* by axis: the bits that no value has */
  const ap_rule *rules;
  int32_t rule_count;
  int32_t field_count;
  const char *const *field_names;
  const ap_tile_form *forms;
  int32_t form_count;
  const ap_tile_class *tile_classes;
  int32_t tile_class_count;
  const ap_tile_table *tiles;
  const ap_stand_in *stand_ins;
  int32_t stand_in_count;
  /* Makes the tile of `other`, a variant's stand-in, that of the variant; NULL without stand-ins. */
  void (*fit)(const ap_variant *variant, const ap_variant *other, ap_tile *tile);
  const ap_template *templates;
  int32_t template_count;
  const ap_route *routes;
  int32_t route_count;
  const ap_snippet_rule *snippets;
  int32_t snippet_count;
} ap_family;

extern const ap_family *const ap_families[]; /* by AP_FAMILY_... */
extern const size_t ap_families_count;

/* ---- Other tables ---------------------------------------------------------------------------- */

typedef struct ap_device_header {
  const char *name; /* as kernels include it: "attnpress/device/ptx_mma.cuh" */
  const char *text;
} ap_device_header;

typedef struct ap_prebuilt_row { /* one (variant, target) of the default set */
  const char *stem;
  const char *target; /* "sm_80" */
} ap_prebuilt_row;

typedef struct ap_cubin {
  const char *stem, *tile_name, *target;
  const unsigned char *data; /* a zstd frame */
  size_t stored_size;        /* of the frame */
  size_t size;               /* of the cubin in it */
  int32_t registers, spill_bytes;
} ap_cubin;

/* generated/: */
extern const ap_device_header ap_device_headers[]; /* the argument structs among them */
extern const size_t ap_device_headers_count;
extern const char ap_device_headers_digest[];  /* hex digest of their names and texts */
extern const ap_prebuilt_row ap_default_set[]; /* sorted by (stem, target) */
extern const size_t ap_default_set_count;
/* Written by the build from the default set's cubins; empty in the tool that compiles them: */
extern const ap_cubin ap_prebuilt_cubins[]; /* sorted by (stem, tile_name, target) */
extern const size_t ap_prebuilt_cubins_count;
/** Comes with the table. Writes row->size bytes to `cubin`; 0: the frame is damaged, or memory ran
 * out. */
int ap_unpack_prebuilt(const ap_cubin *row, unsigned char *cubin);

/* ---- variant.c ------------------------------------------------------------------------------- */

/** The stem of a legal variant; else INVALID_ARGUMENT, naming the value and what is allowed. */
attnpress_status ap_variant_print(const ap_variant *variant, char stem[AP_STEM_MAX]);
attnpress_status ap_variant_parse(const char *stem, ap_variant *variant);
attnpress_status ap_variant_check(const ap_variant *variant);
/** 1 where ap_variant_check() finds nothing; makes no sentence. */
int ap_variant_is_legal(const ap_variant *variant);
/** Whether one axis may be this at all, whatever the others are; the same sentences. */
attnpress_status ap_axis_check(int32_t family, int32_t axis, int64_t value);
/** A legal variant as one number; different variants have different ones, never 0. */
uint64_t ap_variant_key(const ap_variant *variant);
/** 1 where the key of a variant is no other's, legal or not. */
int ap_has_key(const ap_variant *variant);
/** 1 where a value is in a set. */
static inline int ap_in_set(const ap_set *set, int64_t value) {
  for (int32_t i = 0; i < set->count; ++i)
    if (set->values[i] == value)
      return 1;
  /* In 32 bits, as dividing takes longer in 64 and each call comes through here. */
  return set->count == 0 && set->low <= value && value <= set->high &&
         (uint32_t)(value - set->low) % (uint32_t)set->step == 0;
}

/** 1 where each axis has one of the values of its set. Inline, as each call asks this of several
 * routes. */
static inline int ap_sets_hold(const ap_set *sets, int32_t count, const ap_variant *variant) {
  for (int32_t i = 0; i < count; ++i)
    if (!ap_in_set(&sets[i], variant->axis[sets[i].axis]))
      return 0;
  return 1;
}

/** Such as "m128n64w4x1s2k128v64": the family's data say how its tiles are written. */
void ap_tile_print(const ap_variant *variant, const ap_tile *tile, char name[AP_TILE_NAME_MAX]);
/** The name of the word that an axis is; NULL where it is no word. */
const char *ap_word_of(const ap_variant *variant, int32_t axis);

/* ---- registry.c ------------------------------------------------------------------------------ */

typedef struct ap_tile_row {
  ap_variant variant; /* AP_ANY: any */
  int32_t tile_class; /* likewise */
  ap_tile tile;
  const char *target; /* NULL: any */
} ap_tile_row;
/** A row of a family's tiles, 0 <= row < tiles->count. */
void ap_tile_row_read(int32_t family, size_t row, ap_tile_row *read);
/** The tile of a variant on a target, or where target is NULL on those that have none of their own;
 * NOT_SUPPORTED, naming what is allowed, where there is none. */
attnpress_status ap_find_tile(const ap_variant *variant, const char *target, ap_tile *tile);
/** The same, for a caller that has the variant's key; each axis has one of its values. */
attnpress_status ap_find_tile_by_key(const ap_variant *variant, uint64_t variant_key,
                                     const char *target, ap_tile *tile);
/** The linked cubin, or NULL. */
const ap_cubin *ap_find_prebuilt(const char *stem, const char *tile_name, const char *target);
/** 1 where the source of a variant ends with a caller's text. */
int ap_takes_snippet(const ap_variant *variant);
/** The source of (variant, tile), NUL-terminated, freed by the caller. snippet: the text that it ends
 * with; NULL: none, so that one that takes a snippet does not compile. */
attnpress_status ap_render(const ap_variant *variant, const ap_tile *tile,
                           const ap_snippet *snippet, char **source, size_t *size);
