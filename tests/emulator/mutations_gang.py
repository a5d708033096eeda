"""Single faults in the template of layer norm's gradients of long rows, which gangs of thread
blocks share, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

GANG = "templates/layernorm/layernorm_bwd_gang.cu.j2"

KERNELS = [
    ("layernorm_bwd_gang_cols8192_bf16_wbf16_sm90", "w10t256c8"),
    ("layernorm_bwd_split_cols8192_bf16_wbf16_sm90", "w10t256c8"),
    ("layernorm_bwd_split_cols4096_fp32_wfp32_sm90", "w10t256c8"),
]
"""Rows that are whole vectors, and rows that begin anywhere, of either size of an element."""

MUTATIONS = [
    Mutation(
        "gang: what was told of an earlier row is taken",
        GANG,
        "return (uint32_t)(word >> 32) == (uint32_t)(round + 1);",
        "return (uint32_t)(word >> 32) != 0;",
    ),
    Mutation(
        "gang: the first block tells for all",
        GANG,
        "store_told(told_of(args, place, round, place.rank),",
        "store_told(told_of(args, place, round, 0),",
    ),
    Mutation(
        "gang: a listener does not wait for its own block",
        GANG,
        "    wait_for_phase(shared_address(&sums[until % TURNS].told), until / TURNS % 2);\n",
        "",
    ),
    Mutation(
        "gang: who tells does not say that it has read",
        GANG,
        "      mbarrier_arrive(shared_address(&row->known));\n    }\n  }\n}\n\n// Another one",
        "    }\n  }\n}\n\n// Another one",
    ),
    Mutation(
        "gang: a warp's lanes have not read when it says so",
        GANG,
        "    // All lanes arrive and wait: they have read what the warps told.\n"
        "    __syncwarp();\n",
        "",
    ),
    Mutation(
        "gang: a row's place is taken while lanes read it",
        GANG,
        "    // All lanes arrive and wait: they have read the row. Another takes its place.\n"
        "    __syncwarp();\n",
        "",
    ),
    Mutation(
        "gang: as many bytes as of two matrices are awaited",
        GANG,
        "mbarrier_arrive_expect(barrier, bytes * ring->matrices);",
        "mbarrier_arrive_expect(barrier, bytes * 2);",
    ),
    Mutation(
        "gang: a warp's part begins where the next one's does",
        GANG,
        "const int begin = number * (all / warps) + min(number, more);",
        "const int begin = number * (all / warps) + min(number + 1, more);",
    ),
    Mutation(
        "gang: rows are as many ahead as the ring has places",
        GANG,
        "const int ahead = min(max(slots - (slots < 5 ? 1 : 2), 1), AHEAD_MAX);",
        "const int ahead = min(slots, AHEAD_MAX + 2);",
    ),
    Mutation(
        "gang: moments of the row before",
        GANG,
        "    moments = next_moments;\n",
        "",
    ),
    Mutation(
        "split: the vector beyond the matrix is read",
        GANG,
        "const int bytes = (vectors_of(share, shift) - (walk.row == share.cut_row)) * 16;",
        "const int bytes = vectors_of(share, shift) * 16;",
    ),
    Mutation(
        "split: sums of a class stay where the one before had them",
        GANG,
        "      move_words(weight);\n      move_values(weight_sum);",
        "      move_words(weight);",
    ),
    Mutation(
        "split: weights of rows that are added up stay",
        GANG,
        "        move_words(later_weight);\n",
        "        later_weight[0][0] ^= 0;\n",
    ),
    Mutation(
        "split: the last element of a vector does not go to the next lane",
        GANG,
        "(lane + 31) % 32);\n    float last",
        "lane);\n    float last",
    ),
    Mutation(
        "split: the last lane's does not go to the first one's next vector",
        GANG,
        "    float last = lane == 0 ? before : given;",
        "    float last = given;",
    ),
    Mutation(
        "split: a class ends a row early",
        GANG,
        "const int count = (rows - first + order.period - 1) / order.period;",
        "const int count = (rows - first) / order.period;",
    ),
    Mutation(
        "split: classes begin at the wrong row",
        GANG,
        "walk.row = walk.number * order.second % order.period;",
        "walk.row = walk.number;",
    ),
    Mutation(
        "split: elements behind a part are taken",
        GANG,
        "count > 0 && index >= count)",
        "count > 0 && index > count)",
    ),
    Mutation(
        "split: a part's first vector is written as a whole",
        GANG,
        "const bool first = i == 0 && lane == 0 && own.shift != 0;",
        "const bool first = false;",
    ),
    Mutation(
        "split: a part's last vector is written as a whole",
        GANG,
        "const bool last = own.end != 0 && own.vectors == i * 32 + 1;",
        "const bool last = false;",
    ),
    Mutation(
        "split: the last elements are left out",
        GANG,
        "(tail ? own.end != 0 && (own.all > 1 || own.shift == 0) : own.shift != 0)",
        "(tail ? false : own.shift != 0)",
    ),
    Mutation(
        "split: what lanes have written to a place is not ordered before the copy engine",
        GANG,
        "  fence_proxy_async();\n",
        "",
    ),
    Mutation(
        "split: the vector that is not sent is not brought",
        GANG,
        "  if (walk.row == share.cut_row) {",
        "  if (walk.row == share.cut_row && share.begin == 0) {",
    ),
    Mutation(
        "split: sums are a vector off",
        GANG,
        "const int other = (index * 32 - 1) * ELEMENTS + j * 32 + lane;",
        "const int other = index * 32 * ELEMENTS + j * 32 + lane;",
    ),
]
