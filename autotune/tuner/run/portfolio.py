"""Several workloads in one run: the next batch goes where it is expected to gain most per second.

Ansor's task scheduler (Zheng et al., OSDI 2020, section 6) gives its next unit of time to the
workload whose weighted time falls fastest, by a gradient guessed from the past. Here the cost model
says what is still to be gained, and a unit counts by the time that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.errors import AutotuneError
from autotune.tuner.run.events import Event, EventCallback, Measured, TuneSummary, ignore_event
from autotune.tuner.run.limits import Deadline
from autotune.tuner.run.session import Session

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

        For the best of random draws that is about what the next doubling will gain. It is taken
        to be one over the number of trials at least, Ansor's hope that time falls as 1/t.
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


def choose(prospects: Sequence[Prospect], turn: int) -> int:
    """Return which workload gets the next batch.

    First come those that little is known of, in turns. Then each `FAIR`-th batch goes
    to the workload that has waited longest, and the others to the one with the greatest rate.

    prospects: at least one.
    turn: batches given out so far.
    """
    everyone = range(len(prospects))
    unknown = [
        i for i in everyone if prospects[i].pace_s is None or len(prospects[i].bests_s) < INFORMED
    ]
    if unknown:
        return min(unknown, key=lambda i: (prospects[i].served, len(prospects[i].bests_s)))
    if turn % FAIR == FAIR - 1:
        return min(everyone, key=lambda i: prospects[i].served)
    return max(everyone, key=lambda i: (prospects[i].rate, -prospects[i].served))


class Portfolio:
    """Tunes several workloads, or one, until each has reached a limit.

    sessions: new ones, at least one.
    on_event: told what happens.
    deadline: when all of them end.
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        on_event: EventCallback = ignore_event,
        deadline: Deadline | None = None,
    ) -> None:
        self._sessions = list(sessions)
        self._on_event = on_event
        self._deadline = deadline or Deadline()
        self._served = dict.fromkeys(range(len(self._sessions)), -1)
        for session in self._sessions:
            session.on_event, session.stop.deadline = self._relay, self._deadline
            session.learner.at_once |= len(self._sessions) > 1

    def run(self) -> list[TuneSummary]:
        """Tune to the end; return the result of each workload.

        One of several workloads that cannot be measured is given up, and its summary says so.

        AutotuneError if the only workload cannot be measured, or one does not fit its goal.
        """
        try:
            for session in self._sessions:
                self._guarded(session, session.open)
            turn = 0
            while running := [i for i, s in enumerate(self._sessions) if s.ended is None]:
                number = running[choose([self._prospect(i) for i in running], turn)]
                self._served[number] = turn
                self._close_idle()
                self._guarded(self._sessions[number], self._sessions[number].step)
                turn += 1
        finally:
            for session in self._sessions:
                session.close()
        return [session.summary for session in self._sessions if session.summary is not None]

    def _guarded(self, session: Session, part: Callable[[], None]) -> None:
        """Do a part of a session; one of several that fails is given up."""
        try:
            part()
        except AutotuneError as error:
            if len(self._sessions) == 1:
                raise
            session.fail(error)

    def _prospect(self, number: int) -> Prospect:
        session = self._sessions[number]
        bests_s, served = session.trials.bests_s, self._served[number]
        return Prospect(session.weight, bests_s, session.learner.gain, session.pace_s, served)

    def _close_idle(self) -> None:
        """Let only the latest workloads keep their processes."""
        latest = sorted(self._served, key=lambda number: -self._served[number])
        for number in latest[MAX_OPEN:]:
            self._sessions[number].measurer.close()

    def _relay(self, event: Event) -> None:
        """Hand an event on; a measurement with the time that is left for the whole run."""
        if isinstance(event, Measured):
            event = replace(event, left_s=self._left_s())
        self._on_event(event)

    def _left_s(self) -> float | None:
        """Seconds until all limits are reached, at this pace; None if that is not known."""
        ends = [session.left_s for session in self._sessions]
        known = [end for end in ends if end is not None]
        left = [sum(known)] if len(known) == len(ends) else []
        if self._deadline.left_s is not None:
            left.append(self._deadline.left_s)
        return min(left, default=None)
