/* attnpress prebuild: compiles the default set for the library's own build.
 *
 * Writes to a folder: <stem>.<target>.cubin.zst each, prebuilt_cubins.S that includes them,
 * prebuilt_cubins.c that lists them for runtime/press/registry.h, and prebuilt_manifest.txt. The
 * manifest says for each cubin the key of what it was made from and the checksum of what came out:
 * a cubin for which both still hold is not compiled again. Every file is written beside its place
 * and renamed, so that a build that was interrupted goes on where it was. A second build of the
 * same folder waits for the first. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/hash.h"
#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "tool.h"

enum { KEY_TEXT = 33, JOBS_MAX = 256, PATH_BYTES = PATH_MAX + 256 };

/** One cubin of the set. */
typedef struct item {
  ap_request request;
  char *source;
  size_t source_size;
  char key[KEY_TEXT], checksum[KEY_TEXT];
  size_t size, stored_size; /* of the cubin, and compressed */
  int32_t registers, spill_bytes;
  int done;
} item;

typedef struct press {
  const char *dir; /* absolute */
  item *items;
  size_t count;
  attnpress_handle *handle;

  pthread_mutex_t lock; /* all below */
  size_t next, to_compile, compiled;
  int failed;
  char sentence[AP_SENTENCE_MAX];
} press;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void hash_text(const void *data, size_t size, char text[KEY_TEXT]) {
  ap_key key;
  const ap_part part = {data, size};
  ap_hash(&part, 1, key.bytes);
  ap_key_print(&key, text);
}

static void cubin_path(const press *p, const item *it, char path[PATH_BYTES]) {
  snprintf(path, PATH_BYTES, "%s/%s.%s.cubin.zst", p->dir, it->request.stem, it->request.target);
}

/** The whole of a file, to be freed; NULL where it cannot be read. */
static char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  struct stat s;
  if (file == NULL)
    return NULL;
  char *data = fstat(fileno(file), &s) == 0 ? malloc((size_t)s.st_size + 1) : NULL;
  if (data != NULL) {
    *size = fread(data, 1, (size_t)s.st_size, file);
    data[*size] = '\0';
  }
  fclose(file);
  return data;
}

/** Writes a file beside its place and renames it. */
static int write_file(const char *path, const void *data, size_t size) {
  char temporary[PATH_BYTES + 8];
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  FILE *file = fopen(temporary, "wb");
  int good = file != NULL && fwrite(data, 1, size, file) == size;
  int error = errno;
  if (file != NULL && fclose(file) != 0 && good) {
    good = 0;
    error = errno;
  }
  if (good && rename(temporary, path) != 0) {
    good = 0;
    error = errno;
  }
  if (!good) {
    unlink(temporary);
    ap_fail(ATTNPRESS_IO_ERROR, "%s could not be written: %s", path, strerror(error));
  }
  return good;
}

static void append(ap_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(ap_text *text, const char *format, ...) {
  char line[PATH_BYTES + 512];
  va_list values;
  va_start(values, format);
  vsnprintf(line, sizeof line, format, values);
  va_end(values);
  ap_text_append_string(text, line);
}

static int write_text(const press *p, const char *name, ap_text *text) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/%s", p->dir, name);
  const int good = !text->failed && write_file(path, text->data ? text->data : "", text->size);
  free(text->data);
  return good;
}

/* ---- What is there already ------------------------------------------------------------------- */

static int write_manifest(const press *p) {
  ap_text text = {NULL, 0, 0, 0};
  append(&text, "# key, checksum, bytes, registers, spill bytes, stem, target\n");
  for (size_t i = 0; i < p->count; ++i)
    if (p->items[i].done)
      append(&text, "%s %s %zu %d %d %s %s\n", p->items[i].key, p->items[i].checksum,
             p->items[i].size, (int)p->items[i].registers, (int)p->items[i].spill_bytes,
             p->items[i].request.stem, p->items[i].request.target);
  return write_text(p, "prebuilt_manifest.txt", &text);
}

static item *find_item(const press *p, const char *stem, const char *target) {
  for (size_t i = 0; i < p->count; ++i)
    if (strcmp(p->items[i].request.stem, stem) == 0 &&
        strcmp(p->items[i].request.target, target) == 0)
      return &p->items[i];
  return NULL;
}

/** Marks the item done where its cubin is there, made from the same, and whole. */
static void reuse(const press *p, const char *line) {
  char key[KEY_TEXT], checksum[KEY_TEXT], found[KEY_TEXT], stem[AP_STEM_MAX], target[AP_TARGET_MAX],
      path[PATH_BYTES];
  int registers, spill_bytes;
  size_t cubin_size;
  if (sscanf(line, "%32s %32s %zu %d %d %127s %15s", key, checksum, &cubin_size, &registers,
             &spill_bytes, stem, target) != 7)
    return;
  item *it = find_item(p, stem, target);
  if (it == NULL || strcmp(it->key, key) != 0)
    return;
  size_t size = 0;
  cubin_path(p, it, path);
  char *frame = read_file(path, &size);
  if (frame == NULL)
    return;
  hash_text(frame, size, found);
  free(frame);
  if (strcmp(found, checksum) != 0)
    return;
  memcpy(it->checksum, checksum, sizeof checksum);
  it->size = cubin_size;
  it->stored_size = size;
  it->registers = registers;
  it->spill_bytes = spill_bytes;
  it->done = 1;
}

static void read_manifest(const press *p) {
  char path[PATH_BYTES];
  size_t size;
  snprintf(path, sizeof path, "%s/prebuilt_manifest.txt", p->dir);
  char *text = read_file(path, &size), *rest = NULL;
  for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line != NULL;
       line = strtok_r(NULL, "\n", &rest))
    if (*line != '#')
      reuse(p, line);
  free(text);
}

/* ---- Compiling ------------------------------------------------------------------------------- */

static attnpress_status prepare_items(press *p) {
  for (size_t i = 0; i < p->count; ++i) {
    item *it = &p->items[i];
    ap_variant variant;
    ap_key key;
    FORWARD_IF(ap_variant_parse(ap_default_set[i].stem, &variant));
    FORWARD_IF(ap_request_init(&it->request, &variant, ap_default_set[i].target));
    FORWARD_IF(ap_render(&variant, &it->request.tile, NULL, &it->source, &it->source_size));
    ap_cubin_key(it->source, it->source_size, it->request.target, &key);
    ap_key_print(&key, it->key);
  }
  return ATTNPRESS_OK;
}

/** Compresses the image and writes it to the item's file. */
static int store(const press *p, item *it, const ap_image *image) {
  char path[PATH_BYTES];
  void *frame;
  if (!tool_compress(image->data, image->size, &frame, &it->stored_size))
    return 0;
  it->size = image->size;
  hash_text(frame, it->stored_size, it->checksum);
  cubin_path(p, it, path);
  const int good = write_file(path, frame, it->stored_size);
  free(frame);
  return good;
}

static int compile_item(press *p, item *it) {
  ap_nvrtc *nvrtc;
  ap_image image;
  if (ap_compiler_get(&p->handle->finder.compiler, &nvrtc) != ATTNPRESS_OK ||
      ap_jit_compile(nvrtc, &p->handle->log, &it->request, it->source, &image) != ATTNPRESS_OK)
    return 0;
  const int good = store(p, it, &image);
  it->registers = image.registers;
  it->spill_bytes = image.spill_bytes;
  const double ms = image.compile_ms;
  ap_image_free(&image);
  if (!good)
    return 0;

  pthread_mutex_lock(&p->lock);
  it->done = 1;
  ++p->compiled;
  printf("[%3zu/%zu] %6.0f ms  %3d registers  %4d spilled  %7zu bytes  %s %s %s\n", p->compiled,
         p->to_compile, ms, (int)it->registers, (int)it->spill_bytes, it->size, it->request.stem,
         it->request.tile_name, it->request.target);
  fflush(stdout);
  const int kept = write_manifest(p);
  pthread_mutex_unlock(&p->lock);
  return kept;
}

static void *work(void *argument) {
  press *p = argument;
  for (;;) {
    pthread_mutex_lock(&p->lock);
    while (p->next < p->count && p->items[p->next].done)
      ++p->next;
    item *it = p->next < p->count && !p->failed ? &p->items[p->next++] : NULL;
    pthread_mutex_unlock(&p->lock);
    if (it == NULL)
      return NULL;
    if (!compile_item(p, it)) {
      pthread_mutex_lock(&p->lock);
      if (!p->failed) /* the first sentence is the one that is told */
        snprintf(p->sentence, sizeof p->sentence, "%s", attnpress_last_error());
      p->failed = 1;
      pthread_mutex_unlock(&p->lock);
      return NULL;
    }
  }
}

static void compile_all(press *p, int jobs) {
  pthread_t threads[JOBS_MAX];
  int started = 0;
  for (; started < jobs - 1 && (size_t)started + 1 < p->to_compile; ++started)
    if (pthread_create(&threads[started], NULL, work, p) != 0)
      break;
  work(p);
  for (int i = 0; i < started; ++i)
    pthread_join(threads[i], NULL);
}

/* ---- The tables ------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b) {
  const ap_request *x = &(*(item *const *)a)->request, *y = &(*(item *const *)b)->request;
  int order = strcmp(x->stem, y->stem);
  if (order == 0)
    order = strcmp(x->tile_name, y->tile_name);
  return order != 0 ? order : strcmp(x->target, y->target);
}

static int write_tables(const press *p) {
  item **sorted = calloc(p->count + 1, sizeof *sorted);
  if (sorted == NULL)
    return ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for the tables") == ATTNPRESS_OK;
  for (size_t i = 0; i < p->count; ++i)
    sorted[i] = &p->items[i];
  if (p->count > 0)
    qsort(sorted, p->count, sizeof *sorted, by_name);
  ap_text assembly = {NULL, 0, 0, 0}, table = {NULL, 0, 0, 0}, rows = {NULL, 0, 0, 0};
  append(&assembly,
         "/* Written by `attnpress prebuild`: the linked cubins, with what each was made "
         "from. */\n"
         "    .section .note.GNU-stack, \"\", %%progbits\n"
         "    .section .rodata\n");
  append(&table, "/* Written by `attnpress prebuild`. */\n"
                 "#include \"press/registry.h\"\n\n");
  for (size_t i = 0; i < p->count; ++i) {
    const item *it = sorted[i];
    append(&assembly,
           "    .balign 64\n"
           "    .globl ap_cubin_%zu /* %s %s */\n"
           "    .hidden ap_cubin_%zu\n"
           "ap_cubin_%zu:\n"
           "    .incbin \"%s/%s.%s.cubin.zst\"\n",
           i, it->key, it->checksum, i, i, p->dir, it->request.stem, it->request.target);
    append(&table, "extern const unsigned char ap_cubin_%zu[];\n", i);
    append(&rows, "    {\"%s\", \"%s\", \"%s\",\n     ap_cubin_%zu, %zu, %zu, %d, %d},\n",
           it->request.stem, it->request.tile_name, it->request.target, i, it->stored_size,
           it->size, (int)it->registers, (int)it->spill_bytes);
  }
  append(&table, "\nconst ap_cubin ap_prebuilt_cubins[] = {\n%s", "");
  ap_text_append(&table, rows.data ? rows.data : "", rows.size);
  append(&table, "%s};\nconst size_t ap_prebuilt_cubins_count = %zu;\n",
         p->count ? "" : "    {NULL, NULL, NULL, NULL, 0, 0, 0, 0},\n", p->count);
  free(rows.data);
  free(sorted);
  const int good = write_text(p, "prebuilt_cubins.S", &assembly);
  return write_text(p, "prebuilt_cubins.c", &table) && good;
}

/** Removes what builds left that were killed: the folder is this build's alone. */
static void remove_temporaries(const char *dir) {
  DIR *stream = opendir(dir);
  for (struct dirent *file; stream != NULL && (file = readdir(stream)) != NULL;) {
    char path[PATH_BYTES];
    const char *dot = strrchr(file->d_name, '.');
    if (dot == NULL || strcmp(dot, ".tmp") != 0)
      continue;
    snprintf(path, sizeof path, "%s/%s", dir, file->d_name);
    unlink(path);
  }
  if (stream != NULL)
    closedir(stream);
}

/** Removes cubins of kernels that are no longer in the set. */
static void remove_orphans(const press *p, const char *manifest_before) {
  char *copy = manifest_before ? strdup(manifest_before) : NULL, *rest = NULL;
  for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line != NULL;
       line = strtok_r(NULL, "\n", &rest)) {
    char stem[AP_STEM_MAX], target[AP_TARGET_MAX], path[PATH_BYTES];
    if (sscanf(line, "%*32s %*32s %*u %*d %*d %127s %15s", stem, target) == 2 && *line != '#' &&
        strchr(stem, '/') == NULL && find_item(p, stem, target) == NULL) {
      snprintf(path, sizeof path, "%s/%s.%s.cubin.zst", p->dir, stem, target);
      unlink(path);
    }
  }
  free(copy);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int press_all(press *p, int jobs) {
  char path[PATH_BYTES];
  size_t size;
  const double begin_s = now_s();
  if (prepare_items(p) != ATTNPRESS_OK)
    return 0;
  snprintf(path, sizeof path, "%s/prebuilt_manifest.txt", p->dir);
  char *before = read_file(path, &size);
  remove_temporaries(p->dir);
  read_manifest(p);
  for (size_t i = 0; i < p->count; ++i)
    p->to_compile += !p->items[i].done;
  printf("%zu kernels, %zu to compile, on %d thread%s\n", p->count, p->to_compile, jobs,
         jobs == 1 ? "" : "s");
  fflush(stdout);
  if (p->to_compile > 0)
    compile_all(p, jobs);
  if (p->failed)
    ap_fail(ATTNPRESS_COMPILE_FAILED, "%s", p->sentence);
  const int good = !p->failed && write_tables(p) && write_manifest(p);
  if (good) {
    uint64_t bytes = 0, stored_bytes = 0;
    char text[24], stored_text[24];
    for (size_t i = 0; i < p->count; ++i) {
      bytes += p->items[i].size;
      stored_bytes += p->items[i].stored_size;
    }
    remove_orphans(p, before);
    printf("%zu kernels, %s, compressed to %s, %.1f s\n", p->count, tool_bytes(bytes, text),
           tool_bytes(stored_bytes, stored_text), now_s() - begin_s);
  }
  free(before);
  return good;
}

/** A handle that has NVRTC: one that the library finds, else one of `dirs`, folders separated by
 * ':'. What ATTNPRESS_NVRTC names is used, or nothing. */
static int open_handle(press *p, const char *dirs) {
  attnpress_options options = ATTNPRESS_OPTIONS_INIT;
  ap_nvrtc *nvrtc;
  options.backend = ATTNPRESS_COMPILE_ONLY;
  options.cache_off = 1;
  if (attnpress_create(&p->handle, &options) != ATTNPRESS_OK)
    return 0;
  const char *named = getenv("ATTNPRESS_NVRTC");
  if (*dirs == '\0' || (named != NULL && *named) ||
      ap_compiler_get(&p->handle->finder.compiler, &nvrtc) == ATTNPRESS_OK)
    return 1;
  for (const char *dir = dirs; *dir; dir += strspn(dir, ":")) {
    const int length = (int)strcspn(dir, ":");
    for (int major = 13; major >= 12; --major) {
      char path[PATH_BYTES];
      snprintf(path, sizeof path, "%.*s/libnvrtc.so.%d", length, dir, major);
      if (access(path, F_OK) != 0)
        continue;
      attnpress_destroy(p->handle);
      options.nvrtc_path = path;
      return attnpress_create(&p->handle, &options) == ATTNPRESS_OK;
    }
    dir += length;
  }
  return 1; /* compiling says what is missing */
}

/** Opens a folder, made where it is not there, and waits until no other build has it; -1 and errno
 * where that fails. It is this build's until the descriptor is closed or the process ends; a file
 * system without locks is trusted. */
static int own_folder(const char *dir) {
  if (mkdir(dir, 0777) != 0 && errno != EEXIST)
    return -1;
  const int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  while (folder >= 0 && flock(folder, LOCK_EX) != 0 && errno == EINTR)
    ;
  return folder;
}

static int prebuild(const char *out, int jobs, const char *nvrtc_dirs) {
  press p = {.count = ap_default_set_count};
  const int folder = own_folder(out);
  char *dir = folder >= 0 ? realpath(out, NULL) : NULL;
  if (dir == NULL) {
    fprintf(stderr, "attnpress prebuild: %s: %s\n", out, strerror(errno));
    if (folder >= 0)
      close(folder);
    return TOOL_FAILED;
  }
  p.dir = dir;
  p.items = calloc(p.count + 1, sizeof *p.items);
  pthread_mutex_init(&p.lock, NULL);
  int good = p.items != NULL && strpbrk(dir, "\"\\\n") == NULL;
  if (!good)
    ap_fail(ATTNPRESS_IO_ERROR, "%s cannot be named in an assembler file", dir);
  good = good && open_handle(&p, nvrtc_dirs) && press_all(&p, jobs);
  if (!good)
    fprintf(stderr, "attnpress prebuild: %s\n", attnpress_last_error());
  attnpress_destroy(p.handle);
  for (size_t i = 0; p.items != NULL && i < p.count; ++i)
    free(p.items[i].source);
  free(p.items);
  pthread_mutex_destroy(&p.lock);
  close(folder);
  free(dir);
  return good ? TOOL_OK : TOOL_FAILED;
}

static int run_prebuild(int argc, char **argv) {
  const char *out = NULL, *nvrtc_dirs = "", *value;
  long jobs = sysconf(_SC_NPROCESSORS_ONLN);
  for (int i = 1; i < argc; ++i) {
    if ((value = tool_option(argc, argv, &i, "--out")) != NULL) {
      if (*value == '\0')
        return tool_usage("prebuild", "--out needs a directory");
      out = value;
    } else if ((value = tool_option(argc, argv, &i, "--jobs")) != NULL) {
      char *end;
      jobs = strtol(value, &end, 10);
      if (*value == '\0' || *end != '\0' || jobs < 1 || jobs > JOBS_MAX)
        return tool_usage("prebuild", "--jobs is \"%s\", and must be 1 to %d", value, JOBS_MAX);
    } else if ((value = tool_option(argc, argv, &i, "--nvrtc-dirs")) != NULL) {
      nvrtc_dirs = value;
    } else {
      return tool_usage("prebuild", "\"%s\" is not an option", argv[i]);
    }
  }
  if (out == NULL)
    return tool_usage("prebuild", "--out DIR is missing");
  return prebuild(out, jobs > JOBS_MAX ? JOBS_MAX : jobs < 1 ? 1 : (int)jobs, nvrtc_dirs);
}

const tool_command ap_tool_prebuild = {
    .name = "prebuild",
    .summary = "compile the default set, for the library's own build",
    .usage = "--out DIR [--jobs N] [--nvrtc-dirs A:B...]",
    .about =
        "Compiles the default set of kernels and writes the cubins and the files that link them: "
        "the library's own build does this. What has not changed is not compiled again.",
    .options = {(const tool_opt[]){
        {"--out", "DIR", "where to write"},
        {"--jobs", "N", "threads that compile, 1 to 256; otherwise one a core"},
        {"--nvrtc-dirs", "A:B", "folders where NVRTC is looked for last"},
        {NULL, NULL, NULL}}},
    .run = run_prebuild,
};
