"""Corners of lowering that random programs seldom reach, each run with and without LLVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from agreement import assert_computes

from autotune import te
from autotune.errors import IRError, LoweringError
from autotune.ir.expr import Const, Knob, Load, Var
from autotune.ir.interpreter import evaluate, interpret
from autotune.ir.ops import const
from autotune.ir.poly import normal, rejoined, to_poly
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, For, Function, If, LoopKind, Seq, Stmt, Store
from autotune.ir.verify import verify
from autotune.ir.visitor import free_vars, stmt_exprs, walk, walk_expr
from autotune.lowering.finalise import analyse, finalise
from autotune.lowering.nest import lower_schedule
from autotune.lowering.regions import Relaxer, as_index
from autotune.runtime.cache import ObjectCache
from autotune.runtime.llvm import compile_function
from autotune.schedule.schedule import Schedule
from autotune.te.tensor import Tensor


def lowered(schedule: Schedule, tensors: Sequence[Tensor]) -> tuple[Function, ...]:
    """Return the analysed and the final function, verified."""
    function = verify(lower_schedule(schedule, tensors), allow_knobs=True)
    analysed = verify(analyse(function, {}))
    return analysed, verify(finalise(analysed))


def run(
    schedule: Schedule, tensors: Sequence[Tensor], inputs: Sequence[Any], want: Any
) -> Function:
    """Check the only output against `want`, interpreted twice and compiled."""
    analysed, final = lowered(schedule, tensors)
    compiled = compile_function(final, cache=ObjectCache(None))
    for execute in (
        lambda *a: interpret(analysed, a),
        lambda *a: interpret(final, a),
        compiled,
    ):
        out = np.full_like(want, 77)
        execute(*inputs, out)
        np.testing.assert_allclose(out, want, rtol=1e-6)
    return analysed


def loads(stmt: Stmt) -> list[Load]:
    return [n for e in stmt_exprs(stmt) for n in walk_expr(e) if isinstance(n, Load)]


def numbers(*shape: int, dtype: str = "float32") -> Any:
    return np.random.default_rng(1).integers(-9, 10, shape).astype(dtype)


def test_an_int64_index_is_bounded_like_an_int32_one() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2, name="B")
    C = te.compute((4,), lambda i: B[i.astype("int64") * 2 + 1], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=2)
    s[B].compute_at(s[C], outer)
    a = numbers(8)
    analysed = run(s, [A, C], [a], a[1::2] * 2)
    (allocation,) = [x for x in walk(analysed.body) if isinstance(x, Allocate)]
    assert [str(extent) for extent in allocation.buffer.shape] == ["3"]


def test_sizes_of_type_int64_can_be_split_and_fused() -> None:
    n = te.var("n", "int64")
    A = te.placeholder((n, 3), name="A")
    B = te.compute((n, 3), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((n, 3), lambda i, j: B[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), factor=4)
    s[B].compute_at(s[C], outer)
    a = numbers(5, 3)
    run(s, [A, C], [a], a * 2 + 1)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_region_that_starts_at_a_loaded_index_is_the_whole_tensor(dtype: str) -> None:
    A = te.placeholder((8,), name="A")
    where = te.placeholder((1,), dtype, name="W")
    B = te.compute((8,), lambda i: A[i] * 2, name="B")
    C = te.compute((4,), lambda i: B[where[0] + i], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=2)
    s[B].compute_at(s[C], outer)
    a = numbers(8)
    run(s, [A, where, C], [a, np.array([3], dtype)], a[3:7] * 2)


def test_axes_of_an_empty_tensor_can_be_fused_and_split() -> None:
    A = te.placeholder((0, 3), name="A")
    B = te.compute((0, 3), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((3, 0), lambda i, j: B[j, i] + 1, name="C")
    s = te.create_schedule(C.op)
    s[C].fuse(*C.op.axis)
    s[B].split(s[B].fuse(*B.op.axis), nparts=2)
    run(s, [A, C], [numbers(0, 3)], np.zeros((3, 0), "float32"))


def test_an_empty_reduction_gives_the_identity() -> None:
    k = te.reduce_axis((2, 2), "k")
    A = te.placeholder((5, 3), name="A")
    C = te.compute((3,), lambda i: te.sum(A[k, i], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].split(k, factor=2)
    run(s, [A, C], [numbers(5, 3)], np.zeros(3, "float32"))


def test_a_tensor_without_dimensions_is_computed_inside_its_reader() -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((5,), name="A")
    B = te.compute((), lambda: te.sum(A[k], axis=k), name="B")
    C = te.compute((5,), lambda i: A[i] - B, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    a = numbers(5)
    run(s, [A, C], [a], a - a.sum())


def test_two_computes_may_share_a_reduction_axis_side_by_side() -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((5, 4), name="A")
    B = te.compute((4,), lambda i: te.sum(A[k, i], axis=k), name="B")
    C = te.compute((4,), lambda i: te.max(A[k, i] * B[i], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[B].split(k, factor=2)
    s[C].split(k, factor=3)
    s[B].compute_at(s[C], C.op.axis[0])
    a = numbers(5, 4)
    run(s, [A, C], [a], (a * a.sum(0)).max(0))


def test_a_shared_reduction_axis_is_refused_inside_its_own_loop() -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((5, 4), name="A")
    B = te.compute((4,), lambda i: te.sum(A[k, i], axis=k), name="B")
    C = te.compute((4,), lambda i: te.sum(A[k, i] * B[i], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], k)
    with pytest.raises(LoweringError, match="both reduce over axis 'k'"):
        lower_schedule(s, [A, C])


def test_values_of_different_reductions_cannot_share_a_compute() -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((4, 5), name="A")
    with pytest.raises(IRError, match="'B': values that are not parts of one reduction"):
        te.compute((4,), lambda i: (te.sum(A[i, k], axis=k), te.max(A[i, k], axis=k)), name="B")
    with pytest.raises(IRError, match="'B': values that are not parts of one reduction"):
        te.compute((4,), lambda i: (A[i, 0], te.max(A[i, k], axis=k)), name="B")


def test_a_factor_that_is_a_knob_keeps_its_guard_only_where_it_leaves_a_remainder() -> None:
    factor = Knob("f", 1, 8)
    A = te.placeholder((10,), name="A")
    B = te.compute((10,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=factor)
    function = verify(lower_schedule(s, [A, B]), allow_knobs=True)
    a = numbers(10)
    for value in range(1, 9):
        analysed = verify(analyse(function, {factor: value}))
        assert analysed.attrs["knobs"] == {"f": value}
        guards = str(analysed).count("likely")
        assert guards == (0 if 10 % value == 0 else 1)
        out = np.zeros_like(a)
        interpret(analysed, [a, out])
        np.testing.assert_array_equal(out, a + 1)


def wraps(a: Any) -> Any:
    """Every operation whose simplification would be wrong for sums that wrap."""
    where, least, greatest = (
        (te.select, te.min, te.max) if not isinstance(a, np.ndarray)
        else (np.where, np.minimum, np.maximum)
    )  # fmt: skip
    one, none = (te.const(1), te.const(0)) if where is te.select else (np.int32(1), np.int32(0))
    return (
        (a * 4) // 4
        + (a * 6) % 3
        + greatest(a, a + 1)
        - least(a - 5, a)
        + where(a + 1 > a, one, none)
        + where(a + 7 < 3, one, none)
        - (a + 2147483647) * 2147483647
    )


@pytest.mark.parametrize("vector", [False, True])
def test_loaded_integers_wrap_and_are_not_simplified_as_if_they_did_not(vector: bool) -> None:
    A = te.placeholder((64,), "int32", name="A")
    C = te.compute((64,), lambda i: wraps(A[i]), name="C")
    s = te.create_schedule(C.op)
    if vector:
        s[C].vectorize(C.op.axis[0])
    limits = np.iinfo("int32")
    a = np.random.default_rng(0).integers(limits.min, limits.max, 64, "int32", endpoint=True)
    a[:6] = [limits.max, limits.min, limits.max - 1, limits.min + 1, 0, -1]
    with np.errstate(over="ignore"):
        run(s, [A, C], [a], wraps(a))


@pytest.mark.parametrize("vector", [False, True])
def test_stored_values_of_a_loop_variable_wrap_as_loaded_ones_do(vector: bool) -> None:
    C = te.compute((64,), lambda i: wraps(i * 1103515245 - 12345), name="C")
    s = te.create_schedule(C.op)
    if vector:
        s[C].vectorize(C.op.axis[0])
    with np.errstate(over="ignore"):
        i = np.arange(64, dtype="int32") * np.int32(1103515245) - np.int32(12345)
        run(s, [C], [], wraps(i))


@pytest.mark.parametrize("vector", [False, True])
def test_a_coefficient_that_int32_cannot_hold_wraps_in_a_stored_value(vector: bool) -> None:
    C = te.compute((8,), lambda i: i * 100000 * 100000 + i + 2147483647 + 9, name="C")
    s = te.create_schedule(C.op)
    if vector:
        s[C].vectorize(C.op.axis[0])
    i = np.arange(8, dtype="int64")
    run(s, [C], [], (i * 10**10 + i + 2147483647 + 9).astype("int32"))


def test_a_stride_that_int32_cannot_hold_is_exact_in_an_index() -> None:
    A = te.placeholder((3, 50000, 50000), name="A")
    C = te.compute((3,), lambda i: A[i, 7, 8], name="C")
    s = te.create_schedule(C.op)
    s[C].unroll(C.op.axis[0])
    _, final = lowered(s, [A, C])
    (index,) = {load.index for stmt in walk(final.body) for load in loads(stmt)}
    (var,) = free_vars(index)
    assert [evaluate(index, {var: i}) for i in range(3)] == [
        i * 2_500_000_000 + 350_008 for i in range(3)
    ]
    assert "i64 5000350008" in compile_function(final, cache=ObjectCache(None)).source


@pytest.mark.parametrize("where", [False, True])
def test_a_reduction_whose_condition_is_constant_takes_all_or_nothing(where: bool) -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((4, 5), name="A")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k, where=where), name="C")
    a = numbers(4, 5)
    run(te.create_schedule(C.op), [A, C], [a], a.sum(1) * np.float32(where))


@pytest.mark.parametrize("tag", ["vthread", "threadIdx.x"])
def test_a_thread_axis_inside_a_reduction_starts_its_accumulators_too(tag: str) -> None:
    k = te.reduce_axis((0, 5), "k")
    A = te.placeholder((4, 5), name="A")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].reorder(k, C.op.axis[0])
    s[C].bind(C.op.axis[0], te.thread_axis(tag))
    a, out = numbers(4, 5), np.full(4, 77, "float32")
    for function in lowered(s, [A, C]):
        interpret(function, [a, out])
        np.testing.assert_array_equal(out, a.sum(1))


def test_a_buffer_whose_symbolic_size_is_a_choice_can_be_allocated() -> None:
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((n, m), lambda i, j: B[te.select(n < m, i, 0), j] + 1, name="C")
    s = te.create_schedule(C.op)
    _, final = lowered(s, [A, C])
    sizes = [str(x.buffer.shape[0]) for x in walk(final.body) if isinstance(x, Allocate)]
    assert any("select" in size for size in sizes), "the case is not reached any more"
    for size in (1, 2, 3, 4, 8):
        a = numbers(size, 3)
        run(s, [A, C], [a], (a if size < 3 else a[:1] + 0 * a) * 2 + 1)


def test_an_integer_select_over_indices_is_right_in_an_index() -> None:
    A = te.placeholder((12,), name="A")
    C = te.compute(
        (3, 12), lambda r, i: A[te.select(i * 2 <= 11 - r, i * 2, te.select(r < i, r, i))], name="C"
    )
    a = numbers(12)
    r, i = np.ogrid[:3, :12]
    want = a[np.where(i * 2 <= 11 - r, i * 2, np.where(r < i, r, i))]
    for vector in (False, True):
        s = te.create_schedule(C.op)
        if vector:
            s[C].vectorize(C.op.axis[1])
        run(s, [A, C], [a], want)


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize(
    ("index", "number", "step"),
    [
        (lambda n, j: te.select(n > 3, j, j * 2), 1, 2),
        (lambda n, j: te.select(n > 3, j, j * 2), 5, 1),
        (lambda n, j: te.max(n, 0) * j, 2, 2),
        (lambda n, j: te.min(te.max(n, 0), 2) * j, 0, 0),
    ],
)
def test_a_loaded_number_is_in_no_extent(index: Any, number: int, step: int, at: int) -> None:
    A, n = te.placeholder((8,), name="A"), te.placeholder((1,), "int32", name="n")
    P = te.compute((8,), lambda i: A[i] * 2, name="P")
    C = te.compute((3, 4), lambda i, j: P[index(n[0], j)] + i, name="C")
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[P].compute_at(s[C], (i, *s[C].split(j, factor=2))[at])
    a = numbers(8)
    want = a[np.arange(4) * step] * 2 + np.arange(3, dtype="float32")[:, None]
    analysed = run(s, [A, n, C], [a, np.array([number], "int32")], want)
    (allocation,) = [x for x in walk(analysed.body) if isinstance(x, Allocate)]
    assert all(isinstance(extent, Const) for extent in allocation.buffer.shape)


def test_a_cast_to_fewer_bits_wraps_and_decides_nothing() -> None:
    B = te.compute(
        (4,),
        lambda i: te.select(te.cast("int32", i.astype("int64") + 2**31) < 0, 1.0, 0.0),
        name="B",
    )
    run(te.create_schedule(B.op), [B], [], np.ones(4, "float32"))


def test_a_cast_to_fewer_bits_that_fits_is_decided() -> None:
    B = te.compute(
        (4,), lambda i: te.select(te.cast("int32", i.astype("int64") + 7) < 0, 1.0, 0.0), name="B"
    )
    analysed = run(te.create_schedule(B.op), [B], [], np.zeros(4, "float32"))
    assert "select" not in str(analysed)


def test_what_is_cast_to_fewer_bits_has_no_interval() -> None:
    i = Var("i")
    relaxer = Relaxer({i: const(4)})
    wide = i.astype("int64") * 2**31
    assert relaxer.interval(normal(as_index(te.cast("int32", wide) // 2))) is None
    same = relaxer.interval(normal(as_index(i.astype("int64") * 2)))
    assert same is not None
    assert str(same.width) == "6"


def test_an_analysed_function_is_simplified_to_itself() -> None:
    A, B = te.placeholder((10, 7), name="A"), te.placeholder((7, 12), name="B")
    k = te.reduce_axis((0, 7), "k")
    C = te.compute((10, 12), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local")
    i, j = C.op.axis
    xo, yo, _, _ = s[C].tile(i, j, Knob("x", 1, 8), 5)
    s[local].compute_at(s[C], yo)
    s[C].parallel(xo)
    function = lower_schedule(s, [A, B, C])
    (x,) = {
        v
        for stmt in walk(function.body)
        for e in stmt_exprs(stmt)
        for v in free_vars(e)
        if isinstance(v, Knob)
    }
    once = analyse(function, {x: 4})
    assert analyse(once, {}).body is once.body


def test_a_guard_around_nothing_vanishes() -> None:
    condition = Var("i") < 3
    nothing = For(Var("j"), const(0), LoopKind.SERIAL, Seq(()))
    simplified = Simplifier().stmt(If(condition, nothing, nothing))
    assert isinstance(simplified, Seq)
    assert not simplified.stmts


def test_an_axis_of_length_0_is_split_by_a_knob_and_fused_again() -> None:
    A = te.placeholder((0, 3), name="A")
    B = te.compute((0, 3), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    knob = Knob("size", 1, 8)
    s[B].fuse(*s[B].split(s[B].op.axis[0], knob))
    assert_computes(s, [A, B], knobs={knob: 4})


def test_what_an_empty_loop_reads_is_empty_also_in_fused_loops() -> None:
    A = te.placeholder((8, 8), name="A")
    X = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="X")
    Y = te.compute((0,), lambda i: X[i * 3, i * 2], name="Y")
    s = te.create_schedule(Y.op)
    s[X].fuse(*X.op.axis)
    final = assert_computes(s, [A, Y])
    assert not any(isinstance(stmt, Store) for stmt in walk(final.body))


def test_what_a_loop_of_symbolic_length_reads_is_empty_when_the_loop_is() -> None:
    n = te.var("n")
    A = te.placeholder((3 * n + 4, 2 * n + 4), name="A")
    X = te.compute((3 * n + 4, 2 * n + 4), lambda i, j: A[i, j] + 1, name="X")
    Y = te.compute((n,), lambda i: X[i * 3 + 1, i * 2 + 1], name="Y")
    s = te.create_schedule(Y.op)
    s[X].fuse(*X.op.axis)
    analysed, final = lowered(s, [A, Y])
    for size in (0, 1, 5):
        a = np.arange((3 * size + 4) * (2 * size + 4), dtype=np.float32)
        a = a.reshape(3 * size + 4, -1)
        want = a[1 : 3 * size + 1 : 3, 1 : 2 * size + 1 : 2].diagonal() + 1
        for function in (analysed, final):
            got = np.zeros(size, np.float32)
            interpret(function, [a, got])
            np.testing.assert_array_equal(got, want)
        got = np.zeros(size, np.float32)
        compile_function(final, cache=ObjectCache(None))(a, got)
        np.testing.assert_array_equal(got, want)


def chain(length: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return the first and last of so many element-wise stages, and those between."""
    A = te.placeholder((8,), name="A")
    stages = [A]
    for number in range(length):
        before = stages[-1]
        stages.append(te.compute((8,), lambda i, b=before: b[i] + 1.0, name=f"S{number}"))
    return A, stages[-1], stages[1:-1]


@pytest.mark.parametrize("inlined", [False, True], ids=["stored", "inlined"])
def test_long_chains_of_stages_lower(inlined: bool) -> None:
    A, last, between = chain(60)
    s = te.create_schedule(last.op)
    for tensor in between:
        if inlined:
            s[tensor].compute_inline()
    assert_computes(s, [A, last])


def test_an_expression_that_nests_too_deeply_is_refused_in_one_line() -> None:
    A = te.placeholder((8,), name="A")

    def add(i: Any) -> Any:
        return sum((A[(i + number) % 8] for number in range(2000)), te.const(0.0))

    B = te.compute((8,), add, name="B")
    with pytest.raises(LoweringError, match="nests deeper than Python's recursion") as caught:
        lower_schedule(te.create_schedule(B.op), [A, B])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("vector", [False, True], ids=["scalar", "vector"])
@pytest.mark.parametrize("logic", [te.all, te.any])
def test_a_condition_reads_only_what_its_first_part_allows(logic: Any, vector: bool) -> None:
    A = te.placeholder((6,), name="A")
    I = te.placeholder((19,), "int64", name="I")  # noqa: E741

    def choose(i: Any) -> Any:
        safe = [I[i] >= 0, I[i] < 6] if logic is te.all else [I[i] < 0, I[i] >= 6]
        return te.if_then_else(logic(*safe, A[I[i]] > 0.5), 1.0, 0.0)

    B = te.compute((19,), choose, name="B")
    s = te.create_schedule(B.op)
    if vector:
        s[B].vectorize(s[B].split(B.op.axis[0], 8)[1])
    far = np.arange(19) * 10**11
    far[::3] = np.arange(7) % 6
    assert_computes(s, [A, I, B], {I: far})


def test_loops_that_are_fused_and_read_as_one_number_come_out_as_that_number() -> None:
    number, other = Var("number"), Var("other")
    outer, last = number // 5, number % 5
    parts = (outer // 3 * 3 + outer % 3) * 5 + last
    assert rejoined(parts, {number}) is number
    assert to_poly(rejoined(parts * 4 + other, {number})) == to_poly(number * 4 + other)
    assert to_poly(rejoined(outer * 10 + last * 2, {number})) == to_poly(number * 2)
    assert to_poly(rejoined(outer * 10 + last, {number})) == to_poly(outer * 10 + last)


def test_a_fused_loop_outside_of_what_is_computed_is_read_as_its_parts() -> None:
    number, other = Var("number"), Var("other")
    index = number // 5 * 5 + number % 5 + other
    assert to_poly(rejoined(index, {other})) == to_poly(index)
