"""The surrogate of the model tuner: Gaussian processes of times and of failures.

The online audit compares its predictions with the measurements that follow: a model fits its own
training data even if it is bad, so only predictions made before count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.cost_model.gaussian_process import GaussianProcess, Posterior
from autotune.cost_model.normal_distribution import log_density
from autotune.cost_model.ranking_metrics import rank_correlation
from autotune.tuner.base import Observation, Trend
from autotune.tuner.encoding import KnobEncoding
from search_spaces.space import Space

LATEST = 32  # Number of latest measurements that an audit uses.


@dataclass(frozen=True)
class AuditResult:
    """How good the latest predictions were."""

    outcomes: int  # Number of guesses whose candidates worked.
    rank_correlation: float  # Of guesses with times: 1 where the order is right, 0 for chance.


class Audit:
    """Keeps predictions and compares them with the measurements."""

    def __init__(self) -> None:
        self._guesses: dict[int, float] = {}

    def expect(self, guesses: Mapping[int, float]) -> None:
        """Keep predictions of logarithmic times, by candidate, before these are measured."""
        self._guesses.update(guesses)

    def result(self, told: Mapping[int, Observation]) -> AuditResult:
        """Compare the latest guesses with the observations."""
        pairs = list(self._pairs(told))[-LATEST:]
        if len(pairs) < 2:
            return AuditResult(len(pairs), 0.0)
        guessed, speed = -np.array([g for g, _ in pairs]), np.array([s for _, s in pairs])
        return AuditResult(len(pairs), rank_correlation(guessed, speed))

    def _pairs(self, told: Mapping[int, Observation]) -> Iterable[tuple[float, float]]:
        """Yield (guess, logarithm of the speed) of valid candidates, in order of the guesses."""
        for index, guess in self._guesses.items():
            observation = told.get(index)
            if observation is not None and observation.ok:
                yield guess, math.log(observation.throughput)


PRIOR_WEIGHT = 4.0  # Measurements that a prior counts as.
PRIOR_HALVED = 50.0  # Working measurements after which a prior counts half, and so on.
PRIOR_AUDIT_FROM = 12  # Working measurements from which on a prior is audited.
FAILURE_NOISE = -3.0  # Logarithm of the noise expected in whether a candidate works.


# Differences between slow candidates hardly matter for finding fast ones: in the slowest share the
# excess of a logarithmic time over the others counts only by the factor `SQUEEZE`.
SLOW_SHARE, SQUEEZE = 0.5, 0.3

STEPS = 20  # Steps of fitting the kernel's parameters.

# They are fitted before every proposal while less than `OFTEN` is known, or `AT_ONCE` times as much
# as at the last time. Otherwise they are fitted after a proposal, for the next one, each time
# `GROWTH` times as much is known.
OFTEN, AT_ONCE, GROWTH = 24, 1.5, 1.1

# At most so many measurements serve to fit the parameters, and to predict: the best half and a
# random one.
LEARN_FROM, CONDITION_ON = 256, 1024

LEAST_CHANCE = 0.01  # No candidate's chance of working counts as less.


class Surrogate:
    """Gaussian processes for the logarithm of the time and for the chance of failure.

    trends: functions that the times may depend on linearly; their weights are learned.
    prior: the expected times before there is data.
    """

    def __init__(
        self,
        space: Space,
        trends: Sequence[Trend] = (),
        prior: Trend | None = None,
    ) -> None:
        self.prior = prior
        self.encoding = KnobEncoding(space)
        self.trends = tuple(trends)
        axes = self.encoding.groups, self.encoding.log_lengths
        self.times = GaussianProcess(*axes, trends=len(self.trends))
        self.failures = GaussianProcess(*axes, log_noise=FAILURE_NOISE)
        self.works = np.zeros(0, dtype=np.int64)
        self.fails = np.zeros(0, dtype=np.int64)
        self._log_s = np.zeros(0)
        self.told: list[Observation] = []  # the latest observations
        self._known = self._learned = 0

    def take(self, told: Sequence[Observation], rng: np.random.Generator) -> None:
        """Take in all observations; the parameters stay as they are.

        told: ordered by index.
        rng: chooses among more measurements than can be used.
        """
        self.told = list(told)
        working = [o for o in told if o.ok]
        log_s = np.array([-math.log(o.throughput) for o in working])
        kept = _some(log_s, CONDITION_ON, rng)
        self.works = np.array([working[row].index for row in kept], dtype=np.int64)
        self._log_s = log_s[kept]
        self.fails = np.array([o.index for o in told if not o.ok], dtype=np.int64)
        self._known = len(working)

    @property
    def tried(self) -> IndexVector:
        """The measured candidates that count: valid ones and failures."""
        return np.concatenate([self.works, self.fails])

    @property
    def due(self) -> bool:
        """Whether enough is new for other parameters to be worth their while."""
        return self._known >= GROWTH * self._learned

    @property
    def overdue(self) -> bool:
        """Whether so much is new, or so little known, that the old ones must not serve again."""
        return self._known < OFTEN or self._known >= AT_ONCE * self._learned

    def learn(self, rng: np.random.Generator, trends: bool = True) -> None:
        """Fit the parameters to the observations; `rng` chooses among them.

        `trends` says whether the trends learn, too.
        """
        for trend in self.trends if trends else ():
            trend.learn(self.told)
        rows = _some(self._log_s, LEARN_FROM, rng)
        self.times.learn(
            self.encoding.matrix(self.works[rows]),
            self.values(self.works[rows]) - self.expected(self.works[rows]),
            self.trend_matrix(self.works[rows], measured=True),
            STEPS,
        )
        self._learned = self._known
        if len(self.fails):
            self._learn_failures(rng)

    def _learn_failures(self, rng: np.random.Generator) -> None:
        tried = self.tried
        labels = np.repeat([0.0, 1.0], [len(self.works), len(self.fails)])
        rows = np.sort(rng.permutation(len(tried))[:LEARN_FROM])
        usual = failure_rate(labels)
        scaled = (labels[rows] - usual) / np.sqrt(usual * (1.0 - usual))
        self.failures.learn(self.encoding.matrix(tried[rows]), scaled, None, STEPS)

    def values(self, indices: IndexVector) -> FloatVector:
        """Return the squeezed, standardised logarithmic times of measured candidates."""
        squeezed = self._squeezed()
        standard = (squeezed - squeezed.mean()) / self.scale
        out: FloatVector = standard[np.searchsorted(self.works, indices)]
        return out

    def expected(self, indices: IndexVector) -> FloatVector:
        """Return the values that the prior expects of candidates; 0 without one.

        Its weight is as if :data:`PRIOR_WEIGHT` measurements agreed with it, besides the real
        ones, and falls as their number grows.
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

    def drop_prior_if_harmful(self) -> bool:
        """Drop the prior if the measurements are predicted better without it; return whether.

        Judged by the mean log density of each as the others predict it.
        """
        if self.prior is None or len(self.works) < PRIOR_AUDIT_FROM:
            return False
        values, trends = self.values(self.works), self.trend_matrix(self.works, measured=True)
        x = self.encoding.matrix(self.works)
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
        """Return the logarithms of times, with slow ones squeezed."""
        out: FloatVector = values * self.scale + self._squeezed().mean()
        return out

    @property
    def scale(self) -> float:
        """The unit of the values as a difference of the logarithms of fast times."""
        return float(self._squeezed().std()) or 1.0

    def _squeezed(self) -> FloatVector:
        values = self._log_s
        if not len(values):
            return values
        edge = np.quantile(values, 1.0 - SLOW_SHARE)
        out: FloatVector = np.where(values > edge, edge + SQUEEZE * (values - edge), values)
        return out

    def trend_matrix(self, indices: IndexVector, measured: bool) -> FloatVector:
        """Return the values of the trends, float64 (n, number of trends)."""
        columns = [t.fitted(indices) if measured else t.at(indices) for t in self.trends]
        if not columns:
            return np.zeros((len(indices), 0))
        return np.stack(columns, axis=1)


def failure_rate(failed: FloatVector) -> float:
    """Return the share of failures, drawn a little towards few."""
    return float((failed.sum() + 0.5) / (len(failed) + 5.0))


def _some(values: FloatVector, most: int, rng: np.random.Generator) -> IndexVector:
    """Return at most `most` rows: the half with the least values, and random ones; ascending."""
    if len(values) <= most:
        return np.arange(len(values), dtype=np.int64)
    order = np.argsort(values, kind="stable")
    rest = rng.choice(order[most // 2 :], most - most // 2, replace=False)
    return np.sort(np.concatenate([order[: most // 2], rest]))
