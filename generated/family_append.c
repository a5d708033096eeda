/* Written by `python -m generator` from generator/append/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_append_write(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_append;

static const ap_word words_0[] = {{"write", "_write", 0}};
static const int32_t values_1[] = {0};
static const ap_word words_2[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}, {"fp32", "_fp32", 3}};
static const int32_t values_3[] = {1, 2, 3};
static const int32_t values_4[] = {80};
static const ap_tile_part parts_5[] = {{"w", 0, 0, -1}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 1}, words_0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {1, 0, 0, 1, values_3, 3}, words_2},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {2, 0, 0, 1, values_4, 1}, 0},
};
/* where, must, same as, pairs */
static const char *const fields[] = {
    "warps",
};
static const ap_tile_form forms[] = {
    {-1, 0, parts_5, 1},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"append/append_write.cu.j2", 0, 0, ap_render_append_write},
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

extern const ap_family ap_family_append;
const ap_family ap_family_append = {
    "append", "append",
    "append_<write>_<fp16|bf16|fp32>_sm<80>",
    axes, 3, 2,
    0x400,
    {0x200, 0x80, 0x1},
    {~0x1u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    0, 0,
    1, fields, forms, 1,
    0, 0, &ap_tiles_append, 0, 0, 0,
    templates, 1, routes, 8,
    0, 0,
};
