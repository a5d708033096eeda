/* Written by `python -m generator` from generator/append/tiles.toml and generator/append/rules.py; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

/* A row: pass, dtype, arch; tile class;
 * threads, smem_bytes, warps;
 * the target's place in ap_targets. AP_ANY: any.
 * Sorted by pass, dtype, arch; the first row that matches a variant and a
 * target is theirs. */
static const ap_tile_entry rows[] = {
    {{0, 1, 80}, {128, 0, {4}}, AP_ANY, AP_ANY},
    {{0, 2, 80}, {128, 0, {4}}, AP_ANY, AP_ANY},
    {{0, 3, 80}, {128, 0, {4}}, AP_ANY, AP_ANY},
};
/* Of each row, for the search: key, mask. */
static const ap_tile_key keys[] = {
    {0xd0, 0x3ff},
    {0x150, 0x3ff},
    {0x1d0, 0x3ff},
    {~0ull, 0},
};
static const uint16_t slots[] = {
    0, 0, 0, 0, 1, 2, 3, 0,
};
extern const ap_tile_table ap_tiles_append;
const ap_tile_table ap_tiles_append = {
    rows, keys, 3, 0x3ff, 0x0, slots, 3,
};
