"""Guards on the lane compiled by LLVM: masks that touch nothing where they do not hold."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from support.llvm_kernels import buffer, random_index
from support.slow_cases import every
from support.vector_kernels import DTYPES, agree, also, loop, serial_loops, values

from autotune.ir import ops
from autotune.ir.expr import Const, Expr, Load, SizeVar, Var
from autotune.ir.stmt import Allocate, If, LoopKind, PrimFunc, Stmt, Store, seq

SERIAL = LoopKind.SERIAL
ZERO = Const(0.0, "float32")


def copied(
    n: int, extent: int, condition: Callable[[Expr], Expr], dtype: str = "float32", lanes: int = 8
) -> tuple[PrimFunc, npt.NDArray[Any], npt.NDArray[Any]]:
    """out[i] = A[i] for i in range(extent) where the condition holds."""
    a, out = buffer("A", dtype, n), buffer("out", dtype, n)

    def element(o: Expr, v: Expr) -> Stmt:
        i = o * lanes + v
        return If(condition(i), Store(out, i, Load(a, i)))

    body = loop(extent // lanes, lambda o: loop(lanes, lambda v: element(o, v)), SERIAL, "o")
    return PrimFunc("copy", (a, out), frozenset([out]), body), values(dtype, n), values(dtype, n, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_guarded_tail_is_loaded_and_stored_under_a_mask(dtype: str) -> None:
    kernel = agree(*unpacked(copied(13, 16, lambda i: ops.likely(i < 13), dtype)))
    assert serial_loops(kernel) == ["o"]
    assert "llvm.masked.load" in kernel.source
    assert "llvm.masked.store" in kernel.source


def unpacked(
    case: tuple[PrimFunc, npt.NDArray[Any], npt.NDArray[Any]],
) -> tuple[PrimFunc, list[npt.NDArray[Any]], npt.NDArray[Any]]:
    function, a, out = case
    return function, [a], out


CONDITIONS: dict[str, Callable[[Expr], Expr]] = {
    "below": lambda i: i < 29,
    "above": lambda i: ops.binary(">=", i, 3),
    "within": lambda i: also(i >= 5, i < 22),
    "twice": lambda i: i * 2 <= 40,
    "from the end": lambda i: 29 - i > 4,
    "equal": lambda i: ops.binary("==", i, 17),
    "different": lambda i: ops.binary("!=", i, 17),
    "remainder": lambda i: i % 5 < 3,
    "remainder of whole vectors": lambda i: i % 8 < 3,
    "quotient": lambda i: ops.binary("==", i // 3 % 2, 0),
    "either": lambda i: ops.binary("or", i < 3, i > 20),
    "not": lambda i: ops.logical_not(i < 7),
    "never": lambda i: i > 100,
    "always": lambda i: i < 100,
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_any_guard_on_the_lane_is_a_mask(case: str) -> None:
    kernel = agree(*unpacked(copied(32, 32, CONDITIONS[case])))
    assert serial_loops(kernel) == ["o"]


def test_a_guard_compares_one_scalar_with_a_vector_of_constants() -> None:
    kernel = agree(*unpacked(copied(13, 16, lambda i: i < 13)))
    compared = [line for line in kernel.source.splitlines() if "icmp" in line and "<8 x" in line]
    assert len(compared) == 1
    assert "<i32 13, i32 12, i32 11, i32 10, i32 9, i32 8, i32 7, i32 6>" in compared[0]


def test_guards_are_exact_beyond_32_bits() -> None:
    n = SizeVar("n")
    a, out = buffer("A", "float32", n), buffer("out", "float32", 16)

    def element(v: Var) -> Stmt:
        # 2**32 and -2**32 wrap to 0 in 32 bits.
        below = n * 1_073_741_824 + v < 1_073_741_824
        inside = v - n * 1_073_741_824 >= -5
        far = (n * 1_073_741_824 + v) // 3 > 0
        return seq(
            If(below, Store(out, v, Const(1.0, "float32"))),
            If(inside, Store(out, v, Const(2.0, "float32"))),
            If(far, Store(out, v, Load(out, v) + Const(4.0, "float32"))),
        )

    function = PrimFunc("far", (a, out), frozenset([out]), loop(16, element), (n,))
    for size in (0, 1, 4):
        agree(function, [values("float32", size)], np.zeros(16, "float32"))


def test_both_sides_of_a_lane_dependent_guard_run() -> None:
    a, out = buffer("A", "float32", 10), buffer("out", "float32", 16)

    def element(v: Var) -> Stmt:
        inside = also(v >= 3, v < 13)
        return If(inside, Store(out, v, Load(a, v - 3)), Store(out, v, Const(7.0, "float32")))

    function = PrimFunc("either", (a, out), frozenset([out]), loop(16, element))
    kernel = agree(function, [values("float32", 10)], np.zeros(16, "float32"))
    assert serial_loops(kernel) == []


def test_guards_nest_and_may_hold_loops_and_scalar_guards() -> None:
    a, b, out = buffer("A", "float32", 13), buffer("B", "float32", 4), buffer("out", "float32", 16)
    n = SizeVar("n")

    def element(v: Var) -> Stmt:
        def add(k: Var) -> Stmt:
            more = Store(out, v, Load(out, v) + Load(a, v) * Load(b, k))
            return If(k < n, If(v * k < 20, more))

        return If(v < 13, seq(Store(out, v, ZERO), loop(4, add, SERIAL, "k")))

    tail = buffer("N", "float32", n)
    function = PrimFunc("nest", (a, b, tail, out), frozenset([out]), loop(16, element), (n,))
    for size in (0, 2, 9):
        arrays = [values("float32", 13), values("float32", 4, 1), values("float32", size)]
        kernel = agree(function, arrays, values("float32", 16, 2))
    assert serial_loops(kernel) == ["k"]


def test_a_guard_may_read_what_it_guards() -> None:
    a, out = buffer("A", "float32", 16), buffer("out", "float32", 16)
    body = loop(16, lambda v: If(Load(out, v) > Load(a, v), Store(out, v, Load(a, v))))
    function = PrimFunc("least", (a, out), frozenset([out]), body)
    kernel = agree(function, [values("float32", 16)], values("float32", 16, 1))
    assert serial_loops(kernel) == []


@pytest.mark.parametrize("seed", every(2, range(12)))
def test_random_guards_and_what_they_guard_agree_with_the_interpreter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, count = SizeVar("n"), 6
    table, out = buffer("T", "int32", n), buffer("out", "int32", count, 40)

    def number(i: Var, v: Var) -> Expr:
        return random_index(rng, [i, v, i * 8 + v, n], 3)

    def condition(i: Var, v: Var) -> Expr:
        op = ["<", "<=", ">", ">=", "==", "!="][rng.integers(6)]
        test = ops.binary(op, number(i, v), number(i, v))
        if rng.random() < 0.3:
            test = ops.binary(["and", "or"][rng.integers(2)], test, condition(i, v))
        return ops.logical_not(test) if rng.random() < 0.2 else test

    def element(k: int, i: Var, v: Var) -> Stmt:
        at = k * 40 + i * 8 + v
        found = ops.if_then_else(condition(i, v), Load(table, number(i, v) % n), number(i, v))
        return If(condition(i, v), Store(out, at, found), Store(out, at, Load(out, at) + 1))

    def row(i: Var) -> Stmt:
        return seq(*(loop(8, partial(element, k, i)) for k in range(count)))

    function = PrimFunc("random", (table, out), frozenset([out]), loop(5, row, SERIAL, "i"), (n,))
    kernel = agree(function, [values("int32", 13)], values("int32", count * 40).reshape(count, 40))
    assert set(serial_loops(kernel)) == {"i"}


def test_a_guard_that_no_lane_depends_on_stays_a_branch() -> None:
    n = SizeVar("n")
    a, out = buffer("A", "float32", n), buffer("out", "float32", 16)
    body = loop(16, lambda v: If(n > 15, Store(out, v, Load(a, v))))
    function = PrimFunc("whole", (a, out), frozenset([out]), body, (n,))
    for size in (15, 16):
        kernel = agree(function, [values("float32", size)], np.zeros(16, "float32"))
    assert "masked" not in kernel.source
    assert "store <16 x float>" in kernel.source


def test_a_scalar_that_all_lanes_share_is_loaded_once_where_any_lane_is_active() -> None:
    a, b, out = buffer("A", "float32", 3), buffer("B", "float32", 8), buffer("out", "float32", 32)

    def element(o: Expr, v: Expr) -> Stmt:
        i = o * 8 + v
        return If(i < 20, Store(out, i, Load(a, o) * Load(b, v)))

    body = loop(4, lambda o: loop(8, lambda v: element(o, v)), SERIAL, "o")
    function = PrimFunc("outer", (a, b, out), frozenset([out]), body)
    kernel = agree(
        function, [values("float32", 3), values("float32", 8, 1)], np.zeros(32, "float32")
    )
    assert kernel.source.count("load float") == 1


def test_a_guarded_accumulator_is_not_kept_from_registers() -> None:
    a, out = buffer("A", "float32", 40), buffer("out", "float32", 8)
    acc = buffer("acc", "float32", 8, scope="local")

    def element(v: Var) -> Stmt:
        return If(v < 5, Store(acc, v, Load(acc, v) + Load(a, v)))

    body = seq(
        loop(8, lambda v: Store(acc, v, ZERO)),
        loop(5, lambda _: loop(8, element), SERIAL, "k"),
        loop(8, lambda v: Store(out, v, Load(acc, v))),
    )
    function = PrimFunc("sum", (a, out), frozenset([out]), Allocate(acc, body))
    kernel = agree(function, [values("float32", 40)], np.zeros(8, "float32"))
    assert "alloca" in kernel.source
    assert "alloca" not in kernel.optimised()


@pytest.mark.parametrize("dtype", DTYPES[:5])
@pytest.mark.parametrize("by", [1, 4, 7])
def test_lanes_behind_a_loaded_vector_are_shifted_in_registers(by: int, dtype: str) -> None:
    a, out = buffer("A", dtype, 32), buffer("out", dtype, 32)

    def element(o: Expr, v: Expr) -> Stmt:
        i = o * 8 + v
        behind = ops.if_then_else(v >= by, Load(a, i - by), Const(5, dtype))
        return Store(out, i, Load(a, i) + behind)

    body = loop(4, lambda o: loop(8, lambda v: element(o, v)), SERIAL, "o")
    function = PrimFunc("shifted", (a, out), frozenset([out]), body)
    kernel = agree(function, [values(dtype, 32)], values(dtype, 32, 1))
    assert "llvm.masked.load" not in kernel.source


def shifted(dtype: str, lanes: int, other: float) -> PrimFunc:
    """out[i] = A[i] + (A[i - 1], or another value in the first of some lanes)."""
    a, out = buffer("A", dtype, 4 * lanes), buffer("out", dtype, 4 * lanes)

    def element(o: Expr, v: Expr) -> Stmt:
        i = o * lanes + v
        behind = ops.if_then_else(v >= 1, Load(a, i - 1), Const(other, dtype))
        return Store(out, i, Load(a, i) + behind)

    body = loop(4, lambda o: loop(lanes, lambda v: element(o, v)), SERIAL, "o")
    return PrimFunc("shifted", (a, out), frozenset([out]), body)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_lanes_behind_a_vector_of_several_registers_are_loaded_again(dtype: str) -> None:
    n = 4 * 64
    kernel = agree(shifted(dtype, 64, 5), [values(dtype, n)], values(dtype, n, 1))
    assert "llvm.masked.load" in kernel.source


@pytest.mark.parametrize("other", [-0.0, 5.0])
def test_a_masked_load_has_the_values_of_other_lanes(other: float) -> None:
    n = 4 * 64
    kernel = agree(shifted("float32", 64, other), [values("float32", n)], values("float32", n, 1))
    assert "select" not in kernel.source


@pytest.mark.parametrize("stride", [1, 2])
def test_own_memory_in_the_cache_is_read_past_its_end_rather_than_under_a_mask(stride: int) -> None:
    """out[v] = row[last + stride v] where the row has it, else 0."""
    n, last = 1000, 1000 - 5 * stride
    a, out = buffer("A", "float32", n), buffer("out", "float32", 8)
    row = buffer("row", "float32", n, scope="local")

    def element(v: Expr) -> Stmt:
        at = v * stride + last
        return Store(out, v, ops.if_then_else(at < n, Load(row, at), ZERO))

    body = seq(loop(n, lambda i: Store(row, i, Load(a, i)), SERIAL, "i"), loop(8, element))
    function = PrimFunc("end", (a, out), frozenset([out]), Allocate(row, body))
    kernel = agree(function, [values("float32", n)], np.ones(8, "float32"))
    assert "masked" not in kernel.source
