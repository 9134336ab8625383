"""What `autotune bench` found: speeds over sizes of the data, or over the values of two knobs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotune.measure.timing.noise_monitor import NOISY
from autotune.report.units import Work, percent_text
from autotune.task.workload import Workload
from records import Record
from search_spaces import KnobValue

BEST = "best recorded"  # Name of the line of the fastest records of any configuration.
Speed = float | None  # In the unit of the speeds; None where nothing was measured.


@dataclass(frozen=True)
class Point:
    """A configuration, and how it was measured."""

    values: Mapping[str, Any]  # Its knobs.
    record: Record | None
    missing: str = ""  # Why there is no record; else empty.

    @property
    def cost_s(self) -> float | None:
        """Median seconds of a call; None if it was not measured, or failed."""
        return self.record.cost_s if self.record is not None and self.record.ok else None

    @property
    def spread(self) -> float | None:
        """Relative spread of the repeats; None of fewer than two."""
        return None if self.record is None else self.record.spread

    @property
    def unsure(self) -> bool:
        """Whether the repeats differ by more than a tenth."""
        return (self.spread or 0.0) > NOISY

    @property
    def why(self) -> str:
        """Why it has no time; empty if it has one."""
        if self.record is not None and self.record.error is not None:
            return f"{self.record.error['code']}: {self.record.error['message']}"
        return self.missing


@dataclass(frozen=True)
class BenchmarkedTemplate:
    """The measured template, its target, and the device."""

    template: str
    args: Mapping[str, Any]  # Arguments that are the same everywhere.
    target: str
    device: str
    baseline: str  # What the reference runs on: "NumPy" or "CuPy".
    times_mean_nothing: bool = False  # Whether the times are none of the target's device.

    @property
    def title(self) -> str:
        """One line: "matmul(dtype=float32) on llvm"."""
        return f"{Workload(self.template, self.args)} on {self.target}"

    @property
    def place(self) -> str:
        """One line: the device, and whether times mean anything."""
        if not self.times_mean_nothing:
            return self.device
        return f"GPU threads as loops on {self.device}: these times say nothing of a GPU"


@dataclass(frozen=True)
class Setting:
    """One size of the data."""

    args: Mapping[str, int]  # The arguments that make it.
    work: Work
    # Seconds of the reference, one per repeat; None if it was not timed.
    baseline_costs_s: Sequence[float] | None

    @property
    def label(self) -> str:
        """Values of the arguments: "256" if they are one, or "64 x 512"; "" without any."""
        return " x ".join(map(str, dict.fromkeys(self.args.values())))

    @property
    def baseline_s(self) -> float | None:
        """Median seconds of the reference."""
        return statistics.median(self.baseline_costs_s) if self.baseline_costs_s else None

    def speed(self, cost_s: float | None, unit: str) -> Speed:
        """Return 10^9 operations, or bytes of the arrays, per second."""
        if cost_s is None:
            return None
        amount = self.work.flops if unit == "GFLOPS" else self.work.bytes
        return 1e-9 * (amount or 0.0) / cost_s


def spread_text(named: Iterable[tuple[str, Point]]) -> str:
    """Return how much repeats differ, as a rule and at most; empty if they do not.

    Spread is the range of the middle half of the repeats over their median.

    named: points, each with what it is called.
    """
    found = [(point.spread, name) for name, point in named if point.spread is not None]
    most, where = max(found, default=(0.0, ""))
    if not most:
        return ""
    usual = statistics.median(spread for spread, _ in found)
    return (
        f"spread of the repeats: {percent_text(usual)} as a rule, {percent_text(most)} at most "
        f"({where})"
    )


def noise_text(points: Iterable[Point]) -> str:
    """Return that the machine was noisy during the measurements; empty if it was not."""
    noises = [point.record.noise or 0.0 for point in points if point.record is not None]
    noise = max(noises, default=0.0)
    if noise <= NOISY:
        return ""
    return (
        f"the machine was noisy (up to {percent_text(noise)}): speeds closer than that may be equal"
    )


def common_knobs(points: Iterable[Point]) -> str:
    """Return the knobs that have one value in all points: "nt=64, nb=256"."""
    found = [point.values for point in points]
    first = found[0] if found else {}
    same = (n for n in first if all(n in v and v[n] == first[n] for v in found))
    return ", ".join(f"{name}={first[name]}" for name in same)


def unit_of(settings: Sequence[Setting]) -> str:
    """Return "GFLOPS", or "GB/s" where the operations are not known everywhere."""
    return "GFLOPS" if all(setting.work.flops for setting in settings) else "GB/s"


@dataclass(frozen=True)
class Speeds:
    """Speeds over sizes, a line for each way to compute it."""

    subject: BenchmarkedTemplate
    settings: Sequence[Setting]
    # Points of each line, by size; None where the line has none.
    lines: Mapping[str, Sequence[Point | None]]

    @property
    def unit(self) -> str:
        """Of the speeds."""
        return unit_of(self.settings)

    def line(self, name: str) -> list[Speed]:
        """Return the speeds of a line, by size."""
        return [
            setting.speed(None if point is None else point.cost_s, self.unit)
            for setting, point in zip(self.settings, self.lines[name], strict=True)
        ]

    @property
    def baseline(self) -> list[Speed]:
        """Speeds of the reference, by size."""
        return [setting.speed(setting.baseline_s, self.unit) for setting in self.settings]

    def points(self) -> Iterator[Point]:
        """Yield the points of all lines."""
        return (point for _, point in self.named())

    def named(self) -> Iterator[tuple[str, Point]]:
        """Yield the points of all lines with their lines and sizes: "blocked at 256"."""
        for name, points in self.lines.items():
            for setting, point in zip(self.settings, points, strict=True):
                if point is not None:
                    yield _at(name, [setting.label]), point

    @property
    def conditions(self) -> str:
        """The common conditions of all lines: their unit, and the knobs that they share."""
        own = (point for name in self.lines if name != BEST for point in self.lines[name] if point)
        return ", ".join(filter(None, [self.unit, common_knobs(own)]))

    def missing(self) -> Iterator[str]:
        """Yield each reason for points without a time, and their names."""
        reasons: dict[tuple[str, str], list[str]] = {}
        for name, points in self.lines.items():
            for setting, point in zip(self.settings, points, strict=True):
                if point is not None and point.cost_s is None:
                    reasons.setdefault((name, point.why), []).append(setting.label)
        for (name, why), sizes in reasons.items():
            yield f"{_at(name, sizes)}: {why}"


def _at(line: str, sizes: Sequence[str]) -> str:
    """Return a line with some of its sizes: "blocked at 256"; its name alone without any."""
    told = ", ".join(filter(None, sizes))
    return f"{line} at {told}" if told else line


def value_text(value: KnobValue) -> str:
    """Return a knob's value as it is written on a command line."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def axis_text(value: KnobValue) -> str:
    """Return a knob's value as a label of an axis: "256", "4,8", "none,unroll"."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if is_number else value_text(value)


@dataclass(frozen=True)
class Grid:
    """Speeds over the values of two knobs, at one size."""

    subject: BenchmarkedTemplate
    setting: Setting
    # The knobs.
    across: str
    down: str
    # Their values, numbers and splits ascending.
    columns: Sequence[KnobValue]
    rows: Sequence[KnobValue]
    panels: Mapping[str, Sequence[Sequence[Point]]]  # By name: points row by row.

    @property
    def unit(self) -> str:
        """Of the speeds."""
        return unit_of([self.setting])

    @property
    def baseline(self) -> Speed:
        """Speed of the reference."""
        return self.setting.speed(self.setting.baseline_s, self.unit)

    def panel(self, name: str) -> list[list[Speed]]:
        """Return the speeds of a panel, row by row."""
        return [[self.speed(point) for point in row] for row in self.panels[name]]

    def speed(self, point: Point) -> Speed:
        """Return the speed of a point."""
        return self.setting.speed(point.cost_s, self.unit)

    @property
    def best(self) -> Point | None:
        """The fastest point; None if nothing worked."""
        return min(
            (point for point in self.points() if point.cost_s is not None),
            key=lambda point: point.cost_s or 0.0,
            default=None,
        )

    @property
    def conditions(self) -> str:
        """The common conditions of all cells: their unit, size, and shared knobs."""
        size = [f"{name}={value}" for name, value in self.setting.args.items()]
        return ", ".join(filter(None, [self.unit, *size, common_knobs(self.points())]))

    def missing(self) -> Iterator[str]:
        """Yield each reason for points without a time, and their number."""
        counts: dict[str, int] = {}
        for point in self.points():
            if point.cost_s is None:
                counts[point.why] = counts.get(point.why, 0) + 1
        for why, count in counts.items():
            yield f"{count} of them {'has' if count == 1 else 'have'} no time: {why}"

    def named(self) -> Iterator[tuple[str, Point]]:
        """Yield the points of all panels with their knobs: "nt=64, nb=256"."""
        for name, rows in self.panels.items():
            for down, row in zip(self.rows, rows, strict=True):
                for across, point in zip(self.columns, row, strict=True):
                    knobs = f"{self.across}={axis_text(across)}, {self.down}={axis_text(down)}"
                    yield ", ".join(filter(None, [name, knobs])), point

    def points(self) -> Iterator[Point]:
        """Yield the points of all panels."""
        return (point for _, point in self.named())
