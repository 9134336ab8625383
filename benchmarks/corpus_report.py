"""Rows, table and picture of the results of `corpus.py`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common import Row, row

from autotune.report.units import percent_text, three_digits, time_text

Result = Mapping[str, Any]

AIM_LIBRARY, AIM_LIBRARY_MEAN = 0.8, 1.2
AIM_CEILING, AIM_CEILING_MEAN = 0.5, 0.7
AIM_DEFAULT, AIM_DEFAULT_MEAN = 0.4, 0.75
AIM_TUNING_S = 30.0
AIM_FIRST_BUILD_S, AIM_STRUCTURES = 3.0, 64

MUCH_WORK_S = 50e-6
"""Workloads whose ceiling is above that have an aim for their share of it."""

OURS = ("default", "tuned")
ROOF = "ceiling"
"""Name of the contender that shows what the machine can do while the others are timed."""

_BEFORE_BUILDS = (
    ("first_build_s", "s", AIM_FIRST_BUILD_S),
    ("structures", "structures", AIM_STRUCTURES),
)

_COLOURS = {True: "#0072B2", False: "#D55E00", None: "0.6"}


# -- figures -----------------------------------------------------------------------------------


def libraries(result: Result) -> dict[str, float]:
    """Return the seconds of the libraries that were timed."""
    return {name: s for name, s in result.get("seconds", {}).items() if name not in OURS}


def over(result: Result, one: str, other: str) -> float:
    """Return the seconds of a contender, or of the ceiling, over those of another.

    The median over the rounds of the ratio in each, if each counts: what slows the machine for some
    rounds slows both. Otherwise the ratio of the medians.
    """
    seconds = {**result["seconds"], ROOF: result["ceiling_s"]}
    ratio: float = seconds[one] / seconds[other]
    rounds_s = result.get("rounds_s", {})
    ones, others = rounds_s.get(one, ()), rounds_s.get(other, ())
    if not len(ones) == len(others) == result.get("facts", {}).get("rounds"):
        return ratio
    paired = statistics.median(a / b for a, b in zip(ones, others, strict=True))
    scale = 1.0 if one != ROOF else result["ceiling_s"] / statistics.median(ones)
    return scale * paired


def figures(result: Result) -> dict[str, Row]:
    """Return the rows of a workload by the last part of their names; a library may be missing.

    A workload that failed has rows without a value.
    """
    name = f"corpus.{result['name']}"
    found = {}
    if "error" in result:
        aims = {"over_library": AIM_LIBRARY, "of_ceiling": None, "default_over_tuned": AIM_DEFAULT}
        for what, aim in aims.items():
            met = None if aim is None else False
            found[what] = Row(f"{name}.{what}", None, "ratio", aim, met)
    else:
        ceiling_s = result["ceiling_s"]
        if others := libraries(result):
            ratio = min(over(result, other, "tuned") for other in others)
            found["over_library"] = row(f"{name}.over_library", ratio, "ratio", AIM_LIBRARY)
        if ceiling_s is not None:
            aim = AIM_CEILING if ceiling_s > MUCH_WORK_S else None
            share = over(result, ROOF, "tuned")
            found["of_ceiling"] = row(f"{name}.of_ceiling", share, "share", aim)
        ratio = over(result, "tuned", "default")
        found["default_over_tuned"] = row(f"{name}.default_over_tuned", ratio, "ratio", AIM_DEFAULT)
    if result.get("tuning_s") is not None:
        found["tuning_s"] = row(f"{name}.tuning_s", result["tuning_s"], "s")
    for what, unit, most in _BEFORE_BUILDS:
        if what in result:
            found[what] = row(f"{name}.{what}", result[what], unit, most, True)
    return found


def rows_of(results: Sequence[Result]) -> list[Row]:
    """Return the rows of all workloads."""
    return [r for result in results for r in figures(result).values()]


def summary(results: Sequence[Result]) -> list[Row]:
    """Return geometric means, least values and the median tuning time, with their aims."""
    every = [figures(result) for result in results]

    def values(what: str, aimed: bool = False) -> list[float]:
        found = [each[what] for each in every if what in each]
        return [r.value for r in found if r.value is not None and not (aimed and r.aim is None)]

    shares = values("of_ceiling", aimed=True)
    parts = [
        ("over_library", values("over_library"), AIM_LIBRARY_MEAN, AIM_LIBRARY),
        ("of_ceiling", shares, AIM_CEILING_MEAN, AIM_CEILING),
        ("default_over_tuned", values("default_over_tuned"), AIM_DEFAULT_MEAN, AIM_DEFAULT),
    ]
    found = []
    for what, known, mean_aim, aim in parts:
        if known:
            mean = statistics.geometric_mean(known)
            found.append(row(f"corpus.{what}.geometric_mean", mean, "ratio", mean_aim))
            found.append(row(f"corpus.{what}.least", min(known), "ratio", aim))
    if tuning := values("tuning_s"):
        median = statistics.median(tuning)
        found.append(row("corpus.tuning_s.median", median, "s", AIM_TUNING_S, True))
    for what, unit, most in _BEFORE_BUILDS:
        if known := values(what):
            found.append(row(f"corpus.{what}.most", max(known), unit, most, True))
    failed = sum("error" in result for result in results)
    return [*found, row("corpus.workloads", len(results), "workloads"),
            row("corpus.failed", failed, "workloads", 0, True)]  # fmt: skip


# -- table -------------------------------------------------------------------------------------


def line(result: Result) -> str:
    """Return what became of a workload, in one line."""
    if "error" in result:
        return f"failed: {result['error']}"
    seconds, found = result["seconds"], figures(result)
    times = [f"{name} {time_text(seconds[name])}" for name in (*OURS, *libraries(result))]
    if "of_ceiling" in found:
        times.append(f"{percent_text(found['of_ceiling'].value or 0.0)} of the ceiling")
    return ", ".join([*times, f"tuned in {result['tuning_s']:.0f} s"])


def table(results: Sequence[Result]) -> str:
    """Return the figures of all workloads, a line each; a star marks a missed aim."""
    names = list(dict.fromkeys(name for result in results for name in libraries(result)))
    head = ["", "workload", *OURS, *names, "over library", "of ceiling", "default/tuned", "tuning"]
    cells = [_cells(result, names) for result in results]
    known = [row_ for row_ in cells if len(row_) == len(head)]
    widths = [max(len(row_[i]) for row_ in [head, *known]) for i in range(len(head))]
    widths[1] = max(len(row_[1]) for row_ in [head, *cells])
    lines = [head, *cells]
    return "\n".join(
        "  ".join(
            text.ljust(width) if place == 1 or len(row_) < len(head) else text.rjust(width)
            for place, (text, width) in enumerate(zip(row_, widths, strict=False))
        ).rstrip()
        for row_ in lines
    )


def _cells(result: Result, names: Sequence[str]) -> list[str]:
    first = [str(result["number"]), result["name"]]
    if "error" in result:
        return [*first, line(result)]
    times = result["seconds"]
    found = figures(result)

    def cell(what: str, text: Callable[[float], str]) -> str:
        known = found.get(what)
        if known is None or known.value is None:
            return "-"
        return text(known.value) + ("*" if known.met is False else "")

    return [
        *first,
        *(time_text(times[name]) if name in times else "-" for name in (*OURS, *names)),
        cell("over_library", three_digits),
        cell("of_ceiling", percent_text),
        cell("default_over_tuned", lambda value: f"{value:.2f}"),
        cell("tuning_s", lambda value: f"{value:.1f} s"),
    ]


# -- picture -----------------------------------------------------------------------------------


def draw(results: Sequence[Result], title: str, path: Path) -> None:
    """Write a picture of the shares of the ceiling: a bar for each workload, its default a mark.

    Bars of workloads that miss their aim have another colour, those without an aim are grey.

    Raises
    ------
    ImportError
        If Matplotlib is not installed.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    known = [(result, figures(result)) for result in results]
    shares = [each["of_ceiling"].value or 0.0 if "of_ceiling" in each else 0.0 for _, each in known]
    figure = Figure(figsize=(8.0, 1.2 + 0.19 * len(known)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = range(len(known))
    colours = [
        _COLOURS[each["of_ceiling"].met if "of_ceiling" in each else None] for _, each in known
    ]
    axes.barh(places, [100 * share for share in shares], color=colours, height=0.7)
    for place, (share, (result, each)) in enumerate(zip(shares, known, strict=True)):
        if "error" in result:
            axes.text(1, place, "failed", va="center", fontsize="x-small", color=_COLOURS[False])
            continue
        default = 100 * share * (each["default_over_tuned"].value or math.nan)
        axes.plot([default], [place], marker="|", color="black", markersize=8)
        if "over_library" in each:
            text = f"{three_digits(each['over_library'].value or 0.0)}x"
            axes.text(100 * share + 1, place, text, va="center", fontsize="x-small", color="0.35")
    axes.axvline(100 * AIM_CEILING, color="0.6", linewidth=0.8, linestyle=":")
    axes.set_yticks(places, [result["name"] for result, _ in known], fontsize="x-small")
    axes.set_xlim(0, max(110.0, 100 * max(shares, default=0.0) + 10))
    axes.set_ylim(len(known) - 0.4, -0.6)
    axes.set_xlabel("tuned, % of the ceiling; |: default; number: speed over the best library")
    axes.set_title(title, fontsize="small")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "corpus", "text.parse_math": False}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
