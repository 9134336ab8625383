"""What the model tuner believes: a guess of every candidate's time, and of whether it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.cost_model.gp import Posterior
from autotune.cost_model.normal import expected_improvement
from autotune.tuner.surrogate import Surrogate, usual_share

MOST_SAMPLED = 128
"""Candidates whose times are sampled jointly."""

SHORTLISTS = (256, 4096)
"""Candidates that the most promising ones are looked for among, before all of them are."""

_ROUNDING = 1.001
"""A gain that shrinks appears to grow by less, whatever is approximate about it."""


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
        usual = usual_share(failed)
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

    def pick(self, margins: Sequence[float], free: npt.NDArray[np.bool_]) -> list[int]:
        """Return the rows of candidates to measure, up to one per margin, in this order.

        Each is the one with the greatest gain once those before are known; they are believed to
        turn out as expected (Ginsbourger, Le Riche and Carraro, "Kriging is well-suited to
        parallelize optimization", 2010).

        Parameters
        ----------
        margins : sequence of float
            By how much each is to better the best value at least: the more, the bolder.
        free : bool (m,)
            Which may be picked.
        """
        mean, deviation = self.predict()
        chance = np.where(free, self.chance(), -1.0)
        margins = margins[: int(np.count_nonzero(free))]
        best = self.best
        gains = {m: _gain(mean, deviation, best - m, chance) for m in set(margins)}
        picked: list[int] = []
        for most in (*SHORTLISTS, len(mean)):
            lists = [_greatest(gain, most) for gain in gains.values()]
            rows = np.unique(np.concatenate([*lists, np.zeros(0, dtype=np.int64)]))
            bars = {m: np.delete(g, rows).max(initial=-1.0) * _ROUNDING for m, g in gains.items()}
            picked = self._pick_among(rows, margins, mean, deviation, chance, bars)
            if len(picked) == len(margins):
                break
        return picked

    def _pick_among(
        self,
        rows: IndexVector,
        margins: Sequence[float],
        mean: FloatVector,
        deviation: FloatVector,
        chance: FloatVector,
        bars: Mapping[float, float],
    ) -> list[int]:
        """Pick among some ascending rows only; fewer if another one might be better.

        To know more lessens every gain, so what was expected of the others, `bars`, is the most
        that may be expected of them now.
        """
        mean, deviation, chance = mean[rows], deviation[rows], chance[rows]
        believed, best = self._times.among(rows), self.best
        picked: list[int] = []
        for margin in margins:
            gain = _gain(mean, deviation, best - margin, chance)
            top = int(np.argmax(gain))
            if gain[top] <= bars[margin]:
                break
            picked.append(int(rows[top]))
            chance[top] = -1.0
            last = self.candidates[picked[-1:]]
            trends = self._surrogate.trend_matrix(last, measured=False)
            believed.add(self._surrogate.coordinates.matrix(last), trends)
            best, deviation = min(best, float(mean[top])), believed.deviation
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


def _gain(
    mean: FloatVector, deviation: FloatVector, best: float, chance: FloatVector
) -> FloatVector:
    """Return the expected improvements times the chances, which are -1 where none is wanted."""
    out: FloatVector = (expected_improvement(mean, deviation, best) + 1e-300) * chance
    return out


def _greatest(values: FloatVector, n: int) -> IndexVector:
    """Return the rows of the `n` greatest values, in ascending order."""
    if n >= len(values):
        return np.arange(len(values))
    return np.sort(np.argpartition(values, len(values) - n)[len(values) - n :])
