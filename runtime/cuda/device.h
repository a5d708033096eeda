/* The devices that plans are made for without one. */
#pragma once
#include "cuda/driver.h"

/** The numbers of a device that runs a target's cubins, the largest of its kind; INVALID_ARGUMENT
 * where the target is unknown. */
attnpress_status ap_device_of_target(const char *target, ap_device *device);

/** Whether a device of compute capability 9.0 surely has room for a cluster of so many thread
 * blocks, up to 16. */
int ap_cluster_fits(const ap_device *device, int32_t cluster);
