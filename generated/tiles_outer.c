/* Written by `python -m generator` from generator/outer/tiles.toml and generator/outer/rules.py; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

/* A row: pass, dtype, arch; tile class;
 * threads, smem_bytes, warps, rows;
 * the target's place in ap_targets. AP_ANY: any.
 * Sorted by pass, dtype, arch; the first row that matches a variant and a
 * target is theirs. */
static const ap_tile_entry rows[] = {
    {{0, 1, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{0, 2, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{0, 3, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{1, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{1, 2, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{1, 3, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{2, 1, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{2, 2, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{2, 3, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{3, 1, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{3, 2, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{3, 3, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
};
/* Of each row, for the search: key, mask. */
static const ap_tile_key keys[] = {
    {0xd0, 0x7ff},
    {0x150, 0x7ff},
    {0x1d0, 0x7ff},
    {0x2d0, 0x7ff},
    {0x350, 0x7ff},
    {0x3d0, 0x7ff},
    {0x4d0, 0x7ff},
    {0x550, 0x7ff},
    {0x5d0, 0x7ff},
    {0x6d0, 0x7ff},
    {0x750, 0x7ff},
    {0x7d0, 0x7ff},
    {~0ull, 0},
};
static const uint16_t slots[] = {
    0, 0, 5, 12, 0, 0, 6, 0, 0, 0, 0, 0, 0, 7, 0, 0,
    8, 1, 0, 0, 9, 2, 0, 0, 3, 0, 0, 10, 0, 0, 11, 4,
};
extern const ap_tile_table ap_tiles_outer;
const ap_tile_table ap_tiles_outer = {
    rows, keys, 12, 0x7ff, slots, 5,
};
