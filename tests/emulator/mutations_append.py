"""Single faults in append's template and device headers, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

WRITE = "templates/append/append_write.cu.j2"
APPEND = "include/attnpress/device/append.cuh"
ROTARY = "include/attnpress/device/rotary.cuh"

KERNELS = [
    ("append_write_bf16_sm80", ""),
    ("append_write_fp32_sm80", ""),
]

MUTATIONS = [
    # ---- Places
    Mutation("append: a dense token's sequence", APPEND, "divide(number, &args->new_tokens)", "0"),
    Mutation(
        "append: the token before",
        APPEND,
        "cu_seqlens[middle] <= token",
        "cu_seqlens[middle] < token",
    ),
    Mutation(
        "append: the last sequence is not found", APPEND, "high = batch;", "high = batch - 1;"
    ),
    Mutation(
        "append: tokens behind the last sequence",
        APPEND,
        "&& number < args->cu_seqlens[token.sequence + 1]",
        "",
    ),
    Mutation(
        "append: tokens of a sequence from the front",
        APPEND,
        "token.index = number - begin",
        "token.index = number",
    ),
    Mutation(
        "append: tokens that the cache has",
        APPEND,
        "return used + token.index",
        "return token.index",
    ),
    Mutation(
        "append: rows in 32 bits", APPEND, "const int64_t used =", "const unsigned short used ="
    ),
    Mutation(
        "append: positions of other tokens",
        APPEND,
        "args->positions[token.number]",
        "args->positions[token.index]",
    ),
    Mutation(
        "append: slots of other tokens",
        APPEND,
        "args->slots[token.number]",
        "args->slots[token.index]",
    ),
    Mutation("append: a slot's row", APPEND, "row -= entry * args->entry_rows", "row -= 0"),
    Mutation(
        "append: negative slots",
        APPEND,
        "entry = row < 0 ? -1 : entry_of(row, args->entry_rows)",
        "entry = entry_of(row + 9, args->entry_rows)",
    ),
    Mutation(
        "append: the sequence is the entry",
        APPEND,
        "args->kv_batch_idx[token.sequence]",
        "token.sequence",
    ),
    Mutation("append: pages past the table", APPEND, "page >= 0 && page < pages", "page >= 0"),
    Mutation(
        "append: rows before the first page",
        APPEND,
        "page >= 0 && page < pages",
        "page < pages",
    ),
    Mutation(
        "append: pages of another sequence",
        APPEND,
        "int64_t first = sequence * args->page_table_stride",
        "int64_t first = 0",
    ),
    Mutation("append: the first page for all", APPEND, "table[first + page]", "table[first]"),
    Mutation(
        "append: V's pages are K's",
        APPEND,
        "which == ATTNPRESS_APPEND_V ? args->page_table_v : args->page_table",
        "args->page_table",
    ),
    Mutation("append: a flat table from its front", APPEND, "first = begin;", "first = 0;"),
    Mutation("append: pages behind the flat table's end", APPEND, "&& end <= args->pages ?", "?"),
    Mutation(
        "append: pages before the flat table", APPEND, "pages = begin >= 0 && end", "pages = end"
    ),
    Mutation(
        "append: the row of the table is the sequence's",
        APPEND,
        "first = row * args->page_table_stride",
        "first = sequence * args->page_table_stride",
    ),
    Mutation(
        "append: a row behind the table's last",
        APPEND,
        "row < args->table_rows ? pages",
        "true ? pages",
    ),
    Mutation(
        "append: q stands behind the first", APPEND, "    token.index = 0;", "    token.index += 0;"
    ),
    Mutation(
        "append: K stands at the first",
        APPEND,
        "which == ATTNPRESS_APPEND_Q && args->q_at_first",
        "args->q_at_first",
    ),
    Mutation(
        "append: first positions of another sequence",
        APPEND,
        "args->first_positions[token.sequence]",
        "args->first_positions[0]",
    ),
    Mutation("append: a page's row", APPEND, "row -= page * args->entry_rows", "row -= 0"),
    Mutation(
        "append: an entry behind the last",
        APPEND,
        "entry < args->entries",
        "entry <= args->entries",
    ),
    Mutation("append: an entry before the first", APPEND, "entry >= 0 && entry", "entry"),
    Mutation(
        "append: a row behind the last", APPEND, "row >= 0 && row < args->entry_rows", "row >= 0"
    ),
    Mutation(
        "append: a row before the first",
        APPEND,
        "row >= 0 && row < args->entry_rows",
        "row < args->entry_rows",
    ),
    # ---- Rows
    Mutation(
        "append: threads past the end",
        WRITE,
        "thread < (int64_t)args.tokens",
        "thread <= (int64_t)args.tokens",
    ),
    Mutation(
        "append: V is K",
        WRITE,
        "part -= args.rows[which++].threads",
        "part -= args.rows[which].threads",
    ),
    Mutation(
        "append: the first head for all", WRITE, "divide(part, &rows->head_threads)", "0 * part"
    ),
    Mutation("append: a token that is none", WRITE, "  if (!token.exists)\n    return;\n", ""),
    Mutation("append: q goes to the cache's place", WRITE, "which != ATTNPRESS_APPEND_Q", "true"),
    Mutation("append: a place that is none", WRITE, "  if (!place.exists)\n    return;\n", ""),
    Mutation("append: a negative position", WRITE, "position < 0 ||", ""),
    Mutation(
        "append: a position past the tables",
        WRITE,
        "position >= max(args.num_positions, 1)",
        "position > args.num_positions",
    ),
    Mutation(
        "append: entries in 32 bits",
        WRITE,
        "(place.entry * rows->to_batch",
        "((int)(place.entry * rows->to_batch)",
    ),
    Mutation("append: rows of the first token", WRITE, "token.row * rows->from_row", "0"),
    Mutation("append: heads where the row begins", WRITE, "head * rows->to_head", "0"),
    # ---- Rotation
    Mutation(
        "append: V is rotated",
        WRITE,
        "args.interleaved ? 0 : rows->rotary_dim / 2",
        "args.interleaved ? 0 : args.rows[1].rotary_dim / 2",
    ),
    Mutation(
        "append: columns that are not rotated",
        WRITE,
        "2 * half + (part - pairs)",
        "half + (part - pairs)",
    ),
    Mutation(
        "append: partners next door",
        WRITE,
        "load_span(from + half * SIZE",
        "load_span(from + SIZE",
    ),
    Mutation(
        "append: a vector over both halves",
        WRITE,
        "store_span(to, SIZE, column, paired ? half : rows->head_dim",
        "store_span(to, SIZE, column, rows->head_dim",
    ),
    Mutation(
        "append: sin is cos",
        WRITE,
        "load_rotary(args->sin, position, column, half",
        "load_rotary(args->cos, position, column, half",
    ),
    Mutation(
        "append: pairs counted as columns",
        WRITE,
        "load_rotary(args->cos, position, column / 2",
        "load_rotary(args->cos, position, column",
    ),
    Mutation(
        "append: neighbours that are not rotated",
        WRITE,
        "    if (column + i * (4 / SIZE) < rotary_dim)\n",
        "",
    ),
    Mutation(
        "append: the last neighbours stay",
        WRITE,
        "column + i * (4 / SIZE) < rotary_dim",
        "column + i * (4 / SIZE) + 2 < rotary_dim",
    ),
    Mutation(
        "append: the table's rows", WRITE, "position * args->rotary_stride", "position * columns"
    ),
    Mutation("append: the first position for all", WRITE, "position * args->rotary_stride", "0"),
    Mutation("append: tables are fp32", WRITE, "if (!args->rotary_fp32)", "if (false)"),
    Mutation(
        "append: turned the other way",
        ROTARY,
        "first * cos[i] - second * sin[i]",
        "first * cos[i] + second * sin[i]",
    ),
    Mutation(
        "append: the second by the first's new value",
        ROTARY,
        "second * cos[i] + first * sin[i]",
        "second * cos[i] + x[i * apart] * sin[i]",
    ),
]
