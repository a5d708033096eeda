"""Single faults for mutate.py: what is replaced in which text, and by what."""

from __future__ import annotations

from dataclasses import dataclass

FWD = "templates/flash_fwd_sm80.cu.j2"
COMBINE = "templates/flash_fwd_combine.cu.j2"
TILE = "include/attnpress/device/tile.cuh"


@dataclass(frozen=True)
class Mutation:
    """One fault. `old` is replaced where it occurs for the `place`-th time, counted from 1; with
    place 0, everywhere. `harmless`: why no test can see it, if none can."""

    name: str
    file: str
    old: str
    new: str
    place: int = 1
    harmless: str = ""

    def apply(self, text: str) -> str:
        """The text with the fault; ValueError where there is nothing to replace."""
        if text.count(self.old) < max(self.place, 1):
            raise ValueError(
                f"{self.name}: {self.old!r} is not in {self.file}: bring it up to date"
            )
        if self.place == 0:
            return text.replace(self.old, self.new)
        pieces = text.split(self.old)
        head, tail = pieces[: self.place], pieces[self.place :]
        return self.old.join(head) + self.new + self.old.join(tail)


BARRIER_OF_SLAB = """\
  cp_async_wait(STAGES - 2);
  __syncthreads();
//% if not spread"""

LOAD_OF_SLAB = """\
//% if not spread
  const int ahead = slab + STAGES - 1;
  if (n - ahead / SLABS >= pipe->block_begin)
    load_slab(pipe, n - ahead / SLABS, ahead % SLABS, ring_slot(pipe, slab, STAGES - 1), masked);
//% endif
"""

MUTATIONS = [
    # ---- Waits, barriers and the ring ----
    Mutation(
        "barrier of the next slab removed",
        FWD,
        BARRIER_OF_SLAB,
        BARRIER_OF_SLAB.replace("  __syncthreads();\n", ""),
    ),
    Mutation(
        "wait for the next slab removed",
        FWD,
        BARRIER_OF_SLAB,
        BARRIER_OF_SLAB.replace("  cp_async_wait(STAGES - 2);\n", ""),
    ),
    Mutation(
        "wait after the barrier instead of before",
        FWD,
        BARRIER_OF_SLAB,
        "  __syncthreads();\n  cp_async_wait(STAGES - 2);\n//% if not spread",
    ),
    Mutation(
        "wait count one too many",
        FWD,
        BARRIER_OF_SLAB,
        BARRIER_OF_SLAB.replace("STAGES - 2", "STAGES - 1"),
    ),
    Mutation(
        "barrier in only one of the warps",
        FWD,
        BARRIER_OF_SLAB,
        BARRIER_OF_SLAB.replace("__syncthreads", "if (threadIdx.x < 32) __syncthreads"),
    ),
    Mutation(
        "stage overwritten early: the slab in use",
        FWD,
        "ring_slot(pipe, slab, STAGES - 1), masked",
        "ring_slot(pipe, slab, 0), masked",
    ),
    Mutation(
        "stage overwritten early: the slab in use, by spread copies",
        FWD,
        "const uint32_t slot = ring_slot(pipe, slab, STAGES - 1);",
        "const uint32_t slot = ring_slot(pipe, slab, 0);",
    ),
    Mutation(
        "stage overwritten early: the load before the barrier",
        FWD,
        "  __syncthreads();\n" + LOAD_OF_SLAB,
        LOAD_OF_SLAB + "  __syncthreads();\n",
    ),
    Mutation(
        "stage overwritten early: one slab too far ahead",
        FWD,
        "ring_slot(pipe, slab, STAGES - 1), masked",
        "ring_slot(pipe, slab, STAGES), masked",
    ),
    Mutation("one slab ahead skipped", FWD, "ahead = slab + STAGES - 1;", "ahead = slab + STAGES;"),
    Mutation(
        "one slab ahead skipped by spread copies",
        FWD,
        "ahead = slab + STAGES - 1;",
        "ahead = slab + STAGES;",
        place=2,
    ),
    Mutation(
        "commit of the next slab removed",
        FWD,
        "void end_slab(KeyPipeline *pipe) {\n  cp_async_commit();",
        "void end_slab(KeyPipeline *pipe) {",
    ),
    Mutation(
        "commit only where a slab was loaded",
        FWD,
        "    cp_async_commit();\n  }\n}",
        "    if (n - slab / SLABS >= pipe->block_begin)\n      cp_async_commit();\n  }\n}",
    ),
    Mutation(
        "last part of spread copies left out",
        FWD,
        "min_int(passes, first + part)",
        "min_int(passes - 1, first + part)",
    ),
    Mutation(
        "spread copies of the next key block one pass off",
        FWD,
        "(passes * (NUM_THREADS / (columns / 8)) + BLOCK_N)",
        "((passes - 1) * (NUM_THREADS / (columns / 8)) + BLOCK_N)",
    ),
    Mutation(
        "spread copies of V where K is due",
        FWD,
        "if (ahead % SLABS == 0)",
        "if (slab % SLABS == 0)",
    ),
    Mutation(
        "spread copies: valid keys of the block in use",
        FWD,
        "pipe->seqlen_k - block * BLOCK_N",
        "pipe->seqlen_k - n * BLOCK_N",
    ),
    Mutation(
        "loads past the last key block",
        FWD,
        "if (n - ahead / SLABS >= pipe->block_begin)",
        "if (n - ahead / SLABS >= pipe->block_begin - 1)",
    ),
    Mutation(
        "wrong stage index: the slot does not come round",
        FWD,
        "slot >= STAGES ? slot - STAGES : slot",
        "slot > STAGES ? slot - STAGES : slot",
    ),
    Mutation(
        "wrong stage index: one ahead is forgotten",
        FWD,
        "pipe->ring + (slab + ahead) % STAGES * SLOT_BYTES",
        "pipe->ring + slab % STAGES * SLOT_BYTES",
    ),
    Mutation(
        "wrong stage index: the slot in use stands still",
        FWD,
        "pipe->slot = pipe->slot + 1 == STAGES ? 0 : pipe->slot + 1;",
        "pipe->slot = pipe->slot + 2 >= STAGES ? 0 : pipe->slot + 1;",
    ),
    Mutation(
        "ring filled with one slab too few",
        FWD,
        "for (int slab = 0; slab < STAGES - 1; ++slab) {",
        "for (int slab = 0; slab < STAGES - 2; ++slab) {",
    ),
    Mutation(
        "ring filled into the wrong slots",
        FWD,
        "pipe->ring + slab * SLOT_BYTES,",
        "pipe->ring + (slab + 1) * SLOT_BYTES,",
    ),
    Mutation("ring over Q", FWD, "pipe.ring = shared + RING_OFFSET;", "pipe.ring = shared;"),
    Mutation(
        "no barrier before O leaves",
        FWD,
        """\
  // All threads arrive and wait: hands over the tile of O, which leaves in chunks of 16 bytes.
  __syncthreads();
""",
        "",
    ),
    Mutation(
        "no wait and barrier before O takes Q's place",
        FWD,
        "  cp_async_wait(0);\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "no barrier before O takes Q's place",
        FWD,
        "  cp_async_wait(0);\n  __syncthreads();\n",
        "  cp_async_wait(0);\n",
    ),
    Mutation(
        "no wait before O takes Q's place",
        FWD,
        "  cp_async_wait(0);\n  __syncthreads();\n",
        "  __syncthreads();\n",
    ),
    Mutation(
        "no barrier after the row maxima",
        FWD,
        "  // All threads arrive and wait: hands over `exchange`.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "no barrier between Q and its fragments",
        FWD,
        "  __syncthreads();\n  uint32_t q_frag",
        "  uint32_t q_frag",
    ),
    # ---- Masks and lengths ----
    Mutation(
        "mask one key too late",
        FWD,
        "lane % 4 * 2 + i >= key_end)",
        "lane % 4 * 2 + i > key_end)",
    ),
    Mutation(
        "mask one key too early",
        FWD,
        "lane % 4 * 2 + i >= key_end)",
        "lane % 4 * 2 + i + 1 >= key_end)",
    ),
    Mutation(
        "mask for the wrong columns of a lane",
        FWD,
        "first_key + s * 8 + lane % 4 * 2 + i >=",
        "first_key + s * 8 + lane % 4 + i >=",
    ),
    Mutation(
        "mask for the wrong rows of a lane",
        FWD,
        "split_row(first_row + m * 16 + half * 8 + lane / 4,",
        "split_row(first_row + m * 16 + lane / 4,",
    ),
    Mutation(
        "causal mask aligned at the top left",
        FWD,
        "min(args->seqlen_k, position + 1 + args->seqlen_k - args->seqlen_q)",
        "min(args->seqlen_k, position + 1)",
    ),
    Mutation(
        "causal mask without the end of the keys",
        FWD,
        "min(args->seqlen_k, position + 1 + args->seqlen_k - args->seqlen_q)",
        "position + 1 + args->seqlen_k - args->seqlen_q",
        harmless="the last query sees the last key: later positions are rows that are not stored",
    ),
    Mutation(
        "causal mask of packed rows without their heads",
        FWD,
        "split_row(first_row + m * 16 + half * 8 + lane / 4, args->heads_per_tile,",
        "split_row(first_row + m * 16 + half * 8 + lane / 4, 1,",
    ),
    Mutation(
        "unmasked one key block too soon",
        FWD,
        "(n + 1) * BLOCK_N > key_unmasked",
        "(n + 1) * BLOCK_N > key_unmasked + BLOCK_N",
    ),
    Mutation(
        "unmasked keys counted from the last row",
        FWD,
        "max(0, row_begin / heads + 1 + diagonal)",
        "max(0, last_position + 1 + diagonal)",
    ),
    Mutation(
        "last key block left out",
        FWD,
        "const int block_end = ceil_div(key_end, BLOCK_N);",
        "const int block_end = key_end / BLOCK_N;",
    ),
    Mutation(
        "causal end of the keys one too early",
        FWD,
        "max(0, last_position + 1 + diagonal));",
        "max(0, last_position + diagonal));",
    ),
    Mutation(
        "rows without keys: no shift of zero",
        FWD,
        "masked && x == -INF ? 0.0f : x;",
        "x;",
    ),
    Mutation(
        "rows without keys: divided by a sum of zero",
        FWD,
        "sum == 0.0f ? 0.0f : reciprocal_approx(sum)",
        "reciprocal_approx(sum)",
    ),
    # ---- Predicates ----
    Mutation(
        "last tile of K and V without a predicate",
        TILE,
        "rows <= valid_rows || first + row < valid_rows ? 16 : 0",
        "16",
    ),
    Mutation(
        "predicate of K and V one row too late",
        TILE,
        "first + row < valid_rows ? 16 : 0",
        "first + row <= valid_rows ? 16 : 0",
    ),
    Mutation(
        "keys of a masked block taken as whole",
        FWD,
        "masked ? pipe->seqlen_k - n * BLOCK_N : BLOCK_N",
        "BLOCK_N",
    ),
    Mutation(
        "valid keys of a slab of V counted from its block",
        FWD,
        "keys - key, 0,",
        "keys, 0,",
    ),
    Mutation("last tile of Q without a predicate", FWD, "row_begin + row < rows ? 16 : 0", "16"),
    Mutation("last tile of O without a predicate", FWD, "&& work.row_begin + row < rows)", ")"),
    Mutation(
        "rows of O past the tile",
        FWD,
        "(first + NUM_THREADS <= BLOCK_M * chunks || row < BLOCK_M) && ",
        "",
    ),
    Mutation(
        "rows of a split past the end",
        FWD,
        "if (valid && o >= first_o_tile)",
        "if (o >= first_o_tile)",
    ),
    Mutation(
        "lse of rows past the end",
        FWD,
        "valid && lane % 4 == 0 && warp_n == 0",
        "lane % 4 == 0 && warp_n == 0",
    ),
    Mutation(
        "threads left over copy too",
        TILE,
        "if (threads % (columns / 8) == 0 || row < pass_rows) {",
        "{",
    ),
    Mutation(
        "rows past the tile copied too",
        TILE,
        "if (first + pass_rows <= rows || first + row < rows)",
        "",
    ),
    # ---- Addresses ----
    Mutation(
        "elements for bytes: columns of K",
        FWD,
        "k_tile + s * 8 * K_ROW_BYTES + next * 32",
        "k_tile + s * 8 * K_ROW_BYTES + next * 16",
    ),
    Mutation(
        "elements for bytes: target of a copy",
        TILE,
        "copy_column(columns, thread) * 2;",
        "copy_column(columns, thread);",
    ),
    Mutation(
        "padding of rows on one side only: K is stored otherwise",
        FWD,
        "copy_rows_async(slot, K_ROW_BYTES, pipe->k + slab",
        "copy_rows_async(slot, K_ROW_BYTES - 16, pipe->k + slab",
    ),
    Mutation(
        "padding of rows on one side only: V is read otherwise",
        FWD,
        "v_tile + key * V_ROW_BYTES + o * 16",
        "v_tile + key * (HEAD_DIM_V * 2) + o * 16",
    ),
    Mutation(
        "padding of rows on one side only: P is read otherwise",
        FWD,
        "ldmatrix_rows_first(lane, P_ROW_BYTES)",
        "ldmatrix_rows_first(lane, Q_ROW_BYTES)",
    ),
    Mutation(
        "row stride of K for V",
        FWD,
        "pipe->v + key * pipe->v_row_stride, pipe->v_row_stride",
        "pipe->v + key * pipe->k_row_stride, pipe->k_row_stride",
    ),
    Mutation(
        "head stride for row stride of O",
        FWD,
        "position * args->out_row_stride + head * args->out_head_stride",
        "position * args->out_head_stride + head * args->out_row_stride",
    ),
    Mutation(
        "matrices of K in the other order",
        TILE,
        "(lane % 8 + lane / 16 * 8) * row_bytes + (lane / 8 % 2) * 16",
        "(lane % 8 + lane / 8 % 2 * 8) * row_bytes + (lane / 16) * 16",
    ),
    Mutation("V not transposed", FWD, "ldmatrix_x4_trans(b,", "ldmatrix_x4(b,"),
    Mutation(
        "halves of a fragment of K exchanged",
        FWD,
        "(score[m][s + 1], a_frag, b[step % 2][s / 2] + 2);",
        "(score[m][s + 1], a_frag, b[step % 2][s / 2] + 1);",
    ),
    Mutation(
        "fragments fetched ahead from the wrong buffer",
        FWD,
        "const uint32_t *a_frag = a[step % 2][m];",
        "const uint32_t *a_frag = a[(step + 1) % 2][m];",
    ),
    Mutation(
        "next pass of a copy starts one row late",
        TILE,
        "global += pass_rows * row_stride;",
        "global += (pass_rows + 1) * row_stride;",
    ),
    Mutation(
        "rows of Q count from 0 in every tile",
        FWD,
        "split_row(row_begin + row, args->heads_per_tile, &position, &head);",
        "split_row(row, args->heads_per_tile, &position, &head);",
    ),
    Mutation(
        "K of the next block starts where this one did",
        FWD,
        "pipe->k -= BLOCK_N * pipe->k_row_stride;",
        "pipe->k -= 0 * pipe->k_row_stride;",
    ),
    Mutation(
        "narrow slab of K from the first columns",
        FWD,
        "pipe->k + rows * pipe->k_row_stride + slab * K_SLAB + offset",
        "pipe->k + rows * pipe->k_row_stride + offset",
    ),
    # ---- Sizes of numbers ----
    Mutation(
        "row stride of K and V cut to 32 bits",
        FWD,
        "int64_t k_row_stride, v_row_stride;",
        "int k_row_stride, v_row_stride;",
    ),
    Mutation(
        "row stride of a copy cut to 32 bits",
        TILE,
        "const uint16_t *global, int64_t row_stride,",
        "const uint16_t *global, int row_stride,",
    ),
    Mutation(
        "offset of a head of K cut to 32 bits",
        FWD,
        "kv_head * args.k_head_stride",
        "(int)(kv_head * args.k_head_stride)",
    ),
    Mutation(
        "offset of a batch of Q cut to 32 bits",
        FWD,
        "work.batch * args.q_batch_stride",
        "(int)(work.batch * args.q_batch_stride)",
    ),
    Mutation(
        "offset of a row of O cut to 32 bits",
        FWD,
        "position * args->out_row_stride + head * args->out_head_stride",
        "(int)(position * args->out_row_stride) + head * args->out_head_stride",
    ),
    Mutation(
        "offset of a part cut to 32 bits",
        FWD,
        "((work.split * (int64_t)args->batch + work.batch) * args->heads_q + head) *",
        "((work.split * args->batch + (int)work.batch) * args->heads_q + head) *",
    ),
    Mutation(
        "combine: offset of a row cut to 32 bits",
        COMBINE,
        "position * args.out_row_stride",
        "(int)(position * args.out_row_stride)",
    ),
    # ---- Heads and work ----
    Mutation(
        "wrong group: key head of a query head",
        FWD,
        "work.first_head / (args.heads_q / args.heads_kv)",
        "work.first_head % args.heads_kv",
    ),
    Mutation(
        "heads of packed rows exchanged",
        FWD,
        "*head = heads == 1 ? 0 : row - *position * heads;",
        "*head = heads == 1 ? 0 : (row + 1) % heads;",
        harmless="Q is read and O is written in the same, other order",
    ),
    Mutation(
        "parts and lse all to the first of the packed heads",
        FWD,
        "head += work.first_head;",
        "head = work.first_head;",
    ),
    Mutation(
        "batch and head exchanged",
        FWD,
        """\
  work.first_head = block % tile_heads * args->heads_per_tile;
  work.batch = block / tile_heads;""",
        """\
  work.first_head = block / args->batch * args->heads_per_tile;
  work.batch = block % args->batch;""",
        harmless="the order of the blocks changes, and each still has its own work",
    ),
    Mutation(
        "first head not multiplied by the packing",
        FWD,
        "work.first_head = block % tile_heads * args->heads_per_tile;",
        "work.first_head = block % tile_heads;",
    ),
    Mutation(
        "parts of splits laid out with head and batch exchanged",
        FWD,
        "((work.split * (int64_t)args->batch + work.batch) * args->heads_q + head) *",
        "((work.split * (int64_t)args->heads_q + head) * args->batch + work.batch) *",
    ),
    Mutation(
        "splits overlap by a key block",
        FWD,
        "min(ceil_div(key_end, BLOCK_N), block_begin + args.key_blocks_per_split)",
        "min(ceil_div(key_end, BLOCK_N), block_begin + args.key_blocks_per_split + 1)",
    ),
    Mutation(
        "overlapping warps both store",
        FWD,
        "const int first_o_tile = warp_n * O_TILES - warp_columns / 8;",
        "const int first_o_tile = 0;",
    ),
    # ---- Numbers ----
    Mutation(
        "forgotten scale of the scores",
        FWD,
        "exp2_approx(score[m][s][i] * scale_log2 - shift)",
        "exp2_approx(score[m][s][i] - shift)",
    ),
    Mutation("forgotten ln 2 of lse", FWD, "log2_approx(sum)) * LN_2;", "log2_approx(sum));"),
    Mutation("O is not rescaled", FWD, "out[m][o][half * 2] *= rescale;\n", "\n"),
    Mutation(
        "row sum is not rescaled",
        FWD,
        "row_sum[m][half] * rescale + sum",
        "row_sum[m][half] + sum",
    ),
    Mutation(
        "rescale of products, whose rounding a GPU fuses away on one side",
        FWD,
        "exp2_approx((row_max[m][half] - base) * scale_log2)",
        "exp2_approx(row_max[m][half] * scale_log2 - shift)",
    ),
    Mutation(
        "row maximum of half a quad",
        FWD,
        "return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));",
        "return x;",
    ),
    Mutation(
        "row sum of half a quad", FWD, "return x + __shfl_xor_sync(0xffffffff, x, 2);", "return x;"
    ),
    Mutation(
        "row maximum of this warp alone",
        FWD,
        "x = fmaxf(x, exchange[(row + m * 16 + half * 8) * WARPS_N + i]);",
        "x = fmaxf(x, exchange[(row + m * 16 + half * 8) * WARPS_N]);",
    ),
    Mutation(
        "row sum of one warp too few",
        FWD,
        "for (int i = 0; i < WARPS_N; ++i)\n        row_sum[m][half] +=",
        "for (int i = 1; i < WARPS_N; ++i)\n        row_sum[m][half] +=",
    ),
    Mutation(
        "halves of P exchanged",
        FWD,
        "p_frag[m][s / 2][s % 2 * 2 + 1] =",
        "p_frag[m][s / 2][(s + 1) % 2 * 2 + 1] =",
    ),
    Mutation(
        "last 8 columns of the head dim left out",
        FWD,
        "if (slab == K_SLABS - 1) {\n      // The last 8",
        "if (slab == K_SLABS) {\n      // The last 8",
    ),
    Mutation("odd tile of O left out", FWD, "if (O_TILES % 2 != 0) {", "if (false) {"),
    # ---- Combine ----
    Mutation(
        "combine: splits past the 32nd left out",
        COMBINE,
        "for (int i = lane; i < args.num_splits; i += 32)\n    row_sum",
        "for (int i = lane; i < min(args.num_splits, 32); i += 32)\n    row_sum",
    ),
    Mutation(
        "combine: no barrier before the groups are added up",
        COMBINE,
        "  __syncthreads();\n  if (group != 0)",
        "  if (group != 0)",
    ),
    Mutation(
        "combine: rows without keys",
        COMBINE,
        "row_max == -INF ? 0.0f : row_max * LOG2_E",
        "row_max * LOG2_E",
    ),
    Mutation("combine: weights not normalised", COMBINE, "- shift) * normalize;", "- shift);"),
    Mutation("combine: threads past the last group", COMBINE, "if (group < GROUPS) {", "{"),
    Mutation(
        "combine: one group left out",
        COMBINE,
        "for (int i = 1; i < GROUPS; ++i)",
        "for (int i = 1; i < GROUPS - 1; ++i)",
    ),
    Mutation(
        "combine: heads of the next batch",
        COMBINE,
        "row / args.seqlen_q % args.heads_q;",
        "row / args.seqlen_q;",
    ),
]
