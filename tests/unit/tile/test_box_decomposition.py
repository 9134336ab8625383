"""Index sets cut into boxes: which indices are fixed, and that the same is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.tile_programs import PROGRAMS
from support.tile_tools import bound, floats

from autotune.ir import dtypes
from autotune.tile import evaluate
from autotune.tile.binding.bound_program import Contract
from autotune.tile.evaluation.reference_evaluator import contracted
from autotune.tile.index_sets.box_decomposition import boxes, is_worthwhile


def contract(code: str, *arrays: Any) -> Contract:
    step = bound(code, *arrays).steps[0]
    assert isinstance(step, Contract)
    return step


@pytest.mark.parametrize(
    ("statement", "fixed"),
    [
        ("O[i, j: N, N] = +(A[i, k] * A[k, j]);", []),
        ("O[i, j: N, N] = +(A[i + k - 1, j]), k < 3;", ["k"]),
        ("O[i: N] = +(A[j, i]), i - j < N;", ["i"]),
        ("O[i / 2: N] = +(A[i, 2 * j + 1]);", []),
        ("O[i: N] = >(A[i + k - 1, j + l]), k < 2, l < 3, j < 5;", ["k", "l"]),
    ],
)
def test_few_values_are_fixed_such_that_no_condition_relates_two_others(
    statement: str, fixed: list[str]
) -> None:
    a = floats(9, 9)
    step = contract(f"function (A[N, M]) -> (O) {{ {statement} }}", a)
    ends = step.domain.box()
    assert ends is not None
    found = list(boxes(step.domain, ends))
    assert {tuple(box.fixed) for box in found} == {tuple(fixed)}
    points = sum(int(np.prod(box.shape(box.free))) for box in found)
    assert points == sum(len(block["i"]) for block in step.domain.points())


@pytest.mark.parametrize("name", PROGRAMS)
def test_contractions_of_programs_are_the_same_in_boxes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[name]
    arrays = program.arrays(program.cases[0])
    made = bound(program.code, *arrays)
    expected = evaluate(made, *arrays)
    monkeypatch.setattr(
        "autotune.tile.evaluation.reference_evaluator.is_worthwhile", lambda *_: True
    )
    monkeypatch.setattr("autotune.tile.evaluation.reference_evaluator._PIECE", 7)
    for result, value in zip(evaluate(made, *arrays), expected, strict=True):
        np.testing.assert_allclose(result, value, rtol=1e-6, atol=1e-7, strict=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "uint32", "bool"])
@pytest.mark.parametrize("value", ["+(A[i, k] * B[k, j])", "*(A[i, k] + B[k, j])",
                                   ">(A[i, k] + B[k, j])", "<(A[i, k])", "+(A[i, k])",
                                   "+(A[i, k] == B[k, j] ? A[k, j])"])  # fmt: skip
def test_values_and_types_are_the_same_in_boxes(value: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, (6, 6)).astype(dtypes.numpy_dtype(dtype)) for _ in range(2))
    code = f"function (A[M, K], B[K, N]) -> (O) {{ O[i, j: M, N] = {value}; }}"
    tensors = {"A": a, "B": b}
    step = contract(code, a, b)
    by_points, in_boxes = (contracted(step, tensors, way) for way in (False, True))
    assert by_points.dtype == in_boxes.dtype
    np.testing.assert_array_equal(by_points, in_boxes)


@pytest.mark.parametrize(
    ("statement", "worthwhile"),
    [
        ("O[i, j: N, N] = +(A[i, k] * A[k, j]);", True),
        ("O[i, j: 9, 9] = +(A[i, k] * A[k, j]);", False),  # 9 * 9 * 200 points are few
        ("O[i, i: N, N] = +(A[i, j]);", False),
        ("O[i + j, i - j: N, N] = +(A[i, j]);", False),
    ],
)
def test_few_points_and_many_boxes_are_not_worth_it(statement: str, worthwhile: bool) -> None:
    step = contract(f"function (A[N, N]) -> (O) {{ {statement} }}", floats(200, 200))
    ends = step.domain.box()
    assert ends is not None
    assert is_worthwhile(step.domain, ends) is worthwhile


def test_a_large_product_is_numpys() -> None:
    a, b = floats(512, 300), floats(300, 600)
    code = "function (A[M, K], B[K, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }"
    result = evaluate(bound(code, a, b), a, b)[0]
    np.testing.assert_array_equal(result, (a.astype("f8") @ b.astype("f8")).astype("f4"))
