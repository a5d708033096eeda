/* Written by `python -m generator` from generator/outer/tiles.toml and generator/outer/rules.py; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

/* A row: pass, dtype, mod, arch; tile class;
 * threads, smem_bytes, warps, rows;
 * the target's place in ap_targets. AP_ANY: any.
 * Sorted by pass, dtype, mod, arch; the first row that matches a variant and a
 * target is theirs. */
static const ap_tile_entry rows[] = {
    {{0, 1, 0, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{0, 1, 1, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{0, 2, 0, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{0, 2, 1, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{0, 3, 0, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{0, 3, 1, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{1, 1, 0, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{1, 2, 0, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{1, 3, 0, 80}, {256, 0, {8, 8}}, AP_ANY, AP_ANY},
    {{2, 1, 0, 80}, {64, 0, {2, 8}}, AP_ANY, AP_ANY},
    {{2, 1, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{2, 2, 0, 80}, {64, 0, {2, 8}}, AP_ANY, AP_ANY},
    {{2, 2, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{2, 3, 0, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{2, 3, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{3, 1, 0, 80}, {128, 0, {4, 4}}, AP_ANY, AP_ANY},
    {{3, 1, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{3, 2, 0, 80}, {128, 0, {4, 4}}, AP_ANY, AP_ANY},
    {{3, 2, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{3, 3, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{3, 3, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{4, 1, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{4, 2, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{4, 3, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{5, 1, 0, 80}, {64, 0, {2, 8}}, AP_ANY, AP_ANY},
    {{5, 2, 0, 80}, {64, 0, {2, 8}}, AP_ANY, AP_ANY},
    {{5, 3, 0, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{6, 1, 0, 80}, {64, 0, {2, 8}}, AP_ANY, AP_ANY},
    {{6, 2, 0, 80}, {64, 0, {2, 8}}, AP_ANY, AP_ANY},
    {{6, 3, 0, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
};
/* Of each row, for the search: key, mask. */
static const ap_tile_key keys[] = {
    {0x150, 0x1fff},
    {0x1d0, 0x1fff},
    {0x250, 0x1fff},
    {0x2d0, 0x1fff},
    {0x350, 0x1fff},
    {0x3d0, 0x1fff},
    {0x550, 0x1fff},
    {0x650, 0x1fff},
    {0x750, 0x1fff},
    {0x950, 0x1fff},
    {0x9d0, 0x1fff},
    {0xa50, 0x1fff},
    {0xad0, 0x1fff},
    {0xb50, 0x1fff},
    {0xbd0, 0x1fff},
    {0xd50, 0x1fff},
    {0xdd0, 0x1fff},
    {0xe50, 0x1fff},
    {0xed0, 0x1fff},
    {0xf50, 0x1fff},
    {0xfd0, 0x1fff},
    {0x1150, 0x1fff},
    {0x1250, 0x1fff},
    {0x1350, 0x1fff},
    {0x1550, 0x1fff},
    {0x1650, 0x1fff},
    {0x1750, 0x1fff},
    {0x1950, 0x1fff},
    {0x1a50, 0x1fff},
    {0x1b50, 0x1fff},
    {~0ull, 0},
};
static const uint16_t slots[] = {
    25, 0, 0, 0, 29, 5, 0, 0, 22, 0, 0, 0, 6, 26, 0, 0,
    16, 0, 30, 0, 0, 23, 0, 17, 0, 10, 0, 27, 0, 0, 18, 0,
    11, 7, 0, 24, 0, 19, 0, 12, 0, 0, 1, 0, 20, 13, 0, 8,
    0, 2, 0, 21, 14, 0, 0, 28, 3, 0, 0, 15, 0, 9, 0, 4,
};
extern const ap_tile_table ap_tiles_outer;
const ap_tile_table ap_tiles_outer = {
    rows, keys, 30, 0x1fff, 0x0, slots, 6,
};
