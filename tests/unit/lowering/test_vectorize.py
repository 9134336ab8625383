from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.verify import verify

from autotune.ir import ops
from autotune.ir.evaluate.interpreter import interpret
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Const,
    Expr,
    Load,
    Ramp,
    SizeVar,
    Var,
)
from autotune.ir.stmt import (
    Allocate,
    For,
    FunctionInfo,
    If,
    LoopKind,
    PrimFunc,
    Seq,
    Stmt,
    Store,
    seq,
)
from autotune.ir.visitor import walk
from autotune.lowering.vector.vectorize import MAX_LANES, vectorize

N = Const(64, "int32")
A, B = Buffer("A", "float32", (N,)), Buffer("B", "float32", (N,))
C = Buffer("C", "float32", (N,))
T = Buffer("T", "float32", (Const(2, "int32"),), "local")
ONE = Const(1, "int32")


def vector_loop(body: Callable[[Var], Stmt], extent: Expr | int = 8) -> Stmt:
    var = Var("v")
    size = Const(extent, "int32") if isinstance(extent, int) else extent
    return For(var, size, LoopKind.VECTORIZED, body(var))


def run(function: PrimFunc) -> npt.NDArray[Any]:
    arrays = [np.arange(64, dtype="float32") + 1, np.arange(64, dtype="float32")[::-1].copy()]
    out = np.full(64, -1, "float32")
    interpret(function, [*arrays, out])
    return out


def transformed(body: Stmt) -> Stmt:
    """The vectorised body, which computes what the loops did."""
    before = PrimFunc("f", (A, B, C), frozenset([C]), body)
    after = vectorize(before)
    np.testing.assert_array_equal(run(after), run(before))
    assert not any(isinstance(s, For) and s.kind is LoopKind.VECTORIZED for s in walk(after.body))
    return after.body


def serial(stmt: Stmt) -> bool:
    return isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL


def test_an_affine_index_becomes_a_ramp_and_invariant_values_are_repeated() -> None:
    store = transformed(vector_loop(lambda v: Store(C, v + 3, Load(A, v * 2) * Load(B, ONE))))
    assert isinstance(store, Store)
    assert store.index is Ramp(Const(3, "int32"), ONE, 8)
    assert store.value.children[0] is Load(A, Ramp(Const(0, "int32"), Const(2, "int32"), 8))
    assert store.value.children[1] is Broadcast(Load(B, ONE), 8)


@pytest.mark.parametrize(
    ("index", "base", "stride"),
    [
        (lambda v: 10 - v, 10, -1),
        (lambda v: v + v, 0, 2),
        (lambda v: 3 * (v + 2), 6, 3),
        (lambda v: (v + 5) * 2 - v, 10, 1),
    ],
)
def test_sums_differences_and_products_stay_ramps(
    index: Callable[[Var], Expr], base: int, stride: int
) -> None:
    store = transformed(vector_loop(lambda v: Store(C, v, Load(A, index(v)))))
    assert isinstance(store, Store)
    ramp = Ramp(Const(base, "int32"), Const(stride, "int32"), 8)
    assert store.value is Load(A, ramp)


def test_a_variable_that_cancels_leaves_a_scalar() -> None:
    store = transformed(vector_loop(lambda v: Store(C, v, Load(A, v + 2 - v))))
    assert isinstance(store, Store)
    assert store.value is Broadcast(Load(A, Const(2, "int32")), 8)


@pytest.mark.parametrize(
    "index", [lambda v: v // 2, lambda v: v % 3, lambda v: ops.binary("min", v, 4)]
)
def test_other_indices_become_vectors_too(index: Callable[[Var], Expr]) -> None:
    assert isinstance(transformed(vector_loop(lambda v: Store(C, v, Load(A, index(v))))), Store)


def test_inner_loops_and_invariant_guards_are_kept() -> None:
    i = Var("i")

    def body(v: Var) -> Stmt:
        update = Store(C, v, Load(C, v) + Load(A, i * 8 + v))
        return seq(Store(C, v, Const(0.0, "float32")),
                   For(i, Const(4, "int32"), LoopKind.SERIAL, If(i < 3, update)))  # fmt: skip

    loops = [s for s in walk(transformed(vector_loop(body))) if isinstance(s, For)]
    assert [s.var for s in loops] == [i]


def test_a_guard_on_the_lane_becomes_a_mask() -> None:
    guard = transformed(
        vector_loop(lambda v: If(v < 5, Store(C, v, Load(A, v)), Store(C, v, Load(B, v))))
    )
    assert isinstance(guard, If)
    assert guard.condition is BinaryOp(
        "<", Ramp(Const(0, "int32"), ONE, 8), Broadcast(Const(5, "int32"), 8)
    )
    assert guard.then.index.lanes == guard.orelse.index.lanes == 8


def test_choices_that_depend_on_the_lane_stay_vectors() -> None:
    def value(v: Var) -> Expr:
        chosen = ops.if_then_else(v > 2, Load(A, v - 3), Const(0.0, "float32"))
        return ops.select(v < 6, chosen, Const(7.0, "float32"))

    assert isinstance(transformed(vector_loop(lambda v: Store(C, v, value(v)))), Store)


def test_intrinsics_and_casts_take_vectors() -> None:
    def value(v: Var) -> Expr:
        return Call("pow", (Load(A, v), Const(2.0, "float32")), "float32") + v.astype("float32")

    assert isinstance(transformed(vector_loop(lambda v: Store(C, v, value(v)))), Store)


def test_an_extent_of_one_vanishes() -> None:
    store = transformed(vector_loop(lambda v: Store(C, v * 5 + 1, Load(A, v)), 1))
    assert isinstance(store, Store)
    assert store.index is ONE


@pytest.mark.parametrize(
    ("extent", "lanes"),
    [
        (0, set()), (1, {1}), (48, {48}), (61, {61}), (64, {64}), (96, {48}), (128, {64}),
        (65, {64, 1}), (67, {64, 3}), (134, {64, 6}),
    ],
)  # fmt: skip
def test_long_loops_are_cut_into_vectors(extent: int, lanes: set[int]) -> None:
    big = Buffer("big", "int32", (Const(extent, "int32"),))
    body = vector_loop(lambda v: Store(big, v, v * 3), extent)
    function = PrimFunc("f", (big,), frozenset([big]), body)
    after = vectorize(function)
    out = np.zeros(extent, "int32")
    interpret(after, [out])
    np.testing.assert_array_equal(out, np.arange(extent) * 3)
    assert {s.index.lanes for s in walk(after.body) if isinstance(s, Store)} == lanes
    assert max(lanes, default=0) <= MAX_LANES


REFUSED: dict[str, Callable[[], Stmt]] = {
    "reduction": lambda: vector_loop(lambda v: Store(C, ONE, Load(A, v))),
    "accumulation of an invariant": lambda: seq(
        Store(C, ONE, Const(0.0, "float32")),
        vector_loop(lambda v: Store(C, ONE, Load(C, ONE) + Load(A, ONE))),
    ),
    "one element that some iterations write": lambda: vector_loop(
        lambda v: If(v < 5, Store(C, ONE, Load(A, ONE)))
    ),
    "a parallel loop that some iterations enter": lambda: vector_loop(
        lambda v: If(v < 5, For(Var("i"), ONE, LoopKind.PARALLEL, Store(C, v, Load(A, v))))
    ),
    "inner extent depends on the lane": lambda: vector_loop(
        lambda v: For(Var("i"), v, LoopKind.SERIAL, Store(C, v, Load(A, v)))
    ),
    "elements that iterations share": lambda: vector_loop(
        lambda v: Store(C, v // 2, Load(C, v // 2) + Load(A, v))
    ),
    "sides that write elements that iterations share": lambda: vector_loop(
        lambda v: If(v % 2 < 1, Store(C, v // 2, Load(B, v)), Store(C, v // 2, Load(A, v)))
    ),
    "a recurrence": lambda: seq(
        Store(C, Const(0, "int32"), Const(1.0, "float32")),
        vector_loop(lambda v: Store(C, v + 1, Load(C, v) * 2)),
    ),
    "elements that other lanes overwrite": lambda: vector_loop(
        lambda v: seq(Store(C, v, Load(A, v)), Store(C, v + 1, Load(B, v)))
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_lanes_cannot_do_together_stays_a_loop(case: str) -> None:
    body = transformed(REFUSED[case]())
    assert any(serial(stmt) for stmt in walk(body))
    assert all(s.index.lanes == 1 for s in walk(body) if isinstance(s, Store))


def test_an_extent_that_is_not_constant_ends_in_a_masked_vector() -> None:
    n = SizeVar("n")
    a = Buffer("a", "int32", (n,))
    function = PrimFunc("f", (a,), frozenset([a]), vector_loop(lambda v: Store(a, v, v), n), (n,))
    after = verify(vectorize(function))
    assert isinstance(after.body, Seq)
    whole, rest = after.body.stmts
    assert serial(whole)
    assert isinstance(rest, If)
    for size in (0, 1, 15, 16, 50):
        out = np.zeros(size, "int32")
        interpret(after, [out])
        np.testing.assert_array_equal(out, np.arange(size))


def copied_through(extent: int) -> Stmt:
    """C[v] = A[v] + B[v] by way of two elements that each iteration allocates."""
    k = Var("k")

    def body(v: Var) -> Stmt:
        fill = For(k, Const(2, "int32"), LoopKind.SERIAL,
                   Store(T, k, ops.select(k < 1, Load(A, v), Load(B, v))))  # fmt: skip
        return Allocate(T, seq(fill, Store(C, v, Load(T, Const(0, "int32")) + Load(T, ONE))))

    return vector_loop(body, extent)


def test_what_an_iteration_allocates_has_an_element_for_each_lane() -> None:
    allocate = transformed(copied_through(8))
    assert isinstance(allocate, Allocate)
    assert [int(e.value) for e in allocate.buffer.shape] == [2, 8]
    store = next(s for s in walk(allocate) if isinstance(s, Store) and s.buffer is C)
    eight = Const(8, "int32")
    own = Load(allocate.buffer, Ramp(Const(0, "int32"), ONE, 8)) + Load(
        allocate.buffer, Ramp(eight, ONE, 8)
    )
    assert store.value is own


def test_an_allocation_of_a_cut_loop_keeps_a_name_of_its_own() -> None:
    big = Buffer("C", "float32", (Const(67, "int32"),))

    def body(v: Var) -> Stmt:
        return Allocate(T, seq(Store(T, ONE, v.astype("float32")), Store(big, v, Load(T, ONE))))

    after = verify(vectorize(PrimFunc("f", (big,), frozenset([big]), vector_loop(body, 67))))
    out = np.zeros(67, "float32")
    interpret(after, [out])
    np.testing.assert_array_equal(out, np.arange(67))
    names = [s.buffer.name for s in walk(after.body) if isinstance(s, Allocate)]
    assert names == ["T", "T.rest"]


@pytest.mark.parametrize(
    "index", [lambda v: v // 4 * 12 + v % 4, lambda v: 7 - v, lambda v: 2 * v + 1]
)
def test_elements_that_differ_between_iterations_are_updated_as_vectors(
    index: Callable[[Var], Expr],
) -> None:
    body = vector_loop(lambda v: Store(C, index(v), Load(C, index(v)) + Load(A, v)))
    assert isinstance(transformed(body), Store)


def test_of_two_nested_vector_loops_the_inner_one_becomes_vectors() -> None:
    body = transformed(
        vector_loop(lambda u: vector_loop(lambda v: Store(C, u * 8 + v, Load(A, u * 8 + v))))
    )
    assert serial(body)
    assert [s.index.lanes for s in walk(body) if isinstance(s, Store)] == [8]


def test_a_loop_that_allocates_around_vectors_stays_one() -> None:
    def each(u: Var) -> Stmt:
        own = vector_loop(lambda v: Store(T, v, Load(A, u + v)), 2)
        return Allocate(T, seq(own, Store(C, u, Load(T, Const(0, "int32")) + Load(T, ONE))))

    body = transformed(vector_loop(each))
    assert serial(body)
    assert {s.index.lanes for s in walk(body) if isinstance(s, Store)} == {1, 2}


def test_a_function_without_vector_loops_is_returned_as_it_is() -> None:
    body = For(Var("i"), N, LoopKind.SERIAL, Store(C, ONE, Const(1.0, "float32")))
    function = PrimFunc("f", (C,), frozenset([C]), body)
    assert vectorize(function) is function


def test_a_read_at_the_loop_variable_of_what_is_written_elsewhere_stays_a_loop() -> None:
    loop = vector_loop(
        lambda v: seq(
            Store(C, v, Load(B, v)),
            Store(B, v + 1, Const(1.0, "float32")),
            Store(B, v + 2, Const(2.0, "float32")),
        ),
        4,
    )
    function = PrimFunc("f", (A, B, C), frozenset([B, C]), loop)
    after = vectorize(function)
    assert serial(after.body)
    np.testing.assert_array_equal(run(after)[:4], [63, 1, 1, 1])


def test_a_loop_that_stays_one_is_noted_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = vector_loop(lambda v: Store(C, ONE, Load(A, v)))
    info = FunctionInfo(nontemporal=frozenset("C"))
    function = PrimFunc("f", (A, B, C), frozenset([C]), body, info=info)
    with caplog.at_level("DEBUG", logger="autotune.lowering.vector.vectorize"):
        after = vectorize(function)
    reason = "all iterations write one element of C"
    assert after.info == replace(info, not_vectorized=(("v", reason),))
    assert caplog.messages == ["loop v is not vectorized: all iterations write one element of C"]


def test_a_value_that_all_lanes_have_or_none_is_loaded_as_a_vector() -> None:
    x = Var("x")

    def padded(v: Var) -> Stmt:
        place = x * 4 + v
        value = Call("if_then_else", (place < 12, Load(A, place), Const(0.0, "float32")), "float32")
        return Store(C, place, value)

    loop = For(x, Const(6, "int32"), LoopKind.SERIAL, vector_loop(padded, 4))
    (branch,) = [s for s in walk(transformed(loop)) if isinstance(s, If)]
    assert branch.condition.lanes == 1
    assert isinstance(branch.then, Store)
    assert isinstance(branch.then.value, Load)


def test_a_place_that_differs_further_on_is_no_place_of_all_lanes() -> None:
    """The first two iterations write one element; the fifth and sixth another one."""

    def body(v: Var) -> Stmt:
        place = Call("if_then_else", (ops.binary("<", v, 4), Const(3, "int32"), v), "int32")
        return Store(C, place, Load(C, place) + Load(A, v))

    assert serial(transformed(vector_loop(body)))
