"""What became of a candidate at which a worker died, or took too long."""

from __future__ import annotations

from autotune.measure.pool.worker_pool import WorkerTimeoutError
from autotune.measure.pool.worker_slot import Told
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult

_ENDS = {
    "build": ("building", MeasureErrorNo.COMPILE_HOST, MeasureErrorNo.BUILD_TIMEOUT),
    "run": ("running", MeasureErrorNo.RUNTIME_DEVICE, MeasureErrorNo.RUN_TIMEOUT),
}


def ended(told: Told, timeout_s: float) -> MeasureResult:
    """Return the result of a candidate at which a worker died or took too long."""
    stage = "build" if told.op == "build" else "run"
    doing, died, timed_out = _ENDS[stage]
    if isinstance(told.outcome, WorkerTimeoutError):
        error = MeasureError(timed_out, stage, f"{doing} took longer than {timeout_s:g} s")
    else:
        error = MeasureError(died, stage, f"the process {told.outcome} while {doing}")
    if stage == "build":
        return MeasureResult(error=error, build_span=told.span)
    return MeasureResult(error=error, run_span=told.span)
