"""What a notebook shows of a run: a block of a cell's output that is renewed, and a table."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from autotune.report.display.base import Display
from autotune.report.display.panel import UNICODE, panel
from autotune.report.outcome import outcome_columns, remarks
from autotune.report.progress import RunProgress, WorkloadStatus
from autotune.system.words import printable
from autotune.tuner.run import events

BETWEEN_S = 0.25  # Seconds between two renewals at least.
_COLUMNS, _ROWS = 80, 24


def in_notebook() -> bool:
    """Whether the program is a kernel of a notebook, which displays HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def table_html(statuses: Sequence[WorkloadStatus]) -> str:
    """Return the table that a run ends with; nothing if there is nothing to compare."""
    columns = outcome_columns(statuses)
    if not columns:
        return ""
    sides = ["right" if column.right else "left" for column in columns]

    def row(tag: str, cells: Sequence[str]) -> str:
        parts = (
            f'<{tag} style="text-align: {side}">{html.escape(printable(cell))}</{tag}>'
            for side, cell in zip(sides, cells, strict=True)
        )
        return f"<tr>{''.join(parts)}</tr>"

    rows = [row("td", cells) for cells in zip(*(c.cells for c in columns), strict=True)]
    return f"<table>{row('th', [c.header for c in columns])}{''.join(rows)}</table>"


class NotebookDisplay(Display):
    """Renews a block of a cell's output as events come in, and ends with a table there.

    show: displays HTML the first time that it is called, and replaces it then.
    """

    def __init__(
        self,
        progress: RunProgress,
        show: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(progress, lambda _: None)
        self._show = show
        self._clock = clock
        self._shown_s: float | None = None

    def on_event(self, event: events.Event) -> None:
        """Renew the block, if it is old enough."""
        self._progress.take(event)
        now_s = self._clock()
        if self._shown_s is None or now_s - self._shown_s >= BETWEEN_S:
            self._shown_s = now_s
            lines = panel(self._progress, _COLUMNS, _ROWS, UNICODE)
            text = "\n".join("".join(part.text for part in line) for line in lines)
            self._show(f"<pre>{html.escape(printable_lines(text))}</pre>")

    def conclude(self) -> None:
        """Put the table of default, best and ceiling there, and what a run ends with."""
        finished = self._finished()
        said = [*remarks(finished), self._last_line()]
        lines = (f"<div>{html.escape(printable(line))}</div>" for line in said)
        self._show(f"{table_html(finished)}{''.join(lines)}")


def printable_lines(text: str) -> str:
    """Return lines without characters that steer a terminal."""
    return "\n".join(map(printable, text.split("\n")))


def show_in_cell() -> Callable[[str], None]:
    """Return what displays HTML in the output of the cell that runs, and then replaces it."""
    import IPython.display

    shown: Any = IPython.display
    handles: list[Any] = []

    def show(text: str) -> None:
        if handles:
            handles[0].update(shown.HTML(text))
        else:
            handles.append(shown.display(shown.HTML(text), display_id=True))

    return show
