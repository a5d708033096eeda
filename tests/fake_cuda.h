/* The stand-in for libcuda that fake_cuda.c builds: the few driver functions that the library
 * calls, on devices that only exist as numbers. A test opens it through ATTNPRESS_LIBCUDA and then
 * drives it through fake_cuda(), which it looks up with dlsym.
 *
 * Environment, read at the first cuInit: FAKE_CUDA_CAPABILITY ("9.0"), FAKE_CUDA_DEVICES ("1"),
 * FAKE_CUDA_VERSION ("13000"), FAKE_CUDA_INIT ("0": the result of cuInit). The tool's own calls (device
 * memory, events) are there as well: FAKE_CUDA_EVENT_US ("100") is the time between two events. */
#pragma once
#include <stddef.h>

#include "attnpress/args/common.h"
#include "cuda/cuda_api.h"

enum { FAKE_ARGS_MAX = 4096 }; /* bytes: what a kernel can be given */

typedef struct fake_launch {
  char symbol[128];
  uint64_t image; /* a hash of what the kernel was loaded from */
  unsigned grid, block, smem_bytes;
  int overlaps;     /* programmatic stream serialization was allowed */
  int together;     /* all blocks run at the same time */
  unsigned cluster; /* thread blocks of a cluster; 0: none was asked for */
  CUstream stream;
  CUcontext context;
  unsigned char args[FAKE_ARGS_MAX]; /* of kernels whose bytes were told; zeros of others */
} fake_launch;

/* What cuTensorMapEncodeTiled was asked for, which is also what is in the map. */
typedef struct fake_map {
  uint64_t address;
  uint64_t extents[5], strides_bytes[4];
  uint16_t box[5];
  uint8_t data_type, rank, swizzle, steps[5];
} fake_map;

enum { FAKE_LAUNCHES_MAX = 64, FAKE_DEVICES_MAX = 4, FAKE_FAMILIES_MAX = 16 };

typedef struct fake_cuda {
  /* What happened. */
  _Atomic int loads, unloads, functions; /* tests read them while other threads load */
  int maps;                              /* tensor maps that were made */
  int moved_maps;                        /* whose address was replaced */
  _Atomic int launches;                  /* the first FAKE_LAUNCHES_MAX are kept */
  fake_launch launch[FAKE_LAUNCHES_MAX];
  /* What is to happen. */
  int capability;                      /* of every device: 90 */
  int capability_of[FAKE_DEVICES_MAX]; /* of one device; 0: as above */
  int refuse_loads;                    /* so many loads give CUDA_ERROR_NO_BINARY_FOR_GPU */
  int fail_load;                       /* result of the next load; 0: success */
  int fail_launch;                     /* result of the next launch; 0: success */
  int cluster_room;     /* clusters that run at the same time, of any launch; 0: it is not told */
  int rooms_asked;      /* how often that was asked */
  int fail_map;         /* result of the next cuTensorMapEncodeTiled; 0: success */
  int stream_capturing; /* 1: the default stream is being captured */
  int copies, waits;    /* to the host, and for a stream */
  int clears;           /* cuMemsetD32Async, which sets nothing */
  CUstream cleared_on;  /* the last one's: stream, address, words, launches before */
  unsigned long long cleared;
  size_t cleared_words;
  int cleared_after;
  int fail_clear; /* result of the next one; 0: success */

  CUcontext (*context_new)(int device);
  void (*context_free)(CUcontext context); /* the next new one has the same address */
  void (*context_set)(CUcontext context);  /* current in this thread; NULL: none */
  CUcontext (*context_get)(void);
  CUstream (*stream_new)(CUcontext context);
  void (*stream_capture)(CUstream stream, int capturing);
  void (*stream_free)(CUstream stream);
  /** The bytes of the argument struct of kernels whose names begin so. */
  void (*args_of)(const char *prefix, size_t bytes);
  /** What tells the bytes of all other kernels, from their names. */
  void (*args_by)(size_t (*bytes)(const char *symbol));
  void (*reset)(void); /* forgets what happened */
} fake_cuda;

/* Exported by libfake_cuda.so as "fake_cuda_state". */
typedef fake_cuda *fake_cuda_state_function(void);
