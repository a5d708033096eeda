/* Runs layernorm kernels under the emulator. */
#include "family_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/layernorm/reference.h"
#include "../../tools/rows.h"
#include "attnpress/args/layernorm.h"
#include "layernorm/layernorm.h"
#include "memory.h"

enum {
  MATRICES = 4,
  VECTORS = 7,
  RANGE_BYTES = 160,
  ODD_EDGES = 7,
  MOVED_EDGES = 14,
  ODD_BLOCK_COLS_MAX = 8192,  /* of the longest class of odd rows that are one block's, backward */
  ODD_BLOCK_MORE_COLS = 1024, /* than it has */
  ODD_PERIOD = 8,
  SPECIAL_STEP = 5, /* rows from one with NaNs to the next */
  ODD_GAP = 5,      /* elements between rows that begin anywhere */
  WORD_PERIOD = 2,
  VECTOR_BYTES = 16,
  APART_LEAST = 9, /* columns of rows that surely lie across two vectors */
  GATHERED_CLASS_FIRST = 32,
  SLICE_LEAST = 5,    /* of rows of which one of two lanes has two words */
  GATHERED_LEAST = 8, /* of slices; where their rows begin, beside their gap */
  SLICE_BEGIN = 3
};

typedef enum layernorm_layout {
  PACKED,        /* rows without gaps */
  SHIFTED,       /* the same, and each tensor begins at another element of a vector */
  ODD,           /* rows begin at any element, all tensors at the same ones */
  MIXED,         /* each tensor at others */
  APART,         /* tensors begin alike, x without gaps between its rows, the others with some */
  FAR,           /* rows more than 2^31 elements apart */
  VECTORS_APART, /* rows of whole vectors, with whole vectors between them */
  SLICE,         /* rows of x with any gap, from any element on, the others packed */
} layernorm_layout;

typedef struct layernorm_shape {
  int64_t rows, columns;
  layernorm_layout layout;
  int in_place;   /* y over x, dx over dy */
  int more;       /* a residual, or dsum */
  int parameters; /* weight and bias; 2: at addresses that are multiples of an element alone */
  int special;    /* some rows hold NaNs */
  int blocks;     /* of kernels that walk over rows, or that share them */
  float mean;     /* of x */
  int no_bias;    /* weight alone */
  int cluster;    /* thread blocks that share a row, where the launch says how many */
  int64_t gap;    /* of a slice: elements between rows of x */
} layernorm_shape;

static int32_t pass_of(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_PASS];
}

static void read_tile(const char *source, const ap_variant *variant, ap_tile *tile) {
  *tile = (ap_tile){.threads = source_constant(source, "THREADS"),
                    .smem_bytes = source_constant(source, "SMEM_BYTES")};
  tile->field[AP_LAYERNORM_TILE_WARPS] = tile->threads / 32;
  tile->field[AP_LAYERNORM_TILE_ROW_THREADS] = source_constant(source, "ROW_THREADS");
  tile->field[AP_LAYERNORM_TILE_GROUPS] = 1;
  if (variant->axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SORTED)
    tile->field[AP_LAYERNORM_TILE_GROUPS] = source_constant(source, "CLUSTER_ROWS");
  tile->field[AP_LAYERNORM_TILE_STEP] = source_constant(source, "STEP");
  tile->field[AP_LAYERNORM_TILE_PIECE] = source_constant(source, "PIECE");
  tile->field[AP_LAYERNORM_TILE_PACKED] =
      tile->field[AP_LAYERNORM_TILE_PIECE] > 0 && source_constant(source, "TEAM") < tile->threads;
}

/* Gradients of rows of 16 bits that begin elsewhere in x than in the other matrices. */
static int is_odd_slice(const kernel *k) {
  return pass_of(k) == AP_LAYERNORM_PASS_BWD &&
         k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SHIFTED;
}

static int is_odd(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_ODD || is_odd_slice(k);
}

/* Odd rows that are cut into vectors. */
static int is_cut_by_vectors(const kernel *k) {
  return is_odd(k) && k->variant.axis[AP_LAYERNORM_DTYPE] != ATTNPRESS_FP32;
}

/* Odd rows that the thread blocks of a cluster share. */
static int has_odd_clusters(const kernel *k) {
  return is_odd(k) && ap_layernorm_cluster(&k->tile) > 1;
}

/* Those that begin alike in all matrices, and a cluster's at one element of a vector. */
static int is_sorted(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SORTED;
}

static int is_packed(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_PACKED;
}

/* Rows of whole vectors that come to a ring of each warp, with a residual. */
static int is_summed(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SUMMED;
}

/* Those, and such rows without; and rows that are cut. */
static int is_bulk(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_BULK || is_summed(k);
}

static int is_cut(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_CUT;
}

/* Rows that begin anywhere, but alike in all matrices, with a residual or without. */
static int is_ringed(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_RINGED;
}

/* Rows of this kind that come to no ring. */
static int is_direct(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_DIRECT;
}

/* Rows that as many blocks of a cluster share as they need. */
static int is_wide(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_WIDE;
}

/* Whether parameters are fp32, and rows are not. */
static int has_double_parameters(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_PARAMS] == ATTNPRESS_FP32 &&
         k->variant.axis[AP_LAYERNORM_DTYPE] != ATTNPRESS_FP32;
}

/* Rows that blocks share which all run at the same time, with a residual. */
static int is_gang_of_sums(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_GANGSUM ||
         k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SPLITSUM;
}

/* And without one. */
static int is_gang(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_GANG ||
         k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SPLIT || is_gang_of_sums(k);
}

/* Of the forward pass: their launches take turns in memory of the kernel's own. */
static int is_forward_gang(const kernel *k) {
  return is_gang(k) && pass_of(k) == AP_LAYERNORM_PASS_FWD;
}

/* Of them, those that begin anywhere. */
static int is_split(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SPLIT ||
         k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SPLITSUM;
}

/* Short rows of this kind, some to a warp. */
static int is_pairs(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_PAIRS;
}

/* Short rows of whole vectors, some to a warp or a block. */
static int is_pieces(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_PIECES;
}

/* Gradients of rows of few columns, some to a warp, of which x is a slice of a wider matrix. */
static int is_slice(const kernel *k) {
  return pass_of(k) == AP_LAYERNORM_PASS_BWD &&
         k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_GATHERED;
}

/* Those, and others that lie one after the other. */
static int is_short(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SHORT || is_slice(k);
}

/* Longer ones with a residual, read straight into registers. */
static int is_added(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_ADDED;
}

/* Those, and others without. */
static int is_whole(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_WHOLE || is_added(k);
}

/* Rows that begin anywhere, but alike in all matrices, read so. */
static int is_edged(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_EDGED;
}

/* Elsewhere in x than in y. */
static int is_shifted(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_SHIFTED && !is_odd_slice(k);
}

/* Rows of 16 bits that begin anywhere in x and in y, and are moved in registers. */
static int is_moved(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_MOVED;
}

/* Rows of 16 bits that begin anywhere, elsewhere in x than in y. */
static int is_apart(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_APART;
}

/* Short rows of 16 bits that begin anywhere in x, and lie one after the other in y. */
static int is_gathered(const kernel *k) {
  return k->variant.axis[AP_LAYERNORM_ROWS] == AP_LAYERNORM_ROWS_GATHERED && !is_slice(k);
}

/* Rows that lie one after the other; of `direct` and the like y is another matrix than x. */
static int is_without_gaps(const kernel *k) {
  return is_packed(k) || is_cut(k) || is_direct(k) || is_pairs(k) ||
         (is_split(k) && pass_of(k) == AP_LAYERNORM_PASS_FWD);
}

/* Rows that begin alike in all matrices, each at the same element of a vector. */
static int is_cut_alike(const kernel *k) {
  return is_edged(k) || is_ringed(k) || is_sorted(k) || (is_split(k) && !is_without_gaps(k));
}

/* Rows that no kernel of a class above takes. */
static int is_of_one_class(const kernel *k) {
  return is_moved(k) || is_shifted(k) || is_bulk(k) || is_cut(k) || is_ringed(k) || is_direct(k) ||
         is_edged(k) || is_whole(k) || is_sorted(k) || has_odd_clusters(k) || is_gathered(k);
}

/* Rows with weight, and without bias. */
static int has_no_bias(const kernel *k) {
  return (is_moved(k) || is_shifted(k) || is_direct(k) || is_edged(k) || is_whole(k) ||
          is_apart(k) || is_wide(k) || is_forward_gang(k)) &&
         k->variant.axis[AP_LAYERNORM_NORM] == AP_LAYERNORM_NORM_RMS;
}

/* Elements of a vector but one: columns that a cut row has less than its class. Without edges, those that
 * are read straight into registers have vectors of as many elements as their parameters' have. */
static int64_t cut_edges(const kernel *k) {
  if (is_moved(k)) /* of x, and of y */
    return MOVED_EDGES;
  const int64_t size = ap_element_bytes(k->variant.axis[AP_LAYERNORM_DTYPE]);
  const int64_t kept = ap_element_bytes(k->variant.axis[AP_LAYERNORM_PARAMS]);
  return VECTOR_BYTES / (is_direct(k) && kept > size ? kept : size) - 1;
}

static int64_t most_columns(const kernel *k) {
  const int64_t takes = k->variant.axis[AP_LAYERNORM_COLS];
  if (is_cut(k) || is_ringed(k) || is_direct(k) || is_edged(k) || is_apart(k) || is_shifted(k) ||
      is_moved(k) || has_odd_clusters(k) || is_sorted(k) || is_wide(k))
    return takes - cut_edges(k);
  if (is_packed(k))
    return ap_element_bytes(k->variant.axis[AP_LAYERNORM_DTYPE]) == 2 ? takes + ODD_EDGES : takes;
  if (is_cut_by_vectors(k) && pass_of(k) == AP_LAYERNORM_PASS_BWD && takes == ODD_BLOCK_COLS_MAX)
    return takes + (k->variant.axis[AP_LAYERNORM_PARAMS] == ATTNPRESS_FP32 ? ODD_BLOCK_MORE_COLS / 2
                                                                           : ODD_BLOCK_MORE_COLS);
  if (takes > AP_LAYERNORM_HELD_COLS_MAX)
    return ATTNPRESS_LAYERNORM_COLUMNS_MAX;
  return is_cut_by_vectors(k) ? takes + ODD_EDGES : takes;
}

/* Columns that the library gives a kernel at least: of rows that come to a ring, or straight to registers,
 * more than the class below has. */
static int64_t least_columns(const kernel *k) {
  const ap_set *classes = &ap_families[AP_FAMILY_LAYERNORM]->axes[AP_LAYERNORM_COLS].domain;
  int64_t below = 0;
  if (is_apart(k))
    return APART_LEAST;
  if (is_slice(k))
    return SLICE_LEAST;
  if (!is_of_one_class(k))
    return 1;
  for (int i = 0; classes->values[i] < k->variant.axis[AP_LAYERNORM_COLS]; ++i)
    below = classes->values[i];
  if (is_gathered(k))
    return k->variant.axis[AP_LAYERNORM_COLS] == GATHERED_CLASS_FIRST ? GATHERED_LEAST : below + 1;
  return below + (!is_bulk(k) && !is_whole(k)
                      ? 1 - cut_edges(k)
                      : VECTOR_BYTES / ap_element_bytes(k->variant.axis[AP_LAYERNORM_DTYPE]));
}

/* Blocks that walk: those of odd rows, ODD_PERIOD rows further each time, of packed ones an even
 * number of rows. */
static int walking_blocks(const kernel *k, int blocks) {
  const int period = has_odd_clusters(k)         ? 1
                     : is_cut_by_vectors(k)      ? ODD_PERIOD
                     : is_cut(k) || is_ringed(k) ? (int)cut_edges(k) + 1
                     : is_packed(k)              ? WORD_PERIOD
                                                 : 1;
  const int multiple =
      (int)((period + ap_layernorm_block_rows(&k->tile) - 1) / ap_layernorm_block_rows(&k->tile));
  return (blocks + multiple - 1) / multiple * multiple;
}

/* ---- A call ---------------------------------------------------------------------------------- */

/* Matrices: x, residual, y, sum or x, dy, dsum, dx. Vectors: weight, bias, mean, rstd, and of the
 * backward pass the parts of dweight and dbias. */
typedef struct call {
  layernorm_case c;
  int32_t pass;
  memory memory[MATRICES + VECTORS];
  void *matrix[MATRICES], *before; /* before: what a call in place writes over */
  int64_t stride[MATRICES];
  void *vector[VECTORS];
  int walkers;    /* thread blocks or clusters */
  int parts;      /* of dweight and of dbias */
  int64_t pitch;  /* columns from one of these to the next */
  int cluster;    /* thread blocks of one */
  int turn;       /* whose it is among launches that take turns */
  float *sums[2]; /* (columns), of the parts */
} call;

enum { WEIGHT, BIAS, MEAN, RSTD, WEIGHT_PARTS, BIAS_PARTS, TOLD };
enum { TOLD_ROWS = 16, TOLD_WORDS = (TOLD_ROWS + 8) * 2 }; /* of 8 bytes, of each block */
/* Forward: of each of so many launches those of blocks; then whose turn it is. */
enum {
  FORWARD_LAUNCHES = 4,
  FORWARD_BLOCKS = 160,
  FORWARD_ROWS = 16,
  FORWARD_LAUNCH_WORDS = FORWARD_BLOCKS * FORWARD_ROWS * 2,
  FORWARD_TURN = FORWARD_LAUNCHES * FORWARD_LAUNCH_WORDS,
  FORWARD_WORDS = FORWARD_TURN + 2 * FORWARD_BLOCKS
};

static int is_output(const call *c, int which) {
  return c->c.backward ? which == AP_LAYERNORM_DX
                       : which == AP_LAYERNORM_Y || which == AP_LAYERNORM_SUM;
}

/* Whether a matrix takes part at all. */
static int is_there(const call *c, int which, int more) {
  if (c->pass == AP_LAYERNORM_PASS_BWD_REDUCE)
    return 0;
  if (c->pass == AP_LAYERNORM_PASS_BWD_PARAMS)
    return which == AP_LAYERNORM_X || which == AP_LAYERNORM_DY;
  if (c->c.backward)
    return more || which != AP_LAYERNORM_DSUM;
  return more || (which != AP_LAYERNORM_RESIDUAL && which != AP_LAYERNORM_SUM);
}

/* Shared by the processes that the blocks of a cluster are. */
static void *take_memory(memory *m, int64_t bytes, int64_t offset) {
  return (char *)memory_map_shared(m, (size_t)(bytes + offset)) + offset;
}

/* NaNs in the vectors beside a matrix's rows, of which a kernel that reads whole ones makes nothing.
 * before: bytes there */
static void surround_rows(const call *c, int i, int64_t before) {
  const int64_t size = ap_element_bytes(c->c.dtype), gap = (c->stride[i] - c->c.columns) * size;
  char *const data = c->matrix[i];
  memset(data - before, 0xff, (size_t)before);
  for (int64_t row = 0; row + 1 < c->c.rows; ++row)
    memset(data + (row * c->stride[i] + c->c.columns) * size, 0xff,
           (size_t)(gap < VECTOR_BYTES ? gap : VECTOR_BYTES));
}

/* Forward the last row has one, backward every fifth row of dy, from the first one on, two, at its ends:
 * others, which come later to the same places, have none of it. */
static void store_nans(const call *c, const layernorm_shape *s) {
  const int which = c->c.backward ? AP_LAYERNORM_DY : AP_LAYERNORM_X;
  if (c->matrix[which] == NULL)
    return;
  for (int64_t row = c->c.backward ? 0 : s->rows - 1; row < s->rows; row += SPECIAL_STEP) {
    const int64_t begin = row * c->stride[which];
    rows_store(c->matrix[which], begin, NAN, c->c.dtype);
    if (c->c.backward)
      rows_store(c->matrix[which], begin + s->columns - 1, NAN, c->c.dtype);
  }
}

static void open_matrices(call *c, const layernorm_shape *s, uint64_t seed) {
  const int64_t size = ap_element_bytes(c->c.dtype);
  for (int i = 0; i < MATRICES; ++i) {
    const int other = s->layout == MIXED ? i : s->layout == SHIFTED ? 3 * i + 1 : 0;
    if (!is_there(c, i, s->more))
      continue;
    c->stride[i] = s->columns + (s->layout == ODD || s->layout == MIXED ? ODD_GAP + 2 * other : 0);
    if (s->layout == APART && i != AP_LAYERNORM_X)
      c->stride[i] = s->columns + ODD_GAP;
    if (s->layout == VECTORS_APART)
      c->stride[i] = s->columns + VECTOR_BYTES * (1 + i);
    if (s->layout == FAR)
      c->stride[i] = ((int64_t)1 << 31) + 5;
    int64_t before = (s->layout == ODD ? 3 : other) * size;
    if (s->layout == SLICE && i == AP_LAYERNORM_X) {
      c->stride[i] = s->columns + s->gap;
      before = (s->gap + SLICE_BEGIN) % (VECTOR_BYTES / size) * size;
    }
    c->matrix[i] = take_memory(
        &c->memory[i], rows_span_bytes(s->rows, s->columns, c->stride[i], c->c.dtype), before);
    surround_rows(c, i, before);
    if (!is_output(c, i))
      rows_fill(c->matrix[i], s->rows, s->columns, c->stride[i], c->c.dtype,
                i == AP_LAYERNORM_X ? (double)s->mean : 0.1, 1.0, seed + (uint64_t)i);
    for (int64_t row = 0; is_output(c, i) && row < s->rows; ++row)
      memset((char *)c->matrix[i] + row * c->stride[i] * size, 0xff, (size_t)(s->columns * size));
  }
  if (s->special)
    store_nans(c, s);
}

static void open_vectors(call *c, const layernorm_shape *s, uint64_t seed) {
  const int32_t dtype = c->c.param_dtype;
  const int64_t offset = s->parameters == 2 ? ap_element_bytes(dtype) : 0;
  const int reduces = c->pass == AP_LAYERNORM_PASS_BWD_REDUCE;
  for (int i = WEIGHT; i <= (s->no_bias ? WEIGHT : BIAS) && s->parameters; ++i) {
    c->vector[i] =
        take_memory(&c->memory[MATRICES + i], s->columns * ap_element_bytes(dtype), offset);
    rows_fill(c->vector[i], 1, s->columns, s->columns, dtype, i == WEIGHT ? 1.0 : 0.0, 0.5,
              seed + 50 + (uint64_t)i);
  }
  for (int i = MEAN; i <= RSTD && !reduces; ++i)
    c->vector[i] = i == MEAN && c->c.rms /* of odd numbers of rows, at no multiple of a vector */
                       ? NULL
                       : take_memory(&c->memory[MATRICES + i], s->rows * 4, (int)(s->rows % 2) * 4);
  for (int i = WEIGHT_PARTS; i <= BIAS_PARTS && c->c.backward; ++i) {
    const int64_t count = c->parts * c->pitch;
    if (c->pass == AP_LAYERNORM_PASS_BWD_DX || (i == WEIGHT_PARTS && s->parameters == 0))
      continue;
    c->vector[i] = take_memory(&c->memory[MATRICES + i], count * 4, 0);
    memset(c->vector[i], 0xff, (size_t)count * 4);
    if (reduces)
      rows_fill(c->vector[i], c->parts, s->columns, c->pitch, ATTNPRESS_FP32, 0.0, 1.0,
                seed + 60 + (uint64_t)i);
  }
}

/* Where a block tells of a round. */
static uint64_t *forward_told(const call *c, int launch, int block, int round) {
  return (uint64_t *)c->vector[TOLD] + launch * FORWARD_LAUNCH_WORDS +
         2 * (round * FORWARD_BLOCKS + block);
}

/* As launches before have left it: it is a launch's turn, which has zeros, and others have told of rows. */
static void open_forward_told(call *c, int turn) {
  c->turn = turn;
  c->vector[TOLD] = take_memory(&c->memory[MATRICES + TOLD], (int64_t)FORWARD_WORDS * 8, 0);
  uint64_t *const words = c->vector[TOLD];
  for (int i = 0; i < FORWARD_TURN; ++i) {
    const int launch = i / FORWARD_LAUNCH_WORDS;
    const int round = i % FORWARD_LAUNCH_WORDS / 2 / FORWARD_BLOCKS;
    words[i] = launch == turn ? 0 : (uint64_t)(round + 1) << 32 | 0x41200000; /* 10 */
  }
  for (int i = 0; i < FORWARD_BLOCKS; ++i)
    words[FORWARD_TURN + 2 * i] = (uint64_t)turn;
}

/* Whether a launch has left it to the next, with zeros. */
static int is_left_to_next(const call *c) {
  const uint64_t *const words = c->vector[TOLD];
  const int next = (c->turn + 1) % FORWARD_LAUNCHES;
  for (int block = 0; block < c->walkers * c->cluster; ++block) {
    if (words[FORWARD_TURN + 2 * block] != (uint64_t)next)
      return 0;
    for (int i = 0; i < 2 * FORWARD_ROWS; ++i)
      if (forward_told(c, next, block, i / 2)[i % 2] != 0)
        return 0;
  }
  return 1;
}

/* What an earlier call of the same kind may have left where a gang's blocks tell each other. */
static void open_told(call *c) {
  const int64_t words = (int64_t)c->walkers * c->cluster * TOLD_WORDS;
  const int64_t rows = (int64_t)c->walkers * c->cluster * TOLD_ROWS * 2;
  c->vector[TOLD] = take_memory(&c->memory[MATRICES + TOLD], words * 8, 0);
  for (int64_t i = 0; i < words; ++i) {
    const uint64_t row = i < rows ? (uint64_t)(i / (2 * c->cluster) % TOLD_ROWS) : 0;
    ((uint64_t *)c->vector[TOLD])[i] = (row + 1) << 32 | 0x7149f2ca; /* 1e30 */
  }
}

/* What the reference reads. */
static void describe(call *c, const layernorm_shape *s) {
  layernorm_matrix m[MATRICES];
  for (int i = 0; i < MATRICES; ++i)
    m[i] = (layernorm_matrix){c->matrix[i], c->stride[i]};
  c->c.weight = c->vector[WEIGHT];
  c->c.bias = c->vector[BIAS];
  c->c.mean = c->vector[MEAN];
  c->c.rstd = c->vector[RSTD];
  c->c.x = m[AP_LAYERNORM_X];
  if (c->c.backward) {
    c->c.dy = m[AP_LAYERNORM_DY];
    c->c.dsum = m[AP_LAYERNORM_DSUM];
    c->c.dx = m[AP_LAYERNORM_DX];
    for (int64_t row = 0; c->matrix[0] != NULL && row < s->rows; ++row) {
      float mean, rstd;
      layernorm_moments(&c->c, row, &mean, &rstd);
      if (c->vector[MEAN] != NULL)
        ((float *)c->vector[MEAN])[row] = mean;
      ((float *)c->vector[RSTD])[row] = rstd;
    }
  } else {
    c->c.residual = m[AP_LAYERNORM_RESIDUAL];
    c->c.y = m[AP_LAYERNORM_Y];
    c->c.sum = m[AP_LAYERNORM_SUM];
    memset(c->vector[RSTD], 0xff, (size_t)s->rows * 4);
    if (c->vector[MEAN] != NULL)
      memset(c->vector[MEAN], 0xff, (size_t)s->rows * 4);
  }
}

/* The output over an input, of which the reference has a copy. */
static void put_in_place(call *c, const layernorm_shape *s) {
  const int out = c->c.backward ? AP_LAYERNORM_DX : AP_LAYERNORM_Y;
  const int over = c->c.backward ? AP_LAYERNORM_DY : AP_LAYERNORM_X;
  layernorm_matrix *const input = c->c.backward ? &c->c.dy : &c->c.x;
  layernorm_matrix *const output = c->c.backward ? &c->c.dx : &c->c.y;
  const int64_t size = ap_element_bytes(c->c.dtype);
  if (!s->in_place || c->matrix[out] == NULL)
    return;
  c->before =
      copy_rows(c->matrix[over], s->rows, (size_t)(s->columns * size), c->stride[over] * size);
  *input = (layernorm_matrix){c->before, s->columns};
  c->matrix[out] = c->matrix[over];
  c->stride[out] = c->stride[over];
  *output = (layernorm_matrix){c->matrix[over], c->stride[over]};
}

/* Clusters of sorted rows: as many of each class of them, which begin at one element of a vector. */
static int sorted_clusters(const layernorm_shape *s, int64_t stride) {
  int classes = ODD_PERIOD;
  while (classes > 1 && stride * (classes / 2) % ODD_PERIOD == 0)
    classes /= 2;
  return classes * s->blocks;
}

static void call_open(call *c, const kernel *k, const layernorm_shape *s, uint64_t seed) {
  const int32_t *axis = k->variant.axis;
  *c = (call){.c = {.backward = pass_of(k) != AP_LAYERNORM_PASS_FWD,
                    .rms = axis[AP_LAYERNORM_NORM] == AP_LAYERNORM_NORM_RMS,
                    .dtype = axis[AP_LAYERNORM_DTYPE],
                    .param_dtype = axis[AP_LAYERNORM_PARAMS],
                    .eps = 1e-5f,
                    .rows = s->rows,
                    .columns = s->columns},
              .pass = pass_of(k),
              .walkers = walking_blocks(k, s->blocks),
              .cluster = is_wide(k) || is_gang(k) ? s->cluster : ap_layernorm_cluster(&k->tile)};
  /* Of sorted, of split and of short rows parts begin at multiples of 16 bytes. */
  const int apart = is_sorted(k) || is_split(k) || is_short(k) ||
                    (c->pass == AP_LAYERNORM_PASS_BWD_REDUCE && s->columns % 3 > 0);
  c->pitch = apart ? (s->columns + 3) / 4 * 4 : s->columns;
  open_matrices(c, s, seed);
  if (is_sorted(k))
    c->walkers = sorted_clusters(s, c->stride[AP_LAYERNORM_X]);
  /* Clusters of odd rows write those of each class of rows that does not end with theirs, too. */
  c->parts = c->walkers + (has_odd_clusters(k) ? ODD_PERIOD - 1 : 0);
  open_vectors(c, s, seed);
  if (is_forward_gang(k))
    open_forward_told(c, (int)(seed / 1000 % FORWARD_LAUNCHES));
  else if (is_gang(k))
    open_told(c);
  describe(c, s);
  put_in_place(c, s);
}

static void call_close(call *c) {
  for (int i = 0; i < MATRICES + VECTORS; ++i)
    memory_unmap(&c->memory[i]);
  free(c->before);
  free(c->sums[0]);
  free(c->sums[1]);
}

/* ---- Launches -------------------------------------------------------------------------------- */

static void call_forward(void (*function)(void), const void *args) {
  ((void (*)(attnpress_layernorm_fwd_args))function)(*(const attnpress_layernorm_fwd_args *)args);
}

static void call_backward(void (*function)(void), const void *args) {
  ((void (*)(attnpress_layernorm_bwd_args))function)(*(const attnpress_layernorm_bwd_args *)args);
}

static void call_reduce(void (*function)(void), const void *args) {
  ((void (*)(attnpress_layernorm_reduce_args))function)(
      *(const attnpress_layernorm_reduce_args *)args);
}

/* The matrices among these, which come first. */
static int matrix_count(const call *c) {
  int count = c->before == NULL ? 0 : -1;
  for (int i = 0; i < MATRICES; ++i)
    count += c->matrix[i] != NULL;
  return count;
}

/* What the launch may touch. In place, the output alone: what is written may be read. */
static int list_tensors(const call *c, emulated_tensor *tensors) {
  static const char *const names[2][MATRICES] = {{"x", "residual", "y", "sum"},
                                                 {"x", "dy", "dsum", "dx"}};
  static const char *const vectors[VECTORS] = {"weight",       "bias",       "mean", "rstd",
                                               "weight_parts", "bias_parts", "told"};
  const int over = c->before == NULL ? -1 : c->c.backward ? AP_LAYERNORM_DY : AP_LAYERNORM_X;
  const int reduces = c->pass == AP_LAYERNORM_PASS_BWD_REDUCE;
  int count = 0;
  for (int i = 0; i < MATRICES; ++i) {
    /* Rows without gaps are read and written as one. */
    const int64_t rows = c->stride[i] == c->c.columns ? 1 : c->c.rows;
    if (c->matrix[i] != NULL && i != over)
      tensors[count++] = (emulated_tensor){.name = names[c->c.backward][i],
                                           .data = c->matrix[i],
                                           .element_bytes = (int)ap_element_bytes(c->c.dtype),
                                           .writable = is_output(c, i),
                                           .shape = {1, 1, rows, c->c.rows / rows * c->c.columns},
                                           .stride = {0, 0, c->stride[i], 1}};
  }
  for (int i = 0; i < TOLD; ++i) {
    const int is_parts = i >= WEIGHT_PARTS, is_moment = i == MEAN || i == RSTD;
    if (c->vector[i] == NULL)
      continue;
    tensors[count++] = (emulated_tensor){
        .name = vectors[i],
        .data = c->vector[i],
        .element_bytes = is_parts || is_moment ? 4 : (int)ap_element_bytes(c->c.param_dtype),
        .writable = is_parts    ? !reduces
                    : is_moment ? !c->c.backward
                                : reduces,
        .shape = {1, 1, is_parts ? c->parts : 1,
                  is_moment  ? c->c.rows
                  : is_parts ? c->pitch
                             : c->c.columns},
        .stride = {0, 0, is_parts ? c->pitch : c->c.columns, 1}};
  }
  if (c->vector[TOLD] != NULL)
    tensors[count++] = (emulated_tensor){
        .name = vectors[TOLD],
        .data = c->vector[TOLD],
        .element_bytes = 8,
        .writable = 1,
        .shape = {1, 1, 1,
                  c->c.backward ? (int64_t)c->walkers * c->cluster * TOLD_WORDS : FORWARD_WORDS},
        .stride = {0, 0, 0, 1}};
  return count;
}

static int launch(const kernel *k, const call *c, char *report) {
  const attnpress_layernorm_fwd_args forward = {.x = c->matrix[AP_LAYERNORM_X],
                                                .residual = c->matrix[AP_LAYERNORM_RESIDUAL],
                                                .weight = c->vector[WEIGHT],
                                                .bias = c->vector[BIAS],
                                                .y = c->matrix[AP_LAYERNORM_Y],
                                                .sum = c->matrix[AP_LAYERNORM_SUM],
                                                .mean = c->vector[MEAN],
                                                .rstd = c->vector[RSTD],
                                                .rows = c->c.rows,
                                                .x_row_stride = c->stride[AP_LAYERNORM_X],
                                                .residual_row_stride =
                                                    c->stride[AP_LAYERNORM_RESIDUAL],
                                                .y_row_stride = c->stride[AP_LAYERNORM_Y],
                                                .sum_row_stride = c->stride[AP_LAYERNORM_SUM],
                                                .columns = (int32_t)c->c.columns,
                                                .eps = c->c.eps,
                                                .per_column = 1.0f / (float)c->c.columns,
                                                .cluster = c->cluster,
                                                .told = c->vector[TOLD]};
  const attnpress_layernorm_bwd_args backward = {.x = c->matrix[AP_LAYERNORM_X],
                                                 .dy = c->matrix[AP_LAYERNORM_DY],
                                                 .weight = c->vector[WEIGHT],
                                                 .dsum = c->matrix[AP_LAYERNORM_DSUM],
                                                 .mean = c->vector[MEAN],
                                                 .rstd = c->vector[RSTD],
                                                 .dx = c->matrix[AP_LAYERNORM_DX],
                                                 .weight_parts = c->vector[WEIGHT_PARTS],
                                                 .bias_parts = c->vector[BIAS_PARTS],
                                                 .rows = c->c.rows,
                                                 .x_row_stride = c->stride[AP_LAYERNORM_X],
                                                 .dy_row_stride = c->stride[AP_LAYERNORM_DY],
                                                 .dsum_row_stride = c->stride[AP_LAYERNORM_DSUM],
                                                 .dx_row_stride = c->stride[AP_LAYERNORM_DX],
                                                 .columns = (int32_t)c->c.columns,
                                                 .per_column = 1.0f / (float)c->c.columns,
                                                 .parts = c->parts,
                                                 .gang = is_gang(k) ? c->cluster : 0,
                                                 .told = c->vector[TOLD],
                                                 .pitch = (int32_t)c->pitch};
  const int32_t sum_shift = ap_layernorm_sum_shift(&k->tile, c->c.columns, c->parts);
  const attnpress_layernorm_reduce_args reduce = {.weight_parts = c->vector[WEIGHT_PARTS],
                                                  .bias_parts = c->vector[BIAS_PARTS],
                                                  .dweight = c->vector[WEIGHT],
                                                  .dbias = c->vector[BIAS],
                                                  .columns = (int32_t)c->c.columns,
                                                  .parts = c->parts,
                                                  .column_shift = sum_shift,
                                                  .pitch = (int32_t)c->pitch};
  const int64_t each = ap_layernorm_block_rows(&k->tile), by_rows = (c->c.rows + each - 1) / each;
  const int64_t lane_columns = 32 * 16 / ap_element_bytes(c->c.dtype);
  emulated_tensor tensors[MATRICES + VECTORS];
  const unsigned cluster = (unsigned)c->cluster;
  emulated_launch l = {
      .module = k->module,
      .overlaps = 1,
      .blocks = (unsigned)by_rows,
      .cluster = cluster > 1 ? cluster : 0,
      .threads = (unsigned)k->tile.threads,
      .shared_bytes = is_gathered(k) ? (size_t)ap_layernorm_gathered_bytes(
                                           &k->tile, c->c.columns, c->stride[AP_LAYERNORM_X])
                                     : (size_t)k->tile.smem_bytes,
      .args = &backward,
      .call = call_backward,
      .tensors = tensors,
      .tensor_count = list_tensors(c, tensors),
      .by_vectors = is_sorted(k) || is_split(k) ? matrix_count(c)
                    : is_gathered(k) || is_slice(k) || is_odd_slice(k) || is_moved(k) ? 1
                                                                                      : 0,
      .by_spans = is_gathered(k)};
  if (c->pass == AP_LAYERNORM_PASS_FWD) {
    l.args = &forward;
    l.call = call_forward;
    if (is_direct(k) || is_edged(k) || is_whole(k) || is_apart(k) || is_pairs(k) || is_pieces(k) ||
        is_gathered(k) || is_shifted(k) || is_moved(k))
      l.blocks = (unsigned)by_rows;
    else if (is_gang(k)) {
      l.blocks = (unsigned)c->walkers * cluster;
      l.told_zeros = 1;
    } else if (k->tile.field[AP_LAYERNORM_TILE_ROW_THREADS] > 0) /* its blocks walk over rows */
      l.blocks = (unsigned)(by_rows < c->walkers ? by_rows : c->walkers) * cluster;
  } else if (c->pass == AP_LAYERNORM_PASS_BWD_REDUCE) {
    l.args = &reduce;
    l.call = call_reduce;
    const int64_t columns = (int64_t)4 << sum_shift; /* of a block */
    l.blocks = (unsigned)((c->c.columns + columns - 1) / columns * 2);
  } else if (c->pass == AP_LAYERNORM_PASS_BWD) {
    l.blocks = (unsigned)c->walkers * cluster;
  } else if (c->pass == AP_LAYERNORM_PASS_BWD_PARAMS) {
    l.blocks = (unsigned)(c->parts * ((c->c.columns + lane_columns - 1) / lane_columns));
  }
  return emulated_run(&l, report);
}

/* ---- Results --------------------------------------------------------------------------------- */

static double sum_of_parts(const call *c, int which, int64_t column, double *size) {
  double sum = 0.0;
  for (int64_t part = 0; part < c->parts; ++part) {
    const double value = rows_load(c->vector[which], part * c->pitch + column, ATTNPRESS_FP32);
    *size += fabs(value);
    sum += value;
  }
  return sum;
}

/* dweight and dbias against the parts that they are the sums of. */
static void check_reduced(const call *c, layernorm_error *e) {
  for (int which = 0; which < 2; ++which)
    for (int64_t i = 0; i < c->c.columns; ++i) {
      double size = 0.0;
      const double expected = sum_of_parts(c, WEIGHT_PARTS + which, i, &size);
      const double value = rows_load(c->vector[which], i, c->c.param_dtype);
      const double ratio =
          fabs(value - expected) / (rows_rounding(expected, c->c.param_dtype) + 1e-6 * size);
      ++e->elements;
      if (!(ratio <= e->ratio))
        *e = (layernorm_error){isnan(ratio) ? INFINITY : ratio,  e->elements, 0,       i,
                               which == 0 ? "dweight" : "dbias", value,       expected};
    }
}

static void check(call *c, layernorm_error *e) {
  if (c->pass == AP_LAYERNORM_PASS_BWD_REDUCE) {
    check_reduced(c, e);
    return;
  }
  layernorm_check(&c->c, e);
  /* The parts, added up. */
  layernorm_case sums = c->c;
  sums.param_dtype = ATTNPRESS_FP32;
  sums.weight = NULL;
  for (int which = 0; which < 2; ++which) {
    if (c->vector[WEIGHT_PARTS + which] == NULL)
      continue;
    c->sums[which] = malloc((size_t)c->c.columns * sizeof(float));
    if (c->sums[which] == NULL)
      abort();
    for (int64_t i = 0; i < c->c.columns; ++i) {
      double size = 0.0;
      c->sums[which][i] = (float)sum_of_parts(c, WEIGHT_PARTS + which, i, &size);
    }
  }
  sums.dweight = c->sums[0];
  sums.dbias = c->sums[1];
  if (layernorm_check_sums(&sums, e) != 0)
    abort();
}

/* Runs a kernel on a shape and compares the result: 0, or -1 with the fault in `report`. */
static int run_shape(const kernel *k, const layernorm_shape *s, uint64_t seed,
                     layernorm_error *error, char *report) {
  call c;
  call_open(&c, k, s, seed);
  int status = launch(k, &c, report);
  if (status == 0 && is_forward_gang(k) && !is_left_to_next(&c)) {
    snprintf(report, EMULATED_REPORT_BYTES, "the next launch does not find zeros, or its turn");
    status = -1;
  }
  if (status == 0) {
    check(&c, error);
    if (!(error->ratio <= 1.0)) {
      snprintf(report, EMULATED_REPORT_BYTES,
               "%s is off by %.3g of the tolerance: row %lld, column %lld is %.9g, expected %.9g",
               error->what, error->ratio, (long long)error->row, (long long)error->column,
               error->value, error->expected);
      status = -1;
    }
  }
  call_close(&c);
  return status;
}

/* ---- A table of shapes ----------------------------------------------------------------------- */

/* Columns: so many sixteenths of what the kernel takes, and what is added. */
typedef struct shape_row {
  int sixteenths, more_columns;
  int blocks, more_rows; /* thread blocks, and rows beyond */
  layernorm_layout layout;
  int in_place, more, parameters, special; /* special: 1 forward, 2 backward */
  float mean;
} shape_row;

static const shape_row shape_rows[] = {
    {16, 0, 1, 1, PACKED, 0, 0, 1, 0, 0.5f},  {0, 1, 1, 0, PACKED, 1, 0, 1, 0, 1.0f},
    {16, -1, 1, 1, PACKED, 0, 1, 0, 1, 0.0f}, {8, 3, 2, -1, ODD, 1, 1, 1, 0, 30.0f},
    {0, 9, 0, 3, MIXED, 0, 1, 2, 0, -2.0f},   {16, 0, 0, 5, MIXED, 0, 0, 1, 0, 0.0f},
    {11, 5, 1, 2, ODD, 0, 0, 2, 0, 1.0f},     {1, 7, 0, 3, FAR, 0, 1, 1, 0, 3.0f},
    {4, 0, 3, 1, PACKED, 1, 1, 1, 0, 100.0f}, {0, 7, 1, 1, ODD, 0, 0, 0, 2, 1.0f},
    {12, 4, 2, 1, PACKED, 0, 0, 2, 0, 1.0f},  {12, 5, 3, 2, SHIFTED, 0, 1, 1, 2, 1.0f},
    {4, 2, 1, 3, SHIFTED, 1, 0, 1, 0, 1.0f},  {15, 3, 1, 3, APART, 0, 1, 1, 0, 1.0f},
    {16, 0, 1, 2, SHIFTED, 0, 0, 1, 0, 1.0f},
};
enum {
  WIDE_ROWS = 7,
  GANG_ROWS = 19, /* more than blocks have places for what they tell */
  GANG_SLOTS_MIN = 3,
  WIDE_SHORT_VECTORS = 8,
  LONG_COLUMNS = 20000,
  ROWS_MOST = 300,
  ELEMENTS_MOST = 120000,
  SLOT_ROUNDS = 3,
  SHORT_CLASS_FIRST = 8, /* columns */
  SLICE_CLASS_FIRST = 16,
  SHORT_CLASSES_APART = 32, /* at the most */
  SHORT_ROUNDS = 84         /* of 32 rows of each warp: five pieces of sixteen */
};

/* The least columns of rows that so many blocks of a cluster share. */
static int64_t least_of_wide(const kernel *k, int cluster) {
  const int64_t elements = VECTOR_BYTES / ap_element_bytes(k->variant.axis[AP_LAYERNORM_DTYPE]);
  const int64_t each = k->tile.threads * elements, most = k->variant.axis[AP_LAYERNORM_COLS];
  return cluster * (most / each <= WIDE_SHORT_VECTORS ? most - each
                                                      : k->tile.threads / 32 * elements * 4) +
         1;
}

static layernorm_shape make_shape(const shape_row *row, const kernel *k) {
  static const int64_t gaps[] = {[PACKED] = 0, [SHIFTED] = 31, [ODD] = 5,
                                 [MIXED] = 1,  [APART] = 32,   [FAR] = ((int64_t)1 << 32) + 6};
  const int64_t most = most_columns(k);
  const int64_t columns = most <= AP_LAYERNORM_HELD_COLS_MAX ? most : LONG_COLUMNS;
  const int rows_of_a_block =
      (int)(pass_of(k) == AP_LAYERNORM_PASS_BWD_PARAMS ? k->tile.threads / 32 * 4
                                                       : ap_layernorm_block_rows(&k->tile));
  /* Odd rows, and those of a cluster: rounds enough for each slot to be used again. */
  const int rounds = is_odd(k) || is_packed(k) || is_cut(k) || is_ringed(k) || is_bulk(k) ||
                             ap_layernorm_cluster(&k->tile) > 1
                         ? SLOT_ROUNDS
                         : 1;
  const int rows = walking_blocks(k, row->blocks) * rows_of_a_block * rounds;
  layernorm_shape s = {.rows = rows + row->more_rows,
                       .columns = columns * row->sixteenths / 16 + row->more_columns,
                       .layout = row->layout,
                       .in_place = row->in_place,
                       .more = row->more,
                       .parameters = row->parameters,
                       .special = row->special == (pass_of(k) == AP_LAYERNORM_PASS_FWD ? 1 : 2),
                       .blocks = row->blocks > 0 ? row->blocks : 1,
                       .mean = row->mean};
  if (is_of_one_class(k)) {
    const int64_t least = least_columns(k), given = least + (most - least) * row->sixteenths / 16;
    s.columns = given + row->more_columns < most ? given + row->more_columns : most;
    s.columns = s.columns > least ? s.columns : least;
  }
  if (is_without_gaps(k)) { /* it is given no others */
    s.columns = s.columns < most ? s.columns : most;
    s.layout = PACKED;
    s.in_place = s.in_place && is_pairs(k);
    s.more = s.more && is_pairs(k);
    /* Its squares hide what they differ by. */
    if (is_pairs(k) && row->mean >= 3.0f)
      s.mean = 9.0f * row->mean;
  }
  if (is_short(k)) {
    /* Nor these, nor less columns than its class; pieces of a ring are gone round. */
    const int64_t apart = most > SHORT_CLASSES_APART ? SHORT_CLASSES_APART : most / 2;
    const int first = most <= (is_slice(k) ? SLICE_CLASS_FIRST : SHORT_CLASS_FIRST);
    const int64_t before = first ? 0 : most - apart;
    const int64_t given = before + (most - before) * row->sixteenths / 16 + row->more_columns;
    s.columns = given < most ? given : most;
    s.columns = s.columns > least_columns(k) ? s.columns : least_columns(k);
    s.layout = PACKED;
    s.rows = 32 * s.blocks * k->tile.threads / 32 * SHORT_ROUNDS + row->more_rows;
  }
  if (is_slice(k) || (is_odd_slice(k) && row->layout != APART)) {
    s.gap = gaps[row->layout];
    s.layout = SLICE;
  }
  if (is_gathered(k)) { /* rows that come with what lies between them, and row by row */
    s.gap = gaps[row->layout];
    s.layout = SLICE;
    s.in_place = s.more = 0;
    /* Its squares hide what they differ by. */
    s.mean = row->mean >= 3.0f ? 9.0f * row->mean : row->mean;
  }
  if (is_apart(k)) { /* its rows lie across two vectors */
    s.columns = s.columns < APART_LEAST ? APART_LEAST : s.columns < most ? s.columns : most;
    s.in_place = s.more = 0;
  }
  if (is_shifted(k)) { /* rows begin at many elements of x, and of y */
    s.in_place = s.more = 0;
    s.rows += ODD_PERIOD;
  }
  if (is_sorted(k)) {
    s.columns = s.columns < most ? s.columns : most;
    s.more = 0;
  }
  if (is_cut_alike(k)) {
    if (is_edged(k) || is_ringed(k))
      s.columns = s.columns < most ? s.columns : most;
    if (s.layout == SHIFTED || s.layout == MIXED || s.layout == APART)
      s.layout = VECTORS_APART;
  }
  if (is_edged(k) || is_shifted(k) || is_wide(k) || is_forward_gang(k)) {
    /* in place of parameters that are aligned otherwise, the weight alone */
    s.no_bias = has_no_bias(k) || s.parameters == 2;
    s.parameters = s.parameters != 0;
  }
  if (is_moved(k)) { /* the same */
    s.columns = s.columns < most ? s.columns : most;
    s.in_place = s.more = 0;
    s.rows += ODD_PERIOD;
    /* Its squares hide what they differ by. */
    s.mean = row->mean >= 3.0f ? 9.0f * row->mean : row->mean;
  }
  if (is_direct(k) || is_whole(k) || is_apart(k) || is_moved(k)) { /* nor these */
    s.parameters = 1;
    s.no_bias = has_no_bias(k);
  }
  if (is_pieces(k)) { /* whole vectors, one row after the other */
    const int64_t elements = VECTOR_BYTES / ap_element_bytes(k->variant.axis[AP_LAYERNORM_DTYPE]);
    s.columns = s.columns < most ? s.columns - s.columns % elements : most;
    s.columns = s.columns < elements ? elements : s.columns;
    s.layout = PACKED;
  }
  if (is_bulk(k) || is_whole(k)) { /* nor these */
    s.layout = s.layout == PACKED ? PACKED : VECTORS_APART;
    s.columns -= s.columns % (VECTOR_BYTES / ap_element_bytes(k->variant.axis[AP_LAYERNORM_DTYPE]));
    s.more = is_added(k) || is_summed(k);
  }
  if (is_gang(k)) {
    /* Few columns of a block, and so many that its rings have room for three rows; they are gone
     * round. */
    const int64_t bytes = k->tile.smem_bytes / GANG_SLOTS_MIN / (row->more ? 3 : 2);
    const int64_t room = bytes / ap_element_bytes(k->variant.axis[AP_LAYERNORM_DTYPE]) -
                         2 * (cut_edges(k) + 1) * k->tile.threads / 32;
    s.cluster = 1 + row->blocks % 3;
    const int64_t registers = most - (cut_edges(k) + 1) * k->tile.threads / 32;
    s.columns = s.cluster * (room < registers ? room : registers) * row->sixteenths / 16 +
                (row->more_columns < 0 || row->sixteenths < 16 ? row->more_columns : 0);
    s.rows = GANG_ROWS * s.blocks + row->more_rows;
    if (is_forward_gang(k) && s.blocks > 2) /* some gangs have none */
      s.rows = 2;
    s.more = is_forward_gang(k) ? is_gang_of_sums(k) : row->more;
    /* Its squares hide what they differ by. */
    if (is_forward_gang(k) && row->mean >= 3.0f)
      s.mean = 9.0f * row->mean;
    if (!is_split(k)) {
      s.columns -= s.columns % (cut_edges(k) + 1);
      s.layout = row->layout == PACKED ? PACKED : VECTORS_APART;
    }
    /* Two vectors of each warp at the least. */
    const int64_t least = s.cluster * k->tile.threads / 32 * 2 * (cut_edges(k) + 1);
    s.columns = s.columns < least ? least + (is_split(k) ? row->more_columns : 0) : s.columns;
    s.columns += is_split(k) && s.columns % (cut_edges(k) + 1) == 0; /* else they are a gang's */
  }
  if (is_wide(k)) {
    /* Rows of a class leave no lane without its vectors but the last two; of the longest ones a warp has
     * a few at least. The rings are gone round. */
    const int64_t elements = VECTOR_BYTES / ap_element_bytes(k->variant.axis[AP_LAYERNORM_DTYPE]);
    s.cluster = 2 + row->blocks % 2;
    const int64_t least = least_of_wide(k, s.cluster);
    const int64_t end = s.cluster * (most + cut_edges(k));
    s.columns = least + (end - cut_edges(k) - least) * row->sixteenths / 16 + row->more_columns;
    s.columns = s.columns < least ? least : s.columns;
    s.columns = s.columns > end - cut_edges(k) ? end - cut_edges(k) : s.columns;
    s.rows = WIDE_ROWS + row->more_rows;
    /* Its squares hide what they differ by, of rows of whole vectors and of others. */
    s.mean = row->mean >= 3.0f ? 9.0f * row->mean : row->mean;
    s.more = 0;
    s.in_place = row->in_place;
    s.layout = PACKED;
    if (s.in_place || row->layout == ODD || has_double_parameters(k)) {
      s.columns -= s.columns % elements;
      s.layout = VECTORS_APART;
    }
  }
  if (pass_of(k) == AP_LAYERNORM_PASS_BWD_REDUCE) {
    s.columns = s.columns % 300 + 1;
    s.blocks = s.columns % 197 + 1; /* parts, a few rounds of them */
    s.parameters = s.parameters > 0 ? s.parameters : 1;
  }
  /* A group of warps has a few rows of a class in some. */
  const int of_class = is_sorted(k) && row->sixteenths == 0 && row->blocks == 1 ? ODD_PERIOD : 1;
  s.rows *= of_class;
  /* Of those that begin alike a warp has as many as use its places again. */
  const int rounds_of_class = is_ringed(k) && row->layout == ODD ? SLOT_ROUNDS + 1 : of_class;
  while (!is_wide(k) && !is_gang(k) && s.rows > 2 &&
         ((s.rows > ROWS_MOST && !is_short(k)) ||
          s.rows * s.columns > rounds_of_class * ELEMENTS_MOST))
    --s.rows;
  return s;
}

static void print_layernorm_shape(const layernorm_shape *s, char *text, size_t bytes) {
  static const char *const layouts[] = {"packed", "shifted",  "odd",           "mixed",
                                        "apart",  "far rows", "vectors apart", "a slice"};
  snprintf(text, bytes, "%lld rows of %lld columns, %s%s%s%s, %d blocks or parts",
           (long long)s->rows, (long long)s->columns, layouts[s->layout],
           s->in_place ? ", in place" : "", s->more ? ", with residual or dsum" : "",
           s->parameters ? ", with parameters" : "", s->blocks);
}

static int run_shapes(const kernel *k, FILE *out, int *shapes) {
  static char report[EMULATED_REPORT_BYTES];
  for (size_t i = 0; i < sizeof shape_rows / sizeof *shape_rows; ++i, ++*shapes) {
    const layernorm_shape s = make_shape(&shape_rows[i], k);
    layernorm_error error = {0};
    char text[RANGE_BYTES];
    if (run_shape(k, &s, 1000u * i + 1, &error, report) == 0)
      continue;
    print_layernorm_shape(&s, text, sizeof text);
    fprintf(out, "FAILED %s\n  shape: %s\n  %s\n", k->stem, text, report);
    return 1;
  }
  return 0;
}

const emulated_family emulated_layernorm = {read_tile, run_shapes, NULL, NULL};

/* ---- One kernel and one shape ---------------------------------------------------------------- */

static const char help[] =
    "usage: attnpress run layernorm --device emulated [OPTION]...\n\n"
    "Runs a kernel on this machine's CPU, instruction by instruction, on random inputs; watches "
    "every\naccess to memory, and checks the result against float64.\n\n"
    "  --rows N (37), --columns N (1000), --dtype TYPE (bf16), --param-dtype TYPE (--dtype),\n"
    "  --backward, --rms, --residual (or dsum, with --backward), --no-parameters, --in-place,\n"
    "  --layout LAYOUT     packed, shifted, odd, mixed, apart, far-rows or slice (packed)\n"
    "  --gap N             elements between rows of x, of a slice (4)\n"
    "  --blocks N          of kernels that walk over the rows (3)\n"
    "  --stem STEM         this kernel; without it, the first that the library would choose\n"
    "  --source FILE       this file, named after its stem, such as the generator writes\n"
    "  --templates         made by the generator from the templates as they stand now\n"
    "  --seed N            of the random inputs (1)\n";

int emulate_run_layernorm(int argc, char **argv); /* of run.c's table */

int emulate_run_layernorm(int argc, char **argv) {
  static const char *const layouts[] = {"packed",   "shifted",       "odd",   "mixed", "apart",
                                        "far-rows", "vectors-apart", "slice", NULL};
  static char report[EMULATED_REPORT_BYTES];
  layernorm_shape s = {.rows = 37, .columns = 1000, .mean = 1.0f, .gap = 4};
  int64_t seed = 1, blocks = 3;
  int dtype = ATTNPRESS_BF16, param_dtype = 0, layout = 0, backward = 0, rms = 0, bare = 0;
  run_kernel meant = {NULL, NULL, 0};
  const run_number numbers[] = {{"--rows", &s.rows, 0}, {"--columns", &s.columns, 0},
                                {"--seed", &seed, 0},   {"--blocks", &blocks, 0},
                                {"--gap", &s.gap, 0},   {NULL, NULL, 0}};
  const run_choice choices[] = {{"--layout", layouts, 0, &layout},
                                {"--dtype", run_dtype_names, ATTNPRESS_FP16, &dtype},
                                {"--param-dtype", run_dtype_names, ATTNPRESS_FP16, &param_dtype},
                                {NULL, NULL, 0, NULL}};
  const run_flag flags[] = {{"--backward", &backward},   {"--rms", &rms},
                            {"--residual", &s.more},     {"--no-parameters", &bare},
                            {"--in-place", &s.in_place}, {NULL, NULL}};
  const run_words words = {.family = "layernorm",
                           .help = help,
                           .numbers = numbers,
                           .choices = choices,
                           .flags = flags,
                           .kernel = &meant};
  int status = run_parse(&words, argc, argv);
  if (status != RUN_GOES_ON)
    return status;
  s.layout = (layernorm_layout)layout;
  s.parameters = !bare;
  s.blocks = blocks > 0 && blocks <= INT32_MAX ? (int)blocks : 1;
  const ap_layernorm_problem problem = {.backward = backward,
                                        .rows = 1,
                                        .columns = s.columns > 0 ? s.columns : 1,
                                        .dtype = dtype,
                                        .param_dtype = param_dtype ? param_dtype : dtype,
                                        .rms = rms};
  ap_layernorm_plan plan;
  kernel k = {0};
  if (ap_layernorm_plan_call(&problem, &run_device, ATTNPRESS_ONE_CALL, &plan) != ATTNPRESS_OK) {
    fprintf(stderr, "attnpress run layernorm: %s\n", attnpress_last_error());
    return 1;
  }
  if (run_open(&meant, &plan.base.launch[0].variant, &k, report) != 0) {
    fprintf(stderr, "attnpress run layernorm: %s\n", report);
    return 1;
  }
  char text[RANGE_BYTES];
  layernorm_error error = {0};
  int failed = -1;
  s.no_bias = has_no_bias(&k);
  s.cluster = is_gang(&k) ? 3 : 2;
  if (pass_of(&k) == AP_LAYERNORM_PASS_BWD_REDUCE)
    s.parameters = 1;
  const int whole =
      s.columns * ap_element_bytes(k.variant.axis[AP_LAYERNORM_DTYPE]) % VECTOR_BYTES == 0;
  const int64_t most = is_wide(&k) ? s.cluster * (most_columns(&k) + cut_edges(&k)) - cut_edges(&k)
                                   : most_columns(&k);
  if (k.variant.family != AP_FAMILY_LAYERNORM || s.columns > most)
    snprintf(report, sizeof report, "%s takes no %lld columns", k.stem, (long long)s.columns);
  else if (is_without_gaps(&k) && (s.layout != PACKED || (!is_pairs(&k) && (s.in_place || s.more))))
    snprintf(report, sizeof report, "%s takes packed rows%s alone", k.stem,
             is_pairs(&k) ? "" : " of another matrix");
  else if (is_pieces(&k) &&
           (s.layout != PACKED ||
            s.columns * ap_element_bytes(k.variant.axis[AP_LAYERNORM_DTYPE]) % VECTOR_BYTES != 0))
    snprintf(report, sizeof report, "%s takes packed rows of whole vectors alone", k.stem);
  else if ((is_apart(&k) || is_shifted(&k) || is_moved(&k)) && (s.in_place || s.more))
    snprintf(report, sizeof report, "%s takes rows of another matrix alone", k.stem);
  else if (is_gathered(&k) && (s.layout != SLICE || s.in_place || s.more))
    snprintf(report, sizeof report, "%s takes a slice of another matrix alone", k.stem);
  else if (is_slice(&k) && s.layout != SLICE)
    snprintf(report, sizeof report, "%s takes a slice of another matrix alone", k.stem);
  else if (s.layout == SLICE && !is_gathered(&k) && !is_slice(&k) && !is_shifted(&k) &&
           !is_moved(&k) && !is_apart(&k) && !is_odd(&k))
    snprintf(report, sizeof report, "%s takes no slice", k.stem);
  else if (is_sorted(&k) && s.more)
    snprintf(report, sizeof report, "%s takes no dsum", k.stem);
  else if (is_cut_alike(&k) && (s.layout == SHIFTED || s.layout == MIXED || s.layout == APART))
    snprintf(report, sizeof report, "%s takes rows that begin alike in all matrices", k.stem);
  else if ((is_direct(&k) || is_whole(&k) || is_apart(&k) || is_moved(&k)) && !s.parameters)
    snprintf(report, sizeof report, "%s takes rows with parameters alone", k.stem);
  else if (is_wide(&k) && (s.more || (s.layout != PACKED && s.layout != VECTORS_APART)))
    snprintf(report, sizeof report, "%s takes packed rows, or vectors apart, without a residual",
             k.stem);
  else if (is_wide(&k) && !whole && (s.in_place || s.layout != PACKED || has_double_parameters(&k)))
    snprintf(report, sizeof report, "%s takes whole vectors alone in place, apart, or with wfp32",
             k.stem);
  else if (is_wide(&k) && s.columns > 0 && s.columns < least_of_wide(&k, s.cluster))
    snprintf(report, sizeof report, "%s takes no less than %lld columns by two blocks", k.stem,
             (long long)least_of_wide(&k, s.cluster));
  else if (s.columns < least_columns(&k))
    snprintf(report, sizeof report, "%s takes no less than %lld columns", k.stem,
             (long long)least_columns(&k));
  else if ((is_bulk(&k) || is_whole(&k)) &&
           ((s.layout != PACKED && s.layout != VECTORS_APART) ||
            s.more != (is_added(&k) || is_summed(&k)) ||
            s.columns * ap_element_bytes(k.variant.axis[AP_LAYERNORM_DTYPE]) % VECTOR_BYTES != 0))
    snprintf(report, sizeof report, "%s takes whole vectors alone", k.stem);
  else
    failed = s.rows == 0 || s.columns == 0 ? 0 : run_shape(&k, &s, (uint64_t)seed, &error, report);
  print_layernorm_shape(&s, text, sizeof text);
  status = run_print(&k, text, failed, error.ratio, error.elements, report);
  kernel_close(&k);
  return status;
}
