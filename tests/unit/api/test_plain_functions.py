"""Functions that return tensors, as users write them by mistake: one line says what to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import UsageError

pytestmark = pytest.mark.filterwarnings("ignore:no records given")


def positional(n: int, /) -> Any:
    A = te.placeholder((n,), name="A")
    return te.compute((n,), lambda i: A[i], name="B")


def long_answer(n: int) -> Any:
    return np.zeros((50, n))


def wrong_rank(n: int) -> Any:
    A = te.placeholder((n, n), name="A")
    return te.compute((n,), lambda i: A[i], name="B")


def size_at_call_time(n: int) -> Any:
    m = te.var("m")
    A = te.placeholder((m,), name="A")
    return te.compute((m,), lambda i: A[i], name="B")


def sum_of_any_length(n: int) -> Any:
    m = te.var("m")
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    return te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (positional, "parameter 'n' must be one that is given by name"),
        (long_answer, "it returned array("),
        (wrong_rank, "tensor 'A' has 2 dimensions, got 1 indices ("),
        (size_at_call_time, "'A' has the size 'm' from te.var"),
        (sum_of_any_length, "'A' has the size 'm' from te.var"),
    ],
)
def test_a_mistake_is_one_short_line(function: Callable[..., Any], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        autotune.build(function, {"n": 40})
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_mistake_in_an_expression_is_told_with_its_line() -> None:
    line = wrong_rank.__code__.co_firstlineno + 2
    with pytest.raises(UsageError, match=rf"test_plain_functions\.py:{line}\)"):
        autotune.build(wrong_rank, {"n": 40})


def test_names_of_any_length_work() -> None:
    def long_names(n: int) -> Any:
        A = te.placeholder((n,), name="A" * 5000)
        B = te.placeholder((n,), name="A" * 4999)
        return te.compute((n,), lambda i: A[i] - B[i], name="A" * 4998)

    out = np.empty(9, "float32")
    autotune.build(long_names, {"n": 9})(np.full(9, 3, "float32"), np.ones(9, "float32"), out)
    assert out.tolist() == [2] * 9


@pytest.mark.filterwarnings("ignore:template 'row_sums' cannot be traced")
def test_more_rows_than_int32_counts_are_built() -> None:
    def row_sums(m: int) -> Any:
        A = te.placeholder((m, 3), name="A")
        k = te.reduce_axis((0, 3), "k")
        return te.compute((m,), lambda i: te.sum(A[i, k], axis=k), name="B")

    assert "row_sums" in autotune.build(row_sums, {"m": 2**31 + 5}).source
