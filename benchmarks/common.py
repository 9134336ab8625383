"""Shared code of the benchmarks: paired timing, rows with their aims, and reports."""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.runtime import environment
from autotune.target import Target

RESULTS = Path(__file__).parent / "results"

PAUSE_S = 0.2
"""Seconds after which the threads of a library sleep: OpenBLAS's spin for 0.1 s after a call."""


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes
    ----------
    name : str
        Name of the measurement.
    value : float or None
        The figure; None if it could not be measured.
    unit : str
        Its unit; "ratio" where two things were timed in one run.
    aim : float or None
        Aim: a lower bound, or an upper bound if `lower_is_better`.
    met : bool or None
        Whether it does; None without an aim.
    """

    name: str
    value: float | None
    unit: str
    aim: float | None = None
    met: bool | None = None


def row(
    name: str, value: float, unit: str, aim: float | None = None, lower_is_better: bool = False
) -> Row:
    """Return a row, judged by its aim."""
    met = None if aim is None else bool(value <= aim if lower_is_better else value >= aim)
    return Row(name, round(float(value), 4), unit, aim, met)


def paired(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 9, seconds: float = 0.1
) -> tuple[float, float]:
    """Return the median seconds per call of two functions, timed in turn in one run.

    In each round each is called for `seconds` and at least four times, and its fastest call counts:
    the first calls start threads on their cores, and slow calls measure other programs. A pause
    before lets the threads of the other function stop spinning.
    """

    def fastest(function: Callable[[], object]) -> float:
        time.sleep(PAUSE_S)
        times: list[float] = []
        while len(times) < 4 or sum(times) < seconds:
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
        return min(times)

    pairs = [(fastest(ours), fastest(theirs)) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def parser(description: str) -> argparse.ArgumentParser:
    """Return an argument parser with the options all benchmarks take."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="print the report as JSON, or write it to a file",
    )
    found.add_argument("--save", action="store_true", help="write it to benchmarks/results too")
    return found


def report(
    name: str,
    rows: Sequence[Row],
    as_json: str | None,
    save: bool,
    target: str = "llvm",
    more: Mapping[str, Any] | None = None,
    printed: Sequence[Row] | None = None,
) -> None:
    """Print rows, as a table or (to the file `as_json`, "-" is here) as JSON; save them.

    Parameters
    ----------
    name : str
        Of the file in benchmarks/results.
    rows : sequence of Row
    as_json : str or None
    save : bool
    target : str
        Its device is reported.
    more : mapping, optional
        What else the JSON holds.
    printed : sequence of Row, optional
        The rows of the table, if not all.
    """
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    device = environment.device(Target.of(target))
    result = {"device": device, "date": date, "rows": [asdict(r) for r in rows], **(more or {})}
    if save:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    if as_json == "-":
        print(json.dumps(result))
        return
    if as_json is not None:
        Path(as_json).write_text(json.dumps(result) + "\n")
    print(f"{result['device']}\n{date}")
    for r in rows if printed is None else printed:
        aim = "" if r.aim is None else f"aim {r.aim:g}: {'met' if r.met else 'missed'}"
        value = "none" if r.value is None else f"{r.value:.4g}"
        print(f"{r.name:44} {value:>12} {r.unit:10} {aim}")
