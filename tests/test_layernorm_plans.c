/* Plans of random calls of layer norm: each kernel is one that there is, its rows are such as it
 * takes, a workspace's size depends on neither pointers nor strides, and a range has the kernels of
 * all its calls. What a kind of rows takes is said here once more, as docs/layernorm.md and the
 * templates say it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "api_support.h"
#include "attnpress/layernorm.h"
#include "cuda/device.h"
#include "layernorm/layernorm.h"
#include "press/target.h"

enum {
  CALLS = 60000,
  VECTOR_BYTES = 16,
  SM80 = 80,
  SM90 = 90,
  SMS_MAX = 190,
  TOLD_BLOCKS_MAX = 160, /* of a gang; forward, where each SM has one, of all */
  CLUSTER_MAX = 16,
  SHORT_MAX = 127,
  SHORT_FP32_MAX = 15,
  APART_MIN = 9,    /* columns of rows that surely lie across two vectors */
  SLICE_MIN = 5,    /* of those of which one of two lanes has two words; backward */
  GATHERED_MIN = 8, /* of rows whose vectors reach to the next row, and no further */
  /* Columns of the longest odd rows of a block beyond those of its class, and with weights of
   * fp32. */
  ODD_BLOCK_COLS = 8192,
  ODD_BLOCK_MORE = 1024,
  ODD_BLOCK_MORE_FP32 = 512
};

/* ---- Random calls ---------------------------------------------------------------------------- */

static uint64_t random_state;

static int64_t below(int64_t end) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (int64_t)(random_state % (uint64_t)end);
}

/** 1 in n calls. */
static int one_in(int64_t n) {
  return below(n) == 0;
}

static int64_t random_columns(void) {
  const ap_set *classes = &ap_families[AP_FAMILY_LAYERNORM]->axes[AP_LAYERNORM_COLS].domain;
  int64_t columns = 1 + below(INT64_C(1) << below(21));
  if (one_in(3)) /* about the most of a class */
    columns = classes->values[below(classes->count)] + below(33) - 16;
  if (one_in(4))
    columns = columns / 8 * 8;
  return columns < 1 ? 1 : columns > 1 << 20 ? 1 << 20 : columns;
}

/** A matrix of its own. neat: rows of all matrices one after the other, from multiples of a vector
 * on; alike: gaps of whole vectors, all from the same element on. */
static ap_layernorm_tensor random_matrix(const ap_layernorm_problem *p, int which, int neat,
                                         int alike, int64_t shift, int output) {
  static const char *const names[] = {"first", "second", "third", "fourth"};
  const int64_t size = ap_element_bytes(p->dtype);
  ap_layernorm_tensor t = {names[which], names[which], NULL, p->columns, output, 0};
  uintptr_t address = (uintptr_t)(which + 1) << 42;
  if (!neat && alike) {
    address += (uintptr_t)(shift * size);
    t.stride += below(3) * VECTOR_BYTES / size;
  } else if (!neat) {
    address += (uintptr_t)(below(9) * size);
    t.stride += one_in(2) ? below(20) : 0;
    if (one_in(8))
      t.stride = -t.stride;
    if (!output && one_in(8)) /* rows of an input may overlap */
      t.stride = 1 + below(p->columns);
    if (one_in(20))
      t.stride += INT64_C(1) << 33;
  }
  t.data = (void *)address; // NOLINT
  return t;
}

static void *random_parameter(int64_t size, uintptr_t place) {
  const int64_t shift = one_in(5) ? below(9) : 0;
  return one_in(5) ? NULL : (void *)((place << 42) + (uintptr_t)(shift * size)); // NOLINT
}

/** An output over an input, or a matrix of its own. */
static void put_over(ap_layernorm_problem *p, int output, int input) {
  if (p->tensor[input].data == NULL)
    return;
  p->tensor[output].data = p->tensor[input].data;
  p->tensor[output].stride = p->tensor[input].stride;
}

/** Rows of outputs do not overlap. */
static void part_rows(ap_layernorm_problem *p) {
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    for (int k = 0; k < AP_LAYERNORM_TENSORS; ++k) {
      ap_layernorm_tensor *t = &p->tensor[i];
      const ap_layernorm_tensor *output = &p->tensor[k];
      if (output->output && output->data == t->data && t->stride > -p->columns &&
          t->stride < p->columns)
        t->stride = p->columns;
    }
}

static void place_matrices(ap_layernorm_problem *p, int more) {
  const int neat = one_in(3), alike = one_in(2);
  const int slice = one_in(6); /* of a wider matrix: y alone is neat, or other matrices are alike */
  const int gaps = p->backward && one_in(2);
  const int64_t shift = one_in(2) ? below(9) : 0;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    const int other = i != AP_LAYERNORM_X;
    p->tensor[i] = random_matrix(p, i, slice ? other && !gaps : neat, slice ? other : alike, shift,
                                 i == AP_LAYERNORM_SUM || (!p->backward && i == AP_LAYERNORM_Y));
  }
  if (p->backward) {
    if (!more)
      p->tensor[AP_LAYERNORM_DSUM].data = NULL;
    if (one_in(3))
      put_over(p, AP_LAYERNORM_DX, (int)below(3));
  } else {
    const int over = (int)below(8);
    if (!more)
      p->tensor[AP_LAYERNORM_RESIDUAL].data = p->tensor[AP_LAYERNORM_SUM].data = NULL;
    if (over < 2) /* x or the residual */
      put_over(p, AP_LAYERNORM_Y, over);
    if (more && one_in(2))
      put_over(p, AP_LAYERNORM_SUM, over < 2 ? 1 - over : (int)below(2));
  }
  part_rows(p);
  p->weight = random_parameter(ap_element_bytes(p->param_dtype), 10);
  p->bias = p->backward ? NULL : random_parameter(ap_element_bytes(p->param_dtype), 11);
  if (p->rms && one_in(2))
    p->bias = NULL;
}

static ap_layernorm_problem random_call(void) {
  static float sum;
  ap_layernorm_problem p = {.backward = (int32_t)below(2),
                            .rows = one_in(4)    ? 1 + below(3)
                                    : one_in(50) ? 1 + below(INT64_C(1) << 35)
                                                 : 1 + below(INT64_C(1) << below(22)),
                            .columns = random_columns(),
                            .dtype = ATTNPRESS_FP16 + (int32_t)below(3),
                            .rms = one_in(3)};
  p.param_dtype = one_in(2) ? p.dtype : ATTNPRESS_FP16 + (int32_t)below(3);
  if (p.backward) {
    p.dweight = one_in(4) ? NULL : &sum;
    p.dbias = one_in(3) ? NULL : &sum;
  }
  place_matrices(&p, one_in(3));
  return p;
}

static void random_device(ap_device *device) {
  assert_ok(ap_device_of_target(
      one_in(3) ? ap_targets[below((int64_t)ap_targets_count)].name : "sm_90", device));
  if (one_in(3))
    device->sm_count = 1 + (int)below(SMS_MAX);
}

/* ---- What kinds of rows take ----------------------------------------------------------------- */

static int is_whole(const ap_layernorm_problem *p) {
  const int64_t size = ap_element_bytes(p->dtype);
  int whole = p->columns * size % VECTOR_BYTES == 0;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    const ap_layernorm_tensor *t = &p->tensor[i];
    if (t->data != NULL)
      whole &= (uintptr_t)t->data % VECTOR_BYTES == 0 &&
               (p->rows == 1 || t->stride * size % VECTOR_BYTES == 0);
  }
  return whole;
}

/** One after the other, from a multiple of a vector on. */
static int is_in_turn(const ap_layernorm_problem *p) {
  int turn = 1;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    const ap_layernorm_tensor *t = &p->tensor[i];
    if (t->data != NULL)
      turn &= (uintptr_t)t->data % VECTOR_BYTES == 0 && (p->rows == 1 || t->stride == p->columns);
  }
  return turn;
}

/** Rows of y one after the other, from a multiple of a vector on, and none of x over another one. */
static int is_slice(const ap_layernorm_problem *p) {
  const ap_layernorm_tensor *x = &p->tensor[AP_LAYERNORM_X], *y = &p->tensor[AP_LAYERNORM_Y];
  return (uintptr_t)y->data % VECTOR_BYTES == 0 &&
         (p->rows == 1 || (y->stride == p->columns && x->stride >= p->columns));
}

/** Each at the same element of a vector in all matrices. */
static int is_alike(const ap_layernorm_problem *p) {
  const int64_t size = ap_element_bytes(p->dtype);
  const ap_layernorm_tensor *x = &p->tensor[AP_LAYERNORM_X];
  int alike = 1;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    const ap_layernorm_tensor *t = &p->tensor[i];
    if (t->data != NULL)
      alike &= (uintptr_t)t->data % VECTOR_BYTES == (uintptr_t)x->data % VECTOR_BYTES &&
               (p->rows == 1 || (t->stride - x->stride) * size % VECTOR_BYTES == 0);
  }
  return alike;
}

/** And none over another one. */
static int is_alike_and_apart(const ap_layernorm_problem *p) {
  int apart = is_alike(p);
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    if (p->tensor[i].data != NULL && p->rows > 1)
      apart &= p->tensor[i].stride >= p->columns;
  return apart;
}

/** Backward: x is another matrix than dx, none of its rows lies over another one, and the other matrices are
 * such as `is_so` says. */
static int has_other_x(const ap_layernorm_problem *p, int (*is_so)(const ap_layernorm_problem *p)) {
  const ap_layernorm_tensor *x = &p->tensor[AP_LAYERNORM_X], *dx = &p->tensor[AP_LAYERNORM_DX];
  ap_layernorm_problem others = *p;
  others.tensor[AP_LAYERNORM_X] = *dx;
  return x->data != dx->data && (p->rows == 1 || x->stride >= p->columns) && is_so(&others);
}

static int are_aligned(const ap_layernorm_problem *p) {
  return (uintptr_t)p->weight % VECTOR_BYTES == 0 && (uintptr_t)p->bias % VECTOR_BYTES == 0;
}

/** The weight, and of layer norm the bias, at multiples of a vector. */
static int are_given(const ap_layernorm_problem *p) {
  return p->weight != NULL && (p->bias != NULL) == !p->rms && are_aligned(p);
}

/** Rows of x do not lie over each other, nor those of y: vectors are read that hold elements of others. */
static int are_rows_apart(const ap_layernorm_problem *p) {
  return p->rows == 1 || (p->tensor[AP_LAYERNORM_X].stride >= p->columns &&
                          p->tensor[AP_LAYERNORM_Y].stride >= p->columns);
}

/** Of forward rows; columns: the most that a kernel takes, of a cluster or a gang those of all
 * blocks. */
static int takes_forward(const ap_layernorm_problem *p, int32_t rows, int64_t columns) {
  const int residual = p->tensor[AP_LAYERNORM_RESIDUAL].data != NULL;
  const void *x = p->tensor[AP_LAYERNORM_X].data, *y = p->tensor[AP_LAYERNORM_Y].data;
  const void *r = p->tensor[AP_LAYERNORM_RESIDUAL].data, *sum = p->tensor[AP_LAYERNORM_SUM].data;
  const int64_t size = ap_element_bytes(p->dtype), kept = ap_element_bytes(p->param_dtype);
  const int64_t edges = VECTOR_BYTES / size - 1, most = columns - edges;
  const int64_t inner = p->columns - p->columns % (edges + 1) - (edges + 1); /* whole vectors */
  const int other = !residual && x != y, bare = p->bias == NULL || !p->rms;
  switch (rows) {
  case AP_LAYERNORM_ROWS_ALIGNED:
    return p->columns <= columns || columns > AP_LAYERNORM_HELD_COLS_MAX;
  case AP_LAYERNORM_ROWS_ODD:
    return size == 2 && p->columns <= columns + edges;
  case AP_LAYERNORM_ROWS_PAIRS:
    return is_in_turn(p) && p->columns <= columns;
  case AP_LAYERNORM_ROWS_PIECES:
    return is_whole(p) && is_in_turn(p) && p->columns <= columns;
  case AP_LAYERNORM_ROWS_WHOLE:
    return is_whole(p) && !residual && are_given(p) && p->columns <= columns;
  case AP_LAYERNORM_ROWS_ADDED:
    return is_whole(p) && residual && are_given(p) && p->columns <= columns;
  case AP_LAYERNORM_ROWS_DIRECT:
    return is_in_turn(p) && other && are_given(p) &&
           p->columns <= columns + 1 - VECTOR_BYTES / (kept > size ? kept : size);
  case AP_LAYERNORM_ROWS_EDGED:
    return is_alike(p) && are_aligned(p) && bare && (p->bias == NULL || p->weight != NULL) &&
           p->columns <= most;
  case AP_LAYERNORM_ROWS_SHIFTED:
    return kept >= size && other && are_aligned(p) && bare &&
           (p->bias == NULL || p->weight != NULL) && p->columns >= APART_MIN && p->columns <= most;
  case AP_LAYERNORM_ROWS_MOVED:
    return size == 2 && kept == 2 && other && are_given(p) && are_rows_apart(p) &&
           p->columns <= columns - 2 * edges;
  case AP_LAYERNORM_ROWS_GATHERED:
    return size == 2 && other && is_slice(p) && p->columns >= GATHERED_MIN && p->columns <= columns;
  case AP_LAYERNORM_ROWS_APART:
    return size == 2 && kept == 2 && other && are_given(p) && p->columns >= APART_MIN &&
           p->columns <= most;
  case AP_LAYERNORM_ROWS_BULK:
    return is_whole(p) && !residual && p->columns <= columns;
  case AP_LAYERNORM_ROWS_SUMMED:
    return is_whole(p) && residual && p->columns <= columns;
  case AP_LAYERNORM_ROWS_RINGED:
    return is_alike(p) && p->columns <= most;
  case AP_LAYERNORM_ROWS_CUT:
    return is_in_turn(p) && other && p->columns <= most;
  case AP_LAYERNORM_ROWS_PACKED:
    return is_in_turn(p) && other && p->columns <= columns + (size == 2 ? edges : 0);
  case AP_LAYERNORM_ROWS_WIDE:
    return are_aligned(p) && bare && !residual &&
           (is_whole(p) ? p->columns <= columns
                        : is_in_turn(p) && other && kept <= size && p->columns <= most);
  case AP_LAYERNORM_ROWS_GANG:
    return are_aligned(p) && bare && is_whole(p) && !residual && p->columns <= columns;
  case AP_LAYERNORM_ROWS_GANGSUM:
    return are_aligned(p) && bare && is_whole(p) && residual && p->columns <= columns;
  case AP_LAYERNORM_ROWS_SPLIT:
    return are_aligned(p) && bare && is_in_turn(p) && other && inner <= columns;
  case AP_LAYERNORM_ROWS_SPLITSUM:
    return are_aligned(p) && bare && is_in_turn(p) && residual && x != y && x != sum && r != y &&
           r != sum && inner <= columns;
  default:
    return 0;
  }
}

static int takes_backward(const ap_layernorm_problem *p, const ap_launch *l, int64_t columns) {
  const int64_t size = ap_element_bytes(p->dtype);
  const int64_t edges = VECTOR_BYTES / size - 1;
  const int dsum = p->tensor[AP_LAYERNORM_DSUM].data != NULL;
  const int sums = p->dweight != NULL || p->dbias != NULL;
  switch (l->variant.axis[AP_LAYERNORM_ROWS]) {
  case AP_LAYERNORM_ROWS_ALIGNED:
    return p->columns <= columns;
  case AP_LAYERNORM_ROWS_SHORT:
    return is_in_turn(p) && p->columns <= columns &&
           p->columns <= (size == 4 ? SHORT_FP32_MAX : SHORT_MAX);
  case AP_LAYERNORM_ROWS_GATHERED:
    return size == 2 && has_other_x(p, is_in_turn) && p->columns >= SLICE_MIN &&
           p->columns <= columns;
  case AP_LAYERNORM_ROWS_SHIFTED:
    if (size == 4 || !has_other_x(p, is_alike))
      return 0;
    /* fall through */
  case AP_LAYERNORM_ROWS_ODD:
    if (size == 4)
      return p->columns <= columns;
    if (ap_layernorm_cluster(&l->tile) > 1)
      return p->columns + edges <= columns;
    if (columns == ODD_BLOCK_COLS)
      return p->columns <=
             columns + (p->param_dtype == ATTNPRESS_FP32 ? ODD_BLOCK_MORE_FP32 : ODD_BLOCK_MORE);
    return p->columns <= columns + edges;
  case AP_LAYERNORM_ROWS_SORTED:
    return size == 2 && is_alike_and_apart(p) && !dsum && p->columns + edges <= columns;
  case AP_LAYERNORM_ROWS_GANG:
    return is_whole(p) && sums && p->columns <= columns;
  case AP_LAYERNORM_ROWS_SPLIT:
    return is_alike_and_apart(p) && sums && p->columns + edges <= columns;
  default:
    return 0;
  }
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static const char *describe_call(const ap_layernorm_problem *p, const ap_device *device) {
  static char text[800];
  int at = snprintf(text, sizeof text,
                    "capability %d, %d SMs: %s%s, %lld x %lld, %s, w%s, w %p, b %p, sums %d %d",
                    device->capability, device->sm_count, p->backward ? "bwd" : "fwd",
                    p->rms ? " rms" : "", (long long)p->rows, (long long)p->columns,
                    ap_layernorm_dtype_name(p->dtype), ap_layernorm_dtype_name(p->param_dtype),
                    p->weight, p->bias, p->dweight != NULL, p->dbias != NULL);
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    at += snprintf(text + at, sizeof text - (size_t)at, "; %p stride %lld", p->tensor[i].data,
                   (long long)p->tensor[i].stride);
  return text;
}

/** A block for each row, or for each piece of rows: none walks on to others. */
static int has_no_walkers(const ap_launch *l) {
  switch (l->variant.axis[AP_LAYERNORM_ROWS]) {
  case AP_LAYERNORM_ROWS_PAIRS:
  case AP_LAYERNORM_ROWS_PIECES:
  case AP_LAYERNORM_ROWS_WHOLE:
  case AP_LAYERNORM_ROWS_ADDED:
  case AP_LAYERNORM_ROWS_DIRECT:
  case AP_LAYERNORM_ROWS_EDGED:
  case AP_LAYERNORM_ROWS_APART:
  case AP_LAYERNORM_ROWS_MOVED:
    return 1;
  case AP_LAYERNORM_ROWS_GATHERED:
  case AP_LAYERNORM_ROWS_SHIFTED:
    return l->variant.axis[AP_LAYERNORM_PASS] == AP_LAYERNORM_PASS_FWD;
  default:
    return l->variant.axis[AP_LAYERNORM_PASS] == AP_LAYERNORM_PASS_BWD_DX ||
           (l->variant.axis[AP_LAYERNORM_PASS] == AP_LAYERNORM_PASS_FWD &&
            l->variant.axis[AP_LAYERNORM_COLS] > AP_LAYERNORM_HELD_COLS_MAX);
  }
}

static void assert_kernel(const ap_layernorm_problem *p, const ap_device *device,
                          const ap_layernorm_plan *plan, int index) {
  const ap_launch *l = &plan->base.launch[index];
  const int32_t *axis = l->variant.axis;
  const ap_target *target = ap_find_target(l->target);
  const int64_t blocks = plan->gang > 0 ? plan->gang : l->cluster > 0 ? (int32_t)l->cluster : 1;
  const int32_t rows = axis[AP_LAYERNORM_ROWS];
  /* Of these a class is a block's part of a row. */
  const int shared = plan->gang > 0 || rows == AP_LAYERNORM_ROWS_WIDE;
  const int64_t columns = axis[AP_LAYERNORM_COLS] * (shared ? blocks : 1);
  const int reduces = axis[AP_LAYERNORM_PASS] == AP_LAYERNORM_PASS_BWD_REDUCE;
  int good = ap_variant_is_legal(&l->variant) && target != NULL && l->grid > 0 &&
             target->capability <= device->capability &&
             l->tile.smem_bytes <= target->smem_per_block_bytes && l->cluster <= CLUSTER_MAX &&
             (l->cluster == 0 || l->grid % l->cluster == 0);
  good &= axis[AP_LAYERNORM_ARCH] == SM80 || device->capability == SM90;
  good &= l->grid <= INT32_MAX &&
          (!has_no_walkers(l) || l->grid * ap_layernorm_block_rows(&l->tile) >= p->rows);
  good &= plan->gang <= TOLD_BLOCKS_MAX &&
          (plan->gang == 0 || p->backward || l->grid <= TOLD_BLOCKS_MAX);
  good &= !l->together || (int)l->grid <= device->sm_count;
  good &= reduces || axis[AP_LAYERNORM_DTYPE] == p->dtype;
  good &= axis[AP_LAYERNORM_PASS] == AP_LAYERNORM_PASS_BWD_PARAMS ||
          axis[AP_LAYERNORM_PARAMS] == p->param_dtype;
  if (axis[AP_LAYERNORM_PASS] == AP_LAYERNORM_PASS_FWD)
    good &= !p->backward && takes_forward(p, rows, columns);
  else if (axis[AP_LAYERNORM_PASS] == AP_LAYERNORM_PASS_BWD)
    good &= p->backward && takes_backward(p, l, columns);
  else
    good &= p->backward;
  if (!good) {
    char stem[AP_STEM_MAX];
    ap_variant_print(&l->variant, stem);
    fail_msg("%s, %lld blocks, for %s", stem, (long long)blocks, describe_call(p, device));
  }
}

/** A workspace is large enough for what gangs tell each other and for the parts. */
static void assert_workspace(const ap_layernorm_problem *p, const ap_device *device,
                             const ap_layernorm_plan *plan) {
  const int32_t sums = (p->dweight != NULL) + (p->dbias != NULL);
  const int alone = plan->gang > 0 && plan->parts == 1;
  const size_t parts = alone ? 0 : (size_t)plan->parts * (size_t)plan->pitch * sizeof(float);
  const size_t needed =
      plan->told_bytes + (parts + VECTOR_BYTES - 1) / VECTOR_BYTES * VECTOR_BYTES * (size_t)sums;
  if (p->backward && sums > 0 && plan->base.workspace_bytes < needed)
    fail_msg("%zu bytes of %zu for %s", plan->base.workspace_bytes, needed,
             describe_call(p, device));
  assert_true(plan->pitch >= p->columns);
}

/** Callers ask once for all calls with the same shape. */
static void assert_same_workspace(ap_layernorm_problem p, const ap_device *device, size_t bytes) {
  static ap_layernorm_plan other;
  place_matrices(&p, one_in(2));
  if (ap_layernorm_plan_call(&p, device, ATTNPRESS_ONE_CALL, &other) == ATTNPRESS_NOT_SUPPORTED &&
      p.rows > INT32_MAX)
    return;
  if (other.base.workspace_bytes != bytes)
    fail_msg("%zu bytes, elsewhere %zu for %s", bytes, other.base.workspace_bytes,
             describe_call(&p, device));
}

static int has_kernel(const ap_layernorm_plan *range, const ap_launch *l) {
  int found = 0;
  for (int i = 0; i < range->base.count; ++i) {
    const ap_launch *has = &range->base.launch[i];
    found += memcmp(&has->variant, &l->variant, sizeof l->variant) == 0 &&
             memcmp(&has->tile, &l->tile, sizeof l->tile) == 0 && has->target == l->target;
  }
  return found;
}

static void assert_range(const ap_layernorm_problem *p, const ap_device *device,
                         const ap_layernorm_plan *plan) {
  static ap_layernorm_plan range;
  ap_layernorm_problem most = random_call();
  static float sum;
  most.backward = p->backward;
  most.dtype = p->dtype;
  most.param_dtype = p->param_dtype;
  most.rms = p->rms;
  most.dweight = p->dweight != NULL || (p->backward && one_in(2)) ? &sum : NULL;
  most.dbias = p->dbias != NULL || (p->backward && one_in(2)) ? &sum : NULL;
  most.rows = one_in(2) ? 0 : p->rows + below(1000);
  most.columns = one_in(4) ? 0 : p->columns + (one_in(2) ? 0 : below((1 << 20) - p->columns + 1));
  assert_ok(ap_layernorm_plan_call(&most, device, ATTNPRESS_UP_TO, &range));
  assert_in_range(range.base.count, 1, AP_LAUNCHES_MAX);
  for (int i = 0; i < plan->base.count; ++i)
    if (has_kernel(&range, &plan->base.launch[i]) != 1) {
      char stem[AP_STEM_MAX];
      ap_variant_print(&plan->base.launch[i].variant, stem);
      fail_msg("a range up to %lld columns has %s %d times, of %s", (long long)most.columns, stem,
               has_kernel(&range, &plan->base.launch[i]), describe_call(p, device));
    }
  if (plan->base.workspace_bytes > range.base.workspace_bytes)
    fail_msg("%zu bytes, of a range up to %lld columns %zu, for %s", plan->base.workspace_bytes,
             (long long)most.columns, range.base.workspace_bytes, describe_call(p, device));
}

static void test_random_calls(void **state) {
  static ap_layernorm_plan plan;
  int64_t seen[64] = {0};
  (void)state;
  random_state = 88172645463325252;
  for (int i = 0; i < CALLS; ++i) {
    ap_device device;
    random_device(&device);
    const ap_layernorm_problem p = random_call();
    const attnpress_status status = ap_layernorm_plan_call(&p, &device, ATTNPRESS_ONE_CALL, &plan);
    if (p.rows > INT32_MAX && status == ATTNPRESS_NOT_SUPPORTED) {
      assert_error_says("columns a launch has at most 2147483647");
      continue;
    }
    assert_ok(status);
    assert_in_range(plan.base.count, 1, 3);
    for (int k = 0; k < plan.base.count; ++k)
      assert_kernel(&p, &device, &plan, k);
    assert_workspace(&p, &device, &plan);
    if (p.backward)
      assert_same_workspace(p, &device, plan.base.workspace_bytes);
    if (i % 4 == 0)
      assert_range(&p, &device, &plan);
    ++seen[plan.base.launch[0].variant.axis[AP_LAYERNORM_ROWS]];
  }
  for (int rows = AP_LAYERNORM_ROWS_ALIGNED; rows <= AP_LAYERNORM_ROWS_SHIFTED; ++rows)
    if (seen[rows] == 0)
      fail_msg("no call had rows of kind %d", rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_calls)};
  return cmocka_run_group_tests_name("layernorm plans", tests, NULL, NULL);
}
