"""A space with exactly the configurations of a list, such as those of a recorded file."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from search_spaces.constraints import FEASIBLE, Constraint, Verdicts
from search_spaces.knob import IntArray, Knob
from search_spaces.rejection_counts import ENUMERABLE, SAMPLE, FeasibilityCounts, RuleCount
from search_spaces.sampling import sample_pool
from search_spaces.space import Space


class ListedSpace(Space):
    """The listed combinations of the knobs' values and no others.

    The list is held in memory and may be evaluated whole, however many combinations there are.

    Parameters
    ----------
    knobs : iterable of Knob
    positions : integers (n, number of knobs)
        The configurations, by knob positions; repeated ones count once.
    """

    def __init__(self, knobs: Iterable[Knob], positions: npt.ArrayLike) -> None:
        super().__init__(knobs, [Constraint("listed", lambda _: True, "it is not in the list")])
        listed = np.asarray(positions, dtype=np.int64)
        rows = listed.reshape(len(listed), len(self.knobs))
        self._members = np.unique(self.indices_of(rows))
        self._members.setflags(write=False)

    def sample(self, n: int, rng: np.random.Generator, exclude: Iterable[int] = ()) -> IntArray:
        """Draw `n` different listed indices, none in `exclude`; see :meth:`Space.sample`."""
        return sample_pool(self._members, n, rng, np.fromiter(exclude, dtype=np.int64))

    def _verdicts(self, indices: IntArray) -> Verdicts:
        """Whether each index is listed, which replaces evaluating the constraint."""
        listed = np.isin(indices, self._members)
        return np.where(listed, FEASIBLE, 0).astype(np.int16)

    @cached_property
    def _whole(self) -> IntArray:
        return self._members

    def tally(self, most: int = ENUMERABLE, sample: int = SAMPLE) -> FeasibilityCounts:
        """Count the configurations of the list."""
        rejected = len(self) - len(self._members)
        rules = [RuleCount(r.name, r.message, rejected, rejected) for r in self.constraints]
        return FeasibilityCounts(len(self), len(self), len(self._members), tuple(rules))

    def _check_enumerable(self, limit: int) -> None:
        """Do nothing: a list can always be enumerated."""
