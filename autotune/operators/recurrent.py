"""Recurrent cells on CPUs."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.operators.operator_arguments import check_arguments
from autotune.operators.recurrent_cells import (
    RecurrentCell,
    lstm,
    lstm_reference,
    rnn,
    rnn_reference,
)
from autotune.template import Knobs, template

TYPES = ("float32", "float64")


@template("rnn_cell", target="llvm", reference=rnn_reference)
def rnn_cell(
    cfg: Knobs, steps: int, batch: int, units: int, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """H[t] = tanh(X[t] + H[t - 1] @ U), from H[0] = 0.

    X is [steps, 1, batch, units], the inputs after multiplication with their weights; U is [1,
    units, units] and H [steps, batch, units].

    Knobs
    -----
    share
        What is divided among threads: "batch" (each thread has its own sequences, for all steps),
        or the "units" of a step, with a barrier after each step.
    rows, width
        Sequences, and vectors of units, whose sums are in registers at a time.
    lanes
        Units of a vector.
    """
    check_arguments("rnn_cell", dtype, TYPES, steps=steps, batch=batch, units=units)
    return _scheduled(cfg, rnn(steps, batch, units, dtype), dtype)


@template("lstm_cell", target="llvm", reference=lstm_reference)
def lstm_cell(
    cfg: Knobs, steps: int, batch: int, units: int, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """Compute the states H and C of a long short-term memory, both from 0.

    X is [steps, 4, batch, units], the inputs after multiplication with their weights, for the gates
    i, f, g and o; U is [4, units, units], H and C are [steps, batch, units]. With a = X[t] + H[t -
    1] @ U and s the sigmoid, C[t] = s(a_f) C[t - 1] + s(a_i) tanh(a_g) and H[t] = s(a_o)
    tanh(C[t]).

    Knobs
    -----
    share, rows, width, lanes
        As of `rnn_cell`.
    """
    check_arguments("lstm_cell", dtype, TYPES, steps=steps, batch=batch, units=units)
    return _scheduled(cfg, lstm(steps, batch, units, dtype), dtype)


def _scheduled(cfg: Knobs, cell: RecurrentCell, dtype: str) -> tuple[Any, list[Any]]:
    vector = max(1, cfg.target.vector_bytes // dtypes.itemsize(dtype))
    share = cfg.define_knob("share", ["batch", "units"])
    rows = cfg.define_knob("rows", [1, 2, 4])
    width = cfg.define_knob("width", [2, 1, 4])
    lanes = cfg.define_knob("lanes", [vector, 2 * vector])
    s = te.create_schedule(cell.scan.op)
    for part in (*cell.inits, cell.update):
        _, i, j = part.op.axis
        io, ii = s[part].split(i, factor=rows)
        jo, ji = s[part].split(j, factor=width * lanes)
        steps, vectors = s[part].split(ji, factor=lanes)
        s[part].reorder(*((io, jo) if share == "batch" else (jo, io)), ii, steps, vectors)
        s[part].parallel(io if share == "batch" else jo)
        s[part].vectorize(vectors)
    s[cell.sums].compute_at(s[cell.update], jo if share == "batch" else io)
    _, g, i, j = cell.sums.op.axis
    steps, vectors = s[cell.sums].split(j, factor=lanes)
    s[cell.sums].reorder(g, cell.k, i, steps, vectors)
    s[cell.sums].vectorize(vectors)
    for axis in (i, steps):
        s[cell.sums].unroll(axis)
    return s, [*cell.inputs, *cell.outputs]
