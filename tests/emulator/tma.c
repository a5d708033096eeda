/* The copy engine's way to shared memory (PTX ISA, Data Movement and Conversion Instructions:
 * cp.async.bulk, cp.async.bulk.tensor), of bytes one after the other, and of tiled and im2col tensor
 * maps, which this file also encodes.
 *
 * A copy is carried out when no thread can go on without it, the latest ones first: as late as the
 * program allows. From its start until then the bytes that it writes are NaN and in flight; then
 * they are known to those who have waited for the phase of the barrier that counts them. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

static machine *const m = &the_machine;

/* ---- Tensor maps ----------------------------------------------------------------------------- */

enum {
  CHUNK_BYTES = 16,
  RANK_MAX = 5,
  BOX_MAX = 256,
  STEP_MAX = 8,
};
/* Of the driver's enums: CUtensorMapDataType, CUtensorMapSwizzle. Swizzle s is of rows of 16 << s
 * bytes: 32, 64 or 128. */
enum { TYPE_UINT16 = 1, TYPE_FLOAT16 = 6, TYPE_BFLOAT16 = 9, SWIZZLE_NONE = 0, SWIZZLE_128B = 3 };

static uint32_t swizzled_row_bytes(int swizzle) {
  return 16u << swizzle;
}

static int is_swizzle(int swizzle) {
  return swizzle >= SWIZZLE_NONE && swizzle <= SWIZZLE_128B;
}
#define MAGIC 0x70616d2d726f736eu

/* What the opaque words of a map hold here. */
typedef struct tensor_map {
  uint64_t magic;
  unsigned char *address;
  uint64_t dims[RANK_MAX], strides[RANK_MAX - 1]; /* strides: bytes, of dimension 1 and on */
  /* Elements of a copy, and from one to the next; im2col: channels, and pixels, of a copy. */
  uint16_t box[RANK_MAX];
  uint8_t element_steps[RANK_MAX];
  uint8_t rank, element_bytes, swizzle, im2col;
  /* im2col, of width and height: the first pixel, behind the last, from one to the next. */
  int16_t begin[2], behind[2];
  uint8_t step[2];
} tensor_map;

enum { MAP_BYTES = 128 };
_Static_assert(sizeof(tensor_map) <= MAP_BYTES, "an opaque map");

static int is_encodable(int data_type, uint32_t rank, const void *address, const uint64_t *dims,
                        const uint64_t *strides, const uint32_t *box) {
  if ((data_type != TYPE_UINT16 && data_type != TYPE_FLOAT16 && data_type != TYPE_BFLOAT16) ||
      rank < 1 || rank > RANK_MAX || address == NULL || (uintptr_t)address % 16 != 0)
    return 0;
  for (uint32_t i = 0; i < rank; ++i)
    if (dims[i] < 1 || dims[i] > (uint64_t)1 << 32 || box[i] < 1 || box[i] > BOX_MAX)
      return 0;
  for (uint32_t i = 0; i + 1 < rank; ++i)
    if (strides[i] % 16 != 0 || strides[i] >= (uint64_t)1 << 40)
      return 0;
  return 1;
}

int emulated_encode_tiled(void *map, int data_type, uint32_t rank, void *address,
                          const uint64_t *dims, const uint64_t *strides_bytes, const uint32_t *box,
                          const uint32_t *element_strides, int interleave, int swizzle, int l2,
                          int out_of_bounds) {
  (void)l2;
  if (!is_encodable(data_type, rank, address, dims, strides_bytes, box) || interleave != 0 ||
      out_of_bounds != 0 || !is_swizzle(swizzle))
    return 1;
  const uint32_t row_bytes = box[0] * (uint32_t)sizeof(uint16_t);
  if (row_bytes % 16 != 0 || (swizzle != SWIZZLE_NONE && row_bytes > swizzled_row_bytes(swizzle)))
    return 1;
  tensor_map t = {.magic = MAGIC,
                  .address = address,
                  .rank = (uint8_t)rank,
                  .element_bytes = sizeof(uint16_t),
                  .swizzle = (uint8_t)swizzle};
  for (uint32_t i = 0; i < rank; ++i) {
    if (element_strides[i] < 1 || element_strides[i] > (i == 0 ? 1 : STEP_MAX))
      return 1;
    t.dims[i] = dims[i];
    t.element_steps[i] = (uint8_t)element_strides[i];
    t.box[i] = (uint16_t)((box[i] + element_strides[i] - 1) / element_strides[i]);
    if (i > 0)
      t.strides[i - 1] = strides_bytes[i - 1];
  }
  memset(map, 0, MAP_BYTES);
  memcpy(map, &t, sizeof t);
  return 0;
}

enum {
  IM2COL_RANK = 4,
  CORNER_MIN = -128,
  CORNER_MAX = 127,
  OFFSET_MAX = 255,
  CHANNELS_MAX = 256,
  PIXELS_MAX = 1024
};

int emulated_encode_im2col(void *map, int data_type, uint32_t rank, void *address,
                           const uint64_t *dims, const uint64_t *strides_bytes,
                           const int *lower_corner, const int *upper_corner, uint32_t channels,
                           uint32_t pixels, const uint32_t *element_strides, int interleave,
                           int swizzle, int l2, int out_of_bounds) {
  static const uint32_t no_box[IM2COL_RANK] = {1, 1, 1, 1};
  (void)l2;
  if (rank != IM2COL_RANK || !is_encodable(data_type, rank, address, dims, strides_bytes, no_box) ||
      interleave != 0 || out_of_bounds != 0 || swizzle == SWIZZLE_NONE || !is_swizzle(swizzle) ||
      channels < 1 || channels > CHANNELS_MAX ||
      channels * sizeof(uint16_t) > swizzled_row_bytes(swizzle) ||
      channels * sizeof(uint16_t) % 16 != 0 || pixels < 1 || pixels > PIXELS_MAX ||
      element_strides[0] != 1 || element_strides[3] != 1)
    return 1;
  tensor_map t = {.magic = MAGIC,
                  .address = address,
                  .rank = (uint8_t)rank,
                  .element_bytes = sizeof(uint16_t),
                  .swizzle = (uint8_t)swizzle,
                  .im2col = 1,
                  .box = {(uint16_t)channels, (uint16_t)pixels, 1, 1}};
  memcpy(t.dims, dims, rank * sizeof *dims);
  memcpy(t.strides, strides_bytes, (rank - 1) * sizeof *strides_bytes);
  for (int i = 0; i < 2; ++i) {
    const int64_t behind = (int64_t)dims[1 + i] + upper_corner[i];
    if (lower_corner[i] < CORNER_MIN || lower_corner[i] > CORNER_MAX ||
        upper_corner[i] < CORNER_MIN || upper_corner[i] > CORNER_MAX ||
        element_strides[1 + i] < 1 || element_strides[1 + i] > STEP_MAX ||
        behind <= lower_corner[i] || dims[1 + i] > INT16_MAX - CORNER_MAX)
      return 1;
    t.begin[i] = (int16_t)lower_corner[i];
    t.behind[i] = (int16_t)behind;
    t.step[i] = (uint8_t)element_strides[1 + i];
  }
  memset(map, 0, MAP_BYTES);
  memcpy(map, &t, sizeof t);
  return 0;
}

static tensor_map read_map(const void *map, const void *site) {
  tensor_map t;
  if ((uintptr_t)map % 64 != 0)
    machine_fail("a tensor map at %p, which is not a multiple of 64, at %s", map, site_text(site));
  memcpy(&t, map, sizeof t);
  if (t.magic != MAGIC)
    machine_fail("reads a tensor map that was not encoded, at %s", site_text(site));
  return t;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

typedef struct bulk_copy {
  tensor_map map;
  const void *plain; /* NULL, or the first of bytes one after the other, without a map */
  int coordinates[RANK_MAX], offsets[2]; /* offsets: of im2col, along the width and the height */
  uint32_t shared;
  int bytes, mbarrier, thread;
  const void *site;
} bulk_copy;

static bulk_copy *copies;
static int copy_count, copy_capacity;

void tma_reset(void) {
  copy_count = 0;
}

static void add_copy(const bulk_copy *copy) {
  if (copy_count == copy_capacity) {
    copy_capacity = copy_capacity ? 2 * copy_capacity : 64;
    copies = realloc(copies, (size_t)copy_capacity * sizeof *copies);
    if (copies == NULL)
      abort();
  }
  copies[copy_count++] = *copy;
}

/* prefetch.tensormap */
void emulated_prefetch_tensor_map(const void *map) {
  if ((uintptr_t)map % 64 != 0)
    machine_fail("prefetches a tensor map at %p, which is not a multiple of 64, at %s", map,
                 site_text(CALL_SITE()));
}

/* Begins a copy that the barrier at a shared address counts. */
static void begin_copy(bulk_copy *copy, uint32_t barrier) {
  /* An atom is 8 rows of the swizzle. */
  const int alignment = copy->plain != NULL ? CHUNK_BYTES : 128 << copy->map.swizzle;
  m->async = m->partial = 1;
  copy->mbarrier = mbarrier_find(barrier, "lets a copy count at", copy->site);
  shared_check_range(copy->shared, copy->bytes, alignment, "the copy engine writes", copy->site);
  const uint32_t stamp = order_stamp();
  for (int i = 0; i < copy->bytes; i += 16)
    shared_bulk_begin(copy->shared + (uint32_t)i, copy->mbarrier, stamp, copy->site);
  global_bulk_begin((uintptr_t)(copy->plain != NULL ? copy->plain : copy->map.address), copy->site);
  mbarrier_copy_begin(copy->mbarrier, copy->bytes, copy->site);
  add_copy(copy);
}

static bulk_copy describe_copy(uint32_t shared, const void *map, const int *coordinates,
                               const int *offsets, int rank, const void *site) {
  bulk_copy copy = {.map = read_map(map, site), .shared = shared, .thread = m->current};
  copy.site = site;
  if (copy.map.rank != rank || copy.map.im2col != (offsets != NULL))
    machine_fail("a copy in %d dimensions%s by a tensor map of %d%s, at %s", rank,
                 offsets ? " of pixels" : "", copy.map.rank, copy.map.im2col ? " of pixels" : "",
                 site_text(site));
  for (int i = 0; i < 2 && offsets != NULL; ++i) {
    const int c = coordinates[1 + i], first = copy.map.begin[i];
    if (c < first || c >= copy.map.behind[i] || (c - first) % copy.map.step[i] != 0)
      machine_fail("copies pixels from %d on, which is none of %d, %d ... before %d, at %s", c,
                   first, first + copy.map.step[i], copy.map.behind[i], site_text(site));
    if (offsets[i] < 0 || offsets[i] > OFFSET_MAX)
      machine_fail("copies pixels of a tap %d away, which is not 0 to %d, at %s", offsets[i],
                   OFFSET_MAX, site_text(site));
    copy.offsets[i] = offsets[i];
  }
  copy.bytes = copy.map.element_bytes;
  for (int i = 0; i < rank; ++i) {
    copy.coordinates[i] = coordinates[i];
    copy.bytes *= copy.map.box[i];
  }
  return copy;
}

/* cp.async.bulk.tensor.shared::cluster.global.tile.mbarrier::complete_tx::bytes */
void emulated_tma_load(uint32_t shared, const void *map, uint32_t barrier, const int *coordinates,
                       int rank) {
  bulk_copy copy = describe_copy(shared, map, coordinates, NULL, rank, CALL_SITE());
  begin_copy(&copy, barrier);
}

/* cp.async.bulk.tensor.shared::cluster.global.im2col.mbarrier::complete_tx::bytes */
void emulated_tma_load_im2col(uint32_t shared, const void *map, uint32_t barrier,
                              const int *coordinates, const int *offsets) {
  bulk_copy copy = describe_copy(shared, map, coordinates, offsets, IM2COL_RANK, CALL_SITE());
  begin_copy(&copy, barrier);
}

/* cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes */
void emulated_bulk_load(uint32_t shared, const void *global, int bytes, uint32_t barrier) {
  const void *site = CALL_SITE();
  bulk_copy copy = {.plain = global, .shared = shared, .bytes = bytes, .thread = m->current};
  copy.site = site;
  if (bytes <= 0 || bytes % CHUNK_BYTES != 0 || (uintptr_t)global % CHUNK_BYTES != 0)
    machine_fail("cp.async.bulk of %d bytes from address %p, which are no multiples of 16, at %s",
                 bytes, global, site_text(site));
  begin_copy(&copy, barrier);
}

/* Where byte `offset` of a box lies: with the swizzle of 128 bytes the 16-byte chunk of an address,
 * its bits 4 to 6, is combined with bits 7 to 9; with those of 64 and 32 two bits are, or one. */
static uint32_t swizzled(const bulk_copy *copy, uint32_t offset) {
  const uint32_t address = copy->shared + offset;
  return address ^ (address >> 7 & ((1u << copy->map.swizzle) - 1)) << 4;
}

/* Where row `row` of the box lies, counted over its outer dimensions. */
static void place_of_row(const bulk_copy *copy, int row, int64_t place[RANK_MAX]) {
  const tensor_map *t = &copy->map;
  for (int i = 1, rest = row; !t->im2col && i < t->rank; rest /= t->box[i++])
    place[i] = (int64_t)copy->coordinates[i] + rest % t->box[i] * t->element_steps[i];
  if (!t->im2col)
    return;
  /* Pixels go on along a line, the lines of an image, and the images. */
  int64_t carry = row;
  for (int i = 0; i < 2; ++i) {
    const int64_t count = (t->behind[i] - t->begin[i] - 1) / t->step[i] + 1;
    const int64_t at = (copy->coordinates[1 + i] - t->begin[i]) / t->step[i] + carry;
    place[1 + i] = t->begin[i] + at % count * t->step[i] + copy->offsets[i];
    carry = at / count;
  }
  place[3] = copy->coordinates[3] + carry;
}

/* Row `row` of the box: zeros where the tensor has no elements. */
static void copy_row(const bulk_copy *copy, int row) {
  const tensor_map *t = &copy->map;
  const int row_bytes = t->box[0] * t->element_bytes;
  unsigned char line[BOX_MAX * sizeof(uint16_t)] = {0};
  const unsigned char *from = t->address;
  int inside = 1;
  int64_t place[RANK_MAX];
  place_of_row(copy, row, place);
  for (int i = 1; i < t->rank; ++i) {
    inside &= place[i] >= 0 && (uint64_t)place[i] < t->dims[i];
    from += place[i] * (int64_t)t->strides[i - 1];
  }
  int64_t begin = copy->coordinates[0], end = begin + t->box[0];
  const int64_t first = begin < 0 ? 0 : begin;
  end = end > (int64_t)t->dims[0] ? (int64_t)t->dims[0] : end;
  if (inside && first < end) {
    const unsigned char *source = from + first * t->element_bytes;
    const size_t bytes = (size_t)(end - first) * t->element_bytes;
    global_access((uintptr_t)source, (int)bytes, 0, copy->site);
    memcpy(line + (first - begin) * t->element_bytes, source, bytes);
  }
  for (int i = 0; i < row_bytes; i += 16)
    memcpy(shared_pointer(swizzled(copy, (uint32_t)(row * row_bytes + i))), line + i, 16);
}

static void carry_out(const bulk_copy *copy) {
  int rows = 1;
  for (int i = 1; i < copy->map.rank; ++i)
    rows *= copy->map.box[i];
  m->current = copy->thread; /* whose fault a wrong place is */
  if (copy->plain != NULL) {
    global_access((uintptr_t)copy->plain, copy->bytes, 0, copy->site);
    memcpy(shared_pointer(copy->shared), copy->plain, (size_t)copy->bytes);
    return;
  }
  for (int row = 0; row < rows; ++row)
    copy_row(copy, row);
}

int tma_carry_out(void) {
  const int mbarrier = mbarrier_to_complete(), caller = m->current;
  if (mbarrier < 0)
    return 0;
  int left = 0, bytes = 0;
  for (int i = 0; i < copy_count; ++i) {
    if (copies[i].mbarrier != mbarrier) {
      copies[left++] = copies[i];
      continue;
    }
    carry_out(&copies[i]);
    bytes += copies[i].bytes;
  }
  copy_count = left;
  m->current = caller;
  mbarrier_copy_end(mbarrier, bytes);
  return 1;
}

void tma_check_exit(void) {
  if (copy_count > 0)
    machine_fail("the block ends while a copy by thread %d to %s is in flight, begun at %s",
                 copies[0].thread, place_text(copies[0].shared), site_text(copies[0].site));
}

/* fence.proxy.async.global */
void emulated_fence_proxy_async_global(void) {
  global_fence();
}

/* fence.proxy.async.shared::cta */
void emulated_fence_proxy_async(void) {
  m->partial = 1;
  order_fence(m->current);
}
