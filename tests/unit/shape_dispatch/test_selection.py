"""The smallest set of kernels: as good as the best of all sets, within the limits that it says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.shape_dispatch.selection import (
    ROUNDS,
    _least_mean,
    select,
    select_measured,
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
def test_no_smaller_set_keeps_the_limits(losses, within):
    found = select(losses, within)
    limits = np.maximum(within, losses.min(axis=1))
    np.testing.assert_array_equal(found.limits, limits)
    assert covers(losses, found.kernels, limits)
    assert len(found.kernels) == smallest(losses, limits)


def mean(losses, chosen):
    return np.log1p(losses[:, list(chosen)].min(axis=1)).mean()


@given(tables(), st.floats(0, 0.5), st.integers(1, 3))
def test_with_few_kernels_no_other_set_has_a_smaller_mean_loss(losses, within, most):
    found = select(losses, within, most)
    assert len(found.kernels) <= most
    assert covers(losses, found.kernels, np.array(found.limits))
    if covers(losses, found.kernels, np.maximum(within, losses.min(axis=1))):
        return  # few are enough
    for other in itertools.combinations(range(losses.shape[1]), most):
        assert mean(losses, found.kernels) <= mean(losses, other) + 1e-9


@given(tables(), st.floats(0, 0.5), st.integers(1, 3))
def test_of_very_many_sets_it_is_one_that_no_exchange_of_a_kernel_betters(losses, within, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autotune.shape_dispatch.selection._MOST_COMPARED", 0)
        found = _least_mean(losses, most, set(range(losses.shape[1])))
    others = set(range(losses.shape[1])) - set(found)
    for kernel, new in itertools.product(found, others):
        exchanged = {*found, new} - {kernel}
        assert mean(losses, found) <= mean(losses, exchanged) + 1e-9


def test_few_kernels_serve_all_shapes_where_the_best_for_most_of_them_could_not():
    served = {0: "2345", 1: "124", 2: "1", 3: "12", 4: "0125", 5: "034"}
    losses = np.full((6, 6), np.inf)
    for shape, kernels in served.items():
        losses[shape, [int(kernel) for kernel in kernels]] = 0.2
    losses[[0, 1, 2, 3], [5, 4, 1, 2]] = 0.0
    losses[4, [0, 2, 5]] = losses[5, 0] = 0.0
    assert select(losses, 0.0, 2).kernels == (1, 4)


@given(tables(), st.floats(0, 0.5))
def test_one_kernel_of_several_is_the_one_with_the_least_mean_loss(losses, within):
    found = select(losses, within, 1)
    if not covers(losses, found.kernels, np.maximum(within, losses.min(axis=1))):
        least = min(mean(losses, [n]) for n in range(losses.shape[1]))
        assert mean(losses, found.kernels) == pytest.approx(least)


def test_one_shape_that_is_served_badly_does_not_decide_for_all_others():
    losses = np.array([[0.0, 0.4], [0.05, 0.4], [0.02, 0.4], [0.6, 0.4]])
    assert select(losses, 0.1, 1).kernels == (0,)


@given(tables(), st.floats(0, 0.5), st.data())
def test_one_of_the_kernels_works_everywhere(losses, within, data):
    whole = [n for n in range(losses.shape[1]) if np.isfinite(losses[:, n]).all()]
    everywhere = data.draw(st.sets(st.sampled_from(whole), min_size=1))
    found = select(losses, within, everywhere=everywhere)
    assert everywhere & set(found.kernels)


def test_of_the_smallest_sets_the_one_with_the_least_mean_loss_is_taken():
    losses = np.array([[0.09, 0.0], [0.09, 0.05], [0.0, 0.05]])
    assert select(losses, 0.1).kernels == (1,)


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


@given(tables(), st.data(), st.floats(0, 0.5), st.one_of(st.none(), st.integers(1, 3)))
def test_what_is_kept_is_measured_and_keeps_what_measured_kernels_can(losses, data, within, most):
    factors = st.floats(0.5, 1.0)  # the survey is too good: its winners were lucky
    columns = losses.shape[1]
    survey = losses * data.draw(st.lists(factors, min_size=columns, max_size=columns))
    asked: list[int] = []

    def measure(own):
        asked.extend(own)
        return losses[:, own]

    whole = [n for n in range(losses.shape[1]) if np.isfinite(losses[:, n]).all()]
    kept, known = select_measured(survey, measure, within, most, whole)
    assert set(kept) <= set(asked)
    assert len(asked) == len(set(asked))
    assert len(kept) <= (most or columns)
    np.testing.assert_array_equal(known[:, asked], losses[:, asked])
    limits = select(known, within, most, [n for n in whole if n in asked]).limits
    assert covers(losses, kept, np.array(limits))


def test_a_kernel_that_the_survey_took_for_good_is_joined_by_another_one():
    survey = np.array([[0.05, 0.0, 0.3], [0.05, 0.4, 0.08]])
    truth = np.array([[0.2, 0.0, 0.3], [0.11, 0.4, 0.08]])
    kept, known = select_measured(survey, lambda own: truth[:, own], 0.1, 2, [0, 1, 2])
    assert kept == (1, 2)
    np.testing.assert_array_equal(known, truth)


def test_a_kernel_that_fails_when_it_is_measured_is_replaced():
    survey = np.array([[0.0, 0.2], [0.0, 0.2]])
    truth = np.array([[np.inf, 0.2], [np.inf, 0.2]])
    kept, _ = select_measured(survey, lambda own: truth[:, own], 0.1, None, [0, 1])
    assert kept == (1,)
    with pytest.raises(ValueError, match="no kernel works everywhere"):
        select_measured(survey[:, :1], lambda own: truth[:, own], 0.1, None, [0])


def test_kernels_that_fail_one_after_another_hide_none_that_works():
    survey = np.tile(np.arange(ROUNDS + 3) / 100, (2, 1))

    def measure(own):
        return np.where(np.array(own) < ROUNDS + 2, np.inf, survey[:, own])

    kept, known = select_measured(survey, measure, 0.0, 1, range(survey.shape[1]))
    assert kept == (ROUNDS + 2,)
    assert np.isfinite(known).sum() == 2
