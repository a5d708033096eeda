"""Faults in kernels of runs whose thread blocks have all heads of a key, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

RUNS = "templates/attention/flash_fwd_runs_sm90.cu.j2"
PARTS = "templates/attention/parts/runs.cu.j2"

KERNELS = [
    ("flash_fwd_split_hdim64_bf16_paged_decode_runs_sm90", ""),
    ("flash_fwd_split_hdim64_fp16_ragged_decode_runs_sm90", ""),
]

MUTATIONS = [
    Mutation(
        "runs of keys: K is read before it is there",
        RUNS,
        "wait_for_phase(shared_address(&loaded[slot]), stage->parity);",
        "",
    ),
    Mutation(
        "runs of keys: V is read before it is there",
        RUNS,
        "wait_for_phase(shared_address(&loaded[slot]), stage->parity);",
        "",
        place=2,
    ),
    Mutation(
        "runs of keys: a slot is filled before it was read",
        RUNS,
        "wait_for_phase(shared_address(&freed[slot.index]), slot.parity);",
        "",
    ),
    Mutation(
        "runs of keys: K's slot is freed before all lanes have read it",
        RUNS,
        "  // All lanes arrive and wait: K has been read.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "runs of keys: V's slot is freed before all lanes have read it",
        RUNS,
        "  // All lanes arrive and wait: V has been read.\n  __syncwarp();\n",
        "",
    ),
    Mutation(
        "runs of keys: copies arrive before they have begun",
        RUNS,
        "cp_async_arrive(shared_address(&loaded[slot.index]));",
        "mbarrier_arrive(shared_address(&loaded[slot.index]));",
    ),
    Mutation(
        "runs of keys: keys past the end are counted",
        RUNS,
        "% 2 >= keys)",
        "% 2 > keys)",
    ),
    Mutation(
        "runs of keys: keys past the end are what lies there",
        RUNS,
        "i < keys ? 16 : 0",
        "16",
        harmless="it is the last key once more, whose scores are masked",
    ),
    Mutation(
        "runs of keys: half of the heads have the others' keys",
        RUNS,
        "row + head * head_stride",
        "row",
    ),
    Mutation(
        "runs of keys: K's offsets are V's",
        RUNS,
        "of_values ? v_offset : k_offset",
        "v_offset",
    ),
    Mutation(
        "runs of keys: V's pages are K's",
        RUNS,
        "place.page + batch->ragged.page_table_v",
        "place.page",
    ),
    Mutation(
        "runs of keys: a window begins where the one before did",
        RUNS,
        "  next.block += WINDOW_BLOCKS;\n",
        "",
    ),
    Mutation(
        "runs of keys: O stays where the reference moves",
        RUNS,
        "sums->out[i] *= i % 2 ? factors.y : factors.x;",
        ";",
    ),
    Mutation(
        "runs of keys: the sink of a sequence of one part is forgotten",
        RUNS,
        "head, false, false),\n                valid);",
        "head, false, true),\n                valid);",
    ),
    Mutation(
        "runs of keys: the next part has this one's Q",
        RUNS,
        "    query = next_query;\n",
        "",
    ),
    Mutation(
        "runs of keys: heads count together",
        RUNS,
        "* batch.fwd.heads_kv + kv_head",
        "* batch.fwd.heads_kv",
    ),
    Mutation(
        "runs of keys: a part is counted before all lanes have stored it",
        RUNS,
        "      // All lanes arrive and wait: hands the part over to the one that counts it.\n"
        "      __syncwarp();\n",
        "",
    ),
    Mutation(
        "runs of keys: not all lanes know of the other runs' parts",
        RUNS,
        "      // All lanes arrive and wait: hands over the other runs' parts.\n"
        "      __syncwarp();\n",
        "",
    ),
    Mutation(
        "runs of keys: the last part counts twice",
        RUNS,
        "lse[i] = first + i < cut.parts ? lse[i] : -INF;",
        "",
    ),
    Mutation(
        "runs of keys: two parts of a run in one place",
        RUNS,
        "((begins ? args->runs : 0) + run) *",
        "run *",
        harmless="blocks come in order: the first part is added up before the last is stored",
    ),
    Mutation(
        "runs of keys: the rows of a part change places",
        RUNS,
        "out[i * 4] * factors.x, out[i * 4 + 1] * factors.y",
        "out[i * 4] * factors.y, out[i * 4 + 1] * factors.x",
    ),
    Mutation(
        "runs of keys: parts of odd rows have the weights of even ones",
        RUNS,
        "total.out[j * 4 + 3] += weights.y",
        "total.out[j * 4 + 3] += weights.x",
    ),
    Mutation(
        "runs of keys: lanes store each other's words",
        RUNS,
        "upper ? word[i] : word[i + bit]",
        "upper ? word[i + bit] : word[i]",
    ),
    Mutation(
        "runs of keys: odd rows have the O of even ones",
        RUNS,
        "odd ? of_odd : of_even",
        "of_even",
    ),
    Mutation(
        "runs of keys: lengths are what they were guessed to be",
        RUNS,
        "if (!key_count_alone || !guess_holds(&batch)) {",
        "if (!key_count_alone) {",
    ),
    Mutation(
        "runs of keys: where the guess was wrong keys are those of it",
        RUNS,
        "    if (warp >= HEADS)\n"
        "      window = open_part(&given, &window_walk, key_count_alone);\n",
        "",
    ),
    Mutation(
        "runs of keys: a sequence that begins in a run before is that run's alone",
        PARTS,
        "begin_of_run(shares, first + 1) - before, blocks) == 0)",
        "begin_of_run(shares, first + 1) - before, blocks) < 0)",
    ),
]
