"""Maxima pass over NaNs only where these reach all results of their row by another way."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.ir.expr import Reduce, Select
from autotune.operators.contractions.attention import attention
from autotune.operators.reductions.softmax import softmax
from autotune.rules.softmax_exponents import with_cheap_exponents
from autotune.rules.softmax_maxima import with_plain_maxima
from autotune.target import Target
from autotune.te.tensor import ComputeOp, PlaceholderOp, producers_first

M, N = 5, 7
AVX2, AVX512 = Target("llvm -mcpu=x86-64-v3"), Target("llvm -mcpu=skylake-avx512")

X = te.placeholder((M, N), "float32", name="X")
H = te.placeholder((M, N), "float16", name="H")
B = te.placeholder((M,), "float32", name="B")
C = te.placeholder((M, 2, N), "float32", name="C")

Element = Callable[[Any, Any], Any]


def axis(length: int = N) -> te.IterVar:
    return te.reduce_axis((0, length), name="k")


def top_of(element: Element = lambda i, k: X[i, k], length: int = N) -> te.Tensor:
    k = axis(length)
    return te.compute((M,), lambda i: te.max(element(i, k), axis=k), name="top")


def less(top: te.Tensor, element: Element = lambda i, j: X[i, j]) -> te.Tensor:
    return te.compute((M, N), lambda i, j: te.exp(element(i, j) - top[i]), name="E")


def sum_of(E: te.Tensor, length: int = N) -> te.Tensor:
    k = axis(length)
    return te.compute((M,), lambda i: te.sum(E[i, k], axis=k), name="S")


def divided(E: te.Tensor, S: te.Tensor) -> te.Tensor:
    return te.compute((M, N), lambda i, j: E[i, j] / S[i], name="Y")


def shares(top: te.Tensor, element: Element = lambda i, j: X[i, j]) -> te.Tensor:
    E = less(top, element)
    return divided(E, sum_of(E))


def masked(i: Any, j: Any) -> Any:
    return te.if_then_else(j <= i, X[i, j] * 0.5 + B[i], te.min_value("float32"))


def by_columns() -> te.Tensor:
    k, r = axis(M), axis(M)
    top = te.compute((N,), lambda j: te.max(X[k, j], axis=k), name="top")
    E = te.compute((M, N), lambda i, j: te.exp(X[i, j] - top[j]), name="E")
    S = te.compute((N,), lambda j: te.sum(E[r, j], axis=r), name="S")
    return te.compute((M, N), lambda i, j: E[i, j] / S[j], name="Y")


def of_two_axes() -> te.Tensor:
    k, b, r, c = axis(), axis(2), axis(), axis(2)
    top = te.compute((M,), lambda i: te.max(C[i, b, k], axis=[b, k]), name="top")
    E = te.compute((M, 2, N), lambda i, a, j: te.exp(C[i, a, j] - top[i]), name="E")
    S = te.compute((M,), lambda i: te.sum(E[i, c, r], axis=[r, c]), name="S")
    return te.compute((N, M, 2), lambda j, i, a: E[i, a, j] / S[i], name="Y")


def in_half() -> te.Tensor:
    top = top_of(lambda i, k: H[i, k])
    E = te.compute(
        (M, N), lambda i, j: te.exp(H[i, j].astype("float32") - top[i].astype("float32"))
    )
    return divided(E, sum_of(E))


def of_halves_in_float32() -> te.Tensor:
    """The maximum has the wider type, too."""

    def element(i: Any, j: Any) -> Any:
        return H[i, j].astype("float32")

    return shares(top_of(element), element)


#: A user's maximum, which of a row of -inf is the lowest finite number.
_finite_max = te.comm_reducer(lambda x, y: te.max(x, y), te.min_value, name="finite_max")


def at_least_finite() -> te.Tensor:
    k = axis()
    top = te.compute((M,), lambda i: _finite_max(X[i, k], axis=k), name="top")
    E = less(top)
    S = sum_of(E)
    return te.compute((M, N), lambda i, j: E[i, j] / (S[i] + 0.5), name="Y")


def with_a_product_summed() -> te.Tensor:
    """Attention with all scores at once: the exponentials weight a sum, too."""
    E = less(top_of())
    S, k = sum_of(E), axis()
    W = te.compute((M,), lambda i: te.sum(E[i, k] * C[k % M, 0, k], axis=k), name="W")
    return te.compute((M,), lambda i: W[i] / S[i], name="Y")


PLAIN: dict[str, Callable[[], te.Tensor]] = {
    "a quotient": lambda: shares(top_of()),
    "the operator": lambda: softmax.function(M, N)[-1],
    "the operator in half floats": lambda: softmax.function(M, N, "float16")[-1],
    "of expressions": lambda: shares(top_of(masked), masked),
    "by columns": by_columns,
    "of two axes": of_two_axes,
    "in half": in_half,
    "of halves in float32": of_halves_in_float32,
    "at least finite": at_least_finite,
    "with a product summed": with_a_product_summed,
}


def read_once_more() -> te.Tensor:
    """The logarithm of the sum, to which the maximum is added again."""
    top = top_of()
    S = sum_of(less(top))
    return te.compute((M,), lambda i: te.log(S[i]) + top[i], name="Y")


def beside_the_row_below() -> te.Tensor:
    E = less(top_of())
    S = sum_of(E)
    return te.compute((M - 1, N), lambda i, j: E[i, j] / S[i + 1], name="Y")


def only_where_positive() -> te.Tensor:
    E = less(top_of())
    S = sum_of(E)
    return te.compute(
        (M, N), lambda i, j: te.if_then_else(E[i, j] > 0.5, E[i, j] / S[i], 0.0), name="Y"
    )


def summed_where_positive() -> te.Tensor:
    E, k = less(top_of()), axis()
    S = te.compute((M,), lambda i: te.sum(E[i, k], axis=k, where=E[i, k] > 0), name="S")
    return divided(E, S)


def of_the_diagonal() -> te.Tensor:
    """Not all exponentials are summed."""
    E, k = less(top_of()), axis(M)
    S = te.compute((M,), lambda i: te.sum(E[i, k], axis=k), name="S")
    return divided(E, S)


def without_the_terms() -> te.Tensor:
    top = top_of()
    E = te.compute((M, N), lambda i, j: te.exp(B[i] - top[i]), name="E")
    return divided(E, sum_of(E))


def with_a_sum_of_no_elements() -> te.Tensor:
    """The quotients are summed over an axis without elements: that is 0 in rows with a NaN, too."""
    E = less(top_of())
    S, k = sum_of(E), axis(0)
    empty = te.placeholder((M, 0), "float32", name="empty")
    Z = te.compute((M,), lambda i: te.sum(S[i] * empty[i, k], axis=k), name="Z")
    return te.compute((M, N), lambda i, j: E[i, j] + Z[i], name="Y")


def of_the_greatest_term() -> te.Tensor:
    """A maximum of the exponentials, not their sum."""
    E, k = less(top_of()), axis()
    S = te.compute((M,), lambda i: te.max(E[i, k], axis=k), name="S")
    return divided(E, S)


CARRYING: dict[str, Callable[[], te.Tensor]] = {
    "itself": top_of,
    "the exponentials": lambda: less(top_of()),
    "their sum and the maximum": read_once_more,
    "of more terms than are summed": lambda: divided(less(top_of()), sum_of(less(top_of()), N - 1)),
    "of fewer terms": lambda: shares(top_of(length=N - 1)),
    "the row below": beside_the_row_below,
    "only where positive": only_where_positive,
    "summed where positive": summed_where_positive,
    "of some of them": of_the_diagonal,
    "of others": without_the_terms,
    "with a sum of no elements": with_a_sum_of_no_elements,
    "of the greatest": of_the_greatest_term,
}


def are_plain(outputs: Sequence[te.Tensor], target: Target) -> bool:
    """Whether a maximum passes over NaNs."""
    ops = producers_first([t.op for t in with_plain_maxima(target, outputs)])
    bodies = [value for op in ops if isinstance(op, ComputeOp) for value in op.body]
    return any(isinstance(b, Reduce) and isinstance(b.combiner.result[0], Select) for b in bodies)


@pytest.mark.parametrize("cheaper", [False, True])
@pytest.mark.parametrize("target", [AVX2, AVX512], ids=str)
@pytest.mark.parametrize("name", [*PLAIN, *CARRYING])
def test_it_is_plain_where_nans_reach_the_results_anyway(
    name: str, target: Target, cheaper: bool
) -> None:
    outputs: Sequence[te.Tensor] = [(PLAIN | CARRYING)[name]()]
    if cheaper:
        outputs = with_cheap_exponents(target, outputs)
    assert are_plain(outputs, target) == (name in PLAIN)


def test_what_is_a_result_itself_carries_nans() -> None:
    top = top_of()
    E = less(top)
    S = sum_of(E)
    Y = divided(E, S)
    assert are_plain([Y], AVX2)
    assert are_plain([Y, S], AVX2)
    assert not are_plain([Y, top], AVX2)
    assert not are_plain([Y, E], AVX2)


def test_other_processors_and_scans_keep_it() -> None:
    outputs = [PLAIN["a quotient"]()]
    assert with_plain_maxima(Target("llvm -mcpu=x86-64"), outputs) is outputs

    class _Defaults:
        target = AVX2

        def define_knob(self, name: str, values: Sequence[Any], default: Any = None) -> Any:
            return values[-1] if default is None else default

    outputs = attention.function(_Defaults(), 1, 2, 20, 4, causal=False)[3:]
    assert with_plain_maxima(AVX2, outputs) is outputs


@pytest.mark.filterwarnings("ignore:no records given")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the target is for x86")
@pytest.mark.parametrize("name", [*PLAIN, *CARRYING])
@np.errstate(invalid="ignore")
def test_rows_with_a_nan_have_the_results_that_they_had(name: str) -> None:
    result = (PLAIN | CARRYING)[name]()
    inputs = [t for op in producers_first([result.op]) for t in op.outputs
              if isinstance(op, PlaceholderOp)]  # fmt: skip

    def computation() -> list[te.Tensor]:
        return [*inputs, result]

    rng = np.random.default_rng(3)
    arrays = [rng.normal(0, 9, t.shape).astype(t.dtype) for t in inputs]
    for array, at in zip(arrays, (3, 11, 20), strict=False):
        if array.size:
            array.flat[at % array.size] = np.nan
        array.flat[:1], array[-1] = np.inf, -np.inf
    plain, ours = (np.zeros(result.shape, result.dtype) for _ in range(2))
    autotune.build(te.create_schedule(result.op), [*inputs, result])(*arrays, plain)
    autotune.build(computation, {}, AVX2)(*arrays, ours)
    assert np.isnan(plain).any() == (name != "only where positive")
    np.testing.assert_allclose(ours, plain, rtol=1e-5 if result.dtype == "float32" else 1e-3)
