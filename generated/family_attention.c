/* Written by `python -m generator` from generator/attention/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_flash_fwd_combine(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_sm80(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_sm90(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_attention;

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"fwd_combine", "_fwd_combine", 1}};
static const int32_t values_1[] = {0, 1};
static const ap_word words_2[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}};
static const int32_t values_3[] = {1, 2};
static const ap_word words_4[] = {{"full", "", 0}, {"causal", "_causal", 1}};
static const int32_t values_5[] = {80, 86, 90};
static const int32_t values_6[] = {0};
static const int32_t values_7[] = {1};
static const ap_set where_8[] = {{0, 0, 0, 1, values_7, 1}};
static const int32_t values_9[] = {80};
static const int32_t values_10[] = {90};
static const ap_set where_11[] = {{7, 0, 0, 1, values_10, 1}};
static const int32_t pairs_12[][2] = {{64, 128}, {96, 64}, {128, 64}, {192, 128}, {256, 128}};
static const ap_tile_part parts_13[] = {{"m", 0, 0, -1}, {"n", 1, 0, -1}, {"s", 4, 0, -1}};
static const ap_tile_part parts_14[] = {{"m", 0, 0, -1}, {"n", 1, 0, -1}, {"w", 2, 0, -1}, {"x", 3, 0, -1}, {"x", 12, 0, 1}, {"s", 4, 0, -1}, {"k", 5, 0, -1}, {"v", 6, 0, -1}, {"q", 7, 1, -1}, {"b", 8, 0, 1}, {"u", 9, 0, 0}, {"c", 10, 1, -1}};
static const int32_t values_15[] = {80, 86};
static const ap_set where_16[] = {{0, 0, 0, 1, values_6, 1}, {7, 0, 0, 1, values_15, 2}};
static const ap_set where_17[] = {{0, 0, 0, 1, values_6, 1}, {7, 0, 0, 1, values_10, 1}};
static const ap_set where_18[] = {{0, 0, 0, 1, values_6, 1}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 2}, words_0},
    {"split", "split", AP_AXIS_FLAG, "_split", "", "with split ", "",
     -1, {1, 0, 0, 1, values_1, 2}, 0},
    {"hdim", "head dim", AP_AXIS_NUMBER, "_hdim", "", "with head dim ", "",
     -1, {2, 8, 512, 8, 0, 0}, 0},
    {"hdim_v", "value head dim", AP_AXIS_NUMBER, "v", "", "with value head dim ", "",
     2, {3, 8, 512, 8, 0, 0}, 0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {4, 0, 0, 1, values_3, 2}, words_2},
    {"mask", "mask", AP_AXIS_WORD, "", "", "with mask ", "",
     -1, {5, 0, 0, 1, values_1, 2}, words_4},
    {"decode", "decode", AP_AXIS_FLAG, "_decode", "", "with decode ", "",
     -1, {6, 0, 0, 1, values_1, 2}, 0},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {7, 0, 0, 1, values_5, 3}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_8, 1, {1, 0, 0, 1, values_6, 1}, -1, 0, 0},
    {where_8, 1, {5, 0, 0, 1, values_6, 1}, -1, 0, 0},
    {where_8, 1, {6, 0, 0, 1, values_6, 1}, -1, 0, 0},
    {where_8, 1, {7, 0, 0, 1, values_9, 1}, -1, 0, 0},
    {where_8, 1, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_11, 1, {2, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_11, 1, {3, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_11, 1, {6, 0, 0, 1, values_6, 1}, -1, 0, 0},
    {0, 0, {3, 0, 0, 1, 0, 0}, 2, pairs_12, 5},
};
static const char *const fields[] = {
    "block_m",
    "block_n",
    "warps_m",
    "warps_n",
    "stages",
    "k_slab",
    "v_slab",
    "q_in_regs",
    "min_blocks",
    "k_unroll",
    "spread",
    "producer",
    "warps_k",
};
static const ap_tile_form forms[] = {
    {11, 1, parts_13, 3},
    {-1, 0, parts_14, 12},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"attention/flash_fwd_combine.cu.j2", where_8, 1, ap_render_flash_fwd_combine},
    {"attention/flash_fwd_sm80.cu.j2", where_16, 2, ap_render_flash_fwd_sm80},
    {"attention/flash_fwd_sm90.cu.j2", where_17, 2, ap_render_flash_fwd_sm90},
};
/* where, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_18, 1, 80, 80, 80, "sm_80"},
    {where_18, 1, 86, 86, 86, "sm_86"},
    {where_18, 1, 87, 87, 80, "sm_80"},
    {where_18, 1, 88, 89, 86, "sm_86"},
    {where_18, 1, 90, 90, 90, "sm_90a"},
    {where_18, 1, 90, 90, 80, "sm_90"},
    {where_18, 1, 100, 109, 80, "sm_100"},
    {where_18, 1, 110, 119, 80, "sm_110"},
    {where_18, 1, 120, 129, 86, "sm_120"},
    {where_8, 1, 80, 80, 80, "sm_80"},
    {where_8, 1, 86, 86, 80, "sm_86"},
    {where_8, 1, 87, 87, 80, "sm_80"},
    {where_8, 1, 88, 89, 80, "sm_86"},
    {where_8, 1, 90, 90, 80, "sm_90"},
    {where_8, 1, 100, 109, 80, "sm_100"},
    {where_8, 1, 110, 119, 80, "sm_110"},
    {where_8, 1, 120, 129, 80, "sm_120"},
};

extern const ap_family ap_family_attention;
const ap_family ap_family_attention = {
    "attention", "flash",
    "flash_<fwd|fwd_combine>[_split]_hdim<D>[v<DV>]_<fp16|bf16>[_causal][_decode]_sm<80|86|90>",
    axes, 8, 7,
    {1, 1, 10, 10, 2, 1, 1, 7},
    {0, 2, 3, 5, 6, 7}, 6,
    rules, 9,
    13, fields, forms, 2,
    &ap_tiles_attention, templates, 3, routes, 17,
};
