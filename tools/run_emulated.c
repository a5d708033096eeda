/* attnpress run --device emulated: hands over to attnpress-emulate, which a build of the project
 * puts beside the tool (tests/emulator) and which is not installed. */
#define _POSIX_C_SOURCE 200809L /* readlink */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

enum { PATH_BYTES = 4096 };

static const char program[] = "attnpress-emulate";

int tool_is_emulated(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    const char *device = tool_option(argc, argv, &i, "--device");
    if (device != NULL && strcmp(device, "emulated") == 0)
      return 1;
  }
  return 0;
}

/* The program's path, in the folder of this one. */
static int find_program(char path[PATH_BYTES]) {
  const ssize_t size = readlink("/proc/self/exe", path, PATH_BYTES - sizeof program);
  if (size <= 0)
    return -1;
  path[size] = '\0';
  strcpy(strrchr(path, '/') + 1, program); /* an absolute path, with room left for the name */
  return access(path, X_OK);
}

static int has_word(int argc, char **argv, const char *word) {
  for (int i = 1; i < argc; ++i)
    if (strncmp(argv[i], word, strlen(word)) == 0)
      return 1;
  return 0;
}

int ap_tool_run_emulated(int argc, char **argv) {
  char path[PATH_BYTES];
  if (has_word(argc, argv, "--append"))
    return tool_usage("run",
                      "--append goes with --device cpu or cuda: the emulator runs one kernel; "
                      "attnpress run append --device emulated runs the one that appends");
  if (find_program(path) != 0) {
    fprintf(stderr,
            "attnpress run: %s is not beside this program: --device emulated is for builds of the "
            "project with its tests and clang, and is not installed\n",
            program);
    return TOOL_FAILED;
  }
  char **words =
      calloc((size_t)argc + 2, sizeof *words); /* its name, "run", what follows ours, NULL */
  if (words == NULL)
    return TOOL_FAILED;
  if (!has_word(argc, argv, "--templates") && !has_word(argc, argv, "--source") &&
      !has_word(argc, argv, "--help"))
    fprintf(stderr, "attnpress run: this tests the templates that were built into the tool; "
                    "--templates tests the files as they stand now\n");
  words[0] = path;
  words[1] = "run";
  memcpy(words + 2, argv + 1, (size_t)(argc - 1) * sizeof *words);
  execv(path, words);
  fprintf(stderr, "attnpress run: %s could not be started: %s\n", path, strerror(errno));
  free(words);
  return TOOL_FAILED;
}
