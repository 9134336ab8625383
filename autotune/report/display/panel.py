"""The live panel of a run: a few lines of text and bars, as plain data.

One bar shows the progress of the run, the other the best speed as a share of the machine's peak.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from autotune.report.progress import RunProgress, WorkloadStatus, kinds_text
from autotune.report.ratio import Ratio
from autotune.report.text_tables import TableColumn, cells_of, cut, fitted
from autotune.report.units import duration_text, percent_text, time_text

BAR = 32  # Cells of a bar where there is room.

_MIN_BAR = 6
_STEP = 6
_MARGIN = 2


class TextStyle(StrEnum):
    """The style of a piece of text."""

    PLAIN = "plain"
    LABEL = "label"
    STRONG = "strong"
    DONE = "done"
    GOOD = "good"
    REST = "rest"
    BAD = "bad"


@dataclass(frozen=True)
class StyledText:
    """Some text of one look."""

    text: str
    tone: TextStyle = TextStyle.PLAIN


Line = tuple[StyledText, ...]


@dataclass(frozen=True)
class Glyphs:
    """Characters to draw with."""

    # A cell of a bar.
    full: str
    rest: str
    # The same with a mark on it.
    full_mark: str
    rest_mark: str
    levels: str  # Cells of a column chart, the lowest first.
    failed: str  # A failure in such a chart.
    here: str  # Marks the workload that is measured.
    more: str  # Ends a text that was cut off.


UNICODE = Glyphs("━", "─", "╋", "┼", "▁▂▃▄▅▆▇█", "x", "▸", "…")
ASCII = Glyphs("=", "-", "|", "|", "_.:-=+*#", "x", ">", "~")


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return the characters that an encoding has."""
    try:
        "".join(vars(UNICODE).values()).encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return UNICODE


def panel(progress: RunProgress, width: int, height: int, glyphs: Glyphs = UNICODE) -> list[Line]:
    """Return where a run stands, in lines of at most `width` columns.

    width, height: of the terminal; of a run of many workloads only as many are shown as there is
        room for.
    """
    statuses = list(progress.standings.values())
    if len(statuses) == 1:
        rows = _one(progress, statuses[0])
        lines = _laid_out(rows, width, glyphs)
    else:
        rows = _several(progress)
        lines = [*_laid_out(rows[:1], width, glyphs), ()]
        room = height - 1 - len(rows) - 2
        lines += _jobs(progress, statuses, width, max(1, room), glyphs)
        lines += _laid_out(rows[1:], width, glyphs)
    return [_cut(line, width, glyphs) for line in lines[: max(1, height - 1)]]


@dataclass(frozen=True)
class _Row:
    """A label, a bar if there is one, and texts, the last ones expendable.

    The bar is full to a share from 0 to 1, and may have a mark at another one.
    """

    label: str
    texts: Sequence[str]
    share: float | None = None
    mark: float | None = None
    tone: TextStyle = TextStyle.PLAIN
    recent: Sequence[float | None] = ()


def _one(progress: RunProgress, status: WorkloadStatus) -> list[_Row]:
    rows = [_far(progress, status.count)]
    if status.best is not None:
        speed = [status.share_text or status.speed]
        rows.append(_Row("speed", speed, status.share, _default_share(status), TextStyle.GOOD))
        best = [time_text(status.best.cost_s)]
        if status.share is not None:
            best.append(status.speed)
        if status.best_is_default:
            best.append("the default")
        elif ratio := Ratio.of(status.best.costs_s, status.default_s):
            best.append(ratio.short("the default"))
        best.append(f"config {status.best.index}")
        if status.best_trial:
            best.append(f"trial {status.best_trial}")
        rows.append(_Row("best", best, tone=TextStyle.STRONG))
    if status.round is not None:
        left = len(status.round.remaining)
        rows.append(_Row("finals", [f"round {status.round.number}", f"{left} still compared"]))
    elif status.gain is not None and not status.over:
        rows.append(_Row("to gain", [f"{percent_text(status.gain)} expected of going on"]))
    if status.recent:
        rows.append(_Row("recent", [], recent=status.recent))
    return rows + _troubles(progress)


def _far(progress: RunProgress, count: str) -> _Row:
    """Return the row that says how far the run is."""
    time = progress.left_text() or f"after {duration_text(progress.elapsed_s)}"
    return _Row("trials", [count, time], progress.done_share, tone=TextStyle.DONE)


def _default_share(status: WorkloadStatus) -> float | None:
    if status.default_s is None or status.ceiling_s is None:
        return None
    return status.ceiling_s / statistics.median(status.default_s)


def _several(progress: RunProgress) -> list[_Row]:
    statuses = progress.standings.values()
    done = sum(status.trial for status in statuses)
    wanted = [status.trials for status in statuses if status.trials is not None]
    total = f"/{sum(wanted)}" if len(wanted) == len(progress.standings) else ""
    return [_far(progress, f"{done}{total}"), *_troubles(progress)]


def _troubles(progress: RunProgress) -> list[_Row]:
    rows = []
    failures = progress.failures
    if failures:
        total = f"{sum(failures.values())}: " if len(failures) > 1 else ""
        rows.append(_Row("failed", [total + kinds_text(failures)], tone=TextStyle.BAD))
    if texts := progress.noise_texts():
        rows.append(_Row("noise", texts, tone=TextStyle.BAD))
    return rows


def _laid_out(rows: Sequence[_Row], width: int, glyphs: Glyphs) -> list[Line]:
    """Align labels, and bars of one length."""
    wide = width >= 60
    margin = " " * (_MARGIN if wide else 0)
    label_width = 9 if wide else 8
    room = width - len(margin) - label_width
    shown = {row.label: _joined(row.texts, room) for row in rows}
    beside = max((len(shown[row.label]) for row in rows if row.share is not None), default=0)
    cells = min(BAR, room - 2 - _STEP * -(-beside // _STEP))
    lines: list[Line] = []
    for row in rows:
        line = [StyledText(margin + row.label.ljust(label_width), TextStyle.LABEL)]
        if row.recent:
            line.append(StyledText(_chart(row.recent[-min(2 * BAR, room) :], glyphs)))
        if row.share is not None and cells >= _MIN_BAR:
            line += [*_bar(row, cells, glyphs), StyledText("  ")]
        tone = TextStyle.STRONG if row.tone in (TextStyle.DONE, TextStyle.GOOD) else row.tone
        line.append(StyledText(shown[row.label], tone))
        lines.append(tuple(line))
    return lines


def _bar(row: _Row, cells: int, glyphs: Glyphs) -> list[StyledText]:
    full = _cell(row.share or 0.0, cells)
    drawn = glyphs.full * full + glyphs.rest * (cells - full)
    if row.mark is not None:
        at = min(cells - 1, _cell(row.mark, cells))
        if row.mark <= (row.share or 0.0):
            at = max(0, min(at, full - 1))
        mark = glyphs.full_mark if at < full else glyphs.rest_mark
        drawn = drawn[:at] + mark + drawn[at + 1 :]
    return [StyledText(drawn[:full], row.tone), StyledText(drawn[full:], TextStyle.REST)]


def _cell(share: float, cells: int) -> int:
    return int(min(1.0, max(0.0, share)) * cells + 0.5)


def _joined(texts: Sequence[str], room: int) -> str:
    """Join as many texts as there is room for, but at least the first."""
    kept = [text for text in texts if text]
    while len(kept) > 1 and len(", ".join(kept)) > room:
        kept.pop()
    return ", ".join(kept)


def _chart(costs_s: Sequence[float | None], glyphs: Glyphs) -> str:
    """Draw each trial's speed as a share of the fastest of them."""
    fastest = min((cost_s for cost_s in costs_s if cost_s is not None), default=0.0)
    top = len(glyphs.levels) - 1
    return "".join(
        glyphs.failed if cost_s is None else glyphs.levels[round(top * fastest / cost_s)]
        for cost_s in costs_s
    )


def _jobs(
    progress: RunProgress, statuses: Sequence[WorkloadStatus], width: int, room: int, glyphs: Glyphs
) -> list[Line]:
    """Return a table of workloads; if not all fit, unfinished ones come first."""
    shown = list(statuses)
    if len(shown) > room:
        shown.sort(key=lambda s: (s.job.label != progress.latest, s.over))
        kept = {status.job.label for status in shown[: max(1, room - 1)]}
        shown = [status for status in statuses if status.job.label in kept]
    marks = [glyphs.here if s.job.label == progress.latest else " " for s in shown]
    names = [_short(s.job.label, max(12, width // 3), glyphs) for s in shown]
    columns = [
        TableColumn(
            "", [" ".join(pair) for pair in zip(marks, names, strict=True)], 0, right=False
        ),
        TableColumn("trials", [s.count for s in shown], 2),
        TableColumn("best", ["" if s.best_s is None else time_text(s.best_s) for s in shown], 1),
        TableColumn("throughput", [s.speed for s in shown], 5),
        TableColumn("reached", [_share(s) for s in shown], 3),
        TableColumn("to gain", [_gain(s) for s in shown], 4),
    ]
    header, *rows = fitted(columns, width)
    lines: list[Line] = [(StyledText(header, TextStyle.LABEL),)]
    for status, row in zip(shown, rows, strict=True):
        here = status.job.label == progress.latest and not status.over
        lines.append((StyledText(row, TextStyle.STRONG if here else TextStyle.PLAIN),))
    if len(shown) < len(statuses):
        lines.append((StyledText(f"  and {len(statuses) - len(shown)} more", TextStyle.LABEL),))
    return lines


def _share(status: WorkloadStatus) -> str:
    return "" if status.share is None else f"{percent_text(status.share)} {status.roof}"


def _gain(status: WorkloadStatus) -> str:
    if status.over:
        return "done"
    return "" if status.gain is None else percent_text(status.gain)


def _short(text: str, longest: int, glyphs: Glyphs) -> str:
    """Leave out the middle of a name, because names often differ at their ends."""
    if cells_of(text) <= longest:
        return text
    head = cut(text, longest // 2)
    tail = cut(text[::-1], longest - cells_of(head) - 1)[::-1]
    return f"{head.rstrip()}{glyphs.more}{tail.lstrip()}"


def _cut(line: Line, width: int, glyphs: Glyphs) -> Line:
    """Cut a line off at the terminal's width."""
    if cells_of("".join(piece.text for piece in line)) <= width:
        return line
    kept, room = [], width - 1
    for piece in line:
        kept.append(StyledText(cut(piece.text, room), piece.tone))
        room -= cells_of(kept[-1].text)
    return (*kept, StyledText(glyphs.more))
