"""Faults in where sequences lie, for mutate.py."""

from __future__ import annotations

from mutations import COMBINE, Mutation

SEQUENCE = "include/attnpress/device/sequence.cuh"
UNITS_OF = "include/attnpress/device/units.cuh"
DECODE = "templates/attention/flash_fwd_decode_sm80.cu.j2"
RING = "templates/attention/parts/key_ring.cu.j2"
SM80 = "templates/attention/flash_fwd_sm80.cu.j2"
EPILOGUE = "include/attnpress/device/epilogue.cuh"
ROWS = "templates/attention/parts/tile_rows.cu.j2"
SM90 = "templates/attention/flash_fwd_sm90.cu.j2"
UNITS = "templates/attention/parts/ragged_units.cu.j2"
PRODUCER = "templates/attention/parts/ragged_producer.cu.j2"
SCHEDULE = "templates/attention/flash_fwd_schedule.cu.j2"
FIXED = "templates/attention/parts/fixed_splits_sm90.cu.j2"

KERNELS = [
    ("flash_fwd_split_hdim40_bf16_window_paged_sm80", ""),
    ("flash_fwd_hdim64_bf16_causal_ragged_sm80", ""),
    ("flash_fwd_split_hdim72_fp16_window_paged_decode_sm80", ""),
    ("flash_fwd_hdim40_bf16_alibi_paged_sm86", ""),
    ("flash_fwd_split_hdim168_bf16_ragged_sm80", ""),
    ("flash_fwd_hdim64_fp16_dropout_ragged_decode_sm80", ""),
    ("flash_fwd_hdim40_fp16_window_ragged_sm80", ""),
    ("flash_fwd_hdim264_bf16_paged_decode_sm80", ""),
    ("flash_fwd_combine_hdim40_bf16_ragged_sm80", ""),
    ("flash_fwd_schedule_hdim8_bf16_sm80", ""),
    ("flash_fwd_hdim64_bf16_causal_ragged_sm90", ""),
    ("flash_fwd_hdim128_fp16_window_ragged_sm90", "m128n80s2"),
    ("flash_fwd_hdim40_bf16_ragged_sm90", "m64n48s3"),
    ("flash_fwd_hdim72_bf16_causal_paged_sm90", "m64n112s2"),
    ("flash_fwd_hdim192v128_bf16_causal_paged_sm90", "m64n48s2"),
    ("flash_fwd_split_hdim64_bf16_causal_ragged_sm90", "m64n48s3"),
    ("flash_fwd_split_hdim40_fp16_window_paged_sm90", "m128n48s2"),
]
"""Both places of the keys in both kinds of kernels, split and not; one slab of V and several, of
which some are whole and some not; of sm90, one to three consumers, and splits at fixed places."""

MUTATIONS = [
    Mutation(
        "ragged: the queries of the row behind",
        SEQUENCE,
        "           queries.begin * args.q_row_stride;",
        "           (queries.begin + 1) * args.q_row_stride;",
    ),
    Mutation(
        "ragged: keys begin at the batch's first row",
        SEQUENCE,
        "from * args.k_batch_stride + keys.begin * args.k_row_stride",
        "from * args.k_batch_stride",
    ),
    Mutation(
        "ragged: values of the neighbour",
        SEQUENCE,
        "keys.begin * args.v_row_stride",
        "(keys.begin + keys.count) * args.v_row_stride",
    ),
    Mutation(
        "ragged: the length of the first sequence",
        SEQUENCE,
        "rows_used(rows, args->seqused_k[b],",
        "rows_used(rows, args->seqused_k[0],",
    ),
    Mutation(
        "ragged: as many queries as keys",
        SEQUENCE,
        "rows_used(rows, args->seqused_q[b],",
        "rows_used(rows, args->seqused_k[b],",
    ),
    Mutation("ragged: an end behind the tensor", SEQUENCE, " || end > rows", ""),
    Mutation("ragged: a length above all", SEQUENCE, " && used <= rows.count - more;", ";"),
    Mutation(
        "ragged: appended keys are not counted", SEQUENCE, "fits ? used + more", "fits ? used"
    ),
    Mutation(
        "ragged: room for what was appended",
        SEQUENCE,
        "used <= rows.count - more",
        "used <= rows.count",
    ),
    Mutation(
        "ragged: sums of what was appended that do not ascend",
        SEQUENCE,
        "0 <= begin && begin <= end ? end - begin : -1",
        "end - begin < 0 ? 0 : end - begin",
    ),
    Mutation(
        "ragged: what was appended to the next sequence",
        SEQUENCE,
        "end = args->cu_seqlens_k_new[b + 1];",
        "end = args->cu_seqlens_k_new[b + 1] + 1;",
    ),
    Mutation(
        "ragged: an index that is no batch",
        SEQUENCE,
        "batch < args->kv_batches ? batch : -1",
        "batch < args->kv_batches ? batch : 0",
    ),
    Mutation("ragged: the pad is not counted", SEQUENCE, "(fits ? pad : 0)", "0"),
    Mutation("ragged: a pad that does not fit", SEQUENCE, " && pad <= rows.count;", ";"),
    Mutation(
        "ragged: lse of the batch's first row",
        SEQUENCE,
        "? queries.begin * args->lse_row_stride",
        "? 0",
    ),
    Mutation(
        "ragged: lse of the first sequence", SEQUENCE, ": b * batch_stride;", ": 0 * batch_stride;"
    ),
    Mutation(
        "ragged: lse rows are contiguous",
        SEQUENCE,
        "position * batch->ragged.lse_row_stride",
        "position",
    ),
    Mutation("ragged: lse to the base e", SEQUENCE, "args->lse_log2 ? lse * LOG2_E : lse", "lse"),
    Mutation("ragged: -inf for +inf", SEQUENCE, "    return INF;", "    return -INF;"),
    Mutation(
        "ragged: the window of the longest sequence",
        SEQUENCE,
        "? 0 : args.seqlen_k - args.seqlen_q",
        "? 0 : batch->fwd.seqlen_k - batch->fwd.seqlen_q",
    ),
    Mutation("ragged: top left is not asked for", SEQUENCE, "ragged->window_top_left ? 0 : ", ""),
    Mutation(
        "ragged: a split leaves keys out",
        "include/attnpress/device/work.cuh",
        "ceil_div(max(blocks.end - blocks.begin, 0), splits)",
        "max(blocks.end - blocks.begin, 0) / splits",
    ),
    Mutation(
        "ragged: parts lie by the sequence's length",
        ROWS,
        '"&batch->fwd" }',
        '"args" }',
    ),
    Mutation(
        "ragged: rows behind the end are added up",
        COMBINE,
        "if (position >= rows.count)",
        "if (position >= args.seqlen_q)",
    ),
    Mutation(
        "ragged: the sum goes to the first sequence",
        COMBINE,
        "(rows.begin + position) * args->out_row_stride",
        "position * args->out_row_stride",
    ),
    Mutation(
        "ragged: the sum's lse goes to the first sequence",
        COMBINE,
        "lse_of_sequence(ragged, rows, batch, args->lse_batch_stride) +",
        "0 +",
    ),
    Mutation(
        "pages: the next one",
        SEQUENCE,
        "pages->table[table + page]",
        "pages->table[table + page + 1]",
    ),
    Mutation(
        "pages: the row in the page is off by one",
        SEQUENCE,
        "return {number, row - page * size->value};",
        "return {number, row - page * size->value + 1};",
    ),
    Mutation(
        "pages: the table of the first sequence",
        SEQUENCE,
        ": row * args->page_table_stride;",
        ": 0;",
    ),
    Mutation("pages: V's are K's", RING, "pipe->batch->ragged.page_table_v", "0"),
    Mutation(
        "pages: K's are V's",
        RING,
        "slab * K_SLAB, 0, args",
        "slab * K_SLAB, pipe->batch->ragged.page_table_v, args",
    ),
    Mutation(
        "pages: a flat table from its front",
        SEQUENCE,
        "? rows_between(args->page_indptr, b, args->table_pages).begin\n",
        "? 0\n",
    ),
    Mutation(
        "pages: room of the whole flat table",
        SEQUENCE,
        "if (args->page_indptr != nullptr)\n    rows.count",
        "if (args->page_indptr == nullptr)\n    rows.count",
    ),
    Mutation(
        "pages: a flat table's end is not looked at",
        SEQUENCE,
        "rows_between(args->page_indptr, b, args->table_pages).count",
        "rows_between(args->page_indptr, b, 0x7fffffff).count",
    ),
    Mutation("pages: a number above all", SEQUENCE, ", args->num_pages - 1);", ", 0x7fffffff);"),
    Mutation(
        "pages: a number below 0",
        SEQUENCE,
        "max(pages->table[table + page], 0)",
        "pages->table[table + page]",
    ),
    Mutation(
        "pages: entries behind the last key's",
        SEQUENCE,
        "min(key, pages->last_key)",
        "key",
    ),
    Mutation(
        "pages: keys behind the end are not zeros",
        RING,
        "rows <= keys || row < keys ? 16 : 0);\n    }\n  }\n}\n\n// Starts passes of",
        "16);\n    }\n  }\n}\n\n// Starts passes of",
        harmless="they are the last key again, with a probability of 0",
    ),
    Mutation(
        "pages: V is that of the first slab",
        RING,
        "args->v_row_stride, first_key + key, rows",
        "args->v_row_stride, first_key, rows",
    ),
    Mutation(
        "pages: all warps have the first one's keys",
        RING,
        "n * BLOCK_N + pipe->key_begin",
        "n * BLOCK_N",
    ),
    Mutation(
        "ragged: a split's least number of key blocks is its most",
        "include/attnpress/device/work.cuh",
        "max(equal, least)",
        "min(equal, least)",
    ),
    Mutation(
        "ragged: a split without keys counts",
        DECODE,
        "                                position)] = -INF;",
        "                                position)] = 0.0f;",
    ),
    Mutation(
        "ragged: a split without keys says nothing of its last row",
        DECODE,
        "threadIdx.x >= BLOCK_M || row >= rows)",
        "threadIdx.x >= BLOCK_M || row >= rows - 1)",
    ),
    Mutation(
        "ragged: the output of a split without keys is read",
        COMBINE,
        "if (lse[i] > -INF)",
        "if (first + i * GROUPS < args->num_splits)",
    ),
    Mutation(
        "fixed splits: counted from the first key that is seen",
        "include/attnpress/device/work.cuh",
        "{max(blocks.begin, split * fixed), min(blocks.end, (split + 1) * fixed)}",
        "{blocks.begin + split * fixed, min(blocks.end, blocks.begin + (split + 1) * fixed)}",
    ),
    Mutation(
        "fixed splits: the next one's first key block too",
        "include/attnpress/device/work.cuh",
        "min(blocks.end, (split + 1) * fixed)",
        "min(blocks.end, (split + 1) * fixed + 1)",
    ),
    Mutation(
        "fixed splits: the last is left out",
        SM80,
        "max(ceil_div(blocks.end, fixed), first_split + 1)",
        "max(blocks.end / fixed, first_split + 1)",
    ),
    Mutation(
        "fixed splits: those before are forgotten",
        SM80,
        "&batch, split > first_split, smem);",
        "&batch, false, smem);",
    ),
    Mutation(
        "fixed splits: lse is that of the last",
        ROWS,
        "        *lse = sum.lse;",
        "        *lse = end.lse;",
    ),
    Mutation(
        "fixed splits: the lse of lane 0",
        ROWS,
        "__shfl_sync(0xffffffff, lse_before, lane / 4 * 4)",
        "__shfl_sync(0xffffffff, lse_before, 0)",
    ),
    Mutation(
        "fixed splits: warps share an lse",
        ROWS,
        "partial + warp_n * partial_rows(&batch->fwd)",
        "partial",
    ),
    Mutation(
        "fixed splits: parts count alike",
        EPILOGUE,
        "return {a * factor, b * factor,",
        "return {b * factor, a * factor,",
    ),
    Mutation(
        "fixed splits: a part without keys counts",
        EPILOGUE,
        "  if (lse_next == -INF)\n    return {1.0f, 0.0f, lse_so_far};\n",
        "",
    ),
    Mutation(
        "fixed splits: the first part is not all",
        EPILOGUE,
        "  if (lse_so_far == -INF)\n    return {0.0f, 1.0f, lse_next};\n",
        "",
        harmless="what there is so far counts 2^-inf",
    ),
    Mutation(
        "fixed splits: the combine kernel leaves the last out",
        COMBINE,
        "split < args->num_splits; ++split) {\n    const int64_t partial",
        "split < args->num_splits - 1; ++split) {\n    const int64_t partial",
    ),
    Mutation(
        "fixed splits: the combine kernel's groups",
        COMBINE,
        "if (ragged->fixed_split_blocks == 0)",
        "if (ragged->fixed_split_blocks >= 0)",
    ),
    Mutation(
        "ragged sm90: V behind the last key stays",
        PRODUCER,
        "          *(uint4 *)(v + slab * KEY_SLAB_BYTES + chunk * 16) = uint4{0, 0, 0, 0};",
        "          ;",
    ),
    Mutation(
        "ragged sm90: V of the first slab alone is cleared",
        PRODUCER,
        "slab < V_SLABS; ++slab)\n        for",
        "slab < 1; ++slab)\n        for",
    ),
    Mutation(
        "ragged sm90: V of the last key is cleared too",
        PRODUCER,
        "chunk = keys * 8 + lane",
        "chunk = keys * 8 - 8 + lane",
    ),
    Mutation("ragged sm90: zeros are not fenced", PRODUCER, "      fence_proxy_async();\n", ""),
    Mutation(
        "ragged sm90: V is handed over before its zeros",
        PRODUCER,
        "      fence_proxy_async();\n      __syncwarp();\n",
        "      fence_proxy_async();\n",
    ),
    Mutation(
        "ragged sm90: zeros are written before V is there",
        PRODUCER,
        "      wait_for_phase(v_loaded(v_stage.index), parities >> v_stage.index & 1);\n",
        "",
    ),
    Mutation(
        "ragged sm90: one parity for all tails",
        PRODUCER,
        "      parities ^= 1u << v_stage.index;\n",
        "",
    ),
    Mutation(
        "ragged sm90: the stage behind the tail's",
        PRODUCER,
        "    v_stage.index += blocks;",
        "    v_stage.index += blocks + 1;",
    ),
    Mutation(
        "ragged sm90: tails of the batch's keys",
        PRODUCER,
        "return unit->seqlen_k - (unit->blocks.end - 1) * BLOCK_N;",
        "return unit->seqlen_k + 1 - (unit->blocks.end - 1) * BLOCK_N;",
    ),
    Mutation(
        "ragged sm90: K from the batch's first row",
        PRODUCER,
        "K_SLABS, unit->k_row + n * BLOCK_N,",
        "K_SLABS, n * BLOCK_N,",
    ),
    Mutation(
        "ragged sm90: V from the row behind",
        PRODUCER,
        "V_SLABS, unit->k_row + n * BLOCK_N,",
        "V_SLABS, unit->k_row + 1 + n * BLOCK_N,",
    ),
    Mutation(
        "ragged sm90: K of the first batch",
        PRODUCER,
        "unit->k_row + n * BLOCK_N,\n            kv_head, unit->k_batch);\n"
        "  *stage = next_stage(*stage, STAGES);\n}\n\n// V",
        "unit->k_row + n * BLOCK_N,\n            kv_head, 0);\n"
        "  *stage = next_stage(*stage, STAGES);\n}\n\n// V",
    ),
    Mutation(
        "ragged sm90: Q from the batch's first row",
        PRODUCER,
        "unit->q_row + unit->position_begin",
        "unit->position_begin",
    ),
    Mutation(
        "ragged sm90: every other ticket is lost",
        PRODUCER,
        "atomic_add(ragged->ticket, 1)",
        "atomic_add(ragged->ticket, 2)",
        place=2,
    ),
    Mutation(
        "ragged sm90: a unit is computed twice",
        PRODUCER,
        "(int)(gridDim.x + atomic_add",
        "(int)(gridDim.x - 1 + atomic_add",
        place=2,
    ),
    Mutation(
        "ragged sm90: the last unit is lost", PRODUCER, "number >= count", "number >= count - 1"
    ),
    Mutation(
        "ragged sm90: a place is taken before it is free",
        PRODUCER,
        "    wait_for_phase(unit_empty(place.index), place.parity ^ 1);\n",
        "",
    ),
    Mutation(
        "ragged sm90: a place is handed back before all lanes have read",
        PRODUCER,
        "    __syncwarp();\n    arrive_once(unit_empty(place.index));",
        "    arrive_once(unit_empty(place.index));",
        place=3,
    ),
    Mutation(
        "ragged sm90: the unit of the sequence before",
        UNITS,
        "first_unit[next] <= number",
        "first_unit[next] < number",
    ),
    Mutation(
        "ragged sm90: the last section has as many heads",
        SEQUENCE,
        "min(section_heads, heads - first_head)",
        "section_heads",
    ),
    Mutation(
        "ragged sm90: sections begin with head 0",
        SEQUENCE,
        "{first_head + of_section - block * there, block}",
        "{of_section - block * there, block}",
    ),
    Mutation(
        "ragged sm90: a key more than there is",
        UNITS,
        "CAUSAL, unit->seqlen_q, unit->seqlen_k);",
        "CAUSAL, unit->seqlen_q, unit->seqlen_k + 1);",
    ),
    Mutation(
        "ragged sm90: causal by the longest sequence",
        UNITS,
        "CAUSAL, unit->seqlen_q, unit->seqlen_k);",
        "CAUSAL, fwd->seqlen_q, unit->seqlen_k);",
    ),
    Mutation(
        "ragged sm90: top left is not asked for",
        UNITS,
        "ragged_args(args)->ragged.window_top_left ? 0 : ",
        "",
    ),
    Mutation("ragged sm90: lse of the batch's first row", UNITS, "{unit->q_row, 0}", "{0, 0}"),
    Mutation(
        "ragged sm90: lse rows are contiguous",
        UNITS,
        "position * ragged->lse_row_stride",
        "position",
    ),
    Mutation(
        "ragged sm90: rows behind the end are stored",
        SM90,
        "position < unit->seqlen_q;",
        "position < fwd->seqlen_q;",
    ),
    Mutation(
        "ragged sm90: out of the batch's first row",
        SM90,
        "head, unit->q_row + position",
        "head, position",
    ),
    Mutation(
        "ragged sm90: the output of the unit that follows",
        SM90,
        "store_unit(out, last_reference, last_sum, args, walk.place.index + UNITS - 1, consumer)",
        "store_unit(out, last_reference, last_sum, args, walk.place.index, consumer)",
    ),
    Mutation(
        "ragged sm90: a place is handed back while lanes store",
        SM90,
        "  __syncwarp();\n  arrive_once(unit_empty(n % UNITS));",
        "  arrive_once(unit_empty(n % UNITS));",
    ),
    Mutation(
        "pages sm90: all lanes have the first box",
        PRODUCER,
        "threadIdx.x % 32 * ragged->box_rows, table);",
        "0, table);",
    ),
    Mutation(
        "pages sm90: boxes lie one after the other in the page",
        SM90,
        "slab * KEY_SLAB_BYTES + first * box_slabs * 128",
        "slab * KEY_SLAB_BYTES",
    ),
    Mutation(
        "pages sm90: boxes of all slabs lie where those of one slab do",
        SM90,
        "first * box_slabs * 128",
        "first * 128",
    ),
    Mutation(
        "pages sm90: every slab begins with column 0",
        SM90,
        "full, slab * 64, 0,\n                head,",
        "full, 0, 0,\n                head,",
    ),
    Mutation(
        "pages sm90: boxes begin with the page",
        SM90,
        "head, box.row / 8, box.page",
        "head, 0, box.page",
    ),
    Mutation(
        "pages sm90: slab by slab where all come at once",
        SM90,
        "slab < slabs; slab += box_slabs)",
        "slab < slabs; ++slab)",
    ),
    Mutation(
        "pages sm90: all slabs of K come, whole or not",
        SM90,
        "K_BOX_SLABS = HEAD_DIM % 64 == 0 ? K_SLABS : 1",
        "K_BOX_SLABS = K_SLABS",
    ),
    Mutation(
        "pages sm90: the next slab of K lies behind all keys",
        SM90,
        "K_SLAB_STEP = K_BOX_SLABS > 1 ? 1024 : KEY_SLAB_BYTES",
        "K_SLAB_STEP = KEY_SLAB_BYTES",
    ),
    Mutation(
        "pages sm90: the next slab of V lies behind all keys",
        SM90,
        "V_SLAB_STEP = V_BOX_SLABS > 1 ? 1024 : KEY_SLAB_BYTES",
        "V_SLAB_STEP = KEY_SLAB_BYTES",
    ),
    Mutation(
        "pages sm90: 8 keys of K follow 8 others at once",
        SM90,
        "K_GROUP_BYTES = K_BOX_SLABS * 1024",
        "K_GROUP_BYTES = 1024",
    ),
    Mutation(
        "pages sm90: 8 keys of V have as many slabs as K",
        SM90,
        "V_GROUP_BYTES = V_BOX_SLABS * 1024",
        "V_GROUP_BYTES = K_BOX_SLABS * 1024",
    ),
    Mutation(
        "pages sm90: strides of V are each other's",
        SM90,
        "wgmma_descriptor(shared + V_OFFSET, V_GROUP_BYTES, V_SLAB_STEP)",
        "wgmma_descriptor(shared + V_OFFSET, V_SLAB_STEP, V_GROUP_BYTES)",
    ),
    Mutation(
        "pages sm90: a product P V goes on 8 keys further",
        SM90,
        "step * 2 * V_GROUP_BYTES",
        "step * V_GROUP_BYTES",
    ),
    Mutation(
        "pages sm90: heads of K are a step apart",
        PRODUCER,
        "kv_head * ragged->k_head_step",
        "kv_head",
    ),
    Mutation(
        "pages sm90: heads of V are as far apart as K's",
        PRODUCER,
        "kv_head * ragged->v_head_step",
        "kv_head * ragged->k_head_step",
    ),
    Mutation(
        "pages sm90: tails of a slab are cleared",
        PRODUCER,
        "slab * V_SLAB_STEP + chunk / 64 * V_GROUP_BYTES + chunk % 64 * 16",
        "slab * V_SLAB_STEP + chunk * 16",
    ),
    Mutation(
        "pages sm90: boxes behind the key block",
        SM90,
        "  if (first >= BLOCK_N)\n    return;\n",
        "",
    ),
    Mutation(
        "pages sm90: bytes land before the barrier knows of them",
        SM90,
        "  // All lanes arrive and wait: the barrier knows of the bytes before any of them lands.\n"
        "  __syncwarp();\n",
        "",
        harmless="a phase that nobody has arrived at does not end; the count of bytes may pass 0",
    ),
    Mutation(
        "pages sm90: V's are K's",
        PRODUCER,
        "find_box(args, unit, n, ragged->ragged.page_table_v)",
        "find_box(args, unit, n, 0)",
    ),
    Mutation(
        "pages sm90: the first sequence's",
        UNITS,
        "->ragged.page_table + of->first_page",
        "->ragged.page_table",
    ),
    Mutation(
        "pages sm90: entries behind the last key's",
        UNITS,
        "max(of->seqlen_k - 1, 0)}",
        "0x7fffffff}",
    ),
    Mutation(
        "pages sm90: a unit is handed back while lanes read it for K",
        PRODUCER,
        "    __syncwarp();\n    arrive_once(unit_empty(place.index));",
        "    arrive_once(unit_empty(place.index));",
    ),
    Mutation(
        "pages sm90: a unit is handed back while lanes read it for V",
        PRODUCER,
        "    __syncwarp();\n    arrive_once(unit_empty(place.index));",
        "    arrive_once(unit_empty(place.index));",
        place=2,
    ),
    Mutation(
        "pages sm90: a unit is handed back before V is asked for",
        SM90,
        '${ 3 if sequences == "paged" else 2 }',
        "2",
    ),
    Mutation(
        "pages sm90: all lanes ask for Q",
        PRODUCER,
        "      if (threadIdx.x % 32 == 0)\n        load_q",
        "      load_q",
    ),
    Mutation(
        "pages sm90: Q of each unit in the same phase", PRODUCER, "      q_parity ^= 1;\n", ""
    ),
    Mutation(
        "schedule: the first page of the table",
        SCHEDULE,
        "first_page(&args.ragged, sequence, to->k_batch)",
        "0",
    ),
    Mutation(
        "schedule: units count from each part's begin",
        SCHEDULE,
        "    before += sums[count - 1];",
        "    before = sums[count - 1];",
    ),
    Mutation(
        "schedule: units up to a sequence's end",
        SCHEDULE,
        "before + end - units",
        "before + end",
    ),
    Mutation(
        "schedule: the shortest first",
        SCHEDULE,
        "mine < others : mine > others",
        "mine > others : mine < others",
    ),
    Mutation(
        "schedule: keys of the place, not the sequence",
        SCHEDULE,
        "      of = lengths_of(&args, sequence);",
        "      of = lengths_of(&args, part + place);",
    ),
    Mutation(
        "schedule: a partial row block is no row block",
        SCHEDULE,
        "ceil_div(sides.blocks, order->positions)",
        "sides.blocks / order->positions",
    ),
    Mutation(
        "schedule: blocks of keys are counted by queries",
        SCHEDULE,
        "Sides{of->keys.count, of->queries.count}",
        "Sides{of->queries.count, of->queries.count}",
    ),
    Mutation(
        "schedule: blocks of keys by the most keys",
        SCHEDULE,
        "Sides{of->keys.count, of->queries.count}",
        "Sides{of->keys.count, of->keys.count}",
    ),
    Mutation(
        "schedule: the first order alone", SCHEDULE, "args.order[blockIdx.x]", "args.order[0]"
    ),
    Mutation(
        "schedule: heads of the walk", SCHEDULE, "blocks * order->heads", "blocks * order->sharing"
    ),
    Mutation("schedule: the ticket is not set back", SCHEDULE, "    *args.ticket = 0;", "    ;"),
    Mutation(
        "schedule: keys are not handed over",
        SCHEDULE,
        "      // All threads arrive and wait: hands over the keys.\n      __syncthreads();",
        "",
    ),
    Mutation(
        "schedule: queries of a batch of their own",
        SCHEDULE,
        "args.ragged.cu_seqlens_q != nullptr ? 0 : sequence",
        "0",
    ),
    Mutation("schedule: an index that is no batch", SCHEDULE, "max(of.k_batch, 0)", "0"),
    # ---- Splits at fixed places, sm90 ----
    Mutation(
        "fixed splits sm90: O of those before is forgotten",
        FIXED,
        "load_16_if(!first, kept + i * KEPT_THREADS, 0)",
        "load_16_if(false, kept + i * KEPT_THREADS, 0)",
    ),
    Mutation(
        "fixed splits sm90: lse of those before is forgotten",
        FIXED,
        "load_16_if(!first, kept, no_lse)",
        "load_16_if(false, kept, no_lse)",
    ),
    Mutation(
        "fixed splits sm90: lse of the split is kept",
        FIXED,
        "lse = {sums[0].lse, sums[1].lse, 0.0f, 0.0f};",
        "lse = {ends[0].lse, ends[1].lse, 0.0f, 0.0f};",
    ),
    Mutation(
        "fixed splits sm90: rows exchange their sums",
        FIXED,
        "before[i].z, o[2]",
        "before[i].x, o[2]",
    ),
    Mutation(
        "fixed splits sm90: sums that nobody asks for are kept",
        FIXED,
        "store_16_if(!last, kept + i",
        "store_16_if(true, kept + i",
        harmless="the next unit does not load them",
    ),
    Mutation(
        "fixed splits sm90: what is kept of groups of tiles is in one place",
        FIXED,
        "    kept += blocks * KEPT_TILES * KEPT_THREADS;\n",
        "",
        harmless="these head dims have one group",
    ),
    Mutation(
        "fixed splits sm90: threads keep sums in one place",
        FIXED,
        "const int thread = threadIdx.x - 128;",
        "const int thread = threadIdx.x / 2 - 64;",
    ),
    Mutation(
        "fixed splits sm90: parts in the place of the first",
        FIXED,
        "partial_row(fwd, unit->split, unit->sequence,",
        "partial_row(fwd, 0, unit->sequence,",
    ),
    Mutation(
        "fixed splits sm90: the last is left out",
        UNITS,
        "(split + 1) * fixed < blocks.end",
        "(split + 2) * fixed < blocks.end",
    ),
    Mutation(
        "fixed splits sm90: those before a window are counted",
        UNITS,
        "sequences[at].first_split + unit->split",
        "sequences[at].first_split * 0 + unit->split",
    ),
    Mutation(
        "fixed splits sm90: the first split of all rows alike",
        UNITS,
        ": blocks.begin / fixed;",
        ": 0;",
    ),
    Mutation(
        "fixed splits sm90: Q again for each split",
        PRODUCER,
        "      if (unit->ends & FIRST_SPLIT)\n        load_q",
        "        load_q",
    ),
    Mutation(
        "fixed splits sm90: Q again for each split, of keys in pages",
        PRODUCER,
        "threadIdx.x % 32 == 0 && unit->ends & FIRST_SPLIT",
        "threadIdx.x % 32 == 0",
    ),
    Mutation(
        "fixed splits sm90: Q is handed back after the first split",
        SM90,
        '" && walk.unit.ends & LAST_SPLIT" if fixed_splits',
        '" && walk.unit.ends & FIRST_SPLIT" if fixed_splits',
    ),
    Mutation(
        "fixed splits sm90: Q is handed back where a split has no key that is seen",
        SM90,
        "if (has_keys && walk.unit.ends & LAST_SPLIT)",
        "if (has_keys)",
    ),
    Mutation(
        "fixed splits sm90: the ticket is lost",
        PRODUCER,
        "atomic_add(ragged->ticket, 1)",
        "atomic_add(ragged->ticket, 2)",
    ),
    Mutation(
        "fixed splits sm90: sinks are left out",
        FIXED,
        "  if (args->sinks == nullptr)\n    return {normalizer(sum), natural_lse(lse_log2, sum)};",
        "  if (true)\n    return {normalizer(sum), natural_lse(lse_log2, sum)};",
    ),
    Mutation(
        "schedule: the last split has no units",
        UNITS_OF,
        "split_keys) - first, 1)",
        "split_keys) - first - 1, 1)",
    ),
    Mutation(
        "schedule: a window of another sequence",
        UNITS_OF,
        "const int shift = center - score->window_center;",
        "const int shift = center;",
    ),
    Mutation(
        "combine: as many splits as the longest sequence has",
        COMBINE,
        "    args.num_splits = batch_args.sequence_splits[batch];",
        "    ;",
    ),
]
