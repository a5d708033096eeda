/* Drives linked renderers from a test, whatever their templates are. A line on stdin gives a
 * template's name, stem, tile_name, the axes as integers, threads, smem_bytes, and the fields of the
 * tile, parted by tabs; the answer is the size in bytes, a newline, and the text. The templates are
 * those of the first family. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "press/registry.h"

enum { LINE_MAX_BYTES = 4096, WORDS_MAX = 5 + AP_AXES_MAX + AP_TILE_FIELDS_MAX };

static int render_line(char *line) {
  const ap_family *family = ap_families[0];
  const int count = 5 + family->axis_count + family->field_count;
  char *words[WORDS_MAX];
  for (int i = 0; i < count; ++i) {
    char *end = strchr(line, '\t');
    if (end != NULL)
      *end = '\0';
    else if (i + 1 < count)
      return 0;
    words[i] = line;
    line = end == NULL ? line : end + 1;
  }
  ap_variant v = {0};
  ap_tile tile = {0};
  const char *names[AP_AXES_MAX] = {NULL};
  char **at = words + 3;
  for (int i = 0; i < family->axis_count; ++i)
    v.axis[i] = (int32_t)strtol(*at++, NULL, 10);
  tile.threads = (int32_t)strtol(*at++, NULL, 10);
  tile.smem_bytes = (int32_t)strtol(*at++, NULL, 10);
  for (int i = 0; i < family->field_count; ++i)
    tile.field[i] = (int32_t)strtol(*at++, NULL, 10);
  for (int i = 0; i < family->axis_count; ++i)
    names[i] = ap_word_of(&v, i);
  const ap_render_input input = {.stem = words[1],
                                 .tile_name = words[2],
                                 .axis = v.axis,
                                 .word = names,
                                 .field = tile.field,
                                 .threads = tile.threads,
                                 .smem_bytes = tile.smem_bytes};
  for (int32_t i = 0; i < family->template_count; ++i) {
    if (strcmp(family->templates[i].name, words[0]) != 0)
      continue;
    ap_text text = {NULL, 0, 0, 0};
    family->templates[i].render(&text, &input);
    if (text.failed)
      return 0;
    printf("%zu\n", text.size);
    fwrite(text.data, 1, text.size, stdout);
    free(text.data);
    return 1;
  }
  return 0;
}

int main(void) {
  char line[LINE_MAX_BYTES];
  while (fgets(line, sizeof line, stdin) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (!render_line(line))
      return 2;
  }
  return ferror(stdin) || ferror(stdout) ? 1 : 0;
}
