/* Written by `python -m generator` from generator/attention/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_flash_bwd_convert(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_dbias(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_delta(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_dq_sm90(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_exchange_sm90(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_few_sm90(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_sinks(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_sm80(ap_text *out, const ap_render_input *in);
void ap_render_flash_bwd_sm90(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_combine(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_combine_few(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_decode_sm80(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_map(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_runs_sm80(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_runs_sm90(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_schedule(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_shared_sm90(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_sm80(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_sm90(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_wide_sm90(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_attention;
void ap_attention_fit(const ap_variant *, const ap_variant *, ap_tile *);

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"fwd_combine", "_fwd_combine", 1}, {"bwd", "_bwd", 2}, {"bwd_dkv", "_bwd_dkv", 3}, {"bwd_dq", "_bwd_dq", 4}, {"bwd_delta", "_bwd_delta", 5}, {"bwd_convert", "_bwd_convert", 6}, {"bwd_sinks", "_bwd_sinks", 7}, {"fwd_map", "_fwd_map", 8}, {"fwd_schedule", "_fwd_schedule", 9}, {"bwd_dbias", "_bwd_dbias", 10}};
static const int32_t values_1[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
static const int32_t values_2[] = {0, 1};
static const ap_word words_3[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}};
static const int32_t values_4[] = {1, 2};
static const ap_word words_5[] = {{"full", "", 0}, {"causal", "_causal", 1}, {"window", "_window", 2}};
static const int32_t values_6[] = {0, 1, 2};
static const ap_word words_7[] = {{"none", "", 0}, {"fp16", "_biasfp16", 1}, {"bf16", "_biasbf16", 2}, {"fp32", "_biasfp32", 3}};
static const int32_t values_8[] = {0, 1, 2, 3};
static const ap_word words_9[] = {{"dense", "", 0}, {"ragged", "_ragged", 1}, {"paged", "_paged", 2}};
static const ap_word words_10[] = {{"none", "", 0}, {"four", "_shared", 1}, {"two", "_pairs", 2}};
static const int32_t values_11[] = {80, 86, 90};
static const int32_t values_12[] = {0};
static const int32_t values_13[] = {1};
static const ap_set where_14[] = {{0, 0, 0, 1, values_13, 1}};
static const int32_t values_15[] = {80};
static const int32_t values_16[] = {8};
static const ap_set where_17[] = {{0, 0, 0, 1, values_16, 1}};
static const int32_t values_18[] = {2};
static const int32_t values_19[] = {9};
static const ap_set where_20[] = {{0, 0, 0, 1, values_19, 1}};
static const int32_t values_21[] = {0, 9};
static const ap_set where_22[] = {{14, 0, 0, 1, values_13, 1}};
static const int32_t values_23[] = {90};
static const ap_set where_24[] = {{0, 0, 0, 1, values_12, 1}, {14, 0, 0, 1, values_13, 1}};
static const ap_set where_25[] = {{10, 0, 0, 1, values_13, 1}};
static const ap_set where_26[] = {{11, 0, 0, 1, values_13, 1}};
static const int32_t values_27[] = {2, 3};
static const ap_set where_28[] = {{12, 0, 0, 1, values_13, 1}};
static const int32_t values_29[] = {80, 86};
static const int32_t values_30[] = {5, 6, 7};
static const ap_set where_31[] = {{0, 0, 0, 1, values_30, 3}};
static const int32_t values_32[] = {7};
static const ap_set where_33[] = {{0, 0, 0, 1, values_32, 1}};
static const int32_t values_34[] = {2, 3, 4};
static const ap_set where_35[] = {{0, 0, 0, 1, values_34, 3}};
static const ap_set where_36[] = {{0, 0, 0, 1, values_34, 3}, {6, 0, 0, 1, values_13, 1}, {21, 0, 0, 1, values_23, 1}};
static const ap_set where_37[] = {{0, 0, 0, 1, values_34, 3}, {21, 0, 0, 1, values_23, 1}};
static const int32_t values_38[] = {10};
static const ap_set where_39[] = {{0, 0, 0, 1, values_38, 1}};
static const int32_t values_40[] = {2, 3, 4, 5, 6, 7};
static const ap_set where_41[] = {{0, 0, 0, 1, values_40, 6}};
static const int32_t values_42[] = {2, 6};
static const ap_set where_43[] = {{0, 0, 0, 1, values_42, 2}};
static const ap_set where_44[] = {{21, 0, 0, 1, values_23, 1}, {15, 0, 0, 1, values_13, 1}};
static const ap_set where_45[] = {{16, 0, 0, 1, values_4, 2}};
static const int32_t values_46[] = {64, 128};
static const int32_t values_47[] = {64};
static const ap_set where_48[] = {{16, 0, 0, 1, values_18, 1}};
static const ap_set where_49[] = {{17, 0, 0, 1, values_13, 1}};
static const ap_set where_50[] = {{0, 0, 0, 1, values_12, 1}, {17, 0, 0, 1, values_13, 1}};
static const ap_set where_51[] = {{0, 0, 0, 1, values_12, 1}, {17, 0, 0, 1, values_13, 1}, {21, 0, 0, 1, values_23, 1}};
static const ap_set where_52[] = {{0, 0, 0, 1, values_18, 1}, {17, 0, 0, 1, values_13, 1}};
static const int32_t values_53[] = {86};
static const ap_set where_54[] = {{17, 0, 0, 1, values_13, 1}, {21, 0, 0, 1, values_53, 1}};
static const int32_t values_55[] = {0, 2};
static const ap_set where_56[] = {{18, 0, 0, 1, values_13, 1}};
static const ap_set where_57[] = {{0, 0, 0, 1, values_12, 1}, {18, 0, 0, 1, values_13, 1}};
static const int32_t values_58[] = {80, 90};
static const int32_t values_59[] = {64, 128, 256};
static const ap_set where_60[] = {{0, 0, 0, 1, values_12, 1}, {18, 0, 0, 1, values_13, 1}, {21, 0, 0, 1, values_23, 1}};
static const ap_set where_61[] = {{19, 0, 0, 1, values_13, 1}};
static const ap_set where_62[] = {{19, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_47, 1}};
static const ap_set where_63[] = {{0, 0, 0, 1, values_18, 1}, {18, 0, 0, 1, values_13, 1}};
static const ap_set where_64[] = {{0, 0, 0, 1, values_18, 1}, {2, 136, 192, 8, 0, 0}};
static const ap_set where_65[] = {{0, 0, 0, 1, values_18, 1}, {2, 200, 512, 8, 0, 0}, {13, 0, 0, 1, values_13, 1}};
static const ap_set where_66[] = {{20, 0, 0, 1, values_13, 1}};
static const ap_set where_67[] = {{0, 0, 0, 1, values_18, 1}, {20, 0, 0, 1, values_13, 1}};
static const ap_set where_68[] = {{0, 0, 0, 1, values_12, 1}, {20, 0, 0, 1, values_13, 1}};
static const ap_set where_69[] = {{20, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_47, 1}};
static const ap_set where_70[] = {{20, 0, 0, 1, values_13, 1}, {6, 0, 0, 1, values_13, 1}};
static const ap_set where_71[] = {{20, 0, 0, 1, values_13, 1}, {7, 0, 0, 1, values_13, 1}};
static const ap_set where_72[] = {{0, 0, 0, 1, values_27, 2}, {21, 0, 0, 1, values_23, 1}, {3, 136, 512, 8, 0, 0}};
static const ap_set where_73[] = {{21, 0, 0, 1, values_23, 1}, {3, 8, 256, 8, 0, 0}};
static const ap_set where_74[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_23, 1}, {3, 264, 512, 8, 0, 0}};
static const int32_t values_75[] = {0, 2, 3};
static const ap_set where_76[] = {{21, 0, 0, 1, values_23, 1}, {13, 0, 0, 1, values_4, 2}};
static const ap_set where_77[] = {{21, 0, 0, 1, values_23, 1}, {13, 0, 0, 1, values_4, 2}, {1, 0, 0, 1, values_13, 1}};
static const ap_set where_78[] = {{21, 0, 0, 1, values_23, 1}, {13, 0, 0, 1, values_4, 2}, {0, 0, 0, 1, values_12, 1}};
static const ap_set where_79[] = {{21, 0, 0, 1, values_23, 1}, {13, 0, 0, 1, values_4, 2}, {0, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_13, 1}};
static const ap_set where_80[] = {{21, 0, 0, 1, values_23, 1}, {13, 0, 0, 1, values_4, 2}, {0, 0, 0, 1, values_12, 1}, {3, 136, 512, 8, 0, 0}};
static const int32_t pairs_81[][2] = {{64, 128}, {64, 256}, {96, 64}, {128, 64}, {192, 128}, {256, 128}};
static const ap_tile_part parts_82[] = {{"m", 0, 0, -1}, {"n", 1, 0, -1}, {"s", 4, 0, -1}, {"q", 7, 1, -1}, {"d", 14, 0, 0}, {"k", 16, 1, -1}, {"v", 17, 1, -1}};
static const ap_tile_part parts_83[] = {{"m", 0, 0, -1}, {"n", 1, 0, -1}, {"w", 2, 0, -1}, {"x", 3, 0, -1}, {"x", 12, 0, 1}, {"s", 4, 0, -1}, {"k", 5, 0, -1}, {"v", 6, 0, -1}, {"q", 7, 1, -1}, {"b", 8, 0, 1}, {"u", 9, 0, 0}, {"c", 10, 1, -1}};
static const ap_tile_part parts_84[] = {{"m", 0, 0, -1}, {"n", 1, 0, -1}, {"w", 2, 0, -1}, {"x", 3, 0, -1}, {"x", 12, 0, 1}, {"a", 13, 0, -1}, {"d", 14, 0, 0}, {"s", 4, 0, -1}, {"v", 15, 0, 0}, {"b", 8, 0, 1}, {"c", 10, 1, -1}};
static const int32_t values_85[] = {6};
static const ap_set where_86[] = {{0, 0, 0, 1, values_85, 1}};
static const int32_t values_87[] = {5};
static const ap_set where_88[] = {{0, 0, 0, 1, values_87, 1}};
static const int32_t values_89[] = {4};
static const ap_set where_90[] = {{0, 0, 0, 1, values_89, 1}, {21, 0, 0, 1, values_23, 1}};
static const ap_set where_91[] = {{0, 0, 0, 1, values_27, 2}, {21, 0, 0, 1, values_23, 1}, {2, 136, 512, 8, 0, 0}, {17, 0, 0, 1, values_12, 1}};
static const ap_set where_92[] = {{0, 0, 0, 1, values_18, 1}, {21, 0, 0, 1, values_23, 1}, {17, 0, 0, 1, values_13, 1}};
static const ap_set where_93[] = {{0, 0, 0, 1, values_34, 3}, {21, 0, 0, 1, values_29, 2}};
static const ap_set where_94[] = {{0, 0, 0, 1, values_27, 2}, {21, 0, 0, 1, values_23, 1}, {2, 8, 128, 8, 0, 0}};
static const ap_set where_95[] = {{0, 0, 0, 1, values_13, 1}, {17, 0, 0, 1, values_12, 1}};
static const ap_set where_96[] = {{0, 0, 0, 1, values_13, 1}, {17, 0, 0, 1, values_13, 1}};
static const ap_set where_97[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_29, 2}, {15, 0, 0, 1, values_13, 1}, {18, 0, 0, 1, values_12, 1}};
static const ap_set where_98[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_15, 1}, {18, 0, 0, 1, values_13, 1}};
static const ap_set where_99[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_23, 1}, {18, 0, 0, 1, values_13, 1}};
static const ap_set where_100[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_23, 1}, {16, 0, 0, 1, values_4, 2}};
static const ap_set where_101[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_29, 2}, {15, 0, 0, 1, values_12, 1}};
static const ap_set where_102[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_23, 1}, {3, 8, 256, 8, 0, 0}, {16, 0, 0, 1, values_12, 1}, {18, 0, 0, 1, values_12, 1}};
static const ap_set where_103[] = {{0, 0, 0, 1, values_12, 1}};
static const int32_t values_104[] = {1, 8, 9, 5, 6, 7, 10};
static const ap_set where_105[] = {{0, 0, 0, 1, values_104, 7}};
static const int32_t values_106[] = {1, 2, 3};
static const ap_set where_107[] = {{8, 0, 0, 1, values_106, 3}, {13, 0, 0, 1, values_4, 2}};
static const int32_t values_108[] = {3};
static const ap_set where_109[] = {{8, 0, 0, 1, values_108, 1}};
static const ap_set where_110[] = {{8, 0, 0, 1, values_4, 2}, {9, 0, 0, 1, values_13, 1}};
static const ap_set where_111[] = {{8, 0, 0, 1, values_4, 2}};
static const ap_set where_112[] = {{9, 0, 0, 1, values_13, 1}};
static const ap_set where_113[] = {{7, 0, 0, 1, values_13, 1}};
static const ap_set where_114[] = {{6, 0, 0, 1, values_13, 1}};
static const ap_set where_115[] = {{13, 0, 0, 1, values_18, 1}};
static const int32_t values_116[] = {128};
static const ap_set where_117[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_29, 2}, {15, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_116, 1}, {3, 72, 120, 8, 0, 0}};
static const ap_set where_118[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_29, 2}, {15, 0, 0, 1, values_12, 1}, {2, 8, 120, 8, 0, 0}, {3, 0, 0, 1, values_116, 1}, {8, 0, 0, 1, values_12, 1}, {9, 0, 0, 1, values_12, 1}, {10, 0, 0, 1, values_12, 1}, {11, 0, 0, 1, values_12, 1}};
static const ap_set where_119[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_29, 2}, {15, 0, 0, 1, values_12, 1}, {2, 8, 128, 8, 0, 0}, {3, 128, 160, 8, 0, 0}};
static const ap_set where_120[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_29, 2}, {15, 0, 0, 1, values_12, 1}, {2, 8, 216, 8, 0, 0}, {3, 224, 256, 8, 0, 0}};
static const ap_set where_121[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_29, 2}};
static const ap_set where_122[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_23, 1}, {15, 0, 0, 1, values_13, 1}};
static const ap_set where_123[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_23, 1}, {8, 0, 0, 1, values_4, 2}, {2, 0, 0, 1, values_116, 1}, {3, 8, 120, 8, 0, 0}};
static const ap_set where_124[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_23, 1}, {8, 0, 0, 1, values_4, 2}, {2, 8, 120, 8, 0, 0}, {3, 0, 0, 1, values_116, 1}};
static const ap_set where_125[] = {{0, 0, 0, 1, values_12, 1}, {21, 0, 0, 1, values_23, 1}, {2, 8, 256, 8, 0, 0}, {3, 8, 256, 8, 0, 0}};
static const ap_set where_126[] = {{0, 0, 0, 1, values_18, 1}, {21, 0, 0, 1, values_15, 1}, {2, 224, 512, 8, 0, 0}};
static const ap_set where_127[] = {{0, 0, 0, 1, values_18, 1}, {21, 0, 0, 1, values_15, 1}, {3, 224, 512, 8, 0, 0}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 11}, words_0},
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
    {"mod_score", "a snippet's score", AP_AXIS_FLAG, "_modscore", "", "with a snippet's score ", "",
     -1, {10, 0, 0, 1, values_2, 2}, 0},
    {"mod_mask", "a snippet's mask", AP_AXIS_FLAG, "_modmask", "", "with a snippet's mask ", "",
     -1, {11, 0, 0, 1, values_2, 2}, 0},
    {"mod_grad", "gradients of a snippet's buffers", AP_AXIS_FLAG, "_modgrad", "", "with gradients of a snippet's buffers ", "",
     -1, {12, 0, 0, 1, values_2, 2}, 0},
    {"sequences", "sequences", AP_AXIS_WORD, "", "", "with ", " sequences",
     -1, {13, 0, 0, 1, values_6, 3}, words_9},
    {"ready", "a ready schedule", AP_AXIS_FLAG, "_ready", "", "with a ready schedule ", "",
     -1, {14, 0, 0, 1, values_2, 2}, 0},
    {"decode", "decode", AP_AXIS_FLAG, "_decode", "", "with decode ", "",
     -1, {15, 0, 0, 1, values_2, 2}, 0},
    {"shared", "sharing", AP_AXIS_WORD, "", "", "with a split shared by ", "",
     -1, {16, 0, 0, 1, values_6, 3}, words_10},
    {"few", "few rows", AP_AXIS_FLAG, "_few", "", "with few rows ", "",
     -1, {17, 0, 0, 1, values_2, 2}, 0},
    {"runs", "runs over all sequences", AP_AXIS_FLAG, "_runs", "", "with runs over all sequences ", "",
     -1, {18, 0, 0, 1, values_2, 2}, 0},
    {"append", "a key that is appended", AP_AXIS_FLAG, "_append", "", "with a key that is appended ", "",
     -1, {19, 0, 0, 1, values_2, 2}, 0},
    {"long_rows", "a row block for long sequences", AP_AXIS_FLAG, "_long", "", "with a row block for long sequences ", "",
     -1, {20, 0, 0, 1, values_2, 2}, 0},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {21, 0, 0, 1, values_11, 3}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_14, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_14, 1, {5, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_14, 1, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_14, 1, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_14, 1, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_14, 1, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_14, 1, {13, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_14, 1, {15, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_14, 1, {21, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_14, 1, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_14, 1, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_14, 1, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {2, 0, 0, 1, values_16, 1}, -1, 0, 0},
    {where_17, 1, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_17, 1, {4, 0, 0, 1, values_18, 1}, -1, 0, 0},
    {where_17, 1, {5, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {13, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {15, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_17, 1, {21, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_20, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {2, 0, 0, 1, values_16, 1}, -1, 0, 0},
    {where_20, 1, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_20, 1, {4, 0, 0, 1, values_18, 1}, -1, 0, 0},
    {where_20, 1, {5, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {13, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {15, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_20, 1, {21, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_22, 1, {0, 0, 0, 1, values_21, 2}, -1, 0, 0},
    {where_24, 2, {21, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_24, 2, {13, 0, 0, 1, values_4, 2}, -1, 0, 0},
    {where_24, 2, {16, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_25, 1, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_25, 1, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_26, 1, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_26, 1, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_28, 1, {0, 0, 0, 1, values_27, 2}, -1, 0, 0},
    {where_28, 1, {10, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_28, 1, {21, 0, 0, 1, values_29, 2}, -1, 0, 0},
    {where_31, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_31, 1, {5, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_31, 1, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_31, 1, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_31, 1, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_31, 1, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_31, 1, {15, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_31, 1, {21, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_31, 1, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_33, 1, {2, 8, 8, 8, 0, 0}, -1, 0, 0},
    {where_33, 1, {4, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_35, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_35, 1, {15, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_36, 3, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_36, 3, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_36, 3, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_37, 2, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_37, 2, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_39, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_39, 1, {15, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_39, 1, {21, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_39, 1, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_39, 1, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_39, 1, {13, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_41, 1, {13, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_31, 1, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_31, 1, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_43, 1, {2, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_43, 1, {3, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_44, 2, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_44, 2, {1, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_44, 2, {2, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_44, 2, {3, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_44, 2, {5, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_44, 2, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_44, 2, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_44, 2, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_44, 2, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_44, 2, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_44, 2, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_45, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_45, 1, {15, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_45, 1, {21, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_45, 1, {2, 0, 0, 1, values_46, 2}, -1, 0, 0},
    {where_45, 1, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_48, 1, {2, 0, 0, 1, values_47, 1}, -1, 0, 0},
    {where_37, 2, {2, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_37, 2, {3, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_49, 1, {0, 0, 0, 1, values_6, 3}, -1, 0, 0},
    {where_50, 2, {1, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_50, 2, {15, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_50, 2, {2, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_50, 2, {3, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_51, 3, {5, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_51, 3, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_51, 3, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_51, 3, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_51, 3, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_51, 3, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_51, 3, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_51, 3, {18, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_51, 3, {19, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_51, 3, {20, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 2, {2, 200, 512, 8, 0, 0}, -1, 0, 0},
    {where_52, 2, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_52, 2, {21, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_52, 2, {5, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_52, 2, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 2, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 2, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 2, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 2, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 2, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 2, {13, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 2, {18, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_54, 2, {2, 8, 192, 8, 0, 0}, -1, 0, 0},
    {where_54, 2, {3, 8, 192, 8, 0, 0}, -1, 0, 0},
    {where_56, 1, {0, 0, 0, 1, values_55, 2}, -1, 0, 0},
    {where_57, 2, {1, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_57, 2, {15, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_57, 2, {21, 0, 0, 1, values_58, 2}, -1, 0, 0},
    {where_57, 2, {2, 0, 0, 1, values_59, 3}, -1, 0, 0},
    {where_57, 2, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_57, 2, {5, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_57, 2, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_57, 2, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_57, 2, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_57, 2, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_57, 2, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_57, 2, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_57, 2, {14, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_60, 3, {2, 0, 0, 1, values_47, 1}, -1, 0, 0},
    {where_60, 3, {5, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_60, 3, {16, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_61, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_61, 1, {18, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_61, 1, {21, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_61, 1, {2, 0, 0, 1, values_46, 2}, -1, 0, 0},
    {where_61, 1, {5, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_61, 1, {13, 0, 0, 1, values_4, 2}, -1, 0, 0},
    {where_62, 2, {13, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_63, 2, {2, 104, 512, 8, 0, 0}, -1, 0, 0},
    {where_63, 2, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_63, 2, {21, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_63, 2, {5, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_63, 2, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_63, 2, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_63, 2, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_63, 2, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_63, 2, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_63, 2, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_63, 2, {13, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_64, 2, {18, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_65, 3, {18, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_66, 1, {0, 0, 0, 1, values_55, 2}, -1, 0, 0},
    {where_67, 2, {2, 200, 512, 8, 0, 0}, -1, 0, 0},
    {where_67, 2, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_67, 2, {4, 0, 0, 1, values_18, 1}, -1, 0, 0},
    {where_67, 2, {21, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_67, 2, {5, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_67, 2, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_67, 2, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_67, 2, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_67, 2, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_67, 2, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_67, 2, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_67, 2, {13, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_67, 2, {18, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_67, 2, {17, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_68, 2, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_68, 2, {2, 0, 0, 1, values_46, 2}, -1, 0, 0},
    {where_68, 2, {3, 0, 0, 1, 0, 0}, 2, 0, 0},
    {where_68, 2, {5, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_68, 2, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_68, 2, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_68, 2, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_68, 2, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_68, 2, {13, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_68, 2, {15, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_68, 2, {21, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_69, 2, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_69, 2, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_70, 2, {5, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_70, 2, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_70, 2, {13, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_71, 2, {5, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_71, 2, {13, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_72, 3, {2, 136, 512, 8, 0, 0}, -1, 0, 0},
    {where_73, 2, {2, 8, 256, 8, 0, 0}, -1, 0, 0},
    {where_74, 3, {5, 0, 0, 1, values_2, 2}, -1, 0, 0},
    {where_74, 3, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_74, 3, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_74, 3, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_74, 3, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_74, 3, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_74, 3, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_74, 3, {13, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_76, 2, {0, 0, 0, 1, values_75, 3}, -1, 0, 0},
    {where_77, 3, {6, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_77, 3, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_77, 3, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_77, 3, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_78, 3, {8, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_78, 3, {9, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_79, 4, {10, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_79, 4, {11, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_80, 4, {7, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_37, 2, {3, 0, 0, 1, 0, 0}, 2, pairs_81, 6},
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
    "k_in_regs",
    "v_in_regs",
};
static const ap_tile_form forms[] = {
    {11, 1, parts_82, 7},
    {13, 0, parts_83, 12},
    {-1, 0, parts_84, 11},
};
static const ap_tile_class tile_classes[] = {
    {where_107, 2, 6},
    {where_109, 1, 5},
    {where_28, 1, 5},
    {where_110, 2, 4},
    {where_111, 1, 3},
    {where_112, 1, 2},
    {where_25, 1, 2},
    {where_26, 1, 2},
    {where_113, 1, 1},
    {where_114, 1, 1},
    {where_115, 1, 1},
};
static const ap_stand_in stand_ins[] = {
    {where_117, 5, 2, 3, 136, 136},
    {where_118, 9, 2, 3, 64, 128},
    {where_119, 5, 2, 3, 168, 168},
    {where_120, 5, 2, 3, 264, 264},
    {where_121, 2, 2, 3, 0, 0},
    {where_122, 3, 2, 3, 0, 0},
    {where_123, 5, 2, 3, 136, 136},
    {where_124, 5, 2, 3, 136, 136},
    {where_125, 4, 2, 3, 0, 0},
    {where_74, 3, 2, 3, 0, 0},
    {where_126, 3, 2, 3, 240, 240},
    {where_127, 3, 2, 3, 240, 240},
    {where_93, 2, 2, 3, 0, 0},
    {where_39, 1, 2, 3, 0, 0},
};
static const ap_snippet_rule snippets[] = {
    {where_25, 1},
    {where_26, 1},
    {where_28, 1},
    {where_17, 1},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"attention/flash_bwd_convert.cu.j2", where_86, 1, ap_render_flash_bwd_convert},
    {"attention/flash_bwd_dbias.cu.j2", where_39, 1, ap_render_flash_bwd_dbias},
    {"attention/flash_bwd_delta.cu.j2", where_88, 1, ap_render_flash_bwd_delta},
    {"attention/flash_bwd_dq_sm90.cu.j2", where_90, 2, ap_render_flash_bwd_dq_sm90},
    {"attention/flash_bwd_exchange_sm90.cu.j2", where_91, 4, ap_render_flash_bwd_exchange_sm90},
    {"attention/flash_bwd_few_sm90.cu.j2", where_92, 3, ap_render_flash_bwd_few_sm90},
    {"attention/flash_bwd_sinks.cu.j2", where_33, 1, ap_render_flash_bwd_sinks},
    {"attention/flash_bwd_sm80.cu.j2", where_93, 2, ap_render_flash_bwd_sm80},
    {"attention/flash_bwd_sm90.cu.j2", where_94, 3, ap_render_flash_bwd_sm90},
    {"attention/flash_fwd_combine.cu.j2", where_95, 2, ap_render_flash_fwd_combine},
    {"attention/flash_fwd_combine_few.cu.j2", where_96, 2, ap_render_flash_fwd_combine_few},
    {"attention/flash_fwd_decode_sm80.cu.j2", where_97, 4, ap_render_flash_fwd_decode_sm80},
    {"attention/flash_fwd_map.cu.j2", where_17, 1, ap_render_flash_fwd_map},
    {"attention/flash_fwd_runs_sm80.cu.j2", where_98, 3, ap_render_flash_fwd_runs_sm80},
    {"attention/flash_fwd_runs_sm90.cu.j2", where_99, 3, ap_render_flash_fwd_runs_sm90},
    {"attention/flash_fwd_schedule.cu.j2", where_20, 1, ap_render_flash_fwd_schedule},
    {"attention/flash_fwd_shared_sm90.cu.j2", where_100, 3, ap_render_flash_fwd_shared_sm90},
    {"attention/flash_fwd_sm80.cu.j2", where_101, 3, ap_render_flash_fwd_sm80},
    {"attention/flash_fwd_sm90.cu.j2", where_102, 5, ap_render_flash_fwd_sm90},
    {"attention/flash_fwd_wide_sm90.cu.j2", where_74, 3, ap_render_flash_fwd_wide_sm90},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_103, 1, 9, 80, 80, 80, "sm_80"},
    {where_103, 1, 8, 86, 86, 86, "sm_86"},
    {where_103, 1, 7, 87, 87, 80, "sm_80"},
    {where_103, 1, 6, 88, 89, 86, "sm_86"},
    {where_103, 1, 5, 90, 90, 90, "sm_90a"},
    {where_103, 1, 4, 90, 90, 80, "sm_90"},
    {where_103, 1, 3, 100, 109, 80, "sm_100"},
    {where_103, 1, 2, 110, 119, 80, "sm_110"},
    {where_103, 1, 1, 120, 129, 86, "sm_120"},
    {where_35, 1, 9, 80, 80, 80, "sm_80"},
    {where_35, 1, 8, 86, 86, 86, "sm_86"},
    {where_35, 1, 7, 87, 87, 80, "sm_80"},
    {where_35, 1, 6, 88, 89, 86, "sm_86"},
    {where_35, 1, 5, 90, 90, 90, "sm_90a"},
    {where_35, 1, 4, 90, 90, 80, "sm_90"},
    {where_35, 1, 3, 100, 109, 80, "sm_100"},
    {where_35, 1, 2, 110, 119, 80, "sm_110"},
    {where_35, 1, 1, 120, 129, 86, "sm_120"},
    {where_105, 1, 8, 80, 80, 80, "sm_80"},
    {where_105, 1, 7, 86, 86, 80, "sm_86"},
    {where_105, 1, 6, 87, 87, 80, "sm_80"},
    {where_105, 1, 5, 88, 89, 80, "sm_86"},
    {where_105, 1, 4, 90, 90, 80, "sm_90"},
    {where_105, 1, 3, 100, 109, 80, "sm_100"},
    {where_105, 1, 2, 110, 119, 80, "sm_110"},
    {where_105, 1, 1, 120, 129, 80, "sm_120"},
};

extern const ap_family ap_family_attention;
const ap_family ap_family_attention = {
    "attention", "flash",
    "flash_<fwd|fwd_combine|bwd|bwd_dkv|bwd_dq|bwd_delta|bwd_convert|bwd_sinks|fwd_map|fwd_schedule|bwd_dbias>[_split]_hdim<D>[v<DV>]_<fp16|bf16>[_causal|_window][_softcap][_alibi][_biasfp16|_biasbf16|_biasfp32][_dropout][_modscore][_modmask][_modgrad][_ragged|_paged][_ready][_decode][_shared|_pairs][_few][_runs][_append][_long]_sm<80|86|90>",
    axes, 22, 21,
    0x1000000000000,
    {0x100000000000, 0x80000000000, 0x200000000, 0x4000000, 0x8000000, 0x2000000, 0x1000000, 0x800000, 0x200000, 0x100000, 0x80000, 0x40000, 0x20000, 0x8000, 0x4000, 0x2000, 0x800, 0x400, 0x200, 0x100, 0x80, 0x1},
    {~0xfu, ~0x1u, ~0x3f8u, ~0x3f8u, ~0x3u, ~0x3u, ~0x1u, ~0x1u, ~0x3u, ~0x1u, ~0x1u, ~0x1u, ~0x1u, ~0x3u, ~0x1u, ~0x1u, ~0x3u, ~0x1u, ~0x1u, ~0x1u, ~0x1u, ~0x7fu},
    rules, 219,
    18, fields, forms, 3,
    tile_classes, 11, &ap_tiles_attention, stand_ins, 14, ap_attention_fit,
    templates, 20, routes, 26,
    snippets, 4,
};
