"""Faults where K has two places, and the next key block's comes under the walk before."""

from __future__ import annotations

from mutations import Mutation

SM90 = "templates/attention/flash_bwd_sm90.cu.j2"
WALK = "templates/attention/parts/key_walk_sm90.cu.j2"

KERNELS = [
    ("flash_bwd_hdim128_bf16_ragged_runs_sm90", "m64n128s2d8"),
    ("flash_bwd_hdim104_fp16_causal_ragged_runs_sm90", "m64n128s2d8"),
]
"""Units of one key block, and of several."""


def of(name: str, file: str, old: str, new: str) -> Mutation:
    return Mutation(f"bwd keys: {name}", file, old, new)


V_READ = "        arrive_once(values_read());\n"
K_READ = "    arrive_once(keys_read(keys_place));\n"

MUTATIONS = [
    of(
        "one place of K",
        WALK,
        "const uint32_t keys = shared + place * KEYS_OFFSET;",
        "const uint32_t keys = shared;",
    ),
    of(
        "K of the other place",
        SM90,
        "const uint32_t keys = shared + keys_place * KEYS_OFFSET;",
        "const uint32_t keys = shared + (keys_place ^ 1) * KEYS_OFFSET;",
    ),
    of(
        "the place of K is in that of dQ",
        SM90,
        "constexpr int ROWS_OFFSET = KEYS_OFFSET + K_SLABS * KEY_SLAB_BYTES;",
        "constexpr int ROWS_OFFSET = KEYS_OFFSET;",
    ),
    of(
        "nobody waits for K",
        SM90,
        "    wait_for_phase(keys_there(keys_place), work->before.keys / 2 % 2);\n",
        "    ;\n",
    ),
    of(
        "K of the unit before last",
        SM90,
        "wait_for_phase(keys_there(keys_place), work->before.keys / 2 % 2)",
        "wait_for_phase(keys_there(keys_place), work->before.keys / 2 % 2 ^ 1)",
    ),
    of(
        "K comes a unit late",
        WALK,
        "wait_for_phase(keys_read(place), work->before.keys / 2 % 2 ^ 1)",
        "wait_for_phase(keys_read(place), work->before.keys / 2 % 2)",
    ),
    of(
        "V is overwritten",
        WALK,
        "    wait_for_phase(values_read(), work->before.keys % 2 ^ 1);\n",
        "",
    ),
    of(
        "V is handed over in each step",
        SM90,
        "    if (n == work->steps - 1)\n      arrive_once(values_read());",
        "    if (true)\n      arrive_once(values_read());",
    ),
    of(
        "V is handed over a step early",
        SM90,
        "    if (n == work->steps - 1)\n      arrive_once(values_read());",
        "    if (n == max(0, work->steps - 2))\n      arrive_once(values_read());",
    ),
    of("a consumer without keys keeps V", SM90, V_READ, "        ;\n"),
    of("K is kept", SM90, K_READ, ""),
    of(
        "four warps have read K",
        SM90,
        "mbarrier_init(keys_read(place), 4 * CONSUMERS);",
        "mbarrier_init(keys_read(place), 4);",
    ),
    of(
        "four warps have read V",
        SM90,
        "mbarrier_init(values_read(), 4 * CONSUMERS);",
        "mbarrier_init(values_read(), 4);",
    ),
    of(
        "zeros in the other place of K",
        WALK,
        "clear_rows(smem + place * KEYS_OFFSET, K_SLABS",
        "clear_rows(smem + (place ^ 1) * KEYS_OFFSET, K_SLABS",
    ),
    of(
        "no zeros behind K",
        WALK,
        "  clear_rows(smem + place * KEYS_OFFSET, K_SLABS, BLOCK_N, valid);\n",
        "",
    ),
    of(
        "no zeros behind V",
        WALK,
        "    if (n == 0)\n      clear_values(smem, shared, work, parities);\n",
        "",
    ),
    of(
        "tails of K have one barrier",
        WALK,
        "tail_barriers[place ? 2 + STAGES : 0]",
        "tail_barriers[0]",
    ),
    of(
        "tails of K and V share a bit",
        WALK,
        "  *parities ^= 1u << (STAGES + 2);\n",
        "  *parities ^= 1u << STAGES;\n",
    ),
]
