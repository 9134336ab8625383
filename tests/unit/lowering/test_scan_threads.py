"""Scans run side by side: parallel loops and threads around the steps, barriers where they share.

The interpreter, which finds races, NumPy, and threads on the CPU agree; NVRTC takes the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cuda_compiler import needs_nvrtc
from support.gpu_cases import bound
from support.scans import ColumnSums, TwoStages, TwoStates, assert_sums
from support.verify import verify

import autotune
from autotune import te
from autotune.errors import LoweringError
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.stmt import Barrier, For, LoopKind, PrimFunc
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse
from autotune.lowering.gpu.finalise_kernels import finalise_kernels, split_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule

RNG = np.random.default_rng(0)


def whole(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    return RNG.integers(-3, 4, shape).astype(dtype)


def kernels(schedule: Any, tensors: Any) -> PrimFunc:
    """Return the final form for GPUs."""
    return verify(finalise_kernels(analyse(lower_schedule(schedule, tensors))))


def assert_runs(schedule: Any, tensors: Any, inputs: Any, *want: Any) -> PrimFunc:
    """Run it on GPU threads, in the interpreter and on the CPU; return its final form."""
    final = kernels(schedule, tensors)
    on_cpu = autotune.build(schedule, tensors, "cuda -on=cpu")
    for run in (lambda *a: interpret(final, a, races=True), on_cpu):
        got = [np.full_like(w, -7) for w in want]
        run(*inputs, *got)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    return final


def order(function: PrimFunc) -> str:
    """Return the loops that are not alone: B for blocks, T for threads, p for parallel, s."""
    found = ""
    for stmt in walk(function.body):
        if isinstance(stmt, For):
            kind = stmt.thread_tag[:1].upper() or stmt.kind.value[0]
            found += kind
        elif isinstance(stmt, Barrier):
            found += "|"
    return found


@pytest.mark.parametrize("sizes", [(None, None), (5, 70)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_column_sums_are_one_launch_with_the_steps_inside(sizes: Any, dtype: str) -> None:
    sums = ColumnSums(*sizes, dtype=dtype).bind(32)
    x = whole((5, 70), dtype)
    final = assert_runs(sums.s, sums.tensors, [x], np.cumsum(x, axis=0, dtype=dtype))
    assert order(final) == "BTs"
    assert len(split_kernels(final)) == 1


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 300), (7, 13), (3, 256), (2, 257)])
def test_sizes_below_the_number_of_threads_and_primes(m: int, n: int) -> None:
    for sums in (ColumnSums().bind(), ColumnSums(m, n).bind()):
        assert_sums(sums.build("cuda -on=cpu"), whole((m, n)))


@needs_nvrtc
def test_the_programs_of_the_tutorial_compile_for_gpus() -> None:
    for program in (ColumnSums().bind(), TwoStages(), TwoStates()):
        built = autotune.build(program.s, program.tensors, "cuda -arch=sm_90")
        assert built._compiled.program.cubin.kernels  # type: ignore[union-attr]


def test_a_cell_of_two_stages_runs_in_threads() -> None:
    stages = TwoStages()
    s, block, thread = stages.s, te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    init_o, init_i = s[stages.init].split(stages.init.op.axis[1], factor=32)
    for part, outer, inner in (
        (stages.init, init_o, init_i),
        (stages.s2, stages.xo, s[stages.s2].leaf_axes[-1]),
    ):
        s[part].bind(outer, block)
        s[part].bind(inner, thread)
    s[stages.s1].compute_at(s[stages.s2], s[stages.s2].leaf_axes[-1])
    x = whole((4, 45))
    assert order(assert_runs(s, stages.tensors, [x], stages.reference(x))) == "BTs"


def mirrored(factor: int) -> tuple[Any, list[Any]]:
    """Return a scan of 16 columns whose update reads a stage of the cell from behind."""
    X, state = te.placeholder((4, 16), name="X"), te.placeholder((4, 16), name="state")
    first = te.compute((1, 16), lambda _, i: X[0, i], name="first")
    half = te.compute((4, 16), lambda t, i: state[t - 1, i] + X[t, i], name="half")
    later = te.compute((4, 16), lambda t, i: half[t, 15 - i] * 0.5, name="later")
    scan = te.scan(first, later, state, name="scan")
    s = te.create_schedule(scan.op)
    for part in (first, half, later):
        bound(s[part], part.op.axis[1], factor)
    return s, [X, scan]


def test_threads_wait_for_a_stage_of_the_cell_that_others_compute() -> None:
    x = whole((4, 16))
    want = x.copy()
    for t in range(1, 4):
        want[t] = (want[t - 1] + x[t])[::-1] / 2
    assert order(assert_runs(*mirrored(16), [x], want)) == "BTs||"


def test_blocks_that_share_a_stage_of_the_cell_are_refused() -> None:
    with pytest.raises(LoweringError, match="blocks share elements of 'half', which a scan"):
        kernels(*mirrored(8))


def test_two_states_of_which_one_reads_the_other_wait_in_each_step() -> None:
    states = TwoStates()
    thread = te.thread_axis("threadIdx.x")
    for part in (states.init1, states.init2, states.update1, states.update2):
        _, inner = states.s[part].split(part.op.axis[1], factor=8)
        states.s[part].bind(inner, thread)
    x = whole((5, 13))
    final = assert_runs(states.s, states.tensors, [x], *states.reference(x, 11))
    steps = next(s for s in walk(final.body) if isinstance(s, For) and s.var.name == "scan.idx")
    assert any(isinstance(s, Barrier) for s in walk(steps))


def test_a_column_read_in_the_only_step_that_is_updated_is_waited_for() -> None:
    """Its index is a constant, which is a step and a column."""
    X = te.placeholder((3, 5), name="X")
    one, two = te.placeholder((3, 1), name="one"), te.placeholder((3, 5), name="two")
    inits = [te.compute((2, w), lambda t, i: X[t, i], name=f"first{w}") for w in (1, 5)]
    updates = [
        te.compute((3, 1), lambda t, i: one[t - 1, i] + two[t - 1, i + 1], name="sums"),
        te.compute((3, 5), lambda t, i: two[t - 1, i] + X[t, i], name="later"),
    ]
    scans = te.scan(inits, updates, [one, two])
    s = te.create_schedule(scans[0].op)
    for part in (*inits, *updates):
        s[part].bind(s[part].split(part.op.axis[1], factor=3)[1], te.thread_axis("threadIdx.x"))
    x = whole((3, 5))
    sums, later = x[:, :1].copy(), x.copy()
    sums[2], later[2] = x[1, 0] + x[1, 1], x[1] + x[2]
    assert "|" in order(assert_runs(s, [X, *scans], [x], sums, later))


class Recurrent:
    """h[t] = max(W h[t - 1] + X[t], 0) for a batch; where each part is bound is up to tests."""

    def __init__(self, m: int = 4, b: int = 3, n: int = 6) -> None:
        self.X, self.W = te.placeholder((m, b, n), name="X"), te.placeholder((n, n), name="W")
        h = te.placeholder((m, b, n), name="h")
        k = te.reduce_axis((0, n), "k")
        self.init = te.compute((1, b, n), lambda _, i, j: 0.0, name="first")
        self.sums = te.compute(
            (m, b, n), lambda t, i, j: te.sum(h[t - 1, i, k] * self.W[j, k], axis=k), name="sums"
        )
        self.new = te.compute(
            (m, b, n),
            lambda t, i, j: te.max(self.sums[t, i, j] + self.X[t, i, j], 0.0),
            name="new",
        )
        self.H = te.scan(self.init, self.new, h, inputs=[self.X, self.W], name="H")
        self.s = te.create_schedule(self.H.op)
        self.s[self.sums].compute_at(self.s[self.new], self.new.op.axis[2])
        self.tensors = [self.X, self.W, self.H]

    def bind(self, tags: dict[str, int]) -> Recurrent:
        """Bind axes of init and update, given by number, to threads."""
        for tag, axis in tags.items():
            thread = te.thread_axis(tag)
            for part in (self.init, self.new):
                self.s[part].bind(part.op.axis[axis], thread)
        return self

    @staticmethod
    def reference(x: Any, w: Any) -> Any:
        h = np.zeros_like(x)
        for t in range(1, len(x)):
            h[t] = np.maximum(h[t - 1] @ w.T + x[t], 0)
        return h


@pytest.mark.parametrize(
    "tags", [{"blockIdx.x": 1, "threadIdx.x": 2}, {"threadIdx.y": 1, "threadIdx.x": 2}]
)
def test_threads_that_read_what_others_wrote_meet_once_in_a_step(tags: dict[str, int]) -> None:
    cell = Recurrent().bind(tags)
    x, w = whole((4, 3, 6)), whole((6, 6)) / np.float32(4)
    final = assert_runs(cell.s, cell.tensors, [x, w], cell.reference(x, w))
    assert re.fullmatch(r"[BT]+s[|s]*", order(final))
    assert order(final).count("|") == 1


def test_sums_in_registers_are_taken_by_one_thread_as_well() -> None:
    cell = Recurrent()
    cell.s[cell.sums].set_scope("local")
    x, w = whole((4, 3, 6)), whole((6, 6)) / np.float32(4)
    final = assert_runs(cell.s, cell.tensors, [x, w], cell.reference(x, w))
    assert len(split_kernels(final)) == 1


def test_an_init_that_one_thread_computes_is_waited_for() -> None:
    cell = Recurrent()
    cell.s[cell.new].bind(cell.new.op.axis[2], te.thread_axis("threadIdx.x"))
    x, w = whole((4, 3, 6)), whole((6, 6)) / np.float32(4)
    assert "|" in order(assert_runs(cell.s, cell.tensors, [x, w], cell.reference(x, w)))


def test_blocks_that_would_read_what_others_wrote_are_refused() -> None:
    cell = Recurrent().bind({"blockIdx.x": 2, "threadIdx.x": 1})
    with pytest.raises(LoweringError) as refused:
        kernels(cell.s, cell.tensors)
    assert str(refused.value) == (
        "blocks share columns of 'H', the state of a scan, at `((threadIdx.x*6) + blockIdx.x)`, "
        "and cannot wait for one another between steps; bind the same columns of init and update "
        "to one block, or let one block compute all"
    )


def test_why_blocks_may_share_is_said_where_they_need_not() -> None:
    m, n = te.var("m"), te.var("n")
    X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    first = te.compute((2, n), lambda t, i: X[t, i], name="first")
    half = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i], name="half")
    later = te.compute((m, n), lambda t, i: half[t, i] + half[t - 1, i], name="later")
    s = te.create_schedule((scan := te.scan(first, later, state)).op)
    for part in (first, half, later):
        bound(s[part], part.op.axis[1], 8)
    with pytest.raises(LoweringError, match=r"that only a call knows.*give sizes as numbers"):
        kernels(s, [X, scan])
    X, state = te.placeholder((3, 4, 5), name="X"), te.placeholder((3, 4, 5), name="state")
    first = te.compute((1, 4, 5), lambda _, i, j: X[0, i, j], name="first")
    later = te.compute((3, 4, 5), lambda t, i, j: state[t - 1, i, 4 - j] + X[t, i, j], name="later")
    s = te.create_schedule((scan := te.scan(first, later, state)).op)
    for part in (first, later):
        s[part].bind(part.op.axis[1], te.thread_axis("blockIdx.x"))
    with pytest.raises(LoweringError, match=r"run backwards.*let indices run upwards"):
        kernels(s, [X, scan])


def test_blocks_of_other_widths_for_init_and_update_are_refused() -> None:
    sums = ColumnSums()
    for part, width in ((sums.init, 64), (sums.update, 32)):
        bound(sums.s[part], part.op.axis[1], width)
    with pytest.raises(LoweringError, match="blocks share columns of 'scan'"):
        kernels(sums.s, sums.tensors)


def reversed_columns(n: Any) -> Any:
    """Each step reads the one before from right to left."""
    m = te.var("m")
    X = te.placeholder((m, n), name="X")
    h = te.placeholder((m, n), name="h")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    update = te.compute((m, n), lambda t, i: h[t - 1, n - 1 - i] + X[t, i], name="update")
    scan = te.scan(init, update, h)
    return te.create_schedule(scan.op), [X, scan], init, update


def assert_mixed(built: Any, x: Any) -> None:
    """Check that each step has read the one before from right to left."""
    want, got = x.copy(), np.empty_like(x)
    for t in range(1, len(x)):
        want[t] = want[t - 1, ::-1] + x[t]
    built(x, got)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("n", [None, 24])
def test_steps_that_read_other_columns_are_not_taken_apart(n: int | None) -> None:
    size = te.var("n") if n is None else n
    s, tensors, *parts = reversed_columns(size)
    for part in parts:
        outer, inner = s[part].split(part.op.axis[1], factor=8)
        s[part].parallel(outer)
        s[part].vectorize(inner)
    built = autotune.build(s, tensors, "llvm")
    assert_mixed(built, whole((5, 24)))
    assert order(built.function).count("p") == 2  # that of the steps is inside their loop
    s, tensors, *parts = reversed_columns(size)
    for part in parts:
        bound(s[part], part.op.axis[1], 8)
    with pytest.raises(LoweringError, match="blocks share columns of 'scan'"):
        kernels(s, tensors)


@pytest.mark.parametrize("sizes", [(None, None), (5, 70)])
def test_parallel_loops_go_around_the_steps_and_lanes_stay(sizes: Any) -> None:
    sums = ColumnSums(*sizes)
    for part in (sums.init, sums.update):
        xo, xi = sums.s[part].split(part.op.axis[1], factor=16)
        sums.s[part].parallel(xo)
        sums.s[part].vectorize(sums.s[part].split(xi, factor=8)[1])
    built = sums.build("llvm")
    assert order(built.function)[0] == "p"
    assert order(built.function).count("p") == 1
    assert not built.function.info.not_vectorized
    assert_sums(built, whole((5, 70)))


def steps_unrolled(s: te.Schedule, scan: Any, parts: Any) -> None:
    """Split columns into loops of 8 and 4, and write three steps out."""
    for part in parts:
        outer, inner = s[part].split(part.op.axis[1], factor=8)
        s[part].parallel(outer)
        s[part].split(inner, factor=4)
    s[scan].unroll(s[scan].split(scan.op.scan_axis, factor=3)[1])


@pytest.mark.parametrize("sizes", [(None, None), (9, 30), (10, 32)])
def test_unrolled_steps_go_into_loops_over_columns_of_their_own(sizes: Any) -> None:
    sums = ColumnSums(*sizes)
    steps_unrolled(sums.s, sums.scan, (sums.init, sums.update))
    built = sums.build("llvm")
    unrolled = [s for s in walk(built.function.body) if is_unrolled(s)]
    assert unrolled
    assert not any(isinstance(s, For) for loop in unrolled for s in walk(loop.body))
    assert_sums(built, whole((9, 30) if sizes[0] is None else sizes))


def test_all_steps_of_any_number_may_be_unrolled() -> None:
    sums = ColumnSums()
    sums.s[sums.scan].unroll(sums.scan.op.scan_axis)
    assert_sums(sums.build("llvm"), whole((6, 5)))


def test_unrolled_steps_stay_around_columns_that_mix() -> None:
    s, tensors, *parts = reversed_columns(24)
    steps_unrolled(s, tensors[1], parts)
    built = autotune.build(s, tensors, "llvm")
    unrolled = [s for s in walk(built.function.body) if is_unrolled(s)]
    assert any(isinstance(s, For) for loop in unrolled for s in walk(loop.body))
    assert_mixed(built, whole((7, 24)))


def is_unrolled(stmt: Any) -> bool:
    return isinstance(stmt, For) and stmt.kind is LoopKind.UNROLLED


def running_sums(sizes: tuple[Any, ...], bind: Callable[[Any, Any], None]) -> tuple[Any, list[Any]]:
    """Sums down the first dimension, all others fused into one axis that is bound."""
    X = te.placeholder(sizes, name="X")
    state = te.placeholder(sizes, name="state")
    first = te.compute((1, *sizes[1:]), lambda _, *i: X[(0, *i)], name="first")
    later = te.compute(sizes, lambda t, *i: state[(t - 1, *i)] + X[(t, *i)], name="later")
    sums = te.scan(first, later, state, name="sums")
    s = te.create_schedule(sums.op)
    for part in (first, later):
        bind(s[part], s[part].fuse(*part.op.axis[1:]))
    return s, [X, sums]


def in_threads(stage: Any, axis: Any) -> None:
    bound(stage, axis, 8)


@pytest.mark.parametrize(("ndim", "inner"), [(3, 3), (3, 1), (4, 2)])
def test_fused_columns_of_a_state_of_symbolic_sizes_are_shared_out_among_threads(
    ndim: int, inner: int
) -> None:
    sizes = (te.var("m"), inner, te.var("k"), te.var("l"))[:ndim]
    s, tensors = running_sums(sizes, in_threads)
    final = kernels(s, tensors)
    assert "floormod" not in str(final)
    for last in (1, 5, 7):
        x = whole((4, inner, last, 3)[:ndim])
        assert_runs(s, tensors, [x], np.cumsum(x, axis=0))
    if ndim == 3:  # not contiguous: strides are arguments
        built = autotune.build(s, tensors, "cuda -on=cpu")
        assert_sums(built, whole((4, 5, inner)).transpose(0, 2, 1))


def test_fused_columns_of_a_state_of_symbolic_sizes_are_shared_out_among_cores() -> None:
    sizes = (te.var("m"), 3, te.var("k"))
    s, tensors = running_sums(sizes, lambda stage, axis: stage.parallel(axis))
    built = autotune.build(s, tensors, "llvm")
    assert loops_of(built.function)[0].kind is LoopKind.PARALLEL
    for last in (1, 5, 7):
        assert_sums(built, whole((4, 3, last)))


def loops_of(function: PrimFunc) -> list[For]:
    return [stmt for stmt in walk(function.body) if isinstance(stmt, For)]
