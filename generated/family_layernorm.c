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
void ap_render_layernorm_fwd_long(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_odd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_packed(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_layernorm;

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"bwd", "_bwd", 1}, {"bwd_dx", "_bwd_dx", 2}, {"bwd_params", "_bwd_params", 3}, {"bwd_reduce", "_bwd_reduce", 4}};
static const int32_t values_1[] = {0, 1, 2, 3, 4};
static const ap_word words_2[] = {{"layer", "", 0}, {"rms", "_rms", 1}};
static const int32_t values_3[] = {0, 1};
static const ap_word words_4[] = {{"aligned", "", 0}, {"odd", "_odd", 1}, {"packed", "_packed", 2}, {"bulk", "_bulk", 3}, {"cut", "_cut", 4}};
static const int32_t values_5[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536, 131072};
static const ap_word words_6[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}, {"fp32", "_fp32", 3}};
static const int32_t values_7[] = {1, 2, 3};
static const ap_word words_8[] = {{"fp16", "_wfp16", 1}, {"bf16", "_wbf16", 2}, {"fp32", "_wfp32", 3}};
static const int32_t values_9[] = {80, 90};
static const int32_t values_10[] = {90};
static const ap_set where_11[] = {{6, 0, 0, 1, values_10, 1}, {2, 0, 0, 1, values_3, 2}};
static const int32_t values_12[] = {0};
static const int32_t values_13[] = {12288, 16384, 24576, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_14[] = {32768, 40960, 49152, 57344, 65536};
static const int32_t values_15[] = {1, 2};
static const ap_set where_16[] = {{6, 0, 0, 1, values_10, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_15, 2}};
static const int32_t values_17[] = {12288, 16384, 24576, 32768, 40960, 49152, 65536};
static const int32_t values_18[] = {3};
static const ap_set where_19[] = {{6, 0, 0, 1, values_10, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_18, 1}};
static const int32_t values_20[] = {57344};
static const ap_set where_21[] = {{3, 0, 0, 1, values_20, 1}, {2, 0, 0, 1, values_12, 1}};
static const int32_t values_22[] = {16384, 24576, 32768, 49152, 65536};
static const int32_t values_23[] = {1};
static const ap_set where_24[] = {{6, 0, 0, 1, values_10, 1}, {0, 0, 0, 1, values_23, 1}, {4, 0, 0, 1, values_15, 2}};
static const int32_t values_25[] = {12288, 16384, 24576, 32768, 49152};
static const ap_set where_26[] = {{6, 0, 0, 1, values_10, 1}, {0, 0, 0, 1, values_23, 1}, {4, 0, 0, 1, values_18, 1}};
static const int32_t values_27[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
static const int32_t values_28[] = {80};
static const ap_set where_29[] = {{6, 0, 0, 1, values_28, 1}, {0, 0, 0, 1, values_23, 1}};
static const int32_t values_30[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
static const ap_set where_31[] = {{6, 0, 0, 1, values_28, 1}, {0, 0, 0, 1, values_23, 1}, {4, 0, 0, 1, values_18, 1}};
static const int32_t values_32[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 131072};
static const ap_set where_33[] = {{6, 0, 0, 1, values_28, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_34[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144, 7168, 8192, 10240, 12288, 16384, 131072};
static const ap_set where_35[] = {{6, 0, 0, 1, values_28, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_18, 1}};
static const int32_t values_36[] = {7168};
static const ap_set where_37[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_36, 1}, {4, 0, 0, 1, values_18, 1}};
static const int32_t values_38[] = {28672};
static const ap_set where_39[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_38, 1}};
static const int32_t values_40[] = {131072};
static const int32_t values_41[] = {2, 3, 4};
static const ap_set where_42[] = {{0, 0, 0, 1, values_41, 3}};
static const ap_set where_43[] = {{2, 0, 0, 1, values_23, 1}};
static const int32_t values_44[] = {32, 64, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192};
static const int32_t values_45[] = {32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_46[] = {{2, 0, 0, 1, values_23, 1}, {0, 0, 0, 1, values_23, 1}};
static const int32_t values_47[] = {2};
static const ap_set where_48[] = {{2, 0, 0, 1, values_47, 1}};
static const int32_t values_49[] = {64, 96, 128, 10240, 12288, 14336, 16384, 20480};
static const ap_set where_50[] = {{2, 0, 0, 1, values_47, 1}, {4, 0, 0, 1, values_15, 2}};
static const int32_t values_51[] = {64};
static const ap_set where_52[] = {{2, 0, 0, 1, values_47, 1}, {4, 0, 0, 1, values_15, 2}, {5, 0, 0, 1, values_15, 2}};
static const int32_t values_53[] = {128, 192, 1024, 4096, 5120};
static const ap_set where_54[] = {{2, 0, 0, 1, values_47, 1}, {4, 0, 0, 1, values_18, 1}};
static const int32_t values_55[] = {3, 4};
static const ap_set where_56[] = {{2, 0, 0, 1, values_55, 2}};
static const ap_set where_57[] = {{2, 0, 0, 1, values_55, 2}, {4, 0, 0, 1, values_15, 2}};
static const int32_t values_58[] = {128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_59[] = {{2, 0, 0, 1, values_18, 1}, {4, 0, 0, 1, values_15, 2}};
static const int32_t values_60[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_61[] = {{2, 0, 0, 1, values_18, 1}, {4, 0, 0, 1, values_18, 1}};
static const int32_t values_62[] = {1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_63[] = {4};
static const ap_set where_64[] = {{2, 0, 0, 1, values_63, 1}, {4, 0, 0, 1, values_18, 1}};
static const int32_t values_65[] = {96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_66[] = {{2, 0, 0, 1, values_63, 1}, {4, 0, 0, 1, values_15, 2}};
static const ap_set where_67[] = {{0, 0, 0, 1, values_18, 1}};
static const ap_set where_68[] = {{0, 0, 0, 1, values_63, 1}};
static const ap_tile_part parts_69[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"b", 2, 0, 1}, {"c", 4, 0, 0}, {"a", 3, 1, -1}, {"h", 5, 1, -1}, {"s", 6, 1, -1}, {"k", 7, 1, -1}, {"m", 8, 1, -1}, {"p", 9, 1, -1}, {"n", 10, 0, 0}, {"r", 12, 0, 0}};
static const ap_tile_part parts_70[] = {{"w", 0, 0, -1}, {"v", 11, 0, -1}};
static const ap_set where_71[] = {{0, 0, 0, 1, values_23, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_28, 1}};
static const ap_set where_72[] = {{0, 0, 0, 1, values_23, 1}, {6, 0, 0, 1, values_10, 1}};
static const ap_set where_73[] = {{0, 0, 0, 1, values_47, 1}};
static const ap_set where_74[] = {{0, 0, 0, 1, values_23, 1}, {2, 0, 0, 1, values_23, 1}};
static const int32_t values_75[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_76[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_28, 1}, {3, 0, 0, 1, values_75, 28}};
static const ap_set where_77[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_55, 2}};
static const ap_set where_78[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_10, 1}};
static const ap_set where_79[] = {{0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_40, 1}};
static const ap_set where_80[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_23, 1}};
static const ap_set where_81[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_47, 1}};
static const ap_set where_82[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_14, 5}};
static const int32_t values_83[] = {12288, 16384, 24576};
static const ap_set where_84[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_83, 3}, {4, 0, 0, 1, values_18, 1}};
static const int32_t values_85[] = {12288};
static const ap_set where_86[] = {{0, 0, 0, 1, values_23, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_85, 1}, {4, 0, 0, 1, values_18, 1}};
static const ap_set where_87[] = {{0, 0, 0, 1, values_23, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_22, 5}};
static const ap_set where_88[] = {{2, 0, 0, 1, values_41, 3}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"norm", "norm", AP_AXIS_WORD, "", "", "of ", " norm",
     -1, {1, 0, 0, 1, values_3, 2}, words_2},
    {"rows", "rows", AP_AXIS_WORD, "", "", "of ", " rows",
     -1, {2, 0, 0, 1, values_1, 5}, words_4},
    {"cols", "columns", AP_AXIS_NUMBER, "_cols", "", "with columns ", "",
     -1, {3, 0, 0, 1, values_5, 43}, 0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {4, 0, 0, 1, values_7, 3}, words_6},
    {"params", "params", AP_AXIS_WORD, "", "", "with params ", "",
     -1, {5, 0, 0, 1, values_7, 3}, words_8},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {6, 0, 0, 1, values_9, 2}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_11, 2, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_11, 2, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_11, 2, {3, 0, 0, 1, values_13, 8}, -1, 0, 0},
    {where_16, 4, {3, 0, 0, 1, values_14, 5}, -1, 0, 0},
    {where_19, 4, {3, 0, 0, 1, values_17, 7}, -1, 0, 0},
    {where_21, 2, {5, 0, 0, 1, values_15, 2}, -1, 0, 0},
    {where_24, 3, {3, 0, 0, 1, values_22, 5}, -1, 0, 0},
    {where_26, 3, {3, 0, 0, 1, values_25, 5}, -1, 0, 0},
    {where_29, 2, {3, 0, 0, 1, values_27, 18}, -1, 0, 0},
    {where_31, 3, {3, 0, 0, 1, values_30, 17}, -1, 0, 0},
    {where_33, 2, {3, 0, 0, 1, values_32, 29}, -1, 0, 0},
    {where_35, 3, {3, 0, 0, 1, values_34, 23}, -1, 0, 0},
    {where_37, 4, {1, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_39, 3, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_42, 1, {3, 0, 0, 1, values_40, 1}, -1, 0, 0},
    {where_42, 1, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_43, 1, {4, 0, 0, 1, values_15, 2}, -1, 0, 0},
    {where_43, 1, {3, 0, 0, 1, values_44, 19}, -1, 0, 0},
    {where_46, 2, {3, 0, 0, 1, values_45, 11}, -1, 0, 0},
    {where_48, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_48, 1, {6, 0, 0, 1, values_10, 1}, -1, 0, 0},
    {where_50, 2, {3, 0, 0, 1, values_49, 8}, -1, 0, 0},
    {where_52, 3, {3, 0, 0, 1, values_51, 1}, -1, 0, 0},
    {where_54, 2, {3, 0, 0, 1, values_53, 5}, -1, 0, 0},
    {where_56, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_56, 1, {6, 0, 0, 1, values_10, 1}, -1, 0, 0},
    {where_57, 2, {5, 0, 0, 1, values_15, 2}, -1, 0, 0},
    {where_59, 2, {3, 0, 0, 1, values_58, 37}, -1, 0, 0},
    {where_61, 2, {3, 0, 0, 1, values_60, 32}, -1, 0, 0},
    {where_64, 2, {3, 0, 0, 1, values_62, 23}, -1, 0, 0},
    {where_66, 2, {3, 0, 0, 1, values_65, 40}, -1, 0, 0},
    {where_67, 1, {5, 0, 0, 1, values_18, 1}, -1, 0, 0},
    {where_68, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_68, 1, {4, 0, 0, 1, values_18, 1}, -1, 0, 0},
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
    {11, 0, parts_69, 12},
    {-1, 0, parts_70, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"layernorm/layernorm_bwd.cu.j2", where_71, 3, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd_cluster.cu.j2", where_72, 2, ap_render_layernorm_bwd_cluster},
    {"layernorm/layernorm_bwd_dx.cu.j2", where_73, 1, ap_render_layernorm_bwd_dx},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_74, 2, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_params.cu.j2", where_67, 1, ap_render_layernorm_bwd_params},
    {"layernorm/layernorm_bwd_reduce.cu.j2", where_68, 1, ap_render_layernorm_bwd_reduce},
    {"layernorm/layernorm_fwd.cu.j2", where_76, 4, ap_render_layernorm_fwd},
    {"layernorm/layernorm_fwd_bulk.cu.j2", where_77, 2, ap_render_layernorm_fwd_bulk},
    {"layernorm/layernorm_fwd_cluster.cu.j2", where_78, 3, ap_render_layernorm_fwd_cluster},
    {"layernorm/layernorm_fwd_long.cu.j2", where_79, 2, ap_render_layernorm_fwd_long},
    {"layernorm/layernorm_fwd_odd.cu.j2", where_80, 2, ap_render_layernorm_fwd_odd},
    {"layernorm/layernorm_fwd_packed.cu.j2", where_81, 2, ap_render_layernorm_fwd_packed},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_82, 3, 1, 90, 90, 90, "sm_90a"},
    {where_84, 4, 1, 90, 90, 90, "sm_90a"},
    {where_86, 4, 1, 90, 90, 90, "sm_90a"},
    {where_87, 3, 1, 90, 90, 90, "sm_90a"},
    {where_88, 1, 1, 90, 90, 90, "sm_90a"},
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
    "layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd|_packed|_bulk|_cut]_cols<32|64|96|128|160|192|224|256|320|384|448|512|640|768|896|1024|1280|1536|1792|1984|2048|2560|3072|3584|3968|4096|5120|6144|7168|8192|10240|12288|14336|16384|20480|24576|28672|32768|40960|49152|57344|65536|131072>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80|90>",
    axes, 7, 6,
    0x1000000000,
    {0x200000000, 0x100000000, 0x20000000, 0x800, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0x7u, ~0x3ffffu, ~0x3u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 34,
    13, fields, forms, 2,
    0, 0, &ap_tiles_layernorm, 0, 0, 0,
    templates, 12, routes, 13,
    0, 0,
};
