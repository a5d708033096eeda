"""Single faults in the template of layer norm's gradients of long rows, which gangs of thread
blocks share, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

GANG = "templates/layernorm/layernorm_bwd_gang.cu.j2"
MARKS = "templates/layernorm/parts/gang_marks.cu.j2"

KERNELS = [
    ("layernorm_bwd_gang_cols8192_bf16_wbf16_sm90", "w10t256c8"),
    ("layernorm_bwd_split_cols8192_bf16_wbf16_sm90", "w12t256c8"),
    ("layernorm_bwd_split_cols8192_bf16_wfp32_sm90", "w12t256c8"),
    ("layernorm_bwd_split_cols10240_bf16_wbf16_sm90", "w12t256c8"),
    ("layernorm_bwd_split_cols4096_fp32_wfp32_sm90", "w10t256c8"),
]
"""Rows that are whole vectors, and rows that begin anywhere, of either size of an element and of a
weight's."""

MUTATIONS = [
    Mutation(
        "gang: shared weights stay", GANG, "    put_shared_words(word, i, shared);\n", "    ;\n"
    ),
    Mutation(
        "gang: shared weights come from the lane before",
        GANG,
        "last = lane == 0 ? before : given",
        "last = given",
    ),
    Mutation(
        "gang: shared weights of a vector are the first one's",
        GANG,
        "from[(index * WORDS + j) * 8]",
        "from[j * 8]",
    ),
    Mutation(
        "gang: what was told of an earlier row is taken",
        MARKS,
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
        "    wait_for_phase(shared_address(&sums[(uint32_t)until % TURNS].told),\n"
        "                   (uint32_t)until / TURNS % 2);\n",
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
        "      // All lanes arrive and wait: they have read the row. Another takes its place.\n"
        "      __syncwarp();\n",
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
        "    walk = next_row(args, order, place, share, walk);\n",
        "",
    ),
    Mutation(
        "split: who has no columns keeps its registers",
        GANG,
        "    decrease_registers(56);\n",
        "",
    ),
    Mutation(
        "gang: vectors that come late are those that came early",
        GANG,
        "load_row(place, ring, i + EARLY, vectors, vector[i + EARLY]);",
        "load_row(place, ring, i, vectors, vector[i + EARLY]);",
    ),
    Mutation(
        "split: a warp's vectors are read as if it had all",
        GANG,
        "  return load_shared_16_if(index * 32 < vectors, from + index * 512);\n",
        "  return load_shared_16_if(true, from + index * 512);\n",
    ),
    Mutation(
        "split: the vector beyond the matrix is read",
        GANG,
        "const int bytes = (walk.vectors - (walk.row == share.cut_row)) * 16;",
        "const int bytes = walk.vectors * 16;",
    ),
    Mutation(
        "split: sums of a class stay where the one before had them",
        GANG,
        "        move_words(weight, coming[warp][shift]);\n        move_values(weight_sum);",
        "        move_words(weight, coming[warp][shift]);",
    ),
    Mutation(
        "split: weights of rows that are added up stay",
        GANG,
        "        move_words(later_weight, coming[warp][later_shift]);\n",
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
        "    row = (order.first + number * order.second) % order.period;",
        "    row = number;",
    ),
    Mutation(
        "split: the first class begins with the first row",
        GANG,
        "(order.first + number * order.second) % order.period",
        "number * order.second % order.period",
        0,
    ),
    Mutation(
        "split: the matrix begins with a vector",
        GANG,
        "((uint64_t)args->x / SIZE + row * args->x_row_stride)",
        "(uint64_t)(row * args->x_row_stride)",
    ),
    Mutation(
        "split: elements before a row are taken",
        GANG,
        "% 2 == 0 && index < walk.first)",
        "% 2 == 0 && index + 1 < walk.first)",
    ),
    Mutation(
        "split: elements behind a row are taken",
        GANG,
        "walk.end > 0 && index >= walk.end)",
        "walk.end > 0 && index > walk.end)",
    ),
    Mutation(
        "split: a row's first vector is written as a whole",
        GANG,
        "const bool first = i == 0 && walk.first > 0 && lane == 0;",
        "const bool first = false;",
    ),
    Mutation(
        "split: a row's last vector is written as a whole",
        GANG,
        "if (i * 32 < vectors - (walk.end > 0) && !first)",
        "if (i * 32 < vectors && !first)",
    ),
    Mutation(
        "split: the last elements are left out",
        GANG,
        "(tail ? lane - ELEMENTS < walk.end : walk.first > 0",
        "(tail ? false : walk.first > 0",
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
        "const int first = (i * 32 + lane) * ELEMENTS + shift;",
        "const int first = (i * 32 + lane + 1) * ELEMENTS + shift;",
    ),
    Mutation(
        "split: a row's ends do without more vectors than others have room for",
        GANG,
        "return min((warps * most - all) / 2, FEWER);",
        "return FEWER;",
    ),
    Mutation(
        "split: columns that come have no weight",
        GANG,
        "coming[warp][lane] = load_coming(&args, share);",
        "coming[warp][lane] = 0;",
    ),
    Mutation(
        "split: the sums of columns that have gone are not given back",
        GANG,
        "    at[0] += more.x;\n",
        "    at[0] += 0.0f * more.x;\n",
    ),
    Mutation(
        "split: a block adds its own sums, not the next one's",
        GANG,
        "load_told(sums_of(args, place, place.rank + 1, lane), &sum, &dot);",
        "load_told(sums_of(args, place, place.rank, lane), &sum, &dot);",
    ),
    Mutation(
        "split: sums are added before the next warp has them",
        GANG,
        "  named_barrier_sync(1, ROW_THREADS);\n",
        "",
    ),
    Mutation(
        "split: sums are read before they are added",
        GANG,
        "  // All lanes arrive and wait: the warp's columns are there, from element `shift` on.\n"
        "  __syncwarp();\n",
        "",
    ),
    Mutation(
        "split: a warp begins a vector late",
        GANG,
        "const int begin = max(first, 0);",
        "const int begin = max(first + 1, 0);",
    ),
    Mutation(
        "gang: others are asked before all of them have zeros",
        GANG,
        "    while (!grid_has_come(arrived))\n      ;\n",
        "    (void)arrived;\n",
    ),
    Mutation(
        "gang: what an earlier call has left stays",
        GANG,
        "    clear_told(&args, place);\n",
        "    if (0)\n      clear_told(&args, place);\n",
    ),
    Mutation(
        "gang: a row is written before all have told of it",
        GANG,
        "      wait_for_phase(turn + KNOWN_BYTE, (uint32_t)round / TURNS % 2);\n",
        "",
    ),
    Mutation(
        "gang: a row is sent to a place that is not free",
        GANG,
        "if (round >= 0 || sent < ring.slots) {",
        "if (round >= 0 || sent <= ring.slots) {",
    ),
]
