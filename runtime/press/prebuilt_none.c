/* The table of linked cubins where there are none: in the tool that compiles them, and in a library
 * that was built without them. */
#include "press/registry.h"

const ap_cubin ap_prebuilt_cubins[] = {{NULL, NULL, NULL, NULL, 0, 0, 0, 0}};
const size_t ap_prebuilt_cubins_count = 0;

int ap_unpack_prebuilt(const ap_cubin *row, unsigned char *cubin) {
  (void)row;
  (void)cubin;
  return 0;
}
