"""A builder that is alone: it builds candidates of one workload for runners elsewhere.

Crashes and time-outs of candidates are those of `autotune.measure.scheduler`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from autotune.measure.pool.worker_pool import WorkerPool
from autotune.measure.pool.worker_slot import (
    MAX_CANDIDATES_PER_BUILDER,
    Response,
    WorkerSlot,
    killed_from_outside,
)


class SingleBuilder:
    """A supervised process that compiles candidates, one at a time, and runs nothing.

    opening: template, arguments and target, as `worker.requested_task` reads them, and what
        `worker.Builder` needs in addition.
    timeout_s: seconds a candidate may take to build.
    opening_s: seconds that the process may take to start and to trace the template.
    """

    def __init__(self, opening: Mapping[str, Any], timeout_s: float, opening_s: float) -> None:
        path = [os.path.abspath(folder) for folder in sys.path]
        self._opening = {**opening, "path": path, "describe": False}
        self._timeout_s = timeout_s
        self._opening_s = opening_s
        self._pool = WorkerPool()
        self._slot = WorkerSlot(self._pool, "build", opening["template"])

    def build(self, config: Mapping[str, Any]) -> Response:
        """Return the builder's response: machine code, or how the candidate or the process failed.

        config: a configuration, as records have it.

        UsageError if the template cannot be used at all. AutotuneError if no process can begin.
        """
        try:
            response = self._build(config)
            if killed_from_outside(response.outcome):
                # Not the candidate's fault, unless it happens again: it may exhaust the memory.
                response = self._build(config)
        except BaseException:
            self.close()  # a late answer is none to a later request
            raise
        return response

    def close(self) -> None:
        """End the process."""
        self._pool.close()
        self._slot.release()

    def _build(self, config: Mapping[str, Any]) -> Response:
        self._pool.refresh()
        self._slot.check_alive()
        if self._slot.request_count >= MAX_CANDIDATES_PER_BUILDER:
            self._slot.release()
        while not self._slot.is_open:
            if self._slot.worker is None:
                self._slot.open(self._opening, self._opening_s)
            self._slot.finish_open(self._outcome())
        request = {"config": config, "again": True, "known": []}
        self._slot.ask("build", request, self._timeout_s)
        return self._slot.finish(self._outcome())

    def _outcome(self) -> Any:
        worker = self._slot.worker
        assert worker is not None
        found = self._pool.next_outcome([worker])
        assert found is not None
        return found[1]
