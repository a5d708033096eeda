/* A command and its options as data: --help, the completions of shells and the manual page are
 * printed from them, and a word that begins with "--" and is in none of a command's tables is refused
 * before the command sees it. So none of them drifts from what the tool does. */
#pragma once
#include <stdio.h>

typedef struct tool_opt {
  const char *name;  /* "--batch"; NULL ends a table */
  const char *value; /* NULL: it takes none. "fp16|bf16": one of these words; "DIR", "FILE" and
                        "sm_NN" are completed as such; anything else is free text, such as "N" */
  const char *help;  /* without a full stop; broken into lines where it is printed */
} tool_opt;

enum { TOOL_TABLES_MAX = 4 };

typedef struct tool_command {
  const char *name;    /* "compile", or of a family "run softmax" */
  const char *summary; /* a line */
  const char *usage;   /* lines of what follows "attnpress NAME" */
  const char *about;   /* paragraphs, broken into lines where they are printed */
  /* The words that may come first, "path|list|du"; NULL: none, or free ones such as a STEM. */
  const char *words;
  const tool_opt *options[TOOL_TABLES_MAX]; /* those after NULL do not count */
  const char *more;                         /* lines at the end; NULL: none */
  int (*run)(int argc, char **argv);        /* argv[0] is the last word of the name */
} tool_command;

/** "Usage: ..." to stdout. */
void tool_print_help(const tool_command *command);
/** The rows of a table, as --help shows them. */
void tool_print_options(FILE *out, const tool_opt *options);
/** Text broken into lines of at most 100 columns, each after `indent` spaces; the first stands at
 * column `at` already. */
void tool_print_wrapped(FILE *out, const char *text, int indent, int at);
/** The row of the option that a word is, "--batch" or "--batch=3"; NULL: it is none of them. */
const tool_opt *tool_find_in(const tool_opt *table, const char *word);
/** The same of all of a command. */
const tool_opt *tool_find_option(const tool_command *command, const char *word);
/** Prints the help where it is asked for, refuses what is no option, or runs the command. */
int tool_dispatch(const tool_command *command, int argc, char **argv);
