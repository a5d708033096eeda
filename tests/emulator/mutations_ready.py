"""Faults in schedules that are ready, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

UNITS_OF = "include/attnpress/device/units.cuh"
UNITS = "templates/attention/parts/ragged_units.cu.j2"
PRODUCER = "templates/attention/parts/ragged_producer.cu.j2"
SCHEDULE = "templates/attention/flash_fwd_schedule.cu.j2"

KERNELS = [
    ("flash_fwd_hdim40_bf16_causal_ragged_ready_sm90", "m64n48s2"),
    ("flash_fwd_split_hdim40_fp16_window_paged_ready_sm90", "m128n48s2"),
    ("flash_fwd_schedule_hdim8_bf16_ready_sm80", ""),
]
"""One consumer and two, keys one after the other and in pages, splits that are units; and what
makes a schedule."""

MUTATIONS = [
    Mutation(
        "ready: a sequence that comes twice is computed twice, and another not",
        UNITS_OF,
        "return place == step ? sequence : -1;",
        "return sequence;",
    ),
    Mutation(
        "ready: sequences that the order leaves out are left out",
        UNITS_OF,
        "return named ? -1 : sequence;",
        "return -1;",
    ),
    Mutation(
        "ready: sequences that the order has come again",
        UNITS_OF,
        "return named ? -1 : sequence;",
        "return sequence;",
    ),
    Mutation(
        "ready: a number past the last sequence",
        UNITS_OF,
        "if (sequence < 0 || sequence >= batch)",
        "if (sequence < 0 || sequence > batch)",
    ),
    Mutation(
        "ready: a negative sequence",
        UNITS_OF,
        "if (sequence < 0 || sequence >= batch)",
        "if (sequence >= batch)",
    ),
    Mutation(
        "ready: a place past the last",
        UNITS_OF,
        "0 <= place && place < batch && order",
        "0 <= place && order",
    ),
    Mutation(
        "ready: a negative place",
        UNITS_OF,
        "0 <= place && place < batch && order",
        "place < batch && order",
    ),
    Mutation(
        "ready: the places begin with the order",
        UNITS_OF,
        "const int place = order[batch + sequence];",
        "const int place = order[sequence];",
        harmless="each sequence still comes once, in another order: it costs time",
    ),
    Mutation(
        "ready: all of the walk is behind the first steps",
        UNITS_OF,
        "if (step >= 2 * batch)",
        "if (step >= batch)",
    ),
    Mutation(
        "ready: a sequence has the next lane's units",
        PRODUCER,
        "first = end - count;",
        "first = end;",
    ),
    Mutation(
        "ready: units of the lanes before are forgotten",
        PRODUCER,
        "end = __shfl_sync(0xffffffff, end, 31) + sum_up_lanes(count);",
        "end = sum_up_lanes(count);",
    ),
    Mutation(
        "ready: the walk ends with the first lanes",
        PRODUCER,
        "== 32 && found < batch &&",
        "== 32 && found == 0 &&",
    ),
    Mutation(
        "ready: a step is skipped",
        PRODUCER,
        "      step += 32;",
        "      step += 33;",
    ),
    Mutation(
        "ready: the ticket is lost",
        UNITS,
        "(int)atomic_add(ticket, 1)",
        "(int)atomic_add(ticket, 2)",
    ),
    Mutation(
        "ready: without tickets a thread block takes its first unit again",
        UNITS,
        "(int)atomic_add(ticket, 1) : number)",
        "(int)atomic_add(ticket, 1) : (int)blockIdx.x)",
    ),
    Mutation(
        "ready: the sum of the lanes lacks one distance",
        UNITS,
        "for (int distance = 1; distance < 32; distance *= 2) {\n    const int below",
        "for (int distance = 1; distance < 16; distance *= 2) {\n    const int below",
    ),
    Mutation(
        "ready: blocks of rows are rounded down",
        UNITS,
        "  const int blocks = ceil_div(seqlen_q, CONSUMERS * args->warpgroup_positions);",
        "  const int blocks = seqlen_q / (CONSUMERS * args->warpgroup_positions);",
    ),
    Mutation(
        "ready: splits of a sequence are not counted",
        UNITS,
        "return blocks * args->tile_heads.value * splits;",
        "return blocks * args->tile_heads.value;",
    ),
    Mutation(
        "ready: the combine kernel is not told of the splits",
        UNITS,
        "    ragged_args(args)->sequence_splits[sequence] = splits;",
        "    ;",
    ),
    Mutation(
        "ready: the first split is the one of key 0",
        UNITS,
        "of.first_split = splits_of(args, queries.count, keys.count).first;",
        "of.first_split = 0;",
    ),
    Mutation(
        "ready: the first key of the batch",
        UNITS,
        "  of.k_row = keys.begin;",
        "  of.k_row = 0;",
    ),
    Mutation(
        "ready: the first query of the batch",
        UNITS,
        "  of.q_row = queries.begin;",
        "  of.q_row = 0;",
    ),
    Mutation(
        "ready: pages of the first sequence",
        UNITS,
        "of.first_page = first_page(ragged, sequence, of.k_batch);",
        "of.first_page = 0;",
    ),
    Mutation(
        "ready: a window of another sequence",
        UNITS_OF,
        "const int shift = center - score->window_center;",
        "const int shift = center;",
    ),
    Mutation(
        "ready: the last split has no units",
        UNITS_OF,
        "split_keys) - first, 1)",
        "split_keys) - first - 1, 1)",
    ),
    Mutation(
        "ready schedule: each part has the sequences of the first",
        SCHEDULE,
        "in_order[part + place] = sequence;",
        "in_order[place] = sequence;",
    ),
    Mutation(
        "ready schedule: places within a part",
        SCHEDULE,
        "in_order[args.batch + sequence] = part + place;",
        "in_order[args.batch + sequence] = place;",
    ),
    Mutation(
        "ready schedule: it does not say how many sequences it has",
        SCHEDULE,
        "    args.ready[0] = args.batch;",
        "    args.ready[0] = 0;",
    ),
]
