"""Sampled configurations of Tile functions on CPUs compute what the functions mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.legal_configurations import default_and_drawn
from support.tile_programs import PROGRAMS
from support.tile_tools import floats

from autotune import tile
from autotune.builder import BuiltFunction
from autotune.operators.tile_template import arguments_of, tile_template
from autotune.task.task import Task
from autotune.tile.binding.bound_program import TensorType

DENSE = """function (A[M, K], B[K, N], Bias[N]) -> (D) {
    C[i, j: M, N] = +(A[i, k] * B[k, j]);
    Z = C + Bias;
    D = Z > 0 ? Z : 0.0;
}"""

#: Sizes that fill vectors and leave rests, by program.
LARGE = {
    "dilated and grouped convolution": ((1, 9, 12, 36), (3, 2, 2, 18, 33)),
    "padded and strided convolution": ((1, 3, 15, 40), (33, 3, 3, 3)),
    "transposed convolution": ((20, 7), (3, 7, 40)),
    "pooling with rounding up": ((2, 14, 13, 35),),
    "batch norm": ((4, 3, 3, 37), (37,), (37,)),
    "layer norm": ((37, 50), (50,), (50,)),
    "softmax": ((37, 50),),
    "argmax": ((37, 70),),
    "cumulative sums both ways": ((40, 37),),
    "concatenation": ((10, 35), (9, 35)),
    "winograd": ((1, 9, 8, 20), (3, 3, 20, 35), (4, 4), (4, 3), (2, 4)),
    "lstm step": ((5, 20), (5, 24), (5, 24), (20, 96), (24, 96), (96,)),
    "product over an axis": ((19, 37), (37,)),
    "nearest of some points": ((40, 5), (37, 5)),
}


def task_of(code: str, arrays: list[Any]) -> Task:
    function = tile.parse(code)
    types = [TensorType(a.shape, a.dtype.name) for a in arrays]
    return Task(tile_template(function, "f", "llvm"), arguments_of(function, types), "llvm")


def check(code: str, arrays: list[Any], count: int) -> None:
    """Hold the default and some other configurations against what a function means."""
    task = task_of(code, arrays)
    want = tile.compile(code).built(*arrays)[0]
    expected = tile.evaluate(want, *arrays)
    for index in default_and_drawn(task, count):
        results = [np.full(a.shape, 7, a.dtype) for a in task.arguments[len(arrays) :]]
        BuiltFunction(task.final(index), task.target)(*arrays, *results)
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-4, err_msg=str(index))


@pytest.mark.parametrize("name", ["layer norm", "softmax", "argmax"])
def test_rows_and_lanes_compute_what_the_function_means(name: str) -> None:
    check(PROGRAMS[name].code, PROGRAMS[name].arrays(LARGE[name]), 2)


def test_a_statement_that_ends_tiles_computes_what_the_function_means() -> None:
    check(DENSE, [floats(21, 18), floats(18, 37), floats(37)], 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_many_configurations_compute_what_the_function_means(name: str) -> None:
    check(PROGRAMS[name].code, PROGRAMS[name].arrays(LARGE[name]), 20)


def test_a_softmax_is_computed_row_by_row_with_partial_results_in_lanes() -> None:
    listing = str(task_of(PROGRAMS["softmax"].code, [floats(512, 256)]).function_of({}))
    assert "Sum_lanes" in listing
    assert listing.index("parallel") < listing.index("Most_lanes") < listing.index("exp")


def test_bias_and_relu_are_computed_at_the_tiles_of_the_product() -> None:
    arrays = [floats(64, 64), floats(64, 64), floats(64)]
    listing = str(task_of(DENSE, arrays).function_of({}))
    assert "produce D" in listing
    assert "produce C " not in listing
