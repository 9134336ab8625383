"""Simplified random expressions against direct evaluation, at every point of small ranges.

`AUTOTUNE_EXAMPLES=100000` is the full count.
"""

from __future__ import annotations

import os
import random

import numpy as np
from random_expressions import Generator, Grid, Ranges, TooLargeError

from autotune.ir.expr import Expr, Var
from autotune.ir.interpreter import scalar_function
from autotune.ir.simplify import Simplifier

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))
SPANS = ((0, 0), (0, 1), (0, 3), (0, 6), (1, 4), (2, 7), (-1, 1), (-4, 3), (-6, -2))
X, Y, Z = Var("x"), Var("y"), Var("z")


def drawn(rng: random.Random) -> tuple[Expr, dict[Var, tuple[int, int]]]:
    """Return a random expression and random ranges of its variables."""
    expr = Generator(rng, (X, Y, Z), ("int32", "int64")).any(rng.randrange(1, 6))
    return expr, {var: rng.choice(SPANS) for var in (X, Y, Z)}


def assert_sound(expr: Expr, ranges: Ranges) -> None:
    """Check the simplified values and the bounds of an expression."""
    simplifier, grid = Simplifier(ranges), Grid.of(ranges)
    after = simplifier.expr(expr)
    before, values = np.broadcast_arrays(grid(expr), grid(after))
    about = f"`{expr}` became `{after}` for {ranges}"
    assert before.dtype == values.dtype, about
    assert np.array_equal(before, values), about
    if expr.dtype != "bool":
        low, high = simplifier.bounds(expr)
        assert low <= before.min(), about
        assert before.max() <= high, about


def test_simplification_and_bounds_agree_with_direct_evaluation() -> None:
    rng, compared = random.Random(0), 0
    for _ in range(EXAMPLES or 4000):
        expr, ranges = drawn(rng)
        try:
            assert_sound(expr, ranges)
        except TooLargeError:
            continue
        compared += 1
    assert compared > 0.99 * (EXAMPLES or 4000)


def test_direct_evaluation_is_what_the_interpreter_does() -> None:
    rng = random.Random(1)
    for _ in range(200):
        expr, ranges = drawn(rng)
        grid = Grid.of(ranges)
        run = scalar_function([expr], list(ranges))
        points = np.stack([grid(var) for var in ranges], axis=1).tolist()
        values = np.broadcast_to(grid(expr), len(points))
        assert [run(*point)[0] for point in points] == values.tolist()
