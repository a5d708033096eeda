/* Drives the runtime's grammar, tiles and renderers from a test: one command a line on stdin, its
 * words parted by tabs, one answer each on stdout. Knows no family: AXES are the values of a
 * variant's axes as integers, FIELDS those of a tile, after its threads and smem_bytes.
 *
 *     parse STEM           -> ok, the family, AXES, the key, the stem printed again
 *     print FAMILY AXES    -> ok, the stem
 *     tile STEM[:TARGET]   -> ok, FIELDS, the tile's name
 *     render STEM FIELDS   -> ok, the size in bytes, a newline, the source
 *     runs STEM CAPABILITY -> ok, each arch and target that the device runs, best first
 *
 * or error, the status and the sentence. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attnpress/attnpress.h"
#include "press/registry.h"
#include "press/target.h"

enum { LINE_MAX_BYTES = 4096, FIELDS_BEFORE = 2 };

static void print_error(attnpress_status status) {
  printf("error\t%d\t%s\n", (int)status, attnpress_last_error());
}

/** Reads at most `count` integers that tabs part. */
static void read_fields(const char *at, int32_t *fields, int count) {
  for (int i = 0; i < count; ++i) {
    char *end;
    fields[i] = (int32_t)strtol(at, &end, 10);
    at = *end == '\t' ? end + 1 : end;
  }
}

static void print_fields(const int32_t *fields, int count) {
  for (int i = 0; i < count; ++i)
    printf("\t%d", (int)fields[i]);
}

static void command_parse(const char *stem) {
  ap_variant v;
  char again[AP_STEM_MAX];
  attnpress_status status = ap_variant_parse(stem, &v);
  if (status == ATTNPRESS_OK)
    status = ap_variant_print(&v, again);
  if (status != ATTNPRESS_OK) {
    print_error(status);
    return;
  }
  printf("ok\t%d", (int)v.family);
  print_fields(v.axis, ap_families[v.family]->axis_count);
  printf("\t%" PRIu64 "\t%s\n", ap_variant_key(&v), again);
}

static void command_print(const char *words) {
  int32_t fields[1 + AP_AXES_MAX] = {0};
  char stem[AP_STEM_MAX];
  ap_variant v = {0};
  read_fields(words, fields, 1 + AP_AXES_MAX);
  v.family = fields[0];
  memcpy(v.axis, fields + 1, sizeof v.axis);
  const attnpress_status status = ap_variant_print(&v, stem);
  if ((status == ATTNPRESS_OK) != ap_variant_is_legal(&v))
    printf("error\t0\tap_variant_is_legal() says something else than ap_variant_check()\n");
  else if (status == ATTNPRESS_OK)
    printf("ok\t%s\n", stem);
  else
    print_error(status);
}

static void command_tile(const char *words) {
  ap_variant v;
  ap_tile t;
  char name[AP_TILE_NAME_MAX];
  char stem[AP_STEM_MAX];
  const char *target = strchr(words, ':');
  snprintf(stem, sizeof stem, "%.*s", (int)strcspn(words, ":"), words);
  attnpress_status status = ap_variant_parse(stem, &v);
  if (status == ATTNPRESS_OK)
    status = ap_find_tile(&v, target ? target + 1 : NULL, &t);
  if (status != ATTNPRESS_OK) {
    print_error(status);
    return;
  }
  ap_tile_print(&v, &t, name);
  printf("ok\t%d\t%d", (int)t.threads, (int)t.smem_bytes);
  print_fields(t.field, ap_families[v.family]->field_count);
  printf("\t%s\n", name);
}

static void command_render(char *words) {
  char *fields_begin = strchr(words, '\t');
  ap_variant v;
  int32_t fields[FIELDS_BEFORE + AP_TILE_FIELDS_MAX] = {0};
  if (fields_begin != NULL) {
    *fields_begin = '\0';
    read_fields(fields_begin + 1, fields, FIELDS_BEFORE + AP_TILE_FIELDS_MAX);
  }
  ap_tile t = {.threads = fields[0], .smem_bytes = fields[1]};
  memcpy(t.field, fields + FIELDS_BEFORE, sizeof t.field);
  char *source = NULL;
  size_t size = 0;
  attnpress_status status = ap_variant_parse(words, &v);
  if (status == ATTNPRESS_OK)
    status = ap_render(&v, &t, NULL, &source, &size);
  if (status != ATTNPRESS_OK) {
    print_error(status);
    return;
  }
  printf("ok\t%zu\n", size);
  fwrite(source, 1, size, stdout);
  free(source);
}

static void command_runs(char *words) {
  char *capability = strchr(words, '\t');
  ap_variant v;
  if (capability != NULL)
    *capability++ = '\0';
  attnpress_status status = ap_variant_parse(words, &v);
  if (status == ATTNPRESS_OK)
    status = ap_check_capability(capability != NULL ? atoi(capability) : 0);
  if (status != ATTNPRESS_OK) {
    print_error(status);
    return;
  }
  printf("ok");
  for (const ap_route *run = NULL; (run = ap_next_route(&v, atoi(capability), run)) != NULL;)
    printf("\t%d\t%s", (int)run->arch, run->target);
  printf("\n");
}

int main(void) {
  char line[LINE_MAX_BYTES];
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "parse\t", 6) == 0)
      command_parse(line + 6);
    else if (strncmp(line, "print\t", 6) == 0)
      command_print(line + 6);
    else if (strncmp(line, "tile\t", 5) == 0)
      command_tile(line + 5);
    else if (strncmp(line, "render\t", 7) == 0)
      command_render(line + 7);
    else if (strncmp(line, "runs\t", 5) == 0)
      command_runs(line + 5);
    else
      return 2;
  }
  return ferror(stdin) || ferror(stdout) ? 1 : 0;
}
