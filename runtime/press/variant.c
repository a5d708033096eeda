/* The grammar of stems, and what is legal: one printer, one parser and one check that read the
 * families' tables. generator/variant.py is this file's twin, and says the same sentences. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/memo.h"
#include "press/registry.h"

enum { SENTENCE_BYTES = 512 };

static const ap_family *family_of(const ap_variant *variant) {
  return ap_families[variant->family];
}

static const ap_word *find_word(const ap_axis *axis, int64_t value) {
  for (int32_t i = 0; axis->kind == AP_AXIS_WORD && i < axis->domain.count; ++i)
    if (axis->words[i].value == value)
      return &axis->words[i];
  return NULL;
}

const char *ap_word_of(const ap_variant *variant, int32_t axis) {
  const ap_word *word = find_word(&family_of(variant)->axes[axis], variant->axis[axis]);
  return word != NULL ? word->name : NULL;
}

/* ---- Sentences ------------------------------------------------------------------------------- */

/** A sentence that is put together; what does not fit is cut off. */
typedef struct sentence {
  char text[SENTENCE_BYTES];
  size_t size;
} sentence;

static void add(sentence *s, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int bytes = vsnprintf(s->text + s->size, sizeof s->text - s->size, format, arguments);
  va_end(arguments);
  s->size += bytes > 0 ? (size_t)bytes : 0;
  if (s->size >= sizeof s->text)
    s->size = sizeof s->text - 1;
}

/** "bf16", "sm90", "64" */
static void add_value(sentence *s, const ap_axis *axis, int64_t value) {
  const ap_word *word = find_word(axis, value);
  if (word != NULL)
    add(s, "%s", word->name);
  else
    add(s, "%s%lld", axis->shown, (long long)value);
}

/** "columns 60", "dtype bf16", "decode" */
static void add_axis(sentence *s, const ap_axis *axis, int64_t value) {
  if (axis->kind == AP_AXIS_FLAG) {
    add(s, "%s%s", value ? "" : "no ", axis->label);
    return;
  }
  add(s, "%s ", axis->label);
  add_value(s, axis, value);
}

/** "on sm90", "without decode" */
static void add_circumstance(sentence *s, const ap_axis *axis, int64_t value) {
  if (axis->kind == AP_AXIS_FLAG) {
    add(s, "%s %s", value ? "with" : "without", axis->label);
    return;
  }
  add(s, "%s", axis->phrase_before);
  add_value(s, axis, value);
  add(s, "%s", axis->phrase_after);
}

/** "fp16 or bf16", "a multiple of 8 from 8 to 512" */
static void add_allowed(sentence *s, const ap_axis *axis, const ap_set *set) {
  for (int32_t i = 0; i < set->count; ++i) {
    add(s, "%s", i == 0 ? "" : i == set->count - 1 ? " or " : ", ");
    add_value(s, axis, set->values[i]);
  }
  if (set->count == 0 && set->step != 1)
    add(s, "a multiple of %d ", (int)set->step);
  if (set->count == 0)
    add(s, "from %d to %d", (int)set->low, (int)set->high);
}

/* ---- What is legal --------------------------------------------------------------------------- */

/** Apart from the check, which each call makes and which needs no room for a sentence. */
static attnpress_status fail_axis(const ap_axis *axis, int64_t value) {
  sentence s = {"", 0};
  if (axis->kind == AP_AXIS_FLAG)
    return ap_fail(ATTNPRESS_INVALID_ARGUMENT, "%s is %lld: it must be 0 or 1", axis->label,
                   (long long)value);
  add_axis(&s, axis, value);
  add(&s, " is %s: it must be ", axis->domain.count == 0 ? "not supported" : "unknown");
  add_allowed(&s, axis, &axis->domain);
  return ap_fail(ATTNPRESS_INVALID_ARGUMENT, "%s", s.text);
}

attnpress_status ap_axis_check(int32_t family, int32_t index, int64_t value) {
  const ap_axis *axis = &ap_families[family]->axes[index];
  return ap_in_set(&axis->domain, value) ? ATTNPRESS_OK : fail_axis(axis, value);
}

static int is_kept(const ap_rule *rule, const ap_variant *v) {
  const int32_t value = v->axis[rule->must.axis];
  if (rule->same_as < 0)
    return ap_in_set(&rule->must, value);
  const int32_t other = v->axis[rule->same_as];
  for (int32_t i = 0; i < rule->pair_count; ++i)
    if (rule->pairs[i][0] == other && rule->pairs[i][1] == value)
      return 1;
  return value == other;
}

/** Names the value, the circumstances, and what is allowed. */
static attnpress_status fail_breach(const ap_rule *rule, const ap_variant *v) {
  const ap_axis *axes = family_of(v)->axes, *axis = &axes[rule->must.axis];
  sentence s = {"", 0};
  add_axis(&s, axis, v->axis[rule->must.axis]);
  add(&s, " is not supported");
  if (rule->same_as >= 0) {
    add(&s, " with ");
    add_axis(&s, &axes[rule->same_as], v->axis[rule->same_as]);
  }
  for (int32_t i = 0; i < rule->where_count; ++i) {
    add(&s, i == 0 ? " " : " and ");
    add_circumstance(&s, &axes[rule->where[i].axis], v->axis[rule->where[i].axis]);
  }
  if (rule->same_as >= 0) {
    add(&s, ": it must be equal");
    for (int32_t i = 0; i < rule->pair_count; ++i)
      add(&s, "%s%d/%d", i == 0 ? ", or the two one of " : ", ", (int)rule->pairs[i][0],
          (int)rule->pairs[i][1]);
  } else if (axis->kind != AP_AXIS_FLAG) {
    add(&s, ": it must be ");
    add_allowed(&s, axis, &rule->must);
  }
  return ap_fail(ATTNPRESS_INVALID_ARGUMENT, "%s", s.text);
}

/** The first rule that a variant breaks, whose axes are in their domains; NULL: none. */
static const ap_rule *find_breach(const ap_variant *variant) {
  const ap_family *family = family_of(variant);
  for (const ap_rule *rule = family->rules; rule < family->rules + family->rule_count; ++rule)
    if (ap_sets_hold(rule->where, rule->where_count, variant) && !is_kept(rule, variant))
      return rule;
  return NULL;
}

static int family_is_known(const ap_variant *variant) {
  return variant->family >= 0 && (size_t)variant->family < ap_families_count;
}

static int find_legal(const ap_variant *variant) {
  for (int32_t i = 0; i < family_of(variant)->axis_count; ++i)
    if (!ap_in_set(&family_of(variant)->axes[i].domain, variant->axis[i]))
      return 0;
  return find_breach(variant) == NULL;
}

/** Each call asks this of a few variants, again and again, and a family has up to two hundred rules. */
int ap_variant_is_legal(const ap_variant *variant) {
  static ap_exact_memo known; /* 1: not legal, 2: legal */
  if (!family_is_known(variant) || !ap_has_key(variant))
    return 0;
  const uint64_t key = ap_variant_key(variant);
  const uint8_t answer = ap_exact_find(&known, key);
  if (answer != 0)
    return answer - 1;
  const int legal = find_legal(variant);
  ap_exact_put(&known, key, (uint8_t)(1 + legal));
  return legal;
}

attnpress_status ap_variant_check(const ap_variant *variant) {
  RETURN_IF(!family_is_known(variant), ATTNPRESS_INVALID_ARGUMENT,
            "family %d is unknown: there are %zu", (int)variant->family, ap_families_count);
  for (int32_t i = 0; i < family_of(variant)->axis_count; ++i)
    FORWARD_IF(ap_axis_check(variant->family, i, variant->axis[i]));
  const ap_rule *breach = find_breach(variant);
  return breach == NULL ? ATTNPRESS_OK : fail_breach(breach, variant);
}

/* ---- Printing -------------------------------------------------------------------------------- */

attnpress_status ap_variant_print(const ap_variant *variant, char stem[AP_STEM_MAX]) {
  FORWARD_IF(ap_variant_check(variant));
  const ap_family *family = family_of(variant);
  int size = snprintf(stem, AP_STEM_MAX, "%s", family->prefix);
  for (int32_t i = 0; i < family->axis_count; ++i) {
    const ap_axis *axis = &family->axes[i];
    const int32_t value = variant->axis[i];
    const size_t rest = AP_STEM_MAX - (size_t)size;
    if (axis->kind == AP_AXIS_WORD)
      size += snprintf(stem + size, rest, "%s", find_word(axis, value)->token);
    else if (axis->kind == AP_AXIS_FLAG)
      size += snprintf(stem + size, rest, "%s", value ? axis->token : "");
    else if (axis->same_as < 0 || variant->axis[axis->same_as] != value)
      size += snprintf(stem + size, rest, "%s%d", axis->token, (int)value);
    RETURN_IF(size >= AP_STEM_MAX, ATTNPRESS_INVALID_ARGUMENT,
              "the name of a %s kernel passes %d characters", family->name, AP_STEM_MAX - 1);
  }
  return ATTNPRESS_OK;
}

static const ap_tile_form *form_of(const ap_family *family, const ap_tile *tile) {
  const ap_tile_form *form = family->forms;
  while (form + 1 < family->forms + family->form_count && form->where_field >= 0 &&
         tile->field[form->where_field] != form->where_value)
    ++form;
  return form;
}

void ap_tile_print(const ap_variant *variant, const ap_tile *tile, char name[AP_TILE_NAME_MAX]) {
  const ap_family *family = family_of(variant);
  size_t size = 0;
  name[0] = '\0';
  if (family->form_count == 0)
    return;
  const ap_tile_form *form = form_of(family, tile);
  for (int32_t i = 0; i < form->part_count && size < AP_TILE_NAME_MAX; ++i) {
    const ap_tile_part *part = &form->parts[i];
    const int32_t value = tile->field[part->field];
    if (part->flag && value)
      size += (size_t)snprintf(name + size, AP_TILE_NAME_MAX - size, "%s", part->token);
    else if (!part->flag && value != part->absent)
      size +=
          (size_t)snprintf(name + size, AP_TILE_NAME_MAX - size, "%s%d", part->token, (int)value);
  }
}

/* ---- Parsing --------------------------------------------------------------------------------- */

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

/** The word with the longest token that the text begins with. */
static int accept_word(const char **at, const ap_axis *axis, int32_t *value) {
  const ap_word *best = NULL;
  for (int32_t i = 0; i < axis->domain.count; ++i) {
    const ap_word *word = &axis->words[i];
    if (strncmp(*at, word->token, strlen(word->token)) == 0 &&
        (best == NULL || strlen(word->token) > strlen(best->token)))
      best = word;
  }
  if (best == NULL)
    return 0;
  *value = best->value;
  return accept(at, best->token);
}

static int parse(const ap_family *family, const char *at, ap_variant *v) {
  for (int32_t i = 0; i < family->axis_count; ++i) {
    const ap_axis *axis = &family->axes[i];
    if (axis->kind == AP_AXIS_WORD) {
      if (!accept_word(&at, axis, &v->axis[i]))
        return 0;
    } else if (axis->kind == AP_AXIS_FLAG) {
      v->axis[i] = accept(&at, axis->token);
    } else if (accept(&at, axis->token)) {
      if (!accept_number(&at, &v->axis[i]) ||
          (axis->same_as >= 0 && v->axis[i] == v->axis[axis->same_as]))
        return 0;
    } else {
      if (axis->same_as < 0)
        return 0;
      v->axis[i] = v->axis[axis->same_as];
    }
  }
  return *at == '\0';
}

/** The family whose stems begin like this one; -1: none. */
static int32_t find_family(const char *stem) {
  for (size_t i = 0; i < ap_families_count; ++i) {
    const char *at = stem;
    if (accept(&at, ap_families[i]->prefix) && *at == '_')
      return (int32_t)i;
  }
  return -1;
}

/** Of a stem that begins as none does, or NULL. */
static attnpress_status fail_family(const char *stem) {
  sentence s = {"", 0};
  if (stem == NULL)
    add(&s, "stem is NULL");
  else
    add(&s, "\"%.160s\" is not the name of a kernel", stem);
  add(&s, ": names begin with ");
  for (size_t i = 0; i < ap_families_count; ++i)
    add(&s, "%s%s_",
        i == 0                       ? ""
        : i == ap_families_count - 1 ? " or "
                                     : ", ",
        ap_families[i]->prefix);
  return ap_fail(ATTNPRESS_INVALID_ARGUMENT, "%s", s.text);
}

attnpress_status ap_variant_parse(const char *stem, ap_variant *variant) {
  const int32_t family = stem != NULL ? find_family(stem) : -1;
  if (family < 0)
    return fail_family(stem);
  memset(variant, 0, sizeof *variant);
  variant->family = family;
  RETURN_IF(!parse(ap_families[family], stem + strlen(ap_families[family]->prefix), variant),
            ATTNPRESS_INVALID_ARGUMENT, "\"%.160s\" is not the name of a kernel: names are %s",
            stem, ap_families[family]->grammar);
  return ap_variant_check(variant);
}

/* Axis by axis: CMakeLists.txt has this file compiled without vectors. */
uint64_t ap_variant_key(const ap_variant *variant) {
  const ap_family *family = family_of(variant);
  uint64_t key = ((uint64_t)variant->family + 1) * family->key_family;
#pragma GCC unroll 21
  for (int32_t i = 0; i < AP_AXES_MAX; ++i) /* that the family does not have add nothing */
    key += (uint32_t)variant->axis[i] * family->key_unit[i];
  return key;
}

int ap_has_key(const ap_variant *variant) {
  const ap_family *family = family_of(variant);
  uint32_t beyond = 0;
  for (int32_t i = 0; i < AP_AXES_MAX; ++i) /* all, as the compiler then takes several at once */
    beyond |= (uint32_t)variant->axis[i] & family->no_bits[i];
  return beyond == 0;
}
