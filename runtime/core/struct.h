/* Structs whose first field is their size, as callers hand them in. */
#pragma once
#include <stddef.h>

#include "attnpress/attnpress.h"

/** Copies a caller's versioned struct: `known_bytes` of it to `copy`, unless it is smaller, or
 * larger with a tail that is not zero. The first field is its size. */
attnpress_status ap_copy_struct(const void *given, void *copy, size_t known_bytes,
                                const char *name);
