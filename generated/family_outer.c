/* Written by `python -m generator` from generator/outer/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_outer_bwd(ap_text *out, const ap_render_input *in);
void ap_render_outer_bwd_reduce(ap_text *out, const ap_render_input *in);
void ap_render_outer_chunk(ap_text *out, const ap_render_input *in);
void ap_render_outer_flat(ap_text *out, const ap_render_input *in);
void ap_render_outer_fwd(ap_text *out, const ap_render_input *in);
void ap_render_outer_sum(ap_text *out, const ap_render_input *in);
void ap_render_outer_unit(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_outer;

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"unit", "_unit", 1}, {"chunk", "_chunk", 2}, {"flat", "_flat", 3}, {"sum", "_sum", 4}, {"bwd", "_bwd", 5}, {"bwd_reduce", "_bwd_reduce", 6}, {"sum_dx", "_sum_dx", 7}, {"sum_dy", "_sum_dy", 8}};
static const int32_t values_1[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
static const ap_word words_2[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}, {"fp32", "_fp32", 3}};
static const int32_t values_3[] = {1, 2, 3};
static const int32_t values_4[] = {0, 1};
static const int32_t values_5[] = {80};
static const int32_t values_6[] = {0};
static const int32_t values_7[] = {1, 2, 3, 6};
static const ap_set where_8[] = {{0, 0, 0, 1, values_7, 4}};
static const int32_t values_9[] = {7, 8};
static const ap_set where_10[] = {{0, 0, 0, 1, values_9, 2}};
static const ap_tile_part parts_11[] = {{"w", 0, 0, -1}, {"r", 1, 0, -1}};
static const int32_t values_12[] = {5};
static const ap_set where_13[] = {{0, 0, 0, 1, values_12, 1}};
static const int32_t values_14[] = {6};
static const ap_set where_15[] = {{0, 0, 0, 1, values_14, 1}};
static const int32_t values_16[] = {2};
static const ap_set where_17[] = {{0, 0, 0, 1, values_16, 1}};
static const int32_t values_18[] = {3};
static const ap_set where_19[] = {{0, 0, 0, 1, values_18, 1}};
static const ap_set where_20[] = {{0, 0, 0, 1, values_6, 1}};
static const int32_t values_21[] = {4, 7, 8};
static const ap_set where_22[] = {{0, 0, 0, 1, values_21, 3}};
static const int32_t values_23[] = {1};
static const ap_set where_24[] = {{0, 0, 0, 1, values_23, 1}};
static const ap_set where_25[] = {{2, 0, 0, 1, values_23, 1}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 9}, words_0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {1, 0, 0, 1, values_3, 3}, words_2},
    {"mod", "a snippet's function", AP_AXIS_FLAG, "_mod", "", "with a snippet's function ", "",
     -1, {2, 0, 0, 1, values_4, 2}, 0},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {3, 0, 0, 1, values_5, 1}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_8, 1, {2, 0, 0, 1, values_6, 1}, -1, 0, 0},
    {where_10, 1, {2, 0, 0, 1, values_6, 1}, -1, 0, 0},
};
static const char *const fields[] = {
    "warps",
    "rows",
};
static const ap_tile_form forms[] = {
    {-1, 0, parts_11, 2},
};
static const ap_snippet_rule snippets[] = {
    {where_25, 1},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"outer/outer_bwd.cu.j2", where_13, 1, ap_render_outer_bwd},
    {"outer/outer_bwd_reduce.cu.j2", where_15, 1, ap_render_outer_bwd_reduce},
    {"outer/outer_chunk.cu.j2", where_17, 1, ap_render_outer_chunk},
    {"outer/outer_flat.cu.j2", where_19, 1, ap_render_outer_flat},
    {"outer/outer_fwd.cu.j2", where_20, 1, ap_render_outer_fwd},
    {"outer/outer_sum.cu.j2", where_22, 1, ap_render_outer_sum},
    {"outer/outer_unit.cu.j2", where_24, 1, ap_render_outer_unit},
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

extern const ap_family ap_family_outer;
const ap_family ap_family_outer = {
    "outer", "outer",
    "outer_<fwd|unit|chunk|flat|sum|bwd|bwd_reduce|sum_dx|sum_dy>_<fp16|bf16|fp32>[_mod]_sm<80>",
    axes, 4, 3,
    0x4000,
    {0x400, 0x100, 0x80, 0x1},
    {~0xfu, ~0x3u, ~0x1u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 2,
    2, fields, forms, 1,
    0, 0, &ap_tiles_outer, 0, 0, 0,
    templates, 7, routes, 8,
    snippets, 1,
};
