/* A caller's snippet: attnpress_score_mod from its check to the text that ends a kernel's source
 * and the arguments that go with it. */
#pragma once
#include "attention/attention.h"

enum { AP_MOD_USES_BATCH = 1, AP_MOD_USES_HEAD = 2 }; /* ap_problem.mod_mask_uses */

/** Checks the struct, its arrays, and that nothing is given that does not go with it. */
attnpress_status ap_check_score_mod(const attnpress_forward_args *args, int with_data);
/** "mod" where it has none. */
const char *ap_score_mod_name(const attnpress_score_mod *mod);
/** Checks the gradients of its buffers, which a backward call has. */
attnpress_status ap_check_dbuffers(const attnpress_backward_args *args, int with_data);
/** Bit i: the gradient of buffer i is wanted, and the score's text reads it. */
uint32_t ap_dbuffers_wanted(const attnpress_backward_args *args);
/** Fills what the problem is told of a checked one; wanted: as above, of a backward call. */
void ap_score_mod_describe(const attnpress_score_mod *mod, int backward, uint32_t wanted,
                           ap_problem *problem);
/** Writes its text, as attnpress_score_mod has it and the device headers call it, and its scope. In
 * backward kernels scores come with their derivatives. */
attnpress_status ap_score_mod_write(const attnpress_score_mod *mod, int backward, uint32_t wanted,
                                    ap_snippet *fresh);
/** Where the gradients of the buffers are added up. */
void ap_dbuffers_fill(const attnpress_backward_args *args, attnpress_mod_gradients *out);
/** What a kernel is given, of a call that has one. how: of the forward pass, whose kernels read a map;
 * NULL: there is none. */
void ap_score_mod_fill(const attnpress_forward_args *args, const ap_plan *how,
                       attnpress_mod_args *out);
/** What the map kernel is given beside the forward kernel's arguments. */
void ap_score_mod_fill_map(const ap_problem *problem, const ap_plan *how,
                           attnpress_fwd_map_args *out);
