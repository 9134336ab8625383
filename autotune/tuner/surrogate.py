"""What the model tuner believes: a guess of every candidate's time, and of whether it works."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.cost_model.gp import GaussianProcess, Posterior
from autotune.cost_model.normal import expected_improvement
from autotune.tuner.base import Observation
from autotune.tuner.coordinates import Coordinates
from search_spaces.space import Space

PRIOR_WEIGHT = 4.0
"""Measurements that a prior counts as."""

PRIOR_HALVED = 50.0
"""Working measurements after which a prior counts half, and so on."""

PRIOR_AUDIT_FROM = 12
"""Working measurements from which on a prior is audited."""

FAILURE_NOISE = -3.0
"""Logarithm of the noise expected in whether a candidate works."""

MOST_SAMPLED = 128
"""Candidates whose times are sampled jointly."""


class Trend(Protocol):
    """A function of the candidates that their times may follow."""

    def learn(self, told: Sequence[Observation]) -> None:
        """Learn from all observations so far, ordered by index."""
        ...

    def fitted(self, indices: IndexVector) -> FloatVector:
        """Return the values at measured candidates, as judged without their own measurements."""
        ...

    def at(self, indices: IndexVector) -> FloatVector:
        """Return the values at any candidates, (n,): greater is slower, about standardised."""
        ...


@dataclass(frozen=True)
class SurrogateSettings:
    """How beliefs are formed.

    Attributes
    ----------
    slow_share, squeeze : float
        The slowest share of what was measured tells little of what is fast: what lies beyond
        the others' logarithmic times counts only by the factor `squeeze`.
    steps : int
        Steps of fitting the kernel's parameters.
    often, growth : int, float
        They are fitted at every proposal while less than `often` is known, then each time
        `growth` times as much is.
    learn_from, condition_on : int
        At most so many measurements serve to fit the parameters, and to predict: the best half
        and a random one.
    least_chance : float
        No candidate's chance of working counts as less.
    """

    slow_share: float = 0.5
    squeeze: float = 0.3
    steps: int = 20
    often: int = 24
    growth: float = 1.1
    learn_from: int = 256
    condition_on: int = 1024
    least_chance: float = 0.01


class Surrogate:
    """Gaussian processes for the logarithm of the time and for the chance of failure.

    Parameters
    ----------
    space : Space
    trends : sequence of Trend
        What the times may follow; how much is learned.
    prior : Trend, optional
        What the times are expected to follow before there is data.
    settings : SurrogateSettings
    """

    def __init__(
        self,
        space: Space,
        trends: Sequence[Trend] = (),
        prior: Trend | None = None,
        settings: SurrogateSettings | None = None,
    ) -> None:
        self.prior = prior
        self.settings = settings or SurrogateSettings()
        self.coordinates = Coordinates(space)
        self.trends = tuple(trends)
        kernel = self.coordinates.prior
        self.times = GaussianProcess(replace(kernel, trends=len(self.trends)))
        self.failures = GaussianProcess(replace(kernel, log_noise=FAILURE_NOISE))
        self.works = np.zeros(0, dtype=np.int64)
        self.fails = np.zeros(0, dtype=np.int64)
        self._log_s = np.zeros(0)
        self._learned = 0

    def learn(self, told: Sequence[Observation], rng: np.random.Generator) -> bool:
        """Take in all observations; return whether the parameters changed.

        Parameters
        ----------
        told : sequence of Observation
            Ordered by index.
        rng : numpy.random.Generator
            Chooses among more measurements than can be used.
        """
        settings = self.settings
        working = [o for o in told if o.ok]
        log_s = np.array([-math.log(o.throughput) for o in working])
        kept = _some(log_s, settings.condition_on, rng)
        self.works = np.array([working[row].index for row in kept], dtype=np.int64)
        self._log_s = log_s[kept]
        self.fails = np.array([o.index for o in told if not o.ok], dtype=np.int64)
        known = len(working)
        if known >= settings.often and known < settings.growth * self._learned:
            return False
        for trend in self.trends:
            trend.learn(told)
        rows = _some(self._log_s, settings.learn_from, rng)
        self.times.learn(
            self.coordinates.matrix(self.works[rows]),
            self.values(self.works[rows]) - self.expected(self.works[rows]),
            self.trend_matrix(self.works[rows], measured=True),
            settings.steps,
        )
        self._learned = known
        if len(self.fails):
            self._learn_failures(rng)
        return True

    def _learn_failures(self, rng: np.random.Generator) -> None:
        tried = np.concatenate([self.works, self.fails])
        labels = np.repeat([0.0, 1.0], [len(self.works), len(self.fails)])
        rows = np.sort(rng.permutation(len(tried))[: self.settings.learn_from])
        usual = _usual(labels)
        scaled = (labels[rows] - usual) / np.sqrt(usual * (1.0 - usual))
        self.failures.learn(self.coordinates.matrix(tried[rows]), scaled, None, self.settings.steps)

    def values(self, indices: IndexVector) -> FloatVector:
        """Return the squeezed, standardised logarithmic times of measured candidates."""
        squeezed = self._squeezed()
        standard = (squeezed - squeezed.mean()) / self.scale
        out: FloatVector = standard[np.searchsorted(self.works, indices)]
        return out

    def expected(self, indices: IndexVector) -> FloatVector:
        """Return the values that the prior expects of candidates; 0 without one.

        It counts as :data:`PRIOR_WEIGHT` measurements that bear it out, beside the real ones, and
        fades as these grow in number.
        """
        if self.prior is None:
            return np.zeros(len(indices))
        own = self.prior.at(self.works)
        centre, spread = own.mean(), own.std() or 1.0
        own = (own - centre) / spread
        agreement = own @ self.values(self.works) + PRIOR_WEIGHT
        weight = max(agreement / (own @ own + PRIOR_WEIGHT), 0.0)
        weight *= 0.5 ** (len(self.works) / PRIOR_HALVED)
        out: FloatVector = weight * (self.prior.at(indices) - centre) / spread
        return out

    def drop_prior_if_it_hurts(self) -> bool:
        """Drop the prior if the measurements are predicted better without it; return whether.

        Judged by the mean log density of each as the others predict it.
        """
        if self.prior is None or len(self.works) < PRIOR_AUDIT_FROM:
            return False
        values, trends = self.values(self.works), self.trend_matrix(self.works, measured=True)
        x = self.coordinates.matrix(self.works)
        posterior = Posterior(self.times, x[:0], trends[:0])
        posterior.add(x, trends)
        expected = self.expected(self.works)
        with_it = log_density(values - expected, *posterior.left_out(values - expected))
        without = log_density(values, *posterior.left_out(values))
        if with_it >= without:
            return False
        self.prior = None
        return True

    def log_times(self, values: FloatVector) -> FloatVector:
        """Return the logarithms of the times that values stand for, slow ones squeezed."""
        out: FloatVector = values * self.scale + self._squeezed().mean()
        return out

    @property
    def scale(self) -> float:
        """What 1 in the values is in the logarithm of the time, among the fast ones."""
        return float(self._squeezed().std()) or 1.0

    def _squeezed(self) -> FloatVector:
        return squeeze(self._log_s, self.settings.slow_share, self.settings.squeeze)

    def trend_matrix(self, indices: IndexVector, measured: bool) -> FloatVector:
        """Return the values of the trends, float64 (n, number of trends)."""
        columns = [t.fitted(indices) if measured else t.at(indices) for t in self.trends]
        if not columns:
            return np.zeros((len(indices), 0))
        return np.stack(columns, axis=1)


class Belief:
    """Beliefs about fixed candidates; :meth:`update` takes in what the surrogate has learned.

    Parameters
    ----------
    surrogate : Surrogate
    candidates : int64 (m,)
    """

    def __init__(self, surrogate: Surrogate, candidates: IndexVector) -> None:
        self.candidates = candidates
        self._surrogate = surrogate
        self._places = surrogate.coordinates.matrix(candidates)
        self._forget()
        self._chances: Posterior | None = None
        self._tried = np.zeros(0, dtype=np.int64)
        self.update(False)

    def _forget(self) -> None:
        self._expected = self._surrogate.expected(self.candidates)
        trends = self._surrogate.trend_matrix(self.candidates, measured=False)
        self._times = Posterior(self._surrogate.times, self._places, trends)
        self._timed = np.zeros(0, dtype=np.int64)

    def update(self, changed: bool) -> None:
        """Follow the surrogate; `changed` says that its parameters are new."""
        surrogate = self._surrogate
        self._expected = surrogate.expected(self.candidates)
        if changed or not np.isin(self._timed, surrogate.works).all():
            self._forget()
            self._chances, self._tried = None, self._tried[:0]
        new = np.setdiff1d(surrogate.works, self._timed)
        if len(new):
            self._times.add(
                surrogate.coordinates.matrix(new), surrogate.trend_matrix(new, measured=True)
            )
            self._timed = np.concatenate([self._timed, new])
        if len(surrogate.fails):
            self._update_chances()

    def _update_chances(self) -> None:
        surrogate = self._surrogate
        if self._chances is None:
            self._chances = Posterior(surrogate.failures, self._places)
        new = np.setdiff1d(np.concatenate([surrogate.works, surrogate.fails]), self._tried)
        if len(new):
            self._chances.add(surrogate.coordinates.matrix(new))
            self._tried = np.concatenate([self._tried, new])

    @property
    def values(self) -> FloatVector:
        """The values measured, in the order in which the candidates were taken in."""
        return self._surrogate.values(self._timed)

    def predict(self) -> tuple[FloatVector, FloatVector]:
        """Return means and deviations of the values at the candidates, (m,)."""
        residuals = self.values - self._surrogate.expected(self._timed)
        mean, deviation = self._times.predict(residuals)
        return mean + self._expected, deviation

    @property
    def best(self) -> float:
        """The least value that is expected of what was measured.

        The least one measured may owe itself to something that the kernel takes for noise:
        hardly anything would promise to better it, and the search would starve.
        """
        expected = self._surrogate.expected(self._timed)
        return float((self._times.smoothed(self.values - expected) + expected).min())

    def chance(self) -> FloatVector:
        """Return the chance that each candidate works, (m,)."""
        if self._chances is None:
            return np.ones(len(self.candidates))
        failed = np.isin(self._tried, self._surrogate.fails).astype(np.float64)
        usual = _usual(failed)
        mean, _ = self._chances.predict(failed - usual)
        floor = self._surrogate.settings.least_chance
        out: FloatVector = 1.0 - np.clip(mean + usual, 0.0, 1.0 - floor)
        return out

    def gains(self, free: npt.NDArray[np.bool_]) -> FloatVector:
        """Return by how much each candidate is expected to better the best value; -1 if not free.

        Weighed by the chance that it works.
        """
        mean, deviation = self.predict()
        gain = expected_improvement(mean, deviation, self.best)
        out: FloatVector = np.where(free, (gain + 1e-300) * self.chance(), -1.0)
        return out

    def pick(self, n: int, free: npt.NDArray[np.bool_]) -> list[int]:
        """Return the rows of up to `n` candidates to measure, the most promising first.

        Each is the one with the greatest gain once those before are known; they are believed to
        turn out as expected (Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to
        parallelize optimization", 2010).

        Parameters
        ----------
        free : bool (m,)
            Which may be picked.
        """
        mean, deviation = self.predict()
        best = self.best
        chance = np.where(free, self.chance(), -1.0)
        believed = copy.copy(self._times)
        picked: list[int] = []
        for _ in range(min(n, int(np.count_nonzero(free)))):
            if picked:
                last = self.candidates[picked[-1:]]
                trends = self._surrogate.trend_matrix(last, measured=False)
                believed.add(self._surrogate.coordinates.matrix(last), trends)
                deviation = believed.deviation
                best = min(best, float(mean[picked[-1]]))
            gain = (expected_improvement(mean, deviation, best) + 1e-300) * chance
            picked.append(int(np.argmax(gain)))
            chance[picked[-1]] = -1.0
        return picked

    def expected_gain(
        self, free: npt.NDArray[np.bool_], rng: np.random.Generator, samples: int = 256
    ) -> float:
        """Return the expected share of the best time that measuring all the rest would gain.

        The mean over joint samples of the :data:`MOST_SAMPLED` most promising candidates.
        """
        gains = self.gains(free)
        rows = np.argsort(-gains, kind="stable")[: min(MOST_SAMPLED, int(free.sum()))]
        if not len(rows):
            return 0.0
        mean, _ = self.predict()
        covariance = self._times.covariance(rows)
        covariance[np.diag_indices(len(rows))] += 1e-6
        root = np.linalg.cholesky(covariance)
        drawn = mean[rows] + rng.standard_normal((samples, len(rows))) @ root.T
        drawn[rng.random(drawn.shape) > self.chance()[rows]] = np.inf
        better = np.maximum(float(self.values.min()) - drawn.min(axis=1), 0.0)
        return float(np.mean(1.0 - np.exp(-better * self._surrogate.scale)))

    def guess(self, rows: Sequence[int]) -> list[float]:
        """Return the logarithms of the times expected of some candidates."""
        mean, _ = self.predict()
        out = self._surrogate.log_times(mean[list(rows)])
        return [float(value) for value in out]


def squeeze(values: FloatVector, share: float, factor: float) -> FloatVector:
    """Return values whose greatest `share` exceeds the others by `factor` of what it did."""
    if not len(values):
        return values
    edge = np.quantile(values, 1.0 - share)
    out: FloatVector = np.where(values > edge, edge + factor * (values - edge), values)
    return out


def _usual(failed: FloatVector) -> float:
    """Return the share of failures, drawn a little towards few."""
    return float((failed.sum() + 0.5) / (len(failed) + 5.0))


def log_density(values: FloatVector, mean: FloatVector, variance: FloatVector) -> float:
    """Return the mean logarithm of the normal density of values, up to a constant."""
    return float(np.mean(-0.5 * np.square(values - mean) / variance - 0.5 * np.log(variance)))


def _some(values: FloatVector, most: int, rng: np.random.Generator) -> IndexVector:
    """Return the rows of at most so many values: the least half, and random ones; ascending."""
    if len(values) <= most:
        return np.arange(len(values), dtype=np.int64)
    order = np.argsort(values, kind="stable")
    rest = rng.choice(order[most // 2 :], most - most // 2, replace=False)
    return np.sort(np.concatenate([order[: most // 2], rest]))
