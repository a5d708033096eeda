/* What the commands of the tool share. The tool is linked with the library's own objects and looks
 * at its tables; it changes nothing that the public API cannot. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "options.h"

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* Commands. */
extern const tool_command ap_tool_list, ap_tool_source, ap_tool_compile, ap_tool_explain,
    ap_tool_report, ap_tool_run, ap_tool_cache, ap_tool_doctor, ap_tool_manual, ap_tool_completions,
    ap_tool_prebuild;
/** All of them, in the order of --help; NULL at the end. */
extern const tool_command *const ap_tool_commands[];
/** `attnpress run FAMILY`, of every family; NULL at the end. */
extern const tool_command *const ap_tool_run_families[];
/** --device emulated, which is handed to attnpress-emulate; and the options of its own. */
int ap_tool_run_emulated(int argc, char **argv);

/** Prints "attnpress COMMAND: <sentence>" to stderr and returns TOOL_USAGE. */
int tool_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Prints the library's last error the same way; TOOL_USAGE where the caller's words were wrong,
 * else TOOL_FAILED. */
int tool_fail(const char *command, attnpress_status status);

/** The value of option `name` at argv[*i], given as "--name VALUE" or "--name=VALUE"; NULL where
 * argv[*i] is something else. *i then stands on the last word that was used. A value that is
 * missing is "". */
const char *tool_option(int argc, char **argv, int *i, const char *name);
/** Reads an option's value, a whole number. TOOL_USAGE, with a sentence, where it is none, or out of
 * range. */
int tool_parse_number(const char *command, const char *option, const char *text, int64_t least,
                      int64_t most, int64_t *value);
/** The same of one of `names`, from `first` up to `count`; *value: its place. */
int tool_parse_choice(const char *command, const char *option, const char *text,
                      const char *const *names, int first, int count, int *value);
/** What tool_parse_choice() takes for --device. TOOL_EMULATED never comes there: tool_is_emulated()
 * sees it before. */
enum { TOOL_ANY_DEVICE, TOOL_CPU, TOOL_CUDA, TOOL_EMULATED, TOOL_DEVICES };
extern const char *const tool_device_names[TOOL_DEVICES];
/** Runs a small call on a device and compares it with the CPU's; `text` says how that went. 0: it did
 * not run, or the result is wrong. */
int tool_check_device(int ordinal, char *text, size_t size);
/** 1 where the words ask for `--device emulated`. */
int tool_is_emulated(int argc, char **argv);

/** Compresses with zstd. *frame is to be freed; 0, and the library's last error, where it fails. */
int tool_compress(const void *data, size_t size, void **frame, size_t *frame_size);

/* ---- Tables: columns as wide as they need to be ---- */

enum { TABLE_COLUMNS_MAX = 10 };

typedef struct tool_table {
  int columns;
  const char *titles[TABLE_COLUMNS_MAX]; /* one after '>' is set flush right, without it */
  char **cells;                          /* row after row */
  size_t rows, capacity;
} tool_table;

/** Adds a cell; after the last column a new row begins. */
void tool_cell(tool_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Prints and empties the table. */
void tool_print(tool_table *table);

/** A clock that only goes forward, in milliseconds. */
double tool_now_ms(void);
/** "12.3 KB", "4.5 MB" in powers of 1024. */
const char *tool_bytes(uint64_t bytes, char text[24]);
/** "sm_80, sm_86 and sm_90", where `last` is "and". */
void tool_join(char *text, size_t size, const char *const *words, size_t count, const char *last);
