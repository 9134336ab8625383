"""Parallel loops directly inside each other; OpenMP is a Python function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autotune
from autotune import te
from autotune.codegen.llvm import emit
from autotune.errors import LoweringError, ScheduleError
from autotune.ir.stmt import For, LoopKind
from autotune.ir.visitor import walk
from autotune.runtime.cpu.llvm_compiler import _linked, object_code
from autotune.target import Target

BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
PARALLEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
NUMBER = ctypes.CFUNCTYPE(ctypes.c_int)
SIZES = st.integers(0, 9)


class Nest:
    """C[i, j, k] = A[i, j, k] + 1 of sizes known at the call; `count` outer loops are parallel."""

    def __init__(self, count: int = 2) -> None:
        self.sizes = te.var("l"), te.var("m"), te.var("n")
        self.A = te.placeholder(self.sizes, name="A")
        self.C = te.compute(self.sizes, lambda i, j, k: self.A[i, j, k] + 1, name="C")
        self.s = te.create_schedule(self.C.op)
        for axis in self.axes[:count]:
            self.s[self.C].parallel(axis)

    @property
    def axes(self) -> list[Any]:
        return list(self.C.op.axis)

    def limit(self, most: Any) -> Nest:
        """At most so many threads."""
        for axis in self.axes[:2]:
            self.s[self.C].pragma(axis, "num_threads", most)
        return self


def parts(nest: Nest, sizes: tuple[int, ...], threads: int) -> list[list[int]]:
    """Return which elements each thread of a launch computes, in flat order; none: no launch."""
    return parts_of(nest.s, nest.A, nest.C, sizes, sizes, threads)


def parts_of(
    s: Any, A: Any, C: Any, shape: tuple[int, ...], sizes: tuple[int, ...], threads: int
) -> list[list[int]]:
    """Return the parts of any schedule of C = A + 1, by `parts`; `sizes` are those of the call."""
    source = emit(autotune.lower(s, [A, C]))
    number, team = [0], [1]
    before, after = np.zeros(shape, "f4"), np.zeros(shape, "f4")
    found: list[list[int]] = []

    def launch(body: int, context: int, asked: int, _: int) -> None:
        team[0] = asked
        for number[0] in range(asked):
            done = after.copy()
            BODY(body)(context)
            found.append(list(map(int, np.flatnonzero(after != done))))

    calls = {
        "GOMP_parallel": PARALLEL(launch),
        "omp_get_thread_num": NUMBER(lambda: number[0]),
        "omp_get_num_threads": NUMBER(lambda: team[0]),
    }
    addresses = {n: ctypes.cast(c, ctypes.c_void_p).value or 0 for n, c in calls.items()}
    code = object_code(source, Target.of("llvm"), None, None)
    keep, symbols = _linked(code, [source.entry], addresses)
    types = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * len(sizes) + [ctypes.c_int32]
    entry: Callable[..., int] = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(symbols[source.entry])
    assert entry(before.ctypes.data, after.ctypes.data, *sizes, threads) == 0
    np.testing.assert_array_equal(after, 1)
    del keep
    return found


@given(SIZES, SIZES, st.integers(1, 3), st.integers(1, 12), st.integers(1, 3))
def test_threads_share_the_iterations_of_a_nest_in_contiguous_parts(i, j, k, threads, count):
    whole = range(i * j * k)
    found = parts(Nest(count), (i, j, k), threads)
    iterations = [i, i * j, i * j * k][count - 1]
    if iterations <= 1 or threads == 1:
        assert not found
        return
    assert len(found) == min(threads, iterations)
    assert [element for part in found for element in part] == list(whole)
    lengths = [len(part) * iterations // len(whole) for part in found] if whole else [0]
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("most", [0, 1])
def test_a_loop_of_one_thread_is_not_launched(most):
    assert not parts(Nest().limit(most), (5, 6, 2), 8)


def test_at_most_so_many_threads_share_a_nest():
    assert len(parts(Nest().limit(3), (5, 6, 2), 8)) == 3
    assert len(parts(Nest().limit(3), (5, 6, 2), 2)) == 2


def test_the_number_of_threads_may_depend_on_sizes_of_the_call():
    nest = Nest()
    nest.limit(te.max(0, nest.sizes[0] - 2))
    assert len(parts(nest, (6, 3, 1), 8)) == 4
    assert not parts(nest, (3, 9, 1), 8)
    assert not parts(nest, (1, 9, 1), 8)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("at", ["outer", "inner"])
def test_one_limit_holds_for_a_whole_nest(axis, at):
    nest = Nest()
    nest.s[nest.C].pragma(nest.axes[axis], "num_threads", 2)
    sizes = (1, 6, 2) if at == "inner" else (6, 1, 2)
    assert len(parts(nest, sizes, 8)) == 2
    fixed = te.placeholder((1, 6), name="A")
    C = te.compute((1, 6), lambda i, j: fixed[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    for own in C.op.axis:
        s[C].parallel(own)
    s[C].pragma(C.op.axis[axis], "num_threads", 2)
    assert len(parts_of(s, fixed, C, (1, 6), (), 8)) == 2


def test_the_strictest_limit_of_a_nest_holds():
    nest = Nest()
    for axis, most in zip(nest.axes[:2], (5, 3), strict=True):
        nest.s[nest.C].pragma(axis, "num_threads", most)
    assert len(parts(nest, (5, 6, 2), 8)) == 3


def test_a_loop_that_its_guard_shortens_keeps_its_limit():
    nest = Nest(0)
    inner = nest.s[nest.C].split(nest.axes[0], factor=64)[1]
    nest.s[nest.C].parallel(inner)
    nest.s[nest.C].pragma(inner, "num_threads", 3)
    assert len(parts(nest, (7, 2, 1), 8)) == 3


def test_parallel_loops_around_the_steps_of_a_scan_keep_their_limit():
    X, state = te.placeholder((9, 64), name="X"), te.placeholder((9, 64), name="state")
    init = te.compute((1, 64), lambda _, j: X[0, j], name="init")
    update = te.compute((9, 64), lambda t, j: state[t - 1, j] + X[t, j], name="update")
    result = te.scan(init, update, state, inputs=[X])
    s = te.create_schedule(result.op)
    for stage in (init, update):
        outer, _ = s[stage].split(stage.op.axis[1], factor=16)
        s[stage].parallel(outer)
    s[update].pragma(outer, "num_threads", 3)
    function = autotune.lower(s, [X, result])
    (loop,) = (x for x in walk(function.body) if isinstance(x, For) and x.kind is LoopKind.PARALLEL)
    assert str(function.info.num_threads[loop.var]) == "3"


@pytest.mark.parametrize("size", [10, None])
def test_guards_of_an_outer_loop_leave_the_next_one_directly_inside(size):
    """Tiles of four rows, of which the last one is not whole, times columns."""
    n = te.var("n") if size is None else size
    A = te.placeholder((n, 12), name="A")
    C = te.compute(A.shape, lambda i, j: A[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    s[C].reorder(outer, C.op.axis[1], inner)
    s[C].unroll(inner)
    for axis in (outer, C.op.axis[1]):
        s[C].parallel(axis)
    found = parts_of(s, A, C, (10, 12), () if size else (10,), 18)
    assert [len(part) for part in found] == [8] * 12 + [4] * 6


def test_a_loop_whose_length_depends_on_the_loop_around_stays_serial_inside_it():
    A = te.placeholder((te.var("n"),), name="A")
    C = te.compute(A.shape, lambda i: A[i] + 1, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=5)
    s[C].parallel(outer)
    s[C].parallel(inner)
    built = autotune.build(s, [A, C], "llvm")
    for size in (1, 4, 5, 6, 23):
        a, c = np.arange(size, dtype="f4"), np.zeros(size, "f4")
        built(a, c)
        np.testing.assert_array_equal(c, a + 1)


def test_a_serial_loop_between_parallel_loops_is_refused():
    nest = Nest(1)
    nest.s[nest.C].parallel(nest.axes[2])
    with pytest.raises(LoweringError, match="'k' of stage 'C' is parallel inside the"):
        autotune.lower(nest.s, [nest.A, nest.C])


def test_the_number_of_threads_of_a_serial_loop_is_refused():
    nest = Nest(1)
    with pytest.raises(ScheduleError, match="'num_threads' is for a loop that is parallel already"):
        nest.s[nest.C].pragma(nest.axes[1], "num_threads", 2)


def test_a_number_of_threads_that_may_be_negative_is_refused():
    nest = Nest()
    with pytest.raises(ScheduleError, match=r"give a number, a knob, or te.max\(0, \.\.\.\)$"):
        nest.limit(nest.sizes[0] - 2)


def test_steps_with_a_number_of_threads_are_replayed():
    nest = Nest().limit(3)
    again = te.create_schedule(nest.C.op, steps=nest.s.to_json())
    assert again.to_json() == nest.s.to_json()
