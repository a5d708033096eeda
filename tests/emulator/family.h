/* What the emulator asks of a family: one of these each, emulated_<family>. */
#pragma once
#include <stdio.h>

#include "forward.h"

typedef struct emulated_family {
  /** Reads the fields of the tile that a launch needs from a kernel's source. */
  void (*read_tile)(const char *source, const ap_variant *variant, ap_tile *tile);
  /** Runs a kernel over a table of shapes, up to the first that fails: 0, or 1, and says so.
   * *shapes counts. */
  int (*run_shapes)(const kernel *k, FILE *out, int *shapes);
  /** Of kernels that end with a snippet, NULL where there are none: the file of one's own, and the
   * text that a file becomes for it, or -1 with the reason in `report`. */
  const char *(*mod_of)(const ap_variant *variant, const char *stem);
  int (*write_mod)(snippet_file *mod, const ap_variant *variant, ap_text *text, char *report);
} emulated_family;

#define AP_EMULATED_FAMILY(name, NAME) extern const emulated_family emulated_##name;
AP_FAMILIES(AP_EMULATED_FAMILY)
#undef AP_EMULATED_FAMILY

/** That of a kernel. */
const emulated_family *emulated_family_of(const ap_variant *variant);
/** Of a stem: what takes turns from kernel to kernel. */
unsigned hash_of_name(const char *name);
/** The value of "constexpr int NAME = 64;" in a source; 0 where it has none. */
int32_t source_constant(const char *source, const char *name);
/** A kernel by its stem, rendered where generated/ does not show it, by a stem, ':' and the target
 * whose tile it is to have, or by the path of a source that ends in .cu. 0; or -1 with the reason in
 * `report`. */
int kernel_find(kernel *k, const char *name, char *report);
/** The same, with the snippet of another. */
int kernel_find_with_mod(kernel *k, const char *name, const snippet_file *mod, char *report);
/** The source of `of` again, with the snippet of a file. */
int kernel_open_again(kernel *k, const kernel *of, const char *mod_path, char *report);
