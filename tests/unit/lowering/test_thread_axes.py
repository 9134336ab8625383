"""Thread axes: each is a loop of its own, also inside another of its tag; threads reduce together.

What schedules with them compute is run by the interpreter, as threads that run side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.verify import verify

from autotune import te
from autotune.errors import InstantiationError, LoweringError, ScheduleError
from autotune.feature import get_itervar_feature
from autotune.ir.evaluate.interpreter import interpret
from autotune.lowering.finalise import analyse
from autotune.lowering.gpu.finalise_kernels import finalise_kernels
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.lowering.target_limits import launches, shared_bytes


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


TAGS = ("threadIdx.x", "threadIdx.y", "threadIdx.z", "blockIdx.x", "blockIdx.z", "vthread")


def mapped() -> tuple[Any, Any]:
    """B = 2 A of 64 x 64 elements, and its schedule."""
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[i, j] * 2, name="B")
    return te.create_schedule(B.op), B


def summed() -> tuple[Any, Any]:
    """B, the sums of rows, and its schedule."""
    A = te.placeholder((64, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return te.create_schedule(B.op), B


def scanned() -> tuple[Any, Any]:
    """The update of a cumulative sum of rows of 8 x 8 numbers, and its schedule."""
    A = te.placeholder((8, 8, 8), name="A")
    state = te.placeholder((8, 8, 8))
    first = te.compute((1, 8, 8), lambda _, i, j: A[0, i, j], name="first")
    update = te.compute((8, 8, 8), lambda t, i, j: state[t - 1, i, j] + A[t, i, j], name="B")
    return te.create_schedule(te.scan(first, update, state, inputs=[A]).op), update


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("program", [mapped, summed, scanned])
def test_one_thread_axis_bound_to_two_axes_of_a_stage_is_refused(program: Any, tag: str) -> None:
    s, B = program()
    *_, i, j = (*B.op.axis, *B.op.reduce_axis)
    thread = te.thread_axis(tag)
    s[B].bind(i, thread)
    with pytest.raises(ScheduleError, match=r"already|only the threads of a block share"):
        s[B].bind(j, thread)
    if tag == "vthread" and program is not summed:
        s[B].bind(j, te.thread_axis(tag))  # another index


@pytest.mark.parametrize("tag", TAGS[:-1])
@pytest.mark.parametrize("layout", ["itervar", "autotvm08"])
def test_two_thread_axes_of_one_name_have_no_features_and_no_loops(tag: str, layout: str) -> None:
    s, B = mapped()
    A = B.op.input_tensors[0]
    s[B].bind(B.op.axis[0], te.thread_axis(tag))
    with pytest.raises(ScheduleError, match="which has one index for both"):
        s[B].bind(B.op.axis[1], te.thread_axis(tag))
    assert len(get_itervar_feature(s, [A, B], layout=layout)) == 2


def computed_inside(scope: str | None, at: int, own: int, *axes: Any) -> tuple[Any, list[Any]]:
    """B reads C backwards, and computes it at an axis bound as C's own axis is."""
    A = te.placeholder((6, 6), name="A")
    C = te.compute((6, 6), lambda i, j: A[i, j] + 1, name="C")
    B = te.compute((6, 6), lambda i, j: C[i, 5 - j] * 2, name="B")
    s = te.create_schedule(B.op)
    if scope is not None:
        s[C].set_scope(scope)
    s[B].bind(B.op.axis[at], axes[0])
    s[C].compute_at(s[B], B.op.axis[at])
    s[C].bind(C.op.axis[own], axes[1])
    return s, [A, B]


def inner_axes(tag: str, same: bool) -> tuple[Any, Any]:
    first = te.thread_axis(tag)
    return first, first if same else te.thread_axis(tag)


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("tag", ["threadIdx.x", "threadIdx.z", "vthread"])
@pytest.mark.parametrize(("at", "own"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_stages_inside_a_thread_loop_share_it_by_shared_storage(
    at: int, own: int, tag: str, same: bool
) -> None:
    s, tensors = computed_inside("shared", at, own, *inner_axes(tag, same))
    a, out = numbers(6, 6), np.zeros((6, 6), "float32")
    run(s, tensors, a, out)
    np.testing.assert_array_equal(out, (a[:, ::-1] + 1) * 2)


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize(("at", "own"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(
    ("tag", "scope"),
    [
        ("threadIdx.x", None),
        ("threadIdx.y", "local"),
        ("threadIdx.x", "global"),
        ("blockIdx.x", None),
        ("blockIdx.x", "shared"),
        ("blockIdx.y", "local"),
    ],
)
def test_what_each_thread_keeps_to_itself_is_not_divided_among_them(
    tag: str, scope: str | None, at: int, own: int, same: bool
) -> None:
    s, tensors = computed_inside(scope, at, own, *inner_axes(tag, same))
    with pytest.raises(InstantiationError, match=f"bound to {tag} inside a loop that is so too"):
        analyse(lower_schedule(s, tensors))


def test_what_each_virtual_thread_keeps_to_itself_is_not_divided_among_them() -> None:
    s, tensors = computed_inside(None, 1, 1, *inner_axes("vthread", True))
    with pytest.raises(InstantiationError, match="each vthread keeps the result of 'C' to itself"):
        analyse(lower_schedule(s, tensors))
    s, tensors = computed_inside(None, 1, 1, *inner_axes("vthread", False))
    a, out = numbers(6, 6), np.zeros((6, 6), "float32")
    run(s, tensors, a, out)
    np.testing.assert_array_equal(out, (a[:, ::-1] + 1) * 2)


@pytest.mark.parametrize("scope", ["shared", "local", None])
def test_blocks_of_an_inner_stage_alone_are_refused(scope: str | None) -> None:
    axes = te.thread_axis("blockIdx.x"), te.thread_axis("blockIdx.y")
    s, tensors = computed_inside(scope, 0, 1, *axes)
    analysed = analyse(lower_schedule(s, tensors))
    message = "its loop over blockIdx.y gives each block a part of it"
    with pytest.raises(LoweringError, match=message):
        finalise_kernels(analysed)


def test_a_thread_loop_of_a_size_that_only_a_call_knows_is_not_shared_by_a_longer_one() -> None:
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((8,), lambda i: A[i % n], name="C")
    B = te.compute((n,), lambda i: C[i % 8] * 2, name="B")
    s = te.create_schedule(B.op)
    thread = te.thread_axis("threadIdx.x")
    s[C].set_scope("shared")
    s[C].compute_at(s[B], B.op.axis[0])
    s[B].bind(B.op.axis[0], thread)
    s[C].bind(C.op.axis[0], thread)
    with pytest.raises(LoweringError, match="axis 'i' is longer than the loop around"):
        lower_schedule(s, [A, B])


@pytest.mark.parametrize("factor", [2, 3, 6])
@pytest.mark.parametrize("others", [False, True])
def test_threads_reduce_together_for_each_virtual_thread(factor: int, others: bool) -> None:
    A = te.placeholder((4, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    B = te.compute((4, 5), lambda i, j: te.sum(A[i, k] * (j + 1), axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("vthread"))
    if others:
        s[B].bind(B.op.axis[1], te.thread_axis("threadIdx.x"))
    s[B].bind(s[B].split(k, factor=factor)[1], te.thread_axis("threadIdx.y"))
    a, out = numbers(4, 6), np.zeros((4, 5), "float32")
    run(s, [A, B], a, out)
    np.testing.assert_array_equal(out, a.sum(1)[:, None] * np.arange(1, 6, dtype="float32"))
    if others and factor == 3:
        (kernel,) = launches(lower_schedule(s, [A, B]).body)
        parts = 4 * 5 * 3 * 4  # virtual threads, columns, members, bytes
        assert shared_bytes(kernel).value >= parts


@pytest.mark.parametrize("tag", ["threadIdx.x", "blockIdx.x"])
@pytest.mark.parametrize(("rows", "length"), [(2, 1), (4, 1), (2, 2), (3, 1)])
def test_short_rows_that_share_a_vector_are_written_by_a_thread_or_block_each(
    tag: str, rows: int, length: int
) -> None:
    A = te.placeholder((rows, length), name="A")
    B = te.compute((rows, length), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    row, column = B.op.axis
    s[B].split(column, factor=4, offset=row.var * length % 4)
    s[B].bind(row, te.thread_axis(tag))
    a, out = numbers(rows, length), np.full((rows, length), 77, "float32")
    run(s, [A, B], a, out)
    np.testing.assert_array_equal(out, a * 2)
