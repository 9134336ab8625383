"""What all displays of a run have in common: they follow it by its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from autotune.report.outcome import last_line
from autotune.report.progress import RunProgress, WorkloadInfo, WorkloadStatus
from autotune.system.words import printable
from autotune.tuner.run.events import Event


class Display:
    """Follows a run and prints one line at its end; a context manager around the run.

    progress: a new one.
    write: prints a line.
    """

    def __init__(self, progress: RunProgress, write: Callable[[str], None]) -> None:
        self._progress = progress
        self._write_as_it_is = write

    def __enter__(self) -> Self:
        """Begin to show."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the terminal as it was found."""

    def open_job(self, job: WorkloadInfo) -> None:
        """Say which workload will be tuned; before its first event."""
        self._progress.open(job)

    def note(self, text: str) -> None:
        """Say something else in one line."""

    def on_event(self, event: Event) -> None:
        """Show the changes of an event."""
        self._progress.take(event)

    def conclude(self) -> None:
        """Print the result of the run, after the last workload is finished."""
        self._write(self._last_line())

    def _write(self, text: str) -> None:
        """Print a line whose parts may come from a log."""
        self._write_as_it_is(printable(text))

    def _last_line(self) -> str:
        progress = self._progress
        return last_line(self._finished(), progress.elapsed_s, progress.worst_noise)

    def _finished(self) -> list[WorkloadStatus]:
        statuses = self._progress.standings.values()
        return [status for status in statuses if status.summary is not None]
