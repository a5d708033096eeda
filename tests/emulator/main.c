/* attnpress-emulate: kernels on a machine without a GPU. This file only understands the words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"
#include "run.h"
#include "table.h"

static const char help[] =
    "usage: attnpress-emulate COMMAND [OPTION]...\n\n"
    "  default         every kernel of the default set, from generated/, over the table of shapes\n"
    "  sweep           head dims that are not in the default set, and what is done to scores,\n"
    "                  rendered by the library\n"
    "  sources FILE... these kernels\n"
    "  run             one kernel and one shape (run --help says more)\n\n"
    "  --only GLOB     stems that match\n"
    "  --one-in N      a sample: one kernel in N, by the hash of its name\n"
    "  --pairs         a sample in which each two values of two axes meet\n"
    "  --jobs N        processes at a time (one for each core)\n"
    "  --seconds N     of work that a kernel may take (120)\n"
    "  --verbose       a line for each kernel\n"
    "  --include DIR   device headers of this folder come before the project's\n\n"
    "exit status: 0 all passed, 1 some did not, 2 wrong arguments\n";

enum { WRONG_WORDS = 2 };

static int wrong(const char *what, const char *word) {
  fprintf(stderr, "attnpress-emulate: %s \"%s\"\n%s", what, word, help);
  return WRONG_WORDS;
}

int main(int argc, char **argv) {
  table_options o = {0};
  int files = 0;
  if (argc < 2 || strcmp(argv[1], "--help") == 0) {
    fputs(help, stdout);
    return argc < 2 ? WRONG_WORDS : 0;
  }
  if (strcmp(argv[1], "run") == 0)
    return emulate_run(argc - 1, argv + 1);
  for (int i = 2; i < argc; ++i) {
    const int has_value = i + 1 < argc;
    if (strcmp(argv[i], "--verbose") == 0)
      o.verbose = 1;
    else if (strcmp(argv[i], "--only") == 0 && has_value)
      o.only = argv[++i];
    else if (strcmp(argv[i], "--jobs") == 0 && has_value)
      o.jobs = atoi(argv[++i]);
    else if (strcmp(argv[i], "--one-in") == 0 && has_value)
      o.one_in = (unsigned)atoi(argv[++i]);
    else if (strcmp(argv[i], "--pairs") == 0)
      o.pairs = 1;
    else if (strcmp(argv[i], "--seconds") == 0 && has_value)
      o.seconds = (unsigned)atoi(argv[++i]);
    else if (strcmp(argv[i], "--include") == 0 && has_value)
      emulated_include(argv[++i]);
    else if (argv[i][0] == '-')
      return wrong("there is no option", argv[i]);
    else
      argv[2 + files++] = argv[i]; /* over what was read */
  }
  if (strcmp(argv[1], "sources") != 0 && files > 0)
    return wrong("unexpected", argv[2]);
  if (strcmp(argv[1], "default") == 0)
    return table_of_default_set(&o);
  if (strcmp(argv[1], "sweep") == 0)
    return table_of_other_head_dims(&o);
  if (strcmp(argv[1], "sources") == 0)
    return table_of_sources(&o, argv + 2, files);
  return wrong("there is no command", argv[1]);
}
