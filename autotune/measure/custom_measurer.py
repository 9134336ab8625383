"""Measurers that users write: what they return is checked, and their errors take one line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from autotune.errors import AutotuneError, UsageError
from autotune.measure.local_measurer import LocalMeasurer
from autotune.measure.measurer import Measurer, SupportsParallelRuns
from autotune.measure.result import MeasureInput, MeasureResult
from autotune.measure.roofline import Ceiling
from autotune.measure.timing_policy import TimingPolicy
from autotune.system.plugins import errors_of, find_maker, make_object, name_of
from autotune.task.task import Task

LOCAL = "local"  # Name of the measurer of this machine's devices.

#: A name, ``module:name``, ``path/to/file.py:name``, or what makes one of a task.
MeasurerChoice = str | Callable[..., Any]


def find_measurer(measurer: MeasurerChoice) -> Callable[..., Any]:
    """Return the class or function that makes a measurer; UsageError if there is none."""
    return find_maker("measurer", measurer, {LOCAL: LocalMeasurer})


class CustomMeasurer(Measurer):
    """Wraps a measurer that a user has written, and checks what it returns.

    own: the user's measurer.
    name: the name that the user chose it by, for messages and records.

    If the measurer has no `device`, its name becomes the device in records, so that its times are
    not taken for times of this machine.

    UsageError if it is not a measurer; AutotuneError, here and later, if its code fails or returns
    something else than a result.
    """

    def __init__(self, own: Measurer, name: str) -> None:
        self._name = f"measurer {name!r}"
        self._own = own
        self.policy = self._own.policy
        self.overlap, self.reuses_code = self._own.overlap, self._own.reuses_code
        device = self._own.device or {"kind": "measurer", "name": name}
        if not _is_device(device):
            raise UsageError(
                f"{self._name}: device must be a mapping with kind and name, not {device!r}"
            )
        self.device = device

    @classmethod
    def of(
        cls, choice: MeasurerChoice, task: Task, policy: TimingPolicy, timeout_s: float, seed: int
    ) -> CustomMeasurer:
        """Make an object of a user, which is one of several devices if it can `submit`.

        choice: what it is made by, called with the task, and with those of ``policy``,
            ``timeout_s`` and ``seed`` that it has parameters for. It returns a `Measurer`.
        """
        name = name_of(choice)
        what = f"measurer {name!r}"
        make = find_measurer(choice)
        own = make_object(make, what, task, policy=policy, timeout_s=timeout_s, seed=seed)
        if not isinstance(own, Measurer):
            raise UsageError(f"{what} must make a Measurer, not {type(own).__name__}")
        if isinstance(own, SupportsParallelRuns):
            return CustomParallelMeasurer(own, name)
        return cls(own, name)

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
        return self._checked(result)

    def _checked(self, result: object) -> MeasureResult:
        """Return a result; AutotuneError if it is none."""
        if not isinstance(result, MeasureResult):
            what = type(result).__name__
            raise AutotuneError(f"{self._name} must return a MeasureResult, not {what}")
        if not all(_is_cost(cost) for cost in result.costs_s or ()):
            raise AutotuneError(f"{self._name} returns costs that are no seconds > 0")
        if result.device is not None and not _is_device(result.device):
            words = f"a device must be a mapping with kind and name, not {result.device!r}"
            raise AutotuneError(f"{self._name}: {words}")
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


class CustomParallelMeasurer(CustomMeasurer):
    """Lets an object of a user measure on several devices; it is a `SupportsParallelRuns`."""

    _own: Any  # A measurer that is a `SupportsParallelRuns`.

    def __init__(self, own: Measurer, name: str) -> None:
        super().__init__(own, name)
        self._submitted: list[MeasureInput] = []

    @property
    def width(self) -> int:
        """Its devices that can measure now."""
        with errors_of(f"{self._name} fails at width"):
            width = self._own.width
        if isinstance(width, bool) or not isinstance(width, int) or width < 0:
            raise AutotuneError(f"{self._name}: width must be a number of devices, not {width!r}")
        return width

    def submit(self, candidate: MeasureInput) -> None:
        """Let it begin to build and run a candidate on any free device."""
        self._submitted.append(candidate)
        with errors_of(f"{self._name} fails at submit"):
            self._own.submit(candidate)

    def next_result(self) -> tuple[MeasureInput, MeasureResult]:
        """Wait for the next of the submitted candidates to end."""
        with errors_of(f"{self._name} fails at next_result"):
            found = self._own.next_result()
        if not isinstance(found, tuple) or len(found) != 2:
            what = type(found).__name__
            raise AutotuneError(f"{self._name} must return a candidate and its result, not {what}")
        candidate, result = found
        self._take(candidate, "returns the result of")
        return candidate, self._checked(result)

    def withdraw(self) -> list[MeasureInput]:
        """Take back the submitted candidates that it has not begun."""
        with errors_of(f"{self._name} fails at withdraw"):
            found = list(self._own.withdraw())
        for candidate in found:
            self._take(candidate, "gives back")
        return found

    def close(self) -> None:
        """Let it end its processes, and with them what was submitted."""
        self._submitted.clear()
        super().close()

    def _take(self, candidate: MeasureInput, what: str) -> None:
        """Take a candidate as ended; AutotuneError if it was not submitted, or has ended."""
        if candidate not in self._submitted:
            raise AutotuneError(f"{self._name} {what} a candidate that it does not have")
        self._submitted.remove(candidate)


def _is_device(value: object) -> bool:
    return isinstance(value, Mapping) and {"kind", "name"} <= value.keys()


def _is_cost(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf
