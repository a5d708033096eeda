/* Written by `python -m generator` from generator/softmax/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_softmax_bwd(ap_text *out, const ap_render_input *in);
void ap_render_softmax_bwd_long(ap_text *out, const ap_render_input *in);
void ap_render_softmax_fwd(ap_text *out, const ap_render_input *in);
void ap_render_softmax_fwd_long(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_softmax;

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"bwd", "_bwd", 1}};
static const int32_t values_1[] = {0, 1};
static const int32_t values_2[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 65536};
static const ap_word words_3[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}, {"fp32", "_fp32", 3}};
static const int32_t values_4[] = {1, 2, 3};
static const int32_t values_5[] = {80};
static const ap_tile_part parts_6[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"r", 2, 0, 1}, {"s", 3, 0, 0}, {"h", 4, 0, 0}, {"a", 5, 1, -1}, {"p", 6, 1, -1}, {"b", 7, 0, 0}};
static const ap_tile_part parts_7[] = {{"w", 0, 0, -1}, {"v", 8, 0, -1}};
static const int32_t values_8[] = {1};
static const int32_t values_9[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
static const ap_set where_10[] = {{0, 0, 0, 1, values_8, 1}, {1, 0, 0, 1, values_9, 20}};
static const int32_t values_11[] = {65536};
static const ap_set where_12[] = {{0, 0, 0, 1, values_8, 1}, {1, 0, 0, 1, values_11, 1}};
static const int32_t values_13[] = {0};
static const ap_set where_14[] = {{0, 0, 0, 1, values_13, 1}, {1, 0, 0, 1, values_9, 20}};
static const ap_set where_15[] = {{0, 0, 0, 1, values_13, 1}, {1, 0, 0, 1, values_11, 1}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 2}, words_0},
    {"cols", "columns", AP_AXIS_NUMBER, "_cols", "", "with columns ", "",
     -1, {1, 0, 0, 1, values_2, 21}, 0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {2, 0, 0, 1, values_4, 3}, words_3},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {3, 0, 0, 1, values_5, 1}, 0},
};
/* where, must, same as, pairs */
static const char *const fields[] = {
    "warps",
    "row_threads",
    "rows",
    "in_shared",
    "held",
    "ahead",
    "packed",
    "blocks",
    "step",
};
static const ap_tile_form forms[] = {
    {8, 0, parts_6, 8},
    {-1, 0, parts_7, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"softmax/softmax_bwd.cu.j2", where_10, 2, ap_render_softmax_bwd},
    {"softmax/softmax_bwd_long.cu.j2", where_12, 2, ap_render_softmax_bwd_long},
    {"softmax/softmax_fwd.cu.j2", where_14, 2, ap_render_softmax_fwd},
    {"softmax/softmax_fwd_long.cu.j2", where_15, 2, ap_render_softmax_fwd_long},
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

extern const ap_family ap_family_softmax;
const ap_family ap_family_softmax = {
    "softmax", "softmax",
    "softmax_<fwd|bwd>_cols<32|64|96|128|192|256|384|512|768|1024|1536|2048|3072|4096|6144|8192|12288|16384|24576|32768|65536>_<fp16|bf16|fp32>_sm<80>",
    axes, 4, 3,
    0x8000000,
    {0x4000000, 0x200, 0x80, 0x1},
    {~0x1u, ~0x1ffffu, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    0, 0,
    9, fields, forms, 2,
    0, 0, &ap_tiles_softmax, 0, 0, 0,
    templates, 4, routes, 8,
    0, 0,
};
