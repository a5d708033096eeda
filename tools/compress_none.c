/* Stands for compress.c in a build without linked cubins, which needs no zstd. */
#include "handle.h"
#include "press/info.h"
#include "press/registry.h"
#include "press/target.h"
#include "tool.h"

int tool_compress(const void *data, size_t size, void **frame, size_t *frame_size) {
  (void)data;
  (void)size;
  *frame = NULL;
  *frame_size = 0;
  return ap_fail(ATTNPRESS_NOT_SUPPORTED,
                 "this attnpress was built without zstd, by -DATTNPRESS_PREBUILT=OFF") ==
         ATTNPRESS_OK;
}
