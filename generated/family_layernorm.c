/* Written by `python -m generator` from generator/layernorm/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_dx(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_odd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_odd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_params(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_reduce(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_bulk(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_direct(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_long(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_odd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_packed(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_pairs(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_wide(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_layernorm;

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"bwd", "_bwd", 1}, {"bwd_dx", "_bwd_dx", 2}, {"bwd_params", "_bwd_params", 3}, {"bwd_reduce", "_bwd_reduce", 4}};
static const int32_t values_1[] = {0, 1, 2, 3, 4};
static const ap_word words_2[] = {{"layer", "", 0}, {"rms", "_rms", 1}};
static const int32_t values_3[] = {0, 1};
static const ap_word words_4[] = {{"aligned", "", 0}, {"odd", "_odd", 1}, {"packed", "_packed", 2}, {"bulk", "_bulk", 3}, {"cut", "_cut", 4}, {"direct", "_direct", 5}, {"wide", "_wide", 6}, {"pairs", "_pairs", 7}};
static const int32_t values_5[] = {0, 1, 2, 3, 4, 5, 6, 7};
static const int32_t values_6[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864, 40960, 49152, 57344, 65536, 131072};
static const ap_word words_7[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}, {"fp32", "_fp32", 3}};
static const int32_t values_8[] = {1, 2, 3};
static const ap_word words_9[] = {{"fp16", "_wfp16", 1}, {"bf16", "_wbf16", 2}, {"fp32", "_wfp32", 3}};
static const int32_t values_10[] = {80, 90};
static const int32_t values_11[] = {90};
static const int32_t values_12[] = {0};
static const ap_set where_13[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}};
static const int32_t values_14[] = {12288, 16384, 24576, 32768, 40960, 49152, 57344, 65536, 131072};
static const int32_t values_15[] = {1};
static const ap_set where_16[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_15, 1}};
static const int32_t values_17[] = {10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_18[] = {32768, 40960, 49152, 57344, 65536};
static const int32_t values_19[] = {1, 2};
static const ap_set where_20[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_19, 2}};
static const int32_t values_21[] = {12288, 16384, 24576, 32768, 40960, 49152, 65536};
static const int32_t values_22[] = {3};
static const ap_set where_23[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_24[] = {57344};
static const ap_set where_25[] = {{3, 0, 0, 1, values_24, 1}, {2, 0, 0, 1, values_12, 1}};
static const int32_t values_26[] = {16384, 24576, 32768, 49152, 65536, 131072};
static const ap_set where_27[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_19, 2}};
static const int32_t values_28[] = {12288, 16384, 24576, 32768, 49152, 65536};
static const ap_set where_29[] = {{6, 0, 0, 1, values_11, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_30[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
static const int32_t values_31[] = {80};
static const ap_set where_32[] = {{6, 0, 0, 1, values_31, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_33[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
static const ap_set where_34[] = {{6, 0, 0, 1, values_31, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_35[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 131072};
static const ap_set where_36[] = {{6, 0, 0, 1, values_31, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_37[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144, 7168, 8192, 10240, 12288, 16384, 131072};
static const ap_set where_38[] = {{6, 0, 0, 1, values_31, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_39[] = {7168};
static const ap_set where_40[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_39, 1}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_41[] = {28672};
static const ap_set where_42[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_41, 1}};
static const int32_t values_43[] = {131072};
static const int32_t values_44[] = {2, 3, 4};
static const ap_set where_45[] = {{0, 0, 0, 1, values_44, 3}};
static const ap_set where_46[] = {{2, 0, 0, 1, values_15, 1}};
static const int32_t values_47[] = {32, 64, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192};
static const ap_set where_48[] = {{2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_31, 1}};
static const int32_t values_49[] = {32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_50[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_31, 1}};
static const int32_t values_51[] = {2};
static const ap_set where_52[] = {{2, 0, 0, 1, values_51, 1}};
static const int32_t values_53[] = {10240, 12288, 14336, 16384, 20480};
static const ap_set where_54[] = {{2, 0, 0, 1, values_51, 1}, {4, 0, 0, 1, values_19, 2}};
static const int32_t values_55[] = {128, 192, 1024, 4096, 5120};
static const ap_set where_56[] = {{2, 0, 0, 1, values_51, 1}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_57[] = {3, 4};
static const ap_set where_58[] = {{2, 0, 0, 1, values_57, 2}};
static const ap_set where_59[] = {{2, 0, 0, 1, values_57, 2}, {4, 0, 0, 1, values_19, 2}};
static const int32_t values_60[] = {128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_61[] = {{2, 0, 0, 1, values_22, 1}, {4, 0, 0, 1, values_19, 2}};
static const int32_t values_62[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_63[] = {{2, 0, 0, 1, values_22, 1}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_64[] = {1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_65[] = {4};
static const ap_set where_66[] = {{2, 0, 0, 1, values_65, 1}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_67[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_68[] = {{2, 0, 0, 1, values_65, 1}, {4, 0, 0, 1, values_19, 2}};
static const int32_t values_69[] = {5};
static const ap_set where_70[] = {{2, 0, 0, 1, values_69, 1}};
static const int32_t values_71[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864};
static const int32_t values_72[] = {7};
static const ap_set where_73[] = {{2, 0, 0, 1, values_72, 1}};
static const int32_t values_74[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448};
static const int32_t values_75[] = {36864};
static const ap_set where_76[] = {{2, 0, 0, 1, values_69, 1}, {3, 0, 0, 1, values_75, 1}};
static const int32_t values_77[] = {6};
static const ap_set where_78[] = {{2, 0, 0, 1, values_77, 1}};
static const ap_set where_79[] = {{2, 0, 0, 1, values_77, 1}, {4, 0, 0, 1, values_15, 1}};
static const int32_t values_80[] = {20480, 24576, 28672, 32768, 49152, 65536};
static const ap_set where_81[] = {{2, 0, 0, 1, values_77, 1}, {4, 0, 0, 1, values_51, 1}};
static const ap_set where_82[] = {{2, 0, 0, 1, values_77, 1}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_83[] = {10240, 12288, 14336, 16384, 24576, 32768};
static const ap_set where_84[] = {{0, 0, 0, 1, values_22, 1}};
static const ap_set where_85[] = {{0, 0, 0, 1, values_65, 1}};
static const ap_tile_part parts_86[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"b", 2, 0, 1}, {"c", 4, 0, 0}, {"a", 3, 1, -1}, {"h", 5, 1, -1}, {"s", 6, 1, -1}, {"k", 7, 1, -1}, {"m", 8, 1, -1}, {"p", 9, 1, -1}, {"n", 10, 0, 0}, {"r", 12, 0, 0}};
static const ap_tile_part parts_87[] = {{"w", 0, 0, -1}, {"v", 11, 0, -1}};
static const ap_set where_88[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_31, 1}};
static const ap_set where_89[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_90[] = {{0, 0, 0, 1, values_51, 1}};
static const ap_set where_91[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_31, 1}};
static const ap_set where_92[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_11, 1}};
static const int32_t values_93[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_94[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_31, 1}, {3, 0, 0, 1, values_93, 28}};
static const ap_set where_95[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_57, 2}};
static const ap_set where_96[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_97[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_69, 1}};
static const ap_set where_98[] = {{0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_43, 1}};
static const ap_set where_99[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_15, 1}};
static const ap_set where_100[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_51, 1}};
static const ap_set where_101[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_72, 1}};
static const ap_set where_102[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_77, 1}};
static const ap_set where_103[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_18, 5}};
static const int32_t values_104[] = {12288, 16384, 24576};
static const ap_set where_105[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_104, 3}, {4, 0, 0, 1, values_22, 1}};
static const int32_t values_106[] = {12288};
static const ap_set where_107[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_106, 1}, {4, 0, 0, 1, values_22, 1}};
static const ap_set where_108[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_26, 6}};
static const ap_set where_109[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {3, 0, 0, 1, values_17, 12}};
static const int32_t values_110[] = {2, 3, 4, 5, 7, 6};
static const ap_set where_111[] = {{2, 0, 0, 1, values_110, 6}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"norm", "norm", AP_AXIS_WORD, "", "", "of ", " norm",
     -1, {1, 0, 0, 1, values_3, 2}, words_2},
    {"rows", "rows", AP_AXIS_WORD, "", "", "of ", " rows",
     -1, {2, 0, 0, 1, values_5, 8}, words_4},
    {"cols", "columns", AP_AXIS_NUMBER, "_cols", "", "with columns ", "",
     -1, {3, 0, 0, 1, values_6, 44}, 0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {4, 0, 0, 1, values_8, 3}, words_7},
    {"params", "params", AP_AXIS_WORD, "", "", "with params ", "",
     -1, {5, 0, 0, 1, values_8, 3}, words_9},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {6, 0, 0, 1, values_10, 2}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_13, 2, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_13, 2, {3, 0, 0, 1, values_14, 9}, -1, 0, 0},
    {where_16, 2, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_16, 2, {3, 0, 0, 1, values_17, 12}, -1, 0, 0},
    {where_20, 4, {3, 0, 0, 1, values_18, 5}, -1, 0, 0},
    {where_23, 4, {3, 0, 0, 1, values_21, 7}, -1, 0, 0},
    {where_25, 2, {5, 0, 0, 1, values_19, 2}, -1, 0, 0},
    {where_27, 4, {3, 0, 0, 1, values_26, 6}, -1, 0, 0},
    {where_29, 3, {3, 0, 0, 1, values_28, 6}, -1, 0, 0},
    {where_32, 2, {3, 0, 0, 1, values_30, 18}, -1, 0, 0},
    {where_34, 3, {3, 0, 0, 1, values_33, 17}, -1, 0, 0},
    {where_36, 2, {3, 0, 0, 1, values_35, 29}, -1, 0, 0},
    {where_38, 3, {3, 0, 0, 1, values_37, 23}, -1, 0, 0},
    {where_40, 4, {1, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_42, 3, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_45, 1, {3, 0, 0, 1, values_43, 1}, -1, 0, 0},
    {where_45, 1, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_46, 1, {4, 0, 0, 1, values_19, 2}, -1, 0, 0},
    {where_48, 2, {3, 0, 0, 1, values_47, 19}, -1, 0, 0},
    {where_50, 3, {3, 0, 0, 1, values_49, 11}, -1, 0, 0},
    {where_52, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_54, 2, {3, 0, 0, 1, values_53, 5}, -1, 0, 0},
    {where_54, 2, {5, 0, 0, 1, values_22, 1}, -1, 0, 0},
    {where_56, 2, {3, 0, 0, 1, values_55, 5}, -1, 0, 0},
    {where_58, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_58, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_59, 2, {5, 0, 0, 1, values_19, 2}, -1, 0, 0},
    {where_61, 2, {3, 0, 0, 1, values_60, 37}, -1, 0, 0},
    {where_63, 2, {3, 0, 0, 1, values_62, 32}, -1, 0, 0},
    {where_66, 2, {3, 0, 0, 1, values_64, 23}, -1, 0, 0},
    {where_68, 2, {3, 0, 0, 1, values_67, 31}, -1, 0, 0},
    {where_70, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_70, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_70, 1, {4, 0, 0, 1, values_19, 2}, -1, 0, 0},
    {where_70, 1, {5, 0, 0, 1, values_19, 2}, -1, 0, 0},
    {where_70, 1, {3, 0, 0, 1, values_71, 28}, -1, 0, 0},
    {where_73, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_73, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_73, 1, {4, 0, 0, 1, values_19, 2}, -1, 0, 0},
    {where_73, 1, {3, 0, 0, 1, values_74, 11}, -1, 0, 0},
    {where_76, 2, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_78, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_78, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_79, 2, {5, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_79, 2, {3, 0, 0, 1, values_80, 6}, -1, 0, 0},
    {where_81, 2, {5, 0, 0, 1, values_51, 1}, -1, 0, 0},
    {where_81, 2, {3, 0, 0, 1, values_80, 6}, -1, 0, 0},
    {where_82, 2, {5, 0, 0, 1, values_22, 1}, -1, 0, 0},
    {where_82, 2, {3, 0, 0, 1, values_83, 6}, -1, 0, 0},
    {where_84, 1, {5, 0, 0, 1, values_22, 1}, -1, 0, 0},
    {where_85, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_85, 1, {4, 0, 0, 1, values_22, 1}, -1, 0, 0},
};
static const char *const fields[] = {
    "warps",
    "row_threads",
    "blocks",
    "ahead",
    "slots",
    "weight_held",
    "sums_in_shared",
    "in_shared",
    "weight_in_shared",
    "packed",
    "piece",
    "step",
    "rounds",
};
static const ap_tile_form forms[] = {
    {11, 0, parts_86, 12},
    {-1, 0, parts_87, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"layernorm/layernorm_bwd.cu.j2", where_88, 3, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd_cluster.cu.j2", where_89, 3, ap_render_layernorm_bwd_cluster},
    {"layernorm/layernorm_bwd_dx.cu.j2", where_90, 1, ap_render_layernorm_bwd_dx},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_91, 3, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_odd_cluster.cu.j2", where_92, 3, ap_render_layernorm_bwd_odd_cluster},
    {"layernorm/layernorm_bwd_params.cu.j2", where_84, 1, ap_render_layernorm_bwd_params},
    {"layernorm/layernorm_bwd_reduce.cu.j2", where_85, 1, ap_render_layernorm_bwd_reduce},
    {"layernorm/layernorm_fwd.cu.j2", where_94, 4, ap_render_layernorm_fwd},
    {"layernorm/layernorm_fwd_bulk.cu.j2", where_95, 2, ap_render_layernorm_fwd_bulk},
    {"layernorm/layernorm_fwd_cluster.cu.j2", where_96, 3, ap_render_layernorm_fwd_cluster},
    {"layernorm/layernorm_fwd_direct.cu.j2", where_97, 2, ap_render_layernorm_fwd_direct},
    {"layernorm/layernorm_fwd_long.cu.j2", where_98, 2, ap_render_layernorm_fwd_long},
    {"layernorm/layernorm_fwd_odd.cu.j2", where_99, 2, ap_render_layernorm_fwd_odd},
    {"layernorm/layernorm_fwd_packed.cu.j2", where_100, 2, ap_render_layernorm_fwd_packed},
    {"layernorm/layernorm_fwd_pairs.cu.j2", where_101, 2, ap_render_layernorm_fwd_pairs},
    {"layernorm/layernorm_fwd_wide.cu.j2", where_102, 2, ap_render_layernorm_fwd_wide},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_103, 3, 1, 90, 90, 90, "sm_90a"},
    {where_105, 4, 1, 90, 90, 90, "sm_90a"},
    {where_107, 4, 1, 90, 90, 90, "sm_90a"},
    {where_108, 3, 1, 90, 90, 90, "sm_90a"},
    {where_109, 3, 1, 90, 90, 90, "sm_90a"},
    {where_111, 1, 1, 90, 90, 90, "sm_90a"},
    {0, 0, 8, 80, 80, 80, "sm_80"},
    {0, 0, 7, 86, 86, 80, "sm_86"},
    {0, 0, 6, 87, 87, 80, "sm_80"},
    {0, 0, 5, 88, 89, 80, "sm_86"},
    {0, 0, 4, 90, 90, 80, "sm_90"},
    {0, 0, 3, 100, 109, 80, "sm_100"},
    {0, 0, 2, 110, 119, 80, "sm_110"},
    {0, 0, 1, 120, 129, 80, "sm_120"},
};

extern const ap_family ap_family_layernorm;
const ap_family ap_family_layernorm = {
    "layernorm", "layernorm",
    "layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd|_packed|_bulk|_cut|_direct|_wide|_pairs]_cols<32|64|96|128|160|192|224|256|320|384|448|512|640|768|896|1024|1280|1536|1792|1984|2048|2560|3072|3584|3968|4096|5120|6144|7168|8192|10240|12288|14336|16384|20480|24576|28672|32768|36864|40960|49152|57344|65536|131072>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80|90>",
    axes, 7, 6,
    0x1000000000,
    {0x200000000, 0x100000000, 0x20000000, 0x800, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0x7u, ~0x3ffffu, ~0x3u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 53,
    13, fields, forms, 2,
    0, 0, &ap_tiles_layernorm, 0, 0, 0,
    templates, 16, routes, 14,
    0, 0,
};
