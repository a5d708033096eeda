"""Faults in how sm90's kernels of batch-invariant calls gather keys in pages without boxes, for
mutate.py."""

from __future__ import annotations

from mutations import Mutation

SM90 = "templates/attention/flash_fwd_sm90.cu.j2"
PRODUCER = "templates/attention/parts/ragged_producer.cu.j2"

KERNELS = [
    ("flash_fwd_split_hdim72_bf16_causal_paged_ready_decode_sm90", "m8n48s3"),
    ("flash_fwd_split_hdim128_fp16_paged_ready_sm90", "m128n80s2"),
]
"""Slabs apart, the last one not whole, and slabs together; lanes that look up as many keys, or
not."""

MUTATIONS = [
    Mutation(
        "gather: numbers that are no page's",
        SM90,
        "clamped_page(ragged, gathering->entries[i]) *",
        "gathering->entries[i] *",
    ),
    Mutation(
        "gather: products may not see what was copied",
        SM90,
        "  fence_proxy_async(); // products see what the lane has copied\n",
        "",
    ),
    Mutation(
        "gather: a key block is handed over before all lanes have theirs",
        SM90,
        "  __syncwarp();\n  arrive_once(gathering->full);",
        "  arrive_once(gathering->full);",
    ),
    Mutation(
        "gather: a key block is handed over while it is under way",
        SM90,
        "  cp_async_wait(behind);",
        "  cp_async_wait(behind + 1);",
    ),
    Mutation(
        "gather: a wait keeps back the key block that is under way",
        SM90,
        "  if (gathering->full != 0 && ",
        "  if (false && ",
    ),
    Mutation(
        "gather: space is overwritten before it is handed back",
        SM90,
        "  wait_gathering(gathering, empty, parity);\n",
        "",
    ),
    Mutation("gather: no swizzle", SM90, "(chunk ^ row) * 16;", "chunk * 16;"),
    Mutation("gather: the swizzle of every second four keys", SM90, "(to ^ half * 64)", "to"),
    Mutation("gather: keys of the first half twice", SM90, "+ half * 4 + row)", "+ row)"),
    Mutation(
        "gather: a page of the key block before",
        SM90,
        "max(key - BLOCK_N, 0), table);",
        "key, table);",
    ),
    Mutation(
        "gather: columns past the head dim are another head's",
        SM90,
        "slab * 64 + chunk * 8 < columns ? 16 : 0",
        "true ? 16 : 0",
    ),
    Mutation(
        "gather: V by K's table",
        PRODUCER,
        "unit, n, ragged->ragged.page_table_v,\n",
        "unit, n, 0,\n",
    ),
    Mutation(
        "gather: the first V by K's table",
        PRODUCER,
        "                    ragged_args(args)->ragged.page_table_v);\n",
        "                    0);\n",
    ),
]
