"""The builders and the runner of one workload: who is asked what, and when.

Builders work side by side. A process that starts up would spoil a timing, so those that are needed
are started as soon as there is something to build, and waited for like the builders.
"""

from __future__ import annotations

import logging
import math
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.measure.pool.fork_server_client import NurseryProcess
from autotune.measure.pool.messages import Message
from autotune.measure.pool.worker_pool import Crew, Outcome, Worker
from autotune.measure.pool.worker_slot import Desk, Told, killed_from_outside
from autotune.measure.result import MeasureInput

_log = logging.getLogger(__name__)

WORN_OUT = 400
"""Candidates after which a builder is replaced: LLVM keeps some 70 KB of each."""

OPENING_S, OPENINGS = 60.0, 6.0
"""A worker has so many seconds to open the workload, or so many times a candidate's time-out."""

LEAST_OPENING_S = 10.0
"""It has so many even if the time of the run is over: the last comparison may need new workers."""


def opening_seconds(timeout_s: float, left_s: float | None) -> float:
    """Return how long a worker may take to open the workload: the reference is computed then.

    Parameters
    ----------
    timeout_s : float
        Seconds that a candidate may take to build, and again to run.
    left_s : float or None
        Seconds that are left for the run; None for any.
    """
    most_s = max(OPENING_S, OPENINGS * timeout_s)
    return most_s if left_s is None else min(most_s, max(left_s, LEAST_OPENING_S))


@dataclass(eq=False)
class Errand:
    """Something that a runner was asked.

    Attributes
    ----------
    told : Told or None
        What it said, or how that ended.
    """

    told: Told | None = None


@dataclass(eq=False)
class Job:
    """A candidate to build.

    Attributes
    ----------
    candidate : MeasureInput
    again : bool
        Whether it is compiled even if its code hash is known: it is to be timed once more.
    told : Told or None
        What its builder said of it, or how that ended.
    taken : bool
        Whether it was given to a builder.
    suspect : bool
        Whether a builder was killed from outside at it. No other is built beside it the second
        time, so that it alone is to blame.
    errand : Errand or None
        What the runner was asked about it.
    """

    candidate: MeasureInput
    again: bool = False
    told: Told | None = None
    taken: bool = False
    suspect: bool = False
    errand: Errand | None = None


class _Builder(Desk):
    """Whose worker has a job, and knows the first few of all known code hashes.

    One was asked to describe the workload when it opened it, so that others can begin to build.
    """

    job: Job | None = None
    knows: int = 0
    describes: bool = False


class Workshop:
    """Has candidates built and run by worker processes.

    Parameters
    ----------
    opening : mapping
        Template, arguments and target.
    running : mapping
        What a runner needs besides: policy and seed.
    runner : str
        Role of the runner: "run", or "gpu" if it owns a GPU.
    builders : int
        How many may work at a time.
    timeout_s : float
        Seconds a candidate may take to build, and again to run.
    known : sequence of str
        Code hashes of candidates that need not be compiled; the owner appends to it.
    left_s : callable
        Returns how many seconds there are for all that is still to do; None for any.
    nursery : NurseryProcess, optional
        Where workers come from, if it was started before.

    Attributes
    ----------
    reference : str or None
        What answers are checked with, once there was a runner.
    opening_s : float or None
        Seconds that the last runner which knows that took to begin.
    """

    def __init__(
        self,
        opening: Mapping[str, Any],
        running: Mapping[str, Any],
        runner: str,
        builders: int,
        timeout_s: float,
        known: Sequence[str],
        left_s: Callable[[], float | None] = lambda: None,
        nursery: NurseryProcess | None = None,
    ) -> None:
        self.reference: str | None = None
        self.opening_s: float | None = None
        self._opening = dict(opening)
        self._running = dict(running)
        self._timeout_s = timeout_s
        self._known = known
        self._left_s = left_s
        self._crew = Crew(nursery)
        template = opening["template"]
        self._builders = [_Builder(self._crew, "build", template) for _ in range(builders)]
        self._runner = Desk(self._crew, runner, template)
        self._desks: list[Desk] = [*self._builders, self._runner]
        self._description: Message | None = None
        self._errand = Errand()
        self._notes: set[str] = set()
        self._checks = True

    @property
    def lost(self) -> int:
        """Workers that died or had to be killed."""
        return sum(desk.lost for desk in self._desks)

    def start(self) -> None:
        """Start the builders without waiting for them."""
        for builder in self._builders:
            if builder.worker is None:
                self._open_builder(builder)

    def close(self) -> None:
        """End all processes."""
        self._crew.close()
        for desk in self._desks:
            desk.leave()
        for builder in self._builders:
            builder.job = None

    def begin(self, jobs: Sequence[Job]) -> None:
        """Take the answers that are there, and let whoever is free begin to build jobs."""
        self._look()
        while self._hear(0.0):
            pass
        self._hand_out(jobs)

    def build(self, jobs: Sequence[Job]) -> None:
        """Have all jobs built; return when they are, and nothing else is going on."""
        self._work(
            lambda: all(job.told for job in jobs) and not any(desk.doing for desk in self._desks),
            jobs,
        )

    def build_first(self, jobs: Sequence[Job]) -> None:
        """Have jobs built; return when the first is."""
        self._work(lambda: jobs[0].told is not None, jobs)

    @property
    def ready(self) -> bool:
        """Whether the runner is there and has nothing to do."""
        return self._runner.idle

    def begin_run(self, job: Job, beside: Sequence[Job] = ()) -> None:
        """Let the runner begin with a job that was built, as soon as it is free."""
        assert job.told is not None
        assert isinstance(job.told.outcome, Message)
        body, payload = job.told.outcome
        if not self._checks:
            self.renew_runner(check=True)
        request = {"binary": body["binary"], "incumbent_s": job.candidate.incumbent_s}
        job.errand = self._send("run", request, self._timeout_s, payload, beside)

    def run(self, job: Job, beside: Sequence[Job] = ()) -> Told:
        """Have a job that was built run, and others built beside it; return what was told of it."""
        if job.errand is None:
            self.begin_run(job, beside)
        errand, job.errand = job.errand, None
        assert errand is not None
        return self._await(errand, beside)

    # -- a final comparison -----------------------------------------------------------------

    @property
    def runner(self) -> Worker | None:
        """The process that runs candidates, if there is one."""
        return self._runner.worker

    def renew_runner(self, check: bool) -> None:
        """Let another process run what comes, which has run nothing yet.

        Parameters
        ----------
        check : bool
            Whether it knows what answers are right; that may take long to compute.
        """
        self._runner.leave()
        self._checks = check

    def enter(self, job: Job) -> Told:
        """Have a job that was built loaded and called by the runner, to be timed in a round."""
        assert job.told is not None
        assert isinstance(job.told.outcome, Message)
        body, payload = job.told.outcome
        request = {"binary": body["binary"], "number": job.candidate.config.index}
        return self._await(self._send("enter", request, self._timeout_s, payload))

    def round(self, request: dict[str, Any], timeout_s: float) -> Told:
        """Have the jobs that have entered timed in turns, with nothing else going on."""
        self.build([])
        return self._await(self._send("round", request, timeout_s))

    def ceiling(self, timeout_s: float) -> Told:
        """Have a runner measure what the machine can do, with nothing else going on."""
        return self._ask_alone("ceiling", timeout_s)

    def baseline(self, timeout_s: float) -> Told:
        """Have a runner time the reference, with nothing else going on."""
        return self._ask_alone("baseline", timeout_s)

    def _ask_alone(self, op: str, timeout_s: float) -> Told:
        self.build([])
        return self._await(self._send(op, {}, timeout_s))

    def _send(
        self,
        op: str,
        body: dict[str, Any],
        timeout_s: float,
        payload: bytes = b"",
        beside: Sequence[Job] = (),
    ) -> Errand:
        """Ask the runner, once it is free."""
        self._work(lambda: self._runner.idle, beside)
        self._errand = Errand()
        self._runner.ask(op, body, timeout_s, payload)
        return self._errand

    def _await(self, errand: Errand, beside: Sequence[Job] = ()) -> Told:
        self._work(lambda: errand.told is not None, beside)
        assert errand.told is not None
        return errand.told

    # -- who does what ----------------------------------------------------------------------

    def _work(self, done: Callable[[], bool], jobs: Sequence[Job]) -> None:
        """Hand out work, and take what comes of it, until something holds."""
        while True:
            self._look()
            self._hand_out(jobs)
            if done():
                return
            self._hear()

    def _hear(self, until: float = math.inf) -> bool:
        """Take one answer; False if none has come by a time, or somebody opens for long."""
        busy = {desk.worker: desk for desk in self._desks if desk.doing and desk.worker}
        until = min([until, *(desk.slow_at for desk in busy.values())])
        told = self._crew.next_outcome(list(busy), until)
        if told is not None:
            worker, outcome = told
            self._take(busy[worker], outcome)
        for desk in busy.values():
            desk.say_slow()
        return told is not None

    def _look(self) -> None:
        """Take in who has died: they are not asked, and nobody is blamed for it."""
        self._crew.refresh()
        for desk in self._desks:
            desk.look()

    def _hand_out(self, jobs: Sequence[Job]) -> None:
        """Give work to all who could work."""
        if self._description is not None and self._runner.worker is None:
            body, payload = self._description
            request = self._request(**self._running, **body, check=self._checks)
            self._runner.prepare(request, self._opening_s, payload)
        waiting = deque(job for job in jobs if not job.taken)
        for builder in self._builders:
            if waiting and builder.idle and builder.asked >= WORN_OUT:
                builder.leave()
            if builder.worker is None and (waiting or self._description is None):
                self._open_builder(builder)
            if builder.idle and waiting and self._may_begin(waiting[0]):
                self._give(builder, waiting.popleft())

    def _open_builder(self, builder: _Builder) -> None:
        at_it = any(other.describes for other in self._builders if other.worker is not None)
        builder.knows, builder.describes = 0, self._description is None and not at_it
        builder.prepare(self._request(describe=builder.describes), self._opening_s)

    @property
    def _opening_s(self) -> float:
        return opening_seconds(self._timeout_s, self._left_s())

    def _request(self, **more: Any) -> dict[str, Any]:
        """Return a request to open the workload."""
        # Modules imported by a template are found as in this process.
        return {**self._opening, "path": [os.path.abspath(f) for f in sys.path], **more}

    def _may_begin(self, job: Job) -> bool:
        """Whether a job may be built beside those that are."""
        building = [builder.job for builder in self._builders if builder.job is not None]
        return not building or not any(other.suspect for other in (job, *building))

    def _give(self, builder: _Builder, job: Job) -> None:
        job.taken, builder.job = True, job
        candidate = job.candidate
        request = {
            "config": candidate.config.to_json(),
            "again": job.again,
            "known": self._known[builder.knows :],
        }
        builder.knows = len(self._known)
        builder.ask("build", request, self._timeout_s)

    def _take(self, desk: Desk, outcome: Outcome) -> None:
        """Take what came of something that somebody was asked."""
        if not desk.prepared:
            opened = desk.take_prepared(outcome)
            if opened is not None and desk is self._runner:
                if self._checks:
                    self._take_checks(opened.body)
                self._take_notes(opened.body["notes"])
            elif opened is not None and isinstance(desk, _Builder) and desk.describes:
                self._description = opened
        elif isinstance(desk, _Builder):
            self._take_built(desk, desk.take(outcome))
        else:
            self._errand.told = desk.take(outcome)
            if isinstance(outcome, Message) and outcome.body.get("fatal"):
                desk.lose()
            elif isinstance(outcome, Message):
                self._take_notes(outcome.body.get("notes", ()))

    def _take_checks(self, opened: Mapping[str, Any]) -> None:
        """Take what a runner says that knows what answers are right; say it once."""
        if self.opening_s is None:
            for line in opened["checks"]:
                _log.info("%s", line)
        self.opening_s = opened["seconds"]
        self._take_reference(opened["reference"])

    def _take_notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            if note not in self._notes:
                self._notes.add(note)
                _log.warning("%s", note)

    def _take_reference(self, reference: str) -> None:
        if reference == "none" and self.reference is None:
            _log.warning(
                "template %r has no reference and is too large to be computed without a "
                "schedule: its answers are not checked",
                self._opening["template"],
            )
        self.reference = reference

    def _take_built(self, builder: _Builder, told: Told) -> None:
        job, builder.job = builder.job, None
        assert job is not None
        if killed_from_outside(told.outcome) and not job.suspect:
            # Not the candidate's fault, unless it happens again: it may exhaust the memory.
            _log.warning(
                "the process %s while building; candidate %d is tried again",
                told.outcome,
                job.candidate.config.index,
            )
            job.suspect, job.taken = True, False
        else:
            job.told = told
