/* Decides how a layer norm is run: the kernel whose rows have room for the columns, what adds up the
 * sums over the rows, and their grids. Pure: it depends on shapes and the device's numbers, and
 * touches nothing. */
#include "layernorm/layernorm.h"

#include <inttypes.h>

#include "core/numbers.h"
#include "cuda/device.h"
#include "press/target.h"

enum {
  SUM_VECTOR_COLUMNS = 4,      /* of a thread of bwd_reduce */
  SUM_SHIFT_MIN = 3,           /* of its neighbouring threads: 128 bytes of a part at once */
  PARAMS_BLOCKS_OF_SM = 4,     /* thread blocks of bwd_params that an SM is given */
  OVERLAP_CAPABILITY_MIN = 90, /* where kernels can wait for those before them */
  PARTS_ALIGNMENT_BYTES = 16,  /* of weight_parts and bias_parts */
  /* Clusters lie within a group of SMs, of which there are so many at most, of so many at least, an
   * even number. */
  SM_GROUPS_MAX = 8,
  GROUP_SMS_MIN = 8,
  SM_PAIR = 2,
  GROUP_SMS_MAX = 18,        /* of compute capability 9.0 */
  CLUSTER_OF_GROUPS_MAX = 4, /* of which a group lacks one where it has two SMs more */
  /* Thread blocks of a row that no cluster of a fixed size takes: two, three, four, eight or sixteen, and
   * five where 16 bits begin anywhere, which few vectors a thread cost most. Of six and seven, and of nine
   * to fifteen, more SMs have none than a class of columns is empty. */
  WIDE_CLUSTER_STEP_MAX = 4,
  WIDE_CLUSTER_LONG = 8,
  WIDE_CLUSTER_MAX = 16,
  WIDE_BLOCK_BYTES = 65536,       /* of such a row, that a block keeps all parameters of */
  WIDE_BLOCK_TWICE_BYTES = 49152, /* of layer norm, if these are of twice the size */
  /* Columns from which on packed rows of 16 bits are those of such pairs, and of RMS norm. */
  WIDE_PAIR_COLS = 36864,
  WIDE_PAIR_MANY_COLS = 34000, /* where others would be read straight into registers */
  WIDE_PAIR_RMS_COLS = 40960,
  ADDED_PIECE_COLS =
      384, /* of rows of whole vectors with a residual, at the most, that are pieces */
  EDGED_ADDED_COLS_MIN = 442, /* of 16 bits with a residual; with gaps shorter rows, too */
  /* The most columns of rows with edges that are faster straight in registers than by rings, if the sum
   * is no input's: of 16 bits, with parameters of fp32, without a bias, and of fp32. */
  RINGED_COLS = 16377,
  RINGED_WIDE_COLS = 12281,
  RINGED_WEIGHT_COLS = 32761,
  RINGED_FP32_BIAS_COLS = 14333,
  RINGED_FP32_COLS = 16381,
  PIECE_COLS_MIN = 32,  /* of the first class of short rows, forward */
  APART_COLS_MIN = 225, /* of shorter rows, most of a warp's lanes have no vector */
  VECTOR_BYTES = 16,
  ODD_EDGES =
      7, /* columns that an odd row may have beyond those of its class: they fill no vector */
  ODD_PERIOD =
      8, /* odd rows so far apart begin at the same element of a vector, whatever their stride */
  ODD_BLOCK_COLS_MAX =
      8192, /* of the longest class of odd rows that are one thread block's, backward */
  ODD_BLOCK_COLS_MOST =
      ODD_BLOCK_COLS_MAX + 1024, /* with those beside its vectors, as the kernel */
  ODD_BLOCK_COLS_MOST_FP32 = ODD_BLOCK_COLS_MAX + 512, /* and with weights of fp32 */
  ODD_CLASSES_WRITTEN =
      ODD_PERIOD - 1, /* parts of the sums of those whose rows two clusters have */
  JOINED_ROWS = 4096, /* more than are on their way beyond the last */
  SORTED_PART = 11, /* rows are sorted where more than such a part of the others' class is empty */
  WORD_PERIOD = 2,  /* at the same element of a word */
  ODD_PERIOD_FP32 = 4, /* and those of four bytes an element */
  /* Gradients of rows of few columns: the most, and of fp32, whose lanes find more words in one bank. */
  SHORT_COLS_MAX = 31,
  SHORT_FP32_COLS_MAX = 15,
  MULTIPLE_MAX = 4, /* of as many thread blocks as there is room for: more were no faster */
  WARP = 32,
  GANG_COLS_MIN = 65536, /* gangs have longer rows */
  /* Backward, and shorter ones where they are faster than others: of fp32, of whole vectors of 16 bits,
   * with dsum and without, and of 16 bits that begin anywhere. Of whole vectors clusters are faster where
   * the most columns of such a class lack a sixteenth of them or less. */
  GANG_FP32_COLS_MIN = 10240,
  GANG_WHOLE_COLS_MIN = 24576,
  GANG_WIDE_COLS_MIN = 49152, /* with a weight of fp32 */
  GANG_WHOLE_DSUM_COLS_MIN = 8192,
  GANG_SPLIT_COLS_MIN = 20480,
  GANG_SPLIT_DSUM_COLS_MIN = ODD_BLOCK_COLS_MOST,
  CLUSTER_FULL_COLS = 16384, /* and twice as many */
  /* And of fp32 that begins anywhere, where all rows do so alike. */
  GANG_FP32_ALIKE_COLS_MIN = 12288,
  /* Forward, what clusters have rather: rows of 16 bits, and of fp32. */
  WIDE_COLS_MAX = 786432,
  WIDE_FP32_COLS_MAX = 262144,
  GANG_SUMS_BARE_COLS = 98304, /* with a residual and no parameters, rows that are read twice */
  GANG_BLOCK_COLS = 8192,      /* of a block, at the most */
  GANG_BLOCKS_MAX = 160,       /* of a gang, as the kernel */
  GANG_SLOTS = 7,              /* rows of a warp's ring, where a gang has blocks enough */
  GANG_DSUM_SLOTS = 6,         /* with dsum */
  GANG_SLOTS_MIN = 3,          /* else: one that is written, one that is added up, one more */
  GANG_FORWARD_SLOTS = 6, /* forward, where longer parts of rows are better than more of them */
  GANG_FEWER = 32,        /* vectors that a row's first and its last warp do without, if they can */
  GANG_TOLD_BYTES = (16 + 8) * 16 /* of each block, as the kernel */
};

static const ap_set *classes(void) {
  return &ap_families[AP_FAMILY_LAYERNORM]->axes[AP_LAYERNORM_COLS].domain;
}

/** The place of the first class of columns that has room for `columns`. */
static int32_t first_class(int64_t columns) {
  int32_t i = 0;
  while (i < classes()->count - 1 && classes()->values[i] < columns)
    ++i;
  return i;
}

/** How many classes have one kernel for dx and the sums. */
static int32_t backward_classes(void) {
  return first_class(AP_LAYERNORM_BWD_COLS_MAX) + 1;
}

/** A kernel of a class on a device, for `rows` (AP_LAYERNORM_ROWS_...). *fits: 0 where there is none,
 * or the device has too little shared memory. */
static attnpress_status find_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                    int32_t pass, int32_t rows, int32_t class, ap_launch *launch,
                                    int *fits) {
  const int sums = pass == AP_LAYERNORM_PASS_BWD_REDUCE;
  ap_variant *v = &launch->variant;
  *launch = (ap_launch){.variant.family = AP_FAMILY_LAYERNORM, .num_splits = 1};
  v->axis[AP_LAYERNORM_PASS] = pass;
  v->axis[AP_LAYERNORM_NORM] = p->rms && !sums ? AP_LAYERNORM_NORM_RMS : AP_LAYERNORM_NORM_LAYER;
  v->axis[AP_LAYERNORM_ROWS] = rows;
  v->axis[AP_LAYERNORM_COLS] = classes()->values[class];
  v->axis[AP_LAYERNORM_DTYPE] = sums ? ATTNPRESS_FP32 : p->dtype;
  v->axis[AP_LAYERNORM_PARAMS] =
      pass == AP_LAYERNORM_PASS_BWD_PARAMS ? ATTNPRESS_FP32 : p->param_dtype;
  /* Every kernel of the family waits by itself for what ran before. */
  launch->overlaps = device->capability >= OVERLAP_CAPABILITY_MIN;
  ap_choose_arch(device, launch);
  *fits = ap_variant_is_legal(v);
  if (!*fits)
    return ATTNPRESS_OK;
  FORWARD_IF(ap_find_launch_tile(launch));
  *fits = launch->tile.smem_bytes <= ap_find_target(launch->target)->smem_per_block_bytes;
  return ATTNPRESS_OK;
}

/** A kernel of rows of any number of columns. */
static attnpress_status find_long_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                         int32_t pass, ap_launch *launch) {
  int fits;
  return find_kernel(p, device, pass, AP_LAYERNORM_ROWS_ALIGNED, classes()->count - 1, launch,
                     &fits);
}

/** The bits of all addresses, strides and sizes of rows, in bytes: what divides them divides this, if it
 * is a power of two. */
static int64_t row_bits(const ap_layernorm_problem *p) {
  const int64_t size = ap_element_bytes(p->dtype);
  int64_t bits = p->columns * size;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    if (p->tensor[i].data != NULL)
      bits |=
          (int64_t)(uintptr_t)p->tensor[i].data | (p->rows > 1 ? p->tensor[i].stride * size : 0);
  return bits;
}

/** Whether a row of a matrix begins elsewhere than at a multiple of a vector, or ends there. It decides
 * what is fast: each kernel takes any rows. Gradients of such rows have kernels of their own; of fp32 they
 * are dealt by words. */
static int begins_anywhere(const ap_layernorm_problem *p) {
  return row_bits(p) % VECTOR_BYTES != 0;
}

/** Whether rows do so in elements of 16 bits. */
static int has_odd_rows(const ap_layernorm_problem *p) {
  return ap_element_bytes(p->dtype) == 2 && begins_anywhere(p);
}

/** Whether rows are whole vectors, at multiples of a vector, and nothing is added to them. */
static int has_whole_rows(const ap_layernorm_problem *p) {
  return !begins_anywhere(p) && p->tensor[AP_LAYERNORM_RESIDUAL].data == NULL;
}

/** Whether rows that begin at any element are a cluster's. */
static int has_odd_clusters(const ap_launch *launch) {
  return launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_ODD &&
         ap_layernorm_cluster(&launch->tile) > 1;
}

/** The most columns of rows of 16 bits that begin anywhere and are a thread block's, backward. */
static int64_t odd_block_cols(const ap_layernorm_problem *p) {
  return p->param_dtype == ATTNPRESS_FP32 ? ODD_BLOCK_COLS_MOST_FP32 : ODD_BLOCK_COLS_MOST;
}

/** The kernel with room for the columns; rows of any number are left to others. *fits: 0 where there
 * is none. */
static attnpress_status find_odd_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                        int32_t pass, ap_launch *launch, int *fits) {
  const int64_t edges = ap_element_bytes(p->dtype) == 2 ? ODD_EDGES : 0;
  int64_t columns = p->columns - edges; /* of vectors, at the least */
  if (p->backward && edges > 0 && p->columns <= odd_block_cols(p))
    columns = smaller(columns, ODD_BLOCK_COLS_MAX);
  *fits = 0;
  for (int32_t class = first_class(columns); !*fits && class < classes()->count - 1; ++class) {
    FORWARD_IF(find_kernel(p, device, pass, AP_LAYERNORM_ROWS_ODD, class, launch, fits));
    /* A cluster's threads have what lies beside the vectors as vectors. */
    if (*fits && has_odd_clusters(launch))
      *fits =
          p->columns + ODD_EDGES <= classes()->values[class] && p->rows <= INT32_MAX - ODD_PERIOD;
  }
  return ATTNPRESS_OK;
}

/** Whether rows lie one after the other, of all matrices. */
static int has_no_gaps(const ap_layernorm_problem *p) {
  for (int i = 0; i < AP_LAYERNORM_TENSORS && p->rows > 1; ++i)
    if ((i == AP_LAYERNORM_X || i == AP_LAYERNORM_Y || p->tensor[i].data != NULL) &&
        p->tensor[i].stride != p->columns)
      return 0;
  return 1;
}

static int is_sorted(const ap_launch *launch) {
  return launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SORTED;
}

/** Those, or others whose warps move them. */
static int is_joined(const ap_launch *launch) {
  return launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_JOINED || is_sorted(launch);
}

static int is_split(const ap_launch *launch) {
  const int32_t rows = launch->variant.axis[AP_LAYERNORM_ROWS];
  return rows == AP_LAYERNORM_ROWS_SPLIT || rows == AP_LAYERNORM_ROWS_SPLITSUM;
}

/** Whether rows of the backward pass lie one after the other, of all matrices, from a multiple of a
 * vector on; dx may be one of the others. */
static int has_gradients_in_turn(const ap_layernorm_problem *p) {
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    const ap_layernorm_tensor *t = &p->tensor[i];
    if (t->data != NULL &&
        ((p->rows > 1 && t->stride != p->columns) || (uintptr_t)t->data % VECTOR_BYTES != 0))
      return 0;
  }
  return 1;
}

/** Whether rows of all matrices begin alike, each at the same element of a vector. */
static int has_rows_cut_alike(const ap_layernorm_problem *p) {
  const ap_layernorm_tensor *x = &p->tensor[AP_LAYERNORM_X];
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i) {
    const ap_layernorm_tensor *t = &p->tensor[i];
    const int64_t strides = (x->stride - t->stride) * ap_element_bytes(p->dtype);
    if (t->data != NULL && (((uintptr_t)x->data - (uintptr_t)t->data) % VECTOR_BYTES != 0 ||
                            (p->rows > 1 && strides % VECTOR_BYTES != 0)))
      return 0;
  }
  return 1;
}

/** The same, and none lies over the one before: vectors are read that hold elements of others, which
 * matrices have but behind the last row. */
static int has_gradients_cut_alike(const ap_layernorm_problem *p) {
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    if (p->tensor[i].data != NULL && p->rows > 1 && p->tensor[i].stride < p->columns)
      return 0;
  return has_rows_cut_alike(p);
}

/** Whether these begin at one element of a vector, all of them. */
static int has_one_class(const ap_layernorm_problem *p) {
  return p->tensor[AP_LAYERNORM_X].stride * ap_element_bytes(p->dtype) % VECTOR_BYTES == 0;
}

/** The kernel of rows of few columns. *fits: 0 where they have others. */
static attnpress_status find_short_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                          ap_launch *launch, int *fits) {
  const int64_t most = p->dtype == ATTNPRESS_FP32 ? SHORT_FP32_COLS_MAX : SHORT_COLS_MAX;
  *fits = 0;
  if (p->columns > most)
    return ATTNPRESS_OK;
  return find_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_SHORT,
                     first_class(p->columns), launch, fits);
}

/** Whether these are all, without dsum, and no more rows than a kernel counts. */
static int has_joined_rows(const ap_layernorm_problem *p) {
  return p->tensor[AP_LAYERNORM_DSUM].data == NULL && p->rows <= INT32_MAX - JOINED_ROWS &&
         has_gradients_cut_alike(p);
}

/** The kernel of such rows, if it has no more columns that are empty than that of odd ones. Threads of
 * sorted ones have what lies beside the vectors as vectors. Where a class has both, these are faster of
 * rows that leave much of it empty, unless all rows begin at one element of a vector (one_class). */
static attnpress_status find_joined_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                           const ap_launch *odd, int one_class, ap_launch *launch,
                                           int *fits) {
  *fits = 0;
  for (int32_t class = first_class(p->columns);
       !*fits && classes()->values[class] <= odd->variant.axis[AP_LAYERNORM_COLS]; ++class) {
    const int64_t most = classes()->values[class];
    const int is_empty = !one_class && p->columns <= most - most / SORTED_PART;
    if (!is_empty)
      FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_JOINED, class,
                             launch, fits));
    if (!*fits && p->columns + ODD_EDGES <= most)
      FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_SORTED, class,
                             launch, fits));
    if (!*fits && is_empty)
      FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_JOINED, class,
                             launch, fits));
  }
  return ATTNPRESS_OK;
}

/** Whether rows begin anywhere and lie one after the other, from a multiple of a vector on. */
static int has_rows_in_turn(const ap_layernorm_problem *p) {
  uintptr_t bits = 0;
  for (int i = 0; i < AP_LAYERNORM_TENSORS; ++i)
    bits |= (uintptr_t)p->tensor[i].data;
  return p->columns * ap_element_bytes(p->dtype) % VECTOR_BYTES != 0 && has_no_gaps(p) &&
         bits % VECTOR_BYTES == 0;
}

/** The same, and nothing is added to them. Vectors of x are read that hold elements of other rows, so y is
 * another matrix. */
static int has_packed_rows(const ap_layernorm_problem *p) {
  return has_rows_in_turn(p) && p->tensor[AP_LAYERNORM_RESIDUAL].data == NULL &&
         p->tensor[AP_LAYERNORM_X].data != p->tensor[AP_LAYERNORM_Y].data;
}

/** The same with a residual: no output is an input. */
static int has_packed_sums(const ap_layernorm_problem *p) {
  const void *const x = p->tensor[AP_LAYERNORM_X].data, *const y = p->tensor[AP_LAYERNORM_Y].data;
  const void *const residual = p->tensor[AP_LAYERNORM_RESIDUAL].data;
  const void *const sum = p->tensor[AP_LAYERNORM_SUM].data;
  return has_rows_in_turn(p) && x != y && x != sum && residual != y && residual != sum;
}

/** Takes the kernel of packed rows in place of another, if it has no more columns that are empty. */
static attnpress_status prefer_packed_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                             ap_launch *launch) {
  const int64_t edges = ap_element_bytes(p->dtype) == 2 ? ODD_EDGES : 0;
  ap_launch packed;
  int fits = 0;
  for (int32_t class = first_class(p->columns - edges);
       classes()->values[class] <= launch->variant.axis[AP_LAYERNORM_COLS]; ++class) {
    FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_PACKED, class,
                           &packed, &fits));
    if (fits || class == classes()->count - 1)
      break;
  }
  if (fits)
    *launch = packed;
  return ATTNPRESS_OK;
}

/** Whether rows that begin anywhere, but alike in all matrices, are faster by rings than straight into
 * registers: where the sum is written over x or the residual, and where parameters are more than L1 has
 * beside the rows. */
static int are_rings_faster(const ap_layernorm_problem *p) {
  const void *const sum = p->tensor[AP_LAYERNORM_SUM].data;
  const void *const x = p->tensor[AP_LAYERNORM_X].data;
  if (sum != NULL && (sum == x || sum == p->tensor[AP_LAYERNORM_RESIDUAL].data))
    return 1;
  if (p->dtype == ATTNPRESS_FP32)
    return p->columns > (p->bias != NULL ? RINGED_FP32_BIAS_COLS : RINGED_FP32_COLS);
  if (p->rms)
    return 0;
  if (p->bias == NULL)
    return p->columns > RINGED_WEIGHT_COLS;
  if (p->param_dtype == ATTNPRESS_FP32)
    return p->columns > RINGED_WIDE_COLS || p->tensor[AP_LAYERNORM_Y].data == x;
  return p->columns > RINGED_COLS;
}

/** Whether each thread of a row that comes to rings has all of its vectors but the last. */
static int has_full_vectors(const ap_layernorm_problem *p, const ap_launch *ring) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  const int64_t threads = ring->tile.field[AP_LAYERNORM_TILE_ROW_THREADS];
  const int64_t most = ceil_div(ring->variant.axis[AP_LAYERNORM_COLS] / elements, threads);
  return ceil_div(p->columns, elements) >= (most - 1) * threads;
}

/** Takes the kernel whose warps have rings, in place of another, if there is one of the class: its threads
 * have no less columns than a row of that has. Rows that are cut begin up to a vector's elements, but
 * one, after their first vector does. Where others have no such class the next may be that of what is
 * replaced. */
static attnpress_status prefer_kernel_of_rings(const ap_layernorm_problem *p,
                                               const ap_device *device, int32_t rows,
                                               ap_launch *launch) {
  const int64_t edges = rows == AP_LAYERNORM_ROWS_CUT || rows == AP_LAYERNORM_ROWS_RINGED
                            ? VECTOR_BYTES / ap_element_bytes(p->dtype) - 1
                            : 0;
  int32_t class = first_class(p->columns + edges);
  const int32_t replaced = first_class(launch->variant.axis[AP_LAYERNORM_COLS]);
  /* Edges may take another class than rows that would be read by elements. */
  const int32_t by_elements = launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_ALIGNED;
  const int32_t last = by_elements && replaced < class ? class + 1 : replaced;
  ap_launch ring;
  int fits = 0;
  do
    FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_FWD, rows, class, &ring, &fits));
  while (!fits && ++class <= last);
  if (fits && has_full_vectors(p, &ring))
    *launch = ring;
  return ATTNPRESS_OK;
}

/** Whether weight, and of layer norm bias, are there, at multiples of a vector, and nothing else is. */
static int has_whole_parameters(const ap_layernorm_problem *p) {
  return p->weight != NULL && (p->bias == NULL) == (p->rms != 0) &&
         (uintptr_t)p->weight % VECTOR_BYTES == 0 && (uintptr_t)p->bias % VECTOR_BYTES == 0;
}

/** Whether those that are there are so at multiples of a vector, and there is no bias without a weight, nor
 * of RMS norm. */
static int has_aligned_parameters(const ap_layernorm_problem *p) {
  return (p->bias == NULL || (p->weight != NULL && !p->rms)) &&
         (uintptr_t)p->weight % VECTOR_BYTES == 0 && (uintptr_t)p->bias % VECTOR_BYTES == 0;
}

/** Whether weight and bias are at multiples of a vector, or not there, and nothing else is. */
static int has_long_parameters(const ap_layernorm_problem *p) {
  return (p->bias == NULL || !p->rms) && (uintptr_t)p->weight % VECTOR_BYTES == 0 &&
         (uintptr_t)p->bias % VECTOR_BYTES == 0;
}

static int32_t field(const ap_launch *launch, int32_t which) {
  return launch->tile.field[which];
}

int32_t ap_layernorm_cluster(const ap_tile *tile) {
  const int32_t row_threads =
      tile->field[AP_LAYERNORM_TILE_ROW_THREADS] * tile->field[AP_LAYERNORM_TILE_GROUPS];
  return row_threads > tile->threads ? row_threads / tile->threads : 1;
}

int64_t ap_layernorm_block_rows(const ap_tile *tile) {
  const int32_t piece = tile->field[AP_LAYERNORM_TILE_PIECE];
  if (piece > 0) /* of each warp, or of all */
    return piece * (int64_t)(tile->field[AP_LAYERNORM_TILE_PACKED]
                                 ? tile->field[AP_LAYERNORM_TILE_WARPS]
                                 : 1);
  const int32_t row_threads = tile->field[AP_LAYERNORM_TILE_ROW_THREADS];
  if (ap_layernorm_cluster(tile) > 1)
    return tile->field[AP_LAYERNORM_TILE_GROUPS];
  return row_threads == 0 ? 1 : tile->threads / row_threads;
}

/** Takes the kernel that reads rows straight into registers, AP_LAYERNORM_ROWS_DIRECT, ..._EDGED,
 * ..._WHOLE or ..._ADDED, in place of another, if there is one of the class, and the rows are so many rounds
 * of the blocks that run at a time as its tile says. */
static attnpress_status prefer_direct_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                             int32_t rows, ap_launch *launch) {
  const int whole = rows == AP_LAYERNORM_ROWS_WHOLE || rows == AP_LAYERNORM_ROWS_ADDED;
  const int64_t kept = ap_element_bytes(p->param_dtype), own = ap_element_bytes(p->dtype);
  const int64_t size = rows == AP_LAYERNORM_ROWS_DIRECT ? larger(own, kept) : own;
  const int64_t edges = whole ? 0 : VECTOR_BYTES / size - 1;
  ap_launch direct;
  int fits;
  FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_FWD, rows, first_class(p->columns + edges),
                         &direct, &fits));
  if (!fits)
    return ATTNPRESS_OK;
  const int64_t steps = ceil_div(p->rows, ap_layernorm_block_rows(&direct.tile));
  const int64_t at_once = (int64_t)device->sm_count * field(&direct, AP_LAYERNORM_TILE_BLOCKS);
  if (steps <= INT32_MAX && steps >= at_once * field(&direct, AP_LAYERNORM_TILE_ROUNDS))
    *launch = direct;
  return ATTNPRESS_OK;
}

/** Takes the kernel of short rows, AP_LAYERNORM_ROWS_PAIRS or ..._PIECES, in place of another, if the
 * class has one, which *fits says, and a grid has room for the rows. */
static attnpress_status prefer_kernel_of_pieces(const ap_layernorm_problem *p,
                                                const ap_device *device, int32_t rows,
                                                ap_launch *launch, int *fits) {
  ap_launch pieces;
  FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_FWD, rows,
                         first_class(larger(p->columns, PIECE_COLS_MIN)), &pieces, fits));
  if (*fits && ceil_div(p->rows, ap_layernorm_block_rows(&pieces.tile)) <= INT32_MAX)
    *launch = pieces;
  return ATTNPRESS_OK;
}

/** Takes the kernel of rows that begin elsewhere in x than in y in place of another, which would read one
 * element at a time. */
static attnpress_status prefer_kernel_of_rows_apart(const ap_layernorm_problem *p,
                                                    const ap_device *device, ap_launch *launch) {
  const ap_layernorm_tensor *x = &p->tensor[AP_LAYERNORM_X], *y = &p->tensor[AP_LAYERNORM_Y];
  ap_launch apart;
  int fits = 0;
  if (!has_odd_rows(p) || !has_whole_parameters(p) || x->data == y->data ||
      p->tensor[AP_LAYERNORM_RESIDUAL].data != NULL || p->columns < APART_COLS_MIN)
    return ATTNPRESS_OK;
  for (int32_t class = first_class(p->columns + ODD_EDGES); !fits && class < classes()->count - 1;
       ++class)
    FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_APART, class, &apart,
                           &fits));
  if (fits && ceil_div(p->rows, ap_layernorm_block_rows(&apart.tile)) <= INT32_MAX)
    *launch = apart;
  return ATTNPRESS_OK;
}

/** A thread block for every row. */
static attnpress_status set_grid(const ap_layernorm_problem *p, ap_launch *launch) {
  RETURN_IF(p->rows > INT32_MAX, ATTNPRESS_NOT_SUPPORTED,
            "rows is %" PRId64 "; with %" PRId64 " columns a launch has at most %d", p->rows,
            p->columns, INT32_MAX);
  launch->grid = (uint32_t)p->rows;
  return ATTNPRESS_OK;
}

/** How many clusters surely run at the same time, each of whose blocks has an SM to itself. If one
 * more is launched than there is room for, it begins when the others have ended. Of eight and sixteen as
 * many as there are whichever groups lack SMs: that takes two more than a group has beside its clusters,
 * and costs one of them. */
static int64_t clusters_at_once(const ap_device *device, int32_t cluster) {
  const int64_t groups = smaller(SM_GROUPS_MAX, device->sm_count / GROUP_SMS_MIN);
  const int64_t missing = larger(SM_GROUPS_MAX * GROUP_SMS_MAX - device->sm_count, 0);
  if (cluster > CLUSTER_OF_GROUPS_MAX)
    return larger(SM_GROUPS_MAX * (GROUP_SMS_MAX / cluster) -
                      missing / (GROUP_SMS_MAX % cluster + SM_PAIR),
                  1);
  return larger((device->sm_count - groups * (cluster - SM_PAIR)) / cluster, 1);
}

/** How far apart rows surely begin at the same element of a vector, or packed ones of a word; 1 where
 * it does not matter. */
static int64_t period_of(const ap_launch *launch) {
  switch (launch->variant.axis[AP_LAYERNORM_ROWS]) {
  case AP_LAYERNORM_ROWS_ODD: /* clusters walk over one class of rows after the other, words are alike */
    return has_odd_clusters(launch) || launch->variant.axis[AP_LAYERNORM_DTYPE] == ATTNPRESS_FP32
               ? 1
               : ODD_PERIOD;
  case AP_LAYERNORM_ROWS_CUT:
  case AP_LAYERNORM_ROWS_RINGED:
    return VECTOR_BYTES / ap_element_bytes(launch->variant.axis[AP_LAYERNORM_DTYPE]);
  case AP_LAYERNORM_ROWS_PACKED:
    return WORD_PERIOD;
  default:
    return 1;
  }
}

/** What walks over rows, a thread block or a cluster: as many as the device has room for. It walks so
 * many rows further each time, all of which begin alike, if that matters. */
static int64_t walkers_at_once(const ap_device *device, const ap_launch *launch) {
  const int32_t cluster = ap_layernorm_cluster(&launch->tile);
  const int64_t blocks = (int64_t)device->sm_count * field(launch, AP_LAYERNORM_TILE_BLOCKS);
  const int64_t multiple = ceil_div(period_of(launch), ap_layernorm_block_rows(&launch->tile));
  const int64_t at_once =
      cluster > 1 ? clusters_at_once(device, cluster) * field(launch, AP_LAYERNORM_TILE_BLOCKS)
                  : blocks;
  return larger(at_once / multiple * multiple, multiple);
}

/** As many of these as have a row, or as there is room for; or a multiple of that, if the tile says
 * how many rows each walks over at least. */
static int64_t walkers_of(const ap_layernorm_problem *p, const ap_device *device,
                          const ap_launch *launch) {
  const int64_t steps = ceil_div(p->rows, ap_layernorm_block_rows(&launch->tile));
  if (launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_DIRECT ||
      launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_PAIRS ||
      launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_PIECES ||
      launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_WHOLE ||
      launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_ADDED ||
      launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_EDGED ||
      launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_APART)
    return steps; /* none walks */
  const int32_t rounds = field(launch, AP_LAYERNORM_TILE_ROUNDS);
  int64_t at_once = walkers_at_once(device, launch), multiple = 1;
  if (rounds > 0)
    multiple = larger(smaller(steps / (at_once * rounds), MULTIPLE_MAX), 1);
  /* Rows of a cluster that begin alike are vectors of its threads. The columns alone decide, since a
   * workspace's size does not depend on pointers and strides. */
  if (ap_layernorm_cluster(&launch->tile) > 1 && at_once >= ODD_PERIOD_FP32 &&
      p->dtype == ATTNPRESS_FP32 && p->columns % ODD_PERIOD_FP32 != 0)
    at_once = at_once / ODD_PERIOD_FP32 * ODD_PERIOD_FP32;
  return smaller(steps, at_once * multiple);
}

/** Parts of the sums: one of each thread block or cluster that walks, and of clusters of odd rows those
 * of each class of rows that does not end with a cluster's. */
static int64_t parts_of(const ap_launch *launch, int64_t walkers) {
  return walkers + (has_odd_clusters(launch) || is_sorted(launch) ? ODD_CLASSES_WRITTEN : 0);
}

static void set_walking_grid(const ap_layernorm_problem *p, const ap_device *device,
                             ap_launch *launch) {
  const int32_t cluster = ap_layernorm_cluster(&launch->tile);
  launch->grid = (uint32_t)(walkers_of(p, device, launch) * cluster);
  launch->cluster = cluster > 1 ? (uint32_t)cluster : 0;
}

/** Takes the kernel whose clusters have as many thread blocks as a row needs, in place of another: as
 * few as have room for its parameters, or sixteen. */
static attnpress_status prefer_wide_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                           ap_launch *launch) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  const int64_t odd = p->columns % elements != 0 ? elements - 1 : 0; /* before a row, at the most */
  const int64_t vectors = ceil_div(p->columns + odd, elements);
  /* Parameters of twice the size: of whole vectors alone, and of layer norm in shorter parts. */
  const int twice = ap_element_bytes(p->param_dtype) > ap_element_bytes(p->dtype);
  const int64_t block_bytes = twice && !p->rms ? WIDE_BLOCK_TWICE_BYTES : WIDE_BLOCK_BYTES;
  const int32_t step_max =
      WIDE_CLUSTER_STEP_MAX + (odd > 0 && ap_element_bytes(p->dtype) == 2 ? 1 : 0);
  int32_t cluster = SM_PAIR;
  while (cluster < WIDE_CLUSTER_MAX && ceil_div(vectors, cluster) * VECTOR_BYTES > block_bytes)
    cluster = cluster < step_max            ? cluster + 1
              : cluster < WIDE_CLUSTER_LONG ? WIDE_CLUSTER_LONG
                                            : WIDE_CLUSTER_MAX;
  if (!ap_cluster_fits(device, cluster) || p->rows > INT32_MAX || (twice && odd > 0))
    return ATTNPRESS_OK;
  const int64_t columns = ceil_div(vectors, cluster) * elements; /* of a block */
  ap_launch wide;
  int fits = 0;
  for (int32_t class = first_class(columns);
       !fits && classes()->values[class] <= AP_LAYERNORM_HELD_COLS_MAX; ++class)
    FORWARD_IF(
        find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_WIDE, class, &wide, &fits));
  if (!fits)
    return ATTNPRESS_OK;
  wide.cluster = (uint32_t)cluster;
  /* Where the driver does not say how many there are, as many as of the next power of two. */
  int32_t power = SM_PAIR;
  while (power < cluster)
    power *= 2;
  wide.grid = (uint32_t)(smaller(p->rows, clusters_at_once(device, power)) * cluster);
  wide.clusters_most = (uint32_t)p->rows;
  *launch = wide;
  return ATTNPRESS_OK;
}

/* ---- Gangs ----------------------------------------------------------------------------------- */

/** How the thread blocks of a launch share rows. */
typedef struct gang_shape {
  ap_launch launch;
  int32_t blocks, gangs; /* of a gang; gangs: 0 where no gang has room for a row */
} gang_shape;

/** The kernel of gangs for rows of a kind (AP_LAYERNORM_ROWS_...): some have registers for half of the
 * columns. */
static attnpress_status find_gang_kernel(const ap_layernorm_problem *p, const ap_device *device,
                                         int32_t rows, ap_launch *launch, int *fits) {
  const int32_t pass = p->backward ? AP_LAYERNORM_PASS_BWD : AP_LAYERNORM_PASS_FWD;
  FORWARD_IF(find_kernel(p, device, pass, rows, first_class(GANG_BLOCK_COLS), launch, fits));
  if (*fits)
    return ATTNPRESS_OK;
  return find_kernel(p, device, pass, rows, first_class(GANG_BLOCK_COLS / 2), launch, fits);
}

/** How many thread blocks share a row of so many vectors: as few as have room for it. Of rows that begin
 * anywhere the first warp and the last have up to `fewer` vectors less: they get another block for it where
 * that takes a vector of each lane, too. part: vectors of a warp, at the most */
static int64_t blocks_of_gang(int64_t vectors, int64_t fewer, int64_t part, int64_t warps) {
  const int64_t least = ceil_div(vectors, part * warps),
                more = ceil_div(vectors + 2 * fewer, part * warps);
  return ceil_div(vectors + 2 * fewer, more * warps * WARP) <
                 ceil_div(vectors, least * warps * WARP)
             ? more
             : least;
}

/** Vectors that the first warp and the last have less of rows that begin anywhere, as the kernel. */
static int64_t fewer_vectors(int64_t vectors, int64_t blocks, int64_t most, int64_t warps) {
  const int64_t each = ceil_div(vectors, blocks * warps * WARP) * WARP;
  return smaller((blocks * warps * smaller(each, most) - vectors) / 2, GANG_FEWER);
}

/** The kernel of gangs for rows of a kind (AP_LAYERNORM_ROWS_...) of so many matrices, with as few blocks
 * to a row as have room for it, or some more, where others would have nothing to do. */
static attnpress_status find_gang(const ap_layernorm_problem *p, const ap_device *device,
                                  int32_t rows, int32_t matrices, gang_shape *gang) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  const int32_t split = rows == AP_LAYERNORM_ROWS_SPLIT;
  const int64_t vectors = /* of a row, wherever it begins */
      ceil_div(p->columns + split * (elements - 1), elements);
  int fits;
  gang->gangs = 0;
  if (!ap_layernorm_has_sums(p) || p->rows > INT32_MAX)
    return ATTNPRESS_OK;
  FORWARD_IF(find_gang_kernel(p, device, rows, &gang->launch, &fits));
  if (!fits)
    return ATTNPRESS_OK;
  const int64_t columns = gang->launch.variant.axis[AP_LAYERNORM_COLS]; /* of a block */
  const int64_t warps = field(&gang->launch, AP_LAYERNORM_TILE_ROW_THREADS) / WARP;
  const int64_t blocks = smaller(device->sm_count, GANG_BLOCKS_MAX);
  const int64_t ring = gang->launch.tile.smem_bytes / warps / VECTOR_BYTES / matrices;
  /* Blocks of a gang whose rings have room for so many rows of a warp's part, and its registers for one. */
  const int64_t most =
      columns / elements / warps - split; /* columns move on, by a vector at the most */
  const int64_t part = smaller(ring / (matrices > 2 ? GANG_DSUM_SLOTS : GANG_SLOTS), most);
  const int64_t least = smaller(blocks_of_gang(vectors, split * GANG_FEWER, part, warps), blocks);
  const int64_t fewer = split ? fewer_vectors(vectors, least, most, warps) : 0;
  const int64_t each = ceil_div(vectors + 2 * larger(fewer, 0), least * warps);
  if (each > smaller(ring / GANG_SLOTS_MIN, most))
    return ATTNPRESS_OK;
  gang->gangs = (int32_t)smaller(device->sm_count / least, p->rows);
  gang->blocks = (int32_t)smaller(device->sm_count / gang->gangs, blocks);
  return ATTNPRESS_OK;
}

/** Whether a row is nearly as long as the longest of a class of clusters. */
static int is_cluster_full(int64_t columns) {
  for (int64_t full = CLUSTER_FULL_COLS; full <= 2 * CLUSTER_FULL_COLS; full *= 2)
    if (columns > full - full / 16 && columns <= full)
      return 1;
  return 0;
}

/** Whether gangs are faster than what else has rows of a kind, of so many matrices. A weight of fp32 beside
 * 16 bits takes twice the registers: of rows that begin anywhere blocks have half of the columns for it,
 * and of whole vectors gangs are faster where clusters have classes that few columns fill. */
static int is_gang_faster(const ap_layernorm_problem *p, int32_t rows, int32_t matrices) {
  const int split = rows == AP_LAYERNORM_ROWS_SPLIT, added = matrices > 2;
  if (p->dtype == ATTNPRESS_FP32 && split && !added && has_one_class(p))
    return p->columns > GANG_FP32_ALIKE_COLS_MIN && !is_cluster_full(p->columns);
  if (p->dtype == ATTNPRESS_FP32)
    return p->columns > GANG_FP32_COLS_MIN;
  if (p->param_dtype == ATTNPRESS_FP32)
    return p->columns > (split ? GANG_COLS_MIN : GANG_WIDE_COLS_MIN) ||
           (!split && p->columns > GANG_WHOLE_COLS_MIN &&
            p->columns <= 2 * CLUSTER_FULL_COLS - CLUSTER_FULL_COLS / 8);
  if (split)
    return p->columns > (added ? GANG_SPLIT_DSUM_COLS_MIN : GANG_SPLIT_COLS_MIN);
  return !is_cluster_full(p->columns) &&
         p->columns > (added ? GANG_WHOLE_DSUM_COLS_MIN : GANG_WHOLE_COLS_MIN);
}

static int is_wide(const ap_launch *launch) {
  return launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_WIDE;
}

static int is_of_gang(const ap_launch *launch) {
  const int32_t rows = launch->variant.axis[AP_LAYERNORM_ROWS];
  return rows == AP_LAYERNORM_ROWS_GANG || rows == AP_LAYERNORM_ROWS_GANGSUM || is_split(launch);
}

/** Whether gangs are faster than clusters that have room for a row: of layer norm, whose parameters, if there
 * are some, clusters fetch for each of the longest rows. */
static int is_better_of_gangs(const ap_layernorm_problem *p) {
  if (p->weight == NULL && p->bias == NULL && !begins_anywhere(p))
    return 0;
  const int64_t most = p->dtype == ATTNPRESS_FP32 ? WIDE_FP32_COLS_MAX : WIDE_COLS_MAX;
  return !p->rms && p->columns > most;
}

/** The rows of a gang's kernel. */
static int32_t forward_gang_rows(int split, int adds) {
  if (adds)
    return split ? AP_LAYERNORM_ROWS_SPLITSUM : AP_LAYERNORM_ROWS_GANGSUM;
  return split ? AP_LAYERNORM_ROWS_SPLIT : AP_LAYERNORM_ROWS_GANG;
}

/** Takes gangs in place of another kernel, where a row has room in one. The launch has a block for each SM,
 * also where some have no row: no other launch of the kernel runs beside it then. */
static attnpress_status prefer_forward_gang(const ap_layernorm_problem *p, const ap_device *device,
                                            ap_layernorm_plan *plan) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(p->dtype);
  const int32_t split = p->columns % elements != 0;
  const int64_t vectors = ceil_div(p->columns + split * (elements - 1), elements);
  const int adds = p->tensor[AP_LAYERNORM_RESIDUAL].data != NULL;
  ap_launch gang;
  int fits;
  FORWARD_IF(find_gang_kernel(p, device, forward_gang_rows(split, adds), &gang, &fits));
  if (!fits || p->rows > INT32_MAX || device->sm_count > GANG_BLOCKS_MAX)
    return ATTNPRESS_OK;
  const int64_t warps = field(&gang, AP_LAYERNORM_TILE_ROW_THREADS) / WARP;
  const int64_t ring = gang.tile.smem_bytes / warps / VECTOR_BYTES / (1 + adds);
  const int64_t most = gang.variant.axis[AP_LAYERNORM_COLS] / elements / warps;
  const int64_t part = smaller(ring / GANG_FORWARD_SLOTS, most);
  const int64_t least = smaller(ceil_div(vectors, part * warps), device->sm_count);
  if (ceil_div(vectors, least * warps) > most)
    return ATTNPRESS_OK;
  const int64_t gangs = smaller(device->sm_count / least, p->rows);
  gang.grid = (uint32_t)device->sm_count;
  gang.together = 1;
  gang.overlaps = 0;
  plan->base.launch[0] = gang;
  plan->gang = (int32_t)(device->sm_count / gangs);
  return ATTNPRESS_OK;
}

/** Bytes of what blocks tell each other, at the most, which come first in the workspace. */
static size_t told_bytes(const ap_device *device) {
  return (size_t)device->sm_count * GANG_TOLD_BYTES;
}

/** Parts of the sums. */
static int32_t gang_parts(const gang_shape *gang) {
  return gang->gangs > 1 ? gang->gangs : 0; /* the sums themselves */
}

/* ---- One call -------------------------------------------------------------------------------- */

static attnpress_status plan_forward(const ap_layernorm_problem *p, const ap_device *device,
                                     ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  int fits = 0;
  if (has_odd_rows(p))
    FORWARD_IF(find_odd_kernel(p, device, AP_LAYERNORM_PASS_FWD, launch, &fits));
  /* The last class has no need of shared memory: it runs everywhere. */
  for (int32_t class = first_class(p->columns); !fits; ++class)
    FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_FWD, AP_LAYERNORM_ROWS_ALIGNED, class,
                           launch, &fits));
  /* Short rows, some of which are whole vectors together. */
  const int adds = p->tensor[AP_LAYERNORM_RESIDUAL].data != NULL;
  int short_rows = 0;
  if (has_rows_in_turn(p))
    FORWARD_IF(prefer_kernel_of_pieces(p, device, AP_LAYERNORM_ROWS_PAIRS, launch, &short_rows));
  if (short_rows) {
    /* in place and with a residual, too */
  } else if (has_packed_rows(p)) {
    FORWARD_IF(prefer_packed_kernel(p, device, launch));
    FORWARD_IF(prefer_kernel_of_rings(p, device, AP_LAYERNORM_ROWS_CUT, launch));
    if (has_whole_parameters(p))
      FORWARD_IF(prefer_direct_kernel(p, device, AP_LAYERNORM_ROWS_DIRECT, launch));
    /* Pairs, where they are faster than rings, and of many rows than what reads them straight. */
    const int many = launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_DIRECT;
    if (has_whole_parameters(p) && ap_element_bytes(p->dtype) == 2 &&
        p->columns + ODD_EDGES > (p->rms ? WIDE_PAIR_RMS_COLS
                                  : many ? WIDE_PAIR_MANY_COLS
                                         : WIDE_PAIR_COLS))
      FORWARD_IF(prefer_wide_kernel(p, device, launch));
  } else if (has_whole_rows(p)) {
    if (has_no_gaps(p))
      FORWARD_IF(prefer_kernel_of_pieces(p, device, AP_LAYERNORM_ROWS_PIECES, launch, &short_rows));
    if (!short_rows)
      FORWARD_IF(prefer_kernel_of_rings(p, device, AP_LAYERNORM_ROWS_BULK, launch));
    if (!short_rows && has_whole_parameters(p))
      FORWARD_IF(prefer_direct_kernel(p, device, AP_LAYERNORM_ROWS_WHOLE, launch));
  } else if (!begins_anywhere(p)) { /* with a residual */
    if (has_no_gaps(p) && p->columns <= ADDED_PIECE_COLS)
      FORWARD_IF(prefer_kernel_of_pieces(p, device, AP_LAYERNORM_ROWS_PIECES, launch, &short_rows));
    if (!short_rows)
      FORWARD_IF(prefer_kernel_of_rings(p, device, AP_LAYERNORM_ROWS_SUMMED, launch));
    if (!short_rows && has_whole_parameters(p))
      FORWARD_IF(prefer_direct_kernel(p, device, AP_LAYERNORM_ROWS_ADDED, launch));
  } else if (has_rows_cut_alike(p)) {
    FORWARD_IF(prefer_kernel_of_rings(p, device, AP_LAYERNORM_ROWS_RINGED, launch));
    const int rings = launch->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_RINGED;
    if (!(rings && are_rings_faster(p)) && has_aligned_parameters(p) &&
        !(adds && ap_element_bytes(p->dtype) == 2 && p->columns < EDGED_ADDED_COLS_MIN))
      FORWARD_IF(prefer_direct_kernel(p, device, AP_LAYERNORM_ROWS_EDGED, launch));
  } else {
    FORWARD_IF(prefer_kernel_of_rows_apart(p, device, launch));
  }
  plan->base.count = 1;
  if ((field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0 || is_wide(launch)) &&
      has_long_parameters(p) && (has_packed_rows(p) || has_whole_rows(p))) {
    if (field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0)
      FORWARD_IF(prefer_wide_kernel(p, device, launch));
    if (field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0 ||
        (is_wide(launch) && is_better_of_gangs(p)))
      FORWARD_IF(prefer_forward_gang(p, device, plan));
  }
  if (field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0 && adds && has_long_parameters(p) &&
      (!begins_anywhere(p) || (has_packed_sums(p) && (p->weight != NULL || p->bias != NULL ||
                                                      p->columns > GANG_SUMS_BARE_COLS))))
    FORWARD_IF(prefer_forward_gang(p, device, plan));
  if (is_wide(launch) || is_of_gang(launch))
    return ATTNPRESS_OK;
  if (field(launch, AP_LAYERNORM_TILE_ROW_THREADS) == 0)
    return set_grid(p, launch);
  set_walking_grid(p, device, launch);
  return ATTNPRESS_OK;
}

/** Columns from one part of the sums to the next. */
static int64_t pitch_of(const ap_layernorm_problem *p, const ap_launch *launch) {
  return is_joined(launch) || is_split(launch)
             ? ceil_div(p->columns, SUM_VECTOR_COLUMNS) * SUM_VECTOR_COLUMNS
             : p->columns;
}

/** Bytes of the parts of one or two sums. */
static size_t parts_bytes(const ap_layernorm_problem *p, int64_t parts_columns) {
  const size_t each = (size_t)parts_columns * sizeof(float);
  const size_t aligned =
      (each + PARTS_ALIGNMENT_BYTES - 1) / PARTS_ALIGNMENT_BYTES * PARTS_ALIGNMENT_BYTES;
  return aligned * (size_t)((p->dweight != NULL) + (p->dbias != NULL));
}

int32_t ap_layernorm_sum_shift(const ap_tile *tile, int64_t columns, int64_t parts) {
  const int32_t step = tile->field[AP_LAYERNORM_TILE_STEP];
  const int64_t vectors = ceil_div(columns, SUM_VECTOR_COLUMNS);
  int32_t shift = SUM_SHIFT_MIN;
  while (2 << shift <= tile->threads && 1 << shift < vectors &&
         (int64_t)(tile->threads >> (shift + 1)) * step >= parts)
    ++shift;
  return shift;
}

/** bwd_reduce, behind what makes the parts. */
static attnpress_status plan_reduce(const ap_layernorm_problem *p, const ap_device *device,
                                    ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[plan->base.count++];
  FORWARD_IF(find_long_kernel(p, device, AP_LAYERNORM_PASS_BWD_REDUCE, launch));
  plan->sum_shift = ap_layernorm_sum_shift(&launch->tile, p->columns, plan->parts);
  launch->grid = (uint32_t)(ceil_div(p->columns, SUM_VECTOR_COLUMNS << plan->sum_shift) *
                            ((p->dweight != NULL) + (p->dbias != NULL)));
  plan->base.workspace_bytes = parts_bytes(p, plan->parts * plan->pitch);
  return ATTNPRESS_OK;
}

static attnpress_status plan_at_once(const ap_layernorm_problem *p, const ap_device *device,
                                     ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  set_walking_grid(p, device, launch);
  plan->pitch = pitch_of(p, launch);
  const int64_t walkers = walkers_of(p, device, launch);
  plan->parts =
      (int32_t)(is_sorted(launch) && has_one_class(p) ? walkers : parts_of(launch, walkers));
  plan->base.count = 1;
  return ap_layernorm_has_sums(p) ? plan_reduce(p, device, plan) : ATTNPRESS_OK;
}

/** Thread blocks of bwd_params beside each other. */
static int64_t column_blocks(const ap_layernorm_problem *p, int64_t columns) {
  return ceil_div(columns, 32 * (VECTOR_BYTES / ap_element_bytes(p->dtype)));
}

/** dx comes last: it may lie over what the sums are made of. */
static attnpress_status plan_in_turn(const ap_layernorm_problem *p, const ap_device *device,
                                     ap_layernorm_plan *plan) {
  ap_launches *base = &plan->base;
  base->count = 0;
  if (ap_layernorm_has_sums(p)) {
    ap_launch *launch = &base->launch[base->count++];
    FORWARD_IF(find_long_kernel(p, device, AP_LAYERNORM_PASS_BWD_PARAMS, launch));
    plan->pitch = p->columns;
    const int64_t beside = column_blocks(p, p->columns);
    const int64_t wanted = (int64_t)device->sm_count * PARAMS_BLOCKS_OF_SM / beside;
    const int64_t most = ceil_div(p->rows, (int64_t)launch->tile.threads / 32 *
                                               field(launch, AP_LAYERNORM_TILE_STEP));
    plan->parts = (int32_t)smaller(wanted > 1 ? wanted : 1, most);
    launch->grid = (uint32_t)(plan->parts * beside);
    FORWARD_IF(plan_reduce(p, device, plan));
  }
  ap_launch *launch = &base->launch[base->count++];
  FORWARD_IF(find_long_kernel(p, device, AP_LAYERNORM_PASS_BWD_DX, launch));
  return set_grid(p, launch);
}

/** Rows that clusters of eight share: those of 16 bits that begin at any element are read in turn, since
 * a cluster would by elements. The workspace is enough for both. */
static attnpress_status plan_wide_backward(const ap_layernorm_problem *p, const ap_device *device,
                                           ap_layernorm_plan *plan) {
  const ap_launch at_once = plan->base.launch[0];
  FORWARD_IF(plan_in_turn(p, device, plan));
  const size_t in_turn_bytes = plan->base.workspace_bytes;
  size_t bytes = 0;
  if (ap_layernorm_has_sums(p))
    bytes = parts_bytes(p, walkers_of(p, device, &at_once) * p->columns);
  if (!has_odd_rows(p)) {
    plan->base.launch[0] = at_once;
    FORWARD_IF(plan_at_once(p, device, plan));
  }
  plan->base.workspace_bytes = bytes > in_turn_bytes ? bytes : in_turn_bytes;
  return ATTNPRESS_OK;
}

static size_t larger_size(size_t a, size_t b) {
  return a > b ? a : b;
}

/** Rows without gangs. */
static attnpress_status plan_rows_backward(const ap_layernorm_problem *p, const ap_device *device,
                                           ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[0], other;
  int fits = 0, other_fits;
  FORWARD_IF(find_odd_kernel(p, device, AP_LAYERNORM_PASS_BWD, &other, &other_fits));
  for (int32_t class = first_class(p->columns);
       p->columns <= AP_LAYERNORM_BWD_COLS_MAX && !fits && class < backward_classes(); ++class)
    FORWARD_IF(find_kernel(p, device, AP_LAYERNORM_PASS_BWD, AP_LAYERNORM_ROWS_ALIGNED, class,
                           launch, &fits));
  if (!other_fits && fits && p->columns > AP_LAYERNORM_HELD_COLS_MAX)
    return plan_wide_backward(p, device, plan);
  if (!other_fits)
    return fits ? plan_at_once(p, device, plan) : plan_in_turn(p, device, plan);
  /* The workspace's size is that of any kernel: it does not depend on pointers and strides. */
  size_t needed = 0;
  ap_launch joined, few;
  int joined_fits = 0, few_fits;
  FORWARD_IF(find_short_kernel(p, device, &few, &few_fits));
  if (few_fits)
    needed = parts_bytes(p, walkers_of(p, device, &few) * p->columns);
  for (int one = 0; p->columns > odd_block_cols(p) && one < 2; ++one) {
    ap_launch found;
    FORWARD_IF(find_joined_kernel(p, device, &other, one, &found, &joined_fits));
    if (joined_fits)
      needed = larger_size(needed, parts_bytes(p, parts_of(&found, walkers_of(p, device, &found)) *
                                                      pitch_of(p, &found)));
    if (one == has_one_class(p))
      joined = found;
  }
  if (fits)
    needed = larger_size(needed, parts_bytes(p, walkers_of(p, device, launch) * p->columns));
  needed = larger_size(
      needed, parts_bytes(p, parts_of(&other, walkers_of(p, device, &other)) * p->columns));
  if (begins_anywhere(p))
    *launch = joined_fits && has_joined_rows(p) ? joined : other;
  if (few_fits && has_gradients_in_turn(p))
    *launch = few;
  FORWARD_IF(fits || begins_anywhere(p) ? plan_at_once(p, device, plan)
                                        : plan_in_turn(p, device, plan));
  if (fits || !begins_anywhere(p))
    plan->base.workspace_bytes = larger_size(plan->base.workspace_bytes, needed);
  return ATTNPRESS_OK;
}

/** A gang's launch, and what adds up the parts. */
static attnpress_status plan_gang(const ap_layernorm_problem *p, const ap_device *device,
                                  const gang_shape *gang, ap_layernorm_plan *plan) {
  ap_launch *launch = &plan->base.launch[0];
  *launch = gang->launch;
  launch->grid = (uint32_t)(gang->gangs * gang->blocks);
  launch->together = 1;
  plan->base.count = 1;
  plan->gang = gang->blocks;
  plan->told_bytes = told_bytes(device);
  plan->parts = gang->gangs;
  plan->pitch = pitch_of(p, launch);
  if (gang_parts(gang) > 0)
    FORWARD_IF(plan_reduce(p, device, plan));
  return ATTNPRESS_OK;
}

/** Takes gangs in place of other kernels, where they are faster. The workspace is enough for either, and
 * for gangs of rows of both kinds, with dsum and without: its size depends on neither pointers nor
 * strides. */
static attnpress_status prefer_gang(const ap_layernorm_problem *p, const ap_device *device,
                                    ap_layernorm_plan *plan) {
  const int32_t matrices = p->tensor[AP_LAYERNORM_DSUM].data != NULL ? 3 : 2;
  size_t bytes = plan->base.workspace_bytes;
  for (int split = 0; split < 2; ++split) {
    const int32_t rows = split ? AP_LAYERNORM_ROWS_SPLIT : AP_LAYERNORM_ROWS_GANG;
    gang_shape gang;
    if (!is_gang_faster(p, rows, 3)) /* nor of less matrices */
      continue;
    FORWARD_IF(find_gang(p, device, rows, 2, &gang)); /* of more there are no more gangs */
    if (gang.gangs == 0)
      continue;
    const size_t needed =
        told_bytes(device) + parts_bytes(p, gang_parts(&gang) * pitch_of(p, &gang.launch));
    bytes = larger_size(bytes, needed);
    FORWARD_IF(find_gang(p, device, rows, matrices, &gang));
    if (gang.gangs > 0 && is_gang_faster(p, rows, matrices) &&
        (split ? begins_anywhere(p) && has_gradients_cut_alike(p) : !begins_anywhere(p)))
      FORWARD_IF(plan_gang(p, device, &gang, plan));
  }
  plan->base.workspace_bytes = bytes;
  return ATTNPRESS_OK;
}

static attnpress_status plan_backward(const ap_layernorm_problem *p, const ap_device *device,
                                      ap_layernorm_plan *plan) {
  if (p->rows == 0) /* the sums of nothing are 0 */
    return plan_reduce(p, device, plan);
  FORWARD_IF(plan_rows_backward(p, device, plan));
  return prefer_gang(p, device, plan);
}

/* ---- A range --------------------------------------------------------------------------------- */

/** Whether a range has room for another launch, which is then its next. */
static attnpress_status find_room(const ap_launches *plan) {
  RETURN_IF(plan->count == AP_LAUNCHES_MAX, ATTNPRESS_NOT_SUPPORTED,
            "more than %d kernels serve one range of shapes", AP_LAUNCHES_MAX);
  return ATTNPRESS_OK;
}

/** Kernels of the classes up to `last_class`, and of the next ones, up to `room`, to the first that there
 * is, if there is none of that. */
static attnpress_status range_of_rows(const ap_layernorm_problem *p, const ap_device *device,
                                      int32_t pass, int32_t rows, int32_t last_class, int32_t room,
                                      ap_launches *plan) {
  const int32_t end = pass == AP_LAYERNORM_PASS_FWD || rows != AP_LAYERNORM_ROWS_ALIGNED
                          ? classes()->count
                          : backward_classes();
  int fits = 0;
  for (int32_t class = 0; class < end && (class <= last_class || (class <= room && !fits));
       ++class) {
    FORWARD_IF(find_room(plan));
    FORWARD_IF(find_kernel(p, device, pass, rows, class, &plan->launch[plan->count], &fits));
    plan->count += fits;
  }
  return ATTNPRESS_OK;
}

static attnpress_status range_of_pass(const ap_layernorm_problem *p, const ap_device *device,
                                      int32_t pass, int32_t last_class, ap_launches *plan) {
  static const int32_t moved[] = {
      AP_LAYERNORM_ROWS_BULK,   AP_LAYERNORM_ROWS_CUT,   AP_LAYERNORM_ROWS_DIRECT,
      AP_LAYERNORM_ROWS_PACKED, AP_LAYERNORM_ROWS_PAIRS, AP_LAYERNORM_ROWS_PIECES,
      AP_LAYERNORM_ROWS_WHOLE,  AP_LAYERNORM_ROWS_ADDED, AP_LAYERNORM_ROWS_EDGED,
      AP_LAYERNORM_ROWS_SUMMED, AP_LAYERNORM_ROWS_RINGED};
  const int32_t all = classes()->count, last_short = first_class(SHORT_COLS_MAX);
  FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_ALIGNED, last_class, all, plan));
  /* Rows that the copy engine moves have another kernel, too, that of the last class here. */
  const int32_t room = first_class(plan->launch[plan->count - 1].variant.axis[AP_LAYERNORM_COLS]);
  for (size_t i = 0; pass == AP_LAYERNORM_PASS_FWD && i < sizeof moved / sizeof *moved; ++i) {
    const int edges = moved[i] == AP_LAYERNORM_ROWS_CUT || moved[i] == AP_LAYERNORM_ROWS_RINGED ||
                      moved[i] == AP_LAYERNORM_ROWS_DIRECT || moved[i] == AP_LAYERNORM_ROWS_EDGED;
    FORWARD_IF(
        range_of_rows(p, device, pass, moved[i], last_class + edges, room + 2 * edges, plan));
  }
  if (pass == AP_LAYERNORM_PASS_FWD)
    FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_APART,
                             first_class(classes()->values[last_class] + ODD_EDGES), all, plan));
  /* And those that are longer than its rows. */
  if (pass == AP_LAYERNORM_PASS_FWD && classes()->values[last_class] >= WIDE_PAIR_COLS)
    FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_WIDE, all - 1, 0, plan));
  /* Odd rows of a cluster have less columns than their class. */
  const int32_t last_odd = last_class + (pass == AP_LAYERNORM_PASS_BWD &&
                                         classes()->values[last_class] > ODD_BLOCK_COLS_MAX);
  FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_ODD, last_odd, all, plan));
  if (pass == AP_LAYERNORM_PASS_BWD)
    FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_SHORT,
                             (int32_t)smaller(last_class, last_short), 0, plan));
  if (last_odd == last_class)
    return ATTNPRESS_OK;
  FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_JOINED, last_class, all, plan));
  return range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_SORTED, last_odd, all, plan);
}

/** What parts take at most, of any number of rows. */
static size_t range_workspace(const ap_layernorm_problem *p, const ap_device *device, int64_t most,
                              const ap_launches *plan) {
  const int64_t in_turn = (int64_t)device->sm_count * PARAMS_BLOCKS_OF_SM * 32 *
                          (VECTOR_BYTES / ap_element_bytes(p->dtype));
  int64_t parts_columns = in_turn > most ? in_turn : most;
  size_t told = 0;
  for (int i = 0; i < plan->count; ++i) {
    const ap_launch *launch = &plan->launch[i];
    if (launch->variant.axis[AP_LAYERNORM_PASS] != AP_LAYERNORM_PASS_BWD)
      continue;
    if (is_of_gang(launch)) {
      told = told_bytes(device);
      parts_columns = larger(parts_columns, (int64_t)device->sm_count * GANG_BLOCK_COLS);
      continue;
    }
    const int64_t class = launch->variant.axis[AP_LAYERNORM_COLS];
    const int64_t columns = class == ODD_BLOCK_COLS_MAX ? ODD_BLOCK_COLS_MOST : class + ODD_EDGES;
    /* Parts of joined rows are up to so many columns longer. */
    const int64_t longest = most + SUM_VECTOR_COLUMNS - 1;
    const int64_t needed =
        smaller(columns, longest) * parts_of(launch, walkers_at_once(device, launch));
    if (needed > parts_columns)
      parts_columns = needed;
  }
  return told + parts_bytes(p, parts_columns);
}

/** The kernels of gangs, of rows of either kind. */
static attnpress_status range_of_gangs(const ap_layernorm_problem *p, const ap_device *device,
                                       ap_launches *plan) {
  for (int i = 0; i < (p->backward ? 2 : 4); ++i) {
    int fits;
    FORWARD_IF(find_room(plan));
    FORWARD_IF(find_gang_kernel(p, device, forward_gang_rows(i % 2, i / 2),
                                &plan->launch[plan->count], &fits));
    plan->count += fits;
  }
  return ATTNPRESS_OK;
}

static attnpress_status plan_range(const ap_layernorm_problem *p, const ap_device *device,
                                   ap_launches *plan) {
  static const int32_t in_turn[] = {AP_LAYERNORM_PASS_BWD_DX, AP_LAYERNORM_PASS_BWD_PARAMS,
                                    AP_LAYERNORM_PASS_BWD_REDUCE};
  const int64_t most = p->columns == 0 ? ATTNPRESS_LAYERNORM_COLUMNS_MAX : p->columns;
  const int32_t last = first_class(most);
  if (!p->backward) {
    FORWARD_IF(range_of_pass(p, device, AP_LAYERNORM_PASS_FWD, last, plan));
    return most > GANG_COLS_MIN ? range_of_gangs(p, device, plan) : ATTNPRESS_OK;
  }
  FORWARD_IF(range_of_pass(p, device, AP_LAYERNORM_PASS_BWD,
                           last < backward_classes() ? last : backward_classes() - 1, plan));
  if (ap_layernorm_has_sums(p) && most > GANG_WHOLE_DSUM_COLS_MIN)
    FORWARD_IF(range_of_gangs(p, device, plan));
  for (int i = 0; i < (ap_layernorm_has_sums(p) ? 3 : 1); ++i) {
    FORWARD_IF(find_room(plan));
    FORWARD_IF(find_long_kernel(p, device, in_turn[i], &plan->launch[plan->count++]));
  }
  if (ap_layernorm_has_sums(p))
    plan->workspace_bytes = range_workspace(p, device, most, plan);
  return ATTNPRESS_OK;
}

attnpress_status ap_layernorm_plan_call(const ap_layernorm_problem *p, const ap_device *device,
                                        int32_t range, ap_layernorm_plan *plan) {
  plan->base.count = 0;
  plan->base.workspace_bytes = 0;
  plan->parts = plan->sum_shift = plan->gang = 0;
  plan->told_bytes = 0;
  plan->pitch = p->columns;
  FORWARD_IF(ap_check_capability(device->capability));
  if (range == ATTNPRESS_UP_TO)
    return plan_range(p, device, &plan->base);
  if (p->columns == 0 || (p->rows == 0 && !ap_layernorm_has_sums(p)))
    return ATTNPRESS_OK;
  return p->backward ? plan_backward(p, device, plan) : plan_forward(p, device, plan);
}
