"""What the model tuner believes: a guess of every candidate's time, and of whether it works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.cost_model.gaussian_process import Posterior
from autotune.cost_model.normal_distribution import expected_improvement
from autotune.tuner.model.surrogate import Surrogate, usual_share

MOST_SAMPLED = 128
"""Candidates whose times are sampled jointly."""

SHORTLISTS = (256, 4096)
"""Candidates that the most promising ones are looked for among, before all of them are."""

_ROUNDING = 1.001
"""A gain that shrinks appears to grow by less, whatever is approximate about it."""


class _Growing:
    """A posterior that takes in measured candidates, and others ahead of their results.

    Parameters
    ----------
    posterior : Posterior
        A new one.
    surrogate : Surrogate
        Says where candidates are.

    Attributes
    ----------
    posterior : Posterior
        With what is expected.
    taken : int64 (k,)
        What it has taken in, in this order.
    """

    def __init__(self, posterior: Posterior, surrogate: Surrogate) -> None:
        self.posterior = posterior
        self.taken = np.zeros(0, dtype=np.int64)
        self._surrogate = surrogate
        self._before: list[tuple[Posterior, IndexVector]] = []

    @property
    def known(self) -> tuple[Posterior, IndexVector]:
        """The posterior without what is only expected, and what it has taken in."""
        return self._before[0] if self._before else (self.posterior, self.taken)

    def can_become(self, indices: IndexVector) -> bool:
        """Whether nothing but these was taken in, except ahead."""
        return bool(np.isin(self.known[1], indices).all())

    def become(self, indices: IndexVector) -> None:
        """Take in the rest of these; nothing else is ahead then."""
        while self._before and not np.isin(self.taken, indices).all():
            self.posterior, self.taken = self._before.pop()
        self._before.clear()
        self._add(indices)

    def expect(self, indices: IndexVector) -> None:
        """Take in more, ahead of what comes of it."""
        if not np.isin(indices, self.taken).all():
            self._before.append((self.posterior.fork(), self.taken))
            self._add(indices)

    def settle(self) -> None:
        """Be what it was before it expected anything."""
        self.posterior, self.taken = self.known
        self._before.clear()

    def _add(self, indices: IndexVector) -> None:
        new = np.setdiff1d(indices, self.taken)
        if len(new):
            surrogate, count = self._surrogate, self.posterior.trends
            trends = surrogate.trend_matrix(new, measured=True) if count else None
            self.posterior.add(surrogate.coordinates.matrix(new), trends)
            self.taken = np.concatenate([self.taken, new])


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
        self.update(False)

    def _forget(self) -> None:
        surrogate, places = self._surrogate, self._places
        trends = surrogate.trend_matrix(self.candidates, measured=False)
        self._times = _Growing(Posterior(surrogate.times, places, trends), surrogate)
        self._chances: _Growing | None = None

    def update(self, changed: bool) -> None:
        """Follow the surrogate; `changed` says that its parameters are new."""
        surrogate = self._surrogate
        self._predicted: tuple[FloatVector, FloatVector] | None = None
        self._chance: FloatVector | None = None
        self._expected = surrogate.expected(self.candidates)
        if changed or not self._times.can_become(surrogate.works):
            self._forget()
        self._times.become(surrogate.works)
        if len(surrogate.fails):
            if self._chances is None:
                self._chances = _Growing(Posterior(surrogate.failures, self._places), surrogate)
            self._chances.become(surrogate.tried)

    def expect(self, indices: IndexVector) -> None:
        """Take in some candidates ahead of their measurements; more, when called again.

        They are expected to work, and to turn out as they are believed to, so that only what is
        picked after them depends on it. `update` makes use of it where that was right.
        """
        self._times.expect(indices)
        if self._chances is not None:
            self._chances.expect(indices)

    def settle(self) -> None:
        """Expect nothing any more."""
        self._times.settle()
        if self._chances is not None:
            self._chances.settle()

    @property
    def values(self) -> FloatVector:
        """The values measured, in the order in which the candidates were taken in."""
        return self._surrogate.values(self._times.known[1])

    def predict(self) -> tuple[FloatVector, FloatVector]:
        """Return means and deviations of the values at the candidates, (m,)."""
        if self._predicted is None:
            posterior, taken = self._times.known
            mean, deviation = posterior.predict(self.values - self._surrogate.expected(taken))
            self._predicted = mean + self._expected, deviation
        return self._predicted

    @property
    def best(self) -> float:
        """The least value that is expected of what was measured.

        The least one measured may owe itself to something that the kernel takes for noise:
        hardly anything would promise to better it, and the search would starve.
        """
        posterior, taken = self._times.known
        expected = self._surrogate.expected(taken)
        return float((posterior.smoothed(self.values - expected) + expected).min())

    def chance(self) -> FloatVector:
        """Return the chance that each candidate works, (m,)."""
        if self._chances is None:
            return np.ones(len(self.candidates))
        if self._chance is None:
            posterior, taken = self._chances.known
            failed = np.isin(taken, self._surrogate.fails).astype(np.float64)
            usual = usual_share(failed)
            mean, _ = posterior.predict(failed - usual)
            floor = self._surrogate.settings.least_chance
            self._chance = 1.0 - np.clip(mean + usual, 0.0, 1.0 - floor)
        return self._chance

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

        Each is the one with the greatest gain once those before are known, and those taken in
        ahead; they are believed to turn out as expected (Ginsbourger, Le Riche and Carraro,
        "Kriging is well-suited to parallelize optimization", 2010).

        Parameters
        ----------
        margins : sequence of float
            By how much each is to better the best value at least: the more, the bolder.
        free : bool (m,)
            Which may be picked.
        """
        mean, _ = self.predict()
        deviation, best = self._times.posterior.deviation, self._best_with(mean)
        chance = np.where(free, self.chance(), -1.0)
        margins = margins[: int(np.count_nonzero(free))]
        gains = {m: _gain(mean, deviation, best - m, chance) for m in set(margins)}
        picked: list[int] = []
        for most in (*SHORTLISTS, len(mean)):
            lists = [_greatest(gain, most) for gain in gains.values()]
            rows = np.unique(np.concatenate([*lists, np.zeros(0, dtype=np.int64)]))
            bars = {m: np.delete(g, rows).max(initial=-1.0) * _ROUNDING for m, g in gains.items()}
            picked = self._pick_among(rows, margins, best, mean, deviation, chance, bars)
            if len(picked) == len(margins):
                break
        return picked

    def _best_with(self, mean: FloatVector) -> float:
        """Return the least value of what was measured, and of what was taken in ahead."""
        ahead = np.setdiff1d(self._times.taken, self._times.known[1])
        return min(self.best, float(mean[np.isin(self.candidates, ahead)].min(initial=np.inf)))

    def _pick_among(
        self,
        rows: IndexVector,
        margins: Sequence[float],
        best: float,
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
        believed = self._times.posterior.among(rows)
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
        if not free.any():
            return 0.0
        rows = _greatest(self.gains(free), min(MOST_SAMPLED, int(free.sum())))
        mean, _ = self.predict()
        covariance = self._times.known[0].covariance(rows)
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
