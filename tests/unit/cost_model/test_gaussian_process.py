"""The Gaussian process: its slopes, its posterior, and what it expects to gain."""

import math

import numpy as np
import pytest

from autotune.cost_model.gaussian_process import (
    CHUNK,
    SMOOTHNESS,
    GaussianProcess,
    Posterior,
    inverse_of_lower,
)
from autotune.cost_model.normal_distribution import cumulative, density, expected_improvement


def process(trends: int = 0) -> GaussianProcess:
    """Return a process over three coordinates, of which two share a length scale."""
    return GaussianProcess(np.array([0, 1, 1]), np.array([-0.5, 0.3]), trends)


def data(n: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.random((n, 3))
    trend = rng.standard_normal((n, 1))
    y = np.sin(5 * x[:, 0]) + x[:, 1] + 0.5 * trend[:, 0]
    return x, (y - y.mean()) / y.std(), trend


@pytest.mark.parametrize("trends", [0, 1])
@pytest.mark.parametrize("smoothness", SMOOTHNESS)
def test_the_slope_is_that_of_the_density(smoothness, trends):
    x, y, trend = data()
    gp, basis = process(trends), trend[:, :trends]
    gp._smoothness = smoothness
    distances = gp._group_distances(x)
    theta = gp._centre + 0.1
    _, slope = gp._posterior(smoothness, theta, distances, y, basis)
    for number in range(len(theta)):
        step = np.zeros(len(theta))
        step[number] = 1e-5
        above, _ = gp._posterior(smoothness, theta + step, distances, y, basis)
        below, _ = gp._posterior(smoothness, theta - step, distances, y, basis)
        assert slope[number] == pytest.approx((above - below) / 2e-5, rel=1e-4, abs=1e-6)


def test_learning_makes_the_data_more_likely():
    x, y, _ = data(40)
    gp = process()
    distances, none = gp._group_distances(x), np.zeros((40, 0))
    before, _ = gp._posterior(gp._smoothness, gp._theta, distances, y, none)
    gp.learn(x, y, steps=40)
    after, _ = gp._posterior(gp._smoothness, gp._theta, distances, y, none)
    assert after > before + 1.0


def test_a_posterior_of_one_measurement_at_a_time_is_that_of_all_at_once():
    x, y, trend = data()
    gp = process(trends=1)
    places, place_trends = np.random.default_rng(2).random((5, 3)), np.ones((5, 1))
    at_once, one_by_one = (Posterior(gp, places, place_trends) for _ in range(2))
    at_once.add(x, trend)
    for row in range(len(x)):
        one_by_one.add(x[row : row + 1], trend[row : row + 1])
    for a, b in zip(at_once.predict(y), one_by_one.predict(y), strict=True):
        assert a == pytest.approx(b, rel=1e-6)


def test_a_posterior_is_sure_where_it_was_measured_and_only_there():
    x, y, _ = data()
    gp = process()
    gp.learn(x, y)
    posterior = Posterior(gp, np.concatenate([x, np.full((1, 3), 9.0)]))
    posterior.add(x)
    mean, deviation = posterior.predict(y)
    assert np.abs(mean[:-1] - y).max() < 0.3
    assert deviation[:-1].max() < 0.5 * deviation[-1]
    assert mean[-1] == pytest.approx(0.0, abs=1e-3)
    variances = np.diag(posterior.covariance(np.arange(len(x) + 1)))
    assert np.sqrt(variances) == pytest.approx(deviation, abs=1e-4)


def test_what_is_left_out_is_predicted_as_if_it_had_never_been_measured():
    x, y, _ = data()
    gp = process()
    everything = Posterior(gp, x)
    everything.add(x)
    mean, variance = everything.left_out(y)
    rest = Posterior(gp, x[:1])
    rest.add(x[1:])
    expected, deviation = rest.predict(y[1:])
    assert mean[0] == pytest.approx(expected[0], rel=1e-6)
    assert variance[0] == pytest.approx(deviation[0] ** 2 + gp.noise, rel=1e-5)


def test_the_normal_distribution_is_exact_to_seven_digits_also_in_the_tail():
    z = np.linspace(-12.0, 6.0, 181)
    exact = np.array([0.5 * math.erfc(-v / math.sqrt(2.0)) for v in z])
    assert cumulative(z) == pytest.approx(exact, rel=2e-7)
    assert density(np.zeros(1))[0] == pytest.approx(1 / math.sqrt(2 * math.pi))


def test_the_expected_improvement_is_that_of_samples():
    rng = np.random.default_rng(0)
    drawn = 1.0 + 0.5 * rng.standard_normal(400_000)
    sampled = np.maximum(0.8 - drawn, 0.0).mean()
    value = expected_improvement(np.array([1.0]), np.array([0.5]), 0.8)
    assert value[0] == pytest.approx(sampled, rel=0.01)


def test_the_expected_improvement_falls_steadily_far_from_the_best():
    mean = np.linspace(-1.0, 30.0, 500)
    gain = expected_improvement(mean, np.ones(500), 0.0)
    assert (np.diff(gain) < 0).all()
    assert gain[-1] > 0


def test_what_is_smoothed_is_what_a_posterior_says_at_the_measurements():
    x, y, _ = data()
    gp = process()
    posterior = Posterior(gp, x)
    posterior.add(x)
    mean, _ = posterior.predict(y)
    assert posterior.smoothed(y) == pytest.approx(mean, abs=1e-6)


def test_values_that_jump_from_place_to_place_are_taken_for_rough():
    x = np.random.default_rng(0).random((60, 3))
    y = np.where((8 * x[:, 0]).astype(int) % 2 == 0, 1.0, -1.0)
    gp = process()
    gp.learn(x, y, steps=40)
    assert gp._smoothness < 5


@pytest.mark.parametrize("n", [1, 32, 33, 100])
def test_the_inverse_of_a_triangle_is_that_of_any_matrix(n):
    lower = np.tril(np.random.default_rng(n).random((n, n))) + 2.0 * np.eye(n)
    found = inverse_of_lower(lower)
    assert np.abs(found @ lower - np.eye(n)).max() < 1e-9
    assert not np.triu(found, 1).any()


def test_many_places_are_predicted_as_each_alone():
    x, y, trend = data()
    gp = process(trends=1)
    rng = np.random.default_rng(3)
    places, trends = rng.random((CHUNK + 5, 3)), rng.random((CHUNK + 5, 1))
    rows = np.array([0, CHUNK - 1, CHUNK, CHUNK + 4])
    together, alone = Posterior(gp, places, trends), Posterior(gp, places[rows], trends[rows])
    for part in (slice(0, 3), slice(3, None)):
        together.add(x[part], trend[part])
        alone.add(x[part], trend[part])
    some = together.among(rows)
    for a, b, c in zip(
        together.predict(y), alone.predict(y), some.predict(y), strict=True
    ):
        assert a[rows] == pytest.approx(b, rel=1e-9)
        assert c == pytest.approx(a[rows], rel=1e-12)
