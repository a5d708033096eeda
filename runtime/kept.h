/* Calls that ran, kept as they were launched: argument blocks with their tensor maps, shapes and
 * kernels. A later call that gives the same at other addresses (given.h) copies the blocks and puts
 * its addresses in, with no check and no plan of its own.
 *
 * Which words of a block hold an address nobody has written down: the call is filled a second time with
 * each of its addresses at a distance of its own, and a word that is as far from the first as one of
 * them is that address, and so much beyond it. A call with a word that differs in any other way is not
 * kept. So that this holds for other addresses, too, what functions of an operation look at of an
 * address is its alignment, whether it is there and, where `give` says so, whether it is another's. */
#pragma once
#include "call.h"

/** How a launch of a plan is launched. */
ap_launch_shape ap_shape_of(const ap_launch *launch, const ap_device *device);

typedef struct ap_kept_call ap_kept_call;

/** The workspace that a call needs. */
size_t ap_kept_workspace_bytes(const ap_kept_call *kept);
/** Launches a call that is kept, at the addresses that are given now. Its context is current. */
attnpress_status ap_kept_launch(const ap_kept_call *kept, const ap_place *at,
                                const ap_given *given);
/** Keeps a call that has run by a plan, its kernels and maps, if it can be. */
void ap_keep(const ap_place *at, const ap_operation *operation, const void *args,
             const ap_given *given, const ap_launches *plan, const ap_bound *const *bound,
             const ap_maps *maps);
