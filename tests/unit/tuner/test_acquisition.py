"""What is picked: the greatest expected gains, each given those before, however they are found."""

import math

import numpy as np
import pytest

from autotune.cost_model.normal_distribution import expected_improvement
from autotune.tuner.base import Observation
from autotune.tuner.model import acquisition as beliefs
from autotune.tuner.model.acquisition import Acquisition
from autotune.tuner.model.surrogate import Surrogate
from search_spaces import ChoiceKnob, Space


class Wave:
    """A trend that follows the index."""

    def learn(self, told):
        pass

    def fitted(self, indices):
        return np.sin(indices / 50.0)

    at = fitted


def belief(seed, measured, failed=0):
    """Return what is believed of a space of 1,000 after some measurements, and what is free."""
    space = Space([ChoiceKnob(name, list(range(10))) for name in "abc"])
    rng = np.random.default_rng(seed)
    indices = np.sort(rng.choice(len(space), measured, replace=False))
    told = [
        Observation(int(i), 1e-3 * math.exp(math.sin(i / 70.0) + 0.1 * rng.random()))
        for i in indices
    ]
    for number in range(failed):
        told[number] = Observation(told[number].index, None, "WRONG_ANSWER")
    surrogate = Surrogate(space, [Wave()])
    surrogate.take(told, rng)
    surrogate.learn(rng)
    free = np.ones(len(space), dtype=bool)
    free[indices] = False
    return Acquisition(surrogate, np.arange(len(space))), free


def picked_one_by_one(acquisition, margins, free):
    """Pick by what is expected of all candidates after each pick."""
    mean, deviation = acquisition.predict()
    chance = np.where(free, acquisition.success_probability(), -1.0)
    believed, best, picked = (
        acquisition._times.posterior.among(np.arange(len(mean))),
        acquisition.best,
        [],
    )
    for margin in margins:
        gain = (expected_improvement(mean, deviation, best - margin) + 1e-300) * chance
        picked.append(int(np.argmax(gain)))
        chance[picked[-1]] = -1.0
        last = acquisition.candidates[picked[-1:]]
        trends = acquisition._surrogate.trend_matrix(last, measured=False)
        believed.add(acquisition._surrogate.encoding.matrix(last), trends)
        deviation, best = believed.deviation, min(best, float(mean[picked[-1]]))
    return picked


@pytest.mark.parametrize("margins", [[0.0] * 8, [0.0, 0.7] * 4])
@pytest.mark.parametrize("shortlists", [(256,), (9, 40), ()])
@pytest.mark.parametrize(("measured", "failed"), [(6, 0), (40, 8), (120, 30)])
def test_what_is_picked_from_a_shortlist_is_what_would_be_picked_from_all(
    monkeypatch, shortlists, measured, failed, margins
):
    monkeypatch.setattr(beliefs, "SHORTLISTS", shortlists)
    one, free = belief(measured, measured, failed)
    assert one.select_batch(margins, free) == picked_one_by_one(one, margins, free)


def test_no_more_is_picked_than_is_free():
    one, free = belief(1, 20)
    free[:] = False
    free[[3, 500]] = True
    assert sorted(one.select_batch([0.0] * 8, free)) == [3, 500]
    free[:] = False
    assert one.select_batch([0.0] * 8, free) == []


@pytest.mark.parametrize("failing", [(), (2, 5)])
def test_what_was_expected_of_measurements_changes_nothing_of_what_comes_of_them(failing):
    def believed(ahead):
        one, free = belief(3, 40, 8)
        asked = np.flatnonzero(free)[::100][:8]
        if ahead:
            one.fantasize(asked)
        outcomes = [
            Observation(int(i), None, "RUN_TIMEOUT") if n in failing else Observation(int(i), 2e-3)
            for n, i in enumerate(asked)
        ]
        surrogate = one._surrogate
        told = sorted([*surrogate.told, *outcomes], key=lambda o: o.index)
        surrogate.take(told, np.random.default_rng(0))
        one.update(False)
        return [*one.predict(), one.success_probability()]

    for expecting, not_expecting in zip(believed(True), believed(False), strict=True):
        assert np.array_equal(expecting, not_expecting)


def test_who_expects_nothing_any_more_believes_what_he_did():
    one, _ = belief(3, 40, 8)
    before = [*one.predict(), one.success_probability()]
    one.fantasize(np.array([3, 500]))
    one.drop_fantasies()
    one._predicted = one._chance = None
    for then, now in zip(before, [*one.predict(), one.success_probability()], strict=True):
        assert np.array_equal(then, now)
