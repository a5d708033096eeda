/* Written by `python -m generator` from generator/layernorm/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_dx(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_gang(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_joined(ap_text *out, const ap_render_input *in);
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
static const ap_word words_4[] = {{"aligned", "", 0}, {"odd", "_odd", 1}, {"packed", "_packed", 2}, {"bulk", "_bulk", 3}, {"cut", "_cut", 4}, {"direct", "_direct", 5}, {"wide", "_wide", 6}, {"pairs", "_pairs", 7}, {"pieces", "_pieces", 8}, {"whole", "_whole", 9}, {"apart", "_apart", 10}, {"gang", "_gang", 11}, {"split", "_split", 12}, {"joined", "_joined", 13}, {"added", "_added", 14}, {"edged", "_edged", 15}, {"sorted", "_sorted", 16}, {"short", "_short", 17}, {"gangsum", "_gangsum", 18}, {"splitsum", "_splitsum", 19}, {"summed", "_summed", 20}, {"ringed", "_ringed", 21}};
static const int32_t values_5[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21};
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
static const int32_t values_18[] = {13};
static const ap_set where_19[] = {{2, 0, 0, 1, values_18, 1}};
static const int32_t values_20[] = {1, 2};
static const int32_t values_21[] = {10240, 12288, 14336, 16384, 20480};
static const int32_t values_22[] = {16};
static const ap_set where_23[] = {{2, 0, 0, 1, values_22, 1}};
static const int32_t values_24[] = {10240, 12288, 14336, 16384, 20480, 24576, 28672, 36864, 40960, 49152, 57344, 65536};
static const int32_t values_25[] = {24576, 28672, 36864, 40960, 49152, 57344, 65536};
static const int32_t values_26[] = {3};
static const ap_set where_27[] = {{2, 0, 0, 1, values_22, 1}, {5, 0, 0, 1, values_26, 1}};
static const int32_t values_28[] = {32768, 40960, 49152, 57344, 65536};
static const ap_set where_29[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_30[] = {12288, 16384, 24576, 32768, 40960, 49152, 65536};
static const ap_set where_31[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_32[] = {57344};
static const ap_set where_33[] = {{3, 0, 0, 1, values_32, 1}, {2, 0, 0, 1, values_12, 1}};
static const int32_t values_34[] = {40960};
static const ap_set where_35[] = {{3, 0, 0, 1, values_34, 1}, {2, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_36[] = {16384, 24576, 32768, 49152, 65536, 131072};
static const ap_set where_37[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_38[] = {12288, 16384, 20480, 24576, 32768, 40960, 49152, 65536};
static const ap_set where_39[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_40[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
static const int32_t values_41[] = {80};
static const ap_set where_42[] = {{6, 0, 0, 1, values_41, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_43[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
static const ap_set where_44[] = {{6, 0, 0, 1, values_41, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_45[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 131072};
static const ap_set where_46[] = {{6, 0, 0, 1, values_41, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_47[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144, 7168, 8192, 10240, 12288, 16384, 131072};
static const ap_set where_48[] = {{6, 0, 0, 1, values_41, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_49[] = {7168};
static const ap_set where_50[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_49, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_51[] = {28672};
static const ap_set where_52[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_51, 1}};
static const int32_t values_53[] = {131072};
static const int32_t values_54[] = {2, 3, 4};
static const ap_set where_55[] = {{0, 0, 0, 1, values_54, 3}};
static const ap_set where_56[] = {{2, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_57[] = {32, 64, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192};
static const ap_set where_58[] = {{2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_41, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_59[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_60[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_41, 1}};
static const int32_t values_61[] = {32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_62[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_41, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_63[] = {2};
static const ap_set where_64[] = {{2, 0, 0, 1, values_63, 1}};
static const int32_t values_65[] = {10240};
static const ap_set where_66[] = {{2, 0, 0, 1, values_63, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_67[] = {1024, 4096, 5120};
static const ap_set where_68[] = {{2, 0, 0, 1, values_63, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_69[] = {3, 4};
static const ap_set where_70[] = {{2, 0, 0, 1, values_69, 2}};
static const int32_t values_71[] = {20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_72[] = {{2, 0, 0, 1, values_26, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_26, 1}};
static const int32_t values_73[] = {12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_74[] = {4};
static const ap_set where_75[] = {{2, 0, 0, 1, values_74, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_26, 1}};
static const int32_t values_76[] = {128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_77[] = {{2, 0, 0, 1, values_26, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_78[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_79[] = {{2, 0, 0, 1, values_26, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_80[] = {1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_81[] = {{2, 0, 0, 1, values_74, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_82[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_83[] = {{2, 0, 0, 1, values_74, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_84[] = {20, 21};
static const ap_set where_85[] = {{2, 0, 0, 1, values_84, 2}};
static const int32_t values_86[] = {21};
static const ap_set where_87[] = {{2, 0, 0, 1, values_86, 1}};
static const int32_t values_88[] = {28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_89[] = {20};
static const ap_set where_90[] = {{2, 0, 0, 1, values_89, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_91[] = {{2, 0, 0, 1, values_89, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_92[] = {5};
static const ap_set where_93[] = {{2, 0, 0, 1, values_92, 1}};
static const ap_set where_94[] = {{2, 0, 0, 1, values_92, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_95[] = {896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240};
static const int32_t values_96[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240};
static const ap_set where_97[] = {{2, 0, 0, 1, values_92, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_26, 1}};
static const int32_t values_98[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864};
static const ap_set where_99[] = {{2, 0, 0, 1, values_92, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_100[] = {15};
static const ap_set where_101[] = {{2, 0, 0, 1, values_100, 1}};
static const ap_set where_102[] = {{2, 0, 0, 1, values_100, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_103[] = {192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const int32_t values_104[] = {256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864, 40960, 49152, 57344, 65536};
static const ap_set where_105[] = {{2, 0, 0, 1, values_100, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_106[] = {192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_107[] = {{2, 0, 0, 1, values_100, 1}, {1, 0, 0, 1, values_12, 1}};
static const int32_t values_108[] = {7};
static const ap_set where_109[] = {{2, 0, 0, 1, values_108, 1}};
static const int32_t values_110[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768};
static const int32_t values_111[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448};
static const ap_set where_112[] = {{2, 0, 0, 1, values_108, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_113[] = {8};
static const ap_set where_114[] = {{2, 0, 0, 1, values_113, 1}};
static const int32_t values_115[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280};
static const int32_t values_116[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512};
static const ap_set where_117[] = {{2, 0, 0, 1, values_113, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_118[] = {9, 14};
static const ap_set where_119[] = {{2, 0, 0, 1, values_118, 2}};
static const int32_t values_120[] = {1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const int32_t values_121[] = {9};
static const ap_set where_122[] = {{2, 0, 0, 1, values_121, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_123[] = {1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const ap_set where_124[] = {{2, 0, 0, 1, values_121, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_26, 1}};
static const ap_set where_125[] = {{2, 0, 0, 1, values_121, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_126[] = {768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const int32_t values_127[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const int32_t values_128[] = {14};
static const ap_set where_129[] = {{2, 0, 0, 1, values_128, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_130[] = {{2, 0, 0, 1, values_128, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_131[] = {10};
static const ap_set where_132[] = {{2, 0, 0, 1, values_131, 1}};
static const int32_t values_133[] = {512, 1024, 2048, 4096, 6144, 8192, 10240, 12288, 16384, 20480, 24576, 32768};
static const int32_t values_134[] = {36864};
static const ap_set where_135[] = {{2, 0, 0, 1, values_92, 1}, {3, 0, 0, 1, values_134, 1}};
static const int32_t values_136[] = {17};
static const ap_set where_137[] = {{2, 0, 0, 1, values_136, 1}};
static const int32_t values_138[] = {8, 16, 32};
static const int32_t values_139[] = {8, 16};
static const ap_set where_140[] = {{2, 0, 0, 1, values_136, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_141[] = {6};
static const ap_set where_142[] = {{2, 0, 0, 1, values_141, 1}};
static const int32_t values_143[] = {1, 3};
static const ap_set where_144[] = {{2, 0, 0, 1, values_141, 1}, {4, 0, 0, 1, values_15, 1}};
static const int32_t values_145[] = {2, 3};
static const ap_set where_146[] = {{2, 0, 0, 1, values_141, 1}, {4, 0, 0, 1, values_63, 1}};
static const int32_t values_147[] = {20480, 24576, 28672, 32768, 49152, 65536};
static const ap_set where_148[] = {{2, 0, 0, 1, values_141, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_20, 2}};
static const int32_t values_149[] = {20480, 24576, 28672, 32768};
static const ap_set where_150[] = {{2, 0, 0, 1, values_141, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_26, 1}, {1, 0, 0, 1, values_15, 1}};
static const int32_t values_151[] = {16384, 20480, 24576};
static const ap_set where_152[] = {{2, 0, 0, 1, values_141, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_26, 1}, {1, 0, 0, 1, values_12, 1}};
static const ap_set where_153[] = {{2, 0, 0, 1, values_141, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_154[] = {10240, 12288, 14336, 16384, 24576, 32768};
static const int32_t values_155[] = {11};
static const ap_set where_156[] = {{2, 0, 0, 1, values_155, 1}};
static const int32_t values_157[] = {8192};
static const int32_t values_158[] = {12};
static const ap_set where_159[] = {{2, 0, 0, 1, values_158, 1}};
static const int32_t values_160[] = {4096, 8192};
static const int32_t values_161[] = {18, 19};
static const ap_set where_162[] = {{2, 0, 0, 1, values_161, 2}};
static const int32_t values_163[] = {11, 12, 18, 19};
static const ap_set where_164[] = {{2, 0, 0, 1, values_163, 4}, {0, 0, 0, 1, values_12, 1}};
static const ap_set where_165[] = {{2, 0, 0, 1, values_163, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_15, 1}};
static const ap_set where_166[] = {{2, 0, 0, 1, values_163, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_63, 1}};
static const ap_set where_167[] = {{2, 0, 0, 1, values_163, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_168[] = {4096};
static const ap_set where_169[] = {{2, 0, 0, 1, values_158, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_26, 1}};
static const ap_set where_170[] = {{2, 0, 0, 1, values_158, 1}, {0, 0, 0, 1, values_15, 1}, {5, 0, 0, 1, values_26, 1}};
static const ap_set where_171[] = {{2, 0, 0, 1, values_158, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_20, 2}};
static const ap_set where_172[] = {{0, 0, 0, 1, values_26, 1}};
static const ap_set where_173[] = {{0, 0, 0, 1, values_74, 1}};
static const ap_tile_part parts_174[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"b", 2, 0, 1}, {"g", 10, 0, 1}, {"c", 4, 0, 0}, {"a", 3, 1, -1}, {"h", 5, 1, -1}, {"s", 6, 1, -1}, {"k", 7, 1, -1}, {"m", 8, 1, -1}, {"p", 9, 1, -1}, {"n", 11, 0, 0}, {"r", 13, 0, 0}};
static const ap_tile_part parts_175[] = {{"w", 0, 0, -1}, {"v", 12, 0, -1}};
static const ap_set where_176[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_41, 1}};
static const ap_set where_177[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_41, 1}, {4, 0, 0, 1, values_26, 1}};
static const ap_set where_178[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_179[] = {{0, 0, 0, 1, values_63, 1}};
static const int32_t values_180[] = {11, 12};
static const ap_set where_181[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_180, 2}};
static const ap_set where_182[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_18, 1}};
static const ap_set where_183[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_41, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_184[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_185[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_136, 1}};
static const ap_set where_186[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_22, 1}};
static const int32_t values_187[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_188[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_41, 1}, {3, 0, 0, 1, values_187, 28}};
static const ap_set where_189[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_131, 1}};
static const int32_t values_190[] = {3, 4, 20, 21};
static const ap_set where_191[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_190, 4}};
static const ap_set where_192[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const int32_t values_193[] = {5, 15};
static const ap_set where_194[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_193, 2}};
static const ap_set where_195[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_163, 4}};
static const ap_set where_196[] = {{0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_53, 1}};
static const ap_set where_197[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_15, 1}};
static const ap_set where_198[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_63, 1}};
static const ap_set where_199[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_108, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_200[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_113, 1}};
static const ap_set where_201[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_108, 1}, {4, 0, 0, 1, values_26, 1}};
static const ap_set where_202[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_118, 2}};
static const ap_set where_203[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_141, 1}};
static const ap_set where_204[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_28, 5}};
static const int32_t values_205[] = {12288, 16384, 24576};
static const ap_set where_206[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_205, 3}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_207[] = {12288};
static const ap_set where_208[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_207, 1}, {4, 0, 0, 1, values_26, 1}};
static const int32_t values_209[] = {16384, 20480, 24576, 32768, 40960, 49152, 65536, 131072};
static const ap_set where_210[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_209, 8}};
static const ap_set where_211[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {3, 0, 0, 1, values_17, 12}};
static const int32_t values_212[] = {2, 3, 4, 5, 7, 8, 9, 10, 6, 11, 12, 18, 19, 13, 14, 15, 16, 17, 20, 21};
static const ap_set where_213[] = {{2, 0, 0, 1, values_212, 20}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"norm", "norm", AP_AXIS_WORD, "", "", "of ", " norm",
     -1, {1, 0, 0, 1, values_3, 2}, words_2},
    {"rows", "rows", AP_AXIS_WORD, "", "", "of ", " rows",
     -1, {2, 0, 0, 1, values_5, 22}, words_4},
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
    {where_19, 1, {3, 0, 0, 1, values_21, 5}, -1, 0, 0},
    {where_23, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_23, 1, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_23, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_23, 1, {3, 0, 0, 1, values_24, 12}, -1, 0, 0},
    {where_27, 2, {3, 0, 0, 1, values_25, 7}, -1, 0, 0},
    {where_29, 4, {3, 0, 0, 1, values_28, 5}, -1, 0, 0},
    {where_31, 4, {3, 0, 0, 1, values_30, 7}, -1, 0, 0},
    {where_33, 2, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_35, 3, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_37, 4, {3, 0, 0, 1, values_36, 6}, -1, 0, 0},
    {where_39, 4, {3, 0, 0, 1, values_38, 8}, -1, 0, 0},
    {where_42, 2, {3, 0, 0, 1, values_40, 18}, -1, 0, 0},
    {where_44, 3, {3, 0, 0, 1, values_43, 17}, -1, 0, 0},
    {where_46, 2, {3, 0, 0, 1, values_45, 29}, -1, 0, 0},
    {where_48, 3, {3, 0, 0, 1, values_47, 23}, -1, 0, 0},
    {where_50, 4, {1, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_52, 3, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_55, 1, {3, 0, 0, 1, values_53, 1}, -1, 0, 0},
    {where_55, 1, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_56, 2, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_56, 2, {6, 0, 0, 1, values_41, 1}, -1, 0, 0},
    {where_58, 3, {3, 0, 0, 1, values_57, 19}, -1, 0, 0},
    {where_60, 3, {3, 0, 0, 1, values_59, 16}, -1, 0, 0},
    {where_62, 4, {3, 0, 0, 1, values_61, 14}, -1, 0, 0},
    {where_64, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_64, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_66, 2, {3, 0, 0, 1, values_65, 1}, -1, 0, 0},
    {where_66, 2, {5, 0, 0, 1, values_26, 1}, -1, 0, 0},
    {where_68, 2, {3, 0, 0, 1, values_67, 3}, -1, 0, 0},
    {where_70, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_70, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_72, 3, {3, 0, 0, 1, values_71, 8}, -1, 0, 0},
    {where_75, 3, {3, 0, 0, 1, values_73, 11}, -1, 0, 0},
    {where_77, 2, {3, 0, 0, 1, values_76, 37}, -1, 0, 0},
    {where_79, 2, {3, 0, 0, 1, values_78, 32}, -1, 0, 0},
    {where_81, 2, {3, 0, 0, 1, values_80, 23}, -1, 0, 0},
    {where_83, 2, {3, 0, 0, 1, values_82, 31}, -1, 0, 0},
    {where_85, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_85, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_87, 1, {3, 0, 0, 1, values_73, 11}, -1, 0, 0},
    {where_90, 2, {3, 0, 0, 1, values_88, 6}, -1, 0, 0},
    {where_91, 2, {3, 0, 0, 1, values_73, 11}, -1, 0, 0},
    {where_93, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_93, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_94, 2, {5, 0, 0, 1, values_26, 1}, -1, 0, 0},
    {where_94, 2, {3, 0, 0, 1, values_95, 17}, -1, 0, 0},
    {where_97, 3, {3, 0, 0, 1, values_96, 20}, -1, 0, 0},
    {where_99, 2, {3, 0, 0, 1, values_98, 28}, -1, 0, 0},
    {where_101, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_101, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_102, 2, {5, 0, 0, 1, values_26, 1}, -1, 0, 0},
    {where_102, 2, {3, 0, 0, 1, values_103, 29}, -1, 0, 0},
    {where_105, 2, {3, 0, 0, 1, values_104, 36}, -1, 0, 0},
    {where_107, 2, {3, 0, 0, 1, values_106, 33}, -1, 0, 0},
    {where_109, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_109, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_109, 1, {3, 0, 0, 1, values_110, 14}, -1, 0, 0},
    {where_112, 2, {3, 0, 0, 1, values_111, 11}, -1, 0, 0},
    {where_114, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_114, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_114, 1, {3, 0, 0, 1, values_115, 17}, -1, 0, 0},
    {where_117, 2, {3, 0, 0, 1, values_116, 12}, -1, 0, 0},
    {where_119, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_119, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_122, 2, {3, 0, 0, 1, values_120, 21}, -1, 0, 0},
    {where_124, 3, {3, 0, 0, 1, values_123, 17}, -1, 0, 0},
    {where_125, 2, {5, 0, 0, 1, values_26, 1}, -1, 0, 0},
    {where_125, 2, {3, 0, 0, 1, values_126, 21}, -1, 0, 0},
    {where_129, 2, {3, 0, 0, 1, values_127, 30}, -1, 0, 0},
    {where_130, 2, {5, 0, 0, 1, values_26, 1}, -1, 0, 0},
    {where_130, 2, {3, 0, 0, 1, values_103, 29}, -1, 0, 0},
    {where_132, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_132, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_132, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_132, 1, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_132, 1, {3, 0, 0, 1, values_133, 12}, -1, 0, 0},
    {where_135, 2, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_137, 1, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_137, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_137, 1, {3, 0, 0, 1, values_138, 3}, -1, 0, 0},
    {where_140, 2, {3, 0, 0, 1, values_139, 2}, -1, 0, 0},
    {where_142, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_142, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_144, 2, {5, 0, 0, 1, values_143, 2}, -1, 0, 0},
    {where_146, 2, {5, 0, 0, 1, values_145, 2}, -1, 0, 0},
    {where_148, 3, {3, 0, 0, 1, values_147, 6}, -1, 0, 0},
    {where_150, 4, {3, 0, 0, 1, values_149, 4}, -1, 0, 0},
    {where_152, 4, {3, 0, 0, 1, values_151, 3}, -1, 0, 0},
    {where_153, 2, {5, 0, 0, 1, values_26, 1}, -1, 0, 0},
    {where_153, 2, {3, 0, 0, 1, values_154, 6}, -1, 0, 0},
    {where_156, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_156, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_156, 1, {3, 0, 0, 1, values_157, 1}, -1, 0, 0},
    {where_159, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_159, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_159, 1, {3, 0, 0, 1, values_160, 2}, -1, 0, 0},
    {where_162, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_162, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_164, 2, {3, 0, 0, 1, values_157, 1}, -1, 0, 0},
    {where_165, 3, {5, 0, 0, 1, values_143, 2}, -1, 0, 0},
    {where_166, 3, {5, 0, 0, 1, values_145, 2}, -1, 0, 0},
    {where_167, 3, {5, 0, 0, 1, values_26, 1}, -1, 0, 0},
    {where_169, 3, {3, 0, 0, 1, values_168, 1}, -1, 0, 0},
    {where_170, 3, {3, 0, 0, 1, values_168, 1}, -1, 0, 0},
    {where_171, 4, {3, 0, 0, 1, values_157, 1}, -1, 0, 0},
    {where_172, 1, {5, 0, 0, 1, values_26, 1}, -1, 0, 0},
    {where_173, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_173, 1, {4, 0, 0, 1, values_26, 1}, -1, 0, 0},
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
    {12, 0, parts_174, 13},
    {-1, 0, parts_175, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"layernorm/layernorm_bwd.cu.j2", where_176, 3, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd.cu.j2", where_177, 4, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd_cluster.cu.j2", where_178, 3, ap_render_layernorm_bwd_cluster},
    {"layernorm/layernorm_bwd_dx.cu.j2", where_179, 1, ap_render_layernorm_bwd_dx},
    {"layernorm/layernorm_bwd_gang.cu.j2", where_181, 2, ap_render_layernorm_bwd_gang},
    {"layernorm/layernorm_bwd_joined.cu.j2", where_182, 2, ap_render_layernorm_bwd_joined},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_183, 4, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_odd_cluster.cu.j2", where_184, 3, ap_render_layernorm_bwd_odd_cluster},
    {"layernorm/layernorm_bwd_params.cu.j2", where_172, 1, ap_render_layernorm_bwd_params},
    {"layernorm/layernorm_bwd_reduce.cu.j2", where_173, 1, ap_render_layernorm_bwd_reduce},
    {"layernorm/layernorm_bwd_short.cu.j2", where_185, 2, ap_render_layernorm_bwd_short},
    {"layernorm/layernorm_bwd_sorted.cu.j2", where_186, 2, ap_render_layernorm_bwd_sorted},
    {"layernorm/layernorm_fwd.cu.j2", where_188, 4, ap_render_layernorm_fwd},
    {"layernorm/layernorm_fwd_apart.cu.j2", where_189, 2, ap_render_layernorm_fwd_apart},
    {"layernorm/layernorm_fwd_bulk.cu.j2", where_191, 2, ap_render_layernorm_fwd_bulk},
    {"layernorm/layernorm_fwd_cluster.cu.j2", where_192, 3, ap_render_layernorm_fwd_cluster},
    {"layernorm/layernorm_fwd_direct.cu.j2", where_194, 2, ap_render_layernorm_fwd_direct},
    {"layernorm/layernorm_fwd_gang.cu.j2", where_195, 2, ap_render_layernorm_fwd_gang},
    {"layernorm/layernorm_fwd_long.cu.j2", where_196, 2, ap_render_layernorm_fwd_long},
    {"layernorm/layernorm_fwd_odd.cu.j2", where_197, 2, ap_render_layernorm_fwd_odd},
    {"layernorm/layernorm_fwd_packed.cu.j2", where_198, 2, ap_render_layernorm_fwd_packed},
    {"layernorm/layernorm_fwd_pairs.cu.j2", where_199, 3, ap_render_layernorm_fwd_pairs},
    {"layernorm/layernorm_fwd_pieces.cu.j2", where_200, 2, ap_render_layernorm_fwd_pieces},
    {"layernorm/layernorm_fwd_pieces.cu.j2", where_201, 3, ap_render_layernorm_fwd_pieces},
    {"layernorm/layernorm_fwd_whole.cu.j2", where_202, 2, ap_render_layernorm_fwd_whole},
    {"layernorm/layernorm_fwd_wide.cu.j2", where_203, 2, ap_render_layernorm_fwd_wide},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_204, 3, 1, 90, 90, 90, "sm_90a"},
    {where_206, 4, 1, 90, 90, 90, "sm_90a"},
    {where_208, 4, 1, 90, 90, 90, "sm_90a"},
    {where_210, 3, 1, 90, 90, 90, "sm_90a"},
    {where_211, 3, 1, 90, 90, 90, "sm_90a"},
    {where_213, 1, 1, 90, 90, 90, "sm_90a"},
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
    "layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd|_packed|_bulk|_cut|_direct|_wide|_pairs|_pieces|_whole|_apart|_gang|_split|_joined|_added|_edged|_sorted|_short|_gangsum|_splitsum|_summed|_ringed]_cols<8|16|32|64|96|128|160|192|224|256|320|384|448|512|640|768|896|1024|1280|1536|1792|1984|2048|2560|3072|3584|3968|4096|5120|6144|7168|8192|10240|12288|14336|16384|20480|24576|28672|32768|36864|40960|49152|57344|65536|131072>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80|90>",
    axes, 7, 6,
    0x4000000000,
    {0x800000000, 0x400000000, 0x20000000, 0x800, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0x1fu, ~0x3ffffu, ~0x3u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 116,
    14, fields, forms, 2,
    0, 0, &ap_tiles_layernorm, 0, 0, 0,
    templates, 26, routes, 14,
    0, 0,
};
