"""Realistic Tile programs mean what NumPy computes, and survive being printed."""

from __future__ import annotations

import numpy as np
import pytest
from support.tile_programs import PROGRAMS
from support.tile_tools import run

from autotune.tile import parse


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_means_what_numpy_computes(name: str) -> None:
    program = PROGRAMS[name]
    for shapes in program.cases:
        arrays = program.arrays(shapes)
        results, expected = run(program.code, *arrays), program.meaning(*arrays)
        if not isinstance(expected, tuple):
            results, expected = (results,), (expected,)
        for result, value in zip(results, expected, strict=True):
            assert result.shape == value.shape
            assert result.dtype == value.dtype
            np.testing.assert_allclose(result, value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_printed_and_read_again_as_the_same_tree(name: str) -> None:
    tree = parse(PROGRAMS[name].code)
    assert parse(str(tree)) == tree
