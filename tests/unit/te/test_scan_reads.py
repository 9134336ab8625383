"""What computes and cells of scans may read: refused as early as it is known, by its own name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import AutotuneError, LoweringError, ScheduleError

M, N = 5, 4
K = te.reduce_axis((0, 2), name="k")
X, h = te.placeholder((M, N), name="X"), te.placeholder((M, N), name="h")


def scan_of(body: Callable[[Any, Any], Any], state: Any = h, steps: Any = M) -> Any:
    """Return a scan whose update is `body`, with one step of init."""
    first = te.compute((1, N), lambda _, i: 0.0, name="first")
    return te.scan(first, te.compute((steps, N), body, name="U"), state)


def of_any_length() -> Any:
    m = te.var("m")
    state, given = te.placeholder((m, N), name="h"), te.placeholder((m, N), name="X")
    return scan_of(lambda t, i: state[t - 1, i] + given[t, i - 1], state, m)


def nested() -> Any:
    inner = te.placeholder((N, M), name="inner")
    init = te.compute((1, M), lambda _, t: h[t - 1, 0], name="init")
    update = te.compute((N, M), lambda i, t: inner[i - 1, t] + h[t - 1, i], name="update")
    columns = te.scan(init, update, inner, name="columns")
    return scan_of(lambda t, i: columns[i, t])


REFUSED = {
    "scan 'scan': index 0 of state 'h' in 'U', `(t + 1)`, is a later step; read an earlier one, "
    "as in t - 1": lambda: scan_of(lambda t, i: h[t + 1, i]),
    "scan 'scan': index 0 of state 'h' in 'U', `((t - 1) - k)`, is 2 steps back, further than the "
    "1 of its init; give init as many steps": lambda: scan_of(
        lambda t, i: te.sum(h[t - 1 - K, i], axis=K)
    ),
    "scan 'scan': 'columns' depends on a state and is a scan itself; a cell holds none": nested,
    "compute 'U': index 0 of 'X', `(t + 1)`, runs from 2 to 5, outside 0 to 4; guard it with "
    "te.if_then_else": lambda: scan_of(lambda t, i: h[t - 1, i] + X[t + 1, i]),
    "compute 'U': index 0 of 'X', `(t - 2)`, runs from -1 to 2, outside 0 to 4; guard it with "
    "te.if_then_else": lambda: scan_of(lambda t, i: h[t - 1, i] + X[t - 2, i]),
    "compute 'U': index 0 of 'X', `((t*2) - 4)`, runs from -2 to 4, outside 0 to 4; guard it with "
    "te.if_then_else": lambda: scan_of(lambda t, i: h[t - 1, i] + X[t * 2 - 4, i]),
    "compute 'U': index 1 of 'h', `(i - 1)`, runs from -1 to 2, outside 0 to 3; guard it with "
    "te.if_then_else": lambda: scan_of(lambda t, i: h[t - 1, i - 1]),
    "compute 'U': index 1 of 'X', `(i - 1)`, runs from -1 to 2, outside 0 to 3; guard it with "
    "te.if_then_else": of_any_length,
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_cell_that_reads_what_is_not_there_is_refused(message: str) -> None:
    with pytest.raises(AutotuneError) as refused:
        te.create_schedule(REFUSED[message]().op)
    assert str(refused.value) == message


@pytest.mark.parametrize("offset", [-1, 1])
def test_what_would_be_right_in_a_cell_is_refused_where_none_is(offset: int) -> None:
    B = te.compute((M, N), lambda t, i: X[t + offset, i], name="B")
    with pytest.raises(AutotuneError, match=f"runs from {offset} to "):
        te.create_schedule(B.op)


def test_inputs_are_read_before_after_and_from_the_end() -> None:
    longer = te.placeholder((M + 1, N), name="X")
    scan = scan_of(
        lambda t, i: h[t - 1, i] + longer[t - 1, i] - longer[t + 1, i] + longer[M - t, i] * 2
    )
    x = np.random.default_rng(0).integers(-4, 5, (M + 1, N)).astype("float32")
    want = np.zeros((M, N), "float32")
    for t in range(1, M):
        want[t] = want[t - 1] + x[t - 1] - x[t + 1] + x[M - t] * 2
    got = np.full_like(want, 77)
    autotune.build(te.create_schedule(scan.op), [longer, scan], "llvm")(x, got)
    np.testing.assert_array_equal(got, want)


def test_an_update_may_sum_over_the_steps_before() -> None:
    m, n = te.var("m"), te.var("n")
    state, weights = te.placeholder((m, n), name="h"), te.placeholder((3,), name="weights")
    first = te.compute((3, n), lambda t, i: (t + i).astype("float32"), name="first")
    k = te.reduce_axis((0, 3), name="k")
    later = te.compute(
        (m, n), lambda t, i: te.sum(state[t - 1 - k, i] * weights[k], axis=k), name="later"
    )
    scan = te.scan(first, later, state)
    s = te.create_schedule(scan.op)
    for part in (first, later):
        outer, inner = s[part].split(part.op.axis[1], factor=4)
        s[part].bind(outer, te.thread_axis("blockIdx.x"))
        s[part].bind(inner, te.thread_axis("threadIdx.x"))
    w, got = np.array([1, -1, 0.5], "float32"), np.full((7, 6), 77, "float32")
    want = np.zeros((7, 6), "float32")
    want[:3] = np.add.outer(range(3), range(6))
    for t in range(3, 7):
        want[t] = want[t - 1] - want[t - 2] + want[t - 3] / 2
    for target in ("llvm", "cuda -on=cpu"):
        schedule = s if target != "llvm" else te.create_schedule(scan.op)
        autotune.build(schedule, [weights, scan], target)(w, got)
        np.testing.assert_array_equal(got, want)


def test_a_scan_reads_nothing_through_a_cache() -> None:
    scan = scan_of(lambda t, i: h[t - 1, i] + X[t, i])
    with pytest.raises(ScheduleError) as refused:
        te.create_schedule(scan.op).cache_read(X, "local", [scan])
    assert str(refused.value) == (
        "cache_read on stage 'scan': a scan reads nothing itself, as its init and update are "
        "computed in its own array; give the init, the update, or a stage of its cell"
    )


def test_a_size_that_no_call_gives_is_refused() -> None:
    width = te.var("width")
    state = te.placeholder((M, width), name="state")
    first = te.compute((1, width), lambda _, i: 0.0, name="first")
    later = te.compute((M, width), lambda t, i: state[t - 1, i] + X[t, 0], name="later")
    wide = te.scan(first, later, state, name="wide")
    out = te.compute((M,), lambda t: wide[t, 0], name="out")
    with pytest.raises(LoweringError) as refused:
        autotune.build(te.create_schedule(out.op), [X, out], "llvm")
    assert str(refused.value) == (
        "stage 'first' depends on the size 'width', which is in the shape of no tensor that is "
        "listed; list one, or give a number"
    )
