/* attnpress: the command-line tool. This file only finds the command. */
#include <stdio.h>
#include <string.h>

#include "press/registry.h"
#include "tool.h"

static const struct command {
  const char *name;
  const char *summary;
  int (*run)(int argc, char **argv);
} commands[] = {
    {"list", "the kernels that are linked in and cached", ap_tool_list},
    {"source", "print the CUDA source of a kernel", ap_tool_source},
    {"compile", "make sure that kernels are linked in or cached", ap_tool_compile},
    {"explain", "which kernels a call runs, why, and what bounds it", ap_tool_explain},
    {"run", "run attention on random inputs and check the result", ap_tool_run},
    {"cache", "look at, check, bound, empty, export or import the cubin cache", ap_tool_cache},
    {"doctor", "what this machine has, and what is missing", ap_tool_doctor},
    {"prebuild", "compile the default set, for the library's own build", ap_tool_prebuild},
};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

/* The names of kernels, as the library itself says them about a word that is none. */
static const char *grammar(void) {
  static const char before[] = "names are ";
  ap_variant none;
  ap_variant_parse("", &none);
  const char *names = strstr(attnpress_last_error(), before);
  return names != NULL ? names + strlen(before) : "";
}

static void print_help(void) {
  printf("attnpress %d.%d.%d: exact attention, pressed from templates\n\n"
         "usage: attnpress COMMAND [OPTION]... (attnpress COMMAND --help says more)\n\n",
         ATTNPRESS_VERSION_MAJOR, ATTNPRESS_VERSION_MINOR, ATTNPRESS_VERSION_PATCH);
  for (int i = 0; i < COMMAND_COUNT; ++i)
    printf("  %-10s%s\n", commands[i].name, commands[i].summary);
  printf("\nKernels are named\n  %s\n"
         "with D and DV the head dims. `attnpress source NAME` prints one, or says what is "
         "allowed.\n\n"
         "exit status: 0 success, 1 it did not work, 2 the words were wrong\n",
         grammar());
}

int main(int argc, char **argv) {
  if (argc < 2)
    return tool_usage("", "a command is missing");
  if (tool_is_help(argv[1]) || strcmp(argv[1], "help") == 0) {
    print_help();
    return TOOL_OK;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("attnpress %d.%d.%d\n", ATTNPRESS_VERSION_MAJOR, ATTNPRESS_VERSION_MINOR,
           ATTNPRESS_VERSION_PATCH);
    return TOOL_OK;
  }
  for (int i = 0; i < COMMAND_COUNT; ++i)
    if (strcmp(argv[1], commands[i].name) == 0) {
      const int status = commands[i].run(argc - 1, argv + 1);
      /* A full disk behind stdout is a failure too. */
      return status == TOOL_OK && (fflush(stdout) != 0 || ferror(stdout)) ? TOOL_FAILED : status;
    }
  return tool_usage("", "there is no command \"%s\"", argv[1]);
}
