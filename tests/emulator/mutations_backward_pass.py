"""Single faults in dQ that thread blocks of a narrow window pass on, in place of a sum."""

from __future__ import annotations

from mutations import BWD_DQ, Mutation

PASS = "include/attnpress/device/gradient_pass.cuh"
DELTA = "templates/attention/flash_bwd_delta.cu.j2"
WALK = "templates/attention/parts/key_walk_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim64_bf16_window_sm90", "m64n128s3d4kv"),
    ("flash_bwd_hdim24_fp16_window_sm90", "m64n128s3d4"),
    ("flash_bwd_delta_hdim24_fp16_sm80", ""),
]


def of(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"bwd pass: {name}", file, old, new)


LOOP = "  while (load_acquire(mark) == 0) {\n  }\n"

MUTATIONS = [
    of("nobody waits", PASS, LOOP, ""),
    of("one asks, and does not wait", PASS, LOOP, "  load_acquire(args->dq_zeroed);\n"),
    of(
        "the first lane does not know what the others left",
        PASS,
        "  __syncwarp(); // the first lane knows of what the others have left\n",
        "",
    ),
    of("nothing is marked", PASS, "    release_increment(mark);", "    (void)mark;"),
    of("marks of a tile further", PASS, "args->row_tiles + row_tile;",
       "args->row_tiles + row_tile + 1;"),
    of("the first tile is taken twice", PASS, "left + tile * 128;", "left + tile / 2 * 128;"),
    of("marks begin anywhere", DELTA, "blockIdx.x * (BLOCK_M / 16) + threadIdx.x] = 0;",
       "blockIdx.x * (BLOCK_M / 16)] = 0;"),
    of("zeroes as well", DELTA, "(args.zero_ahead > 0 && head_index",
       "(args.zero_ahead != 0 && head_index + args.batch * args.heads_q"),
    of("nothing is taken over", BWD_DQ, "passes_on(args) && step.row < work->taken_end",
       "passes_on(args) && step.row < 0"),
    of("all is taken over", BWD_DQ, "passes_on(args) && step.row < work->taken_end",
       "passes_on(args)"),
    of("the last mark is not made", BWD_DQ, "//% if passes\n  make_mark(mark, lane);\n",
       "//% if passes\n"),
    of("nothing is passed on", BWD_DQ, "valid && step.row >= work->passed_begin", "false"),
    of("all is passed on", BWD_DQ, "valid && step.row >= work->passed_begin", "valid"),
    of("a row tile past the end is taken over", BWD_DQ, "&& row_tile * 16 < args->seqlen_q)", ")"),
    of("the next block has these rows as well", WALK,
       "work.key_begin + BLOCK_N, &args->score", "work.key_begin + BLOCK_N + 64, &args->score"),
    of("the block before ends later", WALK, "queries_in_window(work.key_begin - 1,",
       "queries_in_window(work.key_begin + 63,"),
    of("the last block passes on", WALK, "if (work.key_begin + BLOCK_N < args->seqlen_k)\n",
       ""),
    of("a walk ends at the last row", WALK, "step.row == work->walk_begin ?",
       "step.row == work->row_begin ?"),
    of("a walk does not go on at the first row", WALK,
       "  if (step.row == work->row_end)\n    step.row = work->row_begin;\n", ""),
]  # fmt: skip
