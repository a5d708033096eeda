/* Drives the runtime's grammar, tiles and renderers from a test: one command a line on stdin, its
 * words parted by tabs, one answer each on stdout.
 *
 *     parse STEM           -> ok, the eight fields of ap_variant, the stem printed again
 *     print FIELDS         -> ok, the stem (the fields in the order of ap_variant)
 *     tile STEM            -> ok, the fields of ap_tile, the tile's name
 *     render STEM TILE     -> ok, the size in bytes, a newline, the source (the fields of ap_tile)
 *
 * or error, the status and the sentence. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attnpress/attnpress.h"
#include "press/registry.h"

enum { LINE_MAX_BYTES = 4096, VARIANT_FIELDS = 8, TILE_FIELDS = 14 };

static void print_error(attnpress_status status) {
  printf("error\t%d\t%s\n", (int)status, attnpress_last_error());
}

/** Reads `count` integers that tabs part. */
static void read_fields(const char *at, int32_t *fields, int count) {
  for (int i = 0; i < count; ++i) {
    char *end;
    fields[i] = (int32_t)strtol(at, &end, 10);
    at = *end == '\t' ? end + 1 : end;
  }
}

static void print_fields(const int32_t *fields, int count) {
  printf("ok");
  for (int i = 0; i < count; ++i)
    printf("\t%d", (int)fields[i]);
}

static ap_variant make_variant(const int32_t *f) {
  const ap_variant v = {.pass = f[0],
                        .split = f[1],
                        .hdim = f[2],
                        .hdim_v = f[3],
                        .dtype = f[4],
                        .mask = f[5],
                        .decode = f[6],
                        .arch = f[7]};
  return v;
}

static ap_tile make_tile(const int32_t *f) {
  const ap_tile t = {.block_m = f[0],
                     .block_n = f[1],
                     .warps_m = f[2],
                     .warps_n = f[3],
                     .stages = f[4],
                     .k_slab = f[5],
                     .v_slab = f[6],
                     .q_in_regs = f[7],
                     .min_blocks = f[8],
                     .k_unroll = f[9],
                     .spread = f[10],
                     .producer = f[11],
                     .warps_k = f[12],
                     .smem_bytes = f[13]};
  return t;
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
  const int32_t fields[VARIANT_FIELDS] = {v.pass,  v.split, v.hdim,   v.hdim_v,
                                          v.dtype, v.mask,  v.decode, v.arch};
  print_fields(fields, VARIANT_FIELDS);
  printf("\t%s\n", again);
}

static void command_print(const char *words) {
  int32_t fields[VARIANT_FIELDS];
  char stem[AP_STEM_MAX];
  read_fields(words, fields, VARIANT_FIELDS);
  const ap_variant v = make_variant(fields);
  const attnpress_status status = ap_variant_print(&v, stem);
  if (status == ATTNPRESS_OK)
    printf("ok\t%s\n", stem);
  else
    print_error(status);
}

/** "stem" or "stem:target". */
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
  ap_tile_print(&t, name);
  const int32_t fields[TILE_FIELDS] = {t.block_m, t.block_n,  t.warps_m,   t.warps_n,    t.stages,
                                       t.k_slab,  t.v_slab,   t.q_in_regs, t.min_blocks, t.k_unroll,
                                       t.spread,  t.producer, t.warps_k,   t.smem_bytes};
  print_fields(fields, TILE_FIELDS);
  printf("\t%s\n", name);
}

static void command_render(char *words) {
  char *fields_begin = strchr(words, '\t');
  ap_variant v;
  int32_t fields[TILE_FIELDS] = {0};
  if (fields_begin != NULL) {
    *fields_begin = '\0';
    read_fields(fields_begin + 1, fields, TILE_FIELDS);
  }
  const ap_tile t = make_tile(fields);
  char *source = NULL;
  size_t size = 0;
  attnpress_status status = ap_variant_parse(words, &v);
  if (status == ATTNPRESS_OK)
    status = ap_render(&v, &t, &source, &size);
  if (status != ATTNPRESS_OK) {
    print_error(status);
    return;
  }
  printf("ok\t%zu\n", size);
  fwrite(source, 1, size, stdout);
  free(source);
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
    else
      return 2;
  }
  return ferror(stdin) || ferror(stdout) ? 1 : 0;
}
