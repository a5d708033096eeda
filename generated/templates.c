/* Written by `python -m generator` from generator/variants.toml; do not edit. */
/* clang-format off */
#include "../runtime/press/registry.h"

void ap_render_flash_fwd_combine(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_sm80(ap_text *out, const ap_render_input *in);
void ap_render_flash_fwd_sm90(ap_text *out, const ap_render_input *in);

/* name, pass, archs from and to, renderer */
const ap_template ap_templates[] = {
    {"attention/flash_fwd_combine.cu.j2", AP_PASS_FWD_COMBINE, 80, 80, ap_render_flash_fwd_combine},
    {"attention/flash_fwd_sm80.cu.j2", AP_PASS_FWD, 80, 86, ap_render_flash_fwd_sm80},
    {"attention/flash_fwd_sm90.cu.j2", AP_PASS_FWD, 90, 90, ap_render_flash_fwd_sm90},
};
const size_t ap_templates_count = sizeof(ap_templates) / sizeof(ap_templates[0]);
