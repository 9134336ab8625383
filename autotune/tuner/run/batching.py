"""Proposes the batches of a session, and starts builds before a batch is complete."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from autotune.measure.measurer import Measurer, SupportsPrebuild
from autotune.measure.result import MeasureInput
from autotune.task.copies import Copies
from autotune.task.task import Task
from autotune.tuner.base import Tuner
from autotune.tuner.run.limits import Limits
from autotune.tuner.run.trials import Trials

# For each candidate held back, at least this number of a batch are chosen after the last results.
FRESH = 7


class BatchProposer:
    """The batches of one workload: the default configuration first, then its tuner's proposals.

    The first candidates of a batch are built while the tuner chooses the rest. For this the last
    proposals of a batch are held back for the next one (`Tuner.held_back`).

    measurer: its builders get candidates ahead, if it is `SupportsPrebuild`.
    trials: what is measured so far.
    copies: finds candidates that are not measured because another one has the same program.
    """

    def __init__(
        self,
        task: Task,
        measurer: Measurer,
        tuner: Tuner,
        trials: Trials,
        limits: Limits,
        copies: Copies | None,
    ) -> None:
        self._task = task
        self._builders = measurer if isinstance(measurer, SupportsPrebuild) else None
        # Whether candidates are built while others run: then whole batches are asked for ahead.
        self.overlap = self._builders is not None and self._builders.overlap
        self._tuner = tuner
        self._trials = trials
        self._limits = limits
        self._copies = copies
        self._default_asked = False
        self.cut_off: list[int] = []  # candidates to begin the next batch with: not measured yet
        self.next: list[int] = []  # candidates of the next batch that are chosen already
        self._held: list[MeasureInput] = []

    @property
    def left(self) -> int:
        """Number of trials that are left."""
        wanted = self._limits.trials
        return sys.maxsize if wanted is None else wanted - len(self._trials)

    def next_batch(self, most: int | None = None) -> list[int]:
        """Return the next batch; builders begin at once with its first candidates.

        most: its size; that of the limits by default.
        """
        wanted = min(self._limits.batch if most is None else most, self.left)
        first = [*self._default(), *self.cut_off, *self.next]
        self.cut_off = []
        self._build(self._legal(first))
        held_back = self._held_back(wanted)
        found = self._with_more(first, wanted + held_back)
        if held_back:  # the tuner may have proposed the default, too
            found = self._with_more(found, wanted + held_back)
        self.next = found[wanted:]
        self._held = self._legal(self.next)
        return found[:wanted]

    def propose_ahead(self, unmeasured: int) -> None:
        """Ask for the next batch while this one is measured, and start to build it."""
        wanted = min(self._limits.batch, self.left - unmeasured)
        self.next = self._tuner.ask(wanted) if wanted > 0 else []
        self._build(self._legal(self.next))

    def prebuild_held_back(self) -> None:
        """Start to build the held-back candidates, because the builders are idle."""
        self._build(self._held)

    def _default(self) -> list[int]:
        """Return the default configuration, once, unless it is measured or there is none."""
        default = self._trials.default
        if default is None or self._default_asked or self._trials.default_record:
            return []
        self._default_asked = True
        return [default]

    def _held_back(self, wanted: int) -> int:
        """Return the number of candidates to hold back of a batch; all are measured later."""
        if self._builders is None or self.overlap:
            return 0
        return min(self._tuner.held_back, wanted // (FRESH + 1), self.left - wanted)

    def _with_more(self, indices: list[int], wanted: int) -> list[int]:
        """Return some candidates, and as many of the tuner's as are missing."""
        missing = wanted - len(indices)
        asked = self._tuner.ask(missing) if missing > 0 else []
        return list(dict.fromkeys(indices + asked))

    def _legal(self, indices: Sequence[int]) -> list[MeasureInput]:
        """Return the configurations to build; none if there are no builders."""
        if self._builders is None:
            return []
        legal = [index for index in indices if not self._task.refusal(index)]
        if self._copies is not None:
            legal = [index for index in legal if self._copies.original_of(index) is None]
        return [MeasureInput(self._task.space.config(index)) for index in legal]

    def _build(self, candidates: Sequence[MeasureInput]) -> None:
        if self._builders is not None and candidates:
            self._builders.prebuild(candidates)
