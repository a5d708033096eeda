"""Single faults in the template of layer norm's long rows, which gangs of thread blocks share, and
the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

GANG = "templates/layernorm/layernorm_fwd_gang.cu.j2"
ROWS = "templates/layernorm/parts/gang_rows.cu.j2"
MARKS = "templates/layernorm/parts/gang_marks.cu.j2"

KERNELS = [
    ("layernorm_fwd_gang_cols8192_bf16_wbf16_sm90", "w19t256c16"),
    ("layernorm_fwd_split_cols8192_bf16_wbf16_sm90", "w15t256c16"),
    ("layernorm_fwd_split_cols8192_fp32_wfp32_sm90", "w15t256c16"),
    ("layernorm_fwd_gangsum_cols8192_bf16_wbf16_sm90", "w19t256c16"),
    ("layernorm_fwd_splitsum_cols8192_bf16_wfp32_sm90", "w15t256c16"),
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
        "gang forward: nor where moments are told",
        GANG,
        "    store_told(next->row[block][lane], 0, 0);\n",
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
        "gang forward: moments of the row before",
        GANG,
        "const int shift = shift_of(order, row_walk);",
        "const int shift = 0;",
    ),
    Mutation(
        "gang forward: blocks' means are taken for the row's",
        GANG,
        "all += value_of(squares[i]) + count.columns * off * off;",
        "all += value_of(squares[i]);",
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
        "gang forward: who hears does not wait for its own block",
        GANG,
        "      wait_for_phase(shared_address(&row->told), round / TURNS % 2);\n      row->all",
        "      row->all",
    ),
    Mutation(
        "gang forward: who tells does not say that it has read",
        GANG,
        "      mbarrier_arrive(shared_address(&row->known));\n    }\n  }\n}\n\n// Another one",
        "    }\n  }\n}\n\n// Another one",
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
        "gang forward: one row too many is sent",
        GANG,
        "min(rounds, round + 1 + ring->slots), next);",
        "min(rounds, round + 2 + ring->slots), next);",
    ),
    Mutation(
        "gang forward: a warp's part begins where the next one's does",
        GANG,
        "return warp * deal.each + min(warp, deal.more);",
        "return warp * deal.each + min(warp + 1, deal.more);",
    ),
    Mutation(
        "split forward: the vector beyond the matrix is read",
        GANG,
        "(part.all - part.beyond)",
        "part.all",
    ),
    Mutation(
        "split forward: what is not sent is not brought",
        GANG,
        "  if (lane == 1 && part.beyond)\n",
        "  if (false)\n",
    ),
    Mutation(
        "split forward: elements of the row before are added up",
        GANG,
        "choose_bits(mask_elements(part.shift), zero, vector_of_part(place, 0, part));",
        "vector_of_part(place, 0, part);",
    ),
    Mutation(
        "split forward: elements of the row behind are added up",
        GANG,
        "choose_bits(mask_elements(part.end), vector_of_part(place, part.all - 1, part), zero);",
        "vector_of_part(place, part.all - 1, part);",
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
        "split forward: what comes to the first lane is one element off",
        GANG,
        "share.begin * ELEMENTS - shift), words[i]);",
        "share.begin * ELEMENTS - shift - 1), words[i]);",
    ),
    Mutation(
        "split forward: a row's first vector is written as a whole",
        GANG,
        "const bool is_first = i == 0 && lane == 0 && part.begins;",
        "const bool is_first = false;",
    ),
    Mutation(
        "split forward: a row's last vector is written as a whole",
        GANG,
        "    else if (is_last)\n      ends[1] = y;\n    else if (i * 32 < part.left)",
        "    else if (is_last || i * 32 < part.left)",
    ),
    Mutation(
        "split forward: what is far from 0 is added up with others' elements",
        GANG,
        "const int from = first ? part.shift : 0, to = last ? part.end : ELEMENTS;",
        "const int from = 0, to = last ? part.end : ELEMENTS;",
    ),
    Mutation(
        "split forward: the last elements are left out",
        GANG,
        "(tail ? part.ends && lane - ELEMENTS < part.end",
        "(tail ? false",
    ),
    Mutation("gang forward: a residual is not waited for", GANG, "2 * bytes", "bytes"),
    Mutation(
        "gang forward: x in place of the residual of long rows",
        GANG,
        "place[part.apart + index]",
        "place[index]",
    ),
    Mutation(
        "split forward: y in place of a sum's ends",
        GANG,
        "load_element(ends + 2, SIZE, lane)",
        "load_element(ends, SIZE, lane)",
    ),
    Mutation(
        "split forward: the last vector of a matrix without its residual",
        GANG,
        "x, load_first_elements((const unsigned char *)args->residual + begin, part.end)",
        "x, load_first_elements((const unsigned char *)args->x + begin, part.end)",
    ),
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
        "split forward: a class ends a row early",
        ROWS,
        "const int count = (rows - first + order.period - 1) / order.period;",
        "const int count = (rows - first) / order.period;",
    ),
]
