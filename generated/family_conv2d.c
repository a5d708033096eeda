/* Written by `python -m generator` from generator/conv2d/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_conv2d_dout(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_gather_sm80(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_gather_sm90(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_reduce(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_wgrad_sm80(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_wgrad_sm90(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_conv2d;

static const ap_word words_0[] = {{"fprop", "_fprop", 0}, {"dgrad", "_dgrad", 1}, {"wgrad", "_wgrad", 2}, {"dout", "_dout", 3}, {"reduce", "_reduce", 4}};
static const int32_t values_1[] = {0, 1, 2, 3, 4};
static const ap_word words_2[] = {{"none", "", 0}, {"m128n128", "_m128n128", 1}, {"m128n64", "_m128n64", 2}, {"m64n128", "_m64n128", 3}, {"m64n64", "_m64n64", 4}};
static const ap_word words_3[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}};
static const int32_t values_4[] = {1, 2};
static const int32_t values_5[] = {80, 90};
static const int32_t values_6[] = {0};
static const int32_t values_7[] = {3, 4};
static const ap_set where_8[] = {{0, 0, 0, 1, values_7, 2}};
static const int32_t values_9[] = {80};
static const int32_t values_10[] = {1, 2, 3, 4};
static const int32_t values_11[] = {0, 1, 2};
static const ap_set where_12[] = {{0, 0, 0, 1, values_11, 3}};
static const ap_tile_part parts_13[] = {{"m", 4, 0, 0}, {"n", 5, 0, 0}, {"w", 0, 0, -1}, {"x", 1, 0, -1}, {"s", 2, 0, 0}, {"b", 3, 0, 1}};
static const int32_t values_14[] = {3};
static const ap_set where_15[] = {{0, 0, 0, 1, values_14, 1}};
static const int32_t values_16[] = {0, 1};
static const ap_set where_17[] = {{0, 0, 0, 1, values_16, 2}, {3, 0, 0, 1, values_9, 1}};
static const int32_t values_18[] = {90};
static const ap_set where_19[] = {{0, 0, 0, 1, values_16, 2}, {3, 0, 0, 1, values_18, 1}};
static const int32_t values_20[] = {4};
static const ap_set where_21[] = {{0, 0, 0, 1, values_20, 1}};
static const int32_t values_22[] = {2};
static const ap_set where_23[] = {{0, 0, 0, 1, values_22, 1}, {3, 0, 0, 1, values_9, 1}};
static const ap_set where_24[] = {{0, 0, 0, 1, values_22, 1}, {3, 0, 0, 1, values_18, 1}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"block", "block", AP_AXIS_WORD, "", "", "with block ", "",
     -1, {1, 0, 0, 1, values_1, 5}, words_2},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {2, 0, 0, 1, values_4, 2}, words_3},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {3, 0, 0, 1, values_5, 2}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_8, 1, {1, 0, 0, 1, values_6, 1}, -1, 0, 0},
    {where_8, 1, {3, 0, 0, 1, values_9, 1}, -1, 0, 0},
    {where_12, 1, {1, 0, 0, 1, values_10, 4}, -1, 0, 0},
};
static const char *const fields[] = {
    "warps_m",
    "warps_n",
    "stages",
    "min_blocks",
    "block_m",
    "block_n",
};
static const ap_tile_form forms[] = {
    {-1, 0, parts_13, 6},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"conv2d/conv2d_dout.cu.j2", where_15, 1, ap_render_conv2d_dout},
    {"conv2d/conv2d_gather_sm80.cu.j2", where_17, 2, ap_render_conv2d_gather_sm80},
    {"conv2d/conv2d_gather_sm90.cu.j2", where_19, 2, ap_render_conv2d_gather_sm90},
    {"conv2d/conv2d_reduce.cu.j2", where_21, 1, ap_render_conv2d_reduce},
    {"conv2d/conv2d_wgrad_sm80.cu.j2", where_23, 2, ap_render_conv2d_wgrad_sm80},
    {"conv2d/conv2d_wgrad_sm90.cu.j2", where_24, 2, ap_render_conv2d_wgrad_sm90},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_12, 1, 9, 80, 80, 80, "sm_80"},
    {where_12, 1, 8, 86, 86, 80, "sm_86"},
    {where_12, 1, 7, 87, 87, 80, "sm_80"},
    {where_12, 1, 6, 88, 89, 80, "sm_86"},
    {where_12, 1, 5, 90, 90, 90, "sm_90a"},
    {where_12, 1, 4, 90, 90, 80, "sm_90"},
    {where_12, 1, 3, 100, 109, 80, "sm_100"},
    {where_12, 1, 2, 110, 119, 80, "sm_110"},
    {where_12, 1, 1, 120, 129, 80, "sm_120"},
    {where_8, 1, 8, 80, 80, 80, "sm_80"},
    {where_8, 1, 7, 86, 86, 80, "sm_86"},
    {where_8, 1, 6, 87, 87, 80, "sm_80"},
    {where_8, 1, 5, 88, 89, 80, "sm_86"},
    {where_8, 1, 4, 90, 90, 80, "sm_90"},
    {where_8, 1, 3, 100, 109, 80, "sm_100"},
    {where_8, 1, 2, 110, 119, 80, "sm_110"},
    {where_8, 1, 1, 120, 129, 80, "sm_120"},
};

extern const ap_family ap_family_conv2d;
const ap_family ap_family_conv2d = {
    "conv2d", "conv2d",
    "conv2d_<fprop|dgrad|wgrad|dout|reduce>[_m128n128|_m128n64|_m64n128|_m64n64]_<fp16|bf16>_sm<80|90>",
    axes, 4, 3,
    0x8000,
    {0x1000, 0x200, 0x80, 0x1},
    {~0x7u, ~0x7u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 3,
    6, fields, forms, 1,
    0, 0, &ap_tiles_conv2d, templates, 6, routes, 17,
    0, 0,
};
