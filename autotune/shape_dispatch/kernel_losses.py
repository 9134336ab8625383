"""Measures the loss of each shape with each kernel for all sizes.

In: shapes with their best configurations, and candidates. Out: a matrix of losses: the time with a
kernel over the time with the best kernel for the shape, minus 1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotune.errors import UsageError
from autotune.shape_dispatch.candidates import Candidate, TunedShape, candidates_of
from autotune.shape_dispatch.comparison import (
    BenchProcess,
    ComparisonError,
    ProcessEndedError,
    ShapeTimes,
)
from autotune.shape_dispatch.selection import FloatMatrix, promising, select
from autotune.system.words import counted

_log = logging.getLogger(__name__)

# About how long each kernel is timed on a shape in the first comparison, and in each of the last
# ones.
SURVEY_S, FINAL_S = 0.02, 0.05

# Number of passes over all shapes in the final timing. One pass is not enough: another process that
# takes a core for some seconds slows down the parallel kernels that run then, and no others.
PASSES = 3

# Variants for a shape that take at most so many times as long as the fastest one may suit others
# better.
_FAST = 1.1

# Kernels that are timed well: those by which shapes lose least in the first comparison.
PROMISING = 16


@dataclass(frozen=True)
class Kept:
    """The kernels that are kept.

    `losses`: what each shape loses by each of them, also those without records, which are last;
        shape (shapes, kernels).
    `best_s`: seconds of the best kernel of each shape with records.
    `least`: the least that each of these loses by any kernel, kept or not.
    """

    kernels: Sequence[Candidate]
    losses: FloatMatrix
    best_s: Sequence[float]
    least: Sequence[float]


class KernelLosses:
    """Times kernels on shapes; those that end the process are left out from then on.

    `bench`: where they run.
    `names`: the open sizes.
    `notify`: called with a line for each kernel that is left out.
    """

    def __init__(
        self, bench: BenchProcess, names: Sequence[str], notify: Callable[[str], object]
    ) -> None:
        self._bench = bench
        self._names = tuple(names)
        self._notify = notify
        self._ended: dict[str, str] = {}  # why, by the text of a kernel
        self._failed: set[str] = set()
        self._told: set[str] = set()

    def works(self, kernel: Candidate) -> bool:
        """Whether a kernel has not failed for any shape that it should work for."""
        return repr(kernel) not in self._failed

    def distinct_kernels(self, shapes: Sequence[TunedShape]) -> list[Candidate]:
        """Return the fast variants for each shape, those of the same code once.

        UsageError if there is none that works for all sizes.
        """
        found: dict[str, Candidate] = {}
        made = candidates_of(shapes, self._names)
        for number, (shape, variants) in enumerate(zip(shapes, made, strict=True), 1):
            _log.info("shape %d of %d: kernels for all sizes", number, len(shapes))
            try:
                for fast in self._fast(shape, variants, number):
                    found.setdefault(self._bench.call("code", fast), fast)
            except ComparisonError as error:
                self._notify(f"{_text(shape)} makes no kernel for all sizes: {error}")
        if not any(kernel.open_sizes == self._names for kernel in found.values()):
            raise UsageError("no configuration works for all sizes; the warnings above say why")
        return list(found.values())

    def _fast(self, shape: TunedShape, variants: Sequence[Candidate], seed: int) -> list[Candidate]:
        """Return the fast variants for a shape, of each choice of open sizes."""
        variants = [self._bench.call("fitted", variant) for variant in variants]
        timed = self._compared(shape, variants, SURVEY_S, seed)
        if not np.isfinite(timed.costs_s).any():
            raise ComparisonError(next(iter(timed.problems.values())))
        found = [(c, v) for c, v in zip(timed.costs_s, variants, strict=True) if np.isfinite(c)]
        least = dict[tuple[str, ...], float]()
        for cost, variant in found:
            least[variant.open_sizes] = min(cost, least.get(variant.open_sizes, np.inf))
        return [variant for cost, variant in found if cost <= _FAST * least[variant.open_sizes]]

    def measure(
        self,
        shapes: Sequence[TunedShape],
        kernels: Sequence[Candidate],
        seconds: float,
        number: int = 0,
    ) -> tuple[FloatMatrix, list[float]]:
        """Return what each shape loses by each kernel, and the times of their best kernels.

        `number`: of the pass: in each one arrays lie elsewhere, and the order is another one.

        A loss is inf where a kernel cannot be used; one that fails for a shape that it should work
        for cannot be used at all.
        """
        losses, best = np.full((len(shapes), len(kernels)), np.inf), []
        failed: set[int] = set()
        for row, shape in enumerate(shapes):
            _log.info("shape %d of %d: %s", row + 1, len(shapes), counted(len(kernels), "kernel"))
            own = [n for n, kernel in enumerate(kernels) if self._is_for(kernel, shape)]
            seed = number * len(shapes) + row
            rival = () if shape.rival is None else (shape.rival,)
            timed = self._compared(shape, [*(kernels[n] for n in own), *rival], seconds, seed)
            for problem in timed.problems.values():
                self._tell(f"{_text(shape)}: a kernel is left out: {problem}")
            best.append(timed.best_s)
            costs = np.array(timed.costs_s[: len(own)])
            failed.update(n for n, cost in zip(own, costs, strict=True) if not np.isfinite(cost))
            if np.isfinite(timed.best_s):
                losses[row, own] = np.maximum(costs / timed.best_s - 1, 0)
        losses[:, sorted(failed)] = np.inf
        self._failed.update(repr(kernels[n]) for n in failed)
        return losses, best

    def measure_well(
        self, shapes: Sequence[TunedShape], kernels: Sequence[Candidate], seconds: float
    ) -> tuple[FloatMatrix, list[float]]:
        """Return medians of what `measure` returns in some passes over all shapes."""
        passes = [self.measure(shapes, kernels, seconds, number) for number in range(PASSES)]
        losses = np.array([found for found, _ in passes])
        failed = np.isinf(losses).any(axis=0)
        best = np.median([times for _, times in passes], axis=0)
        return np.where(failed, np.inf, np.median(losses, axis=0)), best.tolist()

    def keep(
        self,
        shapes: Sequence[TunedShape],
        between: Sequence[TunedShape],
        kernels: Sequence[Candidate],
        within: float,
        most: int | None,
    ) -> Kept:
        """Return the fewest kernels that keep each shape within a share of its best.

        `between`: shapes without records: they may lose anything, but little in the mean.

        UsageError if no kernel works for all sizes, or too few are allowed.
        """
        survey, _ = self.measure([*shapes, *between], kernels, SURVEY_S)
        limits = [within] * len(shapes) + [np.inf] * len(between)
        everywhere = [n for n, kernel in enumerate(kernels) if kernel.open_sizes == self._names]
        rivals = [kernels[n] for n in survey[len(shapes) :].argmin(axis=1)]
        between = [replace(s, rival=fast) for s, fast in zip(between, rivals, strict=True)]
        losses, best = np.full(survey.shape, np.inf), list[float]()
        usable = list[int]()
        while not usable and np.isfinite(survey[:, everywhere]).any():
            own = list(promising(survey, limits, PROMISING, everywhere))
            _log.info("%s timed again, for longer", counted(len(own), "kernel"))
            losses[:, own], best = self._measured(shapes, between, [kernels[n] for n in own])
            survey[:, own] = np.inf
            usable = [n for n in everywhere if np.isfinite(losses[:, n]).any()]
        try:
            if not usable:
                raise ValueError("no kernel works everywhere")
            kept = list(select(losses, limits, most, usable))
        except ValueError as error:
            raise UsageError(f"dispatch: {error}; the warnings above say why") from error
        least = losses[: len(shapes)].min(axis=1).tolist()
        return Kept([kernels[n] for n in kept], losses[:, kept], best, least)

    def _measured(
        self,
        shapes: Sequence[TunedShape],
        between: Sequence[TunedShape],
        kernels: Sequence[Candidate],
    ) -> tuple[FloatMatrix, list[float]]:
        """Return what all shapes lose by each kernel, timed well, and the best times of the first.

        A column is inf if the kernel has failed.
        """
        losses, best = self.measure_well(shapes, kernels, FINAL_S)
        others, _ = self.measure_well(between, kernels, SURVEY_S)
        every = np.concatenate([losses, others])
        works = [self.works(kernel) for kernel in kernels]
        return np.where(works, every, np.inf), best

    def _is_for(self, kernel: Candidate, shape: TunedShape) -> bool:
        """Whether the sizes that are fixed in a kernel are those of a shape."""
        return all(shape.args[n] == 1 for n in self._names if n not in kernel.open_sizes)

    def _compared(
        self, shape: TunedShape, kernels: Sequence[Candidate], seconds: float, seed: int
    ) -> ShapeTimes:
        """Time kernels on a shape; find out which of them end the process, if one does."""
        key = f"the best kernel of {_text(shape)}"
        known = shape.config is not None and key not in self._ended
        config = dict(shape.config or {}) if known else None
        try:
            return self._without_ended(shape, config, kernels, seconds, seed)
        except ProcessEndedError:
            for kernel in kernels:
                self._try(shape, None, [kernel], repr(kernel))
            if config is not None and not self._try(shape, config, [], key):
                self._tell(f"{key} is left out: {self._ended[key]}")
                config = None
        return self._without_ended(shape, config, kernels, seconds, seed)

    def _try(
        self,
        shape: TunedShape,
        config: dict[str, Any] | None,
        kernels: Sequence[Candidate],
        key: str,
    ) -> bool:
        """Run one kernel alone, and remember if that ends the process."""
        if key not in self._ended:
            try:
                self._bench.call("compare", dict(shape.args), config, kernels, 0.0, 0)
            except ProcessEndedError as error:
                self._ended[key] = str(error)
        return key not in self._ended

    def _without_ended(
        self,
        shape: TunedShape,
        config: dict[str, Any] | None,
        kernels: Sequence[Candidate],
        seconds: float,
        seed: int,
    ) -> ShapeTimes:
        """Time the kernels that have not ended the process."""
        used = [n for n, kernel in enumerate(kernels) if repr(kernel) not in self._ended]
        for n in used:  # each in its own time, as a new process knows none of them
            self._bench.call("compiles", kernels[n])
        given = dict(shape.args), config, [kernels[n] for n in used], seconds, seed
        timed = self._bench.call("compare", *given)
        costs = [np.inf] * len(kernels)
        for n, cost in zip(used, timed.costs_s, strict=True):
            costs[n] = cost
        problems = {used[n] if n >= 0 else n: why for n, why in timed.problems.items()}
        problems |= {n: self._ended[repr(k)] for n, k in enumerate(kernels) if n not in used}
        return ShapeTimes(timed.best_s, tuple(costs), problems)

    def _tell(self, line: str) -> None:
        """Tell what is left out, once."""
        if line not in self._told:
            self._told.add(line)
            self._notify(line)


def _text(shape: TunedShape) -> str:
    return ", ".join(f"{name}={value}" for name, value in shape.args.items() if value != "")
