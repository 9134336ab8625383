"""Measurers that users write: what they return is checked, and their errors take one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autotune.errors import AutotuneError, UsageError
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.measurer import Measurer
from autotune.measure.result import MeasureInput, MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.measure.timing_policy import TimingPolicy
from autotune.system.plugins import errors_of, find_maker, make_object, name_of
from autotune.task.task import Task

LOCAL = "local"  # Name of the measurer of this machine's devices.

#: A name, ``module:name``, ``path/to/file.py:name``, or what makes one of a task.
MeasurerChoice = str | Callable[..., Any]


def find_measurer(measurer: MeasurerChoice) -> Callable[..., Any]:
    """Return what makes a measurer; UsageError if there is none."""
    return find_maker("measurer", measurer, {LOCAL: LocalMeasurer})


class CustomMeasurer(Measurer):
    """Lets an object of a user measure.

    choice: what it is made by, called with the task, and with those of ``policy``, ``timeout_s``
        and ``seed`` that it has parameters for. It returns a `Measurer`.

    Unless it says itself on which `device` it measures, records name itself as the device, so that
    its times are not taken for times of this machine.

    UsageError if it does not return a measurer; AutotuneError, here and later, if its code fails,
    or a result is none.
    """

    def __init__(
        self, choice: MeasurerChoice, task: Task, policy: TimingPolicy, timeout_s: float, seed: int
    ) -> None:
        self._name = f"measurer {name_of(choice)!r}"
        own = make_object(
            find_measurer(choice), self._name, task, policy=policy, timeout_s=timeout_s, seed=seed
        )
        if not isinstance(own, Measurer):
            raise UsageError(f"{self._name} must make a Measurer, not {type(own).__name__}")
        self._own = own
        self.policy = self._own.policy
        self.overlap, self.reuses_code = self._own.overlap, self._own.reuses_code
        device = self._own.device or {"kind": "measurer", "name": name_of(choice)}
        if not isinstance(device, Mapping) or not {"kind", "name"} <= device.keys():
            raise UsageError(
                f"{self._name}: device must be a mapping with kind and name, not {device!r}"
            )
        self.device = device

    def start(self) -> None:
        """Let it start processes."""
        with errors_of(f"{self._name} fails at start"):
            self._own.start()

    def remember(self, result: MeasureResult) -> None:
        """Hand on a known result."""
        with errors_of(f"{self._name} fails at remember"):
            self._own.remember(result)

    def build(self, candidates: Iterable[MeasureInput]) -> None:
        """Let it begin to build candidates."""
        with errors_of(f"{self._name} fails at build"):
            self._own.build(candidates)

    def await_builds(self) -> None:
        """Wait for its first build, or for all."""
        with errors_of(f"{self._name} fails at await_builds"):
            self._own.await_builds()

    def run(self, candidate: MeasureInput) -> MeasureResult:
        """Return its result of a candidate."""
        with errors_of(f"{self._name} fails at run"):
            result = self._own.run(candidate)
        if not isinstance(result, MeasureResult):
            what = type(result).__name__
            raise AutotuneError(f"{self._name} must return a MeasureResult, not {what}")
        if not all(_is_cost(cost) for cost in result.costs_s or ()):
            raise AutotuneError(f"{self._name} returns costs that are no seconds > 0")
        return result

    def run_ahead(self, candidate: MeasureInput) -> None:
        """Let it begin to run a candidate."""
        with errors_of(f"{self._name} fails at run_ahead"):
            self._own.run_ahead(candidate)

    def ceiling(self) -> Ceiling | None:
        """Return the peak of what it measures on; None if it does not know."""
        with errors_of(f"{self._name} fails at ceiling"):
            return self._own.ceiling()

    def close(self) -> None:
        """Let it end its processes."""
        with errors_of(f"{self._name} fails at close"):
            self._own.close()


def _is_cost(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf
