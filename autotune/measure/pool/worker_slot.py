"""A slot for one worker of a workload: it replaces a worker that died or was used for long."""

from __future__ import annotations

import logging
import math
import signal
import time
from typing import Any, NamedTuple

from autotune.errors import AutotuneError, UsageError
from autotune.measure.pool.messages import Message
from autotune.measure.pool.worker_pool import (
    Outcome,
    Worker,
    WorkerDiedError,
    WorkerPool,
    WorkerTimeoutError,
)
from autotune.measure.result import MeasureError, MeasureErrorNo

_log = logging.getLogger(__name__)

# Seconds after which a warning says that a worker takes long to open the workload.
SLOW_OPEN_S = 10.0

# A builder is replaced after this many candidates, because LLVM keeps some 70 KB of each.
MAX_CANDIDATES_PER_BUILDER = 400

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)

_DEATHS = {"build": MeasureErrorNo.COMPILE_HOST, "run": MeasureErrorNo.RUNTIME_DEVICE}
_TIMEOUTS = {"build": MeasureErrorNo.BUILD_TIMEOUT, "run": MeasureErrorNo.RUN_TIMEOUT}


def killed_from_outside(outcome: Outcome) -> bool:
    """Whether a signal from outside ended it, as when memory runs out."""
    return isinstance(outcome, WorkerDiedError) and outcome.signal in _FROM_OUTSIDE


class Response(NamedTuple):
    """The operation that was requested, its outcome, and the Unix times between which it worked."""

    op: str
    outcome: Outcome
    span: tuple[float, float]

    def error(self, timeout_s: float) -> MeasureError | None:
        """Return how a candidate has failed: its own error, or the worker died or timed out."""
        if isinstance(self.outcome, Message):
            error = self.outcome.body.get("error")
            return None if error is None else MeasureError.from_json(error)
        stage = "build" if self.op == "build" else "run"
        doing = {"build": "building", "load": "making its first call"}.get(self.op, "running")
        if isinstance(self.outcome, WorkerTimeoutError):
            message = f"{doing} took longer than {timeout_s:g} s"
            return MeasureError(_TIMEOUTS[stage], stage, message)
        return MeasureError(_DEATHS[stage], stage, f"the process {self.outcome} while {doing}")


class WorkerSlot:
    """Sends requests to one worker, and counts the workers that were lost.

    pool: where workers come from.
    role: "build" or "run".
    template: of the workload, for messages.
    """

    def __init__(self, pool: WorkerPool, role: str, template: str) -> None:
        self.worker: Worker | None = None  # the present worker
        self.is_open = False  # whether the worker has opened the workload
        self.current_op: str | None = None  # the operation that is pending, if there is one
        self.request_count = 0  # number of candidates that this worker was given
        self.lost_workers = 0  # number of workers that died or had to be killed
        # Time by `time.monotonic` at which `warn_if_slow` warns, unless a response came before.
        self.warn_at = math.inf
        self._pool = pool
        self._role = role
        self._template = template
        self._since = 0.0
        self._opening_s = math.inf
        self._killed = False

    @property
    def idle(self) -> bool:
        """Whether a request can be sent to the worker."""
        return self.is_open and self.current_op is None

    def check_alive(self) -> None:
        """Discard a worker that died without a request: no candidate caused this."""
        if self.worker is not None and self.current_op is None and not self.worker.alive:
            self.discard()

    def discard(self) -> None:
        """End the worker and count it as lost."""
        self.release()
        self.lost_workers += 1

    def release(self) -> None:
        """End the worker."""
        if self.worker is not None:
            self._pool.end(self.worker)
        self.worker = self.current_op = None
        self.warn_at = math.inf
        self.is_open = False

    def open(self, body: dict[str, Any], timeout_s: float, payload: bytes = b"") -> None:
        """Start a worker and let it trace the template, or compute the right answers."""
        assert self.worker is None
        self.worker = self._pool.start(self._role)
        self.request_count = 0
        self._opening_s = timeout_s
        self.warn_at = time.monotonic() + SLOW_OPEN_S
        self._ask("open", body, timeout_s, payload)

    def warn_if_slow(self) -> None:
        """Warn, once, if the worker that opens the workload takes long."""
        if time.monotonic() >= self.warn_at:
            self.warn_at = math.inf
            what = "importing and tracing" if self._role == "build" else "the reference of"
            message = "%s template %r takes long; it is given up after %.0f s"
            _log.warning(message, what, self._template, self._opening_s)

    def ask(self, op: str, body: dict[str, Any], timeout_s: float, payload: bytes = b"") -> None:
        """Send a request about a candidate."""
        self.request_count += 1
        self._ask(op, body, timeout_s, payload)

    def _ask(self, op: str, body: dict[str, Any], timeout_s: float, payload: bytes) -> None:
        assert self.worker is not None
        self.current_op, self._since = op, time.time()
        self.worker.ask({"op": op, **body}, timeout_s, payload)

    def finish(self, outcome: Outcome) -> Response:
        """Return the response for an outcome; a worker that gave none is discarded."""
        assert self.current_op is not None
        if isinstance(outcome, Message) and "span" not in outcome.body:  # the template's own words
            outcome = WorkerDiedError("sent something else instead of an answer")
        span = (self._since, time.time())
        if isinstance(outcome, Message):
            span = tuple(outcome.body["span"])
        response = Response(self.current_op, outcome, span)
        self.current_op, self.warn_at = None, math.inf
        if not isinstance(outcome, Message):
            self.discard()
        return response

    def finish_open(self, outcome: Outcome) -> Message | None:
        """Handle the outcome of `open`; return None if it must be requested once more.

        UsageError if the workload was refused. AutotuneError if the worker died or was too slow,
        and that was not another's fault, or the second time.
        """
        outcome = self.finish(outcome).outcome
        if isinstance(outcome, Message):
            if "refused" in outcome.body:
                refused = outcome.body["refused"]
                raise UsageError(f"template {self._template!r} cannot be measured: {refused}")
            self.is_open, self._killed = True, False
            return outcome
        if isinstance(outcome, WorkerTimeoutError):
            raise AutotuneError(
                f"template {self._template!r} cannot be measured: starting, tracing it and "
                f"computing its reference took longer than {self._opening_s:.0f} s; more time, or "
                "a larger time-out for candidates, gives it more"
            )
        message = (
            f"template {self._template!r} cannot be measured: the process that started, traced it "
            f"and computed its reference failed ({outcome})"
        )
        if not killed_from_outside(outcome):
            raise AutotuneError(message)
        if self._killed:
            raise AutotuneError(f"{message}, twice")
        self._killed = True
        _log.warning("%s; it is tried once more", message)
        return None
