"""Single faults in the template of layer norm's long rows, which gangs of thread blocks share, and
the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

GANG = "templates/layernorm/layernorm_fwd_gang.cu.j2"
ROWS = "templates/layernorm/parts/gang_rows.cu.j2"
MARKS = "templates/layernorm/parts/gang_marks.cu.j2"

KERNELS = [
    ("layernorm_fwd_gang_cols16384_bf16_wbf16_sm90", "w14t256c8"),
    ("layernorm_fwd_split_cols16384_bf16_wbf16_sm90", "w16t256c8"),
    ("layernorm_fwd_split_cols10240_fp32_wfp32_sm90", "w16t256c8"),
    ("layernorm_fwd_gang_cols8192_bf16_wfp32_sm90", "w19t256c8"),
    ("layernorm_fwd_gangsum_cols8192_bf16_wbf16_sm90", "w14t256c8"),
    ("layernorm_fwd_splitsum_cols8192_bf16_wfp32_sm90", "w15t256c8"),
]
"""Rows that are whole vectors, and rows that begin anywhere, of either size of an element; with a
residual, and with parameters of another size."""

MUTATIONS = [
    Mutation(
        "gang forward: what was told of an earlier row is taken",
        MARKS,
        "return (uint32_t)(word >> 32) == (uint32_t)(round + 1);",
        "return (uint32_t)(word >> 32) != 0;",
    ),
    Mutation(
        "gang forward: a launch tells where the one before did",
        GANG,
        "Told *const told = &memory->told[own_turn];",
        "Told *const told = &memory->told[(own_turn + LAUNCHES - 1) % LAUNCHES];",
    ),
    Mutation(
        "gang forward: the next launch does not find zeros where blocks tell",
        GANG,
        "    store_told(next->part[lane][block], 0, 0);\n",
        "",
    ),
    Mutation(
        "gang forward: the turn stays",
        GANG,
        "store_told(memory->turn[block], (turn + 1) % LAUNCHES, 0);",
        "store_told(memory->turn[block], turn % LAUNCHES, 0);",
    ),
    Mutation(
        "gang forward: the first block tells for all",
        GANG,
        "place.gang * place.blocks + place.rank],",
        "place.gang * place.blocks],",
    ),
    Mutation(
        "gang forward: blocks' means are taken for the row's",
        GANG,
        "} + count.columns * off * off;",
        "};",
    ),
    Mutation(
        "gang forward: warps' means are taken for the block's",
        GANG,
        "sum_lanes(part.y + own.columns * off * off, ROW_WARPS);",
        "sum_lanes(part.y, ROW_WARPS);",
    ),
    Mutation(
        "gang forward: squares hide what values differ by",
        GANG,
        "if (!(all.x * mean <= FAR * squares)) {",
        "if (false) {",
    ),
    Mutation(
        "gang forward: who tells does not say that it has read",
        GANG,
        "      mbarrier_arrive(shared_address(&row->known));\n    }\n  }\n}\n\n//% if m",
        "    }\n  }\n}\n\n//% if m",
    ),
    Mutation(
        "gang forward: a warp's lanes have not read when it says so",
        GANG,
        "    // All lanes arrive and wait: they have read what the warps told.\n"
        "    __syncwarp();\n",
        "",
    ),
    Mutation(
        "gang forward: lanes still add up when their warp tells",
        GANG,
        "  // All lanes arrive and wait: they have read the row.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "gang forward: a row's place is taken while lanes read it",
        GANG,
        "    // All lanes arrive and wait: they have read the row. Another takes its place.\n"
        "    __syncwarp();\n",
        "",
    ),
    Mutation(
        "split forward: a warp's part begins where the next one's does",
        GANG,
        "return warp * deal.each + min(warp, deal.more);",
        "return warp * deal.each + min(warp + 1, deal.more);",
    ),
    Mutation(
        "gang forward: less than a line is dealt",
        GANG,
        "* UNIT, deal.vectors);",
        "* (UNIT - 1), deal.vectors);",
    ),
    Mutation(
        "gang forward: the last line is taken for a whole one",
        GANG,
        "return min((warp * deal.each + min(warp, deal.more)) * UNIT, deal.vectors);",
        "return (warp * deal.each + min(warp, deal.more)) * UNIT;",
    ),
    Mutation(
        "gang forward: a place has room for a vector of each line",
        GANG,
        "return (deal.each + (deal.more > 0)) * UNIT;",
        "return deal.each + (deal.more > 0);",
    ),
    Mutation(
        "gang forward: the last of the first rows is not sent",
        GANG,
        "for (int i = 0; next->sent < min(rounds, ring->slots); ++i) {",
        "for (int i = 0; next->sent < min(rounds, ring->slots) - 1; ++i) {",
    ),
    Mutation(
        "gang forward: a row more than there are places is sent at once",
        GANG,
        "for (int i = 0; next->sent < min(rounds, ring->slots); ++i) {",
        "for (int i = 0; next->sent <= min(rounds, ring->slots); ++i) {",
    ),
    Mutation(
        "gang forward: a row that has come is sent again",
        GANG,
        "    send_rows(args, order, place, share, ring, next->sent + 1, next);\n",
        "    send_rows(args, order, place, share, ring, next->sent + 1, next);\n"
        "    next->slot.index -= i == 1;\n",
    ),
    Mutation(
        "split forward: parameters of a class stay where the one before had them",
        GANG,
        "    for (; shift < shift_of(order, walk); ++shift) {",
        "    for (; shift < min(shift_of(order, walk), 1); ++shift) {",
    ),
    Mutation(
        "split forward: the last element of a vector does not go to the next lane",
        GANG,
        "word[i][WORDS - 1], (lane + 31) % 32);",
        "word[i][WORDS - 1], lane);",
    ),
    Mutation(
        "split forward: the last lane's does not go to the first one's next vector",
        GANG,
        "    before = given;\n",
        "",
    ),
    Mutation(
        "split forward: the warp that has nothing to do writes ends, too",
        GANG,
        "else if (warp == ROW_WARPS + ADDERS + MAKERS + 1 && place.rank == 0) {",
        "else if (place.rank == 0) {",
    ),
    Mutation(
        "split forward: a warpgroup keeps registers that another one takes",
        GANG,
        "  if (warp >= ROW_WARPS + ADDERS)\n    decrease_registers(${ other_registers });\n",
        "",
    ),
    Mutation("gang forward: a residual is not waited for", GANG, "2 * bytes", "bytes"),
    Mutation(
        "split forward: parameters of twice the size move on by less",
        GANG,
        "word[i][WORDS - 1], (lane + 31) % 32",
        "word[i][3], (lane + 31) % 32",
    ),
    Mutation(
        "gang forward: who has no rows waits for turns that have passed",
        GANG,
        "    while (told == (uint64_t)turn);",
        "    while (told != (uint64_t)turn);",
    ),
    Mutation(
        "gang forward: who makes moments does not wait for its own block",
        GANG,
        "    wait_for_phase(shared_address(&row->told), round / TURNS % 2);\n//% if asks_ahead\n",
        "//% if asks_ahead\n",
    ),
    Mutation(
        "gang forward: one block's part is left out of the moments",
        GANG,
        "i * 32 + lane < place.blocks ? 0 :",
        "i * 32 + lane < place.blocks - 1 ? 0 :",
    ),
    Mutation(
        "gang forward: moments are those of the first row",
        GANG,
        "      walk = next_row(args, order, place, walk);\n  }\n}\n\n// ---- A warp's ring",
        "      ;\n  }\n}\n\n// ---- A warp's ring",
    ),
    Mutation(
        "gang forward: who makes moments of every other row walks a row at a time",
        GANG,
        "    for (int i = 0; i < MAKERS; ++i)",
        "    for (int i = 0; i < 1; ++i)",
    ),
    Mutation(
        "gang forward: nobody writes what the backward pass needs",
        GANG,
        "if (place.rank == place.blocks - 1) {",
        "if (false) {",
    ),
    Mutation(
        "gang forward: moments are told before they are there",
        GANG,
        "      row->all = {mean, rstd};\n      mbarrier_arrive(shared_address(&row->known));",
        "      mbarrier_arrive(shared_address(&row->known));\n      row->all = {mean, rstd};",
    ),
    Mutation(
        "gang forward: a row's place is taken while there is none to send",
        GANG,
        "if (round < rounds - ring->slots) {",
        "if (round <= rounds - ring->slots) {",
    ),
    Mutation(
        "gang forward: a lane has a vector behind its warp's",
        GANG,
        "return index * 32 + (int)threadIdx.x % 32 < share.vectors;",
        "return index * 32 + (int)threadIdx.x % 32 <= share.vectors;",
    ),
    Mutation(
        "gang forward: vectors that are loaded later take others' place",
        GANG,
        "load_own(place, share, i + LOADED, 1, &x[i % LOADED]);",
        "load_own(place, share, i + LOADED, 1, &x[(i + 1) % LOADED]);",
    ),
    Mutation(
        "gang forward: x in place of the residual of long rows",
        GANG,
        "(share.apart + index) * 16",
        "index * 16",
    ),
    Mutation(
        "split forward: ends do not count as columns",
        GANG,
        "(rank == 0 ? ends_of(args) : 0)",
        "0",
    ),
    Mutation(
        "split forward: ends are not added up",
        GANG,
        'sum_lanes(part.x, ROW_WARPS)${ " + end_sum" if split else "" };',
        "sum_lanes(part.x, ROW_WARPS);",
    ),
    Mutation(
        "split forward: the ends' mean is taken for the block's",
        GANG,
        "(end_squares + end_count.columns * end_off * end_off);",
        "end_squares;",
    ),
    Mutation(
        "split forward: ends of the row before are added up",
        GANG,
        "    if (ends > 0) {\n      walk = next_row(args, order, place, walk);\n",
        "    if (ends > 0) {\n",
    ),
    Mutation(
        "split forward: the last of a row's first elements is another",
        GANG,
        "return lane < ELEMENTS - shift ? lane",
        "return lane < ELEMENTS - shift - 1 ? lane",
    ),
    Mutation(
        "split forward: ends behind the last row are read",
        GANG,
        "if ((int)threadIdx.x % 32 >= ends || row >= args->rows)",
        "if ((int)threadIdx.x % 32 >= ends)",
    ),
    Mutation(
        "split forward: ends keep the parameters of the first class",
        GANG,
        "if (loaded != shift && lane < ends) {",
        "if (loaded < 0 && lane < ends) {",
    ),
    Mutation(
        "split forward: who writes ends has not read when it says so",
        GANG,
        "    // All lanes arrive and wait: they have read the moments.\n    __syncwarp();\n",
        "",
    ),
    Mutation(
        "split forward: y in place of a sum's ends",
        GANG,
        "                    narrow_element_${ dtype }(value));",
        "                    narrow_element_${ dtype }(y));",
    ),
    Mutation(
        "split forward: x in place of the residual of ends",
        GANG,
        "load_element((const unsigned char *)args->residual + begin, SIZE, column));",
        "load_element((const unsigned char *)args->x + begin, SIZE, column));",
    ),
    Mutation(
        "split forward: what comes to the first lane is one element off",
        GANG,
        "share.begin * ELEMENTS - 1 - lane)",
        "share.begin * ELEMENTS - lane)",
    ),
    Mutation(
        "split forward: the same element comes to the first lane each time",
        GANG,
        "__shfl_sync(0xffffffff, coming[i], shift)",
        "__shfl_sync(0xffffffff, coming[i], 0)",
    ),
    Mutation(
        "split forward: a class ends a row early",
        ROWS,
        "(rows - first + order.period - 1) * order.apart",
        "(rows - first) * order.apart",
    ),
    Mutation(
        "split forward: a class begins at another one's row",
        ROWS,
        "    walk.row = walk.number * order.second & (order.period - 1);",
        "    walk.row = walk.number & (order.period - 1);",
    ),
]
