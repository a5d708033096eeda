/* The kernels that calls of up to a size may take, and the workspace that is enough for each. */
#include "layernorm/plan.h"

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
    FORWARD_IF(ap_find_room(plan));
    FORWARD_IF(
        ap_layernorm_find_kernel(p, device, pass, rows, class, &plan->launch[plan->count], &fits));
    plan->count += fits;
  }
  return ATTNPRESS_OK;
}

static attnpress_status range_of_pass(const ap_layernorm_problem *p, const ap_device *device,
                                      int32_t pass, int32_t last_class, ap_launches *plan) {
  static const int32_t moved[] = {
      AP_LAYERNORM_ROWS_BULK,    AP_LAYERNORM_ROWS_CUT,    AP_LAYERNORM_ROWS_DIRECT,
      AP_LAYERNORM_ROWS_PACKED,  AP_LAYERNORM_ROWS_PAIRS,  AP_LAYERNORM_ROWS_PIECES,
      AP_LAYERNORM_ROWS_WHOLE,   AP_LAYERNORM_ROWS_ADDED,  AP_LAYERNORM_ROWS_EDGED,
      AP_LAYERNORM_ROWS_SUMMED,  AP_LAYERNORM_ROWS_RINGED, AP_LAYERNORM_ROWS_GATHERED,
      AP_LAYERNORM_ROWS_SHIFTED, AP_LAYERNORM_ROWS_MOVED};
  const int32_t all = classes()->count, last_short = first_class(SHORT_COLS_MAX);
  FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_ALIGNED, last_class, all, plan));
  /* Rows that the copy engine moves have another kernel, too, that of the last class here. */
  const int32_t room = first_class(plan->launch[plan->count - 1].variant.axis[AP_LAYERNORM_COLS]);
  for (size_t i = 0; pass == AP_LAYERNORM_PASS_FWD && i < sizeof moved / sizeof *moved; ++i) {
    const int edges = moved[i] == AP_LAYERNORM_ROWS_CUT || moved[i] == AP_LAYERNORM_ROWS_RINGED ||
                      moved[i] == AP_LAYERNORM_ROWS_DIRECT || moved[i] == AP_LAYERNORM_ROWS_EDGED ||
                      moved[i] == AP_LAYERNORM_ROWS_SHIFTED || moved[i] == AP_LAYERNORM_ROWS_MOVED;
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
  if (pass == AP_LAYERNORM_PASS_BWD) {
    FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_SHORT,
                             (int32_t)smaller(last_class, last_short), 0, plan));
    /* Of slices the first class has shorter ones, too. */
    FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_GATHERED, last_class,
                             first_class(SLICE_COLS_MAX), plan));
    FORWARD_IF(range_of_rows(p, device, pass, AP_LAYERNORM_ROWS_SHIFTED, last_class, all, plan));
  }
  if (last_odd == last_class)
    return ATTNPRESS_OK;
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
      told = ap_layernorm_told_bytes(device);
      parts_columns = larger(parts_columns, (int64_t)device->sm_count * GANG_LONG_BLOCK_COLS);
      continue;
    }
    const int64_t class = launch->variant.axis[AP_LAYERNORM_COLS];
    const int64_t columns = class == ODD_BLOCK_COLS_MAX ? ODD_BLOCK_COLS_MOST : class + ODD_EDGES;
    /* Parts of sorted rows are up to so many columns longer. */
    const int64_t longest = most + SUM_VECTOR_COLUMNS - 1;
    const int64_t parts = parts_of(launch, ap_layernorm_walkers_at_once(device, launch)) +
                          (is_sorted(launch) ? SORTED_MORE : 0);
    const int64_t needed = smaller(columns, longest) * parts;
    if (needed > parts_columns)
      parts_columns = needed;
  }
  return told + ap_layernorm_parts_bytes(p, parts_columns);
}

/** The kernels of gangs, of rows of either kind and of up to so many columns. */
static attnpress_status range_of_gangs(const ap_layernorm_problem *p, const ap_device *device,
                                       int64_t most, ap_launches *plan) {
  const int longest = !p->backward ? 2 : most > GANG_LONG_COLS_MIN;
  for (int longer = 0; longer <= longest; ++longer)
    for (int adds = 0; adds <= !p->backward; ++adds)
      for (int split = 0; split <= 1; ++split) {
        int fits;
        FORWARD_IF(ap_find_room(plan));
        FORWARD_IF(ap_layernorm_find_gang_kernel(p, device, forward_gang_rows(split, adds),
                                                 gang_block_cols[longer],
                                                 &plan->launch[plan->count], &fits));
        plan->count += fits;
      }
  return ATTNPRESS_OK;
}

attnpress_status ap_layernorm_plan_range(const ap_layernorm_problem *p, const ap_device *device,
                                         ap_launches *plan) {
  static const int32_t in_turn[] = {AP_LAYERNORM_PASS_BWD_DX, AP_LAYERNORM_PASS_BWD_PARAMS,
                                    AP_LAYERNORM_PASS_BWD_REDUCE};
  const int64_t most = p->columns == 0 ? ATTNPRESS_LAYERNORM_COLUMNS_MAX : p->columns;
  const int32_t last = first_class(most);
  if (!p->backward) {
    FORWARD_IF(range_of_pass(p, device, AP_LAYERNORM_PASS_FWD, last, plan));
    return most > GANG_COLS_MIN ? range_of_gangs(p, device, most, plan) : ATTNPRESS_OK;
  }
  FORWARD_IF(range_of_pass(p, device, AP_LAYERNORM_PASS_BWD,
                           last < backward_classes() ? last : backward_classes() - 1, plan));
  if (ap_layernorm_has_sums(p) && most > GANG_WHOLE_DSUM_COLS_MIN)
    FORWARD_IF(range_of_gangs(p, device, most, plan));
  for (int i = 0; i < (ap_layernorm_has_sums(p) ? 3 : 1); ++i) {
    FORWARD_IF(ap_find_room(plan));
    FORWARD_IF(ap_layernorm_find_long_kernel(p, device, in_turn[i], &plan->launch[plan->count++]));
  }
  if (ap_layernorm_has_sums(p))
    plan->workspace_bytes = range_workspace(p, device, most, plan);
  return ATTNPRESS_OK;
}
