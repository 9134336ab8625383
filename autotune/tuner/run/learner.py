"""Runs the tuner of a session: passes results to it, and fits its models during builds.

In: results of a batch. Out: the tuner's expected gain; its models are fitted in a thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from autotune.system.interrupts import ThreadedCall
from autotune.tuner.base import Observation, Tuner
from autotune.tuner.model.transfer import TransferPrior

# How long the interpreter stays with one thread. By default it is 5 ms, which whoever hands out
# work to other processes would wait for after each message.
_SWITCH_S = 5e-4


class BackgroundTask:
    """Work that a thread does between `start` and `wait`; a context manager.

    Leaving the context waits for the thread, except at an interrupt, which ends the program.

    work: called with a function that returns whether the caller waits for the end of the work.
    in_thread: whether a thread does it; otherwise `start` does the necessary part, and a piece of
        the rest.
    """

    def __init__(
        self, work: Callable[[Callable[[], bool]], object], in_thread: bool = True
    ) -> None:
        self._work = work
        self._in_thread = in_thread
        self._waited_for = False
        self._call: ThreadedCall[object] | None = None
        self._interval_s = sys.getswitchinterval()

    def __enter__(self) -> BackgroundTask:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._waited_for = True
        if self._call is not None and (kind is None or issubclass(kind, Exception)):
            self._call.wait()
        sys.setswitchinterval(self._interval_s)
        if kind is None:
            self.wait()

    @property
    def is_running(self) -> bool:
        """Whether it has started and is not done."""
        return self._call is not None and not self._call.done

    def start(self) -> None:
        """Start the thread, unless `wait` was called before: then nothing is done."""
        if self._waited_for:
            return
        if not self._in_thread:
            answers = iter([False])
            self._work(lambda: next(answers, True))
        else:
            sys.setswitchinterval(min(_SWITCH_S, self._interval_s))
            self._call = ThreadedCall(lambda: self._work(lambda: self._waited_for))

    def wait(self) -> None:
        """Wait until it is done, if it has started; raise its exception."""
        self._waited_for = True
        if self._call is not None:
            self._call.result()


LONG_RUN = 24  # With more trials a run is long: its tuner will need everything it has.


class Learner:
    """Collects observations, and lets the tuner learn from them.

    trials_left: returns how many trials there may still be.
    at_once: whether the gain is estimated as soon as there are results, for a choice that depends
        on it; else it is estimated beside the builds.
    """

    def __init__(self, tuner: Tuner, trials_left: Callable[[], float], at_once: bool) -> None:
        # By what share of the best time the tuner expects all further measurements to better it.
        self.gain: float | None = None
        self.at_once = at_once
        # Returns what other devices have measured meanwhile, if that is worth learning.
        self.others: Callable[[], TransferPrior | None] = lambda: None
        self.learns_from_others = tuner.learns_from_others
        self.in_thread = True  # whether the tuner's work during builds is done by a thread
        # The tuner's work during the present builds.
        self.background = BackgroundTask(lambda _: None)
        self._tuner = tuner
        self._trials_left = trials_left
        self._untold: list[Observation] = []
        self._due = True
        self._preparations = tuner.preparations()

    def add(self, observation: Observation) -> None:
        """Keep an observation until the tuner learns it."""
        self._untold.append(observation)

    def learn(self, goes_on: bool) -> None:
        """Give the tuner the new results; estimate the gain if that is due and the run goes on."""
        if (prior := self.others()) is not None:
            self._tuner.transfer(prior)
        untold, self._untold = self._untold, []
        self._tuner.tell(untold)
        self._due = True
        if self.at_once and goes_on:
            self._estimate()

    def beside_builds(self, unmeasured: int) -> BackgroundTask:
        """Return the tuner's work during builds; `unmeasured` candidates of the batch are left."""
        self.background = BackgroundTask(
            lambda waited_for: self._work(unmeasured, waited_for), self.in_thread
        )
        return self.background

    def _work(self, unmeasured: int, waited_for: Callable[[], bool]) -> None:
        """Do the work that proposals after this batch will need."""
        self._estimate()
        if self._trials_left() > unmeasured:
            self._tuner.think()
        while self._trials_left() > LONG_RUN and not waited_for():
            if next(self._preparations, self) is self:
                break

    def _estimate(self) -> None:
        """Ask the tuner for the expected gain, once after each batch of results."""
        if self._due:
            self._due = False
            self.gain = self._tuner.expected_gain()
