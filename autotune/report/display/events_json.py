"""A run's events as lines of JSON, for scripts; docs/events.md describes them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from autotune.report.display.base import Display
from autotune.report.outcome import over_default
from autotune.report.progress import RunProgress, WorkloadInfo, WorkloadStatus
from autotune.tuner.run import events
from records import Record

VERSION = 1  # Version of the lines; it grows when a key changes its meaning or goes.


class JsonDisplay(Display):
    """Prints each event as one line of JSON, and nothing else.

    write: prints a line.
    clock: Unix time in seconds.
    """

    def __init__(
        self,
        progress: RunProgress,
        write: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(progress, write)
        self._clock = clock

    def open_job(self, job: WorkloadInfo) -> None:
        """Print "job"."""
        super().open_job(job)
        self._say(
            "job",
            job.label,
            workload=job.workload.to_json(),
            target=job.target,
            log=job.log,
            seed=job.seed,
            flops=job.work.flops,
            bytes=job.work.bytes,
            structures=job.structures,
        )

    def note(self, text: str) -> None:
        """Print "note"."""
        self._say("note", "", text=text)

    def on_event(self, event: events.Event) -> None:
        """Print an event."""
        status = self._progress.take(event)
        name, data = event_json(event, status)
        self._say(name, event.job, **data)

    def conclude(self) -> None:
        """Print "end"."""
        self._say("end", "", elapsed_s=self._progress.elapsed_s)

    def _say(self, name: str, job: str, **data: Any) -> None:
        head = {"event": name, "version": VERSION, "time": self._clock(), "job": job}
        self._write_as_it_is(json.dumps(head | data, allow_nan=False, separators=(",", ":")))


def event_json(event: events.Event, status: WorkloadStatus) -> tuple[str, dict[str, Any]]:
    """Return an event's name and the fields of its line.

    status: of the event's workload, the event taken in.
    """
    match event:
        case events.Started():
            return "started", {
                "trials": event.trials,
                "recorded": event.recorded,
                "best": _best_json(event.best, status),
                "default_cost_s": event.default_cost_s,
            }
        case events.MachineKnown():
            return "machine", {
                "peak_flops": dict(event.machine.peak_flops),
                "copy_bytes_s": event.machine.copy_bytes_s,
                "ceiling_s": event.ceiling_s,
                "ceiling_of": None if event.ceiling_s is None else status.roof,
                "library_s": event.machine.library_s,
            }
        case events.Measured():
            return "measured", {
                "trial": event.trial,
                "trials": event.trials,
                **_record_json(event.record),
                "reused": event.result.reused,
                "improved": status.improved,
                "best": _best_json(event.best, status),
                "failures": dict(status.failures),
                "expected_gain": event.expected_gain,
                "left_s": event.left_s,
            }
        case events.Noisy():
            return "noisy", {"noise": event.noise}
        case events.Compared():
            return "compared", {
                "round": event.round.number,
                "costs_s": {str(index): cost for index, cost in event.round.costs_s.items()},
                "remaining": list(event.round.remaining),
            }
        case events.Finished():
            return "finished", _summary_json(event.summary, status)


def _record_json(record: Record) -> dict[str, Any]:
    return {
        "config": record.config,
        "cost_s": record.cost_s if record.ok else None,
        "costs_s": record.costs_s and list(record.costs_s),
        "error": record.error,
        "raced": record.raced,
        "noise": record.noise,
        "build_s": record.build_s,
        "run_s": record.run_s,
        "max_error": record.to_json().get("max_error"),  # "inf" and "nan" as texts
        "kernels": record.kernels,
        "clocks": record.clocks,
    }


def _best_json(best: Record | None, status: WorkloadStatus) -> dict[str, Any] | None:
    if best is None:
        return None
    work = status.job.work
    return {
        "index": best.index,
        "cost_s": best.cost_s,
        "gflops": work.gflops(best.cost_s),
        "bytes_s": work.bytes / best.cost_s,
        "share": status.share,
    }


def _summary_json(summary: events.TuneSummary, status: WorkloadStatus) -> dict[str, Any]:
    ratio, default_s = over_default(status), summary.default_costs_s
    costs_s = None if summary.best is None else summary.best.costs_s
    return {
        "ended": str(summary.ended),
        "why": summary.why,
        "trials": summary.trials,
        "measured": summary.measured,
        "failures": dict(summary.failures),
        "refused": dict(summary.refused),
        "copies": summary.copies,
        "best": _best_json(summary.best, status),
        "config": summary.best and summary.best.config,
        "best_costs_s": costs_s and list(costs_s),
        "default_costs_s": default_s and list(default_s),
        "compared": summary.best is not None and not summary.best.is_trial,
        "over_default": None if ratio is None else ratio.value,
        "over_default_range": None if ratio is None else [ratio.low, ratio.high],
        "ceiling_s": status.ceiling_s,
        "library_s": status.library_s,
        "elapsed_s": summary.elapsed_s,
    }
