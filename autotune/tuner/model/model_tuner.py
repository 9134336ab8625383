"""The model tuner: predicts every candidate and proposes those with the largest expected gain.

A Gaussian process over the knobs predicts the time of each candidate and its uncertainty; another
one predicts the probability that it works. Scores of boosted trees over the features are a basis
function (a trend) of the first one, with a weight that is fitted to the measurements. While
predictions are no better than chance, half of the proposals are moves that need no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from autotune.cost_model.base import CostModel, FeatureSource
from autotune.cost_model.xgboost_model import XGBCostModel
from autotune.tuner.base import Observation, Trend, Tuner
from autotune.tuner.encoding import KnobFeatures, max_min_subset, pick_diverse
from autotune.tuner.model.acquisition import Acquisition
from autotune.tuner.model.ranking import Candidates, CandidateSettings
from autotune.tuner.model.surrogate import Audit, AuditResult, Surrogate
from autotune.tuner.model.transfer import TransferPrior
from autotune.tuner.model.trends import TreeTrend
from search_spaces.space import Space

# Random candidates of a large space among which a prior chooses the first ones.
PRIOR_POOL = 20_000

# Measurements without which trees are not waited for, as after the start of a run.
TREES_OVERDUE = 48

CLEARLY = 1.02  # An improvement of the best time by this factor counts.

# In a large space: candidates kept for the next climb, and those it climbs from.
KEPT, CLIMBERS = 1024, 16


START = 8  # Measurements, spread over the space, before the model is used.
START_VALID = 3  # Working candidates before the model is used.
START_POOL = 256  # Random candidates from which the first ones are chosen.

AUDIT_FROM = 16  # Outcomes of its own proposals from which on the model is audited.
# Rank correlation of guesses with outcomes from which on every proposal is the model's.
TRUSTED = 0.0

# After each measurement that improves nothing, every second proposal must beat the best time by so
# much more, up to a limit; 1 is the deviation of the times measured. So a search that is stuck on a
# plateau looks elsewhere, too.
EXPLORATION, MAX_EXPLORATION = 0.1, 1.0
EXPLORATION_HALF_LIFE = 50.0  # Measurements after which boldness counts half, and so on.

CLIMBS = 2  # Times that, in a large space, the surroundings of the best candidates are judged, too.


class ImprovementTracker:
    """Compares the best throughput before each proposal; the order of results does not matter."""

    def __init__(self) -> None:
        self._best = 0.0
        self._since = 0

    def in_vain(self, best: float, known: int) -> int:
        """Return the number of measurements since the last clear improvement.

        best: greatest throughput so far, in runs per second.
        known: number of measurements so far.
        """
        if best > CLEARLY * self._best:
            self._best, self._since = best, known
        return known - self._since


class ModelTuner(Tuner):
    """Proposes the candidates with the largest expected gain, as far as its model can be trusted.

    `features`: the features of candidates that the trees read; the knobs themselves by default.
    `prior`: a prediction from other measurements. It is used from the first proposal on, its weight
    falls as measurements of this space come in, and it is dropped once these are predicted better
    without it.
    `make_model`: makes the untrained cost model whose scores are a trend, from a seed.
    `candidates`: how many are predicted.
    """

    estimates_gain = True
    held_back = 1

    def __init__(
        self,
        space: Space,
        seed: int,
        features: FeatureSource | None = None,
        prior: TransferPrior | None = None,
        make_model: Callable[[int], CostModel] = XGBCostModel,
        candidates: CandidateSettings | None = None,
    ) -> None:
        super().__init__(space, seed)
        # Over the knobs alone, boosted trees say no more than the Gaussian process.
        source = features or KnobFeatures(space)
        self._trees = TreeTrend(source, make_model, seed)
        trends = [self._trees] if features is not None else []
        self._surrogate = Surrogate(space, trends, prior)
        self._candidates = Candidates(space, source, candidates)
        self._acquisition: Acquisition | None = None
        self._audit = Audit()
        self._progress = ImprovementTracker()
        self._owed = False
        self._held: list[int] = []
        self._proposed_from: Acquisition | None = None
        self.learns_from_others = prior is None
        self._new_prior: Trend | None = None

    def transfer(self, prior: Trend) -> None:
        """Take in a prior; what is predicted already is predicted anew with the next results."""
        if self._acquisition is None:
            self._surrogate.prior = prior
        else:
            self._new_prior = prior

    def tell(self, observations: Iterable[Observation]) -> None:
        """Take in measurements; see :meth:`Tuner.tell`."""
        super().tell(observations)
        self._proposed_from = None

    def preparations(self) -> Iterator[None]:
        """Work out the features that the trees read, or make ready for it, a piece at each step."""
        if self._surrogate.trends:
            yield from self._trees.preparations(self._candidates.whole())
            self._candidates.prepare()
            yield

    def think(self) -> None:
        """Fit the model to the observations behind the latest proposals, for the next ones.

        Rank a large space by it, and treat what was proposed as fantasies, but for
        what may be held back.
        """
        self._fit_pending()
        if self._acquisition is not None:
            self._acquisition.fantasize(np.setdiff1d(self.pending, self._held))

    def _fit_pending(self) -> None:
        """Fit the model to the observations behind the latest proposals, unless that is done."""
        if self._owed:
            self._owed, self._proposed_from = False, None
            surrogate = self._surrogate
            # New trees need new parameters; fitting these more often gains nothing.
            due = self._trees.due(surrogate.told) if surrogate.trends else surrogate.due
            if due:
                surrogate.learn(self._chooser(surrogate.told))
                self._update_acquisition(True)
            self._rank()

    # -- proposals -------------------------------------------------------------------------

    def _propose(self, n: int) -> list[int]:
        rng = self._generator()
        if not self._informed():
            return self._start(n, rng)
        acquisition = self._proposed_from = self._update(rng)
        acquisition.fantasize(self.pending)
        self._owed = True
        free = np.isin(acquisition.candidates, self.seen, invert=True)
        own = n if self._is_trusted() else n // 2 + n % 2 * (len(self._seen) % 2)
        rows = acquisition.select_batch(self._margins(own), free)
        picked: list[int] = acquisition.candidates[rows].tolist()
        self._audit.expect(dict(zip(picked, acquisition.predict_log_times(rows), strict=True)))
        proposals = picked + self._moves(n - len(picked), picked, rng)
        self._held = proposals[len(proposals) - self.held_back :]
        return proposals

    def _margins(self, n: int) -> list[float]:
        """Return by how much each of `n` proposals must beat the best value.

        Every second one is bold, the bolder the longer the search has improved nothing.
        """
        best = self.best
        known = len(self._told)
        vain = 0 if best is None else self._progress.in_vain(best.throughput, known)
        bold = min(EXPLORATION * vain, MAX_EXPLORATION)
        bold *= 0.5 ** (known / EXPLORATION_HALF_LIFE)
        return [bold if (known + number) % 2 else 0.0 for number in range(n)]

    def _informed(self) -> bool:
        """Whether enough was measured, and enough of it worked, for a model to learn from.

        Of several devices what is pending counts: others would be chosen blindly meanwhile.
        """
        working = sum(o.ok for o in self._told.values())
        start = START if self._surrogate.prior is None else 0
        known = self._seen if self.asynchronous else self._told
        return len(known) >= start and working >= START_VALID

    def _start(self, n: int, rng: np.random.Generator) -> list[int]:
        """Return the default configuration, and random ones that differ as much as possible.

        With a prior, what it likes best.
        """
        prior = self._surrogate.prior
        if prior is not None:
            return self._expected_best(prior, n, rng)
        return self._spread(n, START_POOL, rng)

    def _expected_best(self, prior: Trend, n: int, rng: np.random.Generator) -> list[int]:
        """Return up to `n` candidates that the prior likes best, unlike each other."""
        whole = self._candidates.whole()
        if whole is None:
            pool = np.array(self._sample(PRIOR_POOL, rng), dtype=np.int64)
        else:
            pool = np.setdiff1d(whole, self.seen)
        scores = -prior.at(pool)
        order = np.argsort(-scores, kind="stable")[: 64 * n]
        return pick_diverse(self._knobs, pool[order], scores[order][np.newaxis], n)

    @property
    def audit(self) -> AuditResult:
        """How the model's latest guesses, made before the measurements, turned out."""
        return self._audit.result(self._told)

    def _is_trusted(self) -> bool:
        audit = self.audit
        few = audit.outcomes < AUDIT_FROM
        return few or audit.rank_correlation >= TRUSTED

    def _moves(self, n: int, picked: list[int], rng: np.random.Generator) -> list[int]:
        """Return up to `n` candidates without a model: neighbours of the best, then far ones."""
        if n < 1:
            return []
        excluded = self._seen.union(picked)
        near: list[int] = []
        for best in self.working[:3]:
            around = [i for i in self.space.neighbors(best.index).tolist() if i not in excluded]
            near += [int(i) for i in rng.permutation(np.array(around, dtype=np.int64))]
        near = list(dict.fromkeys(near))[: n // 2 + rng.integers(2) * (n % 2)]
        picked = [*picked, *near]
        sample = self._sample(max(n, START_POOL), rng, exclude=picked)
        taken = [*self.seen.tolist(), *picked]
        return near + max_min_subset(self._knobs, sample, taken, n - len(near))

    # -- acquisition ---------------------------------------------------------------------------

    def _update(self, rng: np.random.Generator) -> Acquisition:
        """Return the acquisition for the candidates to score, with all observations taken in."""
        surrogate, told = self._surrogate, self.observations
        if told != surrogate.told:
            self._fit_pending()
            surrogate.take(told, self._chooser(told))
            changed = self._take_prior()
            overdue = surrogate.overdue
            if overdue:
                surrogate.learn(self._chooser(told), trends=self._trees_at_once())
                self._rank()
            changed |= surrogate.drop_prior_if_harmful()
            self._update_acquisition(changed or overdue)
        elif self._acquisition is not None:
            self._acquisition.drop_fantasies()
        return self._search(rng) if self._acquisition is None else self._acquisition

    def _take_prior(self) -> bool:
        """Let the surrogate follow a prior that was transferred; return whether there was one."""
        prior, self._new_prior = self._new_prior, None
        if prior is not None:
            self._surrogate.prior = prior
        return prior is not None

    def _trees_at_once(self) -> bool:
        """Whether the trees learn before a proposal, because they are long overdue.

        Otherwise they do after it, beside the builds.
        """
        return not self._trees.models and len(self._told) >= TREES_OVERDUE

    def _update_acquisition(self, changed: bool) -> None:
        """Update the acquisition of a whole space after learning, if it is judged whole."""
        whole = self._candidates.whole()
        if self._acquisition is not None:
            self._acquisition.update(changed)
        elif whole is not None:
            self._acquisition = Acquisition(self._surrogate, whole)

    def _rank(self) -> None:
        """Rank a large space with the trained models."""
        if self._trees.models and self._candidates.whole() is None:
            told = self._surrogate.told
            measured = np.array([o.index for o in told], dtype=np.int64)
            rng = np.random.default_rng([self.seed, len(told), 3])
            self._candidates.ranker.rank(self._trees.models, measured, rng)

    def _chooser(self, told: Sequence[Observation]) -> np.random.Generator:
        """Return a generator to choose among more measurements than can be used."""
        return np.random.default_rng([self.seed, len(told), 2])

    def _search(self, rng: np.random.Generator) -> Acquisition:
        """Return the acquisition for a part of a large space, after climbing to good candidates."""
        best = [o.index for o in self.working]
        candidates = self._candidates.some(best, self.seen, rng)
        acquisition = Acquisition(self._surrogate, candidates)
        for _ in range(CLIMBS):
            gains = acquisition.expected_improvements(
                np.ones(len(acquisition.candidates), dtype=bool)
            )
            top = acquisition.candidates[np.argsort(-gains, kind="stable")[:KEPT]]
            around = self._candidates.around(top[:CLIMBERS], self.seen)
            acquisition = Acquisition(self._surrogate, np.union1d(top, around))
        return acquisition

    def expected_gain(self) -> float | None:
        """Return the expected share of the best time that all further measurements would gain.

        The mean, over joint samples of the predictions for the most promising candidates, of how
        much the least of them betters the best time.
        """
        if not self._informed():
            return None
        rng = np.random.default_rng([self.seed, len(self._told), 1])
        acquisition = self._proposed_from or self._update(rng)
        told = np.array(sorted(self._told), dtype=np.int64)
        return acquisition.expected_gain(np.isin(acquisition.candidates, told, invert=True), rng)
