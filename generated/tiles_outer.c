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
    {{1, 1, 0, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{1, 1, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{1, 2, 0, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{1, 2, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{1, 3, 0, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{1, 3, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{2, 1, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{2, 1, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{2, 2, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{2, 2, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{2, 3, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{2, 3, 1, 80}, {256, 0, {8, 4}}, AP_ANY, AP_ANY},
    {{3, 1, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{3, 2, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
    {{3, 3, 0, 80}, {128, 0, {4, 8}}, AP_ANY, AP_ANY},
};
/* Of each row, for the search: key, mask. */
static const ap_tile_key keys[] = {
    {0x150, 0xfff},
    {0x1d0, 0xfff},
    {0x250, 0xfff},
    {0x2d0, 0xfff},
    {0x350, 0xfff},
    {0x3d0, 0xfff},
    {0x550, 0xfff},
    {0x5d0, 0xfff},
    {0x650, 0xfff},
    {0x6d0, 0xfff},
    {0x750, 0xfff},
    {0x7d0, 0xfff},
    {0x950, 0xfff},
    {0x9d0, 0xfff},
    {0xa50, 0xfff},
    {0xad0, 0xfff},
    {0xb50, 0xfff},
    {0xbd0, 0xfff},
    {0xd50, 0xfff},
    {0xe50, 0xfff},
    {0xf50, 0xfff},
    {~0ull, 0},
};
static const uint16_t slots[] = {
    0, 0, 0, 0, 12, 5, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0,
    19, 0, 0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 0, 20, 0,
    14, 7, 0, 0, 0, 0, 0, 15, 8, 0, 1, 0, 21, 16, 0, 9,
    0, 2, 0, 0, 17, 0, 10, 0, 3, 0, 0, 18, 0, 11, 0, 4,
};
extern const ap_tile_table ap_tiles_outer;
const ap_tile_table ap_tiles_outer = {
    rows, keys, 21, 0xfff, 0x0, slots, 6,
};
