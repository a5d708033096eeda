"""Faults where warps of bwd do what bwd_delta does, for units that come later."""

from __future__ import annotations

from mutations import Mutation

SHARE = "include/attnpress/device/gradient_share.cuh"
AHEAD = "include/attnpress/device/gradient_ahead.cuh"
DELTA = "templates/attention/flash_bwd_delta.cu.j2"
SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
WALK = "templates/attention/parts/key_walk_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim64_bf16_ragged_sm90", "m64n128s3d4kv"),
    ("flash_bwd_hdim40_fp16_causal_ragged_sm90", "m64n128s3d4kv"),
    ("flash_bwd_delta_hdim64_bf16_ragged_sm80", ""),
    ("flash_bwd_delta_hdim40_fp16_ragged_sm80", ""),
]
"""All columns of a slab, and some; later units, and the first."""


def of(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"bwd ahead: {name}", file, old, new)


def without(name: str, file: str, line: str) -> Mutation:
    """A line less."""
    return of(name, file, line, "")


MUTATIONS = [
    # ---- Which share ----
    of("its own unit's", WALK, "work->number + batch->bwd.zero_ahead;", "work->number;"),
    of("the first ones again", WALK, "number < (int)*end_of_first(batch) ||", "false ||"),
    of(
        "one more is left to bwd_delta",
        WALK,
        "number < (int)*end_of_first(batch) ||",
        "number <= (int)*end_of_first(batch) ||",
    ),
    of(
        "shares begin a block late",
        SHARE,
        "unit.block * parts / blocks * SHARE_ROWS",
        "(unit.block + 1) * parts / blocks * SHARE_ROWS",
    ),
    of(
        "shares of whole blocks alone",
        SHARE,
        "ceil_div(share->at.seqlen_q, SHARE_ROWS)",
        "share->at.seqlen_q / SHARE_ROWS",
    ),
    of("the first query head alone", SHARE, "batch->bwd.heads_q / batch->bwd.heads_kv;", "1;"),
    of("each warp has all", AHEAD, "job_behind(job, share, warps)", "job_behind(job, share, 1)"),
    of("both warps begin alike", AHEAD, "job = job_behind(job, share, warp);", ""),
    of("the rows of the head before", AHEAD, "    ++job.head;\n", ""),
    # ---- What it gives ----
    of(
        "delta of 8 other rows", AHEAD, "float2{first[1], second[3]}", "float2{second[3], first[1]}"
    ),
    of("another row's delta", AHEAD, "lane / 4 % 2 ? float2", "lane / 4 % 2 == 0 ? float2"),
    of("another lane's delta", AHEAD, "if (lane % 4 != lane / 8)", "if (lane % 4 != 0)"),
    of(
        "columns left out",
        AHEAD,
        "step < ceil_div(columns, 16)",
        "step < ceil_div(columns, 16) - 1",
    ),
    of("dO for out", AHEAD, "ldmatrix_x4(out, at + SHARE_ROWS * 128);", "ldmatrix_x4(out, at);"),
    of("no swizzle", AHEAD, " ^ swizzle_of_row(64, lane)", ""),
    of(
        "out of another head",
        AHEAD,
        "tma_load_4d(place + bytes, &args->out, full, 0, row, job.head,",
        "tma_load_4d(place + bytes, &args->out, full, 0, row, share->head,",
    ),
    of("rows of another sequence", AHEAD, "share->at.q_row + job.row, bytes", "job.row, bytes"),
    of(
        "without the gradient of lse",
        AHEAD,
        "        delta -= dlse_of_row(batch, share, job.head, job.row + row);\n",
        "        ;\n",
    ),
    of("rows past the end have delta", AHEAD, "        delta = 0.0f;\n", "        ;\n"),
    of(
        "rows past the end have lse",
        AHEAD,
        "  if (row >= share->at.seqlen_q)\n    return INF;\n",
        "",
    ),
    of(
        "half of the rows have lse",
        AHEAD,
        "row < SHARE_ROWS; row += 32",
        "row < SHARE_ROWS / 2; row += 32",
    ),
    of("no zeros", AHEAD, "    bulk_store(sum, zeros, min(left, zero_bytes));\n", "    ;\n"),
    of(
        "zeros behind the last row tile",
        AHEAD,
        "min(SHARE_ROWS / 16, ceil_div(share->at.seqlen_q - job.row, 16))",
        "SHARE_ROWS / 16",
    ),
    of(
        "the zeros are not",
        SM90,
        "= uint4{0, 0, 0, 0};\n    fence_proxy_async();",
        "= uint4{0, 0x3f800000, 0, 0};\n    fence_proxy_async();",
    ),
    # ---- Who waits ----
    of(
        "the copy engine does not know the zeros",
        SM90,
        "= uint4{0, 0, 0, 0};\n    fence_proxy_async();\n",
        "= uint4{0, 0, 0, 0};\n",
    ),
    without(
        "the rows have not come",
        AHEAD,
        "    wait_for_phase(full, *parity); // the copy engine hands over the rows\n",
    ),
    without("one phase for all", AHEAD, "    *parity ^= 1;\n"),
    without("zeros are under way", AHEAD, "  if (lane == 0)\n    bulk_wait_written();\n"),
    # ---- bwd_delta ----
    without("counters begin anywhere", DELTA, "    args.dq_zeroed[i] = 0;\n"),
    of("the first head of each group", DELTA, "share.head + blockIdx.x % group", "share.head"),
    of(
        "a thread block's first unit alone",
        DELTA,
        "unit < end; unit += gridDim.x / group",
        "unit < min(end, (int)(blockIdx.x / group) + 1); unit += gridDim.x / group",
    ),
    without("the end is not handed over", DELTA, "    *end_of_first(&given) = end;\n"),
    of("a warp's end", DELTA, "    end = max(end, ends[i]);\n", "    ;\n"),
    of(
        "the share is read early",
        DELTA,
        "      find_share(&given, unit, &share);\n    __syncthreads();\n",
        "      find_share(&given, unit, &share);\n",
    ),
    of(
        "dq without keys", DELTA, "      clear_rows(args, at, head, 0, at.seqlen_q);\n", "      ;\n"
    ),
]
