"""Faults in what a caller's snippet does in the backward pass, for mutate.py. The emulator puts the
snippets' texts behind the sources, as functions of dual numbers (mutations_outer_snippets.py)."""

from __future__ import annotations

from mutations import Mutation

BWD = "templates/attention/flash_bwd_sm80.cu.j2"
PASS = "templates/attention/parts/snippet_bwd.cu.j2"
TRACE = "include/attnpress/device/score_trace.cuh"

KERNELS = [
    ("flash_bwd_hdim40_fp16_softcap_modscore_modmask_sm80", "m32n32w1x2a2d2s2c"),
    ("flash_bwd_dkv_hdim24_bf16_causal_modscore_modmask_sm80", "m32n32w1x2a2s2"),
    ("flash_bwd_dq_hdim24_fp16_modscore_modmask_sm80", "m32n32w2x1a2s2"),
    ("flash_bwd_dq_hdim40_bf16_causal_modmask_sm80", "m32n32w2x1a2s2"),
    ("flash_bwd_dkv_hdim40_fp16_modscore_sm80", "m32n64w1x2a2s2"),
    ("flash_bwd_dkv_hdim72_bf16_softcap_modscore_modmask_modgrad_sm80", "m32n64w1x2a2s2"),
    ("flash_bwd_dkv_hdim24_fp16_modscore_modgrad_sm86", "m32n32w1x2x2a2s1"),
]
"""Keys and queries as rows, with a derivative of what came before, the mask alone, and warps of two
row tiles, with a derivative of the caller's own; gradients of buffers, with warps of two row tiles,
and with warps that compute the same."""

MUTATIONS = [
    Mutation("bwd snippet: before the scale", PASS, "given * mod->natural_per_unit, ", "given, "),
    Mutation(
        "bwd snippet: the softcap has no derivative", PASS, '"1.0f - given * given" if', '"1.0f" if'
    ),
    Mutation(
        "bwd snippet: no softcap", PASS, "    cap_scores(score[m]", "    //cap_scores(score[m]"
    ),
    Mutation("bwd snippet: no derivative", BWD, "      multiply_slopes(grad[m], slope[m]);\n", ""),
    Mutation(
        "bwd snippet: derivatives of another row", BWD, "grad[m], slope[m]", "grad[m], slope[0]"
    ),
    Mutation(
        "bwd snippet: derivatives of a pair before",
        PASS,
        "snippet_chain(ds[i], slope[i])",
        "snippet_chain(ds[i], slope[i / 2 * 2])",
    ),
    Mutation("bwd snippet: query and key", PASS, '"column" if pass != ', '"row" if pass != '),
    Mutation("bwd snippet: rows are a tile late", PASS, "own + m * 16", "own + m * 8"),
    Mutation("bwd snippet: the lower half is the upper", PASS, "i % 4 / 2 * 8", "0"),
    Mutation("bwd snippet: columns are a pair late", PASS, "i / 4 * 8 + lane % 4 * 2", "i / 4 * 8"),
    Mutation(
        "bwd snippet: the key head is the query head",
        PASS,
        "head / (args->heads_q / args->heads_kv)",
        "head",
    ),
    Mutation(
        "bwd snippet: the mask keeps what it takes out",
        PASS,
        "if (!snippet_keeps",
        "if (snippet_keeps",
    ),
    Mutation(
        "bwd snippet: the mask is a key late",
        PASS,
        "snippet_keeps(mod, at, k,",
        "snippet_keeps(mod, at, k + 1,",
    ),
    Mutation(
        "bwd snippet: what is masked is 0", PASS, "score[m][i] = -INF;", "score[m][i] = 0.0f;"
    ),
    Mutation(
        "bwd snippet: of the first head of a group",
        BWD,
        '                  ${ "now.head" if owns_keys else "work.head" }, work.begin + own_row,',
        "                  first_head, work.begin + own_row,",
    ),
    # ---- The gradients of its buffers ----
    Mutation("bwd trace: the first read alone", PASS, "read < reads; ++read", "read < 1; ++read"),
    Mutation("bwd trace: a read too few", TRACE, "trace->count++ ==", "++trace->count =="),
    Mutation("bwd trace: no variable", TRACE, "is_variable ? 1.0f : 0.0f", "0.0f"),
    Mutation("bwd trace: every read", TRACE, "is_variable ? 1.0f : 0.0f", "1.0f"),
    Mutation(
        "bwd trace: places of the buffer itself",
        TRACE,
        "trace->gradients->buffer[buffer].stride[dim]",
        "mod->buffer[buffer].stride[dim]",
    ),
    Mutation(
        "bwd trace: an index that is not clamped",
        TRACE,
        "clampi(index, 0, mod->buffer[buffer].extent[dim] - 1)",
        "index",
    ),
    Mutation(
        "bwd trace: of the first buffer",
        TRACE,
        "trace->gradients->buffer[buffer].data + at",
        "trace->gradients->buffer[0].data + at",
    ),
    Mutation(
        "bwd trace: before the scale", PASS, "before[m][i] * mod->natural_per_unit", "before[m][i]"
    ),
    Mutation(
        "bwd trace: of scores behind the text",
        PASS,
        "      before[m][i] = given;\n",
        "      before[m][i] = 0.0f;\n",
    ),
    Mutation(
        "bwd trace: the last place is lost",
        PASS,
        "    if (place != nullptr)\n      red_add(place, sum);\n  }",
        "  }",
    ),
    Mutation(
        "bwd trace: places before the last are lost",
        PASS,
        "          if (place != nullptr)\n            red_add(place, sum);\n",
        "",
    ),
    Mutation(
        "bwd trace: sums go on",
        PASS,
        "          place = trace.place;\n          sum = 0.0f;",
        "          place = trace.place;",
    ),
    Mutation(
        "bwd trace: another pair's gradient",
        PASS,
        "snippet_chain(passed.derivative, ds[m][i])",
        "snippet_chain(passed.derivative, ds[m][i / 2 * 2])",
    ),
    Mutation(
        "bwd trace: rows are a tile late",
        PASS,
        "const int key = own + m * 16",
        "const int key = own + m * 8",
    ),
    Mutation(
        "bwd trace: columns are a pair late",
        PASS,
        "const int query = walk + i / 4 * 8 + lane % 4 * 2",
        "const int query = walk + i / 4 * 8",
    ),
    Mutation(
        "bwd trace: the key head is the query head",
        PASS,
        "{(int)batch, head, kv_head, query}",
        "{(int)batch, head, head, query}",
    ),
    Mutation(
        "bwd trace: warps that compute the same each add",
        BWD,
        "    if (warp % WARPS_K == 0)\n<% endif %>\n    add_buffer",
        "<% endif %>\n    add_buffer",
    ),
    Mutation(
        "bwd trace: behind the text's derivative",
        BWD,
        "add_buffer_gradients(grad, before, &given.mod",
        "multiply_slopes(grad[0], slope[0]), add_buffer_gradients(grad, before, &given.mod",
    ),
]
