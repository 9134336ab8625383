"""Scans compute what loops over their steps do, in all ways of running, and refuse mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.scans import ColumnSums, TwoStages, TwoStates

import autotune
from autotune import te
from autotune.errors import ArgumentError, IRError, LoweringError, ScheduleError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.stmt import Allocate
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse
from autotune.lowering.nest.lower_schedule import lower_schedule

RNG = np.random.default_rng(0)


def whole(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Return small whole numbers, whose sums are exact in every type."""
    return RNG.integers(-8, 9, shape).astype(dtype)


def test_one_build_of_column_sums_serves_every_size() -> None:
    sums = ColumnSums()
    built = autotune.build(sums.s, sums.tensors, "llvm")
    sizes = [(1, 1), (1, 7), (2, 3), (13, 31), (5, 257), (4, 0)]
    for m, n in [*sizes, *RNG.integers(1, 60, (50, 2)).tolist()]:
        x = whole((m, n))
        out = np.full_like(x, np.nan)
        built(x, out)
        np.testing.assert_array_equal(out, np.cumsum(x, axis=0, dtype=x.dtype))


def test_fewer_steps_than_those_of_init_are_refused(tmp_path: Path) -> None:
    sums = ColumnSums()
    built = autotune.build(sums.s, sums.tensors, "llvm")
    built.save(tmp_path / "sums.so")
    for function in (built, autotune.load(tmp_path / "sums.so")):
        with pytest.raises(ArgumentError) as refused:
            function(np.empty((0, 3), "float32"), np.empty((0, 3), "float32"))
        assert str(refused.value) == (
            "main: a scan of m steps begins with 1, got m = 0: pass arrays with as many"
        )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_column_sums_of_known_sizes(dtype: str) -> None:
    sums = ColumnSums(7, 5, dtype)
    x = whole((7, 5), dtype)
    out = np.empty_like(x)
    autotune.build(sums.s, sums.tensors, "llvm")(x, out)
    np.testing.assert_array_equal(out, np.cumsum(x, axis=0, dtype=dtype))


def test_a_cell_of_two_stages_and_one_of_two_states() -> None:
    stages, states = TwoStages(), TwoStates()
    x = whole((6, 45))
    out, sums, other = np.empty_like(x), np.empty_like(x), np.empty((6, 3), "float32")
    autotune.build(stages.s, stages.tensors, "llvm")(x, out)
    np.testing.assert_array_equal(out, TwoStages.reference(x))
    autotune.build(states.s, states.tensors, "llvm")(x, sums, other)
    for got, want in zip((sums, other), TwoStates.reference(x, 3), strict=True):
        np.testing.assert_array_equal(got, want)


def fibonacci(m: Any = 9, back: int = 2) -> tuple[Any, Any]:
    """Each step is the sum of the two before, times a weight given as an input."""
    W = te.placeholder((m, 4), name="W")
    state = te.placeholder((m, 4), name="state")
    init = te.compute((2, 4), lambda t, i: (t + i).astype("float32"), name="init")
    update = te.compute(
        (m, 4), lambda t, i: state[t - 1, i] + state[t - back, i] * W[t - 1, i], name="update"
    )
    return te.scan(init, update, state, inputs=[W]), W


def test_updates_read_as_far_back_as_init_covers() -> None:
    scan, W = fibonacci()
    w = whole((9, 4))
    want = np.empty_like(w)
    want[:2] = np.add.outer(range(2), range(4))
    for t in range(2, 9):
        want[t] = want[t - 1] + want[t - 2] * w[t - 1]
    got = np.empty_like(w)
    autotune.build(te.create_schedule(scan.op), [W, scan], "llvm")(w, got)
    np.testing.assert_array_equal(got, want)


class Cell:
    """h[t] = max(W h[t - 1] + X[t], 0), read by a stage after the scan."""

    def __init__(self, m: Any = 5, n: Any = 6) -> None:
        self.X, self.W = te.placeholder((m, n), name="X"), te.placeholder((n, n), name="W")
        h = te.placeholder((m, n), name="h")
        k = self.k = te.reduce_axis((0, n), "k")
        self.init = te.compute((1, n), lambda _, i: 0.0, name="first")
        self.sums = te.compute(
            (m, n), lambda t, i: te.sum(h[t - 1, k] * self.W[i, k], axis=k), name="sums"
        )
        self.update = te.compute(
            (m, n), lambda t, i: te.max(self.sums[t, i] + self.X[t, i], 0.0), name="new"
        )
        self.state = h
        self.scan = te.scan(self.init, self.update, h, inputs=[self.X, self.W], name="H")
        self.out = te.compute((n,), lambda i: self.scan[m - 1, i] + self.scan[0, i], name="out")
        self.s = te.create_schedule(self.out.op)
        self.tensors = [self.X, self.W, self.out]

    def check(self) -> None:
        """Run it for one size and compare."""
        x, w = whole((5, 6)), whole((6, 6)) / 4
        h = np.zeros(6, "float32")
        for t in range(1, 5):
            h = np.maximum(w.astype("float32") @ h + x[t], 0)
        got = np.empty(6, "float32")
        autotune.build(self.s, self.tensors, "llvm")(x, w.astype("float32"), got)
        np.testing.assert_allclose(got, h, rtol=1e-5)


def schedules() -> dict[str, Any]:
    """Return ways to schedule `Cell`."""

    def inline_nothing(c: Cell) -> None:
        pass

    def blocked(c: Cell) -> None:
        io, ii = c.s[c.update].split(c.update.op.axis[1], factor=4)
        c.s[c.sums].compute_at(c.s[c.update], io)
        c.s[c.update].vectorize(ii)
        ko, _ = c.s[c.sums].split(c.k, factor=4)
        c.s[c.sums].reorder(ko, c.sums.op.axis[1])

    def steps_split(c: Cell) -> None:
        c.s[c.scan].split(c.scan.op.scan_axis, factor=3)
        c.s[c.init].vectorize(c.init.op.axis[1])

    def steps_unrolled_and_fused(c: Cell) -> None:
        to, ti = c.s[c.scan].split(c.scan.op.scan_axis, nparts=2)
        c.s[c.scan].unroll(c.s[c.scan].fuse(to, ti))

    def parallel(c: Cell) -> None:
        c.s[c.sums].parallel(c.sums.op.axis[1])
        c.s[c.update].parallel(c.update.op.axis[1])

    def state_cached(c: Cell) -> None:
        copy = c.s.cache_read(c.state, "local", [c.sums])
        c.s[copy].vectorize(copy.op.axis[1])

    def sums_in_registers(c: Cell) -> None:
        acc = c.s.cache_write(c.sums, "local")
        c.s[acc].compute_at(c.s[c.sums], c.sums.op.axis[1])

    def factored(c: Cell) -> None:
        _, ki = c.s[c.sums].split(c.k, factor=2)
        parts = c.s.rfactor(c.sums, ki)
        c.s[parts].compute_at(c.s[c.sums], c.s[c.sums].op.axis[1])

    def inputs_by_chunks(c: Cell) -> None:
        to, _ = c.s[c.scan].split(c.scan.op.scan_axis, factor=2)
        copy = c.s.cache_read(c.X, "global", [c.update])
        c.s[copy].compute_at(c.s[c.scan], to)

    return {f.__name__: f for f in locals().values()}


@pytest.mark.parametrize("how", schedules())
def test_init_update_and_stages_of_the_cell_are_scheduled_apart(how: str) -> None:
    cell = Cell()
    schedules()[how](cell)
    cell.check()


def mistakes() -> dict[str, Any]:
    """Return what is refused when a scan is made, and how."""
    m, n = te.var("m"), te.var("n")
    X, h, g = (te.placeholder((m, n), name=name) for name in ("X", "h", "g"))
    one = te.compute((1, n), lambda _, i: 0.0, name="one")
    other = te.compute((1, n), lambda _, i: 0.0, name="other")

    def update(body: Any, shape: Any = (m, n)) -> Any:
        return te.compute(shape, body, name="U")

    good = update(lambda t, i: h[t - 1, i] + X[t, i])
    later = te.compute((m, n), lambda t, i: h[t - 1, i], name="S")
    return {
        "index 0 of state 'h' in 'U', `t`, is the step that is computed; read an earlier one, as "
        "in t - 1": lambda: te.scan(one, update(lambda t, i: h[t, i]), h),
        "index 0 of state 'h' in 'U', `(t + 2)`, is a later step; read an earlier one, as in "
        "t - 1": lambda: te.scan(one, update(lambda t, i: h[t + 2, i]), h),
        "index 0 of state 'h' in 'U', `(t - 2)`, is 2 steps back, further than the 1 of its init; "
        "give init as many steps": lambda: te.scan(one, update(lambda t, i: h[t - 2, i]), h),
        "index 0 of state 'h' in 'U', `(t*2)`, is not the step minus a number, as t - 1 is":
            lambda: te.scan(one, update(lambda t, i: h[t * 2, i]), h),
        "index 0 of state 'h' in 'S', `(t - 1)`, is 2 steps back, further than the 1 of its init; "
        "give init as many steps": lambda: te.scan(one, update(lambda t, i: later[t - 1, i]), h),
        "`S[3, i]` in 'U' depends on states and is not read at the step that is computed, `t`; "
        "read the state for earlier steps":
            lambda: te.scan(one, update(lambda t, i: later[3, i]), h),
        "state 'h' is never read; an update that reads none is a te.compute":
            lambda: te.scan(one, update(lambda t, i: X[t, i]), h),
        "state 'g' is never read; an update that reads none is a te.compute":
            lambda: te.scan([one, other], [good, update(lambda t, i: h[t - 1, i])], [h, g]),
        "give one init, one update and one state for each result, got 1, 1 and 2":
            lambda: te.scan(one, good, [h, g]),
        "update 'U' has shape (n, n) and its state 'h' (m, n); give them one shape, "
        "of the same variables":
            lambda: te.scan(one, update(lambda t, i: h[t - 1, i], (n, n)), h),
        "init 'X' has shape (m, n, 2) and its state 'h' (m, n); they may differ in the first "
        "dimension alone": lambda: te.scan(te.placeholder((m, n, 2), name="X"), good, h),
        "update 'U' is float64 and its state 'h' float32; use .astype('float32') or another type "
        "of the placeholder":
            lambda: te.scan(one, update(lambda t, i: h[t - 1, i].astype("float64")), h),
        "init 'X' has `m` steps; give it a number that is known": lambda: te.scan(X, good, h),
        "state 'one' is computed; make it with te.placeholder": lambda: te.scan(one, good, one),
        "update 'X' is not made by te.compute, which an update must be":
            lambda: te.scan(one, X, h),
        "one tensor is given as init twice; give each state its own":
            lambda: te.scan([one, one], [good, good], [h, g]),
        "init 'I' depends on a state, which it is to start":
            lambda: te.scan(te.compute((1, n), lambda t, i: h[t, i], name="I"), good, h),
        "init takes tensors, got 0": lambda: te.scan(0, good, h),
    }


@pytest.mark.parametrize("message", mistakes())
def test_a_mistaken_scan_is_refused_in_one_line(message: str) -> None:
    with pytest.raises(IRError) as refused:
        mistakes()[message]()
    assert str(refused.value) == f"scan 'scan': {message}"


def test_an_init_longer_than_the_scan_is_refused() -> None:
    with pytest.raises(IRError, match="init 'init' has 2 steps, more than the 1 of the scan"):
        fibonacci(1, back=1)


def unscheduled() -> dict[str, Any]:
    """Return what schedules refuse of scans, and how."""
    own = "its loops, or what it reads"
    steps = "it counts steps, each of which needs those before; {} an axis of the scan's update " \
        "and init"
    time = (
        "on stage 'new', axis 't': it counts the steps of scan 'H', which come one after another "
        "in a loop of 'H'; give the scan_axis of that stage, or another axis of this one"
    )
    thread = te.thread_axis("threadIdx.x")
    return {
        f"split {time}": lambda c: c.s[c.update].split(c.update.op.axis[0], factor=2),
        f"bind {time}": lambda c: c.s[c.update].bind(c.update.op.axis[0], thread),
        "parallel on stage 'H', axis 'H.idx': " + steps.format("parallel"):
            lambda c: c.s[c.scan].parallel(c.scan.op.scan_axis),
        "bind on stage 'H', axis 'H.idx': " + steps.format("bind"):
            lambda c: c.s[c.scan].bind(c.scan.op.scan_axis, thread),
        "compute_at on stage 'sums': it is part of the cell of scan 'H', and stage 'out' is "
        "outside the loop over the steps; compute it in a loop of a stage that is in the cell too":
            lambda c: c.s[c.sums].compute_at(c.s[c.out], c.out.op.axis[0]),
        "compute_at on stage 'sums': it is part of the cell of scan 'H', and stage 'first' is "
        "outside the loop over the steps; compute it in a loop of a stage that is in the cell too":
            lambda c: c.s[c.sums].compute_at(c.s[c.init], c.init.op.axis[1]),
        "compute_at on stage 'sums': it is part of the cell of scan 'H', and axis 'H.idx.outer', "
        "an iteration of which is several steps is outside the loop over the steps; compute it in "
        "a loop of a stage that is in the cell too":
            lambda c: c.s[c.sums].compute_at(
                c.s[c.scan], c.s[c.scan].split(c.scan.op.scan_axis, factor=2)[0]
            ),
        "compute_at on stage 'new': it is a step of scan 'H' and is computed in the scan's array; "
        f"schedule {own}":
            lambda c: c.s[c.update].compute_at(c.s[c.out], c.out.op.axis[0]),
        "compute_inline on stage 'first': it starts scan 'H' and is computed in the scan's array; "
        f"schedule {own}": lambda c: c.s[c.init].compute_inline(),
        "compute_inline on stage 'H': a scan is loops over its steps, into an array of its own; "
        "schedule its init, its update and its scan_axis, or use compute_at":
            lambda c: c.s[c.scan].compute_inline(),
        "reorder on stage 'H', axis 'H.idx.outer': it counts steps, which are not taken in another "
        "order": lambda c: c.s[c.scan].reorder(
            *reversed(c.s[c.scan].split(c.scan.op.scan_axis, factor=2))
        ),
    }


@pytest.mark.parametrize("message", unscheduled())
def test_a_schedule_that_would_leave_the_order_of_steps_is_refused(message: str) -> None:
    with pytest.raises(ScheduleError) as refused:
        unscheduled()[message](Cell())
    assert str(refused.value) == message


def test_a_tensor_of_the_cell_is_read_by_nothing_else() -> None:
    cell = Cell()
    outside = te.compute((5, 6), lambda i, j: cell.sums[i, j] + cell.scan[i, j], name="outside")
    with pytest.raises(ScheduleError, match="'sums' is part of the cell of scan 'H', which has no"):
        te.create_schedule(outside.op)


def test_a_state_is_no_argument() -> None:
    cell = Cell()
    with pytest.raises(LoweringError, match="tensor 'h' stands for the state of a scan"):
        autotune.lower(cell.s, [*cell.tensors, cell.state])


def test_steps_of_scans_are_replayed() -> None:
    for how, schedule in schedules().items():
        cell = Cell()
        schedule(cell)
        again = te.create_schedule(cell.out.op, cell.s.to_json())
        assert str(again) == str(cell.s), how
        assert str(autotune.lower(again, cell.tensors)) == str(autotune.lower(cell.s, cell.tensors))


def three_phases(m: int, n: int, length: int) -> dict[str, Any]:
    """Column sums by blocks of rows: sums of blocks, a scan of these, a scan in each block."""
    blocks = te.ceildiv(m, length)
    X = te.placeholder((m, n), name="X")

    def element(b: Any, t: Any, i: Any) -> Any:
        return te.if_then_else(b * length + t < m, X[b * length + t, i], 0.0)

    k = te.reduce_axis((0, length), "k")
    sums = te.compute((blocks, n), lambda b, i: te.sum(element(b, k, i), axis=k), name="sums")
    before = te.placeholder((blocks, n), name="before")
    none = te.compute((1, n), lambda _, i: 0.0, name="none")
    more = te.compute((blocks, n), lambda b, i: before[b - 1, i] + sums[b - 1, i], name="more")
    carry = te.scan(none, more, before, name="carry")
    inside = te.placeholder((length, blocks, n), name="inside")
    first = te.compute(
        (1, blocks, n), lambda _, b, i: carry[b, i] + element(b, 0, i), name="first"
    )
    later = te.compute(
        (length, blocks, n), lambda t, b, i: inside[t - 1, b, i] + element(b, t, i), name="later"
    )
    parts = te.scan(first, later, inside, name="parts")
    out = te.compute((m, n), lambda j, i: parts[j % length, j // length, i], name="out")
    return locals()


@pytest.mark.parametrize("size", [(37, 20, 8), (8, 5, 4), (3, 3, 4)])
def test_a_scan_is_computed_in_parts_where_columns_do_not_mix(size: tuple[int, int, int]) -> None:
    p = three_phases(*size)
    out, parts = p["out"], p["parts"]
    x = whole(size[:2])
    want = np.cumsum(x, axis=0, dtype=x.dtype)
    s = te.create_schedule(out.op)
    jo, ji = s[out].split(out.op.axis[0], factor=size[2])
    io, ii = s[out].split(out.op.axis[1], factor=8)
    s[out].reorder(jo, io, ji, ii)
    s[out].parallel(jo)
    s[parts].compute_at(s[out], io)
    s[p["later"]].vectorize(p["later"].op.axis[2])
    function = lower_schedule(s, [p["X"], out])
    stored = {b.buffer.name: b.buffer for b in walk(analyse(function).body)
              if isinstance(b, Allocate)}
    if size[1] > 8:
        assert [int(e.value) for e in stored["parts"].shape] == [size[2], 1, 8]
    got = np.full_like(x, -7)
    built = autotune.build(s, [p["X"], out], "llvm")
    built(x, got)
    np.testing.assert_array_equal(got, want)
    assert not built.function.info.not_vectorized
    # On a GPU each thread scans its part in registers.
    s = te.create_schedule(out.op)
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    jo, ji = s[out].split(out.op.axis[0], factor=size[2])
    s[out].reorder(jo, out.op.axis[1], ji)
    s[out].bind(jo, block)
    s[out].bind(out.op.axis[1], thread)
    s[parts].compute_at(s[out], out.op.axis[1])
    got = np.full_like(x, -7)
    autotune.build(s, [p["X"], out], "cuda -on=cpu")(x, got)
    np.testing.assert_array_equal(got, want)


def test_a_part_of_a_scan_whose_columns_mix_is_all_of_it() -> None:
    cell = Cell()
    cell.s[cell.scan].compute_at(cell.s[cell.out], cell.out.op.axis[0])
    cell.check()


@pytest.mark.parametrize("sizes", [(1, 3), (2, 3), (6, 5)])
@pytest.mark.parametrize("symbolic", [True, False])
def test_inputs_of_the_next_step_are_fetched_ahead(sizes: Any, symbolic: bool) -> None:
    sums = ColumnSums() if symbolic else ColumnSums(*sizes)
    ahead = sums.s.cache_read(sums.X, "global", [sums.update])
    sums.s[ahead].compute_at(sums.s[sums.scan], sums.scan.op.scan_axis)
    sums.s[ahead].double_buffer()
    x = whole(sizes)
    got = np.full_like(x, -7)
    interpret(analyse(lower_schedule(sums.s, sums.tensors)), [x, got])
    np.testing.assert_array_equal(got, np.cumsum(x, axis=0, dtype=x.dtype))


def test_loops_fused_in_a_cell_need_no_other_step() -> None:
    m, n = te.var("m"), te.var("n")
    X, h = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="h")
    first = te.compute((1, n), lambda _, i: X[0, i], name="first")
    double = te.compute((m, n), lambda t, i: h[t - 1, i] * 2, name="double")
    more = te.compute((m, n), lambda t, i: double[t, i] + 1, name="more")
    later = te.compute((m, n), lambda t, i: more[t, i] + X[t, i], name="later")
    scan = te.scan(first, later, h)
    s = te.create_schedule(scan.op)
    s[more].split(s[more].fuse(*more.op.axis), factor=4)
    analysed = analyse(lower_schedule(s, [X, scan]))
    stored = [b.buffer for b in walk(analysed.body) if isinstance(b, Allocate)]
    assert [(b.name, b.shape) for b in stored] == [("double", (n,)), ("more", (n,))]
    x = whole((4, 6))
    want, got = x.copy(), np.full_like(x, -7)
    for t in range(1, 4):
        want[t] = want[t - 1] * 2 + 1 + x[t]
    interpret(analysed, [x, got])
    np.testing.assert_array_equal(got, want)


def test_a_stage_of_the_cell_is_not_computed_a_step_ahead() -> None:
    cell = Cell()
    cell.s[cell.sums].double_buffer()
    with pytest.raises(LoweringError, match="reads 'H', which is computed in the same loop"):
        autotune.lower(cell.s, cell.tensors)


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_cells_that_read_cells_compute_the_present_step_in_parts_of_open_steps(parts: int) -> None:
    m, n = te.var("m"), te.var("n")
    X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    first = te.compute((m, n), lambda t, i: state[t - 1, i], name="first")
    second = te.compute((m, n), lambda t, i: first[t, i] * 2, name="second")
    update = te.compute((m, n), lambda t, i: first[t, i] + second[t, i] + X[t, i], name="update")
    result = te.scan(init, update, state, inputs=[X])
    s = te.create_schedule(result.op)
    s[result].split(result.op.scan_axis, nparts=parts)
    function = autotune.lower(s, [X, result])
    for steps in (1, 2, 3, 7):
        x, out = whole((steps, 4)), np.zeros((steps, 4), "float32")
        interpret(function, [x, out])  # which refuses what is outside an array
        want = x.copy()
        for t in range(1, steps):
            want[t] += 3 * want[t - 1]
        np.testing.assert_array_equal(out, want)
