/* The kernels of leaf_functions.cu and leaf_functions_sm90.cu, their inputs, and how near to each
 * other two machines' results must be. */
#pragma once
#include <stdint.h>

#include "attnpress/args/common.h"
#include "emulator.h"

enum { LANE_WORDS = 16, WARP_WORDS = 32 * LANE_WORDS };

typedef enum leaf_kind {
  LEAF_BITS,       /* words of random bits; results are equal, bit by bit */
  LEAF_FLOATS,     /* random floats of all sizes, infinities, NaN; results are equal, bit by bit */
  LEAF_MMA_FP16,   /* factors of 16 bits, C of fp32, of size around 1 */
  LEAF_MMA_BF16,   /* the same */
  LEAF_WGMMA_FP16, /* factors of 16 bits, of size around 1 */
  LEAF_WGMMA_BF16, /* the same */
  LEAF_EXP2,       /* relative error 2^-22, and rounding */
  LEAF_LOG2,       /* error 2^-22 max(1, |result|), and rounding */
  LEAF_RECIPROCAL, /* relative error 2^-23, and rounding */
  LEAF_RECIPROCAL_SQRT, /* relative error 2^-22.9, and rounding */
  LEAF_TANH,            /* relative error 2^-11 */
} leaf_kind;

typedef struct leaf_function {
  const char *symbol; /* of the kernel */
  leaf_kind kind;
  int words;        /* of a lane's output that the kernel writes */
  int k;            /* of mma and wgmma */
  int n;            /* columns of wgmma */
  int b_transposed; /* of wgmma: B's columns are contiguous */
  int a_in_shared;  /* 0: A is in registers; 1: in shared memory; 2: there with its rows contiguous */
} leaf_function;
extern const leaf_function leaf_functions[], leaf_functions_sm90[];
extern const int leaf_functions_count, leaf_functions_sm90_count;

/** Warps of a block: 1, or 4 of wgmma. */
int leaf_warps(const leaf_function *f);
enum { LEAF_SM90_SHARED_BYTES = 40 * 1024 + 64 };

/** Encodes a tensor map; NULL's place takes emulated_encode_tiled. The driver's function has these
 * parameters. */
typedef int leaf_encode(void *map, int data_type, uint32_t rank, void *address,
                        const uint64_t *dims, const uint64_t *strides_bytes, const uint32_t *box,
                        const uint32_t *element_strides, int interleave, int swizzle, int l2,
                        int out_of_bounds);

/** The same of emulated_encode_im2col. */
typedef int leaf_encode_im2col(void *map, int data_type, uint32_t rank, void *address,
                               const uint64_t *dims, const uint64_t *strides_bytes,
                               const int *lower_corner, const int *upper_corner, uint32_t channels,
                               uint32_t pixels, const uint32_t *element_strides, int interleave,
                               int swizzle, int l2, int out_of_bounds);

/** The argument of the kernels of sm90. */
typedef struct leaf_sm90_args {
  attnpress_tensor_map map_4d, map_5d, map_im2col;
  uint64_t in, out; /* addresses */
} leaf_sm90_args;
/** Fills it; 0, or what a function returned. */
int leaf_sm90_fill_args(leaf_sm90_args *args, uint64_t in, uint64_t out, leaf_encode *encode,
                        leaf_encode_im2col *encode_im2col);

/** Fills the input of `warps` warps: (warps, WARP_WORDS). */
void leaf_fill(const leaf_function *f, uint32_t *in, int warps, uint64_t seed);
/** Runs a kernel of a module under the emulator: in and out are (warps, WARP_WORDS). 0; or -1 with
 * the fault in `report`. */
int leaf_emulate(const char *module_path, const leaf_function *f, const uint32_t *in, uint32_t *out,
                 int warps, char *report);
/** What wgmma makes of one element, in exact arithmetic, and the sum of its terms' sizes: of `word`
 * of lane `lane` of a group, whose input is in. */
void leaf_wgmma_element(const leaf_function *f, const uint32_t *in, int lane, int word,
                        double *result, double *size);
/** How far apart two results may be, as a part of the bound: at most 1 is near enough. in, a and b
 * are those of one block; *word is where that was. */
double leaf_distance(const leaf_function *f, const uint32_t *in, const uint32_t *a,
                     const uint32_t *b, int *word);
