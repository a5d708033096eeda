/* How long a dense call takes, in one part or in splits, by models: of Hopper's kernels whose thread
 * blocks stay, of those of a thread block a row block, and of kernels that decode. They are there to
 * compare numbers of splits of one call; bench/notes/hopper.md has how their numbers were found and how far
 * they are from what was measured. */
#include <math.h>

#include "attention/choose_parts.h"
#include "attention/schedule.h"

/* Launches, and what runs before the first product and after the last. */
#define START_US 4.7
/* Of a key block, a row and a key: what is done to a score, and the products' columns. */
#define SCORE_US  24e-6
#define COLUMN_US 0.248e-6
/* When all thread blocks have work the clock falls: as though the mean of them were so much more. */
#define POWER 1.115
/* Bytes that a microsecond reads and writes, in memory, and of parts, which the cache may hold and
 * which go both ways. */
#define MEMORY_BYTES 4.0e6
#define PART_BYTES   2.5e6
/* The combine kernel: its launch, and a thread block of it on one SM. */
#define COMBINE_US       1.5
#define COMBINE_BLOCK_US 0.145

double ap_parts_us(const ap_problem *problem, int64_t rows, const ap_device *device,
                   const ap_tile *combine, int32_t num_splits) {
  if (num_splits == 1)
    return 0;
  const int32_t block_rows = ap_choose_combine_rows(problem, rows, device, combine, num_splits);
  const double blocks = (double)ap_count_combine_blocks(problem, rows, combine, block_rows);
  const double bytes = (double)rows * num_splits * (problem->hdim_v + 1) * (double)sizeof(float);
  return COMBINE_US + blocks * COMBINE_BLOCK_US / device->sm_count + bytes / PART_BYTES;
}

/** Of a key block and the rows of a tile, on one SM of Hopper. */
static double key_block_us(const ap_problem *problem, const ap_tile *tile) {
  const double score_us = SCORE_US + COLUMN_US * (problem->hdim + problem->hdim_v);
  return score_us * tile->field[AP_ATTENTION_TILE_BLOCK_M] * tile->field[AP_ATTENTION_TILE_BLOCK_N];
}

/** In which the memory reads and writes all of a call's tensors. */
static double memory_us(const ap_problem *problem) {
  const double rows =
      (double)ap_rows_of(problem) + (double)problem->batch * problem->heads_kv * problem->seqlen_k;
  return rows * (problem->hdim + problem->hdim_v) * (double)sizeof(uint16_t) / MEMORY_BYTES;
}

/** Of which thread blocks have these times, in key blocks, at most and in the mean. */
static double kernel_us(const ap_problem *problem, const ap_tile *tile, double busiest,
                        double mean) {
  const double block_us = key_block_us(problem, tile);
  const double bytes_us = memory_us(problem);
  const double products_us = fmax(busiest, POWER * mean) * block_us;
  return START_US + sqrt(products_us * products_us + bytes_us * bytes_us);
}

double ap_least_us(const ap_problem *problem, const ap_device *device, int32_t units,
                   const ap_plan *plan) {
  const ap_schedule_bounds least = ap_schedule_least(problem, units, device->sm_count, plan);
  return kernel_us(problem, &plan->tile, fmax(least.longest, least.mean), least.mean);
}

double ap_scheduled_us(const ap_problem *problem, const ap_device *device, const ap_plan *plan) {
  const int32_t units = plan->heads * plan->row_blocks;
  const ap_schedule_bounds least = ap_schedule_least(problem, units, device->sm_count, plan);
  return kernel_us(problem, &plan->tile, ap_schedule_cost(problem, device->sm_count, plan),
                   least.mean);
}

/* What kernels for long sequences take beside it: as many rows and keys less, a unit more, in its key
 * blocks. Their row blocks ask for a third less from the L2 cache, and begin with longer products. */
#define LONG_RATE 1.05
#define LONG_UNIT 1.6

double ap_long_us(const ap_problem *problem, const ap_device *device, const ap_plan *plan) {
  const int32_t units = plan->heads * plan->row_blocks;
  const ap_schedule_bounds least = ap_schedule_least(problem, units, device->sm_count, plan);
  const double blocks = least.mean * device->sm_count / units; /* of a unit */
  return ap_scheduled_us(problem, device, plan) * (1 + LONG_UNIT / blocks) / LONG_RATE;
}

/* ---- Head dim 64 ----------------------------------------------------------------------------- */

/* Microseconds of an SM without splits: of a key block, of each consumer whose rows see it, of a unit, of
 * one whose rows see no key, and of the call; for four consumers of 64 keys, and for three of 128. */
typedef struct narrow_times {
  double key_block, seen, unit, empty_unit, start;
} narrow_times;

static const narrow_times four_consumers = {0.423, 0.133, 1.415, 1.17, 2.9};
static const narrow_times three_consumers = {0.688, 0.234, 1.194, 0.88, 3.45};
#define NARROW_MEMORY 0.6 /* of the memory's time: what the L2 cache holds is read faster */

double ap_narrow_us(const ap_problem *problem, const ap_device *device, const ap_plan *plan) {
  const int32_t units = plan->heads * plan->row_blocks;
  const narrow_times *t = plan->tile.field[AP_ATTENTION_TILE_BLOCK_M] == AP_FOUR_CONSUMERS_ROWS
                              ? &four_consumers
                              : &three_consumers;
  const ap_schedule_blocks blocks = ap_schedule_count(problem, plan);
  const ap_schedule_bounds least = ap_schedule_least(problem, units, device->sm_count, plan);
  const double busiest = fmax(ap_schedule_cost(problem, device->sm_count, plan), least.longest);
  const double all_us = t->key_block * blocks.walked + t->seen * blocks.seen +
                        t->unit * blocks.units + t->empty_unit * (units - blocks.units);
  return t->start +
         fmax(all_us / device->sm_count * busiest / least.mean, NARROW_MEMORY * memory_us(problem));
}

/* ---- A thread block a row block --------------------------------------------------------------- */

/* Kernels of sm80 make half of the products of sm90's in a microsecond. */
#define BLOCKS_SLOWER 2.0

double ap_blocks_us(const ap_problem *problem, const ap_device *device, const ap_tile *tile,
                    int64_t units, int64_t key_blocks, int32_t num_splits) {
  const double rounds = (double)ceil_div(units * num_splits, device->sm_count);
  const double blocks = rounds * (double)ceil_div(key_blocks, num_splits);
  return BLOCKS_SLOWER * blocks * key_block_us(problem, tile);
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* A launch, and the way of the first bytes and of the last. */
#define DECODE_START_US 2.7
/* Bytes of K and V that an SM gets in a microsecond: its share of the memory's where all ask; at most,
 * where few do; at most, where that is what full rounds have left over; and at most, where it has one
 * thread block of a kernel of which it has room for three. */
#define SHARE_BYTES 34.2e3
#define ALONE_BYTES 68e3
#define LATER_BYTES 48e3
#define ROOMY_BYTES 50e3

/* Head dims whose sum is more have tiles for two thread blocks an SM, and lie alone on most SMs where
 * they are not split: these get less beside one another, the bend below is less sharp. */
enum { NARROW_COLUMNS_MAX = 256 };
#define BEND      4.0
#define WIDE_BEND 3.0
/* Of what SMs that are left over behind one full round take more than their share: behind several it is a
 * part of that, as thread blocks do not end at once, and the last ones begin while others still read. */
#define LEFT_OVER_SHARE 0.85
/* Of each round but the first: what its rings wait for their first bytes. */
#define ROUND_US 0.8

/** Microseconds in which some SMs read so many bytes each, of which one gets `most` in one: fewer, and
 * without a sharp bend, where together they would get more than there is. */
static double read_us(const ap_device *device, int64_t sms, double bytes, double most,
                      double bend) {
  const double alone_us = bytes / most;
  const double shared_us = bytes * (double)sms / (SHARE_BYTES * device->sm_count);
  return pow(pow(alone_us, bend) + pow(shared_us, bend), 1 / bend);
}

/* An SM holds two thread blocks, and one alone gets nearly all that an SM can. So a full round is two
 * an SM; of what is left over each SM has one before some have two, and these are busy with their
 * second when the others have ended. */
double ap_decode_us(const ap_device *device, int64_t units, int64_t key_blocks,
                    double key_block_bytes, int columns, int32_t num_splits) {
  const int64_t sms = device->sm_count, round = AP_DECODE_BLOCKS_PER_SM * sms;
  const int64_t per_split = ceil_div(key_blocks, num_splits);
  const int64_t blocks = units * ceil_div(key_blocks, per_split), left = blocks % round;
  const double bytes = (double)per_split * key_block_bytes, all = SHARE_BYTES * (double)sms;
  const double most = blocks < round ? ALONE_BYTES : LATER_BYTES;
  const int wide = num_splits == 1 && columns > NARROW_COLUMNS_MAX && blocks <= sms;
  const double bend = wide ? WIDE_BEND : BEND;
  double left_us = 0;
  if (left > sms)
    left_us = read_us(device, sms, bytes, ALONE_BYTES, bend) +
              read_us(device, left - sms, bytes, LATER_BYTES, bend);
  else if (left > 0)
    left_us = read_us(device, left, bytes, most, bend);
  if (blocks < round)
    return DECODE_START_US + left_us;
  const double rounds = (double)(blocks / round);
  return DECODE_START_US + (double)(units * key_blocks) * key_block_bytes / all +
         LEFT_OVER_SHARE / rounds * (left_us - (double)left * bytes / all) +
         ROUND_US * ((double)blocks / (double)round - 1);
}

/* Thread blocks come one by one, as those of the kernel before end. Where an SM has room for two, some
 * would lie on one SM while others have none; so there is room for one where that is enough, and for
 * three where those of two kernels fit at once: they all lie there when the kernel before ends. Between,
 * two fill the SMs, until three are needed and nearly fill them. */
int ap_decode_blocks_per_sm(const ap_device *device, const ap_tile *tile, int64_t blocks) {
  enum { ROOMY = 3, NEARLY_PERCENT = 87 };
  const int64_t sms = device->sm_count, room = ROOMY * sms;
  if (tile->field[AP_ATTENTION_TILE_MIN_BLOCKS] < ROOMY)
    return blocks <= sms ? 1 : AP_DECODE_BLOCKS_PER_SM;
  return 2 * blocks <= room || (100 * blocks > NEARLY_PERCENT * room && blocks <= room)
             ? ROOMY
             : AP_DECODE_BLOCKS_PER_SM;
}

/* All begin at once and get as much of the memory as any other, unless one SM has more than it can read;
 * or one thread block than comes to it, as it asks for little at once. */
double ap_decode_at_once_us(const ap_device *device, int64_t units, double bytes) {
  const int64_t sms = device->sm_count;
  const double most_us = (double)ceil_div(units, sms) * bytes / ALONE_BYTES;
  const double shared_us = (double)units * bytes / (SHARE_BYTES * (double)sms);
  const double busy_us = pow(pow(most_us, 8) + pow(shared_us, 8), 1.0 / 8);
  return DECODE_START_US + fmax(bytes / ROOMY_BYTES, busy_us);
}

/* Thread blocks that are not split come first, as many on one SM as on another or one more; then parts
 * go to SMs that have least. SMs read their shares until those with less than the mean are done. */
double ap_decode_partly_us(const ap_device *device, int64_t units, int64_t whole,
                           int64_t key_blocks, double key_block_bytes, int32_t num_splits) {
  const int64_t sms = device->sm_count, fuller = whole % sms;
  const int64_t parts = (units - whole) * num_splits;
  const int64_t level = parts <= (sms - fuller) * num_splits /* parts of the others */
                            ? ceil_div(parts, sms - fuller)
                            : ceil_div(parts + fuller * num_splits, sms);
  const double part = (double)ceil_div(key_blocks, num_splits) / (double)key_blocks;
  const double mean = (double)units / (double)sms;
  const double most = (double)(whole / sms) + fmax(fuller > 0, (double)level * part);
  const double bytes = (double)key_blocks * key_block_bytes;
  return DECODE_START_US + mean * bytes / SHARE_BYTES + fmax(most - mean, 0) * bytes / LATER_BYTES;
}
