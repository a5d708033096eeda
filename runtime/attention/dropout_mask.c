/* Writes which probabilities dropout keeps: the operation that call.c carries out, and its public
 * function. */
#include <inttypes.h>

#include "attention/dropout.h"
#include "attention/groups.h"
#include "attention/overlap.h"
#include "attention/score_args.h"
#include "attnpress/args/dropout.h"
#include "cpu/threads.h"

/* Its size in the version that brought it, 0.3; it never changes. */
enum { ARGS_FIRST_BYTES = 88 };
_Static_assert(sizeof(attnpress_dropout_mask_args) >= ARGS_FIRST_BYTES, "structs only grow");

/* Rows and keys that a warp decides over at once, eight of them a lane. */
enum { TILE = 16, LANES = 32, OPERATIONS_PER_DECISION = 20 };

/** A checked call. */
typedef struct mask_call {
  ap_call base;
  attnpress_dropout_mask_args args; /* its strides in full, its group the one below */
  attnpress_dropout dropout;
  attnpress_dropout_keep_args block; /* of the kernel */
} mask_call;

static const mask_call *call_of(const ap_call *base) {
  return (const mask_call *)base;
}

static int is_empty(const attnpress_dropout_mask_args *a) {
  return a->shape[0] == 0 || a->shape[1] == 0 || a->shape[2] == 0 || a->shape[3] == 0;
}

/* ---- Check ----------------------------------------------------------------------------------- */

static const char *const dimension_names[4] = {"batch", "heads_q", "seqlen_q", "seqlen_k"};

/** The group as forward calls take it. */
static attnpress_status check_group(mask_call *call, int with_data) {
  attnpress_forward_args forward = ATTNPRESS_FORWARD_ARGS_INIT;
  ap_groups groups;
  RETURN_IF(call->args.dropout == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "dropout is NULL; it says with which probability and seed the mask is drawn");
  forward.dropout = call->args.dropout;
  FORWARD_IF(ap_copy_groups(&forward, &groups));
  FORWARD_IF(ap_check_groups(&forward, with_data));
  call->dropout = groups.dropout;
  call->args.dropout = &call->dropout;
  return ATTNPRESS_OK;
}

static attnpress_status check_shape(const attnpress_dropout_mask_args *a) {
  for (int i = 0; i < 4; ++i) {
    const int64_t most = i < 2 ? INT32_MAX : INT32_MAX - 1023; /* as forward calls have it */
    RETURN_IF(a->shape[i] < 0 || a->shape[i] > most, ATTNPRESS_INVALID_ARGUMENT,
              "shape[%d] (%s) is %" PRId64 "; it must be 0 to %" PRId64, i, dimension_names[i],
              a->shape[i], most);
  }
  return ATTNPRESS_OK;
}

/** Fills in contiguous strides where none are given. */
static attnpress_status complete_strides(attnpress_dropout_mask_args *a) {
  int64_t step = 1;
  int given = 0;
  for (int i = 0; i < 4; ++i)
    given |= a->stride[i] != 0;
  for (int i = 3; i >= 0 && !given; --i) {
    a->stride[i] = step;
    RETURN_IF(__builtin_mul_overflow(step, a->shape[i], &step), ATTNPRESS_INVALID_ARGUMENT,
              "shape is %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
              ", more than 2^63 elements",
              a->shape[0], a->shape[1], a->shape[2], a->shape[3]);
  }
  return ATTNPRESS_OK;
}

static attnpress_status check_strides(const attnpress_dropout_mask_args *a) {
  int64_t last = 0;
  for (int i = 0; i < 4; ++i) {
    int64_t span;
    if (a->shape[i] <= 1)
      continue;
    RETURN_IF(a->stride[i] < 1, ATTNPRESS_INVALID_ARGUMENT,
              "stride[%d] (%s) is %" PRId64 "; it must be 1 or more, or all four 0 for contiguous",
              i, dimension_names[i], a->stride[i]);
    RETURN_IF(__builtin_mul_overflow(a->shape[i] - 1, a->stride[i], &span) ||
                  __builtin_add_overflow(last, span, &last),
              ATTNPRESS_INVALID_ARGUMENT,
              "shape[%d] %" PRId64 " times stride[%d] %" PRId64 " overflows", i, a->shape[i], i,
              a->stride[i]);
  }
  RETURN_IF(ap_rows_overlap(4, a->shape, a->stride, 1), ATTNPRESS_INVALID_ARGUMENT,
            "stride is %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
            ", so that elements overlap; sorted, each stride must be at least the span below it",
            a->stride[0], a->stride[1], a->stride[2], a->stride[3]);
  return ATTNPRESS_OK;
}

static attnpress_status check(const void *args, ap_check how, ap_call *base) {
  mask_call *call = (mask_call *)base;
  FORWARD_IF(ap_copy_struct(args, &call->args, sizeof call->args, ARGS_FIRST_BYTES, "args"));
  *base = (ap_call){.workspace = NULL};
  FORWARD_IF(check_group(call, how.with_data));
  FORWARD_IF(check_shape(&call->args));
  if (is_empty(&call->args))
    return ATTNPRESS_OK;
  FORWARD_IF(complete_strides(&call->args));
  FORWARD_IF(check_strides(&call->args));
  RETURN_IF(how.with_data && call->args.keep == NULL, ATTNPRESS_INVALID_ARGUMENT,
            "keep is NULL; it may be only where an extent is 0");
  return ATTNPRESS_OK;
}

/* ---- The CPU --------------------------------------------------------------------------------- */

typedef struct mask_job {
  const attnpress_dropout_mask_args *args;
  ap_dropout dropout;
  int64_t row_tiles; /* of a head */
} mask_job;

/** TILE rows and keys of a head, as far as there are so many. of_head: its words; rows: those
 * of the first 8 rows */
static void write_tile(const mask_job *j, int64_t head, const ap_dropout_words *of_head,
                       const ap_dropout_words rows[8], int64_t row_begin, int64_t key_begin) {
  const attnpress_dropout_mask_args *a = j->args;
  uint8_t *keep = a->keep + head / a->shape[1] * a->stride[0] + head % a->shape[1] * a->stride[1];
  ap_dropout_words keys[4];
  for (int pair = 0; pair < 4; ++pair)
    keys[pair] = ap_dropout_key_words(of_head, key_begin + pair * 2);
  for (int lane = 0; lane < LANES; ++lane) {
    uint32_t word[4];
    const int64_t row = row_begin + lane / 4, key = key_begin + lane % 4 * 2;
    ap_dropout_draw(word, &rows[lane / 4], &keys[lane % 4]);
    for (int i = 0; i < 8; ++i) { /* two tiles of 8 keys, two halves of 8 rows, two keys */
      const int64_t at_row = row + i / 2 % 2 * 8, at_key = key + i / 4 * 8 + i % 2;
      if (at_row < a->shape[2] && at_key < a->shape[3])
        keep[at_row * a->stride[2] + at_key * a->stride[3]] =
            (word[i / 2] >> 16 * (i % 2) & 0xffff) >= j->dropout.threshold;
    }
  }
}

static void run_task(const void *job, void *scratch, int64_t task) {
  const mask_job *j = job;
  (void)scratch;
  const int64_t head = task / j->row_tiles, row_begin = task % j->row_tiles * TILE;
  const ap_dropout_words of_head = ap_dropout_head(&j->dropout, head);
  ap_dropout_words rows[8];
  for (int row = 0; row < 8; ++row)
    rows[row] = ap_dropout_row_words(&of_head, row_begin + row);
  for (int64_t key = 0; key < j->args->shape[3]; key += TILE)
    write_tile(j, head, &of_head, rows, row_begin, key);
}

static attnpress_status run_cpu(const ap_call *base, int32_t num_threads) {
  const attnpress_dropout_mask_args *a = &call_of(base)->args;
  if (is_empty(a))
    return ATTNPRESS_OK;
  const mask_job job = {a, ap_dropout_of(a->dropout), (a->shape[2] + TILE - 1) / TILE};
  const int64_t heads = a->shape[0] * a->shape[1];
  const ap_cpu_job tasks = {.run = run_task,
                            .job = &job,
                            .num_tasks = heads * job.row_tiles,
                            .operations = (double)heads * (double)a->shape[2] *
                                          (double)a->shape[3] * OPERATIONS_PER_DECISION};
  return ap_cpu_run(&tasks, num_threads);
}

/* ---- The kernel ------------------------------------------------------------------------------ */

static int64_t blocks_of(int64_t extent, int32_t block) {
  return (extent + block - 1) / block;
}

/** The extents of a thread block: 16 rows a warp. */
static int32_t block_rows(const ap_tile *tile) {
  return TILE * tile->field[AP_DROPOUT_TILE_WARPS];
}

static int32_t block_keys(const ap_tile *tile) {
  return tile->field[AP_DROPOUT_TILE_BLOCK_N];
}

/** One launch, or none where the mask is empty. There are no plans of it: `range` is one call. */
static attnpress_status plan(const ap_call *base, const ap_device *device, int32_t range,
                             ap_launches *launches) {
  const attnpress_dropout_mask_args *a = &call_of(base)->args;
  ap_launch *launch = &launches->launch[0];
  int64_t blocks;
  (void)range;
  launches->count = 0;
  launches->workspace_bytes = 0;
  FORWARD_IF(ap_check_capability(device->capability));
  if (is_empty(a))
    return ATTNPRESS_OK;
  *launch = (ap_launch){
      .variant = {.family = AP_FAMILY_DROPOUT, .axis = {[AP_DROPOUT_PASS] = AP_DROPOUT_PASS_KEEP}},
      .num_splits = 1};
  const ap_route *route = ap_next_route(&launch->variant, device->capability, NULL);
  launch->variant.axis[AP_DROPOUT_ARCH] = route->arch;
  launch->target = route->target;
  FORWARD_IF(ap_find_launch_tile(launch));
  const int64_t tiles = blocks_of(a->shape[2], block_rows(&launch->tile)) *
                        blocks_of(a->shape[3], block_keys(&launch->tile));
  RETURN_IF(__builtin_mul_overflow(a->shape[0] * a->shape[1], tiles, &blocks) || blocks > INT32_MAX,
            ATTNPRESS_NOT_SUPPORTED,
            "shape is %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64
            "; a launch writes at most 2^31 - 1 tiles of %d x %d: write the mask in parts",
            a->shape[0], a->shape[1], a->shape[2], a->shape[3], (int)block_rows(&launch->tile),
            (int)block_keys(&launch->tile));
  launch->grid = (uint32_t)blocks;
  launches->count = 1;
  return ATTNPRESS_OK;
}

static attnpress_status arguments(ap_maps *maps, ap_call *base, const ap_launches *launches,
                                  int index, ap_block *block) {
  mask_call *call = (mask_call *)base;
  const attnpress_dropout_mask_args *a = &call->args;
  const ap_tile *tile = &launches->launch[index].tile;
  (void)maps;
  call->block = (attnpress_dropout_keep_args){
      .keep = a->keep,
      .batch_stride = a->stride[0],
      .head_stride = a->stride[1],
      .row_stride = a->stride[2],
      .key_stride = a->stride[3],
      .batch = (int32_t)a->shape[0],
      .heads_q = (int32_t)a->shape[1],
      .seqlen_q = (int32_t)a->shape[2],
      .seqlen_k = (int32_t)a->shape[3],
      .row_blocks = (int32_t)blocks_of(a->shape[2], block_rows(tile)),
      .key_blocks = (int32_t)blocks_of(a->shape[3], block_keys(tile)),
  };
  attnpress_forward_args forward = ATTNPRESS_FORWARD_ARGS_INIT;
  forward.dropout = &call->dropout;
  forward.scale = 1.0f; /* which has no part in it */
  ap_fill_score_args(&forward, &call->block.score);
  *block = AP_BLOCK(call->block);
  return ATTNPRESS_OK;
}

/* ---- The operation --------------------------------------------------------------------------- */

/* There are no plans of it: what only they need is left out. */
static const ap_operation dropout_mask = {
    .name = "attnpress_dropout_mask",
    .call_bytes = sizeof(mask_call),
    .plan_bytes = sizeof(ap_launches),
    .check = check,
    .plan = plan,
    .arguments = arguments,
    .run_cpu = run_cpu,
};

attnpress_status attnpress_dropout_mask(attnpress_handle *handle,
                                        const attnpress_dropout_mask_args *args, void *stream) {
  mask_call call;
  ap_launches launches;
  return ap_call_run(handle, &dropout_mask, args, stream, &call.base, &launches);
}
