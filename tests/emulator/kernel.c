/* Kernels from sources: given by their paths, rendered by the library, or made from the templates
 * by the generator. Built with EMULATED_SOURCE_DIR, the project's folder, and EMULATED_PYTHON, for
 * the generator. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp, popen */
#include "forward.h"
#include "family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 256 };

/* ---- Text ------------------------------------------------------------------------------------ */

static char *read_text(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    return NULL;
  size_t size = 0, capacity = 1 << 16;
  char *text = malloc(capacity + 1);
  while (text != NULL && !feof(file) && !ferror(file)) {
    size += fread(text + size, 1, capacity - size, file);
    if (size == capacity) {
      char *larger = realloc(text, 2 * capacity + 1);
      if (larger == NULL)
        break;
      text = larger;
      capacity *= 2;
    }
  }
  fclose(file);
  if (text != NULL)
    text[size] = '\0';
  return text;
}

const emulated_family *emulated_family_of(const ap_variant *variant) {
#define FAMILY_ROW(name, NAME) [AP_FAMILY_##NAME] = &emulated_##name,
  static const emulated_family *const families[] = {AP_FAMILIES(FAMILY_ROW)};
#undef FAMILY_ROW
  return families[variant->family];
}

int32_t source_constant(const char *source, const char *name) {
  char line[128];
  snprintf(line, sizeof line, "constexpr int %s = ", name);
  const char *found = strstr(source, line);
  return found ? (int32_t)strtol(found + strlen(line), NULL, 10) : 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static char folder[64]; /* of this process; removed at its end */
static pid_t folder_owner;

static void remove_folder(void) {
  if (folder_owner == getpid())
    rmdir(folder);
}

/* "<temporary folder>/<stem><suffix>" */
static int temporary_path(char path[PATH_BYTES], const char *stem, const char *suffix) {
  if (folder_owner != getpid()) {
    snprintf(folder, sizeof folder, "/tmp/attnpress-emulated-XXXXXX");
    if (mkdtemp(folder) == NULL)
      return -1;
    folder_owner = getpid();
    atexit(remove_folder);
  }
  snprintf(path, PATH_BYTES, "%s/%s%s", folder, stem, suffix);
  return 0;
}

/* ---- Snippets -------------------------------------------------------------------------------- */

static snippet_file mods[8]; /* those that were read, kept until the process ends */
static char mod_paths[8][PATH_BYTES];
static int mod_count;
static int mod_in_use = -1; /* of all kernels; -1: each has its own */

/* The place of a file's snippet, which is read once; -1 with the reason in `report`. */
static int read_mod(const char *path, char *report) {
  for (int i = 0; i < mod_count; ++i)
    if (strcmp(mod_paths[i], path) == 0)
      return i;
  if (mod_count == (int)(sizeof mods / sizeof *mods) ||
      snippet_file_read(&mods[mod_count], path, report, EMULATED_REPORT_BYTES) != 0)
    return -1;
  snprintf(mod_paths[mod_count], PATH_BYTES, "%s", path);
  return mod_count++;
}

int kernel_use_mod(const char *path, const char *const *scalars, char *report) {
  mod_in_use = path != NULL ? read_mod(path, report) : -1;
  if (path != NULL && mod_in_use < 0)
    return -1;
  for (; path != NULL && *scalars != NULL; ++scalars)
    if (snippet_file_set(&mods[mod_in_use], *scalars, report, EMULATED_REPORT_BYTES) != 0)
      return -1;
  return 0;
}

const snippet_file *kernel_mod(void) {
  return mod_in_use < 0 ? NULL : &mods[mod_in_use];
}

int kernel_find_with_mod(kernel *k, const char *name, const snippet_file *mod, char *report) {
  const int before = mod_in_use;
  mod_in_use = (int)(mod - mods);
  const int status = kernel_find(k, name, report);
  mod_in_use = before;
  return status;
}

static int write_text(const char *path, const char *text, size_t size);

static int compile_and_load(kernel *k, const char *source_path, char *report) {
  static int count; /* a path of its own, as dlopen() knows a module by it */
  char module[PATH_BYTES], suffix[16];
  snprintf(suffix, sizeof suffix, "-%d.so", count++);
  if (temporary_path(module, k->stem, suffix) != 0) {
    snprintf(report, EMULATED_REPORT_BYTES, "no folder could be made in /tmp");
    return -1;
  }
  if (emulated_compile(source_path, module, report) == 0)
    k->module = emulated_load(module, k->stem, report);
  unlink(module);
  return k->module ? 0 : -1;
}

/* The source, with the snippet's text behind it. */
static int compile_with_mod(kernel *k, const char *source, char *report) {
  const emulated_family *family = emulated_family_of(&k->variant);
  char path[PATH_BYTES];
  int mod = mod_in_use;
  if (mod < 0)
    mod = read_mod(family->mod_of(&k->variant, k->stem), report);
  if (mod < 0)
    return -1;
  k->mod = &mods[mod];
  ap_text whole = {0};
  ap_text_append_string(&whole, source);
  if (family->write_mod(k->mod, &k->variant, &whole, report) != 0) {
    free(whole.data);
    return -1;
  }
  char name[AP_STEM_MAX + 8];
  snprintf(name, sizeof name, "%s-mod", k->stem); /* beside the source that is without */
  int status = -1;
  if (!whole.failed && temporary_path(path, name, ".cu") == 0 &&
      write_text(path, whole.data, whole.size) == 0)
    status = compile_and_load(k, path, report);
  else
    snprintf(report, EMULATED_REPORT_BYTES, "%s.cu could not be written in /tmp", name);
  unlink(path);
  free(whole.data);
  return status;
}

int kernel_open(kernel *k, const char *path, char *report) {
  *k = (kernel){0};
  const char *slash = strrchr(path, '/');
  snprintf(k->stem, sizeof k->stem, "%s", slash ? slash + 1 : path);
  k->stem[strcspn(k->stem, ".")] = '\0';
  if (ap_variant_parse(k->stem, &k->variant) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  char *source = read_text(path);
  if (source == NULL) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s cannot be read", path);
    return -1;
  }
  emulated_family_of(&k->variant)->read_tile(source, &k->variant, &k->tile);
  k->overlaps = strstr(source, "attnpress/device/ptx_griddepcontrol.cuh") != NULL;
  const int status = ap_takes_snippet(&k->variant) ? compile_with_mod(k, source, report)
                                                   : compile_and_load(k, path, report);
  k->source = source;
  return status;
}

int kernel_open_again(kernel *k, const kernel *of, const char *mod_path, char *report) {
  const int before = mod_in_use;
  *k = *of;
  k->module = NULL;
  k->source = NULL;
  mod_in_use = read_mod(mod_path, report);
  const int status = mod_in_use < 0 ? -1 : compile_with_mod(k, of->source, report);
  mod_in_use = before;
  return status;
}

static int write_text(const char *path, const char *text, size_t size) {
  FILE *file = fopen(path, "wb");
  if (file == NULL)
    return -1;
  const size_t written = fwrite(text, 1, size, file);
  return fclose(file) == 0 && written == size ? 0 : -1;
}

int kernel_press(kernel *k, const char *stem, const ap_tile *tile, char *report) {
  ap_variant variant;
  ap_tile own;
  char *source = NULL, path[PATH_BYTES];
  size_t size;
  *k = (kernel){0};
  if (ap_variant_parse(stem, &variant) != ATTNPRESS_OK ||
      (tile == NULL && ap_find_tile(&variant, NULL, &own) != ATTNPRESS_OK) ||
      ap_render(&variant, tile ? tile : &own, NULL, &source, &size) != ATTNPRESS_OK) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  if (temporary_path(path, stem, ".cu") != 0 || write_text(path, source, size) != 0) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s.cu could not be written in /tmp", stem);
    free(source);
    return -1;
  }
  free(source);
  const int status = kernel_open(k, path, report);
  unlink(path);
  return status;
}

/* " --hdim 64 --causal ...": a variant, as the generator's command line has it. */
static void print_options(const ap_variant *v, char *text, size_t bytes) {
  const ap_family *family = ap_families[v->family];
  size_t used = (size_t)snprintf(text, bytes, " --family %s", family->name);
  for (int32_t i = 0; i < family->axis_count && used < bytes; ++i) {
    const ap_axis *axis = &family->axes[i];
    const char *word = ap_word_of(v, i);
    char name[64];
    snprintf(name, sizeof name, "%s", axis->name);
    for (char *c = name; *c != '\0'; ++c)
      *c = *c == '_' ? '-' : *c;
    if (axis->kind == AP_AXIS_FLAG)
      used += (size_t)snprintf(text + used, bytes - used, v->axis[i] ? " --%s" : "", name);
    else if (word != NULL)
      used += (size_t)snprintf(text + used, bytes - used, " --%s %s", name, word);
    else
      used += (size_t)snprintf(text + used, bytes - used, " --%s %s%d", name, axis->shown,
                               (int)v->axis[i]);
  }
}

int kernel_generate(kernel *k, const char *stem, char *report) {
  ap_variant v;
  char path[PATH_BYTES], options[512], command[2048];
  *k = (kernel){0};
  if (ap_variant_parse(stem, &v) != ATTNPRESS_OK || temporary_path(path, stem, ".cu") != 0) {
    snprintf(report, EMULATED_REPORT_BYTES, "%s", attnpress_last_error());
    return -1;
  }
  print_options(&v, options, sizeof options);
  snprintf(command, sizeof command,
           "cd '" EMULATED_SOURCE_DIR "' && '" EMULATED_PYTHON
           "' -B -m generator%s --out '%s' 2>&1 >/dev/null",
           options, folder);
  FILE *words = popen(command, "r");
  if (words == NULL) {
    snprintf(report, EMULATED_REPORT_BYTES, "the generator could not be started");
    return -1;
  }
  const size_t size = fread(report, 1, EMULATED_REPORT_BYTES - 1, words);
  report[size] = '\0';
  if (pclose(words) != 0)
    return -1;
  const int status = kernel_open(k, path, report);
  unlink(path);
  return status;
}

void kernel_close(kernel *k) {
  emulated_unload(k->module);
  free(k->source);
  k->module = NULL;
  k->source = NULL;
}
