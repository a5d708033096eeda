/* Finds an architecture: of the tables of targets alone, so that a family's tiles may ask. */
#include "press/target.h"

const ap_arch *ap_find_arch(int arch) {
  for (size_t i = 0; i < ap_archs_count; ++i)
    if (ap_archs[i].arch == arch)
      return &ap_archs[i];
  return NULL;
}
