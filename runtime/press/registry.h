/* What the generator hands the runtime: variants, tiles, renderers, device headers, the default set
 * and the linked cubins. The runtime knows no template by name; it goes through the functions at
 * the end of this file. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "attnpress/attnpress.h"

enum { AP_STEM_MAX = 128, AP_TILE_NAME_MAX = 64, AP_TARGET_MAX = 16 };

/** A variant: everything that a stem says. Printed and parsed by variant.c and
 * generator/variant.py. */
typedef enum ap_pass { AP_PASS_FWD = 0, AP_PASS_FWD_COMBINE = 1 } ap_pass;

typedef struct ap_variant {
  int32_t pass;   /* ap_pass */
  int32_t split;  /* 0 or 1; always 0 for the combine pass */
  int32_t hdim;   /* of Q and K; for the combine pass that of V */
  int32_t hdim_v; /* of V and the output */
  int32_t dtype;  /* ATTNPRESS_FP16 or ATTNPRESS_BF16 */
  int32_t mask;   /* ATTNPRESS_FULL or ATTNPRESS_CAUSAL; FULL for the combine pass */
  int32_t decode; /* 1: the small row block for short queries */
  int32_t arch;   /* the template's and tile's architecture: 80, 86, 90 */
} ap_variant;

/** A tile: how a variant's work is cut. Every field is a template variable of the same name. */
typedef struct ap_tile {
  int32_t block_m;    /* query rows of a thread block */
  int32_t block_n;    /* keys of one key block; of the combine pass: columns of the output */
  int32_t warps_m;    /* warps that share the rows */
  int32_t warps_n;    /* warps that share the keys of S and the columns of O */
  int32_t stages;     /* slabs of K and V in shared memory */
  int32_t k_slab;     /* columns of K in a slab */
  int32_t v_slab;     /* keys of V in a slab */
  int32_t q_in_regs;  /* 1: Q fragments stay in registers */
  int32_t min_blocks; /* thread blocks that an SM is to hold, for the compiler's register budget */
  int32_t k_unroll;   /* steps of 16 columns of Q K^T that are unrolled; 0: all of a slab */
  int32_t spread;     /* 1: copies start between the steps of the products, not all at once */
  int32_t producer;   /* 1: 128 threads more than those of the warps do the copies; sm90 */
  int32_t warps_k;    /* warps that have keys of a key block, and a ring, of their own */
  int32_t smem_bytes; /* dynamic shared memory; computed by the generator, used by both sides */
} ap_tile;

typedef struct ap_tile_row {
  ap_variant variant; /* dtype 0: any; split -1: both */
  ap_tile tile;
  const char *target; /* NULL: any */
} ap_tile_row;

/** A text that grows; data is NUL-terminated once something was appended. failed: memory ran out.
 */
typedef struct ap_text {
  char *data;
  size_t size, capacity;
  int failed;
} ap_text;
void ap_text_append(ap_text *text, const char *data, size_t size);
void ap_text_append_int(ap_text *text, int64_t value);
void ap_text_append_string(ap_text *text, const char *value);

/** The variables of every template. */
typedef struct ap_render_input {
  const char *stem;  /* file name without .cu, and the extern "C" symbol */
  const char *dtype; /* "fp16", "bf16" */
  const char *mask;  /* "full", "causal" */
  const char *tile_name;
  int32_t split, decode, hdim, hdim_v, arch;
  int32_t block_m, block_n, warps_m, warps_n, stages, k_slab, v_slab, q_in_regs, min_blocks,
      k_unroll, spread, producer, warps_k, smem_bytes;
} ap_render_input;

typedef struct ap_template {
  const char *name;           /* file in templates/ */
  int32_t pass;               /* ap_pass */
  int32_t arch_min, arch_max; /* variant archs that it serves */
  int32_t decode;             /* 0 or 1; -1: both */
  void (*render)(ap_text *out, const ap_render_input *in);
} ap_template;

typedef struct ap_device_header {
  const char *name; /* as kernels include it: "attnpress/device/ptx_mma.cuh" */
  const char *text;
} ap_device_header;

typedef struct ap_prebuilt_row { /* one (variant, target) of the default set */
  const char *stem;
  const char *target; /* "sm_80" */
} ap_prebuilt_row;

typedef struct ap_cubin {
  const char *stem, *tile_name, *target;
  const unsigned char *data; /* a zstd frame */
  size_t stored_size;        /* of the frame */
  size_t size;               /* of the cubin in it */
  int32_t registers, spill_bytes;
} ap_cubin;

/* Tables. generated/: */
extern const ap_tile_row ap_tiles[];
extern const size_t ap_tiles_count;
extern const ap_template ap_templates[];
extern const size_t ap_templates_count;
extern const ap_device_header ap_device_headers[]; /* the argument structs among them */
extern const size_t ap_device_headers_count;
extern const char ap_device_headers_digest[];  /* hex digest of their names and texts */
extern const ap_prebuilt_row ap_default_set[]; /* sorted by (stem, target) */
extern const size_t ap_default_set_count;
/* Written by the build from the default set's cubins; empty in the tool that compiles them: */
extern const ap_cubin ap_prebuilt_cubins[]; /* sorted by (stem, tile_name, target) */
extern const size_t ap_prebuilt_cubins_count;
/** Comes with the table. Writes row->size bytes to `cubin`; 0: the frame is damaged, or memory ran
 * out. */
int ap_unpack_prebuilt(const ap_cubin *row, unsigned char *cubin);

/* variant.c */
attnpress_status ap_variant_print(const ap_variant *variant, char stem[AP_STEM_MAX]);
attnpress_status ap_variant_parse(const char *stem, ap_variant *variant);
/** "m128n64w4x1s2k128v64", w1x1x4 where warps_k is not 1, with "q" appended for q_in_regs, "b<n>"
 * where min_blocks is not 1, "u<n>" where k_unroll is not 0, and "c" for spread; with a producer
 * "m128n176s2", as the rest follows. */
void ap_tile_print(const ap_tile *tile, char name[AP_TILE_NAME_MAX]);
/** Threads of a thread block. */
int ap_tile_threads(const ap_tile *tile);

/* registry.c */
/** The tile of a variant on a target, or where target is NULL on those that have none of their own;
 * NOT_SUPPORTED, naming what is allowed, where there is none. */
attnpress_status ap_find_tile(const ap_variant *variant, const char *target, ap_tile *tile);
/** The linked cubin, or NULL. */
const ap_cubin *ap_find_prebuilt(const char *stem, const char *tile_name, const char *target);
/** The source of (variant, tile), NUL-terminated, freed by the caller. */
attnpress_status ap_render(const ap_variant *variant, const ap_tile *tile, char **source,
                           size_t *size);
