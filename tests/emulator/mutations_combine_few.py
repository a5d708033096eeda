"""Faults in the kernel that adds up splits at fixed places of few rows, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

FEW = "templates/attention/flash_fwd_combine_few.cu.j2"

KERNELS = [("flash_fwd_combine_hdim72_bf16_ragged_few_sm80", "")]
"""Columns that are no whole thread blocks."""

MUTATIONS = [
    Mutation(
        "combine of few rows: parts that are not there count",
        FEW,
        "  if (lane >= *num_splits)\n    lse = -INF;\n",
        "",
    ),
    Mutation(
        "combine of few rows: parts that are not there are added",
        FEW,
        "i * GROUPS + group < *num_splits ? parts[i] : zero",
        "parts[i]",
    ),
    Mutation(
        "combine of few rows: a group asks for one part",
        FEW,
        "if (i * GROUPS + group < bound)",
        "if (i == 0 && group < bound)",
    ),
    Mutation(
        "combine of few rows: a group's second part is its next one",
        FEW,
        "args->rows * GROUPS * HEAD_DIM_V",
        "args->rows * HEAD_DIM_V",
    ),
    Mutation(
        "combine of few rows: columns past the end are read",
        FEW,
        "(HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V ? column : 0)",
        "column",
    ),
    Mutation(
        "combine of few rows: columns past the end are stored",
        FEW,
        "HEAD_DIM_V % COLUMNS == 0 || column < HEAD_DIM_V, sum",
        "true, sum",
    ),
    Mutation(
        "combine of few rows: a part is weighed against its own maximum",
        FEW,
        "before = {__shfl_sync(0xffffffff, greatest, max(lane - 1, 0))",
        "before = {__shfl_sync(0xffffffff, greatest, lane)",
    ),
    Mutation(
        "combine of few rows: the first part is weighed against itself",
        FEW,
        "  if (lane == 0)\n    before.max = -INF;\n",
        "",
        harmless="the factor is of a sum that is 0",
    ),
    Mutation(
        "combine of few rows: the greatest of half of the lanes before",
        FEW,
        "lanes < 32; lanes *= 2",
        "lanes < 16; lanes *= 2",
    ),
    Mutation(
        "combine of few rows: the maximum is the first part's",
        FEW,
        "return __shfl_sync(0xffffffff, greatest, 31);",
        "return __shfl_sync(0xffffffff, greatest, 0);",
    ),
    Mutation(
        "combine of few rows: parts are not waited for",
        FEW,
        "  __syncthreads();\n  if (threadIdx.x >= 32)",
        "  if (threadIdx.x >= 32)",
    ),
    Mutation(
        "combine of few rows: parts take the place of those that are being read",
        FEW,
        "      __syncthreads();\n      griddepcontrol_wait",
        "      griddepcontrol_wait",
    ),
    Mutation(
        "combine of few rows: the kernel before is not waited for",
        FEW,
        "      griddepcontrol_wait();\n",
        "",
    ),
    Mutation(
        "combine of few rows: parts past the first 16 are left out",
        FEW,
        "  } while (first < num_splits);\n",
        "  } while (false);\n",
    ),
    Mutation(
        "combine of few rows: weights are not brought to the present maximum",
        FEW,
        "sum.weights = multiply_add_once(factors.x, sum.weights, factors.y);",
        "sum.weights += factors.y;",
    ),
    Mutation(
        "combine of few rows: what is gone through for nothing is stored",
        FEW,
        "sum, out + 0.0f, reads);",
        "sum, out + 0.0f, true);",
    ),
    Mutation(
        "combine of few rows: rows that no split has written",
        FEW,
        "if (place.position < rows.count) // else",
        "// else",
    ),
    Mutation(
        "combine of few rows: the columns of another thread block",
        FEW,
        "place, blockIdx.x % COLUMN_BLOCKS, &shared",
        "place, 0, &shared",
    ),
]
