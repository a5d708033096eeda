/* wgmma (PTX ISA, Asynchronous Warpgroup Level Matrix Instructions), of shape m64nNk16, 16-bit
 * factors and fp32 sums.
 *
 * A product is computed when the four warps of a warpgroup have started it, and kept aside. Until a
 * warp has waited for its group, the accumulator in the warp's registers is NaN, the memory that it
 * reads is in use, and what stands in registers may not change. Registers are arrays in a thread's
 * stack here, of which loads and stores are not seen, but what they hold is: by each wgmma.fence
 * those are remembered that products have used before, and must be the same at the next product. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/half.h"

static machine *const m = &the_machine;

enum { M = 64, N_MAX = 256, K = 16, PRODUCTS_MAX = 8, COMMITS_MAX = 32, ARRAYS_MAX = 64 };
enum { ALL_WARPS = (1 << GROUP_WARPS) - 1 };
static const uint32_t POISON = 0x7fa0dead; /* a signalling NaN: arithmetic changes it */

/* An accumulator that products of a warpgroup are adding to. */
typedef struct accumulator {
  float *d[GROUP_LANES];
  int columns, waiting; /* waiting: warps that have not waited yet, as bits; 0: not in use */
  uint64_t group;       /* of the latest product */
  const void *site;     /* of that */
  float sum[M][N_MAX];
} accumulator;

/* Registers that a product of this block has used: of a lane's accumulator, or of its part of A. */
typedef struct array {
  const uint32_t *begin[GROUP_LANES];
  int words, waiting; /* waiting: of A, warps whose product is in flight, as bits */
  uint64_t group;     /* of that product */
  const void *site;   /* of that */
  uint32_t
      *remembered; /* (GROUP_LANES, words): at the latest fence; of A in flight, at its start */
} array;

typedef struct warpgroup {
  accumulator products[PRODUCTS_MAX];
  array arrays[ARRAYS_MAX];
  int array_count;
  /* Of the group of each number, modulo COMMITS_MAX: the stamp of its latest product. */
  uint64_t group[COMMITS_MAX];
  uint32_t stamp[COMMITS_MAX];
} warpgroup;

static warpgroup *groups[GROUPS_MAX]; /* NULL: not used yet */
static uint64_t commits[WARPS_MAX];   /* groups that a warp has closed */
static uint64_t completed[WARPS_MAX]; /* groups that it has waited for */
static uint8_t has_fence[WARPS_MAX];  /* in this block */

void products_reset(void) {
  for (int i = 0; i < GROUPS_MAX; ++i) {
    if (groups[i] == NULL)
      continue;
    for (int p = 0; p < PRODUCTS_MAX; ++p)
      groups[i]->products[p].waiting = 0;
    while (groups[i]->array_count > 0)
      free(groups[i]->arrays[--groups[i]->array_count].remembered);
  }
  memset(commits, 0, sizeof commits);
  memset(completed, 0, sizeof completed);
  memset(has_fence, 0, sizeof has_fence);
}

static warpgroup *current_group(void) {
  warpgroup **group = &groups[m->current / GROUP_LANES];
  if (*group == NULL)
    *group = calloc(1, sizeof **group);
  if (*group == NULL)
    abort();
  return *group;
}

void products_check_exit(void) {
  const warpgroup *group = groups[m->current / GROUP_LANES];
  for (int i = 0; group != NULL && i < PRODUCTS_MAX; ++i)
    if (group->products[i].waiting >> current_warp() % GROUP_WARPS & 1)
      machine_fail("ends while a product uses its registers, started at %s",
                   site_text(group->products[i].site));
}

/* ---- Registers ------------------------------------------------------------------------------- */

static uint32_t *remembered(const array *r, int lane) {
  return r->remembered + (size_t)lane * (size_t)r->words;
}

static size_t bytes_of(const array *r) {
  return (size_t)r->words * sizeof(uint32_t);
}

/* wgmma.fence */
static void execute_fence(void *operands[]) {
  (void)operands;
  warpgroup *group = current_group();
  const int warp = current_warp() % GROUP_WARPS;
  has_fence[current_warp()] = 1;
  for (int i = 0; i < group->array_count; ++i) {
    array *r = &group->arrays[i];
    if (r->waiting >> warp & 1)
      continue;
    for (int lane = warp * WARP_LANES; lane < (warp + 1) * WARP_LANES; ++lane)
      memcpy(remembered(r, lane), r->begin[lane], bytes_of(r));
  }
}

void emulated_wgmma_fence(void) {
  if ((m->current / GROUP_LANES + 1) * GROUP_LANES > m->thread_count)
    machine_fail("wgmma.fence by a warpgroup that is not whole, at %s", site_text(CALL_SITE()));
  warp_execute("wgmma.fence", execute_fence, NULL, CALL_SITE());
}

static void check_fenced(const array *r, const char *what, const void *site) {
  for (int lane = 0; lane < GROUP_LANES; ++lane)
    if (memcmp(remembered(r, lane), r->begin[lane], bytes_of(r)) != 0)
      machine_fail("wgmma with %s that thread %d wrote after its last wgmma.fence, at %s", what,
                   m->current / GROUP_LANES * GROUP_LANES + lane, site_text(site));
}

/* The array that begins at begin[lane] in each lane: one that products have used before must not
 * have changed since the fence. */
static array *find_array(warpgroup *group, const uint32_t *const *begin, int words,
                         const char *what, const void *site) {
  for (int warp = 0; warp < GROUP_WARPS; ++warp)
    if (!has_fence[m->current / GROUP_LANES * GROUP_WARPS + warp])
      machine_fail("wgmma before the first wgmma.fence, at %s", site_text(site));
  for (int i = 0; i < group->array_count; ++i) {
    array *r = &group->arrays[i];
    if (r->words == words && memcmp(r->begin, begin, sizeof r->begin) == 0) {
      if (r->waiting == 0)
        check_fenced(r, what, site);
      return r;
    }
  }
  if (group->array_count == ARRAYS_MAX)
    machine_fail("wgmma with more than %d arrays of registers, at %s", ARRAYS_MAX, site_text(site));
  array *r = &group->arrays[group->array_count++];
  *r = (array){.words = words};
  memcpy(r->begin, begin, sizeof r->begin);
  r->remembered = malloc(GROUP_LANES * bytes_of(r));
  if (r->remembered == NULL)
    abort();
  return r;
}

/* A warp's registers of A, of a product that it has not waited for, are as they were. */
static void check_kept(const array *r, int warp, const char *what, const void *site) {
  for (int lane = warp * WARP_LANES; lane < (warp + 1) * WARP_LANES; ++lane)
    if (memcmp(remembered(r, lane), r->begin[lane], bytes_of(r)) != 0)
      machine_fail("registers of A were changed while a product used them; it was started at %s, "
                   "and %s at %s",
                   site_text(r->site), what, site_text(site));
}

/* Registers of A, until the wait. */
static void keep_fragments(warpgroup *group, const uint32_t *const *begin, uint64_t commit,
                           const void *site) {
  array *r = find_array(group, begin, 4, "registers of A", site);
  for (int warp = 0; warp < GROUP_WARPS; ++warp)
    if (r->waiting >> warp & 1)
      check_kept(r, warp, "another starts", site);
  for (int lane = 0; lane < GROUP_LANES; ++lane)
    memcpy(remembered(r, lane), begin[lane], bytes_of(r));
  r->waiting = ALL_WARPS;
  r->group = commit;
  r->site = site;
}

static void release_fragments(array *r, int warp, const void *site) {
  check_kept(r, warp, "is waited for", site);
  r->waiting &= ~(1 << warp);
}

/* ---- Operands -------------------------------------------------------------------------------- */

typedef struct wgmma_operands {
  float *d;
  const uint32_t *fragment; /* of A; NULL: in shared memory */
  uint64_t a, b;            /* descriptors */
  int columns, format, transposed, accumulate;
  const void *site;
} wgmma_operands;

/* A matrix in shared memory (Asynchronous Warpgroup Level Matrix Shared Memory Layout: Matrix
 * Descriptor). */
typedef struct matrix {
  uint32_t start, leading, stride;
  uint32_t row_bytes; /* of the swizzle: 128, 64 or 32; an atom has 8 rows */
} matrix;

enum { NO_SWIZZLE = 0, ATOM_ROWS = 8 };
#define RESERVED_BITS 0x3ff1c000c000c000u

static matrix decode(uint64_t descriptor, const char *what, const void *site) {
  const matrix matrix = {(uint32_t)(descriptor & 0x3fff) << 4,
                         (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                         (uint32_t)(descriptor >> 32 & 0x3fff) << 4, 256u >> (descriptor >> 62)};
  if (descriptor >> 62 == NO_SWIZZLE || (descriptor & RESERVED_BITS) != 0)
    machine_fail("the descriptor %016llx of %s is not one of a matrix with a swizzle, at %s",
                 (unsigned long long)descriptor, what, site_text(site));
  if ((descriptor >> 49 & 7) != 0 ||
      matrix.start % (ATOM_ROWS * matrix.row_bytes) >= matrix.row_bytes)
    machine_fail(
        "%s begins at shared address %u: atoms of the swizzle begin at multiples of %u, and "
        "the matrix in their first row, at %s",
        what, matrix.start, ATOM_ROWS * matrix.row_bytes, site_text(site));
  return matrix;
}

/* Atoms that do not begin at a multiple of their size are not what a GPU reads either. */
static void check_stride(const matrix *of, uint32_t stride_bytes, const char *what,
                         const void *site) {
  if (stride_bytes % (ATOM_ROWS * of->row_bytes) != 0)
    machine_fail("%s has atoms that are %u bytes apart, which is not a multiple of %u, at %s", what,
                 stride_bytes, ATOM_ROWS * of->row_bytes, site_text(site));
}

static float from_half(uint16_t half, int format) {
  return format == EMULATED_FP16 ? ap_float_from_fp16(half) : ap_float_from_bf16(half);
}

/* The 8 elements of the chunk that lies at `address` before swizzling: address bits 4 to 6 are
 * combined with bits 7 to 9; of rows of 64 and 32 bytes two bits are, or one. */
static void read_chunk(product_reader *reader, const matrix *from, uint32_t address, int format,
                       float out[8]) {
  uint16_t half[8];
  address ^= (address >> 7 & (from->row_bytes / 16 - 1)) << 4;
  memcpy(half, shared_product_read(reader, address), sizeof half);
  for (int i = 0; i < 8; ++i)
    out[i] = from_half(half[i], format);
}

/* K contiguous: rows (of M or N) follow one another, 8 in an atom, atoms `stride` apart; 16
 * elements of k are two chunks. A row of A makes a row of D, a column of B a column, which a kernel
 * may ignore: only the first `written` must have been written. out: (rows, K). */
static void read_k_major(product_reader *reader, const matrix *from, int rows, int written,
                         int format, float (*out)[K]) {
  for (int row = 0; row < rows; ++row)
    for (int chunk = 0; chunk < 2; ++chunk) {
      reader->may_be_unwritten = row >= written;
      read_chunk(reader, from,
                 from->start + (uint32_t)(row / 8) * from->stride +
                     (uint32_t)(row % 8) * from->row_bytes + (uint32_t)chunk * 16,
                 format, &out[row][chunk * 8]);
    }
}

/* N, or of A M, contiguous: an atom has 8 rows of k, one after the other, of 64 columns, or 32 or
 * 16; the next 8 of k are `stride` away, the next columns `leading`. written: as above. out:
 * (columns, K). */
static void read_n_major(product_reader *reader, const matrix *from, int columns, int written,
                         int format, float (*out)[K]) {
  const int atom_columns = (int)from->row_bytes / 2;
  float chunk[8];
  for (int k = 0; k < K; ++k)
    for (int column = 0; column < columns; column += 8) {
      reader->may_be_unwritten = column >= written;
      read_chunk(reader, from,
                 from->start + (uint32_t)(k / 8) * from->stride +
                     (uint32_t)(column / atom_columns) * from->leading +
                     (uint32_t)(k % 8) * from->row_bytes + (uint32_t)(column % atom_columns * 2),
                 format, chunk);
      for (int i = 0; i < 8; ++i)
        out[column + i][k] = chunk[i];
    }
}

/* Register Fragments for wgmma.mma_async.m64nNk16: warp w of the group has rows 16 w to 16 w + 15,
 * as mma.m16n8k16 has them. */
static void read_fragments(wgmma_operands *const *lanes, float (*out)[K]) {
  for (int lane = 0; lane < GROUP_LANES; ++lane) {
    const int g = lane / WARP_LANES * 16 + lane % WARP_LANES / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i)
      for (int half = 0; half < 2; ++half)
        out[g + i % 2 * 8][2 * t + i / 2 * 8 + half] =
            from_half((uint16_t)(lanes[lane]->fragment[i] >> 16 * half), lanes[0]->format);
  }
}

static void read_operands(wgmma_operands *const *lanes, product_reader *reader, float a[M][K],
                          float b[N_MAX][K]) {
  const wgmma_operands *o = lanes[0];
  if (o->fragment != NULL) {
    read_fragments(lanes, a);
  } else {
    const matrix from = decode(o->a, "A", o->site);
    check_stride(&from, from.stride, "A", o->site);
    if (o->transposed == EMULATED_TRANSPOSED_BOTH && M * 2 > from.row_bytes)
      check_stride(&from, from.leading, "A", o->site);
    if (o->transposed == EMULATED_TRANSPOSED_BOTH)
      read_n_major(reader, &from, M, 0, o->format, a);
    else
      read_k_major(reader, &from, M, 0, o->format, a);
  }
  const matrix from = decode(o->b, "B", o->site);
  if (o->transposed || o->columns > 8)
    check_stride(&from, from.stride, "B", o->site);
  if (o->transposed && o->columns * 2 > (int)from.row_bytes)
    check_stride(&from, from.leading, "B", o->site);
  if (o->transposed)
    read_n_major(reader, &from, o->columns, 8, o->format, b);
  else
    read_k_major(reader, &from, o->columns, 8, o->format, b);
}

/* ---- Products -------------------------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_VECTOR_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_VECTOR_WIDTH
#endif

/* Products are exact, sums are rounded once for each instruction. */
FOR_EACH_VECTOR_WIDTH static void multiply(float (*restrict sum)[N_MAX],
                                           const float (*restrict a)[K],
                                           const float (*restrict b)[N_MAX], int columns) {
  for (int row = 0; row < M; ++row)
    for (int first = 0; first < columns; first += 8) {
      double total[8];
      for (int i = 0; i < 8; ++i)
        total[i] = (double)sum[row][first + i];
      for (int k = 0; k < K; ++k)
        for (int i = 0; i < 8; ++i)
          total[i] += (double)a[row][k] * (double)b[k][first + i];
      for (int i = 0; i < 8; ++i)
        sum[row][first + i] = (float)total[i];
    }
}

/* Element (row, column) of D belongs to register 4 (column / 8) + 2 (row % 16 / 8) + column % 2 of
 * lane 4 (row % 8) + column % 8 / 2 of warp row / 16. */
static float *element(float *const *d, int row, int column) {
  const int lane = row / 16 * WARP_LANES + row % 8 * 4 + column % 8 / 2;
  return &d[lane][column / 8 * 4 + row % 16 / 8 * 2 + column % 2];
}

/* The accumulator as it stands goes aside, and NaN takes its place. */
static void take(accumulator *p) {
  for (int row = 0; row < M; ++row)
    for (int column = 0; column < p->columns; ++column) {
      float *d = element(p->d, row, column);
      p->sum[row][column] = *d;
      memcpy(d, &POISON, sizeof POISON);
    }
  p->waiting = ALL_WARPS;
}

static accumulator *find_accumulator(warpgroup *group, wgmma_operands *const *lanes) {
  const wgmma_operands *o = lanes[0];
  accumulator *free_one = NULL;
  for (int i = 0; i < PRODUCTS_MAX; ++i) {
    accumulator *p = &group->products[i];
    if (p->waiting == 0) {
      free_one = p;
      continue;
    }
    if (p->d[0] != o->d)
      continue;
    if (p->columns != o->columns || p->waiting != ALL_WARPS)
      machine_fail("wgmma into an accumulator that another product in flight uses, at %s; that was "
                   "started at %s",
                   site_text(o->site), site_text(p->site));
    return p;
  }
  if (free_one == NULL)
    machine_fail("more than %d accumulators in flight, at %s", PRODUCTS_MAX, site_text(o->site));
  const uint32_t *begin[GROUP_LANES];
  free_one->columns = o->columns;
  for (int lane = 0; lane < GROUP_LANES; ++lane) {
    free_one->d[lane] = lanes[lane]->d;
    begin[lane] = (const uint32_t *)lanes[lane]->d;
  }
  find_array(group, begin, o->columns / 2, "an accumulator", o->site);
  take(free_one);
  return free_one;
}

static void check_same(wgmma_operands *const *lanes, int first_warp) {
  const wgmma_operands *o = lanes[0];
  for (int lane = 1; lane < GROUP_LANES; ++lane) {
    const wgmma_operands *other = lanes[lane];
    if (other->a != o->a || other->b != o->b || other->columns != o->columns ||
        other->format != o->format || other->transposed != o->transposed ||
        other->accumulate != o->accumulate || (other->fragment == NULL) != (o->fragment == NULL))
      machine_fail(
          "wgmma with different descriptors or shapes in one warpgroup: %016llx and %016llx, "
          "%016llx and %016llx, at %s and %s",
          (unsigned long long)o->a, (unsigned long long)other->a, (unsigned long long)o->b,
          (unsigned long long)other->b, site_text(o->site), site_text(other->site));
  }
  for (int warp = first_warp; warp < first_warp + GROUP_WARPS; ++warp)
    if (commits[warp] != commits[first_warp])
      machine_fail("warps of one warpgroup are in different groups of products, at %s",
                   site_text(o->site));
}

static void execute_product(void *operands[]) {
  wgmma_operands *const *lanes = (wgmma_operands *const *)operands;
  const wgmma_operands *o = lanes[0];
  const int index = m->current / GROUP_LANES, first_warp = index * GROUP_WARPS;
  static float a[M][K], columns_of_b[N_MAX][K], b[K][N_MAX];
  warpgroup *group = current_group();
  check_same(lanes, first_warp);
  product_reader reader = {.group = index, .stamp = order_stamp(), .site = o->site, .mbarrier = -1};
  const uint64_t commit = commits[first_warp];
  m->async = m->partial = 1;
  accumulator *p = find_accumulator(group, lanes);
  if (o->fragment != NULL) {
    const uint32_t *begin[GROUP_LANES];
    for (int lane = 0; lane < GROUP_LANES; ++lane)
      begin[lane] = lanes[lane]->fragment;
    keep_fragments(group, begin, commit, o->site);
  }
  read_operands(lanes, &reader, a, columns_of_b);
  for (int column = 0; column < o->columns; ++column)
    for (int k = 0; k < K; ++k)
      b[k][column] = columns_of_b[column][k];
  if (!o->accumulate)
    memset(p->sum, 0, sizeof p->sum);
  multiply(p->sum, (const float(*)[K])a, (const float(*)[N_MAX])b, o->columns);
  p->group = commit;
  p->site = o->site;
  group->group[commit % COMMITS_MAX] = commit;
  group->stamp[commit % COMMITS_MAX] = reader.stamp;
}

void emulated_wgmma(float *d, const uint32_t *fragment, uint64_t a, uint64_t b, int columns,
                    int format, int transposed, int accumulate) {
  wgmma_operands operands = {d,      fragment,   fragment ? 0 : a, b,          columns,
                             format, transposed, accumulate != 0,  CALL_SITE()};
  if (fragment != NULL)
    fragments_take(fragment, 4, operands.site);
  group_execute("wgmma", execute_product, &operands, operands.site);
}

/* ---- Groups ---------------------------------------------------------------------------------- */

static void execute_commit(void *operands[]) {
  (void)operands;
  const int warp = current_warp();
  ++commits[warp];
  if (commits[warp] - completed[warp] >= COMMITS_MAX)
    machine_fail("more than %d groups of products in flight", COMMITS_MAX);
}

void emulated_wgmma_commit(void) {
  warp_execute("wgmma.commit_group", execute_commit, NULL, CALL_SITE());
}

/* The warp's share of an accumulator gets its sums. */
static void deliver(accumulator *p, int warp_of_group, const void *site) {
  for (int row = warp_of_group * 16; row < warp_of_group * 16 + 16; ++row)
    for (int column = 0; column < p->columns; ++column) {
      float *d = element(p->d, row, column);
      if (memcmp(d, &POISON, sizeof POISON) != 0)
        machine_fail(
            "an accumulator was changed while a product used it; it was started at %s, and "
            "is waited for at %s",
            site_text(p->site), site_text(site));
      *d = p->sum[row][column];
    }
  p->waiting &= ~(1 << warp_of_group);
}

typedef struct wait_operands {
  int pending;
  const void *site;
} wait_operands;

static void execute_wait(void *operands[]) {
  wait_operands *const *lanes = (wait_operands *const *)operands;
  const int warp = current_warp();
  const uint64_t pending = (uint64_t)lanes[0]->pending;
  for (int lane = 1; lane < WARP_LANES; ++lane)
    if (lanes[lane]->pending != lanes[0]->pending)
      machine_fail("wgmma.wait_group for different counts in one warp, at %s",
                   site_text(lanes[lane]->site));
  const uint64_t end = commits[warp] > pending ? commits[warp] - pending : 0;
  warpgroup *group = current_group();
  for (int i = 0; i < PRODUCTS_MAX; ++i) {
    accumulator *p = &group->products[i];
    if (p->waiting >> warp % GROUP_WARPS & 1 && p->group < end)
      deliver(p, warp % GROUP_WARPS, lanes[0]->site);
  }
  for (int i = 0; i < group->array_count; ++i) {
    array *r = &group->arrays[i];
    if (r->waiting >> warp % GROUP_WARPS & 1 && r->group < end)
      release_fragments(r, warp % GROUP_WARPS, lanes[0]->site);
  }
  for (uint64_t g = completed[warp]; g < end; ++g)
    for (int lane = 0; lane < WARP_LANES && group->group[g % COMMITS_MAX] == g; ++lane)
      order_learn(warp * WARP_LANES + lane, order_products_of(warp), group->stamp[g % COMMITS_MAX]);
  completed[warp] = end > completed[warp] ? end : completed[warp];
}

void emulated_wgmma_wait(int pending) {
  wait_operands operands = {pending, CALL_SITE()};
  if (pending < 0 || pending > 8)
    machine_fail("wgmma.wait_group %d at %s", pending, site_text(operands.site));
  warp_execute("wgmma.wait_group", execute_wait, &operands, operands.site);
}
