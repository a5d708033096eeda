"""Faults in what a snippet in place of the outer product is given, and in the dual numbers of its
gradient, for mutate.py. The emulator puts the snippets' texts behind the sources."""

from __future__ import annotations

from mutations import Mutation

FWD = "templates/outer/outer_fwd.cu.j2"
SUM = "templates/outer/outer_sum.cu.j2"
BWD = "templates/outer/outer_bwd.cu.j2"
DUAL = "include/attnpress/device/dual.cuh"
SNIPPET = "include/attnpress/device/snippet.cuh"

KERNELS = [
    ("outer_bwd_fp32_mod_sm80", ""),
    ("outer_bwd_bf16_mod_sm80", ""),
    ("outer_fwd_fp32_mod_sm80", ""),
    ("outer_sum_fp16_mod_sm80", ""),
    ("outer_sum_fp32_mod_sm80", ""),
]
"""A text with every function that has a derivative, and one that is infinitely steep at zeros."""


def of(function: str, right: str, wrong: str) -> Mutation:
    return Mutation(f"dual: {function}", DUAL, right, wrong)


MUTATIONS = [
    Mutation("function: x and y change places", FWD, "factor[0], y[j]);", "y[j], factor[0]);"),
    Mutation(
        "function: entries past the batch count",
        SUM,
        "n < entries; ++n",
        "n < STEP; ++n",
    ),
    Mutation(
        "function: rows past the end count",
        BWD,
        "first + r * groups >= args.rows || column + own + j * apart >= args.columns",
        "column + own + j * apart >= args.columns",
    ),
    Mutation(
        "function: columns past the end count",
        BWD,
        "first + r * groups >= args.rows || column + own + j * apart >= args.columns",
        "first + r >= args.rows",
    ),
    Mutation("function: a row's x stays", FWD, "= factor[i + 1];", "= factor[i];"),
    Mutation("function: dx moves up too late", BWD, "dx[ROWS - 1] = dx_sum;", "dx[0] = dx_sum;"),
    Mutation(
        "function: x does not come round",
        BWD,
        "factor[ROWS - 1] = x_value;",
        "",
    ),
    Mutation("function: dc of the row before", BWD, "vector[i] = vector[i + 1];", ""),
    Mutation(
        "function: dx by y",
        BWD,
        "{x_value, 1.0f}, {y_value[j], 0.0f}",
        "{x_value, 0.0f}, {y_value[j], 1.0f}",
    ),
    Mutation(
        "function: dy by both",
        BWD,
        "{x_value, 0.0f}, {y_value[j], 1.0f}",
        "{x_value, 1.0f}, {y_value[j], 1.0f}",
    ),
    Mutation(
        "function: scalars are a place late", SNIPPET, "float, scalars[i]", "float, scalars[i + 1]"
    ),
    of("0 times infinity", "derivative == 0.0f ? 0.0f : derivative * slope", "derivative * slope"),
    of("a difference is a sum", "a.derivative - b.derivative", "a.derivative + b.derivative"),
    of(
        "what is taken off keeps its sign",
        "return {a - b.value, -b.derivative};",
        "return {a - b.value, b.derivative};",
    ),
    of(
        "half of a product",
        "snippet_chain(a.derivative, b.value) + snippet_chain(b.derivative, a.value)",
        "snippet_chain(a.derivative, b.value)",
    ),
    of("a factor is lost", "snippet_chain(b.derivative, a)}", "b.derivative}"),
    of(
        "a quotient's divisor is constant",
        "(a.derivative - snippet_chain(b.derivative, quotient)) / b.value",
        "a.derivative / b.value",
    ),
    of("a divisor is lost", "{a.value / b, a.derivative / b}", "{a.value / b, a.derivative}"),
    of("exp", "snippet_chain(x.derivative, y)};", "snippet_chain(x.derivative, x.value)};"),
    of("exp2 is exp", "0.69314718055994531f * y", "y"),
    of(
        "log", "snippet_chain(x.derivative, 1.0f / x.value)", "snippet_chain(x.derivative, x.value)"
    ),
    of("log2 is log", "1.4426950408889634f / x.value", "1.0f / x.value"),
    of("log1p is log", "1.0f / (1.0f + x.value)", "1.0f / x.value"),
    of("sqrt", "0.5f / y", "1.0f / y"),
    of("tanh", "1.0f - y * y", "1.0f - y"),
    of(
        "sin",
        "snippet_chain(x.derivative, cosf(x.value))",
        "snippet_chain(x.derivative, -cosf(x.value))",
    ),
    of(
        "cos",
        "snippet_chain(x.derivative, -sinf(x.value))",
        "snippet_chain(x.derivative, sinf(x.value))",
    ),
    of("erf", "1.1283791670955126f", "2.0f"),
    of("fabs", "return x.value < 0.0f ? -x : x;", "return {fabsf(x.value), x.derivative};"),
    of("fmax is fmin", "return a.value >= b.value ||", "return a.value <= b.value ||"),
    of(
        "the lesser one's derivative is lost",
        "return a.value <= b.value || b.value != b.value ? a : b;",
        "return a.value <= b.value || b.value != b.value ? a : b.value;",
    ),
    of("floor is steep", "return floorf(x.value);", "return {floorf(x.value), x.derivative};"),
    of("ceil is steep", "return ceilf(x.value);", "return {ceilf(x.value), x.derivative};"),
    of(
        "a power's base is constant",
        "derivative += a.derivative * (b.value * powf(a.value, b.value - 1.0f));",
        ";",
    ),
    of("a power's exponent is constant", "derivative += b.derivative * (y * logf(a.value));", ";"),
    of(
        "a negative number keeps its derivative",
        "return {-a.value, -a.derivative};",
        "return {-a.value, a.derivative};",
    ),
]
