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
static const int32_t values_25[] = {32768, 40960, 49152, 57344, 65536};
static const ap_set where_26[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_27[] = {12288, 16384, 24576, 32768, 40960, 49152, 65536};
static const int32_t values_28[] = {3};
static const ap_set where_29[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_30[] = {57344};
static const ap_set where_31[] = {{3, 0, 0, 1, values_30, 1}, {2, 0, 0, 1, values_12, 1}};
static const int32_t values_32[] = {40960};
static const ap_set where_33[] = {{3, 0, 0, 1, values_32, 1}, {2, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_34[] = {16384, 24576, 32768, 49152, 65536, 131072};
static const ap_set where_35[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_36[] = {12288, 16384, 20480, 24576, 32768, 40960, 49152, 65536};
static const ap_set where_37[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_38[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
static const int32_t values_39[] = {80};
static const ap_set where_40[] = {{6, 0, 0, 1, values_39, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_41[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
static const ap_set where_42[] = {{6, 0, 0, 1, values_39, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_43[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 131072};
static const ap_set where_44[] = {{6, 0, 0, 1, values_39, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_45[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144, 7168, 8192, 10240, 12288, 16384, 131072};
static const ap_set where_46[] = {{6, 0, 0, 1, values_39, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_47[] = {7168};
static const ap_set where_48[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_47, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_49[] = {28672};
static const ap_set where_50[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_49, 1}};
static const int32_t values_51[] = {131072};
static const int32_t values_52[] = {2, 3, 4};
static const ap_set where_53[] = {{0, 0, 0, 1, values_52, 3}};
static const ap_set where_54[] = {{2, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_55[] = {32, 64, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192};
static const ap_set where_56[] = {{2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_39, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_57[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_58[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_39, 1}};
static const int32_t values_59[] = {32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_60[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_39, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_61[] = {2};
static const ap_set where_62[] = {{2, 0, 0, 1, values_61, 1}};
static const int32_t values_63[] = {10240};
static const ap_set where_64[] = {{2, 0, 0, 1, values_61, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_65[] = {1024, 4096, 5120};
static const ap_set where_66[] = {{2, 0, 0, 1, values_61, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_67[] = {3, 4};
static const ap_set where_68[] = {{2, 0, 0, 1, values_67, 2}};
static const int32_t values_69[] = {20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_70[] = {{2, 0, 0, 1, values_28, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_28, 1}};
static const int32_t values_71[] = {12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_72[] = {4};
static const ap_set where_73[] = {{2, 0, 0, 1, values_72, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_28, 1}};
static const int32_t values_74[] = {128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_75[] = {{2, 0, 0, 1, values_28, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_76[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_77[] = {{2, 0, 0, 1, values_28, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_78[] = {1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_79[] = {{2, 0, 0, 1, values_72, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_80[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_81[] = {{2, 0, 0, 1, values_72, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_82[] = {20, 21};
static const ap_set where_83[] = {{2, 0, 0, 1, values_82, 2}};
static const int32_t values_84[] = {21};
static const ap_set where_85[] = {{2, 0, 0, 1, values_84, 1}};
static const int32_t values_86[] = {28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_87[] = {20};
static const ap_set where_88[] = {{2, 0, 0, 1, values_87, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_89[] = {{2, 0, 0, 1, values_87, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_90[] = {5};
static const ap_set where_91[] = {{2, 0, 0, 1, values_90, 1}};
static const ap_set where_92[] = {{2, 0, 0, 1, values_90, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_93[] = {896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240};
static const int32_t values_94[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240};
static const ap_set where_95[] = {{2, 0, 0, 1, values_90, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_28, 1}};
static const int32_t values_96[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864};
static const ap_set where_97[] = {{2, 0, 0, 1, values_90, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_98[] = {15};
static const ap_set where_99[] = {{2, 0, 0, 1, values_98, 1}};
static const ap_set where_100[] = {{2, 0, 0, 1, values_98, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_101[] = {192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const int32_t values_102[] = {256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864, 40960, 49152, 57344, 65536};
static const ap_set where_103[] = {{2, 0, 0, 1, values_98, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_104[] = {7};
static const ap_set where_105[] = {{2, 0, 0, 1, values_104, 1}};
static const int32_t values_106[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768};
static const int32_t values_107[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448};
static const ap_set where_108[] = {{2, 0, 0, 1, values_104, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_109[] = {8};
static const ap_set where_110[] = {{2, 0, 0, 1, values_109, 1}};
static const int32_t values_111[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280};
static const int32_t values_112[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512};
static const ap_set where_113[] = {{2, 0, 0, 1, values_109, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_114[] = {9, 14};
static const ap_set where_115[] = {{2, 0, 0, 1, values_114, 2}};
static const int32_t values_116[] = {1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const int32_t values_117[] = {9};
static const ap_set where_118[] = {{2, 0, 0, 1, values_117, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_119[] = {1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const ap_set where_120[] = {{2, 0, 0, 1, values_117, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_28, 1}};
static const ap_set where_121[] = {{2, 0, 0, 1, values_117, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_122[] = {768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const int32_t values_123[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const int32_t values_124[] = {14};
static const ap_set where_125[] = {{2, 0, 0, 1, values_124, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_126[] = {{2, 0, 0, 1, values_124, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_127[] = {10};
static const ap_set where_128[] = {{2, 0, 0, 1, values_127, 1}};
static const int32_t values_129[] = {512, 1024, 2048, 4096, 6144, 8192, 10240, 12288, 16384, 20480, 24576, 32768};
static const int32_t values_130[] = {36864};
static const ap_set where_131[] = {{2, 0, 0, 1, values_90, 1}, {3, 0, 0, 1, values_130, 1}};
static const int32_t values_132[] = {17};
static const ap_set where_133[] = {{2, 0, 0, 1, values_132, 1}};
static const int32_t values_134[] = {8, 16, 32};
static const int32_t values_135[] = {8, 16};
static const ap_set where_136[] = {{2, 0, 0, 1, values_132, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_137[] = {6};
static const ap_set where_138[] = {{2, 0, 0, 1, values_137, 1}};
static const int32_t values_139[] = {1, 3};
static const ap_set where_140[] = {{2, 0, 0, 1, values_137, 1}, {4, 0, 0, 1, values_15, 1}};
static const int32_t values_141[] = {2, 3};
static const ap_set where_142[] = {{2, 0, 0, 1, values_137, 1}, {4, 0, 0, 1, values_61, 1}};
static const int32_t values_143[] = {20480, 24576, 28672, 32768, 49152, 65536};
static const ap_set where_144[] = {{2, 0, 0, 1, values_137, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_20, 2}};
static const int32_t values_145[] = {20480, 24576, 28672, 32768};
static const ap_set where_146[] = {{2, 0, 0, 1, values_137, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_28, 1}, {1, 0, 0, 1, values_15, 1}};
static const int32_t values_147[] = {16384, 20480, 24576};
static const ap_set where_148[] = {{2, 0, 0, 1, values_137, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_28, 1}, {1, 0, 0, 1, values_12, 1}};
static const ap_set where_149[] = {{2, 0, 0, 1, values_137, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_150[] = {10240, 12288, 14336, 16384, 24576, 32768};
static const int32_t values_151[] = {11};
static const ap_set where_152[] = {{2, 0, 0, 1, values_151, 1}};
static const int32_t values_153[] = {8192};
static const int32_t values_154[] = {12};
static const ap_set where_155[] = {{2, 0, 0, 1, values_154, 1}};
static const int32_t values_156[] = {4096, 8192};
static const int32_t values_157[] = {18, 19};
static const ap_set where_158[] = {{2, 0, 0, 1, values_157, 2}};
static const int32_t values_159[] = {11, 12, 18, 19};
static const ap_set where_160[] = {{2, 0, 0, 1, values_159, 4}, {0, 0, 0, 1, values_12, 1}};
static const ap_set where_161[] = {{2, 0, 0, 1, values_159, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_15, 1}};
static const ap_set where_162[] = {{2, 0, 0, 1, values_159, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_61, 1}};
static const ap_set where_163[] = {{2, 0, 0, 1, values_159, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_164[] = {4096};
static const ap_set where_165[] = {{2, 0, 0, 1, values_154, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_28, 1}};
static const ap_set where_166[] = {{2, 0, 0, 1, values_154, 1}, {0, 0, 0, 1, values_15, 1}, {5, 0, 0, 1, values_28, 1}};
static const ap_set where_167[] = {{2, 0, 0, 1, values_154, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_20, 2}};
static const ap_set where_168[] = {{0, 0, 0, 1, values_28, 1}};
static const ap_set where_169[] = {{0, 0, 0, 1, values_72, 1}};
static const ap_tile_part parts_170[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"b", 2, 0, 1}, {"g", 10, 0, 1}, {"c", 4, 0, 0}, {"a", 3, 1, -1}, {"h", 5, 1, -1}, {"s", 6, 1, -1}, {"k", 7, 1, -1}, {"m", 8, 1, -1}, {"p", 9, 1, -1}, {"n", 11, 0, 0}, {"r", 13, 0, 0}};
static const ap_tile_part parts_171[] = {{"w", 0, 0, -1}, {"v", 12, 0, -1}};
static const ap_set where_172[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_39, 1}};
static const ap_set where_173[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_39, 1}, {4, 0, 0, 1, values_28, 1}};
static const ap_set where_174[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_175[] = {{0, 0, 0, 1, values_61, 1}};
static const int32_t values_176[] = {11, 12};
static const ap_set where_177[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_176, 2}};
static const ap_set where_178[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_18, 1}};
static const ap_set where_179[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_39, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_180[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_181[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_132, 1}};
static const ap_set where_182[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_22, 1}};
static const int32_t values_183[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_184[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_39, 1}, {3, 0, 0, 1, values_183, 28}};
static const ap_set where_185[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_127, 1}};
static const int32_t values_186[] = {3, 4, 20, 21};
static const ap_set where_187[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_186, 4}};
static const ap_set where_188[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const int32_t values_189[] = {5, 15};
static const ap_set where_190[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_189, 2}};
static const ap_set where_191[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_159, 4}};
static const ap_set where_192[] = {{0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_51, 1}};
static const ap_set where_193[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_15, 1}};
static const ap_set where_194[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_61, 1}};
static const ap_set where_195[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_104, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_196[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_109, 1}};
static const ap_set where_197[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_104, 1}, {4, 0, 0, 1, values_28, 1}};
static const ap_set where_198[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_114, 2}};
static const ap_set where_199[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_137, 1}};
static const ap_set where_200[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_25, 5}};
static const int32_t values_201[] = {12288, 16384, 24576};
static const ap_set where_202[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_201, 3}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_203[] = {12288};
static const ap_set where_204[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_203, 1}, {4, 0, 0, 1, values_28, 1}};
static const int32_t values_205[] = {16384, 20480, 24576, 32768, 40960, 49152, 65536, 131072};
static const ap_set where_206[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_205, 8}};
static const ap_set where_207[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {3, 0, 0, 1, values_17, 12}};
static const int32_t values_208[] = {2, 3, 4, 5, 7, 8, 9, 10, 6, 11, 12, 18, 19, 13, 14, 15, 16, 17, 20, 21};
static const ap_set where_209[] = {{2, 0, 0, 1, values_208, 20}};

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
    {where_26, 4, {3, 0, 0, 1, values_25, 5}, -1, 0, 0},
    {where_29, 4, {3, 0, 0, 1, values_27, 7}, -1, 0, 0},
    {where_31, 2, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_33, 3, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_35, 4, {3, 0, 0, 1, values_34, 6}, -1, 0, 0},
    {where_37, 4, {3, 0, 0, 1, values_36, 8}, -1, 0, 0},
    {where_40, 2, {3, 0, 0, 1, values_38, 18}, -1, 0, 0},
    {where_42, 3, {3, 0, 0, 1, values_41, 17}, -1, 0, 0},
    {where_44, 2, {3, 0, 0, 1, values_43, 29}, -1, 0, 0},
    {where_46, 3, {3, 0, 0, 1, values_45, 23}, -1, 0, 0},
    {where_48, 4, {1, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_50, 3, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_53, 1, {3, 0, 0, 1, values_51, 1}, -1, 0, 0},
    {where_53, 1, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_54, 2, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_54, 2, {6, 0, 0, 1, values_39, 1}, -1, 0, 0},
    {where_56, 3, {3, 0, 0, 1, values_55, 19}, -1, 0, 0},
    {where_58, 3, {3, 0, 0, 1, values_57, 16}, -1, 0, 0},
    {where_60, 4, {3, 0, 0, 1, values_59, 14}, -1, 0, 0},
    {where_62, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_62, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_64, 2, {3, 0, 0, 1, values_63, 1}, -1, 0, 0},
    {where_64, 2, {5, 0, 0, 1, values_28, 1}, -1, 0, 0},
    {where_66, 2, {3, 0, 0, 1, values_65, 3}, -1, 0, 0},
    {where_68, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_68, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_70, 3, {3, 0, 0, 1, values_69, 8}, -1, 0, 0},
    {where_73, 3, {3, 0, 0, 1, values_71, 11}, -1, 0, 0},
    {where_75, 2, {3, 0, 0, 1, values_74, 37}, -1, 0, 0},
    {where_77, 2, {3, 0, 0, 1, values_76, 32}, -1, 0, 0},
    {where_79, 2, {3, 0, 0, 1, values_78, 23}, -1, 0, 0},
    {where_81, 2, {3, 0, 0, 1, values_80, 31}, -1, 0, 0},
    {where_83, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_83, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_85, 1, {3, 0, 0, 1, values_71, 11}, -1, 0, 0},
    {where_88, 2, {3, 0, 0, 1, values_86, 6}, -1, 0, 0},
    {where_89, 2, {3, 0, 0, 1, values_71, 11}, -1, 0, 0},
    {where_91, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_91, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_92, 2, {5, 0, 0, 1, values_28, 1}, -1, 0, 0},
    {where_92, 2, {3, 0, 0, 1, values_93, 17}, -1, 0, 0},
    {where_95, 3, {3, 0, 0, 1, values_94, 20}, -1, 0, 0},
    {where_97, 2, {3, 0, 0, 1, values_96, 28}, -1, 0, 0},
    {where_99, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_99, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_100, 2, {5, 0, 0, 1, values_28, 1}, -1, 0, 0},
    {where_100, 2, {3, 0, 0, 1, values_101, 29}, -1, 0, 0},
    {where_103, 2, {3, 0, 0, 1, values_102, 36}, -1, 0, 0},
    {where_105, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_105, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_105, 1, {3, 0, 0, 1, values_106, 14}, -1, 0, 0},
    {where_108, 2, {3, 0, 0, 1, values_107, 11}, -1, 0, 0},
    {where_110, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_110, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_110, 1, {3, 0, 0, 1, values_111, 17}, -1, 0, 0},
    {where_113, 2, {3, 0, 0, 1, values_112, 12}, -1, 0, 0},
    {where_115, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_115, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_118, 2, {3, 0, 0, 1, values_116, 21}, -1, 0, 0},
    {where_120, 3, {3, 0, 0, 1, values_119, 17}, -1, 0, 0},
    {where_121, 2, {5, 0, 0, 1, values_28, 1}, -1, 0, 0},
    {where_121, 2, {3, 0, 0, 1, values_122, 21}, -1, 0, 0},
    {where_125, 2, {3, 0, 0, 1, values_123, 30}, -1, 0, 0},
    {where_126, 2, {5, 0, 0, 1, values_28, 1}, -1, 0, 0},
    {where_126, 2, {3, 0, 0, 1, values_101, 29}, -1, 0, 0},
    {where_128, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_128, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_128, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_128, 1, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_128, 1, {3, 0, 0, 1, values_129, 12}, -1, 0, 0},
    {where_131, 2, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_133, 1, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_133, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_133, 1, {3, 0, 0, 1, values_134, 3}, -1, 0, 0},
    {where_136, 2, {3, 0, 0, 1, values_135, 2}, -1, 0, 0},
    {where_138, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_138, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_140, 2, {5, 0, 0, 1, values_139, 2}, -1, 0, 0},
    {where_142, 2, {5, 0, 0, 1, values_141, 2}, -1, 0, 0},
    {where_144, 3, {3, 0, 0, 1, values_143, 6}, -1, 0, 0},
    {where_146, 4, {3, 0, 0, 1, values_145, 4}, -1, 0, 0},
    {where_148, 4, {3, 0, 0, 1, values_147, 3}, -1, 0, 0},
    {where_149, 2, {5, 0, 0, 1, values_28, 1}, -1, 0, 0},
    {where_149, 2, {3, 0, 0, 1, values_150, 6}, -1, 0, 0},
    {where_152, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_152, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_152, 1, {3, 0, 0, 1, values_153, 1}, -1, 0, 0},
    {where_155, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_155, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_155, 1, {3, 0, 0, 1, values_156, 2}, -1, 0, 0},
    {where_158, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_158, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_160, 2, {3, 0, 0, 1, values_153, 1}, -1, 0, 0},
    {where_161, 3, {5, 0, 0, 1, values_139, 2}, -1, 0, 0},
    {where_162, 3, {5, 0, 0, 1, values_141, 2}, -1, 0, 0},
    {where_163, 3, {5, 0, 0, 1, values_28, 1}, -1, 0, 0},
    {where_165, 3, {3, 0, 0, 1, values_164, 1}, -1, 0, 0},
    {where_166, 3, {3, 0, 0, 1, values_164, 1}, -1, 0, 0},
    {where_167, 4, {3, 0, 0, 1, values_153, 1}, -1, 0, 0},
    {where_168, 1, {5, 0, 0, 1, values_28, 1}, -1, 0, 0},
    {where_169, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_169, 1, {4, 0, 0, 1, values_28, 1}, -1, 0, 0},
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
    {12, 0, parts_170, 13},
    {-1, 0, parts_171, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"layernorm/layernorm_bwd.cu.j2", where_172, 3, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd.cu.j2", where_173, 4, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd_cluster.cu.j2", where_174, 3, ap_render_layernorm_bwd_cluster},
    {"layernorm/layernorm_bwd_dx.cu.j2", where_175, 1, ap_render_layernorm_bwd_dx},
    {"layernorm/layernorm_bwd_gang.cu.j2", where_177, 2, ap_render_layernorm_bwd_gang},
    {"layernorm/layernorm_bwd_joined.cu.j2", where_178, 2, ap_render_layernorm_bwd_joined},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_179, 4, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_odd_cluster.cu.j2", where_180, 3, ap_render_layernorm_bwd_odd_cluster},
    {"layernorm/layernorm_bwd_params.cu.j2", where_168, 1, ap_render_layernorm_bwd_params},
    {"layernorm/layernorm_bwd_reduce.cu.j2", where_169, 1, ap_render_layernorm_bwd_reduce},
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
    "layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd|_packed|_bulk|_cut|_direct|_wide|_pairs|_pieces|_whole|_apart|_gang|_split|_joined|_added|_edged|_sorted|_short|_gangsum|_splitsum|_summed|_ringed]_cols<8|16|32|64|96|128|160|192|224|256|320|384|448|512|640|768|896|1024|1280|1536|1792|1984|2048|2560|3072|3584|3968|4096|5120|6144|7168|8192|10240|12288|14336|16384|20480|24576|28672|32768|36864|40960|49152|57344|65536|131072>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80|90>",
    axes, 7, 6,
    0x4000000000,
    {0x800000000, 0x400000000, 0x20000000, 0x800, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0x1fu, ~0x3ffffu, ~0x3u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 114,
    14, fields, forms, 2,
    0, 0, &ap_tiles_layernorm, 0, 0, 0,
    templates, 26, routes, 14,
    0, 0,
};
