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
/* Of wgmma: what has its rows, or columns, contiguous in place of k. */
enum { EMULATED_TRANSPOSED_B = 1, EMULATED_TRANSPOSED_BOTH = 3 };

#ifdef __cplusplus
extern "C" {
#endif

/* A thread's own, so the compiler may keep them. */
__attribute__((const)) unsigned emulated_thread_index(void);
__attribute__((const)) unsigned emulated_block_index(void);
__attribute__((const)) unsigned emulated_grid_size(void);

void emulated_barrier(void);
void emulated_warp_barrier(void);
uint32_t emulated_shuffle_xor(uint32_t lanes, uint32_t value, int mask);
uint32_t emulated_shuffle_index(uint32_t lanes, uint32_t value, int from);
int emulated_any(uint32_t lanes, int predicate);
uint32_t emulated_ballot(uint32_t lanes, int predicate);
uint32_t emulated_reduce_add(uint32_t lanes, uint32_t value);

uint32_t emulated_shared_address(const void *pointer);

void emulated_cp_async_16(uint32_t shared, const void *global, int bytes);
void emulated_cp_async_4(uint32_t shared, const void *global, int bytes);
void emulated_cp_async_commit(void);
void emulated_cp_async_wait(int pending);
void emulated_cp_async_arrive(uint32_t barrier);

/* fragment: (matrices) registers */
void emulated_ldmatrix(uint32_t *fragment, uint32_t shared, int matrices, int transposed);
/* d: (4), a: (k / 4), b: (k / 8) registers; k is 8 or 16 */
void emulated_mma_m16n8(float *d, const uint32_t *a, const uint32_t *b, int k, int format);

void emulated_red_add(float *global, float x);
void emulated_red_max(uint32_t *global, uint32_t x);
uint32_t emulated_atomic_increment(uint32_t *global, uint32_t most);
void emulated_release_increment(uint32_t *global, uint32_t most);
uint32_t emulated_load_acquire(const uint32_t *global);
uint32_t emulated_guess(const uint32_t *global);
void emulated_wait_for_earlier(void);
uint64_t emulated_compare_and_swap(uint64_t *global, uint64_t expected, uint64_t desired);
/* global: (2) */
void emulated_store_told(uint64_t *global, uint64_t first, uint64_t second);
void emulated_load_told(const uint64_t *global, uint64_t *first, uint64_t *second);

void emulated_load_shared(uint32_t address, void *to, int bytes);
void emulated_store_shared(uint32_t address, const void *from, int bytes);

uint32_t emulated_grid_arrive(void);
int emulated_grid_has_come(uint32_t arrived);

void emulated_mbarrier_init(uint32_t barrier, int count);
void emulated_fence_mbarrier_init(void);
void emulated_mbarrier_arrive(uint32_t barrier);
void emulated_mbarrier_arrive_expect(uint32_t barrier, int bytes);
/* 1: the phase of `parity` has completed */
int emulated_mbarrier_try_wait(uint32_t barrier, int parity);

void emulated_prefetch_tensor_map(const void *map);
/* coordinates: (rank) */
void emulated_tma_load(uint32_t shared, const void *map, uint32_t barrier, const int *coordinates,
                       int rank);
/* coordinates: (4), of the first pixel; offsets: (2), of the tap, along the width and the height */
void emulated_tma_load_im2col(uint32_t shared, const void *map, uint32_t barrier,
                              const int *coordinates, const int *offsets);
void emulated_fence_proxy_async(void);
void emulated_fence_proxy_async_global(void);

void emulated_bulk_load(uint32_t shared, const void *global, int bytes, uint32_t barrier);
void emulated_bulk_prefetch(const void *address, int bytes);
void emulated_bulk_store(void *global, uint32_t shared, int bytes);
void emulated_bulk_add(float *global, uint32_t shared, int bytes);
void emulated_bulk_commit(void);
void emulated_bulk_wait_read(int pending);
void emulated_bulk_wait_written(void);

void emulated_named_barrier_sync(int barrier, int threads);
void emulated_named_barrier_arrive(int barrier, int threads);
int emulated_named_barrier_all(int barrier, int threads, int predicate);
void emulated_set_registers(int registers, int increase);

void emulated_cluster_arrive(void);
void emulated_cluster_wait(void);
/* rank: of a block of the cluster */
uint32_t emulated_cluster_address(uint32_t address, int rank);
/* address: of emulated_cluster_address */
void emulated_store_8_cluster(uint32_t address, float x, float y);
void emulated_send_8_cluster(uint32_t address, float x, float y, uint32_t barrier);

/* d: (columns / 2) registers; a: the descriptor of A, or, where fragment is not NULL, unused;
 * fragment: (4) registers; transposed: 0 or EMULATED_TRANSPOSED_... */
void emulated_wgmma(float *d, const uint32_t *fragment, uint64_t a, uint64_t b, int columns,
                    int format, int transposed, int accumulate);
void emulated_wgmma_fence(void);
void emulated_wgmma_commit(void);
void emulated_wgmma_wait(int pending);

uint32_t emulated_pack_fp16(float low, float high);
uint32_t emulated_pack_bf16(float low, float high);
float emulated_widen_fp16(uint16_t bits);
/* of both halves; format: EMULATED_FP16 or EMULATED_BF16; largest: 1, or 0 for the smallest */
uint32_t emulated_min_max(uint32_t a, uint32_t b, int format, int largest);
/* of both halves, each product rounded once */
uint32_t emulated_multiply(uint32_t a, uint32_t b, int format);
float emulated_exp2(float x);
float emulated_log2(float x);
float emulated_reciprocal(float x);
float emulated_reciprocal_sqrt(float x);
float emulated_tanh(float x);

/* site: where the kernel called from */
void *emulated_memcpy(void *to, const void *from, size_t bytes, const void *site);
void *emulated_memset(void *to, int value, size_t bytes, const void *site);

#ifdef __cplusplus
}
#endif
