"""The result of a candidate for which a worker died or timed out."""

from __future__ import annotations

from autotune.measure.pool.worker_pool import WorkerTimeoutError
from autotune.measure.pool.worker_slot import Response
from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult

_FAILURES = {
    "build": ("building", MeasureErrorNo.COMPILE_HOST, MeasureErrorNo.BUILD_TIMEOUT),
    "run": ("running", MeasureErrorNo.RUNTIME_DEVICE, MeasureErrorNo.RUN_TIMEOUT),
}


def failure_result(response: Response, timeout_s: float) -> MeasureResult:
    """Return the result of a candidate for which a worker died or timed out."""
    stage = "build" if response.op == "build" else "run"
    doing, died, timed_out = _FAILURES[stage]
    if isinstance(response.outcome, WorkerTimeoutError):
        error = MeasureError(timed_out, stage, f"{doing} took longer than {timeout_s:g} s")
    else:
        error = MeasureError(died, stage, f"the process {response.outcome} while {doing}")
    if stage == "build":
        return MeasureResult(error=error, build_span=response.span)
    return MeasureResult(error=error, run_span=response.span)
