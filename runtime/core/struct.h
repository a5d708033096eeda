/* The structs of the public interface that grow: how they are read and written back.
 *
 * The first field is struct_size. A smaller struct is an older caller's, whose missing tail counts
 * as zero; a larger one is a newer caller's, whose unknown tail must be zero; what is written back
 * is cut to the caller's size. */
#pragma once
#include <stddef.h>

#include "attnpress/attnpress.h"

/* Sizes in the first version of the interface, 0.2; they never change. A struct_size below them was
 * not initialised. */
enum {
  AP_OPTIONS_FIRST_BYTES = 80,
  AP_FORWARD_ARGS_FIRST_BYTES = 384,
  AP_PLAN_OPTIONS_FIRST_BYTES = 32,
  AP_INFO_FIRST_BYTES = 264
};

/** Reads a caller's struct into `copy`, of `known_bytes`; INVALID_ARGUMENT where it is NULL, was not
 * initialised, or uses what this version does not know. The copy's struct_size is the caller's. */
attnpress_status ap_copy_struct(const void *given, void *copy, size_t known_bytes,
                                size_t first_bytes, const char *name);
/** Writes `found`, of `known_bytes`, to a caller's struct as far as it reaches; its struct_size
 * stays. */
void ap_write_struct(const void *found, size_t known_bytes, void *given);
