/* Written by `python -m generator` from generator/layernorm/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_dx(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_odd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_params(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_reduce(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_bulk(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_direct(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_long(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_odd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_packed(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_layernorm;

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"bwd", "_bwd", 1}, {"bwd_dx", "_bwd_dx", 2}, {"bwd_params", "_bwd_params", 3}, {"bwd_reduce", "_bwd_reduce", 4}};
static const int32_t values_1[] = {0, 1, 2, 3, 4};
static const ap_word words_2[] = {{"layer", "", 0}, {"rms", "_rms", 1}};
static const int32_t values_3[] = {0, 1};
static const ap_word words_4[] = {{"aligned", "", 0}, {"odd", "_odd", 1}, {"packed", "_packed", 2}, {"bulk", "_bulk", 3}, {"cut", "_cut", 4}, {"direct", "_direct", 5}};
static const int32_t values_5[] = {0, 1, 2, 3, 4, 5};
static const int32_t values_6[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536, 131072};
static const ap_word words_7[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}, {"fp32", "_fp32", 3}};
static const int32_t values_8[] = {1, 2, 3};
static const ap_word words_9[] = {{"fp16", "_wfp16", 1}, {"bf16", "_wbf16", 2}, {"fp32", "_wfp32", 3}};
static const int32_t values_10[] = {80, 90};
static const int32_t values_11[] = {90};
static const ap_set where_12[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_3, 2}};
static const int32_t values_13[] = {0};
static const int32_t values_14[] = {12288, 16384, 24576, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_15[] = {32768, 40960, 49152, 57344, 65536};
static const int32_t values_16[] = {1, 2};
static const ap_set where_17[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_13, 1}, {0, 0, 0, 1, values_13, 1}, {4, 0, 0, 1, values_16, 2}};
static const int32_t values_18[] = {12288, 16384, 24576, 32768, 40960, 49152, 65536};
static const int32_t values_19[] = {3};
static const ap_set where_20[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_13, 1}, {0, 0, 0, 1, values_13, 1}, {4, 0, 0, 1, values_19, 1}};
static const int32_t values_21[] = {57344};
static const ap_set where_22[] = {{3, 0, 0, 1, values_21, 1}, {2, 0, 0, 1, values_13, 1}};
static const int32_t values_23[] = {16384, 24576, 32768, 49152, 65536};
static const int32_t values_24[] = {1};
static const ap_set where_25[] = {{6, 0, 0, 1, values_11, 1}, {0, 0, 0, 1, values_24, 1}, {4, 0, 0, 1, values_16, 2}};
static const int32_t values_26[] = {12288, 16384, 24576, 32768, 49152};
static const ap_set where_27[] = {{6, 0, 0, 1, values_11, 1}, {0, 0, 0, 1, values_24, 1}, {4, 0, 0, 1, values_19, 1}};
static const int32_t values_28[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
static const int32_t values_29[] = {80};
static const ap_set where_30[] = {{6, 0, 0, 1, values_29, 1}, {0, 0, 0, 1, values_24, 1}};
static const int32_t values_31[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
static const ap_set where_32[] = {{6, 0, 0, 1, values_29, 1}, {0, 0, 0, 1, values_24, 1}, {4, 0, 0, 1, values_19, 1}};
static const int32_t values_33[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 131072};
static const ap_set where_34[] = {{6, 0, 0, 1, values_29, 1}, {0, 0, 0, 1, values_13, 1}};
static const int32_t values_35[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144, 7168, 8192, 10240, 12288, 16384, 131072};
static const ap_set where_36[] = {{6, 0, 0, 1, values_29, 1}, {0, 0, 0, 1, values_13, 1}, {4, 0, 0, 1, values_19, 1}};
static const int32_t values_37[] = {7168};
static const ap_set where_38[] = {{2, 0, 0, 1, values_13, 1}, {0, 0, 0, 1, values_13, 1}, {3, 0, 0, 1, values_37, 1}, {4, 0, 0, 1, values_19, 1}};
static const int32_t values_39[] = {28672};
static const ap_set where_40[] = {{2, 0, 0, 1, values_13, 1}, {0, 0, 0, 1, values_13, 1}, {3, 0, 0, 1, values_39, 1}};
static const int32_t values_41[] = {131072};
static const int32_t values_42[] = {2, 3, 4};
static const ap_set where_43[] = {{0, 0, 0, 1, values_42, 3}};
static const ap_set where_44[] = {{2, 0, 0, 1, values_24, 1}};
static const int32_t values_45[] = {32, 64, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192};
static const int32_t values_46[] = {32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_47[] = {{2, 0, 0, 1, values_24, 1}, {0, 0, 0, 1, values_24, 1}};
static const int32_t values_48[] = {2};
static const ap_set where_49[] = {{2, 0, 0, 1, values_48, 1}};
static const int32_t values_50[] = {64, 96, 128, 10240, 12288, 14336, 16384, 20480};
static const ap_set where_51[] = {{2, 0, 0, 1, values_48, 1}, {4, 0, 0, 1, values_16, 2}};
static const int32_t values_52[] = {64};
static const ap_set where_53[] = {{2, 0, 0, 1, values_48, 1}, {4, 0, 0, 1, values_16, 2}, {5, 0, 0, 1, values_16, 2}};
static const int32_t values_54[] = {128, 192, 1024, 4096, 5120};
static const ap_set where_55[] = {{2, 0, 0, 1, values_48, 1}, {4, 0, 0, 1, values_19, 1}};
static const int32_t values_56[] = {3, 4};
static const ap_set where_57[] = {{2, 0, 0, 1, values_56, 2}};
static const ap_set where_58[] = {{2, 0, 0, 1, values_56, 2}, {4, 0, 0, 1, values_16, 2}};
static const int32_t values_59[] = {128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_60[] = {{2, 0, 0, 1, values_19, 1}, {4, 0, 0, 1, values_16, 2}};
static const int32_t values_61[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_62[] = {{2, 0, 0, 1, values_19, 1}, {4, 0, 0, 1, values_19, 1}};
static const int32_t values_63[] = {1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_64[] = {4};
static const ap_set where_65[] = {{2, 0, 0, 1, values_64, 1}, {4, 0, 0, 1, values_19, 1}};
static const int32_t values_66[] = {96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_67[] = {{2, 0, 0, 1, values_64, 1}, {4, 0, 0, 1, values_16, 2}};
static const int32_t values_68[] = {5};
static const ap_set where_69[] = {{2, 0, 0, 1, values_68, 1}};
static const int32_t values_70[] = {256, 320, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_71[] = {{0, 0, 0, 1, values_19, 1}};
static const ap_set where_72[] = {{0, 0, 0, 1, values_64, 1}};
static const ap_tile_part parts_73[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"b", 2, 0, 1}, {"c", 4, 0, 0}, {"a", 3, 1, -1}, {"h", 5, 1, -1}, {"s", 6, 1, -1}, {"k", 7, 1, -1}, {"m", 8, 1, -1}, {"p", 9, 1, -1}, {"n", 10, 0, 0}, {"r", 12, 0, 0}};
static const ap_tile_part parts_74[] = {{"w", 0, 0, -1}, {"v", 11, 0, -1}};
static const ap_set where_75[] = {{0, 0, 0, 1, values_24, 1}, {2, 0, 0, 1, values_13, 1}, {6, 0, 0, 1, values_29, 1}};
static const ap_set where_76[] = {{0, 0, 0, 1, values_24, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_77[] = {{0, 0, 0, 1, values_48, 1}};
static const ap_set where_78[] = {{0, 0, 0, 1, values_24, 1}, {2, 0, 0, 1, values_24, 1}};
static const int32_t values_79[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_80[] = {{0, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_13, 1}, {6, 0, 0, 1, values_29, 1}, {3, 0, 0, 1, values_79, 28}};
static const ap_set where_81[] = {{0, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_56, 2}};
static const ap_set where_82[] = {{0, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_13, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_83[] = {{0, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_68, 1}};
static const ap_set where_84[] = {{0, 0, 0, 1, values_13, 1}, {3, 0, 0, 1, values_41, 1}};
static const ap_set where_85[] = {{0, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_24, 1}};
static const ap_set where_86[] = {{0, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_48, 1}};
static const ap_set where_87[] = {{0, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_13, 1}, {3, 0, 0, 1, values_15, 5}};
static const int32_t values_88[] = {12288, 16384, 24576};
static const ap_set where_89[] = {{0, 0, 0, 1, values_13, 1}, {2, 0, 0, 1, values_13, 1}, {3, 0, 0, 1, values_88, 3}, {4, 0, 0, 1, values_19, 1}};
static const int32_t values_90[] = {12288};
static const ap_set where_91[] = {{0, 0, 0, 1, values_24, 1}, {2, 0, 0, 1, values_13, 1}, {3, 0, 0, 1, values_90, 1}, {4, 0, 0, 1, values_19, 1}};
static const ap_set where_92[] = {{0, 0, 0, 1, values_24, 1}, {2, 0, 0, 1, values_13, 1}, {3, 0, 0, 1, values_23, 5}};
static const int32_t values_93[] = {2, 3, 4, 5};
static const ap_set where_94[] = {{2, 0, 0, 1, values_93, 4}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"norm", "norm", AP_AXIS_WORD, "", "", "of ", " norm",
     -1, {1, 0, 0, 1, values_3, 2}, words_2},
    {"rows", "rows", AP_AXIS_WORD, "", "", "of ", " rows",
     -1, {2, 0, 0, 1, values_5, 6}, words_4},
    {"cols", "columns", AP_AXIS_NUMBER, "_cols", "", "with columns ", "",
     -1, {3, 0, 0, 1, values_6, 43}, 0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {4, 0, 0, 1, values_8, 3}, words_7},
    {"params", "params", AP_AXIS_WORD, "", "", "with params ", "",
     -1, {5, 0, 0, 1, values_8, 3}, words_9},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {6, 0, 0, 1, values_10, 2}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_12, 2, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_12, 2, {2, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_12, 2, {3, 0, 0, 1, values_14, 8}, -1, 0, 0},
    {where_17, 4, {3, 0, 0, 1, values_15, 5}, -1, 0, 0},
    {where_20, 4, {3, 0, 0, 1, values_18, 7}, -1, 0, 0},
    {where_22, 2, {5, 0, 0, 1, values_16, 2}, -1, 0, 0},
    {where_25, 3, {3, 0, 0, 1, values_23, 5}, -1, 0, 0},
    {where_27, 3, {3, 0, 0, 1, values_26, 5}, -1, 0, 0},
    {where_30, 2, {3, 0, 0, 1, values_28, 18}, -1, 0, 0},
    {where_32, 3, {3, 0, 0, 1, values_31, 17}, -1, 0, 0},
    {where_34, 2, {3, 0, 0, 1, values_33, 29}, -1, 0, 0},
    {where_36, 3, {3, 0, 0, 1, values_35, 23}, -1, 0, 0},
    {where_38, 4, {1, 0, 0, 1, values_24, 1}, -1, 0, 0},
    {where_40, 3, {1, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_43, 1, {3, 0, 0, 1, values_41, 1}, -1, 0, 0},
    {where_43, 1, {2, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_44, 1, {4, 0, 0, 1, values_16, 2}, -1, 0, 0},
    {where_44, 1, {3, 0, 0, 1, values_45, 19}, -1, 0, 0},
    {where_47, 2, {3, 0, 0, 1, values_46, 11}, -1, 0, 0},
    {where_49, 1, {0, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_49, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_51, 2, {3, 0, 0, 1, values_50, 8}, -1, 0, 0},
    {where_53, 3, {3, 0, 0, 1, values_52, 1}, -1, 0, 0},
    {where_55, 2, {3, 0, 0, 1, values_54, 5}, -1, 0, 0},
    {where_57, 1, {0, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_57, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_58, 2, {5, 0, 0, 1, values_16, 2}, -1, 0, 0},
    {where_60, 2, {3, 0, 0, 1, values_59, 37}, -1, 0, 0},
    {where_62, 2, {3, 0, 0, 1, values_61, 32}, -1, 0, 0},
    {where_65, 2, {3, 0, 0, 1, values_63, 23}, -1, 0, 0},
    {where_67, 2, {3, 0, 0, 1, values_66, 40}, -1, 0, 0},
    {where_69, 1, {0, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_69, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_69, 1, {4, 0, 0, 1, values_16, 2}, -1, 0, 0},
    {where_69, 1, {5, 0, 0, 1, values_16, 2}, -1, 0, 0},
    {where_69, 1, {3, 0, 0, 1, values_70, 29}, -1, 0, 0},
    {where_71, 1, {5, 0, 0, 1, values_19, 1}, -1, 0, 0},
    {where_72, 1, {1, 0, 0, 1, values_13, 1}, -1, 0, 0},
    {where_72, 1, {4, 0, 0, 1, values_19, 1}, -1, 0, 0},
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
    {11, 0, parts_73, 12},
    {-1, 0, parts_74, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"layernorm/layernorm_bwd.cu.j2", where_75, 3, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd_cluster.cu.j2", where_76, 2, ap_render_layernorm_bwd_cluster},
    {"layernorm/layernorm_bwd_dx.cu.j2", where_77, 1, ap_render_layernorm_bwd_dx},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_78, 2, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_params.cu.j2", where_71, 1, ap_render_layernorm_bwd_params},
    {"layernorm/layernorm_bwd_reduce.cu.j2", where_72, 1, ap_render_layernorm_bwd_reduce},
    {"layernorm/layernorm_fwd.cu.j2", where_80, 4, ap_render_layernorm_fwd},
    {"layernorm/layernorm_fwd_bulk.cu.j2", where_81, 2, ap_render_layernorm_fwd_bulk},
    {"layernorm/layernorm_fwd_cluster.cu.j2", where_82, 3, ap_render_layernorm_fwd_cluster},
    {"layernorm/layernorm_fwd_direct.cu.j2", where_83, 2, ap_render_layernorm_fwd_direct},
    {"layernorm/layernorm_fwd_long.cu.j2", where_84, 2, ap_render_layernorm_fwd_long},
    {"layernorm/layernorm_fwd_odd.cu.j2", where_85, 2, ap_render_layernorm_fwd_odd},
    {"layernorm/layernorm_fwd_packed.cu.j2", where_86, 2, ap_render_layernorm_fwd_packed},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_87, 3, 1, 90, 90, 90, "sm_90a"},
    {where_89, 4, 1, 90, 90, 90, "sm_90a"},
    {where_91, 4, 1, 90, 90, 90, "sm_90a"},
    {where_92, 3, 1, 90, 90, 90, "sm_90a"},
    {where_94, 1, 1, 90, 90, 90, "sm_90a"},
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
    "layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd|_packed|_bulk|_cut|_direct]_cols<32|64|96|128|160|192|224|256|320|384|448|512|640|768|896|1024|1280|1536|1792|1984|2048|2560|3072|3584|3968|4096|5120|6144|7168|8192|10240|12288|14336|16384|20480|24576|28672|32768|40960|49152|57344|65536|131072>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80|90>",
    axes, 7, 6,
    0x1000000000,
    {0x200000000, 0x100000000, 0x20000000, 0x800, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0x7u, ~0x3ffffu, ~0x3u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 39,
    13, fields, forms, 2,
    0, 0, &ap_tiles_layernorm, 0, 0, 0,
    templates, 13, routes, 13,
    0, 0,
};
