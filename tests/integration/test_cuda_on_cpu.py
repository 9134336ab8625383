"""A CUDA template is tuned, looked up, built and loaded on a machine without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from support.command_line import QUICK
from support.logged import trials_in

import autotune

TEMPLATE = '''
import numpy as np
from autotune import te
from autotune.template import template

TAGS = ("threadIdx.y", "threadIdx.x")


@template("transpose", target="cuda", reference=np.transpose)
def transpose(cfg, n: int):
    """B = A transposed, through tiles in shared memory."""
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i], name="B")
    tile = cfg.define_knob("tile", [4, 8, 40, 16])
    s = te.create_schedule(B.op)
    cache = s.cache_read(A, "shared", [B])
    y, x, ty, tx = s[B].tile(*s[B].op.axis, tile, tile)
    for axis, tag in ((y, "blockIdx.y"), (x, "blockIdx.x"), (ty, TAGS[0]), (tx, TAGS[1])):
        s[B].bind(axis, te.thread_axis(tag))
    s[cache].compute_at(s[B], x)
    for axis, tag in zip(s[cache].op.axis, TAGS):
        s[cache].bind(axis, te.thread_axis(tag))
    return s, [A, B]
'''
TARGET = "cuda -on=cpu"


def test_a_cuda_template_is_tuned_looked_up_built_and_loaded(call: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TEMPLATE)
    task = ["mine.py:transpose", "--set", "n=50", "--target", TARGET, "--log", "log.jsonl"]
    done = call("run", *task, "--trials", 3, "--seed", 1, *QUICK)
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "transpose(n=50) on cuda -on=cpu"
    records = trials_in(str(tmp_path / "log.jsonl"))
    assert [record.ok for record in records] == [True] * 3
    assert {record.config["values"]["tile"] for record in records} == {4, 8, 16}
    assert {record.target for record in records} == {TARGET}
    done = call("build", *task, "-o", "transpose.so")
    assert done.code == 0, done.err
    a, b = np.random.default_rng(0).random((50, 50), np.float32), np.empty((50, 50), np.float32)
    autotune.load(tmp_path / "transpose.so")(a, b)
    np.testing.assert_array_equal(b, a.T)

