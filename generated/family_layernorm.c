/* Written by `python -m generator` from generator/layernorm/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_dx(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_gang(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_joined(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_odd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_odd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_params(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_reduce(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_apart(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_bulk(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_direct(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_long(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_odd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_packed(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_pairs(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_pieces(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_pieces(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_whole(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_wide(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_layernorm;

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"bwd", "_bwd", 1}, {"bwd_dx", "_bwd_dx", 2}, {"bwd_params", "_bwd_params", 3}, {"bwd_reduce", "_bwd_reduce", 4}};
static const int32_t values_1[] = {0, 1, 2, 3, 4};
static const ap_word words_2[] = {{"layer", "", 0}, {"rms", "_rms", 1}};
static const int32_t values_3[] = {0, 1};
static const ap_word words_4[] = {{"aligned", "", 0}, {"odd", "_odd", 1}, {"packed", "_packed", 2}, {"bulk", "_bulk", 3}, {"cut", "_cut", 4}, {"direct", "_direct", 5}, {"wide", "_wide", 6}, {"pairs", "_pairs", 7}, {"pieces", "_pieces", 8}, {"whole", "_whole", 9}, {"apart", "_apart", 10}, {"gang", "_gang", 11}, {"split", "_split", 12}, {"joined", "_joined", 13}};
static const int32_t values_5[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
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
static const int32_t values_18[] = {13};
static const ap_set where_19[] = {{2, 0, 0, 1, values_18, 1}};
static const int32_t values_20[] = {1, 2};
static const int32_t values_21[] = {10240, 12288, 14336, 16384, 20480, 28672, 36864, 40960, 49152, 65536};
static const int32_t values_22[] = {32768, 40960, 49152, 57344, 65536};
static const ap_set where_23[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_24[] = {12288, 16384, 24576, 32768, 40960, 49152, 65536};
static const int32_t values_25[] = {3};
static const ap_set where_26[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_27[] = {57344};
static const ap_set where_28[] = {{3, 0, 0, 1, values_27, 1}, {2, 0, 0, 1, values_12, 1}};
static const int32_t values_29[] = {16384, 24576, 32768, 49152, 65536, 131072};
static const ap_set where_30[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_31[] = {12288, 16384, 24576, 32768, 49152, 65536};
static const ap_set where_32[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_33[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
static const int32_t values_34[] = {80};
static const ap_set where_35[] = {{6, 0, 0, 1, values_34, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_36[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
static const ap_set where_37[] = {{6, 0, 0, 1, values_34, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_38[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 131072};
static const ap_set where_39[] = {{6, 0, 0, 1, values_34, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_40[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144, 7168, 8192, 10240, 12288, 16384, 131072};
static const ap_set where_41[] = {{6, 0, 0, 1, values_34, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_42[] = {7168};
static const ap_set where_43[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_42, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_44[] = {28672};
static const ap_set where_45[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_44, 1}};
static const int32_t values_46[] = {131072};
static const int32_t values_47[] = {2, 3, 4};
static const ap_set where_48[] = {{0, 0, 0, 1, values_47, 3}};
static const ap_set where_49[] = {{2, 0, 0, 1, values_15, 1}};
static const int32_t values_50[] = {32, 64, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192};
static const ap_set where_51[] = {{2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_34, 1}};
static const int32_t values_52[] = {32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_53[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_34, 1}};
static const int32_t values_54[] = {2};
static const ap_set where_55[] = {{2, 0, 0, 1, values_54, 1}};
static const int32_t values_56[] = {10240, 12288, 14336, 16384, 20480};
static const ap_set where_57[] = {{2, 0, 0, 1, values_54, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_58[] = {1024, 4096, 5120};
static const ap_set where_59[] = {{2, 0, 0, 1, values_54, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_60[] = {3, 4};
static const ap_set where_61[] = {{2, 0, 0, 1, values_60, 2}};
static const ap_set where_62[] = {{2, 0, 0, 1, values_60, 2}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_63[] = {128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_64[] = {{2, 0, 0, 1, values_25, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_65[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_66[] = {{2, 0, 0, 1, values_25, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_67[] = {1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_68[] = {4};
static const ap_set where_69[] = {{2, 0, 0, 1, values_68, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_70[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_71[] = {{2, 0, 0, 1, values_68, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_72[] = {5};
static const ap_set where_73[] = {{2, 0, 0, 1, values_72, 1}};
static const int32_t values_74[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864};
static const int32_t values_75[] = {7};
static const ap_set where_76[] = {{2, 0, 0, 1, values_75, 1}};
static const int32_t values_77[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768};
static const int32_t values_78[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448};
static const ap_set where_79[] = {{2, 0, 0, 1, values_75, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_80[] = {8};
static const ap_set where_81[] = {{2, 0, 0, 1, values_80, 1}};
static const int32_t values_82[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280};
static const int32_t values_83[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512};
static const ap_set where_84[] = {{2, 0, 0, 1, values_80, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_85[] = {9};
static const ap_set where_86[] = {{2, 0, 0, 1, values_85, 1}};
static const ap_set where_87[] = {{2, 0, 0, 1, values_85, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_88[] = {1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_89[] = {{2, 0, 0, 1, values_85, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_90[] = {768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const int32_t values_91[] = {10};
static const ap_set where_92[] = {{2, 0, 0, 1, values_91, 1}};
static const int32_t values_93[] = {512, 1024, 2048, 4096, 6144, 8192, 10240, 12288, 16384, 20480, 24576, 32768};
static const int32_t values_94[] = {36864};
static const ap_set where_95[] = {{2, 0, 0, 1, values_72, 1}, {3, 0, 0, 1, values_94, 1}};
static const int32_t values_96[] = {6};
static const ap_set where_97[] = {{2, 0, 0, 1, values_96, 1}};
static const ap_set where_98[] = {{2, 0, 0, 1, values_96, 1}, {4, 0, 0, 1, values_15, 1}};
static const int32_t values_99[] = {20480, 24576, 28672, 32768, 49152, 65536};
static const ap_set where_100[] = {{2, 0, 0, 1, values_96, 1}, {4, 0, 0, 1, values_54, 1}};
static const ap_set where_101[] = {{2, 0, 0, 1, values_96, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_102[] = {10240, 12288, 14336, 16384, 24576, 32768};
static const int32_t values_103[] = {11};
static const ap_set where_104[] = {{2, 0, 0, 1, values_103, 1}};
static const int32_t values_105[] = {8192};
static const int32_t values_106[] = {12};
static const ap_set where_107[] = {{2, 0, 0, 1, values_106, 1}};
static const int32_t values_108[] = {4096, 8192};
static const int32_t values_109[] = {4096};
static const ap_set where_110[] = {{2, 0, 0, 1, values_106, 1}, {4, 0, 0, 1, values_25, 1}};
static const ap_set where_111[] = {{2, 0, 0, 1, values_106, 1}, {5, 0, 0, 1, values_25, 1}};
static const ap_set where_112[] = {{2, 0, 0, 1, values_106, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_20, 2}};
static const ap_set where_113[] = {{0, 0, 0, 1, values_25, 1}};
static const ap_set where_114[] = {{0, 0, 0, 1, values_68, 1}};
static const ap_tile_part parts_115[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"b", 2, 0, 1}, {"g", 10, 0, 1}, {"c", 4, 0, 0}, {"a", 3, 1, -1}, {"h", 5, 1, -1}, {"s", 6, 1, -1}, {"k", 7, 1, -1}, {"m", 8, 1, -1}, {"p", 9, 1, -1}, {"n", 11, 0, 0}, {"r", 13, 0, 0}};
static const ap_tile_part parts_116[] = {{"w", 0, 0, -1}, {"v", 12, 0, -1}};
static const ap_set where_117[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_34, 1}};
static const ap_set where_118[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_119[] = {{0, 0, 0, 1, values_54, 1}};
static const int32_t values_120[] = {11, 12};
static const ap_set where_121[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_120, 2}};
static const ap_set where_122[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_18, 1}};
static const ap_set where_123[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_34, 1}};
static const ap_set where_124[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_11, 1}};
static const int32_t values_125[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_126[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_34, 1}, {3, 0, 0, 1, values_125, 28}};
static const ap_set where_127[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_91, 1}};
static const ap_set where_128[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_60, 2}};
static const ap_set where_129[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_130[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_72, 1}};
static const ap_set where_131[] = {{0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_46, 1}};
static const ap_set where_132[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_15, 1}};
static const ap_set where_133[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_54, 1}};
static const ap_set where_134[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_75, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_135[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_80, 1}};
static const ap_set where_136[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_75, 1}, {4, 0, 0, 1, values_25, 1}};
static const ap_set where_137[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_85, 1}};
static const ap_set where_138[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_96, 1}};
static const ap_set where_139[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_22, 5}};
static const int32_t values_140[] = {12288, 16384, 24576};
static const ap_set where_141[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_140, 3}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_142[] = {12288};
static const ap_set where_143[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_142, 1}, {4, 0, 0, 1, values_25, 1}};
static const ap_set where_144[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_29, 6}};
static const ap_set where_145[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {3, 0, 0, 1, values_17, 12}};
static const int32_t values_146[] = {2, 3, 4, 5, 7, 8, 9, 10, 6, 11, 12, 13};
static const ap_set where_147[] = {{2, 0, 0, 1, values_146, 12}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"norm", "norm", AP_AXIS_WORD, "", "", "of ", " norm",
     -1, {1, 0, 0, 1, values_3, 2}, words_2},
    {"rows", "rows", AP_AXIS_WORD, "", "", "of ", " rows",
     -1, {2, 0, 0, 1, values_5, 14}, words_4},
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
    {where_19, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_19, 1, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_19, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_19, 1, {3, 0, 0, 1, values_21, 10}, -1, 0, 0},
    {where_23, 4, {3, 0, 0, 1, values_22, 5}, -1, 0, 0},
    {where_26, 4, {3, 0, 0, 1, values_24, 7}, -1, 0, 0},
    {where_28, 2, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_30, 4, {3, 0, 0, 1, values_29, 6}, -1, 0, 0},
    {where_32, 4, {3, 0, 0, 1, values_31, 6}, -1, 0, 0},
    {where_35, 2, {3, 0, 0, 1, values_33, 18}, -1, 0, 0},
    {where_37, 3, {3, 0, 0, 1, values_36, 17}, -1, 0, 0},
    {where_39, 2, {3, 0, 0, 1, values_38, 29}, -1, 0, 0},
    {where_41, 3, {3, 0, 0, 1, values_40, 23}, -1, 0, 0},
    {where_43, 4, {1, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_45, 3, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_48, 1, {3, 0, 0, 1, values_46, 1}, -1, 0, 0},
    {where_48, 1, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_49, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_51, 2, {3, 0, 0, 1, values_50, 19}, -1, 0, 0},
    {where_53, 3, {3, 0, 0, 1, values_52, 11}, -1, 0, 0},
    {where_55, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_55, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_57, 2, {3, 0, 0, 1, values_56, 5}, -1, 0, 0},
    {where_57, 2, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_59, 2, {3, 0, 0, 1, values_58, 3}, -1, 0, 0},
    {where_61, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_61, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_62, 2, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_64, 2, {3, 0, 0, 1, values_63, 37}, -1, 0, 0},
    {where_66, 2, {3, 0, 0, 1, values_65, 32}, -1, 0, 0},
    {where_69, 2, {3, 0, 0, 1, values_67, 23}, -1, 0, 0},
    {where_71, 2, {3, 0, 0, 1, values_70, 31}, -1, 0, 0},
    {where_73, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_73, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_73, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_73, 1, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_73, 1, {3, 0, 0, 1, values_74, 28}, -1, 0, 0},
    {where_76, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_76, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_76, 1, {3, 0, 0, 1, values_77, 14}, -1, 0, 0},
    {where_79, 2, {3, 0, 0, 1, values_78, 11}, -1, 0, 0},
    {where_81, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_81, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_81, 1, {3, 0, 0, 1, values_82, 17}, -1, 0, 0},
    {where_84, 2, {3, 0, 0, 1, values_83, 12}, -1, 0, 0},
    {where_86, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_86, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_87, 2, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_87, 2, {3, 0, 0, 1, values_88, 21}, -1, 0, 0},
    {where_89, 2, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_89, 2, {3, 0, 0, 1, values_90, 21}, -1, 0, 0},
    {where_92, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_92, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_92, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_92, 1, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_92, 1, {3, 0, 0, 1, values_93, 12}, -1, 0, 0},
    {where_95, 2, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_97, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_97, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_98, 2, {5, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_98, 2, {3, 0, 0, 1, values_99, 6}, -1, 0, 0},
    {where_100, 2, {5, 0, 0, 1, values_54, 1}, -1, 0, 0},
    {where_100, 2, {3, 0, 0, 1, values_99, 6}, -1, 0, 0},
    {where_101, 2, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_101, 2, {3, 0, 0, 1, values_102, 6}, -1, 0, 0},
    {where_104, 1, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_104, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_104, 1, {3, 0, 0, 1, values_105, 1}, -1, 0, 0},
    {where_107, 1, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_107, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_107, 1, {3, 0, 0, 1, values_108, 2}, -1, 0, 0},
    {where_110, 2, {3, 0, 0, 1, values_109, 1}, -1, 0, 0},
    {where_111, 2, {3, 0, 0, 1, values_109, 1}, -1, 0, 0},
    {where_112, 3, {3, 0, 0, 1, values_105, 1}, -1, 0, 0},
    {where_113, 1, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_114, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_114, 1, {4, 0, 0, 1, values_25, 1}, -1, 0, 0},
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
    "groups",
    "piece",
    "step",
    "rounds",
};
static const ap_tile_form forms[] = {
    {12, 0, parts_115, 13},
    {-1, 0, parts_116, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"layernorm/layernorm_bwd.cu.j2", where_117, 3, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd_cluster.cu.j2", where_118, 3, ap_render_layernorm_bwd_cluster},
    {"layernorm/layernorm_bwd_dx.cu.j2", where_119, 1, ap_render_layernorm_bwd_dx},
    {"layernorm/layernorm_bwd_gang.cu.j2", where_121, 2, ap_render_layernorm_bwd_gang},
    {"layernorm/layernorm_bwd_joined.cu.j2", where_122, 2, ap_render_layernorm_bwd_joined},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_123, 3, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_odd_cluster.cu.j2", where_124, 3, ap_render_layernorm_bwd_odd_cluster},
    {"layernorm/layernorm_bwd_params.cu.j2", where_113, 1, ap_render_layernorm_bwd_params},
    {"layernorm/layernorm_bwd_reduce.cu.j2", where_114, 1, ap_render_layernorm_bwd_reduce},
    {"layernorm/layernorm_fwd.cu.j2", where_126, 4, ap_render_layernorm_fwd},
    {"layernorm/layernorm_fwd_apart.cu.j2", where_127, 2, ap_render_layernorm_fwd_apart},
    {"layernorm/layernorm_fwd_bulk.cu.j2", where_128, 2, ap_render_layernorm_fwd_bulk},
    {"layernorm/layernorm_fwd_cluster.cu.j2", where_129, 3, ap_render_layernorm_fwd_cluster},
    {"layernorm/layernorm_fwd_direct.cu.j2", where_130, 2, ap_render_layernorm_fwd_direct},
    {"layernorm/layernorm_fwd_long.cu.j2", where_131, 2, ap_render_layernorm_fwd_long},
    {"layernorm/layernorm_fwd_odd.cu.j2", where_132, 2, ap_render_layernorm_fwd_odd},
    {"layernorm/layernorm_fwd_packed.cu.j2", where_133, 2, ap_render_layernorm_fwd_packed},
    {"layernorm/layernorm_fwd_pairs.cu.j2", where_134, 3, ap_render_layernorm_fwd_pairs},
    {"layernorm/layernorm_fwd_pieces.cu.j2", where_135, 2, ap_render_layernorm_fwd_pieces},
    {"layernorm/layernorm_fwd_pieces.cu.j2", where_136, 3, ap_render_layernorm_fwd_pieces},
    {"layernorm/layernorm_fwd_whole.cu.j2", where_137, 2, ap_render_layernorm_fwd_whole},
    {"layernorm/layernorm_fwd_wide.cu.j2", where_138, 2, ap_render_layernorm_fwd_wide},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_139, 3, 1, 90, 90, 90, "sm_90a"},
    {where_141, 4, 1, 90, 90, 90, "sm_90a"},
    {where_143, 4, 1, 90, 90, 90, "sm_90a"},
    {where_144, 3, 1, 90, 90, 90, "sm_90a"},
    {where_145, 3, 1, 90, 90, 90, "sm_90a"},
    {where_147, 1, 1, 90, 90, 90, "sm_90a"},
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
    "layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd|_packed|_bulk|_cut|_direct|_wide|_pairs|_pieces|_whole|_apart|_gang|_split|_joined]_cols<32|64|96|128|160|192|224|256|320|384|448|512|640|768|896|1024|1280|1536|1792|1984|2048|2560|3072|3584|3968|4096|5120|6144|7168|8192|10240|12288|14336|16384|20480|24576|28672|32768|36864|40960|49152|57344|65536|131072>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80|90>",
    axes, 7, 6,
    0x2000000000,
    {0x400000000, 0x200000000, 0x20000000, 0x800, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0xfu, ~0x3ffffu, ~0x3u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 81,
    14, fields, forms, 2,
    0, 0, &ap_tiles_layernorm, 0, 0, 0,
    templates, 22, routes, 14,
    0, 0,
};
