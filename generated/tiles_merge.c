/* Written by `python -m generator` from generator/merge/tiles.toml and generator/merge/rules.py; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

/* A row: pass, dtype, result, arch; tile class;
 * threads, smem_bytes, warps, step;
 * the target's place in ap_targets. AP_ANY: any.
 * Sorted by pass, dtype, result, arch; the first row that matches a variant and a
 * target is theirs. */
static const ap_tile_entry rows[] = {
    {{0, 1, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{0, 1, 2, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{0, 1, 3, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{0, 2, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{0, 2, 2, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{0, 2, 3, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{0, 3, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{0, 3, 2, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{0, 3, 3, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
};
/* Of each row, for the search: key, mask. */
static const ap_tile_key keys[] = {
    {0x2d0, 0xfff},
    {0x350, 0xfff},
    {0x3d0, 0xfff},
    {0x4d0, 0xfff},
    {0x550, 0xfff},
    {0x5d0, 0xfff},
    {0x6d0, 0xfff},
    {0x750, 0xfff},
    {0x7d0, 0xfff},
    {~0ull, 0},
};
static const uint16_t slots[] = {
    0, 0, 2, 9, 0, 0, 3, 0, 0, 0, 0, 0, 0, 4, 0, 0,
    5, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 7, 0, 0, 8, 1,
};
extern const ap_tile_table ap_tiles_merge;
const ap_tile_table ap_tiles_merge = {
    rows, keys, 9, 0xfff, 0x0, slots, 5,
};
