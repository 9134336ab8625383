"""Displays of a run: a live panel on a terminal, plain lines elsewhere, or less."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Self

from autotune.report.display.base import Display
from autotune.report.display.events_json import JsonDisplay
from autotune.report.display.live_region import LiveRegion, print_above
from autotune.report.display.panel import Glyphs, StyledText, TextStyle, glyphs_for, panel
from autotune.report.outcome import LIBRARY, outcome_table, remarks
from autotune.report.progress import RunProgress, WorkloadInfo, WorkloadStatus
from autotune.report.text_tables import wrap_clauses
from autotune.report.units import time_text
from autotune.tuner.run import events

EVERY = 8  # Plain lines come at each improvement and once in 8 trials; less often after 128 trials.
PIPE_WIDTH = 80  # Columns of a table where there is no terminal.
BETWEEN_S = 0.1  # Seconds between two drawings at least: terminals take time from the kernels, too.


class View(StrEnum):
    """The output of a run."""

    PROGRESS = "progress"
    QUIET = "quiet"
    JSON_LINES = "json-lines"


class PlainDisplay(Display):
    """Prints a line at each improvement, at the last trial, and every few trials.

    write: prints a line.
    width: returns the columns of the terminal; None where there is none.
    """

    def __init__(
        self,
        progress: RunProgress,
        write: Callable[[str], None],
        width: Callable[[], int | None] = lambda: None,
    ) -> None:
        super().__init__(progress, write)
        self._width = width

    def open_job(self, job: WorkloadInfo) -> None:
        """Print the workload, the path of its log, and the size of its space."""
        super().open_job(job)
        for line in job.heading:
            self.note(line)

    def note(self, text: str) -> None:
        """Print a line, broken where a terminal ends."""
        width = self._width()
        self._write(text if width is None else wrap_clauses(text, width))

    def on_event(self, event: events.Event) -> None:
        """Print the changes of an event, if they are important enough for a line."""
        status = self._progress.take(event)
        match event:
            case events.Started() if event.recorded:
                self.note(self._line(status))
            case events.MachineKnown() if event.ceiling_s is not None:
                name = f"{event.job}: " if event.job else ""
                speed = status.job.work.speed_text(event.ceiling_s)
                line = f"{name}ceiling {time_text(event.ceiling_s)}, {speed} ({status.roof})"
                if status.library_s is not None:
                    speed = status.job.work.speed_text(status.library_s)
                    line += f"; {LIBRARY} {time_text(status.library_s)}, {speed}"
                self.note(line)
            case events.Measured() if status.improved or status.over or _milestone(status.trial):
                self.note(self._line(status))
            case events.Compared() if event.round.number == 1:
                name = f"{event.job}: " if event.job else ""
                count = len(event.round.costs_s)
                self.note(f"{name}final comparison of {count} configurations")
            case events.Noisy():
                self.note(f"noise: {', '.join(self._progress.noise_texts())}")

    def conclude(self) -> None:
        """Print the table of default, best and ceiling, and the last line."""
        finished = self._finished()
        for line in outcome_table(finished, self._width() or PIPE_WIDTH):
            self._write(line)
        for remark in remarks(finished):
            self.note(remark)
        self.note(self._last_line())

    def _line(self, status: WorkloadStatus) -> str:
        digits = 0 if status.trials is None else len(str(status.trials))
        count = status.count.rjust(2 * digits + 1)
        name = f"{status.job.label}  " if status.job.label else ""
        parts = status.parts()
        if left := self._progress.left_text():
            parts.insert(1, left)
        return f"{name}{'  '.join([count, *parts])}"


def _milestone(trial: int) -> bool:
    """Return whether a trial is worth a line by its number: eight or so per doubling."""
    return trial % max(EVERY, 1 << max(0, trial.bit_length() - 5)) == 0


class LiveDisplay(PlainDisplay):
    """Renews a panel of a few lines at the bottom of a terminal as events come in.

    Between events it does nothing at all, since a kernel may be being timed.

    write: prints a line.
    block: where the panel goes.
    clock: returns monotonic seconds.
    """

    def __init__(
        self,
        progress: RunProgress,
        write: Callable[[str], None],
        block: LiveRegion,
        glyphs: Glyphs,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(progress, write, lambda: block.size[0])
        self._block = block
        self._glyphs = glyphs
        self._clock = clock
        self._drawn_s: float | None = None
        self._around = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._around.enter_context(print_above(self._block))
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the panel; the last lines repeat its content."""
        self._block.clear()
        self._around.close()

    def note(self, text: str) -> None:
        """Print a line above the panel."""
        self._block.clear()
        super().note(text)

    def on_event(self, event: events.Event) -> None:
        """Renew the panel, at once if there is something new in it, else if it is old enough."""
        status = self._progress.take(event)
        now_s = self._clock()
        young = self._drawn_s is not None and now_s - self._drawn_s < BETWEEN_S
        if young and not (isinstance(event, events.Measured) and (status.improved or status.over)):
            return
        self._drawn_s = now_s
        if not isinstance(event, events.Finished):
            columns, rows = self._block.size
            lines = panel(self._progress, columns, rows - 1, self._glyphs)
            self._block.draw([(), *lines])  # an empty line above it

    def conclude(self) -> None:
        """Put the table of default, best and ceiling in the panel's place, and the last line."""
        self._block.clear()
        finished, width = self._finished(), self._block.size[0]
        if table := outcome_table(finished, width):
            self._write_as_it_is(
                self._block.coloured((StyledText(f"\n{table[0]}", TextStyle.LABEL),))
            )
            for row in table[1:]:
                self._write(row)
        self._write("")
        for remark in remarks(finished):
            self.note(remark)
        last = wrap_clauses(self._last_line(), width)
        self._write_as_it_is(self._block.coloured((StyledText(last, TextStyle.STRONG),)))


def make_display(view: View, progress: RunProgress, write: Callable[[str], None]) -> Display:
    """Return the display that suits a view and the standard output.

    progress: a new one.
    write: prints a line to the standard output.
    """
    if view is View.JSON_LINES:
        return JsonDisplay(progress, write)
    if view is View.QUIET:
        return Display(progress, write)
    if sys.stdout is None or not sys.stdout.isatty():
        return PlainDisplay(progress, write)
    block = LiveRegion(sys.stdout, colour=not os.environ.get("NO_COLOR"))
    if os.environ.get("TERM", "") in ("", "dumb"):
        return PlainDisplay(progress, write, lambda: block.size[0])
    return LiveDisplay(progress, write, block, glyphs_for(sys.stdout.encoding))
