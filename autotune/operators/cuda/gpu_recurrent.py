"""Recurrent cells on GPUs: each block has its own sequences; its threads divide their units."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.operators import lstm_cell as lstm
from autotune.operators import rnn_cell as rnn
from autotune.operators.recurrent_cells import products_read_by
from autotune.rules.gpu.thread_loops import bind
from autotune.template import Knobs, template


@template("rnn_cell", target="cuda", reference=rnn.reference)
def rnn_cell(
    cfg: Knobs, steps: int, batch: int, units: int, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """H[t] = tanh(X[t] + H[t - 1] @ U); arrays are as for CPUs.

    Knobs
    -----
    threads
        Threads of a block, which divide the units of its sequences; there is one barrier per step.
    rows
        Sequences of a block.
    unroll
        Terms of a sum that are unrolled.
    """
    return _scheduled(cfg, rnn.rnn_cell.function(steps, batch, units, dtype))


@template("lstm_cell", target="cuda", reference=lstm.reference)
def lstm_cell(
    cfg: Knobs, steps: int, batch: int, units: int, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """Compute the states H and C of a long short-term memory; arrays are as for CPUs.

    Knobs
    -----
    threads, rows, unroll
        As of `rnn_cell`.
    """
    return _scheduled(cfg, lstm.lstm_cell.function(steps, batch, units, dtype))


def _scheduled(cfg: Knobs, tensors: list[Any]) -> tuple[Any, list[Any]]:
    """Return the schedule of a cell, whose last tensor is a scan, and its tensors."""
    scan = tensors[-1].op
    update = scan.update[0]
    sums = products_read_by(update)
    threads = cfg.define_knob("threads", [128, 32, 64, 256, 512, 1024])
    rows = cfg.define_knob("rows", [1, 2, 4])
    unroll = cfg.define_knob("unroll", [4, 1, 8])
    s = te.create_schedule(scan)
    for part in (*scan.init, update):
        _, i, j = part.op.axis
        block, row = s[part].split(i, factor=rows)
        outer, thread = s[part].split(j, factor=threads)
        s[part].reorder(block, thread, outer, row)
        bind(s[part], {"blockIdx.x": block, "threadIdx.x": thread})
    s[sums].compute_at(s[update], outer)
    _, g, i, j = sums.op.axis
    terms, term = s[sums].split(sums.op.reduce_axis[0], factor=unroll)
    s[sums].reorder(terms, term, g, i, j)
    for axis in (term, g, i):
        s[sums].unroll(axis)
    return s, tensors
