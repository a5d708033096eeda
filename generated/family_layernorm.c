/* Written by `python -m generator` from generator/layernorm/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_dx(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_gang(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_odd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_odd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_params(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_reduce(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_short(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_sorted(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_apart(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_bulk(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_direct(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_gang(ap_text *out, const ap_render_input *in);
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
static const ap_word words_4[] = {{"aligned", "", 0}, {"odd", "_odd", 1}, {"packed", "_packed", 2}, {"bulk", "_bulk", 3}, {"cut", "_cut", 4}, {"direct", "_direct", 5}, {"wide", "_wide", 6}, {"pairs", "_pairs", 7}, {"pieces", "_pieces", 8}, {"whole", "_whole", 9}, {"apart", "_apart", 10}, {"gang", "_gang", 11}, {"split", "_split", 12}, {"added", "_added", 13}, {"edged", "_edged", 14}, {"sorted", "_sorted", 15}, {"short", "_short", 16}, {"gangsum", "_gangsum", 17}, {"splitsum", "_splitsum", 18}, {"summed", "_summed", 19}, {"ringed", "_ringed", 20}};
static const int32_t values_5[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
static const int32_t values_6[] = {8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864, 40960, 49152, 57344, 65536, 131072};
static const ap_word words_7[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}, {"fp32", "_fp32", 3}};
static const int32_t values_8[] = {1, 2, 3};
static const ap_word words_9[] = {{"fp16", "_wfp16", 1}, {"bf16", "_wbf16", 2}, {"fp32", "_wfp32", 3}};
static const int32_t values_10[] = {80, 90};
static const int32_t values_11[] = {90};
static const int32_t values_12[] = {0};
static const ap_set where_13[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}};
static const int32_t values_14[] = {12288, 16384, 20480, 24576, 32768, 40960, 49152, 57344, 65536, 131072};
static const int32_t values_15[] = {1};
static const ap_set where_16[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_15, 1}};
static const int32_t values_17[] = {10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_18[] = {15};
static const ap_set where_19[] = {{2, 0, 0, 1, values_18, 1}};
static const int32_t values_20[] = {1, 2};
static const int32_t values_21[] = {10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864, 40960, 49152, 57344, 65536};
static const int32_t values_22[] = {32768, 40960, 49152, 57344, 65536};
static const ap_set where_23[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_24[] = {12288, 16384, 24576, 32768, 40960, 49152, 65536};
static const int32_t values_25[] = {3};
static const ap_set where_26[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_27[] = {57344};
static const ap_set where_28[] = {{3, 0, 0, 1, values_27, 1}, {2, 0, 0, 1, values_12, 1}};
static const int32_t values_29[] = {40960};
static const ap_set where_30[] = {{3, 0, 0, 1, values_29, 1}, {2, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_31[] = {16384, 24576, 32768, 49152, 65536, 131072};
static const ap_set where_32[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_33[] = {12288, 16384, 20480, 24576, 32768, 40960, 49152, 65536};
static const ap_set where_34[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_35[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
static const int32_t values_36[] = {80};
static const ap_set where_37[] = {{6, 0, 0, 1, values_36, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_38[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
static const ap_set where_39[] = {{6, 0, 0, 1, values_36, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_40[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 131072};
static const ap_set where_41[] = {{6, 0, 0, 1, values_36, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_42[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144, 7168, 8192, 10240, 12288, 16384, 131072};
static const ap_set where_43[] = {{6, 0, 0, 1, values_36, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_44[] = {7168};
static const ap_set where_45[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_44, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_46[] = {28672};
static const ap_set where_47[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_46, 1}};
static const int32_t values_48[] = {131072};
static const int32_t values_49[] = {2, 3, 4};
static const ap_set where_50[] = {{0, 0, 0, 1, values_49, 3}};
static const ap_set where_51[] = {{2, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_52[] = {32, 64, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192};
static const ap_set where_53[] = {{2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_36, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_54[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_55[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_36, 1}};
static const int32_t values_56[] = {32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_57[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_36, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_58[] = {2};
static const ap_set where_59[] = {{2, 0, 0, 1, values_58, 1}};
static const int32_t values_60[] = {10240};
static const ap_set where_61[] = {{2, 0, 0, 1, values_58, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_62[] = {1024, 4096, 5120};
static const ap_set where_63[] = {{2, 0, 0, 1, values_58, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_64[] = {3, 4};
static const ap_set where_65[] = {{2, 0, 0, 1, values_64, 2}};
static const int32_t values_66[] = {20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_67[] = {{2, 0, 0, 1, values_25, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_25, 1}};
static const int32_t values_68[] = {12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_69[] = {4};
static const ap_set where_70[] = {{2, 0, 0, 1, values_69, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_25, 1}};
static const int32_t values_71[] = {128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_72[] = {{2, 0, 0, 1, values_25, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_73[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_74[] = {{2, 0, 0, 1, values_25, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_75[] = {1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_76[] = {{2, 0, 0, 1, values_69, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_77[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_78[] = {{2, 0, 0, 1, values_69, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_79[] = {19, 20};
static const ap_set where_80[] = {{2, 0, 0, 1, values_79, 2}};
static const int32_t values_81[] = {20};
static const ap_set where_82[] = {{2, 0, 0, 1, values_81, 1}};
static const int32_t values_83[] = {28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_84[] = {19};
static const ap_set where_85[] = {{2, 0, 0, 1, values_84, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_86[] = {{2, 0, 0, 1, values_84, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_87[] = {5};
static const ap_set where_88[] = {{2, 0, 0, 1, values_87, 1}};
static const ap_set where_89[] = {{2, 0, 0, 1, values_87, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_90[] = {896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240};
static const int32_t values_91[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240};
static const ap_set where_92[] = {{2, 0, 0, 1, values_87, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_25, 1}};
static const int32_t values_93[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864};
static const ap_set where_94[] = {{2, 0, 0, 1, values_87, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_95[] = {14};
static const ap_set where_96[] = {{2, 0, 0, 1, values_95, 1}};
static const ap_set where_97[] = {{2, 0, 0, 1, values_95, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_98[] = {192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const int32_t values_99[] = {256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864, 40960, 49152, 57344, 65536};
static const ap_set where_100[] = {{2, 0, 0, 1, values_95, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_101[] = {192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_102[] = {{2, 0, 0, 1, values_95, 1}, {1, 0, 0, 1, values_12, 1}};
static const int32_t values_103[] = {7};
static const ap_set where_104[] = {{2, 0, 0, 1, values_103, 1}};
static const int32_t values_105[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768};
static const int32_t values_106[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448};
static const ap_set where_107[] = {{2, 0, 0, 1, values_103, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_108[] = {8};
static const ap_set where_109[] = {{2, 0, 0, 1, values_108, 1}};
static const int32_t values_110[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280};
static const int32_t values_111[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512};
static const ap_set where_112[] = {{2, 0, 0, 1, values_108, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_113[] = {9, 13};
static const ap_set where_114[] = {{2, 0, 0, 1, values_113, 2}};
static const int32_t values_115[] = {1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const int32_t values_116[] = {9};
static const ap_set where_117[] = {{2, 0, 0, 1, values_116, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_118[] = {1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const ap_set where_119[] = {{2, 0, 0, 1, values_116, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_25, 1}};
static const ap_set where_120[] = {{2, 0, 0, 1, values_116, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_121[] = {768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const int32_t values_122[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const int32_t values_123[] = {13};
static const ap_set where_124[] = {{2, 0, 0, 1, values_123, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_125[] = {{2, 0, 0, 1, values_123, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_126[] = {10};
static const ap_set where_127[] = {{2, 0, 0, 1, values_126, 1}};
static const int32_t values_128[] = {512, 1024, 2048, 4096, 6144, 8192, 10240, 12288, 16384, 20480, 24576, 32768};
static const int32_t values_129[] = {36864};
static const ap_set where_130[] = {{2, 0, 0, 1, values_87, 1}, {3, 0, 0, 1, values_129, 1}};
static const int32_t values_131[] = {16};
static const ap_set where_132[] = {{2, 0, 0, 1, values_131, 1}};
static const int32_t values_133[] = {8, 16, 32};
static const int32_t values_134[] = {8, 16};
static const ap_set where_135[] = {{2, 0, 0, 1, values_131, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_136[] = {6};
static const ap_set where_137[] = {{2, 0, 0, 1, values_136, 1}};
static const int32_t values_138[] = {1, 3};
static const ap_set where_139[] = {{2, 0, 0, 1, values_136, 1}, {4, 0, 0, 1, values_15, 1}};
static const int32_t values_140[] = {2, 3};
static const ap_set where_141[] = {{2, 0, 0, 1, values_136, 1}, {4, 0, 0, 1, values_58, 1}};
static const int32_t values_142[] = {20480, 24576, 28672, 32768, 49152, 65536};
static const ap_set where_143[] = {{2, 0, 0, 1, values_136, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_20, 2}};
static const int32_t values_144[] = {20480, 24576, 28672, 32768};
static const ap_set where_145[] = {{2, 0, 0, 1, values_136, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_25, 1}, {1, 0, 0, 1, values_15, 1}};
static const int32_t values_146[] = {16384, 20480, 24576};
static const ap_set where_147[] = {{2, 0, 0, 1, values_136, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_25, 1}, {1, 0, 0, 1, values_12, 1}};
static const ap_set where_148[] = {{2, 0, 0, 1, values_136, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_149[] = {10240, 12288, 14336, 16384, 24576, 32768};
static const int32_t values_150[] = {11};
static const ap_set where_151[] = {{2, 0, 0, 1, values_150, 1}};
static const int32_t values_152[] = {12};
static const ap_set where_153[] = {{2, 0, 0, 1, values_152, 1}};
static const int32_t values_154[] = {17, 18};
static const ap_set where_155[] = {{2, 0, 0, 1, values_154, 2}};
static const int32_t values_156[] = {16384};
static const int32_t values_157[] = {11, 12};
static const ap_set where_158[] = {{2, 0, 0, 1, values_157, 2}, {0, 0, 0, 1, values_12, 1}, {5, 0, 0, 1, values_20, 2}};
static const int32_t values_159[] = {8192};
static const ap_set where_160[] = {{2, 0, 0, 1, values_157, 2}, {0, 0, 0, 1, values_12, 1}, {5, 0, 0, 1, values_25, 1}};
static const int32_t values_161[] = {11, 12, 17, 18};
static const ap_set where_162[] = {{2, 0, 0, 1, values_161, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_15, 1}};
static const ap_set where_163[] = {{2, 0, 0, 1, values_161, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_58, 1}};
static const ap_set where_164[] = {{2, 0, 0, 1, values_161, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_25, 1}};
static const ap_set where_165[] = {{2, 0, 0, 1, values_150, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_166[] = {4096};
static const ap_set where_167[] = {{2, 0, 0, 1, values_152, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_25, 1}};
static const ap_set where_168[] = {{2, 0, 0, 1, values_152, 1}, {0, 0, 0, 1, values_15, 1}, {5, 0, 0, 1, values_25, 1}};
static const ap_set where_169[] = {{2, 0, 0, 1, values_152, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_20, 2}};
static const ap_set where_170[] = {{0, 0, 0, 1, values_25, 1}};
static const ap_set where_171[] = {{0, 0, 0, 1, values_69, 1}};
static const ap_tile_part parts_172[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"b", 2, 0, 1}, {"g", 10, 0, 1}, {"c", 4, 0, 0}, {"a", 3, 1, -1}, {"h", 5, 1, -1}, {"s", 6, 1, -1}, {"k", 7, 1, -1}, {"m", 8, 1, -1}, {"p", 9, 1, -1}, {"n", 11, 0, 0}, {"r", 13, 0, 0}};
static const ap_tile_part parts_173[] = {{"w", 0, 0, -1}, {"v", 12, 0, -1}};
static const ap_set where_174[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_36, 1}};
static const ap_set where_175[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_36, 1}, {4, 0, 0, 1, values_25, 1}};
static const ap_set where_176[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_177[] = {{0, 0, 0, 1, values_58, 1}};
static const ap_set where_178[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_157, 2}};
static const ap_set where_179[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_36, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_180[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_181[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_131, 1}};
static const ap_set where_182[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_18, 1}};
static const int32_t values_183[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_184[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_36, 1}, {3, 0, 0, 1, values_183, 28}};
static const ap_set where_185[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_126, 1}};
static const int32_t values_186[] = {3, 4, 19, 20};
static const ap_set where_187[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_186, 4}};
static const ap_set where_188[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const int32_t values_189[] = {5, 14};
static const ap_set where_190[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_189, 2}};
static const ap_set where_191[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_161, 4}};
static const ap_set where_192[] = {{0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_48, 1}};
static const ap_set where_193[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_15, 1}};
static const ap_set where_194[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_58, 1}};
static const ap_set where_195[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_103, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_196[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_108, 1}};
static const ap_set where_197[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_103, 1}, {4, 0, 0, 1, values_25, 1}};
static const ap_set where_198[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_113, 2}};
static const ap_set where_199[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_136, 1}};
static const ap_set where_200[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_22, 5}};
static const int32_t values_201[] = {12288, 16384, 24576};
static const ap_set where_202[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_201, 3}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_203[] = {12288};
static const ap_set where_204[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_203, 1}, {4, 0, 0, 1, values_25, 1}};
static const int32_t values_205[] = {16384, 20480, 24576, 32768, 40960, 49152, 65536, 131072};
static const ap_set where_206[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_205, 8}};
static const ap_set where_207[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {3, 0, 0, 1, values_17, 12}};
static const int32_t values_208[] = {2, 3, 4, 5, 7, 8, 9, 10, 6, 11, 12, 17, 18, 13, 14, 15, 16, 19, 20};
static const ap_set where_209[] = {{2, 0, 0, 1, values_208, 19}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"norm", "norm", AP_AXIS_WORD, "", "", "of ", " norm",
     -1, {1, 0, 0, 1, values_3, 2}, words_2},
    {"rows", "rows", AP_AXIS_WORD, "", "", "of ", " rows",
     -1, {2, 0, 0, 1, values_5, 21}, words_4},
    {"cols", "columns", AP_AXIS_NUMBER, "_cols", "", "with columns ", "",
     -1, {3, 0, 0, 1, values_6, 46}, 0},
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
    {where_13, 2, {3, 0, 0, 1, values_14, 10}, -1, 0, 0},
    {where_16, 2, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_16, 2, {3, 0, 0, 1, values_17, 12}, -1, 0, 0},
    {where_19, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_19, 1, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_19, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_19, 1, {3, 0, 0, 1, values_21, 13}, -1, 0, 0},
    {where_23, 4, {3, 0, 0, 1, values_22, 5}, -1, 0, 0},
    {where_26, 4, {3, 0, 0, 1, values_24, 7}, -1, 0, 0},
    {where_28, 2, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_30, 3, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_32, 4, {3, 0, 0, 1, values_31, 6}, -1, 0, 0},
    {where_34, 4, {3, 0, 0, 1, values_33, 8}, -1, 0, 0},
    {where_37, 2, {3, 0, 0, 1, values_35, 18}, -1, 0, 0},
    {where_39, 3, {3, 0, 0, 1, values_38, 17}, -1, 0, 0},
    {where_41, 2, {3, 0, 0, 1, values_40, 29}, -1, 0, 0},
    {where_43, 3, {3, 0, 0, 1, values_42, 23}, -1, 0, 0},
    {where_45, 4, {1, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_47, 3, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_50, 1, {3, 0, 0, 1, values_48, 1}, -1, 0, 0},
    {where_50, 1, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_51, 2, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_51, 2, {6, 0, 0, 1, values_36, 1}, -1, 0, 0},
    {where_53, 3, {3, 0, 0, 1, values_52, 19}, -1, 0, 0},
    {where_55, 3, {3, 0, 0, 1, values_54, 16}, -1, 0, 0},
    {where_57, 4, {3, 0, 0, 1, values_56, 14}, -1, 0, 0},
    {where_59, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_59, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_61, 2, {3, 0, 0, 1, values_60, 1}, -1, 0, 0},
    {where_61, 2, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_63, 2, {3, 0, 0, 1, values_62, 3}, -1, 0, 0},
    {where_65, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_65, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_67, 3, {3, 0, 0, 1, values_66, 8}, -1, 0, 0},
    {where_70, 3, {3, 0, 0, 1, values_68, 11}, -1, 0, 0},
    {where_72, 2, {3, 0, 0, 1, values_71, 37}, -1, 0, 0},
    {where_74, 2, {3, 0, 0, 1, values_73, 32}, -1, 0, 0},
    {where_76, 2, {3, 0, 0, 1, values_75, 23}, -1, 0, 0},
    {where_78, 2, {3, 0, 0, 1, values_77, 31}, -1, 0, 0},
    {where_80, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_80, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_82, 1, {3, 0, 0, 1, values_68, 11}, -1, 0, 0},
    {where_85, 2, {3, 0, 0, 1, values_83, 6}, -1, 0, 0},
    {where_86, 2, {3, 0, 0, 1, values_68, 11}, -1, 0, 0},
    {where_88, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_88, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_89, 2, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_89, 2, {3, 0, 0, 1, values_90, 17}, -1, 0, 0},
    {where_92, 3, {3, 0, 0, 1, values_91, 20}, -1, 0, 0},
    {where_94, 2, {3, 0, 0, 1, values_93, 28}, -1, 0, 0},
    {where_96, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_96, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_97, 2, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_97, 2, {3, 0, 0, 1, values_98, 29}, -1, 0, 0},
    {where_100, 2, {3, 0, 0, 1, values_99, 36}, -1, 0, 0},
    {where_102, 2, {3, 0, 0, 1, values_101, 33}, -1, 0, 0},
    {where_104, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_104, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_104, 1, {3, 0, 0, 1, values_105, 14}, -1, 0, 0},
    {where_107, 2, {3, 0, 0, 1, values_106, 11}, -1, 0, 0},
    {where_109, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_109, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_109, 1, {3, 0, 0, 1, values_110, 17}, -1, 0, 0},
    {where_112, 2, {3, 0, 0, 1, values_111, 12}, -1, 0, 0},
    {where_114, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_114, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_117, 2, {3, 0, 0, 1, values_115, 21}, -1, 0, 0},
    {where_119, 3, {3, 0, 0, 1, values_118, 17}, -1, 0, 0},
    {where_120, 2, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_120, 2, {3, 0, 0, 1, values_121, 21}, -1, 0, 0},
    {where_124, 2, {3, 0, 0, 1, values_122, 30}, -1, 0, 0},
    {where_125, 2, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_125, 2, {3, 0, 0, 1, values_98, 29}, -1, 0, 0},
    {where_127, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_127, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_127, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_127, 1, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_127, 1, {3, 0, 0, 1, values_128, 12}, -1, 0, 0},
    {where_130, 2, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_132, 1, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_132, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_132, 1, {3, 0, 0, 1, values_133, 3}, -1, 0, 0},
    {where_135, 2, {3, 0, 0, 1, values_134, 2}, -1, 0, 0},
    {where_137, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_137, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_139, 2, {5, 0, 0, 1, values_138, 2}, -1, 0, 0},
    {where_141, 2, {5, 0, 0, 1, values_140, 2}, -1, 0, 0},
    {where_143, 3, {3, 0, 0, 1, values_142, 6}, -1, 0, 0},
    {where_145, 4, {3, 0, 0, 1, values_144, 4}, -1, 0, 0},
    {where_147, 4, {3, 0, 0, 1, values_146, 3}, -1, 0, 0},
    {where_148, 2, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_148, 2, {3, 0, 0, 1, values_149, 6}, -1, 0, 0},
    {where_151, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_151, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_153, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_153, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_155, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_155, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_158, 3, {3, 0, 0, 1, values_156, 1}, -1, 0, 0},
    {where_160, 3, {3, 0, 0, 1, values_159, 1}, -1, 0, 0},
    {where_155, 1, {3, 0, 0, 1, values_159, 1}, -1, 0, 0},
    {where_162, 3, {5, 0, 0, 1, values_138, 2}, -1, 0, 0},
    {where_163, 3, {5, 0, 0, 1, values_140, 2}, -1, 0, 0},
    {where_164, 3, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_165, 2, {3, 0, 0, 1, values_159, 1}, -1, 0, 0},
    {where_167, 3, {3, 0, 0, 1, values_166, 1}, -1, 0, 0},
    {where_168, 3, {3, 0, 0, 1, values_166, 1}, -1, 0, 0},
    {where_169, 4, {3, 0, 0, 1, values_159, 1}, -1, 0, 0},
    {where_170, 1, {5, 0, 0, 1, values_25, 1}, -1, 0, 0},
    {where_171, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_171, 1, {4, 0, 0, 1, values_25, 1}, -1, 0, 0},
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
    {12, 0, parts_172, 13},
    {-1, 0, parts_173, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"layernorm/layernorm_bwd.cu.j2", where_174, 3, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd.cu.j2", where_175, 4, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd_cluster.cu.j2", where_176, 3, ap_render_layernorm_bwd_cluster},
    {"layernorm/layernorm_bwd_dx.cu.j2", where_177, 1, ap_render_layernorm_bwd_dx},
    {"layernorm/layernorm_bwd_gang.cu.j2", where_178, 2, ap_render_layernorm_bwd_gang},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_179, 4, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_odd_cluster.cu.j2", where_180, 3, ap_render_layernorm_bwd_odd_cluster},
    {"layernorm/layernorm_bwd_params.cu.j2", where_170, 1, ap_render_layernorm_bwd_params},
    {"layernorm/layernorm_bwd_reduce.cu.j2", where_171, 1, ap_render_layernorm_bwd_reduce},
    {"layernorm/layernorm_bwd_short.cu.j2", where_181, 2, ap_render_layernorm_bwd_short},
    {"layernorm/layernorm_bwd_sorted.cu.j2", where_182, 2, ap_render_layernorm_bwd_sorted},
    {"layernorm/layernorm_fwd.cu.j2", where_184, 4, ap_render_layernorm_fwd},
    {"layernorm/layernorm_fwd_apart.cu.j2", where_185, 2, ap_render_layernorm_fwd_apart},
    {"layernorm/layernorm_fwd_bulk.cu.j2", where_187, 2, ap_render_layernorm_fwd_bulk},
    {"layernorm/layernorm_fwd_cluster.cu.j2", where_188, 3, ap_render_layernorm_fwd_cluster},
    {"layernorm/layernorm_fwd_direct.cu.j2", where_190, 2, ap_render_layernorm_fwd_direct},
    {"layernorm/layernorm_fwd_gang.cu.j2", where_191, 2, ap_render_layernorm_fwd_gang},
    {"layernorm/layernorm_fwd_long.cu.j2", where_192, 2, ap_render_layernorm_fwd_long},
    {"layernorm/layernorm_fwd_odd.cu.j2", where_193, 2, ap_render_layernorm_fwd_odd},
    {"layernorm/layernorm_fwd_packed.cu.j2", where_194, 2, ap_render_layernorm_fwd_packed},
    {"layernorm/layernorm_fwd_pairs.cu.j2", where_195, 3, ap_render_layernorm_fwd_pairs},
    {"layernorm/layernorm_fwd_pieces.cu.j2", where_196, 2, ap_render_layernorm_fwd_pieces},
    {"layernorm/layernorm_fwd_pieces.cu.j2", where_197, 3, ap_render_layernorm_fwd_pieces},
    {"layernorm/layernorm_fwd_whole.cu.j2", where_198, 2, ap_render_layernorm_fwd_whole},
    {"layernorm/layernorm_fwd_wide.cu.j2", where_199, 2, ap_render_layernorm_fwd_wide},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_200, 3, 1, 90, 90, 90, "sm_90a"},
    {where_202, 4, 1, 90, 90, 90, "sm_90a"},
    {where_204, 4, 1, 90, 90, 90, "sm_90a"},
    {where_206, 3, 1, 90, 90, 90, "sm_90a"},
    {where_207, 3, 1, 90, 90, 90, "sm_90a"},
    {where_209, 1, 1, 90, 90, 90, "sm_90a"},
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
    "layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd|_packed|_bulk|_cut|_direct|_wide|_pairs|_pieces|_whole|_apart|_gang|_split|_added|_edged|_sorted|_short|_gangsum|_splitsum|_summed|_ringed]_cols<8|16|32|64|96|128|160|192|224|256|320|384|448|512|640|768|896|1024|1280|1536|1792|1984|2048|2560|3072|3584|3968|4096|5120|6144|7168|8192|10240|12288|14336|16384|20480|24576|28672|32768|36864|40960|49152|57344|65536|131072>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80|90>",
    axes, 7, 6,
    0x4000000000,
    {0x800000000, 0x400000000, 0x20000000, 0x800, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0x1fu, ~0x3ffffu, ~0x3u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 112,
    14, fields, forms, 2,
    0, 0, &ap_tiles_layernorm, 0, 0, 0,
    templates, 25, routes, 14,
    0, 0,
};
