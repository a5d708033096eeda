/* A caller's function in place of the multiplication: attnpress_outer_mod from its check to the text
 * that ends a kernel's source and the numbers that go with it. */
#include <stdio.h>
#include <string.h>

#include "outer/outer.h"
#include "press/snippet_text.h"

enum { MOD_FIRST_BYTES = 40 /* in the version that brought it; it never changes */ };
_Static_assert((int)ATTNPRESS_OUTER_SCALARS_MAX == (int)AP_SNIPPET_SCALARS_MAX, "scalars");

static const char *const names[] = {"x", "y"};
static const ap_snippet_scope scope = {"mod", names, sizeof names / sizeof *names};

static const char *name_of(const attnpress_outer_mod *mod) {
  return mod->name != NULL ? mod->name : "f";
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static attnpress_status check(const attnpress_outer_mod *mod, ap_check how) {
  FORWARD_IF(ap_snippet_check_title(&scope, name_of(mod)));
  RETURN_IF(!ap_snippet_is_given(mod->value), ATTNPRESS_INVALID_ARGUMENT,
            "mod.value is %s; it must be an expression of x and y, such as \"x * y\"",
            mod->value == NULL ? "NULL" : "blank");
  FORWARD_IF(ap_snippet_check_size(&scope, "value", mod->value));
  RETURN_IF(mod->reserved != 0, ATTNPRESS_INVALID_ARGUMENT, "mod.reserved is %d; it must be 0",
            (int)mod->reserved);
  FORWARD_IF(ap_snippet_check_count(&scope, "scalar", mod->scalar_count,
                                    ATTNPRESS_OUTER_SCALARS_MAX, mod->scalars));
  FORWARD_IF(ap_snippet_check_scalars(&scope, mod->scalars, mod->scalar_count));
  for (int i = 0; i < mod->scalar_count; ++i)
    for (int j = 0; j < i; ++j)
      RETURN_IF(strcmp(mod->scalars[i].name, mod->scalars[j].name) == 0, ATTNPRESS_INVALID_ARGUMENT,
                "mod \"%s\" has two scalars of the name \"%s\"", name_of(mod),
                mod->scalars[i].name);
  RETURN_IF(
      how.backend == ATTNPRESS_CPU, ATTNPRESS_NOT_SUPPORTED,
      "mod \"%s\" is a text that is compiled for a GPU; the CPU backend cannot run it: leave it "
      "out, or compute f(x, y) beforehand",
      name_of(mod));
  return ATTNPRESS_OK;
}

attnpress_status ap_outer_mod_take(const attnpress_outer_mod *given, ap_check how,
                                   ap_outer_problem *p) {
  if (given == NULL)
    return ATTNPRESS_OK;
  FORWARD_IF(ap_copy_struct(given, &p->mod, sizeof p->mod, MOD_FIRST_BYTES, "mod"));
  FORWARD_IF(check(&p->mod, how));
  ap_hasher hasher;
  ap_hash_begin(&hasher);
  ap_snippet_hash_text(&hasher, p->backward ? "outer backward" : "outer");
  ap_snippet_hash_text(&hasher, name_of(&p->mod));
  ap_snippet_hash_text(&hasher, p->mod.value);
  for (int i = 0; i < p->mod.scalar_count; ++i)
    ap_snippet_hash_name(&hasher, p->mod.scalars[i].name, p->mod.scalars[i].dtype, 0);
  ap_hash_end(&hasher, p->mod_key);
  p->has_mod = 1;
  return ATTNPRESS_OK;
}

/* ---- The text -------------------------------------------------------------------------------- */

static const char *explain(const char *line, int length) {
  if (ap_snippet_line_has(line, length, "is undefined"))
    return "there is no such name";
  if (ap_snippet_line_has(line, length, "expected a \")\""))
    return "it is one expression, without a ';' or an assignment";
  if (ap_snippet_line_has(line, length, "SnippetDual"))
    return "in the gradient's copy of the text a float is a number with its derivative, which "
           "becomes "
           "an int by (int) alone";
  return NULL;
}

attnpress_status ap_outer_mod_write(const attnpress_outer_mod *mod, int backward,
                                    ap_snippet *fresh) {
  ap_text *out = &fresh->text;
  snprintf(fresh->name, sizeof fresh->name, "%s", name_of(mod));
  fresh->explain = explain;
  ap_text_append_string(out, "\n// The function \"");
  ap_text_append_string(out, name_of(mod));
  ap_text_append_string(
      out, backward ? "\", with its derivative.\n"
                      "__device__ __forceinline__ SnippetDual snippet_dual(const uint32_t "
                      "*snippet_scalars,\n    const SnippetDual x, const SnippetDual y) {\n"
                    : "\".\n"
                      "__device__ __forceinline__ float snippet_value(const uint32_t "
                      "*snippet_scalars,\n    const float x, const float y) {\n");
  if (ap_snippet_uses(mod->value, "INFINITY"))
    ap_text_append_string(out, "  constexpr float INFINITY = SNIPPET_INFINITY;\n");
  ap_snippet_add_scalars(out, mod->value, mod->scalars, mod->scalar_count,
                         "snippet_float(snippet_scalars, ", "snippet_int(snippet_scalars, ");
  if (backward) {
    ap_text_append_string(out, "  return SnippetDual(\n");
    ap_snippet_add_dual_lines(out, name_of(mod), "", mod->value);
  } else {
    ap_text_append_string(out, "  return (float)(\n");
    ap_snippet_add_lines(out, name_of(mod), "", mod->value);
  }
  ap_text_append_string(out, "  );\n}\n");
  ap_text_append_string(&fresh->scope, "names in scope are x, y, ");
  for (int i = 0; i < mod->scalar_count; ++i) {
    ap_text_append_string(&fresh->scope, mod->scalars[i].name);
    ap_text_append_string(&fresh->scope, ", ");
  }
  ap_text_append_string(&fresh->scope, "clampi(x, low, high), INFINITY and C's math functions");
  return ATTNPRESS_OK;
}

/* ---- Kernel arguments ------------------------------------------------------------------------ */

void ap_outer_mod_fill(const ap_outer_problem *p, uint32_t scalar[ATTNPRESS_OUTER_SCALARS_MAX]) {
  for (int i = 0; p->has_mod && i < p->mod.scalar_count; ++i)
    scalar[i] = ap_snippet_scalar_bits(&p->mod.scalars[i]);
}
