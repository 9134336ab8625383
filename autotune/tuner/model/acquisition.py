"""The acquisition of the model tuner: from predicted times and failures to the next batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.cost_model.gaussian_process import Posterior
from autotune.cost_model.normal_distribution import expected_improvement
from autotune.tuner.model.surrogate import LEAST_CHANCE, Surrogate, failure_rate

MAX_SAMPLED = 128  # Candidates whose times are sampled jointly.

# Sizes of short lists: the best candidates are searched in these first, and then among all.
SHORTLISTS = (256, 4096)

# Tolerance for rounding: a gain that shrinks never appears to grow by more than this factor.
_ROUNDING = 1.001


class _IncrementalPosterior:
    """A posterior conditioned on measured candidates, and on fantasies of pending ones.

    posterior: a new one.
    surrogate: encodes candidates.
    """

    def __init__(self, posterior: Posterior, surrogate: Surrogate) -> None:
        self.posterior = posterior  # fantasies included
        # int64 (k,); the candidates that it is conditioned on, in order.
        self.indices = np.zeros(0, dtype=np.int64)
        self._surrogate = surrogate
        self._before: list[tuple[Posterior, IndexVector]] = []

    @property
    def measured(self) -> tuple[Posterior, IndexVector]:
        """The posterior without fantasies, and the candidates that it is conditioned on."""
        return self._before[0] if self._before else (self.posterior, self.indices)

    def can_condition_on(self, indices: IndexVector) -> bool:
        """Whether it is conditioned on no other candidates than these, fantasies aside."""
        return bool(np.isin(self.measured[1], indices).all())

    def condition_on(self, indices: IndexVector) -> None:
        """Condition on the rest of these; other fantasies are dropped."""
        while self._before and not np.isin(self.indices, indices).all():
            self.posterior, self.indices = self._before.pop()
        self._before.clear()
        self._add(indices)

    def fantasize(self, indices: IndexVector) -> None:
        """Add candidates as fantasies, before they are measured."""
        if not np.isin(indices, self.indices).all():
            self._before.append((self.posterior.fork(), self.indices))
            self._add(indices)

    def drop_fantasies(self) -> None:
        """Drop all fantasies."""
        self.posterior, self.indices = self.measured
        self._before.clear()

    def _add(self, indices: IndexVector) -> None:
        new = np.setdiff1d(indices, self.indices)
        if len(new):
            surrogate, count = self._surrogate, self.posterior.trends
            trends = surrogate.trend_matrix(new, measured=True) if count else None
            self.posterior.add(surrogate.encoding.matrix(new), trends)
            self.indices = np.concatenate([self.indices, new])


class Acquisition:
    """Predictions for fixed candidates; :meth:`update` follows the surrogate.

    candidates: int64 (m,).
    """

    def __init__(self, surrogate: Surrogate, candidates: IndexVector) -> None:
        self.candidates = candidates
        self._surrogate = surrogate
        self._encoded = surrogate.encoding.matrix(candidates)
        self._reset()
        self.update(False)

    def _reset(self) -> None:
        surrogate, places = self._surrogate, self._encoded
        trends = surrogate.trend_matrix(self.candidates, measured=False)
        self._times = _IncrementalPosterior(Posterior(surrogate.times, places, trends), surrogate)
        self._chances: _IncrementalPosterior | None = None

    def update(self, changed: bool) -> None:
        """Update after the surrogate has learned; `changed`: whether its parameters are new."""
        surrogate = self._surrogate
        self._predicted: tuple[FloatVector, FloatVector] | None = None
        self._chance: FloatVector | None = None
        self._expected = surrogate.expected(self.candidates)
        if changed or not self._times.can_condition_on(surrogate.works):
            self._reset()
        self._times.condition_on(surrogate.works)
        if len(surrogate.fails):
            if self._chances is None:
                self._chances = _IncrementalPosterior(
                    Posterior(surrogate.failures, self._encoded), surrogate
                )
            self._chances.condition_on(surrogate.tried)

    def fantasize(self, indices: IndexVector) -> None:
        """Add candidates as fantasies before they are measured; further calls add more.

        They are assumed to work and to take the predicted time, so only later choices depend on
        them. `update` keeps the work that was done where this was right.
        """
        self._times.fantasize(indices)
        if self._chances is not None:
            self._chances.fantasize(indices)

    def drop_fantasies(self) -> None:
        """Drop all fantasies."""
        self._times.drop_fantasies()
        if self._chances is not None:
            self._chances.drop_fantasies()

    @property
    def values(self) -> FloatVector:
        """The measured values, in the order in which the candidates were added."""
        return self._surrogate.values(self._times.measured[1])

    def predict(self) -> tuple[FloatVector, FloatVector]:
        """Return means and deviations of the values at the candidates, (m,)."""
        if self._predicted is None:
            posterior, taken = self._times.measured
            mean, deviation = posterior.predict(self.values - self._surrogate.expected(taken))
            self._predicted = mean + self._expected, deviation
        return self._predicted

    @property
    def best(self) -> float:
        """The least predicted value of the measured candidates.

        The least measured value may be an outlier that the kernel takes for noise. Hardly
        any candidate would promise to improve on it, and the search would stop too early.
        """
        posterior, taken = self._times.measured
        expected = self._surrogate.expected(taken)
        return float((posterior.smoothed(self.values - expected) + expected).min())

    def success_probability(self) -> FloatVector:
        """Return the probability that each candidate works, (m,)."""
        if self._chances is None:
            return np.ones(len(self.candidates))
        if self._chance is None:
            posterior, taken = self._chances.measured
            failed = np.isin(taken, self._surrogate.fails).astype(np.float64)
            usual = failure_rate(failed)
            mean, _ = posterior.predict(failed - usual)
            self._chance = 1.0 - np.clip(mean + usual, 0.0, 1.0 - LEAST_CHANCE)
        return self._chance

    def expected_improvements(self, free: npt.NDArray[np.bool_]) -> FloatVector:
        """Return the expected improvement of each candidate over the best value; -1 if not free.

        It is weighted by the probability that the candidate works.
        """
        mean, deviation = self.predict()
        gain = expected_improvement(mean, deviation, self.best)
        out: FloatVector = np.where(free, (gain + 1e-300) * self.success_probability(), -1.0)
        return out

    def select_batch(self, margins: Sequence[float], free: npt.NDArray[np.bool_]) -> list[int]:
        """Return the rows of candidates to measure, up to one per margin, in this order.

        Each has the greatest gain once the candidates before it and all fantasies are known; these
        are assumed to take the predicted time (Ginsbourger, Le Riche and Carraro, "Kriging is
        well-suited to parallelize optimization", 2010).

        margins: least improvement over the best value that is asked of each: larger values explore
            more.
        free: bool (m,); which may be picked.
        """
        mean, _ = self.predict()
        deviation, best = self._times.posterior.deviation, self._best_with(mean)
        chance = np.where(free, self.success_probability(), -1.0)
        margins = margins[: int(np.count_nonzero(free))]
        gains = {m: _weighted_improvement(mean, deviation, best - m, chance) for m in set(margins)}
        picked: list[int] = []
        for most in (*SHORTLISTS, len(mean)):
            lists = [_top_rows(gain, most) for gain in gains.values()]
            rows = np.unique(np.concatenate([*lists, np.zeros(0, dtype=np.int64)]))
            bars = {m: np.delete(g, rows).max(initial=-1.0) * _ROUNDING for m, g in gains.items()}
            self._select_among(rows, margins, best, mean, chance, bars, picked)
            if len(picked) == len(margins):
                break
        return picked

    def _best_with(self, mean: FloatVector) -> float:
        """Return the least value of measured candidates and of fantasies."""
        ahead = np.setdiff1d(self._times.indices, self._times.measured[1])
        return min(self.best, float(mean[np.isin(self.candidates, ahead)].min(initial=np.inf)))

    def _select_among(
        self,
        rows: IndexVector,
        margins: Sequence[float],
        best: float,
        mean: FloatVector,
        chance: FloatVector,
        bars: Mapping[float, float],
        picked: list[int],
    ) -> None:
        """Go on picking, among some ascending rows only; stop if a row outside may be better.

        More knowledge makes every gain smaller, so the earlier gains of the other rows, `bars`, are
        upper bounds of their gains now.
        """
        posterior = self._times.posterior.among(rows)
        chance = np.where(np.isin(rows, picked), -1.0, chance[rows])
        own, new = mean[rows], picked[:]
        for margin in margins[len(picked) :]:
            if new:
                known = self.candidates[new]
                trends = self._surrogate.trend_matrix(known, measured=False)
                posterior.add(self._surrogate.encoding.matrix(known), trends)
                best = min(best, float(mean[new].min()))
            gain = _weighted_improvement(own, posterior.deviation, best - margin, chance)
            top = int(np.argmax(gain))
            if gain[top] <= bars[margin]:
                break
            new = [int(rows[top])]
            picked += new
            chance[top] = -1.0

    def expected_gain(
        self, free: npt.NDArray[np.bool_], rng: np.random.Generator, samples: int = 256
    ) -> float:
        """Return the share of the best time that all other candidates are expected to gain.

        The mean over joint samples of the :data:`MAX_SAMPLED` most promising candidates.
        """
        if not free.any():
            return 0.0
        rows = _top_rows(self.expected_improvements(free), min(MAX_SAMPLED, int(free.sum())))
        mean, _ = self.predict()
        covariance = self._times.measured[0].covariance(rows)
        diagonal = np.diag_indices(len(rows))
        covariance[diagonal] += max(1e-6, 1e-10 * float(covariance[diagonal].max()))
        root = np.linalg.cholesky(covariance)
        drawn = mean[rows] + rng.standard_normal((samples, len(rows))) @ root.T
        drawn[rng.random(drawn.shape) > self.success_probability()[rows]] = np.inf
        better = np.maximum(float(self.values.min()) - drawn.min(axis=1), 0.0)
        return float(np.mean(1.0 - np.exp(-better * self._surrogate.scale)))

    def predict_log_times(self, rows: Sequence[int]) -> list[float]:
        """Return the logarithms of the predicted times of some candidates."""
        mean, _ = self.predict()
        out = self._surrogate.log_times(mean[list(rows)])
        return [float(value) for value in out]


def _weighted_improvement(
    mean: FloatVector, deviation: FloatVector, best: float, chance: FloatVector
) -> FloatVector:
    """Return expected improvements times probabilities, which are -1 for excluded candidates."""
    out: FloatVector = (expected_improvement(mean, deviation, best) + 1e-300) * chance
    return out


def _top_rows(values: FloatVector, n: int) -> IndexVector:
    """Return the rows of the `n` greatest values, in ascending order."""
    if n >= len(values):
        return np.arange(len(values))
    return np.sort(np.argpartition(values, len(values) - n)[len(values) - n :])
