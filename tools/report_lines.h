/* PTX and SASS as rows that know the lines of source that they are from, and their hot loop. For
 * `attnpress report`. Reads what NVRTC and nvdisasm print; runs neither. */
#pragma once
#include <stddef.h>

enum { REPORT_DEPTH_MAX = 16 };

/** Where an instruction is from: the innermost line, then the line whose call was inlined there, and
 * so on. */
typedef struct report_chain {
  int count;
  struct {
    int file, line; /* file: its place in report_lines.files; lines count from 1 */
  } place[REPORT_DEPTH_MAX];
} report_chain;

typedef struct report_row {
  char *text;  /* an instruction, or a label */
  int chain;   /* its place in report_lines.chains; -1: from no line */
  int address; /* of SASS, in bytes; -1: a label, or PTX */
  int live;    /* registers that hold a value there; -1: not known */
  int hot;     /* 1: it is in the hot loop */
} report_row;

typedef struct report_listing {
  report_row *rows;
  int count, capacity;
  int has_loop; /* 1: some rows are hot */
} report_listing;

typedef struct report_lines {
  char **files; /* as the compiler names them */
  int file_count;
  report_chain *chains;
  int chain_count, chain_capacity;
  report_listing ptx, sass; /* sass: no rows where it was not read */
} report_lines;

/** Each returns 0 where memory ran out, or it is not what it should be. The texts are NUL-terminated.
 * Of PTX the kernel's instructions and labels are kept. */
int report_read_ptx(report_lines *lines, const char *ptx);
/** with_lines: of `nvdisasm -c -gi`; with_ranges: of `nvdisasm -c -plr`, or NULL. */
int report_read_sass(report_lines *lines, const char *with_lines, const char *with_ranges);
void report_lines_free(report_lines *lines);

/** 1: an instruction of the tensor cores. */
int report_is_product(const char *text);
