/* Kernels on the CPU: compiles a generated .cu for the host and runs it block by block, every CUDA
 * thread a fiber. Strict where hardware is lazy: README.md says what is checked. For one thread of
 * one process. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { EMULATED_REPORT_BYTES = 8192 };

/** A tensor in global memory that a kernel was given: elements of element_bytes, strides in
 * elements. What lies between its rows is not part of it. */
typedef struct emulated_tensor {
  const char *name;
  void *data;
  int element_bytes, writable;
  int64_t shape[4], stride[4];
  int settled; /* 1: no kernel that a launch may overlap touches it, and so it waits for none */
} emulated_tensor;

/** A kernel that is compiled and loaded. */
typedef struct emulated_module emulated_module;

/** Compiles a kernel's source to a module file. 0; or -1 with the compiler's words in `report`
 * (EMULATED_REPORT_BYTES). */
int emulated_compile(const char *source_path, const char *module_path, char *report);
/** Device headers of this folder come before the project's; the text is not copied. */
void emulated_include(const char *folder);
/** Loads a module and finds its kernel; NULL with a sentence in `report`. The file is not needed
 * any longer. */
emulated_module *emulated_load(const char *module_path, const char *symbol, char *report);
void emulated_unload(emulated_module *module);

/** A launch; nothing is kept after the call. */
typedef struct emulated_launch {
  emulated_module *module;
  unsigned blocks, threads; /* one-dimensional; threads a multiple of 32 */
  unsigned cluster;         /* blocks of a cluster, which divides them; 0: each by itself. Of more
                               than one, what writable tensors name is memory that processes share */
  int together;   /* 1: all blocks run at the same time, at most as many as a cluster has */
  int in_turn;    /* blocks take tickets by turns, rather than the first all of them; where
                               none waits for another */
  int told_zeros; /* where blocks tell each other there are zeros before they run */
  int by_spans; /* of so many, which are read alone, with what lies between rows, where that is less
                   * than 64 bytes */
  int by_vectors; /* of so many tensors, the first ones, whole vectors of 16 bytes may be read of
                          which a row's elements are a part; nothing is known of what else they hold */
  int overlaps;   /* 1: may begin before earlier kernels have ended, and waits for that itself */
  size_t shared_bytes; /* dynamic shared memory */
  const void *args;    /* the kernel's struct */
  /** Calls the kernel with its struct by value. */
  void (*call)(void (*kernel)(void), const void *args);
  const emulated_tensor *tensors;
  int tensor_count;
} emulated_launch;

/** Runs a launch to its end, or to the first fault: then -1, and `report` says what, which threads,
 * which block and where in the source. */
int emulated_run(const emulated_launch *launch, char *report);

/** Stands in for the driver's cuTensorMapEncodeTiled, with its parameters and its conditions; the
 * 128 bytes of `map` then hold what the emulated copy engine needs. 0, or 1 where a condition does
 * not hold (CUDA_ERROR_INVALID_VALUE). */
int emulated_encode_tiled(void *map, int data_type, uint32_t rank, void *address,
                          const uint64_t *dims, const uint64_t *strides_bytes, const uint32_t *box,
                          const uint32_t *element_strides, int interleave, int swizzle, int l2,
                          int out_of_bounds);

/** The same of cuTensorMapEncodeIm2col, in four dimensions. */
int emulated_encode_im2col(void *map, int data_type, uint32_t rank, void *address,
                           const uint64_t *dims, const uint64_t *strides_bytes,
                           const int *lower_corner, const int *upper_corner, uint32_t channels,
                           uint32_t pixels, const uint32_t *element_strides, int interleave,
                           int swizzle, int l2, int out_of_bounds);
