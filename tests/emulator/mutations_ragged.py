"""Faults in where sequences lie, for mutate.py."""

from __future__ import annotations

from mutations import ADD_SPLITS, COMBINE, Mutation

SEQUENCE = "include/attnpress/device/sequence.cuh"
DECODE = "templates/attention/flash_fwd_decode_sm80.cu.j2"
RING = "templates/attention/parts/key_ring.cu.j2"
SM80 = "templates/attention/flash_fwd_sm80.cu.j2"
EPILOGUE = "include/attnpress/device/epilogue.cuh"
ROWS = "templates/attention/parts/tile_rows.cu.j2"
SM90 = "templates/attention/flash_fwd_sm90.cu.j2"
UNITS = "templates/attention/parts/ragged_units.cu.j2"
PRODUCER = "templates/attention/parts/ragged_producer.cu.j2"
SCHEDULE = "templates/attention/flash_fwd_schedule.cu.j2"

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
]
"""Both places of the keys in both kinds of kernels, split and not; one slab of V and several; of
sm90, one to three consumers."""

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
        ADD_SPLITS,
        "(rows.begin + position) * args->out_row_stride",
        "position * args->out_row_stride",
    ),
    Mutation(
        "ragged: the sum's lse goes to the first sequence",
        ADD_SPLITS,
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
        ADD_SPLITS,
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
        ADD_SPLITS,
        "split < args->num_splits; ++split) {\n    const int64_t partial",
        "split < args->num_splits - 1; ++split) {\n    const int64_t partial",
    ),
    Mutation(
        "fixed splits: the combine kernel's groups",
        ADD_SPLITS,
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
    ),
    Mutation(
        "ragged sm90: a unit is computed twice",
        PRODUCER,
        "(int)(gridDim.x + atomic_add",
        "(int)(gridDim.x - 1 + atomic_add",
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
    ),
    Mutation(
        "ragged sm90: the unit of the sequence before",
        UNITS,
        "first_unit[next] <= number",
        "first_unit[next] < number",
    ),
    Mutation(
        "ragged sm90: the last section has as many heads",
        UNITS,
        "min(section_heads, args->tile_heads.value - first_head)",
        "section_heads",
    ),
    Mutation(
        "ragged sm90: sections begin with head 0",
        UNITS,
        "unit->tile_head = first_head + of_section",
        "unit->tile_head = of_section",
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
        "slab * KEY_SLAB_BYTES + first * 128",
        "slab * KEY_SLAB_BYTES",
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
        "find_box(args, unit, n, ragged_args(args)->ragged.page_table_v)",
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
        "pages sm90: a unit is handed back while lanes read it",
        PRODUCER,
        "    __syncwarp();\n    arrive_once(unit_empty(place.index));\n//% else",
        "    arrive_once(unit_empty(place.index));\n//% else",
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
        "ceil_div(of.queries.count, args.positions)",
        "of.queries.count / args.positions",
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
]
