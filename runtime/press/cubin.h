/* What a cubin says of its kernels. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/** Registers and local memory (stack and spills, bytes) of a thread of the kernel `symbol`, read
 * from the cubin itself; 0 and -1 where it does not say. */
void ap_cubin_resources(const unsigned char *data, size_t size, const char *symbol,
                        int32_t *registers, int32_t *local_bytes);
