"""Single faults in the convolutions' templates and header, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

GATHER = "templates/conv2d/conv2d_gather_sm80.cu.j2"
GATHER_COPIES = "templates/conv2d/parts/gather.cu.j2"
GATHER_START = "templates/conv2d/parts/gather_start.cu.j2"
GATHER_END = "templates/conv2d/parts/gather_end.cu.j2"
GATHER_SM90 = "templates/conv2d/conv2d_gather_sm90.cu.j2"
WGRAD = "templates/conv2d/conv2d_wgrad_sm80.cu.j2"
WGRAD_COPIES = "templates/conv2d/parts/wgrad.cu.j2"
WGRAD_START = "templates/conv2d/parts/wgrad_start.cu.j2"
WGRAD_END = "templates/conv2d/parts/wgrad_end.cu.j2"
WGRAD_SM90 = "templates/conv2d/conv2d_wgrad_sm90.cu.j2"
DOUT = "templates/conv2d/conv2d_dout.cu.j2"
IM2COL = "templates/conv2d/conv2d_im2col_sm90.cu.j2"
IM2COL_WGRAD = "templates/conv2d/conv2d_im2col_wgrad_sm90.cu.j2"
IM2COL_RING = "templates/conv2d/parts/im2col.cu.j2"
REDUCE = "templates/conv2d/conv2d_reduce.cu.j2"
DEVICE = "include/attnpress/device/conv2d.cuh"

KERNELS = [
    ("conv2d_fprop_m64n64_bf16_sm80", ""),
    ("conv2d_dgrad_m64n128_fp16_sm80", ""),
    ("conv2d_wgrad_m64n64_bf16_sm80", ""),
    ("conv2d_fprop_m128n128_fp16_sm80", ""),
    ("conv2d_dgrad_m128n64_bf16_sm80", ""),
    ("conv2d_wgrad_m128n64_fp16_sm80", ""),
    ("conv2d_fprop_m128n64_bf16_sm90", ""),
    ("conv2d_dgrad_m128n128_fp16_sm90", ""),
    ("conv2d_wgrad_m128n128_bf16_sm90", ""),
    ("conv2d_fprop_im2col_m256n128_bf16_sm90", ""),
    ("conv2d_fprop_im2col_m64n64_fp16_sm90", ""),
    ("conv2d_dgrad_im2col_m128n128_fp16_sm90", ""),
    ("conv2d_wgrad_im2col_m128n128_bf16_sm90", ""),
    ("conv2d_wgrad_im2col_m256n64_fp16_sm90", ""),
    ("conv2d_dout_bf16_sm80", ""),
    ("conv2d_reduce_fp16_sm80", ""),
]

MUTATIONS = [
    # ---- fprop and dgrad ----
    Mutation(
        "conv2d: a row of another image", GATHER_COPIES, "pixel.outer * args->in_stride[0]", "0"
    ),
    Mutation(
        "conv2d: an output of another image",
        GATHER_COPIES,
        "pixel.outer * args->out_stride[0]",
        "0",
    ),
    Mutation(
        "conv2d: rows past the pixels",
        GATHER_COPIES,
        "if (index >= args->batch * lines.count * columns.count)",
        "if (index > args->batch * lines.count * columns.count)",
    ),
    Mutation(
        "conv2d: stride of the other dimension",
        GATHER_COPIES,
        "pixel.inner * args->stride[1]",
        "pixel.inner * args->stride[0]",
        1,
    ),
    Mutation(
        "conv2d: dx of the first residue",
        GATHER_COPIES,
        "lines.first + pixel.middle",
        "pixel.middle",
    ),
    Mutation(
        "conv2d: lines above the image",
        GATHER_COPIES,
        "(uint32_t)(copies->y[i] + y) < (uint32_t)args->in_height",
        "copies->y[i] + y < args->in_height",
    ),
    Mutation(
        "conv2d: columns beside the image",
        GATHER_COPIES,
        "(uint32_t)(copies->x[i] + x) < (uint32_t)args->in_width",
        "copies->x[i] + x < args->in_width",
    ),
    Mutation(
        "conv2d: taps past the last",
        GATHER_COPIES,
        "const bool tap_is_there = copies->tap.outer < lines.taps;",
        "const bool tap_is_there = true;",
    ),
    Mutation(
        "conv2d: the tap stays",
        GATHER_COPIES,
        "  advance(&copies->tap, copies->tap_by, columns.taps, args->in_vectors);\n",
        "",
    ),
    Mutation("conv2d: weights past the depth", GATHER_COPIES, "copies->depth > 0 && ", ""),
    Mutation(
        "conv2d: filters past the last",
        GATHER_COPIES,
        "copies->depth > 0 && i * PASS_LINES < copies->filters",
        "copies->depth > 0",
    ),
    Mutation("conv2d: channels past the last", GATHER_COPIES, "copies->channel_is_there && ", ""),
    Mutation(
        "conv2d: dgrad: taps without their step",
        GATHER_COPIES,
        "copies->b_tap.middle * args->tap_step[1]",
        "copies->b_tap.middle",
    ),
    Mutation(
        "conv2d: dgrad: weights past the depth",
        GATHER_COPIES,
        "copies->channel_is_there && copies->b_tap.outer < lines.taps",
        "copies->channel_is_there",
    ),
    Mutation(
        "conv2d: dgrad: the first tap is forgotten",
        GATHER_COPIES,
        "args->filter_height + lines.first_tap)",
        "args->filter_height)",
    ),
    Mutation(
        "conv2d: no columns of taps",
        GATHER_START,
        "lines.taps = columns.taps > 0 ? lines.taps : 0;",
        "",
    ),
    Mutation("conv2d: no wait for a slab", GATHER, "    cp_async_wait(STAGES - 2);\n", ""),
    Mutation(
        "conv2d: a slab too early",
        GATHER,
        "    cp_async_wait(STAGES - 2);\n",
        "    cp_async_wait(STAGES - 1);\n",
    ),
    Mutation(
        "conv2d: no barrier: table of rows",
        GATHER_START,
        "  __syncthreads();\n  const uint32_t ring",
        "  const uint32_t ring",
    ),
    Mutation(
        "conv2d: no barrier: slabs", GATHER, "    __syncthreads();\n    copy_slab", "    copy_slab"
    ),
    Mutation("conv2d: no wait before the results", GATHER_END, "  cp_async_wait(0);\n", ""),
    Mutation(
        "conv2d: no barrier: the ring has been read",
        GATHER_END,
        "  cp_async_wait(0);\n  __syncthreads();\n",
        "  cp_async_wait(0);\n",
    ),
    Mutation(
        "conv2d: no barrier: results",
        GATHER_END,
        "  __syncthreads();\n  store_tile",
        "  store_tile",
    ),
    Mutation(
        "conv2d: copies into the slab that is read",
        GATHER,
        "stage == 0 ? STAGES - 1 : stage - 1",
        "stage",
    ),
    Mutation(
        "conv2d: a slab too few",
        GATHER,
        "for (int slab = 0; slab < slabs; ++slab)",
        "for (int slab = 0; slab < slabs - 1; ++slab)",
    ),
    Mutation(
        "conv2d: columns of another block's results",
        GATHER_END,
        "column_begin / VECTOR, args.out_columns",
        "0, args.out_columns",
    ),
    Mutation(
        "conv2d: results past the columns",
        GATHER_END,
        "args.out_columns - column_begin, threadIdx",
        "BLOCK_N, threadIdx",
    ),
    Mutation(
        "conv2d: bias of another block",
        GATHER_END,
        "args.relu, column_begin + column",
        "args.relu, column",
    ),
    # ---- wgrad ----
    Mutation(
        "conv2d: pixels past the split: dout",
        WGRAD_COPIES,
        "a->is_there && left > 0",
        "a->is_there",
    ),
    Mutation(
        "conv2d: pixels past the split: x",
        WGRAD_COPIES,
        "b->is_there && inside && b->left > 0",
        "b->is_there && inside",
    ),
    Mutation(
        "conv2d: pixels of x outside", WGRAD_COPIES, "b->is_there && inside &&", "b->is_there &&"
    ),
    Mutation(
        "conv2d: filters past the last: dout",
        WGRAD_COPIES,
        "a->is_there && left > 0",
        "left > 0",
    ),
    Mutation(
        "conv2d: pixels stay",
        WGRAD_COPIES,
        "    advance(&b->pixel, b->by, args->out_height, args->out_width);\n",
        "",
    ),
    Mutation(
        "conv2d: x without padding",
        WGRAD_START,
        "tap.outer * args.dilation[0] - args.padding[0]",
        "tap.outer * args.dilation[0]",
    ),
    Mutation(
        "conv2d: x without dilation", WGRAD_START, "tap.middle * args.dilation[1]", "tap.middle"
    ),
    Mutation(
        "conv2d: x without stride",
        WGRAD_COPIES,
        "b->pixel.inner * args->stride[1]",
        "b->pixel.inner",
    ),
    Mutation(
        "conv2d: the first split's pixels",
        WGRAD_START,
        "split * args.split_pixels",
        "0 * args.split_pixels",
    ),
    Mutation(
        "conv2d: the first split's parts",
        WGRAD_END,
        "(int64_t)split * args.filters",
        "(int64_t)0 * args.filters",
    ),
    Mutation("conv2d: parts past the filters", WGRAD_COPIES, "at < rows && column", "column"),
    Mutation(
        "conv2d: parts past the columns",
        WGRAD_COPIES,
        "at < rows && column + n * 8 < columns",
        "at < rows",
    ),
    Mutation(
        "conv2d: parts: the other half",
        WGRAD_COPIES,
        "row + m * 16 + half * 8",
        "row + m * 16 + (1 - half) * 8",
    ),
    Mutation(
        "conv2d: wgrad: no barrier: slabs",
        WGRAD,
        "    __syncthreads();\n    copy_slab",
        "    copy_slab",
    ),
    Mutation(
        "conv2d: wgrad: a slab too early",
        WGRAD,
        "    cp_async_wait(STAGES - 2);\n",
        "    cp_async_wait(STAGES - 1);\n",
    ),
    Mutation(
        "conv2d: wgrad: no barrier: the ring has been read",
        WGRAD_END,
        "  __syncthreads();\n  stage_tile",
        "  stage_tile",
    ),
    Mutation(
        "conv2d: wgrad: no barrier: results",
        WGRAD_END,
        "  __syncthreads();\n  store_tile",
        "  store_tile",
    ),
    Mutation(
        "conv2d: dweight past the filters",
        WGRAD_START,
        "row_begin + row < args.filters ?",
        "true ?",
    ),
    # ---- sm90 ----
    Mutation(
        "conv2d: sm90: no wait for a slab", GATHER_SM90, "    cp_async_wait(STAGES - 2);\n", ""
    ),
    Mutation("conv2d: sm90: no fence", GATHER_SM90, "    fence_proxy_async();\n", ""),
    Mutation("conv2d: sm90: no barrier: slabs", GATHER_SM90, "    __syncthreads();\n", ""),
    Mutation("conv2d: sm90: no wait for products", GATHER_SM90, "    wgmma_wait(0);\n", ""),
    Mutation("conv2d: sm90: no fence of registers", GATHER_SM90, "  wgmma_fence();\n", ""),
    Mutation(
        "conv2d: sm90: rows of the first warpgroup", GATHER_SM90, "threadIdx.x / 128 * 64", "0"
    ),
    Mutation("conv2d: sm90: one step of A", GATHER_SM90, "a + step * 2", "a"),
    Mutation("conv2d: sm90: one panel of B", GATHER_SM90, "1024, PANEL_BYTES", "1024, 0"),
    Mutation(
        "conv2d: sm90: fragments of the first warp", GATHER_SM90, "true, warp * 16", "true, 0"
    ),
    Mutation(
        "conv2d: sm90: copies into the slab that is read",
        GATHER_SM90,
        "stage == 0 ? STAGES - 1 : stage - 1",
        "stage",
    ),
    Mutation("conv2d: sm90: wgrad: no fence", WGRAD_SM90, "    fence_proxy_async();\n", ""),
    Mutation("conv2d: sm90: wgrad: no barrier: slabs", WGRAD_SM90, "    __syncthreads();\n", ""),
    Mutation("conv2d: sm90: wgrad: no wait for products", WGRAD_SM90, "    wgmma_wait(0);\n", ""),
    Mutation(
        "conv2d: sm90: wgrad: A is not transposed",
        WGRAD_SM90,
        "load_fragment(a[step], DEPTH_ACROSS",
        "load_fragment(a[step], DEPTH_INSIDE",
    ),
    Mutation(
        "conv2d: sm90: wgrad: steps of B",
        WGRAD_SM90,
        "b + step * 16 * LINE_BYTES / 16",
        "b + step * 2",
    ),
    Mutation(
        "conv2d: sm90: wgrad: rows of the first warp",
        WGRAD_SM90,
        "row = warp * 16 + lane / 4",
        "row = lane / 4",
    ),
    # ---- what they share ----
    Mutation(
        "conv2d: a carry is lost",
        DEVICE,
        "place->middle += by.middle + carry;",
        "place->middle += by.middle;",
    ),
    Mutation(
        "conv2d: an outer carry is lost",
        DEVICE,
        "place->outer += by.outer + outer_carry;",
        "place->outer += by.outer;",
    ),
    Mutation("conv2d: carries too late", DEVICE, "place->inner >= inners", "place->inner > inners"),
    Mutation(
        "conv2d: the residue of a negative number",
        DEVICE,
        "  line.first += line.first < 0 ? stride : 0;\n",
        "",
    ),
    Mutation(
        "conv2d: taps of no residue",
        DEVICE,
        "line.first_tap < min(tap_step, filter)",
        "line.first_tap < filter",
    ),
    Mutation(
        "conv2d: a tap too few",
        DEVICE,
        "(filter - line.first_tap - 1) / tap_step + 1",
        "(filter - line.first_tap) / tap_step",
    ),
    Mutation(
        "conv2d: base without padding",
        DEVICE,
        "(line.first + padding - line.first_tap",
        "(line.first - line.first_tap",
    ),
    Mutation(
        "conv2d: lines of a slab in their order",
        DEVICE,
        "(first + line) * LINE_BYTES + (chunk ^ line % 8)",
        "(first + line) * LINE_BYTES + chunk",
    ),
    Mutation(
        "conv2d: A and B change places",
        DEVICE,
        "(depth == DEPTH_ACROSS) == is_a",
        "depth == DEPTH_ACROSS",
    ),
    Mutation(
        "conv2d: steps are not swizzled", DEVICE, "(address ^ step * 32)", "(address + step * 32)"
    ),
    Mutation(
        "conv2d: tiles are not swizzled", DEVICE, "(address ^ tile * 32)", "(address + tile * 32)"
    ),
    Mutation("conv2d: panels are one", DEVICE, "first / 64 * PANEL_BYTES", "0"),
    Mutation("conv2d: no ReLU", DEVICE, "relu && value < 0.0f", "false"),
    Mutation(
        "conv2d: bias of the left column",
        DEVICE,
        "i % 2 ? widen_high(dtype, pair)",
        "false ? widen_high(dtype, pair)",
    ),
    Mutation("conv2d: results: the lower rows", DEVICE, "at + 8 * row_bytes", "at"),
    Mutation("conv2d: results of rows that are not there", DEVICE, "offset[row] >= 0 && ", ""),
    # ---- the copy engine ----
    Mutation(
        "conv2d: im2col: a stage that is not free", IM2COL_RING, "stage.parity ^ 1", "stage.parity"
    ),
    Mutation(
        "conv2d: im2col: bytes of A alone",
        IM2COL_RING,
        "full(ring, stage.index), bytes)",
        "full(ring, stage.index), A_BYTES)",
    ),
    Mutation("conv2d: im2col: one warp frees a stage", IM2COL_RING, "4 * CONSUMERS);", "1);"),
    Mutation("conv2d: im2col: barriers are not handed over", IM2COL, "  __syncthreads();\n", ""),
    Mutation(
        "conv2d: im2col: no wait for a slab",
        IM2COL_RING,
        "    wait_for_phase(full(ring, stage.index), stage.parity);\n",
        "",
    ),
    Mutation(
        "conv2d: im2col: a stage is free too early",
        IM2COL_RING,
        "      arrive_once(empty(ring, last));\n    last",
        "      arrive_once(empty(ring, stage.index));\n    last",
    ),
    Mutation(
        "conv2d: im2col: products in flight at the end",
        IM2COL_RING,
        "wait_for_products(sum, 0)",
        "wait_for_products(sum, 1)",
    ),
    Mutation(
        "conv2d: im2col: rows of the other tile",
        IM2COL_RING,
        "(consumer * M_TILES + m) * 64",
        "consumer * M_TILES * 64",
    ),
    Mutation(
        "conv2d: im2col: dweight: rows of the other tile",
        IM2COL_RING,
        "(consumer * M_TILES + m) * PANEL_BYTES",
        "consumer * M_TILES * PANEL_BYTES",
    ),
    Mutation(
        "conv2d: im2col: panels of columns in one place",
        IM2COL_RING,
        "1024, PANEL_BYTES);\n<% endif %>",
        "1024, 0);\n<% endif %>",
    ),
    Mutation(
        "conv2d: im2col: half a step of A",
        IM2COL_RING,
        "a + step * 2, b + step * 2",
        "a + step, b + step * 2",
    ),
    Mutation(
        "conv2d: im2col: rows past the pixels",
        IM2COL,
        "tile.row < args->batch",
        "tile.row <= args->batch",
        harmless="what such a tile has is not stored",
    ),
    Mutation(
        "conv2d: im2col: class of the first tile",
        IM2COL,
        "tile.class_index = row_block / args->row_blocks",
        "tile.class_index = 0",
    ),
    Mutation(
        "conv2d: im2col: slabs of one tap",
        IM2COL,
        "line[0].taps * line[1].taps * args->tap_slabs",
        "line[0].taps * args->tap_slabs",
    ),
    Mutation(
        "conv2d: im2col: stride of the input", IM2COL, "first.inner * x.in_step", "first.inner"
    ),
    Mutation(
        "conv2d: im2col: tap of the other dimension",
        IM2COL,
        "at.middle * x.tap_move, at.outer * y.tap_move",
        "at.outer * y.tap_move, at.middle * x.tap_move",
    ),
    Mutation(
        "conv2d: im2col: weights of the first tap",
        IM2COL,
        "x.tap + at.middle * x.tap_step",
        "x.tap",
    ),
    Mutation(
        "conv2d: im2col: taps one after the other",
        IM2COL,
        "y.tap + at.outer * y.tap_step",
        "y.tap + at.outer",
    ),
    Mutation(
        "conv2d: im2col: the stage after a tile",
        IM2COL,
        "          stage = copy_tile",
        "          copy_tile",
    ),
    Mutation(
        "conv2d: im2col: the first stage for each tile",
        IM2COL,
        "    stage = multiply_slabs(",
        "    stage = {0, 0};\n    multiply_slabs(",
    ),
    Mutation(
        "conv2d: im2col: dx of the first residue", IM2COL, "(x->first + pixel.inner", "(pixel.inner"
    ),
    Mutation(
        "conv2d: im2col: outputs side by side", IM2COL, "pixel.middle * y->step", "pixel.middle"
    ),
    Mutation(
        "conv2d: im2col: sums of the tile before",
        IM2COL,
        "      sum[i] = 0.0f;\n",
        "      sum[i] = index >= (int)gridDim.x ? sum[i] : 0.0f;\n",
    ),
    Mutation("conv2d: im2col: bias of the first columns", IM2COL, "bias[n / 8]", "bias[0]"),
    Mutation(
        "conv2d: im2col: bias past the columns",
        IM2COL,
        "args->bias && column < args->out_columns",
        "args->bias",
    ),
    Mutation(
        "conv2d: im2col: columns past the last",
        IM2COL,
        " && tile.column + n * 8 + column < args->out_columns",
        "",
    ),
    Mutation("conv2d: im2col: rows past the last", IM2COL, "row + half * 8 < rows && ", ""),
    Mutation(
        "conv2d: im2col: a step too few",
        IM2COL_RING,
        "    start_steps(sum, slab, consumer, 3);",
        "    start_steps(sum, slab, consumer, 2);",
    ),
    Mutation(
        "conv2d: im2col: a tap's last slab has lines of 64",
        IM2COL_RING,
        "steps > 2 ? LINE_BYTES : steps * 32",
        "LINE_BYTES",
    ),
    Mutation(
        "conv2d: im2col: it brings what the others do",
        IM2COL,
        "is_tail ? tail_bytes : bytes",
        "bytes",
    ),
    Mutation(
        "conv2d: im2col: its pixels are copied as the others'",
        IM2COL,
        "&args->in[tile.class_index][is_tail]",
        "&args->in[tile.class_index][0]",
    ),
    Mutation(
        "conv2d: im2col: columns behind the last are copied",
        IM2COL,
        "&args->weight[is_last][is_tail]",
        "&args->weight[0][is_tail]",
    ),
    Mutation(
        "conv2d: im2col: panels behind the last are copied",
        IM2COL,
        "if (panel < panels)",
        "if (true)",
    ),
    Mutation(
        "conv2d: im2col: steps of the last slab in all",
        IM2COL_RING,
        "left == 0 ? tail_steps : SLAB / 16",
        "tail_steps",
    ),
    Mutation(
        "conv2d: im2col: a part begins with a tap",
        IM2COL_RING,
        "period - (begin > 0 ? begin % period : 0)",
        "period",
    ),
    Mutation(
        "conv2d: im2col: the first part alone",
        IM2COL,
        "(int)(blockIdx.x % args->splits) * share",
        "0 * share",
    ),
    Mutation(
        "conv2d: im2col: a part past the last slab",
        IM2COL,
        "min(tile.begin + share, slabs)",
        "tile.begin + share",
    ),
    Mutation(
        "conv2d: im2col: a part from the first tap on",
        IM2COL,
        "    at = place_of(tile.begin, x.taps, args->tap_slabs);\n",
        "    at = {0, 0, 0};\n",
    ),
    Mutation(
        "conv2d: im2col: pieces before all products",
        IM2COL,
        "  cluster_arrive();\n  cluster_wait();\n",
        "",
        place=1,
    ),
    Mutation(
        "conv2d: im2col: sums before all pieces",
        IM2COL,
        "  cluster_arrive();\n  cluster_wait();\n",
        "",
        place=2,
    ),
    Mutation(
        "conv2d: im2col: pieces of all blocks in one place",
        IM2COL,
        "piece / splits * splits + rank",
        "piece / splits * splits",
    ),
    Mutation("conv2d: im2col: pieces of the lower rows", IM2COL, "of * 16 + i % 2 * 8", "of * 16"),
    Mutation("conv2d: im2col: pieces without a part", IM2COL, "from = 0; from", "from = 1; from"),
    Mutation(
        "conv2d: im2col: pieces: rows past the last",
        IM2COL,
        "row < args->batch * y->count * x->count && ",
        "",
    ),
    Mutation(
        "conv2d: im2col: pieces: bias of the first columns",
        IM2COL,
        "(const uint16_t *)args->bias + first, 0)",
        "(const uint16_t *)args->bias + lane % 4 * 2, 0)",
    ),
    Mutation(
        "conv2d: im2col: dweight: channels of the next tap",
        IM2COL_WGRAD,
        "min(left, args->channels - channel)",
        "left",
    ),
    Mutation(
        "conv2d: im2col: dweight: taps of whole panels",
        IM2COL_WGRAD,
        "tap * args->channels + channel",
        "tile_column + n * 8",
    ),
    Mutation(
        "conv2d: im2col: dweight: pieces of a tap without an end",
        IM2COL_WGRAD,
        "!is_whole && channel == tap_columns",
        "false",
    ),
    Mutation(
        "conv2d: im2col: dweight: columns behind the last are copied",
        IM2COL_WGRAD,
        "if (panel < panels)",
        "if (panel < panels_of(BLOCK_N, width))",
    ),
    Mutation(
        "conv2d: im2col: dweight: a panel of another tap",
        IM2COL_WGRAD,
        "    advance(&tap, {0, 0, 1}, args->filter_width, args->tap_panels);\n",
        "",
    ),
    Mutation(
        "conv2d: im2col: dweight: narrow panels of filters as wide ones",
        IM2COL_WGRAD,
        "args.width[0] == 64 && args.width[1] == 64",
        "args.width[1] == 64",
    ),
    Mutation(
        "conv2d: im2col: dweight: narrow panels of columns as wide ones",
        IM2COL_WGRAD,
        "slabs, 64, 32)",
        "slabs, 64, 64)",
    ),
    Mutation(
        "conv2d: im2col: dweight: narrow panels as far apart as wide ones",
        IM2COL_RING,
        "512, PANEL_BYTES / 2, 64",
        "512, PANEL_BYTES, 64",
    ),
    Mutation(
        "conv2d: im2col: dweight: pixels of narrow panels",
        IM2COL_RING,
        "b + step * width * 2",
        "b + step * 128",
    ),
    Mutation(
        "conv2d: im2col: dweight: tap of the other dimension",
        IM2COL_WGRAD,
        "tap.outer * args->dilation[0]",
        "tap.outer * args->dilation[1]",
    ),
    Mutation(
        "conv2d: im2col: dweight: the pixels stay",
        IM2COL_WGRAD,
        "    advance(&pixel, by, args->out_height, args->out_width);\n",
        "",
    ),
    Mutation(
        "conv2d: im2col: dweight: stride",
        IM2COL_WGRAD,
        "pixel.middle * args->stride[0]",
        "pixel.middle",
    ),
    Mutation(
        "conv2d: im2col: dweight: the first filters alone",
        IM2COL_WGRAD,
        "row + panel * row_width, pixel.inner",
        "row, pixel.inner",
    ),
    Mutation(
        "conv2d: im2col: dweight: pixels of another split",
        IM2COL_WGRAD,
        "const int first = split * args.split_slabs",
        "const int first = 0",
    ),
    Mutation(
        "conv2d: im2col: dweight: a slab too many",
        IM2COL_WGRAD,
        "min(args.split_slabs, args.slabs - first)",
        "args.split_slabs",
        harmless="behind the last image there are zeros",
    ),
    Mutation(
        "conv2d: im2col: dweight: parts of another split",
        IM2COL_WGRAD,
        "(int64_t)split * args.filters",
        "(int64_t)0 * args.filters",
    ),
    Mutation(
        "conv2d: im2col: dweight: filters past the last",
        IM2COL_WGRAD,
        "if (at_row < args->filters && ",
        "if (",
    ),
    Mutation(
        "conv2d: im2col: dweight: results past the columns",
        IM2COL_WGRAD,
        "at_row < args->filters && column < columns",
        "at_row < args->filters",
    ),
    # ---- dout and reduce ----
    Mutation("conv2d: ReLU lets zeros through", DOUT, "!(result[j] > 0.0f)", "result[j] < 0.0f"),
    Mutation(
        "conv2d: masked: all of dout",
        DOUT,
        "value[j] = args.out && !(result[j] > 0.0f) ? 0.0f : value[j];",
        "",
    ),
    Mutation(
        "conv2d: pixels past the block", DOUT, "is_there && index + i * LINES < end;", "is_there;"
    ),
    Mutation(
        "conv2d: masked past the end",
        DOUT,
        "args.masked && is_there && index + i * LINES < end",
        "args.masked && is_there",
    ),
    Mutation("conv2d: no barrier: sums of lines", DOUT, "  __syncthreads();\n", ""),
    Mutation("conv2d: a line too few", DOUT, "i < LINES; ++i", "i < LINES - 1; ++i"),
    Mutation(
        "conv2d: bias parts of another block",
        DOUT,
        "(int64_t)row_block * args.vectors",
        "(int64_t)0 * args.vectors",
    ),
    Mutation("conv2d: no barrier: sums of groups", REDUCE, "  __syncthreads();\n", ""),
    Mutation("conv2d: a part too many", REDUCE, "at < args.count", "at <= args.count"),
    Mutation(
        "conv2d: a group too few", REDUCE, "other < groups; ++other", "other < groups - 1; ++other"
    ),
    Mutation(
        "conv2d: parts are elements apart", REDUCE, "(int64_t)at * args.elements", "(int64_t)at * 4"
    ),
    Mutation(
        "conv2d: elements past the parts",
        REDUCE,
        "element < args.elements",
        "element <= args.elements",
    ),
]
