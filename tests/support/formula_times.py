"""A measurer for tests of `autotune bench` whose times are a formula, and words they share."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotune.measure.result import MeasureError, MeasureErrorNo, MeasureResult
from search_spaces import Config

ON_CPU = ["--target", "cuda -on=cpu"]
ADD, COPY = ["add", *ON_CPU], ["copy", *ON_CPU]
Result = tuple[int, str, str]
Call = Callable[..., Result]


class FormulaMeasurer:
    """A measurer whose times are a formula: the more threads, the faster; nothing runs."""

    asked: list[dict[str, Any]]
    fails: Callable[[Config], bool]
    baseline_s: tuple[float, ...] | None
    scatter: Callable[[Config], float]
    noise: float | None

    def __init__(self, template: str, args: Any, target: Any, policy: Any, *_: Any) -> None:
        self.policy, self._n = policy, args.get("n", 4)

    def __enter__(self) -> FormulaMeasurer:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def start(self) -> None:
        """Nothing starts."""

    def baseline(self) -> tuple[float, ...] | None:
        return self.baseline_s

    def measure(self, inputs: Any) -> Any:
        for candidate in inputs:
            values = candidate.config.values
            self.asked.append(dict(values))
            if type(self).fails(candidate.config):
                wrong = MeasureError(MeasureErrorNo.WRONG_ANSWER, "check", "7 is wrong")
                yield candidate, MeasureResult(error=wrong)
                continue
            factor = 2.0 if values.get("schedule") == "continuous" else 1.0
            cost_s = factor * self._n**2 * 1e-9 * 64 / values.get("nt", 64)
            scatter = type(self).scatter(candidate.config) * cost_s
            costs_s = (cost_s, cost_s - scatter, cost_s + scatter)
            yield candidate, MeasureResult(costs_s=costs_s, noise=self.noise)


def text_of(picture: str) -> str:
    """Return all text of an SVG; lines of one text follow each other."""
    drawn = Path(picture).read_text()
    return " ".join(map(html.unescape, re.findall(r"<text [^>]*>([^<]*)</text>", drawn)))
