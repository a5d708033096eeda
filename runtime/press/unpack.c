/* Unpacks linked cubins. Stands beside the table of those that the build made: a library without
 * them has prebuilt_none.c, and no zstd. */
#include "press/registry.h"

#include <zstd.h>

int ap_unpack_prebuilt(const ap_cubin *row, unsigned char *cubin) {
  return ZSTD_decompress(cubin, row->size, row->data, row->stored_size) == row->size;
}
