"""Tile functions as tensor expressions, compiled, compute what they mean."""

from __future__ import annotations

import collections
import random
from typing import Any

import numpy as np
import pytest
from support.tile_contractions import random_case
from support.tile_programs import PROGRAMS
from support.tile_tools import bound, floats

import autotune
from autotune import te
from autotune.errors import TileError
from autotune.tile import Program, bind, evaluate, parse
from autotune.tile.to_te.program_to_te import to_te


def check_compiled(program: Program, arrays: list[Any], rtol: float = 2e-5) -> None:
    """Compile the plain loops of a program and hold its outputs against their meaning."""
    tensors = to_te(program)
    schedule = te.create_schedule([t.op for t in tensors.outputs])
    built = autotune.build(schedule, [*tensors.inputs, *tensors.outputs], "llvm")
    results = [np.full(t.shape, 7, t.dtype) for t in tensors.outputs]
    built(*arrays, *results)
    for result, expected in zip(results, evaluate(program, *arrays), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_program_computes_what_it_means(name: str) -> None:
    program = PROGRAMS[name]
    for shapes in program.cases[1:]:
        arrays = program.arrays(shapes)
        check_compiled(bound(program.code, *arrays), arrays)


def compare(seeds: range) -> collections.Counter[str]:
    """Compile random contractions of int64 and hold them against their meaning."""
    seen: collections.Counter[str] = collections.Counter()
    for seed in seeds:
        case = random_case(random.Random(seed))
        shapes = {f"T{t}": shape for t, shape in enumerate(case.shapes)}
        try:
            program = bind(parse(case.code), shapes, dict.fromkeys(shapes, "int64"))
        except TileError:
            continue
        draw = np.random.default_rng(seed)
        arrays = [draw.integers(-3, 4, shape) for shape in case.shapes]
        check_compiled(program, arrays, rtol=0)
        seen[case.aggregation] += 1
    return seen


def test_compiled_random_contractions_compute_what_they_mean() -> None:
    assert len(compare(range(40000, 40025))) == 5


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_compiled_random_contractions_compute_what_they_mean() -> None:
    assert sum(compare(range(50000, 51000)).values()) > 600


def test_loops_that_need_more_than_64_bits_are_refused() -> None:
    code = """function (A[N]) -> (O) {
        O[i: N] = +(A[j]), 300000000000000000 * i - 299999999999999999 * j < 300000000000000000;
    }"""
    with pytest.raises(TileError, match="need numbers above"):
        to_te(bound(code, floats(50)))
    check_compiled(bound(code, floats(3)), [floats(3)])


def test_functions_are_accurate_to_a_few_units() -> None:
    names = "tan asin acos atan sinh cosh tanh sigmoid exp sin cos sqrt abs round floor ceil log"
    body = " ".join(f"O{k} = {name}(A);" for k, name in enumerate(names.split()))
    outputs = ", ".join(f"O{k}" for k in range(len(names.split())))
    code = f"function (A) -> ({outputs}) {{ {body} }}"
    near = np.linspace(-1, 1, 201)
    for dtype, rtol in (("float32", 2e-6), ("float64", 5e-15)):
        array = np.concatenate([near, near * 1e-4, near * 40, [-0.0, 1e-30]]).astype(dtype)
        check_compiled(bound(code, array), [array], rtol)


def test_types_are_those_of_the_meaning() -> None:
    code = """function (A, B, M) -> (Mean, Half, Any, Count, Mixed, Narrow, Far) {
        Sum[] = +(A[i]);
        Mean = Sum / 3;
        H = as_float(A, 16);
        Half[i: 3] = *(H[i + j]), j < 2;
        Any[] = >(M[i]);
        Count[] = +(M[i]);
        Mixed = M ? A : B;
        Narrow = as_uint(B * 100, 8);
        Far[2 * i: 5] = <(A[i] + B[j]);
    }"""
    arrays = [np.array([3, -2, 7], "int16"), floats(3), np.array([True, False, True])]
    check_compiled(bound(code, *arrays), arrays)
