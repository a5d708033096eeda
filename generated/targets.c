/* Written by `python -m generator` from generator/targets.toml and each family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/target.h"

/* name, capability, shared memory of a thread block in bytes */
const ap_target ap_targets[] = {
    {"sm_80", 80, 166912},
    {"sm_86", 86, 101376},
    {"sm_90", 90, 232448},
    {"sm_90a", 90, 232448},
    {"sm_100", 100, 232448},
    {"sm_110", 110, 232448},
    {"sm_120", 120, 101376},
};
const size_t ap_targets_count = sizeof(ap_targets) / sizeof(ap_targets[0]);

/* arch, shared memory of a thread block in bytes, the only target */
const ap_arch ap_archs[] = {
    {80, 166912, 0},
    {86, 101376, 0},
    {90, 232448, "sm_90a"},
};
const size_t ap_archs_count = sizeof(ap_archs) / sizeof(ap_archs[0]);

const int ap_capability_min = 80;
const char ap_capability_list[] = "8.x, 9.0, 10.x, 11.x and 12.x";
