"""What a terminal shows while a run goes on: a few lines of words and bars, as plain data.

Two bars answer how far the run is and how near its best comes to what the machine can do.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from autotune.report.progress import Progress, Standing, kinds_text
from autotune.report.ratio import Ratio
from autotune.report.text_tables import Column, cells_of, cut, fitted
from autotune.report.units import duration_text, percent_text, time_text

BAR = 32
"""Cells of a bar where there is room."""

_LEAST_BAR = 6
_STEP = 6
_MARGIN = 2


class Tone(StrEnum):
    """How a piece of text is to look."""

    PLAIN = "plain"
    LABEL = "label"
    STRONG = "strong"
    DONE = "done"
    GOOD = "good"
    REST = "rest"
    BAD = "bad"


@dataclass(frozen=True)
class Piece:
    """Some text of one look."""

    text: str
    tone: Tone = Tone.PLAIN


Line = tuple[Piece, ...]


@dataclass(frozen=True)
class Glyphs:
    """Characters to draw with.

    Attributes
    ----------
    full, rest : str
        A cell of a bar.
    full_mark, rest_mark : str
        The same with a mark on it.
    levels : str
        Cells of a column chart, the lowest first.
    failed : str
        A failure in such a chart.
    here : str
        Marks the workload that is measured.
    more : str
        Ends a text that was cut off.
    """

    full: str
    rest: str
    full_mark: str
    rest_mark: str
    levels: str
    failed: str
    here: str
    more: str


UNICODE = Glyphs("━", "─", "╋", "┼", "▁▂▃▄▅▆▇█", "x", "▸", "…")
ASCII = Glyphs("=", "-", "|", "|", "_.:-=+*#", "x", ">", "~")


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return the characters that an encoding has."""
    try:
        "".join(vars(UNICODE).values()).encode(encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return ASCII
    return UNICODE


def panel(progress: Progress, width: int, height: int, glyphs: Glyphs = UNICODE) -> list[Line]:
    """Return where a run stands, in lines of at most `width` columns.

    Parameters
    ----------
    progress : Progress
    width, height : int
        Of the terminal; of a run of many workloads only as many are shown as there is room for.
    glyphs : Glyphs
    """
    standings = list(progress.standings.values())
    if len(standings) == 1:
        rows = _one(progress, standings[0], glyphs)
        lines = _laid_out(rows, width, glyphs)
    else:
        rows = _several(progress)
        lines = [*_laid_out(rows[:1], width, glyphs), ()]
        room = height - 1 - len(rows) - 2
        lines += _jobs(progress, standings, width, max(1, room), glyphs)
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
    tone: Tone = Tone.PLAIN
    recent: Sequence[float | None] = ()


def _one(progress: Progress, standing: Standing, glyphs: Glyphs) -> list[_Row]:
    rows = [_far(progress, standing.count)]
    if standing.best is not None:
        speed = [standing.share_text or standing.speed]
        rows.append(_Row("speed", speed, standing.share, _default_share(standing), Tone.GOOD))
        best = [time_text(standing.best.cost_s)]
        if standing.share is not None:
            best.append(standing.speed)
        if standing.best_is_default:
            best.append("the default")
        elif ratio := Ratio.of(standing.best.costs_s, standing.default_s):
            best.append(ratio.short("the default"))
        best.append(f"config {standing.best.index}")
        if standing.best_trial:
            best.append(f"trial {standing.best_trial}")
        rows.append(_Row("best", best, tone=Tone.STRONG))
    if standing.round is not None:
        left = len(standing.round.remaining)
        rows.append(_Row("finals", [f"round {standing.round.number}", f"{left} still compared"]))
    elif standing.gain is not None and not standing.over:
        rows.append(_Row("to gain", [f"{percent_text(standing.gain)} expected of going on"]))
    if standing.recent:
        rows.append(_Row("recent", [], recent=standing.recent))
    return rows + _troubles(progress)


def _far(progress: Progress, count: str) -> _Row:
    """Return the row that says how far the run is."""
    return _Row("trials", [count, _time_text(progress)], progress.done_share, tone=Tone.DONE)


def _default_share(standing: Standing) -> float | None:
    if standing.default_s is None or standing.ceiling_s is None:
        return None
    return standing.ceiling_s / statistics.median(standing.default_s)


def _several(progress: Progress) -> list[_Row]:
    standings = progress.standings.values()
    done = sum(standing.trial for standing in standings)
    wanted = [standing.trials for standing in standings if standing.trials is not None]
    total = f"/{sum(wanted)}" if len(wanted) == len(progress.standings) else ""
    return [_far(progress, f"{done}{total}"), *_troubles(progress)]


def _troubles(progress: Progress) -> list[_Row]:
    rows = []
    failures = progress.failures
    if failures:
        total = f"{sum(failures.values())}: " if len(failures) > 1 else ""
        rows.append(_Row("failed", [total + kinds_text(failures)], tone=Tone.BAD))
    if texts := progress.noise_texts():
        rows.append(_Row("noise", texts, tone=Tone.BAD))
    return rows


def _time_text(progress: Progress) -> str:
    return progress.left_text() or f"after {duration_text(progress.elapsed_s)}"


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
        line = [Piece(margin + row.label.ljust(label_width), Tone.LABEL)]
        if row.recent:
            line.append(Piece(_chart(row.recent[-min(2 * BAR, room) :], glyphs)))
        if row.share is not None and cells >= _LEAST_BAR:
            line += [*_bar(row, cells, glyphs), Piece("  ")]
        tone = Tone.STRONG if row.tone in (Tone.DONE, Tone.GOOD) else row.tone
        line.append(Piece(shown[row.label], tone))
        lines.append(tuple(line))
    return lines


def _bar(row: _Row, cells: int, glyphs: Glyphs) -> list[Piece]:
    full = _cell(row.share or 0.0, cells)
    drawn = glyphs.full * full + glyphs.rest * (cells - full)
    if row.mark is not None:
        at = min(cells - 1, _cell(row.mark, cells))
        if row.mark <= (row.share or 0.0):
            at = max(0, min(at, full - 1))
        mark = glyphs.full_mark if at < full else glyphs.rest_mark
        drawn = drawn[:at] + mark + drawn[at + 1 :]
    return [Piece(drawn[:full], row.tone), Piece(drawn[full:], Tone.REST)]


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
    progress: Progress, standings: Sequence[Standing], width: int, room: int, glyphs: Glyphs
) -> list[Line]:
    """Return a table of workloads: those that are still measured first, if not all can be shown."""
    shown = list(standings)
    if len(shown) > room:
        shown.sort(key=lambda s: (s.job.label != progress.latest, s.over))
        kept = {standing.job.label for standing in shown[: max(1, room - 1)]}
        shown = [standing for standing in standings if standing.job.label in kept]
    marks = [glyphs.here if s.job.label == progress.latest else " " for s in shown]
    names = [_short(s.job.label, max(12, width // 3), glyphs) for s in shown]
    columns = [
        Column("", [" ".join(pair) for pair in zip(marks, names, strict=True)], 0, right=False),
        Column("trials", [s.count for s in shown], 2),
        Column("best", ["" if s.best_s is None else time_text(s.best_s) for s in shown], 1),
        Column("throughput", [s.speed for s in shown], 5),
        Column("reached", [_share(s) for s in shown], 3),
        Column("to gain", [_gain(s) for s in shown], 4),
    ]
    header, *rows = fitted(columns, width)
    lines: list[Line] = [(Piece(header, Tone.LABEL),)]
    for standing, row in zip(shown, rows, strict=True):
        here = standing.job.label == progress.latest and not standing.over
        lines.append((Piece(row, Tone.STRONG if here else Tone.PLAIN),))
    if len(shown) < len(standings):
        lines.append((Piece(f"  and {len(standings) - len(shown)} more", Tone.LABEL),))
    return lines


def _share(standing: Standing) -> str:
    return "" if standing.share is None else f"{percent_text(standing.share)} {standing.roof}"


def _gain(standing: Standing) -> str:
    if standing.over:
        return "done"
    return "" if standing.gain is None else percent_text(standing.gain)


def _short(text: str, longest: int, glyphs: Glyphs) -> str:
    """Leave out what is in the middle of a name: its end often sets it apart from others."""
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
        kept.append(Piece(cut(piece.text, room), piece.tone))
        room -= cells_of(kept[-1].text)
    return (*kept, Piece(glyphs.more))
