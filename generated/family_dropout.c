/* Written by `python -m generator` from generator/dropout/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_dropout_keep(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_dropout;

static const ap_word words_0[] = {{"keep", "_keep", 0}};
static const int32_t values_1[] = {0};
static const int32_t values_2[] = {80};
static const ap_tile_part parts_3[] = {{"w", 0, 0, -1}, {"n", 1, 0, -1}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 1}, words_0},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {1, 0, 0, 1, values_2, 1}, 0},
};
/* where, must, same as, pairs */
static const char *const fields[] = {
    "warps",
    "block_n",
};
static const ap_tile_form forms[] = {
    {-1, 0, parts_3, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"dropout/dropout_keep.cu.j2", 0, 0, ap_render_dropout_keep},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {0, 0, 8, 80, 80, 80, "sm_80"},
    {0, 0, 7, 86, 86, 80, "sm_86"},
    {0, 0, 6, 87, 87, 80, "sm_80"},
    {0, 0, 5, 88, 89, 80, "sm_86"},
    {0, 0, 4, 90, 90, 80, "sm_90"},
    {0, 0, 3, 100, 109, 80, "sm_100"},
    {0, 0, 2, 110, 119, 80, "sm_110"},
    {0, 0, 1, 120, 129, 80, "sm_120"},
};

extern const ap_family ap_family_dropout;
const ap_family ap_family_dropout = {
    "dropout", "dropout",
    "dropout_<keep>_sm<80>",
    axes, 2, 1,
    0x100,
    {0x80, 0x1},
    {~0x1u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    0, 0,
    2, fields, forms, 1,
    0, 0, &ap_tiles_dropout, 0, 0, 0,
    templates, 1, routes, 8,
    0, 0,
};
