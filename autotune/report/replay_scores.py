"""How well tuners did on recorded spaces: numbers for tables, JSON and curves.

The share of the optimum is (least recorded time) / (best time so far): 1 at the optimum, 0 before
the first measurement that worked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.cost_model.base import FloatVector
from autotune.report.text_tables import table
from autotune.tuner.replay.replay_tuner import Trace

CHECKPOINTS = (25, 50, 100, 200)  # Measurements after which the best so far is looked at.
NEAR = 0.95  # Share of the optimum that counts as within 5 % of it.


@dataclass(frozen=True)
class Score:
    """The scores of runs on one space, or the mean over spaces."""

    # Mean share of the optimum after a number of measurements; None beyond the budget.
    share: Mapping[int, float | None]
    within: float  # Share of runs that came within 5 % of the optimum.
    # Measurements to come within 5 %, at most the budget (of at most 200): the median over runs,
    # over spaces the geometric mean.
    to_near: float
    runs: int

    def to_json(self) -> dict[str, Any]:
        """Return the form that `autotune replay --json` prints."""
        return {
            "share": {str(count): share for count, share in self.share.items()},
            "within_5_percent": self.within,
            "median_to_5_percent": self.to_near,
        }


def shares(trace: Trace, optimum_s: float, budget: int) -> FloatVector:
    """Return the share of the optimum after 1, 2, ..., `budget` measurements, float64 (budget,).

    A run that ended earlier stays where it was.
    """
    best = np.full(budget, math.inf)
    found = trace.best_s[:budget]
    if len(found):
        best[: len(found)] = found
        best[len(found) :] = found[-1]
    share: FloatVector = optimum_s / best
    return share


def score(traces: Sequence[Trace], optimum_s: float, budget: int) -> Score:
    """Return the score of runs on one space."""
    curves = np.array([shares(trace, optimum_s, budget) for trace in traces])
    horizon = min(budget, CHECKPOINTS[-1])
    near = curves[:, :horizon] >= NEAR
    first = np.where(near.any(axis=1), near.argmax(axis=1) + 1, horizon)
    return Score(
        {k: float(curves[:, k - 1].mean()) if k <= budget else None for k in CHECKPOINTS},
        float(near.any(axis=1).mean()),
        float(np.median(first)),
        len(traces),
    )


def mean_score(scores: Sequence[Score]) -> Score:
    """Return the mean over spaces; of the measurements to 5 %, the geometric mean."""
    share: dict[int, float | None] = {}
    for count in CHECKPOINTS:
        parts = [s.share[count] for s in scores]
        known = [part for part in parts if part is not None]
        share[count] = float(np.mean(known)) if len(known) == len(parts) else None
    return Score(
        share,
        float(np.mean([s.within for s in scores])),
        float(np.exp(np.mean(np.log([s.to_near for s in scores])))),
        sum(s.runs for s in scores),
    )


def comparison_json(scores: Mapping[str, Mapping[str, Score]]) -> dict[str, Any]:
    """Return the JSON of `autotune replay compare --json`, from scores by tuner and space."""
    return {
        "tuners": {
            tuner: {
                **mean_score(list(spaces.values())).to_json(),
                "per_space": {space: one.to_json() for space, one in spaces.items()},
            }
            for tuner, spaces in scores.items()
        }
    }


def comparison_table(scores: Mapping[str, Mapping[str, Score]], width: int) -> str:
    """Return a table with a row per tuner, means over the spaces."""
    rows = {tuner: mean_score(list(spaces.values())) for tuner, spaces in scores.items()}
    return score_table("tuner", rows, width)


def score_table(title: str, rows: Mapping[str, Score], width: int) -> str:
    """Return scores as a table, a row per name."""
    headers = [title, *(f"{count}#" for count in CHECKPOINTS), "within 5 %#", "to 5 %#"]
    cells = [
        [
            name,
            *("-" if part is None else f"{part:.3f}" for part in one.share.values()),
            f"{one.within:.2f}",
            f"{one.to_near:.0f}",
        ]
        for name, one in rows.items()
    ]
    return table(headers, cells, width)


@dataclass(frozen=True)
class Curve:
    """A tuner's mean share of the optimum along an axis."""

    x: FloatVector  # float64 (n,): Measurements, or simulated seconds.
    # float64 (n,): Mean over runs and spaces, and the middle half of the runs.
    mean: FloatVector
    low: FloatVector
    high: FloatVector


def curve_over_measurements(runs: Sequence[tuple[Trace, float]], budget: int) -> Curve:
    """Return the curve of runs, each with its space's optimum, over measurements."""
    curves = np.array([shares(trace, optimum, budget) for trace, optimum in runs])
    return _curve(np.arange(1.0, budget + 1.0), curves)


def curve_over_seconds(runs: Sequence[tuple[Trace, float]], points: int = 200) -> Curve | None:
    """Return the curve over recorded seconds of building and running; None if none were recorded.

    The axis is logarithmic, from the quickest first measurement to the longest run.
    """
    timed = [(t, optimum) for t, optimum in runs if len(t.seconds) and t.seconds[-1] > 0.0]
    if not timed:
        return None
    first = min(float(t.seconds[t.seconds > 0.0][0]) for t, _ in timed)
    x = np.geomspace(first, max(float(t.seconds[-1]) for t, _ in timed), points)
    curves = []
    for trace, optimum in timed:
        best = np.concatenate([[math.inf], trace.best_s])
        curves.append(optimum / best[np.searchsorted(trace.seconds, x, side="right")])
    return _curve(x, np.array(curves))


def _curve(x: FloatVector, curves: FloatVector) -> Curve:
    low, high = np.quantile(curves, [0.25, 0.75], axis=0)
    return Curve(x, curves.mean(axis=0), low, high)
