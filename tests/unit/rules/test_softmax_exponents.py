"""exp of what is proved not to be positive becomes cheaper, and no other."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.ir.expr import BinaryOp, Call, Expr, is_const
from autotune.ir.visitor import walk_expr
from autotune.operators.contractions.attention import attention
from autotune.rules.softmax_exponents import with_cheap_exponents
from autotune.target import Target
from autotune.te.tensor import ComputeOp, PlaceholderOp, producers_first

#: A processor without an instruction that scales by powers of 2.
PLAIN = Target("llvm -mcpu=x86-64-v3")
#: One with it.
SCALING = Target("llvm -mcpu=skylake-avx512")

M, N = 5, 7


def axis(length: int = N, start: int = 0) -> te.IterVar:
    return te.reduce_axis((start, start + length), name="k")


def exponents(outputs: Sequence[te.Tensor], target: Target = PLAIN) -> list[bool]:
    """Whether each exponent of a computation is bounded, in the order of its stages."""
    ops = producers_first([t.op for t in with_cheap_exponents(target, outputs)])
    bodies = [value for op in ops if isinstance(op, ComputeOp) for value in op.body]
    calls = [e for value in bodies for e in walk_expr(value) if isinstance(e, Call)]
    return [_is_bounded(call.children[0]) for call in calls if call.name == "exp"]


def _is_bounded(argument: Expr) -> bool:
    return isinstance(argument, BinaryOp) and argument.op == "min" and is_const(argument.b, 0)


X = te.placeholder((M, N), "float32", name="X")
H = te.placeholder((M, N), "float16", name="H")
B = te.placeholder((M,), "float32", name="B")
Q = te.placeholder((N, N), "float32", name="Q")


def top_of(element: Callable[[Any, Any], Any], over: te.IterVar | None = None) -> te.Tensor:
    k = over or axis()
    return te.compute((M,), lambda i: te.max(element(i, k), axis=k), name="top")


def less(element: Callable[[Any, Any], Any], top: te.Tensor) -> te.Tensor:
    """exp(element - top), by rows."""
    return te.compute((M, N), lambda i, j: te.exp(element(i, j) - top[i]), name="E")


def scaled(i: Any, j: Any) -> Any:
    return te.if_then_else(j <= i, X[i, j] * 0.5 + B[i], te.min_value("float32"))


def with_running_top() -> te.Tensor:
    before = te.placeholder((M,), "float32", name="before")
    own = top_of(lambda i, k: X[i, k])
    top = te.compute((M,), lambda i: te.max(before[i], own[i]), name="both")
    kept = te.compute((M,), lambda i: te.exp(before[i] - top[i]), name="kept")
    E = less(lambda i, j: X[i, j], top)
    return te.compute((M, N), lambda i, j: E[i, j] * kept[i], name="Y")


def along_columns() -> te.Tensor:
    k = axis(M)
    top = te.compute((N,), lambda j: te.max(X[k, j], axis=k), name="top")
    return te.compute((N, M), lambda j, i: te.exp(X[i, j] - top[j]), name="E")


def of_everything() -> te.Tensor:
    i, j = axis(M), axis(N)
    top = te.compute((1,), lambda _: te.max(X[i, j], axis=[i, j]), name="top")
    return te.compute((M, N), lambda i, j: te.exp(X[i, j] - top[0]), name="E")


def in_half() -> te.Tensor:
    k = axis()
    top = te.compute((M,), lambda i: te.max(H[i, k], axis=k), name="top")
    return te.compute(
        (M, N), lambda i, j: te.exp(H[i, j].astype("float32") - top[i].astype("float32")), name="E"
    )


def summed_at_once() -> te.Tensor:
    k = axis()
    top = top_of(lambda i, k: X[i, k])
    return te.compute((M,), lambda i: te.sum(te.exp(X[i, k] - top[i]), axis=k), name="S")


def cast_by(*dtypes: str) -> Callable[[], te.Tensor]:
    """An element less the maximum of its row, both cast through some types."""

    def made() -> te.Tensor:
        source = te.placeholder((M, N), dtypes[0], name="I")
        k = axis()
        top = te.compute((M,), lambda i: te.max(source[i, k], axis=k), name="top")

        def cast(value: Any) -> Any:
            for dtype in (*dtypes[1:], "float32"):
                value = value.astype(dtype)
            return value

        return te.compute((M, N), lambda i, j: te.exp(cast(source[i, j]) - cast(top[i])), name="E")

    return made


BOUNDED: dict[str, Callable[[], te.Tensor]] = {
    "by rows": lambda: less(lambda i, j: X[i, j], top_of(lambda i, k: X[i, k])),
    "of expressions": lambda: less(scaled, top_of(scaled)),
    "by columns": along_columns,
    "of everything": of_everything,
    "in half": in_half,
    "in a sum": summed_at_once,
    "of integers": cast_by("int32"),
    "by way of another float": cast_by("float64", "float16"),
    "with a running maximum": with_running_top,
}


def with_a_shared_axis() -> te.Tensor:
    """The axis of the maximum is also that of its reader, which reads a diagonal."""
    k, r = axis(), axis()
    top = te.compute((N,), lambda i: te.max(Q[i, k], axis=k), name="top")
    return te.compute((N,), lambda _: te.sum(te.exp(Q[r, r] - top[k]), axis=[k, r]), name="S")


def of_part_of_a_row() -> te.Tensor:
    return less(lambda i, j: X[i, j], top_of(lambda i, k: X[i, k], axis(N - 1)))


def of_the_row_below() -> te.Tensor:
    top = top_of(lambda i, k: X[i, k])
    return te.compute((M - 1, N), lambda i, j: te.exp(X[i + 1, j] - top[i]), name="E")


def of_some() -> te.Tensor:
    k = axis()
    top = te.compute((M,), lambda i: te.max(X[i, k], axis=k, where=X[i, k] < 1), name="top")
    return less(lambda i, j: X[i, j], top)


def of_the_least() -> te.Tensor:
    k = axis()
    return less(
        lambda i, j: X[i, j], te.compute((M,), lambda i: te.min(X[i, k], axis=k), name="least")
    )


def of_nothing() -> te.Tensor:
    k = axis(0)
    top = te.compute((M,), lambda i: te.max(X[i, 0], axis=k), name="top")
    return te.compute((M,), lambda i: te.exp(X[i, 0] - top[i]), name="E")


FREE: dict[str, Callable[[], te.Tensor]] = {
    "no maximum": lambda: less(lambda i, j: X[i, j], B),
    "of others": lambda: less(lambda i, j: X[i, j] * 2, top_of(lambda i, k: X[i, k])),
    "of part of a row": of_part_of_a_row,
    "of the row below": of_the_row_below,
    "of some": of_some,
    "the least": of_the_least,
    "with a shared axis": with_a_shared_axis,
    "of nothing": of_nothing,
    "wrapped": cast_by("int32", "int8"),
    "without a sign": cast_by("int32", "uint32"),
    "as truth": cast_by("float32", "bool"),
    "in half floats": lambda: te.compute((M, N), lambda i, j: te.exp(H[i, j] - H[i, j]), name="E"),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_term_less_its_maximum_is_bounded(name: str) -> None:
    found = exponents([BOUNDED[name]()])
    assert found
    assert all(found)


@pytest.mark.parametrize("name", FREE)
def test_other_exponents_are_not(name: str) -> None:
    found = exponents([FREE[name]()])
    assert found
    assert not any(found)


@pytest.mark.parametrize("name", [*BOUNDED, *FREE])
def test_they_are_powers_of_2_where_an_instruction_scales_by_these(name: str) -> None:
    made = (BOUNDED | FREE)[name]()
    ops = producers_first([t.op for t in with_cheap_exponents(SCALING, [made])])
    bodies = [value for op in ops if isinstance(op, ComputeOp) for value in op.body]
    calls = {e.name for value in bodies for e in walk_expr(value) if isinstance(e, Call)}
    assert ("exp2" in calls) == (name in BOUNDED)
    assert ("exp" in calls) == (name in FREE)


class _Defaults:
    """Gives each knob its default, or its last value."""

    target = PLAIN

    def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
        return values[-1] if default is None else default


@pytest.mark.parametrize("causal", [False, True])
def test_the_rows_of_attention_are_bounded_in_its_scan(causal: bool) -> None:
    tensors = attention.function(_Defaults(), 1, 2, 20, 4, causal=causal)
    assert exponents(tensors[3:]) == [True, True]


@pytest.mark.filterwarnings("ignore:no records given")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the target is for x86")
@pytest.mark.parametrize(
    "name", sorted({**BOUNDED, **FREE}.keys() - {"in half floats", "of nothing"})
)
def test_answers_are_those_of_the_computation(name: str) -> None:
    result = {**BOUNDED, **FREE}[name]()
    inputs = [t for op in producers_first([result.op]) for t in op.outputs
              if isinstance(op, PlaceholderOp)]  # fmt: skip

    def computation() -> list[te.Tensor]:
        return [*inputs, result]

    rng = np.random.default_rng(3)
    arrays = [
        rng.normal(0, 9 if "float" in t.dtype else 99, t.shape).astype(t.dtype) for t in inputs
    ]
    plain, ours = (np.zeros(result.shape, "float32") for _ in range(2))
    autotune.build(te.create_schedule(result.op), [*inputs, result])(*arrays, plain)
    autotune.build(computation, {}, PLAIN)(*arrays, ours)
    np.testing.assert_allclose(ours, plain, rtol=1e-5)
