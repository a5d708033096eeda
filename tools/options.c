/* --help from tables of options, and the check that words are in them. */
#include "options.h"

#include <string.h>

enum { COLUMNS = 100, OPTION_COLUMNS = 22 };

void tool_print_wrapped(FILE *out, const char *text, int indent, int at) {
  int column = at;
  while (*text) {
    const int length = (int)strcspn(text, " \n");
    const int breaks = column > indent && column + 1 + length > COLUMNS;
    if (breaks)
      fputc('\n', out);
    if (breaks || column == 0)
      column = fprintf(out, "%*s", indent, "");
    else if (column > indent)
      column += fprintf(out, " ");
    column += fprintf(out, "%.*s", length, text);
    text += length;
    for (; *text == '\n'; ++text, column = 0)
      fputc('\n', out);
    text += strspn(text, " ");
  }
  if (column > 0)
    fputc('\n', out);
}

void tool_print_options(FILE *out, const tool_opt *options) {
  for (; options->name != NULL; ++options) {
    int column = fprintf(out, "  %s%s%s", options->name, options->value ? " " : "",
                         options->value ? options->value : "");
    if (column >= OPTION_COLUMNS) {
      fputc('\n', out);
      column = 0;
    }
    column += fprintf(out, "%*s", OPTION_COLUMNS - column, "");
    tool_print_wrapped(out, options->help, OPTION_COLUMNS, column);
  }
}

/** Each line of it after the name; lines that are indented go on with the one before. */
static void print_usage(const tool_command *command) {
  const char *before = "usage:";
  for (const char *line = command->usage; *line;) {
    const int length = (int)strcspn(line, "\n");
    printf("%-6s attnpress %s%s%.*s\n", before, command->name, length ? " " : "", length, line);
    before = "";
    line += length + (line[length] == '\n');
  }
  if (*command->usage == '\0')
    printf("usage: attnpress %s\n", command->name);
}

void tool_print_help(const tool_command *command) {
  print_usage(command);
  printf("\n");
  tool_print_wrapped(stdout, command->about, 0, 0);
  for (int t = 0; t < TOOL_TABLES_MAX && command->options[t] != NULL; ++t) {
    if (t == 0)
      printf("\n");
    tool_print_options(stdout, command->options[t]);
  }
  if (command->more != NULL) {
    printf("\n");
    tool_print_wrapped(stdout, command->more, 0, 0);
  }
}

const tool_opt *tool_find_in(const tool_opt *table, const char *word) {
  const size_t length = strcspn(word, "=");
  for (const tool_opt *o = table; o->name != NULL; ++o)
    if (strncmp(o->name, word, length) == 0 && o->name[length] == '\0')
      return o;
  return NULL;
}

const tool_opt *tool_find_option(const tool_command *command, const char *word) {
  const tool_opt *found = NULL;
  for (int t = 0; t < TOOL_TABLES_MAX && command->options[t] != NULL && found == NULL; ++t)
    found = tool_find_in(command->options[t], word);
  return found;
}

int tool_dispatch(const tool_command *command, int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) {
      tool_print_help(command);
      return 0;
    }
    if (strncmp(argv[i], "--", 2) != 0)
      continue;
    const tool_opt *option = tool_find_option(command, argv[i]);
    if (option == NULL) {
      fprintf(stderr, "attnpress %s: \"%s\" is not an option; see attnpress %s --help\n",
              command->name, argv[i], command->name);
      return 2;
    }
    if (option->value == NULL && strchr(argv[i], '=') != NULL) {
      fprintf(stderr, "attnpress %s: %s takes no value, and \"%s\" gives it one\n", command->name,
              option->name, argv[i]);
      return 2;
    }
    i += option->value != NULL && strchr(argv[i], '=') == NULL;
  }
  return command->run(argc, argv);
}
