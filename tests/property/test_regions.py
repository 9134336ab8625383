"""Regions: intervals cover every touched point whatever the knobs, and plain tiles exactly."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.ir import ops
from autotune.ir.algebra.polynomials import normal
from autotune.ir.evaluate.interpreter import scalar_function
from autotune.ir.expr import Expr, KnobVar, Var
from autotune.ir.visitor import free_vars
from autotune.lowering.nest.regions import Interval, Relaxer, as_index, union

EXAMPLES = int(os.environ.get("AUTOTUNE_EXAMPLES", "0"))

#: Loops that range (with extents over knobs), loops that stay, and knobs.
RI, RJ, RK = Var("ri"), Var("rj"), Var("rk")
FI, FJ = Var("fi"), Var("fj")
P, Q = KnobVar("p", 1, 4), KnobVar("q", 1, 3)
EXTENTS: dict[Var, Expr] = {RI: P, RJ: ops.binary("min", Q, 2), RK: ops.const(3)}
STAYING = {FI: range(4), FJ: range(3)}


def touched(node: Expr, knobs: Mapping[Var, int]) -> Iterator[tuple[dict[Var, int], set[int]]]:
    """Yield the values of the loops that stay, and the set of values that `node` then takes."""
    ranging, staying = list(EXTENTS), list(STAYING)
    run = scalar_function([node], [*ranging, *staying, P, Q])
    extents = scalar_function(list(EXTENTS.values()), [P, Q])(knobs[P], knobs[Q])
    spans = [range(int(extent)) for extent in extents]
    for fixed in itertools.product(*STAYING.values()):
        values = {
            int(run(*point, *fixed, knobs[P], knobs[Q])[0]) for point in itertools.product(*spans)
        }
        yield dict(zip(staying, fixed, strict=True)), values


def knob_values() -> Iterator[dict[Var, int]]:
    for p, q in itertools.product(range(P.low, P.high + 1), range(Q.low, Q.high + 1)):
        yield {P: p, Q: q}


def assert_covers(interval: Interval, nodes: Sequence[Expr], exact: bool = False) -> None:
    variables = [*STAYING, P, Q]
    assert {id(v) for v in free_vars(interval.width)} <= {id(P), id(Q)}, "a width varies with loops"
    ends = scalar_function([interval.low, interval.width], variables)
    for knobs in knob_values():
        for several in zip(*(touched(node, knobs) for node in nodes), strict=True):
            fixed = several[0][0]
            values = set().union(*(values for _, values in several))
            low, width = map(int, ends(*fixed.values(), *knobs.values()))
            where = f"{nodes}: {interval} at {knobs}, {fixed}"
            assert low <= min(values), where
            assert max(values) <= low + width, where
            if exact:
                assert (low, low + width) == (min(values), max(values)), where


def test_an_interval_of_a_plain_tile_is_exact() -> None:
    for index in (
        FI * P + RI,
        (FI * Q + FJ) * P + RI + 3,
        FI * 6 + RK * 2,
        FI * P + RI - 1 + RK,
        FI * 2 - RK,
        7 - (FI * P + RI),
        (FI * P + RI) * 2 + RK,
        (FI * P + RI) * Q + RJ,
        FI + FJ,
    ):
        interval = Relaxer(EXTENTS).interval(normal(index))
        assert interval is not None, str(index)
        assert_covers(interval, [index], exact=True)


def test_a_tile_of_a_fused_axis_is_exact_where_it_is_aligned() -> None:
    fused = FI * 3 + RK  # rows of 3, fused and split again by 3
    for index, exact in ((fused // 3, True), (fused % 3, True), (fused // 6, True)):
        interval = Relaxer(EXTENTS).interval(normal(index))
        assert interval is not None
        assert_covers(interval, [index], exact)


def test_the_extent_of_a_split_read_back_is_the_factor() -> None:
    interval = Relaxer({RI: P}).interval(normal(FI * P + RI))
    assert interval is not None
    assert str(normal(interval.width + 1)) == "p"
    assert str(interval.low) == "(fi*p)"


def test_the_union_of_a_stencil_is_one_run() -> None:
    relaxer = Relaxer(EXTENTS)
    nodes = [normal(FI * P + RI + offset) for offset in (-1, 0, 2)]
    found = union(relaxer.interval(node) for node in nodes)
    assert found is not None
    assert_covers(found, nodes, exact=True)


def test_a_union_whose_shift_varies_with_a_loop_is_unknown() -> None:
    relaxer = Relaxer(EXTENTS)
    assert union([relaxer.interval(FI + RI), relaxer.interval(FJ + RI)]) is None


@pytest.mark.parametrize("node", [RI * RJ, RI // RJ, ops.if_then_else(RI < 1, RI, FI), FI * RI])
def test_what_is_not_understood_is_unknown_and_not_wrong(node: Expr) -> None:
    assert Relaxer(EXTENTS).interval(normal(node)) is None


def test_an_int64_index_has_the_interval_of_the_int32_one() -> None:
    node = normal(as_index((FI * 2 + RI).astype("int64") * 3 + RK.astype("int64")))
    interval = Relaxer(EXTENTS).interval(node)
    assert interval is not None
    assert_covers(interval, [node], exact=True)


# -- random indices ------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.sampled_from([RI, RJ, RK, FI, FJ, P, Q, FI * P + RI, (FI * P + RI) * Q + RJ]),
    st.integers(-4, 6).map(ops.const),
)


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    divisor = st.one_of(st.integers(1, 6).map(ops.const), st.sampled_from([P, Q, P * Q, Q * 2]))
    condition = st.tuples(st.sampled_from([FI, FJ, P, RI]), st.integers(0, 4)).map(
        lambda t: t[0] < t[1]
    )
    return st.one_of(
        st.tuples(st.sampled_from("+-"), inner, inner).map(lambda t: ops.binary(*t)),
        st.tuples(inner, st.integers(-3, 4)).map(lambda t: t[0] * t[1]),
        st.tuples(inner, st.sampled_from([P, Q])).map(lambda t: t[0] * t[1]),
        st.tuples(st.sampled_from(["//", "%"]), inner, divisor).map(lambda t: ops.binary(*t)),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: ops.binary(*t)),
        st.tuples(condition, inner, inner).map(lambda t: ops.select(*t)),
    )


INDICES = st.recursive(LEAVES, _grow, max_leaves=6)


def examples(count: int) -> Any:
    return settings(
        max_examples=EXAMPLES or count, derandomize=not EXAMPLES, deadline=None, database=None
    )


@examples(60)
@given(INDICES)
def test_an_interval_covers_every_touched_point(index: Expr) -> None:
    node = normal(index)
    interval = Relaxer(EXTENTS).interval(node)
    if interval is not None:
        assert_covers(interval, [node])


@examples(30)
@given(st.lists(INDICES, min_size=2, max_size=3))
def test_a_union_covers_every_touched_point(indices: list[Expr]) -> None:
    relaxer = Relaxer(EXTENTS)
    nodes = [normal(index) for index in indices]
    found = union(relaxer.interval(node) for node in nodes)
    if found is not None:
        assert_covers(found, nodes)
