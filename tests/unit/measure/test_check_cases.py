"""Looks: what is certified as exact is exact in any order; what inputs are fallen back to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.measure.checks.check_cases import answer_checks
from autotune.measure.checks.check_inputs import InputSpec
from autotune.measure.checks.check_spec import CheckSpec
from autotune.measure.checks.input_uses import InputUse
from autotune.measure.checks.reference import Reference
from autotune.runtime.signature import ArrayParameter

COLUMNS = 5


def looks_at(function, shapes, out, dtype="float32", result="", **more):
    """Return the checks of a function of arrays."""
    result = result or dtype
    workload = CheckSpec(
        [InputSpec(shape, dtype, InputUse()) for shape in shapes],
        [result],
        elements=100,
        **{"functions": frozenset(), **more},
    )
    return answer_checks(
        workload, Reference(function, [ArrayParameter("Y", result, out, True)], "t")
    )


terms = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([-3, -1, 1, 2]), st.integers(0, 2)),
    min_size=1,
    max_size=3,
)


def polynomial(factors, arrays):
    """Return the products of sums of multiples of shifted arrays, still to be summed."""
    product = 1
    for factor in factors:
        product = product * sum(m * np.roll(arrays[n], by, axis=0) for n, m, by in factor)
    return product


def expanded(factors, arrays):
    """Return the same, each product of sums as a sum of products."""
    found = [np.ones_like(arrays[0])]
    for factor in factors:
        found = [
            t * np.float32(m) * np.roll(arrays[n], by, axis=0) for t in found for n, m, by in factor
        ]
    return np.concatenate(found, axis=0)


@settings(max_examples=40, deadline=None)
@given(
    factors=st.lists(terms, min_size=1, max_size=3),
    count=st.integers(1, 40),
    seed=st.integers(0, 99),
)
def test_what_is_certified_as_exact_is_equal_in_any_order(factors, count, seed):
    shape = (count, COLUMNS)
    found = looks_at(
        lambda *a: polynomial(factors, a).sum(axis=0),
        [shape] * 2,
        (COLUMNS,),
        terms=count,
        seed=seed,
    )
    rng = np.random.default_rng(seed)
    for look in found[:-1]:
        for way in (polynomial, expanded):
            parts = way(factors, look.inputs)
            total = np.zeros(COLUMNS, np.float32)
            for row in rng.permutation(parts):
                total = total + row
            np.testing.assert_array_equal(total, look.expected[0])


def test_a_sum_of_products_is_looked_at_exactly_whatever_its_length():
    for length in (1, 100, 10_000):
        found = looks_at(lambda a, b: a @ b, [(2, length), (length, 2)], (2, 2), terms=length)
        assert len(found) == 2
        assert "whole numbers" in found[0].what
        assert np.ndim(found[0].allowed[0].errors) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_sums_in_narrow_accumulators_are_looked_at_in_parts(dtype):
    found = looks_at(lambda a: a.sum(axis=1), [(3, 600)], (3,), dtype, terms=600, accumulator=dtype)
    *exact, _ = found
    assert all(np.abs(look.expected[0].astype(float)).max() <= 2048 for look in exact)


def test_functions_that_are_never_exact_have_no_exact_look():
    found = looks_at(np.log, [(50,)], (50,), functions=frozenset({"log"}))
    assert [look.what for look in found] == ["realistic inputs"]
    found = looks_at(lambda a: a * a.dtype.type(0.1), [(50,)], (50,))
    assert len(found) == 1


def test_softmax_is_looked_at_where_exp_is_0_or_1_and_overflows_without_its_maximum():
    def softmax(x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    exact, _ = looks_at(softmax, [(8, 30)], (8, 30), functions=frozenset({"exp"}), terms=30)
    assert exact.what == "inputs whose exp is 0 or 1 along axis 1"
    assert exact.inputs[0].max() > 100


def test_integers_are_looked_at_in_their_whole_range_and_at_their_largest():
    found = looks_at(lambda a: a * a, [(100,)], (100,), "int16")
    assert [look.what for look in found[:-1]] == ["integers of all sizes", "the largest integers"]
    for look in found[:-1]:
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(look.expected[0], look.inputs[0] * look.inputs[0])


def test_ties_make_no_exact_look_of_comparisons():
    found = looks_at(lambda a, b: a < b, [(500,)] * 2, (500,), result="bool")
    for look in found[:-1]:
        assert not (look.inputs[0] == look.inputs[1]).any()


def test_negative_values_are_left_out_before_anything_else_where_they_give_nan():
    *_, look = looks_at(np.sqrt, [(2000,)], (2000,), functions=frozenset({"sqrt"}))
    assert look.inputs[0].min() >= 0
    assert look.inputs[0].max() > 100


def test_huge_values_are_left_out_where_the_answer_would_overflow():
    *_, look = looks_at(np.exp, [(2000,)], (2000,), functions=frozenset({"exp"}))
    assert look.inputs[0].min() < 0
    assert np.isfinite(look.expected[0]).all()
    assert look.expected[0].max() > 1000


def test_a_function_without_a_finite_answer_still_has_a_look():
    *_, look = looks_at(lambda a: a / 0, [(50,)], (50,))
    assert np.isinf(look.expected[0]).any()


def test_a_reference_is_asked_seldom_where_a_run_is_long():
    calls = []

    def product(a, b):
        calls.append(1)
        return a @ b

    looks_at(product, [(8, 64), (64, 8)], (8, 8), terms=64, work=1e12)
    assert len(calls) <= 15


def test_inputs_of_a_template_are_used_and_must_fit():
    def own(rng):
        return [rng.random(20).astype(np.float32) + 5]

    *_, look = looks_at(np.log, [(20,)], (20,), given=own, functions=frozenset({"log"}))
    assert look.inputs[0].min() >= 5
    with pytest.raises(UsageError, match=r"returned float64\[20\], but its inputs are float32\[20"):
        looks_at(np.log, [(20,)], (20,), given=lambda rng: [rng.random(20)])


def test_candidates_are_timed_on_inputs_of_a_template_also_without_a_reference():
    def own(rng):
        return [np.full(20, 7.0, np.float32)]

    workload = CheckSpec([InputSpec((20,), "float32", InputUse())], ["float32"], given=own)
    (look,) = answer_checks(workload, None)
    np.testing.assert_array_equal(look.inputs[0], own(None)[0])


def test_nothing_but_nan_is_refused():
    with pytest.raises(UsageError, match="nothing but NaN"):
        looks_at(lambda a: a * np.nan, [(20,)], (20,))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: np.asarray(a, np.float64).sum(),
        lambda a: int(a.sum()),
        lambda a: [a.sum()],
        lambda a: a.reshape(-1)[:1].reshape(()),
    ],
)
def test_references_may_return_views_numbers_and_lists(function):
    assert looks_at(function, [(12,)], (), terms=12)[-1].expected[0].shape == ()


def test_arrays_without_elements_have_looks():
    for look in looks_at(lambda a: a * 2, [(0, 3)], (0, 3)):
        assert look.expected[0].shape == (0, 3)
