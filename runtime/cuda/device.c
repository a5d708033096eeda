/* The devices that plans are made for without one: the largest of each kind. CUDA C++ Programming
 * Guide, "Technical Specifications per Compute Capability"; SM counts from the vendor's data sheets
 * (A100, RTX A6000, H100 SXM, B200, Thor, RTX PRO 6000). */
#include "cuda/device.h"

#include "core/error.h"
#include "press/target.h"

typedef struct typical {
  int capability; /* of a target */
  int sm_count, threads_per_sm, smem_per_sm_bytes, tma;
} typical;

static const typical devices[] = {
    {80, 108, 2048, 164 * 1024, 0}, {86, 84, 1536, 100 * 1024, 0},
    {90, 132, 2048, 228 * 1024, 1}, {100, 148, 2048, 228 * 1024, 1},
    {110, 20, 1536, 228 * 1024, 1}, {120, 188, 1536, 100 * 1024, 1},
};

attnpress_status ap_device_of_target(const char *name, ap_device *device) {
  const ap_target *target = ap_find_target(name);
  for (size_t i = 0; target != NULL && i < sizeof devices / sizeof *devices; ++i)
    if (devices[i].capability == target->capability) {
      *device = (ap_device){.capability = target->capability,
                            .sm_count = devices[i].sm_count,
                            .threads_per_sm = devices[i].threads_per_sm,
                            .smem_per_sm_bytes = devices[i].smem_per_sm_bytes,
                            .smem_per_block_bytes = target->smem_per_block_bytes,
                            .tma = devices[i].tma};
      return ATTNPRESS_OK;
    }
  char names[128];
  ap_print_targets(names, sizeof names);
  return ap_fail(ATTNPRESS_INVALID_ARGUMENT, "target \"%.32s\" is unknown: targets are %s", name,
                 names);
}

/* Clusters lie within a group of SMs, of which there are at most GROUPS_MAX with an even number of
 * SMs: of so many SMs, one of the groups has GROUP_SMS. */
int ap_cluster_fits(const ap_device *device, int32_t cluster) {
  enum { GROUP_SMS = 16, GROUPS_MAX = 8, GROUP_SMS_STEP = 2, PORTABLE_MAX = 8 };
  return cluster <= PORTABLE_MAX || device->sm_count > GROUPS_MAX * (GROUP_SMS - GROUP_SMS_STEP);
}
