"""The scheduler of one workload: builders build what is in its queue, one runner runs the results.

Builders run in parallel. A process that starts would disturb a timing, so all that are needed are
started together with the first build, and no candidate runs before they are ready.
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

from autotune.measure.pool.fork_server_client import ForkServerProcess
from autotune.measure.pool.messages import Message
from autotune.measure.pool.worker_pool import Outcome, Worker, WorkerPool
from autotune.measure.pool.worker_slot import (
    MAX_CANDIDATES_PER_BUILDER,
    Response,
    WorkerSlot,
    killed_from_outside,
)
from autotune.measure.result import MeasureInput

_log = logging.getLogger(__name__)

# Time-out of opening the workload: seconds, and a factor of a candidate's time-out.
OPEN_TIMEOUT_S, OPEN_TIMEOUT_FACTOR = 60.0, 6.0

# Least time-out, also when the run's time is over: the final comparison may need new workers.
MIN_OPEN_TIMEOUT_S = 10.0


def open_timeout_s(timeout_s: float, left_s: float | None) -> float:
    """Return how long a worker may take to open the workload: the reference is computed then.

    timeout_s: seconds that a candidate may take to build, and again to run.
    left_s: seconds that are left for the run; None for any.
    """
    most_s = max(OPEN_TIMEOUT_S, OPEN_TIMEOUT_FACTOR * timeout_s)
    return most_s if left_s is None else min(most_s, max(left_s, MIN_OPEN_TIMEOUT_S))


@dataclass(eq=False)
class Request:
    """A request to the runner."""

    response: Response | None = None  # Its response, once there is one.


@dataclass(eq=False)
class BuildJob:
    """A candidate to build."""

    candidate: MeasureInput
    # Whether it is compiled even if its code hash is known, because it is timed again.
    remeasure: bool = False
    response: Response | None = None  # The builder's response, once there is one.
    # Whether a builder was killed from outside while it built this. If so, it is built again with
    # no other candidate, so that it is clear which candidate was the cause.
    suspect: bool = False
    request: Request | None = None  # The pending request to run it.

    @property
    def built(self) -> Message:
        """The builder's message, of a job for which the builder neither died nor timed out."""
        assert self.response is not None
        assert isinstance(self.response.outcome, Message)
        return self.response.outcome

    @property
    def compiles_late(self) -> bool:
        """Whether it was built without being compiled: its first call may do so."""
        assert self.response is not None
        outcome = self.response.outcome
        return isinstance(outcome, Message) and bool(outcome.body.get("compiles_late"))

    @property
    def facts(self) -> dict[str, Any]:
        """The builder's facts about the code, as fields of a result."""
        body = self.built.body
        kernels = None if body["kernels"] is None else tuple(body["kernels"])
        return {"code_hash": body["code_hash"], "kernels": kernels}


class _Builder(WorkerSlot):
    """A slot of a builder, with its job and the number of known code hashes that it was sent.

    Only one builder is asked for a description of the workload, so that the others can begin to
    build.
    """

    job: BuildJob | None = None
    known_count: int = 0
    describes: bool = False


class Scheduler:
    """Gives candidates to worker processes, which build and run them.

    opening: template, arguments and target.
    running: what a runner needs in addition: policy and seed.
    runner: role of the runner: "run", or "gpu" if it owns a GPU.
    builders: number of builders.
    timeout_s: seconds a candidate may take to build, and again to run.
    known: code hashes of candidates that need not be compiled; the owner appends to it.
    overlap: whether candidates are built while another one runs.
    left_s: returns the seconds that are left for the run; None without a limit.
    fork_server: the fork server, if it was started before.
    name: what messages call the template; by default how workers find it.
    """

    def __init__(
        self,
        opening: Mapping[str, Any],
        running: Mapping[str, Any],
        runner: str,
        builders: int,
        timeout_s: float,
        known: Sequence[str],
        overlap: bool,
        left_s: Callable[[], float | None] = lambda: None,
        fork_server: ForkServerProcess | None = None,
        name: str = "",
    ) -> None:
        # How answers are checked: "given", "unscheduled" or "none"; None before the first runner.
        self.reference: str | None = None
        # Seconds that the last runner which knows that took to begin.
        self.opening_s: float | None = None
        self._opening = dict(opening)
        self._running = dict(running)
        self._timeout_s = timeout_s
        self._known = known
        self._overlap = overlap
        self._left_s = left_s
        self._pool = WorkerPool(fork_server)
        self._name = name or opening["template"]
        self._builders = [_Builder(self._pool, "build", self._name) for _ in range(builders)]
        self._runner = WorkerSlot(self._pool, runner, self._name)
        self._slots: list[WorkerSlot] = [*self._builders, self._runner]
        self._queue: deque[BuildJob] = deque()
        self._description: Message | None = None
        self._run_request = Request()
        self._notes: set[str] = set()
        self._checks = True

    @property
    def lost_workers(self) -> int:
        """Workers that died or had to be killed."""
        return sum(slot.lost_workers for slot in self._slots)

    def start(self) -> None:
        """Start the builders without waiting for them."""
        for builder in self._builders:
            if builder.worker is None:
                self._open_builder(builder)

    def close(self) -> None:
        """End all processes, and drop the queued builds."""
        self._pool.close()
        self._queue.clear()
        for slot in self._slots:
            slot.release()
        for builder in self._builders:
            builder.job = None

    def begin_builds(self, jobs: Iterable[BuildJob]) -> None:
        """Add jobs to the queue, and go on without waiting for anybody."""
        self._queue.extend(jobs)
        self._check_workers()
        while self._receive(0.0):
            pass
        self._dispatch()

    def build(self, jobs: Iterable[BuildJob] = ()) -> None:
        """Build some jobs and all that are in the queue; return when no worker is busy."""
        self._queue.extend(jobs)
        self._run_until(lambda: not self._queue and self._all_idle())

    def wait_for(self, job: BuildJob) -> None:
        """Return when a job is built."""
        self._run_until(lambda: job.response is not None)

    @property
    def ready(self) -> bool:
        """Whether the runner is idle."""
        return self._runner.idle

    def start_run(self, job: BuildJob) -> None:
        """Start to run a job that was built, as soon as the runner is idle.

        Without `overlap` all builders must be idle, too.
        """
        payload = job.built.payload
        if not self._checks:
            self.replace_runner(check=True)
        if not self._overlap:
            self._settle()
        if job.compiles_late:
            # Its first call has a time-out of its own, and is not timed.
            loading = self._send("load", {}, self._timeout_s, payload, self._overlap)
            if self._response(loading, self._overlap).error(self._timeout_s) is not None:
                job.request = loading
                return
            payload = b""
        request = {"incumbent_s": job.candidate.incumbent_s}
        job.request = self._send("run", request, self._timeout_s, payload, self._overlap)

    def run(self, job: BuildJob) -> Response:
        """Run a job that was built; return the response.

        After a Python callable that has failed the next job runs in a new process: it may have
        stopped anywhere, and left limits, threads or modules as no other would have.
        """
        if job.request is None:
            self.start_run(job)
        request, job.request = job.request, None
        assert request is not None
        response = self._response(request, self._overlap)
        if job.compiles_late and response.error(self._timeout_s) is not None:
            self._runner.release()
        return response

    # -- a final comparison -----------------------------------------------------------------

    @property
    def runner(self) -> Worker | None:
        """The process that runs candidates, if there is one."""
        return self._runner.worker

    def replace_runner(self, check: bool) -> None:
        """Replace the runner by a new process.

        check: whether the new runner computes the right answers, which may take long.
        """
        self._runner.release()
        self._checks = check

    def load_for_round(self, job: BuildJob) -> Response:
        """Load a job that was built into the runner and call it, for a round to time it."""
        payload = job.built.payload
        request = {"number": job.candidate.config.index}
        return self._response(self._send("enter", request, self._timeout_s, payload))

    def ask_alone(self, op: str, timeout_s: float, body: dict[str, Any] | None = None) -> Response:
        """Let the runner do "ceiling", "baseline" or "round" while all other workers are idle.

        A "round" times the loaded jobs in turns.
        """
        self._settle()
        return self._response(self._send(op, body or {}, timeout_s))

    def _send(
        self,
        op: str,
        body: dict[str, Any],
        timeout_s: float,
        payload: bytes = b"",
        builds: bool = False,
    ) -> Request:
        """Send a request to the runner, once it is idle."""
        self._run_until(lambda: self._runner.idle, builds)
        self._run_request = Request()
        self._runner.ask(op, body, timeout_s, payload)
        return self._run_request

    def _response(self, request: Request, builds: bool = False) -> Response:
        self._run_until(lambda: request.response is not None, builds)
        assert request.response is not None
        return request.response

    # -- who does what ----------------------------------------------------------------------

    def _settle(self) -> None:
        """Wait until no worker is busy; begin no further builds."""
        self._run_until(self._all_idle, builds=False)

    def _all_idle(self) -> bool:
        return not any(slot.current_op for slot in self._slots)

    def _run_until(self, done: Callable[[], bool], builds: bool = True) -> None:
        """Handle responses until `done` is true; give jobs to builders meanwhile, if `builds`."""
        while True:
            self._check_workers()
            self._dispatch(builds)
            if done():
                return
            self._receive()

    def _receive(self, until: float = math.inf) -> bool:
        """Handle one response; return False if none came in time, or one opens slowly."""
        busy = {slot.worker: slot for slot in self._slots if slot.current_op and slot.worker}
        until = min([until, *(slot.warn_at for slot in busy.values())])
        response = self._pool.next_outcome(list(busy), until)
        if response is not None:
            worker, outcome = response
            self._handle_outcome(busy[worker], outcome)
        for slot in busy.values():
            slot.warn_if_slow()
        return response is not None

    def _check_workers(self) -> None:
        """Discard idle workers that have died: no candidate caused this."""
        self._pool.refresh()
        for slot in self._slots:
            slot.check_alive()

    def _dispatch(self, builds: bool = True) -> None:
        """Open the runner once the workload is described; give jobs to idle builders."""
        if self._description is not None and self._runner.worker is None:
            request = self._request(**self._running, check=self._checks)
            self._runner.open(request, self._opening_s, self._description.payload)
        for builder in self._builders:
            waiting = builds and bool(self._queue)
            if waiting and builder.idle and builder.request_count >= MAX_CANDIDATES_PER_BUILDER:
                builder.release()
            if builder.worker is None and (waiting or self._description is None):
                self._open_builder(builder)
            if waiting and builder.idle and self._may_begin(self._queue[0]):
                self._assign(builder, self._queue.popleft())

    def _open_builder(self, builder: _Builder) -> None:
        at_it = any(other.describes for other in self._builders if other.worker is not None)
        builder.known_count, builder.describes = 0, self._description is None and not at_it
        builder.open(self._request(describe=builder.describes), self._opening_s)

    @property
    def _opening_s(self) -> float:
        return open_timeout_s(self._timeout_s, self._left_s())

    def _request(self, **more: Any) -> dict[str, Any]:
        """Return a request to open the workload."""
        # Modules imported by a template are found as in this process.
        return {**self._opening, "path": [os.path.abspath(f) for f in sys.path], **more}

    def _may_begin(self, job: BuildJob) -> bool:
        """Whether a job may be built at the same time as the present ones."""
        building = [builder.job for builder in self._builders if builder.job is not None]
        return not building or not any(other.suspect for other in (job, *building))

    def _assign(self, builder: _Builder, job: BuildJob) -> None:
        builder.job = job
        candidate = job.candidate
        request = {
            "config": candidate.config.to_json(),
            "again": job.remeasure,
            "known": self._known[builder.known_count :],
        }
        builder.known_count = len(self._known)
        builder.ask("build", request, self._timeout_s)

    def _handle_outcome(self, slot: WorkerSlot, outcome: Outcome) -> None:
        """Handle the outcome of a request."""
        if not slot.is_open:
            opened = slot.finish_open(outcome)
            if opened is not None and slot is self._runner:
                if self._checks:
                    self._handle_checks(opened.body)
                self._log_notes(opened.body["notes"])
            elif opened is not None and isinstance(slot, _Builder) and slot.describes:
                self._description = opened
        elif isinstance(slot, _Builder):
            self._handle_built(slot, slot.finish(outcome))
        else:
            self._run_request.response = slot.finish(outcome)
            if isinstance(outcome, Message) and outcome.body.get("fatal"):
                slot.discard()
            elif isinstance(outcome, Message):
                self._log_notes(outcome.body.get("notes", ()))

    def _handle_checks(self, opened: Mapping[str, Any]) -> None:
        """Handle the response of a runner that has computed the right answers; log it once."""
        if self.opening_s is None:
            for line in opened["checks"]:
                _log.info("%s", line)
        self.opening_s = opened["seconds"]
        self._set_reference(opened["reference"])

    def _log_notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            if note not in self._notes:
                self._notes.add(note)
                _log.warning("%s", note)

    def _set_reference(self, reference: str) -> None:
        if reference == "none" and self.reference is None:
            _log.warning(
                "template %r has no reference and is too large to be computed without a "
                "schedule: its answers are not checked",
                self._name,
            )
        self.reference = reference

    def _handle_built(self, builder: _Builder, response: Response) -> None:
        job, builder.job = builder.job, None
        assert job is not None
        if killed_from_outside(response.outcome) and not job.suspect:
            # Not the candidate's fault, unless it happens again: it may exhaust the memory.
            _log.warning(
                "the process %s while building; candidate %d is tried again",
                response.outcome,
                job.candidate.config.index,
            )
            job.suspect = True
            self._queue.appendleft(job)
        else:
            job.response = response
