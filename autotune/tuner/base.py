"""The interface of tuners: `ask` for candidates, `tell` their results.

A tuner knows a space and observations, never a template or a device, so it runs as well on
recorded measurements.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from autotune.cost_model.base import FloatVector, IndexVector
from autotune.tuner.encoding import KnobDistances, max_min_subset
from search_spaces.knob import SpaceError
from search_spaces.space import Space


@dataclass(frozen=True)
class Observation:
    """The result of one candidate."""

    index: int  # The candidate's index in its space.
    # Measured time in seconds; None, NaN, infinity or a value <= 0 means a failure.
    cost_s: float | None = None
    # Code of the failure; an observation with an error is a failure even if it has a cost.
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the candidate worked and was timed."""
        return self.error is None and math.isfinite(self._cost) and self._cost > 0.0

    @property
    def throughput(self) -> float:
        """Runs per second; 0 for a failure."""
        return 1.0 / self._cost if self.ok else 0.0

    @property
    def _cost(self) -> float:
        return math.inf if self.cost_s is None else self.cost_s

    @property
    def order(self) -> tuple[float, int, str]:
        """Sorts the best observation first, the same way in every process."""
        return (self._cost if self.ok else math.inf, self.index, self.error or "")


class Trend(Protocol):
    """A function of the candidates that their times may follow."""

    def learn(self, told: Sequence[Observation]) -> None:
        """Learn from all observations so far, ordered by index."""

    def fitted(self, indices: IndexVector) -> FloatVector:
        """Return the values at measured candidates, as judged without their own measurements."""

    def at(self, indices: IndexVector) -> FloatVector:
        """Return the values at any candidates, (n,): greater is slower, about standardised."""


class Tuner(ABC):
    """Proposes candidates of a space, each at most once and feasible ones only.

    Proposals depend on the space, the seed, and on which candidates were asked for and told
    before; not on the order within a told batch, nor on the process.

    space: the space to search.
    seed: seed of every random choice, >= 0.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.seed = seed
        self._seen: set[int] = set()
        self._told: dict[int, Observation] = {}

    @abstractmethod
    def _propose(self, n: int) -> Iterable[int]:
        """Return up to ``n`` distinct, feasible candidates that were never seen."""

    def preparations(self) -> Iterator[None]:
        """Do slow work that needs no measurements, a part at each step.

        The rest is done when it is needed.
        """
        return iter(())

    def think(self) -> None:  # noqa: B027, most have nothing to think of
        """Do work for the next proposals while candidates are built.

        Called between :meth:`ask` and :meth:`tell`, maybe in another thread. Without it the same
        is done when it is needed: the proposals are the same.
        """

    def ask(self, n: int) -> list[int]:
        """Return up to ``n`` candidates to measure; fewer near the end, [] when exhausted.

        ValueError if ``n`` is less than 1.
        """
        if n < 1:
            raise ValueError(f"a tuner is asked for at least 1 candidate, not {n}")
        proposals = [int(index) for index in self._propose(n)]
        self._seen.update(proposals)
        return proposals

    def tell(self, observations: Iterable[Observation]) -> None:
        """Add measurements, also of candidates that were not proposed (from an earlier log).

        Of two observations of one candidate the better one counts.

        ValueError if an index lies outside the space.
        """
        for new in observations:
            if not 0 <= new.index < len(self.space):
                raise ValueError(
                    f"observation of candidate {new.index}, but the space has "
                    f"{len(self.space)} configurations, 0 to {len(self.space) - 1}"
                )
            old = self._told.get(new.index)
            if old is None or new.order < old.order:
                self._told[new.index] = new
            self._seen.add(new.index)

    # Whether results come one by one while others are pending, as with several devices.
    asynchronous: bool = False

    # Number of candidates that the session asks for one batch earlier, because choosing takes long:
    # they are built while the others are chosen. They are the last ones that `ask` returns.
    held_back: int = 0

    # Why it proposes nothing more, if that need not mean that the space holds no more.
    why_no_more: str = ""

    estimates_gain: bool = False  # Whether :meth:`expected_gain` ever returns a number.

    def expected_gain(self) -> float | None:
        """Return the share by which further measurements are expected to reduce the best time.

        None while there are too few measurements, and from a tuner that never estimates it.
        """
        return None

    # Whether it learns, during a run, from measurements of other devices, see `transfer`.
    learns_from_others: bool = False

    def transfer(self, prior: Trend) -> None:  # noqa: B027, most cannot learn from it
        """Use predictions from other devices' measurements, instead of the previous prior."""

    @property
    def observations(self) -> list[Observation]:
        """All observations so far, ordered by index."""
        return [self._told[index] for index in sorted(self._told)]

    @property
    def working(self) -> list[Observation]:
        """The valid observations, fastest first; of two equally fast ones the lower index."""
        return sorted((o for o in self._told.values() if o.ok), key=lambda o: o.order)

    @property
    def best(self) -> Observation | None:
        """The fastest working candidate so far."""
        return next(iter(self.working), None)

    @property
    def seen(self) -> IndexVector:
        """Indices asked for or told, ascending, int64."""
        return np.array(sorted(self._seen), dtype=np.int64)

    @property
    def pending(self) -> IndexVector:
        """Indices asked for and not told, ascending, int64."""
        return np.array(sorted(self._seen.difference(self._told)), dtype=np.int64)

    def _generator(self) -> np.random.Generator:
        """Return a random generator that depends on the seed and the number seen only."""
        return np.random.default_rng([self.seed, len(self._seen)])

    def _sample(self, n: int, rng: np.random.Generator, exclude: Iterable[int] = ()) -> list[int]:
        """Return up to ``n`` random feasible candidates, neither seen nor in ``exclude``."""
        excluded = self._seen.union(exclude)
        return [int(index) for index in self.space.sample(n, rng, exclude=sorted(excluded))]

    @cached_property
    def _knobs(self) -> KnobDistances:
        return KnobDistances(self.space)

    def _spread(self, n: int, pool: int, rng: np.random.Generator) -> list[int]:
        """Return the default candidate first, and random ones that differ as much as possible.

        They are chosen from `pool` random ones, and differ from those seen before, too.
        """
        first: list[int] = []
        if not self._seen:
            try:
                first = [self.space.default_index]
            except SpaceError:  # nothing is feasible, and an empty answer says just that
                return []
        sample = self._sample(max(n, pool), rng, exclude=first)
        taken = [*self.seen.tolist(), *first]
        return first + max_min_subset(self._knobs, sample, taken, n - len(first))
