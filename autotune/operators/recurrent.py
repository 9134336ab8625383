"""Recurrent cells on CPUs, with schedules by hand."""

from __future__ import annotations

from typing import Any

from autotune import te
from autotune.ir import dtypes
from autotune.operators import lstm_cell as lstm
from autotune.operators import rnn_cell as rnn
from autotune.operators.recurrent_cells import products_read_by
from autotune.template import Knobs, template


@template("rnn_cell", target="llvm", reference=rnn.reference)
def rnn_cell(
    cfg: Knobs, steps: int, batch: int, units: int, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """H[t] = tanh(X[t] + H[t - 1] @ U), from H[0] = 0; see `autotune.operators.rnn_cell`.

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
    return _scheduled(cfg, rnn.rnn_cell.function(steps, batch, units, dtype), dtype)


@template("lstm_cell", target="llvm", reference=lstm.reference)
def lstm_cell(
    cfg: Knobs, steps: int, batch: int, units: int, dtype: str = "float32"
) -> tuple[Any, list[Any]]:
    """Compute the states H and C of a long short-term memory; see `autotune.operators.lstm_cell`.

    Knobs
    -----
    share, rows, width, lanes
        As of `rnn_cell`.
    """
    return _scheduled(cfg, lstm.lstm_cell.function(steps, batch, units, dtype), dtype)


def _scheduled(cfg: Knobs, tensors: list[Any], dtype: str) -> tuple[Any, list[Any]]:
    """Return the schedule of a cell, whose last tensor is a scan, and its tensors."""
    scan = tensors[-1].op
    update = scan.update[0]
    sums = products_read_by(update)
    vector = max(1, cfg.target.vector_bytes // dtypes.itemsize(dtype))
    share = cfg.define_knob("share", ["batch", "units"])
    rows = cfg.define_knob("rows", [1, 2, 4])
    width = cfg.define_knob("width", [2, 1, 4])
    lanes = cfg.define_knob("lanes", [vector, 2 * vector])
    s = te.create_schedule(scan)
    for part in (*scan.init, update):
        _, i, j = part.op.axis
        io, ii = s[part].split(i, factor=rows)
        jo, ji = s[part].split(j, factor=width * lanes)
        steps, vectors = s[part].split(ji, factor=lanes)
        s[part].reorder(*((io, jo) if share == "batch" else (jo, io)), ii, steps, vectors)
        s[part].parallel(io if share == "batch" else jo)
        s[part].vectorize(vectors)
    s[sums].compute_at(s[update], jo if share == "batch" else io)
    _, g, i, j = sums.op.axis
    steps, vectors = s[sums].split(j, factor=lanes)
    s[sums].reorder(g, sums.op.reduce_axis[0], i, steps, vectors)
    s[sums].vectorize(vectors)
    for axis in (i, steps):
        s[sums].unroll(axis)
    return s, tensors
