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
        "return place == step;",
        "return true;",
    ),
    Mutation(
        "ready: sequences that the order leaves out are left out",
        UNITS_OF,
        "return !(0 <= place && place < batch && "
        "ready[ATTNPRESS_READY_ORDER + place] == sequence);",
        "return false;",
    ),
    Mutation(
        "ready: sequences that the order has come again",
        UNITS_OF,
        "return !(0 <= place && place < batch && "
        "ready[ATTNPRESS_READY_ORDER + place] == sequence);",
        "return true;",
    ),
    Mutation(
        "ready: a number past the last sequence",
        PRODUCER,
        "const bool there = 0 <= named && named < batch;",
        "const bool there = 0 <= named && named <= batch;",
    ),
    Mutation(
        "ready: a negative sequence",
        PRODUCER,
        "const bool there = 0 <= named && named < batch;",
        "const bool there = named < batch;",
    ),
    Mutation(
        "ready: a place is taken before it is free",
        PRODUCER,
        "    wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n    int next",
        "    int next",
    ),
    Mutation(
        "ready: a place past the last",
        UNITS_OF,
        "0 <= place && place < batch && ready",
        "0 <= place && ready",
    ),
    Mutation(
        "ready: a negative place",
        UNITS_OF,
        "0 <= place && place < batch && ready",
        "place < batch && ready",
    ),
    Mutation(
        "ready: the places begin with the order",
        UNITS_OF,
        "sequence : ready[ATTNPRESS_READY_ORDER + batch + sequence];",
        "sequence : ready[ATTNPRESS_READY_ORDER + sequence];",
        harmless="each sequence still comes once, in another order: it costs time",
    ),
    Mutation(
        "ready: without an order all sequences are the first",
        UNITS_OF,
        "  if (ready == nullptr)\n    return step;",
        "  if (ready == nullptr)\n    return 0;",
    ),
    Mutation(
        "ready: without an order no place is a sequence's",
        UNITS_OF,
        "return ready == nullptr ? sequence :",
        "return ready == nullptr ? sequence + 1 :",
    ),
    Mutation(
        "ready: all of the walk is behind the first steps",
        PRODUCER,
        "step - lane < 2 * batch - 32",
        "step - lane < batch - 32",
    ),
    Mutation(
        "ready: a sequence has the next lane's units",
        PRODUCER,
        "__shfl_sync(0xffffffff, sum, 31) + sum - count;",
        "__shfl_sync(0xffffffff, sum, 31) + sum;",
    ),
    Mutation(
        "ready: units of the steps before are forgotten",
        PRODUCER,
        "end += __reduce_add_sync(0xffffffff, count);",
        "end = __reduce_add_sync(0xffffffff, count);",
    ),
    Mutation(
        "ready: the walk ends with the first lanes",
        PRODUCER,
        "end <= number && found < batch &&",
        "end <= number && found == 0 &&",
    ),
    Mutation(
        "ready: what the order names is not asked for ahead",
        PRODUCER,
        "named = named_sequence(ragged->ready, batch, step + 32);",
        "named = named_sequence(ragged->ready, batch, step);",
    ),
    Mutation(
        "ready: a sequence that comes elsewhere has units here as well",
        PRODUCER,
        "count = comes ? units_there : 0;",
        "count = units_there;",
    ),
    Mutation(
        "ready: a sequence comes where the first one is named, for a number that is none",
        PRODUCER,
        "const bool comes = there & comes_at(",
        "const bool comes = comes_at(",
    ),
    Mutation(
        "ready: a step is skipped",
        PRODUCER,
        "      step += 32;",
        "      step += 33;",
    ),
    Mutation(
        "ready: the ticket is lost",
        PRODUCER,
        "atomic_increment(ragged->ticket)",
        "(2 * atomic_increment(ragged->ticket))",
        place=2,
    ),
    Mutation(
        "ready: the ticket of a unit of splits is lost",
        PRODUCER,
        "atomic_increment(ragged->ticket)",
        "(2 * atomic_increment(ragged->ticket))",
    ),
    Mutation(
        "ready: without tickets a thread block takes its first unit again",
        PRODUCER,
        "    int next = number;\n//% if cut_last",
        "    int next = blockIdx.x;\n//% if cut_last",
    ),
    Mutation(
        "ready: the sum of the lanes lacks one distance",
        UNITS_OF,
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
        "return blocks * args->tile_heads.value * splits->all;",
        "return blocks * args->tile_heads.value;",
    ),
    Mutation(
        "ready: the combine kernel is not told of the splits",
        PRODUCER,
        "        ragged->sequence_splits[sequence] = splits.all;",
        "        ;",
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
        "ready schedule: each thread block says how many sequences it has",
        SCHEDULE,
        "place == 0 && part == 0",
        "place == 0",
    ),
    Mutation(
        "ready schedule: it does not say how many sequences it has",
        SCHEDULE,
        "    args.ready[0] = args.batch;",
        "    args.ready[0] = 0;",
    ),
    Mutation(
        "ready: splits that are cut short begin at the first",
        PRODUCER,
        "passed = cut ? whole : 0;",
        "passed = 0;",
    ),
    Mutation(
        "ready: splits that are cut short come twice",
        PRODUCER,
        "cut ? units_there - whole : whole;",
        "units_there - (cut ? whole : 0);",
    ),
    Mutation(
        "ready: a thread block goes back in each round",
        PRODUCER,
        "(round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x)",
        "(round == 0 ? blockIdx.x : gridDim.x - 1 - round % 2 * blockIdx.x)",
    ),
    Mutation(
        "ready: the order of splits that are cut short names some twice",
        PRODUCER,
        "before += other > number || (other == number && i < lane);",
        "before += other > number;",
    ),
]
