"""Recurrent cells on GPUs: each block has its own sequences; its threads divide their units."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.operators.operator_arguments import check_arguments
from autotune.operators.recurrent import TYPES
from autotune.operators.recurrent_cells import (
    RecurrentCell,
    lstm,
    lstm_reference,
    rnn,
    rnn_reference,
)
from autotune.rules.gpu.thread_loops import bind
from autotune.template import Knobs, template


@template("rnn_cell", target="cuda", reference=rnn_reference)
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
    check_arguments("rnn_cell", dtype, TYPES, steps=steps, batch=batch, units=units)
    return _scheduled(cfg, rnn(steps, batch, units, dtype))


@template("lstm_cell", target="cuda", reference=lstm_reference)
def lstm_cell(
    cfg: Knobs, steps: int, batch: int, units: int, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """Compute the states H and C of a long short-term memory; arrays are as for CPUs.

    Knobs
    -----
    threads, rows, unroll
        As of `rnn_cell`.
    """
    check_arguments("lstm_cell", dtype, TYPES, steps=steps, batch=batch, units=units)
    return _scheduled(cfg, lstm(steps, batch, units, dtype))


def _scheduled(cfg: Knobs, cell: RecurrentCell) -> tuple[Any, list[Any]]:
    threads = cfg.define_knob("threads", [128, 32, 64, 256, 512, 1024])
    rows = cfg.define_knob("rows", [1, 2, 4])
    unroll = cfg.define_knob("unroll", [4, 1, 8])
    s = te.create_schedule(cell.scan.op)
    for part in (*cell.inits, cell.update):
        _, i, j = part.op.axis
        block, row = s[part].split(i, factor=rows)
        outer, thread = s[part].split(j, factor=threads)
        s[part].reorder(block, thread, outer, row)
        bind(s[part], {"blockIdx.x": block, "threadIdx.x": thread})
    s[cell.sums].compute_at(s[cell.update], outer)
    _, g, i, j = cell.sums.op.axis
    terms, term = s[cell.sums].split(cell.k, factor=unroll)
    s[cell.sums].reorder(terms, term, g, i, j)
    for axis in (term, g, i):
        s[cell.sums].unroll(axis)
    return s, [*cell.inputs, *cell.outputs]
