"""Single faults in the template of head dims above 256 on sm90, whose consumers share the columns
of O, and the kernels to see them."""

from __future__ import annotations

from mutations import Mutation

WIDE = "templates/attention/flash_fwd_wide_sm90.cu.j2"

KERNELS = [
    ("flash_fwd_hdim264_bf16_causal_sm90", "m64n32s2"),
    ("flash_fwd_split_hdim320_fp16_sm90", "m64n64s1"),
    ("flash_fwd_hdim512_bf16_causal_sm90", "m64n64s1"),
    ("flash_fwd_hdim320_fp16_sm90", "m64n48s2"),
]
"""Rings of one and of two key blocks, a narrow last slab, as many columns on either side and more
on the right."""

MUTATIONS = [
    Mutation(
        "wide: half of a slab's bytes are awaited",
        WIDE,
        "mbarrier_arrive_expect(full, SLAB_BYTES);",
        "mbarrier_arrive_expect(full, SLAB_BYTES / 2);",
    ),
    Mutation(
        "wide: K is not waited for by its producer",
        WIDE,
        "    wait_for_phase(k_empty(shared, stage->index, slab), stage->parity ^ 1);\n",
        "",
    ),
    Mutation(
        "wide: V is not waited for by its producer",
        WIDE,
        "    wait_for_phase(v_empty(shared, stage->index, side), stage->parity ^ 1);\n",
        "",
    ),
    Mutation(
        "wide: one side's barrier for both",
        WIDE,
        "const uint32_t full = v_full(shared, stage->index, side);",
        "const uint32_t full = v_full(shared, stage->index, 0);",
    ),
    Mutation(
        "wide: the left slabs are awaited on the right",
        WIDE,
        "mbarrier_arrive_expect(full, (end - begin) * SLAB_BYTES);",
        "mbarrier_arrive_expect(full, LEFT_SLABS * SLAB_BYTES);",
    ),
    Mutation(
        "wide: the place of P is not waited for",
        WIDE,
        "        wait_for_phase(p_empty(shared, p_place.index), p_place.parity ^ 1);\n",
        "",
    ),
    Mutation(
        "wide: the place of a unit's first P is not waited for",
        WIDE,
        "      wait_for_phase(p_empty(shared, p_place.index), p_place.parity ^ 1);\n      finish",
        "      finish",
    ),
    Mutation(
        "wide: P is handed over before it is written",
        WIDE,
        "  __syncwarp();\n  arrive_once(p_full(shared, place->index));\n",
        "  arrive_once(p_full(shared, place->index));\n",
    ),
    Mutation(
        "wide: P is handed back before it is read",
        WIDE,
        "      __syncwarp();\n      arrive_once(p_empty(shared, p_place.index));\n",
        "      arrive_once(p_empty(shared, p_place.index));\n",
    ),
    Mutation(
        "wide: P is not waited for",
        WIDE,
        "      wait_for_phase(p_full(shared, p_place.index), p_place.parity);\n",
        "",
    ),
    Mutation("wide: P stays in one place", WIDE, "  *place = next_stage(*place, PLACES);\n", ""),
    Mutation(
        "wide: fragments change places",
        WIDE,
        "target[step * 128] = uint4{p[step][0], p[step][1], p[step][2], p[step][3]};",
        "target[step * 128] = uint4{p[step][0], p[step][2], p[step][1], p[step][3]};",
    ),
    Mutation(
        "wide: the right columns are not rescaled",
        WIDE,
        "      rescale_rows(out, RIGHT / 8, rescale);\n",
        "",
    ),
    Mutation(
        "wide: the left columns are not rescaled",
        WIDE,
        "        rescale_rows(out, LEFT / 8, rescale);\n",
        "",
    ),
    Mutation(
        "wide: a row takes the other's factor",
        WIDE,
        "factors[8] = rescale[1]",
        "factors[8] = rescale[0]",
    ),
    Mutation(
        "wide: a row takes the other's end",
        WIDE,
        "ends[8] = normalize[1]",
        "ends[8] = normalize[0]",
    ),
    Mutation(
        "wide: the end is not waited for",
        WIDE,
        "      wait_for_phase(end_full(shared), end_parity);\n",
        "",
    ),
    Mutation(
        "wide: the end of the unit before may still be read",
        WIDE,
        "    wait_for_phase(end_empty(shared), *end_parity ^ 1);\n",
        "",
    ),
    Mutation(
        "wide: the end is handed over before it is written",
        WIDE,
        "    __syncwarp();\n    arrive_once(end_full(shared));\n",
        "    arrive_once(end_full(shared));\n",
    ),
    Mutation(
        "wide: the right columns are the left ones",
        WIDE,
        "wgmma_descriptor(shared + V_OFFSET + LEFT_SLABS * SLAB_BYTES, 1024, SLAB_BYTES)",
        "wgmma_descriptor(shared + V_OFFSET, 1024, SLAB_BYTES)",
    ),
    Mutation(
        "wide: the right columns are stored on the left",
        WIDE,
        "store_columns(out, RIGHT / 8, LEFT, half",
        "store_columns(out, RIGHT / 8, 0, half",
    ),
    Mutation(
        "wide: V of the left is not waited for",
        WIDE,
        "  wait_for_phase(v_full(shared, stage.index, 0), stage.parity);\n  wgmma_order",
        "  wgmma_order",
    ),
    Mutation(
        "wide: V of the right is not waited for",
        WIDE,
        "      wait_for_phase(v_full(shared, stage.index, 1), stage.parity);\n"
        "      const uint64_t v",
        "      const uint64_t v",
    ),
    Mutation(
        "wide: V of the right is handed back before its product",
        WIDE,
        "      wgmma_wait(0);\n      wgmma_order_n${ right }(out);\n",
        "      wgmma_order_n${ right }(out);\n",
    ),
    Mutation(
        "wide: a slab of K is handed back a product too early",
        WIDE,
        "wgmma_wait(K_SLABS - 1 - slab + pending);",
        "wgmma_wait(K_SLABS - slab + pending);",
    ),
    Mutation(
        "wide: K is not waited for",
        WIDE,
        "    wait_for_phase(k_full(shared, stage.index, slab), stage.parity);\n",
        "",
    ),
    Mutation(
        "wide: slabs of Q do not move on",
        WIDE,
        "q + (slab * Q_SLAB_BYTES + step % 4 * 32) / 16",
        "q + (step % 4 * 32) / 16",
    ),
    Mutation(
        "wide: Q is handed back a block too early",
        WIDE,
        "finish_scores(score, 1, shared, &k_stage, walk.n == walk.unit.blocks.begin)",
        "finish_scores(score, 1, shared, &k_stage, walk.n == walk.unit.blocks.begin + 1)",
        1,
    ),
    Mutation(
        "wide: a split's lse lies with another's",
        WIDE,
        "fwd->lse_partial[partial_row(fwd, unit->split,",
        "fwd->lse_partial[partial_row(fwd, 0,",
    ),
    Mutation(
        "wide: a split's output lies with another's",
        WIDE,
        "const int64_t partial = partial_row(fwd, unit->split,",
        "const int64_t partial = partial_row(fwd, 0,",
    ),
]
