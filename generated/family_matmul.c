/* Written by `python -m generator` from generator/matmul/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_matmul_sm80(ap_text *out, const ap_render_input *in);
void ap_render_matmul_sm90(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_matmul;

static const ap_word words_0[] = {{"nn", "_nn", 0}, {"nt", "_nt", 1}};
static const int32_t values_1[] = {0, 1};
static const int32_t values_2[] = {256, 512, 1024, 2048, 4096};
static const ap_word words_3[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}};
static const int32_t values_4[] = {1, 2};
static const ap_word words_5[] = {{"same", "", 0}, {"fp32", "_wfp32", 1}};
static const ap_word words_6[] = {{"m128n256", "", 0}, {"m64n64", "_m64n64", 1}, {"m128n128", "_m128n128", 2}, {"m192n128", "_m192n128", 3}};
static const int32_t values_7[] = {0, 1, 2, 3};
static const int32_t values_8[] = {80, 86, 90};
static const int32_t values_9[] = {0};
static const int32_t values_10[] = {80, 86};
static const ap_set where_11[] = {{5, 0, 0, 1, values_10, 2}};
static const int32_t values_12[] = {4096};
static const int32_t values_13[] = {90};
static const ap_set where_14[] = {{5, 0, 0, 1, values_13, 1}};
static const ap_tile_part parts_15[] = {{"m", 0, 0, -1}, {"n", 1, 0, -1}, {"w", 2, 0, -1}, {"x", 3, 0, -1}, {"s", 4, 0, -1}};
static const int32_t values_16[] = {1};
static const ap_set where_17[] = {{3, 0, 0, 1, values_16, 1}};
static const ap_set where_18[] = {{3, 0, 0, 1, values_9, 1}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "of ", "",
     -1, {0, 0, 0, 1, values_1, 2}, words_0},
    {"cols", "columns", AP_AXIS_NUMBER, "_cols", "", "with columns ", "",
     -1, {1, 0, 0, 1, values_2, 5}, 0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {2, 0, 0, 1, values_4, 2}, words_3},
    {"weight", "weight", AP_AXIS_WORD, "", "", "with weight ", "",
     -1, {3, 0, 0, 1, values_1, 2}, words_5},
    {"block", "block", AP_AXIS_WORD, "", "", "with block ", "",
     -1, {4, 0, 0, 1, values_7, 4}, words_6},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {5, 0, 0, 1, values_8, 3}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_11, 1, {4, 0, 0, 1, values_9, 1}, -1, 0, 0},
    {where_14, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_14, 1, {3, 0, 0, 1, values_9, 1}, -1, 0, 0},
};
static const char *const fields[] = {
    "block_m",
    "block_n",
    "warps",
    "row_warps",
    "stages",
};
static const ap_tile_form forms[] = {
    {-1, 0, parts_15, 5},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"matmul/matmul_sm80.cu.j2", where_11, 1, ap_render_matmul_sm80},
    {"matmul/matmul_sm90.cu.j2", where_14, 1, ap_render_matmul_sm90},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_17, 1, 8, 80, 80, 80, "sm_80"},
    {where_17, 1, 7, 86, 86, 86, "sm_86"},
    {where_17, 1, 6, 87, 87, 80, "sm_80"},
    {where_17, 1, 5, 88, 89, 86, "sm_86"},
    {where_17, 1, 4, 90, 90, 80, "sm_90"},
    {where_17, 1, 3, 100, 109, 80, "sm_100"},
    {where_17, 1, 2, 110, 119, 80, "sm_110"},
    {where_17, 1, 1, 120, 129, 86, "sm_120"},
    {where_18, 1, 9, 80, 80, 80, "sm_80"},
    {where_18, 1, 8, 86, 86, 86, "sm_86"},
    {where_18, 1, 7, 87, 87, 80, "sm_80"},
    {where_18, 1, 6, 88, 89, 86, "sm_86"},
    {where_18, 1, 5, 90, 90, 90, "sm_90a"},
    {where_18, 1, 4, 90, 90, 80, "sm_90"},
    {where_18, 1, 3, 100, 109, 80, "sm_100"},
    {where_18, 1, 2, 110, 119, 80, "sm_110"},
    {where_18, 1, 1, 120, 129, 86, "sm_120"},
};

extern const ap_family ap_family_matmul;
const ap_family ap_family_matmul = {
    "matmul", "matmul",
    "matmul_<nn|nt>_cols<256|512|1024|2048|4096>_<fp16|bf16>[_wfp32][_m64n64|_m128n128|_m192n128]_sm<80|86|90>",
    axes, 6, 5,
    0x4000000,
    {0x2000000, 0x1000, 0x400, 0x200, 0x80, 0x1},
    {~0x1u, ~0x1fffu, ~0x3u, ~0x1u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 3,
    5, fields, forms, 1,
    0, 0, &ap_tiles_matmul, 0, 0, 0,
    templates, 2, routes, 17,
    0, 0,
};
