/* Schedules that are ready: the order of a batch's sequences, made once for several calls. */
#pragma once
#include "attention/attention.h"

/** Writes the schedule of sequences whose arrays lie in host memory, as the schedule kernel does;
 * `args`: as ap_fill_ragged_args() fills it, bound: the most queries of a sequence. OUT_OF_MEMORY. */
attnpress_status ap_order_sequences(const attnpress_ragged_args *args, int64_t batch, int64_t bound,
                                    int32_t *schedule);
/** INVALID_ARGUMENT where a schedule in host memory is not the one that these sequences have. */
attnpress_status ap_check_order(const attnpress_ragged_args *args, int64_t batch, int64_t bound,
                                const int32_t *schedule);
