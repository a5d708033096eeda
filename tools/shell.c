/* attnpress completions, attnpress manual: what shells and man(1) read, printed from the tables of
 * the commands. */
#include <stdio.h>
#include <string.h>

#include "press/registry.h"
#include "press/target.h"
#include "tool.h"

enum { NAME_BYTES = 32 };

/* ---- The tables, one after another ----------------------------------------------------------- */

typedef void visit_option(const tool_command *command, const tool_opt *option);

static void each_option(const tool_command *command, visit_option *visit) {
  for (int t = 0; t < TOOL_TABLES_MAX && command->options[t] != NULL; ++t)
    for (const tool_opt *o = command->options[t]; o->name != NULL; ++o)
      visit(command, o);
}

/** The commands that have options: the families of `run` in the place of `run`. */
static void each_command(void (*visit)(const tool_command *command)) {
  for (const tool_command *const *c = ap_tool_commands; *c != NULL; ++c)
    if (*c != &ap_tool_run)
      visit(*c);
    else
      for (const tool_command *const *f = ap_tool_run_families; *f != NULL; ++f)
        visit(*f);
}

typedef enum value_kind { NO_VALUE, FREE, WORDS, TARGETS, DIRECTORY, FILES } value_kind;

static value_kind kind_of(const tool_opt *o) {
  return o->value == NULL                 ? NO_VALUE
         : strcmp(o->value, "sm_NN") == 0 ? TARGETS
         : strcmp(o->value, "DIR") == 0   ? DIRECTORY
         : strcmp(o->value, "FILE") == 0  ? FILES
         : strchr(o->value, '|') != NULL  ? WORDS
                                          : FREE;
}

/** "a|b" as "a b". */
static void print_words(const char *words) {
  for (; words != NULL && *words; ++words)
    putchar(*words == '|' ? ' ' : *words);
}

static void print_targets(void) {
  for (size_t i = 0; i < ap_targets_count; ++i)
    printf("%s%s", i ? " " : "", ap_targets[i].name);
}

static void print_command_names(void) {
  for (const tool_command *const *c = ap_tool_commands; *c != NULL; ++c)
    printf("%s ", (*c)->name);
}

/** The text, with a backslash before each of these characters; in single quotes of a shell. */
static void print_quoted(const char *text, const char *special) {
  for (; *text; ++text) {
    if (*text == '\'')
      fputs("'\\'", stdout); /* the quote ends, and begins again */
    else if (strchr(special, *text) != NULL)
      putchar('\\');
    putchar(*text);
  }
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_value(const tool_command *command, const tool_opt *o) {
  const value_kind kind = kind_of(o);
  if (kind == NO_VALUE)
    return;
  printf("    '%s %s')", command->name, o->name);
  if (kind == WORDS || kind == TARGETS) {
    printf(" COMPREPLY=($(compgen -W '");
    if (kind == WORDS)
      print_words(o->value);
    else
      print_targets();
    printf("' -- \"$word\"))");
  } else if (kind != FREE) {
    printf(" compopt -o filenames; COMPREPLY=($(compgen -%c -- \"$word\"))",
           kind == DIRECTORY ? 'd' : 'f');
  }
  printf("%s return ;;\n", kind == FREE ? "" : ";");
}

static void bash_values(const tool_command *command) {
  each_option(command, bash_value);
}

static void bash_name(const tool_command *command, const tool_opt *o) {
  (void)command;
  printf("%s ", o->name);
}

static void bash_options(const tool_command *command) {
  printf("    '%s') words='", command->name);
  each_option(command, bash_name);
  printf("--help' first='");
  print_words(command->words);
  printf("' ;;\n");
}

static void print_bash(void) {
  printf("# Completions of attnpress for bash, written by `attnpress completions bash`.\n"
         "_attnpress() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
         "  local command=${COMP_WORDS[1]} begin=2 words='' first=''\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W '");
  print_command_names();
  printf("help --help --version' -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  # --name=value is three words here.\n"
         "  if [ \"$word\" = = ]; then word=''; elif [ \"$before\" = = ]; then "
         "before=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
         "  if [ \"$command\" = run ]; then\n"
         "    case ${COMP_WORDS[2]} in\n"
         "      %s) [ \"$COMP_CWORD\" -gt 2 ] && command=\"run ${COMP_WORDS[2]}\" begin=3 ;;\n"
         "    esac\n"
         "    [ \"$command\" = run ] && command='run attention' first='",
         ap_tool_run.words);
  print_words(ap_tool_run.words);
  printf("'\n"
         "  fi\n"
         "  case \"$command $before\" in\n");
  each_command(bash_values);
  printf("  esac\n"
         "  local families=$first\n"
         "  case $command in\n");
  each_command(bash_options);
  printf("  esac\n"
         "  [ \"$COMP_CWORD\" -eq \"$begin\" ] && words=\"$first $families $words\"\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -o bashdefault -F _attnpress attnpress\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

static void zsh_option(const tool_command *command, const tool_opt *o) {
  (void)command;
  printf(" \\\n        '%s%s[", o->name, o->value ? "=" : "");
  print_quoted(o->help, "[]\\:");
  printf("]");
  switch (kind_of(o)) {
  case NO_VALUE:
    break;
  case WORDS:
    printf(":value:(");
    print_words(o->value);
    printf(")");
    break;
  case TARGETS:
    printf(":target:(");
    print_targets();
    printf(")");
    break;
  case DIRECTORY:
    printf(":directory:_files -/");
    break;
  case FILES:
    printf(":file:_files");
    break;
  case FREE:
    printf(":%s: ", strchr(o->value, ':') != NULL ? "value" : o->value);
  }
  printf("'");
}

static void zsh_arguments(const tool_command *command, const char *words) {
  printf("_arguments '--help[what there is]'");
  if (words != NULL) {
    printf(" '1:word:(");
    print_words(words);
    printf(")'");
  }
  printf(" '*:word:_files'");
  each_option(command, zsh_option);
  printf(" ;;\n");
}

static void print_zsh(void) {
  printf("#compdef attnpress\n"
         "# Completions of attnpress for zsh, written by `attnpress completions zsh`.\n"
         "_attnpress() {\n"
         "  local context state line\n"
         "  typeset -A opt_args\n"
         "  _arguments -C '--help[what there is]' '--version[the version]' '1:command:->command' "
         "'*::word:->word'\n"
         "  case $state in\n"
         "    command)\n"
         "      local -a commands\n"
         "      commands=(");
  for (const tool_command *const *c = ap_tool_commands; *c != NULL; ++c) {
    printf("\n        '%s:", (*c)->name);
    print_quoted((*c)->summary, ":\\");
    printf("'");
  }
  printf(")\n"
         "      _describe command commands ;;\n"
         "    word)\n"
         "      local command=$words[1]\n"
         "      if [[ $command == run ]]; then\n"
         "        command='run attention'\n"
         "        if [[ $CURRENT -gt 2 && $words[2] == (%s) ]]; then\n"
         "          command=\"run $words[2]\"\n"
         "          shift words; (( CURRENT-- ))\n"
         "        fi\n"
         "      fi\n"
         "      case $command in\n",
         ap_tool_run.words);
  for (const tool_command *const *c = ap_tool_commands; *c != NULL; ++c)
    if (*c != &ap_tool_run) {
      printf("      %s) ", (*c)->name);
      zsh_arguments(*c, (*c)->words);
    }
  for (const tool_command *const *f = ap_tool_run_families; *f != NULL; ++f) {
    printf("      '%s') ", (*f)->name);
    zsh_arguments(*f, f == ap_tool_run_families ? ap_tool_run.words : NULL);
  }
  printf("      esac ;;\n"
         "  esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _attnpress ]; then _attnpress \"$@\"; else compdef _attnpress "
         "attnpress; fi\n");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_option(const tool_command *command, const tool_opt *o) {
  printf("complete -c attnpress -n '__attnpress_is %s' -l %s", command->name, o->name + 2);
  switch (kind_of(o)) {
  case NO_VALUE:
    break;
  case WORDS:
    printf(" -x -a '");
    print_words(o->value);
    printf("'");
    break;
  case TARGETS:
    printf(" -x -a '");
    print_targets();
    printf("'");
    break;
  case DIRECTORY:
    printf(" -x -a '(__fish_complete_directories)'");
    break;
  case FILES:
    printf(" -r -F");
    break;
  case FREE:
    printf(" -x");
  }
  printf(" -d '");
  for (const char *c = o->help; *c; ++c) /* in fish a quote needs a backslash */
    printf("%s%c", *c == '\'' || *c == '\\' ? "\\" : "", *c);
  printf("'\n");
}

static void fish_options(const tool_command *command) {
  if (command->words != NULL) {
    printf("complete -c attnpress -n '__attnpress_is %s' -a '", command->name);
    print_words(command->words);
    printf("'\n");
  }
  each_option(command, fish_option);
}

static void print_fish(void) {
  printf("# Completions of attnpress for fish, written by `attnpress completions fish`.\n"
         "function __attnpress_is # COMMAND [FAMILY]\n"
         "    set -l words (commandline -opc)\n"
         "    set -l family attention\n"
         "    if contains -- \"$words[3]\" ");
  print_words(ap_tool_run.words);
  printf("\n"
         "        set family $words[3]\n"
         "    end\n"
         "    test \"$words[2]\" = $argv[1]; and begin\n"
         "        not set -q argv[2]; or test $family = $argv[2]\n"
         "    end\n"
         "end\n"
         "complete -c attnpress -f\n"
         "complete -c attnpress -l help -d 'what there is'\n");
  for (const tool_command *const *c = ap_tool_commands; *c != NULL; ++c) {
    printf("complete -c attnpress -n __fish_use_subcommand -a %s -d '", (*c)->name);
    print_quoted((*c)->summary, "\\");
    printf("'\n");
  }
  fish_options(&ap_tool_run);
  each_command(fish_options);
}

static int run_completions(int argc, char **argv) {
  if (argc != 2)
    return tool_usage("completions", "one shell is needed: bash, zsh or fish");
  if (strcmp(argv[1], "bash") == 0)
    print_bash();
  else if (strcmp(argv[1], "zsh") == 0)
    print_zsh();
  else if (strcmp(argv[1], "fish") == 0)
    print_fish();
  else
    return tool_usage("completions", "there are none for \"%s\": it must be bash, zsh or fish",
                      argv[1]);
  return TOOL_OK;
}

const tool_command ap_tool_completions = {
    .name = "completions",
    .summary = "print the completions of a shell",
    .usage = "bash|zsh|fish",
    .words = "bash|zsh|fish",
    .about =
        "Prints what the shell reads to complete the words of this tool. An installed attnpress "
        "has them where shells look; in a checkout: source <(build/attnpress completions bash)",
    .run = run_completions,
};

/* ---- The manual page ------------------------------------------------------------------------- */

/** Text of roff: no line begins with a control character, and "-" stays what it is. */
static void print_roff(const char *text) {
  for (int begins = 1; *text; begins = *text++ == '\n') {
    if (begins && (*text == '.' || *text == '\''))
      fputs("\\&", stdout);
    if (*text == '\\')
      fputs("\\e", stdout);
    else if (*text == '-')
      fputs("\\-", stdout);
    else if (*text == '\n' && !begins) /* the second of two is in the paragraph's */
      fputs(text[1] == '\n' ? "\n.PP\n" : "\n.br\n", stdout);
    else if (*text != '\n')
      putchar(*text);
  }
}

static void print_roff_line(const char *text) {
  print_roff(text);
  putchar('\n');
}

/** Names of a family with all that they may hold: a line may end behind each of their choices. */
static void print_roff_names(const char *names) {
  while (*names) {
    const size_t length = strcspn(names, "|]>");
    const size_t with = names[length] ? length + 1 : length;
    char part[256];
    snprintf(part, sizeof part, "%.*s", (int)with, names);
    print_roff(part);
    if (names[length])
      fputs("\\:", stdout);
    names += with;
  }
  printf("\n.br\n");
}

static void roff_option(const tool_command *command, const tool_opt *o) {
  (void)command;
  printf(".TP\n\\fB");
  print_roff(o->name);
  printf("\\fR");
  if (o->value != NULL) {
    printf(" \\fI");
    print_roff(o->value);
    printf("\\fR");
  }
  printf("\n");
  print_roff_line(o->help);
}

static void roff_command(const tool_command *command) {
  printf(".SS attnpress %s\n.nf\n", command->name);
  for (const char *line = command->usage; *line;) {
    char text[256];
    const int length = (int)strcspn(line, "\n");
    snprintf(text, sizeof text, "attnpress %s%s%.*s", command->name, length ? " " : "", length,
             line);
    print_roff_line(text);
    line += length + (line[length] == '\n');
  }
  printf(".fi\n.PP\n");
  print_roff_line(command->about);
  each_option(command, roff_option);
}

static int run_manual(int argc, char **argv) {
  if (argc > 1)
    return tool_usage("manual", "\"%s\" is a word too many", argv[1]);
  printf(".TH ATTNPRESS 1 \"\" \"attnpress %d.%d.%d\" \"attnpress\"\n"
         ".SH NAME\nattnpress \\- exact attention, pressed from templates\n"
         ".SH SYNOPSIS\n.B attnpress\n.I COMMAND\n[\\fIOPTION\\fR]...\n"
         ".SH DESCRIPTION\n"
         "The tool of the attnpress library: its kernels, its cache, and what it does on this "
         "machine. A value stands after its option, or behind it and an equals sign.\n",
         ATTNPRESS_VERSION_MAJOR, ATTNPRESS_VERSION_MINOR, ATTNPRESS_VERSION_PATCH);
  for (const tool_command *const *c = ap_tool_commands; *c != NULL; ++c) {
    printf(".TP\n.B %s\n", (*c)->name);
    print_roff_line((*c)->summary);
  }
  printf(".PP\nKernels are named\n.PP\n.ad l\n");
  for (size_t i = 0; i < ap_families_count; ++i)
    print_roff_names(ap_families[i]->grammar);
  printf(".ad b\n.PP\nwith D and DV the head dims.\n.SH COMMANDS\n");
  for (const tool_command *const *c = ap_tool_commands; *c != NULL; ++c) {
    roff_command(*c);
    for (const tool_command *const *f = ap_tool_run_families; *c == &ap_tool_run && *f; ++f)
      roff_command(*f);
  }
  printf(".SH EXIT STATUS\n0: success. 1: failure. 2: wrong arguments.\n");
  return TOOL_OK;
}

const tool_command ap_tool_manual = {
    .name = "manual",
    .summary = "print the manual page",
    .usage = "",
    .about = "Prints attnpress(1), which is installed, for man: attnpress manual | man -l -",
    .run = run_manual,
};
