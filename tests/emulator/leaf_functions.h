/* The kernels of leaf_functions.cu, their inputs, and how near to each other two machines' results
 * must be. */
#pragma once
#include <stdint.h>

#include "emulator.h"

enum { LANE_WORDS = 16, WARP_WORDS = 32 * LANE_WORDS };

typedef enum leaf_kind {
  LEAF_BITS,       /* words of random bits; results are equal, bit by bit */
  LEAF_FLOATS,     /* random floats of all sizes, infinities, NaN; results are equal, bit by bit */
  LEAF_MMA_FP16,   /* factors of 16 bits, C of fp32, of size around 1 */
  LEAF_MMA_BF16,   /* the same */
  LEAF_EXP2,       /* relative error 2^-22, and rounding */
  LEAF_LOG2,       /* error 2^-22 max(1, |result|), and rounding */
  LEAF_RECIPROCAL, /* relative error 2^-23, and rounding */
} leaf_kind;

typedef struct leaf_function {
  const char *symbol; /* of the kernel */
  leaf_kind kind;
  int words; /* of a lane's output that the kernel writes */
  int k;     /* of mma */
} leaf_function;
extern const leaf_function leaf_functions[];
extern const int leaf_functions_count;

/** Fills the input of `warps` warps: (warps, WARP_WORDS). */
void leaf_fill(const leaf_function *f, uint32_t *in, int warps, uint64_t seed);
/** Runs a kernel of a module under the emulator, by one warp a block: in and out are (warps,
 * WARP_WORDS). 0; or -1 with the fault in `report`. */
int leaf_emulate(const char *module_path, const char *symbol, const uint32_t *in, uint32_t *out,
                 int warps, char *report);
/** How far apart two results may be, as a part of the bound: at most 1 is near enough. in, a and b
 * are those of one warp; *word is where that was. */
double leaf_distance(const leaf_function *f, const uint32_t *in, const uint32_t *a,
                     const uint32_t *b, int *word);
