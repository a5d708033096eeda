/* Written by `python -m generator` from generator/families.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

extern const ap_family ap_family_attention;
extern const ap_family ap_family_softmax;

const ap_family *const ap_families[] = {&ap_family_attention, &ap_family_softmax};
const size_t ap_families_count = sizeof(ap_families) / sizeof(ap_families[0]);
