/* What the files of attention share: problem, plan, and the checks of a call. The headers of the
 * other parts stand in their folders. */
#pragma once
#include <stdint.h>

#include "attnpress/attnpress.h"
#include "attnpress/kernel_args.h"
#include "core/error.h"
#include "core/struct.h"
#include "cuda/cuda_api.h"
#include "handle.h"
#include "press/cubin.h"
#include "press/registry.h"

enum { AP_HDIM_MAX = 512, AP_SPLITS_MAX = 256 };
enum { AP_SM90_HDIM_MAX = 256 }; /* of both head dims of sm90 kernels */
enum { AP_COMBINE_ARCH = 80 };   /* the combine kernel is one for all; its stems say sm80 */

/* ---- variant.c ------------------------------------------------------------------------------- */

const char *ap_dtype_name(int32_t dtype); /* "fp16" */
const char *ap_mask_name(int32_t mask);   /* "causal" */
/** INVALID_ARGUMENT, naming what is allowed, unless kernels exist for these head dims. */
attnpress_status ap_check_head_dims(int64_t hdim, int64_t hdim_v);

/* ---- registry.c ------------------------------------------------------------------------------ */

/** 1 where tiles exist for this pair of head dims. */
int ap_head_dims_listed(int32_t hdim, int32_t hdim_v);
/** "64/128, 96/64, ...": the pairs that differ. */
void ap_print_pairs(char *text, size_t size);

/* ---- choose.c -------------------------------------------------------------------------------- */

/** A forward call, checked and reduced to what choosing a kernel needs. */
typedef struct ap_problem {
  int32_t batch, heads_q, heads_kv, seqlen_q, seqlen_k, hdim, hdim_v;
  int32_t dtype, mask;
  int32_t num_splits;       /* as asked for; 0: to be chosen */
  int32_t tma;              /* 1: tensor maps can describe Q, K and V */
  int32_t tma_min, tma_max; /* the least and the most that `tma` is for any batch and lengths */
} ap_problem;

/** How a problem is run on a device. */
typedef struct ap_plan {
  ap_variant variant;
  ap_tile tile;
  const char *target;
  int32_t heads_per_tile, row_blocks, num_splits, key_blocks_per_split;
  unsigned grid; /* thread blocks; 0: the output is empty */
  /* The kernel may begin before what was launched before it has ended: it waits for that itself. */
  int overlaps, combine_overlaps;
  /* Only where thread blocks take one unit of work after another (tile.producer), and as in
   * attnpress_fwd_sm90_args: */
  int32_t heads, section_heads, group_units, group_rounds, rounds;
  /* Only where variant.split: */
  ap_variant combine;
  ap_tile combine_tile;
  const char *combine_target;
  unsigned combine_grid;
  size_t lse_partial_offset_bytes; /* in the workspace, behind out_partial */
  size_t workspace_bytes;
} ap_plan;

/** NOT_SUPPORTED, naming device and requirement, where no architecture serves the device. */
attnpress_status ap_check_capability(int capability);
attnpress_status ap_choose(const ap_problem *problem, const ap_device *device, ap_plan *plan);
/** How a kernel divides integers from 0 to 2^31 - 1 by a positive one. */
attnpress_divisor ap_divisor(int32_t value);
/** The split count for `blocks` thread blocks of one split over `key_blocks` key blocks, on a
 * device that holds `slots` thread blocks at once. */
int ap_choose_num_splits(int64_t blocks, int64_t key_blocks, int64_t slots);
/** Thread blocks of a tile that an SM holds, estimated from shared memory, threads and registers.
 */
int ap_blocks_per_sm(const ap_tile *tile, const ap_device *device);

enum { AP_VARIANTS_MAX = 16 };
/** Every variant that ap_choose() may return, combine kernels included, for any batch and lengths.
 */
attnpress_status ap_choose_all(const ap_problem *problem, const ap_device *device,
                               ap_variant variants[AP_VARIANTS_MAX],
                               const char *targets[AP_VARIANTS_MAX], int *count);

typedef struct ap_target {
  const char *name; /* "sm_90" */
  int capability;   /* the least that it runs on */
  int smem_per_block_bytes;
} ap_target;
extern const ap_target ap_targets[];
extern const size_t ap_targets_count;
/** The row of a target; NULL where it is unknown. */
const ap_target *ap_find_target(const char *name);
/** The target of a stem's arch for a device; NULL: the device does not run that arch. */
const char *ap_target_for(int capability, int arch);
/** The target of combine kernels, whose stems all say sm80 and which run on every device; NULL: the
 * device is unknown. */
const char *ap_combine_target_for(int capability);

/* ---- validate.c ------------------------------------------------------------------------------ */

/** Checks all of a call's arguments. with_data 0: pointers are ignored. The workspace is not looked
 * at. */
attnpress_status ap_validate_forward(const attnpress_forward_args *args, int32_t backend,
                                     int with_data, ap_problem *problem);

/* ---- tensor_map.c ---------------------------------------------------------------------------- */

/* Rows of a warpgroup of a tile with a producer, and the most query heads that may share a tile. */
enum { AP_WARPGROUP_ROWS = 64 };

/** 1 where tensor maps can describe Q, K and V, if the batch and the lengths are these. */
int ap_tensor_maps_fit(const attnpress_forward_args *args, int64_t batch, int64_t seqlen_q,
                       int64_t seqlen_k);
/** Writes the maps of a call whose problem has `tma` and whose output is not empty. */
attnpress_status ap_tensor_maps_encode(const ap_driver *driver, const attnpress_forward_args *args,
                                       const ap_plan *plan, attnpress_fwd_sm90_args *kernel_args);

/* ---- compile.c ------------------------------------------------------------------------------- */

/** Checks the struct_size and the tail of a caller's attnpress_info. */
attnpress_status ap_check_info(const attnpress_info *info);
/** Writes what was found; the caller's struct_size stays. */
void ap_write_info(const attnpress_info *found, attnpress_info *info);
