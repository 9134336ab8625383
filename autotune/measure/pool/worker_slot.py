"""A place for one worker of a workload: who sits there is replaced when it dies, or wears out."""

from __future__ import annotations

import logging
import math
import signal
import time
from typing import Any, NamedTuple

from autotune.errors import AutotuneError, UsageError
from autotune.measure.pool.messages import Message
from autotune.measure.pool.response_checks import misfit
from autotune.measure.pool.worker_pool import (
    Crew,
    Outcome,
    Worker,
    WorkerDiedError,
    WorkerTimeoutError,
)

_log = logging.getLogger(__name__)

SLOW_S = 10.0
"""After so long it is said what keeps a worker that opens the workload."""

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)


def killed_from_outside(outcome: Outcome) -> bool:
    """Whether a signal ended or stopped it: an administrator's, or that of too little memory."""
    return isinstance(outcome, WorkerDiedError) and outcome.signal in _FROM_OUTSIDE


class Told(NamedTuple):
    """What a worker was asked, what came of it, and the Unix times between which it was busy."""

    op: str
    outcome: Outcome
    span: tuple[float, float]


class Desk:
    """Asks one worker; keeps account of those that sat here.

    Parameters
    ----------
    crew : Crew
        Where workers come from.
    role : str
        "build" or "run".
    template : str
        Of the workload, for messages.

    Attributes
    ----------
    worker : Worker or None
        Who sits here.
    prepared : bool
        Whether it has the workload open.
    doing : str or None
        What it was asked and has not answered yet.
    asked : int
        How often it was asked for a candidate.
    lost : int
        Workers that died here or had to be killed.
    slow_at : float
        Time by `time.monotonic` at which `say_slow` has something to say, unless it answers.
    """

    def __init__(self, crew: Crew, role: str, template: str) -> None:
        self.worker: Worker | None = None
        self.prepared = False
        self.doing: str | None = None
        self.asked = 0
        self.lost = 0
        self.slow_at = math.inf
        self._crew = crew
        self._role = role
        self._template = template
        self._since = 0.0
        self._opening_s = math.inf
        self._killed = False

    @property
    def idle(self) -> bool:
        """Whether it can be asked for a candidate."""
        return self.prepared and self.doing is None

    def look(self) -> None:
        """Notice that a worker died that had nothing to do: no candidate is to blame."""
        if self.worker is not None and self.doing is None and not self.worker.alive:
            self.lose()

    def lose(self) -> None:
        """Let nobody sit here any more, as who did is of no use."""
        self.leave()
        self.lost += 1

    def leave(self) -> None:
        """Let nobody sit here."""
        if self.worker is not None:
            self._crew.end(self.worker)
        self.worker = self.doing = None
        self.slow_at = math.inf
        self.prepared = False

    def prepare(self, body: dict[str, Any], timeout_s: float, payload: bytes = b"") -> None:
        """Have a new worker import and trace the template, or draw inputs and answers."""
        assert self.worker is None
        self.worker = self._crew.start(self._role)
        self.asked = 0
        self._opening_s = timeout_s
        self.slow_at = time.monotonic() + SLOW_S
        self._ask("open", body, timeout_s, payload)

    def say_slow(self) -> None:
        """Warn, once, if the worker that opens the workload takes long."""
        if time.monotonic() >= self.slow_at:
            self.slow_at = math.inf
            what = "importing and tracing" if self._role == "build" else "the reference of"
            message = "%s template %r takes long; it is given up after %.0f s"
            _log.warning(message, what, self._template, self._opening_s)

    def ask(self, op: str, body: dict[str, Any], timeout_s: float, payload: bytes = b"") -> None:
        """Ask about a candidate."""
        self.asked += 1
        self._ask(op, body, timeout_s, payload)

    def _ask(self, op: str, body: dict[str, Any], timeout_s: float, payload: bytes) -> None:
        assert self.worker is not None
        self.doing, self._since = op, time.time()
        self.worker.ask({"op": op, **body}, timeout_s, payload)

    def take(self, outcome: Outcome) -> Told:
        """Take what came of the request; a worker that did not answer it is gone."""
        assert self.doing is not None
        if isinstance(outcome, Message):
            wrong = misfit(self._role, self.doing, outcome.body)
            if wrong is not None:
                outcome = WorkerDiedError(f"sent something else instead of an answer ({wrong!r})")
        told = Told(self.doing, outcome, (self._since, time.time()))
        self.doing, self.slow_at = None, math.inf
        if not isinstance(outcome, Message):
            self.lose()
        return told

    def take_prepared(self, outcome: Outcome) -> Message | None:
        """Take what came of preparing; None if it must be asked for once more.

        Raises
        ------
        UsageError
            If the workload was refused.
        AutotuneError
            If the worker died or was too slow, and that was not another's fault, or the second
            time.
        """
        outcome = self.take(outcome).outcome
        if isinstance(outcome, Message):
            if "refused" in outcome.body:
                refused = outcome.body["refused"]
                raise UsageError(f"template {self._template!r} cannot be measured: {refused}")
            self.prepared, self._killed = True, False
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
