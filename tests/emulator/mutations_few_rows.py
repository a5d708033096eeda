"""Faults in sm90's kernels for few rows of batch-invariant calls, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

SPLITS = "templates/attention/parts/fixed_splits_sm90.cu.j2"
PRODUCER = "templates/attention/parts/ragged_producer.cu.j2"
WALK = "templates/attention/parts/fwd_walk_sm90.cu.j2"
FORWARD = "templates/attention/flash_fwd_sm90.cu.j2"
SOFTMAX = "include/attnpress/device/softmax_row.cuh"
EPILOGUE = "include/attnpress/device/epilogue.cuh"

KERNELS = [
    ("flash_fwd_split_hdim64_bf16_paged_ready_decode_sm90", "m8n48s2"),
    ("flash_fwd_split_hdim72_fp16_causal_ragged_decode_sm90", "m8n48s3"),
]
"""One sequence whose units are found by one read, and others; keys in pages, and in a row."""

MUTATIONS = [
    Mutation(
        "few rows: a row's sums of splits go on in the next one's",
        SPLITS,
        "kept->out[i] = last ? 0.0f : *o;",
        "kept->out[i] = *o;",
    ),
    Mutation(
        "few rows: the weights of the splits before are forgotten",
        SPLITS,
        "  if (first)\n    kept->parts = {-INF, 0.0f};\n",
        "  kept->parts = {-INF, 0.0f};\n",
    ),
    Mutation(
        "few rows: weights are not brought to the present maximum",
        EPILOGUE,
        "multiply_add_once(factors.x, parts->weights, factors.y)",
        "parts->weights + factors.y",
    ),
    Mutation(
        "few rows: parts are not normalised before they are added up",
        SPLITS,
        "add_weighted(factors, kept->out[i], *o * ends[0].normalize)",
        "add_weighted(factors, kept->out[i], *o)",
    ),
    Mutation(
        "few rows: the reference is not taken off",
        SOFTMAX,
        "finite_base(*reference) * scale_log2, row_sum",
        "0.0f, row_sum",
    ),
    Mutation(
        "few rows: units of one sequence are a grid too near",
        PRODUCER,
        "next = unit_of_one(args, number + gridDim.x);",
        "next = unit_of_one(args, number + gridDim.x - 1);",
    ),
    Mutation(
        "few rows: a unit without keys is not left",
        FORWARD,
        "    } else {\n      more = next_unit(&walk, args, consumer);\n    }\n",
        "    }\n",
    ),
    Mutation(
        "few rows: of one sequence a place is taken before it is free",
        PRODUCER,
        "    wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n    if (!write",
        "    if (!write",
    ),
    Mutation(
        "few rows: of one sequence the last split is left out",
        PRODUCER,
        "of.split > 0 && of.split * fixed * BLOCK_N >= seqlen_k",
        "of.split > 0 && (of.split + 1) * fixed * BLOCK_N >= seqlen_k",
    ),
    Mutation(
        "few rows: of one sequence a split too many is counted",
        PRODUCER,
        "max(ceil_div(seqlen_k, split_keys), 1);",
        "ceil_div(seqlen_k, split_keys) + 1;",
    ),
    Mutation(
        "few rows: of one sequence the heads of a split are those of another",
        PRODUCER,
        "number - split * args->tile_heads.value};",
        "0};",
    ),
    Mutation(
        "few sequences: a unit that was guessed, and is none, is stored",
        WALK,
        "return !(units[walk->place.index].ends & BEHIND_NONE);",
        "return true;",
    ),
    Mutation(
        "few sequences: lengths are what they were guessed to be",
        PRODUCER,
        "if (guesses || __any_sync(0xffffffff, now != used)) {",
        "if (guesses) {",
    ),
    Mutation(
        "few sequences: after a wrong guess the first unit is left out",
        PRODUCER,
        "      used = now;\n      round = 0;\n",
        "      used = now;\n",
    ),
    Mutation(
        "few sequences: the end of a guess is not waited for",
        PRODUCER,
        "      break;\n    griddepcontrol_wait();\n",
        "      break;\n",
    ),
    Mutation(
        "few sequences: splits that are cut short, and as long, have one place",
        PRODUCER,
        "before += other > rest || (other == rest && i < lane);",
        "before += other > rest;",
    ),
    Mutation(
        "few sequences: heads of a split cut short are left out",
        PRODUCER,
        "few.cut_end = few.cut_begin + (cut ? heads : 0);",
        "few.cut_end = few.cut_begin + (cut ? 1 : 0);",
    ),
    Mutation(
        "few sequences: a place is taken before it is free",
        PRODUCER,
        "      wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n      const bool wrote",
        "      const bool wrote",
    ),
    Mutation(
        "few sequences: a split too many is counted",
        PRODUCER,
        "max(ceil_div(few.seqlen_k, batch->fixed_split_blocks * BLOCK_N), 1);",
        "few.seqlen_k / (batch->fixed_split_blocks * BLOCK_N) + 1;",
    ),
    Mutation(
        "few rows: the lse of rows past the end is stored",
        SPLITS,
        "if (is_part && row.valid && lane % 4 == 0)",
        "if (is_part && lane % 4 == 0)",
    ),
    Mutation(
        "few rows: parts are normalised as the first row",
        SPLITS,
        "__shfl_sync(0xffffffff, end.normalize, lane & 28),\n          fwd",
        "__shfl_sync(0xffffffff, end.normalize, 0),\n          fwd",
    ),
    Mutation(
        "few rows: a split that becomes the output is stored as a part",
        SPLITS,
        "return {is_part, row.valid,",
        "return {is_there, row.valid,",
    ),
    Mutation(
        "few rows: the place of a part's unit is not handed back",
        FORWARD,
        "      arrive_once(unit_empty((walk.place.index + UNITS - 1) % UNITS));\n    } else {",
        "    } else {",
    ),
    Mutation(
        "few rows: a part is stored by what comes after the product, too",
        FORWARD,
        "    } else {\n      store_unit(out, reference",
        "    }\n    {\n      store_unit(out, reference",
    ),
]
