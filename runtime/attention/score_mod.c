/* Snippets for scores and masks. Their texts are C that this file does not understand, except for the
 * names that they use. */
#include "attention/score_mod.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attention/defaults.h"
#include "attention/overlap.h"
#include "attention/score_args.h"
#include "press/snippet_text.h"

/* What a text may use beside its scalars and buffers, in the order of the sentence; `score` is in one
 * of the two texts alone. */
static const char *const names[] = {"score", "b", "h", "h_kv", "q", "k", "q_len", "k_len"};
static const ap_snippet_scope scope = {"score_mod", names, sizeof names / sizeof *names};

const char *ap_score_mod_name(const attnpress_score_mod *mod) {
  return mod->name != NULL ? mod->name : "mod";
}

static int has_grad(const attnpress_score_mod *mod) {
  return ap_snippet_is_given(mod->score_grad);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static attnpress_status check_texts(const attnpress_score_mod *m) {
  const char *name = ap_score_mod_name(m);
  FORWARD_IF(ap_snippet_check_title(&scope, name));
  RETURN_IF(
      !ap_snippet_is_given(m->score) && !ap_snippet_is_given(m->mask), ATTNPRESS_INVALID_ARGUMENT,
      "score_mod \"%s\" has neither a score nor a mask; give at least one of the two texts", name);
  RETURN_IF(ap_snippet_is_given(m->score_grad) && !ap_snippet_is_given(m->score),
            ATTNPRESS_INVALID_ARGUMENT,
            "score_mod \"%s\" has a score_grad and no score that it is the derivative of", name);
  FORWARD_IF(ap_snippet_check_size(&scope, "score", m->score));
  FORWARD_IF(ap_snippet_check_size(&scope, "score_grad", m->score_grad));
  return ap_snippet_check_size(&scope, "mask", m->mask);
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
  FORWARD_IF(ap_snippet_check_count(&scope, "scalar", m->scalar_count, ATTNPRESS_MOD_SCALARS_MAX,
                                    m->scalars));
  FORWARD_IF(ap_snippet_check_count(&scope, "buffer", m->buffer_count, ATTNPRESS_MOD_BUFFERS_MAX,
                                    m->buffers));
  FORWARD_IF(ap_snippet_check_scalars(&scope, m->scalars, m->scalar_count));
  for (int i = 0; i < m->buffer_count; ++i) {
    FORWARD_IF(ap_snippet_check_name(&scope, "buffers", i, m->buffers[i].name));
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

attnpress_status ap_check_dbuffers(const attnpress_backward_args *args, int with_data) {
  const attnpress_score_mod *m = args->score_mod;
  if (args->dbuffers == NULL)
    return ATTNPRESS_OK;
  RETURN_IF(m == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "dbuffers is given and score_mod is NULL; the gradients are by a snippet's buffers");
  for (int i = 0; i < m->buffer_count; ++i) {
    const attnpress_score_buffer *b = &m->buffers[i];
    const attnpress_dbuffer *d = &args->dbuffers[i];
    int64_t shape[4] = {1, 1, 1, 1}, stride[4] = {0, 0, 0, 0}, span = 0, part;
    if (d->data == NULL)
      continue;
    RETURN_IF(
        b->dtype == ATTNPRESS_INT32, ATTNPRESS_INVALID_ARGUMENT,
        "dbuffers[%d].data is given, and score_mod.buffers[%d] (%s) is of ATTNPRESS_INT32, by "
        "which there is no gradient; it must be NULL",
        i, i, b->name);
    RETURN_IF(!ap_snippet_is_given(m->score), ATTNPRESS_INVALID_ARGUMENT,
              "dbuffers[%d].data is given, and score_mod \"%s\" has no score: a mask has no "
              "gradient by %s; it must be NULL",
              i, ap_score_mod_name(m), b->name);
    RETURN_IF(with_data && (uintptr_t)d->data % sizeof(float) != 0, ATTNPRESS_INVALID_ARGUMENT,
              "dbuffers[%d].data (of %s) is %p; it must be aligned to 4 bytes", i, b->name,
              (void *)d->data);
    for (int n = 0; n < b->rank; ++n) {
      RETURN_IF(b->shape[n] > 1 && d->stride[n] < 0, ATTNPRESS_INVALID_ARGUMENT,
                "dbuffers[%d] (of %s).stride[%d] is %" PRId64 " elements; it must not be negative",
                i, b->name, n, d->stride[n]);
      RETURN_IF(b->shape[n] > 1 &&
                    (__builtin_mul_overflow(b->shape[n] - 1, d->stride[n], &part) ||
                     __builtin_add_overflow(span, part, &span) || span > INT64_MAX / 4),
                ATTNPRESS_INVALID_ARGUMENT,
                "dbuffers[%d] (of %s).stride[%d] %" PRId64 " times its extent overflows", i,
                b->name, n, d->stride[n]);
      shape[n] = b->shape[n];
      stride[n] = d->stride[n];
    }
    RETURN_IF(ap_rows_overlap(4, shape, stride, 1), ATTNPRESS_INVALID_ARGUMENT,
              "dbuffers[%d] (of %s).stride is %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
              ", so that elements meet; sorted, each stride must be at least the span below it",
              i, b->name, d->stride[0], d->stride[1], d->stride[2], d->stride[3]);
    RETURN_IF(args->deterministic, ATTNPRESS_NOT_SUPPORTED,
              "dbuffers[%d].data (of %s) is given and deterministic is 1; gradients of a snippet's "
              "buffers are added up in any order: leave one of the two out",
              i, b->name);
  }
  return ATTNPRESS_OK;
}

uint32_t ap_dbuffers_wanted(const attnpress_backward_args *args) {
  const attnpress_score_mod *m = args->score_mod;
  uint32_t wanted = 0;
  for (int i = 0; args->dbuffers != NULL && i < m->buffer_count; ++i)
    if (args->dbuffers[i].data != NULL && ap_snippet_uses(m->score, m->buffers[i].name))
      wanted |= 1u << i;
  return wanted;
}

/* ---- What the problem is told ---------------------------------------------------------------- */

void ap_score_mod_describe(const attnpress_score_mod *mod, int backward, uint32_t wanted,
                           ap_problem *problem) {
  ap_hasher hasher;
  problem->mod_score = ap_snippet_is_given(mod->score);
  problem->mod_mask = ap_snippet_is_given(mod->mask);
  if (problem->mod_mask)
    problem->mod_mask_uses =
        (ap_snippet_uses(mod->mask, "b") ? AP_MOD_USES_BATCH : 0) |
        (ap_snippet_uses(mod->mask, "h") || ap_snippet_uses(mod->mask, "h_kv") ? AP_MOD_USES_HEAD
                                                                               : 0);
  ap_hash_begin(&hasher);
  ap_snippet_hash_text(&hasher, backward ? "backward" : "forward");
  ap_snippet_hash_text(&hasher, ap_score_mod_name(mod));
  ap_snippet_hash_text(&hasher, problem->mod_score ? mod->score : NULL);
  ap_snippet_hash_text(&hasher, problem->mod_mask ? mod->mask : NULL);
  if (backward)
    ap_snippet_hash_text(&hasher, has_grad(mod) ? mod->score_grad : NULL);
  for (int i = 0; i < mod->buffer_count; ++i)
    if (wanted >> i & 1)
      ap_snippet_hash_name(&hasher, "gradient of", i, 0);
  problem->mod_grad = wanted != 0;
  for (int i = 0; i < mod->scalar_count; ++i)
    ap_snippet_hash_name(&hasher, mod->scalars[i].name, mod->scalars[i].dtype, 0);
  for (int i = 0; i < mod->buffer_count; ++i)
    ap_snippet_hash_name(&hasher, mod->buffers[i].name, mod->buffers[i].dtype,
                         mod->buffers[i].rank);
  ap_hash_end(&hasher, problem->mod_key);
}

/* ---- The text -------------------------------------------------------------------------------- */

static const char *const indices[] = {"i", "j", "m", "n"};

static void add(ap_text *text, const char *part) {
  ap_text_append_string(text, part);
}

/** "snippet_step(snippet_mod, 0, 0, i) + snippet_step(snippet_mod, 0, 1, j)": where an element of
 * buffer `number` lies. */
static void add_place(ap_text *out, const char *step, int number, int rank) {
  for (int d = 0; d < rank; ++d) {
    add(out, d > 0 ? " + " : "");
    add(out, step);
    ap_text_append_int(out, number);
    add(out, ", ");
    ap_text_append_int(out, d);
    add(out, ", ");
    add(out, indices[d]);
    add(out, ")");
  }
}

/** "  const int b = snippet_at.b;" and its like, of the names that the text uses. Buffers with a bit in
 * `traced` say what is read. */
static void add_names(ap_text *out, const attnpress_score_mod *m, const char *text,
                      uint32_t traced) {
  static const char *const row[] = {"b", "h", "h_kv", "q"};
  static const char *const loads[] = {"", "fp16", "bf16", "fp32", "int32"};
  for (size_t i = 0; i < sizeof row / sizeof *row; ++i)
    if (ap_snippet_uses(text, row[i])) {
      add(out, "  const int ");
      add(out, row[i]);
      add(out, " = snippet_at.");
      add(out, row[i]);
      add(out, ";\n");
    }
  if (ap_snippet_uses(text, "INFINITY"))
    add(out, "  constexpr float INFINITY = SNIPPET_INFINITY;\n");
  ap_snippet_add_scalars(out, text, m->scalars, m->scalar_count,
                         "snippet_float(snippet_mod->scalar, ",
                         "snippet_int(snippet_mod->scalar, ");
  for (int i = 0; i < m->buffer_count; ++i) {
    const attnpress_score_buffer *b = &m->buffers[i];
    if (!ap_snippet_uses(text, b->name))
      continue;
    add(out, "  const auto ");
    add(out, b->name);
    const int is_traced = traced >> i & 1;
    add(out, is_traced ? " = [snippet_mod, snippet_trace](" : " = [snippet_mod](");
    for (int d = 0; d < b->rank; ++d) {
      add(out, d > 0 ? ", int " : "int ");
      add(out, indices[d]);
    }
    add(out, ") {\n    return ");
    if (is_traced) {
      add(out, "snippet_read(snippet_trace, ");
      ap_text_append_int(out, i);
      add(out, ", ");
      add_place(out, "snippet_gradient_step(snippet_mod, snippet_trace, ", i, b->rank);
      add(out, ",\n        ");
    }
    add(out, "snippet_");
    add(out, loads[b->dtype]);
    add(out, "(snippet_mod, ");
    ap_text_append_int(out, i);
    add(out, ", ");
    add_place(out, "snippet_step(snippet_mod, ", i, b->rank);
    add(out, is_traced ? "));\n  };\n" : ");\n  };\n");
  }
}

/** Whether a name is one of a text's ints, a buffer of them, or a function of ints. */
static int is_whole(const void *of, const char *name, size_t size) {
  static const char *const known[] = {"b",   "h",   "h_kv",   "q",   "k",    "q_len", "k_len",
                                      "min", "max", "clampi", "abs", "true", "false"};
  const attnpress_score_mod *m = of;
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
    if (strlen(known[i]) == size && memcmp(known[i], name, size) == 0)
      return 1;
  for (int i = 0; i < m->scalar_count; ++i)
    if (strlen(m->scalars[i].name) == size && memcmp(m->scalars[i].name, name, size) == 0)
      return m->scalars[i].dtype == ATTNPRESS_INT32;
  for (int i = 0; i < m->buffer_count; ++i)
    if (strlen(m->buffers[i].name) == size && memcmp(m->buffers[i].name, name, size) == 0)
      return m->buffers[i].dtype == ATTNPRESS_INT32;
  return 0;
}

/** The mask of a tile: the text over again, in ranges; where it has other numbers, it may be either. */
static void write_tile_mask(ap_text *out, const attnpress_score_mod *m) {
  static const char *const row[] = {"b", "h", "h_kv", "q"};
  add(out,
      "\n__device__ __forceinline__ SnippetTruth snippet_keeps_tile(\n"
      "    const attnpress_mod_args *snippet_mod, SnippetTile snippet_at, const SnippetRange k,\n"
      "    const int q_len, const int k_len) {\n");
  if (!ap_snippet_is_whole(m->mask, is_whole, m)) {
    add(out, "  return SnippetTruth(true, true);\n}\n");
    return;
  }
  for (size_t i = 0; i < sizeof row / sizeof *row; ++i)
    if (ap_snippet_uses(m->mask, row[i])) {
      add(out, "  const SnippetRange ");
      add(out, row[i]);
      add(out, " = snippet_at.");
      add(out, row[i]);
      add(out, ";\n");
    }
  ap_snippet_add_scalars(out, m->mask, m->scalars, m->scalar_count,
                         "snippet_float(snippet_mod->scalar, ",
                         "snippet_int(snippet_mod->scalar, ");
  for (int i = 0; i < m->buffer_count; ++i) {
    const attnpress_score_buffer *b = &m->buffers[i];
    if (!ap_snippet_uses(m->mask, b->name))
      continue;
    add(out, "  const auto ");
    add(out, b->name);
    add(out, " = [snippet_mod](");
    for (int d = 0; d < b->rank; ++d) {
      add(out, d > 0 ? ", SnippetRange " : "SnippetRange ");
      add(out, indices[d]);
    }
    add(out, ") {\n    const SnippetRange snippet_indices[] = {");
    for (int d = 0; d < b->rank; ++d) {
      add(out, d > 0 ? ", " : "");
      add(out, indices[d]);
    }
    add(out, "};\n    return snippet_int32_range(snippet_mod, ");
    ap_text_append_int(out, i);
    add(out, ", ");
    ap_text_append_int(out, b->rank);
    add(out, ", snippet_indices);\n  };\n");
  }
  add(out, "  return (SnippetTruth)(\n");
  ap_snippet_add_lines(out, ap_score_mod_name(m), ".mask", m->mask);
  add(out, "  );\n}\n");
}

/** The head of a function of a text; `given`: its score, or "". */
static void begin_function(ap_text *out, const char *type, const char *name, const char *given) {
  add(out, "\n__device__ __forceinline__ ");
  add(out, type);
  add(out, " ");
  add(out, name);
  add(out, "(const attnpress_mod_args *snippet_mod, ");
  add(out, given);
  add(out, "SnippetRow snippet_at,\n    const int k, const int q_len, const int k_len) {\n");
}

static void write_score(ap_text *out, const attnpress_score_mod *m) {
  begin_function(out, "float", "snippet_score", "float snippet_given, ");
  add(out, "  SnippetScore score = {snippet_given};\n");
  add_names(out, m, m->score, 0);
  ap_snippet_add_lines(out, ap_score_mod_name(m), ".score", m->score);
  add(out, "  return score;\n}\n");
}

/** The text of one expression, behind the names that it uses. */
static void write_expression(ap_text *out, const attnpress_score_mod *m, const char *type,
                             const char *which, const char *text) {
  add_names(out, m, text, 0);
  add(out, "  return (");
  add(out, type);
  add(out, ")(\n");
  if (text == m->mask)
    ap_snippet_add_condition(out, ap_score_mod_name(m), which, text);
  else
    ap_snippet_add_lines(out, ap_score_mod_name(m), which, text);
  add(out, "  );\n}\n");
}

/** The score with its derivative: the text over again, in numbers that have one, or the caller's. */
static void write_dual_score(ap_text *out, const attnpress_score_mod *m) {
  if (has_grad(m)) {
    write_score(out, m);
    begin_function(out, "float", "snippet_score_grad", "const float score, ");
    write_expression(out, m, "float", ".score_grad", m->score_grad);
    begin_function(out, "SnippetDual", "snippet_dual_score", "SnippetDual score, ");
    add(out,
        "  return SnippetDual(\n"
        "      snippet_score(snippet_mod, score.value, snippet_at, k, q_len, k_len),\n"
        "      snippet_chain(score.derivative,\n"
        "            snippet_score_grad(snippet_mod, score.value, snippet_at, k, q_len, k_len)));\n"
        "}\n");
    return;
  }
  begin_function(out, "SnippetDual", "snippet_dual_score", "SnippetDual score, ");
  add_names(out, m, m->score, 0);
  ap_snippet_add_dual_lines(out, ap_score_mod_name(m), ".score", m->score);
  add(out, "  return score;\n}\n");
}

/** The score with its derivative by a number that it reads. */
static void write_traced_score(ap_text *out, const attnpress_score_mod *m, uint32_t wanted) {
  add(out, "\n#include \"attnpress/device/score_trace.cuh\"\n");
  begin_function(out, "SnippetDual", "snippet_traced_score",
                 "SnippetTrace *snippet_trace, float snippet_given, ");
  add(out, "  SnippetDual score = snippet_given;\n");
  add_names(out, m, m->score, wanted);
  ap_snippet_add_dual_lines(out, ap_score_mod_name(m), ".score", m->score);
  add(out, "  return score;\n}\n");
}

static void write_text(ap_text *out, const attnpress_score_mod *m, int backward, uint32_t wanted) {
  add(out, "\n// The snippet \"");
  add(out, ap_score_mod_name(m));
  add(out, "\".\n");
  if (ap_snippet_is_given(m->score) && backward)
    write_dual_score(out, m);
  else if (ap_snippet_is_given(m->score))
    write_score(out, m);
  if (wanted)
    write_traced_score(out, m, wanted);
  if (ap_snippet_is_given(m->mask)) {
    begin_function(out, "bool", "snippet_keeps", "");
    write_expression(out, m, "bool", ".mask", m->mask);
    if (!backward)
      write_tile_mask(out, m);
  }
}

/** "names in scope are score, b ... and bias(i, j)". */
static void write_scope(ap_text *out, const attnpress_score_mod *m) {
  static const char *const indices[] = {"(i)", "(i, j)", "(i, j, m)", "(i, j, m, n)"};
  add(out, "names in scope are score (in the score's text), ");
  for (int i = 1; i < scope.count; ++i) {
    add(out, names[i]);
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

static const char *explain(const char *line, int length) {
  if (ap_snippet_line_has(line, length, "SnippetDual"))
    return "in the gradient's copy of the text a float is a number with its derivative, which "
           "becomes "
           "an int by (int) alone; with score_grad, and without gradients of its buffers, there is "
           "no such copy";
  if (ap_snippet_line_has(line, length, "bool)"))
    return "a comparison is no score: make it the mask, or write score = keep ? score : -INFINITY";
  if (ap_snippet_line_has(line, length, "argument"))
    return "a buffer is read with as many indices as it has dimensions";
  if (ap_snippet_line_has(line, length, "is undefined"))
    return "there is no such name";
  if (ap_snippet_line_has(line, length, "expected a \")\""))
    return "a mask is one expression, without a ';' or an assignment";
  if (ap_snippet_line_has(line, length, "expected a \";\""))
    return "a statement ends with a ';'";
  return NULL;
}

attnpress_status ap_score_mod_write(const attnpress_score_mod *mod, int backward, uint32_t wanted,
                                    ap_snippet *fresh) {
  snprintf(fresh->name, sizeof fresh->name, "%s", ap_score_mod_name(mod));
  fresh->explain = explain;
  write_text(&fresh->text, mod, backward, wanted);
  write_scope(&fresh->scope, mod);
  return ATTNPRESS_OK;
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

void ap_score_mod_fill(const attnpress_forward_args *args, const ap_plan *how,
                       attnpress_mod_args *out) {
  const attnpress_score_mod *m = args->score_mod;
  memset(out, 0, sizeof *out);
  out->natural_per_unit = ap_natural_per_unit(args);
  for (int i = 0; i < m->scalar_count; ++i)
    out->scalar[i] = ap_snippet_scalar_bits(&m->scalars[i]);
  for (int i = 0; i < m->buffer_count; ++i) {
    const attnpress_score_buffer *b = &m->buffers[i];
    out->buffer[i].data = b->data;
    for (int d = 0; d < b->rank; ++d) {
      out->buffer[i].extent[d] = (int32_t)b->shape[d];
      out->buffer[i].stride[d] = b->shape[d] > 1 ? b->stride[d] : 0;
    }
  }
  if (!ap_snippet_is_given(m->mask) || how == NULL)
    return;
  out->ticket = (uint32_t *)(void *)((char *)args->workspace + how->map_offset_bytes);
  out->map = out->ticket + ATTNPRESS_MOD_MAP_BEGIN;
  out->map_words = how->map_words;
  if (how->map_bits_offset_bytes > 0)
    out->bits = (uint32_t *)(void *)((char *)args->workspace + how->map_bits_offset_bytes);
  const int64_t head_words = (int64_t)how->row_blocks * how->map_words;
  out->map_head_stride = how->map_heads > 1 ? head_words : 0;
  out->map_batch_stride = how->map_batch > 1 ? how->map_heads * head_words : 0;
}

void ap_dbuffers_fill(const attnpress_backward_args *args, attnpress_mod_gradients *out) {
  const attnpress_score_mod *m = args->score_mod;
  memset(out, 0, sizeof *out);
  for (int i = 0; args->dbuffers != NULL && i < m->buffer_count; ++i) {
    out->buffer[i].data = args->dbuffers[i].data;
    for (int d = 0; d < m->buffers[i].rank; ++d)
      out->buffer[i].stride[d] = m->buffers[i].shape[d] > 1 ? args->dbuffers[i].stride[d] : 0;
  }
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
