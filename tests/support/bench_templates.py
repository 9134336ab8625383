"""Templates for GPUs that `autotune bench` is tested with: kinds of knobs, few and many."""

from __future__ import annotations

from typing import Any

import numpy as np

from autotune import te
from autotune.template import Knobs, template


def _bound(stage: Any, bx: Any, tx: Any) -> None:
    stage.bind(bx, te.thread_axis("blockIdx.x"))
    stage.bind(tx, te.thread_axis("threadIdx.x"))


@template("add", target="cuda", reference=np.add)
def add(cfg: Knobs, n: int, kind: str = "plain", dtype: str = "float32") -> tuple[Any, list[Any]]:
    """C[n, n] = A[n, 1] + B[n, n], with the knobs of the seed's two schedules."""
    schedule = cfg.define_knob("schedule", ["alternate", "continuous"])
    nt = cfg.define_knob("nt", [64, 32, 128, 256, 512, 1024, 2048])
    nb = cfg.define_knob("nb", [256, 32, 64, 128, 512, 1024, 2048, 4096, 8192, 16384])
    lanes = cfg.define_knob("lanes", [1, 2, 4])
    cfg.add_constraint(nt <= cfg.target.max_num_threads, "a block has at most 1024 of nt")
    A, B = te.placeholder((n, 1), dtype, name="A"), te.placeholder((n, n), dtype, name="B")
    C = te.compute((n, n), lambda x, y: A[x, 0] + B[x, y], name="C")
    s = te.create_schedule(C.op)
    fused = s[C].fuse(*C.op.axis)
    if schedule == "alternate":
        _, fused = s[C].split(fused, factor=nb * nt * lanes)
    _bound(s[C], *s[C].split(fused, factor=nt))
    return s, [A, B, C]


@template("copy", target="cuda", reference=lambda a: a)
def copy(cfg: Knobs, m: int, n: int) -> tuple[Any, list[Any]]:
    """B[m, n] = A[m, n]: nothing is computed."""
    A = te.placeholder((m, n), name="A")
    B = te.compute((m, n), lambda i, j: A[i, j], name="B")
    s = te.create_schedule(B.op)
    _bound(s[B], *s[B].split(s[B].fuse(*B.op.axis), factor=cfg.define_knob("nt", [32, 64])))
    return s, [A, B]


@template("cut", target="cuda", reference=lambda a: a)
def cut(cfg: Knobs, n: int) -> tuple[Any, list[Any]]:
    """B[n] = A[n], with a split and annotations."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    sizes = cfg.define_split("sizes", n, 3, default=(-1, 4, 2))
    blocks, threads, own = sizes.apply(s[B], B.op.axis[0])
    cfg.define_annotate("loops", [own], ["none", "unroll"]).apply(s[B], [own])
    _bound(s[B], blocks, threads)
    cfg.define_knob("nt", [64, 32])
    return s, [A, B]
