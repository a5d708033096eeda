/* Forward calls under the emulator: a kernel, a shape, random inputs, and the comparison with
 * float64. */
#pragma once
#include <stdint.h>

#include "../generated/families.h"
#include "press/registry.h"
#include "../../tools/reference.h"
#include "emulator.h"
#include "scores.h"

/** A kernel, compiled for the host and loaded. */
typedef struct kernel {
  ap_variant variant;
  ap_tile tile;
  char stem[AP_STEM_MAX];
  emulated_module *module;
  snippet_file *mod; /* the snippet that its source ends with; NULL: none. Kept by kernel.c. */
  char *source;      /* without the snippet; freed with the kernel */
  /* 1: it may be launched before earlier ones have ended: its source has the means to wait for that */
  int overlaps;
} kernel;

/** Compiles and loads the kernel in `source`, whose file name is its stem. The fields of the tile
 * that a launch needs are read from the source's own constants. 0; or -1 with the reason in
 * `report`. */
int kernel_open(kernel *k, const char *source, char *report);
/** The same of a source that is rendered first, for (stem, tile); tile NULL: the variant's own. */
int kernel_press(kernel *k, const char *stem, const ap_tile *tile, char *report);
/** The same of a source that the Python generator makes from the templates as they stand now. */
int kernel_generate(kernel *k, const char *stem, char *report);
void kernel_close(kernel *k);
/** The file of the snippet that kernels which take one end with from now on, and scalars to set in
 * it as "name=value", NULL at the end; NULL: each has one of its own, by its name. 0; or -1 with
 * the reason in `report`. */
int kernel_use_mod(const char *path, const char *const *scalars, char *report);
const snippet_file *kernel_mod(void); /* that one; NULL: none */

typedef enum layout {
  LAYOUT_BSHD,
  LAYOUT_BHSD,
  LAYOUT_GAPS,      /* bshd with room between rows, and between those of lse */
  LAYOUT_FAR_ROWS,  /* bshd, rows more than 2^31 elements apart */
  LAYOUT_FAR_HEADS, /* bhsd, heads more than 2^31 elements apart */
  LAYOUTS,
} layout;

typedef struct shape {
  int batch, seqlen_q, seqlen_k, heads_kv, group; /* group: query heads of one key head */
  int packed; /* so many heads of a group share a tile; 0: one has its own */
  int splits; /* of split kernels */
  layout layout;
  int without_lse;
  float scale; /* 0: 1 / sqrt(hdim) */
  float below; /* that much scores lie below zero, in natural units */
  /* Of sm90 kernels: the grid's blocks, which share the units of work (0: two), heads of a section
   * (0: all), sections of a group of units (0: all). */
  int blocks, section_heads, group_sections;
  score_shape scores;
} shape;

/** What came of one call, or of several: errors add up. Zero-fill it first. */
typedef struct verdict {
  int passed;
  reference_error error;
  uint64_t bits;                      /* of the outputs, where they are to be compared */
  char report[EMULATED_REPORT_BYTES]; /* where it did not pass */
} verdict;

/** The kernels that a forward kernel is launched with: what adds up its splits, also those at fixed
 * places of few rows, and what writes the map of its snippet's mask. Those that it does not need are
 * zeros. */
typedef struct companions {
  kernel combine, combine_few, map, schedule;
} companions;

/** 1 of a kernel that reads the map of its snippet's mask. */
int needs_map(const ap_variant *v);
/** What runs before a ragged kernel of compute capability 9.0. */
#define SCHEDULE_STEM       "flash_fwd_schedule_hdim8_bf16_sm80"
#define READY_SCHEDULE_STEM "flash_fwd_schedule_hdim8_bf16_ready_sm80"
/** The stem of the schedule kernel that comes before a kernel that needs one. */
static inline const char *schedule_stem(const ap_variant *v) {
  return v->axis[AP_ATTENTION_READY] ? READY_SCHEDULE_STEM : SCHEDULE_STEM;
}
int needs_schedule(const ap_variant *v);
/** The name of the kernel that adds up the parts of a split one: 0, or -1. */
int combine_stem(const ap_variant *split, int few, char stem[AP_STEM_MAX]);

/** Opens those that a kernel needs, from what the library renders. 0; or -1 with the reason in
 * `report`. */
int companions_open(companions *c, const kernel *forward, char *report);
void companions_close(companions *c);

/** Runs `forward`, before it the map kernel and after a split kernel the one that adds up, and
 * compares out and lse with float64. */
void run_forward(const kernel *forward, const companions *others, const shape *s, uint64_t seed,
                 verdict *v);
/** Runs a combine kernel on random parts of `splits` splits, some of them empty: rows of (batch,
 * heads, seqlen_q), each by a thread block, or by one of its groups of threads. */
void run_combine(const kernel *combine, const shape *s, int by_groups, uint64_t seed, verdict *v);

/** "batch 2, 33 queries, 65 keys, 4 heads on 1 key head, 4 packed, bhsd, window 7,0": of a kernel. */
void print_shape(const ap_variant *variant, const shape *s, char *text, int text_bytes);

/** Fills a tensor's strides. */
void layout_strides(attnpress_tensor *t, layout layout);
/** Every element becomes NaN. */
void poison_tensor(const emulated_tensor *t);
