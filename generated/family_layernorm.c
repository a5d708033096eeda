/* Written by `python -m generator` from generator/layernorm/family.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_dx(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_gang(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_bwd_odd(ap_text *out, const ap_render_input *in);
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
void ap_render_layernorm_fwd_gathered(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_long(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_moved(ap_text *out, const ap_render_input *in);
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
static const ap_word words_4[] = {{"aligned", "", 0}, {"odd", "_odd", 1}, {"packed", "_packed", 2}, {"bulk", "_bulk", 3}, {"cut", "_cut", 4}, {"direct", "_direct", 5}, {"wide", "_wide", 6}, {"pairs", "_pairs", 7}, {"pieces", "_pieces", 8}, {"whole", "_whole", 9}, {"apart", "_apart", 10}, {"gang", "_gang", 11}, {"split", "_split", 12}, {"added", "_added", 13}, {"edged", "_edged", 14}, {"sorted", "_sorted", 15}, {"short", "_short", 16}, {"gangsum", "_gangsum", 17}, {"splitsum", "_splitsum", 18}, {"summed", "_summed", 19}, {"ringed", "_ringed", 20}, {"gathered", "_gathered", 21}, {"shifted", "_shifted", 22}, {"moved", "_moved", 23}};
static const int32_t values_5[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
static const int32_t values_6[] = {8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 25088, 28672, 32768, 36864, 40960, 49152, 57344, 65536, 131072};
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
static const int32_t values_21[] = {10240, 12288, 14336, 16384, 20480, 24576, 25088, 28672, 32768, 36864, 40960, 49152, 57344, 65536};
static const int32_t values_22[] = {10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864, 40960, 49152, 57344, 65536};
static const int32_t values_23[] = {3};
static const ap_set where_24[] = {{2, 0, 0, 1, values_18, 1}, {5, 0, 0, 1, values_23, 1}};
static const int32_t values_25[] = {32768, 40960, 49152, 57344, 65536};
static const ap_set where_26[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_27[] = {12288, 16384, 24576, 32768, 40960, 49152, 65536};
static const ap_set where_28[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_29[] = {57344};
static const ap_set where_30[] = {{3, 0, 0, 1, values_29, 1}, {2, 0, 0, 1, values_12, 1}};
static const int32_t values_31[] = {40960};
static const ap_set where_32[] = {{3, 0, 0, 1, values_31, 1}, {2, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_33[] = {16384, 24576, 32768, 49152, 65536, 131072};
static const ap_set where_34[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_35[] = {12288, 16384, 20480, 24576, 32768, 40960, 49152, 65536};
static const ap_set where_36[] = {{6, 0, 0, 1, values_11, 1}, {2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_37[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
static const int32_t values_38[] = {80};
static const ap_set where_39[] = {{6, 0, 0, 1, values_38, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_40[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
static const ap_set where_41[] = {{6, 0, 0, 1, values_38, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_42[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 131072};
static const ap_set where_43[] = {{6, 0, 0, 1, values_38, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_44[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 6144, 7168, 8192, 10240, 12288, 16384, 131072};
static const ap_set where_45[] = {{6, 0, 0, 1, values_38, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_46[] = {7168};
static const ap_set where_47[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_46, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_48[] = {28672};
static const ap_set where_49[] = {{2, 0, 0, 1, values_12, 1}, {0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_48, 1}};
static const int32_t values_50[] = {131072};
static const int32_t values_51[] = {2, 3, 4};
static const ap_set where_52[] = {{0, 0, 0, 1, values_51, 3}};
static const ap_set where_53[] = {{2, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_54[] = {32, 64, 96, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192};
static const ap_set where_55[] = {{2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_38, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_56[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_57[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_38, 1}};
static const int32_t values_58[] = {32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_59[] = {{2, 0, 0, 1, values_15, 1}, {0, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_38, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_60[] = {2};
static const ap_set where_61[] = {{2, 0, 0, 1, values_60, 1}};
static const int32_t values_62[] = {10240};
static const ap_set where_63[] = {{2, 0, 0, 1, values_60, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_64[] = {1024, 4096, 5120};
static const ap_set where_65[] = {{2, 0, 0, 1, values_60, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_66[] = {3, 4};
static const ap_set where_67[] = {{2, 0, 0, 1, values_66, 2}};
static const int32_t values_68[] = {20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_69[] = {{2, 0, 0, 1, values_23, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_23, 1}};
static const int32_t values_70[] = {12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_71[] = {4};
static const ap_set where_72[] = {{2, 0, 0, 1, values_71, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_23, 1}};
static const int32_t values_73[] = {128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_74[] = {{2, 0, 0, 1, values_23, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_75[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_76[] = {{2, 0, 0, 1, values_23, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_77[] = {1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_78[] = {{2, 0, 0, 1, values_71, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_79[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536};
static const ap_set where_80[] = {{2, 0, 0, 1, values_71, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_81[] = {19, 20};
static const ap_set where_82[] = {{2, 0, 0, 1, values_81, 2}};
static const int32_t values_83[] = {20};
static const ap_set where_84[] = {{2, 0, 0, 1, values_83, 1}};
static const int32_t values_85[] = {28672, 32768, 40960, 49152, 57344, 65536};
static const int32_t values_86[] = {19};
static const ap_set where_87[] = {{2, 0, 0, 1, values_86, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_88[] = {{2, 0, 0, 1, values_86, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_89[] = {5};
static const ap_set where_90[] = {{2, 0, 0, 1, values_89, 1}};
static const ap_set where_91[] = {{2, 0, 0, 1, values_89, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_92[] = {896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240};
static const int32_t values_93[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240};
static const ap_set where_94[] = {{2, 0, 0, 1, values_89, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_23, 1}};
static const int32_t values_95[] = {512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864};
static const ap_set where_96[] = {{2, 0, 0, 1, values_89, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_97[] = {14};
static const ap_set where_98[] = {{2, 0, 0, 1, values_97, 1}};
static const ap_set where_99[] = {{2, 0, 0, 1, values_97, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_100[] = {192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const int32_t values_101[] = {256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768, 36864, 40960, 49152, 57344, 65536};
static const ap_set where_102[] = {{2, 0, 0, 1, values_97, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_103[] = {192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_104[] = {{2, 0, 0, 1, values_97, 1}, {1, 0, 0, 1, values_12, 1}};
static const int32_t values_105[] = {7};
static const ap_set where_106[] = {{2, 0, 0, 1, values_105, 1}};
static const int32_t values_107[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768};
static const int32_t values_108[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448};
static const ap_set where_109[] = {{2, 0, 0, 1, values_105, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_110[] = {8};
static const ap_set where_111[] = {{2, 0, 0, 1, values_110, 1}};
static const int32_t values_112[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280};
static const int32_t values_113[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512};
static const ap_set where_114[] = {{2, 0, 0, 1, values_110, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_115[] = {9, 13};
static const ap_set where_116[] = {{2, 0, 0, 1, values_115, 2}};
static const int32_t values_117[] = {1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const int32_t values_118[] = {9};
static const ap_set where_119[] = {{2, 0, 0, 1, values_118, 1}, {4, 0, 0, 1, values_20, 2}};
static const int32_t values_120[] = {1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const ap_set where_121[] = {{2, 0, 0, 1, values_118, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_23, 1}};
static const ap_set where_122[] = {{2, 0, 0, 1, values_118, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_123[] = {768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};
static const int32_t values_124[] = {320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const int32_t values_125[] = {13};
static const ap_set where_126[] = {{2, 0, 0, 1, values_125, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_127[] = {{2, 0, 0, 1, values_125, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_128[] = {21};
static const ap_set where_129[] = {{2, 0, 0, 1, values_128, 1}};
static const int32_t values_130[] = {32, 64, 96, 128, 160, 192, 224, 256, 320, 384};
static const ap_set where_131[] = {{2, 0, 0, 1, values_128, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_132[] = {16, 32, 64, 96};
static const ap_set where_133[] = {{2, 0, 0, 1, values_128, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_134[] = {10};
static const ap_set where_135[] = {{2, 0, 0, 1, values_134, 1}};
static const int32_t values_136[] = {6144, 8192, 10240, 12288, 16384, 20480, 24576, 32768};
static const int32_t values_137[] = {23};
static const ap_set where_138[] = {{2, 0, 0, 1, values_137, 1}};
static const int32_t values_139[] = {96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048};
static const int32_t values_140[] = {22};
static const ap_set where_141[] = {{2, 0, 0, 1, values_140, 1}};
static const ap_set where_142[] = {{2, 0, 0, 1, values_140, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_143[] = {128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
static const int32_t values_144[] = {256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480};
static const ap_set where_145[] = {{2, 0, 0, 1, values_140, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_146[] = {256, 320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 1984, 2048, 2560, 3072, 3584, 3968, 4096, 5120, 6144, 7168, 8192, 10240, 12288};
static const ap_set where_147[] = {{2, 0, 0, 1, values_140, 1}, {0, 0, 0, 1, values_12, 1}, {5, 0, 0, 1, values_23, 1}};
static const ap_set where_148[] = {{2, 0, 0, 1, values_140, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_149[] = {2048, 2560, 3072, 3584, 5120, 6144, 7168};
static const int32_t values_150[] = {36864};
static const ap_set where_151[] = {{2, 0, 0, 1, values_89, 1}, {3, 0, 0, 1, values_150, 1}};
static const int32_t values_152[] = {16};
static const ap_set where_153[] = {{2, 0, 0, 1, values_152, 1}};
static const int32_t values_154[] = {8, 16, 32, 64, 96, 128};
static const int32_t values_155[] = {8, 16};
static const ap_set where_156[] = {{2, 0, 0, 1, values_152, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_157[] = {6};
static const ap_set where_158[] = {{2, 0, 0, 1, values_157, 1}};
static const int32_t values_159[] = {1, 3};
static const ap_set where_160[] = {{2, 0, 0, 1, values_157, 1}, {4, 0, 0, 1, values_15, 1}};
static const int32_t values_161[] = {2, 3};
static const ap_set where_162[] = {{2, 0, 0, 1, values_157, 1}, {4, 0, 0, 1, values_60, 1}};
static const int32_t values_163[] = {20480, 24576, 28672, 32768, 49152, 65536};
static const ap_set where_164[] = {{2, 0, 0, 1, values_157, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_20, 2}};
static const int32_t values_165[] = {20480, 24576, 28672, 32768};
static const ap_set where_166[] = {{2, 0, 0, 1, values_157, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_23, 1}, {1, 0, 0, 1, values_15, 1}};
static const int32_t values_167[] = {16384, 20480, 24576};
static const ap_set where_168[] = {{2, 0, 0, 1, values_157, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_23, 1}, {1, 0, 0, 1, values_12, 1}};
static const ap_set where_169[] = {{2, 0, 0, 1, values_157, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_170[] = {10240, 12288, 14336, 16384, 24576, 32768};
static const int32_t values_171[] = {11};
static const ap_set where_172[] = {{2, 0, 0, 1, values_171, 1}};
static const int32_t values_173[] = {12};
static const ap_set where_174[] = {{2, 0, 0, 1, values_173, 1}};
static const int32_t values_175[] = {17, 18};
static const ap_set where_176[] = {{2, 0, 0, 1, values_175, 2}};
static const int32_t values_177[] = {16384};
static const ap_set where_178[] = {{2, 0, 0, 1, values_171, 1}, {0, 0, 0, 1, values_12, 1}, {5, 0, 0, 1, values_20, 2}};
static const int32_t values_179[] = {8192};
static const ap_set where_180[] = {{2, 0, 0, 1, values_171, 1}, {0, 0, 0, 1, values_12, 1}, {5, 0, 0, 1, values_23, 1}};
static const int32_t values_181[] = {16384, 20480};
static const ap_set where_182[] = {{2, 0, 0, 1, values_173, 1}, {0, 0, 0, 1, values_12, 1}, {5, 0, 0, 1, values_20, 2}};
static const int32_t values_183[] = {8192, 10240};
static const ap_set where_184[] = {{2, 0, 0, 1, values_173, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_20, 2}, {5, 0, 0, 1, values_23, 1}};
static const ap_set where_185[] = {{2, 0, 0, 1, values_173, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_186[] = {8192, 10240, 12288};
static const int32_t values_187[] = {18};
static const ap_set where_188[] = {{2, 0, 0, 1, values_187, 1}, {5, 0, 0, 1, values_20, 2}};
static const ap_set where_189[] = {{2, 0, 0, 1, values_187, 1}, {5, 0, 0, 1, values_23, 1}};
static const int32_t values_190[] = {17};
static const ap_set where_191[] = {{2, 0, 0, 1, values_190, 1}};
static const int32_t values_192[] = {11, 12, 17, 18};
static const ap_set where_193[] = {{2, 0, 0, 1, values_192, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_15, 1}};
static const ap_set where_194[] = {{2, 0, 0, 1, values_192, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_60, 1}};
static const ap_set where_195[] = {{2, 0, 0, 1, values_192, 4}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_23, 1}};
static const ap_set where_196[] = {{2, 0, 0, 1, values_171, 1}, {0, 0, 0, 1, values_15, 1}};
static const int32_t values_197[] = {4096};
static const ap_set where_198[] = {{2, 0, 0, 1, values_173, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_23, 1}};
static const ap_set where_199[] = {{2, 0, 0, 1, values_173, 1}, {0, 0, 0, 1, values_15, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_200[] = {{0, 0, 0, 1, values_23, 1}};
static const ap_set where_201[] = {{0, 0, 0, 1, values_71, 1}};
static const ap_tile_part parts_202[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"b", 2, 0, 1}, {"g", 10, 0, 1}, {"c", 4, 0, 0}, {"a", 3, 1, -1}, {"h", 5, 1, -1}, {"s", 6, 1, -1}, {"k", 7, 1, -1}, {"m", 8, 1, -1}, {"p", 9, 1, -1}, {"n", 11, 0, 0}, {"r", 13, 0, 0}};
static const ap_tile_part parts_203[] = {{"w", 0, 0, -1}, {"v", 12, 0, -1}};
static const ap_set where_204[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_38, 1}};
static const ap_set where_205[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_38, 1}, {4, 0, 0, 1, values_23, 1}};
static const ap_set where_206[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const ap_set where_207[] = {{0, 0, 0, 1, values_60, 1}};
static const int32_t values_208[] = {11, 12};
static const ap_set where_209[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_208, 2}};
static const ap_set where_210[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_38, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_211[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_140, 1}};
static const ap_set where_212[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {6, 0, 0, 1, values_11, 1}};
static const int32_t values_213[] = {16, 21};
static const ap_set where_214[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_213, 2}};
static const ap_set where_215[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_18, 1}};
static const int32_t values_216[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384, 20480, 24576, 28672, 32768};
static const ap_set where_217[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_38, 1}, {3, 0, 0, 1, values_216, 28}};
static const ap_set where_218[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_134, 1}};
static const int32_t values_219[] = {3, 4, 19, 20};
static const ap_set where_220[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_219, 4}};
static const ap_set where_221[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_11, 1}};
static const int32_t values_222[] = {5, 14, 22};
static const ap_set where_223[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_222, 3}};
static const ap_set where_224[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_192, 4}};
static const ap_set where_225[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_128, 1}};
static const ap_set where_226[] = {{0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_50, 1}};
static const ap_set where_227[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_137, 1}};
static const ap_set where_228[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_15, 1}};
static const ap_set where_229[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_60, 1}};
static const ap_set where_230[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_105, 1}, {4, 0, 0, 1, values_20, 2}};
static const ap_set where_231[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_110, 1}};
static const ap_set where_232[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_105, 1}, {4, 0, 0, 1, values_23, 1}};
static const ap_set where_233[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_115, 2}};
static const ap_set where_234[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_157, 1}};
static const ap_set where_235[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_25, 5}};
static const int32_t values_236[] = {12288, 16384, 24576};
static const ap_set where_237[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_236, 3}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_238[] = {12288};
static const ap_set where_239[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_238, 1}, {4, 0, 0, 1, values_23, 1}};
static const int32_t values_240[] = {16384, 20480, 24576, 32768, 40960, 49152, 65536, 131072};
static const ap_set where_241[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_240, 8}};
static const ap_set where_242[] = {{0, 0, 0, 1, values_15, 1}, {2, 0, 0, 1, values_15, 1}, {3, 0, 0, 1, values_17, 12}};
static const int32_t values_243[] = {2, 3, 4, 5, 7, 8, 9, 10, 6, 11, 12, 17, 18, 13, 14, 15, 16, 19, 20, 21, 22, 23};
static const ap_set where_244[] = {{2, 0, 0, 1, values_243, 22}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"norm", "norm", AP_AXIS_WORD, "", "", "of ", " norm",
     -1, {1, 0, 0, 1, values_3, 2}, words_2},
    {"rows", "rows", AP_AXIS_WORD, "", "", "of ", " rows",
     -1, {2, 0, 0, 1, values_5, 24}, words_4},
    {"cols", "columns", AP_AXIS_NUMBER, "_cols", "", "with columns ", "",
     -1, {3, 0, 0, 1, values_6, 47}, 0},
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
    {where_19, 1, {3, 0, 0, 1, values_21, 14}, -1, 0, 0},
    {where_24, 2, {3, 0, 0, 1, values_22, 13}, -1, 0, 0},
    {where_26, 4, {3, 0, 0, 1, values_25, 5}, -1, 0, 0},
    {where_28, 4, {3, 0, 0, 1, values_27, 7}, -1, 0, 0},
    {where_30, 2, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_32, 3, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_34, 4, {3, 0, 0, 1, values_33, 6}, -1, 0, 0},
    {where_36, 4, {3, 0, 0, 1, values_35, 8}, -1, 0, 0},
    {where_39, 2, {3, 0, 0, 1, values_37, 18}, -1, 0, 0},
    {where_41, 3, {3, 0, 0, 1, values_40, 17}, -1, 0, 0},
    {where_43, 2, {3, 0, 0, 1, values_42, 29}, -1, 0, 0},
    {where_45, 3, {3, 0, 0, 1, values_44, 23}, -1, 0, 0},
    {where_47, 4, {1, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_49, 3, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_52, 1, {3, 0, 0, 1, values_50, 1}, -1, 0, 0},
    {where_52, 1, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_53, 2, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_53, 2, {6, 0, 0, 1, values_38, 1}, -1, 0, 0},
    {where_55, 3, {3, 0, 0, 1, values_54, 19}, -1, 0, 0},
    {where_57, 3, {3, 0, 0, 1, values_56, 16}, -1, 0, 0},
    {where_59, 4, {3, 0, 0, 1, values_58, 14}, -1, 0, 0},
    {where_61, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_61, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_63, 2, {3, 0, 0, 1, values_62, 1}, -1, 0, 0},
    {where_63, 2, {5, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_65, 2, {3, 0, 0, 1, values_64, 3}, -1, 0, 0},
    {where_67, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_67, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_69, 3, {3, 0, 0, 1, values_68, 8}, -1, 0, 0},
    {where_72, 3, {3, 0, 0, 1, values_70, 11}, -1, 0, 0},
    {where_74, 2, {3, 0, 0, 1, values_73, 37}, -1, 0, 0},
    {where_76, 2, {3, 0, 0, 1, values_75, 32}, -1, 0, 0},
    {where_78, 2, {3, 0, 0, 1, values_77, 23}, -1, 0, 0},
    {where_80, 2, {3, 0, 0, 1, values_79, 31}, -1, 0, 0},
    {where_82, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_82, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_84, 1, {3, 0, 0, 1, values_70, 11}, -1, 0, 0},
    {where_87, 2, {3, 0, 0, 1, values_85, 6}, -1, 0, 0},
    {where_88, 2, {3, 0, 0, 1, values_70, 11}, -1, 0, 0},
    {where_90, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_90, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_91, 2, {5, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_91, 2, {3, 0, 0, 1, values_92, 17}, -1, 0, 0},
    {where_94, 3, {3, 0, 0, 1, values_93, 20}, -1, 0, 0},
    {where_96, 2, {3, 0, 0, 1, values_95, 28}, -1, 0, 0},
    {where_98, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_98, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_99, 2, {5, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_99, 2, {3, 0, 0, 1, values_100, 29}, -1, 0, 0},
    {where_102, 2, {3, 0, 0, 1, values_101, 36}, -1, 0, 0},
    {where_104, 2, {3, 0, 0, 1, values_103, 33}, -1, 0, 0},
    {where_106, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_106, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_106, 1, {3, 0, 0, 1, values_107, 14}, -1, 0, 0},
    {where_109, 2, {3, 0, 0, 1, values_108, 11}, -1, 0, 0},
    {where_111, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_111, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_111, 1, {3, 0, 0, 1, values_112, 17}, -1, 0, 0},
    {where_114, 2, {3, 0, 0, 1, values_113, 12}, -1, 0, 0},
    {where_116, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_116, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_119, 2, {3, 0, 0, 1, values_117, 21}, -1, 0, 0},
    {where_121, 3, {3, 0, 0, 1, values_120, 17}, -1, 0, 0},
    {where_122, 2, {5, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_122, 2, {3, 0, 0, 1, values_123, 21}, -1, 0, 0},
    {where_126, 2, {3, 0, 0, 1, values_124, 30}, -1, 0, 0},
    {where_127, 2, {5, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_127, 2, {3, 0, 0, 1, values_100, 29}, -1, 0, 0},
    {where_129, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_129, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_129, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_131, 2, {3, 0, 0, 1, values_130, 10}, -1, 0, 0},
    {where_133, 2, {3, 0, 0, 1, values_132, 4}, -1, 0, 0},
    {where_135, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_135, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_135, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_135, 1, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_135, 1, {3, 0, 0, 1, values_136, 8}, -1, 0, 0},
    {where_138, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_138, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_138, 1, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_138, 1, {5, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_138, 1, {3, 0, 0, 1, values_139, 19}, -1, 0, 0},
    {where_141, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_141, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_142, 2, {4, 0, 0, 1, values_20, 2}, -1, 0, 0},
    {where_142, 2, {3, 0, 0, 1, values_143, 12}, -1, 0, 0},
    {where_145, 2, {3, 0, 0, 1, values_144, 28}, -1, 0, 0},
    {where_147, 3, {3, 0, 0, 1, values_146, 25}, -1, 0, 0},
    {where_148, 3, {5, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_148, 3, {3, 0, 0, 1, values_149, 7}, -1, 0, 0},
    {where_151, 2, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_153, 1, {0, 0, 0, 1, values_15, 1}, -1, 0, 0},
    {where_153, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_153, 1, {3, 0, 0, 1, values_154, 6}, -1, 0, 0},
    {where_156, 2, {3, 0, 0, 1, values_155, 2}, -1, 0, 0},
    {where_158, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_158, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_160, 2, {5, 0, 0, 1, values_159, 2}, -1, 0, 0},
    {where_162, 2, {5, 0, 0, 1, values_161, 2}, -1, 0, 0},
    {where_164, 3, {3, 0, 0, 1, values_163, 6}, -1, 0, 0},
    {where_166, 4, {3, 0, 0, 1, values_165, 4}, -1, 0, 0},
    {where_168, 4, {3, 0, 0, 1, values_167, 3}, -1, 0, 0},
    {where_169, 2, {5, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_169, 2, {3, 0, 0, 1, values_170, 6}, -1, 0, 0},
    {where_172, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_172, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_174, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_174, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_176, 1, {0, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_176, 1, {6, 0, 0, 1, values_11, 1}, -1, 0, 0},
    {where_178, 3, {3, 0, 0, 1, values_177, 1}, -1, 0, 0},
    {where_180, 3, {3, 0, 0, 1, values_179, 1}, -1, 0, 0},
    {where_182, 3, {3, 0, 0, 1, values_181, 2}, -1, 0, 0},
    {where_184, 4, {3, 0, 0, 1, values_183, 2}, -1, 0, 0},
    {where_185, 3, {3, 0, 0, 1, values_62, 1}, -1, 0, 0},
    {where_188, 2, {3, 0, 0, 1, values_186, 3}, -1, 0, 0},
    {where_189, 2, {3, 0, 0, 1, values_179, 1}, -1, 0, 0},
    {where_191, 1, {3, 0, 0, 1, values_179, 1}, -1, 0, 0},
    {where_193, 3, {5, 0, 0, 1, values_159, 2}, -1, 0, 0},
    {where_194, 3, {5, 0, 0, 1, values_161, 2}, -1, 0, 0},
    {where_195, 3, {5, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_196, 2, {3, 0, 0, 1, values_179, 1}, -1, 0, 0},
    {where_198, 3, {3, 0, 0, 1, values_197, 1}, -1, 0, 0},
    {where_199, 3, {3, 0, 0, 1, values_183, 2}, -1, 0, 0},
    {where_200, 1, {5, 0, 0, 1, values_23, 1}, -1, 0, 0},
    {where_201, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_201, 1, {4, 0, 0, 1, values_23, 1}, -1, 0, 0},
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
    {12, 0, parts_202, 13},
    {-1, 0, parts_203, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"layernorm/layernorm_bwd.cu.j2", where_204, 3, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd.cu.j2", where_205, 4, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd_cluster.cu.j2", where_206, 3, ap_render_layernorm_bwd_cluster},
    {"layernorm/layernorm_bwd_dx.cu.j2", where_207, 1, ap_render_layernorm_bwd_dx},
    {"layernorm/layernorm_bwd_gang.cu.j2", where_209, 2, ap_render_layernorm_bwd_gang},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_210, 4, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_211, 2, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_odd_cluster.cu.j2", where_212, 3, ap_render_layernorm_bwd_odd_cluster},
    {"layernorm/layernorm_bwd_params.cu.j2", where_200, 1, ap_render_layernorm_bwd_params},
    {"layernorm/layernorm_bwd_reduce.cu.j2", where_201, 1, ap_render_layernorm_bwd_reduce},
    {"layernorm/layernorm_bwd_short.cu.j2", where_214, 2, ap_render_layernorm_bwd_short},
    {"layernorm/layernorm_bwd_sorted.cu.j2", where_215, 2, ap_render_layernorm_bwd_sorted},
    {"layernorm/layernorm_fwd.cu.j2", where_217, 4, ap_render_layernorm_fwd},
    {"layernorm/layernorm_fwd_apart.cu.j2", where_218, 2, ap_render_layernorm_fwd_apart},
    {"layernorm/layernorm_fwd_bulk.cu.j2", where_220, 2, ap_render_layernorm_fwd_bulk},
    {"layernorm/layernorm_fwd_cluster.cu.j2", where_221, 3, ap_render_layernorm_fwd_cluster},
    {"layernorm/layernorm_fwd_direct.cu.j2", where_223, 2, ap_render_layernorm_fwd_direct},
    {"layernorm/layernorm_fwd_gang.cu.j2", where_224, 2, ap_render_layernorm_fwd_gang},
    {"layernorm/layernorm_fwd_gathered.cu.j2", where_225, 2, ap_render_layernorm_fwd_gathered},
    {"layernorm/layernorm_fwd_long.cu.j2", where_226, 2, ap_render_layernorm_fwd_long},
    {"layernorm/layernorm_fwd_moved.cu.j2", where_227, 2, ap_render_layernorm_fwd_moved},
    {"layernorm/layernorm_fwd_odd.cu.j2", where_228, 2, ap_render_layernorm_fwd_odd},
    {"layernorm/layernorm_fwd_packed.cu.j2", where_229, 2, ap_render_layernorm_fwd_packed},
    {"layernorm/layernorm_fwd_pairs.cu.j2", where_230, 3, ap_render_layernorm_fwd_pairs},
    {"layernorm/layernorm_fwd_pieces.cu.j2", where_231, 2, ap_render_layernorm_fwd_pieces},
    {"layernorm/layernorm_fwd_pieces.cu.j2", where_232, 3, ap_render_layernorm_fwd_pieces},
    {"layernorm/layernorm_fwd_whole.cu.j2", where_233, 2, ap_render_layernorm_fwd_whole},
    {"layernorm/layernorm_fwd_wide.cu.j2", where_234, 2, ap_render_layernorm_fwd_wide},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_235, 3, 1, 90, 90, 90, "sm_90a"},
    {where_237, 4, 1, 90, 90, 90, "sm_90a"},
    {where_239, 4, 1, 90, 90, 90, "sm_90a"},
    {where_241, 3, 1, 90, 90, 90, "sm_90a"},
    {where_242, 3, 1, 90, 90, 90, "sm_90a"},
    {where_244, 1, 1, 90, 90, 90, "sm_90a"},
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
    "layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd|_packed|_bulk|_cut|_direct|_wide|_pairs|_pieces|_whole|_apart|_gang|_split|_added|_edged|_sorted|_short|_gangsum|_splitsum|_summed|_ringed|_gathered|_shifted|_moved]_cols<8|16|32|64|96|128|160|192|224|256|320|384|448|512|640|768|896|1024|1280|1536|1792|1984|2048|2560|3072|3584|3968|4096|5120|6144|7168|8192|10240|12288|14336|16384|20480|24576|25088|28672|32768|36864|40960|49152|57344|65536|131072>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80|90>",
    axes, 7, 6,
    0x4000000000,
    {0x800000000, 0x400000000, 0x20000000, 0x800, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0x1fu, ~0x3ffffu, ~0x3u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 135,
    14, fields, forms, 2,
    0, 0, &ap_tiles_layernorm, 0, 0, 0,
    templates, 28, routes, 14,
    0, 0,
};
