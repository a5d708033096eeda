/* The order in which kernels whose thread blocks stay take their units of work. */
#pragma once
#include "attention/attention.h"
#include "core/memo.h"

/** Fills heads, section_heads, group_units, group_rounds and rounds of a plan for such a kernel, the
 * rest of which stands: its grid is as many thread blocks as run at once, or as there are units, which
 * it is made where one a unit is better. `units`: row blocks of all heads, batches and splits,
 * positive. `memo`: where schedules are remembered, or NULL. */
void ap_schedule(const ap_problem *problem, ap_memo *memo, int32_t units, ap_plan *plan);

/** What a plan with such a schedule is expected to cost on a device that runs `blocks` thread blocks
 * at once, in the time that one takes for a key block. Up to AP_SCHEDULE_ROW_BLOCKS row blocks and
 * AP_SCHEDULE_BLOCKS thread blocks. */
double ap_schedule_cost(const ap_problem *problem, int32_t blocks, const ap_plan *plan);

/** What no order of a plan's units can be better than, in the same time: the longest unit, and the
 * mean of the thread blocks. */
typedef struct ap_schedule_bounds {
  double longest, mean;
} ap_schedule_bounds;
ap_schedule_bounds ap_schedule_least(const ap_problem *problem, int32_t units, int32_t blocks,
                                     const ap_plan *plan);

/** What all of a plan's units without splits have to do: key blocks, the same of each consumer whose rows
 * see them, and units whose rows see any. */
typedef struct ap_schedule_blocks {
  double walked, seen, units;
} ap_schedule_blocks;
ap_schedule_blocks ap_schedule_count(const ap_problem *problem, const ap_plan *plan);

/* Row blocks count once for each split where a mask leaves splits different keys. */
enum { AP_SCHEDULE_ROW_BLOCKS = 2048, AP_SCHEDULE_BLOCKS = 512 };
