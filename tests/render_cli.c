/* Drives linked renderers from a test, whatever their templates are. A line on stdin gives a
 * template's name and the fields of ap_render_input in order, parted by tabs; the answer is the
 * size in bytes, a newline, and the text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "press/registry.h"

enum { LINE_MAX_BYTES = 4096, STRINGS = 5, INTEGERS = 19 };

static int render_line(char *line) {
  char *strings[STRINGS]; /* template, stem, dtype, mask, tile_name */
  int32_t n[INTEGERS];
  for (int i = 0; i < STRINGS + INTEGERS; ++i) {
    char *end = strchr(line, '\t');
    if (end != NULL)
      *end = '\0';
    else if (i + 1 < STRINGS + INTEGERS)
      return 0;
    if (i < STRINGS)
      strings[i] = line;
    else
      n[i - STRINGS] = (int32_t)strtol(line, NULL, 10);
    line = end == NULL ? line : end + 1;
  }
  const ap_render_input input = {.stem = strings[1],
                                 .dtype = strings[2],
                                 .mask = strings[3],
                                 .tile_name = strings[4],
                                 .split = n[0],
                                 .decode = n[1],
                                 .hdim = n[2],
                                 .hdim_v = n[3],
                                 .arch = n[4],
                                 .block_m = n[5],
                                 .block_n = n[6],
                                 .warps_m = n[7],
                                 .warps_n = n[8],
                                 .stages = n[9],
                                 .k_slab = n[10],
                                 .v_slab = n[11],
                                 .q_in_regs = n[12],
                                 .min_blocks = n[13],
                                 .k_unroll = n[14],
                                 .spread = n[15],
                                 .producer = n[16],
                                 .warps_k = n[17],
                                 .smem_bytes = n[18]};
  for (size_t i = 0; i < ap_templates_count; ++i) {
    if (strcmp(ap_templates[i].name, strings[0]) != 0)
      continue;
    ap_text text = {NULL, 0, 0, 0};
    ap_templates[i].render(&text, &input);
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
