/* Snippets for scores and masks. Their texts are C that this file does not understand, except for the
 * names that they use. */
#include "attention/score_mod.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attention/defaults.h"
#include "attention/score_args.h"
#include "core/hash.h"

enum { TEXT_BYTES_MAX = 16384, NAME_MAX_CHARACTERS = 31 };

/* ---- Names ----------------------------------------------------------------------------------- */

static int starts_name(char c) {
  return isalpha((unsigned char)c) || c == '_';
}

static int goes_on_name(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

/** Past what is at `text` and no name: a comment, a string, a number, one character. */
static const char *skip_other(const char *text) {
  if (text[0] == '/' && text[1] == '/')
    return text + strcspn(text, "\n");
  if (text[0] == '/' && text[1] == '*') {
    const char *end = strstr(text + 2, "*/");
    return end != NULL ? end + 2 : text + strlen(text);
  }
  if (text[0] == '"' || text[0] == '\'') {
    const char quote = *text++;
    while (*text != '\0' && *text != quote)
      text += *text == '\\' && text[1] != '\0' ? 2 : 1;
    return *text != '\0' ? text + 1 : text;
  }
  if (isdigit((unsigned char)*text)) { /* with its suffix */
    while (goes_on_name(*text) || *text == '.')
      ++text;
    return text;
  }
  return text + 1;
}

/** Whether a text uses a name. */
static int uses(const char *text, const char *name) {
  const size_t size = strlen(name);
  while (text != NULL && *text != '\0') {
    if (!starts_name(*text)) {
      text = skip_other(text);
      continue;
    }
    const char *begin = text;
    while (goes_on_name(*text))
      ++text;
    if ((size_t)(text - begin) == size && memcmp(begin, name, size) == 0)
      return 1;
  }
  return 0;
}

const char *ap_score_mod_name(const attnpress_score_mod *mod) {
  return mod->name != NULL ? mod->name : "mod";
}

/* What a text may use beside its scalars and buffers, in the order of the sentence. */
static const char *const scope[] = {"b", "h", "h_kv", "q", "k", "q_len", "k_len"};
static const char *const words[] = {
    "score",    "clampi",   "INFINITY",  "int",      "float",   "double",   "bool",    "if",
    "else",     "for",      "while",     "do",       "return",  "const",    "static",  "struct",
    "class",    "new",      "delete",    "true",     "false",   "auto",     "void",    "char",
    "short",    "long",     "unsigned",  "signed",   "switch",  "case",     "break",   "continue",
    "goto",     "default",  "sizeof",    "this",     "using",   "template", "typedef", "namespace",
    "operator", "register", "volatile",  "enum",     "union",   "extern",   "inline",  "mutable",
    "private",  "public",   "protected", "friend",   "virtual", "typename", "and",     "or",
    "not",      "xor",      "constexpr", "decltype", "alignas", "asm",      "min",     "max"};

static attnpress_status check_name(const char *what, int i, const char *name) {
  RETURN_IF(name == NULL || name[0] == '\0', ATTNPRESS_INVALID_ARGUMENT,
            "score_mod.%s[%d].name is %s; a snippet needs a name to use it by", what, i,
            name == NULL ? "NULL" : "\"\"");
  size_t size = 0;
  while (goes_on_name(name[size]))
    ++size;
  RETURN_IF(!starts_name(name[0]) || name[size] != '\0' || size > NAME_MAX_CHARACTERS,
            ATTNPRESS_INVALID_ARGUMENT,
            "score_mod.%s[%d].name is \"%.64s\"; it must be a name of C of up to %d characters",
            what, i, name, NAME_MAX_CHARACTERS);
  int taken = strncmp(name, "snippet_", 8) == 0 || strncmp(name, "attnpress_", 10) == 0;
  for (size_t n = 0; n < sizeof scope / sizeof *scope; ++n)
    taken |= strcmp(name, scope[n]) == 0;
  for (size_t n = 0; n < sizeof words / sizeof *words; ++n)
    taken |= strcmp(name, words[n]) == 0;
  RETURN_IF(
      taken, ATTNPRESS_INVALID_ARGUMENT,
      "score_mod.%s[%d].name is \"%s\", which means something else in a snippet; choose another",
      what, i, name);
  return ATTNPRESS_OK;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static attnpress_status check_texts(const attnpress_score_mod *m) {
  const char *name = ap_score_mod_name(m);
  size_t size = 0;
  while (isalnum((unsigned char)name[size]) || (name[size] != '\0' && strchr("_-.", name[size])))
    ++size;
  RETURN_IF(size == 0 || name[size] != '\0' || size >= AP_SNIPPET_NAME_MAX,
            ATTNPRESS_INVALID_ARGUMENT,
            "score_mod.name is \"%.80s\"; it must be 1 to %d letters, digits, '_', '-' and '.'",
            name, AP_SNIPPET_NAME_MAX - 1);
  RETURN_IF(!ap_text_is_given(m->score) && !ap_text_is_given(m->mask), ATTNPRESS_INVALID_ARGUMENT,
            "score_mod \"%s\" has neither a score nor a mask; give at least one of the two texts",
            name);
  const char *texts[] = {m->score, m->mask};
  for (int i = 0; i < 2; ++i)
    RETURN_IF(texts[i] != NULL && strlen(texts[i]) > TEXT_BYTES_MAX, ATTNPRESS_INVALID_ARGUMENT,
              "score_mod.%s has %zu bytes; it may have %d", i == 0 ? "score" : "mask",
              strlen(texts[i]), TEXT_BYTES_MAX);
  return ATTNPRESS_OK;
}

static attnpress_status check_count(const char *what, int32_t count, int most, const void *list) {
  RETURN_IF(count < 0 || count > most, ATTNPRESS_INVALID_ARGUMENT,
            "score_mod.%s_count is %d; it must be 0 to %d", what, (int)count, most);
  RETURN_IF(count > 0 && list == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "score_mod.%ss is NULL and %s_count is %d", what, what, (int)count);
  return ATTNPRESS_OK;
}

static attnpress_status check_buffer(const attnpress_score_buffer *b, int i, int with_data) {
  RETURN_IF(b->dtype < ATTNPRESS_FP16 || b->dtype > ATTNPRESS_INT32, ATTNPRESS_INVALID_ARGUMENT,
            "score_mod.buffers[%d] (%s).dtype is %d; it must be ATTNPRESS_FP16 (1), ATTNPRESS_BF16 "
            "(2), ATTNPRESS_FP32 (3) or ATTNPRESS_INT32 (4)",
            i, b->name, (int)b->dtype);
  RETURN_IF(b->rank < 1 || b->rank > 4, ATTNPRESS_INVALID_ARGUMENT,
            "score_mod.buffers[%d] (%s).rank is %d; it must be 1 to 4", i, b->name, (int)b->rank);
  int64_t span = 0, part;
  for (int d = 0; d < b->rank; ++d) {
    RETURN_IF(b->shape[d] < 1 || b->shape[d] > INT32_MAX, ATTNPRESS_INVALID_ARGUMENT,
              "score_mod.buffers[%d] (%s).shape[%d] is %" PRId64
              "; it must be 1 to 2^31 - 1, as every index is clamped to it",
              i, b->name, d, b->shape[d]);
    RETURN_IF(b->shape[d] > 1 && b->stride[d] < 0, ATTNPRESS_INVALID_ARGUMENT,
              "score_mod.buffers[%d] (%s).stride[%d] is %" PRId64
              " elements; it must not be negative",
              i, b->name, d, b->stride[d]);
    RETURN_IF(b->shape[d] > 1 &&
                  (__builtin_mul_overflow(b->shape[d] - 1, b->stride[d], &part) ||
                   __builtin_add_overflow(span, part, &span) || span > INT64_MAX / 4),
              ATTNPRESS_INVALID_ARGUMENT,
              "score_mod.buffers[%d] (%s).stride[%d] %" PRId64 " times its extent overflows", i,
              b->name, d, b->stride[d]);
  }
  const uintptr_t bytes = b->dtype == ATTNPRESS_FP32 || b->dtype == ATTNPRESS_INT32 ? 4 : 2;
  RETURN_IF(with_data && b->data == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "score_mod.buffers[%d] (%s).data is NULL", i, b->name);
  RETURN_IF(with_data && (uintptr_t)b->data % bytes != 0, ATTNPRESS_INVALID_ARGUMENT,
            "score_mod.buffers[%d] (%s).data is %p; it must be aligned to its elements, %d bytes",
            i, b->name, b->data, (int)bytes);
  return ATTNPRESS_OK;
}

/** The name of scalar `i` or, behind them, of a buffer. */
static const char *name_of(const attnpress_score_mod *m, int i) {
  return i < m->scalar_count ? m->scalars[i].name : m->buffers[i - m->scalar_count].name;
}

attnpress_status ap_check_score_mod(const attnpress_forward_args *args, int with_data) {
  const attnpress_score_mod *m = args->score_mod;
  FORWARD_IF(check_texts(m));
  FORWARD_IF(check_count("scalar", m->scalar_count, ATTNPRESS_MOD_SCALARS_MAX, m->scalars));
  FORWARD_IF(check_count("buffer", m->buffer_count, ATTNPRESS_MOD_BUFFERS_MAX, m->buffers));
  for (int i = 0; i < m->scalar_count; ++i) {
    const attnpress_score_scalar *s = &m->scalars[i];
    FORWARD_IF(check_name("scalars", i, s->name));
    RETURN_IF(s->dtype != ATTNPRESS_FP32 && s->dtype != ATTNPRESS_INT32, ATTNPRESS_INVALID_ARGUMENT,
              "score_mod.scalars[%d] (%s).dtype is %d; it must be ATTNPRESS_FP32 (3) or "
              "ATTNPRESS_INT32 (4)",
              i, s->name, (int)s->dtype);
    RETURN_IF(s->reserved != 0, ATTNPRESS_INVALID_ARGUMENT,
              "score_mod.scalars[%d] (%s).reserved is %d; it must be 0", i, s->name,
              (int)s->reserved);
  }
  for (int i = 0; i < m->buffer_count; ++i) {
    FORWARD_IF(check_name("buffers", i, m->buffers[i].name));
    FORWARD_IF(check_buffer(&m->buffers[i], i, with_data));
  }
  for (int i = 0; i < m->scalar_count + m->buffer_count; ++i)
    for (int j = 0; j < i; ++j)
      RETURN_IF(strcmp(name_of(m, i), name_of(m, j)) == 0, ATTNPRESS_INVALID_ARGUMENT,
                "score_mod \"%s\" has two scalars or buffers of the name \"%s\"",
                ap_score_mod_name(m), name_of(m, i));
  RETURN_IF(
      args->bias != NULL || args->alibi != NULL, ATTNPRESS_NOT_SUPPORTED,
      "score_mod \"%s\" is given together with %s, which does not go with a snippet; the snippet "
      "can add it itself, from a buffer",
      ap_score_mod_name(m), args->bias != NULL ? "bias" : "alibi");
  return ATTNPRESS_OK;
}

/* ---- What the problem is told ---------------------------------------------------------------- */

static void hash_text(ap_hasher *hasher, const char *text) {
  const char *given = text != NULL ? text : "";
  ap_hash_part(hasher, given, strlen(given));
}

static void hash_name(ap_hasher *hasher, const char *name, int32_t dtype, int32_t rank) {
  const int32_t kind[2] = {dtype, rank};
  hash_text(hasher, name);
  ap_hash_part(hasher, kind, sizeof kind);
}

void ap_score_mod_describe(const attnpress_score_mod *mod, ap_problem *problem) {
  ap_hasher hasher;
  problem->mod_score = ap_text_is_given(mod->score);
  problem->mod_mask = ap_text_is_given(mod->mask);
  if (problem->mod_mask)
    problem->mod_mask_uses =
        (uses(mod->mask, "b") ? AP_MOD_USES_BATCH : 0) |
        (uses(mod->mask, "h") || uses(mod->mask, "h_kv") ? AP_MOD_USES_HEAD : 0);
  ap_hash_begin(&hasher);
  hash_text(&hasher, ap_score_mod_name(mod));
  hash_text(&hasher, problem->mod_score ? mod->score : NULL);
  hash_text(&hasher, problem->mod_mask ? mod->mask : NULL);
  for (int i = 0; i < mod->scalar_count; ++i)
    hash_name(&hasher, mod->scalars[i].name, mod->scalars[i].dtype, 0);
  for (int i = 0; i < mod->buffer_count; ++i)
    hash_name(&hasher, mod->buffers[i].name, mod->buffers[i].dtype, mod->buffers[i].rank);
  ap_hash_end(&hasher, problem->mod_key);
}

/* ---- The text -------------------------------------------------------------------------------- */

static void add(ap_text *text, const char *part) {
  ap_text_append_string(text, part);
}

/** "  const int b = snippet_at.b;" and its like, of the names that the text uses. */
static void add_names(ap_text *out, const attnpress_score_mod *m, const char *text) {
  static const char *const row[] = {"b", "h", "h_kv", "q"};
  static const char *const loads[] = {"", "fp16", "bf16", "fp32", "int32"};
  static const char *const indices[] = {"i", "j", "m", "n"};
  for (size_t i = 0; i < sizeof row / sizeof *row; ++i)
    if (uses(text, row[i])) {
      add(out, "  const int ");
      add(out, row[i]);
      add(out, " = snippet_at.");
      add(out, row[i]);
      add(out, ";\n");
    }
  if (uses(text, "INFINITY"))
    add(out, "  constexpr float INFINITY = INF;\n");
  for (int i = 0; i < m->scalar_count; ++i)
    if (uses(text, m->scalars[i].name)) {
      const int is_int = m->scalars[i].dtype == ATTNPRESS_INT32;
      add(out, is_int ? "  const int " : "  const float ");
      add(out, m->scalars[i].name);
      add(out, is_int ? " = snippet_int(snippet_mod, " : " = snippet_float(snippet_mod, ");
      ap_text_append_int(out, i);
      add(out, ");\n");
    }
  for (int i = 0; i < m->buffer_count; ++i) {
    const attnpress_score_buffer *b = &m->buffers[i];
    if (!uses(text, b->name))
      continue;
    add(out, "  const auto ");
    add(out, b->name);
    add(out, " = [snippet_mod](");
    for (int d = 0; d < b->rank; ++d) {
      add(out, d > 0 ? ", int " : "int ");
      add(out, indices[d]);
    }
    add(out, ") {\n    return snippet_");
    add(out, loads[b->dtype]);
    add(out, "(snippet_mod, ");
    ap_text_append_int(out, i);
    for (int d = 0; d < b->rank; ++d) {
      add(out, d > 0 ? " + snippet_step(snippet_mod, " : ", snippet_step(snippet_mod, ");
      ap_text_append_int(out, i);
      add(out, ", ");
      ap_text_append_int(out, d);
      add(out, ", ");
      add(out, indices[d]);
      add(out, ")");
    }
    add(out, ");\n  };\n");
  }
}

/** The user's own lines, as such. */
static void add_lines(ap_text *out, const attnpress_score_mod *m, const char *which,
                      const char *text) {
  add(out, "#line 1 \"");
  add(out, ap_score_mod_name(m));
  add(out, which);
  add(out, "\"\n");
  add(out, text);
  add(out, "\n");
}

static void write_text(ap_text *out, const attnpress_score_mod *m) {
  add(out, "\n// The snippet \"");
  add(out, ap_score_mod_name(m));
  add(out, "\".\n");
  if (ap_text_is_given(m->score)) {
    add(out,
        "__device__ __forceinline__ float snippet_score(const attnpress_mod_args *snippet_mod,\n"
        "                                               float snippet_given, SnippetRow "
        "snippet_at,\n"
        "                                               const int k, const int q_len,\n"
        "                                               const int k_len) {\n"
        "  SnippetScore score = {snippet_given};\n");
    add_names(out, m, m->score);
    add_lines(out, m, ".score", m->score);
    add(out, "  return score;\n}\n");
  }
  if (ap_text_is_given(m->mask)) {
    add(out,
        "\n__device__ __forceinline__ bool snippet_keeps(const attnpress_mod_args *snippet_mod,\n"
        "                                              SnippetRow snippet_at, const int k,\n"
        "                                              const int q_len, const int k_len) {\n");
    add_names(out, m, m->mask);
    add(out, "  return (bool)(\n");
    add_lines(out, m, ".mask", m->mask);
    add(out, "  );\n}\n");
  }
}

/** "names in scope are score, b ... and bias(i, j)". */
static void write_scope(ap_text *out, const attnpress_score_mod *m) {
  static const char *const indices[] = {"(i)", "(i, j)", "(i, j, m)", "(i, j, m, n)"};
  add(out, "names in scope are score (in the score's text), ");
  for (size_t i = 0; i < sizeof scope / sizeof *scope; ++i) {
    add(out, scope[i]);
    add(out, ", ");
  }
  for (int i = 0; i < m->scalar_count; ++i) {
    add(out, m->scalars[i].name);
    add(out, ", ");
  }
  for (int i = 0; i < m->buffer_count; ++i) {
    add(out, m->buffers[i].name);
    add(out, indices[m->buffers[i].rank - 1]);
    add(out, ", ");
  }
  add(out, "clampi(x, low, high), INFINITY and C's math functions");
}

static int contains(const char *line, int length, const char *words_) {
  const size_t size = strlen(words_);
  for (int i = 0; i + (int)size <= length; ++i)
    if (memcmp(line + i, words_, size) == 0)
      return 1;
  return 0;
}

static const char *explain(const char *line, int length) {
  if (contains(line, length, "bool)"))
    return "a comparison is no score: make it the mask, or write score = keep ? score : -INFINITY";
  if (contains(line, length, "argument"))
    return "a buffer is read with as many indices as it has dimensions";
  if (contains(line, length, "is undefined"))
    return "there is no such name";
  if (contains(line, length, "expected a \")\""))
    return "a mask is one expression, without a ';' or an assignment";
  if (contains(line, length, "expected a \";\""))
    return "a statement ends with a ';'";
  return NULL;
}

attnpress_status ap_score_mod_write(const attnpress_score_mod *mod, ap_snippet *fresh) {
  snprintf(fresh->name, sizeof fresh->name, "%s", ap_score_mod_name(mod));
  fresh->explain = explain;
  write_text(&fresh->text, mod);
  write_scope(&fresh->scope, mod);
  return ATTNPRESS_OK;
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

void ap_score_mod_fill(const attnpress_forward_args *args, const ap_plan *how,
                       attnpress_mod_args *out) {
  const attnpress_score_mod *m = args->score_mod;
  memset(out, 0, sizeof *out);
  out->natural_per_unit = ap_natural_per_unit(args);
  for (int i = 0; i < m->scalar_count; ++i) {
    const attnpress_score_scalar *s = &m->scalars[i];
    if (s->dtype == ATTNPRESS_INT32)
      memcpy(&out->scalar[i], &s->int_value, sizeof out->scalar[i]);
    else
      memcpy(&out->scalar[i], &s->value, sizeof out->scalar[i]);
  }
  for (int i = 0; i < m->buffer_count; ++i) {
    const attnpress_score_buffer *b = &m->buffers[i];
    out->buffer[i].data = b->data;
    for (int d = 0; d < b->rank; ++d) {
      out->buffer[i].extent[d] = (int32_t)b->shape[d];
      out->buffer[i].stride[d] = b->shape[d] > 1 ? b->stride[d] : 0;
    }
  }
  if (!ap_text_is_given(m->mask))
    return;
  out->map = (uint32_t *)(void *)((char *)args->workspace + how->map_offset_bytes);
  out->map_words = how->map_words;
  const int64_t head_words = (int64_t)how->row_blocks * how->map_words;
  out->map_head_stride = how->map_heads > 1 ? head_words : 0;
  out->map_batch_stride = how->map_batch > 1 ? how->map_heads * head_words : 0;
}

void ap_score_mod_fill_map(const ap_problem *problem, const ap_plan *how,
                           attnpress_fwd_map_args *out) {
  const int32_t *field = how->tile.field;
  const int32_t heads = how->heads_per_tile;
  out->block_n = field[AP_ATTENTION_TILE_BLOCK_N];
  out->row_block_rows = field[AP_ATTENTION_TILE_BLOCK_M];
  if (field[AP_ATTENTION_TILE_PRODUCER]) /* whole positions in each warpgroup */
    out->row_block_rows = field[AP_ATTENTION_TILE_BLOCK_M] / AP_ATTENTION_WARPGROUP_ROWS *
                          (AP_ATTENTION_WARPGROUP_ROWS / heads * heads);
  out->heads = problem->mod_mask_uses & AP_MOD_USES_HEAD ? heads : 1;
  out->mask = how->variant.axis[AP_ATTENTION_MASK];
  out->map_heads = how->map_heads;
  out->reserved = 0;
}
