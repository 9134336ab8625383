"""What a session measures next, and what builders begin with before that is complete."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from autotune.measure.result import Foreseeing, MeasureInput, Measurer
from autotune.task.task import Task
from autotune.tuner.base import Tuner
from autotune.tuner.run.limits import Limits
from autotune.tuner.run.trials import Trials

FRESH = 7
"""For each candidate held back a batch has so many, at least, that know of the latest results."""


class Supply:
    """The batches of one workload: the default configuration first, then what its tuner proposes.

    What is known to be measured is built while the tuner chooses the rest of a batch; so the last
    of its proposals are held back, to be that the next time (`Tuner.held_back`).

    Parameters
    ----------
    task : Task
    measurer : Measurer
        Whose builders are told, if it is `Foreseeing`.
    tuner : Tuner
    trials : Trials
        What is measured so far.
    limits : Limits

    Attributes
    ----------
    overlap : bool
        Whether candidates are built while others run: then whole batches are asked for ahead.
    """

    def __init__(
        self, task: Task, measurer: Measurer, tuner: Tuner, trials: Trials, limits: Limits
    ) -> None:
        self._task = task
        self._builders = measurer if isinstance(measurer, Foreseeing) else None
        self.overlap = self._builders is not None and self._builders.overlap
        self._tuner = tuner
        self._trials = trials
        self._limits = limits
        self._default_asked = False
        self._cut_off: list[int] = []
        self._foreseen: list[int] = []
        self._held: list[MeasureInput] = []

    @property
    def left(self) -> int:
        """How many trials there may still be."""
        wanted = self._limits.trials
        return sys.maxsize if wanted is None else wanted - len(self._trials)

    @property
    def foresees(self) -> bool:
        """Whether some of the next batch is chosen."""
        return bool(self._foreseen)

    def next_batch(self) -> list[int]:
        """Return what to measure next; builders begin with what is known of it at once."""
        wanted = min(self._limits.batch, self.left)
        first = [*self._default(), *self._cut_off, *self._foreseen]
        self._cut_off = []
        self._build(self._legal(first))
        held_back = self._held_back(wanted)
        found = self._with_more(first, wanted + held_back)
        if held_back:  # the tuner may have proposed the default, too
            found = self._with_more(found, wanted + held_back)
        self._foreseen = found[wanted:]
        self._held = self._legal(self._foreseen)
        return found[:wanted]

    def ask_ahead(self, unmeasured: int) -> None:
        """Ask for the next batch while some of this one are left, and have it built already."""
        wanted = min(self._limits.batch, self.left - unmeasured)
        self._foreseen = self._tuner.ask(wanted) if wanted > 0 else []
        self._build(self._legal(self._foreseen))

    def build_held(self) -> None:
        """Let builders begin with what is held back, now that they have nothing else to do."""
        self._build(self._held)

    def put_back(self, indices: Sequence[int]) -> None:
        """Take back what was not measured after all: it comes first the next time."""
        self._cut_off = list(indices)

    def _default(self) -> list[int]:
        """Return the default configuration, once, unless it is measured or there is none."""
        default = self._trials.default
        if default is None or self._default_asked or self._trials.default_record:
            return []
        self._default_asked = True
        return [default]

    def _held_back(self, wanted: int) -> int:
        """Return how many to hold back of a batch: none that would never be measured."""
        if self._builders is None or self.overlap:
            return 0
        return min(self._tuner.held_back, wanted // (FRESH + 1), self.left - wanted)

    def _with_more(self, indices: list[int], wanted: int) -> list[int]:
        """Return some candidates, and as many of the tuner's as are missing."""
        missing = wanted - len(indices)
        asked = self._tuner.ask(missing) if missing > 0 else []
        return list(dict.fromkeys(indices + asked))

    def _legal(self, indices: Sequence[int]) -> list[MeasureInput]:
        """Return what builders can be given of some configurations, if there is anything for it."""
        if self._builders is None:
            return []
        legal = [index for index in indices if not self._task.refusal(index)]
        return [MeasureInput(self._task.space.config(index)) for index in legal]

    def _build(self, candidates: Sequence[MeasureInput]) -> None:
        if self._builders is not None and candidates:
            self._builders.foresee(candidates)
