/* Compresses what `attnpress prebuild` has compiled. */
#include <stdlib.h>
#include <zstd.h>

#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "tool.h"

enum { LEVEL = 19 }; /* 20 ms a cubin; unpacking does not depend on it */

int tool_compress(const void *data, size_t size, void **frame, size_t *frame_size) {
  const size_t bound = ZSTD_compressBound(size);
  *frame = malloc(bound);
  if (*frame == NULL)
    return ap_fail(ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for %zu bytes", bound) ==
           ATTNPRESS_OK;
  *frame_size = ZSTD_compress(*frame, bound, data, size, LEVEL);
  if (!ZSTD_isError(*frame_size))
    return 1;
  ap_fail(ATTNPRESS_OUT_OF_MEMORY, "zstd: %s", ZSTD_getErrorName(*frame_size));
  free(*frame);
  *frame = NULL;
  return 0;
}
