/* The devices that plans are made for without one. */
#pragma once
#include "cuda/driver.h"

/** The numbers of a device that runs a target's cubins, the largest of its kind; INVALID_ARGUMENT
 * where the target is unknown. */
attnpress_status ap_device_of_target(const char *target, ap_device *device);
