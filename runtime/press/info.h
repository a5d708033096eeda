/* The public record of a kernel: reading a caller's, filling it, writing it back. */
#pragma once
#include "press/jit.h"

/** Checks the struct_size and the tail of a caller's attnpress_info. */
attnpress_status ap_check_info(const attnpress_info *info);
/** Fills what a request says of its kernel. */
void ap_request_describe(const ap_request *request, attnpress_info *info);
/** Writes what was found, as far as the caller's struct reaches; its struct_size stays. */
void ap_write_info(const attnpress_info *found, attnpress_info *info);
