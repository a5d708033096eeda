/* What a kernel on the host calls: one function for each instruction, or family of instructions
 * that differ by a number. The leaf headers beside this file wrap them under the names of the
 * device's. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The most that a device grants a block: 227 KB on compute capability 9.0. */
enum { EMULATED_SHARED_BYTES_MAX = 227 * 1024 };

/* Formats of the 16-bit operands of mma. */
enum { EMULATED_FP16 = 0, EMULATED_BF16 = 1 };

#ifdef __cplusplus
extern "C" {
#endif

/* A thread's own, so the compiler may keep them. */
__attribute__((const)) unsigned emulated_thread_index(void);
__attribute__((const)) unsigned emulated_block_index(void);

void emulated_barrier(void);
float emulated_shuffle_xor(uint32_t lanes, float value, int mask);

uint32_t emulated_shared_address(const void *pointer);

void emulated_cp_async_16(uint32_t shared, const void *global, int bytes);
void emulated_cp_async_commit(void);
void emulated_cp_async_wait(int pending);

/* fragment: (matrices) registers */
void emulated_ldmatrix(uint32_t *fragment, uint32_t shared, int matrices, int transposed);
/* d: (4), a: (k / 4), b: (k / 8) registers; k is 8 or 16 */
void emulated_mma_m16n8(float *d, const uint32_t *a, const uint32_t *b, int k, int format);

uint32_t emulated_pack_fp16(float low, float high);
uint32_t emulated_pack_bf16(float low, float high);
float emulated_exp2(float x);
float emulated_log2(float x);
float emulated_reciprocal(float x);

/* site: where the kernel called from */
void *emulated_memcpy(void *to, const void *from, size_t bytes, const void *site);
void *emulated_memset(void *to, int value, size_t bytes, const void *site);

#ifdef __cplusplus
}
#endif
