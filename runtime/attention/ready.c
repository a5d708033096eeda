/* What a schedule that is ready holds: the order of the sequences that it has to have. */
#include "attention/ready.h"

#include <stdlib.h>

#include "attention/ragged.h"

/* As templates/attention/flash_fwd_schedule.cu.j2 has it: parts of the batch are ordered by
 * themselves, by how long the walk of a unit is, in steps, and equal ones by their number. */
enum { PART = ATTNPRESS_SCHEDULE_PART, WALK_STEP = 16, WALK_MAX = (1 << 22) - 1 };

static uint32_t sort_key(const attnpress_ragged_args *args, int64_t b, int64_t bound, int place) {
  const ap_sequence s = ap_sequence_of(args, b, bound);
  const int64_t walk = s.seqlen_q > 0 ? s.seqlen_k / WALK_STEP : 0;
  return (uint32_t)(walk < WALK_MAX ? walk : WALK_MAX) * PART + (uint32_t)(PART - 1 - place);
}

static int larger_first(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x < y) - (x > y);
}

attnpress_status ap_order_sequences(const attnpress_ragged_args *args, int64_t batch, int64_t bound,
                                    int32_t *schedule) {
  uint32_t *keys = malloc(PART * sizeof *keys);
  RETURN_IF(keys == NULL, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for a schedule");
  int32_t *order = schedule + ATTNPRESS_READY_ORDER, *places = order + batch;
  schedule[0] = (int32_t)batch;
  for (int64_t part = 0; part < batch; part += PART) {
    const int there = batch - part < PART ? (int)(batch - part) : PART;
    for (int i = 0; i < there; ++i)
      keys[i] = sort_key(args, part + i, bound, i);
    qsort(keys, (size_t)there, sizeof *keys, larger_first);
    for (int i = 0; i < there; ++i) {
      const int64_t sequence = part + PART - 1 - (int64_t)(keys[i] % PART);
      order[part + i] = (int32_t)sequence;
      places[sequence] = (int32_t)(part + i);
    }
  }
  free(keys);
  return ATTNPRESS_OK;
}

attnpress_status ap_check_order(const attnpress_ragged_args *args, int64_t batch, int64_t bound,
                                const int32_t *schedule) {
  const size_t count = ATTNPRESS_READY_ORDER + 2 * (size_t)batch;
  int32_t *expected = malloc(count * sizeof *expected);
  RETURN_IF(expected == NULL, ATTNPRESS_OUT_OF_MEMORY, "host memory ran out for a schedule");
  attnpress_status status = ap_order_sequences(args, batch, bound, expected);
  for (size_t i = 0; i < count && status == ATTNPRESS_OK; ++i) {
    if (schedule[i] == expected[i])
      continue;
    const char *what = i == 0                                      ? "the number of sequences"
                       : i < ATTNPRESS_READY_ORDER + (size_t)batch ? "a sequence of the order"
                                                                   : "a place in the order";
    status = ap_fail(ATTNPRESS_INVALID_ARGUMENT,
                     "ragged.schedule[%zu], %s, is %d, and by the call's lengths it is %d: the "
                     "schedule is not that of these lengths; make it with "
                     "attnpress_forward_schedule() (it costs time, not results)",
                     i, what, (int)schedule[i], (int)expected[i]);
  }
  free(expected);
  return status;
}
