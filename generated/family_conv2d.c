/* Written by `python -m generator` from generator/conv2d/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_conv2d_dout(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_gather_sm80(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_gather_sm90(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_im2col_sm90(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_im2col_wgrad_sm90(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_reduce(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_wgrad_sm80(ap_text *out, const ap_render_input *in);
void ap_render_conv2d_wgrad_sm90(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_conv2d;

static const ap_word words_0[] = {{"fprop", "_fprop", 0}, {"dgrad", "_dgrad", 1}, {"wgrad", "_wgrad", 2}, {"dout", "_dout", 3}, {"reduce", "_reduce", 4}};
static const int32_t values_1[] = {0, 1, 2, 3, 4};
static const ap_word words_2[] = {{"gather", "", 0}, {"im2col", "_im2col", 1}};
static const int32_t values_3[] = {0, 1};
static const ap_word words_4[] = {{"none", "", 0}, {"m128n128", "_m128n128", 1}, {"m128n64", "_m128n64", 2}, {"m64n128", "_m64n128", 3}, {"m64n64", "_m64n64", 4}, {"m256n128", "_m256n128", 5}, {"m256n64", "_m256n64", 6}, {"m128n256", "_m128n256", 7}, {"m64n256", "_m64n256", 8}, {"m192n128", "_m192n128", 9}, {"m128n192", "_m128n192", 10}};
static const int32_t values_5[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
static const ap_word words_6[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}};
static const int32_t values_7[] = {1, 2};
static const int32_t values_8[] = {80, 90};
static const int32_t values_9[] = {0};
static const int32_t values_10[] = {3, 4};
static const ap_set where_11[] = {{0, 0, 0, 1, values_10, 2}};
static const int32_t values_12[] = {80};
static const int32_t values_13[] = {1, 2, 3, 4};
static const int32_t values_14[] = {0, 1, 2};
static const ap_set where_15[] = {{0, 0, 0, 1, values_14, 3}, {1, 0, 0, 1, values_9, 1}};
static const int32_t values_16[] = {1};
static const ap_set where_17[] = {{1, 0, 0, 1, values_16, 1}};
static const int32_t values_18[] = {90};
static const ap_tile_part parts_19[] = {{"m", 4, 0, 0}, {"n", 5, 0, 0}, {"w", 0, 0, -1}, {"x", 1, 0, -1}, {"s", 2, 0, 0}, {"b", 3, 0, 1}};
static const int32_t values_20[] = {3};
static const ap_set where_21[] = {{0, 0, 0, 1, values_20, 1}};
static const ap_set where_22[] = {{0, 0, 0, 1, values_3, 2}, {4, 0, 0, 1, values_12, 1}};
static const ap_set where_23[] = {{0, 0, 0, 1, values_3, 2}, {4, 0, 0, 1, values_18, 1}, {1, 0, 0, 1, values_9, 1}};
static const ap_set where_24[] = {{0, 0, 0, 1, values_3, 2}, {4, 0, 0, 1, values_18, 1}, {1, 0, 0, 1, values_16, 1}};
static const int32_t values_25[] = {2};
static const ap_set where_26[] = {{0, 0, 0, 1, values_25, 1}, {4, 0, 0, 1, values_18, 1}, {1, 0, 0, 1, values_16, 1}};
static const int32_t values_27[] = {4};
static const ap_set where_28[] = {{0, 0, 0, 1, values_27, 1}};
static const ap_set where_29[] = {{0, 0, 0, 1, values_25, 1}, {4, 0, 0, 1, values_12, 1}};
static const ap_set where_30[] = {{0, 0, 0, 1, values_25, 1}, {4, 0, 0, 1, values_18, 1}, {1, 0, 0, 1, values_9, 1}};
static const ap_set where_31[] = {{0, 0, 0, 1, values_14, 3}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"copies", "copies", AP_AXIS_WORD, "", "", "with copies by ", "",
     -1, {1, 0, 0, 1, values_3, 2}, words_2},
    {"block", "block", AP_AXIS_WORD, "", "", "with block ", "",
     -1, {2, 0, 0, 1, values_5, 11}, words_4},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {3, 0, 0, 1, values_7, 2}, words_6},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {4, 0, 0, 1, values_8, 2}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_11, 1, {2, 0, 0, 1, values_9, 1}, -1, 0, 0},
    {where_11, 1, {4, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_11, 1, {1, 0, 0, 1, values_9, 1}, -1, 0, 0},
    {where_15, 2, {2, 0, 0, 1, values_13, 4}, -1, 0, 0},
    {where_17, 1, {0, 0, 0, 1, values_14, 3}, -1, 0, 0},
    {where_17, 1, {4, 0, 0, 1, values_18, 1}, -1, 0, 0},
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
    {-1, 0, parts_19, 6},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"conv2d/conv2d_dout.cu.j2", where_21, 1, ap_render_conv2d_dout},
    {"conv2d/conv2d_gather_sm80.cu.j2", where_22, 2, ap_render_conv2d_gather_sm80},
    {"conv2d/conv2d_gather_sm90.cu.j2", where_23, 3, ap_render_conv2d_gather_sm90},
    {"conv2d/conv2d_im2col_sm90.cu.j2", where_24, 3, ap_render_conv2d_im2col_sm90},
    {"conv2d/conv2d_im2col_wgrad_sm90.cu.j2", where_26, 3, ap_render_conv2d_im2col_wgrad_sm90},
    {"conv2d/conv2d_reduce.cu.j2", where_28, 1, ap_render_conv2d_reduce},
    {"conv2d/conv2d_wgrad_sm80.cu.j2", where_29, 2, ap_render_conv2d_wgrad_sm80},
    {"conv2d/conv2d_wgrad_sm90.cu.j2", where_30, 3, ap_render_conv2d_wgrad_sm90},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_17, 1, 1, 90, 90, 90, "sm_90a"},
    {where_31, 1, 9, 80, 80, 80, "sm_80"},
    {where_31, 1, 8, 86, 86, 80, "sm_86"},
    {where_31, 1, 7, 87, 87, 80, "sm_80"},
    {where_31, 1, 6, 88, 89, 80, "sm_86"},
    {where_31, 1, 5, 90, 90, 90, "sm_90a"},
    {where_31, 1, 4, 90, 90, 80, "sm_90"},
    {where_31, 1, 3, 100, 109, 80, "sm_100"},
    {where_31, 1, 2, 110, 119, 80, "sm_110"},
    {where_31, 1, 1, 120, 129, 80, "sm_120"},
    {where_11, 1, 8, 80, 80, 80, "sm_80"},
    {where_11, 1, 7, 86, 86, 80, "sm_86"},
    {where_11, 1, 6, 87, 87, 80, "sm_80"},
    {where_11, 1, 5, 88, 89, 80, "sm_86"},
    {where_11, 1, 4, 90, 90, 80, "sm_90"},
    {where_11, 1, 3, 100, 109, 80, "sm_100"},
    {where_11, 1, 2, 110, 119, 80, "sm_110"},
    {where_11, 1, 1, 120, 129, 80, "sm_120"},
};

extern const ap_family ap_family_conv2d;
const ap_family ap_family_conv2d = {
    "conv2d", "conv2d",
    "conv2d_<fprop|dgrad|wgrad|dout|reduce>[_im2col][_m128n128|_m128n64|_m64n128|_m64n64|_m256n128|_m256n64|_m128n256|_m64n256|_m192n128|_m128n192]_<fp16|bf16>_sm<80|90>",
    axes, 5, 4,
    0x20000,
    {0x4000, 0x2000, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0xfu, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 6,
    6, fields, forms, 1,
    0, 0, &ap_tiles_conv2d, 0, 0, 0,
    templates, 8, routes, 18,
    0, 0,
};
