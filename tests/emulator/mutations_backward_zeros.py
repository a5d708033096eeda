"""Single faults in the zeros that thread blocks of backward kernels write for later ones."""

from __future__ import annotations

from mutations import BWD_DQ, Mutation

ZERO = "include/attnpress/device/gradient_zero.cuh"
DELTA = "templates/attention/flash_bwd_delta.cu.j2"
SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
EXCHANGE = "templates/attention/flash_bwd_exchange_sm90.cu.j2"
COLUMNS = "templates/attention/parts/bwd_columns_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim72_fp16_causal_sm90", "m64n128s2v"),
    ("flash_bwd_hdim64_bf16_sm90", "m64n128s3d4kv"),
    ("flash_bwd_hdim72_bf16_softcap_sm90", "m64n128s2"),
    ("flash_bwd_hdim200_bf16_sm90", "m64n64s2d4"),
    ("flash_bwd_hdim136_bf16_sm90", "m64n80s3"),
    ("flash_bwd_delta_hdim72_bf16_sm80", ""),
]
"""dQ by consumers in turn, and the copy engine; by a warpgroup; by `red`; of 64 and of 80 keys."""


def of(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"bwd zeros: {name}", file, old, new)


LOOP = "  while (load_acquire(args->dq_zeroed + unit) < args->blocks * warps) {\n  }\n"
LANE_WAITS = "    wait_for_zeros(args, unit_of(args, work), 2);\n  __syncwarp();\n"
LANE_ALONE_WAITS = "    wait_for_zeros(args, unit_of(args, work), 2);\n"

MUTATIONS = [
    of("nobody waits", ZERO, LOOP, ""),
    of("one asks, and does not wait", ZERO, LOOP, "  load_acquire(args->dq_zeroed);\n"),
    of("the copy engine does not know", ZERO, "  fence_proxy_async_global();\n", ""),
    of(
        "the first lane does not know of the others' zeros",
        ZERO,
        "  __syncwarp(); // the first lane knows of the others' zeros\n",
        "",
    ),
    of("its own unit", ZERO, "own_unit + args->zero_ahead", "own_unit"),
    of(
        "one unit further",
        ZERO,
        "own_unit + args->zero_ahead",
        "own_unit + args->zero_ahead + 1",
    ),
    of("the last unit has none", ZERO, "|| unit >= args->batch", "|| unit + 1 >= args->batch"),
    of("all begin at the group", ZERO, " + part * group / args->group_parts", ""),
    of("the first warp's share alone", ZERO, "* warps + warp) * each", "* warps) * each"),
    of("shares that are too short", ZERO, "min(each, quads", "min(each - 1, quads"),
    of(
        "the first that should wait does not",
        ZERO,
        "unit < args->zero_ahead",
        "unit <= args->zero_ahead",
    ),
    of("a head too few before", DELTA, "head_index < first_head", "head_index + 1 < first_head"),
    of("counters begin anywhere", DELTA, "    args.dq_zeroed[blockIdx.x] = 0;\n", "    ;\n"),
    of(
        "counters of whole groups",
        DELTA,
        "blockIdx.x < args.batch * args.heads_kv * args.group_parts",
        "blockIdx.x < args.batch * args.heads_kv",
    ),
    of(
        "a warp of two zeroes",
        SM90,
        "    if (warp >= 2)\n      zero_ahead",
        "    if (warp == 2)\n      zero_ahead",
    ),
    of(
        "the thread that has dQ added does not wait",
        BWD_DQ,
        "//% if parts\n  wait_for_zeros(args, unit_of(args, work), 2);\n",
        "//% if parts\n",
    ),
    of(
        "the warpgroup of dQ does not wait",
        SM90,
        "      if (threadIdx.x == 64)\n        wait_for_zeros(&bwd, unit_of(&bwd, &work), 2);\n",
        "",
    ),
    of(
        "nobody tells the warpgroup of dQ",
        BWD_DQ,
        "  named_barrier_sync(3, 128 + 32);\n",
        "  named_barrier_arrive(3, 128 + 32);\n",
    ),
    of(
        "consumers do not wait",
        SM90,
        f"  if (lane == 0)\n{LANE_WAITS}//% endif\n  Step",
        "//% endif\n  Step",
    ),
    of("lanes of 64 keys do not know", EXCHANGE, LANE_WAITS, LANE_ALONE_WAITS),
    of("lanes of 80 keys do not know", COLUMNS, LANE_WAITS, LANE_ALONE_WAITS),
]
