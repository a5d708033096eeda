/* Reads structs whose first field is their size. */
#include "core/struct.h"

#include <string.h>

#include "core/error.h"

attnpress_status ap_copy_struct(const void *given, void *copy, size_t known_bytes,
                                const char *name) {
  RETURN_IF(given == NULL, ATTNPRESS_INVALID_ARGUMENT, "%s is NULL", name);
  size_t struct_size;
  memcpy(&struct_size, given, sizeof struct_size);
  RETURN_IF(struct_size < known_bytes, ATTNPRESS_INVALID_ARGUMENT,
            "%s.struct_size is %zu; at least %zu is needed: initialise the struct with its _INIT "
            "macro",
            name, struct_size, known_bytes);
  enum { TAIL_MAX_BYTES = 4096 };
  RETURN_IF(struct_size > known_bytes + TAIL_MAX_BYTES, ATTNPRESS_INVALID_ARGUMENT,
            "%s.struct_size is %zu, which no version has; this one's is %zu", name, struct_size,
            known_bytes);
  const unsigned char *bytes = given;
  for (size_t i = known_bytes; i < struct_size; ++i)
    RETURN_IF(bytes[i] != 0, ATTNPRESS_INVALID_ARGUMENT,
              "%s uses a field at byte %zu that this version (%d.%d.%d) does not know", name, i,
              ATTNPRESS_VERSION_MAJOR, ATTNPRESS_VERSION_MINOR, ATTNPRESS_VERSION_PATCH);
  memcpy(copy, given, known_bytes);
  return ATTNPRESS_OK;
}
