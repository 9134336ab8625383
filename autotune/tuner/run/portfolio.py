"""Several workloads in one run: the next batch goes where it is expected to gain most per second.

Ansor's task scheduler (Zheng et al., OSDI 2020, section 6) gives its next unit of time to the
workload whose weighted time falls fastest, by a gradient guessed from the past. Here the cost model
says what is still to be gained, and a unit counts by the time that it takes.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotune.errors import AutotuneError
from autotune.tuner.run.events import Event, EventCallback, Measured, TuneSummary, ignore_event
from autotune.tuner.run.limits import Deadline
from autotune.tuner.run.session import Session
from records.storage.shared_journal import SharedJournal

# One in this many batches goes to the workload that has waited longest: guesses may be wrong.
FAIR = 4

INFORMED = 16  # Trials below which a workload comes before all guessing.
MAX_OPEN = 4  # Workloads that may keep worker processes at the same time.


@dataclass(frozen=True)
class Prospect:
    """The facts that decide which workload is next."""

    weight: float  # How much its time matters.
    # The best time after each trial, in seconds; None before the first that worked.
    bests_s: Sequence[float | None]
    # By what share of the best time the tuner expects all further trials to better it; None if it
    # cannot tell.
    gain: float | None
    pace_s: float | None  # Seconds that a trial takes; None if none was made in this run.
    served: int  # Number of the batch that it got last; -1 if none.

    @property
    def expected_gain(self) -> float:
        """The tuner's estimate; without one, the gain of the latest doubling of the trials.

        For the best of random draws that is about the gain of the next doubling. It is at least one
        over the number of trials, by Ansor's assumption that the time falls as 1/t.
        """
        if self.gain is not None:
            return self.gain
        trials = len(self.bests_s)
        now, before = self.bests_s[-1], self.bests_s[trials // 2 - 1]
        if now is None:
            return 0.0
        return max(1.0 / trials, 1.0 if before is None else 1.0 - now / before)

    @property
    def rate(self) -> float:
        """Weighted seconds of kernel time expected to be gained per second of tuning.

        weight * best time * expected gain / seconds per trial; 0 if nothing has worked.
        """
        best_s = self.bests_s[-1]
        if best_s is None or self.pace_s is None:
            return 0.0
        return self.weight * best_s * self.expected_gain / max(self.pace_s, 1e-9)


class Turns:
    """Says which workload gets the next batch, among ever so many in about the same time.

    First come those that little is known of, in turns. Then each `FAIR`-th batch goes
    to the workload that has waited longest, and the others to the one with the greatest rate.

    prospects: of all workloads.
    """

    def __init__(self, prospects: Sequence[Prospect | None]) -> None:
        # Workloads by the three rules, the next one first. An entry that is older than the latest
        # change of its workload does not count. Each ends in the workload and its change.
        self._unknown: list[tuple[float, ...]] = []
        self._waiting: list[tuple[float, ...]] = []
        self._rates: list[tuple[float, ...]] = []
        self._changes = [0] * len(prospects)
        for number, prospect in enumerate(prospects):
            self.update(number, prospect)

    def update(self, number: int, prospect: Prospect | None) -> None:
        """Take in what is known now of a workload; None: it has ended."""
        self._changes[number] += 1
        if prospect is None:
            return
        own, served = (number, self._changes[number]), prospect.served
        if prospect.pace_s is None or len(prospect.bests_s) < INFORMED:
            heapq.heappush(self._unknown, (served, len(prospect.bests_s), *own))
        else:
            heapq.heappush(self._waiting, (served, *own))
            heapq.heappush(self._rates, (-prospect.rate, served, *own))

    def next(self, turn: int) -> int | None:
        """Return the workload that gets the next batch; None if all have ended.

        turn: batches given out so far.
        """
        by_rule = self._waiting if turn % FAIR == FAIR - 1 else self._rates
        for entries in (self._unknown, by_rule):
            while entries:
                *_, number, change = entries[0]
                if self._changes[int(number)] == change:
                    return int(number)
                heapq.heappop(entries)
        return None


class TimeLeft:
    """The time until all of several workloads are done, of which one changes at a time.

    count: number of workloads.
    """

    def __init__(self, count: int) -> None:
        self._left_ns: list[int | None] = [None] * count
        self._unknown = count
        self._sum_ns = 0  # of those that are known; integers add up exactly

    def update(self, number: int, left_s: float | None) -> None:
        """Take in how many seconds a workload needs; None if that is not known."""
        old, new = self._left_ns[number], None if left_s is None else round(1e9 * left_s)
        self._left_ns[number] = new
        self._unknown += (new is None) - (old is None)
        self._sum_ns += (new or 0) - (old or 0)

    @property
    def seconds(self) -> float | None:
        """Seconds until all are done; None if that is not known."""
        return None if self._unknown else self._sum_ns / 1e9


class Portfolio:
    """Tunes several workloads, or one, until each has reached a limit.

    What is done in a turn does not grow with the number of workloads, and those with one log read
    it once.

    sessions: new ones, at least one.
    on_event: told what happens.
    deadline: when all of them end.
    is_whole: whether these are all workloads of the run.
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        on_event: EventCallback = ignore_event,
        deadline: Deadline | None = None,
        is_whole: bool = True,
    ) -> None:
        self._sessions = list(sessions)
        self._on_event = on_event
        self._deadline = deadline or Deadline()
        self._is_alone = is_whole and len(self._sessions) == 1
        self._served = [-1] * len(self._sessions)
        self._left = TimeLeft(len(self._sessions))
        # Those that may keep their processes, the latest first.
        self._latest = list(range(len(self._sessions)))
        self._before: int | None = None  # the one that got the turn before
        for number, session in enumerate(self._sessions):
            session.on_event = functools.partial(self._relay, number)
            session.stop.deadline = self._deadline
            session.learner.at_once |= len(self._sessions) > 1
        _share_logs(self._sessions)

    def run(self) -> list[TuneSummary]:
        """Tune to the end; return the result of each workload.

        One of several workloads that cannot be measured is given up, and its summary says so.

        AutotuneError if the only workload cannot be measured, or one does not fit its goal.
        """
        try:
            for session in self._sessions:
                self._guarded(session, session.open)
            turns, turn = Turns([self._prospect(i) for i in range(len(self._sessions))]), 0
            while (number := turns.next(turn)) is not None:
                self._served[number] = turn
                for changed in self._give_turn(number):
                    turns.update(changed, self._prospect(changed))
                turn += 1
        finally:
            for session in self._sessions:
                session.close()
        return [session.summary for session in self._sessions if session.summary is not None]

    def _give_turn(self, number: int) -> set[int]:
        """Measure a batch of a workload; return which workloads have changed.

        With several devices, each begins with this workload as soon as it has nothing left to do
        for the previous one.
        """
        session, changed = self._sessions[number], {number}
        if self._before is not None and self._before != number:
            before = self._sessions[self._before]
            self._guarded(session, session.begin)
            if before.ended is None:
                changed.add(self._before)
                self._guarded(before, before.settle)
        self._before = number
        self._close_idle(number)
        if session.ended is None:
            self._guarded(session, session.step)
        return changed

    def _guarded(self, session: Session, part: Callable[[], None]) -> None:
        """Do a part of a session; one of several that fails is given up."""
        try:
            part()
        except AutotuneError as error:
            if self._is_alone:
                raise
            session.fail(error)

    def _prospect(self, number: int) -> Prospect | None:
        """Return what is known of a workload; None if it has ended."""
        session = self._sessions[number]
        if session.ended is not None:
            return None
        bests_s, served = session.trials.bests_s, self._served[number]
        return Prospect(session.weight, bests_s, session.learner.gain, session.pace_s, served)

    def _close_idle(self, number: int) -> None:
        """Let only the latest workloads keep their processes; one of them gets a turn now."""
        if number in self._latest:  # of few, but in the first turn
            self._latest.remove(number)
        self._latest.insert(0, number)
        for idle in self._latest[MAX_OPEN:]:
            self._sessions[idle].measurer.close()
        del self._latest[MAX_OPEN:]

    def _relay(self, number: int, event: Event) -> None:
        """Hand an event of a workload on; a measurement with the time left for the whole run."""
        self._left.update(number, self._sessions[number].left_s)
        if isinstance(event, Measured):
            event = replace(event, left_s=self._left_s())
        self._on_event(event)

    def _left_s(self) -> float | None:
        """Seconds until all limits are reached, at this pace; None if that is not known."""
        ends = (self._left.seconds, self._deadline.left_s)
        return min((end for end in ends if end is not None), default=None)


def _share_logs(sessions: Sequence[Session]) -> None:
    """Let workloads with the same log read it once."""
    by_log: dict[Path, list[Session]] = {}
    for session in sessions:
        by_log.setdefault(session.trials.store.path, []).append(session)
    for several in by_log.values():
        if len(several) > 1:
            journal = SharedJournal(several[0].trials.store)
            for session in several:
                session.trials.share(journal)
