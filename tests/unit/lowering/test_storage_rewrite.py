"""How results of stages are stored: padded strides, two halves, conditional stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.agreement import assert_computes
from support.verify import verify

import autotune
from autotune import te
from autotune.errors import LoweringError
from autotune.ir.axes import IterVar
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import KnobVar
from autotune.ir.stmt import Allocate, PrimFunc
from autotune.ir.visitor import walk
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest.lower_schedule import lower_schedule
from autotune.schedule.schedule import Schedule
from autotune.schedule.stage import Stage
from autotune.te.tensor import Tensor
from autotune.trace.structure import schedule_rules


class Blocks:
    """C = 3 (A + 1), summed over the last of (12, 5, 6); B = A + 1."""

    def __init__(self) -> None:
        self.A = te.placeholder((12, 5, 6), name="A")
        self.B = te.compute((12, 5, 6), lambda i, j, c: self.A[i, j, c] + 1, name="B")
        self.k = te.reduce_axis((0, 6), "k")
        self.C = te.compute(
            (12, 5), lambda x, y: te.sum(self.B[x, y, self.k] * 3, axis=self.k), name="C"
        )
        self.s = te.create_schedule(self.C.op)
        self.sB, self.sC = self.s[self.B], self.s[self.C]
        self.x, self.y = self.C.op.axis

    @property
    def tensors(self) -> list[Tensor]:
        return [self.A, self.C]


def assert_right(function: PrimFunc) -> None:
    """Check an analysed function of `Blocks`, and its final form."""
    a = np.arange(360, dtype=np.float32).reshape(12, 5, 6)
    for form in (function, finalise(function)):
        out = np.full((12, 5), 77, np.float32)
        interpret(verify(form), [a, out])
        np.testing.assert_array_equal(out, ((a + 1) * 3).sum(axis=2))


def analysed(s: Schedule, tensors: list[Tensor], knobs: Any = None) -> PrimFunc:
    return analyse(verify(lower_schedule(s, tensors), allow_knobs=True), knobs)


def allocated(function: PrimFunc) -> dict[str, str]:
    return {
        stmt.buffer.name: " * ".join(map(str, stmt.buffer.shape))
        for stmt in walk(function.body)
        if isinstance(stmt, Allocate)
    }


# -- storage_align ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dimension", "factor", "offset", "index", "size"),
    [
        (0, 8, 0, "(((i*32) + (j*6)) + c)", "384"),
        (0, 8, 1, "(((i*33) + (j*6)) + c)", "396"),
        (1, 4, 1, "(((i*45) + (j*9)) + c)", "540"),
        (1, 6, 0, "(((i*30) + (j*6)) + c)", "360"),
        (2, 4, 3, "(((i*90) + (j*18)) + (c*3))", "1080"),
    ],
)
def test_an_aligned_stride_is_the_next_that_leaves_the_remainder(
    dimension: int, factor: int, offset: int, index: str, size: str
) -> None:
    p = Blocks()
    p.sB.storage_align(p.B.op.axis[dimension], factor, offset)
    function = analysed(p.s, p.tensors)
    assert f"B[{index}] = " in str(function)
    assert allocated(function) == {"B": size}
    assert_right(function)


def test_several_dimensions_can_be_aligned() -> None:
    p = Blocks()
    p.sB.storage_align(p.B.op.axis[0], 16)
    p.sB.storage_align(p.B.op.axis[1], 8, 1)
    function = analysed(p.s, p.tensors)
    assert "B[(((i*48) + (j*9)) + c)] = " in str(function)
    assert_right(function)


def test_of_an_axis_that_is_stored_in_parts_the_first_part_is_aligned() -> None:
    p = Blocks()
    p.sB.transform_layout(lambda i, j, c: (i // 4, i % 4, j, c))
    p.sB.storage_align(p.B.op.axis[0], 32, 1)
    function = analysed(p.s, p.tensors)
    assert "B[((((floordiv(i, 4)*129) + (floormod(i, 4)*30)) + (j*6)) + c)] = " in str(function)
    assert allocated(function) == {"B": "387"}
    assert_right(function)


def test_a_region_is_padded_and_not_its_tensor() -> None:
    p = Blocks()
    p.sB.compute_at(p.sC, p.x)
    p.sB.storage_align(p.B.op.axis[1], 4)
    function = analysed(p.s, p.tensors)
    assert allocated(function) == {"B": "40"}
    assert_right(function)


def test_knobs_align_as_their_values_do() -> None:
    for factor, offset in ((1, 0), (4, 1), (8, 3), (5, 0)):
        texts = []
        for symbolic in (True, False):
            p = Blocks()
            f, o = KnobVar("f", 1, 8), KnobVar("o", 0, 7)
            p.sB.storage_align(p.B.op.axis[1], *((f, o) if symbolic else (factor, offset)))
            function = analysed(p.s, p.tensors, {f: factor, o: offset} if symbolic else None)
            assert_right(function)
            texts.append(str(function))
        assert texts[0] == texts[1]


def test_a_knob_that_is_no_alignment_is_a_constraint() -> None:
    p = Blocks()
    f, o = KnobVar("f", 0, 8), KnobVar("o", 0, 7)
    p.sB.storage_align(p.B.op.axis[1], f, o)
    where = "storage_align on stage 'B', axis 'j'"
    assert [message for _, message in schedule_rules(p.s)] == [
        f"{where}: the factor must be at least 1",
        f"{where}: the offset must be below the factor",
    ]


# -- transform_layout ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index_map", "index", "shape"),
    [
        (lambda i, j, c: (c, j, i), "(((c*60) + (j*12)) + i)", "6 * 5 * 12"),
        (
            lambda i, j, c: (i // 4, c, j, i % 4),
            "((((floordiv(i, 4)*120) + (c*20)) + (j*4)) + floormod(i, 4))",
            "3 * 6 * 5 * 4",
        ),
        (lambda i, j, c: (j // 4, c, i, j % 4), "", "2 * 6 * 12 * 4"),
        (lambda i, j, c: (i % 2, j, i // 4, c, i // 2 % 2), "", "2 * 5 * 3 * 6 * 2"),
    ],
)
def test_a_layout_says_what_the_indices_are(index_map: Any, index: str, shape: str) -> None:
    p = Blocks()
    p.sB.transform_layout(index_map)
    function = analysed(p.s, p.tensors)
    assert allocated(function) == {"B": shape}
    assert f"B[{index}" in str(function)
    assert_right(function)


def test_indices_of_a_layout_count_from_where_its_region_begins() -> None:
    p = Blocks()
    p.sB.compute_at(p.sC, p.sC.split(p.x, factor=3)[0])
    p.sB.transform_layout(lambda i, j, c: (c, i // 2, j, i % 2))
    assert_right(analysed(p.s, p.tensors))


@pytest.mark.parametrize(
    ("store", "size"),
    [
        (lambda stage, i, j: stage.storage_align(i, 8), "24"),
        (lambda stage, i, j: stage.transform_layout(lambda i, j: (j, i)), "5 * 3"),
    ],
)
def test_what_was_factored_is_stored_by_its_new_axes(
    store: Callable[[Stage, IterVar, IterVar], None], size: str
) -> None:
    A = te.placeholder((3, 5, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    B = te.compute((3, 5), lambda i, j: te.sum(A[i, j, k], axis=k), name="B")
    C = te.compute((3, 5), lambda i, j: B[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    s.rfactor(B, k)
    store(s[B], *s[B].op.axis)
    assert allocated(analysed(s, [A, C]))["B"] == size
    assert_computes(s, [A, C])


def test_the_stride_of_a_dimension_is_aligned_where_its_layout_puts_it() -> None:
    p = Blocks()
    p.sB.transform_layout(lambda i, j, c: (c, i, j))
    p.sB.storage_align(p.B.op.axis[2], 16, 4)
    function = analysed(p.s, p.tensors)
    assert allocated(function) == {"B": "408"}
    assert_right(function)


def test_knobs_cut_dimensions_as_their_values_do() -> None:
    for tile in (1, 2, 3, 8):
        texts = []
        for given in (KnobVar("tile", 1, 8), tile):
            p = Blocks()
            p.sB.transform_layout(lambda i, j, c, t=given: (i // t, c, i % t, j))
            function = analysed(p.s, p.tensors, {given: tile} if given is not tile else None)
            assert_right(function)
            texts.append(str(function).partition("produce")[2])
        assert texts[0] == texts[1]


# -- double_buffer ---------------------------------------------------------------------------


@pytest.mark.parametrize("unroll", [False, True])
@pytest.mark.parametrize("factor", [1, 4, 5, 12, 16])
def test_a_double_buffered_stage_is_computed_one_iteration_ahead(factor: int, unroll: bool) -> None:
    p = Blocks()
    xo, _ = p.sC.split(p.x, factor=factor)
    if unroll:
        p.sC.unroll(xo)
    p.sB.compute_at(p.sC, xo)
    p.sB.double_buffer()
    assert_right(analysed(p.s, p.tensors))


def test_the_listing_shows_the_first_iteration_before_the_loop() -> None:
    p = Blocks()
    p.sB.compute_at(p.sC, p.x)
    p.sB.double_buffer()
    text = str(autotune.lower(p.s, p.tensors, simple_mode=True))
    parts = [
        "allocate B[float32 * 2 * 1 * 5 * 6]\n",
        "B[((j*6) + c)] = (A[((j*6) + c)] + 1f)\n",
        "for (x, 0, 12) {\n",
        "if (likely((x < 11))) {\n",
        "B[(((floormod((x + 1), 2)*30) + (j*6)) + c)] = (A[((((x*30) + (j*6)) + c) + 30)] + 1f)\n",
        "(B[(((floormod(x, 2)*30) + (y*6)) + k)]*3f)",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_a_loop_of_unknown_length_computes_no_first_iteration_where_there_is_none() -> None:
    n = te.var("n")
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((n, 4), lambda x, y: B[x, y] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].double_buffer()
    function = autotune.lower(s, [A, C])
    for size in (0, 1, 2, 5):
        a = np.arange(size * 4, dtype=np.float32).reshape(size, 4)
        out = np.full_like(a, 77)
        interpret(verify(function), [a, out])
        np.testing.assert_array_equal(out, (a + 1) * 2)


def test_stages_inside_the_ahead_computation_keep_storage_of_their_own() -> None:
    p = Blocks()
    copy = p.s.cache_read(p.A, "local", [p.B])
    p.sB.compute_at(p.sC, p.x)
    p.s[copy].compute_at(p.sB, p.B.op.axis[1])
    p.sB.double_buffer()
    function = analysed(p.s, p.tensors)
    assert set(allocated(function)) == {"B", "A.local", "A.local.first"}
    assert_right(function)


def test_a_double_buffered_stage_inside_another_has_names_of_its_own() -> None:
    A = te.placeholder((4, 6), name="A")
    X = te.compute((4, 6), lambda i, j: A[i, j] + 1, name="X")
    Y = te.compute((4, 6), lambda i, j: X[i, j] * 2, name="Y")
    Z = te.compute((4, 6), lambda i, j: Y[i, j] + 3, name="Z")
    s = te.create_schedule(Z.op)
    copy = s.cache_read(A, "local", [X])
    s[Y].compute_at(s[Z], Z.op.axis[0])
    s[X].compute_at(s[Y], Y.op.axis[0])
    s[copy].compute_at(s[X], X.op.axis[0])
    s[X].double_buffer()
    s[Y].double_buffer()
    function = analysed(s, [A, Z])
    names = list(allocated(function))
    assert len(set(names)) == len(names) > 4
    a, out = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros((4, 6), np.float32)
    interpret(function, [a, out])
    np.testing.assert_array_equal(out, (a + 1) * 2 + 3)


def test_two_stages_in_one_loop_and_stages_in_two_nested_loops() -> None:
    for nested in (False, True):
        p = Blocks()
        copy = p.s.cache_read(p.B, "local", [p.C])
        p.sB.compute_at(p.sC, p.x)
        p.s[copy].compute_at(p.sC, p.y if nested else p.x)
        p.s[copy].double_buffer()
        if nested:
            p.sB.double_buffer()
            assert_right(analysed(p.s, p.tensors))
        else:
            with pytest.raises(LoweringError, match="reads 'B', which is computed in the same"):
                analysed(p.s, p.tensors)


def test_tuples_of_results_are_buffered_together() -> None:
    A = te.placeholder((6, 4), name="A")
    B, E = te.compute((6, 4), lambda i, j: (A[i, j] + 1, A[i, j] - 1), name="B")
    C = te.compute((6, 4), lambda x, y: B[x, y] * E[x, y], name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].double_buffer()
    a, out = np.arange(24, dtype=np.float32).reshape(6, 4), np.zeros((6, 4), np.float32)
    interpret(verify(autotune.lower(s, [A, C])), [a, out])
    np.testing.assert_array_equal(out, a * a - 1)


def refusal(p: Blocks) -> str:
    with pytest.raises(LoweringError) as caught:
        lower_schedule(p.s, p.tensors)
    return str(caught.value)


def test_a_stage_at_the_root_is_not_double_buffered() -> None:
    p = Blocks()
    p.sB.double_buffer()
    assert refusal(p) == (
        "stage 'B' is double-buffered, but no loop computes it again and again; use compute_at to "
        "compute it at a serial loop"
    )


@pytest.mark.parametrize("how", ["parallel", "vectorize", "bind"])
def test_iterations_that_do_not_follow_one_another_are_not_double_buffered(how: str) -> None:
    p = Blocks()
    p.sB.compute_at(p.sC, p.x)
    p.sB.double_buffer()
    arguments = (te.thread_axis("threadIdx.x"),) if how == "bind" else ()
    getattr(p.sC, how)(p.x, *arguments)
    loop, kind = ("threadIdx.x", "thread") if how == "bind" else ("x", "parallel")
    if how == "vectorize":
        kind = "vectorized"
    assert refusal(p) == (
        f"stage 'B' is double-buffered in loop {loop!r}, which is {kind}: its iterations do not "
        "run one after another; compute it at a serial loop"
    )


# -- set_store_predicate ---------------------------------------------------------------------


def test_a_stage_inside_a_thread_s_loop_can_be_stored_by_one_thread() -> None:
    p = Blocks()
    tx = te.thread_axis("threadIdx.x", name="tx")
    p.sC.bind(p.y, tx)
    p.sB.compute_at(p.sC, p.y)
    p.sB.set_store_predicate(tx.equal(2))
    lines = [line.strip() for line in str(analysed(p.s, p.tensors)).splitlines()]
    store = next(number for number, line in enumerate(lines) if line.startswith("B["))
    assert lines[store - 1] == "if ((threadIdx.x == 2)) {"


def test_a_stage_outside_a_thread_s_loop_is_not_stored_by_that_thread() -> None:
    p = Blocks()
    tx = te.thread_axis("threadIdx.x")
    p.sC.bind(p.y, tx)
    p.sB.compute_at(p.sC, p.x)
    p.sB.set_store_predicate(tx.equal(0))
    assert refusal(p) == (
        "stage 'B' is stored where `(threadIdx.x == 0)`, but no loop around it is bound to "
        "threadIdx.x; compute it at a loop inside that one"
    )


def test_a_store_predicate_guards_every_store_of_a_reduction() -> None:
    p = Blocks()
    p.sC.set_store_predicate(te.all(p.x < 3, p.y.equal(2)))
    function = analysed(p.s, p.tensors)
    a = np.ones((12, 5, 6), np.float32)
    out = np.full((12, 5), 77, np.float32)
    interpret(verify(function), [a, out])
    expected = np.full((12, 5), 77, np.float32)
    expected[:3, 2] = 36
    np.testing.assert_array_equal(out, expected)


def test_a_virtual_thread_can_stand_in_a_store_predicate() -> None:
    p = Blocks()
    thread = te.thread_axis("vthread")
    p.sC.bind(p.x, thread)
    p.sC.set_store_predicate(thread < 6)
    function = analysed(p.s, p.tensors)
    assert "if ((vthread < 6)) {" in str(function)


def test_a_predicate_over_a_knob_has_a_value_in_each_configuration() -> None:
    p = Blocks()
    knob = KnobVar("rows", 1, 12)
    p.sC.set_store_predicate(p.x < knob)
    assert "if ((x < 7)) {" in str(analysed(p.s, p.tensors, {knob: 7}))
    assert p.s.to_json({"rows": 7}) == [["set_store_predicate", "C", ["<", "x#0", 7]]]
