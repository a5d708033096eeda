/* Written by `python -m generator` from generator/dropout/tiles.toml and generator/dropout/rules.py; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

/* A row: pass, arch; tile class;
 * threads, smem_bytes, warps, block_n;
 * the target's place in ap_targets. AP_ANY: any.
 * Sorted by pass, arch; the first row that matches a variant and a
 * target is theirs. */
static const ap_tile_entry rows[] = {
    {{0, 80}, {128, 0, {4, 64}}, AP_ANY, AP_ANY},
};
/* Of each row, for the search: key, mask. */
static const ap_tile_key keys[] = {
    {0x50, 0xff},
    {~0ull, 0},
};
static const uint16_t slots[] = {
    1, 0,
};
extern const ap_tile_table ap_tiles_dropout;
const ap_tile_table ap_tiles_dropout = {
    rows, keys, 1, 0xff, 0x0, slots, 1,
};
