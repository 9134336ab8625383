"""Thread axes: each is a loop of its own, also inside another of its tag; threads reduce together.

What schedules with them compute is run by the interpreter, as threads that run side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune import te
from autotune.errors import InstantiationError
from autotune.feature import get_itervar_feature
from autotune.ir.interpreter import interpret
from autotune.ir.verify import verify
from autotune.lowering.finalise import analyse
from autotune.lowering.kernels import finalise_kernels
from autotune.lowering.nest import lower_schedule


def run(s: Any, tensors: list[Any], *arrays: Any) -> None:
    analysed = analyse(lower_schedule(s, tensors))
    interpret(verify(finalise_kernels(analysed)), list(arrays), races=True)


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).integers(-9, 9, shape).astype("float32")


def rows(s: Any, tensors: list[Any]) -> list[tuple[str, int]]:
    fea = get_itervar_feature(s, tensors)
    return [(row[0][1], row[1][1]) for row in fea]


def copied_in_shared(inner: Any) -> tuple[Any, list[Any]]:
    A = te.placeholder((8, 16), name="A")
    B = te.compute((8, 16), lambda i, j: A[i, 15 - j] * 2, name="B")
    s = te.create_schedule(B.op)
    S = s.cache_read(A, "shared", [B])
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    thread = te.thread_axis("threadIdx.x")
    s[B].bind(B.op.axis[1], thread)
    s[S].compute_at(s[B], B.op.axis[1])
    outer, _part = s[S].split(S.op.axis[1], nparts=8)
    s[S].bind(outer, thread if inner is None else inner)
    return s, [A, B]


def test_another_thread_axis_of_the_same_tag_is_a_row_also_nested() -> None:
    s, tensors = copied_in_shared(te.thread_axis("threadIdx.x"))
    names = [name for name, _ in rows(s, tensors)]
    assert names == ["blockIdx.x", "threadIdx.x", "ax0", "threadIdx.x", "ax1.inner"]


def test_a_thread_axis_in_its_own_scope_is_no_row() -> None:
    s, tensors = copied_in_shared(None)
    names = [name for name, _ in rows(s, tensors)]
    assert names == ["blockIdx.x", "threadIdx.x", "ax0", "ax1.inner"]


@pytest.mark.parametrize("same", [False, True])
def test_nested_thread_axes_of_one_tag_are_one_index_when_run(same: bool) -> None:
    s, tensors = copied_in_shared(None if same else te.thread_axis("threadIdx.x"))
    a, out = numbers(8, 16), np.zeros((8, 16), "float32")
    run(s, tensors, a, out)
    np.testing.assert_array_equal(out, a[:, ::-1] * 2)


def test_a_thread_axis_longer_than_the_loop_around_it_is_refused() -> None:
    A = te.placeholder((4, 4), name="A")
    S = te.compute((4, 16), lambda i, j: A[i, j // 4], name="S")
    B = te.compute((4, 4), lambda i, j: S[i, j * 4], name="B")
    s = te.create_schedule(B.op)
    thread = te.thread_axis("threadIdx.x")
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(B.op.axis[1], thread)
    s[S].set_scope("shared")
    s[S].compute_at(s[B], B.op.axis[0])
    s[S].bind(S.op.axis[1], thread)
    analyse(lower_schedule(s, [A, B]))  # one after the other: two loops
    s[S].compute_at(s[B], B.op.axis[1])
    message = "axis 'j' is longer than the loop around that is bound to the same threadIdx.x"
    with pytest.raises(InstantiationError, match=message):
        analyse(lower_schedule(s, [A, B]))


def test_a_virtual_thread_met_again_is_no_row() -> None:
    A = te.placeholder((4, 6), name="A")
    B = te.compute((4, 6), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((4, 6), lambda i, j: B[i, j] * 2, name="C")
    virtual = te.thread_axis("vthread", name="vx")
    other = te.thread_axis("vthread", name="vx")
    fresh, again = te.create_schedule(C.op), te.create_schedule(C.op)
    for s, axes in ((fresh, [virtual, other]), (again, [virtual, virtual])):
        for stage, axis in zip((B, C), axes, strict=True):
            s[stage].bind(stage.op.axis[0], axis)
    assert [name for name, _ in rows(fresh, [A, C])] == ["vx", "j", "vx", "j"]
    assert [name for name, _ in rows(again, [A, C])] == ["vx", "j", "j"]


def test_a_stage_inside_thread_loops_is_stored_where_these_threads_see_it() -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((4, 8), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    block, thread = C.op.axis
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], block)
    text = str(analyse(lower_schedule(s, [A, C])))
    assert 'attr [B] storage_scope = "shared"' in text
    assert "allocate B[float32 * 1 * 8]" in text
    s[B].compute_at(s[C], thread)
    text = str(analyse(lower_schedule(s, [A, C])))
    assert 'attr [B] storage_scope = "local"' in text
    assert "allocate B[float32 * 1 * 1]" in text


def row_sums(m: int, serial: int, reducer: Any = te.sum) -> tuple[Any, list[Any]]:
    """Sums of 5 rows of `m` numbers, threads taking every `m / serial`-th each."""
    A = te.placeholder((5, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((5,), lambda i: reducer(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    axis = k
    if serial > 1:
        _, axis = s[B].split(k, nparts=serial)
    s[B].bind(axis, te.thread_axis("threadIdx.x"))
    return s, [A, B]


@pytest.mark.parametrize(("m", "serial"), [(8, 1), (12, 3), (13, 4)])
@pytest.mark.parametrize(("reducer", "want"), [(te.sum, np.sum), (te.max, np.max)])
def test_threads_reduce_together(m: int, serial: int, reducer: Any, want: Any) -> None:
    s, tensors = row_sums(m, serial, reducer)
    a, out = numbers(5, m), np.zeros(5, "float32")
    run(s, tensors, a, out)
    np.testing.assert_array_equal(out, want(a, axis=1))


def test_a_factored_reduction_is_finished_by_the_threads_that_began_it() -> None:
    A = te.placeholder((5, 32), name="A")
    k = te.reduce_axis((0, 32), "k")
    B = te.compute((5,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(k, factor=8)
    part = s.rfactor(B, inner)
    over = s[B].op.reduce_axis[0]
    thread = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(over, thread)
    s[part].compute_at(s[B], over)
    s[B].set_store_predicate(thread.var.equal(0))
    a, out = numbers(5, 32), np.zeros(5, "float32")
    run(s, [A, B], a, out)
    np.testing.assert_array_equal(out, a.sum(1))


def test_a_reduction_across_threads_loads_operands_and_the_result_and_counts_no_combine() -> None:
    s, tensors = row_sums(8, 1)
    block, thread = get_itervar_feature(s, tensors)
    assert [pair[0] for pair in block[3:]] == ["A_0", "B_0", "reduce_temp0_0"]
    assert thread[2] == ("_arith_", 0, 0, 0)
    assert {p[0]: p[1:] for p in thread[3:]} == {
        "A_0": (1, -1, 8, 1, 0, 0),
        "B_0": (0, -1, 1, 8, 0, 0),
        "reduce_temp0_0": (0, -1, 1, 8, 0, 0),
    }


def test_threads_add_up_what_each_has_summed_first() -> None:
    s, tensors = row_sums(12, 3)
    fea = get_itervar_feature(s, tensors)
    assert [row[0][1] for row in fea] == ["blockIdx.x", "threadIdx.x", "k.outer"]
    assert [pair[0] for pair in fea[1][3:]] == [
        "A_0",
        "B_0",
        *(f"normal_reduce_temp0_{i}" for i in range(4)),
        "reduce_temp0_0",
    ]
    assert fea[2][2] == ("_arith_", 1, 0, 0)
