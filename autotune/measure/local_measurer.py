"""Measures candidates on this machine, in worker processes that a candidate may crash or hang.

On a CPU nothing is built while a candidate runs: it would disturb the timing.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotune.errors import AutotuneError, UsageError
from autotune.measure.comparison_rounds import Rounds
from autotune.measure.measurer import Measurer
from autotune.measure.pool.fork_server_client import ForkServerProcess
from autotune.measure.pool.messages import BYTES_AS_TEXT, Message
from autotune.measure.pool.worker_slot import Response, killed_from_outside
from autotune.measure.result import MeasureInput, MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.measure.scheduler import BuildJob, Scheduler, open_timeout_s
from autotune.measure.timing_policy import TimingPolicy
from autotune.runtime.backends import backend_of
from autotune.runtime.object_cache import default_cache
from autotune.system.available_cpus import thread_count
from autotune.target import Target
from search_spaces import Config

_log = logging.getLogger(__name__)

MAX_BUILDERS = 4

MAX_GPU_BUILDERS = 8  # Largest number of builders for a GPU, which is always slower than they are.

CEILING_TIMEOUT_S = 60.0

# Assumed seconds for processes to start, import everything and trace the template.
STARTING_S = 1.5


class LocalMeasurer(Measurer):
    """Builds, checks and times candidates of one workload in worker processes.

    A context manager; `close` leaves no process and no file behind.

    `template`: reference of the template: a name, ``path/to/file.py:function`` or
    ``path/to/file.tile``.
    `args`: its arguments.
    `policy`: how candidates are timed.
    `timeout_s`: seconds a candidate may take to build, and again to run.
    `seed`: seed of the inputs, >= 0.
    `builders`: processes that build at a time; by default one for each CPU, at most four, and for a
    GPU one less, at most eight.
    `overlap`: whether candidates are built while others run: for devices that builders do not use.
    By default on GPUs.
    `left_s`: returns the seconds that are left for the run, None without a limit: the template's
    reference gets no more (but at least ten seconds).
    `fork_server`: the fork server of the workers, if it was started before; `close` ends it.
    `text`: text of the template's file for the workers, because the file may be edited during the
    run; by default they read the file.
    `constant`: positions of the inputs that do not change: what depends on these alone is computed
    before a candidate is timed.
    `name`: what messages call the template, whose reference may be of a file that is only a text;
    by default its reference.

    Raises TargetError if the target asks for a GPU that cannot be used.
    """

    reuses_code = True

    def __init__(
        self,
        template: str,
        args: Mapping[str, Any],
        target: str | Target,
        policy: TimingPolicy | None = None,
        timeout_s: float = 10.0,
        seed: int = 0,
        builders: int | None = None,
        overlap: bool | None = None,
        left_s: Callable[[], float | None] = lambda: None,
        fork_server: ForkServerProcess | None = None,
        text: bytes | None = None,
        constant: Sequence[int] = (),
        name: str = "",
    ) -> None:
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise UsageError(f"a time-out must be a number of seconds > 0, not {timeout_s}")
        if builders is not None and builders < 1:
            raise UsageError(f"there must be at least 1 builder, not {builders}")
        target = Target.of(target)
        apart = not target.on_cpu  # whether the device is another one than that of the builders
        arch = backend_of(target).facts(target)["arch"] if apart else None
        self.policy = policy or TimingPolicy()
        self.timeout_s = timeout_s
        self.overlap = apart if overlap is None else overlap
        self._on_gpu = apart
        self._results: dict[str, MeasureResult] = {}
        self._known: list[str] = []  # their keys, in order
        self._jobs: dict[int, BuildJob] = {}  # that have not run, by configuration
        self._scheduler = Scheduler(
            {
                "template": template,
                "text": None if text is None else text.decode(BYTES_AS_TEXT),
                "args": dict(args),
                "constant": list(constant),
                "target": str(target),
                "arch": arch,
            },
            {"policy": self.policy.to_json(), "seed": seed},
            "gpu" if apart else "run",
            builders or _builder_count(apart),
            timeout_s,
            self._known,
            self.overlap,
            left_s,
            fork_server,
            name,
        )
        self._rounds = Rounds(self._scheduler, timeout_s)

    @property
    def reference(self) -> str | None:
        """The kind of reference: "given", "unscheduled" or "none"; None if not known yet.

        It is known from the first measurement on.
        """
        return self._scheduler.reference

    @property
    def restarts(self) -> int:
        """Workers lost so far."""
        return self._scheduler.lost_workers

    def start(self) -> None:
        """Start workers without waiting for them; `build` does so by itself."""
        default_cache().check_folder()  # the workers' messages about it are ignored
        self._scheduler.start()

    def close(self) -> None:
        """End the workers. The measurer can still be used: it would start new ones."""
        self._jobs = {}
        self._rounds.forget()
        self._scheduler.close()

    def remember(self, result: MeasureResult) -> None:
        """Reuse this result for candidates with the same code hash: they are not measured."""
        if result.code_hash is not None and result.code_hash not in self._results:
            self._results[result.code_hash] = result
            self._known.append(result.code_hash)

    def ceiling(self) -> Ceiling:
        """Measure the machine's peak for work of this kind and size.

        UsageError if the template or its reference cannot be used at all. AutotuneError if no
        worker can do so.
        """
        response = self._scheduler.ask_alone("ceiling", CEILING_TIMEOUT_S)
        return Ceiling.from_json(_response_body(response, "the machine's ceiling")["ceiling"])

    def baseline(self) -> tuple[float, ...] | None:
        """Time the template's reference on the same inputs, as candidates are timed.

        Returns the seconds per call, one number per repeat; None if there is no reference.

        Raises UsageError if the template or its reference cannot be used at all. Raises
        AutotuneError if it cannot be timed.
        """
        response = self._scheduler.ask_alone("baseline", open_timeout_s(self.timeout_s, None))
        costs_s = _response_body(response, "the reference")["baseline"]
        return None if costs_s is None else tuple(costs_s)

    def build(self, candidates: Iterable[MeasureInput]) -> None:
        """Give candidates to the builders, without waiting.

        UsageError if the template or its reference cannot be used at all. AutotuneError if no
        worker can be started.
        """
        with self._closed_on_error():
            self._scheduler.begin_builds(self._new_jobs(candidates))

    # As `SupportsPrebuild` has it; without `overlap` these builds end before anything runs.
    prebuild = build

    def give(self, candidate: MeasureInput, response: Response, for_rounds: bool = False) -> None:
        """Take a candidate that was built elsewhere for this machine: it is not built here.

        for_rounds: whether rounds of a final comparison time it; otherwise `run` does.
        """
        job = BuildJob(candidate, remeasure=for_rounds, response=response)
        if for_rounds:
            self._rounds.give(job)
        else:
            self._jobs[candidate.config.index] = job

    def await_builds(self) -> None:
        """Wait until the first candidate is built; without `overlap`, until all are.

        UsageError, AutotuneError as in `build`.
        """
        with self._closed_on_error():
            if not self.overlap:
                self._scheduler.build()
            elif self._jobs:
                self._scheduler.wait_for(next(iter(self._jobs.values())))

    def run(self, candidate: MeasureInput) -> MeasureResult:
        """Return the result of a candidate, which is built, checked and timed where needed.

        A candidate that is the same kernel as an earlier one gets that one's result.

        UsageError, AutotuneError as in `build`.
        """
        with self._closed_on_error():
            self._scheduler.begin_builds(self._new_jobs([candidate]))
            job = self._jobs.pop(candidate.config.index)
            self._scheduler.wait_for(job)
            return self._result(job)

    def run_ahead(self, candidate: MeasureInput) -> None:
        """Begin to run a candidate (`Measurer.run_ahead`)."""
        job = self._jobs.get(candidate.config.index)
        if self.overlap and job is not None:
            with self._closed_on_error():
                self._scheduler.begin_builds([])  # handles responses
                if job.response is not None and self._scheduler.ready and self._must_run(job):
                    self._scheduler.start_run(job)

    @property
    def opening_s(self) -> float | None:
        """Seconds that the last runner took to draw inputs and compute the right answers."""
        return self._scheduler.opening_s

    @property
    def starting_s(self) -> float:
        """Seconds to start processes, if all have ended."""
        return 0.0 if self._scheduler.runner else STARTING_S

    @property
    def built(self) -> Collection[int]:
        """Configurations that a comparison need not build again."""
        return self._rounds.built

    def compare(
        self, configs: Sequence[Config], seconds: float, seed: int, fresh: bool, check: bool
    ) -> list[dict[int, MeasureResult]]:
        """Time candidates in turns (see `SupportsComparison`).

        UsageError if the template or its reference cannot be used at all. AutotuneError if no
        worker can measure the first candidate.
        """
        with self._closed_on_error():
            fresh = fresh and not self._on_gpu
            return [self._rounds.compare(configs, seconds, seed, fresh, check)]

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        """End the workers at an error: a late answer is none to a later request."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _new_jobs(self, candidates: Iterable[MeasureInput]) -> Iterator[BuildJob]:
        """Yield the jobs of candidates that the builders do not have yet."""
        for candidate in candidates:
            job = self._jobs.get(candidate.config.index)
            if job is None:
                job = self._jobs[candidate.config.index] = BuildJob(candidate)
                yield job
            job.candidate = candidate

    def _must_run(self, job: BuildJob) -> bool:
        """Whether a job was built, and is not a kernel whose result is known."""
        assert job.response is not None
        failed = job.response.error(self.timeout_s) is not None
        return not failed and job.facts["code_hash"] not in self._results

    def _result(self, job: BuildJob) -> MeasureResult:
        """Return the result of a candidate that was built; run it, unless that is known."""
        assert job.response is not None
        error, span = job.response.error(self.timeout_s), job.response.span
        if error is not None:
            return MeasureResult(error=error, build_span=span)
        build_s = job.built.body["seconds"]
        known = self._results.get(job.facts["code_hash"])
        if known is not None:
            return known.as_reused(build_s, span)
        result = replace(self._run(job), build_s=build_s, build_span=span, **job.facts)
        self.remember(result)
        if result.cost_s is not None:
            self._rounds.keep(job, result.cost_s)
        return result

    def _run(self, job: BuildJob) -> MeasureResult:
        response = self._scheduler.run(job)
        if killed_from_outside(response.outcome):
            # Not the candidate's fault, unless it happens again: it may exhaust the memory.
            index = job.candidate.config.index
            _log.warning("the runner %s; candidate %d is run again", response.outcome, index)
            response = self._scheduler.run(job)
        answer = response.outcome.body if isinstance(response.outcome, Message) else {}
        costs_s = answer.get("costs_s")
        return MeasureResult(
            costs_s=None if costs_s is None else tuple(costs_s),
            error=response.error(self.timeout_s),
            max_error=answer.get("max_error"),
            raced=answer.get("raced", False),
            noise=answer.get("noise"),
            clocks=answer.get("clocks"),
            run_s=answer.get("seconds"),
            run_span=response.span,
        )


def _builder_count(on_gpu: bool) -> int:
    """Return the number of builders; the runner of a GPU keeps one processor busy."""
    count = thread_count()
    return min(max(count - 1, 1), MAX_GPU_BUILDERS) if on_gpu else min(count, MAX_BUILDERS)


def _response_body(response: Response, what: str) -> Mapping[str, Any]:
    """Return the body of a runner's response; raise AutotuneError if there is none."""
    if not isinstance(response.outcome, Message):
        raise AutotuneError(f"{what} was not measured: {response.outcome}")
    answer = response.outcome.body
    if "error" in answer:
        raise AutotuneError(f"{what} was not measured: {answer['error']['message']}")
    return answer
