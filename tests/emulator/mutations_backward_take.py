"""Single faults where thread blocks of backward kernels take key blocks one after the other."""

from __future__ import annotations

from mutations import BWD_DQ, Mutation

TAKE = "include/attnpress/device/gradient_take.cuh"
ROWS = "include/attnpress/device/gradient_rows.cuh"
DELTA = "templates/attention/flash_bwd_delta.cu.j2"
SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
WALK = "templates/attention/parts/key_walk_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim72_fp16_causal_sm90", "m64n128s2v"),
    ("flash_bwd_hdim64_bf16_sm90", "m64n128s3d4kv"),
    ("flash_bwd_hdim128_bf16_causal_sm90", "m64n128s2d8"),
    ("flash_bwd_hdim104_fp16_causal_ragged_sm90", "m64n128s2d8"),
    ("flash_bwd_hdim56_bf16_ragged_sm90", "m64n128s3d4kv"),
    ("flash_bwd_delta_hdim72_bf16_sm80", ""),
    ("flash_bwd_delta_hdim72_bf16_ragged_sm80", ""),
]
"""dQ by consumers in turn, by a warpgroup, and by halves of its columns; dense and ragged."""


def of(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"bwd takes: {name}", file, old, new)


MUTATIONS = [
    of("the same again", TAKE, "number = atomic_increment(args->taken);",
       "number = load_acquire(args->taken);"),
    of("the first lane alone knows", TAKE, "(int)__shfl_sync(0xffffffff, number, 0)",
       "(int)number"),
    of("nobody counts from zero", DELTA, "    *args.taken = 0;\n", "    ;\n"),
    of("the work before the last is overwritten", SM90,
       "      wait_for_phase(work_empty(turn % 2), turn / 2 % 2 ^ 1);\n", ""),
    of("a reader too few is waited for", SM90, "NUM_THREADS / 32 - 1;", "NUM_THREADS / 32 - 2;"),
    of("K and V of the work before are overwritten", WALK,
       "    wait_for_phase(keys_empty(), work->before.keys % 2 ^ 1);\n", ""),
    of("K and V are handed over while they are read", SM90,
       "    named_barrier_sync(2, NUM_THREADS - 128);\n    if (threadIdx.x == 128)",
       "    if (threadIdx.x == 128)"),
    of("walks without steps bring keys", WALK, "work->before.keys + (work->steps > 0)",
       "work->before.keys + 1"),
    of("steps of the work before are forgotten", WALK, "work->before.steps + work->steps,",
       "work->steps,"),
    of("the place in the ring is that of the first work", TAKE,
       "{progress.steps % stages, progress.steps / stages % 2}", "{0, 0}"),
    of("a round of the ring too early", TAKE, "progress.steps / stages % 2",
       "(progress.steps + 1) / stages % 2"),
    of("dQ is added before there are zeros", BWD_DQ,
       "  wait_for_phase(sum_ready(work_turn % 2), work_turn / 2 % 2);\n", ""),
    of("tails of keys are of one parity", WALK, "  *parities ^= 1u << STAGES;\n", ""),
    of("a causal order of the grid's blocks", WALK,
       "block_in_turn(args, index, blocks_of_call(args))",
       "block_in_turn(args, index, gridDim.x)"),
    of("lanes exchange once", ROWS, "distance < 4; distance *= 2", "distance < 2; distance *= 2"),
    of("the wrong pair goes over", ROWS, "upper ? pair[i] : pair[i + distance]",
       "upper ? pair[i + distance] : pair[i]"),
    of("what is there is not exchanged", ROWS,
       "        exchange_pairs(pair, lane);\n      }\n", "      }\n"),
    of("rows behind the last", ROWS, "row < valid && first + lane % 4 < min(tiles, there)",
       "first + lane % 4 < tiles"),
    of("columns behind the last", ROWS, "row < valid && first + lane % 4 < min(tiles, there)",
       "row < valid"),
    of(
        "a consumer with keys is idle",
        SM90,
        "first_key >= args->seqlen_k",
        "first_key + 32 >= args->seqlen_k",
    ),
    of(
        "an idle consumer's half of dQ is a step short",
        SM90,
        "      if (n > 0)\n        hand_over_dq(",
        "      if (n > 1)\n        hand_over_dq(",
    ),
    of(
        "an idle consumer does not wait for dS",
        SM90,
        "      wait_for_phase(ds_full(shared, turn ^ 1), turn_parity ^ turn ^ 1);\n",
        "",
    ),
    of(
        "an idle consumer stores into dS that is read",
        SM90,
        "      wait_for_phase(ds_empty(shared, turn), turn_parity ^ turn ^ 1);\n",
        "",
    ),
]  # fmt: skip
