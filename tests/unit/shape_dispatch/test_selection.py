"""The smallest set of kernels: as good as the best of all sets, within the limits that it says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.shape_dispatch.selection import (
    _least_cost,
    costs_of,
    promising,
    select,
    worst_and_mean,
)

LOSS = st.one_of(st.floats(0, 0.5), st.just(np.inf))


@st.composite
def tables(draw):
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    every = draw(st.lists(LOSS, min_size=rows * columns, max_size=rows * columns))
    losses = np.array(every).reshape(rows, columns)
    losses[:, draw(st.integers(0, columns - 1))] = draw(st.floats(0, 2))
    return losses


def covers(losses, chosen, limits):
    return (losses[:, list(chosen)].min(axis=1) <= limits + 1e-9).all()


def smallest(losses, limits):
    columns = range(losses.shape[1])
    for size in range(1, losses.shape[1] + 1):
        if any(covers(losses, c, limits) for c in itertools.combinations(columns, size)):
            return size
    raise AssertionError


@given(tables(), st.floats(0, 0.5))
def test_no_smaller_set_is_likely_to_keep_the_limits(losses, within):
    found, own = select(losses, within), losses.min(axis=1)
    limits, safe = np.maximum(within, own), np.expm1(np.log1p(within) - 0.022)
    kept = np.where(own <= safe, safe, limits)
    assert covers(losses, found, kept)
    assert len(found) == smallest(losses, kept)
    for other in itertools.combinations(range(losses.shape[1]), len(found)):
        if covers(losses, other, kept):
            assert badness(losses, found, limits) <= badness(losses, other, limits) + 1e-9


def badness(losses, chosen, limits):
    slower = np.log1p(losses[:, list(chosen)].min(axis=1))
    over = slower - np.log1p(limits)
    with np.errstate(over="ignore"):
        return (slower + 1 / (1 + np.exp(-over / 0.01))).sum()


@given(tables(), st.floats(0, 0.5), st.integers(1, 3))
def test_with_few_kernels_no_other_set_is_better(losses, within, most):
    found, limits = select(losses, within, most), np.maximum(within, losses.min(axis=1))
    assert len(found) <= most
    assert np.isfinite(losses[:, list(found)].min(axis=1)).all()
    if covers(losses, found, limits):
        return  # few are enough
    for other in itertools.combinations(range(losses.shape[1]), most):
        assert badness(losses, found, limits) <= badness(losses, other, limits) + 1e-9


@given(tables(), st.floats(0, 0.5), st.integers(1, 3))
def test_of_very_many_sets_it_is_one_that_no_exchange_of_a_kernel_betters(losses, within, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.shape_dispatch.selection._MOST_COMPARED", 0)
        limits = np.maximum(within, losses.min(axis=1))
        found = _least_cost(costs_of(losses, limits), most, set(range(losses.shape[1])))
    others = set(range(losses.shape[1])) - set(found)
    for kernel, new in itertools.product(found, others):
        exchanged = {*found, new} - {kernel}
        assert badness(losses, found, limits) <= badness(losses, exchanged, limits) + 1e-9


def test_few_kernels_serve_all_shapes_where_the_best_for_most_of_them_could_not():
    served = {0: "2345", 1: "124", 2: "1", 3: "12", 4: "0125", 5: "034"}
    losses = np.full((6, 6), np.inf)
    for shape, kernels in served.items():
        losses[shape, [int(kernel) for kernel in kernels]] = 0.2
    losses[[0, 1, 2, 3], [5, 4, 1, 2]] = 0.0
    losses[4, [0, 2, 5]] = losses[5, 0] = 0.0
    assert select(losses, 0.0, 2) == (1, 4)


@given(tables(), st.floats(0, 0.5))
def test_one_kernel_of_several_is_the_best_one(losses, within):
    found, limits = select(losses, within, 1), np.maximum(within, losses.min(axis=1))
    if not covers(losses, found, limits):
        least = min(badness(losses, [n], limits) for n in range(losses.shape[1]))
        assert badness(losses, found, limits) == pytest.approx(least)


def test_one_shape_that_is_served_badly_does_not_decide_for_all_others():
    losses = np.array([[0.0, 0.4], [0.05, 0.4], [0.02, 0.4], [0.6, 0.4]])
    assert select(losses, 0.1, 1) == (0,)


@given(tables(), st.floats(0, 0.5), st.data())
def test_one_of_the_kernels_works_everywhere(losses, within, data):
    whole = [n for n in range(losses.shape[1]) if np.isfinite(losses[:, n]).all()]
    everywhere = data.draw(st.sets(st.sampled_from(whole), min_size=1))
    found = select(losses, within, everywhere=everywhere)
    assert everywhere & set(found)


def test_of_the_smallest_sets_the_one_with_the_least_mean_loss_is_taken():
    losses = np.array([[0.05, 0.0], [0.05, 0.03], [0.0, 0.03]])
    assert select(losses, 0.1) == (1,)
    losses = np.array([[0.09, 0.0], [0.09, 0.05], [0.0, 0.05]])
    assert select(losses, 0.1) == (1,)


def test_a_shape_without_any_kernel_is_refused():
    with pytest.raises(ValueError, match="no kernel"):
        select(np.array([[0.0], [np.inf]]), 0.1)


def test_shapes_that_no_single_kernel_serves_are_refused_by_one_kernel():
    with pytest.raises(ValueError, match="no 1 kernels"):
        select(np.array([[0.0, np.inf], [np.inf, 0.0]]), 0.1, most=1)


def test_the_mean_loss_is_that_of_slow_downs():
    worst, mean = worst_and_mean([0.0, 3.0])
    assert worst == 3.0
    assert mean == pytest.approx(1.0)


@given(tables(), st.floats(0, 0.5), st.integers(1, 6), st.data())
def test_promising_kernels_are_those_that_are_selected_and_more(losses, within, most, data):
    rows = st.lists(st.sampled_from([within, np.inf]), min_size=len(losses), max_size=len(losses))
    limits = data.draw(rows)
    whole = [n for n in range(losses.shape[1]) if np.isfinite(losses[:, n]).all()]
    found = promising(losses, limits, most, whole)
    assert list(found) == sorted(set(found))
    assert len(found) == min(most, sum(np.isfinite(losses).any(axis=0)))
    assert set(found) & set(whole)


def test_a_shape_without_a_limit_counts_in_the_mean_alone():
    losses = np.array([[0.06, 0.0], [0.06, 0.05], [0.0, 0.9]])
    assert select(losses, 0.1) == (0,)
    assert select(losses, [0.1, 0.1, np.inf]) == (0,)
    assert select(losses[:2], 0.1) == (1,)
    slower = np.array([[0.3, 0.0], [0.0, 0.9]])
    assert select(slower, [0.1, np.inf]) == (1,)


def test_few_kernels_keep_the_limits_of_as_many_shapes_as_they_can():
    losses = np.array([[0.0, 0.05], [0.0, 0.05], [0.16, 0.05], [0.0, 0.16]])
    assert select(losses, 0.1, 1) == (0,)
    assert select(losses[:3], 0.1, 1) == (1,)
    tie = np.array([[0.0, 0.05], [0.16, 0.05], [0.16, 0.05], [0.0, 0.16]])
    assert select(tie, 0.1, 1) == (1,)


def test_costs_of_any_losses_and_limits_are_numbers_or_of_no_kernel():
    losses = np.array([[0.0, 1e308, np.inf]] * 3)
    costs = costs_of(losses, [0.0, 0.1, np.inf])
    assert costs[:, 0] == pytest.approx([0.5, 0.0, 0.0], abs=1e-3)
    assert costs[:, 1] - np.log(1e308) == pytest.approx([1.0, 1.0, 0.0])
    assert np.isinf(costs[:, 2]).all()


def test_a_kernel_more_is_kept_if_a_shape_is_near_its_limit_without_it():
    losses = np.array([[0.09, 0.03], [0.0, 0.08], [0.0, 0.02]])
    assert select(losses, 0.1) == (0, 1)
    assert select(losses, 0.2) == (0,)
    near = np.array([[0.09, 0.2], [0.0, 0.2]])
    assert select(near, 0.1) == (0,)


def test_kernels_by_which_a_shape_is_near_its_limit_are_not_taken_if_others_lose_about_as_little():
    losses = np.array([[0.09, 0.03], [0.0, 0.08], [0.0, 0.02]])
    assert select(losses, 0.1, 1) == (1,)
    over = np.array([[0.0, 0.0], [0.0, 0.05], [0.095, 0.05], [0.3, 0.3], [0.0, 0.3]])
    assert select(over[:4], 0.1, 1) == (1,)
    assert select(over, 0.1, 1) == (0,)
