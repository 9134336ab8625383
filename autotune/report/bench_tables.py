"""Speeds over sizes or knobs as tables for a terminal, and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from autotune.report.bench_speeds import (
    Grid,
    Point,
    Setting,
    Speed,
    Speeds,
    axis_text,
    noise_text,
    spread_text,
    value_text,
)
from autotune.report.text_tables import GAP, TableColumn, fitted, wrap, wrap_clauses
from autotune.report.units import size_text, three_digits, time_text

NOTHING = "-"  # What stands in a table where nothing was measured.
UNSURE = "~"  # What follows a speed whose repeats differ by more than a tenth.


def as_text(found: Speeds | Grid, width: int) -> str:
    """Return speeds as a table with a row per size, or as one per panel over two knobs.

    width: columns of the terminal.
    """
    return _grid_text(found, width) if isinstance(found, Grid) else _lines_text(found, width)


def as_json(found: Speeds | Grid) -> dict[str, Any]:
    """Return speeds as plain data.

    Lines have a point for each of the sizes, panels have points row by row.
    """
    return _grid_json(found) if isinstance(found, Grid) else _lines_json(found)


def _lines_text(found: Speeds, width: int) -> str:
    settings = found.settings
    sizes = [
        TableColumn("=".join(settings[0].args) or "size", [s.label for s in settings], 0),
        TableColumn("data", [size_text(s.work.bytes) for s in settings], 0),
    ]
    columns = [
        TableColumn(name, _marked(_cells(found.line(name)), points), 0)
        for name, points in found.lines.items()
    ]
    if any(found.baseline):
        columns.append(TableColumn(found.subject.baseline, _cells(found.baseline), 0))
    head = [wrap(line, width, "    ") for line in _head(found)]
    notes = [wrap_clauses(note, width) for note in [*_doubts(found), *found.missing()]]
    return "\n".join([*head, *_table(sizes, columns, width), *notes])


def _grid_text(found: Grid, width: int) -> str:
    head = "\n".join(wrap(line, width, "    ") for line in _head(found))
    tables = [
        "\n".join([*([name] if name else []), *_panel_lines(found, name, width)])
        for name in found.panels
    ]
    said = [*_conclusion(found), *_doubts(found), *found.missing()]
    notes = "\n".join(wrap_clauses(note, width) for note in said)
    return "\n\n".join([head, *tables, notes])


def _head(found: Speeds | Grid) -> list[str]:
    return [found.subject.title, found.subject.place, found.conditions]


def _panel_lines(found: Grid, name: str, width: int) -> list[str]:
    rows = found.panel(name)
    names = TableColumn(f"{found.down} \\ {found.across}", list(map(axis_text, found.rows)), 0)
    points = found.panels[name]
    columns = [
        TableColumn(
            axis_text(value),
            _marked(_cells([row[number] for row in rows]), [row[number] for row in points]),
            0,
        )
        for number, value in enumerate(found.columns)
    ]
    return _table([names], columns, width)


def _table(names: Sequence[TableColumn], columns: Sequence[TableColumn], width: int) -> list[str]:
    """Return a table as lines, in parts one below the other where it is too wide."""
    room = width - sum(column.width + len(GAP) for column in names)
    parts: list[list[TableColumn]] = [[]]
    for column in columns:
        if parts[-1] and sum(c.width + len(GAP) for c in [*parts[-1], column]) > room + len(GAP):
            parts.append([])
        parts[-1].append(column)
    return [line for part in parts for line in fitted([*names, *part], width)]


def _conclusion(found: Grid) -> Iterator[str]:
    best = found.best
    if best is not None and best.cost_s is not None:
        knobs = ", ".join(f"{name}={value_text(value)}" for name, value in best.values.items())
        speed = _cells([found.speed(best)])[0]
        yield f"best {speed} {found.unit} ({time_text(best.cost_s)}): {knobs}"
    if found.baseline is not None:
        yield f"{found.subject.baseline} {three_digits(found.baseline)} {found.unit}"


def _cells(speeds: Sequence[Speed]) -> list[str]:
    return [NOTHING if speed is None else three_digits(speed) for speed in speeds]


def _marked(cells: Sequence[str], points: Sequence[Point | None]) -> list[str]:
    """Return cells, with a mark on points whose repeats differ much; all cells line up."""
    unsure = [point is not None and point.unsure for point in points]
    if not any(unsure):
        return list(cells)
    return [f"{cell}{UNSURE if mark else ' '}" for cell, mark in zip(cells, unsure, strict=True)]


def _doubts(found: Speeds | Grid) -> Iterator[str]:
    """Yield how far the times can be trusted."""
    points = list(found.points())
    spread = spread_text(found.named())
    if spread:
        marked = f"; {UNSURE} marks more than 10 %" if any(point.unsure for point in points) else ""
        yield f"{spread}{marked}"
    if noise := noise_text(points):
        yield noise


def _lines_json(found: Speeds) -> dict[str, Any]:
    return {
        **vars(found.subject),
        "unit": found.unit,
        "sizes": [
            {**_setting_json(setting), "baseline": speed}
            for setting, speed in zip(found.settings, found.baseline, strict=True)
        ],
        "lines": {
            name: [
                None if point is None else _point_json(point, speed)
                for point, speed in zip(points, found.line(name), strict=True)
            ]
            for name, points in found.lines.items()
        },
    }


def _grid_json(found: Grid) -> dict[str, Any]:
    return {
        **vars(found.subject),
        "unit": found.unit,
        "size": {**_setting_json(found.setting), "baseline": found.baseline},
        "across": {"knob": found.across, "values": list(found.columns)},
        "down": {"knob": found.down, "values": list(found.rows)},
        "panels": {
            name: [[_point_json(point, found.speed(point)) for point in row] for row in rows]
            for name, rows in found.panels.items()
        },
    }


def _setting_json(setting: Setting) -> dict[str, Any]:
    costs_s = setting.baseline_costs_s
    return {
        "args": dict(setting.args),
        "flops": setting.work.flops,
        "bytes": setting.work.bytes,
        "baseline_s": setting.baseline_s,
        "baseline_costs_s": list(costs_s) if costs_s else None,
    }


def _point_json(point: Point, speed: Speed) -> dict[str, Any]:
    costs_s = None if point.record is None else point.record.costs_s
    return {
        "config": dict(point.values),
        "speed": speed,
        "cost_s": point.cost_s,
        "costs_s": list(costs_s) if costs_s else None,
        "spread": point.spread,
        "noise": None if point.record is None else point.record.noise,
        "why": point.why or None,
    }
