"""Drawing a run's progress: one line that renews itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from autotune.report.progress import Progress, Standing
from autotune.tuner.events import Event, Finished, Measured, Started

EVERY = 8
"""Plain lines come at each improvement and once in so many trials."""


NARROW = 72
"""Columns below which a bar would take the room of figures."""


class Display(Protocol):
    """Shows a run by its events; a context manager around the run."""

    def __enter__(self) -> Display:
        """Begin to show."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was found."""
        ...

    def on_event(self, event: Event) -> None:
        """Show what an event changed."""
        ...


class PlainDisplay:
    """Prints a line at each improvement, at the last trial, and every few trials.

    Parameters
    ----------
    progress : Progress
    write : callable
        Prints a line.
    """

    def __init__(self, progress: Progress, write: Callable[[str], None]) -> None:
        self._progress = progress
        self._write = write

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing was changed."""

    def on_event(self, event: Event) -> None:
        """Print what an event changed, if it is worth a line."""
        standing = self._progress.take(event)
        if isinstance(event, Started) and event.recorded:
            self._write(_plain_line(standing))
        elif isinstance(event, Measured):
            last = standing.trial == standing.trials
            if standing.improved or last or standing.trial % EVERY == 0:
                self._write(_plain_line(standing))


def _plain_line(standing: Standing) -> str:
    wanted = "" if standing.trials is None else f"/{standing.trials}"
    return "  ".join([f"{standing.trial:{len(wanted[1:])}}{wanted}", *standing.parts()])


class LiveDisplay:
    """Renews one line of a terminal at each event: a bar, then the same figures as plain lines.

    Between events it does nothing at all, since a kernel may be being timed.

    Parameters
    ----------
    progress : Progress
    width : int
        Columns of the terminal; a narrow one gets no bar.
    """

    def __init__(self, progress: Progress, width: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        text = TextColumn(
            "{task.fields[text]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        )
        columns: list[ProgressColumn] = [MofNCompleteColumn(), text]
        if width >= NARROW:
            columns.insert(0, BarColumn(bar_width=12))
        self._progress = progress
        self._bar = Bar(*columns, auto_refresh=False, expand=True, transient=True)
        self._line = self._bar.add_task("trials", total=None, text="starting")

    def __enter__(self) -> LiveDisplay:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the line away; what it said last is in the summary."""
        with contextlib.suppress(OSError):  # the terminal may be gone
            self._bar.stop()

    def on_event(self, event: Event) -> None:
        """Renew the line."""
        standing = self._progress.take(event)
        if isinstance(event, Finished):
            return
        self._bar.update(
            self._line,
            completed=standing.trial,
            total=standing.trials,
            text=", ".join(standing.parts()) or "measuring",
            refresh=True,
        )


def make_display(progress: Progress, write: Callable[[str], None], width: int) -> Display:
    """Return the display that suits the standard output."""
    if sys.stdout.isatty() and os.environ.get("TERM", "") not in ("", "dumb"):
        return LiveDisplay(progress, width)
    return PlainDisplay(progress, write)
