"""Single faults in the sm90 template's fragments of Q, and the kernels to see them."""

from __future__ import annotations

from mutations import FWD_PRODUCTS, Mutation

SM90 = "templates/attention/flash_fwd_sm90.cu.j2"

KERNELS = [
    ("flash_fwd_hdim128_bf16_causal_sm90", "m128n64s2q"),
    ("flash_fwd_hdim72_fp16_sm90", "m192n48s3q"),
    ("flash_fwd_split_hdim96_bf16_window_sm90", "m128n48s2q"),
]
"""One slab, and two of which the last is narrow; two and three consumers."""

MUTATIONS = [
    Mutation(
        "q fragments: Q is not waited for",
        FWD_PRODUCTS,
        "  wait_for_phase(q_full(shared, consumer), parity);\n  const int lane",
        "  const int lane",
    ),
    Mutation(
        "q fragments: handed back before it is read",
        FWD_PRODUCTS,
        "  // The copy engine hands over Q.\n  wait_for_phase(q_full(shared, consumer), parity);\n",
        "  // The copy engine hands over Q.\n  wait_for_phase(q_full(shared, consumer), parity);\n"
        "  arrive_once(q_empty(shared, consumer));\n",
    ),
    Mutation(
        "q fragments: handed back while they are under way",
        FWD_PRODUCTS,
        "((step % 4 * 2 + lane / 16) ^ row % 8) * 16);\n}",
        "((step % 4 * 2 + lane / 16) ^ row % 8) * 16);\n"
        "  __syncwarp();\n  arrive_once(q_empty(shared, consumer));\n}",
    ),
    Mutation(
        "q fragments: handed back with each key block",
        FWD_PRODUCTS,
        "  if (first_block)\n    arrive_once(q_empty(shared, consumer));",
        "  arrive_once(q_empty(shared, consumer));",
    ),
    Mutation(
        "q fragments: never handed back",
        FWD_PRODUCTS,
        "  if (first_block)\n    arrive_once(q_empty(shared, consumer)); //",
        "  //",
    ),
    Mutation(
        "q fragments: the first consumer's",
        FWD_PRODUCTS,
        "const uint32_t tile = shared + consumer * Q_BYTES + row * 128;",
        "const uint32_t tile = shared + row * 128;",
    ),
    Mutation(
        "q fragments: chunks are not swizzled",
        FWD_PRODUCTS,
        "((step % 4 * 2 + lane / 16) ^ row % 8) * 16",
        "(step % 4 * 2 + lane / 16) * 16",
    ),
    Mutation(
        "q fragments: one slab for all",
        FWD_PRODUCTS,
        "tile + step / 4 * Q_SLAB_BYTES +\n",
        "tile +\n",
    ),
    Mutation(
        "q fragments: the quarters of a fragment in another order",
        FWD_PRODUCTS,
        "row = threadIdx.x / 32 % 4 * 16 + lane % 16;\n  const uint32_t tile",
        "row = threadIdx.x / 32 % 4 * 16 + (lane + 8) % 16;\n  const uint32_t tile",
    ),
    Mutation(
        "q fragments: rows that heads leave over are not cleared",
        SM90,
        "  clear_other_rows(args, smem, consumer);\n",
        "",
    ),
    Mutation(
        "q fragments: rows that heads leave over and the first slab alone are cleared",
        FWD_PRODUCTS,
        "for (int chunk = lane / 16; chunk < K_SLABS * 8; chunk += 2)",
        "for (int chunk = lane / 16; chunk < 8; chunk += 2)",
    ),
    Mutation(
        "q fragments: of the unit before",
        SM90,
        "      load_q(q, shared, consumer, q_parity);\n      exchange_blocks",
        "      exchange_blocks",
    ),
    Mutation(
        "q fragments: without keys, Q is not waited for",
        SM90,
        "        wait_for_phase(q_full(shared, consumer), q_parity);\n"
        "        arrive_once(q_empty(shared, consumer));\n      }",
        "        arrive_once(q_empty(shared, consumer));\n      }",
    ),
]
