"""Single faults for mutate.py: what is replaced in which text, and by what."""

from __future__ import annotations

import re
from dataclasses import dataclass

FWD = "templates/attention/flash_fwd_sm80.cu.j2"
DECODE = "templates/attention/flash_fwd_decode_sm80.cu.j2"
RING = "templates/attention/parts/key_ring.cu.j2"
BLOCK = "templates/attention/parts/key_block.cu.j2"
ROWS = "templates/attention/parts/tile_rows.cu.j2"
COMBINE = "templates/attention/flash_fwd_combine.cu.j2"
COMBINED_ROW = "templates/attention/parts/combined_row.cu.j2"
FWD_SM90 = "templates/attention/flash_fwd_sm90.cu.j2"
BWD_DQ = "templates/attention/parts/bwd_dq_sm90.cu.j2"
DENSE_PRODUCER = "templates/attention/parts/dense_producer_sm90.cu.j2"
FWD_ALIBI = "templates/attention/parts/fwd_alibi_sm90.cu.j2"
FWD_OUTPUT = "templates/attention/parts/fwd_output_sm90.cu.j2"
FWD_PRODUCTS = "templates/attention/parts/fwd_products_sm90.cu.j2"
FWD_SCORES = "templates/attention/parts/fwd_scores_sm90.cu.j2"
WARP_PARTS = "templates/attention/parts/warp_parts.cu.j2"
FWD_WALK = "templates/attention/parts/fwd_walk_sm90.cu.j2"
GATHER_KEYS = "templates/attention/parts/gather_keys_sm90.cu.j2"
TILE = "include/attnpress/device/tile.cuh"
WGMMA = "include/attnpress/device/ptx_wgmma.cuh"
PIPELINE = "include/attnpress/device/pipeline.cuh"
SCORE = "include/attnpress/device/score.cuh"
SOFTMAX = "include/attnpress/device/softmax.cuh"
WORK = "include/attnpress/device/work.cuh"
EPILOGUE = "include/attnpress/device/epilogue.cuh"


@dataclass(frozen=True)
class Mutation:
    """One fault. `old` is replaced where it occurs for the `place`-th time, counted from 1; with
    place 0, everywhere. If it begins with two spaces, it begins a line: what is indented further is
    something else. `harmless`: why no test can see it, if none can."""

    name: str
    file: str
    old: str
    new: str
    place: int = 1
    harmless: str = ""

    def apply(self, text: str) -> str:
        """The text with the fault; ValueError where there is nothing to replace."""
        pattern = ("^" if self.old.startswith("  ") else "") + re.escape(self.old)
        found = list(re.finditer(pattern, text, re.MULTILINE))
        if len(found) < max(self.place, 1):
            raise ValueError(
                f"{self.name}: {self.old!r} is not in {self.file}: bring it up to date"
            )
        for match in reversed(found if self.place == 0 else [found[self.place - 1]]):
            text = text[: match.start()] + self.new + text[match.end() :]
        return text


BARRIER_OF_SLAB = """\
  cp_async_wait(STAGES - 2);
  ring_barrier();
//% if not spread"""

LOAD_OF_SLAB = """\
//% if not spread
  const int ahead = slab + STAGES - 1;
//% if runs and hdim <= 128
  if (pipe->n >= pipe->block_begin) // which may be the next sequence's, and pass its end
    load_slab(pipe, pipe->n, ahead % SLABS, ring_slot(pipe, slab, STAGES - 1), true);
//% elif not has_map
  if (n - ahead / SLABS >= pipe->block_begin)
    load_slab(pipe, n - ahead / SLABS, ahead % SLABS, ring_slot(pipe, slab, STAGES - 1), masked);
//% else
  const int block = block_to_load(pipe, ahead);
  if (block >= pipe->block_begin)
    load_slab(pipe, block, ahead % SLABS, ring_slot(pipe, slab, STAGES - 1), masked);
//% endif
//% endif
"""

FIRST_BLOCK = 'walk.n == ${ "walk.block_begin" if ends_apart else "walk.unit.blocks.begin"'

MUTATIONS = [
    # ---- Waits, barriers and the ring ----
    Mutation(
        "barrier of the next slab removed",
        RING,
        BARRIER_OF_SLAB,
        BARRIER_OF_SLAB.replace("  ring_barrier();\n", ""),
    ),
    Mutation(
        "wait for the next slab removed",
        RING,
        BARRIER_OF_SLAB,
        BARRIER_OF_SLAB.replace("  cp_async_wait(STAGES - 2);\n", ""),
    ),
    Mutation(
        "wait after the barrier instead of before",
        RING,
        BARRIER_OF_SLAB,
        "  ring_barrier();\n  cp_async_wait(STAGES - 2);\n//% if not spread",
    ),
    Mutation(
        "wait count one too many",
        RING,
        BARRIER_OF_SLAB,
        BARRIER_OF_SLAB.replace("STAGES - 2", "STAGES - 1"),
    ),
    Mutation(
        "barrier in only one of the warps",
        RING,
        "//% else\n  __syncthreads();\n//% endif",
        "//% else\n  if (threadIdx.x < 32) __syncthreads();\n//% endif",
    ),
    Mutation("barrier of a warp's ring removed", RING, "  __syncwarp();\n", ""),
    Mutation(
        "stage overwritten early: the slab in use",
        RING,
        "ring_slot(pipe, slab, STAGES - 1), masked",
        "ring_slot(pipe, slab, 0), masked",
    ),
    Mutation(
        "stage overwritten early: the slab in use, by spread copies",
        RING,
        "const uint32_t slot = ring_slot(pipe, slab, STAGES - 1);",
        "const uint32_t slot = ring_slot(pipe, slab, 0);",
    ),
    Mutation(
        "stage overwritten early: the load before the barrier",
        RING,
        "  ring_barrier();\n" + LOAD_OF_SLAB,
        LOAD_OF_SLAB + "  ring_barrier();\n",
    ),
    Mutation(
        "stage overwritten early: one slab too far ahead",
        RING,
        "ring_slot(pipe, slab, STAGES - 1), masked",
        "ring_slot(pipe, slab, STAGES), masked",
    ),
    Mutation(
        "one slab ahead skipped",
        RING,
        "ahead = slab + STAGES - 1;",
        "ahead = slab + STAGES;",
    ),
    Mutation(
        "one slab ahead skipped by spread copies",
        RING,
        "ahead = slab + STAGES - 1;",
        "ahead = slab + STAGES;",
        place=2,
    ),
    Mutation(
        "commit of the next slab removed",
        RING,
        "void end_slab(KeyPipeline *pipe) {\n  cp_async_commit();",
        "void end_slab(KeyPipeline *pipe) {",
    ),
    Mutation(
        "commit only where a slab was loaded",
        RING,
        "    cp_async_commit();\n  }\n}",
        "    if (n - slab / SLABS >= pipe->block_begin)\n      cp_async_commit();\n  }\n}",
    ),
    Mutation(
        "last part of spread copies left out",
        RING,
        "min_int(passes, first + part)",
        "min_int(passes - 1, first + part)",
    ),
    Mutation(
        "spread copies of the next key block one pass off",
        RING,
        "(passes * (NUM_THREADS / (columns / 8)) + BLOCK_N)",
        "((passes - 1) * (NUM_THREADS / (columns / 8)) + BLOCK_N)",
    ),
    Mutation(
        "spread copies of V where K is due",
        RING,
        "if (ahead % SLABS == 0)",
        "if (slab % SLABS == 0)",
    ),
    Mutation(
        "spread copies: valid keys of the block in use",
        RING,
        "pipe->seqlen_k - block * BLOCK_N",
        "pipe->seqlen_k - n * BLOCK_N",
    ),
    Mutation(
        "loads past the last key block",
        RING,
        "if (n - ahead / SLABS >= pipe->block_begin)",
        "if (n - ahead / SLABS >= pipe->block_begin - 1)",
    ),
    Mutation(
        "wrong stage index: the slot does not come round",
        RING,
        "slot >= STAGES ? slot - STAGES : slot",
        "slot > STAGES ? slot - STAGES : slot",
    ),
    Mutation(
        "wrong stage index: one ahead is forgotten",
        RING,
        "pipe->ring + (slab + ahead) % STAGES * SLOT_BYTES",
        "pipe->ring + slab % STAGES * SLOT_BYTES",
    ),
    Mutation(
        "wrong stage index: the slot in use stands still",
        RING,
        "pipe->slot = pipe->slot + 1 == STAGES ? 0 : pipe->slot + 1;",
        "pipe->slot = pipe->slot + 2 >= STAGES ? 0 : pipe->slot + 1;",
    ),
    Mutation(
        "ring filled with one slab too few",
        RING,
        "for (int slab = first; slab < STAGES - 1; ++slab) {",
        "for (int slab = first; slab < STAGES - 2; ++slab) {",
    ),
    Mutation(
        "ring filled into the wrong slots",
        RING,
        "pipe->ring + slab * SLOT_BYTES,",
        "pipe->ring + (slab + 1) * SLOT_BYTES,",
    ),
    Mutation(
        "ring over Q",
        FWD,
        "block_begin, shared + RING_OFFSET, 0)",
        "block_begin, shared, 0)",
    ),
    Mutation(
        "no barrier before O leaves",
        ROWS,
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
        BLOCK,
        "  // All threads arrive and wait: hands over `exchange`.\n  __syncthreads();\n",
        "",
    ),
    Mutation(
        "no barrier between Q and its fragments",
        FWD,
        "  cp_async_wait(STAGES - 2);\n  __syncthreads();\n",
        "  cp_async_wait(STAGES - 2);\n",
    ),
    # ---- Warps with keys of their own ----
    Mutation("rings overlap", DECODE, "warp_k * RING_BYTES", "warp_k * SLOT_BYTES"),
    Mutation(
        "the same keys for every warp",
        DECODE,
        "first_key = warp_k * RING_KEYS;",
        "first_key = 0;",
    ),
    Mutation(
        "valid keys of a ring counted from its key block",
        RING,
        "args->seqlen_k - key_begin",
        "args->seqlen_k",
    ),
    Mutation(
        "mask of the first warp's keys",
        BLOCK,
        "n * BLOCK_N + place->first_key)",
        "n * BLOCK_N)",
    ),
    Mutation(
        "a warp's part over its ring while that is read",
        DECODE,
        "its part takes its place.\n  ring_barrier();\n",
        "its part takes its place.\n",
    ),
    Mutation(
        "no barrier between the parts and their sum",
        DECODE,
        "Each thread then adds up 4 columns of a row.\n  __syncthreads();\n",
        "Each thread then adds up 4 columns of a row.\n",
    ),
    Mutation(
        "parts are not rescaled",
        WARP_PARTS,
        "exp2_approx((state[w].x - base) * scale_log2)",
        "exp2_approx(0.0f)",
    ),
    Mutation(
        "part of one warp left out",
        WARP_PARTS,
        "for (int w = 0; w < WARPS_K; ++w) {\n    const float4 part",
        "for (int w = 1; w < WARPS_K; ++w) {\n    const float4 part",
    ),
    Mutation(
        "maximum of one part left out",
        WARP_PARTS,
        "total.maximum = fmaxf(total.maximum, state[w].x);",
        "total.maximum = w > 0 ? fmaxf(total.maximum, state[w].x) : total.maximum;",
        harmless="any base does, so long as no weight overflows",
    ),
    Mutation(
        "rows of a part past the end",
        DECODE,
        "index < min(rows, BLOCK_M) * chunks",
        "index < BLOCK_M * chunks",
    ),
    Mutation(
        "swizzle of other rows on one side",
        TILE,
        "(copy_column(columns, thread) * 2 ^ swizzle_of_row(tile_columns, row));",
        "(copy_column(columns, thread) * 2 ^ swizzle_of_row(tile_columns, row + 4));",
    ),
    # ---- Masks and lengths ----
    Mutation(
        "mask one key too late",
        SCORE,
        "other >= row.key_end",
        "other > row.key_end",
    ),
    Mutation(
        "mask one key too early",
        SCORE,
        "other >= row.key_end",
        "other + 1 >= row.key_end",
    ),
    Mutation(
        "mask for the wrong columns of a lane",
        BLOCK,
        "first_key + lane % 4 * 2",
        "first_key + lane % 4",
        place=5,
    ),
    Mutation(
        "mask for the wrong rows of a lane",
        BLOCK,
        "split_row(first_row + m * 16 + half * 8 + lane / 4,",
        "split_row(first_row + m * 16 + lane / 4,",
    ),
    Mutation(
        "causal mask aligned at the top left",
        SCORE,
        "min(seqlen_k, position + 1 + seqlen_k - seqlen_q)",
        "min(seqlen_k, position + 1)",
    ),
    Mutation(
        "causal mask without the end of the keys",
        SCORE,
        "min(seqlen_k, position + 1 + seqlen_k - seqlen_q)",
        "position + 1 + seqlen_k - seqlen_q",
        harmless="the last query sees the last key: later positions are rows that are not stored",
    ),
    Mutation(
        "causal mask one key short",
        SCORE,
        "position + 1 + seqlen_k - seqlen_q)",
        "position + seqlen_k - seqlen_q)",
    ),
    Mutation(
        "causal mask of packed rows without their heads",
        BLOCK,
        "split_row(first_row + m * 16 + half * 8 + lane / 4, args->heads_per_tile,",
        "split_row(first_row + m * 16 + half * 8 + lane / 4, 1,",
    ),
    Mutation(
        "unmasked one key block too soon",
        FWD,
        "(n + 1) * BLOCK_N > unmasked.end",
        "(n + 1) * BLOCK_N > unmasked.end + BLOCK_N",
    ),
    Mutation(
        "unmasked keys counted from the last row",
        WORK,
        "{last.key_begin, first.key_end}",
        "{last.key_begin, last.key_end}",
    ),
    Mutation(
        "last key block left out",
        WORK,
        "ceil_div(keys.end, block_n)",
        "keys.end / block_n",
    ),
    Mutation(
        "causal end of the keys one too early",
        WORK,
        "{first.key_begin, last.key_end}",
        "{first.key_begin, last.key_end - 1}",
    ),
    Mutation(
        "rows without keys: no shift of zero",
        SOFTMAX,
        "maximum == -INF ? 0.0f : maximum",
        "maximum",
    ),
    Mutation(
        "rows without keys: divided by a sum of zero",
        EPILOGUE,
        "sum == 0.0f ? 0.0f : reciprocal_approx(sum)",
        "reciprocal_approx(sum)",
    ),
    Mutation(
        "decode: unmasked one key block too soon",
        DECODE,
        "(n + 1) * BLOCK_N > unmasked.end",
        "(n + 1) * BLOCK_N > unmasked.end + BLOCK_N",
    ),
    Mutation(
        "decode: splits all begin at the first key",
        DECODE,
        "SPLIT ? blocks.begin : 0",
        "0",
    ),
    Mutation(
        "splits all begin at the first key",
        FWD,
        "SPLIT ? blocks.begin : 0",
        "0",
    ),
    Mutation(
        "sums of key blocks begin with the sum so far",
        SOFTMAX,
        "*row_sum = *row_sum * rescale + exponentials(",
        "*row_sum = *row_sum * (1.0f + rescale) + exponentials(",
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
        RING,
        "masked ? pipe->seqlen_k - n * BLOCK_N : BLOCK_N",
        "BLOCK_N",
        place=3,  # the others are those of pages, whose keys behind the end are the last one again
    ),
    Mutation(
        "valid keys of a slab of V counted from its block",
        RING,
        "HEAD_DIM_V, keys - key);",
        "HEAD_DIM_V, keys);",
        place=2,  # the first is that of pages
    ),
    Mutation("last tile of Q without a predicate", ROWS, "row_begin + row < rows ? 16 : 0", "16"),
    Mutation("last tile of O without a predicate", ROWS, "&& work.row_begin + row < rows)", ")"),
    Mutation(
        "rows of O past the tile",
        ROWS,
        "(first + NUM_THREADS <= BLOCK_M * chunks || row < BLOCK_M) && ",
        "",
    ),
    Mutation(
        "rows of a split past the end",
        EPILOGUE,
        "if (valid && tile >= first)",
        "if (tile >= first)",
    ),
    Mutation(
        "lse of rows past the end",
        ROWS,
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
        BLOCK,
        "(next_step * 32 ^ k_swizzle)",
        "(next_step * 16 ^ k_swizzle)",
    ),
    Mutation(
        "elements for bytes: target of a copy",
        TILE,
        "copy_column(columns, thread) * 2;",
        "copy_column(columns, thread);",
    ),
    Mutation(
        "padding of rows on one side only: slabs are stored otherwise",
        RING,
        "copy_rows_async(slot, tile_row_bytes(slab_columns),",
        "copy_rows_async(slot, tile_row_bytes(slab_columns) - 16,",
    ),
    Mutation(
        "padding of rows on one side only: V is read otherwise",
        BLOCK,
        "v_tile + key * V_ROW_BYTES + (o * 16 ^ v_swizzle)",
        "v_tile + key * (HEAD_DIM_V * 2) + (o * 16 ^ v_swizzle)",
    ),
    Mutation(
        "padding of rows on one side only: P is read otherwise",
        FWD,
        "ldmatrix_rows_first(lane, P_ROW_BYTES)",
        "ldmatrix_rows_first(lane, Q_ROW_BYTES)",
    ),
    Mutation(
        "row stride of K for V",
        RING,
        "pipe->v + key * pipe->v_row_stride, pipe->v_row_stride",
        "pipe->v + key * pipe->k_row_stride, pipe->k_row_stride",
    ),
    Mutation(
        "head stride for row stride of O",
        ROWS,
        "position * args->out_row_stride + head * args->out_head_stride",
        "position * args->out_head_stride + head * args->out_row_stride",
    ),
    Mutation(
        "matrices of K in the other order",
        TILE,
        "(lane % 8 + lane / 16 * 8) * row_bytes + (lane / 8 % 2) * 16",
        "(lane % 8 + lane / 8 % 2 * 8) * row_bytes + (lane / 16) * 16",
    ),
    Mutation("V not transposed", BLOCK, "ldmatrix_x4_trans(b,", "ldmatrix_x4(b,"),
    Mutation(
        "halves of a fragment of K exchanged",
        BLOCK,
        "(score[m] + s * 4 + 4, a_frag, b[pair % 2] + 2);",
        "(score[m] + s * 4 + 4, a_frag, b[pair % 2] + 1);",
    ),
    Mutation(
        "fragments fetched ahead from the wrong buffer",
        BLOCK,
        "const uint32_t *a_frag = a[step % 2][m];",
        "const uint32_t *a_frag = a[(step + 1) % 2][m];",
    ),
    Mutation(
        "fragments of K fetched ahead of the wrong key tiles",
        BLOCK,
        "next % PAIRS * 16 * K_ROW_BYTES",
        "pair % PAIRS * 16 * K_ROW_BYTES",
    ),
    Mutation(
        "next pass of a copy starts one row late",
        TILE,
        "global += pass_rows * row_stride;",
        "global += (pass_rows + 1) * row_stride;",
    ),
    Mutation(
        "rows of Q count from 0 in every tile",
        ROWS,
        "split_row(row_begin + row, args->heads_per_tile, &position, &head);",
        "split_row(row, args->heads_per_tile, &position, &head);",
    ),
    Mutation(
        "K of the next block starts where this one did",
        RING,
        "pipe->k -= BLOCK_N * pipe->k_row_stride;",
        "pipe->k -= 0 * pipe->k_row_stride;",
    ),
    Mutation(
        "narrow slab of K from the first columns",
        RING,
        "pipe->k + rows * pipe->k_row_stride + slab * K_SLAB + offset",
        "pipe->k + rows * pipe->k_row_stride + offset",
    ),
    # ---- Sizes of numbers ----
    Mutation(
        "row stride of K and V cut to 32 bits",
        RING,
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
        RING,
        "kv_head * args->k_head_stride",
        "(int)(kv_head * args->k_head_stride)",
        place=2,  # the first is that of pages
    ),
    Mutation(
        "offset of a batch of Q cut to 32 bits",
        DECODE,
        "work.batch * args.q_batch_stride",
        "(int)(work.batch * args.q_batch_stride)",
    ),
    Mutation(
        "offset of a row of O cut to 32 bits",
        ROWS,
        "position * args->out_row_stride + head * args->out_head_stride",
        "(int)(position * args->out_row_stride) + head * args->out_head_stride",
    ),
    Mutation(
        "offset of a part cut to 32 bits",
        WORK,
        "((split * (int64_t)args->batch + batch) * args->heads_q + head)",
        "((split * args->batch + (int)batch) * args->heads_q + head)",
    ),
    Mutation(
        "combine: offset of a row cut to 32 bits",
        COMBINED_ROW,
        "position * args->out_row_stride",
        "(int)(position * args->out_row_stride)",
    ),
    # ---- Heads and work ----
    Mutation(
        "wrong group: key head of a query head",
        WORK,
        "head / (args->heads_q / args->heads_kv)",
        "head % args->heads_kv",
    ),
    Mutation(
        "heads of packed rows exchanged",
        WORK,
        "*head = heads == 1 ? 0 : row - *position * heads;",
        "*head = heads == 1 ? 0 : (row + 1) % heads;",
        harmless="Q is read and O is written in the same, other order",
    ),
    Mutation(
        "parts and lse all to the first of the packed heads",
        ROWS,
        "head += work.first_head;",
        "head = work.first_head;",
    ),
    Mutation(
        "batch and head exchanged",
        WORK,
        """\
  work.first_head = block % tile_heads * args->heads_per_tile;
  work.batch = block / tile_heads;""",
        """\
  work.first_head = block / args->batch * args->heads_per_tile;
  work.batch = block % args->batch;""",
        harmless="the order of the blocks changes, and each still has its own work",
    ),
    Mutation(
        "heads not multiplied by the packing",
        WORK,
        "work.first_head = (block - tiles * tile_heads) * heads;",
        "work.first_head = block - tiles * tile_heads;",
    ),
    Mutation(
        "row blocks of every batch counted from the first",
        WORK,
        "tiles - batch * args->row_blocks",
        "tiles % 2",
    ),
    Mutation(
        "unpacked rows of O pass the end",
        ROWS,
        "const int end = row < pass_rows ? min(BLOCK_M, rows - work.row_begin) : 0;",
        "const int end = row < pass_rows ? BLOCK_M : 0;",
    ),
    Mutation(
        "unpacked rows of Q count from 0 in every tile",
        ROWS,
        "const int row = row_begin + copy_row(HEAD_DIM, threadIdx.x);",
        "const int row = copy_row(HEAD_DIM, threadIdx.x);",
    ),
    Mutation(
        "first head not multiplied by the packing",
        WORK,
        "work.first_head = block % tile_heads * args->heads_per_tile;",
        "work.first_head = block % tile_heads;",
    ),
    Mutation(
        "parts of splits laid out with head and batch exchanged",
        WORK,
        "((split * (int64_t)args->batch + batch) * args->heads_q + head) *",
        "((split * (int64_t)args->heads_q + head) * args->batch + batch) *",
    ),
    Mutation(
        "splits overlap by a key block",
        WORK,
        "min(blocks.end, begin + per_split)",
        "min(blocks.end, begin + per_split + 1)",
    ),
    Mutation(
        "overlapping warps both store",
        ROWS,
        "const int first_o_tile = warp_n * O_TILES - warp_columns / 8;",
        "const int first_o_tile = 0;",
    ),
    # ---- Numbers ----
    Mutation(
        "forgotten scale of the scores",
        SOFTMAX,
        "exp2_approx(score[i] * scale_log2 - shift)",
        "exp2_approx(score[i] - shift)",
    ),
    Mutation("forgotten ln 2 of lse", EPILOGUE, "(lse_log2, LN_2, 0.0f)", "(lse_log2, 1.0f, 0.0f)"),
    Mutation(
        "O is not rescaled",
        SOFTMAX,
        "out[tile * 4 + half * 2] *= rescale;\n",
        "\n",
    ),
    Mutation(
        "two threads park their row sums in one place",
        BLOCK,
        "smem + read_thread_index() * Q_ROW_BYTES + HEAD_DIM * 2",
        "smem + read_thread_index() / 2 * Q_ROW_BYTES + HEAD_DIM * 2",
        place=0,
    ),
    Mutation(
        "row sums parked in the last columns of Q",
        BLOCK,
        "smem + read_thread_index() * Q_ROW_BYTES + HEAD_DIM * 2",
        "smem + read_thread_index() * Q_ROW_BYTES + HEAD_DIM * 2 - 16",
        place=0,
    ),
    Mutation(
        "row sum is not rescaled",
        SOFTMAX,
        "*row_sum * rescale + exponentials",
        "*row_sum + exponentials",
    ),
    Mutation(
        "rescale of products, whose rounding a GPU fuses away on one side",
        SOFTMAX,
        "exp2_approx((*reference - base) * scale_log2)",
        "exp2_approx(*reference * scale_log2 - base * scale_log2)",
    ),
    Mutation(
        "row maximum of this warp alone",
        BLOCK,
        "place->exchange[(place->row + m * 16 + half * 8) * WARPS_N + i]);",
        "place->exchange[(place->row + m * 16 + half * 8) * WARPS_N]);",
    ),
    Mutation(
        "row sum of one warp too few",
        BLOCK,
        "for (int i = 0; i < WARPS_N; ++i)\n        row_sum[m][half] +=",
        "for (int i = 1; i < WARPS_N; ++i)\n        row_sum[m][half] +=",
    ),
    Mutation(
        "halves of P exchanged",
        SOFTMAX,
        "p[i] = pack(",
        "p[i ^ 1] = pack(",
    ),
    Mutation(
        "last 8 columns of the head dim left out",
        BLOCK,
        "if (slab == K_SLABS - 1) {\n      // The last 8",
        "if (slab == K_SLABS) {\n      // The last 8",
    ),
    Mutation("odd tile of O left out", BLOCK, "if (O_TILES % 2 != 0) {", "if (false) {"),
    # ---- Combine ----
    Mutation(
        "combine: splits past the first step left out",
        COMBINE,
        "for (; first < num_splits; first += STEP * stride) {",
        "if (first < num_splits) {",
    ),
    Mutation(
        "combine: splits past the end",
        COMBINE,
        "if (split < num_splits) {",
        "{",
    ),
    Mutation(
        "combine: no barrier before the warps are added up",
        COMBINE,
        "  __syncthreads();\n  if (threadIdx.x >=",
        "  if (threadIdx.x >=",
    ),
    Mutation(
        "combine: rows without keys",
        COMBINE,
        "lse - finite_base(max)",
        "lse - max",
    ),
    Mutation(
        "combine: sums not normalised",
        COMBINE,
        "sum.out.x * end.normalize, sum.out.y * end.normalize",
        "sum.out.x, sum.out.y",
    ),
    Mutation(
        "combine: weights of the steps before not rescaled",
        COMBINE,
        "sum.weights *= rescale;",
        "",
    ),
    Mutation(
        "combine: columns past the end",
        COMBINE,
        "own_row < args->rows && (HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V);",
        "own_row < args->rows;",
    ),
    Mutation(
        "combine: one group left out",
        COMBINE,
        "lanes < 32; lanes *= 2",
        "lanes < 16; lanes *= 2",
    ),
    Mutation(
        "combine: one warp left out",
        COMBINE,
        "for (int warp = 1; warp < WARPS; ++warp)",
        "for (int warp = 1; warp < WARPS - 1; ++warp)",
    ),
    Mutation(
        "combine: few splits, and no barrier before the warps are added up",
        COMBINE,
        "  __syncthreads();\n#pragma unroll\n  for (int warp",
        "#pragma unroll\n  for (int warp",
    ),
    Mutation(
        "combine: few splits, one warp left out",
        COMBINE,
        "warp < WARPS && threadIdx.x",
        "warp < WARPS - 1 && threadIdx.x",
    ),
    Mutation(
        "combine: few splits, one left out",
        COMBINE,
        "if (group < num_splits)",
        "if (group + 1 < num_splits)",
    ),
    Mutation(
        "combine: few splits, a lane's own weight",
        COMBINE,
        "__shfl_sync(0xffffffff, weight, group)",
        "__shfl_sync(0xffffffff, weight, lane)",
    ),
    Mutation(
        "combine: few splits, the sum of half of the weights",
        COMBINE,
        "for (int lanes = 1; lanes < GROUPS; lanes *= 2)\n    sum.weights",
        "for (int lanes = 1; lanes < GROUPS / 8; lanes *= 2)\n    sum.weights",
    ),
    Mutation(
        "combine: begins with rows that are not split",
        COMBINE,
        "args.whole_rows + (int64_t)(",
        "(int64_t)(",
    ),
    Mutation(
        "decode: whole row blocks leave a part",
        DECODE,
        "    if (whole) {",
        "    if (false) {",
    ),
    Mutation(
        "decode: one row block too few stores what it has",
        DECODE,
        "read_block_index() < args->whole_row_blocks",
        "read_block_index() + 1 < args->whole_row_blocks",
    ),
    Mutation(
        "decode: whole row blocks without their sinks",
        DECODE,
        "DROPOUT, !whole);",
        "DROPOUT, SPLIT);",
    ),
    Mutation(
        "decode: whole row blocks see the keys of one split",
        WORK,
        "block < args->whole_row_blocks ? 0x3fffffff : args->key_blocks_per_split",
        "args->key_blocks_per_split",
    ),
    Mutation(
        "decode: split row blocks begin with the first",
        WORK,
        "head + (is_whole ? 0 : whole / args->row_blocks)",
        "head",
    ),
    Mutation(
        "combine: groups add up the same row",
        COMBINE,
        "first_row + (together ? 0 : group);",
        "first_row;",
    ),
    Mutation(
        "combine: rows past the end",
        COMBINE,
        "const bool valid = own_row < args->rows && ",
        "const bool valid = ",
    ),
    Mutation(
        "combine: rows past the end are read",
        COMBINE,
        "own_row < args->rows ? (int)own_row : 0;",
        "(int)own_row;",
    ),
    Mutation(
        "combine: a group with a row of its own begins as one of many",
        COMBINE,
        "together ? group : 0, together",
        "group, together",
    ),
    Mutation(
        "combine: a group with a row of its own takes a share of the splits",
        COMBINE,
        "together ? GROUPS : 1,",
        "GROUPS,",
    ),
    Mutation(
        "combine: groups that have a row each are added up",
        COMBINE,
        "    if (together)\n      sum",
        "    if (true)\n      sum",
    ),
    Mutation(
        "combine: only the first group's row is stored",
        COMBINE,
        "(group == 0 || !together)",
        "group == 0",
    ),
    Mutation(
        "combine: thread blocks of many rows overlap",
        COMBINE,
        "(int64_t)(blockIdx.x / COLUMN_BLOCKS) * args.block_rows;",
        "(int64_t)(blockIdx.x / COLUMN_BLOCKS);",
    ),
    Mutation(
        "combine: heads of the next batch",
        COMBINED_ROW,
        "heads - place.batch * args->heads_q;",
        "heads;",
    ),
    # ---- sm90: barriers and the rings ----
    Mutation(
        "sm90: Q's empty barrier counts a warp too few",
        FWD_SM90,
        "mbarrier_init(q_empty(shared, consumer), 4)",
        "mbarrier_init(q_empty(shared, consumer), 3)",
    ),
    Mutation(
        "sm90: K's empty barrier counts a warp too few",
        FWD_SM90,
        "mbarrier_init(k_empty(shared, stage), 4 * CONSUMERS)",
        "mbarrier_init(k_empty(shared, stage), 4 * CONSUMERS - 1)",
    ),
    Mutation(
        "sm90: V's full barrier counts an arrival too many",
        FWD_SM90,
        "mbarrier_init(v_full(shared, stage), ${ 2 if shares_words else 1 })",
        "mbarrier_init(v_full(shared, stage), ${ 3 if shares_words else 2 })",
    ),
    Mutation(
        "sm90: a barrier of K not initialised",
        FWD_SM90,
        "mbarrier_init(k_full(shared, stage), 1);",
        "",
    ),
    Mutation(
        "sm90: one barrier for V's full and empty",
        FWD_SM90,
        "return k_full(shared, 3 * STAGES + stage);",
        "return k_full(shared, 2 * STAGES + stage);",
    ),
    Mutation(
        "sm90: no fence after the inits",
        FWD_SM90,
        "    fence_mbarrier_init();\n",
        "",
    ),
    Mutation(
        "sm90: no barrier after the inits",
        FWD_SM90,
        "  __syncthreads();\n",
        "",
    ),
    Mutation(
        "sm90: K is not released",
        FWD_PRODUCTS,
        "arrive_once(k_empty(shared, stage));",
        "",
    ),
    Mutation(
        "sm90: K is released before its products are waited for",
        FWD_PRODUCTS,
        "wgmma_wait(pending);",
        "arrive_once(k_empty(shared, stage)); wgmma_wait(pending);",
    ),
    Mutation(
        "sm90: V is released in the wrong stage",
        FWD_SM90,
        "arrive_once(v_empty(shared, last.index));",
        "arrive_once(v_empty(shared, stage.index));",
        place=2,
    ),
    Mutation(
        "sm90: V of a unit before is not released",
        FWD_SM90,
        "arrive_once(v_empty(shared, last.index));",
        "",
    ),
    Mutation(
        "sm90: the stream's last V is not released",
        FWD_SM90,
        "arrive_once(v_empty(shared, stage.index));",
        "",
        place=2,
    ),
    Mutation(
        "sm90: V of a block that passes is not released",
        FWD_SM90,
        "arrive_once(v_empty(shared, stage.index));",
        "",
    ),
    Mutation(
        "sm90: Q is released a key block early",
        FWD_SM90,
        FIRST_BLOCK + ' }${ " && walk',
        FIRST_BLOCK + ' } + 1${ " && walk',
    ),
    Mutation(
        "sm90: Q that is not used is not released",
        FWD_SM90,
        "arrive_once(q_empty(shared, consumer));",
        "",
        place=2,
    ),
    Mutation(
        "sm90: every lane releases",
        PIPELINE,
        "if (threadIdx.x % 32 == 0)",
        "",
    ),
    Mutation(
        "sm90: every other warp releases",
        PIPELINE,
        "if (threadIdx.x % 32 == 0)",
        "if (threadIdx.x % 64 == 0)",
    ),
    Mutation(
        "sm90: a wait that asks once",
        PIPELINE,
        "while (!mbarrier_try_wait(barrier, parity)) {",
        "if (!mbarrier_try_wait(barrier, parity)) {",
    ),
    Mutation(
        "sm90: the parity of a stage stays",
        PIPELINE,
        "last ? stage.parity ^ 1 : stage.parity",
        "stage.parity",
    ),
    Mutation(
        "sm90: the ring has one stage too many",
        PIPELINE,
        "stage.index + 1 == stages",
        "stage.index == stages",
    ),
    Mutation(
        "sm90: the producer waits for the phase that goes on",
        DENSE_PRODUCER,
        "stage->parity ^ 1, K_SLABS",
        "stage->parity, K_SLABS",
    ),
    Mutation(
        "sm90: the producer does not wait for a stage",
        FWD_SM90,
        "wait_for_phase(empty, parity);",
        "",
    ),
    Mutation(
        "sm90: the producer does not wait for Q's place",
        DENSE_PRODUCER,
        "wait_for_phase(q_empty(shared, consumer), parity ^ 1);",
        "",
    ),
    Mutation(
        "sm90: no wait for a unit's Q",
        FWD_SM90,
        "wait_for_phase(q_full(shared, consumer), q_parity);",
        "",
    ),
    Mutation(
        "sm90: no wait for the next unit's Q",
        FWD_SM90,
        "wait_for_phase(q_full(shared, consumer), q_parity); // the copy engine hands over Q\n",
        "",
    ),
    Mutation(
        "sm90: no wait for K of a block that passes",
        FWD_SM90,
        "wait_for_phase(k_full(shared, stage.index), stage.parity);",
        "",
        harmless="the waits for Q and V keep arrivals within a phase",
    ),
    Mutation(
        "sm90: no wait for the next K",
        FWD_PRODUCTS,
        "wait_for_phase(k_full(shared, stage.index), stage.parity);",
        "",
        place=1,
    ),
    Mutation(
        "sm90: no wait for the first K",
        FWD_PRODUCTS,
        "wait_for_phase(k_full(shared, stage.index), stage.parity);",
        "",
        place=2,
    ),
    Mutation(
        "sm90: no wait for V of a block that passes",
        FWD_SM90,
        "wait_for_phase(v_full(shared, stage.index), stage.parity);",
        "",
    ),
    Mutation(
        "sm90: no wait for the first V",
        FWD_SM90,
        "wait_for_phase(v_full(shared, stage.index), stage.parity);",
        "",
        place=2,
    ),
    Mutation(
        "sm90: no wait for the next V",
        FWD_SM90,
        "wait_for_phase(v_full(shared, stage.index), stage.parity);",
        "",
        place=3,
    ),
    Mutation(
        "sm90: the producer's parity of Q stays",
        DENSE_PRODUCER,
        "q_parity ^= 1;",
        "",
    ),
    Mutation(
        "sm90: the consumer's parity of Q stays",
        DENSE_PRODUCER,
        "q_parity ^= 1;",
        "",
        place=2,
    ),
    Mutation(
        "sm90: the parity of Q stays where no key is seen",
        FWD_SM90,
        "q_parity ^= has_keys;",
        "",
    ),
    Mutation(
        "sm90: the block is not counted that passes",
        DENSE_PRODUCER,
        "stage = next_stage(stage, STAGES);",
        "",
    ),
    Mutation(
        "sm90: K of the block in use is loaded again",
        DENSE_PRODUCER,
        'else "" }n - 1, kv_head',
        'else "" }n, kv_head',
    ),
    Mutation(
        "sm90: P V uses the next stage of V",
        FWD_PRODUCTS,
        "start_output(out, p, shared, last.index${",
        "start_output(out, p, shared, stage.index${",
    ),
    Mutation(
        "sm90: the whole warp produces",
        FWD_SM90,
        "    if (threadIdx.x == 0)\n      produce",
        "    if (threadIdx.x < 32)\n      produce",
    ),
    Mutation(
        "sm90: a unit without keys ends the producer",
        DENSE_PRODUCER,
        "      continue;\n",
        "      break;\n",
    ),
    # ---- sm90: turns and registers ----
    Mutation(
        "sm90: waits for the other one's turn",
        FWD_SM90,
        "named_barrier_sync(1 + consumer, 256)",
        "named_barrier_sync(1 + (consumer + 1) % CONSUMERS, 256)",
    ),
    Mutation(
        "sm90: the first turn is not given",
        FWD_SM90,
        "if (consumer == CONSUMERS - 1)",
        "if (consumer == CONSUMERS)",
    ),
    Mutation(
        "sm90: a turn for one consumer's threads",
        FWD_SM90,
        "named_barrier_sync(1 + consumer, 256)",
        "named_barrier_sync(1 + consumer, 128)",
    ),
    Mutation(
        "sm90: the turn is not handed on",
        FWD_SM90,
        "named_barrier_arrive(1 + (consumer + 1) % CONSUMERS, 256);",
        "",
    ),
    Mutation(
        "sm90: a block that passes takes no turn",
        FWD_SM90,
        "//% if turns\n  begin_turn(consumer);\n  end_turn(consumer);\n",
        "//% if turns\n",
    ),
    Mutation(
        "sm90: the producer keeps its registers",
        FWD_SM90,
        "decrease_registers(PRODUCER_REGISTERS);",
        "",
    ),
    Mutation(
        "sm90: registers for a thread that are no multiple of 8",
        FWD_SM90,
        "increase_registers(CONSUMER_REGISTERS)",
        "increase_registers(CONSUMER_REGISTERS - 4)",
    ),
    # ---- sm90: products ----
    Mutation(
        "sm90: no fence before Q K^T",
        FWD_PRODUCTS,
        "wgmma_fence();",
        "",
    ),
    Mutation(
        "sm90: no fence before P V",
        FWD_PRODUCTS,
        "wgmma_fence();",
        "",
        place=2,
    ),
    Mutation(
        "sm90: Q K^T is not a group",
        FWD_PRODUCTS,
        "wgmma_commit();",
        "",
    ),
    Mutation(
        "sm90: P V is not a group",
        FWD_PRODUCTS,
        "wgmma_commit();",
        "",
        place=2,
    ),
    Mutation(
        "sm90: no wait for the scores",
        FWD_PRODUCTS,
        "wgmma_wait(pending);",
        "",
    ),
    Mutation(
        "sm90: the first scores are not waited for",
        FWD_SM90,
        "finish_scores(score, 0,",
        "finish_scores(score, 1,",
    ),
    Mutation(
        "sm90: no wait in the end of P V",
        FWD_PRODUCTS,
        "wgmma_wait(0);",
        "",
    ),
    Mutation(
        "sm90: no wait for P V of the unit before",
        FWD_SM90,
        "finish_output(out);",
        "",
    ),
    Mutation(
        "sm90: no wait for P V of the block before",
        FWD_SM90,
        "finish_output(out);",
        "",
        place=2,
    ),
    Mutation(
        "sm90: no wait for the last P V",
        FWD_SM90,
        "finish_output(out);",
        "",
        place=3,
    ),
    Mutation(
        "sm90: O is rescaled while P V runs",
        FWD_SM90,
        "        // As above.\n",
        "        rescale_rows(out, O_TILES, rescale);\n        // As above.\n",
    ),
    Mutation(
        "sm90: P is overwritten while P V runs",
        FWD_SM90,
        "        // As above.\n",
        "        round_probabilities(p[0], score, S_TILES, DTYPE);\n        // As above.\n",
    ),
    Mutation(
        "sm90: O is not rescaled",
        FWD_SM90,
        "rescale_rows(out, O_TILES, rescale);",
        "",
    ),
    Mutation(
        "sm90: O of the unit before stays",
        FWD_SM90,
        "out[i] = 0.0f;",
        "",
    ),
    Mutation(
        "sm90: scores are added to P",
        FWD_PRODUCTS,
        "step > 0);",
        "1);",
    ),
    Mutation(
        "sm90: a step of K within its slab",
        FWD_PRODUCTS,
        '"KEY_SLAB_BYTES" } + step % 4 * 32) / 16',
        '"KEY_SLAB_BYTES" } + step % 4 * 64) / 16',
    ),
    Mutation(
        "sm90: a step of Q into the next slab",
        FWD_PRODUCTS,
        "(step / 4 * Q_SLAB_BYTES + step % 4 * 32)",
        "(step / 4 * KEY_SLAB_BYTES + step % 4 * 32)",
    ),
    Mutation(
        "sm90: a step of V",
        FWD_PRODUCTS,
        'else "step * 16 * 128" } / 16',
        'else "step * 8 * 128" } / 16',
    ),
    Mutation(
        "sm90: rows of K's atoms",
        FWD_PRODUCTS,
        "wgmma_descriptor(shared + K_OFFSET, 1024, 0)",
        "wgmma_descriptor(shared + K_OFFSET, 512, 0)",
    ),
    Mutation(
        "sm90: slabs of V",
        FWD_PRODUCTS,
        "wgmma_descriptor(shared + V_OFFSET, 1024, KEY_SLAB_BYTES)",
        "wgmma_descriptor(shared + V_OFFSET, 1024, 1024)",
    ),
    Mutation(
        "sm90: Q of the first consumer for all",
        FWD_PRODUCTS,
        'wgmma_descriptor(shared + ${ "q_place" if q_ahead else "consumer" } * Q_BYTES, ',
        "wgmma_descriptor(shared, ",
    ),
    Mutation(
        "sm90: the descriptor's strides change places",
        FWD_PRODUCTS,
        "wgmma_descriptor(shared + V_OFFSET, 1024, KEY_SLAB_BYTES)",
        "wgmma_descriptor(shared + V_OFFSET, KEY_SLAB_BYTES, 1024)",
    ),
    Mutation(
        "sm90: the descriptor's swizzle is that of 64 bytes",
        WGMMA,
        "(uint64_t)1 << 62",
        "(uint64_t)2 << 62",
    ),
    Mutation(
        "sm90: the descriptor's row stride is halved",
        WGMMA,
        "(uint64_t)(row_bytes >> 4) << 32",
        "(uint64_t)(row_bytes >> 5) << 32",
    ),
    Mutation(
        "sm90: the descriptor's address is cut",
        WGMMA,
        "& 0x3fff)",
        "& 0xfff)",
    ),
    # ---- sm90: copies ----
    Mutation(
        "sm90: the bytes of one slab",
        FWD_SM90,
        "mbarrier_arrive_expect(full, slabs * KEY_SLAB_BYTES)",
        "mbarrier_arrive_expect(full, KEY_SLAB_BYTES)",
    ),
    Mutation(
        "sm90: the bytes of Q where heads share a tile",
        DENSE_PRODUCER,
        "K_SLABS * 128 * positions * args->fwd.heads_per_tile",
        "K_SLABS * Q_SLAB_BYTES",
    ),
    Mutation(
        "sm90: columns of a slab",
        FWD_SM90,
        "slab * 64, row",
        "slab * 32, row",
    ),
    Mutation(
        "sm90: slabs half a slab apart",
        FWD_SM90,
        "target + slab * KEY_SLAB_BYTES",
        "target + slab * KEY_SLAB_BYTES / 2",
    ),
    Mutation(
        "sm90: Q of the first consumer's positions",
        DENSE_PRODUCER,
        "unit->position_begin + consumer * positions, unit->batch",
        "unit->position_begin, unit->batch",
    ),
    Mutation(
        "sm90: the wrong key head",
        DENSE_PRODUCER,
        "unit.tile_head / group",
        "unit.tile_head % fwd->heads_kv",
    ),
    Mutation(
        "sm90: V by K's map",
        DENSE_PRODUCER,
        "&args->v, v_full",
        "&args->k, v_full",
    ),
    # ---- sm90: masks and softmax ----
    Mutation(
        "sm90: mask: the second key of a pair",
        SCORE,
        "min(whole % 8, 2)",
        "min(whole % 8, 1)",
    ),
    Mutation(
        "sm90: mask: one key short",
        SCORE,
        "keys_before(row.key_end - key)",
        "keys_before(row.key_end - key - 1)",
    ),
    Mutation(
        "sm90: mask: the first 32 keys of a thread only",
        SCORE,
        "first < tiles * 2; first += 32",
        "first < min_int(tiles * 2, 32); first += 32",
    ),
    Mutation(
        "sm90: mask left out of the last key block",
        FWD_SCORES,
        " + 1) * BLOCK_N > walk->key_unmasked",
        ") * BLOCK_N > walk->key_unmasked",
    ),
    Mutation(
        "sm90: causal mask left out too early",
        FWD_WALK,
        'if sequences != "dense" else "" }position_begin);',
        'if sequences != "dense" else "" }position_begin + 63);',
    ),
    Mutation(
        "sm90: causal keys of the first row only",
        FWD_SM90,
        'else "unit->position_begin + positions" })',
        'else "unit->position_begin + 1" })',
    ),
    Mutation(
        "sm90: the first row block is as full as the others",
        FWD_SM90,
        ": args->fwd.seqlen_q - (args->fwd.row_blocks - 1) * positions;",
        ": positions;",
    ),
    Mutation(
        "sm90: the first row block begins before the first row",
        FWD_SM90,
        "max(fwd->seqlen_q - (row_block + 1) * positions, 0)",
        "fwd->seqlen_q - (row_block + 1) * positions",
    ),
    Mutation(
        "sm90: row blocks end a row before the sequence does",
        FWD_SM90,
        "max(fwd->seqlen_q - (row_block + 1) * positions, 0)",
        "max(fwd->seqlen_q - 1 - (row_block + 1) * positions, 0)",
    ),
    Mutation(
        "sm90: causal keys of a consumer's first row only",
        FWD_WALK,
        '"" }position_begin + positions)',
        '"" }position_begin + 1)',
    ),
    Mutation(
        "sm90: causal rows of the other half",
        FWD_WALK,
        "divide(row + half * 8,",
        "divide(row,",
    ),
    Mutation(
        "sm90: the last of the heads that share tiles in parts is not there, and is stored",
        FWD_OUTPUT,
        " &&\n                       head < fwd->heads_q;",
        ";",
    ),
    Mutation(
        "sm90: a key head for the last of the heads that share tiles in parts",
        DENSE_PRODUCER,
        "args->tile_heads.value / fwd->heads_kv",
        "fwd->heads_q / fwd->heads_kv / fwd->heads_per_tile",
        place=0,
    ),
    Mutation(
        "sm90: Q of the first heads in all tiles",
        DENSE_PRODUCER,
        "unit->tile_head * args->fwd.heads_per_tile,\n                  unit->position_begin",
        "unit->tile_head,\n                  unit->position_begin",
    ),
    Mutation(
        "sm90: the reference does not follow",
        SOFTMAX,
        "  *reference = maximum;\n",
        "",
    ),
    Mutation(
        "sm90: the maximum of two lanes",
        SOFTMAX,
        "return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));",
        "return x;",
    ),
    Mutation(
        "sm90: the sum of two lanes",
        SOFTMAX,
        "return x + __shfl_xor_sync(0xffffffff, x, 2);",
        "return x;",
    ),
    Mutation(
        "sm90: rescale of the other row",
        SOFTMAX,
        "rescale[i / 2 % 2]",
        "rescale[i % 2]",
    ),
    Mutation(
        "sm90: rescale where the first row needs it",
        SOFTMAX,
        "rescale[0] != 1.0f || rescale[1] != 1.0f",
        "rescale[0] != 1.0f",
    ),
    Mutation(
        "sm90: the unit before with the next one's sums",
        FWD_SM90,
        "store_output(out, last_reference, last_sum,",
        "store_output(out, reference, row_sum,",
    ),
    Mutation(
        "sm90: the unit before is stored as the next one",
        FWD_SM90,
        "args, &last_unit, consumer);",
        "args, &walk.unit, consumer);",
    ),
    Mutation(
        "sm90: the reference of the unit before stays",
        FWD_SM90,
        "        reference[half] = -INF;\n",
        "",
    ),
    # ---- sm90: work ----
    Mutation(
        "sm90: the way back begins one place off",
        FWD_SM90,
        "blocks - 1 - blockIdx.x",
        "blocks - blockIdx.x",
    ),
    Mutation(
        "sm90: all groups are the first one",
        FWD_SM90,
        "group * args->group_units + group_unit",
        "group_unit",
    ),
    Mutation(
        "sm90: units past the end of a group",
        FWD_SM90,
        "group_unit >= args->group_units || head",
        "head",
    ),
    Mutation(
        "sm90: heads past the last one",
        FWD_SM90,
        "head >= args->heads)",
        "head > args->heads)",
    ),
    Mutation(
        "sm90: heads of the first section",
        FWD_SM90,
        "(section - row_block)",
        "(-row_block)",
    ),
    Mutation(
        "sm90: a division of 32 bits",
        PIPELINE,
        "(uint64_t)n * divisor->multiplier",
        "(uint64_t)((uint32_t)n * divisor->multiplier)",
    ),
    Mutation(
        "sm90: the last causal row block left out",
        FWD_SM90,
        "fwd->row_blocks - 1 - row_block",
        "fwd->row_blocks - row_block",
    ),
    Mutation(
        "sm90: causal row blocks from the first one",
        FWD_SM90,
        "fwd->row_blocks - 1 - row_block",
        "row_block",
        harmless="the order costs time only",
    ),
    Mutation(
        "sm90: a split's keys past the end",
        WORK,
        "min(blocks.end, begin + per_split)",
        "begin + per_split",
        harmless="they are masked",
    ),
    # ---- sm90: the output ----
    Mutation(
        "sm90: rows of the first warps",
        FWD_OUTPUT,
        "threadIdx.x / 32 % 4 * 16 + half * 8",
        "threadIdx.x / 32 % 2 * 16 + half * 8",
    ),
    Mutation(
        "sm90: positions of the first consumer",
        FWD_OUTPUT,
        "consumer * args->warpgroup_positions + row_position",
        "row_position",
    ),
    Mutation(
        "sm90: heads that share a tile",
        FWD_OUTPUT,
        "(unit->tile_head - row_position) * fwd->heads_per_tile + row",
        "unit->tile_head * fwd->heads_per_tile + row % 2",
    ),
    Mutation(
        "sm90: rows past the last whole position",
        FWD_OUTPUT,
        "row_position < args->warpgroup_positions && ",
        "",
    ),
    Mutation(
        "sm90: rows of the second row block in the first",
        FWD_OUTPUT,
        "position < position_end(args, unit) && ",
        "",
    ),
    Mutation(
        "sm90: rows past the last query",
        FWD_OUTPUT,
        " && position < fwd->seqlen_q",
        "",
    ),
    Mutation(
        "sm90: pieces: the wrong one is sent",
        FWD_OUTPUT,
        "odd ? first : second",
        "odd ? second : first",
    ),
    Mutation(
        "sm90: pieces: the wrong order",
        FWD_OUTPUT,
        "uint2{received, second}",
        "uint2{second, received}",
    ),
    Mutation(
        "sm90: pieces: lanes change places",
        FWD_OUTPUT,
        "lane % 2 * 8 + lane / 2 % 2 * 4",
        "lane / 2 % 2 * 8 + lane % 2 * 4",
    ),
    Mutation(
        "sm90: tiles past the last column",
        FWD_OUTPUT,
        "(tile + 1 < O_TILES || lane % 2 == 0)",
        "true",
    ),
    Mutation(
        "sm90: the sum of one lane",
        FWD_OUTPUT,
        "{quad_sum(row_sum[0]), quad_sum(row_sum[1])}",
        "{row_sum[0], row_sum[1]}",
    ),
    Mutation(
        "sm90: rows' offsets cut to 32 bits",
        EPILOGUE,
        "position * args->out_row_stride",
        "(int)(position * args->out_row_stride)",
    ),
    Mutation(
        "sm90: heads' offsets cut to 32 bits",
        EPILOGUE,
        "head * args->out_head_stride",
        "(int)(head * args->out_head_stride)",
    ),
]
