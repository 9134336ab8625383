"""Products and convolutions with what they should give, and their tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autotune import rules, te
from autotune.rules.apply_rules import scheduled_outputs
from autotune.target import Target
from autotune.task.task import Task
from autotune.template import Template
from autotune.trace.template_knobs import Knobs

Made = tuple[list[te.Tensor], list[te.Tensor], Callable[..., Any]]


def product(m: int, n: int, k: int, how: str = "nn", dtype: str = "float32", b: int = 0) -> Made:
    """C = A @ B with operands transposed as `how` says, in batches, summed in float32."""
    lead = (b,) if b else ()
    A = te.placeholder((*lead, *((m, k) if how[0] == "n" else (k, m))), dtype, name="A")
    B = te.placeholder((*lead, *((k, n) if how[1] == "n" else (n, k))), dtype, name="B")
    r = te.reduce_axis((0, k), name="r")

    def element(*index: Any) -> Any:
        *q, i, j = index
        x = A[(*q, *((i, r) if how[0] == "n" else (r, i)))]
        y = B[(*q, *((r, j) if how[1] == "n" else (j, r)))]
        return te.sum(x.astype("float32") * y.astype("float32"), axis=r)

    def expected(a: Any, w: Any) -> Any:
        a = a if how[0] == "n" else np.swapaxes(a, -1, -2)
        w = w if how[1] == "n" else np.swapaxes(w, -1, -2)
        return a.astype("float32") @ w.astype("float32")

    return [A, B], [te.compute((*lead, m, n), element, name="C")], expected


def convolution(
    n: int, c: int, y: int, x: int, o: int, k: int = 3,
    stride: int = 1, pad: int = 0, groups: int = 1, dilation: int = 1,
) -> Made:  # fmt: skip
    """A convolution of images in NCHW layout."""
    D = te.placeholder((n, c, y, x), "float32", name="D")
    F = te.placeholder((o, c // groups, k, k), "float32", name="F")
    span = dilation * (k - 1) + 1
    oy, ox = (y + 2 * pad - span) // stride + 1, (x + 2 * pad - span) // stride + 1
    zero = te.const(0, "float32")

    def padded(b: Any, i: Any, p: Any, q: Any) -> Any:
        inside = te.all(p >= pad, p < y + pad, q >= pad, q < x + pad)
        return te.if_then_else(inside, D[b, i, p - pad, q - pad], zero)

    P = te.compute((n, c, y + 2 * pad, x + 2 * pad), padded, name="P") if pad else D
    rc, ry, rx = (te.reduce_axis((0, size)) for size in (c // groups, k, k))

    def element(b: Any, f: Any, p: Any, q: Any) -> Any:
        channel = rc if groups == 1 else f // (o // groups) * (c // groups) + rc
        at = P[b, channel, p * stride + ry * dilation, q * stride + rx * dilation]
        return te.sum(at * F[f, rc, ry, rx], axis=[rc, ry, rx])

    def expected(d: Any, w: Any) -> Any:
        d = np.pad(d, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        out = np.zeros((n, o, oy, ox), "float32")
        for f in range(o):
            for i in range(c // groups):
                image = d[:, f // (o // groups) * (c // groups) + i]
                for p in range(k):
                    for q in range(k):
                        rows = image[:, p * dilation :][:, : (oy - 1) * stride + 1 : stride]
                        cut = rows[..., q * dilation :][..., : (ox - 1) * stride + 1 : stride]
                        out[:, f] += cut * w[f, i, p, q]
        return out

    return [D, F], [te.compute((n, o, oy, ox), element, name="O")], expected


def task_of(
    made: Callable[[], Made], constants: tuple[int, ...] = (), target: str = "llvm"
) -> Task:
    def instance(cfg: Knobs) -> Any:
        inputs, outputs, _ = made()
        schedule = rules.schedule(cfg, outputs, [inputs[n] for n in constants])
        return schedule, [*inputs, *scheduled_outputs(schedule, outputs)]

    return Task(Template("computation", "llvm", instance), {}, Target.parse(target))
