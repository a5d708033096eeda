/* What cubins can be compiled for, and which architecture's kernels run on which device: lookups in
 * the tables of generated/targets.c and of the families. */
#pragma once
#include "press/registry.h"

typedef struct ap_target {
  const char *name; /* "sm_90" */
  int capability;   /* the least that it runs on */
  int smem_per_block_bytes;
} ap_target;

typedef struct ap_arch {
  int arch;                 /* of stems: 90 */
  int smem_per_block_bytes; /* that its kernels may count on */
  const char *only;         /* the target that alone has its instructions; NULL: any new enough */
} ap_arch;

/* generated/targets.c */
extern const ap_target ap_targets[];
extern const size_t ap_targets_count;
extern const ap_arch ap_archs[];
extern const size_t ap_archs_count;
extern const int ap_capability_min;     /* of all devices that anything runs on */
extern const char ap_capability_list[]; /* "8.x, 9.0 and 10.x" */

/** "sm_80, sm_86, ... and sm_120". */
void ap_print_targets(char *text, size_t size);
/** The row of a target; NULL where it is unknown. */
const ap_target *ap_find_target(const char *name);
/** "sm_80, sm_86, ... and sm_120". */
void ap_print_targets(char *text, size_t size);
/** What kernels of a stem's arch may count on; NULL where it is unknown. */
const ap_arch *ap_find_arch(int arch);
/** How devices of a capability run a variant, whatever its arch is now: the row behind `last`, or
 * the first where that is NULL; best first; NULL: there is no other. */
const ap_route *ap_next_route(const ap_variant *variant, int capability, const ap_route *last);
/** The target of a variant, with its arch, on a device; NULL: the device does not run it. */
const char *ap_target_for(const ap_variant *variant, int capability);
/** NOT_SUPPORTED, naming device and requirement, where nothing runs on the device. */
attnpress_status ap_check_capability(int capability);
/** Whether a variant with this tile can be compiled for a target: INVALID_ARGUMENT where it is
 * unknown, too old or without the instructions, NOT_SUPPORTED where its shared memory is too small.
 */
attnpress_status ap_check_target(const ap_variant *variant, const ap_tile *tile,
                                 const char *target);
