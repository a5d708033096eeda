/* Words, options and tables for the commands. */
#define _GNU_SOURCE
#include "tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int tool_usage(const char *command, const char *format, ...) {
  va_list values;
  fprintf(stderr, "attnpress%s%s: ", *command ? " " : "", command);
  va_start(values, format);
  vfprintf(stderr, format, values);
  va_end(values);
  fprintf(stderr, "; see attnpress%s%s --help\n", *command ? " " : "", command);
  return TOOL_USAGE;
}

int tool_fail(const char *command, attnpress_status status) {
  fprintf(stderr, "attnpress %s: %s\n", command, attnpress_last_error());
  return status == ATTNPRESS_INVALID_ARGUMENT ? TOOL_USAGE : TOOL_FAILED;
}

const char *tool_option(int argc, char **argv, int *i, const char *name) {
  const size_t length = strlen(name);
  if (strncmp(argv[*i], name, length) != 0)
    return NULL;
  if (argv[*i][length] == '=')
    return argv[*i] + length + 1;
  if (argv[*i][length] != '\0')
    return NULL;
  return *i + 1 < argc ? argv[++*i] : "";
}

const char *const tool_device_names[TOOL_DEVICES] = {"any", "cpu", "cuda", "emulated"};

int tool_parse_number(const char *command, const char *option, const char *text, int64_t least,
                      int64_t most, int64_t *value) {
  char *end;
  errno = 0;
  const long long number = strtoll(text, &end, 10);
  if (*text == '\0' || *end != '\0' || errno != 0 || number < least || number > most)
    return tool_usage(command, "%s %s%s%s a whole number from %" PRId64 " to %" PRId64, option,
                      *text ? "is \"" : "needs a value,", text, *text ? "\"; it must be" : "",
                      least, most);
  *value = number;
  return TOOL_OK;
}

int tool_parse_choice(const char *command, const char *option, const char *text,
                      const char *const *names, int first, int count, int *value) {
  char allowed[128];
  for (int i = first; i < count; ++i)
    if (strcmp(text, names[i]) == 0) {
      *value = i;
      return TOOL_OK;
    }
  tool_join(allowed, sizeof allowed, names + first, (size_t)(count - first), "or");
  if (*text == '\0')
    return tool_usage(command, "%s needs a value, %s", option, allowed);
  return tool_usage(command, "%s is \"%s\"; it must be %s", option, text, allowed);
}

void tool_cell(tool_table *table, const char *format, ...) {
  if (table->rows == table->capacity) {
    table->capacity = table->capacity ? 2 * table->capacity : 64;
    table->cells = realloc(table->cells, table->capacity * sizeof *table->cells);
  }
  char *cell = malloc(192);
  if (table->cells == NULL || cell == NULL) {
    fprintf(stderr, "attnpress: host memory ran out\n");
    exit(TOOL_FAILED);
  }
  va_list values;
  va_start(values, format);
  vsnprintf(cell, 192, format, values);
  va_end(values);
  table->cells[table->rows++] = cell;
}

static void print_row(const tool_table *t, const int *widths, const char *const *cells) {
  for (int c = 0; c < t->columns; ++c) {
    const int last = c == t->columns - 1;
    if (t->titles[c][0] == '>')
      printf("%*s", widths[c], cells[c]);
    else
      printf("%-*s", last ? 0 : widths[c], cells[c]);
    fputs(last ? "\n" : "  ", stdout);
  }
}

void tool_print(tool_table *table) {
  int widths[TABLE_COLUMNS_MAX];
  const char *titles[TABLE_COLUMNS_MAX];
  for (int c = 0; c < table->columns; ++c) {
    titles[c] = table->titles[c] + (table->titles[c][0] == '>');
    widths[c] = (int)strlen(titles[c]);
    for (size_t i = (size_t)c; i < table->rows; i += (size_t)table->columns)
      if ((int)strlen(table->cells[i]) > widths[c])
        widths[c] = (int)strlen(table->cells[i]);
  }
  print_row(table, widths, titles);
  for (size_t i = 0; i + (size_t)table->columns <= table->rows; i += (size_t)table->columns)
    print_row(table, widths, (const char *const *)table->cells + i);
  for (size_t i = 0; i < table->rows; ++i)
    free(table->cells[i]);
  free(table->cells);
  table->cells = NULL;
  table->rows = table->capacity = 0;
}

double tool_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

const char *tool_bytes(uint64_t bytes, char text[24]) {
  if (bytes < 1024)
    snprintf(text, 24, "%llu B", (unsigned long long)bytes);
  else if (bytes < 1024 * 1024)
    snprintf(text, 24, "%.1f KB", (double)bytes / 1024);
  else
    snprintf(text, 24, "%.1f MB", (double)bytes / (1024 * 1024));
  return text;
}

void tool_join(char *text, size_t size, const char *const *words, size_t count, const char *last) {
  text[0] = '\0';
  for (size_t i = 0; i < count; ++i) {
    const size_t used = strlen(text);
    const int is_last = i > 0 && i == count - 1;
    snprintf(text + used, size - used, "%s%s%s%s",
             i == 0    ? ""
             : is_last ? " "
                       : ", ",
             is_last ? last : "", is_last ? " " : "", words[i]);
  }
}
