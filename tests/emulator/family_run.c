/* Words, kernel and report of `attnpress run FAMILY --device emulated`. */
#include "family_run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const run_dtype_names[] = {"any", "fp16", "bf16", "fp32", NULL};

const char *const run_arch_names[] = {"sm80", "sm86", "sm90", NULL};

const ap_device run_devices[RUN_ARCHS] = {{.capability = 80,
                                           .sm_count = 108,
                                           .threads_per_sm = 2048,
                                           .smem_per_sm_bytes = 164 * 1024,
                                           .smem_per_block_bytes = 163 * 1024},
                                          {.capability = 86,
                                           .sm_count = 84,
                                           .threads_per_sm = 1536,
                                           .smem_per_sm_bytes = 100 * 1024,
                                           .smem_per_block_bytes = 99 * 1024},
                                          {.capability = 90,
                                           .sm_count = 132,
                                           .threads_per_sm = 2048,
                                           .smem_per_sm_bytes = 228 * 1024,
                                           .smem_per_block_bytes = 227 * 1024,
                                           .tma = 1}};

static const char exit_status[] =
    "\nexit status: 0 the check held, 1 it did not or the kernel has a fault, 2 the words were "
    "wrong\n";

/* ---- Words ----------------------------------------------------------------------------------- */

/* What a value must be; NULL: it is that. */
static const char *parse_number(const run_number *n, int64_t most, const char *text) {
  static char allowed[64];
  char *end;
  errno = 0;
  *n->value = strtoll(text, &end, 10);
  const int size =
      snprintf(allowed, sizeof allowed, "a whole number from %lld", (long long)n->least);
  if (most < INT64_MAX)
    snprintf(allowed + size, sizeof allowed - (size_t)size, " to %lld", (long long)most);
  return *text != '\0' && *end == '\0' && errno == 0 && *n->value >= n->least && *n->value <= most
             ? NULL
             : allowed;
}

static const char *parse_int(const run_int *i, const char *text) {
  int64_t value = 0;
  const char *allowed = parse_number(&(run_number){i->name, &value, i->least}, INT32_MAX, text);
  *i->value = (int)value;
  return allowed;
}

static const char *parse_choice(const run_choice *c, const char *text) {
  static char allowed[128];
  *allowed = '\0';
  for (int i = c->first; c->names[i] != NULL; ++i) {
    if (strcmp(text, c->names[i]) == 0)
      return *c->value = i, NULL;
    const size_t used = strlen(allowed);
    const char *between = i == c->first ? "" : c->names[i + 1] == NULL ? " or " : ", ";
    snprintf(allowed + used, sizeof allowed - used, "%s%s", between, c->names[i]);
  }
  return allowed;
}

static const char *parse_real(const run_real *r, const char *text) {
  char *end;
  *r->value = strtof(text, &end);
  return *text != '\0' && *end == '\0' && *r->value != 0.0f ? NULL : "a number, and not 0";
}

static const char *keep_text(const run_text *t, const char *text) {
  int count = 0;
  while (count < t->most && t->value[count] != NULL)
    ++count;
  if (count == t->most)
    return "given less often";
  t->value[count] = text;
  return NULL;
}

/* NULL, or what the value must be; "": the name is not known. */
static const char *parse_value(const run_words *w, const char *name, const char *value) {
  for (const run_number *n = w->numbers; n != NULL && n->name != NULL; ++n)
    if (strcmp(name, n->name) == 0)
      return parse_number(n, INT64_MAX, value);
  for (const run_int *i = w->ints; i != NULL && i->name != NULL; ++i)
    if (strcmp(name, i->name) == 0)
      return parse_int(i, value);
  for (const run_choice *c = w->choices; c != NULL && c->name != NULL; ++c)
    if (strcmp(name, c->name) == 0)
      return parse_choice(c, value);
  for (const run_real *r = w->reals; r != NULL && r->name != NULL; ++r)
    if (strcmp(name, r->name) == 0)
      return parse_real(r, value);
  for (const run_text *t = w->texts; t != NULL && t->name != NULL; ++t)
    if (strcmp(name, t->name) == 0)
      return keep_text(t, value);
  if (strcmp(name, "--stem") == 0)
    return w->kernel->stem = value, NULL;
  if (strcmp(name, "--source") == 0)
    return w->kernel->source = value, NULL;
  if (strcmp(name, "--device") == 0)
    return strcmp(value, "emulated") == 0 ? NULL : "emulated, as another word says";
  return w->others != NULL ? w->others->value(w->others->of, name, value) : "";
}

static int parse_flag(const run_words *w, const char *word) {
  for (const run_flag *f = w->flags; f != NULL && f->name != NULL; ++f)
    if (strcmp(word, f->name) == 0)
      return *f->value = 1, 0;
  if (strcmp(word, "--templates") == 0)
    return w->kernel->templates = 1, 0;
  return w->others != NULL && w->others->flag(w->others->of, word) ? 0 : -1;
}

void *copy_rows(const void *data, int64_t rows, size_t row_bytes, int64_t stride) {
  char *copy = malloc((size_t)rows * row_bytes + 1);
  if (copy == NULL)
    abort();
  for (int64_t row = 0; row < rows; ++row)
    memcpy(copy + (size_t)row * row_bytes, (const char *)data + row * stride, row_bytes);
  return copy;
}

int run_refuse(const run_words *words, const char *format, ...) {
  va_list values;
  fprintf(stderr, "attnpress run%s%s: ", words->family != NULL ? " " : "",
          words->family != NULL ? words->family : "");
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fprintf(stderr, "; see attnpress run%s%s --device emulated --help\n",
          words->family != NULL ? " " : "", words->family != NULL ? words->family : "");
  return RUN_WRONG_WORDS;
}

int run_parse(const run_words *words, int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      fputs(words->help, stdout);
      if (words->others != NULL)
        tool_print_options(stdout, words->others->options);
      fputs(exit_status, stdout);
      return 0;
    }
  for (int i = 1; i < argc; ++i) {
    char name[32];
    const char *equals = strchr(argv[i], '=');
    if (parse_flag(words, argv[i]) == 0)
      continue;
    const int size = equals != NULL ? (int)(equals - argv[i]) : (int)strlen(argv[i]);
    snprintf(name, sizeof name, "%.*s", size, argv[i]);
    const char *value = equals != NULL ? equals + 1 : i + 1 < argc ? argv[++i] : "";
    const char *allowed = parse_value(words, name, value);
    if (allowed == NULL)
      continue;
    return *allowed == '\0'
               ? run_refuse(words, "\"%s\" is not an option of --device emulated", name)
               : run_refuse(words, "%s is \"%s\"; it must be %s", name, value, allowed);
  }
  return RUN_GOES_ON;
}

/* ---- Kernel and report ----------------------------------------------------------------------- */

int run_open(const run_kernel *meant, const ap_variant *chosen, kernel *k, char *report) {
  char stem[AP_STEM_MAX];
  const char *name = meant->stem;
  if (meant->source != NULL)
    return kernel_open(k, meant->source, report);
  if (name == NULL) {
    if (ap_variant_print(chosen, stem) != ATTNPRESS_OK) {
      snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
      return -1;
    }
    name = stem;
  }
  return meant->templates ? kernel_generate(k, name, report) : kernel_press(k, name, NULL, report);
}

int run_print(const kernel *k, const char *shape, int failed, double ratio, int64_t elements,
              const char *report) {
  printf("kernel    %s, %d threads, %d bytes of shared memory\nshape     %s\n", k->stem,
         k->tile.threads, k->tile.smem_bytes, shape);
  if (failed)
    printf("check     FAILED: %s\n", report);
  else
    printf("error     %.3f of the tolerance\ncheck     held, over %lld elements, and no fault\n",
           ratio, (long long)elements);
  return failed != 0;
}
