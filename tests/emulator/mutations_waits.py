"""Kernels whose launches overlap and that do not wait for earlier ones, for mutate.py."""

from __future__ import annotations

from mutations import Mutation

ATTENTION = "templates/attention/"
FWD_SM90 = ATTENTION + "flash_fwd_sm90.cu.j2"
DECODE = ATTENTION + "flash_fwd_decode_sm80.cu.j2"
COMBINE = ATTENTION + "flash_fwd_combine.cu.j2"
RAGGED_PRODUCER = ATTENTION + "parts/ragged_producer.cu.j2"

KERNELS = [("flash_fwd_split_hdim64_bf16_ragged_ready_decode_sm90", "m8n48s2")]
"""Keys in a row that may be of a guess; the other lists have all else."""


def without(name: str, file: str, place: int = 1, old: str = "griddepcontrol_wait();") -> Mutation:
    """The `place`-th wait of a template is not there."""
    return Mutation(f"overlap, no wait: {name}", file, old, "{}", place)


MUTATIONS = [
    without("decode, of few rows that are not guessed", DECODE, 1),
    without(
        "decode, behind a guess",
        DECODE,
        old="""\
        griddepcontrol_wait();
      griddepcontrol_wait(); // once more, at once
""",
    ),
    without("decode, of sequences", DECODE, 4),
    without("decode, dense", DECODE, 5),
    without("append, which decode waits for", "templates/append/append_write.cu.j2"),
    without("combine, dense", COMBINE, 1),
    without("combine, in order", COMBINE, 2),
    without("combine, of few parts", COMBINE, 3),
    without("combine, of sequences", COMBINE, 4),
    without("the schedule kernel", ATTENTION + "flash_fwd_schedule.cu.j2"),
    without("sm90, keys of pages, which may be of a guess", FWD_SM90, 1),
    without("sm90, keys, which may be of a guess", FWD_SM90, 2),
    without("sm90, who finds units to decode", FWD_SM90, 3),
    without("sm90, behind the schedule kernel", FWD_SM90, 4),
    without("sm90, behind the map kernel", FWD_SM90, 5),
    without("sm90, boxes of keys without entries", RAGGED_PRODUCER, 1),
    without("sm90, boxes of values without entries", RAGGED_PRODUCER, 2),
    without("sm90, Q of who gathers", RAGGED_PRODUCER, 3),
    without("sm90, Q of boxes", RAGGED_PRODUCER, 4),
    without("sm90, entries of the table", RAGGED_PRODUCER, 5),
    without("sm90, keys that are gathered", ATTENTION + "parts/gather_keys_sm90.cu.j2"),
    without("sm90, heads that share keys", ATTENTION + "flash_fwd_shared_sm90.cu.j2"),
    without("sm90, runs", ATTENTION + "flash_fwd_runs_sm90.cu.j2"),
    without("sm80, runs, behind a guess", ATTENTION + "flash_fwd_runs_sm80.cu.j2", 1),
    without("sm80, runs", ATTENTION + "flash_fwd_runs_sm80.cu.j2", 2),
    without("sm80, splits, dense", ATTENTION + "flash_fwd_sm80.cu.j2", 1),
    without("sm80, splits, of sequences", ATTENTION + "flash_fwd_sm80.cu.j2", 2),
    without("bwd, that takes key blocks", ATTENTION + "flash_bwd_sm90.cu.j2", 1),
    without("bwd, who takes them", ATTENTION + "flash_bwd_sm90.cu.j2", 2),
    without("bwd", ATTENTION + "flash_bwd_sm90.cu.j2", 3),
    without("bwd, by columns", ATTENTION + "parts/bwd_columns_sm90.cu.j2"),
    without("bwd, of few rows", ATTENTION + "flash_bwd_few_sm90.cu.j2"),
    without("bwd, exchange, that takes key blocks", ATTENTION + "flash_bwd_exchange_sm90.cu.j2", 1),
    without("bwd, exchange", ATTENTION + "flash_bwd_exchange_sm90.cu.j2", 2),
    without("bwd_dkv, at its end", ATTENTION + "flash_bwd_exchange_sm90.cu.j2", 3),
    without("bwd_dq", ATTENTION + "flash_bwd_dq_sm90.cu.j2"),
    without("bwd_convert", ATTENTION + "flash_bwd_convert.cu.j2"),
]
MUTATIONS += [
    without(f"layernorm, {name}", f"templates/layernorm/layernorm_{name}.cu.j2")
    for name in (
        "bwd bwd_cluster bwd_dx bwd_gang bwd_odd bwd_odd_cluster bwd_params bwd_reduce "
        "bwd_short bwd_sorted fwd fwd_apart fwd_bulk fwd_cluster fwd_direct fwd_gang fwd_gathered "
        "fwd_long fwd_moved fwd_odd fwd_packed fwd_pairs fwd_pieces fwd_whole fwd_wide"
    ).split()
]
MUTATIONS += [
    without(f"outer, {name}", f"templates/outer/outer_{name}.cu.j2")
    for name in ("fwd", "bwd", "bwd_reduce", "sum")
]
MUTATIONS += [
    without(f"conv2d, {name}", f"templates/conv2d/{name}.cu.j2")
    for name in (
        "conv2d_dout conv2d_reduce conv2d_im2col_sm90 conv2d_im2col_wgrad_sm90 "
        "parts/gather_start parts/wgrad_start"
    ).split()
]
