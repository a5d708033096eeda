/* attnpress: the command-line tool. This file only finds the command. */
#include <stdio.h>
#include <string.h>

#include "press/registry.h"
#include "tool.h"

const tool_command *const ap_tool_commands[] = {
    &ap_tool_list,   &ap_tool_source,      &ap_tool_compile,  &ap_tool_explain,
    &ap_tool_report, &ap_tool_run,         &ap_tool_cache,    &ap_tool_doctor,
    &ap_tool_manual, &ap_tool_completions, &ap_tool_prebuild, NULL,
};

static void print_help(void) {
  printf("attnpress %d.%d.%d: exact attention, pressed from templates\n\n"
         "usage: attnpress COMMAND [OPTION]... (attnpress COMMAND --help says more)\n\n",
         ATTNPRESS_VERSION_MAJOR, ATTNPRESS_VERSION_MINOR, ATTNPRESS_VERSION_PATCH);
  for (const tool_command *const *c = ap_tool_commands; *c != NULL; ++c)
    printf("  %-13s%s\n", (*c)->name, (*c)->summary);
  printf("\nKernels are named\n");
  for (size_t i = 0; i < ap_families_count; ++i)
    printf("  %s\n", ap_families[i]->grammar);
  printf("with D and DV the head dims. `attnpress source NAME` prints one, or says what is "
         "allowed.\n\n"
         "exit status: 0 success, 1 failure, 2 wrong arguments\n");
}

int main(int argc, char **argv) {
  if (argc < 2)
    return tool_usage("", "a command is missing");
  if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0 ||
      strcmp(argv[1], "help") == 0) {
    print_help();
    return TOOL_OK;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("attnpress %d.%d.%d\n", ATTNPRESS_VERSION_MAJOR, ATTNPRESS_VERSION_MINOR,
           ATTNPRESS_VERSION_PATCH);
    return TOOL_OK;
  }
  for (const tool_command *const *c = ap_tool_commands; *c != NULL; ++c)
    if (strcmp(argv[1], (*c)->name) == 0) {
      /* `run` looks for the family first. */
      const int status = (*c == &ap_tool_run ? ap_tool_run.run(argc - 1, argv + 1)
                                             : tool_dispatch(*c, argc - 1, argv + 1));
      /* A full disk behind stdout is a failure too. */
      return status == TOOL_OK && (fflush(stdout) != 0 || ferror(stdout)) ? TOOL_FAILED : status;
    }
  return tool_usage("", "there is no command \"%s\"", argv[1]);
}
