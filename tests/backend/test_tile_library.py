"""Tile as operator libraries write it: evaluated and on both targets what NumPy has, and slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.slow_cases import every
from support.tile_library import LIBRARY
from support.tile_slopes import check_gradient
from support.tile_tools import run

from autotune import tile
from autotune.errors import TileError


def expected(name: str) -> tuple[Any, ...]:
    own = LIBRARY[name]
    with np.errstate(all="ignore"):
        found = own.meaning(*own.inputs)
    return found if isinstance(found, tuple) else (found,)


def assert_equal(found: Any, name: str) -> None:
    results = found if isinstance(found, tuple) else (found,)
    for got, wanted in zip(results, expected(name), strict=True):
        assert got.shape == np.shape(wanted)
        if got.dtype.kind in "iub":
            np.testing.assert_array_equal(got, wanted)
            assert got.dtype == np.asarray(wanted).dtype
        else:
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)


def test_the_table_has_60_functions_and_most_have_gradients() -> None:
    assert len(LIBRARY) >= 60
    assert sum(bool(own.wrt) for own in LIBRARY.values()) >= 40


@pytest.mark.parametrize("name", LIBRARY)
def test_a_library_function_means_what_numpy_does(name: str) -> None:
    assert_equal(run(LIBRARY[name].code, *LIBRARY[name].inputs), name)


#: All for CPUs, and some for GPUs: the schedules of either are made by rules.
COMPILED = [(name, "llvm") for name in LIBRARY]
COMPILED += every(3, [(name, "cuda -on=cpu") for name in LIBRARY])


@pytest.mark.parametrize(("name", "target"), COMPILED)
def test_a_library_function_is_compiled(name: str, target: str) -> None:
    assert_equal(tile.compile(LIBRARY[name].code, target)(*LIBRARY[name].inputs), name)


@pytest.mark.parametrize("name", [name for name, own in LIBRARY.items() if own.wrt])
def test_a_library_function_has_the_gradient_of_its_slopes(name: str) -> None:
    check_gradient(LIBRARY[name].code, LIBRARY[name].inputs, LIBRARY[name].wrt)


@pytest.mark.parametrize("target", ["llvm", "cuda -on=cpu"])
@pytest.mark.parametrize(
    "name",
    [
        "transposed convolution to a size that is given", "softmax", "logarithm of a softmax",
        "rows by numbers", "rows added up by numbers", "padded with something else", "dropout",
    ],
)  # fmt: skip
def test_the_gradient_of_a_library_function_is_compiled(name: str, target: str) -> None:
    own = LIBRARY[name]
    made = tile.gradient(tile.parse(own.code), own.wrt, ranks=_ranks(name))
    seeds = [np.ones(np.shape(o), "f4") for o in expected(name)]
    found = tile.compile(made, target)(*own.inputs, *seeds)
    wanted = run(tile.to_code(made), *own.inputs, *seeds)
    several = found if isinstance(found, tuple) else (found,)
    for got, slope in zip(several, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(got, slope, rtol=1e-5, atol=1e-6)


def _ranks(name: str) -> dict[str, int]:
    own = LIBRARY[name]
    inputs = zip(tile.parse(own.code).inputs, own.inputs, strict=True)
    return {i.name.text: np.ndim(a) for i, a in inputs if isinstance(a, np.ndarray | np.generic)}


def test_an_assertion_that_fails_says_what_the_sizes_are() -> None:
    code = LIBRARY["channel-wise convolution with an assertion"].code
    image, kernel = np.ones((1, 4, 5, 4), "f4"), np.ones((2, 3, 3, 2), "f4")
    with pytest.raises(TileError) as caught:
        tile.compile(code)(image, kernel)
    assert caught.value.problem == "assert_group_count(G == CI) fails: G = 3 and CI = 4"
