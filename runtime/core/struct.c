/* Reading and writing the structs that grow. */
#include "core/struct.h"

#include <string.h>

#include "core/error.h"

attnpress_status ap_copy_struct(const void *given, void *copy, size_t known_bytes,
                                size_t first_bytes, const char *name) {
  size_t given_bytes;
  RETURN_IF(given == NULL, ATTNPRESS_INVALID_ARGUMENT, "%s is NULL", name);
  memcpy(&given_bytes, given, sizeof given_bytes);
  RETURN_IF(given_bytes < first_bytes, ATTNPRESS_INVALID_ARGUMENT,
            "%s.struct_size is %zu; it must be at least %zu: initialise the struct with its _INIT "
            "macro",
            name, given_bytes, first_bytes);
  enum { TAIL_MAX_BYTES = 4096 };
  RETURN_IF(given_bytes > known_bytes + TAIL_MAX_BYTES, ATTNPRESS_INVALID_ARGUMENT,
            "%s.struct_size is %zu, which no version has; this one's is %zu", name, given_bytes,
            known_bytes);
  const unsigned char *bytes = given;
  for (size_t i = known_bytes; i < given_bytes; ++i)
    RETURN_IF(bytes[i] != 0, ATTNPRESS_INVALID_ARGUMENT,
              "%s uses a field at byte %zu that this version (%d.%d.%d) does not know", name, i,
              ATTNPRESS_VERSION_MAJOR, ATTNPRESS_VERSION_MINOR, ATTNPRESS_VERSION_PATCH);
  const size_t common = given_bytes < known_bytes ? given_bytes : known_bytes;
  memcpy(copy, given, common);
  memset((unsigned char *)copy + common, 0, known_bytes - common);
  return ATTNPRESS_OK;
}

void ap_write_struct(const void *found, size_t known_bytes, void *given) {
  size_t given_bytes;
  memcpy(&given_bytes, given, sizeof given_bytes);
  const size_t common = given_bytes < known_bytes ? given_bytes : known_bytes;
  memcpy((unsigned char *)given + sizeof given_bytes,
         (const unsigned char *)found + sizeof given_bytes, common - sizeof given_bytes);
}
