/* Lookups in the tables of targets and devices. */
#include "press/target.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"

const ap_target *ap_find_target(const char *name) {
  for (size_t i = 0; i < ap_targets_count; ++i)
    if (strcmp(ap_targets[i].name, name) == 0)
      return &ap_targets[i];
  return NULL;
}

void ap_print_targets(char *text, size_t size) {
  size_t used = 0;
  for (size_t i = 0; i < ap_targets_count && used < size; ++i)
    used += (size_t)snprintf(text + used, size - used, "%s%s",
                             i == 0                      ? ""
                             : i == ap_targets_count - 1 ? " and "
                                                         : ", ",
                             ap_targets[i].name);
}

const ap_route *ap_next_route(const ap_variant *variant, int capability, const ap_route *last) {
  const ap_family *family = ap_families[variant->family];
  const ap_route *run = last == NULL ? family->routes : last + 1;
  int holds = last != NULL && last->alike > 1; /* of what `last` was looked at for */
  while (run < family->routes + family->route_count) {
    const ap_route *end = run + run->alike;
    if (holds || ap_sets_hold(run->where, run->where_count, variant))
      for (; run < end; ++run)
        if (run->capability_min <= capability && capability <= run->capability_max)
          return run;
    run = end;
    holds = 0;
  }
  return NULL;
}

const char *ap_target_for(const ap_variant *variant, int capability) {
  const int32_t arch = variant->axis[ap_families[variant->family]->arch_axis];
  const ap_route *run = NULL;
  while ((run = ap_next_route(variant, capability, run)) != NULL)
    if (run->arch == arch)
      return run->target;
  return NULL;
}

/** 1 where any family runs on a device. */
static int runs_anything(int capability) {
  for (size_t f = 0; f < ap_families_count; ++f)
    for (int32_t i = 0; i < ap_families[f]->route_count; ++i)
      if (ap_families[f]->routes[i].capability_min <= capability &&
          capability <= ap_families[f]->routes[i].capability_max)
        return 1;
  return 0;
}

attnpress_status ap_check_capability(int capability) {
  RETURN_IF(capability < ap_capability_min, ATTNPRESS_NOT_SUPPORTED,
            "the device has compute capability %d.%d; %d.%d or newer is needed", capability / 10,
            capability % 10, ap_capability_min / 10, ap_capability_min % 10);
  RETURN_IF(!runs_anything(capability), ATTNPRESS_NOT_SUPPORTED,
            "the device has compute capability %d.%d, which this version does not know; it knows "
            "%s",
            capability / 10, capability % 10, ap_capability_list);
  return ATTNPRESS_OK;
}

/** The arch whose kernels a target runs and which may count on no more shared memory than it has: of
 * several the one with the most; 0: none. */
static int arch_within(const ap_target *target) {
  const ap_arch *best = NULL;
  for (const ap_arch *arch = ap_archs; arch < ap_archs + ap_archs_count; ++arch)
    if (arch->arch <= target->capability && arch->only == NULL &&
        arch->smem_per_block_bytes <= target->smem_per_block_bytes &&
        (best == NULL || best->smem_per_block_bytes < arch->smem_per_block_bytes))
      best = arch;
  return best != NULL ? best->arch : 0;
}

attnpress_status ap_check_target(const ap_variant *variant, const ap_tile *tile,
                                 const char *target) {
  const ap_target *found = ap_find_target(target);
  char names[128], stem[AP_STEM_MAX];
  ap_print_targets(names, sizeof names);
  RETURN_IF(found == NULL, ATTNPRESS_INVALID_ARGUMENT, "target \"%.*s\" is unknown: targets are %s",
            AP_TARGET_MAX, target, names);
  FORWARD_IF(ap_variant_print(variant, stem));
  const ap_arch *arch = ap_find_arch(variant->axis[ap_families[variant->family]->arch_axis]);
  RETURN_IF(arch == NULL || arch->arch > found->capability, ATTNPRESS_INVALID_ARGUMENT,
            "%s cannot be compiled for %s, which is older than its arch", stem, target);
  RETURN_IF(arch->only != NULL && strcmp(target, arch->only) != 0, ATTNPRESS_INVALID_ARGUMENT,
            "%s cannot be compiled for %s: the instructions of sm%d kernels exist on %s alone",
            stem, target, arch->arch, arch->only);
  RETURN_IF(
      tile->smem_bytes > found->smem_per_block_bytes, ATTNPRESS_NOT_SUPPORTED,
      "%s takes %d bytes of shared memory and a thread block on %s has %d; kernels whose name "
      "ends in sm%d stay within that",
      stem, (int)tile->smem_bytes, target, found->smem_per_block_bytes, arch_within(found));
  return ATTNPRESS_OK;
}
