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
void ap_render_layernorm_fwd_cluster(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_long(ap_text *out, const ap_render_input *in);
void ap_render_layernorm_fwd_odd(ap_text *out, const ap_render_input *in);
extern const ap_tile_table ap_tiles_layernorm;

static const ap_word words_0[] = {{"fwd", "_fwd", 0}, {"bwd", "_bwd", 1}, {"bwd_dx", "_bwd_dx", 2}, {"bwd_params", "_bwd_params", 3}, {"bwd_reduce", "_bwd_reduce", 4}};
static const int32_t values_1[] = {0, 1, 2, 3, 4};
static const ap_word words_2[] = {{"layer", "", 0}, {"rms", "_rms", 1}};
static const int32_t values_3[] = {0, 1};
static const ap_word words_4[] = {{"aligned", "", 0}, {"odd", "_odd", 1}};
static const int32_t values_5[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536, 131072};
static const ap_word words_6[] = {{"fp16", "_fp16", 1}, {"bf16", "_bf16", 2}, {"fp32", "_fp32", 3}};
static const int32_t values_7[] = {1, 2, 3};
static const ap_word words_8[] = {{"fp16", "_wfp16", 1}, {"bf16", "_wbf16", 2}, {"fp32", "_wfp32", 3}};
static const int32_t values_9[] = {80, 90};
static const int32_t values_10[] = {90};
static const ap_set where_11[] = {{6, 0, 0, 1, values_10, 1}};
static const int32_t values_12[] = {0};
static const int32_t values_13[] = {12288, 16384, 24576, 32768, 49152, 65536};
static const int32_t values_14[] = {32768, 49152, 65536};
static const int32_t values_15[] = {1, 2};
static const ap_set where_16[] = {{6, 0, 0, 1, values_10, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_15, 2}};
static const int32_t values_17[] = {16384, 24576, 32768, 49152, 65536};
static const int32_t values_18[] = {1};
static const ap_set where_19[] = {{6, 0, 0, 1, values_10, 1}, {0, 0, 0, 1, values_18, 1}, {4, 0, 0, 1, values_15, 2}};
static const int32_t values_20[] = {12288, 16384, 24576, 32768, 49152};
static const int32_t values_21[] = {3};
static const ap_set where_22[] = {{6, 0, 0, 1, values_10, 1}, {0, 0, 0, 1, values_18, 1}, {4, 0, 0, 1, values_21, 1}};
static const int32_t values_23[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384};
static const int32_t values_24[] = {80};
static const ap_set where_25[] = {{6, 0, 0, 1, values_24, 1}, {0, 0, 0, 1, values_18, 1}};
static const int32_t values_26[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288};
static const ap_set where_27[] = {{6, 0, 0, 1, values_24, 1}, {0, 0, 0, 1, values_18, 1}, {4, 0, 0, 1, values_21, 1}};
static const int32_t values_28[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384, 24576, 32768, 131072};
static const ap_set where_29[] = {{6, 0, 0, 1, values_24, 1}, {0, 0, 0, 1, values_12, 1}};
static const int32_t values_30[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 131072};
static const ap_set where_31[] = {{6, 0, 0, 1, values_24, 1}, {0, 0, 0, 1, values_12, 1}, {4, 0, 0, 1, values_21, 1}};
static const int32_t values_32[] = {131072};
static const int32_t values_33[] = {2, 3, 4};
static const ap_set where_34[] = {{0, 0, 0, 1, values_33, 3}};
static const ap_set where_35[] = {{2, 0, 0, 1, values_18, 1}};
static const int32_t values_36[] = {32, 64, 96, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192};
static const int32_t values_37[] = {32, 64, 128, 256, 512, 1024, 2048, 3072, 4096, 6144, 8192};
static const ap_set where_38[] = {{2, 0, 0, 1, values_18, 1}, {0, 0, 0, 1, values_18, 1}};
static const ap_set where_39[] = {{0, 0, 0, 1, values_21, 1}};
static const int32_t values_40[] = {4};
static const ap_set where_41[] = {{0, 0, 0, 1, values_40, 1}};
static const ap_tile_part parts_42[] = {{"w", 0, 0, -1}, {"t", 1, 0, -1}, {"b", 2, 0, 1}, {"c", 4, 0, 0}, {"a", 3, 1, -1}, {"h", 5, 1, -1}, {"s", 6, 1, -1}, {"k", 7, 1, -1}, {"m", 8, 1, -1}, {"p", 9, 1, -1}, {"r", 11, 0, 0}};
static const ap_tile_part parts_43[] = {{"w", 0, 0, -1}, {"v", 10, 0, -1}};
static const ap_set where_44[] = {{0, 0, 0, 1, values_18, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_24, 1}};
static const ap_set where_45[] = {{0, 0, 0, 1, values_18, 1}, {6, 0, 0, 1, values_10, 1}};
static const int32_t values_46[] = {2};
static const ap_set where_47[] = {{0, 0, 0, 1, values_46, 1}};
static const ap_set where_48[] = {{0, 0, 0, 1, values_18, 1}, {2, 0, 0, 1, values_18, 1}};
static const int32_t values_49[] = {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384, 24576, 32768};
static const ap_set where_50[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_24, 1}, {3, 0, 0, 1, values_49, 21}};
static const ap_set where_51[] = {{0, 0, 0, 1, values_12, 1}, {6, 0, 0, 1, values_10, 1}};
static const ap_set where_52[] = {{0, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_32, 1}};
static const ap_set where_53[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_18, 1}};
static const ap_set where_54[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_14, 3}};
static const int32_t values_55[] = {12288, 16384, 24576};
static const ap_set where_56[] = {{0, 0, 0, 1, values_12, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_55, 3}, {4, 0, 0, 1, values_21, 1}};
static const int32_t values_57[] = {12288};
static const ap_set where_58[] = {{0, 0, 0, 1, values_18, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_57, 1}, {4, 0, 0, 1, values_21, 1}};
static const ap_set where_59[] = {{0, 0, 0, 1, values_18, 1}, {2, 0, 0, 1, values_12, 1}, {3, 0, 0, 1, values_17, 5}};

/* name, label, kind, token, shown before, phrase; same as, domain, words */
static const ap_axis axes[] = {
    {"pass", "pass", AP_AXIS_WORD, "", "", "in the ", " pass",
     -1, {0, 0, 0, 1, values_1, 5}, words_0},
    {"norm", "norm", AP_AXIS_WORD, "", "", "of ", " norm",
     -1, {1, 0, 0, 1, values_3, 2}, words_2},
    {"rows", "rows", AP_AXIS_WORD, "", "", "of ", " rows",
     -1, {2, 0, 0, 1, values_3, 2}, words_4},
    {"cols", "columns", AP_AXIS_NUMBER, "_cols", "", "with columns ", "",
     -1, {3, 0, 0, 1, values_5, 24}, 0},
    {"dtype", "dtype", AP_AXIS_WORD, "", "", "with dtype ", "",
     -1, {4, 0, 0, 1, values_7, 3}, words_6},
    {"params", "params", AP_AXIS_WORD, "", "", "with params ", "",
     -1, {5, 0, 0, 1, values_7, 3}, words_8},
    {"arch", "arch", AP_AXIS_NUMBER, "_sm", "sm", "on ", "",
     -1, {6, 0, 0, 1, values_9, 2}, 0},
};
/* where, must, same as, pairs */
static const ap_rule rules[] = {
    {where_11, 1, {0, 0, 0, 1, values_3, 2}, -1, 0, 0},
    {where_11, 1, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_11, 1, {3, 0, 0, 1, values_13, 6}, -1, 0, 0},
    {where_16, 3, {3, 0, 0, 1, values_14, 3}, -1, 0, 0},
    {where_19, 3, {3, 0, 0, 1, values_17, 5}, -1, 0, 0},
    {where_22, 3, {3, 0, 0, 1, values_20, 5}, -1, 0, 0},
    {where_25, 2, {3, 0, 0, 1, values_23, 18}, -1, 0, 0},
    {where_27, 3, {3, 0, 0, 1, values_26, 17}, -1, 0, 0},
    {where_29, 2, {3, 0, 0, 1, values_28, 22}, -1, 0, 0},
    {where_31, 3, {3, 0, 0, 1, values_30, 19}, -1, 0, 0},
    {where_34, 1, {3, 0, 0, 1, values_32, 1}, -1, 0, 0},
    {where_34, 1, {2, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_35, 1, {4, 0, 0, 1, values_15, 2}, -1, 0, 0},
    {where_35, 1, {3, 0, 0, 1, values_36, 12}, -1, 0, 0},
    {where_38, 2, {3, 0, 0, 1, values_37, 11}, -1, 0, 0},
    {where_39, 1, {5, 0, 0, 1, values_21, 1}, -1, 0, 0},
    {where_41, 1, {1, 0, 0, 1, values_12, 1}, -1, 0, 0},
    {where_41, 1, {4, 0, 0, 1, values_21, 1}, -1, 0, 0},
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
    "step",
    "rounds",
};
static const ap_tile_form forms[] = {
    {10, 0, parts_42, 11},
    {-1, 0, parts_43, 2},
};
/* name, where, renderer */
static const ap_template templates[] = {
    {"layernorm/layernorm_bwd.cu.j2", where_44, 3, ap_render_layernorm_bwd},
    {"layernorm/layernorm_bwd_cluster.cu.j2", where_45, 2, ap_render_layernorm_bwd_cluster},
    {"layernorm/layernorm_bwd_dx.cu.j2", where_47, 1, ap_render_layernorm_bwd_dx},
    {"layernorm/layernorm_bwd_odd.cu.j2", where_48, 2, ap_render_layernorm_bwd_odd},
    {"layernorm/layernorm_bwd_params.cu.j2", where_39, 1, ap_render_layernorm_bwd_params},
    {"layernorm/layernorm_bwd_reduce.cu.j2", where_41, 1, ap_render_layernorm_bwd_reduce},
    {"layernorm/layernorm_fwd.cu.j2", where_50, 4, ap_render_layernorm_fwd},
    {"layernorm/layernorm_fwd_cluster.cu.j2", where_51, 2, ap_render_layernorm_fwd_cluster},
    {"layernorm/layernorm_fwd_long.cu.j2", where_52, 2, ap_render_layernorm_fwd_long},
    {"layernorm/layernorm_fwd_odd.cu.j2", where_53, 2, ap_render_layernorm_fwd_odd},
};
/* where, rows alike, capabilities from and to, arch, target */
static const ap_route routes[] = {
    {where_54, 3, 1, 90, 90, 90, "sm_90a"},
    {where_56, 4, 1, 90, 90, 90, "sm_90a"},
    {where_58, 4, 1, 90, 90, 90, "sm_90a"},
    {where_59, 3, 1, 90, 90, 90, "sm_90a"},
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
    "layernorm_<fwd|bwd|bwd_dx|bwd_params|bwd_reduce>[_rms][_odd]_cols<32|64|96|128|192|256|384|512|768|1024|1536|2048|3072|4096|5120|6144|8192|12288|16384|24576|32768|49152|65536|131072>_<fp16|bf16|fp32>_<wfp16|wbf16|wfp32>_sm<80|90>",
    axes, 7, 6,
    0x400000000,
    {0x80000000, 0x40000000, 0x20000000, 0x800, 0x200, 0x80, 0x1},
    {~0x7u, ~0x1u, ~0x1u, ~0x3ffffu, ~0x3u, ~0x3u, ~0x7fu, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
    rules, 18,
    12, fields, forms, 2,
    0, 0, &ap_tiles_layernorm, 0, 0, 0,
    templates, 10, routes, 12,
    0, 0,
};
