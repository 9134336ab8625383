"""What goes into a measurement and what comes out: costs or an error, never a number for a failure.

These are plain data, as they cross the pipe between the tuning process and its workers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from records import relative_spread
from search_spaces import Config


class MeasureErrorNo(StrEnum):
    """Why a candidate has no costs (the kinds of AutoTVM's enumeration of this name)."""

    # The template or its lowering refused the knob values.
    INSTANTIATION_ERROR = "INSTANTIATION_ERROR"
    # Compiling for the CPU failed, or the process died while building.
    COMPILE_HOST = "COMPILE_HOST"
    COMPILE_DEVICE = "COMPILE_DEVICE"  # Compiling for another device failed.
    RUNTIME_DEVICE = "RUNTIME_DEVICE"  # The kernel failed, or the process died while running it.
    WRONG_ANSWER = "WRONG_ANSWER"  # The kernel ran and computed something else than the reference.
    BUILD_TIMEOUT = "BUILD_TIMEOUT"
    RUN_TIMEOUT = "RUN_TIMEOUT"
    UNKNOWN = "UNKNOWN"  # Something in the measurer itself failed.


@dataclass(frozen=True)
class MeasureError:
    """Why a candidate has no costs."""

    code: MeasureErrorNo
    # Where it happened: "instantiate", "compile", "run" or "check"; "build" where a death or a
    # time-out leaves open which of the first two it was.
    stage: str
    message: str  # One line.

    def to_json(self) -> dict[str, str]:
        """Return the form records have: ``{"code", "stage", "message"}``."""
        return {"code": str(self.code), "stage": self.stage, "message": self.message}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MeasureError:
        """Rebuild an error from the result of `to_json`; unknown codes become UNKNOWN."""
        known = data["code"] in list(MeasureErrorNo)
        code = MeasureErrorNo(data["code"]) if known else MeasureErrorNo.UNKNOWN
        return cls(code, str(data["stage"]), str(data["message"]))


@dataclass(frozen=True)
class MeasureInput:
    """A candidate to measure; workload and target belong to the measurer."""

    config: Config
    # Seconds that the fastest candidate so far takes, which a policy with racing holds this one
    # against; None: it is timed to the end.
    incumbent_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class MeasureResult:
    """The result of one candidate: costs or an error."""

    costs_s: tuple[float, ...] | None = None  # Seconds per call, one number per repeat.
    error: MeasureError | None = None  # Exactly one of `costs_s` and `error` is given.
    # Seconds the worker spent instantiating and compiling, and checking and timing; None where it
    # did not get to an end.
    build_s: float | None = None
    run_s: float | None = None
    # Digest of the finalised code; equal for candidates that are one and the same kernel.
    code_hash: str | None = None
    # Largest absolute error of any output element (NaN or infinite included); None if unchecked.
    max_error: float | None = None
    # Whether it was clearly slower than the incumbent and so got fewer repeats than others.
    raced: bool = False
    # How noisy the machine was, as the worker's `NoiseMonitor` saw it at that time; None if it was
    # not looked at.
    noise: float | None = None
    # Resources of each GPU kernel: "name", "registers", "spill_store_bytes", "spill_load_bytes",
    # "stack_bytes", "shared_bytes"; None for other code, or if it was not compiled.
    kernels: tuple[dict[str, Any], ...] | None = None
    # A GPU's clocks in MHz when it was timed, "sm_mhz" and "memory_mhz"; None if not known.
    clocks: dict[str, int] | None = None
    # Whether the costs (or the error) come from an identical kernel measured earlier.
    reused: bool = False
    # The device, in the form of `Record.device`: "kind", "name" and so on, with "node", the name of
    # the machine. None for the device of the measurer.
    device: Mapping[str, Any] | None = None
    # Unix time in seconds when it was finished.
    timestamp: float = field(default_factory=time.time)
    # Unix times between which it was built, and checked and timed; not recorded.
    build_span: tuple[float, float] | None = None
    run_span: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if (self.costs_s is None) == (self.error is None):
            raise ValueError("a measurement has either costs or an error")
        if self.costs_s is not None and not self.costs_s:
            raise ValueError("a successful measurement has at least one cost")

    @property
    def ok(self) -> bool:
        """Whether the candidate built, ran, and computed the right answer."""
        return self.costs_s is not None

    @property
    def cost_s(self) -> float | None:
        """Median of the costs in seconds, None for a failure."""
        return None if self.costs_s is None else statistics.median(self.costs_s)

    @property
    def spread(self) -> float | None:
        """Relative spread of the costs (see `records.relative_spread`); None if there is none."""
        return None if self.costs_s is None else relative_spread(self.costs_s)

    def as_reused(
        self, build_s: float | None, build_span: tuple[float, float] | None = None
    ) -> MeasureResult:
        """Return this result for another candidate that is the same kernel."""
        return replace(
            self,
            build_s=build_s,
            run_s=None,
            reused=True,
            timestamp=time.time(),
            build_span=build_span,
            run_span=None,
        )
