/* Written by `python -m generator` from generator/attention/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_flash_bwd_convert(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_delta(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_dq_sm90(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_sm80(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_sm90(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_combine(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_decode_sm80(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_sm80(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_sm90(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_attention;

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"fwd_combine", "_fwd_combine", 1}, {"bwd", "_bwd", 2}, {"bwd_dkv", "_bwd_dkv", 3}, {"bwd_dq", "_bwd_dq", 4}, {"bwd_delta", "_bwd_delta", 5}, {"bwd_convert", "_bwd_convert", 6}};
static const int32_t values_1[] = {0, 1, 2, 3, 4, 5, 6};
static const int32_t values_2[] = {0, 1};
static const ap_word words_3[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}};
static const int32_t values_4[] = {1, 2};
static const ap_word words_5[] = {{"full", "", 0}, {"causal", "_causal", 1}, {"window", "_window", 2}};
static const int32_t values_6[] = {0, 1, 2};
static const ap_word words_7[] = {{"none", "", 0}, {"fp16", "_biasfp16", 1}, {"bf16", "_biasbf16", 2}, {"fp32", "_biasfp32", 3}};
static const int32_t values_8[] = {0, 1, 2, 3};
static const ap_word words_9[] = {{"dense", "", 0}, {"ragged", "_ragged", 1}, {"paged", "_paged", 2}};
static const int32_t values_10[] = {80, 86, 90};
static const int32_t values_11[] = {0};
static const int32_t values_12[] = {1};
static const ap_set where_13[] = {{0, 0, 0, 1, values_12, 1}};
static const int32_t values_14[] = {80};
static const int32_t values_15[] = {5, 6};
static const ap_set where_16[] = {{0, 0, 0, 1, values_15, 2}};
static const int32_t values_17[] = {2, 3, 4};
static const ap_set where_18[] = {{0, 0, 0, 1, values_17, 3}};
static const int32_t values_19[] = {2, 3, 4, 5, 6};
static const ap_set where_20[] = {{0, 0, 0, 1, values_19, 5}};
static const int32_t values_21[] = {2, 3};
static const int32_t values_22[] = {90};
static const ap_set where_23[] = {{0, 0, 0, 1, values_21, 2}, {12, 0, 0, 1, values_22, 1}};
static const int32_t values_24[] = {2, 6};
static const ap_set where_25[] = {{0, 0, 0, 1, values_24, 2}};
static const ap_set where_26[] = {{12, 0, 0, 1, values_22, 1}};
static const ap_set where_27[] = {{10, 0, 0, 1, values_4, 2}};
static const int32_t pairs_28[][2] = {{64, 128}, {96, 64}, {128, 64}, {192, 128}, {256, 128}};
static const ap_tile_part parts_29[] = {{"m", 0, 0, -1}, {"n", 1, 0, -1}, {"s", 4, 0, -1}, {"d", 14, 0, 0}};
static const ap_tile_part parts_30[] = {{"m", 0, 0, -1}, {"n", 1, 0, -1}, {"w", 2, 0, -1}, {"x", 3, 0, -1}, {"x", 12, 0, 1}, {"s", 4, 0, -1}, {"k", 5, 0, -1}, {"v", 6, 0, -1}, {"q", 7, 1, -1}, {"b", 8, 0, 1}, {"u", 9, 0, 0}, {"c", 10, 1, -1}};
static const ap_tile_part parts_31[] = {{"m", 0, 0, -1}, {"n", 1, 0, -1}, {"w", 2, 0, -1}, {"x", 3, 0, -1}, {"x", 12, 0, 1}, {"a", 13, 0, -1}, {"d", 14, 0, 0}, {"s", 4, 0, -1}, {"v", 15, 0, 0}, {"b", 8, 0, 1}, {"c", 10, 1, -1}};
static const int32_t values_32[] = {6};
static const ap_set where_33[] = {{0, 0, 0, 1, values_32, 1}};
static const int32_t values_34[] = {5};
static const ap_set where_35[] = {{0, 0, 0, 1, values_34, 1}};
static const int32_t values_36[] = {4};
static const ap_set where_37[] = {{0, 0, 0, 1, values_36, 1}, {12, 0, 0, 1, values_22, 1}};
static const int32_t values_38[] = {80, 86};
static const ap_set where_39[] = {{0, 0, 0, 1, values_17, 3}, {12, 0, 0, 1, values_38, 2}};
static const ap_set where_40[] = {{0, 0, 0, 1, values_11, 1}, {12, 0, 0, 1, values_38, 2}, {11, 0, 0, 1, values_12, 1}};
static const ap_set where_41[] = {{0, 0, 0, 1, values_11, 1}, {12, 0, 0, 1, values_38, 2}, {11, 0, 0, 1, values_11, 1}};
static const ap_set where_42[] = {{0, 0, 0, 1, values_11, 1}, {12, 0, 0, 1, values_22, 1}};
static const ap_set where_43[] = {{0, 0, 0, 1, values_11, 1}};
static const int32_t values_44[] = {1, 5, 6};
static const ap_set where_45[] = {{0, 0, 0, 1, values_44, 3}};
static const int32_t values_46[] = {3};
static const ap_set where_47[] = {{8, 0, 0, 1, values_46, 1}};
static const ap_set where_48[] = {{8, 0, 0, 1, values_4, 2}, {9, 0, 0, 1, values_12, 1}};
static const ap_set where_49[] = {{8, 0, 0, 1, values_4, 2}};
static const ap_set where_50[] = {{9, 0, 0, 1, values_12, 1}};
static const ap_set where_51[] = {{7, 0, 0, 1, values_12, 1}};
static const ap_set where_52[] = {{6, 0, 0, 1, values_12, 1}};
static const int32_t values_53[] = {2};
static const ap_set where_54[] = {{10, 0, 0, 1, values_53, 1}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 7}, words_0},
    {"split", "split", AP_AXIS_FLAG, "_split", "", "with split ", "",
     -1, {1, 0, 0, 1, values_2, 2}, 0},
    {"hdim", "head dim", AP_AXIS_NUMBER, "_hdim", "", "with head dim ", "",
     -1, {2, 8, 512, 8, 0, 0}, 0},
    {"hdim_v", "value head dim", AP_AXIS_NUMBER, "v", "", "with value head dim ", "",
     2, {3, 8, 512, 8, 0, 0}, 0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {4, 0, 0, 1, values_4, 2}, words_3},
    {"mask", "mask", AP_AXIS_WORD, "", "", "with mask ", "",
     -1, {5, 0, 0, 1, values_6, 3}, words_5},
    {"softcap", "softcap", AP_AXIS_FLAG, "_softcap", "", "with softcap ", "",
     -1, {6, 0, 0, 1, values_2, 2}, 0},
    {"alibi", "alibi", AP_AXIS_FLAG, "_alibi", "", "with alibi ", "",
     -1, {7, 0, 0, 1, values_2, 2}, 0},
    {"bias", "bias", AP_AXIS_WORD, "", "", "with a bias in ", "",
     -1, {8, 0, 0, 1, values_8, 4}, words_7},
    {"dropout", "dropout", AP_AXIS_FLAG, "_dropout", "", "with dropout ", "",
     -1, {9, 0, 0, 1, values_2, 2}, 0},
    {"sequences", "sequences", AP_AXIS_WORD, "", "", "with ", " sequences",
     -1, {10, 0, 0, 1, values_6, 3}, words_9},
    {"decode", "decode", AP_AXIS_FLAG, "_decode", "", "with decode ", "",
     -1, {11, 0, 0, 1, values_2, 2}, 0},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {12, 0, 0, 1, values_10, 3}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_13, 1, {1, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_13, 1, {5, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_13, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_13, 1, {7, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_13, 1, {8, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_13, 1, {9, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_13, 1, {10, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_13, 1, {11, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_13, 1, {12, 0, 0, 1, values_14, 1}, -1, 0, 0},
    {where_13, 1, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_16, 1, {1, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_16, 1, {5, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_16, 1, {11, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_16, 1, {12, 0, 0, 1, values_14, 1}, -1, 0, 0},
    {where_16, 1, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_18, 1, {1, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_18, 1, {11, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_20, 1, {5, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_20, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_20, 1, {7, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_20, 1, {8, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_20, 1, {9, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_20, 1, {10, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_23, 2, {2, 8, 128, 8, 0, 0}, -1, 0, 0},
    {where_23, 2, {3, 8, 128, 8, 0, 0}, -1, 0, 0},
    {where_25, 1, {2, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_25, 1, {3, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_26, 1, {2, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_26, 1, {3, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_26, 1, {11, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_26, 1, {10, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_27, 1, {8, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {0, 0, {3, 0, 0, 1, 0, 0}, 2, pairs_28, 5},
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
    "acc_warps",
    "dq_warps",
    "v_stages",
};
static const ap_tile_form forms[] = {
    {11, 1, parts_29, 4},
    {13, 0, parts_30, 12},
    {-1, 0, parts_31, 11},
};
static const ap_tile_class tile_classes[] = {
    {where_47, 1, 5},
    {where_48, 2, 4},
    {where_49, 1, 3},
    {where_50, 1, 2},
    {where_51, 1, 1},
    {where_52, 1, 1},
    {where_54, 1, 1},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"attention/flash_bwd_convert.cu.j2", where_33, 1, ap_render_flash_bwd_convert},
    {"attention/flash_bwd_delta.cu.j2", where_35, 1, ap_render_flash_bwd_delta},
    {"attention/flash_bwd_dq_sm90.cu.j2", where_37, 2, ap_render_flash_bwd_dq_sm90},
    {"attention/flash_bwd_sm80.cu.j2", where_39, 2, ap_render_flash_bwd_sm80},
    {"attention/flash_bwd_sm90.cu.j2", where_23, 2, ap_render_flash_bwd_sm90},
    {"attention/flash_fwd_combine.cu.j2", where_13, 1, ap_render_flash_fwd_combine},
    {"attention/flash_fwd_decode_sm80.cu.j2", where_40, 3, ap_render_flash_fwd_decode_sm80},
    {"attention/flash_fwd_sm80.cu.j2", where_41, 3, ap_render_flash_fwd_sm80},
    {"attention/flash_fwd_sm90.cu.j2", where_42, 2, ap_render_flash_fwd_sm90},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_43, 1, 9, 80, 80, 80, "sm_80"},
    {where_43, 1, 8, 86, 86, 86, "sm_86"},
    {where_43, 1, 7, 87, 87, 80, "sm_80"},
    {where_43, 1, 6, 88, 89, 86, "sm_86"},
    {where_43, 1, 5, 90, 90, 90, "sm_90a"},
    {where_43, 1, 4, 90, 90, 80, "sm_90"},
    {where_43, 1, 3, 100, 109, 80, "sm_100"},
    {where_43, 1, 2, 110, 119, 80, "sm_110"},
    {where_43, 1, 1, 120, 129, 86, "sm_120"},
    {where_18, 1, 9, 80, 80, 80, "sm_80"},
    {where_18, 1, 8, 86, 86, 86, "sm_86"},
    {where_18, 1, 7, 87, 87, 80, "sm_80"},
    {where_18, 1, 6, 88, 89, 86, "sm_86"},
    {where_18, 1, 5, 90, 90, 90, "sm_90a"},
    {where_18, 1, 4, 90, 90, 80, "sm_90"},
    {where_18, 1, 3, 100, 109, 80, "sm_100"},
    {where_18, 1, 2, 110, 119, 80, "sm_110"},
    {where_18, 1, 1, 120, 129, 86, "sm_120"},
    {where_45, 1, 8, 80, 80, 80, "sm_80"},
    {where_45, 1, 7, 86, 86, 80, "sm_86"},
    {where_45, 1, 6, 87, 87, 80, "sm_80"},
    {where_45, 1, 5, 88, 89, 80, "sm_86"},
    {where_45, 1, 4, 90, 90, 80, "sm_90"},
    {where_45, 1, 3, 100, 109, 80, "sm_100"},
    {where_45, 1, 2, 110, 119, 80, "sm_110"},
    {where_45, 1, 1, 120, 129, 80, "sm_120"},
};

extern const ap_family ap_family_attention;
const ap_family ap_family_attention = {
    "attention", "flash",
    "flash_<fwd|fwd_combine|bwd|bwd_dkv|bwd_dq|bwd_delta|bwd_convert>[_split]_hdim<D>[v<DV>]_<fp16|bf16>[_causal|_window][_softcap][_alibi][_biasfp16|_biasbf16|_biasfp32][_dropout][_ragged|_paged][_decode]_sm<80|86|90>",
    axes, 13, 12,
    {3, 1, 10, 10, 2, 2, 1, 1, 2, 1, 2, 1, 7},
    {~0x7u, ~0x1u, ~0x3ffu, ~0x3ffu, ~0x3u, ~0x3u, ~0x1u, ~0x1u, ~0x3u, ~0x1u, ~0x3u, ~0x1u, ~0x7fu, ~0u, ~0u, ~0u},
    rules, 33,
    16, fields, forms, 3,
    tile_classes, 7, &ap_tiles_attention, templates, 9, routes, 26,
};
