"""Faults in the kernels for long sequences of ragged batches, and in exponentials that stand behind
the wait for P V, for mutate.py."""

from __future__ import annotations

from mutations import FWD_OUTPUT, FWD_PRODUCTS, FWD_SM90, FWD_WALK, SOFTMAX, Mutation

FIRST = "include/attnpress/device/softmax_first.cuh"
LIMITS = "include/attnpress/device/softmax_limits.cuh"
PRODUCER = "templates/attention/parts/ragged_producer.cu.j2"
SCORES = "templates/attention/parts/fwd_scores_sm90.cu.j2"
UNITS = "templates/attention/parts/ragged_units.cu.j2"

KERNELS = [
    ("flash_fwd_hdim128_bf16_causal_ragged_long_sm90", ""),
    ("flash_fwd_hdim64_bf16_long_sm90", ""),
    ("flash_fwd_hdim64_bf16_causal_ragged_sm90", ""),
]
"""V loaded by a thread of its own, and consumers whose Q is not; P behind the wait, of ragged and
dense calls; the last has four consumers."""

MUTATIONS = [
    Mutation(
        "long ragged: a consumer without rows waits for Q",
        PRODUCER,
        "      mbarrier_arrive(full); // the consumer has no rows, and asks for no products\n",
        "",
    ),
    Mutation(
        "long ragged: the last consumer with rows has no Q",
        PRODUCER,
        "if (unit->position_begin + consumer * positions >= unit->${",
        "if (unit->position_begin + (consumer + 1) * positions > unit->${",
    ),
    Mutation(
        "long ragged: the first row block has rows of the second",
        UNITS,
        "    unit->position_end = of->seqlen_q - behind;",
        "    unit->position_end = of->seqlen_q;",
    ),
    Mutation(
        "long ragged: the first row block begins before the first row",
        UNITS,
        "max(of->seqlen_q - behind - positions, 0)",
        "of->seqlen_q - behind - positions",
    ),
    Mutation(
        "long ragged: row blocks begin with the sequence, and keys end as if they did not",
        UNITS,
        "max(of->seqlen_q - behind - positions, 0)",
        "(of->blocks - 1) * positions - behind",
    ),
    Mutation(
        "long ragged: of heads that share tiles the last row block is full",
        UNITS,
        "min(end * own, of->seqlen_q)",
        "end * own",
    ),
    Mutation(
        "long ragged: the first row sees a key too many",
        UNITS,
        "row_at_begin(&args->fwd, unit, unit->position_begin).key_end;",
        "row_at_begin(&args->fwd, unit, unit->position_begin).key_end + 1;",
    ),
    Mutation(
        "long ragged: all rows of a consumer see what the unit's first row does",
        FWD_WALK,
        "unit->key_end + position)",
        "unit->key_end)",
    ),
    Mutation(
        "long ragged: no key is masked",
        FWD_WALK,
        "min(unit->seqlen_k, unit->key_end + positions) / BLOCK_N;",
        "unit->seqlen_k / BLOCK_N;",
    ),
    Mutation(
        "long ragged: consumers see the key blocks of the first",
        FWD_WALK,
        "unit->block_end[consumer]",
        "unit->block_end[0]",
    ),
    Mutation(
        "long ragged: row blocks of fewer consumers begin where others would",
        UNITS,
        "found.block * CONSUMERS - max(found.block - whole, 0)",
        "found.block * CONSUMERS",
    ),
    Mutation(
        "long ragged: row blocks of all consumers have one fewer",
        UNITS,
        "found.block < whole ? CONSUMERS : CONSUMERS - 1",
        "CONSUMERS - 1",
    ),
    Mutation(
        "keys forwards: zeros behind the first key block",
        PRODUCER,
        "(v_stage.index + blocks - 1) % STAGES",
        "v_stage.index",
    ),
    Mutation(
        "keys forwards: what is loaded is taken for other keys",
        PRODUCER,
        "unit->k_row + block_at(unit, n) * BLOCK_N",
        "unit->k_row + n * BLOCK_N",
    ),
    Mutation(
        "keys forwards: the last key block is never masked",
        SCORES,
        "walk->n < walk->masked",
        "walk->n < walk->masked && walk->n > 0",
    ),
    Mutation(
        "keys forwards: key blocks that a consumer does not see are not handed back",
        FWD_SM90,
        "    for (; unseen > 0; --unseen) {",
        "    for (; unseen > 1; --unseen) {",
    ),
    Mutation(
        "keys forwards: of heads that share tiles, such key blocks are not handed back",
        FWD_SM90,
        "      unseen = walk.block_begin - walk.unit.blocks.begin;\n",
        '      unseen = ${ "args->fwd.heads_per_tile > 1 ? 0 :" if forwards else "" } '
        "walk.block_begin - walk.unit.blocks.begin;\n",
    ),
    Mutation(
        "keys forwards: a consumer without rows hands nothing back",
        FWD_SM90,
        "    for (; walk.n >= 0 && !has_rows; --walk.n) {",
        "    for (; walk.n > 0 && !has_rows; --walk.n) {",
    ),
    Mutation(
        "long ragged: warps whose last row is not there store nothing",
        FWD_OUTPUT,
        "divide(threadIdx.x / 32 % 4 * 16, &args->heads_per_tile);",
        "divide(threadIdx.x / 32 % 4 * 16 + 15, &args->heads_per_tile);",
    ),
    Mutation(
        "long ragged: Q of each unit in the same phase",
        PRODUCER,
        "      q_parity ^= 1;\n",
        '//% if sequences == "paged"\n      q_parity ^= 1;\n//% endif\n',
    ),
    Mutation(
        "long ragged: V of the first key block is left out",
        PRODUCER,
        "    for (int n = unit->blocks.end - 1; n >= unit->blocks.begin; --n)\n",
        "    for (int n = unit->blocks.end - "
        '${ 1 if sequences == "paged" else 2 }; n >= unit->blocks.begin; --n)\n',
    ),
    Mutation(
        "long ragged: a unit is handed back before V is asked for",
        FWD_SM90,
        "${ 3 if values_apart else 2 }",
        '${ 3 if sequences == "paged" else 2 }',
    ),
    Mutation(
        "four consumers: the last one gets no turn",
        FWD_SM90,
        "  named_barrier_arrive(1 + (consumer + 1) % CONSUMERS, 256);",
        "  named_barrier_arrive(1 + (consumer + 1) % min(CONSUMERS, 3), 256);",
    ),
    Mutation(
        "four consumers: more registers than there are",
        FWD_SM90,
        "112 if block_m == 256",
        "160 if block_m == 256",
    ),
    Mutation(
        "P behind the wait is left out",
        FWD_SM90,
        "        add_rows(score, S_TILES, reference, row_sum, rescale, scale_log2);\n",
        "",
    ),
    Mutation(
        "references alone: none is followed",
        SOFTMAX,
        "  if (__any_sync(0xffffffff, follows)) {\n    float maximum[2];\n    row_maxima",
        "  if (__any_sync(0xffffffff, false)) {\n    float maximum[2];\n    row_maxima",
    ),
    Mutation(
        "P and sums: one row alone",
        SOFTMAX,
        "    add_row(score, tiles, half, finite_base(reference[half]) * scale_log2,",
        "    add_row(score, tiles, 0, finite_base(reference[half]) * scale_log2,",
    ),
    Mutation(
        "first scores: none is followed",
        FIRST,
        "  if (__any_sync(0xffffffff, follows[0] || follows[1])) {",
        "  if (__any_sync(0xffffffff, false)) {",
    ),
    Mutation(
        "first scores: a thread by itself",
        FIRST,
        "      asked |= __shfl_xor_sync(0xffffffff, asked, 2);\n",
        "",
    ),
    Mutation(
        "a unit's first product adds to O of the unit before",
        FWD_PRODUCTS,
        "step > 0 || !begins",
        "1",
    ),
    Mutation(
        "each product of a unit is O",
        FWD_SM90,
        "        begins = false;\n",
        "",
    ),
    Mutation(
        "Q ahead: its places have one phase",
        PRODUCER,
        "turn / Q_PLACES % 2 ^ 1",
        "1",
    ),
    Mutation(
        "Q ahead: the place of the unit before",
        FWD_SM90,
        "  uint32_t q_turn = consumer;",
        "  uint32_t q_turn = consumer + CONSUMERS;",
    ),
    Mutation(
        "Q ahead: barriers of some places overlap those of K",
        FWD_SM90,
        '2 * ${ "Q_PLACES" if q_ahead else "CONSUMERS" } + stage',
        "2 * CONSUMERS + stage",
    ),
    Mutation(
        "a row's output lies where its position alone says",
        FWD_SM90,
        "(row - position * args.fwd.heads_per_tile) * args.fwd.out_head_stride;",
        "0 * row;",
    ),
    Mutation(
        "long ragged, limits: no row is followed",
        LIMITS,
        "__builtin_bit_cast(uint32_t, limit) : 0;",
        "0xffffffffu : 0xffffffffu;",
    ),
    Mutation(
        "long ragged, limits: the vote is of the second rows alone",
        LIMITS,
        "follows |= (uint32_t)bits",
        "follows = (uint32_t)bits",
    ),
    Mutation(
        "long ragged, limits: negative references have some, too",
        LIMITS,
        "reference[half] >= 0.0f ?",
        "reference[half] >= -INF ?",
    ),
    Mutation(
        "long ragged, limits: they stay those of the first reference",
        LIMITS,
        "    find_limits(limits, reference, 8.0f, scale_log2);\n    row_sum",
        "    row_sum",
    ),
    Mutation(
        "long ragged, limits: what is taken off is not scaled",
        LIMITS,
        "finite_base(reference[half]) * scale_log2;",
        "finite_base(reference[half]);",
    ),
    Mutation(
        "long ragged, limits: a sum stays what it was when its row is followed",
        LIMITS,
        "    row_sum[1] *= rescale[1];\n",
        "",
    ),
    Mutation(
        "long ragged, limits: O stays what it was when rows are followed",
        LIMITS,
        "if (!limits->followed)",
        "if (limits->followed || !limits->followed)",
    ),
    Mutation(
        "long ragged, limits: the second key block's P V overwrites the first's",
        FWD_SM90,
        "const int second = walk.n - 1;",
        "const int second = walk.n - 2;",
    ),
    Mutation(
        "long ragged: Q of a unit of several key blocks is not handed back",
        FWD_SM90,
        "      if (!begins)\n        arrive_once(q_empty(shared, q_turn % Q_PLACES));\n",
        "",
    ),
    Mutation(
        "long ragged: Q of a unit of one key block is handed back twice",
        FWD_SM90,
        "      if (!begins)\n        arrive_once(q_empty(shared, q_turn % Q_PLACES));\n",
        "      arrive_once(q_empty(shared, q_turn % Q_PLACES));\n",
    ),
    Mutation(
        "long ragged: Q is handed back by rows that see all of a unit's key blocks alone",
        FWD_SM90,
        "    finish_scores(score, 0, shared, q_turn % Q_PLACES, stage.index,\n"
        '                  walk.n == ${ "walk.block_begin" if ends_apart else',
        "    finish_scores(score, 0, shared, q_turn % Q_PLACES, stage.index,\n"
        '                  walk.n == ${ "walk.unit.blocks.begin" if ends_apart else',
    ),
]
