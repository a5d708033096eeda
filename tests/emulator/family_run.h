/* What the commands `attnpress run FAMILY --device emulated` have in common: their words, the kernel
 * that is named or chosen, and the report. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "../../tools/options.h"
#include "family.h"
#include "cuda/driver.h"

typedef struct run_number {
  const char *name;
  int64_t *value, least;
} run_number;

typedef struct run_int { /* up to INT32_MAX */
  const char *name;
  int *value, least;
} run_int;

/** One of `names`, which end with NULL, from names[first] on; the value is its place. */
typedef struct run_choice {
  const char *name;
  const char *const *names;
  int first, *value;
} run_choice;

typedef struct run_real { /* not 0 */
  const char *name;
  float *value;
} run_real;

/** A word as it stands; up to `most` of them, in order. */
typedef struct run_text {
  const char *name, **value;
  int most;
} run_text;

typedef struct run_flag {
  const char *name;
  int *value;
} run_flag;

/** The kernel that is meant; all NULL: the one that the library would choose. */
typedef struct run_kernel {
  const char *stem, *source;
  int templates; /* 1: made by the generator from the templates as they stand now */
} run_kernel;

/** Words of a kind that these tables have not. `flag`: 1 where the word is one without a value, which is
 * then set; `value`: NULL, or what it must be, "" where the name is not known. */
typedef struct run_others {
  int (*flag)(void *of, const char *word);
  const char *(*value)(void *of, const char *name, const char *value);
  const tool_opt *options; /* for --help */
  void *of;
} run_others;

/** A command's words. Tables end with a row without a name; NULL: there are none of the kind. */
typedef struct run_words {
  const char *family, *help; /* family: NULL of attention */
  const run_number *numbers;
  const run_int *ints;
  const run_choice *choices;
  const run_real *reals;
  const run_flag *flags;
  const run_text *texts;
  const run_others *others;
  run_kernel *kernel;
} run_words;

enum { RUN_GOES_ON = -1, RUN_WRONG_WORDS = 2 };

extern const char *const run_dtype_names[]; /* "any", "fp16", "bf16", "fp32": as ATTNPRESS_... */

/** The devices whose kernels are chosen, of compute capability 8.0, 8.6 and 9.0; run_device: the
 * first. */
enum { RUN_ARCHS = 3 };
extern const char *const run_arch_names[]; /* "sm80", "sm86", "sm90" */
extern const ap_device run_devices[RUN_ARCHS];
#define run_device run_devices[0]

/** A copy of rows, `stride` bytes apart, without what lies between them: the caller frees it. */
void *copy_rows(const void *data, int64_t rows, size_t row_bytes, int64_t stride);

/** Reads the words: RUN_GOES_ON, or the status to end with. */
int run_parse(const run_words *words, int argc, char **argv);
/** Says on stderr what words that do not go together are, and returns the status to end with. */
int run_refuse(const run_words *words, const char *format, ...);
/** The kernel that is meant, or that of the variant `chosen`: 0, or -1 with the reason in `report`. */
int run_open(const run_kernel *meant, const ap_variant *chosen, kernel *k, char *report);
/** Prints what came of a shape, of which `failed` is -1 and `report` says why, or 0; returns the
 * status to end with. */
int run_print(const kernel *k, const char *shape, int failed, double ratio, int64_t elements,
              const char *report);
