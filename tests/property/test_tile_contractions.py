"""Contractions and their index sets equal what brute force finds by the rules of validity."""

from __future__ import annotations

import collections
import random

import numpy as np
import pytest
from support.tile_contractions import Case, random_case

from autotune.errors import TileError
from autotune.tile import bind, evaluate, parse
from autotune.tile.binding.bound_program import Contract
from autotune.tile.evaluation.reference_evaluator import contracted


def judge(case: Case, rng: random.Random) -> str:
    """Hold one contraction against brute force and say what became of it."""
    function = parse(case.code)
    shapes = {f"T{t}": shape for t, shape in enumerate(case.shapes)}
    try:
        program = bind(function, shapes, dict.fromkeys(shapes, "int64"))
    except TileError as error:
        return refused(case, error)
    assert case.is_bounded(), case.code
    points = case.valid()
    if case.aggregation == "=":
        places = case.places(case.output, points)
        assert len(set(places)) == len(places), case.code
    step = program.steps[0]
    assert isinstance(step, Contract)
    order = [step.indices.index(name) for name in case.names]
    box = step.domain.box()
    assert (box is None) == step.domain.is_empty() == (points.shape[1] == 0), case.code
    if box is not None:
        found = [box[step.indices[k]] for k in order]
        assert found == [(int(row.min()), int(row.max())) for row in points], case.code
        for forms, read in zip(case.reads, step.reads, strict=True):
            for form, index in zip(forms, read.indices, strict=True):
                values, d = form.numerators(points)
                assert step.domain.bounds(index) == (values.min() // d, values.max() // d)
    draw = np.random.default_rng(rng.getrandbits(32))
    arrays = [draw.integers(-3, 4, shape) for shape in case.shapes]
    result = evaluate(program, *arrays)[0]
    np.testing.assert_array_equal(result, case.compute(arrays, points), case.code)
    in_boxes = contracted(step, dict(zip(shapes, arrays, strict=True)), in_boxes=True)
    np.testing.assert_array_equal(in_boxes, result, case.code, strict=True)
    return "computed" if points.shape[1] else "empty"


def refused(case: Case, error: TileError) -> str:
    """Hold the reason for which a contraction was refused against brute force."""
    if "is not bounded" in error.problem:
        assert not case.is_bounded(), case.code
        return "unbounded"
    places = case.places(case.output, case.valid())
    assert case.aggregation == "=", f"{error}\n{case.code}"
    assert len(set(places)) < len(places), case.code
    return "written twice"


def compare(seeds: range) -> collections.Counter[str]:
    outcomes: collections.Counter[str] = collections.Counter()
    for seed in seeds:
        rng = random.Random(seed)
        outcomes[judge(random_case(rng), rng)] += 1
    return outcomes


@pytest.mark.parametrize("count", [200, pytest.param(500, marks=pytest.mark.slow)])
def test_random_contractions_equal_brute_force(count: int) -> None:
    outcomes = compare(range(count))
    assert outcomes["computed"] > count // 2
    assert min(outcomes[kind] for kind in ("empty", "unbounded", "written twice")) > count // 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_10000_random_contractions_equal_brute_force() -> None:
    assert sum(compare(range(1000, 11000)).values()) == 10000
