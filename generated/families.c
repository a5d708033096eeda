/* Written by `python -m generator` from generator/families.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

extern const ap_family ap_family_attention;
extern const ap_family ap_family_softmax;
extern const ap_family ap_family_layernorm;
extern const ap_family ap_family_dropout;
extern const ap_family ap_family_outer;
extern const ap_family ap_family_append;
extern const ap_family ap_family_merge;
extern const ap_family ap_family_matmul;
extern const ap_family ap_family_conv2d;

const ap_family *const ap_families[] = {&ap_family_attention, &ap_family_softmax, &ap_family_layernorm, &ap_family_dropout, &ap_family_outer, &ap_family_append, &ap_family_merge, &ap_family_matmul, &ap_family_conv2d};
const size_t ap_families_count = sizeof(ap_families) / sizeof(ap_families[0]);
