"""The verifier accepts what lowering may produce and names what it may not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from support.verify import verify

from autotune.errors import IRError
from autotune.ir import ops
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Buffer,
    Call,
    Expr,
    KnobVar,
    Load,
    Not,
    Ramp,
    Read,
    SizeVar,
    Var,
)
from autotune.ir.stmt import (
    Allocate,
    Arrive,
    Barrier,
    CopyAhead,
    For,
    FunctionInfo,
    If,
    LoopKind,
    Prefetch,
    PrimFunc,
    Produce,
    Stmt,
    Store,
    seq,
)

N = 8
A = Buffer("A", "float32", (ops.const(N),))
B = Buffer("B", "float32", (ops.const(N),))


def loop(var: Var, body: Stmt, extent: object = N, kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(var, ops.convert(extent), kind, body)


def function(body: Stmt, sizes: tuple[SizeVar, ...] = ()) -> PrimFunc:
    return PrimFunc("f", (A, B), frozenset({B}), body, sizes)


def refused(body: Stmt, message: str, sizes: tuple[SizeVar, ...] = ()) -> None:
    with pytest.raises(IRError, match=message):
        verify(function(body, sizes))


def test_a_well_formed_function_is_returned() -> None:
    i, n, local = Var("i"), SizeVar("n"), Buffer("L", "float32", (ops.const(2),), "local")
    copy = Store(local, ops.const(0), Load(A, i))
    back = If(ops.likely(i < n), Store(B, i, Load(local, ops.const(0))))
    fine = function(Produce("B", loop(i, Allocate(local, seq(copy, back)), n)), (n,))
    assert verify(fine) is fine


def test_vectors_are_well_formed() -> None:
    ramp = Ramp(ops.const(0), ops.const(1), N)
    verify(function(Store(B, ramp, Load(A, ramp) + Broadcast(ops.const(1.0), N))))


def test_one_variable_may_be_bound_by_two_loops_that_follow_each_other() -> None:
    i = Var("i")
    once = loop(i, Store(B, i, Load(A, i)))
    verify(function(seq(once, once)))


def test_an_unbound_variable_is_named() -> None:
    refused(Store(B, Var("stray"), ops.const(0.0)), "'stray' is used outside")


def test_a_size_that_the_function_does_not_list_is_unbound() -> None:
    refused(loop(Var("i"), Store(B, ops.const(0), ops.const(0.0)), SizeVar("n")), "'n' is used")


def test_a_variable_bound_inside_its_own_loop_is_refused() -> None:
    i = Var("i")
    refused(loop(i, loop(i, Store(B, i, Load(A, i)))), "bound a second time")


def test_a_loop_variable_is_unbound_after_its_loop() -> None:
    i = Var("i")
    refused(seq(loop(i, Store(B, i, Load(A, i))), Store(B, i, ops.const(0.0))), "outside any loop")


def test_a_buffer_that_nobody_allocates_is_refused() -> None:
    other = Buffer("X", "float32", (ops.const(N),))
    refused(Store(B, ops.const(0), Load(other, ops.const(0))), "'X' is neither")
    refused(Store(other, ops.const(0), ops.const(0.0)), "'X' is neither")


def test_a_buffer_ends_with_its_allocation() -> None:
    other = Buffer("X", "float32", (ops.const(N),))
    inside = Allocate(other, Store(other, ops.const(0), ops.const(0.0)))
    refused(seq(inside, Store(other, ops.const(0), ops.const(0.0))), "'X' is neither")


def test_two_buffers_of_one_name_are_refused() -> None:
    other = Buffer("A", "float32", (ops.const(N),))
    refused(Allocate(other, Store(other, ops.const(0), ops.const(0.0))), "two buffers are named")


def test_an_input_that_is_written_is_refused() -> None:
    refused(Store(A, ops.const(0), ops.const(0.0)), "'A' is written but is not an output")


def test_an_output_that_is_no_parameter_is_refused() -> None:
    broken = PrimFunc("f", (A,), frozenset({B}), Store(A, ops.const(0), ops.const(0.0)))
    with pytest.raises(IRError, match="'B' is not a parameter"):
        verify(broken)


def test_a_float_index_is_refused() -> None:
    refused(Store(B, ops.const(1.0), ops.const(0.0)), "not an integer")
    refused(Store(B, ops.const(1), Load(A, ops.const(1.0))), "not an integer")


def test_a_value_of_another_type_than_its_buffer_is_refused() -> None:
    refused(Store(B, ops.const(0), ops.const(0)), "takes float32, but `0` is int32")


def test_a_store_whose_lanes_differ_is_refused() -> None:
    ramp = Ramp(ops.const(0), ops.const(1), 4)
    refused(Store(B, ramp, ops.const(0.0)), "takes float32x4")


def test_a_condition_that_is_a_number_is_refused() -> None:
    refused(If(ops.const(1), Store(B, ops.const(0), ops.const(0.0))), "not a bool")


F, WIDE, WHOLE = (Load(A, ops.const(0)), ops.const(1.0, "float64"), ops.const(3))
CALLS: dict[str, Expr] = {
    "2 operands of 'exp', which takes 1": Call("exp", (F, F), "float32"),
    "operands of 'pow' differ in type": Call("pow", (F, WIDE), "float32"),
    "'tanh' of int32, which takes floats": Call("tanh", (WHOLE,), "int32"),
    "'popcount' of float32, which takes integers": Call("popcount", (F,), "float32"),
    "'erf' of float32 as float64": Call("erf", (F,), "float64"),
    "'isnan' of float32 as float32": Call("isnan", (F,), "float32"),
}


@pytest.mark.parametrize("problem", CALLS)
def test_a_function_of_what_it_does_not_take_is_refused(problem: str) -> None:
    value = ops.cast("float32", CALLS[problem])
    refused(Store(B, ops.const(0), value), re.escape(f"{problem} in `{CALLS[problem]}`"))


LANES = Ramp(ops.const(0), ops.const(1), 4)
PAIR = Ramp(ops.const(0), ops.const(1), 2)
ZEROS = Store(B, LANES, Broadcast(ops.const(0.0), 4))


def test_a_condition_of_lanes_may_hold_stores_of_as_many() -> None:
    inner = loop(Var("i"), If(ops.const(1) < 2, If(LANES < 1, ZEROS)), 3)
    verify(function(If(LANES < 3, seq(ZEROS, inner), ZEROS)))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (Store(B, ops.const(0), ops.const(0.0)), "one element of B is written under a condition"),
        (Store(B, PAIR, Broadcast(ops.const(0.0), 2)), "has 2 lanes under a condition of 4"),
        (If(PAIR < 1, ZEROS), "has 2 lanes under a condition of 4"),
        (loop(Var("i"), ZEROS, 2, LoopKind.PARALLEL), "is parallel under a condition of 4 lanes"),
    ],
)
def test_what_cannot_run_for_some_lanes_is_refused_under_their_condition(
    body: Stmt, message: str
) -> None:
    refused(If(LANES < 3, body), message)


@pytest.mark.parametrize("extent", [ops.const(1.5), ops.const(True), Broadcast(ops.const(2), 4)])
def test_a_loop_extent_that_is_not_one_integer_is_refused(extent: Expr) -> None:
    refused(loop(Var("i"), Store(B, ops.const(0), ops.const(0.0)), extent), "not one integer")


def test_a_thread_loop_without_a_tag_is_refused() -> None:
    body = Store(B, ops.const(0), ops.const(0.0))
    refused(For(Var("t"), ops.const(4), LoopKind.THREAD, body), "thread tag")
    refused(For(Var("t"), ops.const(4), LoopKind.SERIAL, body, "threadIdx.x"), "thread tag")


def test_knobs_are_refused_unless_allowed() -> None:
    i, knob = Var("i"), KnobVar("tile", 1, 8)
    body = loop(i, Store(B, i, Load(A, i)), knob)
    refused(body, "knob 'tile' is left")
    verify(function(body), allow_knobs=True)


def test_a_tensor_read_is_refused_after_lowering() -> None:
    class Tensor:
        name, dtype = "T", "float32"

    refused(Store(B, ops.const(0), Read(Tensor(), (ops.const(0),))), "only exists before lowering")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: BinaryOp("//", ops.const(1.0), ops.const(2.0)), "`//` of float32"),
        (lambda: BinaryOp("/", ops.const(1), ops.const(2)), "`/` of int32"),
        (lambda: BinaryOp("+", ops.const(True), ops.const(True)), r"`\+` of bool"),
        (lambda: BinaryOp("and", ops.const(1), ops.const(2)), "`and` of int32"),
        (lambda: Not(ops.const(1)), "`not` of int32"),
        (lambda: Ramp(ops.const(0.0), ops.const(1.0), 4), "ramp of other"),
        (lambda: Ramp(ops.const(0), ops.const(1), 1), "vector of 1 lanes"),
        (lambda: Broadcast(Broadcast(ops.const(0), 2), 4), "made of vectors"),
    ],
)
def test_operands_of_the_wrong_type_are_refused(bad: object, message: str) -> None:
    value = bad()  # type: ignore[operator]
    cast = ops.cast("float32", value) if value.dtype != "float32" else value
    refused(Store(B, ops.const(0), cast), message)


def test_copies_go_to_shared_storage() -> None:
    store = Store(B, ops.const(0), ops.const(0.0))
    for kind in (CopyAhead, Arrive):
        refused(kind(store), "'B' is copied to, but not in shared storage")


def test_all_threads_of_a_block_come_to_a_barrier() -> None:
    t, k = Var("t"), Var("k")

    def threads(body: Stmt) -> Stmt:
        return For(t, ops.const(4), LoopKind.THREAD, body, "threadIdx.x")

    verify(function(threads(For(k, ops.const(2), LoopKind.SERIAL, Barrier()))))
    refused(threads(If(t < 2, Barrier())), r"come to a barrier: the condition `\(t < 2\)` differs")
    refused(threads(For(k, t, LoopKind.SERIAL, Barrier())), "the extent of loop 'k' differs")


def known(**facts: Any) -> PrimFunc:
    return replace(function(Store(B, ops.const(0), ops.const(0.0))), info=FunctionInfo(**facts))


KNOB, OTHER = KnobVar("k", 1, 8), SizeVar("n")
WRONG: dict[str, dict[str, Any]] = {
    "a fact or hint names buffer 'Z', which it does not have": {"nontemporal": frozenset("BZ")},
    "a fact or hint names buffer 'Y', which it does not have": {"scan_states": {"Y": False}},
    "a fact or hint names buffer 'X', which it does not have": {"copied_ahead": frozenset("X")},
    "a hint for buffer 'A', `1f`, is float32": {"prefetches": {"A": Prefetch(ops.const(1.0), 2)}},
    "the number of threads of a loop, `1f`": {"num_threads": {Var("i"): ops.const(1.0)}},
    "variable 'n' is used outside any loop": {"blocks_per_multiprocessor": {"B": OTHER}},
    "the pragma 'unroll_explicit', `True`": {
        "loop_pragmas": {Var("i"): {"unroll_explicit": ops.const(True)}}
    },
    "an extent with a least value, `1f`": {"least_extents": ((ops.const(1.0), 2),)},
    "the requirement `k` (odd) is not a condition on knobs": {"requirements": ((KNOB, "odd"),)},
    "the requirement `(n < 4)` (few) is not a condition": {"requirements": ((OTHER < 4, "few"),)},
    "'B.line' says where 'Z' lies, which is not a parameter": {
        "line_offsets": {SizeVar("B.line"): Buffer("Z", "float32", (ops.const(N),))}
    },
}


@pytest.mark.parametrize("message", WRONG)
def test_a_fact_of_what_a_function_does_not_have_is_refused(message: str) -> None:
    with pytest.raises(IRError, match=re.escape(message)):
        verify(known(**WRONG[message]))


def test_facts_of_a_functions_buffers_sizes_and_knobs_are_fine() -> None:
    facts = known(
        requirements=((KNOB < 4, "few"),),
        nontemporal=frozenset("B"),
        prefetches={"A": Prefetch(ops.const(64), 1)},
        line_offsets={SizeVar("B.line"): B},
    )
    assert verify(facts) is facts
