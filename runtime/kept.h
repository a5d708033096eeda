/* What a handle remembers of the calls that it ran: nothing but these.
 *
 * A call that gives what an earlier one gave (given.h: its structs as they stand, of addresses
 * their alignment alone) is launched from that one's argument blocks, with their tensor maps,
 * shapes and kernels: they are copied, and this call's addresses put in, with no check and no plan
 * of its own. The first of such calls is only noted, so that one that never comes again costs
 * nothing; the second is kept. What is kept is read where it lies, by any number of threads, in a
 * table of its context (core/recall.h), until another call takes its place there, or the context
 * is gone.
 *
 * Which words of a block hold an address nobody has written down: the call is filled twice more,
 * the second time with each of its addresses at a distance of its own, and a word that is as far
 * from the first as one of them is that address, and so much beyond it. A call with a word that
 * differs in any other way is not kept (V's pages with a table of their own, of which blocks have
 * the distance from K's), nor one of another version of the structs, one of a handle that checks,
 * or one whose operation has no `give`: these are checked and planned each time.
 *
 * So that all this holds for other addresses, too, what functions of an operation look at of an
 * address is its alignment, whether it is there and, where `give` says so, whether it is
 * another's. */
#pragma once
#include "call.h"

/** How a launch of a plan is launched. */
ap_launch_shape ap_shape_of(const ap_launch *launch, const ap_device *device);

typedef struct ap_kept_call ap_kept_call;

/** What came of calls that gave the same. */
int ap_kept_came(const ap_kept_call *kept);
/** The workspace that a call needs. */
size_t ap_kept_workspace_bytes(const ap_kept_call *kept);
/** Launches a call that is kept, at the addresses that are given now. Its context is current. */
attnpress_status ap_kept_launch(const ap_kept_call *kept, const ap_place *at,
                                const ap_given *given);
/** Notes that a call has run by a plan, its kernels and maps; keeps it if it is the second, and can be
 * kept. workspace: that it ran with, the caller's or a lender's */
void ap_keep(const ap_place *at, const ap_operation *operation, const void *args,
             const ap_given *given, void *workspace, const ap_launches *plan,
             const ap_bound *const *bound, const ap_maps *maps);
